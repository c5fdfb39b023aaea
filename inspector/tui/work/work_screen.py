"""A screen of text about one variant, while something is under way for it."""

from __future__ import annotations

import threading
from time import monotonic

from textual import on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from inspector.tui.diff.diff_bars import DiffStatus
from inspector.tui.keys.command_table import BARE, Where, bindings_of, command
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.subject_bar import SubjectBar
from inspector.tui.widgets.visible import label


class WorkScreen(Screen[None]):
    """Text that scrolls beneath a bar; what takes long runs in a thread and can be ended.

    A screen of this kind begins with ``begin``, shows what it knows with ``show``, says by
    ``settled`` whether it waits for nobody but the user, and calls ``starts`` when a thread begins.
    """

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = ""

    class Went(Message):
        """A thread says how far it is."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, bar: SubjectBar, where: Where) -> None:
        super().__init__()
        self.bar = bar
        self.text = Static(markup=False)
        self.scroller = VerticalScroll(self.text, can_focus=False)
        self.status = DiffStatus()
        self.footer = KeyFooter()
        self.footer.where = where
        self._stop = threading.Event()
        self._went, self._began = "", 0.0

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        yield self.scroller
        yield self.status
        yield self.footer

    def on_mount(self) -> None:
        """Begin."""
        self.set_interval(1.0, self._tick)
        self.begin()

    def on_resize(self) -> None:
        """Other lines fit."""
        self.show()

    def on_unmount(self) -> None:
        """Nothing goes on that nobody waits for."""
        self._stop.set()

    def begin(self) -> None:
        """What is done first."""
        raise NotImplementedError

    def show(self) -> None:
        """Lay out what is known by now."""
        raise NotImplementedError

    @property
    def working(self) -> bool:
        """Whether a thread runs that the user may end."""
        raise NotImplementedError

    def starts(self, what: str = "") -> threading.Event:
        """A thread begins: what it asks whether it has been ended."""
        self._stop, self._went, self._began = threading.Event(), what, monotonic()
        return self._stop

    @on(Went)
    def _goes(self, message: Went) -> None:
        message.stop()
        self._went = message.text
        self._tick()

    def _tick(self) -> None:
        if self.working:
            end = "stopping …" if self._stop.is_set() else "Esc stops it"
            seconds = f"{monotonic() - self._began:.0f} s"
            self.status.say(f"◔ {seconds} · {label(self._went)} · {end}")

    # Commands

    def action_back(self) -> None:
        """End what runs, else close."""
        if self.working:
            self._stop.set()
            self._tick()
        else:
            self.dismiss()

    def action_scroll(self, rows: int) -> None:
        """Up or down by lines."""
        self.scroller.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.action_scroll(pages * max(1, self.scroller.size.height - 1))

    def action_edge(self, side: int) -> None:
        """To the top or the end."""
        (self.scroller.scroll_home if side < 0 else self.scroller.scroll_end)(animate=False)

    async def action_tell_app(self, name: str) -> None:
        """Something that is the application's affair."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        await self.app.run_action(command(name).action, self)
