"""Warp; without a GPU it is compiled ahead for sm_90."""

import tempfile

import numpy
import warp

warp.config.quiet = True
warp.config.cuda_output = "ptx"
warp.config.lineinfo = True


@warp.kernel
def vector_add(x: warp.array(dtype=float), y: warp.array(dtype=float), z: warp.array(dtype=float)):
    i = warp.tid()
    z[i] = x[i] + y[i]


@warp.kernel
def matmul(
    a: warp.array2d(dtype=float), b: warp.array2d(dtype=float), c: warp.array2d(dtype=float)
):
    i, j = warp.tid()
    total = float(0)
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    c[i, j] = total


warp.init()
if warp.is_cuda_available():
    x = warp.array(numpy.arange(1000, dtype=numpy.float32), device="cuda")
    z = warp.empty_like(x)
    warp.launch(vector_add, dim=1000, inputs=[x, x], outputs=[z], device="cuda")
    print(z.numpy().sum())
    square = warp.ones((64, 64), dtype=float, device="cuda")
    warp.launch(matmul, dim=(64, 64), inputs=[square] * 2, outputs=[square], device="cuda")
else:
    with tempfile.TemporaryDirectory() as folder:
        warp.compile_aot_module(__import__(__name__), arch=90, module_dir=folder, use_ptx=True)
