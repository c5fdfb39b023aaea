"""The question on leaving while the program runs."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList

from inspector.tui.program.live import Choice
from inspector.tui.widgets.tool_screen import ChoiceList

CHOICES = (
    (Choice.STAY, "s", "Stay", "go on reading"),
    (Choice.LEAVE, "l", "Leave it running", "its output comes here until it ends"),
    (Choice.END, "e", "End it", "as Ctrl-C does; what it recorded so far is kept"),
)


class Leaving(ChoiceList[Choice]):
    """Stay, leave it running, end it."""

    BINDINGS: ClassVar = [
        *(Binding(key, f"choose('{choice.value}')", show=False) for choice, key, *_ in CHOICES),
        Binding("escape,q,ctrl+q", "choose('stay')", show=False),
    ]

    def __init__(self) -> None:
        rows = [
            Content.assemble((key, "bold $primary"), f"  {title}  ", (what, "$quiet"))
            for _, key, title, what in CHOICES
        ]
        super().__init__("The program is still running", rows)

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(CHOICES[message.option_index][0])

    def action_choose(self, value: str) -> None:
        """One of the choices, by its key."""
        self.dismiss(Choice(value))
