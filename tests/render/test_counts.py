"""Counts and sizes as they are said: one of a thing is one thing, and memory is in KiB."""

import pytest

from inspector.base.model import Call
from inspector.measure.profile.trace import Overhead
from inspector.render.calls import call_parts
from inspector.render.profile import sentence


@pytest.mark.parametrize(
    ("grid", "block", "said"),
    [
        ((1, 1, 1), (1, 1, 1), "1 block of 1 thread"),
        ((1, 1, 1), (128, 1, 1), "1 block of 128 threads"),
        ((8, 4, 1), (32, 8, 1), "8×4 blocks of 32×8 threads"),
        ((1, 4, 1), (1, 1, 8), "1×4 blocks of 1×1×8 threads"),
    ],
)
def test_a_launch_of_one_block_is_of_one_block(
    grid: tuple[int, int, int], block: tuple[int, int, int], said: str
) -> None:
    call = Call("triton", "k", grid=grid, block=block, shared_bytes=34_816)
    assert call_parts(call) == [f"{said}, 34 KiB shared"]


def test_a_window_of_one_launch_says_so() -> None:
    one = Overhead(
        window_us=100,
        devices=1,
        busy_us=5,
        kernels=1,
        kernel_us=5,
        median_kernel_us=5,
        launches=1,
        launch_us=4,
        median_launch_us=4,
        syncs=1,
        sync_us=2,
        gaps=1,
        gap_us=90,
        median_gap_us=90,
    )
    said = sentence(one)
    for part in ("1 launch takes", "1 kernel ", "1 gap between", "(1 call)"):
        assert part in said, (part, said)
    assert not any(f"1 {word}s" in said for word in ("launche", "kernel", "gap", "call"))
