"""The summary above a diff, for people: which two, what was chosen, why, and the figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from inspector.analyse.diff.summary import TUNER, AccessChange, Change, Side, Summary
from inspector.analyse.durations import microseconds
from inspector.analyse.hints import Finding
from inspector.naming import base_name
from inspector.report.safe import shown
from inspector.report.tables import UNKNOWN, config, plural

NAMES = {
    "registers": "registers",
    "spill_store_bytes": "spilled bytes stored",
    "spill_load_bytes": "spilled bytes loaded",
    "stack_bytes": "stack bytes",
    "static_shared_bytes": "static shared bytes",
    "dynamic_shared_bytes": "dynamic shared bytes",
    "barriers": "barriers",
    "max_threads": "threads at most",
    "threads": "threads a block",
    "occupancy_percent": "occupancy, theory",
    "blocks_per_sm": "blocks an SM",
    "ptx_instructions": "PTX instructions",
    "sass_instructions": "SASS instructions",
    "stall_cycles": "stall cycles, summed",
    "time_us": "measured time",
}
"""What each figure is called; the order is that of the table. ``max_threads`` is told where it is
not what a block has."""
_UNITS = {"occupancy_percent": " %"}
MOST = 10  # opcodes and settings that are told of; JSON has them all
_LABEL = 22


def title(mark: str, side: Side) -> Text:
    """Which variant one side is."""
    name = base_name(side.kernel.name)
    parts = (side.variant.id, side.variant.target or "", config(side.variant))
    told = "  ".join(shown(p) for p in parts if p)
    return Text.assemble((f"{mark} ", "bold cyan"), (shown(name), "bold"), f"  {told}")


def lines(summary: Summary, explanation: tuple[str, ...], width: int) -> Iterator[Text]:
    """The summary in lines of at most ``width`` cells."""
    for sentence in explanation:
        yield from _wrapped("• ", shown(sentence), width, "")
    if explanation:
        yield Text()
    rows = [(c, said) for c, said in figures(summary) if c.differs]
    alike = [(c, figure) for c, figure in figures(summary) if not c.differs and c.a is not None]
    groups = [
        [(called(c), *said, delta(c)) for c, said in rows],
        [(f"{c.name} instructions", str(c.a), str(c.b), delta(c)) for c in summary.costs],
        [(access(x), str(x.a), str(x.b), f"{x.b - x.a:+d}") for x in summary.accesses],
        [(c.name, str(c.a), str(c.b), delta(c)) for c in summary.opcodes[:MOST]],
    ]
    yield from _table([g for g in groups if g], width)
    if len(summary.opcodes) > MOST:
        rest = len(summary.opcodes) - MOST
        yield Text(f"and {plural(rest, 'more opcode')}", style="dim")
    if alike:
        told = ", ".join(f"{called(c)} {said[0]}" for c, said in alike)
        told = told.replace(" %", "\u00a0%")
        yield from _wrapped("alike: ", told, width, "dim")
    for found, word in ((summary.gained, "gained"), (summary.lost, "lost")):
        for one in found:
            yield from _wrapped(f"hint {word}: ", hint(one), width, "")


def figures(summary: Summary) -> Iterator[tuple[Change, tuple[str, str]]]:
    """The resources in the order of ``NAMES``, as numbers with their units."""
    held = {c.name: c for c in summary.resources}
    bound, threads = held.get("max_threads"), held.get("threads")
    for name in NAMES:
        if name == "max_threads" and bound and threads and _same(bound, threads):
            continue
        if (c := held.get(name)) is not None:
            yield c, (amount(name, c.a), amount(name, c.b))


def _same(one: Change, other: Change) -> bool:
    return (one.a, one.b) == (other.a, other.b)


def called(change: Change) -> str:
    """What people call a figure; a tuner's time is its own, taken with a stopwatch of its own."""
    if change.name == "time_us" and change.by == TUNER:
        return "tuner's time"
    return NAMES.get(change.name, change.name)


def amount(name: str, value: object) -> str:
    """A figure of that name with its unit, to as many places as are worth reading."""
    if value is None:
        return UNKNOWN
    if name == "time_us" and isinstance(value, int | float):
        return f"{microseconds(value)} µs"
    text = f"{value:.4g}" if isinstance(value, float) else shown(str(value))
    return text + _UNITS.get(name, "")


def delta(change: Change) -> str:
    """``+12``, ``-4``; a dash where one side is not known."""
    a, b = change.a, change.b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    if change.name == "time_us":
        return f"{'-' if b < a else '+'}{microseconds(abs(b - a))}"
    return f"{b - a:+.4g}" if isinstance(a, float) or isinstance(b, float) else f"{b - a:+d}"


def access(one: AccessChange) -> str:
    """``load global, 16 B``."""
    width = UNKNOWN if one.width is None else one.width
    return f"{one.kind} {one.space}, {width} B"


def hint(found: Finding) -> str:
    """The rule and the first sentence of what it says."""
    first = found.text.split(": ", 1)[0].split(". ", 1)[0]
    return f"{found.rule}: {shown(first)}"


def _table(groups: list[list[tuple[str, str, str, str]]], width: int) -> Iterator[Text]:
    rows = [row for group in groups for row in group]
    if not rows:
        return
    sizes = [max(len(row[k]) for row in rows) for k in range(4)]
    label = max(min(sizes[0], width - sum(sizes[1:]) - 8), 8)
    head = f"{'':<{label}}  {'a':>{sizes[1]}}  {'b':>{sizes[2]}}"
    yield Text(head, style="bold")
    for n, group in enumerate(groups):
        if n:
            yield Text()
        for name, a, b, change in group:
            cut = name if len(name) <= label else name[: label - 1] + "…"
            row = f"{shown(cut):<{label}}  {a:>{sizes[1]}}  {b:>{sizes[2]}}  "
            yield Text.assemble(row, (f"{change:>{sizes[3]}}", "dim"))
    yield Text()


def _wrapped(label: str, text: str, width: int, style: str) -> Iterator[Text]:
    room = max(width - len(label), 20)
    for n, part in enumerate(textwrap.wrap(text, room) or [""]):
        yield Text((label if not n else " " * len(label)) + part, style=style)
