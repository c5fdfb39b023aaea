"""The line of the current step: instruction, values and lanes."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from inspector.execute.calls.stepper import StepPlace
from inspector.execute.calls.tracing import Triple
from inspector.report import step as report
from inspector.tui.widgets.visible import cut, label


class StepLine(Widget):
    """The step at hand: the instruction and what it gave the chosen lane; the lanes of its warp."""

    def __init__(self) -> None:
        super().__init__()
        self.place: StepPlace | None = None

    def show(self, place: StepPlace | None) -> None:
        """Show a step, or nothing."""
        self.place = place
        self.refresh()

    def render(self) -> Content:
        """Two lines; in one there is no room for the lanes."""
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
