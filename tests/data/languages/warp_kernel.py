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


warp.init()
if warp.is_cuda_available():
    x = warp.array(numpy.arange(1000, dtype=numpy.float32), device="cuda")
    z = warp.empty_like(x)
    warp.launch(vector_add, dim=1000, inputs=[x, x], outputs=[z], device="cuda")
    print(z.numpy().sum())
else:
    with tempfile.TemporaryDirectory() as folder:
        warp.compile_aot_module(__import__(__name__), arch=90, module_dir=folder, use_ptx=True)
