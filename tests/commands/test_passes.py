"""Passes of a kernel, compared with Triton's own dumps of its compilation."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inspector.analysis.passes import PassFilter, PassRun
from inspector.diff.beside import lines_changed
from inspector.reader.passes import PassList, variant_passes
from inspector.recording.layout import DerivedCache
from inspector.sources.opening import open_path
from tests.helpers.ptxview import EXTENSION, call, finished, saved
from tests.helpers.schemas import hold
from tests.helpers.shared import once

pytestmark = pytest.mark.usefixtures("triton_at_once")

# A matmul whose dot needs other layouts than its loads: TTGIR gets and loses convert_layouts.
KERNEL = """
import triton, triton.language as tl

@triton.jit
def mm(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.arange(0, BM); n = tl.arange(0, BN); k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * BN + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * BN + n[None, :], acc.to(tl.float16))
"""
# Triton alone: ptxview is not imported.
BARE = """
import sys
sys.path.insert(0, sys.argv[1])
import mm, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
source = ASTSource(
    fn=mm.mm,
    signature={"a": "*fp16", "b": "*fp16", "c": "*fp16", "K": "i32",
               "BM": "constexpr", "BN": "constexpr", "BK": "constexpr"},
    constexprs={"BM": 32, "BN": 32, "BK": 32},
    attrs={(i,): [["tt.divisibility", 16]] for i in range(4)},
)
triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 2})
"""
DUMPED = re.compile(
    r"^// -----// IR Dump Before ([^\s:]+)[^\n]* \('[\w.]+' operation[^\n]*//----- //\n"
    r"|^(?:; |# )?\*\*\* IR Dump After (.+?) \*\*\*[^\n]*\n",
    re.MULTILINE,
)
LOCATION = re.compile(r"^#loc\d* = .*\n?|#loc\d*", re.MULTILINE)


def compile_bare(python: str, folder: Path) -> None:
    """Triton compiles the kernel into a cache, and says all that it can of its passes."""
    saved(folder / "mm.py", KERNEL)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MLIR", "LLVM", "TRITON"))}
    env |= {"MLIR_ENABLE_DUMP": "1", "LLVM_IR_ENABLE_DUMP": "1", "CUDA_VISIBLE_DEVICES": ""}
    env |= {"TRITON_CACHE_DIR": str(folder / "cache")}
    done = finished([python, "-c", BARE, folder], env=env)
    assert done.status == 0, done.said
    (folder / "said").write_bytes(done.err)


@pytest.fixture(scope="module")
def bare(common: Path, plain_python: Callable[..., str]) -> Path:
    return once(common / "bare-passes", partial(compile_bare, plain_python()))


@pytest.fixture(scope="module")
def dumped(bare: Path) -> list[tuple[str, str]]:
    """Every pass that Triton's own compile has named, with the text beneath the heading."""
    said = (bare / "said").read_text("utf-8", "replace")
    heads = list(DUMPED.finditer(said))
    ends = [*(h.start() for h in heads[1:]), len(said)]
    return [
        (
            h[1] or h[2].partition(" on ")[0].partition(" (")[0],
            # A pass may print more, of what it does itself.
            said[h.end() : end].partition("\n// -----//")[0].partition("\nRunning pass")[0],
        )
        for h, end in zip(heads, ends, strict=True)
    ]


@pytest.fixture(scope="module")
def made(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> PassList:
    """What we say of it, from the cache that the compile has left."""
    variant = open_path(bare / "cache").variants()[0][1]
    cache = DerivedCache(tmp_path_factory.getbasetemp().parent / "kept-passes")
    return variant_passes(variant, cache, lines_changed)


def bared(text: str, stage: str) -> str:
    """A dump without the numbers of places; before LLVM also without names of values."""
    text = LOCATION.sub("", text).strip()
    return re.sub(r"%\w+", "%", text) if stage != "llir" else text


def ran(passes: tuple[PassRun, ...]) -> Iterator[str]:
    """Each pass, and those that it ran itself, by the name that dumps have."""
    for run in passes:
        yield run.name.partition(" (")[0]
        yield from run.inside


@pytest.mark.nightly
def test_passes_are_those_that_triton_dumps_in_their_order(
    made: PassList, dumped: list[tuple[str, str]]
) -> None:
    assert list(ran(made.passes)) == [name for name, _ in dumped]
    assert {p.language for p in made.passes} == {"mlir", "llvm", "machine"}
    assert {p.stage for p in made.passes} == {"ttir", "ttgir", "llir", "ptx"}
    assert made.begins == "source" and made.failed is None
    assert "the PTX of this compilation is the recorded one, byte for byte" in made.remarks


@pytest.mark.nightly
def test_a_text_is_the_one_that_triton_dumps(made: PassList, dumped: list[tuple[str, str]]) -> None:
    at, compared = 0, 0
    for run in made.passes:
        name, text = dumped[at]
        at += 1 + len(run.inside)
        if run.language == "mlir" and run.before is not None:
            # In a text that was read again places have other numbers, and arguments other names.
            assert bared(run.before, run.stage) == bared(text, run.stage), name
            compared += 1
    assert compared > 15


@pytest.mark.nightly
def test_the_pass_that_made_a_convert_layout_is_found(
    made: PassList, dumped: list[tuple[str, str]]
) -> None:
    """Counts in Triton's dumps before a pass and before the next one."""
    counts = [text.count("ttg.convert_layout ") for _, text in dumped]
    differences: dict[int, int] = {}
    at = 0
    for run in made.passes:
        follows = at + 1 + len(run.inside)
        if run.stage == "ttgir" and made.passes[run.number].stage == "ttgir":
            differences[run.number] = counts[follows] - counts[at]
        at = follows
    more = [n for n, difference in differences.items() if difference > 0]
    fewer = [n for n, difference in differences.items() if difference < 0]
    assert more and fewer
    introducing = PassFilter(stage="ttgir", introduces="convert_layout").select(made.passes)
    removing = PassFilter(stage="ttgir", removes="convert_layout").select(made.passes)
    assert [p.number for p in introducing] == more
    assert [p.number for p in removing] == fewer
    assert "TritonGPUAccelerateMatmul" in [made.passes[n - 1].name for n in more]


def told(bare: Path, *words: str) -> Any:
    done = call("passes", bare / "cache", "mm", *words, "--json")
    assert done.status == 0, done.said
    document = json.loads(done.out)
    hold("passes", document)
    return document


def test_the_command_lists_changes_shows_one_and_says_what_it_is_of(bare: Path) -> None:
    listed = call("passes", bare / "cache", "mm", "--introduces", "convert_layout")
    assert listed.status == 0, listed.said
    row = next(r for r in listed.text.splitlines() if "TritonGPUAccelerateMatmul" in r)
    number = row.split()[0]
    assert "convert_layout" in row and "ttgir" in row
    assert "byte for byte" in listed.said
    again = call("passes", bare / "cache", "mm", "--removes", "convert_layout")
    assert "compiles" not in again.said and "RemoveLayoutConversions" in again.text
    one = call("passes", bare / "cache", "mm", number)
    assert "+ " in one.text and "ttg.convert_layout" in one.text and "loc(" not in one.text
    assert one.text == call("passes", bare / "cache", "mm", "tritongpu-accelerate-matmul").text
    every = told(bare)["passes"]
    assert [p["number"] for p in every] == list(range(1, len(every) + 1))
    chosen = told(bare, number)["passes"]
    assert len(chosen) == 1 and "ttg.convert_layout" in chosen[0]["introduced"]
    assert chosen[0]["after"].count("ttg.convert_layout") > chosen[0]["before"].count(
        "ttg.convert_layout"
    )
    assert any(h["op"] == "insert" for h in chosen[0]["hunks"])


def test_what_is_not_there_is_a_sentence(bare: Path, tmp_path: Path) -> None:
    none = call("passes", bare / "cache", "mm", "no-such-pass")
    assert none.status == 2 and "no pass is called no-such-pass" in none.said
    several = call("passes", bare / "cache", "mm", "cse")
    assert several.status == 2 and "give a number" in several.said
    foreign = call("passes", EXTENSION, "square_gelu*")
    assert foreign.status in (2, 4) and "Traceback" not in foreign.said
    python = saved(tmp_path / "python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', mode=0o755)
    lacking = call("passes", bare / "cache", "mm", "--python", python)
    assert lacking.status == 3 and "has no Triton" in lacking.said
