"""Typed rows of ncu's measurements as JSON. A field is a key, in its order; None is unknown."""

from collections.abc import Callable, Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from inspector.analysis.line_annotations import Samples, total
from inspector.measure.ncu.attach import Key, MatchedLaunch, NcuMeasured
from inspector.measure.ncu.report import Dim3, NcuLaunch, Report, Rule

VariantName = Callable[[Key], tuple[str, str]]
"""A kernel's and a variant's id of a key."""


class NcuRuleRow(Struct, frozen=True, kw_only=True):
    """The result of one of ncu's rules; the speed-up is ncu's estimate."""

    rule: str
    type: str | None
    section: str | None
    text: str
    speedup_type: str | None
    estimated_speedup_percent: float | None


class NcuLaunchRow(Struct, frozen=True, kw_only=True):
    """One launch as ncu measured it; percentages are of the peak.

    ``kernel``, ``variant`` and why it has none are given of a recording's launches; rules and
    samples of a variant's.
    """

    kernel: str | UnsetType | None = UNSET
    variant: str | UnsetType | None = UNSET
    unattached: str | UnsetType | None = UNSET
    id: int
    function: str
    demangled: str | None
    grid: Dim3 | None
    block: Dim3 | None
    duration_us: float | None
    estimated_speedup_percent: float | None
    runtime_improvement_us: float | None
    compute_percent: float | None
    memory_percent: float | None
    registers: int | None
    achieved_occupancy_percent: float | None
    theoretical_occupancy_percent: float | None
    sm_ghz: float | None
    cycles: float | None
    rules: list[NcuRuleRow] | UnsetType = UNSET
    samples: Samples | UnsetType | None = UNSET


class NcuVariantRow(Struct, frozen=True, kw_only=True):
    """The launches of a variant, their samples in sum, and why some are not shown."""

    launches: list[NcuLaunchRow]
    samples: Samples | None
    samples_missing: str | None


class NcuRow(Struct, frozen=True, kw_only=True):
    """Every launch of a recording's report in order."""

    pages: tuple[str, ...]
    launches: list[NcuLaunchRow]
    problems: tuple[str, ...]


def ncu_variant_row(measured: NcuMeasured | None) -> NcuVariantRow | None:
    if measured is None:
        return None
    return NcuVariantRow(
        launches=[
            replace(
                _launch_row(launch),
                rules=list(map(_rule_row, launch.rules)),
                samples=launch.samples,
            )
            for launch in measured.launches
        ],
        samples=total(measured.samples.values()) if measured.samples else None,
        samples_missing=measured.unplaced or None,
    )


def ncu_row(attached: Sequence[MatchedLaunch], report: Report, name: VariantName) -> NcuRow | None:
    if not attached and not report.problems:
        return None
    rows = []
    for matched in attached:
        kernel, variant = (None, None) if matched.key is None else name(matched.key)
        row = _launch_row(matched.launch)
        rows.append(replace(row, kernel=kernel, variant=variant, unattached=matched.why or None))
    return NcuRow(pages=report.pages, launches=rows, problems=report.problems)


def _launch_row(launch: NcuLaunch) -> NcuLaunchRow:
    return NcuLaunchRow(
        id=launch.number,
        function=launch.function,
        demangled=launch.demangled,
        grid=launch.grid,
        block=launch.block,
        duration_us=launch.duration_us,
        estimated_speedup_percent=launch.speedup,
        runtime_improvement_us=launch.improvement_us,
        compute_percent=launch.compute_percent,
        memory_percent=launch.memory_percent,
        registers=launch.registers,
        achieved_occupancy_percent=launch.achieved_occupancy,
        theoretical_occupancy_percent=launch.theoretical_occupancy,
        sm_ghz=launch.sm_ghz,
        cycles=launch.cycles,
    )


def _rule_row(rule: Rule) -> NcuRuleRow:
    return NcuRuleRow(
        rule=rule.name,
        type=rule.kind,
        section=rule.section,
        text=rule.text,
        speedup_type=rule.scope,
        estimated_speedup_percent=rule.speedup,
    )
