"""What the interface remembers of each recording: its panes, their stages, and where one was.

One small JSON file in the user's state folder; nothing is written into a recording. Where it cannot
be read or written, nothing is remembered, and no error is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Annotated

import msgspec

from inspector.base.errors import Unreadable
from inspector.system import files

MAX_RECORDINGS = 200
"""The one not opened for longest is forgotten first."""

MAX_BYTES = 1 << 20


Share = Annotated[int, msgspec.Meta(gt=0, le=10_000)]
TreeCells = Annotated[int, msgspec.Meta(gt=0, lt=1000)]


class View(msgspec.Struct, frozen=True):
    """How a recording was last looked at.

    Args:
        subject: Ids of kernel, variant and graph.
        stages: Of each pane; "" if it was not chosen.
        beside: Whether panes are side by side; None if the width decides.
        tree: Whether the tree is shown.
        tree_width: Columns of the tree; None for the usual ones.
        folds: Of each pane, the words of what is folded.
        columns: Of each pane, the names of the columns in its gutter.
        wrapped: Of each pane, whether lines are wrapped.
        mapped: Whether the map is on.
        layout: Name of the layout; "" for any other arrangement.
        widths, heights: Shares of the room; empty where no border was moved.
    """

    subject: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    beside: bool | None = None
    tree: bool = True
    tree_width: TreeCells | None = None
    folds: tuple[tuple[str, ...], ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    wrapped: tuple[bool, ...] = ()
    mapped: bool = False
    layout: str = ""
    widths: tuple[Share, ...] = ()
    heights: tuple[Share, ...] = ()


class Memory:
    """The file's content; read once, written when the interface is left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fresh = not path.exists()
        """Whether the interface was never left before."""
        theme = self._read().get("theme")
        self.theme: str | None = theme if theme in ("dark", "light") else None

    def _read(self) -> dict[str, object]:
        try:
            said = files.parsed(files.read(self.path, MAX_BYTES))
        except (Unreadable, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def _views(self) -> dict[str, object]:
        views = self._read().get("recordings")
        return views if isinstance(views, dict) else {}

    @staticmethod
    def _name(recording: str) -> str:
        return os.path.abspath(recording)  # noqa: PTH100 - Path.resolve would follow links

    def view(self, recording: str) -> View | None:
        """Return how a recording was last looked at; None if unknown or damaged."""
        try:
            return msgspec.convert(self._views().get(self._name(recording)), View)
        except msgspec.ValidationError:
            return None

    def keep(self, recording: str, view: View | None) -> None:
        """Remember a recording's view, and the theme. What others have written since is kept."""
        views = self._views()
        if view is not None:
            views.pop(self._name(recording), None)
            views[self._name(recording)] = msgspec.to_builtins(view)
        while len(views) > MAX_RECORDINGS:
            views.pop(next(iter(views)))
        text = json.dumps({"theme": self.theme, "recordings": views}, indent=1)
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, "utf-8")
            part.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
