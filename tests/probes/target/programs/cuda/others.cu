// A source that nvcc's own front end takes: a header with kernels, launches through the runtime.
#include <cooperative_groups.h>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels.cuh"

struct Times {
  int factor;
  __device__ int operator()(int x) const { return factor * x; }
};
__managed__ int shared_with_host = 40;
__global__ void managed(int* out) { out[0] = shared_with_host + 2; shared_with_host = 1; }
__global__ void whole_grid(int* out) { cooperative_groups::this_grid().sync(); out[0] = 1; }

void run_apply(int64_t out, int factor, int added) {
  const int table[2] = {0, added};
  cudaMemcpyToSymbol(constants::table, table, sizeof table);
  apply<<<1, 8>>>(reinterpret_cast<int*>(out), Times{factor});
}
int run_managed(int64_t out) {
  int* pointer = reinterpret_cast<int*>(out);
  void* arguments[] = {&pointer};
  cudaLaunchKernel(reinterpret_cast<const void*>(&managed), dim3(1), dim3(1), arguments, 0, nullptr);
  cudaDeviceSynchronize();
  return shared_with_host;
}
void run_cooperative(int64_t out) {
  int* pointer = reinterpret_cast<int*>(out);
  void* arguments[] = {&pointer};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&whole_grid), dim3(2), dim3(32), arguments);
}
