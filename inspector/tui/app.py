"""The application: themes, the command palette, the screen. What happens is the widgets' affair."""

from __future__ import annotations

import os
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import App
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from inspector.tui.help_text import help_text, problems_text
from inspector.tui.main_screen import MainScreen
from inspector.tui.overlay import Overlay
from inspector.tui.palette import CommandProvider
from inspector.tui.reads import Reads
from inspector.tui.theme import DARK, LIGHT
from inspector.tui.title_bar import banner


def _light_terminal() -> bool:
    """Whether the terminal says, by COLORFGBG as rxvt and Konsole do, that its ground is light."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


class PtxviewApp(App[None]):
    """Reads one recording."""

    TITLE = "ptxview"
    CSS_PATH = "styles.tcss"
    COMMANDS: ClassVar = {CommandProvider}
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, reads: Reads) -> None:
        # With NO_COLOR Textual turns colours to greys; with the terminal's own colours it leaves
        # them out altogether, which is what the user asked for.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.reads = reads
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = LIGHT.name if _light_terminal() else DARK.name

    def get_default_screen(self) -> Screen[None]:
        """The one screen."""
        return MainScreen(self.reads)

    def action_help(self) -> None:
        """All keys."""
        self.push_screen(Overlay("ptxview: keys", help_text(self.reads.recording)))

    def action_problems(self) -> None:
        """What went wrong."""
        recording = self.reads.recording
        self.push_screen(Overlay("Problems", problems_text(recording), banner(recording)))

    def action_other_theme(self) -> None:
        """Dark or light."""
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def panic(self, *renderables: RenderableType) -> None:
        """End with one sentence instead of a traceback, unless PTXVIEW_TRACEBACK asks for it."""
        if os.environ.get("PTXVIEW_TRACEBACK"):
            super().panic(*renderables)
            return
        error = self._exception
        what = f"{type(error).__name__}: {error}" if error is not None else "an unknown fault"
        super().panic(
            Text(
                f"ptxview: the interface failed ({what}). The recording is untouched; "
                "PTXVIEW_TRACEBACK=1 shows where it happened, for a report."
            )
        )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """A fault in a thread that no pane has caught is told, and the application goes on."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.notify(
                f"{type(error).__name__}: {error}", title="A fault of ptxview's",
                severity="error", markup=False,
            )  # fmt: skip


def run_tui(reads: Reads) -> None:
    """Show a recording until the user leaves."""
    PtxviewApp(reads).run()
