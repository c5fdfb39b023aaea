"""Kept launches as tasks: the operators that a kernel computes, its inputs, and what it wrote."""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import Unreadable
from inspector.base.model import Content, Graph, Kernel, Recording, Stage, Variant
from inspector.recording.contents import text_of
from inspector.recording.events import KeptArgument, LaunchValues, event_of
from inspector.recording.layout import Events, read_events
from inspector.verify.graph_nodes import (
    GraphNodes,
    Node,
    Unverifiable,
    WrapperCode,
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


NamedArgument = tuple[str, KeptArgument]
"""A buffer of the wrapper, and the argument of the kernel that it is."""


class TensorValue(Struct, frozen=True):
    """A tensor of a launch: ``read`` returns its elements, in the order of their indices."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[], bytes]


class Comparison(Struct, frozen=True):
    """What is compared of a launch.

    ``outputs`` are the kernel's parameters, with the node of each and what was written for it.
    ``unread`` are dtype and shape of inputs that the operators take and the kernel does not read:
    its result must not depend on them. ``with_lines`` are the lines of launches whose partial
    results it completes.
    """

    nodes: Sequence[Node]
    inputs: Mapping[str, TensorValue]
    sizes: Mapping[str, int]
    outputs: Sequence[tuple[str, str, TensorValue]]
    unread: Mapping[str, tuple[str, tuple[int, ...]]] = {}
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


class _Output(Struct, frozen=True):
    """A parameter of a kernel, what was written for it, and the node whose value that is;
    ``effects`` are nodes that change this value in place."""

    parameter: str
    node: str
    value: TensorValue
    effects: tuple[str, ...] = ()


class _Reads(Struct):
    """What a launch reads, by node; ``unknown`` are buffers of which no node is known, and
    ``lines`` of launches that wrote parts of a result that it reads."""

    values: dict[str, TensorValue] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    lines: dict[int, None] = field(default_factory=dict)


class _GraphCall(Struct):
    """The state of one call of a graph between its launches.

    ``writes`` counts the launches that have written a buffer, and ``writers`` has the line of the
    last and what it read.
    """

    nodes: GraphNodes
    events: Events
    writes: Counter[str] = field(default_factory=Counter)
    writers: dict[str, tuple[int, Mapping[str, TensorValue]]] = field(default_factory=dict)

    def tensor(self, argument: KeptArgument, digest: object) -> TensorValue | None:
        """A tensor of an argument by the digest of its contents; None of what was not kept."""
        content = self.events.blob(digest)
        if argument.dtype is None or argument.shape is None or content is None:
            return None
        strides = argument.strides or ()
        return TensorValue(argument.dtype, argument.shape, strides, partial(_inflated, content))

    def reads(self, arguments: Sequence[NamedArgument], code: WrapperCode, line: int) -> _Reads:
        """What a launch by this line reads."""
        out = _Reads()
        for name, argument in arguments:
            before = self.tensor(argument, argument.before)
            buffer = name
            if (argument.name or "").startswith(IN_PLACE):
                buffer = code.reused_before(line, name)
                if not code.is_written_before(line, buffer) and not self.nodes.is_input(buffer):
                    continue  # the kernel itself writes it before it reads it
            if before is None:
                continue
            node = self.nodes.content(buffer, self.writes[buffer])
            if node is not None:
                out.values[node] = before
            elif buffer in self.writers:
                earlier_line, earlier_reads = self.writers[buffer]
                out.values = {**earlier_reads, **out.values}
                out.lines[earlier_line] = None
            else:
                out.unknown.append(buffer)
        return out

    def written(
        self, arguments: Sequence[NamedArgument], reads: _Reads, line: int
    ) -> tuple[list[_Output], list[str]]:
        """What a launch writes: outputs that are values of nodes, and buffers that are not."""
        outputs = []
        parts = []
        written = []
        for name, argument in arguments:
            after = self.tensor(argument, argument.after)
            if after is None or not _is_written(argument):
                continue
            self.writes[name] += 1
            written.append(name)
            step = self.nodes.step(name, self.writes[name])
            if name in self.writers and self.writes[name] > 1:
                earlier_line, earlier_reads = self.writers[name]
                reads.values = {**earlier_reads, **reads.values}
                reads.lines[earlier_line] = None
            if step is None or step.node is None:
                parts.append(name)
            else:
                outputs.append(_Output(argument.name or name, step.node, after, step.effects))
        for name in written:
            self.writers[name] = (line, dict(reads.values))
        return outputs, parts


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
    # Of code that was edited the launched variant is another kernel's than the graph's.
    by_cache_key = {variant.cache_key: variant for _, variant in recording.variants()}
    by_cache_key.pop(None, None)
    calls: dict[tuple[str, int], _GraphCall | str] = {}
    codes: dict[str, WrapperCode] = {}
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
        path = launch.path or ""
        if path not in codes:
            codes[path] = WrapperCode(text_of(events.blob(launch.code_blob)))
        call = calls[key]
        comparison = None
        why = call if isinstance(call, str) else launch.why or ""
        if isinstance(call, _GraphCall):
            try:
                found = _comparison(call, launch, codes[path])
                comparison = None if why else found
            except Unverifiable as error:
                why = why or str(error)
        variant = by_cache_key.get(launch.cache_key)
        task = LaunchTask(graph, kernel, variant, launch.call, launch.line, comparison, why)
        tasks.append(task)
    return tasks


def _comparison(call: _GraphCall, launch: LaunchValues, code: WrapperCode) -> Comparison:
    """What is compared of a launch. Raises Unverifiable."""
    line = launch.line or 0
    names = code.arguments(line)
    pairs = zip(names, launch.arguments, strict=False)
    arguments = [(name, argument) for name, argument in pairs if name is not None]
    reads = call.reads(arguments, code, line)
    outputs, parts = call.written(arguments, reads, line)
    if not outputs:
        if parts:
            raise Unverifiable("it writes parts of a result, which a later kernel completes")
        raise Unverifiable("it writes no buffer of its graph")
    inputs = dict(reads.values)
    for output in outputs:
        if not output.effects:
            # It is computed again, also where the kernel reads the same node's earlier value.
            inputs.pop(output.node, None)
    needed = [name for output in outputs for name in (output.node, *output.effects)]
    nodes = call.nodes.program(needed, inputs)
    unread = {
        node["name"]: _described(node)
        for node in nodes
        if node["op"] in ("placeholder", "get_attr")
        and node["name"] not in inputs
        and node["name"] not in launch.sizes
    }
    if reads.unknown and unread:
        raise Unverifiable(f"it reads {reads.unknown[0]}, a part of a result that a library wrote")
    used = {node["name"] for node in nodes}
    return Comparison(
        [node for node in nodes if node["name"] not in inputs and node["name"] not in unread],
        {name: value for name, value in inputs.items() if name in used},
        {name: size for name, size in launch.sizes.items() if name in used},
        [(output.parameter, output.node, output.value) for output in outputs],
        unread,
        tuple(reads.lines),
    )


def _described(node: Node) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of a node's value. Raises Unverifiable where they are not known."""
    dtype = node.get("dtype")
    shape = node.get("shape")
    if dtype is None or shape is None or not all(isinstance(n, int) for n in shape):
        raise Unverifiable(f"its operators use {node['name']}, which it does not read")
    return dtype, tuple(shape)


def _is_written(argument: KeptArgument) -> bool:
    """Whether a launch has changed an argument, or would by its name."""
    name = argument.name or ""
    if name.startswith(READ_ONLY):
        return False
    return name.startswith(("out_ptr", IN_PLACE)) or argument.before != argument.after
