"""Bank conflicts in shared memory, counted from the addresses of a warp's lanes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    number,
    plural,
)
from inspector.analyse.hints.touched import runs
from inspector.analyse.hints.warp import WarpAccess
from inspector.base.model import Origin, Stage

RULE = "bank-conflicts"

BANKS = 32
BANK_BYTES = 4


def bank_conflicts(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Lanes that want different words of one bank at once.

    A warp's 4-byte access is one pass over the banks where all words are in different banks;
    lanes that want the same word share it. 8 and 16 bytes a lane are moved in halves and quarters
    of the warp, so what counts is passes against those that the width takes anyway.
    """
    limit = number(thresholds, RULE, "times")
    accessed = runs(subject)
    if not accessed:
        return
    degrees = [{a.line: degree(a) for a in run.values() if a.space == "shared"} for run in accessed]
    lines = set.intersection(*(set(d) for d in degrees))
    least = {n: min(d[n] for d in degrees) for n in lines}
    bad = sorted(n for n in lines if least[n] >= limit)
    if not bad:
        return
    worst = max(least[n] for n in bad)
    several = " at least" if len(accessed) > 1 else ""
    yield Finding(
        RULE,
        "hint",
        f"{plural(len(bad), 'access')} to shared memory with bank conflicts,{several} {worst}-way "
        f"in the worst: lanes of a warp want different words of the same of its {BANKS} banks, and "
        f"the access is repeated until all are served (computed from the addresses of a block's "
        f"first warp). {cure_of_conflicts(subject)}",
        {Stage.PTX: tuple(bad)},
        estimated=True,
    )


def cure_of_conflicts(subject: HintSubject) -> str:
    """What takes bank conflicts away."""
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return (
            "Triton chose this layout by how the block is loaded and used (turned round for "
            "tl.dot, or transposed): load it the other way round, or try another block shape or "
            "num_warps."
        )
    return "Pad the tile's rows by one element, or swizzle the index."


def degree(access: WarpAccess) -> int:
    """How many times the passes that an access of its width takes without conflicts."""
    lanes = access.addresses
    a_pass = max(BANKS * BANK_BYTES // max(access.width, BANK_BYTES), 1)
    passes = least = 0
    for start in range(0, len(lanes), a_pass):
        words: dict[int, set[int]] = defaultdict(set)
        for address in lanes[start : start + a_pass]:
            for word in range(
                address // BANK_BYTES, (address + access.width - 1) // BANK_BYTES + 1
            ):
                words[word % BANKS].add(word)
        passes += max(len(w) for w in words.values())
        least += 1
    return passes // least if least else 1
