// A persistent GRU, the canonical one, whose reset gate precedes the recurrent product: all steps of a batch in one launch.
// SYNCHRONISATIONS is how often the blocks of a row wait for each other in a step.
//
// With two, a block computes the reset and update gates of its elements, writes their gated states, waits for those of the
// others, and computes its candidates from all of them.
//
// With one, the product of the reset gate is split the other way: after a step a block has new elements of the state, and
// computes their contributions to the reset gates of all elements. The others wait for these sums and for the state together.
// Then each block adds up all blocks' sums itself, and has the inputs of its update gates and candidates.

#include "grnn.cuh"

#if SYNCHRONISATIONS != 1 && SYNCHRONISATIONS != 2
#error "define SYNCHRONISATIONS: 1 or 2"
#endif

// In matrices and inputs.
constexpr u32 RESET = 0;
constexpr u32 UPDATE = 1;
constexpr u32 CANDIDATE = 2;
constexpr u32 GATES = 3;

// The gates whose products groups compute together.
constexpr u32 TOGETHER = 2;
constexpr u32 OUTPUTS = TILE_WIDTH * TOGETHER / GROUPS;
static_assert(TILE_WIDTH * TOGETHER % GROUPS == 0, "all groups have as many outputs");

// (1 - σ(z)) tanh(n) + σ(z) h, for given σ(z).
__device__ __forceinline__ float updated(float h, float z, float n) {
  const float fresh = tanhf(n);
  return fresh + z * (h - fresh);
}

// `inputs` are the products of all steps' inputs with their weights, biases included, [steps, batch, 3, HIDDEN], with the gates
// r, z, n. `hidden`, [steps + 1, batch, HIDDEN], begins with the initial h of the sequences; each step writes its own after
// that of the step before, so that no address is written twice. A sequence that has ended keeps its state. `exchanged` is for
// other values that blocks exchange. `arrived` has a zero for each row of the grid, and again in the end.
#if SYNCHRONISATIONS == 2

// The candidates are half of the work. Groups have half as many outputs, or two groups share the outputs of each; if such a
// group does not fit a warp, some groups have none.
constexpr bool HALVES = OUTPUTS % 2 == 0;
constexpr bool PAIRS = !HALVES && GROUP_SIZE < WARP;
constexpr u32 CANDIDATES = PAIRS ? OUTPUTS : (OUTPUTS + 1) / 2;
constexpr u32 LANES = PAIRS ? 2 * GROUP_SIZE : GROUP_SIZE;

// `exchanged` holds the gated states, [batch, HIDDEN], if blocks exchange them in memory.
PERSISTENT persistent_gru(u32 steps, u32 batch, const u32 *__restrict__ lengths, const float *__restrict__ inputs,
                          const float *__restrict__ weights, float *hidden, float *exchanged, u32 *arrived) {
  LAUNCH_SHARED(float, tile);
  // [TILE_HEIGHT, TILE_WIDTH, TOGETHER], or without the last dimension.
  float *products = tile + TILES * TILE;
  // [TILE_HEIGHT, TILE_WIDTH, 4]: the input's part of r, z and n, and h.
  float *waiting = products + TILE_HEIGHT * TILE_WIDTH * TOGETHER + threadIdx.x * 4;
  // [TILE_HEIGHT, TILE_WIDTH]
  u32 *ends = reinterpret_cast<u32 *>(products + TILE_HEIGHT * TILE_WIDTH * (TOGETHER + 4));
  const Rows rows(batch);
  const Own own(rows);
  const GridRow others(tile, arrived);

  Products<OUTPUTS, GROUP_SIZE> gates;
  gates.keep<TOGETHER>(weights, RESET);
  Products<CANDIDATES, LANES> candidates;
  candidates.keep<1>(weights, CANDIDATE);
  // The gates' parts of the inputs, and one more number, since packs are powers of two.
  const auto fetch = [&](u32 step) {
    Pack<float, 4> fetched = {};
    if (!own.exists) return fetched;
#pragma unroll
    for (u32 gate = 0; gate < GATES; gate++) {
      fetched.at[gate] = inputs[own.of_input<GATES>(of_step(step, batch), gate)];
    }
    return fetched;
  };
  // One after the other, which takes fewer registers.
  const auto load_inputs = [&](u32 step) {
    if (!own.exists) return;
#pragma unroll
    for (u32 gate = 0; gate < GATES; gate++) {
      waiting[gate] = inputs[own.of_input<GATES>(of_step(step, batch), gate)];
    }
  };
  const auto prepare = [&](const Pack<float, 4> &fetched) {
    if (!own.exists) return;
#pragma unroll
    for (u32 gate = 0; gate < GATES; gate++) waiting[gate] = fetched.at[gate];
  };
  clear(tile, TILES * TILE);
  if (own.exists) {
    ends[threadIdx.x] = lengths[own.sequence];
    waiting[GATES] = hidden[own.at];
  }
  load_inputs(0);
  others.begin(hidden + rows.begin(), rows);

  for (u32 step = 0;; step++) {
    others.take(hidden + of_step(step, batch) + rows.begin(), rows);
    gates.multiply(others.tile(2 * step), {0}, products, TILE_WIDTH * TOGETHER);
    __syncthreads();
    if (own.exists) {
      const Pack<float, TOGETHER> product = load<TOGETHER>(products + threadIdx.x * TOGETHER);
      const float gated = sigmoid(product.at[0] + waiting[RESET]) * waiting[GATES];
      if constexpr (EXCHANGE == IN_MEMORY) exchanged[own.at] = gated;
      others.give(2 * step + 1, own, gated);
      waiting[UPDATE] = sigmoid(product.at[1] + waiting[UPDATE]);
    }
    others.signal();
    others.wait(2 * step + 1);

    others.take(exchanged + rows.begin(), rows);
    Pack<float, 4> next;
    if constexpr (EARLY) next = fetch(step + 1 < steps ? step + 1 : step);
    candidates.multiply(others.tile(2 * step + 1), {0}, products, TILE_WIDTH);
    __syncthreads();
    if (own.exists) {
      if (step < ends[threadIdx.x]) {
        waiting[GATES] = updated(waiting[GATES], waiting[UPDATE], products[threadIdx.x] + waiting[CANDIDATE]);
      }
      hidden[of_step(step + 1, batch) + own.at] = waiting[GATES];
    }
    if (step + 1 == steps) break;
    if (own.exists) others.give(2 * step + 2, own, waiting[GATES]);
    others.signal();
    if constexpr (EARLY) {
      prepare(next);
    } else {
      load_inputs(step + 1);
    }
    others.wait(2 * step + 2);
  }
  others.leave(2 * steps - 1);
}

#else

#if EXCHANGE != IN_MEMORY
#error "one synchronisation saves nothing where synchronisations are quick: define two"
#endif

// The elements for whose reset gates a thread computes sums: every THREADS-th.
constexpr u32 RESETS = (HIDDEN + THREADS - 1) / THREADS;

// A block's part of the reset gates.
struct Resets {
  // For each of the thread's elements, the weights of the tile's.
  float weights[RESETS][TILE_WIDTH];

  __device__ __forceinline__ static u32 element(u32 turn) { return turn * THREADS + threadIdx.x; }

  __device__ __forceinline__ void keep(const float *matrix) {
#pragma unroll
    for (u32 turn = 0; turn < RESETS; turn++) {
#pragma unroll
      for (u32 column = 0; column < TILE_WIDTH; column++) {
        const u32 k = blockIdx.x * TILE_WIDTH + column;
        const bool exists = element(turn) < HIDDEN && k < HIDDEN;
        weights[turn][column] = exists ? matrix[static_cast<size_t>(RESET * HIDDEN + element(turn)) * HIDDEN + k] : 0;
      }
    }
  }

  // The place of all blocks' sums for a sequence.
  __device__ __forceinline__ static u32 of_sequence(u32 sequence) { return sequence * COLUMNS * HIDDEN; }

  // Writes the contributions of the tile's own elements, [TILE_HEIGHT, TILE_WIDTH], to the products of all reset gates: `sums`
  // are those of a step, [batch, COLUMNS, HIDDEN].
  __device__ __forceinline__ void offer(const float *of_tile, float *sums, const Rows &rows) const {
#pragma unroll 1
    for (u32 row = 0; row < rows.count; row++) {
      float of_element[RESETS] = {};
#pragma unroll
      for (u32 column = 0; column < TILE_WIDTH; column++) {
        const float h = of_tile[row * TILE_WIDTH + column];
#pragma unroll
        for (u32 turn = 0; turn < RESETS; turn++) of_element[turn] += weights[turn][column] * h;
      }
      float *of_block = sums + of_sequence(rows.first + row) + blockIdx.x * HIDDEN;
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        if (element(turn) < HIDDEN) of_block[element(turn)] = of_element[turn];
      }
    }
  }

  // Writes the input's part of the reset gates of a step, for the tile's rows, into a tile.
  __device__ __forceinline__ static void begin(float *tile, const float *of_rows, const Rows &rows) {
#pragma unroll 1
    for (u32 row = 0; row < rows.count; row++) {
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        const u32 unit = element(turn);
        if (unit < HIDDEN) tile[row * STRIDE + unit] = of_rows[(row * GATES + RESET) * HIDDEN + unit];
      }
    }
  }

  // Copies the states of all blocks into one tile, and the gated states into the other, which `begin` has prepared. Each thread
  // handles the same elements as there.
  __device__ __forceinline__ static void take(float *tile, float *reset, const float *states, const float *sums,
                                              const Rows &rows) {
#pragma unroll 1
    for (u32 row = 0; row < rows.count; row++) {
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        const u32 unit = element(turn);
        if (unit >= HIDDEN) continue;
        const float h = load_fresh<1>(states + row * HIDDEN + unit).at[0];
        const float *of_unit = sums + of_sequence(rows.first + row) + unit;
        float sum = reset[row * STRIDE + unit];
        // The number of loads in flight.
        constexpr u32 AHEAD = 8;
        for (u32 first = 0; first < COLUMNS; first += AHEAD) {
          float taken[AHEAD];
#pragma unroll
          for (u32 n = 0; n < AHEAD; n++) {
            taken[n] = first + n < COLUMNS ? load_fresh<1>(of_unit + (first + n) * HIDDEN).at[0] : 0;
          }
#pragma unroll
          for (u32 n = 0; n < AHEAD; n++) sum += taken[n];
        }
        tile[row * STRIDE + unit] = h;
        reset[row * STRIDE + unit] = sigmoid(sum) * h;
      }
    }
  }
};

// `exchanged` has the sums of two steps, [2, batch, COLUMNS, HIDDEN]: when a block writes those of a step, all others have
// signalled that they have read those of the step before the last.
PERSISTENT persistent_gru(u32 steps, u32 batch, const u32 *__restrict__ lengths, const float *__restrict__ inputs,
                          const float *__restrict__ weights, float *hidden, float *exchanged, u32 *arrived) {
  LAUNCH_SHARED(float, tile);
  float *reset_tile = tile + TILE_HEIGHT * STRIDE;
  // [TILE_HEIGHT, TILE_WIDTH, TOGETHER]
  float *products = reset_tile + TILE_HEIGHT * STRIDE;
  // [TILE_HEIGHT, TILE_WIDTH, 2]: the input's part of z and n.
  float *waiting = products + TILE_HEIGHT * TILE_WIDTH * TOGETHER + threadIdx.x * 2;
  // [TILE_HEIGHT, TILE_WIDTH]
  u32 *ends = reinterpret_cast<u32 *>(products + TILE_HEIGHT * TILE_WIDTH * (TOGETHER + 2));
  // [TILE_HEIGHT, TILE_WIDTH]: h.
  float *of_tile = products + TILE_HEIGHT * TILE_WIDTH * (TOGETHER + 3);
  const Rows rows(batch);
  const Own own(rows);
  const GridRow others(tile, arrived);

  Products<OUTPUTS, GROUP_SIZE> kept;
  kept.keep<TOGETHER>(weights, UPDATE);
  Resets resets;
  resets.keep(weights);
  clear(tile, 2 * TILE_HEIGHT * STRIDE);
  clear(of_tile, TILE_HEIGHT * TILE_WIDTH);
  // Update gates are multiplied with the state, candidates with the gated state. In a group with an odd number of outputs, the
  // first may be either.
  const bool swapped = OUTPUTS % 2 == 1 && threadIdx.x / GROUP_SIZE % 2 == 1;
  const u32 tiles[2] = {swapped ? TILE_HEIGHT * STRIDE : 0, swapped ? 0 : TILE_HEIGHT * STRIDE};
  __syncthreads();

  if (own.exists) {
    of_tile[threadIdx.x] = hidden[own.at];
    ends[threadIdx.x] = lengths[own.sequence];
  }
  for (u32 step = 0;; step++) {
    float *sums = exchanged + step % 2 * Resets::of_sequence(batch);
    __syncthreads();
    resets.offer(of_tile, sums, rows);
    others.signal();
    if (own.exists) {
      waiting[0] = inputs[own.of_input<GATES>(of_step(step, batch), UPDATE)];
      waiting[1] = inputs[own.of_input<GATES>(of_step(step, batch), CANDIDATE)];
    }
    Resets::begin(reset_tile, inputs + (of_step(step, batch) + rows.begin()) * GATES, rows);
    others.wait(step + 1);

    Resets::take(tile, reset_tile, hidden + of_step(step, batch) + rows.begin(), sums, rows);
    __syncthreads();
    kept.multiply(tile, tiles, products, TILE_WIDTH * TOGETHER);
    __syncthreads();
    if (own.exists) {
      const Pack<float, TOGETHER> product = load<TOGETHER>(products + threadIdx.x * TOGETHER);
      if (step < ends[threadIdx.x]) {
        const float z = sigmoid(product.at[0] + waiting[0]), n = product.at[1] + waiting[1];
        of_tile[threadIdx.x] = updated(of_tile[threadIdx.x], z, n);
      }
      hidden[of_step(step + 1, batch) + own.at] = of_tile[threadIdx.x];
    }
    if (step + 1 == steps) break;
  }
  others.leave(steps);
}

#endif
EXPORT_KERNEL(persistent_gru)
