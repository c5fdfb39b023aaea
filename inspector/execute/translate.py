"""PTX to Python: each basic block of a kernel becomes one function over arrays of lanes.

The PTX's own text never gets into the code: registers are ``r`` and their number,
constants are taken from a table, and all else are fixed words of this room. Such a function is
``b(m, R, A)``: the chunk's machine, the registers that live between blocks, and the lanes that run.
It gives the predicate of the instruction that ends its block, where that has one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from inspector.base.units import plural
from inspector.execute import floats, kinds, lanes
from inspector.execute.barriers import pending_count
from inspector.execute.blocks import BasicBlock, Blocks, defines, is_waiting
from inspector.execute.kinds import DTYPES, WIDTHS, Array, Mask, constant, dtype_name, is_float
from inspector.execute.lanes import CLUSTER_SPECIALS, SPECIALS, WIDE
from inspector.execute.memory import both, is_own, map_address, rank_of_address
from inspector.execute.words import unknown_word
from inspector.parsers.ptx_code import PtxFunction
from inspector.parsers.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SinkOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
)
from inspector.semantics import integers

PART_OF_REGISTER = "a part of a register is not known in this instruction"


class Untranslatable(Exception):
    """An instruction for which there is no translation; its text is one sentence."""


def _bits(width: int) -> str:
    return "no bits but a predicate" if width == 1 else f"{width} bits"


def merge(mask: Mask, new: Array, old: Array) -> Array:
    """What a register holds after a write by some lanes."""
    return new if mask is None else np.where(mask, new, old)


SCOPE: Mapping[str, Any] = {
    "np": np,
    "floats": floats,
    "integers": integers,
    "matrix": lanes,
    "lanes": lanes,
    "merge": merge,
    "both": both,
    "pending_count": pending_count,
    "is_own": is_own,
    "joined": kinds.joined,
    "halves": kinds.halves,
    "map_address": map_address,
    "rank_of_address": rank_of_address,
    **{
        name: getattr(kinds, name)
        for name in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "f32", "f64")
    },
}

Handler = Callable[["Translator", PtxInstruction], None]


@dataclass
class Layout:
    """Where a kernel's variables are: offsets in shared and local memory, parameters' offsets.

    ``globals`` are the addresses of the module's variables, known only where it is run; generated
    code reads them by their index in the machine's table.
    """

    offsets: dict[str, tuple[str, int]] = field(default_factory=dict)
    """State space and offset by name."""
    globals: dict[str, int] = field(default_factory=dict)
    """Index in the machine's table of addresses, by name."""


class BlockSource(NamedTuple):
    """The Python of a basic block; ``instructions``: the instruction of each of its lines."""

    text: str
    instructions: tuple[int, ...]


_CLUSTER_BASES = ("mapa", "getctarank")


def names_clusters(code: PtxFunction) -> bool:
    """Whether a kernel names anything of its cluster: its other blocks, its barrier, its rank."""
    return any(
        row.base in _CLUSTER_BASES
        or "cluster" in row.opcode
        or "cta_group::2" in row.parts
        or any(isinstance(o, SpecialOperand) and o.name in CLUSTER_SPECIALS for o in row.operands)
        for row in code.instructions
    )


_WIDENED = ("ld", "ldu", "cvt")
"""Instructions whose result a wider register may hold (PTX ISA, "Operand Size Exceeding
Instruction-Type Size")."""
_ADDRESS = (1 << 64) - 1
_WIDTH_OF_PAIR = 128


class Translator:
    """Makes the Python of a kernel's blocks."""

    def __init__(
        self, code: PtxFunction, blocks: Blocks, layout: Layout, handlers: Mapping[str, Handler]
    ) -> None:
        self.code = code
        self.blocks = blocks
        self.layout = layout
        self.handlers = handlers
        self.in_clusters = names_clusters(code)
        self.constants: list[Array] = []
        self.widths = [WIDTHS.get(kind, 0) for kind in code.registers] + [64]
        """Bits of registers; 0 of those that cannot be used here."""
        # of one block
        self.lines: list[str] = []
        self.origins: list[int] = []
        """The instruction of each line."""
        self.free: frozenset[int] = frozenset()
        self.loads: dict[int, None] = {}
        self.defined: set[int] = set()
        self.watched = False
        self.written: list[int] = []
        self.number = 0
        self.guarded = False
        self.temporaries = 0

    def block(self, block: BasicBlock, *, careful: bool, watched: bool) -> BlockSource:
        """The source of one block's function, named ``b``. Raises Untranslatable.

        ``careful``: lanes may have run it before, so what they wrote must not be overwritten for
        them. ``watched``: an observer is called for each register that is written.
        """
        self.free = block.local if careful else block.local | self.blocks.single
        self.watched = watched
        self.loads = {}
        self.defined = set()
        self.lines = []
        self.origins = []
        rows = self.code.instructions[block.first : block.last]
        last_use: dict[int, int] = {}
        for k, row in enumerate(rows):
            for registers in defines(row, self.blocks.carry):
                last_use.update(dict.fromkeys(registers, k))
        for k, row in enumerate(rows):
            if row is not block.end:
                self.instruction(block.first + k, row)
                gone = [r for r in self.defined if last_use[r] == k and r in block.local]
                if gone:
                    self.emit("del " + ", ".join(f"r{r}" for r in gone))
                    self.defined.difference_update(gone)
        return self._source(block, self.end(block))

    def _source(self, block: BasicBlock, result: str) -> BlockSource:
        """The lines of a block between loads of what it reads and stores of what outlives it."""
        stored = sorted(r for r in self.defined if r in block.live_out)
        head = [f"r{r} = R[{r}]" for r in self.loads]
        tail = [f"R[{r}] = r{r}" for r in stored]
        if result:
            tail.append(f"return {result}")
        body = [*head, *self.lines, *tail] or ["pass"]
        text = "def b(m, R, A):\n" + "".join(f"    {line}\n" for line in body)
        ends = [block.last - 1] * (len(body) - len(head) - len(self.lines))
        return BlockSource(text, (*[block.first] * (1 + len(head)), *self.origins, *ends))

    def end(self, block: BasicBlock) -> str:
        """What the block's function gives: the guard, an index, or a barrier's operands."""
        end = block.end
        if end is None:
            return ""
        self.number = block.last - 1
        self.guarded = False
        guard = self._guard(end)
        if is_waiting(end):
            operands = end.operands[1:] if "red" in end.parts else end.operands
            numbers = [self.read(o, "pred" if self._is_predicate(o) else "u32") for o in operands]
            return f"({guard or 'None'}, ({''.join(n + ', ' for n in numbers)}))"
        return self.read(end.operands[0], "u32") if end.base == "brx" else guard

    def _guard(self, row: PtxInstruction) -> str:
        """The lanes that an instruction's guard leaves; nothing without one."""
        guard = row.guard
        return "" if guard is None else self.read(guard, "pred")

    def _is_predicate(self, operand: Operand) -> bool:
        return isinstance(operand, RegisterOperand) and self.widths[operand.number] == 1

    def instruction(self, number: int, row: PtxInstruction) -> None:
        """Appends the lines of one instruction. Raises Untranslatable."""
        if (handler := self.handlers.get(row.base)) is None:
            raise Untranslatable("there is no such instruction here")
        if (word := unknown_word(row.parts)) is not None:
            raise Untranslatable(f".{word} of {row.base} is not emulated")
        self.number = number
        self.guarded = row.guard is not None
        self.written = []
        self.temporaries = 0
        if row.guard is not None:
            self.emit(f"G = both(A, {self._guard(row)})")
        if self.watched:
            self.emit(f'm.tell("step", {number}, {self.mask})')
        handler(self, row)
        if self.watched:
            for register in filter(self._is_a_number, self.written):
                self.emit(f'm.tell("wrote", {number}, {register}, r{register}, {self.mask})')

    def _is_a_number(self, register: int) -> bool:
        """Whether observers are told of a register: those of 128 bits have no value."""
        return self.widths[register] < _WIDTH_OF_PAIR

    @property
    def mask(self) -> str:
        return "G" if self.guarded else "A"

    def emit(self, line: str) -> None:
        self.lines.append(line)
        self.origins.append(self.number)

    def temporary(self, expression: str) -> str:
        """Computes something once; the name of it."""
        name = f"x{self.temporaries}"
        self.temporaries += 1
        self.emit(f"{name} = {expression}")
        return name

    def register(self, number: int) -> str:
        if number not in self.defined:
            self.loads.setdefault(number)
        return f"r{number}"

    def constant(self, value: int | float | bool, dtype: Any) -> str:
        self.constants.append(np.array([[value]], dtype))
        return f"K[{len(self.constants) - 1}]"

    def read(self, operand: Operand, kind: str) -> str:
        """An operand as an expression of a type; f16 and bf16 as single precision."""
        if isinstance(operand, RegisterOperand):
            return self._read_register(operand, kind)
        if kind == "pred" and operand == SpecialOperand("%is_explicit_cluster"):
            return "m.lanes.special('%is_explicit_cluster').astype(bool)"
        if kind == "pred" and isinstance(operand, SpecialOperand | SymbolOperand):
            raise Untranslatable("a predicate is needed where another operand stands")
        if isinstance(operand, SpecialOperand):
            return self._read_special(operand.name, kind)
        if isinstance(operand, SymbolOperand):
            address = self.symbol(operand.name, operand.offset)
            return address if WIDTHS[kind] == 64 else f"{address}.astype(u{WIDTHS[kind]})"
        if isinstance(operand, ImmediateOperand):
            return self._read_immediate(operand.text, kind)
        if isinstance(operand, VectorOperand) and len(operand.elements) == 1:
            return self.read(operand.elements[0], kind)
        raise Untranslatable("an operand of this form is not known here")

    def _read_register(self, operand: RegisterOperand, kind: str) -> str:
        if operand.part:
            raise Untranslatable(PART_OF_REGISTER)
        expression = self.register(operand.number)
        have = self.widths[operand.number]
        if kind == "pred":
            if have != 1:
                raise Untranslatable("a predicate is needed where another register stands")
            return f"(~{expression})" if operand.negated else expression
        if have in (0, 1):
            raise Untranslatable("a register of this type is not known here")
        want = WIDTHS[kind]
        if _WIDTH_OF_PAIR in (have, want) and have != want:
            raise Untranslatable(f"it reads {want} bits of a register of {have}")
        if want != have:
            expression += f".astype(u{want})"
        if kind == "bf16":
            return f"floats.from_bf16({expression})"
        if kind == "f16":
            return f"floats.from_f16({expression})"
        if (kind[0] == "s" and kind[1:].isdigit()) or kind in ("f32", "f64", "tf32"):
            name = "f32" if kind == "tf32" else dtype_name(kind)
            return f"{expression}.view({name})"
        return expression

    def _read_special(self, name: str, kind: str) -> str:
        if name not in SPECIALS:
            raise Untranslatable(f"the register {name} has no value here")
        have = 64 if name in WIDE else 32
        expression = f"m.lanes.special({name!r})"
        if is_float(kind):
            raise Untranslatable(f"the register {name} is no floating point number")
        if WIDTHS[kind] != have:
            expression += f".astype(u{WIDTHS[kind]})"
        return expression + (f".view({dtype_name(kind)})" if kind[0] == "s" else "")

    def symbol(self, name: str, offset: int) -> str:
        """The address of a variable: in its own space, or in global memory."""
        if (placed := self.layout.offsets.get(name)) is not None:
            place = self.constant((placed[1] + offset) & _ADDRESS, np.uint64)
            by_rank = self.in_clusters and placed[0] == "shared"
            return f"({place} + m.memory.rank_base)" if by_rank else place
        if (index := self.layout.globals.get(name)) is None:
            raise Untranslatable(f"{name} is nothing whose address is known here")
        added = f" + {self.constant(offset & _ADDRESS, np.uint64)}" if offset else ""
        return f"(m.globals[{index}]{added})"

    def space_of(self, name: str) -> str:
        """The state space of a variable: ``shared``, ``local``, ``param`` or ``global``."""
        placed = self.layout.offsets.get(name)
        return placed[0] if placed is not None else "global"

    def _read_immediate(self, text: str, kind: str) -> str:
        try:
            if kind == "pred":
                return self.constant(bool(constant(text, "u32")), np.bool_)
            if kind in ("f16", "bf16"):
                written_out = "." in text or text.lstrip("+-")[:2].lower() in ("0f", "0d")
                if written_out:
                    return self.constant(constant(text, "f32"), np.float32)
                bits = np.array([constant(text, "u16")], np.uint16)
                value = floats.from_bf16(bits) if kind == "bf16" else floats.from_f16(bits)
                return self.constant(float(value[0]), np.float32)
            return self.constant(constant(text, kind), DTYPES[kind])
        except ValueError:
            raise Untranslatable(f"{text} is no number that is known here") from None

    def bits(self, operand: Operand, kind: str) -> str:
        """An operand as unsigned bits of a type's width; constants by their value."""
        if isinstance(operand, ImmediateOperand) and kind in ("f32", "f64"):
            return self.result(self.read(operand, kind), kind)
        return self.read(operand, f"u{WIDTHS[kind]}")

    def result(self, expression: str, kind: str, way: str = "rn") -> str:
        """A value of a type as the bits that a register holds; f16 and bf16 are rounded."""
        if kind in ("f16", "bf16"):
            return f"floats.to_{kind}({expression}, {way!r})"
        if kind == "pred" or kind[0] in "bu" or kind.endswith("x2"):
            return expression
        return f"({expression}).view(u{WIDTHS[kind]})"

    def write(self, operand: Operand, bits: str, kind: str) -> None:
        """Writes the unsigned bits of a ``kind``, or a predicate, to a register.

        A register of another width is malformed, but for instructions that extend their result.
        """
        if isinstance(operand, SinkOperand):
            return
        if not isinstance(operand, RegisterOperand):
            raise Untranslatable("its result goes to what is no register")
        if operand.part:
            raise Untranslatable(PART_OF_REGISTER)
        number = operand.number
        have = self.widths[number]
        if have == 0:
            raise Untranslatable("a register of this type is not known here")
        width = WIDTHS[kind]
        if width != have:
            base = self.code.instructions[self.number].base
            if 1 in (width, have) or width > have or base not in _WIDENED:
                raise Untranslatable(f"its result has {_bits(width)}, the register {_bits(have)}")
            if kind[0] == "s":
                bits = f"({bits}).view(i{width}).astype(i{have}).view(u{have})"
            else:
                bits = f"({bits}).astype(u{have})"
        if number in self.free and not self.guarded:
            self.emit(f"r{number} = {bits}")
        else:
            old = self.register(number)
            self.emit(f"r{number} = merge({self.mask}, {bits}, {old})")
        self.defined.add(number)
        self.written.append(number)

    def write_list(self, operand: Operand, values: str, kinds: Sequence[str]) -> None:
        """Writes arrays of some types to a vector's elements."""
        self.emit(f"L = {values}")
        targets = self.elements(operand, len(kinds))
        for k, (target, kind) in enumerate(zip(targets, kinds, strict=True)):
            self.write(target, f"L[{k}]", kind)

    def write_pair(self, operand: Operand, values: str) -> None:
        """Writes 32 bits and a predicate to ``r|p``, or the bits alone to ``r``."""
        self.emit(f"L = {values}")
        bits, predicate = self.pair(operand)
        self.write(bits, "L[0]", "b32")
        if predicate is not None:
            self.write(predicate, "L[1]", "pred")

    def elements(self, operand: Operand, count: int) -> tuple[Operand, ...]:
        """The ``count`` elements of a vector, of one a bare operand. Raises Untranslatable."""
        elements = operand.elements if isinstance(operand, VectorOperand) else (operand,)
        if len(elements) != count:
            raise Untranslatable(f"{plural(len(elements), 'element')}, where there must be {count}")
        return elements

    def pair(self, operand: Operand) -> tuple[Operand, Operand | None]:
        """Both destinations of ``p|q``."""
        if isinstance(operand, PairOperand):
            return operand.first, operand.second
        return operand, None

    def address(self, operand: Operand, space: str) -> tuple[str, str]:
        """The state space and the address (64 bits, unsigned) of an operand in brackets."""
        if not isinstance(operand, AddressOperand):
            raise Untranslatable("an address is needed where another operand stands")
        base = operand.base
        offset = operand.offset
        if isinstance(base, SymbolOperand):
            variable_space = self.space_of(base.name)
            expression = self.symbol(base.name, base.offset + offset)
            return (
                variable_space if space in ("generic", variable_space, "const", "param") else space
            ), expression
        narrow = isinstance(base, RegisterOperand) and self.widths[base.number] == 32
        width = 32 if narrow else 64  # what a sum wraps around at
        expression = self.read(base, f"u{width}")
        if offset:
            wrapped = offset & ((1 << width) - 1)
            expression = f"({expression} + {self.constant(wrapped, DTYPES[f'u{width}'])})"
        return space, f"{expression}.astype(u64)" if narrow else expression
