"""The loaded shim: what Python asks it directly."""

from __future__ import annotations

import ctypes
from typing import Any

from . import build

_library: ctypes.CDLL | None = None


def load() -> None:
    """Load torch's libraries and the shim, in the order that lets the shim's registrations win.

    Must run before ``import torch``: torch looks for CUDA once. Raises build.CannotBuild.
    """
    global _library
    if _library is not None:
        return
    path = build.shim()
    torch = build.torch_folder()
    assert torch is not None
    # libtorch_cuda, where it is, before the shim: its registrations are the ones replaced.
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch_cuda.so"):
        if (torch / "lib" / name).exists():
            try:
                ctypes.CDLL(str(torch / "lib" / name), ctypes.RTLD_GLOBAL)
            except OSError as error:
                if name != "libtorch_cuda.so":
                    raise build.CannotBuild(f"{name} does not load: {error}") from error
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise build.CannotBuild(f"{path} does not load: {error}") from error
    library.ptxview_memory.restype = ctypes.c_int64
    library.ptxview_get_stream.restype = ctypes.c_int64
    library.ptxview_set_stream.argtypes = [ctypes.c_int, ctypes.c_int64]
    word = ctypes.POINTER(ctypes.c_uint64)
    library.ptxview_range.argtypes = [ctypes.c_uint64, ctypes.c_uint64, word, word]
    _library = library


def loaded() -> bool:
    """Whether the emulated device is there."""
    return _library is not None


def library() -> ctypes.CDLL:
    """The shim; load() must have succeeded."""
    assert _library is not None
    return _library


def memory_around(start: int, end: int) -> tuple[int, int] | None:
    """The bounds of the device memory that holds the bytes [start, end), or None."""
    if not loaded():
        return None
    first, last = ctypes.c_uint64(), ctypes.c_uint64()
    found = library().ptxview_range(start, end, ctypes.byref(first), ctypes.byref(last))
    return (first.value, last.value) if found else None


def host(tensor: Any) -> Any:
    """A CPU tensor over the same memory; raises RuntimeError where the value is absent."""
    import torch

    if not loaded():
        return tensor.detach()
    return torch.ops.ptxview_target.host(tensor.detach())


def absence(tensor: Any) -> str:
    """Why the tensor's value is absent; empty where it is there."""
    import torch

    if not loaded():
        return ""
    return str(torch.ops.ptxview_target.absence(tensor.detach()))


def mark_absent(tensor: Any, why: str) -> None:
    """Make every later read of the tensor's memory raise, with this reason."""
    import torch

    if not loaded():
        # Nothing could make a later read of a plain CPU tensor raise: this launch does.
        raise RuntimeError(f"ptxview: {why}")
    torch.ops.ptxview_target.mark_absent(tensor.detach(), why)
