"""Typed rows of ``diff --json``: two variants, two files, two recordings, variants of a kernel.

A field is a key of the JSON, in its order. None is unknown, never 0. ``a`` and ``b`` are the two
sides. A change of a figure has the unit of the figure's name: ``time_us`` is in µs, ``…_bytes`` in
bytes, ``…_percent`` in percent; other figures are counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from msgspec import UNSET, Struct, UnsetType

from inspector.analysis.hints.subject import Finding
from inspector.analysis.tuner_times import RoundTimes
from inspector.base.model import Resources, Stage
from inspector.diff.beside import loud
from inspector.diff.compare import Compared, Files, Paired
from inspector.diff.listings import FunctionPair, ListingDiff
from inspector.diff.matching import Hunk, Op
from inspector.diff.recordings import ChangeKind
from inspector.diff.summary import AccessChange, FigureChange, Summary, VariantSide
from inspector.diff.variants import VariantRow
from inspector.render.jsons import SCHEMA, ordered

# -- parts of a comparison ------------------------------------------------------------------------


class PathRow(Struct, frozen=True):
    """A side that is a whole file or recording."""

    path: str


class DiffSide(Struct, frozen=True, kw_only=True):
    """A side that is one variant, and the stages that it has; ``config`` is without nvcc's flags.

    ``target`` is an architecture such as ``sm_90a``.
    """

    path: str
    kernel: str
    variant: str
    target: str | None
    config: Mapping[str, object]
    stages: list[Stage]


class ChangeRow(Struct, frozen=True):
    """A named figure, setting or version on both sides; a whole number is an integer."""

    name: str
    a: object
    b: object


class OpcodeChangeRow(Struct, frozen=True):
    """A full opcode, and the instructions with it on each side."""

    opcode: str
    a: object
    b: object


class CostChangeRow(Struct, frozen=True):
    """A class of cost, and the instructions in it on each side."""

    cost: str
    a: object
    b: object


class HintRow(Struct, frozen=True):
    """A hint without its lines, which are of one of two listings."""

    rule: str
    severity: str
    text: str


class HintChanges(Struct, frozen=True, kw_only=True):
    """Hints of one side alone.

    Those of ``unknown_a`` are of b, and whether a has them is unknown; ``unknown_b`` the reverse.
    """

    gained: list[HintRow]
    lost: list[HintRow]
    unknown_a: list[HintRow]
    unknown_b: list[HintRow]


class SourceChange(Struct, frozen=True):
    """Lines of the kernel's source that only one side has."""

    only_a: int
    only_b: int


class FunctionPairRow(Struct, frozen=True, kw_only=True):
    """Two functions that were compared, by name; None if one side has none.

    ``resources`` are those that differ, of two files.
    """

    a: str | None
    b: str | None
    identical: bool
    resources: list[ChangeRow] | UnsetType = UNSET


class HunkRow(Struct, frozen=True):
    """Lines ``a[0]`` to ``a[1]``, excluded, and those of ``b``; lines count from 1."""

    op: Op
    a: tuple[int, int]
    b: tuple[int, int]


def change_rows(changes: Iterable[FigureChange]) -> list[ChangeRow]:
    return [
        ChangeRow(change.name, _json_number(change.a), _json_number(change.b)) for change in changes
    ]


def hint_rows(findings: Iterable[Finding]) -> list[HintRow]:
    return [HintRow(finding.rule, finding.severity, finding.text) for finding in findings]


def hunk_rows(diff: ListingDiff) -> list[HunkRow]:
    """The hunks of a text, without those that say nothing of the code."""
    return [_hunk_row(hunk) for hunk in loud(diff.hunks)]


def diff_side(side: VariantSide, path: str) -> DiffSide:
    return DiffSide(
        path=path,
        kernel=side.kernel.name,
        variant=side.variant.id,
        target=side.variant.target,
        config=_without_flags(side.variant.config),
        stages=ordered(side.variant.stages),
    )


def _json_number(value: object) -> object:
    """A whole float as an integer, an infinity or NaN as text; any other value as it is."""
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return str(value)
    return int(value) if value.is_integer() else value


def _hunk_row(hunk: Hunk) -> HunkRow:
    return HunkRow(hunk.op, hunk.a, hunk.b)


def _without_flags(config: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in config.items() if name != "flags"}


def _function_pair_row(
    pair: FunctionPair, resources: list[ChangeRow] | UnsetType = UNSET
) -> FunctionPairRow:
    return FunctionPairRow(
        a=None if pair.a is None else pair.a.name,
        b=None if pair.b is None else pair.b.name,
        identical=pair.identical,
        resources=resources,
    )


# -- two variants ---------------------------------------------------------------------------------


class VariantsDiff(Struct, frozen=True, kw_only=True):
    """Two variants at one stage.

    ``resources`` has every figure, also those that are alike; the other lists have what differs.
    ``first_difference`` is the first differing stage beneath an equal one. ``rounds`` are those of
    a tuner that timed both.
    """

    schema: int
    a: DiffSide
    b: DiffSide
    stage: Stage
    identical: bool
    functions: list[FunctionPairRow]
    hunks: list[HunkRow]
    resources: list[ChangeRow]
    opcodes: list[OpcodeChangeRow]
    costs: list[CostChangeRow]
    accesses: tuple[AccessChange, ...]
    hints: HintChanges
    config: list[ChangeRow]
    versions: list[ChangeRow]
    arguments: list[ChangeRow]
    source: SourceChange | None
    first_difference: Stage | None
    rounds: tuple[RoundTimes, ...]
    explanation: tuple[str, ...]


def variants_diff(comparison: Compared, paths: tuple[str, str]) -> VariantsDiff:
    summary = comparison.summary
    diff = comparison.diff
    return VariantsDiff(
        schema=SCHEMA,
        a=diff_side(comparison.a, paths[0]),
        b=diff_side(comparison.b, paths[1]),
        stage=comparison.stage,
        identical=diff.identical,
        functions=list(map(_function_pair_row, diff.functions)),
        hunks=hunk_rows(diff),
        resources=change_rows(summary.resources),
        opcodes=[OpcodeChangeRow(change.name, change.a, change.b) for change in summary.opcodes],
        costs=[CostChangeRow(change.name, change.a, change.b) for change in summary.costs],
        accesses=summary.accesses,
        hints=_hint_changes(summary),
        config=change_rows(summary.config),
        versions=change_rows(summary.versions),
        arguments=change_rows(summary.arguments),
        source=None if summary.source is None else SourceChange(*summary.source),
        first_difference=summary.first,
        rounds=summary.rounds,
        explanation=comparison.explanation,
    )


def _hint_changes(summary: Summary) -> HintChanges:
    return HintChanges(
        gained=hint_rows(summary.gained),
        lost=hint_rows(summary.lost),
        unknown_a=hint_rows(summary.unknown_a),
        unknown_b=hint_rows(summary.unknown_b),
    )


# -- two files ------------------------------------------------------------------------------------


class FilesDiff(Struct, frozen=True, kw_only=True):
    """Two files of several kernels at one stage.

    ``resources``, ``opcodes`` and ``explanation`` are of two variants, and empty here.
    """

    schema: int
    a: PathRow
    b: PathRow
    stage: Stage
    identical: bool
    functions: list[FunctionPairRow]
    hunks: list[HunkRow]
    resources: list[ChangeRow]
    opcodes: list[OpcodeChangeRow]
    explanation: list[str]


def files_diff(comparison: Files, paths: tuple[str, str]) -> FilesDiff:
    diff = comparison.diff
    return FilesDiff(
        schema=SCHEMA,
        a=PathRow(paths[0]),
        b=PathRow(paths[1]),
        stage=comparison.stage,
        identical=diff.identical,
        functions=[
            _function_pair_row(pair, change_rows(changes))
            for pair, changes in zip(diff.functions, comparison.figures, strict=True)
        ],
        hunks=hunk_rows(diff),
        resources=[],
        opcodes=[],
        explanation=[],
    )


# -- two recordings -------------------------------------------------------------------------------


class ChangeCounts(Struct, frozen=True, kw_only=True):
    """How many pairs of variants are in each state."""

    same: int
    changed: int
    added: int
    removed: int


class VariantPairRow(Struct, frozen=True, kw_only=True):
    """Two variants by id, or one without a counterpart; ``resources`` are those that differ.

    ``kernel_b`` is b's kernel where it has another name.
    """

    kernel: str
    state: ChangeKind
    a: str | None
    b: str | None
    resources: list[ChangeRow]
    kernel_b: str | UnsetType = UNSET


class RecordingsDiff(Struct, frozen=True, kw_only=True):
    """Two recordings; ``versions`` are of programs whose version differs."""

    schema: int
    a: PathRow
    b: PathRow
    versions: list[ChangeRow]
    identical: bool
    counts: ChangeCounts
    pairs: list[VariantPairRow]


def recordings_diff(
    paths: tuple[str, str], pairs: Sequence[Paired], versions: Iterable[FigureChange] = ()
) -> RecordingsDiff:
    states = [state for _, _, state, _ in pairs]
    return RecordingsDiff(
        schema=SCHEMA,
        a=PathRow(paths[0]),
        b=PathRow(paths[1]),
        versions=change_rows(versions),
        identical=all(state is ChangeKind.SAME for state in states),
        counts=ChangeCounts(
            same=states.count(ChangeKind.SAME),
            changed=states.count(ChangeKind.CHANGED),
            added=states.count(ChangeKind.ADDED),
            removed=states.count(ChangeKind.REMOVED),
        ),
        pairs=list(map(_variant_pair_row, pairs)),
    )


def _variant_pair_row(pair: Paired) -> VariantPairRow:
    a, b, state, figures = pair
    names = [side.kernel.name for side in (a, b) if side is not None]
    return VariantPairRow(
        kernel=next(iter(names), ""),
        state=state,
        a=None if a is None else a.variant.id,
        b=None if b is None else b.variant.id,
        resources=change_rows(figures),
        kernel_b=names[1] if len(set(names)) > 1 else UNSET,
    )


# -- variants of a kernel -------------------------------------------------------------------------


class TableRow(Struct, frozen=True, kw_only=True):
    """A variant of a kernel, or a configuration of which none was recorded.

    ``time_us`` is the tuner's figure, else what was measured, ``time_by`` ``tuner`` or the
    stopwatch. ``compiled`` is false where no variant was compiled, ``reason`` says why.
    ``occupancy_percent`` is theoretical, ``instructions`` the static count of the table's stage.
    ``config`` is without nvcc's flags.
    """

    kernel: str
    variant: str | None
    compiled: bool | None
    target: str | None
    config: Mapping[str, object]
    winner: bool | None
    time_us: float | None
    time_by: str | None
    reason: str | None
    resources: Resources | None
    occupancy_percent: float | None
    instructions: int | None


class VariantTable(Struct, frozen=True):
    """All variants of a kernel, or of several."""

    schema: int
    variants: list[TableRow]


DiffDocument = VariantsDiff | FilesDiff | RecordingsDiff | VariantTable


def variant_table(rows: Iterable[VariantRow]) -> VariantTable:
    return VariantTable(SCHEMA, list(map(_table_row, rows)))


def _table_row(row: VariantRow) -> TableRow:
    variant = row.variant
    return TableRow(
        kernel=row.kernel.name,
        variant=None if variant is None else variant.id,
        compiled=row.compiled,
        target=None if variant is None else variant.target,
        config=_without_flags(row.config),
        winner=row.winner,
        time_us=row.time_us,
        time_by=row.time_by,
        reason=row.reason,
        resources=None if variant is None else row.resources,
        occupancy_percent=row.occupancy,
        instructions=row.instructions,
    )
