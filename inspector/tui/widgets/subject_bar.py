"""The first line of a screen over the main one: what the screen is, of what, and its state."""

from __future__ import annotations

from textual.content import Content

from inspector.tui.widgets.lines import LineWidget, ends
from inspector.tui.widgets.visible import label, shorten

MIN_NAME_CELLS = 10
"""Cells that a name keeps, however long the text at the right is."""


class SubjectBar(LineWidget):
    """``time  square_kernel 3f2a91c0      cupti · cold L2``."""

    def __init__(self, head: str, name: str, ident: str = "", right: str = "") -> None:
        super().__init__()
        self.head, self.name_text, self.ident, self.right = head, name, ident, right
        self.part = ""

    def tell(self, right: str, part: str = "") -> None:
        """Show a text at the right, and the ``part`` of the subject that is shown."""
        self.right, self.part = right, part
        self.refresh()

    def render(self) -> Content:
        """The name is shortened; the text at the right only where that does not do."""
        width, head = self.size.width, f" {self.head}  "
        part = f"  {self.part}" if self.part else ""
        ident = f" {self.ident}" if self.ident else ""
        used = len(head) + len(ident) + len(part)
        right = shorten(self.right, max(0, width - used - MIN_NAME_CELLS))
        name = shorten(label(self.name_text), width - used - len(right) - 3)
        left = Content.assemble((head, "bold"), name, (ident, "dim"), (part, "bold"))
        return ends(left, Content.styled(right, "bold $accent"), width - 1)
