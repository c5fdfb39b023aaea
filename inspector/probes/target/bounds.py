"""Addresses that a kernel may not touch: a GPU faults, or reads what it should not; this raises.

The interpreter would follow such a pointer into this process's own memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import native

_known: list[tuple[int, int]] = []
_kernel = ""
_program = (0, 0, 0)


class IllegalAccess(RuntimeError):
    """A load, store or atomic outside of every CUDA tensor."""


def begin(kernel: str) -> None:
    """A launch begins: memory may have moved since the last."""
    global _kernel
    _kernel = kernel
    _known.clear()


def at(program: tuple[int, int, int]) -> None:
    """The program that runs next."""
    global _program
    _program = program


def _held(start: int, end: int) -> bool:
    for first, last in _known:
        if first <= start and end <= last:
            return True
    if not native.loaded():
        return True  # without the shim nobody knows where tensors lie
    found = native.memory_around(start, end)
    if found is None:
        return False
    _known.append(found)
    return True


def check(pointers: Any, mask: Any, size: int, what: str) -> None:
    """Raise IllegalAccess unless every wanted address lies in some CUDA tensor's memory."""
    import numpy as np

    wanted = pointers if mask is None else np.broadcast_to(pointers, mask.shape)[mask]
    if wanted.size == 0 or _held(int(wanted.min()), int(wanted.max()) + size):
        return
    outside = [p for p in np.unique(wanted).tolist() if not _held(p, p + size)]
    if outside:
        raise IllegalAccess(
            f"CUDA error: an illegal memory access was encountered\nptxview: program {_program} of "
            f"the kernel {_kernel} {what} {len(outside)} addresses outside of every CUDA tensor"
        )


def patches(interpreter: Any, before: Iterable[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """The interpreter's memory operations, each checked first; ``before``: patches they go over."""
    builder = interpreter.InterpreterBuilder
    patched = {name: value for owner, name, value in before if owner is builder}

    def size_of(handle: Any) -> int:
        return max(1, int(handle.get_element_ty().primitive_bitwidth) // 8)

    def checked(name: str, what: str, mask_at: int | None) -> tuple[Any, str, Any]:
        original = patched.get(name) or getattr(builder, name)
        first = 1 if name == "create_atomic_rmw" else 0

        def method(self: Any, *args: Any) -> Any:
            pointers = args[first]
            mask = None if mask_at is None else args[mask_at].data
            check(pointers.data, mask, size_of(pointers), what)
            return original(self, *args)

        return builder, name, method

    return [
        checked("create_masked_load", "reads", 1),
        checked("create_masked_store", "writes", 2),
        checked("create_atomic_rmw", "updates", 3),
        checked("create_atomic_cas", "updates", None),
    ]
