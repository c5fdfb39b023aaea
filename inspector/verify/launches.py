"""Launches of graphs' kernels with the contents of their tensors, as a recording kept them."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import DecodeError, Struct, field
from msgspec.json import decode

from inspector.base.model import Graph, Kernel, Origin, Recording, Stage, Variant
from inspector.recording.contents import inflated, text_of
from inspector.recording.events import KeptArgument, LaunchValues, event_of
from inspector.recording.layout import Events
from inspector.verify.graph_nodes import WrapperCode

ELEMENT_BYTES = {
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    "complex128": 16,
}
"""Bytes of an element by dtype; of all others eight at most."""


REFERENCES = Graph("references", Origin.TRITON, (), {})
"""Takes a graph's place where the program itself launches kernels that have a reference."""


class TensorValue(Struct, frozen=True):
    """A tensor of a launch: ``read`` returns its elements, in the order of their indices."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read: Callable[[], bytes]

    @property
    def bytes(self) -> int:
        """Bytes of its elements."""
        return _tensor_bytes(self.dtype, self.shape)


def _tensor_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * ELEMENT_BYTES.get(dtype, 8)


class LaunchArgument(Struct, frozen=True):
    """A kernel's parameter, with its tensor before and after the launch; None where not kept.

    ``changed``: the launch has changed the tensor.
    """

    name: str
    contents_before: TensorValue | None = None
    contents_after: TensorValue | None = None
    changed: bool = False


class Reference(Struct, frozen=True):
    """The operators of a reference: ``nodes``, the node of each tensor of the kernel, and that of
    each result, by parameters of the kernel or in the order of those that it changes."""

    nodes: tuple[dict[str, Any], ...]
    inputs: dict[str, str]
    outputs: dict[str, str] | tuple[str, ...]


class GraphLaunch(Struct, frozen=True):
    """A launch by a line of a graph's ``output_code``; ``call`` counts the graph's calls from 0.

    ``sizes`` are integers that the code has by name. ``why`` says why contents are missing.
    ``process`` launched it, where contents were kept: ranks have launches of the same graph.
    ``reference`` has the operators of a hand-written kernel's reference.
    """

    graph: Graph
    kernel: Kernel
    variant: Variant | None
    call: int
    line: int
    code: WrapperCode
    arguments: tuple[LaunchArgument, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    process: int | None = None
    reference: Reference | None = None


def kept_launches(recording: Recording, events: Events) -> list[GraphLaunch]:
    """The launches whose contents were kept, in the order of time."""
    graphs = _graphs_by_path(recording)
    kernels = {kernel.id: kernel for kernel in recording.kernels}
    variants = _variants_by_key(recording)
    codes: dict[str, WrapperCode] = {}
    launches = []
    for event in _launch_values(events):
        path = event.path or ""
        graph = graphs.get(path) if path else REFERENCES
        if graph is None:
            continue
        # Of code that was edited the launched variant is another kernel's than the graph's.
        launched, variant = variants.get(event.cache_key or event.hash or "", (None, None))
        named = (kernels[i] for i in graph.kernels if kernels[i].name == event.name)
        kernel = next(named, launched)
        if kernel is None:
            continue
        if path not in codes:
            codes[path] = WrapperCode(text_of(events.blob(event.code_blob)))
        launches.append(
            GraphLaunch(
                graph,
                kernel,
                variant,
                event.call,
                event.line or 0,
                codes[path],
                tuple(_kept_argument(events, argument) for argument in event.arguments),
                event.sizes,
                event.why or "",
                event.pid,
                _reference(events, event.reference),
            )
        )
    return launches


def _launch_values(events: Events) -> Iterator[LaunchValues]:
    """The events of launches whose contents were kept."""
    for raw in events.events:
        event = event_of(raw) if raw.get("event") == "launch_values" else None
        if isinstance(event, LaunchValues):
            yield event


def _graphs_by_path(recording: Recording) -> dict[str, Graph]:
    """Graphs by the file in which Inductor wrote their code."""
    graphs: dict[str, Graph] = {}
    for graph in recording.graphs:
        stage = graph.stages.get(Stage.OUTPUT_CODE)
        if stage is not None and stage.origin_path:
            graphs[stage.origin_path] = graph
    return graphs


def _variants_by_key(recording: Recording) -> dict[str, tuple[Kernel, Variant]]:
    """Variants with their kernels, by their hash and by their key in Triton's cache."""
    by_hash = {variant.hash: (kernel, variant) for kernel, variant in recording.variants()}
    by_cache_key = {pair[1].cache_key: pair for pair in by_hash.values() if pair[1].cache_key}
    return by_hash | by_cache_key


def _reference(events: Events, digest: object) -> Reference | None:
    """A launch's reference; None without one, and of one that is damaged."""
    try:
        reference = decode(text_of(events.blob(digest)) or "", type=Reference)
    except DecodeError:
        return None
    names = [node.get("name") for node in reference.nodes]
    return reference if all(isinstance(name, str) for name in names) else None


def _kept_argument(events: Events, argument: KeptArgument) -> LaunchArgument:
    contents_before = _kept_tensor(events, argument, argument.before)
    contents_after = _kept_tensor(events, argument, argument.after)
    changed = argument.before != argument.after
    return LaunchArgument(argument.name or "", contents_before, contents_after, changed)


def _kept_tensor(events: Events, argument: KeptArgument, digest: object) -> TensorValue | None:
    content = events.blob(digest)
    if argument.dtype is None or argument.shape is None or content is None:
        return None
    read = partial(inflated, content, max_bytes=_tensor_bytes(argument.dtype, argument.shape))
    return TensorValue(argument.dtype, argument.shape, argument.strides or (), read)
