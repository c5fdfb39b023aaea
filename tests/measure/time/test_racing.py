"""``ptxview time SCRIPT.py``: children that are made up, ranks, tables, CSV, plots."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inspector.capture import machine
from inspector.cli import main
from inspector.errors import ToolMissing, Unreadable, UsageError
from inspector.measure.time import racing
from inspector.measure.time import script as time_script
from inspector.measure.time.child import NO_DEVICE, NO_TORCH, TimeWish
from inspector.measure.time.racing import Task, measure
from inspector.measure.time.ranking import (
    Race,
    Sweep,
    best_first,
    fixed,
    peaks_of,
    rows_of,
    sweep,
    together,
)
from inspector.report import race as report
from inspector.system.process import Finished

OURS = ("--python", sys.executable)
NAMES = ["slow", "fast", "near", "wrong", "broken"]
TIMES = {"slow": 8.0, "fast": 4.0, "near": 4.02, "wrong": 1.0}
FINE = Finished(0, b"", b"")
Job = dict[str, Any]


def samples(us: float) -> list[float]:
    return [us * (1 + 0.02 * ((n % 11) - 5) / 5) for n in range(110)]


def row(n: int, name: str) -> Iterable[Job]:
    """What a child says of one variant; of the one that is broken it says nothing more."""
    about = {"inputs": "float32 3×4", "dtypes": ["float32"], "bytes": 8_000_000, "flops": 1_000_000}
    yield {"begin": n, "phase": "first call"}
    yield {"n": n, "about": about}
    yield {"phase": "running"}
    if name == "broken":
        return
    why = "6 of 12 values differ, 6 of them NaN: were they written?" if name == "wrong" else None
    yield {"n": n, "checked": {"agrees": why is None, "difference": 0.25, "why": why}}
    us = TIMES[name]
    kernels = [{"name": "void k<float>(float*)", "samples": samples(us / 2)}] * 2
    more = {"span": samples(us * 1.5), "kernels": kernels, "cpu": samples(20.0), "clocks": {}}
    yield {"n": n, "stopwatch": "cupti", "cache": "cold", "samples": samples(us), **more}
    yield {"end": n}


def child(jobs: list[Job], broken: Finished, argv: Sequence[str], *_: Any) -> Finished:
    """A child on a device that is made up; it ends in the variant that is broken."""
    job = json.loads(Path(argv[-2]).read_text())
    jobs.append(job)
    one = {"stopwatch": "cupti", "cache": "cold", "samples": [500.0] * 60}
    lines: list[Job] = [
        {"device": {"name": "NVIDIA H200", "major": 9, "minor": 0, "torch": "2.11"}},
        {"declared": {"variants": NAMES, "sizes": {"N": 4, "M": 3, "K": None}}},
    ]
    if job["copy"]:
        lines.append({"copy": {**one, "bytes": 2_000_000_000}})
    ended = FINE
    for n in range(len(NAMES) * len(job["sizes"])):
        if n in job["done"]:
            continue
        lines += row(n, NAMES[n % len(NAMES)])
        if NAMES[n % len(NAMES)] == "broken":
            ended = broken
            break
    cut = '{"n": 1, "samp' if ended.status else ""
    Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in lines) + cut)
    return ended


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    jobs: list[Job] = []
    made = partial(child, jobs, Finished(-11, b"", b""))
    monkeypatch.setattr(machine, "gpu_present", lambda: True)
    monkeypatch.setattr(
        racing, "measure", lambda python, task, say, _: measure(python, task, say, made)
    )
    return jobs


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "mine.py").write_text("the made-up children do not read it")
    return str(tmp_path / "mine.py")


def compared(sizes: Sequence[dict[str, int]], swept: str | None = None) -> Race:
    made = partial(child, [], Finished(-11, b"", b""))
    gathered = measure(
        "python", Task(Path("x.py"), sizes, TimeWish("cupti", "cold", 1, 60)), child=made
    )
    peaks = peaks_of(gathered.copies)
    rows = rows_of(gathered, "x", sizes, peaks)
    return Race("now", "x.py", "python", gathered.device, rows, peaks, 4800.0, swept,
                      gathered.sizes)  # fmt: skip


# -- sizes ----------------------------------------------------------------------------------------


def test_sizes_are_read_as_they_are_written() -> None:
    assert sweep("N=256:1024:256") == Sweep("N", (256, 512, 768, 1024))
    assert len(sweep("N=256:12672:128").values) == 98
    assert sweep("N=256:12672:128").values[-1] == 12672
    assert sweep("N=1:10:4").values == (1, 5, 9)
    assert sweep(" N = 64:1000:*4") == Sweep("N", (64, 256))
    assert sweep("N=781,64,781") == Sweep("N", (64, 781))
    assert fixed(["M=3", "K=9"]) == {"M": 3, "K": 9}
    assert together(sweep("N=1,2"), {"M": 3}) == [{"N": 1, "M": 3}, {"N": 2, "M": 3}]
    assert together(None, {}) == [{}]


@pytest.mark.parametrize(
    "text",
    ["N", "=1:2:3", "N=", "N=1:2", "N=0:9:3", "N=1:9:0", "N=1:9:*1", "N=9:1:1", "N=1,x", "N=-1,3",
     "N=0", "1N=1,2", "N=1:99999:1", "N=1:2:3:4"],
)  # fmt: skip
def test_what_is_no_range_of_sizes_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        sweep(text)


def test_a_size_is_not_given_twice() -> None:
    for texts in (["M"], ["M=0"], ["M=x"], ["M=-3"]):
        with pytest.raises(UsageError):
            fixed(texts)
    with pytest.raises(UsageError, match="N is given by both"):
        together(sweep("N=1,2"), {"N": 3})


# -- children -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (Finished(-6, b"", b""), "the process was ended by SIGABRT"),
        (Finished(1, b"", b"Timeout (0:00:20)!\n"), "it did not finish within 20 s (--limit)"),
        (Finished(7, b"", b"some\nlast words\n"), "last words"),
        (Finished(NO_DEVICE, b"", b""), "the process ended with status 4"),
    ],
)
def test_a_child_that_ends_costs_one_variant_at_one_size(ended: Finished, why: str) -> None:
    jobs: list[Job] = []
    told: list[str] = []
    task = Task(Path("x.py"), [{"N": 1}, {"N": 2}], TimeWish("cupti", "cold", 1.0, 20.0))
    found = measure("python", task, told.append, partial(child, jobs, ended))
    assert [job["done"] for job in jobs] == [[], [0, 1, 2, 3, 4]]
    assert [job["copy"] for job in jobs] == [True, False]
    assert {n: r.error for n, r in found.rows.items() if r.error} == {4: why, 9: why}
    assert len(found.rows) == 10 and told == [f"broken: {why}; going on without it"]


def test_a_child_that_dies_while_it_makes_an_input_costs_that_size() -> None:
    def dies(argv: Sequence[str], *_: Any) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        begun = 0 if not job["done"] else 2
        lines: list[Job] = [{"declared": {"variants": ["a", "b"], "sizes": {}}},
                            {"begin": begun, "phase": "input"}]  # fmt: skip
        Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Finished(1, b"", b"Timeout (0:05:00)!\n")

    task = Task(Path("x.py"), [{"N": 1}, {"N": 2}], TimeWish("cupti", "cold", 1.0, 20.0))
    found = measure("python", task, child=dies)
    assert {r.error for r in found.rows.values()} == {
        "making its input did not finish within 300 s"
    }
    assert sorted(found.rows) == [0, 1, 2, 3]


def test_what_no_child_can_do_is_one_error() -> None:
    task = Task(Path("x.py"), [{}], TimeWish("cupti", "cold", 1.0, 20.0))

    def ends(status: int, line: Job, complaint: bytes = b"") -> Callable[..., Finished]:
        def made(argv: Sequence[str], *_: Any) -> Finished:
            Path(argv[-1]).write_text(json.dumps(line) + "\n")
            return Finished(status, b"", complaint)

        return made

    with pytest.raises(ToolMissing, match="needs an NVIDIA GPU"):
        measure("python", task, child=ends(NO_DEVICE, {"no_device": "x"}))
    with pytest.raises(ToolMissing, match=r"no torch to run it with .No module named 'torch'"):
        measure("python", task, child=ends(NO_TORCH, {"no_torch": "No module named 'torch'"}))
    with pytest.raises(Unreadable, match=r"x.py: it has no VARIANTS"):
        measure("python", task, child=ends(46, {"refused": "it has no VARIANTS"}))
    with pytest.raises(Unreadable, match=r"x.py ended early: Killed"):
        measure("python", task, child=ends(1, {}, b"Killed\n"))


# -- ranks ----------------------------------------------------------------------------------------


def test_those_that_agree_are_ranked_and_share_a_rank_where_their_intervals_meet() -> None:
    found = compared([{}])
    ranks = {r.timing.variant: r.rank for r in found.rows}
    assert ranks == {"slow": 3, "fast": 1, "near": 1, "wrong": None, "broken": None}
    assert [r.timing.variant for r in best_first(found.rows)] == [
        "fast", "near", "slow", "wrong", "broken"
    ]  # fmt: skip
    slow = found.rows[0]
    assert slow.slower == pytest.approx(2) and slow.timing.gb_per_s == pytest.approx(1000)
    assert slow.timing.percent_of_peak == pytest.approx(25)
    (kernel,) = slow.timing.kernels
    assert (kernel.name, kernel.per_call) == ("void k<float>(float*)", 2)
    assert slow.timing.cpu_us == pytest.approx(20) and slow.gaps
    wrong, broken = found.rows[3:]
    assert wrong.agrees is False and wrong.timing.median_us == pytest.approx(1)
    assert broken.agrees is None and broken.timing.median_us is None
    assert broken.timing.error == "the process was ended by SIGSEGV"


def test_json_has_a_timings_fields_and_the_comparisons(
    script: str, gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", script, "--json", "--size", "M=3", *OURS]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["schema"], said["script"], said["swept"]) == (1, script, None)
    assert said["data_sheet_gb_per_s"] == 4800 and said["peak"][0]["copy_gb_per_s"] == 4000
    first = said["rows"][0]
    assert (first["variant"], first["agrees"], first["rank"]) == ("slow", True, 3)
    assert first["sizes"] == {"M": 3} and first["kernels"][0]["per_call"] == 2
    assert {"median_us", "low_us", "cpu_us", "span_us", "difference", "wrong", "kind"} <= set(first)
    assert gpu[0]["sizes"] == [{"M": 3}] and gpu[0]["script"] == script


def test_the_table_shows_what_is_wrong_and_never_ranks_it(
    script: str, gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", script, *OURS]) == 1
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines()]
    at = next(n for n, words in enumerate(rows) if words[:1] == ["variant"])
    assert [words[:2] for words in rows[at + 1 : at + 6]] == [
        ["1", "fast"], ["1", "near"], ["3", "slow"], ["wrong", "wrong"], ["–", "broken"]
    ]  # fmt: skip
    assert "wrong: wrong: 6 of 12 values differ, 6 of them NaN: were they written?" in out
    assert "broken: failed: the process was ended by SIGSEGV" in out
    assert "fast: 2 × k 2.00 µs; 6.00 µs from the first to the end of the last" in out
    assert "4,800 by its data sheet" in out


def test_several_stopwatches_stand_side_by_side_and_the_first_ranks() -> None:
    found = compared([{}])
    slower = [
        replace(r, timing=replace(r.timing, stopwatch="event", median_us=29.0), rank=None)
        for r in found.rows[:2]
    ]
    failed = replace(found.rows[2].timing, stopwatch="event", median_us=None, error="no graph")
    rows = [*found.rows, *slower, replace(found.rows[2], timing=failed)]
    out = Console(width=120, file=io.StringIO(), markup=False, highlight=False)
    with out.capture() as held:
        out.print(report.table(rows, 120))
        for line in report.footnotes(replace(found, rows=tuple(rows)), [0]):
            out.print(line, soft_wrap=True)
    lines = [line.split() for line in held.get().splitlines()]
    assert lines[0] == ["variant", "µs", "95", "%", "event"]
    assert [line[-1] for line in lines[1:5]] == ["29.0", "failed", "29.0", "–"]
    assert "near event: failed: no graph" in held.get()
    assert "a pair of CUDA events around one launch" in held.get()


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_table_fits_its_width_and_cuts_names_before_figures(width: int) -> None:
    found = compared([{}])
    names = {n: f"{n}, 128×256×64, 8 warps, and then some more of its name" for n in NAMES}
    rows = [
        replace(r, timing=replace(r.timing, variant=names[r.timing.variant])) for r in found.rows
    ]
    out = Console(width=width, file=io.StringIO(), markup=False, highlight=False)
    with out.capture() as held:
        out.print(report.table(rows, width))
    lines = held.get().splitlines()
    assert all(len(line) <= width for line in lines) and len(lines) == 6
    figures = ["4.00", "1.00", "2,000", "20.0", *(["3.98…4.02"] if width >= 160 else [])]
    assert all(f" {figure}" in lines[1] for figure in figures) and "fast, 128×256×6" in lines[1]


def test_hostile_names_are_shown_and_not_obeyed() -> None:
    found = compared([{}])
    evil = "\x1b[2J[red]x[/]"
    rows = [replace(r, timing=replace(r.timing, variant=evil)) for r in found.rows]
    evil_found = replace(found, rows=tuple(rows), swept=None)
    out = Console(width=160, file=io.StringIO(), markup=False)
    with out.capture() as held:
        out.print(report.table(rows, 160))
        for line in (*report.launched(rows), *report.footnotes(evil_found, [0])):
            out.print(line)
    assert "\x1b[2J" not in held.get() and "[red]x[/]" in held.get()


# -- sweeps ---------------------------------------------------------------------------------------


def test_a_sweep_is_plotted_and_written(
    script: str, gpu: list[Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "x.csv"
    words = ["--sweep", "N=4:12:4", "--csv", str(table), *OURS]
    assert main(["time", script, *words]) == 1
    out = capsys.readouterr().out
    assert "GB/s over N: mine · M=3 · clean cold L2" in out
    assert "A slow  1,000 GB/s at N=12" in out and "copy, measured  4,000 GB/s" in out
    assert "float32 3×4 (N=12, M=3)" in out
    assert "broken: failed: the process was ended by SIGSEGV (N=4, 8, 12)" in out
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert [r["N"] for r in rows] == ["4"] * 5 + ["8"] * 5 + ["12"] * 5
    assert float(rows[1]["median_us"]) == pytest.approx(4) and rows[1]["rank"] == "1"
    assert (rows[3]["agrees"], rows[3]["rank"]) == ("False", "")
    assert rows[4]["median_us"] == "" and rows[4]["error"] == "the process was ended by SIGSEGV"


def test_a_sweep_draws_only_what_agrees() -> None:
    found = compared([{"N": 4}, {"N": 8}], "N")
    figure = report.swept(found, "gb_per_s")
    assert figure is not None
    assert [line.name for line in figure.lines] == ["slow", "fast", "near", "copy, measured"]
    (x, y), (last, _) = figure.lines[1].points
    assert (x, last) == (4, 8) and y == pytest.approx(2000)


def test_what_a_sweep_is_told_in() -> None:
    found = compared([{"N": 4}], "N")
    assert report.unit_of(found, None) == "gb_per_s"
    assert report.unit_of(found, 100.0) == "gb_per_s"
    assert report.unit_of(found, 0.1) == "tflop_per_s"  # 0.125 operations a byte


# -- the command ----------------------------------------------------------------------------------


def test_without_a_gpu_it_says_so_in_one_line(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["time", script, "--json"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "ptxview: timing needs an NVIDIA GPU, and there is none on this machine\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["more"], "more is one word too many"),
        (["--stored"], "not stored with any recording"),
        (["--bytes", "3"], "bytes_of() and flops_of()"),
        (["--csv", "/no/such/folder/x.csv"], "/no/such/folder/x.csv cannot be written"),
        (["--sweep", "N=3", "--size", "N=4"], "both --sweep and --size"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    script: str, gpu: list[Job], words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", script, *words, *OURS]) == 2
    assert said in capsys.readouterr().err and gpu == []


def test_a_script_that_is_not_there_is_not_taken_for_a_kernel(
    gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", "no/such/script.py"]) == 2
    assert capsys.readouterr().err == "ptxview: there is no script no/such/script.py\n"


def test_a_roofline_has_the_measured_roof_and_the_data_sheets(
    script: str, gpu: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", script, "--roofline", *OURS]) == 1
    out = capsys.readouterr().out
    assert "TFLOP/s over FLOP/byte: mine, float32 3×4" in out
    assert "copy, measured  4,000 GB/s" in out and "memory by data sheet  4,800 GB/s" in out
    assert "fp32 by data sheet  67 TFLOP/s" in out
    assert "fast  0.125 FLOP/byte, 0.25 TFLOP/s, 50 % of copy, measured" in out
    assert "wrong  0.125" not in out


def test_the_options_of_a_race_are_not_a_recordings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for option in (["--sweep", "N=1,2"], ["--size", "N=1"], ["--csv", "x.csv"]):
        assert main(["time", "nothing.ptxview", *option]) == 2
        assert f"{option[0]} is for a script whose variants are raced" in capsys.readouterr().err


def test_devices_of_the_table_are_known_by_their_own_names() -> None:
    peaks = time_script.peaks_by_sheet("NVIDIA H100 80GB HBM3")
    assert peaks is not None and peaks.bandwidth is not None
    assert peaks.flops["fp16_tensor"] > 10 * peaks.flops["fp32"] and "white paper" in peaks.source
    assert time_script.peaks_by_sheet("NVIDIA something else") is None
    assert time_script.peaks_by_sheet(None) is None
