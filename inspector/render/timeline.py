"""The timeline of a GPU: streams as rows, a bar a kernel, and what ran: lines, JSON, a picture.

Where a column is more time than a kernel takes, its height is the share of the time in
which the stream worked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.model import Recording
from inspector.base.units import plural, whole_percent
from inspector.measure.gpu_window import Gap, GpuWindow, optimizer_of
from inspector.measure.streams import Lane, Streams, Work, launch_work
from inspector.render.compiles import CompileLine
from inspector.render.costs import window_row
from inspector.render.jsons import SCHEMA, Rows
from inspector.render.kernel_names import titles
from inspector.render.profile import time
from inspector.render.tables import grid, padded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from inspector.measure.streams import Column

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
"""Of a terminal, for the kernels that take most time, in turn."""
EIGHTHS = " ▁▂▃▄▅▆▇█"
IDLE = "·"
MIN_LABEL_CELLS = 6
"""Cells of a bar in which there is a name."""
MAX_PAINTED = 2000
"""Bars of a view that are drawn one by one, the longest."""
TICK_CELLS = 14
"""Cells from one tick of the axis to the next, at least."""
MIN_COLUMN_NS = 1000
"""The time of a column at which zooming ends."""
MAX_BANDS = 8
"""Lines of each stream, one below the other, in a text."""
BAR_CELLS = 3
"""Cells that a bar of a text has on the average, where there are bands enough."""
MAX_ROWS = 40
"""Spans that a text lists."""
MAX_PICTURED = 400
"""Bars of a page's picture."""
PAGE_COLOURS = 6
"""Colours of a page's kernels; 0 is for all else."""
HEADS = ("start", "gap", "time", "kernel")
WHY_EMPTY = (
    "no timeline: CUPTI recorded no work of a GPU in this run; ptxview profile SCRIPT --timeline "
    "shows a step of torch.profiler"
)
UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


class View(Struct, frozen=True):
    """The part of a timeline that is drawn: ns from ``begin`` to ``end`` on ``columns`` cells."""

    begin: float
    end: float
    columns: int

    @property
    def length(self) -> float:
        return self.end - self.begin

    def place(self, ns: Column) -> NDArray[np.float64]:
        """Where times are, in columns."""
        return (ns.astype(float) - self.begin) * (self.columns / self.length)


class Bar(Struct, frozen=True):
    """Cells of a lane: of the span with the index ``span``, or idle; ``label`` is a name in it."""

    text: str
    span: int | None
    label: bool = False


class NamedTimeline(Struct, frozen=True):
    """A timeline with what its kernels are called, and the rank of each by its time."""

    streams: Streams
    names: Sequence[str]
    ranks: Sequence[int]

    def name(self, span: int) -> str:
        return self.names[int(self.streams.work[span])]

    def work(self, span: int) -> Work:
        return self.streams.works[int(self.streams.work[span])]

    def rank(self, span: int) -> int | None:
        """The rank of a kernel by its time, from 0; None of a copy or a set."""
        index = int(self.streams.work[span])
        return self.ranks[index] if self.streams.works[index].kind == "kernel" else None


def named_timeline(streams: Streams, rec: Recording) -> NamedTimeline:
    """A timeline with the names of its kernels in a recording."""
    import numpy as np

    spent = np.bincount(streams.work, streams.end - streams.start, len(streams.works))
    ranks = np.argsort(np.argsort(-spent, kind="stable"))
    namer = kernel_names(rec)
    return NamedTimeline(
        streams, [work_name(work, namer) for work in streams.works], ranks.tolist()
    )


def kernel_names(rec: Recording) -> Mapping[str, str]:
    """What kernels are called, by their ids."""
    return {kernel.id: shown(kernel.display_name) for kernel in rec.kernels} | titles(rec)


def work_name(work: Work, namer: Mapping[str, str]) -> str:
    return namer.get(work.kernel or "", shown(work.name))


def lane_label(lane: Lane, lanes: Sequence[Lane]) -> str:
    """``stream 7``, with the device where there are several."""
    if lane.stream is None:
        return "GPU"
    several = len({other.device for other in lanes}) > 1
    return f"GPU {lane.device} stream {lane.stream}" if several else f"stream {lane.stream}"


# -- lanes of bars --------------------------------------------------------------------------------


def axis(view: View, origin: float = 0.0) -> str:
    """Times at their columns, each behind a tick, in ns since ``origin`` and one unit."""
    step = _tick_length(view.length / max(view.columns // TICK_CELLS, 1))
    unit, unit_ns = next((unit, ns) for unit, ns in UNITS if step >= ns or ns == 1)
    line = ""
    number = math.ceil((view.begin - origin) / step)
    while origin + number * step < view.end:
        column = int((origin + number * step - view.begin) / view.length * view.columns)
        label = f"╷{number * step / unit_ns:,.10g} {unit}"
        if column + len(label) <= view.columns:
            line = line.ljust(column) + label
        number += 1
    return line


def _tick_length(least: float) -> float:
    """The next of 1, 2, 5, 10, … that is not below."""
    size = 1.0
    while size * 10 <= least:
        size *= 10
    return next(size * times for times in (1, 2, 5, 10) if size * times >= least)


def lane_bars(
    timeline: NamedTimeline, lane: int, view: View, selected_span: int | None = None
) -> list[Bar]:
    """A stream's row: what ran in each column, names where there is room, idle columns dotted.

    Args:
        timeline: The whole.
        lane: The index of the stream.
        view: What is drawn.
        chosen: The span that is drawn even if it shares its column.
    """
    streams = timeline.streams
    indexes = streams.between(int(view.begin), int(view.end) + 1)
    indexes = indexes[streams.lane[indexes] == lane]
    owners = _owners(streams, indexes, view, selected_span)
    heights = _heights(streams, indexes, view)
    bars: list[Bar] = []
    column = 0
    while column < view.columns:
        last = column
        while last < view.columns and owners[last] == owners[column]:
            last += 1
        span = owners[column]
        if span is None:
            bars.append(Bar(IDLE * (last - column), None))
        else:
            bars += _bar(timeline.name(span), span, heights[column:last])
        column = last
    return bars


def _bar(name: str, span: int, heights: Sequence[int]) -> Iterator[Bar]:
    """A bar with as much of its name as fits."""
    solid = all(height >= 7 for height in heights[1:-1])
    room = len(heights) - 2 if solid and len(heights) >= MIN_LABEL_CELLS else 0
    label = padded(name, room).rstrip() if room else ""
    drawn = "".join(EIGHTHS[height] for height in heights)
    if label:
        yield Bar(drawn[0], span)
        yield Bar(label, span, label=True)
        yield Bar(drawn[1 + len(label) :], span)
    else:
        yield Bar(drawn, span)


def _owners(
    streams: Streams, indexes: Column, view: View, selected_span: int | None
) -> list[int | None]:
    """The span of each column: the longer before the shorter, None where the stream is idle."""
    import numpy as np

    owners: list[int | None] = [None] * view.columns
    durations = streams.end[indexes] - streams.start[indexes]
    order = indexes[np.argsort(durations, kind="stable")[-MAX_PAINTED:]]
    begins = view.place(streams.start[order])
    ends = view.place(streams.end[order])
    rounds = ((np.floor(begins), np.ceil(ends)), (np.rint(begins), np.rint(ends)))
    for firsts, lasts in rounds:
        bounds = np.clip(np.stack((firsts, lasts)), 0, view.columns).astype(int).tolist()
        for span, first, last in zip(order.tolist(), *bounds, strict=True):
            owners[first:last] = [span] * (last - first)
    if selected_span is not None and selected_span in indexes and selected_span not in owners:
        place = int(view.place(streams.start[[selected_span]])[0])
        owners[min(max(place, 0), view.columns - 1)] = selected_span
    return owners


def _heights(streams: Streams, indexes: Column, view: View) -> list[int]:
    """How much of each column the stream worked, in eighths; 1 at least where it worked at all."""
    import numpy as np

    edges = np.arange(view.columns + 1.0)
    begins = np.sort(np.clip(view.place(streams.start[indexes]), 0, view.columns))
    ends = np.sort(np.clip(view.place(streams.end[indexes]), 0, view.columns))
    worked = _time_after(begins, edges) - _time_after(ends, edges)
    shares = np.clip(np.diff(worked), 0, 1)
    heights: list[int] = np.maximum(np.rint(shares * 8), 1).astype(int).tolist()
    return heights


def _time_after(moments: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each edge the sum of the times that have passed since the moments before it."""
    import numpy as np

    counts = np.searchsorted(moments, edges)
    sums = np.append(0.0, np.cumsum(moments))
    passed: NDArray[np.float64] = counts * edges - sums[counts]
    return passed


# -- text -----------------------------------------------------------------------------------------


def heading(window: GpuWindow) -> str:
    """A recorded window in one line."""
    columns = window.spans.columns
    lanes = set(zip(columns["device"].tolist(), columns["stream"].tolist(), strict=True))
    length = time(window.seconds * 1e6)
    busy = window.busy_percent
    parts = [
        f"{length} of the run" if busy is None else f"GPU busy {whole_percent(busy)} of {length}"
    ]
    if window.steps is not None:
        kind = shown(window.steps.kind)
        count = plural(window.steps.count, "step")
        parts.append(f"{count} of {time(window.steps.us)} ({kind})")
    parts.append(plural(window.launches, "launch"))
    parts.append(plural(len(lanes), "stream"))
    return " · ".join(parts)


def gap_rows(window: GpuWindow, rec: Recording, width: int) -> Iterator[Text]:
    """The longest gaps: when and where they began, and what ran before and after them."""
    namer = kernel_names(rec)
    several = len(set(window.spans.columns["device"].tolist())) > 1
    rows = []
    for gap in window.gaps:
        device = f"GPU {gap.following.device}" if several else ""
        start = moment(gap.following.start - round(gap.us * 1e3))
        rows.append((start, time(gap.us), *_sides(window, gap, namer), device))
    if rows:
        heads = ("start", "idle", "after", "before", "device" if several else "")
        gives = (("after", 24), ("before", 24), ("start", 0))
        yield from grid(heads, rows, width, ("start", "idle"), gives)


def _sides(window: GpuWindow, gap: Gap, namer: Mapping[str, str]) -> tuple[str, str]:
    previous = launch_work(window, gap.previous.launch, gap.previous.copy_kind)
    following = launch_work(window, gap.following.launch, gap.following.copy_kind)
    return work_name(previous, namer), work_name(following, namer)


def lines(timeline: NamedTimeline, width: int) -> Iterator[CompileLine]:
    """The first view in bands, one below the other, and its spans in the order of time."""
    streams = timeline.streams
    begin = streams.first.begin
    end = streams.first.end
    indexes = streams.between(begin, end)
    yield CompileLine(Text(_first_title(streams), "bold"))
    labels = [lane_label(lane, streams.lanes) for lane in streams.lanes]
    margin = max(map(len, labels)) + 2
    columns = max(width - margin, 20)
    bands = min(max(-(-len(indexes) * BAR_CELLS // columns), 1), MAX_BANDS)
    part = (end - begin) / bands
    for band in range(bands):
        view = View(begin + band * part, begin + (band + 1) * part, columns)
        yield CompileLine(Text(" " * margin + axis(view, begin), "dim"))
        for lane, label in enumerate(labels):
            line = Text(padded(label, margin))
            for bar in lane_bars(timeline, lane, view):
                line.append(bar.text, bar_style(timeline, bar))
            yield CompileLine(line)
    yield CompileLine(Text(""))
    yield from span_rows(timeline, indexes[:MAX_ROWS].tolist(), width, begin)
    if len(indexes) > MAX_ROWS:
        remaining = plural(len(indexes) - MAX_ROWS, "more span")
        yield CompileLine(Text(f"… and {remaining} in this part (--json has all)"))


def _first_title(streams: Streams) -> str:
    """What the part is that is shown first."""
    first = streams.first
    count = plural(len(streams.between(first.begin, first.end)), "span")
    text = f"{count} in {time((first.end - first.begin) / 1e3)}"
    if first.step is not None:
        return f"step {first.step + 1} of {streams.steps}, of median length: {text}"
    if first.end - first.begin < streams.length:
        return f"from {time(first.begin / 1e3)} on, where the GPU worked most: {text}"
    return text


def bar_style(timeline: NamedTimeline, bar: Bar) -> str:
    """The style of a bar on a terminal."""
    if bar.span is None:
        return "dim"
    rank = timeline.rank(bar.span)
    colour = "white" if rank is None else COLOURS[rank % len(COLOURS)]
    return f"{colour} reverse" if bar.label else colour


def span_rows(
    timeline: NamedTimeline, indexes: Sequence[int], width: int, origin: int = 0
) -> Iterator[CompileLine]:
    """A row for each span: start since ``origin``, gap before it, time, name."""
    streams = timeline.streams
    several = len(streams.lanes) > 1
    rows = []
    for index in indexes:
        idle = int(streams.idle[index])
        row = [moment(int(streams.start[index]) - origin), time(idle / 1e3) if idle else ""]
        row += [time(span_us(streams, index)), timeline.name(index)]
        if several:
            row.append(lane_label(streams.lanes[int(streams.lane[index])], streams.lanes))
        rows.append(row)
    heads = (*HEADS, "stream") if several else HEADS
    head, *body = grid(heads, rows, width, HEADS[:3], (("kernel", 24), ("start", 0)))
    yield CompileLine(head)
    for index, line in zip(indexes, body, strict=True):
        yield CompileLine(line, kernel=timeline.work(index).kernel)


def moment(ns: int) -> str:
    """When a span began, exactly enough to tell neighbours apart: ``1,645,123.46 µs``."""
    return f"{ns / 1e3:,.2f} µs"


def span_us(streams: Streams, index: int) -> float:
    return int(streams.end[index] - streams.start[index]) / 1e3


def describe(timeline: NamedTimeline, index: int) -> str:
    """A span in one line: what it is, when it began, how long it took, the gap before it."""
    streams = timeline.streams
    lane = streams.lanes[int(streams.lane[index])]
    parts = [f"at {moment(int(streams.start[index]))}", time(span_us(streams, index))]
    idle = int(streams.idle[index])
    parts.append(f"after {time(idle / 1e3)} idle" if idle else "no gap before it")
    if lane.stream is not None:
        parts.append(f"GPU {lane.device} stream {lane.stream}")
    return " · ".join((*parts, timeline.name(index)))


# -- JSON and pictures ----------------------------------------------------------------------------


def document(
    rec: Recording, window: GpuWindow | None, problems: Sequence[str]
) -> dict[str, object]:
    """``list --timeline``'s JSON."""
    return {
        "schema": SCHEMA,
        "recording": rec.path,
        "window": window_row(window),
        "spans": Rows(() if window is None else _spans_json(window)),
        "problems": list(problems),
    }


def _spans_json(window: GpuWindow) -> Iterator[dict[str, object]]:
    for span in merge(window.spans, window.marks, key=attrgetter("start")):
        work = launch_work(window, span.launch, span.copy_kind)
        is_mark = work.kind == "mark"
        optimizer = optimizer_of(span.bytes) if is_mark else None
        yield {
            "kind": work.kind,
            "kernel": work.kernel,
            "variant": work.variant,
            "start_us": span.start / 1e3,
            "us": (span.end - span.start) / 1e3,
            "device": None if is_mark else span.device,
            "stream": None if is_mark else span.stream,
            "bytes": span.bytes if work.kind in ("copy", "set") else None,
            "graph": span.bytes if is_mark and optimizer is None else None,
            "optimizer": optimizer,
        }


def picture(timeline: NamedTimeline, heads: Sequence[str]) -> dict[str, object]:
    """What a page draws: lanes, and bars as lane, start, µs, name and colour.

    ``heads`` are lines above it. Of many bars the shortest are left out, which ``footnote`` says.
    """
    import numpy as np

    streams = timeline.streams
    begin = streams.first.begin
    end = streams.first.end
    indexes = streams.between(begin, end)
    durations = streams.end[indexes] - streams.start[indexes]
    longest = np.argsort(-durations, kind="stable")[:MAX_PICTURED]
    footnote = ""
    if len(indexes) > len(longest):
        share = 100 * (1 - int(durations[longest].sum()) / int(durations.sum()))
        count = plural(len(indexes) - len(longest), "shorter span")
        footnote = f"{count} left out: {share:.1f} % of the time in which the GPU worked"
    bars = []
    for index in sorted(indexes[longest].tolist()):
        rank = timeline.rank(index)
        bars.append(
            {
                "lane": int(streams.lane[index]),
                "start_us": (int(streams.start[index]) - begin) / 1e3,
                "us": span_us(streams, index),
                "title": describe(timeline, index),
                "colour": 0 if rank is None else rank % PAGE_COLOURS + 1,
            }
        )
    return {
        "heads": [*heads, _first_title(streams)],
        "us": (end - begin) / 1e3,
        "lanes": [lane_label(lane, streams.lanes) for lane in streams.lanes],
        "bars": bars,
        "footnote": footnote,
    }
