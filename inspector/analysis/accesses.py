"""A function's instructions by opcode, cost class, memory access and matrix product.

Widths are bytes a thread and an instruction. PTX: PTX ISA, "Data Movement and Conversion
Instructions" (state space, vector and type are in the opcode). SASS: the width is the opcode's
``.U8`` … ``.128``, 4 bytes if missing.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from inspector.base.names import words
from inspector.parsers import ptx_statement, sass_operands
from inspector.parsers.line import Function, Kind, Line, Listing

T = TypeVar("T")

_GUARD = re.compile(r"\A\s*(?:/\*[0-9a-f]+\*/\s*)?(?:\{\s*)?@")


def guarded(line: Line) -> bool:
    return "@" in line.text and _GUARD.match(line.text) is not None


class OpcodeLines:
    """The instructions of a function by opcode; ``guarded`` counts those with a predicate."""

    def __init__(self, listing: Listing, function: Function) -> None:
        self.listing = listing
        self.function = function
        self.by_opcode: dict[str, list[Line]] = {}
        self.guarded: Counter[str] = Counter()
        for line in listing.between(function.first, function.last):
            if line.opcode is None or line.kind is not Kind.INSTRUCTION:
                continue
            self.by_opcode.setdefault(line.opcode, []).append(line)
            self.guarded[line.opcode] += guarded(line)

    def count(self, matches: Callable[[str], object]) -> int:
        return sum(len(lines) for opcode, lines in self.by_opcode.items() if matches(opcode))

    def lines(self, matches: Callable[[str], object] = lambda _: True) -> Sequence[Line]:
        """The lines of the opcodes that are wanted, in order."""
        lines: list[Line] = []
        for opcode, opcode_lines in self.by_opcode.items():
            if matches(opcode):
                lines += opcode_lines
        return sorted(lines, key=lambda line: line.n)

    def with_bases(self, *bases: str) -> Sequence[Line]:
        """The lines whose opcode begins with one of these words: ``ld``, ``LDG``."""
        return self.lines(lambda opcode: base_of(opcode) in bases)

    def without_padding(self) -> Mapping[str, Sequence[Line]]:
        """Lines by opcode without the padding at the end of SASS."""
        end = before_padding(self.listing, self.function)
        unpadded = {
            op: [line for line in lines if line.n <= end] for op, lines in self.by_opcode.items()
        }
        return {opcode: lines for opcode, lines in unpadded.items() if lines}


def base_of(opcode: str) -> str:
    """``ld`` of ``ld.global.b32``."""
    return opcode.partition(".")[0]


def before_padding(listing: Listing, function: Function) -> int:
    """The last line of a function before what only fills SASS up to a boundary: a branch to itself
    and ``NOP``."""
    lines = listing.lines
    end = min(function.last, len(lines))
    first = max(function.first, 1)
    if listing.language != "sass":
        return end
    while end >= first and (lines[end - 1].opcode is None or lines[end - 1].base == "NOP"):
        end -= 1
    if end >= first and lines[end - 1].base == "BRA" and lines[end - 1].targets:
        n = end - 1
        while n >= first and lines[n - 1].kind is Kind.BLANK:
            n -= 1
        if n >= first and lines[n - 1].label in lines[end - 1].targets:
            end -= 1
    return end


# Its instructions by cost class and by opcode.
#
# Static counts: each instruction once, however often it is run.


class Mix(Struct, frozen=True):
    """Instructions of one function of PTX or SASS, counted as they stand.

    ``by_cost`` and ``by_opcode`` are pairs of a name and its count, the most frequent first;
    opcodes are bare (``ld``, ``LDG``). ``unclassed`` are those whose cost class is not known.
    """

    language: str
    total: int
    by_cost: tuple[tuple[str, int], ...]
    by_opcode: tuple[tuple[str, int], ...]
    unclassed: int


def mix(code: OpcodeLines, cost: Callable[[str], str | None]) -> Mix:
    """The mix of one function; ``cost`` gives the cost class of an opcode, None if not known."""
    costs: Counter[str | None] = Counter()
    bases: Counter[str] = Counter()
    for opcode, opcode_lines in code.without_padding().items():
        bases[base_of(opcode)] += len(opcode_lines)
        costs[cost(opcode)] += len(opcode_lines)
    unclassed = costs.pop(None, 0)
    by_cost = Counter({name: count for name, count in costs.items() if name is not None})
    return Mix(code.listing.language, bases.total(), _ordered(by_cost), _ordered(bases), unclassed)


def _ordered(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def instructions(listing: Listing, function: Function) -> Iterator[Line]:
    """The instructions of a function, without what only fills SASS up to a boundary at its end:
    a branch to itself and ``NOP``."""
    for line in listing.between(function.first, before_padding(listing, function)):
        if line.kind is Kind.INSTRUCTION and line.opcode is not None:
            yield line


# Which tensor-core shapes a kernel uses: PTX, SASS and Triton's TTGIR.
#
# A shape is that of one instruction: an m×k tile times a k×n tile. PTX ISA, "Warp Level Matrix
# Instructions", "Asynchronous Warpgroup Level Matrix Instructions", "TensorCore 5th Generation";
# SASS is undocumented, its shapes are in the opcodes as the digits of m, n and k.

_PTX_SHAPE = re.compile(r"\.m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\b")
_SASS_SHAPE = re.compile(r"\.(\d{1,9}+)(?!\d)x(\d{1,9}+)(?!\d)x(\d{1,9}+)(?!\d)\b")
_SASS_DIGITS = {
    "884": (8, 8, 4), "8816": (8, 8, 16), "8832": (8, 8, 32), "88128": (8, 8, 128),
    "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32),
    "16864": (16, 8, 64), "168128": (16, 8, 128), "168256": (16, 8, 256),
}  # fmt: skip
_SASS_PRODUCTS = words(
    "HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA "
    "UTCMXQMMA"
)
_DOTS = words(
    "tt.dot tt.dot_scaled ttng.warp_group_dot ttng.tc_gen5_mma ttng.tc_gen5_mma_scaled "
    "nvidia_gpu.warp_group_dot"
)
_TILE = re.compile(r"(?:tensor|memdesc)<((?:\d{1,9}+x)++)([a-zA-Z]\w*)")
_PTX_TYPES = re.compile(r"(?:tf32|bf16|f16|f32|f64|s32|s8|u8|s4|u4|b1|e\dm\d)")


class Product(Struct, frozen=True):
    """Matrix products of one opcode and shape.

    ``shape`` is (m, n, k), None if neither the instruction nor a constant descriptor has it.
    ``types`` are as they are written, the result's first in PTX and SASS.
    """

    opcode: str
    shape: tuple[int, int, int] | None
    types: tuple[str, ...]
    count: int
    lines: tuple[int, ...]


Key = tuple[str, tuple[int, int, int] | None, tuple[str, ...]]


def products(code: OpcodeLines) -> tuple[Product, ...]:
    """The matrix products of a function, in the order of their first."""
    languages = {"ptx": _ptx_product, "sass": _sass_product, "ttir": _dot, "ttgir": _dot}
    return tuple(
        Product(*fields, len(product_lines), tuple(line.n for line in product_lines))
        for fields, product_lines in _grouped(code, languages.get(code.listing.language)).items()
    )


def _grouped(code: OpcodeLines, read: Callable[[Line], T | None] | None) -> dict[T, list[Line]]:
    """The instructions of which ``read`` says the same, in order; nothing without it."""
    lines = sorted(chain(*code.without_padding().values()), key=attrgetter("n")) if read else ()
    grouped: dict[T, list[Line]] = {}
    for line in lines:
        fields = read(line) if read else None
        if fields is not None:
            grouped.setdefault(fields, []).append(line)
    return grouped


def _dot(line: Line) -> Key | None:
    if line.base not in _DOTS:
        return None
    shape = dot_shape(line.text)
    types = tuple(kind for _, kind in _TILE.findall(line.text)[:3])
    return line.base, shape[1:] if shape else None, types


def _ptx_product(line: Line) -> Key | None:
    parts = (line.opcode or "").split(".")
    name = "mma" if parts[0] == "mma" else ".".join(parts[:2])
    if name not in ("mma", "wgmma.mma_async", "wmma.mma", "tcgen05.mma"):
        return None
    types = tuple(p for p in parts if _PTX_TYPES.fullmatch(p))
    if name == "tcgen05.mma":
        types = tuple(p.partition("::")[2] for p in parts if p.startswith("kind::"))
    return name, _numbers(_PTX_SHAPE.search(line.opcode or "")), types


def _sass_product(line: Line) -> Key | None:
    base = line.base or ""
    opcode = line.opcode or ""
    if base not in _SASS_PRODUCTS:
        return None
    parts = opcode.split(".")[1:]
    shape = _numbers(_SASS_SHAPE.search(opcode))
    if shape is None:
        shape = next((_SASS_DIGITS[p] for p in parts if p in _SASS_DIGITS), None)
    return base, shape, tuple(p.lower() for p in parts if _PTX_TYPES.fullmatch(p.lower()))


def dot_shape(text: str) -> tuple[int, int, int, int] | None:
    """Batch, m, n and k of a ``tt.dot`` or one of its relatives, by the types of a and b."""
    tiles = [[int(d) for d in dims.split("x") if d] for dims, _ in _TILE.findall(text)]
    if len(tiles) < 2 or len(tiles[0]) < 2 or len(tiles[1]) < 2:
        return None
    a = tiles[0]
    b = tiles[1]
    return (prod(a[:-2]), a[-2], b[-1], a[-1]) if a[-1] == b[-2] else None


def _numbers(match: re.Match[str] | None) -> tuple[int, int, int] | None:
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


LOAD = "load"
STORE = "store"
COPY = "copy"
ATOMIC = "atomic"
REDUCTION = "reduction"

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


class Access(Struct, frozen=True):
    """Instructions of one kind, space and width.

    ``kind`` is load, store, copy (global to shared memory, asynchronous), atomic or reduction;
    ``space`` global, shared, local, generic or tensor. ``width`` is in bytes a thread, None if
    it is not in the instruction (the copies of the tensor memory accelerator move boxes,
    one thread for all). ``guarded`` of the ``count`` stand under a predicate. ``lines`` are where.
    """

    kind: str
    space: str
    width: int | None
    count: int
    guarded: int
    lines: tuple[int, ...]


def accesses(code: OpcodeLines) -> tuple[Access, ...]:
    """What a function of PTX or SASS loads and stores, in the order it first does."""
    read = {"ptx": _ptx, "sass": _sass}.get(code.listing.language)
    return tuple(
        Access(
            *fields,
            len(access_lines),
            sum(map(guarded, access_lines)),
            tuple(line.n for line in access_lines),
        )
        for fields, access_lines in _grouped(code, read).items()
    )


def total(accesses: Iterable[Access], kinds: Iterable[str], space: str) -> int | None:
    """Bytes a thread, every access once; None if the width of one is not known."""
    wanted_kinds = frozenset(kinds)
    those = [access for access in accesses if access.kind in wanted_kinds and access.space == space]
    if any(access.width is None for access in those):
        return None
    return sum(access.count * (access.width or 0) for access in those)


def _ptx(line: Line) -> tuple[str, str, int | None] | None:
    opcode = line.opcode or ""
    base = line.base or ""
    parts = opcode.split(".")
    if base == "cp":
        return _ptx_copy(opcode, line.text)
    if base == "tcgen05":
        return _tensor_memory(line, parts)
    kind = _MULTIMEM.get(parts[1]) if base == "multimem" and len(parts) > 1 else _PTX.get(base)
    if kind is None:
        return None
    spaces = _spaces(parts[1:])
    space = spaces[0] if spaces else "generic"
    if space in ("param", "const"):
        return None
    if base in ("ldmatrix", "stmatrix"):
        return kind, space, _matrix_bytes(opcode)
    if base == "multimem":
        space = "global"
    return kind, space, ptx_statement.access_bytes(parts)


def _spaces(parts: Iterable[str]) -> list[str]:
    """The memories that an opcode's parts name: ``shared`` of ``shared::cta``."""
    names = (part.partition("::")[0] for part in parts)
    return [name for name in names if name in _SPACES]


def _tensor_memory(line: Line, parts: Sequence[str]) -> tuple[str, str, int | None] | None:
    """``tcgen05.st`` and ``tcgen05.ld``."""
    if parts[1:2] == ["st"]:
        return STORE, "tensor", None
    if parts[1:2] == ["ld"]:
        return LOAD, "tensor", 4 * len(line.defs) or None
    return None


def _matrix_bytes(opcode: str) -> int | None:
    """Bytes a thread of ``ldmatrix`` and ``stmatrix``."""
    times = _TIMES.search(opcode)
    registers = 2 if ".m16n16" in opcode else 1
    return 4 * registers * int(times[1]) if times else None


def _ptx_copy(opcode: str, text: str) -> tuple[str, str, int | None] | None:
    """``cp.async``, ``cp.async.bulk`` and its tensor form; not the waiting and committing."""
    parts = opcode.split(".")
    if parts[1:2] != ["async"] or len(parts) < 3:
        return None
    spaces = _spaces(parts)
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
    opcode = line.opcode or ""
    base = line.base or ""
    kind = _SASS.get(base)
    if kind is None or (base in ("LDS", "LDG") and not line.defs):  # RZ: for its side effects
        return None
    return *kind, None if base in _BULK else sass_operands.access_bytes(opcode)
