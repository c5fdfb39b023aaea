"""Each hint fires at its threshold, and is silent on a twin of the input one step beyond it."""

from __future__ import annotations

import msgspec.structs
import pytest

from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.hints.access import with_executed
from inspector.analysis.hints.order import early_wait
from inspector.analysis.hints.rules import RULES
from inspector.analysis.hints.subject import (
    ExecutedAccess,
    ExecutedBranch,
    ExecutedFacts,
    HintSubject,
)
from inspector.base.model import Argument, Call, Stage
from inspector.parsers import parse
from tests.analysis.hints.test_hints import launched
from tests.analysis.hints.test_hints_ptx import LOOP, PLACE, SHARED, lane, ptx
from tests.helpers.hint_data import THRESHOLDS, pairs, rules


def strided_load(elements: int) -> HintSubject:
    """A warp whose lanes load floats that are this many elements apart."""
    return ptx(lane(f"mul.lo.s32 %r3, %r2, {elements};", "ld.global.f32 %f1, [%rd3];"))


def load_of_lanes(lanes: int) -> HintSubject:
    """The first lanes of a warp load floats that are 128 bytes apart."""
    guarded = f"setp.lt.u32 %p1, %r2, {lanes};\n@%p1 ld.global.f32 %f1, [%rd3];"
    return ptx(lane("shl.b32 %r3, %r2, 5;", guarded))


def load_of_one_bank(words: int) -> HintSubject:
    """A warp that loads this many words of one bank of shared memory."""
    address = f"min.u32 %r3, %r2, {words - 1};\nshl.b32 %r3, %r3, 7;"
    return ptx(f"{PLACE}{address}\nld.shared.f32 %f1, [%r3];")


def loop_of(body: str, instructions: int) -> HintSubject:
    """A loop of a body and additions, as many instructions of PTX in all."""
    control_instructions = 3
    additions = instructions - control_instructions - len(body.splitlines())
    return ptx(PLACE + LOOP.format("\n".join([body, *["add.f32 %f1, %f1, %f2;"] * additions])))


def rows_of(columns: int) -> HintSubject:
    """A kernel whose mask leaves this many of 1,024 columns."""
    subject = pairs("scale_kernel", num_warps=4, columns=781)
    arguments = (Argument("n_cols", "i32", columns),)
    launch = Call("triton", "scale_kernel", grid=(4, 1, 1), block=(128, 1, 1), arguments=arguments)
    return msgspec.structs.replace(subject, calls=(launch,))


def product_of(rows: int) -> HintSubject:
    """A product in a layout of plain threads, of tiles with this many rows."""
    subject = pairs("dot_kernel", PRECISION="ieee")
    text = subject.listings[Stage.TTGIR].text.replace("tensor<64x64xf32", f"tensor<{rows}x64xf32")
    listing = parse(Stage.TTGIR, text)
    facts = FunctionFacts(listing, listing.functions[0])
    return msgspec.structs.replace(
        subject,
        listings={Stage.TTGIR: listing},
        functions={Stage.TTGIR: listing.functions[0]},
        facts={Stage.TTGIR: facts},
    )


DIVISION = "div.s32 %r3, %r2, %r1;"
FROM_CODE = [
    ("uncoalesced-layout", strided_load(4), strided_load(3)),
    ("uncoalesced-layout", load_of_lanes(8), load_of_lanes(7)),
    ("bank-conflicts", load_of_one_bank(4), load_of_one_bank(3)),
    # A division counts as 23 instructions, a quarter of 92.
    ("slow-division", loop_of(DIVISION, 70), loop_of(DIVISION, 71)),
    ("barrier-in-loop", loop_of(SHARED, 16), loop_of(SHARED, 17)),
    # Four blocks of four warps have 128 registers a thread, three have up to 168.
    ("low-occupancy", launched(132 * 64, registers=129), launched(132 * 64, registers=128)),
    ("masked-lanes", rows_of(819), rows_of(820)),
    ("no-tensor-cores", product_of(16), product_of(8)),
    ("small-grid", launched(1055), launched(1057)),
    ("tail-effect", launched(3379), launched(3380)),
]


@pytest.mark.parametrize(
    ("rule", "subject", "twin"), FROM_CODE, ids=[rule for rule, _, _ in FROM_CODE]
)
def test_a_hint_fires_at_its_threshold_and_not_beyond(
    rule: str, subject: HintSubject, twin: HintSubject
) -> None:
    assert rule in rules(subject)
    assert rule not in rules(twin)


@pytest.mark.parametrize(
    ("name", "fires", "silent"), [("instructions", 4, 3), ("bytes", 5, 4), ("loads", 1, 0)]
)
def test_an_early_wait_is_one_up_to_its_thresholds(name: str, fires: int, silent: int) -> None:
    """The loop has one load, of 4 bytes, that the fourth instruction after it waits for."""
    subject = pairs("waiting")
    for limit, expected in ((fires, 1), (silent, 0)):
        thresholds = {"early-wait": {**THRESHOLDS["early-wait"], name: limit}}
        assert len(list(early_wait(subject, thresholds))) == expected, limit


def load(**counts: int) -> ExecutedFacts:
    """A load of global memory by whole warps, with these counts instead."""
    access = ExecutedAccess(1, "global", "load", requests=8, lanes=8 * 32)
    return executed(accesses=(msgspec.structs.replace(access, **counts),))


def shared_load(wavefronts: int) -> ExecutedFacts:
    access = ExecutedAccess(1, "shared", "load", requests=8, lanes=8 * 32, least_wavefronts=8)
    return executed(accesses=(msgspec.structs.replace(access, wavefronts=wavefronts),))


def branch(divergent: int, threads: int) -> ExecutedFacts:
    """A branch that parts some of ten warps, in a kernel of 100 instructions for 32 lanes."""
    return executed(threads, branches=(ExecutedBranch(1, 10, divergent),))


def executed(
    threads: int = 3200,
    accesses: tuple[ExecutedAccess, ...] = (),
    branches: tuple[ExecutedBranch, ...] = (),
) -> ExecutedFacts:
    return ExecutedFacts(1, 1, 100, threads, threads, accesses, branches)


FROM_COUNTS = [
    ("uncoalesced-layout", load(together=32, filled=8), load(together=31, filled=8)),
    (
        "uncoalesced-layout",
        load(together=32, filled=8, lanes=8 * 8),
        load(together=32, filled=8, lanes=8 * 8 - 1),
    ),
    ("bank-conflicts", shared_load(32), shared_load(31)),
    ("divergence", branch(2, 2800), branch(1, 2800)),
    ("divergence", branch(2, 2879), branch(2, 2881)),
    ("idle-lanes", load(lanes=8 * 24), load(lanes=8 * 24 + 1)),
    ("redundant-loads", load(followed=100, repeated=25), load(followed=100, repeated=24)),
]


@pytest.mark.parametrize(
    ("rule", "facts", "twin"), FROM_COUNTS, ids=[rule for rule, _, _ in FROM_COUNTS]
)
def test_a_counted_hint_fires_at_its_threshold_and_not_beyond(
    rule: str, facts: ExecutedFacts, twin: ExecutedFacts
) -> None:
    assert rule in counted_rules(facts)
    assert rule not in counted_rules(twin)


def counted_rules(facts: ExecutedFacts) -> set[str]:
    subject = msgspec.structs.replace(ptx(""), executed=facts)
    return {finding.rule for finding in with_executed(subject, (), THRESHOLDS)}


# Their threshold is that there is any: test_hints and test_hints_ptx have their twins.
WITHOUT_A_LIMIT = {
    "spills",
    "narrow-access",
    "uninlined-call",
    "local-memory",
    "fp64-promotion",
}


def test_every_hint_has_a_twin_near_its_threshold() -> None:
    tested = {rule for rule, _, _ in FROM_CODE} | {rule for rule, _, _ in FROM_COUNTS}
    assert tested | {"early-wait"} | WITHOUT_A_LIMIT == {*RULES, *THRESHOLDS}
