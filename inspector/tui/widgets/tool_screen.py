"""Bases of screens and dialogs: commands of the table, a footer, a prompt, frames over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from inspector.tui.keys.command_table import Where, command
from inspector.tui.widgets.lines import KeyFooter, StatusLine

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


ResultType = TypeVar("ResultType")


class ToolScreen(Screen[ResultType]):
    """A screen whose actions the command table names; keys are letters while one types."""

    wheres: ClassVar[tuple[Where, ...]] = ()
    """The parts of the table that work here; the first is the footer's."""

    def __init__(self) -> None:
        super().__init__()
        self.status = StatusLine()
        self.prompt = Prompt()
        self.footer = KeyFooter(self.wheres[0])

    @property
    def home(self) -> Widget:
        """The widget that has the focus when nobody types."""
        raise NotImplementedError

    def home_of(self, where: Where) -> DOMNode:
        """Return the node that has the actions of a part of the table."""
        return self.home if where is self.wheres[0] else self

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse every key while one types."""
        return self.focused is not self.prompt.input

    def ask(self, kind: str, value: str = "") -> None:
        """Open the prompt in the place of the status line."""
        self.status.display = False
        self.prompt.ask(kind, value)

    async def action_tell_app(self, name: str) -> None:
        """Run an action of the application."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        chosen = command(name)
        if self.focused is self.prompt.input:
            self.set_focus(self.home)
        await self.app.run_action(chosen.action, self.home_of(chosen.where))

    def action_back(self) -> None:
        self.dismiss()


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
        frame = VerticalScroll(Static(self.text))
        frame.border_title = Content(self.heading)
        frame.border_subtitle = Content(self.footing or "Esc closes")
        yield frame

    def on_mount(self) -> None:
        if self.at:
            scroll = self.query_one(VerticalScroll)
            self.call_after_refresh(scroll.scroll_to, y=max(self.at - 4, 0), animate=False)

    def action_scroll(self, rows: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=rows, animate=False)


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
        yield self.options

    def action_cursor(self, by: int) -> None:
        (self.options.action_cursor_down if by > 0 else self.options.action_cursor_up)()
