// A node of the child-sum tree-LSTM, with any number of children. States are [h|c].

#include "portable.cuh"

// The products and biases of one row: the gates i, o, u; the word's part of the forget gates of all children; and each child's
// part of its own, a row for each.
struct SumGates {
  const float *gates;
  const float *gates_bias;
  const float *forget_word;
  const float *forget_children;
  const float *forget_bias;
};

// c = Σ σ(f of a child) c of the child + σ(i) tanh(u), h = σ(o) tanh(c) of one row. `slots` are those of the children. Returns
// whether all stored numbers are finite.
template <int N>
__device__ __forceinline__ bool sum_row(const SumGates &row, const u32 *slots, u32 children, float *pool, u32 width,
                                        float *state, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    const Pack<float, N> of_word = biased<N>(row.forget_word + unit.at, row.forget_bias + unit.at);
    Pack<float, N> c = {};
    for (u32 child = 0; child < children; child++) {
      const float *of_child = row.forget_children + static_cast<size_t>(child) * hidden;
      const Pack<float, N> f = plus(load<N>(of_child + unit.at), of_word);
      const Pack<float, N> kept = load<N>(state_of(pool, width, slots[child]) + hidden + unit.at);
#pragma unroll
      for (int n = 0; n < N; n++) c.at[n] += sigmoid(f.at[n]) * kept.at[n];
    }
    const float *of_unit = row.gates + unit.at;
    const float *bias_of_unit = row.gates_bias + unit.at;
    const Pack<float, N> i = biased<N>(of_unit, bias_of_unit);
    const Pack<float, N> o = biased<N>(of_unit + hidden, bias_of_unit + hidden);
    const Pack<float, N> u = biased<N>(of_unit + 2 * hidden, bias_of_unit + 2 * hidden);
    Pack<float, N> h;
#pragma unroll
    for (int n = 0; n < N; n++) {
      c.at[n] += sigmoid(i.at[n]) * tanhf(u.at[n]);
      h.at[n] = sigmoid(o.at[n]) * tanhf(c.at[n]);
    }
    store<N>(state + unit.at, h);
    store<N>(state + hidden + unit.at, c);
    numbers = numbers && are_numbers(h) && are_numbers(c);
  }
  return numbers;
}

// `product_iou` has 3H columns, the others H. `product_fh` has a row for each of the inputs of all rows. No row's state may be
// in a slot that another row of the batch reads.
KERNEL step_sum(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *pool, u32 width,
                u32 *broken, const float *__restrict__ product_iou, const float *__restrict__ bias_iou,
                const float *__restrict__ product_fx, const float *__restrict__ product_fh,
                const float *__restrict__ bias_f, u32 hidden, u32 *arrived, u32 *age, u64 *counted, u64 *host,
                u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const u32 begin = inputs_begin(rows, at);
    const u32 children = row.inputs_end - begin;
    const u32 *slots = inputs + begin;
    const SumGates gates = {
        product_iou + static_cast<size_t>(at) * 3 * hidden, bias_iou, product_fx + static_cast<size_t>(at) * hidden,
        product_fh + static_cast<size_t>(begin) * hidden,   bias_f,
    };
    float *state = state_of(pool, width, row.state);
    const bool numbers = by_fours(hidden, hidden | width)
                             ? sum_row<4>(gates, slots, children, pool, width, state, hidden)
                             : sum_row<1>(gates, slots, children, pool, width, state, hidden);
    if (!numbers) broken[row.state] = 1;
  }
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(step_sum)
