"""Approximate instructions: which there are, and that ours is the exact value, rounded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from inspector.execute import Program, approximations
from inspector.reader import tables
from tests.execute import programs, random_ptx
from tests.execute.programs import Array, launch

TABLE = tables.table("approximate")
KINDS = {"f32": "f", "f64": "g", "f16": "e", "bf16": "b", "f16x2": "E", "bf16x2": "B"}


def test_lines_of_a_kernel_that_a_gpu_may_round_otherwise() -> None:
    program = Program(programs.softmax(90).ptx)
    said = approximations(program, TABLE)
    assert {(a.opcode, a.bound) for a in said} == {
        ("ex2.approx.f32", "within 2 units in the last place"),
        ("div.full.f32", "within 2 units in the last place"),
    }
    for one in said:
        assert one.opcode in program.statement(one.line)
    assert approximations(Program(programs.square(90).ptx), TABLE) == ()
    assert {
        a.opcode.split(".")[0] for a in approximations(Program(programs.matmul().ptx), TABLE)
    } == {"wgmma"}


def one(opcode: str, words: Array) -> Array:
    kind = KINDS[opcode.rpartition(".")[2]]
    sources = kind * (2 if opcode.startswith("div") else 1)
    opcode = opcode.replace("approx.f64", "approx.ftz.f64").replace(
        "approx.bf16", "approx.ftz.bf16"
    )
    opcode = opcode.replace("tanh.approx.ftz", "tanh.approx")
    text = random_ptx.instruction_module([(opcode, kind, sources)])
    assert not Program(text).cannot()
    made = np.zeros(len(words), np.uint64)
    launch(text, (len(words) // 256,), 256, [words, made])
    return made


@pytest.mark.parametrize("opcode", [k for k in TABLE if "." in k])
def test_every_instruction_of_the_table_is_run(opcode: str) -> None:
    assert one(opcode, random_ptx.words(256, 1)).any()


SINGLES: dict[str, Callable[[float], float]] = {
    "ex2": lambda x: 2.0**x,
    "lg2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "rcp": lambda x: 1 / x,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


@pytest.mark.parametrize("base", sorted(SINGLES))
def test_singles_are_the_exact_value_rounded(base: str) -> None:
    """To half a unit in the last place, and what two roundings on the way may add to it."""
    x = np.exp2(np.random.default_rng(0).uniform(-6, 6, 512)).astype(np.float32)
    words = np.zeros((512, 4), np.uint64)
    words[:, 0] = x.view(np.uint32)
    made = one(f"{base}.approx.f32", words).astype(np.uint32).view(np.float32)
    exact = np.array([SINGLES[base](float(v)) for v in x])
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(made - exact) <= 0.5001 * spacing).all()
