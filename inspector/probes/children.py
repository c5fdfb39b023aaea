"""Reports interpreters that ``subprocess`` starts with options that keep the probes out.

What they compile is in no recording. Only the command itself is read, not what a shell or a
launcher makes of it. The child gets its command unchanged.
"""

from __future__ import annotations

import os
import sys

from .hooks import observed, per_recording
from .writer import emit, folder

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_COMMANDS = 100
"""Commands that are reported."""
PARAMETERS = ("self", "args", "bufsize", "executable")
"""Those of ``Popen.__init__``, up to the last that is read here."""
UNWATCHED = ("I", "E", "S")
"""Options with which an interpreter does not load the probes."""

_reported: set[tuple[str, str]] = per_recording(set())


def attach(module: Any) -> None:
    """Observe the start of each child of ``subprocess``."""
    module.Popen.__init__ = observed(module.Popen.__init__, _before_popen)


def _before_popen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if folder() is None:
        return
    bound = {**dict(zip(PARAMETERS, args, strict=False)), **kwargs}
    command = bound.get("args")
    if bound.get("shell") or not isinstance(command, list | tuple) or not command:
        return  # an iterator is the program's to read
    words = [os.fsdecode(word) for word in (bound.get("executable") or command[0], *command[1:])]
    name = os.path.basename(words[0])
    version_suffix = name.removeprefix("python").removeprefix("pypy")
    if words[0] != sys.executable and (
        version_suffix == name or version_suffix.strip("0123456789.t")
    ):
        return
    option, parts = _read(words)
    shown = " ".join(parts)[:200]
    if option is not None and (shown, option) not in _reported and len(_reported) < MAX_COMMANDS:
        _reported.add((shown, option))
        emit({"event": "unwatched", "command": shown, "why": f"-{option}"})


def _read(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """An interpreter's option that keeps the probes out, and the command as it is reported.

    That is its options and what it runs, no arguments: they may be anybody's secrets.
    """
    out = [os.path.basename(words[0])]
    unwatched = None
    items = iter(words[1:])
    for word in items:
        if len(word) < 2 or word[0] != "-" or word[1] == "-":
            out.append(os.path.basename(word))
            break
        for position, letter in enumerate(word[1:], 2):
            unwatched = unwatched or (letter if letter in UNWATCHED else None)
            if letter in "WX":  # with a value, which may be the next word
                _ = word[position:] or next(items, "")
                break
            if letter in "cm":
                shown = (word[position:] or next(items, "")) if letter == "m" else "…"
                return unwatched, [*out, f"-{letter} {shown}"]
            out.append(f"-{letter}")
    return unwatched, out
