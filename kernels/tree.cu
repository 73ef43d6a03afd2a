// The binary tree-LSTM: leaves, and nodes with a left and a right child. States are [h|c].

#include "portable.cuh"

// c = σ(i) tanh(u), h = σ(o) tanh(c) of one row, whose product has the gates i, o, u. Returns whether all stored numbers are
// finite.
template <int N>
__device__ __forceinline__ bool leaf_row(const float *product, const float *bias, float *state, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    const float *of_unit = product + unit.at;
    const float *bias_of_unit = bias + unit.at;
    const Pack<float, N> i = biased<N>(of_unit, bias_of_unit);
    const Pack<float, N> o = biased<N>(of_unit + hidden, bias_of_unit + hidden);
    const Pack<float, N> u = biased<N>(of_unit + 2 * hidden, bias_of_unit + 2 * hidden);
    Pack<float, N> h, c;
#pragma unroll
    for (int n = 0; n < N; n++) {
      c.at[n] = sigmoid(i.at[n]) * tanhf(u.at[n]);
      h.at[n] = sigmoid(o.at[n]) * tanhf(c.at[n]);
    }
    store<N>(state + unit.at, h);
    store<N>(state + hidden + unit.at, c);
    numbers = numbers && are_numbers(h) && are_numbers(c);
  }
  return numbers;
}

// A leaf of the binary tree or of the child-sum tree, which differ only in their weights.
KERNEL step_leaf(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                 u32 width, u32 *broken, const float *__restrict__ product, const float *__restrict__ bias, u32 hidden,
                 u32 *arrived, u32 *age, u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const float *of_row = product + static_cast<size_t>(at) * 3 * hidden;
    float *state = state_of(pool, width, row.state);
    const bool numbers = by_fours(hidden, hidden | width) ? leaf_row<4>(of_row, bias, state, hidden)
                                                          : leaf_row<1>(of_row, bias, state, hidden);
    if (!numbers) broken[row.state] = 1;
  }
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(step_leaf)

// c = σ(i) tanh(u) + σ(f of the left) c of the left + σ(f of the right) c of the right, h = σ(o) tanh(c) of one row, whose
// product has the gates i, o, u and both forget gates. A child that is null contributes nothing. Returns whether all stored
// numbers are finite.
template <int N>
__device__ __forceinline__ bool pair_row(const float *product, const float *bias, const float *left, const float *right,
                                         float *state, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(hidden); unit.more(); unit.next()) {
    const float *of_unit = product + unit.at;
    const float *bias_of_unit = bias + unit.at;
    Pack<float, N> c_left = {}, c_right = {};
    if (left) c_left = load<N>(left + hidden + unit.at);
    if (right) c_right = load<N>(right + hidden + unit.at);
    const Pack<float, N> i = biased<N>(of_unit, bias_of_unit);
    const Pack<float, N> o = biased<N>(of_unit + hidden, bias_of_unit + hidden);
    const Pack<float, N> u = biased<N>(of_unit + 2 * hidden, bias_of_unit + 2 * hidden);
    const Pack<float, N> f_left = biased<N>(of_unit + 3 * hidden, bias_of_unit + 3 * hidden);
    const Pack<float, N> f_right = biased<N>(of_unit + 4 * hidden, bias_of_unit + 4 * hidden);
    Pack<float, N> h, c;
#pragma unroll
    for (int n = 0; n < N; n++) {
      c.at[n] = sigmoid(i.at[n]) * tanhf(u.at[n]) + sigmoid(f_left.at[n]) * c_left.at[n]
                + sigmoid(f_right.at[n]) * c_right.at[n];
      h.at[n] = sigmoid(o.at[n]) * tanhf(c.at[n]);
    }
    store<N>(state + unit.at, h);
    store<N>(state + hidden + unit.at, c);
    numbers = numbers && are_numbers(h) && are_numbers(c);
  }
  return numbers;
}

// A node with up to two children. No row's state may be in a slot that another row of the batch reads.
KERNEL step_pair(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *pool, u32 width,
                 u32 *broken, const float *__restrict__ product, const float *__restrict__ bias, u32 hidden,
                 u32 *arrived, u32 *age, u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const u32 begin = inputs_begin(rows, at);
    const u32 children = row.inputs_end - begin;
    const float *left = children > 0 ? state_of(pool, width, inputs[begin]) : nullptr;
    const float *right = children > 1 ? state_of(pool, width, inputs[begin + 1]) : nullptr;
    const float *of_row = product + static_cast<size_t>(at) * 5 * hidden;
    float *state = state_of(pool, width, row.state);
    const bool numbers = by_fours(hidden, hidden | width) ? pair_row<4>(of_row, bias, left, right, state, hidden)
                                                          : pair_row<1>(of_row, bias, left, right, state, hidden);
    if (!numbers) broken[row.state] = 1;
  }
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(step_pair)
