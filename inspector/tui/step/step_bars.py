"""The lines around the code: which block, which step, what it did and by whom."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from inspector.report import step as report
from inspector.trace.stepper import StepPlace
from inspector.trace.tracing import Triple
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import cut, label, shorten


class StepBar(Widget):
    """The first line: of what, which block, and which step of how many."""

    def __init__(self, subject: TreeSubject) -> None:
        super().__init__()
        self.subject = subject
        self.block = ""
        self.told = ""

    def tell(self, block: str, told: str) -> None:
        """The block, and what stands at the right."""
        self.block, self.told = block, told
        self.refresh()

    def render(self) -> Content:
        """``step  softmax_kernel ed6dc2ce  block 7 of 1,823      step 111 of 170 · lane 3``."""
        width, head, ident = self.size.width, " step  ", f" {self.subject.key[1]}"
        block = f"  {self.block}" if self.block else ""
        room = width - len(head) - len(ident) - len(block) - len(self.told) - 3
        if room < 12:
            room, ident = room + len(ident), ""
        name = shorten(label(self.subject.name), max(4, room))
        used = len(head) + Content(name).cell_length + len(ident) + len(block) + len(self.told) + 1
        return Content.assemble(
            (head, "bold"), (name, ""), (ident, "dim"), (block, "bold"),
            (" " * max(1, width - used), ""), (self.told, "bold $accent"),
        )  # fmt: skip


class StepLine(Widget):
    """The step at hand: the instruction and what it gave the chosen lane; the lanes of its warp."""

    def __init__(self) -> None:
        super().__init__()
        self.place: StepPlace | None = None

    def show(self, place: StepPlace | None) -> None:
        """The step at hand; None where there is none."""
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
