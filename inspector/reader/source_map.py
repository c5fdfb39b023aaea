"""Maps lines of all stages to lines of the source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from inspector.analyse.source_groups import SourceGroups, by_links, by_places, of_source, places
from inspector.errors import PtxviewError, Unreadable
from inspector.model import Stage, Variant
from inspector.reader.listings import Listings

LOW = (Stage.PTX, Stage.LLIR, Stage.TTGIR, Stage.TTIR, Stage.SASS)
"""Stages whose links say which lines of the source became code, the best first."""


def groups(listings: Listings, variant: Variant, stage: Stage) -> SourceGroups:
    """Group the lines of a stage by their source line. Raises ``PtxviewError`` without sources."""
    root = next((s for s in (Stage.SOURCE, Stage.OUTPUT_CODE) if s in variant.stages), None)
    order: Sequence[int] = () if root is None else _compiled_lines(listings, variant, root)
    if root is None or not order:
        return _by_places(listings, variant, stage)
    lines = len(listings.listing(variant, stage).lines)
    if stage is root:
        return SourceGroups(of_source(lines, order), order)
    return SourceGroups(by_links(lines, listings.links(variant, stage, root)), order)


def _compiled_lines(listings: Listings, variant: Variant, root: Stage) -> Sequence[int]:
    """The lines of the source that became code."""
    for stage in LOW:
        if stage in variant.stages:
            with suppress(PtxviewError):
                if links := listings.links(variant, root, stage):
                    return tuple(sorted(links))
    return ()


def _by_places(listings: Listings, variant: Variant, stage: Stage) -> SourceGroups:
    for low in LOW:
        if low in variant.stages:
            with suppress(PtxviewError):
                if order := places(listings.listing(variant, low)):
                    found = by_places(listings.listing(variant, stage), order)
                    return SourceGroups(found, range(1, len(order) + 1))
    raise Unreadable("no line of this kernel says which source it comes from")
