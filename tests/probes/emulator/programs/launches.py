# mypy: ignore-errors
"""Triton kernels with values, checked against eager CPU torch. Ends with "done"."""

import json

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def square_kernel(out, x, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, value * value, mask=i < n)


@triton.autotune(
    [triton.Config({"block": b}, num_warps=w) for b, w in [(128, 4), (1024, 8)]], ["n"]
)
@triton.heuristics({"even": lambda a: a["n"] % a["block"] == 0})
@triton.jit
def tuned_kernel(out, x, n, even: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i) if even else tl.load(x + i, mask=i < n)
    tl.atomic_add(out + i, value + 1, mask=i < n)


@triton.jit
def gelu(x):
    return 0.5 * x * (1 + libdevice.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


@triton.jit
def rows_kernel(out, x, columns, scale, block: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, block)
    value = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    top = tl.max(value, 0)
    part = tl.exp((value - top).to(tl.float32))
    part = gelu((part / tl.sum(part, 0) * scale).to(value.dtype).to(tl.float32))
    tl.store(out + row * columns + i, part, mask=i < columns)


@triton.jit
def matmul_kernel(a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    rows = tl.program_id(0) * bm + tl.arange(0, bm)
    columns = tl.program_id(1) * bn + tl.arange(0, bn)
    total = tl.zeros((bm, bn), dtype=tl.float32)
    for start in range(0, k, bk):
        inner = start + tl.arange(0, bk)
        left = tl.load(a + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0.0)
        right = tl.load(
            b + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0.0
        )
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def half_kernel(out, x, y, n, block: tl.constexpr):
    i = tl.arange(0, block)
    a, b = tl.load(x + i), tl.load(y + i)
    top = tl.where(a > b, a, -b) * a + b / 3.0
    tl.store(out + i, top)
    tl.atomic_add(out + block, tl.sum(a, 0))
    tl.store(out + block + 1, tl.max(tl.abs(b), 0))
    tl.store(out + block + 2 + i, tl.cumsum(a, 0))


@triton.jit
def outside_kernel(out, x, block: tl.constexpr):
    tl.store(out + tl.arange(0, block), tl.load(x + tl.arange(0, block)))


def multiplied(operand):
    """An operand as tensor cores take it: TF32's 10 bits of fp32's."""
    whole = operand.cpu().float()
    if operand.dtype != torch.float32:
        return whole
    return (whole.view(torch.int32) & ~0x1FFF).view(torch.float32)


def refuses(kind, text, function):
    try:
        function()
    except kind as error:
        assert text in str(error), f"{error!r} lacks {text!r}"
    else:
        raise AssertionError(f"{text!r} was not raised")


if __name__ == "__main__":
    torch.manual_seed(0)

    x = torch.randn(5000, device="cuda")
    out = torch.empty_like(x)
    compiled = square_kernel[(40,)](out, x, 5000, block=128)
    torch.testing.assert_close(out.cpu(), x.cpu().square())
    assert compiled.n_regs > 0 and compiled.n_spills == 0 and ".target sm_90" in compiled.asm["ptx"]

    out.zero_()
    tuned_kernel[lambda meta: (triton.cdiv(5000, meta["block"]),)](out, x, 5000)
    torch.testing.assert_close(out, x + 1)
    times = [t for each in tuned_kernel.configs_timings.values() for t in each]
    assert all(t != t for t in times), "a time was made up"

    for kind, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)):
        rows = torch.randn(13, 70, device="cuda", dtype=kind)
        result = torch.empty_like(rows)
        rows_kernel[(13,)](result, rows, 70, 2.5, block=128)
        soft = (rows.cpu().float().softmax(-1) * 2.5).to(kind).float()
        expected = torch.nn.functional.gelu(soft, approximate="tanh").to(kind)
        torch.testing.assert_close(result.cpu(), expected, rtol=tolerance, atol=tolerance)
        left = torch.randn(64, 48, device="cuda", dtype=kind)
        right = torch.randn(48, 32, device="cuda", dtype=kind)
        product = torch.empty(64, 32, device="cuda", dtype=kind)
        matmul_kernel[(2, 1)](left, right, product, 64, 32, 48, bm=32, bn=32, bk=32)
        expected = (multiplied(left) @ multiplied(right)).to(kind)
        torch.testing.assert_close(product.cpu(), expected, rtol=tolerance, atol=tolerance * 10)

    a = torch.randint(-4, 5, (64,), device="cuda").bfloat16()  # its sums are exact in bf16
    b = torch.randn(64, device="cuda", dtype=torch.bfloat16)
    result = torch.zeros(130, device="cuda", dtype=torch.bfloat16)
    half_kernel[(1,)](result, a, b, 64, block=64)
    a, b, result = a.cpu(), b.cpu(), result.cpu()
    expected = (torch.where(a > b, a, -b).float() * a.float()).bfloat16().float()
    expected = expected + (b.float() / 3.0).bfloat16().float()
    torch.testing.assert_close(result[:64], expected.bfloat16(), rtol=1e-2, atol=1e-2)
    assert result[64] == a.float().sum()
    assert result[65] == b.abs().max()
    assert torch.equal(result[66:].float(), a.float().cumsum(0))

    refuses(
        ValueError,
        "cannot be accessed from Triton (cpu tensor?)",
        lambda: square_kernel[(40,)](out.cpu(), x, 5000, block=128),
    )
    square_kernel[(1,)](torch.empty(0), x, 0, block=128)  # a null pointer is valid
    refuses(
        RuntimeError,
        "illegal memory access",
        lambda: outside_kernel[(1,)](torch.empty(1, device="cuda"), x[4990:], block=64),
    )
    refuses(RuntimeError, "outside of the scope of a kernel", lambda: gelu(3))

    time = triton.testing.do_bench(lambda: square_kernel[(40,)](out, x, 5000, block=128))
    quantiles = triton.testing.do_bench(lambda: None, quantiles=[0.5, 0.2, 0.8])
    assert time != time and len(quantiles) == 3 and quantiles[0] != quantiles[0]
    print(json.dumps({"registers": compiled.n_regs, "best": str(tuned_kernel.best_config)}))
    print("done")
