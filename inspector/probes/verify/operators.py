"""Nodes of a recorded graph computed by torch on the CPU, in the graph's dtypes or in fp64.

Only operators of torch's own namespaces are called, and Python's arithmetic on sizes. The names
are those of a recording, which may be a stranger's: none that opens a file is called.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import torch

from . import random_numbers

NAMESPACES = ("aten", "prims")
ARITHMETIC = {
    **{
        f"{module}.{name}": getattr(operator, name)
        for module in ("operator", "_operator")
        for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "pow", "getitem", "truediv")
    },
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt")},
}
WIDE = {True: torch.complex128, False: torch.float64}
"""The dtype in which complex and other floating-point values are computed again."""
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
OPERATOR_TYPES = ("OpOverload", "OpOverloadPacket")
FILE_OPERATORS = ("from_file", "save")
"""Operators of ATen's that are given a file's name, by their schemas in torch 2.13."""
Node = Mapping[str, Any]
Change = Callable[[Node, Any, Sequence[Any], Mapping[str, Any]], Any]
"""Takes a node, its value and what it was called with; returns the value to go on with."""


class NotComputable(Exception):
    """A node cannot be computed here: the sentence says why."""


def function_of(target: str) -> Callable[..., Any]:
    """The operator of a node. Raises NotComputable."""
    if target in ARITHMETIC:
        return ARITHMETIC[target]
    if target in random_numbers.FUNCTIONS:
        return random_numbers.FUNCTIONS[target]
    namespace, _, path = target.partition(".")
    if namespace not in NAMESPACES:
        raise NotComputable(f"{target} is no operator of ATen's")
    value = _attribute(namespace, path)
    if value is None and namespace == "prims":
        # Registers Inductor's own operators. It takes as long as torch, and most graphs have none.
        import_module("torch._inductor.inductor_prims")
        value = _attribute(namespace, path)
    if type(value).__name__ not in OPERATOR_TYPES:
        raise NotComputable(f"this torch has no operator {target}")
    if path.partition(".")[0] in FILE_OPERATORS:
        raise NotComputable(f"{target} opens a file")
    function: Callable[..., Any] = value
    return function


def _attribute(namespace: str, path: str) -> Any:
    """What ``torch.ops`` has of this name, or None."""
    value: Any = getattr(torch.ops, namespace)
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def widened(value: Any) -> Any:
    """A tensor of floating-point numbers in fp64 or complex128; anything else as it is."""
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.to(WIDE[value.is_complex()])
    return value


class Evaluator:
    """Computes nodes in the order of their graph from the values of some.

    Args:
        nodes: the nodes in order, as ``compiles.node_arguments`` describes them.
        values: known values by the names of nodes.
        wide: whether floating-point numbers are computed in fp64, also where a node asks for
            another dtype.
        change: replaces the value of each computed node, if given.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        values: Mapping[str, Any],
        wide: bool,
        change: Change | None = None,
    ) -> None:
        self.wide = wide
        self.change = change
        self.single = True
        self.values = {name: widened(v) if wide else v for name, v in values.items()}
        if any(_changes_in_place(node) for node in nodes):
            self.values = {name: _copy(value) for name, value in self.values.items()}
        for node in nodes:
            if node["name"] not in self.values:
                self.values[node["name"]] = self._computed(node)

    def _computed(self, node: Node) -> Any:
        target = node["target"]
        if node["op"] != "call_function":
            raise NotComputable(f"{node['name']} ({node['op']}) has no recorded value")
        self.single = node.get("dtype") not in ("float64", "complex128")
        args = self.value(node.get("args", []))
        kwargs = {name: self.value(item) for name, item in node.get("kwargs", {}).items()}
        if self.wide and target == "aten.view.dtype":
            raise NotComputable(f"{node['name']} reads the bits of a number")
        try:
            value = function_of(target)(*args, **kwargs)
        except NotComputable:
            raise
        except Exception as error:
            text = next(iter(str(error).splitlines()), type(error).__name__)
            raise NotComputable(f"{target} cannot be computed on the CPU: {text}") from error
        if value is None and _changes_in_place(node):  # aten._foreach_add_
            value = args[0]
        if self.wide:
            value = widened(_rounded(value, node.get("dtype")))
        if self.change is None:
            return value
        changed = self.change(node, value, args, kwargs)
        if _changes_in_place(node) and isinstance(args[0], torch.Tensor):
            return args[0].copy_(changed)  # its views have the error, too
        return changed

    def value(self, item: Any) -> Any:
        """An argument, from JSON. Raises NotComputable."""
        if isinstance(item, list):
            return [self.value(part) for part in item]
        if isinstance(item, float) and self.wide and self.single:
            return _as_single(item)
        if not isinstance(item, dict):
            return item
        ((kind, content),) = item.items()
        return SPECIAL[kind](self, content)

    def dtype(self, name: str) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, name)
        if self.wide and (dtype.is_floating_point or dtype.is_complex):
            return WIDE[dtype.is_complex]
        return dtype


def _rounded(value: Any, dtype: str | None) -> Any:
    """A value of a dtype of eight bits with the rounding to it, which kernels never leave out."""
    return value.to(getattr(torch, dtype)) if dtype in EIGHT_BITS else value


def _changes_in_place(node: Node) -> bool:
    """Whether an operator changes an argument: ``aten.copy_.default``."""
    return node["target"].rpartition(".")[0].endswith("_")


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def _as_single(number: float) -> float:
    """A constant as kernels and operators have it: in fp32, which holds fp16 and bf16."""
    return float(torch.tensor(number, dtype=torch.float32))


def _unknown(_: Evaluator, kind: str) -> Any:
    raise NotComputable(f"an argument of type {kind} was not recorded")


SPECIAL: dict[str, Callable[[Evaluator, Any], Any]] = {
    "node": lambda evaluator, name: evaluator.values[name],
    "float": lambda _, text: float(text),
    "slice": lambda evaluator, parts: slice(*map(evaluator.value, parts)),
    "dtype": lambda evaluator, name: evaluator.dtype(name),
    "device": lambda _, name: torch.device("cpu"),
    "layout": lambda _, name: getattr(torch, name),
    "memory_format": lambda _, name: getattr(torch, name),
    "unknown": _unknown,
}
"""Objects of one key that are an argument of a kind that JSON lacks."""
