"""``ptxview profile`` around real programs, without a GPU: what it says is what torch says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from inspector.sources.opening import open_path
from tests.helpers.ptxview import Done, call, ptxview, saved

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("triton") is None,
    reason="torch and triton are not installed",
)

# Its own profiler, as the lecture has it; the table of it is what ours must be.
OWN = """
import json, torch
from torch.profiler import ProfilerActivity, profile, schedule
x = torch.randn(64, 64, requires_grad=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
plan = schedule(wait=1, warmup=1, active=2, repeat=1)
with profile(activities=[ProfilerActivity.CPU], schedule=plan) as prof:
    for _ in range(4):
        (x * x).sum().backward()
        torch.square(x)
        model(x).softmax(-1).sum().backward()
        prof.step()
prof.export_chrome_trace("his.json")
said = [[e.key, e.count, e.self_cpu_time_total, e.cpu_time_total] for e in prof.key_averages()]
print(json.dumps(said))
"""

TRAIN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n in range(7):
    model(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
raise SystemExit(3)
"""

# What the lecture's plot does: torch.compile is called inside what is timed. Triton compiles, too.
BENCH = """
import torch, triton
import triton.language as tl

@triton.jit
def square_kernel(out, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * tl.load(x + at))

def timed(n):
    x = torch.ones(1 << n, device="cuda")
    out = torch.empty_like(x)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    square_kernel[(1,)](out, x, BLOCK=1 << n)
    torch.compile(lambda a: a * a, backend="eager")
    end.record()
    torch.cuda.synchronize()
    begin.elapsed_time(end)

"""
SCRIPT = """
from bench import timed
for n in range(4, 9):
    timed(n)
"""
METHOD = """
import collections
import torch
class Model(torch.nn.Module):
    def forward(self, x, again=0):
        torch.relu(x)
        return self(x, again - 1) if again else x
    @staticmethod
    def tanh(x): return torch.tanh(x)
    @classmethod
    def sine(cls, x): return torch.sin(x)
class Later(Model): pass
"""
CALLER = """
import threading
from models import Later, Model
import torch
x = torch.ones(3)
for n in range(6):
    Later()(x, again=n % 2)
    Model().tanh(x)
    Model.sine(x)
other = threading.Thread(target=Model.sine, args=(x,))
other.start(); other.join()
print(Model.forward.__qualname__, type(vars(Model)["sine"]).__name__)
"""


@pytest.fixture(scope="module", autouse=True)
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """New folders of a user; the emulated device's builds are shared by all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("PYTHONWARNINGS", "ignore")
        yield


def program(folder: Path, text: str) -> Path:
    return saved(folder / "program.py", text)


def profiled(folder: Path, text: str, *words: str | Path) -> Done:
    return ptxview("profile", *words, program(folder, text), cwd=folder, seconds=300)


def rows(document: Any) -> dict[str, Any]:
    return {o["name"]: o for o in document["operators"]}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("own")
    return folder, profiled(folder, OWN, "-o", "rec")


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    folder = tmp_path_factory.mktemp("train")
    words = ("-o", "x.ptxview", "--trace", "t.json.gz", "--stacks", "s.txt", "--json")
    return folder, profiled(folder, TRAIN, *words)


def test_operators_are_torchs_own_key_averages(own: tuple[Path, Done]) -> None:
    folder, done = own
    assert done.status == 0, done.said
    theirs = json.loads(done.text)
    ours = rows(call("profile", "--stored", folder / "rec", "--json").json)
    assert {name for name, *_ in theirs} == set(ours)
    for name, count, self_cpu, cpu in theirs:
        row = ours[name]
        assert row["calls"] == count, name
        assert row["self_cpu_us"] == pytest.approx(self_cpu, abs=0.01), name
        assert row["cpu_us"] == pytest.approx(cpu, abs=0.01), name
        assert row["gpu_us"] is None and row["self_gpu_us"] is None


def test_the_programs_own_profiler_works_and_is_read(own: tuple[Path, Done]) -> None:
    folder, done = own
    his = json.loads((folder / "his.json").read_text())
    assert any(e.get("name") == "aten::square" for e in his["traceEvents"])
    assert "the program's own torch.profiler; this one stepped aside for it" in done.said
    (window,) = call("profile", "--stored", folder / "rec", "--json").json["windows"]
    assert window["by"] == "program" and window["gpu"] is False


@pytest.mark.nightly
def test_a_step_ends_where_the_optimizers_does(train: tuple[Path, Done]) -> None:
    _, done = train
    document = json.loads(done.out)
    window = document["window"]
    assert window["steps"] == [2, 3, 4]
    assert window["about"] == "a step ends at SGD.step; wait 1, warmup 1, active 3"
    held = rows(document)
    # Two linear layers and one step of the optimizer, three times.
    assert held["aten::addmm"]["calls"] == 6
    assert held["Optimizer.step#SGD.step"]["calls"] == 3
    assert document["kernels"] == [] and document["overhead"]["busy_us"] is None
    assert document["warnings"] == [] and document["problems"] == []


def test_the_status_and_the_output_are_the_programs(train: tuple[Path, Done]) -> None:
    folder, done = train
    assert done.status == 3
    # With --json standard output is ours alone, and the program's goes beside it.
    json.loads(done.out)
    assert "trained\n" in done.said
    assert open_path(folder / "x.ptxview").exit_status == 3


def test_stacks_name_the_users_lines(train: tuple[Path, Done]) -> None:
    folder, _ = train
    lines = (folder / "s.txt").read_text().splitlines()
    assert lines and all(line.rpartition(" ")[2].isdecimal() for line in lines)
    assert any("program.py" in line and ";aten::linear;aten::addmm " in line for line in lines)
    assert not any("ptxview" in line for line in lines)


def test_what_was_stored_is_shown_again(train: tuple[Path, Done], tmp_path: Path) -> None:
    folder, done = train
    again = call("profile", "--stored", folder / "x.ptxview", "--json").json
    first = json.loads(done.out)
    assert {**again, "recording": ""} == {**first, "recording": ""}
    shown = call(
        "profile", "--stored", "--top", "3", "--trace", tmp_path / "t.json", folder / "x.ptxview"
    )
    assert shown.status == 0
    assert "a step ends at SGD.step" in shown.text and "GPU times need a GPU" in shown.text
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    listed = call("list", folder / "x.ptxview", "--json").json
    assert listed["recording"]["problems"] == []


@pytest.mark.nightly
def test_a_benchmark_that_times_its_compiling_gets_warnings(tmp_path: Path) -> None:
    path = saved(tmp_path / "bench.py", BENCH)
    done = profiled(tmp_path, SCRIPT, "--step", "bench:timed", "-o", "rec", "--json")
    assert done.status == 0, done.said
    document = json.loads(done.out)
    assert document["window"]["steps"] == [2, 3, 4]
    assert "a step is bench:timed" in document["window"]["about"]
    told = document["warnings"]
    assert any("is compiling" in w and "Triton's square_kernel" in w for w in told), told
    assert any(f"torch.compile was called 5 times at {path}:16" in w for w in told), told
    assert any(
        w.startswith(f"between the events of {path}:14 and {path}:17 Triton's") for w in told
    )
    # The emulated device computes on the CPU: that is nobody's kernel time.
    assert document["kernels"] == [] and document["overhead"]["kernel_us"] is None
    listed = call("list", tmp_path / "rec", "--json").json
    assert [k["name"] for k in listed["kernels"]] == ["square_kernel"]


@pytest.mark.parametrize(
    ("method", "operator", "calls"),
    [
        ("forward", "aten::relu", 4),
        pytest.param("tanh", "aten::tanh", 3, marks=pytest.mark.nightly),
        pytest.param("sine", "aten::sin", 3, marks=pytest.mark.nightly),
    ],
)
def test_each_call_of_a_method_in_the_main_thread_is_a_step(
    method: str, operator: str, calls: int, tmp_path: Path
) -> None:
    (tmp_path / "models.py").write_text(METHOD)
    done = profiled(tmp_path, CALLER, "--step", f"models:Model.{method}", "-o", "rec", "--json")
    assert done.status == 0, done.said
    assert "Model.forward classmethod\n" in done.said
    document = json.loads(done.out)
    assert document["window"]["steps"] == [2, 3, 4]
    assert document["window"]["seen"] == 5  # it is stored when its last step ends
    assert f"a step is models:Model.{method}" in document["window"]["about"]
    assert rows(document)[operator]["calls"] == calls
    assert document["problems"] == []


@pytest.mark.nightly
def test_a_missing_function_is_reported(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(METHOD)
    done = profiled(tmp_path, CALLER, "--step", "models:train_step", "-o", "rec")
    assert done.status == 0, done.said
    assert "--step models:train_step: the module has no such function or method" in done.said
    assert "there is no profile: the program never called models:train_step" in done.said
