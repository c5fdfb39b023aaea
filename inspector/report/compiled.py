"""What was compiled, as a table: a kernel's figures in rows, targets and options in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from rich.cells import cell_len
from rich.text import Text

from inspector.base.model import Compilation, CompilerMessage, Resources, Variant
from inspector.base.text import plural, shown
from inspector.report import tables
from inspector.report.jsons import SCHEMA, compilation, members, plain

Column = tuple[str, str]
"""A target, and options as one writes them."""

GAP = 2
MOST_LINES = 40
"""Messages that are printed; JSON and the recording have all."""


@dataclass(frozen=True, slots=True)
class CompiledCell:
    """One kernel in one column.

    ``variant`` is None where it did not compile; ``name`` is what selects it in the recording.
    ``instructions`` are SASS's, ``occupancy`` is in percent, ``code`` is a digest of the kernel's
    machine code; None where they are not known.
    """

    compilation: Compilation
    variant: Variant | None = None
    name: str = ""
    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    occupancy: float | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class CompiledRow:
    """A kernel of a file, or the whole file where nothing of it was compiled, in every column."""

    file: str
    kernel: str | None
    config: Mapping[str, object]
    signature: str
    cells: tuple[CompiledCell | None, ...]


@dataclass(frozen=True, slots=True)
class CompiledTable:
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


def _percent(cell: CompiledCell) -> str:
    return tables.UNKNOWN if cell.occupancy is None else f"{cell.occupancy:.0f} %"


def _seconds(cell: CompiledCell) -> str:
    took = cell.compilation.seconds
    return tables.UNKNOWN if took is None else f"{took:.2f} s"


FIGURES = (
    ("registers", lambda c: tables.figure(c.resources.registers)),
    ("spills, bytes", lambda c: tables.spills(c.resources)),
    ("stack, bytes", lambda c: tables.figure(c.resources.stack_bytes)),
    ("shared", lambda c: tables.shared(c.resources)),
    ("instructions", lambda c: tables.figure(c.instructions)),
    ("occupancy", _percent),
    ("compiled in", _seconds),
    ("variant", lambda c: c.name),
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
        yield from _grid(row, heads, width)
        yield Text("")


def _grid(row: CompiledRow, heads: Sequence[str], width: int) -> Iterator[Text]:
    if not any(cell is not None and cell.compilation.failed is None for cell in row.cells):
        yield from grid(heads, [("", ["error" if c else "" for c in row.cells])], width)
    else:
        yield from grid(heads, figures_of(row.cells), width)


def figures_of(cells: Sequence[CompiledCell | None]) -> list[tuple[str, list[str]]]:
    """Return the names of metrics with their cells."""
    return [(title, [_cell(make, cell) for cell in cells]) for title, make in FIGURES]


def grid(
    heads: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int
) -> Iterator[Text]:
    """Yield rows of metrics; columns that do not fit follow below."""
    titles = max(cell_len(title) for title in (*(t for t, _ in FIGURES), *(t for t, _ in rows)))
    titles += GAP
    sizes = [
        max(cell_len(head), *(cell_len(line[at]) for _, line in rows)) + GAP
        for at, head in enumerate(heads)
    ]
    for part in _parts(sizes, width - titles - GAP):
        head = "".join(_right(heads[at], sizes[at]) for at in part)
        yield Text(" " * (GAP + titles) + head, "bold")
        for title, line in rows:
            out = Text(" " * GAP + title + " " * (titles - cell_len(title)))
            for at in part:
                text = line[at]
                bad = text == "error" or (title.startswith("spills") and text not in _QUIET)
                out.append(_right(text, sizes[at]), "bold red" if bad else "")
            yield out


_QUIET = ("0", tables.UNKNOWN, "")


def _parts(sizes: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield groups of columns that fit side by side."""
    part: list[int] = []
    for at, _ in enumerate(sizes):
        if part and sum(sizes[i] for i in part) + sizes[at] > room:
            yield part
            part = []
        part.append(at)
    if part:
        yield part


def _right(text: str, size: int) -> str:
    return " " * (size - cell_len(text)) + text


def _cell(make: object, cell: CompiledCell | None) -> str:
    if cell is None:
        return ""
    if cell.variant is None or cell.compilation.failed is not None:
        return "error" if make is FIGURES[0][1] else ""
    return shown(str(make(cell)))  # type: ignore[operator]


# -- what the compilers said ----------------------------------------------------------------------


def place(message: CompilerMessage) -> str:
    """``x.cu:12:7``; "" without a file."""
    out = message.file or ""
    for number in (message.line, message.column):
        if out and number is not None:
            out += f":{number}"
    return out


STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def messages(table: CompiledTable) -> Iterator[Text]:
    """Each message once, with the columns that it is of where not all have it, and its line."""
    said: dict[CompilerMessage, list[str]] = {}
    tried: dict[str, int] = {}
    for one in table.compilations:
        tried[one.file] = tried.get(one.file, 0) + 1
        for message in _of(one):
            names = said.setdefault(message, [])
            name = label(one.column, table.columns)
            if name not in names:
                names.append(name)
    columns = len(table.columns)
    for message, names in list(said.items())[:MOST_LINES]:
        where = place(message)
        style = STYLES.get(message.severity, "")
        out = Text.assemble(
            (shown(f"{where}: ") if where else "", "bold"),
            (message.severity, style),
            shown(f": {message.message}"),
        )
        if len(names) < columns:
            out.append(shown(f"  [{', '.join(names)}]"), "dim")
        yield out
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


def _of(one: Compilation) -> Iterable[CompilerMessage]:
    """What a compiler said; where it failed without a word, why."""
    if one.failed is not None and not any(m.severity == "error" for m in one.messages):
        yield CompilerMessage("error", one.failed, "", one.file)
    yield from one.messages


# -- before and after an edit ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowChange:
    """A kernel in one column whose code is not what it was: None where it was, or is, not there."""

    row: CompiledRow
    column: str
    before: CompiledCell | None
    after: CompiledCell | None

    @property
    def title(self) -> str:
        """The kernel and the column."""
        return f"{self.row.kernel or PurePath(self.row.file).name} {self.column}"

    def figures(self) -> Iterator[tuple[str, str, str]]:
        """The figures that differ: name, before, after."""
        if self.before is None or self.after is None:
            return
        for title, make in FIGURES:
            if title in ("compiled in", "variant"):
                continue
            before, after = (_cell(make, cell) for cell in (self.before, self.after))
            if before != after and "" not in (before, after):
                yield title.partition(",")[0], before, after


def changes(before: CompiledTable, after: CompiledTable) -> Iterator[RowChange]:
    """Yield the cells whose code changed."""
    earlier = {_key(row): row for row in before.rows}
    places = {column: at for at, column in enumerate(before.columns)}
    for row in after.rows:
        old = earlier.get(_key(row))
        for column, cell in zip(after.columns, row.cells, strict=True):
            at = places.get(column)
            was = None if old is None or at is None else old.cells[at]
            if _hash(was) != _hash(cell):
                yield RowChange(row, label(column, after.columns), was, cell)


def _key(row: CompiledRow) -> tuple[object, ...]:
    return row.file, row.kernel, repr(sorted(row.config.items())), row.signature


def _hash(cell: CompiledCell | None) -> str | None:
    """Return the digest of the kernel's own code, not of its file."""
    return None if cell is None or cell.variant is None else cell.code or cell.variant.hash


def change_lines(changed: Iterable[RowChange]) -> Iterator[Text]:
    """A line for each cell that changed: ``square sm_90a: registers 8 → 12``."""
    for one in changed:
        out = Text(f"  {shown(one.title)}: ")
        figures = [f"{name} {a} → {b}" for name, a, b in one.figures()]
        if one.before is None or one.before.variant is None:
            figures = ["compiles" if one.before is not None else "is new"]
        elif one.after is None or one.after.variant is None:
            figures = ["does not compile"]
        yield out.append(shown(", ".join(figures)) or "other code, the same figures")


# -- JSON -----------------------------------------------------------------------------------------


def as_json(table: CompiledTable) -> dict[str, object]:
    """Return columns, rows with a cell for each column, and every message."""
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


def _cell_json(cell: CompiledCell | None) -> dict[str, object] | None:
    if cell is None:
        return None
    variant = cell.variant if cell.compilation.failed is None else None
    return {
        "compiled": variant is not None,
        "failed": cell.compilation.failed,
        "select": cell.name if variant is not None else None,
        "variant": None if variant is None else variant.id,
        "hash": None if variant is None else variant.hash,
        "target": None if variant is None else variant.target,
        "resources": plain(cell.resources),
        "instructions": cell.instructions,
        "occupancy_percent": cell.occupancy,
        "seconds": cell.compilation.seconds,
    }
