"""Graphs of torch.fx, as ``print_readable`` writes them; and Inductor's texts without a grammar.

Above the nodes that came of a line of the user's stands which it is::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)
"""

from __future__ import annotations

import re

from inspector.listing.line import Kind, LazyLines, Line, Listing
from inspector.model import Location

_FILE = re.compile(
    r"\s*+# (?:Annotation: .{0,4096}? )?(?:Backward of forward node: )?"
    r"File: (.{1,4096}?):(\d{1,9}) in "
)
_NODE = re.compile(r"\s++(\w{1,400})(?:: ?\"[^\"\n]*\")? = (.*)")
_CALL = re.compile(r"([A-Za-z_][\w.]{0,400})\(")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w{0,400}(?![\w(.=])")
_WORDS = frozenset(("None", "True", "False"))


def parse_fx(text: str, language: str) -> Listing:
    """The listing of a printed graph; a node's line has as ``source`` the user's line."""
    texts = text.split("\n")
    return Listing(language, LazyLines(texts, _FxScanner(texts)))


def parse_plain(text: str, language: str) -> Listing:
    """The listing of a text whose lines are shown as they are."""
    texts = text.split("\n")
    return Listing(language, LazyLines(texts, _PlainScanner(texts)))


class _FxScanner:
    """See ``line.Scanner``; the state is the place of the nodes that follow."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def start(self) -> Location | None:
        return None

    def skim(self, first: int, last: int, state: Location | None) -> Location | None:
        for text in self.texts[first:last]:
            state = _place(text, state)
        return state

    def parse(
        self, first: int, last: int, state: Location | None
    ) -> tuple[list[Line], Location | None]:
        out: list[Line] = []
        for i in range(first, min(last, len(self.texts))):
            text = self.texts[i]
            state = _place(text, state)
            out.append(_line(i + 1, text, state))
        return out, state


def _place(text: str, before: Location | None) -> Location | None:
    bare = text.lstrip()
    if not bare.startswith("#"):
        # The function's own line, and what it returns, came of no line of the user's.
        return None if bare.startswith(("def ", "class ", "return ")) else before
    if match := _FILE.match(text):
        return Location(match[1], int(match[2]))
    return None if bare.startswith("# No stacktrace") else before


def _line(n: int, text: str, place: Location | None) -> Line:
    bare = text.strip()
    if not bare:
        return Line(n, text, Kind.BLANK)
    if bare.startswith("#"):
        return Line(n, text, Kind.COMMENT)
    match = _NODE.match(text.rstrip("\r"))
    if match is None:
        return Line(n, text, Kind.INSTRUCTION, *_opcode(bare))
    right = match[2].partition(";")[0]
    names = _NAME.findall(_QUOTED.sub("", right))
    uses = tuple(dict.fromkeys(name for name in names if name not in _WORDS))
    return Line(n, text, Kind.INSTRUCTION, *_opcode(right), (match[1],), uses, place)


def _opcode(text: str) -> tuple[str | None, str | None]:
    """What is called: its last word but the overload's, and the whole."""
    match = _CALL.match(text)
    if match is None:
        return None, None
    name = match[1].removeprefix("torch.ops.")
    return name.removeprefix("aten.").partition(".")[0], name


class _PlainScanner:
    """See ``line.Scanner``; there is nothing to know."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def start(self) -> None:
        return None

    def skim(self, first: int, last: int, state: None) -> None:
        return None

    def parse(self, first: int, last: int, state: None) -> tuple[list[Line], None]:
        return [
            Line(i + 1, text, Kind.UNKNOWN if text.strip() else Kind.BLANK)
            for i, text in enumerate(self.texts[first:last], first)
        ], None
