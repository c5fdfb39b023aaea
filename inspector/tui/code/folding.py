"""What of a listing can be folded: functions, what only debuggers read, comments.

Read from the texts of the lines alone, in one pass, as parsing a million lines only to fold some
of them would take too long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, groupby, islice
from operator import itemgetter, lt, sub
from typing import NamedTuple

from inspector.listing.line import Listing
from inspector.tui.code.highlight import texts_of


class Fold(Enum):
    """What is folded; the value is its word in a folded row."""

    DEBUG = "debug sections"
    COMMENT = "comments"
    FUNCTION = "the function"


class Region(NamedTuple):
    """Lines ``first`` to ``last``, both counted in, from 1; at least two."""

    first: int
    last: int
    kind: Fold

    @property
    def words(self) -> str:
        """What stands in its place: ``… 62 lines of debug sections``."""
        return f"… {self.last - self.first + 1} lines of {self.kind.value}"


LEVELS: tuple[frozenset[Fold], ...] = (
    frozenset({Fold.DEBUG}),
    frozenset({Fold.DEBUG, Fold.COMMENT}),
    frozenset(Fold),
    frozenset(),
)
"""What the key goes through."""

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


def _comments(texts: Sequence[str], signs: tuple[str, ...]) -> Iterator[Region]:
    n = 0
    for comment, group in groupby(texts, lambda text: text.lstrip().startswith(signs)):
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
    return {
        Fold.DEBUG: () if debug is None else tuple(_runs(debug(texts), texts, Fold.DEBUG)),
        Fold.COMMENT: () if signs is None else tuple(_comments(texts, signs)),
        Fold.FUNCTION: tuple(apart),
    }


# -- rows of lines, lines of rows -----------------------------------------------------------------
# Which line stands in which row once some lines are folded away; both ways in logarithmic time.

_FIRST, _LAST = itemgetter(0), itemgetter(1)


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
    line."""

    def __init__(self, lines: int, closed: Iterable[Region] = ()) -> None:
        """``closed`` in any order; one that lies in another is folded away with it."""
        self.lines = lines
        self.closed = _outer(sorted(closed, key=_FIRST))
        # Without a step of Python's for each: there may be a hundred thousand of them.
        self._firsts: list[int] = list(map(_FIRST, self.closed))
        # How many lines are hidden before each region, and in all of them.
        hidden: Iterable[int] = map(sub, map(_LAST, self.closed), self._firsts)
        self._hidden: list[int] = [0, *accumulate(hidden)]
        self._rows: list[int] = list(map(sub, self._firsts, map((1).__add__, self._hidden)))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.lines - self._hidden[-1]

    def fold(self, n: int) -> Region | None:
        """The folded region that line ``n`` lies in."""
        at = bisect_right(self._firsts, n) - 1
        return self.closed[at] if at >= 0 and n <= self.closed[at].last else None

    def shown(self, n: int) -> int:
        """The line whose row line ``n`` stands in."""
        found = self.fold(n)
        return n if found is None else found.first

    def row(self, n: int) -> int:
        """The row of line ``n``."""
        n = self.shown(n)
        return n - 1 - self._hidden[bisect_right(self._firsts, n - 1)]

    def line(self, row: int) -> int:
        """The first line that stands in a row."""
        at = bisect_right(self._rows, row) - 1
        if at >= 0 and row == self._rows[at]:
            return self._firsts[at]
        return row + 1 + self._hidden[at + 1]
