"""Stores timings with a recording: the part of its layout that grows after the run.

In a recording's folder they are ``timings.jsonl``, one record a line, appended; a single file
carries what its folder held when it was packed, and later records go to a file beside it,
``x.ptxview.timings.jsonl``. Reports of ncu are in ``ncu.jsonl``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from inspector.base.errors import Unreadable
from inspector.recording.layout import appended
from inspector.system import files

NAME = "timings.jsonl"
REPORTS = "ncu.jsonl"


def place(path: Path, name: str = NAME) -> Path:
    """The file that timings (or what ``name`` holds) of a recording are appended to."""
    return path / name if path.is_dir() else path.with_name(f"{path.name}.{name}")


def keep(path: Path, record: Mapping[str, object], name: str = NAME) -> None:
    """Append a record in one write.

    Raises ``OSError`` if that is not allowed, or if the file is a link that leads elsewhere.
    """
    line = json.dumps(record, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    with appended(place(path, name)) as out:
        out.write(line.encode() + b"\n")


def kept(
    path: Path, name: str = NAME, say: Callable[[str], None] | None = None
) -> list[dict[str, object]]:
    """Every record, the oldest first; lines that are no records are ignored.

    ``say`` is called with a sentence for each record that was left out because of its size.
    """
    tell = say or (lambda _: None)
    allowance = files.Allowance()
    out = []
    file = place(path, name)
    try:
        for number, line in enumerate(_lines(path, name, file, tell), 1):
            try:
                record = files.parsed(line, allowance, f"{name}: record {number}")
            except files.TooLarge as error:
                tell(error.message)
                if allowance.left < 0:
                    break
                continue
            except ValueError:
                continue
            if isinstance(record, dict):
                out.append(record)
    except files.TooLarge as error:
        tell(error.message)
    return out


def problems(path: Path) -> list[str]:
    """Sentences on the files of timings and reports that are too large to be read."""
    bound = files.limits().streamed
    reasons = (files.why_not(place(path, name), bound) for name in (NAME, REPORTS))
    return [why for why in reasons if why is not None]


def _lines(path: Path, name: str, file: Path, tell: Callable[[str], None]) -> Iterator[bytes]:
    bounds = files.limits()

    def too_long(number: int) -> None:
        tell(
            f"{name}: record {number} is longer than {bounds.one:,} bytes; it was left out "
            f"({bounds.raising()})"
        )

    # A report of ncu is one record with all its text.
    if path.is_file():
        try:
            yield from files.archive(path).lines(name, too_long, bounds.one)
        except files.TooLarge:
            raise
        except Unreadable:
            pass
    try:
        # A link would lead out of the recording.
        yield from files.lines(file, too_long, bounds.one, follow=False)
    except files.Absent:
        return
    except files.NotAFile as error:
        tell(error.message)
    except files.TooLarge:
        raise
    except Unreadable:
        return
