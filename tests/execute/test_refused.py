"""What is not run: instructions that have no translation, launches that no device would take."""

from __future__ import annotations

import re

import numpy as np
import pytest

from inspector.execute import LaunchError, Memory, Program, execute
from inspector.reader.tables import table
from tests.execute import programs
from tests.execute.programs import launch

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, declared: str = "") -> str:
    return (
        f"{HEAD}{declared}.visible .entry k(.param .u64 a)\n{{\n.reg .b32 %r<9>;\n"
        f".reg .b64 %rd<9>;\n.reg .pred %p<3>;\nld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
    )


@pytest.mark.parametrize(
    ("body", "opcode", "reason"),
    [
        ("tcgen05.shift.cta_group::1.down [%r1];", "tcgen05", ".shift of tcgen05"),
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


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("fma.rn.oob.f32 %r1, %r2, %r3, %r4;", "oob"),
        ("ld.global.v2.u4 {%r1, %r2}, [%rd1];", "u4"),
        ("ldmatrix.sync.aligned.m8n8.x1.b8.shared.b16 {%r1}, [%rd1];", "b8"),
        ("slct.ftz.b32.f32 %r1, %r2, %r3, %r4;", "ftz"),
        ("st.bulk.b32 [%rd1], %r1;", "bulk"),
        ("mov.b256 %r1, %r2;", "b256"),
        ("cvt.rn.f32.u3.u32 %r1, %r2;", "u3"),
        ("cp.async.bulk.cp_mask.global.shared::cta [%rd1], [%rd2], %r1;", "cp_mask"),
    ],
)
def test_a_word_that_is_not_known_is_refused_by_name(body: str, word: str) -> None:
    (obstacle,) = Program(kernel(body)).cannot()
    assert obstacle.reason == f".{word} of {body.split('.')[0]} is not emulated"


CACHING = re.compile(r"\.(ca|cg|cs|lu|cv|wb|wt|L[12]::\w+)")


@pytest.mark.parametrize("opcode", ["ld", "ld.global.nc", "ldu", "st"])
def test_where_a_value_is_cached_does_not_change_it(opcode: str) -> None:
    qualifiers = table("ptx_instructions_memory")[opcode]["qualifiers"]
    words = [w for w in qualifiers if CACHING.fullmatch(w)]
    assert words or opcode == "ldu"
    for word in words:
        full = opcode if "." in opcode else f"{opcode}.global"
        text = f"{full}{word}.b32"
        policy = ", %rd2" if word == ".L2::cache_hint" else ""
        load = "ld.global.b32 %r1, [%rd1];" if opcode == "st" else f"{text} %r1, [%rd1]{policy};"
        to = text if opcode == "st" else "st.global.b32"
        store = f"{to} [%rd1 + 4], %r1{policy if opcode == 'st' else ''};"
        memory, values = Memory(), np.array([7, 0], np.uint32)
        body = f"mov.b64 %rd2, 0;\n{load}\n{store}"
        execute(Program(kernel(body)), (1,), (1,), [memory.add("a", values)], memory=memory)
        assert values.tolist() == [7, 7], word


@pytest.mark.parametrize(
    "body",
    [
        "add.hi.s32 %r1, %r2, %r3;",
        "cvt.pack.sat.u3.s32.b32 %r1, %r2, %r3, %r4;",
        "szext.s32 %r1, %r2, %r3;",
        "prmt.b32.xyz %r1, %r2, %r3, %r4;",
        "mad24.lo.sat.s32 %r1, %r2, %r3, %r4;",
        "popc.u32 %r1, %r2;",
        "addc.sat.s32 %r1, %r2, %r3;",
        "cvt.sat.sat.u8.s32 %r1, %r2;",
    ],
)
def test_an_integer_instruction_in_a_form_that_is_not_known_is_refused(body: str) -> None:
    (obstacle,) = Program(kernel(body)).cannot()
    assert obstacle.opcode == body.split()[0]


@pytest.mark.parametrize(
    "body",
    [
        "vadd.u32.u32.u32.sat %r1, %r2, %r3;",
        "vadd.s32.s32.s32.min %r1, %r2, %r3, %r4;",
        "vset.s32.s32.lt.max %r1, %r2, %r3, %r4;",
        "vsub.u32.u32.u32 %r1.h1, %r2, %r3, %r4;",
        "vshr.u32.u32.u32.wrap %r1.h1, %r2.b1, %r3.b0, %r4;",
        "vshl.s32.s32.u32.sat.clamp %r1, %r2, %r3;",
        "vmad.u32.u32.u32.shr7 %r1, %r2, %r3, %r4;",
    ],
)
def test_video_forms_of_which_a_gpu_gives_other_values_than_the_isa_are_refused(body: str) -> None:
    (obstacle,) = Program(kernel(body)).cannot()
    assert obstacle.reason == "a GPU gives another value in this form than the PTX ISA says"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("vadd.s32.u32.s32 %r1, %r2.b4, %r3;", "form"),
        ("vadd2.s32.u32.s32 %r1, %r2.h04, %r3, %r4;", "form"),
        ("vadd4.s32.u32.s32 %r1.b4, %r2, %r3, %r4;", "form"),
        ("vmad.s32.s32.s32 %r1, -%r2, %r3, -%r4;", "form"),
        ("vshl.s32.u32.s32.wrap %r1, %r2, %r3;", "form"),
        ("vset.s32.u32 %r1, %r2, %r3;", "form"),
        ("add.s32 %r1, %r2.b0, %r3;", "part of a register"),
        ("add.s32 %r1.h0, %r2, %r3;", "part of a register"),
    ],
)
def test_parts_of_registers_that_ptxas_does_not_take_are_refused(body: str, reason: str) -> None:
    (obstacle,) = Program(kernel(body)).cannot()
    assert reason in obstacle.reason


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
    x, out = np.ones((1, 781), np.float32), np.zeros((1, 781), np.float32)
    one, many = (
        launch(program, (n,), 128, [out, x, 0, 0, 781], shared=16).work for n in (10, 1000)
    )
    assert many == 100 * one


def test_a_branch_to_a_label_that_is_not_there_names_it() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\nbra $gone;\n}\n"
    (obstacle,) = Program(text).cannot()
    assert "there is no label $gone in this function" in obstacle.reason
