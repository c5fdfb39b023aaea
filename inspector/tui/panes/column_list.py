"""The dialog in which columns of the gutter are chosen."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList

from inspector.tui.code.gutter import Gutter, title
from inspector.tui.widgets.tool_screen import ChoiceList


class ColumnList(ChoiceList[tuple[str, ...]]):
    """The columns that the listing has something for; answers with those that are wanted."""

    BINDINGS: ClassVar = [
        Binding("escape,q,C", "done", show=False, priority=True),
        Binding("space", "flip", show=False),
    ]

    def __init__(self, gutter: Gutter) -> None:
        self.there = gutter.there
        self.wanted = set(gutter.wanted)
        super().__init__("Columns", [*map(self._row, self.there)], "Space chooses, Esc closes")

    def _row(self, column: str) -> Content:
        return Content(f"{'✓' if column in self.wanted else ' '} {title(column)}")

    @on(OptionList.OptionSelected)
    def action_flip(self) -> None:
        """Show the column, or hide it."""
        at = self.options.highlighted
        if at is not None:
            self.wanted ^= {self.there[at]}
            self.options.replace_option_prompt_at_index(at, self._row(self.there[at]))

    def action_done(self) -> None:
        """Answer; what this listing has nothing for stays as it was wanted."""
        kept = tuple(sorted(self.wanted - set(self.there)))
        self.dismiss(tuple(c for c in self.there if c in self.wanted) + kept)
