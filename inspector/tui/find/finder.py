"""A searchable list over the screen: matches while typing, Enter chooses one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.visible import cut, shorten

Spans = tuple[tuple[int, int], ...]
"""Matched ranges of a text."""

Score = tuple[int, int, int]
"""The worst and the sum of all words' scores, the lowest is best; how far it is from the view."""

HEX_PREFIX = re.compile(r"[0-9a-f]{2,}\Z")
"""Hexadecimal digits that may begin a hash."""

_FORMS = (r"\A{}\Z", r"\A{}", r"(?<![^\W_]){}(?![^\W_])", r"(?<![^\W_]){}", "{}")
"""A word is the whole text, its beginning, a part of it, the beginning of a part, or within."""

EXACT, BEGINNING, ELSEWHERE = 0, 1, len(_FORMS)
"""Scores, the lowest is best. Elsewhere: settings, operators, origin."""

MIN_TEXT_CELLS = 18
"""Cells that a text has before its detail is left out."""

MAX_ROWS = 500
"""Rows that are listed."""


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


def _fit(entry: Entry, words: Sequence[str]) -> tuple[Score, Spans] | None:
    """How well an entry fits, and where; None where a word is nowhere in it."""
    text, scores, spans = entry.text.casefold(), [], []
    for word in words:
        forms = [form.format(re.escape(word)) for form in _FORMS] if word in text else ()
        hits = ((n, hit) for n, form in enumerate(forms) if (hit := re.search(form, text)))
        score, hit = next(hits, (ELSEWHERE, None))
        if hit is not None:
            spans.append(hit.span())
        elif entry.digest.startswith(word) and HEX_PREFIX.match(word):
            score = EXACT if entry.digest == word else BEGINNING
        elif word not in entry.words:
            return None
        scores.append(score)
    worst, whole = max(scores), " ".join(words)
    if text.startswith(whole):
        worst = EXACT if text == whole else min(worst, BEGINNING)
    return (worst, sum(scores), entry.near), tuple(sorted(spans))


def rank(
    entries: Sequence[Entry], query: str, stages: Sequence[str] = (), nearest: bool = False
) -> list[Match]:
    """Return the entries that fit, the best first, then those nearest to what is in view.

    Without a query all of them in their order. ``nearest``: what is nearer comes before all else.
    With one of ``stages`` beside other words, what has such a stage comes with it: ``237 sass`` is
    the SASS of what fits ``237``.
    """
    words = query.casefold().split()
    if not words:
        return [Match(entry) for entry in entries]
    found = [
        (fit[0], 0, Match(one, fit[1]))
        for one in entries
        if not one.heading and (fit := _fit(one, words))
    ]
    for word, others in ((words[-1], words[:-1]), (words[0], words[1:])):
        stage = next((s for s in stages if len(word) > 1 and s.startswith(word)), None)
        if stage is None or not others:
            continue
        for one in entries:
            fit = _fit(one, others) if one.also is not None else None
            if fit and one.also is not None and (staged := one.also(stage)):
                found.append((fit[0], -1, Match(staged)))
        break
    found.sort(key=lambda one: (one[0][2] if nearest else 0, *one[:2]))
    return [match for _, _, match in found]


def row(match: Match, lead_cells: int, width: int) -> Content:
    """Return one row: its kind, its text with the matches marked, and details."""
    entry = match.entry
    if entry.heading:
        return Content.styled(cut(entry.text, width), "bold $primary")
    room = width - lead_cells - 1
    detail = f"  {entry.detail}" if entry.detail else ""
    if cell_len(detail) + MIN_TEXT_CELLS > room:
        detail = ""
    room -= cell_len(detail)
    name = Content(shorten(entry.text, room))
    for first, last in match.spans if name.plain == entry.text else ():
        name = name.stylize("bold underline $accent", first, last)
    more = cut(f"  {entry.more}", room - name.cell_length) if entry.more else ""
    lead = f"{cut(entry.lead, lead_cells):<{lead_cells}} "
    gap = " " * (room - name.cell_length - cell_len(more))
    return Content.assemble((lead, "$quiet"), name, (more, "$quiet"), gap, (detail, "$quiet"))


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
        later: Sequence[Callable[[], list[Entry]]] = (),
        stages: Sequence[str] = (),
        lead: int = 9,
        closes: str = "",
        nearest: bool = False,
        does: str = "goes there",
    ) -> None:
        """``hint`` is the placeholder; ``later`` finds further entries, each in a thread;
        ``closes`` is a key that closes an empty list; ``does`` describes Enter; ``lead`` is the
        width of the left column in cells."""
        super().__init__()
        self.heading, self.entries, self.later, self.stages = heading, [*entries], later, stages
        self.lead, self.closes, self.nearest, self.does = lead, closes, nearest, does
        self.matches: list[Match] = []
        self.field = Input(placeholder=hint, compact=True)
        self.options = OptionList()
        self.whole = Static(markup=False)

    def compose(self) -> ComposeResult:
        self.options.can_focus = False
        frame = Vertical(self.field, self.options, self.whole)
        frame.border_title = Content(self.heading)
        yield frame

    def on_mount(self) -> None:
        for n, find in enumerate(self.later):
            in_thread(self, find, self._found, f"later {n}")

    def on_resize(self) -> None:
        self.call_after_refresh(self.show, self.entry)

    @property
    def entry(self) -> Entry | None:
        at = self.options.highlighted
        return None if at is None or at >= len(self.matches) else self.matches[at].entry

    def _found(self, entries: list[Entry] | Notice) -> None:
        """Add entries; the cursor stays on its entry unless it is on the first."""
        if isinstance(entries, list):
            self.entries += entries
            self.show(self.entry if self.options.highlighted else None)

    def show(self, at: Entry | None = None) -> None:
        """Show the matches, with the cursor on the first or on ``at``."""
        query, width = self.field.value, max(20, self.options.scrollable_content_region.width)
        found = rank(self.entries, query, self.stages, self.nearest)
        self.matches = found[:MAX_ROWS] or [Match(Entry("", "Nothing fits.", heading=True))]
        self.options.clear_options()
        self.options.add_options(
            Option(row(m, self.lead, width), disabled=m.entry.heading) for m in self.matches
        )
        there = [i for i, m in enumerate(self.matches) if not m.entry.heading]
        own = [i for i in there if self.matches[i].entry is at]
        self.options.highlighted = next(iter(own + there), None)
        if not own:
            self.options.scroll_home(animate=False)
        many = sum(not entry.heading for entry in self.entries)
        count = f"{len(found)} of {many}" if query.strip() else f"{many}"
        subtitle = Content(f"{count} · Enter {self.does}, Esc closes")
        self.query_one(Vertical).border_subtitle = subtitle
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
        entry = self.entry or Entry("", "")
        said = "  ".join(part for part in (entry.more, entry.detail) if part)
        text = Content.assemble((entry.text, "bold"), "  ", (said, "$quiet"))
        self.whole.update("" if entry.heading else text)

    @on(OptionList.OptionSelected)
    def action_choose(self) -> None:
        entry = self.entry
        if entry is not None and entry.run is not None:
            self.dismiss(entry)
        elif entry is not None and entry.why:
            self.whole.update(Content.styled("⚠ " + entry.why, "bold $warning"))

    def on_click(self, event: events.Click) -> None:
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)

    async def action_move(self, how: str) -> None:
        await self.options.run_action(how)
