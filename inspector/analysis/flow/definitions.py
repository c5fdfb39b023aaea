"""Which lines may have written what a line reads, and which may read what it writes.

A write under a guard may not happen, so those before it count as well. A SASS call may write what
the function called does, where that is in the same section, and otherwise what the calling
convention leaves to it (see ``sass_live``); what a function is given by its callers is not known.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.analysis.flow.graph import FlowGraph, Step, Steps, Way, reached
from inspector.analysis.flow.liveness import scratch
from inspector.base.grouping import by_key


class Chains:
    """Definitions and uses of a function's registers, found when they are asked for."""

    def __init__(self, steps: Steps, graph: FlowGraph) -> None:
        self._steps = steps
        self._graph = graph
        rows = tuple(enumerate(steps.steps))
        self._writes = by_key((number, row) for row, step in rows for number in step.defs)
        self._reads = by_key((number, row) for row, step in rows for number in step.uses)
        """The rows that write and read each register, ascending."""
        self._known: dict[int, Mapping[int, list[int]]] = {}

    def definitions(self, n: int, register: str) -> tuple[int, ...]:
        """The lines that may have written ``register`` as line ``n`` reads it, in their order.
        Empty where the line does not read it, or nothing in the function writes it."""
        row, number = self._numbered(n, register, "uses")
        return self._as_lines(() if number is None else self._sources(number).get(row, ()))

    def uses(self, n: int, register: str) -> tuple[int, ...]:
        """The lines that may read ``register`` as line ``n`` writes it, in their order. Empty where
        the line does not write it."""
        row, number = self._numbered(n, register, "defs")
        return self._as_lines(() if number is None else self._readers(number, row))

    def _numbered(self, n: int, register: str, side: str) -> tuple[int, int | None]:
        """The row of line ``n``, and the number of a register among its ``defs`` or ``uses``."""
        row = self._steps.row(n)
        numbers = () if row is None else getattr(self._steps.steps[row], side)
        matching = (number for number in numbers if self._steps.names[number] == register)
        return row or 0, next(matching, None)

    def _sources(self, number: int) -> Mapping[int, list[int]]:
        """For each row that reads a register, the rows that may have written it."""
        if number not in self._known:
            writers: dict[int, list[int]] = {}
            for write in self._writes.get(number, ()):
                for read in self._readers(number, write):
                    writers.setdefault(read, []).append(write)
            self._known[number] = writers
        return self._known[number]

    def _as_lines(self, rows: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._steps.steps[row].line for row in sorted(set(rows)))

    def _readers(self, number: int, row: int) -> set[int]:
        """The rows that may read what ``row`` writes: every way on, up to where it is killed."""
        starts = self._graph.starts
        reads = self._reads.get(number, ())
        work = [(bisect_right(starts, row) - 1, row + 1)]
        queued: set[int] = set()
        out: set[int] = set()
        while work and len(out) < len(reads):
            block, start = work.pop()
            end = starts[block + 1]
            rows = _between(self._writes.get(number, ()), start, end)
            stop = next((row for row in rows if number in self._steps.steps[row].kills), None)
            out.update(_between(reads, start, end if stop is None else stop + 1))
            if stop is None:
                following = [b for b in self._graph.successors[block] if b not in queued]
                queued.update(following)
                work += [(other, starts[other]) for other in following]
        return out


def _between(rows: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Of ascending rows those from ``start`` to ``end``, without the last."""
    return rows[bisect_left(rows, start) : bisect_left(rows, end)]


def chains(steps: Steps, graph: FlowGraph, *, calls: bool) -> Chains:
    """The definitions and uses of a function. ``calls`` says whether a call may write registers
    that its line does not name: it may in SASS, while one of PTX names all that it gives."""
    return Chains(_with_calls(steps, graph) if calls else steps, graph)


def _with_calls(steps: Steps, graph: FlowGraph) -> Steps:
    calls = [jump for jump in steps.jumps.values() if jump.way is Way.CALL]
    if not calls:
        return steps
    written = _written(steps, graph, {t for jump in calls for t in jump.targets})
    other = tuple(i for i, name in enumerate(steps.names) if scratch(name))
    out: list[Step] = []
    for step in steps.steps:
        jump = steps.jumps.get(step.line)
        if jump is not None and jump.way is Way.CALL:
            written_by_call = written[jump.targets[0]] if jump.targets else other
            step = step._replace(defs=tuple(dict.fromkeys((*step.defs, *written_by_call))))
        out.append(step)
    return replace(steps, steps=out)


def _written(steps: Steps, graph: FlowGraph, callees: set[int]) -> dict[int, tuple[int, ...]]:
    """What the functions that begin at these lines write, those that they call included."""
    starts = graph.starts

    def block_of(line: int) -> int:
        return bisect_right(starts, steps.row(line) or 0) - 1

    following = [list(targets) for targets in graph.successors]
    for line, jump in steps.jumps.items():
        if jump.way is Way.CALL:
            following[block_of(line)] += map(block_of, jump.targets)
    out: dict[int, tuple[int, ...]] = {}
    for callee in callees:
        blocks = reached(following, {block_of(callee)})
        body_steps = (step for b in blocks for step in steps.steps[starts[b] : starts[b + 1]])
        out[callee] = tuple(sorted({register for step in body_steps for register in step.defs}))
    return out
