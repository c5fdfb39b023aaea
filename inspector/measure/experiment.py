"""Compares experimental variants with the recorded kernel: registers, occupancy, machine code."""

import hashlib

from msgspec import Struct, field
from msgspec.structs import replace

from inspector.analyse.occupancy import occupancy
from inspector.base.model import Call, Compilation, Kernel, Resources, Stage, Variant
from inspector.listing.cubin import read_cubin
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
        again = self.outcome.recompiled.label
        return next((one for one in self.columns[1:] if one.label == again), self.recorded)

    @property
    def tried(self) -> tuple[ExperimentColumn, ...]:
        return tuple(one for one in self.columns[1:] if one.label != self.outcome.recompiled.label)


def experiment_of(outcome: TryOutcome, cache: DerivedCache) -> Experiment:
    request = outcome.request
    target = request.variant.target or ""
    compilation = Compilation(request.name, request.stage.value, target, RECORDED)
    first = TriedColumn(RECORDED, compilation, request.variant, outcome.recorded_metadata)
    beside = (
        [] if outcome.same_compiler or outcome.recompiled.variant is None else [outcome.recompiled]
    )
    calls = [c for c in request.variant.calls if c.kind == "triton" and c.block is not None]
    call = max(calls, key=lambda c: c.count, default=None)
    made = [first, *(_with_call(one, call) for one in (*beside, *outcome.columns))]
    variants = tuple(one.variant for one in made if one.variant is not None)
    kernel = replace(outcome.kernel, variants=variants)
    reader = Reader(replace(outcome.recording, kernels=(kernel,)), cache)
    list(reader.figures(variants))
    columns = tuple(column(reader, one.label, one.compilation, one.variant) for one in made)
    return Experiment(outcome, reader, kernel, columns)


def _with_call(one: TriedColumn, call: Call | None) -> TriedColumn:
    """Give an experimental variant the recorded call, so that both have hints on the launch."""
    variant = one.variant
    if variant is None or call is None or call.block is None:
        return one
    block, shared = block_of(one, call.block), shared_of(one, call.shared_bytes)
    own = replace(call, hash=variant.hash, block=block, shared_bytes=shared)
    return replace(one, variant=replace(variant, calls=(own,)))


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
    card = reader.card(variant)
    full = card.occupancy
    if full is None and threads is not None and card.device is not None:
        taken, own = card.resources, card.static_shared_bytes
        shared = None if own is None else own + (card.dynamic_shared_bytes or 0)
        size = card.threads or threads
        full = occupancy(card.device, size, taken.registers, shared, barriers=taken.barriers)
    sass, file = card.stage_content(Stage.SASS), variant.stages.get(Stage.SASS)
    cubin = None if file is None else read_cubin(file.content.read())
    code = None if cubin is None else cubin.code.get(variant.symbol)
    return ExperimentColumn(
        label,
        compilation,
        variant,
        reader.resources(variant),
        sass.mix.total if sass is not None and sass.mix is not None else None,
        None if full is None else full.percent,
        None if code is None else hashlib.sha256(code).hexdigest(),
    )
