"""Parts of the step screen: the step's line, registers beside the panes, lanes over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from inspector.execute.calls.stepper import WARP, LaneStrip, LaneValue, Stepper, StepPlace
from inspector.execute.calls.tracing import Triple
from inspector.report import step as report
from inspector.tui.widgets.notice import cut, label

Parts = Iterator[tuple[str, str]]
NUMBERS = 6
"""Cells of a row's first lane."""
LEAST = 64
"""Cells of the frame at least: what its keys are called must fit beneath it."""
WIDTH = 38
"""Cells of the panel beside the panes."""
NAME, REGISTER = 14, 6
"""Cells of names of the source and of PTX's, where they are not longer."""


class StepLine(Widget):
    """The step at hand: the instruction and what it gave the chosen lane; the lanes of its warp."""

    place: StepPlace | None = None

    def show(self, place: StepPlace | None) -> None:
        self.place = place
        self.refresh()

    def render(self) -> Content:
        at, width = self.place, self.size.width - 2
        if at is None:
            return Content("")
        values = "  ".join(map(report.said, at.values))
        head = f" {at.line}  "
        room = max(16, width - len(head) - len(values) - 2) if values else width - len(head)
        text = cut(label(report.statement(at.statement)), room)
        values = cut(values, width - len(head) - len(text) - 2)
        style = "$secondary" if at.runs else "dim"
        first = [(head, "bold $accent"), (text, "bold"), (f"  {values}", style)]
        if self.size.height < 2:
            return Content.assemble(*first)
        who, strip, share = report.lanes_said(at)
        if len(who) + len(strip) + len(share) + 5 > width:
            who = f"lane {at.lane}" + ("" if at.runs else " does not run it")
        if len(who) + len(strip) + len(share) + 5 > width:
            share = ""
        style = "" if at.runs else "$warning"
        second = [(f"\n {who}  ", style), (strip, "$accent"), (f"  {share}", "$quiet")]
        return Content.assemble(*first, *second)


def coordinates(block: Triple) -> str:
    """``7``, ``3,1``: without the dimensions at the end that are 0."""
    used = max((n for n, at in enumerate(block) if at), default=0)
    return ",".join(map(str, block[: used + 1]))


def register_rows(stepper: Stepper, width: int) -> Iterator[tuple[str, str]]:
    """Lines with their styles: what the step changed, then what is live, named ones first."""
    place = stepper.place()
    if place is None:
        return
    now = {value.register for value in place.values}
    rest = [value for value in stepper.live() if value.register not in now]
    rest.sort(key=lambda value: value.name is None)
    both = [*place.values, *rest]
    register = max([REGISTER, *(len(v.register) for v in both)])
    sizes = min(NAME, max([0, *(len(v.name or "") for v in both)])), register
    if place.values:
        yield "this step gave\n", "bold $primary"
        yield from _rows(place.values, sizes, width, "$secondary" if place.runs else "dim")
        yield "\n", ""
    yield f"{len(rest) or 'no'} {'more ' if place.values else ''}live\n", "bold $primary"
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

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def show(self, stepper: Stepper) -> None:
        """The registers at the step at hand."""
        self.query_one(Static).update(Content.assemble(*register_rows(stepper, WIDTH - 4)))


def lanes_text(strip: LaneStrip, lane: int, width: int, height: int = 99) -> list[tuple[str, str]]:
    """The chosen lane's warp in numbers, then the block as levels, a warp a row: of a large one as
    many around the chosen lane's as there is room for."""
    cells, signs, first = report.lane_cells(strip), report.levels(strip), lane // WARP * WARP
    above = [*_head(strip, lane)]
    if strip.values is not None:
        size = max(map(len, cells[first : first + WARP]), default=1)
        per = report.lanes_per_row(size + 1, width - NUMBERS)
        padded = [f"{label(cell):>{size}} " for cell in cells[: first + WARP]]
        above += [*_grid(strip, padded, lane, first, len(padded), per), ("\n", "")]
    most = max(3, height - sum(text.count("\n") for text, _ in above))
    warps = -(-len(signs) // WARP)
    top = max(0, min(lane // WARP - most // 2, warps - most))
    last = min(WARP * (top + most), len(signs))
    return [*above, *_grid(strip, signs, lane, WARP * top, last, WARP)]


def _grid(
    strip: LaneStrip, cells: Sequence[str], lane: int, first: int, last: int, per: int
) -> Parts:
    """Cells of lanes in rows; the chosen one reversed, those that did not run dim."""
    for at in range(first, last, per):
        yield f"{at:>{NUMBERS - 2}}  ", "$quiet"
        for n in range(at, min(at + per, last)):
            style = "" if strip.active[n] else "dim"
            yield cells[n], f"{style} reverse".strip() if n == lane else style
        yield "\n", ""


def _head(strip: LaneStrip, lane: int) -> Parts:
    yield f"{report.strip_head(strip)}\n", "bold"
    warp, own = divmod(lane, WARP)
    ran = strip.active[lane]
    value = "" if strip.values is None else f": {report.number(strip.values[lane], strip.kind)}"
    idle = "" if ran else ", which did not run it"
    yield (
        f"lane {lane} (warp {warp}, lane {own}{idle}){value}\n",
        "$secondary" if ran else "$warning",
    )
    yield "\n" if strip.values is None else f"{_range(strip)}\n\n", "$quiet"


def _range(strip: LaneStrip) -> str:
    """Of the lanes that ran it: the least, the greatest, and NaN."""
    plain = [(v[0] if isinstance(v, tuple) else v) for v in strip.values or ()]
    ran = [(v, n) for n, (v, on) in enumerate(zip(plain, strip.active, strict=True)) if on]
    numbers = [(v, n) for v, n in ran if not math.isnan(v)]
    if not numbers:
        return "no number" if ran else "no lane ran it"
    (low, a), (high, b) = min(numbers), max(numbers, key=lambda one: (one[0], -one[1]))
    least, greatest = (report.number(v, strip.kind) for v in (low, high))
    said = f"least {least} at {a}, greatest {greatest} at {b}"
    return said + (f", NaN in {len(ran) - len(numbers)}" if len(ran) > len(numbers) else "")


class LaneGrid(ModalScreen[int | None]):
    """Answers with the lane that was chosen, None for none.

    ``strips`` are the whole block's, one for each register that the line wrote.
    """

    BINDINGS: ClassVar = [
        Binding("enter", "done", "Choose", show=False, priority=True),
        Binding("escape,q", "dismiss", "Close", show=False, priority=True),
        Binding("left,h", "move(-1)", show=False, priority=True),
        Binding("right,l", "move(1)", show=False, priority=True),
        Binding("up,k", f"move(-{WARP})", show=False, priority=True),
        Binding("down,j", f"move({WARP})", show=False, priority=True),
        Binding("home,g", "move(-9999)", show=False, priority=True),
        Binding("end,G", "move(9999)", show=False, priority=True),
        Binding("tab,r", "register", show=False, priority=True),
    ]

    def __init__(self, heading: str, strips: tuple[LaneStrip, ...], lane: int) -> None:
        super().__init__()
        self.heading, self.strips, self.lane = heading, strips, lane
        self.threads = len(strips[0].active)
        self.which = 0
        self.typed = ""
        self.text = Static(markup=False)

    def compose(self) -> ComposeResult:
        frame = VerticalScroll(self.text)
        frame.border_title = Content(self.heading)
        more = "Tab the next register, " if len(self.strips) > 1 else ""
        frame.border_subtitle = Content(f"arrows or a number, Enter chooses, {more}Esc closes")
        yield frame

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        width, height = self.size.width - 6, self.size.height - 3
        parts = lanes_text(self.strips[self.which], self.lane, width, height)
        text = Content.assemble(*parts)
        self.text.update(text)
        widest = max(line.cell_length for line in text.split("\n"))
        frame = self.query_one(VerticalScroll)
        frame.styles.width = max(widest, len(self.heading) + 4, LEAST) + 6

    def on_key(self, event: events.Key) -> None:
        if event.character is None or not event.character.isdecimal():
            return
        event.stop()
        for typed in (self.typed + event.character, event.character):
            if int(typed) < self.threads:
                self.typed, self.lane = typed, int(typed)
                self._show()
                return

    def action_move(self, by: int) -> None:
        self.typed = ""
        self.lane = max(0, min(self.lane + by, self.threads - 1))
        self._show()

    def action_register(self) -> None:
        self.which = (self.which + 1) % len(self.strips)
        self._show()

    def action_done(self) -> None:
        self.dismiss(self.lane)
