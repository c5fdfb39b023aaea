"""Which tensor-core shapes a kernel uses: PTX, SASS and Triton's TTGIR.

A shape is that of one instruction: an m×k tile times a k×n tile. PTX ISA, "Warp Level Matrix
Instructions", "Asynchronous Warpgroup Level Matrix Instructions", "TensorCore 5th Generation";
SASS is undocumented, its shapes are in the opcodes as the digits of m, n and k.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inspector.analyse.mix import instructions
from inspector.listing.line import Function, Line, Listing

_PTX_SHAPE = re.compile(r"\.m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\b")
_SASS_SHAPE = re.compile(r"\.(\d{1,9}+)(?!\d)x(\d{1,9}+)(?!\d)x(\d{1,9}+)(?!\d)\b")
_SASS_DIGITS = {
    "884": (8, 8, 4), "8816": (8, 8, 16), "8832": (8, 8, 32), "88128": (8, 8, 128),
    "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "168128": (16, 8, 128), "168256": (16, 8, 256),
}  # fmt: skip
_SASS = frozenset(
    ("HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA",
     "UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTCMXQMMA")
)  # fmt: skip
_DOTS = frozenset(
    ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma",
     "ttng.tc_gen5_mma_scaled", "nvidia_gpu.warp_group_dot")
)  # fmt: skip
_TILE = re.compile(r"(?:tensor|memdesc)<((?:\d{1,9}+x)++)([a-zA-Z]\w*)")
_PTX_TYPES = re.compile(r"(?:tf32|bf16|f16|f32|f64|s32|s8|u8|s4|u4|b1|e\dm\d)")


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix products of one opcode and shape; ``shape`` is (m, n, k), None where it is not in
    the instruction. ``types`` are as they are written, the result's first in PTX and SASS."""

    opcode: str
    shape: tuple[int, int, int] | None
    types: tuple[str, ...]
    count: int
    lines: tuple[int, ...]


def products(listing: Listing, function: Function) -> tuple[Product, ...]:
    """The matrix products of a function, in the order of their first."""
    found: dict[tuple[str, tuple[int, int, int] | None, tuple[str, ...]], list[int]] = {}
    read = {"ptx": _ptx, "sass": _sass, "ttir": _dots, "ttgir": _dots}.get(listing.language)
    if read is None:
        return ()
    for line in instructions(listing, function):
        for what in read(line):
            found.setdefault(what, []).append(line.n)
    return tuple(Product(*what, len(lines), tuple(lines)) for what, lines in found.items())


Key = tuple[str, tuple[int, int, int] | None, tuple[str, ...]]


def _ptx(line: Line) -> Iterator[Key]:
    opcode = line.opcode or ""
    parts = opcode.split(".")
    family = parts[0]
    if family in ("mma", "wgmma", "wmma", "tcgen05"):
        if family in ("wmma", "tcgen05") and parts[1:2] != ["mma"]:
            return
        if family == "wgmma" and parts[1:2] != ["mma_async"]:
            return
        shape = _PTX_SHAPE.search(opcode)
        types = tuple(p for p in parts if _PTX_TYPES.fullmatch(p))
        if family == "tcgen05":
            types = tuple(p.partition("::")[2] for p in parts if p.startswith("kind::"))
        name = ".".join(parts[:2]) if family != "mma" else "mma"
        yield name, _numbers(shape), types


def _sass(line: Line) -> Iterator[Key]:
    if line.base not in _SASS:
        return
    opcode = line.opcode or ""
    parts = opcode.split(".")[1:]
    shape = _numbers(_SASS_SHAPE.search(opcode))
    if shape is None:
        shape = next((_SASS_DIGITS[p] for p in parts if p in _SASS_DIGITS), None)
    types = tuple(p.lower() for p in parts if _PTX_TYPES.fullmatch(p.lower()))
    yield line.base, shape, types


def _dots(line: Line) -> Iterator[Key]:
    if line.base not in _DOTS:
        return
    shape = dot_shape(line.text)
    tiles = [t for _, t in _TILE.findall(line.text)]
    yield line.base, shape[1:] if shape else None, tuple(tiles[:3])


def dot_shape(text: str) -> tuple[int, int, int, int] | None:
    """Batch, m, n and k of a ``tt.dot`` or one of its relatives, by the types of a and b."""
    tiles = [[int(d) for d in dims.split("x") if d] for dims, _ in _TILE.findall(text)]
    if len(tiles) < 2 or len(tiles[0]) < 2 or len(tiles[1]) < 2:
        return None
    a, b = tiles[0], tiles[1]
    batch = 1
    for dimension in a[:-2]:
        batch *= dimension
    return (batch, a[-2], b[-1], a[-1]) if a[-1] == b[-2] else None


def _numbers(found: re.Match[str] | None) -> tuple[int, int, int] | None:
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
