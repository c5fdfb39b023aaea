"""Integer instructions on edge values: the evaluator and executed PTX, against the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from inspector.analysis.hints.warp import compute
from inspector.semantics.instructions import ROWS, evaluate, form_of
from inspector.semantics.integers import to_integer
from tests.gpu.edge_values import Array, Form, cases, is_immediate, kernel, read_forms, run_here
from tests.gpu.edge_values import width_of as register_width
from tests.semantics import isa

TABLE = read_forms()
INTEGERS = [
    form
    for form in TABLE.forms
    if form.results[0] in ("pred", "b16", "b32", "b64")
    and all(isa.is_type(s.partition(":")[0]) or is_immediate(s) for s in form.sources)
]
CASES_A_FORM = 500


def some_cases(form: Form) -> Array:
    """Rows of operands, evenly spaced among every combination of the edge values."""
    words = cases(form, TABLE)
    step = len(words) // CASES_A_FORM | 1
    return np.ascontiguousarray(words[::step])


def operands_of(form: Form, row: Array) -> list[int]:
    """The operands of a case as unsigned bits, immediates in their places."""
    words = iter(row.tolist())
    return [int(s, 0) if is_immediate(s) else int(next(words)) for s in form.sources]


def expected(form: Form, rows: Array) -> list[int]:
    width = register_width(form.results[0])
    return [isa.value(form.opcode, operands_of(form, row), width) for row in rows]


def test_executed_integers_are_those_of_the_isa() -> None:
    wrong = {}
    for form in INTEGERS:
        rows = some_cases(form)
        results = run_here(kernel(form, form.sm), rows).tolist()
        pairs = zip(rows, results, expected(form, rows), strict=True)
        different = [
            f"{[hex(x) for x in row.tolist()]}: {ours:#x}, {right:#x} expected"
            for row, ours, right in pairs
            if ours != right
        ]
        if different:
            wrong[f"{form.opcode} {form.sources[-1]}"] = different[:2]
    assert not wrong


def test_evaluated_integers_are_those_of_the_isa() -> None:
    wrong = {}
    evaluated = set()
    for form in INTEGERS:
        if form_of(tuple(form.opcode.split("."))) is None or form.statements.count(";") > 1:
            continue
        evaluated.add(form.opcode)
        rows = some_cases(form)
        columns = list(zip(*(operands_of(form, row) for row in rows), strict=True))
        results = evaluate(form.opcode, columns)
        assert results is not None
        width = register_width(form.results[0])
        bits = [result & ((1 << width) - 1) for result in results]
        if bits != (right := expected(form, rows)):
            wrong[form.opcode] = list(zip(bits, right, strict=True))
    assert not wrong
    assert len(evaluated) > 350


def test_every_row_of_the_table_has_a_form_that_gives_several_values() -> None:
    given: dict[str, set[int]] = {}
    for form in INTEGERS:
        key = ".".join(word for word in form.opcode.split(".") if not isa.is_type(word))
        given.setdefault(key, set()).update(expected(form, some_cases(form)))
    assert [key for key in ROWS if len(given.get(key, ())) < 2] == []


@pytest.mark.parametrize(
    "opcode",
    [
        *("add.hi.s32", "mul.s32", "mul24.s32", "mul.lo.b32", "szext.s32", "shf.l.b32"),
        *(
            "bfe.b32",
            "prmt.b32.xyz",
            "cvt.pack.u8.s32.b32",
            "cvt.pack.sat.u3.s32.b32",
            "cvt.u4.u32",
        ),
        *("cvt.pack.sat.u4.s32", "setp.ltu.s32", "popc.u32", "mad24.lo.sat.s32", "add.sat.u32"),
    ],
)
def test_an_opcode_with_a_word_that_is_not_known_has_no_value(opcode: str) -> None:
    lanes = [[1, 2], [3, 4], [5, 6]]
    assert all(evaluate(opcode, lanes[:count]) is None for count in range(4))


def test_the_first_warp_of_a_hint_computes_as_executed_ptx_does() -> None:
    assert compute("bfe.s32", [(0xFF,), (0,), (8,)]) == (-1,)
    assert compute("prmt.b32", [(0x80,), (0,), (0x8888,)]) == (0xFFFFFFFF,)
    assert compute("prmt.b32.rc16", [(0x44332211,), (0,), (1,)]) == (0x44334433,)
    assert compute("mul24.lo.s32", [(0x1000001,), (0xFFFFFF,)]) == (-1,)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_floats_beyond_an_integer_type_become_its_bounds(dtype: type) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.array([1e30, -1e30, 2.0**31, 2.5, -0.5, float("inf")])
    assert to_integer(values, "rzi", dtype).tolist() == [
        high, low, min(2**31, high), 2, 0, high,
    ]  # fmt: skip
    assert to_integer(values[3:5], "rpi", dtype).tolist() == [3, 0]
    assert to_integer(np.array([3.5, 2.5]), "rni", dtype).tolist() == [4, 2]


def test_a_nan_becomes_0_or_the_highest_bit_alone() -> None:
    nan = float("nan")
    single, double = np.array([nan], np.float32), np.array([nan], np.float64)
    assert to_integer(single, "rzi", np.uint32).tolist() == [0]
    assert to_integer(double, "rzi", np.uint32).tolist() == [1 << 31]
    assert to_integer(double, "rzi", np.int32).tolist() == [-(1 << 31)]
    assert to_integer(single, "rzi", np.uint64).tolist() == [1 << 63]
    assert to_integer(single, "rzi", np.int64).tolist() == [-(1 << 63)]
