"""One block of a kernel, run on the CPU; its values and counts by line of each stage."""

from __future__ import annotations

import re
import shlex
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inspector.base.errors import Stopped, UsageError
from inspector.base.model import Kernel, Stage, Variant
from inspector.execute import ExecutedLine, Facts, Trace
from inspector.execute.calls.stepper import Stepper
from inspector.execute.calls.tracing import (
    BUDGET,
    SHARED,
    TracedBlock,
    TracedLaunch,
    Triple,
    trace_block,
    trace_launch,
)
from inspector.execute.facts import GLOBAL
from inspector.measure.recorded_launch import ChosenLaunch, LaunchWish, choose_launch
from inspector.reader.reader import Reader
from inspector.report import step as report
from inspector.report import trace as trace_report
from inspector.tui.code.code_rows import (
    CONFLICTS,
    DIVERGES,
    LANES,
    LIVE,
    NOTES,
    RUN,
    SECTORS,
    VALUE,
    WARPS,
)
from inspector.tui.widgets.subject import TreeSubject

Links = Mapping[int, tuple[int, ...]]
_NAME = re.compile(r"[A-Za-z_]\w*")
MAX_HOT_LINES = 20
"""Hottest lines to go through."""

CHOICES: tuple[tuple[str, ...], ...] = (
    (VALUE, NOTES),
    (WARPS, LANES, DIVERGES, SECTORS, CONFLICTS, VALUE, NOTES),
    (WARPS, LANES, SECTORS, CONFLICTS, NOTES),
    (LIVE, VALUE, NOTES),
)
"""What the key for columns goes through."""


@dataclass
class StageFigures:
    """The columns of one stage; ``links`` are the lines of PTX of each of its lines, None where it
    is the PTX itself."""

    stepper: Stepper
    links: Links | None
    tied: Links
    """The other way round: the lines of this stage of each line of the PTX."""
    lines: Mapping[int, ExecutedLine]
    texts: Sequence[str]
    """Its lines, for the names in them; () where they are not wanted."""
    total: int
    """Instructions of warps, of all lines of the PTX."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns in which some line has something."""
        lines = self.lines.values()
        absent = {
            DIVERGES: not any(line.branches for line in lines),
            SECTORS: all(line.use(GLOBAL) is None for line in lines),
            CONFLICTS: all(line.use(SHARED) is None for line in lines),
        }
        return tuple(column for column in RUN if not absent.get(column))

    def value(self, n: int, width: int) -> tuple[str, bool]:
        """What line ``n`` last gave the chosen lane, and whether it ran it then."""
        if self.links is None:
            result = self.stepper.result(n)
            return ("", True) if result is None else (report.given(result, width), result.runs)
        results = (self.stepper.result(line) for line in self.links.get(n, ()))
        names = _NAME.findall(self.texts[n - 1]) if n <= len(self.texts) else ()
        return report.given_by((r for r in results if r is not None), width, names)

    def cell(self, column: str, n: int) -> str:
        """A count of line ``n``; "" where it has none."""
        line = self.lines.get(n)
        if line is None:
            return ""
        if column == WARPS:
            return trace_report.short(line.executed)
        if column == LANES:
            return "" if line.lanes_per_warp is None else f"{line.lanes_per_warp:.3g}"
        if column == DIVERGES:
            return trace_report.short(line.divergent) if line.branches else ""
        use = line.use(GLOBAL if column == SECTORS else SHARED)
        if use is None:
            return ""
        return trace_report.short(use.sectors if column == SECTORS else use.conflicts)

    def hot(self, n: int) -> bool:
        """Whether it is among the lines that were executed most, where some were less."""
        return n in self._hot

    @cached_property
    def _hot(self) -> frozenset[int]:
        counts = {one.n: one.executed for one in self.lines.values() if one.executed}
        most = max(counts.values(), default=0)
        hot = frozenset(n for n, count in counts.items() if count == most)
        return hot if len(hot) < len(counts) else frozenset()

    def hottest(self) -> tuple[ExecutedLine, ...]:
        """The lines that warps executed most, of those the ones that asked most of memory first."""

        def heat(line: ExecutedLine) -> tuple[int, ...]:
            of_global, shared = line.use(GLOBAL), line.use(SHARED)
            asked = (of_global.sectors if of_global else 0) + (shared.wavefronts if shared else 0)
            return -line.executed, -asked, line.n

        ran = sorted((line for line in self.lines.values() if line.executed), key=heat)
        return tuple(ran[:MAX_HOT_LINES])

    def current(self) -> tuple[int, ...]:
        """The lines of the step at hand."""
        place = self.stepper.place()
        if place is None:
            return ()
        return (place.line,) if self.links is None else self.tied.get(place.line, ())


@dataclass(slots=True)
class SteppedKernel:
    """A block that was run, seen from every stage of its kernel.

    ``block_facts`` count that block, ``launched`` the launch as a whole or as much of it as was
    cheap, None until that is known; ``whole``: which of them is shown.
    """

    stepper: Stepper
    block_facts: Facts
    blocks: int
    launched: TracedLaunch | None = None
    whole: bool = True
    uncounted: str = ""
    """Why no more blocks could be counted."""
    links: dict[Stage, Links] = field(default_factory=dict)
    texts: dict[Stage, Sequence[str]] = field(default_factory=dict)
    _made: dict[Stage, StageFigures] = field(default_factory=dict)

    @property
    def counted(self) -> TracedLaunch | None:
        """The launch that the counts are of; None where they are of the block alone."""
        launched = self.launched
        return launched if self.whole and launched is not None and launched.ran else None

    @property
    def sample(self) -> str:
        """Of which blocks the counts are: ``all 1,823 blocks``, ``this block``."""
        counted = self.counted
        if counted is None or counted.ran is None:
            return "this block" if self.blocks > 1 else "the one block"
        return trace_report.sample_of(counted.ran, self.blocks)

    def count(self, launched: TracedLaunch) -> None:
        """More blocks were counted, or not to their end."""
        self.launched = launched
        ended = launched.fault or launched.spent
        self.uncounted = "" if ended is None else ended.message
        self._made.clear()

    def other(self) -> None:
        """The counts of the block alone, or of more."""
        self.whole = not self.whole
        self._made.clear()

    def link(self, stage: Stage, links: Links, texts: Sequence[str] = ()) -> None:
        """Set the lines of PTX of each line of a stage, and the texts of its lines."""
        self.links[stage], self.texts[stage] = links, texts
        self._made.pop(stage, None)

    def figures(self, stage: Stage) -> StageFigures | None:
        """The columns of a stage; None where it is not known what its lines are tied to."""
        if stage is not Stage.PTX and stage not in self.links:
            return None
        if stage not in self._made:
            facts = self.block_facts if self.counted is None else self.counted.facts
            total = facts.totals().instructions
            links = self.links.get(stage) if stage is not Stage.PTX else None
            tied = {} if links is None else _reversed(links)
            lines = facts.lines(None if links is None else tied)
            by_number = {line.n: line for line in lines}
            texts = self.texts.get(stage, ())
            self._made[stage] = StageFigures(self.stepper, links, tied, by_number, texts, total)
        return self._made[stage]

    def ptx_lines(self, stage: Stage, n: int) -> tuple[int, ...]:
        """The lines of PTX that a line of a stage is tied to; of a label or a directive of PTX,
        the next one that has an instruction."""
        if stage is not Stage.PTX:
            return self.links.get(stage, {}).get(n, ())
        lines = sorted({row.line for row in self.stepper.program.code.instructions})
        at = bisect_left(lines, n)
        return (lines[at],) if at < len(lines) else ()


def _reversed(links: Links) -> dict[int, tuple[int, ...]]:
    """By line of the PTX the lines of a stage."""
    out: dict[int, list[int]] = {}
    for n, lines in links.items():
        for line in lines:
            out.setdefault(line, []).append(n)
    return {line: tuple(sorted(each)) for line, each in out.items()}


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


def stages_with_ptx(stages: tuple[Stage | None, ...], subject: TreeSubject) -> tuple[Stage, ...]:
    """Return the stages to show: the open ones and PTX, two where possible."""
    shown = [stage for stage in stages if stage is not None and subject.has(stage)]
    if Stage.PTX not in shown:
        shown = [*shown[: max(1, len(stages) - 1)], Stage.PTX]
    if len(shown) == 1 and len(subject.stages()) > 1:
        shown.insert(0, subject.default(0, (Stage.PTX,)))
    return tuple(shown)
