// The kernels by name, and what tests call.
#include <cstdio>
#include <deque>
#include <mutex>

#include "launch.hpp"

namespace host_cuda {

// Made when the first kernel asks for it, since kernels make themselves known before `main`, in any order. Those that look a
// kernel up keep its address, which a deque does not change; and it stays until the process ends, when some may still run.
static std::deque<Kernel> &kernels() {
  static auto &all = *new std::deque<Kernel>;
  return all;
}

// Libraries of kernels are loaded by any thread, while others look theirs up.
static std::recursive_mutex &mutex() {
  static auto &only = *new std::recursive_mutex;
  return only;
}

bool add(const Kernel &kernel) {
  std::lock_guard lock(mutex());
  if (find(kernel.name, kernel.element) != nullptr) return false;
  kernels().push_back(kernel);
  return true;
}

const Kernel *find(const char *name, int element) {
  std::lock_guard lock(mutex());
  for (const Kernel &kernel : kernels()) {
    if (kernel.element == element && strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

}  // namespace host_cuda

extern "C" HOST_CUDA_API const void *host_kernel(const char *name, int element) {
  return host_cuda::find(name, element);
}

// Runs a kernel to its end, and returns 0; or writes what is wrong, as much of it as there is room for, and returns 1.
extern "C" HOST_CUDA_API int host_launch(const void *kernel, const unsigned grid[3], const unsigned block[3], size_t shared,
                                         void **arguments, unsigned long long seed, int together, unsigned cluster,
                                         char *message, size_t room) {
  const host_cuda::Launch launch{
      {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, seed, together != 0, {cluster, 1, 1}};
  const std::string failure = host_cuda::launch(*static_cast<const host_cuda::Kernel *>(kernel), launch, arguments);
  if (failure.empty()) return 0;
  if (room > 0) snprintf(message, room, "%s", failure.c_str());
  return 1;
}
