"""Simulates one SM: warps walk their steps by the control codes, and wait for what they share.

Control codes say when a warp may go on (stall counts, scoreboards); four schedulers issue one
instruction a cycle each; pipes, L1, L2 and memory are queues that serve one request after another,
the last two with this SM's share of the device's bandwidth. Times are cycles.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from inspector.base.text import words
from inspector.estimate.path import LOADS, SHARED, STORES, Op, Step

QUARTERS = 4
MAX_EVENTS = 400_000
"""Instructions of warps that are simulated beyond the first wave: about two seconds."""
SLOW = frozenset(words("MUFU I2F F2I F2F FRND POPC FLO"))
SPECIAL = frozenset(words("S2R S2UR LDC R2UR CS2R"))
DOUBLE = frozenset(words("DFMA DADD DMUL DSETP"))


class Machine(Struct, frozen=True):
    """A device's constants: seconds, hertz, bytes a second; the others in cycles of the SM."""

    clock_hz: float
    sms: int
    memory_bytes_per_s: float
    l2_bytes_per_s: float
    floor_us: float
    memory_latency: float
    l2_latency: float
    l1_latency: float
    shared_latency: float
    special_latency: float
    shuffle_latency: float
    slow_latency: float
    tensor_latency: float
    tensor_products: float
    barrier: float
    block_start: float
    warp_start: float
    store_drain: float
    port_bytes: float
    l2_write_bytes: float
    fetch: float


class Work(Struct, frozen=True):
    """What is launched: ``resident`` blocks an SM holds at once, bytes of the whole launch."""

    steps: Sequence[Step]
    blocks: int
    warps: int
    resident: int
    loaded: float
    stored: float


class Warp:
    """A warp under way: results awaited by scoreboard, groups of products and of copies."""

    __slots__ = ("block", "boards", "copies", "groups", "lane", "number", "products")

    def __init__(self, block: int, lane: int, number: int) -> None:
        self.block, self.lane, self.number = block, lane, number
        self.boards: list[list[float]] = [[] for _ in range(6)]
        self.groups: list[float] = []
        self.copies = 0.0
        self.products = 0.0


def simulate(work: Work, machine: Machine, spent: dict[int, float] | None = None) -> float:
    """Cycles until the busiest SM is done; ``spent`` takes cycles by the line waited for."""
    return Simulation(work, machine, spent).run()


class Simulation:
    def __init__(self, work: Work, machine: Machine, spent: dict[int, float] | None) -> None:
        self.work, self.machine, self.spent = work, machine, spent
        busy = min(machine.sms, work.blocks)
        self.mine = ceil(work.blocks / machine.sms)
        each = max(1, len(work.steps) * work.warps)
        self.count = min(
            self.mine, max(work.resident * 3, 8), max(work.resident, MAX_EVENTS // each)
        )
        cycle_share = 1 / busy / machine.clock_hz
        self.l2_rate = min(machine.port_bytes, machine.l2_bytes_per_s * cycle_share)
        self.memory_rate = min(machine.port_bytes, machine.memory_bytes_per_s * cycle_share)
        self.writes = max(0.0, 1 - machine.l2_write_bytes / work.stored) if work.stored else 0.0
        self.l1 = self.l2 = self.memory = self.last_store = 0.0
        self.issue = [0.0] * QUARTERS
        self.pipes: list[dict[str, float]] = [{} for _ in range(QUARTERS)]
        self.heap: list[tuple[float, int, int, Warp]] = []
        self.left: dict[int, int] = {}
        self.waiting: dict[int, list[tuple[float, int, Warp]]] = {}
        self.ends: list[float] = []
        self.started = 0
        self.order = 0
        self.fetched: set[int] = set()
        self.fetching = 0.0

    def start(self, at: float) -> None:
        block = self.started
        self.left[block], self.waiting[block] = self.work.warps, []
        for lane in range(self.work.warps):
            warp = Warp(block, lane, self.order)
            heapq.heappush(self.heap, (at + lane * self.machine.warp_start, self.order, 0, warp))
            self.order += 1
        self.started += 1

    def run(self) -> float:
        work, machine = self.work, self.machine
        for k in range(min(work.resident, self.count)):
            self.start(k * machine.block_start)
        steps, heap, end = work.steps, self.heap, len(work.steps)
        while heap:
            at, number, pc, warp = heapq.heappop(heap)
            while pc < end and steps[pc][1] <= warp.lane:
                pc += 1
            if pc >= end:
                self._end(warp, at)
                continue
            op = steps[pc][0]
            quarter = (warp.lane + warp.block * work.warps) % QUARTERS
            ready = self._ready(op, warp, at, quarter)
            if ready > at + 0.5:
                heapq.heappush(heap, (ready, number, pc, warp))
                continue
            self.issue[quarter] = at + 1
            if op.pipe is not None:
                self.pipes[quarter][op.pipe[0]] = at + op.pipe[1]
            after = self._run(op, warp, at, quarter)
            if op.barrier and work.warps > 1:
                self._meet(op, warp, after, pc + 1)
            else:
                heapq.heappush(heap, (after, number, pc + 1, warp))
        return self._total()

    def _ready(self, op: Op, warp: Warp, at: float, quarter: int) -> float:
        """When an instruction may issue; what it has waited for is forgotten."""
        ready = at
        boards = warp.boards
        for k in op.wait:
            if boards[k]:
                ready = max(ready, max(boards[k]))
                boards[k] = []
        if op.depends is not None:
            name, left = op.depends
            pending = warp.groups if name == "gsb0" else boards[int(name[2])]
            if len(pending) > left:
                ready = max(ready, max(pending[: len(pending) - left]))
                del pending[: len(pending) - left]
        if self.machine.fetch and (place := op.n >> 3) not in self.fetched:
            self.fetched.add(place)
            self.fetching = max(ready, self.fetching) + self.machine.fetch
            ready = self.fetching
        ready = max(ready, self.issue[quarter])
        if op.pipe is not None:
            ready = max(ready, self.pipes[quarter].get(op.pipe[0], 0.0))
        return ready

    def _run(self, op: Op, warp: Warp, at: float, quarter: int) -> float:
        """Issue an instruction; returns when the warp may go on."""
        machine, base = self.machine, op.base
        done, read, after = at + 4, at + 10, at + op.stall
        if base in LOADS:
            done, read = self._load(op, warp, at)
            if base == "LDGSTS":
                warp.copies = max(warp.copies, done)
        elif base == "LDGDEPBAR":
            done = max(done, warp.copies)
        elif base in STORES:
            read = self._store(op, at) + 12
            done = read + machine.l2_latency * 1.5
        elif base in SHARED:
            begun = max(at, self.l1)
            self.l1 = begun + op.waves
            done, read = self.l1 + machine.shared_latency, self.l1 + 8
        elif base == "SHFL":
            begun = max(at, self.l1)
            self.l1 = begun + 1
            done = begun + machine.shuffle_latency
        elif base in SLOW:
            done = at + machine.slow_latency
        elif base in SPECIAL:
            done = at + machine.special_latency
        elif base in DOUBLE:
            done = at + 16
        elif op.products:
            begun = max(at, self.pipes[quarter].get("tensor", 0.0))
            busy = begun + op.products / machine.tensor_products
            self.pipes[quarter]["tensor"] = busy
            done = busy + machine.tensor_latency
            if base.endswith("GMMA"):
                warp.products = max(warp.products, done)
                if op.group:
                    warp.groups.append(warp.products)
            else:
                after = max(after, begun + 1)
        if op.write is not None:
            warp.boards[op.write].append(done)
        if op.read is not None:
            warp.boards[op.read].append(read)
        return after

    def _load(self, op: Op, warp: Warp, at: float) -> tuple[float, float]:
        """When a load has its data, and when its registers are read."""
        machine, sectors = self.machine, op.sectors
        if not sectors:
            return at + machine.l1_latency, at + 12
        begun = max(at, self.l1)
        self.l1 = begun + max(op.tags, sectors / 4)
        fresh = sectors * op.fresh * 32
        if op.fresh < 0.02:
            return begun + machine.l1_latency, begun + 12
        self.l2 = max(begun, self.l2) + fresh / self.l2_rate
        if op.memory:
            self.memory = max(begun, self.memory) + fresh * op.memory / self.memory_rate
        first = warp.block < self.work.resident or op.memory > 0.5
        latency = machine.memory_latency if first else machine.l2_latency
        moved = max(self.l2, self.memory) if op.memory else self.l2
        return moved + latency, begun + 12

    def _store(self, op: Op, at: float) -> float:
        begun = max(at, self.l1)
        self.l1 = begun + max(op.tags, op.sectors / 4)
        moved = op.sectors * 32
        self.l2 = max(begun, self.l2) + moved / self.l2_rate
        self.last_store = max(self.last_store, self.l2)
        if self.writes:
            self.memory = max(begun, self.memory) + moved * self.writes / self.memory_rate
            self.last_store = max(self.last_store, self.memory)
        return begun

    def _meet(self, op: Op, warp: Warp, at: float, pc: int) -> None:
        """A warp waits at its block's barrier; the last one lets all go on."""
        waiting = self.waiting[warp.block]
        waiting.append((at, pc, warp))
        if len(waiting) >= self.left[warp.block]:
            self._release(warp.block)

    def _release(self, block: int) -> None:
        waiting = self.waiting[block]
        at = max(each[0] for each in waiting) + self.machine.barrier
        for _, pc, warp in waiting:
            heapq.heappush(self.heap, (at, warp.number, pc, warp))
        self.waiting[block] = []

    def _end(self, warp: Warp, at: float) -> None:
        block = warp.block
        self.left[block] -= 1
        if self.left[block]:
            if len(self.waiting[block]) >= self.left[block]:
                self._release(block)
            return
        self.ends.append(at)
        if self.started < self.count:
            self.start(at + self.machine.block_start)

    def _total(self) -> float:
        """The end of the last block or store; blocks left out go on at the rate of the others."""
        ends = sorted(self.ends)
        total = max(ends[-1], self.last_store)
        if self.count < self.mine:
            first = max(0, min(len(ends) - 2, self.work.resident - 1))
            rate = (ends[-1] - ends[first]) / max(1, len(ends) - 1 - first)
            total += (self.mine - self.count) * max(rate, ends[-1] / len(ends) / 2)
        if self.work.stored:
            total = max(total, self.last_store + self.machine.store_drain)
        return total
