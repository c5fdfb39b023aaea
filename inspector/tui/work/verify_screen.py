"""The kernels of a graph compared with their own operators, in a thread.

Nothing of the recording is run but its operators by name and its PTX, which is executed here, so
that nobody is asked first.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.content import Content

from inspector.base.model import Graph
from inspector.measure.time.take import interpreter
from inspector.reader.reader import Reader
from inspector.render.verify import answer, rows
from inspector.system import toolchain
from inspector.system.printing import page
from inspector.tui.keys.command_table import KeyContext, bindings
from inspector.tui.widgets.lines_screen import themed
from inspector.tui.widgets.notice import Notice, in_thread, label
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.work.work_screen import HEAD, QUIET, Part, WorkScreen, wrapped
from inspector.verify.checks import Selection, compared, launch_tasks, lines_of
from inspector.verify.kept import store
from inspector.verify.lines import Lines
from inspector.verify.report import VerifyReport

INDENT = 8
"""Columns before what a row that is longer than the screen goes on with."""


class Verified(Struct, frozen=True):
    """A report, the lines of its differences, and why it was not kept, or ""."""

    report: VerifyReport
    lines: Lines
    problem: str


def hanging(row: Text, width: int) -> Iterator[Content]:
    """A row of a report as lines that fit; all but the first are indented."""
    text = Text(plain) if (plain := label(row.plain)) != row.plain else row
    if text.cell_len <= width:
        yield themed(text)
        return
    console, _ = page(width, colours=False)
    (first, *_) = text.wrap(console, width)
    yield themed(first)
    remaining = text[len(first.plain) :]
    remaining.plain = remaining.plain.lstrip()
    for line in remaining.wrap(console, width - INDENT):
        yield themed(Text(" " * INDENT) + line)


class VerifyScreen(WorkScreen):
    """Begins at once; shows the report as the command prints it."""

    BINDINGS = bindings(KeyContext.VERIFYING)
    contexts: ClassVar = (KeyContext.VERIFYING,)

    def __init__(self, reads: Reader, subject: TreeSubject, graphs: Sequence[Graph]) -> None:
        super().__init__("verify", subject)
        self.reads = reads
        self.graphs = graphs
        self.verified: Verified | None = None

    def begin(self) -> None:
        reads = self.reads
        recording = reads.recording
        path = Path(recording.resolved_path or recording.path)
        selection = Selection([graph.id for graph in self.graphs])
        stop = self.starts("reading the launches")

        def go_on() -> bool:
            return not stop.is_set()

        def verify() -> Verified:
            candidates = (sys.executable, toolchain.interpreter(None))
            python = interpreter(None, candidates, toolchain.versions)
            launches = launch_tasks(reads, path, selection, self.progress, go_on)
            report = compared(reads, launches, python, self.progress, go_on)
            return Verified(report, lines_of(reads, report), store(path, report))

        self.tick()
        self.show()
        in_thread(self, verify, self._verified, "verify", failed=self._failed)

    def _verified(self, verified: Verified) -> None:
        self.working = False
        self.verified = verified
        self.status.say(label(verified.problem) or "Esc goes back.")
        self.show()

    def _failed(self, notice: Notice) -> None:
        self.working = False
        self.notice = notice
        self.status.say("Esc goes back.")
        self.show()

    def parts(self, width: int) -> Iterator[Part]:
        if self.verified is None:
            if self.working:
                names = ", ".join(graph.id for graph in self.graphs)
                sentence = f"Each kernel of graph {names} is compared with its own operators …"
                yield from wrapped(f"◔ {sentence}", width, "bold", "")
            return
        report = self.verified.report
        for row in rows(report, self.verified.lines, width):
            for line in hanging(row, width):
                yield line
                yield "\n", ""
        yield "\n", ""
        yield from wrapped(answer(report), width, HEAD if report.passed else "bold $error", "")
        yield from wrapped(f"inputs: {report.inputs}", width, QUIET, "")
