"""A chain of PyTorch operations that ``torch.compile`` fuses: GELU, layer norm, softmax.

What to look for in it (torch 2.13, Triton 3.9, a GPU or the emulated one):

* **One kernel.** The name lists what went in: ``triton_per_fused__softmax_…_native_layer_norm_…``;
  ``per`` is a persistent reduction (the row is kept, as in ``softmax.py``), ``poi`` would be
  pointwise, ``red`` a reduction in a loop. Eager PyTorch launches a kernel for nearly each
  operation, and every one of them reads and writes all of DRAM.
* **output_code.** One ``tl.load`` (``tmp0``) and one ``tl.store`` at the end, tmp1 … tmp70 between:
  what was a tensor in memory is a register now. Count loads and stores, not lines.
* **Specialised.** ``xnumel = 1823`` and ``r0_numel = 781`` are written into the source: another
  shape is another compilation (the second one with sizes as arguments).
* **fp32.** ``0.5`` is ``tl.full([1, 1], 0.5, tl.float32)``: no fp64 here, unlike ``gelu_cuda``.
* **Reductions.** Two sums for the layer norm, a maximum and a sum for the softmax. Look at
  num_warps: for rows of this length Inductor tends to give a row one warp, so ``shfl.sync.bfly``
  alone does it, without ``bar.sync`` and shared memory, unlike ``softmax.py``; the price is 1024 /
  32 = 32 elements a thread, and close to a hundred registers. The second maximum and ``any`` are
  there because the scale of the layer norm is folded into the softmax where values are finite.
* **CPU.** Without a GPU at all, ``torch.compile`` writes C++ for the CPU instead: one function too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch


def gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU, the tanh approximation, spelt out in nine pointwise operations."""
    return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def chain(x: torch.Tensor) -> torch.Tensor:
    """GELU, layer norm and softmax over the last dimension."""
    y = torch.nn.functional.layer_norm(gelu(x), x.shape[-1:])
    return torch.softmax(y, dim=-1)


@functools.cache
def compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    """The compiled chain. Compile once, outside of what you time."""
    return torch.compile(chain)


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "eager": chain,
    "torch.compile": lambda x: compiled()(x),
}
# Twelve operations, each rounded to fp32.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


def inputs(N: int = 781, M: int = 1823, device: str = "cuda") -> torch.Tensor:
    """M rows of N columns, fp32."""
    return torch.randn(M, N, device=device)


def reference(x: torch.Tensor) -> torch.Tensor:
    """The chain in fp64."""
    return chain(x.double())


def bytes_of(x: torch.Tensor) -> int:
    """What one fused kernel has to move: each value read once and written once."""
    return 2 * x.nbytes


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """The chain over 1823×781 values, compiled against eager."""
    x = torch.randn(1823, 781, device=device)
    out = compiled()(x)
    torch.testing.assert_close(out, chain(x))
    return {"chain": out}
