"""A profile's content, summed up from a Chrome trace of Kineto's.

Times are in µs as torch.profiler recorded them; None if there is no GPU to have taken them.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Annotated

from msgspec import Meta, Raw, Struct, field
from msgspec.json import Decoder
from msgspec.structs import replace

from inspector.base.errors import Unreadable
from inspector.base.names import short_name, words
from inspector.base.units import plural

Three = tuple[int, int, int]


class Operator(Struct, frozen=True):
    """All calls of one operator, annotation or CUDA runtime function.

    ``kind`` is ``op``, ``annotation`` or ``runtime``. ``self_`` times are without the calls within.
    They equal torch's ``key_averages()``.
    """

    name: str
    kind: str
    calls: int
    cpu_us: float
    self_cpu_us: float
    gpu_us: float | None = None
    self_gpu_us: float | None = None


class Shape(Struct, frozen=True):
    """One way in which a kernel was launched, with the number and total time of these launches."""

    grid: Three | None
    block: Three | None
    registers: int | None
    shared_bytes: int | None
    calls: int
    gpu_us: float


class GpuWork(Struct, frozen=True):
    """All launches of a kernel, or all copies (``memcpy``) or fills (``memset``) of one sort.

    ``name`` is the trace's, demangled; ``short`` fits into a table. ``low_us`` and ``high_us`` are
    the shortest and longest duration. ``kernel`` is the id of the recording's kernel, ``variants``
    the ids of its variants that fit the launches, ``fused`` the ATen operators fused into it.
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


class Chain(Struct, frozen=True):
    """The calls that launched a kernel: ``path`` from the outermost to the innermost."""

    path: tuple[str, ...]
    kernel: str
    calls: int
    gpu_us: float


class Piece(Struct, frozen=True):
    """One kernel, copy or fill of a step. ``start_us`` counts from the step's first, ``gap_us`` is
    the time before it in which the device did nothing, None for the first."""

    name: str
    start_us: float
    us: float
    gap_us: float | None = None


class Overhead(Struct, frozen=True):
    """Where the time of the window went; None if no GPU took part.

    ``busy_us`` is the time in which any kernel, copy or fill ran on the busiest device;
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


class Compiling(Struct, frozen=True):
    """Something that was compiled within the window: ``us`` of it, in the steps named."""

    what: str
    us: float
    count: int = 1
    steps: tuple[int, ...] = ()


class Window(Struct, frozen=True):
    """One stretch of the program that was recorded.

    ``number`` counts from 1. ``by`` is ``ptxview``, or ``program`` where the program ran
    torch.profiler itself. ``about`` describes the window and how its steps were found; ``steps``
    are the numbers of those within it, ``seen`` how many the program made. ``began`` and ``ended``
    are seconds since 1970.
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


class Profile(Struct, frozen=True):
    """One window, summed up; ``events`` counts the trace's, ``notes`` are remarks on the trace.

    ``timeline`` is what the device did for the last step, or in the window if it has no steps.
    """

    window: Window
    operators: tuple[Operator, ...]
    kernels: tuple[GpuWork, ...]
    chains: tuple[Chain, ...]
    overhead: Overhead
    compiling: tuple[Compiling, ...] = ()
    timeline: tuple[Piece, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: int = 0
    device: Mapping[str, object] = field(default_factory=dict)


# -- a Chrome trace -------------------------------------------------------------------------------
# The trace is input like any other: what is damaged in it is passed over and counted.

MAX_TRACE_BYTES = 4 << 30
MAX_EVENTS = 5_000_000
"""More events are not read: these fill about a gigabyte of memory."""
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT = re.compile(rb'(?=\{\s*(?:"name"\s*:\s*"[^"]*"\s*,\s*)?"ph"\s*:)')
_NO_NUMBER = re.compile(rb":\s*-?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)
_CONTROLS = bytes.maketrans(bytes(range(32)), b" " * 32)

CPU_KINDS = {
    "cpu_op": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
}
GPU_KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
LEFT_OUT = words(
    "[memory] [OutOfMemory] profiler::_record_function_enter "
    "profiler::_record_function_enter_new profiler::_record_function_exit "
    "aten::is_leaf aten::output_nr aten::_version"
)
"""Names that torch's own tables leave out."""
EMULATED = "ptxview_target::"
"""The prefix of the emulated device's own operators."""
STEP = "ProfilerStep"
_STEP = re.compile(r"ProfilerStep#(\d{1,9})")
MAX_NS = 1 << 62


Count = Annotated[int, Meta(ge=-MAX_NS, le=MAX_NS)]
LaunchShape = tuple[Three | None, Three | None, int | None, int | None]
"""Grid, block, registers a thread, bytes of shared memory."""


class _Trace(Struct, rename="camel"):
    trace_events: list[Raw]
    device_properties: object = None


class _Arguments(Struct):
    grid: tuple[Count, Count, Count] | None = None
    block: tuple[Count, Count, Count] | None = None
    registers: Count | None = field(name="registers per thread", default=None)
    shared_bytes: Count | None = field(name="shared memory", default=None)
    device: Count = 0
    external: Count | None = field(name="External id", default=None)
    correlation: Count | None = None


class _Event(Struct):
    """An event of the trace; ``ts`` and ``dur`` are in µs."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = math.nan
    dur: float = 0.0
    args: _Arguments = field(default_factory=_Arguments)

    def times(self) -> tuple[int, int]:
        """Start and end in ns. Raises ``ValueError`` if the event has none."""
        # µs with three places: whole nanoseconds, which add up exactly.
        start = round(self.ts * 1000)
        end = start + round(self.dur * 1000)
        if not -MAX_NS < start <= end < MAX_NS:
            raise ValueError
        return start, end


class Span(Struct, eq=False):
    """A call on the CPU; times in ns of the trace's clock.

    ``self_ns`` is its time without the calls within; ``gpu`` is of its direct launches, ``all_gpu``
    also of those within. Spans that torch's tables leave out are not ``is_listed``.
    """

    name: str
    kind: str
    start: int
    end: int
    self_ns: int = 0
    parent: Span | None = None
    children: int = 0
    is_listed: bool = True
    gpu: int = 0
    all_gpu: int = 0

    def around(self) -> list[Span]:
        """The calls around this one and itself, the outermost first; no steps, none left out."""
        out: list[Span] = []
        span: Span | None = self
        while span is not None and len(out) < MAX_PATH_CALLS:
            if span.is_listed and not span.name.startswith(STEP):
                out.append(span)
            span = span.parent
        return out[::-1]


class Work(Struct, frozen=True):
    """One piece of the GPU's work; times in ns, ``external``: the number of its operator."""

    start: int
    end: int
    name: str
    kind: str
    device: int
    external: int
    correlation: int
    shape: LaunchShape

    @property
    def ns(self) -> int:
        return self.end - self.start


class GatheredTrace:
    """A trace's content, ready to be summed up; spans are by thread, in the order of time."""

    def __init__(self, data: bytes, stacks: bool = False) -> None:
        """``data``: the file's content, compressed by gzip or not. Raises ``Unreadable``."""
        self.lanes: dict[object, list[Span]] = defaultdict(list)
        self.frames: dict[object, list[Span]] = defaultdict(list)
        self.work: list[Work] = []
        self.by_external: dict[int, Span] = {}
        self.by_correlation: dict[int, Span] = {}
        self.steps: list[tuple[int, int, int]] = []
        self.events = self.damaged = 0
        trace = _read(data)
        self.cut = len(trace.trace_events) > MAX_EVENTS
        self.device: dict[str, object] = {}
        match trace.device_properties:
            case [{"name": name}, *_]:
                self.device = {"name": str(name)}
        decode = Decoder(_Event).decode
        for raw in trace.trace_events[:MAX_EVENTS]:
            try:
                event = decode(raw)
                if event.ph == "X":
                    self._add_event(event, stacks)
            except (ValueError, RecursionError):
                self.damaged += 1
        for spans in (*self.lanes.values(), *self.frames.values()):
            _nest(spans)

    def spans(self) -> Iterator[Span]:
        return (span for spans in self.lanes.values() for span in spans if span.is_listed)

    def launcher(self, work: Work) -> Span | None:
        """The operator or annotation that torch links the work with."""
        span = self.by_external.get(work.external)
        return span if span is None or span.is_listed else span.parent

    def _add_event(self, event: _Event, stacks: bool) -> None:
        name = sys.intern(event.name)
        thread = (event.pid, event.tid)
        arguments = event.args
        if event.cat == "python_function" and stacks:
            self.frames[thread].append(Span(name, "frame", *event.times()))
        elif kind := GPU_KINDS.get(event.cat):
            shape = (arguments.grid, arguments.block, arguments.registers, arguments.shared_bytes)
            ids = (arguments.device, arguments.external or 0, arguments.correlation or 0)
            self.work.append(Work(*event.times(), name, kind, *ids, shape))
            self.events += 1
        elif event.cat in CPU_KINDS and name not in LEFT_OUT and not name.startswith(EMULATED):
            start, end = event.times()
            kind = CPU_KINDS[event.cat]
            if kind == "annotation" and (step := _STEP.fullmatch(name)):
                self.steps.append((int(step[1]), start, end))
                name = STEP + "*"
            span = Span(name, kind, start, end)
            self.lanes[thread].append(span)
            self.events += 1
            if kind == "runtime" and arguments.correlation is not None:
                self.by_correlation[arguments.correlation] = span
            elif kind != "runtime" and arguments.external is not None:
                self.by_external[arguments.external] = span


def _read(data: bytes) -> _Trace:
    """Parse a trace; of a damaged one, its events, some of which are invalid.

    Raises ``Unreadable`` if it is not a trace.
    """
    if data[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(MAX_TRACE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise Unreadable(f"the trace is damaged: {error}") from None
    if len(data) > MAX_TRACE_BYTES:
        raise Unreadable("the trace is too long to be real")
    decode = Decoder(_Trace).decode
    with suppress(ValueError, RecursionError):
        return decode(data)
    data = data.decode("utf-8", "replace").encode().translate(_CONTROLS)
    data = _NO_NUMBER.sub(b": null", data)
    if (begin := _BEGIN.search(data)) is None:
        raise Unreadable("it is not a Chrome trace: it has no traceEvents")
    pieces = _EVENT.split(data[begin.end() :])[1:]
    if pieces:
        pieces[-1] = pieces[-1].rpartition(b"]")[0] or pieces[-1]
    events = [Raw(piece.strip(b", ")) for piece in pieces]
    try:
        return replace(decode(data[: begin.end()] + b"]}"), trace_events=events)
    except (ValueError, RecursionError):
        return _Trace(events)


def _nest(spans: list[Span]) -> None:
    """Order spans by start and length; a parent is the innermost span that holds one whole.

    An operator with an only child of the same name counts once, as in torch.
    """
    spans.sort(key=lambda span: (span.start, -span.end))
    stack: list[Span] = []
    for span in spans:
        span.self_ns = span.end - span.start
        while stack and (span.start >= stack[-1].end or span.end > stack[-1].end):
            stack.pop()
        if stack:
            span.parent = stack[-1]
            span.parent.children += 1
        stack.append(span)
    for span in spans:
        if span.parent is not None and not span.parent.is_listed:
            span.parent = span.parent.parent
        parent = span.parent
        if parent is not None and parent.name == span.name and parent.children == 1:
            span.is_listed = False
            parent.children = span.children
        elif parent is not None:
            parent.self_ns -= span.end - span.start


# -- sums -----------------------------------------------------------------------------------------

LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "hipLaunch")
WAITS = ("Synchronize", "StreamWaitValue")
COMPILES = " (dynamo_timed)"
MAX_SHAPES = 64
"""Different launches of one kernel that are kept, those that took the longest."""
MAX_PATH_CALLS = 64
MAX_PIECES = 5000
"""Pieces of a timeline: those of a step of a large model, and not more than one scrolls through."""


def summarise(data: bytes, window: Window) -> Profile:
    """Sum up one trace. Raises ``Unreadable`` if ``data`` is not a trace."""
    trace = GatheredTrace(data)
    gpu = bool(trace.work) or (window.gpu and any(s.kind == "runtime" for s in trace.spans()))
    chains = _chains(trace)
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
        operators=tuple(_operators(trace, gpu)),
        kernels=tuple(_kernels(trace)),
        chains=tuple(chains),
        overhead=_overhead(trace, first, last) if gpu else Overhead((last - first) / 1000),
        compiling=tuple(_compiling(trace, first, last)),
        timeline=tuple(_timeline(trace)),
        notes=tuple(notes),
        events=trace.events,
        device=trace.device,
    )


def _chains(trace: GatheredTrace) -> list[Chain]:
    """The chains of calls around launches, the longest GPU time first.

    Adds the time of each kernel to the span that launched it.
    """
    times: dict[tuple[tuple[str, ...], str], list[int]] = defaultdict(list)
    for work in trace.work:
        launcher = trace.launcher(work)
        if launcher is not None:
            launcher.gpu += work.ns
        # Launched outside of every operator, as Triton does: the calls around the launch.
        place = launcher or trace.by_correlation.get(work.correlation)
        if work.kind == "kernel":
            calls = [] if place is None else place.around()
            path = tuple(span.name for span in calls if span.kind != "runtime")
            times[path, work.name].append(work.ns)
    chains = [Chain(*key, len(ns), sum(ns) / 1000) for key, ns in times.items()]
    return sorted(chains, key=lambda c: (-c.gpu_us, c.path))


def _operators(trace: GatheredTrace, gpu: bool) -> list[Operator]:
    sums: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for spans in trace.lanes.values():
        for span in reversed(spans):  # inner spans come after those that contain them
            span.all_gpu += span.gpu
            if span.is_listed and span.parent is not None:
                span.parent.all_gpu += span.all_gpu
    for span in trace.spans():
        sums[span.name, span.kind].append(span)
    rows = []
    for (name, kind), spans in sums.items():
        row = Operator(
            name,
            kind,
            len(spans),
            cpu_us=sum(s.end - s.start for s in spans) / 1000,
            self_cpu_us=sum(s.self_ns for s in spans) / 1000,
        )
        if gpu:
            gpu_us = sum(s.all_gpu for s in spans) / 1000
            row = replace(row, gpu_us=gpu_us, self_gpu_us=sum(s.gpu for s in spans) / 1000)
        rows.append(row)
    return sorted(rows, key=lambda r: (-(r.self_gpu_us or 0), -(r.gpu_us or 0), -r.self_cpu_us))


def _kernels(trace: GatheredTrace) -> list[GpuWork]:
    pieces: dict[tuple[str, str], list[Work]] = defaultdict(list)
    for work in trace.work:
        pieces[work.name, work.kind].append(work)
    rows = []
    for (name, kind), those in pieces.items():
        times = [work.ns for work in those]
        shapes = _launch_shapes(those) if kind == "kernel" else []
        short = short_name(name) if kind == "kernel" else name
        us = sum(times) / 1000
        low = min(times) / 1000
        high = max(times) / 1000
        longest_shapes = tuple(shapes[:MAX_SHAPES])
        rows.append(GpuWork(name, short, kind, len(times), us, low, high, longest_shapes))
    return sorted(rows, key=lambda r: (-r.gpu_us, r.name))


def _launch_shapes(launches: Iterable[Work]) -> list[Shape]:
    """The launches of one kernel by grid, block and resources, the longest time first."""
    by_shape: dict[LaunchShape, list[int]] = defaultdict(list)
    for work in launches:
        by_shape[work.shape].append(work.ns)
    shapes = [Shape(*key, len(ns), sum(ns) / 1000) for key, ns in by_shape.items()]
    return sorted(shapes, key=lambda shape: -shape.gpu_us)


def _bounds(trace: GatheredTrace) -> tuple[int, int]:
    """First and last ns of the window: of its steps if it has any, and of the device's work."""
    work = [(w.start, w.end) for w in trace.work]
    spans = [(s.start, s.end) for lane in trace.lanes.values() for s in lane]
    steps = [(start, end) for _, start, end in trace.steps]
    first = min((start for start, _ in steps or [*spans, *work]), default=0)
    return first, max((end for _, end in [*(steps or spans), *work]), default=0)


def _overhead(trace: GatheredTrace, first: int, last: int) -> Overhead:
    devices: dict[int, list[Work]] = defaultdict(list)
    for work in trace.work:
        if work.end > first:
            devices[work.device].append(work)
    busy, gaps = _busiest(devices.values(), first)
    kernels = [w.ns for w in trace.work if w.kind == "kernel"]
    launches: list[int] = []
    waits: list[int] = []
    for span in trace.spans():
        if span.kind == "runtime":
            if span.name.startswith(LAUNCHES):
                launches.append(span.end - span.start)
            if any(part in span.name for part in WAITS):
                waits.append(span.end - span.start)
    return Overhead(
        window_us=(last - first) / 1000,
        devices=len(devices),
        busy_us=busy / 1000,
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


def _busiest(devices: Iterable[Sequence[Work]], first: int) -> tuple[int, list[int]]:
    """ns in which the busiest device did anything, and the gaps in between."""
    busy_and_gaps = [_busy(pieces, first) for pieces in devices]
    return max(busy_and_gaps, key=lambda pair: pair[0], default=(0, []))


def _timeline(trace: GatheredTrace) -> Iterator[Piece]:
    first, last = max(((s, e) for _, s, e in trace.steps), default=(-MAX_NS, MAX_NS))

    def requested(work: Work) -> int:
        call = trace.by_correlation.get(work.correlation)
        return work.start if call is None else call.start

    step_work = [work for work in trace.work if first <= requested(work) < last]
    busiest = Counter(work.device for work in step_work).most_common(1)
    pieces = sorted((w for w in step_work if w.device == busiest[0][0]), key=lambda w: w.start)
    until: int | None = None
    for work in pieces[:MAX_PIECES]:
        gap = None if until is None else max(work.start - until, 0) / 1000
        yield Piece(work.name, (work.start - pieces[0].start) / 1000, work.ns / 1000, gap)
        until = max(work.end, until or work.end)


def _median(ns: Sequence[int]) -> float | None:
    return median(ns) / 1000 if ns else None


def _busy(pieces: Sequence[Work], first: int) -> tuple[int, list[int]]:
    """ns in which a device did anything on any stream, and the gaps in between."""
    busy = 0
    gaps = []
    until = None
    for work in sorted(pieces, key=lambda w: w.start):
        start = max(work.start, first)
        if until is not None and start > until:
            gaps.append(start - until)
        begin = start if until is None else max(start, until)
        busy += max(work.end - begin, 0)
        until = max(work.end, begin)
    return busy, gaps


def _compiling(trace: GatheredTrace, first: int, last: int) -> Iterator[Compiling]:
    """torch.compile's own annotations within the window, only the outermost of those nested."""
    spans_of: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span in trace.spans():
        if span.name.endswith(COMPILES) and span.end > first and span.start < last:
            ancestor = span.parent
            while ancestor is not None and not ancestor.name.endswith(COMPILES):
                ancestor = ancestor.parent
            if ancestor is None:
                phase = span.name.removesuffix(COMPILES)
                spans_of[phase].append((max(span.start, first), min(span.end, last)))
    for phase, spans in spans_of.items():
        steps: set[int] = set()
        for n, start, end in trace.steps:
            if any(a < end and b > start for a, b in spans):
                steps.add(n)
        us = sum(b - a for a, b in spans) / 1000
        yield Compiling(f"torch.compile ({phase})", us, len(spans), tuple(sorted(steps)))


# -- stacks ----------------------------------------------------------------------------------------


_SPACES = str.maketrans(" ;\t\r\n", "_____")
OURS = ("ptxview_probes", "inspector/probes/", "torch/profiler/")


def stacks(data: bytes, gpu: bool) -> list[str]:
    """A line a stack, with the GPU's or CPU's own µs of its innermost operator.

    Raises ``Unreadable`` if ``data`` is not a trace.
    """
    trace = GatheredTrace(data, stacks=True)
    _give_to_operators(trace)
    sums: dict[str, int] = defaultdict(int)
    for thread, spans in trace.lanes.items():
        frames = _frames_of(spans, trace.frames.get(thread, []))
        for span, frame in zip(spans, frames, strict=True):
            spent = span.gpu if gpu else span.self_ns
            if not span.is_listed or (span.kind == "runtime" and gpu) or spent <= 0:
                continue
            names = _stack_names(span, frame)
            if names:
                sums[";".join(names)] += spent
    return [f"{line} {ns // 1000}" for line, ns in sorted(sums.items()) if ns >= 1000]


def _give_to_operators(trace: GatheredTrace) -> None:
    """Add the time of the GPU's work to the innermost operator, if any, that it is of."""
    for work in trace.work:
        span = trace.by_external.get(work.external) or trace.by_correlation.get(work.correlation)
        while span is not None and (not span.is_listed or (span.kind == "runtime" and span.parent)):
            span = span.parent
        if span is not None:
            span.gpu += work.ns


def _stack_names(span: Span, frame: Span | None) -> list[str]:
    """The Python functions, but ptxview's and the profiler's, and then the calls around a span."""
    outer = [] if frame is None else frame.around()
    names = [f.name for f in outer if not _is_ours(f.name)]
    names += [call.name for call in span.around()]
    return [name.translate(_SPACES) for name in names]


def _is_ours(name: str) -> bool:
    """Whether a Python function is ptxview's or the profiler's."""
    return any(part in name for part in OURS)


def _frames_of(spans: Sequence[Span], frames: Sequence[Span]) -> Iterator[Span | None]:
    stack: list[Span] = []
    following = 0
    for span in spans:
        while following < len(frames) and frames[following].start <= span.start:
            stack.append(frames[following])
            following += 1
        # One that has ended never comes back; one that is still open stays below.
        while stack and stack[-1].end <= span.start:
            stack.pop()
        yield stack[-1] if stack else None
