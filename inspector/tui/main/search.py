"""What one types: a search, a line, a filter; and what comes of it."""

from __future__ import annotations

import re
from bisect import bisect_left

from textual import on
from textual.screen import Screen

from inspector.tui.code.view import CodeView
from inspector.tui.main.pane import Pane
from inspector.tui.main.panes import Panes
from inspector.tui.main.status_line import StatusLine
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.visible import label


class Asking(Screen[None]):
    """A screen with a prompt; the widgets are made by who derives from it."""

    kernels: KernelTree
    panes: Panes
    status: StatusLine
    prompt: Prompt

    def __init__(self) -> None:
        super().__init__()
        self._origin: tuple[CodeView, int, re.Pattern[str] | None] | None = None
        self._wanted: re.Pattern[str] | None = None
        self._searching: set[Pane] = set()
        self._typing = False

    def changed(self) -> None:
        """Something is to be said of the active pane's line anew."""
        raise NotImplementedError

    def focus_tree(self) -> None:
        """Back to the tree."""
        raise NotImplementedError

    def _ask(self, kind: str, value: str = "") -> None:
        self.status.display = False
        self.prompt.ask(kind, value)

    def action_search(self) -> None:
        """Ask for a regular expression."""
        view = self.panes.active.view
        self._origin = (view, view.cursor, view.pattern)
        self._ask("search", view.pattern.pattern if view.pattern else "")

    def action_goto(self) -> None:
        """Ask for a line."""
        self._ask("goto")

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        if message.kind == "filter":
            self.kernels.filter(message.text)
        elif message.kind == "search":
            self._search(message.text, typing=True)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        self.status.display = True
        view = self.panes.active.view
        if message.kind == "filter":
            if not message.accepted:
                self.kernels.filter("")
            self.focus_tree()
            return
        self.set_focus(view)
        if message.kind == "search" and not message.accepted:
            self._give_up()
        elif message.accepted and message.text:
            (self._search if message.kind == "search" else self._goto)(message.text)

    def _warn(self, text: str) -> None:
        self.status.say(text, self.panes.active.view, warning=True)

    def _goto(self, text: str) -> None:
        try:
            self.panes.active.view.jump(int(text))
        except ValueError:
            self._warn(f"“{label(text)}” is no line number.")

    def _search(self, text: str, typing: bool = False) -> None:
        """Search in all panes. While one types the cursor goes to the first match from where it
        was; what is not yet an expression waits."""
        # As in vim's smartcase: small letters find both, one capital makes it exact.
        flags = re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE
        try:
            pattern = re.compile(text, flags)
        except (re.error, OverflowError, RecursionError) as error:
            if not typing:
                self._warn(f"“{label(text)}” is no regular expression: {error}")
            return
        self._wanted = pattern
        self._typing = typing
        if not text:
            if self._origin is not None:
                self._origin[0].go(self._origin[1])
            self._forget_search(None)
            return
        self._searching = {pane for pane in self.panes.panes if pane.view.source is not None}
        for pane in self._searching:
            pane.search(pattern)

    def _give_up(self) -> None:
        """Back to where the search began, with the pattern from before."""
        view, n, pattern = self._origin or (self.panes.active.view, 1, None)
        self._origin = self._wanted = None
        view.go(n)
        self._forget_search(pattern)

    def action_clear(self) -> None:
        """Choose no lines any more; else forget the search, in all panes."""
        if not self.panes.active.view.unchoose():
            self._wanted = self._origin = None
            self._forget_search(None)

    def _forget_search(self, pattern: re.Pattern[str] | None) -> None:
        for pane in self.panes.panes:
            pane.view.find(None, ())
            if pattern is not None:
                pane.search(pattern)
        self.changed()

    @on(Pane.Found)
    def _found(self, message: Pane.Found) -> None:
        view, lines = message.pane.view, message.lines
        if not isinstance(lines, tuple):
            self._warn("The search failed.")
            return
        if message.pattern is not self._wanted:
            # A pane that has another listing now looks there for what it looked for before.
            if self._wanted is None or not self._typing:
                view.find(message.pattern, lines)
                self.changed()
            return
        view.find(message.pattern, lines)
        self._searching.discard(message.pane)
        if message.pane is self.panes.active:
            if lines:
                self._first(view, lines)
            elif self._typing and self._origin is not None:
                view.go(self._origin[1])
        if not self._searching and not self.panes.active.view.matches and not self._typing:
            self._nothing(message.pattern)
        else:
            self.changed()

    def _first(self, view: CodeView, lines: tuple[int, ...]) -> None:
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

    def _nothing(self, pattern: re.Pattern[str]) -> None:
        found = ", ".join(f"{many} in {stage}" for stage, many in self.counts())
        elsewhere = f" here; {found}" if found else ""
        self._warn(f"Nothing fits “{label(pattern.pattern)}”{elsewhere}.")

    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many lines of the other panes have the pattern, where any has it."""
        return tuple(
            (str(pane.stage), len(pane.view.matches))
            for pane in self.panes.panes
            if pane is not self.panes.active and pane.view.matches
        )
