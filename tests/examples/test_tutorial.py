"""The tutorial and the README's session: commands print what is quoted of their output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.helpers.pages import DOCS
from tests.helpers.ptxview import REPOSITORY, environment, ptxview
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures
TUTORIAL = (DOCS / "tutorial.md").read_text("utf-8")
README = (REPOSITORY / "README.md").read_text("utf-8")
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
KERNEL = re.compile(r"@triton\.jit\n(?:.+\n|\n(?= ))+")
VARIANT_ID = re.compile(r"\b[0-9a-f]{8}\b")
OMITTED = "…"


def normalized(line: str) -> str:
    """A line without a variant's id, which depends on versions, and without trailing blanks."""
    return VARIANT_ID.sub("ID", line.rstrip())


def missing(quoted: list[str], printed: list[str]) -> list[str]:
    """The quoted lines that were not printed in this order."""
    remaining = iter([normalized(line) for line in printed])
    return [line for line in quoted if line != OMITTED and normalized(line) not in remaining]


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that are quoted of its output."""
    parts = [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, quoted) for command, *quoted in parts]


def with_the_block(script: str, block: str) -> str:
    """A script after a Python block: the block itself, or with the kernel that the block has."""
    return KERNEL.sub(lambda _: block, script, count=1) if script else block


def test_a_quoted_line_that_is_not_printed_is_missing() -> None:
    printed = ["registers 18", "row_sums 05a86e34", "1 hint"]
    assert not missing(["row_sums ffffffff", OMITTED, "1 hint"], printed)
    assert missing(["1 hint", "registers 18"], printed) == ["registers 18"]
    assert missing(["registers 19"], printed) == ["registers 19"]


def test_the_readme_prints_what_it_quotes() -> None:
    blocks = [block for language, block in BLOCK.findall(README) if language == "console"]
    quotations = steps(blocks[0])
    assert quotations
    for command, quoted in quotations:
        done = ptxview(*shlex.split(command)[1:], cwd=REPOSITORY, env=environment(COLUMNS="100"))
        assert not missing(quoted, done.text.splitlines()), done.text


def test_the_tutorial_prints_what_it_quotes(
    tmp_path: Path, warm_python: Callable[..., Path]
) -> None:
    env = environment(
        TRITON_CACHE_DIR=str(tmp_path / "triton"), TRITON_DEFAULT_FP_FUSION="1", COLUMNS="120"
    )
    script = tmp_path / "row_sums.py"
    text = ""
    commands = []
    for language, block in BLOCK.findall(TUTORIAL):
        if language == "python":
            text = with_the_block(text, block)
            script.write_text(text, "utf-8")
            continue
        for command, quoted in steps(block):
            words = shlex.split(command)[1:]
            runs = words[0] == "run"  # its table has the hints, which only a new ptxview counts
            python = ["--python", str(warm_python())] if runs else []
            done = ptxview(words[0], *python, *words[1:], cwd=tmp_path, env=env, fresh=runs)
            printed = (done.out + done.err).decode().splitlines()
            assert not missing(quoted, printed), f"{command}\n" + "\n".join(printed)
            commands.append((words[0], done.status))
    assert commands == [
        *[("run", 0), ("show", 0), ("show", 0), ("trace", 0), ("run", 0), ("diff", 0)],
        *[("trace", 0), ("time", 0), ("time", 0), ("check", 1), ("check", 0)],
    ]
