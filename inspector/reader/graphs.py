"""A compiled graph: its texts, its calls, and the links between its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inspector.analyse import choices
from inspector.analyse.estimates import tensor_bytes
from inspector.analyse.graph_text import (
    GraphRow,
    Known,
    graph_rows,
    linked,
    of_fx,
    of_ir,
    of_operations,
    of_output_code,
    of_source,
)
from inspector.analyse.graph_view import GraphChoice, GraphView, graph_view, with_choices
from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import FX_STAGES, Content, Graph, Recording, Stage
from inspector.listing import parse
from inspector.listing.line import Listing
from inspector.listing.output_code import parse_wrapper
from inspector.reader.listings import Memo, decode
from inspector.recording.output_code import parse as parse_output_code
from inspector.system import files

OURS = "ptxview"
"""Who wrote the text of the operations."""


class Graphs:
    """Reads graphs, each thing when it is first asked for. Safe to use from several threads."""

    def __init__(self, recording: Recording, memo: Memo) -> None:
        self._recording = recording
        self._memo = memo

    def stages(self, graph: Graph) -> tuple[Stage, ...]:
        """What there is of a graph, in the order of lowering."""
        there = {*graph.stages}
        if Stage.OUTPUT_CODE in there:
            there.add(Stage.OPERATIONS)
        return tuple(stage for stage in Stage if stage in there)

    def text(self, graph: Graph, stage: Stage) -> str:
        """The text of a stage. Raises ``PtxviewError`` where it cannot be had."""
        if stage is Stage.OPERATIONS:
            return "\n".join(row.text for row in self._viewed(graph)[1])
        held = graph.stages.get(stage)
        if held is None:
            why = "it was not recorded" if graph.error is None else graph.error.said
            raise Unreadable(f"there is no {stage.value} of graph {graph.id}: {why}")
        return decode(held.content.read())

    def listing(self, graph: Graph, stage: Stage = Stage.OUTPUT_CODE) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` where it cannot be had."""
        held = graph.stages.get(stage)
        path = None if held is None else held.origin_path
        return self._memo.once(
            ("graph listing", id(graph), stage),
            lambda: parse(stage, self.text(graph, stage), path=path),
        )

    def view(self, graph: Graph) -> GraphView:
        """The graph's calls with what each computes. Raises ``PtxviewError``."""
        return self._viewed(graph)[0]

    def _viewed(self, graph: Graph) -> tuple[GraphView, list[GraphRow]]:
        return self._memo.once(("graph view", id(graph)), lambda: self._view(graph))

    def _view(self, graph: Graph) -> tuple[GraphView, list[GraphRow]]:
        text = self.text(graph, Stage.OUTPUT_CODE)
        kernels = {n: name for name, lines in graph.calls.items() for n in lines}
        view = graph_view(
            parse_wrapper(text.split("\n")),
            _json(graph.nodes),
            _json(graph.dynamo),
            kernels,
            self._launched_with(graph),
            self._own(graph),
        )
        view = with_choices(view, self._choices(graph), graph.tried)
        return view, graph_rows(graph.id, view)

    def _choices(self, graph: Graph) -> Iterator[GraphChoice]:
        for kernel, tuning, use in choices.of_graph(self._recording, graph):
            said = f"{choices.chosen(tuning, use)}; {choices.candidates(tuning)}"
            yield GraphChoice(kernel.id, use.node, f"{kernel.name}: {said}")

    def _own(self, graph: Graph) -> set[str]:
        """The nodes that a backward graph's text defines."""
        if Stage.BACKWARD not in graph.stages:
            return set()
        lines = self.listing(graph, Stage.BACKWARD).lines
        return {name for line in lines for name in line.defs}

    def _launched_with(self, graph: Graph) -> dict[str, int]:
        """Bytes of the tensors of each kernel that was always launched with the same."""
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
        return self._memo.once(
            ("graph links", id(graph), a, b), lambda: linked(self._of(graph, a), self._of(graph, b))
        )

    def _of(self, graph: Graph, stage: Stage) -> Known:
        """What each line of a stage is of."""
        return self._memo.once(("graph lines", id(graph), stage), lambda: self._told(graph, stage))

    def _told(self, graph: Graph, stage: Stage) -> Known:
        view = self.view(graph)
        if stage is Stage.OPERATIONS:
            return of_operations(self._viewed(graph)[1], view)
        if stage is Stage.SOURCE:
            return of_source(graph.stages[stage].origin_path or "", view)
        text = self.text(graph, stage)
        if stage is Stage.OUTPUT_CODE:
            parsed = parse_output_code(text)
            spans = {k.line: (k.line, k.last) for k in parsed.kernels if k.line and k.last}
            return of_output_code(graph.calls, spans, view)
        if stage in FX_STAGES:
            return of_fx(text.split("\n"), view, stage is Stage.DYNAMO)
        return of_ir(text.split("\n"), view)


def _json(content: Content | None) -> object:
    """What was recorded, None where nothing was or it cannot be read."""
    if content is None:
        return None
    try:
        return files.parsed(content.read(), what="a graph")
    except (PtxviewError, ValueError):
        return None
