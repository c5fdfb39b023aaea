"""Figures, warnings, JSON and tables of measured times."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from inspector.base.names import words
from inspector.measure.time.results import (
    KernelTime,
    Peak,
    Session,
    Timing,
    read,
    stored_session,
    timing_row,
    with_time,
)
from inspector.measure.time.take import row
from inspector.render import timings
from inspector.render.jsons import dumps

BARE = Timing(
    "square_kernel",
    "780c582c",
    0,
    "cupti",
    "cold",
    grid=(64, 1, 1),
    block=(128, 1, 1),
    bytes=4_000_000,
    flops=2_000_000,
    inputs="float32 64×1024",
    count=3,
)
STEADY = {"low_mhz": 1980, "high_mhz": 1980, "most_mhz": 1980, "celsius": 30, "slowed_by": []}
PEAK = Peak("cupti", "cold", 4000.0, 2 << 30)
CONTRACT = words(
    "kernel variant call stopwatch cache median_us low_us high_us samples grid block "
    "bytes flops gb_per_s percent_of_peak warnings kind kernels cpu_us"
)


def taken(samples: list[float], **clocks: object) -> Timing:
    return with_time(BARE, {"samples": samples, "clocks": {**STEADY, **clocks}}, PEAK)


def test_bandwidth_operations_and_their_part_of_the_peak() -> None:
    found = taken([2.0] * 60)
    # 4 MB in 2 µs are 2 TB/s, half of 4; 2 million operations in 2 µs are one TFLOP/s.
    assert found.gb_per_s == pytest.approx(2000)
    assert found.percent_of_peak == pytest.approx(50)
    assert found.tflop_per_s == pytest.approx(1)
    assert (found.median_us, found.low_us, found.high_us, found.samples) == (2, 2, 2, 60)
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("samples", "clocks", "said"),
    [
        ([1.0, 2.0] * 30, {}, "the median is known to ±33.3 % only"),
        ([2.0] * 3, {}, "too few samples for an interval"),
        ([2.0] * 60, {"low_mhz": 1500}, "the SM clock moved between 1500 and 1980 MHz"),
        ([2.0] * 60, {"low_mhz": 1500, "high_mhz": 1500}, "the SM clock was 1500 MHz of 1980"),
        ([2.0] * 60, {"slowed_by": ["power cap"]}, "the device was slowed down by: power cap"),
        ([2.0] * 60 + [2.2] * 60, {}, "it took 2 µs at first and 2.2 in the end"),
    ],
)
def test_what_makes_a_figure_doubtful_is_said(
    samples: list[float], clocks: dict[str, object], said: str
) -> None:
    assert any(said in warning for warning in taken(samples, **clocks).warnings)


def session(*rows: Timing) -> Session:
    return Session(
        "2026-01-02T03:04:05+00:00", {"name": "NVIDIA H200", "torch": "2.11"}, rows, (PEAK,), 4800.0
    )


def test_json_has_every_field_of_the_contract_and_null_for_the_unknown() -> None:
    failed = replace(BARE, stopwatch=None, cache=None, bytes=None, error="no memory")
    said = json.loads(dumps(timings.document(session(taken([2.0] * 60), failed))))
    assert said["schema"] == 1
    assert all(set(r) >= CONTRACT for r in said["rows"])
    assert said["rows"][0]["grid"] == [64, 1, 1]
    assert said["rows"][1]["median_us"] is None and said["rows"][1]["gb_per_s"] is None
    assert said["rows"][1]["error"] == "no memory"


def test_whose_values_the_inputs_held_is_said() -> None:
    fresh = row(BARE, {"samples": [2.0] * 60, "kept": []}, ())
    kept = row(BARE, {"samples": [2.0] * 60, "kept": ["x", "index"]}, ())
    assert json.loads(dumps(timing_row(kept)))["kept_inputs"] == ["x", "index"]
    assert "inputs: new ones of the same kind" in timings.footnotes(session(fresh))
    text = "\n".join(timings.footnotes(session(fresh, kept)))
    assert "as the program's call had them, of square_kernel (x and index); all others" in text
    assert "inputs:" not in "\n".join(timings.footnotes(session(BARE)))  # of a time kept earlier


GRAPH = replace(
    BARE,
    kernel="0/0",
    variant="",
    kind="graph",
    median_us=9.0,
    samples=60,
    cpu_us=41.0,
    low_us=9.0,
    high_us=9.0,
    kernels=(
        KernelTime("triton_fused", "ba6e6b76", 2.0, 1, 2.0, 2.0, 60),
        KernelTime("Memset (Device)", None, 3.5, 2),
    ),
)


def test_a_graphs_kernels_are_reported_with_it() -> None:
    said = json.loads(dumps(timing_row(GRAPH)))
    assert said["variant"] is None and said["kind"] == "graph"
    assert [(k["name"], k["variant"], k["median_us"], k["per_call"]) for k in said["kernels"]] == [
        ("triton_fused", "ba6e6b76", 2.0, 1),
        ("Memset (Device)", None, 3.5, 2),
    ]
    text = printed(session(GRAPH))
    lines = [line.split() for line in text.splitlines()]
    assert ["triton_fused", "ba6e6b76", "2.00", "2.00…2.00", "60"] in lines
    assert any(line[:4] == ["Memset", "(Device)", "–", "2"] for line in lines)
    assert "CPU for 41.0 µs" in "\n".join(timings.footnotes(session(GRAPH)))


def test_a_session_is_read_as_it_was_kept() -> None:
    whole = session(taken([2.0, 3.0] * 60), replace(BARE, error="no memory", stopwatch=None), GRAPH)
    assert read(json.loads(json.dumps(stored_session(whole)))) == whole


def test_odd_rows_of_a_session_are_left_out_and_odd_fields_unknown() -> None:
    good = {**timing_row(taken([2.0] * 60)), "median_us": "fast", "grid": [1], "warnings": None}
    found = read(
        {
            "rows": [good, {}, 7, {"kernel": 1, "variant": "a", "call": 0}],
            "device": {},
            "taken": "x",
        }
    )
    assert found is not None and len(found.rows) == 1
    assert (found.rows[0].median_us, found.rows[0].grid, found.rows[0].warnings) == (None, None, ())


def printed(whole: Session, width: int = 160) -> str:
    out = StringIO()
    Console(file=out, width=width, markup=False).print(timings.table(whole, width))
    return out.getvalue()


def test_the_table_has_the_figures_and_says_what_failed() -> None:
    text = printed(session(taken([2.0] * 60), replace(BARE, variant="dead", error="no memory")))
    first, second = text.splitlines()[1:3]
    tail = ["2.00", "2.00…2.00", "60", "4", "MB", "2,000", "50", "%", "1.00"]
    assert first.split()[-len(tail) :] == tail
    assert "failed" in second and "2.00" not in second
