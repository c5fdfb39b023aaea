"""What of a listing can be folded: marks, what only debuggers read, comments, functions.

Read from the texts of the lines alone, in one pass, as parsing a million lines only to fold some
of them would take too long.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from itertools import accumulate, groupby, islice, repeat
from operator import add, is_, itemgetter, lt, sub
from typing import NamedTuple

from inspector.listing.line import Listing
from inspector.tui.code.highlight import texts_of


class Fold(Enum):
    """What is folded; the value is its word in a folded row.

    ``MARKS`` stand between instructions and do nothing: ``.loc``, labels of debuggers, the comments
    around inline assembly. They have no row of their own; the line after them tells of them.
    """

    MARKS = "location marks"
    DEBUG = "debug sections"
    COMMENT = "comments"
    FUNCTION = "the function"


class Region(NamedTuple):
    """Lines ``first`` to ``last``, both counted in, from 1; at least two, of marks at least one."""

    first: int
    last: int
    kind: Fold

    @property
    def words(self) -> str:
        """What stands in its place: ``… 62 lines of debug sections``."""
        return f"… {self.last - self.first + 1} lines of {self.kind.value}"


LEVELS: tuple[frozenset[Fold], ...] = (
    frozenset({Fold.MARKS, Fold.DEBUG}),
    frozenset({Fold.MARKS, Fold.DEBUG, Fold.COMMENT}),
    frozenset(Fold),
    frozenset(),
)
"""What the key goes through, beginning with what is folded for reading."""

_DEBUG = (".debug_", ".nv_debug", ".debug")


def _section(text: str) -> str | None:
    """The name of the section that a line opens: ``.section .debug_info, …``."""
    words = text.split(None, 2)
    if not words or words[0] != ".section" or len(words) < 2:
        return None
    return words[1].strip('"').rstrip(",")


def _ptx(texts: Sequence[str]) -> Iterator[bool]:
    """Whether each line belongs to a debug section in braces, or names a file of one."""
    depth, inside = 0, False
    for text in texts:
        name = _section(text) if ".section" in text else None
        if name is not None:
            inside, depth = name.startswith(_DEBUG), 0
        if not inside:
            yield text.lstrip().startswith(".file")
            continue
        yield True
        depth += text.count("{") - text.count("}")
        if "}" in text and depth <= 0:
            inside = False


def _sass(texts: Sequence[str]) -> Iterator[bool]:
    """Whether each line belongs to a section of debuggers' or of notes, until the next section."""
    inside = False
    for text in texts:
        name = _section(text) if ".section" in text else None
        if name is not None:
            inside = name.startswith((*_DEBUG, ".nv.info", ".note", ".rel"))
        yield inside


def _mlir(texts: Sequence[str]) -> Iterator[bool]:
    return (text.startswith("#loc") for text in texts)


def _llvm(texts: Sequence[str]) -> Iterator[bool]:
    return (text.startswith("!") and " = " in text for text in texts)


_DEBUGS: dict[str, Callable[[Sequence[str]], Iterator[bool]]] = {
    "ptx": _ptx, "sass": _sass, "ttir": _mlir, "ttgir": _mlir, "llvm": _llvm, "llir": _llvm,
}  # fmt: skip
_COMMENTS: dict[str, tuple[str, ...]] = {
    "ptx": ("//",), "sass": ("//",), "ttir": ("//",), "ttgir": ("//",), "llvm": (";",),
    "llir": (";",), "python": ("#",), "output_code": ("#",), "source": ("//", "#!", "# "),
}  # fmt: skip


def _runs(flags: Iterator[bool], texts: Sequence[str], kind: Fold) -> Iterator[Region]:
    """Stretches of flagged lines; blank ones between two stretches join them."""
    first = last = 0
    for n, (flag, text) in enumerate(zip(flags, texts, strict=True), 1):
        if flag:
            first, last = first or n, n
        elif first and text.strip():
            if last > first:
                yield Region(first, last, kind)
            first = 0
    if first and last > first:
        yield Region(first, last, kind)


_MARK = re.compile(
    r"\s*(?:\.loc\s|\$L__(?:tmp|func_begin|func_end)\d+:\s*\Z"
    r"|//\s*(?:begin|end) inline asm\s*\Z)"
).match
"""What LLVM and NVVM write between instructions, and what is nothing to the machine."""


def _is_mark(text: str) -> bool:
    """Whether a line of PTX is a mark; most are told by one look for a character."""
    return ("." in text or ":" in text or "/" in text) and _MARK(text) is not None


def _marks(texts: Sequence[str], debug: Sequence[Region]) -> Iterator[Region]:
    """Stretches of marks outside of debug sections. The text's last line is never among them: each
    mark has a line after it that tells of it."""
    sections = iter(debug)
    section = next(sections, None)
    first = 0
    for n, text in enumerate(texts, 1):
        while section is not None and section.last < n:
            section = next(sections, None)
        inside = section is not None and section.first <= n
        if not inside and n < len(texts) and _is_mark(text):
            first = first or n
        elif first:
            yield Region(first, n - 1, Fold.MARKS)
            first = 0


def _comments(
    texts: Sequence[str], signs: tuple[str, ...], marked: bool = False
) -> Iterator[Region]:
    """Stretches of comments; ``marked``: those that are marks are none."""
    n = 0

    def is_comment(text: str) -> bool:
        return text.lstrip().startswith(signs) and not (marked and _is_mark(text))

    for comment, group in groupby(texts, is_comment):
        many = sum(1 for _ in group)
        if comment and many > 1:
            yield Region(n + 1, n + many, Fold.COMMENT)
        n += many


def regions(listing: Listing) -> dict[Fold, tuple[Region, ...]]:
    """What can be folded, of each kind ascending and apart; called in a thread."""
    texts = texts_of(listing)
    debug = _DEBUGS.get(listing.language)
    signs = _COMMENTS.get(listing.language)
    apart: list[Region] = []
    for one in sorted(listing.functions, key=lambda f: (f.first, -f.last)):
        if one.last > one.first and not (apart and one.first <= apart[-1].last):
            apart.append(Region(one.first, min(one.last, len(texts)), Fold.FUNCTION))
    marked = listing.language == "ptx"
    sections = () if debug is None else tuple(_runs(debug(texts), texts, Fold.DEBUG))
    return {
        Fold.MARKS: tuple(_marks(texts, sections)) if marked else (),
        Fold.DEBUG: sections,
        Fold.COMMENT: () if signs is None else tuple(_comments(texts, signs, marked)),
        Fold.FUNCTION: tuple(apart),
    }


# -- rows of lines, lines of rows -----------------------------------------------------------------
# Which line stands in which row once some lines are folded away; both ways in logarithmic time.

_FIRST, _LAST, _KIND = itemgetter(0), itemgetter(1), itemgetter(2)


def _outer(regions: list[Region]) -> list[Region]:
    """Of regions by their first line, those that lie in no other."""
    if all(map(lt, map(_LAST, regions), map(_FIRST, islice(regions, 1, None)))):
        return regions
    outer: list[Region] = []
    end = 0
    for region in regions:
        if region[0] > end:
            outer.append(region)
            end = region[1]
        elif region[1] > end and region[0] == outer[-1][0]:
            outer[-1] = region
            end = region[1]
    return outer


class RowMap:
    """Rows count from 0, lines from 1. A folded region is one row, which stands for its first
    line; marks have none, and belong to the row of the line after them."""

    def __init__(self, lines: int, closed: Iterable[Region] = ()) -> None:
        """``closed`` in any order; one that lies in another is folded away with it."""
        self.lines = lines
        self.closed = _outer(sorted(closed, key=_FIRST))
        # Without a step of Python's for each: there may be a hundred thousand of them.
        self._firsts: list[int] = list(map(_FIRST, self.closed))
        # How many lines are hidden before each region, and in all of them.
        hidden: Iterable[int] = map(sub, map(_LAST, self.closed), self._firsts)
        marks: Iterable[int] = map(is_, map(_KIND, self.closed), repeat(Fold.MARKS))
        self._hidden: list[int] = [0, *accumulate(map(add, hidden, marks))]
        self._rows: list[int] = list(map(sub, self._firsts, map((1).__add__, self._hidden)))
        # Of those, the few that are open again: their first lines and rows, and how many rows
        # more there are before each of them, and in all.
        self._open: list[Region] = []
        self._open_rows: list[int] = []
        self._more: list[int] = [0]

    def opening(self, regions: Iterable[Region]) -> RowMap:
        """The same with some of the closed regions open, for what these are to be found."""
        new = copy(self)
        new._open, new._open_rows, new._more = sorted(regions, key=_FIRST), [], [0]
        for region in new._open:
            new._open_rows.append(self._row(region.first) + new._more[-1])
            hidden = region.last - region.first + (region.kind is Fold.MARKS)
            new._more.append(new._more[-1] + hidden)
        return new

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.lines - self._hidden[-1] + self._more[-1]

    def fold(self, n: int) -> Region | None:
        """The folded region that line ``n`` lies in."""
        region = self._fold(n)
        return None if region is None or (self._open and region in self._open) else region

    def _fold(self, n: int) -> Region | None:
        at = bisect_right(self._firsts, n) - 1
        return self.closed[at] if at >= 0 and n <= self.closed[at].last else None

    def marks(self, n: int) -> Region | None:
        """The folded marks that line ``n``, which has a row, stands for as well."""
        above = self.fold(n - 1)
        return above if above is not None and above.kind is Fold.MARKS else None

    def shown(self, n: int) -> int:
        """The line whose row line ``n`` stands in."""
        region = self.fold(n)
        if region is not None and region.kind is Fold.MARKS:
            n = region.last + 1
            region = self.fold(n)
        return n if region is None else region.first

    def row(self, n: int) -> int:
        """The row of line ``n``."""
        n = self.shown(n)
        at = bisect_right(self._open, n, key=_FIRST) - 1
        if at >= 0 and n <= self._open[at].last:
            return self._open_rows[at] + n - self._open[at].first
        return self._row(n) + self._more[at + 1]

    def _row(self, n: int) -> int:
        """The row of a line that has one, or that of a region's first, with none of them open."""
        return n - 1 - self._hidden[bisect_right(self._firsts, n - 1)]

    def line(self, row: int) -> int:
        """The first line that has that row."""
        within = bisect_right(self._open_rows, row) - 1
        if within >= 0:
            region, into = self._open[within], row - self._open_rows[within]
            if into <= region.last - region.first:
                return region.first + into
            row -= self._more[within + 1]
        at = bisect_right(self._rows, row) - 1
        if at >= 0 and row == self._rows[at] and self.closed[at].kind is not Fold.MARKS:
            return self._firsts[at]
        return row + 1 + self._hidden[at + 1]


# -- what is folded at the moment -----------------------------------------------------------------

USUAL = ("usual",)
"""Remembered instead of the folds and columns that there are at first, which may be others one
day."""

AS_IT_IS = "as it is"
"""Remembered among the folds of a pane that shows the file as it is."""

BEFORE_MARKS = ("debug sections",)
"""What was remembered of usual folds before marks of locations were among them."""


class Folding:
    """What of a listing is folded: the kinds of a level, but for regions that were flipped."""

    def __init__(self) -> None:
        self.level: frozenset[Fold] = LEVELS[0]
        self.as_it_is = False
        self.regions: Mapping[Fold, tuple[Region, ...]] = {}
        self._maps: Mapping[frozenset[Fold], RowMap] = {}
        self._flipped: set[Region] = set()
        self._to_read: frozenset[Fold] = LEVELS[0]

    @property
    def words(self) -> tuple[str, ...]:
        """What is wanted, as it is remembered."""
        folds = tuple(kind.value for kind in Fold if kind in self.level)
        if self.as_it_is:
            return (AS_IT_IS, *folds)
        return USUAL if self.level == LEVELS[0] else folds

    def restore(self, words: tuple[str, ...]) -> None:
        """As it was remembered."""
        usual = words in (USUAL, BEFORE_MARKS)
        self.level = LEVELS[0] if usual else frozenset(k for k in Fold if k.value in words)
        self.as_it_is = AS_IT_IS in words

    def know(
        self,
        regions: Mapping[Fold, tuple[Region, ...]],
        maps: Mapping[frozenset[Fold], RowMap],
    ) -> None:
        """What can be folded in another listing; ``maps`` are those of the usual levels."""
        self.regions, self._maps, self._flipped = regions, maps, set()

    def flip(self, region: Region) -> None:
        """Fold a region against the level, or as the level says again."""
        self._flipped ^= {region}

    def deeper(self) -> str:
        """The next level, in words."""
        at = LEVELS.index(self.level) + 1 if self.level in LEVELS else 0
        self.level = LEVELS[at % len(LEVELS)]
        self._flipped = set()
        kinds = ", ".join(kind.value for kind in Fold if kind in self.level)
        said = f"Folded: {kinds}." if kinds else "Nothing is folded."
        return said.replace("the function", "functions")

    def turn(self) -> str:
        """From reading to the file as it is, or back, in words."""
        self.as_it_is = not self.as_it_is
        self._flipped = set()
        if self.as_it_is:
            self._to_read, self.level = self.level, frozenset()
            return "The file as it is, line by line; w again folds it for reading."
        self.level = self._to_read or LEVELS[0]
        return "For reading: marks and debug sections are folded, names are short."

    def at(self, n: int) -> Region | None:
        """The smallest region of lines that line ``n`` lies in."""
        around: list[Region] = []
        for each in self.regions.values():
            at = bisect_right(each, n, key=_FIRST) - 1
            if at >= 0 and n <= each[at].last:
                around.append(each[at])
        return min(around, key=lambda region: region.last - region.first, default=None)

    def rows(self, lines: int) -> RowMap:
        """Rows and lines, of so many, as they stand now."""
        made = self._maps.get(self.level)
        if made is None or not all(map(self._stands_alone, self._flipped)):
            return RowMap(lines, self._closed())
        return made.opening(self._flipped) if self._flipped else made

    def _stands_alone(self, region: Region) -> bool:
        """Whether the level folds a region that lies in no other and has no other in it: it can be
        opened without going through all of them, which takes a while where there are many."""
        if region.kind not in self.level:
            return False
        for kind in self.level - {region.kind}:
            each = self.regions.get(kind, ())
            at = bisect_right(each, region.last, key=_FIRST) - 1
            if at >= 0 and each[at].last >= region.first:
                return False
        return True

    def _closed(self) -> list[Region]:
        """What is folded: what is wanted so but for what was flipped."""
        out: list[Region] = []
        for kind, each in self.regions.items():
            flipped = sorted(region for region in self._flipped if region.kind is kind)
            if kind not in self.level:
                out += flipped
                continue
            at = 0
            for region in flipped:
                end = bisect_left(each, region)
                out += each[at:end]
                at = end + 1
            out += each[at:]
        return out
