"""Kept launches as tasks: the operators that a kernel computes, its inputs, and what it wrote."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from inspector.base.model import Origin
from inspector.base.units import plural
from inspector.reader.tables import table
from inspector.verify.graph_nodes import (
    GraphNodes,
    Node,
    Unverifiable,
    WrapperCode,
    WriteStep,
    read_nodes,
    references,
)
from inspector.verify.launches import GraphLaunch, LaunchArgument, Reference, TensorValue
from inspector.verify.random_nodes import random_nodes
from inspector.verify.verdicts import dropped_roundings

READ_ONLY = "in_ptr"
IN_PLACE = "in_out_ptr"
T = TypeVar("T")
NamedArgument = tuple[str, LaunchArgument]
"""A buffer of the wrapper, and the argument of the kernel that it is."""


class Comparison(Struct, frozen=True):
    """What is compared of a launch.

    ``outputs`` are the kernel's parameters, with the node of each and what was written for it.
    ``combined`` are, of a node of which parts were written, the nodes that compute it from them.
    ``unread`` are dtype and shape of inputs that the operators take and the kernel does not read:
    its result must not depend on them. ``with_lines`` are the lines of launches whose partial
    results it completes. ``parameters`` are, by nodes, the kernel's own that it reads them from.
    ``roundings`` are the nodes whose value a hand-written kernel may round to their narrow dtype:
    Inductor's kernels do not.
    """

    nodes: Sequence[Node]
    inputs: Mapping[str, TensorValue]
    sizes: Mapping[str, int]
    outputs: Sequence[tuple[str, str, TensorValue]]
    combined: Mapping[str, Sequence[Node]] = {}
    unread: Mapping[str, tuple[str, tuple[int, ...]]] = {}
    with_lines: tuple[int, ...] = ()
    parameters: Mapping[str, str] = {}
    roundings: Collection[str] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all its tensors."""
        return sum(t.bytes for t in (*self.inputs.values(), *(o[2] for o in self.outputs)))


class LaunchTask(Struct, frozen=True):
    """A launch, and what is compared of it, or why nothing is."""

    launch: GraphLaunch
    comparison: Comparison | None = None
    why: str = ""


class _Output(Struct, frozen=True):
    """A parameter of a kernel, what was written for it, and the node whose value that is;
    ``effects`` are nodes that change this value in place, and ``combining`` nodes that compute it
    from parts, which were written. ``is_copy``: of a value in another layout."""

    parameter: str
    node: str
    value: TensorValue
    effects: tuple[str, ...] = ()
    combining: Sequence[Node] = ()
    is_copy: bool = False


class _Reads(Struct):
    """What a launch reads, by node; ``unknown`` are buffers of which no node is known, ``combined``
    nodes that it computes from parts that it reads, and ``lines`` of launches that wrote others."""

    values: dict[str, TensorValue] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    combined: dict[str, Sequence[Node]] = field(default_factory=dict)
    lines: dict[int, None] = field(default_factory=dict)


class _GraphCall(Struct):
    """The state of one call of a graph between its launches.

    ``writes`` counts the launches that have written a buffer, and ``writers`` has the line of the
    last and what it read. ``copies`` has the nodes of buffers that hold a library's argument.
    """

    nodes: GraphNodes
    writes: Counter[str] = field(default_factory=Counter)
    writers: dict[str, tuple[int, Mapping[str, TensorValue]]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)

    def reads(self, arguments: Sequence[NamedArgument], code: WrapperCode, line: int) -> _Reads:
        """What a launch by this line reads."""
        out = _Reads()
        for name, argument in arguments:
            contents = argument.contents_before
            buffer: str | None = name
            if argument.name.startswith(IN_PLACE):
                buffer = self._memory_read(name, code, line)
            if contents is None or buffer is None:
                continue
            node = self.copies.get(buffer) or self.nodes.content(buffer, self.writes[buffer])
            if node is not None:
                out.parameters[node] = argument.name
                out.values[node] = contents
            elif combining := self.nodes.combining(buffer, contents.shape, contents.dtype):
                out.values[buffer] = contents
                out.combined[combining[-1]["name"]] = combining
            elif buffer in self.writers:
                earlier_line, earlier_reads = self.writers[buffer]
                out.values = {**earlier_reads, **out.values}
                out.lines[earlier_line] = None
            else:
                out.unknown.append(buffer)
        return out

    def _memory_read(self, name: str, code: WrapperCode, line: int) -> str | None:
        """The buffer that a kernel finds in the memory that it writes in place: the first that was
        written of those that have had it; None if the kernel itself writes it before it reads it.
        """
        buffer = code.reused_before(line, name) or name
        while not (code.is_written_before(line, buffer) or self.nodes.is_input(buffer)):
            earlier = code.reused_before(line, buffer)
            if earlier is None:
                return None
            buffer = earlier
        return buffer

    def written(
        self,
        arguments: Sequence[NamedArgument],
        reads: _Reads,
        code: WrapperCode,
        line: int,
        only_loaded: Callable[[str], bool],
    ) -> tuple[list[_Output], list[str]]:
        """What a launch writes: outputs that are values of nodes, and buffers that are not."""
        outputs = []
        parts = []
        written = []
        for name, argument in arguments:
            contents = argument.contents_after
            if contents is None or not _is_written(argument):
                continue
            if only_loaded(argument.name) and not (
                self.nodes.is_input(name) or code.is_used_after(line, name)
            ):
                continue  # Inductor leaves out the store of what nothing reads
            self.writes[name] += 1
            self.copies.pop(name, None)
            written.append(name)
            step = self.nodes.step(name, self.writes[name])
            if name in self.writers and self.writes[name] > 1:
                earlier_line, earlier_reads = self.writers[name]
                reads.values = {**earlier_reads, **reads.values}
                reads.lines[earlier_line] = None
            combining = self.nodes.combining(name, contents.shape, contents.dtype)
            if combining:
                node = combining[-1]["name"]
                outputs.append(_Output(argument.name, node, contents, (), combining))
            elif step is not None and step.node is not None:
                outputs.append(_Output(argument.name, step.node, contents, step.effects))
            elif step is not None and (copied := self._copied(step, contents, reads.values)):
                outputs.append(_Output(argument.name, copied, contents, is_copy=True))
                self.copies[name] = copied
            else:
                parts.append(name)
        for name in written:
            self.writers[name] = (line, dict(reads.values))
        return outputs, parts

    def _copied(self, step: WriteStep, value: TensorValue, reads: Collection[str]) -> str | None:
        """The argument of a library's operator that a buffer holds, by its dtype and size.

        Of several that fit it is the only one that the launch reads, or the only one that it
        computes if it reads none of them. None if that is not known.
        """
        fitting = [n for n in step.arguments if self.nodes.fits(n, value.dtype, value.shape)]
        if len(fitting) > 1:
            read = [name for name in fitting if name in reads]
            computed = [name for name in fitting if name in step.origins]
            fitting = read if len(reads) == 1 else [] if read else computed
        return fitting[0] if len(fitting) == 1 else None


def tasks_of(launches: Iterable[GraphLaunch]) -> Iterator[LaunchTask]:
    """A task for each launch, in their order."""
    calls: dict[tuple[int | None, str, int], _GraphCall | str] = {}
    for launch in launches:
        key = (launch.process, launch.graph.id, launch.call)
        if key not in calls:
            try:
                calls[key] = _GraphCall(read_nodes(launch.graph))
            except Unverifiable as error:
                calls[key] = str(error)
        call = calls[key]
        comparison = None
        why = launch.why or (call if isinstance(call, str) else "")
        try:
            if isinstance(call, _GraphCall) and not why:
                comparison = _comparison(call, launch)
        except Unverifiable as error:
            why = str(error)
        if launch.kernel.origin is Origin.TRITON and not launch.why:
            comparison, why = _with_reference(launch)
        yield LaunchTask(launch, comparison, why)


def _with_reference(launch: GraphLaunch) -> tuple[Comparison | None, str]:
    """What is compared of a hand-written kernel, or why nothing is."""
    reference = launch.reference
    if reference is None:
        return None, "it is hand-written: inspector.reference(kernel, function) gives it operators"
    written = {a.name: a.contents_after for a in launch.arguments if a.contents_after is not None}
    try:
        results = _results(reference, launch, written)
    except Unverifiable as error:
        return None, str(error)
    return _reference_comparison(reference, results, launch, written), ""


def _results(
    reference: Reference, launch: GraphLaunch, written: Collection[str]
) -> Mapping[str, str]:
    """The nodes of a reference's results, by the arguments that hold them after the launch.

    Raises Unverifiable where they do not fit the tensors that were ``written``.
    """
    results = reference.outputs
    if isinstance(results, tuple):
        changed = [a.name for a in launch.arguments if a.changed and a.name in written]
        if len(changed) != len(results):
            count = plural(len(results), "tensor")
            names = ", ".join(changed) or "none"
            raise Unverifiable(f"its reference returns {count}, and the kernel changes {names}")
        results = dict(zip(changed, results, strict=True))
    unknown = next((name for name in results if name not in written), None)
    if unknown is not None:
        raise Unverifiable(f"its reference returns {unknown}, which is no tensor of the kernel")
    return results


def _reference_comparison(
    reference: Reference,
    results: Mapping[str, str],
    launch: GraphLaunch,
    written: Mapping[str, TensorValue],
) -> Comparison:
    """The operators of a reference beside the tensors that the kernel has written."""
    node_of = reference.inputs
    inputs = {
        node_of.get(a.name, a.name): a.contents_before
        for a in launch.arguments
        if a.contents_before is not None
    }
    outputs = [(name, node, written[name]) for name, node in results.items()]
    nodes = [node for node in reference.nodes if node["name"] not in inputs]
    parameters = {node: name for name, node in node_of.items()}
    exact = table("operator_rounding")["exact"]["operators"]
    written_nodes = set(results.values())
    roundings = {n["name"] for n in dropped_roundings(nodes, "", exact)} - written_nodes
    return Comparison(nodes, inputs, {}, outputs, parameters=parameters, roundings=tuple(roundings))


def _comparison(call: _GraphCall, launch: GraphLaunch) -> Comparison:
    """What is compared of a launch. Raises Unverifiable."""
    line = launch.line
    code = launch.code
    names = code.arguments(line)
    pairs = zip(names, launch.arguments, strict=False)
    arguments = [(name, argument) for name, argument in pairs if name is not None]
    reads = call.reads(arguments, code, line)
    only_loaded = partial(code.only_loads, launch.kernel.name)
    outputs, parts = call.written(arguments, reads, code, line, only_loaded)
    if not outputs:
        if parts:
            raise Unverifiable("it writes parts of a result, which a later kernel completes")
        raise Unverifiable("it writes no buffer of its graph")
    inputs = _inputs(call, reads, outputs)
    needed = [name for output in outputs for name in (output.node, *output.effects)]
    replaced = {**random_nodes(launch, call.nodes.nodes), **reads.combined}
    nodes = call.nodes.replaced(replaced).program(needed, inputs)
    unread = _unread(nodes, {*inputs, *launch.sizes})
    if reads.unknown and unread:
        raise Unverifiable(f"it reads {reads.unknown[0]}, a part of a result that a library wrote")
    used = {node["name"] for node in nodes}
    for node in nodes:
        used.update(references(node.get("args")))
    return Comparison(
        [node for node in nodes if node["name"] not in inputs and node["name"] not in unread],
        _only(inputs, used),
        _only(launch.sizes, used),
        [(output.parameter, output.node, output.value) for output in outputs],
        {output.node: output.combining for output in outputs if output.combining},
        unread,
        tuple(reads.lines),
        _only(reads.parameters, used),
    )


def _inputs(call: _GraphCall, reads: _Reads, outputs: Sequence[_Output]) -> dict[str, TensorValue]:
    """The values that operators begin with: what a launch reads, without what it is to compute."""
    inputs = dict(reads.values)
    for output in outputs:
        is_read = output.is_copy or call.nodes.is_given(output.node)
        if not output.effects and not is_read:
            # It is computed again, also where the kernel reads the same node's earlier value.
            inputs.pop(output.node, None)
    return inputs


def _unread(
    nodes: Sequence[Node], values: Collection[str]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The graph's inputs that operators take and that have no value. Raises Unverifiable."""
    missing = [
        node
        for node in nodes
        if node["op"] in ("placeholder", "get_attr") and node["name"] not in values
    ]
    return {node["name"]: _described(node) for node in missing}


def _only(values: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    """The values of these names."""
    return {name: value for name, value in values.items() if name in names}


def _described(node: Node) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of a node's value. Raises Unverifiable where they are not known."""
    dtype = node.get("dtype")
    shape = node.get("shape")
    if dtype is None or shape is None or not all(isinstance(n, int) for n in shape):
        raise Unverifiable(f"its operators use {node['name']}, which it does not read")
    return dtype, tuple(shape)


def _is_written(argument: LaunchArgument) -> bool:
    """Whether a launch has changed an argument, or would by its name."""
    if argument.name.startswith(READ_ONLY):
        return False
    return argument.name.startswith(("out_ptr", IN_PLACE)) or argument.changed
