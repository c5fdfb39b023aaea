"""Rows of code as strips (sign, number, gutter, branches, text), and what of a listing is folded.

Foldable regions (marks, debug sections, comments, functions) are found in the texts of lines alone,
in one pass: parsing a million lines would take too long. Marks in the scrollbar show the cursor,
links, matches, notes, peaks and the hottest lines. One module because a row, its gutter and its
folds share one layout: what a cell shows follows from which lines are folded.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from itertools import groupby, islice, repeat
from typing import Any, NamedTuple

from msgspec import Struct
from pygments.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from inspector.analysis.flow.arrows import MAX_LANES, Arrow, FlowLanes
from inspector.analysis.line_annotations import NOTHING, LineAnnotations, Told, ranked, virtual
from inspector.base.model import Location
from inspector.parsers.line import Listing
from inspector.tui.code.highlight import Highlighter, Spans, named_frames, texts_of
from inspector.tui.widgets.theme import token_style


class Fold(Enum):
    """What is folded; the value is its word in a folded row.

    ``MARKS`` are between instructions and do nothing: ``.loc``, labels of debuggers, the comments
    around inline assembly. They have no row of their own; the line after them describes them.
    ``PREAMBLE`` is what comes before the first instruction of a function of PTX or SASS.
    """

    MARKS = "location marks"
    PREAMBLE = "directives"
    DEBUG = "debug sections"
    COMMENT = "comments"
    FUNCTION = "the function"


class Region(NamedTuple):
    """Lines ``first`` to ``last``, both counted in, from 1; at least two, of marks at least one."""

    first: int
    last: int
    kind: Fold
    summary: str = ""
    """What of it is worth knowing while it is folded."""

    @property
    def words(self) -> str:
        return f"[{self.last - self.first + 1} folded] {self.summary or self.kind.value}"


LEVELS: tuple[frozenset[Fold], ...] = (
    frozenset({Fold.MARKS, Fold.DEBUG, Fold.PREAMBLE}),
    frozenset({Fold.MARKS, Fold.DEBUG, Fold.PREAMBLE, Fold.COMMENT}),
    frozenset(Fold),
    frozenset(),
)
"""What the key goes through, beginning with what is folded for reading."""

_DEBUG = (".debug_", ".nv_debug", ".debug")


_SECTION = re.compile(r'\s*\.section\s+"?([^\s",]+)').match


_SASS_CODE = re.compile(r"\s*/\*[0-9a-f]{4,}\*/").match
"""An instruction's address: ``        /*0010*/                   S2R R0, SR_TID.X ;``."""


def _section(text: str) -> str:
    match = _SECTION(text) if ".section" in text else None
    return match[1] if match else ""


def _ptx(texts: Sequence[str]) -> Iterator[Fold | None]:
    """Debug sections, and the directives before each function's first instruction."""
    depth = 0
    in_debug = False
    in_code = False
    had_code = False
    for text in texts:
        stripped = text.lstrip()
        if name := _section(text):
            in_debug = name.startswith(_DEBUG)
            depth = 0
        elif depth and not in_code and not in_debug:
            in_code = stripped[:1].isalpha() or (stripped[:1] in ("@", "$") and not _MARK(text))
        had_code = had_code or in_code
        if in_debug or (had_code and stripped.startswith(".file")):
            yield Fold.DEBUG
        else:
            yield None if in_code or (stripped == "}" and depth == 1) else Fold.PREAMBLE
        depth += text.count("{") - text.count("}")
        ended = "}" in text and depth <= 0
        in_debug = in_debug and not ended
        in_code = in_code and not ended


def _sass(texts: Sequence[str]) -> Iterator[Fold | None]:
    """Sections for debuggers and the loader, and the directives before and after code."""
    in_debug = False
    in_code = False
    for text in texts:
        if name := _section(text):
            in_debug = name.startswith((*_DEBUG, ".nv.info", ".note", ".rel"))
            in_code = False
        elif not in_code:
            in_code = _SASS_CODE(text) is not None
        elif text.startswith("//---"):
            in_code = False
        if in_debug:
            yield Fold.DEBUG
        else:
            yield None if in_code else Fold.PREAMBLE


def _ir(texts: Sequence[str]) -> Iterator[Fold | None]:
    """Tables of locations."""
    for text in texts:
        locations = text.startswith("#loc") or (text[:1] == "!" and " = " in text)
        yield Fold.DEBUG if locations else None


_SECTIONS: dict[str, Callable[[Sequence[str]], Iterator[Fold | None]]] = {
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
    """What each line is folded as, if it is at all."""
    sections = _SECTIONS.get(listing.language)
    signs = _COMMENTS.get(listing.language, ())
    marked = listing.language == "ptx"
    kind: Fold | None = None
    for text, section in zip(
        texts, repeat(None) if sections is None else sections(texts), strict=False
    ):
        if section is Fold.DEBUG or (kind is Fold.DEBUG and not text.strip()):
            kind = Fold.DEBUG
        elif section is not None:
            kind = section
        elif marked and _MARK(text):
            kind = Fold.MARKS
        else:
            kind = Fold.COMMENT if signs and text.lstrip().startswith(signs) else None
        yield kind


_SUMMARIZED = re.compile(
    r"\s*(?:\.\w+\s+)*?(\.(?:version|target|entry)\s+[\w$.]+|\.section\s+\.text\.[\w$.]+)"
).match
"""Directives that a folded preamble names: ``.visible .entry square_kernel(``."""


def _preamble(texts: Sequence[str], first: int, last: int) -> Region:
    """The region of lines ``first`` to ``last``, without blank lines at its end."""
    while last > first and not texts[last - 1].strip():
        last -= 1
    matches = (_SUMMARIZED(text) for text in texts[first - 1 : last])
    named = [" ".join(match[1].split()) for match in matches if match is not None]
    return Region(first, last, Fold.PREAMBLE, ", ".join(named))


def regions(listing: Listing) -> dict[Fold, tuple[Region, ...]]:
    """What can be folded, of each kind ascending and apart; the last line is never a mark."""
    texts = texts_of(listing)
    regions_by_kind: dict[Fold, list[Region]] = {kind: [] for kind in Fold}
    last = 0
    for kind, group in groupby(_kinds(listing, texts)):
        first, last = last + 1, last + sum(1 for _ in group)
        end = min(last, len(texts) - 1) if kind is Fold.MARKS else last
        while kind is Fold.DEBUG and not texts[end - 1].strip():
            end -= 1
        if kind is None or end - first < (kind is not Fold.MARKS):
            continue
        region = Region(first, end, kind)
        if kind is Fold.PREAMBLE:
            region = _preamble(texts, first, end)
        if region.last - region.first >= (kind is not Fold.MARKS):
            regions_by_kind[kind].append(region)
    regions_by_kind[Fold.FUNCTION] = _functions(listing, len(texts))
    return {kind: tuple(kind_regions) for kind, kind_regions in regions_by_kind.items()}


def _functions(listing: Listing, line_count: int) -> list[Region]:
    """The outermost functions of several lines."""
    functions: list[Region] = []
    for function in sorted(listing.functions, key=lambda f: (f.first, -f.last)):
        inner = bool(functions) and function.first <= functions[-1].last
        if function.last > function.first and not inner:
            functions.append(Region(function.first, min(function.last, line_count), Fold.FUNCTION))
    return functions


def region_at(regions: Sequence[Region], n: int) -> Region | None:
    """The one of ascending regions that line ``n`` is in."""
    index = bisect_right(regions, n, key=lambda region: region.first) - 1
    return regions[index] if index >= 0 and n <= regions[index].last else None


class RowMap:
    """Rows of the view, from 0, and the lines that they show, from 1.

    A folded region is the row of its first line; marks belong to the row of the line after them.
    """

    def __init__(self, lines: int, closed: Iterable[Region] = ()) -> None:
        """``closed`` in any order; a region inside another is folded with it."""
        self.closed: list[Region] = []
        shown: list[int] = []
        first = 1
        for region in sorted(closed, key=lambda region: (region.first, -region.last)):
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
        fold = self.fold(n - 1)
        return fold if fold is not None and fold.kind is Fold.MARKS else None

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

    def set_regions(self, regions: Mapping[Fold, tuple[Region, ...]]) -> None:
        self.regions = regions
        self._flipped = set()

    def flip(self, region: Region) -> None:
        self._flipped ^= {region}

    def deeper(self) -> str:
        self.level = (self.level + 1) % len(LEVELS)
        self._flipped = set()
        folded = ", ".join(kind.value for kind in Fold if kind in self.kinds)
        sentence = f"Folded: {folded}." if folded else "Nothing is folded."
        return sentence.replace("the function", "functions")

    def toggle_verbatim(self) -> str:
        self.as_it_is = not self.as_it_is
        self._flipped = set()
        if self.as_it_is:
            return "The file as it is, line by line; w again folds it for reading."
        return "For reading: directives, marks and debug sections are folded, names are short."

    def region_at_line(self, n: int) -> Region | None:
        by_kind = (region_at(kind_regions, n) for kind_regions in self.regions.values())
        around = [region for region in by_kind if region is not None]
        return min(around, key=lambda region: region.last - region.first, default=None)

    def rows(self, lines: int) -> RowMap:
        all_regions = (region for kind_regions in self.regions.values() for region in kind_regions)
        closed = (
            region
            for region in all_regions
            if (region.kind in self.kinds) != (region in self._flipped)
        )
        return RowMap(lines, closed)


Marks = Mapping[int, tuple[str, Style]]
"""By the row of the scrollbar: a sign and its style."""


class MarkedBar(ScrollBarRender):
    """The usual bar with the marks drawn over it."""

    def __init__(self, *args: Any, marks: Callable[[int], Marks], **options: Any) -> None:
        super().__init__(*args, **options)
        self.marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for bar in super().__rich_console__(console, options):
            if isinstance(bar, Segments):
                rows = list(bar.segments)
                for y, (sign, style) in self.marks(len(rows)).items():
                    bar_style = rows[y].style or Style()
                    ground = bar_style.color if bar_style.reverse else bar_style.bgcolor
                    drawn = Style(color=style.color, bgcolor=ground, bold=True, meta=bar_style.meta)
                    rows[y] = Segment(sign, drawn)
                bar = Segments(rows, new_lines=True)
            yield bar


CELLS_PER_LANE = 18
"""Cells of a pane for each lane: most of the width is for the code."""

_THIN = {"top": "╭", "bottom": "╰", "join": "├", "pass": "│", "across": "─", "cross": "┼"}
_HEAVY = {"top": "┏", "bottom": "┗", "join": "┣", "pass": "┃", "across": "━", "cross": "╋"}

LOOP = "loop"
BRANCH = "branch"
OWN = "own"


FlowCell = tuple[str, str]
"""A sign, and whether it is of a loop, a branch, or of the cursor's own arrow."""


def lanes_shown(flow: FlowLanes | None, width: int) -> int:
    if flow is None:
        return 0
    return min(len(flow.lanes), max(1, min(MAX_LANES, width // CELLS_PER_LANE)))


def meets(lines: tuple[int, ...], first: int, last: int) -> bool:
    """Whether one of ascending ``lines`` is among ``first`` to ``last``."""
    index = bisect_left(lines, first)
    return index < len(lines) and lines[index] <= last


def cells(
    flow: FlowLanes, shown: int, n: int, cursor: int, continued: bool
) -> tuple[FlowCell, ...]:
    """What is beside line ``n``, outermost lane first; ``again``: a further row of the line."""
    row = [(" ", BRANCH)] * (shown + 1)
    for lane in range(shown):
        arrow = flow.arrow_at(lane, n)
        if arrow is None or (continued and n == arrow.last):
            continue
        column = shown - 1 - lane
        kind = _kind(arrow, cursor)
        if continued or not arrow.ends_at(n):
            signs = _HEAVY if arrow.loops else _THIN
            row[column] = signs["pass"], kind
        else:
            _draw_end(row, column, arrow, n, kind)
    if not continued and row[shown][0] == " ":
        for arrow in flow.ends(n):
            # Its lane has no room.
            row[shown] = "▹" if n == arrow.target else "╶", _kind(arrow, cursor)
    return tuple(row)


def _draw_end(row: list[FlowCell], column: int, arrow: Arrow, n: int, kind: str) -> None:
    """Draw an arrow that ends on line ``n``: from its lane across the inner ones to the code."""
    signs = _HEAVY if arrow.loops else _THIN
    row[column] = signs[_corner(arrow, n)], kind
    foot = len(row) - 1
    for right in range(column + 1, foot):
        crossed = row[right][0] not in (" ", "─", "━")
        row[right] = signs["cross" if crossed else "across"], kind
    if row[foot][0] != "▸":
        row[foot] = "▸" if n == arrow.target else signs["across"], kind


def _corner(arrow: Arrow, n: int) -> str:
    if arrow.first == arrow.last:
        return "join"
    if n == arrow.first:
        return "top"
    return "bottom" if n == arrow.last else "join"


def _kind(arrow: Arrow, cursor: int) -> str:
    if arrow.ends_at(cursor):
        return OWN
    return LOOP if arrow.loops else BRANCH


def arrow_at(flow: FlowLanes, shown: int, n: int, cell: int) -> Arrow | None:
    """The arrow that is drawn in a cell beside line ``n``, else one that ends on the line."""
    arrow = None if cell >= shown else flow.arrow_at(shown - 1 - cell, n)
    return arrow or next(iter(flow.ends(n)), None)


def along(arrow: Arrow, n: int) -> int:
    """To the target of an arrow; from there to the next line that branches to it, round the end."""
    if n != arrow.target:
        return arrow.target
    return next((source for source in arrow.sources if source > n), arrow.sources[0])


LIVE = "live"
STALL = "stall"
NOTES = "notes"
SAMPLES = "samples"
CYCLES = "cycles"
"""Columns by name; ``live:pred`` counts the live registers of one class, ``samples`` are a
profiler's and ``cycles`` simulated ones, both in percent of the kernel's."""

VALUE = "value"
WARPS = "warps"
LANES = "lanes"
DIVERGES = "diverges"
SECTORS = "sectors"
CONFLICTS = "conflicts"
"""Columns of a listing whose kernel was run: what the line gave the chosen lane, and what happened
at it; see ``inspector/render/trace.py``."""
RUN = (WARPS, LANES, DIVERGES, SECTORS, CONFLICTS, VALUE)

CHOICES: tuple[tuple[str, ...], ...] = (
    (LIVE, NOTES, SAMPLES, CYCLES),
    (LIVE, STALL, NOTES, SAMPLES, CYCLES),
    (NOTES,),
)

SEVERITY_SIGNS = {"warn": "⚠", "hint": "◆", "info": "·"}
_ORDER = ("warn", "hint", "info")

BARS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    """A column: its title, its head, its width in cells, and the unit of its figures."""

    title: str
    head: str = ""
    width: int = 0
    unit: str = ""


COLUMNS = {
    LIVE: Column("live registers", "live", 5, "live register"),
    STALL: Column("stall cycles", "stall", 6, "stall cycle"),
    NOTES: Column("notes"),
    SAMPLES: Column("samples (ncu)", "samples", 8, "sample"),
    CYCLES: Column("simulated cycles", "≈ %", 6, "% simulated cycle"),
    WARPS: Column("times executed, by warps", "warps", 7),
    LANES: Column("active lanes of a warp's 32", "lanes", 6),
    DIVERGES: Column("divergent of the branches", "parts", 7),
    SECTORS: Column("sectors of global memory", "sector", 8),
    CONFLICTS: Column("conflicts of shared memory's banks", "confl.", 7),
    VALUE: Column("the chosen lane's value", "value", 16),
}


def title(column: str) -> str:
    kind, _, register_class = column.partition(":")
    return COLUMNS[kind].title + (f": {register_class}" if register_class else "")


def _share_text(share: float | None) -> str:
    """A line's percentage of the kernel's samples."""
    if share is None:
        return ""
    return f"{share:.1f}%" if share else "0%"


class Gutter(Struct, frozen=True, dict=True):
    """The columns of one listing; ``run``: ``StageFigures``, where its kernel was run."""

    annotations: LineAnnotations = NOTHING
    selected: tuple[str, ...] = ()
    run: Any = None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that are wanted and there, and have cells of their own."""
        return tuple(c for c in self.available if c in self.selected and c != NOTES)

    @cached_property
    def width(self) -> int:
        return sum(map(_width, self.columns))

    @cached_property
    def available(self) -> tuple[str, ...]:
        annotations = self.annotations
        columns: list[str] = []
        if annotations.classes:
            columns.append(LIVE)
            columns += (f"{LIVE}:{name}" for name in annotations.classes)
        if annotations.stalls:
            columns.append(STALL)
        if annotations.sampled:
            columns.append(SAMPLES)
        if annotations.estimated:
            columns.append(CYCLES)
        if self.run is not None:
            columns += self.run.columns
        if annotations.noted:
            columns.append(NOTES)
        return tuple(columns)

    @property
    def heads(self) -> str:
        heads = ((c.partition(":")[2] or COLUMNS[c].head, _width(c) - 1) for c in self.columns)
        return "".join(f"{head[:cells]:>{cells}} " for head, cells in heads)

    def value(self, n: int) -> tuple[str, bool]:
        """What line ``n`` gave the chosen lane, and whether it ran it last."""
        if self.run is None or VALUE not in self.columns:
            return "", True
        room = _width(VALUE) - 1
        text, runs = self.run.value(n, room)
        return f"{text:>{room}} ", runs

    def parts(self, n: int) -> tuple[tuple[str, bool], ...]:
        """Columns of line ``n`` without the lane's value, and whether each is at its largest."""
        annotation = self.annotations.at(n)
        parts = []
        for column in self.columns:
            if column != VALUE:
                room = _width(column) - 1
                text = self._cell(column, annotation, n)[:room]
                parts.append((f"{text:>{room}} ", self._loud(column, annotation, n)))
        return tuple(parts)

    def figure(self, column: str, n: int) -> float | None:
        """The figure of a column on line ``n``; None if unknown."""
        annotation = self.annotations.at(n)
        kind, _, register_class = column.partition(":")
        if kind == CYCLES:
            return self.annotations.estimated.get(n)
        if kind == STALL:
            return annotation.cycles()
        if kind == SAMPLES:
            return None if annotation.samples is None else annotation.samples.all
        counts = annotation.counts()
        if kind != LIVE or counts is None:
            return None
        # PTX's own registers are virtual ones.
        allocated = self.annotations.machine or annotation.live is None
        if register_class or allocated:
            return counts.get(register_class or "gpr", 0)
        return virtual(counts)

    def _maximum(self, column: str, annotation: Told) -> int:
        allocated = self.annotations.machine or annotation.live is None
        register_class = column.partition(":")[2] or ("gpr" if allocated else "virtual")
        return self.annotations.most.get(register_class, 0)

    def _loud(self, column: str, annotation: Told, n: int) -> bool:
        """Whether a figure is as large as any of its kind, or has a tenth of the samples."""
        if self.run is not None and column in RUN:
            return bool(self.run.hot(n))
        if column == SAMPLES:
            return n in self.annotations.hottest
        if column in (STALL, CYCLES):
            return False
        if maximum := self._maximum(column, annotation):
            return self.figure(column, n) == maximum
        if column != LIVE or annotation.live is None:
            return column == LIVE and annotation.rolled is not None and annotation.rolled.peak
        return n in self.annotations.peaks

    def _cell(self, column: str, annotation: Told, n: int) -> str:
        if self.run is not None and column in RUN:
            return str(self.run.cell(column, n))
        if column == SAMPLES:
            return _share_text(self.annotations.share(n))
        figure = self.figure(column, n)
        if figure is None:
            return ""
        if column == STALL:
            return f"{figure:g}"
        if column == CYCLES:
            return f"{figure:.1f}" if figure else "0"
        maximum = self._maximum(column, annotation)
        if not maximum:
            return f"{figure:g} "
        eighths = min(len(BARS) - 1, int(figure * len(BARS) / maximum))
        return f"{figure:g}{BARS[eighths] if figure else ' '}"

    def sign(self, n: int) -> str:
        if NOTES not in self.selected:
            return " "
        severities = {note.severity for note in self.annotations.at(n).notes}
        return next((SEVERITY_SIGNS[s] for s in _ORDER if s in severities), " ")

    def ranked(self, column: str, lines: int) -> tuple[int, ...]:
        figures = ((n, self.figure(column, n)) for n in range(1, lines + 1))
        known_figures = ((n, figure) for n, figure in figures if figure is not None)
        return ranked(known_figures, column.startswith(LIVE), MAX_RANKED_LINES)


MAX_RANKED_LINES = 200
"""Lines that are gone through from the largest figure down; nobody goes further."""


def _width(column: str) -> int:
    return COLUMNS[column.partition(":")[0]].width


MAX_MATCHES_PER_LINE = 200
"""Matches lit up in one line; more are not distinguished anyway."""


def code_strip(text: str, spans: Spans, dark: bool) -> Strip:
    token_default = token_style(Token, dark)
    segments = []
    position = 0
    for start, end, token in spans:
        if end > start >= position:
            if start > position:
                segments.append(Segment(text[position:start], token_default))
            segments.append(Segment(text[start:end], token_style(token, dark)))
            position = end
    if position < len(text):
        segments.append(Segment(text[position:], token_default))
    return Strip(segments)


def mark_matches(strip: Strip, text: str, pattern: re.Pattern[str], style: Style) -> Strip:
    matches = islice((m for m in pattern.finditer(text) if m[0]), MAX_MATCHES_PER_LINE)
    cuts = [(cell_len(text[: match.start()]), cell_len(text[: match.end()])) for match in matches]
    return styled(strip, cuts, style)


def styled(strip: Strip, cells: Iterable[tuple[int, int]], style: Style) -> Strip:
    cell = 0
    parts = []
    for start, end in cells:
        loud = [Segment(s.text, (s.style or Style()) + style) for s in strip.crop(start, end)]
        parts += [strip.crop(cell, start), Strip(loud)]
        cell = end
    return Strip.join([*parts, strip.crop(cell, strip.cell_length)]) if parts else strip


def with_ends(strip: Strip, code: Strip, offset: int, room: int, style: Style) -> Strip:
    """Mark the ends of a row of ``code`` from cell ``left`` at which it goes on."""
    if code.cell_length > offset + room and room > 2:
        strip = Strip.join([strip.crop(0, room - 1), Strip([Segment("›", style)], 1)])
    if offset and code.cell_length and room > 2:
        strip = Strip.join([Strip([Segment("‹", style)], 1), strip.crop(1, room)])
    return strip


MAX_ROWS_PER_LINE = 200
"""Rows that one line takes at most; what is longer can be scrolled to with wrapping off."""


def breaks(text: str, room: int) -> tuple[int, ...]:
    """The cells at which the rows of ``text`` begin, the first 0; no wide character is cut."""
    if room < 2:
        return (0,)
    if text.isascii():
        return tuple(range(0, max(1, len(text)), room))[:MAX_ROWS_PER_LINE]
    out = [0]
    cell = 0
    for char in text:
        wide = cell_len(char)
        if cell + wide - out[-1] > room:
            out.append(cell)
        cell += wide
    return tuple(out[:MAX_ROWS_PER_LINE])


CURRENT = "⇒"
"""The line of the step at hand, where a kernel was run."""

WRAPPED = "↪"


def place_words(location: Location | None) -> tuple[str, ...]:
    """Where code is from in several lengths; the first that there is room for is shown."""
    if location is None:
        return ()
    if not location.line:
        return ("no source line", "no line")
    frames = named_frames(location)[:2]
    words = [f"{file}:{line_number}" if file else line_number for file, line_number in frames]
    innermost = (words[0], frames[0][1])
    if len(words) == 1:
        return innermost
    return (" ← ".join(words), *innermost)


Part = tuple[int, int | None]
"""The first cell of a line that a row shows, and the one after the last; None: to its width."""


def is_continuation(part: Part) -> bool:
    """Whether a row shows a further part of a wrapped line."""
    offset, end = part
    return end is not None and offset > 0


class LineState(NamedTuple):
    """What determines the background and sign of a line's rows; ``tint`` < 0 is a lit tint."""

    fold: Region | None
    tint: int
    selected: bool
    linked: bool
    current: bool
    at_cursor: bool
    focused: bool


def _background_part(state: LineState) -> str | None:
    """The first state that applies, in the order of precedence."""
    if state.selected:
        return "chosen"
    if state.focused:
        return "cursor"
    if state.current:
        return "current"
    if state.tint:
        return f"{'lit' if state.tint < 0 else 'tint'}-{abs(state.tint)}"
    return "linked" if state.linked else None


def folded_strip(fold: Region, code: Strip, room: int, style: Style) -> Strip:
    """How much is folded; of a function, its first line before that."""
    if fold.kind is not Fold.FUNCTION:
        return Strip([Segment(fold.words, style)]).crop(0, room)
    tail = f" {fold.words}"
    heading = code.crop(0, max(0, room - len(tail)))
    return Strip([*heading, Segment(tail, style)]).crop(0, room)


class CodeRows:
    """Makes the rows of a listing for its ``CodeView``."""

    def __init__(self, view: Any) -> None:
        self.source: Highlighter | None = None
        self.gutter = Gutter(selected=CHOICES[0])
        self.pattern: re.Pattern[str] | None = None
        self.register: re.Pattern[str] | None = None
        self.flow_width = 0
        self.lettered = False
        """Whether letters represent the colours of source lines, where there are no colours."""
        self._view = view
        self._part = view.part

    @property
    def digits(self) -> int:
        return len(str(max(0 if self.source is None else len(self.source.texts), 99)))

    @property
    def margin(self) -> int:
        return self.digits + 2 + self.gutter.width + self.lettered + self.flow_width

    def text(self, n: int) -> str:
        return "" if self.source is None else self.source.text(n)

    def row(self, n: int, part: Part, width: int) -> Strip:
        continued = is_continuation(part)
        state = self._line_state(n)
        background = self._background(state)
        segments = [self._line_sign(n, state, background)]
        if continued:
            segments.append(self._wrapped_mark(background))
        else:
            segments += self._columns(n, state.tint, background)
        segments += self._arrow_cells(n, background, continued)
        segments += self._code_cells(n, state.fold, part, max(0, width - self.margin), background)
        return Strip(segments, max(width, self.margin))

    def _line_state(self, n: int) -> LineState:
        view = self._view
        fold = view.map.fold(n)
        marks = view.map.marks(n)
        first = n if marks is None else marks.first
        last = n if fold is None else fold.last
        selection = view.selected_lines
        at_cursor = first <= view.cursor <= last
        return LineState(
            fold=fold,
            tint=view.tint_of(n),
            selected=selection is not None and selection[0] <= last and first <= selection[1],
            linked=meets(view.linked, first, last),
            current=meets(view.current, first, last),
            at_cursor=at_cursor,
            focused=at_cursor and view.has_focus,
        )

    def _background(self, state: LineState) -> Style:
        """The style of a line of this state."""
        style: Style = self._view.rich_style
        part = _background_part(state)
        return style + self._part(part) if part else style

    def _line_sign(self, n: int, state: LineState, background: Style) -> Segment:
        """The first cell of a row: the current step, the cursor, a link or a register's sign."""
        if state.current:
            sign = CURRENT
        elif state.focused:
            sign = "▸"
        elif state.linked:
            sign = "▐"
        else:
            sign = "▹" if state.at_cursor else self._view.signs.get(n, " ")
        return Segment(sign, background + self._part("mark"))

    def _wrapped_mark(self, background: Style) -> Segment:
        """The columns of a row that continues a line."""
        blank = " " * (1 + self.gutter.width + self.lettered)
        return Segment(f"{WRAPPED:>{self.digits}}{blank}", background + self._part("gutter"))

    def _columns(self, n: int, tint: int, background: Style) -> Iterator[Segment]:
        """The colour's letter, line number, note and figures of a line's first row."""
        quiet = background + self._part("gutter")
        if self.lettered:
            letter = chr(ord("a") + abs(tint) - 1) if tint else " "
            yield Segment(letter.upper() if tint < 0 else letter, quiet)
        yield Segment(f"{n:>{self.digits}}", quiet)
        note = self.gutter.sign(n)
        yield Segment(note, quiet if note == " " else background + self._part("note"))
        for text, loud in self.gutter.parts(n):
            yield Segment(text, background + self._part("peak") if loud else quiet)
        value, runs = self.gutter.value(n)
        value_style = background + self._part("value") if runs else quiet + Style(dim=True)
        yield Segment(value, value_style)

    def _arrow_cells(self, n: int, background: Style, continued: bool) -> list[Segment]:
        view = self._view
        if view.flow is None or not self.flow_width:
            return []
        cursor = view.cursor if view.has_focus else 0
        arrow_cells = cells(view.flow, self.flow_width - 1, n, cursor, continued)
        return [Segment(sign, background + self._part(kind)) for sign, kind in arrow_cells]

    def _code_cells(
        self, n: int, fold: Region | None, part: Part, room: int, background: Style
    ) -> Strip:
        """The code of a row, ``room`` cells wide, or the summary of a folded region."""
        quiet = background + self._part("gutter")
        code = self._code(n)
        if fold is not None:
            strip = folded_strip(fold, code, room, quiet)
            return strip.extend_cell_length(room).apply_style(background)
        offset, end = part
        strip = code.crop(offset, offset + room if end is None else end)
        strip = strip.extend_cell_length(room).apply_style(background)
        if end is None:
            strip = with_ends(strip, code, offset, room, quiet)
        if is_continuation(part) or self._view.folding.as_it_is:
            return strip
        # Where it is from at the right end, where that is free.
        free = room - max(0, code.cell_length - offset) - 2
        location = next((text for text in self._view.places(n) if cell_len(text) <= free), "")
        if not location:
            return strip
        return Strip([*strip.crop(0, room - cell_len(location)), Segment(location, quiet)], room)

    def _code(self, n: int) -> Strip:
        assert self.source is not None
        text = self.source.text(n)
        spans = self.source.spans(n)
        if self.pattern is not None and not self.pattern.search(text):
            own_text = self.source.own_text(n)
            if own_text != text and self.pattern.search(own_text):
                # The match is in a part that reading mode hides.
                text = own_text
                spans = self.source.tokens(own_text)
        strip = code_strip(text, spans, self._view.app.current_theme.dark)
        if self.register is not None:
            strip = mark_matches(strip, text, self.register, self._part("register"))
        if self.pattern is not None:
            strip = mark_matches(strip, text, self.pattern, self._part("match"))
        return strip
