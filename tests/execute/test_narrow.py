"""Floats of 8, 6 and 4 bits, their scales and block-scaled products of sm_120a.

Values are decoded here by the definition of each format (OCP Microscaling Formats 1.0), as
fractions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inspector.execute import Program
from tests.execute import programs
from tests.execute.folding import assembled
from tests.execute.programs import Array, from_bfloat16, launch

HEAD = ".version 9.2\n.target sm_120a\n.address_size 64\n"
Value = Fraction | float
"""A number; infinities and NaN are floats."""
NAN = float("nan")
BITS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
"""Bits of exponent and mantissa, below a sign."""
KINDS = tuple(BITS)


@cache
def decode(kind: str, code: int) -> Value:
    """The value of a code by the format's definition."""
    if kind == "ue8m0":
        return NAN if code == 255 else Fraction(2) ** (code - 127)
    if kind == "s2f6":
        return Fraction(code - 256 * (code > 127), 64)
    if kind == "ue4m3":
        return decode("e4m3", code & 127)
    exponent_bits, mantissa_bits = BITS[kind]
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1 if code >> (exponent_bits + mantissa_bits) & 1 else 1
    if kind == "e4m3" and exponent == 15 and mantissa == 7:
        return NAN
    if kind == "e5m2" and exponent == 31:
        return NAN if mantissa else sign * float("inf")
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = Fraction(mantissa, 1 << mantissa_bits)
    if exponent == 0:
        return sign * fraction * Fraction(2) ** (1 - bias)
    return sign * (1 + fraction) * Fraction(2) ** (exponent - bias)


def codes(kind: str) -> int:
    """How many codes a format has."""
    return 256 if kind in ("ue8m0", "s2f6") else 1 << (1 + sum(BITS[kind]))


@cache
def finite_numbers(kind: str, negative: bool) -> dict[int, float]:
    """A format's numbers of a sign by their codes; s2f6 has one zero, so all of its numbers."""
    count = codes(kind)
    half = count // 2 if negative else 0
    chosen = range(count) if kind == "s2f6" else range(half, half + count // 2)
    numbers = {code: float(decode(kind, code)) for code in chosen}
    return {code: number for code, number in numbers.items() if abs(number) < float("inf")}


@cache
def nearest(kind: str, value: float, sign: bool, relu: bool = False) -> int:
    """The code of the number next to a value: even at a tie, the greatest beyond it or of NaN."""
    if value != value:
        return 127 if codes(kind) == 256 else codes(kind) // 2 - 1
    if relu and sign:
        return 0
    numbers = finite_numbers(kind, sign)
    inside = min(max(value, min(numbers.values())), max(numbers.values()))
    return min(numbers, key=lambda code: (abs(numbers[code] - inside), code & 1))


BLOCK = 128


# -- conversions -----------------------------------------------------------------------------------


def register(kind: str, number: int) -> str:
    letter = {"e2m1x2": "%c", "f32": "%f", "f16x2": "%r", "bf16x2": "%r"}.get(kind, "%h")
    return f"{letter}{number}"


def conversion(opcode: str, to: str, source: str, scaled: bool) -> str:
    """A kernel that converts each thread's pair: words in, three a thread; words out, one."""
    load = {"f32": "", "e2m1x2": "cvt.u8.u32 %c2, %r2;", "f16x2": "", "bf16x2": ""}
    store = {"e2m1x2": "cvt.u32.u8 %r1, %c1;", "f16x2": "", "bf16x2": ""}
    sources = "%f3, %f2" if source == "f32" else register(source, 2)
    return f"""{HEAD}.visible .entry convert(.param .b64 a, .param .b64 b)
{{
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>; .reg .b8 %c<9>;
ld.param.b64 %d0, [a]; ld.param.b64 %d1, [b]; mov.u32 %r0, %tid.x; mov.u32 %r5, %ctaid.x;
mad.lo.u32 %r0, %r5, {BLOCK}, %r0;
mad.wide.u32 %d2, %r0, 12, %d0; mad.wide.u32 %d3, %r0, 4, %d1;
ld.global.b32 %r2, [%d2]; ld.global.b32 %r3, [%d2+4]; ld.global.b32 %r4, [%d2+8];
mov.b32 %f2, %r2; mov.b32 %f3, %r3; cvt.u16.u32 %h5, %r4;
{load.get(source, "cvt.u16.u32 %h2, %r2;")}
{opcode} {register(to, 1)}, {sources}{", %h5" if scaled else ""};
{store.get(to, "cvt.u32.u16 %r1, %h1;")}
st.global.b32 [%d3], %r1;
ret;
}}
"""


def convert(opcode: str, rows: list[tuple[int, int, int]]) -> list[int]:
    """The results of an opcode on pairs of words and scales."""
    *_, to, source = opcode.split(".")
    blocks = -(-len(rows) // BLOCK)
    words: Array = np.zeros((blocks * BLOCK, 3), np.uint32)
    words[: len(rows)] = rows
    out = np.zeros(blocks * BLOCK, np.uint32)
    text = conversion(opcode, to, source, "scaled" in opcode)
    launch(text, (blocks,), BLOCK, [words, out])
    return out[: len(rows)].tolist()


PAIRS = [f"{kind}x2" for kind in (*KINDS, "ue8m0", "s2f6")]
SCALED = ".scaled::n2::ue8m0"
TO_HALVES = ("f16x2", "bf16x2", f"{SCALED[1:]}.bf16x2")
WIDENING = [
    f"cvt.rn{relu}.{to}.{pair}"
    for pair in PAIRS[:5]
    for to in TO_HALVES
    for relu in ("", ".relu", ".satfinite")
    if relu != ".satfinite" or to != "f16x2"
]
WIDENING += ["cvt.rn.bf16x2.ue8m0x2", "cvt.rn.bf16x2.s2f6x2"]
WIDENING += [f"cvt.rn.satfinite.relu{SCALED}.bf16x2.s2f6x2"]
NARROWING = [
    f"cvt.rn.satfinite{relu}.{pair}.{source}"
    for pair in (*PAIRS[:5], "s2f6x2")
    for relu in ("", ".relu")
    for source in ("f32", "f16x2", "bf16x2")
    if (pair, source) != ("s2f6x2", "f16x2")
]
NARROWING += [f"cvt.rn.satfinite{SCALED}.s2f6x2.{source}" for source in ("f32", "bf16x2")]
TO_SCALES = [
    f"cvt.{way}{finite}.ue8m0x2.{source}"
    for way in ("rz", "rp")
    for finite in ("", ".satfinite")
    for source in ("f32", "bf16x2")
]
OPCODES = (*WIDENING, *NARROWING, *TO_SCALES)
GREATEST = 3.3895313892515355e38
"""The greatest number of bf16."""


@pytest.mark.parametrize("opcode", WIDENING)
def test_every_code_is_widened_to_its_value(opcode: str) -> None:
    """Also times each of some scales: the least, the greatest, NaN."""
    *words, to, source = opcode.split(".")
    kind = source[:-2]
    shift = 4 if kind == "e2m1" else 8
    scales = (0, 100, 127, 140, 254, 255) if "scaled" in opcode else (127,)
    count = codes(kind)
    rows = [(c | (count - 1 - c) << shift, 0, s | 127 << 8) for c in range(count) for s in scales]
    wrong = []
    for row, result in zip(rows, convert(opcode, rows), strict=True):
        pair = (row[0] & (count - 1), row[0] >> shift)
        for k, (code, scale) in enumerate(zip(pair, (row[2] & 255, row[2] >> 8), strict=True)):
            exact = decode(kind, code) * decode("ue8m0", scale)
            wanted = float(exact)
            if "relu" in words:
                wanted = wanted if wanted != wanted else max(wanted, 0.0)
            if "satfinite" in words:
                wanted = wanted if wanted != wanted else min(max(wanted, -GREATEST), GREATEST)
            bits = np.array([result >> 16 * k], np.uint32).astype(np.uint16)
            number = bits.view(np.float16) if to == "f16x2" else from_bfloat16(bits)
            with np.errstate(over="ignore"):
                rounded = np.array([wanted], np.float32)
            if to == "bf16x2":
                rounded = from_bfloat16(programs.bfloat16(rounded))
            if bits[0] != 0x7FFF if wanted != wanted else number[0] != rounded[0]:
                wrong.append((row, k, number[0], wanted))
    assert not wrong


def some_values(kind: str) -> Array:
    """Numbers of a format, those between two of them, and singles beside both and beyond."""
    numbers = {float(decode(kind, code)) for code in range(codes(kind))}
    positive = sorted(n for n in numbers if 0 <= n < float("inf"))
    middles = [(a + b) / 2 for a, b in pairwise(positive)]
    exact = np.array([*positive, *middles, 2 * positive[-1]], np.float32)
    beside = [np.nextafter(exact, np.float32(way)) for way in (-np.inf, np.inf)]
    edges = np.array([1e-45, 1e-30, 3e38, np.inf, np.nan], np.float32)
    values = np.concatenate([exact, *beside, edges])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("opcode", NARROWING)
def test_what_is_narrowed_is_the_nearest_number(opcode: str) -> None:
    *words, to, source = opcode.split(".")
    kind = to[:-2]
    values = some_values(kind)
    if source == "f16x2":
        values = values.astype(np.float16).astype(np.float32)
    elif source == "bf16x2":
        values = from_bfloat16(programs.bfloat16(values))
    others = np.roll(values, 7)
    scale = 129 if "scaled" in opcode else 127
    if source == "f32":
        words_in = zip(values.view(np.uint32), others.view(np.uint32), strict=True)
    else:
        to_half = programs.bfloat16 if source == "bf16x2" else lambda x: x.astype(np.float16)
        low, high = (to_half(x).view(np.uint16).astype(np.uint32) for x in (values, others))
        words_in = zip(low | high << 16, np.zeros_like(low), strict=True)
    rows = [(int(a), int(b), scale | scale << 8) for a, b in words_in]
    results = convert(opcode, rows)
    wrong = []
    for first, second, result in zip(values, others, results, strict=True):
        relu = "relu" in words
        codes_of = [
            nearest(kind, float(x) / 2.0 ** (scale - 127), bool(np.signbit(x)), relu)
            for x in (first, second)
        ]
        wanted = codes_of[0] | codes_of[1] << (4 if kind == "e2m1" else 8)
        if result != wanted:
            wrong.append((first, second, hex(result), hex(wanted)))
    assert not wrong


@pytest.mark.parametrize("opcode", TO_SCALES)
def test_scales_are_the_powers_of_two_beside_a_number(opcode: str) -> None:
    """Their least is 2^-127, also of what is below it; beyond 2^127 is NaN unless it is finite."""
    up = ".rp" in opcode
    values = [2.0**-149, 2.0**-128, 2.0**-127, 1.5 * 2.0**-127, 2.0**-126, -1.5, 1.0, 3.0, 2.0**127]
    values += [1.5 * 2.0**127, float("inf"), float("nan"), 0.0]
    beyond = 254 if "satfinite" in opcode else 255
    wanted = [0, 0, 0, int(up), 1, 127 + up, 127, 128 + up, 254, beyond if up else 254, beyond]
    wanted += [255, 0]
    words: Array = np.array(values, np.float32).view(np.uint32)
    if opcode.endswith("bf16x2"):
        words = words >> 16
    rows = [(int(w), 0, 0) for w in words]
    assert [r & 255 for r in convert(opcode, rows)] == wanted


# -- products --------------------------------------------------------------------------------------


class Product:
    """A product of one warp, block-scaled or plain; its fragments by the PTX ISA's formulas."""

    def __init__(self, kind: str, a: str, b: str, vector: str = "", scale: str = "") -> None:
        self.kinds = (a, b)
        self.scale = scale
        self.depth = 64 if "f4" in kind and "f8" not in kind else 32
        self.count = int(vector[0]) if vector else self.depth // 32
        words = [f"m16n8k{self.depth}", "row.col", f"kind::{kind}"]
        if scale:
            words += ["block_scale", *([f"scale_vec::{vector}"] if vector else [])]
        words += ["f32", a, b, "f32", *([scale] if scale else [])]
        self.opcode = "mma.sync.aligned." + ".".join(words)

    def statement(self, selectors: tuple[str, ...] = ("0", "0", "0", "0")) -> str:
        text = f"{self.opcode} {{%r16, %r17, %r18, %r19}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, "
        text += "{%r6, %r7, %r8, %r9}"
        if self.scale:
            a, i, b, j = selectors
            text += f", %r10, {{{a}, {i}}}, %r11, {{{b}, {j}}}"
        return text + ";"

    def kernel(self, selectors: tuple[str, ...] = ("0", "0", "0", "0")) -> str:
        loads = "".join(f"ld.global.b32 %r{k}, [%d2+{4 * k}];\n" for k in range(12))
        stores = "".join(f"st.global.b32 [%d3+{4 * k}], %r{16 + k};\n" for k in range(4))
        return f"""{HEAD}.visible .entry product(.param .b64 a, .param .b64 b)
{{
.reg .b64 %d<9>; .reg .b32 %r<30>; .reg .b16 %h<9>;
ld.param.b64 %d0, [a]; ld.param.b64 %d1, [b]; mov.u32 %r20, %tid.x;
mov.b16 %h1, 1; mov.b16 %h2, 2;
mad.wide.u32 %d2, %r20, 48, %d0; mad.wide.u32 %d3, %r20, 16, %d1;
{loads}{self.statement(selectors)}
{stores}ret;
}}
"""

    def words(self, a: Array, b: Array, c: Array) -> Array:
        """Twelve registers of each lane: A's codes (16, K), B's (K, 8), C; the scales are 0."""
        out = np.zeros((32, 12), np.uint32)
        per = 8 if self.depth == 64 else 4
        for lane in range(32):
            group, thread = lane >> 2, lane % 4
            for i in range(4 * per):
                row = group + 8 * (i // per % 2)
                column = thread * per + i % per + 4 * per * (i // (2 * per))
                code = self._placed(0, int(a[row, column]))
                out[lane, i // per] |= np.uint32(code << i % per * (32 // per))
            for i in range(2 * per):
                row = thread * per + i % per + 4 * per * (i // per)
                code = self._placed(1, int(b[row, group]))
                out[lane, 4 + i // per] |= np.uint32(code << i % per * (32 // per))
            for i in range(4):
                out[lane, 6 + i] = c[group + 8 * (i // 2), thread * 2 + i % 2].view(np.uint32)
        return out

    def _placed(self, side: int, code: int) -> int:
        """Where a code is in its container: four bits are in the middle of a byte."""
        return code << 2 if self.kinds[side] == "e2m1" and self.depth == 32 else code

    def result(self, words: Array, selectors: tuple[str, ...] = ("0", "0", "0", "0")) -> Array:
        out = np.zeros((32, 4), np.float32)
        launch(self.kernel(selectors), (1,), 32, [words, out])
        matrix = np.zeros((16, 8), np.float32)
        for lane in range(32):
            for i in range(4):
                matrix[(lane >> 2) + 8 * (i // 2), lane % 4 * 2 + i % 2] = out[lane, i]
        return matrix


PRODUCTS = [Product("f8f6f4", a, b) for a, b in zip(KINDS, KINDS[1:] + KINDS[:1], strict=True)]
PRODUCTS += [Product("mxf8f6f4", a, a, "1X", "ue8m0") for a in KINDS]
PRODUCTS += [
    Product("mxf8f6f4", "e2m1", "e5m2", "", "ue8m0"),
    Product("mxf4", "e2m1", "e2m1", "2X", "ue8m0"),
    Product("mxf4", "e2m1", "e2m1", "", "ue8m0"),
    Product("mxf4nvf4", "e2m1", "e2m1", "2X", "ue8m0"),
    Product("mxf4nvf4", "e2m1", "e2m1", "4X", "ue8m0"),
    Product("mxf4nvf4", "e2m1", "e2m1", "4X", "ue4m3"),
]
SELECTORS = {1: (("2", "1", "%h1", "3"), (2, 1, 1, 3)), 2: (("2", "1", "%h2", "2"), (2, 1, 2, 2))}
"""Bytes and threads that have scales, of A and of B, by how many a row has; and as numbers."""


def finite_codes(kind: str, shape: tuple[int, int], random: np.random.Generator) -> Array:
    """Codes of numbers, evenly spread."""
    allowed = [c for c in range(codes(kind)) if isinstance(decode(kind, c), Fraction)]
    return random.choice(allowed, shape)


def exactly(product: Product, a: Array, b: Array, c: Array, scales: tuple[Array, Array]) -> Array:
    """D by fractions, rounded once: scales of A by row (16, n) and of B by column (8, n)."""
    decoded = [
        [[decode(kind, int(code)) for code in row] for row in codes_of]
        for kind, codes_of in zip(product.kinds, (a, b.T), strict=True)
    ]
    factors = [
        [[decode(product.scale, int(code)) if product.scale else 1 for code in row] for row in part]
        for part in scales
    ]
    chunk = product.depth // product.count
    out = np.zeros((16, 8), np.float32)
    for i in range(16):
        for j in range(8):
            total: Value = Fraction(float(c[i, j]))
            for k in range(product.depth):
                scaled = factors[0][i][k // chunk] * factors[1][j][k // chunk]
                total += decoded[0][i][k] * decoded[1][j][k] * scaled
            out[i, j] = np.float32(float(total))
    return out


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p.opcode[28:])
def test_products_are_the_sums_of_scaled_numbers(product: Product) -> None:
    """Each of the bytes of which the selectors name some is another scale, in every lane."""
    random = np.random.default_rng(5)
    a = finite_codes(product.kinds[0], (16, product.depth), random)
    b = finite_codes(product.kinds[1], (product.depth, 8), random)
    c = random.integers(-9, 9, (16, 8)).astype(np.float32)
    words = product.words(a, b, c)
    low, high = (40, 80) if product.scale == "ue4m3" else (124, 131)
    words[:, 10:] = random.integers(low, high, (32, 2, 4), np.uint8).view(np.uint32)[..., 0]
    text, (byte_a, thread_a, byte_b, thread_b) = SELECTORS.get(
        product.count, (("0", "1", "0", "3"), (0, 1, 0, 3))
    )
    of_lanes = words[:, 10:].view(np.uint8).reshape(32, 2, 4)
    taken = range(product.count)
    rows = [4 * (m % 8) + 2 * thread_a + m // 8 for m in range(16)]
    columns = [4 * n + thread_b for n in range(8)]
    scales_a = np.stack([of_lanes[rows, 0, byte_a + k] for k in taken], -1)
    scales_b = np.stack([of_lanes[columns, 1, byte_b + k] for k in taken], -1)
    exact = exactly(product, a, b, c, (scales_a, scales_b))
    result = product.result(words, text)
    if product.scale:
        assert (result == exact).all()
    else:
        terms = np.abs(exact).max() + 1
        assert np.allclose(result, exact, rtol=2.0**-20, atol=float(terms) * 2.0**-20)


def test_a_scale_that_is_nan_makes_its_rows_nan_and_no_others() -> None:
    product = Product("mxf4", "e2m1", "e2m1", "2X", "ue8m0")
    ones = np.full((16, 64), 2)
    words = product.words(ones, ones[:8].T, np.zeros((16, 8), np.float32))
    words[:, 10:] = 0x7F7F
    words[4 * 3 + 1, 10] = 0xFF7F  # the second scale of row 11
    words[4 * 5, 11] = 0x7FFF  # the first scale of column 5
    result = product.result(words)
    wanted = np.full((16, 8), 64.0, np.float32)
    wanted[11] = np.nan
    wanted[:, 5] = np.nan
    assert np.array_equal(result, wanted, equal_nan=True)
    assert set(result.view(np.uint32)[np.isnan(result)].tolist()) == {0x7FFFFFFF}


def test_infinities_and_nan_of_factors_come_through() -> None:
    product = Product("mxf8f6f4", "e5m2", "e4m3", "1X", "ue8m0")
    a, b = np.zeros((16, 32), int), np.full((32, 8), 0x38)
    a[0, 3], a[1, 4], a[2, :2], a[3, 5] = 0x7C, 0xFC, (0x7C, 0xFC), 0x7D
    b[:, 7] = 0x7F
    words = product.words(a, b, np.zeros((16, 8), np.float32))
    words[:, 10:] = 0x7F
    result = product.result(words)
    assert (result[0, :7] == np.inf).all() and (result[1, :7] == -np.inf).all()
    assert np.isnan(result[2:4]).all() and np.isnan(result[:, 7]).all()
    assert (result[4:, :7] == 0).all()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{0, 0}, %r11", "{1, 0}, %r11", "no byte or thread 1"),
        ("{0, 0}, %r11", "{0, 2}, %r11", "no byte or thread 2"),
        ("%r11, {0, 0}", "%r11, {0, 4}", "no byte or thread 4"),
        ("scale_vec::2X", "scale_vec::1X", "this shape and these types"),
        (".ue8m0", ".ue4m3", "this shape and these types"),
        (".block_scale.scale_vec::2X", "", "this shape and these types"),
        ("m16n8k64", "m16n8k32", "this shape and these types"),
    ],
)
def test_forms_that_ptxas_refuses_are_refused(old: str, new: str, reason: str) -> None:
    text = Product("mxf4nvf4", "e2m1", "e2m1", "2X", "ue8m0").kernel()
    assert Program(text).cannot() == ()
    (obstacle,) = Program(text.replace(old, new)).cannot()
    assert reason in obstacle.reason


def test_ptxas_takes_every_form_that_is_executed_here(tmp_path: Path) -> None:
    modules = []
    for opcode in OPCODES:
        *_, to, source = opcode.split(".")
        modules.append(conversion(opcode, to, source, "scaled" in opcode))
    for product in PRODUCTS:
        text = SELECTORS.get(product.count, (("0", "1", "0", "3"), ()))[0]
        modules.append(product.kernel(text))
    bodies = [
        module.removeprefix(HEAD).replace("entry ", f"entry k{n}_")
        for n, module in enumerate(modules)
    ]
    sass = assembled(HEAD + "".join(bodies), tmp_path, "sm_120a")
    assert sass.count(".section\t.text.k") == len(modules)
    assert "QMMA.SF" in sass and "OMMA.SF" in sass and "F2FP.SATFINITE.E2M1" in sass


# -- a compiler's own block-scaled product ---------------------------------------------------------


POINTERS = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}


@pytest.mark.parametrize(
    ("a_kind", "b_kind", "scale", "word"),
    [
        ("e4m3", "e5m2", "ue8m0", "kind::mxf8f6f4.block_scale.scale_vec::1X"),
        ("e2m1", "e2m1", "ue8m0", "kind::mxf4nvf4.block_scale.scale_vec::2X"),
        ("e2m1", "e2m1", "ue4m3", "kind::mxf4nvf4.block_scale.scale_vec::4X"),
        ("e2m1", "e4m3", "ue8m0", "cvt.rn.bf16x2.e2m1x2"),
    ],
)
def test_block_scaled_products_of_triton(a_kind: str, b_kind: str, scale: str, word: str) -> None:
    m, n, k, chunk = 32, 32, 128, 16 if scale == "ue4m3" else 32
    per = {kind: 2 if kind == "e2m1" else 1 for kind in KINDS}
    scale_pointer = "*u8" if scale == "ue8m0" else "*fp8e4nv"
    signature = (
        ("a_ptr", POINTERS[a_kind]), ("sa_ptr", scale_pointer), ("b_ptr", POINTERS[b_kind]),
        ("sb_ptr", scale_pointer), ("c_ptr", "*fp32"),
    )  # fmt: skip
    constants = (
        ("M", m), ("N", n), ("K", k), ("A", a_kind), ("B", b_kind),
        ("PER_A", per[a_kind]), ("PER_B", per[b_kind]), ("CHUNK", chunk),
    )  # fmt: skip
    made = programs.make(programs.scaled_kernel, signature, constants, 120)
    assert word in made.ptx
    random = np.random.default_rng(3)
    factors: list[Array] = []
    arguments: list[Any] = []
    for kind, rows in ((a_kind, m), (b_kind, n)):
        elements = finite_codes(kind, (rows, k), random)
        low, high = (40, 64) if scale == "ue4m3" else (120, 132)
        scales = random.integers(low, high, (rows, k // chunk))
        values = np.array([float(decode(kind, c)) for c in range(codes(kind))])
        of_scales = np.array([float(decode(scale, s)) for s in range(256)])
        factors.append(values[elements] * np.repeat(of_scales[scales], chunk, 1))
        packed = elements[:, 0::2] | elements[:, 1::2] << 4 if kind == "e2m1" else elements
        arguments += [packed.astype(np.uint8), scales.astype(np.uint8)]
    out = np.zeros((m, n), np.float32)
    launch(made.ptx, (1,), made.threads, [*arguments, out], shared=made.shared)
    a_matrix, b_matrix = factors
    exact = a_matrix @ b_matrix.T
    bound = np.abs(a_matrix) @ np.abs(b_matrix.T) * 2.0**-22
    assert (np.abs(out - exact) <= bound).all()
    assert np.abs(exact).max() > 1000 * bound.max() > 0
