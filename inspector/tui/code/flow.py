"""Branches as arrows and loops as brackets, in a few cells before the text."""

from __future__ import annotations

from typing import NamedTuple

from inspector.analyse.flow.arrows import MAX_LANES, Arrow, FlowLanes

CELLS_PER_LANE = 18
"""Cells of a pane for each lane: most of the width is for the code."""

_THIN = {"top": "╭", "bottom": "╰", "join": "├", "pass": "│", "across": "─", "cross": "┼"}
_HEAVY = {"top": "┏", "bottom": "┗", "join": "┣", "pass": "┃", "across": "━", "cross": "╋"}

LOOP, BRANCH, OWN = "loop", "branch", "own"


class FlowCell(NamedTuple):
    """A cell: its sign, and whether it is of a loop, a branch, or of the cursor's own arrow."""

    sign: str
    kind: str


_BLANK = FlowCell(" ", BRANCH)


def lanes_shown(flow: FlowLanes | None, width: int) -> int:
    """How many lanes a pane of that width has room for."""
    if flow is None:
        return 0
    return min(len(flow.lanes), max(1, min(MAX_LANES, width // CELLS_PER_LANE)))


def cells(flow: FlowLanes, shown: int, n: int, cursor: int, again: bool) -> tuple[FlowCell, ...]:
    """What is beside line ``n``: the outermost lane first, then the arrow's head or its foot.

    ``again``: a further row of a wrapped line, past which arrows only go on.
    """
    row = [_BLANK] * (shown + 1)
    for lane in range(shown):
        arrow = flow.at(lane, n)
        if arrow is None or (again and n == arrow.last):
            continue
        signs = _HEAVY if arrow.loops else _THIN
        kind = _kind(arrow, cursor)
        at = shown - 1 - lane
        if again or not arrow.ends_at(n):
            row[at] = FlowCell(signs["pass"], kind)
            continue
        corner = "top" if n == arrow.first else "bottom" if n == arrow.last else "join"
        corner = "join" if arrow.first == arrow.last else corner
        row[at] = FlowCell(signs[corner], kind)
        for right in range(at + 1, shown):
            crossed = row[right].sign not in (" ", "─", "━")
            row[right] = FlowCell(signs["cross" if crossed else "across"], kind)
        foot = "▸" if n == arrow.target else signs["across"]
        if row[shown].sign != "▸":
            row[shown] = FlowCell(foot, kind)
    if not again and row[shown].sign == " ":
        for arrow in flow.ends(n):
            # Its lane has no room.
            row[shown] = FlowCell("▹" if n == arrow.target else "╶", _kind(arrow, cursor))
    return tuple(row)


def _kind(arrow: Arrow, cursor: int) -> str:
    if arrow.ends_at(cursor):
        return OWN
    return LOOP if arrow.loops else BRANCH


def arrow_at(flow: FlowLanes, shown: int, n: int, cell: int) -> Arrow | None:
    """The arrow that a click on a cell beside line ``n`` means: the one drawn there, else one that
    ends on the line."""
    own = None if cell >= shown else flow.at(shown - 1 - cell, n)
    return own or next(iter(flow.ends(n)), None)


def along(arrow: Arrow, n: int) -> int:
    """Where an arrow leads from line ``n``: to its target; from there to the next line that
    branches to it, round the end."""
    if n != arrow.target:
        return arrow.target
    return next((at for at in arrow.sources if at > n), arrow.sources[0])
