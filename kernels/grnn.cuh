// What the persistent kernels of recurrent networks share (GRNN: output-based tiling, a configurable mapping).
//
// One launch runs all steps of a batch. The grid has a row of blocks for every TILE_HEIGHT sequences of the batch; the blocks of
// a row share out the elements of the state, TILE_WIDTH each. A block computes all gates of its elements, and keeps the weights
// for that in registers from the first step to the last. Blocks of different rows know nothing of each other; those of one row
// wait for each other in every step, and so all of them have to be on the device at once: the launch is cooperative.
//
// A block has GROUPS groups of GROUP_SIZE threads. The outputs of a tile are numbered with the gate as fastest index, and each
// group takes as many of them, one behind the other, for all sequences of the tile. Over a group's threads the numbers of a dot
// product are dealt out in packs.
//
// HIDDEN, TILE_WIDTH, TILE_HEIGHT, GROUPS and GROUP_SIZE are defined by whoever compiles, and HIDDEN is the state's width.
// Numbers are float32. Matrices have a row for each output, gate by gate, as the network's tensors have them.

#ifndef BATCHLAB_GRNN
#define BATCHLAB_GRNN

#include "grnn_sums.cuh"
#include "portable.cuh"

#if ELEMENT != 0
#error "persistent kernels are for float32"
#endif
#if !defined(HIDDEN) || !defined(TILE_WIDTH) || !defined(TILE_HEIGHT) || !defined(GROUPS) || !defined(GROUP_SIZE)
#error "define HIDDEN and the mapping: TILE_WIDTH, TILE_HEIGHT, GROUPS, GROUP_SIZE"
#endif

constexpr u32 THREADS = GROUPS * GROUP_SIZE;
// The blocks that share the elements of a state.
constexpr u32 COLUMNS = (HIDDEN + TILE_WIDTH - 1) / TILE_WIDTH;
// The distance of two rows of a tile of states: whole packs for every group size, and zeros behind a state.
constexpr u32 STRIDE = (HIDDEN + WARP - 1) / WARP * WARP;
// The numbers of a state that are read at once.
constexpr u32 WIDE = HIDDEN % 4 == 0 ? 4 : HIDDEN % 2 == 0 ? 2 : 1;

static_assert(GROUP_SIZE <= WARP && (GROUP_SIZE & (GROUP_SIZE - 1)) == 0, "a group is in one warp");
static_assert(THREADS <= 1024, "a block has no more threads");
static_assert(TILE_WIDTH * TILE_HEIGHT <= THREADS, "an element of the tile has a thread of its own");

// A block takes a multiprocessor to itself. How many registers a thread may have is an option of the compilation.
#define PERSISTENT extern "C" __global__ void

// ---- Waiting ----

// All blocks of a row of the grid. Their count only grows while a launch lasts, so that none is ever mistaken for another step's.
struct GridRow {
  u32 *arrived;

  __device__ __forceinline__ explicit GridRow(u32 *counts) : arrived(counts + blockIdx.y) {}

  // Tells the others that all threads of this block have written what they had to.
  __device__ __forceinline__ void signal() const {
    __syncthreads();
    if (threadIdx.x == 0) announce(arrived);
  }

  // Waits until all others have signalled so often. What they wrote before is read with `load_fresh`.
  __device__ __forceinline__ void wait(u32 signals) const {
    if (threadIdx.x == 0) await(arrived, signals * COLUMNS);
    __syncthreads();
  }

  // The end of the kernel, behind so many signals. Nobody waits any more; the block that comes last leaves the count as the next
  // launch wants it.
  __device__ __forceinline__ void leave(u32 signals) const {
    if (threadIdx.x == 0 && count_up(arrived) == (signals + 1) * COLUMNS - 1) *arrived = 0;
  }
};

// ---- The sequences of a tile ----

struct Rows {
  // The first sequence, and how many there are: fewer than TILE_HEIGHT at the end of the batch.
  u32 first;
  u32 count;

  __device__ __forceinline__ explicit Rows(u32 batch) : first(blockIdx.y * TILE_HEIGHT) {
    count = batch - first < TILE_HEIGHT ? batch - first : TILE_HEIGHT;
  }

  // Where the tile's rows begin in a matrix that is as wide as a state.
  __device__ __forceinline__ u32 begin() const { return first * HIDDEN; }
};

__device__ __forceinline__ void clear(float *numbers, u32 count) {
  for (u32 at = threadIdx.x; at < count; at += THREADS) numbers[at] = 0;
}

// Brings states of other blocks into shared memory: all of a tile's sequences, whose rows are one behind the other.
__device__ __forceinline__ void take_states(float *tile, const float *states, u32 rows) {
  constexpr u32 PACKS = HIDDEN / WIDE;
  constexpr u32 TURNS = (TILE_HEIGHT * PACKS + THREADS - 1) / THREADS;
  // So many are under way at once.
  constexpr u32 AHEAD = TURNS < 3 ? TURNS : 3;
#pragma unroll
  for (u32 turn = 0; turn < TURNS; turn += AHEAD) {
    Pack<float, WIDE> taken[AHEAD];
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 at = (turn + n) * THREADS + threadIdx.x;
      // A thread with nothing to take looks somewhere: what might not be set at all would be kept from turn to turn.
      taken[n] = load_fresh<WIDE>(states + (at < rows * PACKS ? at * WIDE : 0));
    }
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 at = (turn + n) * THREADS + threadIdx.x;
      if (at < rows * PACKS) store<WIDE>(tile + at / PACKS * STRIDE + at % PACKS * WIDE, taken[n]);
    }
  }
}

// The element of the tile that a thread has to itself between the dot products. What the thread knows of it from one product to
// the next waits in shared memory, since registers are for weights.
struct Own {
  // Whether there is such an element: the last tiles may be cut short.
  bool exists;
  u32 sequence;
  u32 unit;
  // Where it is in a matrix with a state for each sequence.
  u32 at;

  __device__ __forceinline__ explicit Own(const Rows &rows) {
    const u32 row = threadIdx.x / TILE_WIDTH;
    sequence = rows.first + row;
    unit = blockIdx.x * TILE_WIDTH + threadIdx.x % TILE_WIDTH;
    exists = row < rows.count && unit < HIDDEN;
    at = sequence * HIDDEN + unit;
  }

  // Where a gate of what it takes from an input is, [steps, batch, GATES, HIDDEN]; the states of earlier steps are so many
  // numbers.
  template <u32 GATES>
  __device__ __forceinline__ u32 of_input(u32 before, u32 gate) const {
    return (before + at) * GATES - unit * (GATES - 1) + gate * HIDDEN;
  }
};

// Where the states of a step are, [steps, batch, HIDDEN]. All numbers of a launch can be counted in 32 bits, which spares
// registers.
__device__ __forceinline__ u32 of_step(u32 step, u32 batch) { return step * batch * HIDDEN; }

// ---- Dot products ----

// The weights that a thread keeps for OUTPUTS dot products, over the LANES threads that compute them together.
template <u32 OUTPUTS, u32 LANES>
struct Products {
  // The numbers of a dot product that a thread has, and how many of them stand together: as many as can be read at once without
  // more registers for all.
  static constexpr u32 LENGTH = (HIDDEN + LANES - 1) / LANES;
  static constexpr u32 PACK = HIDDEN % 4 == 0 && LENGTH % 4 == 0 ? 4 : HIDDEN % 2 == 0 && LENGTH % 2 == 0 ? 2 : 1;
  static constexpr u32 PACKS = LENGTH / PACK;

  float weights[OUTPUTS][LENGTH];

  __device__ __forceinline__ static u32 lane() { return threadIdx.x % LANES; }
  // The number of an output in its tile.
  __device__ __forceinline__ static u32 output(u32 of_group) { return threadIdx.x / LANES * OUTPUTS + of_group; }

  // Reads them from a matrix: of each element of the tile so many gates that follow each other, from the first one on.
  template <u32 TOGETHER>
  __device__ __forceinline__ void keep(const float *matrix, u32 first) {
    // Groups have more outputs than the tile, and nothing for some of them.
    constexpr bool SPARE = (THREADS + LANES - 1) / LANES * OUTPUTS > TILE_WIDTH * TOGETHER;
#pragma unroll
    for (u32 o = 0; o < OUTPUTS; o++) {
      const u32 unit = blockIdx.x * TILE_WIDTH + output(o) / TOGETHER;
      const bool exists = (!SPARE || output(o) < TILE_WIDTH * TOGETHER) && unit < HIDDEN;
      const u32 row = exists ? (first + output(o) % TOGETHER) * HIDDEN + unit : NOWHERE;
#pragma unroll
      for (u32 pack = 0; pack < PACKS; pack++) {
        const u32 k = (pack * LANES + lane()) * PACK;
        Pack<float, PACK> kept = {};
        if (row != NOWHERE && k < HIDDEN) kept = load<PACK>(matrix + static_cast<size_t>(row) * HIDDEN + k);
#pragma unroll
        for (u32 n = 0; n < PACK; n++) weights[o][pack * PACK + n] = kept.at[n];
      }
    }
  }

  // Multiplies with all states of tiles, and puts the products where a row of the tile has `width` of them: the outputs that
  // there are. Tiles are so far behind the first one; of two, every other output is multiplied with the second.
  template <u32 TILES>
  __device__ __forceinline__ void multiply(const float *tile, const u32 (&tiles)[TILES], float *products,
                                           u32 width) const {
    // The sums of all rows at once, and the states for them, would take too many registers.
    constexpr u32 MOST = OUTPUTS <= 2 ? 4 : OUTPUTS <= 4 ? 2 : 1;
    constexpr u32 ROWS = TILE_HEIGHT < MOST ? TILE_HEIGHT : MOST;
    constexpr u32 REST = TILE_HEIGHT % ROWS;
#pragma unroll 1
    for (u32 row = 0; row < TILE_HEIGHT - REST; row += ROWS) multiply_rows<ROWS>(tile, tiles, products, width, row);
    if constexpr (REST > 0) multiply_rows<REST>(tile, tiles, products, width, TILE_HEIGHT - REST);
  }

 private:
  template <u32 ROWS, u32 TILES>
  __device__ __forceinline__ void multiply_rows(const float *tile, const u32 (&tiles)[TILES], float *products,
                                                u32 width, u32 first) const {
    float sums[ROWS * OUTPUTS] = {};
#pragma unroll
    for (u32 pack = 0; pack < PACKS; pack++) {
      const u32 k = (pack * LANES + lane()) * PACK;
#pragma unroll
      for (u32 row = 0; row < ROWS; row++) {
        Pack<float, PACK> states[TILES];
#pragma unroll
        for (u32 n = 0; n < TILES; n++) states[n] = load<PACK>(tile + tiles[n] + (first + row) * STRIDE + k);
#pragma unroll
        for (u32 o = 0; o < OUTPUTS; o++) {
#pragma unroll
          for (u32 n = 0; n < PACK; n++) {
            sums[row * OUTPUTS + o] += weights[o][pack * PACK + n] * states[o % TILES].at[n];
          }
        }
      }
    }
    const float sum = summed<ROWS * OUTPUTS, LANES>(sums, lane());
    const u32 at = output(lane() % OUTPUTS);
    if (lane() < ROWS * OUTPUTS && at < width) products[(first + lane() / OUTPUTS) * width + at] = sum;
  }
};

#endif
