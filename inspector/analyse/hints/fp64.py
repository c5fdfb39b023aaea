"""fp64 arithmetic in a kernel of fp32 data: what a literal without an ``f`` does in C++."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analyse.hints.subject import Finding, Subject, Thresholds, number, numbers, plural
from inspector.listing.line import Line
from inspector.listing.words import words
from inspector.model import Stage

RULE = "fp64-promotion"

_WIDENED = re.compile(r"cvt\.f64\.(?:f32|f16|bf16)\b")
_NARROWED = re.compile(r"cvt\.r[nzmp]i?\.(?:\w+\.)*(?:f32|f16|bf16)\.f64\b")
_ARITHMETIC = words("add sub mul fma mad div rcp sqrt rsqrt neg abs min max")
_CONSTANT = re.compile(r"\b0[dD](?!0{16})[0-9A-Fa-f]{16}\b")
_TTGIR_DOUBLES = re.compile(r"!tt\.ptr<f64>|tensordesc<[^>]*f64")
_SASS = frozenset(("DADD", "DMUL", "DFMA"))
_WIDE = re.compile(r"\.(?:64|128)\b")


def fp64_promotion(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """Floats widened to double, computed with double constants, and narrowed again.

    A kernel that loads, stores or is passed doubles means them, and so does one whose only
    doubles are sums (no constant but 0): it says nothing of those.
    """
    seen = _in_ptx(subject) if subject.ptx else _in_sass(subject)
    if seen is None:
        return
    stage, double, widened, floats = seen
    if len(double) < number(thresholds, RULE, "instructions"):
        return
    target = (subject.variant.target or "").rstrip("af")
    rates = thresholds[RULE].get("rate", {})
    rate = rates.get(target) if isinstance(rates, dict) else None
    slower = f", which {target} runs at 1/{rate} of the rate of fp32" if rate else ""
    yield Finding(
        RULE,
        "warn",
        f"{plural(len(double), 'fp64 instruction')} against {floats} in fp32, though "
        f"everything that is loaded and stored is narrower: values are widened to double here"
        f"{slower}, and a double takes two registers. In C++ a literal such as 0.5 is a double and "
        "makes all that it meets one: write 0.5f, and tanhf or expf for tanh or exp.",
        {stage: numbers(widened + double)},
    )


def _in_ptx(subject: Subject) -> tuple[Stage, list[Line], list[Line], int] | None:
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


def _in_sass(subject: Subject) -> tuple[Stage, list[Line], list[Line], int] | None:
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
