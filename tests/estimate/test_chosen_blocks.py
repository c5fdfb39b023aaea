"""Which blocks are simulated for a launch: such as do most of its work."""

from __future__ import annotations

import numpy as np
import pytest

from inspector.estimate.rows import ChosenBlocks, LineCycles, choose_blocks
from inspector.execute import Program
from inspector.execute.calls.inputs import InputOptions, make_inputs
from inspector.execute.calls.tracing import TraceLaunch
from tests.execute.calls.programs import kernel

BLOCKS = 132


def leaving(first: int, last: int) -> str:
    """Blocks outside of a range return at once; the others compute for a while."""
    work = "    add.f32 %f1, %f1, %f1;\n" * 100
    return kernel(
        f"""    setp.lt.s32 %p1, %r0, {first};
    @%p1 bra END;
    setp.gt.s32 %p1, %r0, {last};
    @%p1 bra END;
    mov.f32 %f1, 0f3F800000;
{work}    st.global.f32 [%rd1], %f1;
END:"""
    )


@pytest.mark.parametrize(
    ("first", "last", "blocks", "share"),
    [
        (0, 131, range(73, 75), 1.0),
        (0, 127, range(73, 75), 1.0),
        (0, 63, range(36, 38), 0.5),
        (100, 131, range(120, 122), 0.3),
        (131, 131, range(73, 75), 1.0),  # no sampled block works
    ],
)
def test_blocks_that_return_at_once_do_not_stand_for_a_launch(
    first: int, last: int, blocks: range, share: float
) -> None:
    program = Program(leaving(first, last), "k")
    arrays = {"x": np.zeros(BLOCKS * 32, np.float32)}
    inputs = make_inputs(program, ["x"], None, InputOptions(arrays=arrays))
    chosen = choose_blocks(
        program, TraceLaunch((BLOCKS, 1, 1), (32, 1, 1)), inputs, 2, at_once=False
    )
    assert chosen.numbers == blocks
    assert chosen.share == pytest.approx(share, abs=0.06)


def by_column(turns: str) -> str:
    """Blocks whose loop takes so many turns of their column, ``%ctaid.x`` in %r1."""
    return kernel(
        f"""    mov.u32 %r1, %ctaid.x;
    mov.f32 %f1, 0f3F800000;
    {turns}
AGAIN:
    add.f32 %f1, %f1, %f1;
    sub.u32 %r1, %r1, 1;
    setp.gt.s32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    st.global.f32 [%rd1], %f1;"""
    )


def chosen_of(text: str, grid: tuple[int, int, int], at_once: bool) -> ChosenBlocks:
    program = Program(text, "k")
    arrays = {"x": np.zeros(BLOCKS * 32, np.float32)}
    inputs = make_inputs(program, ["x"], None, InputOptions(arrays=arrays))
    return choose_blocks(program, TraceLaunch(grid, (32, 1, 1)), inputs, 1, at_once)


def test_blocks_of_all_columns_are_compared() -> None:
    """As of a causal attention: 16 columns, of which each does more than the one before."""
    text = by_column("mad.lo.u32 %r1, %r1, 40, 40;")
    chosen = chosen_of(text, (16, 2, 8), at_once=False)
    column = chosen.numbers[0] % 16
    assert 9 <= column <= 13  # half of 136 sixteenths is done by column 11
    assert chosen.share * (column + 1) == pytest.approx(8.5, rel=0.15)
    longest = chosen_of(text, (16, 2, 8), at_once=True)
    assert longest.numbers[0] % 16 >= 13


def test_of_blocks_that_are_too_long_to_follow_the_first_takes_most_turns() -> None:
    text = by_column("mov.u32 %r1, 500000;")
    assert chosen_of(text, (132, 1, 1), at_once=True).numbers == range(1)
    assert chosen_of(text, (132, 1, 1), at_once=False).numbers == range(73, 74)


def test_the_blocks_are_named() -> None:
    assert LineCycles({}, 1024, 1031, 2048).blocks == "blocks 1,024 to 1,031 of 2,048"
    assert LineCycles({}, 0, 0, 1).blocks == "block 0 of 1"
