"""A block with its steps: its bounds, its end, and the results of its lines."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.base.model import Stage
from inspector.execute import Facts, Memory, Program, Trace
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.calls.stepper import LineResult, Stepper, register_names
from inspector.execute.calls.tracing import TracedBlock, TraceLaunch, trace_block, trace_launch
from inspector.parsers import parse
from inspector.render import step as report
from tests.execute.calls.programs import kernel, written
from tests.helpers.ptxview import call

LOOP = kernel(
    "    mov.u32 %r4, 0;\n$LOOP:\n    add.s32 %r4, %r4, 1;\n    add.s32 %r5, %r4, %r1;\n"
    "    st.global.u32 [%rd1], %r5;\n    setp.lt.s32 %p1, %r4, 100000;\n    @%p1 bra $LOOP;"
)
PARTED = kernel(
    "    ld.global.f32 %f1, [%rd1];\n    setp.lt.s32 %p1, %r1, 8;\n    @%p1 bra $SMALL;\n"
    "    sqrt.approx.f32 %f2, %f1;\n$SMALL:\n    @%p1 st.global.f32 [%rd1], %f1;\n"
    "    st.global.u32 [%rd1], 7;"
)


def at(text: str, word: str) -> int:
    return next(n for n, said in enumerate(text.splitlines(), 1) if word in said)


def inputs_of(x: np.ndarray[Any, Any]) -> LaunchInputs:
    """The values at an address as torch's allocator gives one: sectors depend on that."""
    raw = np.empty(x.nbytes + 512, np.uint8)
    at = -raw.ctypes.data % 512
    own = raw[at : at + x.nbytes].view(x.dtype)
    own[:] = x
    inputs = LaunchInputs(Memory())
    inputs.arguments = [inputs.memory.add("x", own)]
    return inputs


def run(text: str, x: np.ndarray[Any, Any], **more: Any) -> TracedBlock:
    launch = TraceLaunch((1, 1, 1), (len(x), 1, 1))
    return trace_block(Program(text, "k"), launch, inputs_of(x), (0, 0, 0), budget=1 << 40, **more)


def stepper(text: str, x: np.ndarray[Any, Any], lane: int = 0) -> Stepper:
    return Stepper(run(text, x), {}, lambda line: None, lane)


@pytest.mark.nightly
@pytest.mark.parametrize("threads", [32, 1024])
def test_what_is_kept_of_a_long_block_stays_within_its_bound(threads: int) -> None:
    """By what Python has allocated: objects count as much as arrays where a block is small."""
    program, bound = Program(LOOP, "k"), 8 << 20
    trace = Trace(program, most_bytes=bound)
    inputs = inputs_of(np.zeros(threads, np.uint32))
    launch = TraceLaunch((1, 1, 1), (threads, 1, 1))
    tracemalloc.start()
    try:
        done = trace_block(program, launch, inputs, (0, 0, 0), budget=1 << 40, trace=trace)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bound / 2 < kept < 1.2 * bound
    assert done.ended is not None and "8 MiB" in done.ended and "before that are here" in done.ended
    steps = Stepper(done, {}, lambda line: None)
    steps.run("end")
    assert 0 < steps.step_index < 500_000 and steps.place() is not None


def test_it_ends_where_somebody_says_so_and_keeps_what_came_before() -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1000

    done = run(LOOP, np.zeros(32, np.uint32), stop=stop)
    assert len(done.trace.steps) == 1000 and done.fault is None
    assert done.ended is not None and "it was stopped" in done.ended


def test_what_is_counted_beside_the_steps_is_what_is_counted_alone() -> None:
    x = np.arange(64, dtype=np.float32)
    program, launch = Program(PARTED, "k"), TraceLaunch((1, 1, 1), (64, 1, 1))
    beside = run(PARTED, x.copy(), facts=Facts(program, values=False), stop=lambda: False).facts
    alone = trace_launch(program, launch, lambda: inputs_of(x.copy()))
    assert beside is not None
    for one, other in zip(beside.lines(), alone.facts.lines(), strict=True):
        assert (one.n, one.executed, one.active, one.divergent) == (
            other.n,
            other.executed,
            other.active,
            other.divergent,
        )
        assert one.accesses == other.accesses


# What lines did


def told(result: LineResult | None) -> str:
    return "" if result is None else report.result_text(result)


def test_a_line_shows_what_it_last_gave_the_lane_and_who_did_not_run_it() -> None:
    x = np.arange(64, dtype=np.float32) ** 2
    for lane, of_root, of_store in ((3, "[·]", "→ 9"), (20, "20", "[·]")):
        steps = stepper(PARTED, x.copy(), lane)
        load, root, store = (at(PARTED, w) for w in ("ld.global", "sqrt", "@%p1 st"))
        assert told(steps.result(load)) == ""  # not run yet
        steps.run(f"until {load}")
        assert told(steps.result(load)) == f"{lane**2}" and told(steps.result(root)) == ""
        steps.run("end")
        assert (told(steps.result(root)), told(steps.result(store))) == (of_root, of_store)
        assert told(steps.result(at(PARTED, "], 7"))) == "→ 7"
        steps.run("start")
        assert told(steps.result(load)) == told(steps.result(root)) == ""


def test_in_a_loop_a_line_shows_the_turn_at_hand() -> None:
    text = LOOP.replace("100000", "5")
    steps = stepper(text, np.zeros(64, np.uint32), lane=40)
    add, store = at(text, "add.s32 %r5"), at(text, "st.global")
    seen = []
    while (answer := steps.run(f"until {store}")).shows_place:
        seen.append((told(steps.result(add)), told(steps.result(store))))
        assert answer.place is not None and answer.place.line == store
    assert seen == [(f"{40 + n}", f"→ {40 + n}") for n in range(1, 6)]
    steps.run(f"before {add}")
    assert told(steps.result(store)) == "→ 44"  # the turn before: this one has not stored yet
    assert not steps.run("before 1").shows_place


def test_the_lanes_of_a_line_are_the_whole_blocks() -> None:
    x = np.arange(64, dtype=np.float32) ** 2
    steps = stepper(PARTED, x)
    assert steps.strips(at(PARTED, "sqrt")) == ()
    steps.run("end")
    (root,) = steps.strips(at(PARTED, "sqrt"))
    assert root.active == tuple(n >= 8 for n in range(64)) and root.values is not None
    assert list(root.values[8:]) == list(range(8, 64))
    signs = report.levels(root)
    assert signs[:8] == "·" * 8 and signs[8] == "▁" and signs[63] == "█"
    assert list(signs[8:]) == sorted(signs[8:])


def test_live_registers_are_those_that_are_read_later() -> None:
    text = LOOP.replace("100000", "3")
    steps = stepper(text, np.zeros(32, np.uint32))
    steps.run(f"until {at(text, 'st.global')}")
    assert [value.register for value in steps.live()] == ["%r1", "%rd1", "%r4"]
    steps.run("end")
    assert steps.live() == ()


def test_the_list_of_a_plain_terminal_shows_what_was_stored(tmp_path: Path) -> None:
    ptx, inputs = written(tmp_path, PARTED, x=np.arange(64, dtype=np.float32))
    given = ("step", ptx, "--grid", "1", "--threads", "64", "--inputs", inputs, "--lane", "3")
    words = "end; list 4; registers live"
    lines = call(*given, "--json", "--commands", words).text.splitlines()
    _, _, listed, live = map(json.loads, lines)
    stored = {one["n"]: one["stored"] for one in listed["lines"]}
    assert stored[at(PARTED, "@%p1 st")]["value"] == 3 and stored[at(PARTED, "], 7")]["value"] == 7
    assert stored[at(PARTED, "@%p1 bra")] is None
    assert live["values"] == [] and "nothing is read" in live["note"]
    assert "→ 3  @%p1 st.global" in call(*given, "--commands", words).text


def test_what_mlir_calls_a_constant_is_no_name_of_the_source() -> None:
    ptx = (
        kernel("    mov.u32 %r4, 0;\n    mov.u32 %r5, 1;")
        .replace("    mov.u32 %r4", "    .loc 1 7 3\n    mov.u32 %r4")
        .replace("    mov.u32 %r5", "    .loc 1 8 3\n    mov.u32 %r5")
    )
    ttir = (
        '#loc1 = loc("a.py":7:3)\n#loc2 = loc("a.py":8:3)\n'
        "%c0_i32 = arith.constant 0 : i32 loc(#loc1)\n%acc = arith.constant 1 : i32 loc(#loc2)\n"
    )
    named = register_names(
        Program(ptx + '\n.file 1 "a.py"\n', "k"),
        parse(Stage.PTX, ptx + '\n.file 1 "a.py"\n'),
        parse(Stage.TTIR, ttir),
        {},
    )
    assert sorted(named.values()) == ["acc"]
