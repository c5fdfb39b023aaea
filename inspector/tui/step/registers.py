"""Registers at a step: changed ones, and live ones, of the chosen lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from inspector.execute.calls.stepper import LaneValue, Stepper
from inspector.report import step as report
from inspector.tui.widgets.visible import cut, label

WIDTH = 38
"""Cells of the panel beside the panes."""
NAME, REGISTER = 14, 6
"""Cells of names of the source and of PTX's, where they are not longer."""


def register_rows(stepper: Stepper, width: int) -> Iterator[tuple[str, str]]:
    """Lines with their styles: what the step changed, then what is live, named ones first."""
    place = stepper.place()
    if place is None:
        return
    live = stepper.live()
    now = {value.register for value in place.values}
    both = [*place.values, *live]
    register = max((len(v.register) for v in both), default=REGISTER)
    name = max((len(v.name or "") for v in both), default=0)
    sizes = min(name, NAME), max(register, REGISTER)
    if place.values:
        yield "this step gave\n", "bold $primary"
        yield from _rows(place.values, sizes, width, "$secondary" if place.runs else "dim")
    rest = [value for value in live if value.register not in now]
    rest.sort(key=lambda value: value.name is None)
    more = " more" if len(rest) < len(live) else ""
    count = f"{len(rest)}{more}" if rest else "no other" if more else "none"
    yield ("\n" if place.values else "") + f"{count} live\n", "bold $primary"
    yield from _rows(rest, sizes, width, "")


def _rows(
    values: Iterable[LaneValue], sizes: tuple[int, int], width: int, style: str
) -> Iterator[tuple[str, str]]:
    name, register = sizes
    for value in values:
        called = cut(label(value.name or ""), name)
        yield f"{called:<{name}} " if name else "", "$accent"
        yield f"{value.register:<{register}} ", "$quiet"
        room = max(4, width - name - register - (2 if name else 1))
        yield f"{label(report.short(value, room))}\n", style


class RegisterPanel(VerticalScroll, can_focus=False):
    """A panel beside the panes on wide terminals."""

    def __init__(self) -> None:
        super().__init__()
        self.text = Static(markup=False)

    def compose(self) -> ComposeResult:
        """One text."""
        yield self.text

    def show(self, stepper: Stepper) -> None:
        """The registers at the step at hand."""
        self.text.update(Content.assemble(*register_rows(stepper, WIDTH - 4)))
