"""``list --by cost``, ``--where`` and ``--tunings``: costs, properties and rounds."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from inspector.base.model import ChoiceUse, Configuration, Kernel, Origin, Recording, Tuning
from inspector.measure.time.take import store
from inspector.report import tunings
from inspector.report.tables import titles
from inspector.sources.opening import open_path
from tests.helpers.ptxview import REPOSITORY, SAMPLE, call, variants_of
from tests.measure.time.test_results import session, taken


def costs(path: Path) -> list[dict[str, Any]]:
    """The rows of a recording, the most expensive first."""
    rows: list[dict[str, Any]] = call("list", path, "--by", "cost", "--json").json["costs"]
    return rows


def selected(query: str) -> set[str]:
    """The ids of the variants that a query finds."""
    found = call("list", SAMPLE, "--where", query, "--json").json
    return {variant["id"] for _, variant in variants_of(found)}


@pytest.fixture(scope="module")
def listed() -> list[tuple[Any, Any]]:
    """All variants as ``list --json`` has them."""
    return variants_of(call("list", SAMPLE, "--json").json)


def test_a_launched_variant_costs_what_its_tuner_measured(listed: list[tuple[Any, Any]]) -> None:
    rows = {row["variant"]: row for row in costs(SAMPLE)}
    launched = {v["id"]: v for _, v in listed if v["launches"]}
    assert set(rows) == set(launched)
    for name, variant in launched.items():
        tuned = (variant["autotune"] or {}).get("time_us")
        assert rows[name]["us"] == tuned
        assert rows[name]["source"] == (None if tuned is None else "tuner")
        assert rows[name]["total_us"] == (None if tuned is None else tuned * variant["launches"])
    idle = call("list", SAMPLE, "--by", "cost", "--json").json["not_launched"]
    assert {row["variant"] for row in idle} == {v["id"] for _, v in listed} - set(launched)


def test_a_measured_time_goes_before_the_tuners_and_orders_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "copy.ptxview"
    shutil.copy(SAMPLE, path)
    rec = open_path(path)
    first = costs(path)[0]
    times = {first["variant"]: 2.0}
    times[next(v.id for _, v in rec.variants() if v.launches and v.id not in times)] = 50.0
    rows = [
        replace(taken([us] * 60), kernel=kernel.name, variant=variant.id)
        for kernel, variant in rec.variants()
        for us in (times.get(variant.id),)
        if us is not None
    ]
    store(path, session(*rows))
    found = costs(path)
    by_variant = {row["variant"]: row for row in found}
    assert {name: (by_variant[name]["us"], by_variant[name]["source"]) for name in times} == {
        name: (us, "time") for name, us in times.items()
    }
    totals = [row["total_us"] for row in found if row["total_us"] is not None]
    assert totals == sorted(totals, reverse=True)
    assert sum(row["share_percent"] or 0 for row in found) == pytest.approx(100)


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("regs>20", lambda v: v["resources"]["registers"] > 20),
        ("launched", lambda v: bool(v["launches"])),
        ("launches=0 warps=4", lambda v: v["launches"] == 0 and v["config"]["num_warps"] == 4),
        ("best", lambda v: bool((v["autotune"] or {}).get("winner"))),
        ("time>1", lambda v: bool(v["launches"] and (v["autotune"] or {}).get("time_us"))),
    ],
)
def test_a_query_finds_what_the_listing_says(
    listed: list[tuple[Any, Any]], query: str, holds: Any
) -> None:
    wanted = {v["id"] for _, v in listed if holds(v)}
    assert wanted and wanted != {v["id"] for _, v in listed}
    assert selected(query) == wanted


def test_an_operation_is_looked_for_in_the_machine_code(listed: list[tuple[Any, Any]]) -> None:
    texts = {
        v["id"]: call("show", SAMPLE, v["id"], "--stage", "sass").text
        for _, v in listed
        if "sass" in v["stages"]
    }
    for word in ("HMMA", "BAR"):
        wanted = {name for name, text in texts.items() if f" {word}." in text}
        assert selected(f"op:{word}") == wanted


def test_a_hint_is_found_where_the_gate_forbids_it() -> None:
    gate = call("check", SAMPLE, "--forbid", "small-grid", "--json")
    assert gate.status == 1
    checks = json.loads(gate.text)["checks"]
    broken = {row["variant"] for row in checks if row["outcome"] == "broken"}
    assert broken and selected("hint:small-grid") == broken


@pytest.mark.parametrize(
    ("query", "said"),
    [("regz>1", "Did you mean regs?"), ("opp:HMMA", "Did you mean op?"), ("regs>x", "regs>128")],
)
def test_an_unknown_property_names_the_nearest(query: str, said: str) -> None:
    done = call("list", SAMPLE, "--where", query)
    assert done.status == 2 and said in done.said


MM = Kernel("mm", "mm", "mm", Origin.INDUCTOR, ())
FAST, SLOW = ({"choice": "triton_mm", "BLOCK_M": 64, "num_warps": n} for n in (4, 8))


def round_of(node: str, fast: float, slow: float) -> Tuning:
    """A round that chose between two candidates, the faster won."""
    rows = (Configuration(FAST, "f", fast, maker="Triton"), Configuration(SLOW, "s", slow))
    return Tuning(
        "inductor", {"n": 1}, rows, best=0 if fast < slow else 1, operation="mm",
        uses=(ChoiceUse("0/0", node, 0, "made"),),
    )  # fmt: skip


def test_each_round_has_its_table_its_star_and_the_noise_between_rounds() -> None:
    kernel = replace(MM, autotune=(round_of("mm_1", 10, 11), round_of("mm_2", 13, 12)))
    rec = Recording("x", (kernel,))
    lines = [line.text.plain for line in tunings.lines(rec, 120, {})]
    assert [line for line in lines if "round" in line and "mm_" in line] == [
        "mm · round 1 of 2 · for mm_1",
        "mm · round 2 of 2 · for mm_2",
    ]
    stars = [line.split() for line in lines if line.startswith("★")]
    assert [("10.0" in star, "12.0" in star) for star in stars] == [(True, False), (False, True)]
    noise = [row["noise"] for row in tunings.document(rec, {})]
    assert noise == [pytest.approx(0.3), pytest.approx(0.3)]


def test_a_cache_has_the_tile_of_a_product_by_its_dot(tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "A"
    entry.mkdir(parents=True)
    shutil.copy(REPOSITORY / "tests/data/listing/matmul_sm90.ttgir", entry / "matmul.ttgir")
    (entry / "matmul.json").write_text(json.dumps({"hash": "ab" * 32, "name": "matmul"}))
    ((_, variant),) = variants_of(call("list", tmp_path / "cache", "--json").json)
    assert re.fullmatch(r"\d+·\d+·\d+", variant["tile"])
    assert variant["tile"] in call("list", tmp_path / "cache").out.decode()


def test_candidates_of_one_code_are_one_fact_and_their_spread_is_noise() -> None:
    kernel = replace(MM, autotune=(round_of("mm", 10, 11),))
    rec = Recording("x", (kernel,))
    assert tunings.document(rec, {})[0]["noise"] is None
    found: Any = tunings.document(rec, {"f": b"code", "s": b"code"})[0]
    assert found["noise"] == pytest.approx(0.1)
    assert [(row["same_code_as"], row["tied"]) for row in found["candidates"]] == [
        (None, False),
        ("f", True),
    ]


def test_a_tuners_time_of_a_launch_alone_is_at_most_that() -> None:
    def tuned(size: int, us: float) -> Kernel:
        times = (Configuration({}, None, us), Configuration({"X": 1}, None, 100.0))
        tuning = Tuning("inductor", {"x": size}, times, 0, "InductorBenchmarker")
        return Kernel(f"{size}", "k", "k", Origin.INDUCTOR, (), autotune=(tuning,))

    def marked(*kernels: Kernel) -> list[str]:
        lines = [one.text.plain for one in tunings.lines(Recording("x", kernels), 120, {})]
        stars = [line for line in lines if line.startswith("★")]
        return [star.split("≤ ")[1].split()[0] for star in stars if "≤" in star]

    assert marked(tuned(1 << 20, 14)) == []
    assert marked(tuned(1 << 20, 14), tuned(128, 15)) == ["14.0", "15.0"]
    assert marked(tuned(1 << 20, 14), tuned(128, 5)) == ["5.00"]
    assert marked(tuned(1 << 20, 3.5)) == ["3.50"]


def test_no_two_generated_kernels_have_one_title() -> None:
    rec = open_path(SAMPLE)
    (generated,) = (k for k in rec.kernels if k.origin is Origin.INDUCTOR and k.fusion)
    twin = replace(generated, id=f"{generated.id}@2")
    named = titles(replace(rec, kernels=(generated, twin)))
    assert len(set(named.values())) == 2
    assert "1823×781 fp32" in named[generated.id] and "fused.py:" in named[generated.id]


def test_the_number_of_a_title_selects_its_kernel() -> None:
    path = REPOSITORY / "examples/recordings/lecture-h200.ptxview"
    shown = call("show", path, "#0", "--stage", "ptx", "--json").json
    assert [one["variant"] for one in shown["functions"]] == ["ba6e6b76"]
    missing = call("show", path, "#77")
    assert missing.status == 2 and "#77" in missing.said
