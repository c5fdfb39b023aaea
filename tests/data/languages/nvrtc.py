"""torch.cuda._compile_kernel: CUDA C++ in a string."""

import torch

SOURCE = """extern "C" __global__ void vector_add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}"""
add = torch.cuda._compile_kernel(SOURCE, "vector_add", nvcc_options=["-lineinfo"])
x = torch.arange(1000, device="cuda", dtype=torch.float32)
z = torch.empty_like(x)
add((8, 1, 1), (128, 1, 1), (x, x, z, x.numel()))
print(z.sum().item())
