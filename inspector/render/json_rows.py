"""Typed rows of JSON: calls, failures, tunings, variants, kernels, lines of a listing.

A field is a key of the JSON, in its order. None is unknown, never 0.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from inspector.analysis.function_facts import Consumer, Wait
from inspector.analysis.line_annotations import (
    NO_WORDS,
    NOTHING_TOLD,
    Rolled,
    Samples,
    Told,
    Words,
)
from inspector.base.errors import PtxviewError
from inspector.base.model import (
    Argument,
    Call,
    ChoiceUse,
    CompilerMessage,
    Configuration,
    Failure,
    GpuTime,
    Kernel,
    MadeFrom,
    Note,
    Origin,
    Resources,
    Stage,
    Tuning,
    Variant,
)
from inspector.base.stage import Location
from inspector.parsers.line import Control, Function, Kind, Line
from inspector.render.card import CardRow
from inspector.render.jsons import ordered, pick_fields
from inspector.render.ncu_rows import NcuVariantRow
from inspector.render.pictures.picture import Picture
from inspector.render.timings import LaunchTimeRow, TimingRow
from inspector.verify.verdicts import Verdict

Extent3 = tuple[int, int, int]
"""x, y and z of a grid in blocks, or of a block in threads."""


# -- calls ----------------------------------------------------------------------------------------


class GpuTimeRow(Struct, frozen=True):
    """What CUPTI recorded of launches: how many, and µs of their median and quartiles."""

    timed: int
    median_us: float
    low_us: float
    high_us: float


class CallRow(Struct, frozen=True, kw_only=True):
    """One distinct call. ``first`` orders the calls of a process."""

    grid: Extent3 | None
    block: Extent3 | None
    shared_bytes: int | None
    count: int
    first: int | None
    arguments: tuple[Argument, ...]
    operators: tuple[str, ...]
    failed: str | None
    gpu_time: GpuTimeRow | None
    shares: list[tuple[str, str]]
    share_offsets: list[int]


def gpu_time_row(time: GpuTime | None) -> GpuTimeRow | None:
    if time is None:
        return None
    low, median, high = time.quartiles_us
    return GpuTimeRow(time.timed, median_us=median, low_us=low, high_us=high)


def call_row(call: Call) -> CallRow:
    return CallRow(
        grid=call.grid,
        block=call.block,
        shared_bytes=call.shared_bytes,
        count=call.count,
        first=call.first,
        arguments=call.arguments,
        operators=call.operators,
        failed=call.failed,
        gpu_time=gpu_time_row(call.gpu_time),
        shares=[(share.first, share.second) for share in call.shares],
        share_offsets=[share.offset_bytes for share in call.shares],
    )


def named_call_json(call: Call) -> dict[str, object]:
    """A call with what it is of."""
    return {"kind": call.kind, "name": call.name, **pick_fields(call_row(call))}


# -- failures and tunings -------------------------------------------------------------------------


class FailureRow(Struct, frozen=True, kw_only=True):
    """Why a variant, a graph or a build failed, with the place of the first message that has one.

    ``required`` and ``limit`` are of the ``resource`` that the device has too little of.
    """

    stage: str | None
    tool: str | None
    kind: str | None
    message: str
    file: str | None
    line: int | None
    column: int | None
    text: str | None
    messages: tuple[CompilerMessage, ...]
    command: str | None
    required: int | None
    limit: int | None
    resource: str | None
    log: str | None


class TuningRow(Struct, frozen=True, kw_only=True):
    """One time that a kernel was tuned; ``winner`` is a variant's id, ``seconds`` of measuring."""

    key: Mapping[str, object] | tuple[object, ...] | None
    by: str
    winner: str | None
    best_config: Mapping[str, object] | None
    stopwatch: str | None
    method: str | None
    from_cache: bool
    seconds: float | None
    operation: str | None
    uses: tuple[ChoiceUse, ...]
    configurations: list["ConfigurationRow"]


class ConfigurationRow(Struct, frozen=True, kw_only=True):
    """A candidate of a tuning: µs that the tuner measured."""

    config: Mapping[str, object]
    variant: str | None
    time_us: float | None
    quantiles_us: tuple[float, ...] | None
    reason: str | None
    maker: str | None


def failure_row(failure: Failure | None) -> FailureRow | None:
    if failure is None:
        return None
    log = None
    with suppress(PtxviewError):
        log = None if failure.log is None else failure.log.read().decode("utf-8", "replace")
    first = failure.first
    return FailureRow(
        stage=failure.stage,
        tool=failure.tool,
        kind=failure.kind,
        message=failure.message,
        file=None if first is None else first.file,
        line=None if first is None else first.line,
        column=None if first is None else first.column,
        text=None if first is None else first.text,
        messages=failure.messages,
        command=failure.command,
        required=failure.required,
        limit=failure.limit,
        resource=failure.resource,
        log=log,
    )


def tuning_row(tuning: Tuning) -> TuningRow:
    winner = tuning.winner
    return TuningRow(
        key=tuning.key,
        by=tuning.tuner,
        winner=None if winner is None else winner.variant,
        best_config=None if winner is None else winner.config,
        stopwatch=tuning.stopwatch,
        method=tuning.method,
        from_cache=tuning.from_cache,
        seconds=tuning.seconds,
        operation=tuning.operation,
        uses=tuning.uses,
        configurations=list(map(configuration_row, tuning.configurations)),
    )


def configuration_row(configuration: Configuration) -> ConfigurationRow:
    return ConfigurationRow(
        config=configuration.config,
        variant=configuration.variant,
        time_us=configuration.time_us,
        quantiles_us=configuration.quantiles_us,
        reason=configuration.reason,
        maker=configuration.maker,
    )


# -- variants and kernels -------------------------------------------------------------------------


class VariantMeasures(Struct, frozen=True):
    """What is read or measured of a variant, beside what was recorded of it.

    ``hints`` is their number, None where they are not counted yet; ``made_by`` the versions of the
    programs that made it.
    """

    made_by: Mapping[str, str] | None = None
    ncu: NcuVariantRow | None = None
    hints: int | None = None
    timing: TimingRow | None = None
    launch_time: LaunchTimeRow | None = None


class VariantRow(Struct, frozen=True, kw_only=True):
    """One compilation of a kernel.

    ``launches`` and ``benchmarks`` count launches of the program and of autotuning, ``ranks`` are
    those that compiled it. ``missing`` says of a stage why it is absent.
    """

    id: str
    hash: str
    cache_key: str | None
    target: str | None
    config: Mapping[str, object]
    stages: list[Stage]
    missing: Mapping[Stage, str]
    signature: Mapping[str, str] | None
    specialization: Mapping[str, object] | None
    resources: Resources
    tile: str | None
    cache_hit: bool | None
    autotune: Mapping[str, object] | None
    ranks: tuple[int, ...]
    launches: int | None
    launches_exact: bool | None
    failed: str | None
    maker: str | None
    library: str | None
    benchmarks: int | None
    error: FailureRow | None
    calls: list[CallRow]
    made_by: Mapping[str, str] | None
    ncu: NcuVariantRow | None
    hints: int | None
    timing: TimingRow | None
    launch_time: LaunchTimeRow | None


class KernelRow(Struct, frozen=True, kw_only=True):
    """A GPU function with its compilations; ``ops`` and ``made_from`` are of a generated one."""

    id: str
    name: str
    demangled: str
    origin: Origin
    ops: tuple[str, ...] | None
    made_from: tuple[MadeFrom, ...] | None
    variants: list[VariantRow]
    autotune: list[TuningRow]
    tried_for: str | None
    verified: Verdict | None


ResourcesOf = Callable[[Variant], Resources]
MeasuresOf = Callable[[Kernel, Variant], VariantMeasures]
NO_MEASURES = VariantMeasures()


def variant_row(variant: Variant, resources: Resources, measures: VariantMeasures) -> VariantRow:
    stages = variant.stages
    missing = variant.missing
    return VariantRow(
        id=variant.id,
        hash=variant.hash,
        cache_key=variant.cache_key,
        target=variant.target,
        config=variant.config,
        stages=ordered(stages),
        missing={stage: missing[stage] for stage in ordered(missing) if stage not in stages},
        signature=variant.signature or None,
        specialization=variant.specialization or None,
        resources=resources,
        tile=variant.tile,
        cache_hit=variant.cache_hit,
        autotune=variant.autotune,
        ranks=variant.ranks,
        launches=variant.launches,
        launches_exact=variant.launches_exact,
        failed=variant.failed,
        maker=variant.maker,
        library=variant.library,
        benchmarks=variant.benchmarks,
        error=failure_row(variant.error),
        calls=list(map(call_row, variant.calls)),
        made_by=measures.made_by,
        ncu=measures.ncu,
        hints=measures.hints,
        timing=measures.timing,
        launch_time=measures.launch_time,
    )


def kernel_row(
    kernel: Kernel,
    resources_of: ResourcesOf,
    measures_of: MeasuresOf = lambda kernel, variant: NO_MEASURES,
    verified: Verdict | None = None,
) -> KernelRow:
    fusion = kernel.fusion
    return KernelRow(
        id=kernel.id,
        name=kernel.name,
        demangled=kernel.demangled,
        origin=kernel.origin,
        ops=None if fusion is None else fusion.ops,
        made_from=None if fusion is None else fusion.made_from,
        variants=[
            variant_row(variant, resources_of(variant), measures_of(kernel, variant))
            for variant in kernel.variants
        ],
        autotune=list(map(tuning_row, kernel.autotune)),
        tried_for=kernel.tried_for,
        verified=verified,
    )


# -- lines ----------------------------------------------------------------------------------------


class BlocksRow(Struct, frozen=True):
    """How many blocks of a call were run, of how many."""

    run: int
    of: int


class NoteRow(Struct, frozen=True, kw_only=True):
    """A hint; ``blocks`` are those in which it was counted, ``gain_percent`` is a bound."""

    rule: str
    severity: str
    text: str
    estimated: bool
    blocks: BlocksRow | None
    gain_percent: float | None


class StagesHintRow(NoteRow, frozen=True, kw_only=True):
    """A hint with the first of its lines, by stage; lines count from 1."""

    lines: Mapping[Stage, list[int]]


class ListingHintRow(NoteRow, frozen=True, kw_only=True):
    """A hint with its lines in one listing; lines count from 1."""

    lines: list[int]


class ControlRow(Struct, frozen=True, kw_only=True, rename={"yields": "yield"}):
    """The scheduling half of a SASS encoding: ``stall`` in cycles, ``wait`` and ``reuse`` masks."""

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait: int
    reuse: int


class LineRow(Struct, frozen=True, kw_only=True):
    """A line of a stage; ``n`` counts from 1. ``links`` and ``definitions`` are line numbers.

    ``live`` counts live registers by class, ``rolled_up`` is what its SASS comes to.
    """

    n: int
    text: str
    kind: Kind
    base: str | None
    opcode: str | None
    defs: tuple[str, ...]
    uses: tuple[str, ...]
    source: Location | None
    links: Mapping[Stage, tuple[int, ...]]
    live: Mapping[str, int] | None
    rolled_up: Rolled | None
    samples: Samples | None
    estimated_percent: float | None
    control: ControlRow | None
    sentence: str | None
    waits: tuple[str, ...]
    waits_for: tuple[Wait, ...]
    consumer: Consumer | None
    definitions: Mapping[str, tuple[int, ...]]
    notes: list[NoteRow]


class FunctionRow(Struct, frozen=True, kw_only=True):
    """A function of a listing, lines ``first`` to ``last``; of a recorded kernel with its facts."""

    kernel: str
    variant: str | None
    resources: Resources | None
    notes: list[NoteRow]
    card: CardRow | None
    ncu: NcuVariantRow | None
    first: int
    last: int
    timing: TimingRow | UnsetType | None = UNSET
    launch_time: LaunchTimeRow | UnsetType | None = UNSET
    pictures: Annotated[
        Sequence[Picture] | UnsetType, Meta(description="those of the card, as they are drawn")
    ] = UNSET


def note_row(note: Note) -> NoteRow:
    return NoteRow(
        rule=note.rule,
        severity=note.severity,
        text=note.text,
        estimated=note.estimated,
        blocks=None if note.blocks is None else BlocksRow(*note.blocks),
        gain_percent=None if note.gain is None else 100 * note.gain,
    )


def stages_hint_row(note: Note, lines: Mapping[Stage, list[int]]) -> StagesHintRow:
    return StagesHintRow(**asdict(note_row(note)), lines=lines)


def listing_hint_row(note: Note, lines: list[int]) -> ListingHintRow:
    return ListingHintRow(**asdict(note_row(note)), lines=lines)


def control_row(control: Control | None) -> ControlRow | None:
    if control is None:
        return None
    return ControlRow(
        stall=control.stall,
        yields=control.yield_,
        write_barrier=control.write_barrier,
        read_barrier=control.read_barrier,
        wait=control.wait,
        reuse=control.reuse,
    )


def line_row(
    line: Line,
    links: Mapping[Stage, Mapping[int, tuple[int, ...]]],
    annotation: Told = NOTHING_TOLD,
    words: Words = NO_WORDS,
    estimated_percent: float | None = None,
) -> LineRow:
    n = line.n
    return LineRow(
        n=n,
        text=line.text,
        kind=line.kind,
        base=line.base,
        opcode=line.opcode,
        defs=line.defs,
        uses=line.uses,
        source=line.source,
        links={stage: linked[n] for stage, linked in links.items() if n in linked},
        live=annotation.live,
        rolled_up=annotation.rolled,
        samples=annotation.samples,
        estimated_percent=estimated_percent,
        control=control_row(line.control),
        sentence=words.sentence,
        waits=words.waits,
        waits_for=words.waits_for,
        consumer=words.consumer,
        definitions=words.definitions,
        notes=list(map(note_row, annotation.notes)),
    )


def function_row(
    name: str,
    function: Function,
    variant: Variant | None = None,
    resources: Resources | None = None,
    notes: Sequence[Note] = (),
    card: CardRow | None = None,
    ncu: NcuVariantRow | None = None,
    timing: TimingRow | UnsetType | None = UNSET,
    launch_time: LaunchTimeRow | UnsetType | None = UNSET,
    pictures: Sequence[Picture] | UnsetType = UNSET,
) -> FunctionRow:
    return FunctionRow(
        kernel=name,
        variant=None if variant is None else variant.id,
        resources=resources,
        notes=list(map(note_row, notes)),
        card=card,
        ncu=ncu,
        first=function.first,
        last=function.last,
        timing=timing,
        launch_time=launch_time,
        pictures=pictures,
    )
