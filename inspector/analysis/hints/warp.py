"""Which addresses the 32 lanes of a warp touch, computed by running a kernel's integer PTX.

One pass over the instructions in the order they are written, each on 32 values at once: that is
the first turn of every loop, of the first warp of one block. Integer arithmetic is carried out;
what depends on data that was read is not known, and neither is what comes out of an ``if``.
Arguments that no launch gives are replaced by values chosen to be awkward.
``execute`` cannot be asked: it needs a launch with all its arguments and memory.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod

from msgspec import Struct

from inspector.analysis.hints.subject import WARP, HintSubject
from inspector.analysis.sentences.context import Parameter, context_of
from inspector.base.model import Call, Stage
from inspector.parsers.ptx_code import PtxFunction
from inspector.parsers.ptx_statement import (
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
    access_bytes,
    number,
    type_bits,
)
from inspector.semantics.instructions import COMPARISONS, evaluate

# -- integer instructions ---------------------------------------------------------------------

Lanes = tuple[int, ...]
"""A value of each lane."""


def compute(opcode: str, values: Sequence[Lanes | None]) -> Lanes | None:
    """The result of an integer instruction, as its type reads it; None if it is not known."""
    base = opcode.partition(".")[0]
    lanes = [value for value in values if value is not None]
    if len(lanes) < len(values):
        return (0,) * WARP if base == "and" and (0,) * WARP in lanes else None
    return lanes[0] if base == "cvta" and len(lanes) == 1 else evaluate(opcode, lanes)


# -- what the launch leaves open --------------------------------------------------------------

SHAPES = ((32, 32, 1), (16, 16, 1), (8, 8, 8), (64, 4, 1))
"""Blocks that a kernel of two or three dimensions may be launched with."""

LARGE_ODD = 1000003
"""An argument that nothing is known of."""


def parameters(subject: HintSubject, call: Call | None) -> tuple[Parameter, ...]:
    """The kernel's parameters, with their values in a launch and what Triton knew of them."""
    listing = subject.listings.get(Stage.PTX)
    function = subject.functions.get(Stage.PTX)
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
    values = dict(enumerate(parameters(subject, subject.launch)))
    named = enumerate(_ttgir_arguments(subject))
    return {name: _scalar(values.get(index)) for index, (name, kind) in named if kind[0] != "!"}


def ttgir_values(subject: HintSubject, call: Call) -> Mapping[str, int]:
    arguments = zip(_ttgir_arguments(subject), parameters(subject, call), strict=False)
    return {name: int(p.value) for (name, _), p in arguments if isinstance(p.value, int)}


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
    warp_runs = subject.memo.get(("touched", scalar))
    if not isinstance(warp_runs, tuple):
        launch_parameters = parameters(subject, subject.launch)
        warps = [Warp(code, shape, launch_parameters, scalar) for shape in _shapes(subject, code)]
        warp_runs = tuple({access.line: access for access in warp.accesses} for warp in warps)
        subject.memo["touched", scalar] = warp_runs
    return warp_runs


def _shapes(subject: HintSubject, code: PtxFunction) -> Sequence[tuple[int, int, int]]:
    """The shape of a block, else those that it may have by the axes that its code reads."""
    if subject.block is not None:
        return (subject.block,)
    for row in code.instructions:
        for operand in row.operands:
            if isinstance(operand, SpecialOperand) and operand.name in ("%tid.y", "%tid.z"):
                return SHAPES
    return ((256, 1, 1),)


class Warp:
    """A kernel's accesses by the first warp of a block of the given shape.

    ``unknown`` is what arguments hold that are not known. Pointers are far apart and aligned, as
    allocators return them.
    """

    def __init__(
        self,
        code: PtxFunction,
        block: tuple[int, int, int],
        parameters: Sequence[Parameter] = (),
        unknown: int = LARGE_ODD,
    ) -> None:
        self._block = block
        self._scalar_values = {p.symbol: _scalar(p, unknown) for p in parameters}
        self._unknown = unknown
        self._parameters = {p.name: n for n, p in enumerate(code.parameters)}
        self._scalars = _scalar_registers(code)
        self._values: dict[int, Lanes] = {}
        self._symbols: dict[str, int] = {}
        self._stretch = 0
        self.accesses: list[WarpAccess] = []
        self._run_code(code)

    def _run_code(self, code: PtxFunction) -> None:
        """Run the instructions once from the top; what has several definitions is known up to the
        next label."""
        writes = [row.registers()[0] for row in code.instructions]
        written = Counter(chain.from_iterable(writes))
        labels = set(code.labels.values())
        defined: set[int] = set()
        redefined: set[int] = set()
        for index, row in enumerate(code.instructions):
            if index in labels:  # what was defined a second time may be either
                self._stretch += 1
                for register in redefined:
                    self._values.pop(register, None)
                redefined.clear()
            self._run(row, writes[index])
            for register in writes[index]:
                if written[register] > 1:
                    if register in defined:
                        redefined.add(register)
                    defined.add(register)

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
            value = _masked(mask, result, self._values.pop(register, None))
            if value is not None:
                self._values[register] = value

    def _results(self, row: PtxInstruction) -> list[Lanes | None]:
        if row.base == "ld":
            return [self._parameter(row)]
        if len(row.operands) < 2:
            return []
        if row.base == "mov":
            return self._moved(row)
        values = [self._value(operand) for operand in row.operands[1:]]
        if row.base == "shfl" and "idx" in row.parts and len(values) > 1:
            return _broadcast(*values[:2])
        if row.base == "setp":
            result = _compared(row, values)
            return [result, _not(result)] if isinstance(row.operands[0], PairOperand) else [result]
        return [compute(row.opcode, values)]

    def _moved(self, row: PtxInstruction) -> list[Lanes | None]:
        """``mov``, of a register or between one register and the parts of a vector."""
        target, source = row.operands[:2]
        width = type_bits(row.parts[-1]) or 64
        if isinstance(source, VectorOperand):
            part_bits = width // len(source.elements)
            parts = [self._value(element) for element in source.elements]
            values = [part for part in parts if part is not None]
            if len(values) < len(parts):
                return []
            return [tuple(_joined(lane, part_bits) for lane in zip(*values, strict=True))]
        value = self._value(source)
        if not isinstance(target, VectorOperand):
            return [value]
        if value is None:
            return []
        part_bits = width // len(target.elements)
        mask = (1 << part_bits) - 1
        return [
            tuple(lane >> index * part_bits & mask for lane in value)
            for index, element in enumerate(target.elements)
            if isinstance(element, RegisterOperand)
        ]

    def _parameter(self, row: PtxInstruction) -> Lanes | None:
        address = row.operands[1] if len(row.operands) > 1 else None
        width = type_bits(row.parts[-1])
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
        size = access_bytes(row.parts)
        base = None if address is None else self._value(address.base)
        if space is None or address is None or size is None or base is None:
            return
        lanes = list(zip(base, mask, strict=True))[: prod(self._block)]
        addresses = tuple(place + address.offset for place, on in lanes if on)
        if len(set(addresses)) > 1:
            store = row.base == "st"
            access = WarpAccess(
                row.line, space, store, size, addresses, self._stretch, address.base
            )
            self.accesses.append(access)


def _scalar_registers(code: PtxFunction) -> set[Operand]:
    """Registers of parameters that are multiplied or compared: they are no pointers."""
    loaded = {r.operands[0] for r in code.instructions if r.base == "ld" and "param" in r.parts}
    scaled = {o for r in code.instructions if r.base in _SCALED for o in r.operands[1:]}
    return loaded & scaled


def _masked(mask: Lanes | None, result: Lanes | None, old: Lanes | None) -> Lanes | None:
    """What a register holds after an instruction that only some lanes execute."""
    if mask is None:
        return None
    if all(mask):
        return result
    if not any(mask):
        return old
    if result is None or old is None:
        return None
    return tuple(
        new if on else previous for on, new, previous in zip(mask, result, old, strict=True)
    )


def _broadcast(source: Lanes | None, lane: Lanes | None) -> list[Lanes | None]:
    """``shfl.idx`` from one lane to all."""
    if source is None or lane is None or len(set(lane)) > 1:
        return []
    return [(source[lane[0] % WARP],) * WARP]


def _compared(row: PtxInstruction, values: Sequence[Lanes | None]) -> Lanes | None:
    """``setp``, with the predicate that it is combined with."""
    parts = row.parts
    if len(values) < 2 or len(parts) < 3 or parts[1] not in COMPARISONS:
        return None
    result = compute(f"setp.{parts[1]}.{parts[-1]}", values[:2])
    if len(values) == 3 and parts[2] in ("and", "or", "xor"):
        result = compute(f"{parts[2]}.pred", [result, values[2]])
    return result


def _joined(parts: Sequence[int], bits: int) -> int:
    """A number of parts of so many bits, the lowest first."""
    mask = (1 << bits) - 1
    return sum((part & mask) << index * bits for index, part in enumerate(parts))


def _not(value: Lanes | None) -> Lanes | None:
    return None if value is None else tuple(int(not p) for p in value)
