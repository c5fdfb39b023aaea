"""Times recorded launches and the variants that a script declares, in a process of their own.

Chooses launches, interpreter and the estimates beside the times; ranks variants that agree.
"""

import datetime
import json
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analysis.card import operations, tensor_bytes
from inspector.analysis.occupancy import arch_of
from inspector.base.errors import PtxviewError, ToolMissing, Unreadable, UsageError
from inspector.base.escapes import shown
from inspector.base.model import Argument, Call, Stage
from inspector.base.units import plural
from inspector.measure.time.planning import (
    LaunchNeeds,
    Plan,
    PlannedLaunch,
    ReplayableCall,
    frequent,
    inputs,
    job_of,
    job_of_call,
    kept_files,
    kernel_times,
    launch_needs,
    plan,
    replayable_calls,
)
from inspector.measure.time.results import (
    STOPWATCHES,
    KernelTime,
    Peak,
    Session,
    Timing,
    TimingType,
    amounts,
    median,
    stored_session,
    with_time,
)
from inspector.reader import tables
from inspector.reader.query import KernelVariant
from inspector.reader.reader import Reader
from inspector.recording.contents import Blob
from inspector.recording.layout import (
    Events,
    is_recording,
    read_events,
    store_record,
)
from inspector.sources.compilers import by_probes
from inspector.sources.opening import is_own as is_own
from inspector.system import files, toolchain
from inspector.system.process import Finished, run_tool

NO_DEVICE = 4
NO_TORCH = 45
ESTIMATE_REMEDY = "Estimate the times without a GPU: ptxview time --estimate"
"""What to do on a machine without a GPU."""
# Seconds to import torch and wake the device, which takes tens of seconds on a cold disk.
STARTING = 180

# The key under which the child gets a launch's file, and the file's ending, by kind of launch.
FILES = {"graph": ("code", ".py"), "extension": ("", ".none"), "variant": ("", ".none")}
# Alignment in bytes of torch's allocator on a device, and if the device is emulated.
ALIGNED = 512
ALIGNED_EMULATED = 64

Record = dict[str, Any]
Child = Callable[[Sequence[str], float, Path], Finished]


class BenchmarkOptions(Struct, frozen=True):
    """How to take times: by which stopwatch (``all``: each), in which state of the L2.

    ``seconds`` limits one stopwatch, ``limit`` (seconds) one launch, ``calls`` the distinct calls
    of a variant. After ``budget`` seconds in all, nothing further is begun.
    """

    stopwatch: str = "cupti"
    cache: str = "cold"
    seconds: float = 2.0
    limit: float = 60.0
    calls: int = 3
    python: str | None = None
    budget: float | None = None

    @property
    def stopwatches(self) -> tuple[str, ...]:
        return STOPWATCHES if self.stopwatch == "all" else (self.stopwatch,)


ChildEnd = tuple[int | None, str, list[Record]]
"""A child's exit status (None if it took too long), why it ended early, and its records."""


def run_child(
    python: str, module: str, job: Record, limit: float, folder: Path, seconds: float, child: Child
) -> ChildEnd:
    """Run a module of ``probes/replay`` with a job in a separate process, and wait for its end.

    After ``limit`` seconds in one step the child ends itself; ``seconds`` limits it as a whole.
    Raises ``ToolMissing`` if the interpreter cannot be started.
    """
    job_file = folder / "job.json"
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    job_file.write_text(json.dumps(job), "utf-8")
    argv = by_probes(python, f"replay.{module}", job_file, results)
    try:
        finished = child(argv, seconds, folder)
    except Unreadable as error:
        return None, error.message, records(results)
    return finished.status, why_ended(finished, limit), records(results)


def records(results: Path) -> list[Record]:
    """The records that a child has written so far, without a last line that is cut short."""
    try:
        return [record for record in files.records(results) if isinstance(record, dict)]
    except Unreadable:
        return []


class GatheredTimes(Struct):
    """The results of child processes: bandwidths of copies, and ``rows`` by the launch's number.

    ``spent``: the budget ran out before all launches were begun; the others have no rows.
    """

    device: Record = field(default_factory=dict)
    peaks: tuple[Peak, ...] = ()
    rows: dict[int, list[Record]] = field(default_factory=dict)
    spent: bool = False

    def session(self, rows: tuple[Timing, ...], sheet: float | None = None) -> Session:
        """A session of now; ``sheet`` is the bandwidth in GB/s if its data sheet is known."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Session(now, self.device, rows, self.peaks, sheet or data_sheet(self.device))


def start(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    return run_tool(argv, seconds=seconds, cwd=folder)


def cancellable_child(stop: threading.Event, tell: Callable[[int], None]) -> Child:
    """A function that runs a child process, and raises ``Stopped`` once ``stop`` is set.

    ``tell`` is called some times a second with the number of times taken so far.
    """

    earlier_count = 0  # of the children that ended early

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        nonlocal earlier_count

        def count_times() -> int:
            return earlier_count + sum(isinstance(r.get("n"), int) for r in records(Path(argv[-1])))

        def go_on() -> bool:
            tell(count_times())
            return not stop.is_set()

        try:
            return run_tool(argv, seconds=seconds, cwd=folder, go_on=go_on)
        finally:
            earlier_count = count_times()

    return child


def measure(
    python: str,
    launches: Sequence[tuple[Record, bytes]],
    options: BenchmarkOptions,
    child: Child = start,
    alignment: int = ALIGNED,
    building: float = 0,
    blob: Blob = lambda digest: None,
) -> GatheredTimes:
    """Take the time of launches, each a pair of its job and its cubin or code.

    ``building``: seconds that a launch may compile before its limit begins; ``blob`` returns the
    content of a tensor that was kept. Raises ``ToolMissing``
    if there is no device or no torch, ``Unreadable`` if no child could begin.
    """
    gathered = GatheredTimes()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ptxview-") as name:
        folder = Path(name)
        jobs: list[Record] = []
        for n, (launch, data) in enumerate(launches):
            key, ending = FILES.get(str(launch.get("kind")), ("cubin", ".cubin"))
            path = folder / f"{n}{ending}"
            path.write_bytes(data)
            kept = kept_files(launch, folder, blob)
            jobs.append({**launch, **kept, "n": n, key: str(path)})
        while jobs and not gathered.spent:
            remaining = None
            if options.budget is not None:
                remaining = max(options.budget - (time.monotonic() - began), 0)
            job = {
                "stopwatches": options.stopwatches,
                "cache": options.cache,
                "seconds": options.seconds,
                "limit": options.limit,
                "alignment": alignment,
                "budget": remaining,
                "building": building,
                "copy": not gathered.peaks,
                "launches": jobs,
            }
            seconds = STARTING + (len(jobs) + 1) * (options.limit + building)
            end = run_child(python, "session", job, options.limit, folder, seconds, child)
            jobs = _gather(python, jobs, end, gathered)
    return gathered


def _gather(
    python: str, jobs: list[Record], end: ChildEnd, gathered: GatheredTimes
) -> list[Record]:
    """Gather a child's records; the remaining jobs, which the child takes in their order."""
    status, problem, child_records = end
    for record in child_records:
        gathered.spent = gathered.spent or "spent" in record
        gathered.device = record.get("device", gathered.device)
        copy = record.get("copy", {})
        if duration := median(copy.get("samples", ())):
            rate = copy["bytes"] / duration.value / 1e3
            peak = Peak(copy["stopwatch"], copy["cache"], rate, copy["bytes"])
            gathered.peaks = (*gathered.peaks, peak)
        if "n" in record:
            gathered.rows.setdefault(record["n"], []).append(record)
    if status == NO_DEVICE:
        raise ToolMissing("timing needs an NVIDIA GPU, and the interpreter's torch sees none")
    if status == NO_TORCH:
        raise ToolMissing(f"timing needs torch, which {python} cannot import", "See --python.")
    begun = sum("begin" in record for record in child_records)
    ended = sum("end" in record for record in child_records)
    remaining = jobs[ended:]
    if not remaining or gathered.spent:
        return remaining
    if begun == ended:
        raise Unreadable(f"the process that runs calls again ended early: {problem}")
    number = remaining[0]["n"]
    rows = gathered.rows.setdefault(number, [])
    if not any("error" in r for r in rows):
        rows.append({"n": number, "stopwatch": None, "error": problem})
    return remaining[1:]


def why_ended(finished: Finished, limit: float) -> str:
    if finished.status == -signal.SIGKILL:
        return "the process was killed (SIGKILL), as for want of memory"
    if finished.status < 0:
        name = next(
            (s.name for s in signal.Signals if s == -finished.status), f"signal {-finished.status}"
        )
        return f"the process was ended by {name}"
    if b"Timeout (" in finished.err:
        return f"it did not finish within {limit:.0f} s (--limit)"
    lines = finished.complaint.strip().splitlines()
    return lines[-1] if lines else f"the process ended with status {finished.status}"


def interpreter(
    requested: str | None,
    candidates: Iterable[str],
    versions: Callable[[str], Mapping[str, str | None]],
    recorded: Sequence[str] | None = None,
) -> str:
    """The interpreter asked for, else the first of this user's own that has torch.

    The command that was ``recorded`` is only named in the error: asking a program for its versions
    starts it. Raises ``ToolMissing``.
    """
    if requested is not None:
        return requested
    for python in dict.fromkeys(candidates):
        with suppress(PtxviewError):
            if versions(python).get("torch"):
                return python
    hint = f" It was recorded by: {shown(' '.join(recorded)[:200])}" if recorded else ""
    raise ToolMissing(
        "no interpreter with torch was found to run the calls under",
        f"Name one with --python.{hint}",
    )


class PreparedTiming(Struct, frozen=True):
    plan: Plan
    python: str
    calls: tuple[ReplayableCall, ...] = ()


def prepare(
    reader: Reader,
    path: Path,
    variants: Sequence[KernelVariant],
    options: BenchmarkOptions,
    calls: Sequence[Call] = (),
) -> PreparedTiming:
    """What can be timed of these variants, and of these calls of graphs and extensions.

    Without a recorded launch of a variant the calls that launch it are repeated. Raises
    ``UsageError`` where none was recorded, ``ToolMissing`` without a GPU or torch.
    """
    if not is_recording(path):
        raise UsageError(
            f"{path} is not a recording: only recordings have the launches of their kernels",
            "Make one with: ptxview run script.py",
        )
    everything = replayable_calls(reader.recording, _events(reader, path).events, variants, calls)
    often, less_frequent = frequent(everything, options.calls)
    planned = plan(variants, options.calls, {(k.id, v.id) for a in everything for k, v in a.among})
    planned = replace(planned, left_out=(*planned.left_out, *less_frequent))
    if not planned.launches and not often:
        raise UsageError("there is no recorded launch to time", "\n".join(planned.left_out))
    if not toolchain.gpu_present():
        raise ToolMissing(
            "timing needs an NVIDIA GPU; this machine has none",
            ESTIMATE_REMEDY,
        )
    interpreters = (sys.executable, toolchain.interpreter(None))
    python = interpreter(options.python, interpreters, toolchain.versions, reader.recording.command)
    return PreparedTiming(planned, python, tuple(often))


def _events(reader: Reader, path: Path) -> Events:
    """The events of the recording that the reader has opened; a link may have changed since."""
    return read_events(Path(reader.recording.resolved_path or path))


_Attempt = tuple[PlannedLaunch | ReplayableCall, Timing, tuple[Record, bytes] | None]
"""A launch or call, its timing without a time, and its child's job with the code for it.

Without a job the timing says why it cannot be run.
"""


def take(
    reader: Reader,
    path: Path,
    prepared: PreparedTiming,
    options: BenchmarkOptions,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> Session:
    """Run the launches and the calls; returns their times in the order of the plan, calls last.

    This runs the recording's code: the caller must have the user's permission, see ``is_own``. With
    ``stop`` it reports its progress, and raises ``Stopped`` once that is set.
    """
    attempts = list(_attempts(reader, path, prepared))
    jobs = [job for _, _, job in attempts if job is not None]
    emulated = reader.recording.mode == "target"
    count = len(jobs) * len(options.stopwatches)
    each_word = "" if count == 1 else " each"
    long = f"{options.seconds:g} s{each_word} at most"
    say(f"taking {plural(count, 'time')}, {long}, under {prepared.python}")
    alignment = ALIGNED_EMULATED if emulated else ALIGNED
    run = partial(measure, alignment=alignment, blob=_events(reader, path).blob)
    if stop is not None:
        run_watched = cancellable_child(
            stop, lambda n: say(f"{n} of {plural(count, 'time')} taken")
        )
        run = partial(run, child=run_watched)
    gathered = run(prepared.python, jobs, options)
    rows = tuple(_rows(reader, attempts, gathered, say))
    if gathered.spent:
        unanswered = sum(not gathered.rows.get(n) for n in range(len(jobs)))
        say(f"left out: {unanswered} of the {len(jobs)} launches and calls, for want of time")
    return gathered.session(rows)


def _attempts(reader: Reader, path: Path, prepared: PreparedTiming) -> Iterator[_Attempt]:
    needs = launch_needs(_events(reader, path).events)
    everything: Sequence[PlannedLaunch | ReplayableCall] = (
        *prepared.plan.launches,
        *prepared.calls,
    )
    for launch in everything:
        timing = untimed(reader, launch)
        try:
            if isinstance(launch, ReplayableCall):
                job, code, warnings = job_of_call(launch, reader.recording.mode)
                yield launch, replace(timing, warnings=warnings), (job, code)
            else:
                cubin = launch.variant.stages[Stage.SASS].content.read()
                needed = needs.get(launch.variant.hash, LaunchNeeds())
                yield launch, timing, (job_of(launch, cubin, needed), cubin)
        except PtxviewError as error:
            yield launch, replace(timing, error=error.message), None


def _rows(
    reader: Reader,
    attempts: Sequence[_Attempt],
    gathered: GatheredTimes,
    say: Callable[[str], None],
) -> Iterator[Timing]:
    """A row for each launch or call and stopwatch, but of calls without any kernel asked for."""
    variants = reader.recording.variants()
    arch = arch_of(gathered.device)
    peaks = gathered.peaks
    places = iter(range(len(attempts)))
    for launch, timing, job in attempts:
        if job is None:
            yield timing
            continue
        for answer in gathered.rows.get(next(places), []):
            if isinstance(launch, PlannedLaunch):
                yield row(timing, answer, peaks)
                continue
            kernels = kernel_times(answer, launch.among, variants, arch)
            requested = {
                (k.name, v.id) for k, v in launch.among if (k.id, v.id) in launch.requested
            }
            only_others = all(k.variant and (k.name, k.variant) not in requested for k in kernels)
            if requested and kernels and only_others:
                say(f"{timing.kernel} launches none of the kernels that were asked for")
            else:
                yield row(timing, answer, peaks, kernels)


def untimed(reader: Reader, launch: PlannedLaunch | ReplayableCall) -> Timing:
    """A timing without a time yet; of a launch, with estimates of its bytes and operations."""
    call = launch.call
    about: dict[str, Any] = {"count": call.count, "inputs": inputs(call.arguments)}
    if isinstance(launch, ReplayableCall):
        return Timing(call.name, "", launch.number, kind=call.kind, **about)
    variant = launch.variant
    counted = None
    if Stage.TTIR in variant.stages:
        with suppress(PtxviewError):
            function = reader.stages.function(variant, Stage.TTIR)
            listing = reader.stages.listing(variant, Stage.TTIR)
            counted = operations(listing, function, call) if function else None
    nbytes = tensor_bytes(call)
    about |= amounts(
        "estimate",
        None if nbytes is None else nbytes.value,
        None if counted is None else counted.value,
    )
    about |= {"grid": call.grid, "block": call.block}
    return Timing(launch.kernel.name, variant.id, launch.number, **about)


def row(
    base: TimingType,
    answer: Mapping[str, Any],
    peaks: tuple[Peak, ...],
    kernels: tuple[KernelTime, ...] = (),
) -> TimingType:
    """A timing with the ``answer`` of a child process for one launch by one stopwatch."""
    watch = answer.get("stopwatch")
    cpu = median(answer.get("cpu", ()))
    timed = replace(
        base,
        stopwatch=watch,
        cache=answer.get("cache"),
        warnings=(*base.warnings, *answer.get("warnings", ())),
        cpu_us=cpu and cpu.value,
        kernels=kernels,
        kept_inputs=None if "kept" not in answer else tuple(answer["kept"]),
    )
    timing = with_time(timed, answer, next((p for p in peaks if p.stopwatch == watch), None))
    if timing.median_us is None:
        return replace(timed, error=str(answer.get("error") or "no time was taken"))
    if timing.kind == "triton" and watch == "cupti":
        interval = timing.low_us, timing.high_us, timing.samples
        kernel_time = KernelTime(timing.kernel, timing.variant, timing.median_us, 1, *interval)
        return replace(timing, kernels=(kernel_time,))
    return timing


def data_sheet(device: Mapping[str, object]) -> float | None:
    """Bandwidth in GB/s by the device's data sheet; None if the table has no such device."""
    spec = tables.devices().get(arch_of(device) or "")
    if spec is None or spec.memory_bandwidth is None or spec.name != device.get("name"):
        return None
    return spec.memory_bandwidth / 1e9


def store(path: Path, session: Session) -> None:
    """Store a session with its recording. Raises ``OSError`` if that is not allowed."""
    store_record(path, stored_session(session))


HOW = (
    "Write N=256:12672:128 (first:last:step), N=256:16384:*2 (each twice the one before), or "
    "N=256,781,4096."
)
_RANGE = re.compile(r"([1-9]\d{0,17}):(\d{1,18}):(\*?)([1-9]\d{0,17})")
_SIZES = re.compile(r"[1-9]\d{0,17}(,[1-9]\d{0,17})*")
MAX_SIZES = 2000
GAP = 0.02
"""The part of a call's time that the device may wait without a remark."""
BUILDING_SECONDS = 300
"""Seconds that the import of a script, or a first call, may take: it may compile."""


def sweep(text: str, option: str = "--sweep") -> tuple[str, list[int]]:
    """Parse ``N=first:last:step``: a parameter and its values, ascending. Raises ``UsageError``."""
    name, _, values = text.replace(" ", "").partition("=")
    sizes: list[int] = []
    if limits := _RANGE.fullmatch(values):
        size = int(limits[1])
        last = int(limits[2])
        step = int(limits[4])
        while size <= last and len(sizes) <= MAX_SIZES and (not limits[3] or step > 1):
            sizes.append(size)
            size = size * step if limits[3] else size + step
    elif _SIZES.fullmatch(values):
        sizes = sorted({*map(int, values.split(","))})
    if not sizes or not name.isidentifier():
        raise UsageError(f"{option} {text} does not give sizes of a parameter of inputs()", HOW)
    if len(sizes) > MAX_SIZES:
        raise UsageError(f"{option} {text} has more than {MAX_SIZES:,} sizes")
    return name, sizes


def fixed(texts: Iterable[str]) -> dict[str, int]:
    """Parse parameters such as ``M=4096``. Raises ``UsageError``."""
    out = {}
    for text in texts:
        name, sizes = sweep(text, "--size")
        if len(sizes) > 1:
            raise UsageError(f"--size {text} is more than one size", "Write M=4096.")
        out[name] = sizes[0]
    return out


class RaceRow(Timing, frozen=True, kw_only=True):
    """One variant at one size by one stopwatch; ``call`` is the number of the size.

    ``agrees`` is None if it was not checked, ``difference`` the greatest absolute one from the
    reference, ``wrong`` why it disagrees. ``span_us`` is the median time from the first kernel's
    start to the last one's end. ``rank`` counts from 1 among those of one size that agree; rows
    whose intervals overlap share it. ``slower`` is the time as a multiple of the fastest's.
    """

    sizes: Mapping[str, int]
    dtypes: tuple[str, ...] = ()
    agrees: bool | None = None
    difference: float | None = None
    wrong: str | None = None
    span_us: float | None = None
    rank: int | None = None
    slower: float | None = None


class Race(Struct, frozen=True):
    """Variants that were timed together, in a ``session`` without rows.

    ``swept`` is the size that was varied, ``defaults`` are those of ``inputs``.
    """

    session: Session
    script: str
    python: str
    swept: str | None
    variants: tuple[str, ...]
    rows: tuple[RaceRow, ...]
    defaults: Mapping[str, int | None]


def device_peaks(device: object) -> Mapping[str, float]:
    """Operations a second by unit, and ``memory_bandwidth``, by a device's data sheet; or empty."""
    for sheet in tables.table("peaks").values():
        if device in sheet["names"]:
            return {unit: peak for unit, peak in sheet.items() if isinstance(peak, float)}
    return {}


def race(
    script: Path,
    sizes: Sequence[Mapping[str, int]],
    swept: str | None,
    options: BenchmarkOptions,
    say: Callable[[str], None],
) -> Race:
    """Run what a script declares at each of the sizes.

    Raises ``ToolMissing`` without a GPU or torch, ``Unreadable`` where it declares nothing,
    ``UsageError`` where its input has no such size.
    """
    if not toolchain.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU; this machine has none")
    python = interpreter(options.python, [toolchain.interpreter(None)], toolchain.versions)
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        job: Record = {"script": str(script)}
        limit = BUILDING_SECONDS
        _, problem, child_records = run_child(
            python, "script", job, limit, Path(folder), limit, _run_in_current_folder
        )
    if not child_records:
        raise Unreadable(f"the process that imports {script.name} ended early: {problem}")
    (declared,) = child_records
    if "refused" in declared:
        raise Unreadable(f"{script}: {declared['refused']}")
    names = declared["variants"]
    defaults = declared["sizes"]
    for name in sizes[0]:
        if name not in declared["parameters"]:
            available = ", ".join(defaults) or "none"
            raise UsageError(f"{script}: inputs() has no parameter {name} (its sizes: {available})")
    launches: list[tuple[Record, bytes]] = [
        ({"kind": "variant", "script": str(script), "variant": name, "sizes": size}, b"")
        for size in sizes
        for name in names
    ]
    count = plural(len(launches), "variant")
    say(f"timing {count}, {options.seconds:g} s each at most, by {python}")
    gathered = measure(python, launches, options, _run_in_current_folder, building=BUILDING_SECONDS)
    bandwidth = device_peaks(gathered.device.get("name")).get("memory_bandwidth")
    session = gathered.session((), bandwidth / 1e9 if bandwidth else None)
    rows: list[RaceRow] = []
    for n, (launch, _) in enumerate(launches):
        name = launch["variant"]
        size = launch["sizes"]
        base_row = RaceRow(script.stem, name, n // len(names), kind="variant", sizes=size)
        rows += _race_rows(base_row, gathered.rows.get(n, []), session.peaks)
    return Race(session, str(script), python, swept, tuple(names), _ranked(rows), defaults)


def _run_in_current_folder(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process in the current folder, as ``python script.py`` would run."""
    return run_tool(argv, seconds=seconds)


def _race_rows(
    base_row: RaceRow, answers: Sequence[Record], peaks: tuple[Peak, ...]
) -> Iterator[RaceRow]:
    """A row for each stopwatch from the child's ``answers`` about one variant at one size."""
    merged: dict[str, Any] = {key: value for a in answers for key, value in a.items()}
    about = merged.get("about", {})
    checked = merged.get("checked", {})
    tensors = [Argument("", dtype=d, shape=tuple(shape)) for d, shape in about.get("inputs", ())]
    base_row = replace(
        base_row,
        inputs=inputs(tensors),
        dtypes=tuple(dict.fromkeys(t.dtype for t in tensors if t.dtype)),
        **amounts("script", about.get("bytes"), about.get("flops")),
        agrees=checked.get("agrees"),
        difference=checked.get("difference"),
        wrong=checked.get("why"),
    )
    times = [a for a in answers if "stopwatch" in a]
    for answer in times or [{"error": "it was not run"}]:
        span = median(answer.get("span", ()))
        kernels = kernel_times(answer, (), (), None)
        yield replace(row(base_row, answer, peaks, kernels), span_us=span and span.value)


def _ranked(rows: Sequence[RaceRow]) -> tuple[RaceRow, ...]:
    """Rows in the same order with their ranks, for each size and stopwatch separately."""
    out = list(rows)
    for group in dict.fromkeys((r.call, r.stopwatch) for r in rows):
        able = [
            (r.median_us, n)
            for n, r in enumerate(rows)
            if (r.call, r.stopwatch) == group and r.agrees and r.median_us
        ]
        edge = -1.0
        rank = 0
        for place, (us, n) in enumerate(sorted(able), 1):
            if (rows[n].low_us or us) > edge:
                edge = rows[n].high_us or us
                rank = place
            out[n] = replace(rows[n], rank=rank, slower=us / min(able)[0])
    return tuple(out)
