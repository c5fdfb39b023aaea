"""``python -m tests.benchmarks.bench_figures``: figures of many kernels for one table.

CPU seconds of this process and of the tools that it starts, as all cores share the work and the
machine may be busy. Prints figures; nothing here is a timed test.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from inspector.capture.disassembly import disassemble
from inspector.capture.opening import open_path
from inspector.model import Recording, Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from tests.benchmarks.ratio import Ratio
from tests.helpers.many import many

NAMED, ALIKE = 48, 16
"""Kernels with names of their own, and those that are called alike."""


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    before = os.times()
    work()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def read(recording: Recording, cache: DerivedCache) -> None:
    """Every figure of every variant, by a reader that has read nothing yet."""
    variants = [variant for _, variant in recording.variants()]
    Reader(recording, cache).summaries.keep(variants)


def known(recording: Recording, cache: DerivedCache) -> None:
    """Every figure as it was kept."""
    variants = [variant for _, variant in recording.variants()]
    for _ in Reader(recording, cache).summaries.read(variants):
        pass


def one_by_one(recording: Recording, cache: DerivedCache) -> None:
    """Each cubin disassembled, as it is where one looks at it."""
    for _, variant in recording.variants():
        disassemble(variant.stages[Stage.SASS].content.read(), cache)


def taken() -> tuple[int, float, float, float]:
    """How many variants there are; CPU seconds of their figures, once more, and of nvdisasm."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        recording = open_path(many(home / "many", NAMED, ALIKE))
        cache = DerivedCache(home / "derived")
        cold = seconds(lambda: read(recording, cache))
        again = seconds(lambda: known(recording, cache))
        alone = seconds(lambda: one_by_one(recording, DerivedCache(home / "alone")))
        return len(recording.variants()), cold, again, alone


def ratios() -> Iterator[Ratio]:
    """All figures beside what the disassembler alone takes, cubin by cubin; and once more."""
    _, cold, again, alone = taken()
    yield Ratio("all figures of kernels", cold / alone, "disassembling one after the other")
    yield Ratio("all figures of kernels once more", again / cold, "the first time")


def main() -> None:
    """Tell of it."""
    count, cold, again, alone = taken()
    for what, spent in (
        ("all figures", cold), ("once more", again), ("nvdisasm, one after the other", alone),
    ):  # fmt: skip
        print(f"{what:32} {spent:6.2f} CPU s, {spent / count * 1e3:5.1f} ms a variant")


if __name__ == "__main__":
    main()
