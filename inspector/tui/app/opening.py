"""The first frame: stands at once, while a thread loads the rest of us and reads the recording.

This module and what it imports are all that the first frame needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from inspector.tui.widgets.visible import label

if TYPE_CHECKING:
    from inspector.reader.reader import Reader
    from inspector.tui.app.live import Live

    Opener = Callable[[], tuple[Reader, Live | None]]
else:
    Opener = Callable


class Opening(Screen[None]):
    """The first line of the screen that comes, and what is being read."""

    # The styles of the rest take as long to read as this screen to draw: they come with it.
    DEFAULT_CSS = """
    Opening { background: $background; color: $foreground; }
    Opening .title { height: 1; background: $panel; }
    """
    BINDINGS: ClassVar = [Binding("q", "app.quit", show=False)]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name_shown = label(name)

    def compose(self) -> ComposeResult:
        """A title as it will be, and a word."""
        yield Static(
            Content.assemble(" ", ("ptxview", "bold"), f"  {self.name_shown}"), classes="title"
        )
        yield Static(f" ◔ Reading {self.name_shown} …", markup=False)


def load(opener: Opener) -> tuple[Reader, Live | None]:
    """What ``opener`` gives, once all is loaded that shows it. Takes a while: for a thread."""

    return opener()
