"""torch.square, a * a, a ** 2: is it the same kernel? And is Triton's, and one's own in CUDA C++?

Five ways to square, with the kernels that PyTorch itself brings along. On a GPU ptxview records
what the driver launches, ATen's own kernels too; without one, the two that are compiled here.

    ptxview run examples/16_square_as_pytorch_does.py
    ptxview list --calls
    ptxview diff "*pow_tensor*" "*MulFunctor*"

The first two lines of the table answer the lecture's question: torch.square is ``a ** 2``, in
machine code as in Python, and ``a * a`` is another kernel.
"""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kernels import square as triton_square
from kernels import square_cuda

if __name__ == "__main__":
    a = torch.randn(1823, 781, device="cuda")
    ways = {
        "torch.square(a)": lambda: torch.square(a),
        "a * a": lambda: a * a,
        "a ** 2": lambda: a**2,
        "Triton": lambda: triton_square.square(a),
        "CUDA C++": lambda: square_cuda.extension().square_matrix(a),
    }
    expected = ways["a * a"]()
    for name, way in ways.items():
        torch.testing.assert_close(way(), expected)
        print(f"{name:16} agrees")
