"""What a reader of one language makes of a stretch of lines: the canonical form of each.

A line that has content becomes a ``Form``: its ``key`` is the text with every name that a compiler
chose (registers, values, labels) cut out, without comments, addresses, locations and needless
blanks; its ``names`` are those names. Two functions are the same iff their keys are and one
bijection between their names holds for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from inspector.listing.line import Function, Kind, Listing

HOLE = "\x00"
"""Replaces a name in a key."""

SELF = "\x01"
"""Replaces the function's own name in a key."""


Aliases = Mapping[str, str]
"""Names of definitions elsewhere, with their definitions."""


class CanonicalForm(NamedTuple):
    """The canonical form of one line."""

    n: int
    key: str
    names: tuple[str, ...]
    """Written ones in order, then those that are meant and not written: R5 of ``R4.64``."""


@dataclass(frozen=True, slots=True)
class Forms:
    """A stretch of lines, ``first`` to ``last`` (both counted in).

    ``quiet`` lines say only where code comes from (``.loc``, ``#loc3 = …``, ``!DILocation``): by
    line, what kind of line they are. ``classes``: names match names of their class only.
    ``aliases``: names of definitions elsewhere (``#blocked``, ``!5``) with their
    definitions.
    """

    first: int
    last: int
    forms: tuple[CanonicalForm, ...]
    quiet: Mapping[int, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    language: str = ""


# -- Python and CUDA C++ --------------------------------------------------------------------------
# Canonical forms of what people write and Inductor generates: Python and CUDA C++.
#
# Names are the writer's own, so they are content. Comments are not, nor are blanks at a line's
# end; in C++, and within a line of Python, neither is how many blanks there are.

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
    out: list[CanonicalForm] = []
    for line in listing.lines[first - 1 : first - 1 + len(texts)]:
        if line.kind is Kind.COMMENT or line.kind is Kind.BLANK:
            continue
        text = line.text.rstrip()
        # a line without a statement is within a string: every blank counts
        if line.base is not None or line.defs or line.uses:
            if mark in text:
                text = comments.sub(lambda m: m[1] or "", text).rstrip()
            indent = text[: len(text) - len(text.lstrip())] if python else ""
            pieces = _PIECES.split(text)
            pieces[::2] = [" ".join(p.split()) if p.split() else p[:1] for p in pieces[::2]]
            text = indent + "".join(pieces).strip()
        out.append(CanonicalForm(line.n, text, ()))
    return Forms(first, first - 1 + len(texts), tuple(out), language="source")


# -- names without digests ------------------------------------------------------------------------
# Names of functions and variables without the digests that compilers put in them.
#
# - Triton up to 2 marks how a kernel was specialised: ``add_kernel_0d1d2d3de``.
# - ``nvcc`` names what is internal to a file after the file, a digest and its temporary files:
#   ``_ZN50_INTERNAL_5f8a3c2e_9_kernel_cu_1b2c3d4e_12345E``, ``_GLOBAL__N__5c8a3a5f_11_foo_cu_…``,
#   ``_47_tmpxft_00001234_00000000_7_foo_cpp1_ii_abcdef12``.
# - ``ptxas`` numbers the functions it adds: ``$__internal_3_$__cuda_sm20_div_f32_slowpath``.

_MARKS = re.compile(r"__internal_|tmpxft|_INTERNAL_|_GLOBAL__N_|unnamed")
_SPECIALISED = re.compile(r"_(?:\d{1,3}(?:de|d|c))+\Z")
_INTERNAL = re.compile(r"__internal_\d++_")
_FILE = re.compile(r"(?:(?<!\d)\d++_)?_?tmpxft_[0-9a-f]++_[0-9a-f]++(?:-\d++)?(?:_\d++)?")
_LENGTH = re.compile(r"(?<!\d)\d++(?=_INTERNAL_|_GLOBAL__N_|_tmpxft)")
_DIGEST = re.compile(r"(?<=_)[0-9a-f]{8}(?:_\d++)?(?=_|E|\b)")
_UNNAMED = re.compile(r"__unnamed_\d++")


def plain(text: str) -> str:
    """``text`` with the digests and numbers of the names in it left out."""
    if not _MARKS.search(text):
        return text
    text = _INTERNAL.sub("__internal_", text)
    text = _LENGTH.sub("", text)
    text = _FILE.sub("tmpxft", text)
    if "_INTERNAL_" in text or "_GLOBAL__N_" in text or "tmpxft" in text:
        text = _DIGEST.sub("", text)
    return _UNNAMED.sub("__unnamed", text)


def plain_name(name: str) -> str:
    """A function's name as it is shown: without digests and specialisation."""
    return _SPECIALISED.sub("", plain(name)) or name
