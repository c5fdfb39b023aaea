"""Branches of a listing as arrows in lanes beside its lines, read from the texts alone.

A branch is an arrow
from its line to the label's; those to one label in one direction share an arrow. One that goes
back is a loop, and so is a region of MLIR that is run again and again (``scf.for``); one that may
be left out (``scf.if``) is jumped over. Shorter arrows are nearer the
text. LLVM and MLIR end each block with a branch: one to the block that follows is no
arrow.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from inspector.listing.line import Function

MOST_LANES = 8
"""Arrows beside each other; of further ones only the ends are kept."""

_LABEL = re.compile(r"\s*([\w$.%]+):")
_PTX = re.compile(r"(?:^|[\s;:}])bra(?:\.uni)?\s++([\w$%.]++)\s*+;")
_TABLE = re.compile(r"(?:^|[\s;:}])brx\.idx(?:\.uni)?\s++[^,;\s]++\s*+,\s*+([\w$%.]++)")
_SASS = re.compile(r"\s(?:BRA|JMP|JMX|BRX|BRXU)(?:\.[\w.]+)?\s([^;]*)")
_SASS_TARGET = re.compile(r"`\((\.[\w$.]+)\)")
_SASS_TABLE = re.compile(r'BRANCH_TARGETS ([^"*]*)')
_NAME = re.compile(r"[\w$%.]+")
TABLE_LINES = 4096
"""Lines over which a table of branch targets is read."""

_LLVM_LABEL = re.compile(r'([\w$.\-]++|"[^"]*"):')
_LLVM_USE = re.compile(r'\blabel %([\w$.\-]++|"[^"]*")')
_MLIR_BLOCK = re.compile(r"\^[\w$.\-]++")
_MLIR_REGION = re.compile(r'(?:%[^=]*+=\s*+)?+"?((?:scf|affine)\.\w++)')
_MLIR_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')
_MLIR_LOOPS = frozenset(
    ("scf.for", "scf.while", "scf.parallel", "scf.forall", "affine.for", "affine.parallel")
)
_MLIR_CHOICES = frozenset(("scf.if", "affine.if"))


class Arrow(NamedTuple):
    """Lines ``first`` to ``last``; one of them is ``target``, and ``sources`` branch there.

    ``away``: it goes back to what merely stands above, from where nothing comes here again.
    """

    first: int
    last: int
    target: int
    sources: tuple[int, ...]
    away: bool = False

    @property
    def loops(self) -> bool:
        """Whether it goes back, or to itself, as a loop does."""
        return self.sources[-1] >= self.target and not self.away

    def ends_at(self, n: int) -> bool:
        """Whether line ``n`` branches along it, or is where it leads."""
        at = bisect_left(self.sources, n)
        return n == self.target or (at < len(self.sources) and self.sources[at] == n)


class FlowLanes:
    """The arrows of a listing: disjoint in each lane, lane 0 beside the text.

    ``loose`` arrows have found no lane. Everything about a line takes logarithmic time.
    """

    def __init__(self, arrows: Iterable[Arrow]) -> None:
        self.lanes: list[list[Arrow]] = []
        self.loose: list[Arrow] = []
        for arrow in sorted(arrows, key=lambda a: (a.last - a.first, a.first)):
            lane = next((one for one in self.lanes if _free(one, arrow)), None)
            if lane is None and len(self.lanes) < MOST_LANES:
                lane = []
                self.lanes.append(lane)
            insort(self.loose if lane is None else lane, arrow)
        self._ends: dict[int, list[Arrow]] = defaultdict(list)
        for arrow in (*self.loose, *(a for lane in self.lanes for a in lane)):
            for n in {arrow.target, *arrow.sources}:
                self._ends[n].append(arrow)

    def at(self, lane: int, n: int) -> Arrow | None:
        """The arrow in a lane that goes past line ``n``, or ends there."""
        if not 0 <= lane < len(self.lanes):
            return None
        arrows = self.lanes[lane]
        at = bisect_right(arrows, n, key=lambda a: a.first) - 1
        return arrows[at] if at >= 0 and n <= arrows[at].last else None

    def ends(self, n: int) -> Sequence[Arrow]:
        """The arrows that begin or end on line ``n``."""
        return self._ends.get(n, ())

    def loop(self, n: int) -> Arrow | None:
        """The innermost loop around line ``n``, among those that have a lane."""
        around = (self.at(lane, n) for lane in range(len(self.lanes)))
        return next((a for a in around if a is not None and a.loops), None)


def _free(lane: list[Arrow], arrow: Arrow) -> bool:
    at = bisect_right(lane, arrow.first, key=lambda a: a.first)
    before, after = lane[at - 1] if at else None, lane[at] if at < len(lane) else None
    return (before is None or before.last < arrow.first) and (
        after is None or arrow.last < after.first
    )


def arrows(texts: Sequence[str], functions: Sequence[Function], language: str) -> Iterator[Arrow]:
    """The branches of PTX, SASS, LLVM IR or MLIR whose labels are in the same listing, and
    MLIR's loops and choices; nothing of other languages."""
    if language in ("ptx", "sass"):
        yield from _joined(_machine(texts, functions, language == "ptx"))
    elif language == "llvm":
        yield from _joined(_llvm(texts).jumps(texts, ";"))
    elif language in ("ttir", "ttgir"):
        mlir = _MlirFlow()
        for n, text in enumerate(texts, 1):
            mlir.read(n, text.strip())
        yield from mlir.regions
        yield from _joined(mlir.blocks.jumps(texts, "//"))


class _Jump(NamedTuple):
    """The line of a branch, that of its label, and whether the arrow goes ``away``."""

    source: int
    target: int
    away: bool = False


def _joined(jumps: Iterable[_Jump]) -> Iterator[Arrow]:
    """An arrow for all that go to one label in one way."""
    ends: dict[tuple[int, bool, bool], list[int]] = defaultdict(list)
    for source, target, away in jumps:
        ends[target, source >= target, away].append(source)
    for (target, _, away), sources in ends.items():
        every = tuple(sorted(set(sources)))
        yield Arrow(min(target, every[0]), max(target, every[-1]), target, every, away)


class _Blocks:
    """The blocks of functions or of MLIR's regions, each of which is its own scope, known by
    the line that begins it; and the branches between them."""

    def __init__(self) -> None:
        self._labels: dict[tuple[int, str], int] = {}
        self._branches: list[tuple[int, int, str]] = []

    def label(self, scope: int, name: str, n: int) -> None:
        """A block begins on line ``n``."""
        self._labels[scope, name] = n

    def branch(self, scope: int, names: Iterable[str], n: int) -> None:
        """Line ``n`` may go on with these blocks."""
        self._branches += [(n, scope, name) for name in names]

    def jumps(self, texts: Sequence[str], comment: str) -> Iterator[_Jump]:
        """The branches but for those to what follows anyway."""
        # Imported in the thread that looks for branches: the first frame needs no graphs.
        from inspector.analyse.flow.graph import find_loops

        starts: dict[int, list[int]] = defaultdict(list)
        for (scope, _), n in self._labels.items():
            starts[scope].append(n)
        for scope, lines in starts.items():
            lines.append(scope)
            lines.sort()
        numbers = {n: at for at, n in enumerate(n for lines in starts.values() for n in lines)}
        edges: list[tuple[int, int, int, int]] = []
        successors: list[list[int]] = [[] for _ in numbers]
        for n, scope, name in self._branches:
            target = self._labels.get((scope, name))
            if target is not None:
                own = starts[scope]
                block = numbers[own[bisect_right(own, n) - 1]]
                successors[block].append(numbers[target])
                edges.append((n, target, block, numbers[target]))
        loops: dict[int, set[int]] = defaultdict(set)
        for header, _, members in find_loops(successors, [numbers[scope] for scope in starts]):
            loops[header].update(members)
        for n, target, block, goal in edges:
            between = (text.lstrip() for text in texts[n : target - 1])
            if target <= n or any(text and not text.startswith(comment) for text in between):
                yield _Jump(n, target, target <= n and block not in loops.get(goal, ()))


def _machine(texts: Sequence[str], functions: Sequence[Function], ptx: bool) -> Iterator[_Jump]:
    """The branches of PTX or SASS; a table's are those of the branch that looks into it."""
    labels: dict[str, list[int]] = defaultdict(list)
    branches: list[tuple[int, tuple[str, ...]]] = []
    tables: dict[str, tuple[str, ...]] = {}
    for n, text in enumerate(texts, 1):
        if ":" in text and (match := _LABEL.match(text)):
            labels[match[1]].append(n)
            if ptx and ".branchtargets" in text:
                tables[match[1]] = _table(texts, n)
        if ptx:
            if "bra" in text or "brx" in text:
                text = text.partition("//")[0]
                branches += [(n, (name,)) for name in _PTX.findall(text)]
                branches += [(n, (name,)) for name in _TABLE.findall(text)]
        elif ("BR" in text or "JM" in text) and (match := _SASS.search(text)):
            named = _SASS_TARGET.findall(match[1])
            for table in _SASS_TABLE.findall(text):
                named += [name.strip() for name in table.split(",")]
            branches.append((n, tuple(named)))
    starts = [f.first for f in functions]
    for n, names in branches:
        for name in (one for own in names for one in tables.get(own, (own,))):
            target = _nearest(labels.get(name, ()), n, functions, starts)
            if target is not None:
                yield _Jump(n, target)


def _llvm(texts: Sequence[str]) -> _Blocks:
    """The blocks of LLVM IR; the cases of a ``switch`` go where their own lines say."""
    blocks = _Blocks()
    function = 0
    for n, text in enumerate(texts, 1):
        if text[:1] in (" ", "\t"):
            if "label %" in text:
                blocks.branch(function, _LLVM_USE.findall(text), n)
        elif text.startswith("define "):
            function = n
        elif ":" in text and (match := _LLVM_LABEL.match(text)):
            blocks.label(function, match[1], n)
    return blocks


class _OpenRegion(NamedTuple):
    """An operation of MLIR whose last region is open: its name, the line that opened it and those
    that opened its further regions, and the lines that leave it."""

    operation: str
    opened: list[int]
    left: list[int]


class _MlirFlow:
    """Reads MLIR line by line: where its operations are run again or left out, and its branches.

    Labels are a region's own.
    """

    def __init__(self) -> None:
        self.regions: list[Arrow] = []
        self.blocks = _Blocks()
        self._open: list[_OpenRegion] = []

    def read(self, n: int, bare: str) -> None:
        """Line ``n``, without the blanks around it."""
        if not bare or bare.startswith("//"):
            return
        if bare[0] == "}":
            self._close(n, goes_on=bare[-1] == "{")
            return
        region = self._open[-1].opened[-1] if self._open else 0
        if bare[0] == "^" and (match := _MLIR_BLOCK.match(bare)):
            self.blocks.label(region, match[0], n)
        elif "^" in bare:
            code = _MLIR_STRING.sub("", bare)
            self.blocks.branch(region, _MLIR_BLOCK.findall(code), n)
        if bare[-1] == "{":
            operation = _MLIR_REGION.match(bare)
            self._open.append(_OpenRegion(operation[1] if operation else "", [n], []))
        elif self._open and bare.startswith(("scf.condition", '"scf.condition')):
            self._open[-1].left.append(n)

    def _close(self, n: int, goes_on: bool) -> None:
        if not self._open:
            return
        if goes_on:
            self._open[-1].opened.append(n)
            return
        operation, opened, left = self._open.pop()
        if operation in _MLIR_LOOPS:
            self.regions.append(Arrow(opened[0], n, opened[0], (n,)))
            self.regions += (Arrow(at, n, n, (at,)) for at in left)
        elif operation in _MLIR_CHOICES:
            # From a condition that does not hold to what else is done, and past that where it does.
            edges = [*opened, n]
            self.regions += (Arrow(a, b, b, (a,)) for a, b in pairwise(edges))


def _table(texts: Sequence[str], n: int) -> tuple[str, ...]:
    """The labels of a ``.branchtargets`` that begins on line ``n``."""
    said = []
    for text in texts[n - 1 : n - 1 + TABLE_LINES]:
        said.append(text.partition("//")[0])
        if ";" in text:
            break
    listed = " ".join(said).partition(".branchtargets")[2].partition(";")[0]
    return tuple(_NAME.findall(listed))


def _nearest(
    places: Sequence[int], n: int, functions: Sequence[Function], starts: Sequence[int]
) -> int | None:
    """Of lines that define a label, the one in the function of line ``n``; labels are its own."""
    if len(places) < 2:
        return places[0] if places else None
    at = bisect_right(starts, n) - 1
    if at >= 0:
        own = functions[at]
        inside = bisect_left(places, own.first)
        if inside < len(places) and places[inside] <= own.last:
            return places[inside]
    return places[0]
