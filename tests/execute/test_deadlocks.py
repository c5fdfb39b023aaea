"""Deadlocks of a ring of two stages between a producer and consumers: each names what is missing.

Warp 0 copies 512 bytes a turn, warps 1 to 3 read them. The ring is sound; each case plants a fault.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.execute import Fault, Program
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.calls.tracing import TracedLaunch, TraceLaunch, trace_launch
from inspector.execute.faults import Wait
from inspector.execute.memory import Memory
from tests.execute.calls.programs import kernel, written
from tests.execute.programs import launch
from tests.helpers import schemas
from tests.helpers.ptxview import call

TURNS = 6
SHARED = (
    ".shared .align 128 .b8 stage[1024];\n.shared .align 8 .b8 full[16];\n"
    ".shared .align 8 .b8 empty[16];"
)
RING = """
    mov.u32 %r10, stage;
    mov.u32 %r11, full;
    mov.u32 %r12, empty;
    mov.u32 %r20, 0;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra ready;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [empty], 96;
    mbarrier.init.shared::cta.b64 [empty+8], 96;
ready:
    bar.sync 0;
    setp.ge.s32 %p2, %r1, 32;
    and.b32 %r13, %r20, 1;
    @%p2 bra consumer;
    @%p1 bra done;
producer:
    and.b32 %r13, %r20, 1;
    shl.b32 %r14, %r13, 3;
    add.s32 %r15, %r12, %r14;
    shr.u32 %r16, %r20, 1;
    and.b32 %r16, %r16, 1;
    xor.b32 %r16, %r16, 1;
free:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r15], %r16;
    @!%p3 bra free;
    add.s32 %r17, %r11, %r14;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], 512;
    shl.b32 %r18, %r13, 9;
    add.s32 %r18, %r10, %r18;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r18], [%rd0], 512, [%r17];
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p4, %r20, 6;
    @%p4 bra producer;
    bra done;
consumer:
    and.b32 %r13, %r20, 1;
    shl.b32 %r14, %r13, 3;
    add.s32 %r15, %r11, %r14;
    shr.u32 %r16, %r20, 1;
    and.b32 %r16, %r16, 1;
filled:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r15], %r16;
    @!%p3 bra filled;
    shl.b32 %r18, %r13, 9;
    add.s32 %r18, %r10, %r18;
    ld.shared.u32 %r19, [%r18];
    add.s32 %r21, %r12, %r14;
    mbarrier.arrive.shared::cta.b64 _, [%r21];
    add.s32 %r20, %r20, 1;
    setp.lt.s32 %p4, %r20, 6;
    @%p4 bra consumer;
done:
"""
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r17], 512;"
FREE = "mbarrier.arrive.shared::cta.b64 _, [%r21];"
COPY = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r18], [%rd0], 512, [%r17];"
)
LEAVE = "setp.eq.s32 %p5, %r20, 3;\n    @%p5 bra done;\n    "
WARP_3_LEAVES = (
    "setp.ge.s32 %p5, %r3, 96;\n    setp.eq.and.s32 %p5, %r20, 3, %p5;\n    @%p5 bra done;"
)


def text_of(*changes: tuple[str, str]) -> str:
    """The ring with some texts replaced, each wherever it is."""
    body = RING
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    text = kernel(body, before=SHARED)
    return text.replace(".version 8.3", ".version 8.6").replace("sm_80", "sm_90")


def traced(text: str) -> TracedLaunch:
    def inputs() -> LaunchInputs:
        memory = Memory()
        return LaunchInputs(memory, [memory.add("x", np.arange(4096, dtype=np.int32))])

    return trace_launch(Program(text), TraceLaunch((2, 1, 1), (128, 1, 1)), inputs, races=True)


def deadlock(*changes: tuple[str, str]) -> tuple[Fault, str]:
    text = text_of(*changes)
    fault = traced(text).fault
    assert fault is not None
    assert fault.cause == "deadlock"
    return fault, text


def lines_of(text: str, part: str) -> list[int]:
    return [n for n, line in enumerate(text.split("\n"), 1) if part in line]


def missing(wait: Wait) -> tuple[Any, ...]:
    return wait.name, wait.phase, wait.parity, wait.pending, wait.expected, wait.nbytes


def test_the_sound_ring_comes_to_its_end_without_a_race() -> None:
    result = traced(text_of())
    assert result.ran == 2
    assert not result.all_races


def test_a_missing_arrival_is_of_a_barrier_at_which_no_line_arrives() -> None:
    fault, _ = deadlock((FREE, ""))
    first = fault.waits[0]
    assert missing(first) == ("empty", 0, 0, 96, 96, 0)
    assert (first.arrived, first.absent, first.unexecuted) == ((), (), ())
    assert fault.remedy is None


def test_a_wrong_count_at_the_init_is_named_with_the_right_one() -> None:
    fault, text = deadlock(("[empty], 96;", "[empty], 97;"), ("[empty+8], 96;", "[empty+8], 97;"))
    first = fault.waits[0]
    assert missing(first) == ("empty", 0, 0, 1, 97, 0)
    assert [(g.warps, g.arrivals) for g in first.arrived] == [((1, 2, 3), 96)]
    assert fault.remedy is not None
    inits = tuple(lines_of(text, "[empty"))
    assert (fault.remedy.lines, fault.remedy.count) == (inits[:2], 96)


@pytest.mark.parametrize(("loop", "change"), [
    ("free", ("    xor.b32 %r16, %r16, 1;\n", "")),
    ("filled", ("filled:", "xor.b32 %r16, %r16, 1;\nfilled:")),
])  # fmt: skip
def test_a_wait_for_the_wrong_parity_is_named(loop: str, change: tuple[str, str]) -> None:
    fault, text = deadlock(change)
    assert fault.remedy is not None
    line = lines_of(text, f"{loop}:")[0] + 1
    assert (fault.remedy.lines, fault.remedy.count) == ((line,), None)
    assert fault.place.line == line


@pytest.mark.parametrize(("change", "nbytes"), [
    ((EXPECT, "mbarrier.arrive.shared::cta.b64 _, [%r17], 1;"), -512),
    ((COPY, COPY.replace("512", "256")), 256),
    ((EXPECT, EXPECT.replace("512", "528")), 16),
    ((EXPECT, EXPECT.replace("512", "256")), -256),
])  # fmt: skip
def test_bytes_that_do_not_fit_are_counted(change: tuple[str, str], nbytes: int) -> None:
    fault, text = deadlock(change)
    first = fault.waits[0]
    assert first.name in ("full", "full+8")
    assert first.pending == 0
    assert first.nbytes is not None
    assert first.nbytes % nbytes == 0
    assert first.nbytes / nbytes > 0
    (copy,) = lines_of(text, "cp.async.bulk")
    assert copy in [group.line for group in first.arrived]


def test_a_producer_that_leaves_is_named_with_its_lines() -> None:
    fault, text = deadlock(("producer:\n", f"producer:\n    {LEAVE}"))
    first = fault.waits[0]
    assert missing(first) == ("full+8", 1, 1, 1, 1, 0)
    lines = lines_of(text, "expect_tx") + lines_of(text, "cp.async.bulk")
    assert [(g.line, g.warps, g.now) for g in first.absent] == [(n, (0,), None) for n in lines]


def test_a_consumer_warp_that_leaves_is_named_beside_those_that_arrived() -> None:
    fault, text = deadlock(
        ("consumer:\n", f"consumer:\n    {WARP_3_LEAVES}\n"), ("%r3, 96", "%r1, 96")
    )
    first = fault.waits[0]
    (line,) = lines_of(text, FREE)
    assert missing(first)[3:5] == (32, 96)
    assert [(g.line, g.warps, g.arrivals) for g in first.arrived] == [(line, (1, 2), 64)]
    assert [(g.line, g.warps, g.now) for g in first.absent] == [(line, (3,), None)]
    assert fault.remedy is None


def test_a_role_that_never_arrives_is_named_by_lines_that_were_not_executed() -> None:
    fault, text = deadlock(("    @%p1 bra done;\n", "    bra done;\n"))
    first = fault.waits[0]
    assert missing(first) == ("full", 0, 0, 1, 1, 0)
    assert list(first.unexecuted) == lines_of(text, "expect_tx") + lines_of(text, "cp.async.bulk")
    assert [(g.warps, g.line) for g in first.others] == [((0,), None)]


def test_a_named_barrier_says_who_is_there_and_where_the_others_are() -> None:
    body = "setp.lt.s32 %p1, %r1, 32;\n@%p1 bar.sync 1, 96;\n@%p1 ret;\nbar.sync 2, 64;"
    with pytest.raises(Fault) as caught:
        launch(Program(kernel(body)), (1,), (64,), [np.zeros(64, np.int32)])
    first, second = caught.value.waits
    assert (first.number, first.pending, first.expected) == (1, 64, 96)
    assert [(g.warps, g.line) for g in first.others] == [((1,), second.line)]
    assert (second.number, second.pending, second.expected) == (2, 32, 64)


def test_the_report_and_the_document_have_the_waits(tmp_path: Path) -> None:
    text = text_of((COPY, COPY.replace("512", "256")))
    ptx, inputs = written(tmp_path, text, x=np.arange(4096, dtype=np.int32))
    words = ("trace", ptx, "k", "--inputs", inputs, "--grid", "2", "--threads", "128")
    done = call(*words)
    assert done.status == 1
    out = " ".join(done.text.split())
    assert (
        "96 threads wait for phase 0 (parity 0) of the mbarrier full at byte 1,024: 256 bytes"
        in out
    )
    document = json.loads(call(*words, "--json").out)
    schemas.hold("trace", document)
    wait = document["fault"]["waits"][0]
    assert (wait["kind"], wait["bytes"]) == ("mbarrier", 256)
    assert wait["waiting"][0]["warps"] == [1, 2, 3]
