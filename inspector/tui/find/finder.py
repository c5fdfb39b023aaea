"""A searchable list over the screen: the palette of everything that has a name, and the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import PurePath
from typing import ClassVar, cast

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from inspector.base.model import Recording, Stage, Variant
from inspector.base.units import plural
from inspector.parsers.line import Listing
from inspector.reader.query import completions, folded, has_word, word_pattern
from inspector.reader.reader import Reader
from inspector.render.kernel_names import titles
from inspector.tui.code.code_rows import SEVERITY_SIGNS
from inspector.tui.code.highlight import labels_of
from inspector.tui.keys.command_table import (
    FIRST_QUESTIONS,
    MARKS,
    TABLE,
    TASKS,
    TITLES,
    Command,
    KeyContext,
    command,
    commands_in,
    shown,
)
from inspector.tui.main.bars import banner
from inspector.tui.main.main_screen import MainScreen
from inspector.tui.main.settings import config_path
from inspector.tui.tree.rows import TreeEntry, TreeKind, TreeRow, walk_entries
from inspector.tui.widgets.notice import cut, in_thread, label, shorten
from inspector.tui.widgets.selection import Completion, MatchingIds, Selection, completed
from inspector.tui.widgets.subject import digit
from inspector.tui.widgets.tool_screen import ToolScreen

Spans = tuple[tuple[int, int], ...]

Score = tuple[int, int, int]
"""The worst and the sum of all words' scores, the lowest is best; how far it is from the view."""

HEX_PREFIX = re.compile(r"[0-9a-f]{2,}\Z")

_FORMS = (r"\A{}\Z", r"\A{}", r"(?<![^\W_]){}(?![^\W_])", r"(?<![^\W_]){}", "{}")
"""A word is the whole text, its beginning, a part of it, the beginning of a part, or within."""

EXACT = 0
BEGINNING = 1
ELSEWHERE = len(_FORMS)
"""Scores, the lowest is best. Elsewhere: settings, operators, origin."""

MIN_TEXT_CELLS = 18
"""Cells that a text has before its detail is left out."""

MAX_ROWS = 500


class Entry(Struct, frozen=True, eq=False):
    """Something that can be found. All texts are safe to draw.

    ``words`` are looked in as well, ``digest`` is found by its beginning. ``near`` is how far it is
    from what is in view, 0 is there. ``run`` is what Enter does; if None, ``why`` says why.
    ``also`` returns the same at a stage; ``subject`` has the ids of its kernel and variant.
    ``beneath`` are the lists of openable and of matching rows.
    """

    lead: str
    text: str
    note: str = ""
    detail: str = ""
    words: str = ""
    digest: str = ""
    near: int = 0
    run: Callable[[], object] | None = None
    heading: bool = False
    why: str = ""
    also: Callable[[str], Entry | None] | None = None
    subject: tuple[str, str] | None = None
    beneath: tuple[Entry, ...] = ()


class Match(Struct, frozen=True, eq=False):
    """An entry that fits, and where."""

    entry: Entry
    spans: Spans = ()


def _fit(entry: Entry, words: Sequence[str]) -> tuple[Score, Spans] | None:
    """How well an entry fits, and where; None where a word is nowhere in it."""
    text = folded(entry.text)
    scores = []
    spans = []
    for word in words:
        score, hit = _form(text, word)
        if hit is not None:
            spans.append(hit.span())
        elif entry.digest.startswith(word) and HEX_PREFIX.match(word):
            score = EXACT if entry.digest == word else BEGINNING
        elif not has_word(entry.words, word):
            return None
        scores.append(score)
    worst = max(scores)
    text_words = " ".join(words)
    if text.startswith(text_words):
        worst = EXACT if text == text_words else min(worst, BEGINNING)
    return (worst, sum(scores), entry.near), tuple(sorted(spans))


def _form(text: str, word: str) -> tuple[int, re.Match[str] | None]:
    """The best way in which a text has a word, as a score, and where."""
    if word in text:
        pattern = word_pattern(word)
        for score, form in enumerate(_FORMS):
            hit = re.search(form.format(pattern), text)
            if hit is not None:
                return score, hit
    return ELSEWHERE, None


def rank(
    entries: Sequence[Entry], query: str, stages: Sequence[str] = (), nearest: bool = False
) -> list[Match]:
    """Return the entries that fit, the best first, then those nearest to what is in view.

    ``nearest``: what is nearer comes first. With one of ``stages`` beside other words, what has
    such a stage comes with it: ``237 sass``.
    """
    words = folded(query).split()
    if not words:
        return [Match(entry) for entry in entries]
    scored: list[tuple[Score, int, Match]] = []
    for entry in entries:
        fit = None if entry.heading else _fit(entry, words)
        if fit is not None:
            score, spans = fit
            scored.append((score, 0, Match(entry, spans)))
    stage, other_words = _split_stage(words, stages)
    if stage:
        scored += _at_stages(entries, stage, other_words)
    scored.sort(key=lambda scored_match: scored_match[:2])
    if nearest:
        scored.sort(key=lambda scored_match: scored_match[0][2])
    return [match for _, _, match in scored]


def _split_stage(words: Sequence[str], stages: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The stage that the last or first of several words begins, and the other words."""
    if len(words) > 1:
        for word, other_words in ((words[-1], words[:-1]), (words[0], words[1:])):
            for stage in stages:
                if len(word) > 1 and stage.startswith(word):
                    return stage, other_words
    return "", ()


def _at_stages(
    entries: Sequence[Entry], stage: str, words: Sequence[str]
) -> Iterator[tuple[Score, int, Match]]:
    """What fits at a stage; of equal scores before what fits by its own text."""
    for entry in entries:
        fit = None if entry.also is None else _fit(entry, words)
        if fit is not None and entry.also is not None:
            staged = entry.also(stage)
            if staged is not None:
                yield fit[0], -1, Match(staged)


def row(match: Match, lead_cells: int, width: int) -> Content:
    entry = match.entry
    if entry.heading:
        return Content.styled(cut(entry.text, width), "bold $primary")
    room = width - lead_cells - 1
    detail = f"  {entry.detail}" if entry.detail else ""
    if cell_len(detail) + MIN_TEXT_CELLS > room:
        detail = ""
    room -= cell_len(detail)
    name = Content.styled(shorten(entry.text, room), "bold" if entry.beneath else "")
    if name.plain == entry.text:
        for first, last in match.spans:
            name = name.stylize("bold underline $accent", first, last)
    note = cut(f"  {entry.note}", room - name.cell_length) if entry.note else ""
    lead = f"{cut(entry.lead, lead_cells):<{lead_cells}} "
    gap = " " * (room - name.cell_length - cell_len(note))
    return Content.assemble((lead, "$quiet"), name, (note, "$quiet"), gap, (detail, "$quiet"))


class Finder(ModalScreen[Entry | None]):
    """Returns the chosen entry, or None."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar = [
        Binding("escape,ctrl+c", "dismiss", "Close", show=False, priority=True),
        Binding("down,ctrl+n", "move('cursor_down')", show=False, priority=True),
        Binding("tab", "move('tab')", show=False, priority=True),
        Binding("up,ctrl+p,shift+tab", "move('cursor_up')", show=False, priority=True),
        Binding("pagedown", "move('page_down')", show=False, priority=True),
        Binding("pageup", "move('page_up')", show=False, priority=True),
        Binding("ctrl+home", "move('first')", show=False, priority=True),
        Binding("ctrl+end", "move('last')", show=False, priority=True),
        Binding("enter", "choose", show=False, priority=True),
    ]

    def __init__(
        self,
        heading: str,
        entries: Sequence[Entry],
        hint: str,
        later: Sequence[Callable[[], list[Entry]]] = (),
        stages: Sequence[str] = (),
        lead: int = 9,
        closes: str = "",
        nearest: bool = False,
        reads: Callable[[], Reader] | None = None,
        open_count: int = 1,
    ) -> None:
        """``later`` finds further entries in threads; ``closes`` is a key, ``lead`` cells.

        With ``reads`` the query may name properties of variants. The first ``open_count`` entries
        that have others beneath begin open.
        """
        super().__init__()
        self.entries = [*entries]
        self.later = later
        self.stages = stages
        self.lead = lead
        self.closes = closes
        self.nearest = nearest
        self.does = "goes there"
        self.opened = [entry for entry in entries if entry.beneath][:open_count]
        self.matches: list[Match] = []
        self.words = ""
        self.matching_ids = cast(MatchingIds, None)
        self.selection = None if reads is None else Selection(self, reads, self._select, self._say)
        suggester = None if reads is None else Completion()
        self.field = Input(placeholder=hint, compact=True, suggester=suggester)
        self.options = OptionList()
        self.options.can_focus = False
        self.full_text = Static(markup=False)
        self.frame = Vertical(self.field, self.options, self.full_text)
        self.frame.border_title = Content(heading)

    def compose(self) -> ComposeResult:
        yield self.frame

    def on_mount(self) -> None:
        for n, find in enumerate(self.later):
            in_thread(self, find, self._add_entries, f"later {n}")

    def on_resize(self) -> None:
        self.call_after_refresh(self.show, self.entry)

    @property
    def entry(self) -> Entry | None:
        index = self.options.highlighted
        return None if index is None or index >= len(self.matches) else self.matches[index].entry

    def _add_entries(self, entries: list[Entry]) -> None:
        self.entries += entries
        self.show(self.entry if self.options.highlighted else None)

    def show(self, highlighted: Entry | None = None) -> None:
        typed = self.field.value
        searched = bool(typed.strip())
        candidates = [entry for entry in self._candidates(searched) if self._is_selected(entry)]
        matches = rank(candidates, self.words, self.stages, self.nearest)
        if self.selection is not None and typed.split(" ")[-1]:
            matches += [
                Match(Entry("property", *offer, why="Tab takes it."))
                for offer in completions(typed)
            ]
        self.matches = matches[:MAX_ROWS] or [Match(Entry("", "Nothing fits.", heading=True))]
        self._show_matches(highlighted)
        entry_count = sum(len(entry.beneath) or not entry.heading for entry in self.entries)
        count = f"{len(matches)} of {entry_count}" if searched else f"{entry_count}"
        self.frame.border_subtitle = Content(f"{count} · Enter {self.does}, Esc closes")
        self._show_full_text()

    def _candidates(self, searched: bool) -> Iterator[Entry]:
        """What is searched for is found beneath closed rows, too."""
        for entry in self.entries:
            if not searched or not entry.beneath:
                yield entry
            if searched or entry in self.opened:
                yield from entry.beneath

    def _is_selected(self, entry: Entry) -> bool:
        return self.matching_ids is None or entry.subject in self.matching_ids

    def _show_matches(self, highlighted: Entry | None) -> None:
        """Fill the list; its cursor is on the highlighted entry, else on the first."""
        width = max(20, self.options.scrollable_content_region.width)
        self.options.set_options(
            Option(row(match, self.lead, width), disabled=match.entry.heading)
            for match in self.matches
        )
        entries = {i: m.entry for i, m in enumerate(self.matches) if not m.entry.heading}
        index = next((i for i, entry in entries.items() if entry is highlighted), None)
        if index is None:
            self.options.highlighted = next(iter(entries), None)
            self.options.scroll_home(animate=False)
        else:
            self.options.highlighted = index

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self.closes and event.value == self.closes:
            self.dismiss(None)
        elif self.selection is not None:
            self.selection.look(event.value)
        else:
            self._select(event.value, event.value, None)

    def _select(self, query: str, words: str, matching_ids: MatchingIds) -> None:
        self.words = words
        self.matching_ids = matching_ids
        self.show()

    def _say(self, text: str) -> None:
        if text:
            self.full_text.update(Content.styled(label(text), "bold $warning"))
        else:
            self._show_full_text()

    @on(OptionList.OptionHighlighted)
    def _show_full_text(self) -> None:
        entry = self.entry or Entry("", "")
        details = "  ".join(part for part in (entry.note, entry.detail) if part)
        text = Content.assemble((entry.text, "bold"), "  ", (details, "$quiet"))
        self.full_text.update("" if entry.heading else text)

    @on(OptionList.OptionSelected)
    def action_choose(self) -> None:
        entry = self.entry
        if entry is None:
            return
        if entry.run is not None:
            self.dismiss(entry)
        elif entry.beneath:
            if entry in self.opened:
                self.opened.remove(entry)
            else:
                self.opened.append(entry)
            self.show(entry)
        elif entry.why:
            self._say(f"⚠ {entry.why}")

    def on_click(self, event: events.Click) -> None:
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)

    async def action_move(self, how: str) -> None:
        completion = completed(self.field.value) if how == "tab" and self.selection else None
        if completion is not None:
            self.field.value = completion
            self.field.cursor_position = len(completion)
            return
        how = "cursor_down" if how == "tab" else how
        await self.options.run_action(how)


OWN_KEYS = (
    ('theme = "light"', "dark, light or auto"),
    ("[keys]", "by the names at the right of each line above"),
    ('"stage.next" = "J"', "one key: J, /, ctrl+x, alt+enter, f5, space"),
    ('zoom = ["z", "f11"]', "or several; [] for none"),
)


def _kernel_entry(screen: MainScreen, entry: TreeEntry) -> Entry:
    row = entry.row
    variant = row.subject.variant
    is_active = row.leaf and row.subject.key[:2] == screen.panes.subject.key[:2]
    if row.leaf and variant is not None:
        detail = label(variant.id)
    else:
        of_kernel = row.kind is TreeKind.KERNEL
        detail = plural(row.count, "variant" if of_kernel else "kernel") if row.count else ""
    if is_active:
        near = 1
    elif row.kind is TreeKind.VARIANT:
        near = 4
    else:
        near = 3
    return Entry(
        row.kind.value,
        row.text,
        _row_note(screen, row),
        detail,
        entry.words,
        entry.digest,
        near=near,
        run=partial(_go, screen, row),
        subject=row.subject.key[:2],
        also=None if row.kind is TreeKind.GRAPH else partial(_at_stage, screen, row),
    )


def _row_note(screen: MainScreen, row: TreeRow) -> str:
    """What a variant is of, where a kernel is from."""
    parent = screen.kernels.entry(row.key[:-1])
    kernel = row.subject.kernel
    if row.kind is TreeKind.VARIANT and parent is not None:
        return f"{'★ ' if row.winner else ''}of {parent.row.text}"
    if kernel is not None and row.leaf:
        return kernel.origin.value
    return ""


def _at_stage(screen: MainScreen, row: TreeRow, stage: str) -> Entry | None:
    target = Stage(stage)
    variant = row.subject.variant
    if not row.subject.has(target):
        return None
    return Entry(
        target.value,
        row.text,
        f"its {TITLES[stage]}",
        "" if variant is None else label(variant.id),
        near=2,
        run=partial(_go, screen, row, target),
        subject=row.subject.key[:2],
    )


def _go(screen: MainScreen, row: TreeRow, stage: Stage | None = None) -> None:
    """Go to the subject of a row, and to a stage of it; the history has the way back."""
    panes = screen.panes
    panes.history.leave(panes.current_place())
    if screen.kernels.go_to(row.key):
        panes.show(row.subject)
        _show_stage(screen, stage)
    else:
        screen.warn(f"{row.text} is not in the recording any more.")


def _show_stage(screen: MainScreen, stage: Stage | None) -> None:
    pane = next((p for p in screen.panes.panes if stage is not None and p.stage is stage), None)
    screen.focus_pane(pane)
    if pane is None and stage is not None:
        screen.panes.choose(stage)


def _labels(screen: MainScreen, stage: Stage, listing: Listing) -> list[Entry]:
    jump = partial(screen.panes.jump, stage)
    return [
        Entry(kind, label(name), f"{stage}, line {n}", words=stage.value, run=partial(jump, n))
        for name, n, kind in labels_of(listing, stage)
    ]


_SCOPE = re.compile(r"( *)(?:class|(?:async )?def) (\w+)")


def _fusion_entries(screen: MainScreen, recording: Recording) -> list[Entry]:
    """The lines of the program that generated kernels were made from, with what they are in."""
    active_kernel = screen.panes.subject.kernel
    kernel_titles = titles(recording)

    @cache
    def lines(file: str) -> list[str]:
        text = recording.user_files.get(file)
        return [] if text is None else text.read().decode("utf-8", "replace").split("\n")

    entries = []
    for kernel in recording.kernels:
        if kernel.fusion is None or not kernel.variants:
            continue
        for source_line in kernel.fusion.made_from:
            scope = _scope_of(lines(source_line.file)[: source_line.line])
            place = f"{PurePath(source_line.file).name}:{source_line.line}"
            entry = Entry(
                "line",
                label(f"{place} {'.'.join(scope)}"),
                label(f"of {kernel_titles.get(kernel.id, kernel.display_name)}"),
                words=f"{' '.join(scope)} {source_line.code} {kernel.name}".casefold(),
                near=0 if kernel is active_kernel else 3,
                run=partial(screen.to_fusion_source, kernel, source_line),
            )
            entries.append(entry)
    return entries


def _scope_of(lines: Sequence[str]) -> list[str]:
    """The classes and functions that the last of a program's first lines is in, outermost first."""
    scope: list[str] = []
    indentation = 1_000
    for line in reversed(lines):
        match = _SCOPE.match(line)
        if match is not None and len(match[1]) < indentation:
            scope.insert(0, match[2])
            indentation = len(match[1])
    return scope


def _hints(screen: MainScreen, reads: Reader, variant: Variant) -> list[Entry]:
    entries = []
    for finding in reads.facts.findings(variant):
        places = [f"{stage} {lines[0]}" for stage, lines in finding.lines.items() if lines]
        understand = partial(screen.action_understand, "hints")
        entry = Entry(
            "hint",
            finding.rule,
            f"{SEVERITY_SIGNS.get(finding.severity, '·')} {label(finding.text)}",
            ", ".join(places),
            finding.text.casefold(),
            run=partial(screen.to_hint, finding) if places else understand,
        )
        entries.append(entry)
    return entries


def _contexts(screen: Screen[object]) -> tuple[KeyContext, ...]:
    if not isinstance(screen, ToolScreen):
        return ()
    contexts = (KeyContext.SCREEN,) if getattr(screen, "empty", False) else screen.contexts
    return tuple(sorted(contexts, key=lambda context: context is not screen.footer.context))


def _words(command: Command) -> str:
    return f"{command.title} {command.help} {command.id}".casefold()


def palette(screen: Screen[object], main: MainScreen | None, keys: Mapping[str, str]) -> Finder:
    """Return the palette of a screen: commands, stages and kernels; the rest comes from threads."""
    commands = _command_entries(screen, keys)
    hint = "a kernel, an id, settings, a label, a hint, a stage, a command"
    if main is None or main.empty:
        return Finder("Palette", commands, hint)
    stages = [_stage_entry(main, stage, keys) for stage in Stage]
    kinds = (TreeKind.GRAPH, TreeKind.KERNEL, TreeKind.VARIANT)
    kernels = [
        _kernel_entry(main, entry)
        for entry in walk_entries(main.kernels.entries)
        if entry.row.kind in kinds
    ]
    entries = [*commands, *stages, *kernels]
    names = [stage.value for stage in Stage]
    return Finder("Palette", entries, hint, _later(main), names, reads=lambda: main.reads)


def _command_entries(screen: Screen[object], keys: Mapping[str, str]) -> list[Entry]:
    """The commands of a screen: those of its footer first, then by where they work."""
    contexts = _contexts(screen)

    def order(command: Command) -> tuple[bool, bool, bool]:
        return not command.footer, command.context is not contexts[0], not command.help

    entries = []
    for listed in sorted(commands_in(contexts), key=order):
        if KeyContext.SCREEN in contexts and listed.id.removeprefix("stage.").isdigit():
            continue  # Stages are entries of their own.
        entry = Entry(
            "command",
            listed.title,
            listed.help,
            shown(listed, keys),
            _words(listed),
            near=1 if listed.context is contexts[0] else 2,
            run=partial(screen.run_action, f"run('{listed.id}')"),
        )
        entries.append(entry)
    return entries


def _stage_entry(main: MainScreen, stage: Stage, keys: Mapping[str, str]) -> Entry:
    subject = main.panes.subject
    present = subject.has(stage)
    return Entry(
        "stage",
        TITLES[stage.value],
        f"of {label(subject.name)}" if present else "absent here",
        shown(command(f"stage.{digit(stage)}"), keys),
        stage.value,
        near=0 if present else 5,
        run=partial(_show_stage, main, stage),
    )


def _later(main: MainScreen) -> list[Callable[[], list[Entry]]]:
    """What finds labels of panes, lines of the program, and hints."""
    later: list[Callable[[], list[Entry]]] = [
        partial(_labels, main, pane.stage, pane.view.source.listing)
        for pane in sorted(main.panes.panes, key=lambda pane: pane is not main.panes.active)
        if pane.stage is not None and pane.view.source is not None and pane.settled
    ]
    later.append(partial(_fusion_entries, main, main.reads.recording))
    variant = main.panes.subject.variant
    if variant is not None:
        later.append(partial(_hints, main, main.reads, variant))
    return later


def help_entries(
    screen: Screen[object], recording: Recording, keys: Mapping[str, str], problems: Sequence[str]
) -> list[Entry]:
    """The row under the cursor, first questions, every command by its task, signs, own keys."""
    tasks: dict[str, list[Entry]] = {}
    legend = screen.legend() if isinstance(screen, ToolScreen) else []
    if legend:
        tasks[CURSOR_ROW] = [Entry(sign, meaning, words=sign) for sign, meaning in legend]
    tasks[QUESTIONS] = _questions(screen, keys)
    tasks |= _help_tasks(screen, keys)
    tasks["Signs"] = [Entry(sign, meaning, words=sign, near=3) for sign, meaning in MARKS]
    tasks[f"Your own keys, in {label(str(config_path()))}"] = [
        *(Entry("", text, meaning, near=3) for text, meaning in OWN_KEYS),
        *(Entry("⚠", problem, near=3) for problem in problems),
    ]
    entries = []
    condition = banner(recording)
    if condition:
        entries.append(Entry("", f"This recording was {condition}.", heading=True))
    for task, beneath in tasks.items():
        leads = " ".join(entry.lead for entry in beneath)
        entries.append(Entry("▸", task, leads, beneath=tuple(beneath)))
    return entries


CURSOR_ROW = "The row under the cursor"
QUESTIONS = "What people ask first"


def _questions(screen: Screen[object], keys: Mapping[str, str]) -> list[Entry]:
    """The first questions; Enter runs the command that answers one, where it works."""
    usable = {command.id for command in commands_in(_contexts(screen))}
    entries = []
    for question, name, how, words in FIRST_QUESTIONS:
        action = partial(screen.run_action, f"run('{name}')")
        entry = Entry(
            shown(command(name), keys),
            question,
            how,
            words=f"{question} {how} {words}".casefold(),
            run=action if name in usable else None,
            why="This is answered on the screen of the kernels: Esc goes there.",
        )
        entries.append(entry)
    return entries


def _help_tasks(screen: Screen[object], keys: Mapping[str, str]) -> dict[str, list[Entry]]:
    """Entries of all commands by task, in the order of contexts, then of tasks."""
    contexts = _contexts(screen)
    usable = {command.id for command in commands_in(contexts)}
    order = {command_id: position for position, command_id in enumerate(TASKS)}
    commands = sorted(TABLE, key=lambda command: order.get(command.id, -1))
    tasks: dict[str, list[Entry]] = {}
    for context in dict.fromkeys((*contexts, KeyContext.SCREEN, *KeyContext)):
        for listed in commands:
            if listed.context is context:
                entry = _help_entry(screen, listed, keys, listed.id in usable)
                if context is contexts[0]:
                    entry = replace(entry, near=0)
                tasks.setdefault(TASKS.get(listed.id, context.value), []).append(entry)
    return tasks


def _help_entry(
    screen: Screen[object], command: Command, keys: Mapping[str, str], usable: bool
) -> Entry:
    action = partial(screen.run_action, f"run('{command.id}')")
    return Entry(
        shown(command, keys),
        command.title,
        command.help,
        command.id,
        _words(command),
        near=1 if usable else 2,
        run=action if usable else None,
    )


def problems_text(recording: Recording) -> Content:
    none = "Nothing went wrong: all that was looked for was found and read."
    return Content("\n\n".join(f"• {label(problem)}" for problem in recording.problems) or none)
