"""The timeline of a simulated block as lines of a terminal, with a ring of phases."""

from collections.abc import Callable, Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from inspector.base.units import microseconds
from inspector.estimate.timeline import KINDS, BarrierPhase, Span, Timeline, TimelineRow
from inspector.render.tables import padded

MARKS = {
    "copy": ("c", "cyan", "issues copies"),
    "products": ("P", "bold green", "multiplies, or waits for products"),
    "arithmetic": ("a", "green", "computes"),
    "memory": ("m", "yellow", "waits for loads or stores"),
    "barrier": ("b", "yellow", "waits for the block's other warps"),
    "wait": ("·", "red", "waits for an mbarrier"),
    "tensor": ("P", "bold green", ""),
}
MIN_STRIP_CELLS = 16
MAX_STRIP_CELLS = 96
NEAR_PHASES = 8
"""Phases that the second strip shows, about the middle of the block."""
INDENT = "  "

Cycles = tuple[float, float]
"""A window of time."""


def timeline_lines(
    timeline: Timeline, hertz: float, width: int, place: Callable[[int], str]
) -> Iterator[Text]:
    """Rows over the whole block, then over some phases in its middle.

    ``hertz`` of the SM's clock; ``place`` says where a line of SASS is in the source.
    """
    yield Text("What holds a block up?", "bold cyan")
    for sentence in sentences(timeline, hertz, place):
        yield Text(sentence)
    yield from _strips(timeline, (0.0, timeline.cycles), hertz, width)
    near = _near_the_middle(timeline.phases)
    if near is not None and near[1] - near[0] < timeline.cycles / 2:
        yield Text()
        yield from _strips(timeline, near, hertz, width)
    used = {span.kind for row in timeline.rows if row.warps for span in row.spans}
    legend = "  ".join(f"{MARKS[kind][0]} {MARKS[kind][2]}" for kind in KINDS if kind in used)
    yield Text(f"{INDENT}{legend}", "dim")


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
            f"phase {bubble.phase} of the mbarrier at byte {bubble.barrier:,}; last came "
            f"{place(bubble.line)}."
        )


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


def _strips(timeline: Timeline, window: Cycles, hertz: float, width: int) -> Iterator[Text]:
    barriers = sorted({phase.barrier for phase in timeline.phases})
    labels = [*(row.label for row in timeline.rows), *(f"mbarrier {b:,}" for b in barriers)]
    label_cells = max(cell_len(label) for label in labels)
    texts = [_shares(row) for row in timeline.rows]
    room = width - len(INDENT) - label_cells - 2 - max(map(cell_len, texts), default=0)
    cells = max(MIN_STRIP_CELLS, min(room, MAX_STRIP_CELLS))
    begin, end = (microseconds(cycle / hertz * 1e6) for cycle in window)
    axis = f"{begin} µs".ljust(cells - len(end) - 3) + f"{end} µs"
    yield Text(f"{INDENT}{' ' * label_cells} {axis}", "dim")
    for row, text in zip(timeline.rows, texts, strict=True):
        line = Text(f"{INDENT}{padded(row.label, label_cells)} ")
        for kind in _cells(row.spans, window, cells):
            mark, style, _ = MARKS.get(kind, (" ", "", ""))
            line.append(mark, style)
        line.append(f" {text}", "dim")
        yield line
    if window[0] > 0:
        for barrier in barriers:
            own = [phase for phase in timeline.phases if phase.barrier == barrier]
            ring = "".join(str(n % 10) for n in _phase_cells(own, window, cells))
            yield Text(f"{INDENT}{padded(f'mbarrier {barrier:,}', label_cells)} {ring}", "dim")


def _shares(row: TimelineRow) -> str:
    if not row.warps:
        return f"{percent(sum(row.shares.values()))} of the time"
    most = sorted(row.shares.items(), key=lambda share: -share[1])[:3]
    return ", ".join(f"{MARKS[kind][0]} {percent(share)}" for kind, share in most)


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
