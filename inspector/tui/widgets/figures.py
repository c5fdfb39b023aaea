"""Resources and measured times as text. A figure that is not known is a dash, never 0."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from inspector.base.model import Kernel, Resources, Variant
from inspector.measure.time import results
from inspector.measure.time.results import StoredTime
from inspector.report import tables, timings
from inspector.report.tables import UNKNOWN as UNKNOWN
from inspector.report.tables import figure as figure
from inspector.report.tables import setting

UNREAD = "…"
"""Nobody has looked yet, which is not the dash of what is not known."""


def spilled(resources: Resources) -> bool:
    return bool(resources.spill_store_bytes or resources.spill_load_bytes)


def spills(resources: Resources) -> str:
    """Bytes stored and loaded again: ``16/24 B ⚠``."""
    text = tables.spills(resources)
    return f"{text} B ⚠" if spilled(resources) else text


def warps(variant: Variant) -> int | None:
    """``num_warps`` of the configuration, where it has one."""
    value = variant.config.get("num_warps")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def configuration(config: Mapping[str, object], keys: tuple[str, ...]) -> str:
    return " ".join(setting(key, config[key]) for key in keys if config.get(key) is not None)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def age(taken: StoredTime) -> str:
    """``3 days ago``."""
    return timings.age(taken.taken, now())


class RecordingTimes:
    """Measured times of one recording; only screens change them, a thread reads the sessions."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.trusted = False
        """Whether the user lets the recording's code run, until the interface is left."""
        self.stored = results.StoredTimes()

    def latest(self, kernel: Kernel | None, variant: Variant | None) -> StoredTime | None:
        return self.stored.of(kernel, variant) if kernel and variant else None

    def us(self, kernel: Kernel | None, variant: Variant | None) -> float | None:
        taken = self.latest(kernel, variant)
        return None if taken is None else taken.median_us

    def lines(self, kernel: Kernel, variant: Variant, recorded_on: str | None) -> list[str]:
        """Lines of the card: the newest time by each stopwatch and state of the L2."""
        newest = {
            (one.timing.call, one.timing.stopwatch, one.timing.cache): one
            for one in self.stored.every(kernel, variant)
        }
        return [told(one, recorded_on) for one in newest.values()]


def told(one: StoredTime, recorded_on: str | None) -> str:
    timing = one.timing
    parts = [
        f"{timings.duration(one.median_us)} µs (95 %: {timings.interval(timing)}) "
        f"by {timing.stopwatch}",
        f"{timing.cache} L2",
        age(one),
    ]
    if one.device and one.device != recorded_on:
        parts.append(f"on {one.device}")
    return ", ".join(parts) + (f"; {timing.inputs}" if timing.inputs else "")
