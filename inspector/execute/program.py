"""A kernel of a PTX text, translated: what it needs, what of it cannot be run, its code."""

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.execute import arithmetic, tensor_instructions, transfer, video
from inspector.execute.blocks import BasicBlock, inline_calls, make_blocks, targets_of
from inspector.execute.faults import CannotRun, LaunchError, Obstacle
from inspector.execute.kinds import DTYPES, UNSIGNED, WIDTHS, Array, constant, u8, u64
from inspector.execute.memory import Buffer, Memory
from inspector.execute.translate import (
    SCOPE,
    BlockSource,
    Handler,
    Layout,
    Translator,
    Untranslatable,
)
from inspector.parsers.line import Listing
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import PtxModule, read_module
from inspector.parsers.ptx_statement import PtxInstruction, PtxVariable

HANDLERS: Mapping[str, Handler] = {
    **arithmetic.HANDLERS,
    **tensor_instructions.HANDLERS,
    **transfer.HANDLERS,
    **video.HANDLERS,
}

Argument = Buffer | int | float | bytes | bytearray
"""What a kernel is given: a pointer (a buffer or an address), a number, or a structure's bytes."""

MAX_PARAMETER_BYTES = 32_764
"""Bytes of a kernel's parameters (PTX ISA, "Kernel Function Parameters")."""
MALFORMED = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError)
"""Raised by instructions with too few operands or an invalid type."""

Code = Callable[[Any, list[Array], Any], Any]


_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")


class Program:
    """One kernel of a PTX text.

    ``ptx`` is the text, its listing, or what was read of it; ``entry`` the kernel's name, the
    first one's where it is None. Raises LaunchError where there is no such kernel.
    """

    def __init__(self, ptx: str | Listing | PtxModule, entry: str | None = None) -> None:
        listing = parse_ptx(ptx) if isinstance(ptx, str) else ptx
        self.module = read_module(listing) if isinstance(listing, Listing) else listing
        names = self.module.entries
        if not names or (entry is not None and entry not in names):
            raise LaunchError(f"there is no kernel {entry or ''} in this PTX".replace("  ", " "))
        self.name = entry or names[0]
        self.code = inline_calls(self.module, self.name)
        self.target = self.module.target
        self.uses_tensor_memory = any(row.base == "tcgen05" for row in self.code.instructions)
        self.parameters = self.code.parameters
        self.required_block = self.code.reqntid
        """The threads of a block that ``.reqntid`` demands."""
        self.required_cluster = self.code.reqnctapercluster
        """The blocks of a cluster that ``.reqnctapercluster`` demands."""
        self.layout = Layout()
        self.static_shared = 0
        self.local_size = 0
        self._dynamic: list[str] = []
        self._globals: list[str] = []
        self._place_variables()
        self.blocks = make_blocks(self.code)
        self.translator = Translator(self.code, self.blocks, self.layout, HANDLERS)
        self.empty: tuple[Array, ...] = tuple(
            np.zeros((1, 1), bool if w <= 1 else UNSIGNED[w]) for w in self.translator.widths
        )
        self._sources: dict[int, BlockSource] = {}
        self._obstacles: tuple[Obstacle, ...] | None = None
        self._functions: dict[tuple[int, bool, bool], Code] = {}
        self._origins: dict[str, tuple[int, ...]] = {}
        """The instruction of each line of a compiled source, by its file name."""

    def _place_variables(self) -> None:
        """Gives variables their places; only those that the kernel names, as ptxas does."""
        nbytes = max((p.offset + p.size for p in self.parameters), default=0)
        if nbytes > MAX_PARAMETER_BYTES:
            raise LaunchError(
                f"{self.name} has {nbytes:,} bytes of parameters, "
                f"of at most {MAX_PARAMETER_BYTES:,}"
            )
        for parameter in self.parameters:
            self.layout.offsets[parameter.name] = ("param", parameter.offset)
        for variable in self.module.variables.values():
            if variable.space == "shared":
                self._place_shared(variable)
            elif variable.space in ("global", "const"):
                self.layout.globals[variable.name] = len(self._globals)
                self._globals.append(variable.name)
        for variable in self.code.variables.values():
            if variable.name in self.layout.offsets:
                continue
            if variable.space == "shared":
                self._place_shared(variable)
            elif variable.space in ("local", "param"):
                offset = _aligned(self.local_size, variable.align)
                self.layout.offsets[variable.name] = ("local", offset)
                self.local_size = offset + max(variable.size, 8)
        for name in self._dynamic:
            self.layout.offsets[name] = ("shared", _aligned(self.static_shared, 16))

    def _place_shared(self, variable: PtxVariable) -> None:
        if variable.size == 0:
            self._dynamic.append(variable.name)
            return
        offset = _aligned(self.static_shared, variable.align)
        self.layout.offsets[variable.name] = ("shared", offset)
        self.static_shared = offset + variable.size

    def shared_bytes(self, dynamic: int) -> int:
        """Bytes of a block's shared memory: the kernel's own and the launch's."""
        return _aligned(self.static_shared, 16) + dynamic if dynamic else self.static_shared

    def statement(self, line: int) -> str:
        texts = self.module.texts
        return texts[line - 1].strip() if 0 < line <= len(texts) else ""

    def cannot(self) -> tuple[Obstacle, ...]:
        """Every line that cannot be run, and why; empty where the whole kernel can."""
        if self._obstacles is None:
            # Translates every block once, in the form without an observer
            out = [
                Obstacle(line, text.split(None, 1)[0][:40], "this statement is not understood")
                for line, text in self.code.unread
            ]
            out += self._variable_obstacles()
            for row in self.code.instructions:
                unknown = [t for t in targets_of(self.code, row) if t not in self.code.labels]
                if unknown or (row.base in ("bra", "brx") and not targets_of(self.code, row)):
                    missing = f"there is no label {unknown[0]}" if unknown else "it names no label"
                    out.append(Obstacle(row.line, row.opcode, f"{missing} in this function"))
            for block in self.blocks.blocks:
                try:
                    self._sources[block.index] = self.translator.block(
                        block, careful=False, watched=False
                    )
                except (Untranslatable, *MALFORMED):
                    out += self._obstacles_in(block)
            self._obstacles = tuple(sorted(out, key=lambda obstacle: obstacle.line))
        return self._obstacles

    def _variable_obstacles(self) -> list[Obstacle]:
        """The variables of the module whose initial values are malformed."""
        out: list[Obstacle] = []
        addresses = dict.fromkeys(self._globals, 0)
        for name in self._globals:
            variable = self.module.variables[name]
            try:
                self._initial(variable, addresses)
            except MALFORMED as error:
                reason = f"the initial values of {name[:80]} are malformed: {str(error)[:100]}"
                out.append(Obstacle(variable.line, f".{variable.space}", reason))
        return out

    def _initial(self, variable: PtxVariable, placed: Mapping[str, int]) -> Array:
        """The bytes of a variable's initial values. Raises one of MALFORMED.

        ``placed``: addresses by name. A function's address is unknown, and never called: 0.
        """
        if not variable.initial:
            return np.zeros(0, u8)
        size = WIDTHS[variable.kind] // 8
        kind = DTYPES[variable.kind]
        if not size:
            raise ValueError("a predicate has no place in memory")
        if len(variable.initial) * size > variable.size:
            raise ValueError(f"{len(variable.initial)} values, of {size} bytes each")
        if size <= 8 and all(map(_DECIMAL.fullmatch, variable.initial)):  # tables of thousands
            return np.array(variable.initial).astype(u64).astype(kind).view(u8)
        out: list[Array] = []
        for text in variable.initial:
            name, _, offset = text.replace("generic(", "").replace(")", "").partition("+")
            if (name := name.strip()) in placed or name in self.module.functions:
                bits = placed.get(name, 0) + int(offset or "0", 0)
                out.append(np.array([bits & ((1 << 64) - 1)], u64).view(u8)[:size])
            else:
                out.append(np.array([constant(text, variable.kind)], kind).view(u8))
        return np.concatenate(out)

    def check(self) -> None:
        if obstacles := self.cannot():
            raise CannotRun(self.name, obstacles)

    def _obstacles_in(self, block: BasicBlock) -> list[Obstacle]:
        """Each instruction of a block that has no translation."""
        out: list[Obstacle] = []
        for n in range(block.first, block.last):
            row = self.code.instructions[n]
            try:
                if row is block.end:
                    self.translator.end(block)
                else:
                    self.translator.instruction(n, row)
            except Untranslatable as error:
                out.append(Obstacle(row.line, row.opcode, str(error)))
            except MALFORMED:
                reason = "its operands or types are not those that the PTX ISA gives it"
                out.append(Obstacle(row.line, row.opcode, reason))
        if not out:  # of where it leads
            last = self.code.instructions[block.last - 1]
            out.append(Obstacle(last.line, last.opcode, "where it leads is not known"))
        return out

    def function(self, block: BasicBlock, *, careful: bool, watched: bool) -> Code:
        """The function of a basic block (see ``Translator.block``), compiled when first needed."""
        key = (block.index, careful, watched)
        if (code := self._functions.get(key)) is None:
            source = None if careful or watched else self._sources.get(block.index)
            if source is None:
                source = self.translator.block(block, careful=careful, watched=watched)
            file = f"<PTX of {self.name}, {len(self._origins)}>"
            self._origins[file] = source.instructions
            scope = {**SCOPE, "K": self.translator.constants}
            exec(compile(source.text, file, "exec"), scope)
            code = self._functions[key] = scope["b"]
        return code

    def instruction_of(self, error: Exception) -> int | None:
        """The instruction in whose Python an error was raised; None if it was in none."""
        frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            frames.append((error.filename or "", error.lineno or 1))
        for file, line in frames:
            if (origins := self._origins.get(file)) is not None and line <= len(origins):
                return origins[line - 1]
        return None

    def pack(self, arguments: Sequence[Argument]) -> Array:
        """The bytes of the parameters. Raises LaunchError where arguments do not fit."""
        if len(arguments) != len(self.parameters):
            raise LaunchError(
                f"{self.name} takes {len(self.parameters)} arguments and was given {len(arguments)}"
            )
        size = max((p.offset + p.size for p in self.parameters), default=0)
        out = np.zeros(_aligned(size, 16) + 16, u8)
        for parameter, value in zip(self.parameters, arguments, strict=True):
            data = _packed(parameter, value)
            if len(data) != parameter.size:
                raise LaunchError(
                    f"{self.name}: {parameter.name} has {parameter.size} bytes and was given "
                    f"{len(data)}"
                )
            out[parameter.offset :][: parameter.size] = np.frombuffer(data, u8)
        return out

    def addresses(self, memory: Memory) -> list[int]:
        """Where the module's variables are in ``memory``; made there when first asked for."""
        if (placed := memory.modules.get(self.module_key)) is None:
            placed = memory.modules[self.module_key] = {}
            arrays: dict[str, Array] = {}
            nbytes = sum(self.module.variables[name].size for name in self._globals)
            if not memory.budget.take(nbytes):
                raise LaunchError(
                    f"{self.name}: the variables of its module have {nbytes:,} bytes; "
                    f"{memory.budget.left:,} of {memory.budget.total:,} are left"
                )
            for name in self._globals:
                variable = self.module.variables[name]
                array = np.zeros(max(variable.size, 1), u8)
                buffer = memory.add(name, array, writable=variable.space == "global")
                placed[name] = buffer.address
                arrays[name] = array
            for name in self._globals:
                data = self._initial(self.module.variables[name], placed)
                arrays[name][: data.size] = data
        return [placed[name] for name in self._globals]

    @property
    def module_key(self) -> object:
        """What tells modules apart: the one that was read."""
        return id(self.module)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _packed(parameter: PtxVariable, value: Argument) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, Buffer):
        value = value.address
    width = parameter.size * 8
    if parameter.array or width not in UNSIGNED:
        raise LaunchError(f"{parameter.name} is a structure, which is given as bytes")
    if isinstance(value, float):
        kind = parameter.kind if parameter.kind[0] == "f" else f"f{width}"
        if kind not in ("f16", "f32", "f64"):
            raise LaunchError(f"{parameter.name} is no floating point number")
        return np.array([value], DTYPES[kind]).tobytes()
    if parameter.kind[0] == "f":
        return np.array([float(value)], DTYPES[parameter.kind]).tobytes()
    return (int(value) & ((1 << width) - 1)).to_bytes(width // 8, "little")


@dataclass(frozen=True, slots=True)
class Approximation:
    """A line whose result is not exact on a GPU. ``bound`` says how far it may be, in words."""

    line: int
    opcode: str
    bound: str
    section: str
    """Where the PTX ISA says so."""


def approximations(program: Program, table: Mapping[str, Any]) -> tuple[Approximation, ...]:
    """The approximate instructions of a kernel, each line once.

    ``table`` is ``approximate`` of the reference tables.
    """
    out: dict[int, Approximation] = {}
    for row in program.code.instructions:
        entry = table.get(key_of(row))
        if entry is not None and not (row.base in ("mma", "wgmma") and "s32" in row.parts):
            approximation = Approximation(row.line, row.opcode, bound(entry), entry["section"])
            out.setdefault(row.line, approximation)
    return tuple(out[line] for line in sorted(out))


def key_of(row: PtxInstruction) -> str:
    """The name by which the table knows an instruction."""
    if row.base in ("mma", "wgmma"):
        return row.base if row.base == "mma" or row.parts[1] == "mma_async" else ""
    return ".".join(p for p in row.parts if p != "ftz" or row.kind == "f64")


def bound(entry: Mapping[str, Any]) -> str:
    """How far a result may be from the exact one, as a phrase."""
    phrases = []
    if "ulps" in entry:
        count = entry["ulps"]
        phrases.append(f"within {count} {'unit' if count == 1 else 'units'} in the last place")
    if "relative" in entry:
        phrases.append(f"within 2^{entry['relative']:g} of the result")
    if "absolute" in entry:
        phrases.append(f"within 2^{entry['absolute']:g}")
    if "range" in entry:
        phrases.append(f"of {entry['range']}")
    return ", ".join(phrases) or str(entry.get("note", "no bound is given"))
