"""One page that holds a recording: no file beside it, nothing from a network.

The list of kernels is as it is, everything else compressed, a piece a text and a piece a variant;
the script unpacks what is looked at. Nothing in a recording becomes markup: it is JSON in elements
that are not run. The page's own policy allows its one script and sheet by their digests alone.
"""

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain, combinations
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from inspector import __version__
from inspector.analysis.accesses import Mix
from inspector.analysis.hints.rules import hint_rules
from inspector.analysis.hints.subject import Finding
from inspector.analysis.line_annotations import virtual
from inspector.analysis.tuner_times import TunerFacts, tuner_facts
from inspector.base.errors import PtxviewError
from inspector.base.escapes import shown, visible
from inspector.base.grouping import by_key
from inspector.base.model import Content, Fusion, Graph, Kernel, Origin, Recording, Stage, Variant
from inspector.base.names import base_name
from inspector.base.units import plural
from inspector.diff.canonical import digest
from inspector.diff.compare import of_stage, tuned_codes
from inspector.estimate.launches import launch_evidence
from inspector.export.comparisons import KernelVariant, comparisons, pairs_of
from inspector.export.page_pictures import tuning_pictures, variant_pictures
from inspector.export.upgrade_section import upgrade_section
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import GpuWindow
from inspector.measure.streams import window_streams
from inspector.reader.reader import Reader
from inspector.reader.variant_facts import MACHINE
from inspector.render import calls, card, costs, jsons, tables, timeline, timings
from inspector.render.kernel_names import titles
from inspector.render.labels import sibling_settings
from inspector.render.variant_figures import machine_code
from inspector.system import files
from inspector.system.process import side_by_side

Links = Mapping[int, tuple[int, ...]]

MAX_STAGE_CHARS = 4 << 20
"""Bytes of a stage's text beyond which a page has its size alone: a browser shows no more well."""
MAX_PAGE_BYTES = 96 << 20
"""Bytes of compressed content that a page may have: what comes after is said to be left out."""
MAX_ANNOTATED_FUNCTIONS = 4
"""Functions of a file up to which all lines are annotated, else the kernel's own alone."""
MAX_OPCODES = 24  # opcodes that are counted one by one, the most frequent first


IDLE_STAGES = (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.PTX)
"""Stages of a candidate that was never launched which a page of many variants has."""
IDLE = "left out: it was never launched, or is a library's and has no time"
NO_ANNOTATIONS = {"from": 1, "said": {}, "live": None, "stall": None, "notes": [], "peaks": []}

TOO_LARGE = "left out: the page would be too large"
COSTLY = "a compiler would have to be run for it: name the kernel to have it"


class PageText(Struct, frozen=True):
    """The text of a stage on the page: its block, and how many lines it has."""

    content: Content
    block: int
    lines: int
    text_from: str


class PageBuilder(Struct):
    """Collects a page's compressed values, named by their number, and sentences on missing ones.

    ``compilers``: whether a compiler may be run for a stage that was not kept. ``idle`` are ids
    of variants that get figures and some texts alone, ``winners`` those of kernels that
    max-autotune generated from its winner. ``settings`` are by the ids of variants.
    """

    reader: Reader
    evidence: Evidence
    titles: Mapping[str, str]
    settings: Mapping[int, str]
    winners: AbstractSet[str | None]
    tuner_facts: TunerFacts
    idle: AbstractSet[int] = frozenset()
    compilers: bool = False
    pieces: list[bytes] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)
    """By a value's digest, and by a text before it was made printable."""
    _size_bytes: int = 0
    _previous_texts: dict[Stage, PageText] = field(default_factory=dict)
    _previous_links: tuple[dict[str, Links], int | None] = ({}, None)

    def add(self, value: object) -> int:
        """The number of a value that JSON has a form for; each content is kept once."""
        text = json.dumps(visible(value), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        data = text.encode("ascii")
        key = hashlib.sha256(data).digest()
        if key not in self._numbers:
            self._numbers[key] = len(self.pieces)
            self.pieces.append(zlib.compress(data, 9))
            self._size_bytes += len(self.pieces[-1])
        return self._numbers[key]

    @property
    def full(self) -> bool:
        return self._size_bytes >= MAX_PAGE_BYTES

    def heading(self) -> dict[str, object]:
        rec = self.reader.recording
        return {
            "made_by": f"ptxview {__version__}",
            "name": rec.path.rstrip("/").rpartition("/")[2] or rec.path,
            "heading": tables.heading(rec),
            "command": None if rec.command is None else " ".join(rec.command),
            "started": rec.started,
            "device": (rec.device or {}).get("name"),
            "tools": list(rec.tools.items()),
            "problems": [*tables.failure_sentences(rec), *rec.problems],
        }

    def variant_row(self, kernel: Kernel, variant: Variant, kernel_place: int) -> dict[str, object]:
        """What the list and the tiles show of a variant, and the place of its kernel."""
        reader = self.reader
        resources = reader.facts.resources(variant)
        percent = reader.facts.occupancy(variant)
        won = (variant.autotune or {}).get("winner") is True or kernel.id in self.winners
        return {
            "kernel": kernel_place,
            "id": variant.id,
            "target": variant.target,
            "config": self.settings[id(variant)],
            "tuned": tables.tuning_mark(variant) or None,
            "registers": resources.registers,
            "spills": tables.spills(resources),
            "stack": resources.stack_bytes,
            "shared": tables.shared(resources),
            "occupancy": None if percent is None else round(percent, 2),
            "time": self._time(kernel, variant),
            "launches": variant.launches,
            "won": won,
            "failed": tables.failure_text(variant),
            "stages": [s.value for s in jsons.ordered(variant.stages)],
            **self._analysed_columns(variant),
        }

    def _time(self, kernel: Kernel, variant: Variant) -> dict[str, object] | None:
        """The time of one launch, what it means and how it was taken; None if unknown."""
        time = self.evidence.launch_time(kernel, variant)
        if time is None:
            return None
        timing = self.evidence.times.representative(kernel, variant)
        return {
            "us": time.us,
            "text": time.text,
            "mean": time.meaning,
            "how": "" if timing is None else timings.measurement_text(timing, timing.taken),
        }

    def _analysed_columns(self, variant: Variant) -> dict[str, object]:
        """The columns of a row for which listings are analysed: unknown of an idle variant."""
        if id(variant) in self.idle:
            return {
                "limiters": [],
                "unknown": "",
                "instructions": None,
                "counted": None,
                "hints": None,
                "worst": None,
            }
        variant_card = self.reader.facts.card(variant)
        occupancy = variant_card.occupancy
        code = machine_code(variant_card)
        mix = None if code is None else code.mix
        severities = [finding.severity for finding in self.reader.facts.findings(variant)]
        return {
            "limiters": [] if occupancy is None else list(occupancy.limiters),
            "unknown": card.unknown_occupancy(variant_card),
            "instructions": None if mix is None else mix.total,
            "counted": None if code is None else code.stage.value,
            "hints": len(severities),
            "worst": next((s for s in ("warn", "hint", "info") if s in severities), None),
        }

    def kernel(self, kernel: Kernel) -> dict[str, object]:
        fusion = kernel.fusion or Fusion()
        return {
            "id": kernel.id,
            "name": base_name(kernel.name),
            "title": self.titles.get(kernel.id, kernel.display_name),
            "demangled": kernel.demangled,
            "origin": kernel.origin.value,
            "ops": fusion.ops,
            "made_from": [(m.file, m.line, m.code, m.targets) for m in fusion.made_from],
        }

    def graph(self, graph: Graph, places: Mapping[str, int]) -> dict[str, object]:
        """The text of each stage of a graph, and its kernels' places in the list by lines."""
        out: dict[str, object] = {
            "id": graph.id,
            "kernels": [
                {"name": name, "at": places.get(name), "lines": list(lines)}
                for name, lines in ((k, graph.calls.get(k, ())) for k in graph.kernels)
            ],
        }
        if graph.error is not None:
            out["why"] = f"it did not compile: {graph.error.summary}"
        texts: list[dict[str, object]] = []
        for stage in self.reader.graphs.stages(graph):
            if stage is Stage.SOURCE:
                continue  # it is a whole file, and each kernel has it
            text: int | str
            kernel_lines: list[list[object]] = []
            try:
                if self.full and stage is not Stage.OUTPUT_CODE:
                    raise PtxviewError(TOO_LARGE)
                text = self._text(self.reader.graphs.text(graph, stage), graph.id)
                if Stage.OUTPUT_CODE in graph.stages:
                    kernel_lines = self._kernels_of(graph, stage)
            except PtxviewError as error:
                text = error.message
            texts.append({"stage": stage.value, "text": text, "of": kernel_lines})
        out["texts"] = texts
        return out

    def _kernels_of(self, graph: Graph, stage: Stage) -> list[list[object]]:
        """Lines of a graph's stage, each with the places of the kernels that it belongs to."""
        place_by_line: dict[int, int] = {}
        for place, kernel in enumerate(graph.kernels):
            place_by_line |= dict.fromkeys(graph.calls.get(kernel, ()), place)
        links: Mapping[int, tuple[int, ...]] = {n: (n,) for n in place_by_line}
        if stage is not Stage.OUTPUT_CODE:
            links = self.reader.graphs.links(graph, stage, Stage.OUTPUT_CODE)
        out: list[list[object]] = []
        for line_number, linked in links.items():
            places = sorted({place_by_line[n] for n in linked if n in place_by_line})
            if places:
                out.append([line_number, places])
        return out

    def variant(self, kernel: Kernel, variant: Variant) -> int:
        """Return the block of a variant; texts are separate blocks."""
        if self.full:
            self.left_out.append(
                f"{base_name(kernel.name)} {variant.id}: a page of more than "
                f"{MAX_PAGE_BYTES >> 20} MiB is no longer opened quickly; name it to have it alone"
            )
            return self.add({"why": TOO_LARGE})
        stages, missing = self._stages(kernel, variant)
        rounds = tuning_pictures(kernel, self.tuner_facts)
        idle, flags = id(variant) in self.idle, variant.config.get("flags")
        return self.add(
            {
                "calls": [
                    {"count": call.count, "what": list(calls.call_parts(call))}
                    for call in variant.calls
                ],
                "flags": [str(f) for f in flags] if isinstance(flags, list | tuple) else [],
                "signature": dict(variant.signature),
                "hash": variant.hash,
                "stages": stages,
                "missing": missing,
                "tunings": self.add(rounds) if rounds else None,
                "links": self.add({}) if idle else self._links(variant, list(stages)),
                **({} if idle else self._analysis(kernel, variant)),
            }
        )

    def _analysis(self, kernel: Kernel, variant: Variant) -> dict[str, object]:
        """A variant's summary; of equal digests ``diff`` finds no change."""
        reader = self.reader
        variant_card = reader.facts.card(variant)
        launch_time = self.evidence.launch_time(kernel, variant)
        mixes = [(content.stage, content.mix) for content in variant_card.stages]
        digests = {stage: of_stage(reader, variant, stage, digest) for stage in MACHINE}
        return {
            # The card's rows, as ``show -a`` prints them.
            "card": [
                [row[: card.LABEL].rstrip(), row[card.LABEL :]]
                for row in card.lines(variant_card, 100_000)
            ],
            "mix": [_mix_values(stage, mix) for stage, mix in mixes if mix is not None],
            "hints": list(map(_hint_values, reader.facts.findings(variant))),
            "lacking": reader.facts.lacking(variant),
            "pictures": variant_pictures(reader, kernel, variant, variant_card, launch_time),
            "same": {s.value: value.hex() for s, value in digests.items() if value is not None},
        }

    def _stages(
        self, kernel: Kernel, variant: Variant
    ) -> tuple[dict[str, dict[str, object]], dict[str, str]]:
        reader = self.reader
        stages: dict[str, dict[str, object]] = {}
        missing = {s.value: w for s, w in variant.missing.items() if s not in variant.stages}
        idle = id(variant) in self.idle
        for stage in jsons.ordered(variant.stages):
            file = variant.stages[stage]
            try:
                if idle and stage not in IDLE_STAGES:
                    raise PtxviewError(IDLE)
                if file.costly and not self.compilers:
                    raise PtxviewError(COSTLY)
                label = f"{base_name(kernel.name)} {variant.id} {stage.value}"
                text = self._stage_text(variant, stage, label)
                has_function = not idle or variant.lines_in(stage) is not None
                function = reader.stages.function(variant, stage) if has_function else None
                stages[stage.value] = {
                    "text": text.block,
                    "lines": text.lines,
                    "from": text.text_from,
                    "path": file.origin_path,
                    "first": 1 if function is None else max(function.first, 1),
                    "last": text.lines if function is None else function.last,
                    "names": self._parameter_names(variant, stage),
                    "told": self.add(NO_ANNOTATIONS)
                    if idle
                    else self._line_annotations(variant, stage),
                }
            except PtxviewError as error:
                missing[stage.value] = error.message
        return stages, missing

    def _parameter_names(self, variant: Variant, stage: Stage) -> dict[str, str] | None:
        """Parameters of PTX by their symbols; None of other stages."""
        return self.reader.facts.parameter_names(variant, stage) if stage is Stage.PTX else None

    def _stage_text(self, variant: Variant, stage: Stage, label: str) -> PageText:
        """The text of a stage. Kernels of one file, which follow each other, share it."""
        content = variant.stages[stage].content
        previous = self._previous_texts.get(stage)
        if previous is not None and previous.content == content:
            return previous
        text = self.reader.stages.text(variant, stage)
        block = self._text(text.text, label)
        out = PageText(content, block, text.text.count("\n") + 1, text.text_from)
        self._previous_texts[stage] = out
        return out

    def _text(self, content: str, label: str) -> int:
        """The block of a text. Raises ``PtxviewError`` where it is too large."""
        if len(content) > MAX_STAGE_CHARS:
            reason = f"{len(content):,} characters are too many for a page"
            self.left_out.append(f"{label}: {reason}; ptxview show prints it")
            raise PtxviewError(reason)
        # The kernels of a file, or of a graph, have one text.
        key = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        if key not in self._numbers:
            lines = (shown(text.rstrip("\r")) for text in content.split("\n"))
            self._numbers[key] = self.add({"text": "\n".join(lines)})
        return self._numbers[key]

    def _line_annotations(self, variant: Variant, stage: Stage) -> int:
        """Return the block of line annotations: sentences, live registers, stalls, notes."""
        annotations = self.reader.annotations.annotate(variant, stage)
        listing = self.reader.stages.listing(variant, stage)
        lines: Sequence[int] = annotations.upper
        if stage in MACHINE:
            lines = range(1, len(listing.lines) + 1)
            if len(listing.functions) > MAX_ANNOTATED_FUNCTIONS:
                function = self.reader.stages.function(variant, stage)
                lines = () if function is None else range(function.first, function.last + 1)
        first = lines[0] if lines else 1
        texts: dict[int, str] = {}
        notes: list[list[object]] = []
        live: list[int | None] = [None] * (lines[-1] - first + 1 if lines else 0)
        stall = live.copy()
        for line_number in lines:
            annotation = annotations.at(line_number)
            counts = annotation.counts()
            if counts is None:
                registers = None
            elif stage is Stage.PTX:
                registers = virtual(counts)
            else:
                registers = counts.get("gpr")
            live[line_number - first] = registers
            stall[line_number - first] = annotation.cycles()
            notes += (
                [line_number, note.rule, note.severity, note.text] for note in annotation.notes
            )
            words = [] if stage not in MACHINE else list(annotations.words(line_number).said())
            if annotation.samples is not None and annotations.sampled:
                words += card.sampled(annotation.samples, annotations.sampled)
            if words:
                texts[line_number] = "\n".join(words)
        return self.add(
            {
                "from": first,
                "said": texts,
                "live": live if any(v is not None for v in live) else None,
                "stall": stall if any(v is not None for v in stall) else None,
                "notes": notes,
                "peaks": list(annotations.peaks),
                "legend": card.legend(annotations, stage) or None,
            }
        )

    def _links(self, variant: Variant, stages: Sequence[str]) -> int:
        """The block of links by pairs of stages, the upper first: which lines of one belong to
        which of the other. Variants of one file, which follow each other, share them."""
        links: dict[str, Links] = {}
        for upper, lower in combinations(map(Stage, stages), 2):
            with suppress(PtxviewError):
                links[f"{upper.value}|{lower.value}"] = self.reader.stages.links(
                    variant, upper, lower
                )
        previous, block = self._previous_links
        same = links.keys() == previous.keys() and all(links[k] is previous[k] for k in links)
        if block is None or not same:
            block = self.add(
                {pair: grouped_links(pair_links) for pair, pair_links in links.items()}
            )
            self._previous_links = links, block
        return block


def _mix_values(stage: Stage, mix: Mix) -> dict[str, object]:
    """The instructions of a stage by cost class, and the most frequent opcodes."""
    return {
        "stage": stage.value,
        "total": mix.total,
        "costs": list(mix.by_cost),
        "unclassed": mix.unclassed,
        "opcodes": list(mix.by_opcode)[:MAX_OPCODES],
        "opcodes_in_all": len(mix.by_opcode),
    }


def _hint_values(finding: Finding) -> dict[str, object]:
    lines = {stage.value: list(numbers) for stage, numbers in finding.lines.items() if numbers}
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "text": finding.text,
        "estimated": finding.estimated,
        "blocks": finding.blocks,
        "lines": lines,
    }


# -- values ---------------------------------------------------------------------------------------


def grouped_links(links: Mapping[int, tuple[int, ...]]) -> str:
    """Links as ``UPPER>LOWER;…``: the lines that share their counterparts together, as ranges."""
    # The lines of a block have one tuple, as long as the block: it is hashed once, not for each.
    shared = {id(lower): lower for lower in links.values() if lower}
    blocks = by_key((id(lower), upper) for upper, lower in links.items() if lower)
    groups = by_key((shared[key], upper) for key, upper in blocks.items())
    return ";".join(
        f"{ranges(chain.from_iterable(upper))}>{ranges(lower)}" for lower, upper in groups.items()
    )


def ranges(numbers: Iterable[int]) -> str:
    """``3-5,9`` of 3, 4, 5 and 9."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if not runs or number > runs[-1][1] + 1:
            runs.append([number, number])
        runs[-1][1] = number
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def counts_text(kernel_variants: Sequence[KernelVariant]) -> str:
    """``2 kernels, 5 variants``."""
    kernels = {id(kernel) for kernel, _ in kernel_variants}
    return f"{plural(len(kernels), 'kernel')}, {plural(len(kernel_variants), 'variant')}"


WEB = Path(__file__).parent / "web"
SCRIPTS = ("rows", "kernel", "timeline", "pictures", "costs", "compare", "page")
"""The parts of the page's script, each using those before it."""
MAX_KEPT_VARIANTS = (
    64  # variants up to which all that was read of them is kept until they have been compared
)


def page(
    reader: Reader,
    kernel_variants: Sequence[KernelVariant] | None = None,
    *,
    evidence: Evidence | None = None,
    removed: Sequence[str] = (),
    named: bool = False,
    left_out: list[str] | None = None,
) -> Iterator[str]:
    """The page of a recording, or of some variants of it, in pieces of HTML that are ASCII.

    Args:
        evidence: times and the profile; None for what is stored with the recording.
        removed: what was taken out of the recording before, which the page tells its readers.
        named: the variants were named one by one, and get every stage, also one that must be
            compiled.
        left_out: gets a sentence for each text that was too large.

    Raises:
        PtxviewError: nothing can be read.
    """
    rec = reader.recording
    evidence = evidence or launch_evidence(reader, with_window=True)
    selected = list(rec.variants() if kernel_variants is None else kernel_variants)
    idle: AbstractSet[int] = frozenset()
    if not named and len(selected) > MAX_KEPT_VARIANTS:
        idle = _idle_variants(costs.costs(rec, evidence), selected)
    tunings = chain.from_iterable(kernel.autotune for kernel in rec.kernels)
    winners = {use.kernel for tuning in tunings for use in tuning.uses}
    titles_by_id = titles(rec)
    names_by_id = {kernel.id: kernel.display_name for kernel in rec.kernels} | titles_by_id
    texts = sibling_settings(selected, names_by_id)
    settings = {id(variant): text for (_, variant), text in zip(selected, texts, strict=True)}
    facts = tuner_facts(rec, tuned_codes(rec.kernels))
    builder = PageBuilder(reader, evidence, titles_by_id, settings, winners, facts, idle, named)
    if idle:
        builder.left_out.append(
            f"{plural(len(idle), 'variant')} never launched or a library's without a time: no "
            "stages but source and PTX, no hints: ptxview export PATH KERNEL, or '*', has them"
        )
    index = _index(builder, selected, removed, evidence)
    if not removed and not named:  # its paths and counts are of the whole recording
        index["upgrade"] = upgrade_section(rec, selected)
    index = cast(dict[str, Any], visible(index))
    if left_out is not None:
        left_out += builder.left_out
    # Before the script stand the blocks that the first variant needs.
    first = 1 + int(index["variants"][0]["block"]) if selected else 0
    yield from _document(index, builder.pieces, first)


def _idle_variants(run_costs: costs.Costs, selected: Sequence[KernelVariant]) -> AbstractSet[int]:
    """Ids of variants that were never launched, or are a library's and have no time."""
    timed = {id(row.variant) for row in run_costs.rows if row.us is not None}
    libraries = {id(v) for kernel, v in selected if kernel.origin is Origin.EXTERN}
    return libraries.difference(timed).union(id(row.variant) for row in run_costs.idle)


def _variant_rows(
    builder: PageBuilder, kernel_variants: Sequence[KernelVariant], places: Mapping[int, int]
) -> tuple[list[dict[str, object]], dict[int, tuple[str, ...]]]:
    """The rows of all variants, and the rules of those that are not idle by their ids."""
    reader = builder.reader
    rows: list[dict[str, object]] = []
    rules: dict[int, tuple[str, ...]] = {}

    def run_tools(kernel_variant: KernelVariant) -> None:
        """Run the tools of a variant, whose output is cached."""
        _, variant = kernel_variant
        with suppress(PtxviewError):
            reader.facts.resources(variant)
            if id(variant) not in builder.idle:
                reader.stages.text(variant, Stage.SASS)

    next_hashes = [*(variant.hash for _, variant in kernel_variants[1:]), None]
    finished = side_by_side(run_tools, kernel_variants)
    for (kernel, variant), next_hash, _ in zip(kernel_variants, next_hashes, finished, strict=True):
        row = builder.variant_row(kernel, variant, places[id(kernel)])
        rows.append(row | {"block": builder.variant(kernel, variant)})
        if id(variant) not in builder.idle:
            rules[id(variant)] = hint_rules(reader.facts.hints(variant))
        if len(kernel_variants) > MAX_KEPT_VARIANTS and next_hash != variant.hash:
            reader.facts.forget([variant])
    return rows, rules


def _graphs(builder: PageBuilder, places: Mapping[str, int]) -> list[dict[str, object]]:
    """Graphs that have one of the kernels shown, or all graphs where no kernel is shown."""
    return [
        builder.graph(graph, places)
        for graph in builder.reader.recording.graphs
        if not places or not places.keys().isdisjoint(graph.kernels)
    ]


def _pairs(builder: PageBuilder, variants: Sequence[KernelVariant]) -> list[list[object]]:
    """Compared pairs: the places of two variants, the stage, the block of their comparison."""
    out: list[list[object]] = []
    for place_a, place_b in pairs_of(variants):
        pair = (variants[place_a][1], variants[place_b][1])
        if builder.idle.isdisjoint(map(id, pair)):
            for stage, value in comparisons(builder.reader, pair):
                out.append([place_a, place_b, stage.value, builder.add(value)])
    return out


def _index(
    builder: PageBuilder,
    kernel_variants: Sequence[KernelVariant],
    removed: Sequence[str],
    evidence: Evidence,
) -> dict[str, Any]:
    """What the page shows at once; all else is a block that it names by its number."""
    reader = builder.reader
    kernels = list({id(k): k for k, _ in kernel_variants}.values())
    places = {id(k): n for n, k in enumerate(kernels)}
    variants, rules = _variant_rows(builder, kernel_variants, places)
    first_variants: dict[str, int] = {}
    for place, (kernel, _) in enumerate(kernel_variants):
        first_variants.setdefault(kernel.id, place)
    graphs = _graphs(builder, first_variants)
    pairs = _pairs(builder, kernel_variants)
    by_cost = costs.costs(reader.recording, replace(evidence, rules=lambda v: rules.get(id(v))))
    largest = max((row.share or 0.0 for row in by_cost.rows), default=0.0)
    common = by_cost.common_rules
    variant_places = {id(variant): n for n, (_, variant) in enumerate(kernel_variants)}
    return {
        **builder.heading(),
        "kernels": [builder.kernel(k) for k in kernels],
        "variants": variants,
        "costs": [
            costs.cells(row, largest, common) | {"at": variant_places.get(id(row.variant))}
            for row in by_cost.rows
            if row.variant is None or id(row.variant) in variant_places
        ],
        "cost_title": costs.title(by_cost),
        "footnotes": costs.footnotes(by_cost),
        "timeline": _timeline(reader.recording, evidence.window),
        "graphs": graphs,
        "pairs": pairs,
        "removed": removed,
        "left_out": builder.left_out,
    }


def _timeline(rec: Recording, window: GpuWindow | None) -> dict[str, object] | None:
    """The timeline of a step, None where none was recorded."""
    if window is None or not len(window.spans):
        return None
    return timeline.picture(
        timeline.named_timeline(window_streams(window), rec), [timeline.heading(window)]
    )


# -- the document ---------------------------------------------------------------------------------


def _document(index: dict[str, Any], pieces: Sequence[bytes], first: int) -> Iterator[str]:
    # The parts of the script as one, of which nothing is seen from outside.
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script, style = f"'use strict';\n(() => {{\n{parts}}})();\n", _asset("page.css")
    filled = {
        "policy": f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        "generator": f"ptxview {__version__}",
        "title": html.escape(str(index["name"])).encode("ascii", "xmlcharrefreplace").decode(),
        "style": style,
        "index": embedded(index),
    }
    head = _asset("page.html")
    for name, value in filled.items():
        text, mark, remainder = head.partition("{{" + name + "}}")
        assert mark, name
        yield text + value
        head = remainder
    text, _, remainder = head.partition("{{blocks}}")
    yield text
    blocks = [
        f'<script type="text/plain" id="b{number}">{base64.b64encode(piece).decode()}</script>\n'
        for number, piece in enumerate(pieces)
    ]
    blocks.insert(first, f"<script>{script}</script>\n")
    yield from blocks
    yield remainder


def _asset(name: str) -> str:
    return files.read(WEB / name).decode("ascii")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(value: object) -> str:
    """Return JSON that cannot end its element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
