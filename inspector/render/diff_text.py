"""``diff`` as text and Markdown: two variants, all of a kernel, recordings, files.

One module because both forms say the same figures and rows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.table import Table
from rich.text import Text

from inspector.analysis.hints.subject import Finding
from inspector.base.escapes import shown
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.names import base_name
from inspector.base.units import microseconds, plural
from inspector.diff.beside import BesideRow, PassChange, Sign, folded
from inspector.diff.compare import Compared, Files, Paired
from inspector.diff.listings import FunctionPair
from inspector.diff.recordings import ChangeKind, RecordedVariant
from inspector.diff.summary import TUNER, FigureChange, Summary
from inspector.diff.variants import VariantRow
from inspector.parsers.line import Line
from inspector.render.columns import COLUMNS
from inspector.render.tables import (
    UNKNOWN,
    configuration,
    differing,
    figure,
    grid,
    setting,
    title,
    wrapped,
)

# -- rows of two listings -------------------------------------------------------------------------
# Rows of two listings as lines of a terminal: numbers, signs, wrapped text, what changed in it.

Spans = Sequence[tuple[int, int]]
"""The ranges of characters of a line that really differ."""

MIN_TEXT_CELLS = 24  # cells of text a side, below which lines are longer than the terminal
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
Cell = tuple[Text, str]
"""A piece of a line, and the signs under it where it changed."""


def side_by_side(
    comparison: Compared | Files | PassChange, rows: Iterable[BesideRow], width: int, colour: bool
) -> Iterator[Text]:
    """Rows fit into ``width`` cells, both sides alike wide; long lines are wrapped, none is cut.

    Without ``colour``, signs under a changed line say what changed in it.
    """
    lines = (comparison.listings[0].lines, comparison.listings[1].lines)
    digits = len(str(max(len(lines[0]), len(lines[1]), 1)))
    half = max((width - 1) // 2, digits + 4 + MIN_TEXT_CELLS)
    room = half - digits - 4
    for row in rows:
        if row.sign is Sign.FOLD:
            text = f"… {row.count:,} equal lines".center(2 * half + 1).rstrip()
            yield Text(text, style="dim", no_wrap=True)
            continue
        numbers = (row.a, row.b)
        signs = SIGNS[row.sign]
        marks: tuple[Spans, Spans] = ((), ())
        if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
            marks = comparison.intra(row.a, row.b)
        sides: list[list[Cell]] = []
        for number, side_lines, spans, sign in zip(numbers, lines, marks, signs, strict=True):
            side: list[Cell] = []
            if number is not None:
                side = _pieces(side_lines[number - 1].text, spans, sign, room, colour)
                if row.other is not None:
                    arrow = "→" if row.sign is Sign.MOVED_AWAY else "←"
                    side.append((Text(f"{arrow} {row.other}", style="dim blue"), ""))
            sides.append(side)
        for n, pair in enumerate(zip_longest(*sides)):
            numbered = zip(pair, numbers if n == 0 else (None, None), signs, strict=True)
            yield _joined([_half(*parts, digits, room) for parts in numbered])
            marks_below = [cell[1] if cell is not None else "" for cell in pair]
            if any(marks_below):
                gap = " " * (digits + 3)
                yield _joined([Text(gap + set_cell_size(m, room + 1)) for m in marks_below])


def _half(cell: Cell | None, number: int | None, sign: str, digits: int, room: int) -> Text:
    """One side of a row: its line's number and sign, and a piece of its text."""
    mark = " " if cell is None else sign
    number_text = " " * digits if number is None else f"{number:>{digits}}"
    piece = Text() if cell is None else cell[0]
    half = Text.assemble((number_text, "dim"), (f" {mark} ", _STYLES[mark]), piece)
    return half.append(" " * max(room + 1 - cell_len(piece.plain), 0))


def _joined(halves: Sequence[Text]) -> Text:
    out = Text.assemble(halves[0], ("│", "dim"), halves[1], no_wrap=True)
    out.rstrip()
    return out


def _pieces(text: str, spans: Spans, sign: str, room: int, colour: bool) -> list[Cell]:
    """One side's line in pieces of at most ``room`` cells."""
    shown_text, starts = displayed(text)
    changed: set[int] = set()
    for first, end in spans:
        changed.update(range(starts[min(first, len(text))], starts[min(end, len(text))]))
    out: list[Cell] = []
    for first, end in _cuts(shown_text, room):
        style = "" if sign == "~" else _STYLES[sign]
        piece = Text(shown_text[first:end], style=style, no_wrap=True)
        for k in changed.intersection(range(first, end)):
            piece.stylize(_MARKED if colour else "yellow", k - first, k - first + 1)
        signs = ""
        if not colour:
            for k in range(first, end):
                signs += ("^" if k in changed else " ") * cell_len(shown_text[k])
        out.append((piece, signs.rstrip()))
    return out


def displayed(text: str) -> tuple[str, list[int]]:
    """A line as it is shown, and for each of its characters (and its end) where that begins.

    A tab of the indentation is two cells, another one a blank; of a wide gap, such as the one
    before a comment, two blanks are left; control characters are shown.
    """
    out = ""
    starts = [0]
    is_indentation = True
    body = len(text.rstrip())
    gaps = {k for match in _GAP.finditer(text) for k in range(match.start() + 2, match.end())}
    for k, char in enumerate(text):
        piece = shown(char)
        if char == "\t" and is_indentation:
            piece = "  "
        elif char == "\t":
            piece = "" if out.endswith(" ") else " "
        is_indentation = is_indentation and char in " \t"
        if k not in gaps and (k < body or not char.isspace()):
            out += piece
        starts.append(len(out))
    return out, starts


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
    "stall_cycles": "stall cycles, longest path",
    "blocks": "blocks of the grid",
    "k_steps": "k-steps",
    "ptx_instructions_a_step": "PTX instr. a k-step",
    "sass_instructions_an_element": "≈ SASS instr. an output",
    "loaded_bytes_an_element": "≈ bytes loaded an output",
    "time_us": "measured time",
}
"""Titles of figures in the order of the table."""
MAX_OPCODES = 10
"""Opcodes shown; JSON has all."""
HEADS = ("", "a", "b", "change")
Row = tuple[str, str, str, str]


def side_text(kernel: Kernel, variant: Variant, rival_kernel: Kernel, rival: Variant) -> str:
    """A side of a comparison by its id and title; what distinguishes it comes first."""
    config = {k: v for k, v in variant.config.items() if k != "flags" and (k, v) != ("num_ctas", 1)}
    first = [key for key in differing((variant.config, rival.config)) if key in config]
    equal_settings = configuration(config, [key for key in config if key not in first])
    words = [title(kernel), configuration(config, first)]
    words = words if title(kernel) != title(rival_kernel) else words[::-1]
    words.insert(2 if variant.target == rival.target else 0, variant.target or "")
    return shown("  ".join(filter(None, (variant.id, *words, equal_settings))))


def figure_groups(summary: Summary, everything: bool = False) -> list[list[Row]]:
    """Return rows (name, a, b, change) of figures, costs, accesses and opcodes that differ.

    ``everything`` includes equal figures.
    """
    resources = [
        (figure_title(change), shown(a), shown(b), delta(change))
        for change, (a, b) in figures(summary)
        if change.differs or everything
    ]
    times = []
    for tuning_round in summary.rounds:
        change = FigureChange("time_us", tuning_round.a, tuning_round.b)
        a = amount(change.name, change.a)
        b = amount(change.name, change.b)
        times.append((f"tuner's time, round {tuning_round.round}", a, b, delta(change)))
    for gpu in dict.fromkeys(r.gpu for r in summary.rounds if r.gpu is not None):
        change = FigureChange("time_us", gpu.a, gpu.b)
        a = amount(change.name, change.a)
        b = amount(change.name, change.b)
        times.append(("GPU time, tuner's launches", a, b, delta(change)))
    groups: list[list[Row]] = [
        resources,
        times,
        [(f"{c.name} instructions", str(c.a), str(c.b), delta(c)) for c in summary.costs],
        [
            (f"{x.kind} {x.space}, {figure(x.width)} B", str(x.a), str(x.b), f"{x.b - x.a:+d}")
            for x in summary.accesses
        ],
        [(shown(c.name), str(c.a), str(c.b), delta(c)) for c in summary.opcodes[:MAX_OPCODES]],
    ]
    return [group for group in groups if group]


def hints(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield each hint of one side alone, after what that is: a dash is unknown."""
    for word, findings in (
        ("gained", summary.gained),
        ("lost", summary.lost),
        (f"in a, {UNKNOWN} in b", summary.unknown_b),
        (f"{UNKNOWN} in a, in b", summary.unknown_a),
    ):
        for finding in findings:
            yield word, hint_text(finding)


def lines(summary: Summary, explanation: Sequence[str], width: int) -> Iterator[Text]:
    """Yield the summary in lines of at most ``width`` cells."""
    for sentence in explanation:
        yield from _wrapped("• ", shown(sentence), width)
    if explanation:
        yield Text()
    rows: list[Row] = []
    for group in figure_groups(summary):
        if rows:
            rows.append(("", "", "", ""))
        rows += group
    if rows:
        dimmed = [(*row[:3], (row[3], "dim")) for row in rows]
        yield from grid(HEADS, dimmed, width, HEADS[1:], (("", 8),))
        yield Text()
    remaining = len(summary.opcodes) - MAX_OPCODES
    if remaining > 0:
        yield Text(f"and {plural(remaining, 'more opcode')}", style="dim")
    equal_figures = [
        f"{figure_title(change)} {value}"
        for change, (value, _) in figures(summary)
        if not change.differs and change.a is not None
    ]
    if equal_figures:
        text = ", ".join(equal_figures)
        yield from _wrapped("alike: ", text.replace(" %", "\u00a0%"), width, "dim")
    for word, text in hints(summary):
        yield from _wrapped(f"hint {word}: ", text, width)


def figures(summary: Summary) -> Iterator[tuple[FigureChange, tuple[str, str]]]:
    """Yield the resources in the order of ``NAMES``, with their values as text."""
    changes = {change.name: change for change in summary.resources}
    bound = changes.get("max_threads")
    threads = changes.get("threads")
    if bound and threads and (bound.a, bound.b) == (threads.a, threads.b):
        del changes["max_threads"]
    for name in NAMES:
        if name in changes:
            change = changes[name]
            yield change, (amount(name, change.a), amount(name, change.b))


def figure_title(change: FigureChange) -> str:
    return NAMES.get(change.name, change.name)


def amount(name: str, value: object) -> str:
    if value is None:
        return UNKNOWN
    if name == "time_us" and isinstance(value, int | float):
        return f"{microseconds(value)} µs"
    text = f"{value:.4g}" if isinstance(value, float) else shown(str(value))
    return f"{text} %" if name == "occupancy_percent" else text


def delta(change: FigureChange) -> str:
    a, b = change.a, change.b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    if change.name == "time_us":
        return f"{'-' if b < a else '+'}{microseconds(abs(b - a))}"
    return f"{b - a:+.4g}" if isinstance(a, float) or isinstance(b, float) else f"{b - a:+d}"


def hint_text(finding: Finding) -> str:
    first = finding.text.split(": ", 1)[0].split(". ", 1)[0]
    return f"{finding.rule}: {shown(first)}"


def _wrapped(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    return (Text(head + part, style) for head, part in wrapped(label, text, width))


# -- variants of a kernel -------------------------------------------------------------------------

SHRINK_ORDER = (
    ("configuration", 24),
    ("shared", 0),
    ("spill", 0),
    ("instr.", 0),
    ("configuration", 10),
)


def settings_of(config: Mapping[str, object]) -> str:
    return " ".join(
        setting(name, value)
        for name, value in config.items()
        if value is not None and name != "flags" and not (name == "num_ctas" and value == 1)
    )


VARIANT_FIGURES = [
    COLUMNS[key] for key in ("registers", "spills", "shared", "occupancy", "instructions")
]


def variant_cells(row: VariantRow) -> dict[str, str]:
    configuration_text = settings_of(row.config)
    if row.reason and configuration_text:
        configuration_text += f" ({row.reason})"
    elif row.reason:
        configuration_text = row.reason
    return {
        "variant": absent_text(row) if row.variant is None else row.variant.id,
        "configuration": configuration_text,
        "time": UNKNOWN if row.time_us is None else f"{microseconds(row.time_us)} µs",
        **{column.head: column.cell(row) for column in VARIANT_FIGURES},
    }


def variants(rows: Iterable[VariantRow], width: int, stage: Stage) -> Group:
    """Return a row for each variant, the tuner's choice with a star, instructions of ``stage``."""
    all_rows = list(rows)
    names = {"time": time_head(all_rows), "instr.": f"{stage.value} instr."}
    heads: list[str] = []
    cells = []
    for row in all_rows:
        texts = variant_cells(row)
        heads = ["", *(names.get(head, head) for head in texts)]
        style = "bold" if row.winner else ""
        if row.variant is None:
            style = "dim"
        star = ("*" if row.winner else "", "bold green")
        cells.append([star, *((shown(text), style) for text in texts.values())])
    shrink_order = [(names.get(head, head), least) for head, least in SHRINK_ORDER]
    return Group(*grid(heads, cells, width, heads[3:], shrink_order))


def time_head(rows: Iterable[VariantRow]) -> str:
    """Return the head of the column of times, which may be a tuner's own."""
    return "tuner's" if any(row.time_by == TUNER for row in rows) else "time"


def absent_text(row: VariantRow) -> str:
    """Return a placeholder for a missing variant."""
    if row.maker not in (None, "Triton"):
        return str(row.maker)
    return "not compiled" if row.compiled is False else "not known"


# -- two recordings, two files --------------------------------------------------------------------

STATE_STYLES = {
    ChangeKind.SAME: "dim",
    ChangeKind.CHANGED: "yellow",
    ChangeKind.ADDED: "green",
    ChangeKind.REMOVED: "red",
}
PAIR_HEADS = ("state", "kernel", "a", "b", "resources")


def versions_text(versions: Iterable[FigureChange]) -> str:
    return ", ".join(f"{change.name} {change.a} → {change.b}" for change in versions)


def pair_rows(pairs: Iterable[Paired]) -> Iterator[tuple[ChangeKind, str, str, str, str]]:
    for a, b, state, figures in pairs:
        if state is ChangeKind.SAME:
            continue
        is_pair = a is not None and b is not None
        changes = deltas(figures) if is_pair else present_figures(figures)
        ids = [UNKNOWN if side is None else shown(side.variant.id) for side in (a, b)]
        yield state, kernel_names(a, b), ids[0], ids[1], changes or "its code alone"


def recordings(pairs: Iterable[Paired], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, width=width)
    for head, ratio in zip(PAIR_HEADS, (None, 2, None, None, 3), strict=True):
        table.add_column(head, ratio=ratio, no_wrap=ratio is None, overflow="fold")
    for state, *cells in pair_rows(pairs):
        table.add_row(Text(state.value, style=STATE_STYLES[state]), *map(Text, cells))
    return table


def kernel_names(a: RecordedVariant | None, b: RecordedVariant | None) -> str:
    return shown(" → ".join(dict.fromkeys(e.kernel.display_name for e in (a, b) if e is not None)))


def deltas(figures: Iterable[FigureChange]) -> str:
    """``registers 22 → 16 (-6), …``."""
    out = []
    for c in figures:
        change = "" if delta(c) == UNKNOWN else f" ({delta(c)})"
        out.append(f"{figure_title(c)} {amount(c.name, c.a)} → {amount(c.name, c.b)}{change}")
    return ", ".join(out)


def present_figures(figures: Iterable[FigureChange]) -> str:
    """Return the resources of the only side that exists, without zeros."""
    values = [(c, c.b if c.a is None else c.a) for c in figures if c.name != "max_threads"]
    return ", ".join(f"{figure_title(c)} {amount(c.name, value)}" for c, value in values if value)


def functions(
    pairs: Iterable[FunctionPair], figures: Iterable[Iterable[FigureChange]]
) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each pair of functions of two files and what changed."""
    for pair, changed in zip(pairs, figures, strict=True):
        names = dict.fromkeys(base_name(f.name) for f in (pair.a, pair.b) if f is not None)
        if pair.a is None:
            change = "only in b"
        elif pair.b is None:
            change = "only in a"
        elif pair.identical:
            change = "identical"
        else:
            change = deltas(changed) or "its code alone"
        yield list(names), change


def counts_text(pairs: Iterable[Paired]) -> str:
    states = [state for _, _, state, _ in pairs]
    words = {
        ChangeKind.CHANGED: "changed",
        ChangeKind.ADDED: "added",
        ChangeKind.REMOVED: "removed",
        ChangeKind.SAME: "the same",
    }
    parts = [f"{states.count(kind)} {word}" for kind, word in words.items() if kind in states]
    return f"{plural(len(states), 'variant')}: {', '.join(parts)}" if parts else "no variants"


MAX_LINES = 400
"""Lines of an excerpt; a comment on GitHub may have 65,536 characters."""
_SPECIAL = re.compile(r"([\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|^[#+-])")
_TICKS = re.compile(r"`+")


def escaped(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return _SPECIAL.sub(r"\\\1", shown(text).replace("&", "&amp;"))


def code_span(text: str) -> str:
    """Text as a code span, fit for a cell of a table too."""
    visible_text = shown(text).replace("|", "\\|")
    ticks = "`" * (1 + max((len(t) for t in _TICKS.findall(visible_text)), default=0))
    pad = " " if visible_text.startswith("`") or visible_text.endswith("`") else ""
    return f"{ticks}{pad}{visible_text}{pad}{ticks}" if visible_text else ""


def variants_markdown(comparison: Compared, context: int) -> Iterator[str]:
    stage = comparison.stage.value
    summary = comparison.summary
    a = comparison.a
    b = comparison.b
    names = " → ".join(
        map(code_span, dict.fromkeys((a.kernel.display_name, b.kernel.display_name)))
    )
    yield f"### {names}: the {stage} {'is the same' if comparison.diff.identical else 'differs'}"
    yield ""
    for mark, side, other in (("a", a, b), ("b", b, a)):
        text = side_text(side.kernel, side.variant, other.kernel, other.variant)
        yield f"- **{mark}** {escaped(text)}"
    yield from ("", *(f"- {escaped(sentence)}" for sentence in comparison.explanation), "")
    rows = []
    for name, *values in chain.from_iterable(figure_groups(summary)):
        rows.append((escaped(name), *values))
    if rows:
        yield from markdown_table(HEADS, rows)
    remaining = len(summary.opcodes) - MAX_OPCODES
    if remaining > 0:
        yield from (f"and {plural(remaining, 'more opcode')}", "")
    yield from (f"- hint {word}: {escaped(text)}" for word, text in hints(summary))
    yield ""
    yield from _markdown_texts(comparison, context)


def files_markdown(comparison: Files, paths: tuple[str, str], context: int) -> Iterator[str]:
    yield from (f"### {code_span(paths[0])} → {code_span(paths[1])}", "")
    for names, became in functions(comparison.diff.functions, comparison.figures):
        yield f"- {' → '.join(code_span(n) for n in names)}: {escaped(became)}"
    yield ""
    yield from _markdown_texts(comparison, context)


def _markdown_texts(comparison: Compared | Files, context: int) -> Iterator[str]:
    if not comparison.diff.identical:
        lines = (comparison.listings[0].lines, comparison.listings[1].lines)
        rows = folded(comparison.rows(), context)
        yield from details(f"{comparison.stage.value}, unified", unified(rows, lines))


def details(
    title: str, lines: Iterable[str], language: str = "diff", max_lines: int = MAX_LINES
) -> Iterator[str]:
    """A folded block of code; what is longer than ``max_lines`` lines is counted, not shown."""
    all_lines = list(lines)
    longest = max((len(t) for line in all_lines for t in _TICKS.findall(line)), default=0)
    ticks = "`" * max(3, 1 + longest)
    yield from (f"<details><summary>{escaped(title)}</summary>", "", f"{ticks}{language}")
    yield from (*all_lines[:max_lines], ticks)
    if len(all_lines) > max_lines:
        yield plural(len(all_lines) - max_lines, "more line")
    yield from ("", "</details>")


def unified(
    rows: Iterable[BesideRow], lines: tuple[Sequence[Line], Sequence[Line]]
) -> Iterator[str]:
    """Yield rows as a unified diff; ``!`` marks moved lines."""
    gone: list[str] = []
    new: list[str] = []
    for row in rows:
        text_a = "" if row.a is None else displayed(lines[0][row.a - 1].text)[0]
        text_b = "" if row.b is None else displayed(lines[1][row.b - 1].text)[0]
        if row.sign in (Sign.CHANGED, Sign.UNLIKE, Sign.DELETED, Sign.INSERTED):
            if row.a is not None:
                gone.append(f"- {text_a}")
            if row.b is not None:
                new.append(f"+ {text_b}")
            continue
        yield from (*gone, *new)
        gone.clear()
        new.clear()
        if row.sign is Sign.FOLD:
            yield f"@@ {row.count:,} equal lines @@"
        elif row.sign is Sign.EQUAL:
            yield f"  {text_b if row.b is not None else text_a}".rstrip()
        elif row.sign is Sign.MOVED_AWAY:
            yield f"! {text_a}  → line {row.other}"
        else:
            yield f"! {text_b}  ← line {row.other}"
    yield from (*gone, *new)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; every column but the first is of figures."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['---', *(['---:'] * (len(heads) - 1))])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def table_markdown(rows: Iterable[VariantRow]) -> Iterator[str]:
    all_rows = list(rows)
    figure_heads = [column.key for column in VARIANT_FIGURES]
    heads = ("variant", "configuration", time_head(all_rows), *figure_heads)
    cells = []
    for row in all_rows:
        variant, config, *cell_texts = variant_cells(row).values()
        name = variant if row.variant is None else code_span(variant)
        cells.append((("**winner** " if row.winner else "") + name, escaped(config), *cell_texts))
    yield from markdown_table(heads, cells)


def recordings_markdown(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Sequence[FigureChange] = ()
) -> Iterator[str]:
    yield from (f"### {code_span(paths[0])} → {code_span(paths[1])}", "")
    if versions:
        yield from (escaped(f"versions: {versions_text(versions)}"), "")
    yield from (counts_text(pairs), "")
    rows = [
        (state.value, code_span(kernel), code_span(a), code_span(b), escaped(changes))
        for state, kernel, a, b, changes in pair_rows(pairs)
    ]
    if rows:
        yield from markdown_table(PAIR_HEADS, rows)
