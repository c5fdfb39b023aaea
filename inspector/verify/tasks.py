"""Kept launches as tasks: the operators that a kernel computes, its inputs, and what it wrote."""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import Unreadable
from inspector.base.model import Content, Graph, Kernel, Recording, Stage, Variant
from inspector.parsers.output_code import parse_wrapper
from inspector.recording.contents import text_of
from inspector.recording.events import KeptArgument, LaunchValues, event_of
from inspector.recording.layout import Events, read_events
from inspector.verify.graph_nodes import (
    GraphNodes,
    Node,
    Unverifiable,
    launch_arguments,
    read_nodes,
)

ELEMENT_BYTES = {
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
}
"""Bytes of an element by dtype; of all others eight at most."""
READ_ONLY = "in_ptr"
IN_PLACE = "in_out_ptr"


class TensorValue(Struct, frozen=True):
    """A tensor of a launch: ``read`` returns its elements, in the order of their indices."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[], bytes]


class Comparison(Struct, frozen=True):
    """What is compared of a launch: ``outputs`` are pairs of a node and what was written for it.

    ``with_line`` is the line of the launch whose partial results it completes, None of most.
    """

    nodes: Sequence[Node]
    inputs: Mapping[str, TensorValue]
    sizes: Mapping[str, int]
    outputs: Sequence[tuple[str, str, TensorValue]]
    with_lines: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all its tensors."""
        tensors = [*self.inputs.values(), *(value for _, _, value in self.outputs)]
        return sum(math.prod(t.shape) * ELEMENT_BYTES.get(t.dtype, 8) for t in tensors)


class LaunchTask(Struct, frozen=True):
    """A launch of a graph's kernel, and what is compared of it, or why nothing is."""

    graph: Graph
    kernel: Kernel
    variant: Variant | None
    call: int
    line: int
    comparison: Comparison | None = None
    why: str = ""


class _GraphCall(Struct):
    """What is known of the values of one call of a graph so far."""

    nodes: GraphNodes
    events: Events
    written_counts: dict[str, int] = field(default_factory=dict)
    reads_of_partial: dict[str, tuple[int, Mapping[str, TensorValue]]] = field(default_factory=dict)
    """By a buffer that holds a part of a result: the launch that wrote it, and what that read."""
    values: dict[str, TensorValue] = field(default_factory=dict)

    def tensor(self, argument: KeptArgument, digest: object) -> TensorValue | None:
        """A tensor of an argument by the digest of its contents; None of what was not kept."""
        content = self.events.blob(digest)
        if argument.dtype is None or argument.shape is None or content is None:
            return None
        strides = argument.strides or ()
        return TensorValue(argument.dtype, argument.shape, strides, partial(_inflated, content))


MAX_TENSOR_BYTES = 1 << 32
"""Bytes that a tensor's compressed content may hold."""


def _inflated(content: Content) -> bytes:
    """The elements that a probe has compressed. Raises ``Unreadable``."""
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(content.read(), MAX_TENSOR_BYTES)
    except zlib.error as error:
        raise Unreadable(f"a tensor of the recording is damaged: {error}") from None
    return data


def kept_launches(path: Path) -> tuple[Events, list[LaunchValues]]:
    """The launches of a recording whose contents were kept, in the order of time."""
    events = read_events(path)
    kept = [event_of(e) for e in events.events if e.get("event") == "launch_values"]
    return events, [event for event in kept if isinstance(event, LaunchValues)]


def tasks_of(
    recording: Recording, events: Events, launches: Sequence[LaunchValues]
) -> list[LaunchTask]:
    """A task for each kept launch, in their order."""
    by_path = {
        stage.origin_path: graph
        for graph in recording.graphs
        if (stage := graph.stages.get(Stage.OUTPUT_CODE)) is not None and stage.origin_path
    }
    kernels = {kernel.id: kernel for kernel in recording.kernels}
    calls: dict[tuple[str, int], _GraphCall | str] = {}
    lines: dict[str, list[str]] = {}
    tasks = []
    for launch in launches:
        graph = by_path.get(launch.path or "")
        if graph is None or launch.line is None:
            continue
        kernel = next((kernels[i] for i in graph.kernels if kernels[i].name == launch.name), None)
        if kernel is None:
            continue
        key = (graph.id, launch.call)
        if key not in calls:
            try:
                calls[key] = _GraphCall(read_nodes(graph), events)
            except Unverifiable as error:
                calls[key] = str(error)
        code = lines.setdefault(
            launch.path or "", text_of(events.blob(launch.code_blob)).split("\n")
        )
        call = calls[key]
        comparison = None
        why = call if isinstance(call, str) else launch.why or ""
        if isinstance(call, _GraphCall):
            try:
                found = _comparison(call, launch, code)
                comparison = None if why else found
            except Unverifiable as error:
                why = why or str(error)
        variant = next((v for v in kernel.variants if v.calls), None)
        task = LaunchTask(graph, kernel, variant, launch.call, launch.line, comparison, why)
        tasks.append(task)
    return tasks


def _comparison(call: _GraphCall, launch: LaunchValues, code: Sequence[str]) -> Comparison:
    """What is compared of a launch. Raises Unverifiable."""
    line = launch.line or 0
    names = launch_arguments(code[line - 1]) if 0 < line <= len(code) else []
    wrapper = parse_wrapper("\n".join(code))
    earlier = {b.name: b.reuses for b in wrapper.buffers if b.n < line and b.reuses is not None}
    written = {word for c in wrapper.calls if c.n < line for word in c.words}
    arguments = list(zip(names, launch.arguments, strict=False))
    read: dict[str, TensorValue] = {}
    partial: list[str] = []
    for name, argument in arguments:
        before = call.tensor(argument, argument.before)
        if name is None or before is None or _only_written(argument):
            continue
        content = name
        if (argument.name or "").startswith(IN_PLACE):
            content = earlier.get(name, name)
            if content not in written and content not in call.nodes.node_of_input:
                continue  # the kernel itself writes it before it reads it
        node = call.nodes.node(content)
        if node is not None:
            read[node] = before
        elif content in call.reads_of_partial:
            partial.append(content)
    outputs: list[tuple[str, str, TensorValue]] = []
    unresolved = []
    for name, argument in arguments:
        after = call.tensor(argument, argument.after)
        if name is None or after is None or not _is_written(argument):
            continue
        node = _written_node(call, name)
        if node is None:
            unresolved.append(name)
        else:
            outputs.append((argument.name or name, node, after))
    known = dict(read)
    with_lines: list[int] = []
    for content in partial:
        earlier_line, earlier_reads = call.reads_of_partial[content]
        known = {**earlier_reads, **known}
        with_lines.append(earlier_line)
    for name in unresolved:
        call.reads_of_partial[name] = (line, known)
    call.values |= {**read, **{node: value for _, node, value in outputs}}
    if not outputs:
        if unresolved:
            raise Unverifiable("it writes parts of a result, which a later kernel completes")
        raise Unverifiable("it writes no buffer of its graph")
    return _with_program(call, launch, known, outputs, tuple(dict.fromkeys(with_lines)))


def _with_program(
    call: _GraphCall,
    launch: LaunchValues,
    known: Mapping[str, TensorValue],
    outputs: Sequence[tuple[str, str, TensorValue]],
    with_lines: tuple[int, ...],
) -> Comparison:
    """The operators between what a launch reads and what it writes. Raises Unverifiable."""
    inputs = dict(known)
    wanted = [node for _, node, _ in outputs]
    # What a kernel writes is computed again, also where it reads the same node's earlier value.
    for name in wanted:
        inputs.pop(name, None)
    sizes = dict(launch.sizes)
    nodes = call.nodes.program(wanted, inputs)
    for node in nodes:
        name = node["name"]
        if node["op"] in ("placeholder", "get_attr") and name not in inputs and name not in sizes:
            if _is_overwritten(name, nodes):
                continue
            if name not in call.values:
                raise Unverifiable(f"its operators use {name}, which it does not read")
            inputs[name] = call.values[name]
    used = {node["name"] for node in nodes}
    return Comparison(
        [node for node in nodes if node["name"] not in inputs],
        {name: value for name, value in inputs.items() if name in used},
        {name: size for name, size in sizes.items() if name in used},
        outputs,
        with_lines,
    )


def _is_overwritten(name: str, nodes: Iterable[Node]) -> bool:
    """Whether the nodes do no more with an input than to copy a value into it."""
    users = [n for n in nodes if {"node": name} in _flat(n.get("args"))]
    return bool(users) and all(
        n["target"] == "aten.copy_.default" and n["args"][0] == {"node": name} for n in users
    )


def _flat(item: object) -> list[object]:
    if isinstance(item, list):
        return [inner for part in item for inner in _flat(part)]
    return [item]


def _written_node(call: _GraphCall, name: str) -> str | None:
    """The node whose value a buffer holds after a launch; of an input that is written, the next."""
    written = call.nodes.written_nodes.get(name)
    if written and name not in call.nodes.node_of_buffer:
        count = call.written_counts.get(name, 0)
        call.written_counts[name] = count + 1
        return written[min(count, len(written) - 1)]
    return call.nodes.node_of_buffer.get(name)


def _only_written(argument: KeptArgument) -> bool:
    return argument.before is None


def _is_written(argument: KeptArgument) -> bool:
    """Whether a launch has changed an argument, or would by its name."""
    name = argument.name or ""
    if name.startswith(READ_ONLY):
        return False
    return name.startswith(("out_ptr", IN_PLACE)) or argument.before != argument.after
