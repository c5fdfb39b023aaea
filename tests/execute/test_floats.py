"""Floating point bit by bit: against exact rational arithmetic, and torch for eight-bit formats.

Every NaN counts as the same: which of them an operation gives is not what a program may rely on.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from inspector.listing.ptx import parse_ptx
from inspector.listing.ptx_code import read_module
from tests.execute import exact, random_ptx
from tests.execute.exact import FORMATS, Number
from tests.execute.programs import Array, launch

LANES = 256
FLOATS = "fgebEB"
BASES = ("add", "sub", "mul", "div", "sqrt", "rcp", "fma", "cvt", "min", "max")
CHOSEN = [
    one
    for one in random_ptx.instructions()
    if one[0].split(".")[0] in BASES
    and (set(one[1]) | set(one[2])) & set(FLOATS)
    and not any(narrow in one[0] for narrow in ("e4m3", "e5m2", "tf32"))
]
MODULE = read_module(parse_ptx(random_ptx.instruction_module(CHOSEN)))
WORDS = random_ptx.words(LANES, 3)


def parts(opcode: str) -> set[str]:
    return set(opcode.split("."))


def operands(word: list[int], sources: str) -> list[int]:
    """What a lane's operands are, as unsigned integers."""
    out = []
    for k, kind in enumerate(random_ptx.sources_of(sources)):
        out.append(word[min(k, 3)] & ((1 << random_ptx.CLASSES[kind]) - 1))
    return out


def flushed(x: Number) -> Number:
    if isinstance(x, Fraction) and abs(x) < Fraction(2) ** -126:
        return -0.0 if x < 0 else 0.0
    return x


def extreme(least: bool, nan: bool, a: Number, b: Number) -> Number:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, float) and math.isnan(one):
            return one if nan else other
    if exact.is_zero(a) and exact.is_zero(b):
        return a if exact.negative(a) == least else b
    return min(a, b) if least else max(a, b)


def computed(opcode: str, numbers: list[Number], way: str, signs: list[bool]) -> Number:
    """An arithmetic instruction's exact result."""
    base, named = opcode.split(".")[0], parts(opcode)
    if base in ("min", "max"):
        flipped = False
        if "xorsign" in named:
            flipped = signs[0] != signs[1]
            numbers = [-x if exact.negative(x) else x for x in numbers]
        out = extreme(base == "min", "NaN" in named, *numbers)
        return -out if flipped else out
    if base == "add":
        return exact.add(numbers[0], numbers[1], way)
    if base == "sub":
        return exact.add(numbers[0], exact.negated(numbers[1]), way)
    if base == "mul":
        return exact.multiply(*numbers)
    if base == "fma":
        return exact.add(exact.multiply(*numbers[:2]), numbers[2], way)
    if base == "div":
        return exact.divide(*numbers)
    return exact.divide(Fraction(1), numbers[0])  # rcp


def finished(opcode: str, x: Number) -> Number:
    named = parts(opcode)
    nan = isinstance(x, float) and math.isnan(x)
    if "sat" in named:
        x = 0.0 if nan else x
        return min(max(x, 0.0 if exact.is_zero(x) or x < 0 else x), Fraction(1)) if x else 0.0
    if "relu" in named and not nan:
        return x if not exact.negative(x) else 0.0
    return x


def arithmetic(opcode: str, kind: str, values: list[int]) -> int:
    form = FORMATS[kind]
    way = next((w for w in ("rz", "rm", "rp") if w in parts(opcode)), "rn")
    ftz = "ftz" in parts(opcode)
    numbers = [exact.number_of(v, form) for v in values]
    signs = [bool(v >> (form.width - 1)) for v in values]
    if ftz:
        numbers = [flushed(x) for x in numbers]
    if opcode.startswith("sqrt"):
        bits = exact.root(numbers[0], form, way)
    else:
        bits = exact.bits_of(finished(opcode, computed(opcode, numbers, way, signs)), form, way)
    return exact.bits_of(flushed(exact.number_of(bits, form)), form) if ftz else bits


WHOLE = re.compile(r"([us])(8|16|32|64)\Z")


def converted(opcode: str, target: str, sources: str, values: list[int]) -> int:
    """``cvt`` of one value."""
    names = opcode.split(".")
    to, source = names[-2], names[-1]
    way = next((w for w in names[1:] if w in ("rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")), "rn")
    if whole := WHOLE.match(source):
        width = int(whole[2])
        value = values[0] & ((1 << width) - 1)
        if whole[1] == "s" and value >> (width - 1):
            value -= 1 << width
        x: Number = Fraction(value) if value else 0.0
    else:
        x = exact.number_of(values[0], FORMATS[sources])
    if "ftz" in names and source == "f32":
        x = flushed(x)
    if whole := WHOLE.match(to):
        width, signed = int(whole[2]), whole[1] == "s"
        low, high = (
            (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        )
        number = exact.to_integer(x, way, low, high, width, source == "f64")
        if signed and number >> (width - 1) == 1:
            number -= 1 << width  # a narrow integer in 16 bits with its sign
        return number & ((1 << max(width, 16)) - 1)
    if way in ("rni", "rzi", "rmi", "rpi"):
        if isinstance(x, Fraction):
            made = exact.whole_number(x, way)
            x = Fraction(made) if made else (-0.0 if x < 0 else 0.0)
        way = "rn"
    x = finished(opcode, x)
    bits = exact.bits_of(x, FORMATS[target], way)
    if "ftz" in names and to == "f32":
        bits = exact.bits_of(flushed(exact.number_of(bits, FORMATS["f"])), FORMATS["f"])
    return bits


def expected(one: random_ptx.Instruction, word: list[int]) -> int:
    opcode, target, sources = one
    values = operands(word, sources)
    if opcode.startswith("cvt"):
        if target in "EB":
            half = {"E": "e", "B": "b"}[target]
            high, low = (converted(opcode.replace("x2", ""), half, "f", [v]) for v in values)
            return high << 16 | low
        return converted(opcode, target, sources, values)
    if target in "EB":
        half = {"E": "e", "B": "b"}[target]
        low = arithmetic(opcode, half, [v & 0xFFFF for v in values])
        return arithmetic(opcode, half, [v >> 16 for v in values]) << 16 | low
    return arithmetic(opcode, target, values)


@pytest.mark.parametrize("base", sorted({one[0].split(".")[0] for one in CHOSEN}))
def test_rounded_once(base: str) -> None:
    wrong: dict[str, tuple[list[str], str, str]] = {}
    for k, one in enumerate(CHOSEN):
        if one[0].split(".")[0] != base:
            continue
        made = np.zeros(LANES, np.uint64)
        launch(MODULE, (1,), LANES, [WORDS, made], f"i{k}")
        for lane, word in enumerate(WORDS.tolist()):
            right = expected(one, word)
            if int(made[lane]) != right:
                values = [hex(v) for v in operands(word, one[2])]
                wrong.setdefault(one[0], (values, hex(int(made[lane])), hex(right)))
    assert not wrong


def run_one(opcode: str, target: str, sources: str, words: Array) -> Array:
    text = random_ptx.instruction_module([(opcode, target, sources)])
    made = np.zeros(len(words), np.uint64)
    launch(text, (len(words) // 256,), 256, [words, made])
    return made


@pytest.mark.parametrize(
    ("name", "dtype"), [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)]
)
def test_eight_bit_formats_are_torchs(name: str, dtype: torch.dtype) -> None:
    """Every one of them as half precision, and singles rounded to them (clipped, not infinite)."""
    words = np.zeros((256, 4), np.uint64)
    words[:, 0] = np.arange(256) * 257
    made = run_one(f"cvt.rn.f16x2.{name}x2", "E", "h", words)
    own = torch.arange(256, dtype=torch.uint8).view(dtype).half().numpy()
    halves = (made & 0xFFFF).astype(np.uint16).view(np.float16)
    assert np.array_equal(halves, own, equal_nan=True)
    assert np.array_equal(made >> np.uint64(16), made & np.uint64(0xFFFF))
    values = random_ptx.words(2048, 9)
    made = run_one(f"cvt.rn.satfinite.{name}x2.f32", "h", "ff", values)
    singles = values[:, :2].astype(np.uint32).view(np.float32)
    limit = float(torch.finfo(dtype).max)
    clipped = np.where(np.isnan(singles), singles, np.clip(singles, -limit, limit))
    codes = torch.from_numpy(clipped).to(dtype).view(torch.uint8).numpy().astype(np.uint64)
    numbers = np.isnan(singles)
    high, low = made >> np.uint64(8), made & np.uint64(255)
    assert np.array_equal(high[~numbers[:, 0]], codes[~numbers[:, 0], 0])
    assert np.array_equal(low[~numbers[:, 1]], codes[~numbers[:, 1], 1])
    assert (high[numbers[:, 0]] & np.uint64(0x7F) == 0x7F).all()


@pytest.mark.parametrize(("way", "half"), [("rna", 0x1000), ("rz", 0)])
def test_tf32_keeps_ten_bits_of_the_mantissa(way: str, half: int) -> None:
    values = random_ptx.words(512, 4)
    bits = values[:, 0] & np.uint64(0xFFFFFFFF)
    finite = (bits & np.uint64(0x7F800000)) != 0x7F800000
    made = run_one(f"cvt.{way}.tf32.f32", "r", "f", values)
    rounded = (bits + np.uint64(half)) & np.uint64(0xFFFFE000)
    assert np.array_equal(made[finite], rounded[finite])
