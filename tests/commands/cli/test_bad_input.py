"""Bad input: every kind gets a sentence, a hint and the right exit status, and loses nothing."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspector.system import toolchain
from tests.helpers.nightly import nightly
from tests.helpers.ptxview import (
    LECTURE,
    MATMUL,
    SQUARE,
    call,
    command,
    environment,
    finished,
    saved,
    variants_of,
)
from tests.helpers.tools import needs


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A copy of two folders of Triton's cache."""
    for folder in (SQUARE, MATMUL):
        shutil.copytree(folder, tmp_path / "triton" / folder.name)
    return tmp_path / "triton"


def square(cache: Path, suffix: str) -> Path:
    return cache / SQUARE.name / f"square_kernel{suffix}"


@pytest.mark.parametrize("size", [0, 3000])
def test_damaged_cubin_has_no_figures_and_its_other_stages(cache: Path, size: int) -> None:
    path = square(cache, ".cubin")
    path.write_bytes(path.read_bytes()[:size])
    value = call("list", cache, "--json").json
    found = {k["name"]: v for k, v in variants_of(value)}
    assert found["square_kernel"]["resources"]["registers"] is None
    assert found["matmul_kernel"]["resources"]["registers"] == 72
    assert call("show", cache, "square_kernel").out == square(cache, ".ptx").read_bytes()
    done = call("show", cache, "square_kernel", "--stage", "sass")
    assert done.status == 4 and not done.out and "Traceback" not in done.said
    if size == 0:
        assert any(path.name in p and "empty" in p for p in value["recording"]["problems"])


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"hash": 5}', b"\xff\xfe", b"[" * 100_000],
)
def test_damaged_metadata_loses_only_its_own_kernel(cache: Path, content: bytes) -> None:
    square(cache, ".json").write_bytes(content)
    value = call("list", cache, "--json").json
    assert "matmul_kernel" in {k["name"] for k, _ in variants_of(value)}
    assert any(SQUARE.name in p for p in value["recording"]["problems"])


def test_text_that_is_not_utf8_comes_back_byte_for_byte(cache: Path) -> None:
    path = square(cache, ".ptx")
    data = path.read_bytes() + b"// \xff\xfe \x80\r\n\x00\x1b[31m"
    path.write_bytes(data)
    assert call("show", cache, "square_kernel").out == data
    shown = call("show", cache, "square_kernel", "--json").json
    text = "\n".join(line["text"] for line in shown["lines"])
    assert text.encode("utf-8", "surrogateescape") == data


def bad_paths(folder: Path) -> Iterator[Path]:
    yield folder / "nowhere"
    for name, data in {
        "empty": b"",
        "empty.ptx": b"",
        "empty.cubin": b"",
        "text.txt": b"hello\n",
        "zeros": bytes(5000),
        "host.o": b"\x7fELF" + bytes(200),
        "x.cubin": b"no cubin",
        "x.so": b"\x7fELF\x02\x01\x01" + bytes(57),
        "x.fatbin": b"\x50\xed\x55\xba" + bytes(60),
        "x.ttir": b"\0\1\2",
        "image.png": b"\x89PNG\r\n\x1a\n",
    }.items():
        (folder / name).write_bytes(data)
        yield folder / name
    (folder / "void").mkdir()
    yield folder / "void"
    saved(folder / "texts" / "a.txt", "a")
    yield folder / "texts"
    with zipfile.ZipFile(folder / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    yield folder / "other.zip"
    os.mkfifo(folder / "pipe")
    yield folder / "pipe"
    yield Path("/dev/null")
    yield folder / ("long" * 100)


def test_unknown_kinds_of_paths_are_unreadable(tmp_path: Path) -> None:
    paths = list(bad_paths(tmp_path))
    assert len(paths) > 5
    for path in paths:
        for name in ("list", "show", "open"):
            done = call(name, path, *(["x"] if name == "show" else []))
            assert done.status == 4, (name, path, done)
            assert not done.out
            assert str(path) in done.said


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["-x"],
        ["list", "--nope"],
        ["show", "a", "b", "c"],
        ["show", "--stage", "nope"],
        ["explain"],
        ["explain", "--list", "nonsense"],
        ["step", "--lane", "x"],
    ],
)
def test_invalid_command_lines_are_usage_errors(words: list[str]) -> None:
    done = call(*words)
    assert done.status == 2 and not done.out and done.said


@pytest.mark.parametrize("words", [["list"], nightly(["show", "--json"])])
@needs("bash")
def test_closed_pipe_is_not_reported(words: list[str]) -> None:
    kernel = ["matmul_kernel"] if words[0] == "show" else []
    words = [words[0], str(LECTURE), *kernel, *words[1:]]
    shell = " ".join(f"'{w}'" for w in command(words))
    done = finished(["bash", "-c", f"{shell} | true; exit ${{PIPESTATUS[0]}}"])
    assert done.status in (0, 141), done.said
    assert "Traceback" not in done.said and "Broken" not in done.said


def test_interruption_is_130_without_a_traceback(tmp_path: Path) -> None:
    """Slow tools in place of a large cache: Ctrl-C comes while they run and does not wait."""
    slow = tmp_path / "cuda" / "bin"
    slow.mkdir(parents=True)
    for name in ("cuobjdump", "c++filt", "nvdisasm", "ptxas", "nvcc"):
        saved(slow / name, f"#!/bin/sh\n: > {tmp_path}/runs; exec sleep 600\n", 0o755)
    code = (
        "import sys\nfrom pathlib import Path\nfrom inspector.system import toolchain\n"
        f"toolchain.places = lambda: iter([('here', Path({str(slow)!r}))])\n"
        "toolchain.version_of = lambda path: '1'\n"
        "from inspector.commands.cli import main\nprint('ready', flush=True)\n"
        f"sys.exit(main(['list', {str(SQUARE)!r}]))"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # Tests in the background have it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        env=environment(XDG_CACHE_HOME=str(tmp_path)),
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    while not (tmp_path / "runs").exists():
        assert started.poll() is None, started.communicate()
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGINT)
    _, err = started.communicate(timeout=120)
    assert started.returncode == 130
    assert b"Traceback" not in err


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A machine without any of the vendor's tools, and without what they made before."""
    monkeypatch.setattr(toolchain, "places", lambda: iter(()))
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no-cache"))
    toolchain.find.cache_clear()
    yield
    toolchain.find.cache_clear()


@pytest.mark.usefixtures("no_tools")
def test_doctor_without_tools_says_the_cost_of_each() -> None:
    value = call("doctor", "--json").json
    for each in value["tools"]:
        assert each["found"] == [] and each["get"]
    text = call("doctor").text
    assert text.count("missing") >= 5 and "pip install" in text


@pytest.mark.parametrize(
    ("error", "said", "where"),
    [
        (MemoryError(), "not enough memory", "list"),
        (RecursionError(), "nested too deeply", "list"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "encoded", "list"),
        (ZeroDivisionError("\x1b[2Jby zero"), "fault of ptxview's own: ZeroDivisionError", "list"),
        (KeyError("k"), "fault of ptxview's own: KeyError", "run"),
    ],
)
def test_unexpected_errors_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, where: str
) -> None:
    module = importlib.import_module(f"inspector.commands.{where}")

    def fail(*given: object) -> int:
        raise error

    monkeypatch.setattr(module, "run", fail)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = call(where, SQUARE)
    assert done.status == (125 if where == "run" else 4)
    assert said in done.said and "Traceback" not in done.said and "\x1b" not in done.said
    kept = tmp_path / "ptxview" / "fault.txt"
    assert str(kept) in done.said and type(error).__name__ in kept.read_text("utf-8")
    monkeypatch.setenv("PTXVIEW_TRACEBACK", "1")
    done = call(where, SQUARE)
    assert "Traceback" in done.said and "\x1b" not in done.said
