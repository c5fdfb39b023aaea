"""The command line: one table of commands, errors as sentences, schemas, completion in shells."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from msgspec import Struct

from inspector import __version__
from inspector.base.errors import Exit, PtxviewError, UsageError
from inspector.base.escapes import shown
from inspector.base.names import base_name, did_you_mean
from inspector.commands.common import split_program
from inspector.system import faults, files, printing

TABLE = Path(__file__).parent.parent / "reference" / "subcommands.toml"


class Subcommand(Struct, frozen=True):
    """A command: ``arguments(parser)`` and ``run(parser, argv) -> int`` of its module."""

    name: str
    usage: str
    help: str
    examples: tuple[str, ...]

    @property
    def module(self) -> str:
        return f"inspector.commands.{HOMES.get(self.name, self.name)}"

    def function(self, name: str) -> Callable[..., int]:
        """``arguments`` or ``run`` of this command."""
        attribute = f"{name}_{self.name}" if self.name in HOMES else name
        return cast(Callable[..., int], getattr(importlib.import_module(self.module), attribute))


HOMES = {"ncu": "profile", "step": "trace", "try": "passes", "completion": "cli"}
"""Modules of commands that share one; their functions are ``arguments_NAME`` and ``run_NAME``."""
with files.opened(TABLE) as _table:
    COMMANDS = tuple(
        Subcommand(name, f"ptxview {entry['usage']}", entry["help"], tuple(entry["examples"]))
        for name, entry in tomllib.load(_table).items()
    )

# What stands around a program of the user's, whose own exit statuses it gives.
RUNS = (["run"], ["profile"])

COMPLETING = "_ARGCOMPLETE"
"""Set by a shell's function that asks for completions."""


class _Options(argparse.ArgumentParser):
    """The options of a command; an unknown one is refused with similar names."""

    def error(self, message: str) -> NoReturn:
        """End with the usage and a sentence."""
        unknown = re.fullmatch(r"unrecognized arguments: (--[\w-]+).*", message, re.DOTALL)
        hint = did_you_mean(unknown[1], self._option_string_actions) if unknown else ""
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
        "KERNEL is a name, a glob, a variant's id, NAME#2, or what list --where takes: #13,\n"
        "'mm 512x256', model.py:66, :66, a part of a name, spill>0.\n"
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
        return answer()
    words = list(sys.argv[1:] if argv is None else argv)
    printing.with_streams()
    with printing.guarded(), faults.thread_errors_reported():
        try:
            return _dispatch(words)
        except PtxviewError as error:
            faults.say(error)
            return error.status
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except BrokenPipeError:
            # The reader of our output has gone, as `| head` does: nobody is left to tell.
            printing.give_up()
            return 128 + signal.SIGPIPE
        except Exception as error:
            faults.say(error)
            printing.give_up()
            runs_program = words[:1] in RUNS and "--stored" not in words
            return Exit.RUN_FAILED if runs_program else Exit.UNREADABLE


def _dispatch(words: list[str]) -> int:
    if not words:
        printing.narrate(parser().format_help().rstrip())
        return Exit.USAGE
    if words[0].startswith("-"):
        schema_name: str | None = parser().parse_args(words).schema
        if schema_name is None:
            return Exit.USAGE
        from inspector.reader.tables import table
        from inspector.render.json_structs import json_reference
        from inspector.render.jsons import dumps

        reference = json_reference(table("json"))
        value = reference.schema(schema_name)
        if value is None:
            schema_hint = f"There is one of {', '.join(reference.commands)}."
            raise UsageError(f"there is no schema of {shown(schema_name)}", schema_hint)
        printing.json_line(dumps(value))
        printing.flush()
        return Exit.OK
    command = next((c for c in COMMANDS if c.name == words[0]), None)
    if command is None:
        command_names = [c.name for c in COMMANDS]
        hint = did_you_mean(words[0], command_names) or f"Commands: {', '.join(command_names)}"
        raise UsageError(f"there is no command {words[0]}", hint)
    options = _Options(
        prog=f"ptxview {command.name}",
        usage=command.usage + ("" if "[options]" in command.usage else " [options]"),
        description=f"{command.help[0].upper()}{command.help[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.function("arguments")(options)
    pairs = [line.partition("  # ")[::2] for line in command.examples]
    examples = "examples:\n" + "\n".join(f"  # {meaning}\n  {line}" for line, meaning in pairs)
    options.epilog = "\n\n".join(filter(None, (options.epilog, examples)))
    status = command.function("run")(options, words[1:])
    # Failing to print is ptxview's failure, not the program's.
    with faults.after_program() if words[:1] in RUNS else contextlib.nullcontext():
        printing.flush()
    return status


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


def arguments_completion(parser: argparse.ArgumentParser) -> None:
    """Options of ``completion``."""
    parser.add_argument("shell", nargs="?", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish")


def run_completion(parser: argparse.ArgumentParser, argv: list[str]) -> int:
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


MAX_SECONDS = 3
MAX_NAMES = 5000
"""Names of one folder that are read."""
MEMORY = str(128 << 20)
"""Bytes that an opened recording may take."""

Words = Mapping[str, str]
"""Words and their descriptions."""
Completer = Callable[..., Words]


def answer() -> int:
    """Write the words that fit the line in the environment; 0. Never raises."""
    with contextlib.suppress(Exception):
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, MAX_SECONDS)
        os.environ.setdefault(files.VARIABLE, MEMORY)
        _complete()
    return 0


def _complete() -> None:
    from argcomplete.finders import CompletionFinder
    from argcomplete.lexers import split_line

    *_, words, _ = split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))
    top = argparse.ArgumentParser(prog="ptxview", allow_abbrev=False)
    top.add_argument("--version", action="store_true", help="print ptxview's version")
    below = top.add_subparsers()
    for command in COMMANDS:
        if command.name in words[1:2]:
            _add(below, command, words[2:])
        else:
            below.add_parser(command.name, help=command.help)
    CompletionFinder()(
        top,
        always_complete_options=False,
        default_completer=_files,  # type: ignore[arg-type]
        validator=lambda word, prefix: word.startswith(prefix) and word.isprintable(),
    )


def _add(
    below: argparse._SubParsersAction[argparse.ArgumentParser],
    command: Subcommand,
    words: list[str],
) -> None:
    """Add the parser of the command on the line; a program's words are files, never options."""
    valued = getattr(importlib.import_module(command.module), "VALUED", {}).get(command.name)
    if valued is not None and split_program(words, valued)[2]:
        parser = below.add_parser(command.name, add_help=False, prefix_chars="\0")
    else:
        parser = below.add_parser(command.name, allow_abbrev=False)
        command.function("arguments")(parser)
    if valued is not None:
        parser.add_argument("program", nargs="*")
    for action in parser._actions:
        if action.choices is None and action.metavar in BY_METAVAR:
            action.completer = BY_METAVAR[action.metavar]  # type: ignore[attr-defined]


def _files(prefix: str, **_: object) -> Words:
    """Files and folders; names that begin with a dot only where a dot was typed."""
    typed, slash, begun = prefix.rpartition("/")
    paths: dict[str, str] = {}
    with contextlib.suppress(PtxviewError, OSError, RuntimeError):
        for entry in files.names(Path(typed + slash or ".").expanduser(), MAX_NAMES)[0]:
            if entry.name.startswith(begun) and (begun or not entry.name.startswith(".")):
                paths[f"{typed}{slash}{entry.name}{'/' if entry.is_dir() else ''}"] = ""
    return paths


def _kernels(
    prefix: str, action: argparse.Action, parser: object, parsed_args: argparse.Namespace
) -> Words:
    """Kernels of the PATH before the cursor, else files and kernels of the newest recording."""
    from inspector.recording.layout import is_recording
    from inspector.sources.opening import TEXT_STAGES, newest, open_path

    path, mark, begun = prefix.rpartition("::")
    path_words = getattr(parsed_args, "path", None) or getattr(parsed_args, action.dest, None) or []
    first = path or (path_words if isinstance(path_words, str) else next(iter(path_words), ""))
    named = bool(first) and Path(first).expanduser().exists()
    words = {} if named else dict(_files(prefix))
    with contextlib.suppress(PtxviewError, OSError, RuntimeError, ValueError):
        recording_path = Path(first).expanduser() if named else newest()
        if is_recording(recording_path) or recording_path.suffix in TEXT_STAGES:
            for kernel in open_path(recording_path).kernels:
                words[f"{path}{mark}{base_name(kernel.name)}"] = kernel.origin.value
                if begun:
                    for variant in kernel.variants:
                        words[f"{path}{mark}{variant.id}"] = kernel.name
    return words


def _devices(prefix: str, **_: object) -> Words:
    """Architectures; of several with commas between them, the last."""
    from inspector.reader import tables

    prefix_words, comma, _last = prefix.rpartition(",")
    return {
        f"{prefix_words}{comma}{arch}": device.name for arch, device in tables.devices().items()
    }


def _rules(**_: object) -> Words:
    from inspector.analysis.hints.rules import RULES

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


if __name__ == "__main__":
    raise SystemExit(main())
