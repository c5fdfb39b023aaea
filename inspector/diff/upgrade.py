"""What another compiler made of a recording: which variants changed, by which edits, at what cost.

A variant is *the same* if its machine code is, byte for byte; *reordered* if its machine code has
the same instructions in another order or with other registers. Of the others every edit is a set of
opcodes of PTX (of SASS, where the PTX is the same) that became another one in the same lines;
opcodes of which a variant has as many as before are not counted, since they have only moved.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping

from msgspec import Struct

from inspector.base.errors import PtxviewError
from inspector.base.model import Kernel, Origin, Stage, Variant
from inspector.diff.canonical import canonical
from inspector.diff.check import in_use
from inspector.diff.compare import code_of, entries, of_stage, same_form, shared_stages
from inspector.diff.listings import diff_listings
from inspector.diff.matching import Op
from inspector.diff.recordings import pair
from inspector.diff.summary import FigureChange, changed_versions, opcodes
from inspector.parsers.line import Function, Listing
from inspector.reader.reader import Reader

FIGURES = ("registers", "spills", "shared", "occupancy", "instructions")
"""Figures of ``check`` that a report has."""
_PLACE = re.compile(r"\A\S+:\d+: ")
"""Where a compiler's message is of."""
MOVES = ("mov.", "MOV", "UMOV")
"""Beginnings of opcodes that move values between registers."""


class Edit(Struct, frozen=True, order=True):
    """Opcodes of a stage that became others; empty on one side where lines came or went."""

    stage: Stage
    gone: tuple[str, ...]
    come: tuple[str, ...]

    @property
    def moves(self) -> bool:
        """Whether it only moves values between registers, as other changes entail."""
        return all(opcode.startswith(MOVES) for opcode in (*self.gone, *self.come))


class Change(Struct, frozen=True):
    """A variant whose code changed.

    ``first`` is the first stage whose operations differ in kind or number, else the first whose
    text does; None where no two stages can be compared. ``edits`` are counted by instructions.
    ``figures`` are those that differ, of ``FIGURES``; ``estimates_us`` of a launch on both sides
    with their intervals, empty without an estimate.
    """

    kernel: Kernel
    a: Variant
    b: Variant
    in_use: bool
    first: Stage | None
    edits: Mapping[Edit, int]
    figures: tuple[FigureChange, ...]
    estimates_us: tuple[tuple[float, float, float], ...] = ()

    @property
    def estimated_growth_us(self) -> float:
        """By how much longer all launches take by the estimates; 0 without both."""
        if len(self.estimates_us) != 2:
            return 0.0
        return (self.estimates_us[1][0] - self.estimates_us[0][0]) * (self.a.launches or 1)


class RefusedVariant(Struct, frozen=True):
    """A variant that one of two compilers refused, with its reason, without the place."""

    kernel: str
    variant: str
    compiled_before: bool
    reason: str


class LeftOutVariant(Struct, frozen=True):
    """A variant that was not compiled again, and why."""

    kernel: str
    variant: str
    reason: str


class EditCount(Edit, frozen=True):
    """An edit with the number of changed variants that have it, and of instructions in them."""

    variants: int
    instructions: int


class EstimatedCandidate(Struct, frozen=True):
    """A tuner's candidate, and the estimated µs of a launch before and after."""

    variant: str
    config: Mapping[str, object]
    us: tuple[float, float]


class EstimatedTuning(Struct, frozen=True):
    """The fastest candidates of a round by estimates, ``before`` and ``after``.

    ``estimated`` of its ``candidates`` have an estimate on both sides.
    """

    kernel: str
    candidates: int
    estimated: int
    before: EstimatedCandidate
    after: EstimatedCandidate

    @property
    def moved(self) -> bool:
        return self.before.variant != self.after.variant


class PartExchange(Struct, frozen=True):
    """One more part of a compiler that is exchanged for the other one's.

    What is compiled begins ``since`` the recorded text of a stage; None is the Python source.
    ``edits`` and ``figures`` are what this part brings beside what the parts after it do;
    ``failed`` says why the other compiler does not take the text of that stage.
    """

    part: str
    since: Stage | None
    edits: Mapping[Edit, int] = {}
    figures: tuple[FigureChange, ...] = ()
    failed: str | None = None


class UpgradeReport(Struct, frozen=True):
    """Two recordings of the same variants.

    ``versions`` are of compilers that differ, ``compared`` the number of variants that both have,
    ``reordered`` how many differ in order and registers alone, ``alone`` those that one recording
    lacks. ``partners`` are the newer recording's variants by the ids of the older one's.
    """

    versions: tuple[FigureChange, ...]
    compared: int
    same: int
    reordered: int
    alone: int
    changes: tuple[Change, ...] = ()
    refused: tuple[RefusedVariant, ...] = ()
    left_out: tuple[LeftOutVariant, ...] = ()
    tunings: tuple[EstimatedTuning, ...] = ()
    partners: Mapping[str, Variant] = {}

    def edits(self) -> list[EditCount]:
        """The edits that explain the changes, those of most variants first, moves last."""
        variants: Counter[Edit] = Counter()
        instructions: Counter[Edit] = Counter()
        for change in self.changes:
            variants.update(change.edits.keys())
            instructions.update(change.edits)
        counted = [
            EditCount(edit.stage, edit.gone, edit.come, count, instructions[edit])
            for edit, count in variants.items()
        ]
        return sorted(counted, key=lambda c: (c.moves, -c.variants, -c.instructions, c))


def upgrade(a: Reader, b: Reader) -> Iterator[str | UpgradeReport]:
    """Compare two recordings: yields the name of each kernel that is compared, then the report."""
    compared = same = reordered = alone = 0
    changes: list[Change] = []
    refused: list[RefusedVariant] = []
    partners: dict[str, Variant] = {}
    versions: dict[FigureChange, None] = {}
    for x, y in pair(entries(a), entries(b)):
        if x is None or y is None:
            single = x or y
            # Libraries' kernels are not compiled again.
            alone += single is not None and single.kernel.origin is not Origin.EXTERN
            continue
        compared += 1
        variants = x.variant, y.variant
        partners[x.variant.id] = y.variant
        yield x.kernel.display_name
        tools = a.facts.producing_tools(x.variant), b.facts.producing_tools(y.variant)
        versions |= dict.fromkeys(changed_versions(*tools))
        if x.variant.uncompiled or y.variant.uncompiled:
            if x.variant.uncompiled != y.variant.uncompiled:
                reason = _PLACE.sub("", y.variant.failed or x.variant.failed or "")
                name, variant_id = x.kernel.name, x.variant.id
                refused.append(RefusedVariant(name, variant_id, y.variant.uncompiled, reason))
        elif _same_code((a, b), variants):
            same += 1
        else:
            change = _change((a, b), x.kernel, variants)
            if change.edits or change.figures or not _reordered((a, b), variants):
                changes.append(change)
            else:
                reordered += 1
    yield UpgradeReport(
        tuple(versions),
        compared,
        same,
        reordered,
        alone,
        tuple(sorted(changes, key=_cost)),
        tuple(refused),
        partners=partners,
    )


def _same_code(readers: tuple[Reader, Reader], variants: tuple[Variant, Variant]) -> bool:
    """Whether two have the same machine code, and as much shared memory; without machine code the
    canonical form of their PTX decides."""
    a, b = (v.recorded_resources.dynamic_shared_bytes for v in variants)
    if a != b:
        return False
    if Stage.SASS in shared_stages(variants):
        codes = [code_of(variant) for variant in variants]
        return codes[0] is not None and codes[0] == codes[1]
    return same_form(readers, variants, Stage.PTX) is True


def _reordered(readers: tuple[Reader, Reader], variants: tuple[Variant, Variant]) -> bool:
    """Whether two have the same instructions, but for registers and their order: of machine code,
    else of PTX. What cannot be read is not known to be the same."""
    stage = Stage.SASS if Stage.SASS in shared_stages(variants) else Stage.PTX
    counts = [
        of_stage(reader, variant, stage, _instructions)
        for reader, variant in zip(readers, variants, strict=True)
    ]
    return counts[0] is not None and counts[0] == counts[1]


def _instructions(listing: Listing, function: Function) -> Counter[str]:
    """The instructions of a function with their constants, without names of registers."""
    return Counter(form.key for form in canonical(listing, function).forms)


def _change(
    readers: tuple[Reader, Reader], kernel: Kernel, variants: tuple[Variant, Variant]
) -> Change:
    """What differs between two variants whose code does; without edits and figures it is order."""
    return Change(
        kernel,
        *variants,
        in_use(kernel, variants[0]),
        first_stage(readers, variants),
        edits_between(readers, variants),
        figure_changes(readers, variants),
    )


def edits_between(
    readers: tuple[Reader, Reader], variants: tuple[Variant, Variant]
) -> Counter[Edit]:
    """The edits of PTX, or of SASS where the PTX has the same instructions."""
    edits: Counter[Edit] = Counter()
    for stage in (Stage.PTX, Stage.SASS):
        if not edits and stage in shared_stages(variants):
            edits = _edits_of(readers, variants, stage)
    return edits


def figure_changes(
    readers: tuple[Reader, Reader], variants: tuple[Variant, Variant]
) -> tuple[FigureChange, ...]:
    """The figures of ``FIGURES`` that differ."""
    a, b = map(_figures, readers, variants)
    changes = (FigureChange(name, a[name], b[name]) for name in FIGURES)
    return tuple(change for change in changes if change.differs)


def _figures(reader: Reader, variant: Variant) -> dict[str, float | None]:
    """The figures of ``FIGURES``; None is not known."""
    resources = reader.facts.resources(variant)
    counted = of_stage(reader, variant, Stage.PTX, opcodes)
    return {
        "registers": resources.registers,
        "spills": resources.spill_bytes,
        "shared": resources.shared_bytes,
        "occupancy": reader.facts.occupancy(variant),
        "instructions": None if counted is None else sum(counted.values()),
    }


def first_stage(readers: tuple[Reader, Reader], pair: tuple[Variant, Variant]) -> Stage | None:
    """The first stage whose operations differ in kind or number, else the first whose text does.

    Releases of Triton write one operation in several ways, which is no change.
    """
    by_text = None
    for stage in shared_stages(pair):
        if same_form(readers, pair, stage) is not False:
            continue
        by_text = by_text or stage
        counts = [of_stage(r, v, stage, opcodes) for r, v in zip(readers, pair, strict=True)]
        if counts[0] != counts[1]:
            return stage
    return by_text


def _edits_of(
    readers: tuple[Reader, Reader], pair: tuple[Variant, Variant], stage: Stage
) -> Counter[Edit]:
    """The edits of a stage; none where it cannot be read."""
    try:
        listings = [r.stages.listing(v, stage) for r, v in zip(readers, pair, strict=True)]
        functions = [r.stages.function(v, stage) for r, v in zip(readers, pair, strict=True)]
    except PtxviewError:
        return Counter()
    a_function, b_function = functions
    if a_function is None or b_function is None:
        return Counter()
    a_counts, b_counts = map(Counter, map(opcodes, listings, (a_function, b_function)))
    fewer = a_counts - b_counts
    more = b_counts - a_counts
    edits: Counter[Edit] = Counter()
    if not fewer and not more:
        return edits
    for hunk in diff_listings(*listings, functions=((a_function, b_function),)).hunks:
        if hunk.op in (Op.EQUAL, Op.MOVED):
            continue
        # What a variant has as many of as before has only moved.
        gone = _opcodes_in(listings[0], hunk.a, fewer)
        come = _opcodes_in(listings[1], hunk.b, more)
        if gone or come:
            edit = Edit(stage, tuple(sorted(gone)), tuple(sorted(come)))
            edits[edit] += max(gone.total(), come.total())
    return edits


def _opcodes_in(listing: Listing, span: tuple[int, int], among: Container[str]) -> Counter[str]:
    """The opcodes of some lines, those of ``among`` alone."""
    lines = listing.lines[span[0] - 1 : span[1] - 1]
    return Counter(line.opcode for line in lines if line.opcode and line.opcode in among)


def _cost(change: Change) -> tuple[object, ...]:
    """What the costliest change is sorted by: in use, then by how much worse each figure is."""
    by_name = {figure.name: figure for figure in change.figures}
    worse: list[float] = []
    for name in ("occupancy", "spills", "registers", "shared", "instructions"):
        growth = 0.0 if name not in by_name else growth_of(by_name[name])
        worse.append(growth if name == "occupancy" else -growth)
    return (not change.in_use, *worse)


def growth_of(figure: FigureChange) -> float:
    """How much of itself a figure grew by; 0 where a side is not known."""
    if not isinstance(figure.a, int | float) or not isinstance(figure.b, int | float):
        return 0.0
    return (figure.b - figure.a) / max(abs(figure.a), 1)
