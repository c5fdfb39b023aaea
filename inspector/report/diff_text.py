"""``diff`` as text, JSON and Markdown: two variants, all of a kernel, recordings, files.

One module because all three forms say the same figures and rows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import isfinite

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.table import Table
from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.text import base_name, microseconds, plural, shown
from inspector.diff.beside import BesideRow, PassChange, Sign, folded, loud
from inspector.diff.compare import Compared, Files, Paired
from inspector.diff.listings import FunctionPair, ListingDiff
from inspector.diff.recordings import ChangeKind, RecordedVariant
from inspector.diff.summary import TUNER, FigureChange, Summary
from inspector.diff.variants import VariantRow
from inspector.listing.line import Line
from inspector.report.jsons import SCHEMA, members, ordered, plain
from inspector.report.tables import (
    UNKNOWN,
    configuration,
    differing,
    figure,
    grid,
    setting,
    shared,
    spills,
    title,
    wrapped,
)


def variants_json(one: Compared, paths: tuple[str, str]) -> dict[str, object]:
    summary = one.summary
    return {
        "schema": SCHEMA,
        "a": _side_json(one.a.kernel, one.a.variant, paths[0]),
        "b": _side_json(one.b.kernel, one.b.variant, paths[1]),
        **text_json(one.stage, one.diff),
        "resources": changes_json(summary.resources),
        "opcodes": [{"opcode": c.name, "a": c.a, "b": c.b} for c in summary.opcodes],
        "costs": [{"cost": c.name, "a": c.a, "b": c.b} for c in summary.costs],
        "accesses": plain(summary.accesses),
        "hints": {
            name: [hint_json(f) for f in getattr(summary, name)]
            for name in ("gained", "lost", "unknown_a", "unknown_b")
        },
        "config": changes_json(summary.config),
        "versions": changes_json(summary.versions),
        "arguments": changes_json(summary.arguments),
        "source": summary.source and dict(zip(("only_a", "only_b"), summary.source, strict=True)),
        "first_difference": summary.first,
        "rounds": plain(summary.rounds),
        "explanation": list(one.explanation),
    }


def files_json(one: Files, paths: tuple[str, str]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "a": {"path": paths[0]},
        "b": {"path": paths[1]},
        **text_json(one.stage, one.diff),
        "resources": [],
        "opcodes": [],
        "explanation": [],
        "functions": [
            function | {"resources": changes_json(changed)}
            for function, changed in zip(_functions(one.diff), one.figures, strict=True)
        ],
    }


def text_json(stage: Stage, diff: ListingDiff) -> dict[str, object]:
    """What differs in a text, without the hunks that say nothing of the code."""
    return {
        "stage": stage.value,
        "identical": diff.identical,
        "functions": _functions(diff),
        "hunks": [members(hunk, "op a b") for hunk in loud(diff.hunks)],
    }


def _functions(diff: ListingDiff) -> list[dict[str, object]]:
    return [
        {
            "a": None if pair.a is None else pair.a.name,
            "b": None if pair.b is None else pair.b.name,
            "identical": pair.identical,
        }
        for pair in diff.functions
    ]


def _side_json(kernel: Kernel, variant: Variant, path: str) -> dict[str, object]:
    return {
        "path": path,
        "kernel": kernel.name,
        "variant": variant.id,
        "target": variant.target,
        "config": {k: v for k, v in variant.config.items() if k != "flags"},
        "stages": [s.value for s in ordered(variant.stages)],
    }


def changes_json(changes: Iterable[FigureChange]) -> list[dict[str, object]]:
    return [{"name": c.name, "a": _plain(c.a), "b": _plain(c.b)} for c in changes]


def _plain(value: object) -> object:
    if not isinstance(value, float) or not value.is_integer():
        return str(value) if isinstance(value, float) and not isfinite(value) else value
    return int(value)


def hint_json(finding: Finding) -> dict[str, object]:
    """A hint without its lines, which are of one of two listings."""
    return members(finding, "rule severity text")


def recordings_json(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Iterable[FigureChange] = ()
) -> dict[str, object]:
    states = [state for _, _, state, _ in pairs]
    return {
        "schema": SCHEMA,
        "a": {"path": paths[0]},
        "b": {"path": paths[1]},
        "versions": changes_json(versions),
        "identical": all(state is ChangeKind.SAME for state in states),
        "counts": {fate.value: states.count(fate) for fate in ChangeKind},
        "pairs": [_pair(one) for one in pairs],
    }


def _pair(pair: Paired) -> dict[str, object]:
    a, b, state, figures = pair
    names = [one.kernel.name for one in (a, b) if one is not None]
    return {
        "kernel": next(iter(names), ""),
        "state": state.value,
        "a": None if a is None else a.variant.id,
        "b": None if b is None else b.variant.id,
        "resources": changes_json(figures),
        **({"kernel_b": names[1]} if len(set(names)) > 1 else {}),
    }


def table_json(rows: Iterable[VariantRow]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "variants": [
            {
                "kernel": row.kernel.name,
                "variant": None if row.variant is None else row.variant.id,
                "compiled": row.compiled,
                "target": None if row.variant is None else row.variant.target,
                "config": {k: v for k, v in row.config.items() if k != "flags"},
                **members(row, "winner time_us time_by reason"),
                "resources": None if row.variant is None else plain(row.resources),
                "occupancy_percent": row.occupancy,
                "instructions": row.instructions,
            }
            for row in rows
        ],
    }


# -- rows of two listings -------------------------------------------------------------------------
# Rows of two listings as lines of a terminal: numbers, signs, wrapped text, what changed in it.

Spans = Sequence[tuple[int, int]]
"""The ranges of characters of a line that really differ."""

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
Cell = tuple[Text, str]
"""A piece of a line, and the signs under it where it changed."""


def beside(
    of: Compared | Files | PassChange, rows: Iterable[BesideRow], width: int, colour: bool
) -> Iterator[Text]:
    """Rows fit into ``width`` cells, both sides alike wide; long lines are wrapped, none is cut.

    Without ``colour``, signs under a changed line say what changed in it.
    """
    lines = (of.listings[0].lines, of.listings[1].lines)
    digits = len(str(max(len(lines[0]), len(lines[1]), 1)))
    half = max((width - 1) // 2, digits + 4 + NARROWEST)
    room = half - digits - 4
    for row in rows:
        if row.sign is Sign.FOLD:
            said = f"… {row.count} equal lines".center(2 * half + 1).rstrip()
            yield Text(said, style="dim", no_wrap=True)
            continue
        numbers, signs = (row.a, row.b), SIGNS[row.sign]
        marks: tuple[Spans, Spans] = ((), ())
        if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
            marks = of.intra(row.a, row.b)
        sides: list[list[Cell]] = []
        for n, held, spans, sign in zip(numbers, lines, marks, signs, strict=True):
            sides.append([] if n is None else _pieces(held[n - 1].text, spans, sign, room, colour))
            if n is not None and row.other is not None:
                arrow = "→" if row.sign is Sign.MOVED_AWAY else "←"
                sides[-1].append((Text(f"{arrow} {row.other}", style="dim blue"), ""))
        for k, pair in enumerate(zip_longest(*sides)):
            halves: list[Text] = []
            for cell, n, sign in zip(pair, numbers, signs, strict=True):
                mark = " " if cell is None else sign
                number = f"{'' if k or n is None else n:>{digits}}"
                piece = Text() if cell is None else cell[0]
                halves.append(Text.assemble((number, "dim"), (f" {mark} ", _STYLES[mark]), piece))
                halves[-1].append(" " * max(room + 1 - cell_len(piece.plain), 0))
            yield _joined(halves)
            unders = [cell[1] if cell is not None else "" for cell in pair]
            if any(unders):
                gap = " " * (digits + 3)
                yield _joined([Text(gap + set_cell_size(under, room + 1)) for under in unders])


def _joined(halves: Sequence[Text]) -> Text:
    out = Text.assemble(halves[0], ("│", "dim"), halves[1], no_wrap=True)
    out.rstrip()
    return out


def _pieces(text: str, spans: Spans, sign: str, room: int, colour: bool) -> list[Cell]:
    """One side's line in pieces of at most ``room`` cells."""
    said, at = fitted(text)
    inside = {
        k for first, end in spans for k in range(at[min(first, len(text))], at[min(end, len(text))])
    }
    out: list[Cell] = []
    for first, end in _cuts(said, room):
        piece = Text(said[first:end], style="" if sign == "~" else _STYLES[sign], no_wrap=True)
        for k in inside.intersection(range(first, end)):
            piece.stylize(_MARKED if colour else "yellow", k - first, k - first + 1)
        signs = (("^" if k in inside else " ") * cell_len(said[k]) for k in range(first, end))
        out.append((piece, "" if colour else "".join(signs).rstrip()))
    return out


def fitted(text: str) -> tuple[str, list[int]]:
    """A line as it is shown, and for each of its characters (and its end) where that begins.

    A tab of the indentation is two cells, another one a blank; of a wide gap, such as the one
    before a comment, two blanks are left; control characters are shown.
    """
    out, at, inner = "", [0], False
    body = len(text.rstrip())
    gaps = {k for match in _GAP.finditer(text) for k in range(match.start() + 2, match.end())}
    for k, c in enumerate(text):
        piece = shown(c)
        if c == "\t":
            piece = "  " if not inner else "" if out.endswith(" ") else " "
        inner = inner or c not in " \t"
        if k not in gaps and (k < body or not c.isspace()):
            out += piece
        at.append(len(out))
    return out, at


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


def told(kernel: Kernel, variant: Variant, of: Kernel, rival: Variant) -> str:
    """A side of a comparison by its id and title; what distinguishes it comes first."""
    config = {k: v for k, v in variant.config.items() if k != "flags" and (k, v) != ("num_ctas", 1)}
    first = [key for key in differing((variant.config, rival.config)) if key in config]
    rest = configuration(config, [key for key in config if key not in first])
    words = [title(kernel), configuration(config, first)]
    words = words if title(kernel) != title(of) else words[::-1]
    words.insert(2 if variant.target == rival.target else 0, variant.target or "")
    return shown("  ".join(filter(None, (variant.id, *words, rest))))


def figure_groups(summary: Summary, everything: bool = False) -> list[list[Row]]:
    """Return rows (name, a, b, change) of figures, costs, accesses and opcodes that differ.

    ``everything`` includes equal figures.
    """
    figures_ = [(c, said) for c, said in figures(summary) if c.differs or everything]
    times = [(FigureChange("time_us", one.a, one.b), one.round) for one in summary.rounds]
    groups: list[list[Row]] = [
        [(called(c), shown(a), shown(b), delta(c)) for c, (a, b) in figures_],
        [
            (f"tuner's time, round {n}", amount(c.name, c.a), amount(c.name, c.b), delta(c))
            for c, n in times
        ],
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
    for word, found in (
        ("gained", summary.gained),
        ("lost", summary.lost),
        (f"in a, {UNKNOWN} in b", summary.unknown_b),
        (f"{UNKNOWN} in a, in b", summary.unknown_a),
    ):
        for one in found:
            yield word, hint(one)


def lines(summary: Summary, explanation: Sequence[str], width: int) -> Iterator[Text]:
    """Yield the summary in lines of at most ``width`` cells."""
    for sentence in explanation:
        yield from _wrapped("• ", shown(sentence), width)
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
        yield from _wrapped(f"hint {word}: ", text, width)


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


def hint(finding: Finding) -> str:
    first = finding.text.split(": ", 1)[0].split(". ", 1)[0]
    return f"{finding.rule}: {shown(first)}"


def _wrapped(label: str, text: str, width: int, style: str = "") -> Iterator[Text]:
    return (Text(head + part, style) for head, part in wrapped(label, text, width))


# -- variants of a kernel -------------------------------------------------------------------------

GIVES = (("configuration", 24), ("shared", 0), ("spill", 0), ("instr.", 0), ("configuration", 10))


def settings(config: Mapping[str, object]) -> str:
    return " ".join(
        setting(name, value)
        for name, value in config.items()
        if value is not None and name != "flags" and not (name == "num_ctas" and value == 1)
    )


def variant_cells(row: VariantRow) -> dict[str, str]:
    told = settings(row.config)
    if row.reason:
        told = f"{told} ({row.reason})" if told else row.reason
    return {
        "variant": absent(row) if row.variant is None else row.variant.id,
        "configuration": told,
        "time": UNKNOWN if row.time_us is None else f"{row.at_most}{microseconds(row.time_us)} µs",
        "regs": figure(row.resources.registers),
        "spill": spills(row.resources),
        "shared": shared(row.resources),
        "occup.": figure(row.occupancy, "{:.4g} %"),
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

STATE_STYLES = {
    ChangeKind.SAME: "dim",
    ChangeKind.CHANGED: "yellow",
    ChangeKind.ADDED: "green",
    ChangeKind.REMOVED: "red",
}
PAIR_HEADS = ("state", "kernel", "a", "b", "resources")


def versions_said(versions: Iterable[FigureChange]) -> str:
    return ", ".join(f"{change.name} {change.a} → {change.b}" for change in versions)


def pair_rows(pairs: Iterable[Paired]) -> Iterator[tuple[ChangeKind, str, str, str, str]]:
    for a, b, state, figures in pairs:
        if state is not ChangeKind.SAME:
            said = deltas(figures) if a is not None and b is not None else taken(figures)
            ids = [UNKNOWN if one is None else shown(one.variant.id) for one in (a, b)]
            yield state, kernel(a, b), ids[0], ids[1], said or "its code alone"


def recordings(pairs: Iterable[Paired], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, width=width)
    for head, ratio in zip(PAIR_HEADS, (None, 2, None, None, 3), strict=True):
        table.add_column(head, ratio=ratio, no_wrap=ratio is None, overflow="fold")
    for state, *cells in pair_rows(pairs):
        table.add_row(Text(state.value, style=STATE_STYLES[state]), *map(Text, cells))
    return table


def kernel(a: RecordedVariant | None, b: RecordedVariant | None) -> str:
    return shown(" → ".join(dict.fromkeys(e.kernel.called for e in (a, b) if e is not None)))


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
    states = [state for _, _, state, _ in pairs]
    words = {
        ChangeKind.CHANGED: "changed",
        ChangeKind.ADDED: "added",
        ChangeKind.REMOVED: "removed",
    }
    words[ChangeKind.SAME] = "the same"
    parts = [f"{states.count(f)} {word}" for f, word in words.items() if f in states]
    return f"{plural(len(states), 'variant')}: {', '.join(parts)}" if parts else "no variants"


MAX_LINES = 400
"""Lines of an excerpt; a comment on GitHub may have 65,536 characters."""
_SPECIAL = re.compile(r"([\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)|^[#+-])")
_TICKS = re.compile(r"`+")


def escaped(text: str) -> str:
    """Text that Markdown shows as it stands."""
    return _SPECIAL.sub(r"\\\1", shown(text).replace("&", "&amp;"))


def code(text: str) -> str:
    """Text as a code span, fit for a cell of a table too."""
    plain = shown(text).replace("|", "\\|")
    ticks = "`" * (1 + max((len(t) for t in _TICKS.findall(plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}" if plain else ""


def variants_markdown(one: Compared, context: int) -> Iterator[str]:
    stage, summary = one.stage.value, one.summary
    names = " → ".join(code(n) for n in dict.fromkeys(s.kernel.called for s in (one.a, one.b)))
    yield f"### {names}: the {stage} {'is the same' if one.diff.identical else 'differs'}"
    yield ""
    for mark, side, other in (("a", one.a, one.b), ("b", one.b, one.a)):
        said = told(side.kernel, side.variant, other.kernel, other.variant)
        yield f"- **{mark}** {escaped(said)}"
    yield from ("", *(f"- {escaped(sentence)}" for sentence in one.explanation), "")
    rows = [(escaped(name), *rest) for group in figure_groups(summary) for name, *rest in group]
    if rows:
        yield from rows_of(HEADS, rows)
    if (rest := len(summary.opcodes) - MAX_OPCODES) > 0:
        yield from (f"and {plural(rest, 'more opcode')}", "")
    yield from (f"- hint {word}: {escaped(text)}" for word, text in hints(summary))
    yield ""
    yield from _markdown_texts(one, context)


def files_markdown(one: Files, paths: tuple[str, str], context: int) -> Iterator[str]:
    yield from (f"### {code(paths[0])} → {code(paths[1])}", "")
    for names, became in functions(one.diff.functions, one.figures):
        yield f"- {' → '.join(code(n) for n in names)}: {escaped(became)}"
    yield ""
    yield from _markdown_texts(one, context)


def _markdown_texts(one: Compared | Files, context: int) -> Iterator[str]:
    if not one.diff.identical:
        lines = (one.listings[0].lines, one.listings[1].lines)
        rows = folded(one.rows(), context)
        yield from details(f"{one.stage.value}, unified", unified(rows, lines))


def details(
    title: str, lines: Iterable[str], language: str = "diff", most: int = MAX_LINES
) -> Iterator[str]:
    """A folded block of code; what is longer than ``most`` lines is counted, not shown."""
    held = list(lines)
    longest = max((len(t) for line in held for t in _TICKS.findall(line)), default=0)
    ticks = "`" * max(3, 1 + longest)
    yield from (f"<details><summary>{escaped(title)}</summary>", "", f"{ticks}{language}")
    yield from (*held[:most], ticks)
    if len(held) > most:
        yield plural(len(held) - most, "more line")
    yield from ("", "</details>")


def unified(
    rows: Iterable[BesideRow], lines: tuple[Sequence[Line], Sequence[Line]]
) -> Iterator[str]:
    """Yield rows as a unified diff; ``!`` marks moved lines."""
    gone: list[str] = []
    new: list[str] = []
    for row in rows:
        left, right = (
            "" if n is None else fitted(side[n - 1].text)[0]
            for side, n in zip(lines, (row.a, row.b), strict=True)
        )
        if row.sign in (Sign.CHANGED, Sign.UNLIKE, Sign.DELETED, Sign.INSERTED):
            gone += [f"- {left}"] if row.a is not None else []
            new += [f"+ {right}"] if row.b is not None else []
            continue
        yield from (*gone, *new)
        gone, new = [], []
        if row.sign is Sign.FOLD:
            yield f"@@ {row.count} equal lines @@"
        elif row.sign is Sign.EQUAL:
            yield f"  {right if row.b is not None else left}".rstrip()
        elif row.sign is Sign.MOVED_AWAY:
            yield f"! {left}  → line {row.other}"
        else:
            yield f"! {right}  ← line {row.other}"
    yield from (*gone, *new)


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; every column but the first is of figures."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['---', *(['---:'] * (len(heads) - 1))])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def table_markdown(rows: Iterable[VariantRow]) -> Iterator[str]:
    every = list(rows)
    heads = ("variant", "configuration", time_head(every), "registers", "spills", "shared")
    cells = []
    for row in every:
        variant, config, *rest = variant_cells(row).values()
        name = variant if row.variant is None else code(variant)
        cells.append((("**winner** " if row.winner else "") + name, escaped(config), *rest))
    yield from rows_of((*heads, "occupancy", "instructions"), cells)


def recordings_markdown(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Sequence[FigureChange] = ()
) -> Iterator[str]:
    yield from (f"### {code(paths[0])} → {code(paths[1])}", "")
    if versions:
        yield from (escaped(f"versions: {versions_said(versions)}"), "")
    yield from (counts(pairs), "")
    rows = [
        (state.value, code(kernel), code(a), code(b), escaped(said))
        for state, kernel, a, b, said in pair_rows(pairs)
    ]
    if rows:
        yield from rows_of(PAIR_HEADS, rows)
