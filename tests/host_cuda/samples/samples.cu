// Small kernels, right and wrong ones, that show what the shim does.

typedef unsigned u32;
typedef unsigned long long u64;

// Sums a block's numbers by shuffles and a shared array, and adds its sum to `total`.
extern "C" __global__ void __launch_bounds__(256) sum(const float *numbers, u32 count, float *total) {
  HOST_SHARED(float, sums, 8);
  float value = 0;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) value += numbers[i];
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffff, value, bits);
  if (threadIdx.x % warpSize == 0) sums[threadIdx.x / warpSize] = value;
  __syncthreads();
  if (threadIdx.x < warpSize) {
    value = threadIdx.x < blockDim.x / warpSize ? sums[threadIdx.x] : 0;
    for (u32 by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffff, value, by);
    if (threadIdx.x == 0) atomicAdd(total, value);
  }
}
EXPORT_KERNEL(sum)

// Where each thread is, and what the lanes of its warp vote.
extern "C" __global__ void places(u32 *out) {
  const u32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const u32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const u32 threads = blockDim.x * blockDim.y * blockDim.z;
  const u32 even = __ballot_sync(0xffffffff, thread % 2 == 0);
  const u32 from = __shfl_sync(0xffffffff, thread, 3, 8) + 1000 * __shfl_up_sync(0xffffffff, thread, 1);
  u32 *own = out + 3 * (block * threads + thread);
  own[0] = block * 1000 + thread;
  own[1] = even;
  own[2] = from;
}
EXPORT_KERNEL(places)

// The last block to come here sees what all others have stored. (The device has its own instruction for such a counter.)
extern "C" __global__ void last(u32 *stored, u32 *arrived, u32 *seen) {
  if (threadIdx.x == 0) stored[blockIdx.x] = blockIdx.x + 1;
  __syncthreads();
  HOST_SHARED(u32, order, 1);
  if (threadIdx.x == 0) {
    host_cuda::interleave();
    order[0] = __atomic_fetch_add(arrived, 1, __ATOMIC_ACQ_REL);
  }
  __syncthreads();
  if (order[0] != gridDim.x - 1) return;
  if (threadIdx.x == 0) {
    u32 sum = 0;
    for (u32 block = 0; block < gridDim.x; block++) sum += stored[block];
    seen[0] = sum;
    seen[1] = blockIdx.x;
  }
}
EXPORT_KERNEL(last)

// Reads what the thread before it has written, without a barrier between the two.
extern "C" __global__ void no_barrier(u32 *out) {
  HOST_DYNAMIC_SHARED(u32, numbers);
  numbers[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = numbers[(threadIdx.x + 1) % blockDim.x];
}
EXPORT_KERNEL(no_barrier)

extern "C" __global__ void ends_before_a_barrier() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
EXPORT_KERNEL(ends_before_a_barrier)

extern "C" __global__ void two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
EXPORT_KERNEL(two_barriers)

extern "C" __global__ void half_a_warp() {
  if (threadIdx.x < 16) __shfl_xor_sync(0xffffffff, 1, 1);
}
EXPORT_KERNEL(half_a_warp)

extern "C" __global__ void barrier_and_shuffle() {
  if (threadIdx.x == 0)
    __syncthreads();
  else
    __syncwarp();
}
EXPORT_KERNEL(barrier_and_shuffle)

extern "C" __global__ void too_much_shared() {
  HOST_SHARED(double, numbers, 10000);
  numbers[threadIdx.x] = 0;
}
EXPORT_KERNEL(too_much_shared)

extern "C" __global__ void element(int *out) { *out = ELEMENT; }
EXPORT_KERNEL(element)

// The name of a function of C's.
extern "C" __global__ void signal(u64 *counted, u64 *host) { *host = ++*counted; }
EXPORT_KERNEL(signal)

// Every block of a cluster gives its number to all others, in dynamic and in static memory, and adds up what it was given. The
// cluster's barriers come before memory is used and before what was written is read.
extern "C" __global__ void all_to_all(u32 blocks, u32 *out) {
  HOST_DYNAMIC_SHARED(u32, given);
  HOST_SHARED(u32, doubled, 8);
  const u32 rank = host_cuda::cluster_rank();
  host_cluster_arrive();
  host_cluster_wait();
  for (u32 to = threadIdx.x; to < blocks; to += blockDim.x) {
    host_cluster_shared(given, to)[rank] = blockIdx.x;
    host_cluster_shared(doubled + rank, to)[0] = 2 * blockIdx.x;
  }
  host_cluster_arrive();
  __syncthreads();
  host_cluster_wait();
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = 0;
  for (u32 from = 0; from < blocks; from++) out[blockIdx.x] += given[from] + doubled[from];
}
EXPORT_KERNEL(all_to_all)

extern "C" __global__ void waits_without_arriving() { host_cluster_wait(); }
EXPORT_KERNEL(waits_without_arriving)

extern "C" __global__ void arrives_twice() {
  host_cluster_arrive();
  host_cluster_arrive();
}
EXPORT_KERNEL(arrives_twice)

extern "C" __global__ void no_such_block() {
  HOST_SHARED(u32, number, 1);
  *host_cluster_shared(number, 2) = 0;
}
EXPORT_KERNEL(no_such_block)

extern "C" __global__ void used_before_it_begins() {
  HOST_SHARED(u32, number, 1);
  *host_cluster_shared(number, 1 - host_cuda::cluster_rank()) = 0;
}
EXPORT_KERNEL(used_before_it_begins)

// The first block ends; a later one uses its memory.
extern "C" __global__ void used_after_its_end(u32 *ended) {
  HOST_SHARED(u32, number, 1);
  if (blockIdx.x == 0) return;
  while (__atomic_load_n(ended, __ATOMIC_RELAXED) < 10) {
    __atomic_fetch_add(ended, 1, __ATOMIC_RELAXED);
    host_poll();
  }
  *host_cluster_shared(number, 0) = 1;
}
EXPORT_KERNEL(used_after_its_end)

extern "C" __global__ void one_thread_of_a_cluster() {
  host_cluster_arrive();
  if (threadIdx.x == 0)
    host_cluster_wait();
  else
    __syncthreads();
}
EXPORT_KERNEL(one_thread_of_a_cluster)
