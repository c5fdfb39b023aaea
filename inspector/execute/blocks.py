"""A kernel's basic blocks: calls inlined, order, live registers, loops that may spin.

Calls of functions of the same module are replaced by their bodies. Edges are those of the PTX ISA
("Control Flow Instructions"); barriers end a block as well, since lanes wait there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inspector.analysis.flow.graph import Step, find_loops
from inspector.analysis.flow.liveness import Ranges, RegionExit
from inspector.execute.kinds import WIDTHS, is_float
from inspector.execute.lanes import CLOCKS
from inspector.parsers.ptx_code import PtxFunction, PtxModule
from inspector.parsers.ptx_statement import (
    AddressOperand,
    Operand,
    PairOperand,
    PtxInstruction,
    RegisterOperand,
    SpecialOperand,
    SymbolOperand,
    VectorOperand,
    registers_in,
)

MAX_CALL_DEPTH = 64
"""Calls within calls; what calls itself is left as a call."""
MAX_INSTRUCTIONS = 200_000
"""Instructions of a kernel with its calls replaced, beyond which calls are left."""


def read_call(call: PtxInstruction) -> tuple[str | None, tuple[Operand, ...], tuple[Operand, ...]]:
    """The function that a call names, its results and its arguments.

    The name is None where it is called by its address.
    """
    name: str | None = None
    named = False
    lists: dict[bool, tuple[Operand, ...]] = {}
    for operand in call.operands:
        if isinstance(operand, VectorOperand):
            lists[named] = operand.elements
        elif isinstance(operand, SymbolOperand | RegisterOperand):
            if named:  # the prototype
                break
            named = True
            name = operand.name if isinstance(operand, SymbolOperand) else None
    return name, lists.get(False, ()), lists.get(True, ())


def inline_calls(module: PtxModule, name: str) -> PtxFunction:
    """The kernel ``name`` without calls of functions whose bodies are in the module.

    It ends with ``ret``. A function that calls itself, or that has no body, is still called.
    """
    return _Inliner(module).inline(module.functions[name])


class _Inliner:
    def __init__(self, module: PtxModule) -> None:
        self.module = module
        self.call_count = 0
        self.count = 0

    def inline(self, kernel: PtxFunction) -> PtxFunction:
        out = replace(
            kernel,
            names=list(kernel.names),
            registers=list(kernel.registers),
            variables=dict(kernel.variables),
            instructions=[],
            labels={},
            tables={},
            unread=list(kernel.unread),
        )
        self._copy(out, kernel, (), _Names(0, "", {}, {}))
        rows = out.instructions
        if (
            not rows
            or rows[-1].base not in ("ret", "exit", "trap", "bra")
            or (rows[-1].guard is not None or len(rows) in out.labels.values())
        ):
            line = rows[-1].line if rows else kernel.line
            rows.append(PtxInstruction(line, "ret", ("ret",), ()))
        return out

    def _copy(
        self, out: PtxFunction, function: PtxFunction, around: tuple[str, ...], names: _Names
    ) -> None:
        labels_at: dict[int, list[str]] = {}
        for label, position in function.labels.items():
            labels_at.setdefault(position, []).append(names.prefix + label)
        for label, targets in function.tables.items():
            out.tables[names.prefix + label] = tuple(names.prefix + t for t in targets)
        for n, row in enumerate(function.instructions):
            for label in labels_at.get(n, ()):
                out.labels[label] = len(out.instructions)
            instruction = names.instruction(row)
            if around and instruction.base == "ret":
                end = SymbolOperand(names.prefix + "@end")
                instruction = replace(instruction, opcode="bra", parts=("bra",), operands=(end,))
            if instruction.base == "call" and self._replaced(out, instruction, around):
                continue
            out.instructions.append(instruction)
        for label in labels_at.get(len(function.instructions), ()):
            out.labels[label] = len(out.instructions)
        if around:
            out.labels[names.prefix + "@end"] = len(out.instructions)

    def _replaced(self, out: PtxFunction, call: PtxInstruction, around: tuple[str, ...]) -> bool:
        name, results, arguments = read_call(call)
        function = None if name is None else self.module.functions.get(name)
        if function is None or function.name in around or len(around) >= MAX_CALL_DEPTH:
            return False
        self.count += len(function.instructions)
        if self.count > MAX_INSTRUCTIONS:
            return False
        self.call_count += 1
        prefix = f"call{self.call_count}@"
        formal = [*function.results, *function.parameters]
        actual = [*results, *arguments]
        if len(formal) != len(actual):
            return False
        first = len(out.registers)
        out.registers += function.registers
        out.names += [f"{function.name}:{r}" for r in function.names]
        symbols: dict[str, Operand] = {}
        registers: dict[int, Operand] = {}
        for variable, value in zip(formal, actual, strict=True):
            if variable.space == "reg":
                registers[function.names.index(variable.name)] = value
            else:
                symbols[variable.name] = value
        for variable in function.variables.values():
            if variable.name not in symbols:
                unique_name = prefix + variable.name
                symbols[variable.name] = SymbolOperand(unique_name)
                out.variables[unique_name] = replace(variable, name=unique_name)
        for label in (*function.labels, *function.tables):
            symbols.setdefault(label, SymbolOperand(prefix + label))
        if call.guard is not None:
            out.instructions.append(
                PtxInstruction(
                    call.line,
                    "bra",
                    ("bra",),
                    (SymbolOperand(prefix + "@end"),),
                    replace(call.guard, negated=not call.guard.negated),
                )
            )
        self._copy(
            out, function, (*around, function.name), _Names(first, prefix, symbols, registers)
        )
        return True


@dataclass(frozen=True, slots=True)
class _Names:
    """What registers, variables and labels of a function are in the kernel that it is put into."""

    first: int
    prefix: str
    symbols: dict[str, Operand]
    registers: dict[int, Operand]

    def instruction(self, row: PtxInstruction) -> PtxInstruction:
        if not self.prefix:
            return row
        guard = row.guard
        if guard is not None:
            replacement = self.operand(guard)
            moved = replace(guard, number=guard.number + self.first)
            guard = replacement if isinstance(replacement, RegisterOperand) else moved
        return replace(row, operands=tuple(self.operand(o) for o in row.operands), guard=guard)

    def operand(self, operand: Operand) -> Operand:
        if isinstance(operand, RegisterOperand):
            if (replacement := self.registers.get(operand.number)) is None:
                return RegisterOperand(operand.number + self.first, operand.negated)
            if isinstance(replacement, RegisterOperand) and operand.negated:
                return RegisterOperand(replacement.number, not replacement.negated)
            return replacement
        if isinstance(operand, SymbolOperand):
            replacement = self.symbols.get(operand.name)
            if isinstance(replacement, SymbolOperand):
                return SymbolOperand(replacement.name, replacement.offset + operand.offset)
            return operand if replacement is None else replacement
        if isinstance(operand, AddressOperand):
            base = self.operand(operand.base)
            extra = tuple(self.operand(o) for o in operand.further_operands)
            return AddressOperand(base, operand.offset, extra)
        if isinstance(operand, VectorOperand):
            return VectorOperand(tuple(self.operand(o) for o in operand.elements))
        if isinstance(operand, PairOperand):
            return PairOperand(self.operand(operand.first), self.operand(operand.second))
        return operand


CARRIES = ("addc", "subc", "madc")
"""Instructions that read the carry flag; those with ``.cc`` write it."""


@dataclass(slots=True)
class BasicBlock:
    """Instructions ``first`` to ``last`` (not counted in); ``end`` is the last where it decides
    how lanes go on. Registers are by number."""

    index: int
    first: int
    last: int
    end: PtxInstruction | None
    successors: tuple[int, ...] = ()
    """Blocks by index: of a guarded branch its target, then what follows it."""
    rank: int = 0
    """Lanes in the block of lowest rank run first, so that paths meet again."""
    polls: bool = False
    """Whether it is the head of a loop that may wait for what others store."""
    timed: bool = False
    """Whether that loop reads a clock, so that it may end by itself."""
    gathers: bool = False
    """Whether it has an instruction that the lanes of a warp take together."""
    live_in: frozenset[int] = frozenset()
    live_out: frozenset[int] = frozenset()
    local: frozenset[int] = frozenset()
    """Registers whose values nobody but this block looks at."""
    dying: tuple[int, ...] = ()
    """Registers that are dead at its end and were not at its start, or were written in it."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a kernel; ``single``: registers that one instruction, in no loop, defines."""

    blocks: tuple[BasicBlock, ...]
    single: frozenset[int]
    carry: int
    """The number of the carry flag, as a register."""


JUMPS = ("bra", "brx", "ret", "exit", "trap")
"""Instructions that are the last of their basic block."""


def is_waiting(instruction: PtxInstruction) -> bool:
    """Whether lanes may wait for others at an instruction, and not only for their own warp."""
    base = instruction.base
    parts = instruction.parts
    return base in ("bar", "barrier") and "warp" not in parts


def ends_block(instruction: PtxInstruction) -> bool:
    """Whether an instruction decides where its lanes go on."""
    return instruction.base in JUMPS or is_waiting(instruction)


def defines(instruction: PtxInstruction, carry: int) -> tuple[list[int], list[int]]:
    """What an instruction writes and what it reads; under a guard what it writes is both."""
    written, read = instruction.registers()
    if instruction.guard is not None and instruction.base not in ("bra", "brx"):
        read += written
    if instruction.base in CARRIES:
        read.append(carry)
    if "cc" in instruction.parts:
        written.append(carry)
    return written, read


def make_blocks(code: PtxFunction) -> Blocks:
    """The basic blocks of ``code``, whose calls were replaced and which ends with a ``ret``."""
    rows = code.instructions
    carry = len(code.registers)
    leaders = {0} | {index for index in code.labels.values() if index < len(rows)}
    leaders |= {k + 1 for k, row in enumerate(rows) if ends_block(row) and k + 1 < len(rows)}
    starts = sorted(leaders)
    number = {start: k for k, start in enumerate(starts)}
    blocks: list[BasicBlock] = []
    for k, start in enumerate(starts):
        last = starts[k + 1] if k + 1 < len(starts) else len(rows)
        end = rows[last - 1] if ends_block(rows[last - 1]) else None
        following = k + 1 if k + 1 < len(starts) else None
        block = BasicBlock(k, start, last, end)
        block.gathers = any(map(_is_of_warps, code.instructions[start:last]))
        block.successors = _successors(code, end, following, number)
        blocks.append(block)
    looped = _rank(code, blocks, carry)
    single = _liveness(rows, blocks, carry, looped)
    return Blocks(tuple(blocks), single, carry)


def targets_of(code: PtxFunction, jump: PtxInstruction) -> tuple[str, ...]:
    if jump.base not in ("bra", "brx"):
        return ()
    position = 1 if jump.base == "brx" else 0
    target = jump.operands[position] if len(jump.operands) > position else None
    if not isinstance(target, SymbolOperand):
        return ()
    return code.tables.get(target.name, ()) if jump.base == "brx" else (target.name,)


def _is_of_warps(row: PtxInstruction) -> bool:
    """Whether the lanes of a warp take an instruction together (PTX ISA, ``.sync``)."""
    return "sync" in row.parts and (row.base not in ("bar", "barrier") or "warp" in row.parts)


def _successors(
    code: PtxFunction, end: PtxInstruction | None, following: int | None, number: Mapping[int, int]
) -> tuple[int, ...]:
    fallthrough = () if following is None else (following,)
    if end is None or is_waiting(end):
        return fallthrough
    if end.base in ("bra", "brx"):
        places = [code.labels.get(t, -1) for t in targets_of(code, end)]
        targets = tuple(number[place] for place in places if place in number)
        return targets + (fallthrough if end.guard is not None and end.base == "bra" else ())
    return fallthrough if end.guard is not None else ()


def _rank(code: PtxFunction, blocks: Sequence[BasicBlock], carry: int) -> list[bool]:
    """Sets ranks: topological but for back edges, a loop's blocks before what follows the loop.

    Gives whether each block is in a loop.
    """
    edges = tuple(tuple(sorted(set(b.successors))) for b in blocks)
    depth = [0] * len(blocks)
    looped = [False] * len(blocks)
    for header, level, members in find_loops(edges, (0,)):
        for member in members:
            depth[member] = max(depth[member], level)
            looped[member] = True
        instructions: list[PtxInstruction] = []
        for member in members:
            instructions += code.instructions[blocks[member].first : blocks[member].last]
        if _may_spin(instructions, blocks, set(members), carry):
            blocks[header].polls = True
            blocks[header].timed = any(map(_reads_clock, instructions))

    def order(node: int) -> list[int]:
        return sorted(edges[node], key=lambda s: (depth[s], -s))

    visited = {0}
    finished = []
    stack = [(0, iter(order(0)))]
    while stack:
        node, remaining = stack[-1]
        for other in remaining:
            if other not in visited:
                visited.add(other)
                stack.append((other, iter(order(other))))
                break
        else:
            finished.append(node)
            stack.pop()
    for rank, node in enumerate(reversed(finished)):
        blocks[node].rank = rank
    return looped


def _reads_clock(instruction: PtxInstruction) -> bool:
    return any(isinstance(o, SpecialOperand) and o.name in CLOCKS for o in instruction.operands)


ORDERED = frozenset(("volatile", "acquire", "relaxed", "mmio"))
"""Loads that must be made again: somebody else may have stored."""


def _may_spin(
    instructions: Sequence[PtxInstruction],
    blocks: Sequence[BasicBlock],
    inside: set[int],
    carry: int,
) -> bool:
    """Whether leaving a loop may depend on what it reads of memory again and again."""
    sources = _repeatedly_read(instructions, carry)
    if not sources:
        return False
    _add_dependent(sources, instructions, carry)
    for k in inside:
        end = blocks[k].end
        leaves = any(s not in inside for s in blocks[k].successors)
        guard = None if end is None or end.guard is None else end.guard.number
        if end is not None and leaves and (guard in sources or end.base == "brx"):
            return True
    return False


def _repeatedly_read(instructions: Sequence[PtxInstruction], carry: int) -> set[int]:
    """The registers that each pass of a loop reads from the same memory, which may have changed."""
    sources: set[int] = set()
    defined = {register for row in instructions for register in defines(row, carry)[0]}
    for row in instructions:
        written, _ = defines(row, carry)
        if row.base in ("atom", "mbarrier") or (row.base == "ld" and ORDERED & set(row.parts)):
            sources.update(written)
        elif row.base == "ld" and not {"param", "const", "nc"} & set(row.parts):
            address = registers_in(row.operands[1]) if len(row.operands) > 1 else []
            if not defined.intersection(address):
                sources.update(written)
    return sources


def _add_dependent(sources: set[int], instructions: Sequence[PtxInstruction], carry: int) -> None:
    """Add the registers that are computed from ``sources``, directly or through others."""
    grown = True
    while grown:
        grown = False
        for row in instructions:
            written, read = defines(row, carry)
            if sources.intersection(read) and not sources.issuperset(written):
                sources.update(written)
                grown = True


def _liveness(
    rows: Sequence[PtxInstruction], blocks: Sequence[BasicBlock], carry: int, looped: Sequence[bool]
) -> frozenset[int]:
    """Sets what is live between blocks; gives the registers that are defined once, in no loop."""
    ranges: list[Step] = []
    for index, row in enumerate(rows):
        written, read = defines(row, carry)
        kills = () if row.guard is not None else tuple(written)
        ranges.append(Step(index, index, tuple(written), kills, tuple(read)))
    starts = [*(b.first for b in blocks), len(rows)]
    exits = [[RegionExit(b.last - 1, b.successors, False)] for b in blocks]
    solved = Ranges(ranges, starts, exits, [""] * (carry + 1))
    for block in blocks:
        live: set[int] = set()
        for step, now, _ in solved.region(block.index):
            if step.line == block.last - 1:
                block.live_out = frozenset(now)
            live = now
        block.live_in = frozenset(live)
    everywhere: set[int] = set().union(*(b.live_in for b in blocks))
    for block in blocks:
        defined = {d for k in range(block.first, block.last) for d in ranges[k].defs}
        block.local = frozenset(defined - everywhere)
        block.dying = tuple(sorted((block.live_in | defined) - block.live_out - block.local))
    return _defined_once(ranges, blocks, looped)


def _defined_once(
    ranges: Sequence[Step], blocks: Sequence[BasicBlock], looped: Sequence[bool]
) -> frozenset[int]:
    """The registers that one instruction alone defines, which is in no loop."""
    sites: Counter[int] = Counter()
    in_loops: set[int] = set()
    for block in blocks:
        for k in range(block.first, block.last):
            sites.update(set(ranges[k].defs))
            if looped[block.index]:
                in_loops.update(ranges[k].defs)
    return frozenset(r for r, n in sites.items() if n == 1 and r not in in_loops)


_MOVES = frozenset(("mov", "ld", "st", "selp", "shfl", "ldu", "prmt", "atom", "red"))
_ROUNDS = 4
"""Times that types are passed on along moves; chains of moves that are longer are rare."""


def register_kinds(code: PtxFunction, carry: int) -> list[str]:
    """The type of each register: ``f32``, ``s32``, ``u64``, ``pred``, ``bf16x2``, …"""
    declared = [*code.registers, "b64"]
    votes: list[Counter[str]] = [Counter() for _ in declared]
    moves: list[list[int]] = []
    for row in code.instructions:
        if row.base in _MOVES and not is_float(row.kind):
            moves.append(_moved_registers(row, carry))
            continue
        for register, kind in _operand_kinds(row):
            # The address of a float is not a float.
            if not is_float(kind) or WIDTHS[kind] == WIDTHS.get(declared[register]):
                votes[register][kind] += 1
    kinds = [_likeliest_kind(vote) for vote in votes]
    for _ in range(_ROUNDS):
        if not _pass_on_kinds(kinds, moves, declared):
            break
    # A predicate stays one in an instruction of another type.
    return [d if d == "pred" else kind or d for kind, d in zip(kinds, declared, strict=True)]


def _moved_registers(row: PtxInstruction, carry: int) -> list[int]:
    """The registers that an instruction moves bits between, so that they are of one type."""
    written, read = defines(row, carry)
    guard = None if row.guard is None else row.guard.number
    return [register for register in (*written, *read) if register != guard]


def _pass_on_kinds(
    kinds: list[str], moves: Sequence[Sequence[int]], declared: Sequence[str]
) -> bool:
    """Give the types of floating point to the registers that are moved from or to; whether any."""
    changed = False
    for joined in moves:
        for kind in {kinds[r] for r in joined if is_float(kinds[r] or "b")}:
            for r in joined:
                if not kinds[r] and WIDTHS.get(declared[r]) == WIDTHS.get(kind):
                    kinds[r] = kind
                    changed = True
    return changed


def _operand_kinds(row: PtxInstruction) -> list[tuple[int, str]]:
    """What an instruction says of its registers."""
    named = [p for p in row.parts[1:] if p in WIDTHS]
    if not named or not row.operands or row.base in _OTHER_OPERANDS:
        return []
    kinds: list[tuple[int, str]] = []
    target_kind = _target_kind(row, named)
    if target_kind is not None:
        kinds += [(register, target_kind) for register in registers_in(row.operands[0])]
    sources, source_kind = _typed_sources(row, named)
    for operand in sources:
        kinds += [(register, source_kind) for register in registers_in(operand)]
    return kinds


_OTHER_OPERANDS = frozenset(
    ("cvta", "bar", "barrier", "mbarrier", "cp", "ldmatrix", "createpolicy")
)
"""Instructions whose types say nothing of their registers."""
_TWO_TYPES = frozenset(("cvt", "set", "slct"))
"""Instructions that name the type of their result, and then that of their sources."""


def _target_kind(row: PtxInstruction, named: Sequence[str]) -> str | None:
    """The type of an instruction's result; None for predicates."""
    if row.base in _TWO_TYPES:
        return named[0]
    if row.base == "setp":
        return None
    if row.base in ("mma", "wgmma"):
        return named[0] if named[0] != "f16" else "f16x2"
    if row.base in ("mul", "mad") and "wide" in row.parts:
        return f"{named[-1][0]}{2 * WIDTHS[named[-1]]}"
    return "u32" if row.base in ("popc", "clz", "bfind") else named[-1]


def _typed_sources(row: PtxInstruction, named: Sequence[str]) -> tuple[Sequence[Operand], str]:
    """The operands that an instruction reads in a type that it names, and that type."""
    sources = row.operands[1:]
    if row.base in _TWO_TYPES and len(named) > 1:
        return sources, named[1]
    if row.base in ("mma", "wgmma", "popc", "clz", "bfind"):
        return (), ""
    if row.base == "setp" or (row.base in ("mul", "mad") and "wide" in row.parts):
        sources = sources[:2]
    return sources, named[-1]


def _likeliest_kind(vote: Mapping[str, int]) -> str:
    """Floating point where an instruction computes in it; else the most frequent."""
    real = [kind for kind in vote if is_float(kind)]
    candidates = real or [kind for kind in vote if kind[0] in "us" or kind == "pred"]
    return max(candidates, key=lambda kind: vote[kind], default="")
