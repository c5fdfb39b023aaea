"""The only code that opens what it did not write: regular files and zips of them, within bounds.

What somebody sent may be a pipe, a device, a sparse file of a terabyte, a zip that unpacks to more
than there is. Each thing is opened once, and what it is and its size are asked of what was opened,
never of its path. All bounds follow from ``PTXVIEW_MAX_BYTES``; a sentence says which was met.
"""

import gzip
import hashlib
import io
import json
import lzma
import os
import re
import stat
import struct
import threading
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from inspector.base.errors import Unreadable, UsageError

VARIABLE = "PTXVIEW_MAX_BYTES"
ROOTS = "PTXVIEW_ROOTS"
"""The variable that names the only folders of which anything may be read, a line each."""
DEFAULT = 1 << 30
MIN_TOTAL_BYTES = 1 << 16
CHUNK = 1 << 20
MAX_JSON_DEPTH = 100  # lists and objects inside each other; ptxview's records have a dozen

_NUMBER = re.compile(r"(\d{1,18})([KMGT]?)")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_STRING = re.compile(rb'"[^"]*"')
_BRACKETS = b"[]{}"
_OTHER = bytes(c for c in range(256) if c not in _BRACKETS)
# What Python's zipfile lets through on damaged, encrypted or hostile archives.
DAMAGE = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    IndexError,
    struct.error,
    lzma.LZMAError,
)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENTRY = b"PK\x01\x02"
_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")


class Absent(Unreadable):
    """There is nothing of that name."""


class NotAFile(Unreadable):
    """It is a pipe, a socket, a device or a folder."""


class TooLarge(Unreadable):
    """A bound was met."""


# -- bounds ---------------------------------------------------------------------------------------


class Limits:
    """How much is taken in. All follow from ``total``, the bytes of memory for what is opened."""

    def __init__(self, total: int = DEFAULT) -> None:
        self.total = total
        self.one = total // 2  # bytes of one file or member that is read as a whole
        self.streamed = total * 2  # bytes of one that is gone through line by line
        self.line = total // 64  # bytes of one line, of one record
        self.text = total // 16  # bytes of what is gone through more than once: a build's file
        self.names = total // 2048  # files and folders below one folder, members of one zip

    def raising(self, factor: float = 2.0) -> str:
        """How to raise the bounds by at least this factor, in words."""
        bound = MIN_TOTAL_BYTES
        while bound < self.total * factor:
            bound *= 2
        return f"{VARIABLE}={_short(bound)} raises that"


def limits() -> Limits:
    """The bounds that hold. Raises ``UsageError`` where the variable says no number of bytes."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return Limits()
    number = _NUMBER.fullmatch(setting.strip().upper())
    if number is None or not number[1].isascii():
        raise UsageError(
            f"{VARIABLE} is {setting[:40]!r}, and no number of bytes",
            f"Give one as 2147483648 or 2G (without it: {_short(DEFAULT)}).",
        )
    return Limits(max(MIN_TOTAL_BYTES, int(number[1]) << _UNITS[number[2]]))


def _short(number: int) -> str:
    for unit, shift in reversed(_UNITS.items()):
        if number % (1 << shift) == 0:
            return f"{number >> shift}{unit}"
    return str(number)


class Allowance:
    """What may still be taken in of one thing that is opened: the bound in total."""

    def __init__(self, share: int = 1) -> None:
        """``share``: one of so many equal parts of the total."""
        self.limits = limits()
        self.total = self.remaining = self.limits.total // share

    def take(self, size: int, label: str) -> None:
        """Count what is kept. Raises ``TooLarge`` once that is more than the total."""
        self.remaining -= size
        if self.remaining < 0:
            raise TooLarge(
                f"{label} and all behind it was left out: with it more than "
                f"{self.total:,} bytes of memory are needed ({self.limits.raising()})"
            )


# -- files ----------------------------------------------------------------------------------------


KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


def kind(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "something unknown")


class File(io.FileIO):
    """A regular file that was opened, with its status and its bytes at that moment."""

    def __init__(self, path: Path, descriptor: int, status: os.stat_result) -> None:
        super().__init__(descriptor, "r")
        self.path, self.status, self.size = path, status, status.st_size

    def take(self, max_bytes: int) -> bytes:
        """At most so many of the bytes that follow; fewer only at the end. Raises ``Unreadable``.

        A file of the kernel's that would have us wait cannot be read.
        """
        parts: list[bytes] = []
        remaining = max_bytes
        try:
            # At once where the size is known: nothing is copied then. A file that grows is read by
            # the piece.
            while data := self.read(min(remaining, max(self.size - self.tell(), CHUNK))):
                parts.append(data)
                remaining -= len(data)
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if data is None:
            raise Unreadable(
                f"{self.path} cannot be read: no data is available from it now",
                "Copy what it gives to a file, and name that.",
            )
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_all(self, max_bytes: int | None = None, *, raisable: bool = True) -> bytes:
        """All that follows. Raises ``TooLarge`` where that is more than one file may be.

        ``raisable``: whether ``max_bytes`` follows from the user's number.
        """
        bounds = limits()
        bound = bounds.one if max_bytes is None else min(max_bytes, bounds.one)
        data = b"" if self.size - self.tell() > bound else self.take(bound + 1)
        size = max(self.size, len(data))
        if size > bound:
            raise _too_large(str(self.path), size, bound, bounds if raisable else None)
        return data

    def descriptor_path(self) -> Path:
        """A path to this very file, for a tool, even if another file has its name by now."""
        link = Path(f"/proc/{os.getpid()}/fd/{self.fileno()}")
        return link if link.exists() else self.path.resolve()


def opened(path: Path, *, follow: bool = True, inside: Path | None = None) -> File:
    """A regular file, opened for reading. Closes with ``with``.

    Without ``follow`` a link is refused. Of the folder ``inside`` alone it is opened where
    that is given: a link within it is followed, and none that leads out of it. Raises ``Absent``,
    ``NotAFile``, else ``Unreadable``.
    """
    if inside is None:
        return _opened(path, path, follow)
    outside = Unreadable(f"{path} leads out of {inside}, and was not followed")
    if leads_out(path, inside):
        raise outside
    file = _opened(path, path.resolve(), follow=False)
    # A folder of the path may have become a link since.
    if leads_out(Path(f"/proc/self/fd/{file.fileno()}"), inside):
        file.close()
        raise outside
    return file


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path of a folder's leads out of it: by a link, or by the path itself."""
    try:
        return not path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name that none can be
        return True


def _opened(path: Path, name: Path, follow: bool) -> File:
    try:
        # Opening a device may already do something; what is one now is not touched. It may become
        # one in the meantime, and then what counts is what was opened.
        path_status = name.stat(follow_symlinks=follow)
        _must_be_file(path, path_status.st_mode)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(name, flags | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        raise Absent(f"{path} does not exist") from None
    except (OSError, ValueError) as error:  # a name may hold what no name can
        raise _unreadable(path, error) from None
    try:
        status = os.fstat(descriptor)
        _must_be_file(path, status.st_mode)
        _must_be_within(path, Path(f"/proc/self/fd/{descriptor}"))
        return File(path, descriptor, status)
    except BaseException:
        os.close(descriptor)
        raise


def may_be_read(path: Path) -> bool:
    if ROOTS not in os.environ:
        return True
    real = path.resolve()
    return any(real.is_relative_to(root) for root in os.environ[ROOTS].split("\n") if root)


def _must_be_within(path: Path, real_path: Path) -> None:
    if not may_be_read(real_path):
        raise Unreadable(f"{path} is outside of the folders that may be read here")


def read(
    path: Path,
    max_bytes: int | None = None,
    *,
    follow: bool = True,
    inside: Path | None = None,
    raisable: bool = True,
) -> bytes:
    """The content of a regular file, as ``File.whole``; raises ``Unreadable``, as ``opened``."""
    with opened(path, follow=follow, inside=inside) as file:
        return file.read_all(max_bytes, raisable=raisable)


def text(path: Path, max_bytes: int | None = None, *, inside: Path | None = None) -> str:
    """The text of a regular file; what is not UTF-8 becomes surrogate escapes."""
    return read(path, max_bytes, inside=inside).decode("utf-8", "surrogateescape")


def records(path: Path) -> Iterator[object]:
    """The JSON values of a file that has one a line; malformed lines are passed over."""
    allowance = Allowance()
    for number, line in enumerate(lines(path), 1):
        with suppress(ValueError):  # a last line may be cut short
            yield parsed(line, allowance, f"{path}: line {number}")


def part(path: Path, offset: int, size: int | None = None, *, inside: Path | None = None) -> bytes:
    """``size`` bytes of a file from ``at``, fewer only at its end; by default all that follow."""
    bounds = limits()
    if size is not None and size > bounds.one:
        raise _too_large(f"a part of {path}", size, bounds.one, bounds)
    with opened(path, inside=inside) as file:
        file.seek(offset)
        return file.read_all() if size is None else file.take(size)


def lines(
    source: Path | File,
    too_long: Callable[[int], None] | None = None,
    longest: int | None = None,
    *,
    follow: bool = True,
) -> Iterator[bytes]:
    """The lines of a file, each with its ``\\n``; a last one without it ends with the file.

    No line is longer than ``longest`` bytes (by default a line's bound). One that is comes as
    an empty line, its number told to ``too_long``; without that, it raises ``TooLarge``. A File is
    read on from where it stands. Raises ``Unreadable``, as ``opened``.
    """
    bounds = limits()
    file = source if isinstance(source, File) else opened(source, follow=follow)
    try:
        _may_be_streamed(file)
        stream = io.BufferedReader(file, CHUNK)
        yield from split_lines(stream, str(file.path), bounds, too_long, longest)
    except (OSError, ValueError) as error:
        raise _unreadable(file.path, error) from None
    finally:
        file.close()


def split_lines(
    stream: Any,
    name: str,
    bounds: Limits,
    too_long: Callable[[int], None] | None,
    longest: int | None,
) -> Iterator[bytes]:
    bound = longest or bounds.line
    number = byte_count = 0
    while line := stream.readline(bound + 1):
        number += 1
        byte_count += len(line)
        if len(line) <= bound or (len(line) == bound + 1 and line.endswith(b"\n")):
            yield line
        else:
            if too_long is None:
                how = f" ({bounds.raising()})" if longest is None else ""
                raise TooLarge(f"{name}: line {number} is longer than {bound:,} bytes{how}")
            too_long(number)
            while line and not line.endswith(b"\n"):
                line = stream.readline(CHUNK)
                byte_count += len(line)
                if byte_count > bounds.streamed:
                    break
            yield b"\n" if line.endswith(b"\n") else b""
        if byte_count > bounds.streamed:
            raise _too_large(name, byte_count, bounds.streamed, bounds)


def unreadable_reason(
    path: Path, max_bytes: int | None = None, *, follow: bool = False
) -> str | None:
    """Why a file is not read, without opening it; None also for a missing file."""
    try:
        status = path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return f"{path} is a link that leads nowhere" if path.is_symlink() else None
    except (OSError, ValueError):
        return None
    bounds = limits()
    bound = bounds.one if max_bytes is None else max_bytes
    if not stat.S_ISREG(status.st_mode):
        return f"{path} is {kind(status.st_mode)}, and no file: it was passed over"
    if status.st_size > bound:
        return _too_large(str(path), status.st_size, bound, bounds).message
    return None


def digest(file: File) -> str:
    """The SHA-256 of what follows, in hex; it is not kept."""
    digest = hashlib.sha256()
    for data in _pieces(file):
        digest.update(data)
    return digest.hexdigest()


def contains(file: File, words: Sequence[bytes]) -> bool:
    """Whether the rest of a file, which is not kept, has one of some short words."""
    overlap = max(map(len, words)) - 1
    tail = b""
    for data in _pieces(file):
        window = tail + data
        if any(word in window for word in words):
            return True
        tail = window[-overlap:]
    return False


def _pieces(file: File) -> Iterator[bytes]:
    """What follows in a file, within bounds also where it grows as quickly as it is read."""
    _may_be_streamed(file)
    bounds, byte_count = limits(), 0
    while data := file.take(CHUNK):
        byte_count += len(data)
        if byte_count > bounds.streamed:
            raise _too_large(str(file.path), byte_count, bounds.streamed, bounds)
        yield data


Identity = tuple[int, int, int, int]


def identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _may_be_streamed(file: File) -> None:
    bounds = limits()
    if file.size > bounds.streamed:
        raise _too_large(str(file.path), file.size, bounds.streamed, bounds)


def _must_be_file(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotAFile(f"{path} is {kind(mode)}, and no file that can be read")


def _unreadable(path: Path, error: Exception) -> Unreadable:
    reason = error.strerror if isinstance(error, OSError) else None
    return Unreadable(f"{path} cannot be read: {reason or error}")


def _too_large(name: str, size: int, bound: int, bounds: Limits | None) -> TooLarge:
    how = f" ({bounds.raising(size / max(bound, 1))})" if bounds is not None else ""
    return TooLarge(f"{name} is too large: {size:,} bytes, and {bound:,} are read at most{how}")


def unpack(data: bytes, out: IO[bytes], label: str) -> None:
    """Write what gzip packed, within bounds. Raises ``Unreadable``."""
    bounds = limits()
    source = gzip.GzipFile(fileobj=io.BytesIO(data))
    try:
        while piece := source.read(CHUNK):
            out.write(piece)
            if source.tell() > bounds.streamed:
                raise _too_large(label, source.tell(), bounds.streamed, bounds)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"{label} is damaged: {error}") from None


# -- folders --------------------------------------------------------------------------------------


def names(folder: Path, max_names: int | None = None) -> tuple[list[os.DirEntry[str]], bool]:
    """The entries of a folder, by name; and whether there are more. Raises ``Unreadable``."""
    bound = limits().names if max_names is None else max_names
    _must_be_within(folder, folder)
    try:
        with os.scandir(folder) as listed:
            entries = list(islice(listed, bound + 1))
    except FileNotFoundError:
        raise Absent(f"{folder} does not exist") from None
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from None
    return sorted(entries[:bound], key=lambda e: e.name), len(entries) > bound


def more_names(folder: Path, bounds: Limits) -> str:
    return (
        f"{folder} holds more than {bounds.names:,} files and folders: the rest was not looked at "
        f"({bounds.raising()})"
    )


def files_in(folder: Path) -> list[Path]:
    """The regular files of a folder, by name, without links. Raises ``Unreadable``."""
    return [Path(e.path) for e in names(folder)[0] if e.is_file(follow_symlinks=False)]


# -- JSON -----------------------------------------------------------------------------------------


def weight(data: bytes) -> int:
    """About the bytes of memory that JSON takes once it is parsed; never fewer than its own.

    ``{},`` becomes an object of 64 bytes and a place in a list; one character beyond Latin makes
    four bytes of each of its string's.
    """
    wide = 1 if data.isascii() and b"\\u" not in data else 4
    structure = _without_strings(data)
    members = structure.count(b",") + structure.count(b":")
    return (
        wide * len(data)
        + 180 * structure.count(b"{")
        + 64 * structure.count(b"[")
        + 40 * members
        + 28 * min(data.count(b'"'), 2 * (members + 1))
    )


def _without_strings(data: bytes) -> bytes:
    return _STRING.sub(b"", data.replace(b"\\\\", b"").replace(b'\\"', b""))


def parsed(data: bytes, allowance: Allowance | None = None, label: str = "it") -> object:
    """The value of JSON. Raises ``ValueError`` if it is malformed, or nested too deeply.

    What its value weighs is taken from the ``allowance``. Raises ``TooLarge`` where that, or one
    value's bound, is met.
    """
    bounds = allowance.limits if allowance is not None else limits()
    memory_bytes = weight(data)
    if memory_bytes > bounds.one:
        remedy = bounds.raising(memory_bytes / bounds.one)
        raise TooLarge(
            f"{label} is too large: it would take about {memory_bytes:,} bytes of memory, and "
            f"{bounds.one:,} are given to one record at most ({remedy})"
        )
    if allowance is not None:
        allowance.take(memory_bytes, label)
    if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH:
        brackets = _without_strings(data).translate(None, _OTHER)
        for _ in range(MAX_JSON_DEPTH):  # the innermost pairs go, a level each time
            brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if brackets:
            raise ValueError("it is nested too deeply, or its brackets do not match")
    value: object = json.loads(data)
    return value


# -- zips -----------------------------------------------------------------------------------------


class _ArchiveFile(io.BufferedReader):
    """The file of a zip; while its directory is read, no larger one is taken in than is allowed."""

    def __init__(self, file: File, bounds: Limits) -> None:
        super().__init__(file)
        self.file = file
        self.bounds = bounds
        self.indexing = True

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.indexing:
            return super().read(size)
        bound = self.bounds.total // 8
        remaining = self.file.size - self.tell()
        if remaining > bound and size is not None and size > bound:
            raise _too_large(f"{self.file.path}: its directory", remaining, bound, self.bounds)
        data = super().read(min(remaining, bound) if size is None or size < 0 else size)
        max_members = self.bounds.names
        member_count = data.count(_ENTRY)
        if member_count > max_members:
            raise TooLarge(
                f"{self.file.path} is too large: {member_count:,} members, and {max_members:,} are "
                f"looked at most ({self.bounds.raising(member_count / max_members)})"
            )
        return data


class Archive:
    """A zip that was opened once, and its members, which are read and never unpacked.

    Safe to read from several threads. It closes with the last that refers to it. Raises
    ``Unreadable`` with a sentence on what is wrong with its directory.
    """

    def __init__(self, file: File) -> None:
        self.path = file.path
        self.identity = identity(file.status)
        stream = _ArchiveFile(file, limits())
        weakref.finalize(self, stream.close)
        try:
            begins = file.take(4) in _BEGINS
            self._zip = zipfile.ZipFile(stream)
        except DAMAGE as error:
            why = f"not a recording, or a damaged one: {error or type(error).__name__}"
            hint = "Record it again."
            if not file.size:
                why = "empty: nothing was written to it"
            elif begins and "not a zip file" in str(error):
                why = "cut short: the end of the zip is missing"
                hint = "Copy it again, or record it again."
            raise Unreadable(f"{self.path} is {why}", hint) from None
        stream.indexing = False

    @property
    def names(self) -> list[str]:
        return self._zip.namelist()

    def __contains__(self, member: str) -> bool:
        return member in self._zip.NameToInfo

    def unreadable_reason(self, member: str) -> str | None:
        """Why a member will not be read by its directory; None where it can be."""
        bounds = limits()
        info = self._zip.NameToInfo.get(member)
        if info is None or info.file_size <= bounds.one:
            return None
        return _too_large(f"{member} in {self.path}", info.file_size, bounds.one, bounds).message

    def read(self, member: str) -> bytes:
        """The content of a member. Raises ``Absent``, ``TooLarge``, else ``Unreadable``."""
        bounds = limits()
        with self._member(member, bounds.one, bounds) as (stream, size):
            out = io.BytesIO()
            while data := stream.read(CHUNK):  # it may be larger than it says of itself
                out.write(data)
                if out.tell() > bounds.one:
                    raise _too_large(f"{member} in {self.path}", out.tell(), bounds.one, bounds)
            _check_member_size(self.path, member, size, out.tell())
            return out.getvalue()

    def lines(
        self,
        member: str,
        too_long: Callable[[int], None] | None = None,
        longest: int | None = None,
    ) -> Iterator[bytes]:
        """The lines of a member, as ``files.lines`` gives those of a file."""
        bounds = limits()
        name = f"{member} in {self.path}"
        with self._member(member, bounds.streamed, bounds) as (stream, size):
            buffered = io.BufferedReader(stream, CHUNK)
            yield from split_lines(buffered, name, bounds, too_long, longest)
            _check_member_size(self.path, member, size, buffered.tell())

    def members(self) -> list[zipfile.ZipInfo]:
        return self._zip.infolist()

    def extract(self, info: zipfile.ZipInfo, folder: Path) -> None:
        """Write a member below a folder, no more of it than it declares. Raises ``Unreadable``."""
        with self._opened(info):  # refuses what cannot be read within bounds
            pass
        try:
            self._zip.extract(info, folder)
        except OSError:
            raise
        except DAMAGE as error:
            raise Unreadable(f"{self.path} is damaged: {info.filename}: {error}") from None

    @contextmanager
    def _member(self, member: str, bound: int, bounds: Limits) -> Iterator[tuple[Any, int]]:
        info = self._zip.NameToInfo.get(member)
        if info is None:
            raise Absent(f"{self.path} lacks {member}: it is incomplete")
        if info.file_size > bound:
            raise _too_large(f"{member} in {self.path}", info.file_size, bound, bounds)
        with self._opened(info) as stream:
            yield stream, info.file_size

    @contextmanager
    def _opened(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        member = info.filename
        if info.compress_type not in _METHODS:
            # Python unpacks the others a piece at a time only as they were packed: bounded by none.
            raise Unreadable(f"{self.path} is damaged: {member} is packed in an unknown way")
        try:
            with self._zip.open(info) as stream:
                yield stream
        except DAMAGE as error:
            raise Unreadable(f"{self.path} is damaged: {member}: {error}") from None


def _check_member_size(path: Path, member: str, size: int, byte_count: int) -> None:
    if byte_count != size:
        raise Unreadable(
            f"{path} is damaged: {member} has {byte_count:,} bytes and says that it has {size:,}"
        )


_archives: weakref.WeakValueDictionary[Identity, Archive] = weakref.WeakValueDictionary()
_archives_lock = threading.Lock()


def archive(path: Path) -> Archive:
    """The zip at a path; one that is still in use and has not changed is not opened again."""
    with _archives_lock:
        with suppress(OSError, ValueError):
            if (cached_archive := _archives.get(identity(path.stat()))) is not None:
                return cached_archive
        new_archive = Archive(opened(path))
        _archives[new_archive.identity] = new_archive
        return new_archive


def is_zip(path: Path) -> bool:
    """Whether a regular file begins as a zip does, or ends as an empty one."""
    try:
        with opened(path) as file:
            return file.take(4) in _BEGINS
    except Unreadable:
        return False
