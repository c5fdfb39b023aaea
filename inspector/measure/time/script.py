"""Takes the times of a script's variants, and puts them beside the device's limits."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from inspector import files
from inspector.capture import machine
from inspector.errors import ToolMissing, Unreadable
from inspector.measure.profile.names import short_name
from inspector.measure.time import child, racing
from inspector.measure.time.racing import Task
from inspector.measure.time.ranking import Race, RaceRow, peaks_of, rows_of
from inspector.measure.time.results import STOPWATCHES, Session
from inspector.measure.time.roofline import UNITS, Peaks, Spot, dtypes_in
from inspector.measure.time.roofline import peaks_of as sheet_of
from inspector.measure.time.take import data_sheet
from inspector.names import base_name
from inspector.reader import tables
from inspector.report.comparison import name_of
from inspector.report.plots import Figure, figure
from inspector.system.process import Finished, run_tool

# Between two words on how far it is, in seconds.
NEWS = 5.0


@dataclass(frozen=True, slots=True)
class RaceWish:
    """How to take times, as in ``timing.Wish``."""

    stopwatch: str = "cupti"
    cache: str = "cold"
    seconds: float = 2.0
    limit: float = 60.0
    python: str | None = None

    @property
    def stopwatches(self) -> tuple[str, ...]:
        """The stopwatches by name."""
        return STOPWATCHES if self.stopwatch == "all" else (self.stopwatch,)


def race(
    script: Path, sizes: Sequence[dict[str, int]], swept: str | None, wish: RaceWish,
    say: Callable[[str], None],
) -> Race:  # fmt: skip
    """Run what a script declares at each of the sizes.

    Raises ``ToolMissing`` without a GPU or torch, ``Unreadable`` where it declares nothing.
    """
    if not machine.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU, and there is none on this machine")
    python = child.interpreter(wish.python, [machine.interpreter(None)], machine.versions)
    task = Task(script, sizes, wish.stopwatches, wish.cache, wish.seconds, wish.limit)
    what = f"{script.name} at {len(sizes)} sizes" if len(sizes) > 1 else script.name
    say(f"comparing the variants of {what}, {wish.seconds:g} s each at most, under {python}")
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
    """A child process that runs where the user stands, with a word on how far it is."""
    results = Path(argv[-1])
    read, done, last = 0, 0, time.monotonic()

    def go_on() -> bool:
        nonlocal read, done, last
        try:
            new = files.after(results, read)
        except Unreadable:
            return True
        read += len(new)
        done += new.count(b'{"end"')
        if time.monotonic() - last > NEWS:
            last = time.monotonic()
            say(f"{done} variant{'s' * (done != 1)} done")
        return True

    return run_tool(argv, seconds=seconds, go_on=go_on)


def peaks_by_sheet(device: object) -> Peaks | None:
    """What the data sheet of a device of that name promises."""
    return sheet_of(device, tables.table("peaks"))


def _bandwidth(device: child.Said) -> float | None:
    sheet = peaks_by_sheet(device.get("name"))
    return sheet.bandwidth / 1e9 if sheet and sheet.bandwidth else data_sheet(device)


def ridge(found: Race) -> float | None:
    """How many operations a byte the device can do while it moves one, for the inputs' dtypes."""
    sheet = peaks_by_sheet(found.device.get("name"))
    if sheet is None or not sheet.bandwidth or not found.rows:
        return None
    units = [u for d in found.rows[-1].dtypes for u in UNITS.get(d, ())]
    known = [sheet.flops[u] for u in units if u in sheet.flops]
    return max(known) / sheet.bandwidth if known else None


def roofline(found: Race) -> Figure | None:
    """The variants that agree, of the largest size, under the device's roofs."""
    last = max((r.timing.call for r in found.rows), default=0)
    rows = [r for r in found.rows if r.timing.call == last and r.rank is not None]
    watch = rows[0].timing.stopwatch if rows else None
    spots = [_spot(r) for r in rows if r.timing.stopwatch == watch]
    peak = next((p for p in found.peaks if p.stopwatch == watch), None)
    sheet = found.data_sheet_gb_per_s
    inputs = rows[0].timing.inputs if rows else ""
    return figure(
        f"{name_of(found.script)}, {inputs}",
        [s for s in spots if s is not None],
        peak.gb_per_s * 1e9 if peak is not None else None,
        sheet * 1e9 if sheet is not None else None,
        peaks_by_sheet(found.device.get("name")),
        rows[0].dtypes if rows else (),
    )


def _spot(row: RaceRow) -> Spot | None:
    timing = row.timing
    return Spot.of(timing.variant, timing.median_us, timing.bytes, timing.flops)


def session_roofline(session: Session, name: str) -> Figure | None:
    """Recorded launches that were timed, by the first stopwatch, under the device's roofs."""
    watch = next((t.stopwatch for t in session.rows if t.stopwatch), None)
    rows = [t for t in session.rows if t.stopwatch == watch]
    spots = [
        Spot.of(f"{short_name(base_name(t.kernel))} {t.variant} {t.inputs}".strip(), t.median_us,
                t.bytes, t.flops)
        for t in rows
    ]  # fmt: skip
    peak = next((p for p in session.peaks if p.stopwatch == watch), None)
    sheet = peaks_by_sheet(session.device.get("name"))
    known = session.data_sheet_gb_per_s
    band = known * 1e9 if known is not None else sheet.bandwidth if sheet else None
    estimated = any("estimate" in (t.bytes_from, t.flops_from) for t in rows)
    return figure(
        f"{name}; bytes and operations are estimates" if estimated else name,
        [s for s in spots if s is not None],
        peak.gb_per_s * 1e9 if peak is not None else None,
        band,
        sheet,
        list(dict.fromkeys(d for t in rows for d in dtypes_in(t.inputs))),
    )
