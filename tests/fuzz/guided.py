"""Coverage-guided fuzzing of a reader: inputs that reach something new are kept and changed again.

Three things are a finding: an exception that is no ``PtxviewError`` (an ``AssertionError`` is the
reader's own: something was lost); more work than the input's length allows, or work that grows
faster than the input; a process, a connection, or a file written or removed outside the reader's
folder. Everything follows from the seed but the order of sets.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from inspector.base.errors import PtxviewError, ToolMissing
from inspector.system import process
from tests.fuzz.instrument import COUNTERS, MOST, install
from tests.fuzz.mutate import Mutator

if TYPE_CHECKING:
    from tests.fuzz.readers import Reader

HANGS = 60
"""Seconds of processor time after which an input is taken to run for ever."""

TIMES = 5
GROWS = 2.5
"""How much more than five times the work five times the text may take; quadratic is 5."""

KEPT_LONGEST = 400
STARTS = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "os.startfile",
)
REACHES = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "ctypes.dlopen",
    "os.kill",
    "os.putenv",
    "os.unsetenv",
    "os.chdir",
)
CHANGES = {
    "os.remove": (1,),
    "os.rmdir": (1,),
    "os.mkdir": (2,),
    "os.chmod": (2,),
    "os.chown": (3,),
    "os.utime": (3,),
    "os.truncate": (),
    "os.rename": (2, 3),
    "os.link": (2, 3),
}
"""What changes files: where the descriptors of the folders stand that the paths begin in."""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Hung(BaseException):
    """An input ran for very long."""


@dataclass(frozen=True)
class Finding:
    """What went wrong with which input, and where, which tells findings apart."""

    reader: str
    what: str
    where: str
    data: bytes
    trace: str = ""


@dataclass
class Watch:
    """What the interpreter is asked to do while an input is read, beyond ``folder``."""

    folder: Path | None = None
    seen: list[str] = field(default_factory=list)

    def hook(self, event: str, said: Sequence[Any]) -> None:
        """Told by the interpreter of everything that it audits."""
        if self.folder is None:
            return
        if event == "open":
            path, _, flags = said
            if isinstance(flags, int) and flags & WRITES:
                self._outside(event, path)
        elif event in CHANGES:
            begins = CHANGES[event]
            for n in range(max(1, len(begins))):
                self._outside(event, said[n], said[begins[n]] if begins else None)
        elif event == "os.symlink":  # where it leads is no file that changes
            self._outside(event, said[1], said[2])
        elif event in STARTS or event in REACHES:
            self.seen.append(f"{event} {said[0] if said else ''}"[:200])

    def _outside(self, event: str, path: Any, begin: object = None) -> None:
        if not isinstance(path, str | bytes | os.PathLike) or self.folder is None:
            return  # a descriptor was opened under its name before
        given = os.fsdecode(path)
        if isinstance(begin, int) and begin >= 0:
            given = os.path.join(os.readlink(f"/proc/self/fd/{begin}"), given)  # noqa: PTH115,PTH118
        name = os.path.abspath(given)  # noqa: PTH100 - no link is to be followed
        if name != os.devnull and not f"{name}/".startswith(f"{self.folder}/"):
            self.seen.append(f"{event} {name}"[:200])


WATCH = Watch()
_hooked: list[bool] = []


def _no_tool(*_: object, **__: object) -> NoReturn:
    raise ToolMissing("an input that is fuzzed starts nothing")


def prepare(folder: Path) -> None:
    """Count what ``inspector`` does from now on, start no vendor's tool, and watch the rest.

    The user's folders are below ``folder``: what is kept there is nobody's.
    """
    for name in ("CACHE", "CONFIG", "STATE", "DATA"):
        os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
    tempfile.tempdir = str(folder)
    sys.dont_write_bytecode = True
    process.run_tool = _no_tool
    install()
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(WATCH.hook)


class Fuzzing:
    """One reader, its inputs that are kept, and its findings."""

    def __init__(self, reader: Reader, folder: Path, seed: int) -> None:
        self.reader = reader
        self.folder = folder / reader.name
        self.chance = random.Random(f"{reader.name} {seed}")
        self.mutator = Mutator(self.chance, reader.words, reader.longest)
        self.inputs = 0
        self.kept: list[bytes] = []
        self.findings: dict[str, Finding] = {}
        self.most_work = 0.0
        self._seen = np.zeros(MOST, dtype=np.uint8)
        self._begun = False

    def begin(self) -> None:
        """Read what the reader begins with."""
        self._begun = True
        seeds = list(self.reader.seeds())
        for data in (b"", *seeds):
            self._take(data)
        if not self.kept:
            self.kept.append(seeds[0] if seeds else b"x")

    def run(self, inputs: int) -> None:
        """Read so many inputs more."""
        until = self.inputs + inputs
        if not self._begun:
            self.begin()
        while self.inputs < until:
            self._take(self._made())

    def reached(self) -> int:
        """How many stretches of code were reached, by how often a run reached them."""
        return int(np.unpackbits(self._seen).sum())

    def _made(self) -> bytes:
        chance = self.chance
        # What was kept last leads on most often.
        last = chance.randrange(3) == 0
        pool = self.kept[-32:] if last else self.kept
        data = chance.choice(pool)
        if self.reader.zipped and chance.randrange(8):
            return self.mutator.zipped(data, self.kept)[: 4 * self.reader.longest]
        if b"{" in data[:120] and chance.randrange(2):
            return self.mutator.structured(data)[: self.reader.longest]
        return self.mutator.changed(data, self.kept)

    def _take(self, data: bytes) -> None:
        self.inputs += 1
        if not self._read(data):
            return
        work = COUNTERS.work()
        at, steps = COUNTERS.reached()
        new = steps & ~self._seen[at]
        self._seen[at] |= steps
        reader = self.reader
        if work > reader.least + reader.work * len(data):
            self._found("work", f"{work:,} stretches ran for {len(data):,} bytes", data)
        share = work / (len(data) + 200)
        record = share > self.most_work * 1.05
        self.most_work = max(self.most_work, share)
        if new.any() and len(data) <= reader.longest:
            self.kept.append(data)
            if len(self.kept) > KEPT_LONGEST:
                del self.kept[self.chance.randrange(len(self.kept) // 2)]
        if reader.repeats and data and (record or (new.any() and self.chance.randrange(8) == 0)):
            self._grows(data[: reader.longest // 3])

    def _grows(self, data: bytes) -> None:
        """Five times a text is about five times the work."""
        text = data + b"\n"
        if not self._read(text * TIMES):
            return
        once = COUNTERS.work()
        if not self._read(text * TIMES * TIMES):
            return
        more = COUNTERS.work()
        if more > self.reader.least and more > GROWS * TIMES * once:
            self._found("grows", f"{TIMES} times the text: {once:,} to {more:,} stretches", data)

    def _read(self, data: bytes) -> bool:
        """Whether an input could be read, or was refused with a sentence."""
        with _emptied(self.folder):
            COUNTERS.reset()
            WATCH.seen.clear()
            try:
                with _watched(self.folder):
                    self.reader.read(data, self.folder)
            except PtxviewError:
                pass
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._failed(error, data)
                return False
        if WATCH.seen:
            said = WATCH.seen[0]
            self._found(said.split()[0], said, data)
        return True

    def _failed(self, error: BaseException, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        at = frames[-1]
        ours = [f for f in frames if f"{os.sep}inspector{os.sep}" in f.filename] or [at]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
        what = f"{type(error).__name__}: {error}"[:300]
        trace = "".join(traceback.format_exception(error))[-4000:]
        self._found(f"{type(error).__name__} {where}", what, data, trace)

    def _found(self, where: str, what: str, data: bytes, trace: str = "") -> None:
        held = self.findings.get(where)
        if held is None or len(data) < len(held.data):
            self.findings[where] = Finding(self.reader.name, what, where, data, trace)


@contextmanager
def _emptied(folder: Path) -> Iterator[None]:
    """A folder that is there and empty; what was put into it goes away again."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)  # noqa: PTH108 - a path for each of a million files is slow


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    """While an input is read: nothing outside is touched, and it ends some time."""

    def hung(*_: object) -> NoReturn:
        raise Hung(f"it ran for {HANGS} s")

    before: Callable[[int, FrameType | None], Any] | int | None
    before = signal.signal(signal.SIGVTALRM, hung)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
    WATCH.folder = folder.parent
    try:
        yield
    finally:
        WATCH.folder = None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
