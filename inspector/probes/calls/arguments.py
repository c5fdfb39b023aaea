"""What a call was given, as an event tells it: tensors by their layout, scalars by their value."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

# torch's allocator begins every block at a multiple of 512 bytes, and in the host's memory, where
# the emulated device's tensors lie, of 64: what an address has beyond that is chance.
HOST_ALIGNMENT = 64
ALIGNMENT = HOST_ALIGNMENT if os.environ.get("PTXVIEW_TARGET") else 512
MOST_ARGUMENTS = 1024
LONGEST_TEXT = 200

Item = tuple[str, Any, Any]  # an argument's name, type and value
Described = dict[str, Any]


class Traced(Exception):
    """The arguments are a compiler's stand-ins: this is no call of the program."""


def sign(value: Any) -> Any:
    """A hashable by which a call's argument is told apart; cheap, and without any reference."""
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
    return type(value), str(value)[:LONGEST_TEXT]


def mask(tensor: Any) -> int:
    """What of a tensor's address tells calls apart."""
    return (ALIGNMENT if getattr(tensor, "is_cuda", True) else HOST_ALIGNMENT) - 1


def describe(items: Iterable[Item]) -> tuple[list[Described], list[tuple[Described, Any]]]:
    """Arguments as an event holds them, and which of them is which tensor."""
    out: list[Described] = []
    tensors: list[tuple[Described, Any]] = []
    for name, kind, value in items:
        _describe(out, tensors, name, kind, value)
    return out, tensors


def _describe(
    out: list[Described], tensors: list[tuple[Described, Any]], name: str, kind: Any, value: Any
) -> None:
    if len(out) >= MOST_ARGUMENTS:
        return
    if isinstance(value, list | tuple):
        kinds = kind if isinstance(kind, list | tuple) else [None] * len(value)
        for at, each in enumerate(value):
            within = kinds[at] if at < len(kinds) else None
            _describe(out, tensors, f"{name}[{at}]", within, each)
        return
    one: Described = {"name": name, "type": None if kind is None else str(kind)}
    out.append(one)
    tensor = value if hasattr(value, "data_ptr") else getattr(value, "base", None)
    if hasattr(tensor, "data_ptr"):
        _layout(one, value, tensor)
        tensors.append((one, tensor))
        return
    held = getattr(value, "value", value) if kind == "constexpr" else value
    if isinstance(held, int) and not isinstance(held, bool) and str(kind).startswith("*"):
        one["alignment"] = aligned(held)  # a bare address, which says nothing elsewhere
    elif held is None or isinstance(held, bool | int | float):
        one["value"] = held
    else:
        one["value"] = str(getattr(held, "__name__", None) or held)[:LONGEST_TEXT]


def _layout(one: Described, value: Any, tensor: Any) -> None:
    if any(k.__name__ in ("FakeTensor", "FunctionalTensor") for k in type(tensor).__mro__):
        raise Traced
    one["dtype"] = str(getattr(tensor, "dtype", "")).removeprefix("torch.") or None
    strides = getattr(value, "stride", None)
    for field, read in (
        ("shape", lambda: [int(n) for n in value.shape]),
        ("strides", lambda: [int(n) for n in (strides() if callable(strides) else value.strides)]),
        ("alignment", lambda: aligned(int(tensor.data_ptr()), mask(tensor) + 1)),
        ("device", lambda: str(tensor.device.type)),
    ):
        try:
            one[field] = read()
        except Exception:
            one[field] = None  # a tensor that has no storage, or a shape that is not of numbers


def aligned(address: int, most: int = ALIGNMENT) -> int | None:
    """The largest power of two, ``most`` at most, that divides an address; None of a null."""
    return min(address & -address, most) if address else None


def ranges(tensors: list[tuple[Described, Any]]) -> None:
    """Fill in the range of each integer tensor; waits for the device, so once for a call."""
    torch: Any = sys.modules.get("torch")
    if torch is None or os.environ.get("PTXVIEW_RANGES") == "0":
        return
    whole = [(o, t) for o, t in tensors if isinstance(t, torch.Tensor) and _integer(torch, t)]
    if not whole or not _may_wait(torch):
        return
    for one, tensor in whole:
        try:
            with torch.no_grad(), _unseen(torch):
                low, high = torch.aminmax(tensor.detach())
                one["low"], one["high"] = int(low.item()), int(high.item())
        except Exception:
            continue  # no operator for this dtype, or values that are absent


def _integer(torch: Any, tensor: Any) -> bool:
    kind = tensor.dtype
    return bool(
        tensor.numel() and not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
    )


@contextmanager
def _unseen(torch: Any) -> Any:
    """Within it, no mode of the program's sees an operator of ours."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


def _may_wait(torch: Any) -> bool:
    """Whether an operator of ours may run now: not in a profile, not in a CUDA graph's capture."""
    if torch.autograd._profiler_enabled():
        return False
    cuda = torch.cuda
    if not cuda.is_initialized():
        return True
    return not (cuda.is_current_stream_capturing() or cuda.get_sync_debug_mode())
