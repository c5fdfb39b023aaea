"""Memory operations that a compiler writes as inline assembly belong to their own statement."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.base.model import Stage
from inspector.reader.reader import Reader
from inspector.recording.layout import user_derived_cache
from inspector.sources.opening import open_path
from tests.helpers.ptxview import call, environment, ptxview, saved
from tests.probes.conftest import INDUCTOR, caches, parents, warm_python

__all__ = ["caches", "parents", "warm_python"]  # fixtures

# One statement a line: a location that counts on reaches another statement, or leaves the kernel.
SCRIPT = '''
import torch, triton, triton.language as tl

@triton.jit
def inner(p, m):
    q = p + 4
    w = tl.load(q, mask=m, other=0.0)  # load
    r = w * 5
    return r

@triton.jit
def statements(x, y, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=0.0)  # load
    b = a * 2
    c = tl.where(b > 0, b, 0.0)
    d = inner(x + i, i < n)
    e = tl.inline_asm_elementwise("""{
        .reg .f32 t;
        mul.f32 t, $1, $1;
        add.f32 $0, t, $1;
    }""", "=f,f", [c + d], dtype=tl.float32, is_pure=True, pack=1)
    f = e - 1
    tl.store(y + i, f, mask=i < n)  # store
    tl.atomic_add(z + i, f)  # atomic

x, y, z = (torch.ones(1028, device="cuda") for _ in range(3))
statements[(1,)](x, y, z, 1024, B=1024)

def model(a, b):
    c = a * 2
    d = c + b
    return d.sum(-1)

torch.compile(model)(torch.ones(64, 512, device="cuda"), torch.ones(64, 512, device="cuda"))
'''
OPCODES = {"LDG": "load", "STG": "store", "ATOMG": "atomic", "RED": "atomic", "REDG": "atomic"}
CALLS = {"tl.load": "load", "tl.store": "store", "tl.atomic": "atomic"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, warm_python: Callable[..., Path]) -> Path:
    folder = tmp_path_factory.mktemp("assembly")
    script = saved(folder / "statements.py", SCRIPT)
    target = folder / "statements.ptxview"
    env = environment(TORCHINDUCTOR_COMPILE_THREADS="1")
    words = ("--values", "ptx", "--python", warm_python(*INDUCTOR, values="ptx"))
    done = ptxview("run", "--no-tui", *words, "-o", target, script, env=env)
    assert done.status == 0, done.said[-2000:]
    return target


def sectors_by_line(recording: Path, kernel: str, stage: str) -> dict[int, int]:
    """The sectors of global memory of each line of a stage, by its number, those of lines that have
    any."""
    done = call("trace", recording, kernel, "--by", stage, "--json")
    assert done.status == 0, done.said[-2000:]
    rows = json.loads(done.out)[f"by_{stage}"]
    return {row["n"]: row["sectors"] for row in rows if row["sectors"]}


def marked_lines(text: str, marks: dict[str, str]) -> dict[int, str]:
    """Lines that hold a mark, and its meaning."""
    return {
        n: kind
        for n, line in enumerate(text.split("\n"), 1)
        for mark, kind in marks.items()
        if mark in line
    }


def test_sectors_are_on_the_statement_that_moves_them(recorded: Path) -> None:
    sectors = sectors_by_line(recorded, "statements", "source")
    wanted = marked_lines(SCRIPT, {"# load": "load", "# store": "store", "# atomic": "atomic"})
    call_site = next(n for n, line in enumerate(SCRIPT.split("\n"), 1) if "= inner(" in line)
    assert set(sectors) - {call_site} == set(wanted)
    assert {sectors[n] for n, kind in wanted.items() if kind != "load"} == {128}


def test_sectors_are_on_their_operation_of_ttgir(recorded: Path) -> None:
    reader = Reader(open_path(recorded), user_derived_cache())
    kernel = next(k for k in reader.recording.kernels if k.name == "statements")
    text = reader.stages.text(kernel.variants[0], Stage.TTGIR).text
    sectors = sectors_by_line(recorded, "statements", "ttgir")
    assert set(sectors) == set(marked_lines(text, {"tt.load": "", "tt.store": "", "tt.atomic": ""}))


def test_sectors_of_a_generated_kernel_are_on_its_loads_and_stores(recorded: Path) -> None:
    reader = Reader(open_path(recorded), user_derived_cache())
    kernel = next(k for k in reader.recording.kernels if k.name.startswith("triton_"))
    text = reader.stages.text(kernel.variants[0], Stage.OUTPUT_CODE).text
    sectors = sectors_by_line(recorded, kernel.name, "output_code")
    assert len(sectors) == 3
    assert set(sectors) <= set(marked_lines(text, CALLS))


@pytest.mark.parametrize("name", ["statements", "triton_"])
def test_sass_of_memory_operations_is_on_the_statement(recorded: Path, name: str) -> None:
    reader = Reader(open_path(recorded), user_derived_cache())
    kernel = next(k for k in reader.recording.kernels if k.name.startswith(name))
    variant = kernel.variants[0]
    stage = Stage.SOURCE if name == "statements" else Stage.OUTPUT_CODE
    upper = reader.stages.listing(variant, stage).lines
    links = reader.stages.links(variant, Stage.SASS, stage)
    found: set[str] = set()
    for line in reader.stages.listing(variant, Stage.SASS).lines:
        if kind := OPCODES.get(line.base or ""):
            texts = [upper[n - 1].text for n in links[line.n]]
            assert any(CALLS[mark] == kind for text in texts for mark in CALLS if mark in text), (
                line.text,
                texts,
            )
            if stage is Stage.SOURCE:
                assert line.source is not None
                assert f"tl.{kind}" in upper[line.source.line - 1].text
            found.add(kind)
    assert found == ({"load", "store", "atomic"} if name == "statements" else {"load", "store"})
