"""The generated blocks of the documentation: ``python -m tests.helpers.pages`` writes them.

A block is between ``<!-- generated: KIND [NAME] -->`` and ``<!-- end -->``. Its text is made of the
commands' parsers, of ``inspector/reference`` (``commands.toml``, ``hints.toml``, ``json.toml``, the
instructions of PTX), of the handlers of ``inspector.execute`` and of the list of recorded
variables; everything around a block is written by hand.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from inspector.analysis.hints.rules import RULES
from inspector.commands.cli import COMMANDS, Subcommand
from inspector.execute.blocks import JUMPS
from inspector.execute.program import HANDLERS
from inspector.execute.transfer import REFUSED
from inspector.execute.words import unknown_word
from inspector.reader.tables import REFERENCE, table
from inspector.render.json_structs import json_reference
from inspector.sources.running import ENVIRONMENT
from inspector.tui.keys.command_table import MARKS, TABLE, KeyContext, shown_key
from tests.helpers.ptxview import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
COLUMNS = 118
BLOCK = re.compile(r"(<!-- generated: (\w+)(?: (\w+))? -->\n).*?(\n<!-- end -->)", re.DOTALL)
LANGUAGES = {"triton": "Triton", "inductor": "torch.compile", "other": "any other language"}
ADVICE = {"advice": "", "floats": ", floats", "integers": ", integers"}


def generated(page: str) -> str:
    """A page with each of its blocks made again."""
    documented: set[str] = set()

    def block(match: re.Match[str]) -> str:
        kind, name = match[2], match[3]
        lines = _fields(name, documented) if kind == "fields" else KINDS[kind]()
        return "\n".join((match[1], *lines, match[4]))

    return BLOCK.sub(block, page)


def parser_of(command: Subcommand) -> argparse.ArgumentParser:
    """A parser with the options of a command, and no ``--help``."""
    parser = argparse.ArgumentParser(prog="ptxview", add_help=False)
    command.function("arguments")(parser)
    return parser


def _commands() -> Iterator[str]:
    """A section for each command: what it does, its usage, options and examples."""
    for command in COMMANDS:
        yield f"### {command.name}\n\n{_sentence(command.help)}\n"
        yield f"```\n{command.usage}\n```\n"
        for group in parser_of(command)._action_groups:
            if not group._group_actions:
                continue
            if group.title not in ("options", "positional arguments"):
                title = f"**{_sentence(group.title or '')}** {group.description or ''}"
                yield f"{title.rstrip()}\n"
            yield from (f"- {_option(action)}" for action in group._group_actions)
            yield ""
        if command.examples:
            yield "```sh\n" + "\n".join(command.examples) + "\n```\n"


def _option(action: argparse.Action) -> str:
    """The names of an option with its argument, and what it does."""
    choices = "|".join(map(str, action.choices or ()))
    metavar = action.metavar or choices or action.dest.upper()
    value = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if action.nargs == 0:
        value = ""
    names = [f"`{f'{name} {value}'.rstrip()}`" for name in action.option_strings or ("",)]
    help_text = (action.help or "").replace("%%", "%")
    return f"{', '.join(names).replace('` ', '`')}: {_text(help_text)}"


def _sentence(words: str) -> str:
    return _text(f"{words[0].upper()}{words[1:]}.")


def _text(words: str) -> str:
    """Words of a table as Markdown: outside of code, ``__noinline__`` stays what it is."""
    parts = words.split("`")
    parts[::2] = [re.sub(r"([*_<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _keys() -> Iterator[str]:
    """A table of commands for each place that has them."""
    for context in KeyContext:
        yield f"## {context.value}\n"
        yield "| keys | command | what it does | id |\n|---|---|---|---|"
        for command in TABLE:
            if command.context is context:
                keys = " ".join(f"`{shown_key(key)}`" for key in command.keys.split(",") if key)
                yield f"| {keys} | {command.title} | {_text(command.help)} | `{command.id}` |"
        yield ""


def _marks() -> Iterator[str]:
    yield "| sign | meaning |\n|---|---|"
    yield from (f"| `{sign}` | {meaning} |" for sign, meaning in MARKS)


def _rules() -> Iterator[str]:
    """A section for each rule: when it fires, what to try, its thresholds with their reasons."""
    rules = table("hints")
    for rule in (*RULES, *(name for name in rules if name not in RULES)):
        entry = rules[rule]
        yield f"## {rule}\n\n- **Fires** when {entry['when']}."
        if "unless" in entry:
            yield f"- **Silent** if {entry['unless']}."
        yield from _advice(entry)
        yield from _thresholds(entry)
        yield ""


def _advice(entry: Mapping[str, Any]) -> Iterator[str]:
    for name, suffix in ADVICE.items():
        for language, text in entry.get(name, {}).items():
            yield f"- **Try** ({LANGUAGES[language]}{suffix}): {_sentence(text.rstrip('.'))}"


def _thresholds(entry: Mapping[str, Any]) -> Iterator[str]:
    for name, value in entry.items():
        if name in ("when", "unless", "why", *ADVICE) or name.endswith("_why"):
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{key} {number}" for key, number in value.items())
        reason = entry.get(f"{name}_why") or entry.get("why", "")
        yield f"- **Threshold** `{name}` = {value}: {_text(reason)}"


def _fields(command: str, documented: set[str]) -> Iterator[str]:
    """The tables of a command's JSON, each once on a page."""
    known = json_reference(table("json"))
    remaining = [known.commands[command]]
    yield f"```\n{command}: {known.commands[command]}"
    while remaining:
        for name in re.findall(r"\b[A-Z]\w*", remaining.pop(0)):
            if name in documented or name not in known:
                continue
            documented.add(name)
            members = {key: field.type for key, field in known.fields(name).items()}
            remaining += members.values()
            row = ", ".join(f"{key}: {text}" for key, text in members.items())
            whole = f"{name} = {members['=']}" if "=" in members else f"{name} {{ {row} }}"
            yield from textwrap.wrap(
                whole, COLUMNS, subsequent_indent="    ", break_long_words=False
            )
    yield "```"


def _recorded() -> Iterator[str]:
    yield ", ".join(f"`{name}`" for name in ENVIRONMENT) + "."


_PLACEHOLDER = re.compile(r"\w+ m\d+nN|v\w+ [bh][0-9xyzw]+\Z")
"""``wgmma m64nNk16``, ``vadd2 h10``: a shape, or a part of an operand, and no word of an opcode."""


def _executed() -> Iterator[str]:
    """A table of PTX's instructions: which ``inspector.execute`` executes."""
    rows: list[str] = []
    counts = Counter[str]()
    for path in sorted(REFERENCE.glob("ptx_instructions_*.toml")):
        for name, entry in table(path.stem).items():
            answer, refused = _execution(name, entry)
            counts[answer] += 1
            rows.append(f"| `{name}` | {answer} | {refused} |")
    yield f"Yes: {counts['yes']}, in part: {counts['in part']}, no: {counts['no']}.\n"
    yield "| instruction | executed | what is refused by name |\n|---|---|---|"
    yield from rows


def _execution(name: str, entry: Mapping[str, Any]) -> tuple[str, str]:
    """Whether an instruction is executed (yes, in part, no), and what is not."""
    base, *words = name.split(".")
    if base in REFUSED:
        return "no", REFUSED[base]
    if base not in (*HANDLERS, *JUMPS):
        return "no", ""
    if (unknown := unknown_word((base, *words))) is not None:
        return "no", f"`.{unknown}`"
    qualifiers = (word.removeprefix(".") for word in entry.get("qualifiers", ()))
    refused = [
        f"`.{word}`"
        for word in qualifiers
        if unknown_word((base, word)) is not None and not _PLACEHOLDER.match(f"{base} {word}")
    ]
    return ("in part" if refused else "yes"), ", ".join(refused)


KINDS: Mapping[str, Callable[[], Iterator[str]]] = {
    "commands": _commands,
    "executed": _executed,
    "keys": _keys,
    "marks": _marks,
    "recorded": _recorded,
    "rules": _rules,
}


def write(page: Path) -> None:
    page.write_text(generated(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    for path in PAGES:
        write(path)
