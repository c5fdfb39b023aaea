"""Which columns stand between a line's number and its text, chosen one by one."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList

from inspector.tui.gutter import Gutter, title


class ColumnList(ModalScreen[tuple[str, ...]]):
    """The columns that the listing has something for; answers with those that are wanted."""

    BINDINGS: ClassVar = [
        Binding("escape,q,C", "done", "Close", show=False, priority=True),
        Binding("space", "flip", "Choose", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, gutter: Gutter) -> None:
        super().__init__()
        self.there = gutter.there
        self.wanted = set(gutter.wanted)

    def compose(self) -> ComposeResult:
        """One row a column."""
        rows = OptionList(*map(self._row, self.there))
        rows.border_title = Content("Columns")
        rows.border_subtitle = Content("Space chooses, Esc closes")
        yield rows

    def _row(self, column: str) -> Content:
        return Content(f"{'✓' if column in self.wanted else ' '} {title(column)}")

    @on(OptionList.OptionSelected)
    def action_flip(self) -> None:
        """Show the column, or hide it."""
        rows = self.query_one(OptionList)
        at = rows.highlighted
        if at is not None:
            self.wanted ^= {self.there[at]}
            rows.replace_option_prompt_at_index(at, self._row(self.there[at]))

    def action_cursor(self, by: int) -> None:
        """Up or down."""
        rows = self.query_one(OptionList)
        (rows.action_cursor_down if by > 0 else rows.action_cursor_up)()

    def action_done(self) -> None:
        """Answer; what this listing has nothing for stays as it was wanted."""
        kept = tuple(sorted(self.wanted - set(self.there)))
        self.dismiss(tuple(c for c in self.there if c in self.wanted) + kept)
