// The functions of libcuda that the project's host code calls, over devices whose kernels run on the CPU.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../shim/launch.hpp"
#include "device.hpp"
#include "image.hpp"
#include "settings.hpp"

using namespace fake;

#define API extern "C" __attribute__((visibility("default"))) Result

namespace {

struct Module {
  Device &device;
  Image image;
};

struct Function {
  Device &device;
  const host_cuda::Kernel &kernel;
  // The dynamic shared memory that its blocks may have.
  size_t shared = 48 << 10;
};

constexpr int multiprocessors = 4;
// Of a multiprocessor.
constexpr size_t threads_at_once = 2048, shared_at_once = 164 << 10;

// How many blocks of this size fit on a multiprocessor.
size_t blocks_at_once(size_t threads, size_t shared) {
  const size_t by_threads = threads == 0 ? 0 : threads_at_once / threads;
  return shared == 0 ? by_threads : std::min(by_threads, shared_at_once / shared);
}

// A launch with the arguments as they were when it was queued.
struct Launch {
  const host_cuda::Kernel &kernel;
  host_cuda::Launch grid;
  // Each in as many words as it takes.
  std::vector<std::vector<uint64_t>> arguments;
};

// CUDA_KERNEL_NODE_PARAMS_v2 of the driver's header.
struct NodeArguments {
  void *function;
  unsigned blocks[3], threads[3], shared;
  void **arguments, **extra;
  void *kernel, *context;
};

Handles<Event> &events() {
  static auto &all = *new Handles<Event>;
  return all;
}
Handles<Graph> &graphs() {
  static auto &all = *new Handles<Graph>;
  return all;
}
// A graph that was instantiated, under a handle of its own, and what it was made from.
struct Instance {
  Graph graph;
  const Graph *made_from;
};
Handles<Instance> &instances() {
  static auto &all = *new Handles<Instance>;
  return all;
}
Handles<Module> &modules() {
  static auto &all = *new Handles<Module>;
  return all;
}
Handles<Function> &functions() {
  static auto &all = *new Handles<Function>;
  return all;
}

// The stream that the calling thread captures, if any.
thread_local std::weak_ptr<Stream> captures;

Device *device_of(int number) {
  return number >= 0 && size_t(number) < devices().size() ? devices()[size_t(number)].get() : nullptr;
}

Device *device_of(void *context) {
  for (const auto &device : devices()) {
    if (device.get() == context) return device.get();
  }
  return nullptr;
}

// What a call begins with that acts at once, on the device as a whole. A thread that captures may not make such calls: they
// would run now, and not with the graph.
Result at_once() {
  if (const auto stream = captures.lock(); stream != nullptr && stream->capturing()) {
    stream->spoil();
    return CAPTURE_UNSUPPORTED;
  }
  return ready();
}

// The stream of a handle, if the calling thread can use it.
Result stream_of(void *handle, std::shared_ptr<Stream> &stream) {
  if (const Result result = ready(); result != SUCCESS) return result;
  stream = streams().get(handle);
  return stream == nullptr || &stream->device != current() ? INVALID_HANDLE : SUCCESS;
}

// Counts the calls that queue kernels, and refuses the one that the settings name.
bool refused() {
  static std::atomic<uint64_t> calls{0};
  return ++calls == settings().fail_launch;
}

void run(Stream &stream, const Launch &launch) {
  Device &device = stream.device;
  const Settings &set = settings();
  if (set.delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(set.delay_us));
  if (device.count_kernel() == set.lose && device.number == set.lose_device) {
    device.break_down(Result(set.lose_code));
    return;
  }
  std::vector<std::vector<uint64_t>> values = launch.arguments;
  std::vector<void *> arguments;
  for (std::vector<uint64_t> &value : values) arguments.push_back(value.data());
  host_cuda::Launch grid = launch.grid;
  stream.launches++;
  // Each launch has another order; 0 stays the order of the threads' numbers.
  grid.seed = set.seed == 0 ? 0 : set.seed * 0x9e3779b97f4a7c15 + stream.launches;
  const std::string wrong = host_cuda::launch(launch.kernel, grid, arguments.data());
  if (!wrong.empty()) {
    fprintf(stderr, "host CUDA: %s\n", wrong.c_str());
    device.break_down(LAUNCH_FAILED);
  }
}

}  // namespace

// ---- The driver, devices and contexts ----

API cuInit(unsigned) { return settings().devices > 0 ? SUCCESS : NO_DEVICE; }

API cuDriverGetVersion(int *version) {
  *version = settings().version;
  return SUCCESS;
}

API cuDeviceGetCount(int *count) {
  *count = int(devices().size());
  return SUCCESS;
}

API cuDeviceGet(int *device, int number) {
  *device = number;
  return device_of(number) == nullptr ? INVALID_DEVICE : SUCCESS;
}

API cuDeviceGetName(char *name, int room, int) {
  snprintf(name, size_t(room), "Host CUDA");
  return SUCCESS;
}

API cuDeviceGetAttribute(int *value, int attribute, int) {
  switch (attribute) {
    case 1:  // The threads of a block.
      *value = 1024;
      return SUCCESS;
    case 13:  // The clock, in kilohertz.
      *value = 1000000;
      return SUCCESS;
    case 82:  // The registers of a multiprocessor.
      *value = 65536;
      return SUCCESS;
    case 16:  // Multiprocessors.
      *value = multiprocessors;
      return SUCCESS;
    case 95:  // Whether it has cooperative launches.
      *value = 1;
      return SUCCESS;
    case 75:  // The compute capability.
      *value = settings().capability / 10;
      return SUCCESS;
    case 76:
      *value = settings().capability % 10;
      return SUCCESS;
    case 115:  // Memory pools.
      *value = 0;
      return SUCCESS;
    default:
      // None of the others is asked for.
      return INVALID_VALUE;
  }
}

API cuDeviceCanAccessPeer(int *can, int device, int other) {
  *can = device != other;
  return device_of(device) == nullptr || device_of(other) == nullptr ? INVALID_DEVICE : SUCCESS;
}

API cuDevicePrimaryCtxRetain(void **context, int number) {
  Device *device = device_of(number);
  *context = device;
  return device == nullptr ? INVALID_DEVICE : device->broken();
}

API cuDevicePrimaryCtxRelease_v2(int number) { return device_of(number) == nullptr ? INVALID_DEVICE : SUCCESS; }

API cuCtxGetCurrent(void **context) {
  *context = current();
  return SUCCESS;
}

API cuCtxSetCurrent(void *context) {
  if (context != nullptr && device_of(context) == nullptr) return INVALID_CONTEXT;
  current() = device_of(context);
  return SUCCESS;
}

API cuCtxEnablePeerAccess(void *context, unsigned) {
  if (const Result result = ready(); result != SUCCESS) return result;
  Device *other = device_of(context);
  return other == nullptr || other == current() ? INVALID_CONTEXT : SUCCESS;
}

API cuCtxSynchronize() {
  if (const Result result = at_once(); result != SUCCESS) return result;
  for (const auto &stream : current()->streams()) stream->wait();
  return current()->broken();
}

// ---- Memory ----

API cuMemGetInfo_v2(size_t *free, size_t *total) {
  if (const Result result = ready(); result != SUCCESS) return result;
  *total = settings().memory;
  *free = *total - memory().taken(current());
  return SUCCESS;
}

API cuMemAlloc_v2(Address *address, size_t bytes) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  if (bytes == 0) return INVALID_VALUE;
  *address = Address(memory().take(current(), bytes));
  return *address == 0 ? OUT_OF_MEMORY : SUCCESS;
}

// Waits for the device, as the driver does.
API cuMemFree_v2(Address address) {
  if (const Result result = cuCtxSynchronize(); result != SUCCESS) return result;
  return memory().give_back(reinterpret_cast<void *>(address), current()) ? SUCCESS : INVALID_VALUE;
}

API cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  if (bytes == 0) return INVALID_VALUE;
  *pointer = memory().take(nullptr, bytes);
  return *pointer == nullptr ? OUT_OF_MEMORY : SUCCESS;
}

API cuMemFreeHost(void *pointer) {
  if (const Result result = cuCtxSynchronize(); result != SUCCESS) return result;
  return memory().give_back(pointer, nullptr) ? SUCCESS : INVALID_VALUE;
}

API cuMemHostGetDevicePointer_v2(Address *address, void *pointer, unsigned) {
  if (const Result result = ready(); result != SUCCESS) return result;
  *address = Address(pointer);
  return memory().holds(pointer, 1, nullptr) ? SUCCESS : INVALID_VALUE;
}

// Those without a stream act at once and wait for no stream, as the streams of the project are of the kind that the default
// stream does not wait for.

API cuMemsetD8_v2(Address address, unsigned char value, size_t bytes) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  void *to = reinterpret_cast<void *>(address);
  if (!memory().holds(to, bytes, current())) return INVALID_VALUE;
  memset(to, value, bytes);
  return SUCCESS;
}

API cuMemcpyHtoD_v2(Address address, const void *from, size_t bytes) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  void *to = reinterpret_cast<void *>(address);
  if (!memory().holds(to, bytes, current())) return INVALID_VALUE;
  memcpy(to, from, bytes);
  return SUCCESS;
}

API cuMemcpyDtoH_v2(void *to, Address address, size_t bytes) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  const void *from = reinterpret_cast<const void *>(address);
  if (!memory().holds(from, bytes, current())) return INVALID_VALUE;
  memcpy(to, from, bytes);
  return SUCCESS;
}

API cuMemcpyDtoD_v2(Address to_address, Address from_address, size_t bytes) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  void *to = reinterpret_cast<void *>(to_address);
  const void *from = reinterpret_cast<const void *>(from_address);
  if (!memory().holds(to, bytes, current()) || !memory().holds(from, bytes, current())) return INVALID_VALUE;
  memmove(to, from, bytes);
  return SUCCESS;
}

API cuMemcpyDtoDAsync_v2(Address to_address, Address from_address, size_t bytes, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  void *to = reinterpret_cast<void *>(to_address);
  const void *from = reinterpret_cast<const void *>(from_address);
  if (!memory().holds(to, bytes, current()) || !memory().holds(from, bytes, current())) return INVALID_VALUE;
  stream->queue({[=](Stream &) { memmove(to, from, bytes); }});
  return SUCCESS;
}

// Only pinned memory takes a copy that goes on when the call is back.
API cuMemcpyDtoHAsync_v2(void *to, Address address, size_t bytes, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  const void *from = reinterpret_cast<const void *>(address);
  if (!memory().holds(from, bytes, current()) || !memory().holds(to, bytes, nullptr)) return INVALID_VALUE;
  stream->queue({[=](Stream &) { memcpy(to, from, bytes); }});
  return SUCCESS;
}

API cuMemcpyPeerAsync(Address to_address, void *to_context, Address from_address, void *from_context, size_t bytes,
                      void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  const Device *to_device = device_of(to_context), *from_device = device_of(from_context);
  if (to_device == nullptr || from_device == nullptr) return INVALID_CONTEXT;
  void *to = reinterpret_cast<void *>(to_address);
  const void *from = reinterpret_cast<const void *>(from_address);
  if (!memory().holds(to, bytes, to_device) || !memory().holds(from, bytes, from_device)) return INVALID_VALUE;
  stream->queue({[=](Stream &) { memmove(to, from, bytes); }});
  return SUCCESS;
}

// ---- Streams, events ----

API cuStreamCreate(void **handle, unsigned flags) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  // The default stream of the driver waits for all others; none of those is modelled.
  if (flags != 1) return INVALID_VALUE;
  *handle = streams().add(Stream::open(*current()));
  return SUCCESS;
}

API cuStreamDestroy_v2(void *handle) {
  const auto stream = streams().remove(handle);
  if (stream == nullptr) return INVALID_HANDLE;
  stream->close();
  return SUCCESS;
}

API cuStreamSynchronize(void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  if (stream->capturing()) {
    stream->spoil();
    return CAPTURE_UNSUPPORTED;
  }
  stream->wait();
  return stream->device.broken();
}

API cuStreamQuery(void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  if (stream->capturing()) {
    stream->spoil();
    return CAPTURE_UNSUPPORTED;
  }
  const bool idle = stream->idle();
  const Result broken = stream->device.broken();
  return broken != SUCCESS ? broken : idle ? SUCCESS : NOT_READY;
}

API cuEventCreate(void **handle, unsigned) {
  if (const Result result = ready(); result != SUCCESS) return result;
  *handle = events().add(std::make_shared<Event>());
  return SUCCESS;
}

// Streams that wait for it keep it.
API cuEventDestroy_v2(void *handle) { return events().remove(handle) == nullptr ? INVALID_HANDLE : SUCCESS; }

API cuEventRecord(void *event_handle, void *handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  const auto event = events().get(event_handle);
  if (event == nullptr) return INVALID_HANDLE;
  // Events inside of graphs are not modelled.
  if (stream->capturing()) return CAPTURE_UNSUPPORTED;
  uint64_t number;
  {
    std::lock_guard lock(event->mutex);
    number = ++event->recorded;
  }
  const auto reach = [=](Stream &) {
    std::lock_guard lock(event->mutex);
    event->reached = number;
    event->changed.notify_all();
  };
  stream->queue({reach, true});
  return SUCCESS;
}

// Waits for what is recorded now, whatever is recorded later.
API cuStreamWaitEvent(void *handle, void *event_handle, unsigned) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  const auto event = events().get(event_handle);
  if (event == nullptr) return INVALID_HANDLE;
  if (stream->capturing()) return CAPTURE_UNSUPPORTED;
  uint64_t number;
  {
    std::lock_guard lock(event->mutex);
    number = event->recorded;
  }
  stream->queue({[=](Stream &) {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return event->reached >= number; });
  }});
  return SUCCESS;
}

// ---- Modules and launches ----

API cuModuleLoadData(void **handle, const void *data) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  const auto image = Image::read(static_cast<const char *>(data));
  if (!image.has_value()) return INVALID_IMAGE;
  // It stays, as kernels are known by their addresses.
  if (!image->library.empty() && dlopen(image->library.c_str(), RTLD_NOW) == nullptr) return INVALID_IMAGE;
  *handle = modules().add(std::make_shared<Module>(Module{*current(), *image}));
  return SUCCESS;
}

API cuModuleUnload(void *handle) { return modules().remove(handle) == nullptr ? INVALID_HANDLE : SUCCESS; }

API cuModuleGetFunction(void **handle, void *module_handle, const char *name) {
  const auto module = modules().get(module_handle);
  if (module == nullptr) return INVALID_HANDLE;
  if (!module->image.has(name)) return NOT_FOUND;
  const host_cuda::Kernel *kernel = host_cuda::find(name, module->image.element);
  if (kernel == nullptr) return NOT_FOUND;
  *handle = functions().add(std::make_shared<Function>(Function{module->device, *kernel}));
  return SUCCESS;
}

API cuFuncSetAttribute(void *handle, int attribute, int value) {
  const auto function = functions().get(handle);
  if (function == nullptr) return INVALID_HANDLE;
  // The most dynamic shared memory. None of the others is set.
  if (attribute != 8 || value < 0 || size_t(value) > host_cuda::shared_bytes_of_a_block) return INVALID_VALUE;
  function->shared = size_t(value);
  return SUCCESS;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *handle, int threads, size_t shared) {
  if (functions().get(handle) == nullptr) return INVALID_HANDLE;
  if (threads <= 0) return INVALID_VALUE;
  *blocks = int(blocks_at_once(size_t(threads), shared));
  return SUCCESS;
}

// The work of a launch, with a copy of its arguments.
static Result work_of(const Function &function, host_cuda::Launch grid, void **arguments, Work &work) {
  const host_cuda::Kernel &kernel = function.kernel;
  if (arguments == nullptr && kernel.arguments > 0) return INVALID_VALUE;
  Launch launch{kernel, grid, {}};
  size_t bytes = 0;
  for (size_t argument = 0; argument < kernel.arguments; argument++) {
    std::vector<uint64_t> value((kernel.sizes[argument] + 7) / 8);
    memcpy(value.data(), arguments[argument], kernel.sizes[argument]);
    bytes += 8 * value.size();
    launch.arguments.push_back(std::move(value));
  }
  // What parameters have room for on every device.
  if (bytes > 4096) return INVALID_VALUE;
  if (!host_cuda::possible(launch.grid) || grid.shared > function.shared) return INVALID_VALUE;
  const size_t blocks = size_t(grid.blocks.x) * grid.blocks.y * grid.blocks.z;
  const size_t threads = size_t(grid.threads.x) * grid.threads.y * grid.threads.z;
  if (grid.together && blocks > multiprocessors * blocks_at_once(threads, grid.shared)) return COOPERATIVE_LAUNCH_TOO_LARGE;
  work = {[launch](Stream &on) { run(on, launch); }, false, &kernel};
  return SUCCESS;
}

static Result queue_kernel(void *function_handle, host_cuda::Launch grid, void *handle, void **arguments) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  const auto function = functions().get(function_handle);
  if (function == nullptr || &function->device != &stream->device) return INVALID_HANDLE;
  if (refused()) return Result(settings().fail_code);
  Work work;
  if (const Result result = work_of(*function, grid, arguments, work); result != SUCCESS) return result;
  stream->queue(std::move(work));
  return SUCCESS;
}

API cuLaunchKernel(void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared, void *stream, void **arguments, void **extra) {
  if (extra != nullptr) return INVALID_VALUE;
  const host_cuda::Launch grid{{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared};
  return queue_kernel(function, grid, stream, arguments);
}

API cuLaunchCooperativeKernel(void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                              unsigned threads_y, unsigned threads_z, unsigned shared, void *stream, void **arguments) {
  const host_cuda::Launch grid{{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared, 0, true};
  return queue_kernel(function, grid, stream, arguments);
}

// What a launch is told beside its kernel, as the driver's header has it.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    unsigned cluster[3];
    int flag;
    char bytes[64];
  } value;
};

struct LaunchConfig {
  unsigned blocks[3], threads[3], shared;
  void *stream;
  const LaunchAttribute *attributes;
  unsigned count;
};

// Those that the host code sets.
enum Attribute : int { COOPERATIVE = 2, CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };

static Result grid_of(const LaunchConfig &config, host_cuda::Launch &grid) {
  const unsigned *blocks = config.blocks, *threads = config.threads;
  grid = {{blocks[0], blocks[1], blocks[2]}, {threads[0], threads[1], threads[2]}, config.shared};
  for (unsigned at = 0; at < config.count; at++) {
    const LaunchAttribute &attribute = config.attributes[at];
    const unsigned *cluster = attribute.value.cluster;
    switch (attribute.id) {
      case COOPERATIVE:
        grid.together = attribute.value.flag != 0;
        break;
      case CLUSTER_DIMENSION:
        if (settings().capability < 90) return INVALID_CLUSTER_SIZE;
        grid.cluster = {cluster[0], cluster[1], cluster[2]};
        break;
      // A kernel that begins early waits for the one before it in any case; here it begins late.
      case PROGRAMMATIC_STREAM_SERIALIZATION:
        break;
      default:
        return INVALID_VALUE;
    }
  }
  return SUCCESS;
}

API cuLaunchKernelEx(const LaunchConfig *config, void *function, void **arguments, void **extra) {
  if (extra != nullptr) return INVALID_VALUE;
  host_cuda::Launch grid;
  if (const Result result = grid_of(*config, grid); result != SUCCESS) return result;
  return queue_kernel(function, grid, config->stream, arguments);
}

API cuOccupancyMaxActiveClusters(int *clusters, void *handle, const LaunchConfig *config) {
  if (functions().get(handle) == nullptr) return INVALID_HANDLE;
  host_cuda::Launch grid;
  if (const Result result = grid_of(*config, grid); result != SUCCESS) return result;
  if (!host_cuda::possible(grid)) return INVALID_CLUSTER_SIZE;
  const size_t threads = size_t(grid.threads.x) * grid.threads.y * grid.threads.z;
  const size_t blocks = multiprocessors * blocks_at_once(threads, grid.shared);
  *clusters = int(blocks / (size_t(grid.cluster.x) * grid.cluster.y * grid.cluster.z));
  return SUCCESS;
}

// ---- Graphs ----

API cuStreamBeginCapture_v2(void *handle, int) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  if (stream->capturing()) return CAPTURE_UNSUPPORTED;
  stream->capture();
  captures = stream;
  return SUCCESS;
}

API cuStreamEndCapture(void *handle, void **graph_handle) {
  *graph_handle = nullptr;
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(handle, stream); result != SUCCESS) return result;
  if (!stream->capturing()) return INVALID_VALUE;
  captures.reset();
  auto graph = stream->captured();
  if (graph == nullptr) return CAPTURE_INVALIDATED;
  *graph_handle = graphs().add(std::move(graph));
  return SUCCESS;
}

API cuGraphInstantiateWithFlags(void **handle, void *graph_handle, unsigned long long) {
  if (const Result result = at_once(); result != SUCCESS) return result;
  const auto graph = graphs().get(graph_handle);
  if (graph == nullptr) return INVALID_HANDLE;
  *handle = instances().add(std::make_shared<Instance>(Instance{*graph, graph.get()}));
  return SUCCESS;
}

// A captured graph is a chain of nodes, so its root is the first. The graph's own handle stands for it.
API cuGraphGetRootNodes(void *handle, void **nodes, size_t *count) {
  const auto graph = graphs().get(handle);
  if (graph == nullptr) return INVALID_HANDLE;
  if (graph->work.empty() || *count == 0) return INVALID_VALUE;
  nodes[0] = handle;
  *count = 1;
  return SUCCESS;
}

// Launches that are queued keep the arguments that they had.
API cuGraphExecKernelNodeSetParams_v2(void *handle, void *node, const NodeArguments *arguments) {
  if (const Result result = ready(); result != SUCCESS) return result;
  const auto instance = instances().get(handle);
  if (instance == nullptr || graphs().get(node) == nullptr || instance->made_from != node) return INVALID_HANDLE;
  const auto function = functions().get(arguments->function);
  if (function == nullptr) return INVALID_HANDLE;
  Work &first = instance->graph.work[0];
  const unsigned *size = arguments->blocks, *threads = arguments->threads;
  const host_cuda::Launch grid{{size[0], size[1], size[2]}, {threads[0], threads[1], threads[2]}, arguments->shared};
  // Another kernel could need what the graph does not have.
  if (first.kernel != &function->kernel || arguments->extra != nullptr || arguments->kernel != nullptr) return INVALID_VALUE;
  return work_of(*function, grid, arguments->arguments, first);
}

API cuGraphDestroy(void *handle) { return graphs().remove(handle) == nullptr ? INVALID_HANDLE : SUCCESS; }

API cuGraphExecDestroy(void *handle) { return instances().remove(handle) == nullptr ? INVALID_HANDLE : SUCCESS; }

API cuGraphUpload(void *handle, void *stream_handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(stream_handle, stream); result != SUCCESS) return result;
  return instances().get(handle) == nullptr ? INVALID_HANDLE : SUCCESS;
}

API cuGraphLaunch(void *handle, void *stream_handle) {
  std::shared_ptr<Stream> stream;
  if (const Result result = stream_of(stream_handle, stream); result != SUCCESS) return result;
  const auto instance = instances().get(handle);
  if (instance == nullptr) return INVALID_HANDLE;
  if (stream->capturing()) return CAPTURE_UNSUPPORTED;
  if (refused()) return Result(settings().fail_code);
  stream->queue(instance->graph);
  return SUCCESS;
}

// ---- Errors ----

namespace {

struct Wording {
  int result;
  const char *name, *text;
};

constexpr Wording wordings[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {COOPERATIVE_LAUNCH_TOO_LARGE, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
};

const Wording *wording(int result) {
  for (const Wording &wording : wordings) {
    if (wording.result == result) return &wording;
  }
  return nullptr;
}

}  // namespace

API cuGetErrorName(int result, const char **name) {
  const Wording *found = wording(result);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? INVALID_VALUE : SUCCESS;
}

API cuGetErrorString(int result, const char **text) {
  const Wording *found = wording(result);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? INVALID_VALUE : SUCCESS;
}
