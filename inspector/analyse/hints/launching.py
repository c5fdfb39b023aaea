"""The launch against the device: grids too small, last waves half empty, few warps an SM.

A wave is as many blocks as the device holds at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analyse.hints.subject import Finding, Subject, Thresholds, blocks_of, number, plural

GRID = "small-grid"
TAIL = "tail-effect"
OCCUPANCY = "low-occupancy"

_TENSOR = re.compile(r"(?:mma|wgmma|wmma|tcgen05)\.|[A-Z]*(?:MMA)\b")


def _waves(subject: Subject) -> tuple[int, int, int] | None:
    """Blocks of the launch, multiprocessors, and blocks that one of them holds."""
    if subject.launch is None or subject.device is None or subject.occupancy is None:
        return None
    blocks, sms, held = blocks_of(subject.launch), subject.device.sms, subject.occupancy.blocks
    return (blocks, sms, held) if blocks and sms and held else None


def small_grid(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Fewer blocks than the device holds at once.

    A grid that is a whole multiple of the multiprocessors was sized for the device.
    """
    known = _waves(subject)
    if known is None:
        return
    blocks, sms, held = known
    waves = blocks / (sms * held)
    if waves >= number(thresholds, GRID, "waves") or blocks % sms == 0:
        return
    if blocks < sms:
        seen = f"{plural(blocks, 'block')} for {sms} SMs: {sms - blocks} of them get no work"
    else:
        seen = (
            f"{blocks:,} blocks are {waves:.1f} full waves across {sms} SMs, which hold {held} each"
        )
    yield Finding(
        GRID,
        "warn" if 2 * blocks < sms else "hint",
        f"{seen}. With few warps an SM there is little to hide the latency of memory behind. Give "
        "each block less work and launch more of them, split the longest loop over blocks, or do "
        "more in one launch.",
    )


def tail_effect(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """A last wave that is mostly empty, after few full ones."""
    known = _waves(subject)
    if known is None:
        return
    blocks, sms, held = known
    full, last = divmod(blocks, sms * held)
    if full == 0 or last == 0:
        return
    idle = 1 - blocks / (sms * held) / (full + 1)
    if idle < number(thresholds, TAIL, "idle"):
        return
    yield Finding(
        TAIL,
        "hint",
        f"{plural(full, 'full wave')} and one of {last:,} blocks, where {sms * held:,} fit: if all "
        f"blocks take equally long (an estimate), {idle:.0%} of the device's time is spent idle "
        "while the last ones run. Choose a block size or a split that fills whole waves, or launch "
        "as many blocks as fit and let each loop over its share.",
    )


def low_occupancy(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Too few warps a scheduler to keep it busy while each waits for its own last result.

    Kernels on the tensor cores hold their tiles in registers and shared memory on purpose.
    """
    held = subject.occupancy
    if held is None or held.blocks == 0 or _uses_tensor_cores(subject):
        return
    schedulers = held.device.sub_partitions
    if held.warps >= schedulers * number(thresholds, OCCUPANCY, "warps_a_scheduler"):
        return
    more = f" What would allow more: {held.next_step}." if held.next_step else ""
    yield Finding(
        OCCUPANCY,
        "hint",
        f"{plural(held.warps, 'warp')} an SM, {held.percent:.0f} percent of what it could hold, "
        f"limited by {' and '.join(held.limiters)}: {held.warps / schedulers:.3g} for each of its "
        f"{schedulers} schedulers, too few to hide even the latency of arithmetic.{more}",
    )


def _uses_tensor_cores(subject: Subject) -> bool:
    lines = subject.sass or subject.ptx
    return any(_TENSOR.match(line.opcode or "") for line in lines)
