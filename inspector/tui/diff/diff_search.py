"""Searching in a diff: a regular expression, in the lines of both sides, found in a thread."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from textual import on

from inspector.base.text import plural
from inspector.diff.beside import BesideRow, Sign
from inspector.tui.diff.diff_bars import where
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.diff.diff_work import Layout
from inspector.tui.panes.pane import matches
from inspector.tui.panes.pane_screen import BAD_EXPRESSION, expression
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.threads import in_thread
from inspector.tui.widgets.tool_screen import ToolScreen
from inspector.tui.widgets.visible import label, shorten

Rows = tuple[int, ...]


def _rows(layout: Layout | None, a: frozenset[int], b: frozenset[int], one: bool) -> Rows:
    """The rows with one of these lines; in ``one`` column of equal lines only b's is shown."""

    def has(row: BesideRow) -> bool:
        return row.b in b or (row.a in a and not (one and row.sign is Sign.EQUAL))

    rows: Sequence[BesideRow] = () if layout is None else layout.rows
    return tuple(index for index, row in enumerate(rows) if has(row))


class DiffSearching(ToolScreen[None]):
    """A screen with a diff in which one searches."""

    def __init__(self) -> None:
        super().__init__()
        self.view = DiffView()
        self.pattern: re.Pattern[str] | None = None
        self._found: tuple[Rows, Rows] = ((), ())
        self._before: tuple[int, re.Pattern[str] | None] | None = None

    @property
    def matches(self) -> Rows:
        """The rows that have what is searched for."""
        return self._found[0 if self.view.beside else 1]

    def action_search(self) -> None:
        """Ask for a regular expression."""
        self._before = (self.view.cursor, self.pattern)
        self.ask("search", self.pattern.pattern if self.pattern else "")

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        message.stop()
        self._search(message.text)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        message.stop()
        self.status.display = True
        self.set_focus(self.view)
        if not message.accepted:
            row, pattern = self._before or (self.view.cursor, None)
            self._before = None
            self.view.go(row)
            self._wish(pattern)
        elif message.text:
            self._search(message.text)
        else:
            self.forget()

    def _search(self, text: str) -> None:
        try:
            pattern = expression(text) if text else None
        except BAD_EXPRESSION as error:
            if not self.prompt.display:
                self.status.say(f"“{label(text)}” is not a regular expression: {error}")
            return
        if pattern is None and self._before is not None:
            self.view.go(self._before[0])
        self._wish(pattern)

    def _wish(self, pattern: re.Pattern[str] | None) -> None:
        self.pattern = pattern
        if pattern is None:
            self._light(((), ()))
        self.search_again()

    def forget(self) -> bool:
        """Clear the search; return whether there was one."""
        had, self._before = self.pattern is not None, None
        self._wish(None)
        return had

    def search_again(self) -> None:
        """Search another comparison, or for another pattern."""
        pattern, outcome = self.pattern, self.view.outcome
        if pattern is None or outcome is None:
            return

        def find() -> tuple[Rows, Rows]:
            if outcome.sources is None:
                return (), ()
            a, b = (frozenset(matches(s, pattern, s.text)) for s in outcome.sources)
            return _rows(outcome.beside, a, b, False), _rows(outcome.unified, a, b, True)

        def found(rows: tuple[Rows, Rows] | Notice) -> None:
            if pattern is not self.pattern or outcome is not self.view.outcome:
                return
            if isinstance(rows, Notice):
                self.status.say("The search failed.")
                return
            self._light(rows)
            begun = self._before
            if begun is not None:
                at = bisect_left(self.matches, begun[0])
                self.view.reach(self.matches[at % len(self.matches)] if self.matches else begun[0])
            if not self.prompt.display:
                self._before = None

        in_thread(self, find, found, "diff-search")

    def _light(self, found: tuple[Rows, Rows]) -> None:
        self._found = found
        self.view.rows.pattern = self.pattern
        self.view.rows.forget()
        self.view.refresh()
        self.footer.say("diff.next", "next change" if self.pattern is None else "next match")
        self.follow()

    def follow(self) -> None:
        """Show the lines under the cursor, which match and which change it is."""
        left, right = where(self.view)
        self.status.show(left, " · ".join(part for part in (self._match(), right) if part))

    def _match(self) -> str:
        at, many = bisect_left(self.matches, self.view.cursor), len(self.matches)
        if self.pattern is None:
            return ""
        if not many:
            return f"nothing matches “{shorten(label(self.pattern.pattern), 24)}”"
        if self.matches[at : at + 1] == (self.view.cursor,):
            return f"match {at + 1} of {many}"
        return plural(many, "match")

    def action_again(self, step: int) -> None:
        """The next match, round the ends; the next change where nothing is searched for."""
        if self.pattern is None:
            self.view.action_change(step)
        elif self.matches:
            here = self.view.cursor
            at = (
                bisect_right(self.matches, here)
                if step > 0
                else bisect_left(self.matches, here) - 1
            )
            self.view.reach(self.matches[at % len(self.matches)])
