"""Helion, with one configuration: without a GPU on the emulated device."""

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[128], num_warps=4))
def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(out.size(0)):
        out[tile] = x[tile] + y[tile]
    return out


@helion.kernel(config=helion.Config(block_sizes=[64, 64, 32], num_warps=4))
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0), y.size(1)], dtype=x.dtype, device=x.device)
    for i, j in hl.tile([x.size(0), y.size(1)]):
        total = hl.zeros([i, j], dtype=torch.float32)
        for k in hl.tile(x.size(1)):
            total = torch.addmm(total, x[i, k], y[k, j])
        out[i, j] = total.to(x.dtype)
    return out


x = torch.arange(1024, device="cuda", dtype=torch.float32)
print(vector_add(x, x).sum().item())
square = torch.ones(128, 128, device="cuda", dtype=torch.bfloat16)
print(matmul(square, square).sum().item())
