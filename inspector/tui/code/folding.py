"""Foldable regions of a listing (marks, debug sections, comments, functions), and its rows.

Found in the texts of lines alone, in one pass: parsing a million lines would take too long. Marks
in the scrollbar say where the cursor, links, matches, notes, peaks and the hottest lines are.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby, repeat
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

from inspector.listing.line import Listing
from inspector.tui.code.highlight import texts_of


class Fold(Enum):
    """What is folded; the value is its word in a folded row.

    ``MARKS`` are between instructions and do nothing: ``.loc``, labels of debuggers, the comments
    around inline assembly. They have no row of their own; the line after them describes them.
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
        return f"… {self.last - self.first + 1} lines of {self.kind.value}"


LEVELS: tuple[frozenset[Fold], ...] = (
    frozenset({Fold.MARKS, Fold.DEBUG}),
    frozenset({Fold.MARKS, Fold.DEBUG, Fold.COMMENT}),
    frozenset(Fold),
    frozenset(),
)
"""What the key goes through, beginning with what is folded for reading."""

_DEBUG = (".debug_", ".nv_debug", ".debug")


_SECTION = re.compile(r'\s*\.section\s+"?([^\s",]+)').match


def _section(text: str) -> str:
    match = _SECTION(text) if ".section" in text else None
    return match[1] if match else ""


def _ptx(texts: Sequence[str]) -> Iterator[bool]:
    depth, inside = 0, False
    for text in texts:
        if name := _section(text):
            inside, depth = name.startswith(_DEBUG), 0
        yield inside or text.lstrip().startswith(".file")
        depth += text.count("{") - text.count("}")
        inside = inside and not ("}" in text and depth <= 0)


def _sass(texts: Sequence[str]) -> Iterator[bool]:
    inside = False
    for text in texts:
        if name := _section(text):
            inside = name.startswith((*_DEBUG, ".nv.info", ".note", ".rel"))
        yield inside


def _ir(texts: Sequence[str]) -> Iterator[bool]:
    return (text.startswith("#loc") or (text[:1] == "!" and " = " in text) for text in texts)


_DEBUGS: dict[str, Callable[[Sequence[str]], Iterator[bool]]] = {
    "ptx": _ptx,
    "sass": _sass,
    **dict.fromkeys(("ttir", "ttgir", "llvm", "llir"), _ir),
}
_COMMENTS: dict[str, tuple[str, ...]] = {
    "ptx": ("//",),
    "sass": ("//",),
    "ttir": ("//",),
    "ttgir": ("//",),
    "llvm": (";",),
    "llir": (";",),
    "python": ("#",),
    "output_code": ("#",),
    "source": ("//", "#!", "# "),
}


_MARK = re.compile(
    r"\s*(?:\.loc\s|\$L__(?:tmp|func_begin|func_end)\d+:\s*\Z"
    r"|//\s*(?:begin|end) inline asm\s*\Z)"
).match
"""What LLVM and NVVM write between instructions, and what is nothing to the machine."""


def _kinds(listing: Listing, texts: Sequence[str]) -> Iterator[Fold | None]:
    debug = _DEBUGS.get(listing.language)
    signs = _COMMENTS.get(listing.language, ())
    marked = listing.language == "ptx"
    kind: Fold | None = None
    for text, debugs in zip(texts, repeat(False) if debug is None else debug(texts), strict=False):
        if debugs or (kind is Fold.DEBUG and not text.strip()):
            kind = Fold.DEBUG
        elif marked and _MARK(text):
            kind = Fold.MARKS
        else:
            kind = Fold.COMMENT if signs and text.lstrip().startswith(signs) else None
        yield kind


def regions(listing: Listing) -> dict[Fold, tuple[Region, ...]]:
    """What can be folded, of each kind ascending and apart; the last line is never a mark."""
    texts = texts_of(listing)
    found: dict[Fold, list[Region]] = {kind: [] for kind in Fold}
    last = 0
    for kind, group in groupby(_kinds(listing, texts)):
        first, last = last + 1, last + sum(1 for _ in group)
        end = min(last, len(texts) - 1) if kind is Fold.MARKS else last
        while kind is Fold.DEBUG and not texts[end - 1].strip():
            end -= 1
        if kind is not None and end - first >= (kind is not Fold.MARKS):
            found[kind].append(Region(first, end, kind))
    functions = found[Fold.FUNCTION]
    for one in sorted(listing.functions, key=lambda f: (f.first, -f.last)):
        if one.last > one.first and not (functions and one.first <= functions[-1].last):
            functions.append(Region(one.first, min(one.last, len(texts)), Fold.FUNCTION))
    return {kind: tuple(each) for kind, each in found.items()}


def region_at(regions: Sequence[Region], n: int) -> Region | None:
    """The one of ascending regions that line ``n`` is in."""
    at = bisect_right(regions, n, key=lambda region: region.first) - 1
    return regions[at] if at >= 0 and n <= regions[at].last else None


class RowMap:
    """Rows of the view, from 0, and the lines that they show, from 1.

    A folded region is the row of its first line; marks belong to the row of the line after them.
    """

    def __init__(self, lines: int, closed: Iterable[Region] = ()) -> None:
        """``closed`` in any order; a region inside another is folded with it."""
        self.closed: list[Region] = []
        shown: list[int] = []
        first = 1
        for region in sorted(closed, key=lambda one: (one.first, -one.last)):
            if region.first >= first:
                self.closed.append(region)
                shown += range(first, region.first + (region.kind is not Fold.MARKS))
                first = region.last + 1
        self._shown = [*shown, *range(first, lines + 1)] if self.closed else range(1, lines + 1)

    @property
    def rows(self) -> int:
        return len(self._shown)

    def fold(self, n: int) -> Region | None:
        return region_at(self.closed, n)

    def marks(self, n: int) -> Region | None:
        above = self.fold(n - 1)
        return above if above is not None and above.kind is Fold.MARKS else None

    def shown(self, n: int) -> int:
        region = self.fold(n)
        if region is not None and region.kind is Fold.MARKS:
            n = region.last + 1
            region = self.fold(n)
        return n if region is None else region.first

    def row(self, n: int) -> int:
        return bisect_left(self._shown, self.shown(n))

    def line(self, row: int) -> int:
        return self._shown[row]


class Folding:
    """What of a listing is folded: the kinds of a level, but for regions that were flipped."""

    def __init__(self) -> None:
        self.level = 0
        self.as_it_is = False
        self.regions: Mapping[Fold, tuple[Region, ...]] = {}
        self._flipped: set[Region] = set()

    @property
    def kinds(self) -> frozenset[Fold]:
        return frozenset() if self.as_it_is else LEVELS[self.level % len(LEVELS)]

    def know(self, regions: Mapping[Fold, tuple[Region, ...]]) -> None:
        self.regions, self._flipped = regions, set()

    def flip(self, region: Region) -> None:
        self._flipped ^= {region}

    def deeper(self) -> str:
        self.level = (self.level + 1) % len(LEVELS)
        self._flipped = set()
        kinds = ", ".join(kind.value for kind in Fold if kind in self.kinds)
        said = f"Folded: {kinds}." if kinds else "Nothing is folded."
        return said.replace("the function", "functions")

    def turn(self) -> str:
        self.as_it_is = not self.as_it_is
        self._flipped = set()
        if self.as_it_is:
            return "The file as it is, line by line; w again folds it for reading."
        return "For reading: marks and debug sections are folded, names are short."

    def at(self, n: int) -> Region | None:
        around = [found for each in self.regions.values() if (found := region_at(each, n))]
        return min(around, key=lambda region: region.last - region.first, default=None)

    def rows(self, lines: int) -> RowMap:
        every = (region for each in self.regions.values() for region in each)
        closed = (one for one in every if (one.kind in self.kinds) != (one in self._flipped))
        return RowMap(lines, closed)


Marks = Mapping[int, tuple[str, Style]]
"""By the row of the scrollbar: a sign and its style."""


class MarkedBar(ScrollBarRender):
    """The usual bar with the marks drawn over it."""

    def __init__(self, *args: Any, marks: Callable[[int], Marks], **more: Any) -> None:
        super().__init__(*args, **more)
        self.marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for bar in super().__rich_console__(console, options):
            if isinstance(bar, Segments):
                rows = list(bar.segments)
                for y, (sign, style) in self.marks(len(rows)).items():
                    held = rows[y].style or Style()
                    ground = held.color if held.reverse else held.bgcolor
                    drawn = Style(color=style.color, bgcolor=ground, bold=True, meta=held.meta)
                    rows[y] = Segment(sign, drawn)
                bar = Segments(rows, new_lines=True)
            yield bar
