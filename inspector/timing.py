"""Takes the times of recorded launches: which ones, under which interpreter, beside what estimates.

What the command line and the interface share; neither asks for leave here, nor prints.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from inspector import knowledge
from inspector.analyse.device import arch_of
from inspector.analyse.estimates import operations
from inspector.analyse.launches import tensor_bytes
from inspector.annotating import Annotator
from inspector.bench import running
from inspector.bench.planning import Launch, Plan, cooperative, job_of, plan, scratch
from inspector.bench.results import STOPWATCHES, Peak, Session, Timing, read
from inspector.bench.results import stored as as_stored
from inspector.bench.results import with_time as timed
from inspector.bench.statistics import median
from inspector.capture import machine
from inspector.capture.opening import recordings_folder
from inspector.errors import PtxviewError, ToolMissing, UsageError
from inspector.model import Stage
from inspector.recording import is_recording, read_events
from inspector.recording_timings import keep, kept
from inspector.selecting import Found

# What alignments were recorded up to: of torch's allocator on a device, on the emulated one.
ALIGNED, ALIGNED_EMULATED = 512, 64


@dataclass(frozen=True, slots=True)
class Wish:
    """How to take times: by which stopwatch (``all``: each), with the L2 how, for how long.

    ``seconds`` is the most for one stopwatch, ``limit`` what a launch is given up after, ``calls``
    how many distinct calls of a variant are launched, ``python`` the interpreter asked for.
    """

    stopwatch: str = "cupti"
    cache: str = "cold"
    seconds: float = 2.0
    limit: float = 60.0
    calls: int = 3
    python: str | None = None

    @property
    def stopwatches(self) -> tuple[str, ...]:
        """The stopwatches by name."""
        return STOPWATCHES if self.stopwatch == "all" else (self.stopwatch,)


@dataclass(frozen=True, slots=True)
class Ready:
    """What would be launched, and under which interpreter."""

    plan: Plan
    python: str


def ready(reader: Annotator, path: Path, found: Sequence[Found], wish: Wish) -> Ready:
    """What times can be taken of these variants.

    Raises ``UsageError`` where no launch was recorded, ``ToolMissing`` without a GPU or torch.
    """
    if not is_recording(path):
        raise UsageError(
            f"{path} is no recording: only one knows with what its kernels were launched",
            "Make one with: ptxview run script.py",
        )
    what = plan(found, wish.calls)
    if not what.launches:
        raise UsageError("there is no recorded launch to time", "\n".join(what.left_out))
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    command = reader.recording.command
    return Ready(what, running.interpreter(wish.python, command, sys.executable, machine.versions))


def own(path: Path) -> bool:
    """Whether a recording is this user's own: his file, in his folder of recordings.

    What a recording says of itself proves nothing; where it lies does.
    """
    try:
        real = path.resolve()
        return real.is_relative_to(recordings_folder().resolve()) and (
            real.stat().st_uid == os.getuid()
        )
    except OSError:
        return False


def take(
    reader: Annotator,
    path: Path,
    given: Ready,
    wish: Wish,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> Session:
    """Run the launches; their times in the order of the plan.

    This runs the recording's machine code: whoever calls has the user's leave (``own``). With
    ``stop`` it says how far it is, and raises ``Stopped`` once that is set.
    """
    what, python = given.plan, given.python
    events = read_events(path).events
    need, together = scratch(events), cooperative(events)
    watches = wish.stopwatches
    jobs: list[tuple[running.Said, bytes]] = []
    whose: list[int] = []
    refused: dict[int, str] = {}
    for at, launch in enumerate(what.launches):
        variant = launch.variant
        try:
            cubin = variant.stages[Stage.SASS].content.read()
            told = job_of(
                launch, cubin, "", need.get(variant.hash, (0, 0)), variant.hash in together
            )
        except PtxviewError as error:
            told = error.message
        if isinstance(told, str):
            refused[at] = told
        else:
            jobs.append((told, cubin))
            whose.append(at)
    emulated = reader.recording.mode == "target"
    wanted = running.Wanted(
        watches, wish.cache, wish.seconds, wish.limit, ALIGNED_EMULATED if emulated else ALIGNED
    )
    count = len(jobs) * len(watches)
    say(f"taking {count} times, {wish.seconds:g} s each at most, under {python}")
    measure = running.measure
    if stop is not None:
        child = running.watched(stop, lambda n: say(f"{n} of {count} times are taken"))
        measure = partial(measure, child=child)
    gathered = measure(python, jobs, wanted) if jobs else running.Gathered()
    peaks = tuple(p for p in map(_peak, gathered.copies) if p is not None)
    rows: list[Timing] = []
    said_of = {at: gathered.rows.get(n, []) for n, at in enumerate(whose)}
    for at, launch in enumerate(what.launches):
        bare = estimated(reader, launch)
        if at in refused:
            rows.append(replace(bare, error=refused[at]))
        rows += [row(bare, said, peaks) for said in said_of.get(at, [])]
    return Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gathered.device,
        tuple(rows),
        peaks,
        data_sheet(gathered.device),
    )


def estimated(reader: Annotator, launch: Launch) -> Timing:
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
    )


def row(bare: Timing, said: Mapping[str, object], peaks: tuple[Peak, ...]) -> Timing:
    """A timing of what a child process said of one launch by one stopwatch."""
    watch, cache = said.get("stopwatch"), said.get("cache")
    warnings, clocks = said.get("warnings"), said.get("clocks")
    known = replace(
        bare,
        stopwatch=watch if isinstance(watch, str) else None,
        cache=cache if isinstance(cache, str) else None,
        warnings=tuple(map(str, warnings)) if isinstance(warnings, list) else (),
    )
    peak = next((p for p in peaks if p.stopwatch == watch), None)
    found = timed(known, _samples(said), clocks if isinstance(clocks, dict) else {}, peak)
    return found or replace(known, error=str(said.get("error") or "no time was taken"))


def _samples(said: Mapping[str, object]) -> list[float]:
    samples = said.get("samples")
    numbers = samples if isinstance(samples, list) else []
    return [float(s) for s in numbers if isinstance(s, int | float)]


def _peak(said: Mapping[str, object]) -> Peak | None:
    found, size = median(_samples(said)), said.get("bytes")
    if found is None or found.value <= 0 or not isinstance(size, int):
        return None
    return Peak(str(said["stopwatch"]), str(said["cache"]), size / found.value / 1e3, size)


def data_sheet(device: Mapping[str, object]) -> float | None:
    """GB/s by the data sheet of the device of that name; None where the table has another."""
    known = knowledge.devices().get(arch_of(device) or "")
    if known is None or known.memory_bandwidth is None or known.name != device.get("name"):
        return None
    return known.memory_bandwidth / 1e9


def store(path: Path, session: Session) -> None:
    """Keep a session with its recording. Raises ``OSError`` where that is not allowed."""
    keep(path, as_stored(session))


def sessions(path: Path) -> list[Session]:
    """What was timed before, the oldest first; empty for what is no recording."""
    return [s for s in map(read, kept(path)) if s is not None]
