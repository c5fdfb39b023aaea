"""Typed rows of what torch.compile did as JSON: compiles, graph breaks, kernels, guards.

A field is a key of the JSON, in its order. None is unknown, never 0. ``began`` is in seconds since
1970.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from inspector.base.model import (
    CacheLookup,
    CompilePhase,
    FrameCompile,
    GuardFailure,
    KernelCompile,
    Recording,
    ShapeFact,
    UserFrame,
)
from inspector.render.compiles import (
    BreakPlace,
    Guard,
    Stretch,
    Table,
    all_stretches,
    break_places,
    by_part,
    failed_compiles,
    failed_seconds,
    length,
    lookups,
    recompiles,
    timeline_rows,
)


class FrameRow(Struct, frozen=True):
    """A line of the program, with its function and text if known."""

    file: str
    line: int
    function: str | None
    code: str | None


class GuardFailureRow(Struct, frozen=True, kw_only=True):
    """A guard that failed, and the compile that it is of."""

    guard: str
    compile: str | None
    code: str | None
    place: str | None
    stack: list[FrameRow]
    hints: Annotated[tuple[str, ...], Meta(description="torch's advice")]


class ShapeRow(Struct, frozen=True, kw_only=True):
    """A size that became a symbol, or stayed none."""

    kind: str
    symbol: str | None
    source: str | None
    value: str | None
    bounds: str | None
    expression: str | None
    reason: str | None
    stack: list[FrameRow]


class FrameCompileRow(Struct, frozen=True, kw_only=True):
    """One compile of a function; ``parts`` are seconds of each part of the compiler."""

    id: str
    direction: str
    process: int | None
    function: str
    file: str | None
    line: int | None
    began: float | None
    seconds: float | None
    parts: Mapping[str, float]
    phases: tuple[CompilePhase, ...]
    stack: list[FrameRow]
    breaks: int
    failures: list[GuardFailureRow]
    guards: int | None
    caches: tuple[CacheLookup, ...]
    shapes: list[ShapeRow]
    failed: str | None
    figures: Mapping[str, object]


class BreakRow(Struct, frozen=True, kw_only=True):
    """The graph breaks of one line for one reason; ``resumed`` compiles are of what comes after."""

    place: FrameRow | None
    reason: str
    explanation: str | None
    hints: tuple[str, ...]
    count: int
    compiles: list[str]
    stack: list[FrameRow]
    resumed: list[str]
    lost_seconds: float | None
    resumed_seconds: float | None
    text: str


class StepRow(Struct, frozen=True):
    """A step of a kernel's compile."""

    name: str
    seconds: float


class KernelCompileRow(Struct, frozen=True, kw_only=True):
    """One compile of a kernel ``by`` its maker."""

    name: str
    by: str
    began: float | None
    seconds: float | None
    steps: list[StepRow]
    cache_hit: bool | None
    hash: str | None
    process: int | None
    failed: str | None
    place: FrameRow | None


class FailedRow(Struct, frozen=True):
    """Compiles and kernels that failed, and the seconds they took together."""

    count: int
    seconds: float | None


class CompilesRow(Struct, frozen=True, kw_only=True):
    """What torch.compile did; ``seconds`` is the wall time of all compiles."""

    seconds: float | None
    phases: Annotated[Mapping[str, float], Meta(description="seconds of each part of the compiler")]
    compiles: list[FrameCompileRow]
    breaks: list[BreakRow]
    recompiles: list[str]
    caches: Annotated[
        Mapping[str, Mapping[str, int]], Meta(description="by cache, how often each outcome")
    ]
    kernels: list[KernelCompileRow]
    failed: Annotated[
        FailedRow,
        Meta(
            description="compiles and kernels that came to nothing, and the seconds they took "
            "together"
        ),
    ]


class GuardRow(Struct, frozen=True, kw_only=True):
    """A guard in torch's words."""

    kind: str
    expression: str
    hints: Annotated[tuple[str, ...], Meta(description="torch's advice")]
    code: str | None
    place: str | None


class CompileGuardsRow(Struct, frozen=True, kw_only=True):
    """The guards of a compile."""

    compile: str
    direction: str
    process: int | None
    function: str
    file: str | None
    line: int | None
    guards: list[GuardRow]


def compiles_row(rec: Recording, phases: Table) -> CompilesRow:
    rows = timeline_rows(rec, phases)
    stretches = {id(row.compilation): row.stretches for row in rows}
    everything = all_stretches(rows)
    failed = failed_compiles(rec)
    return CompilesRow(
        seconds=length((s.began, s.ended) for s in everything) if everything else None,
        phases=by_part(everything),
        compiles=[
            _frame_compile_row(frame, stretches.get(id(frame), ())) for frame in rec.frame_compiles
        ],
        breaks=list(map(_break_row, break_places(rec))),
        recompiles=[frame.id for frame in recompiles(rec)],
        caches={cache: dict(counts) for cache, counts in lookups(rec).items()},
        kernels=list(map(_kernel_compile_row, rec.kernel_compiles)),
        failed=FailedRow(len(failed), failed_seconds(failed)),
    )


def guards_row(frame: FrameCompile, guards: Iterable[Guard]) -> CompileGuardsRow:
    return CompileGuardsRow(
        compile=frame.id,
        direction=frame.direction,
        process=frame.process,
        function=frame.function,
        file=frame.file or None,
        line=frame.line,
        guards=[
            GuardRow(
                kind=guard.kind,
                expression=guard.expression,
                hints=guard.hints,
                code=guard.code or None,
                place=guard.place or None,
            )
            for guard in guards
        ],
    )


def _frame_compile_row(frame: FrameCompile, stretches: Iterable[Stretch]) -> FrameCompileRow:
    return FrameCompileRow(
        id=frame.id,
        direction=frame.direction,
        process=frame.process,
        function=frame.function,
        file=frame.file or None,
        line=frame.line,
        began=frame.began,
        seconds=frame.seconds,
        parts=by_part(stretches),
        phases=frame.phases,
        stack=list(map(_frame_row, frame.stack)),
        breaks=len(frame.breaks),
        failures=list(map(_guard_failure_row, frame.failures)),
        guards=frame.guard_count,
        caches=frame.caches,
        shapes=list(map(_shape_row, frame.shapes)),
        failed=frame.failed,
        figures=frame.figures,
    )


def _guard_failure_row(failure: GuardFailure) -> GuardFailureRow:
    return GuardFailureRow(
        guard=failure.guard,
        compile=failure.compile,
        code=failure.code or None,
        place=failure.place or None,
        stack=list(map(_frame_row, failure.stack)),
        hints=failure.hints,
    )


def _shape_row(fact: ShapeFact) -> ShapeRow:
    return ShapeRow(
        kind=fact.kind,
        symbol=fact.symbol,
        source=fact.source,
        value=fact.value,
        bounds=fact.bounds,
        expression=fact.expression,
        reason=fact.reason,
        stack=list(map(_frame_row, fact.stack)),
    )


def _break_row(break_place: BreakPlace) -> BreakRow:
    first = break_place.first
    return BreakRow(
        place=None if first.place is None else _frame_row(first.place),
        reason=first.reason,
        explanation=first.explanation or None,
        hints=first.hints,
        count=break_place.count,
        compiles=list(break_place.compiles),
        stack=list(map(_frame_row, first.stack)),
        resumed=list(break_place.resumed),
        lost_seconds=break_place.lost_seconds,
        resumed_seconds=break_place.resumed_seconds,
        text=first.text,
    )


def _kernel_compile_row(kernel: KernelCompile) -> KernelCompileRow:
    return KernelCompileRow(
        name=kernel.name,
        by=kernel.compiler,
        began=kernel.began,
        seconds=kernel.seconds,
        steps=[StepRow(name, duration) for name, duration in kernel.steps],
        cache_hit=kernel.hit,
        hash=kernel.hash,
        process=kernel.process,
        failed=kernel.failed,
        place=None if kernel.place is None else _frame_row(kernel.place),
    )


def _frame_row(frame: UserFrame) -> FrameRow:
    return FrameRow(frame.file, frame.line, frame.function or None, frame.code or None)
