"""Makes the recording here, by numba itself and without a GPU:

    pip install numba-cuda "nvidia-cuda-nvrtc>=13,<14" "nvidia-nvvm>=13,<14" nvidia-nvjitlink
    ptxview run --no-tui -o numba.ptxview scale.py

One kernel for two signatures as the dispatcher compiles it, and once as ``cuda.compile_ptx`` does.
"""

import math
from types import SimpleNamespace

from numba import cuda, float32, float64, int32
from numba.cuda import codegen, dispatcher


@cuda.jit
def scale_kernel(x, out, n):
    at = cuda.grid(1)
    if at < n:
        out[at] = math.exp(x[at]) * 2


# What numba asks of a GPU: which one it compiles for.
dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(9, 0))
codegen.CUDACodeLibrary._ensure_cc = lambda self, cc: cc or (9, 0, "a")
for kind in (float32, float64):
    signature = (kind[:], kind[:], int32)
    kernel = dispatcher._Kernel(scale_kernel.py_func, signature, lineinfo=True)
    kernel._codelibrary.get_cubin()
cuda.compile_ptx(scale_kernel.py_func, (float32[:], float32[:], int32), cc=(8, 0), lineinfo=True)
