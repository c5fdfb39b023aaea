"""Parsers, one for each language, from text to classified lines. Nothing is lost.

``parse(stage, text)`` gives a ``Listing``; ``"\\n".join(line.text for line in listing.lines)`` is
``text`` again for any text. No parser raises, reads a file or starts a process; each takes
time linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from inspector.base.model import FX_STAGES, GRAPH_STAGES, Stage
from inspector.listing.line import Control, Function, Kind, Line, Listing
from inspector.listing.llvm import parse_llvm
from inspector.listing.mlir import parse_mlir
from inspector.listing.output_code import parse_fx, parse_plain
from inspector.listing.ptx import parse_ptx
from inspector.listing.sass import parse_sass
from inspector.listing.source_code import is_cuda, parse_cuda, parse_python

__all__ = [
    "PARSERS",
    "Control",
    "Function",
    "Kind",
    "Line",
    "Listing",
    "parse",
]

Parser = Callable[[str, str | None, str | None], Listing]
"""Takes the text, ``nvdisasm``'s annotated text (SASS), and the file's path (sources)."""


def _source(text: str, annotated: str | None, path: str | None) -> Listing:
    return parse_cuda(text, path) if is_cuda(path) else parse_python(text, path)


def _fx(stage: Stage) -> Parser:
    return lambda text, annotated, path: parse_fx(text, stage.value)


def _plain(stage: Stage) -> Parser:
    return lambda text, annotated, path: parse_plain(text, stage.value)


PARSERS: Mapping[Stage, Parser] = MappingProxyType(
    {
        **{stage: _fx(stage) for stage in FX_STAGES},
        **{s: _plain(s) for s in GRAPH_STAGES if s not in FX_STAGES},
        Stage.SOURCE: _source,
        Stage.OUTPUT_CODE: lambda text, annotated, path: parse_python(text, path, "output_code"),
        Stage.TTIR: lambda text, annotated, path: parse_mlir(text, "ttir"),
        Stage.TTGIR: lambda text, annotated, path: parse_mlir(text, "ttgir"),
        Stage.LLIR: lambda text, annotated, path: parse_llvm(text),
        Stage.PTX: lambda text, annotated, path: parse_ptx(text),
        Stage.SASS: lambda text, annotated, path: parse_sass(text, annotated),
    }
)


MAX_PARSED_CHARS = 64 << 20
"""A longer text is shown raw: its lines have no kind, no registers and no functions."""


def parse(
    stage: Stage, text: str, *, annotated: str | None = None, path: str | None = None
) -> Listing:
    """The listing of one stage's text.

    ``annotated`` is for SASS: ``nvdisasm -c -gi -gp -hex`` of the cubin whose ``nvdisasm -c`` is
    ``text``. ``path`` is the source file's: its ending tells CUDA C++ from Python, and code lines
    have it as their ``source``.
    """
    if len(text) > MAX_PARSED_CHARS:
        return parse_plain(text, stage.value)
    return PARSERS[stage](text, annotated, path)
