// Sums over the threads of a work group: persistent kernels add up their dot products with them, and micro-benchmarks measure
// them.

#ifndef BATCHLAB_GRNN_SUMS
#define BATCHLAB_GRNN_SUMS

#include "portable.cuh"

// Adds up arrays of numbers over the lanes of a group, number by number, by halves: of two lanes each keeps one half of the
// numbers and passes the other. In the end lane n has the sum of the n-th numbers, for every n below COUNT.
template <u32 COUNT, u32 LANES>
__device__ __forceinline__ float summed(const float (&numbers)[COUNT], u32 lane) {
  constexpr u32 SPREAD = COUNT <= 1 ? 1 : COUNT <= 2 ? 2 : COUNT <= 4 ? 4 : COUNT <= 8 ? 8 : COUNT <= 16 ? 16 : 32;
  static_assert(COUNT <= LANES, "a lane for each sum");
  float left[SPREAD];
#pragma unroll
  for (u32 n = 0; n < SPREAD; n++) left[n] = n < COUNT ? numbers[n] : 0;
#pragma unroll
  for (u32 half = SPREAD / 2; half > 0; half /= 2) {
    const bool upper = lane & half;
#pragma unroll
    for (u32 n = 0; n < half; n++) {
      const float away = upper ? left[n] : left[n + half];
      left[n] = (upper ? left[n + half] : left[n]) + __shfl_xor_sync(EVERY_LANE, away, half);
    }
  }
#pragma unroll
  for (u32 reach = SPREAD; reach < LANES; reach *= 2) left[0] += __shfl_xor_sync(EVERY_LANE, left[0], reach);
  return left[0];
}

#endif
