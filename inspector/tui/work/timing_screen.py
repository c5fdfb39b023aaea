"""Timing of a variant: the launches, the question of trust, new and earlier times.

Everything that waits is done in threads; the child process that runs the launches ends when the
user stops it or leaves.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import ClassVar

from textual.content import Content

from inspector.measure.time import take
from inspector.measure.time.planning import Plan, plan
from inspector.measure.time.results import CACHES, Session, parts
from inspector.measure.time.take import Ready, TimeWish
from inspector.reader.reader import Reader
from inspector.recording.layout import place
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import attempt, in_thread
from inspector.tui.widgets.visible import label
from inspector.tui.work import timing_text
from inspector.tui.work.work_screen import WorkScreen


class TimingState(Enum):
    """States of the screen."""

    LOOKING = "looking"
    ASKING = "asking"
    RUNNING = "running"
    IDLE = "idle"


class TimingScreen(WorkScreen):
    """Begins at once where the recording is the user's own; asks first where it is not."""

    BINDINGS = bindings(Where.TIMING)
    wheres: ClassVar = (Where.TIMING,)

    def __init__(self, reads: Reader, subject: TreeSubject, times: RecordingTimes) -> None:
        super().__init__("time", subject)
        self.reads, self.times = reads, times
        self.wish = TimeWish()
        self.state = TimingState.LOOKING
        self.what: Plan | None = None
        self.notice: Notice | None = None
        self.session: Session | None = None
        self.past: tuple[Session, ...] = self._past()
        self._ready: Ready | None = None

    @property
    def working(self) -> bool:
        """Whether launches run."""
        return self.state is TimingState.RUNNING

    @property
    def settled(self) -> bool:
        """Whether nothing is under way."""
        return self.state in (TimingState.IDLE, TimingState.ASKING)

    def _past(self) -> tuple[Session, ...]:
        """The sessions that have times of this variant, with those alone."""
        kernel, variant = self.subject.kernel, self.subject.variant
        if kernel is None or variant is None:
            return ()
        own = [one.timing for one in self.times.stored.every(kernel, variant)]
        kept = (
            replace(s, rows=tuple(t for row in s.rows for t in parts(row) if t in own))
            for s in self.times.stored.sessions
        )
        return tuple(session for session in kept if session.rows)

    # What goes on

    def begin(self) -> None:
        kernel, variant = self.subject.kernel, self.subject.variant
        assert kernel is not None and variant is not None
        self.state, self.notice = TimingState.LOOKING, None
        self._tell()
        found, wish = ((kernel, variant),), self.wish

        def look() -> tuple[Plan | Notice, Ready | Notice, bool]:
            what = attempt(lambda: plan(found, wish.calls))
            ready = attempt(lambda: take.ready(self.reads, self.times.path, found, wish))
            return what, ready, take.own(self.reads.recording)

        in_thread(self, look, self._looked, "timing")

    def _looked(self, answer: tuple[Plan | Notice, Ready | Notice, bool] | Notice) -> None:
        what, ready, own = (answer, answer, False) if isinstance(answer, Notice) else answer
        # Where it cannot be done, why says what there is not; where it can, the plan is whole.
        if isinstance(what, Plan):
            self.what = replace(what, left_out=())
        if isinstance(ready, Notice):
            self.notice, self.state = ready, TimingState.IDLE
        else:
            self._ready, self.what = ready, ready.plan
            if own or self.times.trusted:
                self._run()
                return
            self.state = TimingState.ASKING
        self._tell()

    def _run(self) -> None:
        assert self._ready is not None
        self.state = TimingState.RUNNING
        stop = self.starts()
        self._tell()
        ready, wish, path = self._ready, self.wish, self.times.path

        def measure() -> tuple[Session, str]:
            session = take.take(self.reads, path, ready, wish, self.progress, stop)
            try:
                take.store(path, session)
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else None
                return session, f"The times are not kept: {place(path)}: {why or error}."
            return session, ""

        in_thread(self, measure, self._measured, "timing")

    def _measured(self, answer: tuple[Session, str] | Notice) -> None:
        self.state = TimingState.IDLE
        problem = ""
        if isinstance(answer, Notice):
            self.notice = answer
        else:
            self.past = self._past()
            self.session, problem = answer
            self.times.stored.add(self.session)
        self._tell()
        if problem:
            self.status.say(label(problem))

    # Text

    def _tell(self) -> None:
        ways = "all stopwatches" if self.wish.stopwatch == "all" else self.wish.stopwatch
        self.bar.tell(f"{ways} · {self.wish.cache} L2")
        says = {
            TimingState.LOOKING: "◔ Finding out what can be launched …",
            TimingState.ASKING: "y runs it, n does not.",
            TimingState.IDLE: "t takes the time, a by all stopwatches, c with another state of "
            "the L2.",
        }
        if self.state is TimingState.RUNNING:
            self.tick()
        else:
            self.status.say(says[self.state])
        self.show()

    def show(self) -> None:
        width = max(24, self.size.width - 4)
        parts: list[timing_text.Part] = []
        if self.what is not None:
            calls = () if self._ready is None else self._ready.calls
            parts += timing_text.launches(self.what, calls, width)
        if self.state is TimingState.ASKING and self._ready is not None:
            parts += timing_text.leave(str(self.times.path), self._ready.python, width)
        if self.state is TimingState.RUNNING:
            parts.append(("\n◔ They run now, in a process of their own.\n", "bold"))
        if self.notice is not None:
            parts += timing_text.trouble(self.notice, width)
        if self.session is not None:
            parts += timing_text.measured(self.session, width)
        parts += timing_text.before(self.past, width)
        self.text.update(Content.assemble(*parts))

    # Commands

    def action_take(self, stopwatch: str) -> None:
        """Take the time, by one stopwatch or all."""
        if self.state is TimingState.ASKING:
            self.status.say("First: y runs the recording's code and libraries, n does not.")
        elif self.state is TimingState.IDLE:
            self.wish = replace(self.wish, stopwatch=stopwatch)
            self.begin()

    def action_cache(self) -> None:
        """The next state of the L2, for the next time."""
        if self.state in (TimingState.IDLE, TimingState.ASKING):
            at = CACHES.index(self.wish.cache)
            self.wish = replace(self.wish, cache=CACHES[(at + 1) % len(CACHES)])
            self._tell()

    def action_answer(self, yes: bool) -> None:
        """Whether the recording's code may be run, until the interface is left."""
        if self.state is not TimingState.ASKING:
            return
        if yes:
            self.times.trusted = True
            self._run()
        else:
            self.state = TimingState.IDLE
            self.notice = Notice("∅", "Not trusted, so not run.")
            self._tell()
