"""The times that are stored with a recording, by variant: one index for every view.

The time of a variant is the kernel's own, by CUPTI: with a cold L2 if that was measured, else in
another state, which is shown; from the newest session, and in it from the most frequent call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inspector.base.model import Kernel, Variant
from inspector.measure.time.results import Session, Timing, read
from inspector.recording.layout import kept

OWN, COLD = "cupti", "cold"
"""The stopwatch that reads a kernel's own duration, and the preferred state of the L2."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A time of one kernel, of a launch or within a call: when (ISO 8601), and on which device.

    ``inputs`` are the tensors of that launch or call in words.
    """

    timing: Timing
    when: str
    device: str | None
    inputs: str

    @property
    def us(self) -> float:
        """The median in microseconds, which is known."""
        assert self.timing.median_us is not None
        return self.timing.median_us


@dataclass(frozen=True, slots=True)
class StoredTime:
    """One launch of a variant, in µs: the median with its 95 % interval (None: too few samples).

    ``inputs`` are the tensors of the call in words, ``taken`` when that was (ISO 8601), ``device``
    the device's name.
    """

    median_us: float
    low_us: float | None
    high_us: float | None
    stopwatch: str
    cache: str
    taken: str
    device: str | None
    inputs: str


class StoredTimes:
    """The times that are stored with a recording, in the order in which they were taken."""

    def __init__(self, sessions: Sequence[Session] = ()) -> None:
        self.sessions: tuple[Session, ...] = ()
        self._taken: dict[str, list[tuple[int, Taken]]] = {}
        for session in sessions:
            self.add(session)

    def add(self, session: Session) -> None:
        """Add a session, the newest."""
        number = len(self.sessions)
        self.sessions = (*self.sessions, session)
        name = session.device.get("name")
        device = name if isinstance(name, str) else None
        for row in session.rows:
            for part in parts(row):
                if _known(part.median_us):
                    taken = Taken(part, session.taken, device, row.inputs)
                    self._taken.setdefault(part.kernel, []).append((number, taken))

    def every(self, kernel: Kernel, variant: Variant) -> tuple[Taken, ...]:
        """Every time of a variant by any stopwatch, the oldest first."""
        return tuple(taken for _, taken in self._of(kernel, variant))

    def latest(self, kernel: Kernel, variant: Variant) -> Taken | None:
        """The representative time of a variant; None if it was not measured."""
        return next(iter(self._own(kernel, variant)), None)

    def of(self, kernel: Kernel, variant: Variant) -> StoredTime | None:
        """The representative time of a variant, as views show it."""
        taken = self.latest(kernel, variant)
        return None if taken is None else _measured(taken)

    def by_inputs(self, kernel: Kernel, variant: Variant) -> Mapping[str, StoredTime]:
        """The time of a variant with each kind of inputs that it was timed with."""
        out: dict[str, StoredTime] = {}
        for taken in self._own(kernel, variant):
            out.setdefault(taken.inputs, _measured(taken))
        return out

    def __bool__(self) -> bool:
        return any(_is_own(t) for entries in self._taken.values() for _, t in entries)

    def _of(self, kernel: Kernel, variant: Variant) -> list[tuple[int, Taken]]:
        # An id is as long as it must be: it may have grown since.
        return [
            (number, taken)
            for number, taken in self._taken.get(kernel.name, ())
            if taken.timing.variant == variant.id or variant.hash.startswith(taken.timing.variant)
        ]

    def _own(self, kernel: Kernel, variant: Variant) -> list[Taken]:
        """The variant's times by CUPTI, the representative one first."""

        def rank(entry: tuple[int, Taken]) -> tuple[bool, int, bool, int]:
            number, timing = entry[0], entry[1].timing
            # A launch timed alone comes before one within a call of many.
            return timing.cache != COLD, -number, timing.kind != "triton", -timing.count

        entries = [entry for entry in self._of(kernel, variant) if _is_own(entry[1])]
        return [taken for _, taken in sorted(entries, key=rank)]


def parts(row: Timing) -> tuple[Timing, ...]:
    """A launch's own timing; for a call of a graph or function, a timing of each known kernel."""
    if row.variant:
        return (row,)
    where = f"in a call of {row.kernel}" + (f": {row.inputs}" if row.inputs else "")
    return tuple(
        replace(
            row,
            kernel=kernel.name,
            variant=kernel.variant,
            median_us=kernel.median_us,
            low_us=kernel.low_us,
            high_us=kernel.high_us,
            samples=kernel.samples,
            inputs=where,
            bytes=None,
            flops=None,
            gb_per_s=None,
            tflop_per_s=None,
            percent_of_peak=None,
            kernels=(),
            cpu_us=None,
        )
        for kernel in row.kernels
        if kernel.variant
    )


def timed_alike(
    a: Mapping[str, StoredTime], b: Mapping[str, StoredTime]
) -> tuple[StoredTime, StoredTime] | None:
    """Comparable times of two variants, or None.

    They are of the same kind of inputs, on the same device, with the L2 in the same state.
    """
    for inputs, time in a.items():
        counterpart = b.get(inputs)
        if counterpart is not None and (counterpart.device, counterpart.cache) == (
            time.device,
            time.cache,
        ):
            return time, counterpart
    return None


def times(path: str | Path) -> StoredTimes:
    """The times stored with the recording at a path; none if there is no recording."""
    return StoredTimes(sessions(Path(path)))


def sessions(path: Path) -> list[Session]:
    """The sessions stored with a recording, the oldest first."""
    return [s for s in map(read, kept(path)) if s is not None]


def _is_own(taken: Taken) -> bool:
    return taken.timing.stopwatch == OWN


def _known(value: float | None) -> bool:
    """Whether a time is a positive number, which a damaged file may not hold."""
    return value is not None and math.isfinite(value) and value > 0


def _measured(taken: Taken) -> StoredTime:
    timing = taken.timing
    return StoredTime(
        taken.us,
        timing.low_us,
        timing.high_us,
        OWN,
        timing.cache or "",
        taken.when,
        taken.device,
        taken.inputs,
    )
