"""Graphs of a recording: their stages, calls and links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import (
    FX_STAGES,
    Content,
    Graph,
    Kernel,
    Recording,
    Stage,
)
from inspector.parsers import parse
from inspector.parsers.line import Listing
from inspector.reader.memo import Memo, RecordingIndex
from inspector.reader.stages import decode
from inspector.system import files

if TYPE_CHECKING:
    from inspector.analysis.graph_text import GraphRow, Known
    from inspector.analysis.graph_view import GraphView, NodeOrigin


class GraphReader:
    """The stages of graphs, their calls and links, each read when it is first asked for."""

    def __init__(self, recording: Recording, index: RecordingIndex, memo: Memo) -> None:
        self._recording = recording
        self._index = index
        self._memo = memo

    def stages(self, graph: Graph) -> tuple[Stage, ...]:
        """What there is of a graph, in the order of lowering."""
        operations = (Stage.OPERATIONS,) if Stage.OUTPUT_CODE in graph.stages else ()
        return tuple(sorted((*graph.stages, *operations), key=lambda stage: stage.rank))

    def text(self, graph: Graph, stage: Stage) -> str:
        """The text of a stage. Raises ``PtxviewError`` where it cannot be had."""
        if stage is Stage.OPERATIONS:
            return "\n".join(row.text for row in self._rows(graph))
        if (file := graph.stages.get(stage)) is None:
            reason = "it was not recorded" if graph.error is None else graph.error.summary
            raise Unreadable(f"there is no {stage.value} of graph {graph.id}: {reason}")
        return decode(file.content.read())

    def listing(self, graph: Graph, stage: Stage = Stage.OUTPUT_CODE) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` where it cannot be had."""
        file = graph.stages.get(stage)
        path = None if file is None else file.origin_path
        return self._memo.memoize(
            ("graph listing", self._index.graph_key(graph), stage),
            lambda: parse(stage, self.text(graph, stage), path=path),
        )

    def view(self, graph: Graph) -> GraphView:
        """The graph's calls with what each computes. Raises ``PtxviewError``."""
        key = ("graph view", self._index.graph_key(graph))
        return self._memo.memoize(key, lambda: self._read_view(graph))

    def origins(self, kernel: Kernel) -> tuple[NodeOrigin, ...]:
        """Where the operations of a kernel come from, over all its launches, each once."""
        return self._memo.memoize(("origins", kernel.id), lambda: self._origins(kernel))

    def modules(self, kernel: Kernel) -> tuple[str, ...]:
        """The paths of the modules that a kernel's operations are from, each once."""
        modules = (origin.module for origin in self.origins(kernel))
        return tuple(dict.fromkeys(path for path in modules if path))

    def _origins(self, kernel: Kernel) -> tuple[NodeOrigin, ...]:
        origins: dict[NodeOrigin, None] = {}
        for graph in self._recording.graphs:
            if kernel.id not in graph.calls:
                continue
            try:
                calls = self.view(graph).calls
            except PtxviewError:
                continue
            for call in calls:
                if call.kernel == kernel.id:
                    origins |= dict.fromkeys(call.origins)
        return tuple(origins)

    def _rows(self, graph: Graph) -> list[GraphRow]:
        from inspector.analysis.graph_text import graph_rows

        return graph_rows(graph.id, self.view(graph))

    def _read_view(self, graph: Graph) -> GraphView:
        from inspector.analysis import graph_view as views  # its modules delay the first row
        from inspector.parsers.output_code import parse_wrapper

        text = self.text(graph, Stage.OUTPUT_CODE)
        backward = Stage.BACKWARD in graph.stages
        lines = self.listing(graph, Stage.BACKWARD).lines if backward else ()
        view = views.graph_view(
            parse_wrapper(text),
            _json(graph.nodes),
            _json(graph.dynamo),
            {n: name for name, lines in graph.calls.items() for n in lines},
            self._tensor_bytes(graph),
            {name for line in lines for name in line.defs},
        )
        choices = (
            views.GraphChoice(
                kernel.id,
                use.node,
                f"{kernel.name}: {views.choice_text(tuning, use)}; {views.candidates(tuning)}",
            )
            for kernel in self._recording.kernels
            for tuning in kernel.autotune
            for use in tuning.uses
            if use.graph == graph.id
        )
        return views.with_choices(view, choices, graph.tried)

    def _tensor_bytes(self, graph: Graph) -> dict[str, int]:
        """Bytes of the tensors of each kernel that was always launched with the same."""
        from inspector.analysis.card import tensor_bytes

        out: dict[str, int] = {}
        for kernel in self._recording.kernels:
            if kernel.id in graph.calls:
                calls = [call for variant in kernel.variants for call in variant.calls]
                sizes = {None if (e := tensor_bytes(call)) is None else e.value for call in calls}
                if len(sizes) == 1 and (size := sizes.pop()) is not None:
                    out[kernel.id] = size
        return out

    def links(self, graph: Graph, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of stage ``a`` to those of stage ``b`` that they belong to; both directions hold
        the same pairs. Raises ``PtxviewError`` where a stage cannot be had."""
        if a is b or Stage.OUTPUT_CODE not in graph.stages:
            return {}

        from inspector.analysis.graph_text import linked

        return self._memo.memoize(
            ("graph links", self._index.graph_key(graph), a, b),
            lambda: linked(self._line_map(graph, a), self._line_map(graph, b)),
        )

    def _line_map(self, graph: Graph, stage: Stage) -> Known:
        """What each line of a stage is of."""
        from inspector.analysis import graph_text as texts
        from inspector.parsers.output_code import parse_code

        view = self.view(graph)
        if stage is Stage.OPERATIONS:
            rows = enumerate(self._rows(graph), 1)
            return texts.of_calls({n: row.calls for n, row in rows if row.calls}, view)
        if stage is Stage.SOURCE:
            return texts.of_source(graph.stages[stage].origin_path or "", view)
        text = self.text(graph, stage)
        if stage is Stage.OUTPUT_CODE:
            parsed = parse_code(text)
            spans = {k.line: (k.line, k.last) for k in parsed.kernels if k.line and k.last}
            return texts.of_output_code(graph.calls, spans, view)
        if stage in FX_STAGES:
            return texts.of_fx(text.split("\n"), view, stage is Stage.DYNAMO)
        return texts.of_ir(text.split("\n"), view)

    def kernel_at(self, graph: Graph, stage: Stage, n: int) -> str | None:
        """The kernel that a line of a graph's stage became, by its id."""
        rows, calls = self._rows(graph), self.view(graph).calls
        links = self.links(graph, stage, Stage.OPERATIONS)
        line_numbers = (n,) if stage is Stage.OPERATIONS else links.get(n, ())
        numbers = (number for line_number in line_numbers for number in rows[line_number - 1].calls)
        return next(filter(None, (calls[number - 1].kernel for number in numbers)), None)


def _json(content: Content | None) -> object:
    """What was recorded, None where nothing was or it cannot be read."""
    if content is None:
        return None
    try:
        return files.parsed(content.read(), label="a graph")
    except (PtxviewError, ValueError):
        return None
