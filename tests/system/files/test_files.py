"""What is opened: regular files alone, opened once, within bounds that are said and can be raised.

Every bound follows from ``PTXVIEW_MAX_BYTES``, so that most are met here at a thousandth of their
usual size. Memory is the peak of a child.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.base.errors import UsageError
from inspector.system import files
from tests.helpers.ptxview import (
    EXTENSION,
    MATMUL,
    SQUARE,
    Done,
    call,
    environment,
    finished,
    ptxview,
    saved,
    write_events,
)

START: dict[str, object] = {
    "event": "recording",
    "schema": 1,
    "time": 1.0,
    "command": ["python", "x.py"],
    "mode": "gpu",
}
END: dict[str, object] = {"event": "end", "time": 1e9, "exit_status": 0}
PTX = b".version 8.0\n.target sm_90\n.visible .entry k()\n{\n ret;\n}\n"
MB = 1 << 20


def problem(text: str) -> dict[str, object]:
    return {"event": "problem", "time": 2.0, "where": "w", "text": text}


def variant(name: str, blob: str) -> dict[str, object]:
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {"event": "triton", "time": 2.0, "name": name, "hash": digest, "files": {"ptx": blob}}


def jsonl(*events: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(e).encode() + b"\n" for e in events)


def zipped(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def problems(done: Done) -> list[str]:
    assert done.status == 0 and "Traceback" not in done.said, done.said
    said: list[str] = done.json["recording"]["problems"]
    return said


def peak(done: Done) -> int:
    assert done.peak is not None
    return done.peak


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """A command that waits for a pipe is ended: it would wait for ever."""

    def end(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def usual() -> int:
    """The memory of a command that reads next to nothing."""
    return peak(ptxview("list", SQUARE / "square_kernel.ptx"))


def raised(said: str) -> str:
    found = re.search(r"PTXVIEW_MAX_BYTES=(\w+) raises that", said)
    assert found, said
    return found[1]


def read_whole(path: Path, first: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Any]:
    """The first sentences, and the result after their advice is followed."""
    sentences: list[str] = []
    value = first
    for _ in range(30):
        monkeypatch.setenv(files.VARIABLE, value)
        done = call("list", path, "--json")
        left = [done.said] if done.status == 4 else problems(done)
        sentences = sentences or left
        bounds = [s for s in left if files.VARIABLE in s]
        if not bounds:
            return sentences, done.json
        value = raised(bounds[0])
    raise AssertionError(f"{value} did not help: {left}")


# -- what is no regular file ----------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endpoint(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as held:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            held.bind(path.name)
        finally:
            os.chdir(here)


def to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def to_pipe(path: Path) -> None:
    if not (path.parent / "the-pipe").exists():
        os.mkfifo(path.parent / "the-pipe")
    path.symlink_to("the-pipe")


ODD = [pipe, endpoint, to_device, to_pipe]
Make = Callable[[Path], None]


@pytest.mark.parametrize("make", ODD)
def test_one_that_is_named_is_refused_in_a_sentence(tmp_path: Path, make: Make) -> None:
    for name in ("x.ptx", "x.ptxview", "x.csv"):
        path = tmp_path / name
        make(path)
        done = call("list", path)
        assert done.status == 4 and not done.out and str(path) in done.said
        assert re.search(r"is a (pipe|socket|device)", done.said)


@pytest.mark.parametrize("make", ODD)
def test_one_in_a_recording_is_passed_over_and_said(tmp_path: Path, make: Make) -> None:
    """As a blob, as another process's events, as kept times and reports, as derived."""
    blob = hashlib.sha256(PTX).hexdigest()
    folder = write_events(tmp_path / "r", START, variant("k", blob), variant("j", "a" * 64), END)
    (folder / "blobs" / blob).write_bytes(PTX)
    names = (f"blobs/{'a' * 64}", "events-1-x.jsonl", "timings.jsonl", "ncu.jsonl")
    odd = [folder / name for name in names]
    for path in odd:
        make(path)
    done = call("list", folder, "--json")
    for path in odd:
        assert any(str(path) in p and " is a " in p for p in problems(done)), (path, problems(done))
    assert call("show", folder, "k").out == PTX
    shown = call("show", folder, "j")
    # A link is no file of the recording.
    assert shown.status in (2, 4) and not shown.out
    assert call("profile", "--stored", folder).status in (0, 4)


@pytest.mark.parametrize("make", ODD)
def test_one_in_a_cache_or_a_build_is_passed_over_and_said(tmp_path: Path, make: Make) -> None:
    cache = tmp_path / "cache"
    (cache / "whole").mkdir(parents=True)
    for file in SQUARE.iterdir():
        (cache / "whole" / file.name).write_bytes(file.read_bytes())
    names = ("whole/x.json", "torch_trace_1.log", "k.autotune.json", f"c{'a' * 51}.py", "y.ptx")
    odd = [cache / name for name in (*names, "z.best_config")]
    for path in odd:
        make(path)
    done = call("list", cache, "--json")
    assert [k["name"] for k in done.json["kernels"]] == ["square_kernel"]
    for path in odd:
        assert any(str(path) in p for p in problems(done)), (path, problems(done))
    build = tmp_path / "build"
    saved(build / "real.cuda.o", (EXTENSION / "cuda.cuda.o").read_bytes())
    for name in ("build.ninja", "odd.o"):
        make(build / name)
    done = call("list", build, "--json")
    assert done.json["kernels"]
    for name in ("build.ninja", "odd.o"):
        assert any(name in p for p in problems(done)), problems(done)


def test_a_file_that_becomes_a_pipe_before_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is what was opened, and opening does not wait."""
    path, other = tmp_path / "x.ptx", tmp_path / "file"
    os.mkfifo(path)
    other.write_bytes(b"x")
    monkeypatch.setattr(Path, "stat", lambda self, **_: os.stat(other))  # noqa: PTH116
    with pytest.raises(files.NotAFile, match="pipe"):
        files.read(path)


def opens(folder: Path, *args: str | Path) -> list[str]:
    """Every path below a folder that a command opens for reading, as Python's own audit has it."""
    code = (
        "import sys\n"
        "def hook(event, given):\n"
        "    if event == 'open' and str(given[0]).startswith(sys.argv[1]):\n"
        "        print('OPENED', given[0], file=sys.stderr)\n"
        "sys.addaudithook(hook)\n"
        "from inspector.commands.cli import main\nsys.exit(main(sys.argv[2:]))"
    )
    done = finished([sys.executable, "-c", code, folder, *args], seconds=90)
    assert done.status == 0, done.said
    return [line[7:] for line in done.said.splitlines() if line.startswith("OPENED ")]


def test_a_zip_is_opened_once_however_many_blobs_are_read(tmp_path: Path) -> None:
    counts = []
    for many in (3, 30):
        texts = {hashlib.sha256(b"%d" % n + PTX).hexdigest(): b"%d" % n + PTX for n in range(many)}
        events = [variant(f"k{n}", blob) for n, blob in enumerate(texts)]
        folder = tmp_path / str(many)
        folder.mkdir()
        path = zipped(
            folder / "x.ptxview",
            {"events.jsonl": jsonl(START, *events, END)}
            | {f"blobs/{d}": t for d, t in texts.items()},
        )
        counts.append(len([p for p in opens(folder, "list", path, "--json") if p == str(path)]))
    assert counts == [1, 1]


# -- bounds ---------------------------------------------------------------------------------------


def test_invalid_byte_limit_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for said in ("x", "-1", "1.5G", "1P", "²", "0x10"):
        monkeypatch.setenv(files.VARIABLE, said)
        with pytest.raises(UsageError, match=files.VARIABLE):
            files.limits()
    for said, total in {"1G": 1 << 30, "64m": 64 << 20, "1048576": MB, "": 1 << 30}.items():
        monkeypatch.setenv(files.VARIABLE, said)
        assert files.limits().total == total
    monkeypatch.setenv(files.VARIABLE, "many")
    assert call("list", SQUARE).status == 2


CUBIN = b"\x7fELF" + bytes(14) + b"\xbe\0"


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("x.ptx", PTX),
        ("x.so", b"\x7fELF"),
        ("x.cubin", CUBIN),
        ("x.ptxview", b"PK\3\4"),
        ("x", CUBIN),
        ("x.log", b""),
    ],
)
def test_sparse_file_of_any_size_is_refused(
    tmp_path: Path, name: str, head: bytes, usual: int
) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 40)
    done = call("list", path)
    assert done.status == 4 and not done.out and str(path) in done.said
    assert "MemoryError" not in done.said
    if head == PTX:  # one for all that the memory does not grow
        assert peak(ptxview("list", path, seconds=90)) < usual + 100 * MB


def test_line_that_is_too_long_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_events(
        tmp_path / "r", START, problem("first"), problem("x" * 100_000), problem("last"), END
    )
    sentences, whole = read_whole(folder, "1M", monkeypatch)
    assert "w: first" in sentences and "w: last" in sentences
    assert any("line 3 is longer than" in s for s in sentences)
    assert f"w: {'x' * 100_000}" in whole["recording"]["problems"]
    assert whole["recording"]["complete"] is True


@pytest.mark.nightly
def test_members_are_bounded_in_total(tmp_path: Path, usual: int) -> None:
    row = jsonl(problem("x" * 4000))
    path = tmp_path / "x.ptxview"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("events.jsonl", jsonl(START, END))
        for n in range(6):
            with archive.open(f"events-{n}-x.jsonl", "w") as out:
                for _ in range(100):
                    out.write(row * 250)  # 600 MB in all
    done = ptxview("list", path, "--json", env=environment(PTXVIEW_MAX_BYTES="64M"))
    assert any("PTXVIEW_MAX_BYTES=128M" in p for p in problems(done))
    assert peak(done) < usual + 200 * MB


@pytest.mark.parametrize("depth", [101, 100_000])
@pytest.mark.parametrize("pair", ["[]", '{"a":}'])
def test_deep_nesting_is_said_wherever_it_stands(tmp_path: Path, depth: int, pair: str) -> None:
    deep = pair[:-1] * depth + "0" + pair[-1] * depth
    line = f'{{"event":"call","time":2.0,"kind":"triton","name":"k","arguments":{deep}}}\n'
    folder = write_events(tmp_path / "r", START, line, problem("last"), END)
    (folder / "timings.jsonl").write_text(f'{{"rows":{deep}}}\n')
    (folder / "ncu.jsonl").write_text(f"{deep}\n")
    done = call("list", folder, "--json")
    said = done.json["recording"]["problems"]
    assert "w: last" in said and any("line 2" in p for p in said)


def test_folder_of_more_files_than_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    for n in range(40):
        (cache / f"{n:02}").mkdir(parents=True)
        for file in MATMUL.iterdir():
            data = file.read_bytes()
            if file.suffix == ".json":
                held = json.loads(data)
                data = json.dumps({**held, "hash": f"{n:064x}"}).encode()
            (cache / f"{n:02}" / file.name).write_bytes(data)
    sentences, whole = read_whole(cache, "256K", monkeypatch)
    assert any("more than 128 files and folders" in s for s in sentences)
    assert len(whole["kernels"][0]["variants"]) == 40


# -- lines ----------------------------------------------------------------------------------------


@given(st.binary(max_size=400), st.integers(1, 40))
def test_lines_are_those_of_the_file(tmp_path_factory: Any, data: bytes, longest: int) -> None:
    data = data.replace(b"\x01", b"\n").replace(b"\x02", b"\n")
    path = saved(tmp_path_factory.mktemp("lines") / "x", data)
    expected = [line for line in re.split(rb"(?<=\n)", data) if line]
    assert list(files.lines(path)) == expected
    long: list[int] = []
    short = list(files.lines(path, long.append, longest))
    assert long == [n for n, line in enumerate(expected, 1) if len(line.rstrip(b"\n")) > longest]
    for n, (got, line) in enumerate(zip(short, expected, strict=True), 1):
        assert got.rstrip(b"\n") == (b"" if n in long else line.rstrip(b"\n"))
    packed = zipped(path.with_name("x.zip"), {"x": data})
    again: list[int] = []
    assert list(files.archive(packed).lines("x", again.append, longest)) == short
    assert again == long


# -- zips -----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_member_that_unpacks_to_more_than_is_read(tmp_path: Path, usual: int) -> None:
    path = tmp_path / "x.ptxview"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("events.jsonl", jsonl(START, variant("k", "b" * 64), END))
        with archive.open(f"blobs/{'b' * 64}", "w") as out:
            for _ in range(600):
                out.write(bytes(MB))
    done, shown = ptxview("list", path, "--json"), ptxview("show", path, "k")
    assert any("too large" in p and "PTXVIEW_MAX_BYTES=2G" in p for p in problems(done))
    assert shown.status == 4 and "too large" in shown.said
    assert max(peak(done), peak(shown)) < usual + 60 * MB


def test_member_that_unpacks_to_more_than_it_says(tmp_path: Path, usual: int) -> None:
    """The directory says 100 bytes, the data is 300 MB."""
    member = f"blobs/{'b' * 64}"
    path = zipped(
        tmp_path / "x.ptxview",
        {"events.jsonl": jsonl(START, variant("k", "b" * 64), END), member: bytes(300 * MB)},
    )
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(member.encode()))
    data[at + 24 : at + 28] = struct.pack("<I", 100)
    path.write_bytes(data)
    done, shown = ptxview("list", path), ptxview("show", path, "k")
    assert shown.status == 4 and "damaged" in done.said + shown.said
    assert max(peak(done), peak(shown)) < usual + 60 * MB


def test_zip_with_one_name_twice_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.ptxview"
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("events.jsonl", jsonl(START, problem("one"), END))
        archive.writestr("events.jsonl", jsonl(START, problem("other"), END))
    problems = call("list", path, "--json").json["recording"]["problems"]
    assert any("events.jsonl" in p and "more than once" in p for p in problems)
    assert ("w: one" in problems) + ("w: other" in problems) == 1


# -- machine code with false sizes --------------------------------------------------------------


class Growing(files.File):
    """A file to which somebody appends as much as is read, before each read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        with self.path.open("ab") as file:
            file.write(b"x" * max(size or 0, 1))
        return super().read(-1 if size is None else size)


@pytest.mark.parametrize(
    "read", [files.File.read_all, files.digest, lambda f: files.contains(f, [b"y"])]
)
def test_a_file_that_grows_as_quickly_as_it_is_read_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[files.File], object]
) -> None:
    """And it is read by the piece: by the byte, nothing that grows is caught up with."""
    monkeypatch.setenv(files.VARIABLE, str(files.MIN_TOTAL_BYTES))
    path = saved(tmp_path / "x.so", b"x" * 1000)
    descriptor = os.open(path, os.O_RDONLY)
    with Growing(path, descriptor, os.fstat(descriptor)) as file:
        with pytest.raises(files.TooLarge):
            read(file)
        assert file.reads < 10 + 3 * files.limits().streamed / files.CHUNK
