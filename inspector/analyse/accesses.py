"""Which memory a function's instructions touch, and how wide; PTX and SASS.

Widths are bytes a thread and an instruction. PTX: PTX ISA, "Data Movement and Conversion
Instructions" (state space, vector and type are in the opcode). SASS: the width is the opcode's
``.U8`` … ``.128``, 4 bytes where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from inspector.analyse.mix import instructions
from inspector.listing.line import Function, Line, Listing

LOAD, STORE, COPY, ATOMIC, REDUCTION = "load", "store", "copy", "atomic", "reduction"

_TYPE = re.compile(r"\.(?:b|u|s|f|bf)(8|16|32|64|128)(x2)?(?![\w:])")
_VECTOR = re.compile(r"\.v([248])\b")
_SPACES = ("global", "shared", "local", "const", "param", "tex", "surf")
_TIMES = re.compile(r"\.x(\d{1,3})\b")
_SIZE = re.compile(r"\],\s*\[[^\]]*\],\s*(0x[0-9a-fA-F]+|\d+)\b")
_PTX = {
    "ld": LOAD, "ldu": LOAD, "st": STORE, "atom": ATOMIC, "red": REDUCTION,
    "ldmatrix": LOAD, "stmatrix": STORE,
}  # fmt: skip
_MULTIMEM = {"ld_reduce": LOAD, "st": STORE, "red": REDUCTION}
_SASS = {
    "LDG": (LOAD, "global"), "LD": (LOAD, "generic"), "LDS": (LOAD, "shared"),
    "LDL": (LOAD, "local"), "LDSM": (LOAD, "shared"),
    "STG": (STORE, "global"), "ST": (STORE, "generic"), "STS": (STORE, "shared"),
    "STL": (STORE, "local"), "STSM": (STORE, "shared"), "LDGSTS": (COPY, "global"),
    "ATOMG": (ATOMIC, "global"), "ATOM": (ATOMIC, "generic"), "ATOMS": (ATOMIC, "shared"),
    "RED": (REDUCTION, "global"), "REDG": (REDUCTION, "global"), "REDS": (REDUCTION, "shared"),
    "UTMALDG": (LOAD, "global"), "UTMASTG": (STORE, "global"), "UTMAREDG": (REDUCTION, "global"),
    "UBLKCP": (COPY, "global"), "LDTM": (LOAD, "tensor"), "STTM": (STORE, "tensor"),
}  # fmt: skip
_BULK = frozenset(("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP"))
_SASS_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "96": 12, "128": 16, "256": 32}
_SASS_WIDTH = re.compile(r"\.(?:ENL2\.)?[USFB]?(8|16|32|64|96|128|256)\b")
_SASS_PACKED = re.compile(r"\.B?F(16|32)x([248])\b")
_SASS_VECTOR = re.compile(r"F32x|F16x|_V[48]|VEC")
_MATRIX = re.compile(r"\.MT?88\b")
_GUARD = re.compile(r"\A\s*(?:/\*[0-9a-f]+\*/\s*)?(?:\{\s*)?@")


@dataclass(frozen=True, slots=True)
class Access:
    """Instructions of one kind, space and width.

    ``kind`` is load, store, copy (global to shared memory, asynchronous), atomic or reduction;
    ``space`` global, shared, local, generic or tensor. ``width`` is in bytes a thread, None where
    it does not stand in the instruction (the copies of the tensor memory accelerator move boxes,
    one thread for all). ``guarded`` of the ``count`` stand under a predicate. ``lines`` are where.
    """

    kind: str
    space: str
    width: int | None
    count: int
    guarded: int
    lines: tuple[int, ...]


def accesses(listing: Listing, function: Function) -> tuple[Access, ...]:
    """What a function of PTX or SASS loads and stores, in the order it first does."""
    found: dict[tuple[str, str, int | None], list[Line]] = {}
    read = {"ptx": _ptx, "sass": _sass}.get(listing.language)
    if read is None:
        return ()
    for line in instructions(listing, function):
        what = read(line)
        if what is not None:
            found.setdefault(what, []).append(line)
    return tuple(
        Access(*what, len(held), sum(1 for x in held if guarded(x)), tuple(x.n for x in held))
        for what, held in found.items()
    )


def guarded(line: Line) -> bool:
    """Whether an instruction of PTX or SASS stands under a predicate."""
    return _GUARD.match(line.text) is not None


def total(found: Iterable[Access], kinds: Iterable[str], space: str) -> int | None:
    """Bytes a thread, every access once; None where the width of one is not known."""
    wanted = frozenset(kinds)
    out = 0
    for access in found:
        if access.kind in wanted and access.space == space:
            if access.width is None:
                return None
            out += access.width * access.count
    return out


def _ptx(line: Line) -> tuple[str, str, int | None] | None:
    opcode, base = line.opcode or "", line.base or ""
    parts = opcode.split(".")
    if base == "cp":
        return _ptx_copy(opcode, line.text)
    if base == "tcgen05" and parts[1:2] in (["ld"], ["st"]):
        many = len(line.defs) if parts[1] == "ld" else None
        return (LOAD if parts[1] == "ld" else STORE, "tensor", 4 * many if many else None)
    kind = _MULTIMEM.get(parts[1]) if base == "multimem" and len(parts) > 1 else _PTX.get(base)
    if kind is None:
        return None
    space = next((s for part in parts[1:] if (s := part.partition("::")[0]) in _SPACES), "generic")
    if space in ("param", "const"):
        return None
    if base in ("ldmatrix", "stmatrix"):
        times = _TIMES.search(opcode)
        return kind, space, 4 * int(times[1]) if times and ".m8n8" in opcode else None
    if base == "multimem":
        space = "global"
    return kind, space, _ptx_width(opcode)


def _ptx_width(opcode: str) -> int | None:
    types = list(_TYPE.finditer(opcode))
    if not types:
        return None
    found = types[-1]
    bits = int(found[1]) * (2 if found[2] else 1)
    vector = _VECTOR.search(opcode)
    return bits * (int(vector[1]) if vector else 1) // 8


def _ptx_copy(opcode: str, text: str) -> tuple[str, str, int | None] | None:
    """``cp.async``, ``cp.async.bulk`` and its tensor form; not the waiting and committing."""
    parts = opcode.split(".")
    if parts[1:2] != ["async"] or len(parts) < 3:
        return None
    spaces = [p.partition("::")[0] for p in parts if p.partition("::")[0] in _SPACES]
    if "prefetch" in parts or len(spaces) < 2:
        return None
    size = _SIZE.search(text) if "bulk" not in parts else None
    width = int(size[1], 0) if size and not size[1].startswith("00") else None
    if "reduce" in parts:
        return REDUCTION, spaces[0], width
    if spaces[0] == "global":
        return STORE, "global", width
    return (COPY if spaces[1] == "global" else STORE), spaces[1], width


def _sass(line: Line) -> tuple[str, str, int | None] | None:
    opcode, base = line.opcode or "", line.base or ""
    known = _SASS.get(base)
    if known is None or (base in ("LDS", "LDG") and not line.defs):  # RZ: for its side effects
        return None
    if base in _BULK:
        return *known, None
    if base in ("LDSM", "STSM"):
        many = opcode.rpartition(".")[2]
        if not _MATRIX.search(opcode):
            return *known, None
        return *known, 4 * int(many) if many in ("2", "4") else 4
    if base in ("LDTM", "STTM"):
        many_registers = len(line.defs) if base == "LDTM" else 0
        return *known, 4 * many_registers or None
    if packed := _SASS_PACKED.search(opcode):  # a vector of numbers: of atomics and reductions
        return *known, int(packed[1]) * int(packed[2]) // 8
    if _SASS_VECTOR.search(opcode):
        return *known, None
    width = _SASS_WIDTH.search(opcode)
    return *known, _SASS_BYTES[width[1]] if width else 4
