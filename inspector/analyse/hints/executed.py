"""Hints of what happened when blocks of a launch were run: accesses, branches and lanes as counted.

The counts come from outside: nothing is run here. They are exact for the blocks that were run, and
a finding says how many those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from inspector.analyse.hints.access import SECTOR_BYTES, UNCOALESCED, cure_of_layout
from inspector.analyse.hints.banks import BANKS, cure_of_conflicts
from inspector.analyse.hints.banks import RULE as CONFLICTS
from inspector.analyse.hints.counts import ExecutedAccess, ExecutedBranch, ExecutedFacts
from inspector.analyse.hints.masks import IDLE
from inspector.analyse.hints.subject import WARP, Finding, HintSubject, Thresholds, number, plural
from inspector.base.model import Origin, Stage

DIVERGENCE = "divergence"
REPEATED = "redundant-loads"


COUNTED_ALONE = frozenset((DIVERGENCE, REPEATED))
"""Rules of which the code alone tells nothing: no gate can ask for them."""
REPLACED = frozenset((UNCOALESCED, CONFLICTS))
"""Rules that guess from the code what is counted here: nothing is guessed where it was counted."""
EXPLAINED = frozenset((IDLE, "masked-lanes", DIVERGENCE))
"""Rules that say why lanes have no work: one that only says that they have none adds nothing."""


def with_executed(
    subject: HintSubject, guessed: Sequence[Finding], thresholds: Thresholds
) -> tuple[Finding, ...]:
    """The findings of the code, with what was counted in place of what is guessed of it."""
    facts = subject.executed
    if facts is None:
        return tuple(guessed)
    kept = [finding for finding in guessed if finding.rule not in REPLACED]
    counted = list(_counted(subject, facts, thresholds))
    others = [finding for finding in counted if finding.rule != IDLE]
    explained = not EXPLAINED.isdisjoint(f.rule for f in (*kept, *others))
    return (*kept, *(others if explained else counted))


def _counted(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    yield from _scattered(subject, facts, thresholds)
    yield from _conflicting(subject, facts, thresholds)
    yield from _divergent(subject, facts, thresholds)
    yield from _idle(facts, thresholds)
    yield from _repeated(facts, thresholds)


def _lines(those: Iterable[ExecutedAccess | ExecutedBranch]) -> dict[Stage, tuple[int, ...]]:
    return {Stage.PTX: tuple(sorted({one.line for one in those}))}


def _scattered(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    limit = number(thresholds, UNCOALESCED, "sectors_times")
    least = number(thresholds, UNCOALESCED, "lanes")
    bad = [
        one
        for one in facts.accesses
        if one.space == "global"
        and one.filled
        and one.together >= limit * one.filled
        and one.lanes >= least * one.requests
    ]
    if not bad:
        return
    worst = max(bad, key=lambda one: one.together / one.filled)
    moved, wanted = sum(a.sectors for a in bad), sum(a.least_sectors for a in bad)
    yield Finding(
        UNCOALESCED,
        "warn",
        f"{plural(len(bad), 'access')} to global memory in which the lanes of a warp are far "
        f"apart: {moved:,} sectors of {SECTOR_BYTES} bytes for data that fill {wanted:,}, "
        f"{worst.sectors / worst.requests:.3g} a request in the worst, where "
        f"{worst.least_sectors / worst.requests:.3g} would do. Memory moves whole sectors, so most "
        "of what it moves is thrown away. Let neighbouring lanes have neighbouring elements: "
        f"{cure_of_layout(subject)}.",
        _lines(bad),
        blocks=facts.blocks,
    )


def _conflicting(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    limit = number(thresholds, CONFLICTS, "times")
    bad = [
        one
        for one in facts.accesses
        if one.space == "shared"
        and one.least_wavefronts
        and one.wavefronts >= limit * one.least_wavefronts
    ]
    if not bad:
        return
    worst = max(bad, key=lambda one: one.wavefronts / one.least_wavefronts)
    waves, least = sum(a.wavefronts for a in bad), sum(a.least_wavefronts for a in bad)
    yield Finding(
        CONFLICTS,
        "hint",
        f"{plural(len(bad), 'access')} to shared memory with bank conflicts: {waves:,} wavefronts "
        f"where {least:,} would do, {worst.wavefronts / worst.least_wavefronts:.3g} times as many "
        f"in the worst. Lanes of a warp want different words of the same of its {BANKS} banks, and "
        f"the access is repeated until all are served. {cure_of_conflicts(subject)}",
        _lines(bad),
        blocks=facts.blocks,
    )


def _divergent(
    subject: HintSubject, facts: ExecutedFacts, thresholds: Thresholds
) -> Iterator[Finding]:
    share = number(thresholds, DIVERGENCE, "share")
    bad = [b for b in facts.branches if b.divergent and b.divergent >= share * b.warps]
    room = WARP * facts.instructions
    lost = 1 - facts.threads / room if room else 0.0
    if not bad or lost < number(thresholds, DIVERGENCE, "lost"):
        return
    warps, parted = sum(b.warps for b in bad), sum(b.divergent for b in bad)
    yield Finding(
        DIVERGENCE,
        "hint",
        f"{plural(len(bad), 'branch')} at which the lanes of {parted:,} of {warps:,} warps part: "
        f"the two ways are run one after the other, each with the other's lanes idle, {lost:.0%} "
        f"of all lanes' turns. {_cure_of_divergence(subject)}",
        _lines(bad),
        blocks=facts.blocks,
    )


def _cure_of_divergence(subject: HintSubject) -> str:
    if subject.kernel.origin in (Origin.TRITON, Origin.INDUCTOR):
        return (
            "In Triton's code such a branch stands in a function that goes another way by the "
            "value, as tanh and pow do: a formula of exp and tl.where has none."
        )
    return (
        "Let the condition be the same for a whole warp (by threadIdx.x / 32, by blocks), sort the "
        "data by it, or compute both and select."
    )


def _idle(facts: ExecutedFacts, thresholds: Thresholds) -> Iterator[Finding]:
    those = [one for one in facts.accesses if one.requests]
    requests, lanes = sum(one.requests for one in those), sum(one.lanes for one in those)
    limit = number(thresholds, IDLE, "share")
    if not requests or 1 - lanes / (WARP * requests) < limit:
        return
    bad = [one for one in those if 1 - one.lanes / (WARP * one.requests) >= limit]
    yield Finding(
        IDLE,
        "hint",
        f"{lanes / requests:.3g} of a warp's {WARP} lanes have part in an access to memory, on "
        f"average of {requests:,}: the others are masked off, were never started, or left before. "
        "Warps are scheduled whole: give every lane an element, in blocks whose size is a multiple "
        f"of {WARP}, or start fewer threads.",
        _lines(bad),
        blocks=facts.blocks,
    )


def _repeated(facts: ExecutedFacts, thresholds: Thresholds) -> Iterator[Finding]:
    loads = [a for a in facts.accesses if a.space == "global" and a.kind == "load" and a.followed]
    share = number(thresholds, REPEATED, "share")
    bad = [one for one in loads if one.repeated >= share * one.followed]
    again, lanes = sum(one.repeated for one in loads), sum(one.followed for one in loads)
    if not bad or again < share * lanes:
        return
    yield Finding(
        REPEATED,
        "hint",
        f"{again:,} of {lanes:,} loads of lanes from global memory that were followed are of what "
        "the same thread has loaded before, and nothing was stored there since: a cache may answer "
        "them, and each takes an instruction and its latency all the same. Keep the value in a "
        "register, or load it before the loop; __restrict__ lets the compiler of CUDA C++ do so.",
        _lines(bad),
        blocks=facts.blocks,
    )
