"""A dialog in which one of several rows is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList

ResultType = TypeVar("ResultType")


class ChoiceList(ModalScreen[ResultType]):
    """Rows in a frame; ``j`` and ``k`` move, too. A subclass says what Enter does."""

    BINDINGS: ClassVar = [
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, heading: str, rows: Sequence[Content], footing: str = "") -> None:
        super().__init__()
        self.options = OptionList(*rows)
        self.options.border_title = Content(heading)
        self.options.border_subtitle = Content(footing)

    def compose(self) -> ComposeResult:
        """The rows."""
        yield self.options

    def action_cursor(self, by: int) -> None:
        """Go up or down."""
        (self.options.action_cursor_down if by > 0 else self.options.action_cursor_up)()
