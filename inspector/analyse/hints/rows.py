"""Narrow accesses of Triton: rows that begin where nothing is aligned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from inspector.analyse.hints.layouts import Blocked, blocked, layout_of
from inspector.analyse.hints.subject import Finding, Subject, Thresholds, numbers, plural
from inspector.analyse.hints.tensors import Tensors, operand_shape, pointed, uses
from inspector.analyse.hints.touched import arguments, parameters
from inspector.listing.line import Line
from inspector.model import Stage

RULE = "narrow-access"

WIDEST = 16
_MOVES = frozenset(("tt.load", "tt.store"))
_ARGUMENT = re.compile(r"%([\w$.\-]+): (!tt\.\w+<[^{,)]*>|[\w.]+)")
_PROGRAM = (5, 3, 2)


def narrow_rows(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Elements side by side that a thread moves one by one, as their place is not aligned."""
    listing = subject.listings.get(Stage.TTGIR)
    moves = [line for line in subject.ttgir if line.base in _MOVES]
    if listing is None or not moves:
        return
    layouts = blocked(listing.lines)
    tensors = Tensors(subject.lines(Stage.TTGIR), scalars(subject), _PROGRAM)
    found: list[Line] = []
    held = size = 0
    for line in moves:
        layout = layouts.get(layout_of(line) or "")
        seen = _narrow(line, layout, tensors) if layout is not None else None
        if seen is not None:
            found.append(line)
            held, size = max((held, size), seen)
    if not found:
        return
    together = WIDEST // size
    yield Finding(
        RULE,
        "hint",
        f"{plural(len(found), 'access')} of {held} elements a thread, {size} bytes at a time, "
        f"though {together} lie side by side: each row but the first begins at an address that is "
        f"not known to be a multiple of {WIDEST}, so that no two may be moved at once. Give rows a "
        "stride that is a multiple of 16 elements (pad them when they are allocated): Triton "
        "compiles another variant for that.",
        {Stage.TTGIR: numbers(found)},
    )


def scalars(subject: Subject) -> dict[str, int]:
    """The integer arguments by their names in TTGIR: the launch's, else awkward ones."""
    given = arguments(subject)
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    if function is None:
        return {}
    out: dict[str, int] = {}
    for at, found in enumerate(_ARGUMENT.finditer(function.text)):
        if not found[2].startswith("!"):
            out[found[1]] = given.value(at, pointer=False)
    return out


def named(subject: Subject, values: dict[str, int]) -> dict[str, int]:
    """Values by a kernel's own names as values by the names in its TTGIR."""
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    names = [] if function is None else [f[1] for f in _ARGUMENT.finditer(function.text)]
    own = parameters(subject)
    if len(own) != len(names):
        return values
    return {inner: values[name] for inner, name in zip(names, own, strict=True) if name in values}


def _narrow(line: Line, layout: Blocked, tensors: Tensors) -> tuple[int, int] | None:
    """Elements that a thread holds and bytes of each, where several could be moved at once."""
    shape, size, used = operand_shape(line), pointed(line.text), uses(line)
    if shape is None or size is None or not used or len(shape) != len(layout.order):
        return None
    axis = layout.fastest
    held = layout.held(shape)
    together = min(WIDEST // size, held)
    if layout.size[axis] >= together or together < 2 or shape[axis] % together:
        return None
    places: list[int] = []
    for step in range(together):
        at = tuple(step if i == axis else 0 for i in range(len(shape)))
        place = tensors.value(used[0], at)
        if place is None:
            return None
        places.append(place)
    beside = all(b - a == size for a, b in pairwise(places))
    return (held, size) if beside and places[0] % (together * size) else None
