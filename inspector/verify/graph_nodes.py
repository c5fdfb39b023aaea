"""A graph's nodes and buffers as recorded: which node a buffer holds, what a node is made from."""

import ast
import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Graph
from inspector.base.names import words
from inspector.parsers.output_code import parse_wrapper
from inspector.recording.decoding import as_map

Node = Mapping[str, Any]
# s77 = arg0_1
_SYMBOL = re.compile(r"^\s{1,100}([su]\d{1,9}) = (\w{1,100})$", re.MULTILINE)


class Unverifiable(Exception):
    """A kernel cannot be compared: the sentence says why."""


class WriteStep(Struct, frozen=True):
    """What a buffer holds after a kernel has written it: the value of ``node``, None of a part of a
    result. ``effects`` are nodes that change this value in place; ``arguments`` are those of a
    library's operator, of which the buffer holds one in the layout that the library takes, computed
    by nodes of ``origins``."""

    node: str | None
    effects: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()


class GraphNodes(Struct, frozen=True):
    """Nodes by name, in the order of their graph.

    ``steps`` are, by the name of a buffer or of an input that is changed, what it holds after each
    kernel that writes it. ``parts`` are, by the name of a buffer with parts of a reduction, its
    node.
    """

    nodes: Mapping[str, Node]
    steps: Mapping[str, Sequence[WriteStep]]
    node_of_input: Mapping[str, str]
    parts: Mapping[str, str] = {}

    def is_input(self, name: str) -> bool:
        """Whether the graph is given it."""
        return name in self.node_of_input

    def is_given(self, node: str) -> bool:
        """Whether a node's value is given to the graph."""
        return self.nodes[node].get("op") in ("placeholder", "get_attr")

    def fits(self, node: str, dtype: str, shape: Sequence[int]) -> bool:
        """Whether a node's value has this dtype and as many elements."""
        described = self.nodes.get(node, {})
        return described.get("dtype") == dtype and _elements(described) == math.prod(shape)

    def step(self, name: str, writes: int) -> WriteStep | None:
        """What a buffer or an input holds after so many kernels have written it; None if unknown.
        What libraries write is not counted."""
        steps = self.steps.get(name, ())
        return steps[min(max(writes, 1), len(steps)) - 1] if steps else None

    def content(self, name: str, writes: int) -> str | None:
        """The node whose value it then holds; None of a part of a result."""
        if writes == 0 and name in self.node_of_input:
            return self.node_of_input[name]
        step = self.step(name, writes)
        return None if step is None else step.node

    def combining(self, buffer: str, shape: Sequence[int], dtype: str) -> list[Node]:
        """Nodes that compute a reduction from a buffer with its parts, along the last dimension;
        none of a buffer that has no such parts."""
        node = self.nodes.get(self.parts.get(buffer, ""))
        if node is None or not _has_parts(node, shape):
            return []
        name = node["name"]
        target, arguments = REDUCTIONS[base_name(node)]
        steps: list[tuple[str, list[Any]]] = [(target, arguments)]
        if base_name(node) == "mean":
            terms = _elements(self.nodes.get(next(iter(references(node["args"])), ""), {}))
            if terms is None:
                return []
            steps.append(("aten.div.Scalar", [terms // (_elements(node) or 1)]))
        steps.append(("aten.reshape.default", [node["shape"]]))
        nodes: list[Node] = []
        previous = buffer
        for target, arguments in steps:
            step = f"{name}_of_{buffer}_{len(nodes)}"
            nodes.append(called(step, target, [{"node": previous}, *arguments], dtype))
            previous = step
        conversion = [{"node": previous}, {"dtype": node["dtype"]}]
        target = "prims.convert_element_type.default"
        return [*nodes, called(name, target, conversion, node["dtype"])]

    def replaced(self, nodes: Mapping[str, Sequence[Node]]) -> "GraphNodes":
        """The same graph where these nodes are computed by others."""
        changed: dict[str, Node] = {}
        for name, node in self.nodes.items():
            changed |= {step["name"]: step for step in nodes.get(name, (node,))}
        return GraphNodes(changed, self.steps, self.node_of_input, self.parts)

    def program(self, outputs: Iterable[str], known: Collection[str]) -> list[Node]:
        """The nodes that outputs are computed by from known ones, in order, these included."""
        needed: set[str] = set()
        waiting = list(outputs)
        while waiting:
            name = waiting.pop()
            if name in needed or name not in self.nodes:
                continue
            needed.add(name)
            if name not in known:
                node = self.nodes[name]
                waiting += references(node.get("args"))
                waiting += references(node.get("kwargs"))
        return [node for name, node in self.nodes.items() if name in needed]


TOTAL = ("aten.sum.dim_IntList", [[-1]])
REDUCTIONS: Mapping[str, tuple[str, list[Any]]] = {
    "sum": TOTAL,
    "mean": TOTAL,
    "prod": ("aten.prod.dim_int", [-1]),
    "amax": ("aten.amax.default", [[-1]]),
    "amin": ("aten.amin.default", [[-1]]),
    "any": ("aten.any.dim", [-1]),
    "all": ("aten.all.dim", [-1]),
}
"""Operators whose parts are combined by an operator along the last dimension."""


def called(name: str, target: str, arguments: list[Any], dtype: str) -> Node:
    """A node that the recording does not have."""
    return {
        "name": name,
        "op": "call_function",
        "target": target,
        "args": arguments,
        "dtype": dtype,
    }


def _static_shape(node: Node) -> list[int] | None:
    """The sizes of a node's value; None where one depends on an input."""
    shape = node.get("shape")
    is_static = isinstance(shape, list) and all(isinstance(size, int) for size in shape)
    return shape if is_static else None


def _elements(node: Node) -> int | None:
    shape = _static_shape(node)
    return None if shape is None else math.prod(shape)


def _has_parts(node: Node, shape: Sequence[int]) -> bool:
    """Whether a buffer of this shape has a reduction's parts in its last dimension."""
    result = _static_shape(node)
    if result is None or not shape or node.get("dtype") is None:
        return False
    return [n for n in shape[:-1] if n != 1] == [n for n in result if n != 1]


def references(item: object) -> list[str]:
    """The names of the nodes in an argument."""
    if isinstance(item, list):
        return [name for part in item for name in references(part)]
    if isinstance(item, dict):
        if set(item) == {"node"} and isinstance(item["node"], str):
            return [item["node"]]
        return [name for part in item.values() for name in references(part)]
    return []


def read_nodes(graph: Graph) -> GraphNodes:
    """What was recorded of a graph's nodes. Raises Unverifiable where they have no arguments."""
    content = _content(graph)
    nodes = _recorded_nodes(content)
    recorded = {node["name"]: node for node in nodes}
    scheduled = _list(content, "scheduled")
    libraries = _library_calls(scheduled, list(recorded))
    by_name, without_bias = _with_bias_added(recorded, libraries.values())
    writes = _Writes(recorded, libraries, without_bias, _nodes_of_inputs(nodes))
    for item in scheduled:
        for operation in _list(item, "operations"):
            writes.add(operation)
    return GraphNodes(by_name, writes.steps, writes.node_of_input, writes.parts)


def _content(graph: Graph) -> object:
    """The record of a graph's nodes; None without one, and of one that is damaged."""
    try:
        return None if graph.nodes is None else json.loads(graph.nodes.read())
    except (PtxviewError, ValueError):
        return None


def _recorded_nodes(content: object) -> Sequence[Node]:
    """The nodes of a record, in order. Raises Unverifiable where they have no arguments."""
    nodes = [node for node in _list(content, "nodes") if isinstance(node.get("name"), str)]
    if not nodes:
        raise Unverifiable("the operators of its graph were not recorded: it came from a cache")
    if not any("args" in node for node in nodes):
        raise Unverifiable(
            "its graph was recorded by a ptxview that kept no arguments of operators"
        )
    return nodes


def _nodes_of_inputs(nodes: Sequence[Node]) -> dict[str, str]:
    """The node of each input of a graph, by its own name and by the graph's name for it."""
    inputs = [node for node in nodes if node.get("op") in ("placeholder", "get_attr")]
    names = {str(node["target"]): node["name"] for node in inputs}
    return names | {node["name"]: node["name"] for node in inputs}


class _Writes:
    """What each buffer of a graph holds after each write, from its operations in their order."""

    def __init__(
        self,
        recorded: Mapping[str, Node],
        libraries: Mapping[str, str],
        without_bias: Mapping[str, str],
        node_of_input: Mapping[str, str],
    ) -> None:
        self.recorded = recorded
        self.libraries = libraries
        self.without_bias = without_bias
        self.node_of_input = node_of_input
        self.steps: dict[str, list[WriteStep]] = defaultdict(list)
        self.parts: dict[str, str] = {}

    def add(self, operation: Node) -> None:
        """Append the steps of an operation's outputs and of the buffers that it changes."""
        recorded_origins = [n for n in operation.get("origins") or () if n in self.recorded]
        origins = [n for n in recorded_origins if self.recorded[n]["target"] != HAND_WRITTEN]
        is_argument = len(origins) < len(recorded_origins)
        step = self._step(operation, origins, is_argument)
        reduction = _reduction(self.recorded, origins) if step.node is None else None
        for output in _list(operation, "outputs"):
            name = str(output.get("name"))
            self.steps[name].append(step)
            if reduction is not None:
                self.parts[name] = reduction
            for changed in map(str, output.get("mutates") or ()):
                if is_argument:
                    self._repeat(changed)
                else:
                    _change(self.recorded, self.steps[changed], changed, origins, step.node)

    def _step(self, operation: Node, origins: Sequence[str], is_argument: bool) -> WriteStep:
        result = operation.get("result")
        if is_argument and result is None:
            result = _argument(self.recorded, origins)
        step = _step(self.recorded, result, origins, self.libraries.values())
        library_call = self.libraries.get(str(operation.get("name")))
        if library_call is None:
            return step
        return WriteStep(self.without_bias.get(library_call, step.node))

    def _repeat(self, changed: str) -> None:
        """Keep the node of a buffer that a hand-written kernel changes: the graph's later nodes
        have the same name for what it holds then."""
        steps = self.steps[changed]
        steps.append(WriteStep(steps[-1].node if steps else self.node_of_input.get(changed)))


def _step(
    nodes: Mapping[str, Node], result: object, origins: Sequence[str], libraries: Collection[str]
) -> WriteStep:
    """What the buffer of an operation holds, by the node that the recording names as its result."""
    if isinstance(result, str):
        return WriteStep(result if nodes.get(result, {}).get("dtype") is not None else None)
    moved = _last_moved(nodes, origins)
    if moved is not None:
        return WriteStep(moved)
    return WriteStep(None, (), _arguments(nodes, origins, libraries), frozenset(origins))


HAND_WRITTEN = "triton_kernel_wrapper_mutation"
"""The node of a hand-written kernel in a graph: it changes tensors and has no value."""


def _argument(nodes: Mapping[str, Node], origins: Sequence[str]) -> str | None:
    """The node that an operation computes for a hand-written kernel; None of a part of one."""
    sink = _only_sink(nodes, origins)
    return None if sink is None or base_name(nodes[sink]) in REDUCTIONS else sink


LIBRARY_KIND = "ExternKernelSchedulerNode"
CONVOLUTION = "aten.convolution.default"


def _library_calls(scheduled: Sequence[Node], order: Sequence[str]) -> dict[str, str]:
    """The node that each call of a library computes, by the name of the operation."""
    place = {name: n for n, name in enumerate(order)}
    out: dict[str, str] = {}
    for item in scheduled:
        for operation in _list(item, "operations"):
            origins = [n for n in operation.get("origins") or () if n in place]
            if item.get("kind") == LIBRARY_KIND and origins:
                out[str(operation.get("name"))] = max(origins, key=place.__getitem__)
    return out


def _with_bias_added(
    nodes: Mapping[str, Node], libraries: Collection[str]
) -> tuple[dict[str, Node], dict[str, str]]:
    """Split each convolution into the part that a library computes, and the bias that is added.

    Returns the nodes, and the part by the convolution's name.
    """
    out: dict[str, Node] = {}
    parts: dict[str, str] = {}
    for name, node in nodes.items():
        args = list(node.get("args") or ())
        if name in libraries and node.get("target") == CONVOLUTION and args[2] is not None:
            part = {**node, "name": f"{name}_without_bias", "args": [*args[:2], None, *args[3:]]}
            sizes = [-1, *[1] * (len(node.get("shape") or ()) - 2)]
            dtype = str(node.get("dtype"))
            bias = called(f"{name}_bias", "aten.reshape.default", [args[2], sizes], dtype)
            terms = [{"node": part["name"]}, {"node": bias["name"]}]
            out |= {part["name"]: part, bias["name"]: bias}
            node = {**node, "target": "aten.add.Tensor", "args": terms}
            parts[name] = part["name"]
        out[name] = node
    return out, parts


def _arguments(
    nodes: Mapping[str, Node], origins: Sequence[str], libraries: Collection[str]
) -> tuple[str, ...]:
    """The arguments of the library's operator for which a buffer from these nodes is made."""
    calls = [name for name in origins if name in libraries]
    return tuple(references(nodes[calls[0]].get("args"))) if len(calls) == 1 else ()


MOVES = frozenset(
    words(
        "view reshape _unsafe_view permute transpose t expand clone slice select squeeze unsqueeze "
        "constant_pad_nd cat where convert_element_type add sub mul div neg"
    )
)
"""Operators without a sum or several results: what they give is no part of a result."""


def _last_moved(nodes: Mapping[str, Node], origins: Sequence[str]) -> str | None:
    """The node of an operation that the recording ties to none: the one of its origins that no
    other uses, if all that it can be is a copy in another layout; else None."""
    sink = _only_sink(nodes, origins)
    return sink if sink is not None and base_name(nodes[sink]) in MOVES else None


def _reduction(nodes: Mapping[str, Node], origins: Sequence[str]) -> str | None:
    """The node of whose result an operation computes parts; None of one that does not."""
    sink = _only_sink(nodes, origins)
    return sink if sink is not None and base_name(nodes[sink]) in REDUCTIONS else None


def _only_sink(nodes: Mapping[str, Node], origins: Sequence[str]) -> str | None:
    """The one of an operation's origins that no other uses."""
    used = {name for n in origins for name in references(nodes[n].get("args"))}
    sinks = [name for name in origins if name not in used]
    if len(sinks) != 1 or nodes[sinks[0]].get("dtype") is None:
        return None
    return sinks[0]


def base_name(node: Node) -> str:
    """``aten.sum.dim_IntList`` as ``sum``, ``aten._foreach_div_.List`` as ``div``."""
    parts = str(node.get("target", "")).split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    return name.removeprefix("_foreach_").removesuffix("_")


def _change(
    nodes: Mapping[str, Node],
    steps: list[WriteStep],
    changed: str,
    origins: Sequence[str],
    result: str | None,
) -> None:
    """Add what a buffer or an input holds after an operation that changes it."""
    copies = [n for n in origins if _is_in_place(nodes[n])]
    whole = [n for n in copies if nodes[n]["args"][0] == {"node": changed}]
    whole += _members(nodes, copies, changed)
    if whole:
        steps.append(WriteStep(whole[-1]))
    elif copies and steps and _has_layout(nodes, copies[-1], steps[-1].node):
        # What it holds at last was noted for the first kernel.
        if len(steps) == 1:
            steps[0] = WriteStep(_prepared(nodes, copies[0]))
        steps.append(WriteStep(copies[-1]))
    elif copies:
        held = steps[-1].node if steps else changed
        steps.append(WriteStep(held, tuple(copies)))
    elif steps:  # the result was noted for the first kernel, which only prepares its memory
        first = steps[-1].node
        prepared = _prepared(nodes, first) if len(steps) == 1 and first is not None else None
        steps[-1] = WriteStep(prepared)
        steps.append(WriteStep(result or first))
    else:
        steps.append(WriteStep(result))


def _members(nodes: Mapping[str, Node], lists: Sequence[str], changed: str) -> list[str]:
    """The nodes of a tensor that an operator changes in a list: ``aten._foreach_add_.Scalar``."""
    out = []
    for name in lists:
        tensors = nodes[name]["args"][0]
        if isinstance(tensors, list) and {"node": changed} in tensors:
            member = [{"node": name}, tensors.index({"node": changed})]
            out += [n for n, node in nodes.items() if node.get("args") == member]
    return out


def _has_layout(nodes: Mapping[str, Node], name: str, other: str | None) -> bool:
    """Whether the values of two nodes have one shape and dtype."""
    if other is None:
        return False
    keys = ("shape", "dtype")
    return all(nodes[name].get(key) == nodes[other].get(key) is not None for key in keys)


ACCUMULATING = frozenset(
    words(
        "scatter scatter_add scatter_reduce index_put _unsafe_index_put index_add "
        "_unsafe_masked_index_put_accumulate"
    )
)
"""Operators that change a copy of their first argument, in a kernel after that of the copy."""


def _prepared(nodes: Mapping[str, Node], name: str) -> str | None:
    """The node that is copied before an operator changes the copy; None of other operators."""
    node = nodes[name]
    copied = next(iter(references(node.get("args"))), None)
    if base_name(node).removesuffix("_") not in ACCUMULATING or copied is None:
        return None
    return copied if nodes[copied].get("dtype") == node.get("dtype") else None


def _is_in_place(node: Node) -> bool:
    """Whether an operator changes its first argument: ``aten.copy_.default``."""
    parts = str(node.get("target")).split(".")
    return len(parts) > 1 and parts[1].endswith("_") and bool(node.get("args"))


def _list(content: object, name: str) -> list[dict[str, Any]]:
    value = as_map(content).get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class WrapperCode:
    """The code that launches a graph's kernels."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.split("\n")
        wrapper = parse_wrapper(text)
        self._reused = [(b.n, b.name, b.reuses) for b in wrapper.buffers if b.reuses is not None]
        self._symbols: dict[str, str] = dict(_SYMBOL.findall(text))
        self._called = [(call.n, frozenset(call.words)) for call in wrapper.calls]

    def arguments(self, line: int) -> list[str | None]:
        """The buffer of each argument of ``kernel.run(buf0, reinterpret_tensor(buf1, …), 8, …)``;
        None of an argument that is not a buffer."""
        if not 0 < line <= len(self._lines):
            return []
        try:
            statement = ast.parse(self._lines[line - 1].strip()).body[0]
        except (SyntaxError, IndexError, ValueError, RecursionError, MemoryError):
            return []
        call = statement.value if isinstance(statement, ast.Expr) else None
        return (
            [_base_name(argument) for argument in call.args] if isinstance(call, ast.Call) else []
        )

    def _body(self, kernel: str) -> str:
        """The source of a kernel after its parameters."""
        source = self._text.partition(f"\n{kernel} = async_compile")[2].partition("\n'''")[0]
        return source.partition(f"def {kernel}(")[2].partition("):\n")[2]

    def calls(self, kernel: str, functions: Sequence[str]) -> bool:
        """Whether a kernel calls one of these functions."""
        body = self._body(kernel)
        return any(f".{function}(" in body for function in functions)

    def only_loads(self, kernel: str, parameter: str) -> bool:
        """Whether a kernel only loads from a parameter: its result is in no memory at all."""
        before = self._body(kernel).split(f"{parameter} ")[:-1]
        return bool(before) and all(text.endswith("tl.load(") for text in before)

    def symbol_input(self, name: str) -> str:
        """The graph's input that a size is, by ``s77 = arg0_1``; else the name itself."""
        return self._symbols.get(name, name)

    def reused_before(self, line: int, name: str) -> str | None:
        """The buffer whose memory it has, by ``buf3 = buf0; del buf0  # reuse``; None if new."""
        return next((old for n, new, old in self._reused if new == name and n < line), None)

    def is_used_after(self, line: int, name: str) -> bool:
        """Whether a later line of the wrapper reads a buffer under this name."""
        word = re.compile(rf"\b{re.escape(name)}\b(?!.*# reuse)")
        return any(
            word.search(text) and not text.lstrip().startswith("del ")
            for text in self._lines[line:]
        )

    def is_written_before(self, line: int, name: str) -> bool:
        """Whether a call before a line names a buffer, or it is one of several that a call made:
        ``buf6 = buf5[0]``, ``buf1 = buf0``."""
        part = re.compile(rf"\s*{re.escape(name)} = \w+(\[.*)?$")
        return any(n < line and name in words for n, words in self._called) or any(
            part.match(text) for text in self._lines[: line - 1]
        )


def _base_name(expression: ast.expr) -> str | None:
    while isinstance(expression, ast.Call) and expression.args:
        expression = expression.args[0]
    return expression.id if isinstance(expression, ast.Name) else None
