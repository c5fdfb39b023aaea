"""The table of kernels and variants of ``list``."""

from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Recording, Resources, Variant
from inspector.render.columns import COLUMNS, Metrics, cells
from inspector.render.jsons import ordered
from inspector.render.tables import (
    FAILED,
    UNKNOWN,
    Cell,
    config_text,
    differing,
    distinct_names,
    fit,
    heading_of,
    row_text,
    titles,
    tuning_mark,
)

ResourcesOf = Callable[[Variant], Resources]
CellText = Callable[[Kernel, Variant], str]

FIGURES = ("registers", "spills", "stack", "shared")
NUMBERS = (*(COLUMNS[key].head for key in FIGURES), "µs", "hints")
HEADS = ("kernel", "variant", "configuration", "tuned", *NUMBERS, "stages")
SPILLS = HEADS.index("spill")
OPTIONAL_COLUMNS = ("tuned", "µs", "hints")
"""Columns left out if empty in every row."""
SHRINK_ORDER = (
    *(("kernel", 48), ("configuration", 40), ("stages", 0), ("kernel", 28), ("configuration", 32)),
    *(("configuration", 16), ("kernel", 14), ("configuration", 0), ("stack", 0), ("hints", 0)),
    *(("shared", 0), ("spill", 0), ("tuned", 0), ("variant", 0), ("µs", 0), ("kernel", 4)),
)
"""How columns give room: names stay readable as long as the stages are shown."""


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
    names_by_id = {kernel.id: f"  {shown(kernel.display_name)}" for kernel in rec.kernels}
    names_by_id |= {name: f"  {text}" for name, text in titles(rec).items()}
    rows: list[tuple[str, ...]] = []
    for heading, members in by_key((heading_of(k), k) for k in rec.kernels).items():
        rows.append((heading, *[""] * (len(HEADS) - 1)))
        for kernel in members:
            rows += _kernel_rows(kernel, names_by_id[kernel.id], figures, time, hints)
    sizes = fit(_column_widths(rows), width, SHRINK_ORDER)
    names = distinct_names(names_by_id.values(), sizes["kernel"])
    lines = [row_text(HEADS, [(head, "bold") for head in HEADS], sizes, NUMBERS)]
    for row in rows:
        row_cells: list[Cell] = [names.get(row[0], row[0]), *row[1:]]
        if not any(row[1:]):
            row_cells[0] = (row[0], "bold cyan")
        if row[SPILLS] not in (UNKNOWN, "0", ""):
            row_cells[SPILLS] = (row[SPILLS], "bold red")
        lines.append(row_text(HEADS, row_cells, sizes, NUMBERS))
    return Group(*lines)


def _column_widths(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """The cells of each column's longest text, without optional columns that are empty."""
    widths = {}
    for place, head in enumerate(HEADS):
        texts = [row[place] for row in rows]
        if head not in OPTIONAL_COLUMNS or any(texts):
            widths[head] = max(map(cell_len, (head, *texts)))
    return widths


def _kernel_rows(
    kernel: Kernel,
    name: str,
    figures: ResourcesOf,
    time: CellText,
    hints: CellText,
) -> Iterator[tuple[str, ...]]:
    if not kernel.variants:
        yield (name, "", "no variant here", *[""] * (len(HEADS) - 3))
    first = differing([variant.config for variant in kernel.variants])
    for n, variant in enumerate(kernel.variants):
        yield (
            "" if n else name,
            shown(variant.id) + (FAILED if variant.error is not None else ""),
            shown(config_text(variant, first)),
            tuning_mark(variant),
            *cells(FIGURES, Metrics(figures(variant))),
            time(kernel, variant),
            hints(kernel, variant),
            " ".join(s.value for s in ordered(variant.stages)),
        )
