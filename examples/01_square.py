"""The square in Triton: a program a row, and what num_warps changes.

Row r of the matrix belongs to program r. It loads the row in one block (781 columns, so BLOCK_SIZE
is 1024, and a mask keeps the last 243 lanes quiet), squares it and stores it. num_warps says how
many threads share that work: 4 warps are 128 threads with 8 elements each, 16 warps are 512 threads
with 2 each. Python is the same; look at how the PTX differs.

    ptxview run examples/01_square.py
"""

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
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(input_ptr + row * input_row_stride + cols, mask=mask, other=0.0)
    tl.store(output_ptr + row * output_row_stride + cols, x * x, mask=mask)


def square(x, num_warps):
    rows, cols = x.shape
    out = torch.empty_like(x)
    square_kernel[(rows,)](
        out,
        x,
        x.stride(0),
        out.stride(0),
        cols,
        BLOCK_SIZE=triton.next_power_of_2(cols),
        num_warps=num_warps,
    )
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(1823, 781, device="cuda")
    for num_warps in (4, 8, 16):
        torch.testing.assert_close(square(x, num_warps), x * x)
        print(f"square of 1823×781 with {num_warps:2} warps: agrees with torch")
