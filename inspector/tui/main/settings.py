"""The user's settings, in ``config.toml`` of the configuration folder, and what is remembered.

A file that is damaged, or has entries that mean nothing, costs one warning and never more::

    theme = "light"             # dark, light or auto: as the terminal says, else dark

    [keys]                      # by the id of a command, as the help shows it
    "stage.next" = "J"          # one key: J, j, /, ctrl+x, alt+enter, f5, space
    zoom = ["z", "f11"]         # or several; [] for none
"""

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import platformdirs
from msgspec import Struct, field

from inspector.base.errors import Unreadable
from inspector.base.escapes import shown
from inspector.system import files

THEMES = ("dark", "light", "auto")
MAX_FILE_BYTES = 1 << 20
MAX_PROBLEMS_SHOWN = 6


class Config(Struct, frozen=True):
    """``keys``: Textual's keys by command id, of those that changed; ``theme``: one of THEMES.

    ``problems`` are sentences for the user, safe to draw.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    theme: str = "auto"
    problems: tuple[str, ...] = ()

    @property
    def warning(self) -> str:
        """All that is wrong in one text, or ""."""
        hidden_count = len(self.problems) - MAX_PROBLEMS_SHOWN
        lines = [f"• {p}" for p in self.problems[:MAX_PROBLEMS_SHOWN]]
        return "\n".join([*lines, f"• and {hidden_count} more"] if hidden_count > 0 else lines)


def read_config(path: Path) -> Config:
    try:
        data = files.read(path, MAX_FILE_BYTES, raisable=False)
    except files.Absent:
        return Config()
    except Unreadable as error:
        return Config(problems=(f"it cannot be read: {shown(error.message)}",))
    import tomllib  # who has set nothing does not wait for it, nor for the table of commands

    try:
        settings = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return Config(problems=(f"it is not TOML: {shown(str(error))}",))
    return parse_config(settings)


def parse_config(settings: Mapping[str, object]) -> Config:
    from inspector.tui.keys.command_table import TABLE, parse_key, rebind

    problems = [
        f"there is no setting {shown(name)}" for name in settings if name not in ("keys", "theme")
    ]
    theme = settings.get("theme", "auto")
    keys = settings.get("keys", {})
    if theme not in THEMES:
        problems.append(f"theme is {shown(str(theme))}; it can be {', '.join(THEMES)}")
        theme = "auto"
    if not isinstance(keys, dict):
        problems.append("keys is not a table")
        keys = {}
    bindings: dict[str, tuple[str, ...]] = {}
    ids = {c.id for c in TABLE}
    for name, value in _flat(keys):
        texts = value if isinstance(value, list) else [value]
        bound = [parse_key(text) if isinstance(text, str) else None for text in texts]
        if name not in ids:
            said_keys = shown(" and ".join(map(str, texts)))
            close = get_close_matches(name, ids, 1)
            hint = f"is {close[0]} meant?" if close else "? shows the names of all"
            problems.append(f"there is no command {shown(name)} to bind {said_keys} to: {hint}")
        elif None in bound:
            problems.append(f"{name}: {shown(str(value))} is not a key")
        else:
            bindings[name] = tuple(key for key in bound if key is not None)
    changed, clashes = rebind(bindings)
    return Config(changed, str(theme), (*problems, *clashes))


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """``stage.next = "x"`` without quotes is a table in a table to TOML."""
    for name, value in table.items():
        full = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flat(value, f"{full}.")
        else:
            yield full, value


MAX_RECORDINGS = 200
"""The one not opened for longest is forgotten first."""


Share = Annotated[int, msgspec.Meta(gt=0, le=10_000)]
TreeCells = Annotated[int, msgspec.Meta(gt=0, lt=1000)]


class PaneView(msgspec.Struct, frozen=True):
    """How a pane was looked at; ``gutter`` names its columns, None for the usual ones."""

    stage: str = ""
    level: int = 0
    gutter: tuple[str, ...] | None = None
    verbatim: bool = False
    wrapped: bool = False
    addresses: bool = True


class View(msgspec.Struct, frozen=True):
    """How a recording was last looked at.

    ``subject`` are the ids of kernel, variant and graph; None is what the width decides, and "" an
    arrangement without a name. Unless ``panes_chosen`` the width decides how many panes there are.
    """

    subject: tuple[str, ...] = ()
    panes: tuple[PaneView, ...] = ()
    panes_chosen: bool = False
    beside: bool | None = None
    tree: bool = True
    tree_width: TreeCells | None = None
    map_chosen: bool | None = None
    layout: str = ""
    shares: tuple[Share, ...] = ()


class Remembered(msgspec.Struct):
    """The file's content: the theme that was chosen last, and a view of each recording."""

    theme: Literal["dark", "light"] | None = None
    recordings: dict[str, msgspec.Raw] = {}


class Memory:
    """What the interface remembers of each recording, in one small file of the user's state folder.

    Where the file cannot be read or written, nothing is remembered, and no error is shown.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.theme = self._read().theme

    def _read(self) -> Remembered:
        try:
            return msgspec.json.decode(files.read(self.path, MAX_FILE_BYTES), type=Remembered)
        except (Unreadable, msgspec.MsgspecError, ValueError, RecursionError):
            return Remembered()

    @staticmethod
    def _name(recording: str) -> str:
        return os.path.abspath(recording)  # noqa: PTH100 - Path.resolve would follow links

    def view(self, recording: str) -> View | None:
        try:
            return msgspec.json.decode(self._read().recordings[self._name(recording)], type=View)
        except (KeyError, msgspec.MsgspecError, ValueError, RecursionError):
            return None

    def keep(self, recording: str, view: View | None) -> None:
        views = self._read().recordings
        if view is not None:
            views.pop(self._name(recording), None)
            views[self._name(recording)] = msgspec.Raw(msgspec.json.encode(view))
        views = dict([*views.items()][-MAX_RECORDINGS:])
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(msgspec.json.encode(Remembered(self.theme, views)))
            part.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def config_path() -> Path:
    return Path(platformdirs.user_config_dir("ptxview", appauthor=False)) / "config.toml"


def memory_path() -> Path:
    return Path(platformdirs.user_state_dir("ptxview", appauthor=False)) / "remembered.json"
