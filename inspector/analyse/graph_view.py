"""A compiled graph, call by call: which operators of which modules and lines each kernel computes.

The order of the calls and the buffers are ``output_code``'s. What a call computes is what the
scheduler recorded as its origins; where that was not recorded, Inductor's comment above the call
names nodes of Dynamo's graph. Neither is guessed.
"""

import bisect
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analyse.card import element_bytes
from inspector.base.model import (
    ChoiceUse,
    Configuration,
    TriedFusion,
    Tuning,
)
from inspector.base.text import by_key, microseconds, seconds
from inspector.listing.output_code import Wrapper, WrapperBuffer, WrapperCall

TOLD = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")
"""Settings of a candidate that a single line shows."""


def candidate(one: Configuration) -> str:
    """A candidate by its name, its maker where that is ATen, its time, and its settings."""
    took = "" if one.time_us is None else f" {microseconds(one.time_us)} µs"
    whose = " of ATen" if one.maker == "ATen" else ""
    settings = [f"{name} {one.config[name]}" for name in TOLD if name in one.config]
    return f"{one.config.get('choice')}{whose}{took}" + (
        f" ({', '.join(settings)})" if settings else ""
    )


def chosen(tuning: Tuning, *uses: ChoiceUse) -> str:
    """The fastest candidate, and those that code was generated from, which may be others: for all
    operations that were chosen for, or for these alone."""
    best = tuning.winner
    out = "none was measured" if best is None else candidate(best)
    names: dict[tuple[int, str], None] = {}
    for use in uses or tuning.uses:
        if use.configuration is not None and use.kernel is not None:
            names.setdefault((use.configuration, use.kernel))
    for place, kernel in names:
        one = tuning.configurations[place]
        out += f", {kernel} was generated from " + ("it" if one == best else candidate(one))
    return out


def candidates(tuning: Tuning) -> str:
    """How many there were, of whom, how many failed, and where their times are from."""
    makers = Counter(one.maker or "unknown" for one in tuning.configurations)
    parts = [", ".join(f"{count} of {maker}" for maker, count in makers.items())]
    failed = sum((one.reason or "").startswith("failed") for one in tuning.configurations)
    parts += [f"{failed} failed"] if failed else []
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
    ("" is the model itself, None unknown), ``source`` the node of Dynamo's graph.
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


Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class _Stack(msgspec.Struct):
    """The modules that a node was called in, the outermost first, and the innermost's class."""

    paths: list[str] = []
    type: str | None = None


class _Node(msgspec.Struct, rename={"source": "from"}):
    """A recorded node of torch.fx; ``module`` is the place of its stack."""

    name: str
    op: str
    target: str = ""
    aten: str | None = None
    module: Count | None = None
    line: tuple[str, Annotated[int, msgspec.Meta(gt=0, lt=10**9)], str] | None = None
    source: str | None = None
    backward: bool = False


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
    def told(self) -> tuple[FxNode, ...]:
        """The nodes that it is itself, if known, else all that went into it."""
        return self.results or self.nodes

    @property
    def modules(self) -> tuple[str, ...]:
        """The paths of its nodes' modules, in the order of the graph."""
        return tuple(dict.fromkeys(n.module for n in self.told if n.module is not None))

    @property
    def places(self) -> tuple[Place, ...]:
        """The user's lines that its nodes are from, in the order of the graph."""
        return tuple(dict.fromkeys(n.place for n in self.told if n.place is not None))

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
    view: GraphView, chosen: Iterable[GraphChoice], tried: Sequence[TriedFusion]
) -> GraphView:
    """A graph with what max-autotune chose for its calls and the fusions that Inductor measured."""
    calls, choices = list(view.calls), []
    for choice in chosen:
        made = (call for call in view.calls if choice.node in {n.name for n in call.told})
        call = next(made, None)
        if call is not None:
            calls[call.number - 1] = replace(calls[call.number - 1], tuned=choice.kernel)
        choices.append(replace(choice, call=None if call is None else call.number))
    return replace(view, calls=tuple(calls), choices=tuple(choices), tried=tuple(tried))


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
    nodes, source_nodes = _fx_nodes(graph), _fx_nodes(_decoded(dynamo))
    placed = _placed(wrapper.calls, graph.scheduled)
    order = {name: n for n, name in enumerate(nodes)}
    lines = [call.n for call in wrapper.calls]
    reuses = by_key(
        (bisect.bisect_right(lines, buffer.n), (buffer.name, buffer.reuses))
        for buffer in wrapper.buffers
        if buffer.reuses is not None
    )
    calls = []
    for at, (call, own) in enumerate(zip(wrapper.calls, placed, strict=True)):
        operations = [each for one in own for each in one.operations]
        origins = {name for each in operations for name in each.origins}
        computed = [nodes[name] for name in sorted(origins & nodes.keys(), key=order.__getitem__)]
        if not computed:
            computed = [
                source_nodes[name]
                for name in call.comment.names
                if name in source_nodes and name not in ambiguous
            ]
        named = (node.aten or node.target for node in computed)
        kernel = kernels.get(call.n)
        size, by = _total([one.bytes for one in own]), "inductor"
        if size is None:
            size, by = launched_with.get(kernel or ""), "tensors"
        calls.append(
            GraphCall(
                at + 1,
                call.n,
                call.name,
                bool(call.library),
                kernel,
                call.comment.ops or tuple(dict.fromkeys(filter(None, named))),
                tuple(computed),
                tuple(each.name for each in operations),
                size,
                _total([one.bytes_read for one in own]),
                _total([one.bytes_written for one in own]),
                tuple(reuses.get(at, ())),
                _results(call, own, computed, nodes),
                None if size is None else by,
            )
        )
    launched = {
        each.name: at for at, own in enumerate(placed, 1) for one in own for each in one.operations
    }
    return GraphView(
        tuple(calls),
        wrapper.buffers,
        _refused(graph, launched),
        graph.not_fused_left_out,
        bool(graph.scheduled),
        nodes,
        source_nodes,
        launched,
        {each.name: tuple(each.origins) for one in graph.scheduled for each in one.operations},
    )


def buffer_bytes(buffer: WrapperBuffer) -> int | None:
    """How much memory a buffer takes, None where its type or its size is not known."""
    width = None if buffer.dtype is None else element_bytes(buffer.dtype)
    return None if width is None or buffer.elements is None else width * buffer.elements


def _results(
    call: WrapperCall,
    own: Sequence[_Scheduled],
    computed: Sequence[FxNode],
    nodes: Mapping[str, FxNode],
) -> tuple[FxNode, ...]:
    if any(one.buffer == "UserDefinedTritonKernel" for one in own):
        return tuple(node for node in computed if "triton_kernel_wrapper" in node.target)
    if not call.library:
        return ()
    results = [each.result for one in own for each in one.operations]
    known = tuple(nodes[name] for name in results if name is not None and name in nodes)
    names = (f"aten.{call.name}", call.name)  # ``mm`` for ``aten.mm.default``
    packets = {node: node.target.removeprefix("torch.ops.").rpartition(".")[0] for node in computed}
    return known or tuple(node for node, packet in packets.items() if packet in names)


def module_path(paths: Sequence[str]) -> str:
    """``layers.3.mlp.gate_proj`` for the modules that Dynamo names, the outermost first.

    Dynamo writes ``L['self'].layers.3``, ``L['self']._modules['layers']._modules['3']``,
    ``getattr(L['self'].layers, '3')`` or, of modules that it does not look into,
    ``L__self___layers_3``, where the names above it tell which underscores were dots.
    """
    return _plain(paths[-1]) if not paths[-1].startswith(("L__", "G__")) else _joined(paths)


def _plain(path: str) -> str:
    for _ in range(path.count("getattr(")):
        path = _GETATTR.sub(r"\1.\2", path)
    root = _ROOT.match(path)
    if root is not None:
        kept = "" if root[1] == "self" else root[1] or ""
        path = kept + path[root.end() :]
    path = path.replace(".__closure__[0].cell_contents", "").replace("._modules[", "[")
    path = _ITEM.sub(lambda m: f".{m[1] or m[2] or m[3] or ''}", path)
    return path.strip(".")


def _joined(paths: Sequence[str]) -> str:
    """A path of names with underscores: each module's begins with that of the one above it."""
    parts: list[str] = []
    above = ""
    for path in paths:
        text = _ROOT.sub("", path)
        own = text.removeprefix(above).strip("_")
        parts.append(_UNDERSCORED.sub(r".\1.", own).replace("._", ".").strip("."))
        above = text
    return ".".join(filter(None, parts))


def _fx_nodes(recorded: _Recorded) -> dict[str, FxNode]:
    """The nodes of a recorded graph by name, in its order, without its inputs."""
    stacks: dict[int | None, _Stack] = dict(enumerate(recorded.stacks))
    out: dict[str, FxNode] = {}
    for one in recorded.nodes:
        if one.op in ("placeholder", "get_attr", "output"):
            continue
        stack = stacks.get(one.module, _Stack())
        out[one.name] = FxNode(
            one.name,
            one.op,
            one.target,
            one.aten,
            module_path(stack.paths) if stack.paths else None,
            stack.type,
            one.line,
            one.source,
            one.backward,
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
    for at, call in enumerate(calls):
        for word in call.made:
            first.setdefault(word, at)
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
    for after, node in waiting:
        changed = set(node.mutates)
        for at in range(after, len(calls)):
            if not out[at] and not changed.isdisjoint(calls[at].words):
                out[at].append(node)
                break
    return out


def _refused(recorded: _Recorded, launched: Mapping[str, int]) -> tuple[RefusedFusion, ...]:
    """What was not fused in the end; a reason of an earlier round may have been overcome."""
    counts: Counter[tuple[int | None, int | None, str]] = Counter()
    names: dict[tuple[int | None, int | None, str], tuple[str, str]] = {}
    for left, right, reason, count in recorded.not_fused:
        a, b = _call_of(left, launched), _call_of(right, launched)
        if a is None or a != b:
            counts[a, b, reason] += count or 1
            names.setdefault((a, b, reason), (left, right))
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
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known and len(known) == len(figures) else None
