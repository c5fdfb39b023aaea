"""What the GPU did while the program ran: how busy it was, its gaps, and the time of a step."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Recording, Timeline
from inspector.recording.gpu_times import (
    COPY,
    MARK,
    OPTIMIZER,
    SET,
    Span,
    Spans,
    Window,
    read_timeline,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_GAPS = 5
"""Gaps that are reported, the longest first."""


class Gap(Struct, frozen=True):
    """A time in which the GPU did nothing: µs, and the spans before and after it."""

    us: float
    previous: Span
    following: Span


class Steps(Struct, frozen=True):
    """Steps of a program, from each mark of one number to the next.

    ``number`` is that of the marks: a step of an optimizer or a call of a graph, of the class or
    with the id ``name``. ``starts`` are ns since the window began, with the end of the last step.
    """

    number: int
    name: str | None
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def us(self) -> float:
        """The median time of a step."""
        return median(end - start for start, end in pairwise(self.starts)) / 1e3

    @property
    def is_optimizers(self) -> bool:
        return self.number >= OPTIMIZER

    @property
    def kind(self) -> str:
        """``step of AdamW``, ``call of graph 0/0``."""
        if self.is_optimizers:
            return f"step of {self.name or 'an optimizer'}"
        if self.name is None:
            return "call of a graph"
        named = self.name if self.name.startswith("graph") else f"graph {self.name}"
        return f"call of {named}"


def optimizer_of(mark: int) -> int | None:
    """The optimizer that a mark's number is of, from 0; None of a call of a graph."""
    return mark - OPTIMIZER if mark >= OPTIMIZER else None


class GpuWindow(Struct, frozen=True):
    """A part of the program's run, as the GPU saw it.

    It is the part of the newest watched window with most work between two launches that were new:
    compiling and first launches are left out where the program went on without them. ``spans`` and
    ``marks`` are in the order of time, in ns since the part began; ``busy_us`` is the time in which
    any span ran, on the busiest device. ``launches`` are kernels that ran, ``attributed`` those of
    known variants. ``steps`` are there where an optimizer or a compiled graph marked two or more.
    """

    timeline: Timeline
    seconds: float
    spans: Spans
    marks: Spans
    busy_us: float
    launches: int
    attributed: int
    gaps: tuple[Gap, ...]
    steps: Steps | None

    @property
    def busy_percent(self) -> float | None:
        return 100 * self.busy_us / (self.seconds * 1e6) if self.seconds else None


def gpu_window(recording: Recording) -> GpuWindow | None:
    """The window of the process that kept the GPU busiest; None where none can be read."""
    return read_windows(recording)[0]


def read_windows(recording: Recording) -> tuple[GpuWindow | None, list[str]]:
    """As ``gpu_window``, and why windows of other processes cannot be read."""
    windows = []
    problems = []
    for timeline in recording.timelines:
        try:
            window = read_timeline(timeline.content.read())
        except PtxviewError as error:
            problems.append(f"process {timeline.process}: {error.message}")
        else:
            windows.append(steady_part(timeline, window))
    return max(windows, key=lambda window: window.busy_us, default=None), problems


def steady_part(timeline: Timeline, window: Window) -> GpuWindow:
    """The part of a window with most work between two launches that were new, or all of it."""
    import numpy as np

    columns = window.spans.columns
    columns = columns[~np.isin(columns["launch"], list(timeline.tuning))]
    is_mark = columns["launch"] == MARK
    spans = _busiest_part(timeline, window, columns[~is_mark])
    marks = columns[is_mark]
    if len(spans):
        first, last = np.searchsorted(marks["start"], (spans["start"][0], spans["end"][-1]))
        marks = marks[first:last]
    else:
        marks = marks[:0]
    begin = min((int(part["start"].min()) for part in (spans, marks) if len(part)), default=0)
    end = max((int(part["end"].max()) for part in (spans, marks) if len(part)), default=0)
    for part in (spans, marks):
        part["start"] -= begin
        part["end"] -= begin
    is_kernel = ~np.isin(spans["launch"], (COPY, SET))
    return GpuWindow(
        timeline=timeline,
        seconds=(end - begin) / 1e9,
        spans=Spans(spans),
        marks=Spans(marks),
        busy_us=busy_ns(spans) / 1e3,
        launches=int(is_kernel.sum()),
        attributed=int(np.isin(spans["launch"], list(timeline.variants)).sum()),
        gaps=longest_gaps(Spans(spans)),
        steps=steps_of(timeline, marks),
    )


def _busiest_part(timeline: Timeline, window: Window, spans: NDArray[np.void]) -> NDArray[np.void]:
    """A copy of the spans between those two first launches that have most work between them."""
    import numpy as np

    news = [round((time - window.began) * 1e9) for time in timeline.first_launches]
    borders = {0, *(time for time in news if 0 < time < window.length), window.length + 1}
    indexes = np.unique(np.searchsorted(spans["start"], sorted(borders)))
    parts = [spans[first:last] for first, last in pairwise(indexes)]
    return max(parts, key=busy_ns, default=spans[:0]).copy()


def busy_ns(spans: NDArray[np.void]) -> int:
    """The time in which at least one of the spans ran, on the busiest device.

    Args:
        spans: Columns in the order of time.
    """
    import numpy as np

    busy = [0]
    for device in np.unique(spans["device"]):
        of_device = spans[spans["device"] == device]
        ends = np.maximum.accumulate(of_device["end"])
        begins = of_device["start"].copy()
        begins[1:] = np.maximum(begins[1:], ends[:-1])
        busy.append(int(np.maximum(of_device["end"] - begins, 0).sum()))
    return max(busy)


def idle_before(
    start: NDArray[np.int64], end: NDArray[np.int64], device: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For how many ns the device did nothing before each span, and which span ended there.

    Args:
        start: Of the spans in ns, in order.
        end: In ns.
        device: Its number.

    Returns:
        The times, 0 where there is no gap, and the indexes of the spans before.
    """
    import numpy as np

    idle = np.zeros(len(start), np.int64)
    previous = np.arange(len(start))
    for number in np.unique(device):
        indexes = np.flatnonzero(device == number)
        ends = np.maximum.accumulate(end[indexes])
        is_latest = np.append(True, ends[1:] > ends[:-1])
        latest = np.maximum.accumulate(np.where(is_latest, np.arange(len(indexes)), 0))
        idle[indexes[1:]] = np.maximum(start[indexes[1:]] - ends[:-1], 0)
        previous[indexes[1:]] = indexes[latest[:-1]]
    return idle, previous


def longest_gaps(spans: Spans) -> tuple[Gap, ...]:
    """The longest times in which a device did nothing, the longest first."""
    import numpy as np

    columns = spans.columns
    idle, previous = idle_before(columns["start"], columns["end"], columns["device"])
    longest = np.argsort(-idle, kind="stable")[:MAX_GAPS]
    return tuple(
        Gap(int(idle[index]) / 1e3, spans[int(previous[index])], spans[int(index)])
        for index in longest
        if idle[index]
    )


def steps_of(timeline: Timeline, marks: NDArray[np.void]) -> Steps | None:
    """The steps between a process's marks; None without marks.

    A step goes from one mark to the next of the same number: of the first optimizer that stepped
    twice or more. Without optimizers, of the graphs that are called twice or more, the one that is
    called least often is called once a step; of several the first.
    """
    numbers = marks["bytes"].tolist()
    repeated = {number: count for number, count in Counter(numbers).items() if count > 1}
    optimizers = [number for number in repeated if number >= OPTIMIZER]
    if not repeated:
        return None
    first = min(optimizers, default=None)
    if first is None:
        least = min(repeated.values())
        first = next(number for number in numbers if repeated.get(number) == least)
    starts: list[int] = marks["start"][marks["bytes"] == first].tolist()
    return Steps(first, timeline.marks.get(first), tuple(starts))
