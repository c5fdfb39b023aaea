"""Pass by pass: the passes that made a kernel at the left, what one of them changed at the right.

The compiler is a child of a thread's, which is ended when one leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.worker import get_current_worker

from inspector.analyse.passes import PassRun
from inspector.diff.passes import change_of, lines_changed
from inspector.reader.passes import PassList, graph_passes, variant_passes
from inspector.recording.layout import kept_cache
from inspector.report.passes import note, operations
from inspector.tui.code.highlight import highlighter_for, width_of
from inspector.tui.diff.diff_bars import DiffStatus
from inspector.tui.diff.diff_search import DiffSearching
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.diff.diff_work import DiffOutcome, DiffRequest, Layout, unified
from inspector.tui.keys.command_table import BARE, Where, bindings_of, command
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.subject_bar import SubjectBar
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import label
from inspector.tui.work.pass_table import PassTable

WIDE = 110
"""Columns from which on the passes stand beside what one changed, and not above it."""


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """What a thread brings of one pass."""

    run: PassRun
    outcome: DiffOutcome


class PassesScreen(DiffSearching):
    """Has the passes read at once, and compares what the one under the cursor changed."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "PassTable"
    wheres: ClassVar = (Where.PASSES,)

    class Listed(Message):
        """A thread has the passes, or why there are none."""

        def __init__(self, answer: PassList | Notice) -> None:
            super().__init__()
            self.answer = answer

    class Began(Message):
        """A compiler was started."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Compared(Message):
        """A thread has compared what a pass changed."""

        def __init__(self, of: PassOutcome) -> None:
            super().__init__()
            self.of = of

    def __init__(self, subject: TreeSubject) -> None:
        super().__init__()
        self.subject = subject
        self.bar = SubjectBar("passes", subject)
        self.body = Container(id="passes")
        self.table = PassTable()
        self.view = DiffView()
        self.status = DiffStatus()
        self.footer = KeyFooter()
        self.footer.where = Where.PASSES
        self.made: PassList | None = None
        self.shown: PassRun | None = None
        self._reading = True
        self._filtered = ""

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        with self.body:
            yield self.table
            yield self.view
        yield self.status
        yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """Have them read."""
        self._fit()
        self.table.say(Notice("◔", "Reading the passes …"))
        self.view.show_notice(Notice("", ""))
        self._list()

    def on_resize(self) -> None:
        """Beside each other or above."""
        self._fit()

    def _fit(self) -> None:
        self.body.set_class(self.size.width >= WIDE, "-wide")

    @property
    def settled(self) -> bool:
        """Whether what is under the cursor is what is shown."""
        return not self._reading and self.shown is self.table.row

    # Reading

    @work(thread=True, exclusive=True, group="passes", exit_on_error=False, description="passes")
    def _list(self) -> None:
        worker = get_current_worker()
        variant, graph = self.subject.variant, self.subject.graph

        def go_on() -> bool:
            return self.is_attached and not worker.is_cancelled

        def say(text: str) -> None:
            self.post_message(self.Began(text))

        def read() -> PassList:
            if variant is not None:
                return variant_passes(variant, kept_cache(), lines_changed, go_on=go_on, say=say)
            assert graph is not None
            return graph_passes(graph, lines_changed)

        answer = attempt(read)
        if go_on():
            self.post_message(self.Listed(answer))

    @on(Began)
    def _began(self, message: Began) -> None:
        message.stop()
        self.table.say(Notice("◔", f"{message.text} …", "Esc ends it."))

    @on(Listed)
    def _listed(self, message: Listed) -> None:
        message.stop()
        self._reading = False
        answer = message.answer
        if isinstance(answer, Notice):
            self.table.say(answer)
            return
        self.made = answer
        self.table.know(answer.passes)
        if not answer.passes:
            self.table.say(Notice("✗", answer.failed or "No pass was told.", ""))
        changed = sum(p.changed for p in answer.passes)
        by = [answer.target, f"Triton {answer.triton}"] if answer.triton else ["Inductor's own"]
        told = [*by, f"{changed} of {len(answer.passes)} changed something"]
        if answer.failed is not None:
            told.append("the compiler did not come to its end (r)")
        elif answer.remarks:
            told.append("r: remarks")
        self.bar.tell(" · ".join(told))

    @on(PassTable.Chosen)
    def _chosen(self, message: PassTable.Chosen) -> None:
        message.stop()
        run = message.pass_run
        if run is None:
            self.shown = None
            self.view.show_notice(Notice("", ""))
            self._tell()
        elif run is not self.shown:
            self._compare(run)

    @work(thread=True, exclusive=True, group="pass", exit_on_error=False, description="pass")
    def _compare(self, run: PassRun) -> None:
        worker = get_current_worker()
        request = DiffRequest(self.subject, self.subject, None)
        answer = attempt(lambda: _outcome(run, request))
        outcome = DiffOutcome(request, notice=answer) if isinstance(answer, Notice) else answer
        if not worker.is_cancelled:
            self.post_message(self.Compared(PassOutcome(run, outcome)))

    @on(Compared)
    def _were_compared(self, message: Compared) -> None:
        message.stop()
        if message.of.run is not self.table.row:
            return
        self.shown = message.of.run
        self.view.show(message.of.outcome)
        self._tell()
        self.search_again()

    @on(DiffView.Moved)
    def _moved(self, message: DiffView.Moved) -> None:
        message.stop()
        if self.focused is self.view:
            self.tell_match()
            self.status.follow(self.view)

    def _tell(self) -> None:
        """The line above the keys: which operations came and went, and how the list is filtered."""
        run, table = self.table.row, self.table
        if self.focused is self.view:
            self.status.follow(self.view)
            return
        parts = [] if run is None else [label(operations(run, None)) or "no other operations"]
        if run is not None and run.inside:
            parts.append(f"runs {', '.join(dict.fromkeys(run.inside))}")
        head = [f"/{label(table.query_text)}"] if table.query_text else []
        head += [f"{table.stage} alone"] if table.stage else []
        self.status.say("   ".join([*head, *parts]))

    # Commands

    @on(Prompt.Edited)
    def _typed(self, message: Prompt.Edited) -> None:
        if message.kind == "passes":
            message.prevent_default()
            message.stop()
            self.table.filter(message.text)

    @on(Prompt.Closed)
    def _typed_all(self, message: Prompt.Closed) -> None:
        if message.kind == "passes":
            message.prevent_default()
            message.stop()
            self.status.display = True
            if not message.accepted:
                self.table.filter(self._filtered)
            self.set_focus(self.table)
            self._tell()

    def action_find(self) -> None:
        """Ask for an operation, or a pass."""
        self._filtered = self.table.query_text
        self.status.display = False
        self.prompt.ask("passes", self._filtered)

    def action_look(self) -> None:
        """Go to what the pass changed."""
        if self.shown is not None:
            self.set_focus(self.view)
            self._tell()

    @on(PassTable.Opened)
    def _opened(self) -> None:
        self.action_look()

    def action_change(self, step: int) -> None:
        """The next change of the pass, from the list."""
        self.view.action_change(step)

    def action_remarks(self) -> None:
        """What is to be said of how they were read."""
        made = self.made
        if made is None:
            self.status.say("There is nothing to be said yet.")
            return
        said = [*([f"It did not come to its end: {made.failed}"] if made.failed else []),
                *made.remarks]  # fmt: skip
        text = "\n\n".join(f"• {label(one)}" for one in said) or "There are no remarks."
        self.app.push_screen(Overlay("These passes", Content(text)))

    def action_back(self) -> None:
        """Close it."""
        self.dismiss()

    def action_escape(self) -> None:
        """From what a pass changed to the list; there the filter is forgotten, else it closes."""
        if self.focused is self.view:
            if not self.forget():
                self.set_focus(self.table)
                self._tell()
        elif self.table.query_text or self.table.stage:
            self.table.stage = None
            self.table.filter("")
        else:
            self.dismiss()

    async def action_tell_app(self, name: str) -> None:
        """Something that is the application's affair."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        chosen = command(name)
        if self.focused is self.prompt.input:
            self.set_focus(self.table)
        home = {Where.PASSES: self.table, Where.DIFF: self.view}.get(chosen.where, self)
        await self.app.run_action(chosen.action, home)


def _outcome(run: PassRun, request: DiffRequest) -> DiffOutcome:
    """What a pass changed, laid out; called in a thread."""
    if not run.changed:
        said = note(run) or "it changed nothing"
        return DiffOutcome(request, notice=Notice("", f"{said[0].upper()}{said[1:]}."))
    change = change_of(run)
    a, b = (highlighter_for(listing, change.stage, None) for listing in change.listings)
    beside = Layout.of(change.rows())
    one = Layout.of(unified(beside.rows))
    width = max(width_of(source.texts) for source in (a, b))
    return DiffOutcome(request, change, (a, b), beside, one, width)
