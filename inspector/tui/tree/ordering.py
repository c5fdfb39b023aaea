"""The order of the tree: as compiled, or by a figure, the costliest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum

from inspector.base.model import Kernel, Recording, Resources, Variant
from inspector.tui.tree.rows import Key, TreeEntry, TreeKind
from inspector.tui.widgets.subject import TreeSubject

Figures = Mapping[Key, Resources | None]
"""What has been read of a variant's resources, by the ids of its kernel and its own."""


Measured = Callable[[Kernel | None, Variant | None], float | None]
"""Microseconds that were measured of a variant."""


class Order(Enum):
    """The orders; the value is the word for it."""

    COMPILED = "compiled"
    REGISTERS = "registers"
    SPILLS = "spills"
    TIME = "time"
    NAME = "name"


def time_of(variant: Variant) -> float | None:
    """Microseconds of one launch as the program's own tuner measured them, if it did."""
    found = (variant.autotune or {}).get("time_us")
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def orders(recording: Recording, measured: bool = False) -> tuple[Order, ...]:
    """The orders that mean something here: by time only where one is known."""
    timed = measured or any(time_of(variant) is not None for _, variant in recording.variants())
    return tuple(order for order in Order if order is not Order.TIME or timed)


def _figure(variant: Variant, resources: Resources, order: Order) -> float | None:
    if order is Order.REGISTERS:
        return resources.registers
    known = (resources.spill_store_bytes, resources.spill_load_bytes)
    return None if known == (None, None) else sum(bytes_ or 0 for bytes_ in known)


def ordered(
    tree: tuple[TreeEntry, ...], order: Order, figures: Figures, measured: Measured | None = None
) -> tuple[TreeEntry, ...]:
    """Return the tree in an order.

    A kernel counts as its costliest variant does, a graph as its costliest kernel; what is not
    known comes last. Origins, and the operators of a kernel, stay in place. The time of a variant
    is the measured one, else its tuner's.
    """
    if order is Order.COMPILED:
        return tree

    def figure(subject: TreeSubject) -> float | None:
        variant = subject.variant
        if variant is None:
            return None
        if order is Order.TIME:
            found = None if measured is None else measured(subject.kernel, variant)
            return time_of(variant) if found is None else found
        return _figure(variant, figures.get(subject.key[:2]) or variant.known, order)

    return tuple(_ordered(entry, order, figure)[0] for entry in tree)


def _ordered(
    entry: TreeEntry, order: Order, figure: Callable[[TreeSubject], float | None]
) -> tuple[TreeEntry, float | None]:
    """An entry with what is beneath it in order, and its own figure."""
    below = [_ordered(one, order, figure) for one in entry.beneath]
    fixed = [one for one, _ in below if one.row.kind is TreeKind.OPERATORS]
    rest = [(one, value) for one, value in below if one.row.kind is not TreeKind.OPERATORS]
    if order is Order.NAME:
        rest.sort(key=lambda pair: pair[0].row.text.casefold())
        return replace(entry, beneath=(*fixed, *(one for one, _ in rest))), None
    rest.sort(key=lambda pair: (pair[1] is None, -(pair[1] or 0)))
    values = [value for _, value in rest if value is not None]
    if not rest and (own := figure(entry.row.subject)) is not None:
        values = [own]
    return replace(entry, beneath=(*fixed, *(one for one, _ in rest))), max(values, default=None)
