// Runs a launch: all threads of all its blocks, as fibers of the calling thread.
#pragma once

#include <cstdint>
#include <string>

#include "threads.hpp"

namespace host_cuda {

// What a device of compute capability 7.0 can do at least, and no kernel of ours needs more.
constexpr unsigned threads_of_a_block = 1024;
constexpr size_t static_bytes_of_a_block = 48 << 10;
constexpr size_t shared_bytes_of_a_block = 96 << 10;
// Without asking for more than all devices with clusters have.
constexpr unsigned blocks_of_a_cluster = 8;

struct Launch {
  dim3 blocks, threads;
  // The dynamic shared memory of a block.
  size_t shared = 0;
  // 0: threads run in the order of their numbers. Anything else is the seed of a random order.
  uint64_t seed = 0;
  // Whether all blocks are there from the beginning, as in a cooperative launch. Otherwise blocks may begin when others end.
  bool together = false;
  // The blocks of a cluster, which are there at the same time. They divide the grid.
  dim3 cluster = {};
};

// Whether a device accepts a launch.
HOST_CUDA_API bool possible(const Launch &launch);

// Runs a kernel to its end. Returns what is wrong with it, or nothing: a launch that no device accepts, threads that wait
// for each other for ever (DEADLOCK) or for memory that no thread changes (LIVELOCK), threads that part ways where all have to come
// along (DIVERGENCE). A kernel with such a mistake is left where it is.
HOST_CUDA_API std::string launch(const Kernel &kernel, const Launch &launch, void **arguments);

// The kernel of this name and variant; nothing if there is none.
HOST_CUDA_API const Kernel *find(const char *name, int element);

}  // namespace host_cuda
