"""What PTX declares: registers, variables, parameters, and the bounds that are in a header.

Written from the PTX ISA, "Variables", "Kernel and Function Directives" and "Performance-Tuning
Directives". All declarations are read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from inspector.listing.line import Function, Listing
from inspector.listing.ptx_operands import number
from inspector.listing.ptx_statement import DECLARED, strip

# -- registers ---------------------------------------------------------------------------------

REGISTERS = re.compile(r"\.reg\b((?:\s*+\.[a-z]\w*+(?:\s++\d++)?)++)([^;]*+)")
"""A ``.reg``: its types, then its names. In a function's header it also ends at ``,`` or ``)``."""

_WIDTH = re.compile(r"[busf]{1,2}(\d{1,3})(?:x\d)?\Z")
_TYPE_WORD = re.compile(r"\.([a-z]\w*)")


class RegisterDeclaration(NamedTuple):
    """One ``.reg``. ``type`` is ``b32``, ``pred``, ``v2.f32``.

    ``names`` are as written, each with its count, None for a single register: ``%r<28>`` is
    ``("%r", 28)``, which declares ``%r0`` to ``%r27``.
    """

    type: str
    names: tuple[tuple[str, int | None], ...]

    @property
    def bits(self) -> int | None:
        """The width in bits of a register, or of an element of a vector; 1 for a predicate."""
        element = self.type.rpartition(".")[2]
        width = _WIDTH.match(element)
        return int(width[1]) if width else 1 if element == "pred" else None


_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,8})\Z", re.DOTALL)


def of_range(name: str) -> tuple[str, int] | None:
    """``("%r", 3)`` for ``%r3``, which ``%r<28>`` declares; None if it ends in no number."""
    match = _NUMBERED.match(name)
    return (match[1], int(match[2])) if match else None


def register_declarations(code: str) -> Iterator[RegisterDeclaration]:
    """Every ``.reg`` in code without comments."""
    for types, names in REGISTERS.findall(code):
        words = [word for word in _TYPE_WORD.findall(types) if word != "align"]
        rows = ((name, int(count) if count else None) for name, count in DECLARED.findall(names))
        yield RegisterDeclaration(".".join(words), tuple(rows))


# -- variables ---------------------------------------------------------------------------------

_VARIABLE = re.compile(
    r"((?:\s*+\.(?:attribute\s*+\([^()]*+\)|[a-z][\w:]*+(?:\s++\d++)?))*+)"
    r"\s*+([\w$%]++)((?:\s*+\[[^\[\]]*+\])*+)"
)
_WORD = re.compile(r"\.([a-z][\w:]*+)(?:\s++(\d++))?")
_TYPE = re.compile(r"(?:b?[bsuf](8|16|32|64|128)(x2)?|pred)\Z")
_SIZE = re.compile(r"\[([^\[\]]*+)\]")


class VariableDeclaration(NamedTuple):
    """A variable or a parameter.

    ``words`` are those before its name, each with its number if it has one: state space,
    alignment, type. ``sizes`` are those of an array, None for empty brackets. ``rest`` is the code
    after it, such as its initial value.
    """

    words: tuple[tuple[str, int | None], ...]
    name: str
    sizes: tuple[int | None, ...]
    rest: str = ""

    @property
    def type(self) -> str | None:
        """The type, such as ``u64``; None if none is named."""
        return next((word for word, _ in self.words if _TYPE.match(word)), None)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element, or of a whole vector; 1 for a predicate, 4 if no type is named."""
        width = _TYPE.match(self.type or "b32")
        vector = next((int(word[1]) for word, _ in self.words if word in ("v2", "v4", "v8")), 1)
        packed = 2 if width and width[2] else 1
        return vector * packed * (int(width[1]) // 8 if width and width[1] else 1)

    @property
    def size(self) -> int | None:
        """Bytes in all; None for an array with empty brackets."""
        counts = [count for count in self.sizes if count is not None]
        return self.element_bytes * prod(counts) if len(counts) == len(self.sizes) else None

    @property
    def pointer(self) -> bool:
        """Whether it is declared to hold an address (``.ptr``)."""
        return any(word == "ptr" for word, _ in self.words)

    @property
    def align(self) -> int | None:
        """Its own alignment in bytes; after ``.ptr``, ``.align`` is that of what it points to."""
        for word, value in self.words:
            if word == "ptr":
                break
            if word == "align":
                return value
        return None


def variable_declaration(code: str) -> VariableDeclaration | None:
    """The variable that ``code`` declares, from its state space or type on; None if it does not."""
    match = _VARIABLE.match(code)
    if match is None:
        return None
    words = tuple(
        (word, int(value[:9]) if value else None) for word, value in _WORD.findall(match[1])
    )
    sizes = tuple(map(_size, _SIZE.findall(match[3])))
    return VariableDeclaration(words, match[2], sizes, code[match.end() :])


def _size(text: str) -> int | None:
    """A size, limited to 30 bits since the text is untrusted; None if it is no number."""
    size = number(text.strip())
    return None if size is None else min(size, 1 << 30)


# -- headers -----------------------------------------------------------------------------------

MAX_HEADER_LINES = 4096
"""Most lines of a header that are read: more than 4,352 bytes of parameters need."""

_ENTRY = re.compile(r"^[^/\n]*\.entry\s++([\w$%.]++)", re.MULTILINE)
MAX_HEADER_CHARS = 20000
"""Most characters of a header that are read if no body follows."""
_BOUND = re.compile(
    r"\.(reqntid|maxntid|reqnctapercluster)\s++(\d{1,9}+)(?!\d)"
    r"(?:\s*+,\s*+(\d{1,9}+)(?!\d))?(?:\s*+,\s*+(\d{1,9}+)(?!\d))?"
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
    """A kernel's header: ``block`` and ``most`` are threads by ``.reqntid`` and ``.maxntid``,
    ``cluster`` blocks by ``.reqnctapercluster``; None without the directive."""

    parameters: tuple[Declared, ...] = ()
    block: tuple[int, int, int] | None = None
    most: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


def header_text(listing: Listing, function: Function) -> str:
    """The header without comments, up to its ``{``."""
    parts: list[str] = []
    comment = False
    last = min(function.last, function.first + MAX_HEADER_LINES)
    for text in listing.texts(function.first, last):
        code, comment = strip(text, comment)
        body = code.find("{")
        parts.append(code if body < 0 else code[:body])
        if body >= 0:
            break
    return "\n".join(parts)


def read_header(listing: Listing, function: Function) -> Header:
    """The header of a function of a PTX listing."""
    text = header_text(listing, function)
    name_match = re.search(r"(?<![\w$%])" + re.escape(function.name) + r"\s*\(", text)
    parameters = _parameters(text[name_match.end() :]) if name_match and function.name else ()
    limits = bounds(text)
    return Header(
        parameters, limits.get("reqntid"), limits.get("maxntid"), limits.get("reqnctapercluster")
    )


def bounds(header: str) -> dict[str, tuple[int, int, int]]:
    """``reqntid``, ``maxntid`` and ``reqnctapercluster`` of a header, those that it has."""
    out: dict[str, tuple[int, int, int]] = {}
    for name, x, y, z in _BOUND.findall(header):
        out[name] = (int(x), int(y or 1), int(z or 1))
    return out


def entries(ptx: str) -> Iterator[tuple[str, str]]:
    """The kernels of a whole text by name, each with its header from the name on up to its ``{``.

    Takes time linear in the text, since there may be thousands.
    """
    entry = next(places := _ENTRY.finditer(ptx), None)
    while entry is not None:
        following = next(places, None)
        end = following.start() if following is not None else len(ptx)
        body = ptx.find("{", entry.end(), end)
        yield (
            entry[1],
            ptx[entry.end() : body if body >= 0 else min(end, entry.end() + MAX_HEADER_CHARS)],
        )
        entry = following


def _parameters(text: str) -> tuple[Declared, ...]:
    """Parameters, each at the next offset that its alignment allows, as the PTX ISA says."""
    end = text.find(")")
    out: list[Declared] = []
    offset = 0
    for part in text[: end if end >= 0 else len(text)].split(","):
        _, param, rest = part.partition(".param")
        declaration = variable_declaration(rest) if param else None
        if declaration is None:
            continue
        size = declaration.element_bytes * prod(
            1 if count is None else count for count in declaration.sizes
        )
        align = declaration.align or declaration.element_bytes
        offset = (offset + align - 1) // align * align
        out.append(
            Declared(
                declaration.name, f".{declaration.type or 'b32'}", size, offset, declaration.pointer
            )
        )
        offset += size
    return tuple(out)
