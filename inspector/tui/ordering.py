"""In which order the tree stands: as compiled, or by a figure, the costliest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum

from inspector.model import Recording, Resources, Variant
from inspector.tui.rows import Entry, Key, Kind

Figures = Mapping[Key, Resources | None]
"""What has been read of a variant's resources, by the ids of its kernel and its own."""


class Order(Enum):
    """The orders; the value is the word that says which one stands."""

    COMPILED = "compiled"
    REGISTERS = "registers"
    SPILLS = "spills"
    TIME = "time"
    NAME = "name"


def time_of(variant: Variant) -> float | None:
    """Microseconds of one launch as the program's own tuner measured them, if it did."""
    found = (variant.autotune or {}).get("time_us")
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def orders(recording: Recording) -> tuple[Order, ...]:
    """The orders that mean something here: by time only where one is known."""
    timed = any(time_of(variant) is not None for _, variant in recording.variants())
    return tuple(order for order in Order if order is not Order.TIME or timed)


def _registers(variant: Variant, resources: Resources) -> float | None:
    return resources.registers


def _spills(variant: Variant, resources: Resources) -> float | None:
    known = (resources.spill_store_bytes, resources.spill_load_bytes)
    return None if known == (None, None) else sum(known_ or 0 for known_ in known)


def _time(variant: Variant, resources: Resources) -> float | None:
    return time_of(variant)


_FIGURES: Mapping[Order, Callable[[Variant, Resources], float | None]] = {
    Order.REGISTERS: _registers,
    Order.SPILLS: _spills,
    Order.TIME: _time,
}


def ordered(tree: tuple[Entry, ...], order: Order, figures: Figures) -> tuple[Entry, ...]:
    """The tree in an order. A kernel counts as its costliest variant does, a graph as its costliest
    kernel; what is not known comes last. Origins, and the operators of a kernel, stay in place."""
    if order is Order.COMPILED:
        return tree
    return tuple(_ordered(entry, order, figures)[0] for entry in tree)


def _ordered(entry: Entry, order: Order, figures: Figures) -> tuple[Entry, float | None]:
    """An entry with what stands beneath it in order, and its own figure."""
    below = [_ordered(one, order, figures) for one in entry.beneath]
    fixed = [one for one, _ in below if one.row.kind is Kind.OPERATORS]
    rest = [(one, value) for one, value in below if one.row.kind is not Kind.OPERATORS]
    if order is Order.NAME:
        rest.sort(key=lambda pair: pair[0].row.text.casefold())
        return replace(entry, beneath=(*fixed, *(one for one, _ in rest))), None
    rest.sort(key=lambda pair: (pair[1] is None, -(pair[1] or 0)))
    values = [value for _, value in rest if value is not None]
    variant = entry.row.subject.variant
    if not rest and variant is not None:
        read = figures.get(entry.row.subject.key[:2]) or variant.known
        own = _FIGURES[order](variant, read)
        values = [] if own is None else [own]
    return replace(entry, beneath=(*fixed, *(one for one, _ in rest))), max(values, default=None)
