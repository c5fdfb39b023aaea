"""Results made once for all xdist workers, in a shared folder."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path


def once(place: Path, make: Callable[[Path], object]) -> Path:
    """A file or folder that is made at a path unless a worker has made it; it is only looked at."""
    place.parent.mkdir(parents=True, exist_ok=True)
    done = place.parent / f".{place.name}.made"
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(place)
            done.touch()
    return place
