"""Gluon."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def vector_add(x, y, z, n, block: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.program_id(0) * block + gl.arange(0, block, layout=layout)
    gl.store(z + i, gl.load(x + i, i < n) + gl.load(y + i, i < n), i < n)


x = torch.arange(1000, device="cuda", dtype=torch.float32)
z = torch.empty_like(x)
vector_add[(8,)](x, x, z, x.numel(), block=128)
print(z.sum().item())
