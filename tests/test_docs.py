"""Documents compared with the program: generated blocks, commands, options, links, and the site."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from inspector.commands.cli import COMMANDS
from inspector.reader.tables import table
from tests.helpers.pages import BLOCK, DOCS, PAGES, generated, parser_of
from tests.helpers.ptxview import REPOSITORY as ROOT

TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
COMMANDS_BY_NAME = {command.name: command for command in COMMANDS}
CODE = re.compile(r"```\w*\n(.*?)```|`([^`]+)`", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z0-9-]*)")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
PATH = re.compile(r"`((?:inspector|tests|kernels|examples|docs)/[\w./]+)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
IN_CODE = re.compile(r"docs/[\w/.-]+\.md(?:#[\w-]+)?")
VARIABLE = re.compile(r"\bPTXVIEW_[A-Z_]+\b")
# What follows is the program's own, another's, or left out: `-m MODULE`, `train.py --lr 1e-3`.
OF_OTHERS = re.compile(r" -- | -m | #|…|(?<=train\.py) ")
NOT_VARIABLES = {"PTXVIEW_DRIVER_H"}  # the guard of a C header


@cache
def options(command: str) -> frozenset[str]:
    """The options of a command as its parser has them."""
    actions = parser_of(COMMANDS_BY_NAME[command])._actions
    return frozenset(name for action in actions for name in action.option_strings)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    titles = HEADING.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL))
    plain = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return frozenset(re.sub(r"[\s-]+", "-", title) for title in plain)


def is_target(page: Path, path: str, anchor: str) -> bool:
    """Whether a link on a page leads to a file, and to one of its headings."""
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor[1:] in anchors(target.resolve()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_generated_blocks_are_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    assert generated(text) == text, "python -m tests.helpers.pages writes it"


def test_every_command_key_and_hint_has_its_block() -> None:
    kinds = {match[2] for page in PAGES for match in BLOCK.finditer(page.read_text("utf-8"))}
    assert kinds == {"commands", "executed", "fields", "keys", "marks", "recorded", "rules"}
    assert set(COMMANDS_BY_NAME) <= anchors(DOCS / "reference" / "commands.md")
    assert set(table("hints")) <= anchors(DOCS / "reference" / "hints.md")


def test_commands_in_running_text_could_be_given() -> None:
    """Each `ptxview COMMAND --option …` of a page is of a command that has the option."""
    faults = []
    for page in (*TOP, *PAGES):
        for block, span in CODE.findall(page.read_text("utf-8")):
            for line in block.splitlines() or [span.replace("\n", " ")]:
                match = re.match(r"(?:.* && |\$ )?(?:\.venv/bin/)?ptxview ([a-z|]+)(.*)", line)
                for name in match[1].split("|") if match else ():
                    known = options(name) if name in COMMANDS_BY_NAME else frozenset()
                    ours = OF_OTHERS.split(match[2])[0] if match else ""
                    if name not in COMMANDS_BY_NAME or not known.issuperset(OPTION.findall(ours)):
                        faults.append(f"{page.name}: {line}")
    assert not faults


def test_workflows_can_be_read_and_their_commands_given() -> None:
    """Of the pages and of examples: each `ptxview COMMAND` of a step is one that is accepted."""
    yaml = pytest.importorskip("yaml", reason="needs PyYAML: '.[docs]'")
    texts = [p.read_text("utf-8") for p in (ROOT / "examples" / "ci").glob("*.yml")]
    for page in PAGES:
        texts += re.findall(r"```yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    given = []
    for text in texts:
        (job,) = yaml.safe_load(text)["jobs"].values()
        for step in job["steps"]:
            lines = re.findall(r"ptxview (\w+ .*)", step.get("run", ""))
            given += [shlex.split(re.split(r" > | \|\| ", line)[0]) for line in lines]
    assert len(texts) == 2 and {words[0] for words in given} == {"run", "check", "upgrade"}
    for name, *words in given:
        _, remaining = parser_of(COMMANDS_BY_NAME[name]).parse_known_args(words)
        assert not remaining or (name == "run" and remaining[0].endswith(".py")), remaining


def test_links_and_files_that_are_named_are_there() -> None:
    faults = []
    for page in (*TOP, *PAGES):
        text = page.read_text("utf-8")
        links = [(path, anchor) for path, anchor in LINK.findall(text) if "://" not in path]
        faults += [f"{page.name}: {link}" for link in links if not is_target(page, *link)]
        faults += [
            f"{page.name}: {path}" for path in PATH.findall(text) if not (ROOT / path).exists()
        ]
    assert not faults


def test_pages_that_the_program_names_are_there() -> None:
    """Messages, help and comments name pages from the repository's root."""
    files = [*(ROOT / "inspector").rglob("*.py"), *(ROOT / "inspector").rglob("*.toml")]
    named = {name for file in files for name in IN_CODE.findall(file.read_text("utf-8"))}
    assert named
    assert not [name for name in named if not is_target(ROOT / "x", *split_anchor(name))]


def split_anchor(name: str) -> tuple[str, str]:
    path, separator, anchor = name.partition("#")
    return path, separator + anchor


def test_every_environment_variable_of_ptxview_is_documented() -> None:
    sources = [
        p for p in (ROOT / "inspector").rglob("*") if p.suffix in (".py", ".c", ".h", ".cpp")
    ]
    used = {name for file in sources for name in VARIABLE.findall(file.read_text("utf-8"))}
    page = (DOCS / "reference" / "environment.md").read_text("utf-8")
    assert used - NOT_VARIABLES == set(VARIABLE.findall(page))


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(
        r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_the_readme_is_short_and_leads_to_the_documents() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    linked = {(ROOT / path).resolve() for path, _ in LINK.findall(text)}
    assert {*TOP[1:], DOCS / "index.md", DOCS / "tutorial.md"} <= linked
    assert len(text.encode()) < 8192


@pytest.mark.nightly
@pytest.mark.skipif(find_spec("material") is None, reason="needs mkdocs-material: '.[docs]'")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reference" / "hints" / "index.html").is_file()
