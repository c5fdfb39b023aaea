"""The command line: one table of commands; each is a function in its own module."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from inspector import __version__
from inspector.errors import Exit, PtxviewError
from inspector.report.safe import lines_shown


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its module has ``arguments(parser)`` and ``run(args) -> int``."""

    name: str
    usage: str
    help: str

    @property
    def module(self) -> str:
        return f"inspector.commands.{self.name}"


COMMANDS = (
    Command(
        "run",
        "ptxview run [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program and record every kernel that it makes",
    ),
    Command("open", "ptxview open [PATH]", "browse a recording, a cache or a file in the terminal"),
    Command("list", "ptxview list [PATH]", "kernels and variants, as a table"),
    Command("show", "ptxview show [PATH] KERNEL", "one stage of a kernel, or two side by side"),
    Command("diff", "ptxview diff A B", "what differs: two variants, all of a kernel, recordings"),
    Command(
        "time",
        "ptxview time [PATH] [KERNEL…] | SCRIPT.py",
        "measured times of recorded launches, or of a script's variants",
    ),
    Command(
        "profile",
        "ptxview profile [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program under torch.profiler: operators, kernels, overhead",
    ),
    Command(
        "ncu",
        "ptxview ncu [options] SCRIPT [ARGS…] | -m MODULE [ARGS…] | -- COMMAND [ARGS…]",
        "run a program under Nsight Compute, and tie what it measures to the kernels",
    ),
    Command("explain", "ptxview explain WORD…", "what a word of PTX or SASS means"),
    Command("doctor", "ptxview doctor", "what is on this machine, and what each lack costs"),
)

# What stands around a program of the user's, whose own exit statuses it gives.
RUNS = (["run"], ["profile"])


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
        "TORCH_LOGS text or a TORCH_TRACE folder.\n"
        "KERNEL is a name, a glob, a variant's id, or NAME#2.\n"
        "ptxview COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"ptxview {__version__}")
    top.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit status. Errors become one sentence and what to do about it."""
    given = list(sys.argv[1:] if argv is None else argv)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # Started with a stream closed, Python has none; a program that is run still has none.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    try:
        return _dispatch(given)
    except PtxviewError as error:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        # Messages name what stands in the input.
        print(f"ptxview: {lines_shown(error.message)}", file=sys.stderr)
        if error.hint:
            print(lines_shown(error.hint), file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"ptxview: {where}{error.strerror or error}", file=sys.stderr)
        return Exit.RUN_FAILED if given[:1] in RUNS else Exit.UNREADABLE


def _dispatch(given: list[str]) -> int:
    if not given:
        parser().print_help(sys.stderr)
        return Exit.USAGE
    if given[0].startswith("-"):
        parser().parse_args(given)
        return Exit.USAGE
    command = next((c for c in COMMANDS if c.name == given[0]), None)
    if command is None:
        names = ", ".join(c.name for c in COMMANDS)
        print(f"ptxview: there is no command {given[0]}", file=sys.stderr)
        print(f"Commands: {names}", file=sys.stderr)
        return Exit.USAGE
    module = importlib.import_module(command.module)
    own = argparse.ArgumentParser(
        prog=f"ptxview {command.name}",
        usage=command.usage + ("" if "[options]" in command.usage else " [options]"),
        description=module.__doc__.split("\n\n")[0] if module.__doc__ else command.help,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.arguments(own)
    status: int = module.run(own, given[1:])
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
