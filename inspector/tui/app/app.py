"""The application: themes, growing recordings, and screens above all others."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text
from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen

from inspector.base.escapes import lines_shown, shown
from inspector.reader.reader import Reader
from inspector.system import printing
from inspector.tui.main.bars import banner
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.main.settings import Config, Memory, config_path, memory_path, read_config
from inspector.tui.program.live import Choice, Live, Opener, ending
from inspector.tui.widgets.notice import in_thread
from inspector.tui.widgets.theme import DARK, LIGHT
from inspector.tui.widgets.tool_screen import AnswersKeys

if TYPE_CHECKING:
    from inspector.tui.find.finder import Entry


GC_THRESHOLDS = 10_000, 10, 1_000
"""Objects until the youngest are collected; collections of a generation until the next.

A full collection takes a quarter of a second where two listings of 20,000 lines are compared, and
keys wait for it. Listings hold no cycles and live long.
"""

GLANCE_SECONDS = 0.1
"""Between two looks at the program, its output and whether it wants the terminal."""

LOOK_SECONDS = 0.5

READING_SECONDS = 0.5


class PtxviewApp(App[None]):
    """Shows one recording, and follows it while it grows."""

    TITLE = "ptxview"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "styles.tcss"

    def __init__(
        self,
        reads: Reader,
        config: Config | None = None,
        memory: Memory | None = None,
        live: Live | None = None,
        begins_with_overview: bool = False,
    ) -> None:
        """``memory`` is what was looked at before; ``live`` makes the recording grow.

        With ``begins_with_overview`` the first screen is what the recording holds at a glance.
        """
        # With NO_COLOR Textual turns colours to greys; with the terminal's own colours it leaves
        # them out altogether, which is what the user asked for.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        # An error is printed like everything else once the interface is gone.
        self.error_console = printing.err()
        self.reads = reads
        self.live = live
        self.memory = memory
        self.config = config or Config()
        self.keys = self.config.keys
        self._last_told = ""
        self.main = MainScreen(reads, live, begins_with_overview)
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = (LIGHT if self._light() else DARK).name

    def get_default_screen(self) -> Screen[None]:
        return self.main

    def _light(self) -> bool:
        theme = self.config.theme
        if theme == "auto" and self.memory is not None:
            theme = self.memory.theme or theme
        # COLORFGBG is how rxvt and Konsole tell the ground's colour.
        light = os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")
        return light if theme == "auto" else theme == "light"

    def on_mount(self) -> None:
        self.set_keymap(dict(self.keys))
        if warning := self.config.warning:
            self.notify(warning, title=str(config_path()), severity="warning", timeout=15)
        if self.live is not None:
            self.set_interval(GLANCE_SECONDS, self._glance)
            self.set_interval(LOOK_SECONDS, self._look)

    def _glance(self) -> None:
        live = self.live
        main = self.main
        assert live is not None
        if live.choice is Choice.TERMINAL:
            self.leave()
            return
        if main.output is not None:
            main.output.look()
        if live.state_text != self._last_told:
            self._last_told = live.state_text
            main.title_bar.tell(program_state=live.state_text)
        while live.news:
            title, text, bad = live.news.pop(0)
            self.notify(text, title=title, severity="error" if bad else "information", timeout=12)

    def _look(self) -> None:
        # A look may take longer than the time to the next.
        if self.live is not None and not any(w.group == "look" for w in self.workers):
            in_thread(
                self,
                self.live.look,
                self._grown,
                "look",
                failed=lambda notice: self.notify(notice.message, severity="warning"),
            )

    async def _grown(self, reads: Reader | None) -> None:
        if reads is None:
            return
        main = self.main
        live = self.live
        recording = reads.recording
        if live is not None and live.send is None and not live.idle_text:
            status = recording.exit_status
            live.idle_text = "" if status is None else ending(status, recording.seconds)
        self.reads = reads
        if main.empty and (recording.kernels or recording.graphs):
            await main.fill(reads)
            return
        if recording.complete and self.screen is main:
            main.show_overview_once()
        for screen in self.screen_stack:
            if (renew := getattr(screen, "renew", None)) is not None:
                renew(reads)

    def leave(self) -> None:
        if self.memory is not None:
            self.memory.keep(self.reads.recording.path, self.main.remembered)
        self.exit()

    async def action_quit(self) -> None:
        from inspector.tui.panes.pane_screen import QuitDialog

        if self.live is None or not self.live.running:
            self.leave()
        elif not isinstance(self.screen, QuitDialog):
            self.push_screen(QuitDialog(), self._quit_chosen)

    def _quit_chosen(self, choice: Choice | None) -> None:
        if self.live is not None and choice in (Choice.END, Choice.LEAVE):
            self.live.choice = choice
            if choice is Choice.END:
                self.live.end()
            self.leave()

    def action_output(self) -> None:
        main = self.main
        view = self.main.output
        if view is None:
            self.notify("Only a program that `ptxview run` has started has output to show.")
            return
        # Where there is nothing else to see, it is not hidden.
        view.display = main.empty or not (view.display and view.has_focus)
        if view.display:
            view.focus()
        else:
            main.focus_first()

    def action_help(self) -> None:
        from inspector.tui.find.finder import CURSOR_ROW, QUESTIONS, Finder, help_entries

        entries = help_entries(self.screen, self.reads.recording, self.keys, self.config.problems)
        opened = sum(entry.text in (CURSOR_ROW, QUESTIONS) for entry in entries)
        screen = Finder(
            "Help",
            entries,
            "type to search",
            lead=7,
            closes="?",
            nearest=True,
            open_count=opened,
        )
        screen.does = "opens, runs"
        self.push_screen(screen, self._run)

    def action_find(self, text: str = "") -> None:
        from inspector.tui.find.finder import palette

        main = self.main if self.screen is self.main else None
        finder = palette(self.screen, main, self.keys)
        finder.field.value = text
        self.push_screen(finder, self._run)

    def _run(self, entry: Entry | None) -> None:
        if entry is not None and entry.run is not None:
            self.call_later(entry.run)  # once the list is gone

    def action_problems(self) -> None:
        from inspector.tui.find.finder import problems_text
        from inspector.tui.widgets.tool_screen import Overlay

        recording = self.reads.recording
        self.push_screen(Overlay("Problems", problems_text(recording), banner(recording)))

    def action_redraw(self) -> None:
        self.screen.refresh(layout=True)

    def action_other_theme(self) -> None:
        light = self.current_theme.dark
        self.theme = LIGHT.name if light else DARK.name
        if self.memory is not None:
            self.memory.theme = "light" if light else "dark"

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        text = lines_shown(message)
        head = shown(title)
        sentence = f"{head}: {text}" if head else text
        fits = "\n" not in text and cell_len(sentence) < self.size.width - 2
        if fits and isinstance(self.screen, AnswersKeys) and self.screen.answer(sentence):
            return
        super().notify(text, title=head, severity=severity, timeout=timeout, markup=False)

    def panic(self, *renderables: RenderableType) -> None:
        cause = f"{type(self._exception).__name__}: {self._exception}"
        text = Text(
            f"ptxview: the interface failed ({cause}). The recording is untouched; "
            "PTXVIEW_TRACEBACK=1 shows where it happened, for a report."
        )
        if os.environ.get("PTXVIEW_TRACEBACK"):
            super().panic(*renderables)
        else:
            super().panic(text)


def run_tui(opener: Opener, name: str, live: Live | None = None) -> None:
    """Show what ``opener`` returns until the user leaves. Raises what ``opener`` raises."""
    gc.set_threshold(*GC_THRESHOLDS)
    waiting = threading.Timer(READING_SECONDS, printing.narrate, [f"ptxview: reading {name} …"])
    waiting.start()
    try:
        reads, grows = opener()
    finally:
        waiting.cancel()
    config = read_config(config_path())
    memory = Memory(memory_path())
    app = PtxviewApp(reads, config, memory, live or grows, begins_with_overview=True)
    app.run()
