"""The random numbers of Inductor's kernels as operators, each of which rounds by itself."""

import math
from collections.abc import Mapping, Sequence

from inspector.verify.graph_nodes import Node, called
from inspector.verify.launches import GraphLaunch

RANDOM = "prims.inductor_random.default"
PACKED = "prims.inductor_random.packed"
PACKED_FUNCTIONS = ("rand4x", "randn4x")
"""Functions of Inductor's that give four elements the four words of one offset."""


def random_nodes(launch: GraphLaunch, nodes: Mapping[str, Node]) -> dict[str, Sequence[Node]]:
    """By the names of a graph's random numbers the nodes that compute them as a kernel does."""
    random = [node for node in nodes.values() if node.get("target") == RANDOM]
    if not random:
        return {}
    packed = launch.code.calls(launch.kernel.name, PACKED_FUNCTIONS)
    return {node["name"]: _nodes(node, packed) for node in random}


def _nodes(node: Node, packed: bool) -> Sequence[Node]:
    """Normal numbers by Box and Muller of two uniform ones; packed, every other is of the sine."""
    target = PACKED if packed else RANDOM
    name = node["name"]
    size, seed, mode = node["args"]
    if mode == "rand":
        return [{**node, "target": target}]
    nodes = []

    def step(kind: str, operator: str, *arguments: object) -> dict[str, str]:
        nodes.append(called(f"{name}_{kind}", operator, list(arguments), "float32"))
        return {"node": f"{name}_{kind}"}

    logarithm = step("log", "aten.log.default", step("first", target, size, seed, "first"))
    radius = step("radius", "aten.sqrt.default", step("square", "aten.mul.Scalar", logarithm, -2.0))
    turn = step("second", target, size, seed, "second")
    angle = step("angle", "aten.mul.Scalar", turn, 2.0 * math.pi)
    wave = step("cos", "aten.cos.default", angle)
    if packed:
        sine = step("sin", "aten.sin.default", angle)
        is_odd = step("odd", target, size, seed, "odd")
        wave = step("wave", "aten.where.self", is_odd, sine, wave)
    return [*nodes, called(name, "aten.mul.Tensor", [radius, wave], "float32")]
