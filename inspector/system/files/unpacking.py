"""Unpacks archives into private temporary folders that are removed when the process exits.

``tarfile``'s data filter and ``zipfile`` keep every member below the folder, only regular files are
written, and the bytes that come out are counted. An archive inside an archive stays packed.
"""

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from inspector.base.errors import Unreadable
from inspector.base.units import plural
from inspector.system.files import (
    CHUNK,
    DAMAGE,
    File,
    Identity,
    Limits,
    TooLarge,
    archive,
    identity,
    limits,
    opened,
    split_lines,
)

PREFIX = "ptxview-unpacked-"
MAX_RATIO, FREE_BYTES = 250, 16 << 20
"""An archive may unpack to so many times its own size, plus a free amount."""
MAX_DEPTH, MAX_NAMED_PROBLEMS = 64, 20
"""Nested folders of a member, and members that are named as left out; the rest are counted."""
MAX_NAME_BYTES = 255
MAX_HEADER_BYTES = 1 << 20
"""Content of a tar member that is no regular file, such as an extended header."""

NOT_A_FILE = "is a link, a device, a pipe or a file with holes"

_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
UNPACKERS: dict[bytes, Callable[[File], Any]] = {
    _GZIP: lambda packed: gzip.GzipFile(fileobj=packed),
    _BZIP2: bz2.BZ2File,
    _XZ: lzma.LZMAFile,
}
"""What unpacks a file by its first bytes."""


class _Unpacking(io.RawIOBase):
    """Decompressed bytes of a file, within the bounds of ``_check_size``."""

    def __init__(self, file: File) -> None:
        super().__init__()
        begin = file.take(len(_XZ))
        file.seek(0)
        if begin.startswith(_ZSTD):
            raise Unreadable(
                f"{file.path} is packed with zstd, which ptxview cannot unpack",
                f"Unpack it first: zstd -d {file.path.name}",
            )
        unpack = next((u for magic, u in UNPACKERS.items() if begin.startswith(magic)), None)
        self._stream = file if unpack is None else unpack(file)
        self._file, self._limits, self._seen = file, limits(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        path = self._file.path
        try:
            size: int = self._stream.readinto(buffer) or 0
        except EOFError:
            raise Unreadable(f"{path} is cut short: copy it again") from None
        except DAMAGE as error:
            raise Unreadable(f"{path} is damaged: {error}") from None
        self._seen += size
        _check_size(path, self._file.size, self._seen, self._limits)
        return size


def _check_size(path: Path, packed: int, size: int, bounds: Limits) -> None:
    """Raise ``TooLarge`` where an archive unpacks to more than the bound, or than is sane."""
    if size > bounds.streamed:
        raise TooLarge(
            f"{path} is too large: unpacked it takes more than {bounds.streamed:,} bytes "
            f"({bounds.raising()})"
        )
    if size > FREE_BYTES + packed * MAX_RATIO:
        raise TooLarge(
            f"{path} unpacks to more than {MAX_RATIO} times its size, as only a trap does",
            "Unpack it yourself if you know what it is, and open the folder.",
        )


@contextmanager
def _stream(path: Path, inside: Path | None = None) -> Iterator[io.BufferedReader]:
    with opened(path, inside=inside) as file:
        yield io.BufferedReader(_Unpacking(file), CHUNK)


def packed_lines(path: Path, *, inside: Path | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, which may be compressed. Raises ``Unreadable``, as ``opened``."""
    bounds = limits()
    with _stream(path, inside) as stream:
        yield from split_lines(stream, str(path), bounds, None, bounds.one)


def head(path: Path, size: int, *, inside: Path | None = None) -> bytes:
    """Return the first bytes of a file, decompressed. Raises ``Unreadable``."""
    with _stream(path, inside) as stream:
        return stream.read(size)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip, or a tar, compressed or not. Raises ``Unreadable``."""
    with opened(path) as file:
        begin = file.take(len(_ZSTD))
    if begin in (b"PK\x03\x04", b"PK\x05\x06", _ZSTD):
        return True
    try:
        tarfile.TarInfo.frombuf(head(path, 512), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


class UnpackedFolder:
    """The folder of an unpacked archive, and sentences on members that were left out."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix=PREFIX)
        self.folder = Path(self._temporary.name)
        self.problems: list[str] = []

    def leave_out(self, member: str, why: str) -> None:
        self.problems.append(f"{member[:200]!r} {why}: it was left out")


_unpacked: dict[Identity, UnpackedFolder] = {}
_lock = threading.Lock()


def unpacked(path: Path) -> UnpackedFolder:
    """Unpack an archive once into a folder of this user's. Raises ``Unreadable``."""
    with opened(path) as file:
        file_identity = identity(file.status)
    with _lock:
        if file_identity in _unpacked:
            return _unpacked[file_identity]
        target = UnpackedFolder()
        try:
            count = _unzip(path, target) if head(path, 2) == b"PK" else _untar(path, target)
        except OSError as error:
            raise Unreadable(
                f"{path} cannot be unpacked to {target.folder.parent}: {error.strerror or error}",
                "TMPDIR names another place for it.",
            ) from None
        if not count:
            raise Unreadable(f"{path} is an archive without any file in it")
        unnamed_count = len(target.problems) - MAX_NAMED_PROBLEMS
        if unnamed_count > 0:
            verb = "was" if unnamed_count == 1 else "were"
            summary = f"{plural(unnamed_count, 'more member')} {verb} left out"
            target.problems[MAX_NAMED_PROBLEMS:] = [summary]
        _unpacked[file_identity] = target
        return target


class _Member(tarfile.TarInfo):
    """A tar member; ``tarfile`` reads its extended headers as a whole, so they are bounded."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if not self.isreg() and self.size > MAX_HEADER_BYTES:
            raise TooLarge(f"its headers take more than {MAX_HEADER_BYTES:,} bytes")
        member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return member


def _untar(path: Path, target: UnpackedFolder) -> int:
    count = 0
    try:
        with (
            _stream(path) as stream,
            tarfile.open(
                fileobj=stream, mode="r|", tarinfo=_Member, errors="surrogateescape"
            ) as tar,
        ):
            for member in tar:
                count += 1
                _check_count(path, count)
                for name, empty in (("members", []), ("pax_headers", {})):
                    setattr(tar, name, empty)  # it would remember all
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    target.leave_out(member.name, NOT_A_FILE)
                else:
                    _extract(member.name, partial(_write, tar, member, target.folder), target)
    except TooLarge as error:
        prefix = "" if str(path) in error.message else f"{path} is too large: "
        raise TooLarge(f"{prefix}{error.message}", error.hint) from None
    except RecursionError:  # each header is read by the one before it
        raise TooLarge(f"{path} is too large: its headers do not end") from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise Unreadable(
            f"{path} is damaged or cut short: {error or type(error).__name__}", "Copy it again."
        ) from None
    return count


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a regular file whose name was checked; ``extract`` has no filter before 3.11.4."""
    content = tar.extractfile(member)
    assert content is not None
    place = folder / member.name
    place.parent.mkdir(parents=True, exist_ok=True)
    with content, place.open("xb") as file:
        shutil.copyfileobj(content, file)


def _extract(name: str, write: Callable[[], object], target: UnpackedFolder) -> None:
    reason = None
    if name.count("/") > MAX_DEPTH:
        reason = f"is in more than {MAX_DEPTH} folders"
    elif name.startswith("/") or ".." in Path(name).parts:
        reason = "has a name that leads out of the archive"
    elif any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in Path(name).parts):
        reason = "has a name that is too long"
    elif (target.folder / name).exists():
        reason = "is there more than once"
    else:
        try:
            write()
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            reason = "has a name that no file can have here"
    if reason is not None:
        target.leave_out(name, reason)


def _unzip(path: Path, target: UnpackedFolder) -> int:
    packed, bounds = archive(path), limits()
    members = [member for member in packed.members() if not member.is_dir()]
    _check_count(path, len(members))
    _check_size(path, packed.identity[2], sum(member.file_size for member in members), bounds)
    if members and all(member.flag_bits & 1 for member in members):
        raise Unreadable(f"{path} is encrypted", "Unpack it first, and open the folder.")
    for member in members:
        if member.flag_bits & 1:
            target.leave_out(member.filename, "is encrypted")
        elif stat.S_ISLNK(member.external_attr >> 16):
            target.leave_out(member.filename, NOT_A_FILE)
        else:
            _extract(member.filename, partial(packed.extract, member, target.folder), target)
    return len(members)


def _check_count(path: Path, count: int) -> None:
    bounds = limits()
    if count > bounds.names:
        raise TooLarge(
            f"{path} is too large: more than {bounds.names:,} members ({bounds.raising()})"
        )
