"""Which variants of a recording are worth comparing, and what ``diff`` says of them.

A page can hold any two texts against each other by itself; only what was compared here says
whether they are the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.text import shown
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.compare import Compared, compare
from inspector.reader.reader import Reader
from inspector.report import diff_text

STAGES = (Stage.PTX, Stage.SASS)
MOST = 80
"""Pairs that are compared: each takes a tenth of a second, and some kilobytes of a page."""
ALL_OF = 5
"""Variants of a kernel up to which each is compared with each."""
LONGEST = 20_000
"""Lines beyond which two listings are left to ``ptxview diff``."""
SIGNS = {sign: n for n, sign in enumerate(Sign)}

Found = tuple[Kernel, Variant]


def chosen(variants: Sequence[Found]) -> list[tuple[int, int]]:
    """Pairs of places among ``variants``: of few variants of a kernel each with each, of many each
    with its neighbour and with the best, which is the tuner's or the first."""
    by_kernel: dict[int, list[int]] = {}
    for place, (kernel, _) in enumerate(variants):
        by_kernel.setdefault(id(kernel), []).append(place)
    out: dict[tuple[int, int], None] = dict.fromkeys([(0, 1)] if len(variants) == 2 else [])
    for places in by_kernel.values():
        best = next((p for p in places if (variants[p][1].autotune or {}).get("winner")), places[0])
        for (n, place), (m, other) in combinations(enumerate(places), 2):
            if len(places) <= ALL_OF or best in (place, other) or m == n + 1:
                out[place, other] = None
    return list(out)[:MOST]


def compared(reader: Reader, pair: tuple[Variant, Variant]) -> Iterator[tuple[Stage, object]]:
    """What ``diff`` says of two variants, by stage; nothing of a stage that one of them lacks."""
    for stage in STAGES:
        files = [v.stages.get(stage) for v in pair]
        if any(f is None or f.costly for f in files):
            continue
        try:
            if max(len(reader.listing(v, stage).lines) for v in pair) > LONGEST:
                continue
            yield stage, _value(compare((reader, reader), pair, stage))
        except PtxviewError:
            continue


def _value(one: Compared) -> dict[str, object]:
    summary = one.summary
    rows = [row for group in diff_text.figure_groups(summary, everything=True) for row in group]
    return {
        "identical": one.diff.identical,
        "explanation": [shown(text) for text in one.explanation],
        "figures": rows,
        "gained": [diff_text.hint(f) for f in summary.gained],
        "lost": [diff_text.hint(f) for f in summary.lost],
        "rows": [_row(one, row) for row in one.rows()],
    }


def _row(one: Compared, row: BesideRow) -> list[object]:
    """A row as sign, line of a, line of b, and for a changed one which characters differ, for a
    moved one where it stands on the other side."""
    out: list[object] = [SIGNS[row.sign], row.a or 0, row.b or 0]
    if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
        out += list(one.intra(row.a, row.b))
    elif row.other is not None:
        out.append(row.other)
    return out
