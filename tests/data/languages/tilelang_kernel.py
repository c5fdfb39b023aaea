"""TileLang; without a GPU it is lowered to CUDA C++ for sm_90."""

import os

import tilelang
import tilelang.language as T


@T.prim_func
def vector_add(
    x: T.Tensor((1024,), "float32"),
    y: T.Tensor((1024,), "float32"),
    z: T.Tensor((1024,), "float32"),
):
    with T.Kernel(8, threads=128) as block:
        for i in T.Parallel(128):
            z[block * 128 + i] = x[block * 128 + i] + y[block * 128 + i]


if os.path.exists("/dev/nvidiactl"):
    import torch

    add = tilelang.compile(vector_add, out_idx=-1)
    x = torch.arange(1024, device="cuda", dtype=torch.float32)
    print(add(x, x).sum().item())
else:
    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    with target:
        made = tilelang.lower(vector_add, target=target, enable_device_compile=True)
    print("__global__" in made.kernel_source)
