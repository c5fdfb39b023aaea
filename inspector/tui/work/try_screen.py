"""Resources of a kernel with an edited stage beside the recorded ones, and errors at their lines.

A thread compiles it. Nothing is launched, and the recording is not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.content import Content

from inspector.base.model import Stage
from inspector.measure.experiment import Experiment, experiment_of
from inspector.reader.reader import Reader
from inspector.recording.layout import kept_cache
from inspector.report import compiled as report
from inspector.sources.trying import TryRequest, try_stage
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import in_thread
from inspector.tui.widgets.visible import label
from inspector.tui.work import timing_text
from inspector.tui.work.timing_text import HEAD, QUIET, Part, wrapped
from inspector.tui.work.work_screen import WorkScreen

Edit = Callable[[TreeSubject, Stage, bytes, int], bytes | None]
"""Opens a text of a stage in the user's editor, at a line; None where it was left as it was."""


class TryScreen(WorkScreen):
    """Tries a text at once; ``edit`` opens it again."""

    BINDINGS = bindings(Where.TRYING)
    wheres: ClassVar = (Where.TRYING,)

    def __init__(
        self, reads: Reader, subject: TreeSubject, stage: Stage, text: bytes, edit: Edit
    ) -> None:
        super().__init__("try", subject, f"edited {stage.value}")
        self.reads, self.stage = reads, stage
        self.edited, self.edit = text, edit
        self.settled = False
        self.trial: Experiment | None = None
        self.notice: Notice | None = None

    @property
    def working(self) -> bool:
        """Whether something is being compiled."""
        return not self.settled

    @property
    def file(self) -> str:
        """What messages call the text."""
        return f"{self.subject.key[1]}.{self.stage.value}"

    # What goes on

    def begin(self) -> None:
        kernel, variant = self.subject.kernel, self.subject.variant
        assert kernel is not None and variant is not None
        self.settled, self.trial, self.notice = False, None, None
        stop = self.starts("compiling")
        self._tell()
        asked = TryRequest(
            self.reads.recording, kernel, variant, self.stage, self.edited, self.file
        )

        def compile_it() -> Experiment:
            outcome = try_stage(asked, lambda _: None, lambda: not stop.is_set())
            return experiment_of(outcome, kept_cache())

        in_thread(self, compile_it, self._tried, "trying")

    def _tried(self, answer: Experiment | Notice) -> None:
        self.settled = True
        if isinstance(answer, Notice):
            self.notice = answer
        else:
            self.trial = answer
        self._tell()

    # Display

    def _tell(self) -> None:
        if not self.settled:
            self.tick()
        elif self.trial is not None and self.trial.outcome.failed:
            self.status.say("E opens your text again, at the first error.")
        else:
            self.status.say("Enter shows the difference, E opens your text again.")
        self.show()

    def show(self) -> None:
        width = max(24, self.size.width - 4)
        parts: list[Part] = []
        made = self.trial
        if made is not None:
            lines = list(report.trial_table(made, width))
            for n, line in enumerate(lines):
                parts.append((f"{label(line.plain)}\n", HEAD if n == 0 else ""))
            parts.append(("\n", ""))
            for line in report.trial_messages(made):
                plain = line.plain
                own = not plain.startswith("    ")
                parts += (
                    wrapped(plain, width, "bold", "") if own else [(f"{label(plain)}\n", QUIET)]
                )
            for sentence in report.trial_sentences(made):
                parts += wrapped(sentence, width, QUIET)
        elif self.notice is None:
            parts.append(("\n◔ It is compiled …\n", "bold"))
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
