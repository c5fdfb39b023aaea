"""How many registers are live at each instruction of a function of PTX or SASS.

A register is live at an instruction that reads or writes it, and between a write and a read of
what it wrote. An instruction under a guard may leave what was there, so it ends no range. Counts
of PTX are by declared class, those of the virtual registers that ``ptxas`` is given; counts of
SASS are those that ``nvdisasm -plr`` prints (see ``sass_live``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

from inspector.analyse.flow import Graph, make_graph, read_steps
from inspector.analyse.ranges import Exit, Ranges, Row
from inspector.analyse.sass_live import as_nvdisasm
from inspector.analyse.steps import Steps
from inspector.listing import Function, Listing


@dataclass(frozen=True, slots=True)
class Liveness:
    """The live registers of a function, by class.

    ``classes``: of PTX as declared (``b32``, ``pred``), and ``undeclared``; of SASS those of ``gpr
    pred ugpr upred`` that occur. ``peak``: for each the highest count, and the first line with it.
    """

    classes: tuple[str, ...]
    peak: Mapping[str, tuple[int, int]]
    _counts: Mapping[int, tuple[int, ...]]
    _names: tuple[str, ...]
    _lines: tuple[int, ...]
    _ranges: Ranges

    def at(self, n: int) -> Mapping[str, int] | None:
        """Live registers by class at line ``n``; None where no instruction begins on it."""
        counts = self._counts.get(n)
        if counts is None:
            return None
        return MappingProxyType(dict(zip(self.classes, counts, strict=True)))

    def registers(self, n: int) -> Set[str] | None:
        """The names of what is live at line ``n``; takes time linear in its region."""
        row = bisect_left(self._lines, n)
        if row == len(self._lines) or self._lines[row] != n:
            return None
        ranges = self._ranges
        for at, live, _, _ in ranges.region(bisect_right(ranges.starts, row) - 1):
            if at == row:
                here = live.union(ranges.rows[at].defs, ranges.rows[at].uses)
                return frozenset(self._names[r] for r in here if self._names[r])
        return None


def live_ranges(listing: Listing, function: Function) -> Liveness:
    """The live registers at each instruction of ``function``.

    Without any class where the language is neither PTX nor SASS, or there is no instruction.
    """
    steps = read_steps(listing, function)
    graph = make_graph(steps)
    if listing.language == "sass":
        steps = as_nvdisasm(listing, function, steps, graph)
        rows = [Row(s.uses, s.defs, s.kills, s.defs) for s in steps.steps]
    else:
        rows = [Row(s.uses, s.defs, s.kills, s.kills) for s in steps.steps]
    starts = (*_regions(steps, graph), len(rows))
    ranges = Ranges(rows, starts, _exits(graph, starts))
    return _count(steps, ranges)


def _regions(steps: Steps, graph: Graph) -> list[int]:
    """The first rows of regions: at labels, and where control comes from elsewhere than above."""
    labelled = set(steps.labelled)
    heads = {i for i, step in enumerate(steps.steps) if step.line in labelled}
    before = graph.predecessors()
    for block, start in enumerate(graph.starts[:-1]):
        if block in graph.entries or before[block] != [block - 1]:
            heads.add(start)
    return sorted(heads)


def _exits(graph: Graph, starts: Sequence[int]) -> list[list[Exit]]:
    """The ways out of each region."""
    number = {start: i for i, start in enumerate(starts[:-1])}
    out: list[list[Exit]] = [[] for _ in starts[:-1]]
    block = 0
    ends = {end - 1: i for i, end in enumerate(graph.starts[1:])}
    lasts = {end - 1 for end in starts[1:]}
    for row in sorted(ends.keys() | lasts):
        while starts[block + 1] <= row:
            block += 1
        if row in ends:
            following = [graph.starts[s] for s in graph.successors[ends[row]]]
            falls = row + 1 in following and row + 1 not in number
            targets = tuple(number[s] for s in following if s in number)
        else:  # within a block of the graph, where a label stands that nothing names
            falls, targets = False, (number[row + 1],)
        out[block].append(Exit(row, targets, falls))
    return out


def _count(steps: Steps, ranges: Ranges) -> Liveness:
    """The counts of every row: what is live after it, and what it reads and writes."""
    classes = tuple(dict.fromkeys(name for name in steps.classes if name))
    index = {name: i for i, name in enumerate(classes)}
    of = [index.get(name, -1) for name in steps.classes]
    counts: dict[int, tuple[int, ...]] = {}
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    rows = ranges.rows
    lines = tuple(step.line for step in steps.steps)
    for region in range(len(ranges.starts) - 1):
        now = [0] * len(classes)
        for at, live, more, less in ranges.region(region):
            row = rows[at]
            for r in more:
                if of[r] >= 0:
                    now[of[r]] += 1
            for r in less:
                if of[r] >= 0:
                    now[of[r]] -= 1
            here = now
            extra = [r for r in (*row.defs, *row.uses) if r not in live and of[r] >= 0]
            if extra:
                here = now.copy()
                for r in set(extra):
                    here[of[r]] += 1
            key = tuple(here)
            counts[lines[at]] = shared.setdefault(key, key)
    peak: dict[str, tuple[int, int]] = {}
    for line in lines:
        for name, count in zip(classes, counts[line], strict=True):
            if name not in peak or count > peak[name][0]:
                peak[name] = (count, line)
    names = tuple(n if of[i] >= 0 else "" for i, n in enumerate(steps.names))
    return Liveness(classes, MappingProxyType(peak), counts, names, lines, ranges)
