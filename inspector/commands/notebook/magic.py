"""``%%ptxview`` records a cell and shows what it compiled; ``%ptxview target sm_90`` gives the
notebook's kernel process an emulated device."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from inspector.base.errors import PtxviewError, UsageError
from inspector.commands.notebook import recorder
from inspector.system import printing

NAME = "ptxview"
HELP = """\
%%ptxview [-o PATH] [--as NAME] [--quiet]   record this cell, and show what it compiled
%ptxview target sm_90                       an emulated device, before torch is imported
%ptxview COMMAND …                          any command: list, show, diff, explain …"""


class _Options(argparse.ArgumentParser):
    """Options of the magic; a wrong one is a UsageError, and ends no process."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"%%ptxview: {message}", HELP)


def _options() -> _Options:
    parser = _Options(prog="%%ptxview", add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--out", metavar="PATH")
    parser.add_argument("--as", dest="name", metavar="NAME", default="recording")
    parser.add_argument("--quiet", action="store_true")
    return parser


def load(shell: Any) -> None:
    """Register the magic in the shell."""

    def ptxview(line: str, cell: str | None = None) -> Any:
        """Record this cell, and show what it compiled (%ptxview prints help)."""
        try:
            return _line(line) if cell is None else _cell(shell, line, cell)
        except PtxviewError as error:
            printing.narrate(f"ptxview: {error.message}")
            if error.hint:
                printing.narrate(error.hint)
            return None

    shell.register_magic_function(ptxview, "line_cell", NAME)


def unload(shell: Any) -> None:
    """Remove the magic from the shell."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)


def _line(line: str) -> None:
    words = shlex.split(line)
    if not words:
        printing.narrate(HELP)
    elif words[0] == "target":
        if len(words) != 2:
            raise UsageError("%ptxview target: which architecture?", "%ptxview target sm_90")
        recorder.emulate(words[1])
        printing.narrate(f"ptxview: this notebook has an emulated {words[1]} from now on")
    else:
        recorder.command(words)


def _cell(shell: Any, line: str, cell: str) -> None:
    args = _options().parse_args(shlex.split(line))
    if not args.name.isidentifier():
        raise UsageError(f"%%ptxview: --as {args.name} is not the name of a variable")
    made = recorder.Recorder(args.out)
    with made:
        error = _run(shell, cell)
    shell.user_ns[args.name] = made
    for text in made.said:
        printing.narrate(f"ptxview: {text}")
    if not args.quiet or error is not None:
        _display(made, shown=not args.quiet)
    if error is not None:
        raise error


def _run(shell: Any, cell: str) -> BaseException | None:
    """Run a cell as the notebook does; return its error, which the notebook prints."""
    shown, shown_syntax = shell.showtraceback, shell.showsyntaxerror
    shell.showtraceback = shell.showsyntaxerror = lambda *args, **given: None
    try:
        result = shell.run_cell(cell)
    finally:
        shell.showtraceback, shell.showsyntaxerror = shown, shown_syntax
    error: BaseException | None = result.error_before_exec or result.error_in_exec
    return error


def _display(made: recorder.Recorder, shown: bool) -> None:
    if not made.kernels:
        printing.narrate(
            "ptxview: nothing was compiled or launched in this cell by Triton, torch.compile or an "
            "extension's build"
        )
    elif shown:
        from IPython.display import display

        display(made)
