"""torch.compile on the emulated device: the code that Inductor makes, and the graph's values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.nightly import first_by_day, nightly
from tests.probes.conftest import Run, ok


@pytest.mark.nightly
@pytest.mark.parametrize("values", ["budget", "ptx"])
def test_values_of_compiled_programs(forked: Run, values: str) -> None:
    done = ok(forked("compiled.py", values=values, inductor=True))
    assert done.out.split()[-1] == "done"
    names = {str(e["name"]) for e in done.of("triton")}
    assert any("backward" in name for name in names)
    assert {"add_kernel", "double_kernel"} <= names
    assert len(done.said("the first, not a winner")) == 1


@pytest.mark.nightly
def test_a_pool_of_processes_compiles(run: Run, tmp_path: Path) -> None:
    env = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cold")}
    done = ok(run("compiled.py", "shapes", env=env))
    assert done.out.split() == ["shapes", "done"]
    assert len({e["pid"] for e in done.of("process")}) > 1, "there was no pool"
    assert any("sin" in str(e["name"]) for e in done.of("triton"))


IN_A_THREAD = """
import asyncio, threading, torch
from concurrent.futures import ThreadPoolExecutor
torch._dynamo.reset()

def work(factor):
    x = torch.arange(96.0, device="cuda", requires_grad=True)
    y = torch.compile(lambda x: (x.sin() * factor).sum())(x)
    if "{way}" == "autograd":  # whose graph was traced in another thread
        return x, y
    y.backward()
    torch.testing.assert_close(x.grad, x.cos() * factor)

if "{way}" == "thread":
    thread = threading.Thread(target=work, args=(3,))
    thread.start(), thread.join()
elif "{way}" == "pool":
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (5, 7)))
elif "{way}" == "asyncio":
    asyncio.run(asyncio.to_thread(work, 11))
else:
    x, y = work(13)
    y.backward()
    torch.testing.assert_close(x.grad, x.cos() * 13)
"""


@pytest.mark.parametrize("way", first_by_day(["autograd", "thread", "pool", "asyncio"]))
def test_graphs_compile_in_threads_that_did_not_import_inductor(forked: Run, way: str) -> None:
    done = ok(forked(IN_A_THREAD.replace("{way}", way), inductor=True))
    names = [str(e["name"]) for e in done.of("triton")]
    assert any("_sin_" in name for name in names) and any("_cos_" in name for name in names)
    assert not [e for e in done.of("triton") if e.get("error")]
    assert not done.said("could not generate code") and not done.of("problem")


def test_values_ptx_runs_the_kernels_of_a_graph(forked: Run) -> None:
    """A fused kernel rounds once where operators round each time: which of them ran shows."""
    text = """
import torch
torch.manual_seed(0)
x, y, z = (torch.randn(1000, device="cuda", dtype=torch.bfloat16) for _ in range(3))
made = torch.compile(lambda x, y, z: (x * y + z) * x)(x, y, z).cpu()
a, b, c = x.cpu(), y.cpu(), z.cpu()
once = ((a.float() * b.float() + c.float()) * a.float()).bfloat16()
each = (a * b + c) * a
print(torch.equal(made, once), torch.equal(made, each), torch.equal(once, each))
"""
    assert ok(forked(text, values="ptx", inductor=True)).out == "True False False\n"
    assert ok(forked(text, inductor=True)).out == "False True False\n"


@pytest.mark.nightly
def test_a_graphs_kernel_over_the_budget_leaves_an_absent_value(forked: Run) -> None:
    text = """
import torch
x = torch.randn(500_000, device="cuda")
made = torch.compile(lambda x: x.sin() * 3)(x)
print(made.shape)
try:
    made.sum().item()
except RuntimeError as error:
    print(error)
"""
    shape, absent = ok(forked(text, values="ptx", seconds=0.01, inductor=True)).out.splitlines()
    assert shape == "torch.Size([500000])"
    assert "triton_poi_fused_mul_sin_0 was not run to its end" in absent


@pytest.mark.nightly
def test_max_autotune_compiles_every_candidate(forked: Run, tmp_path: Path) -> None:
    text = """
import torch
a, b = (torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(2))
f = torch.compile(lambda a, b: (a @ b).relu(), mode="max-autotune")
torch.testing.assert_close(f(a, b), (a @ b).relu())
"""
    done = ok(forked(text, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cold")}, inductor=True))
    candidates = {e["hash"] for e in done.of("triton") if str(e["name"]).startswith("triton_mm")}
    assert len(candidates) > 10
    assert len(done.said("the first, not a winner")) == 1
    # No time of a candidate may wait in a cache for a device that measures.
    assert not list((tmp_path / "cold").glob("cache/*"))


SMALL = """
import torch
f = torch.compile(lambda x: x.sin() * 3)
x = torch.randn(100, device="cuda")
torch.testing.assert_close(f(x), x.sin() * 3)
{more}
"""


def test_caches_stay_on_and_apart_from_a_real_device(forked: Run) -> None:
    more = """
from torch._dynamo.utils import counters
from torch._inductor.codecache import CacheBase
import json, torch._inductor.config as config, torch._functorch.config as functorch
found = dict(counters["inductor"])
print(json.dumps([found.get("fxgraph_cache_hit", 0), CacheBase.get_system()["device"]["name"],
                  config.fx_graph_cache, functorch.enable_autograd_cache]))
"""
    first = json.loads(ok(forked(SMALL.format(more=more), inductor=True)).out)
    second = json.loads(ok(forked(SMALL.format(more=more), inductor=True)).out)
    assert second[0] == 1 and "no GPU" in second[1]
    assert first[2:] == second[2:] == [True, True], "as torch has them"


TUNED = """
import torch, torch._inductor.config as config
from pathlib import Path
x = torch.randn(1000, device="cuda")
for _ in range(2):
    torch.compile(lambda x: x * 2 + 1)(x)
    torch._dynamo.reset()
"""


@pytest.mark.nightly
def test_no_run_leaves_a_winner_that_another_would_believe(forked: Run, tmp_path: Path) -> None:
    """Two configurations, none of them measured: both are compiled in each run and each round."""
    cache = tmp_path / "cold"
    for _ in range(2):
        done = ok(
            forked(TUNED, values="ptx", inductor=True, env={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
        )
        tunings = done.of("autotune")
        assert tunings and not any(e["from_cache"] or e["winner"] is not None for e in tunings)
        assert all(len(e["configurations"]) == 2 for e in tunings)
        # With fast launchers off, or without a static one, torch makes no faster launcher.
        assert not [e for e in done.of("problem") if e["where"] != "target"]
    assert any(cache.rglob("*.py")), "generated code stays in the cache"
    assert not list(cache.rglob("*.best_config"))


def test_nothing_measured_is_read_from_or_kept_in_inductors_caches(
    forked: Run, tmp_path: Path
) -> None:
    text = """
from torch._inductor import codecache
from torch._inductor.codegen import multi_kernel, triton
from torch._inductor.runtime.autotune_cache import AutotuneCache
import torch, sys
folder = sys.argv[1]
assert AutotuneCache.create({"autotune_local_cache": True}, folder + "/k.py", "hash") is None
cache = codecache.LocalCache()
cache.set_value("pad", "key", value=float("nan"))
assert cache.lookup("pad", "key") is None
triton.write_atomic(folder + "/k.kernel_perf", "nan")
triton.write_atomic(folder + "/k.txt", "kept")
class Call(multi_kernel.MultiKernelCall):
    def __init__(self): self.picked_kernel = 0
    def cache_file_path(self): return __import__("pathlib").Path(folder, "k.picked_kernel")
Call().store_cache()
"""
    folder = tmp_path / "cache"
    folder.mkdir()
    env = {"TORCHINDUCTOR_CACHE_DIR": str(folder)}
    ok(forked(text, str(folder), inductor=True, env=env))
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["k.txt"]


GATHER = """
import torch
def pick(table, index):
    scaled = table * 2
    return scaled[index] + 1
table = torch.arange(10.0, device="cuda")
f = torch.compile(pick)
{more}
f(table, torch.tensor([1, 2, {index}, 4], device="cuda"))
"""


@pytest.mark.parametrize(("index", "value"), [(13, 13), nightly(-11, -1)])
def test_an_index_out_of_bounds_is_named_with_the_models_line(
    forked: Run, index: int, value: int
) -> None:
    more = "f(table, torch.tensor([1, 2, 3, 4], device='cuda'))"
    done = forked(GATHER.format(index=index, more=more), values="ptx", inductor=True)
    assert done.status == 1
    (line,) = done.said("the assertion")
    assert f"'index out of bounds: 0 <= tmp4 < 10' failed: tmp4 is {value} (PTX line" in line
    assert "program.py:5: return scaled[index] + 1)" in line
    # A graph from Inductor's cache is reported too, without a path of the cache.
    assert "/inductor/" not in line
    (failed,) = {text for e in done.of("calls") for text in e.get("failed", {}).values()}
    assert "return scaled[index] + 1" in failed


def test_a_graph_that_inductor_cannot_compile_runs_by_its_operators(forked: Run) -> None:
    before = """
import torch._inductor.graph as graph
def fail(*args, **given): raise NotImplementedError("no code for this")
graph.GraphLowering.codegen = fail
import torch._inductor.config as config
config.fx_graph_cache = False
"""
    done = ok(forked(before + SMALL.format(more="print('on')"), inductor=True))
    assert done.out.strip() == "on"
    (line,) = done.said("ptxview:")
    assert "could not generate code" in line and "no code for this" in line


@pytest.mark.nightly
def test_a_cpu_graph_compiles_without_our_lines_or_warnings(run: Run) -> None:
    text = "import torch\nprint(torch.compile(lambda x: x.sin() + 1)(torch.zeros(4)).tolist())\n"
    done = ok(run(text, env={"PYTHONWARNINGS": "default::UserWarning"}))
    assert done.out == "[1.0, 1.0, 1.0, 1.0]\n" and "FP_FUSION" not in done.err
    assert not done.said("ptxview")


def test_graphs_for_cuda_graphs_run_as_they_are_and_torch_says_which_it_would_skip(
    forked: Run,
) -> None:
    text = """
import torch
torch._inductor.config.graph_partition = False
compiled = torch.compile(lambda x, y: (x * 2 + y.cuda()).sin(), mode="reduce-overhead")
captured = torch.compile(lambda x: x * 2 + 1, mode="reduce-overhead")
x, y = torch.ones(8, device="cuda"), torch.ones(8)
for _ in range(3):
    print(torch.equal(captured(x), x * 2 + 1))
print(compiled(x, y).shape)
"""
    done = ok(forked(text, inductor=True))
    assert done.out.split() == ["True"] * 3 + ["torch.Size([8])"]
    assert len(done.said("run without CUDA graphs")) == 1
    figures = [event["figures"] for event in done.of("compile_end")]
    reasons = [
        str(one["cudagraph_skip_reason"]) for one in figures if "cudagraph_skip_reason" in one
    ]
    assert len(reasons) == 1 and "cpu device" in reasons[0]


@pytest.mark.nightly
def test_aotinductor_is_refused_before_a_compiler_starts_and_its_code_is_kept(
    run: Run, tmp_path: Path
) -> None:
    text = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x).sum(-1)
exported = torch.export.export(Model().cuda(), (torch.randn(4, 16, device="cuda"),))
try:
    torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
except Exception as error:
    print(error)
"""
    done = ok(run(text, env={"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}))
    assert "linked for ptxview's emulated device" in done.out and "ld:" not in done.out
    assert not [path for path in tmp_path.rglob("*.*") if path.suffix in (".o", ".so")]
    (graph,) = done.of("graph")
    assert str(graph["path"]).endswith("wrapper.cpp")
    assert done.of("triton")
