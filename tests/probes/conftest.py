"""Runs programs on the emulated device, each in a new interpreter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ptxview import finished, saved
from tests.helpers.tools import skip_without
from tests.helpers.warm import as_python
from tests.probes.forks import Forks

PROBES = Path(__file__).parents[2] / "inspector" / "probes"
PROGRAMS = Path(__file__).parent / "emulator" / "programs"
TRITON = ("torch", "triton", "triton.language", "triton.experimental.gluon")
INDUCTOR = (
    *TRITON,
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.async_compile",
    "torch._inductor.codegen.triton",
    "torch._inductor.runtime.triton_heuristics",
)

TENSORS = "#include <ATen/core/Tensor.h>\n"
BINDINGS = f"""{TENSORS}#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
"""
"""What an extension's source needs of torch, for ``load_inline(…, no_implicit_headers=True)``: all
of torch/extension.h takes a compiler four times as long, and the interpreter sees no difference."""


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
def caches(common: Path) -> Path:
    """One cache for all tests (and all xdist workers): the shim is compiled once."""
    given = os.environ.get("PTXVIEW_TEST_CACHE")
    return Path(given) if given else common / "target-caches"


def needs_torch() -> None:
    """The test is skipped where there is no torch, no Triton, or no compiler for the device."""
    skip_without("g++")
    if find_spec("torch") is None or find_spec("triton") is None:
        pytest.skip("torch and triton are not installed")


def recorded(caches: Path, recording: Path, **more: str) -> dict[str, str]:
    """The environment of a program on the emulated device, and what is to be changed in it."""
    (recording / "blobs").mkdir(parents=True)
    given = {k: v for k, v in os.environ.items() if not k.startswith(("PTXVIEW_", "TRITON_"))}
    return given | {
        "PYTHONPATH": str(PROBES / "bootstrap"),
        "PTXVIEW_RECORDING": str(recording),
        "PTXVIEW_VALUES": "budget",
        "PTXVIEW_DEVICES": "1",
        "XDG_CACHE_HOME": str(caches),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(caches / "extensions"),
        # Each process of a pool imports torch; what asks for a pool says so itself.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Headers that are compiled for later take longer than the two sources that include them.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        # Nor does it try by four compilations what instructions the CPU has for vectors.
        "TORCHINDUCTOR_VEC_ISA_OK": "0",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def outcome(recording: Path, status: int, out: str, err: str) -> Outcome:
    """What a program left, with the events of its recording."""
    events: list[dict[str, Any]] = []
    for file in sorted(recording.glob("events*.jsonl")):
        events += [json.loads(line) for line in file.read_text().splitlines()]
    return Outcome(status, out, err, tuple(events))


@pytest.fixture
def run(caches: Path, tmp_path: Path) -> Run:
    """``run(program, …)``: a file of programs/, or source text, on the emulated device."""
    needs_torch()

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
        if program.endswith(".py"):
            script = PROGRAMS / program
        else:
            script = saved(tmp_path / "program.py", program)
        asked = {"PTXVIEW_VALUES": values, "PTXVIEW_DEVICES": str(devices)}
        if arch is not None:
            asked["PTXVIEW_TARGET"] = arch
        if seconds is not None:
            asked["PTXVIEW_VALUE_SECONDS"] = str(seconds)
        done = finished(
            [sys.executable, script, *args],
            tmp_path,
            recorded(caches, recording, **{**asked, **(env or {})}),
            stdin.encode(),
        )
        return outcome(recording, done.status, done.text, done.said)

    return start


@pytest.fixture(scope="session")
def parents(caches: Path, common: Path) -> Callable[..., Forks]:
    """``parents(module, …, values=…)``: an interpreter with these modules on a device of sm_90.

    ``more`` is what its environment has besides, which they read when they are imported.
    """
    needs_torch()

    def parent(*modules: str, values: str = "budget", **more: str) -> Forks:
        place = common / "warm" / "-".join(["torch", str(len(modules)), values, *more])
        folder = common / f"{place.name}-{os.urandom(4).hex()}"
        env = recorded(caches, folder, PTXVIEW_TARGET="sm_90", PTXVIEW_VALUES=values, **more)
        return Forks(modules, env, place)

    return parent


@pytest.fixture(scope="session")
def warm_python(parents: Callable[..., Forks]) -> Callable[..., Path]:
    """``warm_python(module, …)``: what ``--python`` can be where its start is not what is tested.

    Of a script or a module it makes a child of an interpreter that has imported torch, under the
    probes and with an emulated device; of all else an interpreter as ever.
    """

    def program(*modules: str, **more: str) -> Path:
        warm = parents(*(modules or TRITON), **more).warm
        return as_python(warm, '"there -m "*|"there "[!-]*', "${PTXVIEW_TARGET:+there} ")

    return program


@pytest.fixture
def forked(parents: Callable[..., Forks], caches: Path, tmp_path: Path) -> Run:
    """As ``run``, but in a child of an interpreter that has imported torch and Triton.

    What a program does once it has them is the same, and the import takes four fifths of its time.
    ``inductor``: it has imported Inductor too, which read at its import whether graphs run
    their kernels (``values="ptx"``). What is allocated without memory (``values="none"``) cannot
    be asked for later.
    """

    def start(
        program: str,
        *args: str,
        arch: str = "sm_90",
        values: str = "budget",
        seconds: float | None = None,
        stdin: str = "",
        env: dict[str, str] | None = None,
        inductor: bool = False,
    ) -> Outcome:
        recording = tmp_path / f"recording{len(list(tmp_path.iterdir()))}"
        if program.endswith(".py"):
            script = PROGRAMS / program
        else:
            script = saved(tmp_path / "program.py", program)
        asked = {"PTXVIEW_VALUES": values, "PTXVIEW_TARGET": arch}
        if seconds is not None:
            asked["PTXVIEW_VALUE_SECONDS"] = str(seconds)
        given = recorded(caches, recording, **{**asked, **(env or {})})
        if inductor:
            parent = parents(*INDUCTOR, values="ptx" if values == "ptx" else "budget")
        else:
            parent = parents(*TRITON)
        return outcome(recording, *parent.run(script, args, given, stdin, tmp_path))

    return start


def ok(outcome: Outcome) -> Outcome:
    """The outcome of a program that must have ended well; its stderr otherwise."""
    assert outcome.status == 0, outcome.err[-4000:] + outcome.out[-1000:]
    return outcome
