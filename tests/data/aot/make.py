"""Makes the packages on the emulated device: ptxview run --target sm_90 make.py

What a package has for the host's compiler and linker was left out of it afterwards, but for the
object of ``embedded.pt2`` in which the cubin is.
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x, weight):
        return torch.nn.functional.gelu(x * weight, approximate="tanh").sum(-1)


x, weight = torch.randn(64, 100, device="cuda"), torch.randn(100, device="cuda")
for path, more in (
    ("model.pt2", {}),
    ("embedded.pt2", {"aot_inductor.embed_kernel_binary": True}),
    ("multi_arch.pt2", {"aot_inductor.emit_multi_arch_kernel": True}),
):
    torch._inductor.aoti_compile_and_package(
        torch.export.export(Model(), (x, weight)),
        package_path=path,
        # There is no CUDA to link with.
        inductor_configs={"aot_inductor.package_cpp_only": True, **more},
    )
