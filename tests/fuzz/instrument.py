"""Counts how often each stretch of our code runs: what an input reached, and how much work it was.

Every function, branch, loop's round and comprehension's round of ``inspector`` gets a counter of
its own when its module is imported; nothing is traced, which would take ten times as long. What
runs in C (a regular expression, a slice) is no work here: patterns have tests of their own, in
``tests/test_patterns.py``.
"""

from __future__ import annotations

import ast
import builtins
import sys
from array import array
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import inspector

MOST = 1 << 16
"""Counters there is room for; ``inspector`` takes about a fifth."""

# How often, in steps: once, twice, thrice, 4 to 7, 8 to 15, 16 to 31, 32 to 127, more.
_STEPS = np.array(
    [0, 1, 2, 4, *[8] * 4, *[16] * 8, *[32] * 16, *[64] * 96, *[128] * 128], dtype=np.uint8
)


class Counters:
    """The counters of all instrumented code. There is one set of them in a process."""

    def __init__(self) -> None:
        self.hits = array("Q", bytes(8 * MOST))
        self.used = 0
        self._view: NDArray[np.uint64] = np.frombuffer(self.hits, dtype=np.uint64)

    def reset(self) -> None:
        """Count from nothing again."""
        self._view[: self.used] = 0

    def work(self) -> int:
        """How often anything ran since the reset."""
        return int(self._view[: self.used].sum())

    def reached(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """What ran, by counter, and in which step of often."""
        hits = self._view[: self.used]
        at = np.flatnonzero(hits)
        return at, _STEPS[np.minimum(hits[at], len(_STEPS) - 1)]

    def one(self) -> int:
        """A counter that nothing has yet."""
        self.used += 1
        return self.used - 1


COUNTERS = Counters()


def _round(n: int) -> bool:
    COUNTERS.hits[n] += 1
    return True


class _Counting(ast.NodeTransformer):
    """Puts a counter at the head of every stretch of a module that may or may not run."""

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            held = node.body
            first = held[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            node.body = [*held[:documented], self._count(first), *held[documented:]]
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.If):
            node.body.insert(0, self._count(node))
            node.orelse.insert(0, self._count(node))
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            node.body.insert(0, self._count(node.body[0]))
        elif isinstance(node, ast.IfExp):
            node.body = self._told(node.body)
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, self._call(node.iter))
        return node

    @staticmethod
    def _count(at: ast.AST) -> ast.stmt:
        statement = ast.parse(f"__hits__[{COUNTERS.one()}] += 1").body[0]
        for node in ast.walk(statement):
            ast.copy_location(node, at)
        return statement

    @staticmethod
    def _call(at: ast.expr) -> ast.expr:
        call = ast.parse(f"__round__({COUNTERS.one()})", mode="eval").body
        for node in ast.walk(call):
            ast.copy_location(node, at)
        return call

    def _told(self, value: ast.expr) -> ast.expr:
        both = ast.BoolOp(op=ast.And(), values=[self._call(value), value])
        return ast.copy_location(both, value)


def instrumented(source: bytes | str, path: str) -> CodeType:
    """The code of a module, with counters."""
    tree = _Counting().visit(ast.parse(source, path))
    code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
    return code


class _Loader(SourceFileLoader):
    """Loads a module from its source, never from a compiled file."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return instrumented(self.get_data(path), path)


class _Finder(MetaPathFinder):
    """Finds what belongs to ``inspector``, to be loaded with counters."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(inspector.__name__ + "."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Give counters to all of ``inspector`` that is imported from now on."""
    for name, value in (("__hits__", COUNTERS.hits), ("__round__", _round)):
        setattr(builtins, name, value)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
