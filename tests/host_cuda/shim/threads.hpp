// What the threads of a launch ask of the shim, and kernels by their names.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define HOST_CUDA_API __attribute__((visibility("default")))

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace host_cuda {

// Where a thread of a launch is.
struct Place {
  dim3 thread, block, threads, blocks;
};

// A line of a kernel at which threads meet. Reports name it.
struct Site {
  const char *call;
  const char *file;
  int line;
};

// What a thread brings to a meeting of its warp, and takes from it.
struct Exchange {
  uint64_t brought = 0;
  // The lane whose value this thread takes.
  unsigned source = 0;
  uint64_t taken = 0;
  // A bit for each lane that brought a 1 in its lowest bit.
  unsigned votes = 0;
  // What the last lane to come does for all, with what each has brought; nothing if lanes only take values.
  void (*act)(const uint64_t *brought) = nullptr;
};

// The thread that runs.
HOST_CUDA_API const Place &here();
// Its number in the warp.
HOST_CUDA_API unsigned lane();
// Waits for all threads of the block.
HOST_CUDA_API void meet_block(Site site);
// Waits for the lanes of the mask, each of which comes with the same mask at the same line.
HOST_CUDA_API void meet_warp(Site site, unsigned mask, Exchange &exchange);
// Another thread may run here. What kernels do with memory that other threads change is preceded by it.
HOST_CUDA_API void interleave();
// The thread has looked at memory that another is to change, in vain: all others come before it looks again.
HOST_CUDA_API void poll(Site site);
// The thread's part of the cluster's barrier: it has come, and waits until all others that have not ended have.
HOST_CUDA_API void arrive_cluster(Site site);
HOST_CUDA_API void wait_cluster(Site site);
// The block's number in its cluster.
HOST_CUDA_API unsigned cluster_rank();
// Where another block of the cluster has in its shared memory what this block has here.
HOST_CUDA_API void *cluster_shared(void *own, unsigned rank, Site site);
// The block's array of this key, made when the first thread asks for it. Nothing is in it but poison.
HOST_CUDA_API void *static_shared(const void *key, size_t bytes);
// The shared memory that the launch gives to each block.
HOST_CUDA_API void *dynamic_shared();

// A kernel that can be launched by its name.
struct Kernel {
  const char *name;
  // The variant's number, as in -DELEMENT=…
  int element;
  // The bytes of each argument, in order.
  const size_t *sizes;
  size_t arguments;
  // Runs the calling thread's part.
  void (*run)(void **arguments);
};

HOST_CUDA_API bool add(const Kernel &kernel);

template <auto function>
struct Exported;

template <class... Arguments, void (*function)(Arguments...)>
struct Exported<function> {
  static_assert((std::is_trivially_copyable_v<Arguments> && ...), "arguments are copied byte by byte");

  template <size_t... index>
  static void call(void **arguments, std::index_sequence<index...>) {
    function(*static_cast<std::remove_const_t<Arguments> *>(arguments[index])...);
  }

  static void run(void **arguments) { call(arguments, std::index_sequence_for<Arguments...>{}); }

  static bool add(const char *name, int element) {
    static constexpr size_t sizes[] = {sizeof(Arguments)..., 0};
    return host_cuda::add({name, element, sizes, sizeof...(Arguments), run});
  }
};

}  // namespace host_cuda
