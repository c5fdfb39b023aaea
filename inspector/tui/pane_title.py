"""The line above a pane: which stage, of what, and the stages that can be chosen."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from inspector.model import Stage
from inspector.tui.subject import Subject
from inspector.tui.visible import label, shorten


class PaneTitle(Widget):
    """``ptx  square_kernel  3f2a91c0``, and on the right the stages, those that are missing dim."""

    class Chosen(Message):
        """A stage was clicked."""

        def __init__(self, title: PaneTitle, stage: Stage) -> None:
            super().__init__()
            self.title = title
            self.stage = stage

    def __init__(self) -> None:
        super().__init__()
        self.subject = Subject()
        self.stage: Stage | None = None
        self.path = ""
        self.busy = False
        self._spans: list[tuple[int, int, Stage]] = []

    def show(self, subject: Subject, stage: Stage, busy: bool) -> None:
        """What stands in the pane now; ``busy`` while it is being read."""
        self.subject, self.stage, self.busy = subject, stage, busy
        variant = subject.variant
        file = variant.stages.get(stage) if variant else None
        self.path = ""
        if file is not None and file.origin_path and stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            self.path = file.origin_path.replace("\\", "/").rpartition("/")[2]
        self.refresh()

    def _tabs(self, words: bool) -> list[tuple[str, Stage]]:
        return [
            (f" {stage.rank + 1} {stage} " if words else f" {stage.rank + 1}", stage)
            for stage in Stage
            if not words or self.subject.has(stage) or stage is self.stage
        ]

    def render(self) -> Content:
        """As much as the width allows: the stage always, its digits next, then names."""
        width = self.size.width
        if self.stage is None:
            return Content("")
        head = f" {self.stage}"
        if self.busy:
            head += " ◔"
        variant = self.subject.variant
        what = label(self.path or self.subject.name)
        tail = "" if self.path or variant is None else f"  {variant.id}"
        tabs = self._tabs(words=True)
        if sum(len(text) for text, _ in tabs) + len(head) + len(what) + len(tail) + 4 > width:
            tabs = self._tabs(words=False)
        if len(head) + 16 + sum(len(text) for text, _ in tabs) > width:
            tabs = []
        room = width - len(head) - sum(len(text) for text, _ in tabs) - 3
        if len(what) + len(tail) > room:
            tail = ""
        middle = f"  {shorten(what, room - len(tail))}{tail}" if room > 4 else ""
        left = Content.assemble((head, "bold"), (middle, ""))
        gap = max(0, width - left.cell_length - sum(len(text) for text, _ in tabs) - 1)
        parts: list[Content | tuple[str, str]] = [left, (" " * gap, "")]
        self._spans = []
        at = left.cell_length + gap
        for text, stage in tabs:
            style = "bold underline" if stage is self.stage else ""
            if not self.subject.has(stage):
                style = "dim strike" if len(text) == 2 else "dim"
            bare = text.strip()
            lead = text.index(bare)
            parts += [(text[:lead], ""), (bare, style), (text[lead + len(bare) :], "")]
            self._spans.append((at, at + len(text), stage))
            at += len(text)
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        """Choose the stage that was clicked; anywhere else, the pane."""
        stage = next((s for start, end, s in self._spans if start <= event.x < end), self.stage)
        if stage is not None:
            self.post_message(self.Chosen(self, stage))
