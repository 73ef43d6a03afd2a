// The operators of a listed network: the gathers of their operands from the states of some queries, and the scatter of their
// products. A state has the numbers of a query's activation, and at `length_at` their count.

#include "portable.cuh"

// The sizes of an operator for a query, by the query's tokens.
struct Own {
  // The matrices that it writes, with their rows and columns, and the numbers that are added up for each element.
  u32 count;
  u32 rows;
  u32 inner;
  u32 columns;
  // The numbers that it reads and writes.
  u32 reads;
  u32 writes;
  // The factor of sums before the hyperbolic tangent.
  float slope;
};

// An operator's input for a query: the activation, read cyclically. A query that has passed no operator has random numbers, as
// many as the operator reads.
struct Activation {
  const float *numbers;
  u32 length;
  u64 stream;

  __device__ __forceinline__ Activation(const Row &row, const float *pool, u32 width, u32 length_at, u64 seed)
      : numbers(nullptr), length(0), stream(0) {
    if (row.node == 0) {
      stream = mixed(seed ^ mixed(row.request));
    } else {
      numbers = state_of(pool, width, row.state);
      length = __float_as_uint(numbers[length_at]);
    }
  }

  __device__ __forceinline__ float at(u32 place) const {
    if (!numbers) {
      // Uniform between -1 and 1, the same numbers as on the CPU.
      return static_cast<float>(static_cast<u32>(mixed(stream + place) >> 40)) * (1.0f / 8388608.0f) - 1.0f;
    }
    if (place < length) return numbers[place];
    return length == 0 ? 0.0f : numbers[place % length];
  }

  // Whether it can be read by fours.
  __device__ __forceinline__ bool by_fours() const { return numbers && length % 4 == 0 && length > 0; }
};

__device__ __forceinline__ void put(Element *to, float x) { *to = element(x); }
__device__ __forceinline__ void put(Element *to, const Pack<float, 4> &x) { store<4>(to, elements(x)); }
#if ELEMENT != 0
__device__ __forceinline__ void put(float *to, float x) { *to = x; }
__device__ __forceinline__ void put(float *to, const Pack<float, 4> &x) { store<4>(to, x); }
#endif

// The first numbers that an operator reads of each query, and zeros up to `units`.
template <class T>
__device__ __forceinline__ void read_activations(const Row *rows, u32 from, u32 size, const float *pool, u32 width,
                                                 u32 length_at, const Own *own, const u32 *age, u64 seed, T *to,
                                                 u32 units) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, from + at, launch);
    T *of_query = to + static_cast<size_t>(at) * units;
    if (!is_live(row)) {
      for (Units<1> unit(units); unit.more(); unit.next()) put(of_query + unit.at, 0.0f);
      continue;
    }
    const Activation x(row, pool, width, length_at, seed);
    const u32 reads = own[row.tokens].reads;
    if (by_fours(units, units | reads) && x.by_fours()) {
      for (Units<4> unit(units); unit.more(); unit.next()) {
        Pack<float, 4> numbers = {};
        if (unit.at < reads) numbers = load<4>(x.numbers + unit.at % x.length);
        put(of_query + unit.at, numbers);
      }
    } else {
      for (Units<1> unit(units); unit.more(); unit.next()) {
        put(of_query + unit.at, unit.at < reads ? x.at(unit.at) : 0.0f);
      }
    }
  }
}

// The rows of the queries, below each other, for a product with weights.
KERNEL operand_rows(const Row *__restrict__ rows, u32 from, u32 size, const float *__restrict__ pool, u32 width,
                    u32 length_at, const Own *__restrict__ own, const u32 *__restrict__ age, u64 seed,
                    Element *__restrict__ operand, u32 units) {
  read_activations(rows, from, size, pool, width, length_at, own, age, seed, operand, units);
}
EXPORT_KERNEL(operand_rows)

// The input of an operator without products, before the hyperbolic tangent.
KERNEL copy_numbers(const Row *__restrict__ rows, u32 from, u32 size, const float *__restrict__ pool, u32 width,
                    u32 length_at, const Own *__restrict__ own, const u32 *__restrict__ age, u64 seed,
                    float *__restrict__ product, u32 units) {
  read_activations(rows, from, size, pool, width, length_at, own, age, seed, product, units);
}
EXPORT_KERNEL(copy_numbers)

// Matrices [height, width] of a query's numbers from `begin` on, `count` of them, padded with zeros.
__device__ __forceinline__ void pad_matrices(Element *to, u32 count, u32 height, u32 width, const Activation &x, u32 begin,
                                             u32 own_count, u32 own_height, u32 own_width) {
  for (Units<1> unit(count * height * width); unit.more(); unit.next()) {
    const u32 column = unit.at % width;
    const u32 above = unit.at / width;
    const u32 row = above % height;
    const u32 matrix = above / height;
    const bool has = matrix < own_count && row < own_height && column < own_width;
    put(to + unit.at, has ? x.at(begin + (matrix * own_height + row) * own_width + column) : 0.0f);
  }
}

// Pairs of matrices of each query: [rows, inner] to the left, [inner, columns] to the right. In the activation all left ones
// are contiguous, followed by the right ones.
KERNEL operand_pairs(const Row *__restrict__ rows, u32 from, u32 size, const float *__restrict__ pool, u32 width,
                     u32 length_at, const Own *__restrict__ own, const u32 *__restrict__ age, u64 seed,
                     Element *__restrict__ left, Element *__restrict__ right, u32 count, u32 height, u32 inner,
                     u32 columns) {
  const u32 launch = *age;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, from + at, launch);
    const bool live = is_live(row);
    Own mine = {};
    if (live) mine = own[row.tokens];
    // A row of padding has no state.
    Row read = row;
    if (!live) read.node = 0;
    const Activation x(read, pool, width, length_at, seed);
    pad_matrices(left + static_cast<size_t>(at) * count * height * inner, count, height, inner, x, 0, mine.count,
                 mine.rows, mine.inner);
    pad_matrices(right + static_cast<size_t>(at) * count * inner * columns, count, inner, columns, x,
                 mine.count * mine.rows * mine.inner, mine.count, mine.inner, mine.columns);
  }
}
EXPORT_KERNEL(operand_pairs)

// tanh(slope x) of N numbers. Returns whether they are finite.
template <int N>
__device__ __forceinline__ bool squash_numbers(float *to, const float *from, float slope) {
  Pack<float, N> y = load<N>(from);
#pragma unroll
  for (int n = 0; n < N; n++) y.at[n] = tanhf(slope * y.at[n]);
  store<N>(to, y);
  return are_numbers(y);
}

// The query's part of the products, `count` matrices [height, columns], becomes its activation. `ends` says that these are the
// batch's last queries.
KERNEL squash(const Row *__restrict__ rows, u32 from, u32 size, float *__restrict__ pool, u32 width, u32 length_at,
              const Own *__restrict__ own, u32 *age, u32 *broken, const float *__restrict__ product, u32 count, u32 height,
              u32 columns, u32 ends, u32 *arrived, u64 *counted, u64 *host, u32 signals) {
  const u32 launch = *age;
  const u32 units = count * height * columns;
  for (u32 at = blockIdx.y; at < size; at += gridDim.y) {
    const Row row = row_at(rows, from + at, launch);
    if (!is_live(row)) continue;
    const Own mine = own[row.tokens];
    float *state = state_of(pool, width, row.state);
    const float *of_query = product + static_cast<size_t>(at) * units;
    // Whether the query's numbers are the first ones.
    const bool first = mine.columns == columns && (mine.rows == height || mine.count == 1);
    bool numbers = true;
    if (first && by_fours(units, units | mine.writes)) {
      for (Units<4> unit(mine.writes); unit.more(); unit.next()) {
        numbers = squash_numbers<4>(state + unit.at, of_query + unit.at, mine.slope) && numbers;
      }
    } else if (first || (mine.rows == 1 && mine.count == 1)) {
      for (Units<1> unit(mine.writes); unit.more(); unit.next()) {
        numbers = squash_numbers<1>(state + unit.at, of_query + unit.at, mine.slope) && numbers;
      }
    } else {
      for (Units<1> unit(mine.writes); unit.more(); unit.next()) {
        const u32 column = unit.at % mine.columns;
        const u32 above = unit.at / mine.columns;
        const u32 line = above / mine.rows * height + above % mine.rows;
        numbers = squash_numbers<1>(state + unit.at, of_query + static_cast<size_t>(line) * columns + column, mine.slope)
                  && numbers;
      }
    }
    if (!numbers) broken[row.state] = 1;
    if (blockIdx.x == 0 && threadIdx.x == 0) state[length_at] = __uint_as_float(mine.writes);
  }
  if (ends) finish(launch, arrived, age, counted, host, signals);
}
EXPORT_KERNEL(squash)
