"""One pane: a stage of a subject, read in a thread, under its title."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from inspector.analysis.flow.arrows import FlowLanes, arrows
from inspector.analysis.line_annotations import LineAnnotations
from inspector.base.model import (
    GRAPH_STAGES,
    KERNEL_STAGES,
    Graph,
    Kernel,
    Stage,
    Variant,
    principal_lines,
)
from inspector.parsers import parse
from inspector.parsers.line import Kind, Listing
from inspector.reader.reader import Reader
from inspector.tui.code.code_rows import CYCLES, Fold, Region, regions
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.highlight import Highlighter, highlighter_for, width_of
from inspector.tui.keys.command_table import command, commands_in, shown
from inspector.tui.widgets.notice import Notice, attempt, in_thread, label, shorten
from inspector.tui.widgets.subject import TreeSubject, digit, same_but_launches
from inspector.tui.widgets.tool_screen import LineWidget, clickable, ends, stage_tab

SEARCH_LINES = 200
"""Lines in which the first instruction is looked for."""


class ListingRequest(Struct, frozen=True):
    """One stage of one subject; where its source is several ``files``, the one at ``path``."""

    subject: TreeSubject
    stage: Stage
    path: str = ""
    files: tuple[str, ...] = ()


LoadedListing = tuple[Highlighter, int, int, int]
"""A listing to be shown: about the cells of the widest line, the line where the kernel begins, and
the one for the cursor: its first instruction, or where it did not compile."""


def _start(reads: Reader, request: ListingRequest) -> int:
    variant = request.subject.variant
    stage = request.stage
    if variant is None:
        return 1
    if (lines := variant.lines_in(stage)) is not None:
        parts = (
            () if variant.fusion is None or stage is not Stage.SOURCE else variant.fusion.made_from
        )
        file = variant.stages[stage].origin_path
        principal = principal_lines([part for part in parts if part.file == file])
        return min((part.line for part in principal), default=lines[0])
    if stage is Stage.OUTPUT_CODE and variant.embedded is not None:
        return variant.embedded[1]
    function = reads.stages.function(variant, stage)
    return 1 if function is None else function.first


def _failed_at(reads: Reader, subject: TreeSubject, stage: Stage) -> int | None:
    variant = subject.variant
    if subject.of_graph(stage):
        graph = subject.graph
        file = subject.file(stage)
        error = None if graph is None or graph.error is None else graph.error.first
        return error.line if error and file and error.file == file.origin_path else None
    place = None if variant is None or variant.error is None else reads.facts.failed_at(variant)
    if variant is None or place is None or place[0] is stage:
        return None if place is None else place[1]
    # In another stage, what that line came of: the source of PTX that ptxas refuses.
    return next(iter(reads.stages.links(variant, place[0], stage).get(place[1], ())), None)


def load(reads: Reader, request: ListingRequest) -> LoadedListing | Notice:
    subject = request.subject
    stage = request.stage
    variant = subject.variant
    graph = subject.graph
    file = subject.file(request.stage)
    if graph is not None and subject.of_graph(stage):
        listing = reads.graphs.listing(graph, stage)
        if stage is Stage.OPERATIONS:
            listing = _verified(reads, graph) or listing
    elif variant is not None and subject.has(stage):
        listing = reads.stages.listing(variant, stage)
    else:
        return missing(subject, stage, reads.recording.complete)
    if not "\n".join(line.text for line in listing.lines[:2]):
        return Notice("∅", f"The recorded {stage} is empty.")
    source = highlighter_for(listing, stage, file.origin_path if file else None)
    answer = attempt(lambda: _start(reads, request))
    top = answer if isinstance(answer, int) else 1
    line_number = attempt(lambda: _failed_at(reads, subject, stage))
    if not isinstance(line_number, int) or not 0 < line_number <= len(listing.lines):
        # Declarations come before the first instruction.
        near = listing.lines[top - 1 : top - 1 + SEARCH_LINES]
        line_number = next((line.n for line in near if line.kind is Kind.INSTRUCTION), top)
    return source, width_of(source.texts), top, line_number


def _verified(reads: Reader, graph: Graph) -> Listing | None:
    """The operations of a graph with the verdicts on its kernels; None if none are kept."""
    from inspector.analysis.graph_text import graph_rows
    from inspector.render.verify import WORDS
    from inspector.verify.kept import kept_verdicts

    recording = reads.recording
    kept = kept_verdicts(Path(recording.resolved_path or recording.path), recording)
    of_graph = {kernel: WORDS[v.verdict] for (name, kernel), v in kept.items() if name == graph.id}
    if not of_graph:
        return None
    rows = graph_rows(graph.id, reads.graphs.view(graph), of_graph)
    return parse(Stage.OPERATIONS, "\n".join(row.text for row in rows))


def missing(subject: TreeSubject, stage: Stage, complete: bool = True) -> Notice:
    """Why there is no such stage, so far if not ``complete``, and which there are."""
    available = "   ".join(f"{digit(other)} {other}" for other in subject.stages())
    reason = subject.why_missing(stage, complete)
    mark = ":" if reason[:1].islower() else "."
    return Notice(
        "∅" if complete else "◔",
        f"No {stage} here{'' if complete else ' yet'}{mark} {reason}",
        f"Available:   {available}" if available else "There is no other stage either.",
    )


PATIENCE_SECONDS = 0.12
"""Before a notice says what is being read: most stages come sooner, and flicker tires the eye."""


class PaneTitle(LineWidget):
    """``ptx  square_kernel  3f2a91c0``, and on the right the stages, those that are missing dim."""

    def __init__(self) -> None:
        super().__init__()
        self.subject = TreeSubject()
        self.stage: Stage | None = None
        self.path = ""
        self.busy = False
        self.modes: tuple[tuple[str, str], ...] = ()
        """What is on in the pane, in a word or two, and the id of the command that ends it."""

    def show(self, request: ListingRequest, busy: bool = False) -> None:
        subject, stage = self.subject, self.stage = request.subject, request.stage
        self.busy = busy
        # A graph's source is a file of the user's, too.
        by_kernel = stage is Stage.SOURCE or (
            stage is Stage.OUTPUT_CODE and subject.variant is not None
        )
        file = subject.file(stage) if by_kernel else None
        path = "" if file is None else file.origin_path or ""
        self.path = path.replace("\\", "/").rpartition("/")[2]
        if len(request.files) > 1:
            self.path += f" {request.files.index(request.path) + 1}/{len(request.files)}"
        self.refresh()

    def _tabs(self, words: bool) -> Iterator[Content]:
        graph = self.stage if self.stage in GRAPH_STAGES else Stage.OPERATIONS
        for stage in (*KERNEL_STAGES, graph):
            exists = self.subject.has(stage)
            if exists or stage is self.stage or (digit(stage) < "8" and not words):
                style = "bold underline" if stage is self.stage else ""
                if not exists:
                    style = "dim" if words else "dim strike"
                text = f"{digit(stage)} {stage}" if words else digit(stage)
                yield stage_tab(stage, text, style, " " if words else "")

    def render(self) -> Content:
        width = self.size.width
        if self.stage is None:
            return Content("")
        head = Content.styled(f" {self.stage}{' ◔' if self.busy else ''}", "bold")
        keys = getattr(self.app, "keys", {})
        usable = {
            usable_command.id
            for usable_command in commands_in(getattr(self.screen, "contexts", ()))
        }
        for word, name in self.modes:
            # Where a block is run, w is something else: there folds are all that can be changed.
            ends_it = command(name if name in usable else "fold.level")
            text = f"{word} {shown(ends_it, keys)}".rstrip()
            mode = Content.styled(f"[{text}]", "bold")
            head = Content.assemble(head, " ", clickable(mode, f"screen.run({ends_it.id!r})"))
        variant = self.subject.variant
        name_text = label(self.path or self.subject.name)
        tail = "" if self.path or variant is None else f"  {variant.id}"
        right = Content("")
        for words, least in ((True, len(name_text) + len(tail) + 4), (False, 16)):
            tabs = Content.assemble(*self._tabs(words))
            if len(head) + len(tabs) + least <= width:
                right = tabs
                break
        room = width - len(head) - len(right) - 3
        tail = tail if len(name_text) + len(tail) <= room else ""
        middle = f"  {shorten(name_text, room - len(tail))}{tail}" if room > 4 else ""
        return ends(Content.assemble(head, middle), right, width - 1)

    def on_click(self) -> None:
        """Activate the pane; Textual then runs the action of what was clicked."""
        screen: Any = self.screen
        screen.panes.activate(self.parent)


Foldable = tuple[Mapping[Fold, tuple[Region, ...]], FlowLanes | None]
"""Foldable regions of a listing, and branches."""


class Pane(Vertical):
    """Shows the last requested listing; at most one thread reads for it."""

    @dataclass
    class Shown(Message):
        """Another listing, or a notice, is in the pane."""

        pane: Pane

    def __init__(self, reads: Reader) -> None:
        super().__init__()
        self.reads = reads
        self.title_line = PaneTitle()
        self.view = CodeView()
        self.heads = Static(classes="heads", markup=False)
        """What the columns of the gutter are called, above them; not there without columns."""
        self.request: ListingRequest | None = None
        self.preferred: Stage | None = None
        self._reading: ListingRequest | None = None
        self._shown: ListingRequest | None = None
        self._goal: tuple[ListingRequest, int, tuple[int, ...]] | None = None
        self._cycles: dict[ListingRequest, Mapping[int, float]] = {}
        self.zoomed = False
        """Whether the other panes are hidden."""

    def compose(self) -> ComposeResult:
        yield from (self.title_line, self.heads, self.view)

    @property
    def settled(self) -> bool:
        return self._shown == self.request

    @property
    def stage(self) -> Stage | None:
        return None if self.request is None else self.request.stage

    def show(self, subject: TreeSubject, stage: Stage, path: str = "") -> None:
        request = self._asking(subject, stage, path)
        if request != self.request:
            self.request = request
            self._shown = None
            self.title_line.show(request)
            # What is beneath the title is of what it names, or nothing.
            self.view.show_notice(None)
            if self._reading is None:
                self._start(request)

    def _asking(self, subject: TreeSubject, stage: Stage, path: str = "") -> ListingRequest:
        """A request; without a path for the file that is shown, where it is the subject's."""
        now = self.request
        variant = subject.variant
        files = (
            {}
            if variant is None or stage is not Stage.SOURCE
            else self.reads.navigation.sources(variant)
        )
        if not path and now is not None and now.subject == subject:
            path = now.path
        path = path if path in files else next(iter(files), "")
        file_subject = replace(subject, variant=files.get(path, variant))
        return ListingRequest(file_subject, stage, path, tuple(files))

    def renew(self, reads: Reader, subject: TreeSubject) -> None:
        self.reads = reads
        if self.request is None:
            return
        settled = self.settled
        old_subject = self.request.subject
        stage = self.request.stage
        request = self.request = self._asking(subject, stage)
        if not settled:
            return  # a thread is reading what there was: if that is nothing, this is read next
        self.title_line.show(request)
        has_listing = self.view.source is not None
        if has_listing and old_subject.file(stage) == subject.file(stage):
            self._shown = request
            if subject != old_subject or not same_but_launches(
                old_subject.variant, subject.variant
            ):
                self._annotate(request)
        else:
            # It may have come, or been compiled again; if not, the reason may be another.
            self._shown = None
            self._goal = (request, self.view.cursor, ()) if has_listing else None
            self._start(request)

    def show_verdicts(self) -> None:
        """Read the operations of a graph again, whose verdicts have changed."""
        if self.request is not None and self.stage is Stage.OPERATIONS and self.settled:
            self._shown = None
            self._goal = (self.request, self.view.cursor, ())
            self._start(self.request)

    def _start(self, request: ListingRequest) -> None:
        self._reading = request
        self.set_timer(PATIENCE_SECONDS, lambda: self._wait(request))
        work = partial(load, self.reads, request)
        in_thread(self, work, self._loaded, "load", failed=self._loaded)

    def _wait(self, request: ListingRequest) -> None:
        if self._reading == request and self.request is not None and not self.settled:
            subject = self.request.subject
            stage = self.request.stage
            self.title_line.show(self.request, busy=True)
            file = None if subject.variant is None else subject.variant.stages.get(stage)
            costly = file is not None and file.costly
            text = f"The compiler is making {stage} …" if costly else f"Reading {stage} …"
            self.view.show_notice(Notice("◔", text))

    def _loaded(self, loaded: LoadedListing | Notice) -> None:
        finished = self._reading
        request = self.request
        self._reading = None
        assert finished is not None and request is not None
        if finished != request or (isinstance(loaded, Notice) and finished is not request):
            self._start(request)  # another choice was made, or it has come in the meantime
            return
        self._shown = finished
        self.title_line.show(finished)
        if isinstance(loaded, Notice):
            self.view.show_notice(loaded)
        else:
            self.view.show(*loaded)
            self._annotate(finished)
            self._find_folds(loaded[0])
            if self._goal is not None and self._goal[0] == finished:
                self.view.land(*self._goal[1:])
            self._goal = None
        self.post_message(self.Shown(self))

    def go(self, n: int, siblings: tuple[int, ...] = ()) -> None:
        """Go to a line, once it is read; ``siblings`` are all lines that the same line became."""
        if self.settled:
            self.view.land(n, siblings)
        elif self.request is not None:
            self._goal = (self.request, n, siblings)

    def cycles(self, request: ListingRequest) -> Mapping[int, float]:
        """Percentages of cycles by line, as they were estimated here; empty if they were not."""
        return self._cycles.get(request, {})

    @on(CodeView.Looks)
    def show_modes(self) -> None:
        modes = (("zoom", "zoom"),) if self.zoomed else ()
        self.title_line.modes = (*modes, *self.view.modes)
        self.title_line.refresh()
        rows = self.view.rows
        indent = rows.margin - rows.gutter.width - rows.flow_width
        self.heads.update(" " * indent + rows.gutter.heads)
        self.heads.set_class(bool(rows.gutter.columns and self.view.lines), "-there")

    def _annotate(self, request: ListingRequest) -> None:
        kernel = request.subject.kernel
        variant = request.subject.variant
        stage = request.stage
        reads = self.reads
        if variant is None or request.subject.of_graph(stage):
            return

        def name() -> tuple[Mapping[str, str], range]:
            function = reads.stages.function(variant, stage)
            lines = range(0) if function is None else range(function.first, function.last + 1)
            return reads.facts.parameter_names(variant, stage), lines

        def named(answer: tuple[Mapping[str, str], range]) -> None:
            if request == self.request and self.settled:
                self.view.named(*answer)

        def annotated(annotations: LineAnnotations) -> None:
            if request == self.request and self.settled:
                annotations = replace(annotations, estimated=self.cycles(request))
                self.view.columns(annotations=annotations)
                self.post_message(CodeView.Moved(self.view))

        def recalled(answer: tuple[dict[int, float], str]) -> None:
            percent, blocks = answer
            if not percent:
                return
            self._cycles.setdefault(request, percent)
            if request == self.request and self.settled:
                self.view.simulated_blocks = blocks
                annotations = self.view.rows.gutter.annotations
                self.view.columns(annotations=replace(annotations, estimated=self.cycles(request)))

        if stage in (Stage.PTX, Stage.SASS):
            in_thread(self, name, named, "names")
        in_thread(self, lambda: reads.annotations.annotate(variant, stage), annotated, "annotate")
        recall = partial(_kept_cycles_by_line, reads, kernel, variant, stage)
        in_thread(self, recall, recalled, "cycles")

    @on(CodeView.Simulate)
    def _simulate(self) -> None:
        """Simulate the recorded call, and go to the line that most cycles are spent on."""
        request = self.request
        reads = self.reads
        view = self.view
        kernel = self.title_line.subject.kernel
        variant = self.title_line.subject.variant
        if request is None or kernel is None or variant is None:
            return

        def show(answer: tuple[dict[int, float], str]) -> None:
            percent, blocks = answer
            self._cycles[request] = percent
            if request == self.request and self.settled:
                view.columns(annotations=replace(view.rows.gutter.annotations, estimated=percent))
                view.simulated_blocks = blocks
                view.action_largest(CYCLES)

        def failed(notice: Notice) -> None:
            view.say(f"No estimate: {notice.message}", warning=True)

        view.say("The call is simulated.")
        work = partial(_cycles_by_line, reads, kernel, variant, request.stage)
        in_thread(self, work, show, "simulate", failed=failed)

    def _find_folds(self, source: Highlighter) -> None:
        listing = source.listing

        def find() -> Foldable:
            flow = attempt(lambda: FlowLanes(arrows(listing)))
            return regions(listing), flow if isinstance(flow, FlowLanes) else None

        def show(answer: Foldable) -> None:
            if source is self.view.source:
                self.view.foldable(*answer)

        in_thread(self, find, show, "fold")


def _cycles_by_line(
    reads: Reader, kernel: Kernel, variant: Variant, stage: Stage
) -> tuple[dict[int, float], str]:
    """Simulate a launch, or read its kept simulation; with its representative blocks.

    Raises ``PtxviewError``.
    """
    from inspector.estimate.launches import LaunchEstimates
    from inspector.estimate.rows import by_line

    cycles = LaunchEstimates(reads).cycles(kernel, variant)
    return by_line(reads, variant, cycles.spent, stage), cycles.blocks


def _kept_cycles_by_line(
    reads: Reader, kernel: Kernel | None, variant: Variant, stage: Stage
) -> tuple[dict[int, float], str]:
    """Percentages of cycles that were simulated before, as when the recording was open last."""
    if kernel is None:
        return {}, ""
    from inspector.estimate.launches import LaunchEstimates
    from inspector.estimate.rows import by_line

    cycles = LaunchEstimates(reads).kept_cycles(kernel, variant)
    if cycles is None:
        return {}, ""
    return by_line(reads, variant, cycles.spent, stage), cycles.blocks
