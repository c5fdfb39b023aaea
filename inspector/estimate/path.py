"""A warp's instructions in order, with what executed PTX says of each."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, inf
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from inspector.analysis.flow.graph import Flow, Loop
from inspector.base.names import words
from inspector.estimate.traffic import LineTraffic
from inspector.execute import ExecutedLine
from inspector.execute.facts import GLOBAL
from inspector.execute.memory import DISTRIBUTED
from inspector.parsers.line import Line
from inspector.parsers.sass_operands import access_bytes

UNITS = {
    **dict.fromkeys(("UTMALDG", "UBLKCP"), "copy"),
    **dict.fromkeys(("UTMASTG", "UTMAREDG", "UBLKRED"), "send"),
    **dict.fromkeys(("STAS", "REDAS"), "arrive"),
    "UCGABAR_ARV": "cluster arrive",
    "UCGABAR_WAIT": "cluster wait",
}
"""Bulk copies into shared memory and out of it, stores that arrive at an mbarrier, the cluster's
barrier."""
BARRIER_UNITS = (("PHASECHK", "wait"), ("ARRIVE", "arrive"))
LOADS = frozenset(words("LDG LD LDGSTS"))
STORES = frozenset(words("STG ST REDG RED ATOMG ATOM"))
SHARED = frozenset(words("LDS LDSM STS STSM ATOMS SHFL"))
COUNTED = (
    LOADS | STORES | SHARED | frozenset(words("HMMA HGMMA IMMA QGMMA BAR SHFL MUFU BRA FFMA FADD"))
)
"""Instructions whose copies in a loop show how often its body was unrolled: one each of PTX."""

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
_BAR = re.compile(r"(?<!\S)BAR\.\S++\s++(0x[0-9a-f]++)(?:,\s*+(0x[0-9a-f]++))?+\s*+;")
_GMMA = re.compile(r"(?<!\d)(\d{1,4})x(\d{1,4})x(\d{1,4})")
_MMA = re.compile(r"MMA\.(\d+)")
_SHAPES = {"16816": 2048, "1688": 1024, "1684": 512, "16832": 4096, "16864": 8192, "884": 256}


CopiedLine = tuple[int, str]
"""A line of PTX, and the SASS instruction that it became."""


class Op(Struct):
    """One SASS instruction, with what executed PTX says of it.

    ``sectors`` are those of a request and ``tags`` its lines of 128 bytes, ``fresh`` the share that
    is not in L1, ``memory`` the share of these that is not in L2, ``partial`` the share that a
    store does not write the whole of, ``requests`` those of a warp; ``waves`` are a request's
    wavefronts of shared memory; ``products`` multiplications of a tensor instruction for one of the
    SM's four parts; ``remote`` the bytes that a request has of other blocks' shared memory.
    ``barrier`` is the number of the block's barrier that it waits at, and of how many warps,
    0 for all. ``unit``: ``copy`` or ``send`` of a bulk copy, ``wait`` or ``arrive`` at an mbarrier,
    ``cluster wait`` or ``cluster arrive`` at the cluster's barrier. ``fences``: it waits until the
    warp's stores are seen beyond the SM.
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
    remote: float = 0.0
    fences: bool = False
    unit: str = ""
    depends: tuple[str, int] | None = None
    group: bool = False
    barrier: tuple[int, int] | None = None
    ends: bool = False


def decode(
    line: Line,
    ptx: tuple[int, ...],
    executed: Mapping[int, ExecutedLine],
    traffic: Mapping[int, LineTraffic],
    warps_run: int,
) -> Op | None:
    """One line of SASS, None without an instruction and its control code."""
    control = line.control
    base = line.base
    opcode = line.opcode
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
        op.sectors = access_bytes(opcode)
        op.tags = access_bytes(opcode) / 4
        _access(op, opcode, executed, traffic, warps_run)
        if "BYPASS" in opcode:
            op.fresh = 1.0
    elif base in SHARED:
        op.waves = access_bytes(opcode) / 4
    elif base in UNITS:
        op.unit = UNITS[base]
        op.memory = next((traffic[p].memory for p in ptx if p in traffic), 1.0)
    elif base == "SYNCS":
        op.unit = next((unit for word, unit in BARRIER_UNITS if word in opcode), "")
    elif "MMA" in base:
        op.products = _tensor_products(base, opcode)
        op.group = base.endswith("GMMA") and "gsb0" in line.text
    elif base == "BAR":
        op.barrier = _barrier(line) if "SYNC" in opcode or "RED" in opcode else None
    elif base == "MEMBAR":
        op.fences = "GPU" in opcode or "SYS" in opcode
    elif base == "EXIT":
        op.ends = "@" not in line.text.partition("EXIT")[0]
    if base in SHARED or base == "LDGSTS":
        op.waves = _wavefronts(ptx, executed) or op.waves
    if "DEPBAR" in opcode and base != "LDGDEPBAR":
        op.depends = _dependence(line)
    return op


def _barrier(line: Line) -> tuple[int, int]:
    """The number of a barrier, and how many warps it waits for; 0 for all, or for no constant."""
    match = _BAR.search(line.text)
    if match is None:
        return 0, 0
    return int(match[1], 16), int(match[2] or "0", 16) // 32


def _tensor_products(base: str, opcode: str) -> float:
    """Multiplications of a tensor instruction for one of the SM's four parts, in those of 16 bits:
    TF32 counts twice, a type of 8 bits half."""
    weight = 2 if "TF32" in opcode else 0.5 if base in ("QGMMA", "IGMMA") else 1
    if base.endswith("GMMA"):
        shape = _GMMA.search(opcode)
        if shape is None:
            return 0.0
        return weight * int(shape[1]) * int(shape[2]) * int(shape[3]) / 4
    shape = _MMA.search(opcode)
    products = _SHAPES.get(shape[1] if shape else "", 2048)
    return SYNCHRONOUS * weight * products


def _wavefronts(ptx: Sequence[int], executed: Mapping[int, ExecutedLine]) -> float | None:
    """Wavefronts of a request to shared memory, as PTX was executed; None if it was not."""
    wavefronts = None
    for n in ptx:
        if n in executed:
            for access in executed[n].accesses:
                if access.space == "shared" and access.wavefronts:
                    wavefronts = access.wavefronts / access.requests
    return wavefronts


def _dependence(line: Line) -> tuple[str, int] | None:
    """The barrier that a DEPBAR waits for, and how many may be outstanding."""
    match = _DEPBAR.search(line.text)
    if match is None:
        return None
    return match[1], int(match[2], 0) if match[2] else 0


def _access(
    op: Op,
    opcode: str,
    executed: Mapping[int, ExecutedLine],
    traffic: Mapping[int, LineTraffic],
    warps_run: int,
) -> None:
    """What executed PTX says of a load or store of global memory."""
    rows = [executed[p] for p in op.ptx if p in executed]
    uses = [row.use(GLOBAL) for row in rows]
    use = next((use for use in uses if use is not None and use.requests), None)
    if use is not None:
        op.sectors = use.sectors / use.requests
        op.tags = use.tag_requests / use.requests
        op.requests = use.requests / warps_run
    elif rows:
        op.sectors = 0.0
    if any(access.space == DISTRIBUTED for row in rows for access in row.accesses):
        op.remote = 32.0 * access_bytes(opcode)
    moved = next((traffic[p] for p in op.ptx if p in traffic), None)
    if moved is not None and (op.base in STORES or moved.loaded):
        op.memory = moved.memory
        op.partial = moved.partial
    if moved is not None and op.base in LOADS and moved.loaded:
        op.fresh = round(moved.new / moved.loaded, 1)


NEGLIGIBLE = 0.02
"""Executions a warp, or warps a block, below which something counts as not executed."""

ROUNDING = 0.5
"""Executions by which a count may be exceeded: a warp's count is a mean over those that ran."""

Step = tuple[Op, int]
"""An instruction, and how many warps of a block take it."""


class Path:
    """Finds the order of a warp's instructions: loops as often as their PTX was executed."""

    def __init__(
        self,
        flow: Flow,
        ops: Mapping[int, Op],
        count: Mapping[int, float],
        warps: int,
    ) -> None:
        self.flow = flow
        self.warps = warps
        self.count = count
        """How often a warp takes each line of PTX."""
        self.bodies: list[list[Op]] = [
            [ops[n] for n in range(block.first, block.last + 1) if n in ops]
            for block in flow.blocks
        ]
        self.left = dict(self.count)
        """How often a warp is still to take each line of PTX."""
        self.trips = self._trips()

    def _trips(self) -> list[float]:
        """How often a warp goes through each loop, in all."""
        copies = [self._copies_in(loop) for loop in self.flow.loops]
        trips = []
        for counted in copies:
            other_loops = [other for other in copies if other is not counted]
            trip_counts = [self._trips_by(key, n, other_loops) for key, n in counted.items()]
            # Blocks that are passed by, such as the rest of an unrolled loop, say nothing of it.
            executed = [trip_count for trip_count in trip_counts if trip_count]
            if executed:
                trips.append(median(executed))
            else:
                trips.append(0.0 if trip_counts else 1.0)
        return trips

    def _copies_in(self, loop: Loop) -> Counter[CopiedLine]:
        """How often lines of PTX are in a loop's body, without those of loops inside it."""
        copies: Counter[CopiedLine] = Counter()
        for block in loop.blocks:
            if self.flow.loop_at(self.flow.blocks[block].first) is loop:
                ops = [op for op in self.bodies[block] if op.base in COUNTED]
                copies.update((p, op.base) for op in ops for p in op.ptx)
        return copies

    def _trips_by(
        self, key: CopiedLine, copies: int, other_loops: Sequence[Counter[CopiedLine]]
    ) -> float:
        """Trips by one line of PTX; of an unrolled loop's remainder, what the loop has left."""
        times = self.count.get(key[0], 0.0)
        unrolled = max((loop[key] for loop in other_loops), default=0)
        if unrolled > copies:
            times %= unrolled
        return times / copies

    def steps(self) -> list[Step]:
        """The steps from the first instruction to the end."""
        return self._region(range(len(self.bodies)), None, 1.0)

    def _take(self, ops: Sequence[Op]) -> bool:
        """Count a block's accesses as done; False, and nothing, where a block has more of them than
        are to come.

        ptxas unrolls a loop into blocks of four turns, of two and of one, most of them passed by.
        """
        copies = _accesses_by_line(ops)
        remaining = {line: self.left.get(line, inf) for line in copies}
        for line, copy_count in copies.items():
            if copy_count > 1 and copy_count > remaining[line] + ROUNDING:
                return False
        if copies and max(remaining.values()) < NEGLIGIBLE:
            return False
        self._count_as_done(copies, 1)
        return True

    def _count_as_done(self, copies: Mapping[int, int], turns: int) -> None:
        for line, copy_count in copies.items():
            self.left[line] = self.left.get(line, inf) - copy_count * turns

    def _region(self, blocks: Sequence[int], around: int | None, count: float) -> list[Step]:
        """The steps of blocks that a warp comes to ``count`` times: of a loop, or of all."""
        inner_loops = self._loops_directly_in(around)
        steps: list[Step] = []
        emitted: set[int] = set()
        for block in blocks:
            if block in emitted:
                continue
            loop = inner_loops.get(block)
            if loop is not None and set(self.flow.loops[loop].blocks) <= set(blocks):
                emitted.update(self.flow.loops[loop].blocks)
                steps += self._loop_steps(loop, count)
                continue
            ops = self.bodies[block]
            if not self._take(ops):
                continue
            warps = self._warps_taking(ops, count)
            if warps <= 0 and len(ops) > 1:
                continue
            steps += [(op, max(1, warps)) for op in ops if op.base != "NOP"]
            if around is None and warps >= self.warps and any(op.ends for op in ops):
                break
        return steps

    def _loops_directly_in(self, around: int | None) -> dict[int, int]:
        """The loops one level inside another, or the outermost ones, by their blocks."""
        loops = self.flow.loops
        depth = 1 if around is None else loops[around].depth + 1
        return {
            block: k for k, loop in enumerate(loops) if loop.depth == depth for block in loop.blocks
        }

    def _loop_steps(self, loop: int, count: float) -> list[Step]:
        """A loop's body once for each turn of one of ``count`` passages."""
        trips = self.trips[loop]
        if trips < NEGLIGIBLE * count:
            return []
        # A loop that few warps come to, each for a turn, is one turn of these.
        turns = min(MAX_TURNS, max(1, round(trips / count)))
        body = self._region(self.flow.loops[loop].blocks, loop, max(trips, count))
        if turns > 1:
            self._count_as_done(_accesses_by_line([op for op, _ in body]), turns - 1)
        # An access that is off in the last turns asks for nothing then.
        off = {id(op): replace(op, sectors=0.0) for op, _ in body if op.requests}
        steps: list[Step] = []
        for turn in range(turns):
            executed = turn * count + ROUNDING
            for op, warps in body:
                is_off = op.requests and op.requests < executed
                steps.append((off[id(op)] if is_off else op, warps))
        return steps

    def _warps_taking(self, ops: Sequence[Op], count: float) -> int:
        """How many warps of a block take instructions that are come to ``count`` times."""
        counts = [self.count[p] for op in ops for p in op.ptx if p in self.count]
        share = min(1.0, max(counts) / count) if counts else 1.0
        return ceil(share * self.warps - NEGLIGIBLE)


def _accesses_by_line(ops: Sequence[Op]) -> Counter[int]:
    """How many instructions each line of PTX became, of those that PTX has one for each."""
    return Counter(op.ptx[0] for op in ops if op.base in ACCESSES and op.ptx)
