"""The only code that knows the layout of a recording on disk.

One module because what writes a name, reads it and removes it have to agree.

A recording is a folder, or one ``.ptxview`` file (a zip of that folder). While such a file is being
recorded its folder is beside it, as ``<file>.<tag>.unfinished``::

    events.jsonl              the run's own record: one complete JSON object a line
    events-<pid>-<tag>.jsonl  one file a process that was recorded
    driver-<pid>-<tag>.records  launches at the CUDA driver, until the run ends (driver_records.py)
    blobs/<sha256>            each named by its content, written before the event that names it
    unwritten-<pid>-<errno>   empty: events of that process could not be written, for that reason
    watched                   empty: an interpreter of the program loaded the probes
    timings.jsonl, verify.jsonl … later additions follow the same rule: append, one record a line

The first event of every file carries ``"schema": 1``. Reading never opens a path that stands
inside a recording, and executes, imports or unpickles nothing. What tools make of a recording is
in the user's own cache, named by content; a ``derived/`` in a recording, where earlier versions
kept it, may be anybody's and is passed over. No link in a recording is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import platformdirs
from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import Unreadable
from inspector.base.model import Content
from inspector.base.units import plural
from inspector.recording.driver_records import PartContent, is_records, read_records
from inspector.system import files

SCHEMA = 1
SUFFIX = ".ptxview"
HEX = frozenset("0123456789abcdef")
# Bytes of the cache. A lost entry is made again in a second; a full disk costs more.
MAX_CACHE_BYTES = 4 << 30
DAY_SECONDS = 86400.0
WATCHED, UNFINISHED = "watched", ".unfinished"
MAX_NAMED_LINES = 100
"""Damaged lines of one file that are reported one by one; the rest are counted."""

LINE, EVENT = 50, 200
"""Bytes of memory that a line takes at least, and an event besides its content."""


class FileContent(Struct, frozen=True):
    """The content of a file on this machine; with ``inside``, only if it is in that folder."""

    path: Path
    inside: Path | None = None

    def read(self) -> bytes:
        return files.read(self.path, inside=self.inside)


class BlobContent(Struct, frozen=True):
    """A blob in a recording's folder; its name is the SHA-256 that its content must have."""

    path: Path

    def read(self) -> bytes:
        return _checked(files.read(self.path, follow=False), self.path.name, str(self.path))


class BytesContent(Struct, frozen=True):
    """Content in memory; ``digest`` is the SHA-256 that it is named by in a recording."""

    data: bytes
    digest: str | None = None

    def read(self) -> bytes:
        return self.data


class ZipContent(Struct, frozen=True):
    """A blob of a single-file recording; it is read from the zip, never unpacked."""

    archive: files.Archive
    digest: str

    def read(self) -> bytes:
        member = f"blobs/{self.digest}"
        return _checked(self.archive.read(member), self.digest, f"{member} in {self.archive.path}")


def content_digest(content: Content) -> str:
    """The SHA-256 of a content. A blob is not read for it: its name is what it must have."""
    if isinstance(content, BlobContent):
        return content.path.name
    if isinstance(content, ZipContent):
        return content.digest
    return hashlib.sha256(content.read()).hexdigest()


def _checked(data: bytes, digest: str, label: str) -> bytes:
    """``data``, if its SHA-256 is ``digest``, the blob's name. Raises ``Unreadable`` if not."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise Unreadable(f"{label} is damaged: its content is not what was recorded")
    return data


def appended(path: Path) -> BinaryIO:
    """A file of a recording, opened for appending and created if missing.

    Raises ``OSError`` for a link, for anything but a regular file, and for a file with a second
    name (a hard link): writing would change something outside of the recording.
    """
    # O_NONBLOCK: opening a pipe must not wait for its reader.
    flags = os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, os.O_WRONLY | flags, 0o666)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, "it has a second name elsewhere", str(path))
        return os.fdopen(handle, "ab")
    except BaseException:
        os.close(handle)
        raise


@contextlib.contextmanager
def written_aside(part: Path, target: Path) -> Iterator[Path]:
    """A path ``part`` to write to, which becomes ``target`` if that succeeds, else is removed."""
    try:
        yield part
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def work_folder(target: Path) -> Path:
    """Where to record what is to be packed into a single file: beside it, under a new name."""
    return target.with_name(f"{target.name}.{secrets.token_hex(3)}{UNFINISHED}")


def unfinished(target: Path) -> Path | None:
    """The newest folder of a run that was to make a single file and has not, or not yet."""
    name = re.compile(rf"{re.escape(target.name)}\.[0-9a-f]{{6}}{UNFINISHED}")
    try:
        entries = files.names(target.parent)[0]
    except (OSError, Unreadable):
        return None
    written: dict[Path, float] = {}
    for folder in (target.parent / e.name for e in entries if name.fullmatch(e.name)):
        if not folder.is_symlink() and is_recording(folder):
            with contextlib.suppress(OSError, ValueError, Unreadable):
                written[folder] = max(file.stat().st_mtime for file in event_files(folder))
    return max(written, key=written.__getitem__, default=None)


def is_recording(path: Path) -> bool:
    """Whether a path is a recording's folder or single file."""
    if path.is_dir():
        return (path / "events.jsonl").is_file()
    if not path.is_file():
        return False
    if path.suffix == SUFFIX:
        return True
    try:
        return files.is_zip(path) and "events.jsonl" in files.archive(path).names
    except Unreadable:
        return False


class Events(Struct, frozen=True):
    """The raw events of a recording in the order of time, and sentences on unreadable ones.

    ``archive`` is the opened zip of a recording that is a single file, ``other_machines`` are
    recordings of other machines, whose blobs are found too.
    """

    path: Path
    events: tuple[dict[str, object], ...]
    problems: tuple[str, ...]
    archive: files.Archive | None = None
    parts: Mapping[str, PartContent] = field(default_factory=dict)
    other_machines: tuple[Events, ...] = ()

    def holds(self, digest: str) -> bool:
        """Whether there is a blob of that name."""
        if digest in self.parts:
            return True
        if self.archive is not None:
            return f"blobs/{digest}" in self.archive
        return (self.path / "blobs" / digest).is_file()

    def blob(self, digest: object, say: Callable[[str], None] | None = None) -> Content | None:
        """The content that a digest names; None if it is no digest or names nothing. ``say`` is
        called with a sentence if it is clear already that it cannot be read."""
        if not isinstance(digest, str) or len(digest) != 64 or not HEX.issuperset(digest):
            return None
        if self.other_machines and not self.holds(digest):
            other = next((part for part in self.other_machines if part.holds(digest)), None)
            if other is not None:
                return other.blob(digest, say)
        if digest in self.parts:
            return self.parts[digest]
        if self.archive is not None:
            if (
                say is not None
                and (why := self.archive.unreadable_reason(f"blobs/{digest}")) is not None
            ):
                say(why)
            return ZipContent(self.archive, digest)
        file = self.path / "blobs" / digest
        if say is not None and (why := files.unreadable_reason(file)) is not None:
            say(why)
        # A link could lead out of the recording. A missing blob raises when it is read.
        return BlobContent(file) if not file.is_symlink() else None


def read_events(path: Path) -> Events:
    """Read the events of a recording's folder or file.

    A last line cut short by a kill is dropped and noted as a problem, as is what exceeds a bound.
    Raises ``Unreadable`` for a newer schema, a damaged zip, or a file that is no recording.
    """
    archive = None if path.is_dir() else files.archive(path)
    # The values made of the events take as much memory again.
    reader = _EventReader(files.Allowance(share=2))
    if archive is not None:
        for name in _members(archive, reader.problems):
            lines = archive.lines(name, partial(reader.too_long, name))
            reader.take(reader.events_in(name, lines))
    else:
        for file in sorted(event_files(path, reader.problems), key=lambda f: is_records(f.name)):
            if not is_records(file.name):
                lines = files.lines(file, partial(reader.too_long, file.name), follow=False)
                reader.take(reader.events_in(file.name, lines))
                continue
            take = partial(reader.allowance.take, label=f"{file.name}: a record")
            try:
                reader.take(read_records(file, take, reader.parts))
            except Unreadable as error:
                reader.problems.append(error.message)
        marks = unwritten(path)
        reader.problems.extend(text for text, _ in marks[:MAX_NAMED_LINES])
        if len(marks) > MAX_NAMED_LINES:
            more_processes = plural(len(marks) - MAX_NAMED_LINES, "more process")
            reader.problems.append(f"events of {more_processes} could not be written")
    if not reader.events and reader.bound is not None:
        raise reader.bound
    if not reader.events and not reader.problems:
        raise Unreadable(f"{path} holds no events", "Was the run stopped before it began?")
    reader.events.sort(key=itemgetter(0))
    events = tuple(event for _, event in reader.events)
    return Events(path, events, tuple(reader.problems), archive, reader.parts)


def event_files(path: Path, problems: list[str] | None = None) -> list[Path]:
    """The events files of a recording's folder, the run's own first. Raises ``Unreadable``. A
    sentence for each that is left out is added to ``problems``."""
    notes = [] if problems is None else problems
    entries, has_more = files.names(path)
    if has_more:
        notes.append(files.more_names(path, files.limits()))
    paths = []
    matches = (e for e in entries if _is_events(e.name) or is_records(e.name))
    for entry in sorted(matches, key=lambda e: (e.name != "events.jsonl", e.name)):
        file = path / entry.name
        if entry.is_file(follow_symlinks=False):
            paths.append(file)
        else:
            notes.append(files.unreadable_reason(file) or f"{file} is gone")
    return paths


def stamp(path: Path) -> str | None:
    """What the file system says of a recording's events now; None of what is no recording. The same
    text later means the same files by their sizes and times."""
    try:
        paths = [path] if path.suffix == SUFFIX else []
        if path.is_dir():
            paths = event_files(path) if (path / "events.jsonl").is_file() else []
        statuses = [(file.name, file.stat()) for file in paths]
    except (OSError, Unreadable, ValueError):
        return None
    parts = [[name, s.st_size, s.st_mtime_ns, s.st_ino] for name, s in statuses]
    return json.dumps(parts) if parts else None


def unwritten(path: Path) -> list[tuple[str, Path]]:
    """A sentence for each process whose events could not all be written, and the file that says so.
    Raises ``Unreadable``."""
    out = []
    for entry in files.names(path)[0]:
        if not entry.name.startswith("unwritten-"):
            continue
        _, pid, number = (*entry.name.split("-"), "", "")[:3]
        why = os.strerror(int(number)) if re.fullmatch(r"[1-9]\d{0,3}", number) else "unknown why"
        out.append((f"events of process {pid} could not be written: {why}", path / entry.name))
    return out


def pending_compilations(path: Path) -> list[tuple[dict[str, object], Path]]:
    """What a process was at when it ended, and the file that says so. Raises ``Unreadable``."""
    out = []
    for file in files.files_in(path):
        if file.name.startswith("standing-") and file.suffix == ".json":
            with contextlib.suppress(Unreadable, ValueError):
                value = files.parsed(files.read(file, follow=False), label="an event")
                out += [(value, file)] if isinstance(value, dict) else []
    return out


def is_watched(path: Path) -> bool:
    """Whether an interpreter that loaded the probes recorded into a folder."""
    return (path / WATCHED).exists() or any(path.glob("[ed]*-*.*"))


def _is_events(name: str) -> bool:
    return name.startswith("events") and name.endswith(".jsonl")


def _members(archive: files.Archive, problems: list[str]) -> list[str]:
    """The members of a zip that hold events; names that are there twice become a problem."""
    names = archive.names
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        examples = ", ".join(repr(name[:80]) for name in repeated[:3])
        problems.append(f"{archive.path} holds {examples} more than once: only the last is read")
    return sorted({n for n in names if "/" not in n and _is_events(n)})


class _EventReader:
    """Takes in events, file after file, until there are no more or a bound is met."""

    def __init__(self, allowance: files.Allowance) -> None:
        self.events: list[tuple[float, dict[str, object]]] = []
        self.problems: list[str] = []
        self.bound: files.TooLarge | None = None
        self.parts: dict[str, PartContent] = {}
        self.allowance = allowance

    def take(self, rows: Iterator[tuple[float, dict[str, object]]]) -> None:
        try:
            self.events.extend(rows if self.allowance.remaining >= 0 else ())
        except files.TooLarge as error:
            self.bound = self.bound or error
            self.problems.append(error.message)

    def events_in(
        self, name: str, lines: Iterator[bytes]
    ) -> Iterator[tuple[float, dict[str, object]]]:
        """Yield the events of one file, each with its time. Raises ``TooLarge``, ``Unreadable``."""
        damaged_count, stamped_at = 0, 0.0
        for number, row in enumerate(lines, 1):
            self.allowance.take(LINE, f"{name}: line {number}")
            if not row.strip():
                continue
            event = self._event(name, number, row)
            if isinstance(event, str):
                damaged_count += 1
                if damaged_count <= MAX_NAMED_LINES:
                    self.problems.append(f"{name}: line {number} {event}")
                continue
            stamp = event.get("time")
            # "Not a number" has no place in an order, and JSON's integers may be of any size.
            if isinstance(stamp, int | float) and 0 <= stamp < 1e18:
                stamped_at = float(stamp)
            yield stamped_at, event
        if damaged_count > MAX_NAMED_LINES:
            unnamed_count = damaged_count - MAX_NAMED_LINES
            no_record = "line is no record" if unnamed_count == 1 else "lines are no records"
            self.problems.append(f"{name}: {unnamed_count:,} more {no_record}")

    def _event(self, name: str, number: int, row: bytes) -> dict[str, object] | str:
        """The event of a line, or what is wrong with it. Raises ``TooLarge`` without allowance."""
        try:
            event = files.parsed(row, self.allowance, f"{name}: line {number}")
            self.allowance.take(EVENT, f"{name}: line {number}")
        except files.TooLarge as error:
            if self.allowance.remaining < 0:
                raise
            self.bound = self.bound or error
            return error.message.removeprefix(f"{name}: line {number} ") + "; it was left out"
        except ValueError:
            problem = "is no JSON" if row.endswith(b"\n") else "was cut short"
            return f"{problem}; all before it is kept"
        if not isinstance(event, dict):
            return "is no record"
        schema = event.get("schema", SCHEMA)
        if type(schema) is not int or schema > SCHEMA:
            raise Unreadable(
                f"the recording is of schema {schema}; this ptxview knows {SCHEMA}",
                "Upgrade: pip install -U ptxview",
            )
        return event

    def too_long(self, name: str, number: int) -> None:
        """Note a line that is left out."""
        bounds = self.allowance.limits
        message = (
            f"{name}: line {number} is longer than {bounds.line:,} bytes; it was left out "
            f"({bounds.raising()})"
        )
        self.bound = self.bound or files.TooLarge(message)
        self.problems.append(message)


class Writer:
    """Writes a recording's folder: blobs first, then the events that name them."""

    def __init__(self, folder: Path) -> None:
        """Make the folder. Raises ``OSError`` if that is not allowed."""
        self.folder = folder
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        self._events = (folder / "events.jsonl").open("ab", buffering=0)

    def blob(self, data: bytes) -> str:
        """Store content; gives its SHA-256 in hex."""
        digest = hashlib.sha256(data).hexdigest()
        target = self.folder / "blobs" / digest
        if not target.exists():
            part = target.with_name(f".{digest}.{os.getpid()}.{secrets.token_hex(4)}")
            with written_aside(part, target):
                part.write_bytes(data)
        return digest

    def stored(self, digest: str) -> Path | None:
        """The file of a blob; None if it is missing, or a link in its place."""
        path = self.folder / "blobs" / digest
        return path if HEX.issuperset(digest) and path.is_file() and not path.is_symlink() else None

    def event(self, **fields: object) -> None:
        """Append one record, or raise ``OSError`` and leave the file as it was."""
        line = json.dumps(fields, ensure_ascii=True, separators=(",", ":"))
        remaining = memoryview(line.encode() + b"\n")
        size = os.fstat(self._events.fileno()).st_size
        try:
            while remaining:
                remaining = remaining[self._events.write(remaining) :]
        except OSError:
            # A line that is cut short would swallow the next.
            self._events.truncate(size)
            raise

    def close(self) -> None:
        self._events.close()


def pack(folder: Path, target: Path, quickly: bool = False) -> None:
    """Pack the events and blobs of a recording's folder into a single file.

    The file appears whole or not at all; a kill leaves its part in ``folder`` where that is beside
    it. ``quickly`` makes a larger file. Raises ``OSError`` if it cannot be written, ``Unreadable``
    if the folder cannot be read.
    """
    part_folder = folder if folder.resolve().parent == target.resolve().parent else target.parent
    events = [file for file in files.files_in(folder) if file.suffix == ".jsonl"]
    blobs = files.files_in(folder / "blobs")
    level = 1 if quickly else 9
    with (
        written_aside(part_folder / f".{target.name}.{secrets.token_hex(4)}", target) as part,
        # A zip knows no year before 1980; a machine without a clock does.
        zipfile.ZipFile(
            part, "x", zipfile.ZIP_DEFLATED, compresslevel=level, strict_timestamps=False
        ) as archive,
    ):
        for file in (*events, *blobs):
            if not file.name.startswith("."):
                archive.write(file, str(file.relative_to(folder)))


def remove(folder: Path) -> None:
    """Delete a recording's folder that was packed; a kill leaves no recording."""
    with contextlib.suppress(OSError):
        (folder / "events.jsonl").unlink()
    shutil.rmtree(folder, ignore_errors=True)


def recordings_folder() -> Path:
    """The folder of recordings that were made without ``-o``."""
    return Path(platformdirs.user_state_dir("ptxview", appauthor=False)) / "recordings"


def user_cache() -> Path:
    """The folder of this user's cache of derived content."""
    return Path(platformdirs.user_cache_dir("ptxview", appauthor=False)) / "derived"


class DerivedCache:
    """What tools made of content, kept by content in a folder of this user's own.

    Entries are named by the SHA-256 of (tool, its version, options, input). They appear whole
    (written aside and renamed), so that concurrent readers never see half of one. An entry is
    used only if this user wrote it and nobody else can write to it. Once a day, if the entries
    take more than ``max_bytes`` bytes in all, the least recently used ones are deleted.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self._tidied = False

    @staticmethod
    def key(*parts: bytes | str) -> str:
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        try:
            with files.opened(self._folder / key, follow=False) as file:
                status = file.status
                writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
                return (
                    file.read_all()
                    if status.st_uid == os.geteuid() and not writable_by_others
                    else None
                )
        except Unreadable:
            return None

    def store(self, key: str, data: bytes) -> None:
        """Store an entry; errors of writing are ignored."""
        with contextlib.suppress(OSError, Unreadable):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = self._folder / f".{key}.{secrets.token_hex(4)}"
            with written_aside(part, self._folder / key):
                part.touch(mode=0o600, exist_ok=False)  # else nobody may use it
                part.write_bytes(data)
            if not self._tidied:
                self._tidied = True
                self._tidy()

    def _tidy(self) -> None:
        mark = self._folder.with_name(f"{self._folder.name}.tidied")
        now = time.time()
        with appended(mark) as file:
            stamp = os.fstat(file.fileno())
            if stamp.st_size and now - stamp.st_mtime < DAY_SECONDS:
                return
            file.truncate(0)
            file.write(b"tidied\n")
        # An entry that another process is writing has a name that begins with a dot.
        statuses = [(e.stat(follow_symlinks=False), e) for e in files.names(self._folder)[0]]
        entries = [(s, e) for s, e in statuses if stat.S_ISREG(s.st_mode) and e.name[:1] != "."]
        total = sum(status.st_size for status, _ in entries)
        for status, entry in sorted(entries, key=lambda e: max(e[0].st_atime, e[0].st_mtime)):
            if total <= self._max_bytes:
                return
            Path(entry.path).unlink(missing_ok=True)
            total -= status.st_size


def user_derived_cache() -> DerivedCache:
    """The user's own cache of the output of tools. Output stored in an opened recording or folder
    is never used, since anybody may have written it."""
    return DerivedCache(user_cache())


TIMINGS = "timings.jsonl"
NCU_REPORTS = "ncu.jsonl"
VERDICTS = "verify.jsonl"
UPGRADES = "upgrade.jsonl"


def record_file(path: Path, name: str = TIMINGS) -> Path:
    """The file that timings (or what ``name`` holds) of a recording are appended to."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def store_record(path: Path, record: Mapping[str, object], name: str = TIMINGS) -> None:
    """Append a record in one write. Raises ``OSError`` if that is not allowed, or if the file is a
    link that leads elsewhere."""
    line = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    with appended(record_file(path, name)) as out:
        out.write(line.encode() + b"\n")


def stored_records(
    path: Path, name: str = TIMINGS, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, object]]:
    """Every record, the oldest first; lines that are no records are ignored. ``say`` is called with
    a sentence for each record that was left out because of its size."""
    bounds, allowance = files.limits(), files.Allowance()

    def too_long(number: int) -> None:
        say(
            f"{name}: record {number} is longer than {bounds.one:,} bytes; it was left out "
            f"({bounds.raising()})"
        )

    # A report of ncu is one record with all its text. A link would lead out of the recording.
    sources = [files.lines(record_file(path, name), too_long, bounds.one, follow=False)]
    out: list[dict[str, object]] = []
    try:
        if path.is_file():
            sources.insert(0, files.archive(path).lines(name, too_long, bounds.one))
        for lines in sources:
            with contextlib.suppress(files.Absent):
                for number, line in enumerate(lines, 1):
                    with contextlib.suppress(ValueError):
                        record = files.parsed(line, allowance, f"{name}: record {number}")
                        out += [record] if isinstance(record, dict) else []
    except (files.TooLarge, files.NotAFile) as error:
        say(error.message)
    except Unreadable:
        pass
    return out


def problems(path: Path) -> list[str]:
    """Sentences on the files of timings, reports and verdicts that are too large to be read."""
    bound = files.limits().streamed
    reasons = (
        files.unreadable_reason(record_file(path, name), bound)
        for name in (TIMINGS, NCU_REPORTS, VERDICTS, UPGRADES)
    )
    return [why for why in reasons if why is not None]


Event = Mapping[str, object]
PROCESS_ID_STRIDE = 1 << 22
"""What Linux numbers processes below (``PID_MAX_LIMIT``)."""


def merged(parts: Sequence[Events]) -> tuple[tuple[str, ...], Events]:
    """Combine the recordings of one program's machines: their labels, and all events by time.

    Processes get numbers that are unique among all recordings: those of the first keep theirs. The
    facts of the run are the first recording's; it is complete where every one is.
    """
    machines = _machine_labels(parts)
    placed: list[tuple[float, dict[str, object]]] = []
    starts: list[Event] = []
    ends: list[Event] = []
    for index, (part, machine) in enumerate(zip(parts, machines, strict=True)):
        placed += _placed_events(part, machine, index)
        starts += [event for event in part.events if event.get("event") == "recording"]
        end = _end_of(part)
        if end is not None:
            ends.append(end)
    events = [event for _, event in sorted(placed, key=itemgetter(0))]
    if len(ends) == len(parts):
        failed = next((end for end in ends if end.get("exit_status")), ends[0])
        finishing = any(end.get("finishing") is True for end in ends)
        events.append({**failed, "finishing": finishing})
    problems = [
        f"{machine}: {problem}"
        for machine, part in zip(machines, parts, strict=True)
        for problem in part.problems
    ]
    for name in ("target", "mode"):
        values = [str(start.get(name)) for start in starts]
        if len(set(values)) > 1:
            pairs = zip(machines, values, strict=False)
            listing = ", ".join(f"{machine}: {value}" for machine, value in pairs)
            problems.append(f"these are hardly of one program: its {name} differs ({listing})")
    return machines, replace(
        parts[0], events=tuple(events), problems=tuple(problems), other_machines=tuple(parts[1:])
    )


def _machine_labels(parts: Sequence[Events]) -> tuple[str, ...]:
    """The shortest ends of the recordings' paths that differ."""
    tails = [part.path.absolute().parts for part in parts]
    depth = 1
    for length in range(1, 1 + max(map(len, tails))):
        if len({tail[-length:] for tail in tails}) == len(tails):
            depth = length
            break
    labels = tuple("/".join(tail[-depth:]).removesuffix(SUFFIX) for tail in tails)
    if len(set(labels)) < len(labels):  # the same recording twice
        return tuple(f"{part.path}#{n}" for n, part in enumerate(parts, 1))
    return labels


def _placed_events(
    part: Events, machine: str, index: int
) -> Iterator[tuple[float, dict[str, object]]]:
    """The events of the recording of one machine, each with its time, but for the run's end; the
    run's beginning is the first machine's."""
    moment = 0.0
    for event in part.events:
        kind, stamp, pid = event.get("event"), event.get("time"), event.get("pid")
        if isinstance(stamp, int | float):
            moment = max(moment, float(stamp))
        if kind in ("end", "finished") or (kind == "recording" and index > 0):
            continue
        placed = dict(event)
        if kind == "process":
            placed["machine"] = machine
        if isinstance(pid, int):
            placed["pid"] = pid + index * PROCESS_ID_STRIDE
        yield moment, placed


def _end_of(part: Events) -> Event | None:
    """The last end of a machine's run, which is finished if an event after it says so."""
    end: Event | None = None
    for event in part.events:
        if event.get("event") == "end":
            end = event
        elif event.get("event") == "finished" and end is not None:
            end = {**end, "finishing": False}
    return end
