"""The timeline of a simulated block as strips: over the whole of it, and over a few phases."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from inspector.base.units import microseconds
from inspector.estimate.timeline import KINDS, BarrierPhase, Span, Timeline, TimelineRow
from inspector.render.pictures.picture import Axis, StripPicture, StripRow

TITLE = "What holds a block up?"
NOTE = "simulated from machine code and executed PTX, without a GPU"
KIND_WORDS = {
    "copy": "issues copies",
    "products": "multiplies, or waits for products",
    "arithmetic": "computes",
    "memory": "waits for loads or stores",
    "barrier": "waits for the block's other warps",
    "wait": "waits for an mbarrier",
}
NEAR_PHASES = 8
"""Phases that the second strip shows, about the middle of the block."""
MOST_SHARES = 3
"""Kinds whose shares of a row's time are shown."""

Cycles = tuple[float, float]
"""A window of time."""


def block_pictures(
    timeline: Timeline, hertz: float, place: Callable[[int], str], cells: int
) -> list[StripPicture]:
    """Rows over the whole block, then over some phases in its middle, with their numbers.

    ``hertz`` of the SM's clock; ``place`` says where a line of SASS is in the source; ``cells`` are
    the parts of a window that can be told apart.
    """
    answer = " ".join(sentences(timeline, hertz, place))
    whole = _picture(timeline, (0.0, timeline.cycles), hertz, cells)
    pictures = [replace(whole, title=TITLE, answer=answer, notes=[NOTE])]
    near = _near_the_middle(timeline.phases)
    if near is not None and near[1] - near[0] < timeline.cycles / 2:
        pictures.append(_picture(timeline, near, hertz, cells))
    return pictures


def sentences(timeline: Timeline, hertz: float, place: Callable[[int], str]) -> Iterator[str]:
    """The critical path by its parts, and the longest bubble with what came late."""
    parts = sorted(timeline.critical.items(), key=lambda part: -part[1])
    if parts:
        shares = ", ".join(f"{WORDS[k]} {percent(share)}" for k, share in parts if share >= 0.01)
        yield f"The path without slack: {shares}."
    bubble = timeline.bubble
    if bubble is not None:
        length = (bubble.end - bubble.begin) / hertz * 1e6
        begin = bubble.begin / hertz * 1e6
        yield (
            f"Longest bubble: {microseconds(length)} µs from {microseconds(begin)} µs on, for "
            f"phase {bubble.phase} of {_barrier(bubble.barrier)}; last came {place(bubble.line)}."
        )


def _barrier(offset: int | None) -> str:
    return "the cluster's barrier" if offset is None else f"the mbarrier at byte {offset:,}"


WORDS = {
    "copy": "copies",
    "products": "products",
    "arithmetic": "arithmetic",
    "memory": "memory",
    "barrier": "barriers",
    "wait": "mbarriers",
}


def _near_the_middle(phases: Sequence[BarrierPhase]) -> Cycles | None:
    ordered = sorted(phases, key=lambda phase: phase.end)
    if len(ordered) <= NEAR_PHASES:
        return None
    first = (len(ordered) - NEAR_PHASES) // 2
    return ordered[first].end, ordered[first + NEAR_PHASES].end


def _picture(timeline: Timeline, window: Cycles, hertz: float, cells: int) -> StripPicture:
    begin, end = (1e6 * cycle / hertz for cycle in window)
    step = (end - begin) / cells
    rows = [
        StripRow(row.label, _runs(_cells(row.spans, window, cells), begin, step), _shares(row))
        for row in timeline.rows
    ]
    if window[0] > 0:
        barriers = {phase.barrier for phase in timeline.phases}
        for barrier in sorted(barrier for barrier in barriers if barrier is not None):
            own = [phase for phase in timeline.phases if phase.barrier == barrier]
            ring = [f"phase {number}" for number in _phase_cells(own, window, cells)]
            rows.append(StripRow(f"mbarrier {barrier:,}", _runs(ring, begin, step)))
    used = {span.kind for row in timeline.rows if row.warps for span in row.spans}
    kinds = [(kind, KIND_WORDS[kind]) for kind in KINDS if kind in used]
    return StripPicture("", "", "strips", Axis("time", "µs", begin, end), rows, kinds)


def _runs(cells: Sequence[str], begin: float, step: float) -> list[tuple[str, float, float]]:
    """Neighbouring cells of one kind, with their times; "" is nothing."""
    runs = []
    first = 0
    for kind, group in groupby(cells):
        count = len(list(group))
        if kind:
            runs.append((kind, begin + first * step, begin + (first + count) * step))
        first += count
    return runs


def _shares(row: TimelineRow) -> list[tuple[str, float]]:
    return sorted(row.shares.items(), key=lambda share: -share[1])[:MOST_SHARES]


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cells(spans: Sequence[Span], window: Cycles, cells: int) -> list[str]:
    """The kind that most of each cell's time goes to; "" of none."""
    begin, end = window
    step = (end - begin) / cells
    times: list[dict[str, float]] = [{} for _ in range(cells)]
    for span in spans:
        first = max(0, int((span.begin - begin) / step))
        last = min(cells - 1, int((span.end - begin) / step))
        for cell in range(first, last + 1):
            low = begin + cell * step
            part = min(span.end, low + step) - max(span.begin, low)
            if part > 0:
                times[cell][span.kind] = times[cell].get(span.kind, 0.0) + part
    half = step / 2
    return [
        max(kinds, key=lambda kind: kinds[kind]) if sum(kinds.values()) >= half else ""
        for kinds in times
    ]


def _phase_cells(phases: Sequence[BarrierPhase], window: Cycles, cells: int) -> list[int]:
    """The phase that an mbarrier is in at the middle of each cell."""
    begin, end = window
    middles = [begin + (cell + 0.5) * (end - begin) / cells for cell in range(cells)]
    return [sum(phase.end <= middle for phase in phases) for middle in middles]
