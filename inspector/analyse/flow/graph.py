"""Control flow of a function of PTX or SASS: basic blocks, edges, loops.

Edges of PTX are those of the PTX ISA ("Control Flow Instructions"): ``bra``, ``brx.idx`` with its
``.branchtargets``, ``ret``, ``exit``, ``trap``. Edges of SASS were read off ``nvdisasm -bbcfg``.
A call goes on with the next instruction; a function called within the section begins with a block
that has no predecessor from its callers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from inspector.analyse.flow.ptx_steps import read_ptx
from inspector.analyse.flow.sass_steps import read_sass
from inspector.analyse.flow.steps import Jump, StepRows, Steps, Way
from inspector.listing.line import Function, Listing

# -- loops ----------------------------------------------------------------------------------------
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
    reached = _reached(successors, entries)
    predecessors: list[list[int]] = [[] for _ in successors]
    for node in reached:
        for other in successors[node]:
            predecessors[other].append(node)
    out: list[Found] = []
    work: list[tuple[list[int], int]] = [(sorted(reached), 1)]
    cut: set[int] = set()  # headers of the loops around
    while work:
        nodes, depth = work.pop()
        for part in _components(nodes, successors, cut):
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


def _reached(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> set[int]:
    seen = set(entries)
    work = list(seen)
    while work:
        for other in successors[work.pop()]:
            if other not in seen:
                seen.add(other)
                work.append(other)
    return seen


def _components(
    nodes: Sequence[int], successors: Sequence[Sequence[int]], cut: set[int]
) -> list[list[int]]:
    """Strongly connected parts of the graph of ``nodes`` without edges into ``cut``.

    Tarjan's algorithm without recursion. A single node is one where it goes on with itself.
    """
    inside = set(nodes)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    out: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(successors[root]))]
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in inside or other in cut:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(successors[other])))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    part: list[int] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        part.append(member)
                        if member == node:
                            break
                    if len(part) > 1 or (node in successors[node] and node not in cut):
                        out.append(part)
    return out


@dataclass(frozen=True, slots=True)
class Block:
    """Lines ``first`` to ``last`` (from 1, both counted in), run from the top to the end.

    ``successors`` and ``predecessors`` are indices into ``Flow.blocks``, in the order of lines.
    """

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
        """The block that line ``n`` is in, None if it is in none."""
        at = bisect_right(self._firsts, n) - 1
        return at if at >= 0 and n <= self.blocks[at].last else None

    def loop_at(self, n: int) -> Loop | None:
        """The innermost loop that line ``n`` is in."""
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
        """The other way round."""
        out: list[list[int]] = [[] for _ in self.successors]
        for block, following in enumerate(self.successors):
            for other in following:
                out[other].append(block)
        return out


def read_steps(listing: Listing, function: Function) -> Steps:
    """The steps of a function of PTX or SASS; none of any other language."""
    if listing.language == "ptx":
        return read_ptx(listing, function)
    if listing.language == "sass":
        return read_sass(listing, function)
    return Steps(StepRows(), {})


def control_flow(steps: Steps, graph: FlowGraph) -> Flow:
    """The blocks and loops of a function; ``graph`` is that of its ``steps``."""
    before = graph.predecessors()
    blocks = tuple(
        Block(
            steps.steps[start].line,
            steps.steps[end - 1].last,
            graph.successors[i],
            tuple(before[i]),
        )
        for i, (start, end) in enumerate(zip(graph.starts, graph.starts[1:], strict=False))
    )
    found = find_loops(graph.successors, graph.entries)
    loops: list[Loop] = []
    innermost: list[int | None] = [None] * len(blocks)
    for header, depth, members in found:
        for block in members:
            innermost[block] = len(loops)
        last = max(blocks[block].last for block in members)
        loops.append(Loop(blocks[members[0]].first, last, members, header, depth))
    firsts = tuple(block.first for block in blocks)
    return Flow(blocks, tuple(loops), graph.entries, firsts, tuple(innermost))


def make_graph(steps: Steps) -> FlowGraph:
    """Blocks and edges of some steps."""
    rows = steps.steps
    if not len(rows):
        return FlowGraph((0,), (), ())
    leaders: set[int | None] = {0}
    for line, leaving in steps.jumps.items():
        leaders.update(map(rows.row, leaving.targets))
        if leaving.way is not Way.CALL:
            leaders.add(_row(steps, line) + 1)
    leaders.update(_row(steps, target) for _, target in steps.barriers.values())
    leaders.update(map(rows.row, steps.entries))
    starts = (*sorted(row for row in leaders if row is not None and row < len(rows)), len(rows))
    block_of = {start: i for i, start in enumerate(starts)}
    entered = (steps.steps.row(line) for line in steps.entries)
    entries = {0: None} | {block_of[row]: None for row in entered if row is not None}
    edges: list[tuple[int, ...]] = []
    syncs: dict[int, Jump] = {}
    for i, end in enumerate(starts[1:]):
        jump = steps.jumps.get(rows[end - 1].line)
        out: set[int] = set()
        if jump is None or jump.way is Way.CALL or jump.falls:
            out.add(i + 1)
        if jump is not None and jump.way is Way.BRANCH:
            out.update(block_of[_row(steps, t)] for t in jump.targets)
        if jump is not None and jump.way is Way.SYNC:
            syncs[i] = jump
        out.discard(len(starts) - 1)
        edges.append(tuple(sorted(out)))
    if syncs:
        edges = _meet(steps, starts, edges, tuple(entries), syncs, block_of)
    return FlowGraph(starts, tuple(edges), tuple(sorted(entries)))


def _row(steps: Steps, line: int) -> int:
    """The row of a line on which an instruction begins."""
    row = steps.steps.row(line)
    if row is None:
        raise KeyError(line)
    return row


def _meet(
    steps: Steps,
    starts: tuple[int, ...],
    edges: list[tuple[int, ...]],
    entries: tuple[int, ...],
    syncs: dict[int, Jump],
    block_of: dict[int, int],
) -> list[tuple[int, ...]]:
    """The edges with those of ``BSYNC``: to where the barrier's ``BSSY`` on the way here names.

    Which ones come here is found forwards, over edges that are found on the way; with no ``BSSY``
    on any way here, control goes on with the next instruction.
    """
    sets: list[list[tuple[str, int]]] = [[] for _ in edges]
    block = 0
    for i, step in enumerate(steps.steps):
        while starts[block + 1] <= i:
            block += 1
        if (mark := steps.barriers.get(step.line)) is not None:
            sets[block].append((mark[0], block_of[_row(steps, mark[1])]))
    out = [set(following) for following in edges]
    state: list[dict[str, frozenset[int]] | None] = [None] * len(edges)
    seeds = list(range(len(edges)))
    seeds.sort(key=lambda b: b not in entries)
    for seed in seeds:
        if state[seed] is not None:
            continue
        state[seed] = {}
        work = [seed]
        while work:
            here = work.pop()
            now = dict(state[here] or {})
            for barrier, target in sets[here]:
                now[barrier] = frozenset((target,))
            if (sync := syncs.get(here)) is not None:
                out[here] |= now.pop(sync.barrier, frozenset())
            work += [other for other in out[here] if _join(state, other, now)]
    for here in syncs:
        if not out[here] and here + 1 < len(edges):
            out[here].add(here + 1)
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
        before = old.get(barrier, frozenset())
        if not targets <= before:
            old[barrier] = before | targets
            grown = True
    return grown
