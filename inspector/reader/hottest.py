"""Regions of interest in a kernel: most samples, innermost loops, register peak."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inspector.analyse.line_annotations import LineAnnotations, virtual
from inspector.base.errors import PtxviewError
from inspector.base.model import Location, Stage, Variant
from inspector.reader.facts import MACHINE
from inspector.reader.reader import Reader

LOOPS = 3
"""Loops that are listed: the innermost ones, of those the longest."""
SAMPLED = 5
"""Lines that are listed by their samples."""


@dataclass(frozen=True, slots=True)
class Region:
    """Lines ``first`` to ``last`` of a stage that are worth a look, and why.

    ``by`` is ``samples`` where a profiler saw warps there (``percent`` of the kernel's samples),
    ``loop`` of a loop that no other is in (``depth`` loops deep, 1 for one in no other),
    ``registers`` of the line with the most live registers (``live`` of them). ``source`` is the
    line of the program that the first instruction there is of.
    """

    first: int
    last: int
    by: str
    source: Location | None = None
    percent: float | None = None
    depth: int | None = None
    live: int | None = None


def regions(reader: Reader, variant: Variant, stage: Stage) -> tuple[Region, ...]:
    """Where to look first in a stage: by samples where there are any, then by what the code is.

    Raises ``PtxviewError`` where the stage cannot be had.
    """
    annotations = reader.line_annotations(variant, stage)
    return (
        *_sampled(reader, variant, stage, annotations),
        *_of_code(reader, variant, stage, annotations),
    )


def _sampled(
    reader: Reader, variant: Variant, stage: Stage, annotations: LineAnnotations
) -> Iterator[Region]:
    shares = [(annotations.share(n) or 0.0, n) for n in annotations.hottest]
    for percent, n in sorted(shares, key=lambda one: (-one[0], one[1]))[:SAMPLED]:
        yield Region(n, n, "samples", _source(reader, variant, stage, n), round(percent, 2))


def _of_code(
    reader: Reader, variant: Variant, stage: Stage, annotations: LineAnnotations
) -> Iterator[Region]:
    own = reader.function(variant, stage) if stage in MACHINE else None
    facts = None if own is None else reader.facts(variant, stage, own.first)
    if facts is None:
        return
    flow = facts.flow
    inner = [
        loop
        for loop in flow.loops
        if all(flow.loop_at(flow.blocks[block].first) is loop for block in loop.blocks)
    ]
    inner.sort(key=lambda loop: (-loop.depth, loop.first - loop.last, loop.first))
    for loop in inner[:LOOPS]:
        source = _source(reader, variant, stage, loop.first, loop.last)
        yield Region(loop.first, loop.last, "loop", source, depth=loop.depth)
    if annotations.peaks:
        n = annotations.peaks[0]
        counts = annotations.at(n).live or {}
        live = counts["gpr"] if "gpr" in counts else virtual(counts)
        yield Region(n, n, "registers", _source(reader, variant, stage, n), live=live)


def _source(
    reader: Reader, variant: Variant, stage: Stage, first: int, last: int | None = None
) -> Location | None:
    """The line of the program that the first of these lines with a location is of."""
    try:
        lines = reader.listing(variant, stage).between(first, first if last is None else last)
        return next((line.source for line in lines if line.source is not None), None)
    except PtxviewError:
        return None
