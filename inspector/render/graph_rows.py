"""Typed rows of a compiled graph as JSON: what each of its calls computes, and what was not fused.

A field is a key of the JSON, in its order. None is unknown, never 0.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inspector.analysis.graph_view import FxNode, GraphCall, GraphView, Place, buffer_bytes
from inspector.base.model import Graph, Origin, Stage, TriedFusion
from inspector.render.json_rows import FailureRow, failure_row
from inspector.render.jsons import ordered


class SourceLineRow(Struct, frozen=True):
    """A line of the program."""

    file: str
    line: int
    code: str


class NodeRow(Struct, frozen=True, kw_only=True, rename={"place": "from"}):
    """A node of the graph; ``dynamo`` is the node of Dynamo's graph that it came of."""

    name: str
    target: str
    aten: str | None
    module: str | None
    module_type: str | None
    place: SourceLineRow | None
    dynamo: str | None


class ReuseRow(Struct, frozen=True):
    """A buffer that was given the memory of another one."""

    buffer: str
    of: str


class GraphCallRow(Struct, frozen=True, kw_only=True, rename={"places": "from"}):
    """A launch of a kernel, or a call of a library's operator, of a compiled graph."""

    call: Annotated[int, Meta(description="counts from 1")]
    line: Annotated[int, Meta(description="of output_code")]
    name: str
    kernel: Annotated[str | None, Meta(description="its id")]
    extern: bool
    operators: tuple[str, ...]
    modules: tuple[str, ...]
    places: list[SourceLineRow]
    nodes: list[NodeRow]
    fused: tuple[str, ...]
    backward: bool
    bytes: int | None
    bytes_read: int | None
    bytes_written: int | None
    bytes_from: str | None
    reuses: list[ReuseRow]
    tuned: Annotated[str | None, Meta(description="the id of the operation's kernel")]


class NotFusedRow(Struct, frozen=True, kw_only=True):
    """Two calls that Inductor did not fuse, ``count`` times, and what it said."""

    a: Annotated[int | None, Meta(description="the number of a call")]
    b: int | None
    operations: tuple[str, str]
    reason: str
    count: int


class BufferRow(Struct, frozen=True, kw_only=True):
    """A buffer that ``output_code`` allocates on a line."""

    name: str
    dtype: str | None
    reuses: str | None
    line: int
    bytes: int | None


class GraphViewRow(Struct, frozen=True, kw_only=True):
    """What each call of a compiled graph computes."""

    id: str
    stages: Sequence[Stage]
    operations: list[GraphCallRow]
    not_fused: list[NotFusedRow]
    not_fused_left_out: int
    tried: tuple[TriedFusion, ...]
    buffers: list[BufferRow]


class GraphRow(Struct, frozen=True, kw_only=True):
    """A compiled graph; ``calls`` are lines of ``output_code`` by kernel."""

    id: str
    origin: Origin
    kernels: tuple[str, ...]
    stages: list[Literal[Stage.OUTPUT_CODE]]
    stages_above: Annotated[
        list[Stage],
        Meta(description="texts that it was made of, from the model's source to Inductor's IR"),
    ]
    calls: Mapping[str, tuple[int, ...]]
    error: FailureRow | None
    operations: Annotated[
        list[GraphCallRow] | UnsetType | None,
        Meta(description="with --ops; null where output_code cannot be read"),
    ] = UNSET


def source_line_row(place: Place | None) -> SourceLineRow | None:
    return None if place is None else SourceLineRow(*place)


def node_row(node: FxNode) -> NodeRow:
    return NodeRow(
        name=node.name,
        target=node.target,
        aten=node.aten,
        module=node.module,
        module_type=node.module_type,
        place=source_line_row(node.place),
        dynamo=node.source,
    )


def graph_call_row(call: GraphCall) -> GraphCallRow:
    return GraphCallRow(
        call=call.number,
        line=call.n,
        name=call.name,
        kernel=call.kernel,
        extern=call.extern,
        operators=call.operators,
        modules=call.modules,
        places=[SourceLineRow(*place) for place in call.places],
        nodes=list(map(node_row, call.nodes)),
        fused=call.operations,
        backward=call.backward,
        bytes=call.bytes,
        bytes_read=call.bytes_read,
        bytes_written=call.bytes_written,
        bytes_from=call.bytes_from,
        reuses=[ReuseRow(new, old) for new, old in call.reuses],
        tuned=call.tuned,
    )


def graph_call_rows(view: GraphView) -> list[GraphCallRow]:
    return list(map(graph_call_row, view.calls))


def graph_view_row(graph: Graph, view: GraphView, stages: Sequence[Stage]) -> GraphViewRow:
    return GraphViewRow(
        id=graph.id,
        stages=stages,
        operations=graph_call_rows(view),
        not_fused=[
            NotFusedRow(
                a=pair.a,
                b=pair.b,
                operations=pair.names,
                reason=pair.reason,
                count=pair.count,
            )
            for pair in view.refused
        ],
        not_fused_left_out=view.refused_left_out,
        tried=view.tried,
        buffers=[
            BufferRow(
                name=buffer.name,
                dtype=buffer.dtype,
                reuses=buffer.reuses,
                line=buffer.n,
                bytes=buffer_bytes(buffer),
            )
            for buffer in view.buffers
        ],
    )


def graph_row(graph: Graph, view: GraphView | UnsetType | None = UNSET) -> GraphRow:
    """A graph's row; with ``view`` what each call computes, None where that is unknown."""
    stages = ordered(graph.stages)
    operations: list[GraphCallRow] | UnsetType | None = UNSET
    if view is None:
        operations = None
    elif view is not UNSET:
        operations = graph_call_rows(view)
    return GraphRow(
        id=graph.id,
        origin=graph.origin,
        kernels=graph.kernels,
        stages=[Stage.OUTPUT_CODE] if Stage.OUTPUT_CODE in graph.stages else [],
        stages_above=[stage for stage in stages if stage is not Stage.OUTPUT_CODE],
        calls=graph.calls,
        error=failure_row(graph.error),
        operations=operations,
    )
