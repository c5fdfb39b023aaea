"""What blocks move from and to global memory: from L1, from L2, from memory.

``Traffic`` counts the sectors that the executed blocks ask for, and the bytes of them that they
write.
"""

from collections import defaultdict

import numpy as np
from msgspec import Struct, field

from inspector.execute import Memory, Observer, Program
from inspector.execute.facts import kind_of
from inspector.execute.kinds import Array, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access

SECTOR = 32
WHOLE = 0xFFFFFFFF
"""A bit for each byte of a sector."""
SECTOR_BITS = 42
"""Of the number of a sector, which a process's address is of at most."""


class LineTraffic(Struct):
    """What one line of PTX moves from or to global memory, in sectors of 32 bytes.

    Of those ``loaded`` an instruction at a time, ``new`` are those that the block had not loaded
    before; ``memory`` is the share of new sectors that no other block of the launch has loaded. Of
    those stored it is how much of them memory moves, where all stores of a block to one sector
    count as one, and ``partial`` the share that a warp's instruction does not write the whole of.
    """

    loaded: int = 0
    new: int = 0
    by_buffer: dict[int, int] = field(default_factory=dict)
    memory: float = 1.0
    partial: float = 0.0


class Traffic(Observer):
    """An observer of global memory: new and repeated sectors of each block, by line and buffer."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program = program
        self.starts = np.array([b.address >> 5 for b in memory.buffers], u64)
        self.sizes = [-(-b.size // SECTOR) for b in memory.buffers]
        self.lines: dict[int, LineTraffic] = {}
        self.loaded: dict[int, int] = defaultdict(int)
        self.reach: dict[int, int] = defaultdict(int)
        """Sectors up to the last that is loaded, by buffer."""
        self.contended = False
        self._stored: dict[int, list[tuple[int, Array, Array]]] = defaultdict(list)
        """Of each block's stores: the line, the sectors, and the bytes of them that are written."""
        self._touched: dict[tuple[int, int], Array] = {}
        self._atomic: Array = np.empty(0, u64)

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.space not in ("global", "const"):
            return
        if access.lane is not None:
            self._copied(lanes, access)
            return
        keep = lanes.full_mask(access.mask)
        address = lanes.full(access.address)
        line = self.program.code.instructions[access.instruction].line
        kind = kind_of(access.way)
        for block in np.flatnonzero(keep.any(1)).tolist():
            places = address[block][keep[block]].astype(u64)
            if kind == "atomic":
                distinct = np.unique(places)
                self.contended |= len(distinct) < len(places)
                self.contended |= bool(np.isin(distinct, self._atomic).any())
                self._atomic = np.union1d(self._atomic, distinct)
            number = int(lanes.numbers[block])
            if kind == "load":
                self._load(number, line, np.unique(places >> u64(5)))
            else:
                warps = np.flatnonzero(keep[block]) >> 5
                self._store(number, line, places, warps, access.nbytes)

    def _copied(self, lanes: Lanes, access: Access) -> None:
        """A bulk copy, which goes past L1."""
        assert access.lane is not None
        line = self.program.code.instructions[access.instruction].line
        number = int(lanes.numbers[access.lane[0]])
        places = access.address.astype(u64)
        if access.way.endswith("load"):
            self._load(number, line, np.unique(places >> u64(5)))
        else:
            self._store(number, line, places, 0, access.nbytes)

    def _load(self, block: int, line: int, sectors: Array) -> None:
        row = self.lines.setdefault(line, LineTraffic())
        row.loaded += len(sectors)
        buffers = np.searchsorted(self.starts, sectors, "right").astype(np.int64) - 1
        in_a_buffer = buffers >= 0
        for buffer in np.unique(buffers[in_a_buffer]).tolist():
            in_buffer = buffers == buffer
            index = (sectors[in_buffer] - self.starts[buffer]).astype(np.int64)
            within = index <= self.sizes[buffer]
            index = index[within]
            self.reach[buffer] = max(self.reach[buffer], int(index.max(initial=-1)) + 1)
            key = (block, buffer)
            if key not in self._touched:
                self._touched[key] = np.zeros(self.sizes[buffer] + 1, bool)
            touched = self._touched[key]
            new = int((~touched[index]).sum())
            touched[index] = True
            row.new += new
            row.by_buffer[buffer] = row.by_buffer.get(buffer, 0) + new
            self.loaded[buffer] += new

    def finish(self, scale: float, l2_bytes: float) -> tuple[float, float]:
        """Bytes that ``scale`` times the executed blocks load from memory, and store.

        A buffer is loaded from memory once at most; none is where ``l2_bytes``, of which L2 is left
        as an equal launch leaves it, hold all of them. Sets ``memory`` of the lines.
        """
        share = {
            buffer: min(1.0, self.sizes[buffer] / (sectors * scale))
            for buffer, sectors in self.loaded.items()
            if sectors
        }
        stored = self._finish_stores()
        moved = stored + sum(self.loaded[buffer] * fraction for buffer, fraction in share.items())
        if moved * scale * SECTOR <= l2_bytes:
            share = dict.fromkeys(share, 0.0)
        for row in self.lines.values():
            if row.new:
                row.memory = sum(n * share.get(b, 1) for b, n in row.by_buffer.items()) / row.new
        loaded = sum(self.loaded[buffer] * fraction for buffer, fraction in share.items())
        return loaded * scale * SECTOR, stored * scale * SECTOR

    def _store(self, block: int, line: int, places: Array, warps: Array | int, nbytes: int) -> None:
        """Keep the sectors of a store with the bytes that each warp writes of them, as bits."""
        sectors = (places >> u64(5)) | (np.asarray(warps, u64) << u64(SECTOR_BITS))
        requested, found = np.unique(sectors, return_inverse=True)
        written = np.zeros(len(requested), np.uint32)
        bits = u64((1 << min(nbytes, SECTOR)) - 1) << (places & u64(SECTOR - 1))
        np.bitwise_or.at(written, found, bits.astype(np.uint32))
        self._stored[block].append((line, requested & u64((1 << SECTOR_BITS) - 1), written))

    def _finish_stores(self) -> int:
        """The sectors that blocks store to. Sets ``memory`` and ``partial`` of the lines."""
        by_line: dict[int, list[Array]] = defaultdict(list)
        total = 0
        for stores in self._stored.values():
            written = np.concatenate([bits for _, _, bits in stores])
            sectors, found, counts = np.unique(
                np.concatenate([own for _, own, _ in stores]),
                return_inverse=True,
                return_counts=True,
            )
            total += len(sectors)
            after_all = np.zeros(len(sectors), np.uint32)
            np.bitwise_or.at(after_all, found, written)
            # What is left of a sector is read before it is written to memory.
            moves = np.where(after_all == WHOLE, 1, 2) / counts
            rows = np.stack([moves[found], written != WHOLE])
            ends = np.cumsum([len(own) for _, own, _ in stores])
            for (line, _, _), part in zip(stores, np.split(rows, ends[:-1], 1), strict=True):
                by_line[line].append(part)
        for line, parts in by_line.items():
            row = self.lines.setdefault(line, LineTraffic())
            row.memory, row.partial = np.concatenate(parts, 1).mean(1).tolist()
        return total
