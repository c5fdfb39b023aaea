# mypy: ignore-errors
"""torch.compile: forward and backward values against eager, and modes; or of the parts that are
named. Ends with "done"."""

import copy
import sys

import torch
import triton
import triton.language as tl
from torch.nn import functional


def close(a, b, tolerance=1e-4):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@triton.jit
def add_kernel(x, y, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.autotune([triton.Config({"block": 64}), triton.Config({"block": 128})], key=["n"])
@triton.jit
def double_kernel(x, out, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def with_kernels(x, y):
    out, twice = torch.empty_like(x), torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), block=64)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["block"]),)](out, twice, x.numel())
    return twice.sin() + 1


def training():
    torch.manual_seed(0)
    eager = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    ).cuda()
    model = copy.deepcopy(eager)
    compiled = torch.compile(model)
    for kind in (torch.float32, torch.bfloat16):
        x, y = torch.randn(8, 16, device="cuda"), torch.randint(4, (8,), device="cuda")
        tolerance = 1e-4 if kind == torch.float32 else 3e-2
        found = []
        for each, module in ((eager, eager), (compiled, model)):
            with torch.autocast("cuda", dtype=kind, enabled=kind != torch.float32):
                loss = functional.cross_entropy(each(x).float(), y)
            module.zero_grad()
            loss.backward()
            found.append([loss.detach(), *(p.grad.clone() for p in module.parameters())])
        for a, b in zip(*found, strict=True):
            close(a, b, tolerance)


def randomness():
    drop = torch.compile(lambda x: functional.dropout(x, 0.5) * 2)
    x = torch.ones(1000, device="cuda", requires_grad=True)
    y = drop(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()), "forward and backward drew different masks"
    assert 0.4 < (y == 0).float().mean().item() < 0.6
    assert not torch.equal(drop(x), y)


def shapes():
    grow = torch.compile(lambda x: x.sin() * x.shape[0], dynamic=True)
    for n in (5, 9, 17):
        x = torch.randn(n, device="cuda")
        close(grow(x), x.sin() * n)
    broken = torch.compile(lambda x: x.sin().sum() if x.sum() > 0 else x.cos())
    x = torch.rand(10, device="cuda")
    close(broken(x), x.sin().sum())
    close(broken(-x), x.cos())


def modes():
    a = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    for mode in ("reduce-overhead", "max-autotune"):
        close(torch.compile(lambda a, b: (a @ b).relu(), mode=mode)(a, b), (a @ b).relu(), 2e-2)


def kernels():
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    close(torch.compile(with_kernels, fullgraph=True)(x, y), ((x + y) * 2).sin() + 1)


if __name__ == "__main__":
    for part in (training, randomness, shapes, modes, kernels):
        if part.__name__ in sys.argv[1:] or not sys.argv[1:]:
            part()
            print(part.__name__)
    print("done")
