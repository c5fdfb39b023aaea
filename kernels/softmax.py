"""Row softmax in Triton: one program a row, the row held in registers from load to store.

What to look for in it (Triton 3.9 for sm_90a, 781 columns, 4 warps):

* **The default.** ``mov.b32 %r2, -8388608`` is -inf (0xff800000): what a masked column reads as, so
  that it is never the maximum and adds exp(-inf) = 0 to the sum.
* **A reduction in three steps**, here for the maximum and further down for the sum. In the thread:
  seven ``max.f32`` over its eight values. In the warp: five ``shfl.sync.bfly.b32`` with 16, 8, 4,
  2, 1. Across warps: ``st.shared``, ``bar.sync 0``, ``ld.shared``, and two more shuffles, for four
  warps.
* **Shared memory**: four floats, 16 bytes, asked for at launch (Triton's metadata). The cubin says
  1024 static bytes, which is what the system keeps on this architecture.
* **exp is two instructions**: ``mul.f32 …, 0f3FB8AA3B`` (log2 e) and ``ex2.approx.f32``, in SASS
  ``MUFU.EX2``. The division is ``div.full.f32``: approximate, an ``MUFU.RCP`` and multiplications.
* **inlined_at.** ``tl.max`` and ``tl.sum`` are Triton code too: the ``.loc`` of the shuffles points
  into Triton's ``standard.py``, inlined at this file's line.
* **One load, one store** of the row: it stays in registers in between. That is what fusing buys:
  ``ptxview time kernels/softmax.py`` has the five eager operations beside it.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(
    output_ptr,
    input_ptr,
    input_row_stride,
    output_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """Softmax of one row; the columns past ``n_cols`` are read as -inf and so weigh nothing."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * input_row_stride + cols, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(output_ptr + row * output_row_stride + cols, y, mask=mask)


def softmax(x: torch.Tensor, num_warps: int = 4) -> torch.Tensor:
    """Softmax over the last dimension of a matrix."""
    rows, cols = x.shape
    block_size = triton.next_power_of_2(cols)
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](
        out, x, x.stride(0), out.stride(0), cols, BLOCK_SIZE=block_size, num_warps=num_warps
    )
    return out


def naive(x: torch.Tensor) -> torch.Tensor:
    """Softmax in five eager operations, each of which reads and writes memory."""
    numerator = torch.exp(x - x.max(dim=1, keepdim=True).values)
    return numerator / numerator.sum(dim=1, keepdim=True)


@functools.cache
def compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    """The five operations, compiled."""
    return torch.compile(naive)


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Triton, 4 warps": lambda x: softmax(x, num_warps=4),
    "Triton, 8 warps": lambda x: softmax(x, num_warps=8),
    "torch.softmax": lambda x: torch.softmax(x, dim=1),
    "eager, five operations": naive,
    "torch.compile": lambda x: compiled()(x),
}


def inputs(N: int = 781, M: int = 1823, device: str = "cuda") -> torch.Tensor:
    """M rows of N columns, fp32."""
    return torch.randn(M, N, device=device)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Softmax in fp64."""
    return torch.softmax(x.double(), dim=1)


def bytes_of(x: torch.Tensor) -> int:
    """Each value is read once and written once."""
    return 2 * x.nbytes


def flops_of(x: torch.Tensor) -> int:
    """A comparison, a subtraction, an exponential, an addition, a division a value."""
    return 5 * x.numel()


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """Softmax of 1823×781 values, compared with torch's."""
    x = torch.randn(1823, 781, device=device)
    out = softmax(x)
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
    return {"softmax": out}
