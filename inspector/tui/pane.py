"""One pane: a stage of a subject, read in a thread, under its title."""

from __future__ import annotations

import re

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from inspector.model import Stage
from inspector.tui.code_view import CodeView
from inspector.tui.notice import Notice
from inspector.tui.outcome import Outcome, Request, attempt, load
from inspector.tui.pane_title import PaneTitle
from inspector.tui.reads import Reads
from inspector.tui.subject import Subject

PATIENCE = 0.12
"""Seconds for which the text before stays: most stages come sooner, and flicker tires the eye."""


def _waiting(request: Request) -> str:
    variant = request.subject.variant
    file = None if variant is None else variant.stages.get(request.stage)
    if file is not None and file.costly:
        return f"The compiler is making {request.stage} …"
    return f"Reading {request.stage} …"


class Pane(Vertical):
    """Shows what it was last asked for; never more than one thread reads for it."""

    class Loaded(Message):
        """A thread has answered."""

        def __init__(self, pane: Pane, outcome: Outcome) -> None:
            super().__init__()
            self.pane = pane
            self.outcome = outcome

    class Shown(Message):
        """Another listing, or a notice, stands in the pane."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    class Found(Message):
        """A thread has searched; ``lines`` have the pattern, or a notice says why not."""

        def __init__(self, pane: Pane, pattern: re.Pattern[str], lines: object) -> None:
            super().__init__()
            self.pane = pane
            self.pattern = pattern
            self.lines = lines

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self.reads = reads
        self.title_line = PaneTitle()
        self.view = CodeView()
        self.request: Request | None = None
        self.preferred: Stage | None = None
        self._reading: Request | None = None
        self._shown: Request | None = None

    def compose(self) -> ComposeResult:
        """A title and the text."""
        yield self.title_line
        yield self.view

    @property
    def settled(self) -> bool:
        """Whether what was asked for is what is shown."""
        return self._shown == self.request

    @property
    def stage(self) -> Stage | None:
        """The stage that was asked for."""
        return None if self.request is None else self.request.stage

    def show(self, subject: Subject, stage: Stage) -> None:
        """Show a stage of a subject as soon as it is read."""
        request = Request(subject, stage)
        if request == self.request:
            return
        self.request = request
        self.title_line.show(subject, stage, busy=False)
        if self._reading is None:
            self._start(request)

    def _start(self, request: Request) -> None:
        self._reading = request
        self.set_timer(PATIENCE, lambda: self._wait(request))
        self._load(request)

    def _wait(self, request: Request) -> None:
        if self._reading == request and self.request is not None and not self.settled:
            self.title_line.show(self.request.subject, self.request.stage, busy=True)
            self.view.show_notice(Notice("◔", _waiting(self.request)))

    @work(thread=True, exclusive=True, group="load", exit_on_error=False)
    def _load(self, request: Request) -> None:
        self.post_message(self.Loaded(self, load(self.reads, request)))

    @on(Loaded)
    def _loaded(self, message: Loaded) -> None:
        message.stop()
        self._reading = None
        outcome = message.outcome
        if outcome.request != self.request:  # another choice was made meanwhile
            if self.request is not None:
                self._start(self.request)
            return
        self._shown = outcome.request
        self.title_line.show(outcome.request.subject, outcome.request.stage, busy=False)
        if outcome.source is not None:
            self.view.show(outcome.source, outcome.width, outcome.top, outcome.at)
            if self.view.pattern is not None:
                self.search(self.view.pattern)
        else:
            self.view.show_notice(outcome.notice or Notice("✗", "Nothing came of it."))
        self.post_message(self.Shown(self))

    # Searching

    @work(thread=True, exclusive=True, group="search", exit_on_error=False)
    def search(self, pattern: re.Pattern[str]) -> None:
        """Find the lines that have ``pattern``."""
        source = self.view.source
        if source is None:
            return
        found = attempt(
            lambda: tuple(
                n for n in range(1, len(source.texts) + 1) if pattern.search(source.text(n))
            )
        )
        self.post_message(self.Found(self, pattern, found))
