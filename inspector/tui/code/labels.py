"""The labels of a listing: where a branch or a call goes, and what can be gone to by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.base.model import Stage
from inspector.listing.line import Listing
from inspector.tui.code.highlight import texts_of

_LABEL = re.compile(r"\s*([\w$.^%]+):|\s*(\^\w+)\(")
"""A label at the beginning of a line, as PTX, SASS, LLVM IR and MLIR write one."""

_DEBUGGERS = re.compile(r"\$L__(?:tmp|func_|info|debug|sec|ptrau)|\.L__?debug")
"""Labels that only debuggers go to."""

MACHINE = frozenset((Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX, Stage.SASS))
"""Stages whose lines may begin with a label."""

MAX_LABELS = 5000
"""Labels of one listing that can be found."""


def label_of(text: str) -> str | None:
    """The label that a line defines."""
    match = _LABEL.match(text)
    return None if match is None else match[1] or match[2]


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


def labels_of(listing: Listing, stage: Stage) -> list[tuple[str, int, str]]:
    """What of a listing has a name: functions and labels, with the line of each and what it is."""
    out = [(f.name, f.first, "function") for f in listing.functions]
    if stage not in MACHINE:
        return out
    names = {name for name, _, _ in out}
    first = {f.first for f in listing.functions}
    ends = sorted((f.first, f.last) for f in listing.functions)
    at, end = 0, 0 if ends else len(listing.lines)
    for n, text in enumerate(texts_of(listing), 1):
        while at < len(ends) and ends[at][0] <= n:
            end, at = max(end, ends[at][1]), at + 1
        if n > end or n in first or (":" not in text and "^" not in text):
            continue
        name = label_of(text)
        if name is None or _DEBUGGERS.match(name) or name.removeprefix(".text.") in names:
            continue
        out.append((name, n, "label"))
        if len(out) >= MAX_LABELS:
            break
    return out
