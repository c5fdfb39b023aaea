"""Integers, bits, conversions between them and comparisons: what ptxas itself works out of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from inspector.listing.ptx import parse_ptx
from inspector.listing.ptx_code import read_module
from tests.execute import random_ptx
from tests.execute.folding import assembled, folded
from tests.execute.programs import launch

EACH = 12
"""Sets of operands of every instruction."""
Pair = tuple[int, int, int]
"""A place, what was stored there here, and what ptxas says."""
WHOLE = "hrdp"
"""Kinds of integers and predicates."""


def whole_instructions() -> list[random_ptx.Instruction]:
    """The instructions that read and write nothing but integers, and no other lanes."""
    kinds = set(WHOLE) | set(random_ptx.SPECIAL)
    return [
        one
        for one in random_ptx.instructions()
        if one[1] in WHOLE
        and all(k in kinds or k[0] == "0" for k in random_ptx.sources_of(one[2]))
        and "sync" not in one[0]
    ]


def compared(text: str, stores: int, folder: Path) -> dict[str, list[Pair]]:
    """What each kernel stored here and what ptxas says, where it says something: place, both."""
    expected = folded(assembled(text, folder))
    module = read_module(parse_ptx(text))
    out: dict[str, list[Pair]] = {}
    for name, constants in expected.items():
        made = np.zeros(stores, np.uint64)
        launch(module, (1,), 1, [made], name)
        out[name] = [(at // 8, int(made[at // 8]), value) for at, value in constants.items()]
    return out


def test_every_instruction_gives_what_ptxas_works_out(tmp_path: Path) -> None:
    chosen = whole_instructions()
    words = random_ptx.words(EACH * 31, 7).tolist()
    kernels = []
    for k, one in enumerate(chosen):
        body = [
            line
            for n in range(EACH)
            for line in random_ptx.of_constants(one, words[(k * 7 + n * 31) % len(words)], n)
        ]
        kernels.append(random_ptx.constant_entry(f"i{k}", body))
    text = random_ptx.HEAD + "".join(kernels)
    results = compared(text, EACH, tmp_path)
    alone = {one: results[f"i{k}"] for k, one in enumerate(chosen)}
    wrong = {}
    for one, pairs in alone.items():
        different = [(n, f"{mine:#x}", f"{right:#x}") for n, mine, right in pairs if mine != right]
        if different:
            wrong[one] = different[:3]
    assert not wrong
    assert sum(1 for pairs in alone.values() if pairs) > 190
    assert sum(map(len, alone.values())) > 2000
