# mypy: ignore-errors
"""Sound kernels of many kinds: their PTX and their Python must agree."""

# ruff: noqa: N803
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

torch.manual_seed(0)


def dev(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).cuda()


def new(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype, device="cuda")


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, how: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        in_a, in_b = (m[:, None] < M) & (kk[None, :] < K), (kk[:, None] < K) & (n[None, :] < N)
        x = tl.load(a + m[:, None] * K + kk[None, :], mask=in_a, other=0.0)
        y = tl.load(b + kk[:, None] * N + n[None, :], mask=in_b, other=0.0)
        acc = tl.dot(x, y, acc, input_precision=how)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_kernel(x, w, b, out, mean, rstd, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0).to(tl.float32)
    m = tl.sum(v) / n
    d = tl.where(i < n, v - m, 0.0)
    s = tl.rsqrt(tl.sum(d * d) / n + eps)
    tl.store(mean + r, m)
    tl.store(rstd + r, s)
    y = d * s * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n)
    tl.store(out + r * n + i, y, mask=i < n)


@triton.jit
def cross_entropy_kernel(logits, labels, loss, gradient, n, B: tl.constexpr):
    """One pass for the maximum and the sum, another for the gradient, as losses are written."""
    r = tl.program_id(0)
    y = tl.load(labels + r)
    m = float("-inf")
    d = 0.0
    for s in range(0, n, B):
        i = s + tl.arange(0, B)
        v = tl.load(logits + r * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
        above = tl.maximum(m, tl.max(v))
        d = d * tl.exp(m - above) + tl.sum(tl.exp(v - above))
        m = above
    tl.store(loss + r, m + tl.log(d) - tl.load(logits + r * n + y).to(tl.float32))
    for s in range(0, n, B):
        i = s + tl.arange(0, B)
        v = tl.load(logits + r * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
        g = tl.exp(v - m) / d
        tl.store(gradient + r * n + i, tl.where(i != y, g, g - 1.0), mask=i < n)


@triton.jit
def histogram_kernel(x, h, total, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(h + v, 1, mask=i < n)
    tl.atomic_add(total, tl.sum(v.to(tl.float32)))


@triton.jit
def scatter_kernel(x, at, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    place = tl.load(at + i, mask=i < n, other=0)
    tl.atomic_add(out + place, tl.load(x + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def functions_kernel(x, out, best, sums, n, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(sums + i, tl.cumsum(v, 0), mask=i < n)
    tl.store(best, tl.argmax(v, 0))
    kept = tl.where(tl.rand(seed, i) > 0.3, libdevice.tanh(v) / 0.7, 0.0)
    waves = tl.sin(v) + tl.cos(v) + tl.erf(v) + tl.sigmoid(v)
    powers = tl.log2(tl.abs(v) + 1.0) + tl.exp2(v) + tl.sqrt(tl.abs(v))
    tl.store(out + i, kept + waves + powers, mask=i < n)


@triton.jit
def product_of(a, b):
    return a * b


@triton.jit
def product_kernel(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out, tl.reduce(1 + tl.load(x + i) / 8, 0, product_of))


@triton.jit
def transpose_kernel(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tile = tl.load(x + i[:, None] * n + i[None, :])
    tl.store(out + i[:, None] * n + i[None, :], tl.trans(tile))


@triton.jit
def sort_kernel(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.sort(tl.load(x + i)))


@triton.jit
def convert_kernel(x, half, brain, whole, byte, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(half + i, v.to(tl.float16), mask=i < n)
    tl.store(brain + i, v.to(tl.bfloat16), mask=i < n)
    tl.store(whole + i, (v * 10).to(tl.int32), mask=i < n)
    tl.store(byte + i, (v * 20).to(tl.int8), mask=i < n)


@triton.jit
def small_floats_kernel(x, out, back, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + i).to(tl.float8e4nv)
    tl.store(out + i, v)
    tl.store(back + i, v.to(tl.float32))


@triton.jit
def attention_kernel(q, k, v, o, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    mine = tl.load(q + r[:, None] * D + d[None, :])
    for s in range(0, N, BN):
        c = s + tl.arange(0, BN)
        qk = tl.dot(mine, tl.load(k + c[None, :] * D + d[:, None])) * 0.18
        qk = tl.where(r[:, None] >= c[None, :], qk, -1e30)
        above = tl.maximum(top, tl.max(qk, 1))
        p = tl.exp2(qk - above[:, None])
        less = tl.exp2(top - above)
        total = total * less + tl.sum(p, 1)
        values = tl.load(v + c[:, None] * D + d[None, :])
        acc = acc * less[:, None] + tl.dot(p.to(tl.float16), values)
        top = above
    tl.store(o + r[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def locked_kernel(x, out, lock, n: tl.constexpr):
    i = tl.arange(0, n)
    v = tl.load(x + tl.program_id(0) * n + i)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + i, tl.load(out + i) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def in_place_kernel(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2 + 1, mask=i < n)


for kind in (torch.float16, torch.bfloat16, torch.float32):
    a, b, c = dev(50, 70, dtype=kind), dev(70, 60, dtype=kind), new(50, 60, dtype=kind)
    matmul_kernel[(2, 2)](a, b, c, 50, 60, 70, 32, 32, 32, "tf32")
matmul_kernel[(2, 2)](a, b, c, 50, 60, 70, 32, 32, 32, "ieee")
for kind in (torch.float32, torch.float16, torch.bfloat16):
    for warps in (1, 8):
        x, w, b = dev(5, 300, dtype=kind), dev(300, dtype=kind), dev(300, dtype=kind)
        out = torch.empty_like(x)
        layer_norm_kernel[(5,)](x, w, b, out, new(5), new(5), 300, 1e-5, 512, num_warps=warps)
for kind in (torch.float32, torch.bfloat16):
    x, y = dev(4, 500, dtype=kind), torch.randint(0, 500, (4,)).cuda()
    cross_entropy_kernel[(4,)](x, y, new(4), torch.empty_like(x), 500, 128)
places = torch.randint(0, 16, (1000,), dtype=torch.int32).cuda()
histogram_kernel[(8,)](places, new(16, dtype=torch.int32), new(1), 1000, 128)
scatter_kernel[(8,)](dev(1000), places, new(16), 1000, 128)
best = new(1, dtype=torch.int32)
functions_kernel[(1,)](dev(200), new(200), best, new(200), 200, 42, 256)
product_kernel[(1,)](dev(128), new(1), 128)
transpose_kernel[(1,)](dev(32, 32), new(32, 32), 32)
sort_kernel[(1,)](dev(64), new(64), 64)
kinds = (torch.float16, torch.bfloat16, torch.int32, torch.int8)
convert_kernel[(1,)](dev(100), *(new(100, dtype=kind) for kind in kinds), 100, 128)
small_floats_kernel[(1,)](dev(128), new(128).to(torch.float8_e4m3fn), new(128), 128)
q, k, v = (dev(64, 64, dtype=torch.float16) for _ in range(3))
attention_kernel[(2,)](q, k, v, torch.empty_like(q), 64, 64, 32, 32)
locked_kernel[(4,)](dev(4, 64), new(64), new(1, dtype=torch.int32), 64)
x = dev(1000)
want = x.cpu() * 2 + 1
in_place_kernel[(8,)](x, 1000, 128)
torch.testing.assert_close(x.cpu(), want)
print("done")
