"""Follows a recording that grows: another look at it as soon as there is something new."""

from __future__ import annotations

import os
import time
from pathlib import Path

from inspector.capture.opening import open_path
from inspector.errors import PtxviewError
from inspector.model import Recording
from inspector.recording import event_files

SPARE = 8
"""Times that a look took which pass until the next: reading must not slow down what is read."""


class Follower:
    """Looks at a recording's folder when it is asked to; for one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sizes: dict[str, int] | None = None
        self._not_before = 0.0

    def look(self) -> Recording | None:
        """What the recording holds by now, or None where nothing came since the last look.

        A folder that is gone, or that cannot be read just now, has nothing new.
        """
        if time.monotonic() < self._not_before:
            return None
        try:
            sizes = {file.name: file.stat().st_size for file in event_files(self.path)}
        except (PtxviewError, OSError):
            return None
        if not sizes or sizes == self._sizes:
            return None
        began = time.monotonic()
        try:
            found = open_path(self.path)
        except (PtxviewError, OSError):
            return None
        finally:
            self._not_before = time.monotonic() + SPARE * (time.monotonic() - began)
        self._sizes = sizes
        return found


def grows(path: Path, recording: Recording) -> bool:
    """Whether it is worth following: a folder whose run has not ended, as far as it says."""
    return path.is_dir() and not recording.complete and os.access(path, os.R_OK)
