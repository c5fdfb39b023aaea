"""The panes beside each other, with the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from inspector.analyse.source_groups import SourceGroups
from inspector.base.model import Stage
from inspector.tui.code.code_view import CodeView
from inspector.tui.panes.layouts import (
    EVEN_SHARE,
    LAYOUTS,
    MIN_PANE_COLUMNS,
    MIN_PANE_ROWS,
    Border,
    Layout,
    border_at,
    moved,
)
from inspector.tui.panes.listing_outcome import ListingRequest
from inspector.tui.panes.pane import Pane, PaneTitle
from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.subject import TreeSubject, resolve

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

MAX_PLACES = 200


@dataclass(frozen=True, slots=True)
class VisitedPlace:
    """A line of a stage of a subject."""

    subject: TreeSubject
    stage: Stage
    n: int


class History:
    """Two stacks. A new jump forgets what lay ahead."""

    def __init__(self) -> None:
        self._back: list[VisitedPlace] = []
        self._ahead: list[VisitedPlace] = []

    def leave(self, place: VisitedPlace) -> None:
        """A jump begins here."""
        self._ahead.clear()
        if not self._back or self._back[-1] != place:
            self._back.append(place)
            del self._back[:-MAX_PLACES]

    def go(self, here: VisitedPlace, by: int) -> VisitedPlace | None:
        """Back (-1) or forward (1) from ``here``; None if there is nothing more."""
        source, other = (self._back, self._ahead) if by < 0 else (self._ahead, self._back)
        while source:
            place = source.pop()
            if place != here:
                other.append(here)
                return place
        return None


MIN_COLUMNS_BESIDE = 88
"""Columns from which two panes are beside each other; with fewer, one above the other."""

SEARCH_LINES = 40
"""Lines beneath the kernel's first in which one that is linked is looked for."""

MIN_COLUMNS_OF_THREE = 150
"""Columns from which three are beside each other; with fewer, the third beneath the two."""

MIN_ROWS_ABOVE = 5
"""Rows below which panes above each other are too low: then only one is shown."""

MAX_PANES = 3

MAX_MAPS, MAX_LINKS = 16, 64
"""Listings whose lines' sources are kept, four bytes a line; pairs whose links are."""

Links = Mapping[int, tuple[int, ...]]


class Panes(Container):
    """Any number of panes; one of them is active: commands go to it, the others follow it."""

    @dataclass
    class TreePulled(Message):
        """The border between tree and panes is wanted at another column; None: where it was."""

        x: int | None

    class Changed(Message):
        """The cursor, the links or the active pane changed."""

    def __init__(self, reads: Reader, count: int = 2) -> None:
        super().__init__()
        self.reads = reads
        self._all = [Pane(reads) for _ in range(MAX_PANES)]
        self.count = count
        self.active = self.panes[0]
        self.history = History()
        self.subject = TreeSubject()
        self.zoomed = False
        self.beside: bool | None = None
        self.arrangement: Layout | None = None
        self.widths = [EVEN_SHARE] * MAX_PANES
        self.heights = [EVEN_SHARE] * MAX_PANES
        self._held: Border | None = None
        self._pulled = False
        self._links: dict[tuple[ListingRequest, ListingRequest], Links] = {}
        self.mapped = False
        self._groups: dict[ListingRequest, SourceGroups | Notice] = {}

    @property
    def panes(self) -> tuple[Pane, ...]:
        """The panes that there are, the first at the left or on top."""
        return tuple(self._all[: self.count])

    def compose(self) -> ComposeResult:
        """All that there can be."""
        yield from self._all

    def set_count(self, count: int) -> None:
        """So many panes, one to three; those that there are keep their stages."""
        self.arrangement = None
        for pane in self.panes:
            pane.preferred = pane.stage
        self.count = max(1, min(count, MAX_PANES))
        self._renew()

    def more(self) -> None:
        """One pane more, the new one active; after three only the active one."""
        if self.count == MAX_PANES:
            self._to_front(self.active)
            self.set_count(1)
        else:
            pattern = self.active.view.pattern
            self.set_count(self.count + 1)
            new = self.panes[-1]
            new.view.rows.pattern = pattern
            self.zoomed = False
            self.active = new
        self.activate(self.active)

    def fewer(self) -> bool:
        """Close the active pane; False if it is the only one."""
        if self.count == 1:
            return False
        at = self.panes.index(self.active)
        closed = self._all.pop(at)
        self._all.append(closed)
        self.move_child(closed, after=self._all[-2])
        self.active = self.panes[max(0, at - 1)]
        self.set_count(self.count - 1)
        closed.preferred = None
        self.activate(self.active)
        return True

    def _to_front(self, pane: Pane) -> None:
        self._all.remove(pane)
        self._all.insert(0, pane)
        self.move_child(pane, before=self._all[1])

    # Content

    def renew(self, reads: Reader) -> None:
        """Show the same from a recording that has grown; a text that is read stays in place."""
        self.reads = reads
        before, subject = self.subject, resolve(reads.recording, self.subject)
        self.subject = subject
        self.forget_links()
        for pane in self.panes:
            shown = pane.request
            pane.renew(reads, resolve(reads.recording, shown.subject) if shown else TreeSubject())
        if subject == before:
            return
        chosen = [pane.preferred for pane in self.panes]
        for pane in self.panes:
            if pane.view.source is not None:
                pane.preferred = pane.stage
        self.show(subject)
        for pane, preferred in zip(self.panes, chosen, strict=True):
            pane.preferred = preferred

    def show(self, subject: TreeSubject) -> None:
        """Show a subject: each pane its preferred stage if there is one, else the best one."""
        self.subject = subject
        taken: tuple[Stage, ...] = ()
        wanted = () if self.arrangement is None else self.arrangement.of(subject)
        for pane, own in zip(self.panes, wanted, strict=False):
            pane.show(subject, own)
        if wanted:
            return
        for index, pane in enumerate(self.panes):
            stage = pane.preferred
            if stage is None or not subject.has(stage):
                later = tuple(
                    p.preferred
                    for p in self.panes[index + 1 :]
                    if p.preferred is not None and subject.has(p.preferred)
                )
                stage = subject.default(index, taken + later)
            taken += (stage,)
            pane.show(subject, stage)

    def choose(self, stage: Stage) -> None:
        """Show a stage in the active pane, or why it is missing, and prefer it from now on."""
        self._keep_stages()
        self.active.preferred = stage
        self.active.show(self.subject, stage)

    def lay_out(self, layout: Layout) -> None:
        """Panes and stages as a layout has them, until one chooses otherwise."""
        if not layout.stages:
            self._to_front(self.active)
        self.arrangement, self.zoomed = layout, False
        self.count = len(layout.stages) or 1
        for pane, choices in zip(self.panes, layout.stages or ((self.active.stage,),), strict=True):
            pane.preferred = choices[0]
        self._renew()

    def _renew(self) -> None:
        """Show the subject in as many panes as there are now."""
        if self.active not in self.panes:
            self.active = self.panes[-1]
        self.show(self.subject)
        self.fit()
        for pane in self.panes:
            self._link_all(pane)

    def _keep_stages(self) -> None:
        """What the panes show is from now on what each of them was asked for."""
        if self.arrangement is not None and self.arrangement.stages:
            for pane in self.panes:
                pane.preferred = pane.stage
        self.arrangement = None

    @property
    def arranged(self) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        """The name of the layout, and how the room is divided, as it is remembered."""
        name = "" if self.arrangement is None else self.arrangement.name
        return name, tuple(self.widths), tuple(self.heights)

    def arrange_as(self, name: str, widths: tuple[int, ...], heights: tuple[int, ...]) -> None:
        """As it was remembered."""
        self.arrangement = LAYOUTS.get(name)
        if self.arrangement is not None and self.arrangement.stages:
            self.count = len(self.arrangement.stages)
        for shares, remembered in ((self.widths, widths), (self.heights, heights)):
            if len(remembered) == MAX_PANES:
                shares[:] = remembered

    def here(self) -> VisitedPlace | None:
        """The active pane's line."""
        stage = self.active.stage
        return None if stage is None else VisitedPlace(self.subject, stage, self.active.view.cursor)

    def jump(self, stage: Stage, n: int) -> None:
        """To a line of a stage: in the pane that shows it, else in the active one."""
        self.leave_here()
        self.to(stage, n)

    def leave_here(self) -> None:
        """Remember the active pane's line, to come back there."""
        if (here := self.here()) is not None:
            self.history.leave(here)

    def to(self, stage: Stage, n: int) -> None:
        """There, without remembering where from."""
        there = next((p for p in self.panes if p.stage is stage and p.display), None)
        if there is not None:
            self.activate(there)
            there.go(n)
        else:
            self.choose(stage)
            self.active.go(n)

    def step(self, by: int) -> None:
        """The next stage that there is, round the ends."""
        there = self.subject.stages()
        now = self.active.stage
        if there:
            at = there.index(now) if now in there else 0
            self.choose(there[(at + by) % len(there)])

    # Which is active, and how they are arranged

    def activate(self, pane: Pane) -> None:
        """Make a pane the active one and give it the focus."""
        self.active = pane
        self.fit()
        self.screen.set_focus(pane.view)

    def fit(self) -> None:
        """Beside or below each other, or the active one alone, as the room allows."""
        width, height = self.size.width, self.size.height
        beside = self.beside if self.beside is not None else width >= MIN_COLUMNS_BESIDE
        alone = self.zoomed or (self.screen.size.width < 80 and self.beside is None)
        three = self.count == MAX_PANES and beside and width < MIN_COLUMNS_OF_THREE
        above = 2 if three else 1 if beside else self.count
        alone = alone or (above > 1 and height < MIN_ROWS_ABOVE * above)
        self.set_class(beside, "-beside")
        self.set_class(three and not alone, "-grid")
        for index, pane in enumerate(self._all):
            pane.display = index < self.count and (pane is self.active or not alone)
            pane.set_class(index == MAX_PANES - 1, "-third")
            pane.set_class(pane is self.active, "-active")
            pane.zoom(self.zoomed and pane is self.active and self.count > 1)
        self._share(beside, three, alone)
        self.on_descendant_focus()

    # Borders

    def _share(self, beside: bool, grid: bool, alone: bool) -> None:
        """Divide the room as the borders are. Across the way that panes follow each other one
        has all of it."""
        wide, high = self.widths, self.heights
        if grid and not alone:
            self.styles.grid_columns = f"{wide[0]}fr {wide[1]}fr"
            self.styles.grid_rows = f"{high[0]}fr {high[2]}fr"
        for index, pane in enumerate(self._all):
            pane.styles.width = f"{wide[index]}fr" if beside and not (grid or alone) else "1fr"
            pane.styles.height = f"{high[index]}fr" if not (beside or alone) else "1fr"

    @property
    def _in_view(self) -> list[Pane]:
        return [pane for pane in self.panes if pane.display]

    def _border_at(self, event: events.MouseEvent) -> Border | None:
        grid = self.has_class("-grid")
        regions = [pane.region for pane in self._in_view]
        return border_at(
            event.screen_x, event.screen_y, regions, self.region, self.has_class("-beside"), grid
        )

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of the border that is there."""
        self._pulled = False
        self._held = self._border_at(event) if event.button == 1 else None
        if self._held is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Take the border along; one that could be taken shows it."""
        held = self._held
        if held is None:
            over = self._border_at(event)
            upright = over is not None and over.upright and self.has_class("-beside")
            for index, pane in enumerate(self._in_view):
                pane.set_class(upright and over is not None and over.after == index, "-grip")
            return
        self._pulled = True
        if held.upright and held.after == 0:
            self.post_message(self.TreePulled(event.screen_x))
        else:
            first = self._in_view[self._before(held)].region
            size = event.screen_x - first.x if held.upright else event.screen_y - first.y
            self._pull(held, size)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go of it."""
        if self._held is not None:
            self.release_mouse()
            self._held = None

    def on_leave(self) -> None:
        """No border is under the mouse."""
        for pane in self._all:
            pane.remove_class("-grip")

    def on_click(self, event: events.Click) -> None:
        """A double click puts a border back where it was at first."""
        border = self._border_at(event) if event.chain == 2 else None
        if border is None:
            return
        if border.upright and border.after == 0:
            self.post_message(self.TreePulled(None))
        elif border.upright:
            self.even(widths=True, heights=False)
        else:
            self.even(widths=False, heights=True)

    def _before(self, border: Border) -> int:
        """The pane in view that ends at a border: beneath two, the third ends the first's row."""
        return 0 if self.has_class("-grid") else border.after - 1

    def _pull(self, border: Border, size: int) -> None:
        """The pane before a border so wide or so high; what follows it gives way."""
        there = self._in_view
        before = self._before(border)
        if border.upright:
            sizes, least = [pane.region.width for pane in there], MIN_PANE_COLUMNS
        else:
            sizes, least = [pane.region.height for pane in there], MIN_PANE_ROWS
        sizes = moved(sizes, before, border.after, size, least)
        shares = self.widths if border.upright else self.heights
        for index, pane in enumerate(there):
            shares[self._all.index(pane)] = max(1, sizes[index])
        self.fit()

    def even(self, widths: bool = True, heights: bool = True) -> None:
        """All panes as wide, or as high, as each other."""
        if widths:
            self.widths = [EVEN_SHARE] * MAX_PANES
        if heights:
            self.heights = [EVEN_SHARE] * MAX_PANES
        self.fit()

    def widen(self, by: int) -> bool:
        """The active pane so many cells wider or higher; False where it has no neighbour."""
        there = self._in_view
        if len(there) < 2 or self.active not in there:
            return False
        at = there.index(self.active)
        grid = self.has_class("-grid")
        upright = self.has_class("-beside") and not (grid and at == MAX_PANES - 1)
        last = at == (1 if grid and upright else len(there) - 1)
        border = Border(at if last else at + 1, upright)
        if grid and not upright:
            border = Border(MAX_PANES - 1, upright=False)
        region = there[self._before(border)].region
        size = region.width if upright else region.height
        by = by if upright else (by > 0) - (by < 0)
        self._pull(border, size - by if last else size + by)
        return True

    def on_descendant_focus(self) -> None:
        """Mark the title of the pane that has the focus."""
        for pane in self.panes:
            pane.set_class(self.screen.focused is pane.view, "-focused")

    def on_descendant_blur(self) -> None:
        """The focus left for the tree or a prompt."""
        self.on_descendant_focus()

    def on_resize(self) -> None:
        """The room changed."""
        self.fit()

    def turn(self) -> None:
        """Turn the panes the other way."""
        self.beside = not self.has_class("-beside")
        self.zoomed = False
        self.fit()

    @on(PaneTitle.Clicked)
    async def _clicked(self, message: PaneTitle.Clicked) -> None:
        message.stop()
        if not self._pulled:  # else it was taken hold of
            self.activate(next(p for p in self.panes if p.title_line is message.title))
            if message.action:
                await self.screen.run_action(message.action)

    # Links

    @on(Pane.Shown)
    def _shown(self, message: Pane.Shown) -> None:
        # It goes on to the screen, which may have something to show beside the listing.
        self._link_all(message.pane)
        if self.mapped:
            self._map(message.pane)

    def _link_all(self, pane: Pane) -> None:
        for other in self.panes:
            if other is pane or not (pane.settled and other.settled):
                continue
            if pane.request is not None and other.request is not None:
                self._link(pane.request, other.request)
                self._link(other.request, pane.request)

    def _link(self, a: ListingRequest, b: ListingRequest) -> None:
        if (a, b) in self._links:
            self.follow(move=True)
        elif a.stage is not b.stage and not (a.subject.variant is None and a.subject.graph is None):
            self._find_links(a, b)

    def _find_links(self, a: ListingRequest, b: ListingRequest) -> None:
        variant, graph = a.subject.variant, a.subject.graph

        def linked(found: Links | Notice) -> None:
            # Without links each pane still reads well alone; the status line says that there are
            # none.
            links = {} if isinstance(found, Notice) else found
            while len(self._links) > MAX_LINKS:
                self._links.pop(next(iter(self._links)))
            self._links[a, b] = links
            self._begin(a, links)
            self.follow(move=True)

        in_thread(
            self,
            lambda: self.reads.links_of(variant, graph, a.stage, b.stage),
            linked,
            "links",
            exclusive=False,
        )

    def _begin(self, request: ListingRequest, links: Links) -> None:
        """Begin where something lights up: on the kernel's first line that is linked."""
        pane = self.active
        if pane.request == request and pane.settled and pane.view.untouched:
            here = pane.view.cursor
            near = [n for n in range(here, here + SEARCH_LINES) if n in links]
            if near and near[0] != here:
                pane.view.begin(near[0])

    @on(CodeView.Moved)
    def _moved(self, message: CodeView.Moved) -> None:
        message.stop()
        if message.view.has_focus and message.view is not self.active.view:
            self.active = next(p for p in self.panes if p.view is message.view)
            self.fit()
        if message.view is self.active.view:
            self.follow(move=True)

    @on(CodeView.Jumped)
    def _jumped(self, message: CodeView.Jumped) -> None:
        message.stop()
        pane = next((p for p in self.panes if p.view is message.view), None)
        if pane is not None and pane.stage is not None:
            self.history.leave(VisitedPlace(self.subject, pane.stage, message.n))

    def forget_links(self) -> None:
        """Forget links and maps that were missing: they may exist now."""
        self._links = {pair: links for pair, links in self._links.items() if links}
        self._groups = {
            request: groups
            for request, groups in self._groups.items()
            if not isinstance(groups, Notice)
        }

    def linked_lines(self, pane: Pane) -> tuple[int, ...]:
        """The lines of ``pane`` that the active pane's cursor is linked with."""
        if self.active.request is None or pane.request is None:
            return ()
        links = self._links.get((self.active.request, pane.request), {})
        return links.get(self.active.view.cursor, ())

    def unlinked(self, pane: Pane) -> bool:
        """Whether nothing at all links the active pane's lines with those of ``pane``, where both
        have some."""
        if self.active.request is None or pane.request is None:
            return False
        if not (self.active.view.lines and pane.view.lines):
            return False
        return self._links.get((self.active.request, pane.request)) == {}

    def follow(self, move: bool) -> None:
        """Mark what the active pane's cursor is linked with; with ``move``, scroll there."""
        for pane in self.panes:
            if pane is not self.active and pane.settled and self.active.settled:
                pane.view.link(self.linked_lines(pane), follow=move)
        self.active.view.link((), follow=False)
        self._light()
        self.post_message(self.Changed())

    # The map

    def map(self, on: bool) -> None:
        """Colour every line of every pane by the source line that it comes from, or end that."""
        self.mapped = on
        for pane in self.panes:
            if on:
                self._map(pane)
            else:
                pane.view.tint(None)

    def _map(self, pane: Pane) -> None:
        request = pane.request
        if request is None or request.subject.variant is None or not pane.settled:
            return
        variant, stage = request.subject.variant, request.stage
        if request in self._groups:
            self._grouped(request, self._groups[request])
        else:
            in_thread(
                self,
                lambda: self.reads.groups(variant, stage),
                lambda found: self._grouped(request, found),
                "groups",
                exclusive=False,
            )

    def _grouped(self, request: ListingRequest, groups: SourceGroups | Notice) -> None:
        while len(self._groups) > MAX_MAPS:
            self._groups.pop(next(iter(self._groups)))
        self._groups[request] = groups
        if self.mapped and isinstance(groups, Notice) and request == self.active.request:
            said = f"There is no map of this: {groups.message}"
            self.post_message(CodeView.Said(self.active.view, said, warning=True))
        elif self.mapped and not isinstance(groups, Notice):
            for pane in self.panes:
                if pane.request == request and pane.settled and pane.view.lines:
                    pane.view.tint(groups)
            self._light()
            self.align(self.active)

    def _light(self) -> None:
        """Highlight the cursor's group in all panes."""
        groups = self.active.view.groups
        group = 0 if groups is None else groups.group(self.active.view.cursor)
        for pane in self.panes:
            pane.view.light(group)

    @on(CodeView.Scrolled)
    def _scrolled(self, message: CodeView.Scrolled) -> None:
        message.stop()
        pane = next((p for p in self.panes if p.view is message.view), None)
        if pane is not None:
            self.align(pane)

    def align(self, leader: Pane) -> None:
        """Scroll the other panes to what corresponds to what one of them shows."""
        view = leader.view
        first, last = view.span()
        for pane in self.panes:
            if pane is leader or not pane.settled or leader.request is None or pane.request is None:
                continue
            links = self._links.get((leader.request, pane.request), {})
            here = view.map.row(view.reading_at())
            for row in sorted(range(first, last + 1), key=lambda r: abs(r - here)):
                n = view.map.line(row)
                lines = (n,) if leader.request == pane.request else links.get(n)
                if lines:
                    to = pane.view
                    to.lead(to.cursor if to.cursor in lines else to.nearest(lines), row - first)
                    break
