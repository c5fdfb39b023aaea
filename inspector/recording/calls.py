"""Calls and launches of each variant, from events of launchers and of the CUDA driver.

One module because both count the same launches: Triton's are counted where they are requested, and
the driver adds replays of CUDA graphs and every kernel of another maker. At the driver a kernel is
identified by the loaded cubin and its name in it. One from a recorded compilation has the same
content; every other becomes a new kernel, with its maker: the library that requested the launch, or
the compiler of a kernel of that name.
"""

import hashlib
import re
import struct
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import (
    Argument,
    Call,
    Content,
    Failure,
    GpuTime,
    Graph,
    Origin,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.text import PtxviewError, Unreadable, argument_types, base_name, counted, plural
from inspector.listing.cubin import architecture, extract_kernel
from inspector.recording import facts
from inspector.recording.driver_records import LOST
from inspector.recording.facts import (
    Blob,
    Event,
    Process,
    Processes,
    as_int,
    as_map,
    as_text,
    as_three,
    cuda_span,
    decoded,
    digest_of,
    known_values,
    target_of,
    text_of,
)
from inspector.recording.gpu_times import GpuTimes, LaunchKey
from inspector.recording.variants import VariantOfKernel
from inspector.system import files

# Where a graph's code takes its inputs apart: "arg0_1, arg1_1 = args".
_INPUTS = re.compile(r"^[ \t]+\(?((?:\w+, ?)*\w+,?)\)? = args[ \t]*$", re.MULTILINE)
COUNTING = "counting launches"
"""Where the probes report that a launch was not counted."""
NAMES = {"triton": "kernel", "graph": "graph", "extension": "function"}


class _Subject(Struct):
    name: str = ""
    calls: list[tuple[Process, int, Call]] = field(default_factory=list)
    undescribed: dict[Process, int] = field(default_factory=dict)
    benchmarks: dict[Process, int] = field(default_factory=dict)

    def processes(self) -> set[Process]:
        return {process for process, _, _ in self.calls} | set(self.undescribed)


class _LostContext(Struct):
    """A CUDA context that was lost after ``launches`` launches that are not known to have ended.

    ``complete``: no earlier launch is unknown to have ended. ``calls`` are numbers, the latest
    first, of the last distinct ones.
    """

    error: str
    launches: int
    complete: bool = True
    calls: tuple[int, ...] = ()

    def failure(self) -> str:
        """What is said of each candidate."""
        if self.launches == 1 and self.complete:
            return f"{self.error} (raised by a later call)"
        return f"perhaps, as one of {self.candidates()} before the error: {self.error}"

    def candidates(self) -> str:
        return f"{'' if self.complete else 'at least '}{counted(self.launches, 'launch')}"

    def problem(self) -> str:
        """A sentence on what may have failed."""
        if not self.launches:
            may = "no launch of a Triton kernel was pending: a kernel of another library failed"
        else:
            may = (
                f"{self.candidates()} of Triton kernels, not known to have ended, may have failed, "
                "unless a kernel of another library or of a CUDA graph did"
            )
        return f"calls: the CUDA context was lost ({self.error}): {may}"


class Calls:
    """Collects the events of calls of all processes.

    Counts are written as they grow, so a later one replaces an earlier one. Until a process has
    written its final ones, or where counting itself failed, they are lower bounds.
    """

    def __init__(self) -> None:
        self._processes = Processes("process")
        self._subjects: dict[tuple[str, str], _Subject] = {}
        self._cuda: dict[str, list[_Subject]] = {}
        self._counts: dict[tuple[Process, int], int] = {}
        self._failures: dict[tuple[Process, int], str] = {}
        self._lost: dict[Process, _LostContext] = {}
        self._open: set[Process] = set()
        self._failed = False
        self._problems: list[str] = []

    def take(self, event: Event) -> None:
        """Take in an event of any kind; those that are not about calls are ignored."""
        kind, process = event.get("event"), self._processes.process_of(event)
        if kind == "problem" and event.get("where") == COUNTING:
            self._failed = True
        if kind not in ("call", "calls") or process is None:
            return
        if event.get("final") is False:
            self._open.add(process)
        elif event.get("final") is True:
            self._open.discard(process)
        if kind == "call":
            self._call(event, process)
        else:
            self._take_counts(event, process)

    def _call(self, event: Event, process: Process) -> None:
        number = as_int(event.get("id"))
        arguments = known_values(event.get("arguments"))
        call = decoded({"name": "", **event, "arguments": arguments}, Call, self._problems.append)
        if number is None or call is None or (call.kind == "cuda" and not call.name):
            return
        subject = self._subject(call.kind, event.get("subject") or call.name)
        if call.kind == "cuda" and not subject.name:
            self._cuda.setdefault(call.name, []).append(subject)
        subject.name = call.name
        subject.calls.append((process, number, call))

    def _take_counts(self, event: Event, process: Process) -> None:
        for text, value in as_map(event.get("counts")).items():
            count = as_int(value)
            if text.isdecimal() and len(text) < 10 and count is not None:
                key = (process, int(text))
                self._counts[key] = max(self._counts.get(key, 0), count)
        for text, error in as_map(event.get("failed")).items():
            if text.isdecimal() and len(text) < 10 and isinstance(error, str):
                self._failures[process, int(text)] = error
        if (lost := event.get("lost")) is not None:
            context = decoded(as_map(lost), _LostContext, self._problems.append)
            if context is not None:
                self._lost[process] = context
                for number in context.calls:
                    self._failures.setdefault((process, number), context.failure())
        subjects = event.get("subjects")
        for row in subjects if isinstance(subjects, list) else []:
            counts = as_map(row)
            subject = self._subject(counts.get("kind"), counts.get("subject"))
            for by_process, name in (
                (subject.undescribed, "others"),
                (subject.benchmarks, "benchmarks"),
            ):
                by_process[process] = max(by_process.get(process, 0), as_int(counts.get(name)) or 0)

    def _subject(self, kind: object, identity: object) -> _Subject:
        return self._subjects.setdefault((str(kind), str(identity)), _Subject())

    def launched(self, variant: Variant, alone: bool = False) -> Variant:
        """The variant with its launches, if any were recorded.

        A launch of CUDA C++ is identified by the function's base name: it counts for the variant
        only if that is the only one of this name (``alone``).
        """
        subjects = [s for s in [self._subjects.get(("triton", variant.hash))] if s is not None]
        if not subjects and alone:
            subjects = self._cuda.get(base_name(variant.symbol), [])
        if not subjects:
            return variant
        calls = sorted(
            (c for s in subjects for c in self._distinct_calls(s)), key=lambda c: c.first or 0
        )
        return replace(
            variant,
            launches=sum(c.count for c in calls)
            + sum(sum(s.undescribed.values()) for s in subjects),
            launches_exact=not self._failed
            and not any(process in self._open for s in subjects for process in s.processes()),
            benchmarks=sum(sum(s.benchmarks.values()) for s in subjects),
            calls=tuple(calls),
        )

    def other_calls(self, graphs: Iterable[Graph]) -> tuple[Call, ...]:
        """Calls of graphs, under the graphs' ids, and of extensions' functions."""
        out: list[Call] = []
        graph_codes = ((g.stages.get(Stage.OUTPUT_CODE), g) for g in graphs)
        codes = {code.origin_path: g for code, g in graph_codes if code is not None}
        for (kind, identity), subject in self._subjects.items():
            if kind == "extension":
                out += self._distinct_calls(subject)
            elif kind == "graph":
                graph = codes.get(identity)
                text = text_of(graph.stages[Stage.OUTPUT_CODE].content) if graph else ""
                inputs = _INPUTS.search(text)
                names = re.findall(r"\w+", inputs[1]) if inputs else []
                out += [
                    _named(c, graph.id if graph else "", names)
                    for c in self._distinct_calls(subject)
                ]
        return tuple(out)

    def problems(self) -> Iterable[str]:
        """Sentences on malformed calls, and on those of which only a count was kept."""
        yield from self._problems
        yield from (lost.problem() for lost in self._lost.values())
        for (kind, _), subject in self._subjects.items():
            undescribed = sum(subject.undescribed.values())
            if undescribed and subject.calls:
                yield (
                    f"calls: the {NAMES.get(kind, kind)} {subject.name} was called in more than "
                    f"{len(subject.calls)} distinct ways; {plural(undescribed, 'more call')} "
                    f"{'is' if undescribed == 1 else 'are'} counted and not described"
                )

    def _distinct_calls(self, subject: _Subject) -> tuple[Call, ...]:
        """Distinct calls in the order of first sight, those of several processes as one."""
        merged: dict[object, Call] = {}
        for process, number, call in subject.calls:
            # A call is recorded when it begins, and counted when it has returned.
            failed = self._failures.get((process, number))
            count = self._counts.get((process, number), 1 if failed is None else 0)
            if not count and failed is None:
                continue  # it raised, in a recording that does not say with which error
            key = (
                call.grid,
                call.block,
                call.shared_bytes,
                tuple(repr(replace(a, low=None, high=None)) for a in call.arguments),
                call.shares,
            )
            call = replace(call, count=count, failed=failed)
            earlier = merged.setdefault(key, call)
            if earlier is call:
                continue
            firsts = [f for f in (earlier.first, call.first) if f is not None]
            merged[key] = replace(
                earlier,
                count=earlier.count + count,
                first=min(firsts, default=None),
                failed=earlier.failed or failed,
                arguments=tuple(map(_wider, earlier.arguments, call.arguments)),
            )
        return tuple(merged.values())


def _wider(a: Argument, b: Argument) -> Argument:
    limits = [n for n in (a.low, b.low, a.high, b.high) if n is not None]
    return replace(a, low=min(limits, default=None), high=max(limits, default=None))


def _named(call: Call, name: str, names: list[str]) -> Call:
    fits = len(names) == len(call.arguments)
    argument_names = names if fits else [a.name for a in call.arguments]
    pairs = zip(call.arguments, argument_names, strict=True)
    arguments = tuple(replace(a, name=n) for a, n in pairs)
    renamed = {a.name: n for a, n in zip(call.arguments, argument_names, strict=True)}
    shares = tuple(
        replace(s, first=renamed.get(s.first, s.first), second=renamed.get(s.second, s.second))
        for s in call.shares
    )
    return replace(call, name=name or call.name, arguments=arguments, shares=shares)


MAX_WHOLE_CUBIN_BYTES = 256 << 10
"""Bytes of a cubin that is shown whole, with all of its lines."""

MAKERS = Path(__file__).parent.parent / "reference" / "makers.toml"


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


class _Launches(Struct):
    """A kernel of a module, as often as it was launched alike."""

    symbol: str
    module: str | None
    libraries: tuple[str, ...]
    calls: dict[tuple[Process, int], Event] = field(default_factory=dict)


class _Counted(Struct, frozen=True):
    """How often a kernel was launched alike: by itself, by replays of CUDA graphs, and to be
    captured into one; ``varied`` has a bit for each parameter that was not always the same."""

    launched: int
    replayed: int = 0
    varied: int = 0
    captured: int = 0


class _CompilerProduct(Struct, frozen=True):
    """What a compiler was seen to make: names, and what it made them of."""

    compiler: str
    name: str
    event: Event

    @property
    def identity(self) -> tuple[str, str, object]:
        return self.compiler, self.name, self.event.get("symbol")


@cache
def makers() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Libraries by the names of their files, and what people call what launches from them."""
    rows = tomllib.loads(files.text(MAKERS))["maker"]
    return tuple((re.compile(row["library"]), str(row["maker"])) for row in rows)


def maker_of(libraries: Iterable[str]) -> str | None:
    """Who asked for a launch, by the libraries that it came through, innermost first."""
    for path in libraries:
        name = PurePath(path).name
        maker = next((maker for pattern, maker in makers() if pattern.search(path)), None)
        if maker or re.search(r"\.so(?:\.|$)", name):
            return maker or name.partition(".")[0].removeprefix("lib")
    return None


EMPTIES = "zero_"
"""ATen's operator by which Inductor's and Triton's stopwatches empty the cache."""


def _outermost_operator(event: Event) -> str | None:
    """The operator that the program called for a launch; None where it is not known."""
    operators = event.get("operators")
    return str(operators[-1]) if isinstance(operators, list) and operators else None


class DriverLaunches:
    """Collects the events of all processes."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._processes = Processes("driver")
        self.times = GpuTimes()
        self._kernels: dict[tuple[str | None, str], _Launches] = {}
        self._counts: dict[tuple[Process, int], _Counted] = {}
        self._lost: dict[tuple[Process, str], int] = {}
        self._made: list[_CompilerProduct] = []
        self._refused: list[_CompilerProduct] = []
        # Kernels that were taken out of their modules: the blob of each, and the way back.
        self._alone: dict[tuple[str, str], str] = {}
        self._whole: dict[tuple[str, str], str] = {}
        self._blind: dict[str, None] = {}
        self._inexact: set[Process] = set()
        self._strangers: dict[str, _Launches] = {}
        self._targets: dict[str, str | None] = {}
        self.began = False
        self._tells_tuning = False
        self._candidates: dict[tuple[int, int], dict[LaunchKey, Event]] = {}

    def take(self, event: Event) -> None:
        """Take in an event of any kind; those that are not about this are ignored."""
        self.times.take(event)
        process = self._processes.process_of(event)
        match event.get("event"):
            case "uncaptured" | "made_failed" as kind:
                product = _CompilerProduct(str(event.get("by")), str(event.get("name")), event)
                if kind == "made_failed":
                    self._refused.append(product)
                else:
                    # A later event of a compiler's product adds its machine code
                    if event.get("cubin") is not None:
                        self._made = [p for p in self._made if p.identity != product.identity]
                    self._made.append(product)
            case "driver_kernel":
                module, name, blob = (as_text(event.get(k)) for k in ("module", "name", "blob"))
                if module and name and blob:
                    self._alone[module, name] = blob
                    self._whole[blob, name] = module
            case _ if process is None:
                return
            case "driver":
                other_tool, error = as_text(event.get("beside")), as_int(event.get("error"))
                why = None if error is None else f"CUPTI refused (error {error})"
                why = as_text(event.get("why")) or why
                if other_tool is not None:
                    why = f"{other_tool} is set: another tool is at the driver"
                if event.get("began") is True:
                    self.began = True
                elif why is not None:
                    self._blind[why] = None
            case "driver_left":
                self._blind[f"{event.get('why')} began"] = None
                self._inexact.add(process)
            case "driver_launch":
                self._launch(event, process)
            case "driver_counts":
                self._take_counts(event, process)

    def _launch(self, event: Event, process: Process) -> None:
        symbol, number = as_text(event.get("name")), as_int(event.get("id"))
        if symbol is None or number is None:
            return
        module = as_text(event.get("module"))
        libraries = event.get("libraries")
        paths = tuple(str(p) for p in libraries) if isinstance(libraries, list) else ()
        launches = self._kernels.setdefault((module, symbol), _Launches(symbol, module, paths))
        launches.calls[process, number] = event
        self._tells_tuning |= event.get("tuning") is True
        candidate = as_int(event.get("candidate"))
        if candidate is not None:
            self._candidates.setdefault((process[0], candidate), {})[process, number] = event

    def _take_counts(self, event: Event, process: Process) -> None:
        for text, value in as_map(event.get("counts")).items():
            numbers = [as_int(n) for n in value[:4]] if isinstance(value, list | tuple) else []
            if text.isdecimal() and len(text) < 10 and len(numbers) > 2 and None not in numbers:
                self._counts[process, int(text)] = _Counted(*(n or 0 for n in numbers))
        if event.get("exact") is False:
            self._inexact.add(process)
        for loss in LOST:
            if (lost := as_int(event.get(loss))) is not None:
                self._lost[process, loss] = lost

    # -- values ---------------------------------------------------------------------------------

    def launched(self, variant: Variant, demangled: str) -> Variant:
        """The variant with its launches, if they were seen here and nowhere else.

        Launches of Triton's are counted where they are asked for, with their arguments; here only
        what replays of CUDA graphs add to them, less those that were asked for to be captured.
        """
        if (launches := self._launches_of(variant)) is None:
            return variant
        program_launches = {
            key: event for key, event in launches.calls.items() if not event.get("tuning")
        }
        counts = [self._count(key, event) for key, event in program_launches.items()]
        variant = replace(
            variant,
            gpu_time=self.times.time_of(self._executed(launches, tuning=False)),
            tuning_gpu_time=self.times.time_of(self._executed(launches, tuning=True)),
        )
        if variant.launches is not None:
            replayed = sum(c.replayed - c.captured for c in counts)
            return replace(
                variant,
                launches=max(variant.launches + replayed, 0),
                calls=tuple(self._timed(launches, call) for call in variant.calls),
            )
        has_parameters = any(event.get("parameters") for event in launches.calls.values())
        tuned = [self._count(k, e) for k, e in launches.calls.items() if e.get("tuning")]
        return replace(
            variant,
            launches=sum(c.launched + c.replayed for c in counts),
            launches_exact={process for process, _ in launches.calls}.isdisjoint(self._inexact),
            # None where the recording does not tell an autotuner's launches from others.
            benchmarks=sum(c.launched + c.replayed for c in tuned) if self._tells_tuning else None,
            calls=tuple(
                self._timed(launches, call)
                for call in self._calls(
                    launches, argument_types(demangled) if has_parameters else ()
                )
            ),
        )

    def _executed(self, launches: _Launches, tuning: bool) -> dict[LaunchKey, int]:
        """How often each kind of launch ran: the program's own, or an autotuner's."""
        counts = {
            key: self._count(key, event)
            for key, event in launches.calls.items()
            if bool(event.get("tuning")) is tuning
        }
        return {key: count.launched + count.replayed for key, count in counts.items()}

    def _timed(self, launches: _Launches, call: Call) -> Call:
        """A call with the times of the launches that have its grid, block and shared memory."""
        geometry = (call.grid, call.block, call.shared_bytes)
        counts = {
            key: count
            for key, count in self._executed(launches, tuning=False).items()
            if _geometry(launches.calls[key]) == geometry
        }
        return replace(call, gpu_time=self.times.time_of(counts))

    def times_by_grid(self, variant: Variant) -> Sequence[GpuTime | None]:
        """The times of an autotuner's launches of a variant for each grid, in the order in which
        one process first launched them; of several processes none, as they have no order."""
        launches = self._launches_of(variant)
        executed = {} if launches is None else self._executed(launches, tuning=True)
        if launches is None or len({process for process, _ in executed}) != 1:
            return ()
        by_grid: dict[object, dict[LaunchKey, int]] = {}
        for key in sorted(executed):
            grid = as_three(launches.calls[key].get("grid"))
            by_grid.setdefault(grid, {})[key] = executed[key]
        return [self.times.time_of(counts) for counts in by_grid.values()]

    def candidate_time(self, pid: int, number: int) -> GpuTime | None:
        """The time of a call of a tuner's candidate that launches a library's kernels.

        Before each call the tuner overwrites memory to empty the cache, by ``EMPTIES``. Where no
        such launch is known, operators could not be told, nor which launches are the candidate's.
        """
        launches = self._candidates.get((pid, number), {})
        outermost = {key: _outermost_operator(event) for key, event in launches.items()}
        if EMPTIES not in outermost.values():
            return None
        return self.times.call_time(key for key, name in outermost.items() if name != EMPTIES)

    def launch_keys(self, variant: Variant) -> Iterable[LaunchKey]:
        """The processes and numbers of a variant's launches."""
        launches = self._launches_of(variant)
        return () if launches is None else launches.calls

    def first_launches(self, process: Process) -> tuple[frozenset[int], tuple[float, ...]]:
        """The numbers of a process's launches that are an autotuner's, and when each launch was
        first seen, in order."""
        tuning: set[int] = set()
        times: list[float] = []
        for launches in self._kernels.values():
            for (owner, number), event in launches.calls.items():
                time = event.get("time")
                if owner == process and event.get("tuning"):
                    tuning.add(number)
                if owner == process and isinstance(time, int | float):
                    times.append(float(time))
        return frozenset(tuning), tuple(sorted(times))

    def _launches_of(self, variant: Variant) -> _Launches | None:
        if (stranger := self._strangers.get(variant.hash)) is not None:
            return stranger
        machine_code = variant.stages.get(Stage.SASS)
        digest = digest_named(machine_code.content) if machine_code is not None else None
        if digest is None:
            return None
        module = self._whole.get((digest, variant.symbol), digest)
        return self._kernels.get((module, variant.symbol))

    def _count(self, key: tuple[Process, int], event: Event) -> _Counted:
        # It was launched once when it was first seen, if not only captured into a graph.
        return self._counts.get(key, _Counted(0 if event.get("in_graph") else 1))

    def _calls(self, launches: _Launches, types: Sequence[str]) -> tuple[Call, ...]:
        """The calls of a kernel; ``others`` stands for those unlike all that are recorded."""
        calls: dict[object, Call] = {}
        for launch_key, event in launches.calls.items():
            counts, names = self._count(launch_key, event), event.get("operators")
            count = counts.launched + counts.replayed
            if event.get("others") or event.get("tuning") or not count:
                continue
            call = Call(
                kind="cuda",
                name=base_name(launches.symbol),
                grid=as_three(event.get("grid")),
                block=as_three(event.get("block")),
                shared_bytes=as_int(event.get("shared_bytes")),
                arguments=_arguments(event.get("parameters"), counts.varied, types),
                count=count,
                # The event has the innermost first.
                operators=tuple(map(str, reversed(names))) if isinstance(names, list) else (),
            )
            key = (
                call.grid,
                call.block,
                call.shared_bytes,
                call.operators if event.get("by_operator") else (),
            )
            earlier = calls.get(key)
            calls[key] = call if earlier is None else _together(earlier, call)
        return tuple(calls.values())

    def strangers(self, variants: Iterable[Variant]) -> Iterator[VariantOfKernel]:
        """A kernel for each that was launched and that is in no variant so far."""
        met = {
            (digest_named(machine_code.content), v.symbol)
            for v in variants
            if (machine_code := v.stages.get(Stage.SASS)) is not None
        }
        for key, launches in self._kernels.items():
            counts = (self._count(k, e) for k, e in launches.calls.items())
            if key not in met and any(c.launched or c.replayed for c in counts):
                yield self._stranger(launches)
        if not self.began:
            for product in self._made:
                if self._has_code(product) and not self._was_refused(product):
                    # A kernel of which its compiler's text is all there is
                    stages = (Stage.TTIR, Stage.TTGIR, Stage.LLIR)
                    missing = dict.fromkeys(stages, "no Triton compiled it")
                    why = f"{product.compiler} is not emulated, and there was no GPU to load it"
                    yield self._of_compiler(product, missing | {Stage.SASS: why})
        for product in self._refused:
            # A kernel that its compiler refused, with the stages before
            error = facts.of_compile(product.event, self._blob)
            tool, reason = (
                (product.compiler, "it did not say why")
                if error is None
                else (error.tool, error.summary)
            )
            missing = dict.fromkeys((Stage.TTIR, Stage.TTGIR), f"{product.compiler} makes none")
            why = f"{tool or product.compiler} could not compile it: {reason}"
            missing |= dict.fromkeys((Stage.LLIR, Stage.PTX, Stage.SASS), why)
            yield self._of_compiler(product, missing, error)

    def _was_refused(self, product: _CompilerProduct) -> bool:
        """Whether a kernel that has PTX was refused by the linker."""
        symbol = product.event.get("symbol")
        return symbol is not None and any(
            r.compiler == product.compiler and r.event.get("symbol") == symbol
            for r in self._refused
        )

    def has_code(self, compiler: str, name: str) -> bool:
        """Whether a compiler's code is there of a kernel that no driver was asked to launch."""
        products = (
            product
            for product in self._made
            if product.compiler == compiler and product.name == name
        )
        return not self.began and any(map(self._has_code, products))

    def _has_code(self, product: _CompilerProduct) -> bool:
        return any(self._blob(product.event.get(kind)) is not None for kind in ("ptx", "cubin"))

    def _of_compiler(
        self, product: _CompilerProduct, missing: Mapping[Stage, str], error: Failure | None = None
    ) -> VariantOfKernel:
        """A kernel of which its compiler alone has told, known by its PTX if that was compiled,
        and else by the request."""
        symbol = as_text(product.event.get("symbol")) or product.name
        stages: dict[Stage, StageFile] = {}
        fields = self._compiled(product, symbol, stages)
        code_file = stages.get(Stage.PTX, stages.get(Stage.SASS))
        code = None if code_file is None else code_file.content
        signature = sorted(as_map(fields["signature"]).items())
        request = repr((product.compiler, product.name, signature, product.event.get("source")))
        digest = hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()
        variant = Variant(
            id="",
            hash=digest_of(code) if code is not None and error is None else digest,
            symbol=symbol,
            target=self._target(stages) or (target_of(code, {}) if Stage.PTX in stages else None),
            stages=stages,
            missing=_missing(missing, stages, product),
            maker=product.compiler,
            error=error,
        )
        key = ("extern", symbol, product.compiler)
        return VariantOfKernel(key, Origin.EXTERN, symbol, replace(variant, **fields))

    def _stranger(self, launches: _Launches) -> VariantOfKernel:
        # The compilation whose machine code it is; else of those of that name the last.
        named = [product for product in reversed(self._made) if _names(product, launches.symbol)]
        exact = (m for m in named if launches.module and m.event.get("cubin") == launches.module)
        product = next(exact, next(iter(named), None))
        modules = {m.event.get("ir") for m in named}
        if (
            product is not None
            and len(modules) > 1
            and product.event.get("cubin") != launches.module
        ):
            compiler = product.compiler
            why = f"{len(modules)} modules that {compiler} compiled have a kernel of this name"
            lacks = dict.fromkeys(("source", "ir", "output_code", "ttir", "llir", "ptx"), why)
            product = _CompilerProduct(product.compiler, product.name, {"lacks": lacks})
        stages: dict[Stage, StageFile] = {}
        maker = product.compiler if product is not None else maker_of(launches.libraries)
        from_library = launches.libraries[0] if launches.libraries else None
        module = self._blob(launches.module)
        extracted = self._blob(self._alone.get((launches.module or "", launches.symbol)))
        if extracted is not None:
            stages[Stage.SASS] = StageFile(extracted, from_library, "nvdisasm -c")
        elif module is not None:
            code = KernelOfModule(module, launches.symbol)
            stages[Stage.SASS] = StageFile(code, from_library, "nvdisasm -c")
        missing = dict.fromkeys((Stage.TTIR, Stage.TTGIR, Stage.LLIR), "no Triton compiled it")
        missing[Stage.PTX] = "only its machine code passes the driver"
        missing[Stage.SASS] = "the module that it is in could not be kept"
        fields = {} if product is None else self._compiled(product, launches.symbol, stages)
        # A kernel's own: a module has hundreds, and all that is known is known of one.
        identity = f"{launches.module}\0{launches.symbol}".encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(identity).hexdigest()
        self._strangers[digest] = launches
        variant = Variant(
            id="",
            hash=digest,
            symbol=launches.symbol,
            target=self._target(stages),
            stages=stages,
            missing=_missing(missing, stages, product),
            maker=maker,
            library=from_library,
        )
        key = ("extern", launches.symbol, maker or "")
        return VariantOfKernel(key, Origin.EXTERN, launches.symbol, replace(variant, **fields))

    def _target(self, stages: Mapping[Stage, StageFile]) -> str | None:
        if (machine_code := stages.get(Stage.SASS)) is None:
            return None
        module = machine_code.content
        if isinstance(module, KernelOfModule):
            module = module.module
        name = digest_named(module) or ""
        if name not in self._targets:  # a module may have hundreds of kernels, and 60 MB
            with suppress(PtxviewError):
                self._targets[name] = architecture(module.read())
        return self._targets.get(name)

    def _compiled(
        self, product: _CompilerProduct, symbol: str, stages: dict[Stage, StageFile]
    ) -> dict[str, Any]:
        """Add the stages that a compiler's own words hold; the kernel's lines in its source, its
        options and the types of its parameters, as fields of a variant."""
        span: tuple[int, int] | None = None
        if (source := self._blob(product.event.get("source"))) is not None:
            path = as_text(product.event.get("path"))
            stages[Stage.SOURCE] = StageFile(source, path, f"what {product.compiler} was given")
            span = facts.lines_of(product.event) or cuda_span(text_of(source), base_name(symbol))
        texts = (Stage.IR, Stage.OUTPUT_CODE, Stage.TTIR, Stage.LLIR, Stage.PTX)
        paths, authors = as_map(product.event.get("paths")), as_map(product.event.get("said"))
        for stage, key in (*((s, s.value) for s in texts), (Stage.SASS, "cubin")):
            if stage not in stages and (content := self._blob(product.event.get(key))) is not None:
                told_by = product.compiler if stage is not Stage.SASS else "nvdisasm -c"
                told_by = as_text(authors.get(key)) or told_by
                stages[stage] = StageFile(content, as_text(paths.get(key)), told_by)
        code = stages.get(Stage.OUTPUT_CODE)
        embedded = None if code is None or code.origin_path is None else (code.origin_path, 1)
        options = product.event.get("options")
        config = as_map(product.event.get("config"))
        if isinstance(options, list):
            config = {**config, "flags": [str(o) for o in options]}
        signature = {k: str(v) for k, v in as_map(product.event.get("signature")).items()}
        return {"span": span, "config": config, "signature": signature, "embedded": embedded}

    def captured(self, compiler: str, name: str) -> bool:
        """Whether a kernel that a compiler was seen to make is here by its launches, or was never
        launched, since all launches were seen."""
        if self.began and not self._blind:
            return True
        of_it = [m for m in self._made if m.compiler == compiler and m.name == name]
        if of_it and all(map(self._was_refused, of_it)):
            return True  # as one that failed
        product = _CompilerProduct(compiler, name, {})
        return any(_names(product, symbol) for _, symbol in self._kernels)

    def problems(self) -> Iterator[str]:
        """Sentences on what was not seen, and on what was seen and could not be recorded."""
        yield from self.times.problems()
        for why in self._blind:
            yield (
                f"the driver's launches were not seen from when {why}: kernels that only they tell "
                "of are missing, or counted too low"
                if why.endswith(" began")
                else f"the driver's launches were not seen: {why}"
            )
        for key, (word, matter) in LOST.items():
            if n := sum(lost for (_, loss), lost in self._lost.items() if loss == key):
                yield f"the driver's launches: {counted(n, word)} {matter}"


def _geometry(event: Event) -> tuple[object, object, object]:
    """Grid, block and dynamic shared memory of a launch."""
    grid, block = as_three(event.get("grid")), as_three(event.get("block"))
    return grid, block, as_int(event.get("shared_bytes"))


def digest_named(content: Content) -> str | None:
    """The SHA-256 that a blob is named by, without reading it; None if it is no blob."""
    if isinstance(content, KernelOfModule):
        return digest_named(content.module)
    named = getattr(content, "digest", None) or PurePath(str(getattr(content, "path", ""))).name
    return named if isinstance(named, str) and len(named) == 64 else None


def _missing(
    reasons: Mapping[Stage, str],
    stages: Mapping[Stage, StageFile],
    product: _CompilerProduct | None,
) -> dict[Stage, str]:
    """The reasons for the stages that a kernel lacks, the compiler's own first."""
    all_reasons = {**reasons, Stage.SOURCE: "what it was compiled from was not seen"}
    words = {} if product is None else as_map(product.event.get("lacks"))
    all_reasons |= {stage: str(words[stage]) for stage in Stage if stage in words}
    return {stage: why for stage, why in all_reasons.items() if stage not in stages}


def _names(product: _CompilerProduct, symbol: str) -> bool:
    """Whether what a compiler named is this symbol: itself, its base name, or the jiterator's."""
    name = product.name
    if symbol in (name, as_text(product.event.get("symbol"))) or base_name(symbol) == name:
        return True
    jiterated = product.compiler.endswith("jiterator")
    return jiterated and bool(re.fullmatch(rf"{re.escape(name)}_(\w+_)?kernel", symbol))


def _together(first: Call, second: Call) -> Call:
    """Calls that were made alike in two processes: of arguments, what they have in common."""
    arguments = (
        a if a == b else replace(a, value=None, alignment=None)
        for a, b in zip(first.arguments, second.arguments, strict=False)
    )
    same = len(first.arguments) == len(second.arguments)
    return replace(
        first, count=first.count + second.count, arguments=tuple(arguments) if same else ()
    )


_FORMATS = {
    "bool": "?",
    "char": "b",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned int": "I",
    "unsigned": "I",
    "long": "q",
    "unsigned long": "Q",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
    "__half": "e",
}
"""The layout of C++'s types on 64-bit Linux (System V ABI), in the letters of ``struct``."""

HIGHEST_ALIGNMENT = 512


def _arguments(parameters: object, varied: int, types: Sequence[str]) -> tuple[Argument, ...]:
    """Parameters of launches: the value that all of them had, None if it was not always the same.

    An address is hexadecimal text, with its alignment; what is neither a number nor an address has
    no value.
    """
    texts = [str(t) for t in parameters] if isinstance(parameters, list) else []
    fits = len(types) == len(texts)
    out = []
    for n, text in enumerate(texts):
        kind = types[n] if fits else None
        raw = bytes.fromhex(text) if re.fullmatch("(?:[0-9a-f]{2})*", text) else b""
        value, alignment = (None, None) if varied >> n & 1 else _value(raw, kind)
        out.append(Argument(f"parameter {n}", kind, value, alignment=alignment))
    return tuple(out)


def _value(raw: bytes, kind: str | None) -> tuple[int | float | bool | str | None, int | None]:
    base = re.sub(r"\b(?:const|volatile)\b", "", kind or "").strip()
    if base.endswith(("*", "&")) and len(raw) == 8:
        address = int.from_bytes(raw, "little")
        return hex(address), min(address & -address or HIGHEST_ALIGNMENT, HIGHEST_ALIGNMENT)
    if (form := _FORMATS.get(base)) is None or struct.calcsize(f"<{form}") != len(raw):
        return None, None
    (number,) = struct.unpack(f"<{form}", raw)
    return number, None
