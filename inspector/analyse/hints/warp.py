"""Which addresses the 32 lanes of a warp touch, computed by running a kernel's integer PTX.

One pass over the instructions in the order they are written, each on 32 values at once: that is
the first turn of every loop, of the first warp of one block. Integer arithmetic is carried out;
what depends on data that was read is not known, and neither is what comes out of an ``if``.
Arguments that no launch gives are replaced by values chosen to be awkward: see ``Arguments``.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

from inspector.analyse.hints.subject import HintSubject
from inspector.analyse.tensors import COMPARE, quotient
from inspector.listing.ptx_code import (
    SINK,
    AddressOperand,
    ImmediateOperand,
    Operand,
    PairOperand,
    PtxFunction,
    PtxInstruction,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
)
from inspector.listing.ptx_operands import number

# -- integer instructions on 32 values at once ----------------------------------------------------
# Integer PTX instructions on 32 values at once. What is not known stays unknown (None).

WARP = 32
Lanes = int | tuple[int, ...]
"""The same in every lane, or one value a lane."""

_INTEGER_TYPE = re.compile(r"\.([bsuf]f?|pred)(8|16|32|64|128)?(?:x2)?\Z")


def width_of(opcode: str) -> int | None:
    """Bits of the type that an opcode ends in: 32 of ``ld.global.v4.b32``."""
    match = _INTEGER_TYPE.search(opcode)
    return int(match[2]) if match and match[2] else None


def _quotient(a: int, b: int) -> int:
    """Division towards zero; of nothing, all bits."""
    return quotient(a, b) if b else -1


def _logic3(a: int, b: int, c: int, table: int) -> int:
    out = 0
    for at in range(8):
        if table >> at & 1:
            x = a if at & 4 else ~a
            y = b if at & 2 else ~b
            z = c if at & 1 else ~c
            out |= x & y & z
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
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "mul24": operator.mul,
    "mad": lambda a, b, c: a * b + c,
    "mad24": lambda a, b, c: a * b + c,
    "div": _quotient,
    "rem": lambda a, b: a - _quotient(a, b) * b if b else a,
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
_HIGH = re.compile(r"(?:mul|mad)\.hi\b")
_FLOAT = re.compile(r"\.(?:b?f|tf)\d")


def compute(opcode: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result of an integer instruction, wrapped to its type; None if it is not known."""
    base = opcode.partition(".")[0]
    if _FLOAT.search(opcode) or _HIGH.match(opcode):
        return None
    if base == "setp":
        function: Callable[..., int] = lambda a, b: int(COMPARE[opcode.split(".")[1]](a, b))  # noqa: E731
    elif base in OPERATIONS:
        function = OPERATIONS[base]
    else:
        return None
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return _despite(base, values)
    wrap = _wrapper(opcode, base)
    narrow = _signedness(opcode, base)
    try:
        if all(isinstance(value, int) for value in known):
            return wrap(function(*(narrow(value) for value in known)))  # type: ignore[arg-type]
        columns = [repeat(narrow(v), WARP) if isinstance(v, int) else map(narrow, v) for v in known]
        return tuple(map(wrap, map(function, *columns)))
    except (TypeError, ValueError, OverflowError):
        return None  # not as many operands as the instruction has


def _despite(base: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result despite an unknown operand: ``and`` with 0."""
    if base == "and" and 0 in values:
        return 0
    return None


def _same(value: int) -> int:
    return value


def _signedness(opcode: str, base: str) -> Callable[[int], int]:
    """Operands as the type reads them: for what depends on the sign."""
    if base not in ("div", "rem", "min", "max", "shr", "setp", "mul", "mad", "cvt", "bfe"):
        return _same
    match = re.search(r"\.([su])(8|16|32|64)\Z", opcode)
    if match is None:
        return _same
    bits = int(match[2])
    return _signed(bits) if match[1] == "s" else _unsigned(bits)


def _wrapper(opcode: str, base: str) -> Callable[[int], int]:
    if base in ("setp", "cvta"):
        return _same
    if base == "cvt":
        match = re.search(r"\.([subf])(8|16|32|64)\.", opcode)
    else:
        match = re.search(r"\.([subp])(8|16|32|64)\Z", opcode)
    if match is None:
        return _same if not opcode.endswith(".pred") else lambda v: v & 1
    bits = int(match[2]) * (2 if ".wide" in opcode else 1)
    return _signed(bits) if match[1] == "s" else _unsigned(bits)


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << bits - 1, 1 << bits
    return lambda value: (value + half) % whole - half


def _unsigned(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda value: value & mask


# -- a warp -------------------------------------------------------------------------------------

_ACCESSES = ("ld", "st", "ldu")
_SCALED = frozenset(("mul", "mad", "shl", "div", "rem", "setp", "min", "max"))
_SPECIAL = re.compile(r"%(n?tid|n?ctaid)\.([xyz])\Z")
_BLOCK_ID = {"x": 5, "y": 3, "z": 2}
_GRID = {"x": 4099, "y": 67, "z": 5}


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the kernel's parameters hold, by their place in the list.

    ``known`` are a launch's own, place and value. The others are ``scalar`` (a large odd number by
    default: a stride that nothing is known of), times 16 where ``sixteenths`` says that they are a
    multiple of it; pointers are far apart and aligned, as allocators return them.
    """

    known: tuple[tuple[int, int], ...] = ()
    sixteenths: frozenset[int] = frozenset()
    scalar: int = 1000003

    def value(self, index: int, pointer: bool) -> int:
        """The value of one parameter."""
        if pointer:
            return (index + 1) << 40
        for at, value in self.known:
            if at == index:
                return value
        return self.scalar * 16 if index in self.sixteenths else self.scalar


@dataclass(frozen=True, slots=True)
class WarpAccess:
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


class Warp:
    """A kernel's accesses by the first warp of a block of the given shape."""

    def __init__(
        self, code: PtxFunction, block: tuple[int, int, int], arguments: Arguments
    ) -> None:
        self._block = block
        self._arguments = arguments
        self._parameters = {p.name: n for n, p in enumerate(code.parameters)}
        self._scalars = _scalars(code.instructions)
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

    # -- one instruction ----------------------------------------------------------------------

    def _run(self, row: PtxInstruction, written: Sequence[int]) -> None:
        if row.base in ("bar", "barrier"):
            self._stretch += 1
        mask = self._guard(row)
        if row.base in _ACCESSES and mask is not None:
            self._access(row, mask)
        results = self._results(row)
        for at, register in enumerate(written):
            result = results[at] if at < len(results) else None
            got = _chosen(mask, result, self._values.get(register))
            if got is None:
                self._values.pop(register, None)
            else:
                self._values[register] = got

    def _guard(self, row: PtxInstruction) -> Lanes | None:
        """Which lanes the guard lets through, None if that is unknown."""
        if row.guard is None:
            return 1
        value = self._values.get(row.guard)
        return _not(value) if row.inverted else value

    def _results(self, row: PtxInstruction) -> list[Lanes | None]:
        """The values of the registers that an instruction writes, if known."""
        operands = row.operands
        if row.base == "ld":
            return [self._parameter(row)]
        if len(operands) < 2:
            return []
        if row.base == "mov":
            return self._move(operands[0], operands[1])
        values = [self._value(each) for each in operands[1:]]
        if row.base == "shfl" and "idx" in row.parts and len(values) > 1:
            source, lane = values[0], values[1]
            if isinstance(lane, int) and source is not None:
                return [source if isinstance(source, int) else source[lane % WARP]]
            return []
        if row.base == "setp":
            out = _compared(row, values)
            return [out, _not(out)] if isinstance(operands[0], PairOperand) else [out]
        return [compute(row.opcode, values)]

    def _move(self, target: Operand, source: Operand) -> list[Lanes | None]:
        if isinstance(target, VectorOperand):
            value = self._value(source)
            if value is None or len(target.elements) != 2:
                return []
            halves = [
                _each(lambda v: v & 0xFFFFFFFF, value),
                _each(lambda v: v >> 32 & 0xFFFFFFFF, value),
            ]
            return [
                half
                for half, to in zip(halves, target.elements, strict=True)
                if isinstance(to, RegisterOperand)
            ]
        if isinstance(source, VectorOperand):
            parts = [self._value(each) for each in source.elements]
            return [compute("pack.b64", parts)] if len(parts) == 2 else []
        return [self._value(source)]

    def _parameter(self, row: PtxInstruction) -> Lanes | None:
        """What a load of a parameter of the kernel gives."""
        address = row.operands[1] if len(row.operands) > 1 else None
        width = width_of(row.opcode)
        if "param" not in row.parts or not isinstance(address, AddressOperand) or address.offset:
            return None
        base, target = address.base, row.operands[0]
        if not isinstance(base, SymbolOperand) or base.name not in self._parameters or not width:
            return None
        pointer = width == 64 and target not in self._scalars
        return self._arguments.value(self._parameters[base.name], pointer)

    # -- operands -----------------------------------------------------------------------------

    def _value(self, operand: Operand) -> Lanes | None:
        match operand:
            case RegisterOperand(register, negated):
                value = self._values.get(register)
                return _not(value) if negated else value
            case ImmediateOperand(text):
                return number(text)
            case SpecialOperand(name):
                return self._special(name)
            case SymbolOperand(name, offset):
                first = (len(self._symbols) + 1) << 20
                return self._symbols.setdefault(name, first) + offset
        return None

    def _special(self, name: str) -> Lanes | None:
        width, height, _ = self._block
        if name == "%laneid":
            return tuple(range(WARP))
        if name == "%warpid":
            return 0
        match = _SPECIAL.match(name)
        if match is None:
            return None
        kind, axis = match[1], match[2]
        if kind == "ntid":
            return self._block["xyz".index(axis)]
        if kind == "ctaid":
            return _BLOCK_ID[axis]
        if kind == "nctaid":
            return _GRID[axis]
        lanes = range(WARP)
        if axis == "x":
            return tuple(lane % width for lane in lanes)
        if axis == "y":
            return tuple(lane // width % height for lane in lanes)
        return tuple(lane // (width * height) for lane in lanes)

    # -- memory -------------------------------------------------------------------------------

    def _access(self, row: PtxInstruction, mask: Lanes) -> None:
        spaces = [part.partition("::")[0] for part in row.parts]
        space = next((s for s in spaces if s in ("global", "shared")), None)
        address = next((o for o in row.operands if isinstance(o, AddressOperand)), None)
        width = width_of(row.opcode)
        base = None if address is None else self._value(address.base)
        if space is None or address is None or width is None or base is None:
            return
        vector = next((int(p[1]) for p in row.parts if p in ("v2", "v4", "v8")), 1)
        threads = self._block[0] * self._block[1] * self._block[2]
        lanes = list(zip(_every(base), _every(mask), strict=True))[:threads]
        where = tuple([place + address.offset for place, on in lanes if on])
        if len(set(where)) > 1:
            self.accesses.append(
                WarpAccess(
                    row.line,
                    space,
                    row.base == "st",
                    width // 8 * vector,
                    where,
                    self._stretch,
                    address.base,
                )
            )


def _scalars(rows: Sequence[PtxInstruction]) -> frozenset[Operand]:
    """64-bit parameters that are multiplied or compared: they are no pointers."""
    loaded = {row.operands[0] for row in rows if row.base == "ld" and "param" in row.parts}
    scaled = {each for row in rows if row.base in _SCALED for each in row.operands[1:]}
    return frozenset(loaded & scaled)


def _compared(row: PtxInstruction, values: Sequence[Lanes | None]) -> Lanes | None:
    parts = row.parts
    if len(values) < 2 or len(parts) < 3 or parts[-1][:1] in ("", "f") or parts[1] not in COMPARE:
        return None
    out = compute(f"{parts[0]}.{parts[1]}.{parts[-1]}", values[:2])
    if len(values) == 3 and parts[2] in ("and", "or", "xor"):
        return compute(f"{parts[2]}.pred", [out, values[2]])
    return out


def _each(function: Callable[[int], int], value: Lanes) -> Lanes:
    return function(value) if isinstance(value, int) else tuple(map(function, value))


def _every(value: Lanes) -> tuple[int, ...]:
    return (value,) * WARP if isinstance(value, int) else value


def _not(value: Lanes | None) -> Lanes | None:
    return None if value is None else _each(lambda p: int(not p), value)


def _chosen(mask: Lanes | None, new: Lanes | None, old: Lanes | None) -> Lanes | None:
    """What a guarded instruction leaves in its result."""
    if mask is None:
        return None
    if isinstance(mask, int):
        return new if mask else old
    if new is None or old is None:
        return None
    rows = zip(mask, _every(new), _every(old), strict=True)
    return tuple(x if on else y for on, x, y in rows)


SHAPES = ((32, 32, 1), (16, 16, 1), (8, 8, 8), (64, 4, 1))
"""Blocks that a kernel of two or three dimensions may be launched with."""

Run = dict[int, WarpAccess]
"""Accesses by their line of PTX."""


def runs(subject: HintSubject, scalar: int = 1000003) -> tuple[Run, ...]:
    """The accesses of the first warp; once for each shape that the block may have.

    ``scalar`` replaces the arguments that are not known.
    """
    code = subject.ptx_code
    if code is None:
        return ()
    touched = subject.memo.get(("touched", scalar))
    if not isinstance(touched, tuple):
        given = arguments(subject, scalar)
        touched = tuple(
            {a.line: a for a in Warp(code, shape, given).accesses}
            for shape in _shapes(subject, code)
        )
        subject.memo["touched", scalar] = touched
    return touched


def arguments(subject: HintSubject, scalar: int = 1000003) -> Arguments:
    """Known facts about the kernel's parameters: Triton's specialisation, and the launch."""
    names = parameters(subject)
    sixteenths = frozenset(at for at, name in enumerate(names) if name in divisible(subject))
    numbers = {}
    if subject.launch is not None and subject.launch.kind == "triton":
        values = {argument.name: argument.value for argument in subject.launch.arguments}
        for at, name in enumerate(names):
            value = values.get(name)
            if isinstance(value, int):
                numbers[at] = int(value)
    return Arguments(tuple(sorted(numbers.items())), sixteenths, scalar)


def parameters(subject: HintSubject) -> tuple[str, ...]:
    """Names of a Triton kernel's parameters as its PTX has them: constants are compiled in."""
    constant = {
        name for name, said in _specialised(subject) if any(s[0] == "constant" for s in said)
    }
    return tuple(
        name
        for name, kind in subject.variant.signature.items()
        if kind != "constexpr" and name not in constant
    )


def divisible(subject: HintSubject) -> frozenset[str]:
    """Arguments that Triton compiled for as multiples of 16."""
    return frozenset(n for n, said in _specialised(subject) if ("tt.divisibility", 16) in said)


def _specialised(subject: HintSubject) -> list[tuple[str, list[tuple[object, ...]]]]:
    """What Triton knew of each argument: pairs of a property and its value."""
    return [
        (name, [tuple(s) for s in said if isinstance(s, list | tuple) and s])
        for name, said in subject.variant.specialization.items()
        if isinstance(said, list | tuple)
    ]


def _shapes(subject: HintSubject, code: PtxFunction) -> tuple[tuple[int, int, int], ...]:
    if subject.block is not None:
        return (subject.block,)
    named = {
        o.name for row in code.instructions for o in row.operands if isinstance(o, SpecialOperand)
    }
    if named & {"%tid.y", "%tid.z"}:
        return SHAPES
    return ((256, 1, 1),)


_ARGUMENT = re.compile(r"%([\w$.\-]+): (!tt\.\w+<[^{,)]*>|[\w.]+)")


def scalars(subject: HintSubject) -> dict[str, int]:
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


def named(subject: HintSubject, values: dict[str, int]) -> dict[str, int]:
    """Values by a kernel's own names as values by the names in its TTGIR."""
    function = next((line for line in subject.ttgir if line.base == "tt.func"), None)
    names = [] if function is None else [f[1] for f in _ARGUMENT.finditer(function.text)]
    own = parameters(subject)
    if len(own) != len(names):
        return values
    return {inner: values[name] for inner, name in zip(names, own, strict=True) if name in values}
