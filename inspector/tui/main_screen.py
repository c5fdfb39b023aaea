"""The one screen: tree, panes, and the lines above and beneath them."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget

from inspector.model import Stage
from inspector.tui.card import VariantCard
from inspector.tui.commands import Where, bindings, command
from inspector.tui.comparisons import Comparing
from inspector.tui.empty_state import EmptyState
from inspector.tui.kernel_tree import KernelTree
from inspector.tui.key_footer import KeyFooter
from inspector.tui.live import Live
from inspector.tui.ordering import Order
from inspector.tui.output_view import OutputView
from inspector.tui.pane import Pane
from inspector.tui.panes import MOST, Panes
from inspector.tui.prompt import Prompt
from inspector.tui.reading_line import ReadingLine
from inspector.tui.reads import Reads
from inspector.tui.remembered import View
from inspector.tui.status_line import StatusLine
from inspector.tui.times import Times
from inspector.tui.title_bar import TitleBar
from inspector.tui.understanding import Understanding

NARROW = 80
"""Columns below which the tree and a pane do not fit beside each other."""


class MainScreen(Comparing):
    """Passes what was chosen in the tree to the panes, and what happens there to the lines."""

    BINDINGS = bindings(Where.SCREEN)
    CSS_PATH = "styles.tcss"
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high")]  # noqa: RUF012

    def __init__(self, reads: Reads, live: Live | None = None) -> None:
        super().__init__()
        self.live = live
        self.tree_wanted = True
        self.tree_width: int | None = None
        self._make(reads)

    def _make(self, reads: Reads) -> None:
        self.reads = reads
        self.recording = reads.recording
        self.times = Times(self.recording.path)
        self.kernels = KernelTree(reads, self.times)
        self.panes = Panes(reads)
        self.card = VariantCard(reads, self.times)
        self.reading = ReadingLine()
        self.understanding = Understanding(reads, self.times)
        self.status = StatusLine()
        self.prompt = Prompt()
        self.title_bar = TitleBar(self.recording)
        watched = self.live if self.live is not None and self.live.send is not None else None
        self.output = None if watched is None else OutputView(watched)
        self.empty = not self.recording.kernels and not self.recording.graphs
        self.footer = KeyFooter(bare=self.empty)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.title_bar
        if self.empty:
            yield EmptyState(self.recording, self.live is not None and self.live.running)
        else:
            yield self.card
            with Horizontal(id="body"):
                yield self.kernels
                yield self.panes
            yield self.understanding
            yield self.reading
            yield self.status
            yield self.prompt
        if self.output is not None:
            yield self.output
        yield self.footer

    def on_mount(self) -> None:
        """The tree has the focus: choosing comes first."""
        memory = getattr(self.app, "memory", None)
        known = memory.view(self.recording.path) if memory is not None else None
        if known is not None and not self.empty:
            self.restore(known)
        self.focus_first()
        self.fit()
        self.read_times()

    async def fill(self, reads: Reads) -> None:
        """There was nothing, and now there is: the tree and the panes instead of a text."""
        self._make(reads)
        await self.recompose()
        self.on_mount()

    def focus_first(self) -> None:
        """To where one begins: the tree, or what stands in its place."""
        if self.empty:
            self.query_one(EmptyState).focus()
        else:
            self.focus_tree()

    @property
    def view(self) -> View | None:
        """How the recording is looked at; None where there is nothing in it."""
        if self.empty:
            return None
        return View(
            self.panes.subject.key,
            tuple(str(pane.preferred or "") for pane in self.panes.panes),
            self.panes.beside,
            self.tree_wanted,
            self.tree_width,
            *zip(*(pane.view.looks for pane in self.panes.panes), strict=True),
        )

    def restore(self, view: View) -> None:
        """Look at it so again, as far as what was looked at is still there."""
        self.tree_wanted, self.tree_width = view.tree, view.tree_width
        self.panes.beside = view.beside
        self.panes.count = max(1, min(len(view.stages), MOST)) if view.stages else 2
        for pane, stage in zip(self.panes.panes, view.stages, strict=False):
            pane.preferred = next((s for s in Stage if s.value == stage), None)
        looks = zip(view.folds, view.columns, view.wrapped, strict=False)
        for pane, (folds, columns, wrapped) in zip(self.panes.panes, looks, strict=False):
            pane.view.look(folds, columns, wrapped)
        self.kernels.find(view.subject)

    def on_resize(self) -> None:
        """The tree gives way when it gets narrow."""
        self.fit()

    def fit(self) -> None:
        """Tree and panes as the width and the wish allow; below 80 columns one at a time."""
        if self.empty:
            return
        width = self.size.width
        narrow = width < NARROW
        in_tree = self.focused is self.kernels
        self.kernels.display = in_tree or (self.tree_wanted and not narrow)
        self.panes.display = not (narrow and in_tree)
        wanted = self.tree_width or max(24, min(46, width // 5 + 6))
        self.kernels.styles.width = "1fr" if narrow else max(16, min(wanted, width - 30))

    # What is chosen

    @on(KernelTree.Selected)
    def _selected(self, message: KernelTree.Selected) -> None:
        subject = message.subject
        self.panes.show(subject)
        self.card.show(subject)

    def action_read(self) -> None:
        """From the tree to the panes."""
        if self.kernels.enter():
            self._opened()

    @on(KernelTree.Opened)
    def _opened(self) -> None:
        self.panes.display = True
        self.panes.activate(self.panes.active)

    @on(KernelTree.Ordered)
    def _ordered(self, message: KernelTree.Ordered) -> None:
        compiled = message.order is Order.COMPILED
        word = message.order.value
        self.footer.say("tree.order", "order" if compiled else f"by {word}")
        said = "as it was compiled" if compiled else f"by {word}"
        self.status.say(f"The tree stands {said}.", self.panes.active.view)

    @on(Panes.Changed)
    def changed(self) -> None:
        """Tell of the active pane's line: where it is, what it does."""
        active = self.panes.active
        linked = tuple(
            (
                str(pane.stage),
                None if self.panes.unlinked(pane) else len(self.panes.linked_lines(pane)),
            )
            for pane in self.panes.panes
            if pane is not active
        )
        self.status.follow(active.view, str(active.stage or ""), linked, self.counts())
        self.reading.follow(active.view)

    @on(Pane.Annotated)
    def _annotated(self, message: Pane.Annotated) -> None:
        if message.pane is self.panes.active:
            self.reading.follow(message.pane.view)

    def on_descendant_focus(self) -> None:
        """The footer shows the keys of where the focus is."""
        self.footer.show(Where.TREE if self.focused is self.kernels else Where.PANE)
        self.fit()

    # Commands

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are letters while one types, and an empty recording has little to work on."""
        if self.focused is self.prompt.input:
            return False
        return not self.empty or action in ("tell_app", "run")

    async def action_tell_app(self, name: str) -> None:
        """Something that is the application's affair."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        chosen = command(name)
        if self.focused is self.prompt.input:
            self.set_focus(self.panes.active.view)
        if self.empty and chosen.where is not Where.SCREEN:
            return
        homes: dict[Where, Widget | Screen[None]] = {
            Where.SCREEN: self, Where.PANE: self.panes.active.view, Where.TREE: self.kernels,
        }  # fmt: skip
        await self.app.run_action(chosen.action, homes[chosen.where])

    def action_stage(self, stage: str) -> None:
        """A stage in the active pane."""
        self.panes.choose(Stage(stage))

    def action_next_stage(self, by: int) -> None:
        """The next stage there is."""
        self.panes.step(by)

    def action_next_pane(self, by: int) -> None:
        """Tree, pane after pane, and round again; what is hidden is shown when narrow."""
        stops: list[Pane | None] = [None] if self.tree_wanted else []
        stops += self.panes.panes
        here = None if self.focused is self.kernels else self.panes.active
        at = stops.index(here) if here in stops else 0
        stop = stops[(at + by) % len(stops)]
        if stop is None:
            self.focus_tree()
        else:
            self.panes.display = True
            self.panes.activate(stop)

    def focus_tree(self) -> None:
        """To the tree, shown if it was not."""
        self.kernels.display = True
        self.set_focus(self.kernels)

    def action_toggle_tree(self) -> None:
        """Show or hide the tree."""
        self.tree_wanted = not self.tree_wanted
        if self.tree_wanted:
            self.focus_tree()
        else:
            self._opened()
        self.fit()

    def action_filter(self) -> None:
        """Filter the tree."""
        self.tree_wanted = True
        self.kernels.display = True
        self._ask("filter", self.kernels.query_text)

    def action_clear_filter(self) -> None:
        """Forget the filter."""
        self.kernels.filter("")

    def action_zoom(self) -> None:
        """The active pane alone, and back."""
        self.panes.zoomed = not self.panes.zoomed
        self.panes.fit()

    def action_turn(self) -> None:
        """Beside or above each other."""
        self.panes.turn()

    def action_step(self, by: int) -> None:
        """The next variant."""
        self.kernels.step(by)

    def action_widen(self, by: int) -> None:
        """A wider or narrower tree."""
        self.tree_width = max(16, min(self.kernels.size.width + by, self.size.width - 30))
        self.fit()

    def action_register(self) -> None:
        """Light up the line's next register."""
        self.reading.next_register()

    def action_understand(self, what: str) -> None:
        """The card, the hints, or the instruction under the cursor."""
        active = self.panes.active
        self.understanding.ask(what, self.panes.subject, active.stage, active.view.cursor)

    @on(Understanding.Jump)
    def _jump(self, message: Understanding.Jump) -> None:
        self.panes.jump(message.stage, message.n)
