"""A text over the screen that is read and closed: the help, the problems."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class Overlay(ModalScreen[None]):
    """Scrolls with the usual keys; Escape, q and its own key close it."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark,exclamation_mark,enter", "dismiss", "Close", show=False),
        Binding("j,down", "scroll(1)", show=False),
        Binding("k,up", "scroll(-1)", show=False),
        Binding("space,pagedown", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(
        self, heading: str, text: Content, footing: str = "", wide: bool = False, at: int = 0
    ) -> None:
        """``at`` is the row of the text that is to be in view, from 0."""
        super().__init__(classes="wide" if wide else None)
        self.at = at
        self.heading = heading
        self.text = text
        self.footing = footing

    def compose(self) -> ComposeResult:
        """The text in a frame with its heading."""
        frame = VerticalScroll(Static(self.text))
        frame.border_title = Content(self.heading)
        frame.border_subtitle = Content(self.footing or "Esc closes")
        yield frame

    def on_mount(self) -> None:
        """Scroll to the row, some rows below the top."""
        if self.at:
            scroll = self.query_one(VerticalScroll)
            self.call_after_refresh(scroll.scroll_to, y=max(self.at - 4, 0), animate=False)

    def action_scroll(self, rows: int) -> None:
        """Up or down."""
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)
