"""What large things cost: the peak memory of a child that opens them, and that nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from inspector.recording.layout import Writer
from tests.helpers.ptxview import LECTURE, SQUARE, call, command, environment

TRACE = next((LECTURE / "trace").glob("*.log"))


def cache(folder: Path, kernels: int) -> Path:
    """A Triton cache of as many kernels, each with another name and machine code."""
    for n in range(kernels):
        name = f"k{n:05d}_kernel".encode()
        digest = hashlib.sha256(name).hexdigest()
        here = folder / digest[:52].upper()
        here.mkdir(parents=True)
        for file in SQUARE.iterdir():
            data = file.read_bytes().replace(b"square_kernel", name)
            if file.suffix == ".json" and not file.name.startswith("__grp__"):
                data = json.dumps({**json.loads(data), "hash": digest}).encode()
            (here / file.name.replace("square_kernel", name.decode())).write_bytes(data)
    return folder


LAUNCHER = """
import os, sys
child = os.fork()
if not child:
    os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{usage.ru_maxrss << 10} {usage.ru_utime + usage.ru_stime} {status}")
"""
"""A small process between: the kernel counts to a child what its parent had when it was started."""


class Cost(NamedTuple):
    """Of a program run to its end: peak memory in bytes, seconds of CPU, the exit status."""

    peak: int
    cpu: float
    status: int


def cost(argv: Sequence[str | Path], kept: Path) -> Cost:
    """Run a program, its output going nowhere; ``kept`` is its user's cache."""
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("r", dir=kept) as told:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, told.name, *map(str, argv)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(XDG_CACHE_HOME=str(kept)),
            check=True,
        )
        peak, cpu, status = told.read().split()
    return Cost(int(peak), float(cpu), os.waitstatus_to_exitcode(int(status)))


def peak(*args: str | Path, kept: Path) -> int:
    """The peak memory of a ptxview process."""
    found = cost(command(args), kept)
    assert found.status == 0
    return found.peak


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that is kept between two openings."""
    return tmp_path_factory.mktemp("kept")


@pytest.mark.parametrize("kernels", [40, pytest.param(1000, marks=pytest.mark.nightly)])
def test_a_list_of_many_kernels_takes_the_memory_of_ten(
    tmp_path: Path, shared: Path, kernels: int
) -> None:
    few, many = cache(tmp_path / "few", 10), cache(tmp_path / "many", kernels)
    peaks = [peak("list", folder, kept=shared) for folder in (few, many)]
    assert peaks[1] < 1.25 * peaks[0], peaks


@pytest.mark.nightly
def test_a_trace_is_gone_through_and_not_held(tmp_path: Path, shared: Path) -> None:
    text = TRACE.read_bytes()
    folders = []
    for name, times in (("small", 4), ("large", 2400)):
        folder = tmp_path / name
        folder.mkdir()
        with (folder / TRACE.name).open("wb") as file:
            for n in range(times):
                file.write(text.replace(b'"frame_id": ', b'"frame_id": %d' % (n + 1)))
        folders.append(folder)
    size = (folders[1] / TRACE.name).stat().st_size
    peaks = [peak("list", folder, kept=shared) for folder in folders]
    assert peaks[1] - peaks[0] < 0.4 * size, "forty megabytes are not held, let alone three times"


def seconds_of(*words: str | Path) -> float:
    """Seconds of CPU of a command in this process, and of the tools that it ran."""
    before = os.times()
    assert call(*words).status == 0
    return sum(os.times()[:4]) - sum(before[:4])


def nested(path: Path, blocks: int) -> Path:
    """A kernel of blocks inside each other, a brace a line."""
    braces = "{\n" * blocks + "}\n" * blocks
    path.write_text(f"{HEAD}.visible .entry k()\n{{\n{braces}ret;\n}}\n")
    return path


def problems(path: Path, many: int) -> Path:
    """A recording of so many problems."""
    writer = Writer(path)
    writer.event(event="recording", schema=1, command=["x"], mode="gpu")
    writer.event(event="triton", name="k", hash="a" * 64, metadata={"name": "k"}, files={})
    for n in range(many):
        writer.event(event="problem", where="w", text=f"text {n}")
    writer.close()
    return path


def module(path: Path, kernels: int) -> Path:
    """A recording of kernels of one file, each with another name and the same hash."""
    texts = {}
    for stage, begin, end in (
        ("ttgir", "  tt.func public", "\n  } loc(#loc)\n"),
        ("llir", "define", "\n}\n"),
        ("ptx", ".visible .entry", "\n}\n"),
    ):
        text = (SQUARE / f"square_kernel.{stage}").read_text()
        first = text.index(begin)
        last = text.index(end, first) + len(end)
        functions = (text[first:last].replace("square_kernel", f"k{n}") for n in range(kernels))
        texts[stage] = text[:first] + "".join(functions) + text[last:]
    writer = Writer(path)
    writer.event(event="recording", schema=1, command=["x"], mode="gpu")
    files = {stage: writer.blob(text.encode()) for stage, text in texts.items()}
    for n in range(kernels):
        writer.event(event="triton", name=f"k{n}", hash="a" * 64, files=files)
    writer.close()
    return path


@pytest.mark.nightly
def test_a_page_of_four_times_as_many_kernels_of_a_file_takes_less_than_eight_times_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seconds = {
        n: seconds_of("export", module(tmp_path / f"{n}", n), "-o", tmp_path / f"{n}.html")
        for n in (1, 25, 100)  # modules are imported once, with the first
    }
    assert seconds[100] < 8 * seconds[25], seconds


HEAD = ".version 8.3\n.target sm_90\n.address_size 64\n"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "words", "many"),
    [(nested, ("list",), 40_000), (problems, ("list",), 10_000)],
    ids=["nested", "problems"],
)
def test_four_times_as_much_takes_less_than_eight_times_as_long(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Path, int], Path],
    words: tuple[str, ...],
    many: int,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seconds_of("list", nested(tmp_path / "first.ptx", 1))  # modules are imported once
    command_, *more = words
    one, four = (
        seconds_of(command_, make(tmp_path / f"{n}.ptx", n), *more) for n in (many, 4 * many)
    )
    assert four < 8 * one, (one, four)
