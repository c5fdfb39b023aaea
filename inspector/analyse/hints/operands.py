"""The operands of one PTX statement, as written and in order: ``Line.uses`` has each register once.

Guard, opcode and comments are left out; braces and brackets keep what is in them together.
"""

from __future__ import annotations

import re

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
    return split(rest) if rest.strip() else ()


def split(text: str) -> tuple[str, ...]:
    """Parts of ``text`` between the commas that stand in no bracket."""
    out: list[str] = []
    depth = start = 0
    for at, c in enumerate(text):
        if c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth <= 0:
            out.append(text[start:at].strip())
            start = at + 1
    out.append(text[start:].strip())
    return tuple(out)
