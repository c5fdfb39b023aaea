"""Softmax in Triton: a whole row in registers, two reductions across the threads of a program.

The maximum is subtracted so that exp cannot overflow. In the PTX each reduction has three floors:
max.f32 or add.f32 within a thread, shfl.sync.bfly within a warp, shared memory and bar.sync between
warps. Columns past the end are read as -inf: they are never the maximum, and exp makes them 0.

    ptxview run examples/09_softmax.py
    ptxview show softmax_kernel --stage ttgir --beside ptx
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(output_ptr, input_ptr, row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * row_stride + cols, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(output_ptr + row * row_stride + cols, y, mask=mask)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(1823, 781, device="cuda")
    rows, cols = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(rows,)](out, x, x.stride(0), cols, BLOCK_SIZE=triton.next_power_of_2(cols))
    torch.testing.assert_close(out, torch.softmax(x, dim=1))
    print("softmax of 1823×781: agrees with torch")
