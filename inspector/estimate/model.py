"""Simulates one SM: warps walk their steps by the control codes, and wait for what they share.

Control codes say when a warp may go on (stall counts, scoreboards); four schedulers issue one
instruction a cycle each; pipes, L1, L2 and memory are queues that serve one request after another,
the last two with this SM's share of the device's bandwidth. Of clusters as many SMs are simulated
as a cluster has blocks, one for each; a block that is in no cluster is one of its own. Times are
cycles.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil

from msgspec import Struct

from inspector.base.errors import ToolMissing
from inspector.base.names import words
from inspector.estimate.copies import WAITS, BarrierEvent, CopyLog
from inspector.estimate.path import LOADS, SHARED, STORES, Op, Step
from inspector.execute.memory import RANK_SHIFT

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
    remote_latency: float
    remote_bytes: float
    cluster_barrier: float
    fence: float
    cluster_sms: Mapping[str, int] = {}
    """SMs that clusters of so many blocks reach where an SM holds one block; else all."""

    def clusters(self, size: int, resident: int) -> int:
        """Clusters that the device runs at once, for each block that an SM holds."""
        sms = self.cluster_sms.get(str(size), self.sms) if resident == 1 else self.sms
        return max(1, sms // size)


class Role(Struct, frozen=True):
    """Warps of a cluster, by number, that take the same steps; a step is that of the first so many
    of them."""

    warps: Sequence[int]
    steps: Sequence[Step]


class Work(Struct, frozen=True):
    """What is launched: ``resident`` blocks an SM holds at once, bytes of the whole launch.

    ``warps`` are those of a block, ``blocks`` as many as do the launch's work, each as much as
    those that were executed.
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
"""A phase of an mbarrier: the cluster, the mbarrier's address there, the phase's number."""
CLUSTER = -1
"""The cluster's own barrier among the mbarriers."""
CLUSTER_UNITS = {"cluster arrive": -1, "cluster wait": -2}
"""What is done at the cluster's barrier, by its place among the lines that a warp has done."""
WAITING = ("wait", "cluster wait")
Spent = dict[int, float]
"""Cycles of warps by the line of SASS that they are spent on: what is waited for, not who waits."""


class Sm:
    """An SM's queues, by the cycle until which each is taken, and what it has fetched."""

    __slots__ = (
        "copying", "fetched", "fetching", "issue", "l1", "l2", "memory", "pipes", "starting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.l1 = self.l2 = self.memory = self.copying = self.fetching = self.starting = 0.0
        self.issue = [0.0] * QUARTERS
        self.pipes: list[dict[str, float]] = [{} for _ in range(QUARTERS)]
        self.fetched: set[int] = set()


class Warp:
    """A warp under way: results awaited by scoreboard, groups of products, and copies."""

    __slots__ = (
        "block", "boards", "cluster", "copies", "done", "groups", "lane", "number", "place",
        "products", "sm", "steps",
    )  # fmt: skip

    def __init__(
        self, cluster: int, lane: int, warps: int, sms: Sequence[Sm], place: int,
        steps: Sequence[Step],
    ) -> None:  # fmt: skip
        rank = lane // warps
        self.cluster = cluster
        self.lane = lane
        """Among the warps of its cluster."""
        self.block = cluster * len(sms) + rank
        self.number = self.block * warps + lane % warps
        self.sm = sms[rank]
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
    """The SMs of one cluster after the other, until they are done. ``spent`` fills meanwhile."""

    def __init__(self, work: Work, machine: Machine, recorder: Recorder | None = None) -> None:
        self.work = work
        self.machine = machine
        self.recorder = recorder
        size = work.log.size
        self.sms = [Sm() for _ in range(size)]
        clusters = work.blocks / size
        self.mine = ceil(clusters / machine.clusters(size, work.resident))
        cluster_steps = max(1, sum(len(role.steps) * len(role.warps) for role in work.roles))
        waves = max(1, min(3, MAX_EVENTS // (cluster_steps * work.resident)))
        self.count = min(self.mine, work.resident * waves)
        """Clusters that are simulated, of those that are ``mine``."""
        cycle_share = 1 / min(machine.sms, work.blocks) / machine.clock_hz
        self.l2_rate = min(machine.port_bytes, machine.l2_bytes_per_s * cycle_share)
        self.memory_rate = min(machine.port_bytes, machine.memory_bytes_per_s * cycle_share)
        self.writes = max(0.0, 1 - machine.l2_write_bytes / work.stored) if work.stored else 0.0
        self.latencies = {base: getattr(machine, name) for base, name in LATENCIES.items()}
        self.last_store = 0.0
        self.heap: list[tuple[float, int, int, Warp]] = []
        self.left: list[int] = []
        """Warps of each block that have not ended."""
        self.unfinished: list[int] = []
        """Blocks of each cluster that have not ended."""
        self.waiting: list[dict[int, list[tuple[float, int, Warp]]]] = []
        """Warps at each barrier of a block by its number: since when, and the step after it."""
        self.ends: list[float] = []
        self.arrived: dict[Phase, list[Result]] = defaultdict(list)
        self.needed = Counter(work.log.needed)
        for role in work.roles:
            meetings = sum(op.unit == "cluster arrive" for op, _ in role.steps)
            for phase in range(meetings):
                self.needed[CLUSTER, phase] += len(role.warps)
        self.over: dict[Phase, Result] = {}
        self.parked: dict[Phase, list[tuple[float, int, Warp]]] = defaultdict(list)
        """Warps that wait for a phase: since when, and at which step."""
        self.spent: Spent = defaultdict(float)

    def start(self, cycle: float) -> None:
        """Start the next cluster, when the one before has been started."""
        cluster = len(self.unfinished)
        warps = self.work.warps
        begins = []
        for sm in self.sms:
            begin = max(cycle, sm.starting)
            sm.starting = begin + max(self.machine.block_start, warps * self.machine.warp_start)
            begins.append(begin)
            self.left.append(warps)
            self.waiting.append({})
        self.unfinished.append(len(self.sms))
        for role in self.work.roles:
            for place, lane in enumerate(role.warps):
                warp = Warp(cluster, lane, warps, self.sms, place, role.steps)
                begin = begins[lane // warps] + lane % warps * self.machine.warp_start
                heapq.heappush(self.heap, (begin, warp.number, 0, warp))

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
            sm = warp.sm
            quarter = number % QUARTERS
            if op.unit in WAITING and (phase := self._awaited(op, warp)) is not None:
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
            sm.issue[quarter] = cycle + 1
            if op.pipe is not None:
                sm.pipes[quarter][op.pipe[0]] = cycle + op.pipe[1]
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
        sm = warp.sm
        if (place := op.n >> 3) not in sm.fetched:
            sm.fetched.add(place)
            sm.fetching = max(ready[0], sm.fetching) + self.machine.fetch
            ready = sm.fetching, op.n
        free = sm.issue[quarter]
        if op.pipe is not None:
            free = max(free, sm.pipes[quarter].get(op.pipe[0], 0.0))
        return ready if ready[0] >= free else (free, op.n)

    def _run(self, op: Op, warp: Warp, cycle: float, quarter: int) -> float:
        """Issue an instruction; returns when the warp may go on."""
        machine = self.machine
        sm = warp.sm
        base = op.base
        complete = cycle + 4
        read = cycle + 10
        next_cycle = cycle + op.stall
        if op.unit:
            read = self._asynchronous(op, warp, cycle)
            if op.unit in WAITING:
                next_cycle = max(next_cycle, cycle + machine.poll)
        elif base in LOADS:
            complete, read = self._load(op, warp, cycle)
            if base == "LDGSTS":
                warp.copies = max(warp.copies, (complete, op.n))
        elif base in STORES:
            read = self._store(op, sm, cycle) + 12
            complete = read + machine.l2_latency * 1.5
        elif base in SHARED:
            sm.l1 = max(cycle, sm.l1) + op.waves
            complete = sm.l1 + machine.shared_latency
            read = sm.l1 + 8
        elif op.fences:
            next_cycle = cycle + machine.fence
        elif base in self.latencies:
            complete = cycle + self.latencies[base]
        elif op.products:
            begun = max(cycle, sm.pipes[quarter].get("tensor", 0.0))
            busy = sm.pipes[quarter]["tensor"] = begun + op.products / machine.tensor_products
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

    def _events(self, op: Op, warp: Warp) -> tuple[int, Sequence[BarrierEvent]] | None:
        """The line of PTX of a warp's next copies, arrivals or wait at an instruction, and which.

        At the cluster's barrier a warp comes to one phase after the other.
        """
        if op.unit in CLUSTER_UNITS:
            line = CLUSTER_UNITS[op.unit]
            return line, (BarrierEvent(CLUSTER, warp.done[line]),)
        for line in (WAITS,) if op.unit == "wait" else op.ptx:
            events = self.work.log.events.get((warp.lane, line), ())
            if warp.done[line] < len(events):
                return line, events[warp.done[line]]
        return None

    def _awaited(self, op: Op, warp: Warp) -> Phase | None:
        """The phase that a warp waits for; None where that was over before the block began."""
        if (found := self._events(op, warp)) is None or found[1][0].phase < 0:
            return None
        return warp.cluster, found[1][0].barrier, found[1][0].phase

    def _asynchronous(self, op: Op, warp: Warp, cycle: float) -> float:
        """A copy by TMA, an arrival or a wait that is over; returns when its operands are read."""
        if op.unit == "send":
            return self._send(op, warp, cycle)
        if (found := self._events(op, warp)) is None:
            return cycle + 10
        line, events = found
        warp.done[line] += 1
        if op.unit in WAITING:
            return cycle + 10
        copied = self._copied(op, warp, events, cycle) if op.unit == "copy" else {}
        for event in events:
            rank = event.barrier >> RANK_SHIFT
            complete = copied.get(rank, cycle + 10)
            if event.barrier == CLUSTER:
                complete = cycle + self.machine.cluster_barrier
            elif not copied and rank != warp.lane // self.work.warps:
                complete = cycle + self.machine.remote_latency
            self._arrive(op, (warp.cluster, event.barrier, event.phase), complete)
        return cycle + 10

    def _arrive(self, op: Op, phase: Phase, complete: float) -> None:
        """Count an arrival; when it is the last, the warps that wait for it go on."""
        arrived = self.arrived[phase]
        arrived.append((complete, op.n))
        if len(arrived) != self.needed[phase[1:]]:
            return
        self.over[phase] = over = max(arrived)
        if self.recorder is not None:
            self.recorder.over(phase, *over)
        for since, pc, waiting in self.parked.pop(phase, ()):
            ready = max(over[0], since)
            self._spend(waiting, since, ready, over[1])
            heapq.heappush(self.heap, (ready, waiting.number, pc, waiting))

    def _copied(
        self, op: Op, warp: Warp, events: Sequence[BarrierEvent], cycle: float
    ) -> dict[int, float]:
        """When a copy by TMA into shared memory is complete, by the ranks of the blocks that it
        goes to: it is read once, by the SM that issues it, and every SM takes all of it."""
        machine = self.machine
        sm = warp.sm
        nbytes = max(event.nbytes for event in events)
        begun = max(cycle, sm.copying)
        moved = sm.l2 = max(begun, sm.l2) + nbytes / self.l2_rate
        if op.memory:
            sm.memory = max(begun, sm.memory) + nbytes * op.memory / self.memory_rate
            moved = max(moved, sm.memory)
        latency = self._latency(op, warp)
        complete = {}
        for rank in {event.barrier >> RANK_SHIFT for event in events}:
            taker = self.sms[rank]
            taker.copying = max(cycle, taker.copying) + nbytes / machine.copy_bytes
            if taker is not sm:
                taker.l2 = max(cycle, taker.l2) + nbytes / machine.port_bytes
            landed = max(moved, taker.copying, taker.l2)
            complete[rank] = landed + latency + machine.copy_latency
        if self.recorder is not None:
            self.recorder.busy("copy", warp, begun, max(complete.values()), op.n)
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
        sm = warp.sm
        begun = max(cycle, sm.copying)
        sm.copying = begun + nbytes / self.machine.copy_bytes
        sm.l2 = max(begun, sm.l2) + nbytes / self.l2_rate
        if self.writes:
            sm.memory = max(begun, sm.memory) + nbytes * self.writes / self.memory_rate
        self.last_store = max(self.last_store, sm.l2, sm.memory if self.writes else 0.0)
        warp.boards[0].append((max(sm.copying, sm.l2) + self.machine.copy_latency, op.n))
        return cycle + 10

    def _load(self, op: Op, warp: Warp, cycle: float) -> tuple[float, float]:
        """When a load has its data, and when its registers are read."""
        machine = self.machine
        sm = warp.sm
        sectors = op.sectors
        begun = max(cycle, sm.l1)
        tags = max(op.tags, sectors / 4) if sectors else 0
        if op.remote:
            sm.l1 = begun + op.remote / machine.remote_bytes
            return sm.l1 + machine.remote_latency, begun + 12
        sm.l1 = begun + tags + (op.waves if op.base == "LDGSTS" else 0)
        if not (fresh := sectors * op.fresh * 32):
            return begun + machine.l1_latency, begun + 12
        moved = sm.l2 = max(begun, sm.l2) + fresh / self.l2_rate
        if op.memory:
            sm.memory = max(begun, sm.memory) + fresh * op.memory / self.memory_rate
            moved = max(moved, sm.memory)
        return moved + self._latency(op, warp), begun + 12

    def _latency(self, op: Op, warp: Warp) -> float:
        """The latency of what a load or a copy reads past L1: memory's where most of it is there,
        or where nobody can have read it before."""
        is_first = warp.cluster < self.work.resident
        from_memory = op.memory > 0.5 or (op.memory and is_first)
        return self.machine.memory_latency if from_memory else self.machine.l2_latency

    def _store(self, op: Op, sm: Sm, cycle: float) -> float:
        """Send a store on its way; returns when L1 takes it."""
        begun = max(cycle, sm.l1)
        if op.remote:
            sm.l1 = begun + op.remote / self.machine.remote_bytes
            return begun
        sm.l1 = begun + max(op.tags, op.sectors / 4)
        moved = op.sectors * 32
        merged = moved * (1 + self.machine.partial_store * op.partial)
        sm.l2 = max(begun, sm.l2) + merged / self.l2_rate
        if self.writes:
            written = moved * op.memory * self.writes
            sm.memory = max(begun, sm.memory) + written / self.memory_rate
        self.last_store = max(self.last_store, sm.l2, sm.memory if self.writes else 0.0)
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
        self.unfinished[warp.cluster] -= 1
        if self.unfinished[warp.cluster]:
            return
        self.ends.append(cycle)
        if len(self.unfinished) < self.count:
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
