"""Compares whole files and whole recordings: every kernel of one with its counterpart.

Of recordings nothing is disassembled unless SASS is asked for; cuobjdump is asked for the figures
of what changed, was added or removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields

from inspector.analyse.diff import recordings
from inspector.analyse.diff.beside import Row, rows
from inspector.analyse.diff.comparing import ListingDiff, diff_listings
from inspector.analyse.diff.intra import Spans, intra_line
from inspector.analyse.diff.recordings import Entry, Pair, State
from inspector.analyse.diff.summary import Change
from inspector.analysing import Analyst
from inspector.capture.elf import read_cubin
from inspector.comparing import alike, own_source, shared_stages, stage_of
from inspector.errors import UsageError
from inspector.listing.line import Function, Listing
from inspector.model import Resources, Stage, Variant
from inspector.reading import Reader

# -- two files of several kernels ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Files:
    """Two files of several kernels at one stage.

    ``figures`` are, for each of ``diff.functions``, the resources that differ between the kernels.
    """

    stage: Stage
    listings: tuple[Listing, Listing]
    diff: ListingDiff
    figures: tuple[tuple[Change, ...], ...]

    def rows(self) -> Iterator[Row]:
        """Every line of both files, side by side."""
        lines = self.listings[0].lines, self.listings[1].lines
        return rows(self.diff.hunks, lines, self.diff.silent)

    def intra(self, a: int, b: int) -> tuple[Spans, Spans]:
        """The characters of two lines, by number, that really differ."""
        x, y = self.listings[0].lines[a - 1], self.listings[1].lines[b - 1]
        return intra_line(x, y, self.diff.names_at(a, b))


def compare_files(a: Analyst, b: Analyst, asked: Stage | None = None, exact: bool = False) -> Files:
    """The one file that each was opened from; its kernels are paired by name, then by likeness.

    Raises ``PtxviewError`` where they have no such stage, or it cannot be read.
    """
    left, right = ({v.symbol: v for _, v in r.recording.variants()} for r in (a, b))
    first = next(iter(left.values())), next(iter(right.values()))
    stage = stage_of(*first, asked)
    listings = a.listing(first[0], stage), b.listing(first[1], stage)
    found = diff_listings(*listings, exact=exact)
    figures = tuple(
        tuple(_deltas(a, b, _named(left, pair.a), _named(right, pair.b)))
        for pair in found.functions
    )
    return Files(stage, listings, found, figures)


def _named(variants: dict[str, Variant], function: Function | None) -> Variant | None:
    return None if function is None else variants.get(function.name)


# -- two recordings --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairState:
    """A pair with its state, and the figures that differ; none of what is the same."""

    pair: Pair
    state: State
    resources: tuple[Change, ...] = ()


def compare_recordings(
    a: Analyst, b: Analyst, stage: Stage | None = None, exact: bool = False
) -> tuple[PairState, ...]:
    """Every variant of two recordings in its pair.

    ``stage``: compare that one instead (SASS is disassembled only so); ``exact``: its text.
    """
    out = []
    for one in recordings.pair(entries(a), entries(b)):
        if one.a is None or one.b is None:
            state = State.ADDED if one.a is None else State.REMOVED
        else:
            same = _same((a, b), (one.a.variant, one.b.variant), stage, exact)
            state = State.SAME if same else State.CHANGED
        x, y = (None if e is None else e.variant for e in (one.a, one.b))
        figures = () if state is State.SAME else tuple(_deltas(a, b, x, y))
        out.append(PairState(one, state, figures))
    return tuple(out)


def entries(reader: Reader) -> Iterator[Entry]:
    """The variants of a recording with digests of their sources, for pairing."""
    for kernel, variant in reader.recording.variants():
        lines = own_source(reader, variant)
        text = "\n".join(lines) if lines is not None else None
        held = None if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape"))
        yield Entry(kernel, variant, held.digest() if held is not None else None)


def _same(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage | None, exact: bool
) -> bool:
    """Whether two are the same program: see ``recordings``."""
    if stage is not None:
        return _same_at(readers, pair, stage_of(*pair, stage), exact)
    both = list(shared_stages(pair))
    decided = False
    if Stage.PTX in both:
        if not _same_at(readers, pair, Stage.PTX, exact) or pair[0].target != pair[1].target:
            return False
        decided = True
    if Stage.SASS in both:
        return _same_code(pair, exact)
    if not decided:
        try:
            return _same_at(readers, pair, stage_of(*pair), exact)
        except UsageError:
            return pair[0].hash == pair[1].hash  # nothing was recorded but their names
    return True


def _same_at(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage, exact: bool
) -> bool:
    held = [v.stages[stage].content.read() for v in pair]
    if held[0] == held[1] and pair[0].symbol == pair[1].symbol:
        return True
    if exact:
        return False
    return alike(readers, pair, stage) is True


def _same_code(pair: tuple[Variant, Variant], exact: bool) -> bool:
    """Machine code alone, where the files differ: they also hold line numbers and paths."""
    cubins = [v.stages[Stage.SASS].content.read() for v in pair]
    if cubins[0] == cubins[1] and pair[0].symbol == pair[1].symbol:
        return True
    if exact:
        return False
    known = [read_cubin(data) for data in cubins]
    code = [
        None if found is None else found.code.get(variant.symbol)
        for found, variant in zip(known, pair, strict=True)
    ]
    return code[0] is not None and code[0] == code[1]


def _deltas(a: Reader, b: Reader, x: Variant | None, y: Variant | None) -> Iterator[Change]:
    left = None if x is None else a.resources(x)
    right = None if y is None else b.resources(y)
    for one in fields(Resources):
        change = Change(
            one.name,
            None if left is None else getattr(left, one.name),
            None if right is None else getattr(right, one.name),
        )
        if change.differs:
            yield change
