"""SASS: the text of ``nvdisasm -c`` or ``cuobjdump -sass``, line by line.

What other options add (locations, PTX lines, encodings) is joined on function and address.
"""

from __future__ import annotations

import re

from inspector.listing.lazy import Lazy, LazyLines
from inspector.listing.line import Function, Kind, Line, Listing
from inspector.listing.sass_annotation import (
    FUNCTION,
    Annotation,
    read_annotations,
    section_of,
)
from inspector.listing.sass_operands import Registers, read_operands

_INSTRUCTION = re.compile(
    r"\s*+/\*([0-9a-f]{4,16})\*/\s*+(?:\{\s*+)?(?:@(!?U?P(?:\d|T))\s++)?"
    r"([A-Z][\w]*+)((?:\.[\w.]++)?)(?:\s++([^;]*+))?\s*+;"
)
_DATA = re.compile(r"\s*+/\*[0-9a-f]{4,16}\*/\s*+\.\w")
_DIRECTIVE = re.compile(r"\s*+\.[A-Za-z_]")
_WORD_ONLY = re.compile(r"\s*+/\*[^*]*+\*/\s*+\Z")
_HEADING = re.compile(
    r"\s*+(?:Fatbin (?:elf|ptx) code:|=+\s*\Z|code for sm_|arch = |code version = |host = |"
    r"compile_size = |compressed|producer = |identifier:|Function : |host_info|ptxasOptions)"
)
_SEPARATOR = re.compile(r"\s*+\.{4,}+\s*+\Z")
_NOTHING: dict[tuple[str, int], Annotation] = {}


def parse_sass(plain: str, annotated: str | None = None) -> Listing:
    """The listing of ``plain``; ``annotated`` is ``nvdisasm -c -gi -gp -hex`` of the same cubin.

    Where ``plain`` holds encodings or locations itself (cuobjdump, or nvdisasm with options),
    they are read from it.
    """
    texts = plain.split("\n")
    scanner = _Scanner(texts, annotated)
    return Listing("sass", LazyLines(texts, scanner), Lazy(scanner.functions))


class _Scanner:
    """See ``lazy.Scanner``; the state is the function (section) that a line stands in."""

    def __init__(self, texts: list[str], annotated: str | None) -> None:
        self.texts = texts
        self._annotated = annotated
        self._known: dict[tuple[str, int], Annotation] | None = None
        self._memo: dict[tuple[str, str | None, str], Registers] = {}

    def start(self) -> str:
        return ""

    def skim(self, first: int, last: int, state: str) -> str:
        for i in range(first, min(last, len(self.texts))):
            text = self.texts[i]
            if ".text." in text or "Function" in text:
                state = section_of(text) or state
        return state

    def parse(self, first: int, last: int, state: str) -> tuple[list[Line], str]:
        known = self._annotations()
        out: list[Line] = []
        for i in range(first, last):
            text = self.texts[i]
            found = _INSTRUCTION.match(text)
            if found:
                out.append(self._instruction(i + 1, text, found, state, known))
                continue
            if ".text." in text or "Function" in text:
                state = section_of(text) or state
            out.append(_other(i + 1, text))
        return out, state

    def _annotations(self) -> dict[tuple[str, int], Annotation]:
        if self._known is None:
            if self._annotated is not None:
                self._known = read_annotations(self._annotated.split("\n"))
                self._annotated = None
            elif any("//## " in t or ("*/" in t and " 0x" in t) for t in self.texts):
                self._known = read_annotations(self.texts)
            else:
                self._known = _NOTHING
        return self._known

    def _instruction(
        self, n: int, text: str, found: re.Match[str], section: str,
        known: dict[tuple[str, int], Annotation],
    ) -> Line:  # fmt: skip
        hexadecimal, guard, base, qualifiers, operands = found.groups()
        opcode = base + qualifiers
        operands = (operands or "").rstrip()
        key = (opcode, guard, operands)
        registers = self._memo.get(key)
        if registers is None:
            registers = self._memo[key] = read_operands(base, opcode, guard, operands)
        address = int(hexadecimal, 16)
        more = known.get((section, address))
        source, ptx_line, control = more or (None, None, None)
        return Line(
            n, text, Kind.INSTRUCTION, base, opcode, registers.defs, registers.uses, source,
            None, registers.targets, address, ptx_line, control,
        )  # fmt: skip

    def functions(self) -> tuple[Function, ...]:
        """One for each section of code; a function called within it is part of it."""
        out: list[Function] = []
        name: str | None = None
        first = 0
        entry = True
        last = 0
        for n, text in enumerate(self.texts, 1):
            if text.startswith("//-----") or _SEPARATOR.match(text) or "Fatbin" in text:
                if name is not None:
                    out.append(Function(name, first, last, entry))
                name, first = None, n
            elif (begun := section_of(text)) is not None:
                if name is not None:
                    out.append(Function(name, first, last, entry))
                name, entry = begun, FUNCTION.match(text) is not None
                if not (first == n - 1 and self.texts[n - 2].startswith("//-----")):
                    first = n
            elif name and ".other" in text and "STO_CUDA_ENTRY" in text:
                entry = True
            if text and not text.isspace():
                last = n
        if name is not None:
            out.append(Function(name, first, last, entry))
        return tuple(out)


def _other(n: int, text: str) -> Line:
    """A line that is no instruction."""
    bare = text.strip()
    if not bare:
        return Line(n, text, Kind.BLANK)
    if bare.startswith("//") or _SEPARATOR.match(text) or _WORD_ONLY.match(text):
        return Line(n, text, Kind.COMMENT)
    if bare.endswith(":") and len(bare) < 65536 and " " not in bare:
        return Line(n, text, Kind.LABEL, label=bare[:-1])
    if _DIRECTIVE.match(text) or _DATA.match(text) or _HEADING.match(text):
        return Line(n, text, Kind.DIRECTIVE)
    return Line(n, text, Kind.UNKNOWN)
