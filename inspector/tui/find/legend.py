"""What the row under the cursor shows: its signs and figures, each with its meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rich.style import Style

from inspector.reader.tables import table
from inspector.tui.code.code_rows import title
from inspector.tui.code.code_view import CodeView
from inspector.tui.tree.kernel_tree import KernelTree
from inspector.tui.widgets.notice import label
from inspector.tui.widgets.row_list import RowList

LEGEND_CELLS = 160
"""Cells in which a row of the tree is drawn to be explained: nothing of it is left out."""

SignMeaning = tuple[str, str]
"""A sign or a figure as the row has it, and what it means."""


def tree_row_legend(tree: KernelTree) -> list[SignMeaning]:
    """The signs and figures of the tree's row under the cursor."""
    if tree.row is None:
        return []
    return _present(tree.draw_row(tree.cursor, LEGEND_CELLS, Style()).text, "tree")


def table_row_legend(rows: RowList[Any]) -> list[SignMeaning]:
    """The signs and figures of a table's row under the cursor."""
    if rows.row is None:
        return []
    return _present(rows.draw_row(rows.cursor, LEGEND_CELLS, Style()).text, "table")


def line_legend(view: CodeView) -> list[SignMeaning]:
    """The columns of the line under the cursor, then its signs."""
    if not view.lines:
        return []
    gutter = view.rows.gutter
    parts = zip(
        (column for column in gutter.columns if column != "value"),
        gutter.parts(view.cursor),
        strict=False,
    )
    columns = [(figure.strip(), title(column)) for column, (figure, _) in parts if figure.strip()]
    drawn = view.rows.row(view.cursor, (0, None), LEGEND_CELLS).text
    return [*columns, *_present(drawn, "line")]


def _present(text: str, kind: str) -> list[SignMeaning]:
    """The signs of a kind of row that a text has, in the order of the legend."""
    return list(_matches(text, table("commands")["legend"][kind]))


def _matches(text: str, rows: list[list[str]]) -> Iterator[SignMeaning]:
    for pattern, meaning in rows:
        match = re.search(pattern, text)
        if match is not None:
            yield label(match[0].strip()), meaning
