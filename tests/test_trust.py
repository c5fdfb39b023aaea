"""Promises to users who open a stranger's recording: nothing in it is run, believed or followed
before they allow it, and then it is run by their interpreter."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from inspector.base.errors import ToolMissing
from inspector.base.model import Stage
from inspector.commands.common import open_reader
from inspector.measure.time.take import interpreter, is_own
from inspector.recording.layout import (
    BlobContent,
    DerivedCache,
    pack,
    recordings_folder,
    store_record,
    stored_records,
    user_cache,
)
from inspector.sources.opening import open_path
from inspector.system import toolchain
from inspector.tui.app.app import PtxviewApp
from inspector.tui.keys.command_table import TABLE, KeyContext
from inspector.tui.main.main_screen import file_name
from inspector.tui.work.work_screen import TimingScreen, TimingState
from tests.helpers.ptxview import (
    EXTENSION,
    LECTURE,
    REPOSITORY,
    SAMPLE,
    SQUARE,
    Done,
    call,
    environment,
    ptxview,
    saved,
    write_events,
)
from tests.helpers.shared import once
from tests.helpers.tools import needs
from tests.tui.conftest import (  # noqa: F401
    frames_at_rest,
    styles_parsed_once,
    waits_for_what_is_to_be_done,
)

TOOLS = ("nvdisasm", "cuobjdump", "ptxas", "nvcc", "c++filt", "cu++filt", "ncu", "gcc", "g++")

# ptxview in processes that believe that there is a GPU, and write down each program that they start
# and each file that is executed in them: one a command, forked when what all need is imported.
WATCHED = """
import json, os, sys
place, asked = sys.argv[1:]
log = open(place, "a", buffering=1)
def watch(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn"):
        print(event, os.fsdecode(args[0]), file=log)
    elif event == "exec" and getattr(args[0], "co_filename", "")[:1] == "/":
        print(event, args[0].co_filename, file=log)
    elif event == "ctypes.dlopen":
        print(event, args[0], file=log)
from inspector.system import toolchain
toolchain.gpu_present = lambda: True
sys.addaudithook(watch)
from inspector.commands.cli import main
import inspector.commands.diff, inspector.commands.list, inspector.commands.show
for number, words in enumerate(json.loads(asked)):
    if not os.fork():
        for descriptor in (1, 2):
            os.dup2(os.open(f"{place}.{number}.{descriptor}", os.O_WRONLY | os.O_CREAT), descriptor)
        raise SystemExit(main(words))
    print(os.waitstatus_to_exitcode(os.wait()[1]), file=open(f"{place}.{number}.0", "w"))
    if os.path.exists(os.path.join(os.path.dirname(place), "mark")):
        break
"""


class Stranger:
    """Files of a stranger: everything in the recording that could be a path is a hostile program,
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
        saved(path, f"#!/bin/sh\necho ran >> {self.mark}\necho '{{}}'\n", 0o755)

    def folder(self, named: str) -> Path:
        """A recording's folder in which every path is ``named``."""
        out = _unpacked(self.home / "recording")
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
            return {
                k: [named, *v[1:]] if k == "command" and v else self._turned(v, named)
                for k, v in value.items()
            }
        if isinstance(value, list):
            return [self._turned(each, named) for each in value]
        path = isinstance(value, str) and value.startswith("/") and "\n" not in value
        return named if path else value


@pytest.fixture
def stranger(tmp_path: Path) -> Stranger:
    made = Stranger(tmp_path)
    # The trap works: it reveals its start.
    subprocess.run(["./python3-his"], cwd=made.home, check=True, capture_output=True)
    assert made.mark.exists()
    made.mark.unlink()
    return made


def watched_all(
    stranger: Stranger, commands: Sequence[Sequence[str | Path]], **changes: str | None
) -> tuple[list[Done], list[str]]:
    """Run ptxview's commands in the stranger's folder until a hostile program has run, and list all
    that was started and executed."""
    log = saved(stranger.root / "log", "")
    asked = json.dumps([[str(word) for word in words] for words in commands])
    whole = subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, str(log), asked],
        cwd=stranger.home,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
        env=environment(PYTHONPATH=str(REPOSITORY), CUDA_VISIBLE_DEVICES=None, **changes),
    )
    assert (whole.returncode, whole.stdout, whole.stderr) == (0, b"", b""), whole
    done = []
    for number in range(len(commands)):
        status, out, err = (log.with_name(f"log.{number}.{n}") for n in range(3))
        if not status.exists():
            break
        done.append(Done(int(status.read_text()), out.read_bytes(), err.read_bytes()))
        for path in (status, out, err):
            path.unlink()
    return done, log.read_text().splitlines()


def watched(
    stranger: Stranger, *words: str | Path, **changes: str | None
) -> tuple[Done, list[str]]:
    """One of ptxview's commands, and what it started and executed."""
    (done,), started = watched_all(stranger, [words], **changes)
    return done, started


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ("folder", "./python3-his"),
        pytest.param("file", "python3-his", marks=pytest.mark.nightly),
    ],
)
def test_no_command_runs_what_a_recording_names(stranger: Stranger, shape: str, named: str) -> None:
    make: Callable[[str], Path] = getattr(stranger, shape)
    path = make(named)
    commands: list[tuple[str | Path, ...]] = [
        ("list", path),
        ("list", path, "--json"),
        ("open", path, "--no-tui"),
        ("show", path, "a4fe74f3"),
        ("show", path, "a4fe74f3", "--stage", "sass", "--beside", "source"),
        ("show", path, "gelu_kernel", "--json"),
        ("diff", path, SAMPLE),
        ("diff", f"{path}::square_matrix_kernel", f"{SAMPLE}::square_matrix_kernel"),
        ("time", path),
        ("time", path, "--stored"),
        ("time", path, "gelu_cuda"),
        ("profile", "--stored", path),
        ("profile", path),
        ("run", path),
        ("ncu", path),
        ("doctor",),
        ("trace", path, "780c582c", "--by", "sass"),
        ("trace", path, "gelu_kernel"),
        ("step", path, "780c582c", "--commands", "end; registers"),
    ]
    if shape == "folder":  # what is read of it is the same; what would be run is named otherwise
        commands = [c for c in commands if c[0] in ("show", "time", "profile", "run", "doctor")]
        commands.remove(("show", path, "gelu_kernel", "--json"))
    ended, started = watched_all(stranger, commands)
    assert not stranger.mark.exists(), commands[len(ended) - 1]
    assert len(ended) == len(commands)
    assert not [s for s in started if str(stranger.home) in s or "python3-his" in s]
    for words, done in zip(commands, ended, strict=True):
        assert b"Traceback" not in done.err, done.said
        assert done.status in (0, 1, 2, 3, 4, 125), words
        if words == ("time", path):
            # It came to the question, which names what would run.
            assert done.status == 2 and "--trust" in done.said and sys.executable in done.said


@pytest.mark.nightly
def test_the_working_folder_is_no_place_of_tools(stranger: Stranger) -> None:
    path = stranger.file("python3-his")
    shown = ("show", path, "a4fe74f3", "--stage", "sass")
    for words in (("list", path), shown, ("doctor",), ("time", path)):
        # An entry of PATH that is empty or relative is the working folder.
        done, started = watched(stranger, *words, PATH=f".::{os.environ['PATH']}:")
        assert not stranger.mark.exists(), words
        assert not [s for s in started if s.rpartition(" ")[2][:1] != "/"], started
        assert done.status in (0, 2), done.said


@pytest.mark.parametrize("folder", ["build", "-ccbin=."])
def test_ptx_of_a_build_is_made_by_ones_own_nvcc_and_compiler(
    stranger: Stranger, folder: str
) -> None:
    build = stranger.home / folder
    shutil.copytree(EXTENSION, build)
    ninja = build / "build.ninja"
    said = ninja.read_text().replace("/usr/local/cuda/bin/nvcc", "./nvcc -ccbin ./gcc")
    ninja.write_text(re.sub(r"/tmp/cap/\S+/(\w+\.)", r"\1", said))
    for name in TOOLS:
        stranger.program(build / name)
    # The newest nvcc is the user's own; it notes with what it was called, and runs his compiler.
    tools = stranger.root / "cuda" / "bin"
    tools.mkdir(parents=True)
    (tools / "nvcc").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "release 99.0, V99.0.0" && exit\n'
        f'for a in "$@"; do echo "$a"; done > {stranger.root}/called\ngcc --version\nexit 1\n'
    )
    (tools / "nvcc").chmod(0o755)
    words = ("show", f"./{folder}", "square_matrix_kernel", "--stage", "ptx")
    path = f".::{tools}:{os.environ['PATH']}:"
    done, started = watched(stranger, *words, CUDA_HOME=str(tools.parent), PATH=path)
    assert done.status == 4 and "nvcc failed" in done.said, done.said
    called = (stranger.root / "called").read_text().splitlines()
    assert not [word for word in called if "ccbin" in word and not word.startswith("/")], called
    assert not [s for s in started if "/sent/" in s]
    assert not stranger.mark.exists()


def test_python_m_takes_nothing_from_the_working_folder(stranger: Stranger) -> None:
    path = stranger.file("python3-his")
    done = ptxview("list", path, cwd=stranger.home, fresh=True)
    assert done.status == 0, done.said
    assert not stranger.mark.exists()


@pytest.mark.nightly
def test_after_leave_it_is_the_users_own_interpreter_that_runs(stranger: Stranger) -> None:
    path = stranger.file("./python3-his")
    done, started = watched(stranger, "time", path, "square_kernel", "--trust")
    assert done.status == 3 and "sees none" in done.said  # his interpreter found no device
    assert f"under {sys.executable}" in done.said
    begun = {s.partition(" ")[2] for s in started if s.startswith("subprocess.Popen ")}
    assert {program for program in begun if "python" in Path(program).name} == {sys.executable}
    assert not stranger.mark.exists()


@pytest.mark.nightly
def test_after_leave_it_is_the_interpreter_that_the_user_named(stranger: Stranger) -> None:
    chosen = stranger.root / "python-chosen"
    saved(chosen, f"#!/bin/sh\necho chosen > {stranger.root}/chosen\nexit 45\n", 0o755)
    path = stranger.file("./python3-his")
    words = ("time", path, "square_kernel", "--python", chosen)
    done, _ = watched(stranger, *words)
    assert done.status == 2 and str(chosen) in done.said
    assert not (stranger.root / "chosen").exists(), "not even the chosen one, before leave"
    done, _ = watched(stranger, *words, "--trust")
    assert (stranger.root / "chosen").exists() and not stranger.mark.exists()


def test_upgrade_executes_no_python_before_leave(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    mark, asked = tmp_path / "mark", tmp_path / "asked"
    run_chosen = f'#!/bin/sh\ntouch {asked}\nexec {plain_python()} "$@"\n'
    chosen = saved(tmp_path / "python-chosen", run_chosen, 0o755)
    text = f"import triton\n\n@triton.jit\ndef k(x, n=open({str(mark)!r}, 'a')):\n    pass\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    kernel = {
        "event": "triton",
        "name": "k",
        "hash": "a" * 64,
        "metadata": {"name": "k", "target": {"backend": "cuda", "arch": 90, "warp_size": 32}},
        "signature": {"x": "*fp32", "n": "constexpr"},
        "source": {"file": "/his/k.py", "name": "k", "blob": digest, "first": 3},
    }
    saved(tmp_path / "his" / "blobs" / digest, text)
    path = write_events(tmp_path / "his", {"event": "recording", "schema": 1}, kernel)
    words = ("upgrade", path, "--python", chosen, "-o", tmp_path / "y.ptxview")
    done = call(*words)
    assert done.status == 2 and "--trust" in done.said and str(chosen) in done.said, done.said
    assert not asked.exists() and not mark.exists()
    call(*words, "--trust")
    assert asked.exists() and mark.exists()


def test_the_interpreter_is_the_one_asked_for_else_the_first_of_ones_own_with_torch() -> None:
    asked: list[str] = []

    def versions(python: str) -> dict[str, str | None]:
        asked.append(python)
        return {"torch": "2.11" if python == "/own/second" else None}

    recorded = ["/his/python", "x.py\x1b[2J"]
    assert interpreter("/asked", ["/own/first"], versions, recorded) == "/asked"
    assert asked == []
    assert interpreter(None, ["/own/first", "/own/second"], versions, recorded) == "/own/second"
    with pytest.raises(ToolMissing, match="no interpreter with torch") as missing:
        interpreter(None, ["/own/first", "/own/first"], versions, recorded)
    assert asked == ["/own/first", "/own/second", "/own/first"], "each once, the recorded one never"
    assert "It was recorded by: /his/python x.py␛[2J" in missing.value.hint


# -- the interface ------------------------------------------------------------------------------


async def _rest(ui: Any) -> None:
    for _ in range(3000):
        await ui.pause()
        if not isinstance(ui.app.screen, TimingScreen) or ui.app.screen.settled:
            return
        await ui.pause(0.01)
    raise AssertionError("it goes on")


@pytest.mark.parametrize("focused", [1, pytest.param(3, marks=pytest.mark.nightly)])
async def test_no_key_runs_what_a_recording_names(
    stranger: Stranger, focused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stranger.folder("./python3-his")
    monkeypatch.chdir(stranger.home)
    monkeypatch.setattr(toolchain, "gpu_present", lambda: True)
    monkeypatch.setenv("EDITOR", "true")
    app = PtxviewApp(open_reader(str(path)))
    keys = {c.keys.split(",")[0] for c in TABLE} - {"t", "y", "q"}  # q ends the interface
    async with app.run_test(size=(120, 40)) as ui:
        main = app.screen
        for _ in range(focused):
            await ui.press("tab")
            for key in sorted(keys):
                await ui.press(key)
                await ui.pause()
                while app.screen is not main:
                    app.pop_screen()
                    await ui.pause()
                assert not stranger.mark.exists(), key
        await ui.press("escape", "escape")
        while app.screen is not main:  # the overview, where there was nothing else to leave
            app.pop_screen()
            await ui.pause()
        kernels = main.kernels  # type: ignore[attr-defined]
        kernels.go(next(i for i, r in enumerate(kernels.rows) if r.subject.key[1] == "a4fe74f3"))
        await ui.press("t")
        for _ in range(20):  # while it is still looking, too
            await ui.press("t", "a", "c")
        await _rest(ui)
        screen = app.screen
        assert isinstance(screen, TimingScreen) and screen.state is TimingState.ASKING
        for key in sorted(k.keys.split(",")[0] for k in TABLE if k.context is KeyContext.TIMING):
            if key not in ("y", "n", "escape"):
                await ui.press(key)
        assert screen.state is TimingState.ASKING and not stranger.mark.exists()
        await ui.press("n")
        await _rest(ui)
        assert not stranger.mark.exists()


# -- whose a recording is -----------------------------------------------------------------------


def test_whose_it_is_was_settled_when_it_was_opened(tmp_path: Path) -> None:
    mine = _unpacked(recordings_folder() / "mine")
    _unpacked(tmp_path / "his")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "his")
    his = open_path(link)
    link.unlink()
    link.symlink_to(mine)
    # What the link leads to by now is mine, what was read and would be run is his.
    assert is_own(open_path(mine)) and is_own(open_path(link)) and not is_own(his)
    content = next(iter(his.kernels[0].variants[0].stages.values())).content
    assert isinstance(content, BlobContent) and content.path.is_relative_to(tmp_path / "his")
    outside = recordings_folder() / "his"
    outside.symlink_to(tmp_path / "his")
    assert not is_own(open_path(outside))


# -- nothing derived is believed, nothing followed -----------------------------------------------


@pytest.fixture(scope="session")
def few(common: Path) -> Path:
    """The two kernels of the sample that are shown, in a recording of their own."""

    def export(to: Path) -> None:
        words = ("softmax_kernel", "square_matrix_kernel", "-o", to)
        assert call("export", SAMPLE, *words).status == 0

    return once(common / "made" / "few.ptxview", export)


def _unpacked(to: Path, recording: Path = SAMPLE) -> Path:
    with zipfile.ZipFile(recording) as archive:
        archive.extractall(to)
    return to


def _state(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


READ = (
    ("list", "--json"),
    ("show", "square_matrix_kernel", "--stage", "sass"),
    ("show", "softmax_kernel", "-a"),
)


def _read(path: Path) -> list[bytes]:
    """What the commands that disassemble and measure print of a recording."""
    out = []
    for command, *words in READ:
        done = call(command, path, *words)
        assert done.status == 0, done.said
        # How many hints are counted in a list depends on how quick the machine is just then.
        said = re.sub(rb'"hints": ?(?:null|\d+)', b'"hints"', done.out)
        out.append(said.replace(str(path).encode(), b"PATH"))
    return out


def _forged(folder: Path, cache: Path) -> None:
    """``derived/`` as a machine fills it, but for what nvdisasm is said to have printed."""
    (folder / "derived").mkdir(exist_ok=True)
    for entry in cache.iterdir():
        data = entry.read_bytes().replace(b"EXIT", b"FAKE").replace(b"REG:", b"REG:9")
        (folder / "derived" / entry.name).write_bytes(data)


def test_what_a_recording_says_was_derived_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = _unpacked(tmp_path / "his", few)
    true = _read(few)
    _forged(folder, user_cache())
    shutil.make_archive(str(tmp_path / "x"), "zip", folder)
    archive = (tmp_path / "x.zip").rename(tmp_path / "x.ptxview")
    before = _state(folder)
    for path in (folder, archive):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"empty-{path.name}"))
        assert _read(path) == true
        assert any(user_cache().iterdir()), "what was derived is kept, in the user's own folder"
    assert _state(folder) == before
    # Where nothing of one's own can be written, either.
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _read(folder) == true and _state(folder) == before


@pytest.mark.parametrize("whose", ["his", "mine"])
def test_nothing_is_written_through_a_link_in_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str, few: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    where = tmp_path / "his" if whose == "his" else recordings_folder() / f"links-{os.getpid()}"
    folder = _unpacked(where, few)
    outside = tmp_path / "outside"
    saved(outside / "precious", "mine\n")
    (folder / "derived").symlink_to(outside)
    for name in ("timings.jsonl", "ncu.jsonl"):
        (folder / name).symlink_to(outside / "precious")
    _read(folder)
    for name in ("timings.jsonl", "ncu.jsonl"):
        with pytest.raises(OSError):
            store_record(folder, {"taken": "now"}, name)
        (folder / name).unlink()
        (folder / name).symlink_to(outside / "new")
        with pytest.raises(OSError):
            store_record(folder, {"taken": "now"}, name)
        (folder / name).unlink()
        # A second name of a file, as a link that looks like none.
        os.link(outside / "precious", folder / name)
        with pytest.raises(OSError):
            store_record(folder, {"taken": "now"}, name)
        (folder / name).unlink()
        store_record(folder, {"taken": "now"}, name)
        assert stored_records(folder, name) == [{"taken": "now"}]
    assert _state(outside) == {"precious": b"mine\n"}
    shutil.rmtree(folder)


def test_nothing_is_read_through_a_link_in_a_recording(tmp_path: Path) -> None:
    folder = _unpacked(tmp_path / "his")
    (tmp_path / "secret.jsonl").write_text('{"secret": 1}\n')
    (tmp_path / "secret.csv").write_text('"ID","Kernel Name"\n"0","secret"\n')
    (folder / "timings.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (folder / "ncu.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "events-9.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert stored_records(folder) == []
    for done in (call("list", folder, "--json"), call("list", folder)):
        assert done.status == 0 and b"secret" not in done.out + done.err
    pack(folder, tmp_path / "x.ptxview")
    with zipfile.ZipFile(tmp_path / "x.ptxview") as archive:
        assert not [n for n in archive.namelist() if b"secret" in archive.read(n)]


def test_a_blob_that_became_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    folder = _unpacked(tmp_path / "his")
    recording = open_path(folder)
    content = recording.kernels[0].variants[0].stages
    blob = next(c.content for c in content.values() if isinstance(c.content, BlobContent))
    data = blob.read()
    (tmp_path / "copy").write_bytes(data)
    blob.path.unlink()
    blob.path.symlink_to(tmp_path / "copy")  # after it was looked at, with the very same content
    with pytest.raises(Exception, match="no file that can be read"):
        blob.read()
    blob.path.unlink()
    os.mkfifo(blob.path)
    with pytest.raises(Exception, match="no file that can be read"):
        blob.read()


def test_a_blob_of_a_zip_is_what_it_was_named_by(tmp_path: Path) -> None:
    made = tmp_path / "x.ptxview"
    with zipfile.ZipFile(SAMPLE) as source, zipfile.ZipFile(made, "w") as out:
        for name in source.namelist():
            data = source.read(name)
            out.writestr(name, data.replace(b"mul", b"add") if name.startswith("blobs/") else data)
    done = call("show", made, "a4fe74f3", "--stage", "ptx")
    assert done.status == 4 and "its content is not what was recorded" in done.said


def test_only_what_this_user_alone_can_write_is_believed(tmp_path: Path) -> None:
    cache = DerivedCache(tmp_path / "derived")
    cache.store("key", b"data")
    entry = tmp_path / "derived" / "key"
    assert cache.get("key") == b"data"
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    entry.chmod(0o666)
    assert cache.get("key") is None
    cache.store("key", b"renewed")
    assert cache.get("key") == b"renewed"
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert cache.get("key") is None
    cache.store("key", b"again")  # in the place of the link, and not through it
    assert cache.get("key") == b"again" and (tmp_path / "elsewhere").read_bytes() == b"renewed"
    if os.geteuid() == 0:
        os.chown(entry, 4711, -1)
        assert cache.get("key") is None


def test_what_was_derived_makes_room_once_a_day_the_oldest_first(tmp_path: Path) -> None:
    folder = tmp_path / "derived"
    for number in range(6):
        DerivedCache(folder, max_bytes=3000).store(f"entry{number}", bytes(1000))
        os.utime(folder / f"entry{number}", (number, number))
    names = {f"entry{n}" for n in range(6)}
    assert {p.name for p in folder.iterdir()} == names, "not twice on one day"
    os.utime(tmp_path / "derived.tidied", (0, 0))
    DerivedCache(folder, max_bytes=3000).store("new", bytes(1000))
    assert {p.name for p in folder.iterdir()} == {"entry4", "entry5", "new"}
    (tmp_path / "derived.tidied").unlink()
    (tmp_path / "derived.tidied").symlink_to(tmp_path / "outside")
    DerivedCache(folder, max_bytes=0).store("newer", b"x")
    assert not (tmp_path / "outside").exists()


# -- links in caches and build folders -----------------------------------------------------------


def test_a_link_out_of_a_cache_is_no_kernel(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(LECTURE / "triton", cache)
    inductor = cache / "ab" / f"c{'a' * 51}.py"
    inductor.parent.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("# AOT ID: ['0_inference']\nroot:x:0:0:root:/root:/bin/bash\nAsyncCompile\n")
    inductor.symlink_to(secret)
    entry = cache / SQUARE.name
    kept_files = {}
    for ending in ("ptx", "ttir", "cubin", "json"):
        file = entry / f"square_kernel.{ending}"
        kept_files[ending] = file.read_bytes()
    (entry / "square_kernel.ptx").unlink()
    (entry / "square_kernel.ptx").symlink_to("/etc/passwd")
    (entry / "square_kernel.ttir").rename(entry / "kept")
    (entry / "square_kernel.ttir").symlink_to("kept")  # within the folder it may lead anywhere
    done = call("list", cache, "--json")
    listed = done.json
    variants = [v for k in listed["kernels"] for v in k["variants"]]
    (variant,) = (v for v in variants if v["cache_key"] == SQUARE.name)
    assert "ptx" not in variant["stages"]
    assert listed["graphs"] == []
    problems = "\n".join(listed["recording"]["problems"])
    assert problems.count("leads out of") == 2
    assert call("show", cache, variant["id"], "--stage", "ttir").out == kept_files["ttir"]
    assert b"root:" not in done.out + done.err
    done = call("show", cache, variant["id"], "--stage", "ptx")
    assert done.status == 4 and b"root:" not in done.out + done.err


def test_a_link_out_of_any_folder_is_no_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    saved(folder / "own.ptx", (SQUARE / "square_kernel.ptx").read_bytes())
    for name in ("a.ptx", "b.ttir", "c.llir", "torch_trace_d.log"):
        (folder / name).symlink_to("/etc/passwd")
    listed = call("list", folder, "--json").json
    assert [k["name"] for k in listed["kernels"]] == ["square_kernel"]
    assert b"root:" not in call("list", folder, "--json").out


def test_a_file_that_becomes_a_link_after_it_was_listed_is_not_read(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(SQUARE, cache / SQUARE.name)
    recording = open_path(cache)
    (variant,) = recording.kernels[0].variants
    contents = {s.value: f.content for s, f in variant.stages.items()}
    file = cache / SQUARE.name / "square_kernel.ptx"
    file.unlink()
    file.symlink_to("/etc/passwd")
    with pytest.raises(Exception, match="leads out of"):
        contents["ptx"].read()
    # A folder on the way, too.
    (cache / SQUARE.name).rename(tmp_path / "moved")
    (cache / SQUARE.name).symlink_to(tmp_path / "moved")
    with pytest.raises(Exception, match="leads out of"):
        contents["ttir"].read()


def test_links_out_of_a_build_folder_are_no_kernels(tmp_path: Path) -> None:
    build = tmp_path / "build"
    shutil.copytree(EXTENSION, build)
    listed = call("list", build, "--json").json
    assert listed["kernels"]
    ninja = build / "build.ninja"
    ninja.write_text(re.sub(r"/tmp/cap/\S+/(\w+\.)", r"\1", ninja.read_text()))
    (source,) = build.glob("*.cu")
    text = source.read_bytes()
    source.unlink()
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    source.symlink_to(tmp_path / "passwd")
    name = listed["kernels"][0]["name"]
    for stage in ("source", "ptx"):  # which nvcc would quote, where it is here
        done = call("show", build, name, "--stage", stage)
        assert b"root:" not in done.out + done.err
    (tmp_path / "real.cu").write_bytes(text)
    source.unlink()
    source.symlink_to(tmp_path / "real.cu")  # a source may be elsewhere, as a source
    objects = [p for p in build.iterdir() if p.suffix in (".o", ".so")]
    for path in objects:
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    assert call("list", build).status == 4


# -- the editor ----------------------------------------------------------------------------------

NAMES = ("--cmd=!touch PWNED", "scp:x")


async def _until(ui: Any, done: Callable[[], bool]) -> None:
    for _ in range(500):
        await ui.pause(0.01)
        if done():
            return


async def _edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: str, command: str
) -> None:
    """``E`` on the source of a recording whose source lay where it says."""
    folder = _unpacked(tmp_path / "his")
    for file in folder.glob("events-*.jsonl"):
        rows = [json.loads(row) for row in file.read_text("utf-8").splitlines()]
        for row in rows:
            if row["event"] == "triton" and isinstance(row.get("source"), dict):
                row["source"]["file"] = recorded
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PtxviewApp, "suspend", lambda self: nullcontext())
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", command)
    app = PtxviewApp(open_reader(str(folder)))
    async with app.run_test(size=(200, 50)) as ui:
        main: Any = app.screen
        await _until(ui, lambda: bool(main.kernels.rows))
        listed = enumerate(main.kernels.rows)
        main.kernels.go(next(i for i, r in listed if r.subject.key[1] == "a4fe74f3"))
        await ui.press("tab", "1")
        await _until(ui, lambda: main.panes.active.view.source is not None)
        await ui.press("E")
        await ui.pause()


def _editor(tmp_path: Path, script: str) -> str:
    """An editor of the user's, with an option in $EDITOR."""
    path = saved(tmp_path / "his-editor", f"#!/bin/sh\n{script}\n", mode=0o755)
    return f"{path} --wait"


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_path_is_a_file_to_the_editor_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("mine\n")
    # One argument a line.
    command = _editor(tmp_path, f'for a in "$@"; do echo "$a"; done > {tmp_path}/arguments')
    await _edited(tmp_path, monkeypatch, name, command)
    wait, line, path = (tmp_path / "arguments").read_text().splitlines()
    assert wait == "--wait" and line[:1] == "+" and line[1:].isdecimal()
    assert path == str(tmp_path / name)


@needs("vim", "sh")
@pytest.mark.parametrize("name", NAMES)
async def test_vim_obeys_no_recorded_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_text("one\n" * 50)
    shown = "-c 'call writefile([expand(\"%:p\")], \"opened\")' -c 'qa!'"
    script = f'shift; exec vim -u NONE -N -es "$@" {shown} < /dev/null > /dev/null 2>&1'
    await _edited(tmp_path, monkeypatch, name, _editor(tmp_path, script))
    assert not (tmp_path / "PWNED").exists()
    assert (tmp_path / "opened").read_text() == f"{tmp_path / name}\n"


@pytest.mark.parametrize("kind", ["pipe", "\0"])
async def test_what_is_no_regular_file_is_not_opened_but_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    name = "x\0y" if kind == "\0" else "square.py"
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    command = _editor(tmp_path, f'echo "$3" > {tmp_path}/path; cat "$3" > {tmp_path}/text')
    await _edited(tmp_path, monkeypatch, name, command)
    path = Path((tmp_path / "path").read_text().rstrip("\n"))
    assert path.is_absolute() and path != tmp_path / name and not path.exists()
    assert "def square_kernel" in (tmp_path / "text").read_text()


async def test_what_is_saved_is_saved_through_no_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = Path(shutil.copy(SAMPLE, tmp_path / "x.ptxview"))
    app = PtxviewApp(open_reader(str(recording)))
    async with app.run_test(size=(200, 50)) as ui:
        main: Any = app.screen
        await _until(ui, lambda: main.panes.active.view.source is not None)
        names = {"ptxview.svg", *(file_name(main.panes.subject, s, ".txt") for s in Stage)}
        for name in names:
            (tmp_path / name).symlink_to(tmp_path / "outside")
        for _ in range(500):
            await main.action_run("export")
            await ui.pause(0.01)
            made = [p for p in tmp_path.iterdir() if not p.is_symlink() and p != recording]
            if made:
                break
    assert made and not (tmp_path / "outside").exists()
    assert all(re.search(r"-2\.(txt|svg)$", p.name) for p in made[:1])
