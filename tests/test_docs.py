"""Documents compared with the program: commands, options, and links."""

from __future__ import annotations

import argparse
import re
from functools import cache
from pathlib import Path

from inspector.commands.cli import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS]
NAMES = {command.name for command in COMMANDS}
CODE = re.compile(r"```\w*\n(.*?)```|`([^`]+)`", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z0-9-]*)")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
PATH = re.compile(r"`((?:inspector|tests|kernels|examples|docs)/[\w./]+)`")
# Of the program that is run, not of the command: `-m MODULE`.
OF_PROGRAMS = {"-m"}


@cache
def options(command: str) -> list[set[str]]:
    """The options of a command as its parser has them, each with all its names."""
    parser = argparse.ArgumentParser(add_help=False)
    next(c for c in COMMANDS if c.name == command).function("arguments")(parser)
    return [set(action.option_strings) for action in parser._actions if action.option_strings]


def synopsis() -> dict[str, str]:
    """What docs/commands.md has of each command in its first block."""
    page = (ROOT / "docs" / "commands.md").read_text("utf-8")
    block = page.split("```")[1]
    said: dict[str, str] = {}
    for part in re.split(r"(?:^|\s)ptxview ", block)[1:]:
        name, _, rest = part.partition(" ")
        said[name] = f"{said.get(name, '')} {rest}"
    return said


def test_every_command_has_its_lines_and_no_other() -> None:
    assert list(synopsis()) == [command.name for command in COMMANDS]


def test_the_options_that_are_documented_are_those_there_are() -> None:
    for command in NAMES:
        said = {*OPTION.findall(synopsis().get(command, ""))} - OF_PROGRAMS
        there = options(command)
        assert not said - set[str]().union(*there), f"{command}: documented, and not there"
        assert not [names for names in there if not names & said], f"{command}: not documented"


def test_commands_in_running_text_could_be_given() -> None:
    """Each `ptxview COMMAND --option …` of a page is of a command that has the option."""
    faults = []
    for page in PAGES:
        for block, span in CODE.findall(page.read_text("utf-8")):
            for line in block.splitlines() or [span.replace("\n", " ")]:
                given = re.match(r"(?:.* && )?(?:\.venv/bin/)?ptxview ([a-z|]+)(.*)", line)
                for name in given[1].split("|") if given else ():
                    known = set[str]().union(*options(name)) if name in NAMES else set()
                    ours = re.split(r" -- | -m | #", given[2])[0] if given else ""
                    if name not in NAMES or not known.issuperset(OPTION.findall(ours)):
                        faults.append(f"{page.name}: {line}")
    assert not faults


def test_links_and_files_that_are_named_are_there() -> None:
    faults = []
    for page in PAGES:
        text = page.read_text("utf-8")
        targets = [page.parent / t for t, _ in LINK.findall(text) if "://" not in t]
        named = [ROOT / path for path in PATH.findall(text)]
        faults += [f"{page.name}: {path}" for path in (*targets, *named) if not path.exists()]
    assert not faults


def test_every_page_is_reached_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    linked = {(ROOT / t).resolve() for t, _ in LINK.findall(text)}
    assert not [page.name for page in PAGES[1:] if page.resolve() not in linked]
    assert len(text.encode()) < 8192
