"""Recorded autotuning of real programs: on the emulated device, and with a stopwatch made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.probes.conftest import Run, ok

KERNEL = """
import torch, triton
import triton.language as tl

def configs(*warps):
    return [triton.Config({"BLOCK": 32 * w}, num_warps=w) for w in warps]

@triton.jit
def double(out, x, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 256, "a block is too large")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

def tuned(*warps, **given):
    return triton.autotune(configs=configs(*warps), key=["n"], **given)(double)

def launch(kernel, n=100, dtype=torch.float32):
    x = torch.ones(n, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, x, n)
    return out
"""
# Times as on a GPU: what the emulated device puts in the place of benchmarks is taken away, and
# the probe sees no emulated device.
MEASURED = """
import inspect, itertools, os, sys
from triton.runtime import autotuner

def stopwatch(*times):
    given = itertools.cycle(times)
    def count(call, quantiles):
        call()
        t = next(given)
        return [t, t * 0.9, t * 1.1]
    return count

import ptxview_probes.autotune.triton_tuner as ours
from ptxview_probes.emulator import driver as tuning
ours.emulated = lambda: False
tuning.no_times = lambda quantiles=None, return_mode="mean": NOW[0]
NOW = [None]
bench = inspect.unwrap(autotuner.Autotuner._bench)   # the emulated device's
inner = [c.cell_contents for c in bench.__closure__ if callable(c.cell_contents)][0]
def real(self, *args, **given):
    NOW[0] = inner(self, *args, **given)
    return NOW[0]
[c for c in bench.__closure__ if c.cell_contents is inner][0].cell_contents = real
"""


def warps(event: dict[str, Any]) -> list[int]:
    return [c["config"]["num_warps"] for c in event["configurations"]]


def hashes(event: dict[str, Any]) -> list[str | None]:
    return [c["hash"] for c in event["configurations"]]


def test_every_configuration_is_compiled_and_none_is_timed_or_chosen(forked: Run) -> None:
    done = ok(forked(KERNEL + "assert launch(tuned(1, 2, 4))[0] == 2\n"))
    (event,) = done.of("autotune")
    assert (event["by"], event["name"], event["winner"]) == ("triton", "double", None)
    assert event["key"] == {"n": 100, "out": "torch.float32", "x": "torch.float32"}
    assert warps(event) == [1, 2, 4]
    by_warps = {e["metadata"]["num_warps"]: e["hash"] for e in done.of("triton")}
    assert hashes(event) == [by_warps[1], by_warps[2], by_warps[4]]
    assert [c["times_ms"] for c in event["configurations"]] == [None] * 3
    assert [c["reason"] for c in event["configurations"]] == [None] * 3
    assert (event["stopwatch"], event["seconds"]) == (None, None)
    problems = [p["text"] for p in done.of("problem") if p["where"] != "target"]
    assert not problems


def test_each_key_is_a_tuning_and_shares_what_was_compiled_for_another(forked: Run) -> None:
    text = """
kernel = tuned(1, 2)
for n in (100, 100, 200, 100): launch(kernel, n)
launch(kernel, 100, torch.float16)
"""
    first, second, third = ok(forked(KERNEL + text)).of("autotune")
    assert [e["key"]["n"] for e in (first, second, third)] == [100, 200, 100]
    # The second compiles nothing: which binaries it tried is known by what it launched.
    assert hashes(second) == hashes(first) and None not in hashes(first)
    assert third["key"]["x"] == "torch.float16"
    assert not set(hashes(third)) & set(hashes(first))


def test_out_of_resources_is_compiled_and_failed(forked: Run) -> None:
    text = """
import sys; sys.path.insert(0, ROOT)
from kernels import matmul
matmul.matmul_kernel.configs = matmul.CONFIGS + [triton.Config(
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8}, num_warps=8, num_stages=5)]
a = torch.ones(64, 64, device="cuda", dtype=torch.float16)
for n in (64, 64): matmul.matmul(a[:n], a)
matmul.matmul(a[:48], a)
"""
    root = f"ROOT = {str(Path(__file__).parents[3])!r}\n"
    first, second = ok(forked(KERNEL + root + text)).of("autotune")
    for event in (first, second):
        *good, failed = event["configurations"]
        assert all(c["reason"] is None for c in good)
        assert "OutOfResources: out of resource: shared memory" in failed["reason"]
        assert failed["hash"] and failed["hash"] not in hashes(event)[:3]


def test_reasons_name_the_pruner(forked: Run) -> None:
    text = """
def early(configs, named, **given):
    assert "n" in named
    return [c for c in configs if c.num_warps != 1]

def model(num_warps, **given):
    return num_warps

by = {"early_config_prune": early, "perf_model": model, "top_k": 2}
kernel = tuned(1, 2, 4, 8, prune_configs_by=by)
launch(kernel)
assert kernel.early_config_prune is early
launch(tuned(1, 2, 4, prune_configs_by={"early_config_prune": early}))
launch(tuned(1, 2, 4, prune_configs_by={"perf_model": model, "top_k": 2}))
"""
    done = ok(forked(KERNEL + text))
    reasons = [[c["reason"] for c in e["configurations"]] for e in done.of("autotune")]
    ranked = "pruned: perf_model ranks it below the best 2 (top_k)"
    either = ranked.replace("perf", "early_config_prune, or perf")
    assert reasons == [
        [either, None, None, either],
        ["pruned: early_config_prune", None, None],
        [None, None, ranked],
    ]
    assert not [e for e in done.of("autotune") if hashes(e)[0] and e["configurations"][0]["reason"]]


LIBRARY = """
class Store:
    def __init__(self):
        self.kept = {}
    def __getitem__(self, key):
        return self.kept[key]
    def __setitem__(self, key, config):
        self.kept[key] = config
    def __contains__(self, key):
        return key in self.kept
class Own(triton.runtime.Autotuner):
    def __init__(self, *args, **given):
        super().__init__(*args, **given)
        self.cache = Store()
    def run(self, *args, **given):
        self.nargs = dict(zip(self.arg_names, args))
        if self.nargs["n"] not in self.cache:
            timings = {c: self._bench(*args, config=c, **given) for c in self.prune_configs(given)}
            self.cache[self.nargs["n"]] = min(timings, key=timings.get)
        self.best_config = self.cache[self.nargs["n"]]
        return self.fn.run(*args, **given, **self.best_config.all_kwargs())
own = Own(double, double.arg_names, configs(1, 2), ["n"], None, None)
"""


def test_a_librarys_own_tuner_is_recorded(forked: Run) -> None:
    text = KERNEL + LIBRARY + "for n in (100, 100, 200): assert launch(own, n)[0] == 2\n"
    done = ok(forked(text))
    first, second = done.of("autotune")
    for event in (first, second):
        assert (event["name"], event["winner"], warps(event)) == ("double", None, [1, 2])
        assert set(hashes(event)) <= {e["hash"] for e in done.of("triton")}
        assert len(set(hashes(event))) == 2
    assert all("KeyError" not in e["text"] for e in done.of("problem"))
    timed = text.replace('["n"], None, None)', '["n"], None, None, do_bench=stopwatch(3, 1))')
    again = ok(forked(timed.replace("import triton.language", MEASURED + "import triton.language")))
    assert [e["winner"] for e in again.of("autotune")] == [1, 1]


def test_times_and_winner_are_the_tuners_own(forked: Run) -> None:
    text = """
kernel = tuned(1, 2, 4, do_bench=stopwatch(0.3, 0.1, 0.2))
launch(kernel)
assert kernel.best_config.num_warps == 2, kernel.best_config
print([t[0] for t in kernel.configs_timings.values()])
"""
    done = ok(forked(KERNEL + MEASURED + text))
    (event,) = done.of("autotune")
    assert event["winner"] == 1
    assert [c["times_ms"][0] for c in event["configurations"]] == [0.3, 0.1, 0.2]
    assert event["configurations"][0]["times_ms"] == [0.3, 0.3 * 0.9, 0.3 * 1.1]
    assert event["stopwatch"] == "stopwatch.<locals>.count"
    assert isinstance(event["seconds"], float)


def test_an_exception_of_a_stopwatch_reaches_the_program_and_the_recording(forked: Run) -> None:
    text = """
def broken(call, quantiles): raise KeyError("no stopwatch")
try: launch(tuned(1, 2, do_bench=broken))
except KeyError as error: print("raised", error)
assert launch(tuned(1, 2))[0] == 2
"""
    done = ok(forked(KERNEL + text))
    assert "raised 'no stopwatch'" in done.out
    first, second = done.of("autotune")
    assert first["winner"] is None
    assert first["configurations"][0]["reason"] == "failed: KeyError: 'no stopwatch'"
    assert [c["hash"] is not None for c in first["configurations"]] == [False, False]
    assert None not in hashes(second)


def test_tritons_own_table_of_times_is_read_from_its_cache(forked: Run) -> None:
    text = """
import inspect, json
if "cache_results" not in inspect.signature(triton.autotune).parameters:
    print("this Triton keeps no times"); raise SystemExit
def cached(self, key, configs, bench):
    self.configs_timings = {configs[0]: [0.4, 0.3, 0.5], configs[1]: [float("inf")] * 3}
    self.cache[key] = configs[0]
    return True
autotuner.Autotuner.check_disk_cache = cached
kernel = tuned(1, 2, cache_results=True)
launch(kernel)
"""
    done = ok(forked(KERNEL + MEASURED + text))
    if "keeps no times" in done.out:
        return
    (event,) = done.of("autotune")
    assert (event["from_cache"], event["winner"], event["seconds"]) == (True, 0, None)
    best, failed = event["configurations"]
    assert best["times_ms"] == [0.4, 0.3, 0.5]
    # Only the winner is compiled, when it is launched.
    assert [e["hash"] for e in done.of("triton")] == [best["hash"]]
    assert (failed["hash"], failed["times_ms"]) == (None, None)
    assert failed["reason"].startswith("failed")


INDUCTOR = """
import torch
from torch._inductor import config
config.compile_threads = 1
config.max_autotune_pointwise = True
config.benchmark_fusion = False
@torch.compile
def f(x): return torch.softmax(x * 2, -1).sum(0)
f(torch.randn(512, 256, device="cuda"))
"""


# A tuner that has compiled its configurations is given times: what it does with them is its own.
TIMED = """
import ptxview_probes.autotune.inductor as ours, ptxview_probes.autotune.triton_tuner as trials
import ptxview_probes.calls.call_counts as calls
ours.emulated = trials.emulated = lambda: False
from torch._inductor.runtime import triton_heuristics as heuristics
from torch._inductor.runtime.benchmarking import benchmarker
made = []
init = heuristics.CachingAutotuner.__init__
def keep(self, *args, **given):
    init(self, *args, **given); made.append(self)
heuristics.CachingAutotuner.__init__ = keep
times = {}
def benchmark(self, fn, *args, **given):
    cells = dict(zip(fn.__code__.co_freevars, (c.cell_contents for c in fn.__closure__)))
    return times(cells["launcher"])
type(benchmarker).benchmark = benchmark
heuristics.CachingAutotuner.copy_args_to_cpu_if_needed = lambda self, *a, **k: {}
heuristics.CachingAutotuner.reset_to_zero_args = lambda self, *a, **k: None
"""


def apart(folder: Path) -> dict[str, str]:
    """Separate caches, for a program that keeps a winner in them."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}


@pytest.mark.nightly
def test_inductors_times_reasons_and_winner_are_its_own(forked: Run, tmp_path: Path) -> None:
    text = """
class Interface:
    get_raw_stream = staticmethod(lambda device: 0)
    current_device = staticmethod(lambda: 0)
heuristics.CachingAutotuner.get_device_interface = lambda self: Interface
tuner = next(t for t in made if len(t.launchers) > 2)
tuner.launchers[1].n_spills = 400
order = [l.config for l in tuner.launchers]
def times(launcher):
    at = order.index(launcher.config)
    return float("inf") if at == 2 else 0.5 - 0.01 * at
tuner.autotune_to_one_config()
print("won", order.index(tuner.launchers[0].config), len(order))
"""
    body = INDUCTOR.replace("import torch\n", "import torch\n" + TIMED, 1)
    body = body.replace("config.compile", "config.force_disable_caches = True\nconfig.compile", 1)
    done = ok(forked(body + text, env=apart(tmp_path), inductor=True))
    won, count = (int(n) for n in done.out.split()[1:])
    event = done.of("autotune")[-1]
    assert event["winner"] == won and len(event["configurations"]) == count
    measured = [c["times_ms"] for c in event["configurations"]]
    assert measured[1] is None and measured[2] is None
    assert [m for n, m in enumerate(measured) if n not in (1, 2)] == [
        [0.5 - 0.01 * n] for n in range(count) if n not in (1, 2)
    ]
    spilled, refused = event["configurations"][1:3]
    assert spilled["reason"].startswith("pruned: 400 registers spill")
    assert refused["reason"] == "failed: the device refused the launch"
    told = [e for e in done.of("autotune") if e["tuning"] == event["tuning"]]
    assert [e["winner"] for e in told] == [None, won]
