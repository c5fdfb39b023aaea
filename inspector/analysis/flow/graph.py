"""Steps, basic blocks, edges and loops of a function of PTX or SASS.

A function's instructions as numbers are its steps: a register is a small integer, so that a set of
them is one Python int; two registers of one name in two blocks ``{ }`` of PTX are two registers. A
line with several statements is one step, that of all of them.

Edges of PTX are those of the PTX ISA ("Control Flow Instructions"): ``bra``, ``brx.idx`` with its
``.branchtargets``, ``ret``, ``exit``, ``trap``. NVIDIA documents SASS's mnemonics (CUDA Binary
Utilities, "Instruction Set Reference"); its edges were read off ``nvdisasm -bbcfg``, which draws
every one, and the tests compare with it. A call goes on with the next instruction; a function
called within the section begins with a block that has no predecessor from its callers.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from inspector.base.names import words
from inspector.parsers.line import Function, Kind, Line, Listing
from inspector.parsers.ptx_code import FunctionReading, PtxFunction
from inspector.parsers.ptx_statement import (
    PtxInstruction,
    SymbolOperand,
    register_declarations,
    strip,
)
from inspector.parsers.sass_operands import BRANCHES, CALLS


class Step(NamedTuple):
    """One line with at least one instruction.

    ``last`` is the last line of its statement. ``defs`` may be written, ``kills`` (some of them)
    are written for certain: no guard keeps the instruction from it, and the whole is written.
    """

    line: int
    last: int
    defs: tuple[int, ...]
    kills: tuple[int, ...]
    uses: tuple[int, ...]


class Way(StrEnum):
    BRANCH = "branch"
    CALL = "call"
    RETURN = "return"
    EXIT = "exit"
    SYNC = "sync"
    """Threads meet, and go on where the barrier register's ``BSSY`` says (SASS)."""


class Jump(NamedTuple):
    """Where an instruction goes on. ``targets`` are lines; of a call, those of its callee.
    ``falls``: also, or only, with the next instruction. ``barrier``: of ``SYNC``, its register."""

    way: Way
    targets: tuple[int, ...]
    falls: bool
    barrier: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A function's steps in the order of their lines. ``names`` and ``classes`` by register number;
    ``jumps`` by line. ``kinds`` are the classes of its registers in the order of first mention.
    """

    steps: Sequence[Step]
    jumps: Mapping[int, Jump]
    names: Sequence[str] = ()
    classes: Sequence[str] = ()
    kinds: tuple[str, ...] = ()
    entries: tuple[int, ...] = ()
    """Lines other than the first instruction at which code is entered: functions called within."""
    barriers: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """``BSSY`` by line: its barrier register and the line it names."""
    labelled: tuple[int, ...] = ()
    """Lines of the first instructions after labels, used or not (SASS)."""

    def row(self, line: int) -> int | None:
        """The place of the step on a line, None if no instruction begins on it."""
        row = bisect_left(self.steps, line, key=attrgetter("line"))
        return row if row < len(self.steps) and self.steps[row].line == line else None


def declared(listing: Listing, function: Function) -> dict[str, int]:
    """How many registers of each class ``.reg`` declares (``b32``, ``pred``, ``v2.f32``). They are
    virtual: ptxas allocates the machine's registers."""
    out: Counter[str] = Counter()
    lines = listing.between(function.first, function.last) if listing.language == "ptx" else ()
    for line in lines:
        if ".reg" in line.text and line.kind is Kind.DIRECTIVE:
            for regs in register_declarations(strip(line.text, False)[0]):
                out[regs.type] += sum(1 if count is None else count for _, count in regs.names)
    return dict(out)


_WAYS = {
    "bra": Way.BRANCH,
    "brx": Way.BRANCH,
    "call": Way.CALL,
    "ret": Way.RETURN,
    "exit": Way.EXIT,
    "trap": Way.EXIT,
}


def read_ptx(listing: Listing, function: Function) -> Steps:
    reading = FunctionReading(listing, function)
    code = reading.code
    steps: list[Step] = []
    lines: list[int] = []
    leaving: dict[int, list[tuple[int, PtxInstruction]]] = {}
    kinds: dict[str, None] = {}
    for line, rows in groupby(reading.read_instructions(), key=attrgetter("line")):
        defs: dict[int, None] = {}
        kills: dict[int, None] = {}
        uses: dict[int, None] = {}
        for row in rows:
            written, read = row.accesses()
            base = row.parts[0]
            for register in read:
                if register.number not in kills:
                    uses[register.number] = None
            if base == "ret":
                uses.update(dict.fromkeys(_result_registers(code)))
            certain = row.guard is None and line not in leaving
            for register in written:
                number = register.number
                defs[number] = None
                # ``v.x`` writes a part of the vector ``v``
                if certain and "." not in code.registers[number]:
                    kills[number] = None
            if base in _WAYS or line in leaving:
                leaving.setdefault(line, []).append((len(lines), row))
            lines.append(line)
        for register_number in (*defs, *uses):
            kinds[code.registers[register_number]] = None
        last = _last_line(listing, function, line)
        steps.append(Step(line, last, tuple(defs), tuple(kills), tuple(uses)))
    jumps = {line: _jump_of_line(reading, lines, ways) for line, ways in leaving.items()}
    return Steps(steps, jumps, code.names, code.registers, tuple(kinds))


def _result_registers(code: PtxFunction) -> list[int]:
    names = [variable.name for variable in code.results if variable.space == "reg"]
    return [code.names.index(name) for name in names]


def _last_line(listing: Listing, function: Function, line: int) -> int:
    """The last line of an instruction that begins on a line."""
    end = min(function.last, len(listing.lines))
    while line < end:
        following = listing.lines[line]
        if following.kind is not Kind.INSTRUCTION or following.opcode is not None:
            break
        line += 1
    return line


def _jump_of_line(
    reading: FunctionReading, lines: Sequence[int], rows: Sequence[tuple[int, PtxInstruction]]
) -> Jump:
    """Where control goes from a line; of its two jumps, the last says whether it goes on."""
    jump: Jump | None = None
    for index, row in rows:
        if row.base not in _WAYS:
            assert jump is not None
            jump = jump._replace(falls=True)
            continue
        if index in reading.branches:
            row = reading.with_unique_labels(row, reading.branches[index])
        following = _jump(reading.code, lines, row)
        if jump is not None:
            way = Way.BRANCH if jump.way is Way.BRANCH else following.way
            following = Jump(way, jump.targets + following.targets, following.falls)
        jump = following
    assert jump is not None
    return jump


def _jump(code: PtxFunction, lines: Sequence[int], row: PtxInstruction) -> Jump:
    way = _WAYS[row.base]
    labels: Iterable[str] = ()
    if way is Way.BRANCH:
        names = [o.name for o in row.operands if isinstance(o, SymbolOperand)]
        labels = code.tables.get(names[-1], names) if names and row.base == "brx" else names
    places = (code.labels.get(label, len(lines)) for label in labels)
    targets = (lines[index] for index in places if index < len(lines))
    return Jump(way, tuple(dict.fromkeys(targets)), row.guard is not None or row.base == "call")


_LABEL = re.compile(r"`\(([^()\n]*)\)")
_ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_BARRIER = re.compile(r"\bB\d+\b")
_GUARD = re.compile(r"[^@;]*?/\s*(?:\{\s*)?@(!?)(U?P[0-9T])\b")
_OPERANDS = re.compile(r"(?<![\w.])[A-Z][\w.]*+\s++([^;`]*+)")
_LOCAL = re.compile(r"\.?L_x?_?\d+\Z|\.L")
_RETURNS = words("RET PRET")
_EXITS = words("EXIT KILL RTT")
_JUMPS = BRANCHES | _RETURNS | _EXITS | words("BSYNC BSSY SYNC BRK CONT SSY")
_FILES = {"R": "gpr", "P": "pred", "UR": "ugpr", "UP": "upred", "B": "barrier"}
_NAME = re.compile(r"(UR|UP|R|P|B)\d+\Z")


def read_sass(listing: Listing, function: Function) -> Steps:
    lines = listing.lines[function.first - 1 : function.last]
    labels, addresses = _places(lines)
    numbers: dict[str, int] = {}
    classes: list[str] = []
    steps: list[Step] = []
    jumps: dict[int, Jump] = {}
    entries: dict[int, None] = {}
    barriers: dict[int, tuple[str, int]] = {}
    for line in lines:
        if line.opcode is None or line.kind is not Kind.INSTRUCTION:
            continue
        n = line.n
        guard = _GUARD.match(line.text) if "@" in line.text else None
        defs = _numbers(line.defs, numbers, classes)
        kills = () if guard and guard[2] not in ("PT", "UPT") else defs
        steps.append(Step(n, n, defs, kills, _numbers(line.uses, numbers, classes)))
        if line.base not in _JUMPS:
            continue
        targets = _targets(line, labels, addresses)
        if line.base in ("BSSY", "SSY"):
            if targets:
                barriers[n] = (_barrier(line), targets[0])
            continue
        if line.base in CALLS:
            entries.update(dict.fromkeys(targets))
        always = guard is None or (guard[2] in ("PT", "UPT") and not guard[1])
        jump = _sass_jump(line, targets, always)
        if jump is not None:
            jumps[n] = jump
    entries.update((n, None) for label, n in labels.items() if not _LOCAL.match(label))
    return Steps(
        steps,
        jumps,
        tuple(numbers),
        tuple(classes),
        tuple(dict.fromkeys(classes)),
        tuple(entries),
        barriers,
        tuple(dict.fromkeys(labels.values())),
    )


def _sass_jump(line: Line, targets: tuple[int, ...], always: bool) -> Jump | None:
    """Where control goes from an instruction; ``always``: its guard holds in any case."""
    base = line.base
    if base in CALLS:
        return Jump(Way.CALL, targets, True)
    if base in _RETURNS:
        return Jump(Way.RETURN, (), not always)
    if base in _EXITS:
        return Jump(Way.EXIT, (), not always)
    if base in BRANCHES:
        return Jump(Way.BRANCH, targets, not always or _conditional(line))
    if base in ("BSYNC", "SYNC"):
        return Jump(Way.SYNC, (), not always, _barrier(line))
    return None


def _barrier(line: Line) -> str:
    """The barrier's register that an instruction names, "" if it names none."""
    register = _BARRIER.search(line.text)
    return register[0] if register else ""


def _numbers(
    registers: tuple[str, ...], numbers: dict[str, int], classes: list[str]
) -> tuple[int, ...]:
    for register in registers:
        if register not in numbers:
            numbers[register] = len(numbers)
            file = _NAME.match(register)
            # PT, UPT and the like hold no value
            classes.append(_FILES[file[1]] if file else "")
    return tuple(numbers[register] for register in registers)


def _places(lines: Sequence[Line]) -> tuple[dict[str, int], dict[int, int]]:
    """The line of the first instruction at each label, and at each address."""
    labels: dict[str, int] = {}
    addresses: dict[int, int] = {}
    waiting: list[str] = []
    for line in lines:
        if line.label is not None:
            waiting.append(line.label)
        elif line.opcode is not None and line.kind is Kind.INSTRUCTION:
            for label in waiting:
                labels.setdefault(label, line.n)
            waiting = []
            addresses.setdefault(-1 if line.address is None else line.address, line.n)
    return labels, addresses


def _targets(line: Line, labels: dict[str, int], addresses: dict[int, int]) -> tuple[int, ...]:
    """The lines that a jump names, in this function."""
    named = line.targets or _LABEL.findall(line.text) or _ADDRESS.findall(line.text)[-1:]
    places = [labels.get(name) for name in named]
    places += [addresses.get(int(name, 16)) for name in named if _ADDRESS.fullmatch(name[:20])]
    return tuple(dict.fromkeys(line for line in places if line is not None))


def _conditional(line: Line) -> bool:
    """Whether a branch depends on more than its guard: ``BRA P0, …``, ``BRA.DIV UR4, …``."""
    if line.base not in ("BRA", "JMP"):
        return False
    match = _OPERANDS.search(line.text, line.text.find(line.opcode or ""))
    first = match[1].strip().rstrip(",") if match else ""
    conditional = first not in ("", "PT", "UPT") and not first.startswith("0x")
    return conditional or not {"DIV", "CONV"}.isdisjoint((line.opcode or "").split("."))


# Loops of a graph: strongly connected parts, and those that remain without their header.
#
# For a graph whose loops are entered through one block each, these are the natural loops of its
# back edges (those of one header taken together). A loop entered in several places is one as well;
# its header is the first block in which it is entered. (B. Steensgaard, "Sequentializing Program
# Dependence Graphs for Irreducible Programs", 1993.)

MAX_LOOP_DEPTH = 16
"""Loops nested deeper are not looked for: each level takes time linear in the code in it."""

Found = tuple[int, int, tuple[int, ...]]
"""Header, depth (from 1), blocks in order."""


def find_loops(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> list[Found]:
    """The loops among the nodes that are reached from ``entries``; outer ones before inner ones."""
    entries = set(entries)
    among = reached(successors, entries)
    predecessors: list[list[int]] = [[] for _ in successors]
    for node in among:
        for other in successors[node]:
            predecessors[other].append(node)
    out: list[Found] = []
    work: list[tuple[list[int], int]] = [(sorted(among), 1)]
    cut: set[int] = set()  # headers of the loops around
    while work:
        nodes, depth = work.pop()
        for part in _components(nodes, successors, predecessors, cut):
            inside = set(part)
            entered = [
                n for n in part if n in entries or any(p not in inside for p in predecessors[n])
            ]
            header = min(entered or part)
            out.append((header, depth, tuple(sorted(part))))
            if depth < MAX_LOOP_DEPTH and len(part) > 1:
                cut.add(header)
                work.append((sorted(part), depth + 1))
    out.sort(key=lambda loop: (loop[1], loop[0]))
    return out


def reached(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> set[int]:
    """The nodes that are reached from ``entries``, these included."""
    visited = set(entries)
    work = list(visited)
    while work:
        for other in successors[work.pop()]:
            if other not in visited:
                visited.add(other)
                work.append(other)
    return visited


def _components(
    nodes: Sequence[int],
    successors: Sequence[Sequence[int]],
    predecessors: Sequence[Sequence[int]],
    cut: set[int],
) -> list[list[int]]:
    """Strongly connected parts of the graph of ``nodes`` without edges into ``cut``. Kosaraju's
    algorithm without recursion. A single node is one where it goes on with itself."""
    unassigned = set(nodes)
    components: list[list[int]] = []
    for root in reversed(_by_end(nodes, successors, cut)):
        if root not in unassigned:
            continue
        unassigned.discard(root)
        component: list[int] = []
        work = [root]
        while work:
            node = work.pop()
            component.append(node)
            if node not in cut:
                sources = [source for source in predecessors[node] if source in unassigned]
                unassigned.difference_update(sources)
                work += sources
        loops_alone = root in successors[root] and root not in cut
        if len(component) > 1 or loops_alone:
            components.append(component)
    return components


def _by_end(
    nodes: Sequence[int], successors: Sequence[Sequence[int]], cut: set[int]
) -> Sequence[int]:
    """Nodes in the order in which a depth-first search is through with them."""
    unseen = set(nodes)
    finished: dict[int, None] = {}
    work = list(nodes)
    while work:
        node = work[-1]
        if node in unseen:
            unseen.discard(node)
            work += [other for other in successors[node] if other in unseen and other not in cut]
        else:
            finished.setdefault(work.pop())
    return [*finished]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines ``first`` to ``last`` (from 1, both counted in), run from the top to the end.
    ``successors`` and ``predecessors`` are indices into ``Flow.blocks``, in the order of lines."""

    first: int
    last: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Blocks that are run again and again; ``first`` and ``last`` are its lines' bounds.

    ``header`` is the block through which it is entered (the first such, where a loop has several),
    ``depth`` 1 for one that is in no other.
    """

    first: int
    last: int
    blocks: tuple[int, ...]
    header: int
    depth: int


@dataclass(frozen=True, slots=True)
class Flow:
    """``blocks`` in the order of lines; ``entries`` are those at which code is entered.

    ``loops`` are in the order of their depths, so that an outer one is before those in it, and
    then of their headers.
    """

    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    entries: tuple[int, ...]
    _firsts: tuple[int, ...]
    _innermost: tuple[int | None, ...]

    def block_at(self, n: int) -> int | None:
        index = bisect_right(self._firsts, n) - 1
        return index if index >= 0 and n <= self.blocks[index].last else None

    def loop_at(self, n: int) -> Loop | None:
        block = self.block_at(n)
        inner = None if block is None else self._innermost[block]
        return None if inner is None else self.loops[inner]


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """Blocks as ranges of steps, ``starts[i]`` to ``starts[i + 1]``, and their edges."""

    starts: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]
    entries: tuple[int, ...]

    def predecessors(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in self.successors]
        for block, following in enumerate(self.successors):
            for other in following:
                out[other].append(block)
        return out


def read_steps(listing: Listing, function: Function) -> Steps:
    """The steps of a function of PTX or SASS; none of any other language."""
    if listing.language == "ptx":
        return read_ptx(listing, function)
    return read_sass(listing, function) if listing.language == "sass" else Steps((), {})


def control_flow(steps: Steps, graph: FlowGraph) -> Flow:
    """The blocks and loops of a function; ``graph`` is that of its ``steps``."""
    predecessors = graph.predecessors()
    blocks = tuple(
        Block(
            steps.steps[start].line,
            steps.steps[end - 1].last,
            graph.successors[i],
            tuple(predecessors[i]),
        )
        for i, (start, end) in enumerate(pairwise(graph.starts))
    )
    loops: list[Loop] = []
    innermost: list[int | None] = [None] * len(blocks)
    for header, depth, members in find_loops(graph.successors, graph.entries):
        for block in members:
            innermost[block] = len(loops)
        last = max(blocks[block].last for block in members)
        loops.append(Loop(blocks[members[0]].first, last, members, header, depth))
    firsts = tuple(block.first for block in blocks)
    return Flow(blocks, tuple(loops), graph.entries, firsts, tuple(innermost))


def make_graph(steps: Steps) -> FlowGraph:
    rows = steps.steps
    if not rows:
        return FlowGraph((0,), (), ())
    row_of = {step.line: row for row, step in enumerate(rows)}
    starts = (*sorted(_leaders(steps, row_of) - {len(rows)}), len(rows))
    block_of = {rows[start].line: i for i, start in enumerate(starts[:-1])}
    entries = sorted({0, *(block_of[line] for line in steps.entries)})
    edges: list[tuple[int, ...]] = []
    syncs: dict[int, Jump] = {}
    for i, end in enumerate(starts[1:]):
        jump = steps.jumps.get(rows[end - 1].line)
        following: set[int] = set()
        if jump is None or jump.way is Way.CALL or jump.falls:
            following.add(i + 1)
        if jump is not None and jump.way is Way.BRANCH:
            following.update(block_of[target] for target in jump.targets)
        if jump is not None and jump.way is Way.SYNC:
            syncs[i] = jump
        following.discard(len(starts) - 1)
        edges.append(tuple(sorted(following)))
    if syncs:
        sets: list[list[tuple[str, int]]] = [[] for _ in edges]
        for line, (barrier, target) in sorted(steps.barriers.items()):
            block = bisect_right(starts, row_of[line]) - 1
            sets[block].append((barrier, block_of[target]))
        edges = _meet(sets, edges, entries, syncs)
    return FlowGraph(starts, tuple(edges), tuple(entries))


def _leaders(steps: Steps, row_of: Mapping[int, int]) -> set[int]:
    """The rows at which blocks begin: targets, entries, and what is behind a jump."""
    leaders = {0}
    for line, jump in steps.jumps.items():
        leaders.update(row_of[target] for target in jump.targets)
        if jump.way is not Way.CALL:
            leaders.add(row_of[line] + 1)
    leaders.update(row_of[target] for _, target in steps.barriers.values())
    leaders.update(row_of[line] for line in steps.entries)
    return leaders


def _meet(
    sets: Sequence[Sequence[tuple[str, int]]],
    edges: list[tuple[int, ...]],
    entries: Sequence[int],
    syncs: dict[int, Jump],
) -> list[tuple[int, ...]]:
    """The edges with those of ``BSYNC``: to where the barrier's ``BSSY`` on the way here names.

    ``sets`` are the barriers that each block's ``BSSY`` names, with the block to go on with.
    Which ones come here is found forwards, over edges that are found on the way; with no ``BSSY``
    on any way here, control goes on with the next instruction.
    """
    out = [set(following) for following in edges]
    state: list[dict[str, frozenset[int]] | None] = [None] * len(edges)
    for seed in sorted(range(len(edges)), key=lambda block: block not in entries):
        if state[seed] is not None:
            continue
        state[seed] = {}
        work = [seed]
        while work:
            current = work.pop()
            now = dict(state[current] or {})
            for barrier, target in sets[current]:
                now[barrier] = frozenset((target,))
            if (sync := syncs.get(current)) is not None:
                out[current] |= now.pop(sync.barrier, frozenset())
            work += [other for other in out[current] if _join(state, other, now)]
    for current in syncs:
        if not out[current] and current + 1 < len(edges):
            out[current].add(current + 1)
    return [tuple(sorted(following)) for following in out]


def _join(
    state: list[dict[str, frozenset[int]] | None], block: int, new: dict[str, frozenset[int]]
) -> bool:
    """Adds ``new`` to what holds at the start of ``block``; whether that is more than before."""
    old = state[block]
    if old is None:
        state[block] = dict(new)
        return True
    grown = False
    for barrier, targets in new.items():
        known_targets = old.get(barrier, frozenset())
        if not targets <= known_targets:
            old[barrier] = known_targets | targets
            grown = True
    return grown
