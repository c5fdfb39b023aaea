"""Estimated times of recorded launches, as rows like those of measured times.

``gather`` has what the estimate of a launch needs, or the reason why it has no estimate.
"""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import PurePath
from typing import NamedTuple

from msgspec import Struct, convert
from msgspec.structs import replace

from inspector.analysis.flow.graph import Flow
from inspector.analysis.occupancy import occupancy
from inspector.base.errors import PtxviewError, ToolMissing, UsageError
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.units import some
from inspector.estimate.copies import CopyLog
from inspector.estimate.model import Machine, Role, Simulation, Spent, Work
from inspector.estimate.path import Op, Path, decode
from inspector.estimate.timeline import Timeline, timeline
from inspector.estimate.traffic import Traffic
from inspector.estimate.walk import Walk
from inspector.execute import Facts, Fault, Malformed, Observer, OutOfBudget, Program
from inspector.execute.blocks import BasicBlock
from inspector.execute.calls.inputs import LaunchInputs
from inspector.execute.calls.tracing import SECONDS, TraceLaunch
from inspector.execute.kinds import Mask
from inspector.execute.lanes import Lanes
from inspector.execute.launch import cluster_of
from inspector.execute.memory import DISTRIBUTED
from inspector.measure.recorded_launch import (
    ChosenLaunch,
    LaunchOverrides,
    choose_launch,
    chosen_call,
)
from inspector.measure.time.planning import KernelVariant, PlannedLaunch, plan
from inspector.measure.time.results import COLD, ESTIMATE, Session, Timing
from inspector.measure.time.take import untimed
from inspector.parsers.line import Line
from inspector.reader.reader import Reader
from inspector.reader.tables import devices as devices_by_arch
from inspector.reader.tables import table

LANES = 2048
"""Lanes of the blocks that are executed: as many blocks as fit, at least one."""
MAX_BLOCKS = 8
MAX_BLOCKS_OF_LOOPS = 2
BUDGET = 400_000_000
"""Lane-instructions that the executed blocks may take: about ten seconds."""
SAMPLED_BLOCKS = 8
"""Blocks of the grid whose work is compared, one of each eighth."""
SAMPLE_BUDGET = 10_000_000
"""Lane-instructions of the sampled blocks beside each other and, where they take more, of every
second alone: up to three seconds each."""
GOLDEN = 0.618034
"""The golden ratio's part, whose multiples are far from each other modulo 1."""
L2_KEPT = 0.75
"""Part of L2 in which an equal launch finds what was left. An H200 tells of 60 MB: launches of 38
find it there, those of 50 and more do not, or in part."""
UNSIZED = 1 << 30
"""Bytes behind a pointer of nvcc's kernels, of whose memory only the address is recorded."""


def gather(reader: Reader, planned: PlannedLaunch, cache: str = COLD) -> Work:
    """The work of a recorded launch, whose PTX is executed for some blocks.

    A hot ``cache`` is an L2 with what an equal launch has left there. Raises ``PtxviewError`` with
    the reason where it is not known or not modelled.
    """
    variant = planned.variant
    analysis = reader.facts.kernel_analysis(variant, Stage.SASS)
    if analysis is None:
        raise ToolMissing("its machine code is not known")
    listing = reader.stages.listing(variant, Stage.SASS)
    lines = listing.between(analysis.function.first, analysis.function.last)
    wish = LaunchOverrides(
        call=planned.number, unsized=UNSIZED if planned.call.kind == "cuda" else 0
    )
    call = choose_launch(reader, planned.kernel, variant, wish)
    launch = call.launch
    max_blocks = MAX_BLOCKS_OF_LOOPS if analysis.flow.loops else MAX_BLOCKS
    cluster = prod(cluster_of(call.program, launch.grid, launch.cluster))
    neighbours = max(1, min(LANES // launch.threads, max_blocks, launch.blocks))
    if cluster > 1:
        neighbours = 1
    block_count = neighbours * cluster  # of a block all that are in its cluster are executed
    device = reader.facts.device(variant)
    resident = _blocks_of_sm(reader, variant, launch)
    at_once = device is not None and launch.blocks <= resident * (device.sms or 0)
    chosen_blocks = choose_blocks(call.program, launch, call.make(), neighbours, at_once)
    log = CopyLog(call.program, chosen_blocks.numbers[0])
    facts, traffic = _executed(call, chosen_blocks.numbers, log, unsized=bool(wish.unsized))
    if any(
        access.space == DISTRIBUTED and access.way == "atomic"
        for row in facts.lines()
        for access in row.accesses
    ):
        raise ToolMissing("atomics on other blocks' shared memory are not modelled")
    if traffic.contended:
        raise ToolMissing("atomics of several threads on one address are not modelled")
    busy_blocks = max(1, round(launch.blocks * chosen_blocks.share))
    l2_bytes = 0 if cache == COLD or device is None else L2_KEPT * (device.l2_bytes or 0)
    loaded, stored = traffic.finish(busy_blocks / block_count, l2_bytes)
    executed = {row.n: row for row in facts.lines()}
    links = reader.stages.links(variant, Stage.SASS, Stage.PTX)
    warps = -(-launch.threads // 32)
    spins = _spins(analysis.flow, lines)
    decoded = (
        decode(line, links.get(line.n, ()), executed, traffic.lines, block_count * warps)
        for line in lines
        if line.n not in spins
    )
    ops = {op.n: op for op in decoded if op is not None}
    if not any(op.ptx for op in ops.values()):
        raise ToolMissing("its machine code does not say which PTX it is from (-lineinfo)")
    counts = {n: row.executed / (block_count * warps) for n, row in executed.items()}
    return Work(
        _roles(analysis.flow, ops, counts, log), busy_blocks, warps,
        resident, loaded, stored,
        executed_blocks=chosen_blocks.numbers, launched_blocks=launch.blocks, log=log,
    )  # fmt: skip


def _roles(
    flow: Flow, ops: Mapping[int, Op], counts: Mapping[int, float], log: CopyLog
) -> list[Role]:
    """The warps of a cluster with the steps that they take; all alike where they have no roles."""
    groups = log.groups()
    if not groups:
        alike = Path(flow, ops, counts, log.warps).steps()
        firsts = range(0, log.size * log.warps, log.warps)
        return [Role(range(first, first + log.warps), alike) for first in firsts]
    # How many warps made a request is said by the roles themselves.
    alone = {n: replace(op, requests=None) for n, op in ops.items()}
    roles = []
    for members, role_counts in groups:
        steps = Walk(flow, alone, role_counts).steps()
        roles.append(Role(members, [(op, len(members)) for op in steps]))
    return roles


def _spins(flow: Flow, lines: Sequence[Line]) -> set[int]:
    """The lines that a warp only comes to when the phase that it asked for is not over: those that
    ask again. The simulation has it wait at the first question."""
    by_number = {line.n: line for line in lines}
    bodies = [
        [by_number[n] for n in range(block.first, block.last + 1) if n in by_number]
        for block in flow.blocks
    ]
    failing = {block: _when_not_over(flow, block, body) for block, body in enumerate(bodies)}
    spinning: set[int] = set()
    for target in {block for block in failing.values() if block is not None}:
        entries = [p for p in flow.blocks[target].predecessors if p != target]
        if entries and all(failing[entry] == target for entry in entries):
            spinning.update(line.n for line in bodies[target])
    again = {line.n for body in bodies for line in body if _asks_again(line)}
    return spinning | again


_POLL = re.compile(r"SYNCS\.PHASECHK(?:\.\w{1,16}){0,8} ++(U?P\d)")
_GUARD = re.compile(r"@(!?)(U?P\d) ++(\S++)")


def _when_not_over(flow: Flow, block: int, body: Sequence[Line]) -> int | None:
    """The block that a warp goes on with when the phase that it asked for in a block is not over;
    None where it asks for none, or goes on alike."""
    polls = [match[1] for line in body if (match := _POLL.search(line.text))]
    branch = _GUARD.search(body[-1].text) if body else None
    if not polls or branch is None or branch[2] != polls[-1] or branch[3] != "BRA":
        return None
    following = block + 1
    if not branch[1]:
        return following
    return next((s for s in flow.blocks[block].successors if s != following), None)


def _asks_again(line: Line) -> bool:
    """Whether an instruction asks for a phase if an instruction before it found it not over."""
    poll = _POLL.search(line.text)
    guard = _GUARD.search(line.text)
    return poll is not None and guard is not None and guard[1] == "!" and guard[2] == poll[1]


class ChosenBlocks(Struct, frozen=True):
    """Neighbouring blocks that are executed for a launch.

    ``share`` is the mean work of all blocks as a share of theirs: 0.5 where half are idle.
    """

    numbers: range
    share: float = 1.0


class SampledWork(NamedTuple):
    """What a block's warps run, and whether it goes on for longer than it was followed."""

    goes_on: bool
    instructions: int


class BlockWork(Observer):
    """An observer of how many instructions the warps of each block's cluster run."""

    def __init__(self) -> None:
        self.instructions: Counter[int] = Counter()
        self._warps: list[tuple[int, int]] = []

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        warps = lanes.mask_warps(mask).any(2).sum(1)
        of_clusters = warps.reshape(-1, lanes.cluster_size).sum(1).repeat(lanes.cluster_size)
        self._warps = list(zip(lanes.numbers.tolist(), of_clusters.tolist(), strict=True))

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        for number, warps in self._warps:
            self.instructions[number] += warps


def choose_blocks(
    program: Program, launch: TraceLaunch, inputs: LaunchInputs, block_count: int, at_once: bool
) -> ChosenBlocks:
    """Choose a block near the middle of the grid where all sampled ones do as much.

    Else the one that does most where all blocks of the launch run at once, and end with it; else
    the one that half of the work of all samples is done by, in the order of their work.
    """
    # Evenly, but not at multiples of one of the grid's dimensions.
    parts = ((i + i * GOLDEN % 1) / SAMPLED_BLOCKS for i in range(SAMPLED_BLOCKS))
    samples = sorted({int(launch.blocks * part) for part in parts})
    middle = samples[len(samples) // 2]
    try:
        work = _sampled_work(program, launch, inputs, samples)
    except (Fault, Malformed):  # where it comes to its end is seen when it is executed
        work = {middle: SampledWork(False, 1)}
    going_on = [number for number, done in work.items() if done.goes_on]
    alike = len(going_on) == len(work) or len(set(work.values())) == 1
    if going_on and (at_once or not alike):
        # The first: where blocks take tiles in turns, it takes as many as any.
        chosen = going_on[0]
    elif alike:
        chosen = middle
    elif at_once:
        chosen = max(work, key=work.__getitem__)
    else:
        chosen = _half_way(work)
    mean = sum(done.instructions for done in work.values()) / len(work)
    share = 1.0 if alike else mean / max(1, work[chosen].instructions)
    return ChosenBlocks(_neighbours(chosen, block_count, launch.blocks), share)


def _half_way(work: Mapping[int, SampledWork]) -> int:
    """The block that half of the work is done by, in the order of their work."""
    by_work = sorted(work, key=lambda number: (work[number], -number))
    total = sum(done.instructions for done in work.values())
    done = 0
    for number in by_work:
        done += work[number].instructions
        if 2 * done >= total:
            break
    return number


def _sampled_work(
    program: Program, launch: TraceLaunch, inputs: LaunchInputs, samples: Sequence[int]
) -> dict[int, SampledWork]:
    """What blocks do, in the order of the blocks: of all samples, or of every second."""

    def follow(numbers: Sequence[int]) -> dict[int, SampledWork]:
        work = BlockWork()
        goes_on = False
        run = partial(launch.execute, program, inputs, budget=SAMPLE_BUDGET, seconds=SECONDS)
        try:
            run(blocks=numbers, observer=(work,))
        except OutOfBudget:
            goes_on = True
        return {number: SampledWork(goes_on, work.instructions[number]) for number in numbers}

    work = follow(samples)
    if any(done.goes_on for done in work.values()):
        work = {}
        for number in samples[::2]:
            work |= follow([number])
    return work


def _neighbours(first: int, count: int, block_count: int) -> range:
    first = min(first, block_count - count)
    return range(first, first + count)


def _executed(
    call: ChosenLaunch, numbers: range, log: CopyLog, unsized: bool
) -> tuple[Facts, Traffic]:
    """Execute some blocks beside each other.

    ``unsized``: how large buffers are is not known, only how far the blocks reach into them.
    """
    launch = call.launch
    program = call.program
    inputs = call.make()
    facts = Facts(program, values=False)
    traffic = Traffic(program, inputs.memory)
    run = partial(launch.execute, program, inputs, budget=BUDGET, seconds=SECONDS)
    try:
        run(blocks=list(numbers), observer=(facts, traffic, log))
        if unsized:  # the first and the last block tell how far the memory reaches
            ends = Traffic(program, inputs.memory)
            run(blocks=sorted({0, launch.blocks - 1}), observer=(ends,))
            reach = [max(traffic.reach[b], ends.reach[b]) for b in range(len(traffic.sizes))]
            traffic.sizes = reach
    except (Fault, Malformed, OutOfBudget) as error:
        raise ToolMissing(f"its PTX does not come to its end here: {error.message}") from None
    return facts, traffic


def _blocks_of_sm(reader: Reader, variant: Variant, launch: TraceLaunch) -> int:
    """Blocks that an SM has at once."""
    resources = reader.facts.resources(variant)
    device = reader.facts.device(variant)
    if device is None or resources.static_shared_bytes is None:
        raise ToolMissing("its shared memory is not known")
    shared = launch.shared + device.own_shared(resources.static_shared_bytes)
    full = occupancy(device, launch.threads, resources.registers, shared)
    if full is None or not full.blocks:
        raise ToolMissing("its occupancy is not known")
    return full.blocks


NO_CALL = "no call with its arguments was recorded"
Constants = Mapping[str, object]


def devices() -> Mapping[str, Constants]:
    """The devices whose constants are known, by a short name."""
    return {name: entry for name, entry in table("estimate").items() if isinstance(entry, dict)}


def constants(reader: Reader, device: str | None) -> tuple[str, Constants | None]:
    """The name and constants of a device: the wanted one, else the recording's.

    A recording without a GPU has that of the emulated device. None where the recording's device is
    not known. Raises ``UsageError`` for a wanted one.
    """
    recorded = str((reader.recording.device or {}).get("name") or devices_by_arch()["sm_90"].name)
    wanted = (device or recorded).casefold()
    for short, entry in devices().items():
        names = [str(name) for name in entry["names"]]  # type: ignore[attr-defined]
        if wanted in map(str.casefold, (short, *names)):
            return names[0], entry
    if device is not None:
        raise UsageError(f"no constants of {device} are known", f"Known: {some(list(devices()))}")
    return recorded, None


def estimates(
    reader: Reader,
    selected: Sequence[KernelVariant],
    call_limit: int,
    device: str | None,
    *,
    named: bool,
    say: Callable[[str], None],
    cache: str = COLD,
) -> Session:
    """Estimate the ``call_limit`` most frequent calls of each variant, with a cold or a hot L2.

    Variants without a call that can be executed have a row only if they are ``named``.
    Raises ``UsageError``.
    """
    name, device_constants = constants(reader, device)
    # Of libraries without PTX nothing can be executed: they have a row only where they are named.
    known_ptx = [pair for pair in selected if named or Stage.PTX in pair[1].stages]
    planned = plan(known_ptx, call_limit, kinds=("triton", "cuda"))
    rows = [estimate(reader, launch, device_constants, cache) for launch in planned.launches]
    for sentence in planned.left_out:
        say(f"left out: {sentence}")
    if named:
        rows += [
            Timing(kernel.name, variant.id, -1, ESTIMATE, warnings=(NO_CALL,))
            for kernel, variant in selected
            if variant.id not in {row.variant for row in rows}
        ]
    return Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        {"name": name},
        tuple(rows),
    )


def estimate(
    reader: Reader, planned: PlannedLaunch, device_constants: Constants | None, cache: str
) -> Timing:
    """The estimated time of one recorded launch; without one, its warning says why."""
    untimed_row = replace(untimed(reader, planned), stopwatch=ESTIMATE, cache=cache)
    try:
        us, _ = simulated(reader, planned, device_constants, cache)
    except PtxviewError as error:
        return replace(untimed_row, warnings=(error.message,))
    bounds = device_constants or {}
    low = us * float(str(bounds["low"]))
    high = us * float(str(bounds["high"]))
    return replace(untimed_row, median_us=us, low_us=low, high_us=high)


class LineCycles(Struct, frozen=True):
    """Where the warps' cycles of a launch go, by its blocks ``first`` to ``last``."""

    spent: Spent
    first: int
    last: int
    launched: int

    @property
    def blocks(self) -> str:
        """``blocks 16 to 17 of 132``."""
        numbers = f"block {self.first:,}"
        if self.last > self.first:
            numbers = f"blocks {self.first:,} to {self.last:,}"
        return f"{numbers} of {self.launched:,}"


class BlockTimeline(NamedTuple):
    """What a simulated block does over time, and the clock of its cycles."""

    timeline: Timeline
    hertz: float


def block_timeline(
    reader: Reader, planned: PlannedLaunch, device_constants: Constants | None, cache: str = COLD
) -> BlockTimeline:
    """What a simulated block of a launch does over time.

    Raises ``PtxviewError`` without an estimate.
    """
    machine = _machine(planned.variant, device_constants)
    work = gather(reader, planned, cache)
    return BlockTimeline(timeline(work, machine), machine.clock_hz)


def sass_place(reader: Reader, variant: Variant, line: int) -> str:
    """A line of SASS in words: its instruction, and where it is in the source."""
    row = reader.stages.listing(variant, Stage.SASS).lines[line - 1]
    source = "" if row.source is None else f" ({PurePath(row.source.file).name}:{row.source.line})"
    return f"{row.opcode} in SASS line {line}{source}"


def _machine(variant: Variant, device_constants: Constants | None) -> Machine:
    if device_constants is None:
        raise ToolMissing("its device is unknown: name one with --device")
    if (variant.target or "").rstrip("af") != device_constants["arch"]:
        raise ToolMissing(f"it is compiled for {variant.target}")
    return convert(device_constants, Machine)


def simulated(
    reader: Reader, planned: PlannedLaunch, device_constants: Constants | None, cache: str = COLD
) -> tuple[float, LineCycles]:
    """A launch's µs, and where its warps' cycles go. Raises ``PtxviewError`` without them."""
    machine = _machine(planned.variant, device_constants)
    work = gather(reader, planned, cache)
    simulation = Simulation(work, machine)
    us = machine.floor_us + simulation.run() / machine.clock_hz * 1e6
    numbers = work.executed_blocks
    return us, LineCycles(simulation.spent, numbers[0], numbers[-1], work.launched_blocks)


def frequent(kernel: Kernel, variant: Variant) -> PlannedLaunch:
    """The most frequent recorded call of a variant. Raises ``ToolMissing`` without one."""
    number, call = chosen_call(kernel.demangled, variant.calls, None)
    if number is None or call is None:
        raise ToolMissing(NO_CALL)
    return PlannedLaunch(kernel, variant, number, call)


def by_line(reader: Reader, variant: Variant, spent: Spent, stage: Stage) -> dict[int, float]:
    """The percentage of the warps' cycles that each line of a stage has.

    A line has what is waited for on its account: a load the wait for its data, wherever that is.
    ``spent`` are the cycles by lines of SASS.
    """
    total = sum(spent.values())
    sass_lines = {n: (n,) for n in spent}
    links = sass_lines if stage is Stage.SASS else reader.stages.links(variant, stage, Stage.SASS)
    lines = ((n, sum(spent.get(m, 0.0) for m in {*to})) for n, to in links.items())
    return {n: 100 * cycles / total for n, cycles in lines if cycles}
