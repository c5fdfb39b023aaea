"""One block of a kernel, run on the CPU: values and counts by line, registers, lanes."""

import math
import re
import shlex
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar

from msgspec import Struct, field
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from inspector.base.errors import UsageError
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.units import plural
from inspector.execute import ExecutedLine, Facts, Trace
from inspector.execute.calls.stepper import WARP, LaneStrip, LaneValue, Stepper, StepPlace
from inspector.execute.calls.tracing import (
    BUDGET,
    SHARED,
    TracedBlock,
    TracedLaunch,
    Triple,
    trace_block,
)
from inspector.execute.facts import GLOBAL
from inspector.execute.lanes import block_number
from inspector.measure.recorded_launch import ChosenLaunch, LaunchOverrides, choose_launch
from inspector.reader.reader import Reader
from inspector.render import step as report
from inspector.render import trace as trace_report
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
from inspector.tui.widgets.notice import cut, label
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.tool_screen import AnswersKeys, LineWidget

Links = Mapping[int, tuple[int, ...]]
_NAME = re.compile(r"[A-Za-z_]\w*")
MAX_HOT_LINES = 20

CHOICES: tuple[tuple[str, ...], ...] = (
    (VALUE, NOTES),
    (WARPS, LANES, DIVERGES, SECTORS, CONFLICTS, VALUE, NOTES),
    (WARPS, LANES, SECTORS, CONFLICTS, NOTES),
    (LIVE, VALUE, NOTES),
)


class StageFigures(Struct, dict=True):
    """Columns of one stage; ``links`` are the lines of PTX of each line, None in the PTX itself."""

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
        lines = self.lines.values()
        absent = {
            DIVERGES: not any(line.branches for line in lines),
            SECTORS: all(line.use(GLOBAL) is None for line in lines),
            CONFLICTS: all(line.use(SHARED) is None for line in lines),
        }
        return tuple(column for column in RUN if not absent.get(column))

    def value(self, n: int, width: int) -> tuple[str, bool]:
        if self.links is None:
            result = self.stepper.result(n)
            if result is None:
                return "", True
            return report.result_text(result, width), result.runs
        results = (self.stepper.result(line) for line in self.links.get(n, ()))
        names = _NAME.findall(self.texts[n - 1]) if n <= len(self.texts) else ()
        return report.last_result_text((r for r in results if r is not None), width, names)

    def cell(self, column: str, n: int) -> str:
        """A count of line ``n``; "" where it has none."""
        line = self.lines.get(n)
        if line is None:
            return ""
        if column == LANES:
            return "" if line.lanes_per_warp is None else f"{line.lanes_per_warp:.3g}"
        of_global = line.use(GLOBAL)
        shared = line.use(SHARED)
        counts = {
            WARPS: line.executed,
            DIVERGES: line.divergent if line.branches else None,
            SECTORS: of_global.sectors if of_global else None,
            CONFLICTS: shared.conflicts if shared else None,
        }
        count = counts[column]
        return "" if count is None else trace_report.short(count)

    def hot(self, n: int) -> bool:
        return n in self._hot

    @cached_property
    def _hot(self) -> frozenset[int]:
        counts = {line.n: line.executed for line in self.lines.values() if line.executed}
        maximum = max(counts.values(), default=0)
        hot = frozenset(n for n, count in counts.items() if count == maximum)
        return hot if len(hot) < len(counts) else frozenset()

    def hottest(self) -> list[ExecutedLine]:
        """The lines that warps executed most, of those the ones that asked most of memory first."""

        def heat(line: ExecutedLine) -> tuple[int, ...]:
            of_global = line.use(GLOBAL)
            shared = line.use(SHARED)
            memory_requests = (of_global.sectors if of_global else 0) + (
                shared.wavefronts if shared else 0
            )
            return -line.executed, -memory_requests, line.n

        ran = (line for line in self.lines.values() if line.executed)
        return sorted(ran, key=heat)[:MAX_HOT_LINES]

    def current(self) -> tuple[int, ...]:
        if (place := self.stepper.place()) is None:
            return ()
        return (place.line,) if self.links is None else self.tied.get(place.line, ())


class SteppedKernel(Struct):
    """A block that was run, seen from every stage of its kernel.

    ``block_facts`` count that block, ``launched`` as many as was cheap; ``whole``: which is shown.
    """

    stepper: Stepper
    block_facts: Facts
    blocks: int
    launched: TracedLaunch | None = None
    shows_launch: bool = True
    uncounted: str = ""
    links: dict[Stage, Links] = field(default_factory=dict)
    texts: dict[Stage, Sequence[str]] = field(default_factory=dict)
    _figures: dict[Stage, StageFigures] = field(default_factory=dict)

    @property
    def counted(self) -> TracedLaunch | None:
        """The launch that the counts are of; None where they are of the block alone."""
        launched = self.launched
        return launched if self.shows_launch and launched is not None and launched.ran else None

    @property
    def sample(self) -> str:
        counted = self.counted
        if counted is None or counted.ran is None:
            return "this block" if self.blocks > 1 else "the one block"
        return trace_report.sample_of(counted.ran, self.blocks)

    def count(self, launched: TracedLaunch) -> None:
        self.launched = launched
        ended = launched.fault or launched.spent
        self.uncounted = "" if ended is None else ended.message
        self._figures.clear()

    def other(self) -> None:
        self.shows_launch = not self.shows_launch
        self._figures.clear()

    def link(self, stage: Stage, links: Links, texts: Sequence[str] = ()) -> None:
        self.links[stage] = links
        self.texts[stage] = texts
        self._figures.pop(stage, None)

    def figures(self, stage: Stage | None) -> StageFigures | None:
        if stage is None or (stage is not Stage.PTX and stage not in self.links):
            return None
        if stage not in self._figures:
            facts = self.block_facts if self.counted is None else self.counted.facts
            links = self.links.get(stage) if stage is not Stage.PTX else None
            tied = {} if links is None else _reversed(links)
            lines = {line.n: line for line in facts.lines(None if links is None else tied)}
            texts = self.texts.get(stage, ())
            total = facts.totals().instructions
            self._figures[stage] = StageFigures(self.stepper, links, tied, lines, texts, total)
        return self._figures[stage]

    def ptx_lines(self, stage: Stage | None, n: int) -> tuple[int, ...]:
        if stage is not Stage.PTX:
            return self.links.get(stage, {}).get(n, ()) if stage else ()
        lines = sorted({row.line for row in self.stepper.program.code.instructions})
        index = bisect_left(lines, n)
        return (lines[index],) if index < len(lines) else ()


def _reversed(links: Links) -> dict[int, tuple[int, ...]]:
    out: dict[int, tuple[int, ...]] = {}
    for n in sorted(links):
        out |= {line: (*out.get(line, ()), n) for line in links[n]}
    return out


MAX_STEPS = 500_000
MAX_BYTES = 256 << 20
"""What is kept of a block's steps: as much as a laptop has to spare."""


BlockRun = tuple[ChosenLaunch, TracedBlock, Stepper, str]
"""A block that was run, and why registers have no names of the source, or ""."""


class RunningBlock(Struct):
    """A block that is being run; ``stop`` ends it."""

    block: Triple
    stop: threading.Event = field(default_factory=threading.Event)
    trace: Trace | None = None

    def run(self, reads: Reader, kernel: Kernel, variant: Variant) -> BlockRun:
        """Run it. Raises ``UsageError`` where the recording does not hold a launch whole."""
        try:
            launch = choose_launch(reads, kernel, variant, LaunchOverrides())
            self.trace = Trace(
                launch.program,
                most_steps=MAX_STEPS,
                most_bytes=MAX_BYTES,
                number=block_number(self.block, launch.launch.grid),
            )
            traced = trace_block(
                launch.program,
                launch.launch,
                launch.make(),
                self.block,
                budget=BUDGET,
                trace=self.trace,
                facts=Facts(launch.program, values=False),
                stop=self.stop.is_set,
            )
            names, unnamed = launch.register_names()
            return launch, traced, Stepper(traced, names, launch.source), unnamed
        except UsageError as error:
            path = shlex.quote(reads.recording.path)
            by_hand = f"In a terminal:\n\n    ptxview step {path} {variant.id} …"
            hint = f"{error.hint}\n{by_hand}" if error.hint else ""
            raise UsageError(error.message, hint) from None


def stages_with_ptx(stages: tuple[Stage | None, ...], subject: TreeSubject) -> tuple[Stage, ...]:
    shown = tuple(stage for stage in stages if stage is not None and subject.has(stage))
    if Stage.PTX not in shown:
        shown = (*shown[: max(1, len(stages) - 1)], Stage.PTX)
    alone = len(shown) == 1 and len(subject.stages()) > 1
    return (subject.default(0, (Stage.PTX,)), *shown) if alone else shown


Parts = Iterator[tuple[str, str]]
NUMBERS = 6
LEAST = 64
"""Cells of the frame at least: what its keys are called must fit beneath it."""
WIDTH = 38
NAME = 14
REGISTER = 6
"""Cells of names of the source and of PTX's, where they are not longer."""


class StepLine(LineWidget):
    """The step at hand: the instruction and what it gave the chosen lane; the lanes of its warp."""

    place: StepPlace | None = None

    def render(self) -> Content:
        place = self.place
        width = self.size.width - 2
        if place is None:
            return Content("")
        values = "  ".join(map(report.value_line, place.values))
        head = f" {place.line}  "
        room = max(16, width - len(head) - len(values) - 2) if values else width - len(head)
        text = cut(label(report.statement(place.statement)), room)
        values = cut(values, width - len(head) - len(text) - 2)
        style = "$secondary" if place.runs else "dim"
        first = [(head, "bold $accent"), (text, "bold"), (f"  {values}", style)]
        if self.size.height < 2:
            return Content.assemble(*first)
        who, strip, share = report.lane_texts(place)
        if len(who) + len(strip) + len(share) + 5 > width:
            who = f"lane {place.lane}" + ("" if place.runs else " does not run it")
        share = share if len(who) + len(strip) + len(share) + 5 <= width else ""
        second = [(f"\n {who}  ", "" if place.runs else "$warning"), (strip, "$accent")]
        return Content.assemble(*first, *second, (f"  {share}", "$quiet"))


def coordinates(block: Triple) -> str:
    used = max((n for n, index in enumerate(block) if index), default=0)
    return ",".join(map(str, block[: used + 1]))


def register_rows(stepper: Stepper, width: int) -> Iterator[tuple[str, str]]:
    """Lines with their styles: what the step changed, then what is live, named ones first."""
    place = stepper.place()
    if place is None:
        return
    now = {value.register for value in place.values}
    others_live = [value for value in stepper.live() if value.register not in now]
    others_live.sort(key=lambda value: value.name is None)
    shown_values = [*place.values, *others_live]
    register = max([REGISTER, *(len(v.register) for v in shown_values)])
    sizes = min(NAME, max([0, *(len(v.name or "") for v in shown_values)])), register
    if place.values:
        yield "Written by this step\n", "bold $primary"
        yield from _rows(place.values, sizes, width, "$secondary" if place.runs else "dim")
        yield "\n", ""
    heading = f"Used later: {plural(len(others_live), 'register')}"
    yield f"{heading if others_live else 'No other register is used later'}\n", "bold $primary"
    yield from _rows(others_live, sizes, width, "")


def _rows(
    values: Iterable[LaneValue], sizes: tuple[int, int], width: int, style: str
) -> Iterator[tuple[str, str]]:
    name, register = sizes
    for value in values:
        called = cut(label(value.name or ""), name)
        yield f"{called:<{name}} " if name else "", "$accent"
        yield f"{value.register:<{register}} ", "$quiet"
        room = max(4, width - name - register - (2 if name else 1))
        yield f"{label(report.short(value, room))}\n", style


def lanes_text(strip: LaneStrip, lane: int, width: int, height: int = 99) -> list[tuple[str, str]]:
    """The chosen lane's warp in numbers, then the block as levels, as many warps as have room."""
    cells = report.lane_cells(strip)
    signs = report.levels(strip)
    first = lane // WARP * WARP
    head = [*_head(strip, lane)]
    if strip.values is not None:
        size = max(map(len, cells[first : first + WARP]), default=1)
        per = report.lanes_per_row(size + 1, width - NUMBERS)
        padded = [f"{label(cell):>{size}} " for cell in cells[: first + WARP]]
        head += [*_grid(strip, padded, lane, first, len(padded), per), ("\n", "")]
    max_rows = max(3, height - sum(text.count("\n") for text, _ in head))
    warps = -(-len(signs) // WARP)
    top = max(0, min(lane // WARP - max_rows // 2, warps - max_rows))
    last = min(WARP * (top + max_rows), len(signs))
    return [*head, *_grid(strip, signs, lane, WARP * top, last, WARP)]


def _grid(
    strip: LaneStrip, cells: Sequence[str], lane: int, first: int, last: int, per: int
) -> Parts:
    """Cells of lanes in rows; the chosen one reversed, those that did not run dim."""
    for row_start in range(first, last, per):
        yield f"{row_start:>{NUMBERS - 2}}  ", "$quiet"
        for n in range(row_start, min(row_start + per, last)):
            style = "" if strip.active[n] else "dim"
            yield cells[n], f"{style} reverse".strip() if n == lane else style
        yield "\n", ""


def _head(strip: LaneStrip, lane: int) -> Parts:
    yield f"{report.strip_head(strip)}\n", "bold"
    warp, lane_in_warp = divmod(lane, WARP)
    ran = strip.active[lane]
    value = "" if strip.values is None else f": {report.number(strip.values[lane], strip.kind)}"
    idle = "" if ran else ", which did not run it"
    yield (
        f"lane {lane} (warp {warp}, lane {lane_in_warp}{idle}){value}\n",
        "$secondary" if ran else "$warning",
    )
    yield "\n" if strip.values is None else f"{_range(strip)}\n\n", "$quiet"


def _range(strip: LaneStrip) -> str:
    numbers = []
    lanes_run = 0
    for lane, (value, active) in enumerate(zip(strip.values or (), strip.active, strict=False)):
        if active:
            lanes_run += 1
            number = value[0] if isinstance(value, tuple) else value
            if not math.isnan(number):
                numbers.append((number, lane))
    if not numbers:
        return "no number" if lanes_run else "no lane ran it"
    low, low_lane = min(numbers)
    high, high_lane = max(numbers, key=lambda value: (value[0], -value[1]))
    text = "one value in all that ran it"
    if low < high:
        least = report.number(low, strip.kind)
        greatest = report.number(high, strip.kind)
        text = f"least {least} at {low_lane}, greatest {greatest} at {high_lane}"
    if lanes_run > len(numbers):
        text += f", NaN in {lanes_run - len(numbers)}"
    return text


class LaneGrid(AnswersKeys, ModalScreen[int | None]):
    """Answers with the chosen lane; a strip for each register that the line wrote."""

    BINDINGS: ClassVar = [
        Binding("enter", "done", "Choose", show=False, priority=True),
        Binding("escape,q", "dismiss", "Close", show=False, priority=True),
        Binding("left,h", "move(-1)", show=False, priority=True),
        Binding("right,l", "move(1)", show=False, priority=True),
        Binding("up,k", f"move(-{WARP})", show=False, priority=True),
        Binding("down,j", f"move({WARP})", show=False, priority=True),
        Binding("home,g", "move(-9999)", show=False, priority=True),
        Binding("end,G", "move(9999)", show=False, priority=True),
        Binding("tab,r", "register", show=False, priority=True),
    ]

    def __init__(self, heading: str, strips: tuple[LaneStrip, ...], lane: int) -> None:
        super().__init__()
        self.heading = heading
        self.strips = strips
        self.lane = lane
        self.threads = len(strips[0].active)
        self.strip_index = 0
        self.typed = ""
        self.text = Static(markup=False)
        self.frame = VerticalScroll(self.text)
        self.frame.border_title = Content(heading)
        next_hint = "Tab the next register, " if len(strips) > 1 else ""
        keys = f"arrows or a number, Enter chooses, {next_hint}Esc closes"
        self.frame.border_subtitle = Content(keys)

    def compose(self) -> ComposeResult:
        yield self.frame

    def _show(self) -> None:
        width = self.size.width - 6
        height = self.size.height - 3
        parts = lanes_text(self.strips[self.strip_index], self.lane, width, height)
        text = Content.assemble(*parts)
        self.text.update(text)
        widest = max(line.cell_length for line in text.split("\n"))
        self.frame.styles.width = max(widest, len(self.heading) + 4, LEAST) + 6

    on_resize = _show

    def on_key(self, event: events.Key) -> None:
        if event.character is None or not event.character.isdecimal():
            return
        event.stop()
        for typed in (self.typed + event.character, event.character):
            if int(typed) < self.threads:
                self.typed = typed
                self.lane = int(typed)
                self._show()
                return

    def action_move(self, step: int) -> None:
        self.typed = ""
        self.lane = max(0, min(self.lane + step, self.threads - 1))
        self._show()

    def action_register(self) -> None:
        self.strip_index = (self.strip_index + 1) % len(self.strips)
        self._show()

    def action_done(self) -> None:
        self.dismiss(self.lane)
