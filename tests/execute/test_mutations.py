"""Kernels that are wrong give wrong values or a fault: a change of one line must show."""

from __future__ import annotations

import re

import numpy as np
import pytest

from inspector.execute import Fault, LaunchError, Memory, Program, execute
from tests.execute import programs
from tests.execute.programs import launch

ROWS, COLUMNS = 40, 781


def right_softmax(text: str) -> bool:
    """Whether a softmax kernel gives what it should, and reaches nothing that is not its own."""
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    out = np.full_like(x, np.nan)
    try:
        launch(text, (ROWS,), 128, [out, x, COLUMNS, COLUMNS, COLUMNS], shared=16)
    except Fault:
        return False
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True))
    return bool(np.abs(out - powers / powers.sum(1, keepdims=True)).max() < 1e-7)


def test_the_kernel_as_it_is() -> None:
    assert right_softmax(programs.softmax(90).ptx)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"@%p\d+ ld\.global", "ld.global"),
        (r"@%p\d+ st\.global", "st.global"),
        (r"setp\.lt\.s32", "setp.le.s32"),
        (r"16, 31, -1", "8, 31, -1"),
        (r"ex2\.approx\.f32", "lg2.approx.f32"),
        (r"max\.f32", "min.f32"),
        (r"div\.full\.f32 (.*), (%r\d+), (%r\d+);", r"div.full.f32 \1, \3, \2;"),
        (r"sub\.f32 (.*), (%r\d+), (%r\d+);", r"sub.f32 \1, \3, \2;"),
        (r"mov\.b32\s+(%r\d+), -8388608", r"mov.b32 \1, 0"),
        (r"st\.shared\.b32 (.*), (%r\d+);", r"st.shared.b32 [0], \2;"),
        (r"mul\.lo\.s32", "add.s32"),
        (r", 3;", ", 2;"),
    ],
)
def test_a_change_of_a_sound_kernel_shows(pattern: str, replacement: str) -> None:
    text = programs.softmax(90).ptx
    changed = re.sub(pattern, replacement, text.replace("\t", " "))
    assert changed != text.replace("\t", " ")
    assert not right_softmax(changed)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans", "ldmatrix.sync.aligned.m8n8.x4"),
        (r"bar\.sync\s+0;", ""),
        (r"cp\.async\.cg\.shared\.global (.*), 0x10", r"cp.async.ca.shared.global \1, 0x8"),
    ],
)
def test_a_change_of_a_product_shows(pattern: str, replacement: str) -> None:
    made = programs.matmul("fp16", 80)
    a = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float16)
    exact = a.astype(np.float64) @ a.astype(np.float64)

    def error(text: str) -> float:
        c = np.zeros_like(a)
        try:
            launch(text, (4,), made.threads, [a, a, c, *[128] * 6], shared=made.shared)
        except Fault:
            return np.inf
        return float(np.abs(c - exact).max())

    assert error(made.ptx) < 0.03
    changed = re.sub(pattern, replacement, made.ptx)
    assert changed != made.ptx
    if pattern.startswith("bar"):
        # Lanes that run together need no barrier: what one forgets is not seen here.
        assert error(changed) < 0.03
    else:
        assert error(changed) > 0.1


HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, declared: str = "") -> str:
    return (
        f"{HEAD}{declared}.visible .entry k(.param .u64 a)\n{{\n.reg .b32 %r<9>;\n"
        f".reg .b64 %rd<9>;\n.reg .pred %p<3>;\nld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
    )


@pytest.mark.parametrize(
    ("body", "opcode", "reason"),
    [
        ("tcgen05.wait::ld.sync.aligned;", "tcgen05", "tensor memory"),
        ("tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [t, {%r5}];", "tex", "textures"),
        ("{ .reg .b64 f; mov.u64 f, %rd1; call f, (), proto; }", "call", "by its address"),
        ("frobnicate.b32 %r1, %r2;", "frobnicate", "no such instruction"),
        ("call.uni somewhere;", "call", "has no body"),
        (
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
            "[%rd1], [%rd2, {%r1, %r2, %r3, %r4}], [%rd3], {%r5};",
            "cp.async",
            "im2col",
        ),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_written(
    body: str, opcode: str, reason: str
) -> None:
    text = kernel(f"mov.b32 %r1, 7;\nst.global.b32 [%rd1], %r1;\n{body}")
    program = Program(text)
    (obstacle,) = program.cannot()
    assert obstacle.opcode.startswith(opcode)
    assert reason in obstacle.reason
    assert body.split(";")[0].split()[0] in text.split("\n")[obstacle.line - 1]
    memory, out = Memory(), np.zeros(1, np.uint32)
    with pytest.raises(Exception, match="cannot be run"):
        execute(program, (1,), (32,), [memory.add("out", out)], memory=memory)
    assert out[0] == 0


def test_launches_that_no_device_would_take() -> None:
    program = Program(programs.square(90).ptx)
    memory = Memory()
    with pytest.raises(LaunchError, match="takes 7 arguments"):
        execute(program, (1,), (128,), [0], memory=memory)
    with pytest.raises(LaunchError, match="demands blocks"):
        execute(program, (1,), (64,), [0] * 7, memory=memory)
    with pytest.raises(LaunchError, match="2,048 threads"):
        execute(Program(kernel("")), (1,), (2048,), [0], memory=memory)
    with pytest.raises(LaunchError, match="no kernel nobody"):
        Program(programs.square(90).ptx, "nobody")
    with pytest.raises(LaunchError, match="no block 7"):
        execute(Program(kernel("")), (3,), (32,), [0], memory=memory, blocks=[7])


def test_work_is_counted_alike_for_every_block() -> None:
    program = Program(programs.softmax(90).ptx)
    x, out = np.ones((1, COLUMNS), np.float32), np.zeros((1, COLUMNS), np.float32)
    one, many = (
        launch(program, (n,), 128, [out, x, 0, 0, COLUMNS], shared=16).work for n in (10, 1000)
    )
    assert many == 100 * one
