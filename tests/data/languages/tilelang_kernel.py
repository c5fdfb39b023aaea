"""TileLang; without a GPU it is lowered to CUDA C++ for sm_90a."""

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


@T.prim_func
def matmul(
    a: T.Tensor((128, 128), "float16"),
    b: T.Tensor((128, 128), "float16"),
    c: T.Tensor((128, 128), "float16"),
):
    with T.Kernel(1, threads=128):
        left, right = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 128), "float16")
        total = T.alloc_fragment((128, 128), "float32")
        T.clear(total)
        for k in T.Pipelined(4, num_stages=3):
            T.copy(a[0, k * 32], left)
            T.copy(b[k * 32, 0], right)
            T.gemm(left, right, total)
        T.copy(total, c[0, 0])


if os.path.exists("/dev/nvidiactl"):
    import torch

    add = tilelang.compile(vector_add, out_idx=-1)
    x = torch.arange(1024, device="cuda", dtype=torch.float32)
    print(add(x, x).sum().item())
    tilelang.compile(matmul, out_idx=-1)
else:
    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        made = tilelang.lower(vector_add, target=target, enable_device_compile=True)
        tilelang.lower(matmul, target=target, enable_device_compile=True)
    print("__global__" in made.kernel_source)
