// Kernels whose times are floors of all others: one is only launched, the other only reads.

#include "portable.cuh"

// Is only launched. The condition never holds; it keeps the kernel from being empty.
KERNEL launched(u32 number, u32 *result) {
  if (number == NOWHERE) *result = number;
}
EXPORT_KERNEL(launched)

// Reads `count` numbers, a multiple of four, once in each round, past the caches that multiprocessors do not share.
// Each thread adds up what it reads, so that all of it is read.
KERNEL read_again(u32 rounds, u32 count, const float *__restrict__ numbers, float *__restrict__ results) {
  // The number of a thread's loads in flight.
  constexpr u32 AHEAD = 8;
  const u32 thread = blockIdx.x * BLOCK + threadIdx.x, threads = gridDim.x * BLOCK, packs = count / 4;
  Pack<float, 4> sums = {};
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    u32 at = thread;
    for (; at + (AHEAD - 1) * threads < packs; at += AHEAD * threads) {
      Pack<float, 4> taken[AHEAD];
#pragma unroll
      for (u32 n = 0; n < AHEAD; n++) taken[n] = load_fresh<4>(numbers + (at + n * threads) * 4);
#pragma unroll
      for (u32 n = 0; n < AHEAD; n++) sums = plus(sums, taken[n]);
    }
    for (; at < packs; at += threads) sums = plus(sums, load_fresh<4>(numbers + at * 4));
  }
  results[thread] = sums.at[0] + sums.at[1] + sums.at[2] + sums.at[3];
}
EXPORT_KERNEL(read_again)
