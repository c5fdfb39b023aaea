"""Runs one block of a kernel on the CPU and shows its steps beside the listings.

The block is run in a thread that Esc ends; every step is kept, so that going to one is reading. A
second thread then counts what happened at each line, in all blocks where that is cheap.
"""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from inspector.model import Stage, Variant
from inspector.reader.reader import Reader
from inspector.report.trace import percent
from inspector.trace.stepper import StepAnswer, Stepper
from inspector.trace.tracing import Triple, parse_place
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.gutter import WARPS, ColumnList
from inspector.tui.keys.command_table import (
    BESIDE,
    Where,
    bindings,
    bindings_of,
    command,
    of_screen,
)
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.pane_search import Search
from inspector.tui.panes.panes import Panes
from inspector.tui.panes.reading_line import ReadingLine
from inspector.tui.panes.status_line import StatusLine
from inspector.tui.panes.understanding import Understanding
from inspector.tui.step.lanes import LaneGrid
from inspector.tui.step.registers import RegisterPanel, register_rows
from inspector.tui.step.running import BlockRunner
from inspector.tui.step.step_bars import StepBar, StepLine, coordinates
from inspector.tui.step.step_figures import CHOICES, Links, SteppedKernel, stages_with_ptx
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.prompt import Prompt
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import cut, label, plain

PANEL = 110
"""Columns from which registers stand beside the panes."""
BESIDE_EACH_OTHER = 120
"""Columns of the panes from which two stand beside each other: values take some of them."""
GLANCE = 0.2
"""Seconds between two looks at how far a run is."""


class StepScreen(Screen[None]):
    """One block of a variant's recorded call, step by step."""

    BINDINGS = [*bindings(Where.STEP), *bindings_of(of_screen(BESIDE))]  # noqa: RUF012
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high")]  # noqa: RUF012
    wheres: ClassVar = (Where.STEP,)

    class Tied(Message):
        """A thread knows which lines of the PTX the lines of a stage are tied to."""

        def __init__(self, stage: Stage, links: Links, texts: tuple[str, ...]) -> None:
            super().__init__()
            self.stage = stage
            self.links = links
            self.texts = texts

    class Went(Message):
        """A thread has found where to go."""

        def __init__(self, answer: StepAnswer | Notice) -> None:
            super().__init__()
            self.answer = answer

    def __init__(
        self, reads: Reader, subject: TreeSubject, stages: tuple[Stage | None, ...],
        times: RecordingTimes,
    ) -> None:  # fmt: skip
        """``stages`` are those that stood in the panes, PTX takes the place of the last if it is
        not among them. The subject has a variant."""
        super().__init__()
        self.reads, self.subject = reads, subject
        assert subject.kernel is not None and subject.variant is not None
        self.runner = BlockRunner(reads, subject.kernel, subject.variant)
        self.block: Triple = (0, 0, 0)
        self.kernel: SteppedKernel | None = None
        self.looking = False
        self._hot: tuple[Stage | None, int] = None, -1
        self._panel_wanted = True
        self._cut = False
        self.troubled = False
        self._news: tuple[str, bool] | None = None
        self._typed: dict[str, str] = {}
        self._turned = False
        self.bar = StepBar(subject)
        self.panes = Panes(reads, len(stages_with_ptx(stages, subject)))
        for pane, stage in zip(self.panes.panes, stages_with_ptx(stages, subject), strict=False):
            pane.preferred = stage
        for pane in self.panes.panes:
            pane.view.choices = CHOICES
            pane.view.look(pane.view.folding.words, CHOICES[0], wrapped=False)
        self.panel = RegisterPanel()
        self.trouble = Static(markup=False)
        self.line = StepLine()
        self.reading = ReadingLine()
        self.understanding = Understanding(reads, times)
        self.status = StatusLine()
        self.prompt = Prompt()
        self.search = Search(self.panes, self._warn, self._changed)
        self.footer = KeyFooter()
        self.footer.where = Where.STEP

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        with Horizontal(id="body"):
            yield self.panes
            yield self.panel
        with VerticalScroll(id="trouble", can_focus=False):
            yield self.trouble
        yield self.line
        yield self.understanding
        yield self.runner
        yield self.reading
        yield self.status
        yield self.prompt
        yield self.footer

    @property
    def stepper(self) -> Stepper | None:
        """The block's steps; None until it was run."""
        return None if self.kernel is None else self.kernel.stepper

    @property
    def settled(self) -> bool:
        """Whether nothing is under way."""
        return not self.runner.running and not self.looking

    # Coming and going

    def on_mount(self) -> None:
        """Show the listings, and run the block."""
        self.query_one("#trouble").display = False
        self.panel.display = False
        self.panes.show(self.subject)
        ptx = next((p for p in self.panes.panes if p.stage is Stage.PTX), self.panes.panes[-1])
        self.fit()
        self.panes.activate(ptx)
        self.set_interval(GLANCE, self._glance)
        self._run(self.block)

    def on_resize(self) -> None:
        """The panel gives way when it gets narrow, and panes stand as values leave room."""
        self.fit()

    def fit(self) -> None:
        """Panel and panes as the width and the wish allow."""
        wide = self.size.width >= PANEL
        self.panel.display = wide and self._panel_wanted and self.kernel is not None
        if not self._turned:
            panel = self.panel.display or (self.kernel is None and wide and self._panel_wanted)
            room = self.size.width - (self.panel.size.width or 38 if panel else 0)
            self.panes.beside = room >= BESIDE_EACH_OTHER
            self.panes.zoomed = self.size.width < PANEL
        self.panes.fit()

    # Running

    def _run(self, block: Triple) -> None:
        self.runner.run_block(block)
        self._glance()

    def _glance(self) -> None:
        """How far it is."""
        runner = self.runner
        if runner.running:
            far = f" · {runner.steps:,} steps" if runner.steps else ""
            end = "stopping …" if runner.stopping else "Esc stops it"
            self._say(f"◔ Running block {coordinates(runner.block)}{far} · {end}")

    @on(BlockRunner.Ran)
    def _was_run(self, message: BlockRunner.Ran) -> None:
        message.stop()
        run, before = message.answer, self.kernel
        if isinstance(run, Notice):
            if before is None:
                self._in_trouble(run)
            else:
                self._warn(label(run.message))
            return
        stepper, facts, ended = run.stepper, run.traced.facts, run.traced.ended
        if not run.traced.trace.steps and before is None:
            self._in_trouble(Notice("∅", ended or "The block ended before its first step."))
            return
        assert facts is not None
        self.block, self._cut = run.traced.block, ended is not None and run.traced.fault is None
        self.kernel = SteppedKernel(stepper, facts, run.chosen.launch.blocks)
        if before is not None:
            self.kernel.links, self.kernel.texts = before.links, before.texts
            stepper.lane = before.stepper.lane
        self.fit()
        self._find_ties()
        self._fill()
        self._came(None)
        said = "Inputs are new ones of the recorded kind. n steps, u runs to the cursor."
        if remarks := stepper.inputs.remarks:
            said = f"Inputs are new ones of the recorded kind; {label('; '.join(remarks))}."
        if run.unnamed:
            said = f"Values have no names from the source: {label(run.unnamed)}"
        self._news = said if ended is None else label(ended), ended is not None
        self._tell_news()
        if before is not None and before.launched is not None:
            self.kernel.count(before.launched)
            self._fill()
        elif ended is None:
            self.runner.count(run.chosen)
        else:
            self.kernel.uncounted = ended

    def _in_trouble(self, notice: Notice) -> None:
        """Say why there is nothing to step through, instead of the code."""
        text = [(f"{notice.sign} {label(notice.message)}\n", "bold")]
        text += [(f"\n{label(row)}", "$quiet") for row in notice.hint.splitlines()]
        self.troubled = True
        self.trouble.update(Content.assemble(*text))
        self.query_one("#body").display = False
        self.query_one("#trouble").display = True
        self.line.display = self.reading.display = False
        self.set_focus(None)
        self._say("Esc goes back to the kernels.")

    @on(BlockRunner.Counted)
    def _was_counted(self, message: BlockRunner.Counted) -> None:
        message.stop()
        kernel = self.kernel
        if kernel is None:
            return
        if isinstance(message.answer, Notice):
            kernel.uncounted = message.answer.message
        else:
            kernel.count(message.answer)
            self._fill()
            self._tell()

    # What the panes show

    @on(Pane.Shown)
    def _shown(self, message: Pane.Shown) -> None:
        self._find_ties()
        self._fill()
        self._stand()
        self._tell_news()

    def _tell_news(self) -> None:
        """How the block was run, until one has moved: a listing may come later than that."""
        if self._news is not None:
            text, warning = self._news
            self.status.say(text, self.panes.active.view, warning)

    def _find_ties(self) -> None:
        """Have the links of what the panes show looked up."""
        variant, kernel = self.subject.variant, self.kernel
        if variant is None or kernel is None:
            return
        for stage in {pane.stage for pane in self.panes.panes}:
            if stage not in (None, Stage.PTX, *kernel.links):
                self._tie(variant, stage)

    @work(thread=True, exit_on_error=False, description="ties")
    def _tie(self, variant: Variant, stage: Stage) -> None:
        def find() -> tuple[Links, tuple[str, ...]]:
            lines = self.reads.listing(variant, stage).lines
            return self.reads.links(variant, stage, Stage.PTX), tuple(line.text for line in lines)

        answer = attempt(find)
        # Without them the pane still reads well.
        self.post_message(self.Tied(stage, *(({}, ()) if isinstance(answer, Notice) else answer)))

    @on(Tied)
    def _was_tied(self, message: Tied) -> None:
        message.stop()
        if self.kernel is not None:
            self.kernel.link(message.stage, message.links, message.texts)
            self._fill()
            self._stand()

    def _fill(self) -> None:
        """The columns of every pane, of what is known by now."""
        for pane in self.panes.panes:
            figures = None
            if self.kernel is not None and pane.stage is not None and pane.settled:
                figures = self.kernel.figures(pane.stage)
            pane.view.ran(figures)

    def _stand(self) -> None:
        """Mark the line of the step in every pane."""
        if self.kernel is None:
            return
        for pane in self.panes.panes:
            if pane.stage is None or not pane.settled:
                continue
            figures = self.kernel.figures(pane.stage)
            pane.view.stand(() if figures is None else figures.current())
        self.panes.follow(move=False)

    def _came(self, answer: StepAnswer | None) -> None:
        """The step or the lane is another one."""
        self._stand()
        self._tell()
        stepper = self.stepper
        if stepper is not None and self.panel.display:
            self.panel.show(stepper)
        view = self.panes.active.view
        self._changed()
        if answer is not None and answer.note:
            self.status.say(cut(label(answer.note), self.size.width), view, warning=True)

    def _tell(self) -> None:
        kernel, stepper = self.kernel, self.stepper
        if kernel is None or stepper is None:
            return
        place = stepper.place()
        self.line.show(place)
        of = f" of {kernel.blocks:,}" if kernel.blocks > 1 else ""
        kept = " kept" if self._cut else ""
        told = [] if place is None else [f"step {place.step:,} of {place.steps:,}{kept}"]
        told.append(f"lane {stepper.lane}")
        if self._counts_shown:
            told.append(f"counts: {kernel.sample}")
        self.bar.tell(f"block {coordinates(self.block)}{of}", " · ".join(told))

    @property
    def _counts_shown(self) -> bool:
        return any(
            WARPS in pane.view.rows.gutter.columns for pane in self.panes.panes if pane.display
        )

    # What the lines beneath say

    @on(Panes.Changed)
    def _changed(self) -> None:
        active = self.panes.active
        linked = tuple(
            (str(pane.stage),
             None if self.panes.unlinked(pane) else len(self.panes.linked_lines(pane)))
            for pane in self.panes.panes
            if pane is not active
        )  # fmt: skip
        if self.troubled:
            return
        if not self.runner.running:
            self.status.follow(active.view, str(active.stage or ""), linked, self.search.counts())
        self.reading.follow(active.view)

    @on(Pane.Annotated)
    def _annotated(self, message: Pane.Annotated) -> None:
        if message.pane is self.panes.active:
            self.reading.follow(message.pane.view)

    @on(CodeView.Said)
    def _view_said(self, message: CodeView.Said) -> None:
        self.status.say(message.text, message.view, message.warning)

    @on(Understanding.Jump)
    def _jump(self, message: Understanding.Jump) -> None:
        self.panes.jump(message.stage, message.n)

    def _warn(self, text: str) -> None:
        self.status.say(text, self.panes.active.view, warning=True)

    def _say(self, text: str) -> None:
        self.status.say(text, self.panes.active.view)

    # Moving

    def _move(self, words: str) -> None:
        """Does what a command of ``ptxview step`` does; long searches in a thread."""
        stepper = self.stepper
        if stepper is None or self.looking or not stepper.trace.steps:
            return
        if words.split()[0] in ("nan", "store", "parts"):
            self.looking = True
            self._say("◔ Looking …")
            self._find(stepper, words)
        else:
            self._answered(stepper.run(words))

    @work(thread=True, exclusive=True, group="find", exit_on_error=False, description="find")
    def _find(self, stepper: Stepper, words: str) -> None:
        self.post_message(self.Went(attempt(lambda: stepper.run(words))))

    @on(Went)
    def _went(self, message: Went) -> None:
        message.stop()
        self.looking = False
        if isinstance(message.answer, Notice):
            self._warn(message.answer.message)
        else:
            self._answered(message.answer)

    def _answered(self, answer: StepAnswer) -> None:
        self._news = None
        if answer.understood and answer.shows_place:
            self._came(answer)
        elif answer.note:
            self._warn(cut(label(answer.note), self.size.width))

    def action_go(self, words: str) -> None:
        """A move without words of its own."""
        self._move(words)

    def action_until(self) -> None:
        """The next step on the cursor's line."""
        stepper, kernel, stage = self.stepper, self.kernel, self.panes.active.stage
        if stepper is None or kernel is None or stage is None:
            return
        n = self.panes.active.view.cursor
        lines = kernel.ptx_lines(stage, n)
        if stage is Stage.PTX and lines:
            self._move(f"until {lines[0]}")
        elif lines:
            self._answered(stepper.enter(lines, f"line {n} of the {stage}"))
        else:
            self._warn(f"No line of the PTX is tied to line {n} of the {stage}.")

    def action_before(self) -> None:
        """The last step before this one on the cursor's line."""
        stepper, kernel, stage = self.stepper, self.kernel, self.panes.active.stage
        if stepper is None or kernel is None or stage is None:
            return
        n = self.panes.active.view.cursor
        lines = kernel.ptx_lines(stage, n)
        if lines:
            self._answered(stepper.leave(lines, f"line {n} of the {stage}"))
        else:
            self._warn(f"No line of the PTX is tied to line {n} of the {stage}.")

    def action_where(self) -> None:
        """Back to the line of the step, in the pane of the PTX."""
        if self.stepper is not None and (place := self.stepper.place()) is not None:
            self.panes.to(Stage.PTX, place.line)
            self._stand()

    def action_lane(self, by: int) -> None:
        """Another lane, by its distance."""
        stepper = self.stepper
        if stepper is not None and 0 <= stepper.lane + by < stepper.threads:
            self._choose_lane(stepper.lane + by)

    def _choose_lane(self, lane: int | None) -> None:
        stepper = self.stepper
        if stepper is not None and lane is not None and lane != stepper.lane:
            stepper.run(f"lane {lane}")
            self._came(None)

    # Lanes, registers, counts

    def action_lanes(self) -> None:
        """What the cursor's line gave each lane."""
        stepper, kernel, stage = self.stepper, self.kernel, self.panes.active.stage
        if stepper is None or kernel is None or stage is None:
            return
        n = self.panes.active.view.cursor
        each = [(line, s) for line in kernel.ptx_lines(stage, n) for s in stepper.strips(line)]
        if stage is not Stage.PTX:  # what is named on the line comes first, and the last one first
            names = self.panes.active.view.rows.text(n)
            each.sort(key=lambda one: (
                one[1].name is None or one[1].name not in names, one[1].values is None, -one[0]
            ))  # fmt: skip
        if not each:
            self._warn(f"Line {n} has not run by this step.")
            return
        line = each[0][0]
        text = " ".join(stepper.program.statement(line).split())
        heading = label(f"{stage} {n} · {text}" if stage is Stage.PTX else f"{stage} {n}")
        strips = tuple(strip for _, strip in each)
        self.app.push_screen(LaneGrid(heading, strips, stepper.lane), self._choose_lane)

    def action_registers(self) -> None:
        """Show or hide the panel, where there is room; else the registers over the screen."""
        stepper = self.stepper
        if stepper is None:
            return
        if self.size.width >= PANEL:
            self._panel_wanted = not self._panel_wanted
            self.fit()
            self.panel.show(stepper)
            return
        rows = Content.assemble(*register_rows(stepper, min(self.size.width, 84) - 6))
        self.app.push_screen(Overlay(f"Registers of lane {stepper.lane}", rows))

    def action_hottest(self) -> None:
        """To the line that warps executed most; again to the next."""
        stage = self.panes.active.stage
        figures = None if self.kernel is None or stage is None else self.kernel.figures(stage)
        hottest = () if figures is None else figures.hottest()
        if self.kernel is None or not hottest:
            self._warn("Nothing was counted on these lines.")
            return
        before = self._hot[1] if self._hot[0] is stage else -1
        at = (before + 1) % len(hottest)
        self._hot = stage, at
        line = hottest[at]
        self.panes.active.view.jump(line.n)
        more = "" if at + 1 == len(hottest) else "; H goes to the next"
        said = f"{stage} {line.n}: {percent(line.share)} of the instructions that warps executed"
        self.call_after_refresh(self._say, f"{said}, of {self.kernel.sample}{more}.")

    def action_facts(self) -> None:
        """Counts of the block alone, or of more."""
        if self.kernel is None:
            return
        self.kernel.other()
        self._fill()
        self._tell()
        why = self.kernel.uncounted if self.kernel.whole else ""
        more = f"; no more could be: {label(why)}" if why else ""
        self._say(f"Counts are of {self.kernel.sample}{more}.")

    # What one types

    def action_ask(self, kind: str) -> None:
        """Ask for what a move needs."""
        stepper = self.stepper
        if stepper is None:
            return
        begin = {"parts": f"{stepper.lane} ", "block": ",".join(map(str, self.block))}
        self.status.display = False
        self.prompt.ask(kind, begin.get(kind, self._typed.get(kind, "")))
        if kind == "parts":
            self.prompt.input.action_end()

    def action_search(self) -> None:
        """Ask for a regular expression."""
        self.status.display = False
        self._typed["search"] = self.search.begin()
        self.prompt.ask("search", self._typed["search"])

    def action_goto(self) -> None:
        """Ask for a line."""
        self.status.display = False
        self.prompt.ask("goto")

    @on(Prompt.Edited)
    def _edited(self, message: Prompt.Edited) -> None:
        if message.kind == "search":
            self.search.look_for(message.text, typing=True)

    @on(Prompt.Closed)
    def _prompt_done(self, message: Prompt.Closed) -> None:
        self.status.display = True
        view = self.panes.active.view
        self.set_focus(view)
        if message.kind == "search":
            if not message.accepted:
                self.search.give_up()
            elif message.text:
                self._search(message.text)
        elif message.accepted and message.text:
            self._asked(message.kind, message.text)

    @on(Pane.Found)
    def _found(self, message: Pane.Found) -> None:
        self.search.found(message)

    def _search(self, text: str) -> None:
        """To the first match; asked for what was looked for before, to the next."""
        view = self.panes.active.view
        if text == self._typed["search"] and view.cursor in view.matches:
            view.action_match(1)
        else:
            self.search.look_for(text)

    def _asked(self, kind: str, text: str) -> None:
        self._typed[kind] = text
        if kind == "goto":
            if text.isdecimal() and len(text) < 10:
                self.panes.active.view.jump(int(text))
            else:
                self._warn(f"“{label(text)}” is not a line number.")
        elif kind == "block":
            try:
                self._run(parse_place(text))
            except ValueError as error:
                self._warn(f"{label(str(error))}.")
        else:
            self._move(f"{kind} {text}")

    def action_escape(self) -> None:
        """End what runs; forget the search; else leave."""
        if self.runner.running and not self.runner.stopping:
            self.runner.stop()
            self._glance()
        elif self.panes.active.view.unchoose() or not self.panes.active.view.pattern:
            if not self.runner.running:
                self.action_back()
        else:
            self.search.clear()

    def action_back(self) -> None:
        """To the kernels, which are as they were; what runs ends."""
        self.dismiss()

    # The panes

    def action_stage(self, stage: str) -> None:
        """A stage in the active pane."""
        self.panes.choose(Stage(stage))

    def action_next_pane(self, by: int) -> None:
        """Pane after pane, and round again."""
        panes = self.panes.panes
        self.panes.activate(panes[(panes.index(self.panes.active) + by) % len(panes)])

    def action_zoom(self) -> None:
        """The active pane alone, and back."""
        self._turned = True
        self.panes.zoomed = not self.panes.zoomed
        self.panes.fit()

    def action_turn(self) -> None:
        """Beside or above each other."""
        self._turned = True
        self.panes.turn()

    def action_choose_columns(self) -> None:
        """Choose the columns of the active pane one by one."""
        view = self.panes.active.view
        if view.rows.gutter.there:
            self.app.push_screen(ColumnList(view.rows.gutter), self._columns)

    def _columns(self, wanted: tuple[str, ...] | None) -> None:
        if wanted is not None:
            for pane in self.panes.panes:
                pane.view.columns(wanted)
            self._tell()

    def action_columns(self) -> None:
        """The next choice of columns, in all panes."""
        self.panes.active.view.action_columns()
        self._columns(self.panes.active.view.rows.gutter.wanted)

    def action_copy(self) -> None:
        """Copy the cursor's line."""
        view = self.panes.active.view
        if view.source is not None:
            self.app.copy_to_clipboard(plain(view.source.texts[view.cursor - 1]))
            self._say(f"Line {view.cursor} is on the clipboard.")

    def action_understand(self, what: str) -> None:
        """What the reference says of the instruction under the cursor."""
        active = self.panes.active
        self.understanding.ask(what, self.subject, active.stage, active.view.cursor)

    # For the palette and the footer

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are letters while one types."""
        return self.focused is not self.prompt.input

    async def action_tell_app(self, name: str) -> None:
        """Something that is the application's affair."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        chosen = command(name)
        if self.focused is self.prompt.input:
            self.set_focus(self.panes.active.view)
        home: Widget | Screen[None] = self
        if chosen.where is Where.PANE:
            home = self.panes.active.view
        await self.app.run_action(chosen.action, home)
