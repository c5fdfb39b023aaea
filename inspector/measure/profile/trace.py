"""Reads a trace's events into lanes of the CPU and pieces of the GPU's work."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from inspector.base.errors import Unreadable
from inspector.base.names import short_name
from inspector.base.text import plural, words

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Operator:
    """All calls of one operator, annotation or CUDA runtime function.

    ``kind`` is ``op``, ``annotation`` or ``runtime``. ``cpu_us`` is with what was called within,
    ``self_cpu_us`` without; ``gpu_us`` is of the kernels that it or those within launched,
    ``self_gpu_us`` of the operator alone. They equal torch's ``key_averages()``.
    """

    name: str
    kind: str
    calls: int
    cpu_us: float
    self_cpu_us: float
    gpu_us: float | None = None
    self_gpu_us: float | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """One way in which a kernel was launched, with the number and total time of these launches."""

    grid: Three | None
    block: Three | None
    registers: int | None
    shared_bytes: int | None
    calls: int
    gpu_us: float


@dataclass(frozen=True, slots=True)
class GpuWork:
    """All launches of a kernel, or all copies (``memcpy``) or fills (``memset``) of one sort.

    ``name`` is the trace's, demangled; ``short`` fits into a table. ``low_us`` and ``high_us`` are
    the shortest and the longest duration. ``kernel`` is the id of the recording's kernel
    and ``variants`` the ids of its variants that fit the launches (more than one: they cannot be
    told apart); ``fused`` the ATen operators that torch.compile fused into it.
    """

    name: str
    short: str
    kind: str
    calls: int
    gpu_us: float
    low_us: float
    high_us: float
    shapes: tuple[Shape, ...] = ()
    kernel: str | None = None
    variants: tuple[str, ...] = ()
    fused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chain:
    """The calls that launched a kernel: ``path`` from the outermost to the innermost."""

    path: tuple[str, ...]
    kernel: str
    calls: int
    gpu_us: float


@dataclass(frozen=True, slots=True)
class Overhead:
    """Where the time of the window went; None if no GPU took part.

    ``busy_us`` is the time in which any kernel, copy or fill ran on the device that had most;
    ``launches`` are calls that launch kernels, ``launch_us`` their CPU time; ``sync_us`` the CPU's
    time in calls that wait for the device. A gap is between two pieces of the device's work.
    """

    window_us: float
    devices: int = 0
    busy_us: float | None = None
    kernels: int = 0
    kernel_us: float | None = None
    median_kernel_us: float | None = None
    launches: int = 0
    launch_us: float | None = None
    median_launch_us: float | None = None
    syncs: int = 0
    sync_us: float | None = None
    gaps: int = 0
    gap_us: float | None = None
    median_gap_us: float | None = None


@dataclass(frozen=True, slots=True)
class Compiling:
    """Something that was compiled within the window: ``us`` of it, in the steps named."""

    what: str
    us: float
    count: int = 1
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of the program that was recorded.

    ``number`` counts from 1 in a recording. ``by`` is ``ptxview``, or ``program`` where the
    program ran torch.profiler itself. ``about`` says in words what the window is and how its steps
    were found; ``steps`` are the numbers of those within it, ``seen`` how many the program
    made. ``began`` and ``ended`` are seconds since 1970.
    """

    number: int
    by: str
    about: str
    rank: int | None = None
    pid: int | None = None
    steps: tuple[int, ...] = ()
    seen: int | None = None
    began: float | None = None
    ended: float | None = None
    trace: str | None = None
    torch: str | None = None
    stacks: bool = False
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Profile:
    """One window, summed up; ``events`` counts the trace's, ``notes`` are remarks on the trace."""

    window: Window
    operators: tuple[Operator, ...]
    kernels: tuple[GpuWork, ...]
    chains: tuple[Chain, ...]
    overhead: Overhead
    compiling: tuple[Compiling, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: int = 0
    device: Mapping[str, object] = field(default_factory=dict)


# -- what ran on the CPU --------------------------------------------------------------------------
# What ran on the CPU, a lane for each thread: which call contains which, by torch's rules.

OP, ANNOTATION, RUNTIME = 0, 1, 2
NOBODY = -1


class TextNumbers:
    """Each text once, by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        index = self._known.get(text)
        if index is None:
            index = self._known[text] = len(self.texts)
            self.texts.append(text)
        return index


class Lane:
    """The spans of one thread; times in ns of the trace's clock.

    ``build`` finds the ``parent`` of each span, and its time without its children (``own``). Spans
    that torch's tables leave out have ``kept`` 0.
    """

    def __init__(self) -> None:
        self.start, self.end = array("q"), array("q")
        self.name, self.kind = array("i"), array("b")
        self.parent = array("i")
        self.children = array("i")
        self.own = array("q")
        self.kept = array("b")
        self.order: list[int] = []

    def add(self, start: int, end: int, name: int, kind: int) -> int:
        """Add a span; returns its number in this lane."""
        self.start.append(start)
        self.end.append(end)
        self.name.append(name)
        self.kind.append(kind)
        return len(self.start) - 1

    def build(self) -> None:
        """Order spans by start and length; a parent is the innermost span that holds one whole."""
        count = len(self.start)
        start, end = self.start, self.end
        self.parent = array("i", [NOBODY]) * count
        self.children = array("i", [0]) * count
        self.own = array("q", (e - s for s, e in zip(start, end, strict=True)))
        self.kept = array("b", [1]) * count
        self.order = sorted(range(count), key=lambda n: (start[n], -end[n]))
        stack: list[int] = []
        for n in self.order:
            while stack and (start[n] >= end[stack[-1]] or end[n] > end[stack[-1]]):
                stack.pop()
            if stack:
                self.parent[n] = stack[-1]
                self.children[stack[-1]] += 1
            stack.append(n)
        self._merge()
        for n in self.order:
            if self.kept[n] and self.parent[n] != NOBODY:
                self.own[self.parent[n]] -= end[n] - start[n]

    def _merge(self) -> None:
        """Merge an operator with an only child of the same name, so that it counts once."""
        into: dict[int, int] = {}
        for n in self.order:
            above = self.parent[n]
            if above in into:
                above = self.parent[n] = into[above]
            if above != NOBODY and self.name[above] == self.name[n] and self.children[above] == 1:
                self.kept[n] = 0
                self.children[above] = self.children[n]
                into[n] = above


# -- a Chrome trace, event by event ---------------------------------------------------------------
# Reads a Chrome trace of Kineto event by event: large traces do not fit in memory.
#
# The trace is input like any other: what is damaged in it is passed over and counted.

CHUNK_CHARS = 4 << 20
# No event of Kineto's is a hundredth as long; one that is longer is damaged.
MAX_EVENT_CHARS = 1 << 20
# More events are not read: 5 million fill about a gigabyte of memory here.
MAX_EVENTS = 5_000_000
# As long as the most events could be; what is longer was not written by Kineto.
MAX_TRACE_CHARS = MAX_EVENTS * 4096
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_SKIPPED = re.compile(r"[\s,]*")
_NEXT = re.compile(r"\n[^\S\n]*+\{\s*+\"ph\"")


class Trace:
    """The events of one trace; ``header`` and the counts are known once they have been read.

    ``header`` is the part before the events (``deviceProperties``, ``schemaVersion`` …),
    ``damaged`` how many events could not be read, ``cut`` whether there were more than are read.
    """

    def __init__(self, data: bytes) -> None:
        """``data``: the file's content, compressed by gzip or not."""
        raw = io.BytesIO(data)
        packed = data[:2] == b"\x1f\x8b"
        self._text = io.TextIOWrapper(
            gzip.GzipFile(fileobj=raw) if packed else raw, "utf-8", "surrogateescape"
        )
        self.header: Mapping[str, object] = {}
        self.damaged = 0
        self.cut = False
        self._length = 0

    def events(self) -> Iterator[dict[str, object]]:
        """Every event, in the file's order. Raises ``Unreadable`` if the file is not a trace."""
        buffer = self._begin()
        decode = json.JSONDecoder(strict=False).raw_decode
        position = count = 0
        while True:
            skipped = _SKIPPED.match(buffer, position)
            position = skipped.end() if skipped else position
            try:
                event, end = decode(buffer, position)
            except (ValueError, RecursionError):
                if buffer.startswith("]", position):
                    return
                chunk = self._more()
                if chunk and len(buffer) - position < MAX_EVENT_CHARS:
                    buffer, position = buffer[position:] + chunk, 0
                    continue
                buffer, position = buffer + chunk, position
                next_event = _NEXT.search(buffer, position + 1)
                self.damaged += 1
                if next_event is None:
                    return
                position = next_event.start()
                continue
            position = end
            if position > CHUNK_CHARS:
                buffer, position = buffer[position:], 0
            if isinstance(event, dict):
                if count >= MAX_EVENTS:
                    self.cut = True
                    return
                count += 1
                yield event

    def _begin(self) -> str:
        text = ""
        while (start := _BEGIN.search(text)) is None:
            chunk = self._more()
            if not chunk or len(text) > 16 * CHUNK_CHARS:
                raise Unreadable("it is not a Chrome trace: it has no traceEvents")
            text += chunk
        try:
            header = json.loads(text[: start.end()] + "]}", strict=False)
        except (ValueError, RecursionError):
            header = {}
        self.header = header if isinstance(header, dict) else {}
        return text[start.end() :]

    def _more(self) -> str:
        try:
            chunk = self._text.read(CHUNK_CHARS)
        except (OSError, EOFError, zlib.error) as error:
            raise Unreadable(f"the trace is damaged: {error}") from None
        self._length += len(chunk)
        if self._length > MAX_TRACE_CHARS:
            raise Unreadable("the trace is too long to be real")
        return chunk


CPU_KINDS = {
    "cpu_op": OP,
    "user_annotation": ANNOTATION,
    "cuda_runtime": RUNTIME,
    "cuda_driver": RUNTIME,
}
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
# Names that torch's own tables leave out.
LEFT_OUT = words(
    "[memory] [OutOfMemory] profiler::_record_function_enter "
    "profiler::_record_function_enter_new profiler::_record_function_exit "
    "aten::is_leaf aten::output_nr aten::_version"
)
# The prefix of the emulated device's own operators.
EMULATED = "ptxview_target::"
STEP = "ProfilerStep#"
MAX_NS = 1 << 62  # ns


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of the GPU's work; times in ns, ``external``: the number of its operator."""

    start: int
    end: int
    name: int
    kind: str
    device: int
    external: int
    correlation: int
    shape: tuple[Three | None, Three | None, int | None, int | None]


class GatheredTrace:
    """A trace's content, ready to be summed up."""

    def __init__(self) -> None:
        self.names = TextNumbers()
        self.lanes: dict[object, Lane] = {}
        self.frames: dict[object, Lane] = {}
        self.work: list[Work] = []
        self.by_external: dict[int, tuple[object, int]] = {}
        self.by_correlation: dict[int, tuple[object, int]] = {}
        self.steps: list[tuple[int, int, int]] = []
        self.events = 0
        self.header: dict[str, object] = {}
        self.damaged, self.cut = 0, False
        self._shapes: dict[object, tuple[Three | None, Three | None, int | None, int | None]] = {}

    def spans(self) -> Iterator[tuple[object, Lane, int]]:
        """Every span of the CPU that counts: its thread, its lane, its number there."""
        for thread, lane in self.lanes.items():
            for n in lane.order:
                if lane.kept[n]:
                    yield thread, lane, n


def gather(data: bytes, stacks: bool = False) -> GatheredTrace:
    """Read a trace. Raises ``Unreadable`` if ``data`` is not one."""
    out = GatheredTrace()
    trace = Trace(data)
    for event in trace.events():
        if event.get("ph") == "X":
            try:
                _take(out, event, stacks)
            except (TypeError, ValueError, OverflowError, AttributeError):
                out.damaged += 1
    out.header = dict(trace.header)
    out.damaged += trace.damaged
    out.cut = trace.cut
    for lane in (*out.lanes.values(), *out.frames.values()):
        lane.build()
    return out


def _take(out: GatheredTrace, event: dict[str, object], stacks: bool) -> None:
    category = event.get("cat")
    if not isinstance(category, str):
        return
    kind = CPU_KINDS.get(category)
    if kind is not None:
        _cpu(out, event, kind)
    elif category in GPU_KINDS:
        _gpu(out, event, GPU_KINDS[category])
    elif stacks and category == "python_function":
        start, end = _times(event)
        lane = out.frames.setdefault(_thread(event), Lane())
        lane.add(start, end, out.names.number(str(event.get("name"))), OP)


def _times(event: dict[str, object]) -> tuple[int, int]:
    start, duration = event.get("ts"), event.get("dur", 0)
    if not isinstance(start, int | float) or not isinstance(duration, int | float):
        raise ValueError
    # µs with three places: whole nanoseconds, which add up exactly.
    begin = round(start * 1000)
    end = begin + round(duration * 1000)
    if not -MAX_NS < begin <= end < MAX_NS:
        raise ValueError
    return begin, end


def _thread(event: dict[str, object]) -> object:
    return (str(event.get("pid")), str(event.get("tid")))


def _cpu(out: GatheredTrace, event: dict[str, object], kind: int) -> None:
    name = str(event.get("name"))
    if name in LEFT_OUT or name.startswith(EMULATED):
        return
    start, end = _times(event)
    out.events += 1
    if kind == ANNOTATION and name.startswith(STEP):
        number = name.removeprefix(STEP)
        if number.isdecimal() and len(number) < 10:
            out.steps.append((int(number), start, end))
            name = STEP[:-1] + "*"
    thread = _thread(event)
    lane = out.lanes.get(thread)
    if lane is None:
        lane = out.lanes[thread] = Lane()
    span = lane.add(start, end, out.names.number(name), kind)
    arguments = event.get("args")
    if isinstance(arguments, dict):
        if kind == RUNTIME:
            correlation = arguments.get("correlation")
            if isinstance(correlation, int):
                out.by_correlation[correlation] = (thread, span)
        else:
            external = arguments.get("External id")
            if isinstance(external, int):
                out.by_external[external] = (thread, span)


def _gpu(out: GatheredTrace, event: dict[str, object], kind: str) -> None:
    start, end = _times(event)
    out.events += 1
    raw_arguments = event.get("args")
    arguments: dict[str, object] = raw_arguments if isinstance(raw_arguments, dict) else {}
    grid, block = _three(arguments.get("grid")), _three(arguments.get("block"))
    shape = (
        grid,
        block,
        whole(arguments.get("registers per thread")),
        whole(arguments.get("shared memory")),
    )
    shape = out._shapes.setdefault(shape, shape)
    out.work.append(
        Work(
            start,
            end,
            out.names.number(str(event.get("name"))),
            kind,
            whole(arguments.get("device")) or 0,
            whole(arguments.get("External id")) or 0,
            whole(arguments.get("correlation")) or 0,
            shape,
        )
    )


def whole(value: object) -> int | None:
    """A whole number of JSON; None for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _three(value: object) -> Three | None:
    if isinstance(value, list) and len(value) == 3 and all(isinstance(n, int) for n in value):
        return (value[0], value[1], value[2])
    return None


KINDS = {OP: "op", ANNOTATION: "annotation", RUNTIME: "runtime"}
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "hipLaunch")
WAITS = ("Synchronize", "StreamWaitValue")
COMPILES = " (dynamo_timed)"
# Different launches of one kernel, and chains to one, that are kept; the rest are summed up.
MAX_SHAPES = 64
MAX_PATH_CALLS = 64


def summarise(data: bytes, window: Window) -> Profile:
    """The profile of one trace. Raises ``Unreadable`` if ``data`` is not a trace."""
    return summed(gather(data), window)


def summed(trace: GatheredTrace, window: Window) -> Profile:
    """The profile of a gathered trace."""
    gpu = bool(trace.work) or (window.gpu and any(RUNTIME in v.kind for v in trace.lanes.values()))
    paths = _Paths(trace)
    launched: dict[tuple[object, int], int] = defaultdict(int)
    chains: dict[tuple[tuple[str, ...], int], list[int]] = defaultdict(lambda: [0, 0])
    for work in trace.work:
        owner = paths.owner(work)
        duration = work.end - work.start
        if owner is not None:
            launched[owner] += duration
        if work.kind == "kernel":
            chain = chains[paths.to(work, owner), work.name]
            chain[0] += 1
            chain[1] += duration
    notes = []
    if window.gpu and not gpu:
        notes.append("the program used CUDA, and CUPTI recorded nothing of it: times are unknown")
    if trace.cut:
        notes.append(f"the trace is longer than is read: its first {trace.events:,} events count")
    if trace.damaged:
        notes.append(f"{plural(trace.damaged, 'event')} of the trace could not be read")
    first, last = _bounds(trace)
    return Profile(
        window=replace(window, steps=tuple(sorted({n for n, _, _ in trace.steps})), gpu=gpu),
        operators=tuple(_operators(trace, launched, gpu)),
        kernels=tuple(_kernels(trace)),
        chains=tuple(
            sorted(
                (
                    Chain(path, trace.names.texts[name], calls, ns / 1000)
                    for (path, name), (calls, ns) in chains.items()
                ),
                key=lambda c: (-c.gpu_us, c.path),
            )
        ),
        overhead=_overhead(trace, gpu, first, last),
        compiling=tuple(_compiling(trace, first, last)),
        notes=tuple(notes),
        events=trace.events,
        device=_device(trace),
    )


class _Paths:
    """Finds the call that launched a piece of work, and the calls around it."""

    def __init__(self, trace: GatheredTrace) -> None:
        self._held = trace
        self._known: dict[tuple[object, int], tuple[str, ...]] = {}

    def owner(self, work: Work) -> tuple[object, int] | None:
        """The thread and span of the operator or annotation that torch links the work with."""
        launch = self._held.by_external.get(work.external)
        if launch is None:
            return None
        thread, span = launch
        lane = self._held.lanes[thread]
        while not lane.kept[span]:
            span = lane.parent[span]
        return thread, span

    def to(self, work: Work, owner: tuple[object, int] | None) -> tuple[str, ...]:
        """Names from the outermost call to the innermost, the CUDA runtime's own left out."""
        place = owner
        if place is None:
            # Launched outside of every operator, as Triton does: the calls around the launch.
            place = self._held.by_correlation.get(work.correlation)
        return () if place is None else self._path(place)

    def _path(self, place: tuple[object, int]) -> tuple[str, ...]:
        known_path = self._known.get(place)
        if known_path is not None:
            return known_path
        thread, span = place
        lane = self._held.lanes[thread]
        names: list[str] = []
        ancestor = span
        while ancestor != NOBODY and len(names) < MAX_PATH_CALLS:
            name = self._held.names.texts[lane.name[ancestor]]
            if (
                lane.kept[ancestor]
                and lane.kind[ancestor] != RUNTIME
                and not name.startswith(STEP[:-1])
            ):
                names.append(name)
            ancestor = lane.parent[ancestor]
        self._known[place] = tuple(reversed(names))
        return self._known[place]


def _operators(
    trace: GatheredTrace, launched: dict[tuple[object, int], int], gpu: bool
) -> Iterable[Operator]:
    within: dict[tuple[object, int], int] = defaultdict(int, launched)
    for thread, lane in trace.lanes.items():
        # Inner spans come after those that contain them.
        for n in reversed(lane.order):
            above = lane.parent[n]
            if lane.kept[n] and above != NOBODY and (spent := within.get((thread, n))):
                within[thread, above] += spent
    sums: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for thread, lane, n in trace.spans():
        row = sums[lane.name[n], lane.kind[n]]
        row[0] += 1
        row[1] += lane.end[n] - lane.start[n]
        row[2] += lane.own[n]
        row[3] += within.get((thread, n), 0)
        row[4] += launched.get((thread, n), 0)
    rows = (
        Operator(
            trace.names.texts[name],
            KINDS[kind],
            calls,
            cpu / 1000,
            own / 1000,
            total / 1000 if gpu else None,
            itself / 1000 if gpu else None,
        )
        for (name, kind), (calls, cpu, own, total, itself) in sums.items()
    )
    return sorted(rows, key=lambda r: (-(r.self_gpu_us or 0), -(r.gpu_us or 0), -r.self_cpu_us))


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    ns: int = 0
    low: int | None = None
    high: int = 0
    shapes: dict[object, list[int]] = field(default_factory=dict)


def _kernels(trace: GatheredTrace) -> Iterable[GpuWork]:
    sums: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
    for work in trace.work:
        row = sums[work.name, work.kind]
        duration = work.end - work.start
        row.calls += 1
        row.ns += duration
        row.low = duration if row.low is None else min(row.low, duration)
        row.high = max(row.high, duration)
        if work.kind == "kernel" and (work.shape in row.shapes or len(row.shapes) < MAX_SHAPES):
            shape = row.shapes.setdefault(work.shape, [0, 0])
            shape[0] += 1
            shape[1] += duration
    rows = []
    for (number, kind), row in sums.items():
        name = trace.names.texts[number]
        shapes = tuple(
            Shape(*key, calls=calls, gpu_us=ns / 1000)  # type: ignore[misc]
            for key, (calls, ns) in sorted(row.shapes.items(), key=lambda s: -s[1][1])
        )
        rows.append(
            GpuWork(
                name,
                short_name(name) if kind == "kernel" else name,
                kind,
                row.calls,
                row.ns / 1000,
                (row.low or 0) / 1000,
                row.high / 1000,
                shapes,
            )
        )
    return sorted(rows, key=lambda r: (-r.gpu_us, r.name))


def _bounds(trace: GatheredTrace) -> tuple[int, int]:
    """First and last ns of the window: of its steps if it has any, and of the device's work."""
    if trace.steps:
        first = min(s for _, s, _ in trace.steps)
        last = max(e for _, _, e in trace.steps)
    else:
        lanes = [lane for lane in trace.lanes.values() if lane.start]
        starts = [min(lane.start) for lane in lanes] + [w.start for w in trace.work]
        ends = [max(lane.end) for lane in lanes]
        first, last = min(starts, default=0), max(ends, default=0)
    return first, max([last, *(w.end for w in trace.work)])


def _overhead(trace: GatheredTrace, gpu: bool, first: int, last: int) -> Overhead:
    window_us = (last - first) / 1000
    if not gpu:
        return Overhead(window_us)
    devices: dict[int, list[Work]] = defaultdict(list)
    for work in trace.work:
        if work.end > first:
            devices[work.device].append(work)
    best: tuple[int, list[int]] = (0, [])
    for pieces in devices.values():
        best = max(best, _busy(pieces, first), key=lambda busy_and_gaps: busy_and_gaps[0])
    kernels = [w.end - w.start for w in trace.work if w.kind == "kernel"]
    launches, waits = _runtime(trace, LAUNCHES, ()), _runtime(trace, (), WAITS)
    gaps = best[1]
    return Overhead(
        window_us=window_us,
        devices=len(devices),
        busy_us=best[0] / 1000,
        kernels=len(kernels),
        kernel_us=sum(kernels) / 1000,
        median_kernel_us=_median(kernels),
        launches=len(launches),
        launch_us=sum(launches) / 1000,
        median_launch_us=_median(launches),
        syncs=len(waits),
        sync_us=sum(waits) / 1000,
        gaps=len(gaps),
        gap_us=sum(gaps) / 1000,
        median_gap_us=_median(gaps),
    )


def _median(ns: Sequence[int]) -> float | None:
    """The median in µs; None if there are no values."""
    return median(ns) / 1000 if ns else None


def _busy(pieces: Sequence[Work], first: int) -> tuple[int, list[int]]:
    """ns in which a device did anything on any stream, and the gaps in between."""
    busy, gaps, until = 0, [], None
    for work in sorted(pieces, key=lambda w: w.start):
        start = max(work.start, first)
        if until is None:
            until = start
        elif start > until:
            gaps.append(start - until)
            until = start
        if work.end > until:
            busy += work.end - until
            until = work.end
    return busy, gaps


def _runtime(
    trace: GatheredTrace, beginnings: tuple[str, ...], parts: tuple[str, ...]
) -> list[int]:
    """The duration in ns of each CUDA runtime call whose name begins or contains so."""
    names = {
        n
        for n, text in enumerate(trace.names.texts)
        if (beginnings and text.startswith(beginnings)) or any(p in text for p in parts)
    }
    return [
        lane.end[n] - lane.start[n]
        for _, lane, n in trace.spans()
        if lane.kind[n] == RUNTIME and lane.name[n] in names
    ]


def _compiling(trace: GatheredTrace, first: int, last: int) -> Iterable[Compiling]:
    """torch.compile's own annotations within the window, only the outermost of those nested."""
    texts = trace.names.texts
    marks = {n for n, text in enumerate(texts) if text.endswith(COMPILES)}
    spans_of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for _, lane, n in trace.spans():
        if lane.name[n] not in marks or lane.end[n] <= first or lane.start[n] >= last:
            continue
        above = lane.parent[n]
        while above != NOBODY and lane.name[above] not in marks:
            above = lane.parent[above]
        if above == NOBODY:
            what = texts[lane.name[n]].removesuffix(COMPILES)
            spans_of[what].append((max(lane.start[n], first), min(lane.end[n], last)))
    for what, spans in spans_of.items():
        steps = {n for n, s, e in trace.steps for a, b in spans if a < e and b > s}
        yield Compiling(
            f"torch.compile ({what})",
            sum(b - a for a, b in spans) / 1000,
            len(spans),
            tuple(sorted(steps)),
        )


def _device(trace: GatheredTrace) -> dict[str, object]:
    devices = trace.header.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices else {}
    return {"name": str(first["name"])} if isinstance(first, dict) and "name" in first else {}


# -- stacks ----------------------------------------------------------------------------------------


_SPACES = str.maketrans(" ;\t\r\n", "_____")
OURS = ("ptxview_probes", "inspector/probes/", "torch/profiler/")


def stacks(data: bytes, gpu: bool) -> list[str]:
    """A line a stack, with the µs of its innermost operator itself: the GPU's, or the CPU's.

    Raises ``Unreadable`` for what is no trace.
    """
    trace = gather(data, stacks=True)
    own = _gpu_times(trace) if gpu else None
    sums: dict[str, int] = defaultdict(int)
    for thread, lane in trace.lanes.items():
        frames = trace.frames.get(thread)
        around = _around(lane, frames)
        seen_frames: dict[int, str] = {}
        for n in lane.order:
            if not lane.kept[n] or (lane.kind[n] == RUNTIME and gpu):
                continue
            duration = lane.own[n] if own is None else own.get((thread, n), 0)
            if duration <= 0:
                continue
            words = [_frames(trace, frames, around[n], seen_frames)] if frames is not None else []
            words += [w.translate(_SPACES) for w in _calls(trace, lane, n)]
            line = ";".join(w for w in words if w)
            if line:
                sums[line] += duration
    return [f"{line} {ns // 1000}" for line, ns in sorted(sums.items()) if ns >= 1000]


def _gpu_times(trace: GatheredTrace) -> dict[tuple[object, int], int]:
    out: dict[tuple[object, int], int] = defaultdict(int)
    for work in trace.work:
        launch = trace.by_external.get(work.external) or trace.by_correlation.get(work.correlation)
        if launch is not None:
            thread, span = launch
            lane = trace.lanes[thread]
            while not lane.kept[span] or (
                lane.kind[span] == RUNTIME and lane.parent[span] != NOBODY
            ):
                span = lane.parent[span]
            out[thread, span] += work.end - work.start
    return out


def _around(lane: Lane, frames: Lane | None) -> dict[int, int]:
    """For each span, the innermost Python function that contains it."""
    out = dict.fromkeys(lane.order, NOBODY)
    if frames is None:
        return out
    stack: list[int] = []
    next_frame = 0
    for n in lane.order:
        while (
            next_frame < len(frames.order)
            and frames.start[frames.order[next_frame]] <= lane.start[n]
        ):
            stack.append(frames.order[next_frame])
            next_frame += 1
        # One that has ended never comes back; one that is still open stays below.
        while stack and frames.end[stack[-1]] <= lane.start[n]:
            stack.pop()
        out[n] = stack[-1] if stack else NOBODY
    return out


def _frames(trace: GatheredTrace, frames: Lane, frame: int, texts: dict[int, str]) -> str:
    """Names of Python's functions from the outermost to this one."""
    todo: list[int] = []
    while frame != NOBODY and frame not in texts:
        todo.append(frame)
        frame = frames.parent[frame]
    text = texts.get(frame, "")
    for pending in reversed(todo):
        name = trace.names.texts[frames.name[pending]]
        word = "" if any(part in name for part in OURS) else name.translate(_SPACES)
        text = texts[pending] = ";".join(w for w in (text, word) if w)
    return text


def _calls(trace: GatheredTrace, lane: Lane, n: int) -> list[str]:
    """Names of the operators from the outermost to this one."""
    out: list[str] = []
    span = n
    while span != NOBODY and len(out) < 64:
        name = trace.names.texts[lane.name[span]]
        if lane.kept[span] and not name.startswith(STEP[:-1]):
            out.append(name)
        span = lane.parent[span]
    return out[::-1]
