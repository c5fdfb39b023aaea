"""Pass by pass: the passes that made a kernel at the left, what one of them changed at the right.

The compiler is a child of a thread's, which is ended when one leaves.
"""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.dom import DOMNode
from textual.strip import Strip
from textual.worker import get_current_worker

from inspector.analysis.passes import PassRun, searched
from inspector.diff.beside import change_of, lines_changed
from inspector.reader.passes import PassList, graph_passes, variant_passes
from inspector.recording.layout import user_derived_cache
from inspector.render.compiled import (
    pass_milliseconds,
    pass_note,
    pass_operations,
    pass_title,
)
from inspector.render.tables import padded
from inspector.tui.code.highlight import highlighter_for
from inspector.tui.diff.diff_screen import DiffSearching
from inspector.tui.diff.diff_view import DiffOutcome, DiffView, laid_out
from inspector.tui.keys.command_table import BARE, KeyContext, bindings, bindings_of
from inspector.tui.widgets.notice import Notice, following, in_thread, label
from inspector.tui.widgets.row_list import Table
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.tool_screen import Overlay, SubjectBar

WIDE = 110
"""Columns from which the passes are beside what one changed, and not above it."""


class PassTable(Table[PassRun], can_focus=True, inherit_bindings=False):
    """One row a pass that changed something, or all of them."""

    BINDINGS = bindings(KeyContext.PASSES)
    empty_text = "    nothing matches"

    def __init__(self) -> None:
        super().__init__()
        self.all_passes: tuple[PassRun, ...] = ()
        self.shows_all = False
        self.stage: str | None = None
        self._last = 0
        """The number of the pass that was last gone to, which a filter may hide for a while."""

    def say(self, notice: Notice) -> None:
        self.all_passes = ()
        self.rows = ()
        self.notice = notice
        self.refresh()

    def lay(self) -> None:
        self.notice = None
        shown = [p for p in self.all_passes if self.stage in (None, p.stage)]
        if self.query_text.strip():
            shown = list(searched(shown, self.query_text))
        elif not self.shows_all:
            shown = [p for p in shown if p.changed or not p.finished]
        next_passes = (i for i, p in enumerate(shown) if p.number >= self._last)
        self.show_rows(shown, next(next_passes, len(shown)))

    def moved(self) -> None:
        self._last = 0 if self.row is None else self.row.number
        super().moved()

    def action_every(self) -> None:
        self.shows_all = not self.shows_all
        self.lay()

    def action_stage(self) -> None:
        stages = [None, *dict.fromkeys(p.stage for p in self.all_passes)]
        self.stage = following(stages, self.stage)
        self.lay()

    def draw_head(self, width: int) -> Strip:
        head = self.rich_style + self.part("head")
        return self._line((" ", " #   stage  pass", "lines +", "−", "ms"), (head,) * 5, width)

    def draw_row(self, index: int, width: int, base: Style) -> Strip:
        run = self.rows[index]
        at_cursor = index == self.cursor
        line = base + self.part("cursor") if at_cursor else base
        added_count, removed_count = run.lines or (0, 0)
        added = str(added_count or "")
        removed = str(removed_count or "")
        name = f"{run.number:>3}  {run.stage:<6} {label(pass_title(run))}"
        parts = ("mark", "head" if run.changed else "quiet", "plus", "minus", "quiet")
        styles = [line + self.part(part) if part != "head" else line for part in parts]
        texts = ("▸" if at_cursor else " ", name, added, removed, pass_milliseconds(run))
        return self._line(texts, styles, width)

    @staticmethod
    def _line(texts: Sequence[str], styles: Sequence[Style], width: int) -> Strip:
        sizes = (1, max(12, width - 21), 7, 6, 7)
        cells = [
            Segment(padded(text, size, right=n > 1), style)
            for n, (text, size, style) in enumerate(zip(texts, sizes, styles, strict=True))
        ]
        return Strip(cells).adjust_cell_length(width, styles[1])


class PassesScreen(DiffSearching):
    """Has the passes read at once, and compares what the one under the cursor changed."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "PassTable"
    contexts: ClassVar = (KeyContext.PASSES,)

    def __init__(self, subject: TreeSubject) -> None:
        super().__init__()
        self.subject = subject
        self.bar = SubjectBar("passes", subject.name, subject.description)
        self.table = PassTable()
        self.body = Container(self.table, self.view, id="passes")
        self.pass_list: PassList | None = None
        self.shown: PassRun | None = None
        self._reading = True

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.body, *self.below)

    def on_mount(self) -> None:
        self.table.say(Notice("◔", "Reading the passes …"))
        self.view.show_notice(Notice("", ""))
        self._list()

    def on_resize(self) -> None:
        self.body.set_class(self.size.width >= WIDE, "-wide")

    @property
    def home(self) -> PassTable:
        return self.table

    def home_of(self, context: KeyContext) -> DOMNode:
        return self.view if context is KeyContext.DIFF else super().home_of(context)

    @property
    def settled(self) -> bool:
        return not self._reading and self.shown is self.table.row

    def _list(self) -> None:
        variant = self.subject.variant
        graph = self.subject.graph

        def say(text: str) -> None:
            self.call_later(self.table.say, Notice("◔", f"{text} …", "Esc ends it."))

        def read() -> PassList:
            if variant is None and graph is not None:
                return graph_passes(graph, lines_changed)
            assert variant is not None
            worker = get_current_worker()
            return variant_passes(
                variant,
                user_derived_cache(),
                lines_changed,
                go_on=lambda: self.is_attached and not worker.is_cancelled,
                say=say,
            )

        in_thread(self, read, self._listed, "passes", failed=self._not_listed)

    def _not_listed(self, notice: Notice) -> None:
        self._reading = False
        self.table.say(notice)

    def _listed(self, answer: PassList) -> None:
        self._reading = False
        self.pass_list = answer
        self.table.all_passes = answer.passes
        self.table.lay()
        if not answer.passes:
            self.table.say(Notice("✗", answer.failed or "There are no passes.", ""))
        changed = sum(p.changed for p in answer.passes)
        facts = [answer.target, f"Triton {answer.triton}"] if answer.triton else ["Inductor's own"]
        notes = ["r: remarks"] if answer.remarks else []
        if answer.failed is not None:
            notes = ["the compiler did not come to its end (r)"]
        change_count = f"{changed} of {len(answer.passes)} changed something"
        self.bar.tell(right=" · ".join([change_count, *notes, *facts]))

    @on(PassTable.Moved)
    def _moved_to(self) -> None:
        run = self.table.row
        if run is None:
            self.shown = None
            self.view.show_notice(Notice("", ""))
            self._tell()
        elif run is not self.shown:

            def compared(outcome: DiffOutcome | Notice) -> None:
                if run is self.table.row:
                    self.shown = run
                    self.view.show(outcome)
                    self._tell()

            in_thread(self, lambda: _outcome(run), compared, "pass", failed=compared)

    @on(DiffView.Moved)
    def _moved(self, message: DiffView.Moved) -> None:
        message.stop()
        if self.focused is self.view:
            self.follow()

    def _tell(self) -> None:
        run = self.table.row
        table = self.table
        if self.focused is self.view:
            self.follow()
            return
        parts = []
        if table.query_text:
            parts.append(f"/{label(table.query_text)}")
        if table.stage:
            parts.append(f"{table.stage} alone")
        if run is not None:
            parts.append(label(pass_operations(run, None)) or "no other operations")
            if run.inside:
                parts.append(f"runs {', '.join(dict.fromkeys(run.inside))}")
        self.status.say("   ".join(parts))

    def action_find(self) -> None:
        old_query = self.table.query_text

        def closed(text: str | None) -> None:
            if text is None:
                self.table.filter(old_query)
            self._tell()

        self.ask("passes", old_query, closed, self.table.filter)

    def searched(self, text: str | None) -> None:
        self.set_focus(self.view)
        super().searched(text)

    @on(PassTable.Chosen)
    def action_look(self) -> None:
        if self.shown is not None:
            self.set_focus(self.view)
            self._tell()

    def action_change(self, step: int) -> None:
        self.view.action_change(step)

    def action_remarks(self) -> None:
        passes = self.pass_list
        if passes is None:
            self.status.say("There is nothing to be said yet.")
            return
        failed = [f"It did not come to its end: {passes.failed}"] if passes.failed else []
        text = "\n\n".join(f"• {label(remark)}" for remark in (*failed, *passes.remarks))
        self.app.push_screen(Overlay("These passes", Content(text or "There are no remarks.")))

    def action_escape(self) -> None:
        if self.focused is self.view:
            if not self.forget():
                self.set_focus(self.table)
                self._tell()
        elif self.table.query_text or self.table.stage:
            self.table.stage = None
            self.table.filter("")
        else:
            self.dismiss()


def _outcome(run: PassRun) -> DiffOutcome | Notice:
    if not run.changed:
        sentence = pass_note(run) or "it changed nothing"
        return Notice("", f"{sentence[0].upper()}{sentence[1:]}.")
    change = change_of(run)
    sources = tuple(highlighter_for(listing, change.stage, None) for listing in change.listings)
    return laid_out(change, sources)
