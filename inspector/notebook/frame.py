"""What a notebook shows of a recording: HTML that is a page of its own, in a frame."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from inspector.report import tables
from inspector.text import shown

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

HEIGHT = 640
HEAD = ("kernel", "variant", "configuration", "registers", "spills", "shared", "hints", "stages")


def framed(reader: Reader) -> str:
    """The page of a recording in a frame: nothing of it reaches the notebook's own page."""
    page = escape("".join(_page(reader)), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="ptxview" '
        f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )


def _page(reader: Reader) -> list[str]:
    return ["<!doctype html><meta charset=utf-8>", table(reader)]


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
