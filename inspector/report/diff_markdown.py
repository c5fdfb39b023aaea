"""``diff`` as Markdown, fit for a pull request: short, and nothing in it is obeyed as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from inspector.base.text import plural, shown
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.compare import Compared, Files
from inspector.diff.explanation import FigureChange
from inspector.diff.variants import VariantRow
from inspector.listing.line import Line
from inspector.report.diff_json import Paired
from inspector.report.diff_text import (
    HEADS,
    MAX_OPCODES,
    PAIR_HEADS,
    counts,
    figure_groups,
    fitted,
    functions,
    hints,
    pair_rows,
    time_head,
    variant_cells,
    versions_said,
)
from inspector.report.tables import config

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


def variants(one: Compared, rows: Iterable[BesideRow]) -> Iterator[str]:
    """Yield two variants: their settings, the figures that differ, the texts folded away."""
    stage, summary = one.stage.value, one.summary
    names = dict.fromkeys(s.kernel.called for s in (one.a, one.b))
    same = f"the {stage} is the same" if one.diff.identical else f"the {stage} differs"
    yield f"### {' → '.join(code(n) for n in names)}: {same}"
    yield ""
    for mark, side in (("a", one.a), ("b", one.b)):
        settings = " ".join(p for p in (side.variant.target or "", config(side.variant)) if p)
        yield f"- **{mark}** {code(side.variant.id)} {escaped(settings)}".rstrip()
    yield ""
    for sentence in one.explanation:
        yield f"- {escaped(sentence)}"
    yield ""
    groups = figure_groups(summary)
    if groups:
        yield from rows_of(
            HEADS, [(escaped(row[0]), *row[1:]) for group in groups for row in group]
        )
    if (rest := len(summary.opcodes) - MAX_OPCODES) > 0:
        yield f"and {plural(rest, 'more opcode')}"
        yield ""
    for word, text in hints(summary):
        yield f"- hint {word}: {escaped(text)}"
    yield ""
    yield from _texts(one, rows)


def files(one: Files, paths: tuple[str, str], rows: Iterable[BesideRow]) -> Iterator[str]:
    """Yield two files of several kernels."""
    yield f"### {code(paths[0])} → {code(paths[1])}"
    yield ""
    for names, became in functions(one.diff.functions, one.figures):
        yield f"- {' → '.join(code(n) for n in names)}: {escaped(became)}"
    yield ""
    yield from _texts(one, rows)


def _texts(one: Compared | Files, rows: Iterable[BesideRow]) -> Iterator[str]:
    if not one.diff.identical:
        lines = (one.listings[0].lines, one.listings[1].lines)
        yield from details(f"{one.stage.value}, unified", unified(rows, lines))


def details(
    title: str, lines: Iterable[str], language: str = "diff", most: int = MAX_LINES
) -> Iterator[str]:
    """A folded block of code; what is longer than ``most`` lines is counted, not shown."""
    held = list(lines)
    longest = max((len(t) for line in held for t in _TICKS.findall(line)), default=0)
    ticks = "`" * max(3, 1 + longest)
    yield f"<details><summary>{escaped(title)}</summary>"
    yield ""
    yield f"{ticks}{language}"
    yield from held[:most]
    yield ticks
    if len(held) > most:
        yield plural(len(held) - most, "more line")
    yield ""
    yield "</details>"


def unified(
    rows: Iterable[BesideRow], lines: tuple[Sequence[Line], Sequence[Line]]
) -> Iterator[str]:
    """Yield rows as a unified diff; ``!`` marks moved lines."""
    gone: list[str] = []
    new: list[str] = []
    for row in rows:
        left = _text(lines[0], row.a)
        right = _text(lines[1], row.b)
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


def _text(lines: Sequence[Line], n: int | None) -> str:
    return "" if n is None else fitted(lines[n - 1].text)[0]


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; every column but the first is of figures."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['---', *(['---:'] * (len(heads) - 1))])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def table(rows: Iterable[VariantRow]) -> Iterator[str]:
    """Yield all variants of a kernel."""
    every = list(rows)
    heads = ("variant", "configuration", time_head(every), "registers", "spills", "shared")
    cells = []
    for row in every:
        variant, config, *rest = variant_cells(row).values()
        name = variant if row.variant is None else code(variant)
        cells.append((("**winner** " if row.winner else "") + name, escaped(config), *rest))
    yield from rows_of((*heads, "occupancy", "instructions"), cells)


def recordings(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Sequence[FigureChange] = ()
) -> Iterator[str]:
    """Yield two recordings."""
    yield f"### {code(paths[0])} → {code(paths[1])}"
    yield ""
    if versions:
        yield escaped(f"versions: {versions_said(versions)}")
        yield ""
    yield counts(pairs)
    yield ""
    rows = [
        (state.value, code(kernel), code(a), code(b), escaped(said))
        for state, kernel, a, b, said in pair_rows(pairs)
    ]
    if rows:
        yield from rows_of(PAIR_HEADS, rows)
