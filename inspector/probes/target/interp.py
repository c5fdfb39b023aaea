"""Running a kernel in Triton's interpreter, on the memory of the tensors that it was given.

The interpreter is Triton's own; what is changed in it is changed while a launch runs and put
back when it ends, so that compilation and the user's own TRITON_INTERPRET stay untouched.
"""

from __future__ import annotations

import bdb
import dataclasses
import inspect
import math
from types import SimpleNamespace
from typing import Any

from .. import private_names
from . import (
    bfloat16,
    bounds,
    constructs,
    debug,
    descriptors,
    frames,
    libdevice,
    native,
    work,
)
from .scoped import Patches
from .work import BENCHMARKS, ELEMENTS_A_SECOND, METER, OverBudget

__all__ = ["NotInterpretable", "OverBudget", "run"]

# Functions of the language that the interpreter has its own of.
_REPLACED = (
    "range", "static_range", "reduce", "associative_scan", "static_assert", "static_print",
    "multiple_of", "max_contiguous", "max_constancy",
)  # fmt: skip
# What a kernel's own fault raises, and what its debugger does.
OWN_ERRORS = (
    bounds.IllegalAccess,
    descriptors.InvalidDescriptor,
    constructs.KernelAssertion,
    bdb.BdbQuit,
)


class NotInterpretable(Exception):
    """The interpreter cannot run this kernel; the text says why."""


_functions: dict[Any, Any] = {}
_mended: list[tuple[Any, str, Any]] = []
# What rewritten kernels refer to, by version of Triton.
_LANGUAGE_NAMES = (
    "interpreter_builder",
    "interpreter_semantic",
    "_InterpreterComparison",
    "triton",
)


def _interpreter() -> Any:
    from triton.runtime import interpreter

    return interpreter


def _rewritten(fn: Any) -> Any:
    """The Python function as the interpreter wants it."""
    if fn not in _functions:
        _functions[fn] = constructs.rewritten(_interpreter(), fn)
    return _functions[fn]


class _Launch:
    """The language as the interpreter needs it, for the length of one launch."""

    def __init__(self) -> None:
        self.interpreter = _interpreter()
        private_names.check("target.interp")
        self.original = self.interpreter._patch_lang
        self.patches = Patches()
        self.seen: set[int] = set()
        self.saved: list[tuple[Any, dict[str, Any]]] = []

    def __enter__(self) -> _Launch:
        import triton.language as tl
        from triton.runtime.jit import JITFunction

        if not _mended:
            _mended.extend(bfloat16.patches(self.interpreter))
            _mended.extend(bounds.patches(self.interpreter, _mended))
            _mended.extend(descriptors.patches(self.interpreter))
            _mended.extend(_assertions(self.interpreter))
            _mended.extend(work.patches(self.interpreter, _mended))
        for owner in (tl, tl.core, tl.math, tl.core.tensor, tl.core.dtype,
                      getattr(tl.core, "tensor_descriptor_base", None),
                      getattr(tl.core, "tensor_descriptor", None),
                      getattr(tl.core, "condition", None)):  # fmt: skip
            if owner is not None:
                self.saved.append((owner, dict(vars(owner))))
        self.patches.__enter__()
        for owner, name, value in (*_mended, *libdevice.patches()):
            self.patches.set(owner, name, value)
        self.patches.set(self.interpreter, "_patch_lang", self._once)
        self.patches.set(JITFunction, "__call__", lambda fn, *a, **k: self.call(fn.fn, *a, **k))
        for ops, name in (
            (self.interpreter.ReduceOps, "generic_reduce"),
            (self.interpreter.ScanOps, "generic_scan"),
        ):
            self.patches.set(ops, name, self._combining(getattr(ops, name)))
        self._patch_language(tl)
        return self

    def __exit__(self, *raised: Any) -> None:
        self.patches.__exit__(*raised)
        for owner, before in self.saved:
            for name, value in list(vars(owner).items()):
                if name not in before:
                    delattr(owner, name)
                elif value is not before[name]:
                    setattr(owner, name, before[name])

    def _patch_language(self, language: Any) -> None:
        """Let the functions of triton.language, or of its core, be the interpreter's."""
        self.original(SimpleNamespace(__globals__={"language": language}))
        # Older interpreters convert an array of one element, which NumPy has ceased to do.
        language.tensor.__index__ = lambda tensor: int(tensor.handle.data.reshape(-1)[0])
        # The compiler has checked these, and knows types better.
        language.static_assert = lambda *args, **given: None

    def _once(self, fn: Any) -> Any:
        self.enter_globals(fn)
        return _NoScope()

    def enter_globals(self, fn: Any) -> None:
        """Make ready the module in which the function was written, once for each launch."""
        space = fn.__globals__
        if id(space) in self.seen:
            return
        self.seen.add(id(space))
        import triton.language as tl

        if any(inspect.ismodule(v) and v is tl.core for v in space.values()):
            self._patch_language(tl.core)
        owner = _Namespace(space)
        for name in _LANGUAGE_NAMES:
            if name not in space and hasattr(self.interpreter, name):
                self.patches.set(owner, name, getattr(self.interpreter, name))
        for name, replaced in (*libdevice.names(space), *self._builtins(space)):
            self.patches.set(owner, name, replaced)

    def _builtins(self, space: dict[str, Any]) -> list[tuple[str, Any]]:
        """The language's functions that a module has imported by name, given the interpreter."""
        import triton.language as tl

        given: dict[str, Any] = {}
        if hasattr(self.interpreter, "interpreter_semantic"):  # Triton 3.4 and later
            given["_semantic"] = self.interpreter.interpreter_semantic
        else:
            given["_builder"] = self.interpreter.interpreter_builder

        def supplied(member: Any) -> Any:
            return lambda *args, **named: member(*args, **{**named, **given})

        return [
            (name, getattr(tl, value.__name__) if value.__name__ in _REPLACED else supplied(value))
            for name, value in list(space.items())
            if _is_builtin(value)
            and str(getattr(value, "__module__", "")).startswith("triton.language.")
            and getattr(value, "__module__", "") not in libdevice.MODULES
        ]

    def _combining(self, original: Any) -> Any:
        """A reduction or scan that calls the combining function as it was rewritten."""

        def generic(ops: Any, given: Any) -> Any:
            function = ops.combine_fn
            ops.combine_fn = SimpleNamespace(
                fn=lambda *args: self.call(getattr(function, "fn", function), *args)
            )
            try:
                return original(ops, given)
            finally:
                ops.combine_fn = function

        return generic

    def call(self, fn: Any, *args: Any, **given: Any) -> Any:
        """A kernel's call of another @triton.jit function."""
        self.enter_globals(fn)
        return _rewritten(fn)(*args, **given)


def _is_builtin(value: Any) -> bool:
    """Whether a global of the module, which may be anything, is a function of the language."""
    import triton.language as tl

    try:
        return bool(tl.core.is_builtin(value))
    except Exception:  # it answers questions for its attributes as it likes
        return False


class _NoScope:
    def restore(self) -> None:
        return None


class _Namespace:
    """A function's globals as attributes, so that Patches can put them back."""

    def __init__(self, space: dict[str, Any]) -> None:
        object.__setattr__(self, "__dict__", space)


def _assertions(interpreter: Any) -> list[tuple[Any, str, Any]]:
    """``tl.device_assert`` and ``tl.assume``: what does not hold is the kernel's own fault."""
    import numpy as np

    def create_assert(builder: Any, condition: Any, message: Any, *rest: Any) -> None:
        if not np.all(condition.data):
            raise constructs.KernelAssertion(str(message))

    def create_assume(builder: Any, condition: Any) -> None:
        create_assert(builder, condition, "Assume failed")

    builder = interpreter.InterpreterBuilder
    patches: list[tuple[Any, str, Any]] = [(builder, "create_assert", create_assert)]
    if hasattr(builder, "create_assume"):
        patches.append((builder, "create_assume", create_assume))
    return patches


def run(
    fn: Any,
    grid: tuple[int, int, int],
    named: dict[str, Any],
    seconds: float,
    overflow_checked: bool = False,
) -> None:
    """Run every program of the grid, one after another, within so many seconds' work.

    Raises OverBudget, NotInterpretable or bounds.AbsentValue, and what is the kernel's own fault:
    an assertion, an illegal access, a descriptor that the hardware refuses.
    """
    if getattr(fn, "is_gluon", lambda: False)():
        raise NotInterpretable("it is written in Gluon, which Triton's interpreter does not know")
    function = fn.fn
    if function is None:  # Inductor sends kernels between processes without it
        raise NotInterpretable("its Python is in the process that compiled it")
    constexprs = {p.name for p in fn.params if p.is_constexpr}
    interpreter = _interpreter()
    builder = interpreter.interpreter_builder
    try:
        with _Launch() as launch:
            options = dataclasses.replace(
                builder.options, debug=True, sanitize_overflow=overflow_checked
            )
            launch.patches.set(builder, "options", options)
            launch.enter_globals(function)
            rewritten = _rewritten(function)
            arguments = {
                name: value if name in constexprs else interpreter._implicit_cvt(_on_host(value))
                for name, value in named.items()
            }
            bounds.begin(
                str(getattr(fn, "__name__", function.__name__)),
                grid,
                {name: (value, arguments[name]) for name, value in named.items()},
            )
            constructs.CONSTRUCTS.forget()
            # Time at the debugger's prompt is the user's own.
            METER.begin(math.inf if debug.wanted(fn) else seconds, math.prod(grid))
            builder.set_grid_dim(*grid)
            with debug.watching(fn):
                for x in range(grid[0]):
                    for y in range(grid[1]):
                        for z in range(grid[2]):
                            builder.set_grid_idx(x, y, z)
                            debug.at((x, y, z))
                            bounds.at((x, y, z))
                            rewritten(**arguments)
                            METER.program_done()
    except (OverBudget, bounds.AbsentValue):
        raise
    except OWN_ERRORS as error:
        raise frames.shortened(error) from None
    except Exception as error:  # the compiler took the kernel: what is wrong is the interpreter's
        raise NotInterpretable(_why(error)) from error
    finally:
        BENCHMARKS.used(METER.used / ELEMENTS_A_SECOND)


def _why(error: Exception) -> str:
    """One line: what stopped the interpreter, at which line of the kernel."""
    text = str(error).strip().splitlines()
    first = text[0] if text else type(error).__name__
    if "Did you forget to add" in first or "object has no attribute 'create_" in first:
        first = "Triton's interpreter does not know it"
    elif not isinstance(error, NotImplementedError):
        first = f"{type(error).__name__}: {first}"
    place = frames.of(error)
    return (f"{place}: {first}" if place else first)[:400]


def _on_host(value: Any) -> Any:
    """The same argument over CPU tensors of the same memory."""
    import torch
    from triton.runtime.jit import TensorWrapper

    if isinstance(value, torch.Tensor):
        return native.host(value)
    if isinstance(value, TensorWrapper):
        return TensorWrapper(_on_host(value.base), value.dtype)
    if isinstance(value, tuple):
        made = [_on_host(v) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
    if hasattr(value, "block_shape") and dataclasses.is_dataclass(value):
        described: Any = value
        return dataclasses.replace(described, base=_on_host(described.base))
    return value
