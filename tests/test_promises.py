"""What docs/promises.md promises is held by the tests that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    line.strip("|").split("|")
    for line in (ROOT / "docs" / "promises.md").read_text("utf-8").splitlines()
    if line.startswith("|") and "::" in line
]
NAMED = re.compile(r"`(test_\w+)::(\w+)`")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_a_promise_is_held_by_tests_that_exist(row: list[str]) -> None:
    promise, tests = row
    assert promise.strip().endswith((".", "…"))
    named = NAMED.findall(tests)
    assert named and len(named) == tests.count("::")
    for stem, name in named:
        (path,) = (ROOT / "tests").rglob(f"{stem}.py")
        tree = ast.parse(path.read_text("utf-8"))
        functions = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert f"test_{name}" in functions, f"{path} has no test_{name}"


def test_every_test_of_trust_and_of_wrapping_is_promised() -> None:
    named = {name for row in ROWS for _, name in NAMED.findall(row[1])}
    for path in ("tests/test_trust.py", "tests/system/test_wrapping.py"):
        tests = re.findall(
            r"^(?:async )?def test_(\w+)", (ROOT / path).read_text("utf-8"), re.MULTILINE
        )
        assert len(tests) > 20
        assert not set(tests) - named
