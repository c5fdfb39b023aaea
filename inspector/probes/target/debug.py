"""``breakpoint()`` inside a kernel: stops in one program, with that program's real values."""

from __future__ import annotations

import ast
import os
import re
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import current
from .scoped import Patches

_program: tuple[int, int, int] = (0, 0, 0)


def at(program: tuple[int, int, int]) -> None:
    """The program that runs next."""
    global _program
    _program = program


@contextmanager
def watching(fn: Any) -> Iterator[None]:
    """While it lasts, ``breakpoint()`` stops in the chosen program of the debugged kernel alone.

    A kernel on a GPU stops nowhere, and neither do the others here.
    """
    stops = wanted(fn)
    program = current().debug_program
    original = sys.breakpointhook

    def hook(*args: Any, **given: Any) -> Any:
        if not stops or _program != program:
            return None
        if original is sys.__breakpointhook__ and not os.environ.get("PYTHONBREAKPOINT"):
            import pdb

            # The kernel's own frame, where the default hook would stop in this one.
            return pdb.Pdb().set_trace(sys._getframe(1))
        return original(*args, **given)

    with Patches([(sys, "breakpointhook", hook)]):
        yield


def wanted(fn: Any) -> bool:
    """Whether this is the kernel that the run debugs."""
    asked = current().debug_kernel
    return asked is not None and asked in (getattr(fn, "__name__", ""), fn.fn.__name__)


# What a kernel says or asks that the compiled code leaves out, or says less readably.
_SPEAKING = {"device_assert", "device_print", "print", "breakpoint"}
_ASSERTION = re.compile(r"^[ \t]*+assert\b", re.MULTILINE)
_speaking: dict[Any, bool] = {}


def speaks(fn: Any) -> bool:
    """Whether a kernel, or a function that it calls, prints, asserts or stops.

    Such a kernel is interpreted: assertions are compiled for debugging alone, and ``breakpoint()``
    never is.
    """
    function = fn.fn
    if function not in _speaking:
        _speaking[function] = False  # where it calls itself
        _speaking[function] = _speaks(fn)
    return _speaking[function]


def _speaks(fn: Any) -> bool:
    from triton.runtime.jit import JITFunction

    code = getattr(fn.fn, "__code__", None)
    if code is None:
        return False
    if _SPEAKING & set(code.co_names) or _ASSERTION.search(str(getattr(fn, "src", ""))):
        return True
    space = fn.fn.__globals__
    modules = [v for v in map(space.get, code.co_names) if isinstance(v, types.ModuleType)]
    called = [space.get(name) for name in code.co_names]
    for module in modules:
        if not module.__name__.startswith("triton."):
            called += [vars(module).get(name) for name in code.co_names]
    return any(isinstance(other, JITFunction) and speaks(other) for other in called)


class _NoBreakpoints(ast.NodeTransformer):
    """The compiler knows no ``breakpoint()``: the statement means nothing on the target."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "breakpoint"
        ):
            return ast.copy_location(ast.Pass(), node)
        return node


def attach(jit: Any) -> None:
    """Let the debugged run's kernels compile although they hold breakpoints."""
    if current().debug_kernel is None:
        return
    owner = getattr(jit, "JITCallable", jit.JITFunction)
    original = owner.parse

    def parse(self: Any) -> ast.AST:
        return ast.fix_missing_locations(_NoBreakpoints().visit(original(self)))

    owner.parse = parse
