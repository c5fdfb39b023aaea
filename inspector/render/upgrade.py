"""A report of ``upgrade`` as JSON, and what each part of a compiler brings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.text import Text

from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Kernel, Stage, Variant
from inspector.base.names import base_name
from inspector.base.units import microseconds, plural
from inspector.diff.upgrade import (
    Change,
    Edit,
    EditCount,
    EstimatedTuning,
    LeftOutVariant,
    PartExchange,
    RefusedVariant,
    UpgradeReport,
)
from inspector.render import check
from inspector.render.jsons import SCHEMA
from inspector.render.tables import UNKNOWN, settings_text, short_title

MAX_PART_EDITS = 6


class UpgradedRow(Struct, frozen=True, kw_only=True):
    """A variant whose code changed; ``figures`` are those that differ, before and after, and
    ``estimates_us`` of one launch with their intervals: middle, low, high."""

    kernel: str
    variant: str
    in_use: bool
    first: Stage | None
    edits: int
    figures: Mapping[str, Sequence[object]]
    estimates_us: Sequence[tuple[float, float, float]]


class UpgradeDocument(Struct, frozen=True, kw_only=True):
    """``upgrade --json``; numbers are those of ``UpgradeReport``."""

    schema: int
    a: str
    b: str
    versions: Mapping[str, Sequence[Sequence[object]]]
    compared: int
    same: int
    reordered: int
    alone: int
    edits: Sequence[EditCount]
    changes: Sequence[UpgradedRow]
    failed: Sequence[RefusedVariant]
    left_out: Sequence[LeftOutVariant] = ()
    tunings: Sequence[EstimatedTuning] = ()
    check: check.CheckDocument | None


class PartRow(Struct, frozen=True, kw_only=True):
    """A part of the compiler, and what exchanging it brings."""

    part: str
    since: Stage | None
    edits: Sequence[EditCount]
    figures: Mapping[str, Sequence[object]]
    failed: str | None


class PartsDocument(Struct, frozen=True, kw_only=True):
    """``upgrade --explain --json``: the parts of the compiler, the last one first."""

    schema: int
    kernel: str
    variant: str
    parts: Sequence[PartRow]


def document(
    paths: tuple[str, str], report: UpgradeReport, checked: check.CheckDocument | None
) -> UpgradeDocument:
    """The report as JSON, with the gate's verdicts where limits were given."""
    return UpgradeDocument(
        schema=SCHEMA,
        a=paths[0],
        b=paths[1],
        versions=by_key((change.name, (change.a, change.b)) for change in report.versions),
        compared=report.compared,
        same=report.same,
        reordered=report.reordered,
        alone=report.alone,
        edits=report.edits(),
        changes=list(map(_change_row, report.changes)),
        failed=report.refused,
        left_out=report.left_out,
        tunings=report.tunings,
        check=checked,
    )


def parts_document(
    kernel: Kernel, variant: Variant, parts: Sequence[PartExchange]
) -> PartsDocument:
    """What each part brings, as JSON."""
    return PartsDocument(
        schema=SCHEMA,
        kernel=kernel.name,
        variant=variant.id,
        parts=[
            PartRow(
                part=part.part,
                since=part.since,
                edits=[
                    EditCount(edit.stage, edit.gone, edit.come, 1, count)
                    for edit, count in part.edits.items()
                ],
                figures={figure.name: (figure.a, figure.b) for figure in part.figures},
                failed=part.failed,
            )
            for part in parts
        ],
    )


def parts_text(kernel: Kernel, variant: Variant, parts: Sequence[PartExchange]) -> Iterator[Text]:
    """A paragraph a part, then which of them change the kernel."""
    yield Text(shown(f"{short_title(kernel)} {variant.id}, one part more each time"), style="bold")
    for part in parts:
        since = f"the recorded {part.since.value}" if part.since else "the recorded Python"
        yield Text(shown(f"{part.part}, since {since}:"))
        if part.failed is not None:
            yield Text(shown(f"  refused: {part.failed}"), style="red")
        elif not part.edits and not part.figures:
            yield Text("  no change", style="dim")
        if part.figures:
            figures = (f"{f.name} {figure_text(f.name, (f.a, f.b))}" for f in part.figures)
            yield Text(shown(f"  {', '.join(figures)}"))
        most = sorted(part.edits, key=lambda edit: (edit.moves, -part.edits[edit], edit))
        for edit in most[:MAX_PART_EDITS]:
            yield Text(shown(f"  {edit_text(edit)} ({plural(part.edits[edit], 'instruction')})"))
        if len(most) > MAX_PART_EDITS:
            yield Text(f"  … {plural(len(most) - MAX_PART_EDITS, 'more edit')}", style="dim")
    changing: list[str] = []
    refused: list[str] = []
    for part in parts:
        if part.failed is not None:
            refused.append(part.part)
        elif part.edits or part.figures:
            # What was refused could not be exchanged alone: it is exchanged with the next part.
            changing.append(" or ".join((*refused, part.part)))
            refused = []
    end = f"the change comes with {'; with '.join(changing)}" if changing else "no part changes it"
    yield Text(shown(end), style="bold")


def _change_row(change: Change) -> UpgradedRow:
    return UpgradedRow(
        kernel=change.kernel.name,
        variant=change.a.id,
        in_use=change.in_use,
        first=change.first,
        edits=sum(change.edits.values()),
        figures={figure.name: (figure.a, figure.b) for figure in change.figures},
        estimates_us=change.estimates_us,
    )


def heading(report: UpgradeDocument) -> str:
    """``270 variants: 200 the same, 9 reordered, 61 changed, 0 that …``."""
    parts = [f"{report.same} the same"]
    if report.reordered:
        parts.append(f"{report.reordered} in other order or registers alone")
    parts.append(f"{len(report.changes)} changed")
    refused = sum(failed.compiled_before for failed in report.failed)
    if refused:
        parts.append(f"{refused} refused now")
    if len(report.failed) > refused:
        parts.append(f"{len(report.failed) - refused} compiled only now")
    if report.alone:
        parts.append(f"{report.alone} in one recording alone, not compared")
    return f"{plural(report.compared, 'variant')}: {', '.join(parts)}"


def edit_text(edit: Edit) -> str:
    """``add.f32 + cvt.f32.f16 became add.rn.f32.f16``."""
    gone, come = " + ".join(edit.gone), " + ".join(edit.come)
    if not gone:
        return f"{come} came"
    return f"{gone} became {come}" if come else f"{gone} went"


def figure_text(name: str, values: Iterable[object]) -> str:
    """``52 → 56``."""
    texts = (
        UNKNOWN if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in values
    )
    return f"{' → '.join(texts)}{' %' if name == 'occupancy' else ''}"


def estimate_text(estimates_us: Iterable[tuple[float, float, float]]) -> str:
    """Middles before and after: ``30.4 → 31.2``."""
    return " → ".join(microseconds(us) for us, _, _ in estimates_us)


def tuning_text(tuning: EstimatedTuning) -> str:
    """``softmax by estimate: the best of 8 candidates moved, num_warps 8 → 4: …``, or stays."""
    known = "" if tuning.estimated == tuning.candidates else f"{tuning.estimated} of "
    name = base_name(tuning.kernel)
    text = f"{name} by estimate: the best of {known}{tuning.candidates} candidates"
    old, new = tuning.before, tuning.after
    if not tuning.moved:
        return f"{text} stays, {settings_text(old.config)}"
    names = [name for name, value in new.config.items() if old.config.get(name) != value]
    settings = (f"{name} {old.config.get(name)} → {new.config[name]}" for name in names)
    times = f"{microseconds(new.us[1])} µs, with the former {microseconds(old.us[1])}"
    return f"{text} moved, {', '.join(settings)}: {times}"
