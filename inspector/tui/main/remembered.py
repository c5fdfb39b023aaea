"""What the interface remembers of each recording: its panes, their stages, and where one was.

One small JSON file in the user's state folder; nothing is written into a recording. Where it cannot
be read or written, nothing is remembered, and nobody is told.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from inspector import files
from inspector.errors import Unreadable

MOST = 200
"""Recordings that are remembered; the one not opened for longest is forgotten first."""

LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class View:
    """How a recording was last looked at.

    ``subject``: ids of kernel, variant and graph. ``stages``: of each pane, "" if it was not
    chosen. ``beside``: None if the width decides. Of each pane too: ``folds``, the words of what
    is folded in it, ``columns``, the names of those in its gutter, and ``wrapped``. ``mapped`` is
    whether the map was on. ``layout`` is the name of one, "" if the panes stand otherwise;
    ``widths`` and ``heights`` are the shares of the room that panes have, none where nobody has
    moved a border.
    """

    subject: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    beside: bool | None = None
    tree: bool = True
    tree_width: int | None = None
    folds: tuple[tuple[str, ...], ...] = ()
    columns: tuple[tuple[str, ...], ...] = ()
    wrapped: tuple[bool, ...] = ()
    mapped: bool = False
    layout: str = ""
    widths: tuple[int, ...] = ()
    heights: tuple[int, ...] = ()


def _words(said: object) -> tuple[str, ...]:
    """A list of texts, if it is one."""
    fits = isinstance(said, list) and all(isinstance(one, str) for one in said)
    return tuple(said) if fits and isinstance(said, list) else ()


def _each(said: object) -> tuple[object, ...]:
    return tuple(said) if isinstance(said, list) else ()


def _shares(said: object) -> tuple[int, ...]:
    """Shares of the room, if they are some."""
    shares = tuple(one for one in _each(said) if type(one) is int and 0 < one <= 10_000)
    return shares if len(shares) == len(_each(said)) else ()


def _view(said: object) -> View | None:
    """A view of what stood in the file, if it is one."""
    if not isinstance(said, dict):
        return None
    beside, width = said.get("beside"), said.get("tree_width")
    return View(
        _words(said.get("subject")),
        _words(said.get("stages")),
        beside if isinstance(beside, bool) else None,
        said.get("tree") is not False,
        width if type(width) is int and 0 < width < 1000 else None,
        tuple(map(_words, _each(said.get("folds")))),
        tuple(map(_words, _each(said.get("columns")))),
        tuple(one is True for one in _each(said.get("wrapped"))),
        said.get("mapped") is True,
        layout if isinstance(layout := said.get("layout"), str) else "",
        _shares(said.get("widths")),
        _shares(said.get("heights")),
    )


class Memory:
    """The file's content; read once, written when the interface is left."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fresh = not path.exists()
        """Whether the interface was never left before."""

        said = self._read()
        theme = said.get("theme")
        self.theme: str | None = theme if theme in ("dark", "light") else None

    def _read(self) -> dict[str, object]:
        try:
            said = files.parsed(files.read(self.path, LARGEST))
        except (Unreadable, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def _views(self, said: Mapping[str, object]) -> dict[str, object]:
        views = said.get("recordings")
        return dict(views) if isinstance(views, dict) else {}

    @staticmethod
    def _name(recording: str) -> str:
        return os.path.abspath(recording)  # noqa: PTH100 - Path.resolve would follow links

    def view(self, recording: str) -> View | None:
        """How a recording was last looked at."""
        return _view(self._views(self._read()).get(self._name(recording)))

    def keep(self, recording: str, view: View | None) -> None:
        """Remember a recording's view, and the theme. What others have written since is kept."""
        said = self._read()
        views = self._views(said)
        if view is not None:
            views.pop(self._name(recording), None)
            views[self._name(recording)] = asdict(view)
        while len(views) > MOST:
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
