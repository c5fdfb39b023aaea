"""``python -m tests.benchmarks.bench_links [PATH…]``: links, of recordings or made listings.

Prints figures; nothing here is a timed test.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from inspector.analyse.links import link
from inspector.capture.opening import open_path
from inspector.model import Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import kept_cache
from tests.analyse.test_links import KNOWN, at, listing
from tests.benchmarks.ratio import Ratio, seconds


def of_recording(path: Path) -> None:
    """Every two stages of the variant with the most lines, parsed before."""
    reader = Reader(open_path(path), kept_cache())
    _, variant = max(
        reader.recording.variants(),
        key=lambda held: sum(
            len(reader.listing(held[1], s).lines)
            for s in held[1].stages
            if not held[1].stages[s].costly
        ),
    )
    stages = sorted(
        (s for s in variant.stages if not variant.stages[s].costly), key=lambda s: s.rank
    )
    sizes = {s: len(list(reader.listing(variant, s).lines)) for s in stages}
    print(f"{path.name}: {variant.symbol[:60]}")
    for a, b in combinations(stages, 2):
        begin = time.perf_counter()
        found = reader.links(variant, a, b)
        spent = time.perf_counter() - begin
        print(f"  {a.value:>11} {sizes[a]:6} ↔ {b.value:<5} {sizes[b]:6} lines: "
              f"{1000 * spent:7.1f} ms, {len(found)} linked")  # fmt: skip


def made() -> None:
    """Listings in which each place has ten lines above and below, and ones of a single place."""
    for count in (10_000, 100_000):
        for places in (count // 10, 1):
            upper = listing(*[("arith.addf", at(n % places + 1, 3)) for n in range(count)])
            lower = listing(*[("add.f32", at(n % places + 1, 3)) for n in range(count)])
            begin = time.perf_counter()
            found = link(upper, lower, (Stage.TTIR, Stage.PTX), {}, KNOWN)
            spent = time.perf_counter() - begin
            print(f"  {count:7} ↔ {count:7} lines at {places:6} places: {1000 * spent:8.1f} ms, "
                  f"{len(found)} linked")  # fmt: skip


def ratios() -> Iterator[Ratio]:
    """Links between listings of ten times the lines, which take ten times as long."""

    def linked(count: int, places: int) -> float:
        upper = listing(*[("arith.addf", at(n % places + 1, 3)) for n in range(count)])
        lower = listing(*[("add.f32", at(n % places + 1, 3)) for n in range(count)])
        return seconds(lambda: link(upper, lower, (Stage.TTIR, Stage.PTX), {}, KNOWN))

    yield Ratio("links between 100,000 lines at 10,000 places",
                linked(100_000, 10_000) / linked(10_000, 1000), "a tenth of them")  # fmt: skip
    yield Ratio("links between 100,000 lines of one place",
                linked(100_000, 1) / linked(10_000, 1), "a tenth of them")  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:]:
        of_recording(Path(name))
    made()
