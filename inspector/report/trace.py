"""What a call did when its PTX was run: the summary, a row a line with bars, a fault; and JSON."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.text import Text

from inspector.analyse.hints.subject import Finding
from inspector.base.model import Stage
from inspector.base.text import by_key, counted, kibibytes, plural, shown, word_for
from inspector.execute import Approximation, Buffer, Fault
from inspector.execute.calls.tracing import SHARED, TracedLaunch
from inspector.execute.facts import GLOBAL, ExecutedLine, MemoryUse, Totals, ValueFacts, kind_of
from inspector.listing.line import Listing
from inspector.measure.recorded_launch import ChosenLaunch
from inspector.report import jsons
from inspector.report.calls import sizes
from inspector.report.tables import UNKNOWN, clean, cut, figure, wrapped

LABEL = 14
BAR = 10
"""Cells of the longest bar."""
WIDE = 150
"""Minimum columns for values beside the text; below it otherwise."""
MOST_VALUES = 2
"""Registers shown of one line."""
NEAR = 1 << 16
"""Bytes past a tensor within which an address counts as one of it."""
Where = Callable[[int], Buffer | None]
"""The tensor that an address is in; None if it is in none."""
MOST_HOT = 3
"""Lines of the source that are named as the hottest."""
MOST_PRINTED = 8
"""Texts of printf that are shown."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class TracedKernel(Struct, frozen=True):
    """A traced kernel: its launch, and the execution.

    ``approximate`` are the lines whose results a GPU's may differ from.
    """

    chosen: ChosenLaunch
    launched: TracedLaunch
    totals: Totals
    approximate: tuple[Approximation, ...]


def sample_of(ran: int, of: int) -> str:
    if ran == of:
        return f"all {of:,} blocks" if of > 1 else "the one block"
    return f"{ran:,} of {of:,} blocks"


def count(value: float | None) -> str:
    return figure(value, "{:,.0f}")


def short(value: int | None) -> str:
    """``1,823``, ``233 k``, ``12.3 M``: three digits and no more where there are many."""
    if value is None:
        return UNKNOWN
    if value < 100_000:
        return f"{value:,}"
    for unit, size in (("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12)):
        if value < 1000 * size or unit == "T":
            scaled = value / size
            return f"{scaled:.3g} {unit}" if scaled < 999.5 else f"{scaled:,.0f} {unit}"
    return str(value)


def octets(value: int) -> str:
    if value < 10_000:
        return f"{value:,} B"
    return f"{short(value)}B" if " " in short(value) else f"{value / 1000:.3g} kB"


def ratio(part: float, whole: float) -> str:
    """``4``, ``4.87``: one figure a piece of another; a dash of nothing."""
    return UNKNOWN if not whole else f"{part / whole:.3g}"


def percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    value = 100 * share
    if 0 < value < 0.1:
        return "<0.1 %"
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def number(value: float | int | None, kind: str) -> str:
    """Format a register's value: integers in full, others to five digits."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or (kind[:1] in "us" and float(value).is_integer()):
        held = int(value)
        return hex(held) if held >= 1 << 40 else f"{held:,}"
    return f"{value:.5g}" if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def bar(share: float, width: int = BAR) -> str:
    """A bar of so many cells for 1, in eighths of one; what is not nothing is drawn."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)


def summary(told: TracedKernel) -> Iterator[tuple[str, str]]:
    launched, totals = told.launched, told.totals
    launch, chosen = launched.launch, told.chosen
    calls, which = len(chosen.variant.calls), "a launch of your own"
    if chosen.call is not None:
        which = f"recorded call {chosen.call}" + (f" of {calls}" if calls > 1 else "")
    shared = f", {kibibytes(launch.shared)} shared" if launch.shared else ""
    inputs = [f"{', '.join(chosen.given_names)} given"] if chosen.given_names else []
    if chosen.seed is not None:
        inputs.append(f"new inputs of the same kind, seed {chosen.seed}")
    yield (
        "call",
        f"{which}: grid {sizes(launch.grid)}, block {sizes(launch.block)}{shared}; "
        f"{', '.join(inputs) or 'no arguments'}",
    )
    for remark in launched.inputs.remarks:
        yield "  inputs", remark
    why = "; all of them would take long: --blocks all" if launched.sampled else ""
    ran = f"not to its end: it has {counted(launched.launch.blocks, 'block')}"
    if launched.ran is not None:
        ran = sample_of(launched.ran, launched.launch.blocks)
        ran += f", {count(launched.work)} lane-instructions"
    yield "ran", f"{ran}{why}"
    for text in launched.printed[:MOST_PRINTED]:
        yield "  printed", text.rstrip("\n")
    if (more := len(launched.printed) - MOST_PRINTED) > 0:
        yield "", f"and {more:,} more, which --json has"
    if totals.instructions:
        active = ratio(totals.active, totals.instructions)
        off = percent(1 - totals.active / totals.threads) if totals.threads else UNKNOWN
        parts = ", ".join(
            f"{name} {percent(n / totals.instructions)}" for name, n in told.totals.classes.items()
        )
        yield (
            "instructions",
            f"{count(totals.instructions)} of warps: {parts}; {active} of 32 lanes ran each, "
            f"{off} of those that came were predicated off",
        )
        often = ", ".join(f"{name} {count(n)}" for name, n in list(totals.opcodes.items())[:6])
        yield "  most often", often
    if totals.branches:
        parted = f"{count(totals.divergent)} divergent" if totals.divergent else "none divergent"
        yield "branches", f"{count(totals.branches)} of warps, {parted}"
    for kind, label in (("load", "reads"), ("store", "writes"), ("atomic", "atomics")):
        use = told.totals.use(GLOBAL, kind)
        if use.requests:
            excess = f"{ratio(use.sectors, use.least_sectors)} times the least that would do"
            if use.sectors == use.least_sectors:
                excess = "the least that would do"
            yield (
                f"global {label}",
                f"{counted(use.requests, 'request')}, {counted(use.sectors, 'sector')}, "
                f"{ratio(use.sectors, use.requests)} a request, {excess}; "
                f"{octets(use.bytes_wanted)} wanted, {octets(use.bytes_moved)} moved",
            )
    use = told.totals.use(SHARED)
    if use.requests:
        over = f"{count(use.conflicts)} of bank conflicts" if use.conflicts else "no bank conflicts"
        yield (
            "shared",
            f"{counted(use.requests, 'request')}, {counted(use.wavefronts, 'wavefront')}, "
            f"least {count(use.least_wavefronts)}: {over}",
        )
    if hot := hottest(told):
        yield "hottest", ", ".join(f"{where} {percent(share)}" for where, share in hot)
    flops = counted(totals.operations, "floating-point operation")
    if totals.intensity is not None:
        flops += f", {totals.intensity:.3g} for each byte of global memory's sectors"
    yield "operations", flops
    # What a GPU computes otherwise, and how far it may be off, an opcode each.
    lines = by_key(((one.opcode, one.bound), one.line) for one in told.approximate)
    for n, ((opcode, bound), where) in enumerate(lines.items()):
        places = ", ".join(map(str, where[:3])) + (" …" if len(where) > 3 else "")
        yield (
            "" if n else "approximate",
            f"{opcode} ({word_for(len(where), 'line')} {places}): a GPU's result is {bound}; "
            "here it is rounded from a more precise one",
        )


def hottest(told: TracedKernel) -> list[tuple[str, float]]:
    """The lines of the source that warps executed most instructions of, each with its share."""
    counts: Counter[tuple[str, int]] = Counter()
    for line in told.launched.facts.lines():
        place = told.chosen.source(line.n)
        if place is not None and line.executed:
            outer = place.frames()[-1]
            counts[outer.file.rsplit("/", 1)[-1], outer.line] += line.executed
    total = told.totals.instructions
    return [(f"{file}:{n}", times / total) for (file, n), times in counts.most_common(MOST_HOT)]


def labelled(pairs: Iterable[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    """Labels and sentences as lines of at most ``width`` cells, two cells from the edge."""
    for label, text in pairs:
        yield from wrapped(f"  {shown(label):<{LABEL}}", shown(text), min(width, 120))


def fault_rows(told: TracedKernel, fault: Fault) -> Iterator[tuple[str, str]]:
    """Labels and sentences on what ended a launch."""
    place = fault.place
    yield fault.cause, fault.message.removeprefix(f"{place.kernel}: ").removesuffix(f" ({place})")
    where = {"block": place.block, "thread": place.thread}
    if said := ", ".join(f"{name} {n}" for name, n in where.items() if n is not None):
        yield "where", said
    if fault.buffer is not None and (one := told.launched.inputs.tensor(fault.buffer)) is not None:
        yield "tensor", f"{one}, {one.size:,} bytes at {one.address:#x}"
    yield "PTX", f"line {place.line}: {place.statement}"
    if (at := told.chosen.source(place.line)) is not None:
        yield "source", f"{at.file}:{at.line}"
    indices = any(b.dtype.startswith(("int", "uint")) for b in told.launched.inputs.memory.buffers)
    if fault.cause in ("out of bounds", "null") and told.chosen.seed is not None and indices:
        yield (
            "",
            "The inputs are new: an index read from them need not be one that the program had.",
        )


class FigureColumn(Struct, frozen=True):
    """A column of figures: its head, its cell of a line ("" where it has none), and what it is,
    by ncu's name where ncu has it."""

    head: str
    cell: Callable[[ExecutedLine], str]
    meaning: str


def _of(spaces: tuple[str, ...], tell: Callable[[MemoryUse], str]) -> Callable[[ExecutedLine], str]:
    def cell(line: ExecutedLine) -> str:
        use = line.use(spaces)
        return "" if use is None or not use.requests else tell(use)

    return cell


COLUMNS = (
    FigureColumn("warps", lambda line: short(line.executed),
                 "times that warps executed it: ncu's inst_executed"),
    FigureColumn("lanes", lambda line: figure(line.lanes_per_warp, "{:.3g}")
                 if line.lanes_per_warp is not None else "",
                 "lanes of a warp that ran it: thread_inst_executed_true of each inst_executed"),
    FigureColumn("off", lambda line: percent(line.predicated_off) if line.predicated_off else "",
                 "lanes that came and did not, by predicate, of thread_inst_executed"),
    FigureColumn("diverge", lambda line: percent(line.divergent / line.branches)
                 if line.branches and line.divergent else "",
                 "warps that parted at a branch: smsp__sass_branch_targets_threads_divergent"),
    FigureColumn("sect/req", _of(GLOBAL, lambda use: ratio(use.sectors, use.requests)),
                 "sectors of global memory a request"),
    FigureColumn("least", _of(GLOBAL, lambda use: ratio(use.least_sectors, use.requests)),
                 "as many as would do: memory_l2_theoretical_sectors_global_ideal"),
    FigureColumn("sectors", _of(GLOBAL, lambda use: short(use.sectors)),
                 "of 32 bytes: memory_l2_theoretical_sectors_global"),
    FigureColumn("tags", _of(GLOBAL, lambda use: short(use.tag_requests)),
                 "lines of 128 bytes: memory_l1_tag_requests_global"),
    FigureColumn("wanted", _of(GLOBAL, lambda use: octets(use.bytes_wanted)),
                 "bytes of global memory that lanes asked for"),
    FigureColumn("moved", _of(GLOBAL, lambda use: octets(use.bytes_moved)),
                 "bytes of those sectors"),
    FigureColumn("waves/req", _of(SHARED, lambda use: ratio(use.wavefronts, use.requests)),
                 "wavefronts of shared memory a request: memory_l1_wavefronts_shared"),
    FigureColumn("conflicts", _of(SHARED, lambda use: short(use.conflicts)),
                 "those above the ideal: derived__memory_l1_wavefronts_shared_excessive"),
)  # fmt: skip
"""In the order in which they stand; one that no line has anything in is left out."""
GIVEN_UP = (
    *("wanted", "tags", "moved", "sectors", "off", "diverge"),
    *("least", "conflicts", "waves/req", "sect/req", "lanes"),
)
"""The order in which they are given up where the terminal is narrow."""
ROOM = 30
"""Cells that the text of a line has at least, as long as a column can be given up."""

BARS: Mapping[str, Callable[[ExecutedLine], int]] = {
    "lanes": lambda line: line.active,
    "warps": lambda line: line.executed,
    "sectors": lambda line: use.sectors if (use := line.use(GLOBAL)) else 0,
    "bytes": lambda line: use.bytes_wanted if (use := line.use(GLOBAL)) else 0,
    "wavefronts": lambda line: use.wavefronts if (use := line.use(SHARED)) else 0,
}
"""What the bars may be drawn of."""


def legend() -> str:
    size = max(len(column.head) for column in COLUMNS)
    told = "\n".join(f"  {c.head:<{size}}  {c.meaning}" for c in COLUMNS)
    return (
        f"columns, where a line has something in them:\n{told}\n"
        "docs/guide/trace-and-step.md says where ncu's can differ."
    )


def rows(
    lines: Sequence[ExecutedLine], listing: Listing, width: int, drawn: str, where: Where
) -> Iterator[Text]:
    """The heads, then each line with its figures, its bar, its text and its values.

    ``where`` says which tensor an address is in.
    """
    most = max((BARS[drawn](line) for line in lines), default=0) or 1
    numbers = max([4, *(len(str(line.n)) for line in lines)])
    columns = _fit(lines, width - numbers)
    head = " ".join([f"{'line':>{numbers}}", *(f"{c.head:>{w}}" for c, w in columns), f"█ {drawn}"])
    yield Text(head.rstrip(), style="bold")
    wide = width >= WIDE
    gutter = numbers + sum(w + 1 for _, w in columns) + BAR + 2
    room = max(20, width - gutter)
    beside = room * 3 // 5 if wide else room
    for line in lines:
        cells = " ".join(f"{c.cell(line):>{w}}" for c, w in columns)
        # Of PTX the words alone, of other languages as it is indented.
        text = clean(listing.lines[line.n - 1].text) if line.n <= len(listing.lines) else ""
        text = " ".join(text.split()) if listing.language in ("ptx", "sass") else text.rstrip()
        text = cut(text, beside)
        row = Text.assemble(
            (f"{line.n:>{numbers}} {cells} ", "dim"),
            (bar(BARS[drawn](line) / most), "cyan"),
            " ",
            (text, "" if line.executed else "dim"),
        )
        said = [_value(v, where) for v in line.values[:MOST_VALUES]]
        if len(line.values) > MOST_VALUES:
            said.append(f"and {plural(len(line.values) - MOST_VALUES, 'more register')}")
        if not line.executed:
            said = ["not reached"]
        if said and wide:
            pad = " " * (beside - len(text) + 2)
            row.append(pad + cut(" · ".join(said), room - beside - 2), "green")
            said = []
        yield row
        margin = min(gutter, max(0, width - 44))
        for one in said:
            yield Text(" " * margin + cut("└ " + one, width - margin), style="green")


def _fit(lines: Sequence[ExecutedLine], width: int) -> list[tuple[FigureColumn, int]]:
    """The columns that have something in them and fit beside the numbers, each with its width."""
    out = []
    for column in COLUMNS:
        cells = [cell for line in lines if (cell := column.cell(line))]
        if cells:
            out.append((column, max(len(column.head), *(len(cell) for cell in cells))))
    for head in GIVEN_UP:
        if sum(w + 1 for _, w in out) + BAR + 2 + ROOM <= width:
            break
        out = [(c, w) for c, w in out if c.head != head]
    return out


def _value(value: ValueFacts, where: Where) -> str:
    """``%f3 f32 -3.9 … 4.1, NaN 12 %``: what a register was given."""
    name = f"{shown(value.register)} {value.kind}"
    if not value.count:
        return f"{name} of no lane"
    parts = []
    if value.least is not None and value.greatest is not None:
        parts.append(_range(value, where))
    if value.nans:
        parts.append(f"NaN {percent(value.nans / value.count)}")
    if value.infinities:
        parts.append(f"infinite {percent(value.infinities / value.count)}")
    if value.uniform_grid and value.distinct != 1:
        parts.append("one for all at a time")
    elif value.uniform_block and not value.uniform_grid:
        parts.append("one a block")
    return f"{name} {', '.join(parts)}"


def _range(value: ValueFacts, where: Where) -> str:
    """``always 781``, ``0 … 127``, ``input_ptr + 0 … 5,688,140``."""
    least, greatest = value.least, value.greatest
    assert least is not None and greatest is not None
    tensor = None if value.distinct == 1 and least < 4096 else _tensor(value, where)
    if tensor is not None:
        low, high = (f"{n - tensor.address:,}" for n in (int(least), int(greatest)))
        return f"{shown(tensor.name)} + {low}" + (f" … {high}" if high != low else "")
    if least == greatest and not value.nans and value.distinct == 1:
        return f"always {number(least, value.kind)}"
    many = "" if value.distinct is None else f" ({plural(value.distinct, 'value')})"
    return f"{number(least, value.kind)} … {number(greatest, value.kind)}{many}"


def _tensor(value: ValueFacts, where: Where) -> Buffer | None:
    """The tensor that all of a register's values are addresses in, or right behind; else None."""
    if value.kind[1:] != "64" or value.kind[0] == "f" or value.least is None:
        return None
    one = where(int(value.least))
    if one is None or value.greatest is None:
        return None
    return one if int(value.greatest) < one.address + 2 * one.size + NEAR else None


def document(
    told: TracedKernel,
    lines: Iterable[ExecutedLine],
    rolled: Mapping[Stage, Iterable[ExecutedLine]],
    found: Iterable[Finding] = (),
) -> dict[str, object]:
    chosen, launched, launch = told.chosen, told.launched, told.launched.launch
    spent, where = launched.spent, launched.inputs.buffer_at
    return {
        "schema": jsons.SCHEMA,
        "kernel": chosen.kernel.demangled,
        "variant": chosen.variant.id,
        "call": chosen.call,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared,
        "seed": chosen.seed,
        "given": list(chosen.given_names),
        "remarks": list(launched.inputs.remarks),
        "blocks": {"run": launched.ran, "of": launch.blocks, "sampled": launched.sampled},
        "work": launched.work,
        "printed": list(launched.printed),
        "fault": None if launched.fault is None else fault_json(told, launched.fault),
        "stopped": None if spent is None else {"budget": spent.work, "seconds": spent.seconds},
        "totals": _totals(told.totals),
        "approximate": [
            {"n": one.line} | jsons.members(one, "opcode bound section") for one in told.approximate
        ],
        "hints": [
            {**jsons.note(one.note), "lines": list(one.lines.get(Stage.PTX, ()))} for one in found
        ],
        "lines": jsons.Rows(_line(one, where) for one in lines),
        **{
            f"by_{stage.value}": jsons.Rows(_line(one, where) for one in of)
            for stage, of in rolled.items()
        },
    }


def _totals(totals: Totals) -> dict[str, object]:
    out: dict[str, object] = {
        "warp_instructions": totals.instructions,
        "thread_instructions": totals.threads,
        "active_thread_instructions": totals.active,
        "by_class": dict(totals.classes),
        "by_opcode": dict(totals.opcodes),
        "branches": totals.branches,
        "divergent_branches": totals.divergent,
        "flops": totals.operations,
    }
    for kind in ("load", "store", "atomic"):
        use = totals.use(GLOBAL, kind)
        for name in ("requests", "sectors", "least_sectors", "tag_requests"):
            out[f"global_{kind}_{name}"] = getattr(use, name)
        out[f"global_{kind}_bytes"] = use.bytes_wanted
    shared = totals.use(SHARED)
    return out | {
        "global_bytes_moved": totals.global_bytes,
        "flops_per_byte": totals.intensity,
        "shared_requests": shared.requests,
        "shared_wavefronts": shared.wavefronts,
        "shared_least_wavefronts": shared.least_wavefronts,
    }


def _line(line: ExecutedLine, where: Where) -> dict[str, object]:
    of_global, shared = line.use(GLOBAL), line.use(SHARED)
    names = ("sectors", "least_sectors", "tag_requests", "bytes_wanted", "bytes_moved")
    return {
        **jsons.members(line, "n ptx"),
        "warps": line.executed,
        "lanes": line.active,
        **jsons.members(line, "threads predicated_off branches divergent requests"),
        **{name: getattr(of_global, name, None) for name in names},
        **{name: getattr(shared, name, None) for name in ("wavefronts", "least_wavefronts")},
        "accesses": [
            jsons.members(a, "space way requests lanes bytes_wanted") | {"kind": kind_of(a.way)}
            for a in line.accesses
        ],
        "values": value_json(line.values[0], where) if line.values else None,
        "registers": {v.register: value_json(v, where) for v in line.values},
    }


def value_json(value: ValueFacts, where: Where) -> dict[str, object]:
    uniform = None
    if value.count:
        uniform = "grid" if value.uniform_grid else "block" if value.uniform_block else None
    low, high = (int(v) if isinstance(v, bool) else v for v in (value.least, value.greatest))
    tensor = _tensor(value, where)
    of = None
    if tensor is not None and low is not None and high is not None:
        base = tensor.address
        of = {"name": tensor.name, "low": int(low) - base, "high": int(high) - base}
    return {
        "type": value.kind,
        "count": value.count,
        "low": low,
        "high": high,
        "address_in": of,
        "distinct": value.distinct,
        "nan": value.nans,
        "inf": value.infinities,
        "uniform": uniform,
    }


def fault_json(told: TracedKernel, fault: Fault) -> dict[str, object]:
    place = fault.place
    one = told.launched.inputs.tensor(fault.buffer)
    tensor = None if one is None else jsons.members(one, "name dtype shape") | {"bytes": one.size}
    return {
        "cause": fault.cause,
        "text": fault.message,
        **jsons.members(place, "line statement"),
        "source": jsons.plain(told.chosen.source(place.line)),
        **jsons.members(place, "block thread"),
        "space": fault.space or None,
        "address": fault.address,
        "bytes": fault.nbytes or None,
        "tensor": tensor,
        "past_bytes": fault.past,
    }
