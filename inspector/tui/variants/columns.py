"""Columns of the variant table: texts, sort keys and widths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.cells import cell_len

from inspector.diff.variants import VariantRow
from inspector.report.diff_text import absent, settings
from inspector.report.tables import shared, specialised
from inspector.report.timings import duration
from inspector.tui.tree.rows import Measured
from inspector.tui.widgets.figures import UNKNOWN, UNREAD, figure, spills
from inspector.tui.widgets.visible import label

Value = float | str | None

MAX_CELLS = 24
"""Cells of a column at most, but for the configuration as a whole, kernels and reasons."""

CHOICE = "choice"
"""What max-autotune calls a candidate, which is after its settings."""


@dataclass(frozen=True, slots=True)
class VariantColumn:
    """``value`` is what rows are sorted by, numbers before words; None is not known, and last.

    ``least`` is whether the least is the best, which is first.
    """

    name: str
    head: str
    text: Callable[[VariantRow], str]
    value: Callable[[VariantRow], Value]
    right: bool = True
    least: bool = True


def _ident(row: VariantRow) -> str:
    return absent(row) if row.variant is None else label(row.variant.id)


def _time(us: float | None) -> str:
    return UNKNOWN if us is None else f"{duration(us)} µs"


def _full(row: VariantRow) -> str:
    return UNKNOWN if row.occupancy is None else f"{row.occupancy:.4g} %"


def _launches(row: VariantRow) -> int | None:
    return None if row.variant is None else row.variant.launches


def _specialised(row: VariantRow) -> str:
    return "" if row.variant is None else label(" ".join(specialised(row.variant)))


def _won(row: VariantRow) -> float | None:
    return None if row.winner is None else float(row.winner)


def _sign(row: VariantRow) -> str:
    """The tuner's choice, or what failed."""
    if row.winner:
        return "★"
    return "✗" if (row.reason or "").partition(":")[0] == "failed" else " "


IDENT = VariantColumn("variant", "variant", _ident, _ident, right=False)
WINNER = VariantColumn("winner", "★", _sign, _won, right=False, least=False)
TUNED = VariantColumn("tuner's", "tuner's", lambda r: _time(r.time_us), lambda r: r.time_us)
"""What the program's own tuner measured: by another stopwatch, on its own inputs."""


def _read(
    name: str,
    value: Callable[[VariantRow], Value],
    text: Callable[[VariantRow], str],
    head: str = "",
    least: bool = True,
) -> VariantColumn:
    """A column of a figure that is read while the table is open: what is not read yet is "…"."""

    def shown(row: VariantRow) -> str:
        told = text(row)
        return UNREAD if row.unread and (value(row) is None or told == UNKNOWN) else told

    return VariantColumn(name, head or name, shown, value, least=least)


def _figure(name: str, of: Callable[[VariantRow], int | None], head: str = "") -> VariantColumn:
    return _read(name, of, lambda row: figure(of(row)), head)


REGISTERS = _figure("registers", lambda r: r.resources.registers)
INSTRUCTIONS = _figure("instructions", lambda r: r.instructions)
FIGURES = (
    REGISTERS,
    _read("spills", lambda r: r.spills, lambda r: spills(r.resources)),
    _read("shared", lambda r: r.shared, lambda r: shared(r.resources)),
    _read("occupancy", lambda r: r.occupancy, _full, least=False),
    _figure("hints", lambda r: r.hints),
    INSTRUCTIONS,
    _figure("live", lambda r: r.live, "live regs"),
)
LAUNCHES = VariantColumn(
    "launches", "launches", lambda r: figure(_launches(r)), lambda r: _launches(r), least=False
)
SPECIALISED = VariantColumn(
    "specialised",
    "specialised",
    lambda r: _specialised(r) or UNKNOWN,
    lambda r: _specialised(r) or None,
    right=False,
)
KERNEL = VariantColumn(
    "kernel",
    "kernel",
    lambda r: label(r.kernel.called),
    lambda r: r.kernel.called.casefold(),
    right=False,
)
"""Of a table of several kernels."""

REASON = VariantColumn(
    "reason", "why not", lambda r: label(r.reason or ""), lambda r: r.reason, right=False
)

GIVEN_UP = (
    "specialised",
    "launches",
    "live",
    "reason",
    "shared",
    "spills",
    "instructions",
    "hints",
    "occupancy",
)
"""Columns that a narrow table leaves out, in this order."""

SPARED = ((), GIVEN_UP[:1], GIVEN_UP[:3], (*GIVEN_UP[:3], "hints"))
"""Columns that give way to columns of single settings."""

MIN_CELLS = (
    ("reason", 18),
    ("configuration", 24),
    ("kernel", 36),
    ("configuration", 12),
    ("kernel", 20),
)
"""Columns that are cut where a table is too wide, in this order, and how far."""

_SHORT = {
    "registers": "regs",
    "occupancy": "occup.",
    "instructions": "instr.",
    "live": "live",
    "configuration": "config.",
}


def _setting(name: str, row: VariantRow) -> Value:
    value = row.config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if value is None else str(value)
    return float(value)


def _setting_text(name: str, row: VariantRow) -> str:
    value = row.config.get(name)
    return UNKNOWN if value is None else label(str(value))


def differing(rows: Sequence[VariantRow]) -> Iterator[str]:
    """The settings that are not the same in all rows, constexprs before warps and stages.

    What another maker than Triton made (ATen) has none but its name, which says no setting differs.
    """
    names = dict.fromkeys(name for row in rows for name in row.config if name != "flags")
    own = ("num_warps", "num_stages", "num_ctas", "maxnreg", CHOICE)
    ordered = [n for n in names if n not in own] + [n for n in own if n in names]
    set_by = [row for row in rows if row.maker in (None, "Triton")]
    for name in ordered:
        of = rows if name == CHOICE else set_by or rows
        if len({repr(row.config.get(name)) for row in of}) > 1:
            yield name


def _whole(names: tuple[str, ...]) -> VariantColumn:
    """All these settings in one column; sorted from left to right, numbers as numbers."""

    def told(row: VariantRow) -> str:
        return settings({name: row.config.get(name) for name in names})

    def value(row: VariantRow) -> str:
        return re.sub(r"\d+", lambda found: found[0].zfill(12), told(row))

    return VariantColumn(
        "configuration", "configuration", lambda r: label(told(r)), value, right=False
    )


def measured(of: Measured) -> VariantColumn:
    """The kernel's own duration as it was measured here."""

    def us(row: VariantRow) -> float | None:
        return of(row.kernel, row.variant)

    return VariantColumn("time", "time", lambda r: _time(us(r)), us)


def columns(
    rows: Sequence[VariantRow], width: int, of: Measured
) -> list[tuple[VariantColumn, int]]:
    """The columns that fit into ``width`` cells, each with its own width.

    Each setting that differs has a column; where they do not fit, all are in one. ``of`` gives
    the measured time of a variant; the tuner's has a column where there is one, alone where nothing
    else was measured.
    """
    tuned = [TUNED] if any(row.time_us is not None for row in rows) else []
    own = measured(of)
    taken = [own] if not tuned or any(own.value(row) is not None for row in rows) else []
    launches = [LAUNCHES] if any(_launches(row) is not None for row in rows) else []
    special = [SPECIALISED] if len({_specialised(row) for row in rows}) > 1 else []
    figures = [*taken, *tuned, *FIGURES, *launches, *special]
    several = len({row.kernel.name for row in rows}) > 1
    each = [
        VariantColumn(name, name, partial(_setting_text, name), partial(_setting, name))
        for name in differing(rows)
    ]
    whole = [_whole(tuple(one.name for one in each))] if each or several else []
    reasons = [REASON] if any(row.reason for row in rows) and not several else []
    first = [*([KERNEL] if several else []), IDENT, WINNER]
    layouts = []
    for spared in () if several else SPARED:
        kept = [*each, *(c for c in figures if c.name not in spared), *reasons]
        layouts += [[*first, *kept], [*first, *map(_short, kept)]]
    for count in range(len(GIVEN_UP) + 1):
        kept = [c for c in (*figures, *reasons) if c.name not in GIVEN_UP[:count]]
        layouts.append([*first, *whole, *map(_short, kept)])
    for layout in layouts:
        over, sized = _fitted(layout, rows, width)
        if over <= 0:
            break
    return sized


def _fitted(
    columns: list[VariantColumn], rows: Sequence[VariantRow], width: int
) -> tuple[int, list[tuple[VariantColumn, int]]]:
    """Return how many cells these columns have too many, and each with its width."""
    full = {one.name: _size(one, rows) for one in columns}
    sizes = dict(full)
    over = sum(sizes.values()) + 2 * len(sizes) - width
    for name, least in MIN_CELLS if KERNEL in columns else MIN_CELLS[:2]:
        cut = min(max(over, 0), max(sizes.get(name, 0) - least, 0))
        if cut:
            sizes[name] -= cut
            over -= cut
    shown = [_short(one) if sizes[one.name] < full[one.name] else one for one in columns]
    return over, [(one, sizes[one.name]) for one in shown]


def _short(column: VariantColumn) -> VariantColumn:
    return replace(column, head=_SHORT.get(column.name, column.head))


def _size(column: VariantColumn, rows: Iterable[VariantRow]) -> int:
    """The widest cell; the head has room for the sign of the order."""
    head = cell_len(column.head) + 1
    found = max([head, *(cell_len(column.text(row)) for row in rows)])
    whole = column.name in ("configuration", "kernel", REASON.name)
    return found if whole else min(found, max(head, MAX_CELLS))


def ordered(
    rows: Sequence[VariantRow], column: VariantColumn, worst_first: bool
) -> list[VariantRow]:
    """Rows by a column, the best first; equal ones stay in their order, the unknown are last."""
    known = [(value, row) for row in rows if (value := column.value(row)) is not None]
    known.sort(
        key=lambda item: (isinstance(item[0], str), item[0]), reverse=worst_first == column.least
    )
    # Numbers come before words in both directions.
    known.sort(key=lambda item: isinstance(item[0], str))
    return [row for _, row in known] + [row for row in rows if column.value(row) is None]
