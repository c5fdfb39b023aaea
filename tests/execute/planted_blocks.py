"""Kernels of Triton whose blocks access the same memory: sound ones, and each with a fault planted.

    python -m tests.execute.planted_blocks

runs them, and all sound kernels of ``synchronized``, with an observer of blocks: of the former
every planted fault has to be reported, and of sound ones nothing. 32 blocks are run of larger
grids.
"""

# mypy: allow-untyped-defs, allow-incomplete-defs
# ruff: noqa: N803

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
import triton
import triton.language as tl

from inspector.base.errors import PtxviewError
from inspector.execute import Memory, Program
from inspector.execute.block_order import BlockObserver
from inspector.execute.synchronization import RaceObserver
from tests.execute import synchronized
from tests.execute.calls.programs import kernel
from tests.execute.programs import launch, make
from tests.execute.removed_barriers import body_of
from tests.execute.synchronized import Specimen, of_cuda, of_judged, of_recordings, of_triton

SIZE = 64
"""Elements of a block."""
BLOCKS = 6
BUDGET = 60_000_000


@triton.jit
def tiles(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Each block its own elements; the fault is a stride that is one too small."""
    at = tl.program_id(0) * (B - FAULT) + tl.arange(0, B)
    tl.store(y_ptr + at, tl.load(x_ptr + at) + tl.program_id(0))


@triton.jit
def rows_of_48(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Rows of 48 elements by vectors of 64; the fault is a mask that is missing."""
    columns = tl.arange(0, B)
    at = tl.program_id(0) * 48 + columns
    tl.store(y_ptr + at, tl.load(x_ptr + at) * 2 + tl.program_id(0), columns < (B if FAULT else 48))


@triton.jit
def tiles_of_two_axes(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """A grid of 2×3; the fault takes the wrong axis for its rows."""
    row = tl.program_id(0)
    column = row if FAULT else tl.program_id(1)
    at = (row * 3 + column) * B + tl.arange(0, B)
    tl.store(y_ptr + at, tl.load(x_ptr + at) + tl.program_id(1))


@triton.jit
def counted(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """A histogram; the fault adds without an atomic."""
    x = tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B))
    bins = tl.arange(0, 16)
    counts = tl.histogram((tl.abs(x) * 8).to(tl.int32) % 16, 16).to(tl.float32)
    if FAULT:
        tl.store(y_ptr + bins, tl.load(y_ptr + bins) + counts)
    else:
        tl.atomic_add(y_ptr + bins, counts)


@triton.jit
def split_sum(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Parts of one sum; the fault stores where it has to add."""
    total = tl.sum(tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B)), 0)
    if FAULT:
        tl.store(y_ptr, total)
    else:
        tl.atomic_add(y_ptr, total)


@triton.jit
def cleared_sum(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """The fault: the first block clears the sum that all add to."""
    tl.store(y_ptr, 0.0, (tl.program_id(0) == 0) & (FAULT == 1))
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B)), 0))


@triton.jit
def neighbours(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """A stencil; the fault writes in place."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.load(x_ptr + at) + tl.load(x_ptr + at + 1)
    tl.store((x_ptr if FAULT else y_ptr) + at, total)


@triton.jit
def reversed_rows(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """The fault writes in place what another block reads."""
    row, columns = tl.program_id(0), tl.arange(0, B)
    x = tl.load(x_ptr + (tl.num_programs(0) - 1 - row) * B + columns)
    tl.store((x_ptr if FAULT else y_ptr) + row * B + columns, x)


@triton.jit
def last_sums(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """The last block adds the parts of all; the fault is that every block does."""
    row = tl.program_id(0)
    count_ptr = (y_ptr + 1000).to(tl.pointer_type(tl.int32))
    tl.store(y_ptr + 1 + row, tl.sum(tl.load(x_ptr + row * B + tl.arange(0, B)), 0))
    done = tl.atomic_add(count_ptr, 1)
    if done >= (0 if FAULT else tl.num_programs(0) - 1):
        parts = tl.arange(0, 8)
        total = tl.sum(tl.load(y_ptr + 1 + parts, parts < tl.num_programs(0), 0.0), 0)
        tl.store(y_ptr + 32 + (row if FAULT else 0), total)


@triton.jit
def handed_on(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Each block waits for the one before it; the fault does not, or sets its flag too early."""
    row = tl.program_id(0)
    flags = (y_ptr + 1000).to(tl.pointer_type(tl.int32))
    total = tl.sum(tl.load(x_ptr + row * B + tl.arange(0, B)), 0)
    if row > 0:
        if FAULT != 1:
            while tl.atomic_cas(flags + row - 1, 1, 1) == 0:
                pass
        total += tl.load(y_ptr + row - 1)
    if FAULT == 2:
        tl.atomic_xchg(flags + row, 1)
        tl.debug_barrier()
    tl.store(y_ptr + row, total)
    if FAULT != 2:
        tl.debug_barrier()
        tl.atomic_xchg(flags + row, 1)


@triton.jit
def locked(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Sums behind a lock, as in Triton's tutorial on layer norm; the fault takes no lock."""
    lock = (y_ptr + 1000).to(tl.pointer_type(tl.int32))
    columns = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * B + columns)
    if not FAULT:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    tl.store(y_ptr + columns, tl.load(y_ptr + columns) + x)
    tl.debug_barrier()
    if not FAULT:
        tl.atomic_xchg(lock, 0)


@triton.jit
def met(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """All blocks meet between two steps, as in a cooperative reduction; the fault goes on."""
    row = tl.program_id(0)
    count_ptr = (y_ptr + 1000).to(tl.pointer_type(tl.int32))
    tl.store(y_ptr + row, tl.sum(tl.load(x_ptr + row * B + tl.arange(0, B)), 0))
    tl.debug_barrier()
    if not FAULT:
        tl.atomic_add(count_ptr, 1)
        while tl.load(count_ptr, volatile=True) < tl.num_programs(0):
            pass
        tl.debug_barrier()
    parts = tl.arange(0, 8)
    total = tl.sum(tl.load(y_ptr + parts, parts < tl.num_programs(0), 0.0), 0)
    tl.store(y_ptr + 64 + row * B + tl.arange(0, B), total)


@triton.jit
def totalled(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Atomics whose sum the host reads; the fault loads it in the kernel."""
    row = tl.program_id(0)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + row * B + tl.arange(0, B)), 0))
    if FAULT:
        tl.store(y_ptr + 64 + row, tl.load(y_ptr))


@triton.jit
def flagged(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Each block that finds a large element stores the same value; the fault stores its number."""
    x = tl.load(x_ptr + tl.program_id(0) * B + tl.arange(0, B))
    if tl.max(x, 0) > 0:
        tl.store(y_ptr, tl.program_id(0).to(tl.float32) if FAULT else 1.0)


@triton.jit
def halves(y_ptr, x_ptr, FAULT: tl.constexpr, B: tl.constexpr):
    """Bytes of one word by two blocks; the fault stores the word."""
    row = tl.program_id(0)
    if FAULT:
        words = (y_ptr + row // 2).to(tl.pointer_type(tl.int32))
        tl.store(words, tl.load(words) | (row + 1) << 16 * (row % 2))
    else:
        tl.store(y_ptr.to(tl.pointer_type(tl.int16)) + row, (row + 1).to(tl.int16))


PAIRS: tuple[tuple[Any, tuple[int, ...], tuple[int, ...]], ...] = (
    (tiles, (BLOCKS,), (1,)),
    (rows_of_48, (BLOCKS,), (1,)),
    (tiles_of_two_axes, (2, 3), (1,)),
    (counted, (BLOCKS,), (1,)),
    (split_sum, (BLOCKS,), (1,)),
    (cleared_sum, (BLOCKS,), (1,)),
    (neighbours, (BLOCKS,), (1,)),
    (reversed_rows, (BLOCKS,), (1,)),
    (last_sums, (BLOCKS,), (1,)),
    (handed_on, (BLOCKS,), (1, 2)),
    (locked, (BLOCKS,), (1,)),
    (met, (BLOCKS,), (1,)),
    (totalled, (BLOCKS,), (1,)),
    (flagged, (BLOCKS,), (1,)),
    (halves, (BLOCKS,), (1,)),
)
"""Kernels, their grids, and the numbers of their faults; 0 has none."""


def specimen(kernel: Any, grid: tuple[int, ...], fault: int, cc: int = 90) -> Specimen:
    made = make(kernel, synchronized.POINTERS, (("FAULT", fault), ("B", SIZE)), cc, aligned=(0, 1))
    x = synchronized.normal(BLOCKS + 1, SIZE)
    name = f"{kernel.fn.__name__} {fault}"
    return synchronized.of_made(name, made, grid, np.zeros(1024, np.float32), x)


def observed(sample: Specimen, chunk: int = 32_768) -> tuple[BlockObserver, RaceObserver]:
    """Observers of a run; of a large grid 32 blocks are run. Raises PtxviewError."""
    arguments = sample.arguments()
    memory = arguments.pop(0) if arguments and isinstance(arguments[0], Memory) else Memory()
    program = Program(sample.ptx, sample.entry)
    between_blocks = BlockObserver(program, memory)
    within_block = RaceObserver(program, range(prod(sample.grid)))
    launch(
        program,
        sample.grid,
        sample.threads,
        arguments,
        memory=memory,
        shared=sample.shared,
        blocks=min(prod(sample.grid), 32),
        budget=BUDGET,
        observer=[between_blocks, within_block],
        chunk=chunk,
    )
    return between_blocks, within_block


OWN_WORD = """    mov.u32 %r4, s;
    shl.b32 %r5, %r1, 2;
    add.s32 %r5, %r4, %r5;
    shl.b32 %r6, %r1, 4;
    add.s32 %r6, %r4, %r6;
"""
"""%r5: the thread's own word; %r6: its own 16 bytes."""
SHARED = ".shared .align 16 .b8 s[4096];"
STORE = "st.shared.u32 [%r5], %r1;"
OUT = "st.global.u32 [%rd1], %r7;"
MATRIX = "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r7, %r8}, [%r6];"
COPY = "cp.async.ca.shared.global [%r5], [%rd1], 4;\ncp.async.wait_all;"
LAST = "setp.eq.s32 %p1, %r1, 31;"

UNWRITTEN: Mapping[str, tuple[str, str]] = {
    "half of the threads store": (
        f"setp.lt.s32 %p1, %r1, 16;\n@%p1 {STORE}\nbar.sync 0;\nld.shared.u32 %r7, [%r5];\n{OUT}",
        f"{STORE}\nbar.sync 0;\nld.shared.u32 %r7, [%r5];\n{OUT}",
    ),
    "one past the end, of which the value is not used in the sound kernel": (
        f"{STORE}\nbar.sync 0;\nld.shared.u32 %r7, [%r5+4];\n{OUT}",
        f"{STORE}\nbar.sync 0;\nld.shared.u32 %r7, [%r5+4];\n{LAST}\nselp.b32 %r7, 0, %r7, %p1;"
        f"\n{OUT}",
    ),
    "counts that are not cleared": (
        f"red.shared.add.u32 [%r5], %r1;\nld.shared.u32 %r7, [%r5];\n{OUT}",
        "st.shared.u32 [%r5], 0;\nred.shared.add.u32 [%r5], %r1;\n"
        f"ld.shared.u32 %r7, [%r5];\n{OUT}",
    ),
    "another stage than was copied": (
        f"{COPY}\nld.shared.u32 %r7, [%r5+128];\n{OUT}",
        f"{COPY}\nld.shared.u32 %r7, [%r5];\n{OUT}",
    ),
    "a row of a matrix": (
        f"setp.lt.s32 %p1, %r1, 15;\nmov.b32 %r7, 0;\n"
        f"@%p1 st.shared.v4.u32 [%r6], {{%r1, %r1, %r1, %r1}};\n{MATRIX}\n"
        f"add.s32 %r7, %r7, %r8;\n{OUT}",
        f"st.shared.v4.u32 [%r6], {{%r1, %r1, %r1, %r1}};\n{MATRIX}\nadd.s32 %r7, %r7, %r8;\n{OUT}",
    ),
}
"""Bodies of PTX that load what nothing wrote, each with a sound one."""


def shared_kernel(body: str) -> str:
    return kernel(OWN_WORD + body, before=SHARED)


def main() -> int:
    counts: Counter[str] = Counter()
    for made, grid, faults in PAIRS:
        for fault, chunk in product((0, *faults), (32_768, 128)):
            counts[_outcome(specimen(made, grid, fault), bool(fault), chunk)] += 1
    seen: set[str] = set()
    for source in (of_judged, of_recordings, of_cuda, of_triton):
        for sample in source():
            key = body_of(sample)
            if key not in seen:
                seen.add(key)
                counts[_outcome(sample, False)] += 1
    print(dict(counts))
    return 1 if counts["alarm"] or counts["missed"] else 0


def _outcome(sample: Specimen, faulty: bool, chunk: int = 32_768) -> str:
    try:
        between_blocks, within_block = observed(sample, chunk)
    except PtxviewError as error:
        print(f"{sample.name}: not run: {error.message[:100]}", flush=True)
        return "not run"
    for read in within_block.unwritten.values():
        print(f"{sample.name}: {read}, which may not matter", flush=True)
    names = {(True, True): "found", (True, False): "missed", (False, True): "alarm"}
    outcome = names.get((faulty, bool(between_blocks.races)), "quiet")
    print(f"{sample.name}: {outcome} {between_blocks.races[:1]}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
