"""Runs one block of a variant's most frequent recorded call; called in threads."""

from __future__ import annotations

import shlex
import threading
from dataclasses import dataclass, field

from inspector.base.errors import Stopped, UsageError
from inspector.base.model import Kernel, Variant
from inspector.execute import Facts, Trace
from inspector.execute.calls.stepper import Stepper
from inspector.execute.calls.tracing import (
    BUDGET,
    TracedBlock,
    TracedLaunch,
    Triple,
    trace_block,
    trace_launch,
)
from inspector.measure.recorded_launch import ChosenLaunch, LaunchWish, choose_launch
from inspector.reader.reader import Reader

MAX_STEPS, MAX_BYTES = 500_000, 256 << 20
"""What is kept of a block's steps: as much as a laptop has to spare."""


@dataclass(frozen=True, slots=True)
class BlockRun:
    """A block that was run; ``unnamed`` says why registers have no names of the source, or ""."""

    chosen: ChosenLaunch
    traced: TracedBlock
    stepper: Stepper
    unnamed: str = ""


@dataclass(slots=True)
class RunningBlock:
    """A block that is being run; ``stop`` ends it."""

    block: Triple
    stop: threading.Event = field(default_factory=threading.Event)
    trace: Trace | None = None

    @property
    def steps(self) -> int:
        """How many steps there are so far."""
        return 0 if self.trace is None else len(self.trace.steps)

    def run(self, reads: Reader, kernel: Kernel, variant: Variant) -> BlockRun:
        """Run it. Raises ``UsageError`` where the recording does not hold a launch whole."""
        try:
            chosen = choose_launch(reads, kernel, variant, LaunchWish())
            self.trace = Trace(chosen.program, most_steps=MAX_STEPS, most_bytes=MAX_BYTES)
            traced = trace_block(
                chosen.program,
                chosen.launch,
                chosen.make(),
                self.block,
                budget=BUDGET,
                trace=self.trace,
                facts=Facts(chosen.program, values=False),
                stop=self.stop.is_set,
            )
            names, unnamed = chosen.register_names()
            return BlockRun(chosen, traced, Stepper.of(traced, names, chosen.source), unnamed)
        except UsageError as error:
            path = shlex.quote(reads.recording.path)
            by_hand = f"In a terminal:\n\n    ptxview step {path} {variant.id} …"
            hint = f"{error.hint}\n{by_hand}" if error.hint else ""
            raise UsageError(error.message, hint) from None


def count(chosen: ChosenLaunch, stop: threading.Event) -> TracedLaunch:
    """Count what a launch does at each line, in all of its blocks where that is cheap."""
    try:
        return trace_launch(chosen.program, chosen.launch, chosen.make, stop=stop.is_set)
    except Stopped as error:
        raise UsageError(error.message) from None
