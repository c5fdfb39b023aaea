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
    word, text, number, small = ctypes.c_uint64, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int
    words = ctypes.POINTER(word)
    for name, result, types in (
        ("memory", number, (small, small)),
        ("get_stream", number, (small,)),
        ("set_stream", None, (small, number)),
        ("range", small, (word, word, words, words)),
        ("ranges", number, (words, words, number)),
        ("absence_at", small, (word, text, number)),
        ("mark_absent_at", None, (word, text)),
        ("pinned_range", small, (word, words, words)),
    ):
        function = getattr(library, f"ptxview_{name}")
        function.restype, function.argtypes = result, types
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
    return _bounds("ptxview_range", start, end)


def pinned_around(address: int) -> tuple[int, int] | None:
    """The bounds of the host's pinned memory that holds the address, or None."""
    return _bounds("ptxview_pinned_range", address)


def _bounds(function: str, *given: int) -> tuple[int, int] | None:
    if _library is None:
        return None
    first, last = ctypes.c_uint64(), ctypes.c_uint64()
    is_inside = getattr(_library, function)(*given, ctypes.byref(first), ctypes.byref(last))
    return (first.value, last.value) if is_inside else None


def memory() -> list[tuple[int, int]]:
    """Where each piece of device memory starts and ends, in order."""
    if not loaded():
        return []
    room = 0
    while True:
        starts, ends = (ctypes.c_uint64 * room)(), (ctypes.c_uint64 * room)()
        count = int(library().ptxview_ranges(starts, ends, room))
        if count <= room:
            return list(zip(starts[:count], ends[:count], strict=True))
        room = count


def absence_at(address: int) -> str:
    """Why the memory at the address is absent; empty where it is there."""
    if not loaded():
        return ""
    text = ctypes.create_string_buffer(2000)
    is_absent = library().ptxview_absence_at(address, text, len(text))
    return text.value.decode(errors="replace") if is_absent else ""


def mark_absent_at(address: int, why: str) -> None:
    """Make every later read of the memory around the address raise, with this reason."""
    library().ptxview_mark_absent_at(address, why.encode(errors="replace"))


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
