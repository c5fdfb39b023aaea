"""Lines of a report over the screen, of which some lead to a kernel or to a line of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.content import Content, Span
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from inspector.tui.widgets.tool_screen import ChoiceList

if TYPE_CHECKING:
    from inspector.render import compiles  # it delays the first frame

FRAME_CELLS = 6
"""Columns of the frame, the padding and the scrollbar; of a text in the frame its corners."""

SEPARATOR = " · "


LINES = {"bold cyan": "bold $accent", "bold red": "bold $error", "yellow": "$warning"}
"""What the colours of a line are in a theme, whose grounds each can be read on."""
GROUNDS = {
    "blue": "cursor-line",
    "cyan": "lit-7",
    "green": "lit-2",
    "magenta": "lit-5",
    "red": "lit-1",
    "yellow": "lit-8",
}
"""The background of a phase's letter, by the colour that a terminal gives it."""


def themed(text: Text) -> Content:
    line = str(text.style)
    spans = [Span(0, len(text.plain), LINES.get(line, line))] if line else []
    for span in text.spans:
        style = str(span.style)
        ground = GROUNDS.get(style.removesuffix(" reverse")) if style.endswith(" reverse") else None
        span_style = LINES.get(style, style) if ground is None else f"$foreground on ${ground}"
        spans.append(Span(span.start, span.end, span_style))
    return Content(text.plain, spans=spans)


Target = TypeVar("Target")


class LinesScreen(ChoiceList[Target]):
    """Lines of a report; Enter goes to the line of the program that one is about, or to the
    kernel: its id or the hash of its variant. ``make`` is given the width."""

    BINDINGS: ClassVar = [
        Binding("escape,q,K,dollar_sign", "dismiss", "Close", show=False),
        Binding("n", "section(1)", show=False),
        Binding("N", "section(-1)", show=False),
    ]

    KEYS: ClassVar = "n next part"
    """Keys and what they do, those that a narrow frame leaves out last."""
    CLOSES: ClassVar = "Esc closes"

    def __init__(self, title: str, make: Callable[[int], Iterable[compiles.CompileLine]]) -> None:
        super().__init__(title, OptionList())  # rows are made when the width is known
        self.make = make
        self.heading = title
        self.opened = False
        self.rows: list[compiles.CompileLine] = []
        self.awaited = ""
        """What is waited for, beneath the rows in the place of the keys; "" if nothing."""

    def fill(self) -> None:
        """Make the lines again, for the present width."""
        width = max(self.size.width - FRAME_CELLS, 20)
        highlighted = self.options.highlighted
        old_rows = self.rows
        top = self.options.scroll_offset.y
        self.rows = list(self.make(width))
        if highlighted is not None and old_rows[highlighted].leads:
            highlighted = same_row(old_rows, highlighted, self.rows)
        else:
            highlighted = None
        self.options.set_options(
            Option(themed(_hanging(row.text, width)), disabled=not row.text.plain)
            for row in self.rows
        )
        targets = (n for n, row in enumerate(self.rows) if row.place or row.kernel)
        self.options.highlighted = (
            highlighted if highlighted is not None else next(targets, 0 if self.rows else None)
        )
        if old_rows:
            self.options.scroll_to(y=top, animate=False)
            self.options.scroll_to_highlight()

    on_resize = fill

    @on(OptionList.OptionSelected)
    def _line_selected(self, message: OptionList.OptionSelected) -> None:
        self.choose(self.rows[message.option_index])

    def choose(self, row: compiles.CompileLine) -> None:
        """Do what Enter does on a row."""
        if row.opens:
            self.opened = not self.opened
            self.fill()
            self.call_after_refresh(self.options.scroll_to_highlight, top=True)
        elif row.place is not None or row.kernel is not None:
            target: Any = row.place or row.kernel
            self.dismiss(target)

    @on(OptionList.OptionHighlighted)
    def _line_highlighted(self, message: OptionList.OptionHighlighted) -> None:
        self._describe(self.rows[message.option_index])

    def wait_for(self, text: str) -> None:
        """Say in the frame what is waited for; "" shows the keys again."""
        self.awaited = text
        index = self.options.highlighted
        if index is not None:
            self._describe(self.rows[index])
        elif text:
            self.options.border_subtitle = Content(text)

    def _describe(self, row: compiles.CompileLine) -> None:
        """Write into the frame what a row is about, and the keys that work there."""
        enter = self.answer_to_enter(row)
        parts = list(filter(None, (enter, *self.KEYS.split(SEPARATOR), self.CLOSES)))
        width = self.size.width - FRAME_CELLS
        while len(parts) > 2 and cell_len(SEPARATOR.join(parts)) > width:
            del parts[-2]  # the way out stays
        self.options.border_subtitle = Content(self.awaited or SEPARATOR.join(parts))
        self.options.border_title = Content(" · ".join(filter(None, (self.heading, row.about))))

    def answer_to_enter(self, row: compiles.CompileLine) -> str:
        """What Enter does on a row; "" if nothing."""
        if row.opens:
            return "Enter opens"
        if row.place is not None:
            return "Enter: its line"
        return "Enter: its kernel" if row.kernel is not None else ""

    def action_section(self, step: int) -> None:
        heads = [0, *(n + 1 for n, row in enumerate(self.rows) if not row.text.plain)]
        current = self.options.highlighted or 0
        headings = [n for n in heads if (n > current if step > 0 else n < current)]
        if headings:
            self.options.highlighted = headings[0] if step > 0 else headings[-1]
            self.options.scroll_to_highlight(top=True)


def same_row(
    old_rows: Sequence[compiles.CompileLine], index: int, rows: Sequence[compiles.CompileLine]
) -> int:
    """Where a row about a kernel is after rows have moved; the same place for any other row."""
    kernel = old_rows[index].kernel if index < len(old_rows) else None
    if kernel is not None:
        ordinal = sum(row.kernel == kernel for row in old_rows[:index])
        places = [n for n, row in enumerate(rows) if row.kernel == kernel]
        if ordinal < len(places):
            return places[ordinal]
    elif index < len(old_rows) and old_rows[index].text.plain:
        # What only a profile names is about no kernel, but reads the same.
        text = old_rows[index].text.plain
        places = [n for n, row in enumerate(rows) if row.text.plain == text]
        is_unique = sum(row.text.plain == text for row in old_rows) == 1
        if is_unique and len(places) == 1:
            return places[0]
    return min(index, len(rows) - 1)


def _hanging(text: Text, width: int) -> Text:
    if "\n" in text.plain or text.cell_len <= width:
        return text
    indent = " " * (len(text.plain) - len(text.plain.lstrip(" ")) + 2)
    return Text("\n".join(wrap(text.plain, width, subsequent_indent=indent)), text.style)
