"""Which lines may have written what a line reads, and which may read what it writes.

A write under a guard may not happen, so those before it count as well. A SASS call may write what
the function called does, as far as that stands in the same section, and otherwise what the calling
convention leaves to it (see ``sass_live``); what a function is given by its callers is not known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from inspector.analyse.dominators import Dominators
from inspector.analyse.flow.graph import FlowGraph
from inspector.analyse.flow.sass_live import scratch
from inspector.analyse.flow.steps import Step, Steps, Way


class Chains:
    """Definitions and uses of a function's registers, found when they are asked for.

    What is kept of a register is where its value may change, and nothing of the blocks that it is
    merely live in: those of a function with thousands of branches are millions.
    """

    def __init__(self, steps: Steps, graph: FlowGraph) -> None:
        self._all = steps
        self._steps = steps.steps
        self._names = steps.names
        self._graph = graph
        self._writes = _rows_by_register(step.defs for step in steps.steps)
        self._reads = _rows_by_register(step.uses for step in steps.steps)
        self._places: dict[int, _Places] = {}

    def definitions(self, n: int, register: str) -> tuple[int, ...]:
        """The lines that may have written ``register`` as line ``n`` reads it, in their order.

        Empty where the line does not read it, or nothing in the function writes it.
        """
        place = self._find(n, register, reads=True)
        if place is None:
            return ()
        row, number = place
        block = self._block(row)
        rows, others = self._above(number, self._graph.starts[block], row)
        if others:
            rows += self._entering(number, block)
        return self._as_lines(rows)

    def uses(self, n: int, register: str) -> tuple[int, ...]:
        """The lines that may read ``register`` as line ``n`` writes it, in their order.

        Empty where the line does not write it.
        """
        place = self._find(n, register, reads=False)
        if place is None:
            return ()
        row, number = place
        reads = self._reads.get(number, ())
        out: list[int] = []
        block = self._block(row)
        work = [(block, row + 1)]
        seen: set[int] = set()
        while work:
            block, start = work.pop()
            end = self._graph.starts[block + 1]
            stop = self._killed(number, start, end)
            last = end if stop is None else stop + 1
            out += reads[bisect_left(reads, start) : bisect_left(reads, last)]
            if stop is None:
                for other in self._graph.successors[block]:
                    if other not in seen:
                        seen.add(other)
                        work.append((other, self._graph.starts[other]))
        return self._as_lines(out)

    def _find(self, n: int, register: str, *, reads: bool) -> tuple[int, int] | None:
        row = self._all.row(n)
        if row is None:
            return None
        step = self._steps[row]
        for number in step.uses if reads else step.defs:
            if self._names[number] == register:
                return row, number
        return None

    def _block(self, row: int) -> int:
        return bisect_right(self._graph.starts, row) - 1

    def _as_lines(self, rows: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._steps[row].line for row in sorted(set(rows)))

    def _above(self, number: int, start: int, row: int) -> tuple[list[int], bool]:
        """The writes from row ``start`` that reach ``row``, and whether earlier ones may."""
        writes = self._writes.get(number, ())
        out: list[int] = []
        for at in range(bisect_left(writes, row) - 1, -1, -1):
            write = writes[at]
            if write < start:
                break
            out.append(write)
            if number in self._steps[write].kills:
                return out, False
        return out, True

    def _killed(self, number: int, start: int, end: int) -> int | None:
        """The first row from ``start`` to ``end`` that writes ``number`` for certain."""
        writes = self._writes.get(number, ())
        for at in range(bisect_left(writes, start), bisect_left(writes, end)):
            if number in self._steps[writes[at]].kills:
                return writes[at]
        return None

    def _entering(self, number: int, block: int) -> list[int]:
        """The writes of a register that reach the start of a block."""
        places = self._places_of(number)
        starts, tree = self._graph.starts, self._tree
        out: list[int] = []
        seen: set[int] = set()
        work = [block]
        while work:
            at = places.entering(tree, work.pop())
            if at is None or at in seen:
                continue
            seen.add(at)
            # What meets at its start comes from every side; else it is written in the block.
            sides = tree.predecessors[~at] if at < 0 else (at,)
            for side in sides:
                if side in places.written:
                    rows, others = self._above(number, starts[side], starts[side + 1])
                    out += rows
                    if not others:
                        continue
                work.append(side)
        return out

    @cached_property
    def _tree(self) -> Dominators:
        return Dominators(self._graph.successors, self._graph.entries)

    def _places_of(self, number: int) -> _Places:
        places = self._places.get(number)
        if places is None:
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            written = {self._block(row) for row in self._writes.get(number, ())}
            places = self._places[number] = _Places(written, self._tree)
        return places


def _rows_by_register(each: Iterable[Iterable[int]]) -> Mapping[int, list[int]]:
    """The rows of each register, ascending."""
    out: dict[int, list[int]] = defaultdict(list)
    for row, registers in enumerate(each):
        for register in set(registers):
            out[register].append(row)
    return out


MOST_PLACES = 4096
"""Registers of which is kept where their values come from; that of one is soon found again."""


class _Places:
    """Where the value of one register may change: blocks that write it, and those at whose start
    different values meet. In between, it is the one of the nearest such block above."""

    def __init__(self, written: set[int], tree: Dominators) -> None:
        self.written = written
        self.meeting = tree.meeting(written)
        self._blocks = sorted(written | self.meeting, key=lambda b: tree.first[b])
        self._firsts = [tree.first[b] for b in self._blocks]
        self._above: list[int] = []
        open_: list[int] = []
        for i, block in enumerate(self._blocks):
            while open_ and tree.last[self._blocks[open_[-1]]] < tree.first[block]:
                open_.pop()
            self._above.append(open_[-1] if open_ else -1)
            open_.append(i)

    def entering(self, tree: Dominators, block: int) -> int | None:
        """Where the value at a block's start is from: the end of a block that writes it, ``~b``
        for what meets at the start of ``b``; None if nothing was written."""
        if block in self.meeting:
            return ~block
        here = tree.first[block]
        at = bisect_left(self._firsts, here) - 1
        while at >= 0 and tree.last[self._blocks[at]] < here:
            at = self._above[at]
        if at < 0:
            return None
        nearest = self._blocks[at]
        return nearest if nearest in self.written else ~nearest


def chains(steps: Steps, graph: FlowGraph, *, calls: bool) -> Chains:
    """The definitions and uses of a function.

    ``calls`` says whether a call may write registers that its line does not name: it may in SASS,
    while one of PTX names all that it gives.
    """
    return Chains(_with_calls(steps, graph) if calls else steps, graph)


def _with_calls(steps: Steps, graph: FlowGraph) -> Steps:
    """SASS: calls with what they may write."""
    calls = [jump for jump in steps.jumps.values() if jump.way is Way.CALL]
    if not calls:
        return steps
    written = _written(steps, graph, {t for jump in calls for t in jump.targets})
    other = tuple(i for i, name in enumerate(steps.names) if scratch(name))
    out: list[Step] = []
    for step in steps.steps:
        jump = steps.jumps.get(step.line)
        if jump is not None and jump.way is Way.CALL:
            made = written[jump.targets[0]] if jump.targets else other
            step = step._replace(defs=tuple(dict.fromkeys((*step.defs, *made))))
        out.append(step)
    return replace(steps, steps=out)


def _written(steps: Steps, graph: FlowGraph, callees: set[int]) -> dict[int, tuple[int, ...]]:
    """What the functions that begin at these lines write, those that they call included."""
    out: dict[int, tuple[int, ...]] = {}
    starts = graph.starts

    def block_of(line: int) -> int:
        return bisect_right(starts, steps.row(line) or 0) - 1

    for callee in callees:
        first = block_of(callee)
        seen = {first}
        work = [first]
        made: set[int] = set()
        while work:
            block = work.pop()
            following = list(graph.successors[block])
            for step in steps.steps[starts[block] : starts[block + 1]]:
                made.update(step.defs)
                jump = steps.jumps.get(step.line)
                if jump is not None and jump.way is Way.CALL:
                    following += map(block_of, jump.targets)
            for other in following:
                if other not in seen:
                    seen.add(other)
                    work.append(other)
        out[callee] = tuple(sorted(made))
    return out
