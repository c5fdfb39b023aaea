"""The newest time that is kept of each variant: the kernel's own, by CUPTI, with a cold L2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inspector.bench.results import KernelTime, Session, Timing, read
from inspector.model import Kernel, Variant
from inspector.recording_timings import kept

STOPWATCH, CACHE = "cupti", "cold"


@dataclass(frozen=True, slots=True)
class Measured:
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


class Times:
    """The times that are kept of a recording, by variant and by what it was launched with."""

    def __init__(self, sessions: Sequence[Session]) -> None:
        # By the kernel's name and the variant's id; the newest session first, in it the most
        # frequent call.
        self._found: dict[str, dict[str, dict[str, Measured]]] = {}
        for session in reversed(sessions):
            for row, time in sorted(_of(session), key=lambda each: _rank(each[0])):
                held = self._found.setdefault(time.name, {}).setdefault(time.variant or "", {})
                held.setdefault(row.inputs, _measured(session, row, time))

    def of(self, kernel: Kernel, variant: Variant) -> Measured | None:
        """The newest time of a variant: of its most frequent call that was timed; None: none."""
        return next(iter(self.by_inputs(kernel, variant).values()), None)

    def by_inputs(self, kernel: Kernel, variant: Variant) -> Mapping[str, Measured]:
        """The newest time of a variant with each kind of inputs that it was timed with."""
        for known, held in self._found.get(kernel.name, {}).items():
            # An id is as long as it must be: it may have grown since.
            if variant.hash.startswith(known):
                return held
        return {}

    def __bool__(self) -> bool:
        return bool(self._found)


def alike(a: Mapping[str, Measured], b: Mapping[str, Measured]) -> tuple[Measured, Measured] | None:
    """The times of two variants that can be compared: of one kind of inputs, on one device."""
    for inputs, time in a.items():
        other = b.get(inputs)
        if other is not None and other.device == time.device:
            return time, other
    return None


def times(path: str | Path) -> Times:
    """What is kept of the recording at a path; nothing of what is none."""
    return Times(sessions(Path(path)))


def sessions(path: Path) -> list[Session]:
    """What was timed before, the oldest first; empty for what is no recording."""
    return [s for s in map(read, kept(path)) if s is not None]


def _of(session: Session) -> Iterator[tuple[Timing, KernelTime]]:
    for row in session.rows:
        if row.stopwatch != STOPWATCH or row.cache != CACHE or row.median_us is None:
            continue
        parts = row.kernels
        if not parts and row.variant:  # kept before rows told their kernels
            parts = (KernelTime(row.kernel, row.variant, row.median_us, 1, row.low_us,
                                row.high_us, row.samples),)  # fmt: skip
        for time in parts:
            if time.variant:
                yield row, time


def _rank(row: Timing) -> tuple[bool, int]:
    return row.kind != "triton", -row.count


def _measured(session: Session, row: Timing, time: KernelTime) -> Measured:
    name = session.device.get("name")
    return Measured(
        time.median_us, time.low_us, time.high_us, STOPWATCH, CACHE, session.taken,
        name if isinstance(name, str) else None, row.inputs,
    )  # fmt: skip
