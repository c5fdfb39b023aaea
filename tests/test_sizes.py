"""What large things cost: the peak memory of a child that opens them, and that nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from inspector.analyse.function_facts import FunctionFacts
from inspector.base.model import Stage
from inspector.listing import parse
from inspector.recording.layout import Writer, pack
from tests.helpers.ptxview import LECTURE, SQUARE, call, command, environment, ptxview

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


def recorded(folder: Path, kernels: int) -> Path:
    """A recording of as many kernels, each with different PTX."""
    writer = Writer(folder)
    writer.event(event="recording", schema=1, time=1.0, command=["python", "x.py"], mode="gpu")
    body = "\tret;\n" * 400
    for n in range(kernels):
        name = f"k{n:05d}"
        head = f".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry {name}()\n"
        ptx = writer.blob(f"{head}{{\n{body}}}\n".encode())
        writer.event(
            event="triton",
            name=name,
            hash=ptx,
            files={"ptx": ptx},
            metadata={"num_warps": 4, "name": name, "shared": 0},
        )
    writer.event(event="end", time=3.0, exit_status=0)
    writer.close()
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize("as_file", [False, True])
def test_a_list_of_a_recording_does_too(tmp_path: Path, as_file: bool) -> None:
    """Also where every hint of it is counted, and nothing was kept of an earlier look."""
    peaks = []
    for kernels in (10, 1000):
        path = recorded(tmp_path / str(kernels), kernels)
        if as_file:
            pack(path, path.with_suffix(".ptxview"))
            path = path.with_suffix(".ptxview")
        peaks.append(peak("list", path, kept=tmp_path / f"kept{kernels}"))
    assert peaks[1] < 1.25 * peaks[0], peaks


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


def one_function(lines: int) -> str:
    """PTX of one kernel of about so many lines, each value in another register."""
    body: list[str] = []
    count = lines // 5
    for i in range(count):
        body += [
            f"\t.loc\t1 {10 + i % 50} 5",
            f"\tadd.s64 \t%rd{i + 2}, %rd1, {4 * i};",
            f"\tld.global.f32 \t%f{3 * i + 1}, [%rd{i + 2}];",
            f"\tfma.rn.f32 \t%f{3 * i + 2}, %f{3 * i + 1}, %f{3 * i + 1}, %f{3 * i + 1};",
            f"\tst.global.f32 \t[%rd{i + 2}], %f{3 * i + 2};",
        ]
    head = [
        ".version 8.0",
        ".target sm_90",
        ".address_size 64",
        ".visible .entry k0(.param .u64 p)",
        "{",
        f".reg .f32 %f<{3 * count + 3}>;",
        f".reg .b64 %rd<{count + 3}>;",
        "ld.param.u64 %rd1, [p];",
    ]
    return "\n".join([*head, *body, "ret;", "}", '.file 1 "/x/a.py"', ""])


def alone(folder: Path, text: str) -> Path:
    """A folder with PTX, read without assembling it, as a single file would be."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "k.ptx"
    file.write_text(text)
    return file


@pytest.mark.parametrize("how", [pytest.param("--json", marks=pytest.mark.nightly), "-a"])
def test_a_long_function_takes_little_memory_a_line(tmp_path: Path, shared: Path, how: str) -> None:
    """What is known of every instruction at once is kept in a few numbers each."""
    peaks, lines = [], []
    for size in (4_000, 12_000):
        file = alone(tmp_path / str(size), one_function(size))
        lines.append(file.read_text().count("\n"))
        peaks.append(peak("show", file.parent, "k0", how, kept=shared))
    assert 0 <= (peaks[1] - peaks[0]) / (lines[1] - lines[0]) < 1050, peaks


@pytest.mark.parametrize("how", [pytest.param("--json", marks=pytest.mark.nightly), "-a"])
def test_a_long_listing_is_written_while_it_is_read(tmp_path: Path, shared: Path, how: str) -> None:
    """Each further line of PTX costs less memory than its own JSON has letters."""
    files = [alone(tmp_path / str(count), kernels(count)) for count in (20, 120)]
    lines = 100 * 100
    peaks = [peak("show", file.parent, "k0", how, kept=shared) for file in files]
    assert 0 <= (peaks[1] - peaks[0]) / lines < 950, peaks


def test_facts_of_a_function_take_few_bytes_a_line() -> None:
    """Flow, live registers, definitions and opcodes, with nothing of the lines themselves."""
    listing = parse(Stage.PTX, one_function(10_000))
    tracemalloc.start()
    try:
        facts = FunctionFacts(listing, listing.functions[0])
        known = facts.flow, facts.live, facts.chains, facts.code
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(known)
    assert kept / len(listing.lines) < 70
    assert most / len(listing.lines) < 150


@pytest.mark.parametrize(
    ("make", "most"),
    [
        pytest.param(one_function, 260, marks=pytest.mark.nightly),
        (lambda lines: kernels(lines // 100), 290),
    ],
)
def test_a_line_of_json_takes_so_many_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[int], str], most: int
) -> None:
    """Work in proportion to the lines, and not more of it a line than there was."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    counts = Calls()
    works = []
    for lines in (500, 500, 1_000, 1_500):
        file = alone(tmp_path / str(lines), make(lines))
        works.append(counts.of("show", file.parent, "k0", "--json"))
    _, small, middle, large = works  # the first imports, too
    assert large - middle < 1.2 * (middle - small), works
    assert (large - small) / 1_000 < most, works


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


def test_hints_are_counted_in_the_list(tmp_path: Path) -> None:
    env = environment(XDG_CACHE_HOME=str(tmp_path))
    listed = ptxview("list", SQUARE, "--json", env=env).json
    (variant,) = listed["kernels"][0]["variants"]
    shown = ptxview("show", SQUARE, "square_kernel", "--json", env=env).json
    (function,) = shown["functions"]
    assert variant["hints"] == len(function["notes"])
    assert "hints" in ptxview("list", SQUARE, env=env).text.splitlines()[2]


def test_what_was_not_counted_is_a_dash_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("inspector.reader.reader.MAX_COUNTED_VARIANTS", 0)
    done = call("list", SQUARE, "--json")
    assert done.json["kernels"][0]["variants"][0]["hints"] is None
    assert "hints of 1 variant are not counted yet" in done.said


class Calls:
    """Counts the functions that are called, in every thread."""

    def __init__(self) -> None:
        self.many = 0

    def __call__(self, frame: object, event: str, given: object) -> None:
        self.many += event == "call"

    def of(self, *words: str | Path) -> int:
        """How many ptxview calls for these words."""
        before = self.many
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            assert call(*words).status == 0
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self.many - before


@pytest.mark.nightly
def test_a_list_takes_work_in_proportion_to_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked of the machine for each of them, and no row is laid out cell by cell."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    monkeypatch.setattr("inspector.reader.reader.MAX_COUNTED_VARIANTS", 0)
    first = next(cache(tmp_path / "one", 1).iterdir())
    folders = [tmp_path / str(count) for count in (100, 300, 500)]
    for folder in folders:
        for n in range(int(folder.name)):
            here = folder / hashlib.sha256(b"%d" % n).hexdigest()[:52].upper()
            here.mkdir(parents=True)
            for file in first.iterdir():
                data = file.read_bytes()
                if file.suffix == ".json" and not file.name.startswith("__grp__"):
                    data = json.dumps({**json.loads(data), "hash": here.name.lower()}).encode()
                (here / file.name).write_bytes(data)
    counts = Calls()
    counts.of("list", folders[0])  # imports, and what tools say
    works = [counts.of("list", folder) for folder in folders]
    assert works[2] - works[1] < 1.2 * (works[1] - works[0]), works
    assert (works[2] - works[0]) / 400 < 2300, works


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


def test_a_list_counts_no_hints_of_long_variants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("inspector.reader.reader.MAX_COUNTED_LINES", 1000)
    for blocks, hints in ((400, 0), (600, None)):
        done = call("list", nested(tmp_path / "x.ptx", blocks), "--json")
        assert done.json["kernels"][0]["variants"][0]["hints"] == hints


def test_problems_beyond_a_bound_are_counted(tmp_path: Path) -> None:
    done = call("list", problems(tmp_path / "rec", 1000))
    assert "text 100\n" in done.said and "text 900\n" not in done.said
    assert re.search(r"! \d{3} more problems: ptxview list --json has all", done.said)
