"""Runs programs on the emulated device, each in an interpreter of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROBES = Path(__file__).parents[2] / "inspector" / "probes"
PROGRAMS = Path(__file__).parent / "target" / "programs"


@dataclass(frozen=True)
class Outcome:
    """What one program left: its exit status, its two streams, the recorded events."""

    status: int
    out: str
    err: str
    events: tuple[dict[str, Any], ...]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    def said(self, text: str) -> list[str]:
        """The lines on stderr that hold the text."""
        return [line for line in self.err.splitlines() if text in line]


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests (and all xdist workers): the shim is compiled once."""
    given = os.environ.get("PTXVIEW_TEST_CACHE")
    if given:
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "target-caches"


@pytest.fixture
def run(caches: Path, tmp_path: Path) -> Run:
    """``run(program, …)``: a file of programs/, or source text, on the emulated device."""
    if find_spec("torch") is None or find_spec("triton") is None:
        pytest.skip("torch and triton are not installed")

    def start(
        program: str,
        *args: str,
        arch: str | None = "sm_90",
        devices: int = 1,
        values: str = "budget",
        seconds: float | None = None,
        stdin: str = "",
        env: dict[str, str] | None = None,
    ) -> Outcome:
        recording = tmp_path / f"recording{len(list(tmp_path.iterdir()))}"
        (recording / "blobs").mkdir(parents=True)
        if program.endswith(".py"):
            script = PROGRAMS / program
        else:
            script = tmp_path / "program.py"
            script.write_text(program)
        given = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
        given |= {
            "PYTHONPATH": str(PROBES / "bootstrap"),
            "PTXVIEW_RECORDING": str(recording),
            "PTXVIEW_VALUES": values,
            "PTXVIEW_DEVICES": str(devices),
            "XDG_CACHE_HOME": str(caches),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            "TORCH_EXTENSIONS_DIR": str(caches / "extensions"),
            "PYTHONWARNINGS": "ignore",
        }
        if arch is not None:
            given["PTXVIEW_TARGET"] = arch
        if seconds is not None:
            given["PTXVIEW_VALUE_SECONDS"] = str(seconds)
        done = subprocess.run(
            [sys.executable, str(script), *args],
            input=stdin, capture_output=True, text=True, cwd=tmp_path, env={**given, **(env or {})},
            timeout=600, check=False,
        )  # fmt: skip
        events: list[dict[str, Any]] = []
        for file in sorted(recording.glob("events*.jsonl")):
            events += [json.loads(line) for line in file.read_text().splitlines()]
        return Outcome(done.returncode, done.stdout, done.stderr, tuple(events))

    return start


def ok(outcome: Outcome) -> Outcome:
    """The outcome of a program that must have ended well; its stderr otherwise."""
    assert outcome.status == 0, outcome.err[-4000:] + outcome.out[-1000:]
    return outcome
