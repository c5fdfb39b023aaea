"""Elements of Triton's tensors and scalars, computed from the program id and the arguments.

``Tensors.elements("%mask", ((3,),))`` has element 3 of a tensor of offsets, pointers or conditions:
an integer (an address in bytes for pointers), or None if it depends on data or an unknown argument.
Loops are in their first iteration.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile

from msgspec import Struct

from inspector.base.names import words
from inspector.parsers.line import Line

# Which elements of a tensor a thread holds.

_ALIAS = re.compile(r"(#[\w$]+) = #ttg\.blocked<\{(.*)\}>")
_LIST = re.compile(r"(?<!\w)(\w++) = \[([\d, ]*+)\]")
_USED = re.compile(r"tensor<(?:\d++x)++[^,<>]*+(?:<[^<>]*+>)?+, (#[\w$]++)>")


class Blocked(Struct, frozen=True):
    """``#ttg.blocked``: per axis, elements a thread, threads a warp, warps; axes, fastest first."""

    size: tuple[int, ...]
    threads: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def fastest(self) -> int:
        """The axis along which neighbouring elements are given out first."""
        return self.order[0]

    def elements_a_thread(self, shape: tuple[int, ...]) -> int:
        """Elements that one thread holds along the fastest axis of a tensor."""
        axis = self.fastest
        once = self.size[axis] * self.threads[axis] * self.warps[axis]
        return self.size[axis] * max(-(-shape[axis] // once), 1)


def blocked(lines: Iterable[Line]) -> dict[str, Blocked]:
    """The blocked layouts of a listing by their names (``#blocked1``); they precede the module."""
    layouts: dict[str, Blocked] = {}
    for line in takewhile(lambda line: not line.text.startswith("module"), lines):
        match = _ALIAS.match(line.text)
        layout = None if match is None else _blocked(match[2])
        if match is not None and layout is not None:
            layouts[match[1]] = layout
    return layouts


def _blocked(text: str) -> Blocked | None:
    """A layout by its parts (``sizePerThread = [1, 4], …``), None unless it is complete."""
    parts: dict[str, tuple[int, ...]] = {}
    for name, numbers in _LIST.findall(text):
        parts[name] = tuple(int(n) for n in re.findall(r"\d{1,9}+", numbers))
    size = parts.get("sizePerThread", ())
    threads = parts.get("threadsPerWarp", ())
    warps = parts.get("warpsPerCTA", ())
    order = parts.get("order", ())
    same_rank = 0 < len(order) == len(size) == len(threads) == len(warps)
    if not same_rank or max(order) >= len(order) or 0 in (*size, *threads, *warps):
        return None
    return Blocked(size, threads, warps, order)


def layout_of(line: Line) -> str | None:
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
MAX_DEPTH = 300

COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
"""Comparisons of integers by PTX's names."""


def quotient(a: int, b: int) -> int:
    """Division towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


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
    "arith.divsi": quotient,
    "arith.divui": operator.floordiv,
    "arith.remsi": lambda a, b: a - quotient(a, b) * b,
    "arith.remui": operator.mod,
    "arith.floordivsi": operator.floordiv,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b),
}
_SAME = words(
    "tt.bitcast ttg.convert_layout arith.extsi arith.extui arith.trunci arith.index_cast "
    "arith.index_castui tt.int_to_ptr tt.ptr_to_int"
)
_TRUTH = {"false": "0", "true": "1"}
_PREDICATES = {"ult": "lo", "ule": "ls", "ugt": "hi", "uge": "hs"}


class Tensors:
    """The values of one TTGIR or TTIR function for one program and one set of arguments.

    ``turns``: values that a loop changes are those of its first iteration, else unknown; a
    program of None is unknown too.
    """

    def __init__(
        self,
        lines: Iterable[Line],
        arguments: Mapping[str, int],
        program: tuple[int, int, int] | None = (0, 0, 0),
        *,
        turns: bool = True,
    ) -> None:
        self._defined: dict[str, Line] = {}
        self._first: dict[str, str] = {}
        self._given: dict[str, int] = {}
        self._program = program
        self._memo: dict[tuple[str, tuple[At, ...]], Elements] = {}
        self._depth = 0
        self.programs = False
        """Whether anything that was asked for depends on the program id."""
        for line in lines:
            if line.base == "tt.func":
                self._parameters(line.text, arguments)
            elif line.base == "scf.for":
                if turns:
                    self._loop(line.text)
            elif line.opcode is not None and len(line.defs) == 1:
                self._defined.setdefault(line.defs[0], line)

    def restart(self, program: tuple[int, int, int]) -> None:
        self._program = program
        self._memo.clear()
        self.programs = False

    def _parameters(self, text: str, arguments: Mapping[str, int]) -> None:
        for number, (name, kind) in enumerate(_ARGUMENT.findall(text), 1):
            if kind.startswith("!tt.ptr"):
                self._given[name] = number << 40
            elif name[1:] in arguments:
                self._given[name] = arguments[name[1:]]

    def _loop(self, text: str) -> None:
        head, _, carried = text.partition("iter_args(")
        induction = re.search(r"scf\.for (?:unsigned )?(%[\w$.\-]+) = (%[\w$.\-]+) to", head)
        if induction is not None:
            self._first[induction[1]] = induction[2]
        self._first.update(_CARRIED.findall(carried.partition(")")[0]))

    def elements(self, name: str, places: tuple[At, ...] = ((),)) -> Elements:
        """The elements of a value at some places; a scalar has one place, ``()``."""
        if name in self._given:
            return [self._given[name]] * len(places)
        if name in self._first:
            return self.elements(self._first[name], places)
        line = self._defined.get(name)
        shape = None if line is None else shape_of(line)
        if line is None or self._depth > MAX_DEPTH or (shape and len(shape) != len(places[0])):
            return [None] * len(places)
        if (name, places) not in self._memo:
            self._depth += 1
            self._memo[name, places] = self._compute(line, places)
            self._depth -= 1
        return self._memo[name, places]

    def _compute(self, line: Line, places: tuple[At, ...]) -> Elements:
        base = line.base or ""
        operands = uses(line)
        if base in _OPERATIONS:
            return _OPERATIONS[base](self, line, operands, places)
        function = _function(base, line.text) if len(operands) == 2 else None
        if function is None:
            return [None] * len(places)
        a_elements = self.elements(operands[0], places)
        b_elements = self.elements(operands[1], places)
        pairs = zip(a_elements, b_elements, strict=True)
        return [_paired(function, base, a, b) for a, b in pairs]

    def _constant(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        match = _CONSTANT.search(line.text)
        value = None if match is None else int(_TRUTH.get(match[1], match[1]))
        return [value] * len(places)

    def _program_id(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        self.programs = True
        axis = _PROGRAM.search(line.text)
        value = None
        if axis is not None and self._program is not None:
            value = self._program["xyz".index(axis[1])]
        return [value] * len(places)

    def _range(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        start = _RANGE.search(line.text)
        if start is None or not places[0]:
            return [None] * len(places)
        return [int(start[1]) + place[0] for place in places]

    def _splat(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        value = self.elements(operands[0])[0] if operands else None
        return [value] * len(places)

    def _expand_dims(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        match = _AXIS.search(line.text)
        if match is None or not operands:
            return [None] * len(places)
        axis = int(match[1])
        return self._moved(operands[0], [place[:axis] + place[axis + 1 :] for place in places])

    def _broadcast(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        source = self._defined.get(operands[0]) if operands else None
        shape = None if source is None else shape_of(source)
        if shape is None:
            return [None] * len(places)
        return self._moved(operands[0], [_within(place, shape) for place in places])

    def _unchanged(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        return self.elements(operands[0], places) if operands else [None] * len(places)

    def _select(self, line: Line, operands: list[str], places: tuple[At, ...]) -> Elements:
        if len(operands) != 3:
            return [None] * len(places)
        conditions = self.elements(operands[0], places)
        if_true = self.elements(operands[1], places)
        if_false = self.elements(operands[2], places)
        elements: Elements = []
        for condition, a, b in zip(conditions, if_true, if_false, strict=True):
            if condition is None:
                elements.append(None)
            else:
                elements.append(a if condition else b)
        return elements

    def _moved(self, name: str, places: list[At]) -> Elements:
        """The elements at places that repeat, each computed once."""
        unique = tuple(dict.fromkeys(places))
        elements = dict(zip(unique, self.elements(name, unique), strict=True))
        return [elements[place] for place in places]


Operation = Callable[[Tensors, Line, list[str], tuple[At, ...]], Elements]

_OPERATIONS: Mapping[str, Operation] = {
    "arith.constant": Tensors._constant,
    "arith.select": Tensors._select,
    "tt.broadcast": Tensors._broadcast,
    "tt.expand_dims": Tensors._expand_dims,
    "tt.get_program_id": Tensors._program_id,
    "tt.make_range": Tensors._range,
    "tt.splat": Tensors._splat,
    **dict.fromkeys(_SAME, Tensors._unchanged),
}


def _within(place: At, shape: tuple[int, ...]) -> At:
    """The place before a broadcast: axes of size 1 have one element."""
    return tuple(0 if size == 1 else n for n, size in zip(place, shape, strict=False))


def _function(base: str, text: str) -> Callable[[int, int], int] | None:
    """What an operation of two operands computes; None if it is no such operation."""
    if base == "tt.addptr":
        size = pointed(text)
        return None if size is None else lambda place, offset: place + offset * size
    if base == "arith.cmpi":
        match = _COMPARED.search(text)
        if match is None:
            return None
        predicate = match[1]
        return COMPARE.get(_PREDICATES.get(predicate, predicate.removeprefix("s")))
    return _BINARY.get(base)


def _paired(
    function: Callable[[int, int], int], base: str, a: int | None, b: int | None
) -> int | None:
    if base == "arith.andi" and 0 in (a, b):
        return 0
    divided = b == 0 and ("div" in base or "rem" in base)
    return None if a is None or b is None or divided else int(function(a, b))


def uses(line: Line) -> list[str]:
    body = line.text.partition(" loc(")[0].partition("=")[2] or line.text
    return re.findall(r"%[\w$.\-]+(?:#\d+)?", body.partition(" : ")[0])


def shape_of(line: Line) -> tuple[int, ...] | None:
    types = line.text.partition(" loc(")[0].rpartition(" : ")[2]
    match = _SHAPE.match(types.rpartition(" -> ")[2].strip())
    return tuple(int(n) for n in match[1].split("x")[:-1]) if match else None


def operand_shape(line: Line) -> tuple[int, ...] | None:
    match = _SHAPE.search(line.text.partition(" loc(")[0].rpartition(" : ")[2])
    return tuple(int(n) for n in match[1].split("x")[:-1]) if match else None


def pointed(text: str) -> int | None:
    """Bytes of what the first pointer type in ``text`` points to."""
    match = _POINTED.search(text)
    return int(match[1]) // 8 or None if match else None
