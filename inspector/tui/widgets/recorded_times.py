"""The times that were measured of a recording's variants, with when and where that was."""

from __future__ import annotations

import datetime
from pathlib import Path

from inspector.base.model import Kernel, Variant
from inspector.measure.time import results
from inspector.measure.time.results import Taken
from inspector.report import timings


def now() -> datetime.datetime:
    """Return the current time."""
    return datetime.datetime.now(datetime.UTC)


def age(taken: Taken) -> str:
    """``3 days ago``."""
    return timings.age(taken.when, now())


class RecordingTimes:
    """Measured times of one recording; only screens change them, a thread reads the sessions."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.trusted = False
        """Whether the user lets the recording's code run, until the interface is left."""
        self.stored = results.StoredTimes()

    def latest(self, kernel: Kernel | None, variant: Variant | None) -> Taken | None:
        """The representative time of a variant; None if it was not measured."""
        return self.stored.latest(kernel, variant) if kernel and variant else None

    def us(self, kernel: Kernel | None, variant: Variant | None) -> float | None:
        """The representative time in microseconds."""
        taken = self.latest(kernel, variant)
        return None if taken is None else taken.us

    def lines(self, kernel: Kernel, variant: Variant, recorded_on: str | None) -> list[str]:
        """Lines of the card: the newest time by each stopwatch and state of the L2."""
        newest = {
            (one.timing.call, one.timing.stopwatch, one.timing.cache): one
            for one in self.stored.every(kernel, variant)
        }
        return [told(one, recorded_on) for one in newest.values()]


def told(one: Taken, recorded_on: str | None) -> str:
    """``4.03 µs (95 %: 4.02…4.05) by cupti, cold L2, 3 days ago``, and of which inputs."""
    timing = one.timing
    parts = [
        f"{timings.duration(one.us)} µs (95 %: {timings.interval(timing)}) by {timing.stopwatch}",
        f"{timing.cache} L2",
        age(one),
    ]
    if one.device and one.device != recorded_on:
        parts.append(f"on {one.device}")
    return ", ".join(parts) + (f"; {timing.inputs}" if timing.inputs else "")
