"""``ptxview time SCRIPT.py`` with made-up children: ranks, table, JSON, CSV, plots."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from inspector.base.errors import UsageError
from inspector.commands.cli import main
from inspector.measure.time import take as time_script
from inspector.measure.time.take import fixed, sweep
from inspector.system import toolchain
from inspector.system.process import Finished
from tests.helpers.schemas import hold

OURS = ("--python", sys.executable)
NAMES = ["slow", "fast", "near", "wrong", "broken"]
TIMES = {"slow": 8.0, "fast": 4.0, "near": 4.02, "wrong": 1.0}
Job = dict[str, Any]


def samples(us: float) -> list[float]:
    return [us * (1 + 0.02 * ((n % 11) - 5) / 5) for n in range(110)]


def row(n: int, name: str) -> Iterable[Job]:
    """What a child writes of one variant; the broken one ends it."""
    about = {"inputs": [("float32", (3, 4))], "bytes": 8_000_000, "flops": 1_000_000}
    yield {"begin": n}
    yield {"n": n, "about": about}
    if name == "broken":
        return
    why = "Mismatched elements: 6 / 12 (50.0%); 6 NaN: were they written?"
    verdict = {"agrees": name != "wrong", "difference": 0.25}
    yield {"n": n, "checked": {**verdict, "why": why if name == "wrong" else None}}
    us = TIMES[name]
    kernels = [{"name": "void k<float>(float*)", "per_call": 2, "samples": samples(us / 2)}]
    more = {"span": samples(us * 1.5), "kernels": kernels, "cpu": samples(20.0), "clocks": {}}
    yield {"n": n, "stopwatch": "cupti", "cache": "cold", "samples": samples(us), **more}
    yield {"end": n}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Children on a made-up device, one of which dies in the broken variant."""
    jobs: list[Job] = []

    def child(argv: Sequence[str], *_: object) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        jobs.append(job)
        lines: list[Job] = [{"device": {"name": "NVIDIA H200", "major": 9, "minor": 0}}]
        if "launches" not in job:
            sizes = {"N": 4, "M": 3, "K": None}
            lines = [{"variants": NAMES, "sizes": sizes, "parameters": list(sizes)}]
        elif job["copy"]:
            copied = {"stopwatch": "cupti", "cache": "cold", "samples": [500.0] * 60}
            lines.append({"copy": {**copied, "bytes": 2_000_000_000}})
        for launch in job.get("launches", ()):
            lines += row(launch["n"], launch["variant"])
            if launch["variant"] == "broken":
                break
        Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Finished(-11 if "about" in lines[-1] else 0, b"", b"")

    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(time_script, "_run_in_current_folder", child)
    return jobs


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "mine.py").write_text("the made-up children do not read it")
    return str(tmp_path / "mine.py")


def timed(capsys: pytest.CaptureFixture[str], script: str, *words: str) -> Any:
    """The JSON of the variants' times; the exit status is 1, since one is wrong."""
    assert main(["time", script, "--json", *words, *OURS]) == 1
    return json.loads(capsys.readouterr().out)


def test_a_sweep_is_the_sizes_it_names() -> None:
    assert sweep("N=256:1024:256") == ("N", [256, 512, 768, 1024])
    assert len(sweep("N=256:12672:128")[1]) == 98 and sweep("N=256:12672:128")[1][-1] == 12672
    assert sweep("N=1:10:4")[1] == [1, 5, 9]
    assert sweep(" N = 64:1000:*4") == ("N", [64, 256])
    assert sweep("N=781,64,781") == ("N", [64, 781])
    assert fixed(["M=3", "K=9"]) == {"M": 3, "K": 9}


INVALID = "N =1:2:3 N= N=1:2 N=0:9:3 N=1:9:0 N=1:9:*1 N=9:1:1 N=1,x N=-1,3 1N=1,2 N=1:99999:1"


@pytest.mark.parametrize("text", INVALID.split())
def test_invalid_ranges_of_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        sweep(text)


def test_agreeing_variants_are_ranked_and_overlapping_intervals_share_a_rank(
    script: str, gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {r["variant"]: r for r in timed(capsys, script)["rows"]}
    ranks = {name: r["rank"] for name, r in rows.items()}
    assert ranks == {"slow": 3, "fast": 1, "near": 1, "wrong": None, "broken": None}
    slow = rows["slow"]
    assert slow["slower"] == pytest.approx(2) and slow["gb_per_s"] == pytest.approx(1000)
    assert slow["percent_of_peak"] == pytest.approx(25)
    (kernel,) = slow["kernels"]
    assert (kernel["name"], kernel["per_call"]) == ("void k<float>(float*)", 2)
    assert slow["cpu_us"] == pytest.approx(20) and slow["span_us"] == pytest.approx(12)
    assert rows["wrong"]["agrees"] is False and rows["wrong"]["median_us"] == pytest.approx(1)
    assert rows["broken"]["agrees"] is None and rows["broken"]["median_us"] is None
    assert rows["broken"]["error"] == "the process was ended by SIGSEGV"


def test_json_has_the_fields_of_a_timing_and_of_the_comparison(
    script: str, gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    said = timed(capsys, script, "--size", "M=3")
    hold("time", said)
    assert (said["schema"], said["script"], said["swept"]) == (1, script, None)
    assert said["data_sheet_gb_per_s"] == 4800 and said["peak"][0]["copy_gb_per_s"] == 4000
    assert (said["rows"][0]["variant"], said["rows"][0]["sizes"]) == ("slow", {"M": 3})
    assert gpu[1]["launches"][0]["sizes"] == {"M": 3} and gpu[0]["script"] == script


def test_a_sweep_is_plotted_and_written(
    script: str, gpu: list[Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "x.csv"
    words = ["--sweep", "N=4:12:4", "--csv", str(table), *OURS]
    assert main(["time", script, *words]) == 1
    out = capsys.readouterr().out
    assert "GB/s over N: mine · M=3" in out
    assert "A slow  1,000 GB/s at N=12" in out and "copy, measured  4,000 GB/s" in out
    assert "float32 3×4 (N=12, M=3)" in out
    assert "broken: failed: the process was ended by SIGSEGV (N=4, N=8, N=12)" in out
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [r["N"] for r in rows] == ["4"] * 5 + ["8"] * 5 + ["12"] * 5
    assert float(rows[1]["median_us"]) == pytest.approx(4) and rows[1]["rank"] == "1"
    assert (rows[3]["agrees"], rows[3]["rank"]) == ("False", "")
    assert rows[4]["median_us"] == "" and rows[4]["error"] == "the process was ended by SIGSEGV"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["more"], "more is one word too many"),
        (["--stored"], "--stored, --bytes and --flops are for recordings"),
        (["--bytes", "3"], "bytes_of() and flops_of()"),
        (["--csv", "/no/such/folder/x.csv"], "/no/such/folder/x.csv cannot be written"),
        (["--sweep", "N=3", "--size", "N=4"], "both --sweep and --size"),
    ],
)
def test_invalid_options_are_refused_before_anything_runs(
    script: str, gpu: list[Job], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", script, *words, *OURS]) == 2
    assert said in capsys.readouterr().err and gpu == []
