"""Unpacks what somebody packed into a private temporary folder, removed when the process exits.

A tar (plain, or through gzip, bzip2, xz, zstd) or a zip may say anything of its members. Each is
written by us as a new regular file below a new folder of our own, its name taken apart first:
nothing leads out, nothing is overwritten, and there are no links, devices or owners. Sizes are
counted as they come, whatever was declared. What is packed once more stays packed.
"""

from __future__ import annotations

import atexit
import bz2
import errno
import importlib
import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from inspector.errors import Unreadable
from inspector.files import (
    CHUNK,
    DAMAGE,
    Archive,
    File,
    Limits,
    TooLarge,
    archive,
    identity,
    limits,
    opened,
)

PREFIX = "ptxview-unpacked-"
RATIO, FREE = 250, 16 << 20
"""How many times its own size an archive may unpack to, beyond so many bytes that are free."""

DEEPEST, SAID = 64, 20
"""Folders inside each other; members that are named as left out, the rest are counted."""

HEADER = 1 << 20
"""Bytes of a tar's extended header: a name, not a novel."""

DICTIONARY = 128 << 20
"""Bytes of memory that xz may need whatever the bound: `xz -9` does with half of them."""

_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_PACKED = (_GZIP, _BZIP2, _XZ, _ZSTD)
_USTAR = slice(257, 262)
_OUT = re.compile(r"^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)")
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Decompressor(Protocol):
    """What ``bz2`` and ``lzma`` have, and what ``_Inflating`` makes of ``zlib``."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Inflating:
    """gzip's decompressor, which keeps by itself what it has not gone through."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail
        return out


def _decompressors(begin: bytes, path: Path, bounds: Limits) -> Callable[[], _Decompressor]:
    """What makes a decompressor of the kind that a file begins as. Raises ``Unreadable``."""
    if begin.startswith(_GZIP):
        return _Inflating
    if begin.startswith(_BZIP2):
        return bz2.BZ2Decompressor
    if begin.startswith(_XZ):
        return lambda: lzma.LZMADecompressor(memlimit=max(bounds.one, DICTIONARY))
    try:
        made: Callable[[], _Decompressor]
        made = importlib.import_module("compression.zstd").ZstdDecompressor
    except ImportError:
        raise Unreadable(
            f"{path} is packed with zstd, which this Python cannot unpack (3.14 can)",
            f"Unpack it first: zstd -d {path.name}",
        ) from None
    return made


class Unpacking(io.RawIOBase):
    """What a packed file unpacks to, read from its beginning; one pack may follow another.

    No more comes of it than is gone through of one file, nor more than ``RATIO`` times its size.
    Raises ``TooLarge``, ``Unreadable``.
    """

    def __init__(self, file: File, begin: bytes) -> None:
        super().__init__()
        self._file = file
        self._bounds = limits()
        self._make = _decompressors(begin, file.path, self._bounds)
        self._inner = self._make()
        self._left = begin
        self._most = self._bounds.streamed
        self.seen = 0

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes, 0 at the end."""
        data = self._some(len(buffer))
        self.seen += len(data)
        _must_be_sane(self._file.path, self._file.size, self.seen, self._bounds)
        buffer[: len(data)] = data
        return len(data)

    def _some(self, most: int) -> bytes:
        while True:
            given = b""
            if self._inner.eof:
                self._left = self._inner.unused_data or self._file.take(CHUNK)
                if not self._left or not self._left.startswith(_PACKED):
                    return b""  # padding may follow, as after what tape drives wrote
                self._inner = self._make()
            if self._inner.needs_input:
                given, self._left = self._left or self._file.take(CHUNK), b""
                if not given:
                    raise Unreadable(f"{self._file.path} is cut short: copy it again")
            try:
                data = self._inner.decompress(given, most)
            except DAMAGE as error:
                raise Unreadable(f"{self._file.path} is damaged: {error}") from None
            if data:
                return data


def _must_be_sane(path: Path, packed: int, seen: int, bounds: Limits) -> None:
    """Raises ``TooLarge`` where more comes of an archive than is taken of any, or is sane."""
    if seen > bounds.streamed:
        raise TooLarge(
            f"{path} is too large: unpacked it takes more than {bounds.streamed:,} bytes "
            f"({bounds.raising()})"
        )
    if seen > FREE + packed * RATIO:
        raise TooLarge(
            f"{path} unpacks to more than {RATIO} times its size, as only a trap does",
            "Unpack it yourself if you know what it is, and open the folder.",
        )


def packed_lines(path: Path, *, inside: Path | None = None) -> Iterator[bytes]:
    """The lines of a file that may be packed; none may be longer than one file read at once.

    Raises ``Unreadable``, as ``opened``.
    """
    from inspector.files import _split

    bounds = limits()
    with opened(path, inside=inside) as file:
        begin = file.take(CHUNK)
        raw: Any
        if begin.startswith(_PACKED):
            raw = Unpacking(file, begin)
        else:
            file.seek(0)
            raw = file
        yield from _split(io.BufferedReader(raw, CHUNK), str(path), bounds, None, bounds.one)


def head(path: Path, most: int, *, inside: Path | None = None) -> bytes:
    """The first bytes of what a file holds, unpacked if it is packed. Raises ``Unreadable``."""
    with opened(path, inside=inside) as file:
        begin = file.take(max(most, 512))
        if not begin.startswith(_PACKED):
            return begin[:most]
        return io.BufferedReader(Unpacking(file, begin)).read(most)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip, or a tar, packed or not. Raises ``Unreadable``."""
    with opened(path) as file:
        begin = file.take(512)
    if begin[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return True
    if begin.startswith(_ZSTD):
        return True  # what it holds cannot be seen everywhere
    return _is_tar(head(path, 512) if begin.startswith(_PACKED) else begin)


def _is_tar(block: bytes) -> bool:
    if len(block) < 512:
        return False
    if block[_USTAR] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


# -- folders of our own ---------------------------------------------------------------------------


@dataclass
class Unpacked:
    """The folder that an archive was unpacked to, and sentences on what was left out of it."""

    folder: Path
    problems: list[str] = field(default_factory=list)
    left_out: int = 0

    def leave(self, member: str, why: str) -> None:
        """Note a member that was not unpacked."""
        self.left_out += 1
        if self.left_out <= SAID:
            self.problems.append(f"{member[:200]!r} {why}: it was left out")


_unpacked: dict[tuple[int, int, int, int], Unpacked] = {}
_lock = threading.Lock()


def unpacked(path: Path) -> Unpacked:
    """An archive's members in a folder that only this user can enter, removed when we end.

    One that has not changed is not unpacked again. Raises ``Unreadable``.
    """
    with _lock:
        now = identity(path)
        if now is not None and now in _unpacked:
            return _unpacked[now]
        made = Unpacked(_folder())
        try:
            _unpack(path, made)
        except OSError as error:
            _remove(made.folder)
            raise Unreadable(
                f"{path} cannot be unpacked to {made.folder.parent}: {error.strerror or error}",
                "TMPDIR names another place for it.",
            ) from None
        except BaseException:
            _remove(made.folder)
            raise
        if made.left_out > SAID:
            rest = made.left_out - SAID
            more = "1 more member was" if rest == 1 else f"{rest:,} more members were"
            made.problems.append(f"{more} left out")
        if now is not None:
            _unpacked[now] = made
        return made


def _folder() -> Path:
    """A new folder below the one for temporary files, removed at exit; a kill leaves it there."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(_remove, folder)
    return folder


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


# -- members --------------------------------------------------------------------------------------


def _unpack(path: Path, made: Unpacked) -> None:
    with opened(path) as file:
        begin = file.take(512)
        if begin[:2] == b"PK":
            _zip(archive(path), file.size, made)
            return
        raw: Any
        if begin.startswith(_PACKED):
            raw = Unpacking(file, begin)
        else:
            file.seek(0)
            raw = file
        _tar(io.BufferedReader(raw, CHUNK), file, made)


class _Member(tarfile.TarInfo):
    """A member whose name is no longer than names are: a header is read as a whole."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        extended = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
                    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)  # fmt: skip
        said = sum(len(key) + len(value) for key, value in tar.pax_headers.items())
        if self.type in extended and self.size + said > HEADER:
            raise TooLarge(f"its headers take more than {HEADER:,} bytes, and are no names")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.HeaderError(f"{self.name!r} is a file with holes")
        member: tarfile.TarInfo = super()._proc_member(tar)  # type: ignore[misc]
        return member

    def _with_holes(self, member: tarfile.TarInfo, *_: object) -> None:
        """What stands in its place is not read: a list of holes may be as long as the archive."""
        member.sparse = []  # type: ignore[assignment]

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _with_holes


def _tar(stream: IO[bytes], file: File, made: Unpacked) -> None:
    bounds, path = limits(), file.path
    written = count = 0
    try:
        with tarfile.open(
            fileobj=stream, mode="r|", tarinfo=_Member, errors="surrogateescape"
        ) as tar:
            while (member := tar.next()) is not None:
                count += 1
                _must_be_few(path, count, bounds)
                setattr(tar, "members", [])  # noqa: B010 - it would remember all
                if member.isdir():
                    continue
                why = None if member.isreg() and not member.issparse() else _not_a_file(member)
                if why is not None:
                    made.leave(member.name, why)
                    continue
                source = tar.extractfile(member)
                if source is None:
                    continue
                written += _write(made, member.name, source, bounds.streamed - written, path)
    except TooLarge as error:
        at = "" if str(path) in error.message else f"{path} is too large: "
        raise TooLarge(f"{at}{error.message}", error.hint) from None
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise Unreadable(
            f"{path} is damaged or cut short: {error or type(error).__name__}",
            "Copy it again.",
        ) from None
    if not count:
        raise Unreadable(f"{path} is an archive without any file in it")


def _not_a_file(member: tarfile.TarInfo) -> str:
    kinds = ((member.issym, "is a link"), (member.islnk, "is a link"), (member.isfifo, "is a pipe"),
             (member.isdev, "is a device"), (member.issparse, "is a file with holes"))  # fmt: skip
    return next((said for test, said in kinds if test()), "is no file")


def _zip(held: Archive, size: int, made: Unpacked) -> None:
    bounds = limits()
    members = held.members()
    _must_be_few(held.path, len(members), bounds)
    declared = sum(member.file_size for member in members)
    _must_be_sane(held.path, size, declared, bounds)
    written = 0
    for member in members:
        if member.is_dir():
            continue
        mode = member.external_attr >> 16
        if member.flag_bits & 1:
            made.leave(member.filename, "is encrypted")
        elif mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
            made.leave(member.filename, "is a link" if stat.S_ISLNK(mode) else "is no file")
        else:
            with held.member(member) as stream:
                written += _write(
                    made, member.filename, stream, bounds.streamed - written, held.path
                )
    if members and all(m.flag_bits & 1 for m in members if not m.is_dir()):
        raise Unreadable(f"{held.path} is encrypted", "Unpack it first, and open the folder.")
    if not members:
        raise Unreadable(f"{held.path} is an archive without any file in it")


def _must_be_few(path: Path, count: int, bounds: Limits) -> None:
    if count > bounds.names:
        raise TooLarge(
            f"{path} is too large: more than {bounds.names:,} members ({bounds.raising()})"
        )


def _write(made: Unpacked, name: str, source: IO[bytes], most: int, path: Path) -> int:
    """Write a member as a new file; its bytes. One whose name leads elsewhere is left out."""
    if _OUT.search(name) or "\0" in name:
        made.leave(name, "has a name that leads out of the archive")
        return 0
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if not parts or len(parts) > DEEPEST:
        made.leave(name, f"lies in more than {DEEPEST} folders" if parts else "has no name")
        return 0
    target = made.folder.joinpath(*parts)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(target, _WRITE, 0o600)
    except FileExistsError:
        made.leave(name, "stands there more than once, and only the first is read")
        return 0
    except (NotADirectoryError, UnicodeError, ValueError):
        made.leave(name, "has a name that no file can have here")
        return 0
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        made.leave(name[:80], "has a name that is too long")
        return 0
    written = 0
    with os.fdopen(handle, "wb") as out:
        while data := source.read(CHUNK):
            written += len(data)
            if written > most:
                bounds = limits()
                raise TooLarge(
                    f"{path} is too large: unpacked it takes more than {bounds.streamed:,} bytes "
                    f"({bounds.raising()})"
                )
            out.write(data)
    return written
