// Sound kernels whose warps meet in shared memory: tests/execute/removed_barriers.py takes their barriers away.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int N = 256;
#define KERNEL extern "C" __global__ void
#define AT (blockIdx.x * N + threadIdx.x)

KERNEL treed(const float* in, float* out) {
  __shared__ float s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncthreads();
  for (int step = N / 2; step; step >>= 1) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  out[AT] = s[0];
}

KERNEL treed_then_warp(const float* in, float* out) {
  __shared__ volatile float s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncthreads();
  for (int step = N / 2; step > 32; step >>= 1) {
    if (t < step) s[t] += s[t + step];
    __syncthreads();
  }
  if (t < 32) {
    for (int step = 32; step; step >>= 1) {
      float v = s[t] + s[t + step];
      __syncwarp();
      s[t] = v;
      __syncwarp();
    }
    if (t == 0) out[blockIdx.x] = s[0];
  }
}

KERNEL shuffled(const float* in, float* out) {
  __shared__ float part[N / 32];
  int t = threadIdx.x;
  float v = in[AT];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (t % 32 == 0) part[t / 32] = v;
  __syncthreads();
  v = 0;
  for (int k = 0; k < N / 32; k++) v += part[k];
  out[AT] = v;
}

KERNEL sums_and_squares(const float* in, float* out) {  // the same memory twice
  __shared__ float part[N / 32];
  int t = threadIdx.x;
  float x = in[AT], total[2];
  for (int turn = 0; turn < 2; turn++) {
    float v = turn ? (x - total[0]) * (x - total[0]) : x;
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    v = 0;
    for (int k = 0; k < N / 32; k++) v += part[k];
    total[turn] = v;
    __syncthreads();
  }
  out[AT] = total[0] + total[1];
}

KERNEL scanned(const int* in, int* out) {  // Hillis and Steele, two buffers
  __shared__ int s[2][N];
  int t = threadIdx.x, from = 0;
  s[0][t] = in[AT];
  __syncthreads();
  for (int d = 1; d < N; d *= 2) {
    s[1 - from][t] = s[from][t] + (t >= d ? s[from][t - d] : 0);
    from = 1 - from;
    __syncthreads();
  }
  out[AT] = s[from][t];
}

KERNEL scanned_in_place(const int* in, int* out) {
  __shared__ int s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncthreads();
  for (int d = 1; d < N; d *= 2) {
    int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  out[AT] = s[t];
}

KERNEL bitonic(const int* in, int* out) {
  __shared__ int s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  for (int k = 2; k <= N; k *= 2)
    for (int j = k / 2; j; j /= 2) {
      __syncthreads();
      int o = t ^ j;
      if (o > t && (s[t] > s[o]) == ((t & k) == 0)) {
        int v = s[t];
        s[t] = s[o];
        s[o] = v;
      }
    }
  __syncthreads();
  out[AT] = s[N - 1 - t];
}

KERNEL counted_bytes(const int* in, int* out) {
  __shared__ int bins[64];
  int t = threadIdx.x;
  if (t < 64) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[in[AT] & 63], 1);
  __syncthreads();
  if (t < 64) atomicAdd(&out[t], bins[t]);
}

KERNEL own_bytes(const int* in, int* out) {  // warps store to bytes of one word
  __shared__ unsigned char s[N];
  int t = threadIdx.x;
  s[(t % 32) * 8 + t / 32] = in[AT];
  __syncthreads();
  out[AT] = s[t];
}

KERNEL flagged(const int* in, int* out) {  // all that store, store the same
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (in[AT] > 10) found = 1;
  __syncthreads();
  out[AT] = found;
}

KERNEL broadcast_first(const int* in, int* out) {
  __shared__ int first;
  for (int k = 0; k < 4; k++) {
    if (threadIdx.x == k * 64) first = in[AT] + k;
    __syncthreads();
    out[k * gridDim.x * N + AT] = first;
    __syncthreads();
  }
}

KERNEL turned32(const float* in, float* out) {
  __shared__ float tile[32][33];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int k = y; k < 32; k += N / 32) tile[k][x] = in[blockIdx.x * 1024 + k * 32 + x];
  __syncthreads();
  for (int k = y; k < 32; k += N / 32) out[blockIdx.x * 1024 + k * 32 + x] = tile[x][k];
}

KERNEL product16(const float* a, const float* b, float* c, int size) {
  __shared__ float x[16][16], y[16][16];
  int j = threadIdx.x % 16, i = threadIdx.x / 16, row = blockIdx.x * 16 + i;
  float sum = 0;
  for (int k = 0; k < size; k += 16) {
    x[i][j] = a[row * size + k + j];
    y[i][j] = b[(k + i) * 16 + j];
    __syncthreads();
    for (int m = 0; m < 16; m++) sum += x[i][m] * y[m][j];
    __syncthreads();
  }
  c[row * 16 + j] = sum;
}

KERNEL blurred(const float* in, float* out) {
  __shared__ float s[N + 2];
  int t = threadIdx.x;
  s[t + 1] = in[AT];
  if (t == 0) s[0] = s[N + 1] = 0;
  for (int turn = 0; turn < 3; turn++) {
    __syncthreads();
    float v = (s[t] + s[t + 1] + s[t + 2]) / 3;
    __syncthreads();
    s[t + 1] = v;
  }
  out[AT] = s[t + 1];
}

KERNEL one_warp_only(const int* in, int* out) {  // no barrier at all is needed
  __shared__ int s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncwarp();
  out[AT] = s[t ^ 31];
}

KERNEL one_barrier_too_many(const int* in, int* out) {
  __shared__ int s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncthreads();
  __syncthreads();
  out[AT] = s[N - 1 - t];
}

KERNEL own_place(const int* in, int* out) {  // its barrier orders nothing
  __shared__ int s[N];
  int t = threadIdx.x;
  s[t] = in[AT];
  __syncthreads();
  out[AT] = s[t] + s[t ^ 1];
}

KERNEL produced(const int* in, int* out) {  // warps 0 to 3 fill two buffers for 4 to 7, by named barriers
  __shared__ int s[2][128];
  int t = threadIdx.x;
  for (int k = 0; k < 6; k++) {
    int b = k & 1;
    if (t < 128) {
      if (k >= 2) asm volatile("bar.sync %0, 256;" ::"r"(3 + b) : "memory");
      s[b][t] = in[blockIdx.x * N + t] + k;
      asm volatile("bar.arrive %0, 256;" ::"r"(1 + b) : "memory");
    } else {
      asm volatile("bar.sync %0, 256;" ::"r"(1 + b) : "memory");
      out[(blockIdx.x * 6 + k) * 128 + t - 128] = s[b][255 - t];
      if (k < 4) asm volatile("bar.arrive %0, 256;" ::"r"(3 + b) : "memory");
    }
  }
}

KERNEL halves(const int* in, int* out) {  // each half of the block has a barrier of its own
  __shared__ int s[N];
  int t = threadIdx.x, half = t / 128;
  for (int k = 0; k < 3; k++) {
    s[t] = in[AT] + k;
    asm volatile("bar.sync %0, 128;" ::"r"(1 + half) : "memory");
    out[(blockIdx.x * 3 + k) * N + t] = s[half * 128 + 127 - t % 128];
    asm volatile("bar.sync %0, 128;" ::"r"(1 + half) : "memory");
  }
}

KERNEL copied_ahead(const float4* in, float4* out, int turns) {  // cp.async, two stages
  __shared__ float4 s[2][N];
  int t = threadIdx.x;
  auto copy = [&](int k) {
    unsigned to = __cvta_generic_to_shared(&s[k & 1][t]);
    if (k < turns) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + k * N + t) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  copy(0);
  for (int k = 0; k < turns; k++) {
    copy(k + 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[(blockIdx.x * turns + k) * N + t] = s[k & 1][N - 1 - t];
    __syncthreads();
  }
}

KERNEL copied_once(const float4* in, float4* out) {
  __shared__ float4 s[N];
  int t = threadIdx.x;
  unsigned to = __cvta_generic_to_shared(&s[t]);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + t) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[AT] = s[N - 1 - t];
}

KERNEL grouped(const float* in, float* out) {
  __shared__ float s[N];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  int t = threadIdx.x;
  float v = cg::reduce(warp, in[AT], cg::plus<float>());
  if (warp.thread_rank() == 0) s[t / 32] = v;
  block.sync();
  if (t < 32) {
    v = t < N / 32 ? s[t] : 0;
    v = cg::reduce(warp, v, cg::plus<float>());
    if (t == 0) s[32] = v;
  }
  block.sync();
  out[AT] = s[32];
}

KERNEL cub_reduced(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, N>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(in[AT]);
  __syncthreads();
  float most = Reduce(storage).Reduce(in[AT], [](float a, float b) { return a > b ? a : b; });
  if (threadIdx.x == 0) out[blockIdx.x] = sum + most;
}

KERNEL cub_reduced_raking(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, N, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(in[AT]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

KERNEL cub_scanned(const int* in, int* out) {
  using Scan = cub::BlockScan<int, N>;
  __shared__ typename Scan::TempStorage storage;
  int v, w;
  Scan(storage).InclusiveSum(in[AT], v);
  __syncthreads();
  Scan(storage).ExclusiveSum(v, w);
  out[AT] = v + w;
}

KERNEL cub_scanned_raking(const int* in, int* out) {
  using Scan = cub::BlockScan<int, N, cub::BLOCK_SCAN_RAKING>;
  __shared__ typename Scan::TempStorage storage;
  int v;
  Scan(storage).InclusiveSum(in[AT], v);
  out[AT] = v;
}

KERNEL cub_sorted(const int* in, int* out) {
  using Sort = cub::BlockRadixSort<int, N, 4>;
  __shared__ typename Sort::TempStorage storage;
  int keys[4];
  for (int k = 0; k < 4; k++) keys[k] = in[AT * 4 + k];
  Sort(storage).Sort(keys, 0, 12);
  for (int k = 0; k < 4; k++) out[AT * 4 + k] = keys[k];
}

KERNEL cub_merge_sorted(const int* in, int* out) {
  using Sort = cub::BlockMergeSort<int, N, 2>;
  __shared__ typename Sort::TempStorage storage;
  int keys[2] = {in[AT * 2], in[AT * 2 + 1]};
  Sort(storage).Sort(keys, [](int a, int b) { return a < b; });
  out[AT * 2] = keys[0];
  out[AT * 2 + 1] = keys[1];
}

KERNEL cub_turned(const int* in, int* out) {
  using Load = cub::BlockLoad<int, N, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, N, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
  } storage;
  int keys[4];
  Load(storage.load).Load(const_cast<int*>(in) + blockIdx.x * N * 4, keys);
  __syncthreads();
  for (int k = 0; k < 4; k++) keys[k] *= 2;
  Store(storage.store).Store(out + blockIdx.x * N * 4, keys);
}

KERNEL barred(const int* in, int* out) {  // an mbarrier
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ int s[N];
  int t = threadIdx.x;
  if (t == 0) init(&bar, N);
  __syncthreads();
  for (int k = 0; k < 3; k++) {
    s[t] = in[AT] + k;
    bar.arrive_and_wait();
    out[(blockIdx.x * 3 + k) * N + t] = s[N - 1 - t];
    bar.arrive_and_wait();
  }
}

KERNEL piped(const int* in, int* out) {
  __shared__ int s[2][N];
  int t = threadIdx.x;
  auto pipe = cuda::make_pipeline();
  auto copy = [&](int k) {
    pipe.producer_acquire();
    if (k < 4) cuda::memcpy_async(&s[k & 1][t], in + k * N + t, sizeof(int), pipe);
    pipe.producer_commit();
  };
  copy(0);
  for (int k = 0; k < 4; k++) {
    copy(k + 1);
    pipe.consumer_wait();
    __syncthreads();
    out[(blockIdx.x * 4 + k) * N + t] = s[k & 1][N - 1 - t];
    __syncthreads();
    pipe.consumer_release();
  }
}

KERNEL awaited(const int* in, int* out) {  // cooperative groups' copy
  __shared__ int s[N];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, in + blockIdx.x * N, sizeof(s));
  cg::wait(block);
  out[AT] = s[N - 1 - threadIdx.x];
}
