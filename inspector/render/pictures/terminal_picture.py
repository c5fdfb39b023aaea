"""Pictures as lines of a terminal: rows of blocks and dots, plots of braille."""

import importlib.util
from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from inspector.base.escapes import shown
from inspector.render.pictures.picture import (
    Axis,
    GridPicture,
    Picture,
    PictureRow,
    PlotPicture,
    RowPicture,
)
from inspector.render.races import Figure, plot
from inspector.render.tables import padded

MAX_STRIP_CELLS = 64
MIN_STRIP_CELLS = 16
MAX_LABEL_SHARE = 3
"""A label takes at most the width divided by this."""
STYLES = {"chosen": "bold", "best": "bold", "limit": "bold"}
INDENT = "  "


def picture_lines(picture: Picture, width: int) -> Iterator[Text]:
    """The question, its answer, the picture and its notes, each line at most ``width`` cells."""
    yield Text(shown(picture.title), "bold cyan")
    for text in _folded(picture.answer, width):
        yield Text(text)
    if isinstance(picture, PlotPicture):
        yield from _plot(picture, width)
    elif isinstance(picture, GridPicture):
        yield from _grid(picture, width)
    else:
        yield from _rows(picture, width)
    for note in picture.notes:
        for text in _folded(note, width - len(INDENT)):
            yield Text(f"{INDENT}{text}", "dim")


PLOT_ROWS = 12
MAX_PLOT_CELLS = 76


def _plot(picture: PlotPicture, width: int) -> Iterator[Text]:
    """The lines and points, and a legend; the legend alone where plotext is missing."""
    if importlib.util.find_spec("plotext") is None:
        for line in picture.lines:
            yield Text(shown(f"{INDENT}{line.name}  {line.remark}"))
        return
    figure = Figure("", picture.x.unit, picture.y.unit, picture.lines, picture.x.log)
    _, body, *legend = plot(figure, min(width, MAX_PLOT_CELLS), PLOT_ROWS).renderables
    yield Text(f"{picture.y.unit} over {picture.x.unit}", "dim")
    for part in (body, *legend):
        if isinstance(part, Text):
            yield from part.split("\n")


GROUP_STYLES = ("", "bold reverse", "reverse", "bold")
"""Shades of the groups of cells, again from the first where there are more."""


def _grid(picture: GridPicture, width: int) -> Iterator[Text]:
    """Cells beneath the labels of their columns, in as many parts as the width asks for."""
    texts = [*picture.columns, *(cell.text for cell in picture.cells)]
    cell_cells = max(cell_len(text) for text in texts)
    labels = [picture.column_label, *(f"{picture.row_label} {row}" for row in picture.rows)]
    label_cells = max(cell_len(label) for label in labels)
    room = (width - len(INDENT) - label_cells) // (cell_cells + 1)
    columns_a_part = _part_size(len(picture.columns), max(room, 1))
    by_place = {(cell.row, cell.column): cell for cell in picture.cells}
    for first in range(0, len(picture.columns), columns_a_part):
        columns = range(first, min(first + columns_a_part, len(picture.columns)))
        heads = [f"{picture.columns[column]:>{cell_cells}}" for column in columns]
        label = padded(picture.column_label, label_cells)
        yield Text(" ".join([f"{INDENT}{label}", *heads]), "dim")
        for row, name in enumerate(picture.rows):
            line = Text(INDENT + padded(f"{picture.row_label} {name}", label_cells))
            for column in columns:
                cell = by_place.get((row, column))
                text = "·" if cell is None else shown(cell.text)
                style = "dim" if cell is None else GROUP_STYLES[cell.group % len(GROUP_STYLES)]
                line.append(" ")
                line.append(f"{text:>{cell_cells}}", style)
            yield line


def _part_size(columns: int, room: int) -> int:
    """Columns of a part: all, or the half, quarter … that there is room for."""
    size = columns
    while size > room and size > 1:
        size = -(-size // 2)
    return size


def _rows(picture: RowPicture, width: int) -> Iterator[Text]:
    """The axis, and a line for each row."""
    rows = picture.rows
    label_cells = max((cell_len(row.label) for row in rows), default=0)
    label_cells = min(label_cells, width // MAX_LABEL_SHARE)
    mark_cells = max((cell_len(row.mark) for row in rows), default=0)
    text_cells = max((cell_len(row.text) for row in rows), default=0)
    used = len(INDENT) + mark_cells + label_cells + text_cells + 3
    strip_cells = max(min(width - used, MAX_STRIP_CELLS), MIN_STRIP_CELLS)
    if picture.form == "slots":
        strip_cells = _slot_cells(picture.axis, strip_cells)
    margin = " " * (len(INDENT) + mark_cells + label_cells + 2)
    yield Text(margin + _axis_text(picture.axis, strip_cells), "dim")
    for row in rows:
        if picture.form == "slots":
            strip = _slots(row, picture.axis, strip_cells)
        else:
            strip = _dots(row, picture, strip_cells)
        mark = padded(row.mark, mark_cells)
        label = padded(shown(row.label), label_cells)
        head = f"{INDENT}{mark} {label} "
        style = STYLES.get(row.role, "")
        yield Text.assemble((head, style), strip, " ", (shown(row.text), style))


def _folded(sentence: str, width: int) -> list[str]:
    """A sentence in lines of at most ``width`` cells."""
    lines: list[str] = []
    for word in shown(sentence).split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _axis_text(axis: Axis, cells: int) -> str:
    """The ends of an axis, as far apart as its cells are."""
    first = f"{axis.low:.3g}"
    last = f"{axis.high:.3g} {axis.unit}"
    return f"{first}{last:>{max(cells - len(first), len(last) + 1)}}"


def _position(value: float, axis: Axis, cells: int) -> int:
    """The cell of a value, the last one for values beyond the axis."""
    share = (value - axis.low) / (axis.high - axis.low or 1)
    return max(0, min(int(share * cells), cells - 1))


def _dots(row: PictureRow, picture: RowPicture, cells: int) -> Text:
    """A dot with its band of noise, over the shade of what does not differ from the best."""
    axis = picture.axis
    strip = [" "] * cells
    if picture.band is not None:
        first, last = (_position(value, axis, cells) for value in picture.band)
        strip[first : last + 1] = "░" * (last + 1 - first)
    if row.low is not None and row.high is not None and row.low <= axis.high:
        first = _position(row.low, axis, cells)
        last = _position(row.high, axis, cells)
        strip[first : last + 1] = "─" * (last + 1 - first)
    strip[_position(row.value, axis, cells)] = "▸" if row.value > axis.high else "●"
    return Text("".join(strip), STYLES.get(row.role, ""))


def _slot_cells(axis: Axis, cells: int) -> int:
    """Cells of which each holds a whole number of slots."""
    slots = int(axis.high)
    slots_a_cell = max(1, -(-slots // cells))
    return -(-slots // slots_a_cell)


def _slots(row: PictureRow, axis: Axis, cells: int) -> Text:
    """Slots that are filled, groups of them in two shades where each has whole cells."""
    slots_a_cell = -(-int(axis.high) // cells)
    filled = -(-int(row.value) // slots_a_cell)
    group = row.group // slots_a_cell
    has_groups = group > 0 and row.group % slots_a_cell == 0
    text = ""
    for cell in range(filled):
        text += "▓" if has_groups and cell // group % 2 else "█"
    return Text.assemble((text, STYLES.get(row.role, "")), ("·" * (cells - filled), "dim"))
