"""Assembles events into a recording's kernels, variants and graphs.

Probes and the readers of caches produce the same events, so that a recording and a folder of
Triton's cache become the same values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import (
    Compilation,
    Failure,
    Fusion,
    Graph,
    Kernel,
    KernelCompile,
    Origin,
    RecordedProcess,
    Recording,
    Resources,
    Stage,
    Timeline,
    TriedFusion,
    Uncaptured,
    Unwatched,
    Variant,
)
from inspector.base.names import base_name, shortest_ids, untagged
from inspector.base.units import plural
from inspector.recording import autotune, variants
from inspector.recording.calls import Calls
from inspector.recording.contents import Blob
from inspector.recording.driver_launches import DriverLaunches
from inspector.recording.events import (
    BinaryFigures,
    CallCounts,
    CallRecorded,
    CompilationRecorded,
    CompilerProduct,
    DeviceCode,
    DeviceFound,
    DriverCounts,
    DriverLaunch,
    Event,
    ExtensionBuild,
    Generated,
    JsonObject,
    Problem,
    ProcessStarted,
    RawEvent,
    Removed,
    RunEnded,
    RunFinished,
    RunStarted,
    StageFileFound,
    ToolVersions,
    TritonCompile,
    UnwatchedProcess,
    event_of,
)
from inspector.recording.extension_builds import ExtensionBuilds
from inspector.recording.extern_kernels import ExternKernels
from inspector.recording.failures import Failures
from inspector.recording.gpu_times import OPTIMIZER
from inspector.recording.inductor_graphs import InductorGraphs
from inspector.recording.malformed_fields import MalformedFields
from inspector.recording.origins import Origins, joined
from inspector.recording.processes import Process
from inspector.recording.resources import merge
from inspector.recording.siblings import KernelNumbers, with_traits
from inspector.recording.torch_compiles import TorchCompiles
from inspector.recording.variants import Key, VariantOfKernel, key_of
from inspector.system.toolchain import demangle

REMOVED = "it was removed before the recording was handed on"
MAX_NAMED = 20
"""Kernels of one compiler that are named as problems; ``Recording.uncaptured`` has all."""
ABOVE = (Stage.SOURCE, Stage.OUTPUT_CODE)
"""Stages that a kernel's compiler is given."""
_WHY_UNWATCHED = {
    "-I": "with -I Python leaves out PYTHONPATH, by which the probes are found",
    "-E": "with -E Python leaves out PYTHONPATH, by which the probes are found",
    "-S": "with -S Python loads no sitecustomize, which wakes the probes",
    "environment": "the environment that it was given does not name the probes",
    "sitecustomize": "another sitecustomize precedes the probes' on its PYTHONPATH",
    "none": "no interpreter of Python loaded the probes; with -I, -E, -S or an emptied "
    "environment none can",
}


class _Kernel(Struct):
    origin: Origin
    name: str
    variants: dict[tuple[str, str], Variant] = field(default_factory=dict)


class Assembly:
    """Collects events in order and builds the values."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._kernels: dict[Key, _Kernel] = {}
        self._origins = Origins(blob)
        self._graphs = InductorGraphs(blob, self._origins)
        self._builds = ExtensionBuilds(blob)
        self._calls = Calls()
        self._driver = DriverLaunches()
        self._extern = ExternKernels(blob, self._driver)
        self._tunings = autotune.Tunings()
        self._compiles = TorchCompiles(blob)
        self._failures = Failures(blob)
        self._run: RunStarted | None = None
        self._end: RunEnded | None = None
        self._is_finished = False
        self._removed: tuple[str, ...] = ()
        self._device: JsonObject = {}
        self._tools: dict[str, str] = {}
        # By hash and, if ptxas said them, by symbol; those of a loaded binary have none.
        self._figures: dict[tuple[str, str | None], Resources] = {}
        self._uncaptured: dict[Uncaptured, None] = {}
        self._processes: dict[int, RecordedProcess] = {}
        self._unwatched: dict[Unwatched, None] = {}
        self._compilations: list[Compilation] = []
        self.problems: list[str] = []

    def recording(self, path: str, raw_events: Iterable[RawEvent]) -> Recording:
        """Build the recording of events, which are let go one by one as they are decoded.

        Args:
            path: where they are from.
            raw_events: in the order of time.
        """
        malformed_fields = MalformedFields()
        events = [event_of(raw, malformed_fields.count) for raw in raw_events]
        self.problems.extend(malformed_fields.problems())
        self._collect(events)
        self._graphs.take_all(events)
        self.problems.extend(self._graphs.problems)
        for key in self._graphs.kernel_keys():
            self._kernels.setdefault(key, _Kernel(Origin(key[0]), key[1]))
        for variant in variants.under_one_kernel(list(self._compiled(events))):
            self._add(self._tunings.under_operation(variant))
        for event in events:
            self._take(event)
        for device_code, error in self._builds.failed_sources(self.problems):
            self._add_built(device_code, error)
        return self._finish(path)

    def _collect(self, events: Sequence[Event]) -> None:
        """Hand each event to the collectors that take its kind; most events have one."""
        collectors: dict[type[Event], list[Callable[[Event], None]]] = {}
        for collector in (self._calls, self._driver, self._extern, self._tunings, self._compiles):
            for kind in collector.EVENTS:
                collectors.setdefault(kind, []).append(collector.take)
        for index, event in enumerate(events):
            self._origins.take(event, index)
            for take in collectors.get(type(event), ()):
                take(event)

    # -- one event each ---------------------------------------------------------------------

    def _compiled(self, events: list[Event]) -> Iterator[VariantOfKernel]:
        """The compilations by Triton, whose events are dropped: they are the most frequent and the
        largest. Builds are taken in too, since their sources are needed by all that follows."""
        ranks = {e.pid: e.rank for e in events if isinstance(e, ProcessStarted)}
        generated = {e.file: e for e in events if isinstance(e, Generated)}
        for index, event in enumerate(events):
            if event.unkept is not None:
                label = f"files of {event.event} {event.name or event.path or ''}".rstrip()
                self.problems.append(f"{label} could not be kept: {event.unkept}")
            if isinstance(event, ExtensionBuild):
                self._builds.take_build(event)
            elif isinstance(event, TritonCompile) and _is_compilation(event):
                compiled = variants.from_triton(
                    event, self._blob, self._graphs.files, ranks.get(event.pid), self._origins.files
                )
                if compiled is None:
                    continue
                language_event = generated.get(event.source.file)
                if language_event is not None:
                    compiled = variants.of_language(compiled, language_event, self._blob)
                events[index] = Event()
                yield compiled

    def _take(self, event: Event) -> None:
        """Take in an event that is neither a graph's nor collected."""
        if isinstance(event, Failures.EVENTS):
            self._failures.take(event)
        match event:
            case CallCounts() | CallRecorded() | DriverCounts() | DriverLaunch():
                pass  # the most frequent, collected before
            case DeviceCode():
                if self._builds.has_code(event):
                    self._add_built(event, None)
            case StageFileFound():
                for variant in variants.from_file(event, self._blob):
                    self._add(variant)
            case BinaryFigures():
                symbol = str(event.symbol) if event.event == "ptxas" else None
                self._figures.setdefault((str(event.hash), symbol), _figures(event))
            case CompilerProduct(event="uncaptured"):
                self._uncaptured[Uncaptured(str(event.name), str(event.compiler))] = None
            case Problem():
                self.problems.append(f"{event.location}: {event.text}")
            case TritonCompile(event="triton_failed"):
                reason = str(event.error).strip().partition("\n")[0][:300]
                self.problems.append(f"Triton could not compile {event.name}: {reason}")
            case CompilationRecorded():
                if event.compilation is not None:
                    self._compilations.append(event.compilation)
                elif event.malformed is not None:
                    self.problems.append(event.malformed)
            case UnwatchedProcess():
                command = event.command or "a process"
                self._unwatched[Unwatched(command, str(event.why))] = None
            case _:
                self._take_run(event)

    def _take_run(self, event: Event) -> None:
        """Take in an event about the run, its processes and tools."""
        match event:
            case RunStarted():
                self._run = event
            case RunEnded():
                self._end = event
                self._is_finished = not event.finishing
            case RunFinished():
                self._is_finished = True
            case Removed():
                self._removed = event.kinds or ()
            case DeviceFound():
                self._device = self._device or event.properties
            case ProcessStarted():
                self._add_tools({"python": event.python})
                if event.pid is not None:
                    process = RecordedProcess(event.pid, event.rank, event.machine)
                    self._processes.setdefault(event.pid, process)
            case ToolVersions():
                self._add_tools({"torch": event.version, **event.tools})

    def _add_built(self, event: DeviceCode, error: Failure | None) -> None:
        """Device code of a build, or why it is missing. A kernel that was compiled at another time
        has what did not compile beside it."""
        built, problems = variants.from_device_code(event, self._blob, self._builds.sources, error)
        for compiled in built:
            if compiled.variant.error is None:
                self._add(compiled)
                continue
            compiler, name, file = compiled.key
            matching = [
                key
                for key in self._kernels
                if key[0] == compiler and key[2] == file and base_name(key[1]) == name
            ]
            if len(matching) == 1:
                compiled = replace(compiled, key=matching[0], name=matching[0][1])
            self._add(compiled)
        self.problems.extend(problems)

    def _add_tools(self, versions: Mapping[str, object]) -> None:
        self._tools = {k: str(v) for k, v in versions.items() if v} | self._tools

    # -- values -----------------------------------------------------------------------------

    def _add(self, compiled: VariantOfKernel) -> None:
        kernel = self._kernels.setdefault(compiled.key, _Kernel(compiled.origin, compiled.name))
        variant = compiled.variant
        key = (variant.hash, variant.symbol)
        earlier = kernel.variants.get(key)
        kernel.variants[key] = variant if earlier is None else _merged(earlier, variant)

    def _finish(self, path: str) -> Recording:
        recorded = [v for k in self._kernels.values() for v in k.variants.values()]
        for extern in list(self._extern.kernels(recorded)):
            self._add(extern)
        for key, origin, name in list(self._tunings.tuned_kernels(self._kernels)):
            self._kernels.setdefault(key, _Kernel(origin, name))
        self._failures.take_attempts(self._compilations)
        kernels = self._finished_kernels()
        tried = self._tune(kernels)
        kernels = with_traits(kernels)
        graphs = self._graphs.finished(kernels, tried)
        self.problems.extend(self._calls.problems())
        self.problems.extend(self._driver.problems())
        self.problems.extend(self._failures.problems())
        for kernel_name in list(self._uncaptured):
            if self._extern.captured(kernel_name.compiler, kernel_name.name):
                del self._uncaptured[kernel_name]
        self.problems.extend(self._unseen())
        return self._with_run(path, tuple(kernels.values()), graphs)

    def _finished_kernels(self) -> dict[Key, Kernel]:
        """The kernels with unique ids and with their finished variants."""
        ids = shortest_ids(v.hash for k in self._kernels.values() for v in k.variants.values())
        readable = demangle([k.name for k in self._kernels.values()])
        columns = _columns(self._compilations)
        only_of_name = self._only_of_name()
        kernels: dict[Key, Kernel] = {}
        names: Counter[str] = Counter()
        numbers = KernelNumbers()
        for (key, kernel), tagged in zip(self._kernels.items(), readable, strict=True):
            demangled = untagged(tagged)
            names[kernel.name] += 1
            number = names[kernel.name]
            fusion = joined(self._graphs.fusions.get(key, ()))
            variants = []
            for variant in kernel.variants.values():
                alone = kernel.origin is Origin.NVCC and base_name(variant.symbol) in only_of_name
                launched = self._driver.launched(
                    self._calls.launched(variant, alone, demangled), demangled
                )
                column = columns.get((variant.hash, variant.symbol), {})
                config = {**column, **variant.config}
                launched = replace(launched, id=ids[variant.hash], config=config)
                variants.append(self._finished_variant(kernel, launched, fusion))
            kernel.variants.clear()
            kernels[key] = Kernel(
                id=kernel.name if number == 1 else f"{kernel.name}@{number}",
                name=kernel.name,
                demangled=demangled,
                origin=kernel.origin,
                variants=tuple(variants),
                fusion=fusion,
                number=numbers.number_of(kernel.origin, kernel.name),
            )
        return kernels

    def _only_of_name(self) -> set[str]:
        """The base names that one variant of all extensions has."""
        counts: Counter[str] = Counter()
        for kernel in self._kernels.values():
            if kernel.origin is Origin.NVCC:
                counts.update(base_name(v.symbol) for v in kernel.variants.values())
        return {name for name, count in counts.items() if count == 1}

    def _finished_variant(
        self, kernel: _Kernel, variant: Variant, fusion: Fusion | None
    ) -> Variant:
        """A variant completed with its kernel, its figures and its failure."""
        model = self._origins.source(fusion) if fusion is not None else None
        stages = variant.stages
        if model is not None:
            stages = {**stages, Stage.SOURCE: model}
        # Kernels that the program launches itself were not made by the graph.
        generated = kernel.origin is not Origin.TRITON or Stage.OUTPUT_CODE in variant.stages
        return replace(
            variant,
            recorded_resources=self._resources(variant),
            missing=self._missing(variant),
            stages=stages,
            fusion=fusion if generated else None,
            error=self._failures.failure_of(variant),
        )

    def _resources(self, variant: Variant) -> Resources:
        """A variant's figures, with those of ptxas on its kernel and of its loaded binary."""
        by_ptxas = self._figures.get((variant.hash, variant.symbol), Resources())
        loaded = self._figures.get((variant.hash, None), Resources())
        return merge(variant.recorded_resources, by_ptxas, loaded)

    def _missing(self, variant: Variant) -> dict[Stage, str]:
        missing = dict(variant.missing)
        if self._without_source():
            missing |= dict.fromkeys(ABOVE, REMOVED)
        return missing

    def _timelines(self, kernels: Iterable[Kernel]) -> Iterator[Timeline]:
        """What the GPU did in each process that was watched."""
        variants: dict[Process, dict[int, tuple[str, str]]] = {}
        for kernel in kernels:
            for variant in kernel.variants:
                for process, number in self._driver.launch_keys(variant):
                    variants.setdefault(process, {})[number] = kernel.id, variant.id
        ids = self._graphs.ids_by_path()
        for process, digest in self._driver.times.timelines.items():
            content = self._blob(digest)
            if content is not None:
                tuning, first_launches = self._driver.first_launches(process)
                names = self._driver.times.marks.get(process[0], {})
                yield Timeline(
                    process=process[0],
                    content=content,
                    variants=variants.get(process, {}),
                    tuning=tuning,
                    first_launches=first_launches,
                    marks={
                        number: name if number >= OPTIMIZER else ids[name]
                        for number, name in names.items()
                        if number >= OPTIMIZER or name in ids
                    },
                )

    def _unseen(self) -> Iterable[str]:
        """A sentence for each kernel that was not captured, and each process that was not watched,
        up to a bound."""
        for maker in dict.fromkeys(kernel.compiler for kernel in self._uncaptured):
            names = [kernel.name for kernel in self._uncaptured if kernel.compiler == maker]
            for name in names[:MAX_NAMED]:
                has_code = self._extern.has_code(maker, name)
                lacks = "emulated; its code is here" if has_code else "captured"
                yield f"the kernel {name} was made by {maker}, which is not {lacks}"
            if len(names) > MAX_NAMED:
                remaining = plural(len(names) - MAX_NAMED, "more kernel")
                were = "was" if len(names) == MAX_NAMED + 1 else "were"
                yield f"{remaining} {were} made by {maker}, which is not captured"
        for process in list(self._unwatched)[:MAX_NAMED]:
            reason = _WHY_UNWATCHED.get(process.why, process.why)
            yield f"{process.command} was not watched: {reason}"
        if (unnamed_count := len(self._unwatched) - MAX_NAMED) > 0:
            yield f"{plural(unnamed_count, 'more command')} could not be watched"

    def _without_source(self) -> bool:
        return "source" in self._removed

    def _tune(self, kernels: dict[Key, Kernel]) -> dict[str, list[TriedFusion]]:
        """Add its tunings to each kernel, and their result to each variant; the fusions that were
        tried for each graph."""
        files = {name: key_of(kernel) for name, (_, kernel) in self._graphs.files.items()}
        refs = self._graphs.refs(kernels)
        variants_of = {key: kernel.variants for key, kernel in kernels.items()}
        placed = self._tunings.place(variants_of, files, refs, self._driver.candidate_time)
        for key, key_tunings in placed.items():
            kernel = kernels[key]
            tunings = autotune.with_gpu_times(
                key_tunings, kernel.variants, self._driver.times_by_grid
            )
            tuned = [
                replace(v, autotune=autotune.variant_result(v, tunings)) for v in kernel.variants
            ]
            kernels[key] = replace(kernel, autotune=tunings, variants=tuple(tuned))
        settings = autotune.configs_by_kernel(kernels.values())
        for key, kernel in kernels.items():
            # Of a template only warps and stages are options of the compiler.
            config = settings.get(kernel.id)
            if config:
                configured = [replace(v, config={**config, **v.config}) for v in kernel.variants]
                kernels[key] = replace(kernel, variants=tuple(configured))
        tried: dict[str, list[TriedFusion]] = {}
        ids = {ref: graph_id for ref, (graph_id, _) in refs.items()}
        for graph, key, fusion in self._tunings.compared_for(kernels, ids):
            if kernels[key].tried_for is None:
                kernels[key] = replace(kernels[key], tried_for=graph)
            if fusion is not None:
                tried.setdefault(graph, []).append(fusion)
        return tried

    def _with_run(
        self, path: str, kernels: tuple[Kernel, ...], graphs: tuple[Graph, ...]
    ) -> Recording:
        """The recording of the run."""
        run = self._run or RunStarted()
        end = self._end or RunEnded()
        return Recording(
            path=path,
            kernels=kernels,
            graphs=graphs,
            command=run.command,
            started=run.started,
            exit_status=end.exit_status,
            complete=self._is_finished or not run.has_command,
            tools=self._tools,
            device=self._device or None,
            mode=run.mode or "files",
            target=run.target,
            problems=tuple(dict.fromkeys(self.problems)),
            calls=self._calls.other_calls(graphs),
            uncaptured=tuple(self._uncaptured),
            unwatched=tuple(self._unwatched),
            compilations=tuple(self._compilations),
            removed=self._removed,
            environment=run.environment,
            seconds=end.seconds,
            frame_compiles=self._compiles.frames(),
            kernel_compiles=tuple(_in_original_files(self._compiles.kernels, kernels)),
            processes=tuple(self._processes.values()),
            timelines=tuple(self._timelines(kernels)),
            user_files={} if self._without_source() else self._origins.files,
        )


def _is_compilation(event: TritonCompile) -> bool:
    """Whether an event is of a compilation, which may have failed."""
    return event.event == "triton" or (event.event == "triton_failed" and event.hash is not None)


def _figures(event: BinaryFigures) -> Resources:
    """The figures of ptxas, or of the loaded binary."""
    if event.event == "ptxas":
        return Resources(
            spill_store_bytes=event.spill_store_bytes,
            spill_load_bytes=event.spill_load_bytes,
            barriers=event.barriers,
        )
    # The loaded binary counts words of local memory; none of it means that nothing was spilled,
    # some of it may be arrays as well as spills.
    spilled = 0 if event.local_words == 0 else None
    return Resources(spill_store_bytes=spilled, spill_load_bytes=spilled)


def _merged(earlier: Variant, variant: Variant) -> Variant:
    """Two compilations of the same, by two processes or at two times."""
    if earlier.embedded is None and variant.embedded is not None:
        earlier, variant = variant, earlier
    # Of two compiles by two processes at once the later is in the cache: that one is launched.
    ran = variant if variant.cache_hit and not earlier.cache_hit else earlier
    compiled_stages = {s: file for s, file in ran.stages.items() if s not in ABOVE}
    return replace(
        earlier,
        ranks=tuple(sorted({*earlier.ranks, *variant.ranks})),
        stages={**variant.stages, **earlier.stages, **compiled_stages},
        config={**variant.config, **earlier.config},
        signature=earlier.signature or variant.signature,
        specialization=earlier.specialization or variant.specialization,
        missing={s: w for s, w in earlier.missing.items() if s not in variant.stages},
        # Of several attempts at the same, one that was compiled counts.
        error=earlier.error if variant.error is not None else None,
    )


def _columns(compilations: Sequence[Compilation]) -> dict[tuple[str, str], dict[str, object]]:
    """What tells compiled variants from each other, by hash and symbol: targets and options as they
    were asked for, where those differ. One of several compilations has all of them."""
    by_result: dict[tuple[str, str], list[Compilation]] = {}
    for compilation in compilations:
        symbols = compilation.symbols
        if not symbols and compilation.kernel:
            symbols = (compilation.kernel,)
        for symbol in symbols:
            if compilation.hash:
                by_result.setdefault((compilation.hash, symbol), []).append(compilation)
    targets = {compilation.target for compilation in compilations}
    options = {compilation.options for compilation in compilations}
    out: dict[tuple[str, str], dict[str, object]] = {}
    for key, attempts in by_result.items():
        column: dict[str, object] = {}
        if len(targets) > 1:
            column["target"] = ", ".join(dict.fromkeys(a.target for a in attempts))
        if len(options) > 1:
            column["options"] = " | ".join(dict.fromkeys(a.options or "(none)" for a in attempts))
        out[key] = column
    return out


def _in_original_files(
    compiles: Iterable[KernelCompile], kernels: Iterable[Kernel]
) -> Iterator[KernelCompile]:
    """Compiles that failed in a copy of the user's kernel, with the line that was copied."""
    copies = {v.hash: v for kernel in kernels for v in kernel.variants if v.copied is not None}
    for kernel_compile in compiles:
        variant = copies.get(kernel_compile.hash or "")
        if variant is not None and kernel_compile.failed is not None:
            kernel_compile = _in_users_file(kernel_compile, variant)
        yield kernel_compile


def _in_users_file(kernel_compile: KernelCompile, variant: Variant) -> KernelCompile:
    """A compile whose place is in a copy of the user's kernel, by the place in the original."""
    copied = variant.copied
    source = variant.stages.get(Stage.SOURCE)
    place = kernel_compile.place
    if copied is None or source is None or not source.origin_path or place is None:
        return kernel_compile
    if PurePath(copied.file).name != PurePath(place.file).name:
        return kernel_compile
    place = replace(place, file=source.origin_path, line=place.line + copied.first - 1)
    return replace(kernel_compile, place=place)
