"""Counts of many calls that grow: told at once as long as they are few, then together."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inspector.probes.calls import subjects

PROBES = Path(__file__).parents[3] / "inspector" / "probes"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Events of counts, of calls that nobody else makes."""
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(subjects, "emit", events.append)
    monkeypatch.setattr(subjects, "_all", {})
    monkeypatch.setattr(subjects, "_spare", [subjects.BURST, time.monotonic()])
    return events


def count(held: subjects.Subject, entry: list[int], times: int) -> None:
    for _ in range(times):
        entry[0] += 1
        if entry[0] >= entry[1]:
            subjects.grown(held, entry)


def test_many_counts_are_written_together_soon(told: list[dict[str, Any]]) -> None:
    held = subjects.subject("triton", "k", "many", {})
    entries = [held.entry(n, [(f"a{n}", "i32", n)]) for n in range(100)]
    for _ in range(50):
        for entry in entries:
            count(held, entry, 1)
    until = time.monotonic() + 120
    while not any(list(e.get("counts", {}).values()) == [50] * 100 for e in told):
        assert time.monotonic() < until, "they are never told together"
        time.sleep(0.01)
    alone = sum(len(e.get("counts", ())) == 1 for e in told)
    assert subjects.BURST <= alone < 2 * subjects.BURST


def test_a_child_that_was_forked_tells_its_own(tmp_path: Path) -> None:
    """The child itself writes counts that a thread of its parent was to write later."""
    program = f"""
import os, sys, time
sys.path.insert(0, {str(PROBES.parent.parent)!r})
from inspector.probes.calls import subjects as calls
calls._spare[:] = [0.0, time.monotonic() + 3600]  # nothing at once
held = calls.subject("triton", "k", "id", {{}})
entry = held.entry("key", [])
entry[0] = 5
calls.grown(held, entry)
assert calls._later
if os.fork() == 0:
    assert not calls._later
    entry[0] = 7
    calls.grown(held, entry)
    assert calls._later
    time.sleep(3)
    os._exit(0)
os.wait()
"""
    recording = tmp_path / "r"
    (recording / "blobs").mkdir(parents=True)
    env = {**os.environ, "PTXVIEW_RECORDING": str(recording)}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=120)
    said = "".join(f.read_text() for f in recording.glob("events-*.jsonl"))
    assert '{"0": 7}' in said and '{"0": 5}' in said
