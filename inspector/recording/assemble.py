"""Assembles events into a recording's kernels, variants and graphs.

Probes and the readers of caches produce the same events, so that a recording and a folder of
Triton's cache become the same values.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.model import (
    Compilation,
    Content,
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
    StageFile,
    Timeline,
    TriedFusion,
    Uncaptured,
    Unwatched,
    Variant,
)
from inspector.base.text import PtxviewError, base_name, counted, shortest_ids, untagged
from inspector.listing.output_code import KernelText, parse_code
from inspector.recording import autotune, facts, variants
from inspector.recording.calls import Calls, DriverLaunches
from inspector.recording.facts import (
    Blob,
    Event,
    Failures,
    Process,
    as_int,
    as_map,
    as_seconds,
    as_text,
    decoded,
    figures_of,
    merge,
)
from inspector.recording.gpu_times import OPTIMIZER
from inspector.recording.origins import Origins, frame_of, joined
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


class _Graph(Struct):
    """A graph, but for its kernels and calls, which are known by keys so far."""

    graph: Graph
    frame: tuple[str, ...]
    aot_id: str | None
    kernels: list[Key] = field(default_factory=list)
    calls: dict[Key, tuple[int, ...]] = field(default_factory=dict)


class Assembly:
    """Collects events in order and builds the values."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._kernels: dict[Key, _Kernel] = {}
        self._graphs: dict[str, _Graph] = {}
        self._texts: dict[str, _Graph] = {}
        self._refs: dict[autotune.GraphRef, _Graph] = {}
        self._files: dict[str, tuple[StageFile, KernelText]] = {}
        self._sources: dict[str, Content] = {}
        self._origins = Origins(blob)
        self._fusions: dict[Key, list[Fusion]] = {}
        self._loaded: dict[str, Resources] = {}
        self._failures = Failures()
        self._unbuilt: dict[tuple[str, object], facts.FailedSource] = {}
        self._without_code: list[Event] = []
        self._unbegun: dict[str, Event] = {}  # builds that failed before their compilers
        self._coded: set[str] = set()
        self._uncaptured: dict[Uncaptured, None] = {}
        self._processes: dict[int, RecordedProcess] = {}
        self._unwatched: dict[Unwatched, None] = {}
        self._facts: dict[str, object] = {}
        self._tools: dict[str, str] = {}
        self._compilations: list[Compilation] = []
        self._calls = Calls()
        self._driver = DriverLaunches(blob)
        self._tunings = autotune.Tunings()
        self._compiles = TorchCompiles(blob)
        self.problems: list[str] = []

    def recording(self, path: str, events: Iterable[Event]) -> Recording:
        ordered = events if isinstance(events, list) else list(events)
        ranks = {
            as_int(e.get("pid")): as_int(e.get("rank"))
            for e in ordered
            if e.get("event") == "process"
        }
        for index, event in enumerate(ordered):
            self._origins.take(event, index)
            self._calls.take(event)
            self._driver.take(event)
            self._tunings.take(event)
            self._compiles.take(event)
        graphs = [(index, e) for index, e in enumerate(ordered) if e.get("event") == "graph"]
        # The same text may be in a cache and in a log: the event with a frame names the graph.
        for index, event in sorted(graphs, key=lambda g: g[1].get("frame_id") is None):
            self._graph(event, index)
        for index, event in enumerate(ordered):
            if (error := facts.of_graph(event, self._blob)) is not None:
                self._failed_graph(event, index, error)
            elif (
                event.get("event") == "graph_uncoded"
                and self._origins.graph(event, index, "", None).stages
            ):
                self._add_graph(event, index, None, None, {})
        compiled: list[VariantOfKernel] = []
        generated = {as_text(e.get("file")): e for e in ordered if e.get("event") == "generated"}
        for index, event in enumerate(ordered):
            kind = event.get("event")
            if (why := as_text(event.get("unkept"))) is not None:
                named = as_text(event.get("name")) or as_text(event.get("path")) or ""
                self.problems.append(
                    f"files of {kind} {named}".rstrip() + f" could not be kept: {why}"
                )
            rank = ranks.get(as_int(event.get("pid")))
            if kind == "triton" or (kind == "triton_failed" and event.get("hash")):
                variant = variants.from_triton(
                    event, self._blob, self._files, rank, self._origins.files
                )
                if variant is not None:
                    by_language = generated.get(as_text(as_map(event.get("source")).get("file")))
                    if by_language is not None:
                        variant = variants.of_language(variant, by_language, self._blob)
                    compiled.append(variant)
                    ordered[index] = {}  # the most frequent, and the largest
            elif kind == "extension":
                self._extension(event)
        for variant in variants.at_home(compiled):
            self._add(self._tunings.candidate(variant))
        for event in ordered:
            self._take(event)
        self._take_unbuilt()
        return self._finish(path)

    # -- one event each ---------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        self._failures.take(event, self._blob)
        match event.get("event"):
            case "device_code":
                self._coded.add(str(event.get("source")))
                if event.get("cubin") is None and event.get("ptx") is None:
                    self._without_code.append(event)
                else:
                    self._built(event)
            case "file":
                for built_variant in variants.from_file(event, self._blob):
                    self._add(built_variant)
            case "loaded" | "ptxas":
                self._loaded.setdefault(*figures_of(event))
            case "uncaptured":
                self._uncaptured[Uncaptured(str(event.get("name")), str(event.get("by")))] = None
            case "problem":
                self.problems.append(f"{event.get('where')}: {event.get('text')}")
            case "triton_failed":
                reason = str(event.get("error")).strip().partition("\n")[0][:300]
                self.problems.append(f"Triton could not compile {event.get('name')}: {reason}")
            case "recording":
                self._facts.update({k: v for k, v in event.items() if k != "event"})
            case "end":
                ended = {name: event.get(name) for name in ("exit_status", "seconds")}
                self._facts.update(ended, complete=event.get("finishing") is not True)
            case "finished":
                self._facts.update(complete=True)
            case "device":
                hidden = ("event", "time", "pid")
                properties = {k: v for k, v in event.items() if k not in hidden}
                self._facts["device"] = self._facts.get("device") or properties
            case "process":
                self._add_tools({"python": event.get("python")})
                if (number := as_int(event.get("pid"))) is not None:
                    rank, machine = as_int(event.get("rank")), as_text(event.get("machine"))
                    self._processes.setdefault(number, RecordedProcess(number, rank, machine))
            case "torch" | "tools":
                self._add_tools({"torch": event.get("version"), **as_map(event.get("tools"))})
            case "compiled":
                if (compilation := decoded(event, Compilation, self.problems.append)) is not None:
                    self._compilations.append(compilation)
            case "removed":
                self._facts["removed"] = event.get("what")
            case "unwatched":
                command = str(event.get("command") or "a process")
                self._unwatched[Unwatched(command, str(event.get("why")))] = None

    def _take_unbuilt(self) -> None:
        """Add failed sources after all successful compilations are known. Of a build that failed as
        a whole its kernels have the reason; a problem only says it where there are none."""
        reported: set[str] = set()
        for event in self._without_code:
            key = str(event.get("source")), event.get("source_blob")
            failed, directory = self._unbuilt.pop(key, None), str(event.get("directory") or "")
            error = None if failed is None else failed.failure
            if error is None and directory in self._unbegun:
                error = facts.of_whole_build(self._unbegun[directory])
                reported.add(directory)
            self._built(event, error)
        for source in self._unbuilt.values():
            self._built(
                {
                    "source": source.path,
                    "source_blob": source.blob,
                    "arch": source.target,
                    "flags": list(source.argv[1:]),
                    "origin": None if source.path.endswith(".cu") else Origin.CPP.value,
                },
                source.failure,
            )
        for directory, event in self._unbegun.items():
            for path, digest in as_map(event.get("sources")).items():
                if path.endswith(".cu") and path not in self._coded:
                    named: Event = {"source": path, "source_blob": digest}
                    self._built(named, facts.of_whole_build(event))
                    reported.add(directory)
            if directory not in reported:
                name = PurePath(directory).name or str(event.get("name"))
                complaint = facts.complaint(event)[:300]
                self.problems.append(f"the extension {name} did not build: {complaint}")

    def _graph(self, event: Event, index: int) -> None:
        if (content := self._blob(event.get("blob"))) is None:
            return
        try:
            text = content.read().decode("utf-8", "surrogateescape")
        except PtxviewError as error:
            self.problems.append(error.message)
            return
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        parsed = parse_code(text)
        fusions = self._origins.fusions(event, index, parsed)
        for kernel, fusion in zip(parsed.kernels, fusions, strict=True):
            self._fusions.setdefault(key_of(kernel), []).append(fusion)
        ref = autotune.graph_of({**event, "graph": parsed.aot_id})
        if digest in self._texts:
            self._refs.setdefault(ref, self._texts[digest])
            return
        file = StageFile(content, as_text(event.get("path")), "Inductor's output_code")
        whole_fusion = joined(fusions)
        source = None if whole_fusion is None else self._origins.source(whole_fusion)
        graph = self._add_graph(event, index, parsed.aot_id, source, {Stage.OUTPUT_CODE: file})
        self._texts[digest] = self._refs[ref] = graph
        for kernel in parsed.kernels:
            key = key_of(kernel)
            if key not in graph.calls:
                graph.kernels.append(key)
            # A kernel of the user's is copied once for each set of constants of its calls.
            definition = () if kernel.line is None else (kernel.line,)
            graph.calls[key] = (*graph.calls.get(key, ()), *definition, *kernel.launches)
            self._kernels.setdefault(key, _Kernel(Origin(key[0]), key[1]))
            for path in (kernel.path, kernel.copy):
                if path:
                    self._files.setdefault(PurePath(path).name, (file, kernel))

    def _failed_graph(self, event: Event, index: int, error: Failure) -> None:
        """A graph that did not compile: one that is known by its code, or the texts before it."""
        frame, aot = frame_of(event), as_text(event.get("graph"))
        matching = [
            graph
            for graph in self._graphs.values()
            if graph.frame == frame and (aot is None or graph.aot_id in (None, aot))
        ]
        if matching:
            if len(matching) == 1 and matching[0].graph.error is None:
                matching[0].graph = replace(matching[0].graph, error=error)
        elif self._origins.graph(event, index, "", aot).stages:  # else there was no graph by then
            file = (error.first.file if error.first is not None else None) or ""
            content = self._origins.files.get(file)
            source = None if content is None else StageFile(content, file, "the model's file")
            graph = self._add_graph(event, index, aot, source, {})
            graph.graph = replace(graph.graph, error=error)

    def _add_graph(
        self,
        event: Event,
        index: int,
        aot: str | None,
        source: StageFile | None,
        code: dict[Stage, StageFile],
    ) -> _Graph:
        graph = self._origins.graph(event, index, self._graph_id(event, aot), aot)
        first = {} if source is None else {Stage.SOURCE: source}
        graph = replace(graph, stages={**first, **graph.stages, **code})
        return self._graphs.setdefault(graph.id, _Graph(graph, frame_of(event), aot))

    def _graph_id(self, event: Event, aot: str | None) -> str:
        frame, compiled = event.get("frame_id"), event.get("frame_compile_id")
        name = f"{frame}/{compiled}" if frame is not None else str(event.get("id") or aot or "")
        part = aot.partition("_")[2] if aot else ""
        if frame is not None and part not in ("", "inference"):
            name += f"_{part}"
        name = name or f"graph{len(self._graphs)}"
        names = chain([name], (f"{name}#{n}" for n in count(2)))
        return next(candidate for candidate in names if candidate not in self._graphs)

    def _extension(self, event: Event) -> None:
        directory = str(event.get("directory") or "")
        for name, digest in {
            **{f"{directory}/{n}": d for n, d in as_map(event.get("files")).items()},
            **as_map(event.get("sources")),
        }.items():
            content = self._blob(digest)
            if content is not None:
                self._sources[name] = content
        self._unbegun.pop(directory, None)
        unbuilt = {
            (source.path, source.blob): source for source in facts.of_build(event, self._blob)
        }
        self._unbuilt |= unbuilt
        explained = unbuilt or any(path.startswith(f"{directory}/") for path, _ in self._unbuilt)
        if event.get("error") and not explained:
            self._unbegun[directory] = event

    def _built(self, event: Event, error: Failure | None = None) -> None:
        """Device code of a build, or why it is missing. A kernel that was compiled at another time
        has what did not compile beside it."""
        built, problems = variants.from_device_code(event, self._blob, self._sources, error)
        for variant in built:
            compiler, name, file = variant.key
            matching = [
                key
                for key in (self._kernels if variant.variant.error is not None else ())
                if key[::2] == (compiler, file) and base_name(key[1]) == name
            ]
            if len(matching) == 1:
                variant = replace(variant, key=matching[0], name=matching[0][1])
            self._add(variant)
        self.problems.extend(problems)

    def _add_tools(self, versions: Mapping[str, object]) -> None:
        self._tools = {k: str(v) for k, v in versions.items() if v} | self._tools

    # -- values -----------------------------------------------------------------------------

    def _add(self, compiled: VariantOfKernel | None) -> None:
        if compiled is None:
            return
        kernel = self._kernels.setdefault(compiled.key, _Kernel(compiled.origin, compiled.name))
        variant = compiled.variant
        key = (variant.hash, variant.symbol)
        if (earlier := kernel.variants.get(key)) is None:
            kernel.variants[key] = variant
            return
        if earlier.embedded is None and variant.embedded is not None:
            earlier, variant = variant, earlier
        # Of two compiles by two processes at once the later is in the cache: that one is launched.
        ran = variant if variant.cache_hit and not earlier.cache_hit else earlier
        compiled_stages = {s: file for s, file in ran.stages.items() if s not in ABOVE}
        kernel.variants[key] = replace(
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

    def _finish(self, path: str) -> Recording:
        recorded = [v for k in self._kernels.values() for v in k.variants.values()]
        for stranger in list(self._driver.strangers(recorded)):
            self._add(stranger)
        for key, origin, name in list(self._tunings.strangers(self._kernels)):
            self._kernels.setdefault(key, _Kernel(origin, name))
        ids = shortest_ids(v.hash for k in self._kernels.values() for v in k.variants.values())
        readable = [untagged(n) for n in demangle([k.name for k in self._kernels.values()])]
        kernels: dict[Key, Kernel] = {}
        alone = Counter(
            base_name(v.symbol)
            for k in self._kernels.values()
            if k.origin is Origin.NVCC
            for v in k.variants.values()
        )
        names: Counter[str] = Counter()
        columns = facts.columns(self._compilations)
        gone = ABOVE if self._without_source() else ()
        self._failures.attempts(self._compilations)
        for (key, kernel), demangled in zip(self._kernels.items(), readable, strict=True):
            names[kernel.name] += 1
            n = names[kernel.name]
            fusion = joined(self._fusions.get(key, ()))
            model = self._origins.source(fusion) if fusion is not None else None
            variants = []
            for v in kernel.variants.values():
                only = kernel.origin is Origin.NVCC and alone[base_name(v.symbol)] == 1
                launched = self._driver.launched(self._calls.launched(v, only), demangled)
                ptxas = self._loaded.get(f"{v.hash}\0{v.symbol}", Resources())
                loaded = self._loaded.get(v.hash, Resources())
                # Kernels that the program launches itself were not made by the graph.
                generated = kernel.origin is not Origin.TRITON or Stage.OUTPUT_CODE in v.stages
                finished = replace(
                    launched,
                    id=ids[v.hash],
                    config={**columns.get((v.hash, v.symbol), {}), **v.config},
                    recorded_resources=merge(v.recorded_resources, ptxas, loaded),
                    missing={**v.missing, **dict.fromkeys(gone, REMOVED)},
                    stages=v.stages if model is None else {**v.stages, Stage.SOURCE: model},
                    fusion=fusion if generated else None,
                    error=self._failures.failure_of(launched),
                )
                variants.append(finished)
            kernel.variants.clear()
            kernels[key] = Kernel(
                id=kernel.name if n == 1 else f"{kernel.name}@{n}",
                name=kernel.name,
                demangled=demangled,
                origin=kernel.origin,
                variants=tuple(variants),
                fusion=fusion,
            )
        tried = self._tune(kernels)
        graphs = tuple(
            replace(
                g.graph,
                kernels=tuple(kernels[k].id for k in g.kernels),
                calls={kernels[k].id: lines for k, lines in g.calls.items()},
                tried=tuple(tried.get(g.graph.id, ())),
            )
            for g in self._graphs.values()
        )
        self.problems.extend(self._calls.problems())
        self.problems.extend(self._driver.problems())
        self.problems.extend(self._failures.problems())
        for kernel_name in list(self._uncaptured):
            if self._driver.captured(kernel_name.compiler, kernel_name.name):
                del self._uncaptured[kernel_name]
        self.problems.extend(self._unseen())
        return self._with_facts(path, tuple(kernels.values()), graphs)

    def _timelines(self, kernels: Iterable[Kernel]) -> Iterator[Timeline]:
        """What the GPU did in each process that was watched."""
        variants: dict[Process, dict[int, tuple[str, str]]] = {}
        for kernel in kernels:
            for variant in kernel.variants:
                for process, number in self._driver.launch_keys(variant):
                    variants.setdefault(process, {})[number] = kernel.id, variant.id
        ids = self._graphs_by_path()
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

    def _graphs_by_path(self) -> Mapping[str, str]:
        """The ids of graphs by the paths of their code."""
        paths = {}
        for graph in self._graphs.values():
            code = graph.graph.stages.get(Stage.OUTPUT_CODE)
            if code is not None and code.origin_path is not None:
                paths[code.origin_path] = graph.graph.id
        return paths

    def _unseen(self) -> Iterable[str]:
        """A sentence for each kernel that was not captured, and each process that was not watched,
        up to a bound."""
        for maker in dict.fromkeys(kernel.compiler for kernel in self._uncaptured):
            names = [kernel.name for kernel in self._uncaptured if kernel.compiler == maker]
            for name in names[:MAX_NAMED]:
                has_code = self._driver.has_code(maker, name)
                lacks = "emulated; its code is here" if has_code else "captured"
                yield f"the kernel {name} was made by {maker}, which is not {lacks}"
            if len(names) > MAX_NAMED:
                remaining = counted(len(names) - MAX_NAMED, "more kernel")
                were = "was" if len(names) == MAX_NAMED + 1 else "were"
                yield f"{remaining} {were} made by {maker}, which is not captured"
        for process in list(self._unwatched)[:MAX_NAMED]:
            reason = _WHY_UNWATCHED.get(process.why, process.why)
            yield f"{process.command} was not watched: {reason}"
        if (unnamed_count := len(self._unwatched) - MAX_NAMED) > 0:
            yield f"{counted(unnamed_count, 'more command')} could not be watched"

    def _without_source(self) -> bool:
        removed = self._facts.get("removed")
        return isinstance(removed, list) and "source" in map(str, removed)

    def _tune(self, kernels: dict[Key, Kernel]) -> dict[str, list[TriedFusion]]:
        """Add its tunings to each kernel, and their result to each variant; the fusions that were
        tried for each graph."""
        files = {name: key_of(kernel) for name, (_, kernel) in self._files.items()}
        graphs = {
            ref: (g.graph.id, {k[1]: kernels[k].id for k in g.kernels})
            for ref, g in self._refs.items()
        }
        of_kernels = {k: kernel.variants for k, kernel in kernels.items()}
        for key, placed in self._tunings.place(
            of_kernels, files, graphs, self._driver.candidate_time
        ).items():
            variants = kernels[key].variants
            tunings = autotune.with_gpu_times(placed, variants, self._driver.times_by_grid)
            tuned_variants = (
                replace(v, autotune=autotune.of_variant(v, tunings)) for v in variants
            )
            kernels[key] = replace(kernels[key], autotune=tunings, variants=tuple(tuned_variants))
        settings = autotune.generated(kernels.values())
        for key, kernel in kernels.items():
            # Of a template only warps and stages are options of the compiler.
            config = settings.get(kernel.id, {})
            configured_variants = (
                replace(v, config={**config, **v.config}) for v in kernel.variants
            )
            kernels[key] = (
                replace(kernel, variants=tuple(configured_variants)) if config else kernel
            )
        tried: dict[str, list[TriedFusion]] = {}
        ids = {ref: graph.graph.id for ref, graph in self._refs.items()}
        for graph, key, fusion in self._tunings.tried(kernels, ids):
            if kernels[key].tried_for is None:
                kernels[key] = replace(kernels[key], tried_for=graph)
            if fusion is not None:
                tried.setdefault(graph, []).append(fusion)
        return tried

    def _with_facts(
        self, path: str, kernels: tuple[Kernel, ...], graphs: tuple[Graph, ...]
    ) -> Recording:
        facts = self._facts
        command, device, removed = (facts.get(k) for k in ("command", "device", "removed"))
        return Recording(
            path=path,
            kernels=kernels,
            graphs=graphs,
            command=tuple(str(c) for c in command) if isinstance(command, list) else None,
            started=as_text(facts.get("started")),
            exit_status=as_int(facts.get("exit_status")),
            complete=facts.get("complete") is True or "command" not in facts,
            tools=self._tools,
            device=as_map(device) if device else None,
            mode=str(facts.get("mode") or "files"),
            target=as_text(facts.get("target")),
            problems=tuple(dict.fromkeys(self.problems)),
            calls=self._calls.other_calls(graphs),
            uncaptured=tuple(self._uncaptured),
            unwatched=tuple(self._unwatched),
            compilations=tuple(self._compilations),
            removed=tuple(map(str, removed)) if isinstance(removed, list) else (),
            environment={k: str(v) for k, v in as_map(facts.get("environment")).items()},
            seconds=as_seconds(facts.get("seconds")),
            frame_compiles=self._compiles.frames(),
            kernel_compiles=tuple(_at_home(self._compiles.kernels, kernels)),
            processes=tuple(self._processes.values()),
            timelines=tuple(self._timelines(kernels)),
            user_files={} if self._without_source() else self._origins.files,
        )


def _at_home(
    compiles: Iterable[KernelCompile], kernels: Iterable[Kernel]
) -> Iterable[KernelCompile]:
    """Compiles that failed in a copy of the user's kernel, with the line that was copied."""
    copies = {v.hash: v for kernel in kernels for v in kernel.variants if v.copied is not None}
    for kernel_compile in compiles:
        variant = (
            copies.get(kernel_compile.hash or "") if kernel_compile.failed is not None else None
        )
        copied = None if variant is None else variant.copied
        source = None if variant is None else variant.stages.get(Stage.SOURCE)
        place, path = kernel_compile.place, None if source is None else source.origin_path
        if copied is None or place is None or not path:
            yield kernel_compile
        elif PurePath(copied.file).name == PurePath(place.file).name:
            yield replace(
                kernel_compile, place=replace(place, file=path, line=place.line + copied.first - 1)
            )
        else:
            yield kernel_compile
