// A persistent GRU, the canonical one, whose reset gate stands before the recurrent product: all steps of a batch in one
// launch. SYNCHRONISATIONS says how often the blocks of a row wait for each other in a step.
//
// With two, a block computes the reset and update gates of its elements, passes on what the reset gate leaves of them, waits for
// that of the others, and computes its candidates from all of it.
//
// With one, the product of the reset gate is cut the other way: behind its step a block has new elements of the state, and
// computes what they add to the reset gates of all elements. The others wait for these sums and for the state at once; then
// each block adds up all blocks' sums for itself, and has what it needs for its update gates and candidates.

#include "grnn.cuh"

#if SYNCHRONISATIONS != 1 && SYNCHRONISATIONS != 2
#error "define SYNCHRONISATIONS: 1 or 2"
#endif

// Of the matrices and biases.
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

// `inputs` are the products of all steps' inputs with their weights, [steps, batch, 3, HIDDEN], with the gates r, z, n. `hidden`,
// [steps + 1, batch, HIDDEN], has the h that the sequences begin with in front; each step writes its own behind that of the step
// before, so that no address is written twice. A sequence that is over keeps its state. `exchanged` is for what blocks tell each
// other beside states. `arrived` has a zero for each row of the grid, and has it again in the end.
#define ARGUMENTS                                                                                                       \
  u32 steps, u32 batch, const u32 *__restrict__ lengths, const float *__restrict__ inputs,                              \
      const float *__restrict__ bias, const float *__restrict__ weights, float *hidden, float *exchanged, u32 *arrived

#if SYNCHRONISATIONS == 2

// For the candidates there is half as much to do. Groups have half as many outputs, or two of them get together over what each
// would have; only if such a group does not fit a warp, some have none.
constexpr bool HALVES = OUTPUTS % 2 == 0;
constexpr bool PAIRS = !HALVES && GROUP_SIZE < WARP;
constexpr u32 CANDIDATES = PAIRS ? OUTPUTS : (OUTPUTS + 1) / 2;
constexpr u32 LANES = PAIRS ? 2 * GROUP_SIZE : GROUP_SIZE;

// `exchanged` has what the reset gates leave of the states, [batch, HIDDEN].
PERSISTENT persistent_gru(ARGUMENTS) {
  LAUNCH_SHARED(float, tile);
  // [TILE_HEIGHT, TILE_WIDTH, TOGETHER], or without the last.
  float *products = tile + TILE_HEIGHT * STRIDE;
  const Rows rows(batch);
  const Own own(rows);
  GridRow others(arrived);

  Products<OUTPUTS, GROUP_SIZE> gates;
  gates.keep(weights, [](u32 output) {
    const u32 unit = blockIdx.x * TILE_WIDTH + output / TOGETHER;
    return unit < HIDDEN ? (RESET + output % TOGETHER) * HIDDEN + unit : NOWHERE;
  });
  Products<CANDIDATES, LANES> candidates;
  candidates.keep(weights, [](u32 output) {
    const u32 unit = blockIdx.x * TILE_WIDTH + output;
    return output < TILE_WIDTH && unit < HIDDEN ? CANDIDATE * HIDDEN + unit : NOWHERE;
  });
  clear(tile, TILE_HEIGHT * STRIDE);
  const u32 length = own.exists ? lengths[own.sequence] : 0;
  const auto of_input = [&](u32 gate) {
    return own.exists ? given(inputs, bias, GATES, gate, own.sequence, own.unit) : 0.0f;
  };
  float reset = of_input(RESET), update = of_input(UPDATE);
  __syncthreads();

  for (u32 step = 0;; step++) {
    take_states(tile, rows.of(hidden), rows.count);
    __syncthreads();
    gates.multiply({tile}, products, TILE_WIDTH * TOGETHER);
    __syncthreads();
    float h = 0, z = 0;
    if (own.exists) {
      const Pack<float, TOGETHER> product = load<TOGETHER>(products + threadIdx.x * TOGETHER);
      h = tile[own.row * STRIDE + own.unit];
      z = sigmoid(product.at[1] + update);
      exchanged[own.at()] = sigmoid(product.at[0] + reset) * h;
    }
    others.signal();
    const float candidate = of_input(CANDIDATE);
    others.wait();

    take_states(tile, rows.of(exchanged), rows.count);
    __syncthreads();
    candidates.multiply({tile}, products, TILE_WIDTH);
    __syncthreads();
    hidden += static_cast<size_t>(batch) * HIDDEN;
    if (own.exists) {
      hidden[own.at()] = step < length ? updated(h, z, products[threadIdx.x] + candidate) : h;
    }
    if (step + 1 == steps) break;
    others.signal();
    inputs += static_cast<size_t>(batch) * GATES * HIDDEN;
    reset = of_input(RESET);
    update = of_input(UPDATE);
    others.wait();
  }
  others.leave();
}

#else

// The elements whose reset gates a thread has a part in: every THREADS-th.
constexpr u32 RESETS = (HIDDEN + THREADS - 1) / THREADS;
// The distance of two rows of a tile's own elements.
constexpr u32 OWN_STRIDE = (TILE_WIDTH + 3) / 4 * 4;

// What a block knows of reset gates.
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

  // Writes what the tile's own elements, [TILE_HEIGHT, OWN_STRIDE], add to the products of all reset gates: `sums` are those of
  // a step, [COLUMNS, batch, HIDDEN].
  __device__ __forceinline__ void offer(const float *of_tile, float *sums, const Rows &rows, u32 batch) const {
    float *own = rows.of(sums + static_cast<size_t>(blockIdx.x) * batch * HIDDEN);
    for (u32 row = 0; row < rows.count; row++) {
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        float sum = 0;
#pragma unroll
        for (u32 column = 0; column < TILE_WIDTH; column++) {
          sum += weights[turn][column] * of_tile[row * OWN_STRIDE + column];
        }
        if (element(turn) < HIDDEN) own[row * HIDDEN + element(turn)] = sum;
      }
    }
  }

  // Puts what reset gates have of a step's input into a tile.
  __device__ __forceinline__ static void begin(float *tile, const float *inputs, const float *bias, const Rows &rows) {
    for (u32 row = 0; row < rows.count; row++) {
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        const u32 unit = element(turn);
        if (unit < HIDDEN) tile[row * STRIDE + unit] = given(inputs, bias, GATES, RESET, rows.first + row, unit);
      }
    }
  }

  // Brings the states of all blocks into one tile, and what the reset gates leave of them into the other, where `begin` left
  // off. Each thread does with an element what it did there.
  __device__ __forceinline__ static void take(float *tile, float *reset, const float *states, const float *sums,
                                              const Rows &rows, u32 batch) {
    const float *of_rows = rows.of(sums);
    for (u32 row = 0; row < rows.count; row++) {
#pragma unroll
      for (u32 turn = 0; turn < RESETS; turn++) {
        const u32 unit = element(turn);
        if (unit >= HIDDEN) continue;
        const u32 at = row * HIDDEN + unit;
        const float h = load_fresh<1>(states + at).at[0];
        float sum = reset[row * STRIDE + unit];
        // So many are under way at once.
        constexpr u32 AHEAD = 8;
        for (u32 first = 0; first < COLUMNS; first += AHEAD) {
          float taken[AHEAD];
#pragma unroll
          for (u32 n = 0; n < AHEAD; n++) {
            const float *of_column = of_rows + static_cast<size_t>(first + n) * batch * HIDDEN;
            taken[n] = first + n < COLUMNS ? load_fresh<1>(of_column + at).at[0] : 0;
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

// `exchanged` has the sums of two steps, [2, COLUMNS, batch, HIDDEN]: when a block writes those of a step, all others have
// signalled behind their reading of those of the step before the last.
PERSISTENT persistent_gru(ARGUMENTS) {
  LAUNCH_SHARED(float, tile);
  float *reset_tile = tile + TILE_HEIGHT * STRIDE;
  // [TILE_HEIGHT, TILE_WIDTH, TOGETHER]
  float *products = reset_tile + TILE_HEIGHT * STRIDE;
  float *of_tile = products + TILE_HEIGHT * TILE_WIDTH * TOGETHER;
  const Rows rows(batch);
  const Own own(rows);
  GridRow others(arrived);
  const size_t of_step = static_cast<size_t>(COLUMNS) * batch * HIDDEN;

  Products<OUTPUTS, GROUP_SIZE> kept;
  kept.keep(weights, [](u32 output) {
    const u32 unit = blockIdx.x * TILE_WIDTH + output / TOGETHER;
    return unit < HIDDEN ? (UPDATE + output % TOGETHER) * HIDDEN + unit : NOWHERE;
  });
  Resets resets;
  resets.keep(weights);
  clear(tile, 2 * TILE_HEIGHT * STRIDE);
  clear(of_tile, TILE_HEIGHT * OWN_STRIDE);
  // Update gates are multiplied with the state, candidates with what the reset gates leave of it. Of a group with an odd number
  // of outputs, the first may be either.
  const bool swapped = OUTPUTS % 2 == 1 && threadIdx.x / GROUP_SIZE % 2 == 1;
  const float *const tiles[2] = {swapped ? reset_tile : tile, swapped ? tile : reset_tile};
  const u32 length = own.exists ? lengths[own.sequence] : 0;
  const auto of_input = [&](u32 gate) {
    return own.exists ? given(inputs, bias, GATES, gate, own.sequence, own.unit) : 0.0f;
  };
  __syncthreads();

  if (own.exists) of_tile[own.row * OWN_STRIDE + own.column] = hidden[own.at()];
  for (u32 step = 0;; step++) {
    float *sums = exchanged + step % 2 * of_step;
    __syncthreads();
    resets.offer(of_tile, sums, rows, batch);
    others.signal();
    const float update = of_input(UPDATE), candidate = of_input(CANDIDATE);
    Resets::begin(reset_tile, inputs, bias, rows);
    others.wait();

    Resets::take(tile, reset_tile, rows.of(hidden), sums, rows, batch);
    __syncthreads();
    kept.multiply(tiles, products, TILE_WIDTH * TOGETHER);
    __syncthreads();
    hidden += static_cast<size_t>(batch) * HIDDEN;
    if (own.exists) {
      const Pack<float, TOGETHER> product = load<TOGETHER>(products + threadIdx.x * TOGETHER);
      float h = tile[own.row * STRIDE + own.unit];
      if (step < length) h = updated(h, sigmoid(product.at[0] + update), product.at[1] + candidate);
      hidden[own.at()] = h;
      of_tile[own.row * OWN_STRIDE + own.column] = h;
    }
    if (step + 1 == steps) break;
    inputs += static_cast<size_t>(batch) * GATES * HIDDEN;
  }
  others.leave();
}

#endif
EXPORT_KERNEL(persistent_gru)
