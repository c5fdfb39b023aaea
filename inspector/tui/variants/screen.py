"""All variants of a kernel in one table: sorted by any column, any two of them compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from inspector.diff import compare, variants
from inspector.diff.variants import VariantRow
from inspector.model import Kernel, Stage, Variant
from inspector.reader.reader import Reader
from inspector.report import diff_text
from inspector.text import plural
from inspector.tui.app.command_table import BARE, Where, bindings_of, command
from inspector.tui.diff.bars import DiffStatus
from inspector.tui.diff.screen import DiffScreen
from inspector.tui.main.outcome import attempt
from inspector.tui.timing.times import RecordingTimes, age
from inspector.tui.variants.table import VariantTable
from inspector.tui.widgets.key_footer import KeyFooter
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.visible import label, shorten

OFTEN = 0.2
"""Seconds between two tables while the variants are read."""


@dataclass(frozen=True, slots=True)
class Left:
    """How the table was left: what is marked, and the variant that is to be read, None: none."""

    marked: tuple[TreeSubject, ...]
    read: TreeSubject | None = None


def recorded(kernel: Kernel) -> tuple[VariantRow, ...]:
    """What is known without reading anything."""
    rows = [
        VariantRow(
            kernel,
            v,
            v.config,
            v.known,
            time_us=variants.time_us(v),
            winner=variants.winner(v),
            reason=variants.reason(v),
        )
        for v in kernel.variants
    ]
    return (*rows, *variants.without_variant(kernel))


def read(reads: Reader, kernel: Kernel, variant: Variant, earlier: VariantRow) -> VariantRow:
    """A variant's row with its figures; what cannot be read says why."""

    def work() -> VariantRow:
        rows = compare.variant_rows(reads, [(kernel, variant)], Stage.PTX)
        return next(row for row in rows if row.variant is variant)

    row = attempt(work)
    if isinstance(row, VariantRow):
        return row
    return VariantRow(kernel, variant, earlier.config, earlier.resources, time_us=earlier.time_us,
               winner=earlier.winner, reason=row.message)  # fmt: skip


class VariantsBar(Widget):
    """The first line: of which kernel, how many, in which order."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.told = ""

    def tell(self, told: str) -> None:
        """What stands at the right."""
        self.told = told
        self.refresh()

    def render(self) -> Content:
        """``variants  matmul_kernel   5 variants · by registers``."""
        width = self.size.width
        head = " variants  "
        said = shorten(self.told, width - len(head) - 8)
        room = width - len(head) - Content(said).cell_length - 3
        name = shorten(label(self.kernel.demangled or self.kernel.name), room)
        gap = max(1, width - len(head) - Content(name).cell_length - Content(said).cell_length - 1)
        return Content.assemble((head, "bold"), (name, ""), (" " * gap, ""), (said, "bold $accent"))


class VariantsScreen(Screen[Left]):
    """The table, filled by a thread."""

    BINDINGS = bindings_of(BARE)
    AUTO_FOCUS = "VariantTable"
    wheres: ClassVar = (Where.VARIANTS,)

    class Known(Message):
        """A thread has read some more; ``left`` is how many variants it has not."""

        def __init__(self, rows: tuple[VariantRow, ...], left: int) -> None:
            super().__init__()
            self.rows = rows
            self.left = left

    def __init__(
        self, reads: Reader, kernel: Kernel, marked: tuple[TreeSubject, ...] = (),
        at: Variant | None = None, times: RecordingTimes | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.times = times if times is not None else RecordingTimes(reads.recording.path)
        self.reads = reads
        self.kernel = kernel
        self.bar = VariantsBar(kernel)
        rows = recorded(kernel)
        self.table = VariantTable(rows, self.times.us, marked)
        self.table.cursor = next((i for i, r in enumerate(rows) if at and r.variant is at), 0)
        self.status = DiffStatus()
        self.footer = KeyFooter()
        self.footer.where = Where.VARIANTS
        self.left = len(kernel.variants)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.bar
        yield self.table
        yield self.status
        yield self.footer

    def on_mount(self) -> None:
        """Read every variant."""
        self._tell()
        self._read(self.table.known)

    @property
    def settled(self) -> bool:
        """Whether every variant was read."""
        return self.left == 0

    @work(
        thread=True, exclusive=True, group="variants", exit_on_error=False, description="variants"
    )
    def _read(self, rows: tuple[VariantRow, ...]) -> None:
        held, last = list(rows), monotonic()
        left = len(self.kernel.variants)
        for index, row in enumerate(rows):
            if row.variant is None or not self.is_attached:
                continue
            held[index] = read(self.reads, self.kernel, row.variant, row)
            left -= 1
            if monotonic() - last > OFTEN:
                self.post_message(self.Known(tuple(held), left))
                last = monotonic()
        self.post_message(self.Known(tuple(held), 0))

    @on(Known)
    def _known(self, message: Known) -> None:
        message.stop()
        self.left = message.left
        self.table.renew(message.rows)
        self._tell()

    @on(VariantTable.Changed)
    def _tell(self) -> None:
        many = len(self.kernel.variants)
        parts = [plural(many, "variant")]
        others = Counter(diff_text.absent(row) for row in self.table.known if row.variant is None)
        parts += [f"{count} {words}" for words, count in others.items()]
        if self.left:
            parts.append(f"◔ reading {many - self.left} of {many}")
        if self.table.sorted is not None:
            parts.append(f"by {self.table.sorted}")
        self.bar.tell(" · ".join(parts))
        names = [f"{letter} {label(one.key[1])}"
                 for letter, one in zip("AB", self.table.marked, strict=False)]  # fmt: skip
        hint = ("d marks two variants, D compares them", "d marks another, D compares it with this",
                "D compares them")[len(names)]  # fmt: skip
        row = self.table.row
        why = "" if row is None or not row.reason else f"   {label(row.reason)}"
        if row is not None and (taken := self.times.latest(row.kernel, row.variant)) is not None:
            why += f"   Measured {age(taken)}, {taken.timing.cache} L2."
        marked = f"Marked: {', '.join(names)}. " if names else ""
        self.status.say(f"{marked}{hint}.{why}")

    # Commands

    def action_diff(self) -> None:
        """Compare the two that are marked, or the one that is marked with the one here."""
        row, marked = self.table.row, self.table.marked
        here = None if row is None else self.table.subject(row)
        pair = (*marked, here) if len(marked) < 2 and here not in marked else marked
        a, b = (*pair, None, None)[:2]
        if a is None or b is None:
            self.status.say("Two variants are compared: d marks one, and another.")
        else:
            self.app.push_screen(DiffScreen(self.reads, a, b))

    def action_open(self) -> None:
        """Go to the variant, and close the table."""
        row = self.table.row
        own = None if row is None else self.table.subject(row)
        if own is None:
            certain = row is not None and row.compiled is False
            self.status.say(
                "It was not compiled: there is nothing to read."
                if certain
                else "Which variant this is, is not known: there is nothing to read."
            )
        else:
            self.dismiss(Left(self.table.marked, own))

    def action_back(self) -> None:
        """Close the table."""
        self.dismiss(Left(self.table.marked))

    async def action_tell_app(self, name: str) -> None:
        """Something that is the application's affair."""
        await self.app.run_action(name)

    async def action_run(self, name: str) -> None:
        """Run a command of the table, for the palette and the footer."""
        chosen = command(name)
        home = self.table if chosen.where is Where.VARIANTS else self
        await self.app.run_action(chosen.action, home)
