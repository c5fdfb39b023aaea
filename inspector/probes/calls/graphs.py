"""Calls of compiled graphs, and of functions that an extension's module brings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from .. import private_names
from ..hooks import unseen
from ..writer import problem
from . import launch, subjects
from . import settled as calls_settled
from .arguments import Item, Traced, sign

# A library of more bytes is known by its size alone.
LARGEST_HASHED = 64 << 20
# What a C++ function is to Python, by the binding that made it.
FUNCTIONS = ("builtin_function_or_method", "instancemethod", "nb_func", "pybind11_function")


def counted(
    subject: subjects.Subject,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call ``original`` and count it; what it raises passes through uncounted."""
    try:
        entry = _entry(subject, args, kwargs)
    except Exception as error:
        entry = subject.others
        subjects.failed(f"a call of {subject.name}", error)
    result = original(*args, **kwargs)
    if entry is not None:
        subjects.add(subject, entry)
    return result


def _entry(subject: subjects.Subject, args: Any, kwargs: dict[str, Any]) -> subjects.Entry | None:
    """The call's entry, described before its arguments change; None if a compiler is calling."""
    if subject.quick and not kwargs:
        entry = launch.again(subject, args)
        if entry is not None:
            return entry
    key = (tuple(map(sign, args)), tuple((k, sign(v)) for k, v in kwargs.items()))
    entry = subject.seen.get(key)
    if entry is not None:
        if not kwargs:
            launch.learn(subject, args, entry)
        return entry
    if subjects._tuning[0]:
        return None
    try:
        return subject.entry(key, _items(args, kwargs))
    except Traced:
        return None


def _items(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Item]:
    for index, value in enumerate(args):
        yield f"arg{index}", None, value
    for name, value in kwargs.items():
        yield name, None, value


# -- graphs ---------------------------------------------------------------------------------


def attach_graphs(module: Any) -> None:
    """``torch._inductor.output_code``: a compiled graph is an object that is called."""
    private_names.wrap("torch._inductor.output_code:CompiledFxGraph.__call__", _called)


def _called(original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, inputs: Any) -> Any:
        subject = _graph(self)
        try:
            if subject is None:
                return original(self, inputs)
            return _with_inputs(subject, functools.partial(original, self), inputs)
        except BaseException as error:
            unseen(error)
            raise

    return call


def _with_inputs(subject: subjects.Subject, original: Callable[..., Any], inputs: Any) -> Any:
    """Count a call that is given its inputs in one list, which it may empty."""
    settled = subject.settled
    if settled is not None and settled.begin():
        return settled.run(original, inputs)
    try:
        entry = _entry(subject, inputs, {})
    except Exception as error:
        entry = subject.others
        subjects.failed("a graph's call", error)
    if subject.fixed is None and entry is not None and entry[0] >= calls_settled.SURE:
        subject.fixed = calls_settled.fixed(subject.facts["subject"])
    result = calls_settled.looked_at(subject, entry, original, inputs)
    if entry is not None:
        subjects.add(subject, entry)
    return result


def _graph(compiled: Any) -> subjects.Subject | None:
    """The subject of a compiled graph, which the path of its code identifies."""
    try:
        return _by_key(compiled.cache_key)
    except Exception as error:
        subjects.failed("a graph's call", error)
        return None


@functools.cache
def _by_key(key: str) -> subjects.Subject | None:
    get_path = private_names.get("torch._inductor.codecache:get_path")
    if get_path is None:
        return None
    path = str(get_path(key, "py")[2])
    return subjects.subject("graph", "", path, {})


def watched_graph(run: Callable[..., Any], compiled: Any) -> Callable[..., Any]:
    """``run`` wrapped so that its calls count as calls of ``compiled``; inputs stay one list."""
    subject = _graph(compiled) if getattr(compiled, "cache_key", None) else None
    if subject is None:
        return run

    @functools.wraps(run)
    def call(inputs: Any, *rest: Any) -> Any:
        try:
            return _with_inputs(subject, lambda boxed: run(boxed, *rest), inputs)
        except BaseException as error:
            unseen(error)
            raise

    return call


def attach_compilation(module: Any) -> None:
    """``torch._inductor.graph``: what is launched while a graph is compiled is a comparison."""
    for name in ("run", "codegen", "compile_to_module"):
        subjects.as_benchmark(f"torch._inductor.graph:GraphLowering.{name}")


def attach_benchmarks(module: Any) -> None:
    """``torch._inductor.runtime.benchmarking``: Inductor's own stopwatches."""
    for owner in list(vars(module).values()):
        if isinstance(owner, type) and owner.__module__ == module.__name__:
            for name in ("benchmark_gpu", "benchmark_gpu_with_cuda_graph", "benchmark_many_gpu"):
                if callable(original := vars(owner).get(name)):
                    setattr(owner, name, subjects.comparing(original))


# -- extensions -----------------------------------------------------------------------------


RETURNED: list[Callable[[], None]] = []
"""What is asked when an extension's function has returned: the emulated device raises there what
the program did not ask CUDA for."""


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
    """What identifies a library when its functions are called again: path, size and SHA-256."""
    import hashlib
    import os

    facts: dict[str, Any] = {"path": os.path.abspath(path), "size": None, "sha256": None}
    try:
        facts["size"] = os.path.getsize(path)
        if facts["size"] <= LARGEST_HASHED:
            with open(path, "rb") as file:
                facts["sha256"] = hashlib.sha256(file.read()).hexdigest()
    except OSError:
        pass  # it was loaded, and is gone already
    return facts


def _watched(name: str, original: Callable[..., Any], facts: dict[str, Any]) -> Callable[..., Any]:
    subject = subjects.subject("extension", name, name, facts)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = counted(subject, original, args, kwargs)
            for check in RETURNED:
                check()
            return result
        except BaseException as error:
            unseen(error)
            raise

    # Dynamo would look into this function, and cannot into the one that it stands for.
    call.__dict__["_torchdynamo_disable"] = True
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
    subject = subjects.subject("cuda", name, f"{name} {block} {shared}", facts)
    grid = tuple(numbers[:3])
    entry = subject.seen.get(grid) or subject.entry(grid, (), grid)
    subjects.add(subject, entry)
