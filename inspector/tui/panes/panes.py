"""The panes beside each other: layouts, the links between them, the map, places to go back to."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from inspector.analysis.line_annotations import SourceGroups
from inspector.base.model import Stage
from inspector.reader.reader import Reader
from inspector.tui.code.code_view import CodeView
from inspector.tui.panes.pane import ListingRequest, Pane
from inspector.tui.widgets.notice import Notice, following, in_thread
from inspector.tui.widgets.subject import TreeSubject, resolve


class Layout(Struct, frozen=True):
    """``stages``: for each pane a stage and its substitutes; empty for one pane as it is."""

    name: str
    title: str
    stages: tuple[tuple[Stage, ...], ...] = ()

    def stages_of(self, subject: TreeSubject) -> tuple[Stage, ...]:
        return tuple(
            next((stage for stage in choices if subject.has(stage)), choices[0])
            for choices in self.stages
        )

    def lacks(self, subject: TreeSubject) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages_of(subject) if not subject.has(stage))


LAYOUTS = {
    # Inductor's kernels have output_code as their source.
    "lowering": Layout(
        "lowering",
        "source · PTX · SASS",
        ((Stage.SOURCE, Stage.OUTPUT_CODE), (Stage.PTX,), (Stage.SASS,)),
    ),
    "generated": Layout(
        "generated",
        "source · output_code · PTX",
        ((Stage.SOURCE,), (Stage.OUTPUT_CODE,), (Stage.PTX,)),
    ),
    "whole": Layout("whole", "one pane, whole"),
}


def next_layout(now: Layout | None) -> Layout:
    return following([*LAYOUTS.values()], now)


MAX_PANES = 3
DEFAULT_PANES = 2

MIN_SHARE = 16
EVEN_SHARE = 45
"""Shares of the room that a pane has at least, and at first; half of them in rows is enough."""

MIN_PANE_COLUMNS = 60
"""Columns that a pane has at least beside others; where there are fewer, they are stacked."""

MIN_ROWS_ABOVE = 5
"""Rows below which panes above each other are too low: then only one is shown."""

MIN_COLUMNS_OF_TWO = 100
"""Columns of the screen below which only the active pane is shown, unless the user chose more."""

MIN_COLUMNS_OF_THREE = 171
"""Columns of the screen from which there are three panes, if each has its columns."""

LINKED_SEARCH_LINES = 40
"""Lines beneath the kernel's first in which one that is linked is looked for."""

MAX_PLACES = 200


class VisitedPlace(Struct, frozen=True):
    """A line of a stage of a subject; ``path`` is the file of a source that is several."""

    subject: TreeSubject
    stage: Stage | None
    n: int
    path: str = ""


class History:
    """Two stacks. A new jump forgets what lay ahead."""

    def __init__(self) -> None:
        self._back: list[VisitedPlace] = []
        self._ahead: list[VisitedPlace] = []

    def leave(self, place: VisitedPlace) -> None:
        self._ahead.clear()
        if self._back[-1:] != [place]:
            self._back.append(place)
            del self._back[:-MAX_PLACES]

    def go(self, current: VisitedPlace, step: int) -> VisitedPlace | None:
        source, other = (self._back, self._ahead) if step < 0 else (self._ahead, self._back)
        while source:
            place = source.pop()
            if place != current:
                other.append(current)
                return place
        return None


Links = Mapping[int, tuple[int, ...]]
Pair = tuple[ListingRequest | None, ListingRequest | None]


class PaneArrangement(NamedTuple):
    """Panes side by side or stacked; three of them as two above one; or the active one alone."""

    side_by_side: bool
    three: bool
    alone: bool

    @property
    def grid(self) -> bool:
        return self.three and not self.alone

    @property
    def in_columns(self) -> bool:
        return self.side_by_side and not self.three and not self.alone

    @property
    def in_rows(self) -> bool:
        return not self.side_by_side and not self.alone


class Panes(Container):
    """Any number of panes; one of them is active: commands go to it, the others follow it."""

    class Changed(Message):
        """The cursor, the links or the active pane changed."""

    def __init__(self, reads: Reader, count: int | None = None) -> None:
        super().__init__()
        self.reads = reads
        self._all = [Pane(reads) for _ in range(MAX_PANES)]
        self.count = count or DEFAULT_PANES
        self.count_chosen = count is not None
        """Whether the user said how many panes there are; else the width decides."""
        self.active = self.panes[0]
        self.history = History()
        self.subject = TreeSubject()
        self.zoomed = False
        self.beside: bool | None = None
        self.arrangement: Layout | None = None
        self.shares = [EVEN_SHARE] * MAX_PANES
        self._links: dict[Pair, Links] = {}
        self.mapped = False
        self.map_chosen: bool | None = None
        """Whether the user turned the map on or off; None for what the terminal's colours allow."""

    @property
    def panes(self) -> tuple[Pane, ...]:
        return tuple(self._all[: self.count])

    @property
    def all_panes(self) -> tuple[Pane, ...]:
        """The panes that are shown, and those that could be."""
        return tuple(self._all)

    def compose(self) -> ComposeResult:
        yield from self._all

    def add_pane(self) -> None:
        """Show one pane more, after the third the active one alone."""
        self._keep_stages()
        alone = not self.count_chosen and not self.zoomed and self._fitted().alone
        self.count_chosen = True
        if alone and self.count > 1:
            self._rearranged()
            return
        if self.count == MAX_PANES:
            self._to_front(self.active)
            self.count = 1
        else:
            self.count += 1
            self.panes[-1].view.rows.pattern = self.active.view.pattern
            self.active = self.panes[-1]
            self.zoomed = False
        self._rearranged()

    def _to_front(self, pane: Pane) -> None:
        self._all.remove(pane)
        self._all.insert(0, pane)
        self.move_child(pane, before=self._all[1])

    def _rearranged(self, focus: bool = True) -> None:
        if self.active not in self.panes:
            self.active = self.panes[-1]
        self.show(self.subject)
        for pane in self.panes:
            self._link_all(pane)
        if focus:
            self.activate(self.active)
        self.fit()

    def renew(self, reads: Reader) -> None:
        self.reads = reads
        old_subject = self.subject
        subject = resolve(reads.recording, self.subject)
        self.subject = subject
        # What was missing may exist now.
        self._links = {pair: links for pair, links in self._links.items() if links}
        for pane in self.panes:
            shown = pane.request
            pane.renew(reads, resolve(reads.recording, shown.subject) if shown else TreeSubject())
        if subject == old_subject:
            return
        for pane in self.panes:
            if pane.view.source is not None:
                pane.preferred = pane.stage
        self.show(subject)

    def show(self, subject: TreeSubject) -> None:
        if subject != self.subject:
            self._links = {}
        self.subject = subject
        if self.arrangement is not None and self.arrangement.stages:
            for pane, chosen_stage in zip(
                self.panes, self.arrangement.stages_of(subject), strict=False
            ):
                pane.show(subject, chosen_stage)
            return
        used: tuple[Stage, ...] = ()
        for index, pane in enumerate(self.panes):
            stage = pane.preferred
            if stage is None or not subject.has(stage):
                preferences = (other.preferred for other in self.panes[index + 1 :])
                later = tuple(
                    preferred
                    for preferred in preferences
                    if preferred is not None and subject.has(preferred)
                )
                stage = subject.default(index, used + later)
            used += (stage,)
            pane.show(subject, stage)

    def choose(self, stage: Stage, path: str = "") -> None:
        if self.arrangement is not None:
            self._keep_stages()
        self.active.preferred = stage
        self.active.show(self.subject, stage, path)

    def next_file(self) -> None:
        """Show the next file of the active pane's source, if there is one."""
        request = self.active.request
        if request is not None and len(request.files) > 1:
            self.choose(Stage.SOURCE, following(request.files, request.path))

    def carry(self, pane: Pane, place: VisitedPlace | None) -> None:
        """Go in a pane to the line that a place in another stage of its subject belongs to."""
        request = pane.request
        variant = self.subject.variant
        graph = self.subject.graph
        if request is None or place is None or place.stage is None:
            return
        if place.path and variant is not None:
            variant = self.reads.navigation.sources(variant).get(place.path)

        def go(answer: tuple[str, int, tuple[int, ...]]) -> None:
            path, line, siblings = answer
            # Where a pane that follows shows the file already, links lead to its lines.
            if line and pane.request == request and (pane is self.active or path != request.path):
                pane.show(self.subject, request.stage, path)
                pane.go(line, siblings)

        def work() -> tuple[str, int, tuple[int, ...]]:
            assert place.stage is not None
            path, lines = self.reads.navigation.lines_at(
                variant, graph, place.stage, place.n, request.stage
            )
            if not lines or variant is None or place.stage.rank > request.stage.rank:
                return path, lines[0] if lines else 0, ()
            cycles = pane.cycles(request)
            line = self.reads.annotations.landing_line(variant, request.stage, lines, cycles)
            return path, line, tuple(sorted(lines))

        in_thread(self, work, go, "carry", failed=lambda _: None)

    def _keep_stages(self) -> None:
        """What the panes show is from now on what each of them was asked for."""
        for pane in self.panes:
            pane.preferred = pane.stage
        self.arrangement = None

    def lay_out(self, layout: Layout) -> None:
        if not layout.stages:
            self._to_front(self.active)
        self.arrangement = layout
        self.count_chosen = True
        self.zoomed = False
        self.count = len(layout.stages) or 1
        for pane, choices in zip(self.panes, layout.stages or ((self.active.stage,),), strict=True):
            pane.preferred = choices[0]
        self._rearranged(focus=False)

    def arrange_as(self, name: str, count: int | None, shares: tuple[int, ...]) -> None:
        """Take a layout by its name, and how many panes the user chose, None for what fits."""
        self.arrangement = LAYOUTS.get(name)
        if self.arrangement is not None and self.arrangement.stages:
            count = len(self.arrangement.stages)
        self.count_chosen = count is not None
        self.count = min(count or self.count, MAX_PANES)
        if len(shares) == MAX_PANES:
            self.shares = [*shares]

    def current_place(self) -> VisitedPlace:
        path = "" if self.active.request is None else self.active.request.path
        return VisitedPlace(self.subject, self.active.stage, self.active.view.cursor, path)

    def jump(self, stage: Stage, n: int) -> None:
        self.history.leave(self.current_place())
        self.to(stage, n)

    def to(self, stage: Stage | None, n: int, path: str = "") -> None:
        pane = next((p for p in self.panes if p.stage is stage and p.display), None)
        if stage is not None and pane is not None:
            self.activate(pane)
            pane.show(self.subject, stage, path)
        elif stage is not None:
            self.choose(stage, path)
        self.active.go(n)

    def activate(self, pane: Pane) -> None:
        self.active = pane
        self.fit()
        self.screen.set_focus(pane.view)

    def adapt(self) -> None:
        """Have as many panes as the width has room for, unless the user chose how many."""
        wide = self.screen.size.width >= MIN_COLUMNS_OF_THREE
        three = wide and self.size.width >= MAX_PANES * MIN_PANE_COLUMNS
        count = MAX_PANES if three else DEFAULT_PANES
        if not self.count_chosen and self.size.width and count != self.count:
            self.count = count
            self._rearranged(focus=self.screen.focused is self.active.view)

    def fit(self) -> None:
        arrangement = self._fitted()
        self.set_class(arrangement.side_by_side, "-beside")
        self.set_class(arrangement.grid, "-grid")
        shares = self.shares
        if arrangement.grid:
            self.styles.grid_columns = f"{shares[0]}fr {shares[1]}fr"
            self.styles.grid_rows = f"{EVEN_SHARE}fr {shares[2]}fr"
        for index, pane in enumerate(self._all):
            is_active = pane is self.active
            pane.display = index < self.count and (is_active or not arrangement.alone)
            pane.set_class(is_active, "-active")
            pane.zoomed = self.zoomed and is_active and self.count > 1
            pane.show_modes()
            share = f"{shares[index]}fr"
            pane.styles.width = share if arrangement.in_columns else "1fr"
            pane.styles.height = share if arrangement.in_rows else "1fr"
            pane.styles.column_span = 2 if arrangement.grid and index == MAX_PANES - 1 else 1
        self.on_descendant_focus()

    def _fitted(self) -> PaneArrangement:
        """How panes are arranged in the room that there is."""
        width = self.size.width
        fits = width >= 2 * MIN_PANE_COLUMNS
        side_by_side = fits if self.beside is None else self.beside
        three = self.count == MAX_PANES and side_by_side
        three = three and width < MAX_PANES * MIN_PANE_COLUMNS
        if three:
            stacked = 2
        elif side_by_side:
            stacked = 1
        else:
            stacked = self.count
        automatic = self.beside is None and not self.count_chosen
        narrow = automatic and self.screen.size.width < MIN_COLUMNS_OF_TWO
        low = stacked > 1 and self.size.height < MIN_ROWS_ABOVE * stacked
        return PaneArrangement(side_by_side, three, alone=self.zoomed or narrow or low)

    def widen(self, cells: int) -> bool:
        """Give the active pane more of the room, and its neighbour less; False if it has none."""
        index = self._all.index(self.active)
        visible_count = sum(pane.display for pane in self._all)
        if visible_count < 2:
            return False
        other = index - 1 if index + 1 == visible_count else index + 1
        cells = max(MIN_SHARE - self.shares[index], min(cells, self.shares[other] - MIN_SHARE))
        self.shares[index] += cells
        self.shares[other] -= cells
        self.fit()
        return True

    def on_descendant_focus(self) -> None:
        for pane in self.panes:
            pane.set_class(self.screen.focused is pane.view, "-focused")

    on_descendant_blur = on_descendant_focus

    def on_resize(self) -> None:
        self.adapt()
        self.fit()

    @on(Pane.Shown)
    def _shown(self, message: Pane.Shown) -> None:
        # It goes on to the screen, which may have something to show beside the listing.
        self._link_all(message.pane)
        if self.mapped:
            self._map(message.pane)

    def _link_all(self, pane: Pane) -> None:
        for other in self.panes:
            if other is not pane and pane.settled and other.settled:
                self._link(pane.request, other.request)
                self._link(other.request, pane.request)

    def _link(self, a: ListingRequest | None, b: ListingRequest | None) -> None:
        if a is None or b is None or a.stage is b.stage:
            return
        variant = (b if b.stage is Stage.SOURCE else a).subject.variant
        graph = a.subject.graph

        def linked(links: Links) -> None:
            self._links[a, b] = links
            pane = self.active
            if pane.request == a and pane.settled and pane.view.untouched:
                # Begin where something lights up: on the kernel's first line that is linked.
                line_number = pane.view.cursor
                near = (
                    n for n in range(line_number, line_number + LINKED_SEARCH_LINES) if n in links
                )
                pane.view.go(next(near, line_number))
                pane.view.untouched = True
            self.follow(move=True)

        if (a, b) in self._links:
            self.follow(move=True)
        elif variant is not None or graph is not None:
            work = partial(self.reads.navigation.links, variant, graph, a.stage, b.stage)
            # Without links each pane still reads well; the status line says so.
            in_thread(self, work, linked, "links", False, failed=lambda _: linked({}))

    @on(CodeView.Moved)
    def _moved(self, message: CodeView.Moved) -> None:
        message.stop()
        if message.view.has_focus and message.view is not self.active.view:
            self.active = self._pane_of(message.view)
            self.fit()
        if message.view is self.active.view:
            self.follow(move=True)

    def _pane_of(self, view: CodeView) -> Pane:
        return next(pane for pane in self.panes if pane.view is view)

    def leave(self, view: CodeView, n: int) -> None:
        """Remember line ``n`` of a view as a place to go back to."""
        self.history.leave(VisitedPlace(self.subject, self._pane_of(view).stage, n))

    def _links_to(self, pane: Pane, leader: Pane) -> Links | None:
        both = leader.request, pane.request
        return self._links.get(both)

    def linked_lines(self, pane: Pane) -> tuple[int, ...]:
        return (self._links_to(pane, self.active) or {}).get(self.active.view.cursor, ())

    def unlinked(self, pane: Pane) -> bool:
        """Whether nothing at all links the active pane's lines with those of ``pane``."""
        both = bool(self.active.view.lines and pane.view.lines)
        return both and self._links_to(pane, self.active) == {}

    def follow(self, move: bool) -> None:
        for pane in self.panes:
            if pane is not self.active and pane.settled and self.active.settled:
                pane.view.link(self.linked_lines(pane), follow=move)
        self.active.view.link((), follow=False)
        self._light()
        self.post_message(self.Changed())

    def map(self, on: bool) -> None:
        """Turn the map on or off, as the user wants it from now on."""
        self.mapped = self.map_chosen = on
        for pane in self.panes:
            if on:
                self._map(pane)
            else:
                pane.view.tint(None)

    def _map(self, pane: Pane) -> None:
        request = pane.request
        if request is None or request.subject.variant is None or not pane.settled:
            return
        variant = request.subject.variant
        stage = request.stage

        def grouped(groups: SourceGroups) -> None:
            if self.mapped:
                for pane in self.panes:
                    if pane.request == request and pane.settled and pane.view.lines:
                        pane.view.tint(groups)
                self._light()
                self.align(self.active.view)

        def failed(notice: Notice) -> None:
            # What nobody asked for is left out in silence.
            if self.map_chosen and request == self.active.request:
                self.active.view.say(f"There is no map of this: {notice.message}", warning=True)

        work = partial(self.reads.stages.groups, variant, stage)
        in_thread(self, work, grouped, "groups", exclusive=False, failed=failed)

    def _light(self) -> None:
        groups = self.active.view.groups
        group = 0 if groups is None else groups.group(self.active.view.cursor)
        for pane in self.panes:
            pane.view.light(group)

    def align(self, view: CodeView) -> None:
        """Bring the lines of the other panes beside the linked ones of a view."""
        leader = self._pane_of(view)
        if not view.lines:
            return
        (first, last) = view.span()
        cursor_row = view.map.row(view.cursor)
        target_row = cursor_row if first <= cursor_row <= last else (first + last) // 2
        for pane in self.panes:
            if pane is leader or not pane.settled or not pane.view.lines:
                continue
            same = leader.request == pane.request
            links = self._links_to(pane, leader) or {}
            for row in sorted(range(first, last + 1), key=lambda r: abs(r - target_row)):
                n = view.map.line(row)
                lines = (n,) if same else links.get(n)
                if lines:
                    to = pane.view
                    to.lead(to.cursor if to.cursor in lines else to.nearest(lines), row - first)
                    break
