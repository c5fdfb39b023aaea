"""What the help of each command gives as examples can be typed as it stands."""

import io
import shlex
import sys
from pathlib import Path

import pytest

from inspector.commands.cli import COMMANDS, Subcommand
from tests.helpers.ptxview import SAMPLE, call, ptxview

# What launches again, runs a program or asks at a terminal is run elsewhere, with its own options.
OFFERED = ("run", "compile", "open", "time", "profile", "ncu", "mcp", "doctor", "verify", "upgrade")
SLOW = ("check", "diff", "export", "passes", "trace", "try")
"""All passes of a matmul, pages of all kernels: tests of these commands have smaller examples."""
EXAMPLES = [(c.name, line.partition("  # ")[0]) for c in COMMANDS for line in c.examples]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_two_examples_are_in_the_help_of_each_command(command: Subcommand) -> None:
    shown = ptxview(command.name, "--help").text
    for line in command.examples:
        typed, _, purpose = line.partition("  # ")
        assert purpose and f"  # {purpose}\n  {typed}\n" in shown
        words = shlex.split(typed)
        assert words[:2] == ["ptxview", command.name]
        options = [word for word in words[2:] if word.startswith("-")]
        if command.name == "run":  # beyond the script they are the script's
            options = [word for word in options if word != "--lr"]
        assert all(option in shown for option in options)
    assert len(command.examples) == 2


@pytest.mark.usefixtures("triton_at_once")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=line, marks=pytest.mark.nightly if name in SLOW else ())
        for name, line in EXAMPLES
        if name not in OFFERED
    ],
)
def test_an_example_on_a_recording_works(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    for name in ("x", "before", "after"):
        (tmp_path / f"{name}.ptxview").symlink_to(SAMPLE)
    words = shlex.split(line)
    for name in words:
        if name.startswith("my."):  # what the user has edited: a stage of this recording
            given = words[2 : words.index("--stage")]
            shown = call("show", *given, "--stage", name.removeprefix("my."))
            (tmp_path / name).write_bytes(shown.out)
    done = call(*words[1:])
    assert done.status == 0, done.said
    assert done.out
