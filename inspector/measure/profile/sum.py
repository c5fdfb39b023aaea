"""Sums a trace up: tables of operators and kernels, who launched what, where the time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from inspector.base.names import short_name
from inspector.base.text import plural
from inspector.measure.profile.model import (
    Chain,
    Compiling,
    GpuWork,
    Operator,
    Overhead,
    Profile,
    Shape,
    Window,
)
from inspector.measure.profile.trace import (
    ANNOTATION,
    NOBODY,
    OP,
    RUNTIME,
    STEP,
    GatheredTrace,
    Lane,
    Work,
    gather,
)

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
