"""Dialogs: what the analysis and the reference say, columns to choose, and how to leave."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.widgets import OptionList, SelectionList

from inspector.analyse.hints.subject import Finding
from inspector.analyse.line_annotations import Explained
from inspector.base.model import Recording, Stage
from inspector.base.text import shown
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording, kept_cache
from inspector.report import card as card_report
from inspector.system.printing import page
from inspector.tui.code.code_rows import SEVERITY_SIGNS, Gutter, title
from inspector.tui.program.live import Choice
from inspector.tui.widgets.notice import Notice, label
from inspector.tui.widgets.subject import UNKNOWN, TreeSubject
from inspector.tui.widgets.tool_screen import ChoiceList

MAX_PROFILE_ROWS = 40
"""Rows of each table: what takes longest."""

NO_HINTS = "No hint: none of the rules found anything to say about this variant."


HEADINGS = {"profile": "Profile", "explain": "Reference"}
"""What is above an answer; elsewhere it is the kernel's name."""


def answer(
    reads: Reader,
    what: str,
    subject: TreeSubject,
    stage: Stage | None,
    n: int,
    times: Sequence[str],
    width: int,
) -> Content | tuple[Finding, ...] | Notice:
    """Answer ``card``, ``hints``, ``profile``, or ``explain`` of line ``n`` of ``stage``.

    Called in a thread. ``times`` are lines about measured times, ``width`` the columns there are.
    """
    variant = subject.variant
    if what == "profile":
        return _profile(reads.recording, max(60, min(140, width)))
    if variant is None:
        return Notice("∅", "No compilation of it was recorded.")
    if what == "hints":
        return reads.findings(variant) or Content(NO_HINTS)
    if what == "card":
        width = max(40, min(78, width))
        rows = _times(times, width) + list(card_report.lines(reads.card(variant), width))
        return Content("\n".join(label(row) for row in rows))
    words = () if stage is None else reads.explain(variant, stage, n)
    return _explained(words) if words else Notice("∅", "No instruction to explain on this line.")


def _profile(recording: Recording, width: int) -> Content | Notice:
    """The tables of a recording's last profile; reading a trace may take seconds."""
    from inspector.measure.profile.read import profiles, why_none
    from inspector.report import profile as profile_report

    path = Path(recording.path)
    if not is_recording(path):
        return Notice("∅", "Only a recording holds profiles.", "ptxview profile SCRIPT makes one.")
    windows, profile, problems = profiles(path, recording, kept_cache())
    if profile is None:
        why = "; ".join((*problems, why_none(path)))
        return Notice("∅", f"There is no profile: {shown(why)}.")
    console, written = page(width)
    tables = profile_report.whole(profile, len(windows), recording.mode, width, MAX_PROFILE_ROWS)
    for part in (*tables, *(Text(f"! {shown(said)}") for said in problems)):
        console.print(part)
    return Content.from_rich_text(Text.from_ansi(written()))


def _times(times: Sequence[str], width: int) -> list[str]:
    said = times or (f"{UNKNOWN} not measured; t takes the time",)
    lines = [line for one in said for line in textwrap.wrap(one, width - card_report.LABEL)]
    heads = ("measured", *[""] * len(lines))
    return [f"{head:<{card_report.LABEL}}{row}" for head, row in zip(heads, lines, strict=False)]


def _explained(words: Sequence[Explained]) -> Content:
    parts: list[tuple[str, str]] = []
    for one in words:
        entry = one.entry
        kind = "" if entry.kind == "instruction" else f"  {entry.kind}"
        since = f"since {entry.since}" if entry.since else ""
        parts += [
            (entry.word, "bold $primary"),
            (f"{kind}\n", "$quiet"),
            (f"{entry.summary}\n", ""),
        ]
        parts += [(f"  {operand}\n", "$secondary") for operand in entry.operands]
        for name, meaning in one.qualifiers.items():
            parts += [(f"  {label(name)}  ", "bold $accent"), (f"{meaning or UNKNOWN}\n", "")]
        parts.append(("  ".join(p for p in (entry.reference, since) if p) + "\n\n", "$quiet"))
    return Content.assemble(*parts)


class HintList(ChoiceList[Finding | None]):
    """The hints on a variant; Enter goes to the first line that one was seen on."""

    BINDINGS: ClassVar = [Binding("escape,q,H", "dismiss", show=False)]

    def __init__(self, name: str, findings: tuple[Finding, ...]) -> None:
        rows = OptionList(*map(_hint, findings))
        super().__init__(f"Hints · {name}", rows, "Enter goes there, Esc closes")
        self.findings = findings

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(self.findings[message.option_index])


def _hint(finding: Finding) -> Content:
    places = "   ".join(
        f"{stage.value} {', '.join(map(str, lines[:6]))}{' …' if len(lines) > 6 else ''}"
        for stage, lines in finding.lines.items()
        if lines
    )
    return Content.assemble(
        (f"{SEVERITY_SIGNS.get(finding.severity, '·')} {finding.rule}", "bold $warning"),
        (f"   {places}\n" if places else "\n", "$quiet"),
        (label(finding.text), ""),
    )


class ColumnList(ChoiceList[tuple[str, ...]]):
    """The columns that the listing has something for; answers with those that are wanted."""

    BINDINGS: ClassVar = [Binding("escape,q,C", "done", show=False, priority=True)]

    def __init__(self, gutter: Gutter) -> None:
        rows = ((title(c), c, c in gutter.wanted) for c in gutter.there)
        self.columns = SelectionList[str](*rows)
        super().__init__("Columns", self.columns, "Space chooses, Esc closes")
        self.offered = gutter

    def action_done(self) -> None:
        there, wanted = self.offered.there, self.offered.wanted
        # What this listing has nothing for stays as it was wanted.
        kept = sorted(set(wanted) - set(there))
        self.dismiss((*(c for c in there if c in self.columns.selected), *kept))


LEAVING = (
    (Choice.STAY, "s", "Stay", "go on reading"),
    (Choice.LEAVE, "l", "Leave it running", "its output comes here until it ends"),
    (Choice.END, "e", "End it", "as Ctrl-C does; what it recorded so far is kept"),
)


class Leaving(ChoiceList[Choice]):
    """Stay, leave it running, end it."""

    BINDINGS: ClassVar = [
        *(Binding(key, f"choose('{choice.value}')", show=False) for choice, key, *_ in LEAVING),
        Binding("escape,q,ctrl+q", "choose('stay')", show=False),
    ]

    def __init__(self) -> None:
        rows = [
            Content.assemble((key, "bold $primary"), f"  {title}  ", (what, "$quiet"))
            for _, key, title, what in LEAVING
        ]
        super().__init__("The program is still running", OptionList(*rows))

    @on(OptionList.OptionSelected)
    def _chosen(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(LEAVING[message.option_index][0])

    def action_choose(self, value: str) -> None:
        self.dismiss(Choice(value))
