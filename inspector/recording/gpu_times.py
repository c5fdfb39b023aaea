"""How long the GPU took for each launch, and what it did in the newest window of the run.

``probes/driver/activity.c`` writes both from CUPTI's activity records: times of each distinct
launch, and a file of all that ran in a window.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from inspector.base.errors import Unreadable
from inspector.base.model import GpuTime
from inspector.recording.decoding import is_launch_number
from inspector.recording.events import (
    DriverStarted,
    DriverTimes,
    Event,
    TimelineMark,
    TimelineRecorded,
)
from inspector.recording.processes import Process, Processes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LaunchKey = tuple[Process, int]

MAX_SPANS = 200_000
"""Spans of a window, as ``activity.c`` has it."""

COPY, SET, MARK = -2, -3, -4
"""Launch numbers of spans without a kernel, as ``activity.c`` has it; -1 is an unknown kernel."""

OPTIMIZER = 1 << 31
"""Numbers of an optimizer's marks begin here, as ``probes/driver/marks.py`` has it; those below are
calls of graphs."""

_HEAD = struct.Struct("<IIQQqQQ")
_SPAN = {
    "start": "<u8",
    "end": "<u8",
    "bytes": "<u8",
    "launch": "<i4",
    "stream": "<u4",
    "device": "<u2",
    "copy_kind": "<u2",
    "unused": "<u4",
}
"""Fields of a span in the file, and their types in numpy's words."""
SPAN_BYTES = 40
FORMAT = 2
MAX_NS = 1 << 53
"""Length of a window: 104 days. Above it floating-point numbers are no longer exact."""


class LaunchTimes(Struct, frozen=True):
    """Times of launches that were made alike, in ns; ``quartiles`` are 25 %, 50 % and 75 %."""

    timed: int
    sum: int
    shortest: int
    quartiles: tuple[int, int, int]


class Span(Struct, frozen=True):
    """One kernel, copy or set on the GPU, or a moment of the program.

    ``start`` and ``end`` are ns since the window began. ``launch`` is the number of a recorded
    launch, or negative: unknown kernel, ``COPY``, ``SET``, ``MARK``. ``bytes`` are a copy's or a
    set's, and a mark's number.
    """

    start: int
    end: int
    launch: int
    stream: int
    device: int
    bytes: int
    copy_kind: int = 0


class Spans:
    """Spans in the order of time, as columns: ``columns["start"]`` is an array of numpy.

    A window has up to 200,000 spans: a ``Span`` is made of those that are asked for.
    """

    def __init__(self, columns: NDArray[np.void]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, index: int) -> Span:
        return Span(**dict(zip(Span.__struct_fields__, self.columns[index].item(), strict=True)))

    def __iter__(self) -> Iterator[Span]:
        for values in self.columns.tolist():
            yield Span(*values)


class Window(Struct, frozen=True):
    """All that the GPU did in a window: ``length`` in ns, ``began`` in seconds since 1970.

    ``lost`` are records that CUPTI had no room for, in the whole run.
    """

    length: int
    began: float
    spans: Spans
    lost: int = 0


def read_timeline(data: bytes) -> Window:
    """Read a timeline file. Raises ``Unreadable`` where it is damaged or of another version."""
    import numpy as np  # who only lists kernels does not wait for it

    if len(data) < _HEAD.size:
        raise Unreadable("the timeline of the GPU is damaged: it is too short")
    version, span_bytes, began, ended, to_utc, count, lost = _HEAD.unpack_from(data)
    if version != FORMAT or span_bytes != SPAN_BYTES:
        raise Unreadable("the timeline of the GPU is of another version", "Update ptxview.")
    size = len(data) - _HEAD.size
    if count > MAX_SPANS or size != count * SPAN_BYTES or not began <= ended < began + MAX_NS:
        raise Unreadable("the timeline of the GPU is damaged: its sizes do not fit")
    records: NDArray[np.void] = np.frombuffer(data, list(_SPAN.items()), count, _HEAD.size)
    start, end = records["start"], records["end"]
    latest = np.uint64(min(began + MAX_NS, 2**64 - 1))
    valid = (began <= start) & (start <= end) & (end < latest) & (records["bytes"] < MAX_NS)
    records = records[valid]
    records = records[np.lexsort((records["end"], records["start"]))]
    types: Any = [(name, "i8") for name in Span.__struct_fields__]
    columns: NDArray[np.void] = np.empty(len(records), types)
    for name in Span.__struct_fields__:
        since = np.uint64(began if name in ("start", "end") else 0)
        columns[name] = records[name] - since if since else records[name]
    last = int(columns["end"].max(initial=0))
    return Window(max(ended - began, last), (began + to_utc) / 1e9, Spans(columns), lost)


class GpuTimes:
    """Collects the events of GPU times of all processes."""

    EVENTS = (DriverStarted, TimelineRecorded, TimelineMark, DriverTimes)
    """The events that it takes."""

    def __init__(self) -> None:
        self._processes = Processes("driver")
        self._times: dict[LaunchKey, LaunchTimes] = {}
        self._lost: dict[Process, int] = {}
        self.timelines: dict[Process, str] = {}
        self.marks: dict[int, dict[int, str]] = {}
        """Paths of graphs and classes of optimizers, by process id and their marks' number."""

    def take(self, event: Event) -> None:
        process = self._processes.process_of(event)
        if process is None:
            return
        match event:
            case TimelineRecorded(blob=str(blob)):
                self.timelines[process] = blob
            case TimelineMark(number=int(mark), name=str(name)):
                self.marks.setdefault(process[0], {})[mark] = name
            case DriverTimes():
                self._lost[process] = event.lost or 0
                for number, figures in event.times.items():
                    times = _launch_times(figures)
                    if times is not None and is_launch_number(number):
                        self._times[process, int(number)] = times

    def time_of(self, counts: Mapping[LaunchKey, int]) -> GpuTime | None:
        """The times of launches by their keys, each made as often as ``counts`` says."""
        rows = [(self._times[key], count) for key, count in counts.items() if key in self._times]
        launches = sum(count for _, count in rows)
        if not launches:
            return None
        mean = sum(count * times.sum / times.timed for times, count in rows) / launches
        return GpuTime(
            timed=sum(times.timed for times, _ in rows),
            mean_us=mean / 1e3,
            shortest_us=min(times.shortest for times, _ in rows) / 1e3,
            quartiles_us=_quartiles_us(rows),
        )

    def call_time(self, keys: Iterable[LaunchKey]) -> GpuTime | None:
        """The time of calls that launch these kernels, each as often in every call.

        What was launched less than half as often as the others prepared the calls. Quartiles of
        several kernels are summed.
        """
        rows = [self._times[key] for key in keys if key in self._times]
        if not rows:
            return None
        max_timed = max(times.timed for times in rows)
        rows = [times for times in rows if times.timed * 2 >= max_timed]
        calls = min(times.timed for times in rows)
        mean = 0.0
        shortest = low = middle = high = 0
        for times in rows:
            count = round(times.timed / calls)
            mean += count * times.sum / times.timed
            shortest += count * times.shortest
            low += count * times.quartiles[0]
            middle += count * times.quartiles[1]
            high += count * times.quartiles[2]
        return GpuTime(
            timed=calls,
            mean_us=mean / 1e3,
            shortest_us=shortest / 1e3,
            quartiles_us=(low / 1e3, middle / 1e3, high / 1e3),
        )

    def problems(self) -> Iterable[str]:
        """A sentence on records that CUPTI dropped."""
        if lost := sum(self._lost.values()):
            yield f"CUPTI had no room for {lost:,} records of the GPU: their launches have no time"


def _launch_times(figures: Sequence[int | None]) -> LaunchTimes | None:
    """How many launches were timed, their sum, the shortest and three quartiles, in ns."""
    numbers = [n for n in figures if n is not None and n >= 0]
    if len(figures) != 6 or len(numbers) != 6 or not numbers[0]:
        return None
    timed, total, shortest, low, middle, high = numbers
    return LaunchTimes(timed, total, shortest, (low, middle, high))


def _quartiles_us(rows: list[tuple[LaunchTimes, int]]) -> tuple[float, float, float]:
    """Quartiles of all launches: each kind of launch counts at its own quartiles, by its number."""
    if len(rows) == 1:
        low, middle, high = rows[0][0].quartiles
    else:
        points = sorted((ns, count) for times, count in rows for ns in times.quartiles)
        low = _quantile(points, 0.25)
        middle = _quantile(points, 0.5)
        high = _quantile(points, 0.75)
    return low / 1e3, middle / 1e3, high / 1e3


def _quantile(points: Sequence[tuple[int, int]], share: float) -> int:
    """The first value up to which there is a share of all; ``points`` are values and counts."""
    total = sum(count for _, count in points)
    passed = 0
    for value, count in points:
        passed += count
        if passed >= share * total:
            return value
    return points[-1][0]
