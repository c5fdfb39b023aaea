"""Searching in a diff: a regular expression, in the lines of both sides, found in a thread."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from textual import on, work
from textual.message import Message
from textual.screen import Screen
from textual.worker import get_current_worker

from inspector.diff.beside import BesideRow, Sign
from inspector.text import plural
from inspector.tui.code.highlight import Highlighter
from inspector.tui.diff.diff_bars import DiffStatus
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.diff.diff_work import DiffOutcome, Layout
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import label, shorten

CHUNK = 1024
"""Lines between two looks whether another search has begun."""

Rows = tuple[int, ...]


def expression(text: str) -> re.Pattern[str]:
    """As in vim's smartcase: small letters find both, one capital makes it exact.

    Raises ``re.error``, ``OverflowError`` or ``RecursionError`` for what is no expression.
    """
    return re.compile(text, re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE)


def _lines(
    source: Highlighter, pattern: re.Pattern[str], cancelled: Callable[[], bool]
) -> frozenset[int]:
    out = []
    for n in range(1, len(source.texts) + 1):
        if n % CHUNK == 0 and cancelled():
            break
        if pattern.search(source.text(n)):
            out.append(n)
    return frozenset(out)


def _rows(layout: Layout | None, a: frozenset[int], b: frozenset[int], one: bool) -> Rows:
    """The rows with one of these lines; in ``one`` column of equal lines only b's is shown."""

    def has(row: BesideRow) -> bool:
        return row.b in b or (row.a in a and not (one and row.sign is Sign.EQUAL))

    rows: Sequence[BesideRow] = () if layout is None else layout.rows
    return tuple(index for index, row in enumerate(rows) if has(row))


class DiffSearching(Screen[None]):
    """A screen with a diff in which one searches; the widgets are made by who derives from it."""

    view: DiffView
    status: DiffStatus
    prompt: Prompt
    footer: KeyFooter

    class Found(Message):
        """A thread has searched: the rows of the two layouts."""

        def __init__(
            self, pattern: re.Pattern[str], outcome: DiffOutcome, answer: tuple[Rows, Rows] | Notice
        ) -> None:
            super().__init__()
            self.pattern = pattern
            self.outcome = outcome
            self.found = answer

    def __init__(self) -> None:
        super().__init__()
        self.prompt = Prompt()
        self.pattern: re.Pattern[str] | None = None
        self._found: tuple[Rows, Rows] = ((), ())
        self._before: tuple[int, re.Pattern[str] | None] | None = None
        self._typing = False

    @property
    def matches(self) -> Rows:
        """The rows that have what is searched for."""
        return self._found[0 if self.view.beside else 1]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are letters while one types."""
        return self.focused is not self.prompt.input

    def action_search(self) -> None:
        """Ask for a regular expression."""
        self._before = (self.view.cursor, self.pattern)
        self.status.display = False
        self.prompt.ask("search", self.pattern.pattern if self.pattern else "")

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        message.stop()
        self._search(message.text, typing=True)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        message.stop()
        self.status.display = True
        self.set_focus(self.view)
        if not message.accepted:
            row, pattern = self._before or (self.view.cursor, None)
            self._before = None
            self.view.go(row)
            self._wish(pattern, typing=False)
        elif message.text:
            self._search(message.text, typing=False)
        else:
            self.forget()

    def _search(self, text: str, typing: bool) -> None:
        try:
            pattern = expression(text) if text else None
        except (re.error, OverflowError, RecursionError) as error:
            if not typing:
                self.status.say(f"“{label(text)}” is not a regular expression: {error}")
            return
        if pattern is None and self._before is not None:
            self.view.go(self._before[0])
        self._wish(pattern, typing)

    def _wish(self, pattern: re.Pattern[str] | None, typing: bool) -> None:
        self.pattern, self._typing = pattern, typing
        if pattern is None:
            self._light(((), ()))
        else:
            self.search_again()

    def forget(self) -> bool:
        """Search for nothing any more; whether something was searched for."""
        had, self._before = self.pattern is not None, None
        self._wish(None, typing=False)
        return had

    def search_again(self) -> None:
        """Another comparison is shown, or another pattern is wanted."""
        outcome = self.view.outcome
        if self.pattern is not None and outcome is not None:
            self._find(self.pattern, outcome)

    @work(
        thread=True, exclusive=True, group="diff-search", exit_on_error=False, description="search"
    )
    def _find(self, pattern: re.Pattern[str], outcome: DiffOutcome) -> None:
        worker = get_current_worker()

        def find() -> tuple[Rows, Rows]:
            if outcome.sources is None:
                return (), ()
            a, b = (_lines(s, pattern, lambda: worker.is_cancelled) for s in outcome.sources)
            return _rows(outcome.beside, a, b, False), _rows(outcome.unified, a, b, True)

        answer = attempt(find)
        if not worker.is_cancelled:
            self.post_message(self.Found(pattern, outcome, answer))

    @on(Found)
    def _were_found(self, message: Found) -> None:
        message.stop()
        if message.pattern is not self.pattern or message.outcome is not self.view.outcome:
            return
        if isinstance(message.found, Notice):
            self.status.say("The search failed.")
            return
        self._light(message.found)
        begun = self._before
        if begun is not None:
            at = bisect_left(self.matches, begun[0])
            self.view.reach(self.matches[at % len(self.matches)] if self.matches else begun[0])
        if not self._typing:
            self._before = None

    def _light(self, found: tuple[Rows, Rows]) -> None:
        self._found = found
        self.view.rows.pattern = self.pattern
        self.view.rows.forget()
        self.view.refresh()
        self.footer.say("diff.next", "next change" if self.pattern is None else "next match")
        self.tell_match()
        self.status.follow(self.view)

    def tell_match(self) -> None:
        """Which match the cursor stands on."""
        at, many = bisect_left(self.matches, self.view.cursor), len(self.matches)
        if self.pattern is None:
            told = ""
        elif not many:
            told = f"nothing matches “{shorten(label(self.pattern.pattern), 24)}”"
        elif self.matches[at : at + 1] == (self.view.cursor,):
            told = f"match {at + 1} of {many}"
        else:
            told = plural(many, "match")
        self.status.match = told

    def action_again(self, step: int) -> None:
        """The next match, round the ends; the next change where nothing is searched for."""
        if self.pattern is None:
            self.view.action_change(step)
        elif self.matches:
            here = self.view.cursor
            at = (bisect_right(self.matches, here) if step > 0
                  else bisect_left(self.matches, here) - 1)  # fmt: skip
            self.view.reach(self.matches[at % len(self.matches)])
