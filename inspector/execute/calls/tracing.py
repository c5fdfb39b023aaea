"""A call's blocks are run and counted: all of them where that is cheap, else some, and said.

Counts are put together by line of the PTX and of the stages that are tied to it, and for hints.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct, field

from inspector.analysis.hints.subject import ExecutedAccess, ExecutedBranch, ExecutedFacts
from inspector.base.errors import PtxviewError, Stopped, UsageError
from inspector.execute import (
    Execution,
    Facts,
    Fault,
    LaunchError,
    Observer,
    OutOfBudget,
    Program,
    Trace,
    TraceTooLong,
    execute,
)
from inspector.execute.block_order import BlockObserver
from inspector.execute.blocks import ORDERED, BasicBlock
from inspector.execute.calls.inputs import LaunchInputs, contents
from inspector.execute.calls.warp_orders import OrderOutcome, warp_orders
from inspector.execute.facts import kind_of
from inspector.execute.kinds import Array, Mask, i64, u64
from inspector.execute.lanes import Lanes, block_number
from inspector.execute.launch import BlockChoice, choose, cluster_of
from inspector.execute.memory import Access
from inspector.execute.synchronization import Race, RaceObserver
from inspector.execute.waits import (
    ArrivalObserver,
    deadlock_fault,
    remedies,
)

SHARED = ("shared",)
SECTOR = 32
WORD = 4
MAX_SEEN_ADDRESSES = 4_000_000
"""Addresses of lanes of a chunk that are remembered; beyond them, repetitions are not counted."""
FOLLOWED = 1024
"""Lanes of a chunk of blocks that are followed, whole blocks, at least one: all do alike, and to
follow all would take longer than to run them. With a lane's number of at most 15 bits an address of
48 is one number."""


class CoalescingObserver(Observer):
    """An observer of accesses to global memory, by the first lanes of each chunk of blocks.

    Accesses of one stretch of code, load or store, whose lanes are within a few sectors of each
    other are taken together: four loads of neighbouring words waste nothing, though each alone
    does.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.together: Counter[int | None] = Counter()
        self.filled: Counter[int | None] = Counter()
        self.followed: Counter[int | None] = Counter()
        self.repeated: Counter[int | None] = Counter()
        self._lanes: Lanes | None = None
        self._seen: Array = np.empty(0, u64)
        self._stretch: dict[tuple[bool, int], list[tuple[int, Array, Array, int]]] = {}

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        self.flush()
        if self._lanes is not lanes:
            self._lanes = lanes
            self._seen = np.empty(0, u64)

    def access(self, lanes: Lanes, access: Access) -> None:
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
                line = row.line
                self.followed[line] += len(address)
                keys = (lane << u64(48)) | (address & u64((1 << 48) - 1))
                if len(self._seen):
                    self.repeated[line] += int(np.isin(keys, self._seen).sum())
                if len(self._seen) < MAX_SEEN_ADDRESSES:
                    self._seen = np.union1d(self._seen, keys)
        else:
            self._stored(address)
        # Neighbouring accesses begin within so many bytes of each other, in the first lane.
        near = int(address[0]) // 256
        stretch_key = next(
            (k for k in self._stretch if k[0] == (kind == "load") and abs(k[1] - near) <= 1),
            (kind == "load", near),
        )
        self._stretch.setdefault(stretch_key, []).append((row.line, warp, address, access.nbytes))

    def flush(self) -> None:
        """The stretch of code has ended: what moved together in it is counted."""
        for stretch in self._stretch.values():
            unit = min(WORD, *(nbytes for _, _, _, nbytes in stretch))
            sectors = len(_distinct_places(stretch, SECTOR))
            least = self._least(_distinct_places(stretch, unit), unit)
            for line in {entry[0] for entry in stretch}:
                self.together[line] += sectors
                self.filled[line] += least
        self._stretch.clear()

    @staticmethod
    def _least(places: Array, unit: int) -> int:
        """Sectors that the distinct bytes of each warp would fill."""
        _, counts = np.unique(places >> u64(48), return_counts=True)
        return int((-(-counts.astype(i64) * unit // SECTOR)).sum())

    def _stored(self, address: Array) -> None:
        if len(self._seen):
            self._seen = self._seen[~np.isin(self._seen & u64((1 << 48) - 1), address.astype(u64))]


def _distinct_places(stretch: Sequence[tuple[int, Array, Array, int]], size: int) -> Array:
    """The pieces of ``size`` bytes that accesses touch, each with its warp in the upper bits."""
    places: list[Array] = []
    for _, warp, address, nbytes in stretch:
        for offset in range(0, nbytes, size):
            piece = (address + u64(offset)) // u64(size)
            places.append((warp << u64(48)) | (piece & u64((1 << 48) - 1)))
    return np.unique(np.concatenate(places))


Triple = tuple[int, int, int]

BUDGET = 1_000_000_000
"""Lane-instructions that a launch may take unless somebody says otherwise: a minute or two."""
SECONDS = 60.0
"""Seconds that a launch may take unless somebody says otherwise: what spends the budget faster than
lane-instructions are counted, such as a lane that waits alone, ends then."""
ORDER_SECONDS = 10.0
"""Seconds that one order of a block's warps may take: nobody asked for it in particular."""
CHEAP = 100_000_000
"""Lane-instructions up to which every block is run without being asked: a few seconds."""
MIN_BLOCKS = 8
FILL = 0x7F
"""A byte of which no number is 0: other contents of shared memory, to see what depends on them."""
WARP = 32
"""Lanes that a block takes at least, also if it has fewer threads."""

BlockSelection = str | int | Sequence[int | Triple]
"""Which blocks: ``auto``, ``all``, so many spread over the grid, or these."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """``1823``, ``64,4``, ``3,1,0``: one to three numbers. Raises ValueError with a sentence."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(p.isascii() and p.isdecimal() for p in parts):
        raise ValueError(f"{text} is not one to three whole numbers")
    if any(len(p) > 10 for p in parts):
        raise ValueError(f"{text} is more than any device has")
    return tuple(int(p) for p in parts)


def parse_place(text: str) -> Triple:
    """Coordinates: ``7``, ``3,1,0``; those that are left out are 0. Raises ValueError."""
    x, y, z = (*parse_sizes(text), 0, 0)[:3]
    return x, y, z


class TraceLaunch(Struct, frozen=True):
    """What a kernel is launched with beside its arguments; ``shared`` are dynamic bytes a block.

    ``cluster`` are the blocks of a cluster; None is what the kernel demands, else 1 each.
    """

    grid: Triple
    block: Triple
    shared: int = 0
    cluster: Triple | None = None

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    def execute(self, program: Program, inputs: LaunchInputs, **options: Any) -> Execution:
        """``inspector.execute.execute`` with its ``options``."""
        return execute(
            program,
            self.grid,
            self.block,
            inputs.arguments,
            memory=inputs.memory,
            shared=self.shared,
            cluster=self.cluster,
            **options,
        )


class TracedLaunch(Struct):
    """What happened. ``ran`` of ``launch.blocks`` blocks; ``work`` in lane-instructions.

    ``sampled``: blocks were left out because all would have taken long. ``fault`` or ``spent`` is
    what ended it; what ``facts`` have until then is not the whole of the blocks that were begun,
    and ``ran`` is None.
    """

    program: Program
    launch: TraceLaunch
    inputs: LaunchInputs
    facts: Facts
    coalescing: CoalescingObserver
    races: RaceObserver | None = None
    """Of the first, the middle and the last of the blocks that were chosen, if asked for."""
    order: BlockObserver | None = None
    """Of all blocks that were run, if races were asked for."""
    orders: tuple[OrderOutcome, ...] = ()
    """What a block did in other orders of its warps, if they were asked for."""
    ran: int | None = 0
    work: int = 0
    sampled: bool = False
    printed: list[str] = field(default_factory=list)
    """What lanes said by printf, one text a call, of groups of blocks that came to their end."""
    fault: Fault | None = None
    spent: OutOfBudget | None = None

    @property
    def all_races(self) -> tuple[Race, ...]:
        """Races within and between blocks, and reads of unwritten shared memory."""
        if self.races is None or self.order is None:
            return ()
        return (*self.races.races, *self.races.unwritten.values(), *self.order.races)

    @property
    def executed(self) -> ExecutedFacts | None:
        """Input of the hints; None if the launch did not end normally."""
        if not self.ran:
            return None
        self.coalescing.flush()
        totals = self.facts.totals()
        coalescing = self.coalescing
        lines = self.facts.lines()
        accesses: list[ExecutedAccess] = []
        for line in lines:
            for access in line.accesses:
                of_tiles = access.way.startswith(("bulk", "matrix"))
                if access.space not in ("global", "shared") or of_tiles or not access.requests:
                    continue
                followed = line.n if access.space == "global" else None
                accesses.append(
                    ExecutedAccess(
                        line.n,
                        access.space,
                        kind_of(access.way),
                        access.requests,
                        access.lanes,
                        access.sectors,
                        access.least_sectors,
                        coalescing.together[followed],
                        coalescing.filled[followed],
                        coalescing.followed[followed],
                        coalescing.repeated[followed],
                        access.wavefronts,
                        access.least_wavefronts,
                    )
                )
        branches = (ExecutedBranch(x.n, x.branches, x.divergent) for x in lines if x.branches)
        return ExecutedFacts(
            self.ran,
            self.launch.blocks,
            totals.instructions,
            totals.threads,
            totals.active,
            tuple(accesses),
            tuple(branches),
        )


def trace_launch(
    program: Program,
    launch: TraceLaunch,
    make: Callable[[], LaunchInputs],
    *,
    blocks: BlockSelection = "auto",
    budget: int = BUDGET,
    seconds: float = SECONDS,
    cheap: int = CHEAP,
    values: bool = True,
    races: bool = False,
    orders: bool = False,
    stop: Stop | None = None,
) -> TracedLaunch:
    """Runs a launch and counts what happens at each line.

    ``make`` gives new inputs each time that it is called; ``values``: also what registers
    held, which takes longer; ``races``: also races in shared memory and between blocks, and reads
    of unwritten shared memory; ``orders``: also a block of those with its warps in other orders.

    Raises CannotRun before anything is run, LaunchError for a launch that no device would take,
    Stopped where ``stop`` says so; a fault and a budget that is spent are results.
    """
    program.check()
    end = time.monotonic() + seconds

    def begin(shared_fill: int = 0) -> TracedLaunch:
        facts = Facts(program, values=values)
        traced = TracedLaunch(program, launch, make(), facts, CoalescingObserver(program))
        traced.inputs.memory.shared_fill = shared_fill
        if races:
            traced.races = RaceObserver(program, _ends(program, launch, blocks))
            traced.order = BlockObserver(program, traced.inputs.memory)
        return traced

    def run(numbers: BlockChoice, traced: TracedLaunch) -> TracedLaunch:
        _run_blocks(traced, numbers, budget, seconds, end, stop)
        return traced

    run_chosen = partial(_run_chosen, run, blocks, cheap)
    traced = run_chosen(begin)
    if traced.fault is not None and traced.fault.cause == "deadlock":
        traced.fault = _explained(traced.fault, program, launch, make, end)
    unwritten = {} if traced.races is None else traced.races.unwritten
    if unwritten and (traced.ran is None or not _differs(traced, run_chosen(partial(begin, FILL)))):
        unwritten.clear()
    if orders and traced.races is not None and traced.ran:
        block = _ends(program, launch, blocks)[1]

        def run_block(order: Sequence[int]) -> LaunchInputs:
            inputs = make()
            seconds_left = min(ORDER_SECONDS, _left_until(end))
            launch.execute(program, inputs, blocks=[block], warp_order=order, seconds=seconds_left)
            return inputs

        traced.orders = warp_orders(run_block, -(-launch.threads // WARP))
    return traced


def _run_chosen(
    run: Callable[[BlockChoice, TracedLaunch], TracedLaunch],
    blocks: BlockSelection,
    cheap: int,
    begin: Callable[[], TracedLaunch],
) -> TracedLaunch:
    """Run the chosen blocks; of ``auto`` one, then as many as are cheap."""
    traced = begin()
    launch = traced.launch
    if blocks != "auto":
        return run(None if isinstance(blocks, str) else blocks, traced)
    total = launch.blocks
    cluster = cluster_of(traced.program, launch.grid, launch.cluster)
    in_the_middle = choose(launch.grid, [total // 2], cluster)
    first = in_the_middle.between(0, len(in_the_middle)).tolist()
    run(first, traced)
    if traced.fault is not None and traced.fault.cause == "deadlock" and total > len(first):
        # It waits for blocks that were not run: only all of them together come to an end.
        return run(None, begin())
    if traced.ran is None or total == len(first):
        return traced
    count = max(MIN_BLOCKS, cheap * len(first) // max(WARP, traced.work))
    traced.sampled = count < total
    pairs = traced.sampled and traced.order is not None  # neighbours are likeliest to overlap
    wanted = (count - 1) // (1 + pairs) if traced.sampled else None
    sampled_blocks = choose(launch.grid, wanted, cluster)
    numbers = sampled_blocks.between(0, len(sampled_blocks)).tolist()
    if pairs:
        numbers += [n + 1 for n in numbers if n + 1 < total]
    return run([n for n in numbers if n not in first], traced)


def _explained(
    fault: Fault,
    program: Program,
    launch: TraceLaunch,
    make: Callable[[], LaunchInputs],
    end: float,
) -> Fault:
    """A deadlock with who arrived where, of its block or cluster executed again; as it is if that
    ends alone, since it waits for others. Then with other parities of waits and counts of inits:
    where the block ends, without a race, that is what was meant."""

    cluster = cluster_of(program, launch.grid, launch.cluster)
    chosen = choose(launch.grid, [fault.place.block or 0], cluster)
    numbers = chosen.between(0, len(chosen)).tolist()

    def run(variant: Program, observer: Observer) -> PtxviewError | None:
        """Run the block, or its cluster; gives what ended it."""
        try:
            seconds = _left_until(end)
            launch.execute(variant, make(), blocks=numbers, seconds=seconds, observer=observer)
        except (Fault, OutOfBudget) as error:
            return error
        return None

    history = ArrivalObserver(program)
    explained = run(program, history)
    if not isinstance(explained, Fault) or explained.cause != "deadlock":
        return fault
    for wait, remedy, variant in remedies(program, explained.waits, history):
        races = RaceObserver(variant, numbers)
        if run(variant, races) is None and not races.races and not races.unwritten:
            further = (w for w in explained.waits if w is not wait)
            explained = deadlock_fault(program, (wait, *further))
            explained.remedy = remedy
            break
    return explained


def _left_until(end: float) -> float:
    return max(0.0, end - time.monotonic())


def _differs(traced: TracedLaunch, again: TracedLaunch) -> bool:
    """Whether a launch had another result when it was run again; a spent budget is none."""
    if again.ran is None:
        return again.fault is not None
    before = contents(traced.inputs.memory)
    return any((before[n] != now).any() for n, now in contents(again.inputs.memory).items())


def _ends(program: Program, launch: TraceLaunch, blocks: BlockSelection) -> list[int]:
    """The numbers of the first, the middle and the last of some blocks. Raises LaunchError."""
    cluster = cluster_of(program, launch.grid, launch.cluster)
    chosen = choose(launch.grid, None if isinstance(blocks, str) else blocks, cluster)
    places = (0, len(chosen) // 2, len(chosen) - 1)
    return [int(chosen.between(place, place + 1)[0]) for place in places]


def _run_blocks(
    traced: TracedLaunch,
    numbers: BlockChoice,
    budget: int,
    seconds: float,
    end: float,
    stop: Stop | None,
) -> None:
    """Run further blocks of a launch, and note what happened or why they did not come to an end.

    ``end`` is when the ``seconds`` for the whole launch are over.
    """
    program = traced.program
    observers: list[Observer] = [] if stop is None else [StopObserver(stop)]
    observers += [traced.facts, traced.coalescing]
    observers += [observer for observer in (traced.races, traced.order) if observer is not None]
    try:
        result = traced.launch.execute(
            program,
            traced.inputs,
            blocks=numbers,
            budget=budget - traced.work,
            seconds=_left_until(end),
            observer=observers,
        )
    except Fault as fault:
        traced.fault = fault
        traced.ran = None
    except OutOfBudget as spent:
        traced.work += spent.work
        seconds_limit = None if spent.seconds is None else seconds
        traced.spent = OutOfBudget(program.name, traced.work, seconds_limit)
        traced.ran = None
    else:
        traced.work += result.work
        traced.printed += result.printed
        traced.ran = (traced.ran or 0) + result.ran


Stop = Callable[[], bool]
"""Whether what is under way is to end."""


class StopObserver(Observer):
    """An observer that ends a run between two instructions where ``stop`` says so: Stopped."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        if self.stop():
            raise Stopped("it was stopped")


class TracedBlock(Struct, frozen=True):
    """A block's steps. ``ended`` says why it did not come to its end, None where it did.

    ``facts`` count what it did, if that was asked for. ``fault`` is what a GPU would end it for:
    the last step is the one that faulted.
    """

    block: Triple
    trace: Trace
    inputs: LaunchInputs
    facts: Facts | None = None
    fault: Fault | None = None
    ended: str | None = None


def trace_block(
    program: Program,
    launch: TraceLaunch,
    inputs: LaunchInputs,
    block: Triple,
    *,
    budget: int,
    seconds: float = SECONDS,
    trace: Trace | None = None,
    facts: Facts | None = None,
    stop: Stop | None = None,
) -> TracedBlock:
    """Runs one block and keeps its steps, in ``trace`` with its bounds if one is given.

    A fault, a budget that is spent, a bound that is met and a stop are results: what came before
    is there. Raises CannotRun before anything is run, and UsageError for a launch that no device
    would take or a block that it has not.
    """
    program.check()
    trace = trace or Trace(program, number=block_number(block, launch.grid))
    observers: list[Observer] = [] if stop is None else [StopObserver(stop)]
    observers += (
        [trace, ArrivalObserver(program)]
        if facts is None
        else [trace, ArrivalObserver(program), facts]
    )
    fault: Fault | None = None
    ended: str | None = None
    try:
        launch.execute(
            program, inputs, blocks=[block], budget=budget, seconds=seconds, observer=observers
        )
    except LaunchError as error:
        raise UsageError(error.message, error.hint) from None
    except Fault as error:
        fault = error
        ended = error.message
    except (OutOfBudget, TraceTooLong, Stopped) as error:
        ended = f"{error.message}; the steps before that are here"
    return TracedBlock(block, trace, inputs, facts, fault, ended)
