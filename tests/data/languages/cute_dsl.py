"""CuTe DSL; CUTE_DSL_ARCH=sm_90a has it compiled without a GPU."""

import os

import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor


@cute.kernel
def vector_add(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    z[i] = x[i] + y[i]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor):
    vector_add(x, y, z).launch(grid=(8, 1, 1), block=(128, 1, 1))


@cute.kernel
def matmul(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    x, y, _ = cute.arch.thread_idx()
    total = cutlass.Float32(0)
    for k in range(16):
        total += a[y, k] * b[k, x]
    c[y, x] = total


@cute.jit
def product(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    matmul(a, b, c).launch(grid=(1, 1, 1), block=(16, 16, 1))


square = make_fake_compact_tensor(cutlass.Float32, (16, 16), stride_order=(1, 0))
cute.compile(product, square, square, square)
fake = [make_fake_compact_tensor(cutlass.Float32, (1024,), stride_order=(0,)) for _ in range(3)]
compiled = cute.compile(launch, *fake)
if os.path.exists("/dev/nvidiactl"):
    import torch
    from cutlass.cute.runtime import from_dlpack

    x = torch.arange(1024, device="cuda", dtype=torch.float32)
    z = torch.empty_like(x)
    compiled(*map(from_dlpack, (x, x, z)))
    print(z.sum().item())
else:
    print("compiled")
