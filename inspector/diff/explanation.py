"""What two variants differ in, and sentences on its causes and effects.

A change names a figure and what it is on both sides; None is "not known", never "none". Causes are
choices (the configuration, argument specializations, the target, the source); effects are counts
and figures. A single cause is reported with the effects; several are reported together, since
nothing here shows which did what. Consequences say how one figure follows from another.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from textwrap import dedent

from msgspec import Struct, field
from rapidfuzz.distance import LCSseq

from inspector.analyse.accesses import COPY, LOAD, STORE, Access, instructions
from inspector.analyse.card import GRID, Card, StageContent
from inspector.analyse.hints.launching import LAUNCHED
from inspector.analyse.hints.subject import Finding
from inspector.analyse.occupancy import REGISTERS, SHARED, THREADS, Occupancy
from inspector.analyse.tuner_times import RoundTimes
from inspector.base.model import EDIT, Kernel, Stage, Variant
from inspector.base.text import by_key, microseconds, plural, some
from inspector.diff.tiles import NAMES, PER_TILE, Tiles
from inspector.listing.line import Function, Listing

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
    machine_stages = (stage, *MACHINE) if stage in MACHINE else MACHINE
    machine = next(
        (s for s in machine_stages if a.card.stage_content(s) and b.card.stage_content(s)), None
    )
    a_content = a.card.stage_content(machine) if machine else None
    b_content = b.card.stage_content(machine) if machine else None
    ranked = sorted((same or {}).items(), key=lambda item: item[0].rank)
    first = next((n for n, (_, is_same) in enumerate(ranked) if not is_same), 0)
    (gained, unknown_a), (lost, unknown_b) = _alone(b, a), _alone(a, b)
    return Summary(
        stage,
        machine,
        tuple(resources(a, b)),
        _counts(a.opcodes, b.opcodes),
        _counts(_costs(a_content), _costs(b_content)),
        _changed_accesses(
            a_content.accesses if a_content else (), b_content.accesses if b_content else ()
        ),
        gained,
        lost,
        config(a.variant, b.variant),
        tuple(_arguments(a, b)),
        _own_lines(a.source, b.source),
        ranked[first][0] if first else None,
        changed_versions(a.made_by, b.made_by),
        unknown_a,
        unknown_b,
        rounds,
    )


def _alone(
    side: VariantSide, other: VariantSide
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The hints of one side alone: those that the other lacks, and those not known of it."""
    rules = {finding.rule for finding in other.findings}
    launched = (side.card.launch is None) == (other.card.launch is None)
    by_certainty = by_key(
        ((launched or finding.rule not in LAUNCHED) and _read(finding, other), finding)
        for finding in side.findings
        if finding.rule not in rules
    )
    return tuple(by_certainty.get(True, ())), tuple(by_certainty.get(False, ()))


def _read(finding: Finding, side: VariantSide) -> bool:
    """Whether a side has a stage that a hint was seen in."""
    stages = {stage for stage, lines in finding.lines.items() if lines}
    return not stages or not stages.isdisjoint(side.variant.stages)


# -- figures --------------------------------------------------------------------------------------


def resources(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    for name in a.card.resources.__struct_fields__:
        yield FigureChange(name, getattr(a.card.resources, name), getattr(b.card.resources, name))
    yield FigureChange("threads", a.card.threads, b.card.threads)
    x, y = a.card.occupancy, b.card.occupancy
    yield FigureChange("occupancy_percent", x and x.percent, y and y.percent)
    yield FigureChange("blocks_per_sm", x and x.blocks, y and y.blocks)
    for stage in MACHINE:
        yield FigureChange(f"{stage.value}_instructions", _total(a, stage), _total(b, stage))
    yield FigureChange("stall_cycles", a.stalls, b.stalls)
    yield FigureChange("blocks", a.card.blocks, b.card.blocks)
    for name in PER_TILE if a.tiles or b.tiles else ():
        yield FigureChange(name, getattr(a.tiles, name, None), getattr(b.tiles, name, None))
    yield FigureChange("time_us", a.time_us, b.time_us)


def config(a: Variant, b: Variant) -> tuple[FigureChange, ...]:
    """Target and configuration where they differ; nvcc's flags as those that one side has alone."""
    out = [FigureChange("target", a.target, b.target)]
    names = dict.fromkeys((*a.config, *b.config))
    # The target is above, options are the flags as they were written, and what was compiled
    # before an edit is so by where it stands.
    excluded = {"target", EDIT, *(("flags",) if "options" in names else ())}
    for name in (n for n in names if n not in excluded):
        a_value, b_value = a.config.get(name), b.config.get(name)
        if name == "flags":
            a_value, b_value = _flags_alone(a_value, b_value), _flags_alone(b_value, a_value)
        out.append(FigureChange(name, a_value, b_value))
    return tuple(c for c in out if c.differs)


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
    dimensions = [tuple(int(d) for d in shape.split("x") if d) for shape in shapes]
    return max(dimensions, key=lambda shape: (prod(shape), shape), default=None)


def parameters(listing: Listing, function: Function) -> tuple[CompiledParameter, ...]:
    text = listing.lines[function.first - 1].text if listing.lines else ""
    return tuple(
        CompiledParameter(name, kind.removeprefix("!tt."), int(multiple[1]) if multiple else 1)
        for name, kind, attributes in _PARAMETER.findall(text)
        for multiple in (_MULTIPLE.search(attributes),)
    )


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
    a_counts, b_counts = ({(x.kind, x.space, x.width): x.count for x in side} for side in (a, b))
    both = {key: (a_counts.get(key, 0), b_counts.get(key, 0)) for key in (*a_counts, *b_counts)}
    return tuple(AccessChange(*key, x, y) for key, (x, y) in both.items() if x != y)


def _arguments(a: VariantSide, b: VariantSide) -> Iterator[FigureChange]:
    """Yield types and specializations of arguments by name, and the launch's grid."""
    compiled = a.parameters is not None and b.parameters is not None
    a_types, b_types = (
        {
            p.name: p.type + (f", a multiple of {p.multiple_of}" if p.multiple_of > 1 else "")
            for p in side.parameters or ()
        }
        if compiled
        else {n: kind for n, kind in side.variant.signature.items() if kind != "constexpr"}
        for side in (a, b)
    )
    for name in dict.fromkeys((*a_types, *b_types)) if compiled or (a_types and b_types) else ():
        if a_types.get(name) != b_types.get(name):
            yield FigureChange(name, a_types.get(name), b_types.get(name))
    grids = [side.card.launch and side.card.launch.grid for side in (a, b)]
    if grids[0] and grids[1] and grids[0] != grids[1]:
        yield FigureChange("grid", list(grids[0]), list(grids[1]))


def _own_lines(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[int, int] | None:
    """Lines that only one side has, blanks and the indentation of the whole left out."""
    if a is None or b is None:
        return None
    a_lines, b_lines = (
        dedent("\n".join(line.rstrip() for line in lines if line.strip())).splitlines()
        for lines in (a, b)
    )
    common = LCSseq.similarity(a_lines, b_lines)
    return len(a_lines) - common, len(b_lines) - common


# -- what rules see -------------------------------------------------------------------------------

_RATIOS = {0.5: "half", 0.25: "a quarter of", 0.125: "an eighth of"} | {
    2.0: "twice",
    4.0: "four times",
    8.0: "eight times",
}


class Delta(Struct, frozen=True):
    a: VariantSide
    b: VariantSide
    summary: Summary

    @property
    def stage(self) -> str:
        """The stage whose instructions are counted: ``ptx`` or ``sass``, else ""."""
        return self.summary.machine.value if self.summary.machine is not None else ""

    @property
    def machine(self) -> tuple[StageContent | None, StageContent | None]:
        stage = self.summary.machine
        return (
            (None, None)
            if stage is None
            else (self.a.card.stage_content(stage), self.b.card.stage_content(stage))
        )

    def config(self, name: str) -> str | None:
        """How a setting changed (``num_warps 4 → 8``); None if it does not differ."""
        return next((_changed(c) for c in self.summary.config if c.name == name), None)


def _changed(change: FigureChange) -> str:
    a, b = ("unset" if value is None else value for value in (change.a, change.b))
    return f"{change.name} {a} → {b}"


# -- how one figure follows from another ----------------------------------------------------------

_LIMITS = {
    REGISTERS: "registers a thread",
    SHARED: "bytes of shared memory a block",
    THREADS: "threads a block",
}


def _masks(d: Delta) -> Iterator[str]:
    sides = [[a for kind in (LOAD, STORE) for a in _accesses_of_kind(x, kind)] for x in d.machine]
    guarded = [sum(a.guarded for a in accesses) for accesses in sides]
    totals = [sum(a.count for a in accesses) for accesses in sides]
    if all(totals) and bool(guarded[0]) != bool(guarded[1]):
        n, verb, other = (0, "are gone", "b") if guarded[0] else (1, "came", "a")
        yield (
            f"masks {verb}: {guarded[n]} of {totals[n]} global accesses of {'ab'[n]} are under a "
            f"predicate, none of {other}'s is"
        )


def _occupied(d: Delta) -> Iterator[str]:
    x, y = d.a.card.occupancy, d.b.card.occupancy
    if x is None or y is None:
        return
    if x.device.arch != y.device.arch:
        if x.percent != y.percent:
            yield (
                f"occupancy in theory: {x.percent:.4g} % of an SM of {x.device.arch}, "
                f"{y.percent:.4g} % of one of {y.device.arch}"
            )
    elif x.warps != y.warps and not (x.limiters == y.limiters == (GRID,)):
        yield (
            f"occupancy in theory {x.percent:.4g} → {y.percent:.4g} %: "
            f"{_limited(d.a, x, 'a')}; {_limited(d.b, y, 'b')}"
        )


def _limited(side: VariantSide, occupancy: Occupancy, mark: str) -> str:
    card = side.card
    shared = (card.static_shared_bytes or 0) + (card.dynamic_shared_bytes or 0)
    figures = {REGISTERS: card.resources.registers, SHARED: shared, THREADS: card.threads}
    limiters = [f"{figures[n]} {_LIMITS[n]}" if n in _LIMITS else n for n in occupancy.limiters]
    blocks = plural(occupancy.blocks, "block")
    return (
        f"{blocks} an SM in {mark}, limited by {some(limiters)}"
        if limiters
        else f"{blocks} in {mark}"
    )


def _loops(d: Delta) -> Iterator[str]:
    x, y = d.machine
    if x is None or y is None or x.loops is None or y.loops is None or x.loops == y.loops:
        return
    yield f"{x.loops} → {plural(y.loops, 'loop')}"


def _grid(d: Delta) -> Iterator[str]:
    x, y = d.a.card.blocks, d.b.card.blocks
    if x is not None and y is not None and x != y:
        yield f"{x:,} → {y:,} blocks: {_reached(d.a.card)} in a, {_reached(d.b.card)} in b"


def _reached(card: Card) -> str:
    """How far the blocks of a launch go round."""
    blocks, sms = card.blocks or 0, None if card.device is None else card.device.sms
    if not sms:
        return f"{blocks:,}"
    share = f"{blocks / sms:.3g} for each of {sms} SMs"
    return f"{blocks} of {sms} SMs have one" if blocks < sms else share


def _begins(d: Delta) -> Iterator[str]:
    first = d.summary.first
    if first is Stage.TTGIR and d.a.warps != d.b.warps:
        yield "the ttir is the same: the difference begins in ttgir, where elements get threads"
    elif first is Stage.SASS:
        yield "the ptx is the same: the difference was made by the assembler"
    elif first and first.rank > Stage.TTIR.rank and d.a.card.stage_content(Stage.TTGIR) is not None:
        yield f"the stages above are the same: the difference begins in {first.value}"


def _measured(d: Delta) -> Iterator[str]:
    x, y = d.a.time_us, d.b.time_us
    if x and y and x != y:
        yield f"measured: {_times(x, y)}"
    for times in d.summary.rounds:
        nodes = f" for {some(times.nodes)}" if times.nodes else ""
        text = (
            f"tuner's time in round {times.round}{nodes} ({times.stopwatch or 'unknown stopwatch'})"
        )
        text += f": {_times(times.a, times.b)}"
        if max(times.a, times.b) <= min(times.a, times.b) * (1 + (times.noise or 0)):
            text += f", which is noise: times of one code differ by {times.noise or 0:.0%} there"
        if max(times.a, times.b) <= (times.overhead_us or 0):
            text += f"; both may be the launch alone, of which it reads {times.overhead_us:.3g} µs"
        yield text


def _times(x: float, y: float) -> str:
    less = "less" if y < x else "more"
    return f"{microseconds(x)} → {microseconds(y)} µs, {abs(y - x) / x:.0%} {less}"


CONSEQUENCES = (_masks, _loops, _grid, _occupied, _begins, _measured)


def _accesses_of_kind(content: StageContent | None, kind: str) -> list[Access]:
    accesses = () if content is None else content.accesses
    return [a for a in accesses if a.kind == kind and (kind == COPY or a.space == "global")]


_SIZES = ("num_warps", "num_stages", "num_ctas", "maxnreg", "flags", "target")
MAX_EFFECTS = 5
_INSTRUCTIONS = {
    ("ptx", LOAD): "ld",
    ("ptx", STORE): "st",
    ("ptx", COPY): "cp.async",
    ("sass", LOAD): "LDG",
    ("sass", STORE): "STG",
    ("sass", COPY): "LDGSTS",
}


def explain(a: VariantSide, b: VariantSide, summary: Summary, identical: bool) -> tuple[str, ...]:
    """The sentences, causes first; ``identical``: the text of the compared stage is the same."""
    d = Delta(a, b, summary)
    versions = ", ".join(f"{c.name} {c.a} → {c.b}" for c in summary.versions)
    causes = [versions] if versions else []
    causes += [text for rule in CAUSES for text in rule(d)]
    per_element = list(_figures(d, _BY_ELEMENT))
    counts = per_element or [*_accesses(d), *_products(d)]
    total = {} if per_element else {f"{d.stage}_instructions": f"{d.stage.upper()} instructions"}
    effects = [*counts, *_figures(d, _FIGURES | total)]
    errors = (("a", a.variant.error), ("b", b.variant.error))
    out = [
        f"{name} {error.outcome}: {error.summary}" for name, error in errors if error is not None
    ]
    same = f"the {summary.stage.value} is the same but for names"
    effect_text = ", ".join(effects[:MAX_EFFECTS]) or (same if identical and causes else "")
    if len(causes) == 1:
        out.append(f"{causes[0]}: {effect_text}" if effect_text else causes[0])
    elif causes:
        out += [*causes, f"together: {effect_text}"] if effect_text else causes
    elif identical:
        out.append(f"{same}; {effect_text}" if effect_text else same)
    elif effect_text:
        out.append(f"nothing that was recorded was chosen differently: {effect_text}")
    out += [text for rule in CONSEQUENCES for text in rule(d)]
    return tuple(out)


# -- what was chosen ------------------------------------------------------------------------------


def _warps_and_tile(d: Delta) -> Iterator[str]:
    """``num_warps`` and the block: how many elements a thread has of it."""
    parts = [_changed(c) for c in d.summary.config if c.name in _shown_in_elements(d)]
    if len(parts) <= (d.config("num_warps") is not None) and _tiles_differ(d):
        shapes = " → ".join("×".join(map(str, tile or ())) for tile in (d.a.tile, d.b.tile))
        parts.append(f"largest tensor {shapes}")
    if not parts:
        return
    change_text = some(parts, 4)
    x, y = d.a.elements, d.b.elements
    unit = "elements a thread" if d.a.tiles is None else "output elements a thread"
    if x is None or y is None:
        yield change_text
    elif x == y:
        yield f"{change_text}: as many {unit} as before ({x})"
    else:
        yield f"{change_text}: {_ratio(x, y)} the {unit} ({x} → {y})"


def _ratio(x: float, y: float) -> str:
    return _RATIOS.get(y / x, f"{y / x:.3g} times")


def _tiles_differ(d: Delta) -> bool:
    return bool(d.a.tile and d.b.tile and d.a.tile != d.b.tile) and not (d.a.tiles and d.b.tiles)


def _shown_in_elements(d: Delta) -> set[str]:
    """The settings that the number of elements a thread follows from."""
    if d.a.tiles and d.b.tiles:
        return {"num_warps", *NAMES[:2]}
    sizes: dict[str, float] = {}
    for c in d.summary.config if _tiles_differ(d) else ():
        if (
            isinstance(c.a, int)
            and isinstance(c.b, int)
            and c.name not in _SIZES
            and (c.a in (d.a.tile or ()) and c.b in (d.b.tile or ()))
        ):
            sizes[c.name] = c.b / c.a
    explains = prod(sizes.values()) * prod(d.a.tile or ()) == prod(d.b.tile or ())
    return {"num_warps", *(sizes if explains else ())}


def _settings(d: Delta) -> Iterator[str]:
    excluded = {*_shown_in_elements(d), *("num_ctas", "maxnreg", "flags", "target", "num_stages")}
    for change in d.summary.config:
        if change.name == NAMES[2] and d.a.tiles and d.b.tiles and d.a.tiles.k_steps:
            x, y = d.a.tiles.k_steps, d.b.tiles.k_steps or 0
            effect = f"{_ratio(x, y)} the k-steps" if x != y else "as many k-steps"
            yield f"{_changed(change)}: {effect} ({x} → {y})"
        elif change.name not in excluded:
            yield _changed(change)
    for name in ("target", "num_stages", "num_ctas", "maxnreg"):
        if (changed := d.config(name)) is not None:
            yield changed


def _flags(d: Delta) -> Iterator[str]:
    """nvcc's flags that can change code: paths and the extension's name cannot."""
    change = next((c for c in d.summary.config if c.name == "flags"), None)
    parts = []
    for side, flags in (("a", change and change.a), ("b", change and change.b)):
        named = [str(flag) for flag in flags] if isinstance(flags, list) else []
        named = [f for f in named if "/" not in f and not f.startswith("-DTORCH_EXTENSION_NAME")]
        parts += [f"{some(named, 6)} in {side} alone"] if named else []
    if parts:
        yield f"flags: {'; '.join(parts)}"


def _types(d: Delta) -> Iterator[str]:
    kinds = (
        (tuple(str(x or "no argument of its own").partition(",")[0] for x in (c.a, c.b)), c.name)
        for c in d.summary.arguments
        if c.name != "grid"
    )
    for (a_type, b_type), names in by_key(kinds).items():
        if a_type != b_type:
            yield f"{some(names)} {a_type} → {b_type}"


def _multiples(d: Delta) -> Iterator[str]:
    a_multiples, b_multiples = (
        {p.name: p.multiple_of for p in s.parameters or ()} for s in (d.a, d.b)
    )
    both = (
        ((a_multiples[n], b_multiples[n]), n)
        for n in a_multiples
        if b_multiples.get(n, a_multiples[n]) != a_multiples[n]
    )
    for (x, y), names in by_key(both).items():
        are = "is" if len(names) == 1 else "are"
        noun = "multiples" if len(names) > 1 and min(x, y) == 1 else "a multiple"
        amounts = (
            f"{x} in a, of {y} in b" if min(x, y) > 1 else f"{max(x, y)} in {'ab'[y > x]} alone"
        )
        yield f"{some(names, 4)} {are} known to be {noun} of {amounts}"


def _source(d: Delta) -> Iterator[str]:
    if d.summary.source is not None and d.summary.source != (0, 0):
        deleted, inserted = d.summary.source
        yield f"source: {plural(deleted, 'line')} in a alone, {inserted} in b alone"


CAUSES = (_warps_and_tile, _settings, _types, _multiples, _flags, _source)


# -- effects -------------------------------------------------------------------------------------


def _accesses(d: Delta) -> Iterator[str]:
    """Loads, stores and asynchronous copies of global memory, with their width if it changed."""
    for kind in (LOAD, STORE, COPY):
        sides = [_accesses_of_kind(content, kind) for content in d.machine]
        a_count, b_count = (sum(a.count for a in side) for side in sides)
        if a_count == b_count or None in d.machine:
            continue
        name = _INSTRUCTIONS[d.stage, kind]
        if kind != COPY and d.stage == "ptx":
            name += ".global"
        text = f"{a_count} → {b_count} {name}"
        widths = [sorted({a.width or 0 for a in side}) for side in sides]
        if all(w and all(w) for w in widths) and widths[0] != widths[1]:
            a_widths, b_widths = (" or ".join(map(str, w)) for w in widths)
            text += f" ({a_widths} → {b_widths} bytes wide)"
        yield text


def _products(d: Delta) -> Iterator[str]:
    x, y = d.machine
    if x is None or y is None:
        return
    for name in dict.fromkeys(p.opcode for content in (x, y) for p in content.products):
        by_side = [[p for p in content.products if p.opcode == name] for content in (x, y)]
        a_count, b_count = (sum(p.count for p in side) for side in by_side)
        shapes = [
            dict.fromkeys("m{}n{}k{}".format(*p.shape) if p.shape else "another shape" for p in ps)
            for ps in by_side
        ]
        text = f"{a_count} → {b_count} {name}"
        if all(shapes) and shapes[0] != shapes[1]:
            yield f"{text} ({some(list(shapes[0]))} → {some(list(shapes[1]))})"
        elif a_count != b_count:
            yield text


_BY_ELEMENT = {
    "ptx_instructions_a_step": "PTX instructions a k-step",
    "sass_instructions_an_element": "SASS instructions an output element",
    "loaded_bytes_an_element": "bytes loaded an output element",
}
"""Work that tiles of different sizes have in common."""
_FIGURES = {
    "registers": "registers",
    "spill_store_bytes": "bytes spilled",
    "static_shared_bytes": "bytes of static shared memory",
    "dynamic_shared_bytes": "bytes of dynamic shared memory",
}


def _figures(d: Delta, words: Mapping[str, str]) -> Iterator[str]:
    changes = {c.name: c for c in d.summary.resources}
    for c in (changes[name] for name in words if name in changes):
        if isinstance(c.a, float) and isinstance(c.b, float) and c.differs:
            yield f"≈ {c.a:.3g} → {c.b:.3g} {words[c.name]}"
        elif c.differs and None not in (c.a, c.b):
            yield f"{c.a} → {c.b} {words[c.name]}"
