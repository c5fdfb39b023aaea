"""Where timings of a recording are kept: the part of its layout that grows after the run.

In a recording's folder they are ``timings.jsonl``, one record a line, appended; a single file
carries what its folder held when it was packed, and what comes later stands beside it, as
``x.ptxview.timings.jsonl``. Reports of ncu are ``ncu.jsonl`` likewise.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from inspector.recording import DAMAGE, LARGEST_BLOB, opened

NAME = "timings.jsonl"
REPORTS = "ncu.jsonl"


def place(path: Path, name: str = NAME) -> Path:
    """The file that timings (or what ``name`` holds) of a recording are appended to."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def keep(path: Path, record: Mapping[str, object], name: str = NAME) -> None:
    """Append a record in one write. Raises ``OSError`` where that is not allowed, or where the file
    is a link and the record would go elsewhere."""
    line = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    with opened(place(path, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT) as out:
        out.write(line.encode() + b"\n")


def kept(path: Path, name: str = NAME) -> list[dict[str, object]]:
    """Every record, the oldest first; lines that are none are passed over."""
    out = []
    for data in _files(path, name):
        for line in data.split(b"\n"):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(said, dict):
                out.append(said)
    return out


def _files(path: Path, name: str) -> Iterator[bytes]:
    if path.is_file():
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(name).file_size <= LARGEST_BLOB:
                    yield archive.read(name)
        except (KeyError, *DAMAGE):
            pass
    try:
        with opened(place(path, name)) as file:
            yield file.read()
    except OSError:
        return
