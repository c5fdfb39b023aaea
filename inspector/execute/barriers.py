"""Barriers: of thread blocks (``bar``, ``barrier``), of clusters (``barrier.cluster``), mbarriers.

A barrier has a number, 0 to 15; a block's is complete when as many of its threads have arrived as
are named, or all that have not ended. Those that arrived with ``arrive`` do not wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from inspector.execute.kinds import Array, Mask, i64, u32, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import ChunkMemory, Ordering
from inspector.parsers.ptx_statement import PtxInstruction, RegisterOperand

CLUSTER = -1
"""The number of the cluster's barrier here. Its ``wait`` waits for the ``arrive`` of the same phase
of every live thread of the cluster, not for their ``wait``."""


@dataclass(slots=True)
class _WaitingLanes:
    """Lanes that wait: where they go on, and the reduction that they are to be given."""

    target: int
    mask: Array
    instruction: PtxInstruction
    predicate: Array | None


@dataclass(slots=True)
class _Barrier:
    arrived: Array
    counts: Array
    """Threads that must arrive, by block; 0 where it is all."""
    waiting: list[_WaitingLanes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Release:
    """Lanes that go on with block ``target``; ``register`` is given ``value``."""

    target: int
    mask: Array
    register: int | None = None
    value: Array | None = None


class OpenBarrier(NamedTuple):
    """A barrier at which lanes wait: its number, who waits, who has arrived, as (B, T).

    ``counts`` are the threads that must arrive, by block; 0 where it is all.
    """

    number: int
    instruction: PtxInstruction
    waiting: Array
    arrived: Array
    counts: Array


class Barriers:
    def __init__(self, lanes: Lanes, ordering: Ordering = None) -> None:
        self.lanes = lanes
        self.ordering = ordering
        self._barriers: dict[int, _Barrier] = {}
        self._cluster_phase = np.zeros(lanes.shape, i64)
        """How often each lane has arrived at the cluster's barrier."""

    @property
    def waiting(self) -> bool:
        """Whether lanes wait at a barrier."""
        return any(barrier.waiting for barrier in self._barriers.values())

    def incomplete(self) -> Iterator[OpenBarrier]:
        """The barriers at which lanes wait, one for each instruction."""
        for number, barrier in self._barriers.items():
            for waiter in barrier.waiting:
                arrived = barrier.arrived
                if number == CLUSTER:
                    arrived = self._cluster_phase >= self._cluster_phase[waiter.mask].min()
                yield OpenBarrier(number, waiter.instruction, waiter.mask, arrived, barrier.counts)

    def reach(
        self, end: PtxInstruction, operands: tuple[Array, ...], mask: Mask, target: int
    ) -> list[Release]:
        """Lanes have come to a barrier; gives the lanes that go on, they and others."""
        full = self.lanes.full_mask(mask)
        arrives = "arrive" in end.parts
        cluster = "cluster" in end.parts
        reduces = "red" in end.parts
        if cluster and arrives:
            if "relaxed" not in end.parts:
                self._tell_cluster("arrive", full, self._cluster_phase)
            self._cluster_phase = self._cluster_phase + full
            return [Release(target, full), *self.release()]
        predicate = operands[-1] if reduces else None
        numbers = operands[:-1] if reduces else operands
        unnumbered = CLUSTER if cluster else 0
        number = numbers[0] if numbers else np.array([[unnumbered]])
        out: list[Release] = []
        used = number if number.size == 1 else self.lanes.full(number)[full]
        for n in np.unique(used).tolist():
            lanes = full & (number == n)
            if (barrier := self._barriers.get(n)) is None:
                none = np.zeros(self.lanes.shape, bool)
                barrier = self._barriers[n] = _Barrier(none, np.zeros(self.lanes.blocks, i64))
            counts = np.zeros(self.lanes.blocks, i64)
            if len(numbers) > 1:
                first = np.argmax(lanes, 1)
                counts = self.lanes.full(numbers[1])[np.arange(self.lanes.blocks), first]
            barrier.counts = np.where(lanes.any(1), counts, barrier.counts)
            if not cluster:
                self._tell("arrive", n, lanes & ~barrier.arrived)
            barrier.arrived = barrier.arrived | lanes
            if arrives:
                out.append(Release(target, lanes))
            else:
                barrier.waiting.append(_WaitingLanes(target, lanes, end, predicate))
        return out + self.release()

    def release(self) -> list[Release]:
        """The lanes whose barriers are complete, also because others have ended."""
        out: list[Release] = []
        live = self.lanes.full_mask(self.lanes.live)
        for number, barrier in self._barriers.items():
            if number == CLUSTER:
                finished = self._cluster_phase <= self._least_phase(live)
            else:
                enough = barrier.arrived.sum(1) >= barrier.counts
                complete = np.where(barrier.counts > 0, enough, (barrier.arrived | ~live).all(1))
                finished = (complete & barrier.arrived.any(1))[:, None]
            if not barrier.waiting or not finished.any():
                continue
            for waiter in barrier.waiting:
                free = waiter.mask & finished
                if free.any():
                    if number == CLUSTER:
                        self._tell_cluster("release", free, self._cluster_phase - 1)
                    else:
                        self._tell("release", number, free)
                    out.append(self._freed(waiter, free, barrier.arrived & finished))
                waiter.mask = waiter.mask & ~finished
            barrier.waiting = [waiter for waiter in barrier.waiting if waiter.mask.any()]
            barrier.arrived = barrier.arrived & ~finished
        return out

    def _least_phase(self, live: Array) -> Array:
        """How often every live lane of a block's cluster has arrived at its barrier: (B, 1)."""
        phases = np.where(live, self._cluster_phase, self._cluster_phase.max())
        by_cluster = phases.reshape(-1, self.lanes.cluster_size * self.lanes.width)
        return np.repeat(by_cluster.min(1), self.lanes.cluster_size)[:, None]

    def _tell(self, way: str, number: int, mask: Array) -> None:
        if self.ordering is not None:
            self.ordering("barrier", way, number, mask)

    def _tell_cluster(self, way: str, mask: Array, phases: Array) -> None:
        """``_tell`` of the cluster's barrier, whose phases have numbers of their own."""
        if self.ordering is not None:
            for phase in np.unique(phases[mask]).tolist():
                self._tell(way, CLUSTER - phase, mask & (phases == phase))

    def _freed(self, waiter: _WaitingLanes, free: Array, arrived: Array) -> Release:
        """Lanes that go on, with what their barrier's predicates came to."""
        target = waiter.instruction.operands[0] if waiter.instruction.operands else None
        if waiter.predicate is None or not isinstance(target, RegisterOperand):
            return Release(waiter.target, free)
        holds = self.lanes.full(waiter.predicate)
        parts = waiter.instruction.parts
        if "popc" in parts:
            value = (holds & arrived).sum(1, dtype=u32)
        else:
            value = (holds | ~arrived).all(1) if "and" in parts else (holds & arrived).any(1)
        return Release(waiter.target, free, target.number, np.asarray(value)[:, None])


_COUNT = 20
_COUNTS = (1 << _COUNT) - 1
_BYTES = 23
_BIAS = 1 << (_BYTES - 1)
_PARITY = 63


class FailedTest(NamedTuple):
    """Lanes that found the phase of an mbarrier not over: their rows and their columns.

    ``owner`` is the row of the block that has the mbarrier, ``offset`` its place there.
    """

    instruction: int
    lanes: tuple[Array, Array]
    owner: int
    offset: int


class PhaseState(NamedTuple):
    """An mbarrier: pending arrivals of so many, bytes still to come, the parity of its phase."""

    pending: int
    expected: int
    nbytes: int
    parity: int


class Phases:
    """The mbarriers of a chunk's thread blocks."""

    def __init__(self, memory: ChunkMemory) -> None:
        self.memory = memory
        self.lanes = memory.lanes
        self.failed: list[FailedTest] | None = None
        """Tests that failed, once somebody wants to know."""

    def _locate(self, n: int, address: Array, mask: Mask) -> tuple[Array, Array, Array]:
        """Lanes as a flat mask, the index of each one's barrier, the barriers as words."""
        keep = self.lanes.full_mask(mask)
        words, index = self.memory.shared_words(n, address, mask)
        return keep, np.broadcast_to(index, self.lanes.shape)[keep], words

    def _tell(self, way: str, n: int, index: Array, keep: Array | None = None) -> None:
        """Tell the order observers of mbarriers by their index, of lanes or of none."""
        if self.memory.ordering is not None:
            rows, words = np.divmod(index, self.memory.shared_size >> 3)
            threads = np.zeros(0, i64) if keep is None else np.flatnonzero(keep)
            self.memory.ordering("mbarrier", way, n, rows, words << 3, threads)

    def hold(self, n: int, address: Array, mask: Mask) -> None:
        """A phase that is not over before copies are, which are done at once here."""
        if self.memory.ordering is not None:
            keep, index, _ = self._locate(n, address, mask)
            self._tell("hold", n, index, keep)

    def initialise(self, n: int, address: Array, count: Array, mask: Mask) -> None:
        """``mbarrier.init``: its first phase, of so many arrivals."""
        keep, index, words = self._locate(n, address, mask)
        self._tell("init", n, index, keep)
        counts = self.lanes.full(count)[keep].astype(i64)
        words[index] = _word(counts, counts, np.zeros_like(counts), np.zeros_like(counts))
        self.memory.changes += 1

    def invalidate(self, n: int, address: Array, mask: Mask) -> None:
        keep, index, words = self._locate(n, address, mask)
        self._tell("init", n, index, keep)
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
        keep, index, words = self._locate(n, address, mask)
        if index.size == 0:
            return state
        self._tell("arrive", n, index, keep)
        state[keep] = words[index]
        arrivals = 1 if count is None else self.lanes.full(count)[keep].astype(i64)
        expected_bytes = 0 if expected is None else self.lanes.full(expected)[keep].astype(i64)
        self._tell_counts(n, index, np.flatnonzero(keep), arrivals, expected_bytes)
        self._change(words, index, arrivals, expected_bytes, drop)
        return state

    def expect(self, n: int, address: Array, nbytes: Array, mask: Mask, complete: bool) -> None:
        """``mbarrier.expect_tx`` and ``complete_tx``: bytes that will come, or that came."""
        keep, index, words = self._locate(n, address, mask)
        count = self.lanes.full(nbytes)[keep].astype(i64)
        if complete:
            count = -count
        self._tell_counts(n, index, np.flatnonzero(keep), 0, count)
        self._change(words, index, 0, count)

    def arrive_bytes(self, n: int, row: int, offset: int, nbytes: int, thread: int) -> None:
        """Bytes came for the barrier at an offset of one block's shared memory, by the copy that
        a thread of the chunk issued."""
        words = self.memory.shared.view(u64).reshape(-1)
        index = np.array([row * (self.memory.shared_size >> 3) + (offset >> 3)])
        self._tell_counts(n, index, np.array([thread]), 0, -nbytes)
        self._change(words, index, 0, -nbytes)

    def _tell_counts(
        self, n: int, index: Array, threads: Array, arrivals: Array | int, nbytes: Array | int
    ) -> None:
        """Tell the order observers how much lanes count at mbarriers."""
        if self.memory.ordering is not None:
            rows, words = np.divmod(index, self.memory.shared_size >> 3)
            counts = [np.broadcast_to(x, index.shape) for x in (arrivals, nbytes)]
            self.memory.ordering("counted", n, rows, words << 3, threads, *counts)

    def state(self, row: int, offset: int) -> PhaseState:
        """The mbarrier at an offset of one block's shared memory."""
        word = self.memory.shared[row, offset : offset + 8].view(u64)
        return PhaseState(*(int(part[0]) for part in _parts(word)))

    def _change(
        self,
        words: Array,
        index: Array,
        arrivals: Array | int,
        nbytes: Array | int,
        drop: bool = False,
    ) -> None:
        """Arrivals and bytes of several lanes, or alike of each; phases that they complete."""
        barriers, inverse = np.unique(index, return_inverse=True)
        pending, expected, still, parity = _parts(words[barriers])
        arrived, byte_counts = (
            np.bincount(inverse, np.broadcast_to(x, index.shape), len(barriers)).astype(i64)
            for x in (arrivals, nbytes)
        )
        pending = pending - arrived
        still = still + byte_counts
        if drop:
            expected = expected - arrived
        for _ in range(64):
            completed = (pending <= 0) & (still == 0) & (expected > 0)
            if not completed.any():
                break
            self._tell("complete", -1, barriers[completed])
            pending = np.where(completed, pending + expected, pending)
            parity = np.where(completed, 1 - parity, parity)
        words[barriers] = _word(np.maximum(pending, 0), expected, still, parity)
        self.memory.changes += 1

    def test(self, n: int, address: Array, state: Array, parity: bool, mask: Mask) -> Array:
        """``mbarrier.test_wait`` and ``try_wait``: whether a phase is complete, by lane."""
        out = np.zeros(self.lanes.shape, bool)
        keep, index, words = self._locate(n, address, mask)
        now = words[index] >> u64(_PARITY)
        awaited = self.lanes.full(state)[keep].astype(u64)
        over = now != ((awaited & u64(1)) if parity else (awaited >> u64(_PARITY)))
        out[keep] = over
        self._tell("wait", n, index[over], out)
        if self.failed is not None:
            rows, columns = np.nonzero(keep)
            for place in np.unique(index[~over]).tolist():
                late = ~over & (index == place)
                owner, word = divmod(place, self.memory.shared_size >> 3)
                self.failed.append(FailedTest(n, (rows[late], columns[late]), owner, word << 3))
        return out


def pending_count(state: Array) -> Array:
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
