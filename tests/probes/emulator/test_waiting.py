"""Lines that say what a program waits for on the emulated device."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inspector.probes.emulator import say


def program(monkeypatch: pytest.MonkeyPatch, launches: int, seconds: int) -> list[str]:
    """The lines of so many launches of so many seconds, each after 100 s of the program's own."""
    now = [1000.0]
    told: list[str] = []
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(say, "time", clock)
    monkeypatch.setattr(say, "aloud", told.append)
    monkeypatch.setattr(say.Waiting, "_watch", lambda self: None)
    waiting = say.Waiting()
    for _ in range(launches):
        with waiting.on("launches computed", "softmax"):
            for _ in range(seconds):
                now[0] += 1
                waiting.look()
        now[0] += 100
    return told


def test_lines_come_after_10_seconds_of_waiting_and_then_every_30(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert program(monkeypatch, 1, 101) == [
        "waiting for 10 s: launches computed: softmax, 10 s so far",
        "waiting for 40 s: launches computed: softmax, 40 s so far",
        "waiting for 70 s: launches computed: softmax, 70 s so far",
        "waiting for 100 s: launches computed: softmax, 100 s so far",
    ]
    assert program(monkeypatch, 20, 4)[1] == (
        "waiting for 40 s: launches computed: 9 in 36 s, launches computed: softmax, 4 s so far"
    )
