"""CUDA C++ source: comments, preprocessor lines, code and where each ``__global__`` stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from inspector.base.model import Location
from inspector.base.text import words
from inspector.listing.line import Function, Kind, Line, Listing

_PIECE = re.compile(r"//|/\*|(?:u8|[LuU])?R\"([^()\\\s]{0,16})\(|\"|'", re.DOTALL)
_TEXT = re.compile(r'(?:[^"\\]|\\.)*+"?', re.DOTALL)
_CHARACTER = re.compile(r"(?:[^'\\]|\\.)*+'?", re.DOTALL)
_CALL = re.compile(r"(?<![\w.>:])([A-Za-z_]\w*+(?:::\w++)*+)\s*+(?:<<<|\()")
_FUNCTION = re.compile(r"\b(__global__|__device__)\b")
_FUNCTION_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+\(")
_ATTRIBUTES = words(
    "__launch_bounds__ __attribute__ __declspec alignas noexcept __maxnreg__ __cluster_dims__ "
    "__block_size__"
)
_KEYWORDS = words("if else for while do switch case return break continue goto")
_FIRST = re.compile(r"\s*+\}?\s*+([A-Za-z_]\w*+)")


ENDINGS = words("cu cuh cpp cc cxx c h hpp hh inl")
"""File name endings of sources in C++; any other source is Python."""


def is_cuda(path: str | None) -> bool:
    """Whether a source file's name says C++ rather than Python."""
    return (path or "").rpartition(".")[2].lower() in ENDINGS


class CudaState(NamedTuple):
    """State at a line's start: the end to look for (``*/``, a raw string's), a joined directive."""

    until: str = ""
    directive: bool = False


def parse_cuda(text: str, path: str | None = None) -> Listing:
    """The listing of a C++ text; with ``path``, code lines have themselves as ``source``.

    ``base`` is the statement's keyword, else what is called first on the line.
    """
    state = CudaState()
    lines: list[Line] = []
    codes: list[str] = []
    for n, each in enumerate(text.split("\n"), 1):
        before = state
        code, state = _scan(each, before)
        lines.append(_line(n, each, code, before, path))
        codes.append("" if before.directive or code.lstrip()[:1] == "#" else code)
    return Listing("source", lines, _functions(codes))


def _line(n: int, text: str, code: str, state_before: CudaState, path: str | None) -> Line:
    bare = code.strip()
    if not text or text.isspace():
        return Line(n, text, Kind.BLANK if state_before.until != "*/" else Kind.COMMENT)
    if state_before.directive or bare[:1] == "#":
        return Line(n, text, Kind.DIRECTIVE)
    source = Location(path, n) if path is not None else None
    if not bare:
        inside = state_before.until not in ("", "*/")
        kind = Kind.INSTRUCTION if inside else Kind.COMMENT
        return Line(n, text, kind, source=source if inside else None)
    if "\0" in bare:
        return Line(n, text, Kind.UNKNOWN, source=source)
    first = _FIRST.match(bare)
    base = first[1] if first and first[1] in _KEYWORDS else None
    if base in (None, "return"):
        call = _CALL.search(bare[:65536])
        base = call[1] if call and call[1] not in _KEYWORDS else base
    return Line(n, text, Kind.INSTRUCTION, base, base, source=source)


def _functions(codes: Sequence[str]) -> tuple[Function, ...]:
    """``__global__`` and ``__device__`` functions with a body, in code without directives."""
    out: list[Function] = []
    header, first, depth, name, entry = "", 0, 0, "", False
    for n, code in enumerate(codes, 1):
        if not first and (match := _FUNCTION.search(code)):
            first, header = n, ""
            entry = match[1] == "__global__"
        if not first:
            continue
        if not name:
            header = (header + " " + code)[:65536]
            ends = [p for p in (header.find("{"), header.find(";")) if p >= 0]
            if not ends:
                continue
            if header[min(ends)] == ";":
                first = 0
                continue
            names = _FUNCTION_NAME.findall(header[: min(ends)])
            name = next((x for x in names if x not in _ATTRIBUTES), "?")
        depth += code.count("{") - code.count("}")
        if depth <= 0:
            out.append(Function(name, first, n, entry))
            first, depth, name = 0, 0, ""
    if first and name:
        out.append(Function(name, first, len(codes), entry))
    return tuple(out)


def _scan(text: str, state: CudaState) -> tuple[str, CudaState]:
    """The code of a line without comments and with its strings emptied, and the state after it."""
    parts: list[str] = []
    position = 0
    if state.until:
        end = text.find(state.until)
        if end < 0:
            return "", state
        parts.append(" " if state.until == "*/" else '""')
        position = end + len(state.until)
    while piece := _PIECE.search(text, position):
        parts.append(text[position : piece.start()])
        opening = piece[0]
        if opening == "//":
            position = len(text)
            break
        if opening == "/*" or piece[1] is not None:
            until = "*/" if opening == "/*" else f'){piece[1]}"'
            end = text.find(until, piece.end())
            parts.append(" " if opening == "/*" else '""')
            if end < 0:
                return "".join(parts), CudaState(until, False)
            position = end + len(until)
        else:
            closing = (_TEXT if opening == '"' else _CHARACTER).match(text, piece.end())
            assert closing is not None
            parts.append('""')
            position = closing.end()
    parts.append(text[position:])
    code = "".join(parts)
    directive = (state.directive or code.lstrip()[:1] == "#") and text.rstrip("\r")[-1:] == "\\"
    return code, CudaState("", directive)
