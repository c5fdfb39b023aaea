"""Runs a block in a thread, then more of them to count; what runs can be ended."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass

from textual import work
from textual.message import Message
from textual.widget import Widget

from inspector.errors import Stopped, UsageError
from inspector.execute import Facts, Trace
from inspector.measure.recorded_launch import ChosenLaunch, LaunchWish, choose_launch
from inspector.model import Kernel, Variant
from inspector.reader.reader import Reader
from inspector.trace.block import TracedBlock, trace_block
from inspector.trace.stepper import Stepper
from inspector.trace.tracing import BUDGET, TracedLaunch, Triple, trace_launch
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.threads import attempt

MOST_STEPS, MOST_BYTES = 500_000, 256 << 20
"""What is kept of a block's steps: as much as a laptop has to spare."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A block that was run; ``unnamed`` says why registers have no names of the source, or ""."""

    chosen: ChosenLaunch
    traced: TracedBlock
    stepper: Stepper
    unnamed: str = ""


class BlockRunner(Widget):
    """Runs blocks of a variant's most frequent recorded call; it draws nothing itself."""

    class Ran(Message):
        """A thread has run a block, or could not."""

        def __init__(self, answer: BlockRun | Notice) -> None:
            super().__init__()
            self.answer = answer

    class Counted(Message):
        """A thread has run more blocks, or could not."""

        def __init__(self, answer: TracedLaunch | Notice) -> None:
            super().__init__()
            self.answer = answer

    def __init__(self, reads: Reader, kernel: Kernel, variant: Variant) -> None:
        super().__init__()
        self.display = False
        self.reads, self.kernel, self.variant = reads, kernel, variant
        self.block: Triple = (0, 0, 0)
        """The block that is run, or was last."""
        self.running = False
        self._stop = threading.Event()
        self._left = threading.Event()
        self._trace: Trace | None = None

    def on_unmount(self) -> None:
        """Nothing goes on that nobody waits for."""
        self._stop.set()
        self._left.set()

    @property
    def steps(self) -> int:
        """How many steps there are by now of what runs."""
        return 0 if self._trace is None else len(self._trace.steps)

    @property
    def stopping(self) -> bool:
        """Whether what runs was told to end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """End what runs."""
        self._stop.set()

    def run_block(self, block: Triple) -> None:
        """Run a block instead of what runs now."""
        self._stop.set()
        self._stop, self._trace = threading.Event(), None
        self.block, self.running = block, True
        self._run(block, self._stop)

    @work(thread=True, exclusive=True, group="block", exit_on_error=False, description="block")
    def _run(self, block: Triple, stop: threading.Event) -> None:
        def run() -> BlockRun:
            try:
                return self._traced(block, stop)
            except UsageError as error:
                raise UsageError(error.message, self._by_hand(error.hint)) from None

        answer = attempt(run)
        if stop is self._stop:
            self.running = False
            self.post_message(self.Ran(answer))

    def _traced(self, block: Triple, stop: threading.Event) -> BlockRun:
        chosen = choose_launch(self.reads, self.kernel, self.variant, LaunchWish())
        trace = self._trace = Trace(chosen.program, most_steps=MOST_STEPS, most_bytes=MOST_BYTES)
        traced = trace_block(
            chosen.program, chosen.launch, chosen.make(), block, budget=BUDGET, trace=trace,
            facts=Facts(chosen.program, values=False), stop=stop.is_set,
        )  # fmt: skip
        names, unnamed = chosen.register_names()
        return BlockRun(chosen, traced, Stepper.of(traced, names, chosen.source), unnamed)

    def _by_hand(self, hint: str) -> str:
        """What to do where the recording does not hold a launch whole."""
        path = shlex.quote(self.reads.recording.path)
        by_hand = f"In a terminal:\n\n    ptxview step {path} {self.variant.id} …"
        return f"{hint}\n{by_hand}" if hint else ""

    @work(thread=True, exclusive=True, group="count", exit_on_error=False, description="count")
    def count(self, chosen: ChosenLaunch) -> None:
        """Count what the launch does at each line, in all of its blocks where that is cheap."""

        def run() -> TracedLaunch:
            try:
                left = self._left.is_set
                return trace_launch(chosen.program, chosen.launch, chosen.make, stop=left)
            except Stopped as error:
                raise UsageError(error.message) from None

        answer = attempt(run)
        if not self._left.is_set():
            self.post_message(self.Counted(answer))
