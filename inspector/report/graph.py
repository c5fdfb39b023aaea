"""A compiled graph as JSON, and its calls as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inspector.analyse.graph_text import CALL_HEAD, MAX_COLUMN_CHARS, call_cells, heading
from inspector.analyse.graph_view import FxNode, GraphCall, GraphView, Place, buffer_bytes
from inspector.base.model import Graph, Stage
from inspector.base.text import shown
from inspector.report.jsons import members, plain


def document(graph: Graph, view: GraphView, stages: Sequence[Stage]) -> dict[str, object]:
    """Return all that is known of a graph."""
    return {
        "id": graph.id,
        "stages": list(stages),
        "operations": operations(view),
        "not_fused": [
            members(one, "a b") | {"operations": list(one.names)} | members(one, "reason count")
            for one in view.refused
        ],
        "not_fused_left_out": view.refused_left_out,
        "tried": plain(view.tried),
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
    """Return the calls of a graph in order."""
    return [_call(call) for call in view.calls]


def _call(call: GraphCall) -> dict[str, object]:
    return {
        "call": call.number,
        "line": call.n,
        **members(call, "name kernel extern operators modules"),
        "from": [_place(place) for place in call.places],
        "nodes": [_node(node) for node in call.nodes],
        "fused": list(call.operations),
        **members(call, "backward bytes bytes_read bytes_written bytes_from"),
        "reuses": [{"buffer": new, "of": old} for new, old in call.reuses],
        "tuned": call.tuned,
    }


def _place(place: Place | None) -> dict[str, object] | None:
    return None if place is None else dict(zip(("file", "line", "code"), place, strict=True))


def _node(node: FxNode) -> dict[str, object]:
    own = members(node, "name target aten module module_type")
    return {**own, "from": _place(node.place), "dynamo": node.source}


def table(graphs: Iterable[tuple[Graph, GraphView]]) -> Iterable[str]:
    """The calls of graphs, a line each, wide names cut in the middle."""
    for at, (graph, view) in enumerate(graphs):
        if at:
            yield ""
        yield shown(f"graph {graph.id}: {heading(view)}")
        rows = [[_short(shown(cell)) for cell in call_cells(call)] for call in view.calls]
        widths = [max(map(len, column)) for column in zip(CALL_HEAD, *rows, strict=True)]
        for row in (CALL_HEAD, *rows):
            yield "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()


def _short(text: str) -> str:
    """A text for a column: what is cut is the middle, where names differ least."""
    if len(text) <= MAX_COLUMN_CHARS:
        return text
    tail = MAX_COLUMN_CHARS // 2
    return f"{text[: MAX_COLUMN_CHARS - tail - 1]}…{text[-tail:]}"
