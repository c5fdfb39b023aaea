"""The application: themes, the command palette, the screen. What happens is the widgets' affair."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual import work
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from inspector import printing
from inspector.report.safe import lines_shown, shown
from inspector.tui.collecting import spare
from inspector.tui.config import Config, read_config
from inspector.tui.growing import Growing
from inspector.tui.live import Live
from inspector.tui.opening import Opener, Opening, load
from inspector.tui.palette import CommandProvider
from inspector.tui.places import config_path, memory_path
from inspector.tui.remembered import Memory
from inspector.tui.theme import DARK, LIGHT
from inspector.tui.thin_line import Sent

if TYPE_CHECKING:
    # What is imported when it is used is not needed for the first frame.
    from inspector.tui.main_screen import MainScreen
    from inspector.tui.reads import Reads

STYLES = Path(__file__).parent / "styles.tcss"

FIRST = (
    "Enter reads the kernel under the cursor, Tab goes from pane to pane, 1 to 7 choose a stage, "
    "/ searches, ? shows all keys."
)
"""For who has never left the interface before."""


def _light_terminal() -> bool:
    """Whether the terminal says, by COLORFGBG as rxvt and Konsole do, that its ground is light."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


class PtxviewApp(Growing):
    """Reads one recording."""

    class Opened(Message):
        """A thread has read what there was to open."""

        def __init__(self, reads: Reads, live: Live | None) -> None:
            super().__init__()
            self.reads = reads
            self.live = live

    TITLE = "ptxview"
    COMMANDS: ClassVar = {CommandProvider}
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        reads: Reads | None,
        config: Config | None = None,
        memory: Memory | None = None,
        live: Live | None = None,
        opener: Opener | None = None,
        name: str = "",
    ) -> None:
        """``config`` is what the user has set, ``memory`` what he did before, ``live`` what grows.

        None: no such thing. Without ``reads``, a thread asks ``opener`` for it, and for what
        grows; ``name`` is what it reads, and ``fault`` why it could not.
        """
        # With NO_COLOR Textual turns colours to greys; with the terminal's own colours it leaves
        # them out altogether, which is what the user asked for.
        super().__init__(
            live,
            # The main screen brings its styles: without it they would only be in the way.
            css_path=None if reads is None else STYLES,
            ansi_color=True if "NO_COLOR" in os.environ else None,
        )
        # What is said when the interface has gone is printed like everything else.
        self.error_console = printing.err()
        self.sent = Sent()
        self.reads = reads
        self.opener = opener
        self.opens = name
        self.fault: BaseException | None = None
        self.config = config or Config()
        self.memory = memory
        self.keys = self.config.keys
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = (LIGHT if self._light() else DARK).name

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, self.sent.thin(renderable))

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Lend the terminal; nobody knows what stands there afterwards."""
        try:
            with super().suspend():
                yield
        finally:
            self.sent.forget()

    def on_resize(self) -> None:
        """A terminal may move what stands on it about."""
        self.sent.forget()

    def action_redraw(self) -> None:
        """Send everything anew: something else has written on the terminal."""
        self.sent.forget()
        self.screen.refresh()

    def get_default_screen(self) -> Screen[None]:
        """The one screen, or what stands there until it has something to show."""
        return Opening(self.opens) if self.reads is None else self._main_screen(self.reads)

    def _main_screen(self, reads: Reads) -> MainScreen:
        from inspector.tui.main_screen import MainScreen

        self.made = MainScreen(reads, self.live)
        return self.made

    @work(thread=True, exit_on_error=False, description="open")
    def _open(self, opener: Opener) -> None:
        try:
            reads, live = load(opener)
        except Exception as error:  # of ours or of the recording: it ends the interface
            self.fault = error
            self.call_from_thread(self.exit)
        else:
            self.post_message(self.Opened(reads, live))

    async def on_ptxview_app_opened(self, message: Opened) -> None:
        """Show the recording; what grows is followed from now on."""
        followed = self.live is not None
        self.reads, self.live = message.reads, self.live or message.live
        await self.push_screen(self._main_screen(message.reads))
        if not followed:
            self.follow()

    def _light(self) -> bool:
        """As the configuration says, else as it was left, else as the terminal is."""
        asked = self.config.theme
        if asked == "auto":
            asked = (self.memory.theme if self.memory else None) or "auto"
        return _light_terminal() if asked == "auto" else asked == "light"

    def on_mount(self) -> None:
        """The user's keys, what is wrong with them, a word to who is here for the first time."""
        self.set_keymap(dict(self.keys))
        self.app_resume_signal.subscribe(self, lambda _: self.sent.forget())
        if warning := self.config.warning:
            self.notify(
                warning, title=str(config_path()), severity="warning", timeout=15, markup=False
            )
        if self.memory is not None and self.memory.fresh:
            self.notify(FIRST, title="Welcome to ptxview", timeout=12, markup=False)
        if self.reads is None and self.opener is not None:
            self.call_after_refresh(self._open, self.opener)
        if self.reads is not None or self.live is not None:
            self.follow()

    def remember(self) -> None:
        """Keep how the recording was looked at."""
        if self.memory is not None and self.reads is not None:
            self.memory.keep(self.reads.recording.path, self.main.view if self.main else None)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """A word in the corner. It names what strangers wrote, and so is never markup."""
        super().notify(
            lines_shown(message),
            title=shown(title),
            severity=severity,
            timeout=timeout,
            markup=False,
        )

    def action_help(self) -> None:
        """All keys."""
        from inspector.tui.help_text import help_text
        from inspector.tui.overlay import Overlay

        if self.reads is not None:
            text = help_text(self.reads.recording, self.keys)
            self.push_screen(Overlay("ptxview: keys", text))

    def action_problems(self) -> None:
        """What went wrong."""
        from inspector.tui.help_text import problems_text
        from inspector.tui.overlay import Overlay
        from inspector.tui.title_bar import banner

        if self.reads is not None:
            recording = self.reads.recording
            self.push_screen(Overlay("Problems", problems_text(recording), banner(recording)))

    def action_other_theme(self) -> None:
        """Dark or light."""
        light = self.current_theme.dark
        self.theme = LIGHT.name if light else DARK.name
        if self.memory is not None:
            self.memory.theme = "light" if light else "dark"

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


def run_tui(opener: Opener, name: str, live: Live | None = None) -> None:
    """Show what ``opener`` gives until the user leaves, or until a program needs the terminal.

    Raises what ``opener`` raises.
    """
    spare()
    app = PtxviewApp(None, read_config(config_path()), Memory(memory_path()), live, opener, name)
    app.run()
    if app.fault is not None:
        raise app.fault
