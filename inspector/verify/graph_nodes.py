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
    kernel that writes it.
    """

    nodes: Mapping[str, Node]
    steps: Mapping[str, Sequence[WriteStep]]
    node_of_input: Mapping[str, str]

    def is_input(self, name: str) -> bool:
        """Whether the graph is given it."""
        return name in self.node_of_input

    def fits(self, name: str, dtype: str, shape: Sequence[int]) -> bool:
        """Whether a node's value has this dtype and as many elements."""
        node = self.nodes.get(name, {})
        sizes = node.get("shape")
        if node.get("dtype") != dtype or sizes is None:
            return False
        return all(isinstance(n, int) for n in sizes) and math.prod(sizes) == math.prod(shape)

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
    try:
        content = None if graph.nodes is None else json.loads(graph.nodes.read())
    except (PtxviewError, ValueError):
        content = None
    nodes = [node for node in _list(content, "nodes") if isinstance(node.get("name"), str)]
    if not nodes:
        raise Unverifiable("the operators of its graph were not recorded: it came from a cache")
    if not any("args" in node for node in nodes):
        raise Unverifiable(
            "its graph was recorded by a ptxview that kept no arguments of operators"
        )
    recorded = {node["name"]: node for node in nodes}
    inputs = [node for node in nodes if node.get("op") in ("placeholder", "get_attr")]
    node_of_input = {str(node["target"]): node["name"] for node in inputs}
    node_of_input |= {node["name"]: node["name"] for node in inputs}
    steps: dict[str, list[WriteStep]] = defaultdict(list)
    scheduled = _list(content, "scheduled")
    libraries = _library_calls(scheduled, list(recorded))
    by_name, without_bias = _with_bias_added(recorded, libraries.values())
    for operation in (o for s in scheduled for o in _list(s, "operations")):
        origins = [n for n in operation.get("origins") or () if n in recorded]
        library_call = libraries.get(str(operation.get("name")))
        step = _step(recorded, operation.get("result"), origins, libraries.values())
        if library_call is not None:
            step = WriteStep(without_bias.get(library_call, step.node))
        for output in _list(operation, "outputs"):
            steps[str(output.get("name"))].append(step)
            for changed in output.get("mutates") or ():
                _change(recorded, steps[str(changed)], str(changed), origins, step.node)
    return GraphNodes(by_name, steps, node_of_input)


def _step(
    nodes: Mapping[str, Node], result: object, origins: Sequence[str], libraries: Collection[str]
) -> WriteStep:
    """What the buffer of an operation holds, by the node that the recording names as its result."""
    if not isinstance(result, str):
        node = _last_moved(nodes, origins)
        arguments = () if node else _arguments(nodes, origins, libraries)
        return WriteStep(node, (), arguments, frozenset(origins))
    if nodes.get(result, {}).get("dtype") is None:
        return WriteStep(None)
    if origins and result not in origins and _is_in_place(nodes[result]):
        target = references(nodes[result]["args"][0])
        if len(target) == 1 and target[0] in origins:
            return WriteStep(target[0])  # it prepares the memory that the result is written into
    return WriteStep(result)


LIBRARY_KIND = "ExternKernelSchedulerNode"
CONVOLUTION = "aten.convolution.default"


def _library_calls(scheduled: Sequence[Node], order: Sequence[str]) -> dict[str, str]:
    """The node that each call of a library computes, by the name of the operation."""
    place = {name: n for n, name in enumerate(order)}
    return {
        str(operation.get("name")): max(origins, key=place.__getitem__)
        for item in scheduled
        if item.get("kind") == LIBRARY_KIND
        for operation in _list(item, "operations")
        if (origins := [n for n in operation.get("origins") or () if n in place])
    }


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
        shape = node.get("shape") or ()
        out[name] = node
        if name in libraries and node.get("target") == CONVOLUTION and args[2] is not None:
            part = {**node, "name": f"{name}_without_bias", "args": [*args[:2], None, *args[3:]]}
            view = [args[2], [-1, *[1] * (len(shape) - 2)]]
            bias = {**node, "name": f"{name}_bias", "target": "aten.view.default", "args": view}
            terms = [{"node": part["name"]}, {"node": bias["name"]}]
            del out[name]
            out |= {part["name"]: part, bias["name"]: bias}
            out[name] = {**node, "target": "aten.add.Tensor", "args": terms}
            parts[name] = part["name"]
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
    used = {name for n in origins for name in references(nodes[n].get("args"))}
    sinks = [name for name in origins if name not in used]
    if len(sinks) != 1 or nodes[sinks[0]].get("dtype") is None:
        return None
    return sinks[0] if base_name(nodes[sinks[0]]) in MOVES else None


def base_name(node: Node) -> str:
    """``aten.sum.dim_IntList`` as ``sum``."""
    parts = str(node.get("target", "")).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _change(
    nodes: Mapping[str, Node],
    steps: list[WriteStep],
    changed: str,
    origins: Sequence[str],
    result: str | None,
) -> None:
    """Add what a buffer or an input holds after an operation that changes it."""
    copies = [n for n in origins if _is_in_place(nodes[n])]
    held = steps[-1].node if steps else changed
    whole = [n for n in copies if nodes[n]["args"][0] in ({"node": changed}, {"node": held})]
    if whole:
        steps.append(WriteStep(whole[-1]))
    elif copies:
        steps.append(WriteStep(held, tuple(copies)))
    elif steps:  # the result was noted for the first kernel, which only prepares its memory
        steps[-1] = WriteStep(None, (), _base(nodes, held))
        steps.append(WriteStep(result or held))
    else:
        steps.append(WriteStep(result))


def _base(nodes: Mapping[str, Node], name: str | None) -> tuple[str, ...]:
    """What an operator that writes parts of a tensor writes them into: a copy of its argument."""
    node = nodes.get(name or "", {})
    if base_name(node) not in WRITES_INTO:
        return ()
    return tuple(references(node["args"][:1]))


WRITES_INTO = frozenset(words("index_put _unsafe_index_put scatter scatter_add index_add"))


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
        None of one that is none."""
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

    def kernel_text(self, name: str) -> str:
        """The Python of a kernel that the file defines; "" of another."""
        _, _, beginning = self._text.partition(f"\ndef {name}(")
        return beginning.partition("\n'''")[0]

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
