"""The times that were measured of a recording's variants, with when and where that was."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from inspector.measure.time import stored
from inspector.measure.time.results import Session
from inspector.measure.time.stored import Taken
from inspector.model import Kernel, Variant
from inspector.report import timings


def now() -> datetime.datetime:
    """The time of day, of which the age of a measurement is computed."""
    return datetime.datetime.now(datetime.UTC)


def age(taken: Taken) -> str:
    """``3 days ago``."""
    return timings.age(taken.when, now())


class RecordingTimes:
    """Measured times of one recording, as the one index of them has them.

    Held by the screens and changed by them alone; a thread reads the sessions.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.trusted = False
        """Whether the user has said that the recording's code may be run; until he leaves."""

        self._kept = stored.StoredTimes()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """All that there are, the oldest first."""
        return self._kept.sessions

    def know(self, sessions: Iterable[Session]) -> None:
        """These are all that there are."""
        self._kept = stored.StoredTimes(tuple(sessions))

    def add(self, session: Session) -> None:
        """One more; what it says of other variants is not touched."""
        self._kept.add(session)

    def of(self, kernel: Kernel, variant: Variant) -> tuple[Taken, ...]:
        """Every time of a variant, the oldest first."""
        return self._kept.every(kernel, variant)

    def latest(self, kernel: Kernel | None, variant: Variant | None) -> Taken | None:
        """The kernel's own duration, as ``list`` has it. None: it was not measured."""
        if kernel is None or variant is None:
            return None
        return self._kept.latest(kernel, variant)

    def us(self, kernel: Kernel | None, variant: Variant | None) -> float | None:
        """Microseconds of that."""
        taken = self.latest(kernel, variant)
        return None if taken is None else taken.us

    def lines(self, kernel: Kernel, variant: Variant, recorded_on: str | None) -> list[str]:
        """What the card says: one line a stopwatch and state of the L2, the newest of each."""
        newest = {
            (one.timing.call, one.timing.stopwatch, one.timing.cache): one
            for one in self.of(kernel, variant)
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
