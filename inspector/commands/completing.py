"""What the TAB key gives: the words that may stand where the cursor is, by the commands' parsers.

The shell's function (``ptxview completion bash`` prints it) starts ptxview with the line so far in
its environment; argcomplete reads that, goes through the command's own parser as far as the line
goes, and asks here for the values of what comes next, by its metavar. Nothing is printed but the
words, whatever goes wrong, and a glance at a recording is all that is taken.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from inspector import files
from inspector.capture.glance import Glimpse, glance, narrow
from inspector.capture.opening import newest
from inspector.commands.common import split_program
from inspector.errors import PtxviewError
from inspector.recording.layout import recordings_folder

SECONDS = 3
"""After which it is given up, as where a network's disk does not answer."""

MOST_NAMES = 5000
"""Names of one folder that are looked at."""

NEWEST = 5
"""Recordings of the state folder that are offered."""

NUMBERS = frozenset(("N", "N[,N]", "S", "BYTES", "US", "PERCENT", "H"))
"""Metavars of values that nobody can know."""

Words = Mapping[str, str]
"""Words with what is said of each."""


class Row(Protocol):
    """What is needed of a row of the table of commands."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def module(self) -> str: ...


def answer(commands: Sequence[Row]) -> int:
    """Write what fits the line in the environment where the shell's function reads it; 0.

    Never raises, and ends the process where it takes too long.
    """
    with contextlib.suppress(Exception):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        narrow()
        _answered(commands)
    return 0


def _answered(commands: Sequence[Row]) -> None:
    from argcomplete.completers import BaseCompleter
    from argcomplete.finders import CompletionFinder
    from argcomplete.lexers import split_line

    class Files(BaseCompleter):
        """What completes a value that nothing else is known of."""

        def __call__(self, *, prefix: str, **_: object) -> Iterable[str]:
            return _files(prefix)

    line = os.environ["COMP_LINE"]
    *_, before, _ = split_line(line, int(os.environ["COMP_POINT"]))
    called = next((c for c in commands if c.name in before[1:2]), None)
    top = argparse.ArgumentParser(prog="ptxview", allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="which ptxview it is")
    below = top.add_subparsers()
    parsers = [below.add_parser(c.name, help=c.help, **_kind(c, called, before)) for c in commands]
    alone = top
    if called is not None:
        alone = parsers[commands.index(called)]
        _give_arguments(alone, called)
    CompletionFinder()(
        top,
        # Options are offered where one was begun, and where nothing else can follow.
        always_complete_options=not any(not a.option_strings for a in alone._actions),
        default_completer=Files(),
        validator=_fits,
    )


def _kind(command: Row, called: Row | None, before: list[str]) -> dict[str, Any]:
    """How a command's parser is made: of one whose program has begun, no word is our option."""
    valued = _valued(command) if command is called else None
    if valued is not None:
        _, kind, words = split_program(before[2:], valued)
        if words or kind != "script":
            return {"add_help": False, "prefix_chars": "\0"}
    return {"allow_abbrev": False}


def _valued(command: Row) -> Sequence[str] | None:
    """The options with a value of a command that runs a program; None of any other."""
    valued: Sequence[str] | None = getattr(importlib.import_module(command.module), "VALUED", None)
    return valued


def _give_arguments(parser: argparse.ArgumentParser, command: Row) -> None:
    """A command's own arguments, with what completes their values; a program's words are files."""
    if "-" in parser.prefix_chars:
        importlib.import_module(command.module).arguments(parser)
    if _valued(command) is not None:
        parser.add_argument("program", nargs="*", metavar="PROGRAM")
    for action in parser._actions:
        completer = _completer(action)
        if completer is not None:
            action.completer = completer  # type: ignore[attr-defined]


Completer = Callable[..., Words | Iterable[str]]


def _completer(action: argparse.Action) -> Completer | None:
    """What completes an action's value; None: its choices, else files."""
    metavar = action.metavar or ""
    if isinstance(metavar, tuple):
        metavar = " ".join(metavar)
    if action.choices is not None:
        return None
    if metavar in NUMBERS:
        return _nothing
    if metavar == "PATH" and action.option_strings:
        return _files  # where something is written, or an interpreter
    return BY_METAVAR.get(metavar)


def _fits(word: str, prefix: str) -> bool:
    """Whether a word continues what was typed, and a terminal and a shell can be given it."""
    return word.startswith(prefix) and word.isprintable()


def _nothing(**_: object) -> Words:
    return {}


# -- files and recordings -------------------------------------------------------------------------


def _files(prefix: str, **_: object) -> Words:
    """Files and folders that begin so; what begins with a dot is offered where a dot was typed."""
    if prefix.startswith("~") and os.environ.get("_ARGCOMPLETE_SHELL") == "zsh":
        return {}  # it would quote the ~, and completes such a path by itself
    typed, _slash, begun = prefix.rpartition("/")
    at = f"{typed}/" if "/" in prefix else ""
    folder = Path(at or ".")
    with contextlib.suppress(RuntimeError):  # a home that nobody has
        folder = folder.expanduser()
    try:
        entries = files.names(folder, MOST_NAMES)[0]
    except PtxviewError:
        return {}
    found: dict[str, str] = {}
    for entry in entries:
        if entry.name.startswith(begun) and (begun or not entry.name.startswith(".")):
            with contextlib.suppress(OSError):
                found[f"{at}{entry.name}{'/' if entry.is_dir() else ''}"] = ""
    return found


def _paths(prefix: str, **_: object) -> Words:
    """Files and folders, and the newest recordings of the state folder."""
    return {**_files(prefix), **_recordings(prefix)}


def _recordings(prefix: str) -> Words:
    if prefix and not prefix.startswith("/"):
        return {}
    root = recordings_folder()
    try:
        entries = [e for e in files.names(root, MOST_NAMES)[0] if not e.name.startswith(".")]
    except PtxviewError:
        return {}
    entries.sort(key=lambda e: e.stat(follow_symlinks=False).st_mtime, reverse=True)
    return {str(root / e.name): "a recording" for e in entries[:NEWEST]}


# -- kernels --------------------------------------------------------------------------------------


def _glance(path: str | None) -> tuple[Glimpse, ...]:
    """What is at a path, or in the newest recording."""
    try:
        return glance(newest() if path is None else Path(path).expanduser())
    except (PtxviewError, OSError, RuntimeError, ValueError):
        return ()


def _names(glimpses: Sequence[Glimpse], prefix: str) -> Words:
    """Names of kernels; ``name#1`` and on where one was typed that has several variants; ids."""
    of_name: dict[str, list[Glimpse]] = {}
    for one in glimpses:
        of_name.setdefault(one.name, []).append(one)
    offered: dict[str, str] = {}
    for name, variants in of_name.items():
        several = f"{len(variants)} variants"
        offered[name] = variants[0].said if len(variants) == 1 else several
        if prefix.startswith(name) and len(variants) > 1:
            offered |= {f"{name}#{n}": one.said for n, one in enumerate(variants, 1)}
    if prefix:
        offered |= {one.id: f"{one.name} {one.said}".strip() for one in glimpses}
    return offered


def _kernels(
    prefix: str, action: argparse.Action, parser: object, parsed_args: argparse.Namespace
) -> Words:
    """Kernels of the path that was given before, else of the newest recording."""
    path = getattr(parsed_args, "path", None)
    return _names(_glance(path if isinstance(path, str) else None), prefix)


def _selection(
    prefix: str, action: argparse.Action, parser: object, parsed_args: argparse.Namespace
) -> Words:
    """``[PATH] KERNEL``: a path or a kernel of the newest recording, then a kernel of the path."""
    given: list[str] = getattr(parsed_args, action.dest, None) or []
    more = str(action.metavar).endswith("…")
    if given and Path(given[0]).expanduser().exists():
        return _names(_glance(given[0]), prefix) if len(given) == 1 or more else {}
    if given:
        return _names(_glance(None), prefix) if more else {}
    kernels = {} if "/" in prefix else _names(_glance(None), prefix)
    return {**_paths(prefix), **kernels}


def _sides(
    prefix: str, action: argparse.Action, parser: object, parsed_args: argparse.Namespace
) -> Words:
    """``A B``: paths, ``PATH::KERNEL``, kernels of the path that was given first or the newest."""
    given: list[str] = getattr(parsed_args, action.dest, None) or []
    path, mark, begun = prefix.rpartition("::")
    if mark:
        return {f"{path}::{word}": said for word, said in _names(_glance(path), begun).items()}
    first = given[0] if given and Path(given[0]).expanduser().exists() else None
    kernels = {} if "/" in prefix else _names(_glance(first), prefix)
    return {**_paths(prefix), **kernels}


# -- words of tables ------------------------------------------------------------------------------


def _devices(prefix: str, **_: object) -> Words:
    """Architectures; of several with commas between them, the last."""
    from inspector.reader import tables

    before, comma, _last = prefix.rpartition(",")
    return {f"{before}{comma}{arch}": device.name for arch, device in tables.devices().items()}


def _rules(**_: object) -> Iterable[str]:
    from inspector.analyse.hints import RULES

    return RULES


def _words(prefix: str, **_: object) -> Words:
    """Words of PTX and SASS; of those with dots, as much as was asked for: there are many."""
    from inspector.reader import tables

    return {entry.word: entry.summary for entry in tables.isa().entries()}


def _kinds(**_: object) -> Iterable[str]:
    from inspector.analyse.isa import KINDS, PTX, SASS

    return (PTX, SASS, *(kind.replace(" ", "-") for kind in KINDS))


def _edited(prefix: str, **_: object) -> Words:
    """A stage that can be edited, then the file with its text."""
    stages = ("ttir", "ttgir", "llir", "ptx")
    return {**{name: "" for name in stages if name.startswith(prefix)}, **_files(prefix)}


BY_METAVAR: Mapping[str, Completer] = {
    "PATH": _paths,
    "OTHER": _paths,
    "BASELINE": _paths,
    "[PATH] KERNEL": _selection,
    "[PATH] KERNEL…": _selection,
    "[PATH] KERNEL [PASS]": _selection,
    "A B": _sides,
    "KERNEL": _kernels,
    "ARCH": _devices,
    "sm_90": _devices,
    "STAGE FILE": _edited,
    "RULE": _rules,
    "WORD": _words,
    "WHICH": _kinds,
}
"""Metavars and what completes their values; every other is a file's."""
