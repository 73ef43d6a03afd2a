// A step of the LSTM: of the chain's cell, and of the encoder and decoder of a translation.

#include "portable.cuh"

constexpr u32 ENCODER = 1;
constexpr u32 DECODER = 2;

// c' = σ(f) c + σ(i) tanh(g), h' = σ(o) tanh(c') of one row, and the operand of its next step: h', and x unless it is null.
// `product` has the gates i, f, g, o. Returns whether all stored numbers are finite.
template <int N>
__device__ __forceinline__ bool lstm_row(const float *product, const float *bias, float *state, Element *operand,
                                         const Element *x, u32 embedding_width, u32 hidden) {
  bool numbers = true;
  for (Units<N> unit(larger(hidden, embedding_width)); unit.more(); unit.next()) {
    const bool takes_x = x && unit.at < embedding_width;
    Pack<Element, N> next = {};
    if (takes_x) next = load<N>(x + unit.at);
    if (unit.at < hidden) {
      const float *of_unit = product + unit.at;
      const float *bias_of_unit = bias + unit.at;
      Pack<float, N> c = load<N>(state + hidden + unit.at);
      const Pack<float, N> i = biased<N>(of_unit, bias_of_unit);
      const Pack<float, N> f = biased<N>(of_unit + hidden, bias_of_unit + hidden);
      const Pack<float, N> g = biased<N>(of_unit + 2 * hidden, bias_of_unit + 2 * hidden);
      const Pack<float, N> o = biased<N>(of_unit + 3 * hidden, bias_of_unit + 3 * hidden);
      Pack<float, N> h;
#pragma unroll
      for (int n = 0; n < N; n++) {
        c.at[n] = sigmoid(f.at[n]) * c.at[n] + sigmoid(i.at[n]) * tanhf(g.at[n]);
        h.at[n] = sigmoid(o.at[n]) * tanhf(c.at[n]);
      }
      store<N>(state + unit.at, h);
      store<N>(state + hidden + unit.at, c);
      store<N>(operand + embedding_width + unit.at, elements(h));
      numbers = numbers && are_numbers(h) && are_numbers(c);
    }
    if (takes_x) store<N>(operand + unit.at, next);
  }
  return numbers;
}

// The product of the operand [x|h] has 4H columns. An encoder's state also holds the word with which a decoder begins. A
// decoder's next word is not known yet: `decoder_word` writes its x, and ends the cell.
KERNEL step_lstm(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                 u32 width, u32 *broken, const Element *__restrict__ embedding, u64 seed, u32 vocabulary, u32 kind,
                 Element *__restrict__ operand, const float *__restrict__ product, const float *__restrict__ bias,
                 u32 embedding_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const float *of_row = product + static_cast<size_t>(at) * 4 * hidden;
    Element *operand_row = operand + static_cast<size_t>(at) * (embedding_width + hidden);
    float *state = state_of(pool, width, row.state);
    const Element *x = kind == DECODER ? nullptr : next_x(row, embedding, seed, vocabulary, embedding_width);
    const bool numbers = by_fours(hidden, hidden | width | embedding_width)
                             ? lstm_row<4>(of_row, bias, state, operand_row, x, embedding_width, hidden)
                             : lstm_row<1>(of_row, bias, state, operand_row, x, embedding_width, hidden);
    if (!numbers) broken[row.state] = 1;
    if (kind == ENCODER && blockIdx.x == 0 && threadIdx.x == 0) state[2 * hidden] = START;
  }
  if (kind != DECODER) finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(step_lstm)
