// The gathers, for batches whose members have changed: they copy the states and words into the cell's operand, and write the
// table of rows. Each block reads the host's rows in mapped memory. Where only a few rows of chains change, they are
// parameters of the kernel: a read of the host's memory takes longer than the rest.
//
// Rows of the batch that the host does not have become padding: rows of zeros in which no node runs.

#include "portable.cuh"

constexpr u32 ROW_WORDS = sizeof(Row) / sizeof(u32);

// A row and the beginning of its inputs. `at` is less than the size of the batch.
struct Taken {
  u32 inputs_begin;
  Row row;

  // Whether the host has no such row.
  __device__ __forceinline__ bool is_padding() const { return row.state == NOWHERE; }
  __device__ __forceinline__ u32 inputs() const { return row.inputs_end - inputs_begin; }
};

// A row that changes, as the host gives it. `state` is NOWHERE for padding.
struct Change {
  // The place of the row in the batch.
  u32 at;
  u32 request;
  // The node that runs in it next. All but a chain's first node read a state.
  u32 node;
  u32 last;
  u32 state;
  u32 words;
};

// The most rows that one launch changes: with them the parameters take less than the 4 KB that any GPU has for them.
constexpr u32 MOST_CHANGES = 60;

struct Changes {
  u32 count;
  Change rows[MOST_CHANGES];
};

// The end of the first rows' inputs. One thread asks.
__device__ __forceinline__ u32 inputs_of_first(const Row *staged, u32 rows) {
  return rows == 0 ? 0 : read_host(&staged[rows - 1].inputs_end);
}

// Copies a row from the host. All threads of the block call it, and get the same result.
__device__ __forceinline__ Taken take_row(const Row *staged, u32 count, u32 at, Row *rows) {
  // The node in a row of padding.
  constexpr u32 PADDING_NODE = 1;
  SHARED(u32, taken, 1 + ROW_WORDS);
  // Threads of the block may still read the previous row.
  __syncthreads();
  // Neighbouring threads read neighbouring words, so that it is one request to the host.
  if (threadIdx.x <= ROW_WORDS) {
    const u32 field = threadIdx.x - 1;
    u32 word = 0;
    if (threadIdx.x == 0) {
      word = inputs_of_first(staged, at < count ? at : count);
    } else if (at < count) {
      word = read_host(reinterpret_cast<const u32 *>(staged + at) + field);
    }
    taken[threadIdx.x] = word;
  }
  __syncthreads();
  Taken row = {taken[0], {taken[1], taken[2], taken[3], taken[4], taken[5], taken[6], taken[7]}};
  if (at >= count) row.row = {0, PADDING_NODE, 0, NOWHERE, 0, 0, row.inputs_begin};
  if (blockIdx.x == 0 && threadIdx.x == 0) rows[at] = row.row;
  return row;
}

// Resets the number of launches since the gather.
__device__ __forceinline__ void begin(u32 *age) {
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *age = 0;
}

// The operand of one row: [x|h], with zeros for null pointers.
template <int N>
__device__ __forceinline__ void operand_row(Element *operand, const Element *x, const float *h, u32 embedding_width,
                                            u32 hidden) {
  for (Units<N> unit(larger(hidden, embedding_width)); unit.more(); unit.next()) {
    Pack<Element, N> of_x = {};
    Pack<float, N> of_h = {};
    if (x && unit.at < embedding_width) of_x = load<N>(x + unit.at);
    if (h && unit.at < hidden) of_h = load<N>(h + unit.at);
    if (unit.at < embedding_width) store<N>(operand + unit.at, of_x);
    if (unit.at < hidden) store<N>(operand + embedding_width + unit.at, elements(of_h));
  }
}

// What the operand of a chain's row is made of. `fed_back` reads the word in the state, after [h|c].
struct ChainOperand {
  float *pool;
  u32 width;
  const Element *embedding;
  u64 seed;
  u32 vocabulary;
  u32 fed_back;
  Element *operand;
  u32 embedding_width;
  u32 hidden;

  // Writes the operand of a row; zeros for padding. A chain reads the state from the slot to which it writes. The state of
  // a first node is zeros, which are stored for the steps to read.
  __device__ __forceinline__ void write(u32 at, const Row &row, bool is_padding, bool is_first) const {
    const Element *x = nullptr;
    const float *h = nullptr;
    if (!is_padding) {
      float *state = state_of(pool, width, row.state);
      if (!is_first) {
        h = state;
      } else {
        for (Units<1> unit(width); unit.more(); unit.next()) state[unit.at] = 0.0f;
      }
      u32 word = START;
      if (!fed_back) {
        word = word_of(seed, row.request, row.node, vocabulary);
      } else if (h) {
        // An invalid word has made its request fail already.
        const float written = h[2 * hidden];
        if (written >= 0.0f && written < static_cast<float>(vocabulary)) word = static_cast<u32>(written);
      }
      x = embedding + static_cast<size_t>(word) * embedding_width;
    }
    Element *to = operand + static_cast<size_t>(at) * (embedding_width + hidden);
    if (by_fours(hidden, hidden | width | embedding_width)) {
      operand_row<4>(to, x, h, embedding_width, hidden);
    } else {
      operand_row<1>(to, x, h, embedding_width, hidden);
    }
  }
};

KERNEL gather_chain(const Row *__restrict__ staged, const u32 *__restrict__ staged_inputs, u32 count,
                    Row *__restrict__ rows, u32 *__restrict__ inputs, u32 size, float *__restrict__ pool, u32 width,
                    const Element *__restrict__ embedding, u64 seed, u32 vocabulary, u32 fed_back,
                    Element *__restrict__ operand, u32 embedding_width, u32 hidden, u32 *age) {
  begin(age);
  const ChainOperand to = {pool, width, embedding, seed, vocabulary, fed_back, operand, embedding_width, hidden};
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Taken taken = take_row(staged, count, at, rows);
    to.write(at, taken.row, taken.is_padding(), taken.inputs() == 0);
  }
}
EXPORT_KERNEL(gather_chain)

// Some rows of a batch of chains change, and all others stay as the launch before has left them. The table counts nodes from
// the gather on, so the launches since then are subtracted.
KERNEL change_chain(const __grid_constant__ Changes changes, Row *__restrict__ rows, float *__restrict__ pool, u32 width,
                    const Element *__restrict__ embedding, u64 seed, u32 vocabulary, u32 fed_back,
                    Element *__restrict__ operand, u32 embedding_width, u32 hidden, const u32 *__restrict__ age) {
  const u32 launches = *age;
  const ChainOperand to = {pool, width, embedding, seed, vocabulary, fed_back, operand, embedding_width, hidden};
  for (u32 number = blockIdx.y; number < changes.count; number += gridDim.y) {
    const Change &change = changes.rows[number];
    Row row = {change.request, change.node, change.last, change.state, change.words, 0, 0};
    to.write(change.at, row, change.state == NOWHERE, change.node == 0);
    row.node -= launches;
    if (blockIdx.x == 0 && threadIdx.x == 0) rows[change.at] = row;
  }
}
EXPORT_KERNEL(change_chain)

// Leaves read only a word: the operand is [x].
KERNEL gather_leaf(const Row *__restrict__ staged, const u32 *__restrict__ staged_inputs, u32 count,
                   Row *__restrict__ rows, u32 *__restrict__ inputs, u32 size, const Element *__restrict__ embedding,
                   u64 seed, u32 vocabulary, Element *__restrict__ operand, u32 embedding_width, u32 *age) {
  begin(age);
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Taken taken = take_row(staged, count, at, rows);
    const Element *x = nullptr;
    if (!taken.is_padding()) {
      const u32 word = word_of(seed, taken.row.request, taken.row.node, vocabulary);
      x = embedding + static_cast<size_t>(word) * embedding_width;
    }
    Element *to = operand + static_cast<size_t>(at) * embedding_width;
    if (by_fours(embedding_width, embedding_width)) {
      operand_row<4>(to, x, nullptr, embedding_width, 0);
    } else {
      operand_row<1>(to, x, nullptr, embedding_width, 0);
    }
  }
}
EXPORT_KERNEL(gather_leaf)

// A part of a row's input slots, which the block reads from the host together.
struct Slots {
  // The number of slots held at a time.
  static constexpr u32 ROOM = BLOCK;

  const u32 *staged;
  u32 *inputs;
  // The beginning of the row's slots.
  u32 begin;
  u32 end;
  u32 *shared;
  // The first slot in `shared`.
  u32 held;

  __device__ __forceinline__ Slots(const u32 *staged, u32 *inputs, const Taken &row, u32 *shared)
      : staged(staged),
        inputs(inputs),
        begin(row.inputs_begin),
        end(row.row.inputs_end),
        shared(shared),
        held(NOWHERE) {}

  // Loads the slots from this one on. All threads of the block call it.
  __device__ __forceinline__ void hold(u32 from) {
    if (held == from) return;
    held = from;
    __syncthreads();
    if (from + threadIdx.x < end) {
      const u32 slot = read_host(staged + from + threadIdx.x);
      shared[threadIdx.x] = slot;
      if (blockIdx.x == 0) inputs[from + threadIdx.x] = slot;
    }
    __syncthreads();
  }
};

// [h of the left|h of the right] of one row, zeros for a child that is null.
template <int N>
__device__ __forceinline__ void pair_operand(Element *operand, const float *left, const float *right, u32 hidden) {
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    Pack<float, N> of_left = {}, of_right = {};
    if (left) of_left = load<N>(left + unit.at);
    if (right) of_right = load<N>(right + unit.at);
    store<N>(operand + unit.at, elements(of_left));
    store<N>(operand + hidden + unit.at, elements(of_right));
  }
}

// Nodes of a binary tree read the h of up to two children.
KERNEL gather_pair(const Row *__restrict__ staged, const u32 *__restrict__ staged_inputs, u32 count,
                   Row *__restrict__ rows, u32 *__restrict__ inputs, u32 size, const float *__restrict__ pool,
                   u32 width, Element *__restrict__ operand, u32 hidden, u32 *age) {
  SHARED(u32, held, Slots::ROOM);
  begin(age);
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Taken taken = take_row(staged, count, at, rows);
    Slots slots(staged_inputs, inputs, taken, held);
    const float *left = nullptr;
    const float *right = nullptr;
    if (taken.inputs() > 0) {
      slots.hold(taken.inputs_begin);
      left = state_of(pool, width, held[0]);
      if (taken.inputs() > 1) right = state_of(pool, width, held[1]);
    }
    Element *to = operand + static_cast<size_t>(at) * 2 * hidden;
    if (by_fours(hidden, hidden | width)) {
      pair_operand<4>(to, left, right, hidden);
    } else {
      pair_operand<1>(to, left, right, hidden);
    }
  }
}
EXPORT_KERNEL(gather_pair)

// [x|sum of the children's h] of one row, and the children's h, a row for each, from `children` on. The threads of a block stay
// together, because they read slots together.
template <int N>
__device__ __forceinline__ void sum_operand(Element *operand, Element *children, const Element *x, Slots &slots,
                                            const float *pool, u32 width, u32 embedding_width, u32 hidden) {
  const u32 tile = BLOCK * N;
  for (u32 first = blockIdx.x * tile; first < larger(hidden, embedding_width); first += gridDim.x * tile) {
    const u32 unit = first + threadIdx.x * N;
    Pack<Element, N> of_x = {};
    if (x && unit < embedding_width) of_x = load<N>(x + unit);
    Pack<float, N> sum = {};
    for (u32 from = slots.begin; from < slots.end; from += Slots::ROOM) {
      slots.hold(from);
      const u32 here = slots.end - from < Slots::ROOM ? slots.end - from : Slots::ROOM;
      for (u32 child = 0; unit < hidden && child < here; child++) {
        const Pack<float, N> h = load<N>(state_of(pool, width, slots.shared[child]) + unit);
#pragma unroll
        for (int n = 0; n < N; n++) sum.at[n] += h.at[n];
        const size_t child_row = from - slots.begin + child;
        store<N>(children + child_row * hidden + unit, elements(h));
      }
    }
    if (unit < hidden) store<N>(operand + embedding_width + unit, elements(sum));
    if (unit < embedding_width) store<N>(operand + unit, of_x);
  }
}

// Nodes of a child-sum tree read a word and the h of any number of children. `children` has `children_size` rows, one for each
// input of all rows in order; rows after the last input become zeros.
KERNEL gather_sum(const Row *__restrict__ staged, const u32 *__restrict__ staged_inputs, u32 count,
                  Row *__restrict__ rows, u32 *__restrict__ inputs, u32 size, const float *__restrict__ pool, u32 width,
                  const Element *__restrict__ embedding, u64 seed, u32 vocabulary, Element *__restrict__ operand,
                  Element *__restrict__ children, u32 children_size, u32 embedding_width, u32 hidden, u32 *age) {
  SHARED(u32, held, Slots::ROOM);
  SHARED(u32, all_inputs, 1);
  begin(age);
  // A warp that does not read the row, so that both requests are in flight together.
  if (threadIdx.x == WARP) all_inputs[0] = inputs_of_first(staged, count);
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Taken taken = take_row(staged, count, at, rows);
    Slots slots(staged_inputs, inputs, taken, held);
    const Element *x = nullptr;
    if (!taken.is_padding()) {
      const u32 word = word_of(seed, taken.row.request, taken.row.node, vocabulary);
      x = embedding + static_cast<size_t>(word) * embedding_width;
    }
    Element *to = operand + static_cast<size_t>(at) * (embedding_width + hidden);
    Element *to_children = children + static_cast<size_t>(taken.inputs_begin) * hidden;
    if (by_fours(hidden, hidden | width | embedding_width)) {
      sum_operand<4>(to, to_children, x, slots, pool, width, embedding_width, hidden);
    } else {
      sum_operand<1>(to, to_children, x, slots, pool, width, embedding_width, hidden);
    }
    for (u32 child = all_inputs[0] + at; child < children_size; child += size) {
      Element *empty = children + static_cast<size_t>(child) * hidden;
      for (Units<1> unit(hidden); unit.more(); unit.next()) empty[unit.at] = Element();
    }
  }
}
EXPORT_KERNEL(gather_sum)

// The queries of a listed network: only the table, since its operators read the states in place.
KERNEL gather_queries(const Row *__restrict__ staged, const u32 *__restrict__ staged_inputs, u32 count,
                      Row *__restrict__ rows, u32 *__restrict__ inputs, u32 size, u32 *age) {
  begin(age);
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) take_row(staged, count, at, rows);
}
EXPORT_KERNEL(gather_queries)
