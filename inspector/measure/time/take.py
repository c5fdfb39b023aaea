"""Times recorded launches: chooses them, the interpreter and the estimates beside the times.

The command line and the interface share it; nothing here asks for permission or prints.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from inspector.analyse.card import operations, tensor_bytes
from inspector.analyse.occupancy import arch_of
from inspector.base.errors import PtxviewError, ToolMissing, UsageError
from inspector.base.model import Call, Recording, Stage
from inspector.base.text import plural
from inspector.measure.time import calls as again_calls
from inspector.measure.time import child
from inspector.measure.time.calls import ReplayableCall
from inspector.measure.time.child import Said, TimeWish
from inspector.measure.time.planning import Plan, PlannedLaunch, cooperative, job_of, plan, scratch
from inspector.measure.time.results import (
    KernelTime,
    Peak,
    Session,
    Timing,
    median,
    stored_session,
    with_time,
)
from inspector.reader import tables
from inspector.reader.reader import Reader
from inspector.reader.selecting import Found
from inspector.recording.layout import is_recording, keep, read_events, recordings_folder
from inspector.system import toolchain

# Alignment in bytes of torch's allocator if the device is emulated.
ALIGNED_EMULATED = 64


@dataclass(frozen=True, slots=True)
class Ready:
    """What will be launched and called, and under which interpreter."""

    plan: Plan
    python: str
    calls: tuple[ReplayableCall, ...] = ()


def ready(
    reader: Reader,
    path: Path,
    variants: Sequence[Found],
    wish: TimeWish,
    calls: Sequence[Call] = (),
) -> Ready:
    """What can be timed of these variants, and of these calls of graphs and extensions.

    Calls that launch a variant are repeated if no launch of it was recorded. Raises
    ``UsageError`` where none was recorded, ``ToolMissing`` without a GPU or torch.
    """
    if not is_recording(path):
        raise UsageError(
            f"{path} is not a recording: only recordings have the launches of their kernels",
            "Make one with: ptxview run script.py",
        )
    events = read_events(_opened(reader, path)).events
    everything = again_calls.again(reader.recording, events, variants, calls)
    again, less_frequent = again_calls.frequent(everything, wish.calls)
    planned = plan(variants, wish.calls, {(k.id, v.id) for a in everything for k, v in a.among})
    planned = replace(planned, left_out=(*planned.left_out, *less_frequent))
    if not planned.launches and not again:
        raise UsageError("there is no recorded launch to time", "\n".join(planned.left_out))
    if not toolchain.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU; this machine has none")
    interpreters = (sys.executable, toolchain.interpreter(None))
    recorded = reader.recording.command
    python = child.interpreter(wish.python, interpreters, toolchain.versions, recorded)
    return Ready(planned, python, tuple(again))


def _opened(reader: Reader, path: Path) -> Path:
    """The real path of the recording that the reader has opened; a link may have changed since."""
    return Path(reader.recording.real or path)


def own(recording: Recording) -> bool:
    """Whether this user owns the recording, and it is in this user's folder of recordings.

    The recording's own content proves nothing; the place from which it was opened does.
    """
    real = Path(recording.real)
    try:
        inside = real.is_relative_to(recordings_folder().resolve())
        return inside and real.lstat().st_uid == os.getuid()
    except OSError:
        return False


@dataclass
class _Jobs:
    """The jobs of child processes, the row of each, and why rows cannot be run."""

    told: list[tuple[Said, bytes]] = field(default_factory=list)
    whose: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    warned: dict[int, str] = field(default_factory=dict)

    def add(self, index: int, job: Said | str, data: bytes = b"") -> None:
        """Add the job of row ``index``, or the reason for its absence."""
        if isinstance(job, str):
            self.refused[index] = job
        else:
            self.told.append((job, data))
            self.whose.append(index)


def take(
    reader: Reader,
    path: Path,
    prepared: Ready,
    wish: TimeWish,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> Session:
    """Run the launches and the calls; returns their times in the order of the plan, calls last.

    This runs the recording's code: the caller must have the user's permission, see ``own``. With
    ``stop`` it reports its progress, and raises ``Stopped`` once that is set.
    """
    jobs = _jobs(reader, path, prepared)
    watches = wish.stopwatches
    emulated = reader.recording.mode == "target"
    alignment = ALIGNED_EMULATED if emulated else child.ALIGNED
    count = len(jobs.told) * len(watches)
    each = "" if count == 1 else " each"
    long = f"{wish.seconds:g} s{each} at most"
    say(f"taking {plural(count, 'time')}, {long}, under {prepared.python}")
    measure = partial(child.measure, alignment=alignment)
    if stop is not None:
        begun = child.watched(stop, lambda n: say(f"{n} of {plural(count, 'time')} taken"))
        measure = partial(measure, child=begun)
    gathered = measure(prepared.python, jobs.told, wish) if jobs.told else child.GatheredTimes()
    peaks = peaks_of(gathered.copies)
    answers = {index: gathered.rows.get(n, []) for n, index in enumerate(jobs.whose)}
    rows = list(_rows(reader, prepared, jobs, answers, peaks, arch_of(gathered.device)))
    if gathered.spent:
        unanswered = sum(not answer for answer in answers.values())
        say(f"left out: {unanswered} of the {len(jobs.told)} launches and calls, for want of time")
    return Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gathered.device,
        tuple(_asked(rows, prepared.calls, say)),
        peaks,
        data_sheet(gathered.device),
    )


def _rows(
    reader: Reader,
    prepared: Ready,
    jobs: _Jobs,
    answers: Mapping[int, Sequence[Said]],
    peaks: tuple[Peak, ...],
    arch: str | None,
) -> Iterator[Timing]:
    """A row for each launch or call and stopwatch, with its time or the reason for none."""
    variants = reader.recording.variants()
    launches: list[PlannedLaunch | ReplayableCall] = [*prepared.plan.launches, *prepared.calls]
    for index, launch in enumerate(launches):
        bare = launch.timing() if isinstance(launch, ReplayableCall) else estimated(reader, launch)
        if index in jobs.warned:
            bare = replace(bare, warnings=(jobs.warned[index],))
        if index in jobs.refused:
            yield replace(bare, error=jobs.refused[index])
        for answer in answers.get(index, []):
            timing = row(bare, answer, peaks)
            if isinstance(launch, ReplayableCall):
                reported = answer.get("kernels")
                kernels = again_calls.kernel_times(reported, launch.among, variants, arch)
                timing = replace(timing, kernels=kernels)
            yield timing


def _jobs(reader: Reader, path: Path, prepared: Ready) -> _Jobs:
    events = read_events(_opened(reader, path)).events
    need, together = scratch(events), cooperative(events)
    out = _Jobs()
    for index, launch in enumerate(prepared.plan.launches):
        variant = launch.variant
        try:
            cubin = variant.stages[Stage.SASS].content.read()
            scratched = need.get(variant.hash, (0, 0))
            out.add(index, job_of(launch, cubin, "", scratched, variant.hash in together), cubin)
        except PtxviewError as error:
            out.add(index, error.message)
    for index, repeated in enumerate(prepared.calls, len(prepared.plan.launches)):
        try:
            job = again_calls.job_of_call(repeated, reader.recording.mode)
        except PtxviewError as error:
            job = error.message
        if isinstance(job, str):
            out.add(index, job)
            continue
        out.add(index, job[0], job[1])
        if job[2] is not None:
            out.warned[index] = job[2]
    return out


def _asked(
    rows: Sequence[Timing], calls: Sequence[ReplayableCall], say: Callable[[str], None]
) -> Iterator[Timing]:
    """The rows without those of calls that launched none of the kernels asked for."""
    asked = {(a.call.kind, a.call.name, a.number): a for a in calls if a.asked}
    for timing in rows:
        repeated = asked.get((timing.kind, timing.kernel, timing.call))
        if repeated is not None and timing.kernels:
            variants = {(k.name, v.id) for k, v in repeated.among if (k.id, v.id) in repeated.asked}
            if all(k.variant and (k.name, k.variant) not in variants for k in timing.kernels):
                say(f"{timing.kernel} launches none of the kernels that were asked for")
                continue
        yield timing


def estimated(reader: Reader, launch: PlannedLaunch) -> Timing:
    """A timing without a time yet, with estimates of the bytes and operations of the launch."""
    moved, counted = tensor_bytes(launch.call), None
    if Stage.TTIR in launch.variant.stages:
        try:
            function = reader.function(launch.variant, Stage.TTIR)
            listing = reader.listing(launch.variant, Stage.TTIR)
            counted = operations(listing, function, launch.call) if function else None
        except PtxviewError:
            counted = None
    return launch.timing(
        bytes=None if moved is None else moved.value,
        flops=None if counted is None else counted.value,
        bytes_from=None if moved is None else "estimate",
        flops_from=None if counted is None else "estimate",
    )


def row(bare: Timing, answer: Mapping[str, object], peaks: tuple[Peak, ...]) -> Timing:
    """A timing with the ``answer`` of a child process for one launch by one stopwatch."""
    watch, cache = answer.get("stopwatch"), answer.get("cache")
    warnings, clocks = answer.get("warnings"), answer.get("clocks")
    timed = replace(
        bare,
        stopwatch=watch if isinstance(watch, str) else None,
        cache=cache if isinstance(cache, str) else None,
        warnings=(*bare.warnings, *(map(str, warnings) if isinstance(warnings, list) else ())),
    )
    peak = next((p for p in peaks if p.stopwatch == watch), None)
    cpu = median(numbers(answer.get("cpu")))
    timed = replace(timed, cpu_us=None if cpu is None else cpu.value)
    timing = with_time(
        timed,
        numbers(answer.get("samples")),
        clocks if isinstance(clocks, dict) else {},
        peak,
        answer,
    )
    if timing is not None and timing.median_us is not None and timed.kind == "triton":
        kernel = KernelTime(
            timed.kernel,
            timed.variant,
            timing.median_us,
            1,
            timing.low_us,
            timing.high_us,
            timing.samples,
        )
        timing = replace(timing, kernels=(kernel,) if watch == "cupti" else ())
    return timing or replace(timed, error=str(answer.get("error") or "no time was taken"))


def numbers(values: object) -> list[float]:
    """The numbers of a list in a child process's record."""
    found = values if isinstance(values, list) else []
    return [float(s) for s in found if isinstance(s, int | float)]


def peaks_of(copies: Sequence[Said]) -> tuple[Peak, ...]:
    """The bandwidths of the copies that child processes timed."""
    out = []
    for copy in copies:
        duration, size = median(numbers(copy.get("samples"))), copy.get("bytes")
        if duration is not None and duration.value > 0 and isinstance(size, int):
            rate = size / duration.value / 1e3
            out.append(Peak(str(copy["stopwatch"]), str(copy["cache"]), rate, size))
    return tuple(out)


def data_sheet(device: Mapping[str, object]) -> float | None:
    """Bandwidth in GB/s by the device's data sheet; None if the table has no such device."""
    spec = tables.devices().get(arch_of(device) or "")
    if spec is None or spec.memory_bandwidth is None or spec.name != device.get("name"):
        return None
    return spec.memory_bandwidth / 1e9


def store(path: Path, session: Session) -> None:
    """Store a session with its recording. Raises ``OSError`` if that is not allowed."""
    keep(path, stored_session(session))
