"""What is counted of a launch, against ncu on an H200 and against what sources say plainly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inspector.execute import Facts, Fault, Program, Trace
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
from tests.execute import programs
from tests.execute.programs import Array, launch

DATA = Path(__file__).parent.parent / "data" / "execute"
CONTROL = read_module(parse_ptx((DATA / "control.ptx").read_text("utf-8")))


def placed(*shape: int) -> Array:
    """Zeros where cudaMalloc would put them: at a multiple of 512."""
    count = int(np.prod(shape))
    whole = np.zeros(count + 128, np.float32)
    first = -whole.ctypes.data % 512 // 4
    return whole[first : first + count].reshape(shape)


def counted(
    program: Program,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: list[object],
    values: bool = False,
) -> Facts:
    facts = Facts(program, values=values)
    launch(program, grid, block, arguments, observer=facts)
    return facts


def test_divergence_and_lanes_that_are_off() -> None:
    x = np.ones(1000, np.int32)
    x[::32] = 6  # one lane of each warp goes round the loops
    program = Program(CONTROL, "collatz")
    facts = counted(program, (4,), (256,), [x, np.zeros(1000, np.int32), 1000])
    totals = facts.totals()
    assert 0 < totals.divergent < totals.branches
    stores = [x for x in facts.lines() if x.opcode.startswith("st.global")]
    assert sum(x.active for x in stores) == 1000
    inner = [x for x in facts.lines() if x.executed and x.active == x.executed]
    assert inner


def test_a_guard_that_is_off_is_counted_apart() -> None:
    program, arrays = Program(programs.square(90).ptx), [placed(10, 781), placed(10, 781)]
    facts = counted(program, (10,), (128,), [*arrays, 781, 781, 781])
    loads = [x for x in facts.lines() if x.opcode.startswith("ld.global")]
    assert sum(x.active for x in loads) == 7810
    assert all(x.threads == 1280 for x in loads)
    assert sum(x.threads - x.active for x in loads) == 8 * 1280 - 7810


def test_operations_and_bytes_of_a_product_are_counted() -> None:
    made = programs.matmul("fp16", 80)
    program = Program(made.ptx)
    facts = Facts(program)
    a, b, c = (np.zeros((128, 128), np.float16) for _ in range(3))
    given = [a, b, c, *[128] * 6]
    launch(program, (4,), made.threads, given, observer=facts, shared=made.shared)
    totals = facts.totals()
    assert totals.operations >= 2 * 128**3
    assert totals.operations < 2 * 128**3 * 1.01
    assert totals.intensity == totals.operations / totals.global_bytes
    assert sum(totals.opcodes.values()) == totals.instructions


def values_of(facts: Facts, opcode: str) -> list[tuple[object, ...]]:
    values = [v for x in facts.lines() if x.opcode.startswith(opcode) for v in x.values]
    return [
        (v.kind, v.least, v.greatest, v.distinct, v.nans, v.infinities, v.uniform_block)
        for v in values
    ]


def test_the_range_of_a_registers_values_is_kept() -> None:
    x = np.array([0.25] * 60 + [np.inf, np.nan, -4.0, 9.0], np.float32)
    program = Program(CONTROL, "logarithms")
    facts = counted(program, (1,), (64,), [x, np.zeros(64, np.float32)], values=True)
    assert values_of(facts, "ld.global")[0] == ("f32", -4.0, np.inf, 5, 1, 1, False)
    roots = values_of(facts, "sqrt")[0]
    assert roots[:6] == ("f32", 0.5, np.inf, 4, 2, 1)


def test_what_is_alike_in_a_block_and_in_the_grid() -> None:
    program = Program(CONTROL, "strided")
    facts = counted(program, (4,), (128,), [placed(512), placed(512), 1], values=True)
    block = next(line for line in facts.lines() if "%ctaid.x" in program.statement(line.n))
    assert (block.values[0].uniform_block, block.values[0].uniform_grid) == (True, False)
    thread = next(line for line in facts.lines() if "%tid.x" in program.statement(line.n))
    assert (thread.values[0].uniform_block, thread.values[0].distinct) == (False, None)
    size = next(line for line in facts.lines() if "%ntid.x" in program.statement(line.n))
    assert (size.values[0].uniform_grid, size.values[0].least) == (True, 128)


# One block, step by step.


def traced(name: str, arguments: list[object], block: int, **more: int) -> tuple[Program, Trace]:
    program = Program(CONTROL, name)
    trace = Trace(program, **more)
    launch(program, (2,), block, arguments, observer=trace, blocks=[1])
    return program, trace


def test_a_trace_goes_back() -> None:
    """A register has at each step its value then, despite later writes."""
    x = np.arange(1, 513, dtype=np.int32)
    program, trace = traced("collatz", [x, np.zeros(512, np.int32), 512], 256)
    register, writes = max(
        ((r, sum(r == n for s in trace.steps for n, _ in s.changes)) for r in range(50)),
        key=lambda pair: pair[1],
    )
    assert writes > 20
    now: Array | None = None
    for k, step in enumerate(trace.steps):
        for number, bits in step.changes:
            if number == register:
                now = np.broadcast_to(bits, (256,))
        shown = trace.bits(register, k)
        assert (shown is None) == (now is None)
        assert shown is None or np.array_equal(shown, np.asarray(now))
    assert program.code.names[register].startswith("%r")


def test_a_trace_finds_the_first_nan() -> None:
    x = np.full(64, 0.25, np.float32)
    x[5], x[7] = 1.0, -1.0
    out = np.zeros(64, np.float32)
    program, trace = traced("logarithms", [x, out], 64)
    nan = trace.first_nan()
    assert nan is not None and "sqrt" in program.statement(trace.steps[nan].line)
    values = trace.values(trace.steps[nan].changes[0][0], nan)
    assert values is not None and np.isnan(values).nonzero()[0].tolist() == [7]
    store = trace.store_to(out.ctypes.data + 4 * 9)
    assert store is not None and "st.global" in program.statement(trace.steps[store].line)
    assert trace.store_to(out.ctypes.data + 4 * 64) is None
    x = np.array([1, 2] * 64, np.int32)
    program, trace = traced("collatz", [x, np.zeros(128, np.int32), 128], 64)
    parting = trace.parting(0, 1)
    assert parting is not None and not trace.steps[parting].active.all()
    assert all(s.active[0] == s.active[1] for s in trace.steps[:parting])


def test_an_assertion_names_itself_and_its_thread() -> None:
    x = np.zeros(64, np.int32)
    x[40] = 100
    with pytest.raises(Fault, match=r"in\[threadIdx\.x\] < 100.*control\.cu, line \d+") as caught:
        launch(Program(CONTROL, "checked"), (1,), 64, [x])
    assert (caught.value.cause, caught.value.place.thread) == ("assertion", (40, 0, 0))
