"""Lanes without work: masked off by a condition, or without an element of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from inspector.analyse.hints.access import named
from inspector.analyse.hints.subject import (
    WARP,
    Finding,
    HintSubject,
    Thresholds,
    number,
    numbers,
    plural,
)
from inspector.analyse.tensors import Tensors, operand_shape, uses
from inspector.base.model import Call, Origin, Stage
from inspector.base.text import words
from inspector.listing.line import Line

MASKED = "masked-lanes"
IDLE = "idle-lanes"

_MOVES = words(
    "tt.load tt.store tt.atomic_rmw tt.atomic_cas tt.descriptor_load tt.descriptor_store "
    "tt.descriptor_gather ttg.async_copy_global_to_local ttng.async_tma_copy_global_to_local "
    "ttng.async_tma_copy_local_to_global tt.dot ttng.warp_group_dot tt.histogram tt.gather"
)


# -- masked-lanes ---------------------------------------------------------------------------------


def masked_lanes(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """The share of a block's elements that its masks leave, in the launch that leaves the fewest.

    Counted over a launch's programs (evenly chosen ones where there are many), in the first turn
    of loops. A mask that depends on data says nothing.
    """
    launches = [c for c in subject.calls if c.kind == "triton" and c.grid is not None]
    often = sorted(launches, key=lambda call: -call.count)[
        : int(number(thresholds, MASKED, "launches"))
    ]
    counted = [share for call in often for share in _shares(subject, call, thresholds)]
    bad = [s for s in counted if 1 - s.on / s.of >= number(thresholds, MASKED, "off")]
    if not bad:
        return
    worst = min(bad, key=lambda s: s.on / s.of)
    share = worst.on / worst.of
    size = prod(worst.shape)
    grid = "×".join(str(n) for n in worst.call.grid or ())
    yield Finding(
        MASKED,
        "hint",
        f"Launched with a grid of {grid}, {share * size:,.0f} of the {size:,} elements of a block "
        f"pass the mask{'' if worst.exact else ' (an estimate, of some of its programs)'}: "
        f"{1 - share:.0%} of the lanes' work is thrown away, though it takes registers and time "
        "all the same. Choose a block size that divides the size better: a smaller power of two "
        "in a loop or on another grid axis.",
        {Stage.TTGIR: numbers([s.line for s in bad])},
        estimated=not worst.exact,
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """Of one launch and one access: ``on`` of ``of`` elements looked at pass the mask."""

    call: Call
    line: Line
    shape: tuple[int, ...]
    on: int
    of: int
    exact: bool


def _shares(subject: HintSubject, call: Call, thresholds: Thresholds) -> Iterator[_Share]:
    """The shares of every masked access in one launch."""
    budget = int(number(thresholds, MASKED, "elements"))
    known = {a.name: int(a.value) for a in call.arguments if isinstance(a.value, int)}
    known = named(subject, known)
    done: dict[str, tuple[int, int, bool] | None] = {}
    for line in subject.ttgir:
        mask, shape = _mask(line), operand_shape(line)
        if call.grid is None or mask is None or shape is None or prod(shape) < WARP:
            continue
        if mask not in done:
            done[mask] = _count(subject, known, call.grid, mask, shape, budget)
        counted = done[mask]
        if counted is not None:
            yield _Share(call, line, shape, *counted)


def _mask(line: Line) -> str | None:
    """The value that a load's or a store's mask is."""
    names = uses(line)
    if line.base == "tt.load":
        return names[1] if len(names) > 1 else None
    if line.base == "tt.store":
        return names[2] if len(names) > 2 else None
    return None


def _count(
    subject: HintSubject,
    known: dict[str, int],
    grid: tuple[int, int, int],
    mask: str,
    shape: tuple[int, ...],
    budget: int,
) -> tuple[int, int, bool] | None:
    """How many elements of a mask are true, of how many, and whether that is so of all programs."""
    size = prod(shape)
    if size > budget:
        return None
    total = grid[0] * grid[1] * grid[2]
    if total <= 0:
        return None  # nothing was launched, or somebody says so
    on = of = 0
    tensors = Tensors(subject.lines(Stage.TTGIR), known)
    places = tuple(product(*map(range, shape)))
    for program in _programs(grid, max(budget // size, 1)):
        tensors.restart(program)
        values = tensors.at(mask, places)
        if None in values:
            return None
        on += sum(map(bool, values))
        of += size
        if not tensors.programs:
            return on, of, True
    return on, of, of == total * size


def _programs(grid: tuple[int, int, int], most: int) -> Iterator[tuple[int, int, int]]:
    """Programs of a grid: all where they are few, else the middles of as many equal parts."""
    total = grid[0] * grid[1] * grid[2]
    count = min(total, most)
    for i in range(count):
        at = (2 * i + 1) * total // (2 * count)
        yield at % grid[0], at // grid[0] % grid[1], at // (grid[0] * grid[1])


# -- idle-lanes -----------------------------------------------------------------------------------


def idle_lanes(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Blocks with fewer elements than threads, and warps that are not full."""
    yield from _replicated(subject)
    yield from _ragged(subject)


def _replicated(subject: HintSubject) -> Iterator[Finding]:
    """Triton: no tensor that is moved or multiplied has as many elements as there are threads."""
    if subject.warps is None:
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
    yield Finding(
        IDLE,
        "info" if generated else "hint",
        f"{plural(threads, 'thread')} ({plural(subject.warps, 'warp')}) for blocks of {largest} "
        f"elements at most: {threads - largest} threads repeat what others do, in registers and "
        "slots that other blocks could have. "
        + (
            "Inductor chose that; its coordinate_descent_tuning tries others."
            if generated
            else f"Launch with num_warps={max(largest // WARP, 1)}, or give a block more elements."
        ),
        {Stage.TTGIR: numbers([line for _, line in sizes])},
    )


def _ragged(subject: HintSubject) -> Iterator[Finding]:
    """CUDA: a block whose size is no multiple of a warp."""
    if subject.warps is not None or subject.block is None:
        return
    threads = subject.block[0] * subject.block[1] * subject.block[2]
    if threads <= 0 or threads % WARP == 0:
        return
    warps = -(-threads // WARP)
    idle = warps * WARP - threads
    if idle * 8 < warps * WARP:
        return
    yield Finding(
        IDLE,
        "hint",
        f"Blocks of {threads} threads take {plural(warps, 'warp')}, in which {idle} of "
        f"{warps * WARP} lanes never have work: the hardware schedules whole warps of 32. Make "
        "the block's size a multiple of 32.",
    )
