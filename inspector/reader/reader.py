"""Everything derived from a recording: listings, links, resources, graphs, summaries."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from inspector import __version__
from inspector.analysis.hints.subject import ExecutedFacts
from inspector.analysis.links import composed
from inspector.base.errors import PtxviewError, Unreadable
from inspector.base.model import (
    FX_STAGES,
    GRAPH_STAGES,
    Content,
    Graph,
    Recording,
    Resources,
    Stage,
    Variant,
)
from inspector.parsers import parse
from inspector.parsers.line import Listing
from inspector.reader import tables
from inspector.reader.facts import MACHINE, Measurements, VariantFacts, by_cubin, is_available
from inspector.reader.line_annotations import AnnotationReader
from inspector.reader.listings import decode
from inspector.recording.layout import DerivedCache, content_digest
from inspector.system import files
from inspector.system.process import side_by_side

if TYPE_CHECKING:
    from inspector.analysis.graph_text import GraphRow, Known
    from inspector.analysis.graph_view import GraphView

COUNTING_SECONDS = 2.0  # time that a list gives to hints that nobody has asked for yet
MAX_COUNTED_VARIANTS = 1000
"""Larger lists count no hints: even looking into the cache reads every stage."""
MAX_COUNTED_LINES = 100_000
"""Lines of PTX of a variant whose hints a list counts: about two seconds of analysis."""
MAX_COUNTED_CUBIN_BYTES = 2 << 20
"""Bytes of a cubin whose hints a list counts: nvdisasm takes a second or two for each MB."""

Key = tuple[str, str]  # A variant's hash and its symbol


class VariantSummary(Struct, frozen=True):
    """Figures of a variant; None is unknown.

    ``instructions`` are SASS's, ``live`` is the peak of live general registers in SASS,
    ``rules`` are those of its hints, ``occupancy`` the theoretical one in percent. ``lacking`` says
    why figures are unknown.
    """

    resources: Resources = field(default_factory=Resources)
    instructions: int | None = None
    ptx_instructions: int | None = None
    live: int | None = None
    rules: tuple[str, ...] | None = None
    occupancy: float | None = None
    lacking: str | None = None

    @property
    def hints(self) -> int | None:
        return None if self.rules is None else len(self.rules)


class Summaries:
    """Reads summaries of a reader's variants. Safe to use from several threads."""

    def __init__(self, reader: VariantFacts) -> None:
        self._reader = reader
        self._summaries: dict[Key, VariantSummary] = {}

    def summary_of(self, variant: Variant) -> VariantSummary | None:
        return self._summaries.get((variant.hash, variant.symbol))

    def adopt(self, variant: Variant, summary: VariantSummary) -> None:
        """Take over a summary that was read while the recording held less."""
        self._summaries.setdefault((variant.hash, variant.symbol), summary)

    def forget(self, variant: Variant) -> None:
        self._summaries.pop((variant.hash, variant.symbol), None)

    def read_now(self, variant: Variant) -> VariantSummary:
        """Return the summary of one variant, read where it is not known."""
        key = (variant.hash, variant.symbol)
        if not self._cached(key, variant):
            self._read_cubin([variant])
        return self._summaries[key]

    def read(
        self, variants: Sequence[Variant], should_continue: Callable[[], bool] = lambda: True
    ) -> Iterator[tuple[int, int]]:
        """Read summaries until ``should_continue`` says no; yields (known, all)."""
        variants_by_key = {(v.hash, v.symbol): v for v in variants}
        missing = [
            variant for key, variant in variants_by_key.items() if not self._cached(key, variant)
        ]
        yield len(variants_by_key) - len(missing), len(variants_by_key)
        for _ in side_by_side(self._read_cubin, by_cubin(missing)):
            yield sum(key in self._summaries for key in variants_by_key), len(variants_by_key)
            if not should_continue():
                return

    def count_hints(self, variants: Sequence[Variant], seconds: float = COUNTING_SECONDS) -> int:
        """Count hints: cached ones, then of small code for ``seconds``; how many are left."""
        variants = [v for v in variants if not v.uncompiled]
        if len(variants) > MAX_COUNTED_VARIANTS:
            return len(variants)
        uncounted = [v for v in variants if not self._cached((v.hash, v.symbol), v)]
        small = [cubin for cubin in by_cubin(uncounted) if _is_small(cubin[0])]
        until = time.monotonic() + seconds

        def count(cubin: list[Variant]) -> None:
            if time.monotonic() < until:
                self._read_cubin(cubin, until)

        list(side_by_side(count, small))
        summaries = (self.summary_of(variant) for variant in chain.from_iterable(small))
        return sum(summary is None or summary.hints is None for summary in summaries)

    def _cached(self, key: Key, variant: Variant) -> bool:
        """Whether a summary is known, by now or from the cache."""
        if key not in self._summaries:
            with suppress(msgspec.DecodeError, ValueError):
                data = self._reader.cache.get(self._key(variant)) or b""
                self._summaries[key] = msgspec.json.decode(data, type=VariantSummary)
        return key in self._summaries

    def _read_cubin(self, variants: Sequence[Variant], until: float = math.inf) -> None:
        """Read the kernels of one cubin, the first of them whatever the time; nothing else is kept
        of them, there may be thousands."""
        for index, variant in enumerate(variants):
            if index and time.monotonic() >= until:
                break
            try:
                summary = self._summary(variant)
            except Exception as error:  # a fault in one variant is no reason to read no other
                reason = f"This could not be read: {type(error).__name__}: {error}"
                summary = VariantSummary(variant.recorded_resources, lacking=reason)
            self._summaries[variant.hash, variant.symbol] = summary
            if summary.lacking is None:
                self._reader.cache.store(self._key(variant), msgspec.json.encode(summary))
        self._reader.forget(variants)

    def _summary(self, variant: Variant) -> VariantSummary:
        reader = self._reader
        resources = reader.resources(variant)
        try:
            sass, ptx = (
                reader.available_analysis(variant, stage) for stage in (Stage.SASS, Stage.PTX)
            )
            rules = tuple(hint.rule for hint in reader.hints(variant))
            lacking = " ".join(reader.lacking(variant)) or None
            instructions, ptx_instructions = (
                None if code is None else sum(map(len, code.code.without_padding().values()))
                for code in (sass, ptx)
            )
        except PtxviewError as error:
            return VariantSummary(resources, lacking=error.message)
        live, _ = ({} if sass is None else sass.live.peak).get("gpr", (None, 0))
        return VariantSummary(
            resources,
            instructions,
            ptx_instructions,
            live,
            rules if lacking is None else None,
            reader.occupancy(variant),
            lacking,
        )

    def _key(self, variant: Variant) -> str:
        """The digest of all that a summary depends on: stages, launches, device, rules, version."""
        reader = self._reader
        inputs = (
            sorted(tables.table("hints").items()),
            variant.symbol,
            variant.calls,
            dict(variant.config),
            dict(variant.signature),
            reader.device(variant),
            reader.kernel(variant).fusion,
            reader.execution_counts(variant),
        )
        # Names are a stranger's: not every one of them can be encoded.
        parts: list[bytes | str] = ["rules", __version__, ascii(inputs)]
        for stage in sorted(variant.stages, key=lambda s: s.rank):
            parts += [stage.value, self._digest(variant, stage)]
        return reader.cache.key(*parts)

    def _digest(self, variant: Variant, stage: Stage) -> str:
        """The digest of a stage's content, read once for all kernels of a cubin; "" without one."""

        content = variant.stages[stage].content

        def read() -> str:
            with suppress(PtxviewError):
                return content_digest(content) if is_available(variant, stage) else ""
            return ""

        return self._reader.memo.memoize(("digest", variant.hash, id(content)), read)


def _text(variant: Variant, stage: Stage) -> bytes:
    """The content of a stage; empty without one that can be read."""
    with suppress(PtxviewError):
        return variant.stages[stage].content.read() if is_available(variant, stage) else b""
    return b""


def _is_small(variant: Variant) -> bool:
    """Whether a list may wait for the hints of a variant's cubin."""
    if len(_text(variant, Stage.SASS)) > MAX_COUNTED_CUBIN_BYTES:
        return False
    return _text(variant, Stage.PTX).count(b"\n") <= MAX_COUNTED_LINES


class GraphReader(AnnotationReader):
    """Adds graphs, each thing when it is first asked for."""

    def graph_stages(self, graph: Graph) -> tuple[Stage, ...]:
        """What there is of a graph, in the order of lowering."""
        operations = (Stage.OPERATIONS,) if Stage.OUTPUT_CODE in graph.stages else ()
        return tuple(sorted((*graph.stages, *operations), key=lambda stage: stage.rank))

    def graph_text(self, graph: Graph, stage: Stage) -> str:
        """The text of a stage. Raises ``PtxviewError`` where it cannot be had."""
        if stage is Stage.OPERATIONS:
            return "\n".join(row.text for row in self._rows(graph))
        if (file := graph.stages.get(stage)) is None:
            reason = "it was not recorded" if graph.error is None else graph.error.summary
            raise Unreadable(f"there is no {stage.value} of graph {graph.id}: {reason}")
        return decode(file.content.read())

    def graph_listing(self, graph: Graph, stage: Stage = Stage.OUTPUT_CODE) -> Listing:
        """The lines of a stage. Raises ``PtxviewError`` where it cannot be had."""
        file = graph.stages.get(stage)
        path = None if file is None else file.origin_path
        return self.memo.memoize(
            ("graph listing", id(graph), stage),
            lambda: parse(stage, self.graph_text(graph, stage), path=path),
        )

    def graph_view(self, graph: Graph) -> GraphView:
        """The graph's calls with what each computes. Raises ``PtxviewError``."""
        return self.memo.memoize(("graph view", id(graph)), lambda: self._view(graph))

    def _rows(self, graph: Graph) -> list[GraphRow]:
        from inspector.analysis.graph_text import graph_rows

        return graph_rows(graph.id, self.graph_view(graph))

    def _view(self, graph: Graph) -> GraphView:
        from inspector.analysis import graph_view as views  # its modules delay the first row
        from inspector.parsers.output_code import parse_wrapper

        text = self.graph_text(graph, Stage.OUTPUT_CODE)
        backward = Stage.BACKWARD in graph.stages
        lines = self.graph_listing(graph, Stage.BACKWARD).lines if backward else ()
        view = views.graph_view(
            parse_wrapper(text),
            _json(graph.nodes),
            _json(graph.dynamo),
            {n: name for name, lines in graph.calls.items() for n in lines},
            self._tensor_bytes(graph),
            {name for line in lines for name in line.defs},
        )
        choices = (
            views.GraphChoice(
                kernel.id,
                use.node,
                f"{kernel.name}: {views.choice_text(tuning, use)}; {views.candidates(tuning)}",
            )
            for kernel in self.recording.kernels
            for tuning in kernel.autotune
            for use in tuning.uses
            if use.graph == graph.id
        )
        return views.with_choices(view, choices, graph.tried)

    def _tensor_bytes(self, graph: Graph) -> dict[str, int]:
        """Bytes of the tensors of each kernel that was always launched with the same."""
        from inspector.analysis.card import tensor_bytes

        out: dict[str, int] = {}
        for kernel in self.recording.kernels:
            if kernel.id in graph.calls:
                calls = [call for variant in kernel.variants for call in variant.calls]
                sizes = {None if (e := tensor_bytes(call)) is None else e.value for call in calls}
                if len(sizes) == 1 and (size := sizes.pop()) is not None:
                    out[kernel.id] = size
        return out

    def graph_links(self, graph: Graph, a: Stage, b: Stage) -> Mapping[int, tuple[int, ...]]:
        """Lines of stage ``a`` to those of stage ``b`` that they belong to; both directions hold
        the same pairs. Raises ``PtxviewError`` where a stage cannot be had."""
        if a is b or Stage.OUTPUT_CODE not in graph.stages:
            return {}

        from inspector.analysis.graph_text import linked

        return self.memo.memoize(
            ("graph links", id(graph), a, b),
            lambda: linked(self._line_map(graph, a), self._line_map(graph, b)),
        )

    def _line_map(self, graph: Graph, stage: Stage) -> Known:
        """What each line of a stage is of."""
        from inspector.analysis import graph_text as texts
        from inspector.parsers.output_code import parse_code

        view = self.graph_view(graph)
        if stage is Stage.OPERATIONS:
            rows = enumerate(self._rows(graph), 1)
            return texts.of_calls({n: row.calls for n, row in rows if row.calls}, view)
        if stage is Stage.SOURCE:
            return texts.of_source(graph.stages[stage].origin_path or "", view)
        text = self.graph_text(graph, stage)
        if stage is Stage.OUTPUT_CODE:
            parsed = parse_code(text)
            spans = {k.line: (k.line, k.last) for k in parsed.kernels if k.line and k.last}
            return texts.of_output_code(graph.calls, spans, view)
        if stage in FX_STAGES:
            return texts.of_fx(text.split("\n"), view, stage is Stage.DYNAMO)
        return texts.of_ir(text.split("\n"), view)


def _json(content: Content | None) -> object:
    """What was recorded, None where nothing was or it cannot be read."""
    if content is None:
        return None
    try:
        return files.parsed(content.read(), label="a graph")
    except (PtxviewError, ValueError):
        return None


class Reader(GraphReader):
    """All that can be read of a recording; each result is computed once and kept.

    Safe to use from several threads. Any method may take a while, and may raise ``PtxviewError``.

    Args:
        recording: What to read.
        cache: The user's cache of the output of tools.
        device: The architecture (``sm_80``) for occupancy and hints; None is the recording's own.
            Raises ``UsageError`` for an unknown one.
        measured: Returns a profiler's measurements of a variant, or None.
    """

    def __init__(
        self,
        recording: Recording,
        cache: DerivedCache,
        device: str | None = None,
        measured: Measurements = lambda _: None,
    ) -> None:
        super().__init__(recording, cache, device, measured)
        self.summaries = Summaries(self)  # figures of many variants, for tables

    def links_of(
        self, variant: Variant | None, graph: Graph | None, a: Stage, b: Stage
    ) -> Mapping[int, tuple[int, ...]]:
        """Links as of ``links``, of a variant in its graph, either of which may be missing.

        A stage of the graph is linked with one of the variant through ``output_code``.
        """
        if (graph is None or not {a, b}.intersection(GRAPH_STAGES)) and variant is not None:
            return self.links(variant, a, b)
        if graph is None:
            return {}
        through = Stage.OUTPUT_CODE
        variant_stages = {a, b}.difference(self.graph_stages(graph))
        variant_source, graph_source = (
            owner and owner.stages.get(Stage.SOURCE) for owner in (variant, graph)
        )
        if (
            variant_source
            and graph_source
            and variant_source.origin_path != graph_source.origin_path
            and Stage.SOURCE in (a, b)
        ):
            variant_stages.add(Stage.SOURCE)  # another file than the graph's
        links = self.graph_links
        if not variant_stages:
            return links(graph, a, b)
        if variant is None or len(variant_stages) == 2:
            return {}
        if a in variant_stages:
            return composed(self.links(variant, a, through), links(graph, through, b))
        return composed(links(graph, a, through), self.links(variant, through, b))

    def sources(self, variant: Variant) -> Mapping[str, Variant]:
        """A generated kernel with each recorded file of the lines that it was made from as its
        source, by path; its own is the first."""

        def make() -> Mapping[str, Variant]:
            source_file = variant.stages.get(Stage.SOURCE)
            if source_file is None or source_file.origin_path is None or variant.fusion is None:
                return {}
            files = self.recording.user_files
            out = {source_file.origin_path: variant}
            for path in (part.file for part in variant.fusion.made_from if part.file in files):
                source = replace(source_file, content=files[path], origin_path=path)
                file_variant = replace(variant, stages={**variant.stages, Stage.SOURCE: source})
                out.setdefault(path, file_variant)
            return out

        return self.memo.memoize(("sources", variant.hash, variant.symbol, id(variant)), make)

    def lines_at(
        self, variant: Variant | None, graph: Graph | None, a: Stage, n: int, b: Stage
    ) -> tuple[str, tuple[int, ...]]:
        """The lines of stage ``b`` that line ``n`` of stage ``a`` belongs to, and where ``b`` is
        the source its file. From a line of the source, those that are of no other come first; to
        it, the first of ``sources`` that has such lines."""
        variants_by_path = (
            {} if variant is None or Stage.SOURCE not in (a, b) else self.sources(variant)
        )
        if a is Stage.SOURCE:
            reverse_links = [
                self.links_of(file_variant, graph, b, a)
                for file_variant in variants_by_path.values()
            ]
            lines = self.links_of(variant, graph, a, b).get(n, ())
            return "", tuple(
                sorted(
                    lines,
                    key=lambda line_number: sum(len(k.get(line_number, ())) for k in reverse_links),
                )
            )
        for path, file_variant in variants_by_path.items() or [("", variant)]:
            if lines := self.links_of(file_variant, graph, a, b).get(n, ()):
                return path, lines
        return "", ()

    def kernel_at(self, graph: Graph, stage: Stage, n: int) -> str | None:
        """The kernel that a line of a graph's stage became, by its id."""
        rows, calls = self._rows(graph), self.graph_view(graph).calls
        links = self.graph_links(graph, stage, Stage.OPERATIONS)
        line_numbers = (n,) if stage is Stage.OPERATIONS else links.get(n, ())
        numbers = (number for line_number in line_numbers for number in rows[line_number - 1].calls)
        return next(filter(None, (calls[number - 1].kernel for number in numbers)), None)

    def store_execution_counts(self, variant: Variant, facts: ExecutedFacts) -> None:
        """Keep the counts of a call whose blocks were run: hints use them from now on."""
        super().store_execution_counts(variant, facts)
        self.summaries.forget(variant)

    def opcodes(self, variant: Variant) -> tuple[str, ...] | None:
        """Return the opcodes of PTX and SASS at hand, from the cache; None if one is unreadable."""
        stages = [stage for stage in MACHINE if is_available(variant, stage)]
        texts = [_text(variant, stage) for stage in stages]
        key = self.cache.key("opcodes", __version__, ascii(variant.symbol), *texts)
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(self.cache.get(key) or b"", type=tuple[str, ...])
        opcodes: dict[str, None] = {}
        with suppress(PtxviewError):
            for stage in stages:
                lines, function = self.listing(variant, stage).lines, self.function(variant, stage)
                kernel_lines = (
                    lines if function is None else lines[function.first - 1 : function.last]
                )
                opcodes |= {line.opcode: None for line in kernel_lines if line.opcode}
            self.cache.store(key, msgspec.json.encode(tuple(opcodes)))
            return tuple(opcodes)
        return None

    def hint_count(self, variant: Variant) -> int | None:
        summary = self.summaries.summary_of(variant)
        return None if summary is None else summary.hints
