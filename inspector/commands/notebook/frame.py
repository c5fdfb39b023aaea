"""Recordings in a notebook: an HTML page in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from inspector.base.text import shown
from inspector.export.page import page
from inspector.report import tables

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

HEIGHT_PIXELS = 760
MAX_CHARS, MAX_VARIANTS = 8_000_000, 200
"""Bounds of a whole page: a notebook keeps what it shows."""
TABLE_COLUMNS = 160

STYLE = ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif}"


def framed(reader: Reader) -> str:
    """The page of a recording in a frame, isolated from the notebook's own page."""
    whole = _whole(reader)
    text = "".join(_table_alone(reader)) if whole is None else whole
    return (
        f'<iframe srcdoc="{escape(text, quote=True)}" sandbox="allow-scripts" title="ptxview" '
        f'style="width:100%;height:{HEIGHT_PIXELS}px;border:0"></iframe>'
    )


def _whole(reader: Reader) -> str | None:
    """The page that ``ptxview export`` writes; None if it would be empty or too large."""
    found = list(reader.recording.variants())
    if not 0 < len(found) <= MAX_VARIANTS:
        return None
    pieces, length = [], 0
    for piece in page(reader, found):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_CHARS:
            return None
    return "".join(pieces)


def _table_alone(reader: Reader) -> Iterator[str]:
    """A page with the table of ``ptxview list`` and no stages."""
    recording = reader.recording
    yield f"<!doctype html><meta charset=utf-8><title>ptxview</title><style>{STYLE}</style>"
    yield f"<p>{escape(shown(tables.heading(recording)))}</p>"
    if recording.kernels:
        table = tables.kernels(
            recording,
            reader.resources,
            TABLE_COLUMNS,
            hints=lambda kernel, variant: tables.figure(reader.hint_count(variant)),
        )
        rows = (shown(str(row)) for row in table.renderables)
        yield f"<pre>{escape(chr(10).join(rows))}</pre>"
        yield "<p>A notebook would grow too large with the stages of all these kernels: "
        yield "<code>ptxview open</code> shows them, <code>ptxview export</code> writes a page.</p>"
