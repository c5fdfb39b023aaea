"""What a node of a graph is called with, as JSON, so that its operator can be computed again.

Another node is ``{"node": name}``; dtypes, devices, layouts and memory formats are objects of one
key; a value of any other kind is ``{"unknown": type}``, and the node cannot be computed.
"""

import math
import sys
from typing import Any

_KINDS = {"dtype": "dtype", "layout": "layout", "memory_format": "memory_format"}
"""Types of torch whose values are named by the last word of their text, and their keys."""


def described(node: Any) -> dict[str, Any]:
    """The arguments of a node, and dtype and shape of its value; None where they are unknown."""
    value = node.meta.get("val")
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    return {
        "args": encoded(node.args),
        "kwargs": {str(name): encoded(item) for name, item in node.kwargs.items()},
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "shape": None if shape is None else [n if type(n) is int else str(n) for n in shape],
    }


def encoded(value: Any) -> Any:
    """An argument as JSON."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    if isinstance(value, slice):
        return {"slice": [encoded(value.start), encoded(value.stop), encoded(value.step)]}
    fx = sys.modules.get("torch.fx")
    if fx is not None and isinstance(value, fx.Node):
        return {"node": str(value.name)}
    kind = type(value).__name__
    if kind == "device":
        return {"device": str(value)}
    if kind in _KINDS:
        return {_KINDS[kind]: str(value).removeprefix("torch.")}
    return {"unknown": kind}
