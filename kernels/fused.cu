// Steps of gated cells in one kernel: the product of the operand with the weights, the gates, and the state. The gates pass
// through no memory outside of the multiprocessor.
//
// A block computes all gates of eight units in up to 64 rows at a time, so that the grid has a block for every eight units
// along x, and may have more along y, which share the rows. No block waits for another. The warps of a block split the inputs,
// so each number of the block's is read once: the weights, which the host has packed in the order in which the lanes take them,
// and the operand. They go from memory into the registers of the lane that multiplies them, a few blocks of inputs ahead. Then
// the warps add up their sums in shared memory.
//
// In float32 each number is a sum of two that TF32 holds, `x = big + small`, and a product is big·big + big·small + small·big:
// what is left out is 2^-22 of it.
//
// For compute capability 8.0 and later, and inputs in whole blocks of 64 bytes.

#include "portable.cuh"

// The units of a block.
constexpr u32 UNITS = 8;
constexpr u32 WARPS = BLOCK / WARP;
// The rows of a tile.
constexpr u32 TILE = 16;
// The inputs that a warp takes at a time, in 32-bit words.
constexpr u32 DEPTH = 16;

// A block takes a multiprocessor for itself: nearly all of its registers hold numbers on their way.
#define WIDE_KERNEL extern "C" __global__ void __launch_bounds__(BLOCK, 1)

// What a kernel multiplies, and adds.
struct Factors {
  // The rows of [size][words].
  const u32 *operand;
  u32 size;
  // For each block of eight units, each block of inputs and each gate, four words of each lane.
  const u32 *weights;
  // The inputs, in 32-bit words.
  u32 words;
};

// The inputs in 32-bit words.
__device__ __forceinline__ u32 words_of(u32 inputs) { return inputs * static_cast<u32>(sizeof(Element)) / sizeof(u32); }

// A block of inputs as a lane has it: four words of two rows of each tile, and of a unit's weights of each gate. Which word of a
// row is which does not matter to a sum, so a lane multiplies the ones that it reads together.
template <int TILES, int GATES>
struct InputBlock {
  Pack<u32, 4> left[TILES][2];
  Pack<u32, 4> right[GATES];
};

#if ELEMENT == 0
// The numbers that TF32 holds whose sum is closest to some.
template <int N>
struct Split {
  Pack<u32, N> big;
  Pack<u32, N> small;

  __device__ __forceinline__ explicit Split(const Pack<u32, N> &words) {
#pragma unroll
    for (int n = 0; n < N; n++) {
      big.at[n] = (words.at[n] + 0x1000) & 0xffffe000;
      small.at[n] = __float_as_uint(__uint_as_float(words.at[n]) - __uint_as_float(big.at[n]));
    }
  }
};
#endif

// The sums of a warp in all tiles and gates, as `multiply_tile` has them.
template <int TILES, int GATES>
struct Sums {
  Pack<float, 4> at[TILES][GATES];

  __device__ __forceinline__ void add(const InputBlock<TILES, GATES> &block) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      Pack<u32, 2> right[GATES];
#pragma unroll
      for (int gate = 0; gate < GATES; gate++) {
        right[gate] = {block.right[gate].at[2 * half], block.right[gate].at[2 * half + 1]};
      }
#pragma unroll
      for (int tile = 0; tile < TILES; tile++) {
        const Pack<u32, 4> *rows = block.left[tile];
        add_half(at[tile], {rows[0].at[2 * half], rows[1].at[2 * half], rows[0].at[2 * half + 1], rows[1].at[2 * half + 1]},
                 right);
      }
    }
  }

 private:
  static __device__ __forceinline__ void add_half(Pack<float, 4> (&sums)[GATES], const Pack<u32, 4> &left,
                                                  const Pack<u32, 2> (&right)[GATES]) {
#if ELEMENT == 0
    const Split<4> rows(left);
    // The small products come first. Those of one sum stand apart, since each waits for the one before.
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) multiply_tile(sums[gate], rows.small, Split<2>(right[gate]).big);
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) multiply_tile(sums[gate], rows.big, Split<2>(right[gate]).small);
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) multiply_tile(sums[gate], rows.big, Split<2>(right[gate]).big);
#else
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) multiply_tile(sums[gate], left, right[gate]);
#endif
  }
};

// Where a lane finds its words of all blocks of inputs.
template <int TILES, int GATES>
struct InputBlocks {
  const u32 *operand;
  // The beginning of its words in its rows of the tiles.
  u32 rows[TILES][2];
  const u32 *weights;

  // `first` is the first row of the tiles. Rows that the batch does not have are its last one again, and their
  // sums are not used.
  __device__ __forceinline__ InputBlocks(const Factors &factors, u32 first) : operand(factors.operand) {
    const u32 lane = threadIdx.x % WARP;
    const size_t blocks = static_cast<size_t>(blockIdx.x) * (factors.words / DEPTH);
    weights = factors.weights + (blocks * GATES * WARP + lane) * 4;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const u32 row = first + tile * TILE + half * (TILE / 2) + lane / 4;
        rows[tile][half] = (row < factors.size ? row : factors.size - 1) * factors.words + lane % 4 * 4;
      }
    }
  }

  __device__ __forceinline__ InputBlock<TILES, GATES> block(u32 number) const {
    InputBlock<TILES, GATES> block;
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) {
      block.right[gate] = load<4>(weights + (static_cast<size_t>(number) * GATES + gate) * WARP * 4);
    }
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
#pragma unroll
      for (int half = 0; half < 2; half++) block.left[tile][half] = load<4>(operand + rows[tile][half] + number * DEPTH);
    }
    return block;
  }
};

// The sums of a warp's part of the inputs.
template <int TILES, int GATES>
__device__ __forceinline__ Sums<TILES, GATES> sums_of_warp(const Factors &factors, u32 first) {
  // The blocks of inputs on their way: with few rows they have to be many, to keep the memory busy.
  constexpr int AHEAD = TILES == 1 ? 4 : 2;
  const InputBlocks<TILES, GATES> blocks(factors, first);
  const u32 warp = threadIdx.x / WARP;
  const u32 all = factors.words / DEPTH;
  const u32 begin = all * warp / WARPS;
  const u32 end = all * (warp + 1) / WARPS;
  InputBlock<TILES, GATES> ahead[AHEAD];
  Sums<TILES, GATES> sums = {};
#pragma unroll
  for (int n = 0; n < AHEAD; n++) {
    if (begin + n < end) ahead[n] = blocks.block(begin + n);
  }
  for (u32 at = begin; at < end; at += AHEAD) {
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      if (at + n < end) {
        sums.add(ahead[n]);
        if (at + n + AHEAD < end) ahead[n] = blocks.block(at + n + AHEAD);
      }
    }
  }
  return sums;
}

// The products of a unit in a row, a number for each gate.
template <int GATES>
struct Gates {
  float at[GATES];
};

// The tiles whose sums the warps of a block add up at a time: two have a unit for each thread.
constexpr u32 TOGETHER = 2;

// The gates of a block's units in some tiles, from the first row on. `unit(row, unit, gates)` is called for each of them, with
// units that the block does not have too. `parts` has room for the sums of all warps in two tiles.
template <int TILES, int GATES, class Unit>
__device__ __forceinline__ void gates_of_tiles(const Factors &factors, u32 first, float *parts, const Unit &unit) {
  constexpr u32 PART = TOGETHER * GATES * TILE * UNITS;
  const Sums<TILES, GATES> sums = sums_of_warp<TILES, GATES>(factors, first);
  const u32 lane = threadIdx.x % WARP;
  float *own = parts + threadIdx.x / WARP * PART + lane / 4 * UNITS + lane % 4 * 2;
#pragma unroll
  for (u32 from = 0; from < TILES; from += TOGETHER) {
    // Threads may still read the sums before.
    __syncthreads();
#pragma unroll
    for (u32 tile = 0; tile < TOGETHER && from + tile < TILES; tile++) {
#pragma unroll
      for (int gate = 0; gate < GATES; gate++) {
        const Pack<float, 4> &sum = sums.at[from + tile][gate];
        float *to = own + (tile * GATES + gate) * TILE * UNITS;
        store<2>(to, {sum.at[0], sum.at[1]});
        store<2>(to + TILE / 2 * UNITS, {sum.at[2], sum.at[3]});
      }
    }
    __syncthreads();
    const u32 tile = threadIdx.x / (TILE * UNITS);
    const u32 place = threadIdx.x % (TILE * UNITS);
    const u32 row = first + (from + tile) * TILE + place / UNITS;
    if (from + tile < TILES && row < factors.size) {
      Gates<GATES> gates = {};
#pragma unroll
      for (int gate = 0; gate < GATES; gate++) {
        const float *of_gate = parts + (tile * GATES + gate) * TILE * UNITS + place;
#pragma unroll
        for (u32 warp = 0; warp < WARPS; warp++) gates.at[gate] += of_gate[warp * PART];
      }
      unit(row, blockIdx.x * UNITS + place % UNITS, gates);
    }
  }
}

// The gates of a block's units in all rows.
template <int GATES, class Unit>
__device__ __forceinline__ void gates_of_rows(const Factors &factors, const Unit &unit) {
  SHARED(float, parts, WARPS *TOGETHER *GATES *TILE *UNITS);
  if (factors.size <= TILE) {
    if (blockIdx.y == 0) gates_of_tiles<1, GATES>(factors, 0, parts, unit);
  } else if (factors.size <= 2 * TILE) {
    if (blockIdx.y == 0) gates_of_tiles<2, GATES>(factors, 0, parts, unit);
  } else {
    for (u32 first = blockIdx.y * 4 * TILE; first < factors.size; first += gridDim.y * 4 * TILE) {
      gates_of_tiles<4, GATES>(factors, first, parts, unit);
    }
  }
}

// Copies the blocks' parts of each row's x, which `x_of(row)` finds unless it is null, into the operand of the next step.
template <class X>
__device__ __forceinline__ void copy_x(Element *operand, u32 size, u32 embedding_width, u32 inputs, const X &x_of) {
  const u32 rows_at_a_time = gridDim.y * (BLOCK / UNITS);
  for (u32 at = blockIdx.y * (BLOCK / UNITS) + threadIdx.x / UNITS; at < size; at += rows_at_a_time) {
    const Element *x = x_of(at);
    if (!x) continue;
    Element *to = operand + static_cast<size_t>(at) * inputs;
    for (u32 unit = blockIdx.x * UNITS + threadIdx.x % UNITS; unit < embedding_width; unit += gridDim.x * UNITS) {
      to[unit] = x[unit];
    }
  }
}

// A step of an LSTM but a decoder's: of a chain's cell or an encoder. `operand` and `next` are two places, because other blocks
// still read this step's operand when a block writes its part of the next one's.
WIDE_KERNEL fused_lstm(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                       u32 width, u32 *broken, const Element *__restrict__ embedding, u64 seed, u32 vocabulary, u32 encodes,
                       const Element *__restrict__ operand, Element *__restrict__ next, const u32 *__restrict__ weights,
                       const float *__restrict__ bias, u32 embedding_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted,
                       u64 *host, u32 signals) {
  const u32 launch = *age;
  const u32 row_width = embedding_width + hidden;
  copy_x(next, size, embedding_width, row_width, [=](u32 at) -> const Element * {
    const Row row = row_at(rows, at, launch);
    return is_live(row) ? next_x(row, embedding, seed, vocabulary, embedding_width) : nullptr;
  });
  const Factors factors = {reinterpret_cast<const u32 *>(operand), size, weights, words_of(row_width)};
  gates_of_rows<4>(factors, [=](u32 at, u32 unit, const Gates<4> &gates) {
    const Row row = row_at(rows, at, launch);
    if (unit >= hidden || !is_live(row)) return;
    float *state = state_of(pool, width, row.state);
    const float i = gates.at[0] + bias[unit];
    const float f = gates.at[1] + bias[hidden + unit];
    const float g = gates.at[2] + bias[2 * hidden + unit];
    const float o = gates.at[3] + bias[3 * hidden + unit];
    const float c = sigmoid(f) * state[hidden + unit] + sigmoid(i) * tanhf(g);
    const float h = sigmoid(o) * tanhf(c);
    state[unit] = h;
    state[hidden + unit] = c;
    next[static_cast<size_t>(at) * row_width + embedding_width + unit] = element(h);
    if (!is_number(h) || !is_number(c)) broken[row.state] = 1;
    if (encodes && unit == 0) state[2 * hidden] = START;
  });
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(fused_lstm)

// The first half of a GRU's step: the operand of the second, [x|σ(r) h], and σ(z).
WIDE_KERNEL fused_gru_reset(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size,
                            const float *__restrict__ pool, u32 width, const Element *__restrict__ operand,
                            Element *__restrict__ candidate, float *__restrict__ updates, const u32 *__restrict__ weights,
                            const float *__restrict__ bias, u32 embedding_width, u32 hidden, const u32 *__restrict__ age) {
  const u32 launch = *age;
  const u32 row_width = embedding_width + hidden;
  copy_x(candidate, size, embedding_width, row_width,
         [=](u32 at) { return operand + static_cast<size_t>(at) * row_width; });
  const Factors factors = {reinterpret_cast<const u32 *>(operand), size, weights, words_of(row_width)};
  gates_of_rows<2>(factors, [=](u32 at, u32 unit, const Gates<2> &gates) {
    const Row row = row_at(rows, at, launch);
    if (unit >= hidden || !is_live(row)) return;
    const float h = state_of(pool, width, row.state)[unit];
    const float reset = sigmoid(gates.at[0] + bias[unit]);
    candidate[static_cast<size_t>(at) * row_width + embedding_width + unit] = element(reset * h);
    updates[static_cast<size_t>(at) * hidden + unit] = sigmoid(gates.at[1] + bias[hidden + unit]);
  });
}
EXPORT_KERNEL(fused_gru_reset)

// The second half: tanh(n) + σ(z) (h - tanh(n)), and the operand of the next step, which no block reads any more.
WIDE_KERNEL fused_gru_update(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                             u32 width, u32 *broken, const Element *__restrict__ embedding, u64 seed, u32 vocabulary,
                             Element *__restrict__ operand, const Element *__restrict__ candidate,
                             const float *__restrict__ updates, const u32 *__restrict__ weights,
                             const float *__restrict__ bias, u32 embedding_width, u32 hidden, u32 *arrived, u32 *age,
                             u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  const u32 row_width = embedding_width + hidden;
  copy_x(operand, size, embedding_width, row_width, [=](u32 at) -> const Element * {
    const Row row = row_at(rows, at, launch);
    return is_live(row) ? next_x(row, embedding, seed, vocabulary, embedding_width) : nullptr;
  });
  const Factors factors = {reinterpret_cast<const u32 *>(candidate), size, weights, words_of(row_width)};
  gates_of_rows<1>(factors, [=](u32 at, u32 unit, const Gates<1> &gates) {
    const Row row = row_at(rows, at, launch);
    if (unit >= hidden || !is_live(row)) return;
    float *state = state_of(pool, width, row.state);
    const float fresh = tanhf(gates.at[0] + bias[2 * hidden + unit]);
    const float h = fresh + updates[static_cast<size_t>(at) * hidden + unit] * (state[unit] - fresh);
    state[unit] = h;
    operand[static_cast<size_t>(at) * row_width + embedding_width + unit] = element(h);
    if (!is_number(h)) broken[row.state] = 1;
  });
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(fused_gru_update)

// A leaf of a tree-LSTM. The operand is [x].
WIDE_KERNEL fused_leaf(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                       u32 width, u32 *broken, const Element *__restrict__ operand, const u32 *__restrict__ weights,
                       const float *__restrict__ bias, u32 row_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted,
                       u64 *host, u32 signals) {
  const u32 launch = *age;
  const Factors factors = {reinterpret_cast<const u32 *>(operand), size, weights, words_of(row_width)};
  gates_of_rows<3>(factors, [=](u32 at, u32 unit, const Gates<3> &gates) {
    const Row row = row_at(rows, at, launch);
    if (unit >= hidden || !is_live(row)) return;
    float *state = state_of(pool, width, row.state);
    const float i = gates.at[0] + bias[unit];
    const float o = gates.at[1] + bias[hidden + unit];
    const float u = gates.at[2] + bias[2 * hidden + unit];
    const float c = sigmoid(i) * tanhf(u);
    const float h = sigmoid(o) * tanhf(c);
    state[unit] = h;
    state[hidden + unit] = c;
    if (!is_number(h) || !is_number(c)) broken[row.state] = 1;
  });
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(fused_leaf)

// A node with up to two children in a binary tree-LSTM. The operand is [h of the left|h of the right]. No row's state may be in
// a slot that another row of the batch reads.
WIDE_KERNEL fused_pair(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *pool, u32 width,
                       u32 *broken, const Element *__restrict__ operand, const u32 *__restrict__ weights,
                       const float *__restrict__ bias, u32 row_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted,
                       u64 *host, u32 signals) {
  const u32 launch = *age;
  const Factors factors = {reinterpret_cast<const u32 *>(operand), size, weights, words_of(row_width)};
  gates_of_rows<5>(factors, [=](u32 at, u32 unit, const Gates<5> &gates) {
    const Row row = row_at(rows, at, launch);
    if (unit >= hidden || !is_live(row)) return;
    const u32 begin = inputs_begin(rows, at);
    const u32 children = row.inputs_end - begin;
    const float left = children > 0 ? state_of(pool, width, inputs[begin])[hidden + unit] : 0.0f;
    const float right = children > 1 ? state_of(pool, width, inputs[begin + 1])[hidden + unit] : 0.0f;
    float *state = state_of(pool, width, row.state);
    const float i = gates.at[0] + bias[unit];
    const float o = gates.at[1] + bias[hidden + unit];
    const float u = gates.at[2] + bias[2 * hidden + unit];
    const float f_left = gates.at[3] + bias[3 * hidden + unit];
    const float f_right = gates.at[4] + bias[4 * hidden + unit];
    const float c = sigmoid(i) * tanhf(u) + sigmoid(f_left) * left + sigmoid(f_right) * right;
    const float h = sigmoid(o) * tanhf(c);
    state[unit] = h;
    state[hidden + unit] = c;
    if (!is_number(h) || !is_number(c)) broken[row.state] = 1;
  });
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(fused_pair)
