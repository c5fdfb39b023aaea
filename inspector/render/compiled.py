"""What compilers made, and passes changed: tables, messages, sentences and JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct
from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from inspector.analysis.passes import BY_ARRIVAL, PassRun
from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Compilation, CompilerMessage, Stage
from inspector.base.units import plural, some
from inspector.diff.compare import Compared
from inspector.diff.matching import Hunk
from inspector.measure.experiment import Experiment, ExperimentColumn
from inspector.render import diff_rows, diff_text, tables
from inspector.render.columns import COLUMNS
from inspector.render.jsons import SCHEMA, pick_fields, to_builtins
from inspector.render.recording_rows import compilation_json

Column = tuple[str, str]
"""A target, and options as one writes them."""

MAX_MESSAGES = 40
"""Messages that are printed; JSON and the recording have all."""


class CompiledRow(Struct, frozen=True):
    """A kernel of a file, or the whole file where nothing of it was compiled, in every column.

    The label of a cell is what selects its variant in the recording.
    """

    file: str
    kernel: str | None
    config: Mapping[str, object]
    signature: str
    cells: tuple[ExperimentColumn | None, ...]


class CompiledTable(Struct, frozen=True):
    """All that was compiled, row by row, and what the compilers said."""

    path: str
    columns: tuple[Column, ...]
    rows: tuple[CompiledRow, ...]
    compilations: tuple[Compilation, ...]


def label(column: Column, columns: Sequence[Column]) -> str:
    """What a column is called: its target where that differs, and its options."""
    target, options = column
    several = len({c[0] for c in columns}) > 1
    if len({c[1] for c in columns}) > 1:
        return f"{target} {options}".strip() if several else options or "(no options)"
    return target


FIGURES: Mapping[str, Callable[[ExperimentColumn], str]] = {
    **{
        COLUMNS[key].title: COLUMNS[key].cell
        for key in ("registers", "spills", "stack", "shared", "instructions")
    },
    "occupancy": lambda c: tables.figure(c.occupancy, "{:.0f} %"),
    "compiled in": lambda c: tables.figure(c.compilation.seconds, "{:.2f} s"),
    "variant": lambda c: c.label,
}
TITLE_WIDTH = max(map(len, FIGURES)) + 2


def lines(table: CompiledTable, width: int) -> Iterator[Text]:
    """Yield a table for each kernel; columns that do not fit follow below."""
    heads = [shown(label(column, table.columns)) for column in table.columns]
    has_several_files = len({row.file for row in table.rows}) > 1
    signatures = by_key((row.kernel, row.signature) for row in table.rows)
    for row in table.rows:
        details = [shown(f"{k}={v}") for k, v in row.config.items() if v is not None]
        if row.signature and len(set(signatures[row.kernel])) > 1:
            details.append(shown(f"({row.signature})"))
        if has_several_files and row.kernel is not None:
            details.append(shown(row.file))
        name = shown(row.kernel or PurePath(row.file).name)
        yield Text.assemble((name, "bold cyan"), "  ", "  ".join(details))
        columns = list(map(figure_cells, row.cells))
        rows = list(zip(FIGURES, zip(*columns, strict=True), strict=True))
        if all(column[1:] == NO_FIGURES[1:] for column in columns):
            rows = [("", tuple(column[0] for column in columns))]
        yield from grid(heads, rows, width)
        yield Text("")


NO_FIGURES = [""] * len(FIGURES)


def figure_cells(cell: ExperimentColumn | None) -> list[str]:
    """A text for each of ``FIGURES``; ``error`` alone of what did not compile."""
    if cell is None:
        return NO_FIGURES
    if cell.variant is None or cell.compilation.failed is not None:
        return ["error", *NO_FIGURES[1:]]
    return [shown(make(cell)) for make in FIGURES.values()]


def grid(
    heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int
) -> Iterator[Text]:
    """Yield rows of metrics; columns that do not fit follow below."""
    sizes = []
    for n, head in enumerate(heads):
        column = [head, *(texts[n] for _, texts in rows)]
        sizes.append(2 + max(map(cell_len, column)))
    first = 0
    while first < len(heads):
        last = first + 1
        while last < len(heads) and TITLE_WIDTH + sum(sizes[first : last + 1]) <= width:
            last += 1
        cells: list[list[tables.Cell]] = []
        for title, texts in rows:
            styled = [_styled(title, text) for text in texts[first:last]]
            cells.append([f"  {title}".ljust(TITLE_WIDTH), *styled])
        yield from tables.grid(["", *heads[first:last]], cells, width, heads)
        first = last


def _styled(title: str, text: str) -> tuple[str, str]:
    spilled = title.startswith("spills") and text not in ("0", tables.UNKNOWN, "")
    return text, "bold red" if text == "error" or spilled else ""


def place(message: CompilerMessage) -> str:
    """``x.cu:12:7``; "" without a file."""
    if not message.file:
        return ""
    places = (message.file, message.line, message.column)
    return ":".join(str(part) for part in places if part is not None)


STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def messages(compilations: Sequence[Compilation]) -> Iterator[Text]:
    """Each message once, with the columns that it is of where not all have it, and its line."""
    columns = tuple(dict.fromkeys(result.column for result in compilations))
    columns_of: dict[CompilerMessage, dict[str, None]] = {}
    for result in compilations:
        # Where a compiler failed without a word, why.
        silent = result.failed is not None and all(m.severity != "error" for m in result.messages)
        reason = [CompilerMessage("error", result.failed or "", "", result.file)] if silent else []
        for message in (*reason, *result.messages):
            columns_of.setdefault(message, {})[label(result.column, columns)] = None
    for message, names in list(columns_of.items())[:MAX_MESSAGES]:
        location = place(message)
        style = STYLES.get(message.severity, "")
        column_text = f"  [{', '.join(names)}]" if len(names) < len(columns) else ""
        yield Text.assemble(
            (shown(f"{location}: ") if location else "", "bold"),
            (message.severity, style),
            shown(f": {message.message}"),
            (shown(column_text), "dim"),
        )
        if message.text is not None and message.text.strip():
            text = message.text.rstrip("\r")
            yield Text("    " + shown(text.expandtabs(8)))
            if message.column is not None and message.column <= len(text) + 1:
                blanks = len(text[: message.column - 1].expandtabs(8))
                yield Text("    " + " " * blanks + "^", style)
    if len(columns_of) > MAX_MESSAGES:
        yield Text(
            f"{plural(len(columns_of) - MAX_MESSAGES, 'more message')}: --json has all of them",
            "dim",
        )


RowChange = tuple[str, ExperimentColumn | None, ExperimentColumn | None]
"""A kernel in one column whose code changed: what it is called, and the cell before and after,
None where it was, or is, not there."""


def changes(old_table: CompiledTable, new_table: CompiledTable) -> Iterator[RowChange]:
    earlier = {_key(row): row for row in old_table.rows}
    places = {column: place for place, column in enumerate(old_table.columns)}
    for row in new_table.rows:
        old = earlier.get(_key(row))
        for column, cell in zip(new_table.columns, row.cells, strict=True):
            place = places.get(column)
            old_cell = None if old is None or place is None else old.cells[place]
            if _hash(old_cell) != _hash(cell):
                name = row.kernel or PurePath(row.file).name
                yield f"{name} {label(column, new_table.columns)}", old_cell, cell


def _key(row: CompiledRow) -> tuple[object, ...]:
    return row.file, row.kernel, repr(sorted(row.config.items())), row.signature


def _hash(cell: ExperimentColumn | None) -> str | None:
    """Return the digest of the kernel's own code, not of its file."""
    return None if cell is None or cell.variant is None else cell.code or cell.variant.hash


def change_lines(changed: Iterable[RowChange]) -> Iterator[Text]:
    """A line for each cell that changed: ``square sm_90a: registers 8 → 12``."""
    for title, old_cell, new_cell in changed:
        pairs = list(zip(FIGURES, figure_cells(old_cell), figure_cells(new_cell), strict=True))[:-2]
        parts = [
            f"{name.partition(',')[0]} {a} → {b}" for name, a, b in pairs if a != b and a and b
        ]
        if old_cell is None or old_cell.variant is None:
            parts = ["compiles" if old_cell is not None else "is new"]
        elif new_cell is None or new_cell.variant is None:
            parts = ["does not compile"]
        sentence = ", ".join(parts) or "other code, the same figures"
        yield Text(f"  {shown(title)}: {shown(sentence)}")


def as_json(table: CompiledTable) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "recording": table.path,
        "columns": [{"target": t, "options": o} for t, o in table.columns],
        "rows": [
            {
                **pick_fields(row, "file kernel config"),
                "signature": row.signature or None,
                "cells": [_cell_json(cell) for cell in row.cells],
            }
            for row in table.rows
        ],
        "compilations": [compilation_json(result) for result in table.compilations],
    }


def _cell_json(cell: ExperimentColumn | None) -> dict[str, object] | None:
    if cell is None:
        return None
    variant = cell.variant if cell.compilation.failed is None else None
    return {
        "compiled": variant is not None,
        "failed": cell.compilation.failed,
        "select": cell.label if variant is not None else None,
        "variant": None if variant is None else variant.id,
        "hash": None if variant is None else variant.hash,
        "target": None if variant is None else variant.target,
        "resources": to_builtins(cell.resources),
        "instructions": cell.instructions,
        "occupancy_percent": cell.occupancy,
        "seconds": cell.compilation.seconds,
    }


Difference = tuple[ExperimentColumn, Compared | str]
"""A column compared with the recorded variant at one stage, or why it is not."""


def trial_title(trial: Experiment) -> Text:
    """Which kernel it is, and what of it was tried."""
    request = trial.outcome.request
    variant = request.variant
    parts = (variant.id, variant.target, diff_text.settings_of(variant.config))
    variant_text = shown("  ".join(filter(None, parts)))
    origin_text = (
        f"from the recorded {request.stage.value} on"
        if request.text is None
        else f"with the {request.stage.value} of {request.name}, which was edited"
    )
    return Text.assemble(
        (shown(request.kernel.display_name), "bold cyan"), f"  {variant_text}\n", shown(origin_text)
    )


def trial_table(trial: Experiment, width: int) -> Iterator[Text]:
    """Yield the metrics, the recorded variant's first; other columns follow below."""
    heads = [shown(column.label) for column in trial.columns]
    columns = zip(*map(figure_cells, trial.columns), strict=True)
    return grid(heads, list(zip(FIGURES, columns, strict=True))[:-1], width)


def first_error(trial: Experiment, file: str) -> CompilerMessage | None:
    """The first error that has a line of a file."""
    located = (
        m for column in trial.tried for m in column.compilation.messages if m.line is not None
    )
    return next((m for m in located if m.severity == "error" and m.file == file), None)


def trial_sentences(trial: Experiment) -> Iterator[str]:
    """Remarks beside the figures: on the compiler and on equal machine code."""
    yield _compiler_sentence(trial)
    yield from trial.outcome.remarks
    for column in trial.tried:
        if column.code is not None and column.code == trial.recorded.code:
            yield f"{column.label}: the machine code is that of the recorded kernel."


def _compiler_sentence(trial: Experiment) -> str:
    outcome = trial.outcome
    request = outcome.request
    stage = request.stage.value
    compiler = _versions_text(outcome.versions)
    recorded_compiler = _versions_text(outcome.recorded_versions)
    if outcome.same_stages is None:
        reason = outcome.recompiled.compilation.failed
        return f"The recorded {stage} does not compile here ({compiler}): {reason}"
    origin = "the edit's" if request.text is not None else "the options'"
    if outcome.same_compiler:
        all_failed = outcome.failed == len(outcome.columns)
        subject = "what does not compile" if all_failed else "what differs"
        return (
            f"The compiler here ({compiler}) makes of the recorded {stage} the machine code that "
            f"was recorded, instruction for instruction{_unchanged_texts(outcome.same_stages)}: "
            f"{subject} is {origin}."
        )
    changed_stages = [s.value for s, is_same in outcome.same_stages.items() if not is_same]
    if not changed_stages:
        return f"There is nothing recorded after {stage} to hold the compiler against."
    recorded = f"; it was recorded with {recorded_compiler}" if recorded_compiler else ""
    return (
        f"The compiler here ({compiler}{recorded}) makes another {changed_stages[0]} of the "
        f"recorded {stage}: the column “{outcome.recompiled.label}” is what it made here, and "
        f"what differs from that is {origin}."
    )


def _versions_text(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}".strip() for name, version in versions.items())


def _unchanged_texts(same_stages: Mapping[Stage, bool]) -> str:
    texts = [stage for stage in same_stages if stage is not Stage.SASS]
    same = [stage.value for stage in texts if same_stages[stage]]
    changed = [stage.value for stage in texts if not same_stages[stage]]
    out = f", and {some(same, 9)} byte for byte" if same else ""
    return out + (f"; of {some(changed, 9)} the text alone is another" if changed else "")


def trial_json(trial: Experiment, differences: Iterable[Difference]) -> dict[str, object]:
    """``try``: the columns, the recorded variant's first, and what differs from it."""
    outcome = trial.outcome
    request = outcome.request
    return {
        "schema": SCHEMA,
        "path": request.recording.path,
        "kernel": request.kernel.name,
        "variant": request.variant.id,
        "stage": request.stage.value,
        "file": None if request.text is None else request.name,
        "columns": [_column_json(trial, n, item) for n, item in enumerate(trial.columns)],
        "compiler": {
            "same": None
            if outcome.same_stages is None or not outcome.same_stages
            else outcome.same_compiler,
            "stages": None
            if outcome.same_stages is None
            else {stage.value: same for stage, same in outcome.same_stages.items()},
            "failed": outcome.recompiled.compilation.failed,
            "versions": dict(outcome.versions),
        },
        "remarks": list(outcome.remarks),
        "differences": [_difference(trial, item) for item in differences],
    }


def _column_json(trial: Experiment, n: int, column: ExperimentColumn) -> dict[str, object]:
    variant = column.variant
    result = column.compilation
    is_recorded = n == 0
    origin = "tried" if column in trial.tried else "again"
    same_code = None
    if not is_recorded and column.code is not None and trial.recorded.code is not None:
        same_code = column.code == trial.recorded.code
    return {
        "label": column.label,
        "of": "recorded" if is_recorded else origin,
        "compiled": variant is not None,
        "failed": result.failed,
        "target": (None if variant is None else variant.target) or result.target or None,
        "config": {} if variant is None else dict(variant.config),
        "tool": None if is_recorded else result.tool,
        "seconds": None if is_recorded else result.seconds,
        "stages": [] if variant is None else [s.value for s in Stage if s in variant.stages],
        "resources": to_builtins(column.resources),
        "instructions": column.instructions,
        "occupancy_percent": column.occupancy,
        "same_code": same_code,
        "messages": to_builtins(result.messages),
    }


def _difference(trial: Experiment, difference: Difference) -> dict[str, object]:
    column, compared = difference
    value: dict[str, object] = {"column": column.label, "against": trial.base.label}
    value |= {"stage": None, "identical": None, "hunks": [], "resources": [], "explanation": []}
    if isinstance(compared, str):
        return value | {"why": compared}
    return value | {
        "stage": compared.stage,
        "identical": compared.diff.identical,
        "hunks": to_builtins(diff_rows.hunk_rows(compared.diff)),
        "resources": to_builtins(diff_rows.change_rows(compared.summary.resources)),
        "explanation": list(compared.explanation),
        "why": None,
    }


MAX_OPERATIONS = 4
"""Operations named in a row of the table."""


def pass_title(run: PassRun) -> str:
    """``TritonGPUCoalesce``; of LLVM's code generator the short name, whose title is a sentence."""
    return run.argument if " " in run.name and run.argument else run.name


def pass_milliseconds(run: PassRun) -> str:
    """A pass's time: to a tenth as MLIR and LLVM tell it, what was measured here with a tilde."""
    if run.milliseconds is None:
        return tables.UNKNOWN
    about = "~" if run.timed_by == BY_ARRIVAL else ""
    return f"{about}{run.milliseconds:.1f}"


def pass_operations(
    run: PassRun, limit: int | None = MAX_OPERATIONS, preferred: frozenset[str] = frozenset()
) -> str:
    """``+2 ttg.convert_layout  -1 tt.dot``: those asked for, then the largest changes, first."""
    changes = sorted(
        ((b - a, name) for name, (a, b) in run.operations.items()),
        key=lambda change: (change[1] not in preferred, -abs(change[0]), change[1]),
    )
    texts = [f"{difference:+d} {name}" for difference, name in changes[:limit]]
    remaining = len(changes) - len(texts)
    return "  ".join(texts) + (f"  and {remaining} more" if remaining else "")


def pass_table(passes: Iterable[PassRun], preferred: frozenset[str] = frozenset()) -> Table:
    """Return a row for each pass; ``preferred`` operations come first."""
    out = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("#", "stage", "pass", "lines +", "−", "ms", "operations"):
        justify: JustifyMethod = "right" if name in ("#", "lines +", "−", "ms") else "left"
        out.add_column(name, justify=justify, no_wrap=name != "operations")
    for run in passes:
        added, removed = run.lines or (0, 0)
        out.add_row(
            str(run.number),
            run.stage,
            Text(shown(pass_title(run)), style="" if run.changed else "dim"),
            Text(str(added or ""), style="green"),
            Text(str(removed or ""), style="red"),
            pass_milliseconds(run),
            Text(shown(pass_operations(run, preferred=preferred) or pass_note(run))),
        )
    return out


def pass_note(run: PassRun) -> str:
    if not run.finished:
        return "the compiler failed in it"
    if not run.changed:
        return ""
    return "" if run.lines and any(run.lines) else "names, locations or the order of attributes"


def pass_json(run: PassRun, hunks: tuple[Hunk, ...] | None) -> dict[str, object]:
    """A pass as JSON; with ``hunks`` it has its texts."""
    changes = run.operations
    added, removed = run.lines or (0, 0)
    has_lines = run.lines is not None or not run.changed
    out: dict[str, object] = {
        **pick_fields(run, "number stage language name"),
        "argument": run.argument or None,
        "scope": run.scope or None,
        **pick_fields(run, "inside changed finished"),
        "ms": run.milliseconds,
        "timed_by": run.timed_by,
        "lines": {"added": added, "removed": removed} if has_lines else None,
        "introduced": [name for name, (a, b) in changes.items() if b > a],
        "removed": [name for name, (a, b) in changes.items() if b < a],
        "operations": to_builtins(changes),
    }
    if hunks is not None:
        out |= {
            **pick_fields(run, "before after"),
            "hunks": [pick_fields(h, "op a b") for h in hunks],
        }
    return out
