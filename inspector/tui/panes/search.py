"""A search in all panes: its pattern, its origin and its matches."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from inspector.tui.code.code_view import CodeView
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.panes import Panes
from inspector.tui.widgets.visible import label

BAD_EXPRESSION = (re.error, OverflowError, RecursionError)


def expression(text: str) -> re.Pattern[str]:
    """Compile as in vim's smartcase: small letters find both, one capital makes it exact.

    Raises one of ``BAD_EXPRESSION``.
    """
    return re.compile(text, re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE)


class Search:
    """The state of a search in all panes.

    ``warn`` shows the user a sentence; ``changed`` is called when the status line must be drawn.
    """

    def __init__(
        self, panes: Panes, warn: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._panes, self._warn, self._changed = panes, warn, changed
        self._origin: tuple[CodeView, int, re.Pattern[str] | None] | None = None
        self._wanted: re.Pattern[str] | None = None
        self._searching: set[Pane] = set()
        self._typing = False

    def begin(self) -> str:
        """Remember where the search begins; return the text of the last one."""
        view = self._panes.active.view
        self._origin = (view, view.cursor, view.pattern)
        return view.pattern.pattern if view.pattern else ""

    def look_for(self, text: str, typing: bool = False) -> None:
        """Search in all panes.

        While one types, the cursor goes to the first match from where it was, and what is not yet
        an expression waits.
        """
        try:
            pattern = expression(text)
        except BAD_EXPRESSION as error:
            if not typing:
                self._warn(f"“{label(text)}” is not a regular expression: {error}")
            return
        self._wanted, self._typing = pattern, typing
        if not text:
            if self._origin is not None:
                self._origin[0].go(self._origin[1])
            self._forget(None)
            return
        self._searching = {pane for pane in self._panes.panes if pane.view.source is not None}
        for pane in self._searching:
            pane.search(pattern)

    def give_up(self) -> None:
        """Go back to where the search began, with the pattern from before."""
        view, n, pattern = self._origin or (self._panes.active.view, 1, None)
        view.go(n)
        self.clear(pattern)

    def clear(self, pattern: re.Pattern[str] | None = None) -> None:
        """Forget the search in all panes, or return to an earlier one."""
        self._wanted = self._origin = None
        self._forget(pattern)

    def _forget(self, pattern: re.Pattern[str] | None) -> None:
        for pane in self._panes.panes:
            pane.view.find(None, ())
            if pattern is not None:
                pane.search(pattern)
        self._changed()

    def found(self, message: Pane.Found) -> None:
        """Show what a pane has found."""
        view, lines = message.pane.view, message.lines
        if not isinstance(lines, tuple):
            self._warn("The search failed.")
            return
        wanted = message.pattern is self._wanted
        if not wanted and self._wanted is not None and self._typing:
            return  # a pane that has another listing now looks for what it looked for before
        view.find(message.pattern, lines)
        if wanted:
            self._searching.discard(message.pane)
            if message.pane is self._panes.active and lines:
                self._to_first(view, lines)
            elif message.pane is self._panes.active and self._typing and self._origin is not None:
                view.go(self._origin[1])
            if not (self._searching or self._panes.active.view.matches or self._typing):
                counts = ", ".join(f"{many} in {stage}" for stage, many in self.counts())
                elsewhere = f" here; {counts}" if counts else ""
                self._warn(f"Nothing matches “{label(message.pattern.pattern)}”{elsewhere}.")
                return
        self._changed()

    def _to_first(self, view: CodeView, lines: tuple[int, ...]) -> None:
        """Go to the first match from where the search began."""
        begun = self._origin
        start = begun[1] if begun is not None and begun[0] is view else view.cursor
        target = lines[bisect_left(lines, start) % len(lines)]
        if not self._typing:
            self._origin = self._wanted = None
            if target != start:
                view.post_message(CodeView.Jumped(view, start))
        if target != view.cursor:
            view.go(target)

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return how many lines of the other panes have the pattern, where any has it."""
        return tuple(
            (str(pane.stage), len(pane.view.matches))
            for pane in self._panes.panes
            if pane is not self._panes.active and pane.view.matches
        )
