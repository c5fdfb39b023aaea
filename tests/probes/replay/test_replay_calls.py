"""The process that makes calls again, whole, on the emulated device.

What nobody has here is made up: the driver, the clocks, and what the profiler saw.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.probes.conftest import Run, ok

PROGRAM = """
import json, sys
from ptxview_probes.replay import session as replay
from ptxview_probes.replay import driver as replay_stopwatches
from ptxview_probes.replay.driver import Event
import torch

class Driver:
    def bus_id(self, device):
        return b"0"

class Clocks:
    def __init__(self, bus_id):
        pass
    def look(self):
        return {"sm_mhz": 1980, "most_mhz": 1980, "celsius": 88,
                "slowed_by": ["temperature (software)"]}
    def driver(self):
        return "580"

class Trace:
    # A flush for each time that the L2 was prepared, and after it what a call launches.
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def saw(self, work, enough):
        flushes.clear()
        work()
        each = [("flush", 80_000)]
        if work.__name__ != "often":  # the work before a call, alone
            each += [("k", 2000), ("k", 3000)]
        return [Event(name, n, ns) for n, (name, ns) in enumerate(each * len(flushes))]

flushes = []
preparing = replay.preparing
def counting(torch, state):
    prepare = preparing(torch, state)
    return lambda: (flushes.append(state), prepare())

replay.preparing = counting
replay.Driver, replay.Clocks, replay.trace_of = Driver, Clocks, lambda torch: Trace()
replay_stopwatches.MIN_FLUSH_BYTES, replay_stopwatches.L2_TIMES = 1 << 12, 0
replay.WARM_SECONDS = 0.0
status = replay.main(sys.argv[1], sys.argv[2])
torch.cuda.synchronize()
raise SystemExit(status)
"""
BARE: dict[str, Any] = dict.fromkeys(
    ("name", "type", "value", "dtype", "shape", "strides", "alignment", "low", "high", "device")
)
X = {
    **BARE,
    "name": "arg0",
    "dtype": "float32",
    "shape": [64, 8],
    "strides": [8, 1],
    "alignment": 64,
}
INDEX = {
    **BARE,
    "name": "i",
    "dtype": "int64",
    "shape": [64],
    "strides": [1],
    "alignment": 64,
    "low": 2,
    "high": 5,
}
# A graph's code takes its list apart and empties it; this one also changes integers.
GRAPH = """
def call(args):
    x, i = args
    args.clear()
    assert x.is_cuda and int(i.max()) <= 5, i
    i.add_(1)
    return (x * 2, )
"""
Line = dict[str, Any]


@pytest.fixture
def child(run: Run, tmp_path: Any) -> Callable[..., list[Line]]:
    def start(budget: float | None, *launches: Line) -> list[Line]:
        job, results = tmp_path / "job.json", tmp_path / "results.jsonl"
        told = [{**x, "n": n} for n, x in enumerate(launches)]
        job.write_text(
            json.dumps(
                {
                    "stopwatches": ["cupti"],
                    "cache": "cold",
                    "seconds": 0.2,
                    "limit": 300,
                    "building": 0,
                    "alignment": 64,
                    "copy": False,
                    "budget": budget,
                    "launches": told,
                }
            )
        )
        ok(run(PROGRAM, str(job), str(results)))
        return [json.loads(line) for line in results.read_text().splitlines()]

    return start


def test_graphs_and_functions_are_called_and_what_fails_fails_alone(
    child: Callable[..., list[Line]], tmp_path: Any
) -> None:
    codes = {
        "good": GRAPH,
        "bad": "def call(args):\n    return nothing\n",
        "squares": "def square(x, twice):\n    return x * x * twice\n",
    }
    for name, text in codes.items():
        (tmp_path / f"{name}.py").write_text(text)
    graph = {"kind": "graph", "name": "0/0", "code": str(tmp_path / "good.py"), "memory": []}
    function = {
        "kind": "extension",
        "name": "squares.square",
        "module": "squares",
        "function": "square",
        "library": str(tmp_path / "squares.py"),
        "memory": [],
    }
    said = child(
        None,
        {**graph, "arguments": [X, INDEX]},
        {**graph, "code": str(tmp_path / "bad.py"), "arguments": [X]},
        {**function, "arguments": [X, {**BARE, "name": "twice", "value": 2}]},
        {**function, "function": "cube", "arguments": [X]},
    )
    assert said[0]["device"]["driver"] == "580"
    assert [x["end"] for x in said if "end" in x] == [0, 1, 2, 3]
    rows = {x["n"]: x for x in said if "n" in x}
    for n in (0, 2):
        row = rows[n]
        assert set(row["samples"]) == {5.0} and row["warnings"] == []
        (kernel,) = row["kernels"]
        assert (kernel["name"], kernel["per_call"]) == ("k", 2)
        assert len(kernel["samples"]) == 2 * len(row["samples"])
        assert row["cpu"] and min(row["cpu"]) > 0
        assert row["clocks"]["slowed_by"] == ["temperature (software)"]
        assert row["clocks"]["celsius"] == 88
    assert rows[1]["error"] == "NameError: name 'nothing' is not defined"
    assert rows[3]["error"].endswith("has no function cube any more")


@pytest.mark.nightly
def test_a_spent_budget_begins_nothing(child: Callable[..., list[Line]]) -> None:
    said = child(0, {"kind": "graph", "name": "0/0", "code": "/nowhere.py", "arguments": []})
    assert said[-1] == {"spent": True} and not any("begin" in x for x in said)
