"""An application whose recording grows while it is looked at, and that is left with care."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.app import App
from textual.message import Message

from inspector.tui.live import Choice, Live

if TYPE_CHECKING:
    # The first frame needs none of these.
    from inspector.tui.main_screen import MainScreen
    from inspector.tui.notice import Notice
    from inspector.tui.reads import Reads

GLANCE = 0.1
"""Seconds between two looks at the program, its output and whether it wants the terminal."""

LOOK = 0.5
"""Seconds between two looks at the recording, which are a thread's affair."""


class Growing(App[None]):
    """Looks at what ``live`` tells; without it, an application like any other."""

    reads: Reads | None

    class Grown(Message):
        """A thread has read the recording again: a reader, or why there is none."""

        def __init__(self, found: Reads | Notice | None) -> None:
            super().__init__()
            self.found = found

    def __init__(
        self,
        live: Live | None,
        css_path: Path | None = None,
        ansi_color: bool | None = None,
    ) -> None:
        super().__init__(css_path=css_path, ansi_color=ansi_color)
        self.live = live
        self._waiting: Reads | None = None
        self._last = ""
        self.made: MainScreen | None = None
        """The main screen, which whoever makes it puts here."""

    @property
    def main(self) -> MainScreen | None:
        """The screen that lies under everything, once it is there."""
        stack = [s for s in self.screen_stack if s is self.made] if self._running else []
        return self.made if stack else None

    def remember(self) -> None:
        """Keep how the recording was looked at."""
        raise NotImplementedError

    def follow(self) -> None:
        """Begin to look, if there is anything to look at."""
        if self.live is not None:
            self.set_interval(GLANCE, self._glance)
            self.set_interval(LOOK, self._look)

    async def _glance(self) -> None:
        live, main = self.live, self.main
        if live is not None and live.choice is Choice.TERMINAL:
            self.leave()
            return
        if live is None or main is None:
            return
        if main.output is not None:
            main.output.look()
        if live.told != self._last:
            self._last = main.title_bar.told = live.told
            main.title_bar.refresh()
        if self._waiting is not None and self.screen is main:
            waiting, self._waiting = self._waiting, None
            await self.show(waiting)

    @work(thread=True, exclusive=True, group="look", exit_on_error=False, description="look")
    def _look(self) -> None:
        from inspector.tui.outcome import attempt

        live = self.live
        if live is not None and self.made is not None and not live.looking.locked():
            with live.looking:
                self.post_message(self.Grown(attempt(live.look)))

    async def on_growing_grown(self, message: Grown) -> None:
        """Show what is new."""
        from inspector.tui.notice import Notice

        if isinstance(message.found, Notice):
            self.notify(message.found.message, severity="warning", markup=False)
        elif message.found is not None:
            await self.show(message.found)

    async def show(self, reads: Reads) -> None:
        """The recording as it is now, with the cursors where they were."""
        main = self.main
        if main is None:
            return
        if not main.empty or (not reads.recording.kernels and not reads.recording.graphs):
            self.reads = reads
            if main.empty and (self.live is None or not self.live.running):
                await main.fill(reads)  # it says how the program ended, and what to do
            elif main.empty:
                main.title_bar.recording = reads.recording
                main.title_bar.refresh()
            else:
                from inspector.tui.renewing import renew

                renew(main, reads)
        elif self.screen is not main:
            self._waiting = reads  # what lies over it, such as the help, is read first
        else:
            self.reads = reads
            await main.fill(reads)

    def leave(self) -> None:
        """Leave, and remember."""
        self.remember()
        self.exit()

    async def action_quit(self) -> None:
        """Leave; of a program that still runs it is asked what becomes of it."""
        from inspector.tui.leaving import Leaving

        if self.live is None or not self.live.running:
            self.leave()
        elif not isinstance(self.screen, Leaving):
            self.push_screen(Leaving(), self._left)

    def _left(self, choice: Choice | None) -> None:
        live = self.live
        if live is None or choice in (None, Choice.STAY):
            return
        if live.choice is Choice.STAY:
            live.choice = choice or Choice.STAY
        if choice is Choice.END:
            live.end()
        self.leave()

    def action_output(self) -> None:
        """Show the output of the program and go there, or hide it."""
        main = self.main
        if main is None or main.output is None:
            self.notify("Output is shown of a program that `ptxview run` has started.",
                        markup=False)  # fmt: skip
            return
        view = main.output
        view.display = not (view.display and view.has_focus)
        if view.display:
            view.focus()
        else:
            main.focus_first()
