"""Figures of a variant by name, as summaries print them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from inspector.analysis.card import Card, StageContent
from inspector.analysis.hints.subject import Finding
from inspector.base.model import Resources, Stage, Variant
from inspector.measure.launch_time import LaunchTime

Count = int | UnsetType | None
"""A number of things or bytes; None if unknown, UNSET where it was not asked for."""


class VariantFigures(Struct, frozen=True, kw_only=True):
    """Figures of a variant; None is unknown, what was not asked for is ``UNSET``."""

    target: str | UnsetType | None = UNSET
    config: Mapping[str, object] | UnsetType = UNSET
    stages: list[Stage] | UnsetType = UNSET
    launches: Count = UNSET
    registers: Count = UNSET
    spills: Annotated[Count, Meta(description="bytes that a thread stores and loads")] = UNSET
    stack: Annotated[Count, Meta(description="bytes of a thread")] = UNSET
    shared: Annotated[Count, Meta(description="static and dynamic bytes")] = UNSET
    barriers: Count = UNSET
    threads: Annotated[Count, Meta(description="of a block")] = UNSET
    occupancy: Annotated[float | UnsetType | None, Meta(description="theoretical, percent")] = UNSET
    limiters: list[str] | UnsetType | None = UNSET
    instructions: Annotated[Count, Meta(description="static count of SASS")] = UNSET
    hints: Annotated[Count, Meta(description="how many")] = UNSET
    rules: Annotated[list[str] | UnsetType, Meta(description="which hints")] = UNSET
    time: Annotated[float | UnsetType | None, Meta(description="µs of a launch")] = UNSET
    time_from: Annotated[
        str | UnsetType | None,
        Meta(
            description="whose: run, time, profile, ncu, estimate or bound (no launch is shorter)"
        ),
    ] = UNSET
    failed: Annotated[str | UnsetType | None, Meta(description="why it came to nothing")] = UNSET


def quick_figures(
    variant: Variant, resources: Resources, hints: int | None, time: LaunchTime | None
) -> VariantFigures:
    """The figures of a variant that need no analysis."""
    return VariantFigures(
        target=variant.target,
        registers=resources.registers,
        spills=_sum(resources.spill_store_bytes, resources.spill_load_bytes),
        shared=_sum(resources.static_shared_bytes, resources.dynamic_shared_bytes),
        hints=hints,
        time=None if time is None else time.us,
        time_from=None if time is None else time.source,
    )


def all_figures(
    variant: Variant,
    quick: VariantFigures,
    resources: Resources,
    card: Card,
    findings: Sequence[Finding],
) -> VariantFigures:
    """All figures of a variant; ``quick`` are those of ``quick_figures``."""
    occupancy = card.occupancy
    sass = card.stage_content(Stage.SASS)
    return replace(
        quick,
        config={name: value for name, value in variant.config.items() if name != "flags"},
        launches=variant.launches,
        stack=resources.stack_bytes,
        barriers=resources.barriers,
        threads=card.threads,
        occupancy=None if occupancy is None else occupancy.percent,
        limiters=None if occupancy is None else list(occupancy.limiters),
        instructions=None if sass is None or sass.mix is None else sass.mix.total,
        rules=[finding.rule for finding in findings],
        failed=UNSET if variant.error is None else variant.failed,
    )


def machine_code(card: Card) -> StageContent | None:
    """The stage whose instructions are counted: SASS, else PTX."""
    return card.stage_content(Stage.SASS) or card.stage_content(Stage.PTX)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b
