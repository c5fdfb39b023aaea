"""Odd numbers in recordings, traces and listings are not tracebacks."""

from __future__ import annotations

import functools
import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.hostile import SQUARE as IDENT
from tests.helpers.hostile import all_names, fields, written
from tests.helpers.nightly import first_by_day
from tests.helpers.ptxview import SAMPLE, call
from tests.system.printing.test_escapes import TIMED

MANY = "9" * 5_000
"""More digits than Python turns into an integer."""

ODD: tuple[Any, ...] = (
    10**400,
    float("nan"),
    float("inf"),
    -1,
    0,
    "²",
    MANY,
    None,
    [],
    {},
    1 << 64,
)


def assert_sane(*words: str | Path) -> None:
    done = call(*words)
    assert "fault of" not in done.said and "Traceback" not in done.said, (words, done.said)
    assert done.status in (0, 1, 2, 3, 4), (words, done.said)


@pytest.mark.parametrize("batch", first_by_day(range(0, 11, 3), 2))
def test_no_number_of_a_recording_is_a_traceback(tmp_path: Path, batch: int) -> None:
    """An eighth of the fields at a time; those of kept times with them."""
    chosen = {n for n in all_names() if "{" not in n and zlib.crc32(n.encode()) % 8 == batch % 8}

    def change(name: str, value: Any) -> Any:
        return ODD[batch] if name in chosen and "hash" not in name else value

    def odd(name: str, value: Any) -> Any:
        return ODD[batch] if zlib.crc32(name.encode()) % 4 == batch % 4 else value

    path = written(tmp_path / "r", change, fields(TIMED, "", odd))
    asked: tuple[list[str | Path], ...] = (
        ["list", path],
        ["list", path, "--calls"],
        ["list", path, "--json"],
        ["show", path, IDENT, "-a"],
        ["show", path, IDENT, "--json"],
        ["diff", path, SAMPLE],
        ["diff", path, "matmul_kernel"],
        ["time", path, "--stored"],
        ["time", path, "--stored", "--json"],
        ["profile", "--stored", path],
    )
    for words in asked:
        assert_sane(*words)


NESTED: list[Any] = []
ANYTHING: tuple[Any, ...] = (
    *ODD,
    -(10**400),
    True,
    "\ud800",
    "\udcff\x1b[2J\n",
    "1e400",
    "../../etc/passwd",
    [None],
    {"": None},
    {"a": {"b": [float("nan")]}},
    [1 << 40] * 3,
    [10**400, "x"],
    "a" * 10_000,
    functools.reduce(lambda inner, _: [inner], range(150), NESTED),
)


@pytest.mark.parametrize("seed", first_by_day(range(2)))
def test_nothing_in_any_field_is_a_traceback(tmp_path: Path, seed: int) -> None:
    """A tenth of all fields at a time; JSON stays JSON."""
    chance = random.Random(seed)

    def change(name: str, value: Any) -> Any:
        kept = name.endswith("event") or "hash" in name or chance.random() > 0.1
        return value if kept else chance.choice(ANYTHING)

    path = written(tmp_path / "r", change, fields(TIMED, "", change))
    plain: tuple[tuple[str | Path, ...], ...] = (
        ("list", path),
        ("list", path, "--by", "cost"),
        ("list", path, "--tunings"),
        ("list", path, "--where", "spill>0 time>1 launched dtype:f"),
        ("show", path, IDENT, "-a"),
        ("diff", path, SAMPLE),
        ("time", path, "--stored"),
        ("profile", "--stored", path),
    )
    for words in plain:
        assert_sane(*words)
    jsons: tuple[tuple[str | Path, ...], ...] = (
        ("list", path, "--json"),
        ("list", path, "--by", "cost", "--json"),
        ("list", path, "--tunings", "--json"),
        ("show", path, IDENT, "--json"),
    )
    for words in jsons:
        done = call(*words)
        assert "fault of" not in done.said, (words, done.said)
        for line in done.text.splitlines():
            json.loads(line, parse_constant=pytest.fail)
