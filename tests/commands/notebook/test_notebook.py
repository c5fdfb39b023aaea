"""A real notebook, run cell by cell in a separate kernel: ``%%ptxview`` and its output."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.ptxview import REPOSITORY, call, environment

CELLS = {
    "load": "%load_ext inspector",
    "target": "%ptxview target sm_90",
    "kernel": """
import torch, triton, triton.language as tl
@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)
x = torch.rand(1000, device="cuda")
out = torch.empty_like(x)
""",
    "recorded": """%%ptxview -o first.ptxview
add_kernel[(4,)](x, x, out, 1000, BLOCK=256)
int((out - (x + x)).abs().max())""",
    "kept": "print(recording.path, [k.name for k in recording.kernels])",
    "shown": "recording.show('add_kernel', 'source')",
    "again": """%%ptxview -o second.ptxview --as mine
add_kernel[(4,)](x, x, out, 1000, BLOCK=256)""",
    "calls": "mine.table(calls=True)",
    "fails": """%%ptxview --quiet -o third.ptxview
add_kernel[(8,)](x, x, out, 1000, BLOCK=128)
1 / 0""",
    "after": "print(recording.path, len(recording.kernels))",
    "syntax": "%%ptxview --quiet -o syntax\ndef (",
    "nothing": "%%ptxview -o nothing\n1 + 1",
    "block": "import inspector\nwith inspector.record('block') as block:\n"
    "    add_kernel[(2,)](x, x, out, 1000, BLOCK=512)\nblock",
    "other": "%ptxview target sm_80",
    "wrong": "%%ptxview --nonsense\n1",
    "help": "%ptxview",
    "command": "%ptxview list first.ptxview",
    "left": "import os; print([n for n in os.environ if n == 'PTXVIEW_RECORDING'])",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """The folder that the notebook was run in, and each cell's outputs."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    )
    client = NotebookClient(
        notebook,
        timeout=600,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(
        env=environment(
            PYTHONPATH=str(REPOSITORY), TRITON_CACHE_DIR=str(folder / "cache"), NO_COLOR="1"
        )
    )
    return folder, dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


def said(outputs: list[Any], name: str = "stdout") -> str:
    return "".join(o.text for o in outputs if o.output_type == "stream" and o.name == name)


def failed(outputs: list[Any]) -> list[str]:
    return [o.ename for o in outputs if o.output_type == "error"]


def launches(path: Path) -> list[tuple[int, int]]:
    listed = call("list", path, "--json").json["kernels"]
    variants = [v for k in listed for v in k["variants"]]
    return [(c["grid"][0], c["count"]) for v in variants for c in v["calls"]]


class Frame(HTMLParser):
    """The page in a frame, as a browser takes it out of the attribute."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.frames: list[dict[str, str | None]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag == "iframe", "nothing else reaches the notebook's page"
        self.frames.append(dict(attrs))


def test_a_cell_is_recorded_and_shown(run: tuple[Path, dict[str, list[Any]]]) -> None:
    folder, cells = run
    assert not [name for name in ("load", "target", "kernel", "recorded") if failed(cells[name])]
    result, shown = (o for o in cells["recorded"] if "data" in o)
    assert result.data["text/plain"] == "0", "what the cell's last line gives is shown as ever"
    (frame,) = Frame(shown.data["text/html"]).frames
    assert frame["sandbox"] == "allow-scripts" and "add_kernel" in str(frame["srcdoc"])
    assert "1 kernel" in shown.data["text/plain"]
    assert said(cells["kept"]).strip() == "first.ptxview ['add_kernel']"
    assert "def add_kernel(x, y, out" in said(cells["shown"])
    assert launches(folder / "first.ptxview") == [(4, 1)]
    (kernel,) = call("list", folder / "first.ptxview", "--json").json["kernels"]
    assert {"source", "ttir", "ptx", "sass"} <= set(kernel["variants"][0]["stages"])


def test_a_cell_that_fails_is_recorded_and_fails_once(
    run: tuple[Path, dict[str, list[Any]]],
) -> None:
    folder, cells = run
    assert failed(cells["fails"]) == ["ZeroDivisionError"]
    assert launches(folder / "third.ptxview") == [(8, 1)]
    assert said(cells["after"]).strip() == "third.ptxview 1"
    assert failed(cells["syntax"]) == ["SyntaxError"]
    assert "nothing was compiled or launched" in said(cells["nothing"], "stderr")
