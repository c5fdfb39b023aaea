"""``list --by cost``, ``--where`` and ``--tunings``: costs, properties and rounds."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from inspector.base.model import (
    ChoiceUse,
    Configuration,
    Kernel,
    Origin,
    Recording,
    Tuning,
    Variant,
)
from inspector.base.units import microseconds
from inspector.estimate import launches
from inspector.export.collected import collect
from inspector.measure.time.planning import PlannedLaunch
from inspector.measure.time.take import store
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.render import costs as table_of_costs
from inspector.render import tunings
from inspector.render.kernel_names import titles
from inspector.sources.opening import open_path
from tests.helpers import ncu_data
from tests.helpers.ptxview import REPOSITORY, SAMPLE, call, saved, variants_of
from tests.measure.time.test_results import session, taken


def costs(path: Path) -> list[dict[str, Any]]:
    """The rows of a recording, the most expensive first."""
    rows: list[dict[str, Any]] = call("list", path, "--by", "cost", "--json").json["costs"]
    return rows


def selected(query: str, path: Path = SAMPLE) -> set[str]:
    """The ids of the variants that a query finds."""
    found = call("list", path, "--where", query, "--json").json
    return {variant["id"] for _, variant in variants_of(found)}


@pytest.fixture(scope="module")
def listed() -> list[tuple[Any, Any]]:
    """All variants as ``list --json`` has them, once their launches were estimated."""
    costs(SAMPLE)
    return variants_of(call("list", SAMPLE, "--json").json)


def test_a_tuners_time_is_no_cost(listed: list[tuple[Any, Any]]) -> None:
    rows = {row["variant"]: row for row in costs(SAMPLE)}
    launched = {v["id"]: v for _, v in listed if v["launches"]}
    tuned = [v for v in launched.values() if (v["autotune"] or {}).get("time_us")]
    assert tuned and set(rows) == set(launched)
    assert {row["source"] for row in rows.values()} == {"estimate"}
    for variant in tuned:
        assert rows[variant["id"]]["us"] != variant["autotune"]["time_us"]
    idle = call("list", SAMPLE, "--by", "cost", "--json").json["not_launched"]
    assert {row["variant"] for row in idle} == {v["id"] for _, v in listed} - set(launched)
    table = call("list", SAMPLE, "--by", "cost").text
    assert "no GPU time of 11 kernels was recorded: ptxview time, or run it again" in table


LOOP = REPOSITORY / "tests" / "data" / "gpu_times" / "loop.ptxview"
"""Two Triton kernels, a product, a softmax in a loop on an H200, under plain ``ptxview run``."""
PROFILED = [
    ("gemm", 17369.134, 173.536),
    ("softmax", 2300.928, 22.896),
    ("square", 1804.415, 17.920),
    ("rowsum", 752.129, 7.4885),
    ("gemm", 611.613, 6.176),
]
"""Name, total and median µs by torch.profiler of 100 rounds of the same loop in another process."""


def test_kernels_rank_as_torch_profiler_has_them() -> None:
    rows = [row for row in costs(LOOP) if row["launches"] > 1]
    assert len(rows) == len(PROFILED)
    whole = sum(total for _, total, _ in PROFILED)
    for row, (name, total, median) in zip(rows, PROFILED, strict=True):
        assert name in row["title"] and row["source"] == "run"
        assert row["us"] == pytest.approx(median, rel=0.1, abs=0.5)
        assert row["share_percent"] == pytest.approx(100 * total / whole, abs=1)


def test_every_view_has_the_same_time_of_a_launch(tmp_path: Path) -> None:
    by_variant = {row["variant"]: row for row in costs(LOOP)}
    variants = [variant for _, variant in variants_of(call("list", LOOP, "--json").json)]
    assert len(variants) == len(by_variant)
    text = call("list", LOOP).text
    for variant in variants:
        row, time = by_variant[variant["id"]], variant["launch_time"]
        assert (time["us"], time["source"], time["timed"]) == (row["us"], "run", row["timed"])
        assert time["measured"] and f" {microseconds(row['us'])} " in text
    (square,) = (v for v in variants if v["id"] == "3ade1c39")
    brief = call("show", LOOP, "3ade1c39", "--brief", "--json").json["figures"]
    assert (brief["time"], brief["time_from"]) == (square["launch_time"]["us"], "run")
    shown = call("show", LOOP, "3ade1c39", "-a").text
    assert "17.9 µs a launch (median while the program ran, of 8,505 timed launches)" in shown
    page = tmp_path / "issue.md"
    assert call("export", LOOP, "square", "--format", "markdown", "-o", page).status == 0
    assert "| 17.9 µs |" in page.read_text("utf-8")
    assert selected("time>20", LOOP) == {"01c19ee9", "7aeda43a", "e13c787a"}


def test_a_narrow_table_keeps_what_a_kernel_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    title, heads, *rows = call("list", LOOP, "--by", "cost").text.splitlines()[1:]
    assert title == "GPU time of 6 of 6 launched kernels · GPU busy 96 % of 95.2 ms"
    assert heads.split() == ["kernel", "launches", "µs", "total", "share", "from"]
    assert all(len(row) <= 80 for row in (title, heads, *rows))
    assert re.search(r"8,505 +173\.6 +1,477 ms +76\.3 % +█{12}", rows[0])
    assert re.search(r"≥ 1 +22\.2 +22\.2 µs +0\.0 %", rows[5])


def without_times(tmp_path: Path) -> Path:
    """The loop as a recording without the GPU's times."""
    path = tmp_path / "untimed.ptxview"
    collected = collect(LOOP)
    timed = ("driver_times", "timeline")
    collected.events = [one for one in collected.events if one["event"] not in timed]
    collected.write(path)
    return path


def test_launches_without_a_time_are_bounded_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "ESTIMATE_SECONDS", -1.0)
    path = without_times(tmp_path)
    measured = {row["variant"]: row["us"] for row in costs(LOOP)}
    rows = [row for row in costs(path) if row["us"] is not None]
    assert [row["title"] for row in rows] == ["square", "rowsum"]
    for row in rows:
        assert row["source"] == "bound"
        assert 0.5 * measured[row["variant"]] < row["us"] < measured[row["variant"]]
    done = call("list", path, "--by", "cost")
    assert "≥ 14.0" in done.text and "2 kernels not estimated yet" in done.said
    assert "≥: a lower bound" in done.said
    time = variants_of(call("list", path, "--json").json)[0][1]["launch_time"]
    assert (time["source"], time["measured"]) == ("bound", False)


def test_an_estimate_is_simulated_once_and_replaces_no_measured_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = without_times(tmp_path)
    simulated: list[str] = []

    def simulate(reader: object, planned: PlannedLaunch, device: object) -> tuple[float, object]:
        simulated.append(planned.kernel.name)
        return 30.0, None

    monkeypatch.setattr(launches, "simulated", simulate)
    monkeypatch.setattr(launches, "__version__", str(tmp_path))  # as nobody has kept it yet
    assert {row["us"] for row in costs(LOOP) if row["source"] == "estimate"} == set()
    assert not simulated
    for _ in range(2):
        rows = {row["title"]: row for row in costs(path)}
        assert (rows["square"]["us"], rows["square"]["source"]) == (30.0, "estimate")
        assert sorted(simulated) == ["rowsum", "square"]
    assert "≈ 30.0" in call("list", path).text


def test_ncus_times_are_those_of_its_report(tmp_path: Path) -> None:
    """Of the five launches of the report three are of machine code in the recording."""
    report = saved(tmp_path / "details.csv", ncu_data.text("details"))
    document = call("list", SAMPLE, "--by", "cost", "--json", "--ncu", report).json
    rows = [row for row in document["costs"] if row["source"] == "ncu"]
    durations = [float(us) for us in ncu_data.column("gpu__time_duration.sum")]
    expected = sorted((durations[launch] for launch in (0, 1, 3)), reverse=True)
    assert [row["us"] for row in rows] == pytest.approx(expected, abs=0.005)
    assert [row["total_us"] for row in rows] == [row["us"] * row["launches"] for row in rows]
    text = call("list", SAMPLE, "--by", "cost", "--ncu", report).text
    assert len(re.findall(r"  31\.1 .*  ncu  ", text)) == 1
    assert "GPU time of 3 of 11 launched kernels" in text


def test_a_time_that_was_taken_replaces_ncus(tmp_path: Path) -> None:
    path = tmp_path / "copy.ptxview"
    shutil.copy(SAMPLE, path)
    report = saved(tmp_path / "details.csv", ncu_data.text("details"))
    row = replace(taken([1.5] * 60), kernel="square_kernel", variant="780c582c")
    store(path, session(row))
    costs = call("list", path, "--by", "cost", "--json", "--ncu", report).json["costs"]
    found = {row["variant"]: (row["source"], row["us"]) for row in costs}
    assert found["780c582c"] == ("time", 1.5) and found["a4fe74f3"][0] == "ncu"


def test_a_time_that_was_taken_orders_the_rows(tmp_path: Path) -> None:
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
        ("time>1", lambda v: (v["launch_time"] or {"us": 0})["us"] > 1),
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
    noise = [row.noise for row in tunings.round_rows(rec, {})]
    assert noise == [pytest.approx(0.3), pytest.approx(0.3)]


def test_a_cache_has_the_tile_of_a_product_by_its_dot(tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "A"
    entry.mkdir(parents=True)
    shutil.copy(REPOSITORY / "tests/data/parsers/matmul_sm90.ttgir", entry / "matmul.ttgir")
    (entry / "matmul.json").write_text(json.dumps({"hash": "ab" * 32, "name": "matmul"}))
    ((_, variant),) = variants_of(call("list", tmp_path / "cache", "--json").json)
    assert re.fullmatch(r"\d+·\d+·\d+", variant["tile"])
    assert variant["tile"] in call("list", tmp_path / "cache").out.decode()


def test_candidates_of_one_code_are_one_fact_and_their_spread_is_noise() -> None:
    kernel = replace(MM, autotune=(round_of("mm", 10, 11),))
    rec = Recording("x", (kernel,))
    assert tunings.round_rows(rec, {})[0].noise is None
    found = tunings.round_rows(rec, {"f": b"code", "s": b"code"})[0]
    assert found.noise == pytest.approx(0.1)
    assert [(row.same_code_as, row.tied) for row in found.candidates] == [
        (None, False),
        ("f", True),
    ]


def test_a_round_says_what_launching_may_take_of_each_of_its_times() -> None:
    def tuned(size: int, us: float) -> Kernel:
        times = (Configuration({}, None, us), Configuration({"X": 1}, None, 100.0))
        tuning = Tuning("inductor", {"x": size}, times, 0, "InductorBenchmarker")
        return Kernel(f"{size}", "k", "k", Origin.INDUCTOR, (), autotune=(tuning,))

    def overheads(*kernels: Kernel) -> list[str]:
        lines = [one.text.plain for one in tunings.lines(Recording("x", kernels), 120, {})]
        assert not any("≤" in line for line in lines)
        return [line.split()[6] for line in lines if line.startswith("  launching alone may")]

    assert overheads(tuned(1 << 20, 14)) == ["4.00"]
    assert overheads(tuned(1 << 20, 14), tuned(128, 15)) == ["15.0", "15.0"]
    # The same is said of times on either side of it.
    assert overheads(tuned(1 << 20, 29.5), tuned(1 << 21, 30.1), tuned(128, 30)) == ["30.0"] * 3
    assert overheads(tuned(1 << 20, 14), tuned(128, 3.5)) == ["4.00", "4.00"]


def test_no_two_generated_kernels_have_one_title() -> None:
    rec = open_path(SAMPLE)
    (generated,) = (k for k in rec.kernels if k.origin is Origin.INDUCTOR and k.fusion)
    twin = replace(generated, id=f"{generated.id}@2")
    named = titles(replace(rec, kernels=(generated, twin)))
    assert len(set(named.values())) == 2
    assert "1823×781 fp32" in named[generated.id] and "fused.py:" in named[generated.id]


def test_the_heading_of_a_tuning_groups_the_digits_of_its_launches() -> None:
    rec = open_path(SAMPLE)
    (generated,) = (k for k in rec.kernels if k.origin is Origin.INDUCTOR and k.fusion)
    (variant,) = generated.variants
    launched = replace(generated, variants=(replace(variant, launches=12760),))
    tuned = replace(launched, autotune=(round_of("mm", 10, 11),))
    first, *_ = tunings.lines(replace(rec, kernels=(tuned,)), 200, {})
    assert " · 12,760 launches" in first.text.plain


def test_the_number_of_a_title_selects_its_kernel() -> None:
    path = REPOSITORY / "examples/recordings/lecture-h200.ptxview"
    shown = call("show", path, "#0", "--stage", "ptx", "--json").json
    assert [one["variant"] for one in shown["functions"]] == ["ba6e6b76"]
    missing = call("show", path, "#77")
    assert missing.status == 2 and "#77" in missing.said


def test_hints_are_counted_of_the_costliest_kernels_while_there_is_time() -> None:
    recording = open_path(LOOP)
    reader = Reader(recording, user_derived_cache())
    asked: list[str] = []

    def rules_of_two(variant: Variant) -> tuple[str, ...] | None:
        asked.append(variant.id)
        return () if len(asked) <= 2 else None

    evidence = replace(launches.launch_evidence(reader), rules=rules_of_two)
    found = table_of_costs.costs(recording, evidence)
    assert asked == [row.variant.id for row in found.rows if row.variant is not None]
    assert [row.hint for row in found.rows[:3]] == ["", "", None]
    unread = len(found.rows) - 2
    assert any(
        text.startswith(f"hints of {unread} kernels not counted yet")
        for text in table_of_costs.footnotes(found)
    )
