"""Read-modify-write operations on memory, by many lanes at once, one lane after another.

Lanes at different places run together; those at one place in turn, in the order in which they
are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from inspector.execute import floats
from inspector.execute.kinds import Array, f16, f32, f64, i32, i64, u16, u32

Operation = Callable[[str, Array, Sequence[Array]], Array]
"""The new value from type, previous value and operands, all as unsigned bits."""


def _add(kind: str, old: Array, given: Sequence[Array]) -> Array:
    if kind in ("f32", "f64"):
        real = f32 if kind == "f32" else f64
        return (old.view(real) + given[0].view(real)).view(old.dtype)
    if kind == "f16":
        return (old.view(f16) + given[0].view(f16)).view(u16)
    if kind == "bf16":
        return floats.to_bf16(floats.from_bf16(old) + floats.from_bf16(given[0]))
    return old + given[0]


def _extreme(least: bool) -> Operation:
    def choose(kind: str, old: Array, given: Sequence[Array]) -> Array:
        new = given[0]
        if kind in ("s32", "s64"):
            signed = i32 if kind == "s32" else i64
            lower = new.view(signed) < old.view(signed)
            equal = new == old
        elif kind in ("f16", "bf16", "f32", "f64"):
            x, y = _real(kind, old), _real(kind, new)
            lower, equal = (y < x) | np.isnan(x), x == y
            if not least:
                return np.where((y > x) | np.isnan(x), new, old)
        else:
            lower, equal = new < old, new == old
        return np.where(lower if least else ~(lower | equal), new, old)

    return choose


def _real(kind: str, bits: Array) -> Array:
    if kind == "bf16":
        return floats.from_bf16(bits)
    return bits.view({"f16": f16, "f32": f32, "f64": f64}[kind])


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": _add,
        "min": _extreme(least=True),
        "max": _extreme(least=False),
        "and": lambda kind, old, given: old & given[0],
        "or": lambda kind, old, given: old | given[0],
        "xor": lambda kind, old, given: old ^ given[0],
        "exch": lambda kind, old, given: np.broadcast_to(given[0], old.shape),
        "cas": lambda kind, old, given: np.where(old == given[0], given[1], old),
        "inc": lambda kind, old, given: np.where(old >= given[0], u32(0), old + u32(1)),
        "dec": lambda kind, old, given: np.where(
            (old == 0) | (old > given[0]), given[0], old - u32(1)
        ),
    }
)
"""``atom`` and ``red``, "Parallel Synchronization and Communication Instructions"."""

_COMMUTING = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}
_LONG = 32
"""Lanes at one place above which they are summed at once."""


def in_order(
    view: Array, index: Array, operation: Operation, kind: str, given: Sequence[Array], wanted: bool
) -> tuple[Array | None, bool]:
    """Applies an operation at each index of ``view``, in the order of the indices.

    Gives the previous value each, where that is ``wanted``, and whether anything changed.
    """
    name = next((n for n, f in OPERATIONS.items() if f is operation), "")
    integers = kind[0] in "bus" and kind != "bf16"
    if not wanted and integers and name in _COMMUTING:
        _COMMUTING[name].at(view, index, given[0].astype(view.dtype))
        return None, True
    order = np.argsort(index, kind="stable")
    places = index[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    counts = np.diff(np.r_[starts, len(places)])
    before = np.empty(len(index), view.dtype)
    changed = False
    if (
        name == "add"
        and int(counts.max()) > _LONG
        and kind in ("f32", "f64", "u32", "u64", "s32", "s64", "b32", "b64")
    ):
        real = {"f32": f32, "f64": f64}.get(kind, view.dtype.type)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            rows = order[start : start + count]
            at = places[start]
            steps = np.concatenate((view[at : at + 1].view(real), given[0][rows].view(real)))
            sums = np.add.accumulate(steps).astype(real)
            before[rows] = sums[:-1].view(view.dtype)
            view[at] = sums[-1:].view(view.dtype)[0]
        return before, True
    rank = np.arange(len(places)) - np.repeat(starts, counts)
    turns = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank)).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        rows = turns[begin:end]
        at = index[rows]
        old = view[at]
        new = operation(kind, old, [g[rows] for g in given])
        before[rows] = old
        changed = changed or bool((new != old).any())
        view[at] = new
    return before, changed
