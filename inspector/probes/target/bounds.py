"""Addresses that a kernel may not touch: a GPU faults, or reads what it should not; this raises.

The interpreter would follow such a pointer into this process's own memory. Memory whose value is
absent may be written and not read: a pointer to it may come from anywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import frames, native


class Range(NamedTuple):
    """One piece of device memory, and why its value is absent; empty where it is there."""

    first: int
    end: int
    absent: str


_ranges: list[Range] = []
_program = (0, 0, 0)

# Operations whose result is a pointer where an operand is one.
_KEEPING = (
    "create_addptr", "create_splat", "create_broadcast", "create_expand_dims", "create_reshape",
    "create_trans", "create_bitcast", "create_select", "create_join", "create_cat",
)  # fmt: skip
# The attribute of a pointer's handle that names the argument that it was made from.
_MADE_FROM = "ptxview_argument"


class Launch(NamedTuple):
    """The launch under way, as an error names it."""

    kernel: str
    number: int
    """From 1, among the launches of this kernel that were run."""
    grid: tuple[int, int, int]
    tensors: dict[str, Any]
    """The arguments that are tensors, by name."""


_launch = Launch("", 0, (0, 0, 0), {})
_launches: dict[str, int] = {}


class IllegalAccess(RuntimeError):
    """A load, store or atomic outside of every CUDA tensor."""


class AbsentValue(Exception):
    """A kernel reads memory whose value is absent; the text says why it is."""


def begin(kernel: str, grid: tuple[int, int, int], arguments: dict[str, tuple[Any, Any]]) -> None:
    """A launch begins: memory may have moved since the last.

    ``arguments``: what the program gave, and what the interpreter was given for it, by name.
    """
    global _launch
    tensors: dict[str, Any] = {}
    for name, (given, converted) in arguments.items():
        _name_pointers(name, given, converted, tensors)
    _launch = Launch(kernel, launched(kernel), grid, tensors)
    _ranges.clear()


def launched(kernel: str) -> int:
    """Count a launch of a kernel that is run; its number, from 1."""
    _launches[kernel] = _launches.get(kernel, 0) + 1
    return _launches[kernel]


def _name_pointers(name: str, given: Any, converted: Any, tensors: dict[str, Any]) -> None:
    """Let each pointer among the arguments know its argument's name."""
    import torch

    while not isinstance(given, torch.Tensor) and hasattr(given, "base"):
        given = given.base
    if isinstance(given, torch.Tensor):
        handle = getattr(converted, "handle", None)
        handle = getattr(handle, "base", handle)  # a descriptor's
        if handle is not None:
            setattr(handle, _MADE_FROM, name)
            tensors[name] = given
    elif isinstance(given, tuple):
        for index, (part, made) in enumerate(zip(given, converted, strict=False)):
            _name_pointers(f"{name}[{index}]", part, made, tensors)


def at(program: tuple[int, int, int]) -> None:
    """The program that runs next."""
    global _program
    _program = program


def program() -> tuple[int, int, int]:
    """The program that runs now."""
    return _program


def _around(start: int, end: int) -> Range | None:
    for extent in _ranges:
        if extent.first <= start and end <= extent.end:
            return extent
    bounds = native.memory_around(start, end)
    if bounds is None:
        return None
    _ranges.append(Range(*bounds, native.absence_at(start)))
    return _ranges[-1]


def check(pointers: Any, mask: Any, size: int, what: str, argument: str | None = None) -> None:
    """Raise IllegalAccess unless every wanted address lies in some CUDA tensor's memory.

    ``argument``: which one the pointers were made from. Raises AbsentValue where a value is read
    that is absent.
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
    outside: list[int] = []
    left = np.unique(wanted)
    while left.size:
        place = _around(int(left[0]), int(left[0]) + size)
        if place is None:
            outside.append(int(left[0]))
            left = left[1:]
            continue
        _refuse_absent(place, what)
        left = left[np.searchsorted(left, place.end - size, side="right") :]
    if outside:
        raise IllegalAccess(
            "CUDA error: an illegal memory access was encountered\nptxview: "
            + _sentence(outside, size, what, argument)
        )


def _sentence(outside: list[int], size: int, what: str, argument: str | None) -> str:
    """Who did it, where, and how far from which tensor."""
    kernel, number, grid, tensors = _launch
    first, count = outside[0], len(outside)
    several = f"{count} elements of {size} bytes, the first" if count > 1 else f"{size} bytes"
    near = nearest(tensors, first, argument)
    place = frames.here()
    return (
        f"program {_program} of launch {number} of {kernel}, grid {grid}, {what} {several} at "
        f"{first:#x}, outside of every CUDA tensor"
        + (f": {near}" if near else "")
        + (f" ({place})" if place else "")
    )


def _extent(tensor: Any) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if not tensor.numel():
        return 0
    sides = zip(tensor.shape, tensor.stride(), strict=True)
    return int(1 + sum((n - 1) * step for n, step in sides)) * int(tensor.element_size())


def _beyond(tensor: Any, address: int) -> tuple[int, str]:
    """How many bytes lie between a tensor and an address outside of it, and on which side."""
    first = int(tensor.data_ptr())
    if address < first:
        return first - address, "before the start"
    return address - first - _extent(tensor), "past the end"


def nearest(tensors: dict[str, Any], address: int, certain: str | None = None) -> str:
    """How far an address is from the tensor that it was made from, or else from the nearest."""
    if not tensors:
        return ""
    name = certain if certain in tensors else None
    if name is None:
        name = min(tensors, key=lambda other: _beyond(tensors[other], address)[0])
    return _relative(name, tensors[name], address, name == certain)


def _relative(name: str, tensor: Any, address: int, certain: bool) -> str:
    distance, side = _beyond(tensor, address)
    kind = str(tensor.dtype).removeprefix("torch.")
    where = f"{distance} bytes {side}" if distance else f"just {side}"
    nearest = "" if certain else ", the nearest argument"
    return f"{where} of {name}, {kind} {list(tensor.shape)}{nearest}"


def _refuse_absent(place: Range, what: str) -> None:
    if place.absent and what != "writes":
        raise AbsentValue(place.absent)


def name_after(pointers: Any, operands: Iterable[Any]) -> None:
    """Let pointers be known as made from the one argument that their operands were made from."""
    names = {getattr(operand, _MADE_FROM, None) for operand in operands} - {None}
    if len(names) == 1:
        setattr(pointers, _MADE_FROM, names.pop())


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
            made_from = getattr(pointers, _MADE_FROM, None)
            check(pointers.data, mask, size_of(pointers), what, made_from)
            return original(self, *args, **given)

        return builder, name, method

    def keeping(name: str) -> tuple[Any, str, Any]:
        original = patched.get(name) or getattr(builder, name)

        def method(self: Any, *args: Any, **given: Any) -> Any:
            result = original(self, *args, **given)
            name_after(result, (*args, *given.values()))
            return result

        return builder, name, method

    return [
        *(keeping(name) for name in _KEEPING if hasattr(builder, name)),
        checked("create_masked_load", "reads"),
        checked("create_masked_store", "writes"),
        checked("create_atomic_rmw", "updates"),
        checked("create_atomic_cas", "updates"),
    ]
