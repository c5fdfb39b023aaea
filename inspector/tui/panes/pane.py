"""One pane: a stage of a subject, read in a thread, under its title."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from inspector.analyse.flow.arrows import FlowLanes, arrows
from inspector.analyse.line_annotations import NOTHING, LineAnnotations
from inspector.base.model import GRAPH_STAGES, KERNEL_STAGES, Stage
from inspector.listing.ptx_location import read_files
from inspector.reader.reader import Reader
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.folding import Fold, Region, regions
from inspector.tui.code.highlight import Highlighter
from inspector.tui.keys.command_table import command, there
from inspector.tui.keys.keymap import shown
from inspector.tui.panes.listing_outcome import ListingOutcome, ListingRequest, load, missing
from inspector.tui.widgets.lines import LineWidget, ends
from inspector.tui.widgets.notice import Notice, attempt, cancelled, in_thread
from inspector.tui.widgets.subject import TreeSubject, digit, told_alike
from inspector.tui.widgets.visible import label, shorten

PATIENCE_SECONDS = 0.12
"""For which the text before stays: most stages come sooner, and flicker tires the eye."""

LINES_PER_LOOK = 1000
"""Lines searched before a search asks whether it is still wanted."""


class PaneTitle(LineWidget):
    """``ptx  square_kernel  3f2a91c0``, and on the right the stages, those that are missing dim."""

    @dataclass
    class Clicked(Message):
        """The title, a stage in it or the sign of a mode was clicked."""

        title: PaneTitle
        action: str

    def __init__(self) -> None:
        super().__init__()
        self.subject = TreeSubject()
        self.stage: Stage | None = None
        self.path = ""
        self.busy = False
        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on in the pane, in a word or two, and the id of the command that ends it."""

    def show(self, subject: TreeSubject, stage: Stage, busy: bool) -> None:
        """Name what the pane shows; ``busy`` while it is being read."""
        self.subject, self.stage, self.busy = subject, stage, busy
        variant = subject.variant
        file = variant.stages.get(stage) if variant else None
        if stage is Stage.SOURCE:  # of a graph, too: what it was made of is a file of the user's
            file = subject.file(stage)
        self.path = ""
        if file is not None and file.origin_path and stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            self.path = file.origin_path.replace("\\", "/").rpartition("/")[2]
        self.refresh()

    def _tabs(self, words: bool) -> list[tuple[str, Stage]]:
        no_graph = self.stage not in GRAPH_STAGES
        return [
            (f" {digit(stage)} {stage} " if words else f" {digit(stage)}", stage)
            for stage in (*KERNEL_STAGES, *GRAPH_STAGES)
            if stage is self.stage
            # One of a graph's represents all that share its key.
            or (self.subject.has(stage) and stage is Stage.OPERATIONS and no_graph)
            or (stage in KERNEL_STAGES and (not words or self.subject.has(stage)))
        ]

    def render(self) -> Content:
        """As much as the width allows: the stage always, its digits next, then names."""
        width = self.size.width
        if self.stage is None:
            return Content("")
        head = Content.styled(f" {self.stage}{' ◔' if self.busy else ''}", "bold")
        for word, key, name in self._on():
            mode = _clickable(f"[{word} {key}]", "bold", f"run({name!r})")
            head = Content.assemble(head, " ", mode)
        variant = self.subject.variant
        what = label(self.path or self.subject.name)
        tail = "" if self.path or variant is None else f"  {variant.id}"
        tabs = self._tabs(words=True)
        if sum(len(text) for text, _ in tabs) + len(head) + len(what) + len(tail) + 4 > width:
            tabs = self._tabs(words=False)
        if len(head) + 16 + sum(len(text) for text, _ in tabs) > width:
            tabs = []
        room = width - len(head) - sum(len(text) for text, _ in tabs) - 3
        tail = tail if len(what) + len(tail) <= room else ""
        middle = f"  {shorten(what, room - len(tail))}{tail}" if room > 4 else ""
        right = Content.assemble(*(self._tab(text, stage) for text, stage in tabs))
        return ends(Content.assemble(head, middle), right, width - 1)

    def _tab(self, text: str, stage: Stage) -> Content:
        style = "bold underline" if stage is self.stage else ""
        if not self.subject.has(stage):
            style = "dim strike" if len(text) == 2 else "dim"
        bare = text.strip()
        lead, _, rest = text.partition(bare)
        return _clickable(
            Content.assemble(lead, (bare, style), rest), "", f"stage({stage.value!r})"
        )

    def _on(self) -> list[tuple[str, str, str]]:
        """What is on: its word, the key that ends it, and that key's command."""
        keys = getattr(self.app, "keys", {})
        own = {one.id for one in there(getattr(self.screen, "wheres", ()))}
        # Where a block is run, w is something else: there folds are all that can be changed.
        modes = [(word, name if name in own else "fold.level") for word, name in self.modes]
        return [(word, shown(command(name), keys), name) for word, name in modes]

    def on_click(self, event: events.Click) -> None:
        """Choose the pane, and what was clicked in the title."""
        self.post_message(self.Clicked(self, event.style.meta.get("run", "")))


def _clickable(text: str | Content, style: str, action: str) -> Content:
    content = text if isinstance(text, Content) else Content.styled(text, style)
    return content.stylize(Style.from_meta({"run": action}))


class ColumnHeads(Widget):
    """What the columns of a pane's gutter are called, above them; not there without columns."""

    def __init__(self, view: CodeView) -> None:
        super().__init__()
        self.view = view

    def render(self) -> Content:
        """Each above its figures."""
        rows = self.view.rows
        before = rows.margin - rows.gutter.width - rows.flow_width
        return Content(" " * before + rows.gutter.heads)


Foldable = tuple[Mapping[Fold, tuple[Region, ...]], Mapping[int, str], FlowLanes | None]
"""Foldable regions of a listing, files of ``.loc`` by their numbers, and branches."""


class Pane(Vertical):
    """Shows the last requested listing; at most one thread reads for it."""

    @dataclass
    class Shown(Message):
        """Another listing, or a notice, is in the pane."""

        pane: Pane

    @dataclass
    class Annotated(Message):
        """The analysis of what a pane shows is there."""

        pane: Pane

    @dataclass
    class Found(Message):
        """A search has ended: ``lines`` have the pattern, or a notice says why not."""

        pane: Pane
        pattern: re.Pattern[str]
        lines: tuple[int, ...] | Notice

    def __init__(self, reads: Reader) -> None:
        super().__init__()
        self.reads = reads
        self.title_line = PaneTitle()
        self.view = CodeView()
        self.heads = ColumnHeads(self.view)
        self.request: ListingRequest | None = None
        self.preferred: Stage | None = None
        self._reading: ListingRequest | None = None
        self._shown: ListingRequest | None = None
        self._goal: tuple[ListingRequest, int] | None = None
        self._zoomed = False

    def compose(self) -> ComposeResult:
        """A title, heads of columns and the text."""
        yield self.title_line
        yield self.heads
        yield self.view

    @property
    def settled(self) -> bool:
        """Whether the requested listing is shown."""
        return self._shown == self.request

    @property
    def stage(self) -> Stage | None:
        """The stage that was asked for."""
        return None if self.request is None else self.request.stage

    # Reading

    def show(self, subject: TreeSubject, stage: Stage) -> None:
        """Show a stage of a subject as soon as it is read."""
        request = ListingRequest(subject, stage)
        if request != self.request:
            self.request = request
            self.title_line.show(subject, stage, busy=False)
            if self._reading is None:
                self._start(request)

    def renew(self, reads: Reader, subject: TreeSubject) -> None:
        """Read from ``reads``, which may have what could not be shown until now."""
        self.reads = reads
        if self.request is None:
            return
        settled, before, stage = self.settled, self.request.subject, self.request.stage
        request = self.request = ListingRequest(subject, stage)
        if not settled:
            return  # a thread is reading what there was: if that is nothing, this is read next
        self.title_line.show(subject, stage, busy=False)
        shown, made = before.variant, subject.variant
        if shown and made and shown.hash != made.hash and subject.has(stage):
            # It was compiled again, of another text.
            self._goal = (request, self.view.cursor)
            self._start(request)
            return
        self._shown = request
        if self.view.source is not None:
            if subject != before or not told_alike(shown, made):
                self._annotate(request)
        elif not subject.has(stage):
            # Nothing more may be to come: why there is nothing is another reason then.
            notice = missing(subject, stage, reads.recording.complete)
            if notice != self.view.notice:
                self.view.show_notice(notice)
        elif before.file(stage) != subject.file(stage):
            self._shown = None
            self._start(request)

    def _start(self, request: ListingRequest) -> None:
        self._reading = request
        self.set_timer(PATIENCE_SECONDS, lambda: self._wait(request))
        in_thread(self, lambda: load(self.reads, request), self._loaded, "load")

    def _wait(self, request: ListingRequest) -> None:
        if self._reading == request and self.request is not None and not self.settled:
            subject, stage = self.request.subject, self.request.stage
            self.title_line.show(subject, stage, busy=True)
            file = None if subject.variant is None else subject.variant.stages.get(stage)
            costly = file is not None and file.costly
            text = f"The compiler is making {stage} …" if costly else f"Reading {stage} …"
            self.view.show_notice(Notice("◔", text))

    def _loaded(self, outcome: ListingOutcome | Notice) -> None:
        asked, request = self._reading, self.request
        self._reading = None
        assert asked is not None and request is not None
        if isinstance(outcome, Notice):
            outcome = ListingOutcome(asked, notice=outcome)
        late = outcome.source is None and request.subject is not asked.subject
        if asked != request or (
            late and request.subject.has(asked.stage) and not asked.subject.has(asked.stage)
        ):
            self._start(request)  # another choice was made, or it has come in the meantime
            return
        self._shown = asked
        self.title_line.show(asked.subject, asked.stage, busy=False)
        if outcome.source is not None:
            self.view.show(outcome.source, outcome.width, outcome.top, outcome.at)
            if self.view.pattern is not None:
                self.search(self.view.pattern)
            self._annotate(asked)
            self._find_folds(outcome.source)
            if self._goal is not None and self._goal[0] == asked:
                self.view.go(self._goal[1])
            self._goal = None
        else:
            self.view.show_notice(outcome.notice or Notice("✗", "There is nothing to show."))
        self.post_message(self.Shown(self))

    def go(self, n: int) -> None:
        """Go to a line of the requested listing, once it is shown."""
        if self.settled:
            self.view.go(n)
        elif self.request is not None:
            self._goal = (self.request, n)

    # The title

    def zoom(self, on: bool) -> None:
        """Say in the title that the other panes are hidden."""
        if on is not self._zoomed:
            self._zoomed = on
            self._show_modes()

    @on(CodeView.Looks)
    def _show_modes(self) -> None:
        modes = (("zoom", "zoom"),) if self._zoomed else ()
        self.title_line.modes = (*modes, *self.view.modes)
        self.title_line.refresh()

    @on(CodeView.Columned)
    def _columned(self, message: CodeView.Columned) -> None:
        message.stop()
        there = bool(self.view.rows.gutter.columns) and bool(self.view.lines)
        self.heads.set_class(there, "-there")
        self.heads.refresh()

    # Annotations

    def _annotate(self, request: ListingRequest) -> None:
        variant, stage, reads = request.subject.variant, request.stage, self.reads
        if variant is None or request.subject.of_graph(stage):
            return

        def name() -> tuple[Mapping[str, str], range]:
            function = reads.function(variant, stage)
            lines = range(0) if function is None else range(function.first, function.last + 1)
            return reads.parameter_names(variant, stage), lines

        def annotated(found: LineAnnotations | Notice) -> None:
            if request == self.request and self.settled:
                # The card shows the failure; the code reads well without.
                self.view.annotate(found if isinstance(found, LineAnnotations) else NOTHING)
                self.post_message(self.Annotated(self))

        def named(found: tuple[Mapping[str, str], range] | Notice) -> None:
            if not isinstance(found, Notice) and request == self.request and self.settled:
                self.view.named(*found)

        if stage in (Stage.PTX, Stage.SASS):
            in_thread(self, name, named, "names")
        in_thread(self, lambda: reads.line_annotations(variant, stage), annotated, "annotate")

    def _find_folds(self, source: Highlighter) -> None:
        listing = source.listing

        def find() -> Foldable:
            flow = attempt(lambda: FlowLanes(arrows(listing)))
            is_ptx = listing.language == Stage.PTX.value
            files = attempt(lambda: read_files(listing.text)) if is_ptx else {}
            return (
                regions(listing),
                {} if isinstance(files, Notice) else files,
                None if isinstance(flow, Notice) else flow,
            )

        def show(found: Foldable | Notice) -> None:
            if source is self.view.source and not isinstance(found, Notice):
                self.view.foldable(*found)

        in_thread(self, find, show, "fold")

    def search(self, pattern: re.Pattern[str]) -> None:
        """Find the lines that have ``pattern``; the next search ends this one."""
        source = self.view.source

        def found(lines: tuple[int, ...] | Notice) -> None:
            self.post_message(self.Found(self, pattern, lines))

        if source is not None:
            in_thread(self, lambda: matches(source, pattern, source.own_text), found, "search")


def matches(
    source: Highlighter, pattern: re.Pattern[str], text: Callable[[int], str]
) -> tuple[int, ...]:
    """Return the lines that have a pattern; in a thread that may be cancelled."""
    out: list[int] = []
    for n in range(1, len(source.texts) + 1):
        if n % LINES_PER_LOOK == 0 and cancelled():
            break
        if pattern.search(text(n)):
            out.append(n)
    return tuple(out)
