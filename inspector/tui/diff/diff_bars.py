"""Bars around a diff: stages, the two variants, the explanation, the cursor's place."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from inspector.base.model import Stage
from inspector.base.text import plural
from inspector.diff.beside import BesideRow, PassChange, Sign
from inspector.diff.compare import Compared
from inspector.report import diff_text
from inspector.report.tables import differing
from inspector.tui.code.highlight import place
from inspector.tui.diff.diff_view import DiffView
from inspector.tui.widgets.figures import configuration
from inspector.tui.widgets.lines import LineWidget, clickable, ends
from inspector.tui.widgets.subject import TreeSubject, digit
from inspector.tui.widgets.visible import cut, label, shorten

_WORDS = {
    Sign.EQUAL: "equal",
    Sign.CHANGED: "changed",
    Sign.UNLIKE: "replaced",
    Sign.DELETED: "only in a",
    Sign.INSERTED: "only in b",
    Sign.MOVED_AWAY: "moved to b {}",
    Sign.MOVED_HERE: "moved from a {}",
}


def told(subject: TreeSubject, other: TreeSubject) -> str:
    """``square_kernel  a4fe74f3  w4  sm_90a s3 BLOCK=1024``: what it differs in comes first."""
    variant, rival = subject.variant, other.variant
    if variant is None or rival is None:
        return label(subject.name)
    first = tuple(key for key in differing((variant.config, rival.config)) if key != "flags")
    rest = tuple(key for key in variant.config if key not in (*first, "flags"))
    target = variant.target or ""
    words = [subject.name, variant.id, configuration(variant.config, first)]
    if target == rival.target:
        words += [f"{target} {configuration(variant.config, rest)}".strip()]
    else:
        words[2:2] = [target]
        words += [configuration(variant.config, rest)]
    return label("  ".join(word for word in words if word))


class DiffBar(LineWidget):
    """The first line: the stages that both have, and how many changes there are."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: tuple[Stage, ...] = ()
        self.stage: Stage | None = None
        self.told = ""

    def show(self, stages: tuple[Stage, ...], stage: Stage | None, told: str) -> None:
        """Show the stages of a comparison and a text at the right."""
        self.stages, self.stage, self.told = stages, stage, told
        self.refresh()

    def render(self) -> Content:
        """Stages at the left, the count at the right."""
        width = self.size.width
        head = " diff "
        words = [f"{digit(s)} {s}" for s in self.stages]
        if len(head) + sum(len(w) + 2 for w in words) + len(self.told) + 2 > width:
            words = [digit(s) if s is not self.stage else str(s) for s in self.stages]
        parts: list[Content | tuple[str, str]] = [(head, "bold")]
        for stage, word in zip(self.stages, words, strict=True):
            style = "bold underline" if stage is self.stage else ""
            word_part = Content.assemble(" ", (word, style), " ")
            parts.append(clickable(word_part, f"screen.stage({stage.value!r})"))
        left = Content.assemble(*parts)
        said = shorten(self.told, width - left.cell_length - 1)
        return ends(left, Content.styled(said, "bold $accent"), width - 1)


class DiffHeads(Widget):
    """The names of a and b, above their columns or one above the other."""

    def __init__(self, a: TreeSubject, b: TreeSubject) -> None:
        super().__init__()
        self.pair = (a, b)
        self.beside = True

    def show(self, a: TreeSubject, b: TreeSubject, beside: bool) -> None:
        """Name these two."""
        self.pair, self.beside = (a, b), beside
        self.styles.height = 1 if beside else 2
        self.refresh()

    def render(self) -> Content:
        """``a square_kernel a4fe74f3 …│b square_kernel 9c81a042 …``."""
        width = self.size.width
        half = (width - 2) // 2 if self.beside else width
        parts: list[tuple[str, str]] = []
        a, b = self.pair
        for mark, text in (("a", told(a, b)), ("b", told(b, a))):
            text = cut(text, half - 4)
            room = half - 3 - Content(text).cell_length
            parts += [(f" {mark} ", "bold $accent"), (text, ""), (" " * max(0, room), "")]
            if mark == "a":
                parts.append(("│", "$quiet") if self.beside else ("\n", ""))
        return Content.assemble(*parts)


class DiffSummary(Widget):
    """Explanation, hints gained and lost, and differing figures, cut to a few rows."""

    def __init__(self) -> None:
        super().__init__()
        self.comparison: Compared | None = None
        self.wanted = True
        self.display = False

    def show(self, comparison: Compared | None) -> None:
        """Show a comparison; None hides the summary."""
        self.comparison = comparison
        self.fit()

    def flip(self) -> None:
        """Show it or hide it."""
        self.wanted = not self.wanted
        self.fit()

    def fit(self) -> None:
        """Set the height to that of the text, at most a quarter of the screen."""
        lines = (
            self._lines(max(20, self.screen.size.width - 2)) if self.comparison is not None else []
        )
        self.display = self.wanted and bool(lines) and self.screen.size.height >= 12
        self.styles.height = min(len(lines), self._most())
        self.refresh()

    def _most(self) -> int:
        return max(2, min(12, self.screen.size.height // 4))

    def _lines(self, width: int) -> list[tuple[str, str]]:
        comparison = self.comparison
        if comparison is None:
            return []
        out: list[tuple[str, str]] = []
        for sentence in comparison.explanation:
            out += _wrapped("• ", label(sentence), width, "")
        for hints, word in (
            (comparison.summary.gained, "gained"),
            (comparison.summary.lost, "lost"),
        ):
            for one in hints:
                out += _wrapped(f"◆ hint {word}: ", diff_text.hint(one), width, "$warning")
        figures = [c for c, _ in diff_text.figures(comparison.summary) if c.differs]
        if figures:
            out += _wrapped("", label(diff_text.deltas(figures)), width, "$quiet")
        return out

    def render(self) -> Content:
        """Draw the rows that fit, and the key that shows all."""
        width = self.size.width - 2
        lines = self._lines(max(20, width))
        most = max(1, self.size.height)
        parts: list[tuple[str, str]] = []
        if len(lines) > most:
            lines = [
                *lines[: most - 1],
                (f"… {len(lines) - most + 1} more lines: i shows all", "$quiet"),
            ]
        for n, (text, style) in enumerate(lines):
            parts += [("\n " if n else " ", ""), (text, style)]
        return Content.assemble(*parts)


def _wrapped(head: str, text: str, width: int, style: str) -> Iterator[tuple[str, str]]:
    room = max(20, width - len(head))
    for n, part in enumerate(textwrap.wrap(text, room) or [""]):
        yield (head if not n else " " * len(head)) + part, style


def where(view: DiffView) -> tuple[str, str]:
    """Return the lines under the cursor, and which change it is."""
    outcome, row = view.outcome, view.row
    comparison = None if outcome is None else outcome.comparison
    if comparison is None or row is None:
        return "", ""
    at, many = view.change(), len(view.changes)
    above = f"{-at} of {plural(many, 'change')} above"
    change = "identical" if not many else f"change {at} of {many}" if at > 0 else above
    return "  ".join(_where(comparison, row)), change


def _where(comparison: Compared | PassChange, row: BesideRow) -> Iterator[str]:
    for mark, n, listing in zip("ab", (row.a, row.b), comparison.listings, strict=True):
        if n is not None:
            yield f"{mark} {n}/{len(listing.lines)}"
    yield _WORDS[row.sign].format(row.other)
    side, n = (1, row.b) if row.b is not None else (0, row.a)
    if n is not None and comparison.stage not in (Stage.SOURCE, Stage.OUTPUT_CODE):
        yield place(comparison.listings[side].lines[n - 1].source)
