"""Which blocks are simulated for a launch: such as do most of its work."""

from __future__ import annotations

import numpy as np
import pytest

from inspector.estimate.rows import LineCycles, choose_blocks
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


def test_the_blocks_are_named() -> None:
    assert LineCycles({}, 1024, 1031, 2048).blocks == "blocks 1,024 to 1,031 of 2,048"
    assert LineCycles({}, 0, 0, 1).blocks == "block 0 of 1"
