"""What a notebook shows of a recording: HTML that is a page of its own, in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from inspector.errors import PtxviewError
from inspector.report import tables
from inspector.text import shown

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

HEIGHT = 640
MOST = 2_000_000
"""Characters of all stages together: a notebook keeps what it shows."""

STYLE = (
    ":root{color-scheme:light dark}body{font:14px system-ui,sans-serif}pre{overflow-x:auto}"
    "td,th{text-align:left;padding:0 1em 0 0}td:first-child{overflow-wrap:anywhere}"
    "summary{cursor:pointer}h2{font-size:1em}"
)
HEAD = ("kernel", "variant", "configuration", "registers", "spills", "shared", "hints", "stages")


def framed(reader: Reader) -> str:
    """The page of a recording in a frame: nothing of it reaches the notebook's own page."""
    page = escape("".join(_page(reader)), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" title="ptxview" '
        f'style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )


def _page(reader: Reader) -> Iterator[str]:
    """A page that stands alone: the table, and beneath it the stages of each variant."""
    yield f"<!doctype html><meta charset=utf-8><title>ptxview</title><style>{STYLE}</style>"
    yield f"<p>{escape(shown(tables.heading(reader.recording)))}</p>{table(reader)}"
    left = MOST
    for kernel, variant in reader.recording.variants():
        yield f"<h2>{escape(shown(kernel.demangled))} <small>{escape(variant.id)}</small></h2>"
        for stage, file in variant.stages.items():
            if file.costly:
                continue
            try:
                text = reader.text(variant, stage).text
            except PtxviewError as error:
                yield f"<p>{stage.value}: {escape(shown(error.message))}</p>"
                continue
            left -= len(text)
            if left < 0:
                yield "<p>Of the rest nothing is shown: ptxview open has it all.</p>"
                return
            body = escape("\n".join(map(shown, text.split("\n"))))
            yield f"<details><summary>{stage.value}</summary><pre>{body}</pre></details>"


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
