"""Cubins of PTX texts, and launches of them through the driver's API, on memory that torch gave."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def ptxas() -> str:
    """CUDA's ptxas, or Triton's. FileNotFoundError where there is neither."""
    if path := shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas"):
        return path
    import triton

    return str(next(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas")))


def assembled(text: str, arch: str = "sm_90a", level: int = 3) -> bytes:
    """The cubin of a PTX text, optimized so far. CalledProcessError with what ptxas said."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "one.ptx"), Path(folder, "one.cubin")
        source.write_text(text, "utf-8")
        subprocess.run([ptxas(), f"-arch={arch}", f"-O{level}", "-o", cubin, source], check=True,
                       capture_output=True, text=True, timeout=900)  # fmt: skip
        return cubin.read_bytes()


class Driver:
    """libcuda, in the context that torch has made."""

    def __init__(self) -> None:
        import torch

        torch.zeros(1, device="cuda")
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *words: Any) -> None:
        """RuntimeError, with the driver's number, where it refuses."""
        if error := getattr(self.library, name)(*words):
            raise RuntimeError(f"{name}: error {error}")

    def load(self, cubin: bytes) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def launch(
        self, module: ctypes.c_void_p, entry: str, grid: Sequence[int], threads: Sequence[int],
        shared: int, arguments: Sequence[bytes],
    ) -> None:  # fmt: skip
        """Launches an entry and waits for its end; arguments as the bytes that they have."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", function, 8, shared)
        held = [ctypes.create_string_buffer(value, len(value)) for value in arguments]
        addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        self.call("cuLaunchKernel", function, *grid, *threads, shared, None, addresses, None)
        self.call("cuCtxSynchronize")
