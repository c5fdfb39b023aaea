"""Copies the probes with a call of ``hit.red`` as the first statement of each function."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).parents[2] / "inspector"
ELSEWHERE = ("replay", "cross_compile", "emulator", "bootstrap")
"""Our own processes, the emulated device, and what runs before there is a boundary."""
BOUNDARY = (
    "hooks.observed.call",
    "hooks.observed_often.call",
    "hooks.guarded.call",
    "hooks._call",
    "hooks._failed",
    "writer._quiet.call",
)
"""A fault on their own first line is the boundary failing."""

SHARED = tuple(
    f"calls.triton_launches.{name}" for name in ("parameters_of", "parameters", "_name", "items")
)
"""The emulated device calls these too, for its own launches: there is no boundary around it."""


class Function(NamedTuple):
    """A function of the probes; its place in the list is its number."""

    name: str

    @property
    def writes(self) -> bool:
        """Whether it may meet a full disk."""
        return self.name.startswith("writer.")


class _Instrument(ast.NodeTransformer):
    def __init__(self, module: str, found: list[Function]) -> None:
        self.names, self.found = [module], found

    def _number(self, name: str) -> ast.Expr | None:
        full = ".".join([*self.names, name])
        if full in BOUNDARY or full in SHARED:
            return None
        self.found.append(Function(full))
        statement = ast.parse(f"_red({len(self.found) - 1})").body[0]
        assert isinstance(statement, ast.Expr)
        return statement

    def _inside(self, node: ast.AST, name: str) -> None:
        self.names.append(name)
        self.generic_visit(node)
        self.names.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._inside(node, node.name)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        red = self._number(node.name)
        self._inside(node, node.name)
        at = int(ast.get_docstring(node) is not None)
        at += sum(isinstance(each, ast.Global | ast.Nonlocal) for each in node.body)
        node.body[at:at] = [red] if red else []
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        red = self._number(f"<lambda:{node.lineno}>")
        self._inside(node, "<lambda>")
        if red:
            node.body = ast.BoolOp(ast.Or(), [red.value, node.body])
        return node


def instrument(folder: Path, elsewhere: Sequence[str] = ELSEWHERE) -> list[Function]:
    """Make ``folder/inspector`` with instrumented probes, beside all else as it is.

    Returns the functions by number; those in the folders ``elsewhere`` stay as they are.
    """
    copy = folder / "inspector"
    copy.mkdir(parents=True)
    for each in HOUSE.iterdir():
        if each.name not in ("probes", "__pycache__"):
            (copy / each.name).symlink_to(each)
    shutil.copytree(HOUSE / "probes", copy / "probes", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("hit.py"), copy / "probes" / "_hit.py")
    found: list[Function] = []
    for path in sorted((HOUSE / "probes").rglob("*.py")):
        place = path.relative_to(HOUSE / "probes")
        if place.parts[0] not in elsewhere:
            text = path.read_text()
            tree = _Instrument(".".join(place.with_suffix("").parts), found).visit(ast.parse(text))
            at = _after_future(tree.body)
            tree.body[at:at] = ast.parse("from ptxview_probes._hit import red as _red").body
            (copy / "probes" / place).write_text(ast.unparse(ast.fix_missing_locations(tree)))
    return found


def _after_future(body: Sequence[ast.stmt]) -> int:
    future = [
        n for n, s in enumerate(body) if isinstance(s, ast.ImportFrom) and s.module == "__future__"
    ]
    return future[-1] + 1 if future else int(isinstance(body[0], ast.Expr))
