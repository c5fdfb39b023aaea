"""What a program asks of NVIDIA's own libraries and tools, past torch: said in a sentence.

A machine without a driver has no libcuda, cuBLAS or nvidia-smi, and the loader, the shell and the
linker each say so in their own way. The kind of error stays, so that a program that is ready for
it goes on; what it says is what is missing here, and why.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
import types
from typing import Any

from . import say
from .traceback import unseen

LIBRARY = re.compile(
    r"^lib(cuda|cudart|cublas\w*|cudnn\w*|cufft\w*|cusparse\w*|cusolver\w*|curand|cupti|nccl|nvrtc|"
    r"nvidia-ml|nvJitLink|nvToolsExt)(\.so[.\d]*)?$"
)
TOOLS = ("nvidia-smi", "nvidia-settings", "nvidia-cuda-mps-control")


def sentence(what: str) -> str:
    """Why this is not to be had, and what is."""
    return (
        f"ptxview: there is no GPU here, and {what} is for a machine with one: torch's operators, "
        "Triton's kernels and CUDA C++ run on this machine's processor, nothing else of CUDA does"
    )


def install() -> None:
    """Let a missing library or tool be told in our words; called once in a process."""
    load = ctypes.CDLL.__init__

    @functools.wraps(load)
    def loading(self: Any, name: Any = None, *args: Any, **given: Any) -> None:
        try:
            load(self, name, *args, **given)
        except OSError as error:
            base = os.path.basename(os.fsdecode(name)) if isinstance(name, (str, bytes)) else ""
            if not LIBRARY.match(base):
                unseen(error)
                raise
            raise OSError(f"{sentence(base)} ({error})") from None

    ctypes.CDLL.__init__ = loading  # type: ignore[method-assign]
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def starting(self: Any, *args: Any, **given: Any) -> None:
        try:
            start(self, *args, **given)
        except FileNotFoundError as error:
            base = os.path.basename(os.fsdecode(error.filename or ""))
            if base not in TOOLS:
                unseen(error)
                raise
            raise FileNotFoundError(error.errno, sentence(base), error.filename) from None

    subprocess.Popen.__init__ = starting  # type: ignore[method-assign]


def attach(module: Any) -> None:
    """NVML in torch.cuda, and cuBLAS in Triton."""
    if module.__name__ == "torch":
        module.cuda._get_pynvml_handler = _no_nvml
        if not hasattr(module._C, JITERATOR):
            setattr(module._C, JITERATOR, _no_jiterator)
        return
    try:
        from triton._C.libtriton import nvidia
    except ImportError:
        return
    cublas = getattr(nvidia, "cublas", None)
    if isinstance(cublas, types.ModuleType) and hasattr(cublas, "CublasLt"):
        cublas.CublasLt = CublasLt  # type: ignore[attr-defined]


JITERATOR = "_cuda_jiterator_compile_and_launch_kernel"


def _no_jiterator(code: Any, name: Any, *args: Any, **given: Any) -> Any:
    raise NotImplementedError(sentence(f"the jiterator, which would compile {name} with NVRTC,"))


def _no_nvml(*args: Any, **given: Any) -> Any:
    raise ModuleNotFoundError(sentence("NVML, which tells a GPU's load, clocks and temperature,"))


class NotHere(NotImplementedError, AttributeError):
    """Something of a library's that is missing here; whoever only asks for it gets no."""


class CublasLt:
    """Triton's own door to cuBLAS, as its tutorials use it: products are computed by torch."""

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
        raise NotHere(sentence(f"cuBLAS's {name}"))
