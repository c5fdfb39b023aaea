"""Every instruction and random programs, beside what an H200 left in memory, bit for bit.

Each digest of a result is beside a digest of its inputs, so that a changed generator is not taken
for a changed result.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
from inspector.reader import tables
from tests.execute import random_programs, random_ptx
from tests.execute.programs import launch
from tests.gpu import edge_values

FOLDER = Path(__file__).parent.parent / "data" / "execute" / "h200"
CHANGED = "the generator no longer gives what the H200 was given"
SETS, KEPT_SETS = 65_536, 4096
"""Sets of operands of each instruction that the H200 ran, and those whose results are kept."""
PROGRAMS, PIECE = 200, 20
EDGE_PIECES = 8


def digest(*parts: bytes) -> str:
    """A name of bytes."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def rows(name: str) -> list[list[str]]:
    return [line.split() for line in (FOLDER / name).read_text("utf-8").splitlines()]


def test_every_instruction_gives_the_h200s_bits() -> None:
    """557 instructions on 4,096 sets of operands, many of them at an edge of their type."""
    kept = rows("instructions.txt")
    chosen = [(row[0], row[1], row[2]) for row in kept]
    assert chosen == random_ptx.instructions(), CHANGED
    words = random_ptx.words(SETS, 5)[:KEPT_SETS]
    assert {row[3] for row in kept} == {digest(words.tobytes())}, CHANGED
    module = read_module(parse_ptx(random_ptx.instruction_module(chosen)))
    different = []
    for k, row in enumerate(kept):
        made = np.zeros(KEPT_SETS, np.uint64)
        launch(module, (KEPT_SETS // 256,), 256, [words, made], f"i{k}")
        if digest(made.tobytes()) != row[4]:
            different.append(" ".join(row[:3]))
    assert not different


@pytest.mark.parametrize("piece", range(EDGE_PIECES))
def test_edge_values_give_the_h200s_bits(piece: int) -> None:
    """Forms that are no approximations on every combination of their operands' edge values."""
    table, bounds = edge_values.read_forms(), tables.table("approximate")
    forms = [
        form
        for form in table.forms
        if form.sm == edge_values.LOWEST_SM and edge_values.bound_of(form, bounds) is None
    ]
    kept = rows("edge_values.txt")
    assert [[form.opcode, str(len(form.sources))] for form in forms] == [r[:2] for r in kept]
    different = []
    for form, row in list(zip(forms, kept, strict=True))[piece::EDGE_PIECES]:
        words = edge_values.cases(form, table)
        assert edge_values.digest(words) == row[2], CHANGED
        results = edge_values.run_here(edge_values.kernel(form, form.sm), words)
        if edge_values.digest(results) != row[3]:
            different.append(form.name)
    assert not different


@pytest.mark.parametrize(
    "piece", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, PROGRAMS // PIECE))]
)
def test_random_programs_leave_the_h200s_memory(piece: int) -> None:
    """Threads that part, loops, every kind of memory, atomics, votes, calls."""
    chosen, different = random_ptx.instructions(), []
    kept = rows("programs.txt")[piece * PIECE : (piece + 1) * PIECE]
    for number, given, left in kept:
        seed = int(number)
        words = random_ptx.words(random_programs.LANES, seed)
        memory = random_programs.memory_for(seed)
        text = random_programs.entry("p", seed, chosen)
        assert digest(text.encode(), words.tobytes(), memory.tobytes()) == given, CHANGED
        module = random_ptx.HEAD + random_programs.MODULE + text
        launch(module, (random_programs.BLOCKS,), random_programs.THREADS, [words, memory])
        if digest(memory.tobytes()) != left:
            different.append(seed)
    assert not different
