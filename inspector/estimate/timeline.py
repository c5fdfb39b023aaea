"""What the warps of one simulated block, its copies and its tensor cores do over time.

Of a cluster it is the first block; what it waits for may be done by warps of the others.

Times are cycles since the block began. A wait belongs to what it is for: an mbarrier's to the copy
or arrival that came last, a scoreboard's to the instruction that sets it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct

from inspector.estimate.copies import OFFSETS, WAITS
from inspector.estimate.model import (
    CLUSTER,
    WAITING,
    Machine,
    Phase,
    Recorder,
    Simulation,
    Warp,
    Work,
)
from inspector.estimate.path import LOADS, STORES, Op

KINDS = ("copy", "products", "arithmetic", "memory", "barrier", "wait")
"""What a warp does: issues bulk copies, multiplies (or waits for products), computes, waits for
memory or for stores, for the other warps at a barrier, for an mbarrier."""


class Span(Struct, frozen=True):
    """A stretch of one kind; ``line`` is that of SASS with which it began, or that of a later part
    which took longer than all before it."""

    kind: str
    begin: float
    end: float
    line: int


class BarrierPhase(Struct, frozen=True):
    """A phase of an mbarrier, by its offset in shared memory, or of the cluster's barrier (None);
    ``line`` is that of SASS which ended it."""

    barrier: int | None
    phase: int
    end: float
    line: int


class TimelineRow(Struct, frozen=True):
    """Warps that do alike, drawn by the first of them, or an engine without ``warps``.

    ``shares`` of its time by kind.
    """

    label: str
    warps: Sequence[int]
    spans: Sequence[Span]
    shares: Mapping[str, float]


class Bubble(Struct, frozen=True):
    """The longest wait of the warps that multiply: for which phase, and what came late.

    ``barrier`` is as in ``BarrierPhase``.
    """

    begin: float
    end: float
    barrier: int | None
    phase: int
    line: int


class Timeline(Struct, frozen=True):
    """``critical`` are the shares of the path without slack, from the block's end backwards: what
    each wait was for is followed to who did it."""

    cycles: float
    rows: Sequence[TimelineRow]
    phases: Sequence[BarrierPhase]
    bubble: Bubble | None
    critical: Mapping[str, float]


class _ClusterRecorder(Recorder):
    """Records the SMs' first cluster, whose warps are numbered by the ranks of their blocks."""

    def __init__(self, ops: Mapping[int, Op]) -> None:
        self.ops = ops
        self.spans: dict[int, list[Span]] = defaultdict(list)
        self.engines: dict[str, list[tuple[int, Span]]] = defaultdict(list)
        """What each engine does for which warp."""
        self.phases: list[BarrierPhase] = []

    def spent(self, warp: Warp, begin: float, end: float, line: int, waits: bool) -> None:
        if warp.cluster or end <= begin:
            return
        spans = self.spans[warp.lane]
        kind = _kind(self.ops[line], waits)
        if spans and spans[-1].kind == kind and begin - spans[-1].end < 1:
            last = spans.pop()
            longest = line if end - begin > last.end - last.begin else last.line
            spans.append(Span(kind, last.begin, end, longest))
        else:
            spans.append(Span(kind, begin, end, line))

    def busy(self, unit: str, warp: Warp, begin: float, end: float, line: int) -> None:
        if not warp.cluster:
            self.engines[unit].append((warp.lane, Span(unit, begin, end, line)))

    def over(self, phase: Phase, end: float, line: int) -> None:
        if not phase[0]:
            self.phases.append(BarrierPhase(phase[1], phase[2], end, line))


def _kind(op: Op, waits: bool) -> str:
    if op.unit in ("copy", "arrive"):
        if waits:
            return "wait"
        return "copy" if op.unit == "copy" else "arithmetic"
    if op.unit in WAITING:
        return "wait"
    if op.products:
        return "products"
    if op.barrier is not None:
        return "barrier"
    return "memory" if op.unit == "send" or op.base in LOADS | STORES else "arithmetic"


def timeline(work: Work, machine: Machine) -> Timeline:
    """The timeline of the first block. Raises ``ToolMissing`` where it has no end."""
    ops = {op.n: op for role in work.roles for op, _ in role.steps}
    recorder = _ClusterRecorder(ops)
    Simulation(work, machine, recorder).run()
    own = [spans for warp, spans in recorder.spans.items() if warp < work.warps]
    begin = min(spans[0].begin for spans in own)
    end = max(spans[-1].end for spans in own)
    of_warps = _warp_rows(work, recorder, begin)
    rows = [*of_warps, *_engine_rows(work, recorder, begin, end)]
    phases = [
        BarrierPhase(None if p.barrier == CLUSTER else p.barrier, p.phase, p.end - begin, p.line)
        for p in recorder.phases
        if p.barrier is not None and p.barrier <= OFFSETS
    ]
    drawn = [row.warps[0] for row in of_warps] or range(work.warps)
    critical = _critical(work, recorder, max(drawn, key=lambda w: recorder.spans[w][-1].end))
    return Timeline(end - begin, rows, phases, _bubble(rows, phases), critical)


def _warp_rows(work: Work, recorder: _ClusterRecorder, begin: float) -> list[TimelineRow]:
    """Warps by the mbarriers that they wait for, and by whether they multiply; where some do, none
    that neither wait nor arrive."""
    waited = _waited(work)
    busy = {warp for warp, _ in (*work.log.events, *work.log.sends)}
    groups: dict[object, list[int]] = defaultdict(list)
    for warp, spans in sorted(recorder.spans.items()):
        if warp >= work.warps:
            continue
        multiplies = any(span.kind == "products" for span in spans)
        groups[frozenset(waited[warp]), multiplies, warp in busy].append(warp)
    rows = []
    for warps in groups.values():
        spans = recorder.spans[warps[0]]
        if len(groups) > 1 and warps[0] not in busy:
            continue
        done = {span.kind for span in spans}
        task = next((k for k in ("products", "copy") if k in done), "arithmetic")
        label = f"{_numbers(warps)}: {TASKS[task]}"
        rows.append(TimelineRow(label, warps, _moved(spans, begin), _shares(spans)))
    return rows


def _waited(work: Work) -> dict[int, set[int]]:
    """The mbarriers that each warp waits for."""
    waited: dict[int, set[int]] = defaultdict(set)
    for (warp, line), executions in work.log.events.items():
        if line == WAITS:
            waited[warp].update(event.barrier for events in executions for event in events)
    return waited


TASKS = {"products": "multiply", "copy": "copy", "arithmetic": "compute"}


def _numbers(warps: Sequence[int]) -> str:
    if len(warps) == 1:
        return f"warp {warps[0]}"
    if list(warps) == list(range(warps[0], warps[-1] + 1)):
        return f"warps {warps[0]} to {warps[-1]}"
    return f"warps {', '.join(map(str, warps))}"


def _moved(spans: Sequence[Span], begin: float) -> list[Span]:
    return [Span(s.kind, s.begin - begin, s.end - begin, s.line) for s in spans]


def _shares(spans: Sequence[Span]) -> dict[str, float]:
    cycles: dict[str, float] = defaultdict(float)
    for span in spans:
        cycles[span.kind] += span.end - span.begin
    total = spans[-1].end - spans[0].begin
    return {kind: cycles[kind] / total for kind in KINDS if cycles[kind]}


ENGINES = {"copy": "copies under way", "tensor": "tensor cores"}


def _engine_rows(
    work: Work, recorder: _ClusterRecorder, begin: float, end: float
) -> list[TimelineRow]:
    rows = []
    for unit, label in ENGINES.items():
        own = (span for warp, span in recorder.engines[unit] if warp < work.warps)
        spans = sorted(own, key=lambda s: s.begin)
        joined: list[Span] = []
        for span in spans:
            if joined and span.begin <= joined[-1].end:
                last = joined.pop()
                span = Span(span.kind, last.begin, max(last.end, span.end), last.line)
            joined.append(span)
        if joined:
            busy = sum(span.end - span.begin for span in joined)
            rows.append(TimelineRow(label, (), _moved(joined, begin), {unit: busy / (end - begin)}))
    return rows


def _bubble(rows: Sequence[TimelineRow], phases: Sequence[BarrierPhase]) -> Bubble | None:
    workers = [row for row in rows if "products" in row.shares and row.warps]
    waits = [span for row in workers or rows for span in row.spans if span.kind == "wait"]
    if not waits or not phases:
        return None
    longest = max(waits, key=lambda span: span.end - span.begin)
    ended = [p for p in phases if longest.begin < p.end <= longest.end] or list(phases)
    late = max(ended, key=lambda phase: phase.end)
    return Bubble(longest.begin, longest.end, late.barrier, late.phase, late.line)


def _critical(work: Work, recorder: _ClusterRecorder, warp: int) -> dict[str, float]:
    """Shares of the kinds on the path from a warp's end to the block's begin."""
    path = _Backwards(work, recorder)
    time = recorder.spans[warp][-1].end
    cycles: dict[str, float] = defaultdict(float)
    while (span := path.before(warp, time)) is not None:
        kind, warp, begin = path.cause(warp, span, time)
        cycles[kind] += time - begin
        time = begin
    total = sum(cycles.values())
    return {kind: cycles[kind] / total for kind in KINDS if cycles[kind]} if total else {}


class _Backwards:
    """Finds what a warp did or waited for before a time."""

    def __init__(self, work: Work, recorder: _ClusterRecorder) -> None:
        self.spans = recorder.spans
        self.places = {warp: len(spans) - 1 for warp, spans in recorder.spans.items()}
        self.copies = {span.end: (warp, span) for warp, span in recorder.engines["copy"]}
        self.phases = sorted(recorder.phases, key=lambda phase: phase.end)
        self.waited = _waited(work)
        self.arrivals: dict[tuple[int | None, int], int] = {
            (event.barrier, event.phase): warp
            for (warp, line), executions in work.log.events.items()
            for events in executions
            for event in events
            if line != WAITS and not event.nbytes
        }
        self.met: dict[float, tuple[float, int]] = {}
        """The warp that came to a barrier last, and when, by the end of the wait there."""
        for warp, spans in recorder.spans.items():
            for span in spans:
                if span.kind == "barrier":
                    last = self.met.get(span.end, (span.begin, warp))
                    self.met[span.end] = max(last, (span.begin, warp))

    def before(self, warp: int, time: float) -> Span | None:
        """The last span of a warp that begins before a time."""
        spans = self.spans[warp]
        place = self.places[warp]
        while place >= 0 and spans[place].begin >= time:
            place -= 1
        self.places[warp] = place
        return spans[place] if place >= 0 else None

    def cause(self, warp: int, span: Span, time: float) -> tuple[str, int, float]:
        """What a span's time goes to, with which warp the path goes on, and from when back."""
        phase = self._awaited(warp, span) if span.kind == "wait" else None
        if phase is not None and phase.end in self.copies:
            copier, copy = self.copies[phase.end]
            return "copy", copier, min(copy.begin, time)
        if phase is not None:
            arriver = self.arrivals.get((phase.barrier, phase.phase), warp)
            if arriver != warp:
                return "wait", arriver, min(phase.end - ARRIVAL, time)
        if span.kind == "barrier" and span.end in self.met:
            begin, last = self.met[span.end]
            return "barrier", last, min(begin, time)
        return span.kind, warp, span.begin

    def _awaited(self, warp: int, span: Span) -> BarrierPhase | None:
        """The phase that ended a warp's wait; None where it was over before."""
        place = bisect_right(self.phases, span.end, key=lambda phase: phase.end) - 1
        while place >= 0 and self.phases[place].end > span.begin:
            if self.phases[place].barrier in self.waited[warp]:
                return self.phases[place]
            place -= 1
        return None


ARRIVAL = 10
"""Cycles from an arrival's issue to its being counted."""
