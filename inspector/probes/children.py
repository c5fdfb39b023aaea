"""Reports interpreters that ``subprocess`` starts and that cannot be watched.

What they compile is in no recording: they do not load the probes. Only the command itself is read,
not what a shell or a launcher makes of it. The child gets what it was to get.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping
from _thread import get_ident

from .hooks import observed, per_recording
from .writer import emit, folder

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
MAX_COMMANDS = 100
"""Commands that are reported."""
PARAMETERS = (
    "self", "args", "bufsize", "executable", "stdin", "stdout", "stderr", "preexec_fn", "close_fds",
    "shell", "cwd", "env",
)  # fmt: skip
"""Those of ``Popen.__init__``, up to the last that is read here."""

_told: set[tuple[str, str]] = per_recording(set())
_starting: set[int] = set()


class OfOurs:
    """While this thread starts a process for ptxview itself, which is not the user's."""

    def __enter__(self) -> None:
        _starting.add(get_ident())

    def __exit__(self, *raised: object) -> None:
        _starting.discard(get_ident())


def attach(module: Any) -> None:
    """See what ``subprocess`` starts, before it does."""
    module.Popen.__init__ = observed(module.Popen.__init__, _before_popen)


def _before_popen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if folder() is None or get_ident() in _starting:
        return
    given = {**dict(zip(PARAMETERS, args, strict=False)), **kwargs}
    env = given.get("env")
    words = list(_words(given.get("args")))
    if given.get("executable") is not None:
        words[:1] = _words(given["executable"])
    if given.get("shell") or not words or not _is_python(words[0]):
        return
    why = _option(words)
    if why is None and isinstance(env, Mapping | None):
        why = _lost(os.environ if env is None else env)
    if why is None or len(_told) >= MAX_COMMANDS:
        return
    told = (_short(words), why)
    if told not in _told:
        emit({"event": "unwatched", "command": told[0], "why": why})
        _told.add(told)


def _words(given: Any) -> Iterator[str]:
    """Yield the words of a command; none of an iterator, which is the program's to read."""
    if isinstance(given, str | bytes | os.PathLike):
        given = (given,)
    for word in given if isinstance(given, list | tuple) else ():
        yield os.fsdecode(word)


def _is_python(word: str) -> bool:
    name = os.path.basename(word)
    rest = name.removeprefix("python").removeprefix("pypy")
    if rest != name and not rest.strip("0123456789.t"):
        return True
    return word == sys.executable


def _options(python: Sequence[str]) -> Iterator[tuple[str, str]]:
    """An interpreter's own options, letter by letter, each with its value; then ``""`` and what it
    runs."""
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


def _option(python: Sequence[str]) -> str | None:
    """The first of ``-I``, ``-E`` and ``-S`` among an interpreter's own options."""
    return next((f"-{letter}" for letter, _ in _options(python) if letter in ("I", "E", "S")), None)


def _lost(env: Mapping[Any, Any]) -> str | None:
    """Whether an environment does not load what watches."""

    def of(name: str) -> str:
        value = env.get(name)
        value = env.get(name.encode()) if value is None and env is not os.environ else value
        return os.fsdecode(value or "")

    path = of("PYTHONPATH").split(os.pathsep)
    if not of("PTXVIEW_RECORDING") or BOOTSTRAP not in path:
        return "environment"
    before = path[: path.index(BOOTSTRAP)]
    hidden = any(os.path.exists(os.path.join(p or ".", "sitecustomize.py")) for p in before)
    return "sitecustomize" if hidden else None


def _short(words: Sequence[str]) -> str:
    """A command as it is reported: an interpreter, its options and what it runs.

    No more of its arguments: they may be anybody's secrets.
    """
    out = [os.path.basename(words[0])]
    for letter, value in _options(words):
        if not letter:
            out.append(os.path.basename(value) or value)
        elif letter not in "WX":
            told = value if letter == "m" else "…" if value else ""
            out.append(f"{'' if letter.startswith('--') else '-'}{letter} {told}".rstrip())
    return " ".join(out)[:200]
