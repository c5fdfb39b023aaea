"""What a long program says now and then of what it waits for."""

from __future__ import annotations

import os

import pytest

from inspector.probes.target.waiting import Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def program(launches: int, seconds: float) -> list[str]:
    """What is said of so many launches that take so long, each after a compilation of 2 s."""
    clock = Clock()
    told: list[str] = []
    waiting = Waiting(clock, told.append)
    for _ in range(launches):
        with waiting.on("launches computed", "softmax"):
            with waiting.on("kernels compiled", "softmax"):
                clock.now += 2
            clock.now += seconds
    return told


def test_a_short_program_says_nothing() -> None:
    assert program(10, 3) == []


def test_a_long_one_says_once_a_minute_what_it_waits_for() -> None:
    told = program(30, 8)
    assert 4 <= len(told) <= 5, "five minutes"
    assert told[0] == "1 min so far: launches computed: 6 in 60 s; last softmax, 10 s"
    counts = [int(line.split(": ")[2].split()[0]) for line in told]
    assert counts == sorted(set(counts))


def test_a_child_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    told: list[str] = []
    waiting = Waiting(clock, told.append)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for _ in range(30):
        with waiting.on("launches computed", "softmax"):
            clock.now += 10
    assert told == []


def test_what_takes_long_is_named_before_it_is_waited_for() -> None:
    clock = Clock()
    told: list[str] = []
    waiting = Waiting(clock, told.append)
    compiled = waiting.counted("kernels compiled", lambda name: name, lambda name: name.upper())
    assert compiled("first") == "FIRST"
    clock.now += 90  # the program's own
    with pytest.raises(ValueError), waiting.on("launches computed", "huge"):
        assert told == ["2 min so far: kernels compiled: 1 in 0 s; now huge"]
        clock.now += 400
        raise ValueError
    assert told[1].startswith("8 min so far: ") and told[1].endswith("; last huge, 400 s")
