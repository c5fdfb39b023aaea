"""What a pane shows of a listing: the cursor, the links, the matches, what is told, the folds."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType

from textual.message import Message

from inspector.analyse.telling import NOTHING, Register, Telling
from inspector.tui.code_window import MARGIN, CodeWindow
from inspector.tui.folding import LEVELS, Fold, Region
from inspector.tui.gutter import Gutter
from inspector.tui.highlight import Highlighter
from inspector.tui.notice import Notice
from inspector.tui.row_map import RowMap

GAP = 6
"""Linked lines that lie this close are shown as one block, where the pane has room."""


class CodeListing(CodeWindow, inherit_bindings=False):
    """The state of what is shown, and how it changes; keys are the affair of who derives."""

    class Moved(Message):
        """The cursor went to another line, or another listing came."""

        def __init__(self, view: CodeListing) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> CodeListing:
            """The view whose cursor it is."""
            return self.view

    def __init__(self) -> None:
        super().__init__()
        self.untouched = True
        self.level: frozenset[Fold] = LEVELS[0]
        self.regions: Mapping[Fold, tuple[Region, ...]] = {}
        self._maps: Mapping[frozenset[Fold], RowMap] = {}
        self._flipped: set[Region] = set()
        self._top = 1

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """What was searched for."""
        return self.rows.pattern

    # What is shown

    def show(self, source: Highlighter, width: int, top: int, at: int) -> None:
        """Show a listing whose widest line has about ``width`` cells.

        The cursor goes to line ``at``; line ``top``, the kernel's first, stays in view if it can.
        """
        self.rows.source, self.notice = source, None
        self.rows.dark, self.rows.plain = self.app.current_theme.dark, self.rich_style
        self._begin(width)
        self._columns(Gutter(NOTHING, self.rows.gutter.wanted))
        self.cursor = max(1, min(at, self.lines))
        self.untouched = True
        self._top = top
        self._place()
        self.post_message(self.Moved(self))

    def _begin(self, width: int) -> None:
        self.linked, self._linked, self.matches = (), frozenset(), ()
        self.regions, self._maps, self._flipped, self.chosen_from = {}, {}, set(), None
        self._width = width
        self.map = RowMap(self.lines)
        self._light_up(None)

    def _place(self) -> None:
        """Scroll to where reading begins."""
        top = self.map.row(self._top) if self.lines else 0
        self.scroll_to(0, max(0, top - MARGIN), animate=False, force=True)
        self.reveal(self.cursor, self.cursor)

    def on_resize(self) -> None:
        """The cursor stays in view; before the first move, so does the kernel's first line."""
        self.measure()
        if self.untouched:
            self._place()
        else:
            self.reveal(self.cursor, self.cursor)

    def begin(self, n: int) -> None:
        """Begin on line ``n`` instead, which is not yet a move of the user's."""
        self.go(n)
        self.untouched = True

    def show_notice(self, notice: Notice) -> None:
        """Show a sentence and a hint instead of a listing."""
        self.rows.source, self.notice = None, notice
        self._begin(0)
        self.measure()
        self.post_message(self.Moved(self))

    def link(self, lines: tuple[int, ...], follow: bool) -> None:
        """Mark ``lines``; with ``follow``, bring them into view and take the cursor along."""
        lines = tuple(n for n in lines if 1 <= n <= self.lines)
        if lines != self.linked:
            self.linked, self._linked = lines, frozenset(lines)
            self.refresh()
            self.refresh_marks()
        if follow and lines and self.cursor not in self._linked:
            self.cursor = self.nearest(lines)
            last = self.cursor
            for n in lines[bisect_left(lines, last) :]:
                # Directives and labels stand between the instructions of one statement.
                if n - last > GAP:
                    break
                last = n
            self.reveal(self.cursor, last)
            self.refresh()

    def find(self, pattern: re.Pattern[str] | None, matches: tuple[int, ...]) -> None:
        """Light up a pattern; ``matches`` are the lines that have it, for n and N."""
        self.rows.pattern, self.matches = pattern, matches
        self.rows.forget()
        self.refresh()
        self.refresh_marks()

    # What is told of the lines

    def annotate(self, telling: Telling) -> None:
        """The analysis has answered: fill the gutter."""
        self._columns(Gutter(telling, self.rows.gutter.wanted))

    def _columns(self, gutter: Gutter) -> None:
        self.rows.gutter = gutter
        self.rows.forget()
        self.measure()
        self.refresh_marks()

    def columns(self, wanted: tuple[str, ...]) -> None:
        """Show these columns, where the listing has something for them."""
        self._columns(Gutter(self.rows.gutter.telling, wanted))

    def light_up(self, register: Register | None) -> None:
        """Mark where a register is defined and used, and its name wherever it stands."""
        if register != self.register:
            self._light_up(register)
            self.rows.forget()
            self.refresh()

    def _light_up(self, register: Register | None) -> None:
        self.register = register
        self._places = {}
        self.rows.register = None
        if register is not None:
            self._places = dict.fromkeys(register.used, "used")
            self._places.update(dict.fromkeys(register.defined, "defined"))
            self.rows.register = re.compile(rf"(?<![\w%$.]){re.escape(register.name)}(?![\w$])")

    # Folding

    def foldable(
        self,
        regions: Mapping[Fold, tuple[Region, ...]],
        maps: Mapping[frozenset[Fold], RowMap] = MappingProxyType({}),
    ) -> None:
        """What can be folded is known: fold what is wanted so, nothing on the screen moving.

        ``maps`` are those of the usual levels, as a thread has made them.
        """
        self.regions, self._maps, self._flipped = regions, maps, set()
        self.fold()

    def _folds(self) -> list[Region]:
        """What is folded: what is wanted so but for what was flipped."""
        out: list[Region] = []
        for kind, each in self.regions.items():
            flipped = sorted(region for region in self._flipped if region.kind is kind)
            if kind not in self.level:
                out += flipped
                continue
            at = 0
            for region in flipped:
                end = bisect_left(each, region)
                out += each[at:end]
                at = end + 1
            out += each[at:]
        return out

    def fold(self) -> None:
        """Fold anew; the cursor's row stays where it is."""
        at = self.map.row(self.cursor) - self.scroll_offset.y
        known = None if self._flipped else self._maps.get(self.level)
        self.map = known or RowMap(self.lines, self._folds())
        self.measure()
        if self.untouched:
            self._place()
        else:
            top = max(0, self.map.row(self.cursor) - at)
            self.scroll_to(y=top, animate=False, force=True)
            self.reveal(self.cursor, self.cursor)
        self.refresh_marks()

    def go(self, n: int) -> None:
        """Put the cursor on line ``n``, or the nearest there is; what hides it is unfolded."""
        if not self.lines:
            return
        n = max(1, min(n, self.lines))
        self.untouched = False
        while (hidden := self.map.fold(n)) is not None and n != hidden.first:
            self._flipped ^= {hidden}
            self.fold()
        if n != self.cursor:
            self.cursor = n
            self.post_message(self.Moved(self))
        self.reveal(n, n)
        self.refresh()
        self.refresh_marks()
