"""A search in all panes: what was typed, where it began, and what was found."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from inspector.tui.code.code_view import CodeView
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.panes import Panes
from inspector.tui.widgets.visible import label


class Search:
    """What is being looked for in the panes.

    ``warn`` tells the user a sentence; ``changed`` is called when something is to be said of the
    active pane's line anew.
    """

    def __init__(
        self, panes: Panes, warn: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._panes = panes
        self._warn = warn
        self._changed = changed
        self._origin: tuple[CodeView, int, re.Pattern[str] | None] | None = None
        self._wanted: re.Pattern[str] | None = None
        self._searching: set[Pane] = set()
        self._typing = False

    def begin(self) -> str:
        """Remember where the search begins; the text to begin with is the last search's."""
        view = self._panes.active.view
        self._origin = (view, view.cursor, view.pattern)
        return view.pattern.pattern if view.pattern else ""

    def look_for(self, text: str, typing: bool = False) -> None:
        """Search in all panes. While one types the cursor goes to the first match from where it
        was; what is not yet an expression waits."""
        # As in vim's smartcase: small letters find both, one capital makes it exact.
        flags = re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE
        try:
            pattern = re.compile(text, flags)
        except (re.error, OverflowError, RecursionError) as error:
            if not typing:
                self._warn(f"“{label(text)}” is not a regular expression: {error}")
            return
        self._wanted = pattern
        self._typing = typing
        if not text:
            if self._origin is not None:
                self._origin[0].go(self._origin[1])
            self._forget(None)
            return
        self._searching = {pane for pane in self._panes.panes if pane.view.source is not None}
        for pane in self._searching:
            pane.search(pattern)

    def give_up(self) -> None:
        """Back to where the search began, with the pattern from before."""
        view, n, pattern = self._origin or (self._panes.active.view, 1, None)
        self._origin = self._wanted = None
        view.go(n)
        self._forget(pattern)

    def clear(self) -> None:
        """Forget the search, in all panes."""
        self._wanted = self._origin = None
        self._forget(None)

    def _forget(self, pattern: re.Pattern[str] | None) -> None:
        for pane in self._panes.panes:
            pane.view.find(None, ())
            if pattern is not None:
                pane.search(pattern)
        self._changed()

    def found(self, message: Pane.Found) -> None:
        """A pane has looked through its listing."""
        view, lines = message.pane.view, message.lines
        if not isinstance(lines, tuple):
            self._warn("The search failed.")
            return
        if message.pattern is not self._wanted:
            # A pane that has another listing now looks there for what it looked for before.
            if self._wanted is None or not self._typing:
                view.find(message.pattern, lines)
                self._changed()
            return
        view.find(message.pattern, lines)
        self._searching.discard(message.pane)
        if message.pane is self._panes.active:
            if lines:
                self._to_first(view, lines)
            elif self._typing and self._origin is not None:
                view.go(self._origin[1])
        if not self._searching and not self._panes.active.view.matches and not self._typing:
            self._say_nothing_fits(message.pattern)
        else:
            self._changed()

    def _to_first(self, view: CodeView, lines: tuple[int, ...]) -> None:
        """To the first match from where the search began."""
        begun = self._origin
        start = begun[1] if begun is not None and begun[0] is view else view.cursor
        at = bisect_left(lines, start)
        target = lines[at % len(lines)]
        if not self._typing:
            self._origin = self._wanted = None
            if target != start:
                view.post_message(CodeView.Jumped(view, start))
        if target != view.cursor:
            view.go(target)

    def _say_nothing_fits(self, pattern: re.Pattern[str]) -> None:
        matches = ", ".join(f"{many} in {stage}" for stage, many in self.counts())
        elsewhere = f" here; {matches}" if matches else ""
        self._warn(f"Nothing matches “{label(pattern.pattern)}”{elsewhere}.")

    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many lines of the other panes have the pattern, where any has it."""
        return tuple(
            (str(pane.stage), len(pane.view.matches))
            for pane in self._panes.panes
            if pane is not self._panes.active and pane.view.matches
        )
