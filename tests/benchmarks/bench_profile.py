"""How long a large trace takes to read, and how much memory: by hand.

python -m tests.benchmarks.bench_profile 1000000
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import time
from collections.abc import Iterator

from inspector.measure.profile.model import Window
from inspector.measure.profile.sum import summarise
from tests.benchmarks.ratio import Ratio, seconds
from tests.helpers.profile_traces import Made


def main(events: int) -> None:
    made = Made()
    for n in range(events // 4):
        made.launched(["aten::square", "aten::pow"], f"kernel_{n % 40}", at=10.0 * n, took=1.5)
    data = gzip.compress(made.json().encode(), 3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    found = summarise(data, Window(1, "ptxview", "", gpu=True))
    took = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{found.events:,} events, {len(data) / 1e6:.0f} MB compressed: {took:.1f} s")
    print(f"memory beyond what the trace itself took to make: {grown / 1e3:.0f} MB")


def ratios() -> Iterator[Ratio]:
    """A trace of 100,000 events beside what the standard library takes to parse it."""
    made = Made()
    for n in range(25_000):
        made.launched(["aten::square", "aten::pow"], f"kernel_{n % 40}", at=10.0 * n, took=1.5)
    data = gzip.compress(made.json().encode(), 3)
    loading = seconds(lambda: json.loads(gzip.decompress(data)))
    took = seconds(lambda: summarise(data, Window(1, "ptxview", "", gpu=True)))
    yield Ratio("summing a trace up", took / loading, "parsing its JSON")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
