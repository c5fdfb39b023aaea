"""The suite with Python, git and coreutils alone, and in CI with a tool missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.ptxview import REPOSITORY, saved

COREUTILS = """
basename cat chmod cp cut date dirname echo env false head ln ls mkdir mv pwd rm sleep
sort tail tee timeout touch tr true uname wc
"""
PROGRAMS = ("git", *COREUTILS.split())


def bare_path(folder: Path) -> str:
    """Make a PATH of this interpreter, git and coreutils."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    saved(folder / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n', 0o755)
    return str(folder)


def pytest_run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on this suite in another interpreter."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "CI"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=REPOSITORY,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.nightly
def test_the_suite_is_collected_with_python_git_and_coreutils_alone(tmp_path: Path) -> None:
    done = pytest_run("--collect-only", "-q", PATH=bare_path(tmp_path))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(("ci", "status"), [("", 0), ("true", 1)])
def test_a_tool_that_is_missing_skips_here_and_fails_in_ci(
    tmp_path: Path, ci: str, status: int
) -> None:
    path, test = bare_path(tmp_path), "tests/commands/cli/test_completion.py"
    done = pytest_run("-rs", test, "-k", "script_of_a_shell and fish", PATH=path, CI=ci)
    assert "needs fish: apt-get install fish" in done.stdout
    assert done.returncode == status
