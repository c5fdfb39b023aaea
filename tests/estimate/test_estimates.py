"""``ptxview time --estimate``: times of recorded launches without a GPU, or a reason."""

from typing import Any

import pytest

from inspector.base.stage import Stage
from inspector.commands.common import open_reader
from inspector.estimate.launches import LaunchEstimates, peak_of
from inspector.parsers import parse
from tests.helpers.ptxview import DATA, SAMPLE, call

RECORDED = str(SAMPLE)
MEASURED = {"780c582c": 1.38, "a4fe74f3": 3.78, "ed6dc2ce": 4.13}
"""µs by CUPTI of three kernels of the recording on an H200 (docs/guide/time-and-profile.md)."""


def rows(*words: str) -> list[dict[str, Any]]:
    done = call("time", RECORDED, *words, "--estimate", "--json")
    assert done.status == 0, done.said
    found: list[dict[str, Any]] = done.json["rows"]
    return found


def test_the_measured_times_are_within_the_intervals() -> None:
    found = {row["variant"]: row for row in rows(*MEASURED)}
    for variant, us in MEASURED.items():
        row = found[variant]
        assert (row["stopwatch"], row["cache"], row["samples"]) == ("estimate", "cold", 0)
        assert row["low_us"] < us < row["high_us"], variant
        assert row["low_us"] < row["median_us"] < row["high_us"]
        assert row["gb_per_s"] is row["percent_of_peak"] is row["cpu_us"] is None
        assert row["warnings"] == []


def test_a_kernel_of_nvcc_is_executed_on_memory_of_unknown_size() -> None:
    path = SAMPLE.with_name("squares-h200.ptxview")
    (row,) = call("time", path, "square_matrix_kernel", "--estimate", "--json").json["rows"]
    assert row["low_us"] < 6.1 < row["high_us"]  # README.md
    done = call("trace", path, "square_matrix_kernel")
    assert done.status == 2  # a value that is read would be made up


HOT = {"29f5764e": (9.73, 7.22), "0491aab1": (11.87, 11.68), "e70a4719": (6.05, 4.70)}
"""µs by CUPTI on an H200 of three kernels of Liger-Kernel, with a cold and a hot L2; the 50 MB of
the second one do not stay in it."""


def test_with_a_hot_l2_launches_are_as_much_faster_as_on_a_gpu() -> None:
    path = DATA.parent / "estimate" / "hot.ptxview"
    found = {}
    for cache in ("cold", "hot"):
        words = ("time", path, "--estimate", "--calls", "1", f"--cache={cache}", "--json")
        found[cache] = {row["variant"]: row for row in call(*words).json["rows"]}
        assert {row["cache"] for row in found[cache].values()} == {cache}
    assert "hot L2" in call("time", path, "29f5764e", "--estimate", "--cache=hot").text
    for variant, measured in HOT.items():
        estimated = [found[cache][variant] for cache in ("cold", "hot")]
        for row, us in zip(estimated, measured, strict=True):
            assert row["low_us"] < us < row["high_us"], variant
        ratio = estimated[1]["median_us"] / estimated[0]["median_us"]
        assert ratio == pytest.approx(measured[1] / measured[0], abs=0.15)


def test_more_memory_bandwidth_is_never_slower() -> None:
    (fast,), (slow,) = (rows("a4fe74f3", "--device", name) for name in ("H200", "H100"))
    assert fast["median_us"] < slow["median_us"]


def test_where_the_model_has_no_right_to_speak_the_row_says_why() -> None:
    (row,) = rows("290e47d8")
    assert row["median_us"] is row["low_us"] is row["call"] is None
    (why,) = row["warnings"]
    assert "no call" in why


def test_without_a_device_that_is_known_there_is_no_time() -> None:
    done = call("time", RECORDED, "--estimate", "--device", "V100")
    assert done.status == 2
    assert "H100 and H200" in done.said


@pytest.mark.parametrize("option", ["--stored", "--roofline", "--cache=dirty"])
def test_options_of_measured_times_are_refused(option: str) -> None:
    done = call("time", RECORDED, "--estimate", option)
    assert done.status == 2
    assert option.partition("=")[0] in done.said


def test_a_table_marks_estimates() -> None:
    done = call("time", RECORDED, "a4fe74f3", "--estimate")
    assert done.status == 0
    assert "≈" in done.text and "85 %" in done.text


def test_cycles_are_on_the_line_that_is_waited_for() -> None:
    def lines(stage: str) -> dict[str, float]:
        done = call("show", RECORDED, "ed6dc2ce", "--stage", stage, "--estimate", "--json")
        return {one["text"]: one["estimated_percent"] for one in done.json["lines"]}

    source, sass = lines("source"), lines("sass")
    assert sum(sass.values()) == pytest.approx(100, abs=1)
    assert "tl.load(" in max(source, key=lambda text: source[text])
    assert max(sass, key=lambda text: sass[text]).count("LDG") == 1
    without = call("show", RECORDED, "ed6dc2ce", "--json").json["lines"]
    assert {line["estimated_percent"] for line in without} == {None}


def test_cycles_by_line_are_kept_for_the_next_reader() -> None:
    reader = open_reader(str(RECORDED))
    kernel, variant = next(p for p in reader.recording.variants() if p[1].id == "ed6dc2ce")
    cycles = LaunchEstimates(reader).cycles(kernel, variant)
    again = LaunchEstimates(open_reader(str(RECORDED)))
    assert cycles and again.kept_cycles(kernel, variant) == cycles
    assert again.stored_us(kernel, variant) is not None


def test_launches_without_a_time_are_estimated_unasked() -> None:
    rows = call("list", RECORDED, "--by", "cost", "--json").json["costs"]
    assert rows and {row["source"] for row in rows} == {"estimate"}
    session = call("time", RECORDED, "a4fe74f3", "--estimate", "--json").json
    (us,) = (row["us"] for row in rows if row["variant"] == "a4fe74f3")
    assert us == pytest.approx(session["rows"][0]["median_us"])


SAMPLE_LINES = {
    "fp32": "%0 = arith.addf %1, %2 : tensor<64xf32>",
    "narrow": "%0 = arith.addf %1, %2 : tensor<64xbf16>",
    "fp16_tensor": "%0 = tt.dot %a, %b, %c : tensor<64x32xf16> * tensor<32x64xf16>",
    "tf32_tensor": "%0 = tt.dot %a, %b, %c : tensor<64x32xf32> * tensor<32x64xf32>",
    "fp8_tensor": "%0 = tt.dot %a, %b, %c : tensor<64x32xf8E4M3FN> * tensor<32x64xf8E4M3FN>",
}


@pytest.mark.parametrize("unit", SAMPLE_LINES)
def test_a_bound_takes_the_fastest_unit_that_may_run_the_operations(unit: str) -> None:
    peaks = {"fp32": 1.0, "tf32_tensor": 8.0, "fp16_tensor": 16.0, "fp8_tensor": 32.0}
    wanted = {"narrow": 2.0} | peaks
    lines = parse(Stage.TTIR, SAMPLE_LINES[unit]).lines
    assert peak_of(lines, peaks) == wanted[unit]
    assert peak_of(lines, {}) is None
