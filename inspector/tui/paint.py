"""Tokens and matches as strips of styled segments."""

from __future__ import annotations

import re

from pygments.token import Token
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from inspector.tui.highlight import Spans
from inspector.tui.theme import token_style

MARKED = 200
"""Matches lit up in one line; more are not told apart anyway."""


def code_strip(text: str, spans: Spans, dark: bool) -> Strip:
    """A line in the colours of its tokens; what lies between them is plain."""
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
        if len(cuts) >= MARKED:
            break
    if not cuts:
        return strip
    at = 0
    parts = []
    for start, end in cuts:
        parts.append(strip.crop(at, start))
        marked = [Segment(s.text, (s.style or Style()) + style) for s in strip.crop(start, end)]
        parts.append(Strip(marked))
        at = end
    parts.append(strip.crop(at, strip.cell_length))
    return Strip.join(parts)
