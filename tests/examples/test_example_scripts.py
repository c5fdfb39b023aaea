"""The example scripts: each compiles, explains itself and is listed; the C++ one really runs."""

from __future__ import annotations

import ast
import os
import py_compile
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.ptxview import Done, environment, finished
from tests.helpers.tools import needs, path_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted((*EXAMPLES.glob("[0-9]*.py"), *EXAMPLES.glob("[0-9]*/*.py")))
NAMES = [str(path.relative_to(EXAMPLES)) for path in SCRIPTS]


def rows() -> list[str]:
    """The scripts that the table in examples/README.md lists, in order."""
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_script_compiles_explains_itself_and_checks_its_result(path: Path, tmp_path: Path) -> None:
    py_compile.compile(str(path), cfile=str(tmp_path / "x.pyc"), doraise=True)
    text = path.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text))
    assert doc and len(doc.splitlines()) > 2
    assert len(text.splitlines()) <= 75
    if path.name not in ("04_load_inline_hello.py", "12_load_inline_error.py", "setup.py"):
        assert "torch.testing.assert_close(" in text


def test_readme_lists_every_script_in_order() -> None:
    assert rows() == [name for name in NAMES if not name.endswith("setup.py")]


def run_cpu(python: str, script: str, folder: Path, **changes: str) -> Done:
    """Run an example without a GPU, its build folders inside ``folder``."""
    pytest.importorskip("torch", reason="torch is not installed")
    env = environment(TORCH_EXTENSIONS_DIR=str(folder / "ext"), **changes)
    return finished([python, EXAMPLES / script], folder, env)


@pytest.mark.nightly
@needs("g++", "ninja", "Python.h")
def test_hello_world_builds_and_runs_on_the_cpu(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    path = os.pathsep.join((str(Path(str(path_of("ninja"))).parent), os.environ.get("PATH", "")))
    done = run_cpu(plain_python("torch"), "04_load_inline_hello.py", tmp_path, PATH=path)
    assert done.status == 0, done.said[-2000:]
    assert done.text.startswith("Hello World! (from ")


def test_debugger_example_runs_interpreted_and_does_not_stop(
    tmp_path: Path, plain_python: Callable[..., str]
) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    done = run_cpu(plain_python("torch"), "11_debugger.py", tmp_path, TRITON_INTERPRET="1")
    assert done.status == 0, done.said[-2000:]
    assert "agrees with torch (interpreted)" in done.text
