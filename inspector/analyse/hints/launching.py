"""The launch against the device: grids too small, last waves half empty, few warps an SM.

A wave is as many blocks as the device holds at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    blocks_of,
    number,
    numbers,
    plural,
)
from inspector.base.model import Stage
from inspector.listing.line import Line
from inspector.listing.ptx_statement import variable_declaration

# -- local memory ---------------------------------------------------------------------------------
# What spilled out of registers, and arrays that never were in them.

SPILLS = "spills"
LOCAL = "local-memory"

_LOCAL_PTX = re.compile(r"(?:ld|st)(?:\.\w+)*?\.local\b")
_LOCAL_SASS = frozenset(("LDL", "STL"))
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
    machine = _local_sass(subject)
    registers = subject.resources.registers
    at = f" at {registers} registers" if registers is not None else ""
    yield Finding(
        SPILLS,
        "warn",
        f"{stores} bytes of spill stores and {loads} of spill loads a thread{at}: values that had "
        "no register go to local memory, which is device memory behind the caches. Allow more "
        "registers (maxnreg, __launch_bounds__, -maxrregcount), or keep fewer values alive: a "
        "smaller block, more warps for the same block, less unrolling.",
        {Stage.SASS: numbers([m for m in machine if _SPILLED.search(m.text)] or machine)},
    )


def _local_sass(subject: HintSubject) -> list[Line]:
    return [*subject.of(Stage.SASS, *_LOCAL_SASS)]


def local_memory(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Arrays of a thread that live in memory, because registers cannot be indexed."""
    machine = [m for m in _local_sass(subject) if not _SPILLED.search(m.text)]
    if subject.sass and not any(line.base == "LDL" for line in machine):
        return
    code = subject.code(Stage.PTX)
    accesses = () if code is None else code.lines(_LOCAL_PTX.match)
    if subject.ptx:
        if not any(line.base == "ld" for line in accesses):
            return
    elif not machine or subject.resources.spill_store_bytes != 0:
        # Without PTX only "no spills" shows that it is an array.
        return
    # The uses of constant tables are addresses taken by ``mov``.
    if any(_REDUCTION_TABLE in line.text for line in subject.of(Stage.PTX, "mov", "ld")):
        return
    size = _depot(subject) or subject.resources.stack_bytes
    what = f"{plural(size, 'byte')} a thread" if size else "an array"
    count = len(machine) or len(accesses)
    yield Finding(
        LOCAL,
        "hint",
        f"{what[0].upper()}{what[1:]} in local memory, by {plural(count, 'instruction')}, and not "
        "because registers spilled: an array that is indexed by a value not known when compiling "
        "cannot be kept in registers, so each access is one of memory. Unroll the loops that "
        "index it until every index is a constant, or keep it in shared memory.",
        {Stage.PTX: numbers(accesses), Stage.SASS: numbers(machine)},
    )


def _depot(subject: HintSubject) -> int:
    """Bytes of local memory that the kernel declares in PTX."""
    depot = 0
    for line in subject.lines(Stage.PTX):
        if line.opcode is None and ".local" in line.text:
            one = variable_declaration(line.text[line.text.find(".local") :])
            depot += (one.size or 0) if one is not None else 0
    return depot


GRID = "small-grid"
TAIL = "tail-effect"
OCCUPANCY = "low-occupancy"

_TENSOR = re.compile(r"(?:mma|wgmma|wmma|tcgen05)\.|[A-Z]*(?:MMA)\b")


def _waves(subject: HintSubject) -> tuple[int, int, int] | None:
    """Blocks of the launch, multiprocessors, and blocks that one of them holds."""
    if subject.launch is None or subject.device is None or subject.occupancy is None:
        return None
    blocks, sms, resident = blocks_of(subject.launch), subject.device.sms, subject.occupancy.blocks
    return (blocks, sms, resident) if blocks and sms and resident else None


def small_grid(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Fewer blocks than the device holds at once.

    A grid that is a whole multiple of the multiprocessors was sized for the device.
    """
    shape = _waves(subject)
    if shape is None:
        return
    blocks, sms, each = shape
    waves = blocks / (sms * each)
    if waves >= number(thresholds, GRID, "waves") or blocks % sms == 0:
        return
    if blocks < sms:
        seen = f"{plural(blocks, 'block')} for {sms} SMs: {sms - blocks} of them get no work"
    else:
        seen = (
            f"{blocks:,} blocks are {waves:.1f} full waves across {sms} SMs, which hold {each} each"
        )
    yield Finding(
        GRID,
        "warn" if 2 * blocks < sms else "hint",
        f"{seen}. With few warps an SM there is little to hide the latency of memory behind. Give "
        "each block less work and launch more of them, split the longest loop over blocks, or do "
        "more in one launch.",
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
    )


def low_occupancy(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Too few warps a scheduler to keep it busy while each waits for its own last result.

    Kernels on the tensor cores hold their tiles in registers and shared memory on purpose.
    """
    full = subject.occupancy
    if full is None or full.blocks == 0 or _uses_tensor_cores(subject):
        return
    schedulers = full.device.sub_partitions
    if full.warps >= schedulers * number(thresholds, OCCUPANCY, "warps_a_scheduler"):
        return
    more = f" What would allow more: {full.next_step}." if full.next_step else ""
    yield Finding(
        OCCUPANCY,
        "hint",
        f"{plural(full.warps, 'warp')} an SM, {full.percent:.0f} percent of what it could hold, "
        f"limited by {' and '.join(full.limiters)}: {full.warps / schedulers:.3g} for each of its "
        f"{schedulers} schedulers, too few to hide even the latency of arithmetic.{more}",
    )


def _uses_tensor_cores(subject: HintSubject) -> bool:
    code = subject.code(Stage.SASS if subject.sass else Stage.PTX)
    return code is not None and code.count(_TENSOR.match) > 0
