"""Triton kernels on the emulated device: compiled for the target, and with real values."""

from __future__ import annotations

import json

import pytest

from tests.probes.conftest import Run, ok


def test_emulated_launches_leave_the_values_of_a_gpu(forked: Run) -> None:
    done = ok(forked("launches.py"))
    assert done.out.split()[-1] == "done"
    names = {e["name"] for e in done.of("triton")}
    assert names >= {"square_kernel", "tuned_kernel", "rows_kernel", "matmul_kernel"}
    tuned = {e["hash"] for e in done.of("triton") if e["name"] == "tuned_kernel"}
    assert len(tuned) == 2, "every configuration is compiled"
    assert json.loads(done.out.splitlines()[-2])["registers"] > 0
    assert len(done.said("benchmarks measure nothing")) == 1


KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def square_kernel(out, x, n, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + i, mask=i < n)
    {inside}
    tl.store(out + i, value * value, mask=i < n)
x = torch.arange(20.0, device="cuda")
out = torch.full_like(x, 7)
{before}
k = square_kernel[(3,)](out, x, 20, block=8)
{after}
"""


def program(inside: str = "pass", before: str = "", after: str = "") -> str:
    return KERNEL.format(inside=inside, before=before, after=after)


@pytest.mark.parametrize("arch", ["sm_80", "sm_100", "sm_120"])
def test_a_kernel_compiles_and_runs_for_every_architecture(forked: Run, arch: str) -> None:
    after = (
        "print(k.asm['ptx'].split('.target ')[1].split()[0], torch.cuda.get_device_capability(), "
        "torch.equal(out, x * x))"
    )
    done = ok(forked(program(after=after), arch=arch))
    number = int(arch[3:])
    assert done.out.startswith(arch) and f"{divmod(number, 10)}" in done.out
    assert done.out.strip().endswith("True")


def test_shared_memory_beyond_the_device_is_refused(forked: Run) -> None:
    text = """
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"b": b}, num_stages=s) for b, s in [(64, 7), (32, 2)]], key=[])
@triton.jit
def product(a, c, b: tl.constexpr):
    i = tl.arange(0, b)
    total = tl.zeros((b, b), tl.float32)
    for k in range(0, 256, b):
        left = tl.load(a + i[:, None] * 256 + k + i[None, :])
        right = tl.load(a + (k + i[:, None]) * 256 + i[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + i[:, None] * b + i[None, :], total)
a = torch.randn(256, 256, device="cuda")
c = torch.empty(64, 64, device="cuda")
product[(1,)](a, c)
print(product.best_config.kwargs, [t[0] for t in product.configs_timings.values()])
"""
    done = ok(forked(text, arch="sm_86"))  # 99 KB a block: the first configuration wants more
    assert done.out.strip() == "{'b': 32} [inf, nan]"


def test_prints_inside_a_kernel(forked: Run) -> None:
    done = ok(forked(program('tl.device_print("value", value)\n    print("here", n)')))
    assert "pid (1, 0, 0) idx (1) value: 9.000000\n" in done.out
    assert "pid (2, 0, 0) idx () here: 20\n" in done.out


def test_over_budget_is_captured_and_its_outputs_are_absent(forked: Run) -> None:
    text = (
        program(
            after="""
def read(f):
    try:
        print("read", f())
    except RuntimeError as error:
        print(str(error).replace(chr(10), " "))
read(lambda: out.sum().item())
read(lambda: out.cpu())
read(lambda: repr(out))
read(lambda: bool((out * 2 > 1).any()))
read(lambda: torch.equal(out, x))
read(lambda: out.nonzero())
print("shape", (out + 1).view(4, 5000).relu().shape)
print("input", x.sum().item() > 1e8)
out.zero_()
print("again", out.sum().item())
"""
        )
        .replace("arange(20.0", "arange(20000.0")
        .replace("(3,)](out, x, 20", "(2500,)](out, x, 20000")
    )
    done = ok(forked(text, seconds=0.03))
    lines = done.out.splitlines()
    assert len(lines) == 9
    for line in lines[:6]:
        assert "square_kernel was not run to its end" in line and "--value-seconds" in line
    assert lines[6:] == ["shape torch.Size([4, 5000])", "input True", "again 0.0"]
    assert len(done.said("more than the 0.03 s allowed")) == 1
    assert done.of("triton")
    whole = ok(forked(text, values="all"))
    assert whole.out.startswith("read ")
