"""Call sites in MLIR locations that multiply: bounded in each location, and in all of a text."""

from __future__ import annotations

import tracemalloc

import pytest

from inspector.base.stage import MAX_FRAMES
from inspector.parsers import mlir
from inspector.parsers.mlir import parse_mlir


def doubling(levels: int, lines: int = 1) -> str:
    operations = "%0 = arith.constant 0 : i32 loc(#loc1)\n" * lines
    chains = "".join(
        f"#loc{n} = loc(callsite(#loc{n + 1} at #loc{n + 1}))\n" for n in range(1, levels)
    )
    return f'module {{\n{operations}}}\n{chains}#loc{levels} = loc("x.py":1:1)\n'


def frames(text: str) -> list[int]:
    lines = parse_mlir(text).lines
    return [len(line.source.frames()) for line in lines if line.source is not None]


def test_a_chain_has_all_its_frames_up_to_a_bound() -> None:
    assert frames(doubling(4)) == [8]
    assert frames(doubling(9)) == [256]
    assert frames(doubling(24)) == [MAX_FRAMES]


def test_the_innermost_frames_of_a_chain_are_kept() -> None:
    text = doubling(20).replace("#loc2 at #loc2", '"inner.py":7:1 at #loc2')
    (line,) = [line for line in parse_mlir(text).lines if line.source is not None]
    assert line.source is not None
    assert line.source.file == "inner.py"
    assert len(line.source.frames()) == MAX_FRAMES


def test_memory_of_a_text_whose_call_sites_double_is_bounded() -> None:
    tracemalloc.start()
    parse_mlir(doubling(24, lines=50))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_the_frames_of_all_locations_of_a_text_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mlir, "MAX_CHAINED_FRAMES", 100)
    chained = "".join(f"%{n} = a.b loc(callsite(#loc1 at #loc2))\n" for n in range(9))
    text = doubling(6).replace("module {\n", "module {\n" + chained)
    # 31 frames are copied for the aliases and 32 for each of two chains: then callees are alone
    assert frames(text) == [48, 48, *[32] * 8]
