"""What the reference and the analysis say, over the screen: the card, the hints, an instruction."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from inspector.analyse.hints.subject import Finding
from inspector.analyse.telling import Explained
from inspector.measure.profile.read import profiles, why_none
from inspector.model import Kernel, Recording, Stage, Variant
from inspector.printing import page
from inspector.recording.layout import is_recording, kept_cache
from inspector.report import card as card_report
from inspector.report import profile as profile_report
from inspector.text import shown
from inspector.tui.code.gutter import SIGNS
from inspector.tui.widgets.figures import UNKNOWN
from inspector.tui.widgets.notice import Notice
from inspector.tui.widgets.overlay import Overlay
from inspector.tui.widgets.recorded_times import RecordingTimes
from inspector.tui.widgets.subject import TreeSubject
from inspector.tui.widgets.threads import attempt
from inspector.tui.widgets.visible import label

if TYPE_CHECKING:
    from inspector.reader.reader import Reader

# -- what a profile left --------------------------------------------------------------------------
# What ``ptxview profile`` kept with a recording, as one text.

TOP = 40
"""Rows of each table: what takes longest."""


def profile_text(recording: Recording, width: int) -> Content | Notice:
    """The tables of its last profile, in so many columns; a notice where there is none.

    Reads a trace when it is asked for the first time, which may take seconds: for a thread. Raises
    ``Unreadable``.
    """
    path = Path(recording.path)
    if not is_recording(path):
        return Notice("∅", "Only a recording holds profiles.", "ptxview profile SCRIPT makes one.")
    windows, profile, problems = profiles(path, recording, kept_cache())
    if profile is None:
        why = "; ".join((*problems, why_none(path)))
        return Notice("∅", f"There is no profile: {shown(why)}.")
    console, written = page(width)
    for part in profile_report.whole(profile, len(windows), recording.mode, width, TOP):
        console.print(part)
    for said in problems:
        console.print(Text(f"! {shown(said)}"))
    return Content.from_rich_text(Text.from_ansi(written()))


class HintList(ModalScreen[Finding | None]):
    """The hints on a variant; Enter goes to the first line that one was seen on."""

    BINDINGS: ClassVar = [
        Binding("escape,q,H", "dismiss", "Close", show=False),
        Binding("j", "cursor(1)", show=False),
        Binding("k", "cursor(-1)", show=False),
    ]

    def __init__(self, name: str, findings: tuple[Finding, ...]) -> None:
        super().__init__()
        self.heading = name
        self.findings = findings

    def compose(self) -> ComposeResult:
        """One option a hint."""
        options = OptionList(*(Option(_hint(f), id=str(n)) for n, f in enumerate(self.findings)))
        options.border_title = Content(f"Hints · {self.heading}")
        options.border_subtitle = Content("Enter goes there, Esc closes")
        yield options

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self.findings[message.option_index])

    def action_cursor(self, by: int) -> None:
        """Up or down."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()


def _hint(finding: Finding) -> Content:
    places = "   ".join(
        f"{stage.value} {', '.join(map(str, lines[:6]))}{' …' if len(lines) > 6 else ''}"
        for stage, lines in finding.lines.items()
        if lines
    )
    return Content.assemble(
        (f"{SIGNS.get(finding.severity, '·')} {finding.rule}", "bold $warning"),
        (f"   {places}\n" if places else "\n", "$quiet"),
        (label(finding.text), ""),
    )


def explained(explained: tuple[Explained, ...]) -> Content:
    """The words of a line as the reference has them."""
    parts: list[tuple[str, str]] = []
    for one in explained:
        entry = one.entry
        parts.append((entry.word, "bold $primary"))
        parts.append((f"  {entry.kind}\n" if entry.kind != "instruction" else "\n", "$quiet"))
        parts.append((f"{entry.summary}\n", ""))
        parts += [(f"  {operand}\n", "$secondary") for operand in entry.operands]
        for name, meaning in one.qualifiers.items():
            parts += [(f"  {label(name)}  ", "bold $accent"), (f"{meaning or UNKNOWN}\n", "")]
        since = f"since {entry.since}" if entry.since else ""
        parts.append(("  ".join(p for p in (entry.reference, since) if p) + "\n\n", "$quiet"))
    return Content.assemble(*parts)


class Understanding(Widget):
    """Asks in threads, and shows the answers when they come; it draws nothing itself."""

    class Answer(Message):
        """A thread has an answer: what to show, or why there is none."""

        def __init__(
            self, heading: str, found: Content | tuple[Finding, ...] | Notice, wide: bool = False
        ) -> None:
            super().__init__()
            self.wide = wide
            self.heading = heading
            self.found = found

    class Jump(Message):
        """A hint was chosen that was seen on lines."""

        def __init__(self, stage: Stage, n: int) -> None:
            super().__init__()
            self.stage = stage
            self.n = n

    def __init__(self, reads: Reader, times: RecordingTimes) -> None:
        super().__init__()
        self.reads = reads
        self.times = times
        self.display = False

    def ask(self, what: str, subject: TreeSubject, stage: Stage | None, n: int) -> None:
        """``card`` and ``hints`` of a subject's variant, ``explain`` of line ``n`` of a stage, the
        ``profile`` of the whole run."""
        if what == "profile":
            # What the frame has within its border, its margins and its scrollbar.
            self._profile(max(60, min(140, self.app.size.width - 6)))
        elif subject.variant is None:
            self.post_message(self.Answer("", Notice("∅", "No compilation of it was recorded.")))
        else:
            times = self._times(subject.kernel, subject.variant)
            self._find(what, subject.name, subject.variant, stage, n, times)

    @work(
        thread=True,
        exclusive=True,
        group="understand",
        exit_on_error=False,
        description="profile",
    )
    def _profile(self, width: int) -> None:
        recording = self.reads.recording
        answer = attempt(lambda: profile_text(recording, width))
        self.post_message(self.Answer("Profile", answer, wide=True))

    def _times(self, kernel: Kernel | None, variant: Variant) -> tuple[str, ...]:
        """What was measured of a variant, a line each."""
        if kernel is None:
            return ()
        device = (self.reads.recording.device or {}).get("name")
        return tuple(self.times.lines(kernel, variant, str(device or "")))

    @work(
        thread=True,
        exclusive=True,
        group="understand",
        exit_on_error=False,
        description="understand",
    )
    def _find(
        self, what: str, name: str, variant: Variant, stage: Stage | None, n: int,
        times: tuple[str, ...],
    ) -> None:  # fmt: skip
        heading = f"{label(name)} {variant.id}"
        found: Content | tuple[Finding, ...] | Notice
        if what == "hints":
            found = attempt(lambda: self.reads.findings(variant))
        elif what == "card":
            # What the frame has within its border, its margins and its scrollbar.
            width = max(40, min(78, self.app.size.width - 6))
            found = attempt(lambda: _card(self.reads, variant, times, width))
        else:
            heading = "Reference"
            found = attempt(lambda: self._explain(variant, stage, n))
        self.post_message(self.Answer(heading, found))

    def _explain(self, variant: Variant, stage: Stage | None, n: int) -> Content | Notice:
        words = () if stage is None else self.reads.explain(variant, stage, n)
        if words:
            return explained(words)
        return Notice("∅", "No instruction to explain on this line.")

    @on(Answer)
    def _answered(self, message: Answer) -> None:
        message.stop()
        answer = message.found
        if isinstance(answer, Content):
            self.app.push_screen(Overlay(message.heading, answer, wide=message.wide))
        elif isinstance(answer, tuple):
            if answer:
                self.app.push_screen(HintList(message.heading, answer), self._jump)
            else:
                self.app.push_screen(Overlay(message.heading, Content(NO_HINTS)))
        else:
            self.app.push_screen(Overlay("", Content(f"{answer.message}\n{answer.hint}".strip())))

    def _jump(self, finding: Finding | None) -> None:
        if finding is None:
            return
        for stage in (Stage.PTX, Stage.SASS, Stage.TTGIR, *Stage):
            if lines := finding.lines.get(stage):
                self.post_message(self.Jump(stage, lines[0]))
                return


NO_HINTS = "No hint: none of the rules found anything to say about this variant."


def _card(reads: Reader, variant: Variant, times: tuple[str, ...], width: int) -> Content:
    rows = []
    for said in times or (f"{UNKNOWN} not measured; t takes the time",):
        head = "" if said in times[1:] else "measured"
        for line in textwrap.wrap(said, width - card_report.LABEL):
            rows.append(f"{head:<{card_report.LABEL}}{line}")
            head = ""
    rows += card_report.lines(reads.card(variant), width)
    return Content("\n".join(label(row) for row in rows))
