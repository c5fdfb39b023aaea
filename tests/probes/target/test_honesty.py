"""A value is real or absent: nothing that a program checks is made true for it."""

from __future__ import annotations

from tests.probes.conftest import Run, ok


def test_a_wrong_kernel_fails_its_own_assertion(forked: Run) -> None:
    done = forked("""
import torch, triton, triton.language as tl
@triton.jit
def off_by_one_kernel(out, x, n, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(out + i, tl.load(x + i, mask=i < n - 1, other=0.0) * 2, mask=i < n)
x = torch.randn(8, device="cuda") + 5
out = torch.empty_like(x)
off_by_one_kernel[(1,)](out, x, 8, block=8)
assert torch.allclose(out, x * 2), "the kernel is wrong"
""")
    assert done.status == 1 and "AssertionError: the kernel is wrong" in done.err


def test_times_are_absent_and_said_once(forked: Run) -> None:
    done = ok(
        forked("""
import torch, math
for _ in range(3):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    a.record(); b.record()
    assert math.isnan(a.elapsed_time(b))
import torch._inductor.runtime.benchmarking as inductor
assert math.isnan(inductor.benchmarker.benchmark_gpu(lambda: 1 / 0))
""")
    )
    assert len(done.said("CUDA times are NaN")) == 1
    assert [e["text"] for e in done.of("problem")].count(
        done.err.split("ptxview: ")[1].strip()
    ) == 1


def test_cuda_graphs_and_gpu_only_operators_say_so(forked: Run) -> None:
    done = ok(
        forked("""
import torch
for refused in (lambda: torch.cuda.CUDAGraph(), lambda: torch._int_mm(
        torch.ones(32, 32, dtype=torch.int8, device="cuda"),
        torch.ones(32, 32, dtype=torch.int8, device="cuda")),
        lambda: torch.ops.aten._cudnn_init_dropout_state(
            0.5, True, 3, dtype=torch.uint8, device="cuda")):
    try:
        refused()
    except NotImplementedError as error:
        print(str(error).splitlines()[0])
""")
    )
    lines = done.out.splitlines()
    assert "CUDA graphs cannot be captured without a GPU" in lines[0]
    assert "_cudnn_init_dropout_state runs on a GPU only" in lines[-1]


UNMADE = """
import numpy, torch, triton, triton.language as tl
import numpy.testing
@triton.jit
def first_kernel(out, x, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(out + i, tl.load(x + i) + 1)
@triton.jit
def last_kernel(out, x, block: tl.constexpr):
    i = tl.arange(0, block)
    tl.store(out + i, tl.load(x + i) * 2)
numpy.testing.assert_allclose([1.0], [1.0])  # made: nothing was read yet
try:
    torch.testing.assert_close(torch.ones(2), torch.zeros(2))
except AssertionError:
    print("a check of the host's was made")
x = torch.randn(16, device="cuda")
out = torch.empty_like(x)
first_kernel[(1,)](out, x, block=16)
for _ in range(3):
    torch.testing.assert_close(out, x - 1)
assert torch.allclose(out, x - 1), "allclose"
assert torch.equal(out, x - 1) and out.equal(x - 1) and out.allclose(x - 1)
assert (out == x - 1).all(), "all"
assert not (out == x + 1).any(), "any"
host = out.cpu()
assert host.tolist() == [0.0] * 16 and out[3].item() == 0
numpy.testing.assert_allclose(host.numpy(), numpy.ones(16))
assert numpy.allclose(host.numpy(), 3.0)
torch.testing.assert_close(host, torch.ones(16))
loss = out.mean()
if loss.item() < 1:
    last_kernel[(1,)](out, x, block=16)
picked = x[x > 0]
print(loss.device, picked.shape, (picked + 1).device, "zeros" if "0., 0." in repr(out) else "")
print("done")
"""


CHECKED = ("assert", "torch.testing", "numpy.", "host =", "if loss", "picked", "print(loss")


def test_without_values_no_check_is_made_and_all_kernels_are_had(run: Run) -> None:
    done = ok(run(UNMADE, values="none"))
    lines = done.out.splitlines()
    assert lines[0] == "a check of the host's was made" and lines[-1] == "done"
    assert "cuda:0 torch.Size([0]) cuda:0 zeros" in lines
    assert {e["name"] for e in done.of("triton")} == {"first_kernel", "last_kernel"}
    unmade = done.of("unmade")
    checks = [(e["name"], e["count"]) for e in unmade if e["what"] == "check"]
    assert checks == [
        ("torch.testing.assert_close", 3), ("torch.allclose", 1), ("torch.equal", 1),
        ("Tensor.equal", 1), ("Tensor.allclose", 1), ("assert", 1), ("assert", 1),
        ("numpy.testing.assert_allclose", 1), ("numpy.allclose", 1),
        ("torch.testing.assert_close", 1),
    ]  # fmt: skip
    program = UNMADE.split("\n")
    at = {n for n, text in enumerate(program, 1) if text.lstrip().startswith(CHECKED)}
    assert {int(e["place"].rpartition("program.py:")[2]) for e in unmade} <= at
    reads = {int(e["place"].rpartition(":")[2]) for e in unmade if e["what"] == "read"}
    assert {n for n in at if program[n - 1].startswith(("host =", "if loss", "picked"))} <= reads
    (said,) = done.said("checks of the program were not made (--values none): program.py:")
    assert said.startswith("ptxview: 12 checks") and "(3 times)" in said
    assert len(done.said("absent values were read, as zero (--values none): program.py:")) == 1
    assert any("12 checks of the program were not made" in e["text"] for e in done.of("problem"))


def test_with_values_every_check_is_made(forked: Run) -> None:
    done = forked(UNMADE.replace("x - 1", "x + 1"))
    assert done.status == 1 and "AssertionError: any" in done.err
    assert not done.of("unmade") and not done.said("not made")
