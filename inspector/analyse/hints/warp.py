"""Which addresses the 32 lanes of a warp touch, computed by running a kernel's integer PTX.

One pass over the instructions in the order they are written, each on 32 values at once: that is
the first turn of every loop, of the first warp of one block. Integer arithmetic is carried out;
what depends on data that was read is not known, and neither is what comes out of an ``if``.
Arguments that no launch gives are replaced by values chosen to be awkward.
``execute`` cannot be asked: it needs a launch with all its arguments and memory.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import prod

from msgspec import Struct

from inspector.analyse.hints.subject import WARP, HintSubject
from inspector.analyse.sentences.context import Parameter, context_of
from inspector.analyse.tensors import COMPARE, quotient
from inspector.base.model import Call, Stage
from inspector.listing.ptx_code import PtxFunction
from inspector.listing.ptx_statement import (
    SINK,
    AddressOperand,
    ImmediateOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
    number,
)

# -- integer instructions ---------------------------------------------------------------------

Lanes = tuple[int, ...]
"""A value of each lane."""


def _logic3(a: int, b: int, c: int, table: int) -> int:
    out = 0
    for at in range(8):
        if table >> at & 1:
            out |= (a if at & 4 else ~a) & (b if at & 2 else ~b) & (c if at & 1 else ~c)
    return out


def _inserted(a: int, b: int, start: int, count: int) -> int:
    mask = (1 << min(count, 64)) - 1 << min(start, 64)
    return (b & ~mask) | (a << min(start, 64) & mask)


def _permuted(a: int, b: int, choice: int) -> int:
    pool = (b & 0xFFFFFFFF) << 32 | a & 0xFFFFFFFF
    return sum((pool >> 8 * (choice >> 4 * k & 7) & 0xFF) << 8 * k for k in range(4))


OPERATIONS: dict[str, Callable[..., int]] = {
    "cvta": lambda a: a,
    "cvt": lambda a: a,
    "not": operator.invert,
    "neg": operator.neg,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mul24": operator.mul,
    "mad": lambda a, b, c: a * b + c,
    "mad24": lambda a, b, c: a * b + c,
    "div": lambda a, b: quotient(a, b) if b else -1,
    "rem": lambda a, b: a - quotient(a, b) * b if b else a,
    "min": min,
    "max": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a << min(b & 0xFFFFFFFF, 64),
    "shr": lambda a, b: a >> min(b & 0xFFFFFFFF, 64),
    "bfe": lambda a, b, c: a >> min(b, 64) & (1 << min(c, 64)) - 1,
    "bfi": _inserted,
    "lop3": _logic3,
    "prmt": _permuted,
    "selp": lambda a, b, p: a if p else b,
    "pack": lambda a, b: a & 0xFFFFFFFF | b << 32,
}
_BY_SIGN = ("div", "rem", "min", "max", "shr", "setp", "mul", "mad", "cvt", "bfe")
"""Instructions whose result depends on how their operands' type reads them."""
_UNKNOWN = re.compile(r"(?:mul|mad)\.hi\b|.*\.(?:b?f|tf)\d")
_WIDTH = re.compile(r"\.(?:[bsuf]f?|pred)(8|16|32|64|128)?(?:x2)?\Z")
_LAST_TYPE = re.compile(r"\.([su])(8|16|32|64)\Z")
_FIRST_TYPE = re.compile(r"\.([suf])(8|16|32|64)\.")


def compute(opcode: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result of an integer instruction, wrapped to its type; None if it is not known."""
    base, *parts = opcode.split(".")
    function: Callable[..., int] | None = OPERATIONS.get(base)
    if base == "setp":
        function = COMPARE[parts[0]]
    if None in values and base == "and" and (0,) * WARP in values:
        return (0,) * WARP
    if function is None or _UNKNOWN.match(opcode) or None in values:
        return None
    kind = _LAST_TYPE.search(opcode)
    read = _wrapped(kind if base in _BY_SIGN else None)
    if base == "cvt":
        kind = _FIRST_TYPE.search(opcode)
    wrap = _wrapped(None if base in ("setp", "cvta") else kind, wide="wide" in parts)
    if parts[-1:] == ["pred"] and base != "setp":
        wrap = (1).__and__
    try:
        columns = [map(read, value) for value in values if value is not None]
        return tuple(map(wrap, map(function, *columns)))
    except (TypeError, ValueError, OverflowError):
        return None  # not as many operands as the instruction has


def _wrapped(kind: re.Match[str] | None, wide: bool = False) -> Callable[[int], int]:
    if kind is None:
        return int
    whole = 1 << int(kind[2]) * (2 if wide else 1)
    half = whole // 2 if kind[1] == "s" else 0
    return lambda value: (value + half) % whole - half


# -- what the launch leaves open --------------------------------------------------------------

SHAPES = ((32, 32, 1), (16, 16, 1), (8, 8, 8), (64, 4, 1))
"""Blocks that a kernel of two or three dimensions may be launched with."""

LARGE_ODD = 1000003
"""An argument that nothing is known of."""


def parameters(subject: HintSubject, call: Call | None) -> tuple[Parameter, ...]:
    """The kernel's parameters, with their values in a launch and what Triton knew of them."""
    listing, function = subject.listings.get(Stage.PTX), subject.functions.get(Stage.PTX)
    return context_of(subject.kernel, subject.variant, listing, function, call).parameters


def _scalar(parameter: Parameter | None, unknown: int = LARGE_ODD) -> int:
    """What a parameter that is no pointer holds: ``unknown`` where no launch gives a value, or the
    multiple of it that Triton knew it to be."""
    if parameter is None:
        return unknown
    if isinstance(parameter.value, int):
        return int(parameter.value)
    return unknown * (parameter.multiple or 1)


_ARGUMENT = re.compile(r"%([\w$.\-]+): (!tt\.\w+<[^{,)]*>|[\w.]+)")


def _ttgir_arguments(subject: HintSubject) -> list[tuple[str, str]]:
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    return [] if function is None else _ARGUMENT.findall(function.text)


def scalars(subject: HintSubject) -> dict[str, int]:
    """The integer arguments by their names in TTGIR: the launch's, else awkward ones."""
    known = dict(enumerate(parameters(subject, subject.launch)))
    named = enumerate(_ttgir_arguments(subject))
    return {name: _scalar(known.get(at)) for at, (name, kind) in named if kind[0] != "!"}


def ttgir_values(subject: HintSubject, call: Call) -> Mapping[str, int]:
    own = zip(_ttgir_arguments(subject), parameters(subject, call), strict=False)
    return {name: int(p.value) for (name, _), p in own if isinstance(p.value, int)}


# -- a warp -----------------------------------------------------------------------------------

_SCALED = frozenset(("mul", "mad", "shl", "div", "rem", "setp", "min", "max"))
_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.([xyz])\Z")
_BLOCK_ID = (5, 3, 2)
_GRID = (4099, 67, 5)


class WarpAccess(Struct, frozen=True):
    """One load or store by a warp at more than one place; ``addresses`` are those of the lanes that
    take part.

    ``width`` is the bytes a lane moves, ``space`` is global or shared; ``block`` counts the
    stretches between labels and barriers, ``base`` is what the address is made of beside its
    offset.
    """

    line: int
    space: str
    store: bool
    width: int
    addresses: tuple[int, ...]
    block: int = 0
    base: Operand = SINK


Run = dict[int, WarpAccess]
"""Accesses by their line of PTX."""


def runs(subject: HintSubject, scalar: int = LARGE_ODD) -> tuple[Run, ...]:
    """The accesses of the first warp; once for each shape that the block may have. ``scalar``
    replaces the arguments that are not known."""
    code = subject.ptx_code
    if code is None:
        return ()
    made = subject.memo.get(("touched", scalar))
    if not isinstance(made, tuple):
        shapes: tuple[tuple[int, int, int], ...] = ((256, 1, 1),)
        if subject.block is not None:
            shapes = (subject.block,)
        elif any(
            isinstance(operand, SpecialOperand) and operand.name in ("%tid.y", "%tid.z")
            for row in code.instructions
            for operand in row.operands
        ):
            shapes = SHAPES
        given = parameters(subject, subject.launch)
        made = tuple(
            {a.line: a for a in Warp(code, shape, given, scalar).accesses} for shape in shapes
        )
        subject.memo["touched", scalar] = made
    return made


class Warp:
    """A kernel's accesses by the first warp of a block of the given shape.

    ``unknown`` is what arguments hold that are not known. Pointers are far apart and aligned, as
    allocators return them.
    """

    def __init__(
        self,
        code: PtxFunction,
        block: tuple[int, int, int],
        known: Sequence[Parameter] = (),
        unknown: int = LARGE_ODD,
    ) -> None:
        self._block = block
        self._scalar_values = {p.symbol: _scalar(p, unknown) for p in known}
        self._unknown = unknown
        self._parameters = {p.name: n for n, p in enumerate(code.parameters)}
        loaded = {r.operands[0] for r in code.instructions if r.base == "ld" and "param" in r.parts}
        scaled = {o for r in code.instructions if r.base in _SCALED for o in r.operands[1:]}
        self._scalars = loaded & scaled
        """Parameters that are multiplied or compared: they are no pointers."""
        self._values: dict[int, Lanes] = {}
        self._symbols: dict[str, int] = {}
        self._stretch = 0
        self.accesses: list[WarpAccess] = []
        writes = [row.registers()[0] for row in code.instructions]
        written = Counter([r for own in writes for r in own])
        labels = set(code.labels.values())
        met: set[int] = set()
        again: set[int] = set()
        for at, row in enumerate(code.instructions):
            if at in labels:  # what was defined a second time may be either
                self._stretch += 1
                for register in again:
                    self._values.pop(register, None)
                again.clear()
            self._run(row, writes[at])
            for register in writes[at]:
                if written[register] > 1:
                    (again if register in met else met).add(register)

    def _run(self, row: PtxInstruction, written: Sequence[int]) -> None:
        if row.base in ("bar", "barrier"):
            self._stretch += 1
        mask: Lanes | None = (1,) * WARP
        if row.guard is not None:
            mask = self._value(row.guard)
        if row.base in ("ld", "st", "ldu") and mask is not None:
            self._access(row, mask)
        results = [*self._results(row), *[None] * len(written)]
        for register, result in zip(written, results, strict=False):
            old = self._values.pop(register, None)
            if mask is not None and all(mask):
                old = result
            elif mask is None or (any(mask) and None in (result, old)):
                old = None
            elif result is not None and old is not None:
                old = tuple(x if on else y for on, x, y in zip(mask, result, old, strict=True))
            if old is not None:
                self._values[register] = old

    def _results(self, row: PtxInstruction) -> list[Lanes | None]:
        operands, parts = row.operands, row.parts
        if row.base == "ld":
            return [self._parameter(row)]
        if len(operands) < 2:
            return []
        if row.base == "mov":
            return self._moved(operands[0], operands[1])
        values = [self._value(each) for each in operands[1:]]
        if row.base == "shfl" and "idx" in parts and len(values) > 1:
            source, lane = values[0], values[1]
            if source is None or lane is None or len(set(lane)) > 1:
                return []
            return [(source[lane[0] % WARP],) * WARP]
        if row.base != "setp":
            return [compute(row.opcode, values)]
        kinds = len(parts) > 2 and parts[1] in COMPARE and parts[-1][:1] not in ("", "f")
        if len(values) < 2 or not kinds:
            return []
        out = compute(f"setp.{parts[1]}.{parts[-1]}", values[:2])
        if len(values) == 3 and parts[2] in ("and", "or", "xor"):
            out = compute(f"{parts[2]}.pred", [out, values[2]])
        return [out, _not(out)] if isinstance(operands[0], PairOperand) else [out]

    def _moved(self, target: Operand, source: Operand) -> list[Lanes | None]:
        if isinstance(source, VectorOperand):
            halves = [self._value(each) for each in source.elements]
            return [compute("pack.b64", halves)] if len(halves) == 2 else []
        value = self._value(source)
        if not isinstance(target, VectorOperand):
            return [value]
        if value is None or len(target.elements) != 2:
            return []
        both = zip(target.elements, (0, 32), strict=True)
        return [
            tuple(v >> shift & 0xFFFFFFFF for v in value)
            for to, shift in both
            if isinstance(to, RegisterOperand)
        ]

    def _parameter(self, row: PtxInstruction) -> Lanes | None:
        address = row.operands[1] if len(row.operands) > 1 else None
        width = _width(row.opcode)
        if "param" not in row.parts or not isinstance(address, AddressOperand) or address.offset:
            return None
        base = address.base
        if not isinstance(base, SymbolOperand) or base.name not in self._parameters or not width:
            return None
        if width == 64 and row.operands[0] not in self._scalars:
            return (self._parameters[base.name] + 1 << 40,) * WARP
        return (self._scalar_values.get(base.name, self._unknown),) * WARP

    def _value(self, operand: Operand) -> Lanes | None:
        match operand:
            case RegisterOperand(register, negated):
                value = self._values.get(register)
                return _not(value) if negated else value
            case ImmediateOperand(text):
                literal = number(text)
                return None if literal is None else (literal,) * WARP
            case SpecialOperand(name):
                return self._special(name)
            case SymbolOperand(name, offset):
                first = (len(self._symbols) + 1) << 20
                return (self._symbols.setdefault(name, first) + offset,) * WARP
        return None

    def _special(self, name: str) -> Lanes | None:
        if name == "%laneid":
            return tuple(range(WARP))
        if name == "%warpid":
            return (0,) * WARP
        match = _SPECIAL.match(name)
        if match is None:
            return None
        axis = "xyz".index(match[2])
        if match[1] == "tid":
            below = (1, self._block[0], self._block[0] * self._block[1])[axis]
            size = WARP if axis == 2 else self._block[axis]
            return tuple(lane // below % size for lane in range(WARP))
        uniform = {"ntid": self._block, "ctaid": _BLOCK_ID, "nctaid": _GRID}
        return (uniform[match[1]][axis],) * WARP

    def _access(self, row: PtxInstruction, mask: Lanes) -> None:
        spaces = (part.partition("::")[0] for part in row.parts)
        space = next((s for s in spaces if s in ("global", "shared")), None)
        address = next((o for o in row.operands if isinstance(o, AddressOperand)), None)
        width = _width(row.opcode)
        base = None if address is None else self._value(address.base)
        if space is None or address is None or width is None or base is None:
            return
        vector = next((int(p[1]) for p in row.parts if p in ("v2", "v4", "v8")), 1)
        lanes = list(zip(base, mask, strict=True))[: prod(self._block)]
        where = tuple(place + address.offset for place, on in lanes if on)
        if len(set(where)) > 1:
            size, store = width // 8 * vector, row.base == "st"
            access = WarpAccess(row.line, space, store, size, where, self._stretch, address.base)
            self.accesses.append(access)


def _width(opcode: str) -> int | None:
    """Bits of the type that an opcode ends in: 32 of ``ld.global.v4.b32``."""
    match = _WIDTH.search(opcode)
    return int(match[1]) if match and match[1] else None


def _not(value: Lanes | None) -> Lanes | None:
    return None if value is None else tuple(int(not p) for p in value)
