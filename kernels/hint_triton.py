"""Pairs of Triton kernels or launches, one with a fault that a hint names and one without it.

What to look for in it (Triton 3.9 for sm_90a; ``ptxview list`` tells the variants apart):

* **scale_kernel**, launched on rows of 528 columns (with 8 warps) and of 1024 in a block of 1024:
  the mask, ``setp.lt.s32`` against an argument, is true for 528 of 1024 elements. On rows of 781
  it loads four bytes at a time, eight times (``sizePerThread = [1]``): no row but the first begins
  at a multiple of 16.
* **scale_kernel** on a transposed matrix: the last argument, the column stride, is no constant 1
  any more, and the lanes of a warp read 264 elements apart. ``contiguous()`` first, and it is.
* **few_lanes** with num_warps 4 and a block of 32: three of four warps do what the first one does.
  With num_warps 1 every lane has an element.
* **dot_kernel** with ``input_precision="ieee"`` is ``fma.rn.f32``, a thousand times; with
  ``"tf32"`` it is ``wgmma.mma_async…tf32``. That wants both operands with K along their rows, so
  ``TURNED`` loads ``b`` as it is in memory and turns it round in shared memory: 32 lanes in 4
  banks (``st.shared.b32``, eight passes each). Without, ``b`` is in memory as it is wanted.
* **row_sums** reduces in every turn of its loop (``bar.sync`` twice a turn), **row_sums_after**
  adds elementwise and reduces once after it.
* **crowded**: a row of 4096 in one warp is 128 elements a thread, and so 12 blocks of one warp
  where an SM has room for 64; with 16 warps it is eight elements a thread.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(
    output_ptr, input_ptr, row_stride, col_stride, output_stride, n_cols, BLOCK_SIZE: tl.constexpr
):
    """Twice a row; BLOCK_SIZE covers it whole."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * row_stride + cols * col_stride, mask=mask)
    tl.store(output_ptr + row * output_stride + cols, x * 2, mask=mask)


@triton.jit
def few_lanes(output_ptr, input_ptr, BLOCK_SIZE: tl.constexpr):
    """Twice BLOCK_SIZE elements."""
    at = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    tl.store(output_ptr + at, tl.load(input_ptr + at) * 2)


@triton.jit
def dot_kernel(
    c_ptr, a_ptr, b_ptr, SIZE: tl.constexpr, PRECISION: tl.constexpr, TURNED: tl.constexpr
):
    """The product of two SIZE×SIZE matrices in one block; ``b`` is transposed unless TURNED."""
    at = tl.arange(0, SIZE)
    places = at[:, None] * SIZE + at[None, :]
    a = tl.load(a_ptr + places)
    b = tl.load(b_ptr + places)
    if not TURNED:
        b = tl.trans(b)
    tl.store(c_ptr + places, tl.dot(a, b, input_precision=PRECISION))


@triton.jit
def row_sums(output_ptr, input_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    """The sum of each row, a reduction a block."""
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        total += tl.sum(tl.load(input_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0))
    tl.store(output_ptr + row, total)


@triton.jit
def row_sums_after(output_ptr, input_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    """The sum of each row, one reduction after the loop."""
    row = tl.program_id(0)
    total = tl.zeros((BLOCK_SIZE,), tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        total += tl.load(input_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(output_ptr + row, tl.sum(total))


@triton.jit
def crowded(output_ptr, input_ptr, SIZE: tl.constexpr):
    """Each row over its own maximum: it stays in registers from load to store."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    x = tl.load(input_ptr + at)
    tl.store(output_ptr + at, x / tl.max(x, axis=0))


def scale(x: torch.Tensor, num_warps: int = 4) -> torch.Tensor:
    """Twice a matrix, a program a row, in blocks of 1024 columns."""
    rows, cols = x.shape
    out = torch.empty((rows, cols), device=x.device)
    scale_kernel[(rows,)](
        out, x, x.stride(0), x.stride(1), out.stride(0), cols, BLOCK_SIZE=1024, num_warps=num_warps
    )
    return out


def twice(x: torch.Tensor, num_warps: int) -> torch.Tensor:
    """Twice a vector, in blocks of 32."""
    out = torch.empty_like(x)
    few_lanes[(x.numel() // 32,)](out, x, BLOCK_SIZE=32, num_warps=num_warps)
    return out


def dot(a: torch.Tensor, b: torch.Tensor, precision: str, turned: bool) -> torch.Tensor:
    """``a @ b`` of two matrices of 64×64."""
    out = torch.empty_like(a)
    b = b if turned else b.T.contiguous()
    dot_kernel[(1,)](out, a, b, SIZE=64, PRECISION=precision, TURNED=turned, num_warps=8)
    return out


def sums(x: torch.Tensor, kernel) -> torch.Tensor:
    """The sum of every row."""
    out = torch.empty(x.shape[0], device=x.device)
    kernel[(x.shape[0],)](out, x, x.shape[1], BLOCK_SIZE=512, num_warps=4)
    return out


def over_maximum(x: torch.Tensor, num_warps: int) -> torch.Tensor:
    """Every row over its maximum."""
    out = torch.empty_like(x)
    crowded[(x.shape[0],)](out, x, SIZE=x.shape[1], num_warps=num_warps)
    return out


def run(device: str = "cuda") -> dict[str, torch.Tensor]:
    """Run both of each pair, compare with torch, return the outputs by name."""
    torch.manual_seed(0)
    short = torch.randn(1823, 528, device=device)
    odd = torch.randn(1823, 781, device=device)
    full = torch.randn(2112, 1024, device=device)
    turned = torch.randn(1024, 264, device=device).T
    flat = torch.randn(2112 * 32, device=device)
    a, b = torch.randn(2, 64, 64, device=device)
    long = torch.randn(264, 2000, device=device)
    wide = torch.rand(3168, 4096, device=device) + 1  # two full waves of 12 blocks an SM
    more = torch.rand(1200, 4096, device=device) + 1
    results = {
        "masked": (scale(short, num_warps=8), short * 2),
        "narrow": (scale(odd), odd * 2),
        "full": (scale(full), full * 2),
        "strided": (scale(turned), turned * 2),
        "contiguous": (scale(turned.contiguous()), turned * 2),
        "idle": (twice(flat, 4), flat * 2),
        "busy": (twice(flat, 1), flat * 2),
        "ieee": (dot(a, b, "ieee", turned=True), a @ b),
        "tf32": (dot(a, b, "tf32", turned=False), a @ b),
        "tf32_turned": (dot(a, b, "tf32", turned=True), a @ b),
        "in_loop": (sums(long, row_sums), long.sum(1)),
        "after_loop": (sums(long, row_sums_after), long.sum(1)),
        "crowded": (over_maximum(wide, 1), wide / wide.amax(1, keepdim=True)),
        "spread": (over_maximum(wide, 16), wide / wide.amax(1, keepdim=True)),
        "tailed": (over_maximum(more, 8), more / more.amax(1, keepdim=True)),
    }
    for name, (out, expected) in results.items():
        # tf32 keeps ten bits of each factor; sums of thousands are taken in another order.
        loose = {"atol": 0.1, "rtol": 1e-2} if "tf32" in name else {"atol": 1e-3, "rtol": 1e-4}
        torch.testing.assert_close(out, expected, **loose, msg=lambda m, n=name: f"{n}: {m}")
    return {name: out for name, (out, _) in results.items()}
