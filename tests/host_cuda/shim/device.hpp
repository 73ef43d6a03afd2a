// CUDA C++ as kernels see it, for the host's compiler.
//
// This header is included in front of every kernel file (`-include`), so that the same source that goes to NVRTC compiles
// here and runs on the CPU: each CUDA thread of a launch is a fiber, and all fibers of a launch share one thread of the
// host. They change places where CUDA threads meet (barriers, shuffles) and, in launches with a seed, at atomics.
//
// Neither it nor what it includes declares C's `signal`, since kernels may have that name.
#pragma once

#include <math.h>

#include "threads.hpp"

// Kernel files ask for it where the device needs PTX and the host a function's body.
#define HOST_CUDA 1

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __grid_constant__

namespace host_cuda {

template <class T>
inline T exchange(Site site, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>, "a register's value");
  Exchange exchange;
  memcpy(&exchange.brought, &value, sizeof value);
  exchange.source = source;
  meet_warp(site, mask, exchange);
  memcpy(&value, &exchange.taken, sizeof value);
  return value;
}

inline unsigned vote(Site site, unsigned mask, bool yes) {
  Exchange exchange;
  exchange.brought = yes;
  exchange.source = lane();
  meet_warp(site, mask, exchange);
  return exchange.votes;
}

// The lane of a shuffle, which stays in a segment of the warp: a lane that would leave it takes its own value.
inline unsigned within(unsigned width, int source) {
  const int own = static_cast<int>(lane()), first = own & ~static_cast<int>(width - 1);
  return static_cast<unsigned>(source >= first && source < first + static_cast<int>(width) ? source : own);
}

template <class T, class Change>
inline T change(T *address, Change next) {
  interleave();
  T old, changed;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do {
    changed = next(old);
  } while (!__atomic_compare_exchange(address, &old, &changed, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

}  // namespace host_cuda

#define threadIdx (host_cuda::here().thread)
#define blockIdx (host_cuda::here().block)
#define blockDim (host_cuda::here().threads)
#define gridDim (host_cuda::here().blocks)
#define warpSize 32

// Shared memory, for the macros of the kernels: an array of the block, and what the launch gives it.
#define HOST_SHARED(type, name, count) \
  static char name##_key;              \
  type *name = static_cast<type *>(host_cuda::static_shared(&name##_key, sizeof(type) * (count)))
#define HOST_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(host_cuda::dynamic_shared())

// A number that keeps kernels of one name apart which were compiled with different constants.
#ifndef HOST_CUDA_VARIANT
#define HOST_CUDA_VARIANT ELEMENT
#endif

// Behind a kernel: makes it known by its name and variant.
#define EXPORT_KERNEL(name) \
  [[maybe_unused]] static const bool name##_exported = host_cuda::Exported<&name>::add(#name, HOST_CUDA_VARIANT);

// The line of the caller; to be the default of the last parameter.
#define HOST_LINE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define HOST_SITE(call) (host_cuda::Site{call, file, line})

// What a loop does that waits for memory to change.
static inline void host_poll(HOST_LINE) { host_cuda::poll(HOST_SITE("a poll")); }

// The barrier of a cluster in its two halves.
static inline void host_cluster_arrive(HOST_LINE) { host_cuda::arrive_cluster(HOST_SITE("a cluster's arrival")); }
static inline void host_cluster_wait(HOST_LINE) { host_cuda::wait_cluster(HOST_SITE("a cluster's wait")); }

// What `mapa` does: the address of the same thing in the shared memory of another block of the cluster.
template <class T>
static inline T *host_cluster_shared(T *own, unsigned rank, HOST_LINE) {
  return static_cast<T *>(host_cuda::cluster_shared(own, rank, HOST_SITE("an address in a cluster")));
}

// The clock of a multiprocessor: it counts how often it is looked at, so that what is measured by it is always the same.
static inline unsigned long long host_clock() {
  static unsigned long long looks = 0;
  return __atomic_add_fetch(&looks, 1ull, __ATOMIC_RELAXED);
}

static inline void __syncthreads(HOST_LINE) { host_cuda::meet_block(HOST_SITE("__syncthreads")); }

static inline void __syncwarp(unsigned mask = ~0u, HOST_LINE) {
  host_cuda::Exchange nothing;
  nothing.source = host_cuda::lane();
  host_cuda::meet_warp(HOST_SITE("__syncwarp"), mask, nothing);
}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, HOST_LINE) {
  const unsigned first = host_cuda::lane() & ~static_cast<unsigned>(width - 1);
  const unsigned lane = first | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1));
  return host_cuda::exchange(HOST_SITE("__shfl_sync"), mask, value, lane);
}

template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, HOST_LINE) {
  const int lane = static_cast<int>(host_cuda::lane()) ^ bits;
  return host_cuda::exchange(HOST_SITE("__shfl_xor_sync"), mask, value, host_cuda::within(width, lane));
}

template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, HOST_LINE) {
  const int lane = static_cast<int>(host_cuda::lane() + by);
  return host_cuda::exchange(HOST_SITE("__shfl_down_sync"), mask, value, host_cuda::within(width, lane));
}

template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, HOST_LINE) {
  const int lane = static_cast<int>(host_cuda::lane()) - static_cast<int>(by);
  return host_cuda::exchange(HOST_SITE("__shfl_up_sync"), mask, value, host_cuda::within(width, lane));
}

static inline unsigned __ballot_sync(unsigned mask, int yes, HOST_LINE) {
  return host_cuda::vote(HOST_SITE("__ballot_sync"), mask, yes != 0);
}

static inline int __any_sync(unsigned mask, int yes, HOST_LINE) {
  return host_cuda::vote(HOST_SITE("__any_sync"), mask, yes != 0) != 0;
}

static inline int __all_sync(unsigned mask, int yes, HOST_LINE) {
  return host_cuda::vote(HOST_SITE("__all_sync"), mask, yes == 0) == 0;
}

// A warp's part of a product of tiles, as the kernels' `multiply_tile` tells it: all lanes bring theirs, and the last multiplies.
// It is of no concern to a sanitizer of threads what lanes tell each other here, on stacks that others had before.
template <class WordProduct, class Sums, class Left, class Right>
struct HostTiles {
  Sums sums;
  Left left;
  Right right;

  __attribute__((no_sanitize("thread"))) static void act(const uint64_t *brought) {
    double products[16][8] = {};
    for (unsigned row = 0; row < 16; row++) {
      for (unsigned column = 0; column < 8; column++) {
        for (unsigned word = 0; word < 8; word++) {
          const auto &of_row = *reinterpret_cast<const HostTiles *>(brought[row % 8 * 4 + word % 4]);
          const auto &of_column = *reinterpret_cast<const HostTiles *>(brought[column * 4 + word % 4]);
          products[row][column] += WordProduct::of(of_row.left.at[row / 8 + 2 * (word / 4)], of_column.right.at[word / 4]);
        }
      }
    }
    for (unsigned lane = 0; lane < 32; lane++) {
      for (unsigned sum = 0; sum < 4; sum++) {
        float &theirs = reinterpret_cast<HostTiles *>(brought[lane])->sums.at[sum];
        theirs = static_cast<float>(theirs + products[lane / 4 + 8 * (sum / 2)][2 * (lane % 4) + sum % 2]);
      }
    }
  }
};

template <class WordProduct, class Sums, class Left, class Right>
__attribute__((no_sanitize("thread"))) static Sums host_multiply_tile(Sums sums, Left left, Right right, HOST_LINE) {
  HostTiles<WordProduct, Sums, Left, Right> own = {sums, left, right};
  host_cuda::Exchange exchange;
  exchange.brought = reinterpret_cast<uint64_t>(&own);
  exchange.source = host_cuda::lane();
  exchange.act = own.act;
  host_cuda::meet_warp(HOST_SITE("a product of tiles"), ~0u, exchange);
  return own.sums;
}

// As on the device, atomics order nothing but themselves. The second parameter's type is not deduced, so that a literal fits.
template <class T>
static inline T atomicAdd(T *address, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T old) { return static_cast<T>(old + value); });
}

template <class T>
static inline T atomicMax(T *address, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T old) { return old < value ? value : old; });
}

template <class T>
static inline T atomicMin(T *address, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T old) { return value < old ? value : old; });
}

template <class T>
static inline T atomicOr(T *address, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T old) { return static_cast<T>(old | value); });
}

template <class T>
static inline T atomicExch(T *address, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T) { return value; });
}

template <class T>
static inline T atomicCAS(T *address, std::common_type_t<T> expected, std::common_type_t<T> value) {
  return host_cuda::change(address, [=](T old) { return old == expected ? value : old; });
}

static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T>
static inline T __ldg(const T *address) {
  return *address;
}

template <class To, class From>
static inline To host_bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

static inline unsigned __float_as_uint(float value) { return host_bits<unsigned>(value); }
static inline int __float_as_int(float value) { return host_bits<int>(value); }
static inline float __uint_as_float(unsigned bits) { return host_bits<float>(bits); }
static inline float __int_as_float(int bits) { return host_bits<float>(bits); }

static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }

#define __expf expf
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

template <class T>
static inline T min(T a, std::common_type_t<T> b) {
  return b < a ? b : a;
}
template <class T>
static inline T max(T a, std::common_type_t<T> b) {
  return a < b ? b : a;
}
