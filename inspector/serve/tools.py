"""The tools that are served: each is a command, asked with arguments instead of words.

What an option is called, means and may be is the command's own parser's; what is served of it
is in ``inspector/reference/served_tools.toml``. Nothing here needs the protocol's SDK.
"""

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from inspector.base.text import UsageError, shown
from inspector.reader.tables import table
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

    ``own`` are the arguments that the command has no option for, by name in ``ARGUMENTS``;
    ``options`` those of the command's options that are served, by name without dashes; ``make``
    puts arguments into words. ``reads`` says whether nothing but our own caches changes by it;
    ``runs`` whether it may run a program, and ``hidden`` whether without leave it does nothing.
    """

    name: str
    make: Making
    title: str
    description: str
    own: Sequence[str]
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
    options = {name: dict(ARGUMENTS[name]) for name in tool.own}
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
    options["cursor"] = dict(ARGUMENTS["cursor"])
    return {
        "type": "object",
        "properties": options,
        "required": list(tool.required),
        "additionalProperties": False,
    }


def checked(tool: ServedTool, given: Arguments) -> None:
    """Raises ``UsageError`` for arguments that the tool does not have, or lacks."""
    there = [*tool.own, *(name.replace("-", "_") for name in tool.options), "cursor"]
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
        raise UsageError(
            f"{name} has a NUL character, which no argument can have", "Send it without that one."
        )
    return str(value)


def _name(given: Arguments, name: str) -> str:
    """A kernel's name, as a word that is no option."""
    value = _word(name, given[name])
    if value.startswith("-"):
        raise UsageError(f"{shown(value)} is not the name of a kernel")
    return value


# -- tools ----------------------------------------------------------------------------------------


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


MAKERS = {"diff": _diff, "explain": _explain, "time": _time, "compile": _compile, "run": _run}
"""Put arguments into words where a recording's path and a kernel are not all."""
ARGUMENTS: Mapping[str, Mapping[str, object]] = table("served_tools")["arguments"]
"""The JSON Schema of each argument that is no option."""
TOOLS = [
    ServedTool(name, MAKERS.get(name, _recording), **entry)
    for name, entry in table("served_tools")["tools"].items()
]
"""Every tool, in the order in which it is listed."""


def tool_named(name: str) -> ServedTool:
    """The tool of a name. Raises ``UsageError`` with those there are."""
    known = {tool.name: tool for tool in TOOLS}
    if name not in known:
        raise UsageError(f"there is no tool {shown(name)}; there are {', '.join(known)}")
    return known[name]
