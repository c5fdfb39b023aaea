"""Source locations of lines, as the status line shows them."""

from __future__ import annotations

from inspector.base.model import Location
from inspector.listing.line import Kind, Line, Listing
from inspector.listing.ptx import frames_of, read_files
from inspector.tui.widgets.visible import label

_NONE = "no source location"
_SEARCH_LINES = 64  # lines around one without a location in which an instruction is looked for


def place(location: Location | None) -> str:
    """``square.py:16:23 ← from module.py:40``: the innermost frame, then who inlined it."""
    if location is None:
        return _NONE
    frames = []
    for frame in location.frames():
        file = frame.file.replace("\\", "/").rpartition("/")[2]
        column = f":{frame.column}" if frame.column else ""
        frames.append(f"{label(file)}:{frame.line}{column}")
    return " ← ".join(frames)


def location_of(listing: Listing, n: int) -> Location | None:
    """Where line ``n`` is from. A ``.loc`` says it itself; a label, a comment and a mark are from
    where the next instruction is, else from where the one before is."""
    line = listing.lines[n - 1]
    if line.source is not None or line.kind is Kind.INSTRUCTION:
        return line.source
    if _is_loc(line):
        return _said(listing, n)
    if not _has_places(listing, n):
        return None
    # A declaration is from where the code before it is, if there is any.
    ahead = 0 if line.kind is Kind.DIRECTIVE else _SEARCH_LINES
    for after in range(n, min(n + ahead, len(listing.lines))):
        following = listing.lines[after]
        at = _said(listing, after + 1) if _is_loc(following) else following.source
        if at is not None:
            return at
        if following.kind is Kind.INSTRUCTION or _is_loc(following):
            break
    before = (listing.lines[at] for at in range(n - 2, max(-1, n - 2 - _SEARCH_LINES), -1))
    return next((one.source for one in before if one.kind is Kind.INSTRUCTION), None)


def _said(listing: Listing, n: int) -> Location | None:
    """What the ``.loc`` on line ``n`` says: as its first instruction has it, else read alone."""
    for after in range(n, min(n + _SEARCH_LINES, len(listing.lines))):
        following = listing.lines[after]
        if _is_loc(following):
            break
        if following.source is not None:
            return following.source
    text = listing.lines[n - 1].text
    alone = frames_of(text, read_files(listing.text))
    return None if alone is None or not alone.line else alone


def _has_places(listing: Listing, n: int) -> bool:
    """Whether line ``n`` is among instructions, and not between functions."""
    if listing.language not in ("ptx", "sass"):
        return False
    return any(f.first < n < f.last for f in listing.functions)


def _is_loc(line: Line) -> bool:
    return line.kind is Kind.DIRECTIVE and line.text.lstrip().startswith(".loc")
