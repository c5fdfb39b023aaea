"""What a reader of one language makes of a stretch of lines: the canonical form of each.

A line that has content becomes a ``Form``: its ``key`` is the text with every name that a compiler
chose (registers, values, labels) cut out, without comments, addresses, locations and needless
blanks; its ``names`` are those names. Two functions are the same iff their keys are and one
bijection between their names holds for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

HOLE = "\x00"
"""Stands in a key for a name."""

SELF = "\x01"
"""Stands in a key for the function's own name."""


Aliases = Mapping[str, str]
"""Names that stand for what is written elsewhere, by what they stand for."""


class Form(NamedTuple):
    """The canonical form of one line."""

    n: int
    key: str
    names: tuple[str, ...]
    """Written ones in order, then those that are meant and not written: R5 of ``R4.64``."""


@dataclass(frozen=True, slots=True)
class Forms:
    """A stretch of lines, ``first`` to ``last`` (both counted in).

    ``quiet`` lines say only where code comes from (``.loc``, ``#loc3 = …``, ``!DILocation``): by
    line, what kind of line they are. ``classes``: a name can only stand for one of its class.
    ``aliases``: names that stand for what is written elsewhere (``#blocked``, ``!5``), by what
    they stand for.
    """

    first: int
    last: int
    forms: tuple[Form, ...]
    quiet: Mapping[int, str] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    aliases: Aliases = field(default_factory=dict)
    language: str = ""
