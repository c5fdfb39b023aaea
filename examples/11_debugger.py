"""The debugger: Triton's interpreter runs a kernel in Python, where breakpoint() works.

A compiled kernel cannot stop, and Python's print in it prints once, while compiling. With

    TRITON_INTERPRET=1 python examples/11_debugger.py

every program runs in Python, one after another, on numpy arrays. Take the # off the marked line,
and pdb stops in the first program: `p x`, `p mask`, `n`, `c`. Put it back before you compile.
"""

import torch
import triton
import triton.language as tl
from triton import knobs


@triton.jit
def square_kernel(output_ptr, input_ptr, n, BLOCK_SIZE: tl.constexpr):
    i = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = i < n
    x = tl.load(input_ptr + i, mask=mask, other=0.0)
    # breakpoint()  # <- here: x and mask are loaded, nothing is stored yet
    tl.store(output_ptr + i, x * x, mask=mask)


if __name__ == "__main__":
    interpreted = bool(knobs.runtime.interpret)
    x = torch.arange(10.0, device="cuda" if torch.cuda.is_available() else "cpu")
    out = torch.empty_like(x)
    square_kernel[(triton.cdiv(10, 8),)](out, x, 10, BLOCK_SIZE=8)
    torch.testing.assert_close(out, x * x)
    how = "interpreted" if interpreted else "compiled; set TRITON_INTERPRET=1 to step through it"
    print(f"square of {x.numel()} values in two programs: agrees with torch ({how})")
