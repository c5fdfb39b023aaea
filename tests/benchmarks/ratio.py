"""A figure of a benchmark: how much more one thing takes than another in the same run."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """``what`` takes ``value`` times what ``beside`` takes, in time unless it says otherwise."""

    what: str
    value: float
    beside: str


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The best of some runs, in seconds of this process."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def measured(name: str) -> list[Ratio]:
    """What a module measures."""
    return list(importlib.import_module(f"tests.benchmarks.bench_{name}").ratios())
