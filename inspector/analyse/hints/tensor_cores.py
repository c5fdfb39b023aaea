"""Products of matrices that do not run on the tensor cores."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.analyse.hints.layouts import blocked
from inspector.analyse.hints.subject import Finding, Subject, Thresholds, number, numbers, plural
from inspector.analyse.hints.tensors import operand_shape
from inspector.model import Stage

RULE = "no-tensor-cores"

_PARENT = re.compile(r"#ttg\.dot_op<\{opIdx = 0, parent = (#[\w$]+)")
_ELEMENT = re.compile(r"tensor<(?:\d+x)+(\w+)")


def no_tensor_cores(subject: Subject, thresholds: Thresholds) -> Iterator[Finding]:
    """``tl.dot`` in a layout of plain threads: it becomes multiply-adds, one an element.

    fp64 is left alone, and so are products too small for an instruction of the tensor cores.
    """
    least = number(thresholds, RULE, "rows")
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
        RULE,
        "warn",
        f"{plural(len(bad), 'product')} of {' and '.join(kinds)} tiles{became} and no instruction "
        'of the tensor cores, which are many times faster: input_precision="ieee" asks for all 24 '
        'bits of fp32, and the tensor cores round to tf32. Use input_precision="tf32", or "tf32x3" '
        "for nearly fp32's accuracy, or give tl.dot fp16 or bf16.",
        {Stage.TTGIR: numbers([line for line, _ in bad])},
    )
