// What a CUDA C++ source may hold besides a plain kernel. No torch: it compiles in a second.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <stdexcept>

struct Affine {
  char tag;
  double factor;
  float shift;
  float* out;
};
namespace constants {
__constant__ float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int calls;
}  // namespace constants

namespace {
__device__ float squared(float x) { return x * x; }
__global__ void hidden(float* out) { out[threadIdx.x] = squared(constants::table[threadIdx.x]); }
}  // namespace
static __global__ void of_file(float* out, int n) {
  if (threadIdx.x < n) atomicAdd(&constants::calls, 1), out[threadIdx.x] = 7;
}
extern "C" __global__ void plain_c(int* out) {
  int lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  out[threadIdx.x] = lane;
}
__global__ void __launch_bounds__(64) by_value(const Affine a, const float* __restrict__ in, int) {
  int i = threadIdx.x;
  a.out[i] = float(a.factor) * in[i] + a.shift + (a.tag == 'x');
}
template <typename T, int N, typename... Rest>
__global__ void packed(T* out, Rest... rest) {
  extern __shared__ __align__(16) unsigned char raw[];
  T* s = reinterpret_cast<T*>(raw);
  s[threadIdx.x] = T(N) + (T(0) + ... + T(rest));
  __syncthreads();
  out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] + T(threadIdx.x);
}
__global__ void halves(__half* x) { x[threadIdx.x] = __hadd(x[threadIdx.x], __float2half(1.0f)); }
__global__ void says(int n) { printf("thread %d of %d\n", threadIdx.x, n); }
// As many registers as it has values: all are read before one is written.
__global__ void heavy(float* x) {
  float held[112];
#pragma unroll
  for (int i = 0; i < 112; i++) held[i] = x[i * blockDim.x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 112; i++) x[i * blockDim.x + threadIdx.x] = held[111 - i] * held[i];
}
__global__ void shares(float* x) {
  __shared__ float own[1024];
  extern __shared__ float asked[];
  own[threadIdx.x] = x[threadIdx.x];
  asked[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = own[blockDim.x - 1 - threadIdx.x] + asked[0];
}
#define ADDS(NAME, TYPE)                                  \
  __global__ void NAME(TYPE* out, TYPE by) {              \
    out[blockIdx.x * blockDim.x + threadIdx.x] += by;     \
  }
ADDS(adds_int, int)

static void checked(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
template <class T>
static T* at(int64_t address) { return reinterpret_cast<T*>(address); }

void run_hidden(int64_t out) { hidden<<<1, 4>>>(at<float>(out)); }
void set_table(float value, int index) {
  checked(cudaMemcpyToSymbol(constants::table, &value, sizeof value, index * sizeof value));
}
int run_of_file(int64_t out, int n) {
  of_file<<<1, 32>>>(at<float>(out), n);
  int calls = 0;
  checked(cudaMemcpyFromSymbol(&calls, constants::calls, sizeof calls));
  return calls;
}
void run_plain(int64_t out) { plain_c<<<dim3(1, 1), dim3(32, 1)>>>(at<int>(out)); }
void run_by_value(int64_t out, int64_t in) {
  by_value<<<1, 32>>>(Affine{'x', 2.5, 0.5f, at<float>(out)}, at<float>(in), 3);
}
void run_packed(int64_t out) {
  cudaStream_t stream;
  checked(cudaStreamCreate(&stream));
  packed<double, 3><<<1, 8, 8 * sizeof(double), stream>>>(at<double>(out), 1, 2.5f, int64_t(4));
  auto chosen = &packed<float, 1>;
  checked(cudaStreamSynchronize(stream));
  chosen<<<1, 8, 8 * sizeof(float)>>>(at<float>(out) + 16);
}
void run_halves(int64_t x) { halves<<<1, 16>>>(at<__half>(x)); }
void run_says() { says<<<1, 2>>>(2); }
// Through memory of the runtime's own, and back.
void run_adds(int64_t host, int n) {
  int* device = nullptr;
  checked(cudaMalloc(&device, n * sizeof(int)));
  checked(cudaMemset(device, 0, n * sizeof(int)));
  checked(cudaMemcpy(device, at<int>(host), n / 2 * sizeof(int), cudaMemcpyHostToDevice));
  adds_int<<<n / 32, 32>>>(device, 5);
  checked(cudaMemcpy(at<int>(host), device, n * sizeof(int), cudaMemcpyDeviceToHost));
  checked(cudaFree(device));
}
// CUDA's error of a launch, which the program asks for.
int run_refused(int64_t x, int which, int threads, int shared) {
  if (which == 0) heavy<<<1, threads>>>(at<float>(x));
  if (which == 1) by_value<<<1, threads>>>(Affine{'x', 2.5, 0.5f, at<float>(x)}, at<float>(x), 3);
  if (which == 2) shares<<<1, threads, shared>>>(at<float>(x));
  if (which == 4) adds_int<<<1, threads, shared>>>(at<int>(x), 2);
  cudaError_t set = cudaSuccess;
  if (which == 3) set = cudaFuncSetAttribute(shares, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  if (which == 5) set = cudaFuncSetAttribute((const void*)shares, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  const cudaError_t peeked = cudaPeekAtLastError(), error = cudaGetLastError();
  if (peeked != error || (which % 2 && which > 1 && set != error) || cudaGetLastError() != cudaSuccess) return -1;
  return int(error);
}
void run_past(int64_t out, int n) { of_file<<<1, n>>>(at<float>(out), n); }
void run_pinned(int64_t x) { adds_int<<<1, 8>>>(at<int>(x), 2); }
