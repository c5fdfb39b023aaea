"""The columns of the table of variants: what is in them, and what they are sorted by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len

from inspector.diff.variants import VariantRow
from inspector.report.diff_text import absent, settings
from inspector.report.naming import specialised
from inspector.report.tables import shared
from inspector.report.timings import duration
from inspector.tui.tree.ordering import Measured
from inspector.tui.widgets.figures import UNKNOWN, UNREAD, figure, spills
from inspector.tui.widgets.visible import label

Value = float | str | None

MOST = 24
"""Cells of a column at most, but for the configuration as a whole and reasons."""

CHOICE = "choice"
"""What max-autotune calls a candidate, which is after its settings."""

LEAST = 12
"""Cells below which the configuration as a whole is of no use."""


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
    "specialised", "specialised", lambda r: _specialised(r) or UNKNOWN,
    lambda r: _specialised(r) or None, right=False,
)  # fmt: skip
KERNEL = VariantColumn(
    "kernel", "kernel", lambda r: label(r.kernel.called),
    lambda r: r.kernel.called.casefold(), right=False,
)  # fmt: skip
"""Of a table of several kernels."""

REASON = VariantColumn("reason", "why not", lambda r: label(r.reason or ""), lambda r: r.reason,
                right=False)  # fmt: skip

TOLD = 18
"""Cells of a reason at least, where it has a column."""

GIVEN_UP = ("specialised", "launches", "live", "reason", "shared", "spills", "instructions",
            "hints", "occupancy")  # fmt: skip
"""What is left out where it is too narrow, the first first."""

_SHORT = {"registers": "regs", "occupancy": "occup.", "instructions": "instr.", "live": "live",
          "configuration": "config."}  # fmt: skip

LETTERS = {
    "kernel": "K", "winner": "W", "time": "t", "tuner's": "Y", "registers": "R", "spills": "S",
    "shared": "M", "occupancy": "C", "hints": "H", "instructions": "I", "live": "L",
    "launches": "A", "specialised": "P", "configuration": "N",
}  # fmt: skip
"""The letter that sorts by a column; the command table has the same as keys."""


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
    if len({row.kernel.name for row in rows}) > 1:
        return _of_many(rows, width, figures)
    each = [
        VariantColumn(name, name, partial(_setting_text, name), partial(_setting, name))
        for name in differing(rows)
    ]
    reasons = [REASON] if any(row.reason for row in rows) else []
    # Settings have columns of their own as long as some figures that say less can give way.
    for spared in (
        GIVEN_UP[:0],
        ("specialised",),
        ("specialised", "launches", "live"),
        ("specialised", "launches", "live", "hints"),
    ):
        kept = [one for one in figures if one.name not in spared]
        for shorten in (lambda one: one, _short):
            wide = [IDENT, WINNER, *each, *map(shorten, kept), *reasons]
            if (found := _fitted(wide, rows, width)) is not None:
                return found
    whole = _whole(tuple(one.name for one in each))
    first = [IDENT, WINNER, whole] if each else [IDENT, WINNER]
    for many in range(len(GIVEN_UP)):
        kept = [_short(c) for c in (*figures, *reasons) if c.name not in GIVEN_UP[:many]]
        found = _fitted([*first, *kept], rows, width, whole if each else None)
        if found is not None:
            return found
    kept = [_short(c) for c in figures if c.name not in GIVEN_UP]
    return [(one, _size(one, rows)) for one in (*first, *kept)]


def _of_many(
    rows: Sequence[VariantRow], width: int, figures: list[VariantColumn]
) -> list[tuple[VariantColumn, int]]:
    """The columns of a table of several kernels: names give way before a figure does."""
    whole = _whole(tuple(differing(rows)))
    left = [KERNEL, IDENT, WINNER, whole]
    for many in range(len(GIVEN_UP) + 1):
        kept = [_short(c) for c in figures if c.name not in GIVEN_UP[:many]]
        sizes = {one.name: _size(one, rows) for one in (*left, *kept)}
        sizes["specialised"] = min(sizes.get("specialised", 0), MOST)
        over = sum(sizes[one.name] for one in (*left, *kept)) + 2 * len((*left, *kept)) - width
        for name, least in (("configuration", MOST), ("kernel", 36), ("configuration", LEAST),
                            ("kernel", 20)):  # fmt: skip
            cut = min(max(over, 0), max(sizes[name] - least, 0))
            sizes[name] -= cut
            over -= cut
        if over <= 0:
            cut = sizes["configuration"] < _size(whole, rows)
            left = [_short(one) if cut and one is whole else one for one in left]
            return [(one, sizes[one.name]) for one in (*left, *kept)]
    kept = [_short(c) for c in figures if c.name not in GIVEN_UP]
    room = width - sum(_size(c, rows) + 2 for c in (IDENT, WINNER, *kept)) - 2
    return [(KERNEL, max(room, 8)), *((c, _size(c, rows)) for c in (IDENT, WINNER, *kept))]


def _fitted(
    columns: list[VariantColumn],
    rows: Sequence[VariantRow],
    width: int,
    elastic: VariantColumn | None = None,
) -> list[tuple[VariantColumn, int]] | None:
    """These columns with their widths, None if they do not fit; reasons and ``elastic`` may be
    cut, and reasons get what is left."""
    sizes = {one.name: _size(one, rows) for one in columns}
    full = sizes.get(REASON.name, 0)
    if full:
        sizes[REASON.name] = min(full, TOLD)
    left = width - sum(sizes.values()) - 2 * len(sizes)
    if elastic is not None and left < 0:
        cut = max(min(sizes[elastic.name], 2 * LEAST), sizes[elastic.name] + left)
        left += sizes[elastic.name] - cut
        sizes[elastic.name] = cut
    if left < 0:
        return None
    if full:
        sizes[REASON.name] = min(full, min(full, TOLD) + left)
    return [(one, sizes[one.name]) for one in columns]


def _short(column: VariantColumn) -> VariantColumn:
    head = _SHORT.get(column.name, column.head)
    return VariantColumn(column.name, head, column.text, column.value, column.right, column.least)


def _size(column: VariantColumn, rows: Iterable[VariantRow]) -> int:
    """The widest cell; the head has room for the sign of the order."""
    head = cell_len(column.head) + 1
    found = max([head, *(cell_len(column.text(row)) for row in rows)])
    whole = column.name in ("configuration", "kernel", REASON.name)
    return found if whole else min(found, max(head, MOST))


def ordered(
    rows: Sequence[VariantRow], column: VariantColumn, worst_first: bool
) -> list[VariantRow]:
    """Rows by a column, the best first; equal ones stay in their order, the unknown are last."""
    valued = [(column.value(row), row) for row in rows]
    with_value = [(value, row) for value, row in valued if value is not None]
    with_value.sort(
        key=lambda item: (isinstance(item[0], str), item[0]),
        reverse=worst_first == column.least,
    )
    if worst_first == column.least:
        # reverse keeps equal ones in their order, but puts words before numbers
        with_value.sort(key=lambda item: isinstance(item[0], str))
    return [row for _, row in with_value] + [row for value, row in valued if value is None]
