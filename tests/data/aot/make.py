"""Makes ``model.pt2`` on the emulated device: ptxview run --target sm_90 make.py

What a package has for the host's compiler and linker was left out of it afterwards.
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.gelu(x * weight, approximate="tanh").sum(-1)


x, weight = torch.randn(64, 100, device="cuda"), torch.randn(100, device="cuda")
torch._inductor.aoti_compile_and_package(
    torch.export.export(Model(), (x, weight)),
    package_path="model.pt2",
    inductor_configs={"aot_inductor.package_cpp_only": True},  # there is no CUDA to link with
)
