"""Times a script's variants, and compares the times with the device's limits."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from inspector import files
from inspector.capture import machine
from inspector.errors import ToolMissing, Unreadable
from inspector.measure.time import racing
from inspector.measure.time.child import Said, TimeWish, interpreter
from inspector.measure.time.racing import Task
from inspector.measure.time.ranking import Race, peaks_of, rows_of
from inspector.measure.time.roofline import Peaks, peaks_of_device
from inspector.measure.time.take import data_sheet
from inspector.reader import tables
from inspector.system.process import Finished, run_tool
from inspector.text import plural

# Seconds between two messages about progress.
NEWS = 5.0


def race(
    script: Path, sizes: Sequence[dict[str, int]], swept: str | None, wish: TimeWish,
    say: Callable[[str], None],
) -> Race:  # fmt: skip
    """Run what a script declares at each of the sizes.

    Raises ``ToolMissing`` without a GPU or torch, ``Unreadable`` where it declares nothing.
    """
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    python = interpreter(wish.python, [machine.interpreter(None)], machine.versions)
    task = Task(script, sizes, wish)
    what = f"{script.name} at {len(sizes)} sizes" if len(sizes) > 1 else script.name
    say(f"racing the variants of {what}, {wish.seconds:g} s each at most, under {python}")
    gathered = racing.measure(python, task, say, partial(_told, say))
    peaks = peaks_of(gathered.copies)
    return Race(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        str(script),
        python,
        gathered.device,
        rows_of(gathered, script.stem, sizes, peaks),
        peaks,
        _bandwidth(gathered.device),
        swept,
        gathered.sizes,
    )


def _told(
    say: Callable[[str], None], argv: Sequence[str], seconds: float, folder: Path
) -> Finished:
    """Run a child process in the current folder, with messages about its progress."""
    results = Path(argv[-1])
    offset, done, last_news = 0, 0, time.monotonic()

    def go_on() -> bool:
        nonlocal offset, done, last_news
        try:
            chunk = files.after(results, offset)
        except Unreadable:
            return True
        offset += len(chunk)
        done += chunk.count(b'{"end"')
        if time.monotonic() - last_news > NEWS:
            last_news = time.monotonic()
            say(f"{plural(done, 'variant')} done")
        return True

    return run_tool(argv, seconds=seconds, go_on=go_on)


def peaks_by_sheet(device: object) -> Peaks | None:
    """The data sheet's peaks of a device by its name; None if there is no such sheet."""
    return peaks_of_device(device, tables.table("peaks"))


def _bandwidth(device: Said) -> float | None:
    sheet = peaks_by_sheet(device.get("name"))
    return sheet.bandwidth / 1e9 if sheet and sheet.bandwidth else data_sheet(device)
