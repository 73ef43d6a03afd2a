// Devices, and what is made on them: memory, streams, events, graphs.
//
// Only what the project's host code relies on is modelled, but that as CUDA has it: what is queued runs later, on a thread of
// the stream's; copies are checked against the memory that was taken; a wait for an event is for what was recorded before it;
// an error of a kernel stays.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

// The driver's results, as its header numbers them.
enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  LAUNCH_OUT_OF_RESOURCES = 701,
  PEER_ACCESS_ALREADY_ENABLED = 704,
  LAUNCH_FAILED = 719,
  COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  INVALID_CLUSTER_SIZE = 912,
  CAPTURE_UNJOINED = 904,
};

using Address = uint64_t;

class Device;

class Stream;

// What a stream does at its turn, with the stream that it then is on: that of a graph's launch need not be that of its capture.
struct Work {
  std::function<void(Stream &)> act;
  // Also on a device that is broken: others may wait for it.
  bool always = false;
  // The kernel that it launches, if it does.
  const void *kernel = nullptr;
};

struct Graph {
  std::vector<Work> work;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // Opens it, with a thread that ends when the stream is closed and its work is done.
  static std::shared_ptr<Stream> open(Device &device);

  // Queues work, or adds it to the graph that is captured.
  void queue(Work work);
  // Queues all of it, with nothing between.
  void queue(const Graph &graph);
  bool idle();
  void wait();
  void close();

  void capture();
  bool capturing();
  // A call that a capture does not survive.
  void spoil();
  // Ends a capture; nothing if it was spoilt.
  std::unique_ptr<Graph> captured();

  Device &device;
  // Launches that have run, which seeds of thread orders go on with.
  uint64_t launches = 0;

 private:
  explicit Stream(Device &device) : device(device) {}
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queued_;
  std::unique_ptr<Graph> graph_;
  bool busy_ = false, closed_ = false, spoilt_ = false;
};

struct Event {
  // How often it was recorded, and how often that record's turn has come.
  uint64_t recorded = 0, reached = 0;
  std::mutex mutex;
  std::condition_variable changed;
};

// The memory of a device, or of the host for all of them.
class Memory {
 public:
  // Takes memory, filled with poison; nothing if the device has no room for it.
  void *take(Device *device, size_t bytes);
  // Gives it back; false if it was not taken, or not so.
  bool give_back(void *memory, Device *device);
  // Whether all these bytes are of one piece of memory of the device, or of pinned memory of the host without one.
  bool holds(const void *memory, size_t bytes, const Device *device);
  size_t taken(const Device *device);

 private:
  struct Piece {
    size_t bytes;
    Device *device;
  };
  std::mutex mutex_;
  std::map<uintptr_t, Piece> pieces_;
};

class Device {
 public:
  explicit Device(int number) : number(number) {}

  // The error that stays, once a kernel has broken the device.
  Result broken();
  void break_down(Result error);

  void opened(const std::shared_ptr<Stream> &stream);
  std::vector<std::shared_ptr<Stream>> streams();

  // Counts a kernel that runs, from 1.
  uint64_t count_kernel();

  const int number;

 private:
  std::mutex mutex_;
  Result broken_ = SUCCESS;
  uint64_t kernels_ = 0;
  std::vector<std::weak_ptr<Stream>> streams_;
};

// Objects that the program has handles of. A handle that is not, or no longer, one of them is found out.
template <class T>
class Handles {
 public:
  void *add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    void *handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }

  std::shared_ptr<T> get(const void *handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<T> remove(const void *handle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  std::mutex mutex_;
  std::map<const void *, std::shared_ptr<T>> objects_;
};

// All of them. They stay until the process ends, since threads of streams may outlive `main`.
std::vector<std::unique_ptr<Device>> &devices();
Memory &memory();
Handles<Stream> &streams();

// The device whose context is the calling thread's; nothing if there is none.
Device *&current();

// What a call that only needs a device begins with: no context, or a device that is broken.
Result ready();

}  // namespace fake
