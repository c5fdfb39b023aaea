"""The main screen: tree, panes, and the lines above and beneath them.

One module because it is one class: what a key does needs the tree, the panes and the lines at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Horizontal
from textual.content import Content
from textual.dom import DOMNode

from inspector.analysis.representative import representative
from inspector.base.errors import PtxviewError, UsageError
from inspector.base.grouping import by_key
from inspector.base.model import (
    BEFORE,
    EDIT,
    GRAPH_STAGES,
    Kernel,
    Location,
    MadeFrom,
    Stage,
    UserFrame,
    Variant,
)
from inspector.measure.launch_time import LaunchTime
from inspector.measure.time.results import StoredTimes
from inspector.reader.reader import Reader
from inspector.system import files
from inspector.system.process import run_program
from inspector.system.toolchain import find_program
from inspector.tui.code.highlight import labels, target_line
from inspector.tui.keys.command_table import (
    KeyContext,
    bindings,
    command,
    shown,
    shown_key,
    with_key,
)
from inspector.tui.main.bars import EmptyState, TitleBar, VariantCard
from inspector.tui.main.layout_screen import LayoutScreen
from inspector.tui.main.settings import PaneView, View
from inspector.tui.panes.panes import Panes
from inspector.tui.program.live import Live
from inspector.tui.program.output_view import OutputView
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.tree.rows import Order, TreeKind, walk_entries
from inspector.tui.widgets.notice import following, in_thread, label
from inspector.tui.widgets.subject import RecordingTimes, TreeSubject, resolve, same_but_launches
from inspector.tui.widgets.tool_screen import ToolScreen

if TYPE_CHECKING:
    from inspector.analysis.graph_view import NodeOrigin
    from inspector.render.overview import OverviewLine
    from inspector.tui.variants.variants_screen import Scope, ScreenResult
    from inspector.tui.work.compiles_screen import CostView
    from inspector.verify.kept import KeptVerdict, KeptVerdicts


WIDTH_CELLS = 160
MAX_NAME_CHARS = 60
_ENDINGS = {Stage.SOURCE: ".py", Stage.OUTPUT_CODE: ".py"}

TRIED = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
"""Stages that go through the rest of a compiler where they were edited."""

UNTRIED = {
    Stage.SOURCE: "it is a copy, since the file is not where it was recorded",
    Stage.OUTPUT_CODE: "Inductor writes it again",
    Stage.SASS: "nothing assembles it",
}

GOTO_EDITORS = frozenset(("code", "code-insiders", "code-server", "codium", "vscodium", "cursor"))
"""Editors that take the line with the path: VS Code and its derivatives."""


def file_name(subject: TreeSubject, stage: Stage, ending: str) -> str:
    kernel = "" if subject.kernel is None else subject.kernel.name
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", kernel or subject.name).strip("._-")[:MAX_NAME_CHARS]
    ident = "" if subject.variant is None else f"-{subject.variant.id}"
    ident_part = re.sub(r"[^A-Za-z0-9_-]+", "_", ident)[:MAX_NAME_CHARS]
    return f"{name or 'kernel'}{ident_part}{_ENDINGS.get(stage, f'.{stage.value}')}{ending}"


def save(path: Path, data: bytes) -> Path:
    """Write a new file, numbered where the name is taken; follow no link. Raises ``OSError``."""
    numbered = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in count(2))
    for free in chain([path], numbered):
        with contextlib.suppress(FileExistsError), free.open("xb") as file:
            file.write(data)
            break
    return free


def text_of(reads: Reader, subject: TreeSubject, variant: Variant, stage: Stage) -> str:
    from inspector.render import card

    listing = reads.stages.listing(variant, stage)
    annotations = reads.annotations.annotate(variant, stage)
    lines = [
        f"{subject.name}  {variant.id}  {variant.target or ''}  {stage.value}",
        *(f"  {row}" for row in card.lines(reads.facts.card(variant), width=WIDTH_CELLS)),
        *(card.hint(finding).plain for finding in reads.facts.findings(variant)),
        "",
        card.heading(annotations),
        *(row.plain.rstrip() for row in card.rows(listing.lines, annotations, WIDTH_CELLS)),
    ]
    return "\n".join([*lines, ""])


def whole_path(recorded: str) -> Path | None:
    """Return where a recorded path leads, from the root on and without links.

    None if that is no regular file. A recording may name anything: a path that begins at the root
    is an option or a command (``+:!…``, ``-c …``) of no editor.
    """
    try:
        path = Path(recorded).resolve(strict=True)
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def editor(path: Path, n: int, waits: bool = False) -> list[str]:
    """Return the command that opens line ``n``. Raises ``UsageError`` without an editor."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    words = []
    with contextlib.suppress(ValueError):
        words = shlex.split(named)
    words = words or [program for program in ("vi", "nano") if find_program(program)][:1]
    if not words:
        raise UsageError("No editor was found: set EDITOR, as in EDITOR=vim.")
    if Path(words[0]).name not in GOTO_EDITORS:
        return [*words, f"+{n}", str(path)]
    if waits and not {"-w", "--wait"} & {*words}:
        words.append("--wait")  # else it is back at once, and the copy gone
    return [*words, "--goto", f"{path}:{n}"]


# Screens over this one are imported when they are opened: the first frame does not wait for them.

MAP_COLOURS = ("256", "truecolor", "windows")
"""Rich's names of the colour systems in which the map is on from the start."""

TREE = "tree"
"""What a line of the overview leads to where it is about all kernels."""


def frames(location: Location | None) -> Content:
    if location is None:
        return Content("No source location is recorded for this line.")
    parts: list[tuple[str, str]] = []
    for index, frame in enumerate(location.frames()):
        column = f":{frame.column}" if frame.column else ""
        parts += [
            ("inlined at  " if index else "the line is  ", "$quiet"),
            (label(frame.file), "" if index else "bold"),
            (f":{frame.line}{column}\n", "$accent"),
        ]
    return Content.assemble(*parts)


def origins_text(origins: Iterable[NodeOrigin]) -> Content:
    """The lines of the model that a line of a generated kernel is from, each with its modules."""
    from inspector.render.card import origin_rows

    by_place = by_key(((origin.file, origin.line), origin) for origin in origins)
    parts: list[tuple[str, str]] = []
    for (file, line), siblings in by_place.items():
        parts += [("of the model  ", "$quiet"), (f"{label(file)}:{line}\n", "$accent")]
        for name, text in origin_rows(siblings):
            parts += [(f"  {name:<12}", "$quiet"), (f"{label(text)}\n", "bold")]
    return Content.assemble(*parts)


class ReadTimes(Struct, frozen=True):
    """What is kept with a recording: times, those of launches by kernel and variant, verdicts."""

    stored: StoredTimes
    launches: Mapping[tuple[str, str], LaunchTime]
    verdicts: Mapping[str, KeptVerdict]
    verdicts_of_graphs: KeptVerdicts


class MainScreen(LayoutScreen):
    """Passes what was chosen in the tree to the panes, and what happens there to the lines."""

    BINDINGS = bindings(KeyContext.SCREEN)
    AUTO_FOCUS = ""
    contexts: ClassVar = (KeyContext.SCREEN, KeyContext.PANE, KeyContext.TREE)

    def __init__(
        self, reads: Reader, live: Live | None = None, begins_with_overview: bool = False
    ) -> None:
        times = RecordingTimes(reads.recording.path)
        super().__init__(reads, times)
        self.cost_view: CostView | None = None
        self.marked: tuple[TreeSubject, ...] = ()
        self.live = live
        self.begins_with_overview = begins_with_overview
        self.card = VariantCard(reads, times)
        self.title_bar = TitleBar(reads.recording)
        self.output = OutputView(live) if live is not None and live.send is not None else None
        self.footer.watched = self.output is not None
        self.footer.context = KeyContext.TREE
        self.footer.bare = self.empty

    def compose(self) -> ComposeResult:
        self.set_class(self.output is not None, "-watched")
        self.set_class(self.empty, "-empty")
        yield from (self.title_bar, self.card)
        yield Horizontal(self.kernels, self.panes, id="body")
        yield from (self.reading, self.status, self.prompt)
        if self.empty:
            yield EmptyState(self.reads.recording, self.live if self.output is not None else None)
        if self.output is not None:
            yield self.output
        yield self.footer

    def on_mount(self) -> None:
        self.begin()
        if self.live is None:
            self.show_overview_once()

    def show_overview_once(self) -> None:
        """Begin with the overview, unless something is shown already."""
        output = self.output
        looking = output is not None and output.has_focus and not output.follows
        if self.begins_with_overview and not self.empty and not looking:
            self.begins_with_overview = False
            self.action_overview()

    def _colours_allow_map(self) -> bool:
        """Whether the terminal has the colours that tell source lines apart."""
        app = self.app
        return app.console.color_system in MAP_COLOURS and not app.no_color

    def begin(self, focus: bool = True) -> None:
        app: Any = self.app
        if self.panes.map_chosen is None:
            self.panes.mapped = self._colours_allow_map()
        saved_view = app.memory.view(self.reads.recording.path) if app.memory is not None else None
        if saved_view is not None and not self.empty:
            self.restore(saved_view)
        if focus:
            self.focus_first()
        self.fit()
        self.call_after_refresh(self.read_times)

    async def fill(self, reads: Reader) -> None:
        output = self.output
        self.empty = self.footer.bare = False
        stays = output is not None and output.has_focus and not output.follows
        async with self.batch():
            await self.query_one(EmptyState).remove()
            self.remove_class("-empty")
        self.renew(reads)
        self.begin(focus=not stays)

    def renew(self, reads: Reader) -> None:
        self.reads = reads
        recording = reads.recording
        old_subject = self.panes.subject
        self.title_bar.renew(recording)
        if self.empty:
            self.query_one(EmptyState).tell(recording, self.live if self.output else None)
            return
        # It may have been packed into a file when it was complete.
        self.times.path = Path(recording.path)
        self.panes.renew(reads)
        now = self.panes.subject
        self.card.reads = reads
        if now != old_subject or not same_but_launches(old_subject.variant, now.variant):
            self.card.show(now)
        self.kernels.renew(reads)
        self.mark(tuple(resolve(recording, subject) for subject in self.marked))
        self.read_times()

    @property
    def remembered(self) -> View | None:
        if self.empty:
            return None
        panes = self.panes
        return View(
            subject=panes.subject.key,
            panes=tuple(PaneView(str(p.preferred or ""), **p.view.looks) for p in panes.panes),
            panes_chosen=panes.count_chosen,
            beside=panes.beside,
            tree=self.tree_wanted,
            tree_width=self.tree_width,
            map_chosen=panes.map_chosen,
            layout="" if panes.arrangement is None else panes.arrangement.name,
            shares=tuple(panes.shares),
        )

    def restore(self, view: View) -> None:
        self.tree_wanted = view.tree
        self.tree_width = view.tree_width
        self.panes.beside = view.beside
        self.panes.map_chosen = view.map_chosen
        if view.map_chosen is not None:
            self.panes.mapped = view.map_chosen
        count = len(view.panes) if view.panes_chosen else None
        self.panes.arrange_as(view.layout, count, view.shares)
        for pane, pane_view in zip(self.panes.all_panes, view.panes, strict=False):
            pane.preferred = next((s for s in Stage if s.value == pane_view.stage), None)
            pane.view.look(
                pane_view.level,
                pane_view.gutter,
                pane_view.verbatim,
                pane_view.wrapped,
                pane_view.addresses,
            )
        self.kernels.find(view.subject)

    def focus_first(self) -> None:
        if not self.empty:
            self.focus_tree()
        elif self.output is not None:
            self.output.focus()
        else:
            self.query_one(EmptyState).focus()

    @property
    def about(self) -> str:
        """Which variant is taken of several, while one chooses among them."""
        subject = self.panes.subject
        choosing = self.focused is self.kernels
        return (
            label(subject.description) if choosing and subject.description != subject.key[1] else ""
        )

    def on_descendant_focus(self) -> None:
        self.changed()
        self.footer.tell(
            context=KeyContext.TREE if self.focused is self.kernels else KeyContext.PANE
        )
        self.fit()

    def home_of(self, context: KeyContext) -> DOMNode:
        moves_in_tree = context is KeyContext.MOVE and self.focused is self.kernels
        if context is KeyContext.TREE or moves_in_tree:
            return self.kernels
        return super().home_of(context)

    def legend(self) -> list[tuple[str, str]]:
        from inspector.tui.find.legend import tree_row_legend

        return tree_row_legend(self.kernels) if self.focused is self.kernels else super().legend()

    def unbound(self, key: str) -> None:
        """Do what a key does in the pane, where the tree has the focus; else say what it is of."""
        app: Any = self.app
        if self.empty:
            return
        elsewhere = KeyContext.PANE if self.focused is self.kernels else KeyContext.TREE
        bound_command = with_key(key, (elsewhere,), app.keys)
        if bound_command is None:
            super().unbound(key)
        elif elsewhere is KeyContext.PANE:
            self.focus_pane()
            self.call_later(self.action_run, bound_command.id)
        else:
            toggle = shown(command("tree.toggle"), app.keys)
            sign = shown_key(key)
            action = bound_command.title.lower()
            self.warn(f"{sign} works in the list of kernels ({action}): {toggle} goes there.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self.empty:
            return action in ("tell_app", "run")
        return super().check_action(action, parameters)

    async def action_run(self, name: str) -> None:
        if not self.empty or command(name).context is KeyContext.SCREEN:
            await super().action_run(name)

    @on(KernelTree.Selected)
    def _selected(self, message: KernelTree.Selected) -> None:
        self.panes.show(message.subject)
        self.card.show(message.subject)

    def action_read(self) -> None:
        row = self.kernels.row
        if row is not None and row.kind is TreeKind.ORIGIN:
            self.kernels.action_flip()  # there is nothing to read
        elif row is not None:
            self.focus_pane()

    @on(KernelTree.Ordered)
    def _ordered(self) -> None:
        order = self.kernels.order
        (read, total) = self.kernels.read_so_far
        compiled = order is Order.COMPILED
        word = order.value
        words = {"tree.order": "order" if compiled else f"by {word}"}
        self.footer.tell(words=self.footer.words | words)
        sentence = "In the order of compilation" if compiled else f"Sorted by {word}"
        unread = order in (Order.REGISTERS, Order.SPILLS) and read < total
        self.say(f"{sentence} ({read} of {total} read)." if unread else f"{sentence}.")

    def action_filter(self) -> None:
        self.tree_wanted = self.kernels.display = True
        row = self.kernels.row
        top = self.kernels.scroll_offset.y

        def filtered(text: str | None) -> None:
            if text is None:
                self.kernels.filter("")
                if row is not None and self.kernels.go_to(row.key):
                    self.kernels.scroll_to(y=top, animate=False, force=True)
            self.focus_tree()

        self.ask("filter", self.kernels.query_text, filtered, self.kernels.filter)

    def action_local_memory(self) -> None:
        """Keep the kernels whose threads have a stack, of those that were launched if any was."""
        variants = self.reads.recording.variants()
        launched = any(variant.launches for _, variant in variants)
        self.tree_wanted = self.kernels.display = True
        self.kernels.filter("stack>0 launched" if launched else "stack>0")
        self.focus_tree()

    def action_clear_filter(self) -> None:
        """Forget the filter; without one, close the drawer, else go back to the overview."""
        if self.kernels.query_text:
            self.kernels.filter("")
        elif self.in_drawer:
            self.focus_pane()
        else:
            self.action_overview()

    @on(KernelTree.Filtered)
    def _show_modes(self) -> None:
        modes = [("map", "map")] if self.panes.mapped and not self._colours_allow_map() else []
        if text := self.kernels.query_text:
            modes.append((f"filter {label(text)}", "tree.clear"))
        self.title_bar.tell(modes=tuple(modes))

    def action_step(self, step: int) -> None:
        self.kernels.step(step)

    def action_stage(self, stage: str) -> None:
        panes = self.panes
        place = self.panes.current_place()
        target = Stage(stage)
        moved = not self.view.untouched or place.path
        if place.stage is not target:
            panes.choose(target)
            panes.carry(panes.active, place if moved else None)
        elif target is Stage.SOURCE:
            panes.next_file()

    @on(Panes.Changed)
    def _follow_into_file(self) -> None:
        """Turn to the file of the source that the cursor's line is from, if another is shown."""
        panes = self.panes
        for pane in panes.panes:
            files = () if pane.request is None else pane.request.files
            if pane is not panes.active and len(files) > 1 and not panes.linked_lines(pane):
                panes.carry(pane, panes.current_place())

    def action_graph_stage(self) -> None:
        subject = self.panes.subject
        current = self.panes.active.stage
        available = [stage for stage in GRAPH_STAGES if subject.has(stage)]
        # The operations are shown first, and come last in the order of lowering.
        order = [*available[-1:], *available[:-1]] or [Stage.OPERATIONS]
        self.panes.choose(following(order, current))

    def action_next_stage(self, step: int) -> None:
        if stages := self.panes.subject.stages():
            self.panes.choose(following(stages, self.panes.active.stage, step))

    def action_map(self) -> None:
        self.panes.map(not self.panes.mapped)
        self._show_modes()
        self.say(
            "Each line has the colour of its source line, and panes scroll together."
            if self.panes.mapped
            else "Source lines have no colours. m gives them colours again."
        )

    def action_follow(self) -> None:
        line = self.line
        view = self.view
        graph = self.panes.subject.graph
        stage = self.panes.active.stage
        if graph is not None and stage in GRAPH_STAGES and view.lines:
            work = partial(self.reads.graphs.kernel_at, graph, stage, view.cursor)
            in_thread(self, work, self._to_kernel, "kernel", failed=self.fail)
        elif line is not None and line.targets and view.source is not None:
            listing = view.source.listing
            n = line.n
            target = line.targets[0]

            def go(to: int | None) -> None:
                if view.source is not None and view.source.listing is listing:
                    missing = f"{label(target)} is not in this listing."
                    view.jump_among(() if to is None else (to,), 1, missing)

            in_thread(self, lambda: target_line(listing, n, target), go, "target")
        elif len(self.panes.panes) > 1:
            self.panes.activate(following(self.panes.panes, self.panes.active))

    def _to_kernel(self, kernel: str | None) -> None:
        if kernel is None:
            self.warn("No kernel of the recording is launched for this line.")
        else:
            self.panes.history.leave(self.panes.current_place())
            self._to_line(kernel)

    def to_fusion_source(self, kernel: Kernel, source_line: MadeFrom) -> None:
        """Go to a line of the program that a kernel was made from."""
        self.panes.history.leave(self.panes.current_place())
        variant = representative(kernel.variants)
        if self.kernels.find((kernel.id, variant.id)) and self.kernels.row is not None:
            self.panes.show(self.kernels.row.subject)
            self.panes.display = True
            self.panes.to(Stage.SOURCE, source_line.line, source_line.file)

    def action_label(self, step: int) -> None:
        view = self.view
        source = self.view.source

        def go(lines: tuple[int, ...]) -> None:
            if source is view.source:
                view.jump_among(lines, step, "This listing has no labels.")

        if source is not None:
            in_thread(self, lambda: labels(source.listing), go, "target")

    def action_history(self, step: int) -> None:
        place = self.panes.history.go(self.panes.current_place(), step)
        if place is None:
            self.warn("There is nothing to go back to." if step < 0 else "This is the last place.")
            return
        if place.subject != self.panes.subject:
            in_tree = self.kernels.find(place.subject.key)
            row = self.kernels.row
            subject = (
                row.subject if in_tree and row else resolve(self.reads.recording, place.subject)
            )
            self.panes.show(subject)
        self.panes.to(place.stage, place.n, place.path)

    def action_frames(self) -> None:
        from inspector.tui.widgets.tool_screen import Overlay

        line = self.line
        if line is None:
            return
        subject = self.panes.subject
        request = self.panes.active.request

        def show(origins: tuple[NodeOrigin, ...]) -> None:
            text = Content.assemble(frames(line.source), origins_text(origins))
            self.app.push_screen(Overlay(f"Line {line.n} comes from", text))

        def find() -> tuple[NodeOrigin, ...]:
            if request is None or subject.kernel is None:
                return ()
            navigation = self.reads.navigation
            path = request.path
            lines: tuple[int, ...] = (line.n,)
            if request.stage is not Stage.SOURCE:
                path, lines = navigation.lines_at(
                    subject.variant, subject.graph, request.stage, line.n, Stage.SOURCE
                )
            origins = self.reads.graphs.origins(subject.kernel)
            return tuple(o for o in origins if o.file == path and o.line in lines)

        in_thread(self, find, show, "origins", failed=lambda _: show(()))

    def action_escape(self) -> None:
        """Forget the filter of the tree, or the lines and the search of the panes."""
        if self.focused is self.kernels:
            self.action_clear_filter()
        else:
            self.action_clear()

    def action_clear(self) -> None:
        if not self.view.clear_selection():
            self.find(None)

    def mark(self, marked: tuple[TreeSubject, ...]) -> None:
        self.marked = marked
        self.kernels.mark(tuple(subject.key[:2] for subject in marked))

    def action_mark(self) -> None:
        subject = self.panes.subject
        if subject.variant is None:
            self.warn("There is no variant here to mark.")
            return
        self.mark(TreeSubject(subject.kernel, subject.variant).marked_in(self.marked))
        both = zip("AB", self.marked, strict=False)
        names = [
            f"{letter} {label(marked_subject.name)} {marked_subject.key[1]}"
            for letter, marked_subject in both
        ]
        hint = "D compares them" if len(names) > 1 else "d marks another, then D compares them"
        self.say(f"Marked: {', '.join(names)}. {hint}." if names else "Nothing is marked.")

    def action_compare(self) -> None:
        if len(self.marked) < 2:
            self.action_variants()  # where two can be marked
        else:
            self._compare(*self.marked)

    def action_edited(self) -> None:
        kernel = self.panes.subject.kernel
        variant = self.panes.subject.variant

        def settings(candidate: Variant) -> dict[str, object]:
            return {name: value for name, value in candidate.config.items() if name != EDIT}

        kernel_variants = () if kernel is None else kernel.variants
        same_settings = [
            candidate
            for candidate in kernel_variants
            if variant and settings(candidate) == settings(variant)
        ]
        same_settings.sort(key=lambda candidate: candidate.config.get(EDIT) != BEFORE)
        if len(same_settings) > 1 and same_settings[0].config.get(EDIT) == BEFORE:
            self._compare(*(TreeSubject(kernel, candidate) for candidate in same_settings[:2]))
        else:
            self.warn("This variant has not changed since it was last compiled.")

    def _compare(self, a: TreeSubject, b: TreeSubject) -> None:
        from inspector.tui.diff.diff_screen import DiffScreen

        self.app.push_screen(DiffScreen(self.reads, a, b))

    def action_variants(self) -> None:
        from inspector.tui.variants.variants_screen import VariantsScreen, scope_of

        row = self.kernels.row
        if row is None:
            self.warn("There is no kernel here to show variants of.")
            return
        key = row.key[:-1] if row.kind is TreeKind.VARIANT else row.key

        def scope() -> Scope:
            entry = self.kernels.entry(key)
            parent_row = row if entry is None else entry.row
            name = (
                parent_row.subject.name if parent_row.kind is TreeKind.KERNEL else parent_row.text
            )
            below = [
                descendant.row.subject
                for descendant in walk_entries((entry,) if entry else ())
                if descendant.row.leaf
            ]
            return scope_of(name, below)

        table = VariantsScreen(self.reads, self.marked, row.subject.variant, self.times, scope)
        self.app.push_screen(table, self._variants_closed)

    def _variants_closed(self, result: ScreenResult | None) -> None:
        marked, read = result or (self.marked, None)
        self.mark(marked)
        if read is not None:
            key = read.key[:2]
            if not self.kernels.find(key):
                self.kernels.filter("")
                self.kernels.find(key)
            self.focus_pane()

    def action_time(self) -> None:
        from inspector.tui.work.work_screen import TimingScreen

        if self.panes.subject.variant is None:
            self.warn("There is no variant here to time.")
        else:
            screen = TimingScreen(self.reads, self.panes.subject, self.times)
            self.app.push_screen(screen, lambda _: self.read_times())

    def timed(self) -> None:
        self.kernels.timed()
        self.card.refresh()
        for screen in self.app.screen_stack:
            if isinstance(screen, ToolScreen):
                screen.show_times()

    def read_times(self) -> None:
        reads = self.reads

        def read() -> ReadTimes:
            from inspector.estimate.launches import launch_evidence
            from inspector.verify.kept import kept_verdicts, verdicts_of_variants

            recording = reads.recording
            evidence = launch_evidence(reads)
            verdicts = kept_verdicts(Path(recording.resolved_path or recording.path), recording)
            launch_times = evidence.launch_times(recording)
            by_variant = verdicts_of_variants(verdicts, recording)
            return ReadTimes(evidence.times, launch_times, by_variant, verdicts)

        def show(answer: ReadTimes) -> None:
            stored = answer.stored
            self.times.launches = answer.launches
            if self.times.are_read and answer.verdicts_of_graphs != self.times.verdicts_of_graphs:
                for pane in self.panes.panes:
                    pane.show_verdicts()
            self.times.verdicts = answer.verdicts
            self.times.verdicts_of_graphs = answer.verdicts_of_graphs
            self.times.are_read = True
            if len(stored.sessions) >= len(self.times.stored.sessions):
                self.times.stored = stored
            self.timed()

        in_thread(self, read, show, "times")

    def action_step_block(self) -> None:
        from inspector.tui.step.step_screen import StepScreen

        if self.panes.subject.variant is None:
            self.warn("There is no variant here to run.")
        else:
            stages = tuple(pane.stage for pane in self.panes.panes)
            self.app.push_screen(StepScreen(self.reads, self.panes.subject, stages, self.times))

    def action_passes(self) -> None:
        from inspector.tui.work.passes_screen import PassesScreen

        subject = self.panes.subject
        if subject.variant is None and (subject.kernel is not None or subject.graph is None):
            self.warn("There is no variant here whose passes could be shown.")
        else:
            self.app.push_screen(PassesScreen(subject))

    def action_verify(self) -> None:
        from inspector.tui.work.verify_screen import VerifyScreen

        subject = self.panes.subject
        graphs = self.reads.recording.graphs
        if subject.graph is not None:
            graphs = (subject.graph,)
        elif subject.kernel is not None:
            name = subject.kernel.id
            graphs = tuple(graph for graph in graphs if name in graph.kernels)
        if not graphs:
            self.warn("Only kernels that torch.compile generated have operators to compare with.")
        else:
            screen = VerifyScreen(self.reads, subject, graphs)
            self.app.push_screen(screen, lambda _: self.read_times())

    def action_cost(self) -> None:
        """Show what kernels cost."""
        from inspector.tui.work.compiles_screen import CostScreen, CostView

        self.cost_view = self.cost_view or CostView()

        def back(place: UserFrame | str | None) -> None:
            self.read_times()  # estimates may have been made there
            self._to_line(place)

        self.app.push_screen(CostScreen(self.reads, self.cost_view), back)

    def action_overview(self) -> None:
        from inspector.tui.work.overview_screen import OverviewScreen

        if self.empty:
            self.warn("There is nothing here yet to give an overview of.")
        else:
            self.app.push_screen(OverviewScreen(self.reads), self._overview_closed)

    async def _overview_closed(self, chosen: OverviewLine | str | None) -> None:
        """Do what a line of the overview, or a key there, leads to."""
        self.read_times()
        name = ""
        if isinstance(chosen, str):
            name = chosen
        elif chosen is not None:
            name = chosen.command
        if name and name != TREE:
            await self.action_run(name)
        elif chosen is not None and not isinstance(chosen, str) and chosen.kernel is not None:
            self._to_line(chosen.kernel)
            row = self.kernels.row
            if row is not None and chosen.stage is not None and chosen.line is not None:
                self.panes.show(row.subject)
                self.panes.display = True
                self.panes.to(chosen.stage, chosen.line)

    def action_compiles(self) -> None:
        from inspector.render.compiles import why_empty
        from inspector.tui.work.compiles_screen import CompilesScreen

        if (why := why_empty(self.reads.recording)) is not None:
            self.warn(f"{why[:1].upper()}{why[1:]}.")
        else:
            self.app.push_screen(CompilesScreen(self.reads.recording), self._to_line)

    def action_upgrade(self) -> None:
        """Show what changed since the recording that this one was made from."""
        from inspector.tui.work.upgrade_screen import UpgradeScreen, kept_report

        recording = self.reads.recording
        kept = kept_report(recording)
        if kept is None:
            self.warn("No report of ptxview upgrade is kept with this recording.")
        else:
            self.app.push_screen(UpgradeScreen(recording, kept), self._to_line)

    def _to_line(self, place: UserFrame | str | None) -> None:
        recording = self.reads.recording
        if isinstance(place, str):
            keys = (
                (k.id, v.id)
                for k, v in recording.variants()
                if place in (k.id, v.hash, f"{k.id} {v.id}")
            )
            if not self.kernels.find(next(keys, ("",))):
                self.warn("Nothing that can be read was recorded of it.")
            elif self.in_drawer or self.kernels.has_class("-drawer"):
                self.focus_pane()  # the drawer would cover the pane
        elif place is not None:
            current = self.panes.subject
            for subject in (current, *(TreeSubject(*pair) for pair in recording.variants())):
                source = subject.file(Stage.SOURCE)
                if source is not None and source.origin_path == place.file:
                    self.panes.history.leave(self.panes.current_place())
                    if subject is not current and self.kernels.find(subject.key):
                        self.panes.show(subject)
                    self.panes.display = True
                    self.panes.to(Stage.SOURCE, place.line)
                    return
            self._show_file(place)

    def _show_file(self, place: UserFrame) -> None:
        from inspector.tui.work.compiles_screen import file_overlay

        text = self.reads.recording.user_files.get(place.file)
        push = self.app.push_screen
        if text is None:
            self.warn(f"{place.file} was not recorded, which line {place.line} is in.")
        else:
            in_thread(self, lambda: file_overlay(place, text), push, "file", failed=self.fail)

    def action_copy_all(self) -> None:
        self.copy_lines(1, self.view.lines)

    def action_edit(self) -> None:
        """Open the user's own source where it is, anything else as a copy; IR and PTX are tried."""
        view = self.view
        stage = self.panes.active.stage
        request = self.panes.active.request
        if view.source is None or stage is None or request is None:
            return
        subject = request.subject
        file = None if subject.variant is None else subject.variant.stages.get(stage)
        origin = file.origin_path if stage is Stage.SOURCE and file is not None else None
        if origin is not None and (path := whole_path(origin)) is not None:
            self._edit(path, view.cursor)
            return
        text = "\n".join(view.source.texts).encode("utf-8", "surrogateescape")
        edited = self.edit_copy(subject, stage, text, view.cursor)
        if edited is None or subject.of_graph(stage) or subject.variant is None:
            return
        if stage in TRIED:
            from inspector.tui.work.work_screen import TryScreen

            self.app.push_screen(TryScreen(self.reads, subject, stage, edited, self.edit_copy))
        else:
            self.warn(f"What you changed of {stage.value} goes nowhere: {UNTRIED[stage]}.")

    def edit_copy(self, subject: TreeSubject, stage: Stage, text: bytes, n: int) -> bytes | None:
        with tempfile.TemporaryDirectory(prefix="ptxview-") as folder:
            path = Path(folder) / file_name(subject, stage, "")
            path.write_bytes(text)
            self._edit(path, n, waits=True)
            try:
                edited = files.read(path)
            except PtxviewError:  # it was moved or deleted there
                return None
        # Editors end a last line that has no end.
        return None if edited.rstrip(b"\n") == text.rstrip(b"\n") else edited

    def _edit(self, path: Path, n: int, waits: bool = False) -> None:
        try:
            words = editor(path, n, waits)
            with self.app.suspend():
                status = run_program(words, os.environ, is_job=False)
        except SuspendNotSupported:
            self.warn(
                "An editor needs a terminal, not a browser: y copies the line, ^p saves all lines."
                if self.app.is_web
                else "An editor cannot be started in this terminal."
            )
        except PtxviewError as error:
            self.warn(error.message)
        else:
            if status:
                self.warn(f"{label(words[0])} ended with status {status}.")
        self.refresh(layout=True)

    def action_screenshot(self) -> None:
        picture = self.app.export_screenshot(title="ptxview")
        self._save("ptxview.svg", lambda: picture, "A picture of the screen")

    def action_export(self) -> None:
        stage = self.panes.active.stage
        request = self.panes.active.request
        subject = TreeSubject() if request is None else request.subject
        variant = subject.variant
        if stage is None or variant is None or self.view.source is None:
            self.warn("There is no listing here to save.")
            return

        text = partial(text_of, self.reads, subject, variant, stage)
        self._save(file_name(subject, stage, ".txt"), text, "The annotated listing")

    def _save(self, name: str, text: Callable[[], str], title: str) -> None:
        def write() -> Path:
            try:
                return save(Path.cwd() / name, text().encode("utf-8", "surrogateescape"))
            except OSError as error:
                why = error.strerror or error
                raise PtxviewError(f"{title} could not be saved: {why}.") from None

        def saved(path: Path) -> None:
            self.say(f"{title} is in {label(str(path))}.")

        in_thread(self, write, saved, "export", failed=self.fail)
