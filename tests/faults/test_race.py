"""Threads that are first at the same moment, and launchers that outlive a recording."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.faults.injector import PROGRAMS
from tests.helpers.ptxview import REPOSITORY, call, command, environment
from tests.probes.conftest import needs_torch


def test_threads_that_launch_first_at_once_end_as_they_do_alone(tmp_path: Path) -> None:
    needs_torch()
    recording = tmp_path / "recording"
    asked = command(["run", "--no-tui", "--target", "sm_90", "-o", recording])
    done = subprocess.run(
        [*asked, str(PROGRAMS / "race.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(TRITON_CACHE_DIR=str(tmp_path / "cache")),
        check=False,
    )
    said = done.stdout + done.stderr
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, " ".join(["True"] * 8)), said
    (kernel,) = call("list", recording, "--json").json["kernels"]
    assert len(kernel["variants"]) == 8
    assert [call["count"] for v in kernel["variants"] for call in v["calls"]] == [3] * 8


def test_launchers_outlive_a_recording(tmp_path: Path) -> None:
    needs_torch()
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "recordings.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
        env=environment(PYTHONPATH=str(REPOSITORY), TRITON_CACHE_DIR=str(tmp_path / "cache")),
    )
    assert done.returncode == 0, done.stderr
    sums = ["72.0", "72.0", "18.0", "20.0", "22.0", "72.0"]
    assert done.stdout.splitlines() == [*sums, "doubled 3", "doubled 6"]
