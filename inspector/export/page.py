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
from itertools import chain, combinations, groupby
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from inspector import __version__
from inspector.analyse.line_annotations import virtual
from inspector.base.model import Content, Fusion, Graph, Kernel, Origin, Recording, Stage, Variant
from inspector.base.text import PtxviewError, base_name, by_key, plural, shown, visible
from inspector.diff.beside import BesideRow, Sign
from inspector.diff.canonical import digest
from inspector.diff.compare import Compared, compare, of_stage
from inspector.estimate.launches import launch_evidence
from inspector.measure.evidence import Evidence
from inspector.measure.gpu_window import GpuWindow
from inspector.measure.streams import window_streams
from inspector.reader.facts import MACHINE, at_hand
from inspector.reader.reader import Reader
from inspector.report import calls, card, costs, diff_text, jsons, tables, timeline, timings
from inspector.report.tables import titles
from inspector.system import files
from inspector.system.process import side_by_side

Found = tuple[Kernel, Variant]
Links = Mapping[int, tuple[int, ...]]

MOST_OF_A_STAGE = 4 << 20
"""Bytes of a stage's text beyond which a page has its size alone: a browser shows no more well."""
MOST_OF_ALL = 96 << 20
"""Bytes of compressed content that a page may have: what comes after is said to be left out."""
TOLD_WHOLE = 4
"""Functions of a file up to which all lines are annotated, else the kernel's own alone."""
OPCODES = 24  # opcodes that are counted one by one, the most frequent first


IDLE_STAGES = (Stage.SOURCE, Stage.OUTPUT_CODE, Stage.PTX)
"""Stages of a candidate that was never launched which a page of many variants has."""
IDLE = "left out: it was never launched, or is a library's and has no time"
NOTHING_TOLD = {"from": 1, "said": {}, "live": None, "stall": None, "notes": [], "peaks": []}

TOO_LARGE = "left out: the page would be too large"
COSTLY = "a compiler would have to be run for it: name the kernel to have it"


class PageText(Struct, frozen=True):
    """The text of a stage on the page: its block, and how many lines it has."""

    content: Content
    block: int
    lines: int
    text_from: str


class Gathered(Struct):
    """What was gathered so far: compressed values, named by their number, and sentences on what is
    missing. ``compilers``: whether one may be run for a stage that was not kept. ``idle`` are ids
    of variants that get figures and some texts alone, ``chosen`` those of kernels that
    max-autotune generated from its winner."""

    reader: Reader
    given: Evidence
    titles: Mapping[str, str]
    chosen: AbstractSet[str | None]
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
        return self._size_bytes >= MOST_OF_ALL

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
            "problems": [*tables.never_ran(rec), *rec.problems],
        }

    def row(self, kernel: Kernel, variant: Variant, at: int) -> dict[str, object]:
        """What the list and the tiles show of a variant; ``at`` is the place of its kernel."""
        reader = self.reader
        resources, percent = reader.resources(variant), reader.occupancy(variant)
        own = None if id(variant) in self.idle else reader.card(variant)
        full = None if own is None else own.occupancy
        made = (
            None if own is None else own.stage_content(Stage.SASS) or own.stage_content(Stage.PTX)
        )
        mix = None if made is None else made.mix
        time = self.given.launch_time(kernel, variant)
        taken = self.given.times.representative(kernel, variant)
        severities = [] if own is None else [one.severity for one in reader.findings(variant)]
        return {
            "kernel": at,
            "id": variant.id,
            "target": variant.target,
            "config": tables.config(variant),
            "tuned": tables.tuned(variant) or None,
            "registers": resources.registers,
            "spills": tables.spills(resources),
            "stack": resources.stack_bytes,
            "shared": tables.shared(resources),
            "occupancy": None if percent is None else round(percent, 2),
            "limiters": [] if full is None else list(full.limiters),
            "unknown": "" if own is None else card.unknown_occupancy(own),
            "instructions": None if mix is None else mix.total,
            "counted": None if made is None else made.stage.value,
            "time": None
            if time is None
            else {
                "us": time.us,
                "text": time.text,
                "mean": time.meaning,
                "how": "" if taken is None else timings.how(taken, taken.taken),
            },
            "launches": variant.launches,
            "won": (variant.autotune or {}).get("winner") is True or kernel.id in self.chosen,
            "hints": None if own is None else len(severities),
            "worst": next((s for s in ("warn", "hint", "info") if s in severities), None),
            "failed": tables.how(variant),
            "stages": [s.value for s in jsons.ordered(variant.stages)],
        }

    def kernel(self, kernel: Kernel) -> dict[str, object]:
        fusion = kernel.fusion or Fusion()
        return {
            "id": kernel.id,
            "name": base_name(kernel.name),
            "title": self.titles.get(kernel.id, kernel.called),
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
            out["why"] = f"it did not compile: {graph.error.said}"
        texts: list[dict[str, object]] = []
        for stage in self.reader.graph_stages(graph):
            if stage is Stage.SOURCE:
                continue  # it is a whole file, and each kernel has it
            text: int | str
            of: list[list[object]] = []
            try:
                if self.full and stage is not Stage.OUTPUT_CODE:
                    raise PtxviewError(TOO_LARGE)
                text = self._text(self.reader.graph_text(graph, stage), graph.id)
                if Stage.OUTPUT_CODE in graph.stages:
                    of = self._kernels_of(graph, stage)
            except PtxviewError as error:
                text = error.message
            texts.append({"stage": stage.value, "text": text, "of": of})
        out["texts"] = texts
        return out

    def _kernels_of(self, graph: Graph, stage: Stage) -> list[list[object]]:
        """Lines of a graph's stage, each with the places of the kernels that it belongs to."""
        own = {n: at for at, k in enumerate(graph.kernels) for n in graph.calls.get(k, ())}
        links: Mapping[int, tuple[int, ...]] = {n: (n,) for n in own}
        if stage is not Stage.OUTPUT_CODE:
            links = self.reader.graph_links(graph, stage, Stage.OUTPUT_CODE)
        of = {n: sorted({own[m] for m in lines if m in own}) for n, lines in links.items()}
        return [[n, kernels] for n, kernels in of.items() if kernels]

    def variant(self, kernel: Kernel, variant: Variant) -> int:
        """Return the block of a variant; texts are separate blocks."""
        if self.full:
            self.left_out.append(
                f"{base_name(kernel.name)} {variant.id}: a page of more than "
                f"{MOST_OF_ALL >> 20} MiB is no longer opened quickly; name it to have it alone"
            )
            return self.add({"why": TOO_LARGE})
        stages, missing = self._stages(kernel, variant)
        idle, flags = id(variant) in self.idle, variant.config.get("flags")
        return self.add(
            {
                "calls": [
                    {"count": call.count, "what": list(calls.described(call))}
                    for call in variant.calls
                ],
                "flags": [str(f) for f in flags] if isinstance(flags, list | tuple) else [],
                "signature": dict(variant.signature),
                "hash": variant.hash,
                "stages": stages,
                "missing": missing,
                "links": self.add({}) if idle else self._links(variant, list(stages)),
                **({} if idle else self._analysis(variant)),
            }
        )

    def _analysis(self, variant: Variant) -> dict[str, object]:
        """What is said of a variant as a whole; of equal digests ``diff`` finds no change."""
        reader, own = self.reader, self.reader.card(variant)
        return {
            # The card's rows, as ``show -a`` prints them.
            "card": [
                [row[: card.LABEL].rstrip(), row[card.LABEL :]] for row in card.lines(own, 100_000)
            ],
            "mix": [
                {
                    "stage": made.stage.value,
                    "total": made.mix.total,
                    "costs": list(made.mix.by_cost),
                    "unclassed": made.mix.unclassed,
                    "opcodes": list(made.mix.by_opcode)[:OPCODES],
                    "opcodes_in_all": len(made.mix.by_opcode),
                }
                for made in own.stages
                if made.mix is not None
            ],
            "hints": [
                {
                    "rule": finding.rule,
                    "severity": finding.severity,
                    "text": finding.text,
                    "estimated": finding.estimated,
                    "blocks": finding.blocks,
                    "lines": {s.value: list(lines) for s, lines in finding.lines.items() if lines},
                }
                for finding in reader.findings(variant)
            ],
            "lacking": reader.lacking(variant),
            "same": {
                stage.value: found.hex()
                for stage in MACHINE
                if (found := of_stage(reader, variant, stage, digest)) is not None
            },
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
                near = not idle or variant.lines_in(stage) is not None
                own = reader.function(variant, stage) if near else None
                stages[stage.value] = {
                    "text": text.block,
                    "lines": text.lines,
                    "from": text.text_from,
                    "path": file.origin_path,
                    "first": 1 if own is None else max(own.first, 1),
                    "last": text.lines if own is None else own.last,
                    "told": self.add(NOTHING_TOLD) if idle else self._told(variant, stage),
                }
            except PtxviewError as error:
                missing[stage.value] = error.message
        return stages, missing

    def _stage_text(self, variant: Variant, stage: Stage, label: str) -> PageText:
        """The text of a stage. Kernels of one file, which follow each other, share it."""
        content = variant.stages[stage].content
        previous = self._previous_texts.get(stage)
        if previous is not None and previous.content == content:
            return previous
        text = self.reader.text(variant, stage)
        block = self._text(text.text, label)
        out = PageText(content, block, text.text.count("\n") + 1, text.text_from)
        self._previous_texts[stage] = out
        return out

    def _text(self, whole: str, label: str) -> int:
        """The block of a text. Raises ``PtxviewError`` where it is too large."""
        if len(whole) > MOST_OF_A_STAGE:
            why = f"{len(whole):,} characters are too many for a page"
            self.left_out.append(f"{label}: {why}; ptxview show prints it")
            raise PtxviewError(why)
        # The kernels of a file, or of a graph, have one text.
        key = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
        if key not in self._numbers:
            lines = (shown(text.rstrip("\r")) for text in whole.split("\n"))
            self._numbers[key] = self.add({"text": "\n".join(lines)})
        return self._numbers[key]

    def _told(self, variant: Variant, stage: Stage) -> int:
        """Return the block of line annotations: sentences, live registers, stalls, notes."""
        annotations = self.reader.line_annotations(variant, stage)
        listing = self.reader.listing(variant, stage)
        lines: Sequence[int] = annotations.upper
        if stage in MACHINE:
            first, last = 1, len(listing.lines)
            if len(listing.functions) > TOLD_WHOLE:
                own = self.reader.function(variant, stage)
                first, last = (1, 0) if own is None else (own.first, own.last)
            lines = range(first, last + 1)
        first = lines[0] if lines else 1
        said: dict[int, str] = {}
        notes: list[list[object]] = []
        live: list[int | None] = [None] * (lines[-1] - first + 1 if lines else 0)
        stall = live.copy()
        for n in lines:
            told = annotations.at(n)
            if (counts := told.counts()) is not None and stage is Stage.PTX:
                live[n - first] = virtual(counts)
            else:
                live[n - first] = (counts or {}).get("gpr")
            stall[n - first] = told.cycles()
            notes += ([n, note.rule, note.severity, note.text] for note in told.notes)
            words = [] if stage not in MACHINE else list(annotations.words(n).said())
            if told.samples is not None and annotations.sampled:
                words += card.sampled(told.samples, annotations.sampled)
            if words:
                said[n] = "\n".join(words)
        return self.add(
            {
                "from": first,
                "said": said,
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
                links[f"{upper.value}|{lower.value}"] = self.reader.links(variant, upper, lower)
        previous, block = self._previous_links
        same = links.keys() == previous.keys() and all(links[k] is previous[k] for k in links)
        if block is None or not same:
            block = self.add({pair: grouped(each) for pair, each in links.items()})
            self._previous_links = links, block
        return block


# -- values ---------------------------------------------------------------------------------------


def grouped(links: Mapping[int, tuple[int, ...]]) -> str:
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
    runs = groupby(enumerate(sorted(set(numbers))), lambda one: one[1] - one[0])
    out = [[n for _, n in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in out)


def named(found: Sequence[Found]) -> str:
    return f"{plural(len({id(k) for k, _ in found}), 'kernel')}, {plural(len(found), 'variant')}"


COMPARED_STAGES = (Stage.PTX, Stage.SASS)
MAX_PAIRS = 80
"""Pairs that are compared: each takes a tenth of a second, and some kilobytes of a page."""
ALL_OF = 5  # variants of a kernel up to which each is compared with each
MAX_LISTING_LINES = 20_000  # lines beyond which two listings are left to ``ptxview diff``
SIGNS = {sign: n for n, sign in enumerate(Sign)}


def pairs_of(variants: Sequence[Found]) -> list[tuple[int, int]]:
    """Pairs of places among ``variants``: of few variants of a kernel each with each, of many each
    with its neighbour and with the best, which is the tuner's or the first."""
    out = [(0, 1)] if len(variants) == 2 else []
    by_kernel = by_key((id(kernel), place) for place, (kernel, _) in enumerate(variants))
    for places in by_kernel.values():
        best = next((p for p in places if (variants[p][1].autotune or {}).get("winner")), places[0])
        out += (
            (place, other)
            for (n, place), (m, other) in combinations(enumerate(places), 2)
            if len(places) <= ALL_OF or best in (place, other) or m == n + 1
        )
    return list(dict.fromkeys(out))[:MAX_PAIRS]


def comparisons(reader: Reader, pair: tuple[Variant, Variant]) -> Iterator[tuple[Stage, object]]:
    """What ``diff`` says of two variants, by stage; nothing of a stage that one of them lacks."""
    for stage in COMPARED_STAGES:
        with suppress(PtxviewError):
            if all(
                at_hand(v, stage) and len(reader.listing(v, stage).lines) <= MAX_LISTING_LINES
                for v in pair
            ):
                one = compare((reader, reader), pair, stage)
                everything = diff_text.figure_groups(one.summary, everything=True)
                yield (
                    stage,
                    {
                        "identical": one.diff.identical,
                        "explanation": one.explanation,
                        "figures": [row for group in everything for row in group],
                        "hints": list(diff_text.hints(one.summary)),
                        "rows": [_aligned(one, row) for row in one.rows()],
                    },
                )


def _aligned(one: Compared, row: BesideRow) -> list[object]:
    """Sign, line of a, line of b; which characters differ, or where it was moved to."""
    out: list[object] = [SIGNS[row.sign], row.a or 0, row.b or 0]
    if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
        out += list(one.intra(row.a, row.b))
    elif row.other is not None:
        out.append(row.other)
    return out


WEB = Path(__file__).parent / "web"
SCRIPTS = ("rows", "kernel", "timeline", "costs", "compare", "page")
"""The parts of the page's script, each using those before it."""
KEPT = 64  # variants up to which all that was read of them is kept until they have been compared


def page(
    reader: Reader,
    chosen: Sequence[Found] | None = None,
    *,
    given: Evidence | None = None,
    removed: Sequence[str] = (),
    named: bool = False,
    left_out: list[str] | None = None,
) -> Iterator[str]:
    """The page of a recording, or of some variants of it, in pieces of HTML that are ASCII.

    ``given`` are times and the profile, None for what is stored with the recording. ``removed``
    says what was taken out of the recording before, which the page tells its readers. ``named``:
    the variants were asked for one by one, and get all that there is, also a stage that must be
    compiled. ``left_out`` is given a sentence for each text that was too large. Raises
    ``PtxviewError`` where nothing can be read.
    """
    rec = reader.recording
    given = given or launch_evidence(reader, with_window=True)
    found = list(rec.variants() if chosen is None else chosen)
    many, known = not named and len(found) > KEPT, costs.costs(rec, given)
    timed = {id(row.variant) for row in known.rows if row.us is not None}
    libraries = {id(v) for k, v in found if k.origin is Origin.EXTERN}.difference(timed)
    idle = libraries.union(id(row.variant) for row in known.idle) if many else frozenset()
    in_use = {use.kernel for kernel in rec.kernels for one in kernel.autotune for use in one.uses}
    gathered = Gathered(reader, given, titles(rec), in_use, idle, named)
    if idle:
        gathered.left_out.append(
            f"{plural(len(idle), 'variant')} never launched or a library's without a time: no "
            "stages but source and PTX, no hints: ptxview export PATH KERNEL, or '*', has them"
        )
    index = cast(dict[str, Any], visible(_index(gathered, found, removed, given)))
    if left_out is not None:
        left_out += gathered.left_out
    # Before the script stand the blocks that the first variant needs.
    first = 1 + int(index["variants"][0]["block"]) if found else 0
    yield from _document(index, gathered.pieces, first)


def _index(
    gathered: Gathered, found: Sequence[Found], removed: Sequence[str], given: Evidence
) -> dict[str, Any]:
    """What the page shows at once; all else is a block that it names by its number."""
    reader = gathered.reader
    kernels = list({id(k): k for k, _ in found}.values())
    places = {id(k): n for n, k in enumerate(kernels)}
    variants, hints = [], {}

    def ahead(one: Found) -> None:
        """Run the tools of a variant, whose output is cached."""
        with suppress(PtxviewError):
            reader.resources(one[1])
            if id(one[1]) not in gathered.idle:
                reader.text(one[1], Stage.SASS)

    for (n, (kernel, variant)), _ in zip(enumerate(found), side_by_side(ahead, found), strict=True):
        row = gathered.row(kernel, variant, places[id(kernel)])
        variants.append(row | {"block": gathered.variant(kernel, variant)})
        if id(variant) not in gathered.idle:
            hints[id(variant)] = reader.hints(variant)
        if len(found) > KEPT and (n + 1 == len(found) or found[n + 1][1].hash != variant.hash):
            reader.forget([variant])
    firsts = {kernel.id: n for n, (kernel, _) in reversed([*enumerate(found)])}
    graphs = [  # those that have one of the kernels shown, or all where nothing else is
        gathered.graph(graph, firsts)
        for graph in reader.recording.graphs
        if not firsts or not firsts.keys().isdisjoint(graph.kernels)
    ]
    pairs = []
    for a, b in pairs_of(found):
        if gathered.idle.isdisjoint((id(found[a][1]), id(found[b][1]))):
            for stage, value in comparisons(reader, (found[a][1], found[b][1])):
                pairs.append([a, b, stage.value, gathered.add(value)])
    by_cost = costs.costs(reader.recording, replace(given, hints=lambda v: hints.get(id(v))))
    largest = max((row.share or 0.0 for row in by_cost.rows), default=0.0)
    at = {id(variant): n for n, (_, variant) in enumerate(found)}
    return {
        **gathered.heading(),
        "kernels": [gathered.kernel(k) for k in kernels],
        "variants": variants,
        "costs": [
            costs.cells(row, largest) | {"at": at.get(id(row.variant))}
            for row in by_cost.rows
            if row.variant is None or id(row.variant) in at
        ],
        "cost_title": costs.title(by_cost),
        "footnotes": costs.footnotes(by_cost),
        "timeline": _picture(reader.recording, given.window),
        "graphs": graphs,
        "pairs": pairs,
        "removed": removed,
        "left_out": gathered.left_out,
    }


def _picture(rec: Recording, window: GpuWindow | None) -> dict[str, object] | None:
    """The timeline of a step, None where none was recorded."""
    if window is None or not len(window.spans):
        return None
    return timeline.picture(timeline.named(window_streams(window), rec), [timeline.heading(window)])


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
        before, mark, after = head.partition("{{" + name + "}}")
        assert mark, name
        yield before + value
        head = after
    before, _, after = head.partition("{{blocks}}")
    yield before
    blocks = [
        f'<script type="text/plain" id="b{number}">{base64.b64encode(piece).decode()}</script>\n'
        for number, piece in enumerate(pieces)
    ]
    blocks.insert(first, f"<script>{script}</script>\n")
    yield from blocks
    yield after


def _asset(name: str) -> str:
    return files.read(WEB / name).decode("ascii")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(value: object) -> str:
    """Return JSON that cannot end its element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
