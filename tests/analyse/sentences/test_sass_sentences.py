"""Sentences of SASS: real lines of nvdisasm's output, one of each construct."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from inspector.analyse.sentences.context import Context
from inspector.analyse.sentences.sass import SassReader
from inspector.listing import parse
from inspector.listing.line import Kind, Listing
from inspector.model import Stage
from inspector.reader import tables

DATA = Path(__file__).parents[2] / "data"
CONSTRUCTS = ("sm75", "sm80", "sm90a", "sm100a", "sm120")
ISA = tables.isa()
TEMPLATES = tables.table("sass_sentences")


@cache
def constructs(target: str) -> Listing:
    return parse(Stage.SASS, (DATA / "analyse" / f"constructs_{target}.sass").read_text())


def say(text: str, target: str = "sm_90", context: Context | None = None) -> str | None:
    """The sentence of one instruction."""
    listing = parse(Stage.SASS, f"\t.target\t{target}\n        /*0000*/ {text} ;")
    return SassReader(listing, None, ISA, TEMPLATES, context).sentence(2)


# -- lines of constructs.cu, as each architecture has them --------------------------------------


@pytest.mark.parametrize(
    ("target", "line", "sentence"),
    [
        ("sm75", "LDG.E.128.CONSTANT.SYS", r"load 4 × 32 bits \(16 bytes a thread\) from global "
         r"memory at R\d+:R\d+ into R\d+…R\d+ \(read-only\)"),
        ("sm80", "LDG.E.128.CONSTANT", r"load 4 × 32 bits \(16 bytes a thread\) from global memory "
         r"at R\d+:R\d+ into R\d+…R\d+ \(read-only\)"),
        ("sm90a", "LDG.E.128.CONSTANT", r"load 4 × 32 bits .* at R\d+:R\d+ into R\d+…R\d+ .*"),
        ("sm120", "STG.E.128", r"store 4 × 32 bits \(16 bytes a thread\) from R\d+…R\d+ to global "
         r"memory at R\d+:R\d+"),
        ("sm80", "FCHK", r"P\d = whether R\d+ / R\d+ needs the slow path of the division \(fp32\)"),
        ("sm100a", "CALL.REL.NOINC", r"call \$__internal_\S+ \(division\)"),
        ("sm90a", "MUFU.RCP", r"R\d+ = 1 / R\d+, approximately \(fp32\)"),
        ("sm75", "MUFU.EX2", r"R\d+ = 2\^R\d+, approximately \(fp32\)"),
        ("sm120", "MUFU.RSQ", r"R\d+ = 1 / √R\d+, approximately \(fp32\)"),
        ("sm75", "BAR.SYNC", "wait for all threads of the block at barrier 0"),
        ("sm90a", "SHFL.BFLY", r"R\d+ = R\d+ of the lane whose number is this one's xor 16"),
        ("sm80", "SHFL.DOWN", r"R\d+ = R\d+ of the lane 1 above"),
        ("sm75", "F2F.F64.F32", r"R\d+:R\d+ = R\d+, from fp32 to fp64"),
        ("sm90a", "F2F.F32.F64", r"R\d+ = R\d+:R\d+, from fp64 to fp32"),
        ("sm75", "I2F", r"R\d+ = R\d+, from signed 32-bit integer to fp32"),
        ("sm120", "I2FP.F32.S32", r"R\d+ = R\d+, from signed 32-bit integer to fp32"),
        ("sm90a", "F2I.TRUNC.NTZ",
         r"R\d+ = R\d+, from fp32 to signed 32-bit integer \(rounded towards 0\)"),
        ("sm100a", "F2FP.F16.F32.PACK_AB",
         r"R\d+ = R\d+ \(upper half\) and R\d+ \(lower half\), each from fp32 to fp16"),
        ("sm75", "FRND", r"R\d+ = R\d+ rounded to a whole number, fp32"),
        ("sm80", "DFMA", r"R\d+:R\d+ = R\d+:R\d+ × R\d+:R\d+ \+ R\d+:R\d+ \(fp64\)"),
        ("sm90a", "HADD2.F32", r"R\d+ = the lower half of R\d+ \(from fp16 to fp32\)"),
        ("sm75", "HFMA2", r"R\d+ = the lower half of R\d+ × the lower half of R\d+ \+ the lower "
         r"half of R\d+ \(two fp16\)"),
        ("sm90a", "BREV", r"R\d+ = the bits of R\d+ in reverse order"),
        ("sm80", "POPC", r"R\d+ = how many bits of R\d+ are set"),
        ("sm75", "EXIT", "end the thread"),
        ("sm90a", "S2R", r"read the thread's number in its block, x into R\d+"),
        ("sm120", "IMAD.WIDE.U32", r"R\d+:R\d+ = R\d+ × \S+ \+ R\d+:R\d+.*"),
    ],
)  # fmt: skip
def test_what_nvdisasm_prints(target: str, line: str, sentence: str) -> None:
    listing = constructs(target)
    reader = SassReader(listing, None, ISA, TEMPLATES)
    said = [reader.sentence(x.n) for x in listing.lines if x.opcode == line]
    assert said, f"no {line} in constructs_{target}.sass"
    bare = [re.sub(r"^(if|unless) \w+: ", "", s or "") for s in said]
    assert any(re.fullmatch(sentence, s) for s in bare), bare


@pytest.mark.parametrize("target", CONSTRUCTS)
def test_every_instruction_has_a_sentence(target: str) -> None:
    listing = constructs(target)
    reader = SassReader(listing, None, ISA, TEMPLATES)
    kinds = [(x, reader.sentence(x.n)) for x in listing.lines]
    assert sum(s is not None for _, s in kinds) > 200
    assert [x.text for x, s in kinds if (s is None) != (x.kind is not Kind.INSTRUCTION)] == []
    assert [s for _, s in kinds if s and re.search(r"\bR?Z\b|\{|reuse|\bU?PT\b", s)] == []


# -- one of each construct ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("@P0 LDG.E.128 R4, desc[UR4][R2.64]",
         "if P0: load 4 × 32 bits (16 bytes a thread) from global memory at R2:R3 into R4…R7"),
        ("@!UP3 UMOV UR4, 0x400", "unless UP3: set UR4 to 1024"),
        ("@!PT LDS RZ, [RZ]",
         "never (the guard is false): load 32 bits from shared memory at 0 (unused)"),
        ("LDG.E.U16 R6, desc[UR6][R6.64+-0x10]",
         "load 16 bits, unsigned, from global memory at R6:R7 − 16 into R6"),
        ("LDG.E R8, desc[UR4][R2.64+0x7f8]",
         "load 32 bits from global memory at R2:R3 + 2040 into R8"),
        ("LDS.U.64 R10, [R7.X8]",
         "load 2 × 32 bits (8 bytes a thread) from shared memory at R7 × 8 into R10:R11"),
        ("STS [UR12+0x8], RZ", "store 32 bits of zeros to shared memory at UR12 + 8"),
        ("LDL R2, [R12+-0x4]",
         "load 32 bits from local memory (the thread's stack) at R12 − 4 into R2"),
        ("IMAD.MOV.U32 R9, RZ, RZ, R6.reuse", "copy R6 into R9"),
        ("IMAD.MOV.U32 R8, RZ, RZ, RZ", "set R8 to 0"),
        ("IMAD.MOV R12, RZ, RZ, -R15", "R12 = -R15"),
        ("IMAD.SHL.U32 R0, R0, 0x4, RZ", "R0 = R0 × 4"),
        ("IMAD.IADD R16, R16, 0x1, -R23", "R16 = R16 − R23"),
        ("IMAD.WIDE R14, R182, 0x2, R28", "R14:R15 = R182 × 2 + R28:R29"),
        ("IMAD.HI.U32 R9, R9, R11, R8", "R9 = the upper 32 bits of (R9 × R11 + R8:R9)"),
        ("IADD3.X R9, R54, UR5, R45, P4, !PT", "R9 = R54 + UR5 + R45 + the carry in P4"),
        ("IADD3 RZ, P0, R3, R10, RZ", "P0 = the carry of R3 + R10"),
        ("IADD3 R5, P0, P1, R4, R5, R6", "R5 = R4 + R5 + R6; the carry into P0 and P1"),
        ("VIADD R12, R6, 0xffffffc0", "R12 = R6 − 64"),
        ("LEA R2, P0, R3, R0, 0x9", "R2 = R3 × 512 + R0; the carry into P0"),
        ("LEA.HI R40, R12, 0x70, RZ, 0x1d", "R40 = (R12 >> 3) + 112"),
        ("LEA.HI.SX32 R8, R24, R29, 0x1c", "R8 = (R24 >> 4, keeping the sign) + R29"),
        ("LEA.HI.X R7, R2, UR7, R3, 0x2, P2",
         "R7 = the upper 32 bits of (R2:R3 × 4) + UR7 + the carry in P2"),
        ("LOP3.LUT R0, R7, R6, RZ, 0x3c, !PT", "R0 = R7 ^ R6"),
        ("LOP3.LUT R0, R7, R6, RZ, 0x30, !PT", "R0 = R7 & ~R6"),
        ("LOP3.LUT R9, R11, 0x7f, RZ, 0xc0, !PT", "R9 = R11 & 0x7f (R11 modulo 128)"),
        ("LOP3.LUT P0, RZ, R4, 0x2, RZ, 0xc0, !PT",
         "unused: R4 & 2; P0 = whether it is not 0"),
        ("LOP3.LUT R3, R4, 0x80000000, R9, 0xb8, !PT",
         "R3 = 0x80000000 & R9 | ~0x80000000 & R4"),
        ("LOP3.LUT R3, RZ, R4, RZ, 0x33, !PT", "R3 = ~R4"),
        ("PLOP3.LUT P0, PT, P0, P1, PT, 0xa8, 0x0", "P0 = P0 or P1"),
        ("PLOP3.LUT P0, PT, !P0, P1, PT, 0x80, 0x0", "P0 = P1 and not P0"),
        ("SHF.R.U32.HI R7, RZ, 0x4, R7", "R7 = R7 >> 4"),
        ("SHF.R.S32.HI R36, RZ, 0x1f, R11", "R36 = the sign of R11 in all bits"),
        ("SHF.L.U32 R72, R72, 0x3, RZ", "R72 = R72 << 3 (× 8)"),
        ("SHF.L.U64.HI R9, R4, 0x2, R5", "R9 = the upper 32 bits of (R4:R5 << 2)"),
        ("PRMT R13, R10, 0x5410, R11",
         "R13 = the lower half of R10 below, the lower half of R11 above"),
        ("PRMT R2, R4, 0x7632, R5",
         "R2 = the upper half of R4 below, the upper half of R5 above"),
        ("PRMT R12, R4, 0x3201, R3",
         "R12 = bytes 1 of R4, 0 of R4, 2 of R4, 3 of R4 (lowest first)"),
        ("ISETP.GE.U32.AND P0, PT, R51, 0x71f, PT", "P0 = whether R51 ≥ 1823 (unsigned)"),
        ("ISETP.LT.AND P6, PT, R15.reuse, R2.reuse, !P0",
         "P6 = whether R15 < R2, and not P0 (signed)"),
        ("ISETP.NE.AND.EX P0, PT, R5, RZ, PT, P0",
         "P0 = whether R5 ≠ 0, with P0 of the lower halves"),
        ("FSETP.GEU.AND P2, PT, |R9|.reuse, 1.5, PT",
         "P2 = whether |R9| ≥ 1.5, or either is NaN (fp32)"),
        ("FSETP.NAN.AND P3, PT, R50, R50, PT", "P3 = whether R50 is NaN (fp32)"),
        ("FSEL R7, R7, -INF , !P2", "R7 = -infinity if P2, else R7"),
        ("FMNMX R24, R24, R11, !PT", "R24 = the maximum of R24 and R11 (fp32)"),
        ("IMNMX.U32 R2, R2, 0x2, PT", "R2 = the minimum of R2 and 2 (unsigned)"),
        ("VIADDMNMX.U32 R4, R0, R5, 0x2, PT", "R4 = the minimum of R0 + R5 and 2 (unsigned)"),
        ("FFMA.FTZ R7, R6, -2, R7", "R7 = R7 − R6 × 2 (fp32, subnormals as 0)"),
        ("FADD.FTZ R9, |R8|, -RZ", "R9 = |R8| (fp32, subnormals as 0)"),
        ("FADD.FTZ.SAT R55, RZ, R8", "R55 = R8 (fp32, subnormals as 0, clamped to 0…1)"),
        ("HFMA2.MMA R4, -RZ, RZ, 1.125, -9232", "set R4 to 0x3c80f082 (0.01573968 as fp32)"),
        ("MOV R34, 0x3e1cf906", "set R34 to 0x3e1cf906 (0.1532937 as fp32)"),
        ("MUFU.TANH R1, R2", "R1 = tanh(R2), approximately (fp32)"),
        ("MUFU.RCP64H R11, R15",
         "R11 = the upper half of 1 / x, of the upper half R15 of the fp64 x, approximately"),
        ("S2UR UR4, SR_CTAID.Y", "read the block's number in the grid, y into UR4"),
        ("CS2R R8, SRZ", "set R8:R9 to 0"),
        ("IMAD.HI R0, R7, -0x6db6db6d, R6",
         "R0 = the upper 32 bits of (R6:R7 − R7 × 0x6db6db6d)"),
        ("CS2R R4, SR_CLOCKLO", "read the SM's clock into R4:R5"),
        ("CS2R.32 R3, SR_CLOCKLO", "read the SM's clock, its lower 32 bits into R3"),
        ("R2UR UR16, R20", "copy R20, the same in all lanes, into UR16"),
        ("HMMA.16816.F32 R12, R4, R26, RZ",
         "multiply a 16×8×16 tile, fp16 in, fp32 accumulated, by a warp: "
         "R12…R15 = R4…R7 × R26:R27"),
        ("HMMA.1688.F32.TF32 R4, R8, R2, R4",
         "multiply a 16×8×8 tile, tf32 in, fp32 accumulated, by a warp: "
         "R4…R7 = R8…R11 × R2:R3, add R4…R7"),
        ("IMMA.16816.S8.S8 R16, R12.ROW, R16.COL, RZ",
         "multiply a 16×8×16 tile, signed 8-bit integer in, int32 accumulated, by a warp: "
         "R16…R19 = R12:R13 × R16"),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR12].tnspB, R24, gsb0",
         "multiply a 64×64×16 tile, fp16 in, fp32 accumulated, by a warp group: A and B in shared "
         "memory, added to what is there, in R24…R55 (B transposed); gsb0 tells when it is done"),
        ("HGMMA.64x128x16.F32.BF16 R24, R4, gdesc[UR8], !UPT",
         "multiply a 64×128×16 tile, bf16 in, fp32 accumulated, by a warp group: A in registers, B "
         "in shared memory, the product alone, in R24…R87"),
        ("UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR9], tmem[UR34], idesc[UR35], !UPT",
         "multiply a tile of fp16, bf16 or tf32 for the block (tcgen05.mma): gdesc[UR4] × "
         "gdesc[UR6] into tensor memory at tmem[UR9], the product alone; idesc[UR35] "
         "holds shape and types"),
        ("LDTM.x32 R4, tmem[UR27]",
         "load 32 registers a thread from tensor memory at UR27 into R4…R35"),
        ("LDSM.16.MT88.4 R48, [R13+UR7+0x200]",
         "load 4 matrices of 8×8 elements of 16 bits from shared memory at R13 + UR7 + 512 into "
         "R48…R51, a row a lane (ldmatrix) (transposed)"),
        ("LDGSTS.E.BYPASS.128 [R41+0x3000], desc[UR14][R30.64+0x80], P0",
         "copy 4 × 32 bits (16 bytes a thread) from global memory at R30:R31 + 128 to shared "
         "memory at R41 + 12288, asynchronously (cp.async) (past L1); zeros unless P0"),
        ("LDGDEPBAR", "close a group of asynchronous copies (cp.async.commit_group)"),
        ("DEPBAR.LE SB0, 0x2",
         "wait for scoreboard SB0 until no more than 2 of its operations are unfinished"),
        ("DEPBAR {5,4,3,2,1,0}", "wait for the scoreboards 0, 1, 2, 3, 4, 5"),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0",
         "wait for the matrix products of gsb0 until all its operations are done"),
        ("UTMALDG.2D [UR12], [UR24]",
         "copy a 2-dimensional tile of a tensor from global to shared memory, asynchronously "
         "(TMA): destination, mbarrier and coordinates from UR12 on, descriptor at UR24"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR10+0x18000], R6",
         "P0 = whether the phase R6 of the mbarrier at UR10 + 98304 is complete, after waiting a "
         "while"),
        ("SYNCS.ARRIVE.TRANS64 RZ, [UR7+0x18000], R4",
         "arrive at the mbarrier at UR7 + 98304 with R4"),
        ("BSSY.RECONVERGENT B0, `(.L_x_7)",
         "the threads that diverge from here meet again at .L_x_7 (B0)"),
        ("BSYNC B0", "wait here for the threads of B0 that diverged"),
        ("@P2 BRA `(.L_x_0)", "if P2: go to .L_x_0"),
        ("BRA.U !UP0, `(.L_x_3)", "go to .L_x_3, if not UP0"),
        ('BRX R2 -0x120 (*"BRANCH_TARGETS .L_x_3,.L_x_43"*)',
         "go to one of .L_x_3, .L_x_43, by R2"),
        ("RET.REL.NODEC R6 `(doubles)", "return from doubles to the address in R6"),
        ("CALL.REL.NOINC `($__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath)",
         "call $__internal_0_$__cuda_sm3x_div_rn_noftz_f32_slowpath (division)"),
        ("BAR.SYNC.DEFER_BLOCKING 0x1, 0x80", "wait for 128 threads at barrier 1"),
        ("BAR.ARV R0, 0x100", "arrive at the barrier in R0 without waiting (256 threads)"),
        ("SHFL.IDX PT, R2, R10, RZ, 0x1f", "R2 = R10 of lane 0"),
        ("SHFL.UP P0, R2, R10, 0x1, RZ",
         "R2 = R10 of the lane 1 below; P0 = whether that lane is in range"),
        ("VOTE.ANY R7, PT, P1", "R7 = the mask of the lanes where P1"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R3, desc[UR8][R8.64], R13",
         "atomically add R13 to global memory at R8:R9 (ordered for the GPU); the value before "
         "into R3"),
        ("ATOMS.POPC.INC.32 RZ, [R10+UR4]",
         "atomically add the number of active lanes to shared memory at R10 + UR4"),
        ("F2I.S64.F64.TRUNC R10, R6",
         "R10:R11 = R6:R7, from fp64 to signed 64-bit integer (rounded towards 0)"),
        ("DSETP.MIN.AND P0, P1, R8, R6, PT",
         "P0 = whether R8:R9 is the smaller of R8:R9 and R6:R7 (fp64), P1 = whether either is NaN"),
        ("FSWZADD.FTZ R0, R1, R2, NPNPNPNP",
         "R0 = R1 and R2 added with the lanes' signs NPNPNPNP (fp32)"),
        ("CREDUX.MIN.S32 UR4, R2", "UR4 = the minimum of R2 over all active lanes"),
        ("TMML R0, R2, 0x5, 0x3",
         "asks which levels of a texture's mip map would be sampled: R0, R2, 0x5, 0x3"),
    ],
)  # fmt: skip
def test_sentence(line: str, sentence: str) -> None:
    assert say(line) == sentence
