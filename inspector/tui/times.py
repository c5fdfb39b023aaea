"""The times that were measured of a recording's variants, with when and where that was."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from inspector.bench.results import Session, Timing
from inspector.model import Kernel, Variant
from inspector.report import timings

OWN = "cupti"
"""The stopwatch whose figure is the kernel's own duration: only such figures can be compared."""

_SHORTEST = 8
"""Letters that a variant's id has at least: it grows when another begins alike."""


def now() -> datetime.datetime:
    """The time of day, of which the age of a measurement is told."""
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True, slots=True)
class Taken:
    """A time that was taken: when (ISO 8601), and on which device."""

    timing: Timing
    when: str
    device: str

    @property
    def us(self) -> float:
        """The median in microseconds, which is known."""
        assert self.timing.median_us is not None
        return self.timing.median_us

    @property
    def age(self) -> str:
        """``3 days ago``."""
        return timings.age(self.when, now())


class Times:
    """Measured times of one recording, in the order in which they were taken.

    Held by the screens and changed by them alone; a thread reads the sessions.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.sessions: tuple[Session, ...] = ()
        self.trusted = False
        """Whether the user has said that the recording's code may be run; until he leaves."""

        self._held: dict[tuple[str, str], list[Taken]] = {}

    def __bool__(self) -> bool:
        return any(_own(one) for held in self._held.values() for one in held)

    def know(self, sessions: Iterable[Session]) -> None:
        """These are all that there are."""
        self.sessions, self._held = (), {}
        for session in sessions:
            self.add(session)

    def add(self, session: Session) -> None:
        """One more; what it says of other variants is not touched."""
        self.sessions = (*self.sessions, session)
        device = str(session.device.get("name") or "")
        for row in session.rows:
            for one in parts(row):
                if _known(one.median_us):
                    key = (one.kernel, one.variant[:_SHORTEST])
                    self._held.setdefault(key, []).append(Taken(one, session.taken, device))

    def of(self, kernel: Kernel, variant: Variant) -> tuple[Taken, ...]:
        """Every time of a variant, the oldest first."""
        found = self._held.get((kernel.name, variant.id[:_SHORTEST]), ())
        return tuple(
            one for one in found
            if one.timing.variant == variant.id or variant.hash.startswith(one.timing.variant)
        )  # fmt: skip

    def latest(self, kernel: Kernel | None, variant: Variant | None) -> Taken | None:
        """The kernel's own duration as it was measured last: of the call that the program made most
        often, with a cold L2 where that was taken. None: it was not measured."""
        if kernel is None or variant is None:
            return None
        own = [one for one in self.of(kernel, variant) if _own(one)]
        own = [one for one in own if one.timing.cache == "cold"] or own
        newest = [one for one in own if one.when == own[-1].when]
        return max(newest, key=lambda one: _rank(one.timing), default=None)

    def us(self, kernel: Kernel | None, variant: Variant | None) -> float | None:
        """Microseconds of that."""
        found = self.latest(kernel, variant)
        return None if found is None else found.us

    def lines(self, kernel: Kernel, variant: Variant, recorded_on: str | None) -> list[str]:
        """What the card says: one line a stopwatch and state of the L2, the newest of each."""
        newest = {
            (one.timing.call, one.timing.stopwatch, one.timing.cache): one
            for one in self.of(kernel, variant)
        }
        return [told(one, recorded_on) for one in newest.values()]


def parts(row: Timing) -> tuple[Timing, ...]:
    """A launch's time as it is; of a call of a graph or a function, that of each known kernel."""
    if row.variant:
        return (row,)
    where = f"in a call of {row.kernel}" + (f": {row.inputs}" if row.inputs else "")
    return tuple(
        replace(
            row, kernel=one.name, variant=one.variant, median_us=one.median_us, low_us=one.low_us,
            high_us=one.high_us, samples=one.samples, inputs=where, bytes=None, flops=None,
            gb_per_s=None, tflop_per_s=None, percent_of_peak=None, kernels=(), cpu_us=None,
        )
        for one in row.kernels
        if one.variant
    )  # fmt: skip


def _rank(row: Timing) -> tuple[bool, int]:
    """A launch of its own says more than one among others."""
    return row.kind == "triton", row.count


def told(one: Taken, recorded_on: str | None) -> str:
    """``4.03 µs (95 %: 4.02…4.05) by cupti, cold L2, 3 days ago``, and of which inputs."""
    timing = one.timing
    parts = [
        f"{timings.time(one.us)} µs (95 %: {timings.interval(timing)}) by {timing.stopwatch}",
        f"{timing.cache} L2",
        one.age,
    ]
    if one.device and one.device != recorded_on:
        parts.append(f"on {one.device}")
    return ", ".join(parts) + (f"; {timing.inputs}" if timing.inputs else "")


def _own(one: Taken) -> bool:
    return one.timing.stopwatch == OWN


def _known(value: float | None) -> bool:
    """What a damaged file holds may be no number, or none that a kernel can take."""
    return value is not None and math.isfinite(value) and value > 0
