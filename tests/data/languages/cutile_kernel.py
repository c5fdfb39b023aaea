"""cuTile; without a GPU it is compiled for sm_90."""

import os
import tempfile

import cuda.tile
from cuda.tile import compilation


@cuda.tile.kernel
def vector_add(x, y, z, size: cuda.tile.Constant[int]):
    i = cuda.tile.bid(0)
    left = cuda.tile.load(x, index=(i,), shape=(size,))
    right = cuda.tile.load(y, index=(i,), shape=(size,))
    cuda.tile.store(z, index=(i,), tile=left + right)


@cuda.tile.kernel
def matmul(a, b, c, size: cuda.tile.Constant[int]):
    i, j = cuda.tile.bid(0), cuda.tile.bid(1)
    total = cuda.tile.full((size, size), 0, dtype=cuda.tile.float32)
    for k in range(cuda.tile.num_tiles(a, axis=1, shape=(size, size))):
        left = cuda.tile.load(a, index=(i, k), shape=(size, size))
        right = cuda.tile.load(b, index=(k, j), shape=(size, size))
        total = cuda.tile.mma(left, right, total)
    cuda.tile.store(c, index=(i, j), tile=total)


if os.path.exists("/dev/nvidiactl"):
    import torch

    x = torch.arange(1024, device="cuda", dtype=torch.float32)
    z = torch.empty_like(x)
    cuda.tile.launch(torch.cuda.current_stream(), (8,), vector_add, (x, x, z, 128))
    print(z.sum().item())
else:
    for kernel, ndim, size in ((vector_add, 1, 128), (matmul, 2, 32)):
        array = compilation.ArrayConstraint(
            cuda.tile.float32,
            ndim=ndim,
            index_dtype=cuda.tile.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
        )
        sizes = compilation.ConstantConstraint(size)
        signature = compilation.KernelSignature(
            [array, array, array, sizes], compilation.CallingConvention.cutile_python_v1()
        )
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            compilation.export_kernel(
                kernel, [signature], file.name, gpu_code="sm_90", output_format="cubin"
            )
    print("compiled")
