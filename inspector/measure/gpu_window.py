"""What the GPU did while the program ran: how busy it was, its gaps, and the time of a step."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from inspector.base.model import Recording, Timeline
from inspector.base.text import PtxviewError
from inspector.recording.gpu_times import COPY, MARK, SET, Span, Window, read_timeline

Interval = tuple[int, int]

MAX_GAPS = 5
"""Gaps that are told, the longest first."""


class Gap(Struct, frozen=True):
    """A time in which the GPU did nothing: µs, and the spans before and after it."""

    us: float
    before: Span
    after: Span


class GpuWindow(Struct, frozen=True):
    """A part of the program's run, as the GPU saw it.

    It is the part of the newest watched window with most work between two launches that were new:
    compiling and first launches are left out where the program went on without them. ``spans`` and
    ``marks`` are in the order of time, in ns since the part began; ``busy_us`` is the time in which
    any span ran, on the busiest device. ``launches`` are kernels that ran, ``attributed`` those of
    known variants. ``step_us`` is the median time between calls of the compiled graph that is
    called once a step, None where none was called twice; ``steps`` is how many there are.
    """

    timeline: Timeline
    seconds: float
    spans: tuple[Span, ...]
    marks: tuple[Span, ...]
    busy_us: float
    launches: int
    attributed: int
    gaps: tuple[Gap, ...]
    steps: int
    step_us: float | None

    @property
    def busy_percent(self) -> float | None:
        return 100 * self.busy_us / (self.seconds * 1e6) if self.seconds else None


def gpu_window(recording: Recording) -> GpuWindow | None:
    """The window of the process that kept the GPU busiest; None where none was recorded."""
    windows = []
    for timeline in recording.timelines:
        try:
            window = read_timeline(timeline.content.read())
        except PtxviewError:
            continue
        windows.append(steady_part(timeline, window))
    return max(windows, key=lambda window: window.busy_us, default=None)


def steady_part(timeline: Timeline, window: Window) -> GpuWindow:
    """The part of a window with most work between two launches that were new, or all of it."""
    news = [round((time - window.began) * 1e9) for time in timeline.first_launches]
    borders = [0, *sorted(time for time in news if 0 < time < window.length), window.length + 1]
    own = [span for span in window.spans if span.launch not in timeline.tuning]
    ran = [span for span in own if span.launch != MARK]
    inside = [_within(ran, part) for part in pairwise(sorted(set(borders)))]
    spans = max(inside, key=busy_ns)
    part = (spans[0].start, spans[-1].end) if spans else (0, 0)
    marks = _within([span for span in own if span.launch == MARK], part)
    begin = min((span.start for span in (*spans, *marks)), default=0)
    end = max((span.end for span in (*spans, *marks)), default=0)
    kernels = [span for span in spans if span.launch not in (COPY, SET)]
    steps, step_us = step_time(marks)
    return GpuWindow(
        timeline=timeline,
        seconds=(end - begin) / 1e9,
        spans=tuple(_since(span, begin) for span in spans),
        marks=tuple(_since(span, begin) for span in marks),
        busy_us=busy_ns(spans) / 1e3,
        launches=len(kernels),
        attributed=sum(span.launch in timeline.variants for span in kernels),
        gaps=longest_gaps(spans),
        steps=steps,
        step_us=step_us,
    )


def _since(span: Span, begin: int) -> Span:
    return replace(span, start=span.start - begin, end=span.end - begin)


def _within(spans: Sequence[Span], part: Interval) -> Sequence[Span]:
    """The spans, in the order of time, that start in a part."""
    first, last = part
    start_of = attrgetter("start")
    return spans[bisect_left(spans, first, key=start_of) : bisect_left(spans, last, key=start_of)]


def busy_ns(spans: Iterable[Span]) -> int:
    """The time in which at least one of the spans ran, on the busiest device.

    Args:
        spans: In the order of time.
    """
    busy: Counter[int] = Counter()
    ends: dict[int, int] = {}
    for span in spans:
        end = ends.get(span.device, 0)
        busy[span.device] += max(span.end - max(span.start, end), 0)
        ends[span.device] = max(end, span.end)
    return max(busy.values(), default=0)


def longest_gaps(spans: Sequence[Span]) -> tuple[Gap, ...]:
    """The longest times in which the device of the first span did nothing, the longest first."""
    gaps: list[Gap] = []
    latest: Span | None = None
    for span in spans:
        if span.device != spans[0].device:
            continue
        if latest is not None and span.start > latest.end:
            gaps.append(Gap((span.start - latest.end) / 1e3, latest, span))
        if latest is None or span.end > latest.end:
            latest = span
    gaps.sort(key=lambda gap: -gap.us)
    return tuple(gaps[:MAX_GAPS])


def step_time(marks: Sequence[Span]) -> tuple[int, float | None]:
    """How many steps there are, and the median time of one in µs.

    A step goes from one call of a graph to its next: of the graphs that are called twice or more,
    the one that is called least often is called once a step; of several the first.
    """
    counts = Counter(mark.bytes for mark in marks)
    least = min((count for count in counts.values() if count > 1), default=None)
    if least is None:
        return 0, None
    number = next(mark.bytes for mark in marks if counts[mark.bytes] == least)
    starts = [mark.start for mark in marks if mark.bytes == number]
    return len(starts) - 1, median(end - start for start, end in pairwise(starts)) / 1e3
