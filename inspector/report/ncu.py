"""What ncu measured, as the table of Nsight's summary and as JSON. A dash is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from inspector.measure.ncu.attach import UNRECORDED, Attached, Key, NcuMeasured
from inspector.measure.ncu.model import Dim3, NcuLaunch, Report
from inspector.report import jsons
from inspector.report.tables import UNKNOWN
from inspector.text import shown

Name = Callable[[Key], tuple[str, str]]
"""A kernel's and a variant's id of a key."""


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A column of the summary: its head, whether it is a number, what stands there."""

    head: str
    number: bool
    cell: Callable[[NcuLaunch], str]


def _figure(value: float | None, form: str = ".2f") -> str:
    return UNKNOWN if value is None else format(value, form)


def _dim(value: Dim3 | None) -> str:
    return UNKNOWN if value is None else "×".join(map(str, value))


# Nsight's summary, in its order.
SUMMARY = (
    MetricColumn("est. speed-up %", True, lambda one: _figure(one.speedup)),
    MetricColumn("function", False, lambda one: one.function),
    MetricColumn("demangled", False, lambda one: one.demangled),
    MetricColumn("µs", True, lambda one: _figure(one.duration_us)),
    MetricColumn("improvement µs", True, lambda one: _figure(one.improvement_us)),
    MetricColumn("compute %", True, lambda one: _figure(one.compute_percent)),
    MetricColumn("memory %", True, lambda one: _figure(one.memory_percent)),
    MetricColumn(
        "regs", True, lambda one: UNKNOWN if one.registers is None else str(one.registers)
    ),
    MetricColumn("grid", False, lambda one: _dim(one.grid)),
    MetricColumn("block", False, lambda one: _dim(one.block)),
)
LONGEST = 40
"""Cells of a name; the demangled one is left out where it says no more."""


def summary(attached: Sequence[Attached], name: Name | None, width: int) -> Table:
    """A row a launch; ``name`` gives the ids of variants, None if launches stand alone."""
    columns = [c for c in SUMMARY if c.head != "demangled" or _tells_more(attached)]
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column("#", justify="right", no_wrap=True)
    for column in columns:
        table.add_column(
            column.head,
            justify="right" if column.number else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=None if column.number else max(16, min(LONGEST, width // 4)),
        )
    if name is not None:
        table.add_column("variant", no_wrap=True)
    for one in attached:
        cells = [Text(shown(c.cell(one.launch))) for c in columns]
        if name is not None:
            cells.append(Text(UNKNOWN if one.key is None else shown(name(one.key)[1])))
        table.add_row(str(one.launch.number), *cells)
    return table


MOST = 8
"""Launches, or names, that one footnote tells."""


def _tells_more(attached: Iterable[Attached]) -> bool:
    return any(one.launch.demangled != one.launch.function for one in attached)


def footnotes(attached: Sequence[Attached], report: Report) -> list[str]:
    """What is odd: launches of no variant here, samples that are not shown, what ncu left out."""
    said = [shown(p) for p in report.problems]
    lone: dict[str, list[int]] = {}
    strangers = [one.launch.function for one in attached if one.why.startswith(UNRECORDED)]
    if strangers:
        names = list(dict.fromkeys(strangers))
        some = ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" * (len(names) > MOST))
        many = "launch is" if len(strangers) == 1 else "launches are"
        said.append(shown(f"{len(strangers)} {many} of kernels that are not here: {some}"))
    for one in attached:
        if one.why.startswith(UNRECORDED):
            continue
        if why := one.why or one.unplaced:
            lone.setdefault(("" if one.why else "no samples: ") + why, []).append(one.launch.number)
    for why, numbers in lone.items():
        some = ", ".join(map(str, numbers[:MOST])) + (" …" if len(numbers) > MOST else "")
        said.append(shown(f"launch {some}: {why}"))
    if not any(one.launch.rules for one in attached):
        said.append("estimated speed-ups are on the details page, which the report lacks")
    return said


# -- JSON -----------------------------------------------------------------------------------------


def variant(measured: NcuMeasured | None) -> dict[str, object] | None:
    """``ncu`` of a variant: its launches, their samples in sum, why some are not shown."""
    if measured is None:
        return None
    return {
        "launches": [launch(a.launch) for a in measured.launches],
        "samples": jsons.samples(measured.sampled),
        "samples_missing": measured.unplaced or None,
    }


def document(attached: Sequence[Attached], report: Report, name: Name) -> dict[str, object] | None:
    """``ncu`` of a recording: every launch in order, and the variant that it was of."""
    if not attached and not report.problems:
        return None
    rows = []
    for one in attached:
        kernel, of = (None, None) if one.key is None else name(one.key)
        rows.append({"kernel": kernel, "variant": of, "unattached": one.why or None,
                     **launch(one.launch, rules=False)})  # fmt: skip
    return {"pages": list(report.pages), "launches": rows, "problems": list(report.problems)}


def launch(one: NcuLaunch, rules: bool = True) -> dict[str, object]:
    """One launch. Percentages are of the peak, the speed-up and the improvement ncu's estimate."""
    out: dict[str, object] = {
        "id": one.number,
        "function": one.function,
        "demangled": one.demangled,
        "grid": one.grid,
        "block": one.block,
        "duration_us": one.duration_us,
        "estimated_speedup_percent": one.speedup,
        "runtime_improvement_us": one.improvement_us,
        "compute_percent": one.compute_percent,
        "memory_percent": one.memory_percent,
        "registers": one.registers,
        "achieved_occupancy_percent": one.achieved_occupancy,
        "theoretical_occupancy_percent": one.theoretical_occupancy,
        "sm_ghz": one.sm_ghz,
        "cycles": one.cycles,
    }
    if rules:
        out["rules"] = [
            {
                "rule": r.name,
                "type": r.kind,
                "section": r.section,
                "text": r.text,
                "speedup_type": r.scope,
                "estimated_speedup_percent": r.speedup,
            }
            for r in one.rules
        ]
        out["samples"] = jsons.samples(one.samples)
    return out
