"""What was learnt when an object was built, kept for the times when it is found already built."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from . import build


def _place(item: Path) -> Path:
    digest = hashlib.sha256(str(item.absolute()).encode()).hexdigest()[:24]
    return build.cache_root() / "objects" / f"{digest}.json"


def write(item: Path, record: dict[str, Any]) -> None:
    """Note an object's record; a cache that cannot be written costs the note alone."""
    place = _place(item)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({**record, "object": str(item.absolute())}), encoding="utf-8")
        os.replace(part, place)
    except OSError:
        return


def read(item: Path) -> dict[str, Any] | None:
    """An object's record, or None."""
    try:
        record: dict[str, Any] = json.loads(_place(item).read_text(encoding="utf-8"))
        return record
    except (OSError, ValueError):
        return None
