"""fp64 arithmetic in a kernel of fp32 data: what a literal without an ``f`` does in C++."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from inspector.analyse.hints.subject import (
    Finding,
    HintSubject,
    Thresholds,
    number,
    numbers,
    plural,
    some,
)
from inspector.analyse.opcodes import base_of
from inspector.analyse.tensors import blocked, operand_shape
from inspector.base.model import Stage
from inspector.base.text import words
from inspector.listing.line import Line

# -- divisions that are many instructions ---------------------------------------------------------
# Integers by what is not constant, exact fp32, fp64.

SLOW_DIVISION = "slow-division"

_BY_REGISTER = re.compile(r",\s*+%[\w$]++\s*+;")
_DIVISION = re.compile(r"(?:div|rem)\.(?:r[nzmp]\.)?(?:ftz\.)?([suf](?:16|32|64))\Z")


def slow_division(subject: HintSubject, thresholds: Thresholds) -> Iterator[Finding]:
    """Divisions that are a good part of a loop, or of a kernel that has none.

    There is no instruction for them: each becomes a reciprocal and its corrections. What stands
    before a kernel's loops is run once and is left alone; so are ``div.full`` and ``div.approx``,
    and divisors that are constants.
    """
    code, flow = subject.code(Stage.PTX), subject.flow(Stage.PTX)
    every = [line for line in subject.of(Stage.PTX, "div", "rem") if _slow(line)]
    if code is None or flow is None or not every:
        return

    def body(n: int) -> int:
        inner = flow.loop_at(n)
        return inner.first if inner else 0

    bodies = Counter(body(line.n) for line in code.lines())
    looped = any(first for first in bodies)
    slow: dict[int, list[Line]] = defaultdict(list)
    for line in every:
        slow[body(line.n)].append(line)
    divisions: list[Line] = []
    for first, size in bodies.items():
        if (
            slow[first]
            and (first or not looped)
            and _share(slow[first], size, thresholds) >= number(thresholds, SLOW_DIVISION, "share")
        ):
            divisions += slow[first]
    if not divisions:
        return
    what = some([f"{line.opcode}" for line in divisions])
    where = "in a loop" if looped else "in a kernel without loops"
    all_of_it = bodies.total() - (bodies[0] if looped else 0)
    share = _share(divisions, all_of_it, thresholds)
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
    return _BY_REGISTER.search(line.text) is not None


def _share(slow: list[Line], lines: int, thresholds: Thresholds) -> float:
    """Instructions of divisions against all ``lines``, both estimated from PTX."""
    costs = thresholds[SLOW_DIVISION].get("instructions", {})
    known = costs if isinstance(costs, dict) else {}
    spent = 0.0
    for line in slow:
        kind = _DIVISION.match(line.opcode or "")
        spent += float(known.get(kind[1], 1)) if kind else 0.0
    return spent / max(spent + lines - len(slow), 1)


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
    fused = len(subject.of(Stage.SASS, "FFMA"))
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
        {stage: numbers([*widened, *double])},
    )


_Seen = tuple[Stage, Sequence[Line], Sequence[Line], int]


def _in_ptx(subject: HintSubject) -> _Seen | None:
    ttgir = subject.lines(Stage.TTGIR)
    if any(_TTGIR_DOUBLES.search(line.text) for line in ttgir if line.base == "tt.func"):
        return None
    code = subject.code(Stage.PTX)
    if code is None or code.count(_moves_doubles):
        return None
    conversions = code.lines(lambda o: _WIDENED.match(o) or _NARROWED.match(o))
    if not (code.count(_WIDENED.match) and code.count(_NARROWED.match)):
        return None
    constants = False
    for line in subject.lines(Stage.PTX):
        if line.opcode:
            constants = constants or _CONSTANT.search(line.text) is not None
        elif ".param" in line.text and ".f64" in line.text:
            return None
    if not constants:
        return None
    double = code.lines(lambda o: o.endswith(".f64") and base_of(o) in _ARITHMETIC)
    floats = code.count(lambda o: o.endswith((".f32", ".f32x2")) and base_of(o) in _ARITHMETIC)
    return Stage.PTX, double, conversions, floats


def _moves_doubles(opcode: str) -> bool:
    return opcode.endswith("f64") and opcode.startswith(("ld.", "st.", "atom.", "red."))


def _in_sass(subject: HintSubject) -> _Seen | None:
    code = subject.code(Stage.SASS)
    if code is None or code.count(_moves_widely):
        return None  # may be doubles: nothing in the machine code tells
    widened = code.lines(lambda o: o.startswith("F2F.F64.F32"))
    narrowed = code.lines(lambda o: o.startswith("F2F.F32.F64"))
    if not (widened and narrowed):
        return None
    floats = len(code.of("FADD", "FMUL", "FFMA"))
    return Stage.SASS, code.of(*_SASS), [*widened, *narrowed], floats


def _moves_widely(opcode: str) -> bool:
    return base_of(opcode) in ("LDG", "STG", "LD", "ST") and _WIDE.search(opcode) is not None
