"""Tables of one-line rows fit into a width: columns are cut, then left out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

Cell = str | tuple[str, str]
"""A text, or a text and its style."""
Gives = Sequence[tuple[str, int]]
"""Columns in the order in which they give room, each with its least width; 0 leaves it out."""
GAP = "  "


def fit(full: Mapping[str, int], width: int, gives: Gives) -> dict[str, int]:
    """Return the widths of the columns that fit; columns that were cut too far grow again."""
    sizes = dict(full)
    spare = width - sum(sizes.values()) - len(GAP) * (len(sizes) - 1)
    for head, least in gives:
        if spare >= 0:
            break
        if head in sizes and least:
            given = min(-spare, max(sizes[head] - least, 0))
            sizes[head], spare = sizes[head] - given, spare + given
        elif head in sizes:
            spare += sizes.pop(head) + len(GAP)
    for head in sizes:
        grown = max(min(spare, full[head] - sizes[head]), 0)
        sizes[head], spare = sizes[head] + grown, spare - grown
    return sizes


def grid(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    width: int,
    numbers: Collection[str] = (),
    gives: Gives = (),
) -> Iterator[Text]:
    """Yield the heads and rows as lines; columns in ``numbers`` are aligned right."""
    full = {head: cell_len(head) for head in heads}
    for row in rows:
        for head, cell in zip(heads, row, strict=True):
            full[head] = max(full[head], cell_len(cell if isinstance(cell, str) else cell[0]))
    sizes = fit(full, width, gives)
    for row in ([(head, "bold") for head in heads], *rows):
        yield laid_out(heads, row, sizes, numbers)


def laid_out(
    heads: Sequence[str], row: Sequence[Cell], sizes: Mapping[str, int], numbers: Collection[str]
) -> Text:
    """Return one row as a line; long cells end in an ellipsis."""
    out = Text(no_wrap=True, overflow="crop")
    for head, cell in zip(heads, row, strict=True):
        if head in sizes:
            text, style = (cell, "") if isinstance(cell, str) else cell
            out.append(GAP if out else "")
            out.append(padded(text, sizes[head], head in numbers), style)
    out.rstrip()
    return out


def padded(text: str, size: int, right: bool = False) -> str:
    """Return a text in exactly ``size`` cells."""
    blanks = size - cell_len(text)
    if blanks < 0:
        return set_cell_size(text, size - 1) + "…"
    return " " * blanks + text if right else text + " " * blanks


def cut(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters, with an ellipsis if it was longer."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
