"""What code looks like for reading, with its map, its gutter and its branches: pictures.

Run with --snapshot-update when a change is meant.
"""

from __future__ import annotations

import pytest

from tests.helpers.shared_app import lecture_app
from tests.tui.main.test_looks import Compare, pressing

SIZES = [(120, 36)]

sizes = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


def finding(name: str, *keys: str) -> tuple[str, ...]:
    """Filter the tree for a kernel, read it without the tree, and press keys."""
    return ("slash", *name, "enter", "b", "tab", *keys)


@sizes
def test_reading_and_the_loop_around(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing(*finding("matmul", "colon", *"452", "enter"))
    assert snap_compare(lecture_app, terminal_size=size, run_before=keys)


@sizes
def test_the_map(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing(*finding("softmax_k", "m", "colon", *"42", "enter"))
    assert snap_compare(lecture_app, terminal_size=size, run_before=keys)


@sizes
def test_the_peak_and_what_stands_below(snap_compare: Compare, size: tuple[int, int]) -> None:
    keys = pressing(*finding("softmax_k", "7", "c", "colon", *"52", "enter"))
    assert snap_compare(lecture_app, terminal_size=size, run_before=keys)
