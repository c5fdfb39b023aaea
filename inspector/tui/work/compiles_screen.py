"""What torch.compile compiled and why, over the screen: a row that is about a line leads there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList

from inspector.analysis.tuner_times import Codes
from inspector.base.model import Content as FileText
from inspector.base.model import Recording, UserFrame
from inspector.base.units import plural
from inspector.diff.compare import tuned_codes
from inspector.estimate.launches import Launched, LaunchEstimates, launch_evidence
from inspector.measure.evidence import Evidence
from inspector.measure.profile.trace import Profile
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.render import compiles, costs, tables, tunings
from inspector.tui.widgets.lines_screen import LinesScreen
from inspector.tui.widgets.notice import Notice, following, in_thread, label, visible
from inspector.tui.widgets.selection import MatchingIds, Selection
from inspector.tui.widgets.tool_screen import Overlay, Prompt
from inspector.tui.work.timeline_key import TimelineKey

READING = "◔ reading times"
AT_ONCE = 8
"""Rows of which hints are looked for before they are shown."""
CONTEXT_LINES = 2000
"""Lines of a file before and after the chosen one."""


class CompilesScreen(LinesScreen[UserFrame | str | None]):
    """The timeline, caches, graph breaks, recompiles and dynamic shapes."""

    def __init__(self, recording: Recording) -> None:
        tables = table("compile_phases"), table("compile_metrics")
        super().__init__("Compiles", partial(compiles.lines, recording, *tables))


@dataclass
class CostView:
    """How the costs were looked at last: their order, the query, and the kernel of the row."""

    order: costs.Order = costs.Order.TOTAL
    query: str = ""
    words: tuple[str, ...] = ()
    matching_ids: MatchingIds = None
    kernel: str | None = None

    def selects(self, row: costs.Cost) -> bool:
        """Whether the query selects a row: its words occur, and its properties hold."""
        variant_id = "" if row.variant is None else row.variant.id
        kernel_id = "" if row.kernel is None else row.kernel.id
        text = f"{row.name} {kernel_id} {variant_id}".casefold()
        if not all(word in text for word in self.words):
            return False
        return self.matching_ids is None or (kernel_id, variant_id) in self.matching_ids


class CostTimes(NamedTuple):
    """Known times, estimates of the others, and the tuned kernels of each code."""

    evidence: Evidence
    estimates: LaunchEstimates
    codes: Codes


class CostScreen(TimelineKey[UserFrame | str | None]):
    """Kernels by what they cost, and what tuning compared, one table for each round.

    Times are read in the background, then launches without a measured one are simulated, the most
    frequent first.
    """

    BINDINGS: ClassVar = [
        Binding("s", "sort", show=False),
        Binding("r", "round", show=False),
        Binding("slash", "filter", show=False),
    ]
    KEYS: ClassVar = "r tuning · t timeline · / filter · s sort · n part"

    def __init__(self, reads: Reader, view: CostView) -> None:
        recording = self.recording = reads.recording
        self.reads = reads
        self.costs = costs.Costs(())
        self.times: CostTimes | None = None
        self._afterwards: list[Callable[[], None]] = []
        """What keys asked for before there were rows."""
        self.view = view
        self.prompt = Prompt()
        self.selection = Selection(self, lambda: self.reads, self._select, self.answer)
        self.tuning_count = 0
        """How many of the last lines are about tunings."""
        self.progress = ""
        self.hint_rules: dict[int, tuple[str, ...] | None] = {}
        """The rules of each variant that was looked at, by its identity."""

        def make(width: int) -> Iterator[compiles.CompileLine]:
            if self.times is None:
                yield compiles.CompileLine(Text(READING, "yellow"))
                return
            initial_costs = self.shown
            for line in tables.folded(costs.title(self.costs), width):
                yield compiles.CompileLine(line)
            yield from costs.lines(initial_costs, width)
            if self.progress:
                yield compiles.CompileLine(Text(self.progress, "yellow"))
            yield compiles.CompileLine(Text(""))
            if initial_costs.idle:
                candidate_count = plural(len(initial_costs.idle), "candidate")
                heading = f"{'▾' if self.opened else '▸'} {candidate_count} not launched"
                yield compiles.CompileLine(Text(heading, "bold cyan"), opens=True)
            if self.opened:
                yield from costs.lines(costs.Costs(initial_costs.idle), width)
            for footnote in costs.footnotes(replace(initial_costs, idle=())):
                yield compiles.CompileLine(Text(footnote, "yellow"))
            yield compiles.CompileLine(Text(""))
            tuning_lines = list(tunings.lines(recording, width, self.times.codes))
            self.tuning_count = len(tuning_lines)
            yield from tuning_lines

        super().__init__("Cost", make)
        self._name_order()

    @property
    def shown(self) -> costs.Costs:
        """The costs in the chosen order, with the hints that were counted."""
        rows = [
            row if row.variant is None else replace(row, rules=self.hint_rules.get(id(row.variant)))
            for row in costs.ordered(self.costs.rows, self.view.order)
            if self.view.selects(row)
        ]
        return replace(self.costs, rows=tuple(rows))

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self.prompt

    def on_mount(self) -> None:
        self.wait_for(READING)
        read = partial(_read_times, self.reads)
        in_thread(self, read, self._were_read, "times", failed=self._not_read)

    def _were_read(self, times: CostTimes) -> None:
        # The first row is chosen, and remembered, as soon as there are rows.
        kernel = self.view.kernel
        self.times = times
        self.costs = costs.costs(self.recording, times.evidence)
        self.wait_for("")
        self.fill()
        self.call_after_refresh(self._show_row, kernel)
        self.count()
        look = partial(times.estimates.missing, times.evidence, self.recording.variants())
        in_thread(self, look, self.estimate, "estimate")
        for action in self._afterwards:
            self.call_after_refresh(action)

    def _not_read(self, notice: Notice) -> None:
        self.wait_for(f"{notice.message} · {self.CLOSES}")

    def _with_rows(self, action: Callable[[], None]) -> None:
        """Do what a key asks for, once there are rows."""
        if self.times is None:
            self._afterwards.append(action)
        else:
            action()

    def count(self) -> None:
        """Look for the hints of some rows in the background, of the most expensive first."""
        variants = [row.variant for row in self.costs.rows if row.variant is not None]
        batch = [variant for variant in variants if id(variant) not in self.hint_rules][:AT_ONCE]

        def look() -> dict[int, tuple[str, ...] | None]:
            summaries = self.reads.summaries
            return {id(variant): summaries.read_now(variant).ranked_rules for variant in batch}

        def counted(rules: dict[int, tuple[str, ...] | None]) -> None:
            self.hint_rules.update(rules)
            self.fill()
            self.count()

        if batch:
            in_thread(self, look, counted, "hints")

    def estimate(self, missing: Sequence[Launched], done_count: int = 0) -> None:
        """Simulate the first launch that is missing in the background, then the others."""
        launch_count = len(missing)
        self.progress = (
            f"◔ estimating times: {done_count} of {launch_count}"
            if done_count < launch_count
            else ""
        )

        times = self.times
        assert times is not None

        def simulate() -> costs.Costs:
            times.estimates.simulate(*missing[done_count])
            return costs.costs(self.recording, times.evidence)

        def estimated(new_costs: costs.Costs) -> None:
            self.costs = new_costs
            self.estimate(missing, done_count + 1)

        if launch_count:
            self.fill()
        if done_count < launch_count:
            in_thread(self, simulate, estimated, "estimate")

    def action_sort(self) -> None:
        """Order the rows by the next column: total, µs, launches, kernel."""
        self.view.order = following(tuple(costs.Order), self.view.order)
        self._name_order()
        self.fill()
        self.options.scroll_to_highlight()

    def action_filter(self) -> None:
        """Show the kernels that a query selects, as it is typed."""

        def closed(text: str | None) -> None:
            if text is None:
                self.selection.look("")
            self.options.focus()

        self.prompt.ask("filter", self.view.query, closed, self.selection.look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.focused is not self.prompt.input

    def _select(self, query: str, words: str, matching_ids: MatchingIds) -> None:
        self.view.query = query
        self.view.words = tuple(words.casefold().split())
        self.view.matching_ids = matching_ids
        self._name_order()
        self.fill()

    def _name_order(self) -> None:
        order = self.view.order
        self.heading = "Cost" if order is costs.Order.TOTAL else f"Cost by {order.value}"
        if self.view.query:
            self.heading += f" · /{label(self.view.query)}"

    def _show_row(self, kernel: str | None) -> None:
        """Go to the first row about a kernel, as the one that was left to look at it."""
        places = [n for n, row in enumerate(self.rows) if kernel and row.kernel == kernel]
        if places:
            self.options.highlighted = places[0]
            self.options.scroll_to_highlight()

    @on(OptionList.OptionHighlighted)
    def _remember_row(self, message: OptionList.OptionHighlighted) -> None:
        if self.times is not None:
            self.view.kernel = self.rows[message.option_index].kernel

    def action_round(self) -> None:
        """Go to the candidate that the chosen kernel was made from, or to its own round.

        From a row of a round it goes back to the kernel's cost.
        """
        self._with_rows(self._go_to_round)

    def _go_to_round(self) -> None:
        index = self.options.highlighted or 0
        first_round = len(self.rows) - self.tuning_count
        kernel = self.rows[index].kernel if index < len(self.rows) else None
        if index >= first_round:
            if kernel is not None and any(row.kernel == kernel for row in self.rows[:first_round]):
                self._show_row(kernel)
            else:
                self.notify("This is a round of tuning; its candidate here was not launched.")
            return
        chosen = (r for r in self.shown.rows if r.variant and r.variant.hash == kernel)
        ids = {row.kernel.id for row in chosen if row.kernel is not None}
        for n in range(first_round, len(self.rows)):
            if ids.intersection(self.rows[n].tuned):
                # The name of the round and the heads of its columns come into view as well.
                self.options.highlighted = max(
                    (m + 1 for m in range(first_round, n) if not self.rows[m].text.plain),
                    default=first_round,
                )
                self.options.scroll_to_highlight(top=True)
                self.options.highlighted = n
                self.options.scroll_to_highlight()
                return
        self.notify("No tuning of this kernel was recorded.")

    @property
    def timeline_source(self) -> tuple[Recording, Profile | None]:
        return self.recording, None if self.times is None else self.times.evidence.profile

    def action_timeline(self) -> None:
        """Show when the GPU did what."""
        self._with_rows(super().action_timeline)

    def show_kernel(self, kernel: str) -> None:
        self.dismiss(kernel)


def _read_times(reads: Reader) -> CostTimes:
    estimates = LaunchEstimates(reads)
    evidence = launch_evidence(reads, estimates, with_window=True)
    return CostTimes(evidence, estimates, tuned_codes(reads.recording.kernels))


def file_overlay(place: UserFrame, text: FileText) -> Overlay:
    lines = text.read().decode("utf-8", "surrogateescape").split("\n")
    first = max(place.line - CONTEXT_LINES, 1)
    shown = lines[first - 1 : place.line + CONTEXT_LINES]
    wide = len(str(first + len(shown)))
    rows = [
        (f"{n:>{wide}}  {visible(line)}\n", "bold reverse" if n == place.line else "")
        for n, line in enumerate(shown, first)
    ]
    return Overlay(
        label(place.file),
        Content.assemble(*rows),
        f"line {place.line} · Esc closes",
        wide=True,
        row=place.line - first,
    )
