"""Files of a machine: libcupti, and libraries that carry device code."""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO

SECTIONS = (b".nv_fatbin\0", b"__nv_relfatbin\0")
"""Where nvcc puts device code (CUDA Binary Utilities)."""

MAX_NAMES_BYTES = 1 << 20
"""Bytes of a table of names that are looked at."""


def has_fatbin(path: str) -> bool:
    """Whether a 64-bit ELF file has a section for device code. Raises OSError."""
    with open(path, "rb") as file:
        return any(name in _sections(file)[0] for name in SECTIONS)


def _sections(file: BinaryIO) -> tuple[bytes, tuple[bytes, ...]]:
    """The names of a 64-bit ELF file's sections, one after the other, and the table's rows."""
    head = file.read(64)
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return b"", ()
    (table,) = struct.unpack_from("<Q", head, 40)
    size, count, names = struct.unpack_from("<HHH", head, 58)
    if size < 64 or names >= count:
        return b"", ()
    _go(file, table)
    rows = tuple(file.read(size) for _ in range(count))
    if len(rows[-1]) < size:
        return b"", ()
    return _content(file, rows[names]), rows


def _content(file: BinaryIO, section: bytes) -> bytes:
    offset, length = struct.unpack_from("<QQ", section, 24)
    _go(file, offset)
    return file.read(min(length, MAX_NAMES_BYTES))


def _go(file: BinaryIO, offset: int) -> None:
    """Seek to an offset in the file, which may exceed the largest valid one."""
    file.seek(min(offset, (1 << 63) - 1))


def find_cupti() -> str | None:
    """libcupti as it is loaded here, else of NVIDIA's wheels, else of a toolkit."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                if "libcupti" in line and ".so" in line:
                    return line.split(maxsplit=5)[5].strip()
    except OSError:
        pass
    import glob

    patterns = [
        f"{place}/nvidia/{package}/lib/libcupti.so.*[0-9]"
        for place in sys.path
        if place.endswith("-packages")
        for package in ("cu13", "cuda_cupti", "cu*")
    ]
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    for home in filter(None, homes):
        patterns += [
            f"{home}/extras/CUPTI/lib64/libcupti.so.*[0-9]",
            f"{home}/lib64/libcupti.so.*[0-9]",
        ]
    for pattern in patterns:
        if matches := sorted(glob.glob(pattern), key=len):
            return matches[0]
    return None
