"""Reports interpreters that ``subprocess`` starts with options that keep the probes out.

What they compile is in no recording. Only the command itself is read, not what a shell or a
launcher makes of it. The child gets its command unchanged.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from .hooks import observed, per_recording
from .writer import emit, folder

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

MAX_COMMANDS = 100
"""Commands that are reported."""
PARAMETERS = ("self", "args", "bufsize", "executable")
"""Those of ``Popen.__init__``, up to the last that is read here."""
UNWATCHED = ("I", "E", "S")
"""Options with which an interpreter does not load the probes."""

_told: set[tuple[str, str]] = per_recording(set())
_starting: set[int] = set()


class OfOurs:
    """Within it, this thread starts processes for ptxview itself, which are not reported."""

    def __enter__(self) -> None:
        _starting.add(get_ident())

    def __exit__(self, *raised: object) -> None:
        _starting.discard(get_ident())


def attach(module: Any) -> None:
    """Observe the start of each child of ``subprocess``."""
    module.Popen.__init__ = observed(module.Popen.__init__, _before_popen)


def _before_popen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if folder() is None or get_ident() in _starting:
        return
    given = {**dict(zip(PARAMETERS, args, strict=False)), **kwargs}
    words = _words(given.get("args"))
    if given.get("executable") is not None:
        words[:1] = _words(given["executable"])
    if given.get("shell") or not words or not _is_python(words[0]):
        return
    option = next((letter for letter, _ in _options(words) if letter in UNWATCHED), None)
    if option is None or len(_told) >= MAX_COMMANDS:
        return
    command = (_short(words), f"-{option}")
    if command not in _told:
        emit({"event": "unwatched", "command": command[0], "why": command[1]})
        _told.add(command)


def _words(given: Any) -> list[str]:
    """Return the words of a command; none of an iterator, which is the program's to read."""
    if isinstance(given, str | bytes | os.PathLike):
        given = (given,)
    return [os.fsdecode(word) for word in given] if isinstance(given, list | tuple) else []


def _is_python(word: str) -> bool:
    name = os.path.basename(word)
    rest = name.removeprefix("python").removeprefix("pypy")
    return word == sys.executable or (rest != name and not rest.strip("0123456789.t"))


def _options(python: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield an interpreter's own options, letter by letter with their values; then ``""`` and
    what it runs."""
    words = iter(python[1:])
    for word in words:
        if len(word) < 2 or word[0] != "-" or word == "--":
            yield "", word
            return
        if word.startswith("--"):
            # Its only long option with a value: --check-hash-based-pycs.
            yield word, next(words, "")
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cmWX":
                yield letter, word[at:] or next(words, "")
                if letter in "cm":
                    return
                break
            yield letter, ""


def _short(words: Sequence[str]) -> str:
    """A command as it is reported: an interpreter, its options and what it runs.

    No more of its arguments: they may be anybody's secrets.
    """
    out = [os.path.basename(words[0])]
    for letter, value in _options(words):
        if not letter:
            out.append(os.path.basename(value) or value)
        elif letter not in "WX":
            shown = value if letter == "m" else "…" if value else ""
            out.append(f"{'' if letter.startswith('--') else '-'}{letter} {shown}".rstrip())
    return " ".join(out)[:200]
