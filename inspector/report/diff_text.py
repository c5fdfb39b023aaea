"""The summary above a diff, for people: which two, what was chosen, why, and the figures."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.listings import FunctionPair
from inspector.diff.recordings import Fate, RecordedVariant
from inspector.diff.summary import TUNER, AccessChange, FigureChange, Summary, VariantSide
from inspector.diff.variants import VariantRow
from inspector.listing.line import Line
from inspector.model import Stage
from inspector.names import base_name
from inspector.report.diff_json import Paired
from inspector.report.tables import UNKNOWN, config, figure, shared, spills
from inspector.text import microseconds, plural, shown

# -- rows of two listings -------------------------------------------------------------------------
# Rows of two listings as lines of a terminal: numbers, signs, wrapped text, what changed in it.

Spans = Sequence[tuple[int, int]]
Intra = Callable[[int, int], tuple[Spans, Spans]]
"""Of two lines, by number: the ranges of characters of each that really differ."""

NARROWEST = 24  # cells of text a side, below which lines are longer than the terminal
SIGNS = {
    Sign.EQUAL: (" ", " "), Sign.CHANGED: ("~", "~"), Sign.UNLIKE: ("-", "+"),
    Sign.DELETED: ("-", " "), Sign.INSERTED: (" ", "+"),
    Sign.MOVED_AWAY: ("»", " "), Sign.MOVED_HERE: (" ", "«"),
}  # fmt: skip
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
            cells = "".join(("^" if inside[k] else " ") * cell_len(said[k])
                            for k in range(first, end))  # fmt: skip
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
"""What each figure is called; the order is that of the table. ``max_threads`` is told where it is
not what a block has."""
_UNITS = {"occupancy_percent": " %"}
MOST = 10  # opcodes and settings that are told of; JSON has them all
_LABEL = 22


def title(mark: str, side: VariantSide) -> Text:
    """Which variant one side is."""
    name = side.kernel.called
    parts = (side.variant.id, side.variant.target or "", config(side.variant))
    told = "  ".join(shown(p) for p in parts if p)
    return Text.assemble((f"{mark} ", "bold cyan"), (shown(name), "bold"), f"  {told}")


def lines(summary: Summary, explanation: tuple[str, ...], width: int) -> Iterator[Text]:
    """The summary in lines of at most ``width`` cells."""
    for sentence in explanation:
        yield from _wrapped("• ", shown(sentence), width, "")
    if explanation:
        yield Text()
    rows = [(c, said) for c, said in figures(summary) if c.differs]
    alike = [(c, figure) for c, figure in figures(summary) if not c.differs and c.a is not None]
    groups = [
        [(called(c), *said, delta(c)) for c, said in rows],
        [(f"{c.name} instructions", str(c.a), str(c.b), delta(c)) for c in summary.costs],
        [(access(x), str(x.a), str(x.b), f"{x.b - x.a:+d}") for x in summary.accesses],
        [(c.name, str(c.a), str(c.b), delta(c)) for c in summary.opcodes[:MOST]],
    ]
    yield from _table([g for g in groups if g], width)
    if len(summary.opcodes) > MOST:
        rest = len(summary.opcodes) - MOST
        yield Text(f"and {plural(rest, 'more opcode')}", style="dim")
    if alike:
        figures_text = ", ".join(f"{called(c)} {said[0]}" for c, said in alike)
        figures_text = figures_text.replace(" %", "\u00a0%")
        yield from _wrapped("alike: ", figures_text, width, "dim")
    for hints, word in ((summary.gained, "gained"), (summary.lost, "lost")):
        for one in hints:
            yield from _wrapped(f"hint {word}: ", hint(one), width, "")


def figures(summary: Summary) -> Iterator[tuple[FigureChange, tuple[str, str]]]:
    """The resources in the order of ``NAMES``, as numbers with their units."""
    held = {c.name: c for c in summary.resources}
    bound, threads = held.get("max_threads"), held.get("threads")
    for name in NAMES:
        if name == "max_threads" and bound and threads and _same(bound, threads):
            continue
        if (c := held.get(name)) is not None:
            yield c, (amount(name, c.a), amount(name, c.b))


def _same(one: FigureChange, other: FigureChange) -> bool:
    return (one.a, one.b) == (other.a, other.b)


def called(change: FigureChange) -> str:
    """What people call a figure; a tuner's time is its own, taken with a stopwatch of its own."""
    if change.name == "time_us" and change.by == TUNER:
        return "tuner's time"
    return NAMES.get(change.name, change.name)


def amount(name: str, value: object) -> str:
    """A figure of that name with its unit, to as many places as are worth reading."""
    if value is None:
        return UNKNOWN
    if name == "time_us" and isinstance(value, int | float):
        return f"{microseconds(value)} µs"
    text = f"{value:.4g}" if isinstance(value, float) else shown(str(value))
    return text + _UNITS.get(name, "")


def delta(change: FigureChange) -> str:
    """``+12``, ``-4``; a dash where one side is not known."""
    a, b = change.a, change.b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    if change.name == "time_us":
        return f"{'-' if b < a else '+'}{microseconds(abs(b - a))}"
    return f"{b - a:+.4g}" if isinstance(a, float) or isinstance(b, float) else f"{b - a:+d}"


def access(one: AccessChange) -> str:
    """``load global, 16 B``."""
    width = UNKNOWN if one.width is None else one.width
    return f"{one.kind} {one.space}, {width} B"


def hint(finding: Finding) -> str:
    """The rule and the first sentence of what it says."""
    first = finding.text.split(": ", 1)[0].split(". ", 1)[0]
    return f"{finding.rule}: {shown(first)}"


def _table(groups: list[list[tuple[str, str, str, str]]], width: int) -> Iterator[Text]:
    rows = [row for group in groups for row in group]
    if not rows:
        return
    sizes = [max(len(row[k]) for row in rows) for k in range(4)]
    label = max(min(sizes[0], width - sum(sizes[1:]) - 8), 8)
    head = f"{'':<{label}}  {'a':>{sizes[1]}}  {'b':>{sizes[2]}}"
    yield Text(head, style="bold")
    for n, group in enumerate(groups):
        if n:
            yield Text()
        for name, a, b, change in group:
            cut = name if len(name) <= label else name[: label - 1] + "…"
            row = f"{shown(cut):<{label}}  {a:>{sizes[1]}}  {b:>{sizes[2]}}  "
            yield Text.assemble(row, (f"{change:>{sizes[3]}}", "dim"))
    yield Text()


def _wrapped(label: str, text: str, width: int, style: str) -> Iterator[Text]:
    room = max(width - len(label), 20)
    for n, part in enumerate(textwrap.wrap(text, room) or [""]):
        yield Text((label if not n else " " * len(label)) + part, style=style)


# -- tables ---------------------------------------------------------------------------------------
# Tables of ``diff``: all variants of a kernel, and the kernels of two recordings.

_STATES = {Fate.SAME: "dim", Fate.CHANGED: "yellow", Fate.ADDED: "green",
           Fate.REMOVED: "red"}  # fmt: skip
_HEADS = ("variant", "configuration", "time", "regs", "spill", "shared", "occup.", "instr.")
_LEFT = ("variant", "configuration")
# Columns in the order in which they are given up where the terminal is narrow.
_GIVEN_UP = ("shared", "spill", "instr.")
_SHORT = {"num_warps": "w", "num_stages": "s", "num_ctas": "c"}


def settings(config: Mapping[str, object]) -> str:
    """``w4 s3 BLOCK=1024``."""
    parts = []
    for name, value in config.items():
        if value is None or name == "flags" or (name == "num_ctas" and value == 1):
            continue
        parts.append(f"{_SHORT[name]}{value}" if name in _SHORT else f"{name}={value}")
    return " ".join(parts)


def variants(rows: Iterable[VariantRow], width: int, stage: Stage) -> Table:
    """A row for each variant; a star before the one that a tuner chose. ``stage`` is the one whose
    instructions are counted."""
    every = list(rows)
    cells = [_cells(row) for row in every]
    told = {"time": time_head(every), "instr.": f"{stage.value} instr."}
    sizes = _fit(cells, width, told)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("", width=1)
    for head, size in sizes.items():
        left = head in _LEFT
        table.add_column(
            told.get(head, head),
            width=size,
            no_wrap=not left,
            overflow="fold",
            justify="left" if left else "right",
        )
    for star, held, style in cells:
        table.add_row(Text(star, style="bold green"), *(Text(held[h], style=style) for h in sizes))
    return table


def time_head(rows: Iterable[VariantRow]) -> str:
    """What the column of times is called: a tuner's are its own."""
    return "tuner's" if any(row.time_by == TUNER for row in rows) else "time"


def absent(row: VariantRow) -> str:
    """What stands in the place of a variant where there is none."""
    if row.maker not in (None, "Triton"):
        return str(row.maker)
    return "not compiled" if row.compiled is False else "not known"


def _cells(row: VariantRow) -> tuple[str, dict[str, str], str]:
    time = UNKNOWN if row.time_us is None else f"{microseconds(row.time_us)} µs"
    full = UNKNOWN if row.occupancy is None else f"{row.occupancy:.4g} %"
    told = settings(row.config)
    if row.reason:
        told = f"{told} ({row.reason})" if told else row.reason
    variant = row.variant
    style = "dim" if variant is None else "bold" if row.winner else ""
    return (
        "*" if row.winner else "",
        dict(
            zip(
                _HEADS,
                (
                    absent(row) if variant is None else shown(variant.id),
                    shown(told),
                    time,
                    figure(row.resources.registers),
                    spills(row.resources),
                    shared(row.resources),
                    full,
                    figure(row.instructions),
                ),
                strict=True,
            )
        ),
        style,
    )


def _fit(
    cells: list[tuple[str, dict[str, str], str]], width: int, told: Mapping[str, str]
) -> dict[str, int]:
    """Widths of the columns: configurations are wrapped, then columns given up. ``told`` is how
    heads are called that have another name in the table."""
    full = {h: max([len(told.get(h, h)), *(len(held[h]) for _, held, _ in cells)]) for h in _HEADS}
    for given_up in range(len(_GIVEN_UP) + 1):
        out = {h: n for h, n in full.items() if h not in _GIVEN_UP[:given_up]}
        others = sum(n for h, n in out.items() if h != "configuration")
        room = width - 1 - 2 * len(out) - others
        if room >= min(out["configuration"], 24) or given_up == len(_GIVEN_UP):
            out["configuration"] = max(min(out["configuration"], room), 10)
            return out
    return full


def versions_said(versions: Iterable[FigureChange]) -> str:
    """Programs whose versions differ: ``triton 3.6.0 → 3.9.0``."""
    return ", ".join(f"{change.name} {change.a} → {change.b}" for change in versions)


def recordings(pairs: Iterable[Paired], width: int) -> Table:
    """A row for each pair that is not the same."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, width=width)
    table.add_column("", no_wrap=True)
    table.add_column("kernel", overflow="fold", ratio=2)
    table.add_column("a", no_wrap=True)
    table.add_column("b", no_wrap=True)
    table.add_column("what it takes", overflow="fold", ratio=3)
    for a, b, state, figures in pairs:
        if state is not Fate.SAME:
            both = a is not None and b is not None
            said = deltas(figures) if both else taken(figures)
            table.add_row(
                Text(state.value, style=_STATES[state]), Text(kernel(a, b)),
                Text(_id(a)), Text(_id(b)),
                Text(said or "its code alone"),
            )  # fmt: skip
    return table


def kernel(a: RecordedVariant | None, b: RecordedVariant | None) -> str:
    """The kernel's name, both where it has two."""
    names = dict.fromkeys(e.kernel.called for e in (a, b) if e is not None)
    return shown(" → ".join(names))


def _id(entry: RecordedVariant | None) -> str:
    return UNKNOWN if entry is None else shown(entry.variant.id)


def deltas(figures: Iterable[FigureChange]) -> str:
    """``registers 22 → 16 (-6), …``."""
    out = []
    for c in figures:
        a, b = amount(c.name, c.a), amount(c.name, c.b)
        change = delta(c)
        out.append(f"{called(c)} {a} → {b}"
                   + (f" ({change})" if change != UNKNOWN else ""))  # fmt: skip
    return ", ".join(out)


def taken(figures: Iterable[FigureChange]) -> str:
    """What the one side that there is takes: what is not nothing."""
    held = [(c, c.b if c.a is None else c.a) for c in figures if c.name != "max_threads"]
    return ", ".join(f"{called(c)} {amount(c.name, value)}" for c, value in held if value)


def functions(
    pairs: Iterable[FunctionPair], figures: Iterable[Iterable[FigureChange]]
) -> Iterator[Text]:
    """A line for each function of two files: what became of it."""
    for pair, changed in zip(pairs, figures, strict=True):
        names = dict.fromkeys(base_name(f.name) for f in (pair.a, pair.b) if f is not None)
        yield Text.assemble("  ", (shown(" → ".join(names)), "bold"), f": {became(pair, changed)}")


def became(pair: FunctionPair, changed: Iterable[FigureChange]) -> str:
    """``identical``, ``only in a``, or what changed of its figures."""
    if pair.a is None or pair.b is None:
        return "only in b" if pair.a is None else "only in a"
    if pair.identical:
        return "identical"
    return deltas(changed) or "its code alone"


def counts(pairs: Iterable[Paired]) -> str:
    """``3 changed, 1 added, 12 the same``."""
    states = [state for _, _, state, _ in pairs]
    words = ((Fate.CHANGED, "changed"), (Fate.ADDED, "added"), (Fate.REMOVED, "removed"),
             (Fate.SAME, "the same"))  # fmt: skip
    parts = [f"{n} {word}" for state, word in words if (n := states.count(state))]
    return f"{plural(len(states), 'variant')}: {', '.join(parts)}" if parts else "no variants"
