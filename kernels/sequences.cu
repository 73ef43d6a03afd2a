// The gather before and the scatter after a persistent kernel, which runs many steps of a batch in one launch: the states are
// copied from the pool together with all words of the steps, and the final states are copied back.
//
// The kernel has matrices of its own with a row for each sequence: `size` rows, of which the first `count` are the rows of the
// batch from `from` on, and the others padding. The rows are in the table that `gather_queries` has written.

#include "portable.cuh"

// A row of the batch, and whether its initial state is zero.
struct Sequence {
  Row row;
  bool is_first;

  __device__ __forceinline__ Sequence(const Row *rows, u32 at, bool exists) : row(), is_first(true) {
    if (!exists) {
      row.state = NOWHERE;
      return;
    }
    row = rows[at];
    is_first = row.inputs_end == inputs_begin(rows, at);
  }

  __device__ __forceinline__ bool is_padding() const { return row.state == NOWHERE; }
  // Its steps; padding has none.
  __device__ __forceinline__ u32 length() const { return is_padding() ? 0 : row.last + 1 - row.node; }
};

// [x|1|1], followed by zeros, or only zeros for an x that is null. The biases are two columns of the inputs' weights, which are
// multiplied with the ones.
template <int N>
__device__ __forceinline__ void input_row(Element *to, u32 to_width, const Element *x, u32 embedding_width) {
  for (Units<N> unit(to_width); unit.more(); unit.next()) {
    Pack<Element, N> numbers = {};
    if (x && unit.at < embedding_width) {
      numbers = load<N>(x + unit.at);
    } else if (x) {
#pragma unroll
      for (int n = 0; n < N; n++) {
        if (unit.at + n < embedding_width + 2) numbers.at[n] = element(1.0f);
      }
    }
    store<N>(to + unit.at, numbers);
  }
}

// One row of the initial states; zeros for a state that is null. `cells` is null for cells without a c.
template <int N>
__device__ __forceinline__ void begin_row(float *h, float *c, const float *state, u32 hidden) {
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    Pack<float, N> of_h = {}, of_c = {};
    if (state) of_h = load<N>(state + unit.at);
    store<N>(h + unit.at, of_h);
    if (!c) continue;
    if (state) of_c = load<N>(state + hidden + unit.at);
    store<N>(c + unit.at, of_c);
  }
}

// `inputs`, [steps, size, input_width], `hidden`, [size, width of h], and `cells`, the same for c or null, are the launch's
// inputs; `lengths` are the steps of each sequence.
KERNEL take_sequences(const Row *__restrict__ rows, u32 from, u32 count, u32 size, u32 steps,
                      const float *__restrict__ pool, u32 width, const Element *__restrict__ embedding, u64 seed,
                      u32 vocabulary, u32 embedding_width, Element *__restrict__ inputs, u32 input_width,
                      float *__restrict__ hidden, float *__restrict__ cells, u32 hidden_width,
                      u32 *__restrict__ lengths) {
  const bool fours = by_fours(larger(input_width, hidden_width), input_width | embedding_width | hidden_width | width);
  for (u32 at = blockIdx.y; at < steps * size; at += gridDim.y) {
    const u32 step = at / size, place = at % size;
    const Sequence sequence(rows, from + place, place < count);
    const Element *x = nullptr;
    if (step < sequence.length()) {
      const u32 word = word_of(seed, sequence.row.request, sequence.row.node + step, vocabulary);
      x = embedding + static_cast<size_t>(word) * embedding_width;
    }
    Element *input = inputs + static_cast<size_t>(at) * input_width;
    if (fours) {
      input_row<4>(input, input_width, x, embedding_width);
    } else {
      input_row<1>(input, input_width, x, embedding_width);
    }
    if (step > 0) continue;
    if (blockIdx.x == 0 && threadIdx.x == 0) lengths[place] = sequence.length();
    const float *state = sequence.is_first ? nullptr : state_of(pool, width, sequence.row.state);
    float *h = hidden + static_cast<size_t>(place) * hidden_width;
    float *c = cells ? cells + static_cast<size_t>(place) * hidden_width : nullptr;
    if (fours) {
      begin_row<4>(h, c, state, hidden_width);
    } else {
      begin_row<1>(h, c, state, hidden_width);
    }
  }
}
EXPORT_KERNEL(take_sequences)

// Writes a row of the final states to its slot. Returns whether all its numbers are finite.
template <int N>
__device__ __forceinline__ bool end_row(float *state, const float *h, const float *c, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    const Pack<float, N> of_h = load<N>(h + unit.at);
    store<N>(state + unit.at, of_h);
    numbers = numbers && are_numbers(of_h);
    if (!c) continue;
    const Pack<float, N> of_c = load<N>(c + unit.at);
    store<N>(state + hidden + unit.at, of_c);
    numbers = numbers && are_numbers(of_c);
  }
  return numbers;
}

// `hidden`, [size, width of h], and `cells`, the same for c or null, are the launch's results.
KERNEL give_sequences(const Row *__restrict__ rows, u32 from, u32 count, float *__restrict__ pool, u32 width,
                      u32 *broken, const float *__restrict__ hidden, const float *__restrict__ cells,
                      u32 hidden_width) {
  const bool fours = by_fours(hidden_width, hidden_width | width);
  for (u32 place = blockIdx.y; place < count; place += gridDim.y) {
    const Sequence sequence(rows, from + place, true);
    if (sequence.is_padding()) continue;
    float *state = state_of(pool, width, sequence.row.state);
    const float *h = hidden + static_cast<size_t>(place) * hidden_width;
    const float *c = cells ? cells + static_cast<size_t>(place) * hidden_width : nullptr;
    const bool numbers = fours ? end_row<4>(state, h, c, hidden_width) : end_row<1>(state, h, c, hidden_width);
    if (!numbers) broken[sequence.row.state] = 1;
  }
}
EXPORT_KERNEL(give_sequences)
