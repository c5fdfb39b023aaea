"""Tables of ``diff``: all variants of a kernel, and the kernels of two recordings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from inspector.analyse.diff.comparing import FunctionPair
from inspector.analyse.diff.recordings import Entry, State
from inspector.analyse.diff.summary import TUNER, Change
from inspector.analyse.diff.variants import Row
from inspector.analyse.durations import microseconds
from inspector.naming import base_name
from inspector.report.diff import Paired
from inspector.report.diff_text import amount, called, delta
from inspector.report.safe import shown
from inspector.report.tables import UNKNOWN, figure, plural, shared, spills

_STATES = {State.SAME: "dim", State.CHANGED: "yellow", State.ADDED: "green",
           State.REMOVED: "red"}  # fmt: skip
_HEADS = ("variant", "configuration", "time", "regs", "spill", "shared", "occup.", "instr.")
_LEFT = ("variant", "configuration")
# Columns in the order in which they are given up where the terminal is narrow.
_GIVEN_UP = ("shared", "spill", "instr.")
_SHORT = {"num_warps": "w", "num_stages": "s", "num_ctas": "c"}


def settings(config: Mapping[str, object]) -> str:
    """``w4 s3 BLOCK=1024``."""
    parts = []
    for name, value in config.items():
        if value is None or name == "flags" or (name == "num_ctas" and value == 1):
            continue
        parts.append(f"{_SHORT[name]}{value}" if name in _SHORT else f"{name}={value}")
    return " ".join(parts)


def variants(rows: Iterable[Row], width: int) -> Table:
    """A row for each variant; a star before the one that a tuner chose."""
    every = list(rows)
    cells = [_cells(row) for row in every]
    sizes = _fit(cells, width)
    time = time_head(every)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    table.add_column("", width=1)
    for head, size in sizes.items():
        left = head in _LEFT
        table.add_column(
            time if head == "time" else head,
            width=max(size, len(time)) if head == "time" else size,
            no_wrap=not left,
            overflow="fold",
            justify="left" if left else "right",
        )
    for star, held, style in cells:
        table.add_row(Text(star, style="bold green"), *(Text(held[h], style=style) for h in sizes))
    return table


def time_head(rows: Iterable[Row]) -> str:
    """What the column of times is called: a tuner's are its own."""
    return "tuner's" if any(row.time_by == TUNER for row in rows) else "time"


def _cells(row: Row) -> tuple[str, dict[str, str], str]:
    time = UNKNOWN if row.time_us is None else f"{microseconds(row.time_us)} µs"
    full = UNKNOWN if row.occupancy is None else f"{row.occupancy:.4g} %"
    told = settings(row.config)
    if row.reason:
        told = f"{told} ({row.reason})" if told else row.reason
    variant = row.variant
    style = "dim" if variant is None else "bold" if row.winner else ""
    return (
        "*" if row.winner else "",
        dict(
            zip(
                _HEADS,
                (
                    "not compiled" if variant is None else shown(variant.id),
                    shown(told),
                    time,
                    figure(row.resources.registers),
                    spills(row.resources),
                    shared(row.resources),
                    full,
                    figure(row.instructions),
                ),
                strict=True,
            )
        ),
        style,
    )


def _fit(cells: list[tuple[str, dict[str, str], str]], width: int) -> dict[str, int]:
    """Widths of the columns: configurations are wrapped, then columns given up."""
    full = {h: max([len(h), *(len(held[h]) for _, held, _ in cells)]) for h in _HEADS}
    for given_up in range(len(_GIVEN_UP) + 1):
        out = {h: n for h, n in full.items() if h not in _GIVEN_UP[:given_up]}
        others = sum(n for h, n in out.items() if h != "configuration")
        room = width - 1 - 2 * len(out) - others
        if room >= min(out["configuration"], 24) or given_up == len(_GIVEN_UP):
            out["configuration"] = max(min(out["configuration"], room), 10)
            return out
    return full


def recordings(pairs: Iterable[Paired], width: int) -> Table:
    """A row for each pair that is not the same."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False, width=width)
    table.add_column("", no_wrap=True)
    table.add_column("kernel", overflow="fold", ratio=2)
    table.add_column("a", no_wrap=True)
    table.add_column("b", no_wrap=True)
    table.add_column("what it takes", overflow="fold", ratio=3)
    for a, b, state, figures in pairs:
        if state is not State.SAME:
            both = a is not None and b is not None
            said = deltas(figures) if both else taken(figures)
            table.add_row(
                Text(state.value, style=_STATES[state]), Text(kernel(a, b)),
                Text(_id(a)), Text(_id(b)),
                Text(said or "its code alone"),
            )  # fmt: skip
    return table


def kernel(a: Entry | None, b: Entry | None) -> str:
    """The kernel's name, both where it has two."""
    names = dict.fromkeys(base_name(e.kernel.name) for e in (a, b) if e is not None)
    return shown(" → ".join(names))


def _id(entry: Entry | None) -> str:
    return UNKNOWN if entry is None else shown(entry.variant.id)


def deltas(figures: Iterable[Change]) -> str:
    """``registers 22 → 16 (-6), …``."""
    out = []
    for c in figures:
        a, b = amount(c.name, c.a), amount(c.name, c.b)
        change = delta(c)
        out.append(f"{called(c)} {a} → {b}"
                   + (f" ({change})" if change != UNKNOWN else ""))  # fmt: skip
    return ", ".join(out)


def taken(figures: Iterable[Change]) -> str:
    """What the one side that there is takes: what is not nothing."""
    held = [(c, c.b if c.a is None else c.a) for c in figures if c.name != "max_threads"]
    return ", ".join(f"{called(c)} {amount(c.name, value)}" for c, value in held if value)


def functions(pairs: Iterable[FunctionPair], figures: Iterable[Iterable[Change]]) -> Iterator[Text]:
    """A line for each function of two files: what became of it."""
    for pair, changed in zip(pairs, figures, strict=True):
        names = dict.fromkeys(base_name(f.name) for f in (pair.a, pair.b) if f is not None)
        yield Text.assemble("  ", (shown(" → ".join(names)), "bold"), f": {became(pair, changed)}")


def became(pair: FunctionPair, changed: Iterable[Change]) -> str:
    """``identical``, ``only in a``, or what changed of its figures."""
    if pair.a is None or pair.b is None:
        return "only in b" if pair.a is None else "only in a"
    if pair.identical:
        return "identical"
    return deltas(changed) or "its code alone"


def counts(pairs: Iterable[Paired]) -> str:
    """``3 changed, 1 added, 12 the same``."""
    held = [state for _, _, state, _ in pairs]
    words = ((State.CHANGED, "changed"), (State.ADDED, "added"), (State.REMOVED, "removed"),
             (State.SAME, "the same"))  # fmt: skip
    told = [f"{n} {word}" for state, word in words if (n := held.count(state))]
    return f"{plural(len(held), 'variant')}: {', '.join(told)}" if told else "no variants"
