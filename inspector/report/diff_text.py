"""``diff`` as text: two listings side by side, the summary, tables of variants and recordings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.table import Table
from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Stage
from inspector.base.names import base_name
from inspector.base.text import microseconds, plural, shown
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.explanation import TUNER, FigureChange, Summary, VariantSide
from inspector.diff.listings import FunctionPair
from inspector.diff.recordings import Fate, RecordedVariant
from inspector.diff.variants import VariantRow
from inspector.listing.line import Line
from inspector.report.diff_json import Paired
from inspector.report.grid import grid
from inspector.report.naming import setting
from inspector.report.tables import UNKNOWN, config, figure, shared, spills

# -- rows of two listings -------------------------------------------------------------------------
# Rows of two listings as lines of a terminal: numbers, signs, wrapped text, what changed in it.

Spans = Sequence[tuple[int, int]]
Intra = Callable[[int, int], tuple[Spans, Spans]]
"""Of two lines, by number: the ranges of characters of each that really differ."""

NARROWEST = 24  # cells of text a side, below which lines are longer than the terminal
SIGNS = {
    Sign.EQUAL: (" ", " "),
    Sign.CHANGED: ("~", "~"),
    Sign.UNLIKE: ("-", "+"),
    Sign.DELETED: ("-", " "),
    Sign.INSERTED: (" ", "+"),
    Sign.MOVED_AWAY: ("»", " "),
    Sign.MOVED_HERE: (" ", "«"),
}
LEGEND = "~ changed   - only in a   + only in b   » « moved, to or from → ←"
_STYLES = {"~": "yellow", "-": "red", "+": "green", "»": "blue", "«": "blue", " ": ""}
_MARKED = "bold reverse"
_GAP = re.compile(r"(?<=\S)\s{8,}")
Cell = tuple[Text, Text | None]
"""A piece of a line, and the signs under it where it changed."""


def beside(
    rows: Iterable[BesideRow],
    lines: tuple[Sequence[Line], Sequence[Line]],
    intra: Intra,
    width: int,
    colour: bool,
) -> Iterator[Text]:
    """Rows fit into ``width`` cells, both sides alike wide; long lines are wrapped, none is cut.

    Without ``colour``, signs under a changed line say what changed in it.
    """
    digits = len(str(max(len(lines[0]), len(lines[1]), 1)))
    half = max((width - 1) // 2, digits + 4 + NARROWEST)
    room = half - digits - 4
    for row in rows:
        if row.sign is Sign.FOLD:
            yield fold(row, 2 * half + 1)
            continue
        left, right = _sides(row, lines, intra, room, colour)
        signs = SIGNS[row.sign]
        numbers = (row.a, row.b)
        for k, (x, y) in enumerate(zip_longest(left, right)):
            out = Text(no_wrap=True)
            _side(out, x, numbers[0] if not k else None, signs[0], digits, room)
            out.append("│", style="dim")
            _side(out, y, numbers[1] if not k else None, signs[1], digits, room, last=True)
            out.rstrip()
            yield out
            if (x and x[1]) or (y and y[1]):
                under = Text(no_wrap=True)
                _under(under, x, digits, room)
                under.append("│", style="dim")
                _under(under, y, digits, room)
                under.rstrip()
                yield under


def fold(row: BesideRow, width: int) -> Text:
    """``… 24 equal lines``, across both sides."""
    said = f"… {row.count} equal lines"
    return Text(said.center(width).rstrip(), style="dim", no_wrap=True)


def _sides(
    row: BesideRow,
    lines: tuple[Sequence[Line], Sequence[Line]],
    intra: Intra,
    room: int,
    colour: bool,
) -> tuple[list[Cell], list[Cell]]:
    marks: tuple[Spans, Spans] = ((), ())
    if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
        marks = intra(row.a, row.b)
    out: list[list[Cell]] = []
    for n, held, spans, sign in zip((row.a, row.b), lines, marks, SIGNS[row.sign], strict=True):
        text = held[n - 1].text if n is not None else ""
        if n is None:
            out.append([])
            continue
        pieces = _wrapped_cells(text, spans, _STYLES[sign] if sign != "~" else "", room, colour)
        if row.other is not None:
            arrow = "→" if row.sign is Sign.MOVED_AWAY else "←"
            pieces.append((Text(f"{arrow} {row.other}", style="dim blue"), None))
        out.append(pieces)
    return out[0], out[1]


def _wrapped_cells(text: str, spans: Spans, style: str, room: int, colour: bool) -> list[Cell]:
    said, at = fitted(text)
    inside = [False] * len(said)
    for first, end in spans:
        for k in range(at[min(first, len(text))], at[min(end, len(text))]):
            inside[k] = True
    out: list[Cell] = []
    for first, end in _cuts(said, room):
        piece = Text(said[first:end], style=style, no_wrap=True)
        under: Text | None = None
        marked = [k - first for k in range(first, end) if inside[k]]
        for k in marked:
            piece.stylize("yellow" if not colour else _MARKED, k, k + 1)
        if marked and not colour:
            cells = "".join(
                ("^" if inside[k] else " ") * cell_len(said[k]) for k in range(first, end)
            )
            under = Text(cells.rstrip(), no_wrap=True)
        out.append((piece, under))
    return out


def fitted(text: str) -> tuple[str, list[int]]:
    """A line as it is shown, and for each of its characters (and its end) where that begins.

    A tab of the indentation is two cells, another one a blank; of a wide gap, such as the one
    before a comment, two blanks are left; control characters are shown.
    """
    out: list[str] = []
    at: list[int] = []
    size, inner = 0, False
    body = len(text.rstrip())
    gaps = {k for match in _GAP.finditer(text) for k in range(match.start() + 2, match.end())}
    for k, c in enumerate(text):
        at.append(size)
        if c == "\t":
            piece = "  " if not inner else "" if out and out[-1] == " " else " "
        else:
            piece = shown(c)
            inner = inner or c != " "
        if k in gaps or (k >= body and c.isspace()):
            piece = ""
        if piece:
            out.append(piece)
            size += len(piece)
    at.append(size)
    return "".join(out), at


def _cuts(text: str, room: int) -> list[tuple[int, int]]:
    """Where a line is cut into pieces of at most ``room`` cells: after a blank or a comma."""
    out: list[tuple[int, int]] = []
    first = 0
    while True:
        end, cells = first, 0
        while end < len(text) and cells + cell_len(text[end]) <= room:
            cells += cell_len(text[end])
            end += 1
        if end >= len(text):
            out.append((first, end))
            return out
        soft = max(text.rfind(" ", first, end), text.rfind(",", first, end)) + 1
        cut = soft if soft > first + room // 2 else max(end, first + 1)
        out.append((first, cut))
        first = cut + (len(text) - cut - len(text[cut:].lstrip(" ")))


def _side(
    out: Text,
    cell: Cell | None,
    n: int | None,
    sign: str,
    digits: int,
    room: int,
    last: bool = False,
) -> None:
    mark = sign if cell is not None else " "
    out.append(f"{n if n is not None else '':>{digits}}", style="dim")
    out.append(f" {mark} ", style=_STYLES[mark])
    piece = cell[0] if cell is not None else Text()
    out.append_text(piece)
    if not last:
        out.append(" " * max(room + 1 - cell_len(piece.plain), 0))


def _under(out: Text, cell: Cell | None, digits: int, room: int) -> None:
    held = cell[1].plain if cell is not None and cell[1] is not None else ""
    out.append(" " * (digits + 3))
    out.append(set_cell_size(held, room + 1))


# -- summary --------------------------------------------------------------------------------------

NAMES = {
    "registers": "registers",
    "spill_store_bytes": "spilled bytes stored",
    "spill_load_bytes": "spilled bytes loaded",
    "stack_bytes": "stack bytes",
    "static_shared_bytes": "static shared bytes",
    "dynamic_shared_bytes": "dynamic shared bytes",
    "barriers": "barriers",
    "max_threads": "threads at most",
    "threads": "threads a block",
    "occupancy_percent": "occupancy, theory",
    "blocks_per_sm": "blocks an SM",
    "ptx_instructions": "PTX instructions",
    "sass_instructions": "SASS instructions",
    "stall_cycles": "stall cycles, summed",
    "time_us": "measured time",
}
"""Titles of figures in the order of the table."""
MAX_OPCODES = 10
"""Opcodes shown; JSON has all."""
HEADS = ("", "a", "b", "change")
Row = tuple[str, str, str, str]


def title(mark: str, side: VariantSide) -> Text:
    """Return one side's kernel, variant, target and configuration."""
    parts = (side.variant.id, side.variant.target or "", config(side.variant))
    rest = "  ".join(shown(p) for p in parts if p)
    return Text.assemble(
        (f"{mark} ", "bold cyan"), (shown(side.kernel.called), "bold"), f"  {rest}"
    )


def figure_groups(summary: Summary, everything: bool = False) -> list[list[Row]]:
    """Return rows (name, a, b, change) of figures, costs, accesses and opcodes that differ.

    ``everything`` includes equal figures.
    """
    figures_ = [(c, said) for c, said in figures(summary) if c.differs or everything]
    groups: list[list[Row]] = [
        [(called(c), shown(a), shown(b), delta(c)) for c, (a, b) in figures_],
        [(f"{c.name} instructions", str(c.a), str(c.b), delta(c)) for c in summary.costs],
        [
            (f"{x.kind} {x.space}, {figure(x.width)} B", str(x.a), str(x.b), f"{x.b - x.a:+d}")
            for x in summary.accesses
        ],
        [(shown(c.name), str(c.a), str(c.b), delta(c)) for c in summary.opcodes[:MAX_OPCODES]],
    ]
    return [group for group in groups if group]


def hints(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield ``gained`` or ``lost`` with each such hint."""
    for word, found in (("gained", summary.gained), ("lost", summary.lost)):
        for one in found:
            yield word, hint(one)


def lines(summary: Summary, explanation: Sequence[str], width: int) -> Iterator[Text]:
    """Yield the summary in lines of at most ``width`` cells."""
    for sentence in explanation:
        yield from _wrapped("• ", shown(sentence), width, "")
    if explanation:
        yield Text()
    groups = figure_groups(summary)
    if groups:
        blank: list[Row] = [("", "", "", "")]
        rows = [row for group in groups for row in blank + group][1:]
        dimmed = [(*row[:3], (row[3], "dim")) for row in rows]
        yield from grid(HEADS, dimmed, width, HEADS[1:], (("", 8),))
        yield Text()
    if (rest := len(summary.opcodes) - MAX_OPCODES) > 0:
        yield Text(f"and {plural(rest, 'more opcode')}", style="dim")
    alike = [(c, said) for c, said in figures(summary) if not c.differs and c.a is not None]
    if alike:
        text = ", ".join(f"{called(c)} {said[0]}" for c, said in alike)
        yield from _wrapped("alike: ", text.replace(" %", "\u00a0%"), width, "dim")
    for word, text in hints(summary):
        yield from _wrapped(f"hint {word}: ", text, width, "")


def figures(summary: Summary) -> Iterator[tuple[FigureChange, tuple[str, str]]]:
    """Yield the resources in the order of ``NAMES``, with their values as text."""
    held = {c.name: c for c in summary.resources}
    bound, threads = held.get("max_threads"), held.get("threads")
    if bound and threads and (bound.a, bound.b) == (threads.a, threads.b):
        del held["max_threads"]
    for name in NAMES:
        if (c := held.get(name)) is not None:
            yield c, (amount(name, c.a), amount(name, c.b))


def called(change: FigureChange) -> str:
    """Return a figure's title; a tuner's time was taken by its own stopwatch."""
    if change.name == "time_us" and change.by == TUNER:
        return "tuner's time"
    return NAMES.get(change.name, change.name)


def amount(name: str, value: object) -> str:
    """Return a figure with its unit, rounded."""
    if value is None:
        return UNKNOWN
    if name == "time_us" and isinstance(value, int | float):
        return f"{microseconds(value)} µs"
    text = f"{value:.4g}" if isinstance(value, float) else shown(str(value))
    return f"{text} %" if name == "occupancy_percent" else text


def delta(change: FigureChange) -> str:
    """``+12``, ``-4``; a dash if one side is unknown."""
    a, b = change.a, change.b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    if change.name == "time_us":
        return f"{'-' if b < a else '+'}{microseconds(abs(b - a))}"
    return f"{b - a:+.4g}" if isinstance(a, float) or isinstance(b, float) else f"{b - a:+d}"


def hint(finding: Finding) -> str:
    """Return the rule and its first sentence."""
    first = finding.text.split(": ", 1)[0].split(". ", 1)[0]
    return f"{finding.rule}: {shown(first)}"


def _wrapped(label: str, text: str, width: int, style: str) -> Iterator[Text]:
    for n, part in enumerate(textwrap.wrap(text, max(width - len(label), 20)) or [""]):
        yield Text((label if not n else " " * len(label)) + part, style=style)


# -- variants of a kernel -------------------------------------------------------------------------

GIVES = (("configuration", 24), ("shared", 0), ("spill", 0), ("instr.", 0), ("configuration", 10))


def settings(config: Mapping[str, object]) -> str:
    """``w4 s3 BLOCK=1024``."""
    return " ".join(
        setting(name, value)
        for name, value in config.items()
        if value is not None and name != "flags" and not (name == "num_ctas" and value == 1)
    )


def variant_cells(row: VariantRow) -> dict[str, str]:
    """Return a variant's cells by their heads."""
    told = settings(row.config)
    if row.reason:
        told = f"{told} ({row.reason})" if told else row.reason
    return {
        "variant": absent(row) if row.variant is None else row.variant.id,
        "configuration": told,
        "time": UNKNOWN if row.time_us is None else f"{microseconds(row.time_us)} µs",
        "regs": figure(row.resources.registers),
        "spill": spills(row.resources),
        "shared": shared(row.resources),
        "occup.": UNKNOWN if row.occupancy is None else f"{row.occupancy:.4g} %",
        "instr.": figure(row.instructions),
    }


def variants(rows: Iterable[VariantRow], width: int, stage: Stage) -> Group:
    """Return a row for each variant, the tuner's choice with a star, instructions of ``stage``."""
    every = list(rows)
    cells = []
    for row in every:
        style = "dim" if row.variant is None else "bold" if row.winner else ""
        star = ("*" if row.winner else "", "bold green")
        cells.append([star, *((shown(text), style) for text in variant_cells(row).values())])
    names = {"time": time_head(every), "instr.": f"{stage.value} instr."}
    heads = ["", *(names.get(head, head) for head in variant_cells(every[0]))] if every else []
    gives = [(names.get(head, head), least) for head, least in GIVES]
    return Group(*grid(heads, cells, width, heads[3:], gives))


def time_head(rows: Iterable[VariantRow]) -> str:
    """Return the head of the column of times, which may be a tuner's own."""
    return "tuner's" if any(row.time_by == TUNER for row in rows) else "time"


def absent(row: VariantRow) -> str:
    """Return a placeholder for a missing variant."""
    if row.maker not in (None, "Triton"):
        return str(row.maker)
    return "not compiled" if row.compiled is False else "not known"


# -- two recordings, two files --------------------------------------------------------------------

STATE_STYLES = {Fate.SAME: "dim", Fate.CHANGED: "yellow", Fate.ADDED: "green", Fate.REMOVED: "red"}
PAIR_HEADS = ("state", "kernel", "a", "b", "resources")


def versions_said(versions: Iterable[FigureChange]) -> str:
    """``triton 3.6.0 → 3.9.0``."""
    return ", ".join(f"{change.name} {change.a} → {change.b}" for change in versions)


def pair_rows(pairs: Iterable[Paired]) -> Iterator[tuple[Fate, str, str, str, str]]:
    """Yield the cells of each pair that is not the same."""
    for a, b, state, figures in pairs:
        if state is not Fate.SAME:
            said = deltas(figures) if a is not None and b is not None else taken(figures)
            ids = [UNKNOWN if one is None else shown(one.variant.id) for one in (a, b)]
            yield state, kernel(a, b), ids[0], ids[1], said or "its code alone"


def recordings(pairs: Iterable[Paired], width: int) -> Table:
    """Return a row for each pair that is not the same."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, width=width)
    for head, ratio in zip(PAIR_HEADS, (None, 2, None, None, 3), strict=True):
        table.add_column(head, ratio=ratio, no_wrap=ratio is None, overflow="fold")
    for state, *cells in pair_rows(pairs):
        table.add_row(Text(state.value, style=STATE_STYLES[state]), *map(Text, cells))
    return table


def kernel(a: RecordedVariant | None, b: RecordedVariant | None) -> str:
    """Return the kernel's name, or both names."""
    names = dict.fromkeys(e.kernel.called for e in (a, b) if e is not None)
    return shown(" → ".join(names))


def deltas(figures: Iterable[FigureChange]) -> str:
    """``registers 22 → 16 (-6), …``."""
    out = []
    for c in figures:
        change = "" if delta(c) == UNKNOWN else f" ({delta(c)})"
        out.append(f"{called(c)} {amount(c.name, c.a)} → {amount(c.name, c.b)}{change}")
    return ", ".join(out)


def taken(figures: Iterable[FigureChange]) -> str:
    """Return the resources of the only side that exists, without zeros."""
    held = [(c, c.b if c.a is None else c.a) for c in figures if c.name != "max_threads"]
    return ", ".join(f"{called(c)} {amount(c.name, value)}" for c, value in held if value)


def functions(
    pairs: Iterable[FunctionPair], figures: Iterable[Iterable[FigureChange]]
) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each pair of functions of two files and what changed."""
    for pair, changed in zip(pairs, figures, strict=True):
        names = dict.fromkeys(base_name(f.name) for f in (pair.a, pair.b) if f is not None)
        if pair.a is None or pair.b is None:
            became = "only in b" if pair.a is None else "only in a"
        else:
            became = "identical" if pair.identical else deltas(changed) or "its code alone"
        yield list(names), became


def counts(pairs: Iterable[Paired]) -> str:
    """``3 changed, 1 added, 12 the same``."""
    states = [state for _, _, state, _ in pairs]
    words = {"changed": Fate.CHANGED, "added": Fate.ADDED, "removed": Fate.REMOVED}
    parts = [
        f"{n} {word}"
        for word, fate in (words | {"the same": Fate.SAME}).items()
        if (n := states.count(fate))
    ]
    return f"{plural(len(states), 'variant')}: {', '.join(parts)}" if parts else "no variants"
