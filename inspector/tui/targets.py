"""Where a branch or a call goes: the line of a label, found in the texts of the lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.listing.line import Listing
from inspector.tui.highlight import texts_of

_LABEL = re.compile(r"\s*([\w$.^%]+):|\s*(\^\w+)\(")
"""A label at the beginning of a line, as PTX, SASS, LLVM IR and MLIR write one."""


def label_of(text: str) -> str | None:
    """The label that a line defines."""
    found = _LABEL.match(text)
    return None if found is None else found[1] or found[2]


def target_line(listing: Listing, n: int, target: str) -> int | None:
    """The line that ``target`` of line ``n`` is defined on; called in a thread.

    Labels are a function's own: of several of that name the one of the same function is meant.
    """
    texts = texts_of(listing)
    bare = target.lstrip("%")
    found = [m for m, text in enumerate(texts, 1) if bare in text and label_of(text) == bare]
    if found:
        own = next((f for f in listing.functions if f.first <= n <= f.last), None)
        inside = [m for m in found if own is not None and own.first <= m <= own.last]
        return (inside or found)[0]
    return next((f.first for f in listing.functions if f.name == target), None)


def labels(listing: Listing, here: int, step: int) -> Iterator[int]:
    """Lines that define a label, from ``here`` on (``step`` 1) or backwards (-1), round the end."""
    texts = texts_of(listing)
    many = len(texts)
    for distance in range(1, many + 1):
        at = (here - 1 + step * distance) % many
        if label_of(texts[at]) is not None:
            yield at + 1
