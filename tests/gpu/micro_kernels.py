"""Small kernels that a GPU's constants are fitted on: ``python -m tests.gpu.calibrate`` times them.

Each is bounded by something else: the launch, memory, L2, stores of parts of sectors, many blocks,
special functions, shuffles and barriers, tensor cores.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def copy(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


@triton.jit
def fill(target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, at)


@triton.jit
def spread(target, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) + stride * tl.arange(0, BLOCK)
    tl.store(target + at, at.to(tl.int16))


@triton.jit
def read_again(source, target, turns, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for turn in range(turns):
        total += tl.load(source + (tl.program_id(0) + turn) * BLOCK % size + at)
    tl.store(target + tl.program_id(0) * BLOCK + at, total)


@triton.jit
def exponentials(source, target, turns: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + at)
    for _ in tl.static_range(turns):
        value = tl.exp(-value)
    tl.store(target + at, value)


@triton.jit
def softmax(source, target, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(source + at)
    value = tl.exp(value - tl.max(value, 0))
    tl.store(target + at, value / tl.sum(value, 0))


@triton.jit
def product(a, b, c, size, TILE: tl.constexpr, DEEP: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    deep = tl.arange(0, DEEP)
    total = tl.zeros((TILE, TILE), tl.float32)
    for k in range(0, size, DEEP):
        left = tl.load(a + rows[:, None] * size + (k + deep)[None, :])
        right = tl.load(b + (k + deep)[:, None] * size + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * size + columns[None, :], total.to(tl.float16))


def main() -> None:
    source = torch.randn(1 << 24, device="cuda")
    target = torch.empty_like(source)
    for count in (1 << 10, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
        copy[(max(1, count // 1024),)](source, target, count, BLOCK=1024, num_warps=4)
    copy[(256,)](source, target, 1 << 20, BLOCK=4096, num_warps=8)
    for blocks in (1, 132, 1024, 8192):
        fill[(blocks,)](target.view(torch.int32), BLOCK=256, num_warps=8)
    spread[(128,)](target.view(torch.int16), 128, BLOCK=1024, num_warps=4)
    for turns in (4, 16):
        read_again[(528,)](source, target, turns, 1 << 18, BLOCK=1024, num_warps=4)
    for turns in (1, 16):
        exponentials[(1024,)](source, target, turns, BLOCK=1024, num_warps=4)
    softmax[(512,)](source, target, BLOCK=1024, num_warps=4)
    softmax[(512,)](source, target, BLOCK=4096, num_warps=8)
    for size, tile, deep in ((512, 64, 32), (1024, 64, 64), (1024, 128, 64)):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in "ab")
        grid = size // tile, size // tile
        product[grid](a, b, torch.empty_like(a), size, TILE=tile, DEEP=deep, num_stages=3)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
