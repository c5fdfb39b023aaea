"""Compares what readers read: two variants at one stage, and all variants of a kernel.

Nothing is run but the disassembler.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from inspector.analysis.accesses import instructions
from inspector.analysis.card import with_grid
from inspector.analysis.function_facts import FunctionFacts
from inspector.analysis.tuner_times import Codes, RoundTimes, overheads, rounds_of
from inspector.base.errors import PtxviewError, UsageError
from inspector.base.model import Kernel, Resources, Stage, Variant
from inspector.base.names import base_name
from inspector.diff import recordings, variants
from inspector.diff.beside import SideBySide
from inspector.diff.canonical import digest
from inspector.diff.explanation import explain
from inspector.diff.listings import diff_listings
from inspector.diff.recordings import ChangeKind, RecordedVariant
from inspector.diff.summary import (
    TUNER,
    FigureChange,
    Summary,
    VariantSide,
    opcodes,
    parameters,
    summarise,
    tile,
)
from inspector.diff.tiles import tiles_of
from inspector.diff.variants import VariantRow
from inspector.measure.time.results import StoredTime, comparable_times, times
from inspector.parsers.cubin import read_cubin
from inspector.parsers.line import Function, Listing
from inspector.reader.reader import Reader

T = TypeVar("T")
_MODULES = (Stage.TTIR, Stage.TTGIR, Stage.LLIR)
"""Stages whose files are one kernel's, with what it needs (layouts, attributes) outside of it."""
Functions = tuple[Function | None, Function | None]


class Compared(SideBySide, frozen=True):
    """Two variants at one stage; ``functions`` are None where the whole files were compared."""

    a: VariantSide
    b: VariantSide
    stage: Stage
    functions: Functions
    summary: Summary
    explanation: tuple[str, ...]


def stage_of(a: Variant, b: Variant, requested: Stage | None = None) -> Stage:
    """The stage that two are compared at: the one asked for, PTX, else the lowest that both have.

    Raises ``UsageError`` with the stages that there are.
    """
    common = [stage for stage in Stage if stage in a.stages and stage in b.stages]
    if requested is not None and requested in common:
        return requested
    if requested is None and common:
        return Stage.PTX if Stage.PTX in common else common[-1]
    if common:
        hint = f"Both have {', '.join(common)}."
    else:
        hint = f"a has {_stage_names(a)}; b has {_stage_names(b)}"
    if requested is None:
        both = f"{base_name(a.symbol)} and {base_name(b.symbol)}"
        raise UsageError(f"{both} have no stage in common", hint)
    lacking = b if requested in a.stages else a
    why = lacking.missing.get(requested, "it was not recorded")
    raise UsageError(f"there is no {requested.value} of {base_name(lacking.symbol)}: {why}", hint)


def _stage_names(variant: Variant) -> str:
    return ", ".join(stage for stage in Stage if stage in variant.stages) or "none"


# -- two variants ---------------------------------------------------------------------------------


def compare(
    readers: tuple[Reader, Reader],
    pair: tuple[Variant, Variant],
    stage: Stage,
    *,
    exact: bool = False,
    whole_files: bool = False,
) -> Compared:
    """Two variants at one stage; ``whole_files`` compares their whole files.

    Raises ``PtxviewError`` where the stage cannot be read.
    """
    a_reader, b_reader = readers
    a_variant, b_variant = pair
    listings = a_reader.stages.listing(a_variant, stage), b_reader.stages.listing(b_variant, stage)
    a = side(a_reader, a_variant, stage)
    b = side(b_reader, b_variant, stage)
    a_times = times(a_reader.recording.path).by_inputs(a.kernel, a.variant)
    b_times = times(b_reader.recording.path).by_inputs(b.kernel, b.variant)
    alike_times = comparable_times(a_times, b_times)
    if alike_times:
        a = replace(a, time_us=alike_times[0].median_us)
        b = replace(b, time_us=alike_times[1].median_us)
    compared: Functions = (
        a_reader.stages.function(a_variant, stage),
        b_reader.stages.function(b_variant, stage),
    )
    if whole_files or None in compared or stage in _MODULES:
        compared = None, None
    functions = None if compared == (None, None) else (compared,)
    diff = diff_listings(*listings, exact=exact, functions=functions)
    same = _same_stages(readers, pair, stage)
    same[stage] = diff.identical
    rounds: tuple[RoundTimes, ...] = ()
    if a_reader is b_reader and a.kernel.id == b.kernel.id:
        rounds = _rounds(a_reader, a.kernel, pair)
    summary = summarise(a, b, stage, same, rounds)
    sentences = explain(a, b, summary, diff.identical)
    return Compared(listings, diff, a, b, stage, compared, summary, sentences)


def _same_stages(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage
) -> dict[Stage, bool]:
    """Whether the other stages that both have are the same, where they can be read."""
    same = {}
    for other in shared_stages(pair):
        identical = None if other is stage else same_form(readers, pair, other)
        if identical is not None:
            same[other] = identical
    return same


def _rounds(
    reader: Reader, kernel: Kernel, pair: tuple[Variant, Variant]
) -> tuple[RoundTimes, ...]:
    """The rounds of a tuner that timed both variants of a kernel."""
    if not kernel.autotune:
        return ()
    codes = reader.memo.memoize(("codes", kernel.id), lambda: tuned_codes((kernel,)))
    return tuple(rounds_of(reader.recording, kernel, pair[0].id, pair[1].id, codes))


def side(reader: Reader, variant: Variant, stage: Stage) -> VariantSide:
    kernel = reader.facts.kernel(variant)
    card = reader.facts.card(variant)

    def read(stage: Stage) -> tuple[Listing, FunctionFacts] | None:
        with suppress(PtxviewError):
            facts = reader.facts.available_analysis(variant, stage)
            return None if facts is None else (reader.stages.listing(variant, stage), facts)
        return None

    tiles = tiles_of(reader.recording.kernels, kernel, variant, card.threads, read)
    if tiles is not None and card.blocks is None:
        card = with_grid(card, tiles.blocks)
    sass = read(Stage.SASS)
    return VariantSide(
        kernel=kernel,
        variant=variant,
        card=card,
        findings=reader.facts.findings(variant, use_execution_counts=False),
        opcodes=of_stage(reader, variant, stage, opcodes) or {},
        stalls=None if sass is None else _stall_cycles(sass[1]),
        source=own_source(reader, variant),
        tile=of_stage(reader, variant, Stage.TTIR, tile),
        parameters=of_stage(reader, variant, Stage.TTIR, parameters),
        made_by=reader.facts.producing_tools(variant),
        tiles=tiles,
    )


def _stall_cycles(facts: FunctionFacts) -> int | None:
    """The stall counts on a function's longest path, None without control words."""
    if facts.schedule is None:
        return None
    return facts.schedule.cycles(range(facts.function.first, facts.function.last + 1))


def of_stage(
    reader: Reader, variant: Variant, stage: Stage, make: Callable[[Listing, Function], T]
) -> T | None:
    """``make`` applied to a stage of a variant; None if the stage is missing or costly to read."""
    file = variant.stages.get(stage)
    if file is None or file.costly:
        return None
    try:
        function = reader.stages.function(variant, stage)
        return None if function is None else make(reader.stages.listing(variant, stage), function)
    except PtxviewError:
        return None


def own_source(reader: Reader, variant: Variant) -> tuple[str, ...] | None:
    """The kernel's own lines in the user's source, or in ``output_code`` if it was generated."""
    stage = Stage.SOURCE if variant.fusion is None else Stage.OUTPUT_CODE
    if stage not in variant.stages or variant.span is None:
        stage = Stage.OUTPUT_CODE
    return of_stage(
        reader,
        variant,
        stage,
        lambda text, function: tuple(text.texts(function.first, function.last)),
    )


def shared_stages(pair: tuple[Variant, Variant]) -> Iterator[Stage]:
    for stage in (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX, Stage.SASS):
        if all(stage in v.stages and not v.stages[stage].costly for v in pair):
            yield stage


def same_form(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage
) -> bool | None:
    """Whether two have one canonical form at a stage; None if it cannot be read."""
    digests = [of_stage(r, v, stage, digest) for r, v in zip(readers, pair, strict=True)]
    return None if None in digests else digests[0] == digests[1]


# -- one kernel, many variants --------------------------------------------------------------------


def variant_rows(
    reader: Reader,
    selected: Iterable[tuple[Kernel, Variant]],
    stage: Stage,
    uncompiled: Iterable[Kernel] = (),
) -> Iterator[VariantRow]:
    """A row for each variant, then one for each configuration of a tuner's without one.

    ``stage`` is the one whose instructions are counted; of ``uncompiled`` kernels nothing was
    compiled. Without any tuner's time, rows have the times on the inputs that most were timed with.
    """
    rows = list(_rows(reader, selected, stage, uncompiled))
    if any(row.time_us is not None for row in rows):
        floors = overheads(reader.recording)
        for row in rows:
            overhead_us = floors.get(variants.stopwatch(row))
            stopwatch = None if row.time_us is None else TUNER
            yield replace(row, time_by=stopwatch, overhead_us=overhead_us)
        return
    recorded = times(reader.recording.path)
    times_of_rows: list[Mapping[str, StoredTime]] = []
    conditions: Counter[tuple[str, str | None, str]] = Counter()
    for row in rows:
        by_inputs = {} if row.variant is None else recorded.by_inputs(row.kernel, row.variant)
        times_of_rows.append(by_inputs)
        conditions.update((key, time.device, time.cache) for key, time in by_inputs.items())
    inputs, device, cache = conditions.most_common(1)[0][0] if conditions else ("", "", "")
    for row, by_inputs in zip(rows, times_of_rows, strict=True):
        time = by_inputs.get(inputs)
        if time is not None and (time.device, time.cache) == (device, cache):
            row = replace(row, time_us=time.median_us, time_by=time.timing.stopwatch)
        yield row


def _rows(
    reader: Reader,
    selected: Iterable[tuple[Kernel, Variant]],
    stage: Stage,
    uncompiled: Iterable[Kernel],
) -> Iterator[VariantRow]:
    kernels = {kernel.id: kernel for kernel in uncompiled}
    for kernel, variant in selected:
        kernels[kernel.id] = kernel
        yield VariantRow(
            kernel,
            variant,
            variant.config,
            reader.facts.resources(variant),
            reader.facts.occupancy(variant),
            of_stage(
                reader,
                variant,
                stage,
                lambda text, function: len(list(instructions(text, function))),
            ),
            variants.time_us(variant),
            variants.winner(variant),
            variants.reason(variant),
        )
    for kernel in kernels.values():
        yield from variants.without_variant(kernel)


# -- whole files and whole recordings -------------------------------------------------------------
# Nothing of recordings is disassembled unless SASS is asked for; cuobjdump gives the metrics of
# changed, added and removed variants.


class Files(SideBySide, frozen=True):
    """Two files of several kernels at one stage.

    ``figures`` are, for each of ``diff.functions``, the resources that differ between the kernels.
    """

    stage: Stage
    figures: tuple[tuple[FigureChange, ...], ...]


def compare_files(
    a: Reader, b: Reader, requested: Stage | None = None, exact: bool = False
) -> Files:
    """The one file that each was opened from; its kernels are paired by name, then by likeness.

    Raises ``PtxviewError`` where they have no such stage, or it cannot be read.
    """
    a_variants = {variant.symbol: variant for _, variant in a.recording.variants()}
    b_variants = {variant.symbol: variant for _, variant in b.recording.variants()}
    a_first = next(iter(a_variants.values()))
    b_first = next(iter(b_variants.values()))
    stage = stage_of(a_first, b_first, requested)
    listings = a.stages.listing(a_first, stage), b.stages.listing(b_first, stage)
    difference = diff_listings(*listings, exact=exact)
    figures = []
    for functions in difference.functions:
        a_variant = a_variants.get(functions.a.name) if functions.a else None
        b_variant = b_variants.get(functions.b.name) if functions.b else None
        figures.append(tuple(_deltas(a, b, a_variant, b_variant)))
    return Files(listings, difference, stage, tuple(figures))


# -- two recordings --------------------------------------------------------------------------------


Paired = tuple[RecordedVariant | None, RecordedVariant | None, ChangeKind, tuple[FigureChange, ...]]
"""A pair with its state, and the figures that differ; none of what is the same."""


def compare_recordings(
    a: Reader, b: Reader, stage: Stage | None = None, exact: bool = False
) -> tuple[Paired, ...]:
    """Every variant of two recordings in its pair.

    ``stage``: compare that one instead (SASS is disassembled only so); ``exact``: its text.
    """
    compared: list[Paired] = []
    for a_entry, b_entry in recordings.pair(entries(a), entries(b)):
        a_variant = None if a_entry is None else a_entry.variant
        b_variant = None if b_entry is None else b_entry.variant
        if a_variant is None:
            kind = ChangeKind.ADDED
        elif b_variant is None:
            kind = ChangeKind.REMOVED
        elif _same((a, b), (a_variant, b_variant), stage, exact):
            kind = ChangeKind.SAME
        else:
            kind = ChangeKind.CHANGED
        figures = () if kind is ChangeKind.SAME else tuple(_deltas(a, b, a_variant, b_variant))
        compared.append((a_entry, b_entry, kind, figures))
    return tuple(compared)


def entries(reader: Reader) -> Iterator[RecordedVariant]:
    """The variants of a recording with digests of their sources, for pairing."""
    for kernel, variant in reader.recording.variants():
        lines = own_source(reader, variant)
        text = "\n".join(lines or ()).encode("utf-8", "surrogateescape")
        source = None if lines is None else hashlib.sha256(text).digest()
        yield RecordedVariant(kernel, variant, source)


def _same(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage | None, exact: bool
) -> bool:
    if stage is not None:
        return _same_at(readers, pair, stage_of(*pair, stage), exact)
    common = list(shared_stages(pair))
    if Stage.PTX in common and (
        not _same_at(readers, pair, Stage.PTX, exact) or pair[0].target != pair[1].target
    ):
        return False
    if Stage.SASS in common:
        if exact or _same_bytes(pair, Stage.SASS):
            return _same_bytes(pair, Stage.SASS)
        # Machine code alone: files also hold line numbers and paths.
        a, b = map(code_of, pair)
        return a is not None and a == b
    try:
        return Stage.PTX in common or _same_at(readers, pair, stage_of(*pair), exact)
    except UsageError:
        return pair[0].hash == pair[1].hash  # nothing was recorded but their names


def _same_at(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage, exact: bool
) -> bool:
    return _same_bytes(pair, stage) or (not exact and same_form(readers, pair, stage) is True)


def _same_bytes(pair: tuple[Variant, Variant], stage: Stage) -> bool:
    contents = [v.stages[stage].content.read() for v in pair]
    return contents[0] == contents[1] and pair[0].symbol == pair[1].symbol


def code_of(variant: Variant) -> bytes | None:
    """A variant's machine code. Raises ``PtxviewError`` if the recorded cubin cannot be read."""
    cubin = read_cubin(variant.stages[Stage.SASS].content.read())
    return None if cubin is None else cubin.code.get(variant.symbol)


def tuned_codes(kernels: Iterable[Kernel]) -> Codes:
    """Machine code and shared memory of what tuners tried, by variants' ids."""
    out: dict[str, object] = {}
    for kernel in kernels:
        if not kernel.autotune:
            continue
        for variant in kernel.variants:
            file = variant.stages.get(Stage.SASS)
            with suppress(PtxviewError):
                if file is not None and not file.costly and (code := code_of(variant)):
                    out[variant.id] = code, variant.recorded_resources.dynamic_shared_bytes
    return out


def _deltas(a: Reader, b: Reader, x: Variant | None, y: Variant | None) -> Iterator[FigureChange]:
    a_resources = Resources() if x is None else a.facts.resources(x)
    b_resources = Resources() if y is None else b.facts.resources(y)
    for name in Resources.__struct_fields__:
        change = FigureChange(name, getattr(a_resources, name), getattr(b_resources, name))
        if change.differs:
            yield change
