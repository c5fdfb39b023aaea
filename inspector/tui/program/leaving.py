"""What is asked of who leaves while his program runs."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from inspector.tui.program.live import Choice

CHOICES = (
    (Choice.STAY, "s", "Stay", "go on reading"),
    (Choice.LEAVE, "l", "Leave it running", "its output comes here until it ends"),
    (Choice.END, "e", "End it", "as Ctrl-C does; what it recorded so far is kept"),
)


class Leaving(ModalScreen[Choice]):
    """Stay, leave it running, end it."""

    BINDINGS: ClassVar = [
        *(Binding(key, f"choose('{choice.value}')", show=False) for choice, key, *_ in CHOICES),
        Binding("escape,q,ctrl+q", "choose('stay')", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def compose(self) -> ComposeResult:
        """One option a choice."""
        options = OptionList(
            *(
                Option(
                    Content.assemble((key, "bold $primary"), f"  {title}  ", (f"{what}", "$quiet")),
                    id=choice.value,
                )
                for choice, key, title, what in CHOICES
            )
        )
        options.border_title = Content("The program is still running")
        yield options

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(Choice(message.option_id))

    def action_choose(self, value: str) -> None:
        """One of the choices, by its key."""
        self.dismiss(Choice(value))

    def action_cursor(self, by: int) -> None:
        """Up or down."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()
