"""The row-wise square in Triton: one program a row, and two ways to cover a row in fixed blocks.

What to look for in it (PTX of Triton 3.9 for sm_90a; other versions differ a little):

* **Parameters.** ``square_kernel_param_0`` and ``_1`` are the pointers (``.u64``), then three
  ``.u32``: the strides and the number of columns. BLOCK_SIZE is not there: a constexpr is compiled
  in. Two more pointers are at the end; they are Triton's own scratch memory, unused here.
* **Threads.** ``.reqntid 128`` is num_warps × 32 (``.maxntid`` in Triton of 2023). With num_warps
  4 and BLOCK_SIZE 1024 each thread has 1024 / 128 = 8 elements: eight ``ld.global.b32``, eight
  ``mul.f32``, eight ``st.global.b32``. This is "Triton uses 8 registers at a time". With 8 warps
  there are four of each, with 16 two.
* **The mask.** ``setp.lt.s32 %p1, %r21, %r24`` is ``cols < n_cols``. It guards the load and the
  store (``@%p1 ld.global.b32``); the ``mov.u32`` just above the load is ``other=0.0``.
* **Alignment.** 781 columns: Triton knows nothing about the row stride, and loads four bytes at a
  time (TTGIR: ``sizePerThread = [1]``). 1024 columns: the stride is a multiple of 16, and the same
  source becomes ``ld.global.v4.b32`` (``sizePerThread = [4]``), in SASS ``LDG.E.128``. Two shapes
  of one kernel are therefore two variants; compare them with ``--beside``.
* **Registers.** 22 for 781 columns, 18 for 1024: eight addresses against two.
* **A block fixed at 1024** covers a row of 781 but not one of 4096. Launched as it is on longer
  rows, it is wonderfully fast, because it leaves the rest of the row unwritten: check values before
  you compare times. ``square_loop_kernel`` walks along the row (in PTX a backward branch, ``bra
  $L__BB0_2``), ``square_grid_kernel`` takes a second grid axis (``%ctaid.y``).

``ptxview time kernels/square.py`` compares them all with CUDA C++ (``square_cuda``), with the three
ways to write it in PyTorch, and with torch.compile.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(
    output_ptr,
    input_ptr,
    input_row_stride,
    output_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """Square one row; BLOCK_SIZE covers it whole."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * input_row_stride + cols, mask=mask, other=0.0)
    tl.store(output_ptr + row * output_row_stride + cols, x * x, mask=mask)


@triton.jit
def square_loop_kernel(
    output_ptr,
    input_ptr,
    input_row_stride,
    output_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """Square one row, BLOCK_SIZE columns at a time."""
    row = tl.program_id(0)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(input_ptr + row * input_row_stride + cols, mask=mask, other=0.0)
        tl.store(output_ptr + row * output_row_stride + cols, x * x, mask=mask)


@triton.jit
def square_grid_kernel(
    output_ptr,
    input_ptr,
    input_row_stride,
    output_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """Square one block of one row; the grid's second axis covers the row."""
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * input_row_stride + cols, mask=mask, other=0.0)
    tl.store(output_ptr + row * output_row_stride + cols, x * x, mask=mask)


def warps_for(block_size: int) -> int:
    """The lecture's rule: 4 warps, 8 from 2048 columns, 16 from 4096."""
    return 16 if block_size >= 4096 else 8 if block_size >= 2048 else 4


def square(x: torch.Tensor, num_warps: int | None = None) -> torch.Tensor:
    """Square a matrix, a program a row. ``num_warps`` defaults to the lecture's rule."""
    rows, cols = x.shape
    block_size = triton.next_power_of_2(cols)
    out = torch.empty_like(x)
    square_kernel[(rows,)](
        out,
        x,
        x.stride(0),
        out.stride(0),
        cols,
        BLOCK_SIZE=block_size,
        num_warps=num_warps or warps_for(block_size),
    )
    return out


def square_loop(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix, a program a row, in blocks of 1024 columns one after another."""
    out = torch.empty_like(x)
    square_loop_kernel[(x.shape[0],)](
        out, x, x.stride(0), out.stride(0), x.shape[1], BLOCK_SIZE=1024
    )
    return out


def square_grid(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix, a program for each 1024 columns of each row."""
    rows, cols = x.shape
    out = torch.empty_like(x)
    square_grid_kernel[(rows, triton.cdiv(cols, 1024))](
        out, x, x.stride(0), out.stride(0), cols, BLOCK_SIZE=1024
    )
    return out


def square_cuda(x: torch.Tensor) -> torch.Tensor:
    """Square a matrix in CUDA C++, 16×16 threads a block; the first call builds it."""
    from kernels.square_cuda import extension

    out: torch.Tensor = extension().square_matrix(x)
    return out


@functools.cache
def compiled() -> Callable[[torch.Tensor], torch.Tensor]:
    """``torch.square``, compiled; made once, outside of what is timed."""
    return torch.compile(torch.square)


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Triton, 4 warps": lambda x: square(x, num_warps=4),
    "Triton, 8 warps": lambda x: square(x, num_warps=8),
    "Triton, 16 warps": lambda x: square(x, num_warps=16),
    "Triton, loop of 1024": square_loop,
    "Triton, grid of 1024": square_grid,
    "CUDA, 16×16": square_cuda,
    "torch.square": torch.square,
    "a * a": lambda x: x * x,
    "a ** 2": lambda x: x**2,
    "torch.compile": lambda x: compiled()(x),
}


def inputs(N: int = 781, M: int = 1823, device: str = "cuda") -> torch.Tensor:
    """M rows of N columns, fp32."""
    return torch.randn(M, N, device=device)


def reference(x: torch.Tensor) -> torch.Tensor:
    """The square in fp64."""
    return x.double() ** 2


def bytes_of(x: torch.Tensor) -> int:
    """Each value is read once and written once."""
    return 2 * x.nbytes


def flops_of(x: torch.Tensor) -> int:
    """One multiplication a value."""
    return x.numel()


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """Run every variant, compare with ``x * x``, return the outputs by name."""
    lecture = torch.randn(1823, 781, device=device)
    aligned = torch.randn(64, 1024, device=device)
    longer = torch.randn(64, 2048, device=device)
    longest = torch.randn(64, 4096, device=device)
    results = {
        "square": (lecture, square(lecture)),
        "square_8_warps": (aligned, square(aligned, num_warps=8)),
        "square_16_warps": (aligned, square(aligned, num_warps=16)),
        "square_1024": (aligned, square(aligned)),
        "square_2048": (longer, square(longer)),
        "square_4096": (longest, square(longest)),
        "square_loop": (longest, square_loop(longest)),
        "square_grid": (longest, square_grid(longest)),
    }
    for x, out in results.values():
        torch.testing.assert_close(out, x * x)
    return {name: out for name, (_, out) in results.items()}
