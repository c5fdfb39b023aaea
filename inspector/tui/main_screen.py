"""The one screen: tree, panes, and the lines above and beneath them."""

from __future__ import annotations

import re

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widget import Widget

from inspector.model import Stage
from inspector.tui.card import VariantCard
from inspector.tui.commands import Where, bindings, command
from inspector.tui.empty_state import EmptyState
from inspector.tui.kernel_tree import KernelTree
from inspector.tui.key_footer import KeyFooter
from inspector.tui.pane import Pane
from inspector.tui.panes import Panes
from inspector.tui.prompt import Prompt
from inspector.tui.reads import Reads
from inspector.tui.status_line import StatusLine
from inspector.tui.title_bar import TitleBar
from inspector.tui.visible import label, plain

NARROW = 80
"""Columns below which the tree and a pane do not fit beside each other."""


class MainScreen(Screen[None]):
    """Passes what was chosen in the tree to the panes, and what happens there to the lines."""

    BINDINGS = bindings(Where.SCREEN)
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (8, "-short"), (14, "-tall")]  # noqa: RUF012

    def __init__(self, reads: Reads) -> None:
        super().__init__()
        self.reads = reads
        self.recording = reads.recording
        self.kernels = KernelTree(reads)
        self.panes = Panes(reads)
        self.card = VariantCard(reads)
        self.status = StatusLine()
        self.prompt = Prompt()
        self.tree_wanted = True
        self.tree_width: int | None = None
        self.empty = not self.recording.kernels and not self.recording.graphs
        self.footer = KeyFooter(bare=self.empty)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield TitleBar(self.recording)
        if self.empty:
            yield EmptyState(self.recording)
        else:
            yield self.card
            with Horizontal(id="body"):
                yield self.kernels
                yield self.panes
            yield self.status
            yield self.prompt
        yield self.footer

    def on_mount(self) -> None:
        """The tree has the focus: choosing comes first."""
        (self.query_one(EmptyState) if self.empty else self.kernels).focus()
        self.fit()

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

    @on(Panes.Changed)
    def _changed(self) -> None:
        active = self.panes.active
        linked = tuple(
            (
                str(pane.stage),
                None if self.panes.unlinked(pane) else len(self.panes.linked_lines(pane)),
            )
            for pane in self.panes.panes
            if pane is not active
        )
        self.status.follow(active.view, str(active.stage or ""), linked)

    def on_descendant_focus(self) -> None:
        """The footer shows the keys of where the focus is."""
        self.footer.show(Where.TREE if self.focused is self.kernels else Where.PANE)
        self.fit()

    # Prompts

    def _ask(self, kind: str, value: str = "") -> None:
        self.status.display = False
        self.prompt.ask(kind, value)

    def action_search(self) -> None:
        """Ask for a regular expression."""
        pattern = self.panes.active.view.pattern
        self._ask("search", pattern.pattern if pattern else "")

    def action_goto(self) -> None:
        """Ask for a line."""
        self._ask("goto")

    def action_copy(self) -> None:
        """Copy the cursor's line."""
        view = self.panes.active.view
        if view.source is not None:
            self.app.copy_to_clipboard(plain(view.source.texts[view.cursor - 1]))
            self.status.say(f"Line {view.cursor} is on the clipboard.", view)

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        if message.kind == "filter":
            self.kernels.filter(message.text)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        self.status.display = True
        view = self.panes.active.view
        if message.kind == "filter":
            if not message.accepted:
                self.kernels.filter("")
            self._focus_tree()
            return
        self.set_focus(view)
        if message.accepted and message.text:
            (self._search if message.kind == "search" else self._goto)(message.text)

    def _warn(self, text: str) -> None:
        self.status.say(text, self.panes.active.view, warning=True)

    def _goto(self, text: str) -> None:
        try:
            self.panes.active.view.go(int(text))
        except ValueError:
            self.status.say(
                f"“{label(text)}” is no line number.", self.panes.active.view, warning=True
            )

    def _search(self, text: str) -> None:
        # As in vim's smartcase: small letters find both, one capital makes it exact.
        flags = re.NOFLAG if any(c.isupper() for c in text) else re.IGNORECASE
        try:
            self.panes.active.search(re.compile(text, flags))
        except re.error as error:
            self.status.say(
                f"“{label(text)}” is no regular expression: {error}",
                self.panes.active.view,
                warning=True,
            )

    @on(Pane.Found)
    def _found(self, message: Pane.Found) -> None:
        view = message.pane.view
        lines = message.lines
        if not isinstance(lines, tuple):
            self._warn("The search failed.")
            return
        again = view.pattern is message.pattern
        view.find(message.pattern, lines)
        if not lines:
            self.status.say(
                f"Nothing fits “{label(message.pattern.pattern)}”.",
                self.panes.active.view,
                warning=True,
            )
        elif not again and view.cursor not in lines:
            view.action_match(1)
        else:
            self._changed()

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
        """Tree, first pane, second pane, and round again; what is hidden is shown when narrow."""
        stops: list[Pane | None] = [None] if self.tree_wanted else []
        stops += self.panes.panes
        here = None if self.focused is self.kernels else self.panes.active
        at = stops.index(here) if here in stops else 0
        stop = stops[(at + by) % len(stops)]
        if stop is None:
            self._focus_tree()
        else:
            self.panes.display = True
            self.panes.activate(stop)

    def _focus_tree(self) -> None:
        self.kernels.display = True
        self.set_focus(self.kernels)

    def action_toggle_tree(self) -> None:
        """Show or hide the tree."""
        self.tree_wanted = not self.tree_wanted
        if self.tree_wanted:
            self._focus_tree()
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

    def action_follow(self) -> None:
        """To the pane beside."""
        panes = self.panes.panes
        self.panes.activate(panes[(panes.index(self.panes.active) + 1) % len(panes)])
