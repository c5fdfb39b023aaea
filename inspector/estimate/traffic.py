"""Sectors that the executed blocks of a launch ask for: from L1, from L2 and from memory."""

from collections import defaultdict

import numpy as np
from msgspec import Struct, field

from inspector.execute import Memory, Observer, Program
from inspector.execute.facts import kind_of
from inspector.execute.kinds import Array, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access

SECTOR = 32


class LineTraffic(Struct):
    """Loads of one line of PTX from global memory, in distinct sectors of 32 bytes a block.

    Of those ``loaded`` an instruction at a time, ``new`` are those that the block had not loaded
    before; ``memory`` is the share of new sectors that no other block of the launch has loaded.
    """

    loaded: int = 0
    new: int = 0
    by_buffer: dict[int, int] = field(default_factory=dict)
    memory: float = 1.0


class Traffic(Observer):
    """An observer of global memory: new and repeated sectors of each block, by line and buffer."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.program = program
        self.starts = np.array([b.address >> 5 for b in memory.buffers], u64)
        self.sizes = [-(-b.size // SECTOR) for b in memory.buffers]
        self.lines: dict[int, LineTraffic] = {}
        self.loaded: dict[int, int] = defaultdict(int)
        self.stored = 0
        self.contended = False
        self._touched: dict[tuple[int, int], Array] = {}
        self._atomic: Array = np.empty(0, u64)

    def access(self, lanes: Lanes, access: Access) -> None:
        if access.space not in ("global", "const") or access.lane is not None:
            return
        keep, address = lanes.full_mask(access.mask), lanes.full(access.address)
        line, kind = self.program.code.instructions[access.instruction].line, kind_of(access.way)
        for block in np.flatnonzero(keep.any(1)).tolist():
            places = address[block][keep[block]].astype(u64)
            if kind == "atomic":
                distinct = np.unique(places)
                self.contended |= len(distinct) < len(places)
                self.contended |= bool(np.isin(distinct, self._atomic).any())
                self._atomic = np.union1d(self._atomic, distinct)
            sectors = np.unique(places >> u64(5))
            if kind == "load":
                self._load(int(lanes.numbers[block]), line, sectors)
            else:
                self.stored += len(sectors)

    def _load(self, block: int, line: int, sectors: Array) -> None:
        row = self.lines.setdefault(line, LineTraffic())
        row.loaded += len(sectors)
        at = np.searchsorted(self.starts, sectors, "right").astype(np.int64) - 1
        for buffer in np.unique(at[at >= 0]).tolist():
            index = (sectors[at == buffer] - self.starts[buffer]).astype(np.int64)
            index = index[index <= self.sizes[buffer]]
            key = (block, buffer)
            if (seen := self._touched.get(key)) is None:
                seen = self._touched[key] = np.zeros(self.sizes[buffer] + 1, bool)
            new = int((~seen[index]).sum())
            seen[index] = True
            row.new += new
            row.by_buffer[buffer] = row.by_buffer.get(buffer, 0) + new
            self.loaded[buffer] += new

    def finish(self, scale: float) -> tuple[float, float]:
        """Bytes that ``scale`` times the executed blocks load from memory, and store.

        A buffer is loaded from memory once at most. Sets ``memory`` of the lines.
        """
        share = {
            buffer: min(1.0, self.sizes[buffer] / (sectors * scale))
            for buffer, sectors in self.loaded.items()
            if sectors
        }
        for row in self.lines.values():
            if row.new:
                row.memory = sum(n * share.get(b, 1) for b, n in row.by_buffer.items()) / row.new
        loaded = sum(self.loaded[buffer] * each for buffer, each in share.items())
        return loaded * scale * SECTOR, self.stored * scale * SECTOR
