"""What compilers made, and passes changed: tables, messages, sentences and JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct
from rich.cells import cell_len
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from inspector.analyse.passes import BY_ARRIVAL, PassRun
from inspector.base.model import Compilation, CompilerMessage, Stage
from inspector.base.text import plural, shown, some
from inspector.diff.compare import Compared
from inspector.diff.matching import Hunk
from inspector.measure.experiment import Experiment, ExperimentColumn
from inspector.report import diff_text, tables
from inspector.report.jsons import SCHEMA, compilation, members, plain

Column = tuple[str, str]
"""A target, and options as one writes them."""

MOST_LINES = 40
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


def label(column: Column, among: Sequence[Column]) -> str:
    """What a column is called: its target where that differs, and its options."""
    target, options = column
    several = len({c[0] for c in among}) > 1
    if len({c[1] for c in among}) > 1:
        return f"{target} {options}".strip() if several else options or "(no options)"
    return target


FIGURES: Mapping[str, Callable[[ExperimentColumn], str]] = {
    "registers": lambda c: tables.figure(c.resources.registers),
    "spills, bytes": lambda c: tables.spills(c.resources),
    "stack, bytes": lambda c: tables.figure(c.resources.stack_bytes),
    "shared": lambda c: tables.shared(c.resources),
    "instructions": lambda c: tables.figure(c.instructions),
    "occupancy": lambda c: tables.figure(c.occupancy, "{:.0f} %"),
    "compiled in": lambda c: tables.figure(c.compilation.seconds, "{:.2f} s"),
    "variant": lambda c: c.label,
}
TITLE_WIDTH = max(map(len, FIGURES)) + 2


def lines(table: CompiledTable, width: int) -> Iterator[Text]:
    """Yield a table for each kernel; columns that do not fit follow below."""
    heads = [shown(label(c, table.columns)) for c in table.columns]
    several = len({row.file for row in table.rows}) > 1
    signatures = {
        row.kernel: {r.signature for r in table.rows if r.kernel == row.kernel}
        for row in table.rows
    }
    for row in table.rows:
        said = [shown(row.kernel or PurePath(row.file).name)]
        said += [shown(f"{k}={v}") for k, v in row.config.items() if v is not None]
        if row.signature and len(signatures[row.kernel]) > 1:
            said.append(shown(f"({row.signature})"))
        if several and row.kernel is not None:
            said.append(shown(row.file))
        yield Text.assemble((said[0], "bold cyan"), "  ", "  ".join(said[1:]))
        columns = list(map(figures, row.cells))
        rows = list(zip(FIGURES, zip(*columns, strict=True), strict=True))
        if all(column[1:] == NO_FIGURES[1:] for column in columns):
            rows = [("", tuple(column[0] for column in columns))]
        yield from grid(heads, rows, width)
        yield Text("")


NO_FIGURES = [""] * len(FIGURES)


def figures(cell: ExperimentColumn | None) -> list[str]:
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
    sizes = [
        2 + max(map(cell_len, (head, *(r[n] for _, r in rows)))) for n, head in enumerate(heads)
    ]
    first = 0
    while first < len(heads):
        last = first + 1
        while last < len(heads) and TITLE_WIDTH + sum(sizes[first : last + 1]) <= width:
            last += 1
        cells: list[list[tables.Cell]] = [
            [f"  {title}".ljust(TITLE_WIDTH), *(_styled(title, text) for text in row[first:last])]
            for title, row in rows
        ]
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
    return ":".join(str(one) for one in places if one is not None)


STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def messages(compilations: Sequence[Compilation]) -> Iterator[Text]:
    """Each message once, with the columns that it is of where not all have it, and its line."""
    columns = tuple(dict.fromkeys(one.column for one in compilations))
    said: dict[CompilerMessage, dict[str, None]] = {}
    for one in compilations:
        # Where a compiler failed without a word, why.
        silent = one.failed is not None and all(m.severity != "error" for m in one.messages)
        why = [CompilerMessage("error", one.failed or "", "", one.file)] if silent else []
        for message in (*why, *one.messages):
            said.setdefault(message, {})[label(one.column, columns)] = None
    for message, names in list(said.items())[:MOST_LINES]:
        where = place(message)
        style = STYLES.get(message.severity, "")
        of = f"  [{', '.join(names)}]" if len(names) < len(columns) else ""
        yield Text.assemble(
            (shown(f"{where}: ") if where else "", "bold"),
            (message.severity, style),
            shown(f": {message.message}"),
            (shown(of), "dim"),
        )
        if message.text is not None and message.text.strip():
            text = message.text.rstrip("\r")
            yield Text("    " + shown(text.expandtabs(8)))
            if message.column is not None and message.column <= len(text) + 1:
                blanks = len(text[: message.column - 1].expandtabs(8))
                yield Text("    " + " " * blanks + "^", style)
    if len(said) > MOST_LINES:
        yield Text(
            f"{plural(len(said) - MOST_LINES, 'more message')}: --json has all of them", "dim"
        )


RowChange = tuple[str, ExperimentColumn | None, ExperimentColumn | None]
"""A kernel in one column whose code changed: what it is called, and the cell before and after,
None where it was, or is, not there."""


def changes(before: CompiledTable, after: CompiledTable) -> Iterator[RowChange]:
    earlier = {_key(row): row for row in before.rows}
    places = {column: at for at, column in enumerate(before.columns)}
    for row in after.rows:
        old = earlier.get(_key(row))
        for column, cell in zip(after.columns, row.cells, strict=True):
            at = places.get(column)
            was = None if old is None or at is None else old.cells[at]
            if _hash(was) != _hash(cell):
                name = row.kernel or PurePath(row.file).name
                yield f"{name} {label(column, after.columns)}", was, cell


def _key(row: CompiledRow) -> tuple[object, ...]:
    return row.file, row.kernel, repr(sorted(row.config.items())), row.signature


def _hash(cell: ExperimentColumn | None) -> str | None:
    """Return the digest of the kernel's own code, not of its file."""
    return None if cell is None or cell.variant is None else cell.code or cell.variant.hash


def change_lines(changed: Iterable[RowChange]) -> Iterator[Text]:
    """A line for each cell that changed: ``square sm_90a: registers 8 → 12``."""
    for title, before, after in changed:
        pairs = list(zip(FIGURES, figures(before), figures(after), strict=True))[:-2]
        told = [f"{name.partition(',')[0]} {a} → {b}" for name, a, b in pairs if a != b and a and b]
        if before is None or before.variant is None:
            told = ["compiles" if before is not None else "is new"]
        elif after is None or after.variant is None:
            told = ["does not compile"]
        said = ", ".join(told) or "other code, the same figures"
        yield Text(f"  {shown(title)}: {shown(said)}")


def as_json(table: CompiledTable) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "recording": table.path,
        "columns": [{"target": t, "options": o} for t, o in table.columns],
        "rows": [
            {
                **members(row, "file kernel config"),
                "signature": row.signature or None,
                "cells": [_cell_json(cell) for cell in row.cells],
            }
            for row in table.rows
        ],
        "compilations": [compilation(one) for one in table.compilations],
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
        "resources": plain(cell.resources),
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
    parts = (variant.id, variant.target, diff_text.settings(variant.config))
    told = shown("  ".join(filter(None, parts)))
    what = (
        f"from the recorded {request.stage.value} on"
        if request.text is None
        else f"with the {request.stage.value} of {request.name}, which was edited"
    )
    return Text.assemble((shown(request.kernel.called), "bold cyan"), f"  {told}\n", shown(what))


def trial_table(trial: Experiment, width: int) -> Iterator[Text]:
    """Yield the metrics, the recorded variant's first; other columns follow below."""
    heads = [shown(one.label) for one in trial.columns]
    columns = zip(*map(figures, trial.columns), strict=True)
    return grid(heads, list(zip(FIGURES, columns, strict=True))[:-1], width)


def first_error(trial: Experiment, file: str) -> CompilerMessage | None:
    """The first error that has a line of a file."""
    said = (m for one in trial.tried for m in one.compilation.messages if m.line is not None)
    return next((m for m in said if m.severity == "error" and m.file == file), None)


def trial_sentences(trial: Experiment) -> Iterator[str]:
    """Remarks beside the figures: on the compiler and on equal machine code."""
    yield _of_compiler(trial)
    yield from trial.outcome.remarks
    for one in trial.tried:
        if one.code is not None and one.code == trial.recorded.code:
            yield f"{one.label}: the machine code is that of the recorded kernel."


def _of_compiler(trial: Experiment) -> str:
    outcome, request = trial.outcome, trial.outcome.request
    stage = request.stage.value
    here, there = (
        ", ".join(f"{name} {version}".strip() for name, version in versions.items())
        for versions in (outcome.versions, outcome.recorded_versions)
    )
    if outcome.same_stages is None:
        why = outcome.recompiled.compilation.failed
        return f"The recorded {stage} does not compile here ({here}): {why}"
    whose = "the edit's" if request.text is not None else "the options'"
    if outcome.same_compiler:
        tried = (
            "what does not compile" if outcome.failed == len(outcome.columns) else "what differs"
        )
        return (
            f"The compiler here ({here}) makes of the recorded {stage} the machine code that was "
            f"recorded, instruction for instruction{_texts(outcome.same_stages)}: "
            f"{tried} is {whose}."
        )
    first = next((one.value for one, same in outcome.same_stages.items() if not same), "")
    if not first:
        return f"There is nothing recorded after {stage} to hold the compiler against."
    recorded = f"; it was recorded with {there}" if there else ""
    return (
        f"The compiler here ({here}{recorded}) makes another {first} of the recorded {stage}: "
        f"the column “{outcome.recompiled.label}” is what it made here, and "
        f"what differs from that is {whose}."
    )


def _texts(alike: Mapping[Stage, bool]) -> str:
    texts = [stage for stage in alike if stage is not Stage.SASS]
    same = [stage.value for stage in texts if alike[stage]]
    others = [stage.value for stage in texts if not alike[stage]]
    out = f", and {some(same, 9)} byte for byte" if same else ""
    return out + (f"; of {some(others, 9)} the text alone is another" if others else "")


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
        "columns": [_column_json(trial, n, one) for n, one in enumerate(trial.columns)],
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
        "differences": [_difference(trial, one) for one in differences],
    }


def _column_json(trial: Experiment, n: int, one: ExperimentColumn) -> dict[str, object]:
    variant, made = one.variant, one.compilation
    return {
        "label": one.label,
        "of": "recorded" if n == 0 else "tried" if one in trial.tried else "again",
        "compiled": variant is not None,
        "failed": made.failed,
        "target": (None if variant is None else variant.target) or made.target or None,
        "config": {} if variant is None else dict(variant.config),
        "tool": None if n == 0 else made.tool,
        "seconds": None if n == 0 else made.seconds,
        "stages": [] if variant is None else [s.value for s in Stage if s in variant.stages],
        "resources": plain(one.resources),
        "instructions": one.instructions,
        "occupancy_percent": one.occupancy,
        "same_code": None
        if n == 0 or one.code is None or trial.recorded.code is None
        else one.code == trial.recorded.code,
        "messages": plain(made.messages),
    }


def _difference(trial: Experiment, one: Difference) -> dict[str, object]:
    column, compared = one
    value: dict[str, object] = {"column": column.label, "against": trial.base.label}
    value |= {"stage": None, "identical": None, "hunks": [], "resources": [], "explanation": []}
    if isinstance(compared, str):
        return value | {"why": compared}
    text = diff_text.text_json(compared.stage, compared.diff)
    return value | {
        **{name: text[name] for name in ("stage", "identical", "hunks")},
        "resources": diff_text.changes_json(compared.summary.resources),
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
    run: PassRun, most: int | None = MAX_OPERATIONS, asked: frozenset[str] = frozenset()
) -> str:
    """``+2 ttg.convert_layout  -1 tt.dot``: those asked for, then the largest changes, first."""
    changes = sorted(
        ((b - a, name) for name, (a, b) in run.operations.items()),
        key=lambda change: (change[1] not in asked, -abs(change[0]), change[1]),
    )
    said = [f"{difference:+d} {name}" for difference, name in changes[:most]]
    left = len(changes) - len(said)
    return "  ".join(said) + (f"  and {left} more" if left else "")


def pass_table(passes: Iterable[PassRun], asked: frozenset[str] = frozenset()) -> Table:
    """Return a row for each pass; operations ``asked`` for come first."""
    out = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("#", "stage", "pass", "lines +", "−", "ms", "operations"):
        justify: JustifyMethod = "right" if name in ("#", "lines +", "−", "ms") else "left"
        out.add_column(name, justify=justify, no_wrap=name != "operations")
    for run in passes:
        came, went = run.lines or (0, 0)
        out.add_row(
            str(run.number),
            run.stage,
            Text(shown(pass_title(run)), style="" if run.changed else "dim"),
            Text(str(came or ""), style="green"),
            Text(str(went or ""), style="red"),
            pass_milliseconds(run),
            Text(shown(pass_operations(run, asked=asked) or pass_note(run))),
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
    came, went = run.lines or (0, 0)
    known = run.lines is not None or not run.changed
    out: dict[str, object] = {
        **members(run, "number stage language name"),
        "argument": run.argument or None,
        "scope": run.scope or None,
        **members(run, "inside changed finished"),
        "ms": run.milliseconds,
        "timed_by": run.timed_by,
        "lines": {"added": came, "removed": went} if known else None,
        "introduced": [name for name, (a, b) in changes.items() if b > a],
        "removed": [name for name, (a, b) in changes.items() if b < a],
        "operations": plain(changes),
    }
    if hunks is not None:
        out |= {**members(run, "before after"), "hunks": [members(h, "op a b") for h in hunks]}
    return out
