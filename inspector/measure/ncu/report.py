"""Reports of Nsight Compute (ncu): found, exported by ncu, read; every figure is ncu's own.

Only English CSV exports are read, as ``LC_ALL=C ncu --csv`` writes them: the pages raw, details and
source, known by their headers.

One module because what ncu is asked to export is what is read.
"""

import csv
import datetime
import hashlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from inspector.analysis.line_annotations import Samples, total
from inspector.base.errors import PtxviewError, ToolMissing, Unreadable
from inspector.base.model import (
    KERNEL_STAGES,
    Call,
    Kernel,
    Origin,
    Recording,
    Resources,
    Stage,
    StageFile,
    Variant,
)
from inspector.base.names import shortest_ids
from inspector.recording.layout import (
    NCU_REPORTS,
    BytesContent,
    is_recording,
    store_record,
    stored_records,
)
from inspector.system import files
from inspector.system.process import run_tool
from inspector.system.toolchain import find

Dim3 = tuple[int, int, int]


class Rule(Struct, frozen=True):
    """The result of one of ncu's rules for a launch.

    ``kind`` is ncu's (``OPT``, ``WRN``, ``INF``), ``speedup`` its estimate in percent of the
    launch's time (``scope`` ``global``) or of one part of the chip (``local``).
    """

    name: str
    kind: str
    text: str
    section: str = ""
    scope: str | None = None
    speedup: float | None = None


class MeasuredInstruction(Struct, frozen=True):
    """One instruction of the source page: its offset in bytes from the function's start, its text.

    ``samples`` is None if the report was made without sampling.
    """

    offset: int
    text: str
    samples: Samples | None = None


class NcuLaunch(Struct, frozen=True):
    """One profiled launch. Percentages are of the peak.

    ``number`` and ``process`` are ncu's, ``demangled`` the name as ncu prints it and ``function``
    the function's own in it. None is "the report does not say". ``base`` is the address of the
    first instruction.
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
        """The largest estimated speed-up of the launch as a whole, in percent of its time."""
        estimates = [r.speedup for r in self.rules if r.scope == "global" and r.speedup is not None]
        return max(estimates, default=None)

    @property
    def improvement_us(self) -> float | None:
        if self.speedup is None or self.duration_us is None:
            return None
        return self.duration_us * self.speedup / 100

    @property
    def samples(self) -> Samples | None:
        sampled = [i.samples for i in self.code if i.samples is not None]
        return total(sampled) if sampled else None


class Report(Struct, frozen=True):
    launches: tuple[NcuLaunch, ...]
    pages: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def function_of(demangled: str) -> str:
    """``copy`` of ``void ns::copy<float, 4>(float const*, int)``; other names as they are."""
    name = ""
    depth = 0
    for letter in demangled.replace("(anonymous namespace)", "{anonymous}"):
        if letter == "(" and depth == 0 and name:
            break
        depth -= letter == ">"
        if depth == 0 and letter not in "<>":
            name += letter
        depth += letter == "<"
    return name.split("::")[-1].strip().rpartition(" ")[2] or demangled


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

REMEDY = "Export it again: LC_ALL=C ncu --import report.ncu-rep --csv --page details > report.csv"
SASS_REMEDY = REMEDY.replace("details > report.csv", "source --print-source sass")
MAX_FIGURE = 1e300
_ENGLISH = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
_FOREIGN = re.compile(r"[-+]?\d[\d.,'’\s]*")
_TIMES = {"ns": 1e3, "us": 1.0, "µs": 1.0, "ms": 1e-3, "s": 1e-6}
_CYCLES = {f"cycle/{unit}": 1e3 / per_us for unit, per_us in _TIMES.items()}
_RATES = {"ghz": 1.0, "mhz": 1e3, "khz": 1e6, "hz": 1e9} | _CYCLES
_PERCENT = {"%": 1.0, "": 1.0}
_UNITS = {
    "duration_us": _TIMES,
    "sm_ghz": _RATES,
    "compute_percent": _PERCENT,
    "memory_percent": _PERCENT,
    "achieved_occupancy": _PERCENT,
    "theoretical_occupancy": _PERCENT,
}
"""Units per µs, per GHz and per percent, without the "econd" that some versions of ncu write."""


def number(text: str, name: str) -> float | None:
    """Return the value of a cell; None for no finite number (``nan``, ``no data``).

    Raises ``Unreadable`` for a number of another locale than English.
    """
    text = text.strip()
    if _ENGLISH.fullmatch(text):
        value = float(text.replace(",", ""))
        return value if abs(value) < MAX_FIGURE else None
    if _FOREIGN.fullmatch(text):
        raise Unreadable(f"{name} has the number {text}, which is not written in English", REMEDY)
    return None


def _figure(field: str, text: str, unit: str, name: str) -> float | None:
    """A figure in the unit of its field; None if it is missing or of another unit."""
    value = number(text, name)
    if value is None or field not in _UNITS:
        return None if value is None else round(value)
    scale = _UNITS[field].get(unit.strip().lower().replace("econd", ""))
    return None if scale is None else value / scale


# -- tables of a CSV that ncu wrote, amid what it and the program printed besides -----------------

COUNTERS = "ERR_NVGPUCTRPERM"
"""ncu's error, before any header, if the driver reserves the GPU's counters for administrators."""
RAW = "raw"
DETAILS = "details"
SOURCE = "source"


class Table(Struct, frozen=True):
    """One table: its page, the names of its columns, its rows with their line numbers.

    ``title`` is the kernel's name before a table of the source page.
    """

    page: str
    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]
    title: str = ""


def tables(text: str, name: str) -> list[Table]:
    """The tables of ``text``, which holds one page of a report or several, one after another.

    Raises ``Unreadable`` where it ends in the middle of a row, is no report at all, or has a
    source page of anything but SASS.
    """
    out: list[Table] = []
    title = ""
    for line, cells in _rows(text, name):
        columns = tuple(cell.strip() for cell in cells)
        names = set(columns)
        if {"Address", "Source"} <= names:
            out.append(Table(SOURCE, columns, [], title))
        elif {"Source", "# Samples"} <= names:
            raise Unreadable(f"{name} has the source page of other lines than SASS", SASS_REMEDY)
        elif "ID" in names and names & {"Kernel Name", "Function Name"}:
            page = DETAILS if {"Metric Name", "Metric Value"} <= names else RAW
            out.append(Table(page, columns, []))
        elif cells[0] == "Kernel Name" and len(cells) in (2, 3):
            title = cells[1]
        elif out:
            out[-1].rows.append((line, cells))
    if not out and COUNTERS in text:
        raise Unreadable(
            f"{name} holds no launch: ncu was not permitted to read the GPU's counters",
            "Profile again where that is allowed.",
        )
    if not out:
        raise Unreadable(f"{name} is not a CSV report of ncu", REMEDY)
    return out


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of cells, each with the number of its last line.

    ncu quotes every cell, which tells its rows from what the program printed among them.
    """

    def quoted() -> Iterator[str]:
        inside = False
        for line in io.StringIO(text.lstrip("\ufeff"), newline=""):
            inside_or_row = inside or line.startswith('"')
            yield line if inside_or_row else "\n"
            inside = inside_or_row and inside != (line.count('"') % 2 == 1)
        if inside:
            raise csv.Error

    reader = csv.reader(quoted())
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error:
        raise _cut(name, reader.line_num) from None


def _cut(name: str, line: int) -> Unreadable:
    return Unreadable(f"{name} is cut short, or damaged, in line {line}", REMEDY)


# -- the source page: the machine code of a launch, with its samples ------------------------------

_STALL = "Warp Stall Sampling "
ALL = (f"{_STALL}(All Samples)", f"{_STALL}(All Cycles)", "Sampling Data (All)", "# Samples")
NOT_ISSUED = (
    *(f"{_STALL}(Not-issued Samples)", f"{_STALL}(Not-issued Cycles)"),
    "Sampling Data (Not Issued)",
)


def source(table: Table, number: int, name: str) -> NcuLaunch:
    """The code of one launch, with its samples; ``number`` is its place on the page.

    Raises ``Unreadable`` where a row is no instruction.
    """
    instructions: list[tuple[int, str, Samples | None]] = []
    for line, row in table.rows:
        cells = dict(zip(table.columns, row, strict=False))
        address = cells.get("Address", "").strip()
        if len(row) != len(table.columns) or not re.fullmatch(r"(?:0x)?[0-9a-fA-F]+", address):
            raise Unreadable(
                f"{name} is cut short, or is not a page of SASS, in line {line}", SASS_REMEDY
            )
        instructions.append((int(address, 16), cells["Source"].strip(), _samples(cells, name)))
    title = table.title or "a kernel"
    if not instructions:
        raise Unreadable(f"{name} has no instruction of {title}", REMEDY)
    base = min(address for address, _, _ in instructions)
    code = tuple(MeasuredInstruction(a - base, text, samples) for a, text, samples in instructions)
    return NcuLaunch(number, function_of(title), title, base=base, code=code)


def _samples(cells: Mapping[str, str], name: str) -> Samples | None:
    def count(columns: Iterable[str]) -> int | None:
        cell = next((cells[c] for c in columns if c in cells), None)
        return None if cell is None else round(number(cell, name) or 0)

    if (all_samples := count(ALL)) is None:
        return None
    reasons = [c for c in cells if c.startswith("stall_") and "(" not in c and cells[c] != "0"]
    stalls = {reason.removeprefix("stall_"): count([reason]) or 0 for reason in reasons}
    return Samples(
        all_samples, count(NOT_ISSUED) or 0, {reason: n for reason, n in stalls.items() if n}
    )


# -- launches -------------------------------------------------------------------------------------

METRICS = {
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
"""The figures of a launch by ncu's names of metrics, the preferred ones first."""
# "Memory Throughput" is there twice, once in %. With --metrics there are ncu's own names.
ON_DETAILS = {
    "Duration": "duration_us",
    "Compute (SM) Throughput": "compute_percent",
    "Memory Throughput": "memory_percent",
    "Registers Per Thread": "registers",
    "Achieved Occupancy": "achieved_occupancy",
    "Theoretical Occupancy": "theoretical_occupancy",
    "SM Frequency": "sm_ghz",
    "Elapsed Cycles": "cycles",
    **{name: field for field, metrics in METRICS.items() for name in metrics},
}
_DIM = re.compile(r"\s*+(?:\(\s*+)?(\d+)\s*+[,x]\s*+(\d+)\s*+[,x]\s*+(\d+)")

Fields = dict[str, Any]
"""What a page says of a launch, by the fields of ``NcuLaunch``."""
FieldsByLaunch = dict[tuple[str, int], Fields]
"""Launches of a page by process and number."""


def read(text: str, name: str) -> Report:
    """The launches of one export, or of several pages one after another.

    Pages of one run complete each other; a page that comes again begins another report. Raises
    ``Unreadable`` where the text is no report of ncu, is cut short or holds no launch.
    """
    return _merge_tables(tables(text, name), name)


def _merge_tables(tables: Sequence[Table], name: str) -> Report:
    # A run has no page twice, but for the source page, which has a table a launch.
    groups: list[list[Table]] = [[]]
    for table in tables:
        follows = groups[-1] and groups[-1][-1].page == table.page == SOURCE
        if not follows and table.page in {t.page for t in groups[-1]}:
            groups.append([])
        groups[-1].append(table)
    problems: list[str] = []
    launches = [launch for group in groups for launch in _of_group(group, name, problems)]
    if not launches:
        raise Unreadable(f"{name} is a report of ncu without a launch", REMEDY)
    pages = tuple(dict.fromkeys(t.page for t in tables))
    return Report(tuple(launches), pages, tuple(dict.fromkeys(problems)))


def _of_group(group: list[Table], name: str, problems: list[str]) -> list[NcuLaunch]:
    """The launches of one run, by its pages."""
    fields_by_launch = _merged_fields(group, name)
    sources = [table for table in group if table.page == SOURCE]
    coded = [source(table, n, name) for n, table in enumerate(sources)]
    if not fields_by_launch:
        return coded
    _add_code(fields_by_launch, coded, problems)
    return [NcuLaunch(**fields) for fields in fields_by_launch.values()]


def _merged_fields(group: Iterable[Table], name: str) -> FieldsByLaunch:
    """What all pages but the source page say of each launch; the raw page has more digits."""
    fields_by_launch: FieldsByLaunch = {}
    for table in sorted(group, key=lambda table: table.page == RAW):
        if table.page == SOURCE:
            continue
        for key, new in (_raw if table.page == RAW else _details)(table, name).items():
            old = fields_by_launch.setdefault(key, new)
            if any(old[part] != new[part] for part in ("function", "block", "grid")):
                raise Unreadable(
                    f"the pages of {name} are of different runs: launch {key[1]} is "
                    f"{old['function']} in one, {new['function']} in another",
                    "Export the pages of one report.",
                )
            old.update(new)
    return fields_by_launch


def _add_code(
    fields_by_launch: FieldsByLaunch, coded: Sequence[NcuLaunch], problems: list[str]
) -> None:
    """Add the machine code of the source pages to the launches.

    That page does not number launches: those of one function are in their order.
    """
    for function in dict.fromkeys(coded_launch.function for coded_launch in coded):
        same_function = [
            coded_launch for coded_launch in coded if coded_launch.function == function
        ]
        launches = [
            fields for fields in fields_by_launch.values() if fields["function"] == function
        ]
        if len(same_function) != len(launches):
            problems.append(
                f"the source page has {len(same_function)} of {len(launches)} launches of "
                f"{function}: which they are is not known, and their samples are left out"
            )
            continue
        for fields, coded_launch in zip(launches, same_function, strict=True):
            fields.update(base=coded_launch.base, code=coded_launch.code)


def _raw(table: Table, name: str) -> FieldsByLaunch:
    # Nsight's interface writes ``Duration [us]`` into the header, ncu units into the row below.
    split = [column.removesuffix("]").partition(" [") for column in table.columns]
    columns = [column for column, _, _ in split]
    units = {column: unit for column, _, unit in split}
    out: FieldsByLaunch = {}
    for line, row in table.rows:
        cells = dict(zip(columns, row, strict=False))
        if len(row) == len(columns) and line == table.rows[0][0] and not cells["ID"].strip():
            units = {c: unit or units[c] for c, unit in cells.items()}
            continue
        fields = _launch(cells, len(row) == len(columns), line, name)
        fields.update(_metrics(cells, units, name))
        if device := cells.get("device__attribute_display_name", cells.get("Device Name")):
            fields["device"] = device
        out[fields["process"], fields["number"]] = fields
    return out


def _metrics(cells: Mapping[str, str], units: Mapping[str, str], name: str) -> Fields:
    """The figures of one launch: of each the first of its metrics that the row has a number of."""
    fields: Fields = {}
    for field, metrics in METRICS.items():
        figures = (_figure(field, cells[m], units[m], name) for m in metrics if m in cells)
        value = next((figure for figure in figures if figure is not None), None)
        if value is not None:
            fields[field] = value
    return fields


def _details(table: Table, name: str) -> FieldsByLaunch:
    # ncu leaves out the columns of rules on the rows of metrics.
    fewest = max(table.columns.index(column) for column in ("Metric Name", "Metric Value")) + 1
    out: FieldsByLaunch = {}
    for line, row in table.rows:
        cells = dict(zip(table.columns, row, strict=False))
        new = _launch(cells, fewest <= len(row) <= len(table.columns), line, name)
        fields = out.setdefault((new["process"], new["number"]), {**new, "rules": ()})
        if field := ON_DETAILS.get(cells["Metric Name"]):
            figure = _figure(field, cells["Metric Value"], cells.get("Metric Unit", ""), name)
            if figure is not None:
                fields.setdefault(field, figure)
        if cells.get("Rule Name"):
            rule = Rule(
                cells["Rule Name"],
                cells.get("Rule Type", ""),
                " ".join(cells.get("Rule Description", "").split()),
                cells.get("Section Name", ""),
                cells.get("Estimated Speedup Type") or None,
                number(cells.get("Estimated Speedup", ""), name),
            )
            fields["rules"] = (*fields["rules"], rule)
    return out


def _launch(cells: Mapping[str, str], complete: bool, line: int, name: str) -> Fields:
    """The launch that a row is of, by the columns of every page.

    Raises ``Unreadable`` if the row is of no launch, or not ``complete``.
    """
    number = cells.get("ID", "").strip()
    if not complete or not number.isdecimal() or len(number) > 18:
        raise _cut(name, line)
    kernel = cells.get("Kernel Name") or cells.get("Function Name", "")
    shape = {"block": _DIM.match(cells.get("Block Size", ""))}
    shape["grid"] = _DIM.match(cells.get("Grid Size", ""))
    return {
        "number": int(number),
        "function": function_of(kernel),
        "demangled": cells.get("Demangled Name") or kernel,
        "process": cells.get("Process ID", ""),
        "capability": cells.get("CC") or None,
        **{part: match and tuple(map(int, match.groups())) for part, match in shape.items()},
    }


# -- machine code in text -------------------------------------------------------------------------

ADDRESS_IN_TEXT = re.compile(r"\b0x[0-9a-f]{5,16}\b")


def with_offsets(launch: NcuLaunch, text: str) -> str:
    """An instruction's text with addresses within the launch's code as offsets."""
    end = launch.code[-1].offset if launch.code else 0

    def offset(number: re.Match[str]) -> str:
        value = int(number[0], 16) - launch.base
        return f"{value:#x}" if 0 <= value <= end else number[0]

    return ADDRESS_IN_TEXT.sub(offset, text)


def text_of(launch: NcuLaunch, name: str) -> str:
    """The code of a report as ``cuobjdump -sass`` prints it: offsets, branches within the code."""
    rows = [f"\t\tFunction : {name}"]
    for instruction in launch.code:
        text = " ".join(instruction.text.split()).removesuffix(";").strip()
        rows.append(f"        /*{instruction.offset:04x}*/{' ' * 19}{with_offsets(launch, text)} ;")
    return "\n".join([*rows, "\t\t..........", ""])


# -- the program itself ---------------------------------------------------------------------------

PAGES = ("details", "raw", "source")
EXPORT_SECONDS = 600.0

_RETURNED = re.compile(r"==ERROR== The application returned an error code \((\d+)\)")
_SAID = re.compile(r"==(ERROR|WARNING)== *(.*)")


def is_report(path: Path) -> bool:
    """Whether a path is, by its name, a report of ncu or an export of one."""
    return path.suffix.lower() in (".csv", ".ncu-rep") and path.is_file()


def texts(path: Path) -> str:
    """The CSV pages of a report, one after another.

    Raises ``Unreadable`` where it cannot be read or is too large, ``ToolMissing`` where it takes
    an ncu that is missing.
    """
    if path.suffix.lower() != ".ncu-rep":
        return files.text(path)
    if not path.is_file():
        raise Unreadable(f"{path} does not exist")
    tool = find("ncu")
    if tool is None:
        raise ToolMissing(
            f"{path} can only be read by ncu, which was not found on this machine: export it as "
            "CSV on one that has it",
            f"LC_ALL=C ncu --import {path.name} --csv --page details > report.csv  "
            "(and --page raw, source)",
        )
    out: list[str] = []
    for page in PAGES:
        exported = run_tool(
            [tool.path, "--import", path, "--csv", "--print-units", "base", "--page", page],
            seconds=EXPORT_SECONDS,
            env={**os.environ, "LC_ALL": "C"},
        )
        # A report without SASS has no source page; the other two every report has.
        if exported.status == 0:
            out.append(exported.text)
        elif page != "source":
            messages = complaints(exported.text + "\n" + exported.complaint) or [
                f"status {exported.status}"
            ]
            raise Unreadable(f"ncu cannot export {path}: {messages[0]}")
    return "\n".join(out)


def need() -> Path:
    if (tool := find("ncu")) is None:
        raise ToolMissing(
            "ncu (Nsight Compute) was not found on this machine",
            "It is part of the CUDA toolkit; set CUDA_HOME or PATH where it is installed.",
        )
    return tool.path


def complaints(log: str) -> list[str]:
    """ncu's errors and then its warnings in a log, each once."""
    messages = [(m[1], m[2].strip()) for m in map(_SAID.match, log.splitlines()) if m]
    return list(dict.fromkeys(text for _, text in sorted(messages, key=lambda m: m[0]) if text))


def status_of(log: str, status: int) -> int:
    """The program's exit status from ncu's ``log``, given ncu's own ``status``."""
    if match := _RETURNED.search(log):
        return int(match[1])
    return 0 if "==PROF== Disconnected" in log and status < 128 else status


def arguments(
    report: Path,
    log: Path,
    sections: str,
    kernel: str | None,
    count: int,
    skip: int,
    children: bool = False,
) -> list[str]:
    """The options of ncu that work for programs of torch; ``kernel`` is a name or ``regex:…``.

    Clocks stay as they are: locking them takes privileges, and ``ptxview time`` does not lock them.
    ``log`` takes what ncu says, so that the program keeps its own output.
    """
    processes = "all" if children else "application-only"
    options = [
        *("--clock-control", "none", "--target-processes", processes, "--set", sections),
        *("--import-source", "yes", "--launch-count", str(count), "--force-overwrite"),
        *("--export", str(report), "--log-file", str(log)),
    ]
    if skip:
        options += ("--launch-skip", str(skip))
    if kernel is not None:
        options += ("--kernel-name", kernel)
    return options


ENVIRONMENT = (("TORCHINDUCTOR_COMPILE_THREADS", "1"),)
"""ncu hangs with Inductor's compile workers."""
ADJACENT_NAME = "ncu.csv"
SCHEMA = 1


def load(paths: Sequence[Path]) -> Report:
    """The launches of reports; pages of one run in several files complete each other.

    Raises ``Unreadable`` with a sentence on what is wrong, ``ToolMissing`` for an ``.ncu-rep``
    without ncu.
    """
    all_tables = []
    for path in paths:
        if not path.exists():
            raise Unreadable(f"{path} does not exist", "Give a CSV export of ncu, or an .ncu-rep.")
        all_tables += tables(texts(path), str(path))
    return _merge_tables(all_tables, " and ".join(map(str, paths)))


def of_recording(path: Path, named: Sequence[Path] = ()) -> Report:
    """The reports that belong to a recording: those named, else those beside it and kept with it.

    A damaged report that was not named is noted as a problem instead of raised as an error.
    """
    if named:
        return load(named)
    if not is_recording(path):
        return Report(())
    reports: list[Report] = []
    problems: list[str] = []
    try:
        reports += _adjacent_reports(path)
        for record in stored_records(path, NCU_REPORTS, problems.append):
            text = record.get("csv")
            if isinstance(text, str) and record.get("schema") == SCHEMA:
                reports.append(read(text, f"the report of {record.get('taken')}"))
            else:
                problems.append("a report of ncu that is kept here is of a newer ptxview")
    except PtxviewError as error:
        problems.append(error.message)
    return _joined(reports, problems)


def _adjacent_reports(path: Path) -> list[Report]:
    """The report in a recording's folder, or beside its file, if there is one.

    A link in the folder leads out of the recording.
    """
    if path.is_dir():
        adjacent = path / ADJACENT_NAME
        is_present = adjacent.is_file() and not adjacent.is_symlink()
    else:
        adjacent = path.with_name(f"{path.name}.{ADJACENT_NAME}")
        is_present = adjacent.is_file()
    return [load([adjacent])] if is_present else []


def _joined(reports: Sequence[Report], problems: Sequence[str]) -> Report:
    """Several reports as one, with further problems after their own."""
    all_problems = [*(p for r in reports for p in r.problems), *problems]
    return Report(
        tuple(launch for r in reports for launch in r.launches),
        tuple(dict.fromkeys(p for r in reports for p in r.pages)),
        tuple(dict.fromkeys(all_problems)),
    )


def store(path: Path, csv: str, command: Iterable[str]) -> None:
    """Store a report with its recording. Raises ``OSError`` if that is not allowed."""
    timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    store_record(
        path,
        {"schema": SCHEMA, "taken": timestamp, "command": list(command), "csv": csv},
        NCU_REPORTS,
    )


# -- alone ----------------------------------------------------------------------------------------


def report_recording(path: Path, report: Report) -> Recording:
    """A report as a recording: the launched kernels, with machine code if it has any.

    Launches of one name with the same machine code (without any: registers and block) are one
    variant.
    """
    kernels: dict[str, dict[str, list[NcuLaunch]]] = {}
    for launch in report.launches:
        kernels.setdefault(launch.demangled, {}).setdefault(_digest(launch), []).append(launch)
    ids = shortest_ids(digest for by_digest in kernels.values() for digest in by_digest)
    out = []
    for number, (demangled, launches) in enumerate(kernels.items()):
        function = next(iter(launches.values()))[0].function
        variants = tuple(_variant(ids[digest], digest, group) for digest, group in launches.items())
        out.append(Kernel(f"k{number}", function, demangled, Origin.FILE, variants))
    device = next((launch.device for launch in report.launches if launch.device), None)
    return Recording(
        str(path), tuple(out), device={"name": device} if device else None, problems=report.problems
    )


def _digest(launch: NcuLaunch) -> str:
    content = text_of(launch, "") if launch.code else f"{launch.registers} {launch.block}"
    data = f"{launch.demangled}\0{content}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()


def _variant(short: str, digest: str, launches: Sequence[NcuLaunch]) -> Variant:
    first = launches[0]
    symbol = " ".join(first.function.split()) or "kernel"
    digits = (first.capability or "").replace(".", "")
    stages = {}
    if first.code:
        text = text_of(first, symbol).encode("utf-8", "surrogateescape")
        origin = "the report of ncu: its source page, with offsets in place of addresses"
        stages[Stage.SASS] = StageFile(BytesContent(text), None, origin)
    shapes = Counter((launch.grid, launch.block) for launch in launches)
    why = "a report of ncu has machine code alone"
    return Variant(
        short,
        digest,
        symbol,
        target=f"sm_{digits}" if digits.isdecimal() else None,
        config=_settings(launches),
        stages=stages,
        recorded_resources=Resources(registers=first.registers),
        launches=len(launches),
        missing={s: why for s in KERNEL_STAGES if s not in stages},
        calls=tuple(
            Call("cuda", symbol, digest, grid, block, count=count)
            for (grid, block), count in shapes.items()
            if grid is not None
        ),
    )


MAX_LAUNCHES = 3
"""Launches of one variant that its line in the interface shows."""


def _settings(launches: Sequence[NcuLaunch]) -> dict[str, object]:
    """What distinguishes launches, in place of the configuration, which a report does not have."""
    few = launches[:MAX_LAUNCHES]
    ellipsis = ["…"] if len(launches) > MAX_LAUNCHES else []
    times = [f"{launch.duration_us:.2f}" for launch in few if launch.duration_us is not None]
    shown = {"launch": [str(launch.number) for launch in few], "µs": times}
    settings: dict[str, object] = {k: " ".join([*v, *ellipsis]) for k, v in shown.items() if v}
    dims = {"grid": few[0].grid, "block": few[0].block}
    return settings | {name: "×".join(map(str, dim)) for name, dim in dims.items() if dim}
