"""The operands of one PTX statement, as written and in order: ``Line.uses`` has each register once.

Guard, opcode and comments are left out; braces and brackets keep what is in them together.
"""

from __future__ import annotations

import re

from inspector.analyse.sentences.operands import split

_HEAD = re.compile(r"\s*+(?:@(!?)\s*+([%\w$]++)\s++)?([a-z_][\w.:]*+)\s*+")


def guard(text: str) -> tuple[str, bool] | None:
    """The predicate that guards a statement, and whether it is negated; None without a guard."""
    found = _HEAD.match(text)
    if found is None or found[2] is None:
        return None
    return found[2], found[1] == "!"


def operands(text: str) -> tuple[str, ...]:
    """The operands of a statement on one line; none where it is no statement."""
    found = _HEAD.match(text)
    if found is None:
        return ()
    rest = text[found.end() :].partition("//")[0].rpartition(";")[0]
    return tuple(split(rest))
