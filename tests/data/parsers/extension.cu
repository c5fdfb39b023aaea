#include <torch/types.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <c10/cuda/CUDAException.h>
__global__ void square_matrix_kernel(const float* matrix, float* result, int width, int height) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < height && col < width) { int idx = row * width + col; result[idx] = matrix[idx] * matrix[idx]; }
}
torch::Tensor square_matrix(torch::Tensor m) {
    const auto h = m.size(0), w = m.size(1);
    auto r = torch::empty_like(m);
    dim3 t(16, 16), b((w + 15) / 16, (h + 15) / 16);
    square_matrix_kernel<<<b, t>>>(m.data_ptr<float>(), r.data_ptr<float>(), w, h);
    return r;
}
__global__ void gelu_kernel(float* in, float* out, int num_elements) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_elements) out[i] = 0.5 * in[i] * (1.0 + tanh(0.79788456 * (in[i] + 0.044715 * in[i] * in[i] * in[i])));
}
torch::Tensor gelu(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda()); TORCH_CHECK(x.is_contiguous());
    auto y = torch::empty_like(x); int n = x.numel();
    gelu_kernel<<<(n + 1023) / 1024, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
