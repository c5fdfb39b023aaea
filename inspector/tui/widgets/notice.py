"""What is in a pane that has nothing to show: a sentence, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip

from inspector.tui.widgets.visible import visible


@dataclass(frozen=True, slots=True)
class Notice:
    """``sign`` says without colour what kind of notice it is; the texts may be anything."""

    sign: str
    message: str
    hint: str = ""


def _wrapped(text: str, width: int, style: Style) -> list[Strip]:
    return [
        Strip([Segment(line.plain.rstrip(), style)])
        for paragraph in text.split("\n")
        for line in Content(visible(paragraph)).wrap(max(1, width)) or [Content("")]
    ]


def notice_row(
    notice: Notice | None, y: int, width: int, base: Style, message: Style, hint: Style
) -> Strip:
    """Row ``y`` of a view that has nothing but the notice to show."""
    strips = notice_strips(notice, width, base + message, base + hint)
    if 0 <= y - 1 < len(strips):
        return strips[y - 1].extend_cell_length(width, base).apply_style(base)
    return Strip.blank(width, base)


def notice_strips(notice: Notice | None, width: int, message: Style, hint: Style) -> list[Strip]:
    """The notice in rows of at most ``width`` cells, a column free on either side."""
    if notice is None:
        return []
    room = max(1, width - 2)
    rows = _wrapped(f"{notice.sign} {notice.message}".strip(), room, message)
    if notice.hint:
        rows += [Strip([Segment("")]), *_wrapped(notice.hint, room, hint)]
    return [Strip([Segment(" ", message), *row]) for row in rows]
