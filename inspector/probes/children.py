"""Tells of child processes that cannot be watched: what they compile is in no recording.

Probes are loaded by ``sitecustomize`` on ``PYTHONPATH``. An interpreter that is started with
``-I``, ``-E`` or ``-S``, or without what the environment says of us, does not load them, and can
only be told by who starts it. As far as its command line shows: what a shell's script starts in
turn is not seen. The child gets what it was to get; nothing of it is changed.
"""

from __future__ import annotations

import os
import sys
from _collections_abc import Mapping
from _thread import get_ident

from .hooks import like, unseen
from .writer import emit, folder

TYPE_CHECKING = False  # typing takes two milliseconds, and a program may never need it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bootstrap")
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"))
LAUNCHERS = frozenset((
    "env", "exec", "nice", "ionice", "nohup", "setsid", "stdbuf", "taskset", "numactl", "time",
    "timeout", "xargs", "sudo",
))  # fmt: skip
MOST = 100

_told: set[tuple[str, str]] = set()
_starting: set[int] = set()


class OfOurs:
    """While this thread starts a process for ptxview itself, which is not the user's."""

    def __enter__(self) -> None:
        _starting.add(get_ident())

    def __exit__(self, *raised: object) -> None:
        _starting.discard(get_ident())


def install() -> None:
    """See what takes the place of this process, what a shell is given, and what is spawned."""
    for name in ("execv", "execve", "posix_spawn", "posix_spawnp"):
        _wrap(os, name, lambda path, argv, env=None, **_: look((path, *argv[1:]), env))
    _wrap(os, "system", lambda command: look(("sh", "-c", command)))
    posix = sys.modules.get("posix")
    for name in ("execv", "execve", "posix_spawn", "posix_spawnp", "system"):
        # Where pickle looks for them, as a pool of processes does that is to call one.
        if posix is not None and hasattr(posix, name):
            setattr(posix, name, getattr(os, name))


def attach(module: Any) -> None:
    """See what ``subprocess`` starts, before it does."""
    _wrap(module.Popen, "__init__", _of_popen)


def attach_multiprocessing(module: Any) -> None:
    """See what ``multiprocessing`` starts: it asks for its interpreter first."""
    _wrap(module, "get_executable", lambda: look((module._python_exe or sys.executable, "-c", "")))


def _of_popen(popen: Any, args: Any, *more: Any, **named: Any) -> None:
    by_position = dict(zip(_OF_POPEN, more, strict=False))
    given = {"executable": None, "shell": False, "env": None, **by_position, **named}
    words = list(_words(args))
    if given["shell"]:
        words = ["sh", "-c", *words[:1]]
    elif given["executable"] is not None:
        words[:1] = _words(given["executable"])
    look(words, given["env"])


_OF_POPEN = ("", "executable", "", "", "", "", "", "shell", "", "env")
"""What is of interest among the arguments of ``Popen`` after its first."""


def _wrap(owner: Any, name: str, before: Callable[..., None]) -> None:
    """Have ``before`` be called first with the same arguments, whatever becomes of that."""
    original = getattr(owner, name, None)
    if original is None or getattr(original, "__globals__", None) is globals():
        return

    @like(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            before(*args, **kwargs)
        except Exception:
            pass
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            unseen(error)
            raise

    setattr(owner, name, wrapper)


def look(words: Any, env: Any = None) -> None:
    """Tell of a process that is about to be started, if it cannot be watched; never fails."""
    try:
        if folder() is None or get_ident() in _starting:
            return
        given = list(_words(words))
        if not given or not isinstance(env, Mapping | None):
            return
        why = unwatched(given, os.environ if env is None else env)
        told = (_short(given), why or "")
        if why is None or told in _told or len(_told) >= MOST:
            return
        _told.add(told)
        emit({"event": "unwatched", "command": told[0], "why": why})
    except Exception:
        return


def _words(given: Any) -> Iterator[str]:
    """The words of a command; none of an iterator, which is the program's to read."""
    if isinstance(given, str | bytes | os.PathLike):
        given = (given,)
    for word in given if isinstance(given, list | tuple) else ():
        yield os.fsdecode(word)


def unwatched(words: Sequence[str], env: Mapping[Any, Any]) -> str | None:
    """Why an interpreter of Python that these words start is not watched; None if it is, or none.

    ``-I``, ``-E`` and ``-S`` are its options, ``environment`` is one that does not name us, and
    ``sitecustomize`` is another that would be found before ours.
    """
    lost = _lost(env)
    python = _python(words)
    if python is None:
        name = os.path.basename(words[0]) if words else ""
        return lost if name in SHELLS else None
    cleared = any(os.path.basename(w) == "env" for w in words) and any(
        w in ("-", "-i", "--ignore-environment") for w in words[: -len(python)]
    )
    return _option(python) or ("environment" if cleared else lost)


def _python(words: Sequence[str], deeper: int = 2) -> Sequence[str] | None:
    """The words from the interpreter on, as far as they show one."""
    if not words:
        return None
    if _is_python(words[0]):
        return words
    name = os.path.basename(words[0])
    if name in SHELLS and "-c" in words[1:-1]:
        import shlex

        script = words[words.index("-c") + 1]
        try:
            tokens = shlex.split(script.replace(";", " ; "))
        except ValueError:
            return None
        return next((tokens[n:] for n, word in enumerate(tokens) if _is_python(word)), None)
    if name in LAUNCHERS:
        at = next((n for n, word in enumerate(words) if n and _is_python(word)), None)
        return None if at is None else words[at:]
    first = _shebang(words[0]) if deeper else None
    return None if first is None else _python((*first, *words), deeper - 1)


def _is_python(word: str) -> bool:
    name = os.path.basename(word)
    rest = name.removeprefix("python").removeprefix("pypy")
    if rest != name and not rest.strip("0123456789.t"):
        return True
    return word == sys.executable


def _shebang(program: str) -> Sequence[str] | None:
    """The words of a script's first line, None where it has no such line or is not found."""
    import shutil

    path = shutil.which(program)
    if path is None:
        return None
    with open(path, "rb") as file:
        head = file.read(256)
    if not head.startswith(b"#!"):
        return None
    line = os.fsdecode(head[2:].splitlines()[0]).split(None, 1)
    return line or None


def _options(python: Sequence[str]) -> Iterator[tuple[str, str]]:
    """An interpreter's own options, letter by letter, each with its value; then ``""`` and what it
    runs."""
    words = iter(python[1:])
    for word in words:
        if len(word) < 2 or word[0] != "-" or word == "--":
            yield "", word
            return
        if word.startswith("--"):
            yield (
                word,
                next(words, ""),
            )  # its only long option that goes on: --check-hash-based-pycs
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
    """A command as it is told: an interpreter, its options and what it runs, or a program's name.

    No more of its arguments: they may be anybody's secrets.
    """
    python = _python(words)
    if python is None:
        return os.path.basename(words[0])
    out = [os.path.basename(python[0])]
    for letter, value in _options(python):
        if not letter:
            out.append(os.path.basename(value) or value)
        elif letter not in "WX":
            told = value if letter == "m" else "…" if value else ""
            out.append(f"{'' if letter.startswith('--') else '-'}{letter} {told}".rstrip())
    return " ".join(out)[:200]
