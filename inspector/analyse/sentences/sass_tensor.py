"""Matrix products of SASS: shapes and types."""

from __future__ import annotations

import re
from collections.abc import Mapping

from inspector.analyse.sentences.sass_parts import Instruction, Pieces, joined

_SMALL = re.compile(r"(16|8)x?(16|8)x?(256|128|64|32|16|8|4)\Z")
_GROUP = re.compile(r"(\d{2,3})x(\d{1,3})x(\d{1,3})\Z")


def _type(i: Instruction, name: str) -> str:
    types = i.table.get("types")
    return str(types.get(name, name)) if isinstance(types, Mapping) else name


def _types(i: Instruction) -> tuple[str, str]:
    """The inputs' type and the accumulator's. One alone is the accumulator's (HMMA.16816.F32)."""
    named = [q for q in i.qualifiers if _type(i, q) != q]
    kind = i.base.removeprefix("U")
    accumulated, inputs = i.string("accumulated"), i.string("inputs")
    if kind in ("IMMA", "IGMMA"):
        return " by ".join(dict.fromkeys(_type(i, n) for n in named)) or inputs, accumulated
    if named:
        accumulated = _type(i, named[0])
        rest = [_type(i, n) for n in named[1:]]
        if rest:
            inputs = " by ".join(dict.fromkeys(rest))
    return inputs, accumulated


def product(i: Instruction) -> Pieces | None:
    """HMMA, IMMA, DMMA, QMMA …: one warp's product of registers."""
    shape = next((f for q in i.qualifiers if (f := _SMALL.match(q))), None)
    if shape is None or len(i.operands) < 4:
        return None
    m, n, k = (int(shape[g]) for g in (1, 2, 3))
    inputs, accumulated = _types(i)
    wide = {"fp64": 2}.get(accumulated, 1)
    out = max(1, m * n * (16 if accumulated == "fp16" else 32 * wide) // 1024)
    d, a, b, c = i.operands[:4]
    plus = "" if c.zero else f", add {i.words.plain(c, out)}"
    sparse = "A sparse" if i.has("SP") else ""
    bits = _bits(inputs)
    count_a = max(1, m * k * bits // 1024 // (2 if sparse else 1)) if bits else 1
    count_b = max(1, n * k * bits // 1024) if bits else 1
    return {
        "shape": f"{m}×{n}×{k}", "inputs": inputs, "accumulated": accumulated,
        "a": i.words.plain(a, count_a), "b": i.words.plain(b, count_b),
        "d": i.words.plain(d, out), "plus": plus, "notes": joined([sparse]),
    }  # fmt: skip


def _bits(inputs: str) -> int:
    """The bits of one element, by its name: fp16, int8, tf32 (held in 32)."""
    found = re.search(r"tf32|\d+", inputs)
    if found is None:
        return 8 if "fp8" in inputs else 0
    return 32 if found[0] == "tf32" else int(found[0])


def group_product(i: Instruction) -> Pieces | None:
    """HGMMA and its like: a warp group's product from shared memory."""
    shape = next((f for q in i.qualifiers if (f := _GROUP.match(q))), None)
    if shape is None or not i.operands:
        return None
    m, n, k = (int(shape[g]) for g in (1, 2, 3))
    inputs, accumulated = _types(i)
    count = max(1, m * n * (16 if accumulated == "fp16" else 32) // (128 * 32))
    d = i.operands[0]
    fresh = any(o.text.strip() in ("!UPT", "RZ") for o in i.operands[1:])
    both = next((o for o in i.operands if "gdesc" in o.bare), None)
    from_registers = len(i.operands) > 2 and i.operands[1].file == "R"
    source = "A in registers, B in shared memory" if from_registers else "A and B in shared memory"
    bar = next((o.bare for o in i.operands if o.file == "gsb"), "")
    turned = [name for name in ("A", "B") if both and f"tnsp{name}" in both.bare]
    return {
        "shape": f"{m}×{n}×{k}", "inputs": inputs, "accumulated": accumulated,
        "d": i.words.plain(d, count), "source": source,
        "plus": "the product alone" if fresh else "added to what is there",
        "also": f"; {bar} tells when it is done" if bar else "",
        "notes": joined([f"{t} transposed" for t in turned] + ["A sparse"] * i.has("SP")),
    }  # fmt: skip


def block_product(i: Instruction) -> Pieces | None:
    """UTCHMMA and its like: shape and types are in the instruction descriptor, not in the text."""
    names = [o.bare for o in i.operands]
    tensor = [n for n in names if n.startswith("tmem[")]
    shared = [n for n in names if n.startswith("gdesc[")]
    if not tensor or not names:
        return None
    described = next((n for n in names if n.startswith("idesc[")), "")
    # A comes first: from shared memory, or from tensor memory.
    a = names[0]
    b = shared[-1] if shared else names[min(1, len(names) - 1)]
    d = tensor[1] if a.startswith("tmem[") and len(tensor) > 1 else tensor[0]
    last = i.operands[-1]
    plus = ""
    if last.predicate:
        plus = (
            {True: ", added to what is there", False: ", the product alone"}.get(
                last.always, f", added to what is there if {i.words.predicate(last)}"
            )
            if last.always is not None
            else f", added to what is there if {i.words.predicate(last)}"
        )
    return {
        "a": a, "b": b, "d": d, "plus": plus,
        "also": f"; {described} holds shape and types" if described else "",
        "notes": joined(["two blocks together" if i.has("2CTA") else ""]),
        "inputs": i.string("inputs"),
    }  # fmt: skip
