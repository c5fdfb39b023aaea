"""The aligner against the plain quadratic definition, and in bounded time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from inspector.diff.matching import Blocks, align

sequences = st.lists(st.integers(0, 6), max_size=40)


def longest(a: list[int], b: list[int]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


def holds(blocks: Blocks, a: list[int], b: list[int]) -> int:
    """Blocks are of equal items, apart and in order; how many items they hold."""
    x = y = 0
    for i, j, size in blocks:
        assert i >= x and j >= y and size > 0
        assert a[i : i + size] == b[j : j + size]
        x, y = i + size, j + size
    assert x <= len(a) and y <= len(b)
    return sum(size for _, _, size in blocks)


@given(sequences, sequences)
def test_alignment_is_a_longest_common_subsequence(a: list[int], b: list[int]) -> None:
    assert holds(align(a, b, anchors=False), a, b) == longest(a, b)


@given(sequences, sequences)
def test_anchors_keep_the_order_of_lines(a: list[int], b: list[int]) -> None:
    """Anchors may cost length, never order; what is unique in both and in order is matched."""
    blocks = align(a, b)
    holds(blocks, a, b)
    if sorted(a) == sorted(set(a)) and sorted(b) == sorted(set(b)):
        assert holds(blocks, a, b) == longest(a, b)


def test_tens_of_thousands_of_lines() -> None:
    """Bounded with and without anchors."""
    size = 30_000
    unlike = [i % 7 if i % 50 else 100 + i for i in range(size)]
    edited = [x for i, x in enumerate(unlike) if i % 97]
    alike = [i * i % 11 for i in range(size)]
    fewer = [x for i, x in enumerate(alike) if i % 101]
    for a, b, expected in ((unlike, edited, 0.95), (alike, fewer, 0.5)):
        start = time.thread_time()
        blocks = align(a, b)
        took = time.thread_time() - start
        assert holds(blocks, a, b) > expected * len(b)
        assert took < 20
