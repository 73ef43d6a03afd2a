// The common parts of the persistent kernels of recurrent networks (GRNN: output-based tiling, a configurable mapping).
//
// One launch runs all steps of a batch. The grid has a row of blocks for every TILE_HEIGHT sequences of the batch; the blocks
// of a row share the elements of the state, TILE_WIDTH each. A block computes all gates of its elements, and keeps their
// weights in registers from the first step to the last. Blocks of different rows are independent; those of one row wait for
// each other in every step. EXCHANGE says how their states reach each other:
//
//   IN_MEMORY   through memory, which is the L2 cache for them. All blocks must be resident: the launch is cooperative.
//   IN_BLOCK    not at all: a row is one block, whose states stay in its shared memory.
//   IN_CLUSTER  a row is a cluster, whose blocks write into each other's shared memory. For compute capability 9.0 and later.
//
// A block has GROUPS groups of GROUP_SIZE threads. The outputs of a tile are numbered with the gate as fastest index, and each
// group computes an equal number of them, consecutively, for all sequences of the tile. The threads of a group share the
// numbers of a dot product in packs.
//
// HIDDEN, TILE_WIDTH, TILE_HEIGHT, GROUPS, GROUP_SIZE and EXCHANGE are options of the compilation; HIDDEN is the state's width.
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

#define IN_MEMORY 0
#define IN_BLOCK 1
#define IN_CLUSTER 2
#if !defined(EXCHANGE) || EXCHANGE > IN_CLUSTER
#error "define EXCHANGE: 0 in memory, 1 in a block, 2 in a cluster"
#endif

constexpr u32 THREADS = GROUPS * GROUP_SIZE;
// The blocks that share the elements of a state.
constexpr u32 COLUMNS = (HIDDEN + TILE_WIDTH - 1) / TILE_WIDTH;
// The distance of two rows of a tile of states: whole packs for every group size, with zeros after a state.
constexpr u32 STRIDE = (HIDDEN + WARP - 1) / WARP * WARP;
constexpr u32 TILE = TILE_HEIGHT * STRIDE;
// The tiles of states in a block. Blocks of a cluster write into one while others read the other.
constexpr u32 TILES = EXCHANGE == IN_CLUSTER ? 2 : 1;
// Whether the inputs of a step are fetched while the step before is computed. In memory they are fetched while blocks wait; and in
// the largest blocks of a cluster all registers are for weights.
constexpr bool EARLY = EXCHANGE == IN_BLOCK || (EXCHANGE == IN_CLUSTER && THREADS < 1024);
// The numbers of a state that are read at a time.
constexpr u32 WIDE = HIDDEN % 4 == 0 ? 4 : HIDDEN % 2 == 0 ? 2 : 1;

static_assert(GROUP_SIZE <= WARP && (GROUP_SIZE & (GROUP_SIZE - 1)) == 0, "a group is in one warp");
static_assert(THREADS <= 1024, "a block has no more threads");
static_assert(TILE_WIDTH * TILE_HEIGHT <= THREADS, "an element of the tile has a thread of its own");
static_assert(EXCHANGE != IN_BLOCK || COLUMNS == 1, "a row is one block");

// A block occupies a multiprocessor. The registers of a thread are an option of the compilation.
#define PERSISTENT extern "C" __global__ void

// ---- The sequences of a tile ----

struct Rows {
  // The first sequence, and their number: fewer than TILE_HEIGHT at the end of the batch.
  u32 first;
  u32 count;

  __device__ __forceinline__ explicit Rows(u32 batch) : first(blockIdx.y * TILE_HEIGHT) {
    count = batch - first < TILE_HEIGHT ? batch - first : TILE_HEIGHT;
  }

  // The offset of the tile's rows in a matrix that is as wide as a state.
  __device__ __forceinline__ u32 begin() const { return first * HIDDEN; }
};

__device__ __forceinline__ void clear(float *numbers, u32 count) {
  for (u32 at = threadIdx.x; at < count; at += THREADS) numbers[at] = 0;
}

// Copies states into shared memory: all of a tile's sequences, row by row.
__device__ __forceinline__ void take_states(float *tile, const float *states, u32 rows) {
  constexpr u32 PACKS = HIDDEN / WIDE;
  constexpr u32 TURNS = (TILE_HEIGHT * PACKS + THREADS - 1) / THREADS;
  // The number of loads in flight.
  constexpr u32 AHEAD = TURNS < 3 ? TURNS : 3;
#pragma unroll
  for (u32 turn = 0; turn < TURNS; turn += AHEAD) {
    Pack<float, WIDE> taken[AHEAD];
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 at = (turn + n) * THREADS + threadIdx.x;
      // A thread without a state to copy loads any: a value that might be unset would be kept from turn to turn.
      taken[n] = load_fresh<WIDE>(states + (at < rows * PACKS ? at * WIDE : 0));
    }
#pragma unroll
    for (u32 n = 0; n < AHEAD; n++) {
      const u32 at = (turn + n) * THREADS + threadIdx.x;
      if (at < rows * PACKS) store<WIDE>(tile + at / PACKS * STRIDE + at % PACKS * WIDE, taken[n]);
    }
  }
}

// The element of the tile that a thread updates between the dot products. Its values wait in shared memory from one product to
// the next, since registers are for weights.
struct Own {
  // Whether there is such an element: the last tiles may be cut short.
  bool exists;
  // Its sequence, in the tile and in the batch.
  u32 row;
  u32 sequence;
  u32 unit;
  // Its offset in a matrix with a state for each sequence.
  u32 at;

  __device__ __forceinline__ explicit Own(const Rows &rows) {
    row = threadIdx.x / TILE_WIDTH;
    sequence = rows.first + row;
    unit = blockIdx.x * TILE_WIDTH + threadIdx.x % TILE_WIDTH;
    exists = row < rows.count && unit < HIDDEN;
    at = sequence * HIDDEN + unit;
  }

  // The offset of a gate in the inputs, [steps, batch, GATES, HIDDEN], after `of_step` numbers of earlier steps.
  template <u32 GATES>
  __device__ __forceinline__ u32 of_input(u32 before, u32 gate) const {
    return (before + at) * GATES - unit * (GATES - 1) + gate * HIDDEN;
  }
};

// The offset of a step's states, [steps, batch, HIDDEN]. All numbers of a launch can be counted in 32 bits, which saves
// registers.
__device__ __forceinline__ u32 of_step(u32 step, u32 batch) { return step * batch * HIDDEN; }

// ---- The blocks of a row ----

// How the blocks of a row of the grid pass on their elements of the states. Exchanges are numbered from 0, that of the initial
// states; `tile` has the states of an exchange.
#if EXCHANGE == IN_MEMORY

// Blocks write states to memory, count those that have, and copy the states of all. The count only grows during a launch, so
// that one step's is never mistaken for another's.
struct GridRow {
  float *tiles;
  u32 *arrived;

  __device__ __forceinline__ GridRow(float *tiles, u32 *counts) : tiles(tiles), arrived(counts + blockIdx.y) {}

  __device__ __forceinline__ float *tile(u32) const { return tiles; }
  __device__ __forceinline__ void begin(const float *, const Rows &) const { __syncthreads(); }
  __device__ __forceinline__ void give(u32, const Own &, float) const {}

  // Tells the others that all threads of this block have written their values.
  __device__ __forceinline__ void signal() const {
    __syncthreads();
    if (threadIdx.x == 0) announce(arrived);
  }

  // Waits until all others have signalled this often. `load_fresh` then reads what they wrote before.
  __device__ __forceinline__ void wait(u32 signals) const {
    if (threadIdx.x == 0) await(arrived, signals * COLUMNS);
    __syncthreads();
  }

  // Copies what all have written.
  __device__ __forceinline__ void take(const float *states, const Rows &rows) const {
    take_states(tiles, states, rows.count);
    __syncthreads();
  }

  // The end of the kernel, after this number of signals. No block waits any more; the last one resets the count for the next
  // launch.
  __device__ __forceinline__ void leave(u32 signals) const {
    if (threadIdx.x == 0 && count_up(arrived) == (signals + 1) * COLUMNS - 1) *arrived = 0;
  }
};

#else

// Blocks write states where those that need them have theirs.
struct GridRow {
  float *tiles;

  __device__ __forceinline__ GridRow(float *tiles, u32 *) : tiles(tiles) {}

  __device__ __forceinline__ float *tile(u32 exchange) const { return tiles + exchange % TILES * TILE; }

  // Takes the initial states.
  __device__ __forceinline__ void begin(const float *states, const Rows &rows) const {
    __syncthreads();
    take_states(tiles, states, rows.count);
    signal();
    wait(0);
  }

  // Passes on the state of an element. In a block, all must have read the states of the exchange before.
  __device__ __forceinline__ void give(u32 exchange, const Own &own, float state) const {
    float *place = tile(exchange) + own.row * STRIDE + own.unit;
#if EXCHANGE == IN_CLUSTER
#pragma unroll
    for (u32 block = 0; block < COLUMNS; block++) *cluster_shared(place, block) = state;
#else
    *place = state;
#endif
  }

  __device__ __forceinline__ void signal() const {
#if EXCHANGE == IN_CLUSTER
    arrive_cluster();
#endif
  }

  // Waits until all others have signalled as often.
  __device__ __forceinline__ void wait(u32) const {
#if EXCHANGE == IN_CLUSTER
    wait_cluster();
#else
    __syncthreads();
#endif
  }

  __device__ __forceinline__ void take(const float *, const Rows &) const {}
  // The end of the kernel. Nothing is given after the last wait, so that no block writes into one that has ended.
  __device__ __forceinline__ void leave(u32) const {}
};

#endif

// ---- Dot products ----

// The weights that a thread keeps for OUTPUTS dot products, over the LANES threads that compute them together.
template <u32 OUTPUTS, u32 LANES>
struct Products {
  // The numbers of a dot product in one thread, and how many of them are adjacent: as many as can be read at a time without
  // more registers.
  static constexpr u32 LENGTH = (HIDDEN + LANES - 1) / LANES;
  static constexpr u32 PACK = HIDDEN % 4 == 0 && LENGTH % 4 == 0 ? 4 : HIDDEN % 2 == 0 && LENGTH % 2 == 0 ? 2 : 1;
  static constexpr u32 PACKS = LENGTH / PACK;

  float weights[OUTPUTS][LENGTH];

  __device__ __forceinline__ static u32 lane() { return threadIdx.x % LANES; }
  // The number of an output in its tile.
  __device__ __forceinline__ static u32 output(u32 of_group) { return threadIdx.x / LANES * OUTPUTS + of_group; }

  // Reads them from a matrix: of each element of the tile TOGETHER consecutive gates, from the first one on.
  template <u32 TOGETHER>
  __device__ __forceinline__ void keep(const float *matrix, u32 first) {
    // Groups have more outputs than the tile, so some of them have none.
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

  // Multiplies with all states of tiles, and writes the products where a row of the tile has `width` of them. Tiles follow the
  // first one at this distance; of two, every other output is multiplied with the second.
  template <u32 TILES>
  __device__ __forceinline__ void multiply(const float *tile, const u32 (&tiles)[TILES], float *products,
                                           u32 width) const {
    // The sums of all rows together, and their states, would take too many registers.
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
