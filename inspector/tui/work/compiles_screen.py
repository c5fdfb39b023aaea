"""What torch.compile compiled and why, over the screen: a row that is about a line leads there."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from textwrap import wrap
from typing import ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.content import Content, Span
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from inspector.base.model import Content as FileText
from inspector.base.model import Recording, UserFrame
from inspector.base.text import plural
from inspector.diff.compare import tuned_codes
from inspector.estimate.launches import Launched, LaunchEstimates
from inspector.measure.evidence import Evidence
from inspector.reader.reader import Reader
from inspector.reader.tables import table
from inspector.report import compiles, costs, tables, tunings
from inspector.tui.widgets.notice import following, in_thread, label, visible
from inspector.tui.widgets.tool_screen import ChoiceList, Overlay

FRAME_CELLS = 6
"""Columns of the frame, the padding and the scrollbar."""
COST_HEADS = 2
"""Lines above the rows of costs: what they are of, and the heads of the columns."""
AT_ONCE = 8
"""Rows of which hints are looked for before they are shown."""
CONTEXT_LINES = 2000
"""Lines of a file before and after the chosen one."""


LINES = {"bold cyan": "bold $accent", "bold red": "bold $error", "yellow": "$warning"}
"""What the colours of a line are in a theme, whose grounds each can be read on."""
GROUNDS = {
    "blue": "cursor-line",
    "cyan": "lit-7",
    "green": "lit-2",
    "magenta": "lit-5",
    "red": "lit-1",
    "yellow": "lit-8",
}
"""The background of a phase's letter, by the colour that a terminal gives it."""


def themed(text: Text) -> Content:
    line = str(text.style)
    spans = [Span(0, len(text.plain), LINES.get(line, line))] if line else []
    for one in text.spans:
        said = str(one.style)
        ground = GROUNDS.get(said.removeprefix("bold ").removesuffix(" reverse"))
        style = said if ground is None else f"$foreground on ${ground}"
        spans.append(Span(one.start, one.end, style))
    return Content(text.plain, spans=spans)


class LinesScreen(ChoiceList[UserFrame | str | None]):
    """Lines of a report; Enter goes to the line of the program that one is about, or to the
    kernel: its id or the hash of its variant. ``make`` is given the width."""

    BINDINGS: ClassVar = [
        Binding("escape,q,K,dollar_sign", "dismiss", "Close", show=False),
        Binding("n", "section(1)", show=False),
        Binding("N", "section(-1)", show=False),
    ]

    KEYS: ClassVar = "n next part"

    def __init__(self, title: str, make: Callable[[int], Iterable[compiles.CompileLine]]) -> None:
        super().__init__(title, OptionList())  # rows are made when the width is known
        self.make, self.heading = make, title
        self.opened = False
        self.rows: list[compiles.CompileLine] = []

    def fill(self) -> None:
        """Make the lines anew, for the width that there is."""
        width = max(self.size.width - FRAME_CELLS, 20)
        at, before = self.options.highlighted, self.rows
        self.rows = list(self.make(width))
        if at is not None:
            at = same_row(before, at, self.rows)
        self.options.set_options(
            Option(themed(_hanging(row.text, width)), disabled=not row.text.plain)
            for row in self.rows
        )
        there = (n for n, row in enumerate(self.rows) if row.place or row.kernel)
        self.options.highlighted = at if at is not None else next(there, 0 if self.rows else None)

    on_resize = fill

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        row = self.rows[message.option_index]
        if row.opens:
            self.opened = not self.opened
            self.fill()
            self.call_after_refresh(self.options.scroll_to_highlight, top=True)
        elif row.place is not None or row.kernel is not None:
            self.dismiss(row.place or row.kernel)

    @on(OptionList.OptionHighlighted)
    def _at(self, message: OptionList.OptionHighlighted) -> None:
        row = self.rows[message.option_index]
        where = "line" if row.place is not None else "kernel" if row.kernel is not None else ""
        enter = "Enter opens · " if row.opens else f"Enter: its {where} · " if where else ""
        self.options.border_subtitle = Content(f"{enter}{self.KEYS} · Esc closes")
        self.options.border_title = Content(" · ".join(filter(None, (self.heading, row.about))))

    def action_section(self, by: int) -> None:
        heads = [0, *(n + 1 for n, row in enumerate(self.rows) if not row.text.plain)]
        here = self.options.highlighted or 0
        there = [n for n in heads if (n > here if by > 0 else n < here)]
        if there:
            self.options.highlighted = there[0] if by > 0 else there[-1]
            self.options.scroll_to_highlight(top=True)


def same_row(
    before: Sequence[compiles.CompileLine], index: int, rows: Sequence[compiles.CompileLine]
) -> int:
    """Where a row about a kernel is after rows have moved; the same place for any other row."""
    kernel = before[index].kernel if index < len(before) else None
    if kernel is not None:
        ordinal = sum(row.kernel == kernel for row in before[:index])
        places = [n for n, row in enumerate(rows) if row.kernel == kernel]
        if ordinal < len(places):
            return places[ordinal]
    return min(index, len(rows) - 1)


class CompilesScreen(LinesScreen):
    """The timeline, caches, graph breaks, recompiles and dynamic shapes."""

    def __init__(self, recording: Recording) -> None:
        tables = table("compile_phases"), table("compile_metrics")
        super().__init__("Compiles", partial(compiles.lines, recording, *tables))


class CostScreen(LinesScreen):
    """Kernels by what they cost, and what tuning compared, one table for each round.

    Launches without a measured time are simulated in the background, the most frequent first.
    """

    BINDINGS: ClassVar = [
        Binding("t", "timeline", show=False),
        Binding("s", "sort", show=False),
        Binding("r", "round", show=False),
    ]
    KEYS: ClassVar = "n part · s sort · r tuning · t timeline"

    def __init__(
        self, reads: Reader, found: costs.Costs, given: Evidence, estimates: LaunchEstimates
    ) -> None:
        recording = self.recording = reads.recording
        self.reads, self.found, self.given = reads, found, given
        self.estimates = estimates
        self.order = costs.Order.TOTAL
        self.progress = ""
        self.hints: dict[int, str | None] = {}
        """The worst hint of each variant that was looked at, by its identity."""
        self.profiled, codes = given.profile, tuned_codes(recording.kernels)

        def make(width: int) -> Iterator[compiles.CompileLine]:
            found = self.shown
            for line in tables.folded(costs.title(found), width):
                yield compiles.CompileLine(line)
            yield from costs.lines(found, width)
            if self.progress:
                yield compiles.CompileLine(Text(self.progress, "yellow"))
            yield compiles.CompileLine(Text(""))
            if found.idle:
                many = plural(len(found.idle), "candidate")
                said = f"{'▾' if self.opened else '▸'} {many} not launched"
                yield compiles.CompileLine(Text(said, "bold cyan"), opens=True)
            if self.opened:
                yield from costs.lines(costs.Costs(found.idle), width)
            for said in costs.footnotes(replace(found, idle=())):
                yield compiles.CompileLine(Text(said, "yellow"))
            yield compiles.CompileLine(Text(""))
            yield from tunings.lines(recording, width, codes)

        super().__init__("Cost", make)

    @property
    def shown(self) -> costs.Costs:
        """The costs in the chosen order, with the hints that were counted."""
        rows = [
            row if row.variant is None else replace(row, hint=self.hints.get(id(row.variant)))
            for row in costs.ordered(self.found.rows, self.order)
        ]
        return replace(self.found, rows=tuple(rows))

    def on_mount(self) -> None:
        self.count()
        look = partial(self.estimates.missing, self.given, self.recording.variants())
        in_thread(self, look, self.estimate, "estimate")

    def count(self) -> None:
        """Look for the hints of some rows in the background, of the most expensive first."""
        variants = [row.variant for row in self.found.rows if row.variant is not None]
        chosen = [one for one in variants if id(one) not in self.hints][:AT_ONCE]

        def look() -> dict[int, str | None]:
            return {id(one): costs.worst(self.reads.hints(one)) for one in chosen}

        def counted(hints: dict[int, str | None]) -> None:
            self.hints.update(hints)
            self.fill()
            self.count()

        if chosen:
            in_thread(self, look, counted, "hints")

    def estimate(self, missing: Sequence[Launched], done: int = 0) -> None:
        """Simulate the first launch that is missing in the background, then the others."""
        many = len(missing)
        self.progress = f"◔ estimating times: {done} of {many}" if done < many else ""

        def simulate() -> costs.Costs:
            self.estimates.simulate(*missing[done])
            return costs.costs(self.recording, self.given)

        def estimated(found: costs.Costs) -> None:
            self.found = found
            self.estimate(missing, done + 1)

        if many:
            self.fill()
        if done < many:
            in_thread(self, simulate, estimated, "estimate")

    def action_sort(self) -> None:
        """Order the rows by the next column: total, µs, launches, kernel."""
        self.order = following(tuple(costs.Order), self.order)
        self.heading = f"Cost by {self.order.value}"
        self.fill()
        self.options.scroll_to_highlight()

    def action_round(self) -> None:
        """Go to the candidate that the chosen kernel was made from, or to its own round."""
        found = self.shown.rows
        chosen = max((self.options.highlighted or 0) - COST_HEADS, 0)
        name = found[chosen].name if chosen < len(found) else ""
        rounds = list(enumerate(self.rows))[len(found) + COST_HEADS :]
        there = [
            n
            for n, row in rounds
            if name and (name in row.about.split(", ") or row.text.plain.startswith(f"{name} · "))
        ]
        if there:
            self.options.highlighted = there[0]
            self.options.scroll_to_highlight(top=True)
        else:
            self.notify("No tuning of this kernel was recorded.")

    def action_timeline(self) -> None:
        """Show when the GPU did what; a kernel that is chosen there is shown as one chosen here."""
        from inspector.tui.work.timeline_screen import TimelineScreen, timeline_of

        def closed(place: str | None) -> None:
            if place is not None:
                self.dismiss(place)

        def opened(screen: TimelineScreen | None) -> None:
            if screen is None:
                self.notify(
                    "No work of a GPU was recorded: ptxview run on a machine with one does."
                )
            else:
                self.app.push_screen(screen, closed)

        in_thread(self, partial(timeline_of, self.recording, self.profiled), opened, "timeline")


def _hanging(text: Text, width: int) -> Text:
    if text.cell_len <= width:
        return text
    indent = " " * (len(text.plain) - len(text.plain.lstrip(" ")) + 2)
    return Text("\n".join(wrap(text.plain, width, subsequent_indent=indent)), text.style)


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
        at=place.line - first,
    )
