"""An observer of a run that counts by line, and what registers held.

Exact for the blocks that were run. Sectors are 32 bytes and lines 128; a request is one
instruction of one warp. What ncu counts by the same name is said beside each figure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from inspector.base.names import words
from inspector.execute import floats
from inspector.execute.bank_conflicts import BANKS, BankConflict, bank_conflict
from inspector.execute.blocks import BasicBlock, register_kinds
from inspector.execute.kinds import DTYPES, Array, Mask, f16, i64, u16, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Access, Observer
from inspector.execute.program import Program
from inspector.parsers.ptx_statement import PtxInstruction

SECTOR = 32
LINE = 128
NONE = ~u64(0)
MAX_DISTINCT = 16
"""Different values of a register up to which they are counted."""


@dataclass(slots=True)
class MemoryUse:
    """Counts of requests to memory and their cost, which add up.

    Sectors and tag requests are of global memory, wavefronts of shared memory: of another space
    these are 0, and say nothing.
    """

    requests: int = 0
    """Instructions of warps that had a lane."""
    lanes: int = 0
    bytes_wanted: int = 0
    sectors: int = 0
    """ncu's "L2 Theoretical Sectors Global"."""
    least_sectors: int = 0
    """As many as the distinct bytes would fill."""
    tag_requests: int = 0
    """ncu's "L1 Tag Requests Global", distinct lines of 128 bytes."""
    wavefronts: int = 0
    """ncu's "L1 Wavefronts Shared"."""
    least_wavefronts: int = 0
    """ncu's "L1 Wavefronts Shared Ideal"; what is above it are bank conflicts."""

    @property
    def bytes_moved(self) -> int:
        """Bytes of the sectors of global memory."""
        return SECTOR * self.sectors

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.least_wavefronts

    @classmethod
    def total(cls, uses: Iterable[MemoryUse]) -> MemoryUse:
        out = cls()
        for use in uses:
            for member in fields(cls):
                setattr(out, member.name, getattr(out, member.name) + getattr(use, member.name))
        return out


@dataclass(slots=True)
class AccessFacts(MemoryUse):
    """What one line asked of one space of memory, in one ``way`` (``load``, ``copy store`` …).

    ``conflict`` is the one of its requests with the most wavefronts, None where none has two.
    """

    space: str = ""
    way: str = ""
    conflict: BankConflict | None = None

    def count_wavefronts(self, words: Array, on: Array, words_a_lane: int) -> None:
        """Count rows of words that lanes ask for together; ``on`` are those asked for."""
        waves = _waves(words, on)
        self.wavefronts += int(waves.sum())
        worst = int(waves.argmax())
        if waves[worst] > (1 if self.conflict is None else self.conflict.wavefronts):
            self.conflict = bank_conflict(words, on, worst, words_a_lane, int(waves[worst]))


@dataclass(slots=True)
class ValueFacts:
    """The values that a line wrote to a register, of the lanes that ran.

    ``least`` and ``greatest`` leave NaN out and are None where there is nothing else. ``distinct``
    is None above ``MAX_DISTINCT``. ``uniform_block``: all lanes of a block had one value
    each time; ``uniform_grid``: all lanes of all blocks that were run together.
    """

    register: str
    kind: str
    count: int = 0
    least: float | int | None = None
    greatest: float | int | None = None
    distinct: int | None = 0
    nans: int = 0
    infinities: int = 0
    uniform_block: bool = True
    uniform_grid: bool = True


GLOBAL = ("global", "const")
NOT_CLASSED = "not classed"

Cost = Callable[[str], str | None]
"""The class of an opcode of PTX (``memory``, ``arithmetic`` …), None if it is not known."""


def kind_of(way: str) -> str:
    """``load``, ``store`` or ``atomic``: the kind of an access of any instruction."""
    last = way.rsplit(" ", 1)[-1]
    return "load" if last == "matrix" else last


def memory_use(
    accesses: Iterable[AccessFacts], spaces: tuple[str, ...], kind: str | None = None
) -> MemoryUse | None:
    """The accesses of some spaces in sum, those of one kind (see ``kind_of``) alone if it is given;
    None if unknown."""
    those = [a for a in accesses if a.space in spaces and kind in (None, kind_of(a.way))]
    return MemoryUse.total(those) if those else None


@dataclass(slots=True)
class ExecutedLine:
    """One line of a stage: of the PTX itself, or what the PTX that is tied to it comes to.

    ``ptx`` are the lines of PTX that were taken together. ``values`` are known of PTX alone.
    """

    n: int
    opcode: str
    ptx: tuple[int, ...]
    executed: int = 0
    """Instructions of warps: ncu's "Instructions Executed"."""
    threads: int = 0
    """Lanes that reached it: ncu's "Thread Instructions Executed"."""
    active: int = 0
    """Lanes that ran it: ncu's "Predicated-On Thread Instructions Executed"."""
    branches: int = 0
    """Warps that came to a branch, where it is one."""
    divergent: int = 0
    """Warps of which some lanes took the branch and some did not."""
    accesses: list[AccessFacts] = field(default_factory=list)
    values: list[ValueFacts] = field(default_factory=list)

    def add(self, other: ExecutedLine) -> None:
        """Counts another instruction's figures here as well."""
        self.ptx += () if self.ptx[-1:] == other.ptx else other.ptx
        for name in ("executed", "threads", "active", "branches", "divergent"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.accesses += sorted(other.accesses, key=lambda access: (access.space, access.way))

    @property
    def lanes_per_warp(self) -> float | None:
        """Lanes that ran it of a warp's 32, on average; None where no warp came."""
        return self.active / self.executed if self.executed else None

    @property
    def predicated_off(self) -> float | None:
        """The share of lanes that came and did not run it; None where none came."""
        return 1 - self.active / self.threads if self.threads else None

    def use(self, spaces: tuple[str, ...], kind: str | None = None) -> MemoryUse | None:
        """What it asked of some spaces."""
        return memory_use(self.accesses, spaces, kind)

    @property
    def requests(self) -> int | None:
        """Requests of warps to memory of any space, but those of a copy from one to another once;
        None where it accesses none."""
        if not self.accesses:
            return None
        of_global = self.use(GLOBAL)
        return sum(a.requests for a in self.accesses) if of_global is None else of_global.requests


@dataclass(frozen=True, slots=True)
class Totals:
    """The blocks that were run, as a whole.

    ``opcodes`` are warp instructions by opcode, ``classes`` by the class of that.
    """

    instructions: int
    threads: int
    active: int
    opcodes: dict[str, int]
    operations: int
    """Floating point operations of lanes; a fused multiplication and addition is two."""
    global_bytes: int
    """Bytes of the sectors that loads, stores and atomics request, from cache or memory."""
    branches: int
    divergent: int
    classes: dict[str, int]
    accesses: tuple[AccessFacts, ...]

    def use(self, spaces: tuple[str, ...], kind: str | None = None) -> MemoryUse:
        """Requests to some spaces."""
        return memory_use(self.accesses, spaces, kind) or MemoryUse()

    @property
    def intensity(self) -> float | None:
        """Floating point operations a byte of global memory's sectors; None without any."""
        return self.operations / self.global_bytes if self.global_bytes else None


class Facts(Observer):
    """An observer that counts. ``values``: also the values of registers, which takes longer."""

    def __init__(self, program: Program, *, values: bool = True) -> None:
        self.program = program
        self.kinds = register_kinds(program.code, program.blocks.carry) if values else []
        self.values = values
        rows = program.code.instructions
        self._rows = [ExecutedLine(row.line, row.opcode, (row.line,)) for row in rows]
        self._accesses: dict[tuple[int, str, str], AccessFacts] = {}
        self._values: dict[tuple[int, int], _Values] = {}
        self._product_operations = 0
        self._came = (0, 0)
        self._mask: Mask = None

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        self._came = int(lanes.mask_warps(mask).any(2).sum()), lanes.count(mask)
        self._mask = mask

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        row = self._rows[instruction]
        row.executed += self._came[0]
        row.threads += self._came[1]
        row.active += self._came[1] if mask is self._mask else lanes.count(mask)

    def branched(self, lanes: Lanes, instruction: int, yes: Mask, no: Mask) -> None:
        takes = lanes.mask_warps(yes).any(2)
        falls_through = lanes.mask_warps(no).any(2)
        self._rows[instruction].branches += int((takes | falls_through).sum())
        self._rows[instruction].divergent += int((takes & falls_through).sum())

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        if not self.values or register >= len(self.program.code.registers):
            return
        key = (instruction, register)
        if (register_values := self._values.get(key)) is None:
            facts = ValueFacts(self.program.code.names[register], self.kinds[register])
            register_values = self._values[key] = _Values(facts)
        register_values.add(lanes, value, mask)

    def product(self, lanes: Lanes, instruction: int, operations: int) -> None:
        self._product_operations += operations

    def access(self, lanes: Lanes, access: Access) -> None:
        key = (access.instruction, access.space, access.way)
        if (counts := self._accesses.get(key)) is None:
            counts = self._accesses[key] = AccessFacts(space=access.space, way=access.way)
            self._rows[access.instruction].accesses.append(counts)
        if access.way.startswith("matrix"):
            # Eight rows of 16 bytes: one wavefront, unless their banks collide
            rows = access.address
            words = (rows[..., None] >> u64(2)) + np.arange(4, dtype=u64)
            words = words.reshape(-1, 32)
            counts.requests += len(words)
            counts.lanes += 32 * len(words)
            counts.bytes_wanted += 128 * len(words)
            counts.count_wavefronts(words, np.ones(words.shape, bool), 4)
            counts.least_wavefronts += len(words)
            return
        if access.lane is not None:
            _bulk(counts, access)
            return
        active = lanes.mask_warps(access.mask).reshape(-1, 32)
        some = active.any(1)
        if not some.any():
            return
        active = active[some]
        address = lanes.warps(access.address).reshape(-1, 32)[some]
        counts.requests += len(address)
        count = int(active.sum())
        counts.lanes += count
        counts.bytes_wanted += count * access.nbytes
        if access.space in ("global", "const"):
            nbytes = access.nbytes
            steps = np.arange(0, nbytes, SECTOR, dtype=u64)
            spread = ((address[..., None] + steps) >> u64(5)).reshape(len(address), -1)
            counts.sectors += int(_distinct(spread, np.repeat(active, len(steps), 1)).sum())
            counts.tag_requests += int(_distinct(address >> u64(7), active).sum())
            places = _distinct(address // u64(nbytes), active)
            counts.least_sectors += int((-(-places * nbytes // SECTOR)).sum())
        elif access.space == "shared":
            _wavefronts(counts, address, active, access.nbytes)

    def lines(self, links: Mapping[int, tuple[int, ...]] | None = None) -> tuple[ExecutedLine, ...]:
        """Every line of the PTX that has an instruction, those not reached too, in order.

        With ``links`` the lines of another stage that those of the PTX are tied to; a line of PTX
        that is tied to several counts on each.
        """
        out: dict[int, ExecutedLine] = {}
        for row in sorted(self._rows, key=lambda row: row.n):
            lines = (row.n,) if links is None else links.get(row.n, ())
            for n in lines:
                out.setdefault(n, ExecutedLine(n, row.opcode, ())).add(row)
        if links is None:
            for (instruction, _), value in sorted(self._values.items()):
                out[self._rows[instruction].n].values.append(value.result())
        return tuple(out[n] for n in sorted(out))

    def totals(self, cost: Cost | None = None) -> Totals:
        """The blocks that were run; with ``cost`` also by classes of opcodes."""
        opcodes: Counter[str] = Counter()
        classes: Counter[str] = Counter()
        rows = self._rows
        operations = self._product_operations
        for instruction, counted in zip(self.program.code.instructions, rows, strict=True):
            if counted.executed:
                opcodes[instruction.opcode] += counted.executed
                operations += counted.active * _operations(instruction)
        if cost is not None:
            for opcode, count in opcodes.items():
                classes[cost(opcode) or NOT_CLASSED] += count
        accesses = tuple(a for line in self.lines() for a in line.accesses)
        return Totals(
            sum(row.executed for row in rows),
            sum(row.threads for row in rows),
            sum(row.active for row in rows),
            dict(opcodes.most_common()),
            operations,
            sum(a.bytes_moved for a in accesses),
            sum(row.branches for row in rows),
            sum(row.divergent for row in rows),
            dict(classes.most_common()),
            accesses,
        )


_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")
_ONE = words("add sub mul div min max sqrt rsqrt rcp ex2 lg2 sin cos tanh")
_REAL = frozenset(("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"))


def _operations(row: PtxInstruction) -> int:
    """Floating point operations of one lane; those of a matrix product are shared out."""
    if row.base in ("mma", "wgmma"):
        shape = next(filter(None, map(_SHAPE.match, row.parts)), None)
        m, n, k = (int(shape[1]), int(shape[2]), int(shape[3])) if shape else (0, 0, 0)
        lanes = 32 if row.base == "mma" else 128
        return 0 if "s32" in row.parts else 2 * m * n * k // lanes
    if row.kind not in _REAL:
        return 0
    values_per_lane = 2 if row.kind.endswith("x2") else 1
    if row.base in ("fma", "mad"):
        return 2 * values_per_lane
    return values_per_lane if row.base in _ONE else 0


class _Values:
    """What is kept of a register's values at one instruction."""

    def __init__(self, facts: ValueFacts) -> None:
        self.facts = facts
        self.distinct: set[int] | None = set()
        self.turns: list[int | None] = []
        """The one value of each time that it was run, as bits, of the first chunk."""
        self.chunk: Lanes | None = None
        self.turn = 0

    def add(self, lanes: Lanes, value: Array, mask: Mask) -> None:
        facts = self.facts
        small = value.shape != lanes.shape
        bits = value.reshape(-1)
        if mask is not None:  # of rows or columns that some lane of runs
            axes = tuple(axis for axis in (0, 1) if value.shape[axis] != lanes.shape[axis])
            bits = value[lanes.full_mask(mask).any(axes, keepdims=True)]
        if bits.size == 0:
            return
        facts.count += lanes.count(mask)
        share = max(1, lanes.count(mask) // bits.size) if small else 1
        self._distinct(self._range(bits, share))
        if self.chunk is not lanes:
            self.chunk = lanes
            self.turn = 0
        is_uniform = bool((bits == bits[0]).all())
        if facts.uniform_block and not is_uniform and value.shape[1] > 1:
            facts.uniform_block = _rows_uniform(lanes, value, mask)
        if facts.uniform_grid:
            now = int(bits[0]) if is_uniform else None
            if self.turn >= len(self.turns):
                self.turns.append(now)
            facts.uniform_grid = is_uniform and self.turns[self.turn] == now
        self.turn += 1

    def _range(self, bits: Array, share: int) -> Array:
        """Notes the least and the greatest; gives the bits, those of every NaN alike."""
        facts = self.facts
        numbers = as_values(bits, facts.kind)
        if numbers.dtype.kind == "f":
            finite = np.isfinite(numbers)
            if not finite.all():
                nan = np.isnan(numbers)
                facts.nans += int(nan.sum()) * share
                facts.infinities += int((~nan & ~finite).sum()) * share
                numbers = numbers[~nan]
                if nan.shape == bits.shape:
                    bits = np.where(
                        nan, bits.dtype.type(-1 % (1 << (8 * bits.dtype.itemsize))), bits
                    )
        if numbers.size == 0:
            return bits
        low = numbers.min().item()
        high = numbers.max().item()
        facts.least = low if facts.least is None else min(facts.least, low)
        facts.greatest = high if facts.greatest is None else max(facts.greatest, high)
        return bits

    def _distinct(self, bits: Array) -> None:
        if self.distinct is None:
            return
        for part in (bits[:256], bits[256:]):
            self.distinct.update(np.unique(part).tolist())
            if len(self.distinct) > MAX_DISTINCT:
                self.distinct = None
                return

    def result(self) -> ValueFacts:
        self.facts.distinct = None if self.distinct is None else len(self.distinct)
        return self.facts


def _rows_uniform(lanes: Lanes, value: Array, mask: Mask) -> bool:
    keep = lanes.full_mask(mask)
    full = lanes.full(value)
    first = np.argmax(keep, 1)
    reference = full[np.arange(lanes.blocks), first][:, None]
    return bool(((full == reference) | ~keep).all())


def as_values(bits: Array, kind: str) -> Array:
    """Register bits as numbers of a type; packed types as pairs along a last dimension."""
    if bits.dtype == bool:
        return bits
    if kind in ("bf16", "f16", "bf16x2", "f16x2"):
        halves = np.ascontiguousarray(bits).view(u16) if kind.endswith("x2") else bits.astype(u16)
        return floats.from_bf16(halves) if kind[0] == "b" else halves.view(f16)
    width = bits.dtype.itemsize
    dtype: Any = DTYPES.get(kind, bits.dtype)
    if np.dtype(dtype).itemsize != width:
        return bits
    return bits.view(dtype)


# Requests of memory.


def _ordered(values: Array, on: Array) -> tuple[Array, Array]:
    """The values of each row in order, and which of them are the first of their kind."""
    ordered = np.sort(np.where(on, values, NONE), 1)
    new = ordered != NONE
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, new


def _distinct(values: Array, on: Array) -> Array:
    """How many distinct values each row has."""
    return _ordered(values, on)[1].sum(1)


def _wavefronts(counts: AccessFacts, address: Array, active: Array, nbytes: int) -> None:
    """Of shared memory: 8-byte accesses go by halves of a warp, 16-byte ones by quarters."""
    per = max(1, nbytes // 4)
    group = max(1, 32 // per)
    words = (address >> u64(2))[..., None] + np.arange(per, dtype=u64)
    on = np.broadcast_to(active[..., None], words.shape)
    words = words.reshape(-1, group * per)
    on = np.ascontiguousarray(on).reshape(-1, group * per)
    counts.count_wavefronts(words, on, per)
    counts.least_wavefronts += int(on.any(1).sum())


def _bulk(counts: AccessFacts, access: Access) -> None:
    """A copy of many elements: the sectors that hold them, of whom each is read once."""
    address = access.address
    counts.requests += 1
    counts.lanes += 1
    wanted_bytes = len(address) * access.nbytes
    counts.bytes_wanted += wanted_bytes
    counts.sectors += len(np.unique(address >> u64(5)))
    counts.tag_requests += len(np.unique(address >> u64(7)))
    counts.least_sectors += -(-wanted_bytes // SECTOR)


def _waves(words: Array, on: Array) -> Array:
    """For each row the most distinct words that one bank has to give."""
    ordered, new = _ordered(words, on)
    bank = (ordered & u64(BANKS - 1)).astype(i64) + np.arange(len(words))[:, None] * BANKS
    counts = np.bincount(bank[new], minlength=len(words) * BANKS).reshape(-1, BANKS)
    most: Array = counts.max(1)
    return most
