"""What is promised to whoever opens a stranger's recording: nothing in it is run, believed or
followed before he says so, and then it is run by an interpreter of his own."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from inspector.bench.running import interpreter
from inspector.capture.opening import open_path, recordings_folder, user_cache
from inspector.errors import ToolMissing
from inspector.process import run_tool
from inspector.recording import BlobContent, DerivedCache, pack
from inspector.recording_timings import keep, kept
from inspector.timing import own
from inspector.tui.app import PtxviewApp
from inspector.tui.command_table import TABLE
from inspector.tui.commands import Where
from inspector.tui.timing_screen import State, TimingScreen
from tests.core.helpers import LECTURE as CACHES
from tests.core.helpers import REPOSITORY, SQUARE, Done, call, environment, ptxview

SAMPLE = REPOSITORY / "examples" / "recordings" / "lecture-h200.ptxview"
TOOLS = ("nvdisasm", "cuobjdump", "ptxas", "nvcc", "c++filt", "cu++filt", "ncu", "gcc", "g++")

# ptxview in a process of its own that believes that there is a GPU, and writes down each program
# that it starts and each file that is executed in it.
WATCHED = """
import os, sys
log = open(sys.argv.pop(1), "a", buffering=1)
def watch(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn"):
        print(event, os.fsdecode(args[0]), file=log)
    elif event == "exec" and getattr(args[0], "co_filename", "")[:1] == "/":
        print(event, args[0].co_filename, file=log)
    elif event == "ctypes.dlopen":
        print(event, args[0], file=log)
from inspector.capture import machine
machine.gpu_present = lambda: True
sys.addaudithook(watch)
from inspector.cli import main
raise SystemExit(main())
"""


class Stranger:
    """What a stranger sends: everything in its recording that could be a path is a program of his,
    which leaves a mark when it runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "sent"
        self.mark = root / "mark"
        self.home.mkdir()
        for name in ("python3-his", "python3", "python", "sitecustomize", *TOOLS):
            self.program(self.home / name)
        for name in ("json", "rich", "platformdirs", "sitecustomize", "torch", "__main__"):
            (self.home / f"{name}.py").write_text(f"open({str(self.mark)!r}, 'a')\n")
        (self.home / "nvidia" / "cu13" / "bin").mkdir(parents=True)
        for name in TOOLS:
            self.program(self.home / "nvidia" / "cu13" / "bin" / name)
        (self.home / "build.ninja").write_text(
            f"nvcc = {self.home}/nvcc\nrule cuda_compile\n  command = $nvcc -ccbin ./gcc -c $in "
            "-o $out\nbuild k.cuda.o: cuda_compile k.cu\n"
        )

    def program(self, path: Path) -> None:
        """A program that leaves the mark."""
        path.write_text(f"#!/bin/sh\necho ran >> {self.mark}\necho '{{}}'\n")
        path.chmod(0o755)

    def folder(self, named: str) -> Path:
        """A recording's folder in which every path is ``named``."""
        out = self.home / "recording"
        with zipfile.ZipFile(SAMPLE) as archive:
            archive.extractall(out)
        for file in out.glob("events*.jsonl"):
            rows = [json.loads(row) for row in file.read_text("utf-8").splitlines()]
            told = [json.dumps(self._turned(row, named)) for row in rows]
            file.write_text("".join(f"{row}\n" for row in told), "utf-8")
        for name in ("__main__.py", "sitecustomize.py"):
            shutil.copy(self.home / name, out / name)
        return out

    def file(self, named: str) -> Path:
        """The same as a single file, with a program in it that Python would run."""
        folder = self.folder(named)
        made = self.home / "x.ptxview"
        with zipfile.ZipFile(made, "w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder))
        return made

    def _turned(self, value: Any, named: str) -> Any:
        if isinstance(value, Mapping):
            return {k: [named, *v[1:]] if k == "command" and v else self._turned(v, named)
                    for k, v in value.items()}  # fmt: skip
        if isinstance(value, list):
            return [self._turned(each, named) for each in value]
        path = isinstance(value, str) and value.startswith("/") and "\n" not in value
        return named if path else value


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    made = Stranger(tmp_path)
    # The trap works: whoever starts it is found out.
    subprocess.run(["./python3-his"], cwd=made.home, check=True, capture_output=True)
    assert made.mark.exists()
    made.mark.unlink()
    return made


def watched(stranger: Stranger, *words: str | Path, **changes: str | None) -> tuple[Done, list[str]]:
    """ptxview where the stranger's things lie, and what it started and executed."""
    log = stranger.root / "log"
    log.write_text("")
    # A folder that has no place of its own on PATH is the one that one stands in.
    path = f".::{os.environ['PATH']}:"
    done = subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, str(log), *map(str, words)],
        cwd=stranger.home, capture_output=True, stdin=subprocess.DEVNULL, timeout=300, check=False,
        env=environment(PYTHONPATH=str(REPOSITORY), CUDA_VISIBLE_DEVICES=None, PATH=path, **changes),
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr), log.read_text().splitlines()


NAMED = ("python3-his", "./python3-his", "{home}/python3-his")


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("shape", ["file", "folder"])
def test_no_command_runs_what_a_recording_names(
    stranger: Stranger, shape: str, named: str
) -> None:
    make: Callable[[str], Path] = getattr(stranger, shape)
    path = make(named.format(home=stranger.home))
    for words in (
        ("list", path), ("list", path, "--json"), ("list", path, "--calls"),
        ("open", path, "--no-tui"), ("show", path, "a4fe74f3"), ("show", path, "a4fe74f3", "-a"),
        ("show", path, "a4fe74f3", "--stage", "sass", "--beside", "source"),
        ("show", path, "gelu_kernel", "--json"), ("diff", path, SAMPLE),
        ("diff", f"{path}::square_matrix_kernel", f"{SAMPLE}::square_matrix_kernel"),
        ("time", path), ("time", path, "--stored"), ("time", path, "square_kernel", "--json"),
        ("time", path, "gelu_cuda"), ("profile", "--stored", path), ("profile", path),
        ("run", path), ("ncu", path), ("doctor",),
    ):  # fmt: skip
        done, started = watched(stranger, *words)
        assert not stranger.mark.exists(), words
        assert not [s for s in started if str(stranger.home) in s or "python3-his" in s], words
        assert b"Traceback" not in done.err, done.said
        assert done.status in (0, 1, 2, 3, 4, 125), words
