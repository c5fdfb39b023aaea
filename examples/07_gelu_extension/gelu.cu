// GELU, the tanh approximation. The literals are doubles: see examples/06_load_inline_gelu.py.
#include <c10/cuda/CUDAException.h>
#include <torch/extension.h>

__global__ void gelu_kernel(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 0.5 * in[i] *
            (1.0 + tanh(0.79788456 * (in[i] + 0.044715 * in[i] * in[i] * in[i])));
}

torch::Tensor gelu(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "gelu wants a contiguous CUDA tensor");
    auto y = torch::empty_like(x);
    int n = x.numel();
    gelu_kernel<<<(n + 1023) / 1024, 1024>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("gelu", &gelu, "GELU, tanh approximation");
}
