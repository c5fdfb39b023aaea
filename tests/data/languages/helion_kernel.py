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


x = torch.arange(1024, device="cuda", dtype=torch.float32)
print(vector_add(x, x).sum().item())
