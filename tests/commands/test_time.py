"""``ptxview time`` on a machine without a GPU, and with one that is made up."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inspector.commands import run
from inspector.commands.cli import main
from inspector.measure.time import planning
from inspector.measure.time import take as running
from inspector.measure.time.planning import Library
from inspector.recording.layout import record_file, stored_records
from inspector.sources.opening import open_path
from inspector.sources.running import RunOutcome
from inspector.system import toolchain
from inspector.system.process import Finished
from tests.helpers.ptxview import saved

pytestmark = pytest.mark.usefixtures("new_user")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A device that takes 4 µs for everything, and a child that says so; the jobs it got."""
    jobs: list[dict[str, Any]] = []

    def child(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
        job = json.loads(Path(argv[-2]).read_text())
        jobs.append(job)
        device = {"name": "NVIDIA H200", "major": 9, "minor": 0, "torch": "2.11"}
        said: list[dict[str, Any]] = [{"device": device}]
        for watch in job["stopwatches"]:
            one = {"n": None, "stopwatch": watch, "cache": "cold", "samples": [500.0] * 60}
            said.append({"copy": {**one, "bytes": 2_000_000_000}})
            for told in job["launches"]:
                made = {
                    **one,
                    "n": told["n"],
                    "samples": [4.0] * 60,
                    "clocks": {},
                    "warnings": ["made up"],
                }
                if told.get("kind") is not None:
                    made |= {"cpu": [30.0] * 6, "kernels": KERNELS[told["kind"]]}
                said += [{"begin": told["n"]}, made, {"end": told["n"]}]
        Path(argv[-1]).write_text("".join(json.dumps(line) + "\n" for line in said))
        return Finished(0, b"", b"")

    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setattr(running, "measure", functools.partial(MEASURE, child=child))
    return jobs


MEASURE = running.measure
FUSED = (
    "triton_per_fused__softmax_add_amax_ge_mul_native_layer_norm_neg_scalar_tensor_sub_tanh_where_0"
)
KERNELS = {
    "graph": [{"name": FUSED, "per_call": 1, "samples": [4.0] * 60}],
    "extension": [
        {"name": "gelu_kernel(float const*, float*, int)", "per_call": 1, "samples": [4.0] * 60}
    ],
}
OURS = ("--python", sys.executable)


def test_without_a_gpu_it_says_so_and_offers_an_estimate(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", str(recording), "--trust", "--json"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "ptxview: timing needs an NVIDIA GPU; this machine has none\n"
        "Estimate the times without a GPU: ptxview time --estimate\n"
    )


def test_anothers_recording_is_not_run_without_trust(
    recording: Path, gpu: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", str(recording), *OURS]) == 2
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1 and "--trust" in said.err
    assert gpu == [] and not record_file(recording).exists()


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 2)])
def test_on_a_terminal_it_asks(
    recording: Path,
    gpu: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: answer, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["time", str(recording), "softmax_kernel", *OURS]) == status
    assert sys.executable in capsys.readouterr().err


def test_rows_have_times_and_estimates_and_are_kept(
    recording: Path, gpu: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["time", str(recording), "a4fe74f3", "--trust", "--json", *OURS]) == 0
    said = json.loads(capsys.readouterr().out)
    (row,) = said["rows"]
    assert (row["kernel"], row["variant"], row["call"]) == ("square_kernel", "a4fe74f3", 0)
    assert (row["median_us"], row["samples"], row["warnings"]) == (4.0, 60, ["made up"])
    assert (row["grid"], row["block"]) == ([1823, 1, 1], [128, 1, 1])
    assert row["bytes"] == 2 * 4 * 1823 * 781
    assert row["flops"] == 1823 * 1024  # TTIR multiplies the whole block
    assert row["gb_per_s"] == pytest.approx(row["bytes"] / 4e-6 / 1e9)
    assert row["percent_of_peak"] == pytest.approx(100 * row["gb_per_s"] / 4000)
    assert said["data_sheet_gb_per_s"] == 4800
    assert main(["time", str(recording), "--stored", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert [{k: r[k] for k in row} for r in again["rows"]] == [row]


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the recorded extensions were built; of them gelu is left."""
    names = ("square_matrix_extension", "gelu_double_extension", "gelu_float_extension")
    where = {n: Library(str(tmp_path / "ext" / n / f"{n}.so")) for n in names}
    monkeypatch.setattr(planning, "libraries", lambda events: where)
    for name in names[1:]:
        file = Path(where[name].path)
        saved(file, b"a library")
    return tmp_path / "ext"


@pytest.fixture
def ran(recording: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that has just ended with status 7 and left the lecture's recording behind."""
    outcome = RunOutcome(7, recording, open_path(recording), 1.0, 0.1)
    monkeypatch.setattr(run, "record", lambda request, say, meanwhile: outcome)
    monkeypatch.setattr(run, "on_terminal", lambda: True)
    return recording


def test_a_run_with_time_keeps_its_status_and_has_the_times_of_all_its_calls(
    ran: Path, gpu: list[dict[str, Any]], built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--time", "--python", sys.executable, "x.py"]) == 7
    said = capsys.readouterr()
    assert said.out == ""
    assert "4.00…4.00" in said.err and "its code is gone" in said.err
    ((session),) = stored_records(ran)
    rows = session["rows"]
    assert isinstance(rows, list) and {r["kind"] for r in rows} == {"triton", "extension", "graph"}
    assert gpu[0]["budget"] is not None
