"""Figures in a terminal, in Braille, by plotext.

Lines are told apart by letters on them, and by colour where there is any. plotext 6 is the version
that is kept (textual-plotext wants an older one, and is for Textual's screens).
"""

from __future__ import annotations

import math
from typing import Any

from rich.console import Group
from rich.text import Text

from inspector.report.figures import Figure, Line, legend, spread, ticks
from inspector.report.safe import shown

# Of the terminal's own sixteen colours, so that they are seen on its ground; limits are grey.
COLOURS = (4, 2, 1, 5, 6, 3, 12, 10, 9, 13, 14, 11)
GREY = 8
WIDEST, LEAST = 160, 40


def plot(figure: Figure, width: int, height: int) -> Group:
    """A figure of ``width`` columns, its plot of ``height`` rows, the legend below it.

    Colours are styles, which a console without colour leaves out.
    """
    width = max(min(width, WIDEST), LEAST)
    title = shown(f"{figure.y} over {figure.x}: {figure.title}")
    parts: list[Any] = [Text(title, style="bold"), _drawn(figure, width, height)]
    entries = legend(figure)
    cells = [Text.assemble((letter, _style(figure, n)), f" {shown(text)}")
             for n, (letter, text) in enumerate(entries)]  # fmt: skip
    return Group(*parts, *cells)


def _style(figure: Figure, n: int) -> str:
    return f"color({_colour(figure, n)})"


def _colour(figure: Figure, n: int) -> int:
    return GREY if figure.lines[n].limit else COLOURS[n % len(COLOURS)]


def _drawn(figure: Figure, width: int, height: int) -> Text:
    import plotext

    def on(value: float, log: bool) -> float:
        return math.log10(value) if log else value

    # It would else draw no larger than the terminal, or than 80 columns where there is none.
    plotext.terminal.limit(False, False)
    made: Any = plotext.figure
    made.clear.all()
    made.theme("colorless")
    made.canvas("default")
    made.plot_size(width, height)
    places = (max((width - 10) // 10, 2), max(height // 3, 2))
    for axis, log in enumerate((figure.log_x, figure.log_y)):
        low, high = figure.reach(axis)
        ruler = made.ruler("xy"[axis])
        ruler.lim(on(low, log), on(high, log))
        marks = ticks(low, high, places[axis], log)
        ruler.ticks([on(value, log) for value, _ in marks], [text for _, text in marks])
    points = [
        [(on(x, figure.log_x), on(y, figure.log_y)) for x, y in line.points]
        for line in figure.lines
    ]
    for n, line in enumerate(points):
        if len(line) > 1:
            pixel = plotext.pixel(_colour(figure, n))
            marker = plotext.marker("braille", pixel)
            xs, ys = zip(*line, strict=True)
            made.draw(made.signal(list(xs), list(ys), marker=marker).lines())
    free = _Cells(figure, width, height)
    for n, (line, letter) in enumerate(zip(points, figure.letters, strict=True)):
        pixel = plotext.pixel(_colour(figure, n))
        at = [_along(line, part) for part in _letters(figure.lines[n], n, width)]
        if len(line) == 1:
            at = [free.beside(at[0])]
        if at:
            xs, ys = zip(*at, strict=True)
            marker = plotext.marker(letter, pixel)
            made.draw(made.signal(list(xs), list(ys), marker=marker))
    made.label(shown(figure.x), axis="x")
    text = Text.from_ansi(str(made.build()))
    text.rstrip()
    text.no_wrap = True
    return text


class _Cells:
    """Which cells of a plot have a letter already, so that points that fall together all show."""

    def __init__(self, figure: Figure, width: int, height: int) -> None:
        self._taken: set[tuple[int, int]] = set()
        edges = []
        for axis, log in enumerate((figure.log_x, figure.log_y)):
            low, high = figure.reach(axis)
            edges.append((math.log10(low), math.log10(high)) if log else (low, high))
        (left, right), (self._low, top) = edges
        self._left = left
        # About as large as they are: the ticks' labels take some of the width.
        self._wide = (right - left) / max(width - 9, 1)
        self._high = (top - self._low) / max(height - 4, 1)

    def beside(self, point: tuple[float, float]) -> tuple[float, float]:
        """The point, or one as many cells to the right of it as have letters."""
        x, y = point
        row = round((y - self._low) / self._high)
        column = round((x - self._left) / self._wide)
        moved = 0
        while (column + moved, row) in self._taken:
            moved += 1
        self._taken.add((column + moved, row))
        return x + moved * self._wide, y


def _letters(line: Line, n: int, width: int) -> list[float]:
    """Where a line's letter stands, as parts of its way: on few of its points, never crowded."""
    count = len(line.points)
    if count == 1:
        return [0.0]
    most = max(2, min(count, width // 30))
    if line.limit or count <= 3:
        return [(0.15 + 0.1 * n) % 0.9]
    return [at / (count - 1) for at in spread(count, most, n)]


def _along(line: list[tuple[float, float]], part: float) -> tuple[float, float]:
    """A point of a line at a part of its points' number, between two of them where it falls so."""
    place = part * (len(line) - 1)
    low = min(int(place), max(len(line) - 2, 0))
    if len(line) == 1:
        return line[0]
    rest = place - low
    (x0, y0), (x1, y1) = line[low], line[low + 1]
    return x0 + rest * (x1 - x0), y0 + rest * (y1 - y0)
