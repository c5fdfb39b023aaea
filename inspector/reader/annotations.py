"""Line annotations: registers, sentences, waits, notes, references; regions of interest."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from inspector.analysis.hints.subject import Finding
from inspector.analysis.landing import landing_line
from inspector.analysis.line_annotations import (
    CLASSES,
    NO_WORDS,
    Explained,
    LineAnnotations,
    Register,
    Rolled,
    Samples,
    Told,
    Words,
    hottest,
    roll_up,
    roll_up_samples,
    total,
    virtual,
)
from inspector.base.errors import PtxviewError
from inspector.base.model import Location, Note, Stage, Variant
from inspector.parsers.line import Function, Line, Listing
from inspector.reader import tables
from inspector.reader.memo import Memo, RecordingIndex
from inspector.reader.stages import StageReader
from inspector.reader.variant_facts import MACHINE, VariantFacts

if TYPE_CHECKING:
    from inspector.analysis.flow.definitions import Chains
    from inspector.analysis.flow.graph import Flow, Loop
    from inspector.analysis.function_facts import FunctionFacts
    from inspector.analysis.sentences.ptx import PtxReader
    from inspector.analysis.sentences.sass import SassReader

    _Function = tuple[Listing, FunctionFacts, PtxReader | SassReader]

_WORDS = re.compile(r"(?<![\w$%.])(?:%[a-z_]\w*|\.[a-z]\w*|SR_\w+)")


MAX_LOOPS = 3  # loops that are listed: the innermost ones, of those the longest
MAX_SAMPLED_LINES = 5  # lines that are listed by their samples


class Region(Struct, frozen=True):
    """Lines ``first`` to ``last`` of a stage that are worth a look, and why.

    ``by`` is ``samples`` where a profiler saw warps there (``percent`` of the kernel's samples),
    ``loop`` of a loop that no other is in (``depth`` loops deep, 1 for one in no other),
    ``registers`` of the line with the most live registers (``live`` of them). ``source`` is the
    line of the program that the first instruction there is of.
    """

    first: int
    last: int
    by: str
    source: Location | None = None
    percent: float | None = None
    depth: int | None = None
    live: int | None = None


class AnnotationReader:
    """Annotations and references of lines, and the regions to look at first.

    Args:
        stages: Listings and links.
        facts: Analysis, hints and measurements.
        index: The variants of the recording.
        memo: Results, shared with the other services of a reader.
    """

    def __init__(
        self, stages: StageReader, facts: VariantFacts, index: RecordingIndex, memo: Memo
    ) -> None:
        self._stages = stages
        self._facts = facts
        self._index = index
        self._memo = memo

    def annotate(self, variant: Variant, stage: Stage, whole_file: bool = False) -> LineAnnotations:
        """Annotate the lines of a stage. Raises ``PtxviewError`` where it cannot be read.

        With ``whole_file`` counts are of every function, else of the variant's own.
        """
        source = variant.stages.get(Stage.SOURCE)
        key = ("annotations", self._index.key(variant), source, stage, whole_file)
        return self._memo.memoize(key, lambda: self._annotations(variant, stage, whole_file))

    def _annotations(self, variant: Variant, stage: Stage, whole_file: bool) -> LineAnnotations:
        notes = self._notes(variant, stage)
        rolled: Mapping[int, Rolled] = {}
        peak_counts: dict[str, int] = {}
        if stage is not Stage.SASS:
            rolled, peak_counts = self._rolled_up(variant, stage)
        facts = self._facts.kernel_analysis(variant, stage)
        samples = self.samples(variant, stage)
        measured = self._facts.measured(variant)
        sampled = total(measured.samples.values()).all if samples and measured else 0
        function_at = _LatestFunction(lambda n: self._function(variant, stage, n))

        def annotation(n: int) -> Told:
            function = function_at(n) if whole_file and stage in MACHINE else None
            analysis = _covering(facts if function is None else function[1], n)
            times = None if analysis is None else analysis.schedule
            return Told(
                live=None if analysis is None else _live_registers(analysis, stage, n),
                rolled=rolled.get(n),
                stall=None if times is None else times.stall(n),
                notes=notes.get(n, ()),
                samples=samples.get(n),
            )

        peaks: tuple[int, ...] = ()
        if facts is None:
            classes = set(chain.from_iterable(figures.live for figures in rolled.values()))
            has_stalls = any(figures.stall is not None for figures in rolled.values())
        else:
            peak_counts = {name: count for name, (count, _) in facts.live.peak.items()}
            classes = {name for name, count in peak_counts.items() if count}
            has_stalls = facts.schedule is not None
            peaks, virtual_count = _peaks(facts, stage)
            if stage is Stage.PTX:
                peak_counts["virtual"] = virtual_count
        return LineAnnotations(
            at=annotation,
            words=lambda n: _words(function_at(n), n),
            registers=lambda n: self._registers(variant, stage, n),
            classes=tuple(sorted(classes, key=_class_order)),
            stalls=has_stalls,
            noted=tuple(sorted(notes)),
            peaks=peaks,
            machine=stage is not Stage.PTX,
            allocated=self._facts.resources(variant).registers,
            sampled=sampled,
            hottest=hottest(samples, sampled) if samples else (),
            most=peak_counts,
            upper=() if stage in MACHINE else tuple(sorted({*rolled, *notes, *samples})),
        )

    def samples(self, variant: Variant, stage: Stage) -> Mapping[int, Samples]:
        """Samples by line of a stage; of those above SASS, what their SASS comes to."""
        measured = self._facts.measured(variant)
        if measured is None or not measured.samples or stage is Stage.SASS:
            return {} if measured is None else measured.samples
        try:
            return roll_up_samples(self._stages.links(variant, stage, Stage.SASS), measured.samples)
        except PtxviewError:
            return {}

    def landing_line(
        self, variant: Variant, stage: Stage, lines: Sequence[int], cycles: Mapping[int, float]
    ) -> int:
        """The line to read first of those that another stage's line became.

        Args:
            variant: The variant whose lines these are.
            stage: Their stage.
            lines: Not empty, in the order of preference.
            cycles: Estimated percentages of cycles by line, used where nothing was sampled.

        Returns:
            The costliest line, else the first that computes; the first above PTX.
        """
        if stage not in MACHINE:
            return lines[0]
        samples = self.samples(variant, stage)
        figures = {n: float(sample.all) for n, sample in samples.items()} or cycles
        cost = partial(tables.isa().cost, stage.value)
        return landing_line(self._stages.listing(variant, stage), lines, figures, cost)

    def _rolled_up(
        self, variant: Variant, stage: Stage
    ) -> tuple[Mapping[int, Rolled], dict[str, int]]:
        """SASS's figures on the lines above it, and peaks of live registers; none without links."""
        try:
            links = self._stages.links(variant, stage, Stage.SASS)
            facts = self._facts.kernel_analysis(variant, Stage.SASS)
        except PtxviewError:
            return {}, {}
        if facts is None or facts.schedule is None:
            return {}, {}
        peak_counts = {name: count for name, (count, _) in facts.live.peak.items()}
        upper_lines = self._stages.links(variant, Stage.SASS, stage)
        links = _within(facts.function, links, upper_lines)
        return roll_up(
            links, facts.live.counts_at, facts.schedule.cycles, peak_counts.get("gpr")
        ), peak_counts

    def _notes(self, variant: Variant, stage: Stage) -> Mapping[int, tuple[Note, ...]]:
        """Notes by line: where a hint was seen, or what is linked with where it was seen."""
        out: dict[int, tuple[Note, ...]] = {}
        for finding in self._facts.findings(variant):
            note = finding.note
            for n in self._places(variant, stage, finding):
                out[n] = (*out.get(n, ()), note)
        return out

    def _places(self, variant: Variant, stage: Stage, finding: Finding) -> Sequence[int]:
        if stage_lines := finding.lines.get(stage):
            return stage_lines
        for other, lines in finding.lines.items():
            try:
                links = self._stages.links(variant, other, stage) if lines else {}
            except PtxviewError:
                continue
            linked = {n for line in lines for n in links.get(line, ())}
            if stage in MACHINE:
                linked = self._touching_memory(variant, stage, linked) or linked
            if linked:
                return sorted(linked)
        return ()

    def _touching_memory(self, variant: Variant, stage: Stage, lines: set[int]) -> set[int]:
        """Of the instructions that became of an access, those that are one."""
        from inspector.analysis.accesses import accesses

        if (analysis := self._facts.kernel_analysis(variant, stage)) is None:
            return set()
        all_accesses = accesses(analysis.code)
        return lines & {
            n for access in all_accesses if access.space != "constant" for n in access.lines
        }

    def _function(self, variant: Variant, stage: Stage, n: int) -> _Function | None:
        analysis = self._facts.function_facts(variant, stage, n) if stage in MACHINE else None
        if analysis is None:
            return None
        listing = self._stages.listing(variant, stage)
        return listing, analysis, self._sentences(variant, stage, analysis.function)

    def _registers(self, variant: Variant, stage: Stage, n: int) -> tuple[Register, ...]:
        analysis = self._facts.function_facts(variant, stage, n) if stage in MACHINE else None
        if analysis is None:
            return ()
        line = self._stages.listing(variant, stage).lines[n - 1]
        names = dict.fromkeys((*line.defs, *line.uses))
        return tuple(_register(analysis.chains, line, name) for name in names)

    def _sentences(
        self, variant: Variant, stage: Stage, function: Function
    ) -> PtxReader | SassReader:
        from inspector.analysis.sentences.ptx import PtxReader
        from inspector.analysis.sentences.sass import SassReader

        listing, isa = self._stages.listing(variant, stage), tables.isa()
        # The context is of the variant's own kernel; another function says what it says itself.
        kernel_function = self._stages.function(variant, stage)
        context = (
            self._facts.context(variant)
            if kernel_function is not None and kernel_function.first == function.first
            else None
        )
        if stage is Stage.PTX:
            return PtxReader(listing, function, isa, tables.ptx_templates(), context)
        return SassReader(listing, function, isa, tables.table("sass_sentences"), context)

    def explain(self, variant: Variant, stage: Stage, n: int) -> tuple[Explained, ...]:
        """The reference of each word on a line of PTX or SASS that it knows, the opcode first."""
        line = self._stages.listing(variant, stage).lines[n - 1]
        isa = tables.isa()
        out: dict[str, Explained] = {}
        if line.opcode:
            entry = isa.ptx(line.opcode) if stage is Stage.PTX else isa.sass(line.opcode)
            if entry is not None:
                out[entry.word] = Explained(entry, isa.qualifiers(line.opcode))
        for word in _WORDS.findall(line.text) if stage in MACHINE else ():
            entry = isa.word(word)
            if (
                entry is not None
                and entry.kind in ("special register", "directive")
                and entry.word not in out
            ):
                out[entry.word] = Explained(entry, {})
        return tuple(out.values())

    def regions(self, variant: Variant, stage: Stage) -> tuple[Region, ...]:
        """Where to look first in a stage: by samples, then by code. Raises ``PtxviewError``."""
        annotations = self.annotate(variant, stage)
        listing = self._stages.listing(variant, stage)

        def source(first: int, last: int) -> Location | None:
            locations = (line.source for line in listing.between(first, last))
            return next(filter(None, locations), None)

        shares = [(annotations.share(n) or 0.0, n) for n in annotations.hottest]
        shares.sort(key=lambda share: (-share[0], share[1]))
        out = [
            Region(n, n, "samples", source(n, n), round(percent, 2))
            for percent, n in shares[:MAX_SAMPLED_LINES]
        ]
        facts = self._facts.kernel_analysis(variant, stage)
        if facts is None:
            return tuple(out)
        for loop in _innermost_loops(facts.flow)[:MAX_LOOPS]:
            location = source(loop.first, loop.last)
            out.append(Region(loop.first, loop.last, "loop", location, depth=loop.depth))
        for n in annotations.peaks[:1]:
            counts = annotations.at(n).live or {}
            live = counts["gpr"] if "gpr" in counts else virtual(counts)
            out.append(Region(n, n, "registers", source(n, n), live=live))
        return tuple(out)


class _LatestFunction:
    """The function of a line; a file may have thousands, which are read one after the other."""

    def __init__(self, read: Callable[[int], _Function | None]) -> None:
        self._read = read
        self._latest: _Function | None = None

    def __call__(self, n: int) -> _Function | None:
        if self._latest is None or _covering(self._latest[1], n) is None:
            self._latest = self._read(n)
        return self._latest


def _covering(analysis: FunctionFacts | None, n: int) -> FunctionFacts | None:
    """The analysis of a function if it has the line."""
    if analysis is None or not analysis.function.first <= n <= analysis.function.last:
        return None
    return analysis


def _live_registers(analysis: FunctionFacts, stage: Stage, n: int) -> Mapping[str, int] | None:
    """Live registers by class; of SASS every class, also those of which none is live."""
    live = analysis.live.counts_at(n)
    if live is None or stage is not Stage.SASS:
        return live
    return {name: live.get(name, 0) for name in CLASSES}


def _class_order(name: str) -> tuple[int, str]:
    """SASS's register classes in nvdisasm's order, PTX's by name."""
    return CLASSES.index(name) if name in CLASSES else len(CLASSES), name


def _within(
    function: Function,
    links: Mapping[int, tuple[int, ...]],
    reverse_links: Mapping[int, tuple[int, ...]],
) -> dict[int, tuple[int, ...]]:
    """``links`` to the lines of one function; ``reverse_links`` are the same from there.

    Lines with the same links share one tuple, and the file's other functions, maybe thousands,
    are not gone through.
    """
    lines = range(function.first, function.last + 1)
    uppers = {id(reverse_links[n]): reverse_links[n] for n in lines if n in reverse_links}
    parts: dict[int, tuple[int, ...]] = {}
    out: dict[int, tuple[int, ...]] = {}
    for upper in sorted(set().union(*uppers.values())):
        linked = links[upper]
        if id(linked) not in parts:
            first = bisect_left(linked, function.first)
            parts[id(linked)] = linked[first : bisect_right(linked, function.last)]
        out[upper] = parts[id(linked)]
    return out


def _words(described: _Function | None, n: int) -> Words:
    if described is None:
        return NO_WORDS
    listing, facts, reader = described
    line, chains = listing.lines[n - 1], facts.chains
    sentence = reader.sentence(n)
    definitions = {name: chains.definitions(n, name) for name in line.uses}
    if (times := facts.schedule) is None:
        return Words(sentence, definitions=definitions)
    return Words(sentence, times.sentences(n), times.waits(n), times.consumer(n), definitions)


def _register(chains: Chains, line: Line, name: str) -> Register:
    """Where the value that ``name`` has on a line, or is given there, is defined and used."""
    defined = chains.definitions(line.n, name) if name in line.uses else ()
    if name in line.defs:
        defined = tuple(sorted({*defined, line.n}))
    used = {n for definition in defined for n in chains.uses(definition, name)}
    return Register(name, defined, tuple(sorted(used)))


def _peaks(facts: FunctionFacts, stage: Stage) -> tuple[tuple[int, ...], int]:
    """Where most registers are live, and how many: general ones of SASS, PTX's but predicates."""
    live = {}
    for n in range(facts.function.first, facts.function.last + 1):
        counts = facts.live.counts_at(n) or {}
        live[n] = counts.get("gpr", 0) if stage is Stage.SASS else virtual(counts)
    peak = max(live.values(), default=0)
    return tuple(n for n, live_count in live.items() if live_count == peak > 0), peak


def _innermost_loops(flow: Flow) -> list[Loop]:
    """Loops that hold no other, the deepest first, then the longest."""

    def is_innermost(loop: Loop) -> bool:
        firsts = (flow.blocks[block].first for block in loop.blocks)
        return all(flow.loop_at(first) is loop for first in firsts)

    loops = [loop for loop in flow.loops if is_innermost(loop)]
    return sorted(loops, key=lambda loop: (-loop.depth, loop.first - loop.last, loop.first))
