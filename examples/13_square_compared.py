"""Did you compare Triton with CUDA for the square? "Did not." Here they are, with torch.compile.

The same input through a Triton kernel, a CUDA kernel and what Inductor writes. The values agree;
times are printed only where there is a GPU to measure them, medians over launches that each find
the L2 cache cleared. For the code, put two side by side:

    ptxview run examples/13_square_compared.py
    ptxview diff square_kernel square_matrix_kernel
"""

import math
import sys
from pathlib import Path

import torch
import triton

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kernels import square as triton_square
from kernels import square_cuda

if __name__ == "__main__":
    x = torch.randn(1823, 781, device="cuda")
    ways = {
        "eager": torch.square,
        "Triton": triton_square.square,
        "CUDA": square_cuda.extension().square_matrix,
        "torch.compile": torch.compile(torch.square),  # once, outside of what is timed
    }
    for name, way in ways.items():
        torch.testing.assert_close(way(x), x * x)
        milliseconds = triton.testing.do_bench(lambda way=way: way(x), return_mode="median")
        measured = not math.isnan(milliseconds)
        print(f"{name:14} agrees; {f'{milliseconds * 1e3:.1f} µs' if measured else 'not measured'}")
