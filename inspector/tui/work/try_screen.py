"""What an edited stage makes of a kernel: figures beside the recorded ones, errors at their lines.

Compiling and the CPU's run begin at once, in a thread; nothing is launched on a GPU unless the user
asks for it, and of another's recording unless he gives leave. The recording is not touched.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from textual.content import Content

from inspector.capture import machine
from inspector.capture.trying import TryRequest, try_stage
from inspector.errors import Stopped
from inspector.measure import trial as trials
from inspector.measure.time import take
from inspector.measure.time.child import TimeWish
from inspector.measure.trial import Trial
from inspector.model import Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import kept_cache
from inspector.report import trying as report
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import attempt, in_thread
from inspector.tui.widgets.visible import label
from inspector.tui.work import timing_text
from inspector.tui.work.timing_text import HEAD, QUIET, WARN, Part, wrapped
from inspector.tui.work.work_screen import WorkScreen

Edit = Callable[[TreeSubject, Stage, bytes, int], bytes | None]
"""Opens a text of a stage in the user's editor, at a line; None where it was left as it was."""


class TryState(Enum):
    """What the screen waits for."""

    COMPILING = "compiling"
    ASKING = "asking"
    LAUNCHING = "launching"
    IDLE = "idle"


class TryScreen(WorkScreen):
    """Tries a text at once; ``edit`` opens it again."""

    BINDINGS = bindings(Where.TRYING)
    wheres: ClassVar = (Where.TRYING,)

    def __init__(
        self,
        reads: Reader,
        subject: TreeSubject,
        stage: Stage,
        text: bytes,
        times: RecordingTimes,
        edit: Edit,
    ) -> None:
        super().__init__("try", subject, f"edited {stage.value}")
        self.reads, self.stage = reads, stage
        self.edited, self.times, self.edit = text, times, edit
        self.state = TryState.COMPILING
        self.trial: Trial | None = None
        self.notice: Notice | None = None
        self._python = ""

    @property
    def working(self) -> bool:
        """Whether something is compiled or launched."""
        return not self.settled

    @property
    def settled(self) -> bool:
        """Whether nothing is under way."""
        return self.state in (TryState.IDLE, TryState.ASKING)

    @property
    def file(self) -> str:
        """What messages call the text."""
        return f"{self.subject.key[1]}.{self.stage.value}"

    # What goes on

    def begin(self) -> None:
        kernel, variant = self.subject.kernel, self.subject.variant
        assert kernel is not None and variant is not None
        self.state, self.trial, self.notice = TryState.COMPILING, None, None
        stop = self.starts("compiling")
        self._tell()
        asked = TryRequest(
            self.reads.recording, kernel, variant, self.stage, self.edited, self.file
        )

        def compile_and_run() -> Trial:
            outcome = try_stage(asked, lambda _: None, lambda: not stop.is_set())
            made = trials.trial_of(outcome, kept_cache())
            if outcome.failed or machine.gpu_present() or made.recorded.launch is None:
                return made
            self.progress("running the PTX of both on the CPU")
            try:
                return trials.on_cpu(made, stop=stop.is_set)
            except Stopped:
                return made

        in_thread(self, compile_and_run, self._tried, "trying")

    def _tried(self, answer: Trial | Notice) -> None:
        self.state = TryState.IDLE
        if isinstance(answer, Notice):
            self.notice = answer
        else:
            self.trial = answer
        self._tell()

    # What is shown

    def _tell(self) -> None:
        if not self.settled:
            self.tick()
        elif self.state is TryState.ASKING:
            self.status.say("y launches it, n does not.")
        elif self.trial is not None and self.trial.outcome.failed:
            self.status.say("E opens your text again, at the first error.")
        else:
            self.status.say("Enter shows the difference, E opens your text again, t launches both.")
        self.show()

    def show(self) -> None:
        width = max(24, self.size.width - 4)
        parts: list[Part] = []
        made = self.trial
        if made is not None:
            lines = list(report.table(made, width))
            for n, line in enumerate(lines):
                parts.append((f"{label(line.plain)}\n", HEAD if n == 0 else ""))
            parts.append(("\n", ""))
            for line in report.messages(made):
                plain = line.plain
                own = not plain.startswith("    ")
                parts += (
                    wrapped(plain, width, "bold", "") if own else [(f"{label(plain)}\n", QUIET)]
                )
            for sentence in report.sentences(made):
                loud = "differs in" in sentence or "fault" in sentence
                parts += wrapped(sentence, width, WARN if loud else QUIET)
        elif self.notice is None:
            parts.append(("\n◔ It is compiled …\n", "bold"))
        if self.state is TryState.ASKING:
            parts += timing_text.leave(str(self.times.path), self._python, width)
        if self.notice is not None:
            parts += timing_text.trouble(self.notice, width)
        self.text.update(Content.assemble(*parts))

    # Commands

    def action_compare(self) -> None:
        """The recorded variant and the edited one, at every stage that both have."""
        from inspector.tui.diff.diff_screen import DiffScreen

        made = None if self.trial is None or not self.trial.tried else self.trial
        tried = None if made is None else made.tried[0].variant
        if made is None or tried is None:
            self.status.say("There is nothing to compare: it has not compiled.")
            return
        a, b = (TreeSubject(made.kernel, one) for one in (made.base.variant, tried))
        stage = Stage.SASS if self.stage is Stage.PTX else Stage.PTX
        self.app.push_screen(DiffScreen(made.reader, a, b, stage, fixed=True))

    def action_edit(self) -> None:
        """Open the text again, at the first line that a compiler complains of, and try it."""
        if not self.settled:
            self.status.say("It is still under way: Esc stops it.")
            return
        error = None if self.trial is None else report.first_error(self.trial, self.file)
        text = self.edit(self.subject, self.stage, self.edited, (error and error.line) or 1)
        if text is None:
            self.status.say("The text is as it was.")
            return
        self.edited = text
        self.begin()

    def action_launch(self) -> None:
        """Launch both on this machine's GPU: their times, and whether their results agree."""
        made = self.trial
        if not self.settled or made is None or made.outcome.failed:
            self.status.say("There is nothing to launch yet.")
        elif self.state is TryState.ASKING:
            self.status.say("First: y launches the recording's machine code, n does not.")
        elif made.recorded.launch is None:
            self.status.say(label(f"Nothing can be launched: {made.unlaunched}."))
        elif not machine.gpu_present():
            self.status.say("Launching needs an NVIDIA GPU, and there is none on this machine.")
        else:
            answer = attempt(lambda: trials.interpreter(made, TimeWish()))
            if isinstance(answer, Notice):
                self.notice = answer
                self.show()
                return
            self._python = answer
            if take.own(self.reads.recording) or self.times.trusted:
                self._run(made)
                return
            self.state = TryState.ASKING
            self._tell()

    def _run(self, made: Trial) -> None:
        self.state, self.notice = TryState.LAUNCHING, None
        stop = self.starts("launching")
        self._tell()
        python = self._python
        in_thread(
            self, lambda: trials.on_gpu(made, python, TimeWish(), self.progress, stop),
            self._tried, "trying",
        )  # fmt: skip

    def action_answer(self, yes: bool) -> None:
        """Whether the recording's machine code may be launched, until the interface is left."""
        if self.state is not TryState.ASKING or self.trial is None:
            return
        if yes:
            self.times.trusted = True
            self._run(self.trial)
        else:
            self.state = TryState.IDLE
            self.notice = Notice("∅", "Not trusted, so not launched.")
            self._tell()
