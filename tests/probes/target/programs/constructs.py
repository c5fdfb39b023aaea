# mypy: ignore-errors
"""Python's constructs in Triton kernels: what the compiled code makes of them. Ends with "done".

Every kernel writes int32 or fp32 values that are checked against torch's own; with a file's name
as its argument the values are kept there, so that a GPU's can be held against them.
"""

import json
import pathlib
import sys

import torch
import triton
import triton.language as tl
from triton.language import cdiv, where

NOTHING = tl.constexpr(None)
SIXTEEN = tl.constexpr(16)


@triton.jit
def logic_kernel(out, n, block: tl.constexpr):
    o = tl.arange(0, block)
    inside = (o < 10) and (o >= 4)
    outside = (o < 4) or (o >= 10)
    neither = not ((o < 4) or (o >= 10))
    three = (o < 12) and (o >= 2) and (o != 7)
    mixed = (o < n) and ((o == 1) or (not (o < 12)))
    tl.store(out + o, inside.to(tl.int32))
    tl.store(out + block + o, outside.to(tl.int32))
    tl.store(out + 2 * block + o, neither.to(tl.int32))
    tl.store(out + 3 * block + o, three.to(tl.int32))
    tl.store(out + 4 * block + o, mixed.to(tl.int32))
    # A scalar beside a block.
    tl.store(out + 5 * block + o, ((n > 3) and (o < 5)).to(tl.int32))
    tl.store(out + 6 * block + o, ((n > 300) or (o < 5)).to(tl.int32))


@triton.jit
def masked_kernel(out, x, n, block: tl.constexpr):
    o = tl.arange(0, block)
    value = tl.load(x + o, mask=(o >= 2) and (o < n), other=-1.0)
    tl.store(out + o, value, mask=(o < n) or (o == block - 1))


@triton.jit
def compile_time_kernel(out, x, absent: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    o = tl.arange(0, block)
    # Decided when compiled: what follows is not evaluated, and would not compile.
    if absent is not None and absent.shape[0] > 3:
        tl.store(out + o, 0)
    given = NOTHING is None
    plain = width and (o < 4)  # a constant that decides nothing leaves the block
    decided = (not width) and (o < 4)  # and one that does leaves the constant
    tl.store(out + o, plain.to(tl.int32) + (1 if given else 0) + (10 if decided else 20))
    chosen = SIXTEEN if width == 16 else 3
    tl.store(out + block + o, o * chosen + (x if absent is None else 0))


@triton.jit
def chosen_kernel(out, x, n, block: tl.constexpr):
    o = tl.arange(0, block)
    half = tl.load(x + o)
    # Computed: a tensor of its own type, not a number that takes the other operand's.
    scale = 2049.0 if n > 3 else 1.0
    tl.store(out + o, (half * scale).to(tl.float32))
    count = 3 if n > 300 else 5
    tl.store(out + block + o, (o * count).to(tl.float32))


@triton.jit
def loop_kernel(out, n, block: tl.constexpr):
    o = tl.arange(0, block)
    total = tl.zeros((block,), tl.int64)
    for i in range(n):
        # The variable is a tensor: it has methods, and is no constant in `and`.
        total += tl.where((i > 2) and (o < 4), i.to(tl.int64), 0)
    for i in tl.range(0, n, 3):
        total += i
    for i in tl.static_range(3):
        total += i
    left = n
    steps = 0
    while (left > 0) and (steps < 5):
        left -= 2
        steps += 1
    top = max(o, 6)
    bottom = min(min(o, 9), n)
    tl.store(out + o, (total + steps * 1000).to(tl.int32))
    tl.store(out + block + o, top * 100 + bottom)


@triton.jit
def named_kernel(out, n, block: tl.constexpr):
    o = tl.arange(0, block)
    count: tl.int32 = 0
    count += cdiv(n, 4)
    tl.store(out + o, where(o < count, o, count.to(tl.int32)))


@triton.jit
def smaller_of_two(a, i, b, j):
    first = (a < b) or ((a == b) and (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def reduced_kernel(out, x, block: tl.constexpr):
    o = tl.arange(0, block)
    value, index = tl.reduce((tl.load(x + o), o), 0, smaller_of_two)
    tl.store(out, value)
    tl.store(out + 1, index.to(tl.float32))


def closed_over(width):
    @triton.jit
    def closure_kernel(out, n, block: tl.constexpr):
        o = tl.arange(0, block)
        tl.store(out + o, o * width, mask=o < n)

    return closure_kernel


@triton.jit
def chain_kernel(out, x, n, block: tl.constexpr):
    o = tl.arange(0, block)
    tl.store(out + o, (0 < o < n != 5).to(tl.int32))
    tl.store(out + block + o, (-1 < tl.atomic_add(x, 1) <= o < 12).to(tl.int32))
    if 3 < block < 9:  # decided when compiled
        tl.store(out + o, 0)


def ints(count):
    return torch.full((count,), -7, device="cuda", dtype=torch.int32)


def version(module):
    return tuple(int(part) for part in module.__version__.split(".")[:2])


def rows():
    """Every kernel's values by its name."""
    made = {}
    out = ints(7 * 16)
    logic_kernel[(1,)](out, 13, block=16)
    made["logic"] = out.view(7, 16).tolist()
    x = torch.arange(16.0, device="cuda") + 100
    floats = torch.full((16,), -7.0, device="cuda")
    masked_kernel[(1,)](floats, x, 9, block=16)
    made["masked"] = floats.tolist()
    out = ints(32)
    compile_time_kernel[(1,)](out, 5, None, 16, block=16)
    made["compile time"] = out.view(2, 16).tolist()
    half = (torch.arange(16, device="cuda") + 1).half()
    for n in (5, 1):
        floats = torch.full((32,), -7.0, device="cuda")
        chosen_kernel[(1,)](floats, half, n, block=16)
        made[f"chosen {n}"] = floats.view(2, 16).tolist()
    out = ints(32)
    loop_kernel[(1,)](out, 7, block=16)
    made["loop"] = out.view(2, 16).tolist()
    out = ints(16)
    named_kernel[(1,)](out, 13, block=16)
    made["named"] = out.tolist()
    floats = torch.zeros(2, device="cuda")
    reduced_kernel[(1,)](floats, torch.tensor([3.0, 1.0, 1.0, 2.0], device="cuda"), block=4)
    made["reduced"] = floats.tolist()
    return made


if __name__ == "__main__":
    made = rows()
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(json.dumps(made))
    o = torch.arange(16)

    def number(mask):
        return mask.int().tolist()

    assert made["logic"] == [
        number((o < 10) & (o >= 4)),
        number((o < 4) | (o >= 10)),
        number((o >= 4) & (o < 10)),
        number((o < 12) & (o >= 2) & (o != 7)),
        number((o < 13) & ((o == 1) | (o >= 12))),
        number(o < 5),
        number(o < 5),
    ], made["logic"]
    masked = torch.where((o >= 2) & (o < 9), o + 100.0, -1.0)
    assert made["masked"] == torch.where((o < 9) | (o == 15), masked, -7.0).tolist()
    assert made["compile time"] == [((o < 4).int() + 21).tolist(), (o * 16 + 5).tolist()]
    half = (o + 1).half()
    assert made["chosen 5"] == [(half.float() * 2049.0).tolist(), (o * 5.0).tolist()]
    assert made["chosen 1"] == [half.float().tolist(), (o * 5.0).tolist()]
    total = torch.where(o < 4, 3 + 4 + 5 + 6, 0) + (0 + 3 + 6) + 3 + 4000
    extremes = o.clamp(min=6) * 100 + o.clamp(max=7)
    assert made["loop"] == [total.tolist(), extremes.tolist()], made["loop"]
    assert made["named"] == torch.where(o < 4, o, 4).tolist()
    assert made["reduced"] == [1.0, 1.0]
    if version(triton) >= (3, 9):  # the compiler refused such chains before
        out, counted = ints(32), torch.zeros(1, device="cuda", dtype=torch.int32)
        chain_kernel[(1,)](out, counted, 9, block=16)
        chains = [number((o > 0) & (o < 9)), number(o < 12)]
        assert out.view(2, 16).tolist() == chains, out
        assert counted.item() == 1, "the operand in the middle is evaluated once"
        out = ints(16)
        closed_over(tl.constexpr(3))[(1,)](out, 16, block=16)
        assert out.tolist() == (o * 3).tolist(), out
    print("done")
