"""In words: what two variants differ by, and what came of it.

Causes are what somebody chose (the configuration, what is known of arguments, the target, the
source); effects are counts and figures. Where there is one cause, the effects are told of it;
where there are several, they are told of all of them together, for nothing here says which did
what. Consequences say how one figure follows from another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from inspector.analyse.accesses import COPY, LOAD, STORE, Access, Product, total
from inspector.analyse.card import StageContent
from inspector.analyse.occupancy import REGISTERS, SHARED, THREADS, Occupancy
from inspector.diff.summary import Summary, VariantSide
from inspector.model import Stage
from inspector.text import microseconds, plural, some

# -- what rules see -------------------------------------------------------------------------------
# Two sides and their summary, as rules see them, and how numbers are put in words.

_RATIOS = {(2, 1): "half", (4, 1): "a quarter of", (8, 1): "an eighth of", (1, 2): "twice",
           (1, 4): "four times", (1, 8): "eight times"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Delta:
    """What a rule looks at: both sides and their summary."""

    a: VariantSide
    b: VariantSide
    summary: Summary

    @property
    def stage(self) -> str:
        """The stage whose instructions are counted: ``ptx`` or ``sass``, empty if there is none."""
        return self.summary.machine.value if self.summary.machine is not None else ""

    @property
    def machine(self) -> tuple[StageContent | None, StageContent | None]:
        """The content of that stage on both sides; None for a side that lacks it."""
        stage = self.summary.machine
        if stage is None:
            return None, None
        return self.a.card.of(stage), self.b.card.of(stage)

    def config(self, name: str) -> str | None:
        """How a value of the configuration changed (``4 → 8``); None if it does not differ."""
        change = next((c for c in self.summary.config if c.name == name), None)
        return None if change is None else f"{self.value(change.a)} → {self.value(change.b)}"

    @staticmethod
    def value(value: object) -> str:
        """A value of a configuration as text; None is ``unset``."""
        return "unset" if value is None else str(value)


def ratio(a: int, b: int) -> str:
    """The ratio of ``b`` to ``a`` in words (``half``, ``twice``, ``1.5 times``); both positive."""
    for (x, y), word in _RATIOS.items():
        if a * y == b * x:
            return word
    return f"{b / a:.3g} times"


# -- how one figure follows from another ----------------------------------------------------------
# Widths, masks, occupancy, spills, loops, tensor cores.

_FIGURES = {REGISTERS: "registers a thread", SHARED: "bytes of shared memory a block",
            THREADS: "threads a block"}  # fmt: skip
_NOUNS = {LOAD: "loads", STORE: "stores"}


def widths(d: Delta) -> Iterator[str]:
    """Global loads or stores that became wider or narrower over the same bytes."""
    for kind, noun in _NOUNS.items():
        left, right = (_of(content, kind) for content in d.machine)
        x, y = ({a.width for a in side} for side in (left, right))
        if x == y or len(x) != 1 or len(y) != 1 or None in x | y:
            continue
        before, after = total(left, (kind,), "global"), total(right, (kind,), "global")
        counts = sum(a.count for a in left), sum(a.count for a in right)
        text = f"global {noun} move {y.pop()} instead of {x.pop()} bytes a thread each"
        if before == after:
            text += f": {counts[0]} → {counts[1]} of them for the same {before} bytes"
        yield text


def masks(d: Delta) -> Iterator[str]:
    """Predicates on global loads and stores that came or went."""
    sides = []
    for content in d.machine:
        accesses = [a for kind in _NOUNS for a in _of(content, kind)]
        sides.append((sum(a.guarded for a in accesses), sum(a.count for a in accesses)))
    (x, all_x), (y, all_y) = sides
    if all_x and all_y and bool(x) != bool(y):
        if x:
            yield (
                f"masks are gone: {x} of {all_x} global accesses of a stand under a predicate, "
                "none of b's does"
            )
        else:
            yield (
                f"masks came: {y} of {all_y} global accesses of b stand under a predicate, "
                "none of a's does"
            )


def local_memory(d: Delta) -> Iterator[str]:
    """Spills that came or went, with the registers that there were."""
    x, y = d.a.card.resources, d.b.card.resources
    before, after = x.spill_store_bytes, y.spill_store_bytes
    if before is None or after is None or before == after:
        return
    registers = ""
    if x.registers is not None and y.registers is not None:
        registers = f", with {x.registers} and {y.registers} registers a thread"
    yield f"spills: {before} → {after} bytes a thread are stored to local memory{registers}"


def occupied(d: Delta) -> Iterator[str]:
    """Theoretical occupancy, with what limits it on both sides."""
    x, y = d.a.card.occupancy, d.b.card.occupancy
    if x is None or y is None:
        return
    if x.device.arch != y.device.arch:
        if x.percent != y.percent:
            yield (
                f"occupancy in theory: {x.percent:.4g} % of an SM of {x.device.arch}, "
                f"{y.percent:.4g} % of one of {y.device.arch}"
            )
        return
    if x.warps == y.warps:
        return
    yield (
        f"occupancy in theory {x.percent:.4g} → {y.percent:.4g} %: "
        f"{_limited(d, x, 'a')}; {_limited(d, y, 'b')}"
    )


def _limited(d: Delta, occupancy: Occupancy, side: str) -> str:
    card = d.a.card if side == "a" else d.b.card
    shared = (card.static_shared_bytes or 0) + (card.dynamic_shared_bytes or 0)
    figures = {REGISTERS: card.resources.registers, SHARED: shared, THREADS: card.threads}
    by = [
        f"{figures[name]} {_FIGURES[name]}" if name in _FIGURES else name
        for name in occupancy.limiters
    ]
    blocks = plural(occupancy.blocks, "block")
    return f"{blocks} an SM in {side}, limited by {some(by)}" if by else f"{blocks} in {side}"


def loops(d: Delta) -> Iterator[str]:
    """Loops that came or went, and how many blocks are launched where that is known."""
    x, y = d.machine
    if x is None or y is None or x.loops is None or y.loops is None or x.loops == y.loops:
        return
    text = f"{x.loops} → {plural(y.loops, 'loop')}"
    before, after = d.a.card.blocks, d.b.card.blocks
    if before is not None and after is not None and before != after:
        text += f", and {before:,} → {after:,} blocks are launched"
    yield text


def one_warp(d: Delta) -> Iterator[str]:
    """Barriers that a block of one warp does not need, or that one of several does."""
    x, y = d.machine
    if x is None or y is None or x.mix is None or y.mix is None or d.a.warps == d.b.warps:
        return
    names = ("bar", "barrier") if x.stage is Stage.PTX else ("BAR",)
    left, right = (sum(n for o, n in m.by_opcode if o in names) for m in (x.mix, y.mix))
    if left and not right and d.b.warps == 1:
        yield f"b's block is one warp, which needs no barrier: {left} → 0 {names[0]}"
    elif right and not left and d.a.warps == 1:
        yield f"a's block is one warp, b's has to meet at barriers: 0 → {right} {names[0]}"


def tensor_cores(d: Delta) -> Iterator[str]:
    """Matrix products that moved to or from the tensor cores."""
    x, y = d.machine
    if x is None or y is None or bool(x.products) == bool(y.products):
        return
    with_, without, side = ("b", "a", y) if y.products else ("a", "b", x)
    names = some(list(dict.fromkeys(p.opcode for p in side.products)))
    yield f"{with_} multiplies on tensor cores ({names}), {without} does not"


def begins(d: Delta) -> Iterator[str]:
    """The first stage that differs, where those above it are alike."""
    first = d.summary.first
    if first is None:
        return
    if first is Stage.TTGIR and d.a.warps != d.b.warps:
        yield "the ttir is the same: the difference begins in ttgir, where elements get threads"
    elif first not in (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.TTIR):
        if first is Stage.SASS:
            yield "the ptx is the same: the difference was made by the assembler"
        elif first.rank > Stage.TTIR.rank and d.a.card.of(Stage.TTGIR) is not None:
            yield f"the stages above are the same: the difference begins in {first.value}"


def measured(d: Delta) -> Iterator[str]:
    """Measured times, where there are two; else the tuner's own."""
    x, y = d.a.time_us, d.b.time_us
    if x and y and x != y:
        less = "less" if y < x else "more"
        whose = _tuners(d) if d.a.tuned else "measured"
        yield f"{whose}: {microseconds(x)} → {microseconds(y)} µs, {abs(y - x) / x:.0%} {less}"


def _tuners(d: Delta) -> str:
    names = dict.fromkeys(
        str(record["stopwatch"])
        for record in (d.a.variant.autotune or {}, d.b.variant.autotune or {})
        if record.get("stopwatch")
    )
    return "by the tuner's own stopwatch" + (f" ({', '.join(names)})" if names else "")


Rule = Callable[[Delta], Iterator[str]]

CONSEQUENCES: tuple[Rule, ...] = (
    widths,
    masks,
    tensor_cores,
    one_warp,
    loops,
    local_memory,
    occupied,
    begins,
    measured,
)


def _of(content: StageContent | None, kind: str) -> list[Access]:
    if content is None:
        return []
    return [a for a in content.accesses if a.kind == kind and a.space == "global"]


_SIZES = ("num_warps", "num_stages", "num_ctas", "maxnreg", "flags", "target")
_SAID = 5  # effects that are told of at most
_INSTRUCTIONS = {
    ("ptx", LOAD): "ld", ("ptx", STORE): "st", ("ptx", COPY): "cp.async",
    ("sass", LOAD): "LDG", ("sass", STORE): "STG", ("sass", COPY): "LDGSTS",
}  # fmt: skip


def explain(a: VariantSide, b: VariantSide, summary: Summary, identical: bool) -> tuple[str, ...]:
    """The sentences, causes first; ``identical``: the text of the compared stage is the same."""
    d = Delta(a, b, summary)
    causes = [text for rule in CAUSES for text in rule(d)]
    effects = [text for rule in EFFECTS for text in rule(d)][:_SAID]
    out = [*_failures(d), *_main(causes, effects, identical, summary)]
    out += [text for rule in CONSEQUENCES for text in rule(d)]
    return tuple(out)


def _failures(d: Delta) -> Iterator[str]:
    """Which of the two came to nothing, and why: the other differences are beside that."""
    for name, side in (("a", d.a), ("b", d.b)):
        error = side.variant.error
        if error is not None:
            yield f"{name} {error.how}: {error.said}"


def _main(
    causes: list[str], effects: list[str], identical: bool, summary: Summary
) -> Iterator[str]:
    stage = summary.stage.value
    effects_text = ", ".join(effects)
    if identical and not effects:
        effects_text = f"the {stage} is the same but for names" if causes else ""
    if len(causes) == 1:
        yield f"{causes[0]}: {effects_text}" if effects_text else causes[0]
    elif causes:
        yield from causes
        if effects_text:
            yield f"together: {effects_text}"
    elif identical:
        yield f"the {stage} is the same but for names" + (
            f"; {effects_text}" if effects_text else ""
        )
    elif effects_text:
        yield f"nothing that was recorded was chosen differently: {effects_text}"


# -- what was chosen ------------------------------------------------------------------------------


def target(d: Delta) -> Iterator[str]:
    """The architecture that both were compiled for."""
    if (change := d.config("target")) is not None:
        yield f"target {change}"


def versions(d: Delta) -> Iterator[str]:
    """The compilers that made the two, where they are not the same."""
    changes = [f"{c.name} {c.a} → {c.b}" for c in d.summary.versions]
    if changes:
        yield ", ".join(changes)


def warps_and_tile(d: Delta) -> Iterator[str]:
    """``num_warps`` and the block: how many elements a thread has of it."""
    parts = []
    if (change := d.config("num_warps")) is not None:
        parts.append(f"num_warps {change}")
    tiles = (d.a.tile, d.b.tile)
    sizes = [
        f"{c.name} {c.a} → {c.b}"
        for c in d.summary.config
        if c.name not in _SIZES and _is_size(c.a) and _is_size(c.b)
    ]
    if None not in tiles and tiles[0] != tiles[1]:
        shapes = " → ".join("×".join(map(str, t)) for t in tiles if t is not None)
        parts.append(some(sizes) if sizes else f"largest tensor {shapes}")
    if not parts:
        return
    x, y = d.a.elements, d.b.elements
    if x is None or y is None:
        yield " and ".join(parts)
    elif x == y:
        yield f"{' and '.join(parts)}: as many elements a thread as before ({x})"
    else:
        yield f"{' and '.join(parts)}: {ratio(x, y)} the elements a thread ({x} → {y})"


def constants(d: Delta) -> Iterator[str]:
    """Constexprs that do not change the largest tensor, and whatever else is in a configuration."""
    tiled = d.a.tile is not None and d.b.tile is not None and d.a.tile != d.b.tile
    for c in d.summary.config:
        in_tile = tiled and _is_size(c.a) and _is_size(c.b)
        if c.name not in _SIZES and not in_tile:
            yield f"{c.name} {d.value(c.a)} → {d.value(c.b)}"


def stages(d: Delta) -> Iterator[str]:
    """``num_stages``, ``num_ctas`` and ``maxnreg``."""
    for name in ("num_stages", "num_ctas", "maxnreg"):
        if (change := d.config(name)) is not None:
            yield f"{name} {change}"


def flags(d: Delta) -> Iterator[str]:
    """nvcc's flags."""
    change = next((c for c in d.summary.config if c.name == "flags"), None)
    if change is None:
        return
    parts = []
    for side, changed in (("a", change.a), ("b", change.b)):
        relevant = (
            [str(f) for f in changed if _matters(str(f))] if isinstance(changed, list) else []
        )
        if relevant:
            parts.append(f"{some(relevant, 6)} in {side} alone")
    if parts:
        yield f"flags: {'; '.join(parts)}"


def types(d: Delta) -> Iterator[str]:
    """Types of arguments."""
    groups: dict[tuple[str, str], list[str]] = {}
    for c in d.summary.arguments:
        left, right = _kind(c.a), _kind(c.b)
        if c.name != "grid" and left != right:
            groups.setdefault((left, right), []).append(c.name)
    for (left, right), names in groups.items():
        absent = {"": "no argument of its own"}
        yield f"{some(names)} {absent.get(left, left)} → {absent.get(right, right)}"


def multiples(d: Delta) -> Iterator[str]:
    """What Triton knows of arguments' values."""
    groups: dict[tuple[int, int], list[str]] = {}
    by_name = ({p.name: p for p in side.parameters or ()} for side in (d.a, d.b))
    left, right = by_name
    for name, p in left.items():
        q = right.get(name)
        if q is not None and p.multiple_of != q.multiple_of:
            groups.setdefault((p.multiple_of, q.multiple_of), []).append(name)
    for (x, y), names in groups.items():
        are = "is" if len(names) == 1 else "are"
        if min(x, y) > 1:
            yield f"{some(names, 4)} {are} known to be a multiple of {x} in a, of {y} in b"
        else:
            many = "a multiple" if len(names) == 1 else "multiples"
            side = "a" if x > y else "b"
            yield f"{some(names, 4)} {are} known to be {many} of {max(x, y)} in {side} alone"


def source(d: Delta) -> Iterator[str]:
    """The kernel's own source."""
    if d.summary.source is not None and d.summary.source != (0, 0):
        deleted, inserted = d.summary.source
        yield f"source: {plural(deleted, 'line')} in a alone, {inserted} in b alone"


CAUSES: tuple[Rule, ...] = (
    versions,
    target,
    warps_and_tile,
    constants,
    stages,
    types,
    multiples,
    flags,
    source,
)


def _matters(flag: str) -> bool:
    """Whether a flag of nvcc's can change code: a path or the extension's name does not."""
    return "/" not in flag and not flag.startswith("-DTORCH_EXTENSION_NAME")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _kind(value: object) -> str:
    return "" if value is None else str(value).partition(",")[0]


# -- what came of it ------------------------------------------------------------------------------


def accesses(d: Delta) -> Iterator[str]:
    """Loads, stores and asynchronous copies of global memory, with their width where it changed."""
    x, y = d.machine
    if x is None or y is None:
        return
    for kind in (LOAD, STORE, COPY):
        left, right = _count(x, kind), _count(y, kind)
        if left == right:
            continue
        name = _INSTRUCTIONS[x.stage.value, kind]
        if kind != COPY and x.stage is Stage.PTX:
            name += ".global"
        text = f"{left} → {right} {name}"
        widths = [_widths(content, kind) for content in (x, y)]
        if all(widths) and widths[0] != widths[1]:
            text += f" ({widths[0]} → {widths[1]} bytes wide)"
        yield text


def products(d: Delta) -> Iterator[str]:
    """Matrix products on tensor cores, as instructions."""
    x, y = d.machine
    if x is None or y is None:
        return
    for name in dict.fromkeys(p.opcode for content in (x, y) for p in content.products):
        by_side = [[p for p in content.products if p.opcode == name] for content in (x, y)]
        before, after = (sum(p.count for p in side) for side in by_side)
        shapes = [dict.fromkeys(_shape(p) for p in side) for side in by_side]
        text = f"{before} → {after} {name}"
        if all(shapes) and shapes[0] != shapes[1]:
            yield f"{text} ({some(list(shapes[0]))} → {some(list(shapes[1]))})"
        elif before != after:
            yield text


def figures(d: Delta) -> Iterator[str]:
    """Registers, spills, shared memory and the number of instructions."""
    changes = {c.name: c for c in d.summary.resources}
    for name, words in (
        ("registers", "registers"),
        ("spill_store_bytes", "bytes spilled"),
        ("static_shared_bytes", "bytes of static shared memory"),
        ("dynamic_shared_bytes", "bytes of dynamic shared memory"),
        (f"{d.stage}_instructions", f"{d.stage.upper()} instructions"),
    ):
        c = changes.get(name)
        if c is not None and c.differs and None not in (c.a, c.b):
            yield f"{c.a} → {c.b} {words}"


EFFECTS: tuple[Rule, ...] = (accesses, products, figures)


def _shape(product: Product) -> str:
    return "m{}n{}k{}".format(*product.shape) if product.shape else "another shape"


def _count(content: StageContent, kind: str) -> int:
    return sum(a.count for a in content.accesses if a.kind == kind and _global(a.kind, a.space))


def _global(kind: str, space: str) -> bool:
    return kind == COPY or space == "global"


def _widths(content: StageContent, kind: str) -> str:
    widths = {a.width for a in content.accesses if a.kind == kind and _global(a.kind, a.space)}
    return "" if None in widths else " or ".join(str(w) for w in sorted(w for w in widths if w))
