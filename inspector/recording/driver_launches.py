"""Launches of each variant as the CUDA driver saw them, with the GPU's times of them.

Triton's launches are counted where they are requested (``calls``); the driver adds replays of CUDA
graphs and every kernel of another maker. At the driver a kernel is identified by the loaded cubin
and its name in it; one from a recorded compilation has the same content.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import Unreadable
from inspector.base.model import Call, Content, GpuTime, Stage, Variant
from inspector.base.names import argument_types, base_name
from inspector.base.units import plural
from inspector.parsers.cubin import extract_kernel
from inspector.recording.decoding import is_launch_number
from inspector.recording.driver_records import LOST
from inspector.recording.events import (
    DriverCounts,
    DriverKernel,
    DriverLaunch,
    DriverLeft,
    DriverStarted,
    Event,
)
from inspector.recording.gpu_times import GpuTimes, LaunchKey
from inspector.recording.launch_parameters import arguments_of
from inspector.recording.processes import Process, Processes

MAX_WHOLE_CUBIN_BYTES = 256 << 10
"""Bytes of a cubin that is shown whole, with all of its lines."""

EMPTIES = "zero_"
"""ATen's operator by which Inductor's and Triton's stopwatches empty the cache."""


class KernelOfModule(Struct, frozen=True):
    """The machine code of one kernel of a cubin, which may have hundreds, as a cubin."""

    module: Content
    kernel: str

    def read(self) -> bytes:
        """Raises ``Unreadable`` if the cubin is gone or damaged."""
        cubin = self.module.read()
        if len(cubin) <= MAX_WHOLE_CUBIN_BYTES:
            return cubin
        if (code := extract_kernel(cubin, self.kernel)) is None:
            raise Unreadable(f"the module of {self.kernel} is damaged: the kernel is not in it")
        return code


class KernelLaunches(Struct):
    """The distinct launches of one kernel of a module, and the libraries that asked for the first,
    innermost first."""

    symbol: str
    module: str | None
    libraries: tuple[str, ...]
    distinct: dict[LaunchKey, DriverLaunch] = field(default_factory=dict)


class _LaunchCount(Struct, frozen=True):
    """How often a kernel was launched alike: by itself, by replays of CUDA graphs, and to be
    captured into one; ``varied`` has a bit for each parameter that was not always the same."""

    launched: int
    replayed: int = 0
    varied: int = 0
    captured: int = 0

    @property
    def executed(self) -> int:
        return self.launched + self.replayed


class DriverLaunches:
    """Collects the driver's events of all processes."""

    EVENTS = (
        *GpuTimes.EVENTS,
        DriverKernel,
        DriverLeft,
        DriverLaunch,
        DriverCounts,
    )
    """The events that it takes."""

    def __init__(self) -> None:
        self._processes = Processes("driver")
        self.times = GpuTimes()
        self.kernels: dict[tuple[str | None, str], KernelLaunches] = {}
        self._counts: dict[LaunchKey, _LaunchCount] = {}
        self._lost: dict[tuple[Process, str], int] = {}
        # Kernels that were taken out of their modules: the blob of each, and the way back.
        self._extracted: dict[tuple[str, str], str] = {}
        self._modules: dict[tuple[str, str], str] = {}
        self._unseen_reasons: dict[str, None] = {}
        self._inexact: set[Process] = set()
        self._extern: dict[str, KernelLaunches] = {}
        self.began = False
        self._marks_tuning = False
        self._candidates: dict[tuple[int, int], dict[LaunchKey, DriverLaunch]] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, GpuTimes.EVENTS):
            self.times.take(event)
        process = self._processes.process_of(event)
        if isinstance(event, DriverKernel):
            if event.module and event.name and event.blob:
                self._extracted[event.module, event.name] = event.blob
                self._modules[event.blob, event.name] = event.module
            return
        if process is None:
            return
        match event:
            case DriverStarted():
                self._start(event)
            case DriverLeft():
                self._unseen_reasons[f"{event.why} began"] = None
                self._inexact.add(process)
            case DriverLaunch():
                self._launch(event, process)
            case DriverCounts():
                self._count_launches(event, process)

    def _start(self, event: DriverStarted) -> None:
        if event.began:
            self.began = True
        elif event.other_tool is not None:
            reason = f"{event.other_tool} is set: another tool is at the driver"
            self._unseen_reasons[reason] = None
        elif event.why is not None:
            self._unseen_reasons[event.why] = None
        elif event.error is not None:
            self._unseen_reasons[f"CUPTI refused (error {event.error})"] = None

    def _launch(self, event: DriverLaunch, process: Process) -> None:
        if event.name is None or event.id is None:
            return
        kernel = event.module, event.name
        if kernel not in self.kernels:
            self.kernels[kernel] = KernelLaunches(event.name, event.module, event.libraries)
        key = process, event.id
        self.kernels[kernel].distinct[key] = event
        self._marks_tuning |= event.tuning
        if event.candidate is not None:
            self._candidates.setdefault((process[0], event.candidate), {})[key] = event

    def _count_launches(self, event: DriverCounts, process: Process) -> None:
        for text, counts in event.counts.items():
            numbers = [n for n in counts[:4] if n is not None]
            if is_launch_number(text) and len(numbers) == len(counts[:4]) > 2:
                self._counts[process, int(text)] = _LaunchCount(*numbers)
        if not event.exact:
            self._inexact.add(process)
        for loss in LOST:
            count = getattr(event, loss)
            if count is not None:
                self._lost[process, loss] = count

    # -- values ---------------------------------------------------------------------------------

    @property
    def saw_all(self) -> bool:
        """Whether all launches were seen, so that a kernel without one was not launched."""
        return self.began and not self._unseen_reasons

    def launched(self, variant: Variant, demangled: str) -> Variant:
        """The variant with its launches, if they were seen here and nowhere else.

        Launches of Triton's are counted where they are asked for, with their arguments; here only
        what replays of CUDA graphs add to them, less those that were asked for to be captured.
        """
        launches = self._launches_of(variant)
        if launches is None:
            return variant
        variant = replace(
            variant,
            gpu_time=self.times.time_of(self._executed(launches, tuning=False)),
            tuning_gpu_time=self.times.time_of(self._executed(launches, tuning=True)),
        )
        if variant.launches is not None:
            return self._with_replays(variant, launches)
        has_parameters = any(event.parameters for event in launches.distinct.values())
        types = argument_types(demangled) if has_parameters else ()
        processes = {process for process, _ in launches.distinct}
        benchmarks = sum(self._executed(launches, tuning=True).values())
        return replace(
            variant,
            launches=sum(self._executed(launches, tuning=False).values()),
            launches_exact=processes.isdisjoint(self._inexact),
            # None where the recording does not tell an autotuner's launches from others.
            benchmarks=benchmarks if self._marks_tuning else None,
            calls=tuple(self._timed(launches, call) for call in self._calls(launches, types)),
        )

    def _with_replays(self, variant: Variant, launches: KernelLaunches) -> Variant:
        """A variant whose launches were counted where they were requested, with replays."""
        added = 0
        for key, event in launches.distinct.items():
            if not event.tuning:
                count = self._count(key, event)
                added += count.replayed - count.captured
        return replace(
            variant,
            launches=max((variant.launches or 0) + added, 0),
            calls=tuple(self._timed(launches, call) for call in variant.calls),
        )

    def was_launched(self, launches: KernelLaunches) -> bool:
        """Whether a kernel ran, and was not only captured into a CUDA graph."""
        return any(self._count(k, e).executed for k, e in launches.distinct.items())

    def _executed(self, launches: KernelLaunches, tuning: bool) -> dict[LaunchKey, int]:
        """How often each kind of launch ran: the program's own, or an autotuner's."""
        out = {}
        for key, event in launches.distinct.items():
            if event.tuning is tuning:
                out[key] = self._count(key, event).executed
        return out

    def _timed(self, launches: KernelLaunches, call: Call) -> Call:
        """A call with the times of the launches that have its grid, block and shared memory."""
        geometry = (call.grid, call.block, call.shared_bytes)
        counts = {
            key: count
            for key, count in self._executed(launches, tuning=False).items()
            if launches.distinct[key].geometry == geometry
        }
        return replace(call, gpu_time=self.times.time_of(counts))

    def times_by_grid(self, variant: Variant) -> Sequence[GpuTime | None]:
        """The times of an autotuner's launches of a variant for each grid, in the order in which
        one process first launched them; of several processes none, as they have no order."""
        launches = self._launches_of(variant)
        if launches is None:
            return ()
        executed = self._executed(launches, tuning=True)
        if len({process for process, _ in executed}) != 1:
            return ()
        by_grid: dict[object, dict[LaunchKey, int]] = {}
        for key in sorted(executed):
            grid = launches.distinct[key].grid
            by_grid.setdefault(grid, {})[key] = executed[key]
        return [self.times.time_of(counts) for counts in by_grid.values()]

    def candidate_time(self, pid: int, number: int) -> GpuTime | None:
        """The time of a call of a tuner's candidate that launches a library's kernels.

        Before each call the tuner overwrites memory to empty the cache, by ``EMPTIES``. Where no
        such launch is known, operators are unknown, and so is which launches are the candidate's.
        """
        outermost: dict[LaunchKey, str | None] = {}
        for key, event in self._candidates.get((pid, number), {}).items():
            outermost[key] = event.operators[-1] if event.operators else None
        if EMPTIES not in outermost.values():
            return None
        return self.times.call_time(key for key, name in outermost.items() if name != EMPTIES)

    def launch_keys(self, variant: Variant) -> Iterable[LaunchKey]:
        """The processes and numbers of a variant's launches."""
        launches = self._launches_of(variant)
        return () if launches is None else launches.distinct

    def first_launches(self, process: Process) -> tuple[frozenset[int], tuple[float, ...]]:
        """The numbers of a process's launches that are an autotuner's, and when each launch was
        first seen, in order."""
        tuning: set[int] = set()
        times: list[float] = []
        for launches in self.kernels.values():
            for (owner, number), event in launches.distinct.items():
                if owner != process:
                    continue
                if event.tuning:
                    tuning.add(number)
                if event.time is not None:
                    times.append(event.time)
        return frozenset(tuning), tuple(sorted(times))

    def assign(self, variant_hash: str, launches: KernelLaunches) -> None:
        """Make launches those of the variant of a hash, which no compilation is known of."""
        self._extern[variant_hash] = launches

    def extracted(self, launches: KernelLaunches) -> str | None:
        """The blob of a kernel's own machine code, where it was taken out of its module."""
        return self._extracted.get((launches.module or "", launches.symbol))

    def _launches_of(self, variant: Variant) -> KernelLaunches | None:
        if variant.hash in self._extern:
            return self._extern[variant.hash]
        machine_code = variant.stages.get(Stage.SASS)
        digest = None if machine_code is None else digest_named(machine_code.content)
        if digest is None:
            return None
        module = self._modules.get((digest, variant.symbol), digest)
        return self.kernels.get((module, variant.symbol))

    def _count(self, key: LaunchKey, event: DriverLaunch) -> _LaunchCount:
        # It was launched once when it was first seen, if not only captured into a graph.
        return self._counts.get(key) or _LaunchCount(0 if event.in_graph else 1)

    def _calls(self, launches: KernelLaunches, types: Sequence[str]) -> Iterator[Call]:
        """The calls of a kernel; ``others`` counts those unlike all that are recorded."""
        calls: dict[object, Call] = {}
        for key, event in launches.distinct.items():
            count = self._count(key, event)
            if event.is_remainder or event.tuning or not count.executed:
                continue
            call = Call(
                kind="cuda",
                name=base_name(launches.symbol),
                grid=event.grid,
                block=event.block,
                shared_bytes=event.shared_bytes,
                cluster=event.cluster,
                arguments=arguments_of(event.parameters, count.varied, types),
                count=count.executed,
                operators=event.operators[::-1],  # the event has the innermost first
            )
            identity = event.geometry, call.operators if event.by_operator else ()
            earlier = calls.get(identity)
            calls[identity] = call if earlier is None else _merged(earlier, call)
        yield from calls.values()

    def problems(self) -> Iterator[str]:
        """Sentences on what was not seen, and on what was seen and could not be recorded."""
        yield from self.times.problems()
        for reason in self._unseen_reasons:
            if reason.endswith(" began"):
                yield (
                    f"the driver's launches were not seen from when {reason}: kernels that only "
                    "they tell of are missing, or counted too low"
                )
            else:
                yield f"the driver's launches were not seen: {reason}"
        for loss, (word, matter) in LOST.items():
            total = sum(count for (_, name), count in self._lost.items() if name == loss)
            if total:
                yield f"the driver's launches: {plural(total, word)} {matter}"


def digest_named(content: Content) -> str | None:
    """The SHA-256 that a blob is named by, without reading it; None if it is no blob."""
    if isinstance(content, KernelOfModule):
        return digest_named(content.module)
    named = getattr(content, "digest", None) or PurePath(str(getattr(content, "path", ""))).name
    return named if isinstance(named, str) and len(named) == 64 else None


def _merged(first: Call, second: Call) -> Call:
    """Calls that were made alike in two processes: of arguments, what they have in common."""
    arguments = []
    if len(first.arguments) == len(second.arguments):
        for a, b in zip(first.arguments, second.arguments, strict=True):
            arguments.append(a if a == b else replace(a, value=None, alignment=None))
    return replace(first, count=first.count + second.count, arguments=tuple(arguments))
