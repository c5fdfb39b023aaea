"""What ``list --compiles`` says of recompiles, of values that changed and of torch's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inspector.base.model import FrameCompile
from inspector.reader.tables import table
from inspector.render import compiles
from inspector.sources.opening import open_path
from tests.helpers.torch_trace import trace

Record = tuple[dict[str, object], str]
FRAME: dict[str, object] = {"frame_id": 0, "frame_compile_id": 1}
HINT = "torch.compile considers integer attributes (of modules) to be static. Make it a tensor."


def changed(name: str, reason: str, new: object) -> Record:
    about = {"name": name, "dim_changed": 0, "reason": reason, "cached": "2", "new": str(new)}
    mark = {"name": "automatic_dynamic", "ph": "i", "ts": 1, "args": about}
    return {"chromium_event": {}, **FRAME}, json.dumps(mark)


def symbol(source: str, value: int) -> Record:
    about = {"symbol": "s0", "val": str(value), "vr": "[2, int_oo]", "source": source}
    return {"create_symbol": about, **FRAME}, ""


def told(folder: Path, *records: Record) -> tuple[FrameCompile, list[str]]:
    start: Record = ({"dynamo_start": {"stack": []}, **FRAME}, "")
    recording = open_path(trace(folder / "trace", start, *records))
    tables = table("compile_phases"), table("compile_metrics")
    rows = [line.text.plain.strip() for line in compiles.lines(recording, *tables, 200)]
    return recording.frame_compiles[0], rows


@pytest.mark.parametrize(
    ("change", "symbols", "kind"),
    [
        (changed("L['n']", "scalar change", 3), (), "constant"),
        (changed("L['n']", "scalar change", 3), (symbol("L['n']", 3),), "dynamic"),
        (changed("L['n']", "scalar change", 3), (symbol("L['x'].size()[0]", 3),), "constant"),
        (changed("L['x']", "size change", 3), (symbol("L['x'].size()[0]", 3),), "dynamic"),
        # Sizes that are equal share the first one's symbol.
        (changed("L['y']", "size change", 3), (symbol("L['x'].size()[0]", 3),), "dynamic"),
        (changed("L['y']", "size change", 4), (symbol("L['x'].size()[0]", 3),), "constant"),
        (changed("L['x2']", "size change", 4), (symbol("L['x'].size()[0]", 3),), "constant"),
        (changed("L['x']", "stride change", 12), (symbol("L['x'].size()[0]", 3),), "dynamic"),
        (changed("L['x']", "stride change", 12), (), "constant"),
    ],
)
def test_a_value_is_dynamic_only_where_a_symbol_was_made_of_it(
    change: Record, symbols: tuple[Record, ...], kind: str, tmp_path: Path
) -> None:
    compiled, rows = told(tmp_path, change, *symbols)
    (fact,) = [fact for fact in compiled.shapes if fact.kind in ("constant", "dynamic")]
    assert fact.kind == kind
    assert any("stays a constant: " in row for row in rows) == (kind == "constant")
    assert any("is dynamic from here: " in row for row in rows) == (kind == "dynamic")


def test_hints_of_a_recompile_are_below_its_reason_once(tmp_path: Path) -> None:
    place = "# return x * self.step  # model.py:12 in forward"
    reasons = [
        f"0/0: self.step == 2  {place} (HINT: {HINT})",
        f"0/1: self.step == 3  {place} (HINT: {HINT}) (HINT: another)",
        "0/2: n == 3  # y = n  # model.py:9 in forward",
    ]
    artifact = {"artifact": {"name": "recompile_reasons", "encoding": "json"}, **FRAME}
    compiled, rows = told(tmp_path, (artifact, json.dumps(reasons)))
    assert [failure.hints for failure in compiled.failures] == [(HINT,), (HINT, "another"), ()]
    assert {failure.code for failure in compiled.failures} == {"return x * self.step", "y = n"}
    assert compiled.failures[0].place == "model.py:12 in forward"
    first = next(n for n, row in enumerate(rows) if row.startswith("self.step == 2"))
    assert rows[first + 1] == f"hint: {HINT}"
    assert rows[first + 3] == "hint: another"
    assert sum(HINT in row for row in rows) == 1


def test_torchs_figures_are_kept_and_those_that_matter_are_shown(tmp_path: Path) -> None:
    metrics = {
        "co_name": "f",
        "cudagraph_skip_reason": "skipping cudagraphs due to cpu device (arg1_1)",
        "restart_reasons": ["a graph break"],
        "fail_type": None,
        "inductor_config": "{}" * 20_000,
        "dynamo_cumulative_compile_time_us": 1_500_000,
        "gc_time_us": 12,
        "inductor_fx_local_cache_hit_count": 1,
        "inductor_fx_local_cache_miss_count": 0,
        "graph_op_count": 1,
        "graph_node_shapes": "x" * 20_000,
        "triton_kernel_compile_times_us": "y" * 10_000,
    }
    compiled, rows = told(tmp_path, ({"compilation_metrics": metrics, **FRAME}, ""))
    assert set(metrics) - set(compiled.figures) == {"fail_type", "inductor_config"}
    assert len(str(compiled.figures["triton_kernel_compile_times_us"])) == 10_000
    assert len(str(compiled.figures["graph_node_shapes"])) == 16_384
    assert "no CUDA graph: skipping cudagraphs due to cpu device (arg1_1)" in rows
    assert "traced again for: a graph break" in rows
    assert "times: Dynamo 1.50 s" in rows
    assert "lookups: FX graph 1 hit" in rows
    assert "counts: 1 operator" in rows


@pytest.mark.parametrize("kind", ["compilation_metrics", "bwd_compilation_metrics"])
def test_figures_of_what_runs_later_are_kept(kind: str, tmp_path: Path) -> None:
    metrics = {"is_runtime": True, "runtime_cudagraphify_time_us": 2_000}
    compiled, rows = told(tmp_path, ({f"{kind}_runtime": metrics, **FRAME}, ""))
    assert compiled.figures["runtime_cudagraphify_time_us"] == 2_000
    assert "times: capture of CUDA graphs 2.00 ms" in rows or "capture" in " ".join(rows)
