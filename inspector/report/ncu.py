"""What ncu measured, as the table of Nsight's summary and as JSON. A dash is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Group

from inspector.base.text import shown
from inspector.measure.ncu.attach import UNRECORDED, Attached, Key, NcuMeasured
from inspector.measure.ncu.report import Dim3, NcuLaunch, Report
from inspector.report import jsons
from inspector.report.grid import grid
from inspector.report.tables import UNKNOWN

Name = Callable[[Key], tuple[str, str]]
"""A kernel's and a variant's id of a key."""


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _dim(value: Dim3 | None) -> str:
    return UNKNOWN if value is None else "×".join(map(str, value))


SUMMARY: Mapping[str, Callable[[NcuLaunch], str]] = {
    "est. speed-up %": lambda one: _figure(one.speedup),
    "function": lambda one: one.function,
    "demangled": lambda one: one.demangled,
    "µs": lambda one: _figure(one.duration_us),
    "improvement µs": lambda one: _figure(one.improvement_us),
    "compute %": lambda one: _figure(one.compute_percent),
    "memory %": lambda one: _figure(one.memory_percent),
    "regs": lambda one: UNKNOWN if one.registers is None else str(one.registers),
    "grid": lambda one: _dim(one.grid),
    "block": lambda one: _dim(one.block),
}
"""Columns of Nsight's summary, in its order."""
TEXTS = ("function", "demangled", "grid", "block", "variant")


def summary(attached: Sequence[Attached], name: Name | None, width: int) -> Group:
    """Return a row for each launch; ``name`` gives ids of variants, None for a lone report."""
    columns = dict(SUMMARY)
    if all(one.launch.demangled == one.launch.function for one in attached):
        del columns["demangled"]
    rows = []
    for one in attached:
        row = [str(one.launch.number), *(shown(cell(one.launch)) for cell in columns.values())]
        if name is not None:
            row.append(UNKNOWN if one.key is None else shown(name(one.key)[1]))
        rows.append(row)
    heads = ["#", *columns, *(["variant"] if name is not None else [])]
    numbers = [head for head in heads if head not in TEXTS]
    gives = (("demangled", 40), ("function", 40), ("demangled", 16), ("function", 16))
    return Group(*grid(heads, rows, width, numbers, gives))


MAX_NAMES = 8
"""Launches or names in one footnote."""


def footnotes(attached: Sequence[Attached], report: Report) -> list[str]:
    """What is odd: launches of no variant here, samples that are not shown, what ncu left out."""
    said = [shown(p) for p in report.problems]
    lone: dict[str, list[int]] = {}
    strangers = [one.launch.function for one in attached if one.why.startswith(UNRECORDED)]
    if strangers:
        names = list(dict.fromkeys(strangers))
        some = ", ".join(names[:MAX_NAMES]) + (
            f" and {len(names) - MAX_NAMES} more" * (len(names) > MAX_NAMES)
        )
        many = "launch is" if len(strangers) == 1 else "launches are"
        said.append(shown(f"{len(strangers)} {many} of kernels that are not here: {some}"))
    for one in attached:
        if one.why.startswith(UNRECORDED):
            continue
        if why := one.why or one.unplaced:
            lone.setdefault(("" if one.why else "no samples: ") + why, []).append(one.launch.number)
    for why, numbers in lone.items():
        some = ", ".join(map(str, numbers[:MAX_NAMES])) + (" …" if len(numbers) > MAX_NAMES else "")
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
        rows.append(
            {
                "kernel": kernel,
                "variant": of,
                "unattached": one.why or None,
                **launch(one.launch, rules=False),
            }
        )
    return {"pages": list(report.pages), "launches": rows, "problems": list(report.problems)}


def launch(one: NcuLaunch, rules: bool = True) -> dict[str, object]:
    """Return one launch; percentages are of the peak, speed-up and improvement ncu's estimates."""
    out: dict[str, object] = {
        "id": one.number,
        **jsons.members(one, "function demangled grid block duration_us"),
        "estimated_speedup_percent": one.speedup,
        "runtime_improvement_us": one.improvement_us,
        **jsons.members(one, "compute_percent memory_percent registers"),
        "achieved_occupancy_percent": one.achieved_occupancy,
        "theoretical_occupancy_percent": one.theoretical_occupancy,
        **jsons.members(one, "sm_ghz cycles"),
    }
    if rules:
        out["rules"] = [
            {
                "rule": r.name,
                "type": r.kind,
                **jsons.members(r, "section text"),
                "speedup_type": r.scope,
                "estimated_speedup_percent": r.speedup,
            }
            for r in one.rules
        ]
        out["samples"] = jsons.samples(one.samples)
    return out
