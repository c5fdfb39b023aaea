"""numba.cuda; without a GPU it is compiled for sm_90."""

import numpy
from numba import cuda, float32, int32


@cuda.jit(lineinfo=True)
def vector_add(x, y, z, n):
    i = cuda.grid(1)
    if i < n:
        z[i] = x[i] + y[i]


if cuda.is_available():
    x = numpy.arange(1000, dtype=numpy.float32)
    z = cuda.to_device(numpy.empty_like(x))
    vector_add[8, 128](cuda.to_device(x), cuda.to_device(x), z, x.size)
    print(z.copy_to_host().sum())
else:
    types = (float32[:], float32[:], float32[:], int32)
    ptx, _ = cuda.compile_ptx(vector_add.py_func, types, cc=(9, 0), lineinfo=True)
    print("vector_add" in ptx)
