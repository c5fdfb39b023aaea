"""Compares experimental variants with the recorded kernel: registers, occupancy, machine code."""

import hashlib

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analysis.occupancy import occupancy
from inspector.base.model import Call, Compilation, Kernel, Resources, Stage, Variant
from inspector.parsers.cubin import read_cubin
from inspector.reader.reader import Reader
from inspector.recording.layout import DerivedCache
from inspector.sources.trying import TriedColumn, TryOutcome, block_of, shared_of

RECORDED = "recorded"


class ExperimentColumn(Struct, frozen=True):
    """One column of a trial; the first is the recorded variant's.

    ``instructions`` counts SASS, ``occupancy`` is in percent, ``code`` is a digest.
    """

    label: str
    compilation: Compilation
    variant: Variant | None
    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    occupancy: float | None = None
    code: str | None = None


class Experiment(Struct, frozen=True):
    """Experimental variants; ``reader`` reads them and the recorded variant."""

    outcome: TryOutcome
    reader: Reader
    kernel: Kernel
    columns: tuple[ExperimentColumn, ...]

    @property
    def recorded(self) -> ExperimentColumn:
        return self.columns[0]

    @property
    def base(self) -> ExperimentColumn:
        """The column to compare with: the recorded text compiled here if that gives other code,
        else the recorded variant."""
        recompiled_label = self.outcome.recompiled.label
        return next(
            (candidate for candidate in self.columns[1:] if candidate.label == recompiled_label),
            self.recorded,
        )

    @property
    def tried(self) -> tuple[ExperimentColumn, ...]:
        return tuple(
            column for column in self.columns[1:] if column.label != self.outcome.recompiled.label
        )


def experiment_of(outcome: TryOutcome, cache: DerivedCache) -> Experiment:
    request = outcome.request
    target = request.variant.target or ""
    compilation = Compilation(request.name, request.stage.value, target, RECORDED)
    first = TriedColumn(RECORDED, compilation, request.variant, outcome.recorded_metadata)
    recompiled = (
        [] if outcome.same_compiler or outcome.recompiled.variant is None else [outcome.recompiled]
    )
    calls = [c for c in request.variant.calls if c.kind == "triton" and c.block is not None]
    call = max(calls, key=lambda c: c.count, default=None)
    tried_columns = [
        first,
        *(_with_call(tried_column, call) for tried_column in (*recompiled, *outcome.columns)),
    ]
    variants = tuple(
        tried_column.variant for tried_column in tried_columns if tried_column.variant is not None
    )
    kernel = replace(outcome.kernel, variants=variants)
    reader = Reader(replace(outcome.recording, kernels=(kernel,)), cache)
    list(reader.facts.read_resources(variants))
    columns = tuple(
        column(reader, tried_column.label, tried_column.compilation, tried_column.variant)
        for tried_column in tried_columns
    )
    return Experiment(outcome, reader, kernel, columns)


def _with_call(tried_column: TriedColumn, call: Call | None) -> TriedColumn:
    """Give an experimental variant the recorded call, so that both have hints on the launch."""
    variant = tried_column.variant
    if variant is None or call is None or call.block is None:
        return tried_column
    block = block_of(tried_column, call.block)
    shared = shared_of(tried_column, call.shared_bytes)
    variant_call = replace(call, hash=variant.hash, block=block, shared_bytes=shared)
    return replace(tried_column, variant=replace(variant, calls=(variant_call,)))


def column(
    reader: Reader,
    label: str,
    compilation: Compilation,
    variant: Variant | None,
    threads: int | None = None,
) -> ExperimentColumn:
    """The figures of a variant; its occupancy with blocks of ``threads`` threads without dynamic
    shared memory, where only that is not known."""
    if variant is None:
        return ExperimentColumn(label, compilation, None)
    card = reader.facts.card(variant)
    full = card.occupancy
    if full is None and threads is not None and card.device is not None:
        resources = card.resources
        static_shared = card.static_shared_bytes
        shared = None if static_shared is None else static_shared + (card.dynamic_shared_bytes or 0)
        size = card.threads or threads
        full = occupancy(
            card.device, size, resources.registers, shared, barriers=resources.barriers
        )
    sass = card.stage_content(Stage.SASS)
    file = variant.stages.get(Stage.SASS)
    cubin = None if file is None else read_cubin(file.content.read())
    code = None if cubin is None else cubin.code.get(variant.symbol)
    return ExperimentColumn(
        label,
        compilation,
        variant,
        reader.facts.resources(variant),
        sass.mix.total if sass is not None and sass.mix is not None else None,
        None if full is None else full.percent,
        None if code is None else hashlib.sha256(code).hexdigest(),
    )
