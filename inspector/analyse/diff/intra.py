"""Within two lines that stand beside each other: the characters that differ."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rapidfuzz.distance import LCSseq

from inspector.listing.line import Line

Spans = tuple[tuple[int, int], ...]
"""Half-open ranges of characters, in order, apart from one another."""

_TOKEN = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|0[xXfFdD][0-9A-Fa-f]++|\d++(?:\.\d++)?(?:[eE][-+]?\d++)?"
    r"|[%$#^.]?[A-Za-z_$][\w$]*+|[%#^!]\d++|\s++|.",
    re.DOTALL,
)
_ADDRESS = re.compile(r"\s*+/\*[0-9a-f]{4,16}\*/\s*+")
_LOCATION = re.compile(
    r"(?<!\s)\s*+loc\(#loc\d*+\)|(?:,|(?<!\s))\s*+!dbg !\d++|(?<!\s)\s*+//.*+\Z", re.DOTALL
)
_LONGEST = 4096
"""Tokens compared; of longer lines the rest is marked whole."""


def intra_line(
    a: Line | str, b: Line | str, names: Mapping[str, str] | None = None
) -> tuple[Spans, Spans]:
    """The characters of two lines that differ: of the first, and of the second.

    ``names`` are those of the first by what they are called in the second: a name that is merely
    called something else does not differ. Neither do addresses, locations, comments and blanks.
    """
    left, right = _tokens(_text(a)), _tokens(_text(b))
    known = names or {}
    ours = [known.get(text, text) for _, text in left]
    taken = set(known.values())
    # a name of the second that is another's counterpart is not what is spelled like it here
    ours = [
        "\0" + text if text == mine and text not in known and text in taken else text
        for text, (_, mine) in zip(ours, left, strict=True)
    ]
    theirs = [text for _, text in right]
    gone, come = _changed(ours[:_LONGEST], theirs[:_LONGEST])
    changed_a = [_span(left[i]) for i in gone]
    changed_b = [_span(right[j]) for j in come]
    changed_a += [_span(token) for token in left[_LONGEST:]]
    changed_b += [_span(token) for token in right[_LONGEST:]]
    return _joined(changed_a, _text(a)), _joined(changed_b, _text(b))


def _changed(ours: list[str], theirs: list[str]) -> tuple[list[int], list[int]]:
    """The tokens of two lines that differ, by place.

    Operand by operand where that marks no more than a longest common subsequence does: "3, 4" that
    became "5, 3" has two other operands, not one that moved.
    """
    common = _unlike(ours, theirs)
    x, y = _operands(ours), _operands(theirs)
    if len(x) != len(y):
        return common
    gone: list[int] = []
    come: list[int] = []
    for (i, one), (j, other) in zip(x, y, strict=True):
        here, there = _unlike(one, other)
        gone += [i + n for n in here]
        come += [j + n for n in there]
    return (gone, come) if len(gone) + len(come) <= len(common[0]) + len(common[1]) else common


def _unlike(ours: list[str], theirs: list[str]) -> tuple[list[int], list[int]]:
    gone: list[int] = []
    come: list[int] = []
    for one in LCSseq.opcodes(ours, theirs):
        if one.tag != "equal":
            gone += range(one.src_start, one.src_end)
            come += range(one.dest_start, one.dest_end)
    return gone, come


def _operands(tokens: list[str]) -> list[tuple[int, list[str]]]:
    """Tokens up to each comma, with the place of the first."""
    out: list[tuple[int, list[str]]] = []
    first = 0
    for n, token in enumerate(tokens, 1):
        if token == "," or n == len(tokens):
            out.append((first, tokens[first:n]))
            first = n
    return out


def _text(line: Line | str) -> str:
    return line if isinstance(line, str) else line.text


def _tokens(text: str) -> list[tuple[int, str]]:
    skip = [found.span() for found in _LOCATION.finditer(text)] if _marked(text) else []
    if text[:64].lstrip()[:2] == "/*" and (address := _ADDRESS.match(text)):
        skip.append(address.span())
    return [
        (found.start(), found[0])
        for found in _TOKEN.finditer(text)
        if not found[0].isspace() and not any(s <= found.start() < e for s, e in skip)
    ]


def _marked(text: str) -> bool:
    return "loc(" in text or "!dbg" in text or "//" in text


def _span(token: tuple[int, str]) -> tuple[int, int]:
    return token[0], token[0] + len(token[1])


def _joined(spans: list[tuple[int, int]], text: str) -> Spans:
    """Spans with nothing but blanks between them as one."""
    out: list[tuple[int, int]] = []
    for start, end in spans:
        if out and not text[out[-1][1] : start].strip():
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return tuple(out)
