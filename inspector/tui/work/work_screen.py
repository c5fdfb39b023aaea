"""Screens over one variant that show a text while a thread works: its time, and an edited stage.

A child process that launches or compiles ends when the user stops it or leaves. Timing asks first
where the recording is not the user's own; trying launches nothing and changes no recording.
"""

import textwrap
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from math import prod
from time import monotonic
from typing import ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.widgets import Static

from inspector.base.model import Stage
from inspector.base.units import kibibytes, plural
from inspector.estimate.timeline import Timeline
from inspector.measure.experiment import Experiment, experiment_of
from inspector.measure.time import take
from inspector.measure.time.planning import Plan, PlannedLaunch, ReplayableCall, inputs, plan
from inspector.measure.time.results import CACHES, COLD, ESTIMATE, HOT, Session, parts
from inspector.measure.time.take import ESTIMATE_REMEDY, BenchmarkOptions, PreparedTiming
from inspector.reader.reader import Reader
from inspector.recording.layout import record_file, user_derived_cache
from inspector.render import compiled as report
from inspector.render import timings
from inspector.sources.trying import TryRequest, try_stage
from inspector.system.printing import page
from inspector.tui.keys.command_table import BARE, KeyContext, bindings, bindings_of
from inspector.tui.widgets.notice import Notice, attempt, following, in_thread, label, shorten
from inspector.tui.widgets.subject import RecordingTimes, TreeSubject, age
from inspector.tui.widgets.tool_screen import SubjectBar, ToolScreen

Part = tuple[str, str] | Content
HEAD = "bold $primary"
QUIET = "$quiet"
WARN = "bold $warning"
MAX_PAST = 12


def wrapped(text: str, width: int, style: str = "", indent: str = "  ") -> Iterator[Part]:
    for line in textwrap.wrap(label(text), max(20, width - len(indent))):
        yield f"{indent}{line}\n", style


def launches(plan: Plan, calls: Sequence[ReplayableCall], width: int) -> Iterator[Part]:
    if plan.launches:
        yield f"{plural(len(plan.launches), 'launch')} to time\n", HEAD
    for launch in plan.launches:
        yield from _launch(launch, width)
    if calls:
        yield f"{plural(len(calls), 'call')} to make again\n", HEAD
    for recorded in calls:
        call_text = f"{recorded.call.kind} {recorded.call.name}: {inputs(recorded.call.arguments)}"
        yield f"  {shorten(label(call_text), width - 4)}\n", "bold"
        yield f"    made {_often(recorded.call.count)} in the run\n", QUIET
    for remark in plan.left_out:
        yield from wrapped(f"left out: {remark}", width, QUIET)


def _launch(launch: PlannedLaunch, width: int) -> Iterator[Part]:
    call = launch.call
    yield f"  {shorten(label(inputs(call.arguments) or 'no tensors'), width - 4)}\n", "bold"
    shared = f"{kibibytes(call.shared_bytes)} shared" if call.shared_bytes else "no shared memory"
    parts = [
        f"grid {'×'.join(map(str, call.grid))}" if call.grid is not None else "",
        f"{plural(prod(call.block), 'thread')} a block" if call.block is not None else "",
        shared if call.shared_bytes is not None else "",
        f"launched {_often(call.count)}",
    ]
    yield from wrapped(" · ".join(part for part in parts if part), width, QUIET, "    ")


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def leave(path: str, python: str, width: int) -> Iterator[Part]:
    yield "\nRun it?\n", WARN
    yield from wrapped(
        "This runs the code of a recording that is not yours: it is not in your own "
        f"folder of recordings, but in {path}. It would run under {python}, with your rights and "
        "on your GPU. Say yes only if you trust its author.",
        width,
    )
    yield from (("\n  y", HEAD), (" run it    ", ""), ("n", HEAD), (" do not\n", ""))


def trouble(notice: Notice, width: int) -> Iterator[Part]:
    yield "\n", ""
    yield from wrapped(f"{notice.sign} {notice.message}", width, "bold $error", "")
    for line in notice.hint.splitlines():
        yield from wrapped(line, width, QUIET)


def measured(session: Session, width: int) -> Iterator[Part]:
    is_estimate = all(row.stopwatch == ESTIMATE for row in session.rows)
    yield f"\n{'Estimated' if is_estimate else 'Measured'} just now\n", HEAD
    yield from wrapped(timings.heading(session), width, QUIET)
    yield f"{table(session, width)}\n", ""
    for note in timings.footnotes(session):
        yield from wrapped(note, width, QUIET)


def past_sessions(sessions: Sequence[Session], width: int) -> Iterator[Part]:
    if sessions:
        yield "\nTaken before\n", HEAD
    for session in sessions[: -MAX_PAST - 1 : -1]:
        yield f"  {age(session.taken)}", "bold"
        yield f"  {label(str(session.device.get('name') or 'unknown device'))}\n", QUIET
        yield table(session, width), ""


def table(session: Session, width: int) -> str:
    console, written = page(width - 2, colours=False)
    console.print(timings.table(session, width - 2))
    return textwrap.indent(written(), "  ")


class WorkScreen(ToolScreen[None]):
    """Text that scrolls beneath a bar; long work runs in a thread and can be ended."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = ""

    def __init__(self, head: str, subject: TreeSubject, right: str = "") -> None:
        super().__init__()
        self.subject = subject
        self.bar = SubjectBar(head, subject.name, subject.description, right)
        self.text = Static(markup=False)
        self.scroller = VerticalScroll(self.text, can_focus=False)
        self.notice: Notice | None = None
        self.working = False
        self._stop = threading.Event()
        self._progress = ""
        self._began = 0.0

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.scroller, *self.below)

    def on_mount(self) -> None:
        self.set_interval(1.0, self.tick)
        self.begin()

    def on_unmount(self) -> None:
        self._stop.set()

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def parts(self, width: int) -> Iterator[Part]:
        """The text, at most ``width`` cells wide."""

    def show(self) -> None:
        width = max(24, self.size.width - 4)
        parts = list(self.parts(width))
        if self.notice is not None:
            parts += trouble(self.notice, width)
        self.text.update(Content.assemble(*parts))

    on_resize = show

    @property
    def settled(self) -> bool:
        return not self.working

    @property
    def home(self) -> Static:
        return self.text

    def home_of(self, context: KeyContext) -> DOMNode:
        return self

    def starts(self, action: str = "") -> threading.Event:
        self.working = True
        self._stop = threading.Event()
        self._progress = action
        self._began = monotonic()
        return self._stop

    def progress(self, text: str) -> None:
        self._progress = text
        self.call_later(self.tick)

    def tick(self) -> None:
        if self.working:
            end = "stopping …" if self._stop.is_set() else "Esc stops it"
            seconds = f"{monotonic() - self._began:.0f} s"
            self.status.say(f"◔ {seconds} · {label(self._progress)} · {end}")

    def action_back(self) -> None:
        if self.working:
            self._stop.set()
            self.tick()
        else:
            self.dismiss()

    def action_move(self, rows: int) -> None:
        self.scroller.scroll_relative(y=rows, animate=False)

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.scroller.size.height - 1))

    def action_edge(self, side: int) -> None:
        (self.scroller.scroll_home if side < 0 else self.scroller.scroll_end)(animate=False)


ESTIMATE_KEY = "e estimates the time without a GPU: it simulates the launch."


class TimingState(Enum):
    """States of the screen; the value is what the status line says."""

    LOOKING = "◔ Finding out what can be launched …"
    ASKING = "y runs it, n does not."
    RUNNING = "◔"
    IDLE = (
        "t takes the time, a by all stopwatches, c with another L2; e estimates it without a GPU."
    )


class TimingScreen(WorkScreen):
    """Begins at once where the recording is the user's own; asks first where it is not."""

    BINDINGS = bindings(KeyContext.TIMING)
    contexts: ClassVar = (KeyContext.TIMING,)

    def __init__(self, reads: Reader, subject: TreeSubject, times: RecordingTimes) -> None:
        super().__init__("time", subject)
        (self.kernel, self.variant) = subject.pair
        self.reads = reads
        self.times = times
        self.wish = BenchmarkOptions()
        self.state = TimingState.LOOKING
        self.plan: Plan | None = None
        self.session: Session | None = None
        self.past: tuple[Session, ...] = self._past()
        self.drawn: tuple[Timeline, float] | None = None
        """The timeline of a block, and the clock in hertz."""
        self._ready: PreparedTiming | None = None

    def _past(self) -> tuple[Session, ...]:
        """Stored sessions with only this variant's rows."""
        timings = [stored.timing for stored in self.times.stored.all_of(self.kernel, self.variant)]
        sessions = []
        for session in self.times.stored.sessions:
            session_parts = (part for row in session.rows for part in parts(row))
            rows = tuple(part for part in session_parts if part in timings)
            if rows:
                sessions.append(replace(session, rows=rows))
        return tuple(sessions)

    def begin(self) -> None:
        self.state = TimingState.LOOKING
        self.notice = None
        self._tell()
        variants = ((self.kernel, self.variant),)
        wish = self.wish

        def look() -> tuple[Plan | Notice, PreparedTiming | Notice, bool]:
            launch_plan = attempt(lambda: plan(variants, wish.calls))
            ready = attempt(lambda: take.prepare(self.reads, self.times.path, variants, wish))
            return launch_plan, ready, take.is_own(self.reads.recording)

        in_thread(self, look, self._looked, "timing")

    def _looked(self, answer: tuple[Plan | Notice, PreparedTiming | Notice, bool]) -> None:
        launch_plan, ready, is_own = answer
        # Where it cannot be done, why says what there is not; where it can, the plan is whole.
        if isinstance(launch_plan, Plan):
            self.plan = replace(launch_plan, left_out=())
        if isinstance(ready, Notice):
            lacks_gpu = ready.hint == ESTIMATE_REMEDY
            self.notice = replace(ready, hint=ESTIMATE_KEY) if lacks_gpu else ready
            self.state = TimingState.IDLE
        else:
            self._ready = ready
            self.plan = ready.plan
            if is_own or self.times.trusted:
                self._run()
                return
            self.state = TimingState.ASKING
        self._tell()

    def _run(self) -> None:
        assert self._ready is not None
        self.state = TimingState.RUNNING
        stop = self.starts()
        self._tell()
        ready = self._ready
        wish = self.wish
        path = self.times.path

        def measure() -> tuple[Session, str]:
            session = take.take(self.reads, path, ready, wish, self.progress, stop)
            try:
                take.store(path, session)
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                return session, f"The times are not kept: {record_file(path)}: {why}."
            return session, ""

        in_thread(self, measure, self._measured, "timing", failed=self._failed)

    def _failed(self, notice: Notice) -> None:
        self.state = TimingState.IDLE
        self.working = False
        self.notice = notice
        self._tell()

    def _measured(self, answer: tuple[Session, str]) -> None:
        self.state = TimingState.IDLE
        self.working = False
        self.past = self._past()
        self.session, problem = answer
        self.times.stored.add(self.session)
        self._tell()
        if problem:
            self.status.say(label(problem))

    def _tell(self) -> None:
        ways = "all stopwatches" if self.wish.stopwatch == "all" else self.wish.stopwatch
        self.bar.tell(right=f"{ways} · {self.wish.cache} L2")
        self.status.say(self.state.value)
        self.tick()
        self.show()

    def parts(self, width: int) -> Iterator[Part]:
        if self.plan is not None:
            calls = () if self._ready is None else self._ready.calls
            yield from launches(self.plan, calls, width)
        if self.state is TimingState.ASKING and self._ready is not None:
            yield from leave(str(self.times.path), self._ready.python, width)
        if self.state is TimingState.RUNNING:
            yield "\n◔ They run now, in a process of their own.\n", "bold"
        if self.session is not None:
            yield from measured(self.session, width)
        yield from self._timeline(width)
        yield from past_sessions(self.past, width)

    def action_take(self, stopwatch: str) -> None:
        if self.state is TimingState.ASKING:
            self.status.say("First: y runs the recording's code and libraries, n does not.")
        elif self.state is TimingState.IDLE:
            self.wish = replace(self.wish, stopwatch=stopwatch)
            self.begin()

    def action_estimate(self) -> None:
        """Simulate the most frequent launch: its time, then what one of its blocks does over it."""
        if self.working:
            return
        cache = self.wish.cache
        if cache not in (COLD, HOT):
            self.status.say("An estimate is of a cold or a hot L2: c chooses it.")
            return

        def estimate() -> Session:
            from inspector.estimate.launches import LaunchEstimates

            return LaunchEstimates(self.reads).session(self.kernel, self.variant, cache)

        self.starts("simulating the launch")
        self.tick()
        estimated = partial(self._estimated, cache)
        in_thread(self, estimate, estimated, "timing", failed=self._failed)

    def _estimated(self, cache: str, session: Session) -> None:
        stopped = self._stop.is_set()
        self.notice = None
        self.session = session
        self._drawn(None)
        if stopped or all(row.median_us is None for row in session.rows):
            return

        def simulate() -> tuple[Timeline, float]:
            from inspector.estimate.launches import LaunchEstimates

            return LaunchEstimates(self.reads).timeline(self.kernel, self.variant, cache)

        self.starts("drawing a block of it")
        self.tick()
        in_thread(self, simulate, self._drawn, "timing", failed=lambda _: self._drawn(None))

    def _drawn(self, drawn: tuple[Timeline, float] | None) -> None:
        self.working = False
        self.state = TimingState.IDLE
        self.drawn = drawn
        self._tell()

    def _timeline(self, width: int) -> Iterator[Part]:
        from inspector.estimate.rows import sass_place
        from inspector.render.block_timeline import timeline_lines

        if self.drawn is not None:
            yield "\n", ""
            place = partial(sass_place, self.reads, self.variant)
            for line in timeline_lines(*self.drawn, width, place):
                yield f"{label(line.plain)}\n", ""

    def action_cache(self) -> None:
        if self.state in (TimingState.IDLE, TimingState.ASKING):
            self.wish = replace(self.wish, cache=following(CACHES, self.wish.cache))
            self._tell()

    def action_answer(self, yes: bool) -> None:
        if self.state is not TimingState.ASKING:
            return
        if yes:
            self.times.trusted = True
            self._run()
        else:
            self.state = TimingState.IDLE
            self.notice = Notice("∅", "Not trusted, so not run.")
            self._tell()


Edit = Callable[[TreeSubject, Stage, bytes, int], bytes | None]
"""Opens a text of a stage in the user's editor, at a line; None where it was left as it was."""


class TryScreen(WorkScreen):
    """Tries a text at once; ``edit`` opens it again."""

    BINDINGS = bindings(KeyContext.TRYING)
    contexts: ClassVar = (KeyContext.TRYING,)

    def __init__(
        self, reads: Reader, subject: TreeSubject, stage: Stage, text: bytes, edit: Edit
    ) -> None:
        super().__init__("try", subject, f"edited {stage.value}")
        (self.kernel, self.variant) = subject.pair
        self.reads = reads
        self.stage = stage
        self.edited = text
        self.edit = edit
        self.file = f"{subject.key[1]}.{stage.value}"
        self.trial: Experiment | None = None

    def begin(self) -> None:
        self.trial = self.notice = None
        stop = self.starts("compiling")
        self._tell()
        recording = self.reads.recording
        stage = self.stage
        request = TryRequest(recording, self.kernel, self.variant, stage, self.edited, self.file)

        def compile_it() -> Experiment:
            outcome = try_stage(request, lambda _: None, lambda: not stop.is_set())
            return experiment_of(outcome, user_derived_cache())

        def tried(trial: Experiment | None, notice: Notice | None = None) -> None:
            self.working = False
            self.trial = trial
            self.notice = notice
            self._tell()

        in_thread(self, compile_it, tried, "trying", failed=lambda notice: tried(None, notice))

    def _tell(self) -> None:
        failed = self.trial is not None and self.trial.outcome.failed
        place, shows = (
            (", at the first error", "") if failed else ("", "Enter shows the difference, ")
        )
        self.status.say(f"{shows}E opens your text again{place}.")
        self.tick()
        self.show()

    def parts(self, width: int) -> Iterator[Part]:
        trial = self.trial
        if trial is None:
            yield ("\n◔ It is compiled …\n" if self.working else ""), "bold"
            return
        for n, line in enumerate(report.trial_table(trial, width)):
            yield f"{label(line.plain)}\n", HEAD if n == 0 else ""
        yield "\n", ""
        for line in report.messages([attempted.compilation for attempted in trial.tried]):
            if line.plain.startswith("    "):
                yield f"{label(line.plain)}\n", QUIET
            else:
                yield from wrapped(line.plain, width, "bold", "")
        for sentence in report.trial_sentences(trial):
            yield from wrapped(sentence, width, QUIET)

    def action_compare(self) -> None:
        from inspector.tui.diff.diff_screen import DiffScreen

        trial = self.trial
        tried = trial.tried[0].variant if trial is not None and trial.tried else None
        if trial is None or tried is None:
            self.status.say("There is nothing to compare: it has not compiled.")
            return
        a = TreeSubject(trial.kernel, trial.base.variant)
        b = TreeSubject(trial.kernel, tried)
        stage = Stage.SASS if self.stage is Stage.PTX else Stage.PTX
        self.app.push_screen(DiffScreen(trial.reader, a, b, stage, fixed=True))

    def action_edit(self) -> None:
        if self.working:
            self.status.say("It is still under way: Esc stops it.")
            return
        error = None if self.trial is None else report.first_error(self.trial, self.file)
        text = self.edit(self.subject, self.stage, self.edited, (error and error.line) or 1)
        if text is None:
            self.status.say("The text is as it was.")
            return
        self.edited = text
        self.begin()
