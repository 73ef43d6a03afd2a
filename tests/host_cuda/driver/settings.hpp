// What the environment says of the devices. Each variable begins with HOST_CUDA_.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake {

struct Settings {
  // DEVICES: how many there are; with 0 the driver says that there is none.
  int devices;
  // VERSION: the driver's, as 12080 for CUDA 12.8.
  int version;
  // CAPABILITY: the compute capability of each device, as 80 for 8.0.
  int capability;
  // MEMORY: the bytes of each device.
  size_t memory;
  // SEED: 0 runs threads in the order of their numbers; anything else is the seed of a random order.
  uint64_t seed;
  // DELAY_US: how long each launch takes beside what it computes.
  unsigned delay_us;
  // FAIL_LAUNCH, FAIL_CODE: the number, from 1, of the call that queues a kernel or a graph and is refused, and the error
  // that it gives.
  uint64_t fail_launch;
  int fail_code;
  // LOSE, LOSE_DEVICE, LOSE_CODE: the number, from 1, of the kernel that breaks a device; which device, and the error that
  // it gives from then on.
  uint64_t lose;
  int lose_device;
  int lose_code;
};

// Read once.
const Settings &settings();

}  // namespace fake
