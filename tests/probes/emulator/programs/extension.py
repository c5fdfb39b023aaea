# mypy: ignore-errors
"""CUDA C++ through load_inline: barriers, shuffles, templates, streams. Ends with "done"."""

import torch
from torch.utils.cpp_extension import load_inline

# What the sources need of torch: load_inline would put all of its headers before them.
BINDINGS = r"""
#include <ATen/core/Tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
at::Tensor row_sum(at::Tensor x);
at::Tensor warp_sum(at::Tensor x);
at::Tensor scale(at::Tensor x, double by);
"""
SOURCE = r"""
#include <ATen/core/Tensor.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
template <typename T> __global__ void row_sum_kernel(const T* x, T* y, int n) {
  extern __shared__ float s[];
  int row = blockIdx.x, t = threadIdx.x;
  float a = 0;
  for (int i = t; i < n; i += blockDim.x) a += x[row * n + i];
  s[t] = a;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
  if (t == 0) y[row] = s[0];
}
__global__ void warp_sum_kernel(const float* x, float* y, int n) {
  if (threadIdx.x >= 32) return;
  float a = 0;
  for (int i = threadIdx.x; i < n; i += 32) a += x[blockIdx.x * n + i];
  for (int k = 16; k > 0; k >>= 1) a += __shfl_down_sync(0xffffffff, a, k);
  if (threadIdx.x == 0) atomicAdd(y + blockIdx.x, a);
}
__global__ void scale_kernel(const float* x, float* y, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
at::Tensor row_sum(at::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "wants a CUDA tensor");
  auto y = x.new_empty({x.size(0)});
  row_sum_kernel<float><<<x.size(0), 256, 256 * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
at::Tensor warp_sum(at::Tensor x) {
  auto y = x.new_zeros({x.size(0)});
  warp_sum_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  return y;
}
at::Tensor scale(at::Tensor x, double by) {
  auto y = x.clone();
  scale_kernel<<<(x.numel() + 63) / 64, 64>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), by);
  return y;
}
"""

if __name__ == "__main__":
    module = load_inline(
        "ptxview_test_sums",
        BINDINGS,
        SOURCE,
        functions=["row_sum", "warp_sum", "scale"],
        with_cuda=True,
        extra_cuda_cflags=["-DTRIED=1"],
        no_implicit_headers=True,
    )
    x = torch.randn(53, 781, device="cuda")
    for way in (module.row_sum, module.warp_sum):
        torch.testing.assert_close(way(x), x.sum(1), rtol=1e-4, atol=1e-4)
    x = torch.randn(7, 30, device="cuda")
    torch.testing.assert_close(module.scale(x, 1.5), x * 1.5)
    try:
        module.row_sum(x.cpu())
    except RuntimeError as error:
        assert "wants a CUDA tensor" in str(error)
    else:
        raise AssertionError("the C++ check was not made")
    print("done")
