// The end of a decoder step: the likeliest word, which the next step reads.

#include "portable.cuh"

// A word and its score. Before any is found, the score is minus infinity and the word NOWHERE.
struct Best {
  float score;
  u32 word;
};

// The larger score; of equals, the lower word.
__device__ __forceinline__ Best better(Best a, Best b) {
  return b.score > a.score || (b.score == a.score && b.word < a.word) ? b : a;
}

// The better of the present one and some words in ascending order. A score that is NaN or minus infinity is never larger and so
// skipped.
template <int N>
__device__ __forceinline__ Best best_of(Best best, const Pack<float, N> &scores, u32 word) {
#pragma unroll
  for (int n = 0; n < N; n++) {
    if (scores.at[n] > best.score) best = {scores.at[n], word + n};
  }
  return best;
}

// The best of the words of one thread, which loads several at a time.
template <int N>
__device__ __forceinline__ Best best_of_thread(const float *scores, const float *bias, u32 vocabulary) {
  constexpr u32 AT_ONCE = N == 1 ? 8 : 4;
  constexpr u32 STRIDE = BLOCK * N;
  Best best = {-infinity(), NOWHERE};
  u32 word = threadIdx.x * N;
  for (; word + (AT_ONCE - 1) * STRIDE < vocabulary; word += AT_ONCE * STRIDE) {
    Pack<float, N> sums[AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k++) sums[k] = biased<N>(scores + word + k * STRIDE, bias + word + k * STRIDE);
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; k++) best = best_of(best, sums[k], word + k * STRIDE);
  }
  for (; word < vocabulary; word += STRIDE) best = best_of(best, biased<N>(scores + word, bias + word), word);
  return best;
}

// The best of the words of all threads of the block, returned to all of them.
__device__ __forceinline__ Best best_of_block(Best best) {
  SHARED(Best, of_warps, BLOCK / WARP);
#pragma unroll
  for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
    const float score = __shfl_xor_sync(EVERY_LANE, best.score, distance);
    const u32 word = __shfl_xor_sync(EVERY_LANE, best.word, distance);
    best = better(best, {score, word});
  }
  // Threads of the block may still read those of the previous row.
  __syncthreads();
  if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = best;
  __syncthreads();
#pragma unroll
  for (u32 warp = 0; warp < BLOCK / WARP; warp++) best = better(best, of_warps[warp]);
  return best;
}

template <int N>
__device__ __forceinline__ void put_x(Element *operand, const Element *x, u32 embedding_width) {
  for (Units<N> unit(embedding_width); unit.more(); unit.next()) store<N>(operand + unit.at, load<N>(x + unit.at));
}

// The grid is one block wide. `scores` has a column for each word. If all scores are NaN, the word in the state becomes NaN, no
// word is written, and the next step would begin anew.
KERNEL decoder_word(const Row *__restrict__ rows, const u32 *__restrict__ inputs, u32 size, float *__restrict__ pool,
                    u32 width, u32 *broken, const float *__restrict__ scores, const float *__restrict__ bias,
                    u32 vocabulary, u32 *words, const Element *__restrict__ embedding, Element *__restrict__ operand,
                    u32 embedding_width, u32 hidden, u32 *arrived, u32 *age, u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, at, launch);
    if (!is_live(row)) continue;
    const float *of_row = scores + static_cast<size_t>(at) * vocabulary;
    const Best best = best_of_block(by_fours(vocabulary, vocabulary) ? best_of_thread<4>(of_row, bias, vocabulary)
                                                                     : best_of_thread<1>(of_row, bias, vocabulary));
    const bool found = best.word != NOWHERE;
    if (threadIdx.x == 0) {
      state_of(pool, width, row.state)[2 * hidden] = found ? static_cast<float>(best.word) : not_a_number();
      if (found) {
        words[row.words + row.node] = best.word;
      } else {
        broken[row.state] = 1;
      }
    }
    if (!goes_on(row)) continue;
    Element *operand_row = operand + static_cast<size_t>(at) * (embedding_width + hidden);
    const Element *x = embedding + static_cast<size_t>(found ? best.word : START) * embedding_width;
    if (by_fours(embedding_width, embedding_width | hidden)) {
      put_x<4>(operand_row, x, embedding_width);
    } else {
      put_x<1>(operand_row, x, embedding_width);
    }
  }
  finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(decoder_word)
