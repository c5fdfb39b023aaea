"""Ways to take the time of one launch; each gives its samples in µs.

``event`` is a pair of CUDA events around one launch on an idle device. ``do_bench`` and
``cudagraph`` are Triton's own ``do_bench`` and ``do_bench_cudagraph``. A kernel's own duration, by
CUPTI, is in ``replay_calls``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from .replay_trace import Unavailable

# What stands between two launches is read or written from end to end: several times the L2.
LEAST_FLUSH = 256 << 20
L2_TIMES = 4
ENOUGH = 0.01
FEWEST = 60
MOST = 20_000
BLOCK_SECONDS = 0.1
# So many blocks in a row may be without all that was launched.
MOST_MISSES = 5
# So many records of CUPTI's fit into a buffer, with some room.
MOST_RECORDS = 100_000
# So many launches at first, and then: as a rule the median is settled by then.
FIRST, SECOND = 20, 100
# No kernel is that short; a graph without any takes some ns.
LEAST_US = 0.1
# The device's clock goes in steps of so many µs (32 ns on an H200): no samples tell more.
TICK_US = 0.032


class Cache:
    """What is done to the L2 before each launch: ``cold``, ``dirty`` or ``hot``.

    ``cold`` reads other memory, which leaves none of the launch's data and nothing to write back;
    ``dirty`` writes it, and the launch then pays for writing it back; ``hot`` leaves it alone.
    """

    def __init__(self, torch: Any, state: str) -> None:
        self.state = state
        self._torch = torch
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        size = max(LEAST_FLUSH, L2_TIMES * int(l2 or 0))
        self._memory: Any = (
            None if state == "hot" else torch.zeros(size // 4, dtype=torch.float32, device="cuda")
        )
        self._sum = torch.zeros((), device="cuda")

    def prepare(self) -> None:
        """Bring the L2 into that state, on the current stream."""
        if self.state == "cold":
            self._torch.sum(self._memory, dim=0, out=self._sum)
        elif self.state == "dirty":
            self._memory.zero_()


def settled(samples: list[float]) -> bool:
    """Whether the median's 95 % interval is within 1 % of it, by the normal approximation; or as
    narrow as the device's clock allows."""
    n = len(samples)
    if n < FEWEST:
        return False
    held = sorted(samples)
    reach = 1.96 * math.sqrt(n) / 2
    low = held[max(0, math.floor(n / 2 - reach) - 1)]
    high = held[min(n - 1, math.ceil(n / 2 + reach))]
    middle = held[n // 2]
    return high - low <= max(2 * ENOUGH * middle, TICK_US * 1.01)


def next_count(count: int, took: float, seen: int, fewest: int, most: int) -> int:
    """How many calls the next block has, after ``count`` of them took so many seconds and left so
    many records: more and more, but no longer than a block may take, and no more than fit."""
    in_time = int(count * BLOCK_SECONDS / max(took, 1e-6)) + 1
    fitting = MOST_RECORDS * count // max(seen, 1)
    return max(fewest, min(most, in_time, fitting, max(SECOND, 2 * count)))


Launch = Callable[[], Any]


def events(
    torch: Any, launch: Launch, before: Launch, seconds: float, between: Launch
) -> list[float]:
    """A pair of events around one launch on an idle device, as a script would do it."""
    samples: list[float] = []
    began = time.monotonic()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    while True:
        for _ in range(20):
            before()
            torch.cuda.synchronize()
            start.record()
            launch()
            end.record()
            torch.cuda.synchronize()
            samples.append(start.elapsed_time(end) * 1000)
        between()
        if settled(samples) or len(samples) >= MOST or time.monotonic() - began > seconds:
            return samples


def do_bench(
    torch: Any, launch: Launch, before: Launch, seconds: float, between: Launch
) -> list[float]:
    """Triton's ``do_bench``: the L2 is flushed by writing, events stand in a full queue."""
    testing = _testing()
    found = testing.do_bench(launch, warmup=25, rep=100, return_mode="all")
    between()
    return [1000 * float(t) for t in found]


def cudagraph(
    torch: Any, launch: Launch, before: Launch, seconds: float, between: Launch
) -> list[float]:
    """Triton's ``do_bench_cudagraph``: launches one after another in a graph, the L2 left hot."""
    testing = _testing()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = testing.do_bench_cudagraph(launch, rep=100, return_mode="all")
    between()
    samples = [1000 * float(t) for t in found]
    if samples and max(samples) < LEAST_US:
        raise Unavailable(
            "the graph is empty: what is launched is not on the stream that is captured"
        )
    return samples


def _testing() -> Any:
    try:
        import triton.testing
    except ImportError as error:
        raise Unavailable(f"it is Triton's, which cannot be imported: {error}") from None
    return triton.testing


# Those that are no CUPTI.
STOPWATCHES = {"event": events, "do_bench": do_bench, "cudagraph": cudagraph}
# Those that bring the L2 into a state of their own.
OWN_CACHE = {"do_bench": "dirty", "cudagraph": "hot"}


def caches(stopwatches: list[str], state: str) -> Iterator[tuple[str, str]]:
    """Each stopwatch with the state of the L2 that its figure is of."""
    for each in stopwatches:
        yield each, OWN_CACHE.get(each, state)
