"""Base of the two screens with panes: the kernels, and a block that is run."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.content import Content
from textual.dom import DOMNode

from inspector.analyse.hints.subject import Finding
from inspector.base.model import GRAPH_STAGES, Stage
from inspector.listing.line import Line
from inspector.reader.reader import Reader
from inspector.tui.code.code_view import CodeView
from inspector.tui.keys.command_table import Where
from inspector.tui.panes.locations import location_of, place
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.panes import Panes
from inspector.tui.panes.reading_line import ReadingLine
from inspector.tui.panes.search import Search
from inspector.tui.widgets.figures import RecordingTimes
from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.tool_screen import Prompt, ResultType, ToolScreen
from inspector.tui.widgets.visible import label, plain

if TYPE_CHECKING:
    from inspector.tui.panes.understanding import Question

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

    @on(Pane.Annotated)
    def _annotated(self, message: Pane.Annotated) -> None:
        if message.pane is self.panes.active:
            self.reading.follow(message.pane.view)

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

    @on(Pane.Found)
    def _found(self, message: Pane.Found) -> None:
        self.search.found(message)

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
        from inspector.tui.panes.column_list import ColumnList

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
        from inspector.tui.panes.understanding import Question, answer

        subject, reads = self.panes.subject, self.reads
        times: tuple[str, ...] = ()
        if subject.kernel is not None and subject.variant is not None:
            device = (reads.recording.device or {}).get("name")
            times = tuple(self.times.lines(subject.kernel, subject.variant, str(device or "")))
        asked = Question(
            what,
            subject,
            self.panes.active.stage,
            self.view.cursor,
            times,
            self.app.size.width - FRAME_CELLS,
        )
        in_thread(self, lambda: answer(reads, asked), partial(self._answered, asked), "understand")

    def _answered(self, asked: Question, found: Content | tuple[Finding, ...] | Notice) -> None:
        from inspector.tui.panes.understanding import HintList
        from inspector.tui.widgets.tool_screen import Overlay

        if isinstance(found, tuple):
            self.app.push_screen(HintList(asked.heading, found), self._to_hint)
        elif isinstance(found, Notice):
            self.app.push_screen(Overlay("", Content(f"{found.message}\n{found.hint}".strip())))
        else:
            self.app.push_screen(Overlay(asked.heading, found, wide=asked.what == "profile"))

    def _to_hint(self, finding: Finding | None) -> None:
        for stage in (Stage.PTX, Stage.SASS, Stage.TTGIR, *Stage):
            if finding is not None and (lines := finding.lines.get(stage)):
                self.panes.jump(stage, lines[0])
                return
