"""The first line of a screen about one variant: what the screen is, of what, and what is so."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import label, shorten

LEAST = 10
"""Columns that a kernel's name keeps, however long what stands at the right is."""


class SubjectBar(Widget):
    """``time  square_kernel 3f2a91c0      cupti · cold L2``."""

    def __init__(self, head: str, subject: TreeSubject, told: str = "") -> None:
        super().__init__()
        self.head, self.subject, self.told = head, subject, told

    def tell(self, told: str) -> None:
        """What stands at the right."""
        self.told = told
        self.refresh()

    def render(self) -> Content:
        """The name is shortened, what stands at the right only where that does not do."""
        width, head, ident = self.size.width, f" {self.head}  ", f" {self.subject.key[1]}"
        told = shorten(self.told, max(0, width - len(head) - len(ident) - LEAST))
        name = shorten(label(self.subject.name), width - len(head) - len(ident) - len(told) - 3)
        used = len(head) + Content(name).cell_length + len(ident) + len(told) + 1
        return Content.assemble(
            (head, "bold"), (name, ""), (ident, "dim"), (" " * max(1, width - used), ""),
            (told, "bold $accent"),
        )  # fmt: skip
