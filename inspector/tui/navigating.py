"""Going far: along branches and labels, into the other panes, back and forward, up the calls."""

from __future__ import annotations

from textual import on, work
from textual.content import Content
from textual.message import Message

from inspector.listing.line import Line
from inspector.model import Location
from inspector.tui.asking import Asking
from inspector.tui.code_view import CodeView
from inspector.tui.column_list import ColumnList
from inspector.tui.outcome import attempt
from inspector.tui.overlay import Overlay
from inspector.tui.targets import labels, target_line
from inspector.tui.visible import label


def frames(location: Location | None, names: tuple[str, ...] = ()) -> Content:
    """The whole chain of an inlined line, the innermost first."""
    if location is None:
        return Content("No source location is recorded for this line.")
    parts: list[tuple[str, str]] = []
    for index, frame in enumerate(location.frames()):
        column = "" if frame.column is None else f":{frame.column}"
        parts.append(("inlined at  " if index else "the line is  ", "$quiet"))
        parts.append((f"{label(frame.file)}", "bold" if not index else ""))
        parts.append((f":{frame.line}{column}\n", "$accent"))
    return Content.assemble(*parts)


class Navigating(Asking):
    """A screen on which one gets from line to line."""

    class Target(Message):
        """A thread has found where a branch or a label is; None where there is none."""

        def __init__(self, view: CodeView, source: object, n: int | None, wanted: str) -> None:
            super().__init__()
            self.view = view
            self.source = source
            self.n = n
            self.wanted = wanted

    def _line(self) -> Line | None:
        """The active pane's line."""
        view = self.panes.active.view
        if view.source is None or not view.lines:
            return None
        return view.source.listing.lines[view.cursor - 1]

    def action_follow(self) -> None:
        """Along the branch on this line, else to the linked lines in the pane beside."""
        line = self._line()
        if line is not None and line.targets:
            self._find_target(self.panes.active.view, line.n, line.targets[0])
        elif len(self.panes.panes) > 1:
            panes = self.panes.panes
            self.panes.activate(panes[(panes.index(self.panes.active) + 1) % len(panes)])

    def action_label(self, step: int) -> None:
        """To the next or previous label, round the ends."""
        view = self.panes.active.view
        if view.source is not None:
            self._find_label(view, view.cursor, step)

    @work(thread=True, exclusive=True, group="target", exit_on_error=False, description="target")
    def _find_target(self, view: CodeView, n: int, target: str) -> None:
        source = view.source
        if source is not None:
            found = attempt(lambda: target_line(source.listing, n, target))
            at = found if isinstance(found, int) else None
            self.post_message(self.Target(view, source, at, target))

    @work(thread=True, exclusive=True, group="target", exit_on_error=False, description="target")
    def _find_label(self, view: CodeView, n: int, step: int) -> None:
        source = view.source
        if source is not None:
            found = attempt(lambda: next(labels(source.listing, n, step), None))
            at = found if isinstance(found, int) else None
            self.post_message(self.Target(view, source, at, "a label"))

    @on(Target)
    def _target(self, message: Target) -> None:
        message.stop()
        if message.source is not message.view.source:
            return
        if message.n is not None:
            message.view.jump(message.n)
        else:
            said = f"{label(message.wanted)} is nowhere in this listing."
            self.status.say(said, message.view, warning=True)

    def action_history(self, by: int) -> None:
        """Back to where a jump began, or forward again."""
        here = self.panes.here()
        place = None if here is None else self.panes.history.go(here, by)
        if place is None:
            self._warn("There is nothing to go back to." if by < 0 else "This is the last place.")
            return
        if place.subject != self.panes.subject:
            self.kernels.find(place.subject.key)
            self.panes.show(place.subject)
        self.panes.to(place.stage, place.n)

    def action_frames(self) -> None:
        """The whole chain of places that the line was inlined from."""
        line = self._line()
        if line is not None:
            text = frames(line.source)
            self.app.push_screen(Overlay(f"Line {line.n} comes from", text))

    def action_choose_columns(self) -> None:
        """Choose the columns of the active pane one by one."""
        view = self.panes.active.view
        if view.rows.gutter.there:
            self.app.push_screen(
                ColumnList(view.rows.gutter),
                lambda wanted: None if wanted is None else view.columns(wanted),
            )
        else:
            self._warn("Nothing is told of these lines: there are no columns to choose.")

    def action_pane_more(self) -> None:
        """One pane more, up to three; then this one alone."""
        self.panes.more()

    def action_pane_fewer(self) -> None:
        """Close this pane."""
        if not self.panes.fewer():
            self._warn("This is the only pane.")

    @on(CodeView.Said)
    def _view_said(self, message: CodeView.Said) -> None:
        self.status.say(message.text, message.view, message.warning)
