"""Addresses that a kernel may not touch: a GPU faults, or reads what it should not; this raises.

The interpreter would follow such a pointer into this process's own memory. Memory whose value is
absent may be written and not read: a pointer to it may come from anywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import native


class Range(NamedTuple):
    """One piece of device memory, and why its value is absent; empty where it is there."""

    first: int
    end: int
    absent: str


_ranges: list[Range] = []
_kernel = ""
_program = (0, 0, 0)


class IllegalAccess(RuntimeError):
    """A load, store or atomic outside of every CUDA tensor."""


class AbsentValue(Exception):
    """A kernel reads memory whose value is absent; the text says why it is."""


def begin(kernel: str) -> None:
    """A launch begins: memory may have moved since the last."""
    global _kernel
    _kernel = kernel
    _ranges.clear()


def at(program: tuple[int, int, int]) -> None:
    """The program that runs next."""
    global _program
    _program = program


def _around(start: int, end: int) -> Range | None:
    for known in _ranges:
        if known.first <= start and end <= known.end:
            return known
    bounds = native.memory_around(start, end)
    if bounds is None:
        return None
    _ranges.append(Range(*bounds, native.absence_at(start)))
    return _ranges[-1]


def check(pointers: Any, mask: Any, size: int, what: str) -> None:
    """Raise IllegalAccess unless every wanted address lies in some CUDA tensor's memory.

    Raises AbsentValue where a value is read that is absent.
    """
    import numpy as np

    if not native.loaded():
        return  # without the shim nobody knows where tensors lie
    wanted = pointers if mask is None else np.broadcast_to(pointers, mask.shape)[mask]
    if wanted.size == 0:
        return
    whole = _around(int(wanted.min()), int(wanted.max()) + size)
    if whole is not None:
        _refuse_absent(whole, what)
        return
    outside = 0
    left = np.unique(wanted)
    while left.size:
        place = _around(int(left[0]), int(left[0]) + size)
        if place is None:
            outside, left = outside + 1, left[1:]
            continue
        _refuse_absent(place, what)
        left = left[np.searchsorted(left, place.end - size, side="right") :]
    if outside:
        raise IllegalAccess(
            f"CUDA error: an illegal memory access was encountered\nptxview: program {_program} of "
            f"the kernel {_kernel} {what} {outside} addresses outside of every CUDA tensor"
        )


def _refuse_absent(place: Range, what: str) -> None:
    if place.absent and what != "writes":
        raise AbsentValue(place.absent)


def patches(interpreter: Any, before: Iterable[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """The interpreter's memory operations, each checked first; ``before``: patches they go over."""
    builder = interpreter.InterpreterBuilder
    patched = {name: value for owner, name, value in before if owner is builder}

    def size_of(handle: Any) -> int:
        return max(1, int(handle.get_element_ty().primitive_bitwidth) // 8)

    def checked(name: str, what: str) -> tuple[Any, str, Any]:
        unchecked = getattr(builder, name)
        original = patched.get(name) or unchecked
        # Callers name arguments as they like, and versions add some.
        names = list(inspect.signature(unchecked).parameters)[1:]
        pointers_at = next(i for i, n in enumerate(names) if n in ("ptr", "ptrs"))
        mask_at = names.index("mask") if "mask" in names else None

        def method(self: Any, *args: Any, **given: Any) -> Any:
            def argument(at: int) -> Any:
                return args[at] if at < len(args) else given[names[at]]

            pointers = argument(pointers_at)
            mask = None if mask_at is None else argument(mask_at)
            mask = getattr(mask, "data", None) if hasattr(mask, "dtype") else mask
            check(pointers.data, mask, size_of(pointers), what)
            return original(self, *args, **given)

        return builder, name, method

    return [
        checked("create_masked_load", "reads"),
        checked("create_masked_store", "writes"),
        checked("create_atomic_rmw", "updates"),
        checked("create_atomic_cas", "updates"),
    ]
