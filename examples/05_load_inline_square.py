"""The square in CUDA, through load_inline: blocks of 16×16 threads, a guard on rows and columns.

The lecture left a question open: "Does CUDA generate PTX too?" It does. nvcc throws it away unless
it is asked to keep it; ptxview runs the same command once more and asks.

    ptxview run examples/05_load_inline_square.py
    ptxview show square_matrix_kernel --stage ptx --beside sass
"""

import torch
from torch.utils.cpp_extension import load_inline

CUDA_SOURCE = r"""
#include <c10/cuda/CUDAException.h>

__global__ void square_matrix_kernel(const float* matrix, float* result, int width, int height) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < height && col < width) {
        int idx = row * width + col;
        result[idx] = matrix[idx] * matrix[idx];
    }
}

torch::Tensor square_matrix(torch::Tensor matrix) {
    TORCH_CHECK(matrix.is_cuda(), "square_matrix wants a CUDA tensor");
    TORCH_CHECK(matrix.is_contiguous(), "square_matrix wants a contiguous tensor");
    const auto height = matrix.size(0);
    const auto width = matrix.size(1);
    auto result = torch::empty_like(matrix);
    dim3 threads_per_block(16, 16);
    dim3 number_of_blocks((width + 15) / 16, (height + 15) / 16);
    square_matrix_kernel<<<number_of_blocks, threads_per_block>>>(
        matrix.data_ptr<float>(), result.data_ptr<float>(), width, height);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return result;
}
"""

if __name__ == "__main__":
    module = load_inline(
        name="square_matrix_example",
        cpp_sources="torch::Tensor square_matrix(torch::Tensor matrix);",
        cuda_sources=CUDA_SOURCE,
        functions=["square_matrix"],
        with_cuda=True,
        extra_cuda_cflags=["-O2"],
    )
    x = torch.randn(1823, 781, device="cuda")
    torch.testing.assert_close(module.square_matrix(x), x * x)
    print("square_matrix of 1823×781 in CUDA: agrees with torch")
