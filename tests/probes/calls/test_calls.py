"""Recorded calls of real programs: what Triton, Inductor and a built extension were given."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from inspector.probes.replay.inputs import Memory
from inspector.probes.replay.session import repeated
from tests.probes.conftest import BINDINGS, Outcome, Run, ok

KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def gather(out, source, index, n, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    where = tl.load(index + at, mask=mask, other=0)
    tl.store(out + at, tl.load(source + where, mask=mask) * SCALE, mask=mask)

def launch(n, low=0, start=0, grid=None):
    source = torch.arange(64.0, device="cuda")
    index = torch.randint(low, 64, (n,), device="cuda", dtype=torch.int32)
    index[0], index[-1] = low, 63
    out = torch.empty(start + n, device="cuda")[start:]
    gather[grid or (lambda meta: (triton.cdiv(n, meta["BLOCK"]),))](
        out, source, index, n, SCALE=2.0, BLOCK=32)
    return out, source, index
"""


def counts(done: Outcome) -> dict[int, int]:
    """The last count of each call, by its number; one for a call without a count."""
    out = {e["id"]: 1 for e in done.of("call")}
    for event in done.of("calls"):
        out |= {int(k): v for k, v in event.get("counts", {}).items()}
    return out


def named(event: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {a["name"]: a for a in event["arguments"]}


def test_grid_layout_scalars_and_ranges(forked: Run) -> None:
    done = ok(forked(KERNEL + "out, *_ = launch(100, low=5)\nassert out[0] == 10.0\n"))
    (event,) = done.of("call")
    assert (event["kind"], event["name"], event["first"]) == ("triton", "gather", 0)
    assert event["hash"] == done.of("triton")[0]["hash"]
    assert event["grid"] == [4, 1, 1]  # the grid that the function gave
    assert event["block"] == [128, 1, 1]
    held = named(event)
    assert list(held) == ["out", "source", "index", "n", "SCALE", "BLOCK"]
    assert held["out"]["shape"] == [100] and held["out"]["strides"] == [1]
    assert (held["out"]["type"], held["out"]["dtype"]) == ("*fp32", "float32")
    assert (held["index"]["low"], held["index"]["high"]) == (5, 63)
    assert "low" not in held["source"]
    assert held["n"]["value"] == 100
    assert (held["SCALE"]["type"], held["SCALE"]["value"]) == ("constexpr", 2.0)
    assert not done.of("problem")


def test_a_range_is_taken_before_the_launch_and_unseen_by_modes(forked: Run) -> None:
    text = """
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Watch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))
with Watch():
    launch(100)
assert not any("aminmax" in s for s in seen), seen
"""
    (event,) = ok(forked(KERNEL + text)).of("call")
    assert (named(event)["index"]["low"], named(event)["index"]["high"]) == (0, 63)


def test_a_profile_has_none_of_our_operators(forked: Run) -> None:
    text = """
with torch.profiler.profile() as profile: launch(100)
assert not any("aminmax" in e.key for e in profile.key_averages())
"""
    (event,) = ok(forked(KERNEL + text)).of("call")
    assert "low" not in named(event)["index"]


def test_a_killed_run_has_nearly_true_counts(forked: Run) -> None:
    text = "import os, signal\nfor _ in range(70): launch(40)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = forked(KERNEL + text)
    assert done.status == -9
    assert 70 * 7 / 8 <= counts(done)[0] <= 70


def test_a_forked_child_counts_its_own(forked: Run) -> None:
    text = """
import multiprocessing
from ptxview_probes.calls import graphs as calls_torch
counted = calls_torch.counted_function("m.f", abs, {})
def call(): assert counted(-1) == 1
call(); call()
child = multiprocessing.get_context("fork").Process(target=call)
child.start(); child.join()
assert child.exitcode == 0
"""
    done = ok(forked(text))
    by_pid = {e["pid"]: e for e in done.of("call")}
    assert len(by_pid) == 2 and all(e["first"] == 0 for e in by_pid.values())
    last = {e["pid"]: list(e["counts"].values()) for e in done.of("calls")}
    assert sorted(last.values()) == [[1], [2]]


def test_warming_up_is_no_launch_and_a_launch_that_raises_is_not_counted(forked: Run) -> None:
    text = """
import pytest
source, index = torch.zeros(8, device="cuda"), torch.zeros(8, device="cuda", dtype=torch.int32)
gather.warmup(source, source, index, 8, SCALE=2.0, BLOCK=32, grid=(1,))
with pytest.raises(ValueError):
    gather[(1,)](torch.zeros(8), source, index, 8, SCALE=2.0, BLOCK=32)
"""
    done = ok(forked(KERNEL + text))
    assert counts(done) == {0: 0}
    (error,) = (text for e in done.of("calls") for text in e.get("failed", {}).values())
    assert error.startswith("ValueError: Pointer argument")


def test_the_launch_that_ended_the_program_is_recorded(forked: Run) -> None:
    text = """
launch(100)
source = torch.arange(64.0, device="cuda")
index = torch.full((256,), 7_000_000, device="cuda", dtype=torch.int32)
gather[(8,)](torch.empty(256, device="cuda"), source, index, 256, SCALE=2.0, BLOCK=32)
"""
    done = forked(KERNEL + text)
    assert done.status == 1
    good, bad = done.of("call")
    assert named(bad)["n"]["value"] == 256 and named(bad)["index"]["low"] == 7_000_000
    assert counts(done) == {good["id"]: 1, bad["id"]: 0}
    (failed,) = (e["failed"] for e in done.of("calls") if "failed" in e)
    assert list(failed) == [str(bad["id"])]
    assert "illegal memory access" in failed[str(bad["id"])]
    assert "outside of every CUDA tensor" in failed[str(bad["id"])]


def test_a_launch_of_cuda_that_faults_and_a_function_that_raises_are_marked(forked: Run) -> None:
    text = """
from ptxview_probes.calls import graphs
from types import SimpleNamespace
call = SimpleNamespace(
    name="k", grid=(2, 1, 1), block=(32, 1, 1), shared=0, cluster=None, arguments=[bytes(8)])
def refuse(*args): raise RuntimeError("device-side assert triggered")
for function, args in (
    (graphs.counted_launch(refuse), (call,)),
    (graphs.counted_function("m.f", refuse, {}), (torch.ones(3, device="cuda"),)),
):
    try: function(*args)
    except RuntimeError: pass
"""
    done = ok(forked("import torch" + text))
    kinds = {str(e["id"]): e["kind"] for e in done.of("call")}
    failed = {kinds[n]: text for e in done.of("calls") for n, text in e.get("failed", {}).items()}
    assert failed == dict.fromkeys(
        ("cuda", "extension"), "RuntimeError: device-side assert triggered"
    )
    assert set(counts(done).values()) == {0}


def test_autotunings_own_launches_are_apart(forked: Run) -> None:
    text = """
tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64, 128)], key=["n"])(gather)
x, i = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda", dtype=torch.int32)
for _ in range(3):
    tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x.clone(), x, i, 64, SCALE=2.0)
"""
    done = ok(forked(KERNEL + text))
    assert counts(done) == {0: 3}
    rest = {s["subject"]: s for e in done.of("calls") for s in e.get("subjects", [])}
    assert len(rest) == 3 and all(s["benchmarks"] >= 1 for s in rest.values())


def test_tensors_are_let_go_and_the_launcher_stays_itself(forked: Run) -> None:
    text = """
import gc, pickle, weakref
held = launch(100)
watched = [weakref.ref(t) for t in held]
del held
gc.collect()
assert [w() for w in watched] == [None] * 3
kernel = next(iter(next(iter(gather.device_caches.values()))[0].values()))
assert kernel.run._ptxview and kernel.run.metadata is kernel.metadata
class Kept:
    def __call__(self, *args): pass
from ptxview_probes.calls.triton_launches import counted
back = pickle.loads(pickle.dumps(counted(Kept(), kernel.run._ptxview)))
assert type(back) is Kept
"""
    ok(forked(KERNEL + text))


def test_calls_of_a_graph_are_recorded_with_its_inputs(forked: Run) -> None:
    text = """
import pytest
import torch
f = torch.compile(lambda x, i: (x.sin() * 3)[i])
x, i = torch.randn(100, device="cuda"), torch.arange(7, 10, device="cuda")
for _ in range(3): f(x, i)
f(x.cpu(), i.cpu())
"""
    done = ok(forked(text, inductor=True))
    calls = [e for e in done.of("call") if e["kind"] == "graph"]
    assert [counts(done)[e["id"]] for e in calls] == [3, 1]
    paths = {e["path"] for e in done.of("graph")}
    assert {e["subject"] for e in calls} <= paths
    assert [a["shape"] for a in calls[0]["arguments"]] == [[100], [3]]
    assert (calls[0]["arguments"][1]["low"], calls[0]["arguments"][1]["high"]) == (7, 9)


@pytest.mark.nightly
def test_calls_of_an_extensions_functions_are_recorded(forked: Run) -> None:
    text = (
        f"BINDINGS = {BINDINGS!r}"
        + '''
import pytest
import torch
from torch.utils.cpp_extension import load_inline
source = BINDINGS + """
#include <vector>
at::Tensor scaled(at::Tensor x, double by) { return x.mul(by); }
int64_t total(std::vector<at::Tensor> all) { return all.size(); }
at::Tensor refuse(at::Tensor x) { TORCH_CHECK(false, "never"); }
"""
module = load_inline("called_extension", source, functions=["scaled", "total", "refuse"],
                     no_implicit_headers=True)
x = torch.ones(4, 8)
module.scaled(x, 2.0); module.scaled(x.t(), 2.0)
assert module.total([x, x]) == 2
try:
    module.refuse(x)
except RuntimeError as error:
    assert "never" in str(error)
assert module.scaled.__name__ == "scaled" and "Tensor" in module.scaled.__doc__
assert torch.compile(lambda x: module.scaled(x.sin(), 2.0).cos())(x).shape == (4, 8)
'''
    )
    done = ok(forked(text))
    found = [
        (e["name"], [a.get("shape", a.get("value")) for a in e["arguments"]], counts(done)[e["id"]])
        for e in done.of("call")
        if e["kind"] == "extension"
    ]
    assert ("called_extension.scaled", [[4, 8], 2.0], 2) in found
    assert ("called_extension.scaled", [[8, 4], 2.0], 1) in found
    assert ("called_extension.total", [[4, 8], [4, 8]], 1) in found
    assert ("called_extension.refuse", [[4, 8]], 0) in found
    events = [e for e in done.of("call") if e["kind"] == "extension"]
    library = events[0]["library"]
    built = Path(library["path"]).read_bytes()
    assert library["sha256"] == hashlib.sha256(built).hexdigest()
    made = {e["name"]: _again(e) for e in events if e["name"] != "called_extension.refuse"}
    assert made["called_extension.scaled"].shape == (8, 4)  # the last of them
    assert made["called_extension.total"] == 2


def _again(event: dict[str, Any]) -> Any:
    """What the function gives that a call was of, called again in this process."""
    module, _, function = event["name"].rpartition(".")
    known = dict.fromkeys(("type", "value", "dtype", "shape", "strides", "low", "high"))
    arguments = [{**known, **a, "device": "cpu", "alignment": None} for a in event["arguments"]]
    said = {
        "kind": "extension",
        "name": event["name"],
        "module": module,
        "function": function,
        "library": event["library"]["path"],
        "arguments": arguments,
    }
    return repeated(torch, said, Memory(torch, "cpu", 64))()


def test_inductors_own_launcher_and_the_faster_one_that_it_becomes(forked: Run) -> None:
    text = """
import pytest
import torch
from types import FunctionType, SimpleNamespace
from ptxview_probes.calls import triton_launches as calls_triton
launched = []
class Kernel:
    arg_names, full_constexprs = ["in_ptr0", "out_ptr0", "xnumel", "XBLOCK"], [3]
    num_warps, shared, hash, name = 8, 32, "ab" * 32, "triton_poi_fused_0"
    def run(self, x, y, z, stream, *args): launched.append((x, y, z, len(args)))
code = "def launcher(a, b, n, stream):\\n    runner((n + 63) // 64, 1, 1, stream, a, b, n)"
scope = {"runner": Kernel().run}
exec(code, scope)
signature = {"in_ptr0": "*i64", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
kernel = scope["runner"].__self__
calls_triton.watch_static(scope["launcher"], kernel, signature, {"XBLOCK": 64}, lambda: None)
assert scope["runner"].__self__ is kernel  # Inductor takes the kernel from there
a, b = torch.arange(3, 103), torch.empty(100)
for _ in range(2): scope["launcher"](a, b, 100, 0)
fast = FunctionType(scope["launcher"].__code__, {**scope, "runner": Kernel().run})
calls_triton.watch_faster(scope["launcher"], fast)
fast(a, b, 100, 0)
assert launched == [(2, 1, 1, 3)] * 3, launched
"""
    done = ok(forked(text))
    (event,) = done.of("call")
    assert (event["name"], event["grid"]) == ("triton_poi_fused_0", [2, 1, 1])
    assert (event["block"], event["shared_bytes"]) == ([256, 1, 1], 32)
    held = named(event)
    assert (held["in_ptr0"]["low"], held["in_ptr0"]["high"]) == (3, 102)
    assert (held["XBLOCK"]["value"], held["xnumel"]["value"]) == (64, 100)
    assert counts(done) == {0: 3} and not done.of("problem")


LATE = """
import os, sys
launch(100)
del os.environ["PTXVIEW_TARGET"]  # from now on as on a GPU, which raises later
error = RuntimeError("CUDA error: an illegal memory access was encountered\\nmore")
"""
ERROR = "RuntimeError: CUDA error: an illegal memory access was encountered"
WAYS = {
    "uncaught": "raise error",
    "as a cause": """
try:
    raise error
except RuntimeError as cause:
    raise ValueError("wrapped") from cause
""",
    "caught, and asked at the end": """
def query(stream):
    raise error
torch.cuda.Stream.query = query
""",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_error_that_a_later_call_raises_names_the_launches_before(forked: Run, way: str) -> None:
    done = forked(KERNEL + LATE + "launch(200)\nlaunch(100)\n" + way)
    (lost,) = (e["lost"] for e in done.of("calls") if "lost" in e)
    assert lost == {"error": ERROR, "launches": 3, "complete": True, "calls": [0, 1]}
    assert counts(done) == {0: 2, 1: 1}


def test_a_launch_that_is_refused_after_an_error_is_not_the_one_that_failed(forked: Run) -> None:
    text = """
from ptxview_probes.calls import call_counts, triton_launches
def refused(*args): raise error
target = lambda: call_counts.call_target("triton", "r", "r", {})
counter = triton_launches.LaunchCounter(target, 3, [])
try:
    triton_launches.counted(refused, counter)(7, 1, 1)
except RuntimeError:
    pass
"""
    done = ok(forked(KERNEL + LATE + text))
    (lost,) = (e["lost"] for e in done.of("calls") if "lost" in e)
    assert (lost["launches"], lost["calls"]) == (1, [0])
    assert not any("failed" in e for e in done.of("calls"))


ENDS = {
    "no error": "",
    "another error": "raise ValueError('no kernel failed')",
    "launches raise at once": 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\nraise error',
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_launch_is_named_where_none_may_have_failed(forked: Run, end: str) -> None:
    events = forked(KERNEL + LATE + end).of("calls")
    assert events
    assert not any("lost" in event for event in events)


@pytest.mark.parametrize(("devices", "candidates"), [(1, [1]), (2, [0, 1])])
def test_launches_before_a_synchronisation_have_ended(
    forked: Run, devices: int, candidates: list[int]
) -> None:
    """With several devices nobody knows which was waited for."""
    text = f"""
from ptxview_probes.calls import lost_context
import ptxview_probes.private_names
torch.version.cuda = "13.0"
torch._C._cuda_synchronize = lambda: None
torch.cuda.device_count = lambda: {devices}
lost_context.attach(torch)
torch._C._cuda_synchronize()
launch(200)
raise error
"""
    done = forked(KERNEL + LATE + text)
    (lost,) = (e["lost"] for e in done.of("calls") if "lost" in e)
    assert sorted(lost["calls"]) == candidates
