"""Base of the two screens with panes: the kernels, and a block that is run.

With the search in all panes, and the lines above the status line, which say what an instruction
does.
"""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len
from textual import on
from textual.content import Content
from textual.dom import DOMNode
from textual.widget import Widget

from inspector.analyse.hints.subject import Finding
from inspector.analyse.line_annotations import NO_WORDS, NOTHING_TOLD, Register, Told, Words
from inspector.base.model import GRAPH_STAGES, Stage
from inspector.base.text import plural
from inspector.listing.line import Line
from inspector.reader.reader import Reader
from inspector.tui.code.code_rows import SEVERITY_SIGNS
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.highlight import location_of, place
from inspector.tui.keys.command_table import Where
from inspector.tui.panes.pane import Pane, matches
from inspector.tui.panes.panes import Panes
from inspector.tui.widgets.figures import RecordingTimes
from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.tool_screen import Prompt, ResultType, ToolScreen
from inspector.tui.widgets.visible import cut, label, plain

BAD_EXPRESSION = (re.error, OverflowError, RecursionError)


def expression(text: str) -> re.Pattern[str]:
    """Compile as in vim's smartcase: small letters find both, one capital makes it exact.

    Raises one of ``BAD_EXPRESSION``.
    """
    return re.compile(text, re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE)


class Search:
    """The state of a search in all panes.

    ``warn`` shows the user a sentence; ``changed`` is called when the status line must be drawn.
    """

    def __init__(
        self, panes: Panes, warn: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._panes, self._warn, self._changed = panes, warn, changed
        self._origin: tuple[CodeView, int, re.Pattern[str] | None] | None = None
        self._wanted: re.Pattern[str] | None = None

    def begin(self) -> str:
        """Remember where the search begins; return the text of the last one."""
        view = self._panes.active.view
        self._origin = (view, view.cursor, view.pattern)
        return view.pattern.pattern if view.pattern else ""

    def look_for(self, text: str, typing: bool = False) -> None:
        """Search in all panes.

        While one types, the cursor goes to the first match from where it was, and what is not yet
        an expression waits.
        """
        try:
            pattern = expression(text)
        except BAD_EXPRESSION as error:
            if not typing:
                self._warn(f"“{label(text)}” is not a regular expression: {error}")
            return
        if text:
            self._find(pattern, self._panes.panes, partial(self._to_first, typing))
        elif self._origin is not None:
            self._origin[0].go(self._origin[1])
            self._forget(None)

    def _find(
        self, pattern: re.Pattern[str], panes: Sequence[Pane], then: Callable[[], None]
    ) -> None:
        """Find the lines that have a pattern, in a thread; the next search ends this one."""
        sources = [(p.view, p.view.source) for p in panes if p.view.source is not None]
        self._wanted = pattern

        def work() -> list[tuple[int, ...]]:
            return [matches(source, pattern, source.own_text) for _, source in sources]

        def found(lines: list[tuple[int, ...]] | Notice) -> None:
            if isinstance(lines, Notice):
                self._warn("The search failed.")
            elif pattern is self._wanted:
                for (view, source), own in zip(sources, lines, strict=True):
                    if view.source is source:
                        view.find(pattern, own)
                then()

        in_thread(self._panes, work, found, "search")

    def again(self, pane: Pane) -> None:
        """Search in another listing that a pane shows now."""
        pattern = pane.view.pattern
        if pattern is not None and pane.view.source is not None:
            self._find(self._wanted or pattern, self._panes.panes, self._changed)

    def give_up(self) -> None:
        """Go back to where the search began, with the pattern from before."""
        view, n, pattern = self._origin or (self._panes.active.view, 1, None)
        view.go(n)
        self.clear(pattern)

    def clear(self, pattern: re.Pattern[str] | None = None) -> None:
        """Forget the search in all panes, or return to an earlier one."""
        self._origin = None
        self._forget(pattern)

    def _forget(self, pattern: re.Pattern[str] | None) -> None:
        self._wanted = None
        for pane in self._panes.panes:
            pane.view.find(None, ())
        if pattern is not None:
            self._find(pattern, self._panes.panes, self._changed)
        self._changed()

    def _to_first(self, typing: bool) -> None:
        """Go to the first match from where the search began."""
        view, begun = self._panes.active.view, self._origin
        start = begun[1] if begun is not None and begun[0] is view else view.cursor
        lines = view.matches
        target = lines[bisect_left(lines, start) % len(lines)] if lines else start
        if not typing:
            self._origin = None
            if target != start:
                view.post_message(CodeView.Jumped(view, start))
        if target != view.cursor:
            view.go(target)
        if lines or typing or view.pattern is None:
            self._changed()
            return
        counts = ", ".join(f"{many} in {stage}" for stage, many in self.counts())
        elsewhere = f" here; {counts}" if counts else ""
        self._warn(f"Nothing matches “{label(view.pattern.pattern)}”{elsewhere}.")

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Return how many lines of the other panes have the pattern, where any has it."""
        return tuple(
            (str(pane.stage), len(pane.view.matches))
            for pane in self._panes.panes
            if pane is not self._panes.active and pane.view.matches
        )


def _span(lines: tuple[int, ...], word: str) -> str:
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{word} at {lines[0]}"
    return f"{word} at {lines[0]} … {lines[-1]}, {len(lines)} times"


@dataclass(frozen=True, slots=True)
class Said:
    """All annotations of one line."""

    words: Words = NO_WORDS
    told: Told = NOTHING_TOLD
    registers: tuple[Register, ...] = ()


class ReadingLine(Widget):
    """The sentence, notes, waits, and the register that is looked at: where the terminal is high
    all of them, else as many as there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self.said = Said()
        self.register: str | None = None
        self._view: CodeView | None = None

    def follow(self, view: CodeView) -> None:
        """Read out the line under the cursor of ``view``; what it said before stays until then."""
        if self._view is not None and self._view is not view:
            self._view.light_up(None)
        self._view = view
        if view.lines:
            n, annotations = view.cursor, view.rows.gutter.annotations

            def read() -> Said:
                return Said(annotations.words(n), annotations.at(n), annotations.registers(n))

            def show(said: Said | Notice) -> None:
                if view is self._view and view.cursor == n:
                    self._show(Said() if isinstance(said, Notice) else said)

            in_thread(self, read, show, "words")
        else:
            self._show(Said())

    def _show(self, said: Said) -> None:
        self.said = said
        names = [one.name for one in said.registers]
        if self.register not in names:
            self.register = names[0] if names else None
        self._light_up()

    def next_register(self) -> bool:
        """Look at the line's next register; False where it has none."""
        names = [one.name for one in self.said.registers]
        if names:
            at = names.index(self.register) + 1 if self.register in names else 0
            self.register = names[at % len(names)]
            self._light_up()
        return bool(names)

    def _light_up(self) -> None:
        if self._view is not None:
            self._view.light_up(self.looked_at)
        self.refresh()

    @property
    def looked_at(self) -> Register | None:
        """The register of the line that is looked at."""
        return next((one for one in self.said.registers if one.name == self.register), None)

    def parts(self) -> list[tuple[str, str]]:
        """(text, style) of everything there is to say, the most wanted first."""
        out: list[tuple[str, str]] = []
        if self.said.words.sentence:
            out.append((self.said.words.sentence, "$foreground"))
        out += [
            (f"{SEVERITY_SIGNS.get(n.severity, '·')} {n.rule}: {n.text}", "$warning")
            for n in self.said.told.notes
        ]
        out += [(wait, "$secondary") for wait in self.said.words.waits]
        if (one := self.looked_at) is not None and (one.defined or one.used):
            places = (_span(one.defined, "defined"), _span(one.used, "used"))
            out.append((f"{one.name}: {', '.join(p for p in places if p)}", "$accent"))
        rolled = self.said.told.rolled
        if rolled is not None and rolled.live.get("gpr"):
            most = "up to " if rolled.instructions > 1 else ""
            peak = ", the kernel's peak" if rolled.peak else ""
            parts = [
                plural(rolled.instructions, "SASS instruction"),
                f"{most}{plural(rolled.live['gpr'], 'live register')}{peak}",
            ]
            if rolled.stall is not None:
                parts.append(plural(rolled.stall, "stall cycle"))
            out.append((" · ".join(parts), "$quiet"))
        return [(label(text), style) for text, style in out]

    def render(self) -> Content:
        """Each part on separate rows if there is room, else packed, the last row cut."""
        width, height = self.size.width - 2, max(1, self.size.height)
        parts = self.parts()
        if height >= MIN_ROOMY_ROWS and 0 < len(parts) <= height:
            rows = stacked(parts, width, height)
        else:
            rows = packed(parts, width, height)
        return Content("\n").join(Content.assemble(" ", *row) for row in rows)


Rows = list[list[tuple[str, str]]]

MIN_ROOMY_ROWS = 4
"""Rows from which each part is on separate rows."""


def packed(parts: list[tuple[str, str]], width: int, height: int) -> Rows:
    """Pack parts one after the other; the last row takes the rest."""
    rows: Rows = [[]]
    room = width
    for text, style in parts:
        size = cell_len(text) + 3
        if rows[-1] and size > room and len(rows) < height:
            rows.append([])
            room = width
        gap = "   " if rows[-1] else ""
        if room - len(gap) < 8:
            break
        rows[-1].append((gap + cut(text, room - len(gap)), style))
        room -= size
    return rows


def stacked(parts: list[tuple[str, str]], width: int, height: int) -> Rows:
    """Wrap each of at most ``height`` parts on separate rows; cut the longest to make all fit."""
    wrapped = [textwrap.wrap(text, max(8, width), subsequent_indent="  ") for text, _ in parts]
    allowed = [max(1, len(rows)) for rows in wrapped]
    while sum(allowed) > height:
        longest = max(range(len(allowed)), key=lambda at: (allowed[at], at))
        allowed[longest] -= 1
    out: Rows = []
    for (_, style), rows, many in zip(parts, wrapped, allowed, strict=True):
        for at, row in enumerate(rows[:many]):
            is_cut = at == many - 1 < len(rows) - 1
            said = cut(row, width - 1).removesuffix("…") + "…" if is_cut else cut(row, width)
            out.append([(said, style)])
    return out


# Dialogs are imported when they are opened: the first frame does not wait for them.

FRAME_CELLS = 6
"""Cells of an overlay's border, margins and scrollbar."""

OWN_LINES = (Stage.SOURCE, Stage.OUTPUT_CODE, *GRAPH_STAGES)
"""Stages whose lines name no place of their own: a graph's have the user's lines beside them."""


def _place_of(view: CodeView) -> tuple[object, ...]:
    return (view, view.source, view.cursor, view.pattern, view.chosen_from)


class PaneScreen(ToolScreen[ResultType]):
    """Panes, the lines beneath them, and what can be done with the active pane's line."""

    def __init__(self, reads: Reader, panes: Panes, times: RecordingTimes) -> None:
        super().__init__()
        self.reads, self.panes, self.times = reads, panes, times
        self.reading = ReadingLine()
        self.search = Search(panes, self.warn, self.changed)

    @property
    def view(self) -> CodeView:
        """The active pane's listing."""
        return self.panes.active.view

    @property
    def home(self) -> CodeView:
        """The widget that has the focus when nobody types."""
        return self.view

    def home_of(self, where: Where) -> DOMNode:
        """Return the node that has the actions of a part of the table."""
        return self.view if where is Where.PANE else self

    # The lines beneath the panes

    def warn(self, text: str) -> None:
        """Say above the footer that something is not so."""
        self.say(text, warning=True)

    def say(self, text: str, view: CodeView | None = None, warning: bool = False) -> None:
        """Say something above the footer, until the cursor moves."""
        self.status.say(text, warning, _place_of(view or self.view))

    @on(CodeView.Said)
    def _view_said(self, message: CodeView.Said) -> None:
        self.say(message.text, message.view, message.warning)

    @on(Panes.Changed)
    def changed(self) -> None:
        """Show where the active pane's cursor is, and what its line does."""
        view = self.view
        self.status.show(*self._where(view), place=_place_of(view))
        self.reading.follow(view)

    def _where(self, view: CodeView) -> tuple[str, str]:
        """The place of the cursor; what is chosen, found and linked."""
        stage = str(self.panes.active.stage or "")
        if view.source is None or not view.lines:
            return "", ""
        left = f"{stage} {view.cursor}/{view.lines}"
        if self.panes.active.stage not in OWN_LINES:
            left += f"  {place(location_of(view.source.listing, view.cursor))}"
        right = []
        if view.chosen is not None:
            first, last = view.chosen
            right.append(f"lines {first} to {last}, y copies")
        if view.pattern is not None:
            at = bisect_right(view.matches, view.cursor)
            on = at > 0 and view.matches[at - 1] == view.cursor
            own = f"{at} of {len(view.matches)}" if on else f"{len(view.matches)}"
            counts = [own, *(f"{many} in {other}" for other, many in self.search.counts())]
            right.append(f"/{label(view.pattern.pattern)}/  " + ", ".join(counts))
        for pane in self.panes.panes:
            if pane is self.panes.active:
                continue
            if self.panes.unlinked(pane):
                right.append(f"nothing links {stage} and {pane.stage}")
            elif lines := self.panes.linked_lines(pane):
                right.append(f"▐ {len(lines)} in {pane.stage}")
        return left, "   ".join(right)

    # What one types

    def action_search(self) -> None:
        """Ask for a regular expression."""
        self.ask("search", self.search.begin())

    def action_goto(self) -> None:
        """Ask for a line."""
        self.ask("goto")

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        if message.kind == "search":
            self.search.look_for(message.text, typing=True)

    @on(Prompt.Closed)
    def _prompt_closed(self, message: Prompt.Closed) -> None:
        self.status.display = True
        self.set_focus(self.home)
        if message.kind == "search" and not message.accepted:
            self.search.give_up()
        elif message.accepted and message.text:
            self.typed(message.kind, message.text)

    def typed(self, kind: str, text: str) -> None:
        """Act on a prompt that Enter has closed."""
        if kind == "search":
            self.search.look_for(text)
        elif kind == "goto" and text.isdecimal() and len(text) < 10:
            self.view.jump(int(text))
        else:
            self.warn(f"“{label(text)}” is not a line number.")

    @on(Pane.Shown)
    def _search_again(self, message: Pane.Shown) -> None:
        self.search.again(message.pane)

    # The panes

    def action_stage(self, stage: str) -> None:
        """Show a stage in the active pane."""
        self.panes.choose(Stage(stage))

    def action_zoom(self) -> None:
        """Show the active pane alone, or all again."""
        self.panes.zoomed = not self.panes.zoomed
        self.panes.fit()

    def action_turn(self) -> None:
        """Put the panes beside or above each other."""
        self.panes.turn()

    def action_choose_columns(self) -> None:
        """Choose the columns of the active pane one by one."""
        from inspector.tui.panes.dialogs import ColumnList

        if self.view.rows.gutter.there:
            self.app.push_screen(ColumnList(self.view.rows.gutter), self.show_columns)
        else:
            self.warn("There are no columns for this listing.")

    def show_columns(self, wanted: tuple[str, ...] | None) -> None:
        """Show these columns in the active pane."""
        if wanted is not None:
            self.view.columns(wanted)

    # The line under the cursor

    @property
    def line(self) -> Line | None:
        """The active pane's line."""
        source = self.view.source
        return source.listing.lines[self.view.cursor - 1] if source and self.view.lines else None

    def copy_lines(self, first: int, last: int) -> None:
        """Copy lines of the active pane's file."""
        source = self.view.source
        if source is not None:
            self.app.copy_to_clipboard(plain("\n".join(source.texts[first - 1 : last])))
            said = f"Line {first} is" if first == last else f"Lines {first} to {last} are"
            self.say(f"{said} on the clipboard.")

    def action_copy(self) -> None:
        """Copy the chosen lines, else the cursor's."""
        first, last = self.view.chosen or (self.view.cursor, self.view.cursor)
        self.view.unchoose()
        self.copy_lines(first, last)

    def action_register(self) -> None:
        """Light up the line's next register."""
        if not self.reading.next_register():
            self.warn("This line has no register that is known.")

    def action_understand(self, what: str) -> None:
        """Show the card, the hints, the profile, or the instruction under the cursor."""
        from inspector.tui.panes.dialogs import answer

        subject, width = self.panes.subject, self.app.size.width - FRAME_CELLS
        times: tuple[str, ...] = ()
        if subject.kernel is not None and subject.variant is not None:
            device = (self.reads.recording.device or {}).get("name")
            times = tuple(self.times.lines(subject.kernel, subject.variant, str(device or "")))
        stage, n = self.panes.active.stage, self.view.cursor
        work = partial(answer, self.reads, what, subject, stage, n, times, width)
        in_thread(self, work, partial(self._answered, what, subject), "understand")

    def _answered(
        self, what: str, subject: TreeSubject, found: Content | tuple[Finding, ...] | Notice
    ) -> None:
        from inspector.tui.panes.dialogs import HEADINGS, HintList
        from inspector.tui.widgets.tool_screen import Overlay

        heading = HEADINGS.get(what) or f"{label(subject.name)} {subject.key[1]}"
        if isinstance(found, tuple):
            self.app.push_screen(HintList(heading, found), self.to_hint)
        elif isinstance(found, Notice):
            self.app.push_screen(Overlay("", Content(f"{found.message}\n{found.hint}".strip())))
        else:
            self.app.push_screen(Overlay(heading, found, wide=what == "profile"))

    def to_hint(self, finding: Finding | None) -> None:
        """Go to the first line that a hint was seen on, in a pane that shows it if there is one."""
        shown = [pane.stage for pane in self.panes.panes if pane.stage is not None]
        for stage in (*shown, Stage.PTX, Stage.SASS, Stage.TTGIR, *Stage):
            if finding is not None and (lines := finding.lines.get(stage)):
                self.panes.display = True
                self.panes.jump(stage, lines[0])
                return
