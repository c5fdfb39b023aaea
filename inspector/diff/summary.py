"""What two variants differ in: figures, opcodes, accesses, configuration, arguments and hints.

A change names a figure and what it is on both sides; None is "not known", never "none".
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from textwrap import dedent

from msgspec import Struct, field
from rapidfuzz.distance import LCSseq

from inspector.analysis.accesses import Access, instructions
from inspector.analysis.card import Card, StageContent
from inspector.analysis.hints.launching import LAUNCHED
from inspector.analysis.hints.subject import Finding
from inspector.analysis.tuner_times import RoundTimes
from inspector.base.model import EDIT, Kernel, Stage, Variant
from inspector.diff.tiles import PER_TILE, Tiles
from inspector.parsers.line import Function, Listing

WARP = 32
TUNER = "tuner"
MACHINE = (Stage.PTX, Stage.SASS)
_TENSOR = re.compile(r"\btensor<((?:\d{1,9}+x)++)")
_PARAMETER = re.compile(r"%(\w++): (![\w.]++<[^{(%]*?>|\w++)(?= |,|\)|$)(?: \{([^{}]*)\})?")
_MULTIPLE = re.compile(r"tt\.divisibility = (\d{1,9}+)(?!\d)")


class CompiledParameter(Struct, frozen=True):
    """One argument of a Triton kernel as compiled; ``multiple_of`` 1 says nothing of its value.

    ``type`` is TTIR's (``ptr<f32>``, ``i32``), or the signature's (``*fp32``).
    """

    name: str
    type: str
    multiple_of: int = 1


class VariantSide(Struct, frozen=True):
    """One of two variants with its metrics.

    ``opcodes`` are the full opcodes of the compared stage with their static counts. ``stalls`` is
    the sum of SASS's stall counts on the longest path, in cycles, None without control words.
    ``source`` is the kernel's own lines of Python or CUDA, else of ``output_code``. ``tile`` is the
    shape of the largest tensor in TTIR, ``parameters`` those of TTIR. ``time_us`` is the measured
    median. ``made_by`` are the known versions of the programs that made it (``triton``, ``ptxas``
    …). ``tiles`` are those of a matrix product.
    """

    kernel: Kernel
    variant: Variant
    card: Card
    findings: tuple[Finding, ...] = ()
    opcodes: Mapping[str, int] = field(default_factory=dict)
    stalls: int | None = None
    source: tuple[str, ...] | None = None
    tile: tuple[int, ...] | None = None
    parameters: tuple[CompiledParameter, ...] | None = None
    time_us: float | None = None
    made_by: Mapping[str, str] = field(default_factory=dict)
    tiles: Tiles | None = None

    @property
    def warps(self) -> int | None:
        value = self.variant.config.get("num_warps")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def elements(self) -> int | None:
        """Elements that a thread holds of the output's tile, else of the largest tensor; None if
        it is not known."""
        if not self.warps or self.warps < 0 or (self.tiles is None and self.tile is None):
            return None
        size = prod(self.tile or ()) if self.tiles is None else self.tiles.outputs
        return -(-size // (WARP * self.warps))


class FigureChange(Struct, frozen=True):
    """One figure on both sides."""

    name: str
    a: object
    b: object

    @property
    def differs(self) -> bool:
        """Whether it is known on both sides and not the same, or known on one alone."""
        return self.a != self.b


class AccessChange(Struct, frozen=True):
    """How many instructions of one kind, space and width (bytes a thread) both sides have."""

    kind: str
    space: str
    width: int | None
    a: int
    b: int


class Summary(Struct, frozen=True):
    """What differs between two variants, above their texts.

    ``resources`` has every figure, also those that are alike; ``opcodes``, ``costs``, ``accesses``,
    ``config``, ``arguments`` and ``versions`` those that differ. Opcodes are of ``stage``, costs
    and accesses of it where it is PTX or SASS, else of ``machine``. ``source`` counts the lines of
    the kernel's own source that only one side has, None without a source. ``first`` is the first
    differing stage beneath an equal one. ``unknown_a`` and ``unknown_b`` are hints of the other
    side whose premise (a launch, a stage) is not known of this one: neither gained nor lost.
    ``rounds`` are those of a tuner that timed both.
    """

    stage: Stage
    machine: Stage | None
    resources: tuple[FigureChange, ...]
    opcodes: tuple[FigureChange, ...]
    costs: tuple[FigureChange, ...]
    accesses: tuple[AccessChange, ...]
    gained: tuple[Finding, ...]
    lost: tuple[Finding, ...]
    config: tuple[FigureChange, ...]
    arguments: tuple[FigureChange, ...]
    source: tuple[int, int] | None
    first: Stage | None
    versions: tuple[FigureChange, ...] = ()
    unknown_a: tuple[Finding, ...] = ()
    unknown_b: tuple[Finding, ...] = ()
    rounds: tuple[RoundTimes, ...] = ()


def summarise(
    a: VariantSide,
    b: VariantSide,
    stage: Stage,
    same: Mapping[Stage, bool] | None = None,
    rounds: tuple[RoundTimes, ...] = (),
) -> Summary:
    machine = _machine_of_both(a, b, stage)
    a_content = a.card.stage_content(machine) if machine else None
    b_content = b.card.stage_content(machine) if machine else None
    a_accesses = a_content.accesses if a_content else ()
    b_accesses = b_content.accesses if b_content else ()
    gained, unknown_a = _alone(b, a)
    lost, unknown_b = _alone(a, b)
    return Summary(
        stage,
        machine,
        tuple(resources(a, b)),
        _counts(a.opcodes, b.opcodes),
        _counts(_costs(a_content), _costs(b_content)),
        _changed_accesses(a_accesses, b_accesses),
        gained,
        lost,
        config(a.variant, b.variant),
        tuple(_arguments(a, b)),
        _own_lines(a.source, b.source),
        _first_different(same or {}),
        changed_versions(a.made_by, b.made_by),
        unknown_a,
        unknown_b,
        rounds,
    )


def _machine_of_both(a: VariantSide, b: VariantSide, stage: Stage) -> Stage | None:
    """The stage whose instructions are compared: ``stage`` if it can be, else the first of PTX
    and SASS that both sides have."""
    stages = (stage, *MACHINE) if stage in MACHINE else MACHINE
    for machine in stages:
        if a.card.stage_content(machine) and b.card.stage_content(machine):
            return machine
    return None


def _first_different(same: Mapping[Stage, bool]) -> Stage | None:
    """The first differing stage, if the one above it is equal."""
    stages = sorted(same, key=lambda stage: stage.rank)
    first = next((stage for stage in stages if not same[stage]), None)
    return None if first is None or first is stages[0] else first


def _alone(
    side: VariantSide, other: VariantSide
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The hints of one side alone: those that the other lacks, and those not known of it."""
    rules = {finding.rule for finding in other.findings}
    both_launched = (side.card.launch is None) == (other.card.launch is None)
    lacking = []
    unknown = []
    for finding in side.findings:
        if finding.rule in rules:
            continue
        comparable = both_launched or finding.rule not in LAUNCHED
        if comparable and _read(finding, other):
            lacking.append(finding)
        else:
            unknown.append(finding)
    return tuple(lacking), tuple(unknown)


def _read(finding: Finding, side: VariantSide) -> bool:
    """Whether a side has a stage that a hint was seen in."""
    stages = {stage for stage, lines in finding.lines.items() if lines}
    return not stages or not stages.isdisjoint(side.variant.stages)


# -- figures --------------------------------------------------------------------------------------


def resources(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    for name in a.card.resources.__struct_fields__:
        yield FigureChange(name, getattr(a.card.resources, name), getattr(b.card.resources, name))
    yield FigureChange("threads", a.card.threads, b.card.threads)
    x = a.card.occupancy
    y = b.card.occupancy
    yield FigureChange("occupancy_percent", x and x.percent, y and y.percent)
    yield FigureChange("blocks_per_sm", x and x.blocks, y and y.blocks)
    for stage in MACHINE:
        yield FigureChange(f"{stage.value}_instructions", _total(a, stage), _total(b, stage))
    yield FigureChange("stall_cycles", a.stalls, b.stalls)
    yield FigureChange("blocks", a.card.blocks, b.card.blocks)
    if a.tiles or b.tiles:
        for name in PER_TILE:
            yield FigureChange(name, getattr(a.tiles, name, None), getattr(b.tiles, name, None))
    yield FigureChange("time_us", a.time_us, b.time_us)


def config(a: Variant, b: Variant) -> tuple[FigureChange, ...]:
    """Target and configuration where they differ; nvcc's flags as those that one side has alone."""
    changes = [FigureChange("target", a.target, b.target)]
    names = dict.fromkeys((*a.config, *b.config))
    # The target is above, and what was compiled before an edit is so by where it stands.
    excluded = {"target", EDIT}
    if "options" in names:
        # Options are the flags as they were written.
        excluded.add("flags")
    for name in names:
        if name in excluded:
            continue
        a_value = a.config.get(name)
        b_value = b.config.get(name)
        if name == "flags":
            a_value, b_value = _flags_alone(a_value, b_value), _flags_alone(b_value, a_value)
        changes.append(FigureChange(name, a_value, b_value))
    return tuple(change for change in changes if change.differs)


def changed_versions(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[FigureChange, ...]:
    """Programs whose version is known on both sides and is not the same."""
    both = (FigureChange(name, a[name], b[name]) for name in a if name in b)
    return tuple(c for c in both if c.differs)


def _flags_alone(flags: object, other: object) -> list[str] | None:
    if not isinstance(flags, list | tuple):
        return None
    other_flags = {str(f) for f in other} if isinstance(other, list | tuple) else set()
    return [str(f) for f in flags if str(f) not in other_flags]


def opcodes(listing: Listing, function: Function) -> dict[str, int]:
    return dict(Counter(line.opcode or "" for line in instructions(listing, function)))


def tile(listing: Listing, function: Function) -> tuple[int, ...] | None:
    """Return the shape of the largest tensor in a function of TTIR, or None."""
    lines = instructions(listing, function)
    shapes = {shape for line in lines for shape in _TENSOR.findall(line.text)}
    dimensions = [tuple(map(int, shape.removesuffix("x").split("x"))) for shape in shapes]
    return max(dimensions, key=lambda shape: (prod(shape), shape), default=None)


def parameters(listing: Listing, function: Function) -> tuple[CompiledParameter, ...]:
    text = listing.lines[function.first - 1].text if listing.lines else ""
    parameters = []
    for name, kind, attributes in _PARAMETER.findall(text):
        multiple = _MULTIPLE.search(attributes)
        multiple_of = int(multiple[1]) if multiple else 1
        parameters.append(CompiledParameter(name, kind.removeprefix("!tt."), multiple_of))
    return tuple(parameters)


# -- parts ----------------------------------------------------------------------------------------


def _total(side: VariantSide, stage: Stage) -> int | None:
    content = side.card.stage_content(stage)
    return content.mix.total if content is not None and content.mix is not None else None


def _costs(content: StageContent | None) -> Mapping[str, int]:
    if content is None or content.mix is None:
        return {}
    costs = dict(content.mix.by_cost)
    return costs | {"unclassed": content.mix.unclassed} if content.mix.unclassed else costs


def _counts(a: Mapping[str, int], b: Mapping[str, int]) -> tuple[FigureChange, ...]:
    both = {name: (a.get(name, 0), b.get(name, 0)) for name in (*a, *b)}
    changed = sorted((-abs(y - x), name) for name, (x, y) in both.items() if x != y)
    return tuple(FigureChange(name, *both[name]) for _, name in changed)


def _changed_accesses(a: Iterable[Access], b: Iterable[Access]) -> tuple[AccessChange, ...]:
    a_counts = {(access.kind, access.space, access.width): access.count for access in a}
    b_counts = {(access.kind, access.space, access.width): access.count for access in b}
    changes = []
    for key in dict.fromkeys((*a_counts, *b_counts)):
        change = AccessChange(*key, a_counts.get(key, 0), b_counts.get(key, 0))
        if change.a != change.b:
            changes.append(change)
    return tuple(changes)


def _arguments(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    """Yield types and specializations of arguments by name, and the launch's grid."""
    if a.parameters is not None and b.parameters is not None:
        yield from _changed_types(_compiled_types(a.parameters), _compiled_types(b.parameters))
    else:
        a_types = _signature_types(a.variant)
        b_types = _signature_types(b.variant)
        if a_types and b_types:
            yield from _changed_types(a_types, b_types)
    a_grid = a.card.launch and a.card.launch.grid
    b_grid = b.card.launch and b.card.launch.grid
    if a_grid and b_grid and a_grid != b_grid:
        yield FigureChange("grid", list(a_grid), list(b_grid))


def _changed_types(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[FigureChange]:
    for name in dict.fromkeys((*a, *b)):
        if a.get(name) != b.get(name):
            yield FigureChange(name, a.get(name), b.get(name))


def _compiled_types(parameters: Iterable[CompiledParameter]) -> dict[str, str]:
    """Types of arguments as compiled, each with what its value is known to be a multiple of."""
    types = {}
    for parameter in parameters:
        multiple = parameter.multiple_of
        suffix = f", a multiple of {multiple}" if multiple > 1 else ""
        types[parameter.name] = parameter.type + suffix
    return types


def _signature_types(variant: Variant) -> dict[str, str]:
    return {name: kind for name, kind in variant.signature.items() if kind != "constexpr"}


def _own_lines(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[int, int] | None:
    """Lines that only one side has, blanks and the indentation of the whole left out."""
    if a is None or b is None:
        return None
    a_lines = _dedented(a)
    b_lines = _dedented(b)
    common = LCSseq.similarity(a_lines, b_lines)
    return len(a_lines) - common, len(b_lines) - common


def _dedented(lines: Iterable[str]) -> list[str]:
    return dedent("\n".join(line.rstrip() for line in lines if line.strip())).splitlines()
