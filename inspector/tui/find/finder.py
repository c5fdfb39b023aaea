"""A searchable list over the screen: matches while typing, Enter chooses one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from inspector.report.naming import apart
from inspector.tui.widgets.visible import cut

Spans = tuple[tuple[int, int], ...]
"""Matched ranges of a text."""

HEX_PREFIX = re.compile(r"[0-9a-f]{2,}\Z")
"""Hexadecimal digits that may begin a hash."""

_FORMS = (r"\A{}\Z", r"\A{}", r"(?<![^\W_]){}(?![^\W_])", r"(?<![^\W_]){}", "{}")
"""A word is the whole text, its beginning, a part of it, the beginning of a part, or within."""

EXACT, BEGINNING, ELSEWHERE = 0, 1, len(_FORMS)
"""Scores, the lowest is best. Elsewhere: settings, operators, origin."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Something that can be found. All texts are safe to draw.

    ``lead`` says what it is, ``more`` describes it, ``detail`` is at the right end. ``words`` are
    looked in as well, ``digest`` is found by its beginning. ``near`` is how far it is from what is
    in view: 0 is there. ``run`` is what Enter does, None: nothing, and ``why`` says why. ``also``
    returns the same at a stage, which is a word of those that are typed: its PTX.
    """

    lead: str
    text: str
    more: str = ""
    detail: str = ""
    words: str = ""
    digest: str = ""
    near: int = 0
    run: Callable[[], object] | None = None
    heading: bool = False
    why: str = ""
    also: Callable[[str], Entry | None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """An entry that fits, and where."""

    entry: Entry
    spans: Spans = ()


Word = tuple[str, tuple[re.Pattern[str], ...]]
Score = tuple[int, int, int]


def _word(text: str) -> Word:
    return text, tuple(re.compile(form.format(re.escape(text))) for form in _FORMS)


def _fit(entry: Entry, text: str, word: Word) -> tuple[int, Spans] | None:
    """How a word fits, and where."""
    plain, patterns = word
    if entry.digest == plain:
        return EXACT, ()
    if plain in text:
        for score, pattern in enumerate(patterns):
            if found := pattern.search(text):
                return score, (found.span(),)
    if entry.digest.startswith(plain) and HEX_PREFIX.match(plain):
        return BEGINNING, ()
    return (ELSEWHERE, ()) if plain in entry.words else None


def _score(entry: Entry, words: Sequence[Word]) -> tuple[Score, Spans] | None:
    """Score an entry; None where a word is nowhere."""
    text = entry.text.casefold()
    fits = [fit for word in words if (fit := _fit(entry, text, word)) is not None]
    if len(fits) < len(words):
        return None
    worst = max(score for score, _ in fits)
    whole = " ".join(plain for plain, _ in words)
    if text.startswith(whole):
        worst = EXACT if text == whole else min(worst, BEGINNING)
    spans = sorted(span for _, spans in fits for span in spans)
    return (worst, sum(score for score, _ in fits), entry.near), tuple(spans)


def rank(
    entries: Sequence[Entry], query: str, stages: Sequence[str] = (), nearest: bool = False
) -> list[Match]:
    """Return the entries that fit, the best first, then those nearest to what is in view.

    Without a query all of them in their order. ``nearest``: what is nearer comes before all else.
    With one of ``stages`` beside other words, what has such a stage comes with it: ``237 sass`` is
    the SASS of what fits ``237``.
    """
    words = [*map(_word, query.casefold().split())]
    if not words:
        return [Match(entry) for entry in entries]
    scored = [
        (fit[0], 0, Match(entry, fit[1]))
        for entry in entries
        if not entry.heading and (fit := _score(entry, words)) is not None
    ]
    for stage, others in _staged(words, stages):
        for entry in entries:
            fit = None if entry.also is None else _score(entry, others)
            if fit is not None and entry.also is not None and (one := entry.also(stage)):
                scored.append((fit[0], -1, Match(one)))
    scored.sort(key=lambda one: (one[0][2] if nearest else 0, *one[:2]))
    return [match for _, _, match in scored]


def _staged(words: list[Word], stages: Sequence[str]) -> Iterator[tuple[str, list[Word]]]:
    """The stage that the last word begins, or the first one, and the words beside it."""
    for word, others in ((words[-1], words[:-1]), (words[0], words[1:])):
        stage = next((s for s in stages if len(word[0]) > 1 and s.startswith(word[0])), None)
        if stage is not None and others:
            yield stage, others
            return


MIN_TEXT_CELLS = 18
"""Cells that a text has before its detail is left out."""

MAX_ROWS = 500
"""Rows that are listed."""


def row(match: Match, text: str, lead_cells: int, width: int) -> Content:
    """Return one row: its kind, its text with the matches marked, and details."""
    entry = match.entry
    if entry.heading:
        return Content.styled(cut(entry.text, width), "bold $primary")
    lead = Content.styled(f"{cut(entry.lead, lead_cells):<{lead_cells}} ", "$quiet")
    room = width - lead.cell_length
    detail = entry.detail if cell_len(entry.detail) + MIN_TEXT_CELLS + 2 <= room else ""
    room -= cell_len(detail) + 2 if detail else 0
    name = Content(cut(text, room))
    for first, last in match.spans if text == entry.text else ():
        name = name.stylize("bold underline $accent", first, last)
    left = room - name.cell_length
    more = cut(f"  {entry.more}", left) if entry.more and left > 6 else ""
    gap = " " * max(0, left - cell_len(more) + (2 if detail else 0))
    return Content.assemble(lead, name, (more, "$quiet"), gap, (detail, "$quiet"))


class Finder(ModalScreen[Entry | None]):
    """Returns the chosen entry, or None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c", "dismiss", "Close", show=False, priority=True),
        Binding("down,ctrl+n,tab", "move('cursor_down')", show=False, priority=True),
        Binding("up,ctrl+p,shift+tab", "move('cursor_up')", show=False, priority=True),
        Binding("pagedown", "move('page_down')", show=False, priority=True),
        Binding("pageup", "move('page_up')", show=False, priority=True),
        Binding("ctrl+home", "move('first')", show=False, priority=True),
        Binding("ctrl+end", "move('last')", show=False, priority=True),
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
        """``hint`` is the placeholder; ``closes`` is a key that closes an empty list; ``does``
        describes Enter; ``lead`` is the width of the left column in cells."""
        super().__init__()
        self.heading, self.entries, self.stages = heading, list(entries), stages
        self.lead, self.closes, self.nearest, self.does = lead, closes, nearest, does
        self.matches: list[Match] = []
        self.field = Input(placeholder=hint, compact=True)
        self.options = OptionList()
        self.whole = Static(markup=False)

    def compose(self) -> ComposeResult:
        """Compose the input, the matches, and the whole text of the highlighted one."""
        self.options.can_focus = False
        frame = Vertical(self.field, self.options, self.whole)
        frame.border_title = Content(self.heading)
        yield frame

    def on_resize(self) -> None:
        """Draw the rows for another width."""
        self.call_after_refresh(self.show, self.entry)

    @property
    def entry(self) -> Entry | None:
        """The highlighted entry."""
        at = self.options.highlighted
        return None if at is None or at >= len(self.matches) else self.matches[at].entry

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries; the cursor stays on its entry unless it is on the first."""
        self.entries += entries
        self.show(self.entry if self.options.highlighted else None)

    def show(self, at: Entry | None = None) -> None:
        """Show the matches, with the cursor on the first or on ``at``."""
        query, width = self.field.value, max(20, self.options.scrollable_content_region.width)
        found = rank(self.entries, query, self.stages, self.nearest)
        self.matches = found[:MAX_ROWS]
        room = max(1, width - self.lead - 3)
        names = [m.entry.text for m in self.matches if not m.entry.heading]
        # A text that is too long keeps what tells it from the others.
        short = apart(names, room) if any(cell_len(name) > room for name in names) else {}
        self.options.clear_options()
        self.options.add_options(
            Option(
                row(m, short.get(m.entry.text, m.entry.text), self.lead, width),
                disabled=m.entry.heading,
            )
            for m in self.matches
        )
        if not self.matches:
            self.options.add_option(Option("Nothing fits.", disabled=True))
        there = [i for i, m in enumerate(self.matches) if not m.entry.heading]
        own = next((i for i in there if self.matches[i].entry is at), None)
        self.options.highlighted = own if own is not None else next(iter(there), None)
        if own is None:
            self.options.scroll_home(animate=False)
        many = sum(not entry.heading for entry in self.entries)
        count = f"{len(found)} of {many}" if query.strip() else f"{many}"
        self.query_one(Vertical).border_subtitle = Content(
            f"{count} · Enter {self.does}, Esc closes"
        )
        self._show_whole()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.closes and event.value == self.closes:
            self.dismiss(None)
        else:
            self.show()

    @on(OptionList.OptionHighlighted)
    def _show_whole(self) -> None:
        entry = self.entry
        if entry is None or entry.heading:
            self.whole.update("")
        else:
            said = "  ".join(part for part in (entry.more, entry.detail) if part)
            self.whole.update(Content.assemble((entry.text, "bold"), "  ", (said, "$quiet")))

    @on(OptionList.OptionSelected)
    def action_choose(self) -> None:
        """Choose the highlighted entry."""
        entry = self.entry
        if entry is not None and entry.run is not None:
            self.dismiss(entry)
        elif entry is not None and entry.why:
            self.whole.update(Content.styled("⚠ " + entry.why, "bold $warning"))

    def on_click(self, event: events.Click) -> None:
        """Close it after a click outside."""
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)

    async def action_move(self, how: str) -> None:
        """Move the cursor."""
        await self.options.run_action(how)
