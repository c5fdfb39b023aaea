"""The card of a variant, as lines of text and as JSON. A figure that is not known is a dash."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from inspector.analyse.accesses import Access, Product
from inspector.analyse.card import Card, Estimate, StageContent
from inspector.base.text import plural, shown
from inspector.report.jsons import members
from inspector.report.tables import UNKNOWN, figure, spills

WIDTH = 80
LABEL = 16
_TIMES = " × "


def lines(card: Card, width: int = WIDTH) -> list[str]:
    """The card in lines of at most ``width`` cells, labels on the left."""
    out: list[str] = []
    for label, text in _rows(card):
        wrapped = textwrap.wrap(text, max(20, width - LABEL)) or [""]
        out.append(f"{label:<{LABEL}}{wrapped[0]}")
        out += [" " * LABEL + rest for rest in wrapped[1:]]
    return out


def _rows(card: Card) -> Iterator[tuple[str, str]]:
    held = card.resources
    yield (
        "registers",
        f"{figure(held.registers)} a thread, spills {spills(held)}, "
        f"stack {figure(held.stack_bytes)}, barriers {figure(held.barriers)}",
    )
    shared = f"{figure(card.static_shared_bytes)} + {figure(card.dynamic_shared_bytes)}"
    reserved = (held.static_shared_bytes or 0) - (card.static_shared_bytes or 0)
    more = f", and {reserved} of the driver's, which tables count" if reserved else ""
    yield "shared memory", f"{shared} bytes a block (static + dynamic){more}"
    yield "launch", _launch(card)
    for text in card.measured:
        yield "ncu", shown(text)
    yield "occupancy", _occupancy(card)
    if card.occupancy is not None:
        if card.occupancy.limiters:
            yield "  limited by", " and ".join(card.occupancy.limiters)
        for step in card.occupancy.next_steps:
            yield "  more with", step.text
    for made in card.made:
        yield from _made(made)
    yield "global memory", _estimate(card.tensor_bytes, "bytes a launch")
    if card.accessed_bytes is not None:
        yield "  asked for", _estimate(card.accessed_bytes, "bytes a launch")
    yield "operations", _estimate(card.operations, "floating-point operations a launch")
    if (ratio := intensity(card)) is not None:
        yield "  for each byte", f"{ratio:.3g} operations (estimate)"
    if card.made_by:
        yield "made by", shown(", ".join(f"{n} {version}" for n, version in card.made_by.items()))


def _launch(card: Card) -> str:
    threads = f"{figure(card.threads)} threads a block"
    if card.launch is None or card.blocks is None:
        return f"{threads}; no launch is known"
    grid = _TIMES.join(map(str, card.launch.grid or ()))
    out = f"{threads}, {plural(card.blocks, 'block')} ({grid})"
    if card.waves is not None and card.device is not None:
        out += f": {card.waves:.3g} full waves across {card.device.sms} SMs"
    return out


def _occupancy(card: Card) -> str:
    full = card.occupancy
    if full is None:
        return f"{UNKNOWN} {unknown_occupancy(card)}"
    device = full.device
    return (
        f"{full.percent:.4g} % in theory: {plural(full.blocks, 'block')} an SM, "
        f"{full.warps} of {device.max_warps_per_sm} warps ({device.name}, {device.arch})"
    )


def unknown_occupancy(card: Card) -> str | None:
    """Why there is no occupancy, None if there is one."""
    if card.occupancy is not None:
        return None
    if card.device is None:
        return "the limits of its architecture are not known"
    of_code = {
        "registers": card.resources.registers,
        "static shared memory": card.static_shared_bytes,
    }
    of_launch = {
        "threads of a block": card.threads,
        "dynamic shared memory": card.dynamic_shared_bytes,
    }
    parts = []
    for figures, lacking in (
        (of_code, "without figures of machine code"),
        (of_launch, "without a recorded launch" if card.launch is None else "not in the launch"),
    ):
        if names := [name for name, value in figures.items() if value is None]:
            parts.append(f"{' and '.join(names)} ({lacking})")
    return f"not known: {', '.join(parts)}" if parts else "no block of this size can be launched"


def _made(made: StageContent) -> Iterator[tuple[str, str]]:
    stage = made.stage.value
    if made.mix is not None:
        parts = [f"{cost} {count}" for cost, count in made.mix.by_cost]
        if made.mix.unclassed:
            parts.append(f"not classed {made.mix.unclassed}")
        total = plural(made.mix.total, "instruction")
        yield stage, f"{total}: {', '.join(parts)}" if parts else total
        if made.declared:
            named = ", ".join(f"{n} {name}" for name, n in sorted(made.declared.items()))
            yield "  declares", f"{named}: virtual registers, which ptxas reallocates"
        for space in dict.fromkeys(access.space for access in made.accesses):
            here = [_access(a) for a in made.accesses if a.space == space]
            yield f"  {space}", f"{', '.join(here)} a thread"
    for n, product in enumerate(made.products):
        label = stage if made.mix is None and n == 0 else "  tensor cores"
        yield label, _product(product)
    if made.branches is not None and made.loops is not None:
        loops = plural(made.loops, "loop")
        if made.deepest and made.deepest > 1:
            loops += f", {made.deepest} deep"
        many = "branch" if made.branches == 1 else "branches"
        yield "  control", f"{made.branches} {many}, {loops}"


def _access(access: Access) -> str:
    width = f"{access.width} B" if access.width is not None else f"{UNKNOWN} B"
    text = f"{access.kind} {access.count}{_TIMES}{width}"
    if not access.guarded:
        return text
    which = "" if access.guarded == access.count else f"{access.guarded} "
    return f"{text} ({which}under a predicate)"


def _product(product: Product) -> str:
    shape = "m{}n{}k{}".format(*product.shape) if product.shape else f"shape {UNKNOWN}"
    types = " ".join(product.types)
    return f"{product.opcode} {shape} {types}".rstrip() + f"{_TIMES}{product.count}"


def _estimate(estimate: Estimate | None, of: str) -> str:
    if estimate is None:
        return UNKNOWN
    most = "at most " if estimate.at_most else ""
    return f"{most}{estimate.value:,} {of} (estimate: {estimate.how})"


def intensity(card: Card) -> float | None:
    """Operations for each byte of the tensors, both estimates; None if one is not known."""
    if card.operations is None or card.tensor_bytes is None or not card.tensor_bytes.value:
        return None
    return card.operations.value / card.tensor_bytes.value


# -- JSON -----------------------------------------------------------------------------------------


def as_json(card: Card) -> dict[str, object]:
    """Return the card as JSON values; unknown is null, estimates are under ``estimates``."""
    occupancy = card.occupancy
    return {
        **members(
            card.resources, "registers spill_store_bytes spill_load_bytes stack_bytes barriers"
        ),
        **members(card, "static_shared_bytes dynamic_shared_bytes made_by threads"),
        "grid": list(card.launch.grid) if card.launch and card.launch.grid else None,
        **members(card, "blocks waves"),
        "device": None if card.device is None else members(card.device, "arch name sms"),
        "occupancy": None if occupancy is None else members(occupancy, _OCCUPANCY),
        "occupancy_unknown": unknown_occupancy(card),
        "made": {made.stage.value: _made_json(made) for made in card.made},
        "estimates": {
            **members(card, "tensor_bytes accessed_bytes operations"),
            "operations_a_byte": intensity(card),
        },
    }


_OCCUPANCY = "blocks warps percent limiters limits registers_a_warp shared_a_block next_steps"


def _made_json(made: StageContent) -> dict[str, object]:
    mix = made.mix
    return {
        "instructions": None if mix is None else mix.total,
        "by_cost": None if mix is None else dict(mix.by_cost),
        "by_opcode": None if mix is None else dict(mix.by_opcode),
        "unclassed": None if mix is None else mix.unclassed,
        **members(made, "accesses products branches loops deepest declared"),
    }
