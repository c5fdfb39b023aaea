"""The rows of a recording's tree as they were, for the frame that stands while it is read.

They are kept in the user's own cache and never with the recording, which may be a stranger's, one
entry a path. An entry counts only for the files that it was made of, by their names, sizes and
times; whatever else is wrong with it, there is none. Even so it is believed no longer than the
recording takes to be read: the tree that is read takes its place, and is kept if it differs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.cells import cell_len

from inspector import files
from inspector.errors import Unreadable
from inspector.recording.layout import DerivedCache, stamp
from inspector.tui.tree.row_look import RowLook, shorten_variant
from inspector.tui.widgets.visible import label, shorten

FORMAT = 1
MOST_ROWS, LARGEST = 2000, 1 << 20
"""Rows that are kept, from the first on, and bytes of an entry that is read."""
MOST_PARTS = 3
MOST_CELLS = 400
"""Characters of one text: no terminal shows more of a name."""
SIGNS = {"▾ ", "▸ ", "∘ ", "  ", " ★"}
STYLES = {"", "tree--origin", "tree--kernel", "tree--quiet"}
FOLDED, UNFOLDED = "▸ ", "▾ "


@dataclass(frozen=True, slots=True)
class KeptRow:
    """A row: what is drawn of it, of which kernel, variant and graph it is ("" if of none), what
    its text was cut to where it had ``room`` cells and needed more, and its short text, if any."""

    look: RowLook
    subject: tuple[str, ...] = ("", "", "")
    room: int = 0
    cut: str = ""
    short: str = ""

    def fitted(self, room: int) -> str:
        """Its text in so many cells."""
        if self.cut and room == self.room:
            return self.cut
        if cell_len(self.look.text) <= room:
            return self.look.text
        if self.short:
            return shorten_variant(self.short, room)
        return shorten(self.look.text, room)


@dataclass(frozen=True, slots=True)
class KeptTree:
    """``title`` has the parts of the first line; ``rows`` stand as they begin, and what is folded
    beneath them too."""

    title: tuple[str, ...]
    rows: tuple[KeptRow, ...]

    def shown(self, subject: Sequence[str]) -> tuple[list[KeptRow], int]:
        """The rows to draw, and which has the cursor: the first of ``subject``, for which others
        are unfolded, else the first that can be read."""
        at = next((i for i, row in enumerate(self.rows) if row.subject == tuple(subject)), None)
        if at is None:
            at = next((i for i, row in enumerate(self.rows) if row.subject[0]), 0)
        above = set(_above(self.rows, at))
        out: list[KeptRow] = []
        cursor, deepest = 0, len(self.rows)
        for index, row in enumerate(self.rows):
            if row.look.depth > deepest:
                continue  # beneath one that is folded
            deepest = len(self.rows)
            if row.look.sign == FOLDED:
                if index in above:
                    row = replace(row, look=replace(row.look, sign=UNFOLDED))
                else:
                    deepest = row.look.depth
            if index == at:
                cursor = len(out)
            out.append(row)
        return out, cursor


def _above(rows: Sequence[KeptRow], at: int) -> Iterator[int]:
    """The rows that one stands beneath."""
    depth = rows[at].look.depth if rows else 0
    for index in range(at - 1, -1, -1):
        if rows[index].look.depth < depth:
            depth = rows[index].look.depth
            yield index


class TreeKeeper:
    """What is kept of one recording, as it lies there now; ``tree`` is None where that is nothing.

    Made before the recording is read: what is read of it later is kept for the files as they were.
    """

    def __init__(self, cache: DerivedCache, path: Path) -> None:
        self._cache = cache
        self.path = path
        self._key = DerivedCache.key("rows of a tree", os.path.abspath(path))  # noqa: PTH100 - no links
        self._of = stamp(path)
        self.tree = None if self._of is None else _parsed(cache.get(self._key), self._of)

    def keep(self, tree: KeptTree) -> None:
        """Keep what was read, if it differs, and if the files are still what they were."""
        tree = replace(tree, rows=tree.rows[:MOST_ROWS])
        if tree == self.tree or self._of is None or stamp(self.path) != self._of:
            return
        said = {"format": FORMAT, "of": self._of, "title": tree.title,
                "rows": [_said(row) for row in tree.rows]}  # fmt: skip
        data = json.dumps(said, separators=(",", ":")).encode()
        if len(data) <= LARGEST:
            self._cache.put(self._key, data)
            self.tree = tree


def _said(row: KeptRow) -> list[object]:
    look = row.look
    return [look.depth, look.style, look.sign, _text(look.text), look.figures, look.many,
            look.spill, row.subject, row.room, _text(row.cut), _text(row.short)]  # fmt: skip


def _parsed(data: bytes | None, of: str) -> KeptTree | None:
    """The tree that an entry holds, if it was made of files with this ``stamp``."""
    if data is None or len(data) > LARGEST:
        return None
    try:
        said = files.parsed(data)
    except (Unreadable, ValueError):
        return None
    if not isinstance(said, dict) or said.get("format") != FORMAT or said.get("of") != of:
        return None
    title, rows = said.get("title"), said.get("rows")
    if not isinstance(title, list) or not isinstance(rows, list) or len(rows) > MOST_ROWS:
        return None
    made = [row for row in map(_row, rows) if row is not None]
    if not made or len(made) < len(rows) or not all(isinstance(part, str) for part in title):
        return None
    return KeptTree(tuple(map(_text, title[:MOST_PARTS])), tuple(made))


def _text(text: str) -> str:
    return label(text[:MOST_CELLS])


def _row(said: object) -> KeptRow | None:
    """A row of what stood in the entry, if it is one."""
    if not isinstance(said, list) or len(said) != 11:
        return None
    depth, style, sign, text, figures, many, spill, subject, room, cut, short = said
    texts = (style, sign, text, figures, many, cut, short)
    if not all(isinstance(one, str) for one in texts) or not isinstance(subject, list):
        return None
    if type(depth) is not int or type(room) is not int or not 0 <= depth < 10:
        return None
    if style not in STYLES or sign not in SIGNS or len(subject) != 3:
        return None
    if not all(isinstance(one, str) for one in subject):
        return None
    look = RowLook(
        depth, style, sign, _text(text), _text(figures), _text(many), spill=spill is True
    )
    return KeptRow(look, tuple(subject), room, _text(cut), _text(short))
