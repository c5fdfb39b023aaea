"""A compiled graph, call by call: which operators of which modules and lines each kernel computes.

The order of the calls and the buffers are ``output_code``'s. What a call computes is what the
scheduler recorded as its origins; where that was not recorded, Inductor's comment above the call
names nodes of Dynamo's graph. Neither is guessed.
"""

import bisect
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analysis.card import element_bytes
from inspector.base.model import (
    ChoiceUse,
    Configuration,
    TriedFusion,
    Tuning,
    is_product,
)
from inspector.base.units import microseconds, seconds
from inspector.parsers.output_code import Wrapper, WrapperBuffer, WrapperCall

TOLD = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
"""Settings of a candidate that a single line shows."""


def candidate(configuration: Configuration) -> str:
    """A candidate by its name, its maker where that is ATen, its time, and its settings."""
    took = "" if configuration.time_us is None else f" {microseconds(configuration.time_us)} µs"
    maker = " of ATen" if configuration.maker == "ATen" else ""
    settings = [
        f"{name} {configuration.config[name]}" for name in TOLD if name in configuration.config
    ]
    return f"{configuration.config.get('choice')}{maker}{took}" + (
        f" ({', '.join(settings)})" if settings else ""
    )


def choice_text(tuning: Tuning, *uses: ChoiceUse) -> str:
    """The fastest candidate, and those that code was generated from, which may be others: for all
    operations that were chosen for, or for these alone."""
    best = tuning.winner
    out = "none was measured" if best is None else candidate(best)
    names: dict[tuple[int, str], None] = {}
    for use in uses or tuning.uses:
        if use.configuration is not None and use.kernel is not None:
            names.setdefault((use.configuration, use.kernel))
    for place, kernel in names:
        configuration = tuning.configurations[place]
        out += f", {kernel} was generated from " + (
            "it" if configuration == best else candidate(configuration)
        )
    return out


def candidates(tuning: Tuning) -> str:
    """How many there were, of whom, how many failed, and where their times are from."""
    makers = Counter(configuration.maker or "unknown" for configuration in tuning.configurations)
    parts = [", ".join(f"{count} of {maker}" for maker, count in makers.items())]
    failed = sum(
        (configuration.reason or "").startswith("failed") for configuration in tuning.configurations
    )
    if failed:
        parts.append(f"{failed} failed")
    if tuning.from_cache:
        parts.append("times from torch's cache")
    elif tuning.seconds is not None:
        parts.append(f"measured in {seconds(tuning.seconds)}")
    return ", ".join(parts)


Place = tuple[str, int, str]
"""File, line and code."""

NO_LAUNCH = ("NopKernelSchedulerNode",)
NO_LAUNCH_OF = ("MultiOutput", "NopKernel")
_ITEM = re.compile(r"\[(?:'([^'\]]*)'|\"([^\"\]]*)\"|(\d{1,9}))\]")
_GETATTR = re.compile(r"getattr\(([^(),]*), ['\"]([^'\"]*)['\"]\)")
_ROOT = re.compile(r"^[LG]\[['\"](\w+)['\"]\]|^L__(self)___?|^[LG]__(\w+?)___")
_UNDERSCORED = re.compile(r"_(\d+)(?=_|$)")


class FxNode(Struct, frozen=True):
    """A node of a graph: Dynamo's, or the last one that Inductor lowers.

    ``target`` is what it calls (``aten.mul.Tensor``), ``aten`` the operator of the program that it
    came of, ``module`` the path of the module that it was called in, as ``named_modules`` has it
    ("" is the model itself, None unknown), ``source`` the node of Dynamo's graph. ``caller`` is the
    innermost line outside of installed packages, of a ``place`` in one.
    """

    name: str
    op: str
    target: str
    aten: str | None = None
    module: str | None = None
    module_type: str | None = None
    place: Place | None = None
    source: str | None = None
    backward: bool = False
    caller: Place | None = None


class NodeOrigin(Struct, frozen=True):
    """Where an operation of a kernel comes from.

    ``module`` is the path of its module (``transformer.h.0.attn.c_proj``), "" for the model itself,
    None if unknown. ``caller`` is the file and the line outside of installed packages that led to
    a line of one, None if that was not recorded. ``product``: it is what templates compute.
    """

    file: str
    line: int
    module: str | None = None
    caller: tuple[str, int] | None = None
    product: bool = False


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class _Stack(msgspec.Struct):
    """The modules that a node was called in, the outermost first, and the innermost's class."""

    paths: list[str] = []
    type: str | None = None


RecordedPlace = tuple[str, Annotated[int, msgspec.Meta(gt=0, lt=10**9)], str]


class _Node(msgspec.Struct, rename={"source": "from"}):
    """A recorded node of torch.fx; ``module`` is the place of its stack."""

    name: str
    op: str
    target: str = ""
    aten: str | None = None
    module: Count | None = None
    line: RecordedPlace | None = None
    source: str | None = None
    backward: bool = False
    caller: RecordedPlace | None = None


class _Operation(msgspec.Struct):
    name: str
    origins: list[str] = []
    result: str | None = None


class _Scheduled(msgspec.Struct):
    """What the scheduler made one launch of; bytes are Inductor's estimate."""

    kind: str
    operations: list[_Operation]
    buffer: str | None = None
    outputs: list[str] = []
    mutates: list[str] = []
    bytes: Count | None = None
    bytes_read: Count | None = None
    bytes_written: Count | None = None


class _Recorded(msgspec.Struct):
    stacks: list[_Stack] = []
    nodes: list[_Node] = []
    scheduled: list[_Scheduled] = []
    not_fused: list[tuple[str, str, str, Count]] = []
    not_fused_left_out: Count = 0


def _decoded(recorded: object) -> _Recorded:
    try:
        return msgspec.convert(recorded, _Recorded)
    except msgspec.ValidationError:
        return _Recorded()


class GraphCall(Struct, frozen=True):
    """One call of the wrapper, with what it computes.

    ``number`` counts from 1, ``n`` is its line in ``output_code``. ``kernel`` is the recording's
    id, None of what is no kernel of it. ``operators`` are ATen's as Inductor's comment has them,
    ``nodes`` those of the graph that went into it, ``operations`` the scheduler's. ``results``
    are the nodes that a library's operator computes, where that is known: the others made what it
    is given. ``reuses`` are the buffers that were given the memory of others for this call: (new,
    old). ``bytes`` are Inductor's estimate, or those of the tensors that it was launched with:
    ``bytes_from`` says which, ``inductor`` or ``tensors``. ``tuned`` is the id of the kernel that
    represents the operation which max-autotune chose it for.
    """

    number: int
    n: int
    name: str
    extern: bool
    kernel: str | None = None
    operators: tuple[str, ...] = ()
    nodes: tuple[FxNode, ...] = ()
    operations: tuple[str, ...] = ()
    bytes: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    reuses: tuple[tuple[str, str], ...] = ()
    results: tuple[FxNode, ...] = ()
    bytes_from: str | None = None
    tuned: str | None = None

    @property
    def described_nodes(self) -> tuple[FxNode, ...]:
        """The nodes that it is itself, if known, else all that went into it."""
        return self.results or self.nodes

    @property
    def modules(self) -> tuple[str, ...]:
        """The paths of its nodes' modules, in the order of the graph."""
        return tuple(dict.fromkeys(n.module for n in self.described_nodes if n.module is not None))

    @property
    def places(self) -> tuple[Place, ...]:
        """The user's lines that its nodes are from, in the order of the graph."""
        return tuple(dict.fromkeys(n.place for n in self.described_nodes if n.place is not None))

    @property
    def origins(self) -> Iterator[NodeOrigin]:
        """Where its operations come from, in the order of the graph."""
        for node in self.described_nodes:
            if node.place is not None:
                file, line, _ = node.place
                caller = None if node.caller is None else node.caller[:2]
                yield NodeOrigin(file, line, node.module, caller, is_product(node.target))

    @property
    def backward(self) -> bool:
        return any(node.backward for node in self.nodes)


class RefusedFusion(Struct, frozen=True):
    """Two calls that Inductor did not fuse, by their numbers, and what it said; ``count`` times. A
    number is None where the operation did not become a call."""

    a: int | None
    b: int | None
    names: tuple[str, str]
    reason: str
    count: int = 1


class GraphChoice(Struct, frozen=True):
    """An operation that max-autotune chose for, by the id of the kernel that represents it.

    ``node`` is the graph's node, ``call`` the number of the call that computes it, None where that
    is not known; ``text`` says what was chosen from what.
    """

    kernel: str
    node: str | None
    text: str
    call: int | None = None


class GraphView(Struct, frozen=True):
    """All that is known of a graph's calls.

    ``recorded``: its scheduler's nodes were recorded. Of each of the scheduler's operations,
    ``launched`` has the number of the call that it became, ``origins`` the nodes that it is from.
    """

    calls: tuple[GraphCall, ...] = ()
    buffers: tuple[WrapperBuffer, ...] = ()
    refused: tuple[RefusedFusion, ...] = ()
    refused_left_out: int = 0
    recorded: bool = False
    nodes: Mapping[str, FxNode] = field(default_factory=dict)
    dynamo: Mapping[str, FxNode] = field(default_factory=dict)
    launched: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    choices: tuple[GraphChoice, ...] = ()
    tried: tuple[TriedFusion, ...] = ()


def with_choices(
    view: GraphView, graph_choices: Iterable[GraphChoice], tried: Sequence[TriedFusion]
) -> GraphView:
    """A graph with what max-autotune chose for its calls and the fusions that Inductor measured."""
    calls = list(view.calls)
    choices = []
    for choice in graph_choices:
        number = next((call.number for call in view.calls if _computes(call, choice.node)), None)
        if number is not None:
            calls[number - 1] = replace(calls[number - 1], tuned=choice.kernel)
        choices.append(replace(choice, call=number))
    return replace(view, calls=tuple(calls), choices=tuple(choices), tried=tuple(tried))


def _computes(call: GraphCall, name: str | None) -> bool:
    return any(node.name == name for node in call.described_nodes)


def graph_view(
    wrapper: Wrapper,
    recorded: object,
    dynamo: object,
    kernels: Mapping[int, str],
    launched_with: Mapping[str, int],
    ambiguous: Collection[str] = (),
) -> GraphView:
    """Put the view together. Never raises, for any recording.

    ``recorded`` and ``dynamo`` are the recorded values as they were read from JSON; ``kernels``
    are the ids of the recording's kernels by the lines of ``output_code`` that launch them,
    ``launched_with`` the bytes of the tensors of those that were always launched with the same.
    ``ambiguous`` are names of a backward graph's own nodes: Inductor's comments name these and
    Dynamo's alike, so that neither is meant for certain.
    """
    graph = _decoded(recorded)
    nodes = _fx_nodes(graph)
    source_nodes = _fx_nodes(_decoded(dynamo))
    comment_nodes = {name: n for name, n in source_nodes.items() if name not in ambiguous}
    order = {name: position for position, name in enumerate(nodes)}
    placed = _placed(wrapper.calls, graph.scheduled)
    reuses = _reuses_by_call(wrapper)
    calls = []
    for index, (call, scheduled) in enumerate(zip(wrapper.calls, placed, strict=True)):
        operations = _operations(scheduled)
        computed = _nodes_in_order(operations, nodes, order) or _named_nodes(call, comment_nodes)
        kernel = kernels.get(call.n)
        size, bytes_from = _call_bytes(scheduled, kernel, launched_with)
        graph_call = GraphCall(
            index + 1,
            call.n,
            call.name,
            bool(call.library),
            kernel,
            call.comment.ops or _operators(computed),
            tuple(computed),
            tuple(operation.name for operation in operations),
            size,
            _total([node.bytes_read for node in scheduled]),
            _total([node.bytes_written for node in scheduled]),
            tuple(reuses.get(index, ())),
            _results(call, scheduled, computed, nodes),
            bytes_from,
        )
        calls.append(graph_call)
    launched = {name: call.number for call in calls for name in call.operations}
    origins = {op.name: tuple(op.origins) for op in _operations(graph.scheduled)}
    return GraphView(
        tuple(calls),
        wrapper.buffers,
        _refused(graph, launched),
        graph.not_fused_left_out,
        bool(graph.scheduled),
        nodes,
        source_nodes,
        launched,
        origins,
    )


def _named_nodes(call: WrapperCall, nodes: Mapping[str, FxNode]) -> list[FxNode]:
    """The nodes that Inductor's comment on a call names."""
    return [nodes[name] for name in call.comment.names if name in nodes]


def _operators(nodes: Iterable[FxNode]) -> tuple[str, ...]:
    return tuple(filter(None, dict.fromkeys(node.aten or node.target for node in nodes)))


def _call_bytes(
    scheduled: Sequence[_Scheduled], kernel: str | None, launched_with: Mapping[str, int]
) -> tuple[int | None, str | None]:
    """Inductor's estimate of what a call moves, else the bytes of its tensors; and which it is."""
    size = _total([node.bytes for node in scheduled])
    if size is not None:
        return size, "inductor"
    if kernel is not None and kernel in launched_with:
        return launched_with[kernel], "tensors"
    return None, None


def _operations(scheduled: Iterable[_Scheduled]) -> list[_Operation]:
    return [operation for node in scheduled for operation in node.operations]


def _nodes_in_order(
    operations: Iterable[_Operation], nodes: Mapping[str, FxNode], order: Mapping[str, int]
) -> list[FxNode]:
    """The nodes that operations are from, in the order of the graph."""
    origins = {name for operation in operations for name in operation.origins}
    return [nodes[name] for name in sorted(origins & nodes.keys(), key=order.__getitem__)]


def _reuses_by_call(wrapper: Wrapper) -> dict[int, list[tuple[str, str]]]:
    """The buffers that are given the memory of others before each call: (new, old)."""
    lines = [call.n for call in wrapper.calls]
    reuses: dict[int, list[tuple[str, str]]] = {}
    for buffer in wrapper.buffers:
        if buffer.reuses is not None:
            index = bisect.bisect_right(lines, buffer.n)
            reuses.setdefault(index, []).append((buffer.name, buffer.reuses))
    return reuses


def buffer_bytes(buffer: WrapperBuffer) -> int | None:
    """How much memory a buffer takes, None where its type or its size is not known."""
    width = None if buffer.dtype is None else element_bytes(buffer.dtype)
    return None if width is None or buffer.elements is None else width * buffer.elements


def _results(
    call: WrapperCall,
    scheduled: Sequence[_Scheduled],
    computed: Sequence[FxNode],
    nodes: Mapping[str, FxNode],
) -> tuple[FxNode, ...]:
    if any(node.buffer == "UserDefinedTritonKernel" for node in scheduled):
        return tuple(node for node in computed if "triton_kernel_wrapper" in node.target)
    if not call.library:
        return ()
    results = [operation.result for operation in _operations(scheduled)]
    recorded_results = tuple(nodes[name] for name in results if name is not None and name in nodes)
    if recorded_results:
        return recorded_results
    packets = (f"aten.{call.name}", call.name)  # ``mm`` for ``aten.mm.default``
    return tuple(node for node in computed if _packet(node) in packets)


def _packet(node: FxNode) -> str:
    """The operator of a node without its overload: ``aten.mm`` for ``aten.mm.default``."""
    return node.target.removeprefix("torch.ops.").rpartition(".")[0]


def module_path(paths: Sequence[str]) -> str:
    """``layers.3.mlp.gate_proj`` for the modules that Dynamo names, the outermost first.

    Dynamo writes ``L['self'].layers.3``, ``L['self']._modules['layers']._modules['3']``,
    ``getattr(L['self'].layers, '3')`` or, of modules that it does not look into,
    ``L__self___layers_3``, where the names above it tell which underscores were dots.
    """
    return _simplified(paths[-1]) if not paths[-1].startswith(("L__", "G__")) else _joined(paths)


def _simplified(path: str) -> str:
    for _ in range(path.count("getattr(")):
        path = _GETATTR.sub(r"\1.\2", path)
    root = _ROOT.match(path)
    if root is not None:
        prefix = "" if root[1] == "self" else root[1] or ""
        path = prefix + path[root.end() :]
    path = path.replace(".__closure__[0].cell_contents", "").replace("._modules[", "[")
    path = _ITEM.sub(lambda m: f".{m[1] or m[2] or m[3] or ''}", path)
    return path.strip(".")


def _joined(paths: Sequence[str]) -> str:
    """A path of names with underscores: each module's begins with that of the one above it."""
    parts: list[str] = []
    parent_text = ""
    for path in paths:
        text = _ROOT.sub("", path)
        tail = text.removeprefix(parent_text).strip("_")
        parts.append(_UNDERSCORED.sub(r".\1.", tail).replace("._", ".").strip("."))
        parent_text = text
    return ".".join(filter(None, parts))


def _fx_nodes(recorded: _Recorded) -> dict[str, FxNode]:
    """The nodes of a recorded graph by name, in its order, without its inputs."""
    stacks: dict[int | None, _Stack] = dict(enumerate(recorded.stacks))
    out: dict[str, FxNode] = {}
    for recorded_node in recorded.nodes:
        if recorded_node.op in ("placeholder", "get_attr", "output"):
            continue
        stack = stacks.get(recorded_node.module, _Stack())
        out[recorded_node.name] = FxNode(
            recorded_node.name,
            recorded_node.op,
            recorded_node.target,
            recorded_node.aten,
            module_path(stack.paths) if stack.paths else None,
            stack.type,
            recorded_node.line,
            recorded_node.source,
            recorded_node.backward,
            recorded_node.caller,
        )
    return out


def _placed(
    calls: Sequence[WrapperCall], scheduled: Sequence[_Scheduled]
) -> list[list[_Scheduled]]:
    """The scheduler's nodes of each call: it is the first that has one of their outputs.

    What only changes the previous value, and has no separate output in the text, is the next
    call that has what it changes.
    """
    first: dict[str, int] = {}
    for index, call in enumerate(calls):
        for word in call.written_names:
            first.setdefault(word, index)
    out: list[list[_Scheduled]] = [[] for _ in calls]
    last = 0
    waiting: list[tuple[int, _Scheduled]] = []
    for node in scheduled:
        if node.kind in NO_LAUNCH or node.buffer in NO_LAUNCH_OF:
            continue
        places = [first[name] for name in node.outputs if name in first]
        if places:
            last = min(places)
            out[last].append(node)
        elif node.mutates:
            waiting.append((last, node))
    for earliest, node in waiting:
        changed = set(node.mutates)
        for index in range(earliest, len(calls)):
            if not out[index] and not changed.isdisjoint(calls[index].words):
                out[index].append(node)
                break
    return out


def _refused(recorded: _Recorded, launched: Mapping[str, int]) -> tuple[RefusedFusion, ...]:
    """What was not fused in the end; a reason of an earlier round may have been overcome."""
    counts: Counter[tuple[int | None, int | None, str]] = Counter()
    names: dict[tuple[int | None, int | None, str], tuple[str, str]] = {}
    for first_name, second_name, reason, count in recorded.not_fused:
        a = _call_of(first_name, launched)
        b = _call_of(second_name, launched)
        if a is None or a != b:
            counts[a, b, reason] += count or 1
            names.setdefault((a, b, reason), (first_name, second_name))
    return tuple(
        RefusedFusion(a, b, names[a, b, reason], reason, count)
        for (a, b, reason), count in counts.items()
    )


def _call_of(name: str, launched: Mapping[str, int]) -> int | None:
    """The call that an operation became; of several that were fused by then (``op1_op2``), the
    first's."""
    while name:
        if name in launched:
            return launched[name]
        name = name.rpartition("_")[0]
    return None


def _total(figures: Sequence[int | None]) -> int | None:
    sizes = [figure for figure in figures if figure is not None]
    return sum(sizes) if sizes and len(sizes) == len(figures) else None
