"""fp64 arithmetic in a kernel of fp32 data: what a literal without an ``f`` does in C++."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    number,
    numbers,
    plural,
    some,
)
from inspector.analyse.hints.tensors import blocked, operand_shape
from inspector.analyse.hints.warp import operands
from inspector.listing.line import Line
from inspector.model import Stage
from inspector.text import words

# -- divisions that are many instructions ---------------------------------------------------------
# Integers by what is not constant, exact fp32, fp64.

SLOW_DIVISION = "slow-division"

_DIVISION = re.compile(r"(?:div|rem)\.(?:r[nzmp]\.)?(?:ftz\.)?([suf](?:16|32|64))\Z")


def slow_division(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Divisions that are a good part of a loop, or of a kernel that has none.

    There is no instruction for them: each becomes a reciprocal and its corrections. What stands
    before a kernel's loops is run once and is left alone; so are ``div.full`` and ``div.approx``,
    and divisors that are constants.
    """
    if not subject.ptx:
        return
    flow = subject.flow(Stage.PTX)
    if flow is None:
        return
    bodies: dict[int, list[Line]] = defaultdict(list)
    for line in subject.ptx:
        inner = flow.loop_at(line.n)
        bodies[inner.first if inner else 0].append(line)
    looped = any(first for first in bodies)
    divisions: list[Line] = []
    for first, lines in bodies.items():
        slow = [line for line in lines if _slow(line)]
        if (
            slow
            and (first or not looped)
            and _share(slow, lines, thresholds) >= number(thresholds, SLOW_DIVISION, "share")
        ):
            divisions += slow
    if not divisions:
        return
    what = some([f"{line.opcode}" for line in divisions])
    where = "in a loop" if looped else "in a kernel without loops"
    share = _share(
        divisions, [x for x in subject.ptx if not looped or flow.loop_at(x.n)], thresholds
    )
    yield Finding(
        SLOW_DIVISION,
        "hint",
        f"{plural(len(divisions), 'division')} {where} ({what}), about {share:.0%} of its "
        "instructions (an estimate): the hardware has no such instruction, so each is a "
        f"reciprocal and its corrections. {_advice(divisions)}",
        {Stage.PTX: numbers(divisions)},
    )


def _advice(lines: list[Line]) -> str:
    if all(".f" in (line.opcode or "") for line in lines):
        return (
            "Multiply by the reciprocal, computed once, or allow an approximation (__fdividef, "
            "-use_fast_math, -prec-div=false)."
        )
    return (
        "Make the divisor a constant (a template parameter, a tl.constexpr: a power of two is a "
        "shift), count rows and columns along instead of dividing, or use 32 bits for 64."
    )


def _slow(line: Line) -> bool:
    if line.base not in ("div", "rem") or _DIVISION.match(line.opcode or "") is None:
        return False
    words = operands(line.text)
    return len(words) == 3 and words[2].startswith("%")


def _share(slow: list[Line], lines: list[Line], thresholds: Thresholds) -> float:
    """Instructions of divisions against all, both estimated from PTX."""
    costs = thresholds[SLOW_DIVISION].get("instructions", {})
    known = costs if isinstance(costs, dict) else {}
    spent = 0.0
    for line in slow:
        kind = _DIVISION.match(line.opcode or "")
        spent += float(known.get(kind[1], 1)) if kind else 0.0
    return spent / max(spent + len(lines) - len(slow), 1)


# -- products of matrices -------------------------------------------------------------------------
# Products of matrices that do not run on the tensor cores.

NO_TENSOR_CORES = "no-tensor-cores"

_PARENT = re.compile(r"#ttg\.dot_op<\{opIdx = 0, parent = (#[\w$]+)")
_ELEMENT = re.compile(r"tensor<(?:\d+x)+(\w+)")


def no_tensor_cores(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """``tl.dot`` in a layout of plain threads: it becomes multiply-adds, one an element.

    fp64 is left alone, and so are products too small for an instruction of the tensor cores.
    """
    least = number(thresholds, NO_TENSOR_CORES, "rows")
    listing = subject.listings.get(Stage.TTGIR)
    dots = [line for line in subject.ttgir if line.base == "tt.dot"]
    if listing is None or not dots:
        return
    plain = blocked(listing.lines)
    bad = []
    for line in dots:
        parent, element = _PARENT.search(line.text), _ELEMENT.search(line.text)
        shape = operand_shape(line)
        if parent is None or parent[1] not in plain or element is None or shape is None:
            continue
        if element[1] != "f64" and min(shape[-2:]) >= least:
            bad.append((line, element[1]))
    if not bad:
        return
    fused = sum(1 for line in subject.sass if line.base == "FFMA")
    became = f" became {plural(fused, 'FFMA instruction')}" if fused else " are multiply-adds"
    kinds = sorted({element for _, element in bad})
    yield Finding(
        NO_TENSOR_CORES,
        "warn",
        f"{plural(len(bad), 'product')} of {' and '.join(kinds)} tiles{became} and no instruction "
        'of the tensor cores, which are many times faster: input_precision="ieee" asks for all 24 '
        'bits of fp32, and the tensor cores round to tf32. Use input_precision="tf32", or "tf32x3" '
        "for nearly fp32's accuracy, or give tl.dot fp16 or bf16.",
        {Stage.TTGIR: numbers([line for line, _ in bad])},
    )


PROMOTION = "fp64-promotion"

_WIDENED = re.compile(r"cvt\.f64\.(?:f32|f16|bf16)\b")
_NARROWED = re.compile(r"cvt\.r[nzmp]i?\.(?:\w+\.)*(?:f32|f16|bf16)\.f64\b")
_ARITHMETIC = words("add sub mul fma mad div rcp sqrt rsqrt neg abs min max")
_CONSTANT = re.compile(r"\b0[dD](?!0{16})[0-9A-Fa-f]{16}\b")
_TTGIR_DOUBLES = re.compile(r"!tt\.ptr<f64>|tensordesc<[^>]*f64")
_SASS = frozenset(("DADD", "DMUL", "DFMA"))
_WIDE = re.compile(r"\.(?:64|128)\b")


def fp64_promotion(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Floats widened to double, computed with double constants, and narrowed again.

    A kernel that loads, stores or is passed doubles means them, and so does one whose only
    doubles are sums (no constant but 0): it says nothing of those.
    """
    seen = _in_ptx(subject) if subject.ptx else _in_sass(subject)
    if seen is None:
        return
    stage, double, widened, floats = seen
    if len(double) < number(thresholds, PROMOTION, "instructions"):
        return
    target = (subject.variant.target or "").rstrip("af")
    rates = thresholds[PROMOTION].get("rate", {})
    rate = rates.get(target) if isinstance(rates, dict) else None
    slower = f", which {target} runs at 1/{rate} of the rate of fp32" if rate else ""
    yield Finding(
        PROMOTION,
        "warn",
        f"{plural(len(double), 'fp64 instruction')} against {floats} in fp32, though "
        f"everything that is loaded and stored is narrower: values are widened to double here"
        f"{slower}, and a double takes two registers. In C++ a literal such as 0.5 is a double and "
        "makes all that it meets one: write 0.5f, and tanhf or expf for tanh or exp.",
        {stage: numbers(widened + double)},
    )


def _in_ptx(subject: HintSubject) -> tuple[Stage, list[Line], list[Line], int] | None:
    ttgir = subject.lines(Stage.TTGIR)
    if any(_TTGIR_DOUBLES.search(line.text) for line in ttgir if line.base == "tt.func"):
        return None
    widened, narrowed = False, False
    double: list[Line] = []
    conversions: list[Line] = []
    floats, constants = 0, False
    for line in subject.lines(Stage.PTX):
        opcode = line.opcode or ""
        if not opcode:
            if ".param" in line.text and ".f64" in line.text:
                return None
            continue
        if opcode.endswith("f64") and opcode.startswith(("ld.", "st.", "atom.", "red.")):
            return None
        if _WIDENED.match(opcode):
            widened = True
            conversions.append(line)
        elif _NARROWED.match(opcode):
            narrowed = True
            conversions.append(line)
        elif opcode.endswith(".f64") and line.base in _ARITHMETIC:
            double.append(line)
        elif opcode.endswith((".f32", ".f32x2")) and line.base in _ARITHMETIC:
            floats += 1
        constants = constants or _CONSTANT.search(line.text) is not None
    if not (widened and narrowed and constants):
        return None
    return Stage.PTX, double, conversions, floats


def _in_sass(subject: HintSubject) -> tuple[Stage, list[Line], list[Line], int] | None:
    double: list[Line] = []
    widened: list[Line] = []
    narrowed: list[Line] = []
    floats = 0
    for line in subject.sass:
        opcode = line.opcode or ""
        if line.base in _SASS:
            double.append(line)
        elif line.base in ("FADD", "FMUL", "FFMA"):
            floats += 1
        elif opcode.startswith("F2F.F64.F32"):
            widened.append(line)
        elif opcode.startswith("F2F.F32.F64"):
            narrowed.append(line)
        elif line.base in ("LDG", "STG", "LD", "ST") and _WIDE.search(opcode):
            return None  # may be doubles: nothing in the machine code tells
    if not (widened and narrowed):
        return None
    return Stage.SASS, double, widened + narrowed, floats
