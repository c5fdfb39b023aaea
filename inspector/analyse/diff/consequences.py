"""How one figure follows from another: widths, masks, occupancy, spills, loops, tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from inspector.analyse.accesses import LOAD, STORE, Access, total
from inspector.analyse.card import Made
from inspector.analyse.diff.delta import Delta, plural, some
from inspector.analyse.durations import microseconds
from inspector.analyse.occupancy import REGISTERS, SHARED, THREADS, Occupancy
from inspector.model import Stage

_FIGURES = {REGISTERS: "registers a thread", SHARED: "bytes of shared memory a block",
            THREADS: "threads a block"}  # fmt: skip
_NOUNS = {LOAD: "loads", STORE: "stores"}


def widths(d: Delta) -> Iterator[str]:
    """Global loads or stores that became wider or narrower over the same bytes."""
    for kind, noun in _NOUNS.items():
        left, right = (_of(made, kind) for made in d.machine)
        x, y = ({a.width for a in held} for held in (left, right))
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
    for made in d.machine:
        held = [a for kind in _NOUNS for a in _of(made, kind)]
        sides.append((sum(a.guarded for a in held), sum(a.count for a in held)))
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
    held = ""
    if x.registers is not None and y.registers is not None:
        held = f", with {x.registers} and {y.registers} registers a thread"
    yield f"spills: {before} → {after} bytes a thread are stored to local memory{held}"


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


def _limited(d: Delta, found: Occupancy, side: str) -> str:
    card = d.a.card if side == "a" else d.b.card
    shared = (card.static_shared_bytes or 0) + (card.dynamic_shared_bytes or 0)
    figures = {REGISTERS: card.resources.registers, SHARED: shared, THREADS: card.threads}
    by = [
        f"{figures[name]} {_FIGURES[name]}" if name in _FIGURES else name for name in found.limiters
    ]
    blocks = plural(found.blocks, "block")
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
    with_, without, held = ("b", "a", y) if y.products else ("a", "b", x)
    names = some(list(dict.fromkeys(p.opcode for p in held.products)))
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
        str(held["stopwatch"])
        for held in (d.a.variant.autotune or {}, d.b.variant.autotune or {})
        if held.get("stopwatch")
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


def _of(made: Made | None, kind: str) -> list[Access]:
    if made is None:
        return []
    return [a for a in made.accesses if a.kind == kind and a.space == "global"]
