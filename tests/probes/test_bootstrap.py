"""A recorded interpreter starts, and writes events, with any failure in the probes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ptxview import saved
from tests.probes.conftest import PROBES

FAULTS = ("RuntimeError('ours')", "OSError(28, 'ours')", "Fault('ours')")
DEFINITION = "class Fault(BaseException):\n    pass\n"


def run(probes: Path, program: str, recording: Path, *path: Path) -> tuple[int, str, str]:
    """Run a program with these probes; return its exit status and its two streams."""
    recording.mkdir(exist_ok=True)
    before = {k: v for k, v in os.environ.items() if not k.startswith("PTXVIEW_")}
    folders = (probes / "bootstrap", *path)
    env = before | {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "PTXVIEW_RECORDING": str(recording),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_starts_as_bare_where_the_probes_cannot(tmp_path: Path, fault: str) -> None:
    probes, own = tmp_path / "probes", tmp_path / "own"
    shutil.copytree(PROBES / "bootstrap", probes / "bootstrap")
    (probes / "__init__.py").write_text(f"{DEFINITION}raise {fault}\n")
    saved(own / "sitecustomize.py", "import builtins\nbuiltins.own = 'user'\n")
    assert run(probes, "print(own)", tmp_path / "r", own) == (0, "user\n", "")


@pytest.mark.parametrize("place", ["_append", "_line", "_write", "RLock", "folder"])
def test_a_writer_that_fails_reaches_neither_an_event_nor_a_fork(
    tmp_path: Path, place: str
) -> None:
    program = f"""{DEFINITION}
import os
from ptxview_probes import writer

def fail(*_, **__):
    raise Fault("ours")

assert hasattr(writer, {place!r})
writer.{place} = fail
writer.emit({{"event": "x"}})
writer.problem("here", "text")
child = os.fork()
if not child:
    os._exit(3)
print(os.waitpid(child, 0)[1] >> 8)
"""
    assert run(PROBES, program, tmp_path / "r") == (0, "3\n", "")


def test_what_a_signal_handler_raises_while_an_event_is_written_is_the_programs(
    tmp_path: Path,
) -> None:
    program = """
import signal
from ptxview_probes import writer

def alarm(*_):
    raise TimeoutError("by the program")

def slow(*_):
    signal.raise_signal(signal.SIGALRM)

signal.signal(signal.SIGALRM, alarm)
writer._append = slow
try:
    writer.emit({"event": "x"})
except TimeoutError as error:
    print(error)
"""
    assert run(PROBES, program, tmp_path / "r") == (0, "by the program\n", "")
