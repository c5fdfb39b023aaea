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
from inspector.report.compiled import pass_milliseconds, pass_title
from inspector.tui.keys.command_table import Where, bindings
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.row_list import RowList
from inspector.tui.widgets.visible import cut, label

FIGURES = (("lines +", 7), ("−", 6), ("ms", 7))
"""Heads and cells of the figures at the right of a row."""


class PassTable(RowList[PassRun], can_focus=True, inherit_bindings=False):
    """One row a pass that changed something, or all of them; a head above."""

    BINDINGS = bindings(Where.PASSES)
    empty_text = "    nothing matches"
    HEAD_LINES = 1

    class Chosen(Message):
        """The cursor is on another pass, or on none."""

    class Opened(Message):
        """A row was clicked twice: one goes to what it changed."""

    def __init__(self) -> None:
        super().__init__()
        self.known: tuple[PassRun, ...] = ()
        self.rows: tuple[PassRun, ...] = ()
        self._stood = 0
        """The number of the pass that was last gone to, which a filter may hide for a while."""

        self.every = False
        self.stage: str | None = None
        self.query_text = ""

    def know(self, passes: tuple[PassRun, ...]) -> None:
        """These are the passes."""
        self.known, self.notice = passes, None
        self.lay()

    def say(self, notice: Notice) -> None:
        """Show a sentence instead of passes."""
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
        self.post_message(self.Chosen())

    def filter(self, text: str) -> None:
        """Only passes that these words fit."""
        self.query_text = text
        self.lay()

    # Commands

    def moved(self) -> None:
        """That pass is the one that a filter may hide for a while."""
        self._stood = 0 if self.row is None else self.row.number
        self.post_message(self.Chosen())

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
        index = self.clicked(event)
        if index is None:
            return
        self.go(index)
        if event.chain == 2:
            self.post_message(self.Opened())

    # Drawing

    def draw_head(self, width: int) -> Strip:
        """Draw the heads of the columns."""
        head = self.rich_style + self.part("head")
        cells = [(f"{name:>{size}}", head) for name, size in FIGURES]
        return self._row("", " #   stage  pass", cells, head, head, width)

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        """Draw a pass: its number, stage, name, lines changed and milliseconds."""
        run, chosen = self.rows[index], index == self.cursor
        line = base + self.part("cursor") if chosen else base
        came, went = run.lines or (0, 0)
        texts = (str(came or ""), str(went or ""), pass_milliseconds(run))
        looks = (self.part("plus"), self.part("minus"), self.part("quiet"))
        cells = [
            (f"{text:>{size}}", line + look)
            for text, look, (_, size) in zip(texts, looks, FIGURES, strict=True)
        ]
        name = f"{run.number:>3}  {run.stage:<6} {label(pass_title(run))}"
        look = line if run.changed else line + self.part("quiet")
        return self._row("▸" if chosen else " ", name, cells, line + self.part("mark"), look, width)

    def _row(
        self,
        here: str,
        name: str,
        cells: list[tuple[str, Style]],
        mark: Style,
        look: Style,
        width: int,
    ) -> Strip:
        room = max(12, width - 1 - sum(size for _, size in FIGURES))
        said = cut(name, room)
        parts = [Segment(here or " ", mark), Segment(said + " " * (room - cell_len(said)), look)]
        parts += [Segment(text, style) for text, style in cells]
        return Strip(parts).adjust_cell_length(width, look)
