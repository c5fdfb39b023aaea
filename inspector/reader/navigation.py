"""Ways from a line to the lines of other stages, of a variant and of its graph."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from inspector.analysis.links import composed
from inspector.base.model import (
    GRAPH_STAGES,
    Graph,
    Recording,
    Stage,
    Variant,
)
from inspector.reader.graphs import GraphReader
from inspector.reader.memo import Memo, RecordingIndex
from inspector.reader.stages import StageReader


class Navigation:
    """Links across a variant and the graph that it is in, and the source files of a variant."""

    def __init__(
        self,
        recording: Recording,
        index: RecordingIndex,
        stages: StageReader,
        graphs: GraphReader,
        memo: Memo,
    ) -> None:
        self._recording = recording
        self._index = index
        self._stages = stages
        self._graphs = graphs
        self._memo = memo

    def links(
        self, variant: Variant | None, graph: Graph | None, a: Stage, b: Stage
    ) -> Mapping[int, tuple[int, ...]]:
        """Links between stages of a variant and of its graph, either of which may be missing.

        A stage of the graph is linked with one of the variant through ``output_code``.
        """
        if (graph is None or not {a, b}.intersection(GRAPH_STAGES)) and variant is not None:
            return self._stages.links(variant, a, b)
        if graph is None:
            return {}
        through = Stage.OUTPUT_CODE
        variant_stages = {a, b}.difference(self._graphs.stages(graph))
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
        links = self._graphs.links
        if not variant_stages:
            return links(graph, a, b)
        if variant is None or len(variant_stages) == 2:
            return {}
        if a in variant_stages:
            return composed(self._stages.links(variant, a, through), links(graph, through, b))
        return composed(links(graph, a, through), self._stages.links(variant, through, b))

    def sources(self, variant: Variant) -> Mapping[str, Variant]:
        """A generated kernel with each recorded file of the lines that it was made from as its
        source, by path; its own is the first."""

        def make() -> Mapping[str, Variant]:
            source_file = variant.stages.get(Stage.SOURCE)
            if source_file is None or source_file.origin_path is None or variant.fusion is None:
                return {}
            files = self._recording.user_files
            out = {source_file.origin_path: variant}
            for path in (part.file for part in variant.fusion.made_from if part.file in files):
                source = replace(source_file, content=files[path], origin_path=path)
                file_variant = replace(variant, stages={**variant.stages, Stage.SOURCE: source})
                out.setdefault(path, file_variant)
            return out

        key = ("sources", self._index.key(variant), variant.stages.get(Stage.SOURCE))
        return self._memo.memoize(key, make)

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
                self.links(file_variant, graph, b, a) for file_variant in variants_by_path.values()
            ]
            lines = self.links(variant, graph, a, b).get(n, ())
            return "", tuple(
                sorted(
                    lines,
                    key=lambda line_number: sum(len(k.get(line_number, ())) for k in reverse_links),
                )
            )
        for path, file_variant in variants_by_path.items() or [("", variant)]:
            if lines := self.links(file_variant, graph, a, b).get(n, ()):
                return path, lines
        return "", ()
