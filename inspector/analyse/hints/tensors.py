"""Single elements of TTGIR's tensors, computed from the program id and the arguments.

``Tensors.value("%mask", (3,))`` is element 3 of a tensor of offsets, pointers or conditions: an
integer (an address in bytes for pointers), or None if it depends on data or on what is not
known. ``elements`` has all of them at once, for a fraction of the time. Loops are in their first
turn.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat

from inspector.analyse.hints.warp import COMPARE
from inspector.listing.line import Line
from inspector.text import words

# -- layouts of TTGIR -----------------------------------------------------------------------------
# Which elements of a tensor a thread holds.

_ALIAS = re.compile(r"(#[\w$]+) = #ttg\.blocked<\{(.*)\}>")
_LIST = re.compile(r"(?<!\w)(\w++) = \[([\d, ]*+)\]")
_USED = re.compile(r"tensor<(?:\d++x)++[^,<>]*+(?:<[^<>]*+>)?+, (#[\w$]++)>")


@dataclass(frozen=True, slots=True)
class Blocked:
    """``#ttg.blocked``: per axis, elements a thread, threads a warp, warps; axes, fastest first."""

    size: tuple[int, ...]
    threads: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def fastest(self) -> int:
        """The axis along which neighbouring elements are given out first."""
        return self.order[0]

    def held(self, shape: tuple[int, ...]) -> int:
        """Elements that one thread holds along the fastest axis of a tensor."""
        axis = self.fastest
        once = self.size[axis] * self.threads[axis] * self.warps[axis]
        return self.size[axis] * max(-(-shape[axis] // once), 1)


def blocked(lines: Iterable[Line]) -> dict[str, Blocked]:
    """The blocked layouts of a listing by their names (``#blocked1``)."""
    out: dict[str, Blocked] = {}
    for line in lines:
        match = _ALIAS.match(line.text)
        if match is None:
            continue
        parts = {name: tuple(int(n) for n in re.findall(r"\d{1,9}+", inner))
                 for name, inner in _LIST.findall(match[2])}  # fmt: skip
        size, threads = parts.get("sizePerThread", ()), parts.get("threadsPerWarp", ())
        warps, order = parts.get("warpsPerCTA", ()), parts.get("order", ())
        axes = len(order)
        if not all((*size, *threads, *warps)):
            continue  # nobody holds nothing
        if axes and len(size) == len(threads) == len(warps) == axes and max(order) < axes:
            out[match[1]] = Blocked(size, threads, warps, order)
    return out


def layout_of(line: Line) -> str | None:
    """The name of the layout of the first tensor among an operation's types."""
    match = _USED.search(line.text.partition(" loc(")[0])
    return match[1] if match else None


At = tuple[int, ...]
Elements = list[int | None]

_RANGE = re.compile(r"start = (-?\d{1,18}+)(?!\d)")
_AXIS = re.compile(r"\{axis = (\d{1,9}+)(?!\d)")
_PROGRAM = re.compile(r"tt\.get_program_id ([xyz])")
_CONSTANT = re.compile(r"arith\.constant (?:dense<)?(-?\d{1,18}+(?!\d)|true|false)\b(?!\.)")
_COMPARED = re.compile(r"arith\.cmpi (\w+),")
_ARGUMENT = re.compile(r"(%[\w$.\-]+): (!?[\w.]+(?:<[^{]*?>)?)")
_POINTED = re.compile(r"!tt\.ptr<(?:i|f|bf|f8E\w*?)(\d{1,9}+)(?!\d)")
_SHAPE = re.compile(r"tensor<((?:\d{1,9}+x)++)")
_CARRIED = re.compile(r"(%[\w$.\-]+) = (%[\w$.\-]+)")
_DEEPEST = 300

_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.maxsi": max,
    "arith.maxui": max,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.shli": lambda a, b: a << min(b & 63, 63),
    "arith.shrsi": lambda a, b: a >> min(b & 63, 63),
    "arith.shrui": lambda a, b: a >> min(b & 63, 63),
    "arith.divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "arith.divui": operator.floordiv,
    "arith.remsi": lambda a, b: a - abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) * b,
    "arith.remui": operator.mod,
    "arith.ceildivsi": lambda a, b: -(-a // b),
}
_SAME = words(
    "tt.bitcast ttg.convert_layout arith.extsi arith.extui arith.trunci arith.index_cast "
    "arith.index_castui tt.int_to_ptr tt.ptr_to_int"
)
_PREDICATES = {"ult": "lo", "ule": "ls", "ugt": "hi", "uge": "hs"}


class Tensors:
    """The values of one TTGIR function for one program and one set of arguments."""

    def __init__(
        self,
        lines: Iterable[Line],
        arguments: Mapping[str, int],
        program: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        self._defined: dict[str, Line] = {}
        self._first: dict[str, str] = {}
        self._given: dict[str, int] = {}
        self._program = program
        self._memo: dict[tuple[str, At], int | None] = {}
        self._all: dict[str, Elements] = {}
        self._depth = 0
        self.programs = False
        """Whether anything that was asked for depends on the program id."""
        for line in lines:
            if line.base == "tt.func":
                self._parameters(line.text, arguments)
            elif line.base == "scf.for":
                self._loop(line.text)
            elif line.opcode is not None and len(line.defs) == 1:
                self._defined.setdefault(line.defs[0], line)

    def restart(self, program: tuple[int, int, int]) -> None:
        """Go on with another program."""
        self._program = program
        self._memo.clear()
        self._all.clear()
        self.programs = False

    def _parameters(self, text: str, arguments: Mapping[str, int]) -> None:
        pointers = 0
        for name, kind in _ARGUMENT.findall(text):
            if kind.startswith("!tt.ptr"):
                pointers += 1
                self._given[name] = pointers << 40
            elif name[1:] in arguments:
                self._given[name] = arguments[name[1:]]

    def _loop(self, text: str) -> None:
        head, _, carried = text.partition("iter_args(")
        induction = re.search(r"scf\.for (?:unsigned )?(%[\w$.\-]+) = (%[\w$.\-]+) to", head)
        if induction is not None:
            self._first[induction[1]] = induction[2]
        self._first.update(_CARRIED.findall(carried.partition(")")[0]))

    def value(self, name: str, at: At = ()) -> int | None:
        """The element of a value at a place; ``()`` is a scalar's."""
        if name in self._given:
            return self._given[name]
        if name in self._first:
            return self.value(self._first[name], at)
        line = self._defined.get(name)
        if line is None or self._depth > _DEEPEST:
            return None
        shape = shape_of(line)
        if shape is not None and len(shape) != len(at):
            return None
        key = (name, at)
        if key in self._memo:
            return self._memo[key]
        self._depth += 1
        try:
            out = self._compute(line, at)
        except (ZeroDivisionError, IndexError):
            out = None
        self._depth -= 1
        self._memo[key] = out
        return out

    def _compute(self, line: Line, at: At) -> int | None:
        base, text = line.base or "", line.text
        used = uses(line)
        if base == "arith.constant":
            match = _CONSTANT.search(text)
            return None if match is None else _number(match[1])
        if base == "tt.get_program_id":
            self.programs = True
            which = _PROGRAM.search(text)
            return None if which is None else self._program["xyz".index(which[1])]
        if base == "tt.make_range":
            match = _RANGE.search(text)
            return None if match is None else int(match[1]) + at[0]
        if base == "tt.splat" and used:
            return self.value(used[0])
        if base == "tt.expand_dims" and used:
            match = _AXIS.search(text)
            return None if match is None else self.value(used[0], _without(at, int(match[1])))
        if base == "tt.broadcast" and used:
            source = self._defined.get(used[0])
            shape = shape_of(source) if source is not None else None
            return None if shape is None else self.value(used[0], _within(at, shape))
        if base in _SAME and used:
            return self.value(used[0], at)
        if base == "arith.select" and len(used) == 3:
            condition = self.value(used[0], at)
            return None if condition is None else self.value(used[2 - bool(condition)], at)
        if base == "tt.addptr" and len(used) == 2:
            size = pointed(text)
            place, offset = self.value(used[0], at), self.value(used[1], at)
            return None if None in (size, place, offset) else place + offset * size  # type: ignore[operator]
        return self._combine(base, text, [self.value(name, at) for name in used])

    def _combine(self, base: str, text: str, values: list[int | None]) -> int | None:
        if len(values) != 2:
            return None
        a, b = values
        if base == "arith.andi" and 0 in values:
            return 0
        if a is None or b is None:
            return None
        if base == "arith.cmpi":
            match = _COMPARED.search(text)
            compare = COMPARE.get(_PREDICATES.get(match[1], _signed(match[1]))) if match else None
            return None if compare is None else int(compare(a, b))
        function = _BINARY.get(base)
        return None if function is None else function(a, b)

    # -- all elements of a value --------------------------------------------------------------

    def elements(self, name: str) -> Elements:
        """Every element of a value, the last axis fastest; only one where all are the same."""
        if name in self._given:
            return [self._given[name]]
        if name in self._first:
            return self.elements(self._first[name])
        known = self._all.get(name)
        if known is not None:
            return known
        line = self._defined.get(name)
        if line is None or self._depth > _DEEPEST:
            return [None]
        self._depth += 1
        out = self._every(line, name)
        self._depth -= 1
        self._all[name] = out
        return out

    def _every(self, line: Line, name: str) -> Elements:
        base, used, shape = line.base or "", uses(line), shape_of(line)
        if shape is None:
            return [self.value(name)]
        if base in ("arith.constant", "tt.splat"):
            return [self.value(name, (0,) * len(shape))]
        if base == "tt.make_range":
            first = self.value(name, (0,))
            return [None] if first is None else list(range(first, first + shape[0]))
        if not used:
            return [None]
        if base in _SAME or base == "tt.expand_dims":
            return self.elements(used[0])
        if base == "tt.broadcast":
            source = self._defined.get(used[0])
            return _spread(self.elements(used[0]), source and shape_of(source), shape)
        columns = [self.elements(name) for name in used]
        many = max(map(len, columns))
        if any(len(column) not in (1, many) for column in columns):
            return [None]
        rows = zip(*(c if len(c) == many else repeat(c[0], many) for c in columns), strict=True)
        if base == "arith.select" and len(used) == 3:
            return [None if a is None else b if a else c for a, b, c in rows]
        if len(used) != 2:
            return [None]
        size = pointed(line.text)
        if base == "tt.addptr":
            return [None if size is None or a is None or b is None else a + b * size
                    for a, b in rows]  # fmt: skip
        return self._pairs(base, line.text, [(a, b) for a, b in rows])

    def _pairs(self, base: str, text: str, rows: list[tuple[int | None, int | None]]) -> Elements:
        function: Callable[[int, int], int] | None = _BINARY.get(base)
        if base == "arith.cmpi":
            match = _COMPARED.search(text)
            function = COMPARE.get(_PREDICATES.get(match[1], _signed(match[1]))) if match else None
        if base == "arith.andi":
            return [0 if a == 0 or b == 0 else None if a is None or b is None else a & b
                    for a, b in rows]  # fmt: skip
        if function is None:
            return [None]
        try:
            return [None if a is None or b is None else int(function(a, b)) for a, b in rows]
        except ZeroDivisionError:
            return [None]


def _spread(values: Elements, source: tuple[int, ...] | None, shape: tuple[int, ...]) -> Elements:
    """The elements of a tensor broadcast from ``source`` to ``shape``."""
    if len(values) == 1 or source is None or len(source) != len(shape):
        return values if len(values) == 1 else [None]
    places = [0]
    for size, extent in zip(source, shape, strict=True):
        places = [p * size + (0 if size == 1 else i) for p in places for i in range(extent)]
    return [values[p] for p in places] if places[-1] < len(values) else [None]


def uses(line: Line) -> list[str]:
    """The operands of an operation in order, repeated where they are repeated."""
    body = line.text.partition(" loc(")[0].partition("=")[2] or line.text
    return re.findall(r"%[\w$.\-]+(?:#\d+)?", body.partition(" : ")[0])


def shape_of(line: Line) -> tuple[int, ...] | None:
    """The shape of an operation's result, None if it is no tensor."""
    types = line.text.partition(" loc(")[0].rpartition(" : ")[2]
    if " -> " in types:
        types = types.rpartition(" -> ")[2]
    match = _SHAPE.match(types.strip())
    return tuple(int(n) for n in match[1].split("x")[:-1]) if match else None


def operand_shape(line: Line) -> tuple[int, ...] | None:
    """The shape of the first tensor among an operation's types."""
    match = _SHAPE.search(line.text.partition(" loc(")[0].rpartition(" : ")[2])
    return tuple(int(n) for n in match[1].split("x")[:-1]) if match else None


def pointed(text: str) -> int | None:
    """Bytes of what the first pointer type in ``text`` points to."""
    match = _POINTED.search(text)
    return int(match[1]) // 8 or None if match else None


def _number(text: str) -> int:
    return int(text == "true") if text in ("true", "false") else int(text)


def _signed(predicate: str) -> str:
    return predicate[1:] if predicate[:1] == "s" else predicate


def _without(at: At, axis: int) -> At:
    return at[:axis] + at[axis + 1 :]


def _within(at: At, shape: tuple[int, ...]) -> At:
    return tuple(0 if size == 1 else place for place, size in zip(at, shape, strict=False))
