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
// Each block of a cluster of two writes what the other has.
__global__ void paired(int* out) {
  __shared__ int own[32];
  auto cluster = cooperative_groups::this_cluster();
  own[threadIdx.x] = 100 * blockIdx.x + threadIdx.x;
  cluster.sync();
  out[32 * blockIdx.x + threadIdx.x] = *cluster.map_shared_rank(own + threadIdx.x, cluster.block_rank() ^ 1);
  cluster.sync();
}
void run_paired(int64_t out) {
  cudaLaunchAttribute attribute{cudaLaunchAttributeClusterDimension};
  attribute.val.clusterDim.x = 2;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch{dim3(4), dim3(32)};
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  cudaLaunchKernelEx(&launch, paired, reinterpret_cast<int*>(out));
}
__global__ void __launch_bounds__(640) bounded(float* x) {
  __shared__ float own[512];
  own[threadIdx.x % 512] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = own[(threadIdx.x + 1) % 512];
}
// What the runtime says of the device, and of a kernel.
int run_limit(int which) {
  cudaDeviceProp device;
  cudaFuncAttributes kernel;
  int value = -1, grid = 0;
  if (cudaGetDeviceProperties(&device, 0) || cudaFuncGetAttributes(&kernel, bounded)) return -2;
  switch (which) {
    case 0: return device.multiProcessorCount;
    case 1: return device.maxGridSize[1];
    case 2: return int(device.totalGlobalMem >> 30);
    case 3: cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0); return value;
    case 4: return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 7);
    case 5: return int(kernel.sharedSizeBytes);
    case 6: return kernel.maxThreadsPerBlock;
    case 7: return kernel.maxDynamicSharedSizeBytes;
    case 8: cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, bounded, 640, 0); return value;
    case 9: cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, bounded, 672, 0); return value;
    case 10: cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, bounded, 32, 40000); return value;
    case 11: cudaOccupancyMaxPotentialBlockSize(&grid, &value, bounded); return grid;
    default: cudaDeviceGetAttribute(&value, cudaDevAttrD3D12CigSupported, 0); return value;
  }
}
