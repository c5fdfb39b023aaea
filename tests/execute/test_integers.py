"""Integers, bits, conversions between them and comparisons: what ptxas itself works out of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from inspector.parsers.ptx import parse_ptx
from inspector.parsers.ptx_code import read_module
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


CHAINS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry chains(.param .b64 a, .param .b64 b)
{
.reg .b64 %d<9>;
.reg .b32 %r<20>;
ld.param.b64 %d0, [a];
ld.param.b64 %d1, [b];
ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%d0];
ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d0+16];
sub.cc.u32 %r8, %r0, %r4;
subc.cc.u32 %r9, %r1, %r5;
subc.cc.u32 %r10, %r2, %r6;
subc.u32 %r11, %r3, %r7;
st.global.v4.b32 [%d1], {%r8, %r9, %r10, %r11};
mul.lo.u32 %r8, %r0, %r4;
mul.hi.u32 %r9, %r0, %r4;
mad.lo.cc.u32 %r9, %r1, %r4, %r9;
madc.hi.u32 %r10, %r1, %r4, 0;
mad.lo.cc.u32 %r9, %r0, %r5, %r9;
madc.hi.cc.u32 %r10, %r0, %r5, %r10;
addc.u32 %r11, 0, 0;
mad.lo.cc.u32 %r10, %r1, %r5, %r10;
madc.hi.u32 %r11, %r1, %r5, %r11;
st.global.v4.b32 [%d1+16], {%r8, %r9, %r10, %r11};
ret;
}
"""


def words_of(number: int) -> list[int]:
    return [number >> 32 * k & 0xFFFFFFFF for k in range(4)]


def test_long_differences_and_products_by_words_of_32_bits() -> None:
    low, all_ones = (1 << 64) - 1, (1 << 128) - 1
    numbers = (0, 1, 1 << 32, low, 1 << 64, 0x0123456789ABCDEF << 64 | 0xFEDCBA9876543210, all_ones)
    for a in numbers:
        for b in numbers:
            given = np.array(words_of(a) + words_of(b), np.uint32)
            results = np.zeros(8, np.uint32)
            launch(CHAINS, (1,), 1, [given, results])
            assert results[:4].tolist() == words_of(a - b & all_ones)
            assert results[4:].tolist() == words_of((a & low) * (b & low))
