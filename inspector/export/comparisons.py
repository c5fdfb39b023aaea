"""Variants that a page compares, and what differs between two of them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import combinations, pairwise

from inspector.base.errors import PtxviewError
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Stage, Variant
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.compare import Compared, compare
from inspector.reader.reader import Reader
from inspector.reader.variant_facts import is_available
from inspector.render import diff_text

KernelVariant = tuple[Kernel, Variant]

COMPARED_STAGES = (Stage.PTX, Stage.SASS)
MAX_PAIRS = 80
"""Pairs that are compared: each takes a tenth of a second, and some kilobytes of a page."""
MAX_FULLY_COMPARED = 5  # variants of a kernel up to which each is compared with each
MAX_LISTING_LINES = 20_000  # lines beyond which two listings are left to ``ptxview diff``
SIGNS = {sign: n for n, sign in enumerate(Sign)}


def pairs_of(variants: Sequence[KernelVariant]) -> list[tuple[int, int]]:
    """Pairs of places among ``variants``: of few variants of a kernel each with each, of many each
    with its neighbour and with the best, which is the tuner's or the first."""
    out = [(0, 1)] if len(variants) == 2 else []
    by_kernel = by_key((id(kernel), place) for place, (kernel, _) in enumerate(variants))
    for places in by_kernel.values():
        winners = [p for p in places if (variants[p][1].autotune or {}).get("winner")]
        best = winners[0] if winners else places[0]
        next_places = dict(pairwise(places))
        for place, other in combinations(places, 2):
            are_neighbours = next_places.get(place) == other
            if len(places) <= MAX_FULLY_COMPARED or best in (place, other) or are_neighbours:
                out.append((place, other))
    return list(dict.fromkeys(out))[:MAX_PAIRS]


def comparisons(reader: Reader, pair: tuple[Variant, Variant]) -> Iterator[tuple[Stage, object]]:
    """What ``diff`` says of two variants, by stage; nothing of a stage that one of them lacks."""
    for stage in COMPARED_STAGES:
        with suppress(PtxviewError):
            if all(
                is_available(v, stage)
                and len(reader.stages.listing(v, stage).lines) <= MAX_LISTING_LINES
                for v in pair
            ):
                comparison = compare((reader, reader), pair, stage)
                everything = diff_text.figure_groups(comparison.summary, everything=True)
                yield (
                    stage,
                    {
                        "identical": comparison.diff.identical,
                        "explanation": comparison.explanation,
                        "figures": [row for group in everything for row in group],
                        "hints": list(diff_text.hints(comparison.summary)),
                        "rows": [_aligned_row(comparison, row) for row in comparison.rows()],
                    },
                )


def _aligned_row(comparison: Compared, row: BesideRow) -> list[object]:
    """Sign, line of a, line of b; which characters differ, or where it was moved to."""
    out: list[object] = [SIGNS[row.sign], row.a or 0, row.b or 0]
    if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
        out += list(comparison.intra(row.a, row.b))
    elif row.other is not None:
        out.append(row.other)
    return out
