"""Variants that a script declares: sizes of their input, and their times, ranked if they agree."""

import datetime
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from inspector.base.errors import ToolMissing, Unreadable, UsageError
from inspector.base.text import plural
from inspector.measure.time import take
from inspector.measure.time.planning import kernel_times
from inspector.measure.time.results import Session, Timing, median, numbers
from inspector.measure.time.take import Said, TimeWish, data_sheet, peaks_of, row
from inspector.reader import tables
from inspector.system import toolchain
from inspector.system.process import Finished, run_tool

HOW = (
    "Write N=256:12672:128 (first:last:step), N=256:16384:*2 (each twice the one before), or "
    "N=256,781,4096."
)
_RANGE = re.compile(r"([1-9]\d{0,17}):(\d{1,18}):(\*?)([1-9]\d{0,17})")
_SIZES = re.compile(r"[1-9]\d{0,17}(,[1-9]\d{0,17})*")
MAX_SIZES = 2000
GAP = 0.02
"""The part of a call's time that the device may wait without a remark."""
BUILDING_SECONDS = 300
"""Seconds that the import of a script, or a first call, may take: it may compile."""


def sweep(text: str, option: str = "--sweep") -> tuple[str, list[int]]:
    """Parse ``N=first:last:step``: a parameter and its values, ascending. Raises ``UsageError``."""
    name, _, values = text.replace(" ", "").partition("=")
    sizes: list[int] = []
    if limits := _RANGE.fullmatch(values):
        size, last, step = int(limits[1]), int(limits[2]), int(limits[4])
        while size <= last and len(sizes) <= MAX_SIZES and (not limits[3] or step > 1):
            sizes.append(size)
            size = size * step if limits[3] else size + step
    elif _SIZES.fullmatch(values):
        sizes = sorted({*map(int, values.split(","))})
    if not sizes or not name.isidentifier():
        raise UsageError(f"{option} {text} does not give sizes of a parameter of inputs()", HOW)
    if len(sizes) > MAX_SIZES:
        raise UsageError(f"{option} {text} has more than {MAX_SIZES:,} sizes")
    return name, sizes


def fixed(texts: Iterable[str]) -> dict[str, int]:
    """Parse parameters such as ``M=4096``. Raises ``UsageError``."""
    out = {}
    for text in texts:
        name, sizes = sweep(text, "--size")
        if len(sizes) > 1:
            raise UsageError(f"--size {text} is more than one size", "Write M=4096.")
        out[name] = sizes[0]
    return out


class RaceRow(Timing, frozen=True, kw_only=True):
    """One variant at one size by one stopwatch; ``call`` is the number of the size.

    ``agrees`` is None if it was not checked, ``difference`` the greatest absolute one from the
    reference, ``wrong`` why it disagrees. ``span_us`` is the median time from the first kernel's
    start to the last one's end. ``rank`` counts from 1 among those of one size that agree; rows
    whose intervals overlap share it. ``slower`` is the time as a multiple of the fastest's.
    """

    sizes: Mapping[str, int]
    dtypes: tuple[str, ...] = ()
    agrees: bool | None = None
    difference: float | None = None
    wrong: str | None = None
    span_us: float | None = None
    rank: int | None = None
    slower: float | None = None


class Race(Struct, frozen=True):
    """Variants that were timed together, in a ``session`` without rows of its own.

    ``swept`` is the size that was varied, ``defaults`` are those of ``inputs``.
    """

    session: Session
    script: str
    python: str
    swept: str | None
    variants: tuple[str, ...]
    rows: tuple[RaceRow, ...]
    defaults: Mapping[str, int | None]


def device_peaks(device: object) -> Mapping[str, float]:
    """Operations a second by unit, and ``memory_bandwidth``, by a device's data sheet; or empty."""
    for sheet in tables.table("peaks").values():
        if device in sheet["names"]:
            return {unit: peak for unit, peak in sheet.items() if isinstance(peak, float)}
    return {}


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
    if not toolchain.gpu_present():
        raise ToolMissing("timing needs an NVIDIA GPU; this machine has none")
    python = take.interpreter(wish.python, [toolchain.interpreter(None)], toolchain.versions)
    with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
        job: Said = {"script": str(script)}
        limit = BUILDING_SECONDS
        end = take.run_child(python, "script", job, limit, Path(folder), limit, _here)
    if not end.records:
        raise Unreadable(f"the process that imports {script.name} ended early: {end.problem}")
    if "refused" in end.records[0]:
        raise Unreadable(f"{script}: {end.records[0]['refused']}")
    declared: dict[str, Any] = end.records[0]
    names, defaults = declared["variants"], declared["sizes"]
    for name in sizes[0]:
        if name not in declared["parameters"]:
            there = ", ".join(defaults) or "none"
            raise UsageError(f"{script}: inputs() has no parameter {name} (its sizes: {there})")
    launches: list[tuple[Said, bytes]] = [
        ({"kind": "variant", "script": str(script), "variant": name, "sizes": size}, b"")
        for size in sizes
        for name in names
    ]
    say(f"timing {plural(len(launches), 'variant')}, {wish.seconds:g} s each at most, by {python}")
    gathered = take.measure(python, launches, wish, _here, building=BUILDING_SECONDS)
    bandwidth = device_peaks(gathered.device.get("name")).get("memory_bandwidth")
    session = Session(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        gathered.device,
        (),
        peaks_of(gathered.copies),
        bandwidth / 1e9 if bandwidth else data_sheet(gathered.device),
    )
    rows: list[RaceRow] = []
    for number, size in enumerate(sizes):
        of_size: list[RaceRow] = []
        for n, name in enumerate(names, number * len(names)):
            bare = Timing(script.stem, name, number, kind="variant")
            of_size += _rows(bare, size, gathered.rows.get(n, []), session)
        rows += _ranked(of_size)
    return Race(session, str(script), python, swept, tuple(names), tuple(rows), defaults)


def _here(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process in the current folder, as ``python script.py`` would run."""
    return run_tool(argv, seconds=seconds)


def _rows(
    bare: Timing, sizes: Mapping[str, int], answers: Sequence[Said], session: Session
) -> Iterator[RaceRow]:
    """A row for each stopwatch from the child's ``answers`` about one variant at one size."""
    merged: dict[str, Any] = {key: value for a in answers for key, value in a.items()}
    about, checked = merged.get("about", {"dtypes": []}), merged.get("checked", {})
    given: dict[str, Any] = {"inputs": about.get("inputs", "")}
    for name in ("bytes", "flops"):
        if about.get(name) is not None:
            given |= {name: about[name], f"{name}_from": "script"}
    times = [a for a in answers if "stopwatch" in a]
    for answer in times or [{"error": "it was not run"}]:
        span = median(numbers(answer.get("span")))
        own = {
            "kernels": kernel_times(answer.get("kernels"), (), (), None),
            "sizes": sizes,
            "dtypes": tuple(about["dtypes"]),
            "agrees": checked.get("agrees"),
            "difference": checked.get("difference"),
            "wrong": checked.get("why"),
            "span_us": None if span is None else span.value,
        }
        yield RaceRow(**asdict(row(replace(bare, **given), answer, session.peaks)) | own)


def _ranked(rows: Sequence[RaceRow]) -> list[RaceRow]:
    """Rows of one size in the same order with their ranks, for each stopwatch separately."""
    out = list(rows)
    for watch in dict.fromkeys(r.stopwatch for r in rows):
        able = [n for n, r in enumerate(rows) if r.stopwatch == watch and r.agrees and r.median_us]
        able.sort(key=lambda n: rows[n].median_us or 0.0)
        edge, rank = -1.0, 0
        for place, n in enumerate(able, 1):
            time = rows[n].median_us or 0.0
            if (rows[n].low_us or time) > edge:
                edge, rank = rows[n].high_us or time, place
            out[n] = replace(rows[n], rank=rank, slower=time / (rows[able[0]].median_us or time))
    return out
