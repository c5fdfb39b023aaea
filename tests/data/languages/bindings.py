"""NVRTC as cuda.bindings has it; needs no GPU."""

from cuda.bindings import nvrtc

SOURCE = b"""extern "C" __global__ void vector_add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}"""
_, program = nvrtc.nvrtcCreateProgram(SOURCE, b"vector_add.cu", 0, None, None)
print(nvrtc.nvrtcCompileProgram(program, 2, [b"-arch=sm_90", b"-lineinfo"]))
