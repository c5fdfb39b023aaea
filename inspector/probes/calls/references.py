"""References that a program names for its Triton kernels, as the operators that they call.

``inspector.reference(kernel, function)`` notes both. Beneath ``ptxview verify`` the function is
called with clones of a launch's tensors, and the operators of ATen's that it calls are recorded as
those of a compiled graph are, so that they are computed again and compared in the same way.
"""

import inspect
import linecache
import sys
from collections.abc import Mapping
from typing import Any

from .. import private_names
from ..compiles import inductor_graphs


def of_kernel(kernel: Any) -> Any:
    """The function that was named for a kernel, or for one of the same source, as a compiled graph
    has its own copy of it; None without one."""
    source = getattr(kernel, "src", "").strip()
    for named, function in reversed(getattr(sys.modules.get("inspector"), "_references", ())):
        while hasattr(named.fn, "run"):  # an autotuner, or heuristics
            named = named.fn
        if named is kernel or (source and getattr(named, "src", "").strip() == source):
            return function
    return None


def operators(function: Any, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Call a reference with clones, and record the operators that it calls.

    Args:
        function: takes those of a kernel's arguments that it has parameters for.
        arguments: the kernel's, by name.

    Returns: ``nodes``, and ``outputs``: the node of each result, by the names of arguments, or in
    their order where the function returns them so; and tensors of its own by their nodes.
    """
    import torch

    make_fx: Any = private_names.get("torch.fx.experimental.proxy_tensor:make_fx")
    table: Any = private_names.get("torch._inductor.decomposition:select_decomp_table")
    tensors = {n: v.detach().clone() for n, v in arguments.items() if isinstance(v, torch.Tensor)}
    names: list[str | None] = []

    def traced(*values: Any) -> list[Any]:
        clones = dict(zip(tensors, values, strict=True))
        with torch.enable_grad():
            result = _called(function, {**arguments, **clones})
        if result is None:  # it has written to its arguments as the kernel does
            result = clones
        if isinstance(result, Mapping):
            names.extend(result)
            return _distinct(result.values())
        results = result if isinstance(result, tuple | list) else (result,)
        names.extend([None] * len(results))
        return _distinct(results)

    module = make_fx(traced, table(), _error_on_data_dependent_ops=False)(*tensors.values())
    nodes = list(module.graph.nodes)
    taken = {node.name for node in nodes}
    for node, name in zip(nodes, tensors, strict=False):  # the inputs are the first nodes
        node.name = name if name not in taken else node.name
    results = [node.name for node in nodes[-1].args[0]]
    own = {n.name: getattr(module, n.target).detach() for n in nodes if n.op == "get_attr"}
    described_nodes = inductor_graphs.described(nodes, with_arguments=True)["nodes"]
    if code := getattr(function, "__code__", None):
        place = [code.co_filename, code.co_firstlineno]
        for node in described_nodes:
            node["line"] = [*place, linecache.getline(*place).strip()]
    return {
        "nodes": described_nodes,
        "inputs": {name: node.name for name, node in zip(tensors, nodes, strict=False)},
        "outputs": results if None in names else dict(zip(names, results, strict=True)),
    }, own


def _called(function: Any, arguments: Mapping[str, Any]) -> Any:
    """What a function returns for those of the arguments that it takes."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return function(**arguments)
    return function(**{name: arguments[name] for name in parameters if name in arguments})


def _distinct(results: Any) -> list[Any]:
    """Results of which none is another one: each has a separate node. Raises TypeError."""
    import torch

    out: list[Any] = []
    for result in results:
        if not isinstance(result, torch.Tensor):
            raise TypeError(f"it returns {type(result).__name__} in place of a tensor")
        out.append(result.clone() if any(result is other for other in out) else result)
    return out
