"""Times a script's variants in child processes."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from inspector.capture import machine
from inspector.errors import ToolMissing, Unreadable, UsageError
from inspector.measure.time import child
from inspector.measure.time.child import Said, TimeWish
from inspector.measure.time.ranking import Race, RaceRow, ranked, rows_of
from inspector.measure.time.results import Timing
from inspector.measure.time.roofline import Peaks, peaks_of_device
from inspector.measure.time.take import data_sheet, peaks_of
from inspector.reader import tables
from inspector.system.process import Finished, run_tool
from inspector.text import plural

BUILDING_SECONDS = 300
"""Seconds that the import of a script, or a first call, may take: it may compile."""


def race(
    script: Path,
    sizes: Sequence[Mapping[str, int]],
    swept: str | None,
    wish: TimeWish,
    say: Callable[[str], None],
) -> Race:
    """Run what a script declares at each of the sizes.

    Raises ``ToolMissing`` without a GPU or torch, ``Unreadable`` where it declares nothing,
    ``UsageError`` where its input has no such size.
    """
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    python = child.interpreter(wish.python, [machine.interpreter(None)], machine.versions)
    declared = _declared(python, script)
    names, defaults = declared["variants"], declared["sizes"]
    assert isinstance(names, list) and isinstance(defaults, dict)
    parameters = declared["parameters"]
    assert isinstance(parameters, list)
    for name in sizes[0]:
        if name not in parameters:
            there = ", ".join(defaults) or "none"
            raise UsageError(f"{script}: inputs() has no parameter {name} (its sizes: {there})")
    launches: list[tuple[Said, bytes]] = [
        ({"kind": "variant", "script": str(script), "variant": name, "sizes": dict(size)}, b"")
        for size in sizes
        for name in names
    ]
    say(f"timing {plural(len(launches), 'variant')}, {wish.seconds:g} s each at most, by {python}")
    gathered = child.measure(python, launches, wish, _here, building=BUILDING_SECONDS)
    peaks = peaks_of(gathered.copies)
    rows: list[RaceRow] = []
    for number, size in enumerate(sizes):
        of_size: list[RaceRow] = []
        for n, name in enumerate(names, number * len(names)):
            bare = Timing(script.stem, str(name), number, None, None, kind="variant")
            of_size += rows_of(bare, size, gathered.rows.get(n, []), peaks)
        rows += ranked(of_size)
    sheet = peaks_by_sheet(gathered.device.get("name"))
    bandwidth = sheet.bandwidth / 1e9 if sheet and sheet.bandwidth else data_sheet(gathered.device)
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Race(
        taken, str(script), python, gathered.device, tuple(rows), peaks, bandwidth, swept, defaults
    )


def _here(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process in the current folder, as ``python script.py`` would run."""
    return run_tool(argv, seconds=seconds)


def _declared(python: str, script: Path) -> Said:
    """The variants, sizes and parameters that a script declares. Raises ``Unreadable``."""
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        job: Said = {"script": str(script)}
        limit = BUILDING_SECONDS
        end = child.run_child(python, "script", job, limit, Path(folder), limit, _here)
    if not end.records:
        raise Unreadable(f"the process that imports {script.name} ended early: {end.problem}")
    if "refused" in end.records[0]:
        raise Unreadable(f"{script}: {end.records[0]['refused']}")
    return end.records[0]


def peaks_by_sheet(device: object) -> Peaks | None:
    """The data sheet's peaks of a device by its name; None if there is no such sheet."""
    return peaks_of_device(device, tables.table("peaks"))
