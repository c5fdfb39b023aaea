"""Canonical forms of what people write and Inductor generates: Python and CUDA C++.

Names are the writer's own, so they are content. Comments are not, nor are blanks at a line's end;
in C++, and within a line of Python, neither is how many blanks there are.
"""

from __future__ import annotations

import re

from inspector.analyse.diff.forms import Aliases, Form, Forms
from inspector.listing.line import Function, Kind, Listing

_PYTHON = re.compile(r"((?:\"\"\"|'''|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'))|#.*+", re.DOTALL)
_CUDA = re.compile(
    r"(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')|//.*+|/\*(?:(?!\*/).)*+(?:\*/)?", re.DOTALL
)
_PIECES = re.compile(r"(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')")


def read_source(
    listing: Listing, texts: list[str], first: int, function: Function | None, aliases: Aliases
) -> Forms:
    """The forms of ``texts``, the first of which is line ``first``; no names."""
    python = any(line.base in ("def", "import", "from") for line in listing.lines)
    comments = _PYTHON if python else _CUDA
    mark = "#" if python else "/"
    out: list[Form] = []
    for line in listing.lines[first - 1 : first - 1 + len(texts)]:
        if line.kind is Kind.COMMENT or line.kind is Kind.BLANK:
            continue
        text = line.text.rstrip()
        # a line without a statement stands in a string that began before: every blank counts
        if line.base is not None or line.defs or line.uses:
            if mark in text:
                text = comments.sub(lambda m: m[1] or "", text).rstrip()
            indent = text[: len(text) - len(text.lstrip())] if python else ""
            pieces = _PIECES.split(text)
            pieces[::2] = [" ".join(p.split()) if p.split() else p[:1] for p in pieces[::2]]
            text = indent + "".join(pieces).strip()
        out.append(Form(line.n, text, ()))
    return Forms(first, first - 1 + len(texts), tuple(out), language="source")
