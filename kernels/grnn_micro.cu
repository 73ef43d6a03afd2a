// Micro-benchmarks: the GPU's parameters for GRNN's performance model (section 7.1; docs/GRNN.md).
//
// Each kernel runs some rounds of one operation and returns the cycles from the block's first thread to its last. Its result
// depends on all operations, so that none can be removed, and on numbers and rounds unknown to the compiler, so that the work
// stays between the two reads of the clock.
//
// THREADS, an option of the compilation, is the number of threads of the largest block.

#include "grnn_sums.cuh"
#include "portable.cuh"

#if ELEMENT != 0 || !defined(THREADS)
#error "define THREADS; micro-benchmarks are for float32"
#endif

#define MICRO extern "C" __global__ void __launch_bounds__(THREADS)

// The work of a round in each kernel; src/devices/cuda/gpu/grnn/micro.rs uses the same numbers.
constexpr u32 CHAIN = 32;
constexpr u32 STATES = 1024;
constexpr u32 READ = 16384;

// The time of a block.
struct Clock {
  u64 begun;

  __device__ __forceinline__ Clock() {
    __syncthreads();
    begun = cycles_now();
  }

  __device__ __forceinline__ void stop(u64 *cycles) const {
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = cycles_now() - begun;
  }
};

__device__ __forceinline__ u32 thread_of_all() { return blockIdx.x * blockDim.x + threadIdx.x; }

// ---- Dependent multiply-adds ----

// CHAIN of them in a round; the numbers are the factor and the addend.
MICRO micro_fma(u32 rounds, const float *numbers, float *results, u64 *cycles) {
  const float factor = numbers[0], added = numbers[1];
  float sum = threadIdx.x;
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
#pragma unroll
    for (u32 n = 0; n < CHAIN; n++) sum = fmaf(sum, factor, added);
  }
  clock.stop(cycles);
  results[thread_of_all()] = sum;
}
EXPORT_KERNEL(micro_fma)

// ---- Products ----

// Multiplies a warp's states with the weights of OUTPUTS outputs, as a persistent kernel does: states are loaded from shared
// memory by fours, and each serves all outputs. The numbers are the states, followed by a weight for each output.
template <u32 OUTPUTS>
__device__ __forceinline__ void products(u32 rounds, const float *numbers, float *results, u64 *cycles) {
  SHARED(float, states, STATES);
  for (u32 at = threadIdx.x; at < STATES; at += blockDim.x) states[at] = numbers[at];
  float weights[OUTPUTS], sums[OUTPUTS];
#pragma unroll
  for (u32 o = 0; o < OUTPUTS; o++) {
    weights[o] = numbers[STATES + o];
    sums[o] = 0;
  }
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
#pragma unroll
    for (u32 pack = 0; pack < STATES / WARP / 4; pack++) {
      // Each round begins with another state, so that none is kept from round to round.
      const u32 at = ((pack + round) * WARP + threadIdx.x) * 4 % STATES;
      const Pack<float, 4> four = load<4>(states + at);
#pragma unroll
      for (u32 o = 0; o < OUTPUTS; o++) {
#pragma unroll
        for (u32 n = 0; n < 4; n++) sums[o] = fmaf(weights[o], four.at[n], sums[o]);
      }
    }
  }
  clock.stop(cycles);
  float sum = 0;
#pragma unroll
  for (u32 o = 0; o < OUTPUTS; o++) sum += sums[o];
  results[thread_of_all()] = sum;
}

MICRO micro_products(u32 outputs, u32 rounds, const float *numbers, float *results, u64 *cycles) {
  switch (outputs) {
    case 1: return products<1>(rounds, numbers, results, cycles);
    case 2: return products<2>(rounds, numbers, results, cycles);
    case 4: return products<4>(rounds, numbers, results, cycles);
    case 8: return products<8>(rounds, numbers, results, cycles);
  }
}
EXPORT_KERNEL(micro_products)

// ---- Reductions ----

// Adds up VALUES numbers of each lane over the warp, as a persistent kernel does. Each round's numbers depend on the sums of
// the round before.
template <u32 VALUES>
__device__ __forceinline__ void reductions(u32 rounds, const float *numbers, float *results, u64 *cycles) {
  float added[VALUES];
#pragma unroll
  for (u32 n = 0; n < VALUES; n++) added[n] = numbers[n];
  const u32 lane = threadIdx.x % WARP;
  float sum = 0;
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    float values[VALUES];
#pragma unroll
    for (u32 n = 0; n < VALUES; n++) values[n] = fmaf(sum, 1.0f / WARP, added[n]);
    sum = summed<VALUES, WARP>(values, lane);
  }
  clock.stop(cycles);
  results[thread_of_all()] = sum;
}

MICRO micro_reductions(u32 values, u32 rounds, const float *numbers, float *results, u64 *cycles) {
  switch (values) {
    case 1: return reductions<1>(rounds, numbers, results, cycles);
    case 2: return reductions<2>(rounds, numbers, results, cycles);
    case 4: return reductions<4>(rounds, numbers, results, cycles);
    case 8: return reductions<8>(rounds, numbers, results, cycles);
  }
}
EXPORT_KERNEL(micro_reductions)

// ---- The L2 cache ----

// All blocks read the same READ numbers in each round, past their own caches.
MICRO micro_l2(u32 rounds, const float *numbers, float *results, u64 *cycles) {
  // The number of a thread's loads in flight.
  constexpr u32 AHEAD = READ / 4 / THREADS;
  static_assert(READ % (4 * THREADS) == 0, "every thread of the largest block reads as much");
  Pack<float, 4> sums = {};
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    Pack<float, 4> read[AHEAD];
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) read[n] = load_fresh<4>(numbers + (n * THREADS + threadIdx.x) * 4);
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) sums = plus(sums, read[n]);
  }
  clock.stop(cycles);
  results[thread_of_all()] = sums.at[0] + sums.at[1] + sums.at[2] + sums.at[3];
}
EXPORT_KERNEL(micro_l2)

// ---- The barrier of a row ----

// In each round, every block passes a number to the others and reads that of the next block, plus 1: a synchronisation as in a
// step, with the transfer of the values. All blocks are resident. There is room for two rounds' numbers, since no block is two
// rounds ahead.
MICRO micro_barrier(u32 rounds, u32 *arrived, float *exchanged, float *results, u64 *cycles) {
  const u32 blocks = gridDim.x, next = (blockIdx.x + 1) % blocks;
  float number = blockIdx.x;
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    float *of_round = exchanged + round % 2 * blocks;
    if (threadIdx.x == 0) of_round[blockIdx.x] = number;
    __syncthreads();
    if (threadIdx.x == 0) {
      announce(arrived);
      await(arrived, (round + 1) * blocks);
    }
    __syncthreads();
    number = load_fresh<1>(of_round + next).at[0] + 1;
  }
  clock.stop(cycles);
  results[thread_of_all()] = number;
}
EXPORT_KERNEL(micro_barrier)

// ---- The barrier of a cluster ----

// In each round, the first warp of every block passes its numbers to all blocks of the cluster, and each block reads those of the
// next, plus 1: a synchronisation as in a step, with the transfer of the values. The grid is one cluster. There is room for two
// rounds' numbers, since no block is two rounds ahead. Without clusters it does nothing, and is not launched.
MICRO micro_cluster(u32 rounds, float *results, u64 *cycles) {
#if CLUSTERS
  constexpr u32 MOST = 8;
  SHARED(float, given, 2 * MOST * WARP);
  const u32 rank = cluster_rank(), next = (rank + 1) % gridDim.x;
  float number = rank;
  arrive_cluster();
  wait_cluster();
  const Clock clock;
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
    float *of_round = given + round % 2 * MOST * WARP;
    if (threadIdx.x < WARP) {
      for (u32 block = 0; block < gridDim.x; block++) {
        cluster_shared(of_round, block)[rank * WARP + threadIdx.x] = number;
      }
    }
    arrive_cluster();
    wait_cluster();
    number = of_round[next * WARP + threadIdx.x % WARP] + 1;
  }
  clock.stop(cycles);
  results[thread_of_all()] = number;
#endif
}
EXPORT_KERNEL(micro_cluster)
