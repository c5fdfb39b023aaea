"""The tools that are served: each is a command, asked with arguments instead of words.

What an option is called, means and may be is the command's own parser's; what is served of it
is in ``inspector/reference/served_tools.toml``. Nothing here needs the protocol's SDK.
"""

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from inspector.base.errors import UsageError
from inspector.base.escapes import shown
from inspector.reader.tables import table
from inspector.sources.opening import newest

Arguments = Mapping[str, object]
Words = list[str]
MAX_LINES = 400  # lines of a stage that are given at once
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

    def require_permission(self, action: str) -> None:
        """Raises ``UsageError`` where there is no leave to run programs."""
        if not self.may_run:
            raise UsageError(
                f"{action} runs a program, and this server was started without leave to run any",
                "ptxview mcp --allow-run gives it.",
            )


CallMaker = Callable[[Server, Arguments, "ServedTool"], ToolCall]


class ServedTool(Struct, frozen=True):
    """A command as a tool.

    ``extra_arguments`` are those that the command has no option for, by name in ``ARGUMENTS``;
    ``options`` those of the command's options that are served, by name without dashes; ``make``
    puts arguments into words. ``reads`` says whether nothing but our own caches changes by it;
    ``runs`` whether it may run a program, and ``hidden`` whether without leave it does nothing.
    """

    name: str
    make: CallMaker
    title: str
    description: str
    extra_arguments: Sequence[str]
    options: Sequence[str] = ()
    required: Sequence[str] = ()
    reads: bool = True
    runs: bool = False
    hidden: bool = False


# -- from a command's parser ----------------------------------------------------------------------


def _command_options(command: str) -> dict[str, argparse.Action]:
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
    command_options = _command_options(tool.name)
    properties = {name: dict(ARGUMENTS[name]) for name in tool.extra_arguments}
    for name in tool.options:
        action = command_options.get(name)
        if action is None:
            continue
        option_schema: dict[str, object] = {"type": ["string", "number"]}
        if action.nargs == 0:
            option_schema = {"type": "boolean"}
        elif action.choices is not None:
            option_schema = {"enum": [str(choice) for choice in action.choices]}
        if isinstance(action, argparse._AppendAction):
            option_schema = {"type": "array", "items": option_schema}
        description = (action.help or "").replace("%%", "%")
        properties[name.replace("-", "_")] = {**option_schema, "description": description}
    properties["cursor"] = dict(ARGUMENTS["cursor"])
    return {
        "type": "object",
        "properties": properties,
        "required": list(tool.required),
        "additionalProperties": False,
    }


def check_arguments(tool: ServedTool, arguments: Arguments) -> None:
    """Raises ``UsageError`` for arguments that the tool does not have, or lacks."""
    argument_names = [
        *tool.extra_arguments,
        *(name.replace("-", "_") for name in tool.options),
        "cursor",
    ]
    for name in arguments:
        if name not in argument_names:
            raise UsageError(
                f"{tool.name} has no argument {shown(str(name))}; "
                f"it has {', '.join(argument_names)}"
            )
    for name in tool.required:
        if arguments.get(name) is None:
            raise UsageError(f"{tool.name} needs the argument {name}")


def _options(tool: ServedTool, arguments: Arguments) -> Words:
    """The options among arguments, as the command takes them; no value can be an option."""
    command_options = _command_options(tool.name)
    words: Words = []
    for name in tool.options:
        value = arguments.get(name.replace("-", "_"))
        if name not in command_options or value is None or value is False:
            continue
        if command_options[name].nargs == 0:
            words.append(f"--{name}")
        else:
            words += (f"--{name}={_word(name, item)}" for item in _as_list(value))
    return words


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _word(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{name} is a text or a number")
    if "\0" in str(value):
        raise UsageError(
            f"{name} has a NUL character, which no argument can have", "Send it without that one."
        )
    return str(value)


def _name(arguments: Arguments, name: str) -> str:
    """A kernel's name, as a word that is no option."""
    value = _word(name, arguments[name])
    if value.startswith("-"):
        raise UsageError(f"{shown(value)} is not the name of a kernel")
    return value


# -- tools ----------------------------------------------------------------------------------------


def _lines(arguments: Arguments) -> Words:
    """The lines that are wanted, no more of them than are given at once."""
    text = _word("lines", arguments["lines"])
    first, colon, last = text.partition(":")
    if not all(part.isascii() and part.isdecimal() and len(part) < 11 for part in (first, last)
               if part) or not (first or last):  # fmt: skip
        raise UsageError(f"{shown(text)} is not a range of lines", "Give one as 40:80.")
    begin = int(first or 1)
    last_allowed = begin + MAX_LINES - 1
    end = begin
    if colon:
        end = min(int(last), last_allowed) if last else last_allowed
    return [f"--lines={begin}:{max(begin, end)}"]


def _recording(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    words = [tool.name, server.recording(arguments.get("path"))]
    if "kernel" in tool.extra_arguments and arguments.get("kernel") is not None:
        words.append(_name(arguments, "kernel"))
    if arguments.get("baseline") is not None:
        words.append(f"--baseline={server.path(arguments['baseline'])}")
    words += _options(tool, arguments)
    if "full" in tool.extra_arguments and arguments.get("full") is not True:
        words.append("--brief")
    if arguments.get("lines") is not None:
        words += _lines(arguments)
    return ToolCall([*words, "--json"])


def _diff(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    a = server.recording(arguments.get("path_a"))
    b = a if arguments.get("path_b") is None else server.path(arguments["path_b"])
    sides = []
    for path, name in ((a, "kernel_a"), (b, "kernel_b")):
        kernel = "" if arguments.get(name) is None else f"::{_name(arguments, name)}"
        # The longest beginning that exists is the path: it must be the one that was looked at.
        if kernel and Path(path + kernel).exists():
            raise UsageError(f"{shown(path + kernel)} is an existing path")
        sides.append(path + kernel)
    has_one_kernel = arguments.get("kernel_a") is not None and arguments.get("kernel_b") is None
    if has_one_kernel and a == b:
        sides[1] = "--variants"
    words = ["diff", *sides, *_options(tool, arguments)]
    if arguments.get("lines") is not None:
        words += _lines(arguments)
    elif arguments.get("full") is not True:
        words.append("--brief")
    return ToolCall([*words, "--json"])


def _explain(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    queries = [_word("words", query) for query in _as_list(arguments["words"])]
    return ToolCall(["explain", "--json", "--", *queries])


def _time(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    words = ["time", server.recording(arguments.get("path"))]
    if arguments.get("kernel") is not None:
        words.append(_name(arguments, "kernel"))
    if arguments.get("measure") is not True:
        return ToolCall([*words, "--stored", "--json"])
    server.require_permission("time with measure")
    return ToolCall([*words, *_options(tool, arguments), "--json"], confined=False)


def _compile(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    paths = [server.path(file) for file in _as_list(arguments["files"])]
    for path in paths:
        # A .py is run, and a .cu may include any file: its content would be in the error.
        if not path.endswith(SELF_CONTAINED):
            server.require_permission(f"compile of {Path(path).name}")
    if arguments.get("options") is not None:
        server.require_permission("compile with options of a compiler's own")
    return ToolCall(
        ["compile", *paths, *_options(tool, arguments), "--no-tui", "--json"], confined=False
    )


def _run(server: Server, arguments: Arguments, tool: ServedTool) -> ToolCall:
    server.require_permission("run")
    script = server.path(arguments["script"])
    words = [_word("arguments", argument) for argument in _as_list(arguments.get("arguments", []))]
    return ToolCall(
        ["run", "--no-tui", *_options(tool, arguments), script, *words],
        confined=False,
        as_json=False,
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
    tools_by_name = {tool.name: tool for tool in TOOLS}
    if name not in tools_by_name:
        raise UsageError(f"there is no tool {shown(name)}; there are {', '.join(tools_by_name)}")
    return tools_by_name[name]
