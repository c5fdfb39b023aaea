"""Base of the two screens with panes (the kernels, and a block that is run), and their dialogs.

It has the search in all panes, and the lines above the status line, which explain an instruction.
Dialogs show notes and the reference, let columns be chosen, and ask how to leave.
"""

import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rich.text import Text
from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import OptionList, SelectionList

from inspector.analysis.hints.subject import Finding
from inspector.analysis.line_annotations import (
    NO_WORDS,
    NOTHING,
    NOTHING_TOLD,
    Explained,
    Register,
    Told,
    Words,
)
from inspector.base.escapes import shown
from inspector.base.model import GRAPH_STAGES, Recording, Stage, Variant
from inspector.base.units import plural
from inspector.parsers.line import Line
from inspector.reader.reader import Reader
from inspector.recording.layout import is_recording, user_derived_cache
from inspector.render import card as card_report
from inspector.render.tables import wrapped
from inspector.system.printing import page
from inspector.tui.code.code_rows import SEVERITY_SIGNS, Gutter, title
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.highlight import Highlighter, location_of, place
from inspector.tui.keys.command_table import KeyContext
from inspector.tui.panes.pane import Pane
from inspector.tui.panes.panes import Panes
from inspector.tui.program.live import Choice
from inspector.tui.widgets.notice import (
    Notice,
    cancelled,
    cut,
    following,
    in_thread,
    label,
    replace_surrogates,
)
from inspector.tui.widgets.subject import UNKNOWN, RecordingTimes, TreeSubject
from inspector.tui.widgets.tool_screen import ChoiceList, ResultType, SearchScreen

MAX_PROFILE_ROWS = 40
"""Rows of each table: what takes longest."""

NO_HINTS = "No hint: none of the rules found anything to say about this variant."


HEADINGS = {"profile": "Profile", "explain": "Reference"}
"""What is above an answer; elsewhere it is the kernel's name."""


def answer(
    reads: Reader,
    kind: str,
    subject: TreeSubject,
    stage: Stage | None,
    n: int,
    times: Sequence[str],
    verified: str,
    width: int,
) -> Content | tuple[Finding, ...] | Notice:
    """Answer ``card``, ``hints``, ``profile``, or ``explain`` of line ``n`` of ``stage``.

    Called in a thread. ``times`` are lines about a launch's time, ``verified`` what ``verify`` said
    of the kernel, ``width`` the columns there are.
    """
    variant = subject.variant
    if kind == "profile":
        return _profile(reads.recording, max(60, min(140, width)))
    if variant is None:
        return Notice("∅", "No compilation of it was recorded.")
    if kind == "hints":
        return reads.facts.findings(variant) or Content(NO_HINTS)
    if kind == "card":
        width = max(40, min(78, width))
        rows = _times(times, width)
        if verified:
            head = f"{'verified':<{card_report.LABEL}}"
            rows += [first + part for first, part in wrapped(head, verified, width)]
        rows += list(card_report.lines(reads.facts.card(variant), width))
        if subject.kernel is not None:
            for name, text in card_report.origin_rows(reads.graphs.origins(subject.kernel)):
                head = f"{name:<{card_report.LABEL}}"
                rows += [first + part for first, part in wrapped(head, text, width)]
        rows += _picture_rows(reads, subject, width)
        return Content("\n".join(label(row) for row in rows))
    words = () if stage is None else reads.annotations.explain(variant, stage, n)
    if stage is Stage.TTGIR and not words:
        return _layout(reads, variant, n, max(40, min(110, width)))
    return _explained(words) if words else Notice("∅", "No instruction to explain on this line.")


def _profile(recording: Recording, width: int) -> Content | Notice:
    """The tables of a recording's last profile; reading a trace may take seconds."""
    from inspector.measure.profile.read import profiles, why_none
    from inspector.render import profile as profile_report

    path = Path(recording.path)
    if not is_recording(path):
        return Notice("∅", "Only a recording holds profiles.", "ptxview profile SCRIPT makes one.")
    windows, profile, problems = profiles(path, recording, user_derived_cache())
    if profile is None:
        why = "; ".join((*problems, why_none(path)))
        return Notice("∅", f"There is no profile: {shown(why)}.")
    console, written = page(width)
    tables = profile_report.profile_lines(
        profile, len(windows), recording.mode, width, MAX_PROFILE_ROWS
    )
    for part in (*tables, *(Text(f"! {shown(problem)}") for problem in problems)):
        console.print(part)
    return Content.from_rich_text(Text.from_ansi(written()))


def _layout(reads: Reader, variant: Variant, n: int, width: int) -> Content | Notice:
    """The layout of the tensor on a line of TTGIR: which thread holds which element."""
    from inspector.render.pictures.layout_picture import layout_pictures
    from inspector.render.pictures.terminal_picture import picture_lines

    listing = reads.stages.listing(variant, Stage.TTGIR)
    pictures = layout_pictures(listing, listing.between(n, n))
    if not pictures:
        return Notice("∅", "No tensor with a known layout is on this line.")
    return Content("\n".join(label(line.plain) for line in picture_lines(pictures[0], width)))


def _picture_rows(reads: Reader, subject: TreeSubject, width: int) -> list[str]:
    """The pictures of a variant's card, an empty row before each."""
    from inspector.estimate.launches import data_sheet, launch_evidence
    from inspector.render.pictures.card_pictures import card_pictures
    from inspector.render.pictures.terminal_picture import picture_lines

    if subject.kernel is None or subject.variant is None:
        return []
    time = launch_evidence(reads).launch_time(subject.kernel, subject.variant)
    rows = []
    for picture in card_pictures(reads.facts.card(subject.variant), time, data_sheet(reads)):
        rows.append("")
        rows += [line.plain for line in picture_lines(picture, width)]
    return rows


def _times(times: Sequence[str], width: int) -> list[str]:
    times_shown = times or (f"{UNKNOWN} not measured; t takes the time",)
    lines = [
        line for time in times_shown for line in textwrap.wrap(time, width - card_report.LABEL)
    ]
    heads = ("time", *[""] * len(lines))
    return [f"{head:<{card_report.LABEL}}{row}" for head, row in zip(heads, lines, strict=False)]


def _explained(words: Sequence[Explained]) -> Content:
    parts: list[tuple[str, str]] = []
    for word in words:
        entry = word.entry
        kind = "" if entry.kind == "instruction" else f"  {entry.kind}"
        since = f"since {entry.since}" if entry.since else ""
        parts += [
            (entry.word, "bold $primary"),
            (f"{kind}\n", "$quiet"),
            (f"{entry.summary}\n", ""),
        ]
        parts += [(f"  {operand}\n", "$secondary") for operand in entry.operands]
        for name, meaning in word.qualifiers.items():
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
    def _hint_selected(self, message: OptionList.OptionSelected) -> None:
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
        rows = ((title(c), c, c in gutter.selected) for c in gutter.available)
        self.columns = SelectionList[str](*rows)
        super().__init__("Columns", self.columns, "Space chooses, Esc closes")
        self.offered = gutter

    def action_done(self) -> None:
        available = self.offered.available
        selected = self.offered.selected
        # What this listing has nothing for stays as it was wanted.
        unavailable = sorted(set(selected) - set(available))
        self.dismiss((*(c for c in available if c in self.columns.selected), *unavailable))


LEAVING = (
    (Choice.STAY, "s", "Stay", "go on reading"),
    (Choice.LEAVE, "l", "Leave it running", "its output comes here until it ends"),
    (Choice.END, "e", "End it", "as Ctrl-C does; what it recorded so far is kept"),
)


class QuitDialog(ChoiceList[Choice]):
    """Stay, leave it running, end it."""

    BINDINGS: ClassVar = [
        *(Binding(key, f"choose('{choice.value}')", show=False) for choice, key, *_ in LEAVING),
        Binding("escape,q,ctrl+q", "choose('stay')", show=False),
    ]

    def __init__(self) -> None:
        rows = [
            Content.assemble((key, "bold $primary"), f"  {title}  ", (explanation, "$quiet"))
            for _, key, title, explanation in LEAVING
        ]
        super().__init__("The program is still running", OptionList(*rows))

    @on(OptionList.OptionSelected)
    def _option_selected(self, message: OptionList.OptionSelected) -> None:
        self.dismiss(LEAVING[message.option_index][0])

    def action_choose(self, value: str) -> None:
        self.dismiss(Choice(value))


LINES_PER_LOOK = 1000
"""Lines searched before a search asks whether it is still wanted."""


def matches(source: Highlighter, pattern: re.Pattern[str]) -> Iterator[int]:
    for n in range(1, len(source.texts) + 1):
        if n % LINES_PER_LOOK == 0 and cancelled():
            return
        if pattern.search(source.own_text(n)):
            yield n


def _span(lines: tuple[int, ...], word: str) -> str:
    if len(lines) > 1:
        return f"{word} at {lines[0]} … {lines[-1]}, {len(lines)} times"
    return f"{word} at {lines[0]}" if lines else ""


class LineTexts(NamedTuple):
    """All annotations of one line."""

    words: Words = NO_WORDS
    annotation: Told = NOTHING_TOLD
    registers: tuple[Register, ...] = ()


class ReadingLine(Widget):
    """The sentence, notes, waits, and the register that is looked at, as there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = LineTexts()
        self.register: str | None = None
        self._view: CodeView | None = None
        self._fitting: Timer | None = None

    def follow(self, view: CodeView) -> None:
        if self._view is not None and self._view is not view:
            self._view.light_up(None)
        self._view = view
        n = view.cursor
        gutter = view.rows.gutter

        def read() -> LineTexts:
            annotations = gutter.annotations
            return LineTexts(annotations.words(n), annotations.at(n), annotations.registers(n))

        def show(texts: LineTexts) -> None:
            if view is self._view and view.cursor == n and view.rows.gutter is gutter:
                self.texts = texts
                names = [register.name for register in self.texts.registers]
                if self.register not in names:
                    self.register = names[0] if names else None
                self._light_up()

        if view.lines:
            self.border_title = Content(f"Line {n}")
            in_thread(self, read, show, "words", failed=lambda _: show(LineTexts()))
        else:
            show(LineTexts())

    def next_register(self) -> bool:
        names = [register.name for register in self.texts.registers]
        if names:
            self.register = following(names, self.register)
            self._light_up()
        return bool(names)

    def _light_up(self) -> None:
        if self._view is not None:
            self._view.light_up(self.looked_at)
        self.refresh()
        if self._fitting is not None:
            self._fitting.stop()
        self._fitting = self.set_timer(REST_SECONDS, self.fit) if self.is_mounted else None

    @property
    def looked_at(self) -> Register | None:
        return next(
            (register for register in self.texts.registers if register.name == self.register), None
        )

    def parts(self) -> list[tuple[str, str]]:
        words, annotation, _ = self.texts
        out = [(words.sentence, "$foreground")] if words.sentence else []
        out += [
            (f"{SEVERITY_SIGNS.get(n.severity, '·')} {n.rule}: {n.text}", "$warning")
            for n in annotation.notes
        ]
        out += [(wait, "$secondary") for wait in words.waits]
        if (register := self.looked_at) is not None and (register.defined or register.used):
            places = (_span(register.defined, "defined"), _span(register.used, "used"))
            out.append((f"{register.name}: {', '.join(p for p in places if p)}", "$accent"))
        rolled = annotation.rolled
        if rolled is not None and rolled.live.get("gpr"):
            limit = "up to " if rolled.instructions > 1 else ""
            peak = ", the kernel's peak" if rolled.peak else ""
            live = f"{limit}{plural(rolled.live['gpr'], 'live register')}{peak}"
            stall = "" if rolled.stall is None else f" · {plural(rolled.stall, 'stall cycle')}"
            instruction_count = plural(rolled.instructions, "SASS instruction")
            out.append((f"{instruction_count} · {live}{stall}", "$quiet"))
        return [(label(text), style) for text, style in out]

    def render(self) -> Content:
        width = self.size.width - 2
        height = max(1, self.size.height)
        parts = self.parts() or [(self._without_words(), "$quiet")]
        if self.is_roomy(parts):
            rows = [Content.styled(*part) for part in stacked(parts, width, height)]
        else:
            rows = self._wrapped(parts, width, height)
        return Content("\n").join(Content.assemble(" ", row) for row in rows)

    def is_roomy(self, parts: list[tuple[str, str]]) -> bool:
        """Whether each part begins on a new row."""
        return self.max_rows >= MIN_ROOMY_ROWS and len(parts) <= self.max_rows

    def _wrapped(self, parts: list[tuple[str, str]], width: int, height: int) -> list[Content]:
        """All parts one after another, on at most ``height`` rows."""
        wrapped = Content("   ").join(Content.styled(*part) for part in parts).wrap(width)
        rows = list(wrapped[:height])
        if len(wrapped) > height:
            rows[-1] = rows[-1].truncate(width - 1) + "…"
        return rows

    def _without_words(self) -> str:
        """Status of a line without annotation."""
        view = self._view
        source = None if view is None else view.source
        if view is None or source is None or view.rows.gutter.annotations is NOTHING:
            return ""
        if source.listing.language in CODE_LANGUAGES:
            return "No instruction on this line."
        upper = view.rows.gutter.annotations.upper
        return "No machine code comes from this line." if upper and view.cursor not in upper else ""

    @property
    def is_fitting(self) -> bool:
        """Whether its height will change as soon as the cursor rests."""
        return self._fitting is not None

    @property
    def max_rows(self) -> int:
        """Rows that the text takes at most on a screen of this height."""
        height = self.screen.size.height
        return next(rows for least, rows in MAX_READING_ROWS if height >= least)

    def fit(self) -> None:
        """Take the rows that the text needs: what it leaves is for the panes."""
        self._fitting = None
        if not self.is_mounted:
            return
        width = max(8, self.size.width - 2)
        parts = self.parts()
        if self.is_roomy(parts):
            needed = len(stacked(parts, width, self.max_rows))
        else:
            needed = len(self._wrapped(parts, width, self.max_rows))
        rows = max(1, needed) + bool(self.styles.border_top[0])
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    on_resize = fit


CODE_LANGUAGES = frozenset(("ttir", "ttgir", "llvm", "ptx", "sass"))
"""Languages whose lines are instructions, or are about them."""

REST_SECONDS = 0.1
"""How long the cursor rests before the panes are laid out for the text: keys do not wait for it."""

MAX_READING_ROWS = ((56, 8), (40, 6), (30, 2), (0, 1))
"""From so many rows of the screen on, rows that the annotations of a line take at most."""

MIN_ROOMY_ROWS = 4


def stacked(parts: list[tuple[str, str]], width: int, height: int) -> list[tuple[str, str]]:
    """Wrap each of at most ``height`` parts on separate rows; cut the longest to make all fit."""
    wrapped = [textwrap.wrap(text, max(8, width), subsequent_indent="  ") for text, _ in parts]
    allowed = [max(1, len(rows)) for rows in wrapped]
    while sum(allowed) > height:
        longest = max(range(len(allowed)), key=lambda index: (allowed[index], index))
        allowed[longest] -= 1
    for rows, max_rows in zip(wrapped, allowed, strict=True):
        if max_rows < len(rows):
            rows[max_rows - 1 :] = [cut(rows[max_rows - 1], width - 1).removesuffix("…") + "…"]
    return [
        (cut(row, width), style)
        for (_, style), rows in zip(parts, wrapped, strict=True)
        for row in rows
    ]


# Dialogs are imported when they are opened: the first frame does not wait for them.

FRAME_CELLS = 6
"""Cells of an overlay's border, margins and scrollbar."""

OWN_LINES = (Stage.SOURCE, Stage.OUTPUT_CODE, *GRAPH_STAGES)
"""Stages whose lines name no place of their own: a graph's have the user's lines beside them."""


def _place_of(view: CodeView) -> tuple[object, ...]:
    return (view, view.source, view.cursor, view.pattern, view.selection_start)


class PaneScreen(SearchScreen[ResultType]):
    """Panes, the lines beneath them, and what can be done with the active pane's line."""

    def __init__(self, reads: Reader, panes: Panes, times: RecordingTimes) -> None:
        super().__init__()
        self.reads = reads
        self.panes = panes
        self.times = times
        self.reading = ReadingLine()
        self._pattern: re.Pattern[str] | None = None

    @property
    def view(self) -> CodeView:
        return self.panes.active.view

    def home_of(self, context: KeyContext) -> DOMNode:
        return self.view if context in (KeyContext.PANE, KeyContext.MOVE) else self

    def legend(self) -> list[tuple[str, str]]:
        from inspector.tui.find.legend import line_legend

        return line_legend(self.view)

    def warn(self, text: str) -> None:
        self.say(text, warning=True)

    def say(self, text: str, view: CodeView | None = None, warning: bool = False) -> None:
        self.status.say(text, warning, _place_of(view or self.view))

    @property
    def about(self) -> str:
        """What the status line says in place of where a line is from."""
        return ""

    @on(Panes.Changed)
    def changed(self) -> None:
        view = self.view
        stage = self.panes.active.stage
        location = ""
        right = []
        if view.source is not None and view.lines:
            source_place = ""
            if stage not in OWN_LINES:
                line_location = location_of(view.source.listing, view.cursor)
                library_place = "" if line_location else self.panes.subject.library_place
                source_place = library_place or place(line_location)
            location = f"{stage} {view.cursor}/{view.lines}  {self.about or source_place}"
        if view.selected_lines is not None:
            right.append(f"lines {view.selected_lines[0]} to {view.selected_lines[1]}, y copies")
        if view.pattern is not None:
            index = bisect_right(view.matches, view.cursor)
            on = f"{index} of " if view.cursor in view.matches[index - 1 : index] else ""
            counts = ", ".join((f"{on}{len(view.matches)}", *self._matches()))
            right.append(f"/{label(view.pattern.pattern)}/  {counts}")
        for pane in self.panes.panes:
            lines = self.panes.linked_lines(pane)
            if pane is not self.panes.active and self.panes.unlinked(pane):
                right.append(f"nothing links {stage} and {pane.stage}")
            elif pane is not self.panes.active and lines:
                right.append(f"▐ {len(lines)} in {pane.stage}")
        self.status.show(location, "   ".join(right) if location else "", place=_place_of(view))
        self.reading.follow(view)

    def find(self, pattern: re.Pattern[str] | None, typing: bool = False) -> None:
        """Find the lines that have a pattern, in a thread; the next search ends this one."""
        self._pattern = pattern
        views = [(p.view, p.view.source) for p in self.panes.panes if p.view.source is not None]
        if pattern is None:
            for view, _ in views:
                view.find(None, ())
            self.changed()
            return

        def work() -> list[tuple[int, ...]]:
            return [tuple(matches(source, pattern)) for _, source in views]

        def show_matches(lines: list[tuple[int, ...]]) -> None:
            if pattern is self._pattern:
                for (view, source), view_lines in zip(views, lines, strict=True):
                    if view.source is source:
                        view.find(pattern, view_lines)
                self._reach(typing)

        in_thread(self.panes, work, show_matches, "search", failed=self.fail)

    def _reach(self, typing: bool) -> None:
        """Go to the first match from where the search began, if it has not ended."""
        view = self.view
        lines = self.view.matches
        start = view.cursor
        if self.origin is not None:
            start = self.origin[1] if self.origin[0] is view else start
            target = lines[bisect_left(lines, start) % len(lines)] if lines else start
            if not typing and target != start:
                self.panes.leave(view, start)
            if target != view.cursor:
                view.go(target)
        self.changed()
        if self.origin is not None and not typing:
            self.origin = None
            if not lines and view.pattern is not None:
                elsewhere = f" here; {', '.join(self._matches())}" if self._matches() else ""
                self.warn(f"Nothing matches “{label(view.pattern.pattern)}”{elsewhere}.")

    def _matches(self) -> list[str]:
        return [
            f"{len(pane.view.matches)} in {pane.stage}"
            for pane in self.panes.panes
            if pane is not self.panes.active and pane.view.matches
        ]

    def action_goto(self) -> None:
        self.ask("goto", "", self._go_to)

    def _go_to(self, text: str | None) -> None:
        if text and text.isdecimal() and len(text) < 10:
            self.view.jump(int(text))
        elif text:
            app: Any = self.app
            app.action_find(text)

    @on(Pane.Shown)
    def _search_again(self, message: Pane.Shown) -> None:
        view = message.pane.view
        if view.pattern is not None and view.source is not None:
            self.find(self._pattern or view.pattern, typing=True)

    def action_stage(self, stage: str) -> None:
        self.panes.choose(Stage(stage))

    def action_zoom(self) -> None:
        self.panes.zoomed = not self.panes.zoomed
        self.panes.fit()

    def action_turn(self) -> None:
        self.panes.beside = not self.panes.has_class("-beside")
        self.panes.zoomed = False
        self.panes.fit()

    def action_choose_columns(self) -> None:
        from inspector.tui.panes.pane_screen import ColumnList

        if self.view.rows.gutter.available:
            self.app.push_screen(ColumnList(self.view.rows.gutter), self.show_columns)
        else:
            self.warn("There are no columns for this listing.")

    def show_columns(self, selected: tuple[str, ...] | None) -> None:
        if selected is not None:
            self.view.columns(selected=selected)

    @property
    def line(self) -> Line | None:
        source = self.view.source
        return source.listing.lines[self.view.cursor - 1] if source and self.view.lines else None

    def copy_lines(self, first: int, last: int) -> None:
        source = self.view.source
        if source is not None:
            self.app.copy_to_clipboard(
                replace_surrogates("\n".join(source.texts[first - 1 : last]))
            )
            lines_are = f"Line {first} is" if first == last else f"Lines {first} to {last} are"
            self.say(f"{lines_are} on the clipboard.")

    def action_copy(self) -> None:
        first, last = self.view.selected_lines or (self.view.cursor, self.view.cursor)
        self.view.clear_selection()
        self.copy_lines(first, last)

    def action_register(self) -> None:
        if not self.reading.next_register():
            self.warn("This line has no register that is known.")

    def action_understand(self, kind: str) -> None:
        from inspector.render.verify import kept_text
        from inspector.tui.panes.pane_screen import answer

        subject = self.panes.subject
        width = self.app.size.width - FRAME_CELLS
        device = str((self.reads.recording.device or {}).get("name") or "")
        times = self.times.lines(*subject.pair, device) if subject.variant else []
        verdict = self.times.verdict(subject.variant)
        verified = "" if verdict is None else kept_text(verdict)
        stage = self.panes.active.stage
        n = self.view.cursor
        work = partial(answer, self.reads, kind, subject, stage, n, times, verified, width)
        then = partial(self._answered, kind, subject)
        in_thread(self, work, then, "understand", failed=then)

    def _answered(
        self, kind: str, subject: TreeSubject, result: Content | tuple[Finding, ...] | Notice
    ) -> None:
        from inspector.tui.panes.pane_screen import HEADINGS, HintList
        from inspector.tui.widgets.tool_screen import Overlay

        heading = HEADINGS.get(kind) or f"{label(subject.name)} {subject.key[1]}"
        if isinstance(result, Notice):
            heading, result = "", Content(f"{result.message}\n{result.hint}".strip())
        if isinstance(result, tuple):
            self.app.push_screen(HintList(heading, result), self.to_hint)
        else:
            self.app.push_screen(Overlay(heading, result, wide=kind == "profile"))

    def to_hint(self, finding: Finding | None) -> None:
        shown = [pane.stage for pane in self.panes.panes if pane.stage is not None]
        for stage in (*shown, Stage.PTX, Stage.SASS, Stage.TTGIR, *Stage):
            if finding is not None and (lines := finding.lines.get(stage)):
                self.panes.display = True
                self.panes.jump(stage, lines[0])
                return
