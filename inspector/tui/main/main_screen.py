"""The one screen: tree, panes, and the lines above and beneath them.

One module because it is one class: what a key does needs the tree, the panes and the lines at once.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from inspector import files
from inspector.errors import PtxviewError
from inspector.listing.line import Line
from inspector.measure.time.results import Session
from inspector.model import BEFORE, EDIT, GRAPH_STAGES, Location, Stage, UserFrame, Variant
from inspector.report import annotated, card
from inspector.system.process import run_program
from inspector.system.toolchain import which
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.gutter import ColumnList
from inspector.tui.code.labels import labels, target_line
from inspector.tui.keys.command_table import Where, bindings, command
from inspector.tui.keys.keymap import shown
from inspector.tui.main.card import VariantCard
from inspector.tui.main.empty_state import EmptyState
from inspector.tui.main.remembered import View
from inspector.tui.main.title_bar import TitleBar
from inspector.tui.panes.layouts import after, layout
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.pane_search import Search
from inspector.tui.panes.panes import MOST, Panes
from inspector.tui.panes.reading_line import ReadingLine
from inspector.tui.panes.status_line import StatusLine
from inspector.tui.panes.understanding import Understanding
from inspector.tui.program.live import Live
from inspector.tui.program.output_view import OutputView
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.tree.ordering import Order
from inspector.tui.tree.rows import TreeKind, TreeRow
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject, resolve
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import label, plain

if TYPE_CHECKING:
    from inspector.reader.reader import Reader
    from inspector.tui.variants.variants_screen import Left, Scope


HEIGHTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high"), (40, "-ample"), (56, "-vast")]
"""Lines of a screen from which on a class of the styles holds: what gives way to the tree and the
panes where it gets low, and what is wrapped where there is room."""

NARROW = 80
"""Columns below which the tree and a pane do not fit beside each other."""


def tree_width(wanted: int | None, width: int) -> int | None:
    """Columns of the tree on a screen so wide, where one has asked for ``wanted`` or for none;
    None: all of them, since a pane does not fit beside it."""
    if width < NARROW:
        return None
    return max(16, min(wanted or max(24, min(46, width // 5 + 6)), width - 30))


# -- a listing as a text file ---------------------------------------------------------------------
# A listing as a text file, with its card, its hints and what is told of each line.

WIDTH = 160
LONGEST = 60
_ENDINGS = {Stage.SOURCE: ".py", Stage.OUTPUT_CODE: ".py"}


def file_name(subject: TreeSubject, stage: Stage, ending: str) -> str:
    """A name that every file system takes: ``square_kernel-3f2a91c0.ptx`` and ``ending``."""
    kernel = "" if subject.kernel is None else subject.kernel.name
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kernel or subject.name).strip("._-")[:LONGEST]
    ident = "" if subject.variant is None else f"-{subject.variant.id}"
    own = re.sub(r"[^A-Za-z0-9_-]+", "_", ident)[:LONGEST]
    return f"{name or 'kernel'}{own}{_ENDINGS.get(stage, f'.{stage.value}')}{ending}"


def save(path: Path, data: bytes) -> Path:
    """Write a new file and say where: ``path``, or with a number where something of that name lies
    there, a link that leads nowhere too. Nothing is lost, and nothing written elsewhere.

    Raises ``OSError`` where it cannot be written.
    """
    number, free = 1, path
    while True:
        try:
            with free.open("xb") as file:
                file.write(data)
            return free
        except FileExistsError:
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")


def text_of(reads: Reader, subject: TreeSubject, variant: Variant, stage: Stage) -> str:
    """The text; called in a thread."""
    listing = reads.listing(variant, stage)
    telling = reads.telling(variant, stage)
    head = [f"{subject.name}  {variant.id}  {variant.target or ''}  {stage.value}"]
    head += [f"  {row}" for row in card.lines(reads.card(variant), width=WIDTH)]
    head += [annotated.hint(finding).plain for finding in reads.findings(variant)]
    rows = [row.plain.rstrip() for row in annotated.rows(listing.lines, telling, WIDTH)]
    return "\n".join([*head, "", annotated.heading(telling), *rows, ""])


# -- going far ------------------------------------------------------------------------------------
# Along branches and labels, into the other panes, back and forward, up the calls.


def frames(location: Location | None, names: tuple[str, ...] = ()) -> Content:
    """The whole chain of an inlined line, the innermost first."""
    if location is None:
        return Content("No source location is recorded for this line.")
    parts: list[tuple[str, str]] = []
    for index, frame in enumerate(location.frames()):
        column = f":{frame.column}" if frame.column else ""
        parts.append(("inlined at  " if index else "the line is  ", "$quiet"))
        parts.append((f"{label(frame.file)}", "bold" if not index else ""))
        parts.append((f":{frame.line}{column}\n", "$accent"))
    return Content.assemble(*parts)


# -- doing something with what one reads ----------------------------------------------------------
# Mark, compare, time, copy, edit, save.

Compare = Callable[["Reader", TreeSubject, TreeSubject], Screen[None]]
Time = Callable[["Reader", TreeSubject, RecordingTimes], Screen[None]]


def _compare(reads: Reader, a: TreeSubject, b: TreeSubject) -> Screen[None]:
    # Imported when something is compared: the first frame need not wait for it.
    from inspector.tui.diff.diff_screen import DiffScreen

    return DiffScreen(reads, a, b)


COMPARE: Compare | None = _compare
"""Makes the screen that shows how two variants differ. None: there is no such screen."""


def _time(reads: Reader, subject: TreeSubject, times: RecordingTimes) -> Screen[None]:
    from inspector.tui.work.timing_screen import TimingScreen

    return TimingScreen(reads, subject, times)


TIME: Time = _time
"""Makes the screen that measures a variant."""

EDITORS = ("VISUAL", "EDITOR")
USUAL = ("vi", "nano")
"""What is there as a rule, where neither names one."""


TRIED = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
"""Stages that go through the rest of a compiler where they were edited."""

UNTRIED = {
    Stage.SOURCE: "it is a copy, since the file is not where it was recorded",
    Stage.OUTPUT_CODE: "Inductor writes it anew",
    Stage.SASS: "nothing assembles it",
}

GOTO = frozenset(("code", "code-insiders", "code-server", "codium", "vscodium", "cursor"))
"""Editors that take the line with the path: VS Code and what is made of it."""


def whole_path(recorded: str) -> Path | None:
    """Where a recorded path leads, from the root on and without links; None if no regular file
    lies there.

    A recording may name anything: a path that begins at the root is an option or a command
    (``+:!…``, ``-c …``) of no editor.
    """
    try:
        path = Path(recorded).resolve(strict=True)
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def editor(words: list[str], path: Path, n: int) -> list[str]:
    """The command that opens line ``n`` of a file, whose path begins at the root."""
    if Path(words[0]).name in GOTO:
        return [*words, "--goto", f"{path}:{n}"]
    return [*words, f"+{n}", str(path)]


# -- the screen -----------------------------------------------------------------------------------


class MainScreen(Screen[None]):
    """Passes what was chosen in the tree to the panes, and what happens there to the lines."""

    BINDINGS = bindings(Where.SCREEN)

    AUTO_FOCUS = ""

    VERTICAL_BREAKPOINTS = HEIGHTS

    class Target(Message):
        """A thread has found where a branch or a label is; None if there is none."""

        def __init__(self, view: CodeView, source: object, n: int | None, wanted: str) -> None:
            super().__init__()
            self.view = view
            self.source = source
            self.n = n
            self.wanted = wanted

    class Saved(Message):
        """A thread has written a file, or could not."""

        def __init__(self, text: str, warning: bool) -> None:
            super().__init__()
            self.text = text
            self.warning = warning

    class WereTaken(Message):
        """A thread has read the times that were taken before."""

        def __init__(self, sessions: tuple[Session, ...]) -> None:
            super().__init__()
            self.sessions = sessions

    def __init__(self, reads: Reader, live: Live | None = None) -> None:
        super().__init__()
        self.marked: tuple[TreeSubject, ...] = ()
        self.live = live
        self.tree_wanted = True
        self.tree_width: int | None = None
        self.output: OutputView | None = None
        self._make(reads)

    def _make(self, reads: Reader) -> None:
        self.reads = reads
        self.recording = reads.recording
        self.times = RecordingTimes(self.recording.path)
        self.kernels = KernelTree(reads, self.times)
        self.panes = Panes(reads)
        self.card = VariantCard(reads, self.times)
        self.reading = ReadingLine()
        self.understanding = Understanding(reads, self.times)
        self.status = StatusLine()
        self.prompt = Prompt()
        self.search = Search(self.panes, self.warn, self.changed)
        self.title_bar = TitleBar(self.recording)
        watched = self.live if self.live is not None and self.live.send is not None else None
        if self.output is None and watched is not None:
            self.output = OutputView(watched)
        self.empty = not self.recording.kernels and not self.recording.graphs
        self.footer = KeyFooter(bare=self.empty)
        self.footer.watched = self.output is not None

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.title_bar
        self.set_class(self.output is not None, "-watched")
        if self.empty:
            yield EmptyState(self.recording, self.live if self.output is not None else None)
        else:
            yield from self._filled()
        if self.output is not None:
            # While nothing is compiled, what the program writes is what there is to see.
            self.output.set_class(self.empty, "-alone")
            yield self.output
        yield self.footer

    def _filled(self) -> Iterator[Widget]:
        """What stands between the first line and the output once there is something to read."""
        yield self.card
        yield Horizontal(self.kernels, self.panes, id="body")
        yield from (self.understanding, self.reading, self.status, self.prompt)

    def on_mount(self) -> None:
        """The tree has the focus: choosing comes first."""
        self.begin()

    def begin(self, focus: bool = True) -> None:
        """As it was left the last time, with the focus where one begins."""
        memory = getattr(self.app, "memory", None)
        known = memory.view(self.recording.path) if memory is not None else None
        if known is not None and not self.empty:
            self.restore(known)
        if focus:
            self.focus_first()
        self.fit()
        self.read_times()

    async def fill(self, reads: Reader) -> None:
        """There was nothing, and now there is: the tree and the panes instead of a text. Who reads
        the output goes on reading it."""
        before = [self.title_bar, self.query_one(EmptyState), self.footer]
        self._make(reads)
        output = self.output
        async with self.batch():
            for widget in before:
                await widget.remove()
            await self.mount(self.title_bar, *self._filled(), self.footer)
            if output is not None:
                output.remove_class("-alone")
                self.move_child(output, before=self.footer)
        stays = output is not None and output.has_focus and output.is_read
        self.begin(focus=not stays)

    def renew(self, reads: Reader) -> None:
        """Show the same recording, grown; nothing that is being read moves."""
        self.reads, self.recording = reads, reads.recording
        self.title_bar.recording = self.recording
        self.title_bar.refresh()
        # It may have been packed into a file when it was complete.
        self.times.path = Path(self.recording.path)
        before = self.panes.subject
        self.understanding.reads = reads
        self.panes.renew(reads)
        self.card.renew(reads, before, self.panes.subject)
        self.kernels.renew(reads)
        self.marked = tuple(resolve(self.recording, one) for one in self.marked)
        self.kernels.mark(tuple(one.key[:2] for one in self.marked))
        self.read_times()

    def tell_empty(self, reads: Reader) -> None:
        """There is no kernel yet, but more to be said."""
        self.reads, self.recording = reads, reads.recording
        self.title_bar.recording = reads.recording
        self.title_bar.refresh()
        self.query_one(EmptyState).tell(reads.recording, self.live if self.output else None)

    def focus_first(self) -> None:
        """To where one begins: the tree, or what stands in its place."""
        if not self.empty:
            self.focus_tree()
        elif self.output is not None:
            self.output.focus()
        else:
            self.query_one(EmptyState).focus()

    @property
    def remembered(self) -> View | None:
        """How the recording is looked at; None if there is nothing in it."""
        if self.empty:
            return None
        folds, columns, wrapped = zip(*(p.view.looks for p in self.panes.panes), strict=True)
        name, widths, heights = self.panes.stand
        return View(
            self.panes.subject.key,
            tuple(str(pane.preferred or "") for pane in self.panes.panes),
            self.panes.beside,
            self.tree_wanted,
            self.tree_width,
            folds, columns, wrapped, self.panes.mapped, name, widths, heights,
        )  # fmt: skip

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
        self.panes.mapped = view.mapped
        self.panes.stand_so(view.layout, view.widths, view.heights)
        self.kernels.find(view.subject)

    def on_resize(self) -> None:
        """The tree gives way when it gets narrow."""
        self.fit()

    def fit(self) -> None:
        """Tree and panes as the width and the wish allow; below 80 columns one at a time."""
        if self.empty:
            return
        wanted = tree_width(self.tree_width, self.size.width)
        narrow = wanted is None
        in_tree = self.focused is self.kernels
        self.kernels.display = in_tree or (self.tree_wanted and not narrow)
        self.panes.display = not (narrow and in_tree)
        self.kernels.styles.width = "1fr" if wanted is None else wanted

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
        said = "In the order of compilation" if compiled else f"Sorted by {word}"
        if message.order in (Order.REGISTERS, Order.SPILLS) and message.read < message.of:
            said += f" ({message.read} of {message.of} read)"
        self.status.say(f"{said}.", self.panes.active.view)

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
        self.status.follow(active.view, str(active.stage or ""), linked, self.search.counts())
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

    def action_graph_stage(self) -> None:
        """The graph's operations; where the pane shows one of its stages, the next of them."""
        subject, here = self.panes.subject, self.panes.active.stage
        there = [stage for stage in GRAPH_STAGES if subject.has(stage)]
        # The operations are shown first, and come last in the order of lowering.
        order = there[-1:] + there[:-1]
        at = order.index(here) + 1 if here in order else 0
        self.panes.choose(order[at % len(order)] if order else Stage.OPERATIONS)

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

    def tell_modes(self) -> None:
        """What is on, in the title."""
        modes = [("map", "map")] if self.panes.mapped else []
        if text := self.kernels.query_text:
            modes.append((f"filter {label(text)}", "tree.clear"))
        self.title_bar.modes = tuple(modes)
        self.title_bar.refresh()

    @on(KernelTree.Filtered)
    def _were_filtered(self) -> None:
        self.tell_modes()

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

    def action_widen_pane(self, by: int) -> None:
        """A wider or higher pane; one that has no other beside it takes its room from the tree."""
        if not self.panes.widen(by) and self.kernels.display:
            self.action_widen(-by)

    def action_even(self) -> None:
        """Every border where it was at first."""
        self.tree_width = None
        self.panes.even()
        self.fit()

    @on(Panes.TreePulled)
    def _tree_pulled(self, message: Panes.TreePulled) -> None:
        if message.x is None:
            self.tree_width = None
        elif self.kernels.display:
            width = message.x - self.kernels.region.x
            self.tree_width = max(16, min(width, self.size.width - 30))
        self.fit()

    def action_layout(self) -> None:
        """The next of the layouts that have a name."""
        self.action_lay(after(self.panes.arrangement).name)

    def action_lay(self, name: str) -> None:
        """Panes and stages as a layout has them; what is not there of it is said."""
        chosen = layout(name)
        if chosen is None:
            return
        self.panes.display = True
        self.panes.lay_out(chosen)
        if self.focused is not self.kernels:
            self.panes.activate(self.panes.active)
        said = f"Layout: {chosen.title}."
        if lacks := chosen.lacks(self.panes.subject):
            said += f" There is no {' and no '.join(map(str, lacks))} of this."
        key = shown(command("layout"), getattr(self.app, "keys", {}))
        self._say(f"{said} {key} goes on to {after(chosen).title}.")

    def action_register(self) -> None:
        """Light up the line's next register."""
        if not self.reading.next_register():
            self.warn("This line has no register that is known.")

    def action_understand(self, what: str) -> None:
        """The card, the hints, or the instruction under the cursor."""
        active = self.panes.active
        self.understanding.ask(what, self.panes.subject, active.stage, active.view.cursor)

    @on(Understanding.Jump)
    def _jump(self, message: Understanding.Jump) -> None:
        self.panes.jump(message.stage, message.n)

    def _line(self) -> Line | None:
        """The active pane's line."""
        view = self.panes.active.view
        if view.source is None or not view.lines:
            return None
        return view.source.listing.lines[view.cursor - 1]

    def action_follow(self) -> None:
        """Along the branch on this line, else to the linked lines in the pane beside."""
        line = self._line()
        if line is not None and line.targets:
            self._find_target(self.panes.active.view, line.n, line.targets[0])
        elif len(self.panes.panes) > 1:
            panes = self.panes.panes
            self.panes.activate(panes[(panes.index(self.panes.active) + 1) % len(panes)])

    def action_label(self, step: int) -> None:
        """To the next or previous label, round the ends."""
        view = self.panes.active.view
        if view.source is not None:
            self._find_label(view, view.cursor, step)

    @work(thread=True, exclusive=True, group="target", exit_on_error=False, description="target")
    def _find_target(self, view: CodeView, n: int, target: str) -> None:
        source = view.source
        if source is not None:
            answer = attempt(lambda: target_line(source.listing, n, target))
            at = answer if isinstance(answer, int) else None
            self.post_message(self.Target(view, source, at, target))

    @work(thread=True, exclusive=True, group="target", exit_on_error=False, description="target")
    def _find_label(self, view: CodeView, n: int, step: int) -> None:
        source = view.source
        if source is not None:
            answer = attempt(lambda: next(labels(source.listing, n, step), None))
            at = answer if isinstance(answer, int) else None
            self.post_message(self.Target(view, source, at, "a label"))

    @on(Target)
    def _target(self, message: Target) -> None:
        message.stop()
        if message.source is not message.view.source:
            return
        if message.n is not None:
            message.view.jump(message.n)
        else:
            said = f"{label(message.wanted)} is nowhere in this listing."
            self.status.say(said, message.view, warning=True)

    def action_history(self, by: int) -> None:
        """Back to where a jump began, or forward again."""
        here = self.panes.here()
        place = None if here is None else self.panes.history.go(here, by)
        if place is None:
            self.warn("There is nothing to go back to." if by < 0 else "This is the last place.")
            return
        if place.subject != self.panes.subject:
            self.kernels.find(place.subject.key)
            self.panes.show(resolve(self.recording, place.subject))
        self.panes.to(place.stage, place.n)

    def action_frames(self) -> None:
        """The whole chain of places that the line was inlined from."""
        line = self._line()
        if line is not None:
            text = frames(line.source)
            self.app.push_screen(Overlay(f"Line {line.n} comes from", text))

    def action_choose_columns(self) -> None:
        """Choose the columns of the active pane one by one."""
        view = self.panes.active.view
        if view.rows.gutter.there:
            self.app.push_screen(
                ColumnList(view.rows.gutter),
                lambda wanted: None if wanted is None else view.columns(wanted),
            )
        else:
            self.warn("There are no columns for this listing.")

    def action_map(self) -> None:
        """Colour each line of all panes by the source line that it comes from, or end that."""
        self.panes.map(not self.panes.mapped)
        self.tell_modes()
        self._say(
            "Each line has the colour of its source line; panes scroll together. m ends it."
            if self.panes.mapped
            else "The map is off."
        )

    def action_pane_more(self) -> None:
        """One pane more, up to three; then this one alone."""
        self.panes.more()

    def action_pane_fewer(self) -> None:
        """Close this pane."""
        if not self.panes.fewer():
            self.warn("This is the only pane.")

    @on(CodeView.Said)
    def _view_said(self, message: CodeView.Said) -> None:
        self.status.say(message.text, message.view, message.warning)

    # What one types: a search, a line, a filter

    def _ask(self, kind: str, value: str = "") -> None:
        self.status.display = False
        self.prompt.ask(kind, value)

    def action_search(self) -> None:
        """Ask for a regular expression."""
        self._ask("search", self.search.begin())

    def action_goto(self) -> None:
        """Ask for a line."""
        self._ask("goto")

    def action_clear(self) -> None:
        """Choose no lines any more; else forget the search, in all panes."""
        if not self.panes.active.view.unchoose():
            self.search.clear()

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        if message.kind == "filter":
            self.kernels.filter(message.text)
        elif message.kind == "search":
            self.search.look_for(message.text, typing=True)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        self.status.display = True
        if message.kind == "filter":
            if not message.accepted:
                self.kernels.filter("")
            self.focus_tree()
            return
        self.set_focus(self.panes.active.view)
        if message.kind == "search" and not message.accepted:
            self.search.give_up()
        elif message.accepted and message.text:
            (self.search.look_for if message.kind == "search" else self._goto)(message.text)

    def _goto(self, text: str) -> None:
        try:
            self.panes.active.view.jump(int(text))
        except ValueError:
            self.warn(f"“{label(text)}” is not a line number.")

    @on(Pane.Found)
    def _found(self, message: Pane.Found) -> None:
        self.search.found(message)

    def warn(self, text: str) -> None:
        """Say that something is not so, above the footer."""
        self.status.say(text, self.panes.active.view, warning=True)

    def _say(self, text: str) -> None:
        self.status.say(text, self.panes.active.view)

    # Marks

    def action_mark(self) -> None:
        """Mark the variant, or take its mark away; a third takes the place of the second."""
        subject = self.panes.subject
        if subject.variant is None:
            self.warn("There is no variant here to mark.")
            return
        own = TreeSubject(subject.kernel, subject.variant)
        if own in self.marked:
            self.marked = tuple(one for one in self.marked if one != own)
        else:
            self.marked = (*self.marked[:1], own)
        self.kernels.mark(tuple(one.key[:2] for one in self.marked))
        names = [f"{letter} {label(one.name)} {one.key[1]}"
                 for letter, one in zip("AB", self.marked, strict=False)]  # fmt: skip
        hint = ("d marks another, then D compares them", "D compares them")
        if names:
            self._say(f"Marked: {', '.join(names)}. {hint[len(names) - 1]}.")
        else:
            self._say("Nothing is marked.")

    def action_compare(self) -> None:
        """Show how the two marked variants differ."""
        if len(self.marked) < 2:
            self.warn("Mark two variants with d; then this compares them.")
        elif COMPARE is None:
            a, b = (one.key[1] for one in self.marked)
            self.warn(f"No screen shows differences yet: ptxview diff {a} {b} prints them.")
        else:
            self.app.push_screen(COMPARE(self.reads, *self.marked))

    def action_edited(self) -> None:
        """Show what the last edit made of the variant, where its source is compiled on saving."""
        kernel, variant = self.panes.subject.kernel, self.panes.subject.variant
        told = {} if variant is None else {k: v for k, v in variant.config.items() if k != EDIT}
        pair = [
            v
            for v in (kernel.variants if kernel is not None else ())
            if {k: x for k, x in v.config.items() if k != EDIT} == told
        ]
        before = next((v for v in pair if v.config.get(EDIT) == BEFORE), None)
        after = next((v for v in pair if v.config.get(EDIT) != BEFORE), None)
        if before is None or after is None or COMPARE is None:
            self.warn("This variant has not changed since it was last compiled.")
            return
        self.app.push_screen(
            COMPARE(self.reads, TreeSubject(kernel, before), TreeSubject(kernel, after))
        )

    def action_time(self) -> None:
        """Measure the variant."""
        if self.panes.subject.variant is None:
            self.warn("There is no variant here to time.")
        else:
            screen = TIME(self.reads, self.panes.subject, self.times)
            self.app.push_screen(screen, lambda _: self.timed())

    def action_step_block(self) -> None:
        """Run one block of the variant, and step through it."""
        if self.panes.subject.variant is None:
            self.warn("There is no variant here to run.")
            return
        # What runs PTX is imported when something is run: the first frame need not wait.
        from inspector.tui.step.step_screen import StepScreen

        stages = tuple(pane.stage for pane in self.panes.panes)
        self.app.push_screen(StepScreen(self.reads, self.panes.subject, stages, self.times))

    def action_passes(self) -> None:
        """What each pass of the compiler changed in the variant, or of Inductor's in the graph."""
        subject = self.panes.subject
        if subject.variant is None and (subject.kernel is not None or subject.graph is None):
            self.warn("There is no variant here whose passes could be shown.")
            return
        from inspector.tui.work.passes_screen import PassesScreen

        self.app.push_screen(PassesScreen(subject))

    def timed(self) -> None:
        """Other times are known than before."""
        self.kernels.timed()
        self.card.refresh()

    @work(thread=True, exclusive=True, group="times", exit_on_error=False, description="times")
    def read_times(self) -> None:
        """Have the times read that were taken before."""
        from inspector.measure.time.stored import sessions

        answer = attempt(lambda: tuple(sessions(self.times.path)))
        if not isinstance(answer, Notice):
            self.post_message(self.WereTaken(answer))

    @on(WereTaken)
    def _were_taken(self, message: WereTaken) -> None:
        message.stop()
        if len(message.sessions) >= len(self.times.sessions):
            self.times.know(message.sessions)
            self.timed()

    # Copying

    def action_copy(self) -> None:
        """Copy the chosen lines, else the cursor's."""
        view = self.panes.active.view
        if view.source is None:
            return
        first, last = view.chosen or (view.cursor, view.cursor)
        view.unchoose()
        self._copy(first, last)

    def action_copy_all(self) -> None:
        """Copy the whole listing."""
        view = self.panes.active.view
        if view.source is not None:
            self._copy(1, view.lines)

    def _copy(self, first: int, last: int) -> None:
        view = self.panes.active.view
        assert view.source is not None
        self.app.copy_to_clipboard(plain("\n".join(view.source.texts[first - 1 : last])))
        said = f"Line {first} is" if first == last else f"Lines {first} to {last} are"
        self._say(f"{said} on the clipboard.")

    # The editor

    def action_edit(self) -> None:
        """Open the line in the user's editor, and come back when that ends.

        Your own source is opened where it lies; anything else as a copy. An IR or PTX of a variant
        that was changed there goes through the rest of its compiler.
        """
        view, stage, subject = self.panes.active.view, self.panes.active.stage, self.panes.subject
        if view.source is None or stage is None:
            return
        path = self._recorded(stage)
        if path is not None:
            words = self._editor()
            if words:
                self._edit(words, path, view.cursor)
            return
        text = "\n".join(view.source.texts).encode("utf-8", "surrogateescape")
        edited = self._edit_copy(subject, stage, text, view.cursor)
        if edited is None or subject.of_graph(stage) or subject.variant is None:
            return
        if stage in TRIED:
            from inspector.tui.work.try_screen import TryScreen

            times, again = self.times, self._edit_copy
            self.app.push_screen(TryScreen(self.reads, subject, stage, edited, times, again))
        else:
            self.warn(f"What you changed of {stage.value} goes nowhere: {UNTRIED[stage]}.")

    def _editor(self) -> list[str]:
        """The words of the user's editor; empty, and said, where there is none."""
        named = next((os.environ[name] for name in EDITORS if os.environ.get(name)), "")
        try:
            words = shlex.split(named)
        except ValueError:
            words = []
        words = words or [one for one in USUAL if which(one)][:1]
        if not words:
            self.warn("No editor was found: set EDITOR, as in EDITOR=vim.")
        return words

    def _edit_copy(self, subject: TreeSubject, stage: Stage, text: bytes, n: int) -> bytes | None:
        """Open a copy of a text in the editor; what was saved, None where nothing was changed."""
        words = self._editor()
        if not words:
            return None
        if Path(words[0]).name in GOTO and not {"-w", "--wait"} & set(words):
            words = [*words, "--wait"]  # else it is back at once, and the copy gone
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            path = Path(folder) / file_name(subject, stage, "")
            path.write_bytes(text)
            self._edit(words, path, n)
            try:
                edited = files.read(path)
            except PtxviewError:  # it was moved or deleted there
                return None
        # Editors end a last line that has no end.
        return None if edited.rstrip(b"\n") == text.rstrip(b"\n") else edited

    def _recorded(self, stage: Stage) -> Path | None:
        """The user's own source, where there is a file where it was recorded."""
        variant = self.panes.subject.variant
        file = None if variant is None else variant.stages.get(stage)
        if stage is not Stage.SOURCE or file is None or file.origin_path is None:
            return None
        return whole_path(file.origin_path)

    def _edit(self, words: list[str], path: Path, n: int) -> None:
        try:
            with self.app.suspend():
                status = run_program(editor(words, path, n), os.environ, is_job=False)
        except SuspendNotSupported:
            self.warn(
                "An editor needs a terminal, not a browser: y copies the line, X saves the listing."
                if self.app.is_web
                else "An editor cannot be started in this terminal."
            )
        except PtxviewError as error:
            self.warn(error.message)
        else:
            if status:
                self.warn(f"{label(words[0])} ended with status {status}.")
        self.refresh(layout=True)

    # Files

    def action_screenshot(self) -> None:
        """Save what the terminal shows as a picture."""
        picture = self.app.export_screenshot(title="ptxview").encode()
        try:
            path = save(Path.cwd() / "ptxview.svg", picture)
        except OSError as error:
            self.warn(f"No picture could be saved: {error.strerror or error}.")
        else:
            self._say(f"A picture of the screen is in {label(str(path))}.")

    def action_export(self) -> None:
        """Save the listing with everything that is told of it."""
        stage, variant = self.panes.active.stage, self.panes.subject.variant
        if stage is None or variant is None or self.panes.active.view.source is None:
            self.warn("There is no listing here to save.")
        else:
            self._export(self.panes.subject, variant, stage)

    @work(thread=True, exclusive=True, group="export", exit_on_error=False, description="export")
    def _export(self, subject: TreeSubject, variant: Variant, stage: Stage) -> None:
        def write() -> Path:
            text = text_of(self.reads, subject, variant, stage)
            data = text.encode("utf-8", "surrogateescape")
            return save(Path.cwd() / file_name(subject, stage, ".txt"), data)

        answer = attempt(write)
        if isinstance(answer, Notice):
            self.post_message(self.Saved(answer.message, warning=True))
        else:
            said = f"The listing and what is told of it are in {label(str(answer))}."
            self.post_message(self.Saved(said, warning=False))

    @on(Saved)
    def _saved(self, message: Saved) -> None:
        message.stop()
        self.status.say(message.text, self.panes.active.view, message.warning)

    def action_compiles(self) -> None:
        """What torch.compile and Triton compiled, why, and for how long."""
        from inspector.report.compiles import none_known
        from inspector.tui.work.compiles_screen import CompilesScreen

        if (why := none_known(self.recording)) is not None:
            self.warn(f"{why[:1].upper()}{why[1:]}.")
        else:
            self.app.push_screen(CompilesScreen(self.recording), self._to_line)

    def _to_line(self, place: UserFrame | str | None) -> None:
        """To a line of the program: in the source of a kernel, else in the file as it was; or to a
        kernel, by its id or the hash of its variant."""
        if place is None:
            return
        if isinstance(place, str):
            both = self.recording.variants()
            own = next((pair for pair in both if place in (pair[0].id, pair[1].hash)), None)
            if own is None or not self.kernels.find_variant(TreeSubject(*own).key[:2]):
                self.warn("Nothing that can be read was recorded of it.")
            return
        mine = self.panes.subject
        subjects = (mine, *(TreeSubject(*pair) for pair in self.recording.variants()))
        for subject in subjects:
            source = subject.file(Stage.SOURCE)
            if source is None or source.origin_path != place.file:
                continue
            if (here := self.panes.here()) is not None:
                self.panes.history.leave(here)
            if subject is not mine and self.kernels.find(subject.key):
                self.panes.show(subject)
            self.panes.display = True
            self.panes.to(Stage.SOURCE, place.line)
            return
        from inspector.tui.work.compiles_screen import file_overlay

        text = self.recording.user_files.get(place.file)
        if text is None:
            self.warn(f"{place.file} was not recorded, which line {place.line} stands in.")
            return
        overlay = attempt(lambda: file_overlay(place, text))
        if isinstance(overlay, Notice):
            self.warn(overlay.message)
        else:
            self.app.push_screen(overlay)

    def action_variants(self) -> None:
        """All variants of what is under the cursor: a kernel, those of one name, a graph."""
        # What compares is imported when something is compared: the first frame need not wait.
        from inspector.tui.variants.variants_screen import VariantsScreen

        row = self.kernels.row
        above = row if row is None or row.kind is not TreeKind.VARIANT else self.kernels.above(row)
        if row is None or above is None:
            self.warn("There is no kernel here to show variants of.")
            return
        here = row.subject.variant
        table = VariantsScreen(
            self.reads, self.scope_of(above), self.marked, here, self.times,
            lambda: self.scope_of(above),
        )  # fmt: skip
        self.app.push_screen(table, self._left)

    def scope_of(self, above: TreeRow) -> Scope:
        """What a table of all beneath a row is of, by what the recording holds by now."""
        from inspector.tui.variants.variants_screen import scope_of

        above = self.kernels.again(above) or above
        name = above.text
        if above.kind is TreeKind.KERNEL and above.subject.kernel is not None:
            name = above.subject.name
        return scope_of(self.recording, name, self.kernels.beneath(above))

    def _left(self, left: Left | None) -> None:
        """The marks are what they were made in the table."""
        if left is None:
            return
        self.marked = left.marked
        self.kernels.mark(tuple(one.key[:2] for one in self.marked))
        if left.read is None:
            return
        key = left.read.key[:2]
        there = self.kernels.find_variant(key)
        if not there and self.kernels.query_text:
            self.kernels.filter("")
            there = self.kernels.find_variant(key)
        if there:
            self.panes.display = True
            self.panes.activate(self.panes.active)
        else:
            self.warn("The variant has no row in the tree.")
