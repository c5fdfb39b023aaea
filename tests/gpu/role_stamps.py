"""Measure the share of its time that each warp role of Gluon kernels waits for mbarriers.

    python -m tests.gpu.role_stamps [--json FILE]
    ptxview run -o FILE --no-tui -m tests.gpu.role_stamps --record

Run by hand on an H200, with triton 3.6. A producer warp copies tiles by TMA into a ring in shared
memory, consumer warps multiply them by wgmma. The stamped variant of a kernel reads %clock64
around each wait. Exits with 1 where a result differs from torch's. ``--record`` launches the
unstamped variants once each, for ``ptxview time --estimate --timeline``.
"""

# Constexprs are in capitals, as in Triton's tutorials; its compiler has no starred lists.
# ruff: noqa: N803, N806, RUF005
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

MATMUL_DEPTH = 64
MAX_RELATIVE_ERROR = 0.01
TIMING_ROUNDS = 3


@gluon.jit
def clock(STAMPED: gl.constexpr):
    if STAMPED:
        return gl.inline_asm_elementwise(
            "mov.u64 $0, %clock64;", "=l", [], dtype=gl.int64, is_pure=False, pack=1
        )
    else:  # noqa: RET505 - without it, Triton compiles both
        return gl.to_tensor(0).to(gl.int64)


@gluon.jit
def wait(barrier, phase, waited, STAMPED: gl.constexpr):
    """Wait for a phase of an mbarrier, and add the cycles to ``waited``."""
    start = clock(STAMPED)
    mbarrier.wait(barrier, phase)
    return waited + (clock(STAMPED) - start)


@gluon.jit
def store_stamps(stamps, ROLE: gl.constexpr, waited, start, STAMPED: gl.constexpr):
    if STAMPED:
        total = clock(STAMPED) - start
        gl.store(stamps + gl.program_id(0) * 4 + ROLE * 2, waited)
        gl.store(stamps + gl.program_id(0) * 4 + ROLE * 2 + 1, total)


@gluon.jit
def allocate_barriers(COUNT: gl.constexpr):
    barriers = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for index in gl.static_range(COUNT):
        mbarrier.init(barriers.index(index), count=1)
    return barriers


@gluon.jit
def multiply(a, b, acc):
    acc = hopper.warpgroup_mma(a, b, acc, is_async=True)
    return hopper.warpgroup_mma_wait(num_outstanding=0, deps=(acc,))


@gluon.jit
def produce_products(a, b, c, a_ring, b_ring, full, empty, stamps, STAMPED: gl.constexpr):
    STAGES: gl.constexpr = a_ring.shape[0]
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    columns = c.shape[1] // BN
    step = 0
    waited = clock(False)
    start = clock(STAMPED)
    for tile in range(gl.program_id(0), c.shape[0] // BM * columns, gl.num_programs(0)):
        row = tile // columns * BM
        column = tile % columns * BN
        for k in range(0, a.shape[1], a.block_type.shape[1]):
            stage = step % STAGES
            waited = wait(empty.index(stage), ((step // STAGES) & 1) ^ 1, waited, STAMPED)
            mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_copy_global_to_shared(a, [row, k], full.index(stage), a_ring.index(stage))
            tma.async_copy_global_to_shared(b, [column, k], full.index(stage), b_ring.index(stage))
            step += 1
    store_stamps(stamps, 0, waited, start, STAMPED)


@gluon.jit
def consume_products(a, b, c, a_ring, b_ring, full, empty, stamps, STAMPED: gl.constexpr):
    STAGES: gl.constexpr = a_ring.shape[0]
    BM: gl.constexpr = c.block_type.shape[0]
    BN: gl.constexpr = c.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    c_tile = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    columns = c.shape[1] // BN
    step = 0
    waited = clock(False)
    start = clock(STAMPED)
    for tile in range(gl.program_id(0), c.shape[0] // BM * columns, gl.num_programs(0)):
        acc = gl.zeros([BM, BN], gl.float32, layout)
        for _ in range(0, a.shape[1], a.block_type.shape[1]):
            stage = step % STAGES
            waited = wait(full.index(stage), (step // STAGES) & 1, waited, STAMPED)
            acc = multiply(a_ring.index(stage), b_ring.index(stage).permute((1, 0)), acc)
            mbarrier.arrive(empty.index(stage), count=1)
            step += 1
        tma.store_wait(pendings=0)
        c_tile.store(acc.to(c.dtype))
        hopper.fence_async_shared()
        tma.async_copy_shared_to_global(c, [tile // columns * BM, tile % columns * BN], c_tile)
    tma.store_wait(pendings=0)
    store_stamps(stamps, 1, waited, start, STAMPED)


@gluon.jit
def roles_matmul(a, b, c, stamps, STAGES: gl.constexpr, STAMPED: gl.constexpr):
    a_ring = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    b_ring = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    full = allocate_barriers(STAGES)
    empty = allocate_barriers(STAGES)
    arguments = (a, b, c, a_ring, b_ring, full, empty, stamps, STAMPED)
    gl.warp_specialize([(consume_products, arguments), (produce_products, arguments)], [1], [24])


@gluon.jit
def fill(source, row, ring, full, empty, step, waited, STAMPED: gl.constexpr):
    SLOTS: gl.constexpr = ring.shape[0]
    slot = step % SLOTS
    waited = wait(empty.index(slot), ((step // SLOTS) & 1) ^ 1, waited, STAMPED)
    mbarrier.expect(full.index(slot), source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [row, 0], full.index(slot), ring.index(slot))
    return waited


@gluon.jit
def produce_attention(
    q, k, v, o, q_tile, ring, q_full, full, empty, stamps, length, STAMPED: gl.constexpr
):
    BN: gl.constexpr = k.block_type.shape[0]
    q_row = gl.program_id(0) * q.block_type.shape[0]
    waited = clock(False)
    start = clock(STAMPED)
    mbarrier.expect(q_full, q.block_type.nbytes)
    tma.async_copy_global_to_shared(q, [q_row, 0], q_full, q_tile)
    for tile in range(length // BN):
        row = q_row // length * length + tile * BN
        waited = fill(k, row, ring, full, empty, 2 * tile, waited, STAMPED)
        waited = fill(v, row, ring, full, empty, 2 * tile + 1, waited, STAMPED)
    store_stamps(stamps, 0, waited, start, STAMPED)


@gluon.jit
def consume_attention(
    q, k, v, o, q_tile, ring, q_full, full, empty, stamps, length, STAMPED: gl.constexpr
):
    SLOTS: gl.constexpr = ring.shape[0]
    BM: gl.constexpr = q.block_type.shape[0]
    BN: gl.constexpr = k.block_type.shape[0]
    HEAD: gl.constexpr = q.block_type.shape[1]
    SCALE: gl.constexpr = 1.4426950408889634 * HEAD**-0.5
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, HEAD, 16])
    o_rows: gl.constexpr = gl.SliceLayout(1, o_layout)
    o_tile = gl.allocate_shared_memory(o.dtype, [BM, HEAD], o.layout)
    largest = gl.full([BM], float("-inf"), gl.float32, gl.SliceLayout(1, s_layout))
    total = gl.zeros([BM], gl.float32, gl.SliceLayout(1, s_layout))
    acc = gl.zeros([BM, HEAD], gl.float32, o_layout)
    start = clock(STAMPED)
    waited = wait(q_full, 0, clock(False), STAMPED)
    for tile in range(length // BN):
        slot = 2 * tile % SLOTS
        phase = (2 * tile // SLOTS) & 1
        waited = wait(full.index(slot), phase, waited, STAMPED)
        scores = gl.zeros([BM, BN], gl.float32, s_layout)
        scores = multiply(q_tile, ring.index(slot).permute((1, 0)), scores) * SCALE
        mbarrier.arrive(empty.index(slot), count=1)
        previous = largest
        largest = gl.maximum(previous, gl.max(scores, 1))
        weights = gl.exp2(scores - largest[:, None])
        rescale = gl.exp2(previous - largest)
        total = total * rescale + gl.sum(weights, 1)
        acc = acc * gl.convert_layout(rescale, o_rows)[:, None]
        weights = gl.convert_layout(weights.to(v.dtype), gl.DotOperandLayout(0, o_layout, 2))
        waited = wait(full.index(slot + 1), phase, waited, STAMPED)
        acc = multiply(weights, ring.index(slot + 1), acc)
        mbarrier.arrive(empty.index(slot + 1), count=1)
    o_tile.store((acc / gl.convert_layout(total, o_rows)[:, None]).to(o.dtype))
    hopper.fence_async_shared()
    tma.async_copy_shared_to_global(o, [gl.program_id(0) * BM, 0], o_tile)
    tma.store_wait(pendings=0)
    store_stamps(stamps, 1, waited, start, STAMPED)


@gluon.jit
def roles_attention(q, k, v, o, stamps, length, STAGES: gl.constexpr, STAMPED: gl.constexpr):
    q_tile = gl.allocate_shared_memory(q.dtype, q.block_type.shape, q.layout)
    ring = gl.allocate_shared_memory(k.dtype, [2 * STAGES] + k.block_type.shape, k.layout)
    q_full = allocate_barriers(1).index(0)
    full = allocate_barriers(2 * STAGES)
    empty = allocate_barriers(2 * STAGES)
    arguments = (q, k, v, o, q_tile, ring, q_full, full, empty, stamps, length, STAMPED)
    gl.warp_specialize([(consume_attention, arguments), (produce_attention, arguments)], [1], [24])


@dataclass(frozen=True)
class Program:
    kernel: Any
    arguments: tuple[object, ...]
    """All but STAMPED."""
    consumer_warps: int
    stamps: torch.Tensor
    """Cycles by block, role (producer, consumers) and kind (waits, total)."""
    output: torch.Tensor
    reference: Callable[[], torch.Tensor]

    def launch(self, stamped: bool) -> None:
        self.kernel[(len(self.stamps),)](*self.arguments, stamped, num_warps=self.consumer_warps)


def random_matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda").to(torch.bfloat16)


def allocate_stamps(blocks: int) -> torch.Tensor:
    return torch.zeros(blocks, 2, 2, device="cuda", dtype=torch.int64)


def descriptor(matrix: torch.Tensor, rows: int, columns: int) -> TensorDescriptor:
    block = [rows, columns]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16)
    return TensorDescriptor.from_tensor(matrix, block, layout)


def matmul(
    m: int, n: int, k: int, *, tile: tuple[int, int], stages: int, warps: int, persistent: bool
) -> Program:
    rows, columns = tile
    a = random_matrix(m, k)
    b = random_matrix(n, k)
    c = random_matrix(m, n)
    blocks = m // rows * (n // columns)
    if persistent:
        blocks = min(blocks, torch.cuda.get_device_properties(0).multi_processor_count)
    stamps = allocate_stamps(blocks)
    arguments = (
        descriptor(a, rows, MATMUL_DEPTH),
        descriptor(b, columns, MATMUL_DEPTH),
        descriptor(c, rows, columns),
        stamps,
        stages,
    )
    return Program(roles_matmul, arguments, warps, stamps, c, lambda: a.float() @ b.float().T)


def attention(
    heads: int, length: int, head_size: int, *, tile: tuple[int, int], stages: int, warps: int
) -> Program:
    rows, columns = tile
    q, k, v, o = [random_matrix(heads * length, head_size) for _ in "qkvo"]
    stamps = allocate_stamps(heads * length // rows)
    arguments = (
        descriptor(q, rows, head_size),
        descriptor(k, columns, head_size),
        descriptor(v, columns, head_size),
        descriptor(o, rows, head_size),
        stamps,
        length,
        stages,
    )

    def reference() -> torch.Tensor:
        parts = [part.float().view(heads, length, head_size) for part in (q, k, v)]
        return torch.nn.functional.scaled_dot_product_attention(*parts).view_as(o)

    return Program(roles_attention, arguments, warps, stamps, o, reference)


CASES = (
    partial(matmul, 4096, 4096, 4096, tile=(128, 128), stages=4, warps=4, persistent=True),
    partial(matmul, 4096, 4096, 4096, tile=(128, 256), stages=3, warps=8, persistent=True),
    partial(matmul, 8192, 2048, 1024, tile=(128, 128), stages=4, warps=8, persistent=True),
    partial(matmul, 2048, 2048, 2048, tile=(64, 128), stages=4, warps=4, persistent=False),
    partial(matmul, 4096, 4096, 512, tile=(128, 128), stages=2, warps=4, persistent=True),
    partial(attention, 32, 2048, 128, tile=(128, 64), stages=2, warps=8),
    partial(attention, 16, 4096, 64, tile=(64, 128), stages=2, warps=4),
    partial(attention, 32, 1024, 128, tile=(64, 64), stages=3, warps=4),
    partial(attention, 16, 2048, 64, tile=(128, 128), stages=3, warps=8),
)


def check(program: Program, stamped: bool) -> None:
    program.output.fill_(float("nan"))
    program.launch(stamped)
    reference = program.reference()
    error = ((program.output - reference).abs().max() / reference.abs().max()).item()
    if not error < MAX_RELATIVE_ERROR:  # also if it is NaN
        sys.exit(f"{program.kernel.__name__}, stamped={stamped}: relative error {error:.3g}")


def measure(program: Program) -> dict[str, float]:
    """Return the shares of the waits, the times, and the cost of the stamps in percent."""
    check(program, False)
    check(program, True)
    for _ in range(3):
        program.launch(True)
    cycles = program.stamps.double()
    producer, consumers = (100 * cycles[..., 0] / cycles[..., 1]).median(dim=0).values.tolist()
    plain_us = []
    stamped_us = []
    for _ in range(TIMING_ROUNDS):
        plain_us.append(1e3 * triton.testing.do_bench_cudagraph(lambda: program.launch(False)))
        stamped_us.append(1e3 * triton.testing.do_bench_cudagraph(lambda: program.launch(True)))
    return {
        "producer_percent": producer,
        "consumers_percent": consumers,
        "us": median(plain_us),
        "stamped_us": median(stamped_us),
        "cost_percent": 100 * (median(stamped_us) / median(plain_us) - 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the rows to this file, too")
    parser.add_argument("--record", action="store_true", help="launch unstamped kernels once each")
    parser.add_argument("--limit", type=int, default=300, help="end the process after N seconds")
    args = parser.parse_args()
    signal.alarm(args.limit)
    if args.record:
        for case in CASES:
            case().launch(False)
        torch.cuda.synchronize()
        return
    print(f"{'kernel':10} {'sizes':18} {'tile':10} stages  producer  consumers        µs    cost")
    rows = []
    for case in CASES:
        row = {"kernel": case.func.__name__, "sizes": case.args, **case.keywords, **measure(case())}
        rows.append(row)
        print(
            f"{row['kernel']:10} {row['sizes']!s:18} {row['tile']!s:10} {row['stages']:6}"
            f" {row['producer_percent']:7.1f} % {row['consumers_percent']:8.1f} %"
            f" {row['us']:9.2f} {row['cost_percent']:5.1f} %",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
