"""What docs/contributing/promises.md promises is held by the tests that it names."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
PROMISES = TESTS.parent / "docs" / "contributing" / "promises.md"
ROWS = [
    line.strip("|").split("|")
    for line in PROMISES.read_text("utf-8").splitlines()
    if line.startswith("|") and "::" in line
]
NAMED = re.compile(r"`(test_\w+)::(\w+)`")


def names_in(stem: str) -> set[str]:
    """The names of a file's tests, as promises have them."""
    (path,) = TESTS.rglob(f"{stem}.py")
    text = path.read_text("utf-8")
    return set(re.findall(r"^(?:async )?def test_(\w+)", text, re.MULTILINE))


def test_each_promise_is_held_by_tests_that_exist() -> None:
    assert len(ROWS) > 50
    for promise, tests in ROWS:
        named = NAMED.findall(tests)
        assert promise.strip().endswith((".", "…")) and len(named) == tests.count("::"), promise
        assert not [name for stem, name in named if name not in names_in(stem)], promise


def test_every_test_of_trust_and_of_wrapping_is_promised() -> None:
    named = {name for row in ROWS for _, name in NAMED.findall(row[1])}
    assert not (names_in("test_trust") | names_in("test_wrapping")) - named
