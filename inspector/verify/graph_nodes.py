"""A graph's nodes and buffers as recorded: which node a buffer holds, what a node is made from."""

import ast
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Graph
from inspector.recording.decoding import as_map

Node = Mapping[str, Any]


class Unverifiable(Exception):
    """A kernel cannot be compared: the sentence says why."""


class GraphNodes(Struct, frozen=True):
    """Nodes by name, in the order of their graph.

    ``node_of_buffer`` is the node whose value a buffer holds; a buffer without one holds a part of
    a result. ``written_nodes`` are, by the name of an input that the graph changes, the nodes whose
    values it gets, in order.
    """

    nodes: Mapping[str, Node]
    node_of_buffer: Mapping[str, str]
    written_nodes: Mapping[str, Sequence[str]]
    partial_buffers: Collection[str]
    node_of_input: Mapping[str, str]

    def node(self, name: str) -> str | None:
        """The node whose value a buffer or an input of this name holds."""
        if (node := self.node_of_buffer.get(name)) is not None:
            return node
        return self.node_of_input.get(name)

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
    by_name = {node["name"]: node for node in nodes}
    inputs = [node for node in nodes if node.get("op") in ("placeholder", "get_attr")]
    node_of_input = {str(node["target"]): node["name"] for node in inputs}
    node_of_input |= {node["name"]: node["name"] for node in inputs}
    node_of_buffer: dict[str, str] = {}
    written: dict[str, list[str]] = defaultdict(list)
    partial: set[str] = set()
    for operation in (o for s in _list(content, "scheduled") for o in _list(s, "operations")):
        result = operation.get("result") or _only_sink(by_name, operation.get("origins"))
        outputs = _list(operation, "outputs")
        for output in outputs:
            name = output.get("name")
            if not isinstance(name, str):
                continue
            if isinstance(result, str) and result in by_name:
                node_of_buffer[name] = result
                for changed in output.get("mutates") or ():
                    written[str(changed)].append(result)
            else:
                partial.add(name)
    return GraphNodes(by_name, node_of_buffer, written, partial, node_of_input)


def _list(content: object, name: str) -> list[dict[str, Any]]:
    value = as_map(content).get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _only_sink(nodes: Mapping[str, Node], origins: object) -> str | None:
    """The one of an operation's nodes that none of its others uses; None of several."""
    names = [n for n in origins if n in nodes] if isinstance(origins, list) else []
    used = {name for n in names for name in references(nodes[n].get("args"))}
    sinks = [name for name in names if name not in used]
    return sinks[0] if len(sinks) == 1 else None


def launch_arguments(line: str) -> list[str | None]:
    """The buffer of each argument of ``kernel.run(buf0, reinterpret_tensor(buf1, …), 8, …)``."""
    try:
        statement = ast.parse(line.strip()).body[0]
    except (SyntaxError, IndexError, ValueError, RecursionError, MemoryError):
        return []
    call = statement.value if isinstance(statement, ast.Expr) else None
    return [_base_name(argument) for argument in call.args] if isinstance(call, ast.Call) else []


def _base_name(expression: ast.expr) -> str | None:
    while isinstance(expression, ast.Call) and expression.args:
        expression = expression.args[0]
    return expression.id if isinstance(expression, ast.Name) else None
