"""NaN, approximations, flushed and mixed-precision floats, by the PTX ISA's tables and an H200."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from inspector.execute import Program, approximations
from inspector.reader import tables
from tests.execute import programs
from tests.execute.programs import launch
from tests.gpu import edge_values
from tests.helpers.nightly import nightly

NAN, INF, MINUS_INF = 0x7FFFFFFF, 0x7F800000, 0xFF800000
PAYLOAD = 0xFFC00001
DOUBLE_INF = 0x7FF0000000000000
TABLE = edge_values.read_forms()


def run(opcode: str, operands: str, *sources: int) -> int:
    """The result's bits of one instruction on one set of operands."""
    return int(run_all(opcode, operands, [sources])[0])


def run_all(opcode: str, operands: str, rows: Sequence[tuple[int, ...]]) -> list[int]:
    """The results' bits of an instruction on several sets of operands."""
    result, _, kinds = operands.partition(" = ")
    registers = ", ".join(f"${k}" for k in range(len(kinds.split()) + 1))
    form = edge_values.Form(
        opcode, (result,), tuple(kinds.split()), f"$op {registers};", edge_values.LOWEST_SM
    )
    results = edge_values.run_here(edge_values.kernel(form, 100), np.array(rows, np.uint64))
    return [int(value) for value in results]


def single(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def from_double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


# -- NaN -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "operands", "sources"),
    [
        ("sub.rn.f32", "f32 = f32 f32", (INF, INF)),
        ("add.rz.f32", "f32 = f32 f32", (INF, MINUS_INF)),
        ("add.f32", "f32 = f32 f32", (PAYLOAD, 0)),
        ("add.ftz.f32", "f32 = f32 f32", (0, 0x7F800001)),
        ("mul.f32", "f32 = f32 f32", (0, INF)),
        ("div.rn.f32", "f32 = f32 f32", (0, 0)),
        ("div.full.f32", "f32 = f32 f32", (INF, INF)),
        ("fma.rn.f32", "f32 = f32 f32 f32", (INF, 0, 0)),
        ("fma.rm.f32", "f32 = f32 f32 f32", (0, 0, PAYLOAD)),
        ("sqrt.rn.f32", "f32 = f32", (0xBF800000,)),
        ("sqrt.approx.f32", "f32 = f32", (0xBF800000,)),
        ("rsqrt.approx.ftz.f32", "f32 = f32", (MINUS_INF,)),
        ("rcp.approx.f32", "f32 = f32", (PAYLOAD,)),
        ("lg2.approx.f32", "f32 = f32", (0xBF800000,)),
        ("ex2.approx.ftz.f32", "f32 = f32", (PAYLOAD,)),
        ("sin.approx.f32", "f32 = f32", (INF,)),
        ("cos.approx.f32", "f32 = f32", (MINUS_INF,)),
        ("tanh.approx.f32", "f32 = f32", (PAYLOAD,)),
        ("abs.f32", "f32 = f32", (PAYLOAD,)),
        ("neg.f32", "f32 = f32", (PAYLOAD,)),
        ("max.f32", "f32 = f32 f32", (PAYLOAD, 0x7F800001)),
        ("min.NaN.f32", "f32 = f32 f32", (PAYLOAD, 0)),
        ("max.NaN.xorsign.abs.f32", "f32 = f32 f32", (PAYLOAD, 0)),
        ("cvt.rni.f32.f32", "f32 = f32", (PAYLOAD,)),
        ("cvt.f32.f16", "f32 = f16", (0xFE01,)),
        ("add.rn.f32.bf16", "f32 = bf16 f32", (0xFFC1, 0)),
    ],
)
def test_arithmetic_on_singles_gives_one_nan(
    opcode: str, operands: str, sources: tuple[int, ...]
) -> None:
    assert run(opcode, operands, *sources) == NAN


def test_arithmetic_on_pairs_of_singles_gives_one_nan_in_each_half() -> None:
    both = INF | 0x3F800000 << 32
    assert run("sub.rn.f32x2", "f32x2 = f32x2 f32x2", both, both) == NAN
    assert run("add.rn.f32x2", "f32x2 = f32x2 f32x2", PAYLOAD << 32, 0) == NAN << 32


@pytest.mark.parametrize(
    ("opcode", "operands", "sources", "wanted"),
    [
        ("mov.f32", "f32 = f32", (PAYLOAD,), PAYLOAD),
        ("selp.f32", "f32 = f32 f32 pred", (PAYLOAD, 0, 1), PAYLOAD),
        ("copysign.f32", "f32 = f32 f32", (0, PAYLOAD), 0x7FC00001),
        ("cvt.f32.bf16", "f32 = bf16", (0xFFC1,), 0xFFC10000),
        ("max.f32", "f32 = f32 f32", (PAYLOAD, 0xBF800000), 0xBF800000),
        ("min.f32", "f32 = f32 f32", (0x3F800000, PAYLOAD), 0x3F800000),
        ("add.sat.f32", "f32 = f32 f32", (PAYLOAD, 0), 0),
    ],
)
def test_moved_bits_and_the_other_operand_stay(
    opcode: str, operands: str, sources: tuple[int, ...], wanted: int
) -> None:
    assert run(opcode, operands, *sources) == wanted


QUIET, NEGATIVE_QUIET, SIGNALLING = 0x7FF8000000000123, 0xFFF8000000000456, 0x7FF0000000000789
QUIETENED = SIGNALLING | 1 << 51
DEFAULT_NAN, ONE = 0xFFF8000000000000, 0x3FF0000000000000


@pytest.mark.parametrize(
    ("opcode", "sources", "wanted"),
    [
        ("add.f64", (QUIET, ONE), QUIET),
        ("add.f64", (QUIET, NEGATIVE_QUIET), NEGATIVE_QUIET),
        ("add.rm.f64", (QUIET, SIGNALLING), QUIETENED),
        ("sub.rp.f64", (ONE, NEGATIVE_QUIET), NEGATIVE_QUIET),
        ("mul.f64", (SIGNALLING, QUIET), QUIET),
        ("div.rn.f64", (SIGNALLING, QUIET), QUIETENED),
        ("fma.rn.f64", (QUIET, NEGATIVE_QUIET, SIGNALLING), NEGATIVE_QUIET),
        ("fma.rn.f64", (QUIET, ONE, SIGNALLING), QUIETENED),
        ("mad.rz.f64", (0, DOUBLE_INF, QUIET), QUIET),
        ("fma.rn.f64", (0, DOUBLE_INF, ONE), DEFAULT_NAN),
        ("abs.f64", (NEGATIVE_QUIET,), NEGATIVE_QUIET),
        ("neg.f64", (QUIET,), QUIET),
        ("sqrt.rn.f64", (SIGNALLING,), QUIETENED),
        ("min.f64", (SIGNALLING, ONE), ONE),
        ("max.f64", (QUIET, SIGNALLING), QUIETENED),
    ],
)
def test_a_nan_of_double_precision_passes_quiet_with_its_sign(
    opcode: str, sources: tuple[int, ...], wanted: int
) -> None:
    assert run(opcode, "f64 = " + "f64 " * len(sources), *sources) == wanted


@pytest.mark.parametrize(
    ("opcode", "operands", "source", "wanted"),
    [
        ("cvt.rn.f32.f64", "f32 = f64", 0xFFF8000012345678, 0xFFC00000),
        ("cvt.rz.f32.f64", "f32 = f64", 0x7FF0000020000000, 0x7FC00001),
        ("cvt.rn.ftz.f32.f64", "f32 = f64", 0x7FF0000000000001, 0x7FC00000),
        ("cvt.rn.sat.f32.f64", "f32 = f64", 0x7FF0000000000001, 0),
        ("cvt.rn.f16.f64", "f16 = f64", 0xFFF0040000000000, 0xFE01),
        ("cvt.rp.bf16.f64", "bf16 = f64", 0x7FF0200000000000, 0x7FC1),
        ("cvt.f64.f32", "f64 = f32", 0xFF812345, 0xFFF82468A0000000),
        ("cvt.ftz.f64.f32", "f64 = f32", 0xFF812345, 0x7FFFFFFFE0000000),
    ],
)
def test_a_nan_converted_from_or_to_double_precision(
    opcode: str, operands: str, source: int, wanted: int
) -> None:
    """Of single precision a conversion that flushes subnormal numbers makes the one NaN first."""
    assert run(opcode, operands, source) == wanted


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_arithmetic_on_halves_gives_one_nan(kind: str) -> None:
    infinity = 0x7C00 if kind == "f16" else 0x7F80
    assert run(f"sub.rn.{kind}", f"{kind} = {kind} {kind}", infinity, infinity) == 0x7FFF
    assert run(f"neg.{kind}", f"{kind} = {kind}", infinity | 1) == 0x7FFF
    assert run(f"abs.{kind}", f"{kind} = {kind}", 0x8000 | infinity | 1) == 0x7FFF
    assert run(f"neg.{kind}", f"{kind} = {kind}", infinity) == 0x8000 | infinity


def test_conversions_to_tf32_of_nan() -> None:
    """``rna`` is made of integer instructions, which cut off the lowest 13 bits."""
    for way in ("rn", "rz"):
        assert run(f"cvt.{way}.tf32.f32", "tf32 = f32", PAYLOAD) == 0x7FFFE000
    assert run("cvt.rna.tf32.f32", "tf32 = f32", NAN) == 0x7FFFE000
    assert run("cvt.rna.tf32.f32", "tf32 = f32", PAYLOAD) == 0xFFC00000


@pytest.mark.parametrize("cc", [nightly(80), 90])
def test_matrix_products_give_one_nan(cc: int) -> None:
    made = programs.matmul("fp32", cc)
    a, b = np.ones((64, 32), np.float32), np.ones((32, 64), np.float32)
    a[3, 5] = np.inf
    a[3, 6] = -np.inf
    out = np.zeros((64, 64), np.float32)
    launch(made.ptx, (1,), made.threads, [a, b, out, 64, 64, 32, 32, 64, 64], shared=made.shared)
    assert (out.view(np.uint32)[3] == NAN).all()
    assert (np.delete(out, 3, 0) == 32).all()


ATOMIC = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry add_all(.param .b64 a)
{
.reg .b64 %d<2>;
.reg .b32 %r<9>;
ld.param.b64 %d0, [a];
atom.global.add.f32 %r1, [%d0], 0f7F800000;
atom.global.add.f32 %r2, [%d0], 0fFF800000;
atom.global.add.f32 %r3, [%d0], 0f3F800000;
st.global.b32 [%d0+4], %r1;
st.global.b32 [%d0+8], %r3;
ret;
}
"""


@pytest.mark.parametrize("threads", [1, 64])
def test_atomic_sums_give_one_nan(threads: int) -> None:
    memory = np.zeros(3, np.uint32)
    launch(ATOMIC, (1,), threads, [memory])
    assert memory[0] == NAN
    assert memory[2] == NAN


# -- approximations --------------------------------------------------------------------------------


def test_rsqrt_of_doubles_has_all_bits() -> None:
    """Also of subnormal numbers; the coarse form is another instruction."""
    values = [2.0, 3.0, 5.0, 1e300, 1e-300, 5e-324]
    given = [(double(v),) for v in values]
    results = run_all("rsqrt.approx.f64", "f64 = f64", given)
    for value, bits in zip(values, results, strict=True):
        assert from_double(bits) == pytest.approx(value**-0.5, rel=2.0**-52)
    edges = run_all("rsqrt.approx.f64", "f64 = f64", [(0,), (1 << 63,), (DOUBLE_INF,)])
    assert edges == [DOUBLE_INF, 1 << 63 | DOUBLE_INF, 0]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (1 << 63 | DOUBLE_INF, 1 << 63),
        (0x800FFFFFFFFFFFFF, 1 << 63 | DOUBLE_INF),
        (1 << 63, 1 << 63 | DOUBLE_INF),
        (0, DOUBLE_INF),
        (1, DOUBLE_INF),
        (DOUBLE_INF, 0),
        (0xFFF8000012345678, 0x7FFFFFFF00000000),
        (0x7FF0000000000001, 0),
        (0x4000000012345678, 0x3FE0000000000000),
        (0x7FE0000000000000, 0),
    ],
)
def test_coarse_reciprocals_look_at_the_upper_word(given: int, wanted: int) -> None:
    assert run("rcp.approx.ftz.f64", "f64 = f64", given) == wanted


def test_rsqrt_approx_ftz_f64_is_as_coarse_as_the_isa_says() -> None:
    rows = [(1 << 63,), (double(-1.0),), (1,), (double(3.0),)]
    zero, negative, subnormal, three = run_all("rsqrt.approx.ftz.f64", "f64 = f64", rows)
    assert zero == 1 << 63 | DOUBLE_INF
    assert negative == 0x7FFFFFFF00000000
    assert subnormal == DOUBLE_INF
    assert three & 0xFFFFFFFF == 0
    assert from_double(three) == pytest.approx(3**-0.5, rel=2.0**-19)


def test_approximate_division_by_what_has_no_normal_reciprocal() -> None:
    huge, pair = single(2.0**127), "f32 = f32 f32"
    assert run("div.approx.f32", pair, single(-1.0), huge) == 0x80000000
    assert run("div.approx.f32", pair, INF, huge) == NAN
    assert run("div.approx.f32", pair, INF, single(2.0**126)) == INF
    assert run("div.full.f32", pair, single(2.0**127), huge) == single(1.0)
    assert run("div.full.f32", pair, INF, huge) == INF


def test_both_forms_of_approximate_doubles_say_how_far_they_may_be_off() -> None:
    table = tables.table("approximate")
    bounds = []
    for opcode in ("rsqrt.approx.f64", "rsqrt.approx.ftz.f64"):
        form = edge_values.Form(opcode, ("f64",), ("f64",), "$op $0, $1;", 90)
        program = Program(edge_values.kernel(form, 90))
        bounds.append(approximations(program, table)[0].bound)
    assert bounds[0] == "within 1 unit in the last place"
    assert "lower 32 bits are 0" in bounds[1]


# -- subnormal numbers, directions and greatest numbers --------------------------------------------


@pytest.mark.parametrize(
    ("opcode", "operands", "sources", "wanted"),
    [
        ("add.ftz.f16", "f16 = f16 f16", (0x03FF, 0), 0),
        ("add.ftz.f16", "f16 = f16 f16", (0x83FF, 0x8000), 0x8000),
        ("mul.ftz.f16", "f16 = f16 f16", (0x8400, 0x3800), 0x8000),
        ("mul.f16", "f16 = f16 f16", (0x8400, 0x3800), 0x8200),
        ("fma.rn.ftz.f16x2", "f16x2 = f16x2 f16x2 f16x2", (0x00013C00, 0x3C003C00, 0), 0x3C00),
        ("setp.eq.ftz.f16", "pred = f16 f16", (1, 0), 1),
        ("setp.eq.f16", "pred = f16 f16", (1, 0), 0),
        ("ex2.approx.ftz.bf16", "bf16 = bf16", (0xC302,), 0),
        ("cvt.ftz.f32.f16", "f32 = f16", (1,), single(2.0**-24)),
        ("add.ftz.f32", "f32 = f32 f32", (0x807FFFFF, 0x80000000), 0x80000000),
    ],
)
def test_subnormal_numbers_are_flushed_where_the_opcode_says_so(
    opcode: str, operands: str, sources: tuple[int, ...], wanted: int
) -> None:
    assert run(opcode, operands, *sources) == wanted


LEAST, BELOW_ONE, ABOVE_ONE = 0x00800000, 0x3F7FFFFF, 0x3F800001


@pytest.mark.parametrize(
    ("opcode", "operands", "sources", "wanted"),
    [
        ("mul.rn.ftz.f32", "f32 = f32 f32", (LEAST, BELOW_ONE), 0),
        ("mul.rn.f32", "f32 = f32 f32", (LEAST, BELOW_ONE), LEAST),
        ("mul.ftz.sat.f32", "f32 = f32 f32", (0x00FFFFFF, 0x3F000000), 0),
        ("mul.rn.ftz.f32x2", "f32x2 = f32x2 f32x2", (LEAST, BELOW_ONE), 0),
        ("fma.rn.ftz.f32", "f32 = f32 f32 f32", (LEAST, 0x33000001, 1 << 31 | LEAST), 1 << 31),
        # Rounded to 24 bits, this is the least normal number.
        (
            "fma.rn.ftz.f32",
            "f32 = f32 f32 f32",
            (LEAST, 0x33000000, 1 << 31 | LEAST),
            1 << 31 | LEAST,
        ),
        ("mad.rp.ftz.f32", "f32 = f32 f32 f32", (LEAST, BELOW_ONE, 0), 0),
        ("div.rp.ftz.f32", "f32 = f32 f32", (LEAST, ABOVE_ONE), 0),
        ("div.rp.ftz.f32", "f32 = f32 f32", (LEAST, single(1.0)), LEAST),
        ("rcp.rp.ftz.f32", "f32 = f32", (0x7E800001,), 0),
        ("rcp.rp.f32", "f32 = f32", (0x7E800001,), LEAST),
        ("cvt.rp.ftz.f32.f64", "f32 = f64", (0x380FFFFFE0000000,), 0),
        ("cvt.rp.f32.f64", "f32 = f64", (0x380FFFFFE0000000,), LEAST),
        ("mul.ftz.f16", "f16 = f16 f16", (0x8400, 0x3BFF), 0x8000),
        ("fma.rn.ftz.f16", "f16 = f16 f16 f16", (0x0400, 0x0400, 0x8400), 0x8400),
        ("fma.rn.ftz.f16x2", "f16x2 = f16x2 f16x2 f16x2", (0x8400, 0x0400, 0x0400), 0x0400),
    ],
)
def test_a_result_is_flushed_that_has_a_lower_exponent_when_rounded_to_as_many_bits(
    opcode: str, operands: str, sources: tuple[int, ...], wanted: int
) -> None:
    assert run(opcode, operands, *sources) == wanted


ATOMIC_SPACES = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry add_all(.param .b64 a)
{
.shared .align 4 .b32 word;
.reg .b64 %d<4>;
.reg .b32 %r<9>;
.reg .pred %p<2>;
ld.param.b64 %d0, [a];
atom.global.add.f32 %r1, [%d0], 0f00400000;
red.add.f32 [%d0+4], 0f00400000;
mov.u32 %r2, %tid.x;
setp.ne.u32 %p0, %r2, 0;
@%p0 bra DONE;
st.global.b32 [%d0+12], %r1;
st.shared.b32 [word], 1;
atom.shared.add.f32 %r3, [word], 0f00000001;
mov.u64 %d1, word;
cvta.shared.u64 %d2, %d1;
atom.add.f32 %r4, [%d2], 0f00000001;
ld.shared.b32 %r5, [word];
st.global.b32 [%d0+8], %r5;
DONE: ret;
}
"""


@pytest.mark.parametrize("threads", [1, 64])
def test_atomic_sums_flush_subnormal_numbers_in_global_memory_alone(threads: int) -> None:
    memory = np.array([1, 1 << 31 | 0x00C00000, 0, 0], np.uint32)
    launch(ATOMIC_SPACES, (1,), threads, [memory])
    assert list(memory) == [0, 1 << 31 | 0x00C00000, 3, 1]


@pytest.mark.parametrize("threads", [1, 64])
def test_atomic_sums_that_become_subnormal_are_zeros(threads: int) -> None:
    """The first thread's sum is subnormal, so that the others add to 0."""
    text = ATOMIC_SPACES.replace("0f00400000", "0f00800000")
    memory = np.array([1 << 31 | 0x00C00000, 0, 0, 0], np.uint32)
    launch(text, (1,), threads, [memory])
    left = single((threads - 1) * 2.0**-126) if threads > 1 else 1 << 31
    assert memory[0] == left
    assert memory[3] == 1 << 31 | 0x00C00000


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize(
    ("kind", "one", "step"), [("f16", 0x3C00, 2**-12), ("bf16", 0x3F80, 2**-9)]
)
def test_halves_are_rounded_in_each_direction(kind: str, one: int, step: float, sign: int) -> None:
    given = single(1 + step) | sign << 31
    away = {"rn": 0, "rz": 0, "rm": sign, "rp": 1 - sign}
    for way, steps in away.items():
        wanted = (one + steps) | sign << 15
        assert run(f"cvt.{way}.{kind}.f32", f"{kind} = f32", given) == wanted
        assert run(f"cvt.{way}.{kind}.f32", f"{kind} = f32", single(1.0)) == one


def test_64_bit_integers_are_rounded_once_to_bf16() -> None:
    """Just above a tie, which double precision would make one."""
    assert run("cvt.rn.bf16.u64", "bf16 = b64", 0x8080000000000001) == 0x5F01
    assert run("cvt.rn.bf16.u64", "bf16 = b64", 0x8080000000000000) == 0x5F00


@pytest.mark.parametrize(
    ("opcode", "operands", "greatest", "nan"),
    [
        ("cvt.rn.satfinite.f16.f32", "f16 = f32", 0x7BFF, 0x7FFF),
        ("cvt.rn.satfinite.bf16.f32", "bf16 = f32", 0x7F7F, 0x7FFF),
        ("cvt.rz.satfinite.tf32.f32", "tf32 = f32", 0x7F7FE000, 0x7FFFE000),
        ("cvt.rna.satfinite.tf32.f32", "tf32 = f32", 0x7F7FE000, 0x7FFFC000),
    ],
)
def test_infinities_are_the_greatest_number_where_the_opcode_says_so(
    opcode: str, operands: str, greatest: int, nan: int
) -> None:
    sign = 1 << 31 if "tf32" in opcode else 1 << 15
    rows = [(INF,), (MINUS_INF,), (0x7F7FFFFF,), (NAN,)]
    assert run_all(opcode, operands, rows) == [greatest, greatest | sign, greatest, nan]


# -- mixed precision -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("way", ["rn", "rz", "rm", "rp", "rn.sat", "rm.sat"])
@pytest.mark.parametrize("base", ["add", "sub", "fma"])
def test_mixed_precision_widens_exactly_and_rounds_once(base: str, way: str, kind: str) -> None:
    """On edge values, as the form of singles gives after a conversion."""
    halves, singles = TABLE.values[kind], TABLE.values["f32"]
    wide = run_all(f"cvt.f32.{kind}", f"f32 = {kind}", [(h,) for h in halves])
    factor = 7
    narrow_rows: list[tuple[int, ...]] = []
    wide_rows: list[tuple[int, ...]] = []
    for k, half in enumerate(halves):
        other = (k + factor) % len(halves)
        for value in singles:
            narrow_rows.append((half, halves[other], value) if base == "fma" else (half, value))
            wide_rows.append((wide[k], wide[other], value) if base == "fma" else (wide[k], value))
    narrow = f"{kind} {kind}" if base == "fma" else kind
    singles_of = "f32 f32" if base == "fma" else "f32"
    mixed = run_all(f"{base}.{way}.f32.{kind}", f"f32 = {narrow} f32", narrow_rows)
    assert mixed == run_all(f"{base}.{way}.f32", f"f32 = {singles_of} f32", wide_rows)


def test_mixed_precision_subtracts_the_single() -> None:
    assert run("sub.f32.bf16", "f32 = bf16 f32", 0x4040, single(1.0)) == single(2.0)


# -- the forms that a GPU is compared on -----------------------------------------------------------


def test_every_form_that_a_gpu_is_compared_on_can_be_run_here() -> None:
    refused = [
        form.name
        for form in TABLE.forms
        if Program(edge_values.kernel(form, max(form.sm, edge_values.LOWEST_SM))).cannot()
    ]
    assert len(TABLE.forms) > 600
    assert not refused


@pytest.mark.parametrize(
    ("opcode", "given", "here", "there", "allowed"),
    [
        ("sqrt.rn.f32", 0x40000000, 0x3F800000, 0x3F800001, False),
        ("rcp.approx.ftz.f32", 0x40000000, 0x3F800000, 0x3F800001, True),
        ("rcp.approx.ftz.f32", 0x40000000, 0x3F800000, 0x3F800009, False),
        ("rcp.approx.f32", 0x40000000, 0, 0x80000000, False),
        ("rcp.approx.f32", 0x40000000, NAN, 0xFFC00000, False),
        ("sin.approx.f32", 0x40000000, 0x3F000000, 0x3F001000, False),
        ("sin.approx.f32", 0x50000000, 0x3F000000, 0x3F001000, True),
        ("sin.approx.f32", 0x40490FDB, 0xB3BBBD2E, 0, True),
        ("sin.approx.f32", 0x40490FDB, 0xB6000000, 0, False),
        ("sin.approx.f32", 0x80000000, 0x80000000, 0, False),
        ("ex2.approx.f32", 0x40000000, INF, 0x7F7FFFFF, False),
    ],
)
def test_a_gpu_may_differ_only_within_the_bound_of_an_approximation(
    opcode: str, given: int, here: int, there: int, allowed: bool
) -> None:
    form = next(f for f in TABLE.forms if f.opcode == opcode)
    words, ours, theirs = (np.array(x, np.uint64) for x in ([[given]], [here], [there]))
    outcome = edge_values.compare(form, words, ours, theirs, tables.table("approximate"))
    assert list(outcome.different) == [0]
    assert list(outcome.forbidden) == ([] if allowed else [0])
