"""``diff`` as Markdown, fit for a pull request: short, and nothing in it is obeyed as markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from inspector.diff.beside import BesideRow, Sign
from inspector.diff.listings import ListingDiff
from inspector.diff.recordings import Fate
from inspector.diff.summary import FigureChange, Summary, VariantSide
from inspector.diff.variants import VariantRow
from inspector.listing.line import Line
from inspector.model import Stage
from inspector.names import base_name
from inspector.report.diff_json import Paired
from inspector.report.diff_text import (
    MOST,
    absent,
    access,
    became,
    called,
    counts,
    delta,
    deltas,
    figures,
    fitted,
    hint,
    kernel,
    settings,
    taken,
    time_head,
    versions_said,
)
from inspector.report.tables import UNKNOWN, config, figure, shared, spills
from inspector.text import microseconds, plural, shown

LONGEST = 400  # rows of text; a comment on GitHub may have 65,536 characters
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


def variants(
    a: VariantSide,
    b: VariantSide,
    summary: Summary,
    explanation: Sequence[str],
    rows: Iterable[BesideRow],
    lines: tuple[Sequence[Line], Sequence[Line]],
    identical: bool,
) -> Iterator[str]:
    """Two variants: what was chosen, the figures that differ, and the text folded away."""
    stage = summary.stage.value
    names = list(dict.fromkeys(s.kernel.called for s in (a, b)))
    same = f"the {stage} is the same" if identical else f"the {stage} differs"
    yield f"### {' → '.join(code(n) for n in names)}: {same}"
    yield ""
    for mark, side in (("a", a), ("b", b)):
        told = " ".join(p for p in (side.variant.target or "", config(side.variant)) if p)
        yield f"- **{mark}** {code(side.variant.id)} {escaped(told)}".rstrip()
    yield ""
    for sentence in explanation:
        yield f"- {escaped(sentence)}"
    if explanation:
        yield ""
    yield from _figures(summary)
    for found, word in ((summary.gained, "gained"), (summary.lost, "lost")):
        for one in found:
            yield f"- hint {word}: {escaped(hint(one))}"
    if summary.gained or summary.lost:
        yield ""
    if not identical:
        yield from details(f"{stage}, unified", unified(rows, lines))


def files(
    stage: Stage,
    diff: ListingDiff,
    changed: Iterable[Iterable[FigureChange]],
    paths: tuple[str, str],
    rows: Iterable[BesideRow],
    lines: tuple[Sequence[Line], Sequence[Line]],
) -> Iterator[str]:
    """Two files of several kernels."""
    yield f"### {code(paths[0])} → {code(paths[1])}"
    yield ""
    for pair, figures_ in zip(diff.functions, changed, strict=True):
        names = dict.fromkeys(base_name(f.name) for f in (pair.a, pair.b) if f is not None)
        yield f"- {' → '.join(code(n) for n in names)}: {escaped(became(pair, figures_))}"
    yield ""
    if not diff.identical:
        yield from details(f"{stage.value}, unified", unified(rows, lines))


def details(
    title: str, lines: Iterable[str], language: str = "diff", most: int = LONGEST
) -> Iterator[str]:
    """A folded block of code; what is longer than ``most`` lines is counted, not shown."""
    held = list(lines)
    ticks = "`" * max(3, 1 + max((len(t) for line in held for t in _TICKS.findall(line)),
                                 default=0))  # fmt: skip
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
    """Rows as the lines of a unified diff; ``!`` stands before what moved."""
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


def _figures(summary: Summary) -> Iterator[str]:
    rows = [(called(c), *said, delta(c)) for c, said in figures(summary)
            if c.differs]  # fmt: skip
    rows += [(access(x), str(x.a), str(x.b), f"{x.b - x.a:+d}") for x in summary.accesses]
    rows += [(code(c.name), str(c.a), str(c.b), delta(c)) for c in summary.opcodes[:MOST]]
    if rows:
        yield from rows_of(("", "a", "b", "change"), rows)
        rest = len(summary.opcodes) - MOST
        if rest > 0:
            yield f"and {plural(rest, 'more opcode')}"
            yield ""


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; every column but the first is of figures."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'|'.join(['---', *(['---:'] * (len(heads) - 1))])}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def table(rows: Iterable[VariantRow]) -> Iterator[str]:
    """All variants of a kernel."""
    every = list(rows)
    heads = ("variant", "configuration", time_head(every), "registers", "spills", "shared",
             "occupancy", "instructions")  # fmt: skip
    yield from rows_of(
        heads,
        [
            (
                ("**winner** " if row.winner else "")
                + (absent(row) if row.variant is None else code(row.variant.id)),
                escaped(settings(row.config)) + (f" ({escaped(row.reason)})" if row.reason else ""),
                UNKNOWN if row.time_us is None else f"{microseconds(row.time_us)} µs",
                figure(row.resources.registers),
                spills(row.resources),
                shared(row.resources),
                UNKNOWN if row.occupancy is None else f"{row.occupancy:.4g} %",
                figure(row.instructions),
            )
            for row in every
        ],
    )


def recordings(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Sequence[FigureChange] = ()
) -> Iterator[str]:
    """Two recordings."""
    yield f"### {code(paths[0])} → {code(paths[1])}"
    yield ""
    if versions:
        yield escaped(f"versions: {versions_said(versions)}")
        yield ""
    yield counts(pairs)
    yield ""
    rows = []
    for a, b, state, changed in pairs:
        if state is not Fate.SAME:
            said = deltas(changed) if a is not None and b is not None else taken(changed)
            ids = [UNKNOWN if e is None else code(e.variant.id) for e in (a, b)]
            rows.append((state.value, code(kernel(a, b)), *ids, escaped(said or "its code alone")))
    if rows:
        yield from rows_of(("state", "kernel", "a", "b", "what it takes"), rows)
