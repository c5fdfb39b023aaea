"""Graphs of torch.fx, as ``print_readable`` writes them; and Inductor's texts without a grammar.

Above the nodes that came of a line of the user's stands which it is::

    # File: /home/me/model.py:9 in forward, code: y = torch.sin(x) * x
    sin: "f32[64, 256][256, 1]cuda:0" = torch.ops.aten.sin.default(primals_1)
"""

from __future__ import annotations

import re

from inspector.base.model import Location
from inspector.listing.line import Kind, Line, Listing

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
    """Parse a printed graph; a node's line has the user's line as ``source``."""
    place: Location | None = None
    lines: list[Line] = []
    for n, each in enumerate(text.split("\n"), 1):
        place = _place(each, place)
        lines.append(_line(n, each, place))
    return Listing(language, lines)


def parse_plain(text: str, language: str) -> Listing:
    """Return the lines of a text without a grammar."""
    lines = [
        Line(n, each, Kind.UNKNOWN if each.strip() else Kind.BLANK)
        for n, each in enumerate(text.split("\n"), 1)
    ]
    return Listing(language, lines)


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
