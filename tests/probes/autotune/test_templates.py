"""Max-autotune's candidates, compared with the table that torch itself prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inspector.base.model import Origin, Recording, Stage, Tuning, Variant
from inspector.render import compiles
from tests.probes.compiles.test_user_kernels import read
from tests.probes.conftest import Run, ok

MEASURED = """
import torch
import torch._inductor.config as config
config.max_autotune = True
config.max_autotune_gemm_backends = "CPP,ATEN"
config.freezing = True
config.fx_graph_cache = False
linear = torch.nn.Linear(64, 128).eval()
with torch.no_grad():
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(linear)(torch.randn(32, 64))
"""
EMULATED = """
import torch
import torch._inductor.config as config
config.max_autotune_gemm_backends = "ATEN,TRITON"
# A few candidates: each is compiled. What ATen has is not described.
config.test_configs.autotune_choice_desc_regex = "^$|BLOCK_K=16|BLOCK_M=128.*BLOCK_N=64"

@torch.compile(mode="max-autotune-no-cudagraphs")
def product(a, b):
    return torch.relu(a @ b)

half = torch.float16
a = torch.randn(64, 32, device="cuda", dtype=half)
product(a, torch.randn(32, 64, device="cuda", dtype=half))
"""
ROW = re.compile(r"^  (\w+) ([\d.]+) ms [\d.]+%", re.MULTILINE)
HEAD = re.compile(r"^AUTOTUNE (\w+\([^)]*\))$", re.MULTILINE)


@pytest.mark.nightly
def test_candidates_and_times_are_those_of_torchs_own_table(run: Run, tmp_path: Path) -> None:
    done = ok(run(MEASURED, arch=None))
    own = dict(ROW.findall(done.err))
    assert len(own) >= 2, done.err
    measured, cached = (e for e in done.of("autotune") if "operation" in e)
    assert measured["name"] == cached["name"] == HEAD.findall(done.err)[0]
    assert (measured["from_cache"], cached["from_cache"]) == (False, True)
    assert measured["seconds"] > 0 and cached["seconds"] is None
    told = {}
    for one in measured["configurations"]:
        (name,) = [n for n in own if re.sub(r"_\d+$", "", n) == one["config"]["choice"]]
        told[name] = f"{one['times_ms'][0]:.4f}"
    assert told == own
    best = measured["configurations"][measured["winner"]]
    assert best["config"]["choice"] == re.sub(r"_\d+$", "", min(own, key=lambda n: float(own[n])))
    assert {one["maker"] for one in measured["configurations"]} == {"ATen", "C++"}
    # Each has a number that identifies its launches on a GPU.
    numbers = {one["candidate"] for one in measured["configurations"]}
    assert len(numbers) == len(measured["configurations"]) and None not in numbers
    assert {one["candidate"] for one in cached["configurations"]} == {None}
    times = [[c["times_ms"] for c in e["configurations"]] for e in (measured, cached)]
    assert times[0] == times[1]
    (blobs,) = tmp_path.glob("recording*/blobs")
    (operation,) = [k for k in read(done, blobs).kernels if k.autotune]
    # What the cache said again is the same tuning.
    (tuning,) = operation.autotune
    assert operation.name == measured["name"] and operation.origin is Origin.INDUCTOR
    assert tuning.winner is not None and tuning.winner.time_us == pytest.approx(
        best["times_ms"][0] * 1000
    )
    assert not tuning.from_cache and tuning.operation == "packed_linear"
    (_, line) = (one.text.plain for one in compiles.tuner_choices(read(done, blobs)))
    assert operation.name in line and best["config"]["choice"] in line and "measured in" in line


def test_without_a_gpu_candidates_are_one_row_and_no_time_is_made_up(
    forked: Run, tmp_path: Path
) -> None:
    done = ok(forked(EMULATED, inductor=True))
    (blobs,) = tmp_path.glob("recording*/blobs")
    rec = read(done, blobs)
    (operation,) = [k for k in rec.kernels if any(t.operation for t in k.autotune)]
    assert operation.name == "mm(64x32, 32x64)"
    (tuning,) = operation.autotune
    assert tuning.best is None and tuning.stopwatch is None and not tuning.from_cache
    assert all(c.time_us is None for c in tuning.configurations)
    triton = [c for c in tuning.configurations if c.maker == "Triton"]
    aten = [c for c in tuning.configurations if c.maker == "ATen"]
    assert [c.config for c in aten] == [{"choice": "mm"}] and len(triton) > 1
    ids = {v.id for v in operation.variants}
    compiled = [c for c in triton if c.variant is not None]
    assert {c.variant for c in compiled} == ids and len(compiled) == len(ids)
    for configuration in triton:
        assert configuration.variant is not None or configuration.reason
    for variant in operation.variants:
        blocks = {variant.config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
        assert all(isinstance(size, int) for size in blocks)
        # The settings are those of the code: its PTX was made for so many warps.
        assert variant.config["num_warps"] == _warps(variant)
    (_, line) = (one.text.plain for one in compiles.tuner_choices(rec))
    assert "none was measured" in line and "1 of ATen" in line and "µs" not in line
    # No candidate is left as a separate kernel.
    assert not [k for k in rec.kernels if k.name.startswith("triton_mm")]
    _what_became_of_it(rec, operation.id, tuning)


def _what_became_of_it(rec: Recording, operation: str, tuning: Tuning) -> None:
    """The generated kernel is the graph's, from the candidate whose constants are in its code."""
    (graph,) = rec.graphs
    (use,) = tuning.uses
    kernels = {k.id: k for k in rec.kernels}
    assert use.node == "mm" and use.graph == graph.id and use.kernel in graph.kernels
    assert use.configuration is not None
    config = tuning.configurations[use.configuration].config
    (variant,) = kernels[use.kernel].variants
    assert variant.span is not None
    text = graph.stages[Stage.OUTPUT_CODE].content.read().decode().split("\n")
    own = "\n".join(text[variant.span[0] - 1 : variant.span[1]])
    constants = dict(re.findall(r"(BLOCK_\w|GROUP_M) : tl.constexpr = (\d+)", own))
    assert constants == {name: str(config[name]) for name in constants} and len(constants) == 4
    assert {name: str(variant.config[name]) for name in constants} == constants
    # What it compiled to see whether a fusion is faster is of the graph too, and named.
    assert kernels[operation].tried_for == graph.id
    assert [(one.nodes, one.time_us) for one in graph.tried] == [
        (("relu",), None),
        (("mm", "relu"), None),
    ]
    for one in graph.tried:
        assert kernels[one.kernel].tried_for == graph.id
    (fused,) = kernels[graph.tried[1].kernel].variants
    ptx = fused.stages[Stage.PTX].content.read().decode()
    assert "mma.sync" in ptx and "setp.lt.f16x2" in ptx  # the product, and relu
    assert fused.config["BLOCK_M"] == config["BLOCK_M"]
    assert not [k for k in rec.kernels if k.name == "triton_"]


def _warps(variant: Variant) -> int:
    text = variant.stages[Stage.PTX].content.read().decode()
    found = re.search(r"\.reqntid (\d+)", text)
    assert found is not None
    return int(found[1]) // 32
