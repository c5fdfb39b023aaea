"""Readers of foreign input: changed specimens give a value or an error, and touch nothing else."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest

from inspector.base.errors import PtxviewError, ToolMissing
from tests.fuzz.mutate import Mutator
from tests.fuzz.readers import READERS, SEEDS, Reader

MAX_CORPUS_BYTES = 300_000
MAX_SECONDS = 60
"""Seconds of processor time for all inputs of a reader in the fast test."""
FORBIDDEN = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
    "socket.connect", "socket.bind", "socket.sendto", "ctypes.dlopen", "os.kill", "os.putenv",
    "os.unsetenv", "os.chdir",
)  # fmt: skip
CHANGES = ("os.remove", "os.mkdir", "os.chmod", "os.truncate", "os.rename", "os.link", "os.symlink")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What the interpreter is asked to do while an input is read, beyond ``folder``."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []

    @contextmanager
    def over(self, folder: Path) -> Iterator[list[str]]:
        """A context in which nothing but ``folder`` may change."""
        self.seen.clear()
        self.folder = folder
        try:
            yield self.seen
        finally:
            self.folder = None

    def hook(self, event: str, said: Sequence[Any]) -> None:
        """Note what a reader must not do."""
        if self.folder is None:
            return
        writes = event == "open" and isinstance(said[2], int) and said[2] & WRITES
        if event in FORBIDDEN:
            self.seen.append(f"{event} {said[:1]}")
        elif writes or event in CHANGES:
            given = said[event == "os.symlink"]  # where a link leads is no file that changes
            if not isinstance(given, str | bytes | os.PathLike):
                return  # a descriptor
            name = Path(os.fsdecode(given))
            inside = name.is_relative_to(self.folder) or not name.is_absolute()
            if not inside and name != Path(os.devnull):
                self.seen.append(f"{event} {name}")


@pytest.fixture(scope="session")
def hooked() -> Watch:
    """An audit hook stays until the process ends."""
    import_module("numpy")  # its import, which a reader may cause, sets a variable
    watch = Watch()
    sys.addaudithook(watch.hook)
    return watch


@pytest.fixture
def watch(hooked: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watches a test's process, which starts no vendor's tool."""

    def no_tool(*_: object, **__: object) -> NoReturn:
        raise ToolMissing("an input that is fuzzed starts nothing")

    for name, module in list(sys.modules.items()):
        if name.startswith("inspector.") and hasattr(module, "run_tool"):
            monkeypatch.setattr(module, "run_tool", no_tool)
    for name in ("CACHE", "CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return hooked


def hung(*_: object) -> NoReturn:
    """End an input that runs for very long."""
    raise AssertionError(f"it ran for {MAX_SECONDS} s of processor time")


def fuzz(reader: Reader, folder: Path, inputs: int) -> None:
    """Read the specimens of a reader, then changes of them."""
    seeds = [b"", *reader.seeds()]
    chance = random.Random(reader.name)
    mutator = Mutator(chance, reader.known_words(), reader.longest)

    def changed() -> bytes:
        data = chance.choice(seeds)
        if reader.zipped and chance.randrange(8):
            return mutator.zipped(data)
        if b"{" in data[:120] and chance.randrange(2):
            return mutator.structured(data)[: reader.longest]
        return mutator.changed(data, seeds)

    for data in (*seeds, *(changed() for _ in range(inputs))):
        folder.mkdir()
        try:
            reader.read(data, folder)
        except PtxviewError:
            pass
        except Exception as error:
            raise AssertionError(f"{reader.name} fails for {data[:4000]!r}") from error
        shutil.rmtree(folder)


@pytest.mark.parametrize("inputs", [4, pytest.param(400, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_no_reader_is_led_astray(reader: Reader, inputs: int, watch: Watch, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS * (1 + inputs // 40))
    try:
        with watch.over(tmp_path) as seen:
            fuzz(reader, tmp_path / "inside", inputs * reader.share)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert not seen


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda outside: (outside / "made").write_bytes(b""), "open"),
        (lambda outside: (outside / "kept").unlink(missing_ok=True), "os.remove"),
        (lambda _: os.system("true"), "os.system"),
    ],
    ids=["writes", "removes", "starts"],
)
def test_what_a_reader_must_not_do_is_found(
    act: Any, what: str, watch: Watch, tmp_path: Path
) -> None:
    with watch.over(tmp_path / "inside") as seen:
        act(tmp_path)
    assert [said.split()[0] for said in seen] == [what]


def test_the_corpus_is_small() -> None:
    files = [path for path in SEEDS.rglob("*") if path.is_file()]
    assert len(files) > 60
    assert sum(path.stat().st_size for path in files) <= MAX_CORPUS_BYTES
