"""The lines above the status line: what the instruction under the cursor does."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from textual.content import Content
from textual.widget import Widget

from inspector.analyse.line_annotations import NO_WORDS, NOTHING_TOLD, Register, Told, Words
from inspector.base.text import plural
from inspector.tui.code.code_view import CodeView
from inspector.tui.code.gutter import SIGNS
from inspector.tui.widgets.notice import Notice, in_thread
from inspector.tui.widgets.visible import cut, label


def _span(lines: tuple[int, ...], word: str) -> str:
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{word} at {lines[0]}"
    return f"{word} at {lines[0]} … {lines[-1]}, {len(lines)} times"


@dataclass(frozen=True, slots=True)
class Said:
    """All annotations of one line."""

    words: Words = NO_WORDS
    told: Told = NOTHING_TOLD
    registers: tuple[Register, ...] = ()


class ReadingLine(Widget):
    """The sentence, notes, waits, and the register that is looked at: where the terminal is high
    all of them, else as many as there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self.said = Said()
        self.register: str | None = None
        self._view: CodeView | None = None

    def follow(self, view: CodeView) -> None:
        """Read out the line under the cursor of ``view``; what it said before stays until then."""
        if self._view is not None and self._view is not view:
            self._view.light_up(None)
        self._view = view
        if view.lines:
            n, annotations = view.cursor, view.rows.gutter.annotations

            def read() -> Said:
                return Said(annotations.words(n), annotations.at(n), annotations.registers(n))

            def show(said: Said | Notice) -> None:
                if view is self._view and view.cursor == n:
                    self._show(Said() if isinstance(said, Notice) else said)

            in_thread(self, read, show, "words")
        else:
            self._show(Said())

    def _show(self, said: Said) -> None:
        self.said = said
        names = [one.name for one in said.registers]
        if self.register not in names:
            self.register = names[0] if names else None
        self._light_up()

    def next_register(self) -> bool:
        """Look at the line's next register; False where it has none."""
        names = [one.name for one in self.said.registers]
        if names:
            at = names.index(self.register) + 1 if self.register in names else 0
            self.register = names[at % len(names)]
            self._light_up()
        return bool(names)

    def _light_up(self) -> None:
        if self._view is not None:
            found = (one for one in self.said.registers if one.name == self.register)
            self._view.light_up(next(found, None))
        self.refresh()

    def parts(self) -> list[tuple[str, str]]:
        """(text, style) of everything there is to say, the most wanted first."""
        out: list[tuple[str, str]] = []
        if self.said.words.sentence:
            out.append((self.said.words.sentence, "$foreground"))
        out += [
            (f"{SIGNS.get(n.severity, '·')} {n.rule}: {n.text}", "$warning")
            for n in self.said.told.notes
        ]
        out += [(wait, "$secondary") for wait in self.said.words.waits]
        for one in self.said.registers:
            if one.name == self.register:
                places = (_span(one.defined, "defined"), _span(one.used, "used"))
                said = ", ".join(p for p in places if p)
                if said:
                    out.append((f"{one.name}: {said}", "$accent"))
        rolled = self.said.told.rolled
        if rolled is not None and rolled.live.get("gpr"):
            most = "up to " if rolled.instructions > 1 else ""
            peak = ", the kernel's peak" if rolled.peak else ""
            parts = [
                plural(rolled.instructions, "SASS instruction"),
                f"{most}{plural(rolled.live['gpr'], 'live register')}{peak}",
            ]
            if rolled.stall is not None:
                parts.append(plural(rolled.stall, "stall cycle"))
            out.append((" · ".join(parts), "$quiet"))
        return [(label(text), style) for text, style in out]

    def render(self) -> Content:
        """Each part on separate rows if there is room, else packed, the last row cut."""
        width, height = self.size.width - 2, max(1, self.size.height)
        parts = self.parts()
        if height >= MIN_ROOMY_ROWS and 0 < len(parts) <= height:
            rows = stacked(parts, width, height)
        else:
            rows = packed(parts, width, height)
        return Content("\n").join(Content.assemble(" ", *row) for row in rows)


Rows = list[list[tuple[str, str]]]

MIN_ROOMY_ROWS = 4
"""Rows from which each part is on separate rows."""


def packed(parts: list[tuple[str, str]], width: int, height: int) -> Rows:
    """Pack parts one after the other; the last row takes the rest."""
    rows: Rows = [[]]
    used = 0
    for text, style in parts:
        size = Content(text).cell_length + 3
        if rows[-1] and used + size > width and len(rows) < height:
            rows.append([])
            used = 0
        room = width - used - (3 if rows[-1] else 0)
        if room < 8:
            break
        if rows[-1]:
            rows[-1].append(("   ", ""))
        rows[-1].append((cut(text, room), style))
        used += size
    return rows


def stacked(parts: list[tuple[str, str]], width: int, height: int) -> Rows:
    """Wrap each of at most ``height`` parts on separate rows; cut the longest to make all fit."""
    wrapped = [textwrap.wrap(text, max(8, width), subsequent_indent="  ") for text, _ in parts]
    allowed = [max(1, len(rows)) for rows in wrapped]
    while sum(allowed) > height:
        longest = max(range(len(allowed)), key=lambda at: (allowed[at], at))
        allowed[longest] -= 1
    out: Rows = []
    for (_, style), rows, many in zip(parts, wrapped, allowed, strict=True):
        for at, row in enumerate(rows[:many]):
            is_cut = at == many - 1 < len(rows) - 1
            said = cut(row, width - 1).removesuffix("…") + "…" if is_cut else cut(row, width)
            out.append([(said, style)])
    return out
