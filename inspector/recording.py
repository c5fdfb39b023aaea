"""The only code that knows how a recording lies on disk.

A recording is a folder, or one ``.ptxview`` file (a zip of that folder)::

    events.jsonl              the run's own record: one complete JSON object a line
    events-<pid>-<tag>.jsonl  one file a process that was recorded
    blobs/<sha256>            each named by its content, written before the event that names it
    unwritten-<pid>-<errno>   empty: events of that process could not be written, for that reason
    timings.jsonl, notes …    later additions follow the same rule: append, one record a line

The first event of every file carries ``"schema": 1``. Reading never opens a path that stands
inside a recording, and executes, imports or unpickles nothing. What tools make of a recording lies
in the user's own cache, named by content; a ``derived/`` in a recording, where earlier versions
kept it, may be anybody's and is passed over. No link in a recording is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import lzma
import os
import re
import secrets
import shutil
import stat
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from inspector.errors import Unreadable
from inspector.model import Content

SCHEMA = 1
SUFFIX = ".ptxview"
HEX = frozenset("0123456789abcdef")
# A blob of a recording is a listing or a cubin; what is larger is refused on reading rather than
# let a hostile zip fill the memory.
LARGEST_BLOB = 512 << 20
# What tools made is made again in a second where it is gone; a disk that is full costs more.
MOST_DERIVED = 4 << 30
DAY = 86400.0
FAR = 1e18  # seconds
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# What Python's zipfile lets through on damaged, encrypted or hostile archives.
DAMAGE = (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
          ValueError, IndexError, struct.error, lzma.LZMAError)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file on this machine; of one in an opened folder, ``inside`` that alone."""

    path: Path
    inside: Path | None = None

    def read(self) -> bytes:
        try:
            if self.inside is None:
                return self.path.read_bytes()
            with opened_inside(self.path, self.inside) as file:
                return file.read()
        except OSError as error:
            raise Unreadable(f"{self.path} cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class BlobContent:
    """A blob in a recording's folder; its name is the SHA-256 that its content must have."""

    path: Path

    def read(self) -> bytes:
        try:
            with opened(self.path) as file:
                data = file.read()
        except OSError as error:
            raise Unreadable(f"{self.path} cannot be read: {error.strerror or error}") from None
        return _as_named(data, self.path.name, str(self.path))


@dataclass(frozen=True, slots=True)
class BytesContent:
    """Content that is at hand."""

    data: bytes

    def read(self) -> bytes:
        return self.data


@dataclass(frozen=True, slots=True)
class ZipContent:
    """A member of a single-file recording; it is read from the zip, never unpacked."""

    archive: Path
    member: str

    def read(self) -> bytes:
        try:
            with zipfile.ZipFile(self.archive) as archive:
                info = archive.getinfo(self.member)
                if info.file_size > LARGEST_BLOB:
                    raise Unreadable(f"{self.member} in {self.archive} is too large to be real")
                data = archive.read(info)
        except KeyError:
            raise Unreadable(f"{self.archive} lacks {self.member}: it is incomplete") from None
        except DAMAGE as error:
            raise Unreadable(f"{self.archive} is damaged: {error}") from None
        return _as_named(data, self.member.rpartition("/")[2], f"{self.member} in {self.archive}")


def _as_named(data: bytes, digest: str, where: str) -> bytes:
    """A blob's content, which is what it was named by: what is kept of it is kept by that name."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise Unreadable(f"{where} is damaged: its content is not what was recorded")
    return data


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path of a folder's leads out of it: by a link, or by the path itself."""
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name that none can be
        return True


def opened_inside(path: Path, folder: Path) -> BinaryIO:
    """A regular file of a folder's, opened for reading. Raises ``OSError`` for one that leads out.

    It is opened from folder to folder without following links. Where there is one, what it leads
    to is found first and then opened likewise: what is put there meanwhile leads nowhere.
    """
    try:
        return _descend(folder, path.relative_to(folder))
    except (OSError, ValueError):
        if leads_out(path, folder):
            raise OSError(errno.EXDEV, f"it leads out of {folder}", str(path)) from None
    return _descend(folder, path.resolve().relative_to(folder.resolve()))


def _descend(folder: Path, path: Path) -> BinaryIO:
    *folders, name = path.parts or (".",)
    if ".." in path.parts:
        raise OSError(errno.EXDEV, "it leads up", str(path))
    through = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in folders:
            below = os.open(each, through, dir_fd=at)
            os.close(at)
            at = below
        return opened(Path(name), at=at)
    finally:
        os.close(at)


def opened(path: Path, flags: int = os.O_RDONLY, at: int | None = None) -> BinaryIO:
    """A file of a recording, opened; one that is appended to is made where there is none.

    ``at`` is the open folder that a relative path begins in. Raises ``OSError`` for a link, for
    what is no regular file, and for a file that is to be written and has a second name elsewhere:
    the content would lie, or go, outside of the recording.
    """
    # Without waiting: a pipe must not hold us up before it is seen to be one.
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=at)
    try:
        stamp = os.fstat(handle)
        if not stat.S_ISREG(stamp.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if flags & os.O_WRONLY and stamp.st_nlink > 1:
            raise OSError(errno.EMLINK, "it has a second name elsewhere", str(path))
        return os.fdopen(handle, "ab" if flags & os.O_WRONLY else "rb")
    except BaseException:
        os.close(handle)
        raise


def is_recording(path: Path) -> bool:
    """Whether a path is a recording's folder or single file."""
    if path.is_dir():
        return (path / "events.jsonl").is_file()
    if not path.is_file():
        return False
    if path.suffix == SUFFIX:
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return "events.jsonl" in archive.namelist()
    except DAMAGE:
        return False


@dataclass(frozen=True, slots=True)
class Events:
    """The raw events of a recording, in the order of time, and what could not be read of them."""

    path: Path
    events: tuple[dict[str, object], ...]
    problems: tuple[str, ...]

    def blob(self, digest: object) -> Content | None:
        """The content that a digest names, or None where it names none (or no digest at all)."""
        if not isinstance(digest, str) or len(digest) != 64 or not HEX.issuperset(digest):
            return None
        if self.path.is_dir():
            file = self.path / "blobs" / digest
            # A link could lead out of the recording. One that is lost says so when it is read.
            return BlobContent(file) if not file.is_symlink() else None
        return ZipContent(self.path, f"blobs/{digest}")


Keep = Callable[[dict[str, object]], dict[str, object]]


def read_events(path: Path, keep: Keep | None = None) -> Events:
    """The events of a recording's folder or file; ``keep`` says what is kept of each.

    A last line cut short by a kill is dropped with a word about it. Raises ``Unreadable`` for a
    newer schema, a damaged zip, or a file that is no recording.
    """
    problems: list[str] = []
    events: list[tuple[float, int, dict[str, object]]] = []
    for name, data in _event_files(path):
        for when, number, event in _lines(name, data, problems, len(events)):
            events.append((when, number, event if keep is None else keep(event)))
    if path.is_dir():
        problems.extend(text for text, _ in unwritten(path))
    if not events and not problems:
        raise Unreadable(f"{path} holds no events", "Was the run stopped before it began?")
    events.sort(key=lambda e: (e[0], e[1]))
    return Events(path, tuple(e[2] for e in events), tuple(problems))


def event_files(path: Path) -> list[Path]:
    """The events files of a recording's folder, the run's own first. Raises ``OSError``."""
    found = sorted(path.glob("events*.jsonl"), key=lambda p: (p.name != "events.jsonl", p))
    return [file for file in found if file.is_file() and not file.is_symlink()]


def unwritten(path: Path) -> list[tuple[str, Path]]:
    """What a recording's folder says of events that could not be written, and where it does."""
    out = []
    for mark in sorted(path.glob("unwritten-*")):
        _, pid, number = (*mark.name.split("-"), "", "")[:3]
        why = os.strerror(int(number)) if re.fullmatch(r"[1-9]\d{0,3}", number) else "unknown why"
        out.append((f"events of process {pid} could not be written: {why}", mark))
    return out


def _event_files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        try:
            for file in event_files(path):
                with opened(file) as held:
                    yield file.name, held.read()
        except OSError as error:
            raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from None
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if "/" not in n and n.endswith(".jsonl")]
            for name in sorted(n for n in names if n.startswith("events")):
                if archive.getinfo(name).file_size > LARGEST_BLOB:
                    raise Unreadable(f"{name} in {path} is too large to be real")
                yield name, archive.read(name)
    except DAMAGE as error:
        raise Unreadable(
            f"{path} is not a recording, or a damaged one: {error}", "Record it again."
        ) from None


def _lines(
    name: str, data: bytes, problems: list[str], start: int
) -> Iterator[tuple[float, int, dict[str, object]]]:
    when = 0.0
    rows = data.split(b"\n")
    for number, row in enumerate(rows, 1):
        if not row.strip():
            continue
        try:
            event = json.loads(row)
        except (ValueError, RecursionError):
            what = "was cut short" if number == len(rows) else "is no JSON"
            problems.append(f"{name}: line {number} {what}; what stands before it is kept")
            continue
        if not isinstance(event, dict):
            problems.append(f"{name}: line {number} is no record")
            continue
        schema = event.get("schema", SCHEMA)
        if type(schema) is not int or schema > SCHEMA:
            raise Unreadable(
                f"the recording is of schema {schema}; this ptxview knows {SCHEMA}",
                "Upgrade: pip install -U ptxview",
            )
        stamp = event.get("time")
        # "Not a number" has no place in an order, and JSON's integers may be of any size.
        if isinstance(stamp, int | float) and 0 <= stamp < FAR:
            when = float(stamp)
        yield when, start + number, event


class Writer:
    """Writes a recording's folder: blobs first, then the events that name them."""

    def __init__(self, folder: Path) -> None:
        """Make the folder. Raises ``OSError`` where that is not allowed."""
        self.folder = folder
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        self._events = (folder / "events.jsonl").open("ab", buffering=0)

    def blob(self, data: bytes) -> str:
        """Store content; gives its SHA-256 in hex."""
        digest = hashlib.sha256(data).hexdigest()
        target = self.folder / "blobs" / digest
        if not target.exists():
            part = target.with_name(f".{digest}.{os.getpid()}.{secrets.token_hex(4)}")
            try:
                part.write_bytes(data)
                part.replace(target)
            except OSError:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise
        return digest

    def event(self, **fields: object) -> None:
        """Append one record, or raise ``OSError`` and leave the file as it was."""
        line = json.dumps(fields, ensure_ascii=True, separators=(",", ":"))
        left = memoryview(line.encode() + b"\n")
        size = os.fstat(self._events.fileno()).st_size
        try:
            while left:
                left = left[self._events.write(left) :]
        except OSError:
            # A line that is cut short would swallow the next.
            self._events.truncate(size)
            raise

    def close(self) -> None:
        """No more events."""
        self._events.close()


def _nameless(folder: Path) -> int | None:
    """A file that is nowhere until it is linked, and gone with us; None where there is no such."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def pack(folder: Path, target: Path, quickly: bool = False) -> None:
    """Make the single file of a recording's folder, of its events and blobs alone.

    The file appears whole or not at all, and killed we leave no part of it. ``quickly``, it is
    larger. Raises ``OSError`` where it cannot be written.
    """
    nameless = _nameless(target.parent)
    if nameless is None:
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    else:
        handle, part = nameless, str(target.parent / f".{target.name}.{secrets.token_hex(4)}")
    try:
        with (
            os.fdopen(handle, "w+b") as out,
            # A zip knows no year before 1980; a machine without a clock does.
            zipfile.ZipFile(
                out,
                "w",
                zipfile.ZIP_DEFLATED,
                compresslevel=1 if quickly else 9,
                strict_timestamps=False,
            ) as archive,
        ):
            for file in (*sorted(folder.glob("*.jsonl")), *sorted((folder / "blobs").iterdir())):
                if not file.name.startswith(".") and not file.is_symlink():
                    archive.write(file, str(file.relative_to(folder)))
            archive.close()
            if nameless is not None:
                out.flush()
                # Python's own link() follows no link of /proc without a folder's descriptor.
                where = os.open("/proc/self/fd", os.O_PATH | os.O_CLOEXEC)
                try:
                    os.link(str(handle), part, src_dir_fd=where, follow_symlinks=True)
                finally:
                    os.close(where)
        mask = os.umask(0)  # it can only be read by setting it
        os.umask(mask)
        Path(part).chmod(0o644 & ~mask)
        Path(part).replace(target)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def remove(folder: Path) -> None:
    """Delete a recording's folder that was packed."""
    shutil.rmtree(folder, ignore_errors=True)


class DerivedCache:
    """What tools made of content, kept by content in a folder of this user's own.

    Entries are named by the SHA-256 of (tool, its version, options, input). They appear whole
    (written aside and renamed), so that readers side by side never see half of one. One is believed
    only where this user wrote it, and nobody else can write to it. Once a day the entries that
    were not asked for longest make room, where they take more than ``most`` bytes in all.
    """

    def __init__(self, folder: Path, most: int = MOST_DERIVED) -> None:
        self._folder, self._most = folder, most
        self._tidied = False

    @staticmethod
    def key(*parts: bytes | str) -> str:
        """The name of an entry: a digest over the parts, each with its length before it."""
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """The entry, or None."""
        try:
            with opened(self._folder / key) as file:
                stamp = os.fstat(file.fileno())
                own = stamp.st_uid == os.geteuid() and not stamp.st_mode & OTHERS_WRITE
                return file.read() if own else None
        except OSError:
            return None

    def put(self, key: str, data: bytes) -> None:
        """Keep an entry; where nothing can be written, nothing is kept."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._folder, prefix=f".{key}.")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
            Path(part).replace(self._folder / key)
        except OSError:
            with contextlib.suppress(OSError):
                Path(part).unlink(missing_ok=True)
        if not self._tidied:
            self._tidied = True
            with contextlib.suppress(OSError):
                self._tidy()

    def _tidy(self) -> None:
        mark = self._folder.with_name(f"{self._folder.name}.tidied")
        now = time.time()
        with opened(mark, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
            stamp = os.fstat(file.fileno())
            if stamp.st_size and now - stamp.st_mtime < DAY:
                return
            file.truncate(0)
            file.write(b"tidied\n")
        entries = []
        with os.scandir(self._folder) as found:
            for each in found:
                # One that another process is just writing has a dot before its name.
                if each.is_file(follow_symlinks=False) and not each.name.startswith("."):
                    held = each.stat(follow_symlinks=False)
                    entries.append((max(held.st_atime, held.st_mtime), held.st_size, each.path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self._most:
                return
            Path(path).unlink(missing_ok=True)
            total -= size
