"""The text of one stage with a cursor: what the keys of a pane do to it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from textual import events
from textual.message import Message

from inspector.tui.code_listing import CodeListing
from inspector.tui.commands import Where, bindings
from inspector.tui.folding import LEVELS, Fold
from inspector.tui.gutter import CHOICES
from inspector.tui.visible import label

USUAL = ("usual",)
"""Remembered instead of the columns that there are at first, which may be others one day."""


def _next(lines: tuple[int, ...], here: int, step: int) -> int:
    """The next (``step`` 1) or previous (-1) of ``lines`` from ``here`` on, round the ends."""
    at = bisect_left(lines, here + 1) if step > 0 else bisect_left(lines, here) - 1
    return lines[at % len(lines)]


class CodeView(CodeListing, can_focus=True, inherit_bindings=False):
    """A listing with a cursor, linked lines, matches and folds; or a notice instead of one."""

    BINDINGS = bindings(Where.PANE)

    class Jumped(Message):
        """The cursor is about to go far from line ``n``, to which one may want to come back."""

        def __init__(self, view: CodeView, n: int) -> None:
            super().__init__()
            self.view = view
            self.n = n

    class Said(Message):
        """A word on what a key has done."""

        def __init__(self, view: CodeView, text: str, warning: bool = False) -> None:
            super().__init__()
            self.view = view
            self.text = text
            self.warning = warning

    # Columns and folds

    @property
    def looks(self) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """What is folded, by its words; the columns that are wanted; whether lines are wrapped."""
        folds = tuple(kind.value for kind in Fold if kind in self.level)
        wanted = self.rows.gutter.wanted
        return folds, USUAL if wanted == CHOICES[0] else wanted, self.wrapped

    def look(self, folds: tuple[str, ...], columns: tuple[str, ...], wrapped: bool) -> None:
        """As it was left; before there is anything to look at."""
        self.level = frozenset(kind for kind in Fold if kind.value in folds)
        if columns != USUAL:
            self.rows.gutter = replace(self.rows.gutter, wanted=columns)
        self.wrapped = wrapped

    def action_columns(self) -> None:
        """The next choice of columns."""
        wanted = self.rows.gutter.wanted
        at = CHOICES.index(wanted) + 1 if wanted in CHOICES else 0
        self.columns(CHOICES[at % len(CHOICES)])

    def action_note(self, step: int) -> None:
        """To the next or previous line that has a note, round the ends."""
        noted = self.rows.gutter.telling.noted
        if noted:
            self.jump(_next(noted, self.cursor, step))

    def action_fold(self) -> None:
        """Fold what the cursor is in, or unfold it."""
        region = self.map.fold(self.cursor) or self.region_at(self.cursor, dict(self.regions))
        if region is None:
            self.post_message(self.Said(self, "Nothing to fold here.", warning=True))
            return
        self._flipped ^= {region}
        self.cursor = region.first
        self.fold()
        self.post_message(self.Moved(self))

    def action_fold_level(self) -> None:
        """Fold more kinds of lines, then none."""
        at = LEVELS.index(self.level) + 1 if self.level in LEVELS else 0
        self.level = LEVELS[at % len(LEVELS)]
        self._flipped = set()
        self.fold()
        kinds = ", ".join(kind.value for kind in Fold if kind in self.level)
        said = f"Folded: {kinds}." if kinds else "Nothing is folded."
        self.post_message(self.Said(self, said.replace("the function", "functions")))

    def action_wrap(self) -> None:
        """Break lines that are too long, or let them go on to the right."""
        self.wrapped = not self.wrapped
        self.measure()
        if self.wrapped:
            self.scroll_to(x=0, animate=False, force=True)
        self.reveal(self.cursor, self.cursor)

    # Moving

    def jump(self, n: int) -> None:
        """Go far: one can come back."""
        self.post_message(self.Jumped(self, self.cursor))
        self.go(n)

    def _go_rows(self, rows: int) -> None:
        if self.lines:
            row = self.map.row(self.cursor) + rows
            self.go(self.map.line(max(0, min(row, self.map.rows - 1))))

    def action_move(self, by: int) -> None:
        """Up or down by rows."""
        self._go_rows(by)

    def action_page(self, pages: float) -> None:
        """Up or down by pages, the view and the cursor together."""
        first, last = self.span()
        high = last - first if self.wrapped else self.size.height - 1
        rows = max(1, int(high * abs(pages))) * (1 if pages > 0 else -1)
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)
        self._go_rows(rows)

    def action_edge(self, side: int) -> None:
        """To the first or the last row."""
        if self.lines:
            self.jump(1 if side < 0 else self.map.line(self.map.rows - 1))

    def action_sideways(self, cells: int) -> None:
        """Left or right."""
        if not self.wrapped:
            self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True)

    def unchoose(self) -> bool:
        """Choose no lines any more; False where none were."""
        chosen, self.chosen_from = self.chosen_from is not None, None
        if chosen:
            self.refresh()
            self.post_message(self.Moved(self))
        return chosen

    def action_match(self, step: int) -> None:
        """To the next or previous line that has the pattern, round the ends."""
        if self.matches:
            self.jump(_next(self.matches, self.cursor, step))

    def action_use(self, step: int) -> None:
        """To the next or previous line that uses the value of the register that is looked at."""
        used = () if self.register is None else self.register.used
        if used:
            self.jump(_next(used, self.cursor, step))
        else:
            self._no_register("used")

    def action_definition(self) -> None:
        """To the line that defines it; of several the last one above, else the last."""
        defined = () if self.register is None else self.register.defined
        others = tuple(n for n in defined if n != self.cursor)
        if others:
            self.jump(_next(others, self.cursor, -1))
        elif defined and self.register is not None:
            name = label(self.register.name)
            self.post_message(self.Said(self, f"{name} is assigned on this line."))
        else:
            self._no_register("defined")

    def _no_register(self, what: str) -> None:
        if self.register is None:
            text = "No register is looked at: r chooses one of the line's."
        else:
            text = f"No line is known where {label(self.register.name)} is {what}."
        self.post_message(self.Said(self, text, warning=True))

    def action_choose(self) -> None:
        """Begin to choose lines to copy, or end it."""
        if not self.unchoose() and self.lines:
            self.chosen_from = self.cursor
            self.refresh()
            text = "Lines are chosen from here on: y copies them, Esc forgets them."
            self.post_message(self.Said(self, text))

    def action_verbatim(self) -> None:
        """A disassembly with all its spaces, or with fewer."""
        if self.source is not None:
            self.source.as_it_is(verbatim=self.source.squeeze)
            self.rows.forget()
            self.measure()

    def on_click(self, event: events.Click) -> None:
        """The line that was clicked; a second click on what is folded unfolds it."""
        offset = event.get_content_offset(self)
        laid = self.laid() if self.source is not None else []
        if offset is not None and 0 <= offset.y < len(laid):
            self.go(laid[offset.y][0])
            if event.chain == 2 and self.map.fold(self.cursor) is not None:
                self.action_fold()

    def on_focus(self) -> None:
        """This view's cursor is the one that the others follow now."""
        self.post_message(self.Moved(self))
