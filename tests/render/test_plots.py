"""Plots: ticks, lines and letters, rooflines, and the options that draw them."""

import io
import json
import math
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from inspector.commands.cli import main
from inspector.measure.time import take as running
from inspector.measure.time.results import Peak, Session, Timing
from inspector.render.pictures.picture import PlotLine
from inspector.render.races import Figure, plot, session_roofline
from inspector.system import toolchain
from inspector.system.process import Finished
from tests.helpers.ptxview import SAMPLE

SIZES = tuple(range(256, 12673, 128))
RISING = PlotLine(
    "rising", tuple((float(n), 4000 * n / (n + 800)) for n in SIZES), remark="3,763 GB/s"
)
FALLING = PlotLine("falling", tuple((float(n), 4000.0 - n / 4) for n in SIZES))
COPY = PlotLine("copy, measured", tuple((float(n), 4200.0) for n in SIZES), limit=True)
SWEEP = Figure("square", "N", "GB/s", (RISING, FALLING, COPY))


def drawn(figure: Figure, width: int, colour: bool = False) -> list[str]:
    colours: Any = "256" if colour else None
    out = Console(
        width=width, file=io.StringIO(), force_terminal=colour, color_system=colours, markup=False
    )
    with out.capture() as held:
        out.print(plot(figure, width, 20))
    return held.get().splitlines()


def test_plot_fills_the_width_and_names_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    width = 80
    lines = drawn(SWEEP, width)
    body = lines[1:21]
    assert lines[0] == "GB/s over N: square" and {len(line) for line in body[:-1]} == {width}
    assert lines[21:] == ["A rising  3,763 GB/s", "B falling", "C copy, measured"]
    inside = [line.partition("│")[2] or line.partition("┤")[2] for line in body]
    for letter in "ABC":
        assert any(letter in line for line in inside)
    # A and B are marked along their lines, from left to right, below the copy.
    found = {c: next((n, i.index(c)) for n, i in enumerate(inside) if c in i) for c in "ABC"}
    assert found["A"][1] < found["B"][1] < found["C"][1] and found["C"][0] == min(found.values())[0]
    assert "12,000" in lines[19] or "10,000" in lines[19]


def test_a_roofline_bends_where_the_bandwidth_meets_the_peak() -> None:
    rate = 4096**2 / 30.4 / 1e6
    timing = Timing("square", "", 0, "cupti", bytes=2 * 4 * 4096**2, flops=4096**2)
    timing = replace(timing, tflop_per_s=rate, inputs="float32 4096×4096")
    session = Session("", {}, (timing,), (Peak("cupti", "cold", 4000.0),))
    made = session_roofline(session, "t", {"memory_bandwidth": 4.8e12, "fp32": 67e12})
    assert made is not None
    copy, sheet, level, point = made.lines
    assert [line.limit for line in made.lines] == [True, True, True, False]
    assert point.points[0] == pytest.approx((1 / 8, rate))
    assert copy.points[1] == pytest.approx((67 / 4, 67)) and copy.points[0][0] < 1 / 8
    assert sheet.points[1] == pytest.approx((67 / 4.8, 67))
    assert level.points[0] == pytest.approx((67 / 4.8, 67)) and level.points[1][0] > 67 / 4
    assert level.name == "fp32 by data sheet"
    for line in (copy, sheet):
        (x0, y0), (x1, y1) = line.points
        assert math.log(y1 / y0) == pytest.approx(math.log(x1 / x0))
    assert point.remark == "0.125 FLOP/byte, 0.552 TFLOP/s, 110 % of copy, measured"


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recording, and a device that is made up: 4 µs a launch, a copy of 4,000 GB/s."""

    def child(argv: Sequence[str], *_: Any) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        one = {"n": None, "stopwatch": "cupti", "cache": "cold", "samples": [500.0] * 60}
        said: list[dict[str, Any]] = [
            {"device": {"name": "NVIDIA H200", "major": 9, "minor": 0}},
            {"copy": {**one, "bytes": 2_000_000_000}},
        ]
        for told in job["launches"]:
            n = told["n"]
            said += [{"begin": n}, {**one, "n": n, "samples": [4.0] * 60}, {"end": n}]
        Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in said))
        return Finished(0, b"", b"")

    for name in ("STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(running, "measure", partial(running.measure, child=child))
    return str(shutil.copy(SAMPLE, tmp_path / "lecture.ptxview"))


def test_recorded_launches_have_a_roofline_of_estimates(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [recording, "a4fe74f3", "--trust", "--python", sys.executable, "--roofline"]
    assert main(["time", *words]) == 0
    out = capsys.readouterr().out
    assert "TFLOP/s over FLOP/byte: lecture.ptxview; bytes and operations are estimates" in out
    assert "square_kernel a4fe74f3 float32 1823×781" in out and "fp32 by data sheet" in out


def test_bytes_and_operations_can_be_given_of_one_launch(
    recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trust", "--python", sys.executable]
    assert main(["time", recording, "a4fe74f3", *words, "--bytes", "8e6", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["bytes"], row["bytes_from"], row["flops_from"]) == (8_000_000, "given", "estimate")
    assert (row["gb_per_s"], row["percent_of_peak"]) == (2000.0, 50.0)
    assert main(["time", recording, "a4fe74f3", *words, "--flops", "4000000", "--roofline"]) == 0
    out = capsys.readouterr().out
    assert "bytes as estimated and operations as given" in out and "0.351 FLOP/byte" in out
    assert main(["time", recording, "square_kernel", *words, "--bytes", "1"]) == 2
    assert "--bytes and --flops are of one launch" in capsys.readouterr().err
    for bad in ("x", "0", "1.5", "-3", "inf"):
        with pytest.raises(SystemExit):
            main(["time", recording, "--bytes", bad])
