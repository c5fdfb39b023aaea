"""Lines of one row: a left and a right part, of which some can be clicked."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import Reactive
from textual.style import Style
from textual.widget import Widget

from inspector.tui.widgets.visible import cut, shorten


class LineWidget(Widget):
    """A widget of one row or a few; what can be clicked in it looks like the rest."""

    auto_links: Reactive[bool] = Reactive(False)


def clickable(content: Content, action: str) -> Content:
    """Return a content that runs an action when it is clicked."""
    return content.stylize(Style.from_meta({"@click": action}))


def link(text: str, style: str, action: str) -> Content:
    """Return a text that runs an action when it is clicked."""
    return clickable(Content.styled(text, style), action)


def ends(left: Content, right: Content, width: int) -> Content:
    """Return a row with one part at either end."""
    gap = max(1, width - left.cell_length - right.cell_length)
    return Content.assemble(left, " " * gap, right)


class StatusLine(LineWidget):
    """The line above the footer: where the cursor is, or a message until it moves."""

    def __init__(self) -> None:
        super().__init__()
        self._left = self._right = ""
        self._style = ""
        self._message = self._cuts_end = False
        self._place: object = None

    def say(
        self, text: str, warning: bool = False, place: object = None, cuts_end: bool = False
    ) -> None:
        """Show a message, safe to draw, until the cursor moves away from ``place``.

        Without a place, until the next ``show``. ``cuts_end``: its beginning says the most.
        """
        self._left, self._right = f"⚠ {text}" if warning else text, ""
        self._style = "bold $warning" if warning else ""
        self._message, self._place, self._cuts_end = True, place, cuts_end
        self.refresh()

    def show(self, left: str, right: str, place: object = None) -> None:
        """Show where the cursor is, unless a message is about that very place."""
        if self._message and place is not None and place == self._place:
            return
        self._left, self._right, self._style = left, right, ""
        self._message, self._place = False, place
        self.refresh()

    def render(self) -> Content:
        """The place at the left, counts at the right."""
        width = self.size.width - 2
        right = self._right if len(self._right) + 12 <= width else ""
        room = width - len(right) - 2 if right else width
        cut_text = cut if self._cuts_end else shorten
        left = Content.styled(f" {cut_text(self._left, room)}", self._style)
        return ends(left, Content.styled(right, "$accent"), width + 1) if right else left
