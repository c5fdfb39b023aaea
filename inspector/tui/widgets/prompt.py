"""One line to type in, in the place of the status line: search, go to line, filter."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

SIGNS = {
    "search": "/",
    "goto": ":",
    "filter": "filter",
    "parts": "parts",
    "store": "store",
    "lane": "lane",
    "go": "go",
    "block": "block",
    "passes": "/",
}
HINTS = {
    "parts": "two lanes of the block: 0 31",
    "store": "an address: a tensor's name, x+40 (bytes), 0x7f…",
    "lane": "a thread of the block",
    "go": "a step's number",
    "block": "coordinates: 7, or 3,1,0",
    "search": "a regular expression",
    "goto": "line number",
    "passes": "an operation or a pass: convert_layout, +tt.dot made, -tt.dot taken away",
    "filter": "words: name, origin, id, setting",
}


class Prompt(Horizontal):
    """Hidden until asked for; Escape gives up, Enter accepts, what is typed is shown at once."""

    @dataclass
    class Edited(Message):
        """The text changed."""

        kind: str
        text: str

    @dataclass
    class Closed(Message):
        """The prompt was closed; ``accepted`` with Enter."""

        kind: str
        text: str
        accepted: bool

    def __init__(self) -> None:
        super().__init__()
        self.kind = ""
        self.sign = Static("", markup=False)
        self.input = Input(compact=True, select_on_focus=True)
        self.display = False

    def compose(self) -> ComposeResult:
        """The sign and the input."""
        yield self.sign
        yield self.input

    def ask(self, kind: str, value: str = "") -> None:
        """Open for a search, a line or a filter."""
        self.kind = kind
        self.sign.update(f" {SIGNS[kind]} ")
        self.input.placeholder = HINTS[kind]
        with self.input.prevent(Input.Changed):
            self.input.value = value
        self.display = True
        self.screen.set_focus(self.input)

    def _close(self, accepted: bool) -> None:
        kind, self.kind = self.kind, ""
        self.display = False
        if kind:
            self.post_message(self.Closed(kind, self.input.value, accepted))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.kind:
            self.post_message(self.Edited(self.kind, event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close(accepted=True)

    def on_key(self, event: events.Key) -> None:
        """Escape gives up, and Tab and the arrows leave with what was typed."""
        if event.key in ("escape", "tab", "shift+tab", "down", "up"):
            event.stop()
            event.prevent_default()
            self._close(accepted=event.key != "escape")

    def on_descendant_blur(self) -> None:
        """A click elsewhere accepts."""
        self._close(accepted=True)
