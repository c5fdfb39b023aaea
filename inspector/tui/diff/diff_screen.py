"""Comparison of two variants: the explanation above, their aligned listings beneath."""

import re
import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from inspector.base.errors import PtxviewError
from inspector.base.model import Stage, Variant
from inspector.base.units import plural
from inspector.diff import compare
from inspector.diff.beside import Sign
from inspector.diff.compare import Compared
from inspector.reader.reader import Reader
from inspector.render import diff_text
from inspector.render.tables import padded
from inspector.tui.code.highlight import highlighter_for, place
from inspector.tui.diff.diff_view import (
    DiffOutcome,
    DiffPlace,
    DiffRequest,
    DiffView,
    Layout,
    laid_out,
)
from inspector.tui.keys.command_table import SHARED, KeyContext, bindings_of
from inspector.tui.panes.pane import PATIENCE_SECONDS
from inspector.tui.widgets.notice import Notice, cut, following, in_thread, label, shorten
from inspector.tui.widgets.subject import TreeSubject, digit, resolve
from inspector.tui.widgets.tool_screen import LineWidget, Overlay, SearchScreen, ends, stage_tab

FIGURES = 78

SEARCH_RADIUS_LINES = 50
"""Lines around the cursor that are searched for a link with the other stage."""

WORDS = {
    Sign.EQUAL: "equal",
    Sign.CHANGED: "changed",
    Sign.UNLIKE: "replaced",
    Sign.DELETED: "only in a",
    Sign.INSERTED: "only in b",
    Sign.MOVED_AWAY: "moved to b {}",
    Sign.MOVED_HERE: "moved from a {}",
}


def shared_stages(a: TreeSubject, b: TreeSubject) -> tuple[Stage, ...]:
    both = a.pair[1].stages.keys() & b.pair[1].stages.keys()
    return tuple(stage for stage in Stage if stage in both)


def load(reads: Reader, request: DiffRequest) -> DiffOutcome:
    (_, a) = request.a.pair
    (_, b) = request.b.pair
    stage = compare.stage_of(a, b, request.stage)
    comparison = compare.compare((reads, reads), (a, b), stage, exact=request.exact)
    sources = tuple(
        highlighter_for(listing, stage, variant.stages[stage].origin_path)
        for listing, variant in zip(comparison.listings, (a, b), strict=True)
    )
    outcome = laid_out(comparison, sources)
    try:
        return replace(outcome, place=_landing(reads, request, (a, b), stage, outcome.side_by_side))
    except PtxviewError:  # a stage that has no links
        return outcome


def _landing(
    reads: Reader, request: DiffRequest, pair: tuple[Variant, Variant], stage: Stage, layout: Layout
) -> DiffPlace | None:
    """The place in ``stage`` that is linked with the kept one, or with the nearest line to it."""
    place = request.place
    if place is None or place.stage is stage:
        return place
    if place.a is not None:
        lines = {row.a for row in layout.rows}
        links = reads.stages.links(pair[0], place.stage, stage)
        line = _nearest_linked(links, place.a, lines)
        if line is not None:
            return DiffPlace(stage, line, None)
    if place.b is not None:
        lines = {row.b for row in layout.rows}
        links = reads.stages.links(pair[1], place.stage, stage)
        line = _nearest_linked(links, place.b, lines)
        if line is not None:
            return DiffPlace(stage, None, line)
    return None


def _nearest_linked(
    links: Mapping[int, Sequence[int]], line: int, shown_lines: Container[int | None]
) -> int | None:
    """The first shown line that is linked with ``line`` or, within a radius, the nearest to it."""
    for near_line in sorted(links, key=lambda linked: (abs(linked - line), linked)):
        if abs(near_line - line) > SEARCH_RADIUS_LINES:
            break
        for linked in links[near_line]:
            if linked in shown_lines:
                return linked
    return None


def compared_names(subject: TreeSubject, other: TreeSubject) -> str:
    return label(diff_text.side_text(*subject.pair, *other.pair))


class DiffBar(LineWidget):
    """The first line: the stages that both have, and how many changes there are."""

    stages: tuple[Stage, ...] = ()
    stage: Stage | None = None
    names_text = ""

    def render(self) -> Content:
        width = self.size.width
        words = [f"{digit(s)} {s}" for s in self.stages]
        if sum(len(word) + 2 for word in words) + len(self.names_text) + 8 > width:
            words = [digit(s) if s is not self.stage else str(s) for s in self.stages]
        left_content = Content.styled(" diff ", "bold")
        for stage, word in zip(self.stages, words, strict=True):
            left_content += stage_tab(stage, word, "bold underline" if stage is self.stage else "")
        names = shorten(self.names_text, width - left_content.cell_length - 1)
        return ends(left_content, Content.styled(names, "bold $accent"), width - 1)


class DiffHeads(Widget):
    """The names of a and b, above their columns or one above the other."""

    pair: tuple[TreeSubject, TreeSubject]
    side_by_side = True

    def show(self, a: TreeSubject, b: TreeSubject, side_by_side: bool) -> None:
        self.pair = (a, b)
        self.side_by_side = side_by_side
        self.styles.height = 1 if side_by_side else 2
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        half = (width - 2) // 2 if self.side_by_side else width
        a, b = self.pair
        first = padded(cut(compared_names(a, b), half - 4), half - 3)
        second = padded(cut(compared_names(b, a), half - 4), half - 3)
        rule = ("│", "$quiet") if self.side_by_side else "\n"
        style = "bold $accent"
        return Content.assemble((" a ", style), first, rule, (" b ", style), second)


class DiffSummary(Widget):
    """Explanation, hints gained and lost, and differing figures, cut to a few rows."""

    comparison: Compared | None = None
    enabled = True

    def show(self, comparison: Compared | None) -> None:
        self.comparison = comparison
        self.fit()

    def fit(self) -> None:
        size = self.screen.size
        line_count = sum(1 for _ in self._lines(size.width - 2))
        self.display = self.enabled and line_count > 0 and size.height >= 12
        self.styles.height = min(line_count, max(2, min(12, size.height // 4)))
        self.refresh()

    def _lines(self, width: int) -> Iterator[tuple[str, str]]:
        comparison = self.comparison
        if comparison is None:
            return
        summary = comparison.summary
        texts = [("• ", label(sentence), "") for sentence in comparison.explanation]
        for word, hint in diff_text.hints(summary):
            texts.append((f"◆ hint {word}: ", hint, "$warning"))
        if figures := [c for c, _ in diff_text.figures(summary) if c.differs]:
            texts.append(("", label(diff_text.deltas(figures)), "$quiet"))
        for head, text, style in texts:
            for n, part in enumerate(textwrap.wrap(text, max(20, width - len(head)))):
                yield (head if not n else " " * len(head)) + part, style

    def render(self) -> Content:
        lines = list(self._lines(self.size.width - 2))
        max_lines = max(1, self.size.height)
        if len(lines) > max_lines:
            over = f"… {len(lines) - max_lines + 1} more lines: i shows all"
            lines[max_lines - 1 :] = [(over, "$quiet")]
        rows = [Content.styled(f" {text}", style) for text, style in lines]
        return Content("\n").join(rows)


def location_parts(view: DiffView) -> Iterator[str]:
    comparison = view.comparison
    row = view.row
    if comparison is None or row is None:
        return
    for mark, n, listing in zip("ab", (row.a, row.b), comparison.listings, strict=True):
        if n is not None:
            source = listing.lines[n - 1].source
            yield f"{mark} {n}/{len(listing.lines)}"
    yield WORDS[row.sign].format(row.other)
    if comparison.stage not in (Stage.SOURCE, Stage.OUTPUT_CODE):
        yield place(source)


class DiffSearching(SearchScreen[None]):
    """A screen with a diff in which one searches."""

    def __init__(self) -> None:
        super().__init__()
        self.view: DiffView = DiffView()

    def find(self, pattern: re.Pattern[str] | None, typing: bool = False) -> None:
        self.view.find(pattern)
        word = "next change" if pattern is None else "next match"
        self.footer.tell(words={"diff.next": word})
        if self.origin is not None and (matches := self.view.matches):
            self.view.reach(matches[bisect_left(matches, self.origin[1]) % len(matches)])
        elif self.origin is not None:
            self.view.go(self.origin[1])
        if not typing:
            self.origin = None
        self.follow()

    def forget(self) -> bool:
        had = self.view.pattern is not None
        self.find(None)
        return had

    def follow(self) -> None:
        view = self.view
        change_number = self.view.change()
        change_count = len(self.view.shown.changes)
        location = "  ".join(location_parts(view))
        match_text = ""
        matches = view.matches
        if view.pattern is not None and view.cursor in matches:
            match_text = f"match {matches.index(view.cursor) + 1} of {len(matches)}"
        elif view.pattern is not None:
            missing = f"nothing matches “{shorten(label(view.pattern.pattern), 24)}”"
            match_text = plural(len(matches), "match") if matches else missing
        change = (
            f"change {change_number} of {change_count}"
            if change_number > 0
            else f"{-change_number} of {plural(change_count, 'change')} above"
        )
        change = change if change_count else "identical"
        self.status.show(
            location, " · ".join(text for text in (match_text, change if location else "") if text)
        )

    def action_again(self, step: int) -> None:
        view = self.view
        if view.pattern is None:
            view.action_change(step)
        elif view.matches:
            next_index = bisect_right(view.matches, view.cursor)
            index = next_index if step > 0 else bisect_left(view.matches, view.cursor) - 1
            view.reach(view.matches[index % len(view.matches)])


class DiffScreen(DiffSearching):
    """Compares ``a`` with ``b`` in a thread; ``fixed``: they are not in the recording."""

    BINDINGS = bindings_of(SHARED)
    AUTO_FOCUS = "DiffView"
    contexts: ClassVar = (KeyContext.DIFF,)

    def __init__(
        self,
        reads: Reader,
        a: TreeSubject,
        b: TreeSubject,
        stage: Stage | None = None,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        self.reads = reads
        self.fixed = fixed
        self.request = DiffRequest(a, b, stage)
        self.bar = DiffBar()
        self.summary = DiffSummary()
        self.heads = DiffHeads()
        self.settled = False

    def compose(self) -> ComposeResult:
        yield from (self.bar, self.summary, self.heads, self.view, *self.below)

    def on_mount(self) -> None:
        self._ask()

    def on_resize(self) -> None:
        self.summary.fit()

    def renew(self, reads: Reader) -> None:
        if self.fixed:
            return
        self.reads = reads
        a = resolve(reads.recording, self.request.a)
        b = resolve(reads.recording, self.request.b)
        self.request = replace(self.request, a=a, b=b)

    def _ask(self, **changes: Any) -> None:
        self.request = request = replace(self.request, **changes)
        self.settled = False
        self._tell()
        self.set_timer(PATIENCE_SECONDS, lambda: self._wait(request))
        compared = self._compared
        in_thread(self, lambda: load(self.reads, request), compared, "compare", failed=compared)

    def _wait(self, request: DiffRequest) -> None:
        if not self.settled and self.request is request:
            stage = request.stage or "the two"
            self.view.show_notice(Notice("◔", f"Comparing {stage} …"))

    def _compared(self, outcome: DiffOutcome | Notice) -> None:
        self.settled = True
        self.view.show(outcome)
        comparison = self.view.comparison
        self.summary.show(comparison if isinstance(comparison, Compared) else None)
        self._tell()

    @property
    def stage(self) -> Stage | None:
        comparison = self.view.comparison
        return self.request.stage or (None if comparison is None else comparison.stage)

    def _tell(self) -> None:
        request = self.request
        change_count = len(self.view.shown.changes)
        if not self.settled:
            state_text = "◔"
        elif self.view.place is None:
            state_text = ""
        elif change_count:
            state_text = plural(change_count, "change")
        else:
            state_text = "identical"
        parts = " · ".join(part for part in ("exact" * request.exact, state_text) if part)
        stages = shared_stages(request.a, request.b)
        self.bar.tell(stages=stages, stage=self.stage, names_text=parts)
        self.heads.show(request.a, request.b, self.view.side_by_side)

    @on(DiffView.Moved)
    def _moved(self, message: DiffView.Moved) -> None:
        message.stop()
        self.follow()
        if self.heads.side_by_side is not self.view.side_by_side:
            self._tell()

    def action_stage(self, stage: str) -> None:
        self._ask(stage=Stage(stage), place=self.view.place or self.request.place)

    def action_next_stage(self, step: int) -> None:
        if stages := shared_stages(self.request.a, self.request.b):
            self.action_stage(following(stages, self.stage, step).value)

    def action_exchange(self) -> None:
        request = self.request
        current = self.view.place
        place = None if current is None else DiffPlace(current.stage, current.b, current.a)
        self._ask(a=request.b, b=request.a, stage=self.stage, place=place)

    def action_exact(self) -> None:
        place = self.view.place or self.request.place
        self._ask(exact=not self.request.exact, stage=self.stage, place=place)

    def action_words(self) -> None:
        self.summary.enabled = not self.summary.enabled
        self.summary.fit()

    def action_figures(self) -> None:
        comparison = self.summary.comparison
        if comparison is None:
            self.status.say("There is nothing to show yet.")
            return
        rows = diff_text.lines(comparison.summary, comparison.explanation, FIGURES)
        text = "\n".join(label(row.plain) for row in rows)
        self.app.push_screen(Overlay("What differs", Content(text)))

    def action_escape(self) -> None:
        if not self.forget():
            self.dismiss()
