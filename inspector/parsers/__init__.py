"""Parsers, one for each language, from text to classified lines. Nothing is lost.

``parse(stage, text)`` gives a ``Listing``; ``"\\n".join(line.text for line in listing.lines)`` is
``text`` again for any text. No parser raises, reads a file or starts a process; each takes
time linear in the text.
"""

from inspector.base.stage import FX_STAGES, GRAPH_STAGES, Stage
from inspector.parsers.line import Control, Function, Kind, Line, Listing

__all__ = ["Control", "Function", "Kind", "Line", "Listing", "parse"]

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
    # A parser is imported with the first text that it reads: the first row does not wait for all.
    from inspector.parsers.output_code import parse_fx, parse_plain

    if stage in FX_STAGES and len(text) <= MAX_PARSED_CHARS:
        return parse_fx(text, stage.value)
    if stage in GRAPH_STAGES or len(text) > MAX_PARSED_CHARS:
        return parse_plain(text, stage.value)
    if stage is Stage.SASS:
        from inspector.parsers.sass import parse_sass

        return parse_sass(text, annotated)
    if stage is Stage.PTX:
        from inspector.parsers.ptx import parse_ptx

        return parse_ptx(text)
    if stage is Stage.LLIR:
        from inspector.parsers.llvm import parse_llvm

        return parse_llvm(text)
    if stage in (Stage.IR, Stage.TTIR, Stage.TTGIR) and not (path or "").endswith(".py"):
        from inspector.parsers.mlir import parse_mlir

        return parse_mlir(text, stage.value)
    from inspector.parsers.source_code import is_cuda, parse_cuda, parse_python

    wrapper = stage is Stage.OUTPUT_CODE and (path or "").endswith(".cpp")  # AOTInductor's
    if stage in (Stage.SOURCE, Stage.OUTPUT_CODE) and is_cuda(path) and not wrapper:
        return parse_cuda(text, path)
    return parse_python(text, path, stage.value)
