"""A list over the screen that one types in: what fits is shown at once, and Enter goes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from inspector.report.naming import apart
from inspector.tui.find.ranking import Entry, Match, Spans, rank
from inspector.tui.widgets.visible import cut

LEAST = 18
"""Cells that the text has before what is said of it is left out."""


class FoundList(ScrollView, can_focus=False):
    """What fits, one row each, drawn when it comes into view."""

    COMPONENT_CLASSES: ClassVar = {
        "found--cursor", "found--lead", "found--heading", "found--match", "found--quiet",
        "found--text",
    }  # fmt: skip

    class Chosen(Message):
        """A row was clicked."""

    class Moved(Message):
        """The cursor is on another row."""

    def __init__(self, lead: int) -> None:
        """``lead`` is how many cells the column at the left has."""
        super().__init__()
        self.lead = lead
        self.matches: list[Match] = []
        self.cursor = 0

    @property
    def entry(self) -> Entry | None:
        """What the cursor is on."""
        there = 0 <= self.cursor < len(self.matches)
        return self.matches[self.cursor].entry if there else None

    def show(self, matches: list[Match], at: Entry | None = None) -> None:
        """Show these, the cursor on the first one, or where ``at`` stands."""
        self.matches = matches
        self.virtual_size = Size(0, len(matches))
        first = next((i for i, m in enumerate(matches) if not m.entry.heading), 0)
        own = (i for i, m in enumerate(matches) if m.entry is at)
        self.cursor = first if at is None else next(own, first)
        self.scroll_to(y=0, animate=False, force=True)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def move(self, by: int) -> None:
        """Up or down by rows, over headings, as far as there are any."""
        step = 1 if by > 0 else -1
        for _ in range(abs(by)):
            at = self.cursor + step
            while 0 <= at < len(self.matches) and self.matches[at].entry.heading:
                at += step
            if not 0 <= at < len(self.matches):
                if step < 0:
                    self.scroll_to(y=0, animate=False, force=True)
                break
            self.cursor = at
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if height and self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif height and self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def on_resize(self) -> None:
        """The cursor stays in view."""
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked."""
        offset = event.get_content_offset(self)
        if offset is None or self.scroll_offset.y + offset.y >= len(self.matches):
            return
        at = self.scroll_offset.y + offset.y
        if not self.matches[at].entry.heading:
            self.cursor = at
            self.refresh()
            self.post_message(self.Chosen())

    def _part(self, name: str) -> Style:
        return self.get_component_rich_style(f"found--{name}", partial=True)

    def render_line(self, y: int) -> Strip:
        """Row ``y`` of the view."""
        width, at = self.scrollable_content_region.width, self.scroll_offset.y + y
        base = self.rich_style
        if at >= len(self.matches):
            if not self.matches and y == 0:
                text = cut("  Nothing fits.", width)
                return Strip([Segment(text, base + self._part("quiet"))]).adjust_cell_length(
                    width, base
                )
            return Strip.blank(width, base)
        entry, spans = self.matches[at].entry, self.matches[at].spans
        if entry.heading:
            text = cut(f" {entry.text}", width)
            return Strip([Segment(text, base + self._part("heading"))]).adjust_cell_length(
                width, base
            )
        if at == self.cursor:
            base = base + self._part("cursor")
        lead = ("›" if at == self.cursor else " ") + cut(entry.lead, self.lead).ljust(self.lead)
        room = width - cell_len(lead) - 2
        detail = entry.detail if cell_len(entry.detail) + LEAST + 2 <= room else ""
        room -= cell_len(detail) + 2 if detail else 0
        text = self._text(entry.text, room)
        parts = [Segment(f"{lead} ", base + self._part("lead"))]
        parts += self._marked(text, spans if text == entry.text else (), base)
        left = room - cell_len(text)
        more = cut(f"  {entry.more}", left) if entry.more and left > 6 else ""
        parts.append(Segment(more, base + self._part("quiet")))
        gap = width - sum(cell_len(part.text) for part in parts) - cell_len(detail) - 1
        parts += [Segment(" " * max(0, gap), base), Segment(detail, base + self._part("lead"))]
        return Strip(parts).adjust_cell_length(width, base)

    def _text(self, text: str, room: int) -> str:
        """A text that is too long keeps what tells it from those around it."""
        if cell_len(text) <= room:
            return text
        first = self.scroll_offset.y
        around = self.matches[first : first + max(1, self.size.height)]
        names = [match.entry.text for match in around if not match.entry.heading]
        return apart([text, *names], max(1, room))[text]

    def _marked(self, text: str, spans: Spans, base: Style) -> list[Segment]:
        """A text with what was typed marked in it."""
        plain, marked = base + self._part("text"), base + self._part("match")
        parts, at = [], 0
        for first, last in spans:
            if first >= at:
                parts += [Segment(text[at:first], plain), Segment(text[first:last], marked)]
                at = last
        return [*parts, Segment(text[at:], plain)]


class Finder(ModalScreen[Entry | None]):
    """Gives the entry that was chosen, None if none was."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c", "dismiss", "Close", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("ctrl+home", "move(-1000000)", show=False, priority=True),
        Binding("ctrl+end", "move(1000000)", show=False, priority=True),
        Binding("tab", "move(1)", show=False, priority=True),
        Binding("shift+tab", "move(-1)", show=False, priority=True),
        Binding("enter", "choose", show=False, priority=True),
    ]

    def __init__(
        self,
        heading: str,
        entries: Sequence[Entry],
        hint: str,
        stages: Sequence[str] = (),
        lead: int = 9,
        closes: str = "",
        nearest: bool = False,
        does: str = "goes there",
    ) -> None:
        """``hint`` stands where nothing is typed yet; ``closes``, typed first, closes it; ``does``
        says what Enter does."""
        super().__init__()
        self.heading = heading
        self.entries = list(entries)
        self.stages = stages
        self.closes = closes
        self.nearest = nearest
        self.does = does
        self.field = Input(placeholder=hint, compact=True)
        self.found = FoundList(lead)
        self.whole = Static(markup=False)

    def compose(self) -> ComposeResult:
        """What is typed, what fits, and the whole of what the cursor is on."""
        frame = Vertical(self.field, self.found, self.whole)
        frame.border_title = Content(self.heading)
        yield frame

    def on_mount(self) -> None:
        """Everything, until something is typed."""
        self._rank()

    def add(self, entries: Sequence[Entry]) -> None:
        """More was found; the cursor stays where it is unless it was on the first."""
        self.entries += entries
        at = self.found.entry if self.found.cursor else None
        self._rank(at)

    def _rank(self, at: Entry | None = None) -> None:
        query = self.field.value
        matches = rank(self.entries, query, self.stages, self.nearest)
        self.found.show(matches, at)
        many = sum(not entry.heading for entry in self.entries)
        count = f"{len(matches)} of {many}" if query.strip() else f"{many}"
        self.query_one(Vertical).border_subtitle = Content(
            f"{count} · Enter {self.does}, Esc closes"
        )

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.closes and event.value == self.closes:
            self.dismiss(None)
        else:
            self._rank()

    @on(FoundList.Moved)
    def _moved(self) -> None:
        entry = self.found.entry
        if entry is None or entry.heading:
            self.whole.update("")
            return
        said = "  ".join(part for part in (entry.more, entry.detail) if part)
        self.whole.update(Content.assemble((entry.text, "bold"), ("  ", ""), (said, "$quiet")))

    @on(FoundList.Chosen)
    def _clicked(self) -> None:
        self.action_choose()

    def on_click(self, event: events.Click) -> None:
        """A click beside it closes it."""
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        """Up or down."""
        self.found.move(by)

    def action_page(self, pages: int) -> None:
        """Up or down by pages."""
        self.found.move(pages * max(1, self.found.size.height - 1))

    def action_choose(self) -> None:
        """What the cursor is on."""
        entry = self.found.entry
        if entry is not None and entry.run is not None:
            self.dismiss(entry)
        elif entry is not None and entry.why:
            self.whole.update(Content.assemble(("⚠ " + entry.why, "bold $warning")))
