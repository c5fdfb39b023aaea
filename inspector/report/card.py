"""The card of a variant and its annotated listing, as text and as JSON."""

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from inspector.analyse.card import Card, Estimate, StageContent
from inspector.analyse.hints.rules import pages
from inspector.analyse.hints.subject import Finding
from inspector.analyse.line_annotations import LineAnnotations, Samples, Told
from inspector.base.model import Note, Stage
from inspector.base.text import plural, shown
from inspector.listing.line import Line
from inspector.measure.ncu.report import waits_for
from inspector.report.jsons import members
from inspector.report.tables import UNKNOWN, clean, figure, spills, wrapped

WIDTH = 80
LABEL = 16
_TIMES = " × "


def lines(card: Card, width: int = WIDTH) -> list[str]:
    return [
        head + part
        for label, text in _rows(card)
        for head, part in wrapped(f"{label:<{LABEL}}", text, width)
    ]


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
    threads = f"{figure(card.threads)} threads a block"
    if card.launch is None or card.blocks is None:
        yield "launch", f"{threads}; no launch is known"
    else:
        grid = _TIMES.join(map(str, card.launch.grid or ()))
        out = f"{threads}, {plural(card.blocks, 'block')} ({grid})"
        sms = None if card.device is None else card.device.sms
        if card.waves is not None and sms:
            waves = f"{card.waves:.3g} full waves across {sms} SMs"
            out += f": {card.blocks} of {sms} SMs" if card.blocks < sms else f": {waves}"
        yield "launch", out
    for text in card.measured:
        yield "ncu", shown(text)
    full = card.occupancy
    if full is None:
        yield "occupancy", f"{UNKNOWN} {unknown_occupancy(card)}"
    else:
        device = full.device
        yield (
            "occupancy",
            f"{full.percent:.4g} % in theory: {plural(full.blocks, 'block')} an SM, "
            f"{full.warps} of {device.max_warps_per_sm} warps ({device.name}, {device.arch})",
        )
        if full.limiters:
            yield "  limited by", " and ".join(full.limiters)
            yield from (("  more with", step.text) for step in full.next_steps)
    for made in card.stages:
        yield from _made(made)
    yield "global memory", _estimate(card.tensor_bytes, "bytes a launch")
    if card.accessed_bytes is not None:
        yield "  asked for", _estimate(card.accessed_bytes, "bytes a launch")
    yield "operations", _estimate(card.operations, "floating-point operations a launch")
    if (ratio := intensity(card)) is not None:
        yield "  for each byte", f"{ratio:.3g} operations (estimate)"
    if card.made_by:
        yield "made by", shown(", ".join(f"{n} {version}" for n, version in card.made_by.items()))


def unknown_occupancy(card: Card) -> str | None:
    """Why there is no occupancy, None if there is one."""
    if card.occupancy is not None:
        return None
    if card.device is None:
        return "the limits of its architecture are not known"
    launched = "without a recorded launch" if card.launch is None else "not in the launch"
    lacking = {
        "without figures of machine code": {
            "registers": card.resources.registers,
            "static shared memory": card.static_shared_bytes,
        },
        launched: {
            "threads of a block": card.threads,
            "dynamic shared memory": card.dynamic_shared_bytes,
        },
    }
    parts = [
        f"{' and '.join(names)} ({why})"
        for why, figures in lacking.items()
        if (names := [name for name, value in figures.items() if value is None])
    ]
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
            here = []
            for one in (one for one in made.accesses if one.space == space):
                which = "" if one.guarded == one.count else f"{one.guarded} "
                guard = f" ({which}under a predicate)" if one.guarded else ""
                here.append(f"{one.kind} {one.count}{_TIMES}{figure(one.width)} B{guard}")
            yield f"  {space}", f"{', '.join(here)} a thread"
    for n, product in enumerate(made.products):
        shape = "m{}n{}k{}".format(*product.shape) if product.shape else f"shape {UNKNOWN}"
        said = f"{' '.join((product.opcode, shape, *product.types))}{_TIMES}{product.count}"
        yield stage if made.mix is None and n == 0 else "  tensor cores", said
    if made.branches is not None and made.loops is not None:
        loops = plural(made.loops, "loop")
        if made.deepest and made.deepest > 1:
            loops += f", {made.deepest} deep"
        many = "branch" if made.branches == 1 else "branches"
        yield "  control", f"{made.branches} {many}, {loops}"


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


def as_json(card: Card) -> dict[str, object]:
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
        "made": {made.stage.value: _made_json(made) for made in card.stages},
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


WIDE = 150
"""Minimum columns for sentences beside their lines; below them otherwise."""

_PLAIN = (".loc", "$L__tmp", "$L__func")
"""Debugging lines, which get no sentence."""

MARKS = {"warn": "⚠", "hint": "◆", "info": "·"}
STYLES = {"warn": "bold red", "hint": "bold yellow", "info": "cyan"}


def legend(annotations: LineAnnotations, stage: Stage) -> str:
    """What the gutter counts: virtual and allocated registers are different things."""
    said = []
    if annotations.classes and stage is Stage.PTX:
        said.append("Live at each instruction: virtual registers, by declared class.")
    elif annotations.classes and stage is Stage.SASS:
        of = figure(annotations.allocated, " of {} a thread") if annotations.allocated else ""
        said.append(
            f"Live at each instruction: allocated registers (gpr{of}); stall: issue cycles."
        )
    elif annotations.classes:
        said.append(
            "Of each line's SASS: the most allocated registers live, ▲ the peak; stall: the sum "
            "on the longest path."
        )
    if annotations.sampled:
        shared = "" if stage is Stage.SASS else "; an instruction of several lines counts on each"
        of = f"the kernel's {annotations.sampled}"
        said.append(f"Samples: percent of {of}, measured by ncu{shared}.")
    if annotations.estimated:
        said.append("≈: estimated percent of the warps' cycles, on the line that is waited for.")
    return " ".join(said)


def heading(annotations: LineAnnotations) -> str:
    cells = [f"{name:>5}" for name in annotations.classes] + ["stall"] * annotations.stalls
    cells += ["samples"] if annotations.sampled else []
    cells += ["    ≈ %"] if annotations.estimated else []
    return f"{'line':>6} " + " ".join(cells)


def rows(lines: Iterable[Line], annotations: LineAnnotations, width: int) -> Iterator[Text]:
    """The lines with their gutters; as wide as they are, ``width`` decides only where words go."""
    wide = width >= WIDE
    room = max(40, width // 2 - 10)
    own = annotations.peaks if "gpr" in annotations.classes and annotations.machine else ()
    told: dict[Note, int] = {}
    peaked = False
    for line in lines:
        one = annotations.at(line.n)
        counts, cycles = one.counts(), one.cycles()
        live = {} if counts is None else {n: str(counts.get(n, 0)) for n in annotations.classes}
        if "gpr" in live and one.rolled is not None and one.rolled.peak:
            live["gpr"] = f"▲{live['gpr']}"
        cells = [f"{live.get(name, ''):>5}" for name in annotations.classes]
        cells += [f"{'' if cycles is None else cycles:>5}"] * annotations.stalls
        if annotations.sampled:
            share = annotations.share(line.n)
            part = "" if share is None else f"{share:.1f} %" if share else "0 %"
            cells.append(f"{part:>7}")
        if annotations.estimated:
            percent = annotations.estimated.get(line.n, 0.0)
            cells.append(f"{percent:>7.1f}" if percent >= SHOWN_PERCENT else " " * 7)
        gutter = f"{line.n:>6} " + " ".join(cells)
        text = clean(line.text)
        plain = line.text.lstrip().startswith(_PLAIN)
        said = [] if plain else list(annotations.words(line.n).said())
        if line.n in own[:1] or (one.rolled is not None and one.rolled.peak and not peaked):
            said.append(peak(one, annotations))
            peaked = annotations.machine is False
        if one.samples is not None and annotations.sampled:
            said += sampled(one.samples, annotations.sampled)
        row = Text.assemble((gutter, "dim"), " ", text)
        if said and wide and len(text) <= room:
            row.append(" " * (room - len(text)) + "  " + " · ".join(said), "green")
            said = []
        yield row
        margin = " " * (len(gutter) + 1)
        indent = " " * (len(text) - len(text.lstrip()))
        for sentence in said:
            yield Text.assemble(margin, indent, ("└ " + sentence, "green"))
        for note in one.notes:
            words = f"as on line {told[note]}" if note in told else note.text
            told.setdefault(note, line.n)
            head = f"{MARKS.get(note.severity, '·')} {note.rule}: {words}"
            yield Text.assemble(margin, indent, (head, STYLES.get(note.severity, "")))


SHOWN_PERCENT = 0.05
"""Estimated percentages below this are left out of the gutter."""
WORTH_WORDS = 0.01
"""Minimum share of a kernel's samples for which a line's stall reasons are shown."""


def sampled(samples: Samples, all_of: int) -> list[str]:
    """What warps waited for on a line, the two most frequent reasons in words."""
    if samples.all < max(1.0, WORTH_WORDS * all_of):
        return []
    reasons = [
        f"{shown(waits_for(name))} {100 * count / samples.all:.0f} %"
        for name, count in samples.top()
    ]
    share = f"{100 * samples.all / all_of:.1f} % of the samples"
    return [f"{share}: {', '.join(reasons)}" if reasons else share]


def peak(one: Told, annotations: LineAnnotations) -> str:
    """That a line holds the kernel's peak of live registers, of how many."""
    counts, of = one.live if one.rolled is None else one.rolled.live, annotations.allocated
    live = (counts or {}).get("gpr", 0)
    many = plural(live if of is None else of, "allocated register")
    where = "the kernel's peak" if one.rolled is None else "its SASS holds the kernel's peak"
    return f"{where}: {many if of is None else f'{live} of {many}'} live"


def hints(findings: Sequence[Finding]) -> Iterator[Text]:
    """The hints of a kernel, and where their rules are explained."""
    yield from map(hint, findings)
    if explained := pages(findings):
        yield Text(f"    see {', '.join(explained)}", "dim")


def hint(finding: Finding) -> Text:
    """A hint of the kernel, with the first lines that it was seen on."""
    places = ", ".join(
        f"{stage.value} {lines[0]}" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
        for stage, lines in finding.lines.items()
        if lines
    )
    where = f" ({places})" if places else ""
    if finding.blocks is not None:
        ran, of = finding.blocks
        where += f", counted in {'all' if ran == of else f'{ran:,} of'} {of:,} blocks"
    elif finding.estimated:
        where += ", a guess from the code"
    # What a profiler's rules say comes from a file.
    head = f"  {MARKS.get(finding.severity, '·')} {shown(finding.rule)}"
    style = STYLES.get(finding.severity, "")
    return Text.assemble((head, style), f"{where}: {shown(finding.text)}")
