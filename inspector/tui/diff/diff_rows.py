"""Rows of a diff as strips: numbers, signs, code in its colours, what differs in a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.diff.beside import BesideRow, PassChange, Sign
from inspector.diff.compare import Compared
from inspector.report.diff_text import SIGNS
from inspector.tui.code.code_rows import code_strip, cropped, mark_matches, styled
from inspector.tui.code.highlight import Highlighter
from inspector.tui.widgets.visible import visible

Spans = Sequence[tuple[int, int]]

ONE_COLUMN = {
    Sign.EQUAL: ("  ", "  "),
    Sign.CHANGED: ("-~", "+~"),
    Sign.DELETED: ("- ", "- "),
    Sign.INSERTED: ("+ ", "+ "),
    Sign.MOVED_AWAY: ("» ", "» "),
    Sign.MOVED_HERE: ("« ", "« "),
}
"""The signs of lines of ``a`` and of ``b`` where both are in one column."""

_GROUNDS = {"-": "diff--removed", "+": "diff--added", "~": "diff--changed"}
_LOUD = {
    "-": "diff--minus",
    "+": "diff--plus",
    "~": "diff--tilde",
    "»": "diff--moved",
    "«": "diff--moved",
}


def moved_spans(raw: str, text: str, spans: Spans) -> list[tuple[int, int]]:
    """Characters of a line in its ``text`` as it is shown: tabs are expanded, symbols represent
    control characters, and the spaces before an instruction of SASS are fewer."""
    lost = len(visible(raw)) - len(text)

    def shown(at: int) -> int:
        return max(0, len(visible(raw[:at])) - lost)

    return [(shown(first), shown(last)) for first, last in spans]


class DiffRows:
    """Makes the rows of one comparison; ``part`` gives the style of a component by its name."""

    def __init__(self, part: Callable[[str], Style]) -> None:
        self.comparison: Compared | PassChange | None = None
        self.sources: tuple[Highlighter, ...] = ()
        self.dark = True
        self.plain = Style()
        self.pattern: re.Pattern[str] | None = None
        """What was searched for."""

        self._part = part
        self._code = lru_cache(maxsize=2048)(self._make_code)
        self._intra = lru_cache(maxsize=2048)(self._make_intra)

    def show(
        self, comparison: Compared | PassChange | None, sources: tuple[Highlighter, ...]
    ) -> None:
        """Make rows of another comparison from now on."""
        self.comparison, self.sources = comparison, sources
        self.forget()
        self._intra.cache_clear()

    def forget(self) -> None:
        """The colours have changed, or what was searched for."""
        self._code.cache_clear()

    @property
    def digits(self) -> int:
        """Cells of a line's number."""
        return len(str(max((len(source.texts) for source in self.sources), default=99)))

    def margin(self, beside: bool) -> int:
        """Cells of a row, of each side where there are two, that are no code."""
        return self.digits + 4 if beside else 2 * self.digits + 5

    def room(self, width: int, beside: bool) -> int:
        """Cells of code in a row of ``width``, of the narrower side where there are two."""
        return max(
            0, (width - 1) // 2 - self.margin(True) if beside else width - self.margin(False)
        )

    # Rows

    def fold(self, row: BesideRow, here: str, width: int) -> Strip:
        """What represents equal lines that are folded away."""
        line = self.plain + (self._part("diff--cursor") if here.strip() else Style())
        said = f"… {row.count} equal lines"
        quiet = line + self._part("diff--fold")
        mark = Segment(here, line + self._part("diff--mark"))
        return Strip([mark, Segment(said.center(width - 1), quiet)]).adjust_cell_length(width, line)

    def beside(self, row: BesideRow, here: str, left: int, width: int) -> Strip:
        """Both sides in one row; ``here`` is the mark of the cursor, or a space."""
        half = (width - 1) // 2
        sides = (half, width - 1 - half)
        parts = []
        for side, n in enumerate((row.a, row.b)):
            sign = SIGNS[row.sign][side]
            line = self._line(here, sign if n is not None else " ")
            mark = Segment(here if not side else " ", line + self._part("diff--mark"))
            number = Segment(
                f"{'' if n is None else n:>{self.digits}} ", line + self._part("diff--gutter")
            )
            loud = Segment(f"{sign} ", line + self._sign(sign))
            room = max(0, sides[side] - self.margin(True))
            code = self._fit(row, side, n, left, room, line)
            parts.append(Strip([mark, number, loud, *code]).adjust_cell_length(sides[side], line))
        rule = Strip([Segment("│", self.plain + self._part("diff--gutter"))], 1)
        return Strip.join([parts[0], rule, parts[1]])

    def unified(self, row: BesideRow, here: str, left: int, width: int) -> Strip:
        """One line in one row, or two that are equal."""
        side = int(row.a is None or (row.sign is Sign.EQUAL and row.b is not None))
        n = (row.a, row.b)[side]
        sign = ONE_COLUMN[row.sign][side]
        line = self._line(here, sign[0])
        numbers = " ".join(f"{'' if m is None else m:>{self.digits}}" for m in (row.a, row.b))
        start = [
            Segment(here, line + self._part("diff--mark")),
            Segment(f"{numbers} ", line + self._part("diff--gutter")),
            Segment(f"{sign} ", line + self._sign(sign[0])),
        ]
        room = max(0, width - self.margin(False))
        code = self._fit(row, side, n, left, room, line)
        return Strip([*start, *code]).adjust_cell_length(width, line)

    def _line(self, here: str, sign: str) -> Style:
        """The ground of a row: the cursor's, or that of its sign."""
        if here.strip():
            return self.plain + self._part("diff--cursor")
        name = _GROUNDS.get(sign)
        return self.plain if name is None else self.plain + self._part(name)

    def _sign(self, sign: str) -> Style:
        name = _LOUD.get(sign)
        return Style() if name is None else self._part(name)

    def _fit(
        self, row: BesideRow, side: int, n: int | None, left: int, room: int, line: Style
    ) -> Strip:
        """The part of line ``n`` in view, with signs where it goes on and where it moved to."""
        if n is None:
            return Strip.blank(room, line)
        tail = ""
        if row.other is not None and row.sign in (Sign.MOVED_AWAY, Sign.MOVED_HERE):
            tail = f" {'→' if row.sign is Sign.MOVED_AWAY else '←'} {row.other}"
        inner = max(0, room - len(tail))
        code = self._code(side, n, self._partner(row, side))
        quiet = line + self._part("diff--gutter")
        strip = cropped(code, left, inner, line, quiet)
        if not tail:
            return strip
        return Strip.join([strip, Strip([Segment(tail, line + self._part("diff--moved"))])])

    @staticmethod
    def _partner(row: BesideRow, side: int) -> int | None:
        """The line of the other side that a changed line became, or was."""
        if row.sign is not Sign.CHANGED:
            return None
        other = row.a if side else row.b
        return row.other if other is None else other

    def _make_code(self, side: int, n: int, partner: int | None) -> Strip:
        source = self.sources[side]
        text = source.text(n)
        strip = code_strip(text, source.spans(n), self.dark)
        if partner is not None:
            spans = self._intra(partner, n)[1] if side else self._intra(n, partner)[0]
            shown = moved_spans(source.texts[n - 1], text, spans)
            cells = [(cell_len(text[:first]), cell_len(text[:last])) for first, last in shown]
            strip = styled(strip, cells, self._part("diff--new" if side else "diff--old"))
        if self.pattern is not None:
            strip = mark_matches(strip, text, self.pattern, self._part("diff--match"))
        return strip

    def first_mark(self, row: BesideRow) -> int | None:
        """The cell of its code at which a changed row begins to differ; None if it does not."""
        out = []
        for side, n in enumerate((row.a, row.b)):
            partner = self._partner(row, side)
            if n is not None and partner is not None:
                raw, text = self.sources[side].texts[n - 1], self.sources[side].text(n)
                spans = self._intra(partner, n)[1] if side else self._intra(n, partner)[0]
                at = [first for first, _ in moved_spans(raw, text, spans[:1])]
                out += [cell_len(text[:first]) for first in at]
        return min(out, default=None)

    def _make_intra(self, a: int, b: int) -> tuple[Spans, Spans]:
        if self.comparison is None:
            return (), ()
        try:
            return self.comparison.intra(a, b)
        except Exception:  # what differs in a line is not worth the line
            return (), ()
