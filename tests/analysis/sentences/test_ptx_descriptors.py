"""Descriptors of tensor cores in sentences: values that CUTLASS and Triton encode."""

import pytest

from inspector.analysis.accesses import OpcodeLines, products
from inspector.analysis.sentences.products import described_products
from inspector.analysis.sentences.ptx import PtxReader
from inspector.base.model import Stage
from inspector.parsers import parse
from inspector.reader import tables

HEAD = """.version 9.0
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry f(.param .u64 f_param_0, .param .u32 f_param_1)
{
.reg .pred %p<9>;
.reg .b32 %r<99>;
.reg .b64 %rd<99>;
"""

# CUTLASS 4, cute/arch/mma_sm100_desc.hpp: make_instr_desc and make_instr_desc_block_scaled of these
# types, sizes, majors (K, or MN, which is transposed) and options.
INSTRUCTIONS = {
    ("f16", 138478736): "128×16 bf16 by 16×256 bf16, sums of 128×256 in f32, B transposed",
    ("f16", 67248128): "64×16 f16 by 16×8 f16, sums of 64×8 in f16, A negated",
    ("tf32", 270567696): "256×8 tf32 by 8×128 tf32, sums of 256×128 in f32, A transposed",
    ("f8f6f4", 135267344): "128×32 e4m3 by 32×64 e5m2, sums of 128×64 in f32",
    ("f8f6f4", 135287168): "128×32 e2m3 by 32×64 e3m2, sums of 128×64 in f16, B negated",
    ("i8", 134742188): "128×64 s8 by 64×32 u8, sums of 128×32 in s32, sums saturated",
    ("f16", 2182087824): "32×16 bf16 by 16×64 bf16, sums of 32×64 in f32, "
    "B shifted by at most 16 columns",
    ("mxf8f6f4", 682693808): "128×32 e5m2 by 32×192 e2m1, sums of 128×192 in f32, B transposed, "
    "scales of ue8m0, A's from byte 1, B's from byte 3",
    ("mxf4nvf4", 1346372736): "256×64 e2m1 by 64×256 e2m1, sums of 256×256 in f32, "
    "scales of ue4m3, A's from byte 2",
    ("mxf4", 143656068): "128×128 e2m1 by 128×64 e2m1, sums of 128×64 in f32, scales of ue8m0",
    ("mxf4", 2291139712): "128×96 e2m1 by 96×64 e2m1, sums of 128×64 in f32, scales of ue8m0",
    # Triton 3.9: tl.dot of f16 128×64 by 64×128, B's rows contiguous
    ("f16", 136380432): "128×16 f16 by 16×128 f16, sums of 128×128 in f32, B transposed",
}

# The same header and mma_sm90_desc.hpp, of SmemDescriptor and GmmaDescriptor.
MATRICES = {
    (
        "tcgen05",
        4611756662049538624,
    ): "at 9216, 128-byte swizzle, leading offset 16 bytes, stride offset 1,024 bytes",
    (
        "tcgen05",
        13837943242521313344,
    ): "at 1024, 32-byte swizzle, leading offset 2,048 bytes, stride offset 256 bytes, "
    "base offset 5",
    (
        "tcgen05",
        2310417115158414335,
    ): "at 16368, 128-byte swizzle of 32-byte atoms, next part at byte 32,768, "
    "stride offset 512 bytes",
    (
        "tcgen05",
        70437464178688,
    ): "at 0, no swizzle, leading offset 128 bytes, stride offset 256 bytes",
    (
        "wgmma",
        4611686293305360960,
    ): "at 9216, 128-byte swizzle, leading offset 16 bytes, stride offset 1,024 bytes",
    (
        "wgmma",
        9225061024170770435,
    ): "at 48, 64-byte swizzle, leading offset 4,096 bytes, stride offset 512 bytes, base offset 3",
    ("wgmma", 13835058124001640448): "at 0, 32-byte swizzle, stride offset 256 bytes",
    (
        "wgmma",
        68720001024,
    ): "at 0, no swizzle, leading offset 128 bytes, stride offset 256 bytes",
}

PRODUCTS = {
    "tcgen05": "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd1, %rd2, %r1, %p1;",
    "wgmma": "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r2, %r3, %r4, %r5}, "
    "%rd1, %rd2, %p1, 1, 1, 0, 0;",
}
SW128 = 0x4000404000000000
"""The upper half of Triton's: 128-byte swizzle, stride offset 1,024, the constant 0b001."""


def last_sentence(code: str) -> str:
    """What the last line of some code reads as."""
    listing = parse(Stage.PTX, f"{HEAD}{code}\nret;\n}}\n")
    reader = PtxReader(listing, listing.functions[0], tables.isa(), tables.ptx_templates())
    return reader.sentence(len(listing.lines) - 3) or ""


@pytest.mark.parametrize(("kind", "value"), INSTRUCTIONS)
def test_an_instruction_descriptor_reads_as_what_was_encoded(kind: str, value: int) -> None:
    scales = " [%r2], [%r3]," if kind.startswith("mx") else ""
    block = ".block_scale" if scales else ""
    product = f"tcgen05.mma.cta_group::1.kind::{kind}{block} [%r9], %rd1, %rd2, %r1,{scales} %p1;"
    text = last_sentence(f"mov.b32 %r1, {value};\n{product}")
    assert f"(as %r1 describes: {INSTRUCTIONS[kind, value]})" in text


def test_products_of_one_opcode_are_counted_by_their_descriptors() -> None:
    """The values are those of CUTLASS above, and one that the launch decides."""
    product = "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd1, %rd2, {}, %p1;\n"
    code = "mov.b32 %r1, 138478736;\nmov.b32 %r2, 67248128;\nld.param.u32 %r3, [f_param_1];\n"
    code += "".join(product.format(register) for register in ("%r1", "%r2", "%r1", "%r3"))
    listing = parse(Stage.PTX, f"{HEAD}{code}ret;\n}}\n")
    function = listing.functions[0]
    found = described_products(
        products(OpcodeLines(listing, function)),
        listing,
        function,
        tables.table("ptx_descriptors"),
    )
    assert [(p.shape, p.types, p.count) for p in found] == [
        ((128, 256, 16), ("f32", "bf16", "bf16"), 2),
        ((64, 8, 16), ("f16", "f16", "f16"), 1),
        (None, ("f16",), 1),
    ]


@pytest.mark.parametrize(("family", "value"), MATRICES)
def test_a_matrix_descriptor_reads_as_what_was_encoded(family: str, value: int) -> None:
    signed = value - (1 << 64) if value >> 63 else value  # as nvcc writes it
    text = last_sentence(f"mov.b64 %rd1, {signed};\n{PRODUCTS[family]}")
    assert text.endswith(f"; A: {MATRICES[family, value]}")


def test_an_address_that_is_only_known_by_name_is_the_matrix_place() -> None:
    """As nvcc and Triton encode one, whose address the driver chooses."""
    text = last_sentence(
        "mov.b32 %r10, dynamic;\nadd.s32 %r11, %r10, 49152;\nbfe.u32 %r12, %r11, 4, 15;\n"
        f"add.s32 %r13, %r12, 128;\nmov.b32 %r14, {SW128 >> 32};\nmov.b64 %rd1, {{%r13, %r14}};\n"
        "shr.u32 %r15, %r10, 4;\nand.b32 %r16, %r15, 16320;\ncvt.u64.u32 %rd3, %r16;\n"
        f"or.b64 %rd2, %rd3, {SW128};\n{PRODUCTS['tcgen05']}"
    )
    known = "128-byte swizzle, stride offset 1,024 bytes"
    assert text.endswith(f"; A: at dynamic + 51200, {known}; B: at dynamic, {known}")


def test_of_a_descriptor_whose_lower_half_changes_the_constant_half_is_read() -> None:
    text = last_sentence(
        f"mov.b32 %r14, {SW128 >> 32};\nmov.b64 %rd1, {{%r13, %r14}};\n{PRODUCTS['tcgen05']}"
    )
    assert text.endswith("; A: 128-byte swizzle, stride offset 1,024 bytes")
    assert "(as %r1 describes)" in text


def test_an_address_that_was_rounded_up_is_not_simplified() -> None:
    text = last_sentence(
        "mov.b32 %r10, dynamic;\nadd.s32 %r11, %r10, 1023;\nshr.u32 %r15, %r11, 4;\n"
        "and.b32 %r16, %r15, 16320;\ncvt.u64.u32 %rd3, %r16;\n"
        f"or.b64 %rd1, %rd3, {SW128};\n{PRODUCTS['tcgen05']}"
    )
    assert "dynamic + 1023," not in text
    assert "stride offset 1,024 bytes" in text


def test_bits_that_must_be_constant_are_said_where_they_are_not() -> None:
    text = last_sentence(f"mov.b64 %rd1, {2 << 61};\n{PRODUCTS['tcgen05']}")
    assert text.endswith("bits 46 to 48 are 0, which must be 1")


ALLOCATED = (
    "mov.b32 %r10, dynamic;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r10+16], 256;\n"
    "ld.shared.b32 %r11, [dynamic+16];\n"
)


def test_an_address_in_tensor_memory_is_a_lane_and_a_column_of_its_allocation() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r9];"
    text = last_sentence(
        f"{ALLOCATED}mov.u32 %r12, %tid.x;\nand.b32 %r13, %r12, 96;\nshl.b32 %r14, %r13, 16;\n"
        f"add.s32 %r15, %r11, %r14;\nadd.s32 %r9, %r15, 160;\n{load}"
    )
    assert "at %r9 (lane 32 × ⌊(thread mod 128) / 32⌋, column 160 of the allocation)" in text


def test_an_address_of_no_allocation_has_no_lane() -> None:
    load = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r9+4];"
    other = ALLOCATED.replace("[dynamic+16]", "[dynamic+24]")
    assert "lane" not in last_sentence(f"{other}add.s32 %r9, %r11, 160;\n{load}")


def test_the_columns_of_an_allocation_are_a_number() -> None:
    text = last_sentence(
        "mov.b32 %r1, 512;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [dynamic], %r1;"
    )
    assert text.startswith("take 512 (%r1) of the 512 columns of tensor memory")
