"""Kernels written in Triton: one launched as it is, one whose configuration Triton's tuner picks."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale(x):
    return x * 3.0


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, scale(x) + y, mask=at < n)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 128}, num_warps=2),
        triton.Config({"BLOCK": 256}, num_warps=4),
    ],
    key=["n"],
)
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.exp2(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


x = torch.arange(1000, device="cuda", dtype=torch.float32) / 1000
out = torch.empty_like(x)
add_kernel[(8,)](x, x, out, 1000, BLOCK=128)
torch.testing.assert_close(out, 4 * x)
tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
torch.testing.assert_close(out, torch.exp2(x))
