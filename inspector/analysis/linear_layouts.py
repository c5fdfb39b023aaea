"""Which thread holds which element of a TTGIR tensor, from the tensor's encoding.

As Triton does it: an index of a register, a lane or a warp is written in bits, each bit has a place
in the tensor (a basis), and the element is the exclusive or of those of the bits that are set.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from inspector.parsers.line import Line

Basis = tuple[int, ...]
Shape = tuple[int, ...]
Attribute = Mapping[str, object]
"""The fields of an encoding: numbers, lists, and the encoding of its ``parent``."""

MAX_BITS = 20
"""Bits of an index: a larger tensor is no tile of a kernel."""
LANES_BITS = 5
MMA_QUAD_BITS = 2
MMA_ROW_BITS = 3
"""Lanes of a warp are four in a row of a product's fragment, and eight rows."""


class LinearLayout(Struct, frozen=True):
    """The places of the bits of an index, the lowest first; a place of zeros repeats elements."""

    registers: tuple[Basis, ...]
    lanes: tuple[Basis, ...]
    warps: tuple[Basis, ...]

    def element(self, register: int, lane: int, warp: int) -> Basis:
        """The coordinates of what a register of a thread holds."""
        rank = len((self.registers + self.lanes + self.warps)[0])
        place = [0] * rank
        for index, bases in ((register, self.registers), (lane, self.lanes), (warp, self.warps)):
            for bit, basis in enumerate(bases):
                if index >> bit & 1:
                    place = [a ^ b for a, b in zip(place, basis, strict=True)]
        return tuple(place)

    @property
    def copies(self) -> int:
        """How many threads hold each element."""
        return 1 << sum(not any(basis) for basis in self.lanes + self.warps)

    @property
    def elements_a_thread(self) -> int:
        return 1 << sum(any(basis) for basis in self.registers)


# -- from encodings ---------------------------------------------------------------------------


def layout_of_encoding(encoding: Attribute, shape: Shape) -> LinearLayout | None:
    """The layout of a tensor of a shape; None of an encoding that this does not know."""
    try:
        builder = _unsized(encoding, shape)
        return None if builder is None else builder.sized(shape)
    except (TypeError, ValueError, IndexError, KeyError):
        return None


class _Builder:
    """Bases that are appended: those of a dimension follow what it has so far."""

    def __init__(self, rank: int) -> None:
        self.sizes = [0] * rank
        self.bases: dict[str, list[Basis]] = {"register": [], "lane": [], "warp": []}

    def add(self, kind: str, dimension: int, bits: int, repeats: bool = False) -> None:
        """Append bits along a dimension; ``repeats``: they stay at one place."""
        if not 0 <= bits <= MAX_BITS or self.sizes[dimension] + bits > MAX_BITS:
            raise ValueError(bits)
        for _ in range(bits):
            place = [0] * len(self.sizes)
            if not repeats:
                place[dimension] = 1 << self.sizes[dimension]
                self.sizes[dimension] += 1
            self.bases[kind].append(tuple(place))

    def add_all(self, kind: str, sizes: Sequence[int], order: Sequence[int]) -> None:
        for dimension in order:
            self.add(kind, dimension, _bits(sizes[dimension]))

    def sized(self, shape: Shape) -> LinearLayout:
        """Repeat what a tensor is larger by, and let what it is smaller by stay at one place."""
        for dimension, size in enumerate(shape):
            missing = _bits(size) - self.sizes[dimension]
            if missing > 0:
                self.add("register", dimension, missing)
        fitted = {
            kind: tuple(
                tuple(p if p < size else 0 for p, size in zip(basis, shape, strict=True))
                for basis in bases
            )
            for kind, bases in self.bases.items()
        }
        return LinearLayout(fitted["register"], fitted["lane"], fitted["warp"])


def _unsized(encoding: Attribute, shape: Shape) -> _Builder | None:
    build = _BUILDERS.get(str(encoding["kind"]))
    return None if build is None or _is_of_cluster(encoding) else build(encoding, shape)


def _is_of_cluster(encoding: Attribute) -> bool:
    """Whether a tensor is shared out among the blocks of a cluster."""
    parent = encoding.get("parent")
    if isinstance(parent, Mapping) and _is_of_cluster(parent):
        return True
    counts = encoding.get("CTAsPerCGA", [])
    has_several = isinstance(counts, list) and any(count != 1 for count in counts)
    return has_several or bool(encoding.get("CGALayout")) or bool(encoding.get("block"))


def _blocked(encoding: Attribute, shape: Shape) -> _Builder:
    order = _numbers(encoding["order"])
    builder = _Builder(len(shape))
    builder.add_all("register", _numbers(encoding["sizePerThread"]), order)
    builder.add_all("lane", _numbers(encoding["threadsPerWarp"]), order)
    builder.add_all("warp", _numbers(encoding["warpsPerCTA"]), order)
    return builder


def _linear(encoding: Attribute, shape: Shape) -> _Builder:
    builder = _Builder(len(shape))
    for kind in builder.bases:
        rows = encoding[kind]
        if not isinstance(rows, list) or len(rows) > MAX_BITS:
            raise ValueError(kind)
        builder.bases[kind] = [_numbers(row) for row in rows]
    for basis in builder.bases["register"] + builder.bases["lane"] + builder.bases["warp"]:
        if len(basis) != len(shape):
            raise ValueError(basis)
        for dimension, place in enumerate(basis):
            builder.sizes[dimension] = max(builder.sizes[dimension], place.bit_length())
    return builder


def _mma(encoding: Attribute, shape: Shape) -> _Builder:
    """The accumulator of a product: pairs of elements, four lanes in a row, eight rows."""
    tile = _numbers(encoding["instrShape"])[:2]
    builder = _fragment(tile, pair=2, inner=1)
    builder.add_all("warp", _numbers(encoding["warpsPerCTA"]), _warp_order(encoding))
    return builder


def _dot_operand(encoding: Attribute, shape: Shape) -> _Builder | None:
    """An operand of a product; warps that need the same of it hold it each."""
    parent = encoding["parent"]
    width = encoding["kWidth"]
    first = encoding["opIdx"] == 0
    if not isinstance(parent, Mapping) or not isinstance(width, int):
        return None
    if parent["kind"] != "nvidia_mma" or _version(parent) not in (2, 3):
        return None
    inner = 1 if first else 0
    tile = (16, 8 * width) if first else (8 * width, 8)
    builder = _fragment(tile, width, inner)
    warps = _numbers(parent["warpsPerCTA"])
    for dimension in _warp_order(parent):
        builder.add("warp", dimension, _bits(warps[dimension]), repeats=dimension == inner)
    return builder


def _fragment(tile: Sequence[int], pair: int, inner: int) -> _Builder:
    """One instruction's share of a matrix: ``pair`` elements of a thread are side by side."""
    outer = 1 - inner
    builder = _Builder(2)
    builder.add("register", inner, _bits(pair))
    builder.add("lane", inner, MMA_QUAD_BITS)
    builder.add("lane", outer, MMA_ROW_BITS)
    for dimension in (inner, outer):
        remaining = _bits(tile[dimension]) - builder.sizes[dimension]
        builder.add("register", dimension, max(remaining, 0))
    return builder


def _slice(encoding: Attribute, shape: Shape) -> _Builder | None:
    """A row or column of the parent's tensor: the others hold the same."""
    parent = encoding["parent"]
    removed = encoding["dim"]
    if not isinstance(parent, Mapping) or not isinstance(removed, int) or removed > len(shape):
        return None
    layout = layout_of_encoding(parent, (*shape[:removed], 1, *shape[removed:]))
    if layout is None:
        return None
    builder = _Builder(len(shape))
    for kind, bases in zip(
        builder.bases, (layout.registers, layout.lanes, layout.warps), strict=True
    ):
        builder.bases[kind] = [basis[:removed] + basis[removed + 1 :] for basis in bases]
    builder.sizes = [_bits(size) for size in shape]
    return builder


_BUILDERS = {
    "blocked": _blocked,
    "linear": _linear,
    "nvidia_mma": _mma,
    "dot_op": _dot_operand,
    "slice": _slice,
}


def _version(encoding: Attribute) -> object:
    return encoding["versionMajor"]


def _warp_order(encoding: Attribute) -> tuple[int, ...]:
    """The dimension along which warps follow each other first: Hopper's rows, others' columns."""
    if _version(encoding) not in (2, 3):
        raise ValueError(encoding)
    return (0, 1) if _version(encoding) == 3 else (1, 0)


def _bits(size: int) -> int:
    """``5`` of 32. Raises ``ValueError`` where a size is no power of two."""
    if size < 1 or size & (size - 1):
        raise ValueError(size)
    return size.bit_length() - 1


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise ValueError(value)
    return tuple(value)


# -- from text --------------------------------------------------------------------------------

_ALIAS = re.compile(r"(#[\w$]+) = (#\w+\.\w+<\{.*\}>)\s*\Z")
"""``#mma = #ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 1], instrShape = [16, 64]}>``"""
_ENCODING = re.compile(r"#\w+\.(\w+)<\{(.*)\}>\Z")
_FIELD = re.compile(
    r"(?<!\w)(\w++) = (\[(?:[\d, ]|\[[\d, ]*+\])*+\]|\w++"
    r"|#[\w.$]++(?:<\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}>)?+)"
)
"""``parent = #mma``, ``dim = 1``, ``lane = [[0, 1], [0, 2]]``, a nested ``#ttg.slice<{…}>``"""
_TENSOR = re.compile(r"tensor<((?:\d{1,9}x)++)[^,<>]*+(?:<[^<>]*+>)?+, (#[^>]*+(?:>(?=>))?)")
"""``tensor<64x32xf16, #blocked>``, ``tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>``"""
MAX_NESTED_ENCODINGS = 4


class TensorLayout(Struct, frozen=True):
    """A tensor's shape and encoding, as TTGIR writes them."""

    shape: Shape
    encoding: str


def aliases(lines: Iterable[Line]) -> dict[str, str]:
    """The encodings that a listing has names for; they precede the module."""
    found: dict[str, str] = {}
    for line in lines:
        if line.text.startswith("module"):
            break
        match = _ALIAS.match(line.text)
        if match is not None:
            found[match[1]] = match[2]
    return found


def tensor_of(line: Line) -> TensorLayout | None:
    """The last tensor of a line that has an encoding, which is that of its result."""
    matches = _TENSOR.findall(line.text.partition(" loc(")[0])
    if not matches:
        return None
    sizes, encoding = matches[-1]
    return TensorLayout(tuple(int(size) for size in sizes.split("x") if size), encoding)


def encoding_of(text: str, names: Mapping[str, str], depth: int = 0) -> Attribute | None:
    """The fields of an encoding by its name or its text."""
    match = _ENCODING.match(names.get(text, text))
    if match is None or depth > MAX_NESTED_ENCODINGS:
        return None
    fields: dict[str, object] = {"kind": match[1]}
    for name, value in _FIELD.findall(match[2]):
        if value.startswith("#"):
            fields[name] = encoding_of(value, names, depth + 1)
        elif value.startswith("["):
            try:
                fields[name] = json.loads(value)
            except ValueError:
                return None
        else:
            fields[name] = int(value) if value.isdecimal() and len(value) < 10 else value
    return fields
