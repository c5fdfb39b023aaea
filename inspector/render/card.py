"""The card of a variant and its annotated listing, as text and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct
from rich.text import Text

from inspector.analysis.accesses import Access, Mix, Product
from inspector.analysis.card import Card, Estimate, StageContent
from inspector.analysis.graph_view import NodeOrigin
from inspector.analysis.hints.subject import Finding
from inspector.analysis.line_annotations import LineAnnotations, Samples, Told
from inspector.analysis.occupancy import Occupancy, OccupancyStep
from inspector.analysis.shared_memory import SHARED, Allocation
from inspector.analysis.tensor_maps import TensorMap
from inspector.base.escapes import shown
from inspector.base.grouping import by_key
from inspector.base.model import Note, Stage
from inspector.base.units import plural
from inspector.measure.ncu.report import waits_for
from inspector.parsers.line import Line
from inspector.render.tables import UNKNOWN, clean, figure, spills, wrapped

WIDTH = 80
LABEL = 16
MAX_ORIGINS = 3
"""Modules that a row names."""
_TIMES = " × "


def lines(card: Card, width: int = WIDTH) -> list[str]:
    return [
        head + part
        for label, text in _rows(card)
        for head, part in wrapped(f"{label:<{LABEL}}", text, width)
    ]


def _rows(card: Card) -> Iterator[tuple[str, str]]:
    resources = card.resources
    yield (
        "registers",
        f"{figure(resources.registers)} a thread, spills {spills(resources)}, "
        f"stack {figure(resources.stack_bytes)}, barriers {figure(resources.barriers)}",
    )
    shared = f"{figure(card.static_shared_bytes)} + {figure(card.dynamic_shared_bytes)}"
    reserved = (resources.static_shared_bytes or 0) - (card.static_shared_bytes or 0)
    reserved_text = f", and {reserved} of the driver's, which tables count" if reserved else ""
    yield "shared memory", f"{shared} bytes a block (static + dynamic){reserved_text}"
    yield from _allocation_rows(card)
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
    for tensor_map in card.tensor_maps:
        text = f"{tensor_map.argument}: {tensor_map.text()}, interleave {tensor_map.interleave}"
        yield "tensor map", shown(text)
    for text in card.measured:
        yield "ncu", shown(text)
    occupancy = card.occupancy
    if occupancy is None:
        yield "occupancy", f"{UNKNOWN} {unknown_occupancy(card)}"
    else:
        device = occupancy.device
        yield (
            "occupancy",
            f"{occupancy.percent:.4g} % in theory: {plural(occupancy.blocks, 'block')} an SM, "
            f"{occupancy.warps} of {device.max_warps_per_sm} warps ({device.name}, {device.arch})",
        )
        if occupancy.limiters:
            yield "  limited by", " and ".join(occupancy.limiters)
            yield from (("  more with", step.text) for step in occupancy.next_steps)
    for stage_content in card.stages:
        yield from _stage_rows(stage_content)
    yield "global memory", _estimate(card.tensor_bytes, "bytes a launch")
    if card.accessed_bytes is not None:
        yield "  asked for", _estimate(card.accessed_bytes, "bytes a launch")
    yield "operations", _estimate(card.operations, "floating-point operations a launch")
    if (ratio := intensity(card)) is not None:
        yield "  for each byte", f"{ratio:.3g} operations (estimate)"
    if card.made_by:
        yield "made by", shown(", ".join(f"{n} {version}" for n, version in card.made_by.items()))


MAX_ALLOCATIONS = 5
"""Allocations of a memory that have a row."""


def _allocation_rows(card: Card) -> Iterator[tuple[str, str]]:
    """What takes the bytes of shared memory and the columns of tensor memory, the largest first."""
    for memory, allocations in by_key((a.memory, a) for a in card.allocations).items():
        label = "  largest" if memory == SHARED else "tensor memory"
        for allocation in allocations[:MAX_ALLOCATIONS]:
            yield label, shown(f"{allocation.name} {allocation.text()}")
            label = ""
        hidden = len(allocations) - MAX_ALLOCATIONS
        if hidden > 0:
            yield "", f"and {hidden} more"
        total = sum(allocation.bytes or 0 for allocation in allocations)
        if memory == SHARED and total > (card.dynamic_shared_bytes or total):
            yield "", f"together {total:,} bytes: some take turns in the same bytes"


def origin_rows(origins: Sequence[NodeOrigin]) -> Iterator[tuple[str, str]]:
    """The modules that a kernel computes, and the program's lines that call the library's.

    Of a template, those of its product.
    """
    products = [origin for origin in origins if origin.product]
    principal = products or origins
    modules = dict.fromkeys(o.module or "the model" for o in principal if o.module is not None)
    if modules:
        yield "module", shown(_first_few([*modules]))
    callers = dict.fromkeys(o.caller for o in principal if o.caller is not None)
    if callers:
        yield "called from", shown(_first_few([f"{file}:{line}" for file, line in callers]))


def _first_few(texts: Sequence[str]) -> str:
    hidden = len(texts) - MAX_ORIGINS
    count = f" and {hidden} more" if hidden > 0 else ""
    return ", ".join(texts[:MAX_ORIGINS]) + count


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
    parts = []
    for reason, figures in lacking.items():
        names = [name for name, value in figures.items() if value is None]
        if names:
            parts.append(f"{' and '.join(names)} ({reason})")
    return f"not known: {', '.join(parts)}" if parts else "no block of this size can be launched"


def _stage_rows(content: StageContent) -> Iterator[tuple[str, str]]:
    stage = content.stage.value
    if content.mix is not None:
        yield stage, _mix_text(content.mix)
        if content.declared:
            declared = ", ".join(f"{n} {name}" for name, n in sorted(content.declared.items()))
            yield "  declares", f"{declared}: virtual registers, which ptxas reallocates"
        for space, accesses in by_key((a.space, a) for a in content.accesses).items():
            yield f"  {space}", f"{', '.join(map(_access_text, accesses))} a thread"
    for n, product in enumerate(content.products):
        shape = "m{}n{}k{}".format(*product.shape) if product.shape else f"shape {UNKNOWN}"
        opcode = " ".join((product.opcode, shape, *product.types))
        is_first_row = content.mix is None and n == 0
        yield stage if is_first_row else "  tensor cores", f"{opcode}{_TIMES}{product.count}"
    if content.branches is not None and content.loops is not None:
        loops = plural(content.loops, "loop")
        if content.deepest and content.deepest > 1:
            loops += f", {content.deepest} deep"
        noun = "branch" if content.branches == 1 else "branches"
        yield "  control", f"{content.branches} {noun}, {loops}"


def _mix_text(mix: Mix) -> str:
    """``120 instructions: memory 20, arithmetic 90, not classed 10``."""
    parts = [f"{cost} {count}" for cost, count in mix.by_cost]
    if mix.unclassed:
        parts.append(f"not classed {mix.unclassed}")
    total = plural(mix.total, "instruction")
    return f"{total}: {', '.join(parts)}" if parts else total


def _access_text(access: Access) -> str:
    """``load 4 × 16 B (2 under a predicate)``."""
    text = f"{access.kind} {access.count}{_TIMES}{figure(access.width)} B"
    if not access.guarded:
        return text
    guarded = "" if access.guarded == access.count else f"{access.guarded} "
    return f"{text} ({guarded}under a predicate)"


def _estimate(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return UNKNOWN
    prefix = "at most " if estimate.at_most else ""
    return f"{prefix}{estimate.value:,} {unit} (estimate: {estimate.how})"


def intensity(card: Card) -> float | None:
    """Operations for each byte of the tensors, both estimates; None if one is not known."""
    if card.operations is None or card.tensor_bytes is None or not card.tensor_bytes.value:
        return None
    return card.operations.value / card.tensor_bytes.value


class DeviceRow(Struct, frozen=True):
    """The device whose limits a card is of."""

    arch: str
    name: str
    sms: int | None


class OccupancyRow(Struct, frozen=True, kw_only=True):
    """The theoretical occupancy: blocks and warps of an SM, and what limits them."""

    blocks: int
    warps: int
    percent: float
    limiters: tuple[str, ...]
    limits: Mapping[str, int]
    registers_a_warp: int
    shared_a_block: int
    next_steps: tuple[OccupancyStep, ...]


class StageContentRow(Struct, frozen=True, kw_only=True):
    """Static counts of one stage of the kernel."""

    instructions: int | None
    by_cost: Mapping[str, int] | None
    by_opcode: Mapping[str, int] | None
    unclassed: int | None
    accesses: tuple[Access, ...]
    products: tuple[Product, ...]
    branches: int | None
    loops: int | None
    deepest: int | None
    declared: Mapping[str, int]


class EstimatesRow(Struct, frozen=True, kw_only=True):
    """Estimates of one launch."""

    tensor_bytes: Estimate | None
    accessed_bytes: Estimate | None
    operations: Estimate | None
    operations_a_byte: float | None


class CardRow(Struct, frozen=True, kw_only=True):
    """A variant at a glance; bytes of stack and spills are a thread's, shared ones a block's.

    ``waves`` is how often the blocks of the launch fill the device.
    """

    registers: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    stack_bytes: int | None
    barriers: int | None
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    made_by: Annotated[
        Mapping[str, str],
        Meta(description="versions of the programs that made it, as far as they are known"),
    ]
    threads: int | None
    grid: tuple[int, int, int] | None
    blocks: int | None
    waves: float | None
    device: DeviceRow | None
    occupancy: OccupancyRow | None
    occupancy_unknown: str | None
    allocations: Annotated[
        tuple[Allocation, ...],
        Meta(description="of shared memory and of tensor memory, each the largest first"),
    ]
    tensor_maps: tuple[TensorMap, ...]
    made: Annotated[Mapping[str, StageContentRow], Meta(description="static counts by stage")]
    estimates: EstimatesRow


def card_row(card: Card) -> CardRow:
    resources = card.resources
    device = card.device
    return CardRow(
        registers=resources.registers,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        stack_bytes=resources.stack_bytes,
        barriers=resources.barriers,
        static_shared_bytes=card.static_shared_bytes,
        dynamic_shared_bytes=card.dynamic_shared_bytes,
        made_by=card.made_by,
        threads=card.threads,
        grid=None if card.launch is None else card.launch.grid,
        blocks=card.blocks,
        waves=card.waves,
        device=None if device is None else DeviceRow(device.arch, device.name, device.sms),
        occupancy=_occupancy_row(card.occupancy),
        occupancy_unknown=unknown_occupancy(card),
        allocations=card.allocations,
        tensor_maps=card.tensor_maps,
        made={content.stage.value: _stage_content_row(content) for content in card.stages},
        estimates=EstimatesRow(
            tensor_bytes=card.tensor_bytes,
            accessed_bytes=card.accessed_bytes,
            operations=card.operations,
            operations_a_byte=intensity(card),
        ),
    )


def _occupancy_row(occupancy: Occupancy | None) -> OccupancyRow | None:
    if occupancy is None:
        return None
    return OccupancyRow(
        blocks=occupancy.blocks,
        warps=occupancy.warps,
        percent=occupancy.percent,
        limiters=occupancy.limiters,
        limits=occupancy.limits,
        registers_a_warp=occupancy.registers_a_warp,
        shared_a_block=occupancy.shared_a_block,
        next_steps=occupancy.next_steps,
    )


def _stage_content_row(content: StageContent) -> StageContentRow:
    mix = content.mix
    return StageContentRow(
        instructions=None if mix is None else mix.total,
        by_cost=None if mix is None else dict(mix.by_cost),
        by_opcode=None if mix is None else dict(mix.by_opcode),
        unclassed=None if mix is None else mix.unclassed,
        accesses=content.accesses,
        products=content.products,
        branches=content.branches,
        loops=content.loops,
        deepest=content.deepest,
        declared=content.declared,
    )


WIDE = 150
"""Minimum columns for sentences beside their lines; below them otherwise."""

_DEBUG_PREFIXES = (".loc", "$L__tmp", "$L__func")
"""Debugging lines, which get no sentence."""

MARKS = {"warn": "⚠", "hint": "◆", "info": "·"}
STYLES = {"warn": "bold red", "hint": "bold yellow", "info": "cyan"}


def legend(annotations: LineAnnotations, stage: Stage) -> str:
    """What the gutter counts: virtual and allocated registers are different things."""
    sentences = []
    if annotations.classes and stage is Stage.PTX:
        sentences.append("Live at each instruction: virtual registers, by declared class.")
    elif annotations.classes and stage is Stage.SASS:
        allocated = f" of {annotations.allocated} a thread" if annotations.allocated else ""
        sentences.append(
            f"Live at each instruction: allocated registers (gpr{allocated}); stall: issue cycles."
        )
    elif annotations.classes:
        sentences.append(
            "Of each line's SASS: the most allocated registers live, ▲ the peak; stall: the sum "
            "on the longest path."
        )
    if annotations.sampled:
        shared = "" if stage is Stage.SASS else "; an instruction of several lines counts on each"
        samples = f"the kernel's {annotations.sampled}"
        sentences.append(f"Samples: percent of {samples}, measured by ncu{shared}.")
    if annotations.estimated:
        sentences.append(
            "≈: estimated percent of the warps' cycles, on the line that is waited for."
        )
    return " ".join(sentences)


def heading(annotations: LineAnnotations) -> str:
    cells = [f"{name:>5}" for name in annotations.classes] + ["stall"] * annotations.stalls
    cells += ["samples"] if annotations.sampled else []
    cells += ["    ≈ %"] if annotations.estimated else []
    return f"{'line':>6} " + " ".join(cells)


def rows(lines: Iterable[Line], annotations: LineAnnotations, width: int) -> Iterator[Text]:
    """The lines with their gutters; as wide as they are, ``width`` decides only where words go."""
    is_wide = width >= WIDE
    room = max(40, width // 2 - 10)
    peak_lines: Sequence[int] = ()
    if "gpr" in annotations.classes and annotations.machine:
        peak_lines = annotations.peaks[:1]
    note_lines: dict[Note, int] = {}
    has_peak = False
    for line in lines:
        annotation = annotations.at(line.n)
        gutter = f"{line.n:>6} " + " ".join(_gutter_cells(annotation, annotations, line.n))
        text = clean(line.text)
        sentences: list[str] = []
        if not line.text.lstrip().startswith(_DEBUG_PREFIXES):
            sentences += annotations.words(line.n).said()
        holds_peak = annotation.rolled is not None and annotation.rolled.peak
        if line.n in peak_lines or (holds_peak and not has_peak):
            sentences.append(peak(annotation, annotations))
            has_peak = annotations.machine is False
        if annotation.samples is not None and annotations.sampled:
            sentences += sampled(annotation.samples, annotations.sampled)
        row = Text.assemble((gutter, "dim"), " ", text)
        if sentences and is_wide and len(text) <= room:
            row.append(" " * (room - len(text)) + "  " + " · ".join(sentences), "green")
            sentences = []
        yield row
        margin = " " * (len(gutter) + 1)
        indent = " " * (len(text) - len(text.lstrip()))
        for sentence in sentences:
            yield Text.assemble(margin, indent, ("└ " + sentence, "green"))
        for note in annotation.notes:
            words = f"as on line {note_lines[note]}" if note in note_lines else note.text
            note_lines.setdefault(note, line.n)
            head = f"{MARKS.get(note.severity, '·')} {note.rule}: {words}"
            yield Text.assemble(margin, indent, (head, STYLES.get(note.severity, "")))


def _gutter_cells(annotation: Told, annotations: LineAnnotations, line_number: int) -> list[str]:
    """Live registers of each class, stall cycles, samples and the estimate of a line."""
    counts = annotation.counts()
    cells = []
    for name in annotations.classes:
        live = "" if counts is None else str(counts.get(name, 0))
        holds_peak = annotation.rolled is not None and annotation.rolled.peak
        mark = "▲" if live and name == "gpr" and holds_peak else ""
        cells.append(f"{mark + live:>5}")
    if annotations.stalls:
        cycles = annotation.cycles()
        cells.append(f"{'' if cycles is None else cycles:>5}")
    if annotations.sampled:
        cells.append(f"{_share_text(annotations.share(line_number)):>7}")
    if annotations.estimated:
        percent = annotations.estimated.get(line_number, 0.0)
        cells.append(f"{percent:>7.1f}" if percent >= SHOWN_PERCENT else " " * 7)
    return cells


def _share_text(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:.1f} %" if share else "0 %"


SHOWN_PERCENT = 0.05
"""Estimated percentages below this are left out of the gutter."""
WORTH_WORDS = 0.01
"""Minimum share of a kernel's samples for which a line's stall reasons are shown."""


def sampled(samples: Samples, total_samples: int) -> list[str]:
    """What warps waited for on a line, the two most frequent reasons in words."""
    if samples.all < max(1.0, WORTH_WORDS * total_samples):
        return []
    reasons = [
        f"{shown(waits_for(name))} {100 * count / samples.all:.0f} %"
        for name, count in samples.top()
    ]
    share = f"{100 * samples.all / total_samples:.1f} % of the samples"
    return [f"{share}: {', '.join(reasons)}" if reasons else share]


def peak(annotation: Told, annotations: LineAnnotations) -> str:
    """That a line holds the kernel's peak of live registers, of how many."""
    rolled = annotation.rolled
    counts = annotation.live if rolled is None else rolled.live
    live = (counts or {}).get("gpr", 0)
    if annotations.allocated is None:
        registers = plural(live, "allocated register")
    else:
        registers = f"{live} of {plural(annotations.allocated, 'allocated register')}"
    owner = "the kernel's peak" if rolled is None else "its SASS holds the kernel's peak"
    return f"{owner}: {registers} live"


def hints(findings: Sequence[Finding]) -> Iterator[Text]:
    """The hints of a kernel, and where their rules are explained."""
    from inspector.analysis.hints.rules import pages  # needs numpy, which delays the first frame

    yield from map(hint, findings)
    if explained := pages(findings):
        yield Text(f"    see {', '.join(explained)}", "dim")


def hint(finding: Finding) -> Text:
    """A hint of the kernel, with the first lines that it was seen on."""
    places = []
    for stage, lines in finding.lines.items():
        if lines:
            further = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
            places.append(f"{stage.value} {lines[0]}{further}")
    location = f" ({', '.join(places)})" if places else ""
    if finding.blocks is not None:
        executed, total = finding.blocks
        count = "all" if executed == total else f"{executed:,} of"
        location += f", counted in {count} {total:,} blocks"
    elif finding.estimated:
        location += ", a guess from the code"
    # What a profiler's rules say comes from a file.
    head = f"  {MARKS.get(finding.severity, '·')} {shown(finding.rule)}"
    style = STYLES.get(finding.severity, "")
    return Text.assemble((head, style), f"{location}: {shown(finding.text)}")
