"""Calls of compiled graphs, and of functions that an extension's module brings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..writer import problem
from . import launch, subjects
from . import settled as calls_settled
from .arguments import Item, Traced, sign

# A library of more bytes is known by its size alone.
LARGEST_HASHED = 64 << 20
# What a C++ function is to Python, by the binding that made it.
FUNCTIONS = ("builtin_function_or_method", "instancemethod", "nb_func", "pybind11_function")


def counted(
    held: subjects.Subject,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    given: dict[str, Any],
) -> Any:
    """Call ``original`` and count it; what it raises passes through uncounted."""
    try:
        entry = _entry(held, args, given)
    except Exception as error:
        entry = held.others
        subjects.failed(f"a call of {held.name}", error)
    result = original(*args, **given)
    if entry is not None:
        subjects.add(held, entry)
    return result


def _entry(
    held: subjects.Subject, args: Any, given: dict[str, Any], always: bool = False
) -> subjects.Entry | None:
    """The call's entry, described from its arguments before they change; None in a compiler."""
    if held.quick and not given:
        found = launch.again(held, args, always)
        if found is not None:
            return found
    key = (tuple(map(sign, args)), tuple((k, sign(v)) for k, v in given.items()))
    found = held.seen.get(key)
    if found is not None:
        if not given:
            launch.learn(held, args, found)
        return found
    if subjects._tuning[0]:
        return None
    try:
        return held.entry(key, _items(args, given))
    except Traced:
        return None


def _items(args: tuple[Any, ...], given: dict[str, Any]) -> Iterator[Item]:
    for at, value in enumerate(args):
        yield f"arg{at}", None, value
    for name, value in given.items():
        yield name, None, value


# -- graphs ---------------------------------------------------------------------------------


def attach_graphs(module: Any) -> None:
    """``torch._inductor.output_code``: a compiled graph is an object that is called."""
    kind = module.CompiledFxGraph
    original = kind.__call__

    @functools.wraps(original)
    def call(self: Any, inputs: Any) -> Any:
        held = _graph(self)
        if held is None:
            return original(self, inputs)
        return _with_inputs(held, functools.partial(original, self), inputs)

    kind.__call__ = call


def _with_inputs(held: subjects.Subject, original: Callable[..., Any], inputs: Any) -> Any:
    """Count a call that is given its inputs in one list, which it may empty."""
    settled = held.settled
    if settled is not None and settled.begin():
        return settled.run(original, inputs)
    try:
        # One whose launches are passed over at times is looked at whole the other times.
        entry = _entry(held, inputs, {}, bool(held.launched))
    except Exception as error:
        entry = held.others
        subjects.failed("a graph's call", error)
    if held.fixed is None and entry is not None and entry[0] >= calls_settled.SURE:
        held.fixed = calls_settled.fixed(held.facts["subject"])
    result = calls_settled.looked_at(held, entry, original, inputs)
    if entry is not None:
        subjects.add(held, entry)
    return result


def _graph(compiled: Any) -> subjects.Subject | None:
    """What a compiled graph is known by: the path of its code."""
    try:
        return _by_key(compiled.cache_key)
    except Exception as error:
        subjects.failed("a graph's call", error)
        return None


@functools.cache
def _by_key(key: str) -> subjects.Subject:
    from torch._inductor.codecache import get_path

    path = str(get_path(key, "py")[2])
    return subjects.subject("graph", "", path, {})


def watched_graph(run: Callable[..., Any], compiled: Any) -> Callable[..., Any]:
    """``run`` counted as calls of a compiled graph that it stands for; the list stays the list."""
    held = _graph(compiled) if getattr(compiled, "cache_key", None) else None
    if held is None:
        return run

    @functools.wraps(run)
    def call(inputs: Any, *rest: Any) -> Any:
        return _with_inputs(held, lambda given: run(given, *rest), inputs)

    return call


def attach_compilation(module: Any) -> None:
    """``torch._inductor.graph``: what is launched while a graph is compiled is a comparison."""
    for name in ("run", "codegen", "compile_to_module", "compile_to_fn"):
        subjects.as_benchmark(module.GraphLowering, name)


def attach_benchmarks(module: Any) -> None:
    """``torch._inductor.runtime.benchmarking``: Inductor's own stopwatches."""
    for owner in list(vars(module).values()):
        if isinstance(owner, type) and owner.__module__ == module.__name__:
            for name in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph", "benchmark_many_gpu"):
                subjects.as_benchmark(owner, name)


# -- extensions -----------------------------------------------------------------------------


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
            setattr(module, attribute, _watched(f"{name}.{attribute}", value, facts))
        except Exception as error:
            problem(f"the extension's function {attribute}", error)


def library(path: str) -> dict[str, Any]:
    """What a library is known by when its functions are called again: path, size, digest."""
    import hashlib
    import os

    known: dict[str, Any] = {"path": os.path.abspath(path), "size": None, "sha256": None}
    try:
        known["size"] = os.path.getsize(path)
        if known["size"] <= LARGEST_HASHED:
            with open(path, "rb") as file:
                known["sha256"] = hashlib.sha256(file.read()).hexdigest()
    except OSError:
        pass  # it was loaded, and is gone already
    return known


def _watched(name: str, original: Callable[..., Any], facts: dict[str, Any]) -> Callable[..., Any]:
    held = subjects.subject("extension", name, name, facts)

    @functools.wraps(original)
    def call(*args: Any, **given: Any) -> Any:
        return counted(held, original, args, given)

    # Dynamo would look into this function, and cannot into the one that it stands for.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


# -- kernels of CUDA C++, on the emulated device ------------------------------------------------

_told: list[Any] = []


def listen_to_launches() -> None:
    """Let extensions that run on the host say what they launch: name, grid, block, shared bytes.

    On a GPU nobody sees these launches: they go from the extension to the CUDA runtime.
    """
    import ctypes
    import os

    def told(name: bytes, numbers: Any) -> None:
        launched(name.decode("utf-8", "replace"), [int(numbers[n]) for n in range(7)])

    kind = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint))
    _told.append(kind(told))
    address = ctypes.cast(_told[-1], ctypes.c_void_p).value
    os.environ["PTXVIEW_LAUNCHES"] = f"{os.getpid()}:{address}"


def launched(name: str, numbers: list[int]) -> None:
    """A launch of CUDA C++ on the emulated device: grid, block and bytes of shared memory."""
    try:
        _launched(name, numbers)
    except Exception as error:
        subjects.failed("a launch of CUDA C++", error)


def _launched(name: str, numbers: list[int]) -> None:
    block, shared = numbers[3:6], numbers[6]
    facts = {"block": block, "shared_bytes": shared, "symbol": name}
    held = subjects.subject("cuda", name, f"{name} {block} {shared}", facts)
    grid = tuple(numbers[:3])
    entry = held.seen.get(grid) or held.entry(grid, (), grid)
    subjects.add(held, entry)
