"""One page that holds a recording: no file beside it, nothing from a network.

The page has the list of kernels as it is, and everything else compressed, a piece a text and a
piece a variant; its script unpacks what is looked at. Nothing in a recording becomes
markup: all of it is JSON in elements that are not run, and the script makes text of it. The page's
own policy allows its one script and its one sheet by their digests, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from inspector import __version__
from inspector.base.text import shown
from inspector.export import pairs
from inspector.export.gathering import Found, Gathered
from inspector.measure.time.stored import StoredTimes
from inspector.measure.time.stored import times as stored
from inspector.reader.reader import Reader
from inspector.system import files

WEB = Path(__file__).parent / "web"
SCRIPTS = ("rows", "kernel", "compare", "page")
"""The parts of the page's script, each using those before it."""
KEPT = 64
"""Variants up to which all that was read of them is kept until they have been compared."""


def page(
    reader: Reader,
    chosen: Sequence[Found] | None = None,
    *,
    times: StoredTimes | None = None,
    removed: Sequence[str] = (),
    compilers: bool = False,
    left_out: list[str] | None = None,
) -> Iterator[str]:
    """The page of a recording, or of some variants of it, in pieces of HTML that are ASCII.

    ``times`` are those that were measured, None for what is stored with the recording. ``removed``
    says what was taken out of the recording before, which the page tells its readers.
    ``compilers``: whether a stage that was not kept may be compiled. ``left_out`` is given a
    sentence for each text that was too large. Raises ``PtxviewError`` where nothing can be read.
    """
    known = stored(reader.recording.path) if times is None else times
    gathered = Gathered(reader, known, compilers)
    found = list(reader.recording.variants() if chosen is None else chosen)
    index = _index(gathered, found, [*map(shown, removed)])
    if left_out is not None:
        left_out += gathered.left_out
    # Before the script stand the blocks that the first variant needs.
    first = 1 + int(index["variants"][0]["block"]) if found else 0
    yield from _document(index, gathered.pieces, first)


def _index(gathered: Gathered, found: Sequence[Found], removed: list[str]) -> dict[str, Any]:
    """What the page shows at once; all else is a block that it names by its number."""
    reader = gathered.reader
    kernels = list({id(k): k for k, _ in found}.values())
    places = {id(k): n for n, k in enumerate(kernels)}
    variants = []
    for n, (kernel, variant) in enumerate(found):
        row = gathered.row(kernel, variant, places[id(kernel)])
        variants.append(row | {"block": gathered.variant(kernel, variant)})
        if len(found) > KEPT and (n + 1 == len(found) or found[n + 1][1].hash != variant.hash):
            reader.forget([variant])
    firsts: dict[str, int] = {}
    for n, (kernel, _) in enumerate(found):
        firsts.setdefault(kernel.id, n)
    graphs = [  # those that have one of the kernels shown, or all where nothing else is
        gathered.graph(graph, firsts)
        for graph in reader.recording.graphs
        if not firsts or not firsts.keys().isdisjoint(graph.kernels)
    ]
    rows = []
    for a, b in pairs.chosen(found):
        for stage, value in pairs.compared(reader, (found[a][1], found[b][1])):
            rows.append([a, b, stage.value, gathered.add(value)])
    return {
        **gathered.heading(),
        "kernels": [gathered.kernel(k) for k in kernels],
        "variants": variants,
        "graphs": graphs,
        "pairs": rows,
        "removed": removed,
        "left_out": gathered.left_out,
    }


# -- the document ---------------------------------------------------------------------------------


def _document(index: dict[str, Any], pieces: Sequence[bytes], first: int) -> Iterator[str]:
    script, style = _script(), _asset("page.css")
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
    for number, piece in enumerate(pieces[:first]):
        yield _block(number, piece)
    yield f"<script>{script}</script>\n"
    for number, piece in enumerate(pieces[first:], first):
        yield _block(number, piece)
    yield after


def _script() -> str:
    """The parts of the script as one, of which nothing is seen from outside."""
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f"'use strict';\n(() => {{\n{parts}}})();\n"


def _asset(name: str) -> str:
    return files.read(WEB / name).decode("ascii")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _block(number: int, piece: bytes) -> str:
    data = base64.b64encode(piece).decode("ascii")
    return f'<script type="text/plain" id="b{number}">{data}</script>\n'


def embedded(value: object) -> str:
    """Return JSON that cannot end its element nor begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
