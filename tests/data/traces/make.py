"""Made the traces: TORCH_TRACE=aoti_cuda INDUCTOR_PROVENANCE=1 ptxview run make.py cuda; the other
two with ``python make.py cpu`` and ``python make.py export``, torch 2.13.

Afterwards stacks, most phases, settings and the parts of AOTInductor's C++ that are the same for
every model were cut out, and paths were renamed.
"""

import sys
from pathlib import Path

import torch
from torch._inductor.cpp_builder import CppBuilder


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x).sum(-1)


def touch(builder):
    """Compile nothing: there is no CUDA to link with."""
    Path(builder.get_target_file_path()).touch()


if sys.argv[1] == "export":
    rows = torch.export.Dim("b", max=64)
    exported = torch.export.export(Model(), (torch.randn(4, 16),), dynamic_shapes=({0: rows},))
    exported.run_decompositions()
else:
    CppBuilder.build = touch
    example = torch.randn(4, 16, device=sys.argv[1])
    exported = torch.export.export(Model().to(sys.argv[1]), (example,))
    torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
