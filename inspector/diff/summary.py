"""What two variants differ in, as figures: nothing is measured, run or read here.

A change names a figure and what it is on both sides; None is "not known", never "none".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from math import prod

from inspector.analyse.accesses import Access, instructions
from inspector.analyse.card import Card, StageContent
from inspector.analyse.hints.subject import Finding
from inspector.base.model import EDIT, Kernel, Stage, Variant
from inspector.listing.line import Function, Listing

WARP = 32
TUNER = "tuner"
MACHINE = (Stage.PTX, Stage.SASS)
_TENSOR = re.compile(r"\btensor<((?:\d{1,9}+x)++)")
_PARAMETER = re.compile(r"%(\w++): (![\w.]++<[^{(%]*?>|\w++)(?= |,|\)|$)(?: \{([^{}]*)\})?")
_ATTRIBUTE = re.compile(r"tt\.(\w+) = (\d{1,9}+)(?!\d)")
_DIVISIBLE = "divisibility"
_MOST = 1 << 20  # pairs of lines that are compared in their order; beyond, lines are counted


@dataclass(frozen=True, slots=True)
class CompiledParameter:
    """One argument of a Triton kernel as compiled; ``multiple_of`` 1 says nothing of its value.

    ``type`` is TTIR's (``ptr<f32>``, ``i32``), or the signature's (``*fp32``).
    """

    name: str
    type: str
    multiple_of: int = 1


@dataclass(frozen=True, slots=True)
class VariantSide:
    """One of two variants with its metrics.

    ``opcodes`` are the full opcodes of the compared stage with their static counts. ``stalls`` is
    the sum of SASS's stall counts, each instruction once: cycles, None without control words.
    ``source`` is the kernel's own lines of Python or CUDA, else of ``output_code``. ``tile`` is the
    shape of the largest tensor in TTIR, ``parameters`` those of TTIR. ``time_us`` is the median of
    what was measured, None if nothing was measured; where it is ``tuned`` it is the figure that the
    program's own tuner measured. ``made_by`` are the programs that made it
    with their versions (``triton``, ``ptxas`` …), those that are known.
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
    tuned: bool = False

    @property
    def warps(self) -> int | None:
        """``num_warps`` of a Triton kernel."""
        value = self.variant.config.get("num_warps")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def elements(self) -> int | None:
        """Elements of the largest tensor that a thread holds; None if it is not known."""
        if self.tile is None or not self.warps or self.warps < 0:
            return None
        return -(-prod(self.tile) // (WARP * self.warps))

    @property
    def machine(self) -> StageContent | None:
        """The content of the PTX, or of the SASS if there is no PTX."""
        return self.card.of(Stage.PTX) or self.card.of(Stage.SASS)


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One figure on both sides; ``by`` names its source if that is the program's own tuner."""

    name: str
    a: object
    b: object
    by: str | None = None

    @property
    def differs(self) -> bool:
        """Whether it is known on both sides and not the same, or known on one alone."""
        return self.a != self.b


@dataclass(frozen=True, slots=True)
class AccessChange:
    """How many instructions of one kind, space and width (bytes a thread) both sides have."""

    kind: str
    space: str
    width: int | None
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What differs between two variants, above their texts.

    ``resources`` has every figure, also those that are alike; ``opcodes``, ``costs``, ``accesses``,
    ``config`` and ``arguments`` those that differ. ``stage`` is the one that opcodes are of;
    ``costs`` and ``accesses`` are of it where it is PTX or SASS, else of ``machine``. ``source``
    are the lines of the kernel's own source that only one side has, None without a source.
    ``first`` is the first stage whose code differs beneath one that is alike, of those that both
    have, or None.
    ``versions`` are those of the programs that made them, where both are known and differ.
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


def summarise(
    a: VariantSide, b: VariantSide, stage: Stage, same: Mapping[Stage, bool] | None = None
) -> Summary:
    """The summary of two sides; ``same`` says of each stage that was compared if it is alike."""
    machine = _machine(a, b, stage)
    left = a.card.of(machine) if machine else None
    right = b.card.of(machine) if machine else None
    rules_a, rules_b = {f.rule for f in a.findings}, {f.rule for f in b.findings}
    alike_by_stage = same or {}
    return Summary(
        stage,
        machine,
        tuple(resources(a, b)),
        _counts(a.opcodes, b.opcodes),
        _counts(_costs(left), _costs(right)),
        _accesses(left.accesses if left else (), right.accesses if right else ()),
        tuple(f for f in b.findings if f.rule not in rules_a and _has_stage(a, f)),
        tuple(f for f in a.findings if f.rule not in rules_b and _has_stage(b, f)),
        config(a.variant, b.variant),
        tuple(_arguments(a, b)),
        _source(a.source, b.source),
        _first(alike_by_stage),
        versions(a.made_by, b.made_by),
    )


def _has_stage(other: VariantSide, finding: Finding) -> bool:
    """Whether the other side has a stage that the hint was seen in, so that it could be there."""
    seen = [stage for stage, lines in finding.lines.items() if lines]
    return not seen or any(stage in other.variant.stages for stage in seen)


def _first(alike_by_stage: Mapping[Stage, bool]) -> Stage | None:
    """Return the first differing stage below an equal one, or None."""
    above = False
    for stage in sorted(alike_by_stage, key=lambda s: s.rank):
        if not alike_by_stage[stage]:
            return stage if above else None
        above = True
    return None


# -- figures --------------------------------------------------------------------------------------


def resources(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    """Every figure of the resources of both, known or not."""
    for name in a.card.resources.__dataclass_fields__:
        yield FigureChange(name, getattr(a.card.resources, name), getattr(b.card.resources, name))
    yield FigureChange("threads", a.card.threads, b.card.threads)
    x, y = a.card.occupancy, b.card.occupancy
    yield FigureChange("occupancy_percent", x and x.percent, y and y.percent)
    yield FigureChange("blocks_per_sm", x and x.blocks, y and y.blocks)
    for stage in MACHINE:
        yield FigureChange(f"{stage.value}_instructions", _total(a, stage), _total(b, stage))
    yield FigureChange("stall_cycles", a.stalls, b.stalls)
    yield FigureChange("time_us", a.time_us, b.time_us, TUNER if a.tuned or b.tuned else None)


def config(a: Variant, b: Variant) -> tuple[FigureChange, ...]:
    """Target and configuration where they differ; nvcc's flags as those that one side has alone."""
    out = [FigureChange("target", a.target, b.target)]
    names = dict.fromkeys((*a.config, *b.config))
    # The target is above, options are the flags as they were written, and what was compiled
    # before an edit is so by where it stands.
    told = {"target", EDIT, *(("flags",) if "options" in names else ())}
    for name in (n for n in names if n not in told):
        left, right = a.config.get(name), b.config.get(name)
        if name == "flags":
            left, right = _flags(left, right), _flags(right, left)
        out.append(FigureChange(name, left, right))
    return tuple(c for c in out if c.differs)


def versions(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[FigureChange, ...]:
    """Programs whose version is known on both sides and is not the same."""
    return tuple(
        FigureChange(name, a[name], b[name]) for name in a if name in b and a[name] != b[name]
    )


def _flags(own: object, other: object) -> list[str] | None:
    if not isinstance(own, list | tuple):
        return None
    theirs = {str(f) for f in other} if isinstance(other, list | tuple) else set()
    return [str(f) for f in own if str(f) not in theirs]


def opcodes(listing: Listing, function: Function) -> dict[str, int]:
    """Static counts of a function's full opcodes."""
    return dict(Counter(line.opcode or "" for line in instructions(listing, function)))


def stalls(listing: Listing, function: Function) -> int | None:
    """The sum of the stall counts of a function's SASS, None if one is not known."""
    total: int | None = None
    for line in instructions(listing, function):
        if line.control is None:
            return None
        total = (total or 0) + line.control.stall
    return total


def tile(listing: Listing, function: Function) -> tuple[int, ...] | None:
    """Return the shape of the largest tensor in a function of TTIR, or None."""
    shapes = {
        match[1]
        for line in instructions(listing, function)
        for match in _TENSOR.finditer(line.text)
    }
    dimensions = [tuple(int(d) for d in shape.split("x") if d) for shape in shapes]
    return max(dimensions, key=lambda shape: (prod(shape), shape), default=None)


def parameters(listing: Listing, function: Function) -> tuple[CompiledParameter, ...]:
    """The parameters of a function of TTIR, by its head."""
    text = listing.lines[function.first - 1].text if listing.lines else ""
    out = []
    for name, kind, attributes in _PARAMETER.findall(text):
        values = {key: int(value) for key, value in _ATTRIBUTE.findall(attributes)}
        short = kind.removeprefix("!tt.")
        out.append(CompiledParameter(name, short, values.get(_DIVISIBLE, 1)))
    return tuple(out)


# -- parts ----------------------------------------------------------------------------------------


def _machine(a: VariantSide, b: VariantSide, stage: Stage) -> Stage | None:
    wanted = (stage, *MACHINE) if stage in MACHINE else MACHINE
    common = (s for s in wanted if a.card.of(s) is not None and b.card.of(s) is not None)
    return next(common, None)


def _total(side: VariantSide, stage: Stage) -> int | None:
    content = side.card.of(stage)
    return content.mix.total if content is not None and content.mix is not None else None


def _costs(content: StageContent | None) -> Mapping[str, int]:
    if content is None or content.mix is None:
        return {}
    costs = dict(content.mix.by_cost)
    return costs | {"unclassed": content.mix.unclassed} if content.mix.unclassed else costs


def _counts(a: Mapping[str, int], b: Mapping[str, int]) -> tuple[FigureChange, ...]:
    """Those that differ, the largest difference first."""
    out = [FigureChange(name, a.get(name, 0), b.get(name, 0)) for name in dict.fromkeys((*a, *b))]
    changed = [c for c in out if c.differs]
    return tuple(sorted(changed, key=lambda c: (-abs(b.get(c.name, 0) - a.get(c.name, 0)), c.name)))


def _accesses(a: Iterable[Access], b: Iterable[Access]) -> tuple[AccessChange, ...]:
    left = {(x.kind, x.space, x.width): x.count for x in a}
    right = {(x.kind, x.space, x.width): x.count for x in b}
    return tuple(
        AccessChange(*key, left.get(key, 0), right.get(key, 0))
        for key in dict.fromkeys((*left, *right))
        if left.get(key, 0) != right.get(key, 0)
    )


def _arguments(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    """Yield types and specializations of arguments by name, and the launch's grid."""
    if a.parameters is not None and b.parameters is not None:
        left = {p.name: _told(p) for p in a.parameters}
        right = {p.name: _told(p) for p in b.parameters}
    else:
        left, right = _signature(a.variant), _signature(b.variant)
        if not left or not right:
            left, right = {}, {}
    for name in dict.fromkeys((*left, *right)):
        if left.get(name) != right.get(name):
            yield FigureChange(name, left.get(name), right.get(name))
    grids = [s.card.launch.grid if s.card.launch is not None else None for s in (a, b)]
    if None not in grids and grids[0] != grids[1]:
        left_grid, right_grid = (list(g) if g is not None else None for g in grids)
        yield FigureChange("grid", left_grid, right_grid)


def _told(parameter: CompiledParameter) -> str:
    multiple = f", a multiple of {parameter.multiple_of}" if parameter.multiple_of > 1 else ""
    return parameter.type + multiple


def _signature(variant: Variant) -> dict[str, str]:
    return {name: kind for name, kind in variant.signature.items() if kind != "constexpr"}


def _source(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[int, int] | None:
    """Lines that only one side has, blanks and the indentation of the whole left out."""
    if a is None or b is None:
        return None
    left, right = _bare(a), _bare(b)
    if len(left) * len(right) > _MOST:
        return (Counter(left) - Counter(right)).total(), (Counter(right) - Counter(left)).total()
    same = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    alike = sum(block.size for block in same)
    return len(left) - alike, len(right) - alike


def _bare(lines: tuple[str, ...]) -> list[str]:
    stripped = [line.rstrip() for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in stripped), default=0)
    return [line[margin:] for line in stripped]
