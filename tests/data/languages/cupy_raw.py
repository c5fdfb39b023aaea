"""CuPy: a raw kernel, and an elementwise one."""

import cupy

SOURCE = """extern "C" __global__ void vector_add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}"""
add = cupy.RawKernel(SOURCE, "vector_add", options=("-lineinfo",))
x = cupy.arange(1000, dtype=cupy.float32)
z = cupy.empty_like(x)
add((8,), (128,), (x, x, z, cupy.int32(x.size)))
scaled = cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y", "multiplied")
print(float(z.sum()), float(scaled(x, x).sum()))
