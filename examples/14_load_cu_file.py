"""The square from a .cu file, with `load` instead of `load_inline`.

The source is a file with its own includes and its own PYBIND11_MODULE, as in a real project: an
editor knows it, and line numbers in errors and in .loc are the file's own (load_inline puts three
#include lines above yours).

    ptxview run examples/14_load_cu_file.py
"""

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

if __name__ == "__main__":
    module = load(
        name="square_file_example",
        sources=[str(Path(__file__).resolve().parent / "14_square.cu")],
        extra_cuda_cflags=["-O2"],
    )
    x = torch.randn(1823, 781, device="cuda")
    torch.testing.assert_close(module.square_matrix(x), x * x)
    print("square_matrix from 14_square.cu: agrees with torch")
