"""Base of text screens for one variant whose work runs in a thread."""

from __future__ import annotations

import threading
from time import monotonic

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.widgets import Static

from inspector.tui.keys.command_table import BARE, Where, bindings_of
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.subject_bar import SubjectBar
from inspector.tui.widgets.tool_screen import ToolScreen
from inspector.tui.widgets.visible import label


class WorkScreen(ToolScreen[None]):
    """Text that scrolls beneath a bar; long work runs in a thread and can be ended."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = ""

    def __init__(self, head: str, subject: TreeSubject, right: str = "") -> None:
        super().__init__()
        self.subject = subject
        self.bar = SubjectBar(head, subject.name, subject.key[1], right)
        self.text = Static(markup=False)
        self.scroller = VerticalScroll(self.text, can_focus=False)
        self._stop = threading.Event()
        self._progress, self._began = "", 0.0

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        yield self.scroller
        yield self.status
        yield self.footer

    def on_mount(self) -> None:
        """Begin."""
        self.set_interval(1.0, self.tick)
        self.begin()

    def on_resize(self) -> None:
        """Lay the text out for another width."""
        self.show()

    def on_unmount(self) -> None:
        """End what runs: nobody waits for it."""
        self._stop.set()

    def begin(self) -> None:
        """Start the work."""
        raise NotImplementedError

    def show(self) -> None:
        """Lay out the text."""
        raise NotImplementedError

    @property
    def home(self) -> Static:
        """The widget that has the focus when nobody types."""
        return self.text

    def home_of(self, where: Where) -> DOMNode:
        """Return the node that has the actions of a part of the table."""
        return self

    @property
    def working(self) -> bool:
        """Whether a thread runs that the user may end."""
        raise NotImplementedError

    def starts(self, what: str = "") -> threading.Event:
        """Begin something that can be ended: the event is set when it should end."""
        self._stop, self._progress, self._began = threading.Event(), what, monotonic()
        return self._stop

    def progress(self, text: str) -> None:
        """Say how far a thread is; called in that thread."""
        self.call_later(self._went, text)

    def _went(self, text: str) -> None:
        self._progress = text
        self.tick()

    def tick(self) -> None:
        """Say how long it runs."""
        if self.working:
            end = "stopping …" if self._stop.is_set() else "Esc stops it"
            seconds = f"{monotonic() - self._began:.0f} s"
            self.status.say(f"◔ {seconds} · {label(self._progress)} · {end}")

    # Commands

    def action_back(self) -> None:
        """End what runs, else close."""
        if self.working:
            self._stop.set()
            self.tick()
        else:
            self.dismiss()

    def action_move(self, rows: int) -> None:
        """Scroll by lines."""
        self.scroller.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_move(pages * max(1, self.scroller.size.height - 1))

    def action_edge(self, side: int) -> None:
        """Scroll to the top or the end."""
        (self.scroller.scroll_home if side < 0 else self.scroller.scroll_end)(animate=False)
