"""Rows of two listings as lines of a terminal: numbers, signs, wrapped text, what changed in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from inspector.analyse.diff.beside import Row, Sign
from inspector.listing.line import Line
from inspector.report.safe import shown

Spans = Sequence[tuple[int, int]]
Intra = Callable[[int, int], tuple[Spans, Spans]]
"""Of two lines, by number: the ranges of characters of each that really differ."""

NARROWEST = 24  # cells of text a side, below which lines are longer than the terminal
SIGNS = {
    Sign.EQUAL: (" ", " "), Sign.CHANGED: ("~", "~"), Sign.UNLIKE: ("-", "+"),
    Sign.DELETED: ("-", " "), Sign.INSERTED: (" ", "+"),
    Sign.MOVED_AWAY: ("»", " "), Sign.MOVED_HERE: (" ", "«"),
}  # fmt: skip
LEGEND = "~ changed   - only in a   + only in b   » « moved, to or from → ←"
_STYLES = {"~": "yellow", "-": "red", "+": "green", "»": "blue", "«": "blue", " ": ""}
_MARKED = "bold reverse"
_GAP = re.compile(r"(?<=\S)\s{8,}")
Cell = tuple[Text, Text | None]
"""A piece of a line, and the signs under it where it changed."""


def beside(
    rows: Iterable[Row],
    lines: tuple[Sequence[Line], Sequence[Line]],
    intra: Intra,
    width: int,
    colour: bool,
) -> Iterator[Text]:
    """Rows fit into ``width`` cells, both sides alike wide; long lines are wrapped, none is cut.

    Without ``colour``, signs under a changed line say what changed in it.
    """
    digits = len(str(max(len(lines[0]), len(lines[1]), 1)))
    half = max((width - 1) // 2, digits + 4 + NARROWEST)
    room = half - digits - 4
    for row in rows:
        if row.sign is Sign.FOLD:
            yield fold(row, 2 * half + 1)
            continue
        left, right = _sides(row, lines, intra, room, colour)
        signs = SIGNS[row.sign]
        numbers = (row.a, row.b)
        for k, (x, y) in enumerate(zip_longest(left, right)):
            out = Text(no_wrap=True)
            _side(out, x, numbers[0] if not k else None, signs[0], digits, room)
            out.append("│", style="dim")
            _side(out, y, numbers[1] if not k else None, signs[1], digits, room, last=True)
            out.rstrip()
            yield out
            if (x and x[1]) or (y and y[1]):
                under = Text(no_wrap=True)
                _under(under, x, digits, room)
                under.append("│", style="dim")
                _under(under, y, digits, room)
                under.rstrip()
                yield under


def fold(row: Row, width: int) -> Text:
    """``… 24 equal lines``, across both sides."""
    said = f"… {row.count} equal lines"
    return Text(said.center(width).rstrip(), style="dim", no_wrap=True)


def _sides(
    row: Row,
    lines: tuple[Sequence[Line], Sequence[Line]],
    intra: Intra,
    room: int,
    colour: bool,
) -> tuple[list[Cell], list[Cell]]:
    marks: tuple[Spans, Spans] = ((), ())
    if row.sign is Sign.CHANGED and row.a is not None and row.b is not None:
        marks = intra(row.a, row.b)
    out: list[list[Cell]] = []
    for n, held, spans, sign in zip((row.a, row.b), lines, marks, SIGNS[row.sign], strict=True):
        text = held[n - 1].text if n is not None else ""
        if n is None:
            out.append([])
            continue
        pieces = _wrapped(text, spans, _STYLES[sign] if sign != "~" else "", room, colour)
        if row.other is not None:
            arrow = "→" if row.sign is Sign.MOVED_AWAY else "←"
            pieces.append((Text(f"{arrow} {row.other}", style="dim blue"), None))
        out.append(pieces)
    return out[0], out[1]


def _wrapped(text: str, spans: Spans, style: str, room: int, colour: bool) -> list[Cell]:
    said, at = fitted(text)
    inside = [False] * len(said)
    for first, end in spans:
        for k in range(at[min(first, len(text))], at[min(end, len(text))]):
            inside[k] = True
    out: list[Cell] = []
    for first, end in _cuts(said, room):
        piece = Text(said[first:end], style=style, no_wrap=True)
        under: Text | None = None
        marked = [k - first for k in range(first, end) if inside[k]]
        for k in marked:
            piece.stylize("yellow" if not colour else _MARKED, k, k + 1)
        if marked and not colour:
            cells = "".join(("^" if inside[k] else " ") * cell_len(said[k])
                            for k in range(first, end))  # fmt: skip
            under = Text(cells.rstrip(), no_wrap=True)
        out.append((piece, under))
    return out


def fitted(text: str) -> tuple[str, list[int]]:
    """A line as it is shown, and for each of its characters (and its end) where that begins.

    A tab of the indentation is two cells, another one a blank; of a wide gap, such as the one
    before a comment, two blanks are left; control characters are shown.
    """
    out: list[str] = []
    at: list[int] = []
    size, inner = 0, False
    body = len(text.rstrip())
    gaps = {k for found in _GAP.finditer(text) for k in range(found.start() + 2, found.end())}
    for k, c in enumerate(text):
        at.append(size)
        if c == "\t":
            piece = "  " if not inner else "" if out and out[-1] == " " else " "
        else:
            piece = shown(c)
            inner = inner or c != " "
        if k in gaps or (k >= body and c.isspace()):
            piece = ""
        if piece:
            out.append(piece)
            size += len(piece)
    at.append(size)
    return "".join(out), at


def _cuts(text: str, room: int) -> list[tuple[int, int]]:
    """Where a line is cut into pieces of at most ``room`` cells: after a blank or a comma."""
    out: list[tuple[int, int]] = []
    first = 0
    while True:
        end, cells = first, 0
        while end < len(text) and cells + cell_len(text[end]) <= room:
            cells += cell_len(text[end])
            end += 1
        if end >= len(text):
            out.append((first, end))
            return out
        soft = max(text.rfind(" ", first, end), text.rfind(",", first, end)) + 1
        cut = soft if soft > first + room // 2 else max(end, first + 1)
        out.append((first, cut))
        first = cut + (len(text) - cut - len(text[cut:].lstrip(" ")))


def _side(
    out: Text,
    cell: Cell | None,
    n: int | None,
    sign: str,
    digits: int,
    room: int,
    last: bool = False,
) -> None:
    mark = sign if cell is not None else " "
    out.append(f"{n if n is not None else '':>{digits}}", style="dim")
    out.append(f" {mark} ", style=_STYLES[mark])
    piece = cell[0] if cell is not None else Text()
    out.append_text(piece)
    if not last:
        out.append(" " * max(room + 1 - cell_len(piece.plain), 0))


def _under(out: Text, cell: Cell | None, digits: int, room: int) -> None:
    held = cell[1].plain if cell is not None and cell[1] is not None else ""
    out.append(" " * (digits + 3))
    out.append(set_cell_size(held, room + 1))
