"""The launch against the device: small grids, tails, occupancy, spills, lanes without work.

A wave is as many blocks as the device holds at once.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from inspector.analysis.card import blocks_of, tensor_bytes
from inspector.analysis.hints.subject import (
    WARP,
    Finding,
    HintSubject,
    Thresholds,
    advice,
    number,
    numbers,
)
from inspector.analysis.hints.warp import ttgir_values
from inspector.analysis.tensors import Tensors, operand_shape, uses
from inspector.base.model import Call, Origin, Stage
from inspector.base.names import words
from inspector.base.units import plural
from inspector.parsers.line import Line
from inspector.parsers.ptx_statement import variable_declaration

# What spilled out of registers, and arrays that never were in them.

SPILLS = "spills"
LOCAL = "local-memory"

_LOCAL_PTX = re.compile(r"(?:ld|st)(?:\.\w+)*?\.local\b")
_LOCAL_SASS = ("LDL", "STL")
# nvdisasm's remark on what the assembler spilled and fetched back.
_SPILLED = re.compile(r"\(\*\"Spill")
# The table of 2/pi that the slow path of sin, cos and tan reads: its array is touched only where
# an argument is huge.
_REDUCTION_TABLE = "__cudart_i2opi"


def spills(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Registers spilled, as the assembler counts them."""
    stores = subject.resources.spill_store_bytes or 0
    loads = subject.resources.spill_load_bytes or 0
    if not stores and not loads:
        return
    machine = list(subject.instructions(Stage.SASS, *_LOCAL_SASS))
    registers = subject.resources.registers
    limit = f" at {registers} registers" if registers is not None else ""
    yield Finding(
        SPILLS,
        "warn",
        f"{stores} bytes of spill stores and {loads} of spill loads a thread{limit}: values that "
        "had no register go to local memory, which is device memory behind the caches. "
        f"{advice(subject, thresholds, SPILLS)}",
        {Stage.SASS: numbers([m for m in machine if _SPILLED.search(m.text)] or machine)},
    )


def local_memory(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Arrays of a thread that live in memory, because registers cannot be indexed."""
    machine = [
        m for m in subject.instructions(Stage.SASS, *_LOCAL_SASS) if not _SPILLED.search(m.text)
    ]
    code = subject.code(Stage.PTX)
    accesses = () if code is None else code.lines(_LOCAL_PTX.match)
    if not _reads_array(subject, machine, accesses):
        return
    size = _array_bytes(subject)
    array_text = f"{plural(size, 'byte')} a thread" if size else "an array"
    count = len(machine) or len(accesses)
    yield Finding(
        LOCAL,
        "hint",
        f"{array_text[0].upper()}{array_text[1:]} in local memory, by "
        f"{plural(count, 'instruction')}, and not because registers spilled: an array that is "
        "indexed by a value not known when compiling cannot be kept in registers, so each access "
        "is one of memory. Unroll the loops that "
        "index it until every index is a constant, or keep it in shared memory.",
        {Stage.PTX: numbers(accesses), Stage.SASS: numbers(machine)},
    )


def _reads_array(subject: HintSubject, machine: Sequence[Line], accesses: Sequence[Line]) -> bool:
    """Whether accesses of local memory in SASS and PTX are of an array, and it is read."""
    if subject.sass and not any(line.base == "LDL" for line in machine):
        return False
    if subject.ptx:
        if not any(line.base == "ld" for line in accesses):
            return False
    elif not machine or subject.resources.spill_store_bytes != 0:
        # Without PTX only "no spills" shows that it is an array.
        return False
    # The uses of constant tables are addresses taken by ``mov``.
    table_uses = subject.instructions(Stage.PTX, "mov", "ld")
    return not any(_REDUCTION_TABLE in line.text for line in table_uses)


def _array_bytes(subject: HintSubject) -> int | None:
    """Bytes that PTX declares in local memory, else those of the stack."""
    size = 0
    for line in subject.lines(Stage.PTX):
        if line.opcode is None and ".local" in line.text:
            variable = variable_declaration(line.text[line.text.find(".local") :])
            if variable is not None:
                size += variable.size or 0
    return size or subject.resources.stack_bytes


GRID = "small-grid"
TAIL = "tail-effect"
OCCUPANCY = "low-occupancy"
MASKED = "masked-lanes"
LAUNCHED = (GRID, TAIL, OCCUPANCY, MASKED)
"""Hints that depend on a launch: without one, whether they hold is unknown."""

_TENSOR = re.compile(r"(?:mma|wgmma|wmma|tcgen05)\.|[A-Z]*(?:MMA)\b")


def _waves(subject: HintSubject) -> tuple[int, int, int] | None:
    """Blocks of the launch, multiprocessors, and blocks that one of them holds."""
    if subject.launch is None or subject.device is None or subject.occupancy is None:
        return None
    blocks = blocks_of(subject.launch)
    sms = subject.device.sms
    resident = subject.occupancy.blocks
    return (blocks, sms, resident) if blocks and sms and resident else None


def small_grid(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Fewer blocks than the device holds at once. A grid that is a whole multiple of the
    multiprocessors was sized for the device; little data cannot fill one (a kernel's tensors, or,
    where they are unknown, a single block), which is no fault."""
    shape = _waves(subject)
    if shape is None:
        return
    blocks, sms, per_sm = shape
    waves = blocks / (sms * per_sm)
    if waves >= number(thresholds, GRID, "waves") or blocks % sms == 0:
        return
    listing = subject.listings.get(Stage.TTIR)
    function = subject.functions.get(Stage.TTIR)
    ttir = (listing, function) if listing and function else None
    moved = None if subject.launch is None else tensor_bytes(subject.launch, ttir)
    small = blocks == 1 if moved is None else moved.value <= number(thresholds, GRID, "bytes")
    severe = "warn" if 2 * blocks < sms else "hint"
    grid_text = f"{blocks:,} blocks fill {waves:.0%} of what {sms} SMs hold, {per_sm} each"
    if blocks < sms:
        grid_text = f"{plural(blocks, 'block')} for {sms} SMs: {sms - blocks} of them get no work"
    yield Finding(
        GRID,
        "info" if small else severe,
        f"{grid_text}. With few warps an SM there is little to hide the latency of memory behind. "
        "Give each block less work and launch more of them, split the longest loop over blocks, "
        "or do more in one launch.",
        gain=1 - waves,
    )


def tail_effect(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """A last wave that is mostly empty, after few full ones."""
    waves = _waves(subject)
    if waves is None:
        return
    blocks, sms, resident = waves
    full, last = divmod(blocks, sms * resident)
    if full == 0 or last == 0:
        return
    idle = 1 - blocks / (sms * resident) / (full + 1)
    if idle < number(thresholds, TAIL, "idle"):
        return
    yield Finding(
        TAIL,
        "hint",
        f"{plural(full, 'full wave')} and one of {last:,} blocks, where {sms * resident:,} fit: "
        f"if all blocks take equally long (an estimate), {idle:.0%} of the device's time is spent "
        "idle while the last ones run. Choose a block size or a split that fills whole waves, or "
        "launch as many blocks as fit and let each loop over its share.",
        gain=idle,
    )


def low_occupancy(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Too few warps a scheduler to keep it busy while each waits for its own last result. Kernels
    on the tensor cores hold their tiles in registers and shared memory on purpose. A grid that
    does not fill one wave is not limited by what an SM could hold."""
    full = subject.occupancy
    waves = _waves(subject)
    if full is None or full.blocks == 0 or (waves and waves[0] < waves[1] * waves[2]):
        return
    code = subject.code(Stage.SASS if subject.sass else Stage.PTX)
    if code is not None and code.count(_TENSOR.match):
        return
    schedulers = full.device.sub_partitions
    if full.warps >= schedulers * number(thresholds, OCCUPANCY, "warps_a_scheduler"):
        return
    advice_text = "".join(f" What would allow more: {step.text}." for step in full.next_steps[:1])
    yield Finding(
        OCCUPANCY,
        "hint",
        f"{plural(full.warps, 'warp')} an SM, {full.percent:.0f} percent of what it could hold, "
        f"limited by {' and '.join(full.limiters)}: {full.warps / schedulers:.3g} for each of its "
        f"{schedulers} schedulers, too few to hide even the latency of arithmetic.{advice_text}",
    )


IDLE = "idle-lanes"

_MOVES = words(
    "tt.load tt.store tt.atomic_rmw tt.atomic_cas tt.descriptor_load tt.descriptor_store "
    "tt.descriptor_gather ttg.async_copy_global_to_local ttng.async_tma_copy_global_to_local "
    "ttng.async_tma_copy_local_to_global tt.dot ttng.warp_group_dot tt.histogram tt.gather"
)


def masked_lanes(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """The share of a block's elements that its masks leave, in the launch that leaves the fewest.

    Counted over a launch's programs (evenly chosen ones where there are many), in the first turn
    of loops. A mask that depends on data says nothing.
    """
    launches = [c for c in subject.calls if c.kind == "triton" and c.grid is not None]
    launch_limit = int(number(thresholds, MASKED, "launches"))
    often = sorted(launches, key=lambda call: -call.count)[:launch_limit]
    bad: list[tuple[float, Line, Call, bool]] = []
    for call in often:
        for line, on, elements, exact in _shares(subject, call, thresholds):
            # A mask that lets nothing through in any program asks for something else than size.
            if on and 1 - on / elements >= number(thresholds, MASKED, "off"):
                bad.append((on / elements, line, call, exact))
    if not bad:
        return
    share, masked_line, launch, exact = min(bad, key=lambda entry: entry[0])
    size = prod(operand_shape(masked_line) or ())
    grid = "×".join(str(n) for n in launch.grid or ())
    yield Finding(
        MASKED,
        "hint",
        f"Launched with a grid of {grid}, {share * size:,.0f} of the {size:,} elements of a block "
        f"pass the mask of its worst access{'' if exact else ' (an estimate, of some programs)'}: "
        f"up to {1 - share:.0%} of the lanes' work is thrown away, though it takes registers and "
        f"time all the same. {_measured_share(subject)} {advice(subject, thresholds, MASKED)}",
        {Stage.TTGIR: numbers([line for _, line, _, _ in bad])},
        estimated=not exact,
        gain=1 - share,
    )


def _measured_share(subject: HintSubject) -> str:
    """How many lanes had no work where blocks were executed, else that it is a bound."""
    facts = subject.executed
    lost = None if facts is None else facts.lost_lanes
    if facts is None or lost is None:
        return "That is a bound from the code, not measured."
    ran, launched = facts.blocks
    return (
        f"In the {ran:,} of {plural(launched, 'block')} that {'was' if ran == 1 else 'were'} "
        f"executed, {lost:.0%} of the lanes of accesses to memory had no part in them."
    )


def _shares(
    subject: HintSubject, call: Call, thresholds: Thresholds
) -> Iterator[tuple[Line, int, int, bool]]:
    """Each access of one launch that has a mask, with what ``_count`` gives of it."""
    budget = int(number(thresholds, MASKED, "elements"))
    argument_values = ttgir_values(subject, call)
    share_by_mask: dict[str, tuple[int, int, bool] | None] = {}
    for line in subject.ttgir:
        place = _MASKS.get(line.base or "")
        names = uses(line)
        shape = operand_shape(line)
        mask = names[place] if place is not None and len(names) > place else None
        if call.grid is None or mask is None or shape is None or prod(shape) < WARP:
            continue
        if mask not in share_by_mask:
            share_by_mask[mask] = _count(subject, argument_values, call.grid, mask, shape, budget)
        if (mask_share := share_by_mask[mask]) is not None:
            yield line, *mask_share


_MASKS = {"tt.load": 1, "tt.store": 2}
"""The place of the mask among an access's operands."""


def _count(
    subject: HintSubject,
    argument_values: Mapping[str, int],
    grid: tuple[int, int, int],
    mask: str,
    shape: tuple[int, ...],
    budget: int,
) -> tuple[int, int, bool] | None:
    """How many elements of a mask are true, of how many, and whether that is so of all programs."""
    size = prod(shape)
    total = prod(grid)
    if size > budget or total <= 0:  # nothing was launched, or somebody says so
        return None
    on = counted_elements = 0
    tensors = Tensors(subject.lines(Stage.TTGIR), argument_values)
    places = tuple(product(*map(range, shape)))
    count = min(total, max(budget // size, 1))
    for i in range(count):  # all programs where they are few, else the middles of equal parts
        program = (2 * i + 1) * total // (2 * count)
        tensors.restart(
            (program % grid[0], program // grid[0] % grid[1], program // (grid[0] * grid[1]))
        )
        values = tensors.elements(mask, places)
        if None in values:
            return None
        on += sum(map(bool, values))
        counted_elements += size
        if not tensors.programs:
            return on, counted_elements, True
    return on, counted_elements, counted_elements == total * size


def idle_lanes(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with fewer elements than threads, and warps that are not full. Triton: no tensor that
    is moved or multiplied has as many elements as there are threads."""
    if subject.warps is None:
        yield from _ragged(subject)
        return
    threads = subject.warps * WARP
    moved = [(operand_shape(line), line) for line in subject.ttgir if line.base in _MOVES]
    sizes = [(prod(shape), line) for shape, line in moved if shape is not None]
    if not sizes or any(
        shape is None and line.base not in ("tt.load", "tt.store") for shape, line in moved
    ):
        return
    largest = max(size for size, _ in sizes)
    if largest >= threads:
        return
    generated = subject.kernel.origin is Origin.INDUCTOR
    warps = max(largest // WARP, 1)
    cure = f"Launch with num_warps={warps}, or give a block more elements."
    if generated:
        cure = advice(subject, thresholds, IDLE)
    yield Finding(
        IDLE,
        "info" if generated else "hint",
        f"{plural(threads, 'thread')} ({plural(subject.warps, 'warp')}) for blocks of {largest} "
        f"elements at most: {threads - largest} threads repeat what others do, in registers and "
        f"slots that other blocks could have. {_measured_share(subject)} {cure}",
        {Stage.TTGIR: numbers([line for _, line in sizes])},
        gain=1 - largest / threads,
    )


def _ragged(subject: HintSubject) -> Iterator[Finding]:
    threads = prod(subject.block or (0,))
    warps = -(-threads // WARP)
    idle = warps * WARP - threads
    if threads <= 0 or idle * 8 < max(warps * WARP, 1):
        return
    yield Finding(
        IDLE,
        "hint",
        f"Blocks of {threads} threads take {plural(warps, 'warp')}, in which {idle} of "
        f"{warps * WARP} lanes never have work: the hardware schedules whole warps of 32. "
        f"{_measured_share(subject)} Make the block's size a multiple of 32.",
        gain=idle / (warps * WARP),
    )
