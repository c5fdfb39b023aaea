# mypy: ignore-errors
"""Changes one line of a kernel's PTX at a time, and counts which the verification finds.

Prints, as JSON, how many changes were found, how many changed no bit of the result, and those that
changed it and were not found, each with the greatest difference that it made.
"""

# ruff: noqa: N803
import json
import random
import re
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(out, x, w, n, stride, B: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    e = e / tl.sum(e, 0)
    tl.store(out + row * n + i, e * tl.load(w + i, mask=i < n, other=0.0) - 0.5, mask=i < n)


@triton.jit
def bits_kernel(out, x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, (a // b) * 3 + (a % b) ^ (a << 2) | (b >> 1) & ~a)
    tl.store(out + n + i, tl.where(a > b, a * b, a - b).to(tl.int16))


LEFT_ALONE = ("ret", "bra", "bra.uni", "bar.sync")
SWAPPED = ("sub", "div", "setp", "shl", "shr", "fma", "mad", "selp", "add", "mul", "max", "min",
           "and", "or", "xor")  # fmt: skip
OPCODES = (
    ("add.f32", "sub.f32"), ("max.f32", "min.f32"), ("mul.f32", "add.f32"), (".rzi.", ".rni."),
    ("add.s32", "sub.s32"), ("setp.lt", "setp.le"), ("and.b32", "or.b32"), ("xor.b32", "and.b32"),
    ("shl.b32", "shr.u32"), ("+ 0]", "+ 4]"), ("shfl.sync.bfly", "shfl.sync.down"),
)  # fmt: skip


def changes(line):
    """A line with a guard turned or taken away, operands swapped, a number or an opcode changed."""
    match = re.match(r"(\s*)((?:@!?%p\d+\s+)?)([a-z][\w.:]*)(\s+)(.*);", line)
    if match is None or match[3] in LEFT_ALONE:
        return
    indent, guard, opcode, space, arguments = match.groups()
    if guard:
        yield line.replace("@", "@!", 1) if "@!" not in guard else line.replace("@!", "@", 1)
        yield f"{indent}{opcode}{space}{arguments};"
    operands = [a.strip() for a in re.split(r",(?![^{]*\})(?![^\[]*\])", arguments)]
    if len(operands) > 2 and operands[1] != operands[2] and opcode.split(".")[0] in SWAPPED:
        swapped = [operands[0], operands[2], operands[1], *operands[3:]]
        if operands[1][:2] == operands[2][:2]:
            yield f"{indent}{guard}{opcode}{space}{', '.join(swapped)};"
    number = re.search(r"(?<=[ ,])(\d+)(?=[,;\s]|$)", arguments)
    if number and opcode.split(".")[0] not in ("shfl", "mov"):
        more = f"{arguments[: number.start()]}{int(number[1]) + 1}{arguments[number.end() :]}"
        yield f"{indent}{guard}{opcode}{space}{more};"
    for old, new in OPCODES:
        if old in line:
            yield line.replace(old, new, 1)


def cases():
    x, w = torch.randn(6, 104).cuda(), torch.rand(100).cuda()
    yield rows_kernel, 6, (x, w, 100, 104, 128), lambda: torch.full((8, 100), 7.0).cuda()
    a = torch.randint(-9000, 9000, (128,), dtype=torch.int32).cuda()
    b = torch.randint(1, 100, (128,), dtype=torch.int32).cuda()
    yield bits_kernel, 1, (a, b, 128), lambda: torch.zeros(256, dtype=torch.int32).cuda()


def part(name):
    return next(m for n, m in sys.modules.items() if n.endswith(f"target.{name}"))


torch.manual_seed(0)
found, equal, others = 0, 0, []
for kernel, grid, given, new in cases():
    seen = []
    sound = new()
    kernel[(grid,)](sound, *given)
    run = part("ptx").run
    part("ptx").run = lambda asm, *a, run=run, seen=seen, **g: (
        seen.append(asm["ptx"]) or run(asm, *a, **g)
    )
    kernel[(grid,)](new(), *given)
    lines = seen[0].split("\n")
    (tally,) = [t for t in part("verify")._tallies.values() if t.name == kernel.fn.__name__]
    assert tally.agree == 2
    every = [(n, text) for n, line in enumerate(lines) for text in changes(line) if text != line]
    random.Random(0).shuffle(every)
    for n, text in every[: int(sys.argv[1])]:
        wrong = "\n".join([*lines[:n], text, *lines[n + 1 :]])
        part("ptx").run = lambda asm, *a, run=run, wrong=wrong, **g: run(
            {**asm, "ptx": wrong}, *a, **g
        )
        out, before = new(), tally.differ
        try:
            kernel[(grid,)](out, *given)
        except RuntimeError:
            pass  # out of bounds, as on a GPU
        if tally.differ > before:
            found += 1
        elif torch.equal(out.cpu(), sound.cpu()):
            equal += 1
        else:
            apart = (out.cpu().double() - sound.cpu().double()).abs().max().item()
            others.append([kernel.fn.__name__, lines[n].strip(), text.strip(), apart])
    part("ptx").run = run
print(json.dumps([found, equal, others]))
