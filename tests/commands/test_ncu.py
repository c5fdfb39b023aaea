"""Reports on the command line, and ``ptxview ncu`` with an ncu that plays back a real report.

What the stand-in prints besides is what ncu prints; that its own output is kept from the program's
is tested, that the options are right is not: that takes ncu.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inspector.commands import profile as command
from inspector.commands.cli import main
from inspector.system import toolchain
from tests.helpers.ncu_data import PAGES, ROOT, column, write
from tests.helpers.ptxview import saved
from tests.helpers.tools import needs

FAKE = """#!{python}
import os, subprocess, sys
from pathlib import Path
pages, mode, args = Path({pages!r}), os.environ.get("FAKE_NCU", ""), sys.argv[1:]
if args == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)")
    raise SystemExit
given = {{}}
while args and args[0].startswith("--"):
    if args[0] in ("--csv", "--force-overwrite"):
        args = args[1:]
    else:
        given[args[0]] = args[1]
        args = args[2:]
if "--import" in given:
    if mode == "damaged":
        print("==ERROR== Failed to load report file")
        raise SystemExit(1)
    sys.stdout.write((pages / (given["--page"] + ".csv")).read_text())
    raise SystemExit
log = Path(given["--log-file"])
said = ["==PROF== Connected to process 7 (" + args[0] + ")"]
if mode == "denied":
    said += ["==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
             "Performance Counters on the target device 0. For instructions on enabling "
             "permissions and to get more information see "
             "https://developer.nvidia.com/ERR_NVGPUCTRPERM"]
done = subprocess.run(args)
said += ["==PROF== Disconnected from process 7"]
if done.returncode:
    said += [f"==ERROR== The application returned an error code ({{done.returncode}})."]
if mode == "nothing":
    said += ["==WARNING== No kernels were profiled.",
             "==WARNING== Profiling kernels launched by child processes requires the "
             "--target-processes all option."]
if not mode:
    Path(given["--export"] + ".ncu-rep").write_bytes(b"NVR\\0")
    said += ["==PROF== Report: " + given["--export"] + ".ncu-rep"]
log.write_text("\\n".join(said) + "\\n")
Path(os.environ["FAKE_SAW"]).write_text(repr(given))
raise SystemExit(1 if mode or done.returncode else 0)
"""


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, Path]:
    return dict(zip(PAGES, write(tmp_path / "pages", *PAGES), strict=True))


@pytest.fixture
def fake(pages: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a GPU and an ncu, to ncu's eyes; returns what ncu was given."""
    text = FAKE.format(python=sys.executable, pages=str(tmp_path / "pages"))
    tool = saved(tmp_path / "bin" / "ncu", text, 0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SAW", str(tmp_path / "saw"))
    monkeypatch.setattr(command, "gpu_present", lambda: True)
    return tmp_path / "saw"


def listed(capsys: pytest.CaptureFixture[str], *args: str | Path) -> Any:
    assert main(["list", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_of_a_report_beside_a_recording(
    recording: Path, pages: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [w for p in PAGES for w in ("--ncu", pages[p])]
    value = listed(capsys, recording, *named)
    held = value["ncu"]
    assert held["pages"] == list(PAGES) and held["problems"] == []
    assert [one["duration_us"] for one in held["launches"]] == [
        float(v) for v in column("gpu__time_duration.sum")
    ]
    assert [one["variant"] for one in held["launches"]] == [
        "780c582c",
        "a4fe74f3",
        None,
        "f8f8a0a4",
        None,
    ]
    assert "16 registers" in held["launches"][2]["unattached"]
    of = {v["id"]: v["ncu"] for k in value["kernels"] for v in k["variants"]}
    (one,) = of["a4fe74f3"]["launches"]
    assert (one["id"], one["registers"], one["estimated_speedup_percent"]) == (1, 22, 55.89)
    assert one["runtime_improvement_us"] == pytest.approx(4.832 * 0.5589)
    assert of["a4fe74f3"]["samples"]["all"] == 354 and of["a4fe74f3"]["samples_missing"] is None
    assert of["9c81a042"] is None


def test_show_has_samples_at_lines(
    recording: Path, pages: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--ncu", str(pages["details"]), "--ncu", str(pages["source"])]
    asked = ["show", str(recording), "a4fe74f3", "--stage", "sass", *named]
    assert main([*asked, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    held = [line["samples"] for line in value["lines"] if line["samples"] is not None]
    assert sum(s["all"] for s in held) == 354 and sum(s["not_issued"] for s in held) == 265
    assert sum(s["stalls"].get("long_sb", 0) for s in held) == 248
    assert all(line["samples"] is None for line in value["lines"] if line["kind"] != "instruction")
    assert value["functions"][0]["ncu"]["launches"][0]["id"] == 1
    assert main([*asked, "-a"]) == 0
    said = capsys.readouterr().out
    assert "samples" in said and "waiting for global or local memory (long scoreboard)" in said
    assert "percent of the kernel's 354" in said and "ncu:CPIStall" in said


@needs("g++")
def test_a_run_under_ncu_keeps_its_report(
    fake: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch\nfrom kernels.square import square\n"
        "square(torch.ones(64, 1024, device='cuda'))\n"
        "print(os.environ['TORCHINDUCTOR_COMPILE_THREADS'])\n"
    )
    out, copy = tmp_path / "x.ptxview", tmp_path / "copy.ncu-rep"
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        status = main(
            [
                "ncu",
                "-o",
                str(out),
                "--kernel",
                "square_kernel",
                "--report",
                str(copy),
                str(program),
            ]
        )
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    said = capfd.readouterr()
    assert status == 0, said.err
    assert said.out == "1\n"  # the program's own, and nothing of ncu's
    assert "measured by ncu" in said.err and "94.12" in said.err
    given = eval(fake.read_text())
    assert given["--clock-control"] == "none" and given["--set"] == "full"
    assert given["--target-processes"] == "application-only"
    assert given["--kernel-name"] == "square_kernel" and given["--launch-count"] == "50"
    assert copy.read_bytes() == b"NVR\0"
    # What was kept is there again, within the one file.
    assert main(["list", str(out), "--json"]) == 0
    value = json.loads(capfd.readouterr().out)
    assert len(value["ncu"]["launches"]) == 5
    (kernel,) = value["kernels"]
    (variant,) = kernel["variants"]
    first = variant["ncu"]["launches"][0]
    assert first["id"] == 0 and first["registers"] == variant["resources"]["registers"] == 18


def test_counters_that_are_not_permitted(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAKE_NCU", "denied")
    out = tmp_path / "x.ptxview"
    assert main(["ncu", "-o", str(out), "--", sys.executable, "-c", "print('ran')"]) == 3
    said = capfd.readouterr()
    assert said.out == "ran\n"
    assert "not permitted" in said.err and "ERR_NVGPUCTRPERM" in said.err
    assert "NVreg_RestrictProfilingToAdminUsers=0" in said.err
    assert out.is_file() and f"the recording is kept: {out}" in said.err
    assert main(["list", str(out), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["recording"]["exit_status"] == 0
