"""Reads the CSV exports of ncu: pages raw, details and source, known by their headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from inspector.bench.ncu import Dim3, Launch, Report, Rule, function_of
from inspector.bench.ncu_numbers import Notation, gigahertz, microseconds, notation
from inspector.bench.ncu_rows import REMEDY, Page, Table, tables
from inspector.bench.ncu_source import source
from inspector.errors import Unreadable

# The figures of a launch by ncu's names of metrics, the preferred ones first.
RAW = {
    "duration_us": ("gpu__time_duration.sum", "gpu__time_duration.max", "gpu__time_duration.avg"),
    "compute_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "memory_percent": ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
    "registers": ("launch__registers_per_thread",),
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "theoretical_occupancy": ("sm__maximum_warps_per_active_cycle_pct",),
    "sm_ghz": ("gpc__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second",
               "sm__cycles_elapsed.avg.per_second"),
    "cycles": ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"),
}  # fmt: skip
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
_DIM = re.compile(r"\(?\s*(\d+)\s*[,x]\s*(\d+)\s*[,x]\s*(\d+)\s*\)?")
_UNIT = re.compile(r"((?:.*\S)?)\s*+\[([^\[\]]*+)\]\Z")

Key = tuple[str, str]


def read(text: str, name: str) -> Report:
    """The launches of one export, or of several pages one after another.

    Pages of one run complete each other; a page that comes again begins another report. Raises
    ``Unreadable`` where the text is no report of ncu, is cut short or holds no launch.
    """
    return together(tables(text, name), name)


def together(found: Sequence[Table], name: str) -> Report:
    """The report that tables make; see ``read``."""
    launches: list[Launch] = []
    problems: list[str] = []
    for group in _groups(found):
        launches += _of_group(group, name, problems)
    if not launches:
        raise Unreadable(f"{name} is a report of ncu without a launch", REMEDY)
    pages = tuple(dict.fromkeys(t.page.value for t in found))
    return Report(tuple(launches), pages, tuple(dict.fromkeys(problems)))


def _groups(found: Sequence[Table]) -> Iterator[list[Table]]:
    """Tables of one run: no page twice, but for the source page, a table a launch."""
    group: list[Table] = []
    for table in found:
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
    """What one page says of a launch."""

    launch: Launch
    figures: dict[str, float]
    rules: list[Rule]


def _of_group(group: list[Table], name: str, problems: list[str]) -> list[Launch]:
    known: dict[Key, _Found] = {}
    blocks: list[Launch] = []
    for table in group:
        if table.page is Page.SOURCE:
            blocks.append(source(table, len(blocks), name))
            continue
        of_page: dict[Key, _Found] = {}
        (_raw if table.page is Page.RAW else _details)(table, of_page, name)
        for key, found in of_page.items():
            before = known.setdefault(key, found)
            if before is found:
                continue
            if _shape(before.launch) != _shape(found.launch):
                raise Unreadable(
                    f"the pages of {name} are of different runs: launch {key[1]} is "
                    f"{before.launch.function} in one, {found.launch.function} in another",
                    "Export the pages of one report.",
                )
            # The raw page has more digits.
            first, then = (found, before) if table.page is Page.RAW else (before, found)
            before.figures = {**then.figures, **first.figures}
            before.rules = before.rules or found.rules
            before.launch = replace(
                before.launch, device=before.launch.device or found.launch.device
            )
    launches = [_whole(found) for found in known.values()]
    if not launches:
        return blocks
    return _with_code(launches, blocks, problems)


def _shape(launch: Launch) -> tuple[object, ...]:
    return launch.function, launch.block, launch.grid


def _whole(found: _Found) -> Launch:
    figures: dict[str, object] = {
        k: round(v) if k in COUNTS else v for k, v in found.figures.items()
    }
    return replace(found.launch, rules=tuple(found.rules), **figures)  # type: ignore[arg-type]


def _with_code(launches: list[Launch], blocks: list[Launch], problems: list[str]) -> list[Launch]:
    """Launches with their code: the source page has no numbers, only the order of launches."""
    out = list(launches)
    for function in dict.fromkeys(b.function for b in blocks):
        own = [b for b in blocks if b.function == function]
        places = [n for n, one in enumerate(out) if one.function == function]
        if len(own) != len(places):
            problems.append(
                f"the source page has {len(own)} of {len(places)} launches of {function}: which "
                "they are is not known, and their samples are left out"
            )
            continue
        for n, block in zip(places, own, strict=True):
            out[n] = replace(out[n], base=block.base, code=block.code)
    return out


# -- raw ------------------------------------------------------------------------------------------


def _raw(table: Table, out: dict[Key, _Found], name: str) -> None:
    columns, units = _with_units(table.columns)
    rows = table.rows
    at = columns.index("ID")
    # The row below the header has the units, and no number.
    if rows and len(rows[0][1]) == len(columns) and not rows[0][1][at].strip():
        units = [inner or given for given, inner in zip(units, rows[0][1], strict=True)]
        rows = rows[1:]
    first = columns.index("CC") + 1 if "CC" in columns else 0
    numbers = notation(cell for _, row in rows for cell in row[first:])
    for line, row in rows:
        whole = len(row) == len(columns)
        launch = _identity(dict(zip(columns, row, strict=False)), whole, line, name)
        cells = {c: (v, u) for c, v, u in zip(columns, row, units, strict=True)}
        figures: dict[str, float] = {}
        for field, metrics in RAW.items():
            for metric in metrics:
                value = _figure(field, *cells.get(metric, ("", "")), numbers)
                if value is not None:
                    figures[field] = value
                    break
        device = cells.get("device__attribute_display_name", cells.get("Device Name", ("", "")))[0]
        launch = replace(launch, device=device or None)
        out[launch.process, str(launch.number)] = _Found(launch, figures, [])


def _with_units(columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The interface of Nsight writes units into the header: ``Duration [us]``."""
    split = [_UNIT.match(c) for c in columns]
    names = [m[1] if m else c for m, c in zip(split, columns, strict=True)]
    return names, [m[2] if m else "" for m in split]


def _figure(field: str, text: str, unit: str, numbers: Notation) -> float | None:
    """A figure in the unit of its field; None where it is not there or of another unit."""
    value = numbers.number(text)
    if field == "duration_us":
        return microseconds(value, unit)
    if field == "sm_ghz":
        return gigahertz(value, unit)
    if field in PERCENT and unit.strip() not in ("%", ""):
        return None
    return value


# -- details --------------------------------------------------------------------------------------


def _details(table: Table, out: dict[Key, _Found], name: str) -> None:
    columns = table.columns
    rows = [(line, row, dict(zip(columns, row, strict=False))) for line, row in table.rows]
    numbers = notation(c.get("Metric Value", "") for _, _, c in rows)
    # ncu leaves out the columns of rules on the rows of metrics.
    least = max(columns.index(column) for column in ("Metric Name", "Metric Value")) + 1
    for line, row, cells in rows:
        whole = least <= len(row) <= len(columns)
        bare = _identity(cells, whole, line, name)
        found = out.setdefault((bare.process, str(bare.number)), _Found(bare, {}, []))
        field = DETAILS.get(cells["Metric Name"])
        value = (
            None
            if field is None
            else _figure(field, cells["Metric Value"], cells.get("Metric Unit", ""), numbers)
        )
        if field is not None and value is not None:
            found.figures.setdefault(field, value)
        if cells.get("Rule Name"):
            found.rules.append(
                Rule(
                    cells["Rule Name"],
                    cells.get("Rule Type", ""),
                    " ".join(cells.get("Rule Description", "").split()),
                    cells.get("Section Name", ""),
                    cells.get("Estimated Speedup Type") or None,
                    numbers.number(cells.get("Estimated Speedup", "")),
                )
            )


def _identity(cells: Mapping[str, str], whole: bool, line: int, name: str) -> Launch:
    """Which launch a row is of. Raises ``Unreadable`` where the row is none, or not ``whole``: it
    has other cells than the header above it."""
    number = cells.get("ID", "").strip()
    if not whole or not number.isdecimal() or len(number) > 18:
        raise Unreadable(f"{name} is cut short, or damaged, in line {line}", REMEDY)
    said = cells.get("Kernel Name") or cells.get("Function Name", "")
    demangled = cells.get("Demangled Name") or said
    return Launch(
        int(number),
        function_of(said),
        demangled,
        cells.get("Process ID", ""),
        _dim(cells.get("Block Size", "")),
        _dim(cells.get("Grid Size", "")),
        cells.get("CC", "").replace(",", ".") or None,
    )


def _dim(text: str) -> Dim3 | None:
    found = _DIM.match(text.strip())
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
