"""The table of kernels and variants of ``list``."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import maxsize

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Group

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Recording, Resources, Variant
from inspector.render.columns import COLUMNS, Metrics, cells
from inspector.render.jsons import ordered
from inspector.render.kernel_names import distinct_names, titles
from inspector.render.labels import sibling_settings
from inspector.render.tables import (
    FAILED,
    UNKNOWN,
    Cell,
    fit,
    heading_of,
    row_text,
    tuning_mark,
)

ResourcesOf = Callable[[Variant], Resources]
CellText = Callable[[Kernel, Variant], str]

FIGURES = ("registers", "spills", "stack", "shared")
NUMBERS = (*(COLUMNS[key].head for key in FIGURES), "µs", "hints")
HEADS = ("kernel", "variant", "configuration", "tuned", *NUMBERS, "stages")
INDENT = "  "
"""Before the name of a kernel, under its heading."""
OPTIONAL_COLUMNS = ("tuned", "µs", "hints")
"""Columns left out if empty in every row."""
SHRINK_ORDER = (
    *(("kernel", 48), ("configuration", 40), ("stages", 0), ("kernel", 28), ("configuration", 32)),
    *(("configuration", 16), ("kernel", 14), ("configuration", 0), ("stack", 0), ("hints", 0)),
    *(("shared", 0), ("spill", 0), ("tuned", 0), ("variant", 0), ("µs", 0), ("kernel", 4)),
)
"""How columns give room: names stay readable as long as the stages are shown."""


class _Row(Struct):
    """A row by heads; ``variant`` is None of a heading and of a kernel without variants."""

    cells: dict[str, str]
    kernel: Kernel | None = None
    variant: Variant | None = None


def kernels(
    rec: Recording,
    figures: ResourcesOf,
    width: int,
    time: CellText = lambda kernel, variant: "",
    hints: CellText = lambda kernel, variant: "",
) -> Group:
    """Return the table of kernels and variants, grouped by origin.

    Args:
        figures: the resources of a variant.
        time: µs of its launch with their mark; "" if unknown.
        hints: the number of its hints; "" if not counted.
    """
    names_by_id = {kernel.id: shown(kernel.display_name) for kernel in rec.kernels} | titles(rec)
    rows: list[_Row] = []
    for heading, members in by_key((heading_of(k), k) for k in rec.kernels).items():
        rows.append(_Row({"kernel": heading}))
        for kernel in members:
            rows += _kernel_rows(kernel, names_by_id[kernel.id], figures, time, hints)
    _fill_in_settings(rows, names_by_id, maxsize)
    wanted = _column_widths(rows)
    sizes = fit(wanted, width, SHRINK_ORDER)
    if 0 < sizes.get("configuration", 0) < wanted["configuration"]:
        _fill_in_settings(rows, names_by_id, sizes["configuration"])
    names = distinct_names(names_by_id.values(), sizes["kernel"] - len(INDENT))
    lines = [row_text(HEADS, [(head, "bold") for head in HEADS], sizes, NUMBERS)]
    for row in rows:
        texts: dict[str, Cell] = {head: row.cells.get(head, "") for head in HEADS}
        name = row.cells["kernel"].removeprefix(INDENT)
        texts["kernel"] = (name, "bold cyan")
        if row.kernel is not None:
            texts["kernel"] = f"{INDENT}{names[name]}" if name else ""
        if row.cells.get("spill", "0") not in (UNKNOWN, "0"):
            texts["spill"] = (row.cells["spill"], "bold red")
        lines.append(row_text(HEADS, list(texts.values()), sizes, NUMBERS))
    return Group(*lines)


def _column_widths(rows: Sequence[_Row]) -> dict[str, int]:
    """The cells of each column's longest text, without optional columns that are empty."""
    widths = {}
    for head in HEADS:
        texts = [row.cells.get(head, "") for row in rows]
        if head not in OPTIONAL_COLUMNS or any(texts):
            widths[head] = max(map(cell_len, (head, *texts)))
    return widths


def _kernel_rows(
    kernel: Kernel, name: str, figures: ResourcesOf, time: CellText, hints: CellText
) -> Iterator[_Row]:
    if not kernel.variants:
        yield _Row({"kernel": f"{INDENT}{name}", "configuration": "no variant here"}, kernel)
    for n, variant in enumerate(kernel.variants):
        figure_cells = cells(FIGURES, Metrics(figures(variant)))
        row = {
            "kernel": "" if n else f"{INDENT}{name}",
            "variant": shown(variant.id) + (FAILED if variant.error is not None else ""),
            "tuned": tuning_mark(variant),
            **dict(zip(NUMBERS, figure_cells, strict=False)),
            "µs": time(kernel, variant),
            "hints": hints(kernel, variant),
            "stages": " ".join(s.value for s in ordered(variant.stages)),
        }
        yield _Row(row, kernel, variant)


def _fill_in_settings(rows: Iterable[_Row], names_by_id: Mapping[str, str], width: int) -> None:
    """Set the configuration of each variant: siblings, of kernels of one name, differ in it."""
    variant_rows: list[_Row] = []
    pairs: list[tuple[Kernel, Variant]] = []
    for row in rows:
        if row.kernel is not None and row.variant is not None:
            variant_rows.append(row)
            pairs.append((row.kernel, row.variant))
    settings = sibling_settings(pairs, names_by_id, width)
    for row, text in zip(variant_rows, settings, strict=True):
        row.cells["configuration"] = text
