"""The header of a PTX function: its parameters, and the block it was compiled for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inspector.listing.line import Function, LazyLines, Listing
from inspector.listing.ptx_statement import strip

LONGEST = 4096
"""Lines of a header that are looked at: more parameters than the 4,352 bytes they may take."""

_PARAMETER = re.compile(
    r"\.param\b((?:\s*+\.(?!param\b)[a-z]\w*+(?:\s++\d++)?)*+)\s*+([\w$%]++)\s*+(?:\[\s*+(\d*+))?"
)
_WORD = re.compile(r"\.([a-z]\w*+)(?:\s++(\d++))?")
_WIDTH = re.compile(r"[bsuf](8|16|32|64|128)\Z|pred\Z")
_BOUND = re.compile(
    r"\.(reqntid|maxntid|reqnctapercluster)\s++(\d++)(?:\s*+,\s*+(\d++))?(?:\s*+,\s*+(\d++))?"
)


@dataclass(frozen=True, slots=True)
class Declared:
    """One ``.param``: ``type`` is ``.u64``, ``offset`` and ``size`` are bytes."""

    symbol: str
    type: str
    size: int
    offset: int
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """Threads of a block by ``.reqntid``, by ``.maxntid``; blocks by ``.reqnctapercluster``."""

    parameters: tuple[Declared, ...] = ()
    block: tuple[int, int, int] | None = None
    most: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


def header_text(listing: Listing, function: Function) -> str:
    """The header without comments, up to its ``{``."""
    parts: list[str] = []
    comment = False
    last = min(function.last, function.first + LONGEST)
    lines = listing.lines
    for i in range(function.first - 1, min(last, len(lines))):
        text = lines.texts[i] if isinstance(lines, LazyLines) else lines[i].text
        code, comment = strip(text, comment)
        body = code.find("{")
        parts.append(code if body < 0 else code[:body])
        if body >= 0:
            break
    return "\n".join(parts)


def read_header(listing: Listing, function: Function) -> Header:
    """The header of a function of a PTX listing."""
    text = header_text(listing, function)
    named = re.search(r"(?<![\w$%])" + re.escape(function.name) + r"\s*\(", text)
    parameters = _parameters(text[named.end() :]) if named and function.name else ()
    bounds = {m[1]: _size(m) for m in _BOUND.finditer(text)}
    return Header(
        parameters, bounds.get("reqntid"), bounds.get("maxntid"), bounds.get("reqnctapercluster")
    )


def _size(found: re.Match[str]) -> tuple[int, int, int]:
    x, y, z = (int(found[i][:9]) if found[i] else 1 for i in (2, 3, 4))
    return x, y, z


def _parameters(text: str) -> tuple[Declared, ...]:
    """Each at the next offset that its alignment allows, as the PTX ISA lays them out."""
    end = text.find(")")
    out: list[Declared] = []
    at = 0
    for words, name, count in _PARAMETER.findall(text if end < 0 else text[:end]):
        found = _WORD.findall(words)
        type_ = next((w for w, _ in found if _WIDTH.match(w)), "b32")
        width = _WIDTH.match(type_)
        element = int(width[1]) // 8 if width and width[1] else 1
        # After .ptr, .align is that of what is pointed to.
        pointer = next((i for i, (w, _) in enumerate(found) if w == "ptr"), None)
        own = found if pointer is None else found[:pointer]
        align = next((int(v[:9]) for w, v in own if w == "align" and v), 0) or element
        size = element * (int(count[:9]) if count else 1)
        at = (at + align - 1) // align * align
        out.append(Declared(name, f".{type_}", size, at, pointer is not None))
        at += size
    return tuple(out)
