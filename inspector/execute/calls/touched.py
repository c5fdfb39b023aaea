"""What hints want to know of accesses beyond their counts: which go together, which repeat."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from inspector.analyse.hints.subject import ExecutedAccess, ExecutedBranch, ExecutedFacts
from inspector.execute import Facts, Program
from inspector.execute.access import Access, Observer
from inspector.execute.blocks import BasicBlock
from inspector.execute.calls.lines import kind_of
from inspector.execute.kinds import Array, Mask, i64, u64
from inspector.execute.lanes import Lanes

SECTOR = 32
WORD = 4
ORDERED = frozenset(("volatile", "acquire", "relaxed", "mmio"))
"""Loads that must be made again: somebody else may have stored."""
MAX_SEEN_ADDRESSES = 4_000_000
"""Addresses of lanes of a chunk that are remembered; beyond them, repetitions are not counted."""
FOLLOWED = 1024
"""Lanes of a chunk of blocks that are followed, whole blocks, at least one: all do alike, and to
follow all would take longer than to run them. With a lane's number of at most 15 bits an address of
48 is one number."""


class Touches(Observer):
    """An observer of accesses to global memory, by the first lanes of each chunk of blocks.

    Accesses of one stretch of code, load or store, whose lanes are within a few sectors of each
    other are taken together: four loads of neighbouring words waste nothing, though each alone
    does.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.together: Counter[int] = Counter()
        self.filled: Counter[int] = Counter()
        self.followed: Counter[int] = Counter()
        self.repeated: Counter[int] = Counter()
        self._lanes: Lanes | None = None
        self._seen: Array = np.empty(0, u64)
        self._stretch: dict[tuple[bool, int], list[tuple[int, Array, Array, int]]] = {}

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        """Another stretch of code begins."""
        self.flush()
        if self._lanes is not lanes:
            self._lanes, self._seen = lanes, np.empty(0, u64)

    def access(self, lanes: Lanes, access: Access) -> None:
        """Lanes read or write memory."""
        if access.space != "global" or access.way.startswith("matrix"):
            return
        row = self.program.code.instructions[access.instruction]
        kind = kind_of(access.way)
        if access.lane is not None:  # the copying unit's, whole tiles
            if kind != "load":
                self._stored(access.address)
            return
        rows = max(1, FOLLOWED // lanes.width)
        keep = lanes.full_mask(access.mask)[:rows]
        if not keep.any():
            return
        address = np.ascontiguousarray(lanes.full(access.address)[:rows][keep]).view(u64)
        lane = np.flatnonzero(keep).astype(u64)
        warp = lane >> u64(5)
        if kind == "load":
            if not ORDERED & set(row.parts):
                self._loaded(row.line, address, lane)
        else:
            self._stored(address)
        # Neighbouring accesses begin within so many bytes of each other, in the first lane.
        near = int(address[0]) // 256
        alike = next(
            (k for k in self._stretch if k[0] == (kind == "load") and abs(k[1] - near) <= 1),
            (kind == "load", near),
        )
        self._stretch.setdefault(alike, []).append((row.line, warp, address, access.nbytes))

    def flush(self) -> None:
        """The stretch of code has ended: what moved together in it is counted."""
        for those in self._stretch.values():
            unit = min(WORD, *(nbytes for _, _, _, nbytes in those))
            moved, wanted = (
                [
                    _pairs(warp, (address + u64(at)) // u64(size))
                    for _, warp, address, nbytes in those
                    for at in range(0, nbytes, size)
                ]
                for size in (SECTOR, unit)
            )
            sectors = len(np.unique(np.concatenate(moved)))
            least = self._least(np.unique(np.concatenate(wanted)), unit)
            for line in {one[0] for one in those}:
                self.together[line] += sectors
                self.filled[line] += least
        self._stretch.clear()

    @staticmethod
    def _least(places: Array, unit: int) -> int:
        """Sectors that the distinct bytes of each warp would fill."""
        _, counts = np.unique(places >> u64(48), return_counts=True)
        return int((-(-counts.astype(i64) * unit // SECTOR)).sum())

    def _loaded(self, line: int, address: Array, lane: Array) -> None:
        self.followed[line] += len(address)
        keys = (lane << u64(48)) | (address & u64((1 << 48) - 1))
        if len(self._seen):
            self.repeated[line] += int(np.isin(keys, self._seen).sum())
        if len(self._seen) < MAX_SEEN_ADDRESSES:
            self._seen = np.union1d(self._seen, keys)

    def _stored(self, address: Array) -> None:
        if len(self._seen):
            places = self._seen & u64((1 << 48) - 1)
            self._seen = self._seen[~np.isin(places, address.astype(u64))]


def _pairs(warp: Array, place: Array) -> Array:
    """A warp and a place as one number."""
    return (warp << u64(48)) | (place & u64((1 << 48) - 1))


def executed_facts(facts: Facts, touches: Touches, ran: int, of: int) -> ExecutedFacts:
    """Input of the hints from ``ran`` of ``of`` blocks."""
    touches.flush()
    totals = facts.totals()
    accesses: list[ExecutedAccess] = []
    branches: list[ExecutedBranch] = []
    for line in facts.lines():
        if line.branches:
            branches.append(ExecutedBranch(line.line, line.branches, line.divergent))
        for one in line.accesses:
            if one.way.startswith(("bulk", "matrix")) or not one.requests:
                continue
            more: dict[str, Any] = {}
            if one.space == "global":
                more = {
                    "sectors": one.sectors,
                    "least_sectors": one.least_sectors,
                    "together": touches.together[line.line],
                    "filled": touches.filled[line.line],
                    "followed": touches.followed[line.line],
                    "repeated": touches.repeated[line.line],
                }
            elif one.space == "shared":
                more = {"wavefronts": one.wavefronts, "least_wavefronts": one.least_wavefronts}
            else:
                continue
            accesses.append(
                ExecutedAccess(
                    line.line, one.space, kind_of(one.way), one.requests, one.lanes, **more
                )
            )
    return ExecutedFacts(
        ran,
        of,
        totals.instructions,
        totals.threads,
        totals.active,
        tuple(accesses),
        tuple(branches),
    )
