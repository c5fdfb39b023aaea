"""What the interface remembers of each recording: its panes, their stages, and where one was.

One small JSON file in the user's state folder; nothing is written into a recording. Where it cannot
be read or written, nothing is remembered, and no error is shown.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from inspector import files
from inspector.errors import Unreadable

MAX_RECORDINGS = 200
"""The one not opened for longest is forgotten first."""

MAX_BYTES = 1 << 20
MAX_TREE_CELLS, MAX_SHARE = 1000, 10_000


@dataclass(frozen=True, slots=True)
class View:
    """How a recording was last looked at.

    ``subject``: ids of kernel, variant and graph. ``stages``: of each pane, "" if it was not
    chosen. ``beside``: None if the width decides. Of each pane too: ``folds``, the words of what
    is folded in it, ``columns``, the names of those in its gutter, and ``wrapped``. ``mapped`` is
    whether the map was on. ``layout`` is the name of one, "" if the panes are arranged otherwise;
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


Check = Callable[[object], bool]


def _all(check: Check) -> Check:
    return lambda value: isinstance(value, tuple) and all(map(check, value))


def _is(kind: type) -> Check:
    return lambda value: type(value) is kind


_TEXTS, _SHARES = _all(_is(str)), _all(lambda n: type(n) is int and 0 < n <= MAX_SHARE)
_CHECKS: dict[str, Check] = {
    "subject": _TEXTS,
    "stages": _TEXTS,
    "folds": _all(_TEXTS),
    "columns": _all(_TEXTS),
    "beside": _is(bool),
    "tree": _is(bool),
    "mapped": _is(bool),
    "layout": _is(str),
    "wrapped": _all(_is(bool)),
    "widths": _SHARES,
    "heights": _SHARES,
    "tree_width": lambda n: type(n) is int and 0 < n < MAX_TREE_CELLS,
}


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _view(value: object) -> View | None:
    """Return a view of what the file says; fields that are not as they should be are left out."""
    if not isinstance(value, dict):
        return None
    fields = {name: _tuples(value.get(name)) for name in _CHECKS}
    return View(**{n: v for n, v in fields.items() if _CHECKS[n](v)})  # type: ignore[arg-type]


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
        """Return how a recording was last looked at."""
        return _view(self._views().get(self._name(recording)))

    def keep(self, recording: str, view: View | None) -> None:
        """Remember a recording's view, and the theme. What others have written since is kept."""
        views = self._views()
        if view is not None:
            views.pop(self._name(recording), None)
            views[self._name(recording)] = asdict(view)
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
