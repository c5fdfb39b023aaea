"""The passes of a kernel, a row each, with a cursor and a filter."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from inspector.analyse.passes import PassRun, searched
from inspector.report.passes import milliseconds, title
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice, notice_row
from inspector.tui.widgets.row_list import RowList
from inspector.tui.widgets.visible import cut, label

FIGURES = (("lines +", 7), ("−", 6), ("ms", 7))
"""Heads and cells of the figures at the right of a row."""


class PassTable(RowList[PassRun], can_focus=True, inherit_bindings=False):
    """One row a pass that changed something, or all of them; a head above."""

    BINDINGS = bindings(Where.PASSES)
    HEAD_LINES = 1

    class Chosen(Message):
        """The cursor is on another pass, or on none."""

        def __init__(self, run: PassRun | None) -> None:
            super().__init__()
            self.pass_run = run

    class Opened(Message):
        """A row was clicked twice: one goes to what it changed."""

    def __init__(self) -> None:
        super().__init__()
        self.known: tuple[PassRun, ...] = ()
        self.rows: tuple[PassRun, ...] = ()
        self.cursor = 0
        self._stood = 0
        """The number of the pass that was last gone to, which a filter may hide for a while."""

        self.every = False
        self.stage: str | None = None
        self.query_text = ""
        self.notice: Notice | None = None

    def know(self, passes: tuple[PassRun, ...]) -> None:
        """These are the passes."""
        self.known, self.notice = passes, None
        self.lay()

    def say(self, notice: Notice) -> None:
        """There are none; a sentence stands there."""
        self.known, self.rows, self.notice = (), (), notice
        self.refresh()

    def lay(self) -> None:
        """The rows that are wanted; the cursor stays on its pass, or goes to the nearest."""
        shown = [p for p in self.known if self.stage in (None, p.stage)]
        if self.query_text.strip():
            shown = list(searched(shown, self.query_text))
        elif not self.every:
            shown = [p for p in shown if p.changed or not p.finished]
        self.rows = tuple(shown)
        after = (i for i, p in enumerate(self.rows) if p.number >= self._stood)
        self.cursor = next(after, max(0, len(self.rows) - 1))
        self.virtual_size = Size(0, len(self.rows) + 1)
        self.reveal()
        self.refresh()
        self.post_message(self.Chosen(self.row))

    def filter(self, text: str) -> None:
        """Only passes that these words fit."""
        self.query_text = text
        self.lay()

    # Commands

    def moved(self) -> None:
        """That pass is the one that a filter may hide for a while."""
        self._stood = 0 if self.row is None else self.row.number
        self.post_message(self.Chosen(self.row))

    def action_every(self) -> None:
        """Passes that changed nothing, too, or not."""
        self.every = not self.every
        self.lay()

    def action_stage(self) -> None:
        """Passes of the next stage alone; after the last of all."""
        stages = [None, *dict.fromkeys(p.stage for p in self.known)]
        self.stage = stages[(stages.index(self.stage) + 1) % len(stages)]
        self.lay()

    def on_click(self, event: events.Click) -> None:
        """A row is gone to; twice: what it changed."""
        offset = event.get_content_offset(self)
        if offset is None or not 0 < offset.y <= len(self.rows) - self.scroll_offset.y:
            return
        self.go(self.scroll_offset.y + offset.y - 1)
        if event.chain == 2:
            self.post_message(self.Opened())

    # Drawing

    def render_line(self, y: int) -> Strip:
        """The head, which always stands there, and the rows beneath it."""
        width = self.scrollable_content_region.width
        base = self.rich_style
        if not self.known:
            loud, quiet = self.part("notice"), self.part("quiet")
            return notice_row(self.notice, y, width, base, loud, quiet)
        if y == 0:
            head = base + self.part("head")
            cells = [(f"{name:>{size}}", head) for name, size in FIGURES]
            return self._row("", " #   stage  pass", cells, head, head, width)
        index = self.scroll_offset.y + y - 1
        quiet = base + self.part("quiet")
        if index >= len(self.rows):
            if not self.rows and y == 2:
                return Strip([Segment("    nothing matches", quiet)]).adjust_cell_length(
                    width, base
                )
            return Strip.blank(width, base)
        run = self.rows[index]
        line = base + self.part("cursor") if index == self.cursor else base
        came, went = run.lines or (0, 0)
        texts = (str(came or ""), str(went or ""), milliseconds(run))
        looks = (self.part("plus"), self.part("minus"), self.part("quiet"))
        cells = [
            (f"{text:>{size}}", line + look)
            for text, look, (_, size) in zip(texts, looks, FIGURES, strict=True)
        ]
        here = "▸" if index == self.cursor else " "
        name = f"{run.number:>3}  {run.stage:<6} {label(title(run))}"
        look = line if run.changed else line + self.part("quiet")
        return self._row(here, name, cells, line + self.part("mark"), look, width)

    def _row(
        self, here: str, name: str, cells: list[tuple[str, Style]], mark: Style, look: Style,
        width: int,
    ) -> Strip:  # fmt: skip
        room = max(12, width - 1 - sum(size for _, size in FIGURES))
        said = cut(name, room)
        parts = [Segment(here or " ", mark), Segment(said + " " * (room - cell_len(said)), look)]
        parts += [Segment(text, style) for text, style in cells]
        return Strip(parts).adjust_cell_length(width, look)
