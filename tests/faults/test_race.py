"""Threads that are first at the same moment, and launchers that outlive a recording."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.injector import PROGRAMS
from tests.helpers.ptxview import REPOSITORY, call, environment, finished, ptxview
from tests.probes.conftest import needs_torch


def test_threads_that_launch_first_at_once_end_as_they_do_alone(tmp_path: Path) -> None:
    needs_torch()
    recording = tmp_path / "recording"
    words = ("run", "--no-tui", "--target", "sm_90", "-o", recording, PROGRAMS / "race.py")
    done = ptxview(*words, env=environment(TRITON_CACHE_DIR=str(tmp_path / "cache")), fresh=True)
    assert (done.status, done.text.splitlines()[0]) == (0, " ".join(["True"] * 8)), done
    (kernel,) = call("list", recording, "--json").json["kernels"]
    assert len(kernel["variants"]) == 8
    assert [call["count"] for v in kernel["variants"] for call in v["calls"]] == [3] * 8


def test_launchers_outlive_a_recording(tmp_path: Path) -> None:
    needs_torch()
    env = environment(PYTHONPATH=str(REPOSITORY), TRITON_CACHE_DIR=str(tmp_path / "cache"))
    done = finished([sys.executable, PROGRAMS / "recordings.py"], tmp_path, env)
    assert done.status == 0, done.said
    sums = ["72.0", "72.0", "18.0", "20.0", "22.0", "72.0"]
    assert done.text.splitlines() == [*sums, "doubled 3", "doubled 6"]
