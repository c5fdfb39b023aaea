// Threads that part, meet, wait, vote and lock. PTX: nvcc -ptx -arch=sm_90 control.cu
#include <cassert>
#include <cstdio>
extern "C" __global__ void histogram(const int* in, int* out, int n) {
  __shared__ int bins[64];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i] & 63], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void collatz(const int* in, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = in[i], steps = 0;
  while (x > 1) {
    if (x & 1) x = 3 * x + 1;
    else {
      x >>= 1;
      while (!(x & 1) && x > 1) { x >>= 1; steps++; }
    }
    steps++;
  }
  out[i] = steps;
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  unsigned odd = __ballot_sync(~0u, in[i] & 1), r = odd;
  if (in[i] & 2) r = __popc(__activemask()) + __ffs(odd) * 100;
  r += __shfl_down_sync(~0u, in[i], 3) + __shfl_up_sync(~0u, in[i], 5, 8) + __clz(in[i]) + __brev(in[i]);
  out[i] = r + (__all_sync(~0u, in[i] > 0) ? 7 : 0) + (__any_sync(~0u, in[i] == lane) ? 1000 : 0);
}

__device__ __noinline__ float pick(const float* p, int k) { return p[k]; }

extern "C" __global__ void two_spaces(const float* in, float* out) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128;
  s[t] = in[i + t] * 2;
  __syncthreads();
  const float* p = (t & 1) ? s : in + i;  // lanes of one load in two state spaces
  out[i + t] = pick(p, t ^ 1);
}

extern "C" __global__ void tickets(int* counter, int* out) {
  int t = atomicAdd(counter, 1);
  out[t] = blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void one_lock(int* lock, int* sum) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0);
    int v = *(volatile int*)sum;
    *(volatile int*)sum = v + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

extern "C" __global__ void every_lane_locks(int* lock, int* sum) {
  while (atomicCAS(lock, 0, 1) != 0);
  *(volatile int*)sum = *(volatile int*)sum + 1;
  __threadfence();
  atomicExch(lock, 0);
}

extern "C" __global__ void last_block(const float* in, float* part, int* count, float* out) {
  __shared__ bool last;
  float v = in[blockIdx.x * 32 + threadIdx.x];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = v;
    __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int k = 0; k < gridDim.x; k++) s += ((volatile float*)part)[k];
    *out = s;
  }
}

// Each block waits for the one before it (step 1) or after it (step -1).
extern "C" __global__ void look_back(volatile int* flag, const int* in, int* out, int step) {
  if (threadIdx.x == 0) {
    int before = 0, other = blockIdx.x - step;
    if (other >= 0 && other < gridDim.x)
      while ((before = flag[other]) == 0);
    flag[blockIdx.x] = before + in[blockIdx.x];
    out[blockIdx.x] = before + in[blockIdx.x];
  }
}

// Blocks arrive at a barrier in different turns.
extern "C" __global__ void uneven(const int* in, int* out) {
  __shared__ int s[64];
  int t = threadIdx.x, b = blockIdx.x, acc = 0;
  for (int k = 0; k < (b % 5) + 1; k++) {
    s[t] = in[b * 64 + t] + k;
    __syncthreads();
    int v = s[(t + 7 * (k + 1)) % 64];
    if (t & 1) { int j = v & 15; while (j--) acc += j * v; } else acc += v;
    __syncthreads();
  }
  int y = acc * 3 + b;
  s[t] = y;
  __syncthreads();
  if (t < 32) {
    int z = s[t + 32] + y;
    out[b * 64 + t] = z;
    if (in[b * 64 + t] & 1) return;
    out[b * 64 + t + 32] = z ^ y;
  }
}

extern "C" __global__ void early(const int* in, int* out) {  // some leave before the barrier
  __shared__ int s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = in[i];
  if (t >= 64 + (blockIdx.x & 1) * 32) { out[i] = -1; return; }
  __syncthreads();
  out[i] = s[t ^ 1] + s[63 - (t & 63)];
}

extern "C" __global__ void half_waits(int* out) {  // a barrier that half of a block never reaches
  if (threadIdx.x & 32) while (*(volatile int*)out == 0);
  __syncthreads();
  out[0] = 1;
}

extern "C" __global__ void counted(const int* in, int* out) {  // __syncthreads_count, _and, _or
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  out[i] = __syncthreads_count(v & 1) * 4 + (__syncthreads_and(v > 0) ? 2 : 0) + (__syncthreads_or(v > 90) ? 1 : 0);
}

extern "C" __global__ void produce(const int* in, int* out) {  // named barriers: arrive, sync
  __shared__ int s[32];
  int t = threadIdx.x, b = blockIdx.x;
  if (t < 32) {
    for (int k = 0; k < 4; k++) {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      s[t] = in[(b * 4 + k) * 32 + t] * (k + 1);
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  } else {
    int sum = 0;
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    for (int k = 0; k < 4; k++) {
      asm volatile("bar.sync 2, 64;" ::: "memory");
      sum += s[31 - (t - 32)];
      if (k < 3) asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
    out[b * 32 + t - 32] = sum;
  }
}

extern "C" __global__ void past_end(const float* in, float* out, int n) {  // a mask that is one off
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) out[i] = in[i];
}

extern "C" __global__ void endless(int* out) {
  int i = 0;
  while (true) if (((i = i * 1664525 + 1013904223) & 7) == 8) out[0] = i;
}

extern "C" __global__ void trapped(const int* in) {
  if (in[threadIdx.x] < 0) __trap();
}

template <int PAD>
__device__ void turn(const float* in, float* out, int n) {
  __shared__ float tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = in[y * n + x];
  __syncthreads();
  out[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void turned(const float* in, float* out, int n) { turn<0>(in, out, n); }
extern "C" __global__ void turned_padded(const float* in, float* out, int n) { turn<1>(in, out, n); }

extern "C" __global__ void strided(const float* in, float* out, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i * step];
}

extern "C" __global__ void logarithms(const float* in, float* out) {
  int i = threadIdx.x;
  float x = in[i];
  if (x > 0.5f) x = x * 2.0f;
  out[i] = sqrtf(x);
}

extern "C" __global__ void told(const int* in) {
  if (in[threadIdx.x] > 2)
    printf("thread %d of block %u has %5.2f, %s %c %%, %llx\n", threadIdx.x, blockIdx.x, in[threadIdx.x] / 4.0, "yes", 65, 1ull << 40);
}

extern "C" __global__ void checked(const int* in) { assert(in[threadIdx.x] < 100); }
