"""The first line of the screen of times."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from inspector.tui.subject import Subject
from inspector.tui.visible import label, shorten


class TimingBar(Widget):
    """The first line: of what, and how."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.told = ""

    def tell(self, told: str) -> None:
        """What stands at the right."""
        self.told = told
        self.refresh()

    def render(self) -> Content:
        """``time  square_kernel 3f2a91c0      cupti · cold L2``."""
        width, head, ident = self.size.width, " time  ", f" {self.subject.key[1]}"
        room = width - len(head) - len(ident) - len(self.told) - 3
        name = shorten(label(self.subject.name), room)
        used = len(head) + Content(name).cell_length + len(ident) + len(self.told) + 1
        gap = " " * max(1, width - used)
        return Content.assemble(
            (head, "bold"), (name, ""), (ident, "dim"), (gap, ""), (self.told, "bold $accent")
        )
