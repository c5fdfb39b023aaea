"""Breaks, recompiles, caches, symbols and phases, compared with torch's own words."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from inspector.base.model import FrameCompile, Recording
from inspector.sources.opening import open_path
from tests.probes.compiles.test_user_kernels import read
from tests.probes.conftest import Outcome, Run, ok

PROGRAM = """
import json, logging, time
import torch
import torch._dynamo as dynamo
from torch._logging import _internal as own

# Torch's own witnesses: its trace on disk, its log of recompiles and breaks, its counters.
handler = own.LazyTraceHandler("trace")
handler.setFormatter(own.TorchLogsFormatter(trace=True))
logging.getLogger("torch.__trace").addHandler(handler)
said = {"guards.__recompiles": [], "symbolic_convert.__graph_breaks": []}
class Heard(logging.Handler):
    def emit(self, record):
        said[record.name.removeprefix("torch._dynamo.")].append(record.getMessage())
torch._logging.set_logs(recompiles=True, graph_breaks=True)
for name in said:
    logging.getLogger("torch._dynamo." + name).addHandler(Heard())

@torch.compile
def scaled(x, n):
    y = x * 2 + n
    print("broken here")
    return torch.relu(y).sum()

def chosen(x):
    if x.sum() > 0:
        return x + 1
    return x - 1

@torch.compile
def outer(x):
    return chosen(x.sin()) * 3

@torch.compile
def sized(x):
    if x.shape[0] == 24:
        return x * 2
    return x.cos() + 1

@torch.compile
def trained(x, w):
    return (x @ w).sin().sum()

scaled(torch.randn(64, 32, device="cuda"), 3)
scaled(torch.randn(64, 32, device="cuda"), 4)
scaled(torch.randn(65, 32, device="cuda"), 4)
outer(torch.randn(64, 32, device="cuda"))
for n in (16, 24, 40):
    sized(torch.randn(n, 8, device="cuda"))
w = torch.randn(8, 8, device="cuda", requires_grad=True)
trained(torch.randn(4, 8, device="cuda"), w).backward()
counted = {name: dict(values) for name, values in dynamo.utils.counters.items()}
handler.flush()
logging.getLogger("torch.__trace").removeHandler(handler)
ended = time.time()
heard = {name: list(messages) for name, messages in said.items()}
explained = [
    {"line": reason.user_stack[-1].lineno, "reason": reason.reason}
    for function, given in ((scaled, (torch.ones(8, 4), 1)), (outer, (torch.ones(8, 4),)))
    for reason in dynamo.explain(getattr(function, "_torchdynamo_orig_callable", function))(*given)
    .break_reasons
]
print(json.dumps({"said": heard, "counters": counted, "ended": ended, "explained": explained}))
"""


class Seen:
    """A run: torch's own words, the recording of it, and torch's trace read as a recording."""

    def __init__(self, done: Outcome, folder: Path) -> None:
        (blobs,) = folder.glob("recording*/blobs")
        self.own: dict[str, Any] = json.loads(done.out.strip().splitlines()[-1])
        whole = read(done, blobs)
        self.problems = whole.problems
        self.frames: tuple[FrameCompile, ...] = tuple(
            one for one in whole.frame_compiles if (one.began or 0) < self.own["ended"]
        )
        self.whole = whole
        self.traced: Recording = open_path(next(folder.rglob("trace")))
        self.lines = {
            text.strip(): n
            for n, text in enumerate((folder / "program.py").read_text().split("\n"), 1)
        }


@pytest.fixture
def seen(forked: Run, tmp_path: Path) -> Seen:
    return Seen(ok(forked(PROGRAM, inductor=True)), tmp_path)


@pytest.mark.nightly
def test_reasons_of_compilations_are_torchs_own_words(seen: Seen) -> None:
    _breaks(seen)
    _recompiles(seen)
    _caches(seen)
    _symbols(seen)
    _traced(seen)


def _breaks(seen: Seen) -> None:
    reasons = Counter(b.reason for one in seen.frames for b in one.breaks)
    logged = seen.own["said"]["symbolic_convert.__graph_breaks"]
    assert sum(reasons.values()) == len(logged) == 5
    for reason, count in reasons.items():
        assert sum(reason in said for said in logged) == count
    # The counter knows the reasons, and not how often one is met again in an inlined function.
    counted = seen.own["counters"]["graph_break"]
    assert len(counted) == len(reasons)
    assert all(any(reason in said for said in counted) for reason in reasons)
    places = {(b.place.line, b.reason) for one in seen.frames for b in one.breaks if b.place}
    assert {line for line, _ in places} == {
        seen.lines['print("broken here")'],
        seen.lines["if x.sum() > 0:"],
    }
    # explain() calls a branch on a tensor "generic_jump"; the lines are the same.
    assert any(reason in e["reason"] for e in seen.own["explained"] for reason in reasons)
    assert {e["line"] for e in seen.own["explained"]} == {line for line, _ in places}
    inlined = next(b for one in seen.frames for b in one.breaks if one.function == "outer")
    assert [f.function for f in inlined.stack][-2:] == ["outer", "chosen"]
    assert inlined.lost_seconds and inlined.explanation and inlined.hints


def _recompiles(seen: Seen) -> None:
    again = [one for one in seen.frames if one.failures]
    logged = seen.own["said"]["guards.__recompiles"]
    assert len(again) == len(logged) == 5
    for one, said in zip(again, logged, strict=True):
        assert said.startswith(f"Recompiling function {one.function} in {one.file}:{one.line}\n")
        failed = [line.strip() for line in said.split("\n") if line.strip().startswith("- ")]
        for failure in one.failures:
            expected = f"- {failure.compile}: {failure.guard}"
            assert any(line.startswith(expected) for line in failed)
        assert one.seconds is not None and one.seconds > 0
    by_code = next(f for one in again for f in one.failures if f.guard == "n == 3")
    assert by_code.code == "y = x * 2 + n" and by_code.compile == again[0].id.split("/")[0] + "/0"


def _caches(seen: Seen) -> None:
    asked = Counter((c.cache, c.outcome) for one in seen.frames for c in one.caches)
    for counters, cache, stem in (
        ("inductor", "fx_graph", "fxgraph_cache_"),
        ("aot_autograd", "aotautograd", "autograd_cache_"),
    ):
        own = seen.own["counters"].get(counters, {})
        for outcome in ("hit", "miss", "bypass"):
            assert asked[cache, outcome] == own.get(f"{stem}{outcome}", 0), (cache, outcome)
    assert sum(asked.values())


def _symbols(seen: Seen) -> None:
    (static,) = [s for one in seen.frames for s in one.shapes if s.kind == "static"]
    assert static.value == "24" and static.source == "L['x'].size()[0]"
    assert static.stack[-1].line == seen.lines["if x.shape[0] == 24:"]
    sized = [one for one in seen.frames if one.function == "sized"]
    dynamic = [s for one in sized for s in one.shapes if s.kind == "dynamic"]
    assert [s.reason for s in dynamic] == ["size change: 16 before, now 24"]
    guards = {s.expression for one in sized for s in one.shapes if s.kind == "guard"}
    assert {"Eq(s77, 24)", "Ne(s77, 24)"} <= guards or any("24" in str(g) for g in guards)


def _traced(seen: Seen) -> None:
    assert not [p for p in seen.problems if "trace" in p]
    traced = {(one.id, one.direction): one for one in seen.traced.frame_compiles}
    assert len(traced) == len(seen.frames)
    for one in seen.frames:
        other = traced[one.id, one.direction]
        assert other.breaks == one.breaks
        assert other.failures == one.failures
        assert other.shapes == one.shapes
        assert other.caches == one.caches
        assert other.phases == one.phases
        assert (other.function, other.file, other.line) == (one.function, one.file, one.line)
        assert (other.began, other.seconds) == (one.began, one.seconds)
        assert (other.guards is None) is (one.guards is None)
        if one.guards is not None and other.guards is not None:
            assert other.guards.read().strip() == one.guards.read().strip()
