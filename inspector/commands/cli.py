"""The command line: one table of commands; each is a function in its own module."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from inspector import __version__
from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.text import meant
from inspector.system import printing


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A command: its module has ``arguments(parser)`` and ``run(args) -> int``.

    Examples are lines to type: a command, and after "#" what it is good for.
    """

    name: str
    usage: str
    help: str
    examples: tuple[str, ...]

    @property
    def module(self) -> str:
        return f"inspector.commands.{self.name}"


COMMANDS = (
    Subcommand(
        "run",
        "ptxview run [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program and record every kernel that it makes",
        (
            "ptxview run train.py --lr 1e-3  # look at its kernels while it runs",
            "ptxview run --target sm_90 --no-tui -o x.ptxview train.py  # without a GPU",
        ),
    ),
    Subcommand(
        "open",
        "ptxview open [PATH…]",
        "browse a recording, a cache or a file in the terminal",
        (
            "ptxview open  # the newest recording",
            "ptxview open ~/.triton/cache  # what was compiled before",
        ),
    ),
    Subcommand(
        "list",
        "ptxview list [PATH…]",
        "kernels and variants, as a table",
        (
            "ptxview list x.ptxview  # registers, spills, shared memory, hints",
            "ptxview list x.ptxview --calls  # with which sizes each was called",
        ),
    ),
    Subcommand(
        "show",
        "ptxview show [PATH] KERNEL",
        "one stage of a kernel, or two side by side",
        (
            "ptxview show x.ptxview softmax_kernel --stage ptx -a  # a sentence a line",
            "ptxview show x.ptxview softmax_kernel --stage sass --beside source  # side by side",
        ),
    ),
    Subcommand(
        "diff",
        "ptxview diff A B",
        "what differs: two variants, all of a kernel, recordings",
        (
            "ptxview diff before.ptxview after.ptxview --summary  # what became worse",
            "ptxview diff x.ptxview gelu_kernel gelu_float_kernel --stage ptx  # two kernels",
        ),
    ),
    Subcommand(
        "time",
        "ptxview time [PATH] [KERNEL…] | SCRIPT.py",
        "measured times of recorded launches, or of a script's variants",
        (
            "ptxview time x.ptxview  # every recorded launch",
            "ptxview time bench.py --sweep N=1024:8192:1024  # the variants of a script",
        ),
    ),
    Subcommand(
        "profile",
        "ptxview profile [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program under torch.profiler: operators, kernels, overhead",
        (
            "ptxview profile train.py  # three steps of it",
            "ptxview profile --stored x.ptxview  # again, what was measured",
        ),
    ),
    Subcommand(
        "ncu",
        "ptxview ncu [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program under Nsight Compute, and tie what it measures to the kernels",
        (
            "ptxview ncu train.py  # sections and samples of all kernels",
            "ptxview ncu --kernel softmax_kernel --launch-count 1 train.py  # of one",
        ),
    ),
    Subcommand(
        "trace",
        "ptxview trace [PATH] KERNEL",
        "run a recorded call's PTX on the CPU: what happened at each line",
        (
            "ptxview trace x.ptxview softmax_kernel --by source  # what each Python line did",
            "ptxview trace x.ptxview softmax_kernel --bars sectors  # where memory is touched",
        ),
    ),
    Subcommand(
        "step",
        "ptxview step [PATH] KERNEL",
        "step through a block of a recorded call: every register, forwards and backwards",
        (
            "ptxview step x.ptxview softmax_kernel --block 3  # and then: help",
            "ptxview step x.ptxview softmax_kernel --commands 'until 45; print %r5'  # no prompt",
        ),
    ),
    Subcommand(
        "compile",
        "ptxview compile FILE… [options] [-- OPTIONS]",
        "compile files for several targets, without a GPU: a column each",
        (
            "ptxview compile square.cu --target sm_80,sm_90a,sm_100  # their figures side by side",
            "ptxview compile square.cu --options=-O1 --options=-O3 --no-tui  # by options",
        ),
    ),
    Subcommand(
        "passes",
        "ptxview passes [PATH] KERNEL [PASS]",
        "the IR after each pass of the compiler that changed it, and which pass did this",
        (
            "ptxview passes x.ptxview matmul_kernel#1 --introduces convert_layout  # who made it",
            "ptxview passes x.ptxview matmul_kernel#1 13  # what the pass of that number changed",
        ),
    ),
    Subcommand(
        "try",
        "ptxview try [PATH] KERNEL [--stage STAGE FILE] [options]",
        "what if: an edited stage of a kernel, or other options, through the rest of its compiler",
        (
            "ptxview try x.ptxview softmax_kernel --stage ttgir my.ttgir  # and what differs",
            "ptxview try x.ptxview softmax_kernel --num-warps 4,8 --num-stages 2,3  # as a table",
        ),
    ),
    Subcommand(
        "repro",
        "ptxview repro [PATH] KERNEL",
        "a recorded call as one script that stands alone: runs it, checks it, times it",
        (
            "ptxview repro x.ptxview softmax_kernel  # and > repro.py keeps it, or -o repro.py",
            "ptxview repro x.ptxview matmul_kernel --call 0 --check-with none  # run it, time it",
        ),
    ),
    Subcommand(
        "check",
        "ptxview check [PATH] [BASELINE]",
        "a gate for CI: limits that kernels must keep, and nothing worse than before",
        (
            "ptxview check x.ptxview --max-registers 128 --no-spills  # exits with 1 if not so",
            "ptxview check after.ptxview before.ptxview  # nothing worse than before",
        ),
    ),
    Subcommand(
        "export",
        "ptxview export [PATH] [KERNEL…] [-o FILE]",
        "a recording for somebody else: a page, Markdown, a folder, one file",
        (
            "ptxview export x.ptxview -o page.html  # one page that opens anywhere",
            "ptxview export x.ptxview softmax_kernel -o -  # Markdown for an issue",
        ),
    ),
    Subcommand(
        "explain",
        "ptxview explain WORD…",
        "what a word of PTX or SASS means",
        (
            "ptxview explain 'ld.global.nc.v4.f32'  # part by part",
            "ptxview explain mbarrier  # every word of a family",
        ),
    ),
    Subcommand(
        "mcp",
        "ptxview mcp [--root FOLDER]… [--allow-run]",
        "serve an assistant over the Model Context Protocol",
        (
            "ptxview mcp  # what a client starts: it reads the working directory, and runs nothing",
            "ptxview mcp --root ~/kernels --allow-run  # other folders, and leave to run programs",
        ),
    ),
    Subcommand(
        "doctor",
        "ptxview doctor",
        "what is on this machine, and what each lack costs",
        (
            "ptxview doctor  # tools, compilers, devices",
            "ptxview doctor --python ~/env/bin/python  # of another environment",
        ),
    ),
    Subcommand(
        "completion",
        "ptxview completion bash|zsh|fish",
        "print the completion script of a shell",
        (
            'ptxview completion bash  # in ~/.bashrc: eval "$(ptxview completion bash)"',
            "ptxview completion fish  # to ~/.config/fish/completions/ptxview.fish",
        ),
    ),
)

# What stands around a program of the user's, whose own exit statuses it gives.
RUNS = (["run"], ["profile"])

COMPLETING = "_ARGCOMPLETE"
"""Set by a shell's function that asks for completions."""

MAX_MESSAGE_CHARS = 200
"""Characters printed of an unexpected error."""


class _Options(argparse.ArgumentParser):
    """The options of a command; an unknown one is refused with similar names."""

    def error(self, message: str) -> NoReturn:
        """End with the usage and a sentence."""
        unknown = re.fullmatch(r"unrecognized arguments: (--[\w-]+).*", message, re.DOTALL)
        hint = meant(unknown[1], self._option_string_actions) if unknown else ""
        super().error(f"{message}\n{hint or f'{self.prog} --help says more'}")


def parser() -> argparse.ArgumentParser:
    """The parser of the top level; each command's own is made when it is called."""
    width = max(len(c.name) for c in COMMANDS)
    table = "\n".join(f"  {c.name:<{width}}  {c.help}" for c in COMMANDS)
    top = argparse.ArgumentParser(
        prog="ptxview",
        usage="ptxview COMMAND …",
        description="Read what compilers make of PyTorch: "
        "Python → output_code → TTIR → TTGIR → LLVM IR → PTX → SASS.",
        epilog=f"commands:\n{table}\n\n"
        "PATH is a recording (the newest if left out), a .triton or Inductor cache, a build\n"
        "folder of an extension, a .ptx .cubin .so .o .fatbin .ttir .ttgir .llir file, saved\n"
        "TORCH_LOGS text, a TORCH_TRACE folder, a trace of tritonparse, or an archive of them.\n"
        "KERNEL is a name, a glob, a variant's id, or NAME#2.\n"
        "ptxview COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"ptxview {__version__}")
    top.add_argument(
        "--schema", metavar="COMMAND", help="the JSON Schema of what COMMAND --json prints"
    )
    top.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. Errors become one sentence and what to do about it."""
    if COMPLETING in os.environ:
        status: int = importlib.import_module("inspector.commands.completion").answer(COMMANDS)
        return status
    given = list(sys.argv[1:] if argv is None else argv)
    printing.with_streams()
    with printing.guarded(), _thread_errors_as_sentences():
        return _guarded_run(given)


def _guarded_run(given: list[str]) -> int:
    try:
        return _dispatch(given)
    except PtxviewError as error:
        _say(error.message, error.hint)
        return error.status
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does: nobody is left to tell.
        printing.give_up()
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}", _details())
        printing.give_up()
        return _failed(given)
    except Exception as error:
        _say(*_sentence(error), _details(error))
        return _failed(given)


def _failed(given: list[str]) -> int:
    """The status where it was not the user's program that failed."""
    ours = given[:1] in RUNS and "--stored" not in given
    return Exit.RUN_FAILED if ours else Exit.UNREADABLE


def _sentence(error: Exception) -> tuple[str, ...]:
    """Explain an unexpected error: a message and a hint."""
    if isinstance(error, MemoryError):
        return (
            "there is not enough memory",
            "Open a part of it: one file instead of its folder, one kernel instead of all.",
        )
    if isinstance(error, RecursionError):
        return ("the input is nested too deeply to be read",)
    if isinstance(error, UnicodeError):
        return (f"text cannot be read or written as it is encoded: {_first_line(error)}",)
    return (f"a fault of ptxview's own: {type(error).__name__}: {_first_line(error)}",)


def _first_line(error: Exception) -> str:
    """An error's first line, short: it may quote all of its input."""
    try:
        text = str(error)
    except Exception:
        return "it cannot say what"
    line = text.split("\n", 1)[0]
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[:MAX_MESSAGE_CHARS]}…"


def _details(error: BaseException | None = None) -> str:
    """Where the traceback of an error is found; "" of the one at hand where that is not asked for.

    With PTXVIEW_TRACEBACK it is the traceback itself.
    """
    asked = bool(os.environ.get("PTXVIEW_TRACEBACK"))
    if error is None and not asked:
        return ""
    import traceback

    try:
        text = "".join(traceback.format_exception(error or sys.exc_info()[1]))
    except Exception:
        return ""
    if asked:
        return text.rstrip()
    return _kept(text)


def _kept(text: str) -> str:
    """Keep a traceback for a report; returns where it is."""
    again = "PTXVIEW_TRACEBACK=1 in the environment shows where it happened."
    try:
        import platformdirs

        folder = Path(platformdirs.user_state_dir("ptxview", appauthor=False))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "fault.txt"
        path.write_text(f"ptxview {__version__}\n{text}", "utf-8", "backslashreplace")
    except Exception:
        return again
    return f"Where it happened is in {path}, for a report."


def _say(message: str, *more: str) -> None:
    """Print a sentence and its hints on standard error, after pending output."""
    with contextlib.suppress(OSError, ValueError):
        printing.flush()
    # Standard error may be gone as well; the status still says it.
    with contextlib.suppress(OSError, ValueError):
        printing.narrate(f"ptxview: {message}")
        for text in filter(None, more):
            printing.narrate(text)


@contextlib.contextmanager
def _thread_errors_as_sentences() -> Iterator[None]:
    """Report a thread's error as a sentence instead of a traceback."""

    def told(failed: threading.ExceptHookArgs) -> None:
        if isinstance(failed.exc_value, Exception):
            _say(*_sentence(failed.exc_value), _details(failed.exc_value))

    before, threading.excepthook = threading.excepthook, told
    try:
        yield
    finally:
        threading.excepthook = before


def _examples(command: Subcommand) -> str:
    """The examples of a command, each below a line on its purpose."""
    pairs = [line.partition("  # ")[::2] for line in command.examples]
    return "examples:\n" + "\n".join(f"  # {what}\n  {line}" for line, what in pairs)


def _dispatch(given: list[str]) -> int:
    if not given:
        printing.narrate(parser().format_help().rstrip())
        return Exit.USAGE
    if given[0].startswith("-"):
        asked: str | None = parser().parse_args(given).schema
        if asked is None:
            return Exit.USAGE
        status: int = importlib.import_module("inspector.commands.schemas").show(asked)
        printing.flush()
        return status
    command = next((c for c in COMMANDS if c.name == given[0]), None)
    if command is None:
        names = [c.name for c in COMMANDS]
        hint = meant(given[0], names) or f"Commands: {', '.join(names)}"
        raise UsageError(f"there is no command {given[0]}", hint)
    module = importlib.import_module(command.module)
    own = _Options(
        prog=f"ptxview {command.name}",
        usage=command.usage + ("" if "[options]" in command.usage else " [options]"),
        description=module.__doc__.split("\n\n")[0] if module.__doc__ else command.help,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(own)
    own.epilog = "\n\n".join(filter(None, (own.epilog, _examples(command))))
    status = module.run(own, given[1:])
    printing.flush()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
