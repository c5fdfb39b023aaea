"""How many registers are live at each instruction of a function of PTX or SASS.

A register is live at an instruction that reads or writes it, and between a write and a read of
what it wrote. An instruction under a guard may leave the previous value: it ends no range. Counts
of PTX are by declared class, those of the virtual registers that ``ptxas`` is given; counts of
SASS are those that ``nvdisasm -plr`` prints (see ``sass_live``).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from inspector.analyse.flow.graph import FlowGraph
from inspector.analyse.flow.sass_live import as_nvdisasm
from inspector.analyse.flow.steps import Step, StepRows, Steps
from inspector.listing.line import Function, Listing

# -- backward data flow, on numbers ---------------------------------------------------------------
# Code is looked at in regions: a region is entered at its top only, and may be left on the way.
# Within one, registers are sets; across regions, only those that some region reads before it
# writes them are carried, as bits of an int.


class RegionExit(NamedTuple):
    """After row ``row`` control may go on with the regions ``targets``; ``falls`` with the next."""

    row: int
    targets: tuple[int, ...]
    falls: bool


class Ranges:
    """The live registers of a function.

    ``rows`` are its instructions, ``starts`` the first rows of regions and the number of rows;
    ``exits`` those of each region in the order of rows. The last of a region says what follows it.
    ``classes`` are those of registers by number.

    What a row ``kills`` ends a range that is read further on in the same region. One that is read
    in a later region ends there too, unless a vendor's tool is followed that sees it in another
    way: with ``every``, every write ends it.
    """

    def __init__(
        self,
        rows: StepRows,
        starts: Sequence[int],
        exits: Sequence[Sequence[RegionExit]],
        classes: Sequence[str],
        *,
        every: bool = False,
    ) -> None:
        self.rows = rows
        self._every = every
        self.starts = starts
        self.exits = exits
        self.classes = classes
        self._bits: dict[int, int] = {}
        self._registers: list[int] = []
        self._before = self._solve()

    def region(self, number: int) -> Iterator[tuple[Step, set[int], Counter[str]]]:
        """The rows of a region from the last to the first, with what is live after each, and how
        many of each class. Set and counts are the same objects, changed on the way."""
        classes = self.classes
        leaving = {each.row: each for each in self.exits[number]}
        live: set[int] = set()
        counts: Counter[str] = Counter()
        for at in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
            if (left := leaving.get(at)) is not None:
                if not left.falls:
                    live.clear()
                mask = 0
                for target in left.targets:
                    mask |= self._before[target]
                live.update(self._set(mask))
                counts.clear()
                counts.update(classes[r] for r in live)
            step = self.rows[at]
            yield step, live, counts
            for register in live.intersection(step.kills):
                live.discard(register)
                counts[classes[register]] -= 1
            for register in set(step.uses) - live:
                live.add(register)
                counts[classes[register]] += 1

    def _set(self, mask: int) -> Iterator[int]:
        """The registers of some bits."""
        for at, digit in enumerate(f"{mask:b}"[::-1]):
            if digit == "1":
                yield self._registers[at]

    def _exposed(self) -> list[set[int]]:
        """What each region reads before it writes it."""
        out: list[set[int]] = []
        for number, exits in enumerate(self.exits):
            leaving = {each.row for each in exits if not each.falls}
            read: set[int] = set()
            for at in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
                if at in leaving:
                    read.clear()
                step = self.rows[at]
                read.difference_update(step.kills)
                read.update(step.uses)
            out.append(read)
        return out

    def _solve(self) -> list[int]:
        """What is live at the top of each region, as bits."""
        bits = self._bits
        exposed = self._exposed()
        for read in exposed:
            for register in sorted(read):
                if register not in bits:
                    bits[register] = len(bits)
        self._registers = list(bits)
        before = [self._mask(read) for read in exposed]
        passing: list[list[tuple[int, int]]] = []
        sources: list[list[int]] = [[] for _ in exposed]
        for number, exits in enumerate(self.exits):
            hidden: set[int] = set()
            mask, at = 0, self.starts[number]
            ways: list[tuple[int, int]] = []
            for each in exits:
                if not each.targets:
                    continue
                for step in self.rows.between(at, each.row + 1):
                    hides = step.defs if self._every else step.kills
                    hidden.update(r for r in hides if r in bits)
                at = each.row + 1
                if hidden:
                    mask |= self._mask(hidden)
                    hidden.clear()
                ways += [(target, ~mask) for target in each.targets]
            passing.append(ways)
            for target, _ in ways:
                sources[target].append(number)
        work = list(range(len(before)))
        waiting = set(work)
        while work:
            number = work.pop()
            waiting.discard(number)
            mask = before[number]
            for target, kept in passing[number]:
                mask |= before[target] & kept
            if mask != before[number]:
                before[number] = mask
                for source in sources[number]:
                    if source not in waiting:
                        waiting.add(source)
                        work.append(source)
        return before

    def _mask(self, registers: set[int]) -> int:
        """The bits of ``registers``, made in time linear in how many there are."""
        if not registers:
            return 0
        data = bytearray((len(self._bits) + 7) // 8)
        for register in registers:
            bit = self._bits[register]
            data[bit >> 3] |= 1 << (bit & 7)
        return int.from_bytes(data, "little")


@dataclass(frozen=True, slots=True)
class Liveness:
    """The live registers of a function, by class.

    ``classes``: of PTX as declared (``b32``, ``pred``), and ``undeclared``; of SASS those of ``gpr
    pred ugpr upred`` that occur. ``peak``: for each the highest count, and the first line with it.
    """

    classes: tuple[str, ...]
    peak: Mapping[str, tuple[int, int]]
    _counts: Sequence[int]
    """Of each row its place in ``_distinct``."""
    _distinct: Sequence[Mapping[str, int]]
    _steps: Steps
    _ranges: Ranges

    def at(self, n: int) -> Mapping[str, int] | None:
        """Live registers by class at line ``n``; None if no instruction begins on it."""
        row = self._steps.steps.row(n)
        return None if row is None else self._distinct[self._counts[row]]

    def registers(self, n: int) -> Set[str] | None:
        """The names of what is live at line ``n``; takes time linear in its region."""
        steps, ranges = self._steps, self._ranges
        row = steps.steps.row(n)
        if row is None:
            return None
        for step, live, _ in ranges.region(bisect_right(ranges.starts, row) - 1):
            if step.line == n:
                here = live.union(step.defs, step.uses)
                return frozenset(steps.names[r] for r in here if steps.classes[r])
        return None


def live_ranges(listing: Listing, function: Function, steps: Steps, graph: FlowGraph) -> Liveness:
    """The live registers at each instruction of ``function``, whose ``steps`` and ``graph`` these
    are; without any class where it has no steps."""
    if listing.language == "sass":
        steps = as_nvdisasm(listing, function, steps, graph)
    starts = (*_regions(steps, graph), len(steps.steps))
    sass = listing.language == "sass"
    ranges = Ranges(steps.steps, starts, _exits(graph, starts), steps.classes, every=sass)
    return _count(steps, ranges)


def _regions(steps: Steps, graph: FlowGraph) -> list[int]:
    """The first rows of regions: at labels, and where control comes from elsewhere than above."""
    heads = {row for line in steps.labelled if (row := steps.steps.row(line)) is not None}
    before = graph.predecessors()
    for block, start in enumerate(graph.starts[:-1]):
        if block in graph.entries or before[block] != [block - 1]:
            heads.add(start)
    return sorted(heads)


def _exits(graph: FlowGraph, starts: Sequence[int]) -> list[list[RegionExit]]:
    """The ways out of each region."""
    number = {start: i for i, start in enumerate(starts[:-1])}
    out: list[list[RegionExit]] = [[] for _ in starts[:-1]]
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
        out[block].append(RegionExit(row, targets, falls))
    return out


def _count(steps: Steps, ranges: Ranges) -> Liveness:
    """The counts of every row: what is live after it, and what it reads and writes."""
    classes = tuple(name for name in steps.kinds if name)
    places: dict[tuple[int, ...], int] = {}
    counts = array("I", bytes(4 * len(steps.steps)))
    peak: dict[str, tuple[int, int]] = {}
    for region in range(len(ranges.starts) - 1):
        at = ranges.starts[region + 1]
        for step, live, now in ranges.region(region):
            at -= 1
            extra = Counter([steps.classes[r] for r in {*step.defs, *step.uses} - live])
            here = tuple([now[name] + extra[name] for name in classes])
            counts[at] = places.setdefault(here, len(places))
    distinct = [MappingProxyType(dict(zip(classes, here, strict=True))) for here in places]
    for at, name in enumerate(classes if distinct else ()):
        most = max(here[at] for here in places)
        highest = {place for here, place in places.items() if here[at] == most}
        first = next(row for row, place in enumerate(counts) if place in highest)
        peak[name] = (most, steps.steps.line(first))
    return Liveness(classes, MappingProxyType(peak), counts, distinct, steps, ranges)
