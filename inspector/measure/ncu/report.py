"""The launches of a report of Nsight Compute (ncu); every figure is ncu's own."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from inspector.analyse.line_annotations import Samples, total
from inspector.base.errors import Unreadable

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Rule:
    """The result of one of ncu's rules for a launch.

    ``kind`` is ncu's (``OPT``, ``WRN``, ``INF``), ``speedup`` its estimate in percent of the
    launch's time (``scope`` ``global``) or of one part of the chip (``local``), None if it
    estimates nothing.
    """

    name: str
    kind: str
    text: str
    section: str = ""
    scope: str | None = None
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class MeasuredInstruction:
    """One instruction of the source page: its offset in bytes from the function's start, its text.

    ``samples`` is None if the report was made without sampling.
    """

    offset: int
    text: str
    samples: Samples | None = None


@dataclass(frozen=True, slots=True)
class NcuLaunch:
    """One profiled launch. Percentages are of the peak, of time in µs, clocks in GHz.

    ``number`` and ``process`` are ncu's, ``demangled`` the name as ncu prints it and ``function``
    the function's own in it. None is "the report does not say". ``base`` is the address that the
    first instruction had.
    """

    number: int
    function: str
    demangled: str
    process: str = ""
    block: Dim3 | None = None
    grid: Dim3 | None = None
    capability: str | None = None
    device: str | None = None
    duration_us: float | None = None
    compute_percent: float | None = None
    memory_percent: float | None = None
    registers: int | None = None
    achieved_occupancy: float | None = None
    theoretical_occupancy: float | None = None
    sm_ghz: float | None = None
    cycles: int | None = None
    rules: tuple[Rule, ...] = ()
    base: int = 0
    code: tuple[MeasuredInstruction, ...] = ()

    @property
    def speedup(self) -> float | None:
        """The largest estimated speed-up of the launch as a whole, in percent of its time.

        Rules of one part of the chip alone (``local``) say nothing of the launch's time.
        """
        estimates = [r.speedup for r in self.rules if r.scope == "global" and r.speedup is not None]
        return max(estimates, default=None)

    @property
    def improvement_us(self) -> float | None:
        """The time that this speed-up would save, in µs."""
        if self.speedup is None or self.duration_us is None:
            return None
        return self.duration_us * self.speedup / 100

    @property
    def samples(self) -> Samples | None:
        """All samples of the launch, None if nothing was sampled."""
        sampled = [i.samples for i in self.code if i.samples is not None]
        return total(sampled) if sampled else None


@dataclass(frozen=True, slots=True)
class Report:
    """The launches of a report in order, the pages that it was read from, and its problems."""

    launches: tuple[NcuLaunch, ...]
    pages: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def joined(reports: Iterable[Report]) -> Report:
    """Several reports as one."""
    all_reports = list(reports)
    return Report(
        tuple(launch for r in all_reports for launch in r.launches),
        tuple(dict.fromkeys(p for r in all_reports for p in r.pages)),
        tuple(dict.fromkeys(p for r in all_reports for p in r.problems)),
    )


@lru_cache(maxsize=4096)
def function_of(demangled: str) -> str:
    """``copy`` of ``void ns::copy<float, 4>(float const*, int)``; other names as they are."""
    out: list[str] = []
    depth = 0
    for position, letter in enumerate(demangled.replace("(anonymous namespace)", "{anonymous}")):
        if letter == "<":
            depth += 1
        elif letter == ">":
            depth -= 1
        elif letter == "(" and depth == 0 and position:
            break
        elif depth == 0:
            out.append(letter)
    return "".join(out).split("::")[-1].strip().rpartition(" ")[2] or demangled


STALLS = {
    "barrier": "other warps at a barrier",
    "branch_resolving": "a branch's target",
    "dispatch": "the dispatcher",
    "drain": "its stores to leave before it ends",
    "gmma": "tensor cores (warpgroup)",
    "imc": "the constant cache",
    "lg": "room in the queue of global memory",
    "long_sb": "global or local memory (long scoreboard)",
    "math": "a busy pipeline",
    "membar": "a memory barrier",
    "mio": "room in the queue of shared memory and special functions",
    "misc": "something else",
    "no_inst": "its next instruction to be fetched",
    "not_selected": "its turn (another warp was chosen)",
    "short_sb": "shared memory or a special function (short scoreboard)",
    "sleep": "its sleep to end",
    "tex": "room in the queue of textures",
    "wait": "a fixed number of cycles",
    "warpgroup_arrive": "its warpgroup",
}
"""What a stalled warp waits for, by the name of ncu's column without ``stall_``."""


def waits_for(reason: str) -> str:
    """What warps did on an instruction, in words; ncu's name if the reason is not known here."""
    return "issuing" if reason == "selected" else f"waiting for {STALLS.get(reason, reason)}"


# -- numbers --------------------------------------------------------------------------------------

_ENGLISH = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_FOREIGN = re.compile(r"[-+]?\d[\d.,'’\s]*")
# Units per µs and per GHz, without the "econd" that some versions of ncu write.
_MICROSECONDS = {"ns": 1e3, "us": 1.0, "µs": 1.0, "ms": 1e-3, "s": 1e-6}
_GIGAHERTZ = {
    "ghz": 1.0,
    "cycle/ns": 1.0,
    "mhz": 1e3,
    "cycle/us": 1e3,
    "khz": 1e6,
    "cycle/ms": 1e6,
    "hz": 1e9,
    "cycle/s": 1e9,
}


def number(text: str, name: str) -> float | None:
    """Return the value of a cell; None for no finite number (``nan``, ``no data``).

    Raises ``Unreadable`` for a number of another locale than English.
    """
    text = text.strip()
    if _ENGLISH.fullmatch(text):
        value = float(text.replace(",", ""))
        return value if math.isfinite(value) else None
    if _FOREIGN.fullmatch(text):
        raise Unreadable(f"{name} has the number {text}, which is not written in English", REMEDY)
    return None


# -- rows of a CSV --------------------------------------------------------------------------------
# The rows of a CSV that ncu wrote, amid what it and the program printed besides.

REMEDY = "Export it again: LC_ALL=C ncu --import report.ncu-rep --csv --page details > report.csv"
SASS_REMEDY = REMEDY.replace("details > report.csv", "source --print-source sass")
# ncu says so in its own lines before the header.
DENIED = "ERR_NVGPUCTRPERM"


class Page(StrEnum):
    """The pages of a report that can be exported as CSV."""

    RAW = "raw"
    DETAILS = "details"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the names of its columns, and its rows with their line numbers.

    ``title`` is the kernel's name before a table of the source page.
    """

    page: Page
    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]
    title: str = ""


def tables(text: str, name: str) -> list[Table]:
    """The tables of ``text``, which holds one page of a report or several, one after another.

    Raises ``Unreadable`` where it ends in the middle of a row, or is no report at all.
    """
    out: list[Table] = []
    title = ""
    for line, cells in _rows(text, name):
        page = _page(cells, name)
        if page is not None:
            out.append(Table(page, tuple(c.strip() for c in cells), [], title))
        elif cells[0] == "Kernel Name" and len(cells) in (2, 3):
            title = cells[1]
        elif out:
            out[-1].rows.append((line, cells))
    if not out:
        if DENIED in text:
            raise Unreadable(
                f"{name} holds no launch: ncu was not permitted to read the GPU's counters",
                "Profile again where that is allowed.",
            )
        raise Unreadable(f"{name} is not a CSV report of ncu", REMEDY)
    return out


def _page(cells: list[str], name: str) -> Page | None:
    """The page whose header a row is, None if it is not one.

    Raises ``Unreadable`` for a source page of anything but SASS.
    """
    # Headers begin with these; most rows are no headers, and are rejected quickly.
    if cells[0].strip() not in ("ID", "Address", "#", "Source"):
        return None
    names = {c.strip() for c in cells}
    if "Address" in names and "Source" in names:
        return Page.SOURCE
    if "Source" in names and "# Samples" in names:
        raise Unreadable(f"{name} has the source page of other lines than SASS", SASS_REMEDY)
    if cells[0].strip() != "ID" or not names & {"Kernel Name", "Function Name"}:
        return None
    return Page.DETAILS if {"Metric Name", "Metric Value"} <= names else Page.RAW


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of cells, each with the number of its first line.

    ncu quotes every cell, which tells its rows from what the program printed among them.
    """
    pending = ""
    first = 0
    for n, line in enumerate(text.lstrip("\ufeff").split("\n"), 1):
        if not pending:
            if not line.startswith('"'):
                continue
            first = n
        pending += line.removesuffix("\r") + "\n"
        if pending.count('"') % 2 == 0:
            with suppress(csv.Error):  # a cell of more than 128 KiB, which ncu does not write
                yield first, next(csv.reader([pending.removesuffix("\n")]))
            pending = ""
        elif n - first > MAX_ROW_LINES:
            break
    if pending:
        raise Unreadable(f"{name} is cut short, or damaged, in line {first}", REMEDY)


MAX_ROW_LINES = 1000
"""Lines of one row: the text of a rule has a few."""


# -- the source page ------------------------------------------------------------------------------
# Reads tables of ncu's source page: the machine code of a launch, with its samples.

ALL = (
    "Warp Stall Sampling (All Samples)",
    "Warp Stall Sampling (All Cycles)",
    "Sampling Data (All)",
    "# Samples",
)
NOT_ISSUED = (
    "Warp Stall Sampling (Not-issued Samples)",
    "Warp Stall Sampling (Not-issued Cycles)",
    "Sampling Data (Not Issued)",
)


def source(table: Table, number: int, name: str) -> NcuLaunch:
    """The code of one launch, with its samples; ``number`` is its place on the page.

    Raises ``Unreadable`` where a row is no instruction.
    """
    columns = table.columns
    address_column, text_column = columns.index("Address"), columns.index("Source")
    samples = _sampling(columns, name)
    rows: list[tuple[int, str, Samples | None]] = []
    for line, row in table.rows:
        address = row[address_column].strip() if len(row) == len(columns) else ""
        if not re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", address):
            raise Unreadable(
                f"{name} is cut short, or is not a page of SASS, in line {line}", SASS_REMEDY
            )
        rows.append((int(address, 16), row[text_column], samples(row)))
    if not rows:
        raise Unreadable(f"{name} has no instruction of {table.title or 'a kernel'}", REMEDY)
    base = min(address for address, _, _ in rows)
    code = tuple(MeasuredInstruction(a - base, t.strip(), s) for a, t, s in rows)
    title = table.title or "a kernel"
    return NcuLaunch(number, function_of(title), title, base=base, code=code)


def _sampling(columns: Sequence[str], name: str) -> Callable[[Sequence[str]], Samples | None]:
    """A function that reads the samples of a row, and returns None if the page has none."""
    all_column = next((columns.index(c) for c in ALL if c in columns), None)
    quiet_column = next((columns.index(c) for c in NOT_ISSUED if c in columns), None)
    stalls = {
        n: c.removeprefix("stall_")
        for n, c in enumerate(columns)
        if c.startswith("stall_") and "(" not in c
    }

    def count(cell: str) -> int:
        return 0 if cell == "0" else round(number(cell, name) or 0)

    def read(row: Sequence[str]) -> Samples | None:
        if all_column is None:
            return None
        counts = {reason: count(row[n]) for n, reason in stalls.items()}
        return Samples(
            count(row[all_column]),
            0 if quiet_column is None else count(row[quiet_column]),
            {reason: samples for reason, samples in counts.items() if samples},
        )

    return read


# The figures of a launch by ncu's names of metrics, the preferred ones first.
RAW = {
    "duration_us": ("gpu__time_duration.sum", "gpu__time_duration.max", "gpu__time_duration.avg"),
    "compute_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "memory_percent": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
    "registers": ("launch__registers_per_thread",),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "theoretical_occupancy": ("sm__maximum_warps_per_active_cycle_pct",),
    "sm_ghz": (
        "gpc__cycles_elapsed.avg.per_second",
        "smsp__cycles_elapsed.avg.per_second",
        "sm__cycles_elapsed.avg.per_second",
    ),
    "cycles": ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"),
}
# The same by the names of the details page; "Memory Throughput" is there twice, once in %.
DETAILS = {
    "Duration": "duration_us",
    "Compute (SM) Throughput": "compute_percent",
    "Memory Throughput": "memory_percent",
    "Registers Per Thread": "registers",
    "Achieved Occupancy": "achieved_occupancy",
    "Theoretical Occupancy": "theoretical_occupancy",
    "SM Frequency": "sm_ghz",
    "Elapsed Cycles": "cycles",
}
# With --metrics the details page has ncu's own names.
DETAILS |= {name: field for field, metrics in RAW.items() for name in metrics}
PERCENT = {"compute_percent", "memory_percent", "achieved_occupancy", "theoretical_occupancy"}
COUNTS = {"registers", "cycles"}
MAX_FIGURE = 1e300
_DIM = re.compile(r"\(?\s*(\d+)\s*[,x]\s*(\d+)\s*[,x]\s*(\d+)\s*\)?")
_UNIT = re.compile(r"((?:.*\S)?)\s*+\[([^\[\]]*+)\]\Z")

Key = tuple[str, str]


def read(text: str, name: str) -> Report:
    """The launches of one export, or of several pages one after another.

    Pages of one run complete each other; a page that comes again begins another report. Raises
    ``Unreadable`` where the text is no report of ncu, is cut short or holds no launch.
    """
    return together(tables(text, name), name)


def together(tables: Sequence[Table], name: str) -> Report:
    """The report that tables make; see ``read``."""
    launches: list[NcuLaunch] = []
    problems: list[str] = []
    for group in _groups(tables):
        launches += _of_group(group, name, problems)
    if not launches:
        raise Unreadable(f"{name} is a report of ncu without a launch", REMEDY)
    pages = tuple(dict.fromkeys(t.page.value for t in tables))
    return Report(tuple(launches), pages, tuple(dict.fromkeys(problems)))


def _groups(tables: Sequence[Table]) -> Iterator[list[Table]]:
    """Tables of one run: no page twice, but for the source page, a table a launch."""
    group: list[Table] = []
    for table in tables:
        seen = {t.page for t in group}
        again = table.page in seen and (
            table.page is not Page.SOURCE or group[-1].page is not Page.SOURCE
        )
        if again:
            yield group
            group = []
        group.append(table)
    if group:
        yield group


@dataclass(slots=True)
class _Found:
    """A launch with its figures and rules, as one page has them."""

    launch: NcuLaunch
    figures: dict[str, float]
    rules: list[Rule]


def _of_group(group: list[Table], name: str, problems: list[str]) -> list[NcuLaunch]:
    by_key: dict[Key, _Found] = {}
    blocks: list[NcuLaunch] = []
    for table in group:
        if table.page is Page.SOURCE:
            blocks.append(source(table, len(blocks), name))
            continue
        of_page: dict[Key, _Found] = {}
        (_raw if table.page is Page.RAW else _details)(table, of_page, name)
        for key, launch in of_page.items():
            earlier = by_key.setdefault(key, launch)
            if earlier is launch:
                continue
            if _shape(earlier.launch) != _shape(launch.launch):
                raise Unreadable(
                    f"the pages of {name} are of different runs: launch {key[1]} is "
                    f"{earlier.launch.function} in one, {launch.launch.function} in another",
                    "Export the pages of one report.",
                )
            # The raw page has more digits.
            first, then = (launch, earlier) if table.page is Page.RAW else (earlier, launch)
            earlier.figures = {**then.figures, **first.figures}
            earlier.rules = earlier.rules or launch.rules
            earlier.launch = replace(
                earlier.launch, device=earlier.launch.device or launch.launch.device
            )
    launches = [_whole(launch) for launch in by_key.values()]
    if not launches:
        return blocks
    return _with_code(launches, blocks, problems)


def _shape(launch: NcuLaunch) -> tuple[object, ...]:
    return launch.function, launch.block, launch.grid


def _whole(page_launch: _Found) -> NcuLaunch:
    figures: dict[str, object] = {
        k: round(v) if k in COUNTS else v for k, v in page_launch.figures.items()
    }
    return replace(page_launch.launch, rules=tuple(page_launch.rules), **figures)  # type: ignore[arg-type]


def _with_code(
    launches: list[NcuLaunch], blocks: list[NcuLaunch], problems: list[str]
) -> list[NcuLaunch]:
    """Launches with their code, by order: the source page does not number launches."""
    out = list(launches)
    for function in dict.fromkeys(b.function for b in blocks):
        own_blocks = [b for b in blocks if b.function == function]
        places = [n for n, launch in enumerate(out) if launch.function == function]
        if len(own_blocks) != len(places):
            problems.append(
                f"the source page has {len(own_blocks)} of {len(places)} launches of {function}: "
                "which they are is not known, and their samples are left out"
            )
            continue
        for n, block in zip(places, own_blocks, strict=True):
            out[n] = replace(out[n], base=block.base, code=block.code)
    return out


# -- raw ------------------------------------------------------------------------------------------


def _raw(table: Table, out: dict[Key, _Found], name: str) -> None:
    columns, units = _with_units(table.columns)
    rows = table.rows
    id_column = columns.index("ID")
    # The row below the header has the units, and no number.
    if rows and len(rows[0][1]) == len(columns) and not rows[0][1][id_column].strip():
        units = [unit_below or unit for unit, unit_below in zip(units, rows[0][1], strict=True)]
        rows = rows[1:]
    for line, row in rows:
        complete = len(row) == len(columns)
        launch = _identity(dict(zip(columns, row, strict=False)), complete, line, name)
        cells = {c: (v, u) for c, v, u in zip(columns, row, units, strict=True)}
        figures: dict[str, float] = {}
        for field, metrics in RAW.items():
            for metric in metrics:
                value = _figure(field, *cells.get(metric, ("", "")), name)
                if value is not None:
                    figures[field] = value
                    break
        device = cells.get("device__attribute_display_name", cells.get("Device Name", ("", "")))[0]
        launch = replace(launch, device=device or None)
        out[launch.process, str(launch.number)] = _Found(launch, figures, [])


def _with_units(columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names and units of columns; Nsight's interface writes ``Duration [us]`` into the header."""
    split = [_UNIT.match(c) for c in columns]
    names = [m[1] if m else c for m, c in zip(split, columns, strict=True)]
    return names, [m[2] if m else "" for m in split]


def _figure(field: str, text: str, unit: str, name: str) -> float | None:
    """A figure in the unit of its field; None if it is missing or of another unit."""
    value, unit = number(text, name), unit.strip().lower().replace("econd", "")
    scales = {"duration_us": _MICROSECONDS, "sm_ghz": _GIGAHERTZ}.get(field)
    if value is None or (field in PERCENT and unit not in ("%", "")):
        return None
    if scales is None:
        return value
    return value / scales[unit] if unit in scales and value < MAX_FIGURE else None


# -- details --------------------------------------------------------------------------------------


def _details(table: Table, out: dict[Key, _Found], name: str) -> None:
    columns = table.columns
    rows = [(line, row, dict(zip(columns, row, strict=False))) for line, row in table.rows]
    # ncu leaves out the columns of rules on the rows of metrics.
    fewest_cells = max(columns.index(column) for column in ("Metric Name", "Metric Value")) + 1
    for line, row, cells in rows:
        complete = fewest_cells <= len(row) <= len(columns)
        launch = _identity(cells, complete, line, name)
        page_launch = out.setdefault((launch.process, str(launch.number)), _Found(launch, {}, []))
        field = DETAILS.get(cells["Metric Name"])
        value = (
            None
            if field is None
            else _figure(field, cells["Metric Value"], cells.get("Metric Unit", ""), name)
        )
        if field is not None and value is not None:
            page_launch.figures.setdefault(field, value)
        if cells.get("Rule Name"):
            page_launch.rules.append(
                Rule(
                    cells["Rule Name"],
                    cells.get("Rule Type", ""),
                    " ".join(cells.get("Rule Description", "").split()),
                    cells.get("Section Name", ""),
                    cells.get("Estimated Speedup Type") or None,
                    number(cells.get("Estimated Speedup", ""), name),
                )
            )


def _identity(cells: Mapping[str, str], complete: bool, line: int, name: str) -> NcuLaunch:
    """The launch that a row is of.

    Raises ``Unreadable`` if the row is of no launch, or not ``complete``: it does not have the
    cells of the header above it.
    """
    number = cells.get("ID", "").strip()
    if not complete or not number.isdecimal() or len(number) > 18:
        raise Unreadable(f"{name} is cut short, or damaged, in line {line}", REMEDY)
    kernel_name = cells.get("Kernel Name") or cells.get("Function Name", "")
    demangled = cells.get("Demangled Name") or kernel_name
    return NcuLaunch(
        int(number),
        function_of(kernel_name),
        demangled,
        cells.get("Process ID", ""),
        _dim(cells.get("Block Size", "")),
        _dim(cells.get("Grid Size", "")),
        cells.get("CC") or None,
    )


def _dim(text: str) -> Dim3 | None:
    match = _DIM.match(text.strip())
    return (int(match[1]), int(match[2]), int(match[3])) if match else None
