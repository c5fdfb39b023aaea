"""The rows of a CSV that ncu wrote, amid what it and the program printed besides."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from inspector.errors import Unreadable

REMEDY = "Export it again: ncu --import report.ncu-rep --csv --page details > report.csv"
SASS_REMEDY = "Export it again: ncu --import report.ncu-rep --csv --page source --print-source sass"
# Of what ncu is not allowed, its own lines before the header tell.
DENIED = "ERR_NVGPUCTRPERM"


class Page(StrEnum):
    """The pages of a report that can be exported as CSV."""

    RAW = "raw"
    DETAILS = "details"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the names of its columns, and its rows with their line numbers.

    ``title`` is the kernel's name before a table of the source page.
    """

    page: Page
    columns: tuple[str, ...]
    rows: list[tuple[int, list[str]]]
    title: str = ""


def tables(text: str, name: str) -> list[Table]:
    """The tables of ``text``, which holds one page of a report or several, one after another.

    Raises ``Unreadable`` where it ends in the middle of a row, or is no report at all.
    """
    out: list[Table] = []
    title = ""
    for line, cells in _rows(text, name):
        page = _page(cells, name)
        if page is not None:
            out.append(Table(page, tuple(c.strip() for c in cells), [], title))
        elif cells[0] == "Kernel Name" and len(cells) in (2, 3):
            title = cells[1]
        elif out:
            out[-1].rows.append((line, cells))
    if not out:
        if DENIED in text:
            raise Unreadable(
                f"{name} holds no launch: ncu was not permitted to read the GPU's counters",
                "Profile again where that is allowed.",
            )
        raise Unreadable(f"{name} is no CSV report of ncu", REMEDY)
    return out


def _page(cells: list[str], name: str) -> Page | None:
    """The page whose header a row is, None where it is none.

    Raises ``Unreadable`` for a source page of anything but SASS.
    """
    # Headers begin so; most rows are none, and are told apart quickly.
    if cells[0].strip() not in ("ID", "Address", "#", "Source"):
        return None
    names = {c.strip() for c in cells}
    if "Address" in names and "Source" in names:
        return Page.SOURCE
    if "Source" in names and "# Samples" in names:
        raise Unreadable(f"{name} has the source page of other lines than SASS", SASS_REMEDY)
    if cells[0].strip() != "ID" or not names & {"Kernel Name", "Function Name"}:
        return None
    return Page.DETAILS if {"Metric Name", "Metric Value"} <= names else Page.RAW


def _rows(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of cells, each with the number of its first line.

    ncu quotes every cell, so that what the program printed among them can be told apart; a
    spreadsheet writes bare cells, and then every line is a row.
    """
    lines = text.lstrip("\ufeff").split("\n")
    bare = _bare(lines)
    mark = ";" if bare and bare.count(";") > bare.count(",") else ","
    held: list[str] = []
    begun = 0
    for number, line in enumerate(lines, 1):
        if not held:
            if not line.strip() or not (bare or line.startswith('"')):
                continue
            begun = number
        held.append(line.removesuffix("\r"))
        if sum(part.count('"') for part in held) % 2 == 0:
            cells = _cells("\n".join(held), mark)
            held = []
            if cells:
                yield begun, cells
        elif len(held) > MOST_LINES:
            break
    if held:
        raise Unreadable(f"{name} is cut short, or damaged, in line {begun}", REMEDY)


MOST_LINES = 1000
"""Lines of one row: a rule's text has a few, and a quote that nobody closes must end somewhere."""


def _cells(row: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([row], delimiter=mark), [])
    except csv.Error:  # a cell of more than 128 KiB: nothing that ncu writes
        return []


def _bare(lines: list[str]) -> str:
    """The header of a report without quotes, "" where it has them."""
    for line in lines:
        if line.startswith(('"ID"', '"Kernel Name"', '"Address"', '"#"')):
            return ""
        if line.startswith(("ID,", "ID;", "Kernel Name,", "Kernel Name;")):
            return line
    return ""
