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


@pytest.mark.parametrize("kernels", [100, pytest.param(1000, marks=pytest.mark.nightly)])
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


def kernels(count: int) -> str:
    """PTX of as many kernels of a hundred lines."""
    out = [".version 8.0", ".target sm_90", ".address_size 64"]
    for k in range(count):
        out += [
            f".visible .entry k{k}(.param .u64 p)",
            "{",
            ".reg .f32 %f<99>;",
            ".reg .b64 %rd<99>;",
            "ld.param.u64 %rd1, [p];",
        ]
        for i in range(23):
            out += [
                f"add.s64 %rd{i + 2}, %rd1, {4 * i};",
                f"ld.global.f32 %f{3 * i + 1}, [%rd{i + 2}];",
                f"fma.rn.f32 %f{3 * i + 2}, %f{3 * i + 1}, %f{3 * i + 1}, %f{3 * i + 1};",
                f"st.global.f32 [%rd{i + 2}], %f{3 * i + 2};",
            ]
        out += ["ret;", "}"]
    return "\n".join(out)


def alone(folder: Path, text: str) -> Path:
    """A folder with PTX, read without assembling it, as a single file would be."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "k.ptx"
    file.write_text(text)
    return file


@pytest.mark.nightly
def test_the_first_line_is_there_before_the_last_is_made(tmp_path: Path) -> None:
    """A reader of the JSON that goes away ends it: the document was not made as a whole before."""
    file = tmp_path / "many.ptx"
    file.write_text(kernels(60))
    for _ in range(2):  # the first has the file assembled, which is kept
        with subprocess.Popen(
            command(["show", file, "k0", "--json"]), stdout=subprocess.PIPE, env=environment()
        ) as child:
            assert child.stdout is not None
            head = child.stdout.read(4096)
            child.stdout.close()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
    assert head.startswith(b'{"schema": 1, "stage": "ptx"')
    whole = subprocess.Popen(
        command(["show", file, "k0", "--json"]), stdout=subprocess.DEVNULL, env=environment()
    )
    _, _, all_of_it = os.wait4(whole.pid, 0)
    whole.returncode = 0
    assert usage.ru_utime < 0.8 * all_of_it.ru_utime


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


def values(path: Path, many: int) -> Path:
    """A kernel, and a section of so many bytes on one line, in which ptxas takes quadratic time."""
    row = ",".join("1" * many)
    path.write_text(
        f"{HEAD}.visible .entry k()\n{{\nret;\n}}\n.section .debug_str\n{{\n.b8 {row}\n}}\n"
    )
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


HEAD = ".version 8.3\n.target sm_90\n.address_size 64\n"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "words", "many"),
    [(nested, ("list",), 40_000), (values, ("show", "-a"), 40_000), (problems, ("list",), 10_000)],
    ids=["nested", "values", "problems"],
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
