// A step of the canonical GRU, whose reset gate precedes the recurrent product: two kernels, each after a product.

#include "portable.cuh"

// The operand of the second product, [x|σ(r) h], of one row.
template <int N>
__device__ __forceinline__ void reset_row(const float *product, const float *bias, const float *state,
                                          const Element *operand, Element *candidate, u32 embedding_width, u32 hidden) {
  for (Units<N> unit(larger(hidden, embedding_width)); unit.more(); unit.next()) {
    Pack<Element, N> x = {};
    if (unit.at < embedding_width) x = load<N>(operand + unit.at);
    if (unit.at < hidden) {
      Pack<float, N> h = load<N>(state + unit.at);
      const Pack<float, N> r = biased<N>(product + unit.at, bias + unit.at);
#pragma unroll
      for (int n = 0; n < N; n++) h.at[n] *= sigmoid(r.at[n]);
      store<N>(candidate + embedding_width + unit.at, elements(h));
    }
    if (unit.at < embedding_width) store<N>(candidate + unit.at, x);
  }
}

// The product has the gates r and z, 2H columns.
KERNEL gru_reset(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, const float *__restrict__ pool,
                 u32 width, const float *__restrict__ product, const float *__restrict__ bias,
                 const Element *__restrict__ operand, Element *__restrict__ candidate, u32 embedding_width, u32 hidden,
                 const u32 *__restrict__ age) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const float *of_row = product + static_cast<size_t>(at) * 2 * hidden;
    const float *state = state_of(pool, width, row.state);
    const size_t operand_at = static_cast<size_t>(at) * (embedding_width + hidden);
    if (by_fours(hidden, hidden | width | embedding_width)) {
      reset_row<4>(of_row, bias, state, operand + operand_at, candidate + operand_at, embedding_width, hidden);
    } else {
      reset_row<1>(of_row, bias, state, operand + operand_at, candidate + operand_at, embedding_width, hidden);
    }
  }
}
EXPORT_KERNEL(gru_reset)

// (1 - σ(z)) tanh(n) + σ(z) h, which is tanh(n) + σ(z) (h - tanh(n)), of one row, and the operand of its next step: h', and x
// unless it is null. Returns whether all stored numbers are finite.
template <int N>
__device__ __forceinline__ bool update_row(const float *product_z, const float *product_n, const float *bias_z,
                                           const float *bias_n, float *state, Element *operand, const Element *x,
                                           u32 embedding_width, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(larger(hidden, embedding_width)); unit.more(); unit.next()) {
    const bool takes_x = x && unit.at < embedding_width;
    Pack<Element, N> next = {};
    if (takes_x) next = load<N>(x + unit.at);
    if (unit.at < hidden) {
      Pack<float, N> h = load<N>(state + unit.at);
      const Pack<float, N> z = biased<N>(product_z + unit.at, bias_z + unit.at);
      const Pack<float, N> n = biased<N>(product_n + unit.at, bias_n + unit.at);
#pragma unroll
      for (int k = 0; k < N; k++) {
        const float fresh = tanhf(n.at[k]);
        h.at[k] = fresh + sigmoid(z.at[k]) * (h.at[k] - fresh);
      }
      store<N>(state + unit.at, h);
      store<N>(operand + embedding_width + unit.at, elements(h));
      numbers = numbers && are_numbers(h);
    }
    if (takes_x) store<N>(operand + unit.at, next);
  }
  return numbers;
}

// `product` is the one that `gru_reset` read, `product_n` that of the candidate, H columns.
KERNEL gru_update(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                  u32 width, u32 *broken, const Element *__restrict__ embedding, u64 seed, u32 vocabulary,
                  Element *__restrict__ operand, const float *__restrict__ product, const float *__restrict__ product_n,
                  const float *__restrict__ bias, u32 embedding_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted,
                  u64 *host, u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const float *z = product + (static_cast<size_t>(at) * 2 + 1) * hidden;
    const float *n = product_n + static_cast<size_t>(at) * hidden;
    Element *operand_row = operand + static_cast<size_t>(at) * (embedding_width + hidden);
    float *state = state_of(pool, width, row.state);
    const Element *x = next_x(row, embedding, seed, vocabulary, embedding_width);
    const float *bias_z = bias + hidden;
    const float *bias_n = bias + 2 * hidden;
    const bool numbers = by_fours(hidden, hidden | width | embedding_width)
                             ? update_row<4>(z, n, bias_z, bias_n, state, operand_row, x, embedding_width, hidden)
                             : update_row<1>(z, n, bias_z, bias_n, state, operand_row, x, embedding_width, hidden);
    if (!numbers) broken[row.state] = 1;
  }
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(gru_update)
