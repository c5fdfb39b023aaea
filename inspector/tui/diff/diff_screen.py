"""Comparison of two variants: the explanation above, their aligned listings beneath."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content

from inspector.base.model import Stage
from inspector.diff.compare import Compared
from inspector.reader.reader import Reader
from inspector.report import diff_text
from inspector.tui.diff.diff_bars import DiffBar, DiffHeads, DiffSummary
from inspector.tui.diff.diff_search import DiffSearching
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.diff.diff_work import DiffOutcome, DiffPlace, DiffRequest, load, shared_stages
from inspector.tui.keys.command_table import SHARED, Where, bindings_of
from inspector.tui.panes.pane import PATIENCE_SECONDS
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.subject import TreeSubject, resolve
from inspector.tui.widgets.threads import in_thread
from inspector.tui.widgets.visible import label

FIGURES = 78
"""Columns of the overlay with all figures."""


class DiffScreen(DiffSearching):
    """Compares ``a`` with ``b``; one thread at a time, for the newest request.

    ``fixed``: they are not in the recording, so its growth does not affect them.
    """

    BINDINGS = bindings_of(SHARED)
    AUTO_FOCUS = "DiffView"
    wheres: ClassVar = (Where.DIFF,)

    def __init__(
        self,
        reads: Reader,
        a: TreeSubject,
        b: TreeSubject,
        stage: Stage | None = None,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        self.reads = reads
        self.fixed = fixed
        self.request = DiffRequest(a, b, stage)
        self.bar = DiffBar()
        self.summary = DiffSummary()
        self.heads = DiffHeads(a, b)
        self._reading: DiffRequest | None = None
        self._trail: dict[Stage, DiffPlace] = {}
        self._landed: DiffPlace | None = None

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        yield self.summary
        yield self.heads
        yield self.view
        yield self.status
        yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """Compare at once."""
        self._ask(self.request)

    def on_resize(self) -> None:
        """The summary takes a share of the height."""
        self.summary.fit()

    @property
    def home(self) -> DiffView:
        """The widget that has the focus when nobody types."""
        return self.view

    @property
    def settled(self) -> bool:
        """Whether the requested comparison is shown."""
        outcome = self.view.outcome
        return self._reading is None and outcome is not None and outcome.request == self.request

    def renew(self, reads: Reader) -> None:
        """Read the two from a recording that has grown."""
        if self.fixed:
            return
        self.reads = reads
        a, b = (resolve(reads.recording, one) for one in (self.request.a, self.request.b))
        self.request = replace(self.request, a=a, b=b)

    # Comparing

    def _ask(self, request: DiffRequest) -> None:
        self.request = request
        if self._reading is None:
            self._start(request)

    def _start(self, request: DiffRequest) -> None:
        self._reading = request
        self._tell()
        self.set_timer(PATIENCE_SECONDS, lambda: self._wait(request))
        in_thread(self, lambda: load(self.reads, request), self._compared, "compare")

    def _wait(self, request: DiffRequest) -> None:
        if self._reading is request:
            stage = request.stage or "the two"
            self.view.show_notice(Notice("◔", f"Comparing {stage} …"))

    def _compared(self, outcome: DiffOutcome | Notice) -> None:
        asked, self._reading = self._reading, None
        assert asked is not None
        if asked is not self.request:  # another was wanted in the meantime
            self._start(self.request)
            return
        if isinstance(outcome, Notice):
            outcome = DiffOutcome(asked, notice=outcome)
        self.view.show(outcome)
        own = outcome.comparison
        self.summary.show(own if isinstance(own, Compared) else None)
        self._landed = self.view.place
        self._tell()
        self.search_again()

    def _tell(self) -> None:
        """Update the bars."""
        request, view = self.request, self.view
        comparison = None if view.outcome is None else view.outcome.comparison
        stage = (
            comparison.stage if comparison is not None and self._reading is None else request.stage
        )
        parts = ["exact"] if request.exact else []
        if self._reading is not None:
            parts.append("◔")
        elif comparison is not None:
            many = len(view.changes)
            parts.append("identical" if not many else f"{many} change{'s' * (many > 1)}")
        self.bar.show(shared_stages(request.a, request.b), stage, " · ".join(parts))
        self.heads.show(request.a, request.b, view.beside)

    @on(DiffView.Moved)
    def _moved(self, message: DiffView.Moved) -> None:
        message.stop()
        self.follow()
        if self.heads.beside is not self.view.beside:
            self._tell()

    # Commands

    def action_stage(self, stage: str) -> None:
        """Show another stage, with the cursor on a linked line."""
        chosen, here = Stage(stage), self.view.place
        if here is not None:
            if here != self._landed:
                self._trail = {}
            self._trail[here.stage] = here
        shown = self.request
        at = self._trail.get(chosen) or here or shown.at
        self._ask(DiffRequest(shown.a, shown.b, chosen, shown.exact, at))

    def action_next_stage(self, by: int) -> None:
        """The next stage that both have."""
        stages = shared_stages(self.request.a, self.request.b)
        here = self.request.stage or (self.view.place.stage if self.view.place else None)
        if not stages:
            return
        if here in stages:
            wanted = stages[(stages.index(here) + by) % len(stages)]
        else:
            wanted = stages[0 if by > 0 else -1]
        self.action_stage(wanted.value)

    def action_exchange(self) -> None:
        """Exchange a and b."""
        asked, here = self.request, self.view.place
        at = None if here is None else DiffPlace(here.stage, here.b, here.a)
        self._trail = {}
        self._ask(DiffRequest(asked.b, asked.a, self._stage(), asked.exact, at))

    def action_exact(self) -> None:
        """Switch between comparing texts and comparing meanings."""
        asked = self.request
        exact = not asked.exact
        self._ask(DiffRequest(asked.a, asked.b, self._stage(), exact, self.view.place or asked.at))

    def _stage(self) -> Stage | None:
        here = self.view.place
        return self.request.stage or (None if here is None else here.stage)

    def action_words(self) -> None:
        """Show or hide what explains what."""
        self.summary.flip()

    def action_figures(self) -> None:
        """Every figure, over the screen."""
        comparison = self.summary.comparison
        if comparison is None:
            self.status.say("There is nothing to show yet.")
            return
        rows = diff_text.lines(comparison.summary, comparison.explanation, FIGURES)
        text = "\n".join(label(row.plain) for row in rows)
        self.app.push_screen(Overlay("What differs", Content(text)))

    def action_escape(self) -> None:
        """Forget the search; without one, close it."""
        if not self.forget():
            self.dismiss()
