"""How many floating-point operations a launch of a Triton kernel takes, counted in its TTIR.

TTIR says what a program computes, element by element, before layouts repeat some of it. A dot
product of m×k by k×n takes 2·m·n·k operations, every other operation on floating-point numbers
one for each element, ``math.fma`` two; masked lanes compute as well. Conversions, comparisons and
selections are not counted, and neither are integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from inspector.analyse.launches import Estimate, blocks_of
from inspector.analyse.products import dot_shape
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.model import Call

HOW = "counted in TTIR, masked lanes included"

_WEIGHTS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.negf",
         "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "tt.precise_divf",
         "tt.precise_sqrt", "tt.extern_elementwise"), 1,
    ) | {"math.fma": 2, "tt.clampf": 2}
)  # fmt: skip
_UNCOUNTED = frozenset(("math.absi", "math.ctpop", "math.ctlz", "math.cttz", "math.ipowi"))
_DOT = "tt.dot"
_SHAPED = re.compile(r"tensor<((?:\d{1,9}+x)*+)(?:f|bf)\d")
_SCALAR = re.compile(r":\s*(?:\([^)]*\)\s*->\s*)?(?:f|bf)\d+\b")
_FOR = re.compile(r"scf\.for\s+(?:unsigned\s+)?(%[\w.$-]+)\s*=\s*(%[\w.$#-]+)\s+to\s+(%[\w.$#-]+)"
                  r"\s+step\s+(%[\w.$#-]+)")  # fmt: skip
_CONSTANT = re.compile(r"arith\.constant\s+(-?\d{1,18}+(?!\d)|true|false)\b(?!\.)")
_AXIS = re.compile(r"axis = (\d{1,9}+)(?!\d)")
_TENSOR = re.compile(r"tensor<((?:\d{1,9}+x)++)")
_INTEGERS: Mapping[str, Callable[[int, int], int]] = MappingProxyType({
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: _divided(a, b),
    "arith.divui": lambda a, b: _divided(a, b),
    "arith.remsi": lambda a, b: a - b * _divided(a, b),
    "arith.remui": lambda a, b: a - b * _divided(a, b),
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.floordivsi": lambda a, b: a // b,
    "arith.minsi": min, "arith.maxsi": max, "arith.minui": min, "arith.maxui": max,
})  # fmt: skip
_DEFINED_AT_0 = tuple(
    _INTEGERS[f"arith.{name}"]
    for name in ("addi", "subi", "muli", "minsi", "maxsi", "minui", "maxui")
)
_SAME = frozenset(("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast",
                   "arith.index_castui"))  # fmt: skip


def _divided(a: int, b: int) -> int:
    """Rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@dataclass(slots=True)
class _Region:
    """``times``: how often it is run in one program; ``combined`` counts what a reduction does
    for each pair of elements, ``axis`` along which."""

    times: int | None
    combines: bool = False
    combined: int | None = 0
    axis: int | None = None


@dataclass(slots=True)
class _Count:
    known: dict[str, int] = field(default_factory=dict)
    regions: list[_Region] = field(default_factory=list)
    total: int | None = 0

    def add(self, operations: int | None) -> None:
        """Count something that the innermost region does once."""
        if operations == 0 or self.total is None:
            return
        inner = self.regions[-1] if self.regions else _Region(1)
        if inner.combines:
            both = (operations, inner.combined)
            inner.combined = None if None in both else (operations or 0) + (inner.combined or 0)
        elif operations is None or inner.times is None:
            self.total = None
        else:
            self.total += operations * inner.times


def operations(listing: Listing, function: Function, call: Call) -> Estimate | None:
    """Floating-point operations of one launch of a TTIR function, all programs together.

    None where the grid is not known, or where what is counted stands in a branch, in a called
    function or in a loop whose bounds do not follow from constants and the call's arguments.
    """
    programs = blocks_of(call)
    if programs is None or listing.language != "ttir":
        return None
    count = _Count()
    for argument in call.arguments:
        if isinstance(argument.value, int) and not isinstance(argument.value, bool):
            count.known[f"%{argument.name}"] = argument.value
    for line in listing.lines[max(function.first - 1, 0) : function.last]:
        _count(count, line)
    return None if count.total is None else Estimate(count.total * programs, HOW)


def _count(count: _Count, line: Line) -> None:
    text = line.text.strip()
    body = text[: text.rfind(" loc(")] if " loc(" in text else text
    if body.startswith("}"):
        if not body.endswith("{") and count.regions:
            _close(count, body)
        return
    if line.kind is not Kind.INSTRUCTION or line.base is None:
        return
    if line.base == "tt.call":
        count.add(None)
    elif line.base.startswith(_DOT):
        shape = dot_shape(body)
        count.add(2 * shape[0] * shape[1] * shape[2] * shape[3] if shape else None)
    else:
        count.add(_weight(line.base) * _elements(body))
    if body.endswith("{"):
        _open(count, line.base, body)
    elif len(line.defs) == 1:
        value = _integer(count.known, line, body)
        if value is not None:
            count.known[line.defs[0]] = value


def _weight(base: str) -> int:
    if base in _WEIGHTS:
        return _WEIGHTS[base]
    return 1 if base.startswith("math.") and base not in _UNCOUNTED else 0


def _elements(body: str) -> int:
    """Elements of the floating-point type that an operation ends in; 0 where it has none."""
    found = list(_SHAPED.finditer(body))
    if found:
        return _product(found[-1][1])
    return 1 if _SCALAR.search(body) else 0


def _product(dimensions: str) -> int:
    out = 1
    for dimension in dimensions.split("x"):
        out *= int(dimension) if dimension else 1
    return out


def _open(count: _Count, base: str, body: str) -> None:
    outer = count.regions[-1].times if count.regions else 1
    if base in ("tt.func", "builtin.module", "module"):
        count.regions.append(_Region(outer))
    elif base == "scf.for":
        trips = _trips(count.known, body)
        count.regions.append(_Region(None if trips is None or outer is None else trips * outer))
    elif base in ("tt.reduce", "tt.scan"):
        axis = _AXIS.search(body)
        count.regions.append(_Region(outer, True, 0, int(axis[1]) if axis else None))
    else:  # a branch, or what this does not know
        count.regions.append(_Region(None))


def _close(count: _Count, body: str) -> None:
    """The end of a region; of a reduction, where its operands' types stand."""
    region = count.regions.pop()
    if not region.combines or region.combined == 0:
        return
    shape = _TENSOR.search(body)
    dimensions = [int(d) for d in shape[1].split("x") if d] if shape else []
    if region.axis is None or region.axis >= len(dimensions) or region.combined is None:
        count.add(None)
        return
    along = dimensions[region.axis]
    pairs = _product(shape[1] if shape else "") // along * (along - 1) if along else 0
    count.add(pairs * region.combined)


def _trips(known: Mapping[str, int], body: str) -> int | None:
    found = _FOR.search(body)
    if found is None:
        return None
    first, last, step = (known.get(found[i]) for i in (2, 3, 4))
    if first is None or last is None or step is None or step <= 0:
        return None
    return max(0, -(-(last - first) // step))


def _integer(known: Mapping[str, int], line: Line, body: str) -> int | None:
    """The value of a scalar integer operation, where it can be told."""
    if "tensor<" in body:
        return None
    if line.base == "arith.constant":
        found = _CONSTANT.search(body)
        if found is None:
            return None
        return int(found[1]) if found[1] not in ("true", "false") else int(found[1] == "true")
    values = [known.get(use) for use in line.uses]
    if line.base in _SAME:
        return values[0] if len(values) == 1 else None
    make = _INTEGERS.get(line.base or "")
    if make is None or not values:
        return None
    a, b = values[0], values[-1]  # uses are told once: of x + x there is one
    if a is None or b is None or (b == 0 and make not in _DEFINED_AT_0):
        return None
    return make(a, b)
