"""Triton's driver for the emulated device: it loads what the compiler made and runs launches.

Everything above it is Triton's own: specialisation, the compilation with its caches and hooks,
the check of shared memory against the device's, launch hooks.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from functools import cache
from typing import Any

from . import cubin, current, devices, native, say
from .cuda import without_gpu


class Utils:
    """What Triton asks of the CUDA driver about the device and about binaries."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Module, function, registers, spilled words (as the driver counts them), threads."""
        kernel_facts = cubin.read(kernel, name)
        limits = devices.find(current().target)
        most = limits.max_threads_per_block
        if kernel_facts.registers:
            warps = limits.registers_per_sm // (-(-kernel_facts.registers * 32 // 256) * 256)
            most = min(most, warps // 4 * 4 * 32)
        loaded = (1, 1, kernel_facts.registers, kernel_facts.stack_bytes // 4, most)
        return loaded if _wants_threads() else loaded[:4]

    def unload_module(self, module: Any) -> None:
        return None

    def get_device_properties(self, device: int) -> dict[str, int]:
        limits = devices.find(current().target)
        return {
            "max_shared_mem": limits.shared_per_block_optin,
            "max_num_regs": limits.registers_per_sm,
            "multiprocessor_count": limits.sms,
            "warpSize": limits.warp_size,
            "sm_clock_rate": limits.clock_khz,
            "mem_clock_rate": limits.memory_clock_khz,
            "mem_bus_width": limits.memory_bus_bits or 0,
        }

    def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:  # noqa: N802  (Triton's name)
        raise NotImplementedError("ptxview: cluster occupancy is the CUDA driver's to say")

    def set_printf_fifo_size(self, size: int) -> None:
        return None


@cache
def _wants_threads() -> bool:
    """Triton 3.4 and later want the most threads a block as well."""
    from triton.compiler.compiler import CompiledKernel

    return "n_max_threads" in inspect.getsource(CompiledKernel._init_handles)


def _make_driver() -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    from . import launch

    class Driver(DriverBase):
        """The only driver of the process; ``triton.runtime.driver.active``."""

        def __init__(self) -> None:
            self.utils = Utils()
            self.launcher_cls = launch.Launcher
            self.get_current_device = lambda: 0
            self.set_current_device = lambda index: None
            self.get_current_stream = lambda index=0: 0
            if native.loaded():
                library = native.library()
                self.get_current_device = lambda: int(library.ptxview_get_device())
                self.set_current_device = lambda index: library.ptxview_set_device(index)
                self.get_current_stream = lambda index=0: int(
                    library.ptxview_get_stream(index or 0)
                )
            self.get_device_capability = lambda index=0: current().capability

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", current().number, 32)

        def get_active_torch_device(self) -> Any:
            import torch

            if not native.loaded():
                return torch.device("cpu")
            return torch.device("cuda", int(native.library().ptxview_get_device()))

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def map_python_to_cpp_type(self, ty: str) -> str:
            from triton.backends.nvidia.driver import ty_to_cpp

            return str(ty_to_cpp(ty))

        def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
            return args

        def get_benchmarker(self) -> Any:
            from . import tuning

            return tuning.do_bench

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(0, dtype=torch.int)

        def clear_cache(self, held: Any) -> None:
            return None

    return Driver


class NotHere(NotImplementedError, AttributeError):
    """A missing part of a library; ``hasattr`` is False for it."""


class CublasLt:
    """Triton's binding of cuBLAS, as its tutorials use it: torch computes the products."""

    def __init__(self, workspace: Any) -> None:
        say.once(
            "no-cublas",
            "there is no cuBLAS here: what a program asks of Triton's CublasLt is computed by "
            "torch, on this machine's processor",
        )

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A Bᵀ, summed in fp32."""
        c.copy_(a.float() @ b.float().T)

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha A Bᵀ + beta C, summed in fp32."""
        d.copy_(alpha * (a.float() @ b.float().T) + beta * c.float())

    def __getattr__(self, name: str) -> Any:
        raise NotHere(without_gpu(f"cuBLAS's {name}"))


def attach(module: Any) -> None:
    """Make ours the NVIDIA backend's driver; called right after triton.runtime.driver has run.

    The table of backends changes as well as the active driver: Inductor and
    ``driver.reset_active`` make a new one from it.
    """
    backends = sys.modules["triton.backends"].backends
    made = _make_driver()
    for name, backend in list(backends.items()):
        if name == "nvidia":
            backends[name] = dataclasses.replace(backend, driver=made)
    module.driver.set_active(made())
    if native.loaded():
        _replace_cublas()


def _replace_cublas() -> None:
    try:
        from triton._C.libtriton import nvidia
    except ImportError:
        return
    cublas = getattr(nvidia, "cublas", None)
    if isinstance(cublas, types.ModuleType) and hasattr(cublas, "CublasLt"):
        cublas.CublasLt = CublasLt  # type: ignore[attr-defined]
