"""Counts and sizes as they are said: one of a thing is one thing, and memory is in KiB."""

from __future__ import annotations

import pytest

from inspector.base.model import Call
from inspector.base.text import first_error, kibibytes
from inspector.measure.profile.trace import Overhead
from inspector.report.calls import described
from inspector.report.profile import sentence


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
    assert described(call) == [f"{said}, 34 KiB shared"]


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


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0"),
        (16, "16 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1040, "1.02 KiB"),
        (33_792, "33 KiB"),
        (99_328, "97 KiB"),
        (233_472, "228 KiB"),
        (1 << 20, "1,024 KiB"),
    ],
)
def test_memory_has_three_digits(count: int, said: str) -> None:
    assert kibibytes(count) == said


def test_the_line_of_an_error_that_says_what_it_is() -> None:
    """Of what torch and Triton raise."""
    quoted = "at 2:34:\ndef f(x):\n    tl.store(x, absent)\n        ^\nNameError('absent')\n"
    whole = "CompilationError: NameError('absent')"
    for text, line in (
        (quoted, "NameError('absent')"),
        (f"CompilationError: {quoted}\nSet TORCHDYNAMO_VERBOSE=1", whole),
        ("backend='inductor' raised:\nRuntimeError: no\n\nSet …", "RuntimeError: no"),
        (f"backend='inductor' raised:\nCompilationError: {quoted}", whole),
        ("backend='inductor' raised:", "backend='inductor' raised:"),
        ("at 2:34:\nnothing is quoted", "at 2:34:"),
        ("at 2:34:\nx\n^", "at 2:34:"),
        ("\n  said late", "said late"),
        ("", ""),
    ):
        assert first_error(text) == line
