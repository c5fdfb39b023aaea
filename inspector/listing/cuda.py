"""CUDA C++ source: comments, preprocessor lines, code and where each ``__global__`` stands."""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.listing.line import Function, Kind, Lazy, LazyLines, Line, Listing
from inspector.model import Location
from inspector.text import words

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
    texts = text.split("\n")
    scanner = _CudaScanner(texts, path)
    return Listing("source", LazyLines(texts, scanner), Lazy(scanner.functions))


class _CudaScanner:
    """See ``line.Scanner``."""

    def __init__(self, texts: list[str], path: str | None) -> None:
        self.texts = texts
        self.path = path

    def start(self) -> CudaState:
        return CudaState()

    def skim(self, first: int, last: int, state: CudaState) -> CudaState:
        for i in range(first, min(last, len(self.texts))):
            state = _scan(self.texts[i], state)[1]
        return state

    def parse(self, first: int, last: int, state: CudaState) -> tuple[list[Line], CudaState]:
        out: list[Line] = []
        for i in range(first, last):
            text = self.texts[i]
            state_before = state
            code, state = _scan(text, state_before)
            out.append(self._line(i + 1, text, code, state_before))
        return out, state

    def _line(self, n: int, text: str, code: str, state_before: CudaState) -> Line:
        bare = code.strip()
        if not text or text.isspace():
            return Line(n, text, Kind.BLANK if state_before.until != "*/" else Kind.COMMENT)
        if state_before.directive or bare[:1] == "#":
            return Line(n, text, Kind.DIRECTIVE)
        source = Location(self.path, n) if self.path is not None else None
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

    def functions(self) -> tuple[Function, ...]:
        """``__global__`` and ``__device__`` functions with a body."""
        out: list[Function] = []
        state = CudaState()
        header, first, depth, name, entry = "", 0, 0, "", False
        for n, text in enumerate(self.texts, 1):
            state_before = state
            code, state = _scan(text, state_before)
            if state_before.directive or code.lstrip()[:1] == "#":
                continue
            if not first and not name and (match := _FUNCTION.search(code)):
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
            out.append(Function(name, first, len(self.texts), entry))
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
