"""The timeline of a simulated block as lines of a terminal, with a ring of phases."""

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.text import Text

from inspector.base.units import microseconds
from inspector.estimate.timeline import Timeline
from inspector.render.pictures.block_picture import TITLE, block_pictures, percent, sentences
from inspector.render.pictures.picture import StripPicture, StripRow
from inspector.render.tables import padded

MARKS = {
    "copy": ("c", "cyan"),
    "products": ("P", "bold green"),
    "arithmetic": ("a", "green"),
    "memory": ("m", "yellow"),
    "barrier": ("b", "yellow"),
    "wait": ("·", "red"),
    "tensor": ("P", "bold green"),
}
MIN_STRIP_CELLS = 16
MAX_STRIP_CELLS = 96
INDENT = "  "


def timeline_lines(
    timeline: Timeline, hertz: float, width: int, place: Callable[[int], str]
) -> Iterator[Text]:
    """Rows over the whole block, then over some phases in its middle.

    ``hertz`` of the SM's clock; ``place`` says where a line of SASS is in the source.
    """
    yield Text(TITLE, "bold cyan")
    for sentence in sentences(timeline, hertz, place):
        yield Text(sentence)
    rows = [row for picture in block_pictures(timeline, hertz, place, 1) for row in picture.rows]
    label_cells = max(cell_len(row.label) for row in rows)
    room = width - len(INDENT) - label_cells - 2 - max(cell_len(_shares(row)) for row in rows)
    cells = max(MIN_STRIP_CELLS, min(room, MAX_STRIP_CELLS))
    pictures = block_pictures(timeline, hertz, place, cells)
    for number, picture in enumerate(pictures):
        if number:
            yield Text()
        yield from _strip(picture, label_cells, cells)
    legend = "  ".join(f"{MARKS[kind][0]} {words}" for kind, words in pictures[0].kinds)
    yield Text(f"{INDENT}{legend}", "dim")


def _strip(picture: StripPicture, label_cells: int, cells: int) -> Iterator[Text]:
    begin, end = microseconds(picture.axis.low), microseconds(picture.axis.high)
    axis = f"{begin} µs".ljust(cells - len(end) - 3) + f"{end} µs"
    yield Text(f"{INDENT}{' ' * label_cells} {axis}", "dim")
    step = (picture.axis.high - picture.axis.low) / cells
    for row in picture.rows:
        line = Text(f"{INDENT}{padded(row.label, label_cells)} ")
        line.append_text(_marks(row, picture.axis.low, step, cells))
        line.append(f" {_shares(row)}", "dim")
        line.rstrip()
        yield line


def _shares(row: StripRow) -> str:
    return ", ".join(f"{MARKS[kind][0]} {percent(share)}" for kind, share in row.shares)


def _marks(row: StripRow, begin: float, step: float, cells: int) -> Text:
    """A mark for each cell; of a phase the last digit of its number."""
    marks = Text()
    for kind, low, high in row.runs:
        mark, style = MARKS.get(kind, (kind[-1], "dim"))
        marks.append(" " * (round((low - begin) / step) - len(marks)))
        marks.append(mark * round((high - low) / step), style)
    marks.append(" " * (cells - len(marks)))
    return marks
