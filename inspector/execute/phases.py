"""``mbarrier``: barriers in shared memory that count arrivals and bytes, phase by phase.

The 64 bits of one are opaque; here they are, from the lowest: arrivals pending (20 bits), arrivals
of a phase (20), bytes that are still to come (23, with a bias), and the phase's parity in the
highest. A state, as ``mbarrier.arrive`` gives it, is what the barrier held before it.
"""

from __future__ import annotations

import numpy as np

from inspector.execute.access import ChunkMemory
from inspector.execute.kinds import Array, Mask, i64, u64

_COUNT = 20
_COUNTS = (1 << _COUNT) - 1
_BYTES = 23
_BIAS = 1 << (_BYTES - 1)
_PARITY = 63


class Phases:
    """The mbarriers of a chunk's thread blocks."""

    def __init__(self, memory: ChunkMemory) -> None:
        self.memory, self.lanes = memory, memory.lanes

    def _where(self, n: int, address: Array, mask: Mask) -> tuple[Array, Array, Array]:
        """Lanes as a flat mask, the index of each one's barrier, the barriers as words."""
        memory = self.memory
        keep = self.lanes.full_mask(mask)
        offsets = memory.shared_offsets(n, address, 8, mask)
        words = memory.shared.view(u64).reshape(-1)
        index = (offsets >> u64(3)).view(i64) + self.lanes.row * (memory.shared_size >> 3)
        return keep, np.broadcast_to(index, self.lanes.shape)[keep], words

    def initialise(self, n: int, address: Array, count: Array, mask: Mask) -> None:
        """``mbarrier.init``: its first phase, of so many arrivals."""
        keep, index, words = self._where(n, address, mask)
        counts = self.lanes.full(count)[keep].astype(i64)
        words[index] = _word(counts, counts, np.zeros_like(counts), np.zeros_like(counts))
        self.memory.changes += 1

    def invalidate(self, n: int, address: Array, mask: Mask) -> None:
        """``mbarrier.inval``."""
        _, index, words = self._where(n, address, mask)
        words[index] = u64(0)

    def arrive(
        self,
        n: int,
        address: Array,
        count: Array | None,
        expected: Array | None,
        mask: Mask,
        drop: bool = False,
    ) -> Array:
        """``mbarrier.arrive``: the state before, by lane. ``expected`` bytes are added first.

        ``drop``: later phases expect so many arrivals less.
        """
        state = np.zeros(self.lanes.shape, u64)
        keep, index, words = self._where(n, address, mask)
        if index.size == 0:
            return state
        state[keep] = words[index]
        arrivals = 1 if count is None else self.lanes.full(count)[keep].astype(i64)
        more = 0 if expected is None else self.lanes.full(expected)[keep].astype(i64)
        self._change(
            words,
            index,
            np.broadcast_to(arrivals, index.shape),
            np.broadcast_to(more, index.shape),
            drop,
        )
        return state

    def expect(self, n: int, address: Array, nbytes: Array, mask: Mask, complete: bool) -> None:
        """``mbarrier.expect_tx`` and ``complete_tx``: bytes that will come, or that came."""
        keep, index, words = self._where(n, address, mask)
        count = self.lanes.full(nbytes)[keep].astype(i64)
        none = np.zeros(index.shape, i64)
        self._change(words, index, none, -count if complete else count, False)

    def came(self, n: int, row: int, offset: int, nbytes: int) -> None:
        """Bytes came for the barrier at an offset of one block's shared memory."""
        words = self.memory.shared.view(u64).reshape(-1)
        index = np.array([row * (self.memory.shared_size >> 3) + (offset >> 3)])
        self._change(words, index, np.zeros(1, i64), np.array([-nbytes], i64), False)

    def _change(
        self, words: Array, index: Array, arrivals: Array, nbytes: Array, drop: bool
    ) -> None:
        """Arrivals and bytes of several lanes; phases that they complete."""
        barriers, inverse = np.unique(index, return_inverse=True)
        pending, expected, still, parity = _parts(words[barriers])
        arrived = np.bincount(inverse, arrivals, len(barriers)).astype(i64)
        more = np.bincount(inverse, nbytes, len(barriers)).astype(i64)
        pending, still = pending - arrived, still + more
        if drop:
            expected = expected - arrived
        for _ in range(64):
            done = (pending <= 0) & (still == 0) & (expected > 0)
            if not done.any():
                break
            pending = np.where(done, pending + expected, pending)
            parity = np.where(done, 1 - parity, parity)
        words[barriers] = _word(np.maximum(pending, 0), expected, still, parity)
        self.memory.changes += 1

    def test(self, n: int, address: Array, state: Array, parity: bool, mask: Mask) -> Array:
        """``mbarrier.test_wait`` and ``try_wait``: whether a phase is complete, by lane."""
        out = np.zeros(self.lanes.shape, bool)
        keep, index, words = self._where(n, address, mask)
        now = words[index] >> u64(_PARITY)
        given = self.lanes.full(state)[keep].astype(u64)
        out[keep] = now != ((given & u64(1)) if parity else (given >> u64(_PARITY)))
        return out


def pending_count(state: Array) -> Array:
    """``mbarrier.pending_count`` of a state."""
    return (state & u64(_COUNTS)).astype(np.uint32)


def _parts(words: Array) -> tuple[Array, Array, Array, Array]:
    """Pending and expected arrivals, bytes still to come, parity."""
    bits = words.astype(u64)
    pending = (bits & u64(_COUNTS)).astype(i64)
    expected = ((bits >> u64(_COUNT)) & u64(_COUNTS)).astype(i64)
    still = ((bits >> u64(2 * _COUNT)) & u64((1 << _BYTES) - 1)).astype(i64) - _BIAS
    return pending, expected, still, (bits >> u64(_PARITY)).astype(i64)


def _word(pending: Array, expected: Array, still: Array, parity: Array) -> Array:
    bits = pending.astype(u64) | (expected.astype(u64) << u64(_COUNT))
    bits = bits | ((still + _BIAS).astype(u64) << u64(2 * _COUNT))
    return bits | (parity.astype(u64) << u64(_PARITY))
