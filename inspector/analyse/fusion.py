"""A generated kernel's lines in ``output_code``, and the lines of the user's model they are from.

Inductor says which operators went into a kernel and the graphs which line each came of; neither
says which line of the kernel computes which operator. What a line computes is compared with what
each operator is (the table of operations): a line may come of any operator that it could be part
of, and of all of them where nothing tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.analyse.operations import NOTHING, Does, Operations
from inspector.base.model import Fusion, MadeFrom
from inspector.listing.line import Kind, Listing

Found = tuple[int, ...]
_VALUE = re.compile(r"\b_?tmp\d{1,9}(?:_\w{1,40})?\b")
# A masked reduction is written with tl.where: no operator of the graph.
_MASK = re.compile(r"tl\.where\([^,\n]{0,400}mask")


def model_lines(
    listing: Listing,
    span: tuple[int, int] | None,
    fusion: Fusion,
    file: str,
    operations: Operations,
) -> dict[int, Found]:
    """Lines of ``output_code`` to lines of the user's ``file``; ``span`` is the kernel's text."""
    made = [m for m in fusion.made_from if m.file == file]
    every = tuple(sorted({m.line for m in made}))
    if not every:
        return {}
    total = len(listing.lines)
    out = {n: every for n in fusion.calls if 1 <= n <= total}
    if span is None:
        return out
    body = _body(listing, span)
    narrowed = _narrowed([text for _, text in body], fusion, operations)
    for (n, _), owners in zip(body, narrowed, strict=True):
        # Owners of other files alone: the line is from none of this one.
        held = [fusion.made_from[at] for at in owners]
        lines = {m.line for m in held if m.file == file}
        if lines or not owners:
            out[n] = tuple(sorted(lines)) or every
    return out


def _body(listing: Listing, span: tuple[int, int]) -> list[tuple[int, str]]:
    """The kernel's function: from its ``def`` to its last line."""
    first, last = max(1, span[0]), min(span[1], len(listing.lines))
    lines = [listing.lines[n - 1] for n in range(first, last + 1)]
    start = next((at for at, line in enumerate(lines) if line.text.startswith("def ")), None)
    if start is None:
        return []
    quiet = (Kind.BLANK, Kind.COMMENT)
    return [
        (line.n, line.text)
        for line in lines[start:]
        if line.kind not in quiet and not line.text.startswith("'''")
    ]


def _narrowed(body: Sequence[str], fusion: Fusion, operations: Operations) -> list[Found]:
    """For each line which of ``made_from`` it may come of, by index; empty: any of them."""
    made = fusion.made_from
    does = [_does(m, operations) for m in made]
    # What Inductor added itself may be of any line.
    vague: set[str] = set()
    for target in fusion.unplaced:
        what = operations.aten(target)
        if not what:
            return [()] * len(body)
        vague |= what
    owners: list[Found | None] = [_owners(text, does, vague, operations) for text in body]
    values = [_values(text) for text in body]
    _follow(body, values, owners)
    return [owner or () for owner in owners]


def _does(made: MadeFrom, operations: Operations) -> Does | None:
    """All that the operators of a line do; None if one of them is not in the table."""
    out: set[str] = set()
    for target in made.targets:
        if target.startswith(("operator.", "aten.view", "aten.reshape")):
            continue
        what = operations.aten(target)
        if not what:
            return None
        out |= what
    return frozenset(out)


def _owners(
    text: str, does: Sequence[Does | None], vague: set[str], operations: Operations
) -> Found | None:
    """Who a line may come of; None if it moves values and computes none."""
    name, is_value, right = text.strip().partition(" = ")
    if not is_value or not _VALUE.fullmatch(name):
        return None
    what = NOTHING if _MASK.search(right) else operations.python(f" {right} ") - {"load", "convert"}
    if not what or "tl.load(" in right:
        return None
    if what & vague:
        return ()
    found = tuple(at for at, each in enumerate(does) if each is None or each & what)
    return found or ()


def _values(text: str) -> tuple[set[str], set[str]]:
    """The temporaries that a line makes, and those that it takes."""
    name, is_value, right = text.strip().partition(" = ")
    made = {name} if is_value and _VALUE.fullmatch(name) else set()
    return made, set(_VALUE.findall(right if made else text))


def _follow(
    body: Sequence[str], values: Sequence[tuple[set[str], set[str]]], owners: list[Found | None]
) -> None:
    """A load, a constant or a mask is of who takes it; a store of who made what it stores."""
    users: dict[str, set[int]] = {}
    whole: set[str] = set()
    for at in range(len(body) - 1, -1, -1):
        made, taken = values[at]
        if owners[at] is None and made:
            name = next(iter(made))
            owners[at] = () if name in whole else tuple(sorted(users.get(name, ())))
        if "tl.store" not in body[at]:
            for name in taken:
                if owners[at]:
                    users.setdefault(name, set()).update(owners[at] or ())
                else:
                    whole.add(name)
    makers: dict[str, Found] = {}
    for at, text in enumerate(body):
        made, taken = values[at]
        for name in made:
            makers[name] = owners[at] or ()
        if "tl.store" in text or "tl.atomic" in text:
            found = [makers.get(name, ()) for name in taken]
            owners[at] = tuple(sorted({x for f in found for x in f})) if all(found) else ()
