"""In words: what two variants differ by, and what came of it.

Causes are what somebody chose (the configuration, what is known of arguments, the target, the
source); effects are counts and figures. Where there is one cause, the effects are told of it;
where there are several, they are told of all of them together, for nothing here says which did
what. Consequences say how one figure follows from another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from inspector.analyse.accesses import COPY, LOAD, STORE
from inspector.analyse.card import Made
from inspector.analyse.diff.consequences import CONSEQUENCES
from inspector.analyse.diff.delta import Delta, ratio, some
from inspector.analyse.diff.summary import Side, Summary
from inspector.analyse.products import Product
from inspector.model import Stage

__all__ = ["CAUSES", "EFFECTS", "explain"]

_SIZES = ("num_warps", "num_stages", "num_ctas", "maxnreg", "flags", "target")
_SAID = 5  # effects that are told of at most
_INSTRUCTIONS = {
    ("ptx", LOAD): "ld", ("ptx", STORE): "st", ("ptx", COPY): "cp.async",
    ("sass", LOAD): "LDG", ("sass", STORE): "STG", ("sass", COPY): "LDGSTS",
}  # fmt: skip


def explain(a: Side, b: Side, summary: Summary, identical: bool) -> tuple[str, ...]:
    """The sentences, what was chosen first; ``identical`` is of the compared stage's text."""
    d = Delta(a, b, summary)
    causes = [text for rule in CAUSES for text in rule(d)]
    effects = [text for rule in EFFECTS for text in rule(d)][:_SAID]
    out = list(_main(causes, effects, identical, summary))
    out += [text for rule in CONSEQUENCES for text in rule(d)]
    return tuple(out)


def _main(
    causes: list[str], effects: list[str], identical: bool, summary: Summary
) -> Iterator[str]:
    stage = summary.stage.value
    told = ", ".join(effects)
    if identical and not effects:
        told = f"the {stage} is the same but for names" if causes else ""
    if len(causes) == 1:
        yield f"{causes[0]}: {told}" if told else causes[0]
    elif causes:
        yield from causes
        if told:
            yield f"together: {told}"
    elif identical:
        yield f"the {stage} is the same but for names" + (f"; {told}" if told else "")
    elif told:
        yield f"nothing that was recorded was chosen differently: {told}"


# -- what was chosen ------------------------------------------------------------------------------


def target(d: Delta) -> Iterator[str]:
    """The architecture that both were compiled for."""
    if (change := d.config("target")) is not None:
        yield f"target {change}"


def versions(d: Delta) -> Iterator[str]:
    """The compilers that made the two, where they are not the same."""
    told = [f"{c.name} {c.a} → {c.b}" for c in d.summary.versions]
    if told:
        yield ", ".join(told)


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
        held = " → ".join("×".join(map(str, t)) for t in tiles if t is not None)
        parts.append(some(sizes) if sizes else f"largest tensor {held}")
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
        told = tiled and _is_size(c.a) and _is_size(c.b)
        if c.name not in _SIZES and not told:
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
    told = []
    for side, held in (("a", change.a), ("b", change.b)):
        kept = [str(f) for f in held if _matters(str(f))] if isinstance(held, list) else []
        if kept:
            told.append(f"{some(kept, 6)} in {side} alone")
    if told:
        yield f"flags: {'; '.join(told)}"


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
    held = ({p.name: p for p in side.parameters or ()} for side in (d.a, d.b))
    left, right = held
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
        gone, new = d.summary.source
        yield f"source: {gone} lines in a alone, {new} in b alone"


Rule = Callable[[Delta], Iterator[str]]

CAUSES: tuple[Rule, ...] = (
    target,
    versions,
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
        widths = [_widths(made, kind) for made in (x, y)]
        if all(widths) and widths[0] != widths[1]:
            text += f" ({widths[0]} → {widths[1]} bytes wide)"
        yield text


def products(d: Delta) -> Iterator[str]:
    """Matrix products on tensor cores, as instructions."""
    x, y = d.machine
    if x is None or y is None:
        return
    for name in dict.fromkeys(p.opcode for made in (x, y) for p in made.products):
        held = [[p for p in made.products if p.opcode == name] for made in (x, y)]
        before, after = (sum(p.count for p in side) for side in held)
        shapes = [dict.fromkeys(_shape(p) for p in side) for side in held]
        text = f"{before} → {after} {name}"
        if all(shapes) and shapes[0] != shapes[1]:
            yield f"{text} ({some(list(shapes[0]))} → {some(list(shapes[1]))})"
        elif before != after:
            yield text


def figures(d: Delta) -> Iterator[str]:
    """Registers, spills, shared memory and the number of instructions."""
    held = {c.name: c for c in d.summary.resources}
    for name, words in (
        ("registers", "registers"),
        ("spill_store_bytes", "bytes spilled"),
        ("static_shared_bytes", "bytes of static shared memory"),
        ("dynamic_shared_bytes", "bytes of dynamic shared memory"),
        (f"{d.stage}_instructions", f"{d.stage.upper()} instructions"),
    ):
        c = held.get(name)
        if c is not None and c.differs and None not in (c.a, c.b):
            yield f"{c.a} → {c.b} {words}"


EFFECTS: tuple[Rule, ...] = (accesses, products, figures)


def _shape(product: Product) -> str:
    return "m{}n{}k{}".format(*product.shape) if product.shape else "another shape"


def _count(made: Made, kind: str) -> int:
    return sum(a.count for a in made.accesses if a.kind == kind and _global(a.kind, a.space))


def _global(kind: str, space: str) -> bool:
    return kind == COPY or space == "global"


def _widths(made: Made, kind: str) -> str:
    held = {a.width for a in made.accesses if a.kind == kind and _global(a.kind, a.space)}
    return "" if None in held else " or ".join(str(w) for w in sorted(w for w in held if w))
