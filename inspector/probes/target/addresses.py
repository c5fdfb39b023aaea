"""Device memory that is reached through addresses kept in memory: tables of pointers.

A grouped product gets a tensor of addresses. Where its launch is not run, what those point at is
as absent as the tensors that it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import native


def behind(starts: Iterable[int], steps: int) -> set[int]:
    """Where the memory starts that so many steps lead to, from the memory at these addresses.

    Every word of 64 bits that is an address of device memory counts as a pointer. Memory whose
    value is absent leads nowhere: nothing can be read there.
    """
    import numpy as np

    pieces = native.memory()
    firsts = np.array([first for first, _ in pieces], np.uint64)
    ends = np.array([end for _, end in pieces], np.uint64)
    pieces_seen: set[int] = set()
    edge = {piece for address in starts for piece in _holding(firsts, ends, [address])}
    for _ in range(steps):
        reached: set[int] = set()
        for piece in edge:
            first, end = pieces[piece]
            if not native.absence_at(first):
                reached |= _holding(firsts, ends, _words(first, end))
        edge = reached - pieces_seen
        pieces_seen |= reached
    return {pieces[piece][0] for piece in pieces_seen}


def _words(first: int, end: int) -> Any:
    import ctypes

    import numpy as np

    start = -(-first // 8) * 8
    count = max(0, (end - start) // 8)
    if not count:
        return np.empty(0, np.uint64)
    memory: Any = (ctypes.c_uint64 * count).from_address(start)
    return np.frombuffer(memory, np.uint64)


def _holding(firsts: Any, ends: Any, words: Any) -> set[int]:
    """Which pieces of memory hold one of these addresses."""
    import numpy as np

    words = np.asarray(words, np.uint64)
    if not firsts.size or not words.size:
        return set()
    words = np.unique(words[(words >= firsts[0]) & (words < ends.max())])
    places = np.searchsorted(firsts, words, side="right").astype(np.int64) - 1
    return {int(i) for i, word in zip(places, words, strict=True) if i >= 0 and word < ends[i]}
