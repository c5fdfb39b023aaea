"""The operators of a kernel as a function of Python, for a script that stands alone."""

import json
from collections.abc import Mapping
from typing import Any

from inspector.verify.graph_nodes import Node, Unverifiable
from inspector.verify.tasks import Comparison

NAME = "operators"
PLAIN = ("dtype", "layout", "memory_format")


def operator_function(comparison: Comparison) -> str:
    """A function of the kernel's parameters by their names, which returns its outputs by theirs.

    Raises Unverifiable for operators that are no calls of torch, and for values that the kernel
    itself does not read.
    """
    parameters = dict(comparison.parameters)
    missing = [name for name in comparison.inputs if name not in parameters]
    if missing or comparison.unread:
        names = ", ".join([*missing, *comparison.unread])
        raise Unverifiable(f"its operators use {names}, which an earlier kernel reads")
    if comparison.combined:
        raise Unverifiable("it writes parts of a result, which a later kernel completes")
    lines = [f"def {NAME}({', '.join(dict.fromkeys(parameters.values()))}):"]
    lines.append('    """What the kernel is to write, by the graph\'s own operators."""')
    lines += [f"    {node} = {parameter}" for node, parameter in parameters.items()]
    lines += [f"    {name} = {size}" for name, size in comparison.sizes.items()]
    first = next(iter(parameters.values()), None)
    device = f"{first}.device" if first else "torch.device('cuda')"
    lines.append(f"    device = {device}")
    lines += [f"    {node['name']} = {_call(node)}" for node in comparison.nodes]
    outputs = ", ".join(f'"{parameter}": {node}' for parameter, node, _ in comparison.outputs)
    lines.append(f"    return {{{outputs}}}")
    return "\n".join(lines)


def _call(node: Node) -> str:
    """``torch.ops.aten.add.Tensor(x, y)``. Raises Unverifiable."""
    target = str(node["target"])
    args = [_source(item) for item in node.get("args", ())]
    args += [f"{name}={_source(item)}" for name, item in node.get("kwargs", {}).items()]
    if target.endswith("operator.getitem"):
        return f"{args[0]}[{args[1]}]"
    if not target.startswith(("aten.", "prims.")) or "inductor_random" in target:
        raise Unverifiable(f"{target} is no operator that can be written as a call of torch")
    return f"torch.ops.{target}({', '.join(args)})"


def _source(item: Any) -> str:
    """An argument as Python writes it. Raises Unverifiable."""
    if isinstance(item, list):
        return f"[{', '.join(map(_source, item))}]"
    if not isinstance(item, Mapping):
        return json.dumps(item) if isinstance(item, str) else repr(item)
    ((kind, content),) = item.items()
    if kind == "node":
        return str(content)
    if kind in PLAIN:
        return f"torch.{content}"
    if kind == "device":
        return "device"
    if kind == "float":
        return f'float("{content}")'
    raise Unverifiable(f"an argument of type {content} cannot be written as Python")
