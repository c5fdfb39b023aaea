"""The line above the footer: where the cursor is, where that comes from, what was found."""

from __future__ import annotations

from bisect import bisect_right

from textual.content import Content
from textual.widget import Widget

from inspector.listing.line import Kind, Line, Listing
from inspector.listing.ptx_location import Locations, frames_of
from inspector.model import GRAPH_STAGES, Location, Stage
from inspector.tui.code.code_view import CodeView
from inspector.tui.widgets.visible import label, shorten

_NONE = "no source location"
_OWN_LINES = (Stage.SOURCE, Stage.OUTPUT_CODE, *GRAPH_STAGES)
"""Stages whose lines name no place of their own: a graph's have the user's lines beside them."""
_NEAR = 64  # lines around one without a location in which an instruction is looked for


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
    ahead = 0 if line.kind is Kind.DIRECTIVE else _NEAR
    for after in range(n, min(n + ahead, len(listing.lines))):
        following = listing.lines[after]
        at = _said(listing, after + 1) if _is_loc(following) else following.source
        if at is not None:
            return at
        if following.kind is Kind.INSTRUCTION or _is_loc(following):
            break
    before = (listing.lines[at] for at in range(n - 2, max(-1, n - 2 - _NEAR), -1))
    return next((one.source for one in before if one.kind is Kind.INSTRUCTION), None)


def _said(listing: Listing, n: int) -> Location | None:
    """What the ``.loc`` on line ``n`` says: as its first instruction has it, else read alone."""
    for after in range(n, min(n + _NEAR, len(listing.lines))):
        following = listing.lines[after]
        if _is_loc(following):
            break
        if following.source is not None:
            return following.source
    text = listing.lines[n - 1].text
    alone = frames_of(text, Locations(listing.text, [text]).files)
    return None if alone is None or not alone.line else alone


def _has_places(listing: Listing, n: int) -> bool:
    """Whether line ``n`` stands among instructions, and not between functions."""
    if listing.language not in ("ptx", "sass"):
        return False
    return any(f.first < n < f.last for f in listing.functions)


def _is_loc(line: Line) -> bool:
    return line.kind is Kind.DIRECTIVE and line.text.lstrip().startswith(".loc")


def _key(view: CodeView) -> tuple[object, ...]:
    return (view, view.source, view.cursor, view.pattern, view.chosen_from)


class StatusLine(Widget):
    """One line; a message stands in for it until the next move."""

    def __init__(self) -> None:
        super().__init__()
        self._left = self._right = ""
        self._warning = False
        self._said = False
        self._place: tuple[object, ...] = ()

    def say(self, text: str, view: CodeView, warning: bool = False) -> None:
        """A message, safe to draw, until the cursor of ``view`` moves."""
        self._left, self._right, self._warning = text, "", warning
        self._said, self._place = True, _key(view)
        self.refresh()

    def follow(
        self,
        view: CodeView,
        stage: str,
        linked: tuple[tuple[str, int | None], ...],
        found: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """The cursor of ``view``; ``linked`` is how many lines of which other stage.

        None: no line of either is linked, which has to be said, else one looks for it. ``found``
        is how many lines of the other panes have the pattern.
        """
        here = _key(view)
        if self._said and here == self._place:
            return  # the focus came back from a prompt: that is no move
        self._said, self._place = False, here
        self._warning = False
        self._left = self._right = ""
        if view.source is not None and view.lines:
            parts = [f"{stage} {view.cursor}/{view.lines}"]
            if stage not in _OWN_LINES:
                parts.append(place(location_of(view.source.listing, view.cursor)))
            self._left = "  ".join(parts)
            right = [
                f"nothing links {stage} and {other}" if many is None else f"▐ {many} in {other}"
                for other, many in linked
                if many != 0
            ]
            if view.pattern is not None:
                at = bisect_right(view.matches, view.cursor)
                on = at > 0 and view.matches[at - 1] == view.cursor
                own = f"{at} of {len(view.matches)}" if on else f"{len(view.matches)}"
                counts = [own, *(f"{many} in {other}" for other, many in found)]
                right.insert(0, f"/{label(view.pattern.pattern)}/  " + ", ".join(counts))
            if view.chosen is not None:
                first, last = view.chosen
                right.insert(0, f"lines {first} to {last}, y copies")
            self._right = "   ".join(right)
        self.refresh()

    def render(self) -> Content:
        """The place at the left, counts at the right."""
        width = self.size.width - 2
        if self._warning:
            return Content.assemble((" ⚠ " + shorten(self._left, width - 2), "bold $warning"))
        right = self._right if len(self._right) + 12 <= width else ""
        left = shorten(self._left, width - len(right) - 2 if right else width)
        gap = max(1, width - Content(left).cell_length - Content(right).cell_length)
        return Content.assemble((" " + left, ""), (" " * gap, ""), (right, "$accent"))
