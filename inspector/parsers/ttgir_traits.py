"""What one compilation of a Triton kernel computes on, read from its TTGIR."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from inspector.base.names import words

_ARGUMENT = re.compile(
    r"%(?P<name>\w+): (?P<type>!tt\.ptr<[^<>]*>|[\w.]+)(?: \{(?P<attributes>[^{}]*)\})?"
)
"""``%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}``"""
_LOCATION_NAME = re.compile(r' loc\("(?P<name>[A-Za-z_]\w*)"')
""" ``loc("x"(#loc))`` after an argument of Triton 3.5 and before, which is ``%arg0`` itself"""
_DIVISIBILITY = re.compile(r"tt\.divisibility = (\d+)")
_OPERAND = re.compile(r"<(\d+)x(\d+)x[a-z]")
"""``tensor<64x32xf16`` or ``!ttg.memdesc<64x32xf16``: an operand of a product."""
_POINTERS = re.compile(r"tensor<(?P<shape>(?:\d{1,9}x)+)!tt\.ptr<")
"""``tensor<64x32x!tt.ptr<f16>, #blocked>``: what one load or store moves."""
_BLOCK = re.compile(r"!tt\.(?:tensordesc|ptr)<(?:tensor<)?(?P<shape>(?:\d{1,9}x)+)[a-z]")
"""``!tt.tensordesc<64x32xf16, #shared>``: a block that a descriptor or a block pointer moves."""
_INTEGER = re.compile(
    r"arith\.constant (?:dense<)?(\d{1,18})>? : (?:tensor<[^>]*x)?(?:i32|i64|index)"
)
"""``arith.constant dense<1376> : tensor<1x128xi32, #blocked>``"""
_OPERATION = re.compile(r"\s+(?:%[\w:, %]+ = )?\"?(?P<name>[a-z]\w*\.[\w.]+)\"?[ (]")
"""``    %acc = arith.addf %a, %b``"""
_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "bf16": "bf16"}
MOVES = words(
    "arith.constant tt.splat tt.broadcast tt.expand_dims tt.make_range tt.return scf.yield "
    "ttg.convert_layout ttg.memdesc_index ttg.local_alloc ttg.local_load ttg.async_wait"
)
"""Operations that compute nothing; they distinguish variants that have no other trait."""
MIN_SIZE = 64
"""Below it a constant is rather a step than a size."""
MAX_SHAPES = 3
"""Shapes of one kind that are named."""


def dot_shapes(text: str) -> list[str]:
    """Return the distinct tiles of products: ``64·32·128`` is M, N and K."""
    tiles: dict[str, None] = {}
    for line in text.split("\n"):
        if "dot" not in line and "mma" not in line:
            continue
        a, times, b = line.rpartition(" : ")[2].partition(" * ")
        a_shape = _OPERAND.search(a)
        b_shape = _OPERAND.search(b)
        if times and a_shape is not None and b_shape is not None:
            tiles[f"{a_shape[1]}·{b_shape[2]}·{a_shape[2]}"] = None
    return list(tiles)


def traits(text: str) -> dict[str, str]:
    """Return short texts by what they describe, what says most about a kernel first.

    Products, blocks that are moved, sizes that are compiled in, types of arguments, what was taken
    for granted of them, and the count of each operation in the text.
    """
    text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    texts = {
        "dot": _some("dot", dot_shapes(text)),
        "block": _some("", _largest(_POINTERS, text)),
        "descriptor": _some("desc", _largest(_BLOCK, text)),
        "sizes": _some("sizes", _sizes(text)),
    }
    for name, kind, divisor in _arguments(text):
        texts[f"type {name}"] = f"{name}:{kind}"
        texts[f"divisibility {name}"] = f"{name}:{divisor}" if divisor else ""
    for operation, count in _operations(text).items():
        texts[f"operation {operation}"] = f"{operation.rpartition('.')[2]}×{count}"
    return texts


def distinguishing(rows: Sequence[Mapping[str, str]], groups: Sequence[object]) -> list[str]:
    """Return the fewest keys, in order, by which rows of one group differ.

    ``groups`` has what already tells each row from others.
    """
    keys = sorted(dict.fromkeys(key for row in rows for key in row), key=_rank)
    telling_keys: list[str] = []
    parts = list(groups)
    for key in keys:
        finer = [(part, row.get(key, "")) for part, row in zip(parts, rows, strict=True)]
        if len(set(finer)) > len(set(parts)):
            telling_keys.append(key)
            parts = list(finer)
    return telling_keys


def _rank(key: str) -> int:
    """The order of traits: blocks, types, divisors, sizes, operations, those that move values."""
    kind, _, name = key.partition(" ")
    if name in MOVES:
        return 5
    return {"type": 1, "divisibility": 2, "sizes": 3, "operation": 4}.get(kind, 0)


def _some(word: str, shapes: Sequence[str]) -> str:
    """``dot 64·64·32``; "" without shapes."""
    texts = " ".join(shapes[:MAX_SHAPES])
    return f"{word} {texts}".strip() if shapes else ""


def _largest(pattern: re.Pattern[str], text: str) -> list[str]:
    """The distinct shapes, the largest of a rank first: ``[64×32]``."""
    shapes = {tuple(map(int, m["shape"][:-1].split("x"))) for m in pattern.finditer(text)}
    full = [shape for shape in shapes if 1 not in shape or len(shape) == 1]
    ranked = sorted(full or shapes, key=lambda shape: (-len(shape), [-size for size in shape]))
    return [f"[{'×'.join(map(str, shape))}]" for shape in ranked]


def _sizes(text: str) -> list[str]:
    """The distinct integer constants that are no part of a block, the largest first."""
    values = {int(match[1]) for match in _INTEGER.finditer(text)}
    return list(map(str, sorted((v for v in values if v >= MIN_SIZE), reverse=True)))


def _arguments(text: str) -> Iterator[tuple[str, str, str]]:
    """The arguments of the kernel: name, type as Triton writes it, and divisor, "" if none."""
    start = text.find("tt.func public @")
    signature = text[start : text.find("\n", start)] if start >= 0 else ""
    for match in _ARGUMENT.finditer(signature):
        location = _LOCATION_NAME.match(signature, match.end())
        name = match["name"] if location is None else location["name"]
        element = match["type"].removeprefix("!tt.ptr<").partition(",")[0].rstrip(">")
        pointer = "*" if match["type"].startswith("!tt.ptr<") else ""
        divisor = _DIVISIBILITY.search(match["attributes"] or "")
        yield name, pointer + _TYPES.get(element, element), "" if divisor is None else divisor[1]


def _operations(text: str) -> Counter[str]:
    return Counter(m["name"] for m in map(_OPERATION.match, text.split("\n")) if m is not None)
