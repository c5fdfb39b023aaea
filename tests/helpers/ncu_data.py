"""The report of five squares, as ncu exported it, and as a plain CSV reader sees it."""

from __future__ import annotations

import csv
import functools
import io
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SQUARES = ROOT / "tests" / "data" / "bench" / "ncu" / "squares.tar.xz"
PAGES = ("details", "raw", "source")


@functools.cache
def text(page: str) -> str:
    with tarfile.open(SQUARES) as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith(f"{page}.csv"))
        held = archive.extractfile(member)
        assert held is not None
        return held.read().decode()


def rows(page: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text(page))))


def column(name: str) -> list[str]:
    head, _, *launches = rows("raw")
    return [row[head.index(name)] for row in launches]


def blocks() -> list[list[dict[str, str]]]:
    out: list[list[dict[str, str]]] = []
    head: list[str] = []
    for row in rows("source"):
        if row[0] == "Kernel Name":
            out.append([])
        elif row[0] == "Address":
            head = row
        else:
            out[-1].append(dict(zip(head, row, strict=True)))
    return out


def write(folder: Path, *pages: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for page in pages:
        out.append(folder / f"{page}.csv")
        out[-1].write_text(text(page))
    return out
