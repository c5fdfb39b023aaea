"""GELU in CUDA, twice: once with 0.5 and tanh, once with 0.5f and tanhf.

In C++ 0.5 is a double, and a float times a double is a double: the first kernel does all of its
arithmetic in fp64, without a word from the compiler. The PTX is where it shows (`cvt.f64.f32`,
`fma.rn.f64`); the second kernel has none of it.

    ptxview run examples/06_load_inline_gelu.py
    ptxview diff gelu_kernel gelu_float_kernel
"""

import torch
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>

__global__ void gelu_kernel(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 0.5 * in[i] *
            (1.0 + tanh(0.79788456 * (in[i] + 0.044715 * in[i] * in[i] * in[i])));
}

__global__ void gelu_float_kernel(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = in[i];
        out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
}

torch::Tensor gelu(torch::Tensor x, bool in_float) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "gelu wants a contiguous CUDA tensor");
    auto y = torch::empty_like(x);
    int n = x.numel();
    int blocks = (n + 1023) / 1024;
    if (in_float) {
        gelu_float_kernel<<<blocks, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    } else {
        gelu_kernel<<<blocks, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

if __name__ == "__main__":
    module = load_inline(
        name="gelu_example",
        cpp_sources="torch::Tensor gelu(torch::Tensor x, bool in_float);",
        cuda_sources=CUDA_SOURCE,
        functions=["gelu"],
        with_cuda=True,
        extra_cuda_cflags=["-O2"],
    )
    x = torch.randn(1024, 1024, device="cuda")
    expected = torch.nn.functional.gelu(x, approximate="tanh")
    for in_float in (False, True):
        torch.testing.assert_close(module.gelu(x, in_float), expected)
        print(f"gelu with {'float' if in_float else 'double'} literals: agrees with torch")
