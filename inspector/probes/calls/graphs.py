"""Calls of compiled graphs, and of functions that an extension's module brings."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .. import private_names
from ..driver import marks
from ..hooks import CallCounter, observed
from ..writer import problem
from . import call_counts
from .call_counts import CompilerTracing, sign

Token = tuple[call_counts.CallTarget, CallCounter | None] | None

# A library of more bytes is known by its size alone.
MAX_HASHED_BYTES = 64 << 20
_paths: dict[str, str] = {}  # of graphs' code, by torch's key
# What a C++ function is to Python, by the binding that made it.
FUNCTIONS = ("builtin_function_or_method", "instancemethod", "nb_func", "pybind11_function")


def _find(
    target: call_counts.CallTarget, key: Any, args: Any, kwargs: dict[str, Any]
) -> CallCounter | None:
    """The call's counter, described before its arguments change; None if a compiler is calling."""
    counter = target.lookup(key)
    if counter is not None or call_counts.is_tuning():
        return counter
    try:
        named = [(f"arg{n}", value) for n, value in enumerate(args)] + list(kwargs.items())
        return target.add_call(key, [(name, None, value) for name, value in named])
    except CompilerTracing:
        return None


def _ended(token: Token, result: Any, error: BaseException | None) -> None:
    """Count a call that did not raise, and record one that did."""
    if token is None:
        return
    target, counter = token
    if counter is None:
        return  # a compiler's call
    if error is None:
        call_counts.add(target, counter)
    else:
        target.failed(counter, error)


def attach_graphs(module: Any) -> None:
    """``torch._inductor.output_code``: a compiled graph is an object that is called."""

    def on_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Token:
        return _graph_begins(args[0], args[1] if len(args) > 1 else kwargs["inputs"])

    graph = "torch._inductor.output_code:CompiledFxGraph.__call__"
    private_names.wrap(graph, on_call, _ended)


class _Graph:
    """A compiled graph that was called in this recording, and where its calls have their sizes."""

    __slots__ = ("epoch", "path", "sizes", "target")

    def __init__(self, path: str, inputs: Any) -> None:
        self.path = path
        self.epoch = call_counts.epoch
        self.target = call_counts.call_target("graph", "", path, {})
        self.sizes = [n for n, value in enumerate(inputs) if isinstance(value, int)]


_graphs: dict[str, _Graph] = {}  # by torch's key


def _graph_begins(compiled: Any, inputs: Any) -> Token:
    key: Any = getattr(compiled, "cache_key", None)
    graph = _graphs.get(key)
    if graph is None or graph.epoch != call_counts.epoch:
        path = _path(key)
        if not path:
            return None
        graph = _graphs[key] = _Graph(path, inputs)
    marks.graph_called(key, graph.path)
    # By its sizes alone, once enough calls were described.
    sizes = tuple([inputs[n] for n in graph.sizes if isinstance(inputs[n], int)])
    return graph.target, _find(graph.target, sizes, inputs, {})


def _path(key: Any) -> str:
    """The file of a graph's code; empty if torch has none."""
    if key and key not in _paths:
        get_path = private_names.get("torch._inductor.codecache:get_path")
        _paths[key] = "" if get_path is None else str(get_path(key, "py")[2])
    return _paths.get(key, "")


def watched_graph(run: Callable[..., Any], compiled: Any) -> Any:
    """``run`` wrapped so that its calls count as calls of ``compiled``; inputs are one list."""
    return observed(run, lambda args, kwargs: _graph_begins(compiled, args[0]), _ended)


def attach_benchmarks(module: Any) -> None:
    """``torch._inductor.runtime.benchmarking``: Inductor's own stopwatches."""
    for owner in list(vars(module).values()):
        if isinstance(owner, type) and owner.__module__ == module.__name__:
            for name in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph", "benchmark_many_gpu"):
                if callable(original := vars(owner).get(name)):
                    setattr(owner, name, call_counts.comparing(original))


EMULATED: list[Callable[[Any], Any]] = []
"""What an extension's functions are wrapped in first: the emulated device raises as they return
what the program did not ask CUDA for."""


def watch_module(module: Any) -> None:
    """Count calls of a just built module's functions: each is replaced by one that looks alike."""
    name = getattr(module, "__name__", None)
    if not isinstance(name, str) or not hasattr(module, "__file__"):
        return
    facts = {"library": library(str(module.__file__))}
    for attribute, value in list(vars(module).items()):
        if attribute.startswith("__") or type(value).__name__ not in FUNCTIONS:
            continue
        try:
            setattr(module, attribute, counted_function(f"{name}.{attribute}", value, facts))
        except Exception as error:
            problem(f"the extension's function {attribute}", error)


def library(path: str) -> dict[str, Any]:
    """What identifies a library when its functions are called again: path, size and SHA-256."""
    import hashlib
    import os

    facts: dict[str, Any] = {"path": os.path.abspath(path), "size": None, "sha256": None}
    with suppress(OSError):  # it was loaded, and may be gone already
        facts["size"] = os.path.getsize(path)
        if facts["size"] <= MAX_HASHED_BYTES:
            with open(path, "rb") as file:
                facts["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return facts


def counted_function(name: str, function: Callable[..., Any], facts: dict[str, Any]) -> Any:
    def on_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Token:
        target = call_counts.call_target("extension", name, name, facts)
        return target, _find(target, sign((*args, *kwargs.items())), args, kwargs)

    for emulated in EMULATED:
        function = emulated(function)
    call = observed(function, on_call, _ended, "counting calls of extensions")
    # Dynamo would trace this function, and cannot trace the one that it replaces.
    vars(call)["_torchdynamo_disable"] = True
    return call


def _launching(args: Any, kwargs: dict[str, Any]) -> Token:
    call = args[0]
    facts = {"block": list(call.block), "shared_bytes": call.shared, "symbol": call.name}
    if call.cluster is not None:
        facts["cluster"] = list(call.cluster)
    identity = f"{call.name} {facts['block']} {call.shared} {call.cluster}"
    target = call_counts.call_target("cuda", call.name, identity, facts)
    counter = target.lookup(call.grid)
    if counter is None:
        parameters = [value.hex() for value in call.arguments]
        counter = target.add_call(call.grid, (), call.grid, parameters=parameters)
    return target, counter


def counted_launch(launch: Callable[[Any], Any]) -> Any:
    """``launch`` wrapped so that it counts launches of CUDA C++ on the emulated device.

    It takes one with ``name``, ``grid``, ``block``, ``cluster``, ``shared`` bytes, and the bytes of
    each of its ``arguments``.
    """
    return observed(launch, _launching, _ended, "launches of CUDA C++")
