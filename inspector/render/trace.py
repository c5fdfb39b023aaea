"""What a call did when its PTX was run: the summary, a row a line with bars, a fault; and JSON."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rich.text import Text

from inspector.analysis.hints.subject import Finding
from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Stage
from inspector.base.units import kibibytes, plural, some, word_for
from inspector.execute import Approximation, Buffer, Fault
from inspector.execute.calls.tracing import SHARED, TracedLaunch
from inspector.execute.calls.warp_orders import OrderOutcome
from inspector.execute.facts import GLOBAL, ExecutedLine, MemoryUse, Totals, ValueFacts, kind_of
from inspector.execute.lanes import coordinates
from inspector.execute.synchronization import Race, RaceAccess, RaceObserver
from inspector.measure.recorded_launch import ChosenLaunch
from inspector.parsers.line import Listing
from inspector.render import jsons
from inspector.render.calls import size_text
from inspector.render.deadlock import deadlock_rows, waits_json
from inspector.render.json_rows import listing_hint_row
from inspector.render.pictures.bank_picture import bank_picture
from inspector.render.pictures.picture import GridPicture
from inspector.render.tables import UNKNOWN, clean, cut, figure, wrapped

LABEL = 14
BAR = 10
"""Cells of the longest bar."""
WIDE_COLUMNS = 150
"""Minimum columns for values beside the text; below it otherwise."""
MAX_LINE_VALUES = 2
"""Registers shown of one line."""
MAX_BYTES_PAST = 1 << 16
"""Bytes past a tensor within which an address counts as one of it."""
TensorAt = Callable[[int], Buffer | None]
"""The tensor that an address is in; None if it is in none."""
MAX_HOT_LINES = 3
"""Lines of the source that are named as the hottest."""
MAX_PRINTED = 8
"""Texts of printf that are shown."""
MAX_RACES = 8
"""Races that are shown."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class TracedKernel(Struct, frozen=True):
    """A traced kernel: its launch, and the execution.

    ``approximate`` are the lines whose results a GPU's may differ from.
    """

    selection: ChosenLaunch
    launched: TracedLaunch
    totals: Totals
    approximate: tuple[Approximation, ...]


def sample_of(ran: int, total: int) -> str:
    if ran == total:
        return f"all {total:,} blocks" if total > 1 else "the one block"
    return f"{ran:,} of {total:,} blocks"


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


def ratio(part: float, total: float) -> str:
    """``4``, ``4.87``: one figure a piece of another; a dash of nothing."""
    return UNKNOWN if not total else f"{part / total:.3g}"


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
        integer = int(value)
        return hex(integer) if integer >= 1 << 40 else f"{integer:,}"
    return f"{value:.5g}" if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def bar(share: float, width: int = BAR) -> str:
    """A bar of so many cells for 1, in eighths of one; what is not nothing is drawn."""
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full_cells, remainder = divmod(min(eighths, width * 8), 8)
    return ("█" * full_cells + (_EIGHTHS[remainder] if remainder else "")).ljust(width)


def summary(traced: TracedKernel) -> Iterator[tuple[str, str]]:
    launched = traced.launched
    totals = traced.totals
    yield "call", _call_text(traced)
    for remark in launched.inputs.remarks:
        yield "  inputs", remark
    yield "ran", _executed_text(launched)
    for text in launched.printed[:MAX_PRINTED]:
        yield "  printed", text.rstrip("\n")
    unprinted = len(launched.printed) - MAX_PRINTED
    if unprinted > 0:
        yield "", f"and {unprinted:,} more, which --json has"
    if totals.instructions:
        yield "instructions", _instructions_text(totals)
        often = [f"{name} {count(n)}" for name, n in list(totals.opcodes.items())[:6]]
        yield "  most often", ", ".join(often)
    if totals.branches:
        parted = f"{count(totals.divergent)} divergent" if totals.divergent else "none divergent"
        yield "branches", f"{count(totals.branches)} of warps, {parted}"
    for kind, label in (("load", "reads"), ("store", "writes"), ("atomic", "atomics")):
        use = totals.use(GLOBAL, kind)
        if use.requests:
            yield f"global {label}", _global_text(use)
    use = totals.use(SHARED)
    if use.requests:
        conflicts = "no bank conflicts"
        if use.conflicts:
            conflicts = f"{count(use.conflicts)} of bank conflicts"
        yield (
            "shared",
            f"{plural(use.requests, 'request')}, {plural(use.wavefronts, 'wavefront')}, "
            f"least {count(use.least_wavefronts)}: {conflicts}",
        )
    hot_lines = hottest(traced)
    if hot_lines:
        yield "hottest", ", ".join(f"{line} {percent(share)}" for line, share in hot_lines)
    flops = plural(totals.operations, "floating-point operation")
    if totals.intensity is not None:
        flops += f", {totals.intensity:.3g} for each byte of global memory's sectors"
    yield "operations", flops
    yield from _approximations(traced.approximate)


def _call_text(traced: TracedKernel) -> str:
    """Which call was traced, its grid and block, and where its inputs are from."""
    selection = traced.selection
    launch = traced.launched.launch
    call_count = len(selection.variant.calls)
    call = "a launch of your own"
    if selection.call is not None:
        call = f"recorded call {selection.call}" + (f" of {call_count}" if call_count > 1 else "")
    shared = f", {kibibytes(launch.shared)} shared" if launch.shared else ""
    inputs = [f"{', '.join(selection.given_names)} given"] if selection.given_names else []
    if selection.kept_names:
        inputs.append(f"{', '.join(selection.kept_names)} as the program's call had them")
    if selection.seed is not None:
        inputs.append(f"new inputs of the same kind, seed {selection.seed}")
    return (
        f"{call}: grid {size_text(launch.grid)}, block {size_text(launch.block)}{shared}; "
        f"{', '.join(inputs) or 'no arguments'}"
    )


def _executed_text(launched: TracedLaunch) -> str:
    """How many blocks ran, and why not all."""
    blocks = launched.launch.blocks
    text = f"not to its end: it has {plural(blocks, 'block')}"
    if launched.ran is not None:
        text = f"{sample_of(launched.ran, blocks)}, {count(launched.work)} lane-instructions"
    return text + ("; all of them would take long: --blocks all" if launched.sampled else "")


def _instructions_text(totals: Totals) -> str:
    """Warp instructions by class, and how many lanes ran each."""
    active = ratio(totals.active, totals.instructions)
    off = percent(1 - totals.active / totals.threads) if totals.threads else UNKNOWN
    classes = ", ".join(
        f"{name} {percent(n / totals.instructions)}" for name, n in totals.classes.items()
    )
    return (
        f"{count(totals.instructions)} of warps: {classes}; {active} of 32 lanes ran each, "
        f"{off} of those that came were predicated off"
    )


def _global_text(use: MemoryUse) -> str:
    """Requests and sectors of global memory, beside the least that would do."""
    return (
        f"{plural(use.requests, 'request')}, {plural(use.sectors, 'sector')}, "
        f"{ratio(use.sectors, use.requests)} a request, {_excess(use, 'times')} that would do; "
        f"{octets(use.bytes_wanted)} wanted, {octets(use.bytes_moved)} moved"
    )


def _excess(use: MemoryUse, times: str = "×") -> str:
    """How many times the least sectors those were that were moved."""
    if use.sectors == use.least_sectors:
        return "the least"
    return f"{ratio(use.sectors, use.least_sectors)} {times} the least"


def coalescing(totals: Totals) -> str:
    """Sectors of each request to global memory beside the least; "" without a request."""
    uses = {
        name: totals.use(GLOBAL, kind)
        for kind, name in (("load", "reads"), ("store", "writes"), ("atomic", "atomics"))
    }
    parts = [
        f"{name} {ratio(use.sectors, use.requests)}, {_excess(use)}"
        for name, use in uses.items()
        if use.requests
    ]
    return f"Sectors a request: {'; '.join(parts)}" if parts else ""


def _approximations(approximate: Iterable[Approximation]) -> Iterator[tuple[str, str]]:
    """What a GPU computes otherwise, and how far it may be off, an opcode each."""
    groups = by_key(((item.opcode, item.bound), item.line) for item in approximate)
    for n, ((opcode, bound), lines) in enumerate(groups.items()):
        places = ", ".join(map(str, lines[:3])) + (" …" if len(lines) > 3 else "")
        yield (
            "" if n else "approximate",
            f"{opcode} ({word_for(len(lines), 'line')} {places}): a GPU's result is {bound}; "
            "here it is rounded from a more precise one",
        )


def hottest(traced: TracedKernel) -> list[tuple[str, float]]:
    """The lines of the source that warps executed most instructions of, each with its share."""
    counts: Counter[tuple[str, int]] = Counter()
    for line in traced.launched.facts.lines():
        place = traced.selection.source(line.n)
        if place is not None and line.executed:
            outer = place.frames()[-1]
            counts[outer.file.rsplit("/", 1)[-1], outer.line] += line.executed
    total = traced.totals.instructions
    return [
        (f"{file}:{n}", times / total) for (file, n), times in counts.most_common(MAX_HOT_LINES)
    ]


def labelled(pairs: Iterable[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    """Labels and sentences as lines of at most ``width`` cells, two cells from the edge."""
    for label, text in pairs:
        yield from wrapped(f"  {shown(label):<{LABEL - 1}} ", shown(text), min(width, 120))


def fault_rows(traced: TracedKernel, fault: Fault) -> Iterator[tuple[str, str]]:
    """Labels and sentences on what ended a launch."""
    place = fault.place
    inputs = traced.launched.inputs
    yield fault.cause, fault.message.removeprefix(f"{place.kernel}: ").removesuffix(f" ({place})")
    position = {"block": place.block, "thread": place.thread}
    known_position = [f"{name} {n}" for name, n in position.items() if n is not None]
    if known_position:
        yield "where", ", ".join(known_position)
    tensor = None if fault.buffer is None else inputs.tensor(fault.buffer)
    if tensor is not None:
        yield "tensor", f"{tensor}, {tensor.size:,} bytes at {tensor.address:#x}"
    yield "PTX", f"line {place.line}: {place.statement}"
    source = traced.selection.source(place.line)
    if source is not None:
        yield "source", f"{source.file}:{source.line}"
    yield from deadlock_rows(fault)
    has_indices = any(b.dtype.startswith(("int", "uint")) for b in inputs.memory.buffers)
    is_address = fault.cause in ("out of bounds", "null")
    if is_address and traced.selection.seed is not None and has_indices:
        yield (
            "",
            "The inputs are new: an index read from them need not be one that the program had.",
        )


def race_rows(traced: TracedKernel, observer: RaceObserver) -> Iterator[tuple[str, str]]:
    """Where races were looked for, then the missing edge and the lines of each."""
    launched = traced.launched
    places = [str(coordinates(n, launched.launch.grid)) for n in sorted(observer.followed)]
    looked = []
    if places and traced.selection.program.static_shared + launched.launch.shared:
        looked.append(f"shared memory of {word_for(len(places), 'block')} {some(places)}")
    ran = "" if launched.ran is None else f" of {sample_of(launched.ran, launched.launch.blocks)}"
    looked.append(f"global memory{ran}")
    races = launched.all_races
    text = plural(len(races), "race") if races else "none found"
    yield "races", f"{text} in {' and '.join(looked)}"
    if launched.order is not None and launched.order.left_out:
        yield "", f"too large to be compared: {', '.join(sorted(launched.order.left_out))}"
    for race in races[:MAX_RACES]:
        yield "  race", race.reason
        yield from (("", line) for line in race_lines(traced.selection, race))
    unshown = len(races) - MAX_RACES
    if unshown > 0:
        yield "", f"and {unshown:,} more, which --json has"


def order_rows(outcomes: Sequence[OrderOutcome]) -> Iterator[tuple[str, str]]:
    """What a block did with its warps one after another."""
    same = [o.order for o in outcomes if o.finished and not o.differing and o.fault is None]
    if same:
        yield "orders", f"warps one after another, {' and '.join(same)}: the same values"
    for outcome in outcomes:
        said = outcome.fault or ", ".join(outcome.differing)
        if said:
            yield "orders", f"warps one after another, {outcome.order}: {said}"
        elif not outcome.finished:
            yield "orders", f"warps one after another, {outcome.order}: not finished in time"


def race_lines(selection: ChosenLaunch, race: Race) -> Iterator[str]:
    """The bytes of shared memory that a race is about, and its lines with their sources."""
    if race.owner is not None:
        yield f"bytes {race.low:,} to {race.high:,} of shared memory, block {race.owner}"
    for n in dict.fromkeys(access.line for access in race.accesses):
        source = selection.source(n)
        place = "" if source is None else f" ({source.file}:{source.line})"
        yield f"line {n}: {' '.join(selection.program.statement(n).split())}{place}"


def _races(traced: TracedKernel) -> list[dict[str, object]] | None:
    if traced.launched.races is None:
        return None
    return [_race(traced, race) for race in traced.launched.all_races]


def _race(traced: TracedKernel, race: Race) -> dict[str, object]:
    return {
        "accesses": [_race_access(traced, access) for access in race.accesses],
        "bytes": [race.low, race.high],
        "owner": race.owner,
        "reason": race.reason,
    }


def _race_access(traced: TracedKernel, access: RaceAccess) -> dict[str, object]:
    source = jsons.to_builtins(traced.selection.source(access.line))
    return jsons.pick_fields(access, "line block warp access") | {"source": source}


class FigureColumn(Struct, frozen=True):
    """A column of figures: its head, its cell of a line ("" where it has none), and what it is,
    by ncu's name where ncu has it."""

    head: str
    cell: Callable[[ExecutedLine], str]
    meaning: str


def _memory_cell(
    spaces: tuple[str, ...], tell: Callable[[MemoryUse], str]
) -> Callable[[ExecutedLine], str]:
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
    FigureColumn("sect/req", _memory_cell(GLOBAL, lambda use: ratio(use.sectors, use.requests)),
                 "sectors of global memory a request"),
    FigureColumn("least", _memory_cell(GLOBAL, lambda use: ratio(use.least_sectors, use.requests)),
                 "as many as would do: memory_l2_theoretical_sectors_global_ideal"),
    FigureColumn("sectors", _memory_cell(GLOBAL, lambda use: short(use.sectors)),
                 "of 32 bytes: memory_l2_theoretical_sectors_global"),
    FigureColumn("tags", _memory_cell(GLOBAL, lambda use: short(use.tag_requests)),
                 "lines of 128 bytes: memory_l1_tag_requests_global"),
    FigureColumn("wanted", _memory_cell(GLOBAL, lambda use: octets(use.bytes_wanted)),
                 "bytes of global memory that lanes asked for"),
    FigureColumn("moved", _memory_cell(GLOBAL, lambda use: octets(use.bytes_moved)),
                 "bytes of those sectors"),
    FigureColumn("waves/req", _memory_cell(SHARED, lambda use: ratio(use.wavefronts, use.requests)),
                 "wavefronts of shared memory a request: memory_l1_wavefronts_shared"),
    FigureColumn("conflicts", _memory_cell(SHARED, lambda use: short(use.conflicts)),
                 "those above the ideal: derived__memory_l1_wavefronts_shared_excessive"),
)  # fmt: skip
"""In the order in which they stand; one that no line has anything in is left out."""
DROP_ORDER = (
    *("wanted", "tags", "moved", "sectors", "off", "diverge"),
    *("least", "conflicts", "waves/req", "sect/req", "lanes"),
)
"""The order in which they are given up where the terminal is narrow."""
MIN_TEXT_CELLS = 30
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
    meanings = "\n".join(f"  {c.head:<{size}}  {c.meaning}" for c in COLUMNS)
    return (
        f"columns, where a line has something in them:\n{meanings}\n"
        "docs/guide/trace-and-step.md says where ncu's can differ."
    )


def rows(
    lines: Sequence[ExecutedLine], listing: Listing, width: int, bar_kind: str, tensor_at: TensorAt
) -> Iterator[Text]:
    """The heads, then each line with its figures, its bar, its text and its values.

    ``tensor_at`` says which tensor an address is in.
    """
    greatest = max((BARS[bar_kind](line) for line in lines), default=0) or 1
    numbers = max([4, *(len(str(line.n)) for line in lines)])
    columns = _fit(lines, width - numbers)
    head = " ".join(
        [f"{'line':>{numbers}}", *(f"{c.head:>{w}}" for c, w in columns), f"█ {bar_kind}"]
    )
    yield Text(head.rstrip(), style="bold")
    wide = width >= WIDE_COLUMNS
    gutter = numbers + sum(w + 1 for _, w in columns) + BAR + 2
    room = max(20, width - gutter)
    text_width = room * 3 // 5 if wide else room
    for line in lines:
        cells = " ".join(f"{c.cell(line):>{w}}" for c, w in columns)
        # Of PTX the words alone, of other languages as it is indented.
        text = clean(listing.lines[line.n - 1].text) if line.n <= len(listing.lines) else ""
        text = " ".join(text.split()) if listing.language in ("ptx", "sass") else text.rstrip()
        text = cut(text, text_width)
        row = Text.assemble(
            (f"{line.n:>{numbers}} {cells} ", "dim"),
            (bar(BARS[bar_kind](line) / greatest), "cyan"),
            " ",
            (text, "" if line.executed else "dim"),
        )
        values = [_value(v, tensor_at) for v in line.values[:MAX_LINE_VALUES]]
        if len(line.values) > MAX_LINE_VALUES:
            values.append(f"and {plural(len(line.values) - MAX_LINE_VALUES, 'more register')}")
        if not line.executed:
            values = ["not reached"]
        if values and wide:
            pad = " " * (text_width - len(text) + 2)
            row.append(pad + cut(" · ".join(values), room - text_width - 2), "green")
            values = []
        yield row
        margin = min(gutter, max(0, width - 44))
        for value in values:
            yield Text(" " * margin + cut("└ " + value, width - margin), style="green")


def _fit(lines: Sequence[ExecutedLine], width: int) -> list[tuple[FigureColumn, int]]:
    """The columns that have something in them and fit beside the numbers, each with its width."""
    out = []
    for column in COLUMNS:
        cells = list(filter(None, map(column.cell, lines)))
        if cells:
            out.append((column, max(map(len, (column.head, *cells)))))
    for head in DROP_ORDER:
        if sum(w + 1 for _, w in out) + BAR + 2 + MIN_TEXT_CELLS <= width:
            break
        out = [(c, w) for c, w in out if c.head != head]
    return out


def _value(value: ValueFacts, tensor_at: TensorAt) -> str:
    """``%f3 f32 -3.9 … 4.1, NaN 12 %``: what a register was given."""
    name = f"{shown(value.register)} {value.kind}"
    if not value.count:
        return f"{name} of no lane"
    parts = []
    if value.least is not None and value.greatest is not None:
        parts.append(_range(value, tensor_at))
    if value.nans:
        parts.append(f"NaN {percent(value.nans / value.count)}")
    if value.infinities:
        parts.append(f"infinite {percent(value.infinities / value.count)}")
    if value.uniform_grid and value.distinct != 1:
        parts.append("one for all at a time")
    elif value.uniform_block and not value.uniform_grid:
        parts.append("one a block")
    return f"{name} {', '.join(parts)}"


def _range(value: ValueFacts, tensor_at: TensorAt) -> str:
    """``always 781``, ``0 … 127``, ``input_ptr + 0 … 5,688,140``."""
    least, greatest = value.least, value.greatest
    assert least is not None and greatest is not None
    tensor = None if value.distinct == 1 and least < 4096 else _tensor(value, tensor_at)
    if tensor is not None:
        low, high = (f"{n - tensor.address:,}" for n in (int(least), int(greatest)))
        return f"{shown(tensor.name)} + {low}" + (f" … {high}" if high != low else "")
    if least == greatest and not value.nans and value.distinct == 1:
        return f"always {number(least, value.kind)}"
    count_text = "" if value.distinct is None else f" ({plural(value.distinct, 'value')})"
    return f"{number(least, value.kind)} … {number(greatest, value.kind)}{count_text}"


def _tensor(value: ValueFacts, tensor_at: TensorAt) -> Buffer | None:
    """The tensor that all of a register's values are addresses in, or right behind; else None."""
    if value.kind[1:] != "64" or value.kind[0] == "f" or value.least is None:
        return None
    tensor = tensor_at(int(value.least))
    if tensor is None or value.greatest is None:
        return None
    return (
        tensor if int(value.greatest) < tensor.address + 2 * tensor.size + MAX_BYTES_PAST else None
    )


def document(
    traced: TracedKernel,
    lines: Iterable[ExecutedLine],
    rolled: Mapping[Stage, Iterable[ExecutedLine]],
    findings: Iterable[Finding] = (),
) -> dict[str, object]:
    selection, launched, launch = traced.selection, traced.launched, traced.launched.launch
    spent, tensor_at = launched.spent, launched.inputs.memory.buffer_at
    return {
        "schema": jsons.SCHEMA,
        "kernel": selection.kernel.demangled,
        "variant": selection.variant.id,
        "call": selection.call,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared,
        "seed": selection.seed,
        "given": list(selection.given_names),
        "remarks": list(launched.inputs.remarks),
        "blocks": {"run": launched.ran, "of": launch.blocks, "sampled": launched.sampled},
        "work": launched.work,
        "printed": list(launched.printed),
        "fault": None if launched.fault is None else fault_json(traced, launched.fault),
        "stopped": None if spent is None else {"budget": spent.work, "seconds": spent.seconds},
        "totals": _totals(traced.totals),
        "approximate": [
            {"n": item.line} | jsons.pick_fields(item, "opcode bound section")
            for item in traced.approximate
        ],
        "hints": [
            listing_hint_row(item.note, list(item.lines.get(Stage.PTX, ()))) for item in findings
        ],
        "races": _races(traced),
        "orders": list(traced.launched.orders),
        "pictures": jsons.to_builtins(bank_pictures(traced)),
        "lines": jsons.Rows(_line(item, tensor_at) for item in lines),
        **{
            f"by_{stage.value}": jsons.Rows(_line(item, tensor_at) for item in stage_lines)
            for stage, stage_lines in rolled.items()
        },
    }


def bank_pictures(traced: TracedKernel) -> list[GridPicture]:
    """The request to shared memory with the most conflicts of banks, if there is one."""
    picture = bank_picture(traced.launched.facts.lines())
    return [] if picture is None else [picture]


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


def _line(line: ExecutedLine, tensor_at: TensorAt) -> dict[str, object]:
    of_global, shared = line.use(GLOBAL), line.use(SHARED)
    names = ("sectors", "least_sectors", "tag_requests", "bytes_wanted", "bytes_moved")
    return {
        **jsons.pick_fields(line, "n ptx"),
        "warps": line.executed,
        "lanes": line.active,
        **jsons.pick_fields(line, "threads predicated_off branches divergent requests"),
        **{name: getattr(of_global, name, None) for name in names},
        **{name: getattr(shared, name, None) for name in ("wavefronts", "least_wavefronts")},
        "accesses": [
            jsons.pick_fields(a, "space way requests lanes bytes_wanted") | {"kind": kind_of(a.way)}
            for a in line.accesses
        ],
        "values": value_json(line.values[0], tensor_at) if line.values else None,
        "registers": {v.register: value_json(v, tensor_at) for v in line.values},
    }


def value_json(value: ValueFacts, tensor_at: TensorAt) -> dict[str, object]:
    uniform = None
    if value.count:
        uniform = "grid" if value.uniform_grid else "block" if value.uniform_block else None
    low, high = (int(v) if isinstance(v, bool) else v for v in (value.least, value.greatest))
    tensor = _tensor(value, tensor_at)
    address_in = None
    if tensor is not None and low is not None and high is not None:
        base = tensor.address
        address_in = {"name": tensor.name, "low": int(low) - base, "high": int(high) - base}
    return {
        "type": value.kind,
        "count": value.count,
        "low": low,
        "high": high,
        "address_in": address_in,
        "distinct": value.distinct,
        "nan": value.nans,
        "inf": value.infinities,
        "uniform": uniform,
    }


def fault_json(traced: TracedKernel, fault: Fault) -> dict[str, object]:
    place = fault.place
    buffer = traced.launched.inputs.tensor(fault.buffer)
    tensor = (
        None
        if buffer is None
        else jsons.pick_fields(buffer, "name dtype shape") | {"bytes": buffer.size}
    )
    return {
        "cause": fault.cause,
        "text": fault.message,
        **jsons.pick_fields(place, "line statement"),
        "source": jsons.to_builtins(traced.selection.source(place.line)),
        **jsons.pick_fields(place, "block thread"),
        "space": fault.space or None,
        "address": fault.address,
        "bytes": fault.nbytes or None,
        "tensor": tensor,
        "past_bytes": fault.past,
        "waits": waits_json(fault),
        "remedy": jsons.to_builtins(fault.remedy),
    }
