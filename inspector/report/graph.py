"""A compiled graph as JSON, and its calls as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inspector.analyse.graph_text import CALL_HEAD, MAX_COLUMN_CHARS, call_cells, heading
from inspector.analyse.graph_view import FxNode, GraphCall, GraphView, Place, buffer_bytes
from inspector.model import Graph, Stage
from inspector.text import shown


def document(graph: Graph, view: GraphView, stages: Sequence[Stage]) -> dict[str, object]:
    """All that is known of a graph."""
    return {
        "id": graph.id,
        "stages": [stage.value for stage in stages],
        "operations": operations(view),
        "not_fused": [
            {
                "a": one.a,
                "b": one.b,
                "operations": list(one.names),
                "reason": one.reason,
                "count": one.count,
            }
            for one in view.refused
        ],
        "not_fused_left_out": view.refused_left_out,
        "tried": [
            {"nodes": list(one.nodes), "kernel": one.kernel, "time_us": one.time_us}
            for one in view.tried
        ],
        "buffers": [
            {
                "name": one.name,
                "line": one.n,
                "dtype": one.dtype,
                "bytes": buffer_bytes(one),
                "reuses": one.reuses,
            }
            for one in view.buffers
        ],
    }


def operations(view: GraphView) -> list[dict[str, object]]:
    """The calls of a graph in order."""
    return [_call(call) for call in view.calls]


def _call(call: GraphCall) -> dict[str, object]:
    return {
        "call": call.number,
        "line": call.n,
        "name": call.name,
        "kernel": call.kernel,
        "extern": call.extern,
        "operators": list(call.operators),
        "modules": list(call.modules),
        "from": [_place(place) for place in call.places],
        "nodes": [_node(node) for node in call.nodes],
        "fused": list(call.operations),
        "backward": call.backward,
        "bytes": call.bytes,
        "bytes_read": call.bytes_read,
        "bytes_written": call.bytes_written,
        "bytes_from": call.bytes_from,
        "reuses": [{"buffer": new, "of": old} for new, old in call.reuses],
        "tuned": call.tuned,
    }


def _place(place: Place) -> dict[str, object]:
    file, line, code = place
    return {"file": file, "line": line, "code": code}


def _node(node: FxNode) -> dict[str, object]:
    return {
        "name": node.name,
        "target": node.target,
        "aten": node.aten,
        "module": node.module,
        "module_type": node.module_type,
        "from": None if node.place is None else _place(node.place),
        "dynamo": node.source,
    }


def table(graphs: Iterable[tuple[Graph, GraphView]]) -> Iterable[str]:
    """The calls of graphs, a line each, wide names cut in the middle."""
    for at, (graph, view) in enumerate(graphs):
        if at:
            yield ""
        yield shown(f"graph {graph.id}: {heading(view)}")
        rows = [[_short(shown(cell)) for cell in call_cells(call)]
                for call in view.calls]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(CALL_HEAD, *rows, strict=True)]
        for row in (CALL_HEAD, *rows):
            yield "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    """A text for a column: what is cut is the middle, where names differ least."""
    if len(text) <= MAX_COLUMN_CHARS:
        return text
    tail = MAX_COLUMN_CHARS // 2
    return f"{text[: MAX_COLUMN_CHARS - tail - 1]}…{text[-tail:]}"
