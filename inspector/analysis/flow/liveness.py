"""How many registers are live at each instruction of a function of PTX or SASS.

A register is live at an instruction that reads or writes it, and between a write and a read of
what it wrote. An instruction under a guard may leave the previous value: it ends no range. Counts
of PTX are by declared class, those of the virtual registers that ``ptxas`` is given. Counts of SASS
are those that ``nvdisasm -plr`` prints. NVIDIA documents the option (CUDA Binary Utilities,
"nvdisasm"), and not what it does: these conventions were read off its output, of versions 12.8 and
13.5, and the tests compare every instruction.

- Within a region (code between two labels, branches out of it included) a guarded write ends no
  range, as it may leave the previous value. Across regions it does: a register that is read further
  on, and only written under a guard in this region, is not live before it.
- nvdisasm 13.5 has labels that no instruction names, at those that the file's own records name (one
  that a warp executes together, an exit), and each begins a region. Of a file of the older ELF ABI
  (``.headerflags`` in its listing, not ``.target``) it writes them too, but counts nothing; that
  is left to the versions before 13, which write no such label, and to which they begin no region.
- A guard that is a uniform predicate (``@UP0``) is as no guard.
- ``P2R`` and ``R2P`` are not seen to read and write the predicates behind ``PR``.
- A call reads R0 and R1; it writes R0, R3 to R15, and of those from R32 the first four of every
  eight, P0 to P6, UR4 to UR35 and every UP. The others are its caller's and live through it. At a
  return those of the caller's are live: R1, R2, R16 to R31, and the last four of every eight from
  R32. Counted are those that the function has: two more than the highest that it or a function
  that it calls names, but none above the highest that the whole file names. (The count is in the
  binary's ``EIATTR_REGCOUNT``, which is not in the text.)
- R1, the stack's pointer, is live wherever control leaves straight-line code.
- On sm_80 to sm_89 a global access reads a descriptor in a pair of uniform registers that its text
  does not name. It is the pair that ``ULDC.64 UR4, c[0x0][0x118]`` loaded, or that
  ``R2UR`` made of the registers that ``c[0x0][0x118]`` was moved to, as code without optimisation
  does.
- Barrier registers are not counted.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from inspector.analysis.flow.graph import FlowGraph, Step, Steps, Way
from inspector.parsers.line import Function, Kind, Line, Listing

_UNIFORM_GUARD = re.compile(r"\*/\s*(?:\{\s*)?@!?UP\d")
_GUARD = re.compile(r"@!?(U?P\d)")
_DESCRIPTOR = re.compile(r"\bUR(\d{1,9}+)(?!\d), c\[0x0\]\[0x118\]")
_DESCRIPTOR_COPY = re.compile(r"\bMOV R(\d{1,9}+)(?!\d), c\[0x0\]\[0x118\]")
_TO_UNIFORM = re.compile(r"\bR2UR UR(\d{1,9}+), R(\d{1,9}+)\b")
_REGISTER = re.compile(r"(UR|UP|R|P)(\d{1,3})\Z")
_LOCAL_LABEL = re.compile(r"\.L[\w$.]*")
_CALLEE = re.compile(r"`\(([^()\n]*)\)")
_INDIRECT = re.compile(r"\bCALL[\w.]*\s+(?:U?R\d+|c\[)")
_GLOBAL = frozenset(("LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "LDGSTS", "CCTL"))
_FILES = {"R": "gpr", "P": "pred", "UR": "ugpr", "UP": "upred"}


@dataclass(frozen=True, slots=True)
class Extent:
    """The highest register of each file that a listing names, -1 for none; ``R`` by function.
    ``highest["R"]`` also counts what is live at returns."""

    highest: dict[str, int]
    by_function: dict[str, int]


class _Rewriting:
    """The steps of one function, with what ``nvdisasm -plr`` sees in each instruction."""

    def __init__(self, listing: Listing, function: Function, steps: Steps) -> None:
        self.listing = listing
        self.function = function
        self.old = steps
        self.lines = listing.lines[function.first - 1 : function.last]
        self.names = {name: i for i, name in enumerate(steps.names)}
        self.classes = list(steps.classes)

    def number(self, name: str) -> int:
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.names)
            file = _REGISTER.match(name)
            self.classes.append(_FILES[file[1]] if file else "")
        return number

    def steps(self, graph: FlowGraph) -> Steps:
        descriptors = self._descriptors(graph)
        stack = self.number("R1")
        leaving = {end - 1 for end in graph.starts[1:]}
        out: list[Step] = []
        for i, step in enumerate(self.old.steps):
            step = self._with_hidden_accesses(step, self.lines[step.line - self.function.first])
            if i in leaving:
                step = step._replace(uses=(*step.uses, stack))
            if (pair := descriptors.get(i)) is not None:
                used = (self.number(f"UR{pair}"), self.number(f"UR{pair + 1}"))
                step = step._replace(uses=(*step.uses, *used))
            out.append(step)
        classes = tuple("" if c == "barrier" else c for c in self.classes)
        return replace(
            self.old,
            steps=out,
            names=tuple(self.names),
            classes=classes,
            kinds=tuple(dict.fromkeys(classes)),
            labelled=self._labelled(),
        )

    def _labelled(self) -> tuple[int, ...]:
        """The lines at whose labels a region begins."""
        head = self.listing.lines[:16]
        if not any(line.text.lstrip().startswith(".headerflags") for line in head):
            return self.old.labelled  # of the newer ABI
        named = {
            label
            for line in self.lines
            if line.kind is Kind.INSTRUCTION and ".L" in line.text
            for label in _LOCAL_LABEL.findall(line.text)
        }
        begin = False
        out: list[int] = []
        for line in self.lines:
            if line.label is not None:
                begin = begin or line.label in named or not line.label.startswith(".L")
            elif begin and line.opcode is not None and line.kind is Kind.INSTRUCTION:
                out.append(line.n)
                begin = False
        return tuple(out)

    def _with_hidden_accesses(self, step: Step, line: Line) -> Step:
        if line.base == "P2R":
            guard = _GUARD.search(line.text)
            guard_register = self.names.get(guard[1]) if guard else None
            uses = [r for r in step.uses if self.classes[r] != "pred" or r == guard_register]
            step = step._replace(uses=tuple(uses))
        elif line.base == "R2P":
            step = step._replace(defs=(), kills=())
        if "@" in line.text and _UNIFORM_GUARD.search(line.text):
            step = step._replace(kills=step.defs)
        jump = self.old.jumps.get(step.line)
        if jump is not None and jump.way is Way.CALL:
            return self._with_call(step, line)
        if jump is not None and jump.way is Way.RETURN:
            top = extent(self.listing).by_function.get(self.function.name, -1)
            preserved = tuple(self.number(f"R{i}") for i in _preserved(top))
            return step._replace(uses=(*step.uses, *preserved))
        return step

    def _with_call(self, step: Step, line: Line) -> Step:
        """What the callee may overwrite, and the registers that every call uses."""
        usage = extent(self.listing)
        of_function = usage.by_function.get(self.function.name, -1)
        highest = usage.highest | {"R": min(of_function, usage.highest["R"])}
        names = [f"{file}{i}" for file, top in highest.items() for i in range(top + 1)]
        clobbered = tuple(self.number(name) for name in names if scratch(name))
        kills = clobbered if step.kills or "@" not in line.text else ()
        used = (self.number("R0"), self.number("R1"))
        return step._replace(
            defs=(*step.defs, *clobbered), kills=(*step.kills, *kills), uses=(*step.uses, *used)
        )

    def _descriptors(self, graph: FlowGraph) -> dict[int, int]:
        """The pair of uniform registers that each global access reads, by row."""
        loads: dict[int, int] = {}
        reads: list[int] = []
        copies: set[str] = set()
        for i, step in enumerate(self.old.steps):
            line = self.lines[step.line - self.function.first]
            if line.base == "ULDC" and (match := _DESCRIPTOR.search(line.text)):
                loads[i] = int(match[1])
            elif line.base == "MOV" and (match := _DESCRIPTOR_COPY.search(line.text)):
                copies.add(match[1])
            elif line.base == "R2UR" and (match := _TO_UNIFORM.search(line.text)):
                if match[2] in copies:
                    loads[i] = int(match[1])
            elif (
                line.base in _GLOBAL
                and ".64]" in line.text.replace("+", "]")
                and "desc[" not in line.text
            ):
                reads.append(i)
        if not loads or not reads:
            return {}
        if len(set(loads.values())) == 1:
            return dict.fromkeys(reads, next(iter(loads.values())))
        return _reaching(graph, loads, reads)


def _reaching(graph: FlowGraph, loads: dict[int, int], reads: list[int]) -> dict[int, int]:
    """For each read the pair that a load on a way to it wrote, the first way that is found."""
    inside: list[list[int]] = [[] for _ in graph.successors]
    for row in (*loads, *reads):
        inside[bisect_right(graph.starts, row) - 1].append(row)
    out: dict[int, int] = {}
    visited = set(graph.entries)
    work: list[tuple[int, int | None]] = [(block, None) for block in sorted(visited, reverse=True)]
    while work:
        block, pair = work.pop()
        for row in sorted(inside[block]):
            if row in loads:
                pair = loads[row]
            elif pair is not None:
                out[row] = pair
        for other in graph.successors[block]:
            if other not in visited:
                visited.add(other)
                work.append((other, pair))
    return out


def scratch(name: str) -> bool:
    """Whether a call may write the register ``name``."""
    match = _REGISTER.match(name)
    if match is None:
        return False
    number = int(match[2])
    if match[1] == "R":
        return number == 0 or 3 <= number <= 15 or (number > 31 and number % 8 < 4)
    return match[1] != "UR" or 4 <= number <= 35


def _preserved(top: int) -> list[int]:
    """The general registers up to ``top`` that a function leaves as they were."""
    return [i for i in range(top + 1) if i in (1, 2) or 16 <= i <= 31 or (i > 31 and i % 8 >= 4)]


@lru_cache(maxsize=2)
def extent(listing: Listing) -> Extent:
    highest = dict.fromkeys(_FILES, -1)
    by_function: dict[str, int] = {}
    callers: dict[str, set[str]] = defaultdict(set)
    returns: list[str] = []
    for function in listing.functions:
        by_function[function.name] = 1
        for line in listing.between(function.first, function.last):
            if line.kind is not Kind.INSTRUCTION:
                continue
            for register in filter(None, map(_REGISTER.match, (*line.defs, *line.uses))):
                file = register[1]
                number = int(register[2])
                highest[file] = max(highest[file], number)
                if file == "R":
                    by_function[function.name] = max(by_function[function.name], number + 2)
            if line.base == "RET":
                returns.append(function.name)
            elif line.base == "CALL" and not _INDIRECT.search(line.text):
                for callee in _CALLEE.findall(line.text):
                    callers[callee].add(function.name)
    if any("ET_EXEC" in line.text for line in listing.lines[:16]):
        with_callees = _closed(by_function, callers)
        by_function.update((f.name, with_callees[f.name]) for f in listing.functions if f.entry)
    highest["R"] = max(highest["R"], *(max(_preserved(by_function[name])) for name in returns), -1)
    return Extent(highest, by_function)


def _closed(by_function: dict[str, int], callers: Mapping[str, set[str]]) -> dict[str, int]:
    """The highest of each function and of all that it calls, directly or not."""
    out = dict(by_function)
    work = sorted(by_function, key=lambda name: by_function[name])
    while work:
        name = work.pop()
        for caller in callers.get(name, ()):
            if out[caller] < out[name]:
                out[caller] = out[name]
                work.append(caller)
    return out


# Code is looked at in regions: a region is entered at its top only, and may be left on the way.
# Across regions, only registers are carried that some region reads before it writes them.


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
        rows: Sequence[Step],
        starts: Sequence[int],
        exits: Sequence[Sequence[RegionExit]],
        classes: Sequence[str],
        *,
        all_writes: bool = False,
    ) -> None:
        self.rows = rows
        self._all_writes = all_writes
        self.starts = starts
        self.exits = exits
        self.classes = classes
        self._live_before = self._solve()

    def region(self, number: int) -> Iterator[tuple[Step, set[int], Counter[str]]]:
        """The rows of a region from the last to the first, with what is live after each, and how
        many of each class. Set and counts are the same objects, changed on the way."""
        classes = self.classes
        leaving = {region_exit.row: region_exit for region_exit in self.exits[number]}
        live: set[int] = set()
        counts: Counter[str] = Counter()
        for row in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
            if (exit_here := leaving.get(row)) is not None:
                if not exit_here.falls:
                    live.clear()
                live.update(*(self._live_before[target] for target in exit_here.targets))
                counts.clear()
                counts.update(classes[r] for r in live)
            step = self.rows[row]
            yield step, live, counts
            for register in live.intersection(step.kills):
                live.discard(register)
                counts[classes[register]] -= 1
            for register in set(step.uses) - live:
                live.add(register)
                counts[classes[register]] += 1

    def _solve(self) -> list[set[int]]:
        """The registers that are live at the beginning of each region."""
        live_at_start = [self._read_first(number) for number in range(len(self.exits))]
        carried = set[int]().union(*live_at_start)
        passing = [self._passing(number, carried) for number in range(len(self.exits))]
        sources: list[list[int]] = [[] for _ in live_at_start]
        for number, ways in enumerate(passing):
            for target, _ in ways:
                sources[target].append(number)
        work = list(range(len(live_at_start)))
        waiting = set(work)
        while work:
            number = work.pop()
            waiting.discard(number)
            live = live_at_start[number]
            size_before = len(live)
            for target, hidden in passing[number]:
                live |= live_at_start[target] - hidden
            if len(live) != size_before:
                work += [source for source in sources[number] if source not in waiting]
                waiting.update(sources[number])
        return live_at_start

    def _read_first(self, number: int) -> set[int]:
        """The registers that a region reads before it writes them."""
        leaving = {region_exit.row for region_exit in self.exits[number] if not region_exit.falls}
        read: set[int] = set()
        for row in range(self.starts[number + 1] - 1, self.starts[number] - 1, -1):
            if row in leaving:
                read.clear()
            step = self.rows[row]
            read.difference_update(step.kills)
            read.update(step.uses)
        return read

    def _passing(self, number: int, carried: set[int]) -> list[tuple[int, set[int]]]:
        """The regions that one goes on with, and the registers that are written on the way."""
        ways: list[tuple[int, set[int]]] = []
        written: set[int] = set()
        row = self.starts[number]
        for region_exit in self.exits[number]:
            for step in self.rows[row : region_exit.row + 1]:
                written.update(step.defs if self._all_writes else step.kills)
            row = region_exit.row + 1
            hidden = written & carried
            ways += [(target, hidden) for target in region_exit.targets]
        return ways


@dataclass(frozen=True, slots=True)
class Liveness:
    """The live registers of a function, by class.

    ``classes``: of PTX as declared (``b32``, ``pred``), and ``undeclared``; of SASS those of ``gpr
    pred ugpr upred`` that occur. ``peak``: for each the highest count, and the first line with it.
    """

    classes: tuple[str, ...]
    peak: Mapping[str, tuple[int, int]]
    _counts: Mapping[int, Mapping[str, int]]

    def counts_at(self, n: int) -> Mapping[str, int] | None:
        """Live registers by class at line ``n``; None if no instruction begins on it."""
        return self._counts.get(n)


def live_ranges(listing: Listing, function: Function, steps: Steps, graph: FlowGraph) -> Liveness:
    """The live registers at each instruction of ``function``, whose ``steps`` and ``graph`` these
    are: what is live after it, and what it reads and writes. Without any class where it has no
    steps."""
    steps, ranges = ranges_of(listing, function, steps, graph)
    classes = tuple(name for name in steps.kinds if name)
    counts: dict[int, Mapping[str, int]] = {}
    for region in range(len(ranges.starts) - 1):
        for step, live, now in ranges.region(region):
            extra = Counter([steps.classes[r] for r in {*step.defs, *step.uses} - live])
            counts[step.line] = {name: now[name] + extra[name] for name in classes}
    peak: dict[str, tuple[int, int]] = {}
    if counts:
        for name in classes:
            first = min(counts, key=lambda n: (-counts[n][name], n))
            peak[name] = (counts[first][name], first)
    return Liveness(classes, peak, counts)


def ranges_of(
    listing: Listing, function: Function, steps: Steps, graph: FlowGraph
) -> tuple[Steps, Ranges]:
    """The steps as they are counted, and their live ranges."""
    sass = listing.language == "sass"
    if sass:
        steps = _Rewriting(listing, function, steps).steps(graph)
    # Regions begin at labels, and where control comes from elsewhere than above.
    labelled = {row for row in map(steps.row, steps.labelled) if row is not None}
    entered = {
        graph.starts[block]
        for block, predecessors in enumerate(graph.predecessors())
        if block in graph.entries or predecessors != [block - 1]
    }
    starts = (*sorted(labelled | entered), len(steps.steps))
    return steps, Ranges(steps.steps, starts, _exits(graph, starts), steps.classes, all_writes=sass)


def _exits(graph: FlowGraph, starts: Sequence[int]) -> list[list[RegionExit]]:
    number = {start: i for i, start in enumerate(starts[:-1])}
    out: list[list[RegionExit]] = [[] for _ in starts[:-1]]
    ends = {end - 1: i for i, end in enumerate(graph.starts[1:])}
    for row in sorted(ends.keys() | {end - 1 for end in starts[1:]}):
        following = [row + 1]  # within a block of the graph, where a label stands: nothing names it
        if row in ends:
            following = [graph.starts[s] for s in graph.successors[ends[row]]]
        falls = row + 1 in following and row + 1 not in number
        targets = tuple(number[s] for s in following if s in number)
        out[bisect_right(starts, row) - 1].append(RegionExit(row, targets, falls))
    return out
