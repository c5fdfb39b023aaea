"""The arguments of a call as an event holds them: tensors by layout, scalars by value."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack, contextmanager
from typing import Any

from .. import private_names

# torch's allocator begins every block at a multiple of 512 bytes, and in the host's memory, where
# the emulated device's tensors are, of 64: the rest of an address is chance.
HOST_ALIGNMENT = 64
ALIGNMENT = HOST_ALIGNMENT if os.environ.get("PTXVIEW_TARGET") else 512
MAX_ARGUMENTS = 1024
MAX_TEXT_CHARACTERS = 200

Item = tuple[str, Any, Any]  # an argument's name, type and value
Described = dict[str, Any]


class Traced(Exception):
    """The arguments are a compiler's stand-ins: this is no call of the program."""


def sign(value: Any) -> Any:
    """A hashable that tells a call's argument apart, cheap and without a reference to it."""
    try:
        return value.dtype, value.shape, value.stride(), value.data_ptr() & mask(value)
    except AttributeError:
        pass
    if value is None or isinstance(value, bool | int | float | str):
        return type(value), value
    if isinstance(value, list | tuple):
        return tuple(map(sign, value))
    base = getattr(value, "base", None)
    if base is not None and hasattr(value, "shape"):
        return sign(base), tuple(value.shape), tuple(getattr(value, "strides", ()) or ())
    return type(value), str(value)[:MAX_TEXT_CHARACTERS]


def mask(tensor: Any) -> int:
    """The bits of a tensor's address that tell calls apart: those below the alignment."""
    return (ALIGNMENT if getattr(tensor, "is_cuda", True) else HOST_ALIGNMENT) - 1


def describe(items: Iterable[Item]) -> tuple[list[Described], list[tuple[Described, Any]]]:
    """Arguments as an event holds them, and each described tensor with the tensor itself."""
    out: list[Described] = []
    tensors: list[tuple[Described, Any]] = []
    for name, kind, value in items:
        _describe(out, tensors, name, kind, value)
    return out, tensors


def _describe(
    out: list[Described], tensors: list[tuple[Described, Any]], name: str, kind: Any, value: Any
) -> None:
    if len(out) >= MAX_ARGUMENTS:
        return
    if isinstance(value, list | tuple):
        kinds = kind if isinstance(kind, list | tuple) else [None] * len(value)
        for index, element in enumerate(value):
            element_kind = kinds[index] if index < len(kinds) else None
            _describe(out, tensors, f"{name}[{index}]", element_kind, element)
        return
    description: Described = {"name": name, "type": None if kind is None else str(kind)}
    out.append(description)
    tensor = value if hasattr(value, "data_ptr") else getattr(value, "base", None)
    if hasattr(tensor, "data_ptr"):
        _layout(description, value, tensor)
        tensors.append((description, tensor))
        return
    plain = getattr(value, "value", value) if kind == "constexpr" else value
    if isinstance(plain, int) and not isinstance(plain, bool) and str(kind).startswith("*"):
        description["alignment"] = aligned(plain)  # a bare address, which says nothing elsewhere
    elif plain is None or isinstance(plain, bool | int | float):
        description["value"] = plain
    else:
        description["value"] = str(getattr(plain, "__name__", None) or plain)[:MAX_TEXT_CHARACTERS]
        description["python_type"] = type(plain).__name__


def _layout(description: Described, value: Any, tensor: Any) -> None:
    if any(k.__name__ in ("FakeTensor", "FunctionalTensor") for k in type(tensor).__mro__):
        raise Traced
    description["dtype"] = str(getattr(tensor, "dtype", "")).removeprefix("torch.") or None
    strides = getattr(value, "stride", None)
    for field, read in (
        ("shape", lambda: [int(n) for n in value.shape]),
        ("strides", lambda: [int(n) for n in (strides() if callable(strides) else value.strides)]),
        ("alignment", lambda: aligned(int(tensor.data_ptr()), mask(tensor) + 1)),
        ("device", lambda: str(tensor.device.type)),
    ):
        try:
            description[field] = read()
        except Exception:
            description[field] = (
                None  # a tensor that has no storage, or a shape that is not of numbers
            )


def aligned(address: int, most: int = ALIGNMENT) -> int | None:
    """The largest power of two, up to ``most`` bytes, that divides an address; None for null."""
    return min(address & -address, most) if address else None


def ranges(tensors: list[tuple[Described, Any]]) -> None:
    """Fill in the range of each integer tensor; waits for the device, so once for a call."""
    torch: Any = sys.modules.get("torch")
    if torch is None or os.environ.get("PTXVIEW_RANGES") == "0":
        return
    integer_tensors = [
        (o, t) for o, t in tensors if isinstance(t, torch.Tensor) and _integer(torch, t)
    ]
    if not integer_tensors or not _may_wait(torch):
        return
    for description, tensor in integer_tensors:
        try:
            with unseen(torch), torch.no_grad():
                low, high = torch.aminmax(tensor.detach())
                description["low"], description["high"] = int(low.item()), int(high.item())
        except Exception:
            continue  # no operator for this dtype, or values that are absent


def _integer(torch: Any, tensor: Any) -> bool:
    kind = tensor.dtype
    return bool(
        tensor.numel() and not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
    )


@contextmanager
def unseen(torch: Any) -> Any:
    """A context in which our operators are hidden from the program's torch modes and profiles."""
    within = [
        private_names.get("torch.utils._python_dispatch:_disable_current_modes"),
        private_names.get("torch._C:DisableTorchFunction"),
    ]
    is_profiled = private_names.get("torch.autograd:_profiler_enabled")
    record = private_names.get("torch.autograd:_enable_record_function")
    profiled = is_profiled is not None and record is not None and is_profiled()
    if profiled:
        record(False)
    try:
        with ExitStack() as contexts:
            for context in within:
                if context is not None:
                    contexts.enter_context(context())
            yield
    finally:
        if profiled:
            record(True)


def _may_wait(torch: Any) -> bool:
    """Whether our own operator may run now: not in a profile, not in a CUDA graph's capture."""
    is_profiled = private_names.get("torch.autograd:_profiler_enabled")
    if is_profiled is None or is_profiled():
        return False
    cuda = torch.cuda
    if not cuda.is_initialized():
        return True
    return not (cuda.is_current_stream_capturing() or cuda.get_sync_debug_mode())
