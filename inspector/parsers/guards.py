"""The text of torch's guards."""

import re

_PLACE = re.compile(r"\S{1,4096}:\d{1,9} in \S{1,400}")


MAX_GUARD_CHARS = 600


def guard_parts(text: str) -> tuple[str, str, str, tuple[str, ...]]:
    """One of torch's guards: what is compared, the line that made it, where that line is, and
    torch's hints, which follow it as ``(HINT: …)``."""
    text, _, tail = text.partition(" (HINT: ")
    hints = tail.strip().removesuffix(")").split(") (HINT: ") if tail else []
    guard_text, _, place = (part.strip() for part in text.rpartition(" # "))
    if not _PLACE.fullmatch(place):
        guard_text, place = text, ""
    guard, _, code = (part.strip()[:MAX_GUARD_CHARS] for part in guard_text.partition(" # "))
    return guard, code, place, tuple(hint[:MAX_GUARD_CHARS] for hint in hints)
