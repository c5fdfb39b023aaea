"""Lines that say what a program waits for on the emulated device."""

from __future__ import annotations

from inspector.probes.emulator.say import Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def program(launches: int, seconds: int) -> list[str]:
    """The lines of so many launches of so many seconds, each after a compilation of 2 s."""
    clock = Clock()
    told: list[str] = []
    waiting = Waiting(clock, told.append)
    for _ in range(launches):
        with waiting.on("launches computed", "softmax"):
            for _ in range(seconds):
                clock.now += 1
                waiting.look()
        clock.now += 100  # the program's own
    return told


def test_lines_come_after_10_seconds_of_waiting_and_then_every_30() -> None:
    assert program(1, 101) == [
        "waiting for 10 s: launches computed: softmax, 10 s so far",
        "waiting for 40 s: launches computed: softmax, 40 s so far",
        "waiting for 70 s: launches computed: softmax, 70 s so far",
        "waiting for 100 s: launches computed: softmax, 100 s so far",
    ]
    assert program(20, 4)[1] == (
        "waiting for 40 s: launches computed: 9 in 36 s, launches computed: softmax, 4 s so far"
    )
