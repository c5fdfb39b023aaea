"""What one instruction of machine code moves, before anything was executed."""

import pytest

from inspector.base.model import Stage
from inspector.estimate.path import Op, decode
from inspector.parsers import parse


def decoded(code: str) -> Op:
    text = f"        /*0000*/ {code} ; /* 0x0000000000007981 */\n/* 0x000fe2000c1e1900 */"
    listing = parse(Stage.SASS, text)
    line = next(line for line in listing.lines if line.opcode)
    op = decode(line, (), {}, {}, 1)
    assert op is not None, line
    return op


@pytest.mark.parametrize(
    ("code", "sectors"),
    [
        ("LDG.E R4, desc[UR8][R2.64]", 4),
        ("LDG.E.96 R4, desc[UR8][R2.64]", 12),
        ("LDG.E.ENL2.256 R8, R4, desc[UR8][R2.64]", 32),
        ("REDG.E.ADD.BF16x8.RN.STRONG.GPU desc[UR4][R2.64], R8", 16),
    ],
)
def test_a_request_has_the_sectors_of_32_contiguous_accesses(code: str, sectors: int) -> None:
    assert decoded(code).sectors == sectors


@pytest.mark.parametrize(
    ("code", "waves"),
    [("LDS.128 R4, [R2]", 4), ("LDSM.16.M88.4 R4, [R2]", 4), ("STSM.16.M88.2 [R2], R4", 2)],
)
def test_shared_memory_takes_a_wavefront_for_128_bytes(code: str, waves: int) -> None:
    assert decoded(code).waves == waves
