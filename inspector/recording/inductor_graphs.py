"""Graphs that torch.compile made: their code, the texts above it, and those that failed."""

import hashlib
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import PtxviewError
from inspector.base.model import Failure, Fusion, Graph, Kernel, Stage, StageFile, TriedFusion
from inspector.parsers.output_code import KernelText, parse_code
from inspector.recording import failures
from inspector.recording.autotune import GraphRef, graph_ref
from inspector.recording.contents import Blob
from inspector.recording.events import Event, Frame, GraphCode, GraphFailed
from inspector.recording.origins import Origins, joined
from inspector.recording.variants import Key, key_of


class _GraphDraft(Struct):
    """A graph whose kernels and calls are known by keys so far."""

    graph: Graph
    frame: Frame
    aot_id: str | None
    kernels: list[Key] = field(default_factory=list)
    calls: dict[Key, tuple[int, ...]] = field(default_factory=dict)


class InductorGraphs:
    """Collects the events of graphs, in order.

    Attributes:
        files: the ``output_code`` and the kernel that each file of a kernel belongs to, by name.
        fusions: what each kernel was made from, in each of its graphs.
        problems: sentences on code that cannot be read.
    """

    def __init__(self, blob: Blob, origins: Origins) -> None:
        self._blob = blob
        self._origins = origins
        self._graphs: dict[str, _GraphDraft] = {}
        self._by_text: dict[str, _GraphDraft] = {}
        self._by_ref: dict[GraphRef, _GraphDraft] = {}
        self.files: dict[str, tuple[StageFile, KernelText]] = {}
        self.fusions: dict[Key, list[Fusion]] = {}
        self.problems: list[str] = []

    def take_all(self, events: Iterable[Event]) -> None:
        """Take in the events of a recording: graphs with code first, then those without."""
        ordered = list(enumerate(events))
        graphs = [(i, e) for i, e in ordered if isinstance(e, GraphCode) and e.event == "graph"]
        # The same text may be in a cache and in a log: the event with a frame names the graph.
        graphs.sort(key=lambda item: item[1].frame_id is None)
        for index, graph in graphs:
            self._take_code(graph, index)
        for index, event in ordered:
            error = failures.of_graph(event, self._blob)
            if error is not None:
                self._take_failure(event, index, error)
            elif event.event == "graph_uncoded" and self._has_texts(event, index, None):
                self._add(event, index, None, None, {})

    def _take_code(self, event: GraphCode, index: int) -> None:
        content = self._blob(event.blob)
        if content is None:
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
            self.fusions.setdefault(key_of(kernel), []).append(fusion)
        ref = graph_ref(event, parsed.aot_id)
        if digest in self._by_text:
            self._by_ref.setdefault(ref, self._by_text[digest])
            return
        file = StageFile(content, event.path, "Inductor's output_code")
        fusion_of_all = joined(fusions)
        source = None if fusion_of_all is None else self._origins.source(fusion_of_all)
        draft = self._add(event, index, parsed.aot_id, source, {Stage.OUTPUT_CODE: file})
        self._by_text[digest] = draft
        self._by_ref[ref] = draft
        for kernel in parsed.kernels:
            self._add_kernel(draft, kernel, file)

    def _add_kernel(self, draft: _GraphDraft, kernel: KernelText, code: StageFile) -> None:
        """A kernel of the user's is copied once for each set of constants of its calls."""
        key = key_of(kernel)
        if key not in draft.calls:
            draft.kernels.append(key)
        definition = () if kernel.line is None else (kernel.line,)
        draft.calls[key] = (*draft.calls.get(key, ()), *definition, *kernel.launches)
        for path in (kernel.path, kernel.copy):
            if path:
                self.files.setdefault(PurePath(path).name, (code, kernel))

    def _take_failure(self, event: Event, index: int, error: Failure) -> None:
        """A graph that did not compile: one that is known by its code, or the texts before it."""
        aot_id = event.graph if isinstance(event, GraphFailed) else None
        matching = [
            draft
            for draft in self._graphs.values()
            if draft.frame == event.frame and (aot_id is None or draft.aot_id in (None, aot_id))
        ]
        if matching:
            if len(matching) == 1 and matching[0].graph.error is None:
                matching[0].graph = replace(matching[0].graph, error=error)
        elif self._has_texts(event, index, aot_id):  # else no graph was made by then
            path = (error.first.file if error.first is not None else None) or ""
            content = self._origins.files.get(path)
            source = None if content is None else StageFile(content, path, "the model's file")
            draft = self._add(event, index, aot_id, source, {})
            draft.graph = replace(draft.graph, error=error)

    def _has_texts(self, event: Event, index: int, aot_id: str | None) -> bool:
        return bool(self._origins.graph(event, index, "", aot_id).stages)

    def _add(
        self,
        event: Event,
        index: int,
        aot_id: str | None,
        source: StageFile | None,
        code: Mapping[Stage, StageFile],
    ) -> _GraphDraft:
        graph = self._origins.graph(event, index, self._new_id(event, aot_id), aot_id)
        upper_stages = {} if source is None else {Stage.SOURCE: source}
        graph = replace(graph, stages={**upper_stages, **graph.stages, **code})
        return self._graphs.setdefault(graph.id, _GraphDraft(graph, event.frame, aot_id))

    def _new_id(self, event: Event, aot_id: str | None) -> str:
        """``0/1``, ``0/1_backward``; one that no other graph has."""
        if event.frame_id is not None:
            name = f"{event.frame_id}/{event.frame_compile_id}"
            part = (aot_id or "").partition("_")[2]
            if part not in ("", "inference"):
                name += f"_{part}"
        else:
            event_id = event.id if isinstance(event, GraphCode) else None
            name = event_id or aot_id or f"graph{len(self._graphs)}"
        if name not in self._graphs:
            return name
        return next(f"{name}#{n}" for n in count(2) if f"{name}#{n}" not in self._graphs)

    # -- values -----------------------------------------------------------------------------

    def kernel_keys(self) -> Iterable[Key]:
        """The keys of all kernels in the order of the graphs."""
        for draft in self._by_text.values():
            yield from draft.kernels

    def refs(self, kernels: Mapping[Key, Kernel]) -> dict[GraphRef, tuple[str, dict[str, str]]]:
        """The id of each graph as events name it, and the ids of its kernels by name."""
        return {
            ref: (draft.graph.id, {key[1]: kernels[key].id for key in draft.kernels})
            for ref, draft in self._by_ref.items()
        }

    def ids_by_path(self) -> dict[str, str]:
        """The ids of graphs by the paths of their code."""
        paths = {}
        for draft in self._graphs.values():
            code = draft.graph.stages.get(Stage.OUTPUT_CODE)
            if code is not None and code.origin_path is not None:
                paths[code.origin_path] = draft.graph.id
        return paths

    def finished(
        self, kernels: Mapping[Key, Kernel], tried: Mapping[str, list[TriedFusion]]
    ) -> tuple[Graph, ...]:
        """The graphs with the ids of their kernels, and the fusions that were tried for each."""
        out = []
        for draft in self._graphs.values():
            graph = replace(
                draft.graph,
                kernels=tuple(kernels[key].id for key in draft.kernels),
                calls={kernels[key].id: lines for key, lines in draft.calls.items()},
                tried=tuple(tried.get(draft.graph.id, ())),
            )
            out.append(graph)
        return tuple(out)
