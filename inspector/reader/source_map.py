"""The map of a kernel: which line of its source each line of each stage comes from."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.analyse.source_groups import SourceGroups, by_links, by_places, of_source, places
from inspector.errors import PtxviewError, Unreadable
from inspector.model import Stage, Variant
from inspector.reader.listings import Listings

LOW = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR, Stage.SASS)
"""Stages by whose links the lines of the source are known that code was made of, the best first."""


class SourceMap:
    """Groups the lines of stages. Safe to use from several threads."""

    def __init__(self, listings: Listings) -> None:
        self._listings = listings

    def groups(self, variant: Variant, stage: Stage) -> SourceGroups:
        """The groups of a stage's lines. Raises ``PtxviewError`` where nothing tells them."""
        root = next((s for s in (Stage.SOURCE, Stage.OUTPUT_CODE) if s in variant.stages), None)
        order = self._coded(variant, root) if root is not None else ()
        lines = len(self._listings.listing(variant, stage).lines)
        if root is None or not order:
            return self._by_places(variant, stage)
        if stage is root:
            return SourceGroups(of_source(lines, order), order)
        return SourceGroups(by_links(lines, self._listings.links(variant, stage, root)), order)

    def _coded(self, variant: Variant, root: Stage) -> Sequence[int]:
        """The lines of the source that code was made of."""
        for stage in LOW:
            if stage in variant.stages:
                try:
                    links = self._listings.links(variant, root, stage)
                except PtxviewError:
                    continue
                if links:
                    return tuple(sorted(links))
        return ()

    def _by_places(self, variant: Variant, stage: Stage) -> SourceGroups:
        for low in LOW:
            if low in variant.stages:
                try:
                    order = places(self._listings.listing(variant, low))
                except PtxviewError:
                    continue
                if order:
                    groups = by_places(self._listings.listing(variant, stage), order)
                    return SourceGroups(groups, range(1, len(order) + 1))
        raise Unreadable("no line of this kernel says which source it comes from")
