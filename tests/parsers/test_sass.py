"""SASS, one construct at a time; what the registers of an instruction are is in test_sass_truth."""

from inspector.parsers.line import Control, Kind, Line
from inspector.parsers.sass import parse_sass
from tests.helpers.samples import read_sample


def one(instruction: str) -> Line:
    """The line of one instruction."""
    return parse_sass(f"        /*0010*/                   {instruction} ;").lines[0]


def test_sass_branches_have_their_targets() -> None:
    assert one("@!P0 BRA `(.L_x_0)").targets == (".L_x_0",)
    assert one("@!P0 BRA !P1, `(.L_x_0)").uses == ("P0", "P1")
    assert one("BRA 0x150").targets == ("0x150",)
    assert one("CALL.REL.NOINC `($_Z5calls$_Z5outerf)").targets == ("$_Z5calls$_Z5outerf",)
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


def test_control_words_are_read_from_the_encoding() -> None:
    """Bits 105 to 125 of the instruction: stall, yield, barriers, wait mask, reuse."""
    control = parse_sass(PLAIN, ANNOTATED).lines[8].control
    bits = 0x044FE200078E00FF >> 41
    assert control == Control(bits & 15, bool(bits & 16), None, None, wait=4, reuse=1)


def test_sass_has_functions_and_kinds_of_lines() -> None:
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


def test_every_line_of_cuobjdumps_text_is_known() -> None:
    listing = parse_sass(read_sample("extension_cuobjdump.sass"))
    assert [f.name[4:8] for f in listing.functions] == ["gelu", "squa"]
    assert Kind.UNKNOWN not in {line.kind for line in listing.lines}
    instructions = [line for line in listing.lines if line.kind is Kind.INSTRUCTION]
    assert len(instructions) > 100
    assert all(line.control is not None and line.address is not None for line in instructions)
    for function in listing.functions:
        inside = listing.lines[function.first - 1 : function.last]
        assert inside[0].text.strip() == f"Function : {function.name}"
        addresses = [line.address for line in inside if line.address is not None]
        assert addresses == list(range(0, 16 * len(addresses), 16))
