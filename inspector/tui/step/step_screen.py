"""Runs one block of a kernel on the CPU and shows its steps beside the listings.

The block is run in a thread that Esc ends; every step is kept, so that going to one is reading. A
second thread then counts what happened at each line, in all blocks where that is cheap.
"""

import threading
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from inspector.base.model import Stage
from inspector.execute.calls.stepper import StepAnswer, Stepper
from inspector.execute.calls.tracing import TracedLaunch, Triple, parse_place, trace_launch
from inspector.reader.reader import Reader
from inspector.render.trace import coalescing, percent
from inspector.tui.code.code_rows import WARPS
from inspector.tui.keys.command_table import BESIDE, KeyContext, bindings, bindings_of, of_screen
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.pane_screen import FRAME_CELLS, PaneScreen
from inspector.tui.panes.panes import Panes
from inspector.tui.step.step_figures import (
    CHOICES,
    WIDTH,
    BlockRun,
    LaneGrid,
    Links,
    RunningBlock,
    StepLine,
    SteppedKernel,
    coordinates,
    register_rows,
    stages_with_ptx,
)
from inspector.tui.widgets.notice import Notice, cut, following, in_thread, label
from inspector.tui.widgets.subject import RecordingTimes, TreeSubject
from inspector.tui.widgets.tool_screen import Overlay, SubjectBar

MIN_PANEL_CELLS = 110
"""Columns from which registers are beside the panes."""
MIN_BESIDE_CELLS = 120
"""Columns of the panes from which two are beside each other: values take some of them."""
MAX_PICTURE_CELLS = 112
GLANCE_SECONDS = 0.2
WITHOUT_BLOCK = ("escape", "search", "next_pane", "zoom", "turn")


class StepScreen(PaneScreen[None]):
    """One block of a variant's recorded call, step by step."""

    BINDINGS = [*bindings(KeyContext.STEP), *bindings_of(of_screen(BESIDE))]  # noqa: RUF012
    AUTO_FOCUS = ""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (8, "-short"), (14, "-tall"), (30, "-high")]  # noqa: RUF012
    contexts: ClassVar = (KeyContext.STEP,)

    def __init__(
        self,
        reads: Reader,
        subject: TreeSubject,
        stages: tuple[Stage | None, ...],
        times: RecordingTimes,
    ) -> None:
        """``stages`` were in the panes; PTX takes the place of the last if it is not among them."""
        panes = Panes(reads, len(stages_with_ptx(stages, subject)))
        super().__init__(reads, panes, times)
        self.subject = subject
        self.running: RunningBlock | None = None
        self._leaving = threading.Event()
        self.block: Triple = (0, 0, 0)
        self._kernel: SteppedKernel | None = None
        self.looking = False
        self._hot: tuple[Stage | None, int] = None, -1
        self._panel_wanted = True
        self._cut = False
        self._is_recorded_call = False
        """Whether the counts are of a call as it was recorded: only then are they kept."""
        self.troubled = False
        self._news: tuple[str, bool] | None = None
        self._typed: dict[str, str] = {}
        self._turned = False
        self.bar = SubjectBar("step", subject.name, subject.description)
        for pane, stage in zip(panes.panes, stages_with_ptx(stages, subject), strict=False):
            pane.preferred = stage
            pane.view.choices = CHOICES
            pane.view.look(0, CHOICES[0], verbatim=False, wrapped=False)
        self.registers = Static(markup=False)
        self.panel = VerticalScroll(self.registers, id="registers", can_focus=False)
        self.panel.border_title = Content("Registers")
        self.body = Horizontal(panes, self.panel, id="body")
        self.why = Static(markup=False)
        self.trouble = VerticalScroll(self.why, id="trouble", can_focus=False)
        self.trouble.display = self.panel.display = False
        self.step_line = StepLine()

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.body, self.trouble, self.step_line, self.reading, *self.below)

    @property
    def kernel(self) -> SteppedKernel:
        assert self._kernel is not None
        return self._kernel

    @property
    def stepper(self) -> Stepper:
        return self.kernel.stepper

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        own_action = f"action_{action}" in vars(StepScreen)
        if own_action and self._kernel is None and action not in WITHOUT_BLOCK:
            return False
        return super().check_action(action, parameters)

    @property
    def settled(self) -> bool:
        return self.running is None and not self.looking

    def on_mount(self) -> None:
        self.panes.show(self.subject)
        ptx = next((p for p in self.panes.panes if p.stage is Stage.PTX), self.panes.panes[-1])
        self.fit()
        self.panes.activate(ptx)
        self.set_interval(GLANCE_SECONDS, self._glance)
        self._run(self.block)

    def fit(self) -> None:
        panel = self.size.width >= MIN_PANEL_CELLS and self._panel_wanted
        self.panel.display = panel and self._kernel is not None
        if not self._turned:
            room = self.size.width - (WIDTH if panel else 0)
            self.panes.beside = room >= MIN_BESIDE_CELLS
            self.panes.zoomed = self.size.width < MIN_PANEL_CELLS
        self.panes.fit()

    on_resize = fit

    def on_unmount(self) -> None:
        self._leaving.set()
        if self.running is not None:
            self.running.stop.set()

    def _run(self, block: Triple) -> None:
        if self.running is not None:
            self.running.stop.set()
        self.running = RunningBlock(block)
        work = partial(self.running.run, self.reads, *self.subject.pair)
        in_thread(self, work, self._was_run, "block", failed=self._not_run)
        self._glance()

    def _glance(self) -> None:
        running = self.running
        if running is not None:
            far = "" if running.trace is None else f" · {len(running.trace.steps):,} steps"
            end = "stopping …" if running.stop.is_set() else "Esc stops it"
            self.say(f"◔ Running block {coordinates(running.block)}{far} · {end}")

    def _was_run(self, run: BlockRun) -> None:
        self.running = None
        old_kernel = self._kernel
        launch_choice, traced, stepper, unnamed = run
        facts = traced.facts
        ended = traced.ended
        if not traced.trace.steps and old_kernel is None:
            self._not_run(Notice("∅", ended or "The block ended before its first step."))
            return
        assert facts is not None
        self.block = traced.block
        self._cut = ended is not None and traced.fault is None
        self._kernel = kernel = SteppedKernel(stepper, facts, launch_choice.launch.blocks)
        if old_kernel is None and traced.fault is None:
            stepper.to_arithmetic()
        if old_kernel is not None:
            kernel.links = old_kernel.links
            kernel.texts = old_kernel.texts
            stepper.lane = old_kernel.stepper.lane
        if old_kernel is not None and old_kernel.launched is not None:
            kernel.count(old_kernel.launched)
        elif ended is None:
            launch = partial(
                trace_launch, launch_choice.program, launch_choice.launch, launch_choice.make
            )
            work = partial(launch, stop=self._leaving.is_set)
            self._is_recorded_call = launch_choice.recorded is not None
            in_thread(self, work, self._was_counted, "count", failed=self._not_counted)
        else:
            kernel.uncounted = ended
        self.fit()
        self._find_ties()
        self._stepped(None)
        sentence = "Inputs are new ones of the recorded kind. n steps, u runs to the cursor."
        if remarks := stepper.inputs.remarks:
            sentence = f"Inputs are new ones of the recorded kind; {label('; '.join(remarks))}."
        if unnamed:
            sentence = f"Values have no names from the source: {label(unnamed)}"
        self._news = sentence if ended is None else label(ended), ended is not None
        self._tell_news()

    def _not_run(self, notice: Notice) -> None:
        self.running = None
        if self._kernel is not None:
            self.warn(label(notice.message))
            return
        text = [(f"{notice.sign} {label(notice.message)}\n", "bold")]
        text += [(f"\n{label(row)}", "$quiet") for row in notice.hint.splitlines()]
        self.troubled = self.trouble.display = True
        self.why.update(Content.assemble(*text))
        self.body.display = self.step_line.display = self.reading.display = False
        self.set_focus(None)
        self.say("Esc goes back to the kernels.")

    def _was_counted(self, launched: TracedLaunch) -> None:
        self.kernel.count(launched)
        self._stand()
        self._tell()
        sectors = coalescing(launched.facts.totals())
        if sectors and self._news is not None and not self._news[1]:  # nothing was done since
            self._news = f"{sectors}. H: hints.", False
            self._tell_news()

    def _not_counted(self, notice: Notice) -> None:
        self.kernel.uncounted = notice.message

    @on(Pane.Shown)
    def _shown(self, message: Pane.Shown) -> None:
        if self._kernel is not None:
            self._find_ties()
            self._stand()
            self._tell_news()

    def _tell_news(self) -> None:
        if self._news is not None:
            text, warning = self._news
            self.say(text, warning=warning)

    def _find_ties(self) -> None:
        _, variant = self.subject.pair

        def tie(stage: Stage) -> None:
            def find() -> tuple[Links, tuple[str, ...]]:
                texts = tuple(line.text for line in self.reads.stages.listing(variant, stage).lines)
                return self.reads.stages.links(variant, stage, Stage.PTX), texts

            def tied(answer: tuple[Links, tuple[str, ...]]) -> None:
                self.kernel.link(stage, *answer)
                self._stand()

            # Without them the pane still reads well.
            in_thread(self, find, tied, f"ties {stage}", failed=lambda _: tied(({}, ())))

        for stage in {pane.stage for pane in self.panes.panes}:
            if stage is not None and stage not in (Stage.PTX, *self.kernel.links):
                tie(stage)

    def _stand(self) -> None:
        for pane in self.panes.panes:
            if pane.settled:
                figures = self.kernel.figures(pane.stage)
                pane.view.columns(run=figures)
                pane.view.stand(() if figures is None else figures.current())
        self.panes.follow(move=False)

    def _stepped(self, answer: StepAnswer | None) -> None:
        self._stand()
        self._tell()
        self.registers.update(Content.assemble(*register_rows(self.stepper, WIDTH - 4)))
        self.changed()
        if answer is not None and answer.note:
            self.warn(cut(label(answer.note), self.size.width))

    def _tell(self) -> None:
        kernel = self.kernel
        place = self.stepper.place()
        self.step_line.tell(place=place)
        block_count = f" of {kernel.blocks:,}" if kernel.blocks > 1 else ""
        kept_note = " kept" if self._cut else ""
        facts = [] if place is None else [f"step {place.step:,} of {place.steps:,}{kept_note}"]
        facts.append(f"lane {self.stepper.lane}")
        if any(WARPS in pane.view.rows.gutter.columns for pane in self.panes.panes if pane.display):
            facts.append(f"counts: {kernel.sample}")
        self.bar.tell(right=" · ".join(facts), part=f"block {coordinates(self.block)}{block_count}")

    @on(Panes.Changed)
    def changed(self) -> None:
        if not self.troubled and self.running is None:
            super().changed()
        elif not self.troubled:
            self.reading.follow(self.view)

    def action_go(self, words: str) -> None:
        if self.looking or not self.stepper.trace.steps:
            return
        if words.split()[0] in ("nan", "store", "parts"):
            self.looking = True
            self.say("◔ Looking …")
            work = partial(self.stepper.run, words)
            in_thread(self, work, self._went, "find", failed=self._lost)
        else:
            self._went(self.stepper.run(words))

    def _lost(self, notice: Notice) -> None:
        self.looking = False
        self.fail(notice)

    def _went(self, answer: StepAnswer) -> None:
        self.looking = False
        self._news = None
        if answer.understood and answer.shows_place:
            self._stepped(answer)
        elif answer.note:
            self.warn(cut(label(answer.note), self.size.width))

    def action_until(self) -> None:
        stage, n, lines = self._ptx_lines()
        if stage is Stage.PTX and lines:
            self.action_go(f"until {lines[0]}")
        elif lines:
            self._went(self.stepper.enter(lines, f"line {n} of the {stage}"))

    def action_before(self) -> None:
        stage, n, lines = self._ptx_lines()
        if lines:
            self._went(self.stepper.leave(lines, f"line {n} of the {stage}"))

    def _ptx_lines(self) -> tuple[Stage | None, int, tuple[int, ...]]:
        """The cursor's line, and the lines of the PTX that it is tied to; warns of none."""
        stage = self.panes.active.stage
        n = self.view.cursor
        lines = self.kernel.ptx_lines(stage, n)
        if not lines:
            self.warn(f"No line of the PTX is tied to line {n} of the {stage}.")
        return stage, n, lines

    def action_where(self) -> None:
        if (place := self.stepper.place()) is not None:
            self.panes.to(Stage.PTX, place.line)
            self._stand()

    def action_lane(self, step: int) -> None:
        if 0 <= self.stepper.lane + step < self.stepper.threads:
            self._choose_lane(self.stepper.lane + step)

    def _choose_lane(self, lane: int | None) -> None:
        if lane is not None and lane != self.stepper.lane:
            self.stepper.run(f"lane {lane}")
            self._stepped(None)

    def action_lanes(self) -> None:
        stage, n, lines = self._ptx_lines()
        stepper = self.stepper
        names = self.view.rows.text(n) if lines else ""
        line_strips = [(line, strip) for line in lines for strip in stepper.strips(line)]
        if stage is not Stage.PTX:  # what is named on the line comes first, and the last one first
            line_strips.sort(
                key=lambda pair: (
                    pair[1].name is None or pair[1].name not in names,
                    pair[1].values is None,
                    -pair[0],
                )
            )
        if line_strips:
            text = " ".join(stepper.program.statement(line_strips[0][0]).split())
            heading = label(f"{stage} {n} · {text}" if stage is Stage.PTX else f"{stage} {n}")
            strips = tuple(strip for _, strip in line_strips)
            self.app.push_screen(LaneGrid(heading, strips, stepper.lane), self._choose_lane)
        elif lines:
            self.warn(f"Line {n} has not run by this step.")

    def action_registers(self) -> None:
        if self.size.width >= MIN_PANEL_CELLS:
            self._panel_wanted = not self._panel_wanted
            self.fit()
        else:
            rows = Content.assemble(*register_rows(self.stepper, min(self.size.width, 84) - 6))
            self.app.push_screen(Overlay(f"Registers of lane {self.stepper.lane}", rows))

    def action_banks(self) -> None:
        """Show which lanes of the worst request to shared memory collide."""
        from inspector.render.pictures.bank_picture import bank_picture
        from inspector.render.pictures.terminal_picture import picture_lines

        figures = self.kernel.figures(Stage.PTX)
        picture = None if figures is None else bank_picture(figures.lines.values())
        if picture is None:
            self.warn(f"No lanes collide in shared memory, of {self.kernel.sample}.")
            return
        width = min(self.app.size.width - FRAME_CELLS, MAX_PICTURE_CELLS)
        rows = "\n".join(label(line.plain) for line in picture_lines(picture, width))
        self.app.push_screen(Overlay("Bank conflicts", Content(rows), wide=True))

    def action_hottest(self) -> None:
        stage = self.panes.active.stage
        figures = self.kernel.figures(stage)
        hottest = [] if figures is None else figures.hottest()
        if figures is None or not hottest:
            self.warn("Nothing was counted on these lines.")
            return
        index = (self._hot[1] + 1 if self._hot[0] is stage else 0) % len(hottest)
        self._hot = (stage, index)
        line = hottest[index]
        self.view.jump(line.n)
        next_hint = "" if index + 1 == len(hottest) else "; again goes to the next"
        share = percent(line.executed / figures.total)
        sentence = f"{stage} {line.n}: {share} of the instructions that warps executed"
        self.call_after_refresh(self.say, f"{sentence}, of {self.kernel.sample}{next_hint}.")

    def action_understand(self, kind: str) -> None:
        """Show the hints, those of the counts among them, which are kept from now on."""
        launched = self.kernel.launched
        executed = launched.executed if launched is not None and self._is_recorded_call else None
        if kind == "hints" and executed is not None:
            self.reads.store_execution_counts(self.subject.pair[1], executed)
        super().action_understand(kind)

    def action_facts(self) -> None:
        self.kernel.other()
        self._stand()
        self._tell()
        why = self.kernel.uncounted if self.kernel.shows_launch else ""
        reason = f"; no more could be: {label(why)}" if why else ""
        self.say(f"Counts are of {self.kernel.sample}{reason}.")

    def action_ask(self, kind: str) -> None:
        begin = {"parts": f"{self.stepper.lane} ", "block": ",".join(map(str, self.block))}
        typed = begin.get(kind, self._typed.get(kind, ""))
        self.ask(kind, typed, partial(self._prompt_closed, kind))
        if kind == "parts":
            self.prompt.input.action_end()

    def _prompt_closed(self, kind: str, text: str | None) -> None:
        if not text:
            return
        self._typed[kind] = text
        if kind != "block":
            self.action_go(f"{kind} {text}")
            return
        try:
            self._run(parse_place(text))
        except ValueError as error:
            self.warn(f"{label(str(error))}.")

    def searched(self, text: str | None) -> None:
        old_pattern = None if self.origin is None else self.origin[2]
        if old_pattern and old_pattern.pattern == text and self.view.cursor in self.view.matches:
            self.view.action_match(1)  # asked for what was looked for before: the next one
        else:
            super().searched(text)

    def action_escape(self) -> None:
        running = self.running
        view = self.view
        if running is not None and not running.stop.is_set():
            running.stop.set()
            self._glance()
        elif view.clear_selection() or not view.pattern:
            if running is None:
                self.action_back()
        else:
            self.find(None)

    def action_next_pane(self, step: int) -> None:
        self.panes.activate(following(self.panes.panes, self.panes.active, step))

    def action_zoom(self) -> None:
        self._turned = True
        super().action_zoom()

    def action_turn(self) -> None:
        self._turned = True
        super().action_turn()

    def show_columns(self, selected: tuple[str, ...] | None) -> None:
        if selected is not None:
            for pane in self.panes.panes:
                pane.view.columns(selected=selected)
            self._tell()

    def action_columns(self) -> None:
        self.view.action_columns()
        self.show_columns(self.view.rows.gutter.selected)
