"""Sentences on what two variants differ in, causes before effects.

Causes are choices (the configuration, argument specializations, the target, the source); effects
are counts and figures. A single cause is reported with the effects; several are reported together,
since nothing here shows which did what. Consequences say how one figure follows from another.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from msgspec import Struct

from inspector.analysis.accesses import COPY, LOAD, STORE, Access
from inspector.analysis.card import GRID, Card, StageContent
from inspector.analysis.occupancy import REGISTERS, SHARED, THREADS, Occupancy
from inspector.analysis.tuner_times import RoundTimes
from inspector.base.model import Stage
from inspector.base.units import microseconds, plural, some
from inspector.diff.summary import FigureChange, Summary, VariantSide
from inspector.diff.tiles import NAMES, PER_TILE

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
        if stage is None:
            return None, None
        return self.a.card.stage_content(stage), self.b.card.stage_content(stage)

    def config(self, name: str) -> str | None:
        """How a setting changed (``num_warps 4 → 8``); None if it does not differ."""
        return next((_changed(c) for c in self.summary.config if c.name == name), None)


def _changed(change: FigureChange) -> str:
    a = "unset" if change.a is None else change.a
    b = "unset" if change.b is None else change.b
    return f"{change.name} {a} → {b}"


# -- how one figure follows from another ----------------------------------------------------------

_LIMITS = {
    REGISTERS: "registers a thread",
    SHARED: "bytes of shared memory a block",
    THREADS: "threads a block",
}


def _masks(d: Delta) -> Iterator[str]:
    a_guarded, a_total = _guarded(d.machine[0])
    b_guarded, b_total = _guarded(d.machine[1])
    if not a_total or not b_total:
        return
    if a_guarded and not b_guarded:
        accesses = f"{a_guarded} of {a_total} global accesses of a"
        yield f"masks are gone: {accesses} are under a predicate, none of b's is"
    if b_guarded and not a_guarded:
        accesses = f"{b_guarded} of {b_total} global accesses of b"
        yield f"masks came: {accesses} are under a predicate, none of a's is"


def _guarded(content: StageContent | None) -> tuple[int, int]:
    """The global loads and stores under a predicate, and all of them."""
    accesses = [*_accesses_of_kind(content, LOAD), *_accesses_of_kind(content, STORE)]
    guarded = sum(access.guarded for access in accesses)
    return guarded, sum(access.count for access in accesses)


def _occupied(d: Delta) -> Iterator[str]:
    x = d.a.card.occupancy
    y = d.b.card.occupancy
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
    x = d.a.card.blocks
    y = d.b.card.blocks
    if x is not None and y is not None and x != y:
        yield f"{x:,} → {y:,} blocks: {_reached(d.a.card)} in a, {_reached(d.b.card)} in b"


def _reached(card: Card) -> str:
    """How far the blocks of a launch go round."""
    blocks = card.blocks or 0
    sms = None if card.device is None else card.device.sms
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
    x = d.a.time_us
    y = d.b.time_us
    if x and y and x != y:
        yield f"measured: {_times(x, y)}"
    yield from dict.fromkeys(_gpu_times(times) for times in d.summary.rounds if times.gpu)
    for times in d.summary.rounds:
        if times.gpu:
            continue
        nodes = f" for {some(times.nodes)}" if times.nodes else ""
        text = (
            f"tuner's time in round {times.round}{nodes} ({times.stopwatch or 'unknown stopwatch'})"
        )
        text += f": {_times(times.a, times.b)}"
        if max(times.a, times.b) <= min(times.a, times.b) * (1 + (times.noise or 0)):
            text += f", which is noise: times of one code differ by {times.noise or 0:.0%} there"
        if times.overhead_us:
            text += f"; launching alone may take up to {microseconds(times.overhead_us)} µs of each"
        yield text


def _gpu_times(times: RoundTimes) -> str:
    """The GPU's times in a round; those of rounds for one key are the same."""
    assert times.gpu is not None
    verdict = "a tie within" if times.gpu.tied else "more than"
    pair = _times(times.gpu.a, times.gpu.b)
    return f"GPU time of the tuner's launches: {pair}, {verdict} their noise"


def _times(x: float, y: float) -> str:
    less = "less" if y < x else "more"
    return f"{microseconds(x)} → {microseconds(y)} µs, {abs(y - x) / x:.0%} {less}"


NOISE = 1.2
"""Ratio of two times of one code up to which their difference may be noise: 16 % were seen."""
LESS_WORK = (
    "registers",
    "spill_store_bytes",
    "spill_load_bytes",
    "stack_bytes",
    "stall_cycles",
    *PER_TILE,
)
"""Figures of which less cannot be what makes a kernel slower; of occupancy it is more."""


def _unexplained(d: Delta) -> Iterator[str]:
    """That no figure favours the faster side."""
    times = _compared_times(d)
    if times is None or times[0] == times[1] or _work_differs(d):
        return
    b_is_faster = times[1] < times[0]
    if b_is_faster in _advantages(d):
        return
    if max(times) <= min(times) * NOISE:
        yield "none of the differences explains this time; it may be noise"
    else:
        yield "none of the differences explains this time; ptxview ncu may"


def _work_differs(d: Delta) -> bool:
    """Whether a thread, a launch or the pipeline does other work, which no figure here weighs."""
    blocks_differ = None not in (d.a.card.blocks, d.b.card.blocks) and (
        d.a.card.blocks != d.b.card.blocks
    )
    return (
        blocks_differ
        or d.a.elements != d.b.elements
        or d.config("num_stages") is not None
        or bool(d.summary.arguments)
    )


def _compared_times(d: Delta) -> tuple[float, float] | None:
    """The measured times of both sides, else those of a round of tuning that tells them apart."""
    if d.a.time_us and d.b.time_us:
        return d.a.time_us, d.b.time_us
    for times in d.summary.rounds:
        if times.gpu is not None:
            if not times.gpu.tied:
                return times.gpu.a, times.gpu.b
            continue
        slower = max(times.a, times.b)
        is_noise = slower <= min(times.a, times.b) * (1 + (times.noise or 0))
        if not is_noise:
            return times.a, times.b
    return None


def _advantages(d: Delta) -> set[bool]:
    """The sides that some figure favours: True is b, False is a."""
    less = {*LESS_WORK, f"{d.stage}_instructions"}
    favoured = set()
    for change in d.summary.resources:
        a = change.a
        b = change.b
        if not isinstance(a, int | float) or not isinstance(b, int | float) or a == b:
            continue
        if change.name in less:
            favoured.add(b < a)
        elif change.name == "occupancy_percent":
            favoured.add(b > a)
    a_accesses = sum(access.a for access in d.summary.accesses)
    b_accesses = sum(access.b for access in d.summary.accesses)
    if a_accesses != b_accesses:
        favoured.add(b_accesses < a_accesses)
    return favoured


def _versions(d: Delta) -> Iterator[str]:
    if d.summary.versions:
        changes = ", ".join(map(_changed, d.summary.versions))
        yield f"{changes}: made by other versions of the tools, which may choose other instructions"


CONSEQUENCES = (_masks, _loops, _grid, _occupied, _begins, _measured, _unexplained, _versions)


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
    causes = [text for rule in CAUSES for text in rule(d)]
    sentences = []
    for side_name, side in (("a", a), ("b", b)):
        error = side.variant.error
        if error is not None:
            sentences.append(f"{side_name} {error.outcome}: {error.summary}")
    sentences += _causes_with_effects(causes, _effects(d), summary.stage, identical)
    sentences += [text for rule in CONSEQUENCES for text in rule(d)]
    return tuple(sentences)


def _effects(d: Delta) -> str:
    """Work per element where tiles differ, else counts of instructions; then figures."""
    effects = list(_figures(d, _BY_ELEMENT))
    figures = _FIGURES
    if not effects:
        effects = [*_accesses(d), *_products(d)]
        figures = figures | {f"{d.stage}_instructions": f"{d.stage.upper()} instructions"}
    effects += _figures(d, figures)
    return ", ".join(effects[:MAX_EFFECTS])


def _causes_with_effects(
    causes: Sequence[str], effects: str, stage: Stage, identical: bool
) -> list[str]:
    """A single cause with the effects; several, then their effects together."""
    same = f"the {stage.value} is the same but for names"
    if causes:
        if identical:
            effects = effects or same
        if not effects:
            return [*causes]
        if len(causes) == 1:
            return [f"{causes[0]}: {effects}"]
        return [*causes, f"together: {effects}"]
    if identical:
        return [f"{same}; {effects}" if effects else same]
    if effects:
        return [f"nothing that was recorded was chosen differently: {effects}"]
    return []


# -- what was chosen ------------------------------------------------------------------------------


def _warps_and_tile(d: Delta) -> Iterator[str]:
    """``num_warps`` and the block: how many elements a thread has of it."""
    explained = _shown_in_elements(d)
    parts = [_changed(change) for change in d.summary.config if change.name in explained]
    only_warps = len(parts) <= (d.config("num_warps") is not None)
    if only_warps and _tiles_differ(d):
        parts.append(f"largest tensor {_shape(d.a.tile)} → {_shape(d.b.tile)}")
    if not parts:
        return
    change_text = some(parts, 4)
    x = d.a.elements
    y = d.b.elements
    unit = "elements a thread" if d.a.tiles is None else "output elements a thread"
    if x is None or y is None:
        yield change_text
    elif x == y:
        yield f"{change_text}: as many {unit} as before ({x})"
    else:
        yield f"{change_text}: {_ratio(x, y)} the {unit} ({x} → {y})"


def _shape(tile: tuple[int, ...] | None) -> str:
    return "×".join(map(str, tile or ()))


def _ratio(x: float, y: float) -> str:
    return _RATIOS.get(y / x, f"{y / x:.3g} times")


def _tiles_differ(d: Delta) -> bool:
    return bool(d.a.tile and d.b.tile and d.a.tile != d.b.tile) and not (d.a.tiles and d.b.tiles)


def _shown_in_elements(d: Delta) -> set[str]:
    """The settings that the number of elements a thread follows from."""
    if d.a.tiles and d.b.tiles:
        return {"num_warps", *NAMES[:2]}
    sizes = _block_ratios(d) if _tiles_differ(d) else {}
    if prod(sizes.values()) * prod(d.a.tile or ()) == prod(d.b.tile or ()):
        return {"num_warps", *sizes}
    return {"num_warps"}


def _block_ratios(d: Delta) -> dict[str, float]:
    """How changed settings that are dimensions of the largest tensor compare, b to a."""
    ratios = {}
    for change in d.summary.config:
        a_size = change.a
        b_size = change.b
        if change.name in _SIZES or not isinstance(a_size, int) or not isinstance(b_size, int):
            continue
        if a_size in (d.a.tile or ()) and b_size in (d.b.tile or ()):
            ratios[change.name] = b_size / a_size
    return ratios


def _settings(d: Delta) -> Iterator[str]:
    last = ("target", "num_stages", "num_ctas", "maxnreg")
    excluded = {*_shown_in_elements(d), "flags", *last}
    for change in d.summary.config:
        if change.name == NAMES[2] and d.a.tiles and d.b.tiles and d.a.tiles.k_steps:
            a_steps = d.a.tiles.k_steps
            b_steps = d.b.tiles.k_steps or 0
            same = a_steps == b_steps
            effect = "as many k-steps" if same else f"{_ratio(a_steps, b_steps)} the k-steps"
            yield f"{_changed(change)}: {effect} ({a_steps} → {b_steps})"
        elif change.name not in excluded:
            yield _changed(change)
    for name in last:
        if (changed := d.config(name)) is not None:
            yield changed


def _flags(d: Delta) -> Iterator[str]:
    """nvcc's flags that can change code: paths and the extension's name cannot."""
    change = next((c for c in d.summary.config if c.name == "flags"), None)
    if change is None:
        return
    parts = []
    for side, flags in (("a", change.a), ("b", change.b)):
        names = [str(flag) for flag in flags] if isinstance(flags, list) else []
        names = [f for f in names if "/" not in f and not f.startswith("-DTORCH_EXTENSION_NAME")]
        if names:
            parts.append(f"{some(names, 6)} in {side} alone")
    if parts:
        yield f"flags: {'; '.join(parts)}"


def _types(d: Delta) -> Iterator[str]:
    names_by_types: dict[tuple[str, str], list[str]] = {}
    for change in d.summary.arguments:
        types = (_type_alone(change.a), _type_alone(change.b))
        if change.name != "grid" and types[0] != types[1]:
            names_by_types.setdefault(types, []).append(change.name)
    for (a_type, b_type), names in names_by_types.items():
        yield f"{some(names)} {a_type} → {b_type}"


def _type_alone(value: object) -> str:
    """The type of an argument without what its value is a multiple of."""
    return str(value or "no argument of its own").partition(",")[0]


def _multiples(d: Delta) -> Iterator[str]:
    a_multiples = {p.name: p.multiple_of for p in d.a.parameters or ()}
    b_multiples = {p.name: p.multiple_of for p in d.b.parameters or ()}
    names_by_multiples: dict[tuple[int, int], list[str]] = {}
    for name, a_multiple in a_multiples.items():
        b_multiple = b_multiples.get(name, a_multiple)
        if b_multiple != a_multiple:
            names_by_multiples.setdefault((a_multiple, b_multiple), []).append(name)
    for (a_multiple, b_multiple), names in names_by_multiples.items():
        several = len(names) > 1
        known_to_be = f"{some(names, 4)} {'are' if several else 'is'} known to be"
        if a_multiple > 1 and b_multiple > 1:
            yield f"{known_to_be} a multiple of {a_multiple} in a, of {b_multiple} in b"
        else:
            noun = "multiples" if several else "a multiple"
            side = "a" if a_multiple > b_multiple else "b"
            yield f"{known_to_be} {noun} of {max(a_multiple, b_multiple)} in {side} alone"


def _source(d: Delta) -> Iterator[str]:
    if d.summary.source is not None and d.summary.source != (0, 0):
        deleted, inserted = d.summary.source
        yield f"source: {plural(deleted, 'line')} in a alone, {inserted} in b alone"


CAUSES = (_warps_and_tile, _settings, _types, _multiples, _flags, _source)


# -- effects -------------------------------------------------------------------------------------


def _accesses(d: Delta) -> Iterator[str]:
    """Loads, stores and asynchronous copies of global memory, with their width if it changed."""
    if None in d.machine:
        return
    for kind in (LOAD, STORE, COPY):
        a_accesses = _accesses_of_kind(d.machine[0], kind)
        b_accesses = _accesses_of_kind(d.machine[1], kind)
        a_count = sum(access.count for access in a_accesses)
        b_count = sum(access.count for access in b_accesses)
        if a_count == b_count:
            continue
        name = _INSTRUCTIONS[d.stage, kind]
        if kind != COPY and d.stage == "ptx":
            name += ".global"
        text = f"{a_count} → {b_count} {name}"
        a_widths = _widths(a_accesses)
        b_widths = _widths(b_accesses)
        if a_widths and b_widths and a_widths != b_widths:
            text += f" ({a_widths} → {b_widths} bytes wide)"
        yield text


def _widths(accesses: Iterable[Access]) -> str:
    """The widths of accesses, ascending; "" if one is unknown."""
    widths = sorted({access.width or 0 for access in accesses})
    return " or ".join(map(str, widths)) if all(widths) else ""


def _products(d: Delta) -> Iterator[str]:
    """Instructions of matrix products, with their shapes if these changed."""
    a_content, b_content = d.machine
    if a_content is None or b_content is None:
        return
    opcodes = [product.opcode for product in (*a_content.products, *b_content.products)]
    for opcode in dict.fromkeys(opcodes):
        a_count, a_shapes = _product_shapes(a_content, opcode)
        b_count, b_shapes = _product_shapes(b_content, opcode)
        text = f"{a_count} → {b_count} {opcode}"
        if a_shapes and b_shapes and set(a_shapes) != set(b_shapes):
            yield f"{text} ({some(a_shapes)} → {some(b_shapes)})"
        elif a_count != b_count:
            yield text


def _product_shapes(content: StageContent, opcode: str) -> tuple[int, list[str]]:
    """How many products of an opcode there are, and their shapes (``m16n8k16``)."""
    products = [product for product in content.products if product.opcode == opcode]
    shapes = dict.fromkeys(
        "m{}n{}k{}".format(*product.shape) if product.shape else "another shape"
        for product in products
    )
    return sum(product.count for product in products), list(shapes)


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
    changes = {change.name: change for change in d.summary.resources}
    for name, noun in words.items():
        change = changes.get(name)
        if change is None or not change.differs:
            continue
        a = change.a
        b = change.b
        if isinstance(a, float) and isinstance(b, float):
            yield f"≈ {a:.3g} → {b:.3g} {noun}"
        elif a is not None and b is not None:
            yield f"{a} → {b} {noun}"
