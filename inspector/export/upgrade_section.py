"""The section of a page with the report of ``upgrade`` that is kept with its recording."""

from collections.abc import Sequence
from pathlib import Path

from inspector.base.model import Recording
from inspector.export.comparisons import KernelVariant
from inspector.recording.layout import UPGRADES, stored_records
from inspector.render.upgrade import edit_text, tuning_text
from inspector.render.upgrade_report import (
    EDIT_HEADS,
    HEADS,
    changed_columns,
    headings,
    left_out,
    newest,
    refusals,
    upgraded,
)


def upgrade_section(
    rec: Recording, kernel_variants: Sequence[KernelVariant]
) -> dict[str, object] | None:
    """The report as texts, each changed variant with its place among those of the page."""
    kept = newest(stored_records(Path(rec.resolved_path or rec.path), UPGRADES))
    if kept is None:
        return None
    rows = upgraded(kept, rec)
    columns = changed_columns(rows)
    places = {id(variant): n for n, (_, variant) in enumerate(kernel_variants)}
    return {
        "headings": headings(kept.report),
        "edit_heads": EDIT_HEADS,
        "edits": [(edit_text(e), e.variants, e.instructions) for e in kept.report.edits],
        "heads": [HEADS[column] for column in columns],
        "rows": [{"at": places.get(id(row.variant)), "cells": row.cells(columns)} for row in rows],
        "failed": list(refusals(kept.report)),
        "sentences": [*map(tuning_text, kept.report.tunings), *left_out(kept.report)],
    }
