# mypy: ignore-errors
"""Liger-Kernel's Triton operations, forward and backward, fp32 and bf16, against plain torch.

By hand: pip install --no-deps --target FOLDER liger-kernel, then, with FOLDER on PYTHONPATH,
    ptxview run tests/probes/target/by_hand/liger_kernels.py
Prints a line for each operation and how many of them agree.
"""

import sys
import time
import traceback

import torch
from liger_kernel import ops
from torch.nn import functional

ROWS, WIDTH, WORDS = 32, 96, 211


def attention_angles(length, size):
    inverse = 1.0 / 10000 ** (torch.arange(0, size, 2, device="cuda") / size)
    angles = torch.outer(torch.arange(length, device="cuda"), inverse)
    return torch.cat([angles, angles], -1)[None]


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]


def sparsemax(x):
    ordered = x.sort(-1, descending=True).values
    steps = torch.arange(1, x.shape[-1] + 1, device=x.device)
    sums = ordered.cumsum(-1)
    count = (1 + steps * ordered > sums).sum(-1, keepdim=True)
    return (x - (sums.gather(-1, count - 1) - 1) / count).clamp(min=0)


def rms(x, weight):
    return functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


def poly(x, weight, bias):
    def normal(v):
        return v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6)

    return weight[0] * normal(x**3) + weight[1] * normal(x**2) + weight[2] * normal(x) + bias


def jensen_shannon(p, q):
    m = (0.5 * (p.exp() + q.exp())).log()
    parts = [functional.kl_div(m, side, reduction="sum", log_target=True) for side in (q, p)]
    return 0.5 * sum(parts) / p.shape[0]


def of(*shape, scale=1.0):
    return torch.randn(shape, device="cuda") * scale


def logs(*shape):
    return of(*shape).log_softmax(-1)


def cases():
    """Name, operation, reference, differentiable inputs, whether bf16 as well."""
    words = torch.randint(WORDS, (ROWS,), device="cuda")
    words[::7] = -100
    angles = attention_angles(16, 32)
    cos, sin = angles.cos(), angles.sin()
    yield (
        "rms_norm",
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", False),
        rms,
        [of(ROWS, WIDTH), of(WIDTH)],
        True,
    )
    yield (
        "layer_norm",
        lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, 1e-6),
        lambda x, w, b: functional.layer_norm(x, (WIDTH,), w, b, 1e-6),
        [of(ROWS, WIDTH), of(WIDTH), of(WIDTH)],
        True,
    )
    yield (
        "group_norm",
        lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 12, 3, 1e-6),
        lambda x, w, b: functional.group_norm(x, 3, w, b, 1e-6),
        [of(4, 12, 16), of(12), of(12)],
        True,
    )
    yield (
        "softmax",
        ops.LigerSoftmaxFunction.apply,
        lambda x: x.softmax(-1),
        [of(ROWS, WIDTH)],
        True,
    )
    yield (
        "sparsemax",
        lambda x: ops.LigerSparsemaxFunction.apply(x, -1),
        sparsemax,
        [of(ROWS, WIDTH)],
        False,
    )
    yield (
        "swiglu",
        ops.LigerSiLUMulFunction.apply,
        lambda a, b: functional.silu(a) * b,
        [of(ROWS, WIDTH), of(ROWS, WIDTH)],
        True,
    )
    yield (
        "geglu",
        ops.LigerGELUMulFunction.apply,
        lambda a, b: functional.gelu(a, approximate="tanh") * b,
        [of(ROWS, WIDTH), of(ROWS, WIDTH)],
        True,
    )
    yield (
        "relu_squared",
        ops.LigerReLUSquaredFunction.apply,
        lambda x: functional.relu(x).square(),
        [of(ROWS, WIDTH)],
        True,
    )
    yield (
        "dyt",
        ops.LigerDyTFunction.apply,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        [of(ROWS, WIDTH), of(1), of(WIDTH), of(WIDTH)],
        True,
    )
    yield (
        "poly_norm",
        lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        poly,
        [of(ROWS, WIDTH), of(3), of()],
        False,
    )
    yield (
        "fused_add_rms_norm",
        lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6)[0],
        lambda x, r, w: rms(x + r, w),
        [of(ROWS, WIDTH), of(ROWS, WIDTH), of(WIDTH)],
        False,
    )
    yield (
        "rope",
        lambda q, k: torch.cat(ops.LigerRopeFunction.apply(q * 1, k * 1, cos, sin), 1),
        lambda q, k: torch.cat([rotated(q, cos, sin), rotated(k, cos, sin)], 1),
        [of(2, 4, 16, 32), of(2, 2, 16, 32)],
        False,
    )
    yield (
        "cross_entropy",
        lambda x: ops.LigerCrossEntropyFunction.apply(x * 1, words, None)[0],
        lambda x: functional.cross_entropy(x, words),
        [of(ROWS, WORDS)],
        True,
    )
    yield (
        "cross_entropy, smooth",
        lambda x: ops.LigerCrossEntropyFunction.apply(x * 1, words, None, -100, 0.0, 0.1)[0],
        lambda x: functional.cross_entropy(x, words, label_smoothing=0.1),
        [of(ROWS, WORDS)],
        False,
    )
    yield (
        "fused_linear_cross_entropy",
        lambda x, w: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, words)[0],
        lambda x, w: functional.cross_entropy(x @ w.t(), words),
        [of(ROWS, WIDTH), of(WORDS, WIDTH, scale=0.1)],
        False,
    )
    yield (
        "kl_div",
        lambda p, q: ops.LigerKLDivLossFunction.apply(p, q.detach(), "batchmean", True),
        lambda p, q: functional.kl_div(p, q.detach(), reduction="batchmean", log_target=True),
        [logs(ROWS, WORDS), logs(ROWS, WORDS)],
        False,
    )
    yield (
        "jsd",
        lambda p, q: ops.LigerJSDFunction.apply(p, q.detach()),
        lambda p, q: jensen_shannon(p, q.detach()),
        [logs(ROWS, WORDS), logs(ROWS, WORDS)],
        False,
    )
    yield (
        "tvd",
        lambda p, q: ops.LigerTVDLossFunction.apply(p, q.detach()),
        lambda p, q: 0.5 * (p - q.detach()).abs().sum() / ROWS,
        [of(ROWS, WORDS).softmax(-1), of(ROWS, WORDS).softmax(-1)],
        False,
    )
    yield (
        "fused_linear_jsd",
        lambda x, w: ops.LigerFusedLinearJSDFunction.apply(x, w, teacher, teacher_weight),
        lambda x, w: jensen_shannon(
            (x @ w.t()).log_softmax(-1), (teacher @ teacher_weight.t()).log_softmax(-1)
        ),
        [of(ROWS, WIDTH), of(WORDS, WIDTH, scale=0.1)],
        False,
    )


teacher, teacher_weight = of(ROWS, WIDTH), of(WORDS, WIDTH, scale=0.1)


def check(operation, reference, inputs, kind):
    found = []
    for function, exact in ((operation, kind), (reference, torch.float32)):
        given = [x.detach().clone().to(kind).to(exact).requires_grad_() for x in inputs]
        result = function(*given)
        torch.manual_seed(1)
        result.backward(torch.randn(result.shape, device="cuda").to(kind).to(result.dtype))
        grads = [g.grad if g.grad is not None else torch.zeros_like(g) for g in given]
        found.append([result.detach(), *grads])
    tolerance = 1e-3 if kind == torch.float32 else 6e-2
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a.float(), b, rtol=tolerance, atol=tolerance)


if __name__ == "__main__":
    begun, total, good = time.perf_counter(), 0, 0
    for name, operation, reference, inputs, half in cases():
        for kind in (torch.float32, torch.bfloat16) if half else (torch.float32,):
            total += 1
            try:
                check(operation, reference, inputs, kind)
                good += 1
                print(f"ok    {name} {kind}")
            except Exception as error:
                print(f"FAIL  {name} {kind}: {' '.join(str(error).split())[:250]}")
                if "-v" in sys.argv:
                    traceback.print_exc()
    print(f"{good} of {total} agree, forward and backward, {time.perf_counter() - begun:.0f} s")
