"""The view of one listing, with a cursor, and the commands of a pane.

One module because it is one class: commands need the cursor, rows, folds, map and scroll position
at once; parts that do not are in the modules beside it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace
from rich.style import Style
from textual import events
from textual.geometry import Region as ScreenRegion
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from inspector.analysis.flow.arrows import FlowLanes
from inspector.analysis.line_annotations import (
    HUES,
    NOTHING,
    Register,
    SourceGroups,
)
from inspector.base.model import Stage
from inspector.base.units import plural
from inspector.tui.code.code_rows import (
    CHOICES,
    COLUMNS,
    CYCLES,
    LIVE,
    SAMPLES,
    STALL,
    CodeRows,
    Fold,
    Folding,
    MarkedBar,
    Marks,
    Part,
    Region,
    RowMap,
    along,
    arrow_at,
    breaks,
    lanes_shown,
    place_words,
    title,
)
from inspector.tui.code.highlight import IR, SEARCH_LINES, Highlighter
from inspector.tui.keys.command_table import KeyContext, bindings
from inspector.tui.widgets.notice import Notice, in_thread, label, notice_row

# Only rows in view are drawn and measured: a million lines cost what a page does. Rows are lines
# without folded ones (``RowMap``); a wrapped row takes several rows of the screen.

MARGIN_LINES = 2
"""Lines kept visible above and below the cursor and a linked run."""

MAX_MARKS = 2000
"""Matches that are marked in the scrollbar; of more, a share."""

MAX_LIT_LINES = 40
MAX_LIT_SHARE = 0.4
"""Lines of one source line, and their share of those that have a colour, that are lit up: where
almost all lines come from one, bright rows everywhere say nothing."""

MAX_GAP_LINES = 6
"""Lines between linked lines that are shown as one block, where the pane has room."""


_PARTS = (
    "gutter cursor linked match mark notice hint note peak register chosen found link "
    "current value loop branch own"
)
"""Names of the parts that have styles of their own."""


class CodeView(ScrollView, inherit_bindings=False, can_focus=True):
    """A listing with a cursor, linked lines, matches and folds; or a notice instead of one."""

    BINDINGS = bindings(KeyContext.PANE)

    COMPONENT_CLASSES: ClassVar = {
        *(f"code--{name}" for name in _PARTS.split()),
        *(f"code--{how}-{hue}" for how in ("tint", "lit") for hue in range(1, HUES + 1)),
    }

    class Looks(Message):
        """Folds, wrapping, the reading mode or the columns before the text changed."""

    class Simulate(Message):
        """Cycles by line are wanted."""

    @dataclass
    class Moved(Message):
        """The cursor moved, or the listing changed."""

        view: CodeView

    def __init__(self) -> None:
        super().__init__()
        self.rows = CodeRows(self)
        self.choices = CHOICES
        self.notice: Notice | None = None
        self.cursor = 1
        self.wrapped = False
        self.with_addresses = True
        self._laid: tuple[object, list[tuple[int, Part]]] = (None, [])
        self.untouched = True
        self._modes: tuple[tuple[str, str], ...] = ()
        self.folding = Folding()
        self._top = 1
        self._led = False
        self._largest = "", 0
        self.simulated_blocks = ""
        """The blocks that cycles by line are of."""
        self._begin(0)

    def _begin(self, width: int) -> None:
        """Forget the previous listing's facts and its view."""
        self.linked: tuple[int, ...] = ()
        self.matches: tuple[int, ...] = ()
        self.gone_to = False
        """Whether the cursor was put on a line since the listing is shown; ``untouched`` says
        whether anybody would miss where it is."""
        self.line_siblings: tuple[int, ...] = ()
        """Lines that the line became which one came here from: the search keys walk them."""
        self.current: tuple[int, ...] = ()
        self.groups: SourceGroups | None = None
        self.lit = 0
        self._lightable: dict[int, bool] = {}
        self.rows.lettered = False
        self.flow: FlowLanes | None = None
        self.rows.flow_width = 0
        self.folding.set_regions({})
        self.selection_start: int | None = None
        self._width = width
        self.map = RowMap(self.lines)
        self.register: Register | None = None
        self.signs: dict[int, str] = {}
        self.rows.register = None

    def say(self, text: str, warning: bool = False) -> None:
        screen: Any = self.screen
        screen.say(text, self, warning)

    @property
    def looks(self) -> dict[str, Any]:
        selected = self.rows.gutter.selected
        return {
            "level": self.folding.level,
            "gutter": None if selected == CHOICES[0] else selected,
            "verbatim": self.folding.as_it_is,
            "wrapped": self.wrapped,
            "addresses": self.with_addresses,
        }

    @property
    def modes(self) -> tuple[tuple[str, str], ...]:
        if not self.lines:
            return ()
        out = [("wrapped", "wrap")] if self.wrapped else []
        if self.folding.as_it_is:
            return (*out, ("as it is", "verbatim"))
        hidden = self.lines - self.map.rows
        if hidden:
            out.append((f"{hidden} folded", "verbatim"))
        elif self.folding.level:
            out.append(("unfolded", "fold.level"))
        return tuple(out)

    def look(
        self,
        level: int,
        gutter: tuple[str, ...] | None,
        verbatim: bool,
        wrapped: bool,
        addresses: bool = True,
    ) -> None:
        """Look at listings from now on as at others before."""
        self.with_addresses = addresses
        self.folding.level = level
        self.folding.as_it_is = verbatim
        if gutter is not None:
            self.rows.gutter = replace(self.rows.gutter, selected=gutter)
        self.wrapped = wrapped

    def action_columns(self) -> None:
        gutter = self.rows.gutter
        choice_count = len(self.choices)
        index = self.choices.index(gutter.selected) if gutter.selected in self.choices else -1
        for n in range(index + 1, index + 1 + choice_count):
            self.columns(selected=self.choices[n % choice_count])
            if self.rows.gutter.columns != gutter.columns:
                return
        self.say("No column is known for this listing.", warning=True)

    def jump_among(self, lines: tuple[int, ...], step: int, otherwise: str) -> None:
        if lines:
            index = bisect_left(lines, self.cursor + (step > 0)) - (step < 0)
            self.jump(lines[index % len(lines)])
        else:
            self.say(otherwise, warning=True)

    def action_note(self, step: int) -> None:
        self.jump_among(self.rows.gutter.annotations.noted, step, "No line has a note here.")

    def action_largest(self, column: str) -> None:
        gutter = self.rows.gutter
        lines = self.lines

        def ranked(ranked_lines: tuple[int, ...]) -> None:
            if gutter is not self.rows.gutter:
                return
            if not ranked_lines:
                self.say(f"No line of this listing has any {title(column)}.", warning=True)
                return
            # Where one went on by oneself, it begins again with the largest.
            continued = self._largest == (column, self.cursor) and self.cursor in ranked_lines
            index = (ranked_lines.index(self.cursor) + 1) % len(ranked_lines) if continued else 0
            self._largest = column, ranked_lines[index]
            self.jump(ranked_lines[index])
            figure = gutter.figure(column, ranked_lines[index]) or 0
            place = (
                f"number {index + 1} of {len(ranked_lines)}" if index else "the most of any line"
            )
            amount = plural(int(figure), COLUMNS[column].unit)
            if column == CYCLES and self.simulated_blocks:
                amount += f" of {self.simulated_blocks}"
            # A simulation counts a wait on the line that is waited for.
            waits = ", here or waiting for its result" if column == CYCLES else ""
            more = "; ^p Most cycles simulates" if column == STALL else ""
            self.say(f"{amount}{waits}, {place}; again goes to the next largest{more}.")

        if column in gutter.available:
            in_thread(self, lambda: gutter.ranked(column, lines), ranked, "rank")
        else:
            self.say(f"No {title(column)} are known for this listing.", warning=True)

    def action_worst(self) -> None:
        """Go to the line with the largest of the figures that say most of where time goes."""
        available = self.rows.gutter.available
        column = next((c for c in (SAMPLES, CYCLES, STALL, LIVE) if c in available), None)
        if column is None:
            self.say("No figures of lines are known here: 6 and 7 have them.", warning=True)
        else:
            self.action_largest(column)

    def action_cycles(self) -> None:
        if CYCLES in self.rows.gutter.available:
            self.action_largest(CYCLES)
        else:
            self.post_message(self.Simulate())

    def action_fold(self) -> None:
        region = self.map.fold(self.cursor) or self.folding.region_at_line(self.cursor)
        if region is None:
            self.say("Nothing to fold here.", warning=True)
            return
        self.folding.flip(region)
        self.cursor = region.first
        self.fold()
        self.post_message(self.Moved(self))

    def action_fold_level(self) -> None:
        if self.folding.as_it_is:
            self.action_verbatim()
            return
        self.say(self.folding.deeper())
        self.fold()

    def action_wrap(self) -> None:
        self.wrapped = not self.wrapped
        self.measure()
        if self.wrapped:
            self.scroll_to(x=0, animate=False, force=True)
        self.reveal(self.cursor, self.cursor)

    def jump(self, n: int) -> None:
        """Go to line ``n``, from which the history has the way back."""
        screen: Any = self.screen
        screen.panes.leave(self, self.cursor)
        self.go(n)

    def action_move(self, rows: int) -> None:
        if self.lines:
            row = self.map.row(self.cursor) + rows
            self.go(self.map.line(max(0, min(row, self.map.rows - 1))))

    def action_page(self, pages: float) -> None:
        first, last = self.span()
        high = last - first if self.wrapped else self.size.height - 1
        rows = max(1, int(high * abs(pages))) * (1 if pages > 0 else -1)
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)
        self.action_move(rows)

    def action_edge(self, side: int) -> None:
        if self.lines:
            self.jump(1 if side < 0 else self.map.line(self.map.rows - 1))

    def action_sideways(self, cells: int) -> None:
        if not self.wrapped:
            self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False, force=True)

    def clear_selection(self) -> bool:
        had_selection, self.selection_start = self.selection_start is not None, None
        if had_selection:
            self.refresh()
            self.post_message(self.Moved(self))
        return had_selection

    def action_match(self, step: int) -> None:
        if self.pattern is None and self.line_siblings:
            self.jump_among(self.line_siblings, step, "")
            return
        text = "Nothing is searched for: / searches."
        if self.pattern is not None:
            text = f"No line has /{label(self.pattern.pattern)}/ here."
        self.jump_among(self.matches, step, text)

    def action_use(self, step: int) -> None:
        used = () if self.register is None else self.register.used
        self._jump_to_register(used, step, "uses")

    def action_definition(self) -> None:
        defined = () if self.register is None else self.register.defined
        definitions = tuple(n for n in defined if n != self.cursor)
        if defined and not definitions and self.register is not None:
            self.say(f"{label(self.register.name)} is assigned on this line.")
        else:
            self._jump_to_register(definitions, -1, "defines")

    def _jump_to_register(self, lines: tuple[int, ...], step: int, verb: str) -> None:
        missing = "No register is selected: r selects one of this line's."
        if self.register is not None:
            missing = f"No line is known that {verb} {label(self.register.name)}."
        self.jump_among(lines, step, missing)

    def action_choose(self, rows: int) -> None:
        """Choose the lines from the cursor's to the one so many rows on, or as many more."""
        if not self.lines:
            self.say("There are no lines here to choose.", warning=True)
            return
        if self.selection_start is None:
            self.selection_start = self.cursor
        self.action_move(rows)
        self.refresh()
        first, last = self.selected_lines or (self.cursor, self.cursor)
        self.say(f"Lines {first} to {last} are chosen: y copies them, Esc forgets them.")

    def action_verbatim(self) -> None:
        sentence = self.folding.toggle_verbatim()
        if self.source is not None:
            self.source.as_it_is(self.folding.as_it_is)
            self.fold()
            self.say(sentence)

    def action_addresses(self) -> None:
        """Show or hide the addresses and encodings of SASS."""
        source = self.source
        if source is None or source.listing.language != Stage.SASS.value:
            self.say("Only SASS has addresses: 7 shows it.", warning=True)
            return
        self.with_addresses = not self.with_addresses
        source.show_addresses(self.with_addresses)
        self.measure()
        shown = "shown" if self.with_addresses else "hidden"
        self.say(f"Addresses and encodings are {shown}.")

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        laid = self.laid() if self.source is not None else []
        if offset is None or not 0 <= offset.y < len(laid):
            return
        n = laid[offset.y][0]
        cell = offset.x - (self.rows.margin - self.rows.flow_width)
        flow = self.flow if 0 <= cell < self.rows.flow_width else None
        if flow and (arrow := arrow_at(flow, self.rows.flow_width - 1, n, cell)):
            self.jump(along(arrow, n))
            return
        self.go(n)
        if event.chain == 2 and self.map.fold(self.cursor) is not None:
            self.action_fold()

    def on_focus(self) -> None:
        self.post_message(self.Moved(self))

    @property
    def source(self) -> Highlighter | None:
        return self.rows.source

    @property
    def lines(self) -> int:
        return 0 if self.source is None else len(self.source.texts)

    @property
    def selected_lines(self) -> tuple[int, int] | None:
        if self.selection_start is None:
            return None
        ends = sorted((self.selection_start, self.cursor))
        fold = self.map.fold(ends[1])
        return ends[0], ends[1] if fold is None else fold.last

    def measure(self) -> None:
        self.virtual_size = Size(self._width + self.rows.margin, self.map.rows)
        if self.wrapped:
            # The last line must be able to come to the top, however many rows it takes.
            overscroll_rows = max(1, self.size.height) - 1 if self.lines else 0
            self.virtual_size = Size(0, self.map.rows + overscroll_rows)
        self._laid = (None, [])
        self.refresh_marks()
        if self.modes != self._modes:
            self._modes = self.modes
            self.post_message(self.Looks())

    def _parts(self, row: int) -> list[tuple[int, Part]]:
        n = self.map.line(row)
        if not self.wrapped:
            return [(n, (self.scroll_offset.x, None))]
        if self.map.fold(n) is not None:
            return [(n, (0, None))]
        room = self.scrollable_content_region.width - self.rows.margin
        cells = breaks(self.rows.text(n), room)
        return [
            (n, (start, end))
            for start, end in zip(cells, (*cells[1:], cells[-1] + max(0, room)), strict=True)
        ]

    def laid(self) -> list[tuple[int, Part]]:
        top = self.scroll_offset.y
        height = max(1, self.size.height)
        key = (top, self.scroll_offset.x, self.size, self.wrapped, self.map, self.rows.margin)
        if self._laid[0] != key:
            out: list[tuple[int, Part]] = []
            row = top
            while len(out) < height and row < self.map.rows:
                out += self._parts(row)
                row += 1
            self._laid = (key, out[:height])
        return self._laid[1]

    def span(self) -> tuple[int, int]:
        laid = self.laid()
        return (self.map.row(laid[0][0]), self.map.row(laid[-1][0])) if laid else (0, 0)

    def _top_for(self, row: int) -> int:
        height = max(1, self.size.height)
        if not self.wrapped:
            return row - height + 1
        top = row
        used = len(self._parts(row))
        while top > 0:
            used += len(self._parts(top - 1))
            if used > height:
                break
            top -= 1
        return top

    def reveal(self, first: int, last: int) -> None:
        """Scroll no further than it takes to see lines ``first`` to ``last``, ``first`` surely."""
        if not self.map.rows:
            return
        height = max(1, self.size.height)
        margin = min(MARGIN_LINES, max(0, (height - 1) // 3))
        top = self.scroll_offset.y
        begin = self.map.row(first)
        end = min(self.map.row(last), begin + height - 1 - 2 * margin)
        low = self._top_for(min(end + margin, self.map.rows - 1))
        new_top = begin - margin if begin - margin < top else max(top, low)
        # Rows of several rows each: the margin must not push out what is to be seen.
        new_top = min(max(new_top, self._top_for(end)), begin)
        if new_top != top:
            self.scroll_to(y=max(0, new_top), animate=False, force=True)

    def nearest(self, lines: tuple[int, ...]) -> int:
        """The first of ``lines`` in view, else the one that the least scrolling brings there."""
        first, last = self.span()
        top = self.map.line(first)
        bottom = self.map.line(last)
        index = bisect_left(lines, top)
        near = lines[max(0, index - 1) : index + 1]
        return min(near, key=lambda n: top - n if n < top else max(0, n - bottom))

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        if self.source is None:
            loud = self.part("notice")
            quiet = self.part("hint")
            return notice_row(self.notice, y, width, self.rich_style, loud, quiet)
        laid = self.laid()
        if y >= len(laid):
            return Strip.blank(width, self.rich_style)
        return self.rows.row(*laid[y], width)

    def _fit_flow(self) -> None:
        lanes = lanes_shown(self.flow, self.size.width)
        self.rows.flow_width = lanes + 1 if lanes else 0

    def action_along(self) -> None:
        flow = self.flow
        if flow is not None and (ends := flow.ends(self.cursor)):
            self.jump(along(ends[0], self.cursor))
        elif flow is not None and (loop := flow.loop(self.cursor)) is not None:
            self.jump(loop.target)
        else:
            self.say("No branch on this line, and no loop around it.", warning=True)

    def places(self, n: int) -> tuple[str, ...]:
        """Where line ``n`` is from, if it is the first that is from there."""
        source = self.source
        if source is None or source.is_silent(n):
            return ()
        language = source.listing.language
        if language == Stage.SASS.value or (language in IR and self.flow is not None):
            # MLIR is parsed as a whole: the thread that looks for its branches has done so.
            return place_words(source.new_place(n))
        # Between a mark and what it is about, there may be blanks and comments.
        line_number = n
        while self.map.marks(line_number) is None:
            line_number -= 1
            if line_number < max(1, n - SEARCH_LINES + 1) or not source.is_silent(line_number):
                return ()
        return place_words(source.new_place(n))

    # The map: each line in the colour of the source line that it comes from

    def tint_of(self, n: int) -> int:
        group = self.groups.group(n) if self.groups is not None else 0
        hue = self.groups.hue(group) + 1 if self.groups is not None and group else 0
        return -hue if group == self.lit else hue

    def tint(self, groups: SourceGroups | None) -> None:
        self.groups = groups
        self.lit = 0
        self._lightable = {}
        self.rows.lettered = groups is not None and self.app.no_color
        self.measure()

    def light(self, group: int) -> None:
        """Light up the lines of one source line, unless they are most of a listing."""
        lit = group if self._can_be_lit(group) else 0
        if lit != self.lit and self.groups is not None:
            changed = {self.lit, lit} - {0}
            self.lit = lit
            self._refresh_lines(n for n, _ in self.laid() if self.groups.group(n) in changed)

    def _can_be_lit(self, group: int) -> bool:
        """Whether so few lines have a group that it helps to see which."""
        if not group or self.groups is None:
            return False
        if group not in self._lightable:
            lines = self.groups.groups
            count = lines.count(group)
            share = count / max(1, len(lines) - lines.count(0))
            self._lightable[group] = count <= MAX_LIT_LINES or share <= MAX_LIT_SHARE
        return self._lightable[group]

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.groups is not None and not self._led and round(old_value) != round(new_value):
            screen: Any = self.screen
            screen.panes.align(self)

    def lead(self, n: int, y: int) -> None:
        """Another pane was scrolled: bring line ``n`` to row ``y`` of the view."""
        self._led = True
        self.scroll_to(y=max(0, self.map.row(n) - y), animate=False, force=True)
        self._led = False

    def part(self, name: str) -> Style:
        return self.get_component_rich_style(f"code--{name}", partial=True)

    def on_mount(self) -> None:
        self.vertical_scrollbar.renderer = partial(MarkedBar, marks=self.marks)  # type: ignore[misc,assignment]

    def refresh_marks(self) -> None:
        self.refresh()
        if self.is_mounted:
            self.vertical_scrollbar.refresh()

    def _refresh_lines(self, lines: Iterable[int]) -> None:
        """Draw these lines again, and the marks of the scrollbar: a whole pane takes longer."""
        shown = {self.map.line(self.map.row(n)) for n in lines}
        width = self.size.width
        rows = [y for y, (n, _) in enumerate(self.laid()) if n in shown]
        if rows:
            self.refresh(*(ScreenRegion(0, y, width, 1) for y in rows))
        if self.is_mounted:
            self.vertical_scrollbar.refresh()

    def _put_cursor(self, n: int) -> None:
        """Move the cursor, and draw again what looks different for it."""
        old_cursor = self.cursor
        self.cursor = n
        flow = self.flow
        has_arrow = flow is not None and bool(flow.ends(old_cursor) or flow.ends(n))
        if has_arrow or self.selection_start is not None:
            self.refresh_marks()  # the lines between look different, too
        else:
            self._refresh_lines((old_cursor, n))

    def marks(self, height: int) -> Marks:
        if not self.lines or not height:
            return {}
        annotations = self.rows.gutter.annotations
        row_count = max(self.map.rows, height)
        # The most wanted last: one row has room for one.
        mark_groups: tuple[tuple[str, str, Collection[int]], ...] = (
            ("▴", "peak", annotations.peaks),
            ("▪", "peak", annotations.hottest),
            ("▐", "link", self.linked),
            ("◆", "note", annotations.noted),
            ("=", "found", self.matches[:: len(self.matches) // MAX_MARKS + 1]),
            ("◂", "mark", (self.cursor,)),
        )
        marks: dict[int, tuple[str, Style]] = {}
        for sign, name, lines in mark_groups:
            rows = (self.map.row(n) for n in lines if n <= self.lines)
            mark = sign, self.part(name)
            marks |= {((row + 1) * height - 1) // row_count: mark for row in rows}
        return marks

    @property
    def pattern(self) -> re.Pattern[str] | None:
        return self.rows.pattern

    def show(self, source: Highlighter, width: int, top: int, line_number: int) -> None:
        """Put the cursor on line ``at``; the kernel's first, ``top``, stays in view if it can."""
        self.rows.source = source
        self.notice = None
        source.as_it_is(self.folding.as_it_is)
        source.show_addresses(self.with_addresses)
        self._begin(width)
        self.columns(annotations=NOTHING, run=None)
        self.cursor = max(1, min(line_number, self.lines))
        self.untouched = True
        self._top = top
        self._to_top()
        self.post_message(self.Moved(self))

    def _to_top(self) -> None:
        top = self.map.row(self._top) if self.lines else 0
        self.scroll_to(0, max(0, top - MARGIN_LINES), animate=False, force=True)
        self.reveal(self.cursor, self.cursor)

    def on_resize(self) -> None:
        self._fit_flow()
        self.measure()
        if self.untouched:
            self._to_top()
        else:
            self.reveal(self.cursor, self.cursor)

    def show_notice(self, notice: Notice | None) -> None:
        """Show a notice instead of a listing, or nothing at all."""
        self.rows.source = None
        self.notice = notice
        self._begin(0)
        self.columns(annotations=NOTHING, run=None)
        self.post_message(self.Moved(self))

    def link(self, lines: tuple[int, ...], follow: bool) -> None:
        """Mark ``lines``; with ``follow``, bring them into view and take the cursor along."""
        old_lines = self.linked
        self.linked = lines = tuple(n for n in lines if 1 <= n <= self.lines)
        if lines != old_lines:
            self._refresh_lines({*old_lines} ^ {*lines})
        if follow and lines and self.cursor not in lines:
            self._put_cursor(self.nearest(lines))
            last = self.cursor
            for n in lines[bisect_left(lines, last) :]:
                # Directives and labels are between the instructions of one statement.
                if n - last > MAX_GAP_LINES:
                    break
                last = n
            self._led = True
            self.reveal(self.cursor, last)
            self._led = False

    def find(self, pattern: re.Pattern[str] | None, matches: tuple[int, ...]) -> None:
        self.rows.pattern = pattern
        self.matches = matches
        self.refresh_marks()

    def stand(self, lines: tuple[int, ...]) -> None:
        self.current = lines = tuple(n for n in lines if n <= self.lines)
        if lines:
            if self.cursor not in lines:
                self.cursor = self.nearest(lines)
            self.untouched = False
            self.gone_to = True
            self._unfold(self.cursor)
            self.reveal(self.cursor, self.cursor)
        self.refresh_marks()

    def columns(self, **changes: Any) -> None:
        self.rows.gutter = replace(self.rows.gutter, **changes)
        self.measure()
        if self.is_mounted:
            self.post_message(self.Looks())

    def named(self, names: Mapping[str, str], kernel: range) -> None:
        if self.source is not None and names != self.source.names:
            self.source.names = names
            self.source.kernel = kernel
            self.refresh_marks()

    def light_up(self, register: Register | None) -> None:
        self.register = register
        self.signs = {}
        self.rows.register = None
        if register is not None:
            signs = (dict.fromkeys(register.used, "○"), dict.fromkeys(register.defined, "●"))
            self.signs = signs[0] | signs[1]
            self.rows.register = re.compile(rf"(?<![\w%$.]){re.escape(register.name)}(?![\w$])")
        self.refresh_marks()

    def foldable(
        self,
        regions: Mapping[Fold, tuple[Region, ...]],
        flow: FlowLanes | None = None,
    ) -> None:
        """Fold without moving the screen; a line that was gone to stays in view."""
        if self.source is not None:
            self.flow = flow
            self._fit_flow()
        self.folding.set_regions(regions)
        self.fold()
        if self.gone_to:
            self._unfold(self.cursor)

    def fold(self) -> None:
        cursor_offset = self.map.row(self.cursor) - self.scroll_offset.y
        self.map = self.folding.rows(self.lines)
        hidden = self.map.fold(self.cursor)
        if hidden is not None and hidden.kind is Fold.MARKS:
            self.cursor = self.map.shown(self.cursor)
            self.post_message(self.Moved(self))
        self.measure()
        if self.untouched:
            self._to_top()
        else:
            top = max(0, self.map.row(self.cursor) - cursor_offset)
            self.scroll_to(y=top, animate=False, force=True)
            self.reveal(self.cursor, self.cursor)

    def _unfold(self, n: int) -> None:
        while (hidden := self.map.fold(n)) is not None and (
            n != hidden.first or hidden.kind is Fold.MARKS
        ):
            self.folding.flip(hidden)
            self.fold()

    def land(self, n: int, siblings: tuple[int, ...]) -> None:
        """Go to line ``n`` of those that a line of another stage became."""
        self.go(n)
        self.line_siblings = siblings
        if len(siblings) > 1:
            number = siblings.index(n) + 1
            walk = " n goes to the next." if self.pattern is None else ""
            self.say(f"{number} of {len(siblings)} lines from there.{walk}")

    def go(self, n: int) -> None:
        """Put the cursor on line ``n``, or the nearest there is; what hides it is unfolded."""
        if not self.lines:
            return
        n = max(1, min(n, self.lines))
        self.untouched = False
        self.gone_to = True
        self._unfold(n)
        if n != self.cursor:
            self._put_cursor(n)
            self.post_message(self.Moved(self))
        self.reveal(n, n)
