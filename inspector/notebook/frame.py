"""Recordings in a notebook: an HTML page in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from inspector.export.page import page
from inspector.report import tables
from inspector.text import shown

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

HEIGHT = 760
MOST, MOST_VARIANTS = 8_000_000, 200
"""Characters of a page, and variants of which one is made: a notebook keeps what it shows."""

STYLE = (
    ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif}"
    "td,th{text-align:left;padding:0 1em 0 0}td:first-child{overflow-wrap:anywhere}"
)
HEAD = ("kernel", "variant", "configuration", "registers", "spills", "shared", "hints", "stages")


def framed(reader: Reader) -> str:
    """The page of a recording in a frame: nothing of it reaches the notebook's own page."""
    whole = _whole(reader)
    text = "".join(_table_alone(reader)) if whole is None else whole
    return (
        f'<iframe srcdoc="{escape(text, quote=True)}" sandbox="allow-scripts" title="ptxview" '
        f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )


def _whole(reader: Reader) -> str | None:
    """The page that ``ptxview export`` writes; None where there is nothing or too much to show."""
    found = list(reader.recording.variants())
    if not 0 < len(found) <= MOST_VARIANTS:
        return None
    pieces, length = [], 0
    for piece in page(reader, found):
        pieces.append(piece)
        length += len(piece)
        if length > MOST:
            return None
    return "".join(pieces)


def _table_alone(reader: Reader) -> Iterator[str]:
    """A page with the table and no stages."""
    yield f"<!doctype html><meta charset=utf-8><title>ptxview</title><style>{STYLE}</style>"
    yield f"<p>{escape(shown(tables.heading(reader.recording)))}</p>{table(reader)}"
    if reader.recording.kernels:
        yield "<p>The stages of so many are more than a notebook should keep: "
        yield "<code>ptxview open</code> shows them, <code>ptxview export</code> writes a page.</p>"


def table(reader: Reader) -> str:
    """The table of kernels as HTML; all text in it is escaped."""
    rows = []
    for kernel, variant in reader.recording.variants():
        resources = reader.resources(variant)
        spills = (resources.spill_store_bytes, resources.spill_load_bytes)
        cells = (
            kernel.demangled,
            variant.id,
            tables.config(variant),
            tables.figure(resources.registers),
            tables.figure(None if None in spills else sum(n for n in spills if n is not None)),
            tables.shared(resources),
            tables.figure(reader.hint_count(variant)),
            " ".join(stage.value for stage in variant.stages),
        )
        rows.append("".join(f"<td>{escape(shown(str(cell)))}</td>" for cell in cells))
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
