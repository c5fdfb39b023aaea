"""The specimens that have faults, compiled here and now: their hints are those of the README."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.reader.tables import table
from tests.helpers.ptxview import environment, ptxview
from tests.helpers.tools import skip_without
from tests.kernels import hints_table
from tests.probes.conftest import caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures
ONLY_COUNTED = {"divergence", "redundant-loads"}
"""Rules that need executed blocks, which the specimens' table has not."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def compiled(tmp_path: Path, warm_python: Callable[..., Path]) -> Callable[..., list[str]]:
    """``compiled(name, …)``: the rows of the table for specimens compiled for sm_90 now."""

    def compile_now(*names: str) -> list[str]:
        recording = tmp_path / "specimens.ptxview"
        done = ptxview(
            *("run", "--target", "sm_90", "--no-tui", "-o", str(recording)),
            *("--python", str(warm_python()), "-m", "kernels", *names),
            cwd=ROOT,
            env=environment(
                TRITON_CACHE_DIR=str(tmp_path / "triton"),
                TRITON_DEFAULT_FP_FUSION="1",
                XDG_STATE_HOME=str(tmp_path / "state"),
            ),
        )
        assert done.status == 0, done.said[-3000:]
        return hints_table.rows(str(recording))

    return compile_now


def documented(*names: str) -> list[str]:
    """The README's rows for specimens."""
    rows = hints_table.between(hints_table.README.read_text("utf-8"))
    return [row for row in rows if row.split("|")[1].strip() in names]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["square", "softmax", "hint_triton", pytest.param("hint_cuda", marks=pytest.mark.nvcc)]
)
def test_hints_of_specimens_are_as_documented(
    compiled: Callable[..., list[str]], name: str
) -> None:
    if name == "hint_cuda":
        skip_without("nvcc")
    assert compiled(name) == documented(name)


def test_hints_of_recorded_cuda_specimens_are_as_documented() -> None:
    """nvcc takes half a minute for each: they are read from a recording made on a GPU."""
    names = ("gelu_cuda", "gelu_cuda_float", "square_cuda")
    recording = ROOT / "examples" / "recordings" / "lecture-h200.ptxview"
    assert hints_table.rows(str(recording), *names) == documented(*names)
    assert len(documented(*names)) == len(names)


@pytest.mark.nightly
def test_the_table_is_written_for_what_was_recorded_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = hints_table.README.read_text("utf-8")
    copy = tmp_path / "README.md"
    copy.write_text(text.replace("`fp64-promotion` |\n", "`spills` |\n"), "utf-8")
    monkeypatch.setattr(hints_table, "README", copy)
    kept = documented("hint_cuda", "hint_triton")
    hints_table.main(str(ROOT / "examples" / "recordings" / "lecture-h200.ptxview"))
    assert documented("hint_cuda", "hint_triton") == kept != []
    assert [row.split("|")[4].strip() for row in documented("gelu_cuda")] == ["`fp64-promotion`"]
    assert copy.read_text("utf-8").startswith(text.partition(hints_table.BEGIN)[0])


def test_every_hint_is_explained_and_has_a_specimen() -> None:
    rows = hints_table.between(hints_table.README.read_text("utf-8"))
    shown = {word for row in rows for word in row.split("|")[4].split("`")[1::2]}
    rules = table("hints")
    assert all(rule["when"] for rule in rules.values())
    assert {*rules} - ONLY_COUNTED == shown
