"""A report of ``upgrade`` as lines and in Markdown, and as it is kept with the newer recording.

What is read may be anybody's: a record of another form is no report.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct, ValidationError, convert, to_builtins
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Recording, Variant
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.diff.upgrade import EditCount, LeftOutVariant, RefusedVariant, UpgradeReport
from inspector.render import tables
from inspector.render.compiles import CompileLine
from inspector.render.diff_text import code_span, escaped, markdown_table
from inspector.render.kernel_names import distinct_names
from inspector.render.upgrade import (
    UpgradeDocument,
    UpgradedRow,
    edit_text,
    estimate_text,
    figure_text,
    heading,
    tuning_text,
)

EDIT_HEADS = ("what became of instructions", "variants", "instructions")
MAX_EDITS = 12
MAX_FAILED = 4
MAX_CHANGES = 24
"""Rows of a table that is not asked for in whole."""
HEADS = {
    "kernel": "kernel",
    "variant": "variant",
    "first": "since",
    "registers": "regs",
    "spills": "spill",
    "shared": "shared",
    "occupancy": "occupancy",
    "instructions": "PTX",
    "estimate": "est. µs",
}
"""Columns of the table of variants, by what they are of."""
KEPT_COLUMNS = ("kernel", "variant", "first")
NUMBERS = tuple(label for name, label in HEADS.items() if name not in KEPT_COLUMNS)
SHRINK_ORDER: tables.ShrinkOrder = (
    (HEADS["kernel"], 24),
    *((HEADS[name], 0) for name in ("first", "shared", "occupancy", "spills", "estimate")),
)
"""How the columns of changes give room; what is dropped is told of the chosen row."""


class KeptUpgrade(Struct, frozen=True):
    """When it was made (ISO 8601, UTC), the report with the paths of both recordings, and the hash
    and the symbol that each changed variant has in the newer one."""

    taken: str
    report: UpgradeDocument
    variants: Sequence[tuple[str, str]]


class UpgradedVariant(Struct, frozen=True):
    """A changed variant of the report, and what the newer recording has of it."""

    row: UpgradedRow
    kernel: Kernel | None = None
    variant: Variant | None = None

    @property
    def key(self) -> str | None:
        """The ids of its kernel and its variant, if the recording has it."""
        if self.kernel is None or self.variant is None:
            return None
        return f"{self.kernel.id} {self.variant.id}"

    @property
    def figures(self) -> dict[str, str]:
        """The figures that differ, and the estimates of a launch if there are any."""
        texts = {name: figure_text(name, values) for name, values in self.row.figures.items()}
        estimate = {"estimate": estimate_text(self.row.estimates_us)}
        return texts | (estimate if self.row.estimates_us else {})

    def cells(self, heads: Iterable[str]) -> list[str]:
        """The texts of some columns of ``HEADS``."""
        row = self.row
        name = base_name(row.kernel) if self.kernel is None else tables.short_title(self.kernel)
        tried = "" if row.in_use else " tried"
        first = tables.UNKNOWN if row.first is None else row.first.value
        cells = {"kernel": name, "variant": row.variant + tried, "first": first, **self.figures}
        return [shown(cells.get(head, "")) for head in heads]


def record(report: UpgradeReport, document: UpgradeDocument, now: datetime) -> dict[str, object]:
    """A report as a value of JSON."""
    variants = [(change.b.hash, change.b.symbol) for change in report.changes]
    return dict(to_builtins(KeptUpgrade(now.isoformat(timespec="seconds"), document, variants)))


def newest(records: Sequence[object]) -> KeptUpgrade | None:
    """The last of some records that is a report."""
    for value in reversed(records):
        try:
            return convert(value, KeptUpgrade)
        except ValidationError:
            continue
    return None


def upgraded(kept: KeptUpgrade, recording: Recording) -> list[UpgradedVariant]:
    """The changed variants, the costliest first."""
    found = {(v.hash, v.symbol): (k, v) for k, v in recording.variants()}
    pairs = zip(kept.report.changes, kept.variants, strict=False)
    return [UpgradedVariant(row, *found.get(key, ())) for row, key in pairs]


def changed_columns(rows: Iterable[UpgradedVariant]) -> list[str]:
    """The columns in which some variant differs."""
    named = {*KEPT_COLUMNS, *chain.from_iterable(row.figures for row in rows)}
    return [head for head in HEADS if head in named]


def headings(report: UpgradeDocument) -> list[str]:
    """The compilers, the counts of variants, and which recording it was before."""
    compilers: list[str] = []
    for name, versions in report.versions.items():
        compilers += (f"{name} {figure_text(name, pair)}" for pair in versions)
    named = ", ".join(compilers) or "the same compilers"
    return [shown(text) for text in (named, heading(report), f"before: {report.a}")]


OLDER_ASSEMBLER = "Unsupported .version"
"""``Unsupported .version 9.1; current version is '8.8'``"""


def refusals(report: UpgradeDocument) -> Iterator[str]:
    """A sentence for each reason for which one compiler refused variants."""
    groups = by_key(((row.compiled_before, row.reason), row) for row in report.failed)
    for (before, reason), rows in groups.items():
        sentence = _variants(rows, f"refused {'now' if before else 'before'}: {reason}")
        hint = "; with --python, Triton writes PTX that this ptxas reads"
        yield f"✗ {sentence}{hint if OLDER_ASSEMBLER in reason else ''}"


def left_out(report: UpgradeDocument) -> Iterator[str]:
    """A sentence for each reason for which variants were not compiled again."""
    for reason, rows in by_key((row.reason, row) for row in report.left_out).items():
        yield _variants(rows, f"not compiled: {reason}")


def _variants(rows: Sequence[RefusedVariant | LeftOutVariant], outcome: str) -> str:
    """How many variants have an outcome, and the names of the first."""
    names = [f"{base_name(row.kernel)} {row.variant}" for row in rows[:MAX_FAILED]]
    names += ["…"] if len(rows) > MAX_FAILED else []
    return shown(f"{plural(len(rows), 'variant')} {outcome} ({'; '.join(names)})")


def lines(
    report: UpgradeDocument, rows: Sequence[UpgradedVariant], width: int, opened: bool
) -> Iterator[CompileLine]:
    """The report; changed variants lead to their kernels. ``opened``: every edit."""
    for text, style in zip(headings(report), ("", "bold", "dim"), strict=True):
        yield CompileLine(Text(text, style))
    edits = [*map(_edit_line, report.edits)]
    if edits:
        what, *counts = EDIT_HEADS
        yield CompileLine(Text())
        yield CompileLine(Text("  ".join((*counts, what)), "bold"))
        yield from edits[:MAX_EDITS]
    if remaining := edits[MAX_EDITS:]:
        text = f"{'▾' if opened else '▸'} {plural(len(remaining), 'more edit')}"
        yield CompileLine(Text(text, "bold cyan"), opens=True)
        yield from remaining if opened else ()
    if rows:
        columns = changed_columns(rows)
        heads = [HEADS[column] for column in columns]
        cells = [row.cells(columns) for row in rows]
        shorten = {HEADS["kernel"]: distinct_names}
        table = tables.grid(heads, cells, width, NUMBERS, SHRINK_ORDER, shorten)
        yield CompileLine(Text())
        yield CompileLine(next(table).copy())
        for row, cells_text in zip(rows, table, strict=True):
            about = ", ".join(f"{name} {figure}" for name, figure in row.figures.items())
            yield CompileLine(cells_text, kernel=row.key, about=shown(about))
        if interval := _interval(rows):
            yield CompileLine(Text(interval, "dim"))
    for style, sentences in (
        ("", map(tuning_text, report.tunings)),
        ("bold red", refusals(report)),
        ("", left_out(report)),
    ):
        texts = [Text(sentence, style) for sentence in sentences]
        if texts:
            yield CompileLine(Text())
        yield from map(CompileLine, texts)


def _interval(rows: Iterable[UpgradedVariant]) -> str:
    """How far estimates may be off, all of a device by the same share; "" without any."""
    for row in rows:
        for us, low, high in row.row.estimates_us[:1]:
            spread = f"{1 - low / us:.0%} less to {high / us - 1:.0%} more"
            return f"estimates of a launch may be {spread}"
    return ""


def changed(document: UpgradeDocument, report: UpgradeReport) -> list[UpgradedVariant]:
    """The changed variants of a report that was just made."""
    pairs = zip(document.changes, report.changes, strict=True)
    return [UpgradedVariant(row, change.kernel, change.b) for row, change in pairs]


def markdown(
    report: UpgradeDocument, rows: Sequence[UpgradedVariant], checked: Sequence[str] = ()
) -> Iterator[str]:
    """A comment for a pull request; ``checked`` are the lines of the gate."""
    compilers, counts, _ = headings(report)
    yield from (f"### ptxview upgrade: {escaped(compilers)}", "", escaped(counts), "", *checked)
    if edits := report.edits[:MAX_EDITS]:
        cells = ((code_span(edit_text(e)), str(e.variants), str(e.instructions)) for e in edits)
        yield from markdown_table(EDIT_HEADS, cells)
    if rows:
        columns = changed_columns(rows)
        heads = [HEADS[column] for column in columns]
        texts = (row.cells(columns) for row in rows[:MAX_CHANGES])
        escaped_rows = ([escaped(t).replace("|", "\\|") for t in row] for row in texts)
        yield from markdown_table(heads, escaped_rows)
    sentences = (*map(tuning_text, report.tunings), *refusals(report), *left_out(report))
    yield from (f"- {escaped(sentence)}" for sentence in sentences)


def _edit_line(edit: EditCount) -> CompileLine:
    return CompileLine(Text(f"{edit.variants:8}  {edit.instructions:12}  {shown(edit_text(edit))}"))
