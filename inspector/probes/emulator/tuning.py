"""Autotuning and benchmarks with nothing to measure: every candidate compiles, no time is given.

The first configuration that compiles and fits the device is the one that runs. Nothing of this
reaches Triton's autotuning cache on disk, where a real device would find it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import say
from .say import unseen

BENCHMARK_SECONDS, BENCHMARKS_SECONDS = 1.0, 10.0
"""Work that one launch within a benchmark may take, and all of a program's together: nothing is
measured, and their results are seldom read."""


class Benchmarks:
    """Whether a benchmark runs, and the work that all of them may still take."""

    def __init__(self) -> None:
        self.depth = 0
        self.left = BENCHMARKS_SECONDS

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count launches in the block, or in a decorated function, as a benchmark's."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def used(self, seconds: float) -> None:
        """Count the work of a launch."""
        if self.depth:
            self.left = max(0.0, self.left - seconds)

    def most(self, allowed: float) -> float:
        """The seconds that one launch may take now, at most ``allowed``."""
        if not self.depth or math.isinf(allowed):
            return allowed
        return min(allowed, BENCHMARK_SECONDS, self.left)


BENCHMARKS = Benchmarks()


class NotMeasured(float):
    """NaN that loses to no time but infinity: a configuration that failed is never kept."""

    def __lt__(self, other: object) -> bool:
        return other == float("inf")

    def __gt__(self, other: object) -> bool:
        return False


NAN = NotMeasured("nan")
_depth = 0


def compiling_only() -> bool:
    """Whether launches compile and do not run, since a candidate is tried."""
    return _depth > 0


@contextmanager
def only_compile() -> Any:
    """Have launches in the block compile and compute nothing."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def no_times(quantiles: Any = None, return_mode: str = "mean") -> Any:
    """The result of a benchmark in the requested shape: NaN."""
    say.once(
        "no-benchmarks",
        "there is no GPU here, so benchmarks measure nothing: their times are NaN, and autotuning "
        "compiles every configuration and runs the first that fits",
    )
    if quantiles is not None and len(quantiles) > 1:
        return [NAN] * len(quantiles)
    return [] if return_mode == "all" and quantiles is None else NAN


def do_bench(
    fn: Callable[[], Any],
    *args: Any,
    quantiles: Any = None,
    return_mode: str = "mean",
    **ignored: Any,
) -> Any:
    """``triton.testing.do_bench``: calls ``fn`` once, so that it compiles and writes, no more."""
    try:
        with BENCHMARKS.running():
            fn()
    except BaseException as error:
        unseen(error)
        raise
    return no_times(quantiles, return_mode)


def attach(module: Any) -> None:
    """Replace what measures in triton.testing or triton.runtime.autotuner."""
    if module.__name__ == "triton.testing":
        for name in ("", "_cudagraph", "_proton", "_cudagraph_proton"):
            if hasattr(module, f"do_bench{name}"):
                setattr(module, f"do_bench{name}", do_bench)
        # perf_report runs functions for their times alone.
        mark = getattr(module, "Mark", None)
        if mark is not None and hasattr(mark, "_run"):
            mark._run = BENCHMARKS.running()(mark._run)
        return
    tuner = module.Autotuner
    original = tuner._bench

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        try:
            with only_compile():
                measured = original(self, *args, config=config, **meta)
        except BaseException as error:
            unseen(error)
            raise
        times = measured if isinstance(measured, (list, tuple)) else [measured]
        failed = bool(times) and all(t == float("inf") for t in times)
        return measured if failed else no_times((0.5, 0.2, 0.8))

    def check_disk_cache(self: Any, key: Any, configs: Any, bench_fn: Callable[[], None]) -> bool:
        bench_fn()
        return False

    tuner._bench = bench
    if hasattr(tuner, "check_disk_cache"):
        tuner.check_disk_cache = check_disk_cache
