# mypy: ignore-errors
"""TMA descriptors, of the kernel's making and the host's, with blocks partly outside: "done"."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def device_kernel(out, x, m, n, bm: tl.constexpr, bn: tl.constexpr):
    a = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[bm, bn])
    b = tl.make_tensor_descriptor(out, shape=[m, n], strides=[n, 1], block_shape=[bm, bn])
    i, j = tl.program_id(0) * bm, tl.program_id(1) * bn
    b.store([i, j], a.load([i, j]) * 2)


@triton.jit
def host_kernel(out, x, bm: tl.constexpr, bn: tl.constexpr):
    i, j = tl.program_id(0) * bm, tl.program_id(1) * bn
    out.store([i, j], x.load([i, j - 8]) + 1)


@triton.jit
def padded_kernel(out, x, m, n, bm: tl.constexpr, bn: tl.constexpr):
    a = tl.make_tensor_descriptor(
        x, shape=[m, n], strides=[n, 1], block_shape=[bm, bn], padding_option="nan"
    )
    v = a.load([m - 2, n - 8])
    tl.store(out + tl.arange(0, bm)[:, None] * bn + tl.arange(0, bn)[None, :], v)


@triton.jit
def reduce_kernel(out, x, kind: tl.constexpr, m, n, bm: tl.constexpr, bn: tl.constexpr):
    b = tl.make_tensor_descriptor(out, shape=[m, n], strides=[n, 1], block_shape=[bm, bn])
    v = tl.load(x + tl.arange(0, bm)[:, None] * bn + tl.arange(0, bn)[None, :])
    if kind == "add":
        b.atomic_add([m - 2, 0], v)
    elif kind == "max":
        b.atomic_max([m - 2, 0], v)
    elif kind == "min":
        b.atomic_min([m - 2, 0], v)
    else:
        b.atomic_xor([m - 2, 0], v)


@triton.jit
def rows_kernel(out, x, index, n, c: tl.constexpr):
    rows = tl.load(index + tl.arange(0, 8))
    v = x.gather(rows, 8)
    out.scatter(v, rows, 0)


x = torch.randn(37, 40, device="cuda")
out = torch.full_like(x, 7)
device_kernel[(3, 2)](out, x, 37, 40, 16, 32)
assert torch.equal(out, x * 2)
for kind in (torch.float16, torch.bfloat16, torch.float32):
    x = torch.randn(37, 40, device="cuda").to(kind)
    out = torch.full_like(x, 7)
    host_kernel[(3, 2)](
        TensorDescriptor.from_tensor(out, [16, 32]),
        TensorDescriptor.from_tensor(x, [16, 32]),
        16,
        32,
    )
    want = torch.zeros_like(x)
    want[:, 8:] = x[:, :-8]
    assert torch.equal(out, want + 1)
    out = torch.full((4, 16), 7, device="cuda", dtype=kind)
    padded_kernel[(1,)](out, x, 37, 40, 4, 16)
    assert torch.equal(out[:2, :8], x[-2:, -8:])
    assert out[2:].isnan().all() and out[:, 8:].isnan().all()
    out = x.clone()
    add = torch.randn(4, 8, device="cuda").to(kind)
    reduce_kernel[(1,)](out, add, "add", 37, 40, 4, 8)
    want = x.clone()
    want[-2:, :8] += add[:2]
    assert torch.equal(out, want)
    if kind != torch.float32:
        for name in ("max", "min"):
            out = x.clone()
            reduce_kernel[(1,)](out, add, name, 37, 40, 4, 8)
            want = x.clone()
            want[-2:, :8] = getattr(torch, name + "imum")(want[-2:, :8], add[:2])
            assert torch.equal(out, want)
x = torch.randint(0, 1000, (37, 40), device="cuda", dtype=torch.int32)
add = torch.randint(0, 1000, (4, 8), device="cuda", dtype=torch.int32)
out = x.clone()
reduce_kernel[(1,)](out, add, "xor", 37, 40, 4, 8)
want = x.clone()
want[-2:, :8] ^= add[:2]
assert torch.equal(out, want)
if torch.cuda.get_device_capability()[0] < 10:
    print("done")
    raise SystemExit  # rows are gathered and scattered from sm_100 on
x = torch.randn(37, 40, device="cuda")
out = torch.zeros_like(x)
index = torch.tensor([3, 1, 36, 5, 7, 0, 99, 12], device="cuda", dtype=torch.int32)
rows_kernel[(1,)](
    TensorDescriptor.from_tensor(out, [1, 16]),
    TensorDescriptor.from_tensor(x, [1, 16]),
    index,
    40,
    16,
)
want = torch.zeros_like(x)
kept = index[index < 37].long()
want[kept, :16] = x[kept, 8:24]
assert torch.equal(out, want)
print("done")
