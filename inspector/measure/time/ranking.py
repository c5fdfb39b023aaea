"""Variants that a script declares: sizes of their input, and their times, ranked if they agree."""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.base.errors import ToolMissing, Unreadable, UsageError
from inspector.base.text import plural
from inspector.measure.time import take
from inspector.measure.time.planning import kernel_times
from inspector.measure.time.results import Peak, Timing, median, numbers
from inspector.measure.time.take import Said, TimeWish, data_sheet, peaks_of, row
from inspector.reader import tables
from inspector.system import toolchain
from inspector.system.process import Finished, run_tool

# A dtype as torch names it: the units that compute with it, by the data sheet's peaks.
UNITS = {
    "float64": ("fp64", "fp64_tensor"),
    "float32": ("fp32", "tf32_tensor"),
    "float16": ("fp32", "fp16_tensor"),
    "bfloat16": ("fp32", "bf16_tensor"),
    "float8_e4m3fn": ("fp32", "fp8_tensor"),
    "float8_e5m2": ("fp32", "fp8_tensor"),
}
TITLES = {
    "fp64": "fp64",
    "fp64_tensor": "fp64 tensor cores",
    "fp32": "fp32",
    "tf32_tensor": "tf32 tensor cores",
    "fp16_tensor": "fp16 tensor cores",
    "bf16_tensor": "bf16 tensor cores",
    "fp8_tensor": "fp8 tensor cores",
}


class Peaks(Struct, frozen=True):
    """A device's peaks by its data sheet: bytes per second, and operations per second by unit."""

    name: str
    bandwidth: float | None
    flops: Mapping[str, float]
    source: str


class Spot(Struct, frozen=True):
    """One call: ``intensity`` in operations a byte, ``flops`` in operations a second."""

    name: str
    intensity: float
    flops: float

    @classmethod
    def of(cls, name: str, us: float | None, moved: int | None, done: int | None) -> Spot | None:
        """A call's spot; None if its time, bytes or operations are not known or none."""
        if not us or not moved or not done:
            return None
        return cls(name, done / moved, done / us * 1e6)


def peaks_by_sheet(device: object) -> Peaks | None:
    for sheet in tables.table("peaks").values():
        if isinstance(sheet, Mapping) and device in (sheet.get("names") or ()):
            bandwidth = sheet.get("memory_bandwidth")
            rate = float(bandwidth) if isinstance(bandwidth, int | float) else None
            flops = {unit: float(sheet[unit]) for unit in TITLES if unit in sheet}
            return Peaks(str(device), rate, flops, str(sheet.get("source", "")))
    return None


def dtypes_in(words: str) -> list[str]:
    """The dtypes that inputs in words name: ``float32 1823×781, int64 16``."""
    return [d for d in UNITS if re.search(rf"\b{d}\b", words)]


HOW = (
    "Write N=256:12672:128 (first:last:step), N=256:16384:*2 (each twice the one before), or "
    "N=256,781,4096."
)
_RANGE = re.compile(r"([1-9]\d{0,17}):(\d{1,18}):(\*?)([1-9]\d{0,17})")
_SIZE = re.compile(r"[1-9]\d{0,17}")
MAX_SIZES = 2000
GAP = 0.02
"""The part of a call's time that the device may wait without a remark."""


def sweep(text: str) -> tuple[str, list[int]]:
    """Parse ``N=first:last:step``: a parameter and its values, ascending. Raises ``UsageError``."""
    name, values = _named(text, "--sweep")
    sizes: list[int] = []
    if limits := _RANGE.fullmatch(values):
        size, last, step = int(limits[1]), int(limits[2]), int(limits[4])
        while size <= last and len(sizes) <= MAX_SIZES and (not limits[3] or step > 1):
            sizes.append(size)
            size = size * step if limits[3] else size + step
    else:
        parts = [part.strip() for part in values.split(",")]
        sizes = [int(p) for p in parts] if all(map(_SIZE.fullmatch, parts)) else []
    if not sizes:
        raise UsageError(f"--sweep {text}: {values or 'nothing'} is not a range of sizes", HOW)
    if len(sizes) > MAX_SIZES:
        raise UsageError(f"--sweep {text} has more than {MAX_SIZES:,} sizes")
    return name, sorted(set(sizes))


def fixed(texts: Iterable[str]) -> dict[str, int]:
    """Parse parameters such as ``M=4096``. Raises ``UsageError``."""
    out = {}
    for text in texts:
        name, value = _named(text, "--size")
        if not _SIZE.fullmatch(value):
            raise UsageError(f"--size {text}: {value or 'nothing'} is not a size", "Write M=4096.")
        out[name] = int(value)
    return out


def _named(text: str, option: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name.isidentifier():
        raise UsageError(f"{option} {text}: it does not name a parameter of inputs()", HOW)
    return name, value


class RaceRow(Struct, frozen=True):
    """One variant at one size by one stopwatch.

    ``timing`` has the script's and the variant's name and the number of the size. ``agrees`` is
    None if it was not checked, ``difference`` the greatest absolute one from the reference,
    ``wrong`` why it disagrees. ``span_us`` is the median time from the first kernel's start to the
    last one's end. ``rank`` counts from 1 among those of one size that agree; rows whose intervals
    overlap share it. ``slower`` is the time as a multiple of the fastest's.
    """

    timing: Timing
    sizes: Mapping[str, int]
    dtypes: tuple[str, ...] = ()
    agrees: bool | None = None
    difference: float | None = None
    wrong: str | None = None
    span_us: float | None = None
    rank: int | None = None
    slower: float | None = None

    @property
    def gaps(self) -> bool:
        """Whether the device waited within a call for more than ``GAP`` of its time."""
        time, span = self.timing.median_us, self.span_us
        return span is not None and time is not None and span > time * (1 + GAP)


class Race(Struct, frozen=True):
    """Variants that were timed together. ``swept`` is the size that was varied."""

    taken: str
    script: str
    python: str
    device: Mapping[str, object]
    rows: tuple[RaceRow, ...]
    peaks: tuple[Peak, ...] = ()
    data_sheet_gb_per_s: float | None = None
    swept: str | None = None
    defaults: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.timing.variant for r in self.rows))


def rows_of(
    bare: Timing, sizes: Mapping[str, int], answers: Sequence[Said], peaks: tuple[Peak, ...]
) -> Iterator[RaceRow]:
    about, checked = (
        next((found for a in answers if isinstance(found := a.get(kind), dict)), {})
        for kind in ("about", "checked")
    )
    given: dict[str, Any] = {"inputs": str(about.get("inputs", ""))}
    for name in ("bytes", "flops"):
        if about.get(name) is not None:
            given |= {name: about[name], f"{name}_from": "script"}
    bare = replace(bare, **given)
    verdict = RaceRow(
        bare,
        dict(sizes),
        tuple(about.get("dtypes", ())),
        checked.get("agrees"),
        checked.get("difference"),
        checked.get("why"),
    )
    times = [a for a in answers if "about" not in a and "checked" not in a]
    for answer in times or [{"error": "it was not run"}]:
        kernels = kernel_times(answer.get("kernels"), (), (), None)
        timing = replace(row(bare, answer, peaks), kernels=kernels)
        span = median(numbers(answer.get("span")))
        yield replace(verdict, timing=timing, span_us=None if span is None else span.value)


def ranked(rows: Sequence[RaceRow]) -> list[RaceRow]:
    """Rows of one size in the same order with their ranks, for each stopwatch separately."""
    order: dict[int, RaceRow] = {}
    for watch in dict.fromkeys(r.timing.stopwatch for r in rows):
        able = sorted(
            (r.timing.median_us, n)
            for n, r in enumerate(rows)
            if r.timing.stopwatch == watch and r.agrees and r.timing.median_us
        )
        best, rank = None, 0
        for place, (time, n) in enumerate(able, 1):
            if best is None or not _overlap(best.timing, rows[n].timing):
                best, rank = rows[n], place
            order[n] = replace(rows[n], rank=rank, slower=time / able[0][0])
    return [order.get(n, row) for n, row in enumerate(rows)]


def _overlap(a: Timing, b: Timing) -> bool:
    if a.high_us is None or b.low_us is None:
        return a.median_us == b.median_us
    return b.low_us <= a.high_us


def best_first(rows: Iterable[RaceRow]) -> list[RaceRow]:
    """Ranked rows in their order, then wrong ones, then those that failed."""
    return sorted(
        rows, key=lambda r: (r.rank is None, r.timing.median_us is None, r.timing.median_us or 0.0)
    )


# -- running a script ------------------------------------------------------------------------------


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
    names, defaults, parameters = (declared[k] for k in ("variants", "sizes", "parameters"))
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
    gathered = take.measure(python, launches, wish, _here, building=BUILDING_SECONDS)
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
    device, made = gathered.device, tuple(rows)
    return Race(taken, str(script), python, device, made, peaks, bandwidth, swept, defaults)


def _here(argv: Sequence[str], seconds: float, folder: Path) -> Finished:
    """Run a child process in the current folder, as ``python script.py`` would run."""
    return run_tool(argv, seconds=seconds)
