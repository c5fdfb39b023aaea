"""What a child of ours does that reads figures of variants beside others: see ``summaries``."""

from __future__ import annotations

import gc
import json
from pathlib import Path

from inspector import files
from inspector.capture.opening import open_path
from inspector.reader.reader import Reader
from inspector.recording.layout import kept_cache
from inspector.system.process import die_with_parent


def child(path: str, task: str) -> None:
    """Opens the recording, reads what the task names, and keeps it in the user's own cache."""
    die_with_parent()
    gc.disable()  # what is read holds no cycles, and looking for them takes a sixth of the time
    device, names = json.loads(files.read(Path(task)))
    recording = open_path(Path(path))
    wanted = set(names)
    own = [v for _, v in recording.variants() if f"{v.hash}{v.symbol}" in wanted]
    Reader(recording, kept_cache(), device).summaries.keep(own)
