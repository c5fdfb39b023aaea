"""Rows side by side: each line once, pairs that have something in common, folds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.diff.beside import BesideRow, Sign, folded, rows_beside
from inspector.diff.compare import compare
from inspector.diff.listings import diff_listings
from inspector.diff.matching import Hunk, Op
from inspector.parsers import parse
from inspector.parsers.line import Line
from inspector.render.diff_text import side_by_side
from tests.helpers.ptxview import SAMPLE


def source(*lines: str) -> Sequence[Line]:
    return parse(Stage.SOURCE, "\n".join(lines), path="x.py").lines


def signs(
    hunks: list[Hunk], a: Sequence[Line], b: Sequence[Line]
) -> list[tuple[str, object, object]]:
    return [(r.sign.value, r.a, r.b) for r in rows_beside(hunks, (a, b))]


def test_lines_that_read_the_same_are_not_marked_as_changed() -> None:
    """Where only their operands come from elsewhere, or their place, or who inlined them."""
    pairs = (
        (Stage.PTX, "\t@%p1 ld.global.b32 %r1, [%rd1];", "\t@%p1 ld.global.b32 %r1, [%rd1];"),
        (Stage.PTX, "\tadd.s32 %r1, %r2, 1; // a.py:3", "\tadd.s32 %r1, %r2, 1;"),
        (Stage.SASS, "        /*0090*/    CS2R R16, SRZ ;", "        /*00b0*/    CS2R R16, SRZ ;"),
        (
            Stage.TTIR,
            "  %c = arith.constant 3 : i32 loc(#loc1)",
            "  %c = arith.constant 3 : i32 loc(#loc7)",
        ),
    )
    for stage, x, y in pairs:
        a, b = (parse(stage, f"{text}\n").lines for text in (x, y))
        assert signs([Hunk(Op.REPLACE, (1, 2), (1, 2))], a, b) == [("equal", 1, 1)], stage
    a, b = (parse(Stage.SASS, f"    /*0090*/  {text} ;").lines for text in ("CS2R R1", "CS2R R2"))
    assert signs([Hunk(Op.REPLACE, (1, 2), (1, 2))], a, b) == [("changed", 1, 1)]


def test_names_are_marked_if_nothing_else_differs() -> None:
    reads = open_reader(str(SAMPLE))
    kernel = next(k for k in reads.recording.kernels if k.name == "matmul_kernel")
    told = 0
    for pair in combinations(kernel.variants[:3], 2):
        compared = compare((reads, reads), pair, Stage.PTX)
        for row in compared.rows():
            if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
                both = zip(compared.listings, (row.a, row.b), strict=True)
                x, y = (one.lines[n - 1].text for one, n in both)
                assert x != y
                assert any(compared.intra(row.a, row.b)), (x, y)
                told += 1
    assert told > 10


def test_what_moved_stands_alone_in_both_places_and_names_the_other() -> None:
    lines = source("a = 1", "b = 2", "c = 3")
    held = [Hunk(Op.MOVED, (1, 2), (3, 4)), Hunk(Op.EQUAL, (2, 4), (1, 3))]
    found = list(rows_beside(held, (lines, lines)))
    assert found == [
        BesideRow(Sign.MOVED_AWAY, 1, None, 3),
        BesideRow(Sign.EQUAL, 2, 1),
        BesideRow(Sign.EQUAL, 3, 2),
        BesideRow(Sign.MOVED_HERE, None, 3, 1),
    ]


LOCATED = """
.visible .entry k()
{
	.reg .b32 %r<9>;
	.loc 1 4 2
	mov.b32 %r1, 7;
$L__tmp1:
	.loc 1 5 2
	add.s32 %r2, %r1, OPERAND;
EXTRA$L__tmp2:
	.loc 1 6 2
	st.global.b32 [%rd1], %r2;
	// end
	ret;
}
"""


@pytest.mark.parametrize("extra", ["", "\tmul.lo.s32 %r3, %r1, 3;\n\txor.b32 %r2, %r3, 1;\n"])
def test_locations_within_what_changed_are_no_change(extra: str) -> None:
    texts = (
        LOCATED.replace("OPERAND", "1").replace("EXTRA", ""),
        LOCATED.replace("OPERAND", "%r1")
        .replace("EXTRA", extra)
        .replace("st.global.b32", "st.global.cg.b32"),
    )
    a, b = (parse(Stage.PTX, text) for text in texts)
    diff = diff_listings(a, b)
    told = list(rows_beside(diff.hunks, (a.lines, b.lines), diff.silent))
    assert [r.a for r in told if r.a] == list(range(1, len(a.lines) + 1))
    assert [r.b for r in told if r.b] == list(range(1, len(b.lines) + 1))
    for row in told:
        one = a.lines[row.a - 1].text if row.a else None
        other = b.lines[row.b - 1].text if row.b else None
        quiet = {"", ".loc", "$L__tmp1:", "$L__tmp2:", "//"}
        if {(text or "").split(" ")[0].strip() for text in (one, other)} <= quiet:
            assert row.sign is Sign.EQUAL, (one, other)
        if row.sign is Sign.EQUAL and one is not None and other is not None:
            assert one == other
    assert [r.sign for r in told].count(Sign.INSERTED) == (2 if extra else 0)


TEXTS = st.lists(
    st.sampled_from(("x = 1", "y = x", "z = load(x)", "z = load(y)", "", "# said", "for i in r:")),
    max_size=14,
)


@given(TEXTS, TEXTS)
def test_every_line_is_in_one_row_in_the_order_of_its_side(a: list[str], b: list[str]) -> None:
    left, right = (parse(Stage.SOURCE, "\n".join(x), path="x.py") for x in (a, b))
    found = diff_listings(left, right)
    held = list(rows_beside(found.hunks, (left.lines, right.lines)))
    assert [r.a for r in held if r.a is not None] == list(range(1, len(left.lines) + 1))
    assert [r.b for r in held if r.b is not None] == list(range(1, len(right.lines) + 1))


@given(st.lists(st.sampled_from(list(Sign)[:-1]), max_size=30), st.integers(0, 4))
def test_folds_hide_only_equal_rows_and_count_them(held: list[Sign], context: int) -> None:
    whole = [BesideRow(sign, n, n) for n, sign in enumerate(held, 1)]
    out = list(folded(whole, context))
    assert [r for r in out if r.sign not in (Sign.FOLD, Sign.EQUAL)] == [
        r for r in whole if r.sign is not Sign.EQUAL
    ]
    hidden = sum(r.count for r in out if r.sign is Sign.FOLD)
    shown = sum(r.sign is Sign.EQUAL for r in out)
    assert hidden + shown == sum(r.sign is Sign.EQUAL for r in whole)
    assert all(r.count >= 2 for r in out if r.sign is Sign.FOLD)
    # next to a change, ``context`` equal rows are left of each stretch that is long enough
    for n, row in enumerate(whole):
        near = whole[max(n - context, 0) : n + context + 1]
        if row.sign is Sign.EQUAL and any(r.sign is not Sign.EQUAL for r in near):
            assert row in out


def drawn(a: str, b: str, width: int, colour: bool = False) -> list[str]:
    left, right = (parse(Stage.SOURCE, x, path="x.py") for x in (a, b))
    found = diff_listings(left, right)
    held = rows_beside(found.hunks, (left.lines, right.lines))
    spans = (((4, 5),), ((4, 5),))
    of: Any = SimpleNamespace(listings=(left, right), intra=lambda x, y: spans)
    made = side_by_side(of, held, width, colour)
    return [text.plain for text in made]


def test_signs_under_a_line_say_what_changed_without_colour() -> None:
    assert drawn("x = 1\ny = 2", "x = 3\ny = 2", 80) == [
        "1 ~ x = 1                              │1 ~ x = 3",
        "        ^                              │        ^",
        "2   y = 2                              │2   y = 2",
    ]
    assert drawn("x = 1\ny = 2", "x = 3\ny = 2", 80, colour=True) == [
        "1 ~ x = 1                              │1 ~ x = 3",
        "2   y = 2                              │2   y = 2",
    ]
