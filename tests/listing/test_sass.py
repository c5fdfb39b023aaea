"""SASS, one construct at a time; what the registers of an instruction are is in test_sass_truth."""

from __future__ import annotations

import pytest

from inspector.listing.line import Control, Kind, Line
from inspector.listing.sass import parse_sass
from tests.helpers.samples import read_sample


def one(instruction: str) -> Line:
    """The line of one instruction."""
    return parse_sass(f"        /*0010*/                   {instruction} ;").lines[0]


@pytest.mark.parametrize(
    ("text", "opcode", "defs", "uses"),
    [
        ("MOV R1, c[0x0][0x28]", "MOV", "R1", ""),
        ("IMAD.MOV.U32 R0, RZ, RZ, RZ", "IMAD.MOV.U32", "R0", ""),
        ("IADD3 R3, P0, P1, R4.reuse, -R5, UR6", "IADD3", "R3 P0 P1", "R4 R5 UR6"),
        ("IADD3.X R3, R4, R5, RZ, P0, !P1", "IADD3.X", "R3", "R4 R5 P0 P1"),
        ("ISETP.GE.AND P0, PT, R2, R9, PT", "ISETP.GE.AND", "P0", "R2 R9"),
        ("LOP3.LUT P0, RZ, R3, 0x1, RZ, 0xc0, !PT", "LOP3.LUT", "P0", "R3"),
        ("PLOP3.LUT P0, PT, P1, P2, PT, 0x80, 0x0", "PLOP3.LUT", "P0", "P1 P2"),
        ("UISETP.GT.AND UP0, UPT, UR4, URZ, UPT", "UISETP.GT.AND", "UP0", "UR4"),
        ("SEL R0, R1, RZ, !P3", "SEL", "R0", "R1 P3"),
        ("@!UP0 UMOV UR4, 0x400", "UMOV", "UR4", "UP0"),
        ("@P0 LDG.E.128 R8, desc[UR8][R12.64+0x10]", "LDG.E.128", "R8 R9 R10 R11",
         "P0 UR8 UR9 R12 R13"),
        ("STG.E.128 desc[UR8][R12.64], R8", "STG.E.128", "", "UR8 UR9 R12 R13 R8 R9 R10 R11"),
        ("LDG.E R0, [R2.U32+UR4]", "LDG.E", "R0", "R2 UR4 UR5"),
        ("LDG.E.SYS R0, [R2]", "LDG.E.SYS", "R0", "R2 R3"),
        ("LDS.64 R2, [R5+UR4+0x8]", "LDS.64", "R2 R3", "R5 UR4"),
        ("LDSM.16.MT88.4 R4, [R9]", "LDSM.16.MT88.4", "R4 R5 R6 R7", "R9"),
        ("LDGSTS.E.BYPASS.128 [R53], desc[UR18][R24.64], P0", "LDGSTS.E.BYPASS.128", "P0",
         "R53 UR18 UR19 R24 R25 P0"),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU PT, R2, desc[UR8][R8.64], R12",
         "ATOMG.E.ADD.F64.RN.STRONG.GPU", "R2 R3", "UR8 UR9 R8 R9 R12 R13"),
        ("ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU PT, R20, desc[UR6][R2.64], R16",
         "ATOMG.E.ADD.F32x4.FTZ.RN.STRONG.GPU", "R20 R21 R22 R23",
         "UR6 UR7 R2 R3 R16 R17 R18 R19"),
        ("CS2UR UR8, SR_CLOCKLO", "CS2UR", "UR8 UR9", ""),
        ("IMAD.WIDE.U32 R6, R2, 0x4, R8", "IMAD.WIDE.U32", "R6 R7", "R2 R8 R9"),
        ("DFMA R2, R4, -R6, |R8|", "DFMA", "R2 R3", "R4 R5 R6 R7 R8 R9"),
        ("F2F.F64.F32 R2, R4", "F2F.F64.F32", "R2 R3", "R4"),
        ("F2F.F32.F64 R2, R4", "F2F.F32.F64", "R2", "R4 R5"),
        ("I2F.S64 R2, R4", "I2F.S64", "R2", "R4 R5"),
        ("CS2R R4, SRZ", "CS2R", "R4 R5", ""),
        ("CS2R.32 R4, SR_CLOCKLO", "CS2R.32", "R4", ""),
        ("S2R R3, SR_TID.X", "S2R", "R3", ""),
        ("SHFL.BFLY PT, R14, R3, 0x10, 0x1f", "SHFL.BFLY", "R14", "R3"),
        ("VOTE.ANY R2, PT, P0", "VOTE.ANY", "R2", "P0"),
        ("HMMA.16816.F32 R4, R8, R12, R4", "HMMA.16816.F32", "R4 R5 R6 R7",
         "R8 R9 R10 R11 R12 R13 R4 R5 R6 R7"),
        ("HMMA.1688.F32.TF32 R4, R8, R12, RZ", "HMMA.1688.F32.TF32", "R4 R5 R6 R7",
         "R8 R9 R10 R11 R12 R13"),
        ("R2P PR, R0, 0x5", "R2P", "P0 P2", "R0"),
        ("BSSY B0, `(.L_x_2)", "BSSY", "B0", ""),
        ("BSYNC B0", "BSYNC", "", "B0"),
        ("NOP", "NOP", "", ""),
    ],
)  # fmt: skip
def test_opcode_and_registers(text: str, opcode: str, defs: str, uses: str) -> None:
    line = one(text)
    assert (line.kind, line.opcode, line.address) == (Kind.INSTRUCTION, opcode, 16)
    assert line.base == opcode.partition(".")[0]
    assert (line.defs, line.uses) == (tuple(defs.split()), tuple(uses.split()))


def test_branches() -> None:
    assert one("@!P0 BRA `(.L_x_0)").targets == (".L_x_0",)
    assert one("@!P0 BRA !P1, `(.L_x_0)").uses == ("P0", "P1")
    assert one("BRA 0x150").targets == ("0x150",)
    assert one("CALL.REL.NOINC `($_Z5callsPfPKfi$_Z5outerf)").targets == (
        "$_Z5callsPfPKfi$_Z5outerf",
    )
    line = one('BRX R2 -0x1a0 (*"BRANCH_TARGETS .L_x_1,.L_x_2,.L_x_3"*)')
    assert (line.targets, line.uses) == ((".L_x_1", ".L_x_2", ".L_x_3"), ("R2", "R3"))
    assert one("BSSY B0, `(.L_x_2)").targets == (), "where threads meet again: no branch"


PLAIN = """\t.headerflags\t@"EF_CUDA_SM90"

//--------------------- .text.a --------------------------
\t.section\t.text.a,"ax",@progbits
        .other          a,@"STO_CUDA_ENTRY STV_DEFAULT"
a:
.text.a:
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   NOP;
.L_x_0:
        /*0020*/                   EXIT ;

//--------------------- .text.b --------------------------
\t.section\t.text.b,"ax",@progbits
b:
        /*0000*/                   RET.REL.NODEC R2 `(a) ;
"""
ANNOTATED = """\t.section\t.text.a,"ax",@progbits
\t//## File "/x/inner.py", line 7 inlined at "/x/outer.py", line 13
\t//## File "/x/outer.py", line 13 inlined at "/x/top.py", line 20
\t//## File "/x/top.py", line 20
\t//## File ".nv_debug_ptx_txt", line 5
        /*0000*/                   MOV R1, R2 ;             /* 0x00000a00ff017b82 */
                                                            /* 0x000fe20000000800 */
\t//## File ".nv_debug_ptx_txt", line 6
        /*0010*/                   NOP;                     /* 0x0000000000007918 */
                                                            /* 0x044fe200078e00ff */
.L_x_0:
\t//## File "/x/top.py", line 21
        /*0020*/                   EXIT ;                   /* 0x000000000000794d */
                                                            /* 0x000fea0003800000 */
\t.section\t.text.b,"ax",@progbits
        /*0000*/                   RET.REL.NODEC R2 `(a) ;  /* 0x0000000000007950 */
                                                            /* 0x001fea0003c00000 */
"""


def test_control_words() -> None:
    """Bits 105 to 125 of the instruction: stall, yield, barriers, wait mask, reuse."""
    control = parse_sass(PLAIN, ANNOTATED).lines[8].control
    bits = 0x044FE200078E00FF >> 41
    assert control == Control(
        stall=bits & 15,
        yield_=bool(bits & 16),
        write_barrier=None,
        read_barrier=None,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )
    assert control.wait == 4
    assert control.reuse == 1


def test_functions_and_kinds() -> None:
    listing = parse_sass(PLAIN)
    assert [(f.name, f.first, f.last, f.entry) for f in listing.functions] == [
        ("a", 3, 11, True), ("b", 13, 16, False),
    ]  # fmt: skip
    assert [line.kind for line in listing.lines[:8]] == [
        Kind.DIRECTIVE, Kind.BLANK, Kind.COMMENT, Kind.DIRECTIVE, Kind.DIRECTIVE, Kind.LABEL,
        Kind.LABEL, Kind.INSTRUCTION,
    ]  # fmt: skip
    assert listing.lines[9].label == ".L_x_0"
    assert {line.source for line in listing.lines} == {None}
    assert {line.control for line in listing.lines} == {None}


def test_cuobjdump_text() -> None:
    listing = parse_sass(read_sample("extension_cuobjdump.sass"))
    assert [f.name for f in listing.functions] == [
        "_Z11gelu_kernelPfS_i",
        "_Z20square_matrix_kernelPKfPfii",
    ]
    assert Kind.UNKNOWN not in {line.kind for line in listing.lines}
    instructions = [line for line in listing.lines if line.kind is Kind.INSTRUCTION]
    assert len(instructions) > 100
    assert all(line.control is not None and line.address is not None for line in instructions)
    for function in listing.functions:
        inside = listing.lines[function.first - 1 : function.last]
        assert inside[0].text.strip() == f"Function : {function.name}"
        addresses = [line.address for line in inside if line.address is not None]
        assert addresses == list(range(0, 16 * len(addresses), 16))
