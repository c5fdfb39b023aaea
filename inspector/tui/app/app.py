"""The application: themes, the command palette, the screen. What happens is the widgets' affair."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rich.console import RenderableType
from rich.text import Text
from textual import events, work
from textual.app import App
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from inspector import printing
from inspector.recording.layout import DerivedCache, user_cache
from inspector.text import lines_shown, shown
from inspector.tui.app.config import Config, read_config
from inspector.tui.app.opening import Opener, Opening, load
from inspector.tui.app.remembered import Memory
from inspector.tui.app.thin_line import Sent
from inspector.tui.keys.places import config_path, memory_path
from inspector.tui.program.live import Choice, Live, ending
from inspector.tui.tree.kept_tree import TreeKeeper
from inspector.tui.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    # Imported where they are used: the first frame does not wait for them.

    from inspector.reader.reader import Reader
    from inspector.tui.find.ranking import Entry
    from inspector.tui.main.main_screen import MainScreen
    from inspector.tui.tree.kept_tree import KeptTree
    from inspector.tui.widgets.notice import Notice


# How often Python looks for garbage while the interface stands.
#
# A full collection goes through every object there is and holds the interpreter meanwhile: a
# quarter of a second where two listings of 20,000 lines are compared, whichever thread does it,
# and the keys wait. What listings are made of holds no cycles, and is kept anyway; what screens
# leave behind is found by the collections of what is young.


YOUNG, MIDDLE, OLD = 10_000, 10, 1_000
"""Objects until the young are looked through, and how often that is until the older ones are."""


def spare() -> None:
    """Look through the young alone, as good as always."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


# -- an application whose recording grows ---------------------------------------------------------
# An application whose recording grows while it is looked at, and that is left with care.

GLANCE = 0.1
"""Seconds between two looks at the program, its output and whether it wants the terminal."""

LOOK = 0.5
"""Seconds between two looks at the recording, which are a thread's affair."""


class Growing(App[None]):
    """Looks at what ``live`` tells; without it, an application like any other."""

    reads: Reader | None

    class Grown(Message):
        """A thread has read the recording again: a reader, or why there is none."""

        def __init__(self, answer: Reader | Notice | None) -> None:
            super().__init__()
            self.found = answer

    def __init__(
        self,
        live: Live | None,
        css_path: Path | None = None,
        ansi_color: bool | None = None,
    ) -> None:
        super().__init__(css_path=css_path, ansi_color=ansi_color)
        self.live = live
        self._waiting: Reader | None = None
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
        while live.news:
            title, text, bad = live.news.pop(0)
            self.notify(text, title=title, severity="error" if bad else "information", timeout=12)
        if self._waiting is not None and self.screen is main:
            waiting, self._waiting = self._waiting, None
            await self.show(waiting)

    @work(thread=True, exclusive=True, group="look", exit_on_error=False, description="look")
    def _look(self) -> None:
        from inspector.tui.panes.listing_outcome import attempt

        live = self.live
        if live is not None and self.made is not None and not live.looking.locked():
            with live.looking:
                self.post_message(self.Grown(attempt(live.look)))

    async def on_growing_grown(self, message: Grown) -> None:
        """Show what is new."""
        from inspector.tui.widgets.notice import Notice

        if isinstance(message.found, Notice):
            self.notify(message.found.message, severity="warning", markup=False)
        elif message.found is not None:
            await self.show(message.found)

    async def show(self, reads: Reader) -> None:
        """The recording as it is now, with the cursors where they were."""
        main, live, recording = self.main, self.live, reads.recording
        if main is None:
            return
        status = recording.exit_status
        if live is not None and live.send is None and not live.said and status is not None:
            # A program of somebody else's has ended before one's eyes.
            live.said = ending(status, recording.seconds)
        if not main.empty or (not reads.recording.kernels and not reads.recording.graphs):
            self.reads = reads
            if main.empty:
                main.tell_empty(reads)
            else:
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
        from inspector.tui.program.leaving import Leaving

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
            self.notify("Only a program that `ptxview run` has started has output to show.",
                        markup=False)  # fmt: skip
            return
        view = main.output
        # Where there is nothing else to see, it is not hidden.
        view.display = main.empty or not (view.display and view.has_focus)
        if view.display:
            view.focus()
            view.chosen = True
        else:
            main.focus_first()


# -- another reader of the same recording ---------------------------------------------------------
# The screens on a new reader of the same recording.


@runtime_checkable
class Renewed(Protocol):
    """A screen over the main one that shows what a recording holds."""

    def renew(self, reads: Reader) -> None:
        """Show what the recording has by now."""


def renew(main: MainScreen, reads: Reader) -> None:
    """The main screen on a new reader of the same recording; nothing that is read moves."""
    from inspector.tui.widgets.subject import TreeSubject, resolve

    recording = reads.recording
    main.reads, main.recording = reads, recording
    main.title_bar.recording = recording
    main.title_bar.refresh()
    # It may have been packed into a file when it was complete.
    main.times.path = Path(recording.path)
    panes = main.panes
    panes.reads = main.understanding.reads = reads
    before = panes.subject
    panes.subject = resolve(recording, before)
    panes.forget_links()
    for pane in panes.panes:
        shown = pane.request
        pane.renew(reads, resolve(recording, shown.subject) if shown else TreeSubject())
    if panes.subject != before:
        panes.renew(panes.subject)
    main.card.renew(reads, before, panes.subject)
    main.kernels.renew(reads)
    main.marked = tuple(resolve(recording, one) for one in main.marked)
    main.kernels.mark(tuple(one.key[:2] for one in main.marked))
    main.read_times()
    for screen in main.app.screen_stack:
        if screen is not main and isinstance(screen, Renewed):
            screen.renew(reads)


STYLES = Path(__file__).parent / "styles.tcss"

FIRST = (
    "Enter reads the kernel under the cursor, Tab goes from pane to pane, 1 to 7 choose a stage, "
    "/ searches, ^p finds anything by its name, ? shows the keys."
)
"""For who has never left the interface before."""


def _light_terminal() -> bool:
    """Whether the terminal says, by COLORFGBG as rxvt and Konsole do, that its ground is light."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


class PtxviewApp(Growing):
    """Reads one recording."""

    class Opened(Message):
        """A thread has read what there was to open."""

        def __init__(self, reads: Reader, live: Live | None) -> None:
            super().__init__()
            self.reads = reads
            self.live = live

    TITLE = "ptxview"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        reads: Reader | None,
        config: Config | None = None,
        memory: Memory | None = None,
        live: Live | None = None,
        opener: Opener | None = None,
        name: str = "",
        keeper: TreeKeeper | None = None,
    ) -> None:
        """``config`` is what the user has set, ``memory`` what he did before, ``live`` what grows.

        None: no such thing. Without ``reads``, a thread asks ``opener`` for it, and for what
        grows; ``name`` is what it reads, and ``fault`` why it could not. ``keeper`` has the rows
        that stand until then.
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
        self.keeper = keeper
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
        if self.reads is not None:
            return self._main_screen(self.reads)
        keeper = self.keeper
        if keeper is None or keeper.tree is None:
            return Opening(self.opens)
        view = None if self.memory is None else self.memory.view(str(keeper.path))
        return Opening(self.opens, keeper.tree, view)

    def _main_screen(self, reads: Reader) -> MainScreen:
        from inspector.tui.main.main_screen import MainScreen

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
        stood = self.screen
        await self.push_screen(self._main_screen(message.reads))
        if not followed:
            self.follow()
        if isinstance(stood, Opening):
            for key in stood.keys:
                self.post_message(events.Key(key.key, key.character))
        self.call_after_refresh(self._keep_tree)

    def _keep_tree(self) -> None:
        """Have the rows of the tree kept for the next first frame."""
        if self.keeper is not None and self.main is not None and not self.main.empty:
            self._keep(self.keeper, self.main.kept_tree())

    @work(thread=True, exit_on_error=False, description="keep")
    def _keep(self, keeper: TreeKeeper, tree: KeptTree) -> None:
        keeper.keep(tree)

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
        """All keys, those of where one is first."""
        from inspector.tui.find.finder import Finder
        from inspector.tui.find.help import help_entries

        if self.reads is not None:
            screen, problems = self.screen, self.config.problems
            entries = help_entries(screen, self.reads.recording, self.keys, problems)
            shown = Finder(
                "Help", entries, "type to search", lead=7, closes="?", nearest=True, does="runs it"
            )
            self.push_screen(shown, self._run)

    def action_find(self) -> None:
        """Whatever has a name: commands, kernels, variants, stages, labels, hints."""
        from inspector.tui.find.palette import palette

        main = self.main if self.screen is self.main else None
        self.push_screen(palette(self.screen, main, self.keys), self._run)

    def _run(self, chosen: Entry | None) -> None:
        if chosen is not None and chosen.run is not None:
            self.call_later(chosen.run)  # once the list is gone

    def action_problems(self) -> None:
        """What went wrong."""
        from inspector.tui.find.help import problems_text
        from inspector.tui.main.title_bar import banner
        from inspector.tui.widgets.overlay import Overlay

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
                f"{type(error).__name__}: {error}", title="A bug in ptxview",
                severity="error", markup=False,
            )  # fmt: skip


def run_tui(opener: Opener, name: str, live: Live | None = None, path: Path | None = None) -> None:
    """Show what ``opener`` gives until the user leaves, or until a program needs the terminal.

    ``path`` is where that lies, if it does. Raises what ``opener`` raises.
    """
    spare()
    keeper = None if path is None else TreeKeeper(DerivedCache(user_cache()), path)
    app = PtxviewApp(
        None, read_config(config_path()), Memory(memory_path()), live, opener, name, keeper
    )
    app.run()
    if app.fault is not None:
        raise app.fault
