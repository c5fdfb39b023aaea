"""Simulates one SM: warps walk their steps by the control codes, and wait for what they share.

Control codes say when a warp may go on (stall counts, scoreboards); four schedulers issue one
instruction a cycle each; pipes, L1, L2 and memory are queues that serve one request after another,
the last two with this SM's share of the device's bandwidth. Times are cycles.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from inspector.base.errors import ToolMissing
from inspector.base.names import words
from inspector.estimate.copies import WAITS, BarrierEvent, CopyLog
from inspector.estimate.path import LOADS, SHARED, STORES, Op, Step

QUARTERS = 4
MAX_EVENTS = 400_000
"""Instructions of warps that are simulated, but for a first wave that has more: a second or two."""
LATENCIES = {
    base: name
    for name, bases in (
        ("slow_latency", "MUFU I2F F2I F2F FRND POPC FLO DFMA DADD DMUL DSETP"),
        ("special_latency", "S2R S2UR LDC R2UR CS2R"),
    )
    for base in words(bases)
}
"""The machine's constant that is the latency of an instruction; of the others it is fixed."""


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
    slow_latency: float
    tensor_latency: float
    tensor_products: float
    barrier: float
    block_start: float
    warp_start: float
    store_drain: float
    port_bytes: float
    l2_write_bytes: float
    partial_store: float
    fetch: float
    copy_latency: float
    copy_bytes: float
    poll: float


class Role(Struct, frozen=True):
    """Warps of a block, by number, that take the same steps; a step is that of the first so many of
    them."""

    warps: Sequence[int]
    steps: Sequence[Step]


class Work(Struct, frozen=True):
    """What is launched: ``resident`` blocks an SM holds at once, bytes of the whole launch.

    ``blocks`` are as many as do the launch's work, each as much as those that were executed.
    """

    roles: Sequence[Role]
    blocks: int
    warps: int
    resident: int
    loaded: float
    stored: float
    executed_blocks: range
    launched_blocks: int
    log: CopyLog


Result = tuple[float, int]
"""When something is there, and the line of SASS that it comes from."""
Phase = tuple[int, int, int]
"""A phase of an mbarrier: the block, the mbarrier's offset in shared memory, the phase's number."""
Spent = dict[int, float]
"""Cycles of warps by the line of SASS that they are spent on: what is waited for, not who waits."""


class Warp:
    """A warp under way: results awaited by scoreboard, groups of products, and copies."""

    __slots__ = (
        "block", "boards", "copies", "done", "groups", "lane", "number", "place", "products",
        "steps",
    )  # fmt: skip

    def __init__(
        self, block: int, lane: int, number: int, place: int, steps: Sequence[Step]
    ) -> None:
        self.block = block
        self.lane = lane
        self.number = number
        self.place = place
        """Among the warps of its role."""
        self.steps = steps
        self.boards: list[list[Result]] = [[] for _ in range(6)]
        self.groups: list[Result] = []
        self.copies: Result = 0.0, 0
        self.products: Result = 0.0, 0
        self.done: Counter[int] = Counter()
        """How often it has copied, arrived or waited by each line of PTX."""


class Recorder:
    """What a simulation tells while it runs; its methods do nothing. Times are cycles."""

    def spent(self, warp: Warp, begin: float, end: float, line: int, waits: bool) -> None:
        """A warp issues an instruction of a line of SASS, or waits for what one has begun."""

    def busy(self, unit: str, warp: Warp, begin: float, end: float, line: int) -> None:
        """A ``tensor`` core of the warp's part of the SM, or the ``copy`` engine, works for it."""

    def over(self, phase: Phase, end: float, line: int) -> None:
        """A phase of an mbarrier is over, by an arrival or copy of a line of SASS."""


class Simulation:
    """One SM, until its blocks are done. ``spent`` fills while it runs."""

    def __init__(self, work: Work, machine: Machine, recorder: Recorder | None = None) -> None:
        self.work = work
        self.machine = machine
        self.recorder = recorder
        self.mine = ceil(work.blocks / machine.sms)
        block_steps = max(1, sum(len(role.steps) * len(role.warps) for role in work.roles))
        waves = max(1, min(3, MAX_EVENTS // (block_steps * work.resident)))
        self.count = min(self.mine, work.resident * waves)
        cycle_share = 1 / min(machine.sms, work.blocks) / machine.clock_hz
        self.l2_rate = min(machine.port_bytes, machine.l2_bytes_per_s * cycle_share)
        self.memory_rate = min(machine.port_bytes, machine.memory_bytes_per_s * cycle_share)
        self.writes = max(0.0, 1 - machine.l2_write_bytes / work.stored) if work.stored else 0.0
        self.latencies = {base: getattr(machine, name) for base, name in LATENCIES.items()}
        self.l1 = self.l2 = self.memory = self.last_store = self.fetching = self.starting = 0.0
        self.issue = [0.0] * QUARTERS
        self.pipes: list[dict[str, float]] = [{} for _ in range(QUARTERS)]
        self.heap: list[tuple[float, int, int, Warp]] = []
        self.left: list[int] = []
        self.waiting: list[dict[int, list[tuple[float, int, Warp]]]] = []
        """Warps at each barrier of a block by its number: since when, and the step after it."""
        self.ends: list[float] = []
        self.fetched: set[int] = set()
        self.copying = 0.0
        self.arrived: dict[Phase, list[Result]] = defaultdict(list)
        self.over: dict[Phase, Result] = {}
        self.parked: dict[Phase, list[tuple[float, int, Warp]]] = defaultdict(list)
        """Warps that wait for a phase: since when, and at which step."""
        self.spent: Spent = defaultdict(float)

    def start(self, cycle: float) -> None:
        """Start the next block, when the one before has been started."""
        block = len(self.left)
        warps = self.work.warps
        cycle = max(cycle, self.starting)
        self.starting = cycle + max(self.machine.block_start, warps * self.machine.warp_start)
        self.left.append(warps)
        self.waiting.append({})
        for role in self.work.roles:
            for place, lane in enumerate(role.warps):
                begins = cycle + lane * self.machine.warp_start
                warp = Warp(block, lane, block * warps + lane, place, role.steps)
                heapq.heappush(self.heap, (begins, warp.number, 0, warp))

    def run(self) -> float:
        """Simulate; returns the cycles until the busiest SM is done."""
        work = self.work
        heap = self.heap
        for _ in range(min(work.resident, self.count)):
            self.start(0.0)
        while heap:
            cycle, number, pc, warp = heapq.heappop(heap)
            steps = warp.steps
            while pc < len(steps) and steps[pc][1] <= warp.place:
                pc += 1
            if pc >= len(steps):
                self._end(warp, cycle)
                continue
            op = steps[pc][0]
            quarter = number % QUARTERS
            if op.unit == "wait" and (phase := self._awaited(op, warp)) is not None:
                if phase not in self.over:
                    self.parked[phase].append((cycle, pc, warp))
                    continue
                ready, line = self.over[phase]
                if ready > cycle + 0.5:
                    self._spend(warp, cycle, ready, line)
                    heapq.heappush(heap, (ready, number, pc, warp))
                    continue
            ready, line = self._ready(op, warp, cycle, quarter)
            if ready > cycle + 0.5:
                self._spend(warp, cycle, ready, line)
                heapq.heappush(heap, (ready, number, pc, warp))
                continue
            self.issue[quarter] = cycle + 1
            if op.pipe is not None:
                self.pipes[quarter][op.pipe[0]] = cycle + op.pipe[1]
            next_cycle = self._run(op, warp, cycle, quarter)
            self._spend(warp, cycle, next_cycle, op.n, waits=False)
            if op.barrier is not None and work.warps > 1:
                barrier, count = op.barrier
                waiting = self.waiting[warp.block].setdefault(barrier, [])
                waiting.append((next_cycle, pc + 1, warp))
                self._meet(warp.block, waiting, count, op.n)
            else:
                heapq.heappush(heap, (next_cycle, number, pc + 1, warp))
        return self._total()

    def _spend(
        self, warp: Warp, begin: float, end: float, line: int, *, waits: bool = True
    ) -> None:
        self.spent[line] += end - begin
        if self.recorder is not None:
            self.recorder.spent(warp, begin, end, line, waits)

    def _ready(self, op: Op, warp: Warp, cycle: float, quarter: int) -> Result:
        """When an instruction may issue, and what it waits for; that is then forgotten."""
        ready = cycle, op.n
        for k in op.wait:
            if warp.boards[k]:
                ready = max(ready, max(warp.boards[k]))
                warp.boards[k] = []
        if op.depends is not None:
            name, allowed = op.depends
            pending = warp.groups if name == "gsb0" else warp.boards[int(name[2])]
            if len(pending) > allowed:
                ready = max(ready, max(pending[: len(pending) - allowed]))
                del pending[: len(pending) - allowed]
        if (place := op.n >> 3) not in self.fetched:
            self.fetched.add(place)
            self.fetching = max(ready[0], self.fetching) + self.machine.fetch
            ready = self.fetching, op.n
        free = self.issue[quarter]
        if op.pipe is not None:
            free = max(free, self.pipes[quarter].get(op.pipe[0], 0.0))
        return ready if ready[0] >= free else (free, op.n)

    def _run(self, op: Op, warp: Warp, cycle: float, quarter: int) -> float:
        """Issue an instruction; returns when the warp may go on."""
        machine = self.machine
        base = op.base
        complete = cycle + 4
        read = cycle + 10
        next_cycle = cycle + op.stall
        if op.unit:
            read = self._asynchronous(op, warp, cycle)
            if op.unit == "wait":
                next_cycle = max(next_cycle, cycle + machine.poll)
        elif base in LOADS:
            complete, read = self._load(op, warp, cycle)
            if base == "LDGSTS":
                warp.copies = max(warp.copies, (complete, op.n))
        elif base in STORES:
            read = self._store(op, cycle) + 12
            complete = read + machine.l2_latency * 1.5
        elif base in SHARED:
            self.l1 = max(cycle, self.l1) + op.waves
            complete = self.l1 + machine.shared_latency
            read = self.l1 + 8
        elif base in self.latencies:
            complete = cycle + self.latencies[base]
        elif op.products:
            begun = max(cycle, self.pipes[quarter].get("tensor", 0.0))
            busy = self.pipes[quarter]["tensor"] = begun + op.products / machine.tensor_products
            if self.recorder is not None:
                self.recorder.busy("tensor", warp, begun, busy, op.n)
            complete = busy + machine.tensor_latency
            if base.endswith("GMMA"):
                warp.products = max(warp.products, (complete, op.n))
                if op.group:
                    warp.groups.append(warp.products)
            else:
                next_cycle = max(next_cycle, begun + 1)
        if op.write is not None:
            copied = base == "LDGDEPBAR" and warp.copies[0] > complete
            warp.boards[op.write].append(warp.copies if copied else (complete, op.n))
        if op.read is not None:
            warp.boards[op.read].append((read, op.n))
        return next_cycle

    def _event(self, op: Op, warp: Warp) -> tuple[int, BarrierEvent] | None:
        """The line of PTX of a warp's next copy, arrival or wait at an instruction, and which."""
        for line in (WAITS,) if op.unit == "wait" else op.ptx:
            events = self.work.log.events.get((warp.lane, line), ())
            if warp.done[line] < len(events):
                return line, events[warp.done[line]]
        return None

    def _awaited(self, op: Op, warp: Warp) -> Phase | None:
        """The phase that a warp waits for; None where that was over before the block began."""
        if (event := self._event(op, warp)) is None or event[1].phase < 0:
            return None
        return warp.block, event[1].barrier, event[1].phase

    def _asynchronous(self, op: Op, warp: Warp, cycle: float) -> float:
        """A copy by TMA, an arrival or a wait that is over; returns when its operands are read."""
        if op.unit == "send":
            return self._send(op, warp, cycle)
        if (found := self._event(op, warp)) is None:
            return cycle + 10
        line, event = found
        warp.done[line] += 1
        if op.unit == "wait":
            return cycle + 10
        complete = cycle + 10
        if op.unit == "copy":
            complete = self._copied(op, warp, event.nbytes, cycle)
        phase = warp.block, event.barrier, event.phase
        arrived = self.arrived[phase]
        arrived.append((complete, op.n))
        if len(arrived) == self.work.log.needed[event.barrier, event.phase]:
            self.over[phase] = over = max(arrived)
            if self.recorder is not None:
                self.recorder.over(phase, *over)
            for since, pc, waiting in self.parked.pop(phase, ()):
                ready = max(over[0], since)
                self._spend(waiting, since, ready, over[1])
                heapq.heappush(self.heap, (ready, waiting.number, pc, waiting))
        return cycle + 10

    def _copied(self, op: Op, warp: Warp, nbytes: int, cycle: float) -> float:
        """When a copy by TMA into shared memory is complete."""
        machine = self.machine
        begun = max(cycle, self.copying)
        self.copying = begun + nbytes / machine.copy_bytes
        moved = self.l2 = max(begun, self.l2) + nbytes / self.l2_rate
        if op.memory:
            self.memory = max(begun, self.memory) + nbytes * op.memory / self.memory_rate
            moved = max(moved, self.memory)
        first = warp.block < self.work.resident or op.memory > 0.5
        latency = machine.memory_latency if first else machine.l2_latency
        complete = max(moved, self.copying) + latency + machine.copy_latency
        if self.recorder is not None:
            self.recorder.busy("copy", warp, begun, complete, op.n)
        return complete

    def _send(self, op: Op, warp: Warp, cycle: float) -> float:
        """A copy by TMA out of shared memory, which a later wait for its group reads."""
        for line in op.ptx:
            sends = self.work.log.sends.get((warp.lane, line), ())
            if warp.done[line] < len(sends):
                nbytes = sends[warp.done[line]]
                warp.done[line] += 1
                break
        else:
            return cycle + 10
        begun = max(cycle, self.copying)
        self.copying = begun + nbytes / self.machine.copy_bytes
        self.l2 = max(begun, self.l2) + nbytes / self.l2_rate
        if self.writes:
            self.memory = max(begun, self.memory) + nbytes * self.writes / self.memory_rate
        self.last_store = max(self.last_store, self.l2, self.memory if self.writes else 0.0)
        warp.boards[0].append((max(self.copying, self.l2) + self.machine.copy_latency, op.n))
        return cycle + 10

    def _load(self, op: Op, warp: Warp, cycle: float) -> tuple[float, float]:
        """When a load has its data, and when its registers are read."""
        machine = self.machine
        sectors = op.sectors
        begun = max(cycle, self.l1)
        tags = max(op.tags, sectors / 4) if sectors else 0
        self.l1 = begun + tags + (op.waves if op.base == "LDGSTS" else 0)
        if not (fresh := sectors * op.fresh * 32):
            return begun + machine.l1_latency, begun + 12
        moved = self.l2 = max(begun, self.l2) + fresh / self.l2_rate
        if op.memory:
            self.memory = max(begun, self.memory) + fresh * op.memory / self.memory_rate
            moved = max(moved, self.memory)
        first = warp.block < self.work.resident or op.memory > 0.5
        return moved + (machine.memory_latency if first else machine.l2_latency), begun + 12

    def _store(self, op: Op, cycle: float) -> float:
        """Send a store on its way; returns when L1 takes it."""
        begun = max(cycle, self.l1)
        self.l1 = begun + max(op.tags, op.sectors / 4)
        moved = op.sectors * 32 * (1 + self.machine.partial_store * op.partial)
        self.l2 = max(begun, self.l2) + moved / self.l2_rate
        if self.writes:
            self.memory = max(begun, self.memory) + moved * self.writes / self.memory_rate
        self.last_store = max(self.last_store, self.l2, self.memory if self.writes else 0.0)
        return begun

    def _meet(
        self, block: int, waiting: list[tuple[float, int, Warp]], count: int, line: int = 0
    ) -> None:
        """Let the warps at a barrier go on once ``count`` are there, 0: all that have not ended."""
        if not waiting or len(waiting) < (count or self.left[block]):
            return
        cycle = max(arrival[0] for arrival in waiting) + self.machine.barrier
        for since, pc, warp in waiting:
            self._spend(warp, since, cycle, line)
            heapq.heappush(self.heap, (cycle, warp.number, pc, warp))
        waiting.clear()

    def _end(self, warp: Warp, cycle: float) -> None:
        self.left[warp.block] -= 1
        if self.left[warp.block]:
            for waiting in self.waiting[warp.block].values():
                self._meet(warp.block, waiting, 0)
            return
        self.ends.append(cycle)
        if len(self.left) < self.count:
            self.start(cycle + self.machine.block_start)

    def _total(self) -> float:
        """The end of the last block or store; blocks left out go on at the rate of the others.

        Raises ``ToolMissing`` where a block did not come to its end: its warps part at barriers.
        """
        if len(self.ends) < self.count:
            raise ToolMissing("barriers that only some warps of a block come to are not modelled")
        ends = sorted(self.ends)
        total = max(ends[-1], self.last_store)
        later_blocks = self.count - self.work.resident
        rate = (
            (ends[-1] - ends[-later_blocks - 1]) / later_blocks
            if later_blocks > 0
            else ends[-1] / len(ends)
        )
        total += (self.mine - self.count) * max(rate, ends[-1] / len(ends) / 2)
        drained = self.last_store + self.machine.store_drain
        return max(total, drained) if self.work.stored else total
