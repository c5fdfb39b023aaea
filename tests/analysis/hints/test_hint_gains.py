"""What a finding may gain at most: lanes, sectors, wavefronts and SMs, computed by hand."""

from __future__ import annotations

import msgspec.structs
import pytest

from inspector.analysis.hints.access import with_executed
from inspector.analysis.hints.rules import hints, pages
from inspector.analysis.hints.subject import (
    ExecutedAccess,
    ExecutedBranch,
    ExecutedFacts,
    Finding,
    HintSubject,
)
from inspector.base.model import Stage
from tests.analysis.hints.test_hint_thresholds import rows_of, strided_load
from tests.analysis.hints.test_hints import launched
from tests.analysis.hints.test_hints_launch import blocks_of_threads
from tests.analysis.hints.test_hints_ptx import PLACE, lane, ptx
from tests.helpers.hint_data import THRESHOLDS, findings, pairs

CONFLICT = f"{PLACE}min.u32 %r3, %r2, 3;\nshl.b32 %r3, %r3, 7;\nld.shared.f32 %f1, [%r3];"
FROM_CODE: list[tuple[str, HintSubject, float | None]] = [
    # 66 of the 2,112 blocks that 132 SMs hold at once, and 1,055 of them.
    ("small-grid", launched(66), 1 - 66 / 2112),
    ("small-grid", launched(1055), 1 - 1055 / 2112),
    # The second wave is half full; the third is a quarter full.
    ("tail-effect", launched(3168), 0.25),
    ("tail-effect", launched(4752), 0.25),
    ("tail-effect", launched(2113), 1 - 2113 / 4224),
    # 32 elements for 128 threads; 20 threads in a warp; 33 threads in two.
    ("idle-lanes", pairs("few_lanes", num_warps=4), 0.75),
    ("idle-lanes", blocks_of_threads(20), 12 / 32),
    ("idle-lanes", blocks_of_threads(33), 31 / 64),
    ("masked-lanes", rows_of(768), 0.25),
    # Lanes 16 bytes apart touch 16 sectors for the data of 4, at 128 bytes one each.
    ("uncoalesced-layout", strided_load(4), 0.75),
    ("uncoalesced-layout", strided_load(32), 1 - 4 / 32),
    # What nothing bounds.
    ("bank-conflicts", ptx(CONFLICT), None),
    ("low-occupancy", launched(132 * 64, registers=168), None),
    ("spills", launched(132, spill_store_bytes=8), None),
]


@pytest.mark.parametrize(("rule", "subject", "gain"), FROM_CODE)
def test_a_finding_of_the_code_bounds_what_a_cure_gains(
    rule: str, subject: HintSubject, gain: float | None
) -> None:
    assert findings(subject)[rule].gain == (None if gain is None else pytest.approx(gain))


def load(**counts: int) -> ExecutedAccess:
    """Eight loads of global memory by whole warps, with these counts."""
    access = ExecutedAccess(1, "global", "load", requests=8, lanes=8 * 32)
    return msgspec.structs.replace(access, **counts)


def shared(wavefronts: int, line: int = 2) -> ExecutedAccess:
    """Eight loads of shared memory by whole warps."""
    access = ExecutedAccess(line, "shared", "load", requests=8, lanes=8 * 32, least_wavefronts=8)
    return msgspec.structs.replace(access, wavefronts=wavefronts)


def executed(
    *accesses: ExecutedAccess,
    instructions: int = 100,
    threads: int = 3200,
    branches: tuple[ExecutedBranch, ...] = (),
) -> ExecutedFacts:
    """Counts of two of a launch's five blocks."""
    return ExecutedFacts(2, 5, instructions, threads, threads, accesses, branches)


SCATTERED = load(together=32, filled=8, sectors=32, least_sectors=8)
FROM_COUNTS: list[tuple[str, ExecutedFacts, float | None, tuple[str, ...]]] = [
    (
        "uncoalesced-layout",
        executed(SCATTERED),
        24 / 32,
        (
            "1 access to",
            "32 sectors of 32 bytes for data that fill 8, 4 a request",
            "where 1 would",
        ),
    ),
    # The other access moves 16 sectors that no cure of the first would save.
    ("uncoalesced-layout", executed(SCATTERED, load(sectors=16)), 24 / 48, ("1 access to",)),
    (
        "uncoalesced-layout",
        executed(SCATTERED, load(together=64, filled=8, sectors=64, least_sectors=16)),
        72 / 96,
        ("2 accesses to", "96 sectors of 32 bytes for data that fill 24, 8 a request", "where 2"),
    ),
    # 100 instructions take four schedulers 25 cycles; 256 take longer than the wavefronts.
    (
        "bank-conflicts",
        executed(shared(32)),
        24 / 32,
        ("32 wavefronts where 8 would do, 4 times as many in the worst",),
    ),
    ("bank-conflicts", executed(shared(32), instructions=256), 24 / 64, ("1 access to",)),
    (
        "bank-conflicts",
        executed(shared(32), shared(64), shared(8, line=3)),
        80 / 104,
        ("2 accesses to", "96 wavefronts where 16 would do, 8 times as many in the worst"),
    ),
    (
        "divergence",
        executed(threads=2400, branches=(ExecutedBranch(1, 10, 2), ExecutedBranch(2, 10, 1))),
        0.25,
        ("1 branch at which the lanes of 2 of 10 warps part", "25% of all lanes' turns"),
    ),
    (
        "divergence",
        executed(threads=2400, branches=(ExecutedBranch(1, 10, 2), ExecutedBranch(2, 4, 3))),
        0.25,
        ("2 branches at which the lanes of 5 of 14 warps part",),
    ),
    (
        "idle-lanes",
        executed(load(lanes=8 * 16), load()),
        0.25,
        ("24 of a warp's 32 lanes have part in an access to memory, on average of 16",),
    ),
    (
        "redundant-loads",
        executed(load(followed=100, repeated=25), load(followed=60, repeated=15)),
        None,
        ("40 of 160 loads of lanes",),
    ),
]


@pytest.mark.parametrize(("rule", "facts", "gain", "texts"), FROM_COUNTS)
def test_a_finding_of_counts_bounds_what_a_cure_gains(
    rule: str, facts: ExecutedFacts, gain: float | None, texts: tuple[str, ...]
) -> None:
    finding = findings_of_counts(facts)[rule]
    assert finding.gain == (None if gain is None else pytest.approx(gain))
    assert finding.blocks == (2, 5) and not finding.estimated
    for text in texts:
        assert text in finding.text


def findings_of_counts(facts: ExecutedFacts, *guessed: Finding) -> dict[str, Finding]:
    subject = msgspec.structs.replace(ptx(""), executed=facts)
    return {finding.rule: finding for finding in with_executed(subject, guessed, THRESHOLDS)}


def test_a_counted_finding_points_at_the_lines_that_have_its_fault() -> None:
    facts = executed(
        msgspec.structs.replace(SCATTERED, line=9),
        load(),
        msgspec.structs.replace(SCATTERED, line=4),
    )
    assert findings_of_counts(facts)["uncoalesced-layout"].lines == {Stage.PTX: (4, 9)}
    half = msgspec.structs.replace(load(lanes=8 * 16), line=7)
    quarter = msgspec.structs.replace(load(lanes=8 * 24), line=6)
    idle = findings_of_counts(executed(half, quarter, load()))["idle-lanes"]
    assert idle.lines == {Stage.PTX: (6, 7)}


MASKED = Finding("masked-lanes", "hint", "", gain=0.5)
GUESSED = Finding("uncoalesced-layout", "warn", "", estimated=True)


def test_a_guess_that_counts_replace_is_gone_and_a_mask_stays() -> None:
    for facts in (executed(), executed(load())):
        assert set(findings_of_counts(facts, MASKED, GUESSED)) == {"masked-lanes"}


def test_idle_lanes_add_nothing_to_a_rule_that_says_why() -> None:
    half = load(lanes=8 * 16)
    assert set(findings_of_counts(executed(half))) == {"idle-lanes"}
    assert set(findings_of_counts(executed(half), MASKED)) == {"masked-lanes"}
    parted = executed(half, threads=1600, branches=(ExecutedBranch(1, 1, 1),))
    assert set(findings_of_counts(parted)) == {"divergence"}


@pytest.mark.parametrize(
    ("rule", "subject"),
    [
        ("masked-lanes", rows_of(768)),
        ("idle-lanes", pairs("few_lanes", num_warps=4)),
        ("idle-lanes", blocks_of_threads(20)),
    ],
)
def test_idle_and_masked_lanes_say_what_was_measured_else_that_it_is_a_bound(
    rule: str, subject: HintSubject
) -> None:
    assert "That is a bound from the code, not measured." in findings(subject)[rule].text
    counted = msgspec.structs.replace(subject, executed=executed(load(lanes=8 * 28)))
    text = findings(counted)[rule].text
    assert "bound from the code" not in text
    measured = "In the 2 of 5 blocks that were executed, 12% of the lanes of accesses"
    assert measured in text
    without = msgspec.structs.replace(subject, executed=executed())
    assert "That is a bound from the code" in findings(without)[rule].text


def test_without_counts_every_guess_stays() -> None:
    assert with_executed(ptx(""), (MASKED, GUESSED), THRESHOLDS) == (MASKED, GUESSED)


@pytest.mark.parametrize(
    ("rule", "severity", "gain", "weight"),
    [
        ("spills", "warn", None, 1.0),
        ("low-occupancy", "hint", None, 0.5),
        ("spills", "info", None, 0.0),
        ("uncoalesced-layout", "warn", 0.25, 0.25),
        ("tail-effect", "hint", 0.75, 0.75),
        ("small-grid", "info", 0.75, 0.0),
        ("tail-effect", "hint", 0.0, 0.0),
        # Kernels seldom wait for lanes: a tenth of what these bound.
        ("masked-lanes", "hint", 0.5, 0.05),
        ("idle-lanes", "hint", 0.75, 0.075),
        ("idle-lanes", "info", 0.75, 0.0),
    ],
)
def test_findings_are_ranked_by_gain_else_by_severity(
    rule: str, severity: str, gain: float | None, weight: float
) -> None:
    assert Finding(rule, severity, "", gain=gain).weight == pytest.approx(weight)


def test_the_finding_that_may_gain_most_comes_first() -> None:
    """Half of a warp without a thread, and a load that uses an eighth of what it moves."""
    scattered = ptx(lane("shl.b32 %r3, %r2, 5;", "ld.global.f32 %f1, [%rd3];"))
    half = msgspec.structs.replace(
        scattered, calls=blocks_of_threads(16).calls, device=launched(1).device
    )
    found = hints(half, THRESHOLDS)
    assert [finding.rule for finding in found] == ["uncoalesced-layout", "idle-lanes"]
    assert [finding.weight for finding in found] == [1 - 2 / 16, pytest.approx(0.05)]


def test_a_note_says_what_a_finding_says() -> None:
    finding = Finding("spills", "warn", "text", estimated=True, blocks=(1, 2), gain=0.5)
    note = finding.note
    assert (note.rule, note.severity, note.text) == ("spills", "warn", "text")
    assert (note.estimated, note.blocks, note.gain) == (True, (1, 2), 0.5)


def test_rules_that_have_a_page_are_linked_once() -> None:
    rules = ("divergence", "spills", "divergence", "an ncu rule")
    linked = pages([Finding(rule, "hint", "") for rule in rules])
    assert [page.rpartition("#")[2] for page in linked] == ["divergence", "spills"]
