"""The tools that are served: each is a command, asked with arguments instead of words.

What an option is called, means and may be is the command's own parser's; what is served of it
is in ``TOOLS``. Nothing here needs the protocol's SDK.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from inspector.base.errors import UsageError
from inspector.base.text import shown
from inspector.sources.opening import newest

Arguments = Mapping[str, object]
Words = list[str]
MOST_LINES = 400  # lines of a stage that are given at once
SELF_CONTAINED = (".ptx", ".ttir", ".ttgir", ".llir")
"""Files that a compiler reads, and no others with them."""


class ToolCall(Struct, frozen=True):
    """What a call of a tool comes to: a command's words, and how it may be run.

    ``confined``: it reads nothing outside of the folders that may be read, since it runs nothing of
    anybody else's; ``as_json``: what it prints is JSON.
    """

    words: Words
    confined: bool = True
    as_json: bool = True


class Server(Struct, frozen=True):
    """What a server was started with: the folders that may be read, and leave to run programs."""

    roots: tuple[Path, ...]
    may_run: bool = False

    def path(self, value: object) -> str:
        """A path within the folders that may be read, its links resolved, else ``UsageError``."""
        if not isinstance(value, str) or not value or "\0" in value:
            raise UsageError("a path is a text, and not empty")
        try:
            real = (self.roots[0] / Path(value).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError):
            raise UsageError(f"{shown(value)} is not a path") from None
        if not any(real.is_relative_to(root) for root in self.roots):
            raise UsageError(
                f"{shown(value)} is outside of the folders that may be read here",
                f"They are {', '.join(shown(str(root)) for root in self.roots)}; "
                "ptxview mcp --root FOLDER serves others.",
            )
        return str(real)

    def recording(self, value: object) -> str:
        """A path, or the newest recording where none is given."""
        return self.path(str(newest()) if value is None else value)

    def leave(self, what: str) -> None:
        """Raises ``UsageError`` where there is no leave to run programs."""
        if not self.may_run:
            raise UsageError(
                f"{what} runs a program, and this server was started without leave to run any",
                "ptxview mcp --allow-run gives it.",
            )


Making = Callable[[Server, Arguments, "ServedTool"], ToolCall]


class ServedTool(Struct, frozen=True):
    """A command as a tool.

    ``own`` are the parameters that the command has no option for, each with its JSON Schema;
    ``options`` those of the command's options that are served, by name without dashes; ``make``
    puts arguments into words. ``reads`` says whether nothing but our own caches changes by it;
    ``runs`` whether it may run a program, and ``hidden`` whether without leave it does nothing.
    """

    name: str
    title: str
    description: str
    make: Making
    own: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    options: Sequence[str] = ()
    required: Sequence[str] = ()
    reads: bool = True
    runs: bool = False
    hidden: bool = False


# -- from a command's parser ----------------------------------------------------------------------


def _actions(command: str) -> dict[str, argparse.Action]:
    """A command's options by name, without dashes."""
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(f"inspector.commands.{command}").arguments(parser)
    return {
        option.removeprefix("--"): action
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    }


def input_schema(tool: ServedTool) -> dict[str, object]:
    known = _actions(tool.name)
    options = {}
    for name in (name for name in tool.options if name in known):
        action = known[name]
        one: dict[str, object] = {"type": ["string", "number"]}
        if action.nargs == 0:
            one = {"type": "boolean"}
        elif action.choices is not None:
            one = {"enum": [str(choice) for choice in action.choices]}
        if isinstance(action, argparse._AppendAction):
            one = {"type": "array", "items": one}
        about = (action.help or "").replace("%%", "%")
        options[name.replace("-", "_")] = {**one, "description": about}
    return {
        "type": "object",
        "properties": {**{name: dict(one) for name, one in tool.own.items()}, **options, **CURSOR},
        "required": list(tool.required),
        "additionalProperties": False,
    }


def checked(tool: ServedTool, given: Arguments) -> None:
    """Raises ``UsageError`` for arguments that the tool does not have, or lacks."""
    there = [*tool.own, *(name.replace("-", "_") for name in tool.options), *CURSOR]
    for name in given:
        if name not in there:
            raise UsageError(
                f"{tool.name} has no argument {shown(str(name))}; it has {', '.join(there)}"
            )
    for name in tool.required:
        if given.get(name) is None:
            raise UsageError(f"{tool.name} needs the argument {name}")


def _options(tool: ServedTool, given: Arguments) -> Words:
    """The options among arguments, as the command takes them; no value can be an option."""
    known = _actions(tool.name)
    out: Words = []
    for name in tool.options:
        value = given.get(name.replace("-", "_"))
        if name not in known or value is None or value is False:
            continue
        if known[name].nargs == 0:
            out.append(f"--{name}")
        else:
            out += (f"--{name}={_word(name, each)}" for each in _many(value))
    return out


def _many(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _word(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{name} is a text or a number")
    if "\0" in str(value):
        raise UsageError(f"{name} holds a character that none may")
    return str(value)


def _name(given: Arguments, name: str) -> str:
    """A kernel's name, as a word that is no option."""
    value = _word(name, given[name])
    if value.startswith("-"):
        raise UsageError(f"{shown(value)} is not the name of a kernel")
    return value


# -- tools ----------------------------------------------------------------------------------------

CURSOR: Mapping[str, Mapping[str, object]] = {
    "cursor": {
        "type": "string",
        "description": "where to go on in an answer that was cut, as that answer says",
    }
}
_PATH = {
    "type": "string",
    "description": "a recording, a .triton or Inductor cache, a build folder, a .ptx .cubin .so .o "
    ".ttir .ttgir .llir file; left out: the newest recording",
}
_KERNEL = {
    "type": "string",
    "description": "a name, a glob, a variant's id or NAME#2, as the tool list gives them",
}
_FULL = {
    "type": "boolean",
    "description": "everything, and not in short: long, and cut where it is too long",
}
_LINES = {"type": "string", "description": f"lines alone, 40:80; at most {MOST_LINES} at once"}


def _lines(given: Arguments) -> Words:
    """The lines that are wanted, no more of them than are given at once."""
    text = _word("lines", given["lines"])
    first, colon, last = text.partition(":")
    if not all(part.isascii() and part.isdecimal() and len(part) < 11 for part in (first, last)
               if part) or not (first or last):  # fmt: skip
        raise UsageError(f"{shown(text)} is not a range of lines", "Give one as 40:80.")
    begin = int(first or 1)
    most = begin + MOST_LINES - 1
    end = begin if not colon else most if not last else min(int(last), most)
    return [f"--lines={begin}:{max(begin, end)}"]


def _recording(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    words = [tool.name, server.recording(given.get("path"))]
    if "kernel" in tool.own and given.get("kernel") is not None:
        words.append(_name(given, "kernel"))
    if given.get("baseline") is not None:
        words.append(f"--baseline={server.path(given['baseline'])}")
    words += _options(tool, given)
    if "full" in tool.own and given.get("full") is not True:
        words.append("--brief")
    if given.get("lines") is not None:
        words += _lines(given)
    return ToolCall([*words, "--json"])


def _diff(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    a = server.recording(given.get("path_a"))
    b = a if given.get("path_b") is None else server.path(given["path_b"])
    sides = []
    for path, name in ((a, "kernel_a"), (b, "kernel_b")):
        kernel = "" if given.get(name) is None else f"::{_name(given, name)}"
        # The longest beginning that exists is the path: it must be the one that was looked at.
        if kernel and Path(path + kernel).exists():
            raise UsageError(f"{shown(path + kernel)} is an existing path")
        sides.append(path + kernel)
    alone = given.get("kernel_a") is not None and given.get("kernel_b") is None and b == a
    words = ["diff", sides[0], *(["--variants"] if alone else sides[1:]), *_options(tool, given)]
    if given.get("lines") is not None:
        words += _lines(given)
    elif given.get("full") is not True:
        words.append("--brief")
    return ToolCall([*words, "--json"])


def _explain(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    asked = [_word("words", each) for each in _many(given["words"])]
    return ToolCall(["explain", "--json", "--", *asked])


def _time(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    words = ["time", server.recording(given.get("path"))]
    if given.get("kernel") is not None:
        words.append(_name(given, "kernel"))
    if given.get("measure") is not True:
        return ToolCall([*words, "--stored", "--json"])
    server.leave("time with measure")
    return ToolCall([*words, *_options(tool, given), "--json"], confined=False)


def _compile(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    paths = [server.path(each) for each in _many(given["files"])]
    for path in paths:
        # A .py is run, and a .cu may include any file: its content would be in the error.
        if not path.endswith(SELF_CONTAINED):
            server.leave(f"compile of {Path(path).name}")
    if given.get("options") is not None:
        server.leave("compile with options of a compiler's own")
    return ToolCall(
        ["compile", *paths, *_options(tool, given), "--no-tui", "--json"], confined=False
    )


def _run(server: Server, given: Arguments, tool: ServedTool) -> ToolCall:
    server.leave("run")
    script = server.path(given["script"])
    words = [_word("arguments", each) for each in _many(given.get("arguments", []))]
    return ToolCall(
        ["run", "--no-tui", *_options(tool, given), script, *words], confined=False, as_json=False
    )


TOOLS = (
    ServedTool(
        "list", "Kernels of a recording",
        "What a recording, a cache or a file holds: kernels, variants, registers, spills, hints. "
        "In short; with full, everything.",
        _recording, {"path": _PATH, "full": _FULL},
    ),
    ServedTool(
        "show", "One kernel",
        "One kernel: figures, hints, lines to look at first and what to ask next; with lines the "
        "text of a stage (source, output_code, ttir, ttgir, llir, ptx, sass), what each line does "
        "and the hints on it.",
        _recording,
        {"path": _PATH, "kernel": _KERNEL, "lines": _LINES, "full": _FULL},
        ("stage", "device"),
    ),
    ServedTool(
        "diff", "What differs",
        "What differs between two kernels, all variants of one (kernel_a alone), or two "
        "recordings: figures, hints, what explains it; with lines the hunks there.",
        _diff,
        {"path_a": _PATH, "kernel_a": _KERNEL,
         "path_b": {"type": "string", "description": "where kernel_b is; left out: path_a"},
         "kernel_b": _KERNEL, "lines": _LINES, "full": _FULL},
        ("stage", "exact", "device"),
    ),
    ServedTool(
        "explain", "A word of PTX or SASS",
        "What an opcode, a directive, a special register, a qualifier, a family or a whole "
        "instruction of PTX or SASS means.",
        _explain,
        {"words": {"type": "array", "items": {"type": "string"},
                   "description": "ld.global.v4.b32, HGMMA, %tid …"}},
        required=("words",),
    ),
    ServedTool(
        "check", "A gate",
        "Hold kernels to limits, and to what they were in a baseline: which limit is broken, by "
        "how much, at which line.",
        _recording,
        {"path": _PATH,
         "baseline": {**_PATH, "description": "a recording than which no kernel may be worse"}},
        ("max-registers", "max-spills", "no-spills", "max-stack", "max-shared", "max-instructions",
         "max-fp64", "no-fp64", "max-time", "max-kernels", "min-occupancy", "forbid", "allow",
         "kernel", "all-variants", "allow-unknown", "device"),
    ),
    ServedTool(
        "time", "Measured times",
        "The times that are kept of a recording; with measure its recorded launches are made again "
        "on this machine's GPU (needs leave to run).",
        _time,
        {"path": _PATH, "kernel": _KERNEL,
         "measure": {"type": "boolean", "description": "launch and measure now"}},
        ("stopwatch", "cache", "seconds", "limit", "calls"), reads=False, runs=True,
    ),
    ServedTool(
        "compile", "Compile for several targets",
        "Compile a .ptx, .ttir, .ttgir, .llir and, with leave to run, a .cu (which may include any "
        "file) or a .py with Triton kernels (which is run) for several targets without a GPU: "
        "registers, spills, errors at their lines.",
        _compile,
        {"files": {"type": "array", "items": {"type": "string"}, "description": "what to compile"}},
        ("target", "options", "language", "signature", "constexpr", "kernel"),
        required=("files",), reads=False, runs=True,
    ),
    ServedTool(
        "run", "Record a program",
        "Run a Python script and record every kernel that it makes; the recording's path is "
        "said at the end. With target (sm_90) no GPU is needed.",
        _run,
        {"script": {"type": "string", "description": "a Python file"},
         "arguments": {"type": "array", "items": {"type": "string"},
                       "description": "the script's own"}},
        ("target", "values"), required=("script",), reads=False, runs=True, hidden=True,
    ),
)  # fmt: skip
"""Every tool, in the order in which it is listed."""


def tool_named(name: str) -> ServedTool:
    """The tool of a name. Raises ``UsageError`` with those there are."""
    known = {tool.name: tool for tool in TOOLS}
    if name not in known:
        raise UsageError(f"there is no tool {shown(name)}; there are {', '.join(known)}")
    return known[name]
