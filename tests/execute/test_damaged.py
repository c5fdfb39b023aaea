"""PTX that somebody has damaged: a sentence or a result, never anything else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from inspector.base.errors import PtxviewError
from inspector.execute import Memory, Program, execute
from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module

DATA = Path(__file__).parent.parent / "data"
TEXTS = [
    (DATA / "execute" / "control.ptx").read_text("utf-8"),
    (DATA / "parsers" / "matmul_sm90.ptx").read_text("utf-8"),
    (DATA / "parsers" / "gelu_sm90.ptx").read_text("utf-8"),
]
WORDS = [*"{};[@!|_-", "%r1", "%p1", "],", "0x", "%tid.x", "9" * 10, ".reg", "bra", "wide"]


def damaged(rng: random.Random) -> str:
    """A text of a compiler's with up to three lines changed, doubled, exchanged or gone."""
    lines = rng.choice(TEXTS).split("\n")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        line, how = lines[at], rng.randrange(5)
        if how == 0:
            words = line.split(" ")
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            lines[at] = " ".join(words)
        elif how == 1:
            lines[at] = rng.choice(lines)
        elif how == 2:
            place = rng.randrange(len(line) + 1)
            lines[at] = line[:place] + rng.choice(WORDS) + line[place:]
        elif how == 3:
            parts = line.split(".")
            parts.insert(rng.randrange(1, len(parts) + 1), rng.choice(WORDS))
            lines[at] = ".".join(parts)
        else:
            del lines[at]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_ptx_is_refused_or_run(seed: int) -> None:
    rng = random.Random(seed)
    module = read_module(parse_ptx(damaged(rng)))
    memory = Memory()
    buffers = [memory.add(f"b{n}", np.zeros(65_536, np.float32)) for n in range(4)]
    try:
        program = Program(module, rng.choice(module.entries) if module.entries else None)
        arguments = [
            bytes(p.size) if p.array else buffers[n % 4] if p.size == 8 else 64
            for n, p in enumerate(program.parameters)
        ]
        block = program.required_block or (64,)
        execute(program, (2,), block, arguments, memory=memory, shared=65_536, budget=1_000_000)
    except PtxviewError as error:
        assert str(error)
