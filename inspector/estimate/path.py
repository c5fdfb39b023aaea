"""What the simulation reads of a kernel: a warp's instructions in order, and its memory traffic.

``Traffic`` counts the sectors that the executed blocks ask for: from L1, from L2 and from memory.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil, inf
from statistics import median

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analyse.flow.graph import Flow
from inspector.base.text import words
from inspector.execute import ExecutedLine, Memory, Observer, Program
from inspector.execute.facts import GLOBAL, kind_of
from inspector.execute.kinds import Array, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access
from inspector.listing.line import Line
from inspector.listing.sass_operands import access_bytes

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
        self.reach: dict[int, int] = defaultdict(int)
        """Sectors up to the last that is loaded, by buffer."""
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
        buffers = np.searchsorted(self.starts, sectors, "right").astype(np.int64) - 1
        for buffer in np.unique(buffers[buffers >= 0]).tolist():
            index = (sectors[buffers == buffer] - self.starts[buffer]).astype(np.int64)
            index = index[index <= self.sizes[buffer]]
            self.reach[buffer] = max(self.reach[buffer], int(index.max(initial=-1)) + 1)
            key = (block, buffer)
            if (touched := self._touched.get(key)) is None:
                touched = self._touched[key] = np.zeros(self.sizes[buffer] + 1, bool)
            new = int((~touched[index]).sum())
            touched[index] = True
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
        loaded = sum(self.loaded[buffer] * fraction for buffer, fraction in share.items())
        return loaded * scale * SECTOR, self.stored * scale * SECTOR


LOADS = frozenset(words("LDG LD LDGSTS"))
STORES = frozenset(words("STG ST REDG RED ATOMG ATOM"))
SHARED = frozenset(words("LDS LDSM STS STSM ATOMS SHFL"))
COUNTED = (
    LOADS | STORES | SHARED | frozenset(words("HMMA HGMMA IMMA QGMMA BAR SHFL MUFU BRA FFMA FADD"))
)
"""Instructions whose copies in a loop tell how often its body stands there: one each of PTX."""

ACCESSES = frozenset(words("LDG STG"))
"""Instructions of which PTX has one for each."""

SYNCHRONOUS = 1.6
"""A Hopper's mma takes as much longer than its wgmma (Luo et al., 2024: 62 % of the peak)."""
MAX_TURNS = 4096
"""Turns of a loop that are simulated."""
_PIPES = {
    "fma": (1, "IMAD FFMA FADD FMUL HFMA2 HADD2 HMUL2"),
    "alu": (
        2,
        "LOP3 LEA SHF IADD3 ISETP PRMT SEL FSEL FSETP FSET FMNMX VIADD VIADDMNMX VIMNMX SGXT IABS "
        "MOV PLOP3 F2FP I2FP P2R R2P IMNMX",
    ),
    "xu": (8, "MUFU I2F F2I F2F FRND POPC FLO BREV"),
    "fp64": (2, "DFMA DADD DMUL DSETP"),
}
PIPES = {base: (pipe, rate) for pipe, (rate, names) in _PIPES.items() for base in words(names)}
"""The pipe of one of the SM's four parts, and the cycles that a warp's instruction keeps it."""

_DEPBAR = re.compile(r"(SB\d|gsb0)(?:\s*,\s*(0x[0-9a-f]+|\d+))?")
_GMMA = re.compile(r"(?<!\d)(\d{1,4})x(\d{1,4})x(\d{1,4})")
_MMA = re.compile(r"MMA\.(\d+)")
_SHAPES = {"16816": 2048, "1688": 1024, "1684": 512, "16832": 4096, "16864": 8192, "884": 256}


class Op(Struct):
    """One SASS instruction, with what executed PTX says of it.

    ``sectors`` are those of a request and ``tags`` its lines of 128 bytes, ``fresh`` the share that
    is not in L1, ``memory`` the share of these that is not in L2, ``partial`` the share of their
    bytes that is not wanted, ``requests`` those of a warp; ``waves`` are a request's wavefronts of
    shared memory; ``products`` multiplications of a tensor instruction for one of the SM's four
    parts.
    """

    n: int
    base: str
    stall: int
    write: int | None
    read: int | None
    wait: tuple[int, ...]
    ptx: tuple[int, ...]
    pipe: tuple[str, int] | None = None
    sectors: float = 0.0
    tags: float = 1.0
    partial: float = 0.0
    requests: float | None = None
    fresh: float = 1.0
    memory: float = 1.0
    waves: float = 1.0
    products: float = 0.0
    depends: tuple[str, int] | None = None
    group: bool = False
    barrier: bool = False
    ends: bool = False


def decode(
    line: Line,
    ptx: tuple[int, ...],
    executed: Mapping[int, ExecutedLine],
    traffic: Mapping[int, LineTraffic],
    warps_run: int,
) -> Op | None:
    """One line of SASS, None without an instruction and its control code."""
    control, base, opcode = line.control, line.base, line.opcode
    if control is None or base is None or opcode is None:
        return None
    op = Op(
        line.n,
        base,
        max(1, control.stall),
        control.write_barrier,
        control.read_barrier,
        tuple(q for q in range(6) if control.wait >> q & 1),
        ptx,
        PIPES.get(base),
    )
    if base in LOADS or base in STORES:
        op.sectors, op.tags = access_bytes(opcode), access_bytes(opcode) / 4
        _access(op, executed, traffic, warps_run)
        if "BYPASS" in opcode:
            op.fresh = 1.0
    elif base in SHARED:
        op.waves = access_bytes(opcode) / 4
    elif "MMA" in base:
        half = 2 if "TF32" in opcode else 1
        if base.endswith("GMMA"):
            shape = _GMMA.search(opcode)
            op.products = half * (int(shape[1]) * int(shape[2]) * int(shape[3]) / 4 if shape else 0)
            op.group = "gsb0" in line.text
        else:
            shape = _MMA.search(opcode)
            op.products = SYNCHRONOUS * half * _SHAPES.get(shape[1] if shape else "", 2048)
    elif base == "BAR":
        op.barrier = "SYNC" in opcode or "RED" in opcode
    elif base == "EXIT":
        op.ends = "@" not in line.text.partition("EXIT")[0]
    for p in ptx if base in SHARED or base == "LDGSTS" else ():
        for access in executed[p].accesses if p in executed else ():
            if access.space == "shared" and access.wavefronts:
                op.waves = access.wavefronts / access.requests
    if "DEPBAR" in opcode and base != "LDGDEPBAR" and (match := _DEPBAR.search(line.text)):
        op.depends = match[1], int(match[2], 0) if match[2] else 0
    return op


def _access(
    op: Op,
    executed: Mapping[int, ExecutedLine],
    traffic: Mapping[int, LineTraffic],
    warps_run: int,
) -> None:
    """What executed PTX says of a load or store of global memory."""
    rows = [executed[p] for p in op.ptx if p in executed]
    uses = [use for row in rows if (use := row.use(GLOBAL)) is not None and use.requests]
    if uses:
        use = uses[0]
        op.sectors, op.tags = use.sectors / use.requests, use.tag_requests / use.requests
        op.requests = use.requests / warps_run
        op.partial = 1 - min(1.0, use.bytes_wanted / (32 * use.sectors))
    elif rows:
        op.sectors = 0.0
    loads = [traffic[p] for p in op.ptx if p in traffic]
    if loads and op.base in LOADS and loads[0].loaded:
        op.fresh, op.memory = round(loads[0].new / loads[0].loaded, 1), loads[0].memory


Step = tuple[Op, int]
"""An instruction, and how many warps of a block take it."""


class Path:
    """Finds the order of a warp's instructions: loops as often as their PTX was executed."""

    def __init__(
        self,
        flow: Flow,
        ops: Mapping[int, Op],
        executed: Mapping[int, ExecutedLine],
        warps_run: int,
        warps: int,
    ) -> None:
        self.flow, self.warps = flow, warps
        self.count = {n: row.executed / warps_run for n, row in executed.items()}
        self.bodies: list[list[Op]] = [
            [ops[n] for n in range(block.first, block.last + 1) if n in ops]
            for block in flow.blocks
        ]
        self.left = dict(self.count)
        """How often a warp is still to take each line of PTX."""
        self.trips = self._trips()

    def _trips(self) -> list[float]:
        """How often a warp goes through each loop, in all."""
        copies: list[Counter[tuple[int, str]]] = []
        for loop in self.flow.loops:
            counted: Counter[tuple[int, str]] = Counter()
            for block in loop.blocks:
                if self.flow.loop_at(self.flow.blocks[block].first) is loop:
                    ops = [op for op in self.bodies[block] if op.base in COUNTED]
                    counted.update((p, op.base) for op in ops for p in op.ptx)
            copies.append(counted)
        out = []
        for counted in copies:
            trip_counts = [0.0 if counted else 1.0]
            for key, own_count in counted.items():
                other_count = max((c[key] for c in copies if c is not counted), default=0)
                times = self.count.get(key[0], 0.0)
                trip_counts.append(
                    (times % other_count if other_count > own_count else times) / own_count
                )
            out.append(median(trip_counts[1:] or trip_counts))
        return out

    def steps(self) -> list[Step]:
        """The steps from the first instruction to the end."""
        return self._region(range(len(self.bodies)), None, 1.0)

    def _take(self, ops: Sequence[Op], turns: int = 0) -> bool:
        """Count a block's accesses as done, or a loop's ``turns`` times; False, and nothing, where
        a block has more of them than are to come.

        ptxas unrolls a loop into blocks of four turns, of two and of one, most of them passed by.
        """
        copies = Counter(op.ptx[0] for op in ops if op.base in ACCESSES and op.ptx)
        remaining = {line: self.left.get(line, inf) for line in copies}
        if not turns and any(
            copy_count > 1 and copy_count > remaining[n] + 0.5 for n, copy_count in copies.items()
        ):
            return False
        if not turns and copies and max(remaining.values()) < 0.02:
            return False
        self.left |= {
            n: remaining[n] - copy_count * (turns or 1) for n, copy_count in copies.items()
        }
        return True

    def _region(self, blocks: Sequence[int], around: int | None, count: float) -> list[Step]:
        loops = self.flow.loops
        depth = 0 if around is None else loops[around].depth
        loop_of_block = {
            b: k for k, loop in enumerate(loops) if loop.depth == depth + 1 for b in loop.blocks
        }
        out: list[Step] = []
        emitted: set[int] = set()
        for block in blocks:
            if block in emitted:
                continue
            if (k := loop_of_block.get(block)) is not None and set(loops[k].blocks) <= set(blocks):
                emitted.update(loops[k].blocks)
                trips = min(MAX_TURNS, round(self.trips[k] / count))
                body = self._region(loops[k].blocks, k, self.trips[k]) if trips else []
                # An access that is off in the last turns asks for nothing then.
                off = {id(op): replace(op, sectors=0.0) for op, _ in body if op.requests}
                if trips > 1:
                    self._take([op for op, _ in body], trips - 1)
                for turn in range(trips):
                    out += [
                        (off[id(op)] if op.requests and op.requests < turn * count + 0.5 else op, k)
                        for op, k in body
                    ]
                continue
            body_ops = self.bodies[block]
            if not self._take(body_ops):
                continue
            counts = [self.count[p] for op in body_ops for p in op.ptx if p in self.count]
            share = min(1.0, max(counts) / count) if counts else 1.0
            upto = ceil(share * self.warps - 0.02)
            if upto <= 0 and len(body_ops) > 1:
                continue
            out += [(op, max(1, upto)) for op in body_ops if op.base != "NOP"]
            if around is None and upto >= self.warps and any(op.ends for op in body_ops):
                break
        return out
