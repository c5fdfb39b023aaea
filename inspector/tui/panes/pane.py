"""One pane: a stage of a subject, read in a thread, under its title."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from inspector.analyse.flow.arrows import FlowLanes, arrows
from inspector.analyse.telling import NOTHING, Telling
from inspector.listing.ptx_location import Locations
from inspector.model import GRAPH_STAGES, KERNEL_STAGES, Stage, Variant
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.folding import LEVELS, Fold, Region, RowMap, regions
from inspector.tui.code.highlight import Highlighter
from inspector.tui.keys.command_table import command, there
from inspector.tui.keys.keymap import shown
from inspector.tui.panes.listing_outcome import ListingOutcome, ListingRequest, load, missing
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.subject import TreeSubject, digit, told_alike
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import label, shorten

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

# -- the line above a pane ------------------------------------------------------------------------
# Which stage, of what, and the stages that can be chosen.


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
        self.subject = TreeSubject()
        self.stage: Stage | None = None
        self.path = ""
        self.busy = False
        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on in the pane, in a word or two, and the id of the command that ends it."""

        self._ends: list[tuple[int, int, str]] = []
        self._spans: list[tuple[int, int, Stage]] = []

    def show(self, subject: TreeSubject, stage: Stage, busy: bool) -> None:
        """What stands in the pane now; ``busy`` while it is being read."""
        self.subject, self.stage, self.busy = subject, stage, busy
        variant = subject.variant
        file = variant.stages.get(stage) if variant else None
        if stage is Stage.SOURCE:  # of a graph, too: what it was made of is a file of the user's
            file = subject.file(stage)
        self.path = ""
        if file is not None and file.origin_path and stage in (Stage.SOURCE, Stage.OUTPUT_CODE):
            self.path = file.origin_path.replace("\\", "/").rpartition("/")[2]
        self.refresh()

    @property
    def no_graph(self) -> bool:
        """Whether it shows none of a graph's stages."""
        return self.stage not in GRAPH_STAGES

    def _tabs(self, words: bool) -> list[tuple[str, Stage]]:
        return [
            (f" {digit(stage)} {stage} " if words else f" {digit(stage)}", stage)
            for stage in (*KERNEL_STAGES, *GRAPH_STAGES)
            if stage is self.stage
            # One of a graph's stands for all that share its key.
            or (self.subject.has(stage) and stage is Stage.OPERATIONS and self.no_graph)
            or (stage in KERNEL_STAGES and (not words or self.subject.has(stage)))
        ]

    def render(self) -> Content:
        """As much as the width allows: the stage always, its digits next, then names."""
        width = self.size.width
        if self.stage is None:
            return Content("")
        head = f" {self.stage}"
        if self.busy:
            head += " ◔"
        modes = [f"[{word} {key}]" for word, key, _ in self._on()]
        plain = len(head)
        head += "".join(f" {mode}" for mode in modes)
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
        self._ends, end = [], plain
        for mode, (_, _, name) in zip(modes, self._on(), strict=True):
            self._ends.append((end + 1, end + 1 + len(mode), name))
            end += 1 + len(mode)
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

    def _on(self) -> list[tuple[str, str, str]]:
        """What is on: its word, the key that ends it, and that key's command."""
        keys = getattr(self.app, "keys", {})
        own = {one.id for one in there(getattr(self.screen, "wheres", ()))}
        # Where a block is run, w is something else: there folds are all that can be changed.
        modes = [(word, "fold.level" if own and name not in own else name)
                 for word, name in self.modes]  # fmt: skip
        return [(word, shown(command(name), keys), name) for word, name in modes]

    async def on_click(self, event: events.Click) -> None:
        """Choose the stage that was clicked, or end what is on; anywhere else, the pane."""
        mode = next((name for start, end, name in self._ends if start <= event.x < end), None)
        if mode is not None and self.stage is not None:
            self.post_message(self.Chosen(self, self.stage))
            self.call_later(self.screen.run_action, f"run('{mode}')")
            return
        stage = next((s for start, end, s in self._spans if start <= event.x < end), self.stage)
        if stage is not None:
            self.post_message(self.Chosen(self, stage))


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


PATIENCE = 0.12
"""Seconds for which the text before stays: most stages come sooner, and flicker tires the eye."""


CHUNK = 1000
"""Lines searched before a search asks whether it is still wanted."""

Regions = Mapping[Fold, tuple[Region, ...]]
Maps = Mapping[frozenset[Fold], RowMap]


def _waiting(request: ListingRequest) -> str:
    variant = request.subject.variant
    file = None if variant is None else variant.stages.get(request.stage)
    if file is not None and file.costly:
        return f"The compiler is making {request.stage} …"
    return f"Reading {request.stage} …"


class Pane(Vertical):
    """Shows what it was last asked for; never more than one thread reads for it."""

    class Loaded(Message):
        """A thread has answered."""

        def __init__(self, pane: Pane, outcome: ListingOutcome) -> None:
            super().__init__()
            self.pane = pane
            self.outcome = outcome

    class Shown(Message):
        """Another listing, or a notice, stands in the pane."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

    class Annotated(Message):
        """A thread has analysed what a pane shows."""

        def __init__(self, pane: Pane, request: ListingRequest, telling: Telling) -> None:
            super().__init__()
            self.pane = pane
            self.request = request
            self.telling = telling

    class Foldable(Message):
        """A thread has found what of a listing can be folded."""

        def __init__(
            self,
            pane: Pane,
            source: Highlighter,
            regions: Regions,
            maps: Maps,
            files: Mapping[int, str],
            flow: FlowLanes | None,
        ) -> None:
            super().__init__()
            self.pane = pane
            self.source = source
            self.regions = regions
            self.maps = maps
            self.files = files
            self.flow = flow

    class Named(Message):
        """A thread knows what the kernel's parameters are called, by their symbols."""

        def __init__(
            self, pane: Pane, request: ListingRequest, names: Mapping[str, str], kernel: range
        ) -> None:
            super().__init__()
            self.pane = pane
            self.request = request
            self.names = names
            self.kernel = kernel

    class Found(Message):
        """A thread has searched; ``lines`` have the pattern, or a notice says why not."""

        def __init__(self, pane: Pane, pattern: re.Pattern[str], lines: object) -> None:
            super().__init__()
            self.pane = pane
            self.pattern = pattern
            self.lines = lines

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
        """A title and the text."""
        yield self.title_line
        yield self.heads
        yield self.view

    @property
    def settled(self) -> bool:
        """Whether what was asked for is what is shown."""
        return self._shown == self.request

    @property
    def stage(self) -> Stage | None:
        """The stage that was asked for."""
        return None if self.request is None else self.request.stage

    def show(self, subject: TreeSubject, stage: Stage) -> None:
        """Show a stage of a subject as soon as it is read."""
        request = ListingRequest(subject, stage)
        if request == self.request:
            return
        self.request = request
        self.title_line.show(subject, stage, busy=False)
        if self._reading is None:
            self._start(request)

    def renew(self, reads: Reader, subject: TreeSubject) -> None:
        """Read from ``reads`` from now on, which may have what could not be shown until now."""
        self.reads = reads
        if self.request is None:
            return
        if not self.settled:
            # A thread is reading what there was: if that is nothing, what there is is read next.
            self.request = ListingRequest(subject, self.request.stage)
            return
        shown, made, stage = self.request.subject.variant, subject.variant, self.request.stage
        if shown and made and shown.hash != made.hash and subject.has(stage):
            # It was compiled again, of another text.
            self.request = ListingRequest(subject, stage)
            self._goal = (self.request, self.view.cursor)
            self.title_line.show(subject, stage, busy=False)
            self._start(self.request)
            return
        before = self.request.subject
        self.request = self._shown = ListingRequest(subject, stage)
        self.title_line.show(subject, stage, busy=False)
        if self.view.source is not None:
            if subject != before or not told_alike(before.variant, subject.variant):
                self._annotate(self.request)
        elif not subject.has(stage):
            # Nothing more may be to come: why there is nothing is another reason then.
            notice = missing(subject, stage, reads.recording.complete)
            if notice != self.view.notice:
                self.view.show_notice(notice)
        elif before.file(stage) != subject.file(stage):
            self._shown = None
            self._start(self.request)

    def _start(self, request: ListingRequest) -> None:
        self._reading = request
        self.set_timer(PATIENCE, lambda: self._wait(request))
        self._load(request)

    def _wait(self, request: ListingRequest) -> None:
        if self._reading == request and self.request is not None and not self.settled:
            self.title_line.show(self.request.subject, self.request.stage, busy=True)
            self.view.show_notice(Notice("◔", _waiting(self.request)))

    @work(thread=True, exclusive=True, group="load", exit_on_error=False, description="load")
    def _load(self, request: ListingRequest) -> None:
        self.post_message(self.Loaded(self, load(self.reads, request)))

    @on(Loaded)
    def _loaded(self, message: Loaded) -> None:
        message.stop()
        self._reading = None
        outcome = message.outcome
        if outcome.request != self.request:  # another choice was made meanwhile
            if self.request is not None:
                self._start(self.request)
            return
        late = self.request.subject
        if (
            outcome.source is None
            and late is not outcome.request.subject
            and (
                late.has(outcome.request.stage)
                and not outcome.request.subject.has(outcome.request.stage)
            )
        ):
            self._start(self.request)  # it has come while it was looked for
            return
        self._shown = outcome.request
        self.title_line.show(outcome.request.subject, outcome.request.stage, busy=False)
        if outcome.source is not None:
            self.view.show(outcome.source, outcome.width, outcome.top, outcome.at)
            if self.view.pattern is not None:
                self.search(self.view.pattern)
            self._annotate(outcome.request)
            self._find_folds(outcome.source)
            if self._goal is not None and self._goal[0] == outcome.request:
                self.view.go(self._goal[1])
            self._goal = None
        else:
            self.view.show_notice(outcome.notice or Notice("✗", "There is nothing to show."))
        self.post_message(self.Shown(self))

    def zoom(self, on: bool) -> None:
        """Whether the others are hidden behind it."""
        if on is not self._zoomed:
            self._zoomed = on
            self._tell_modes()

    @on(CodeView.Looks)
    def _tell_modes(self) -> None:
        """What is on here, in the title."""
        modes = (("zoom", "zoom"),) if self._zoomed else ()
        self.title_line.modes = (*modes, *self.view.modes)
        self.title_line.refresh()

    def go(self, n: int) -> None:
        """To a line of what was asked for, once it is there."""
        if self.settled:
            self.view.go(n)
        elif self.request is not None:
            self._goal = (self.request, n)

    @on(CodeView.Columned)
    def _columned(self, message: CodeView.Columned) -> None:
        message.stop()
        self.heads.set_class(
            bool(self.view.rows.gutter.columns) and bool(self.view.lines), "-there"
        )
        self.heads.refresh()

    # Analysis

    @work(
        thread=True, exclusive=True, group="annotate", exit_on_error=False, description="annotate"
    )
    def _annotate(self, request: ListingRequest) -> None:
        variant = request.subject.variant
        if variant is None or request.subject.of_graph(request.stage):
            return
        if request.stage in (Stage.PTX, Stage.SASS):
            names = attempt(lambda: self.reads.parameter_names(variant, request.stage))
            kernel = attempt(lambda: _lines(self.reads, variant, request.stage))
            if isinstance(names, dict) and isinstance(kernel, range):
                self.post_message(self.Named(self, request, names, kernel))
        answer = attempt(lambda: self.reads.telling(variant, request.stage))
        # The code reads well without; what failed is told where one asks for the card.
        telling = answer if isinstance(answer, Telling) else NOTHING
        self.post_message(self.Annotated(self, request, telling))

    @on(Annotated)
    def _annotated(self, message: Annotated) -> None:
        if message.request == self.request and self.settled:
            self.view.annotate(message.telling)
        else:
            message.stop()

    @on(Named)
    def _named(self, message: Named) -> None:
        message.stop()
        if message.request == self.request and self.settled:
            self.view.named(message.names, message.kernel)

    # Searching

    @work(thread=True, exclusive=True, group="search", exit_on_error=False, description="search")
    def search(self, pattern: re.Pattern[str]) -> None:
        """Find the lines that have ``pattern``; the next search ends this one."""
        source = self.view.source
        if source is None:
            return
        worker = get_current_worker()
        answer = attempt(lambda: _matches(source, pattern, lambda: worker.is_cancelled))
        if not worker.is_cancelled:
            self.post_message(self.Found(self, pattern, answer))

    # Folding

    @work(thread=True, exclusive=True, group="fold", exit_on_error=False, description="fold")
    def _find_folds(self, source: Highlighter) -> None:
        answer = attempt(lambda: regions(source.listing))
        if not isinstance(answer, dict):
            return
        # Here and not where they are wanted: it takes a while for a hundred thousand.
        maps = attempt(lambda: {level: _map(source, answer, level) for level in LEVELS})
        listing = source.listing
        flow = attempt(lambda: FlowLanes(arrows(source.texts, listing.functions, listing.language)))
        files: object = None
        if source.listing.language == Stage.PTX.value:
            files = attempt(lambda: Locations(source.listing.text, source.texts).files)
        self.post_message(
            self.Foldable(
                self,
                source,
                answer,
                maps if isinstance(maps, dict) else {},
                files if isinstance(files, dict) else {},
                flow if isinstance(flow, FlowLanes) else None,
            )
        )

    @on(Foldable)
    def _foldable(self, message: Foldable) -> None:
        message.stop()
        if message.source is self.view.source:
            self.view.foldable(message.regions, message.maps, message.files, message.flow)


def _lines(reads: Reader, variant: Variant, stage: Stage) -> range:
    """The lines of a kernel in a stage; called in a thread."""
    function = reads.function(variant, stage)
    return range(0) if function is None else range(function.first, function.last + 1)


def _map(source: Highlighter, found: Regions, level: frozenset[Fold]) -> RowMap:
    """The rows of a listing whose folds are those of a level."""
    return RowMap(len(source.texts), [one for kind in level for one in found.get(kind, ())])


def _matches(
    source: Highlighter, pattern: re.Pattern[str], cancelled: Callable[[], bool]
) -> tuple[int, ...]:
    """The lines that have ``pattern``, as far as they were looked at before it was cancelled."""
    out: list[int] = []
    for n in range(1, len(source.texts) + 1):
        if n % CHUNK == 0 and cancelled():
            break
        if pattern.search(source.own_text(n)):
            out.append(n)
    return tuple(out)
