"""Autotuning: events with made-up times into values, JSON and the table; caches' own files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from inspector.base.model import Kernel, Recording, Stage
from inspector.diff import variants
from inspector.recording.assemble import Assembly
from inspector.recording.layout import BytesContent
from inspector.render import jsons
from inspector.render.recording_rows import recording_document
from inspector.sources.opening import open_path
from tests.helpers.ptxview import SQUARE

LECTURE = Path(__file__).parents[1] / "data" / "core" / "lecture"
PTX = (SQUARE / "square_kernel.ptx").read_bytes()
HASHES = ["1a" * 32, "2b" * 32, "3c" * 32]
KEY = {"M": 256, "x_ptr": "torch.float16"}


def compiled(digest: str, warps: int, **more: Any) -> dict[str, Any]:
    return {
        "event": "triton",
        "name": "square_kernel",
        "hash": digest,
        "pid": 1,
        "files": {"ptx": "ptx"},
        "metadata": {"num_warps": warps, "num_stages": 3},
        **more,
    }


def tried(warps: int, digest: str | None, times: Any, reason: str | None = None) -> dict[str, Any]:
    return {
        "config": {"BLOCK": 64, "num_warps": warps, "num_stages": 3},
        "hash": digest,
        "times_ms": times,
        "reason": reason,
    }


def tuned(*configurations: dict[str, Any], winner: int | None, **more: Any) -> dict[str, Any]:
    return {
        "event": "autotune",
        "tuning": 0,
        "by": "triton",
        "name": "square_kernel",
        "file": "",
        "key": KEY,
        "stopwatch": "do_bench",
        "from_cache": False,
        "seconds": 0.5,
        "pid": 1,
        "configurations": list(configurations),
        "winner": winner,
        **more,
    }


COMPILED = [compiled(HASHES[0], 4), compiled(HASHES[1], 8)]
TUNED = tuned(
    tried(4, HASHES[0], [0.020, 0.019, 0.023]),
    tried(8, HASHES[1], [0.010, 0.009, 0.012]),
    tried(16, None, None, "failed: OutOfResources: out of resource: shared memory"),
    tried(32, None, None, "pruned: early_config_prune"),
    winner=1,
)


def read(*events: dict[str, Any]) -> Recording:
    return Assembly(lambda d: BytesContent(PTX) if d == "ptx" else None).recording("x", events)


def one(*events: dict[str, Any]) -> Kernel:
    (kernel,) = read(*events).kernels
    return kernel


def test_a_tuning_keeps_all_configurations_in_order_with_the_tuners_times() -> None:
    kernel = one(*COMPILED, TUNED)
    slow, fast = kernel.variants
    (tuning,) = kernel.autotune
    assert (tuning.tuner, tuning.key, tuning.stopwatch) == ("triton", KEY, "do_bench")
    assert (tuning.seconds, tuning.from_cache) == (0.5, False)
    assert [c.variant for c in tuning.configurations] == [slow.id, fast.id, None, None]
    assert [c.time_us for c in tuning.configurations] == pytest.approx([20, 10, None, None])
    # Triton's order is the median, the 20th and the 80th percentile; ours is ascending.
    assert tuning.configurations[0].quantiles_us == pytest.approx((19, 20, 23))
    assert [(c.reason or "").partition(":")[0] for c in tuning.configurations] == [
        "",
        "",
        "failed",
        "pruned",
    ]
    assert tuning.winner is not None and tuning.winner.config["num_warps"] == 8


def test_every_key_is_kept_and_a_variant_has_the_one_that_it_won() -> None:
    other = tuned(
        tried(4, HASHES[0], [0.1, 0.1, 0.1]),
        tried(8, HASHES[1], [0.2, 0.2, 0.2]),
        winner=0,
        tuning=1,
        key={"M": 512},
    )
    kernel = one(*COMPILED, TUNED, other)
    assert [t.key for t in kernel.autotune] == [KEY, {"M": 512}]
    slow, fast = kernel.variants
    assert slow.autotune is not None and fast.autotune is not None
    assert (slow.autotune["key"], slow.autotune["time_us"]) == ({"M": 512}, pytest.approx(100))
    assert (fast.autotune["key"], fast.autotune["time_us"]) == (KEY, pytest.approx(10))


def test_a_tuning_told_again_replaces_itself_and_not_that_of_another_process() -> None:
    begun = tuned(tried(4, HASHES[0], None), winner=None)
    process = {"event": "process", "pid": 1}
    assert len(one(*COMPILED, begun, TUNED).autotune) == 1
    assert len(one(process, *COMPILED, begun, process, TUNED).autotune) == 2
    assert len(one(*COMPILED, begun, {**TUNED, "pid": 2}).autotune) == 2


@pytest.mark.parametrize("times", [None, [float("nan")] * 3, [float("inf")] * 3, ["fast"], [-1.0]])
def test_what_was_not_measured_has_no_time(times: Any) -> None:
    kernel = one(*COMPILED, tuned(tried(4, HASHES[0], times), winner=None))
    (tuning,) = kernel.autotune
    assert tuning.winner is None
    assert (tuning.configurations[0].time_us, tuning.configurations[0].quantiles_us) == (None, None)
    said = json.loads(
        jsons.dumps(recording_document(read(*COMPILED, TUNED), lambda v: v.recorded_resources))
    )
    assert said["kernels"][0]["autotune"][0]["configurations"][2]["time_us"] is None


def test_a_configuration_that_failed_in_another_process_belongs_to_the_tuning() -> None:
    one_more = tried(2, None, None, "failed: PTXASError: no")
    failed = {
        "event": "autotune_failed",
        "by": "triton",
        "name": "square_kernel",
        "file": "",
        "configuration": one_more,
        "pid": 9,
    }
    (tuning,) = one(*COMPILED, failed, TUNED).autotune
    assert tuning.configurations[-1].reason == "failed: PTXASError: no"
    assert tuning.best == 1
    (alone,) = one(*COMPILED, failed).autotune
    assert (len(alone.configurations), alone.winner) == (1, None)


def test_a_kernel_of_which_no_configuration_compiled_is_there_with_its_reasons() -> None:
    kernel = one(tuned(tried(4, None, None, "failed: PTXASError: no"), winner=None))
    assert (kernel.name, kernel.variants) == ("square_kernel", ())
    assert kernel.autotune[0].configurations[0].reason == "failed: PTXASError: no"


# -- caches ---------------------------------------------------------------------------------------


def test_best_config_of_inductor_names_the_winner_and_makes_up_no_time() -> None:
    rec = open_path(LECTURE)
    kernels = {k.name: k for k in rec.kernels if k.autotune}
    assert set(kernels) == {"triton_poi_fused_pow_0", "triton_poi_fused_add_mul_tanh_0"}
    for kernel in kernels.values():
        (tuning,) = kernel.autotune
        assert tuning.winner is not None and tuning.from_cache
        assert dict(tuning.winner.config) == {"XBLOCK": 1024, "num_warps": 4, "num_stages": 1}
        # Inductor's own 12 ms are how long it tuned, not how long the kernel takes.
        assert (tuning.winner.time_us, tuning.seconds) == (None, 0.012)
    (won,) = [v for v in kernels["triton_poi_fused_pow_0"].variants if v.autotune]
    assert won.autotune is not None
    assert (won.autotune["winner"], won.autotune["from_cache"]) == (True, True)
    assert won.cache_key == "G26O4TBV3Q555PQQUDBRUGQERGLIU6MJ6W2DZCUDY3TUGOGCUYWA"
    # The other's winner is in no folder here.
    assert not any(v.autotune for v in kernels["triton_poi_fused_add_mul_tanh_0"].variants)


def cached(folder: Path, timings: list[Any]) -> None:
    """A ``.autotune.json`` as Triton 3.4 and later leave it."""
    (folder / "TUNED").mkdir()
    held = {"key": [4096, "torch.float32"], "configs_timings": timings}
    (folder / "TUNED" / "matmul_kernel.autotune.json").write_text(json.dumps(held))
    (folder / "TUNED" / "__grp__matmul_kernel.autotune.json").write_text("{}")


def config(warps: int, stages: int, block: int = 64) -> dict[str, Any]:
    return {
        "kwargs": {"BLOCK_M": block},
        "num_warps": warps,
        "num_stages": stages,
        "num_ctas": 1,
        "maxnreg": None,
        "pre_hook": None,
        "ir_override": None,
    }


def test_tritons_cached_timings_are_tied_to_the_only_variant_that_fits(tmp_path: Path) -> None:
    shutil.copytree(LECTURE / "triton", tmp_path, dirs_exist_ok=True)
    before = {k.name: k for k in open_path(tmp_path).kernels}["matmul_kernel"]
    first = before.variants[0]
    warps, stages = int(str(first.config["num_warps"])), int(str(first.config["num_stages"]))
    cached(
        tmp_path,
        [
            [config(warps, stages), [0.03, 0.02, 0.04]],
            [config(warps, stages + 7), [0.05, 0.05, 0.05]],
            [config(2, 9), [float("inf")] * 3],
        ],
    )
    kernel = {k.name: k for k in open_path(tmp_path).kernels}["matmul_kernel"]
    (tuning,) = kernel.autotune
    fits = [
        v
        for v in kernel.variants
        if (v.config["num_warps"], v.config["num_stages"]) == (warps, stages)
    ]
    assert len(fits) == 1
    won, slower, failed = tuning.configurations
    assert tuning.winner is won and won.variant == fits[0].id
    assert won.time_us == pytest.approx(30) and won.config["BLOCK_M"] == 64
    assert slower.variant is None and failed.variant is None
    assert failed.time_us is None and (failed.reason or "").startswith("failed")
    assert (tuning.key, tuning.from_cache) == ((4096, "torch.float32"), True)


@pytest.mark.parametrize("text", ["", "[]", '{"configs_timings": [[1, 2]]}', "[" * 100_000])
@pytest.mark.parametrize("name", ["k.autotune.json", "k.best_config"])
def test_damaged_files_are_problems_and_nothing_else_suffers(
    tmp_path: Path, name: str, text: str
) -> None:
    shutil.copytree(LECTURE / "triton", tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_text(text)
    rec = open_path(tmp_path)
    assert any(name in p for p in rec.problems)
    assert len(rec.kernels) == len(open_path(LECTURE / "triton").kernels)


def configured(digest: str, **config: int) -> dict[str, Any]:
    return {"event": "configured", "by": "inductor", "hash": digest, "config": config}


COPY = "/cache/inductor/ab/c" + "a" * 51 + ".py"
OTHER = "/cache/inductor/cd/c" + "b" * 51 + ".py"
PERSISTENT = {"XBLOCK": 4, "num_warps": 2, "num_stages": 1}


def from_a_cache(config: dict[str, int]) -> dict[str, Any]:
    best = {"config": config, "hash": None, "times_ms": None, "reason": None}
    return tuned(best, winner=0, by="inductor", from_cache=True)


def test_the_best_of_a_cache_is_the_variant_that_was_compiled_for_it() -> None:
    # No constant is called XBLOCK: both kernels have two warps and one stage.
    both = [
        compiled(digest, 2, metadata={"num_warps": 2, "num_stages": 1}, source={"file": COPY})
        for digest in HASHES[:2]
    ]
    told = [
        configured(HASHES[1], **PERSISTENT),
        configured(HASHES[0], **{**PERSISTENT, "XBLOCK": 8}),
    ]
    kernel = one(*both, *told, from_a_cache(PERSISTENT))
    assert kernel.autotune[0].winner is not None
    assert kernel.autotune[0].winner.variant == kernel.variants[1].id
    assert [variants.winner(v) for v in kernel.variants] == [None, True]
    assert list(variants.without_variant(kernel)) == []


def test_where_nobody_said_it_is_the_only_variant_that_agrees() -> None:
    given: dict[str, Any] = {
        "metadata": {"num_warps": 2, "num_stages": 1},
        "declared": ["R0_BLOCK"],
    }
    alone = [
        compiled(digest, 2, constexprs={"R0_BLOCK": size}, source={"file": COPY}, **given)
        for digest, size in zip(HASHES, (64, 32), strict=False)
    ]
    for name in ("R0_BLOCK", "RBLOCK"):
        kernel = one(*alone, from_a_cache({"XBLOCK": 1, name: 32, "num_warps": 2, "num_stages": 1}))
        assert kernel.autotune[0].winner is not None
        assert kernel.autotune[0].winner.variant == kernel.variants[1].id
    kernel = one(*alone, from_a_cache({"XBLOCK": 1, "num_warps": 2, "num_stages": 1}))
    assert kernel.autotune[0].winner is not None
    assert kernel.autotune[0].winner.variant is None  # it may be either


def test_one_compile_of_two_generated_files_is_one_variant_of_the_graphs_kernel() -> None:
    code = f"""# AOT ID: ['0_backward']
from torch._inductor.async_compile import AsyncCompile
# kernel path: {COPY}
triton_tem_fused_1 = async_compile.triton('triton_tem_fused_1', \'\'\'
import triton
@triton.jit
def triton_tem_fused_1(x):
    pass
\'\'\', device_str='cuda')
"""
    texts = {"ptx": PTX, "code": code.encode()}
    made = [
        {
            "event": "triton",
            "name": "triton_tem_fused_1",
            "hash": HASHES[0],
            "pid": pid,
            "files": {"ptx": "ptx"},
            "metadata": {"num_warps": 4},
            "source": {"file": file},
        }
        for pid, file in ((1, OTHER), (2, COPY), (3, OTHER))
    ]
    graph: dict[str, Any] = {"event": "graph", "blob": "code", "path": "/cache/graph.py"}
    orders: list[list[dict[str, Any]]] = [[*made, graph], [graph, *made[1:]], made]
    for events in orders:
        rec = Assembly(
            lambda d: BytesContent(texts[d]) if isinstance(d, str) and d in texts else None
        ).recording("x", events)
        (kernel,) = rec.kernels
        (variant,) = kernel.variants
        assert (Stage.OUTPUT_CODE in variant.stages) == (graph in events)
        assert (variant.embedded is not None) == (graph in events)
