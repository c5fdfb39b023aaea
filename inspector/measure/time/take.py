"""Takes the times of recorded launches: which ones, under which interpreter, beside what estimates.

What the command line and the interface share; neither asks for leave here, nor prints.
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

from inspector.analyse.estimates import operations, tensor_bytes
from inspector.analyse.occupancy import arch_of
from inspector.capture import machine
from inspector.capture.opening import recordings_folder
from inspector.errors import PtxviewError, ToolMissing, UsageError
from inspector.measure.time import calls as again_calls
from inspector.measure.time import child
from inspector.measure.time.calls import Again
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
from inspector.model import Call, Recording, Stage
from inspector.reader import tables
from inspector.reader.reader import Reader
from inspector.reader.selecting import Found
from inspector.recording.kept import keep
from inspector.recording.layout import is_recording, read_events

# What torch's allocator aligns to where the device is emulated.
ALIGNED_EMULATED = 64


@dataclass(frozen=True, slots=True)
class Ready:
    """What would be launched and called, and under which interpreter."""

    plan: Plan
    python: str
    calls: tuple[Again, ...] = ()


def ready(
    reader: Reader,
    path: Path,
    found: Sequence[Found],
    wish: TimeWish,
    calls: Sequence[Call] = (),
) -> Ready:
    """What times can be taken of these variants, and of these calls of graphs and extensions.

    Of a variant without a launch of its own, the calls that launch it are made again. Raises
    ``UsageError`` where none was recorded, ``ToolMissing`` without a GPU or torch.
    """
    if not is_recording(path):
        raise UsageError(
            f"{path} is no recording: only one knows with what its kernels were launched",
            "Make one with: ptxview run script.py",
        )
    events = read_events(_opened(reader, path)).events
    everything = again_calls.again(reader.recording, events, found, calls)
    again, left = again_calls.frequent(everything, wish.calls)
    what = plan(found, wish.calls, {(k.id, v.id) for a in everything for k, v in a.among})
    what = replace(what, left_out=(*what.left_out, *left))
    if not what.launches and not again:
        raise UsageError("there is no recorded launch to time", "\n".join(what.left_out))
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    own = (sys.executable, machine.interpreter(None))
    recorded = reader.recording.command
    python = child.interpreter(wish.python, own, machine.versions, recorded)
    return Ready(what, python, tuple(again))


def _opened(reader: Reader, path: Path) -> Path:
    """Where the recording lies that the reader has opened, whatever a link leads to by now."""
    return Path(reader.recording.real or path)


def own(recording: Recording) -> bool:
    """Whether a recording is this user's own: his file, in his folder of recordings.

    What a recording says of itself proves nothing; where it lay when it was opened does.
    """
    real = Path(recording.real)
    try:
        inside = real.is_relative_to(recordings_folder().resolve())
        return inside and real.lstat().st_uid == os.getuid()
    except OSError:
        return False


@dataclass
class _Jobs:
    """What child processes are told, whose row each is, and what cannot be run and why."""

    told: list[tuple[Said, bytes]] = field(default_factory=list)
    whose: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    warned: dict[int, str] = field(default_factory=dict)

    def add(self, at: int, said: Said | str, data: bytes = b"") -> None:
        """The job of row ``at``, or why there is none."""
        if isinstance(said, str):
            self.refused[at] = said
        else:
            self.told.append((said, data))
            self.whose.append(at)


def take(
    reader: Reader,
    path: Path,
    given: Ready,
    wish: TimeWish,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> Session:
    """Run the launches and the calls; their times in the order of the plan, the calls last.

    This runs the recording's code: whoever calls has the user's leave (``own``). With ``stop`` it
    says how far it is, and raises ``Stopped`` once that is set.
    """
    jobs = _jobs(reader, path, given)
    watches = wish.stopwatches
    emulated = reader.recording.mode == "target"
    alignment = ALIGNED_EMULATED if emulated else child.ALIGNED
    count = len(jobs.told) * len(watches)
    say(f"taking {count} times, {wish.seconds:g} s each at most, under {given.python}")
    measure = partial(child.measure, alignment=alignment)
    if stop is not None:
        begun = child.watched(stop, lambda n: say(f"{n} of {count} times are taken"))
        measure = partial(measure, child=begun)
    gathered = measure(given.python, jobs.told, wish) if jobs.told else child.GatheredTimes()
    peaks = tuple(p for p in map(_peak, gathered.copies) if p is not None)
    answers = {at: gathered.rows.get(n, []) for n, at in enumerate(jobs.whose)}
    rows = list(_rows(reader, given, jobs, answers, peaks, arch_of(gathered.device)))
    if gathered.spent:
        left = sum(not each for each in answers.values())
        say(f"left out: {left} of {len(jobs.told)} launches and calls, for want of time")
    return Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gathered.device,
        tuple(_asked(rows, given.calls, say)),
        peaks,
        data_sheet(gathered.device),
    )


def _rows(
    reader: Reader,
    given: Ready,
    jobs: _Jobs,
    answers: Mapping[int, Sequence[Said]],
    peaks: tuple[Peak, ...],
    arch: str | None,
) -> Iterator[Timing]:
    """What was refused or measured of each launch and call, one row a stopwatch."""
    variants = reader.recording.variants()
    launches: list[PlannedLaunch | Again] = [*given.plan.launches, *given.calls]
    for at, launch in enumerate(launches):
        bare = launch.timing() if isinstance(launch, Again) else estimated(reader, launch)
        if at in jobs.warned:
            bare = replace(bare, warnings=(jobs.warned[at],))
        if at in jobs.refused:
            yield replace(bare, error=jobs.refused[at])
        for answer in answers.get(at, []):
            timing = row(bare, answer, peaks)
            if isinstance(launch, Again):
                kernels = again_calls.kernel_times(answer.get("kernels"), launch, variants, arch)
                timing = replace(timing, kernels=kernels, cpu_us=_cpu(answer))
            yield timing


def _jobs(reader: Reader, path: Path, given: Ready) -> _Jobs:
    events = read_events(_opened(reader, path)).events
    need, together = scratch(events), cooperative(events)
    out = _Jobs()
    for at, launch in enumerate(given.plan.launches):
        variant = launch.variant
        try:
            cubin = variant.stages[Stage.SASS].content.read()
            scratched = need.get(variant.hash, (0, 0))
            out.add(at, job_of(launch, cubin, "", scratched, variant.hash in together), cubin)
        except PtxviewError as error:
            out.add(at, error.message)
    for at, one in enumerate(given.calls, len(given.plan.launches)):
        try:
            job = again_calls.job_of_call(one, reader.recording.mode)
        except PtxviewError as error:
            job = error.message
        if isinstance(job, str):
            out.add(at, job)
            continue
        out.add(at, job[0], job[1])
        if job[2] is not None:
            out.warned[at] = job[2]
    return out


def _asked(
    rows: Sequence[Timing], calls: Sequence[Again], say: Callable[[str], None]
) -> Iterator[Timing]:
    """The rows but those of calls that turned out to launch none of the kernels asked for."""
    asked = {(a.call.kind, a.call.name, a.number): a for a in calls if a.asked}
    for one in rows:
        repeated = asked.get((one.kind, one.kernel, one.call))
        if repeated is not None and one.kernels:
            variants = {(k.name, v.id) for k, v in repeated.among if (k.id, v.id) in repeated.asked}
            if all(k.variant and (k.name, k.variant) not in variants for k in one.kernels):
                say(f"{one.kernel} launches none of the kernels that were asked for")
                continue
        yield one


def _cpu(said: Mapping[str, object]) -> float | None:
    found = median(_numbers(said.get("cpu")))
    return None if found is None else found.value


def estimated(reader: Reader, launch: PlannedLaunch) -> Timing:
    """A timing to come, with the estimates of what the launch moves and computes."""
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


def row(bare: Timing, said: Mapping[str, object], peaks: tuple[Peak, ...]) -> Timing:
    """A timing of what a child process said of one launch by one stopwatch."""
    watch, cache = said.get("stopwatch"), said.get("cache")
    warnings, clocks = said.get("warnings"), said.get("clocks")
    timed = replace(
        bare,
        stopwatch=watch if isinstance(watch, str) else None,
        cache=cache if isinstance(cache, str) else None,
        warnings=(
            *bare.warnings,
            *(map(str, warnings) if isinstance(warnings, list) else ()),
        ),
    )
    peak = next((p for p in peaks if p.stopwatch == watch), None)
    timing = with_time(
        timed, _samples(said), clocks if isinstance(clocks, dict) else {}, peak, said
    )
    if timing is not None and timing.median_us is not None and timed.kind == "triton":
        own = KernelTime(timed.kernel, timed.variant, timing.median_us, 1, timing.low_us,
                         timing.high_us, timing.samples)  # fmt: skip
        timing = replace(timing, kernels=(own,) if watch == "cupti" else ())
    return timing or replace(timed, error=str(said.get("error") or "no time was taken"))


def _samples(said: Mapping[str, object]) -> list[float]:
    return _numbers(said.get("samples"))


def _numbers(said: object) -> list[float]:
    numbers = said if isinstance(said, list) else []
    return [float(s) for s in numbers if isinstance(s, int | float)]


def _peak(said: Mapping[str, object]) -> Peak | None:
    found, size = median(_samples(said)), said.get("bytes")
    if found is None or found.value <= 0 or not isinstance(size, int):
        return None
    return Peak(str(said["stopwatch"]), str(said["cache"]), size / found.value / 1e3, size)


def data_sheet(device: Mapping[str, object]) -> float | None:
    """GB/s by the data sheet of the device of that name; None if the table has another."""
    known = tables.devices().get(arch_of(device) or "")
    if known is None or known.memory_bandwidth is None or known.name != device.get("name"):
        return None
    return known.memory_bandwidth / 1e9


def store(path: Path, session: Session) -> None:
    """Keep a session with its recording. Raises ``OSError`` where that is not allowed."""
    keep(path, stored_session(session))
