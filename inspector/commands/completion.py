"""Print what makes a shell complete commands, options, recordings and kernels.

In ~/.bashrc:    eval "$(ptxview completion bash)"
In ~/.zshrc:     eval "$(ptxview completion zsh)", after compinit
For fish:        ptxview completion fish > ~/.config/fish/completions/ptxview.fish
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.names import base_name
from inspector.commands.common import split_program
from inspector.system import files, printing

SHELLS = ("bash", "zsh", "fish")

ZSH = """
_ptxview() {
    if [[ $PREFIX == \\~* ]]; then
        _files
    else
        _python_argcomplete "$@" || _files
    fi
}
compdef _ptxview ptxview
"""
"""zsh escapes a leading ~ in a completion that argcomplete offers, so it completes such a path
itself."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``completion``."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")


def run(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Print the shell's function, which asks ptxview each time that the TAB key is pressed."""
    args = parser.parse_args(argv)
    if args.shell is None:
        raise UsageError(
            f"for which shell: {', '.join(SHELLS)}?",
            'Such as eval "$(ptxview completion bash)" in ~/.bashrc.',
        )
    from argcomplete.shell_integration import shellcode

    script = shellcode(["ptxview"], shell=args.shell)
    printing.lines((script + (ZSH if args.shell == "zsh" else "")).splitlines())
    return Exit.OK


# -- answers ---------------------------------------------------------------------------------------


MAX_SECONDS = 3
MAX_NAMES = 5000
"""Names of one folder that are read."""
MEMORY = str(128 << 20)
"""Bytes that an opened recording may take."""

Words = Mapping[str, str]
"""Words and their descriptions."""
Completer = Callable[..., Words]


class Row(Protocol):
    """A row of the table of commands."""

    @property
    def name(self) -> str: ...
    @property
    def help(self) -> str: ...
    @property
    def module(self) -> str: ...


def answer(commands: Sequence[Row]) -> int:
    """Write the words that fit the line in the environment; 0. Never raises."""
    with contextlib.suppress(Exception):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        os.environ.setdefault(files.VARIABLE, MEMORY)
        _complete(commands)
    return 0


def _complete(commands: Sequence[Row]) -> None:
    from argcomplete.finders import CompletionFinder
    from argcomplete.lexers import split_line

    *_, before, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    top = argparse.ArgumentParser(prog="ptxview", allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="print ptxview's version")
    below = top.add_subparsers()
    for command in commands:
        if command.name in before[1:2]:
            _add(below, command, before[2:])
        else:
            below.add_parser(command.name, help=command.help)
    finder = CompletionFinder()
    finder(top, always_complete_options=False, default_completer=_files, validator=_fits)  # type: ignore[arg-type]


def _add(
    below: argparse._SubParsersAction[argparse.ArgumentParser], command: Row, words: list[str]
) -> None:
    """Add the parser of the command on the line; a program's words are files, never options."""
    module = importlib.import_module(command.module)
    runs = hasattr(module, "VALUED")
    if runs and split_program(words, module.VALUED)[2]:
        parser = below.add_parser(command.name, add_help=False, prefix_chars="\0")
    else:
        parser = below.add_parser(command.name, allow_abbrev=False)
        module.arguments(parser)
    if runs:
        parser.add_argument("program", nargs="*")
    for action in parser._actions:
        if action.choices is None and action.metavar in BY_METAVAR:
            action.completer = BY_METAVAR[action.metavar]  # type: ignore[attr-defined]


def _fits(word: str, prefix: str) -> bool:
    return word.startswith(prefix) and word.isprintable()


def _files(prefix: str, **_: object) -> Words:
    """Files and folders; names that begin with a dot only where a dot was typed."""
    typed, slash, begun = prefix.rpartition("/")
    found: dict[str, str] = {}
    with contextlib.suppress(PtxviewError, OSError, RuntimeError):
        for entry in files.names(Path(typed + slash or ".").expanduser(), MAX_NAMES)[0]:
            if entry.name.startswith(begun) and (begun or not entry.name.startswith(".")):
                found[f"{typed}{slash}{entry.name}{'/' if entry.is_dir() else ''}"] = ""
    return found


def _kernels(
    prefix: str, action: argparse.Action, parser: object, parsed_args: argparse.Namespace
) -> Words:
    """Kernels of the PATH before the cursor, else files and kernels of the newest recording."""
    from inspector.recording.layout import is_recording
    from inspector.sources.opening import TEXT_STAGES, newest, open_path

    path, mark, begun = prefix.rpartition("::")
    given = getattr(parsed_args, "path", None) or getattr(parsed_args, action.dest, None) or []
    first = path or (given if isinstance(given, str) else next(iter(given), ""))
    named = bool(first) and Path(first).expanduser().exists()
    words = {} if named else dict(_files(prefix))
    with contextlib.suppress(PtxviewError, OSError, RuntimeError, ValueError):
        where = Path(first).expanduser() if named else newest()
        if is_recording(where) or where.suffix in TEXT_STAGES:
            for kernel in open_path(where).kernels:
                words[f"{path}{mark}{base_name(kernel.name)}"] = kernel.origin.value
                ids = {f"{path}{mark}{one.id}": kernel.name for one in kernel.variants}
                words |= ids if begun else {}
    return words


def _devices(prefix: str, **_: object) -> Words:
    """Architectures; of several with commas between them, the last."""
    from inspector.reader import tables

    before, comma, _last = prefix.rpartition(",")
    return {f"{before}{comma}{arch}": device.name for arch, device in tables.devices().items()}


def _rules(**_: object) -> Words:
    from inspector.analyse.hints import RULES

    return dict.fromkeys(RULES, "")


def _words(**_: object) -> Words:
    from inspector.reader import tables

    return {entry.word: entry.summary for entry in tables.isa().entries()}


BY_METAVAR: Mapping[object, Completer] = {
    "[PATH] KERNEL": _kernels,
    "[PATH] KERNEL…": _kernels,
    "[PATH] KERNEL [PASS]": _kernels,
    "A B": _kernels,
    "KERNEL": _kernels,
    "ARCH": _devices,
    "ARCH[,ARCH]": _devices,
    "sm_90": _devices,
    "RULE": _rules,
    "WORD": _words,
}
"""Completers of values by metavar; all others are files."""
