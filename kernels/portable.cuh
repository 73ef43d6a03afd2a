// The common parts of all kernels, in C++ that NVRTC compiles without any of CUDA's headers.
//
// The same text runs on the CPU in tests, where a shim that defines HOST_CUDA replaces the built-in parts of CUDA's C++. All
// inline PTX is in this file, beside a version for the CPU.
//
// ELEMENT selects the number format of operands, weights and embeddings: 0 float32, 1 float16, 2 bfloat16.
//
// Kernels are launched with blocks of BLOCK threads. The grid has a row of blocks for each row of the batch, or fewer, each of
// which then handles several; along x, blocks share the units of a row, however many they are. A grid with a thread for every
// unit is for small batches, which need many threads. In a narrower one, each thread handles four units at a time. Rows are
// aligned for that if all widths are multiples of four; `width`, the distance of two states, may be larger than a state for
// this reason.

#ifndef BATCHLAB_PORTABLE
#define BATCHLAB_PORTABLE

typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef ELEMENT
#error "define ELEMENT: 0 for float32, 1 for float16, 2 for bfloat16"
#endif

// The threads of a block, and the blocks that a multiprocessor has registers for: 64 for each thread.
constexpr u32 BLOCK = 256;
constexpr u32 BLOCKS = 4;
constexpr u32 WARP = 32;
constexpr u32 EVERY_LANE = 0xffffffff;

#define KERNEL extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)

#ifdef HOST_CUDA
#define SHARED(TYPE, NAME, LENGTH) HOST_SHARED(TYPE, NAME, LENGTH)
#define LAUNCH_SHARED(TYPE, NAME) HOST_DYNAMIC_SHARED(TYPE, NAME)
// Numbers are read and written as vectors, which the compiler has to know.
#define ALIASING [[gnu::may_alias]]
#else
// An array that the threads of a block share.
#define SHARED(TYPE, NAME, LENGTH) __shared__ TYPE NAME[LENGTH]
// The array whose length the launch sets.
#define LAUNCH_SHARED(TYPE, NAME) extern __shared__ __align__(16) TYPE NAME[]
#define ALIASING
// Registers a kernel by name in the shim.
#define EXPORT_KERNEL(NAME)
#endif

// The slot of a row without a state.
constexpr u32 NOWHERE = 0xffffffff;
// The word that the first decoder step reads.
constexpr u32 START = 0;

// A row of a batch, as the host writes it. `node` is the one that runs in the first launch after the gather.
struct Row {
  u32 request;
  u32 node;
  // The last node that runs in this row without another gather.
  u32 last;
  // The slot of its state.
  u32 state;
  // The place of its request's first word.
  u32 words;
  // The tokens of its request, in a listed network.
  u32 tokens;
  // The end of its input slots in the table of all rows' inputs; they begin where those of the row before end.
  u32 inputs_end;
};

// ---- Numbers ----

// N numbers, read or written together.
template <class T, int N>
struct alignas(sizeof(T) * N) ALIASING Pack {
  T at[N];
};

template <int N, class T>
__device__ __forceinline__ Pack<T, N> load(const T *from) {
  return *reinterpret_cast<const Pack<T, N> *>(from);
}

template <int N, class T>
__device__ __forceinline__ void store(T *to, const Pack<T, N> &numbers) {
  *reinterpret_cast<Pack<T, N> *>(to) = numbers;
}

template <int N>
__device__ __forceinline__ Pack<float, N> plus(Pack<float, N> a, const Pack<float, N> &b) {
#pragma unroll
  for (int n = 0; n < N; n++) a.at[n] += b.at[n];
  return a;
}

// A product and its bias.
template <int N>
__device__ __forceinline__ Pack<float, N> biased(const float *product, const float *bias) {
  return plus(load<N>(product), load<N>(bias));
}

// A number of an operand: for the 16-bit formats, its bits.
#if ELEMENT == 0
typedef float Element;

__device__ __forceinline__ Element element(float x) { return x; }
#elif ELEMENT == 1
typedef unsigned short Element;

__device__ __forceinline__ Element element(float x) {
  Element bits;
#ifdef HOST_CUDA
  const _Float16 half = static_cast<_Float16>(x);
  __builtin_memcpy(&bits, &half, sizeof bits);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
  return bits;
}
#elif ELEMENT == 2
typedef unsigned short Element;

__device__ __forceinline__ Element element(float x) {
#if !defined(HOST_CUDA) && __CUDA_ARCH__ >= 800
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  // The upper half of a float32, rounded to the nearest, ties to even. A NaN must not become infinite.
  if (x != x) return 0x7fff;
  const u32 bits = __float_as_uint(x);
  return static_cast<Element>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}
#else
#error "ELEMENT is none of 0, 1 and 2"
#endif

template <int N>
__device__ __forceinline__ Pack<Element, N> elements(const Pack<float, N> &numbers) {
  Pack<Element, N> rounded;
#pragma unroll
  for (int n = 0; n < N; n++) rounded.at[n] = element(numbers.at[n]);
  return rounded;
}

// ---- Products of tiles ----

#ifdef HOST_CUDA
// The product of two words, each of one number or of two.
struct WordProduct {
#if ELEMENT == 0
  static double number(u32 word) { return __uint_as_float(word & 0xffffe000); }
  static double of(u32 a, u32 b) { return number(a) * number(b); }
#else
  static double number(u32 word) {
#if ELEMENT == 1
    const unsigned short bits = static_cast<unsigned short>(word);
    _Float16 half;
    __builtin_memcpy(&half, &bits, sizeof half);
    return half;
#else
    return __uint_as_float(word << 16);
#endif
  }
  static double of(u32 a, u32 b) { return number(a) * number(b) + number(a >> 16) * number(b >> 16); }
#endif
};
#endif

// A warp's part of a product in 32-bit words, each of which has a float32 or two 16-bit numbers: `sums` [16][8] += `left` [16][8]
// · `right` [8][8]ᵀ. Lane l has the sums of columns 2 (l % 4) and the next in rows l / 4 and 8 + l / 4, one row after the other;
// words l % 4 of these two left rows, and then words 4 + l % 4; and the same two words of right row l / 4. Of a float32, TF32
// takes the sign, the exponent and the first ten bits behind the point. For compute capability 8.0 and later.
__device__ __forceinline__ void multiply_tile(Pack<float, 4> &sums, const Pack<u32, 4> &left, const Pack<u32, 2> &right) {
#ifdef HOST_CUDA
  sums = host_multiply_tile<WordProduct>(sums, left, right);
#elif __CUDA_ARCH__ >= 800
#if ELEMENT == 0
#define MULTIPLY_TILE "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#elif ELEMENT == 1
#define MULTIPLY_TILE "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define MULTIPLY_TILE "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif
  asm volatile(MULTIPLY_TILE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3])
               : "r"(left.at[0]), "r"(left.at[1]), "r"(left.at[2]), "r"(left.at[3]), "r"(right.at[0]), "r"(right.at[1]));
#else
  // No kernel that calls it is compiled for these.
  __trap();
#endif
}

// 1 / (1 + e^-x) to a few units in the last place. The division takes a third of the instructions of a correctly rounded one.
// For large |x|, e^-x is infinite or 0, and the result 0 or 1.
__device__ __forceinline__ float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000); }

__device__ __forceinline__ float not_a_number() { return __uint_as_float(0x7fc00000); }

__device__ __forceinline__ bool is_number(float x) { return fabsf(x) < infinity(); }

template <int N>
__device__ __forceinline__ bool are_numbers(const Pack<float, N> &numbers) {
  bool all = true;
#pragma unroll
  for (int n = 0; n < N; n++) all = all && is_number(numbers.at[n]);
  return all;
}

// ---- Units of a thread ----

// Whether rows of these widths begin where four numbers can be read at a time, and the grid leaves each thread that many.
__device__ __forceinline__ bool by_fours(u32 units, u32 widths) { return widths % 4 == 0 && gridDim.x * BLOCK < units; }

// The units of a row that a thread takes, N at a time: `for (Units<N> unit(width); unit.more(); unit.next())`.
template <int N>
struct Units {
  u32 at;
  u32 end;

  __device__ __forceinline__ explicit Units(u32 units) : at((blockIdx.x * BLOCK + threadIdx.x) * N), end(units) {}
  __device__ __forceinline__ bool more() const { return at < end; }
  __device__ __forceinline__ void next() { at += gridDim.x * BLOCK * N; }
};

__device__ __forceinline__ u32 larger(u32 a, u32 b) { return a > b ? a : b; }

// ---- Rows and words ----

// The row in the launch `launch` launches after the gather.
__device__ __forceinline__ Row row_at(const Row *rows, u32 at, u32 age) {
  Row row = rows[at];
  row.node += age;
  return row;
}

// Whether a node runs in the row. Other rows are padding or have ended: nothing of them is stored.
__device__ __forceinline__ bool is_live(const Row &row) { return row.node <= row.last; }

// Whether a node is left for the next launch.
__device__ __forceinline__ bool goes_on(const Row &row) { return row.node < row.last; }

// The beginning of a row's input slots.
__device__ __forceinline__ u32 inputs_begin(const Row *rows, u32 at) { return at == 0 ? 0 : rows[at - 1].inputs_end; }

// A slot's state.
template <class T>
__device__ __forceinline__ T *state_of(T *pool, u32 width, u32 slot) {
  return pool + static_cast<size_t>(slot) * width;
}

// The finalizer of SplitMix64.
__device__ __forceinline__ u64 mixed(u64 word) {
  word += 0x9e3779b97f4a7c15ull;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return word ^ (word >> 31);
}

// The word that a node reads, the same as on the CPU.
__device__ __forceinline__ u32 word_of(u64 seed, u32 request, u32 node, u32 vocabulary) {
  const u64 drawn = mixed(seed ^ mixed(static_cast<u64>(request) << 32 | node));
  return static_cast<u32>(((drawn >> 32) * vocabulary) >> 32);
}

// The row of the embedding table for the word of a row's next node; null if no node is left.
__device__ __forceinline__ const Element *next_x(const Row &row, const Element *embedding, u64 seed, u32 vocabulary,
                                                 u32 embedding_width) {
  if (!goes_on(row)) return nullptr;
  return embedding + static_cast<size_t>(word_of(seed, row.request, row.node + 1, vocabulary)) * embedding_width;
}

// ---- Clock ----

// The cycle counter of the multiprocessor. No memory access moves across it, but arithmetic in registers may; a loop with a
// number of turns that the compiler does not know stays in place.
__device__ __forceinline__ u64 cycles_now() {
#ifdef HOST_CUDA
  return host_clock();
#else
  u64 now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
#endif
}

// ---- Clusters ----

// The blocks of a cluster run at the same time, and each can use the shared memory of the others: from their first barrier on,
// since others may not have begun before it, and until they end. For compute capability 9.0 and later: CLUSTERS.
#if defined(HOST_CUDA) || __CUDA_ARCH__ >= 900
#define CLUSTERS 1
#else
#define CLUSTERS 0
#endif

// The number of a block in its cluster.
__device__ __forceinline__ u32 cluster_rank() {
#ifdef HOST_CUDA
  return host_cuda::cluster_rank();
#else
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#endif
}

// The first half of a barrier of all threads of a cluster. Threads behind their second half see what was written before, also in
// shared memory.
__device__ __forceinline__ void arrive_cluster() {
#ifdef HOST_CUDA
  host_cluster_arrive();
#else
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

// The second half: waits for the others' first halves.
__device__ __forceinline__ void wait_cluster() {
#ifdef HOST_CUDA
  host_cluster_wait();
#else
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Where the block of this number has in its shared memory what this block has at `own`.
template <class T>
__device__ __forceinline__ T *cluster_shared(T *own, u32 rank) {
#ifdef HOST_CUDA
  return host_cluster_shared(own, rank);
#else
  T *theirs;
  asm("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(own), "r"(rank));
  return theirs;
#endif
}

// ---- Synchronisation between blocks and with the host ----

// Adds to a count and returns its old value. Earlier writes are visible to threads that see the new count.
__device__ __forceinline__ u32 count_up(u32 *count) {
#ifdef HOST_CUDA
  host_cuda::interleave();
  return __atomic_fetch_add(count, 1u, __ATOMIC_ACQ_REL);
#else
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
  return before;
#endif
}

// Adds to a count for which others wait. Earlier writes, by this thread or by those that it has synchronised with, are visible
// to threads that see the new count.
__device__ __forceinline__ void announce(u32 *count) {
#ifdef HOST_CUDA
  host_cuda::interleave();
  __atomic_fetch_add(count, 1u, __ATOMIC_RELEASE);
#else
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
#endif
}

// Waits until a count has reached a value.
__device__ __forceinline__ void await(const u32 *count, u32 least) {
#ifdef HOST_CUDA
  while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least) host_poll();
#else
  u32 counted;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(counted) : "l"(count) : "memory");
  } while (counted < least);
#endif
}

// Reads what other blocks have written since the launch began, past the caches that blocks do not share.
template <int N>
__device__ __forceinline__ Pack<float, N> load_fresh(const float *from) {
  Pack<float, N> numbers;
#ifdef HOST_CUDA
  numbers = load<N>(from);
#else
  static_assert(N == 1 || N == 2 || N == 4, "what an instruction reads");
  float *at = numbers.at;
  if constexpr (N == 4) {
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(at[0]), "=f"(at[1]), "=f"(at[2]), "=f"(at[3])
                 : "l"(from)
                 : "memory");
  } else if constexpr (N == 2) {
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];" : "=f"(at[0]), "=f"(at[1]) : "l"(from) : "memory");
  } else {
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(at[0]) : "l"(from) : "memory");
  }
#endif
  return numbers;
}

// Writes a number for the host. Earlier writes, by this thread or by those that it has synchronised with, are visible when the
// host reads it.
__device__ __forceinline__ void tell_host(u64 *host, u64 number) {
#ifdef HOST_CUDA
  host_cuda::interleave();
  __atomic_store_n(host, number, __ATOMIC_RELEASE);
#else
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(host), "l"(number) : "memory");
#endif
}

// Reads what the host wrote before the launch. An ordinary load, so that all blocks share one transfer of a line: loads of
// system scope would each go to the host, one after the other for the same line.
__device__ __forceinline__ u32 read_host(const u32 *host) {
#ifdef HOST_CUDA
  return __atomic_load_n(host, __ATOMIC_RELAXED);
#else
  return *host;
#endif
}

// One more task of the stream is done. `before` is their number before.
__device__ __forceinline__ void signal_host(u64 before, u64 *counted, u64 *host) {
  tell_host(host, before + 1);
  *counted = before + 1;
}

// The end of a cell's last kernel, which every thread calls: the last block moves the rows on to their next nodes and, if the
// launch ends a task, signals. By then every block has read `age`, which was `launch`.
__device__ __forceinline__ void finish(u32 launch, u32 *arrived, u32 *age, u64 *counted, u64 *host, u32 signals) {
  // Loaded while the threads synchronise: nothing else changes it before the next launch.
  const u64 before = *counted;
  __syncthreads();
  if (threadIdx.x != 0 || count_up(arrived) != gridDim.x * gridDim.y - 1) return;
  if (signals) signal_host(before, counted, host);
  *arrived = 0;
  *age = launch + 1;
}

#endif
