"""What compilers made, and passes changed: tables, messages, sentences and JSON."""

from __future__ import annotations

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
from inspector.diff.hunks import Hunk
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


FIGURES: tuple[tuple[str, Callable[[ExperimentColumn], str]], ...] = (
    ("registers", lambda c: tables.figure(c.resources.registers)),
    ("spills, bytes", lambda c: tables.spills(c.resources)),
    ("stack, bytes", lambda c: tables.figure(c.resources.stack_bytes)),
    ("shared", lambda c: tables.shared(c.resources)),
    ("instructions", lambda c: tables.figure(c.instructions)),
    ("occupancy", lambda c: tables.figure(c.occupancy, "{:.0f} %")),
    ("compiled in", lambda c: tables.figure(c.compilation.seconds, "{:.2f} s")),
    ("variant", lambda c: c.label),
)


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
        rows = figures_of(row.cells)
        if not any(cell is not None and cell.compilation.failed is None for cell in row.cells):
            rows = [("", ["error" if cell else "" for cell in row.cells])]
        yield from grid(heads, rows, width)
        yield Text("")


def figures_of(cells: Sequence[ExperimentColumn | None]) -> list[tuple[str, list[str]]]:
    return [(title, [_cell(title, make, cell) for cell in cells]) for title, make in FIGURES]


def _cell(
    title: str, make: Callable[[ExperimentColumn], str], cell: ExperimentColumn | None
) -> str:
    if cell is None or cell.variant is None or cell.compilation.failed is not None:
        return "error" if cell is not None and title == FIGURES[0][0] else ""
    return shown(make(cell))


def grid(
    heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int
) -> Iterator[Text]:
    """Yield rows of metrics; columns that do not fit follow below."""
    titles = max(len(title) for title, _ in (*FIGURES, *rows)) + 2
    left = list(range(len(heads)))
    while left:
        part: list[int] = []
        room = width - titles
        for at in left:
            room -= 2 + max(cell_len(text) for text in (heads[at], *(line[at] for _, line in rows)))
            if part and room < 0:
                break
            part.append(at)
        left = left[len(part) :]
        cells: list[list[tables.Cell]] = [
            [f"  {title}".ljust(titles), *(_styled(title, line[at]) for at in part)]
            for title, line in rows
        ]
        yield from tables.grid(["", *(heads[at] for at in part)], cells, width, heads)


def _styled(title: str, text: str) -> tuple[str, str]:
    spilled = title.startswith("spills") and text not in ("0", tables.UNKNOWN, "")
    return text, "bold red" if text == "error" or spilled else ""


def place(message: CompilerMessage) -> str:
    """``x.cu:12:7``; "" without a file."""
    out = message.file or ""
    for number in (message.line, message.column):
        if out and number is not None:
            out += f":{number}"
    return out


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
        cells = [dict(figures_of([cell])) for cell in (before, after)]
        pairs = [(name, cells[0][name][0], cells[1][name][0]) for name, _ in FIGURES[:-2]]
        figures = [f"{t.partition(',')[0]} {a} → {b}" for t, a, b in pairs if a != b and a and b]
        if before is None or before.variant is None:
            figures = ["compiles" if before is not None else "is new"]
        elif after is None or after.variant is None:
            figures = ["does not compile"]
        said = ", ".join(figures) or "other code, the same figures"
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
    return grid(heads, figures_of(trial.columns)[:-1], width)


def first_error(trial: Experiment, file: str) -> CompilerMessage | None:
    """The first error that has a line of a file."""
    said = (m for one in trial.tried for m in one.compilation.messages if m.line is not None)
    return next((m for m in said if m.severity == "error" and m.file == file), None)


def trial_sentences(trial: Experiment) -> Iterator[str]:
    """Remarks beside the figures: on the compiler and on equal machine code."""
    yield from _of_compiler(trial)
    yield from trial.outcome.remarks
    for one in trial.tried:
        if one.code is not None and one.code == trial.recorded.code:
            yield f"{one.label}: the machine code is that of the recorded kernel."


def _of_compiler(trial: Experiment) -> Iterator[str]:
    outcome = trial.outcome
    request = outcome.request
    here, there = _versions(outcome.versions), _versions(outcome.recorded_versions)
    if outcome.alike is None:
        yield (
            f"The recorded {request.stage.value} does not compile here ({here}): "
            f"{outcome.again.compilation.failed}"
        )
        return
    whose = "the edit's" if request.text is not None else "the options'"
    tried = "what does not compile" if outcome.failed == len(outcome.columns) else "what differs"
    edit = f"{tried} is {whose}"
    if outcome.same_compiler:
        yield (
            f"The compiler here ({here}) makes of the recorded {request.stage.value} the machine "
            f"code that was recorded, instruction for instruction{_texts(outcome.alike)}: {edit}."
        )
        return
    first = next((stage.value for stage, same in outcome.alike.items() if not same), "")
    recorded = f"; it was recorded with {there}" if there else ""
    if not first:
        yield f"There is nothing recorded after {request.stage.value} to hold the compiler against."
        return
    yield (
        f"The compiler here ({here}{recorded}) makes another {first} of the recorded "
        f"{request.stage.value}: the column “{outcome.again.label}” is what it made here, and "
        f"what differs from that is {whose}."
    )


def _texts(alike: Mapping[Stage, bool]) -> str:
    texts = [stage for stage in alike if stage is not Stage.SASS]
    same = [stage.value for stage in texts if alike[stage]]
    others = [stage.value for stage in texts if not alike[stage]]
    out = f", and {some(same, 9)} byte for byte" if same else ""
    return out + (f"; of {some(others, 9)} the text alone is another" if others else "")


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}".strip() for name, version in versions.items())


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
            "same": None if outcome.alike is None or not outcome.alike else outcome.same_compiler,
            "stages": None
            if outcome.alike is None
            else {stage.value: same for stage, same in outcome.alike.items()},
            "failed": outcome.again.compilation.failed,
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
