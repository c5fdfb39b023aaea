"""``ptxview verify`` of hand-written kernels for which the program names references."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import Done, environment, finished, ptxview, saved
from tests.helpers.tools import skip_without

LIGER = Path(__file__).parents[1] / "data" / "verify" / "liger_references.py"

PROGRAM = """
import os
import torch, triton, triton.language as tl
import inspector

DEVICE = os.environ.get("DEVICE", "cuda")
own_bias = torch.ones(300, device=DEVICE)

@triton.jit
def add_kernel(in_ptr0, BLOCK: tl.constexpr, in_ptr1, out_ptr, n, scale):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr0 + i, mask=i < n)
    y = tl.load(in_ptr1 + i, mask=i < n)
    tl.store(out_ptr + i, x + y * scale + 1, mask=i < n)

@triton.jit
def mean_kernel(x, y, mean, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    numbers = tl.load(x + row * cols + i, mask=i < cols, other=0.0).to(tl.float32)
    average = tl.sum(numbers) / cols
    tl.store(y + row * cols + i, numbers - average, mask=i < cols)
    tl.store(mean + row, average)

@triton.jit
def wrong_kernel(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.exp(tl.load(x + i, mask=i < n)) * 1.0001, mask=i < n)

@triton.jit
def unfinished_kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

@triton.jit
def racing_kernel(x):
    tl.store(x, tl.program_id(0))

@torch.library.triton_op("program::added", mutates_args=())
def added(x: torch.Tensor, y: torch.Tensor, scale: int) -> torch.Tensor:
    out = torch.empty_like(x)
    kernel = torch.library.wrap_triton(add_kernel)
    kernel[(triton.cdiv(x.numel(), 128),)](x, 128, y, out, x.numel(), scale)
    return out

def mean_reference(x, y, mean):
    mean.copy_(x.float().mean(-1))
    y.copy_(x - mean[:, None])

def wrong_reference(x, n):
    x[:n].exp_()

def unfinished_reference(x):
    raise NotImplementedError("to be written")

inspector.reference(
    triton.autotune([triton.Config({"BLOCK": 128})], key=[])(add_kernel),
    lambda in_ptr0, in_ptr1, scale: in_ptr0 + in_ptr1 * scale + own_bias,
)
inspector.reference(mean_kernel, mean_reference)
inspector.reference(wrong_kernel, wrong_reference)
inspector.reference(unfinished_kernel, unfinished_reference)
inspector.reference(racing_kernel, lambda x: x.fill_(1))

torch.manual_seed(1)
x, y = torch.randn(2, 300).to(DEVICE)
rows = torch.randn(4, 100).to(DEVICE, torch.bfloat16)
centered, mean = torch.empty_like(rows), torch.empty(4, device=DEVICE)
out = torch.empty_like(x)
for _ in range(2):
    add_kernel[(3,)](x, 128, y, out, 300, 2)
    mean_kernel[(4,)](rows, centered, mean, cols=100, BLOCK=128)
wrong_kernel[(1,)](y, 70, BLOCK=128)
unfinished_kernel[(1,)](x, BLOCK=256)
racing_kernel[(2,)](torch.zeros(1, dtype=torch.int32, device=DEVICE))
print("sums", round(out.sum().item(), 2), round(y.sum().item(), 2), round(x.sum().item(), 2))
print("random", torch.rand(()).item(), torch.is_grad_enabled())
if DEVICE == "cuda":
    step = torch.compile(lambda x, y: torch.sin(added(x * 3, y, 1)) + x)
    print("compiled", step(x, y).sum().item())
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("references") / "program.py", PROGRAM)


@pytest.fixture(scope="module")
def verified(script: Path) -> Done:
    env = environment(TORCHINDUCTOR_COMPILE_THREADS="1")  # each process of a pool imports torch
    return ptxview("verify", "-o", script.with_name("x.ptxview"), "--json", script, env=env)


def rows(done: Done) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The rows of a document by the graph, and by the name of the kernel."""
    import json

    document = json.loads(done.out)
    return {
        graph["graph"]: {row["kernel"].partition("@")[0]: row for row in graph["kernels"]}
        for graph in document["graphs"]
    }


def test_a_wrong_kernel_is_not_explained_and_a_right_one_is(verified: Done) -> None:
    assert verified.status == 1, verified.said
    kernels = rows(verified)["references"]
    assert kernels["add_kernel"]["verdict"] in ("equal", "closer-than-eager")
    assert kernels["add_kernel"]["launches"] == 1  # --calls N
    # Its reference writes to its arguments, and both outputs are compared.
    sound = ("equal", "closer-than-eager", "summation-order")
    assert kernels["mean_kernel"]["verdict"] in sound
    wrong = kernels["wrong_kernel"]
    assert wrong["verdict"] == "unexplained"
    assert wrong["unexplained_elements"] == 70
    first = wrong["first"]
    assert first["output"] == "x"
    assert abs(first["value"] / first["reference"] - 1.0001) < 1e-6
    assert wrong["lines"]["source"].endswith("def wrong_reference(x, n):")
    assert wrong["lines"]["ptx"] is not None


def test_a_reference_that_raises_is_said_and_no_error(verified: Done) -> None:
    kernel = rows(verified)["references"]["unfinished_kernel"]
    assert kernel["verdict"] == "not-compared"
    assert kernel["reason"] == "its reference raises NotImplementedError: to be written"


def test_races_are_looked_for_with_and_without_operators(verified: Done) -> None:
    kernels = rows(verified)["references"]
    races = {name: row["races"] for name, row in kernels.items()}
    (race,) = races.pop("racing_kernel")
    assert race.startswith("x[0]: no order between the store in line ")
    assert sorted(races) == ["add_kernel", "mean_kernel", "unfinished_kernel", "wrong_kernel"]
    assert list(races.values()) == [[]] * 4


def test_a_kernel_of_a_triton_op_is_compared_in_its_graph(verified: Done) -> None:
    (graph,) = (kernels for name, kernels in rows(verified).items() if name != "references")
    # Those of Inductor before and after it are compared as well.
    assert len(graph) == 3
    assert graph["add_kernel"]["verdict"] in ("equal", "closer-than-eager")
    assert not {row["verdict"] for row in graph.values()} & {"unexplained", "not-compared"}
    assert all(row["max_error"] < 1e-6 for row in graph.values() if row["max_error"] is not None)


def test_the_sentence_names_references_and_the_wrong_kernel(verified: Done, script: Path) -> None:
    done = ptxview("verify", script.with_name("x.ptxview"), "wrong_kernel")
    assert done.status == 1
    sentence = done.text.splitlines()[-1]
    assert sentence.startswith("references: 0 of 1 kernel explained; kernel wrong_kernel differs")


def test_the_program_does_the_same_without_ptxview(
    verified: Done, script: Path, plain_python: Callable[..., str]
) -> None:
    env = environment() | {"DEVICE": "cpu", "TRITON_INTERPRET": "1"}
    alone = finished([plain_python("torch"), str(script)], None, env, b"", 300)
    assert alone.status == 0, alone.said
    printed = alone.text.splitlines()
    assert len(printed) == 2 and printed[0].startswith("sums")
    # Under verify the program's output is on stderr.
    assert set(printed) <= set(verified.said.splitlines())


FAULTY = """
import torch, triton, triton.language as tl
import inspector

@triton.jit
def twice_kernel(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)

inspector._references.append(("no kernel", None))
x = torch.ones(64, device="cuda")
twice_kernel[(1,)](x, BLOCK=64)
print("sum", x.sum().item())
"""


def test_a_fault_in_the_probe_does_not_reach_the_program(tmp_path: Path) -> None:
    done = ptxview("verify", "-o", tmp_path / "x.ptxview", saved(tmp_path / "f.py", FAULTY))
    assert "sum 128.0" in done.said
    assert "Traceback" not in done.said
    assert done.status == 2
    assert "inspector.reference(kernel, function)" in done.said


def test_naming_a_reference_loads_nothing_and_refuses_what_is_no_kernel() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import inspector\n"
        "kernel = type('Kernel', (), {'fn': None, 'run': None})()\n"
        "inspector.reference(kernel, print)\n"
        "loaded = set(sys.modules) - before\n"
        "assert not [n for n in loaded if n.startswith('inspector.') or n == 'torch'], loaded\n"
        "try:\n    inspector.reference(print, print)\n"
        "except TypeError as error:\n    print(error)\n"
    )
    done = finished([sys.executable, "-c", code], None, dict(os.environ), b"", 60)
    assert done.status == 0, done.said
    assert "triton.jit" in done.text and "builtin_function_or_method" in done.text


@pytest.mark.nightly
def test_only_kernels_of_liger_with_a_fault_are_not_explained(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")
    skip_without("g++")
    faults = {
        "rms_norm_mean": "_rms_norm_forward_kernel",
        "swiglu_gradient": "_swiglu_backward_kernel",
        "geglu_constant": "_geglu_tanh_forward_kernel",
        "rope_sign": "_triton_rope",
        "layer_norm_mask": "_layer_norm_forward_kernel",
        "cross_entropy_log": "liger_cross_entropy_kernel",
        "softmax_gradient": "_softmax_single_block_backward_kernel",
    }
    sound = ptxview("verify", "-o", tmp_path / "a.ptxview", "--json", LIGER)
    faulty = ptxview("verify", "-o", tmp_path / "b.ptxview", "--json", LIGER, *faults)
    for done, wrong in (sound, set()), (faulty, set(faults.values())):
        kernels = rows(done)["references"]
        assert len(kernels) == 12, done.said
        verdicts = {name: row["verdict"] for name, row in kernels.items()}
        assert {name for name, v in verdicts.items() if v == "unexplained"} == wrong
        assert "not-compared" not in verdicts.values()
