"""Rows of code as strips: the sign, the number, the gutter's columns, the text. Kept, since between
two frames only few differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from pygments.token import Token
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.base.model import Location
from inspector.tui.code.flow import FlowCell
from inspector.tui.code.gutter import CHOICES, Gutter
from inspector.tui.code.highlight import Highlighter, Spans
from inspector.tui.widgets.theme import token_style
from inspector.tui.widgets.visible import label

# -- tokens and matches as strips -----------------------------------------------------------------
# Tokens and matches as strips of styled segments.

MAX_MATCHES_PER_LINE = 200
"""Matches lit up in one line; more are not distinguished anyway."""


def code_strip(text: str, spans: Spans, dark: bool) -> Strip:
    """Return a line in the colours of its tokens, plain between them."""
    plain = token_style(Token, dark)
    segments = []
    at = 0
    for start, end, token in spans:
        if start > at:
            segments.append(Segment(text[at:start], plain))
        if end > start >= at:
            segments.append(Segment(text[start:end], token_style(token, dark)))
            at = end
    if at < len(text):
        segments.append(Segment(text[at:], plain))
    return Strip(segments)


def mark_matches(strip: Strip, text: str, pattern: re.Pattern[str], style: Style) -> Strip:
    """``strip`` with every match of ``pattern`` in its ``text`` in ``style``."""
    cuts: list[tuple[int, int]] = []
    for match in pattern.finditer(text):
        if match.end() > match.start():
            first = cell_len(text[: match.start()])
            cuts.append((first, first + cell_len(match.group())))
        if len(cuts) >= MAX_MATCHES_PER_LINE:
            break
    return styled(strip, cuts, style)


def styled(strip: Strip, cells: Iterable[tuple[int, int]], style: Style) -> Strip:
    """Return ``strip`` with some of its cells in ``style``, from the left to the right."""
    at, parts = 0, []
    for start, end in cells:
        parts.append(strip.crop(at, start))
        parts.append(
            Strip([Segment(s.text, (s.style or Style()) + style) for s in strip.crop(start, end)])
        )
        at = end
    return Strip.join([*parts, strip.crop(at, strip.cell_length)]) if parts else strip


def cropped(code: Strip, left: int, room: int, line: Style, sign: Style) -> Strip:
    """Return the part of a line in view, with a sign where it goes on."""
    right = left + room
    strip = code.crop(left, right).extend_cell_length(room).apply_style(line)
    if code.cell_length > right and room > 2:
        strip = Strip.join([strip.crop(0, room - 1), Strip([Segment("›", sign)], 1)])
    if left and code.cell_length and room > 2:
        strip = Strip.join([Strip([Segment("‹", sign)], 1), strip.crop(1, room)])
    return strip


# -- where a long line is broken ------------------------------------------------------------------

MAX_ROWS_PER_LINE = 200
"""Rows that one line takes at most; what is longer can be scrolled to with wrapping off."""


def breaks(text: str, room: int) -> tuple[int, ...]:
    """The cells at which the rows of ``text`` begin, the first 0; no wide character is cut."""
    if room < 2:
        return (0,)
    if text.isascii():
        return tuple(range(0, max(1, len(text)), room))[:MAX_ROWS_PER_LINE]
    out = [0]
    at = 0
    for char in text:
        wide = cell_len(char)
        if at + wide - out[-1] > room:
            if len(out) == MAX_ROWS_PER_LINE:
                break
            out.append(at)
        at += wide
    return tuple(out)


SIGNS = {"cursor": "▸", "linked": "▐", "defined": "●", "used": "○", "here": "▹", "plain": " "}


CURRENT = "⇒"
"""The line of the step at hand, where a kernel was run."""

WRAPPED = "↪"


def place_words(location: Location | None) -> tuple[str, ...]:
    """Where code is from, as said at the end of its row: with who inlined it, by itself, without
    the file; the first that there is room for is shown."""
    if location is None:
        return ()
    if not location.line:
        return ("no source line", "no line")
    frames = []
    for frame in location.frames()[:2]:
        column = f":{frame.column}" if frame.column else ""
        name = frame.file.replace("\\", "/").rpartition("/")[2]
        frames.append((label(name), f"{frame.line}{column}"))
    words = [f"{file}:{at}" if file else at for file, at in frames]
    return (*((" ← ".join(words),) if len(words) > 1 else ()), words[0], frames[0][1])


class Look(NamedTuple):
    """How a row is highlighted: one of ``SIGNS``, whether it is linked, whether it is chosen to be
    copied; the words of what is folded away there, and whether its first line is shown as well;
    whether it is the line of the step at hand; where its code is from, said in several ways; the
    colour of its source line, from 1, negative for that of the cursor's; 0 is none; the branches
    that pass it."""

    sign: str
    linked: bool = False
    chosen: bool = False
    folded: str = ""
    heading: bool = False
    current: bool = False
    places: tuple[str, ...] = ()
    tint: int = 0
    flow: tuple[FlowCell, ...] = ()


class Part(NamedTuple):
    """The cells of a line that a row shows: from ``start`` to ``end``, None if it is cut at the
    row's own width. ``again``: the line began in a row above."""

    start: int
    end: int | None = None
    again: bool = False


class CodeRows:
    """Makes the rows of one listing; ``part`` gives the style of a component by its name."""

    def __init__(self, part: Callable[[str], Style]) -> None:
        self.source: Highlighter | None = None
        self.gutter = Gutter(wanted=CHOICES[0])
        self.pattern: re.Pattern[str] | None = None
        self.register: re.Pattern[str] | None = None
        self.dark = True
        self.plain = Style()
        self.flow_width = 0
        """Cells that branches take before the text."""
        self.lettered = False
        """Whether letters represent the colours of source lines, where there are no colours."""
        self._part = part
        self._code = lru_cache(maxsize=2048)(self._make_code)
        self.row = lru_cache(maxsize=2048)(self._make_row)

    def forget(self) -> None:
        """What the rows are made of has changed."""
        self._code.cache_clear()
        self.row.cache_clear()

    @property
    def margin(self) -> int:
        """Cells before the text: sign, number, note, columns."""
        lines = 0 if self.source is None else len(self.source.texts)
        digits = len(str(max(lines, 99)))
        return digits + 2 + self.gutter.width + self.lettered + self.flow_width

    def text(self, n: int) -> str:
        """Line ``n`` as it is shown."""
        return "" if self.source is None else self.source.text(n)

    def _make_row(self, n: int, look: Look, part: Part, width: int) -> Strip:
        line = self.plain
        if look.chosen:
            line += self._part("code--chosen")
        elif look.sign == "cursor":
            line += self._part("code--cursor")
        elif look.current:
            line += self._part("code--current")
        elif look.tint:
            line += self._part(f"code--{'lit' if look.tint < 0 else 'tint'}-{abs(look.tint)}")
        elif look.linked:
            line += self._part("code--linked")
        quiet = line + self._part("code--gutter")
        start = self._start(n, look, part, line, quiet)
        room = max(0, width - self.margin)
        if look.folded and not look.heading:
            code = Strip([Segment(look.folded, quiet)])
            code = code.crop(0, room).extend_cell_length(room).apply_style(line)
        elif look.folded:
            code = self._heading(n, look.folded, room, line, quiet)
        elif part.end is not None:
            code = self._code(n).crop(part.start, part.end)
            code = code.extend_cell_length(room).apply_style(line)
        else:
            code = cropped(self._code(n), part.start, room, line, quiet)
        if look.places and not part.again and not look.folded:
            code = self._placed(
                code, look.places, self._code(n).cell_length - part.start, room, quiet
            )
        return Strip([*start, *code], max(width, self.margin))

    def _start(self, n: int, look: Look, part: Part, line: Style, quiet: Style) -> list[Segment]:
        """Sign, number, note and columns."""
        digits = self.margin - 2 - self.gutter.width - self.lettered - self.flow_width
        flow = [Segment(c.sign, line + self._part(f"code--{c.kind}")) for c in look.flow]
        if len(flow) < self.flow_width:
            flow.append(Segment(" " * (self.flow_width - len(flow)), line))
        mark = CURRENT if look.current else SIGNS[look.sign]
        sign = Segment(mark, line + self._part("code--mark"))
        if part.again:
            blank = " " * (1 + self.gutter.width + self.lettered)
            return [sign, Segment(f"{WRAPPED:>{digits}}", quiet), Segment(blank, quiet), *flow]
        note = self.gutter.sign(n)
        peak = line + self._part("code--peak")
        cells = [Segment(c, peak if loud else quiet) for c, loud in self.gutter.parts(n)]
        value, runs = self.gutter.value(n)
        own = line + self._part("code--value") if runs else quiet + Style(dim=True)
        letter = chr(ord("a") + abs(look.tint) - 1) if look.tint else " "
        letters = [Segment(letter.upper() if look.tint < 0 else letter, quiet)]
        return [
            sign,
            *(letters if self.lettered else ()),
            Segment(f"{n:>{digits}}", quiet),
            Segment(note, quiet if note == " " else line + self._part("code--note")),
            *cells,
            Segment(value, own),
            *flow,
        ]

    @staticmethod
    def _placed(code: Strip, places: tuple[str, ...], used: int, room: int, quiet: Style) -> Strip:
        """A row's code with where it is from at its right end, where that is free."""
        for words in places:
            width = cell_len(words)
            if max(0, used) + 2 + width <= room:
                return Strip([*code.crop(0, room - width), Segment(words, quiet)], room)
        return code

    def _heading(self, n: int, words: str, room: int, line: Style, quiet: Style) -> Strip:
        """The first line of what is folded, then how much of it there is."""
        tail = f" {words}"
        code = self._code(n)
        head = min(code.cell_length, max(0, room - len(tail)))
        strip = Strip([*code.crop(0, head), Segment(tail, quiet)])
        return strip.crop(0, room).extend_cell_length(room).apply_style(line)

    def _make_code(self, n: int) -> Strip:
        assert self.source is not None
        text, spans = self.source.text(n), self.source.spans(n)
        if self.pattern is not None and not self.pattern.search(text):
            own = self.source.own_text(n)
            if own != text and self.pattern.search(own):
                # The match is in a part that reading mode hides.
                text, spans = own, self.source.spans_of(own)
        strip = code_strip(text, spans, self.dark)
        if self.register is not None:
            strip = mark_matches(strip, text, self.register, self._part("code--register"))
        if self.pattern is not None:
            strip = mark_matches(strip, text, self.pattern, self._part("code--match"))
        return strip
