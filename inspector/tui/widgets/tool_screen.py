"""Base of all screens that are no dialogs: commands of the table, a footer, a prompt."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from inspector.tui.keys.command_table import Where, command
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.lines import StatusLine
from inspector.tui.widgets.prompt import Prompt

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
        """Close the screen."""
        self.dismiss()
