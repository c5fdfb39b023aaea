"""numba.cuda; without a GPU it is compiled for sm_90."""

import numpy
from numba import cuda, float32, int32


@cuda.jit(lineinfo=True)
def vector_add(x, y, z, n):
    i = cuda.grid(1)
    if i < n:
        z[i] = x[i] + y[i]


@cuda.jit(lineinfo=True)
def matmul(a, b, c):
    i, j = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


if cuda.is_available():
    x = numpy.arange(1000, dtype=numpy.float32)
    z = cuda.to_device(numpy.empty_like(x))
    vector_add[8, 128](cuda.to_device(x), cuda.to_device(x), z, x.size)
    print(z.copy_to_host().sum())
    square = cuda.to_device(numpy.ones((64, 64), numpy.float32))
    matmul[(4, 4), (16, 16)](square, square, square)
else:
    types = (float32[:], float32[:], float32[:], int32)
    ptx, _ = cuda.compile_ptx(vector_add.py_func, types, cc=(9, 0), lineinfo=True)
    print("vector_add" in ptx)
    cuda.compile_ptx(matmul.py_func, (float32[:, :],) * 3, cc=(9, 0), lineinfo=True)
