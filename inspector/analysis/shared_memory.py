"""Allocations of shared and tensor memory: who takes a block's bytes, and where if that is known.

Of a Triton kernel they are operations of TTGIR, whose sizes follow from their types; where each
begins is known from the pass on that allocates them. Of CUDA C++ they are the variables that its
PTX declares, whose places ptxas does not tell.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from operator import attrgetter
from pathlib import PurePath
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from inspector.base.model import Stage
from inspector.base.names import static_name
from inspector.base.units import plural
from inspector.parsers import parse
from inspector.parsers.line import Function, Line, Listing
from inspector.parsers.ptx_statement import PtxVariable, read_variable

SHARED = "shared"
TENSOR = "tensor"
TENSOR_LANES = 128
"""Lanes of tensor memory, each of 32 bits a column (PTX ISA, "Tensor Memory")."""
COLUMN_BITS = 32
SCALE_ROWS = 32
SCALE_BYTES = 4

_OPERATION = re.compile(r"\s*(?P<name>%[\w.$-]+) = (?:ttg|triton_gpu|ttng|triton_nvidia_gpu)\.")
"""``    %a_3 = ttg.local_alloc {allocation.offset = 0 : i32} : () -> !ttg.memdesc<…>``"""
_ALLOCATES = re.compile(r"\.(?:local|tmem)_alloc\b")
_TYPE = re.compile(
    r"!\w{1,40}+\.memdesc<(?P<shape>(?:\d{1,9}x){1,16})(?P<element>[\w!.]{1,80}+)(?:<[^>]{0,200}+>)?+"
    r", (?P<encoding>#\w+)"
)
"""``!ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>``"""
_OFFSET = re.compile(r"\ballocation\.offset = (\d{1,9})\b")
_SIZE = re.compile(r"\ballocation\.size = (\d{1,9})\b")
_COLUMN = re.compile(r"\btensor_memory_col_offset = (\d{1,9})\b")
_ALIAS = re.compile(r"(?P<name>#\w+) = #(?P<encoding>.*)")
"""``#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, fp4Padded = true}>``"""
_BLOCKS = re.compile(r'"?(?:ttg|triton_gpu)\.num-ctas"? = (\d{1,9})')
_BITS = re.compile(r"[a-z]+(\d{1,9})")
_ROWS = re.compile(r"blockM = (\d{1,9}), blockN = \d+, (?:unpacked = true|colStride = (\d{1,9}))")
"""Of ``#ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>``."""


class Allocation(Struct, frozen=True):
    """What one operation or variable takes of a block's shared memory, or of tensor memory.

    ``offset`` is the first byte, of tensor memory the first column.
    """

    name: str
    memory: Annotated[str, Meta(description="`shared` or `tensor`")]
    bytes: Annotated[int | None, Meta(description="null of tensor memory")]
    columns: Annotated[int | None, Meta(description="null of shared memory")]
    offset: Annotated[int | None, Meta(description="first byte or column, if known")]
    shape: tuple[int, ...]
    element: str
    dynamic: Annotated[bool, Meta(description="whether its bytes are the launch's")]
    stage: Stage
    line: int
    source: Annotated[str | None, Meta(description="file and line of the program")]

    def text(self) -> str:
        """``196,608 bytes at byte 98,304: 6×64×256 f16, matmul.py:14``."""
        shape = "×".join(map(str, self.shape))
        parts = [f"{shape} {self.element}".strip()]
        if self.source is not None:
            parts.append(self.source)
        return f"{self._amount()}: {', '.join(parts)}"

    def _amount(self) -> str:
        unit = "column" if self.memory == TENSOR else "byte"
        count = self.columns if self.memory == TENSOR else self.bytes
        amount = "size unknown" if count is None else plural(count, unit)
        if count is None and self.stage is Stage.PTX:
            amount = "as many bytes as the launch asks for"
        return amount if self.offset is None else f"{amount} at {unit} {self.offset:,}"


MAX_ELEMENTS = 1 << 32
"""More than any memory of a block: what a damaged file may say."""
MAX_NAMED = 3
"""Allocations that a sentence on a lack of memory names."""


def largest(found: Sequence[Allocation], memory: str) -> str:
    """``%b_1 196,608 bytes: 6×64×256 f16, matmul.py:14; …``: those that take most of a memory."""
    texts = [f"{each.name} {each.text()}" for each in found if each.memory == memory]
    hidden = len(texts) - MAX_NAMED
    further = [f"and {hidden} more"] if hidden > 0 else []
    return "; ".join(texts[:MAX_NAMED] + further)


def allocations(listings: Mapping[Stage, tuple[Listing, Function]]) -> tuple[Allocation, ...]:
    """The allocations of a kernel, the largest first; of its TTGIR, else of its PTX."""
    found: Iterable[Allocation] = ()
    if Stage.TTGIR in listings:
        found = _of_ttgir(*listings[Stage.TTGIR])
    elif Stage.PTX in listings:
        found = _of_ptx(*listings[Stage.PTX])
    return tuple(sorted(found, key=_largest_first))


def _largest_first(allocation: Allocation) -> tuple[str, int, int]:
    return (
        allocation.memory,
        -(allocation.bytes or allocation.columns or 0),
        allocation.line,
    )


PLACED = "allocation.offset = "
"""What the text of a TTGIR has whose allocations have places."""


def with_places(found: Sequence[Allocation], placed: str) -> tuple[Allocation, ...]:
    """Allocations with the places that they have in a later TTGIR of the same kernel.

    As they were found, unless both have the same tensors in the same order; their names differ
    where operations were added between them.
    """
    listing = parse(Stage.TTGIR, placed)
    function = next(iter(listing.functions), None)
    if function is None:
        return tuple(found)
    later = _in_order(allocations({Stage.TTGIR: (listing, function)}))
    earlier = _in_order(found)
    if [_tensor(each) for each in earlier] != [_tensor(each) for each in later]:
        return tuple(found)
    offsets = {each.line: match.offset for each, match in zip(earlier, later, strict=True)}
    return tuple(replace(each, offset=offsets.get(each.line)) for each in found)


def _in_order(found: Iterable[Allocation]) -> list[Allocation]:
    """The tensors among allocations, without what operations take while they run."""
    return sorted((each for each in found if each.shape), key=attrgetter("line"))


def _tensor(allocation: Allocation) -> tuple[str, tuple[int, ...], str]:
    return allocation.memory, allocation.shape, allocation.element


# -- TTGIR ------------------------------------------------------------------------------------


def _of_ttgir(listing: Listing, function: Function) -> Iterator[Allocation]:
    encodings: dict[str, str] = {}
    has_cluster = False
    for line in listing.between(1, function.first):
        alias = _ALIAS.match(line.text)
        if alias is not None:
            encodings[alias["name"]] = alias["encoding"]
        blocks = _BLOCKS.search(line.text)
        has_cluster = has_cluster or (blocks is not None and int(blocks[1]) > 1)
    for line in listing.between(function.first, function.last):
        operation = _OPERATION.match(line.text)
        if operation is None:
            continue
        if _ALLOCATES.search(line.text):
            yield from _allocated(line, operation["name"], encodings, has_cluster)
        elif (size := _SIZE.search(line.text)) is not None:
            yield _scratch(line, operation["name"], int(size[1]))


def _allocated(
    line: Line, name: str, encodings: Mapping[str, str], has_cluster: bool
) -> Iterator[Allocation]:
    types = list(_TYPE.finditer(line.text))
    if not types:
        return
    kind = types[-1]  # the result's
    shape = tuple(int(size) for size in kind["shape"].rstrip("x").split("x"))
    encoding = encodings.get(kind["encoding"], "")
    is_tensor = ".tmem_alloc" in line.text
    bits = _element_bits(kind["element"])
    size = columns = None
    is_plausible = prod(shape) <= MAX_ELEMENTS
    # The blocks of a cluster share a tensor among them: each has a part of it.
    if bits is not None and is_plausible and not has_cluster:
        if is_tensor:
            columns = _columns(shape, bits, encoding)
        else:
            size = _bytes(shape, bits, encoding)
    offset = (_COLUMN if is_tensor else _OFFSET).search(line.text)
    yield Allocation(
        name=name,
        memory=TENSOR if is_tensor else SHARED,
        bytes=size,
        columns=columns,
        offset=None if offset is None else int(offset[1]),
        shape=shape,
        element=kind["element"],
        dynamic=True,
        stage=Stage.TTGIR,
        line=line.n,
        source=_source(line),
    )


def _scratch(line: Line, name: str, size: int) -> Allocation:
    """What an operation such as ``ttg.convert_layout`` takes while it runs."""
    offset = _OFFSET.search(line.text)
    return Allocation(
        name=name,
        memory=SHARED,
        bytes=size,
        columns=None,
        offset=None if offset is None else int(offset[1]),
        shape=(),
        element=f"for {line.base}",
        dynamic=True,
        stage=Stage.TTGIR,
        line=line.n,
        source=_source(line),
    )


def _element_bits(element: str) -> int | None:
    """The bits that an element takes: 16 of ``f16``, 8 of ``f8E4M3FN`` and of ``i1``."""
    match = _BITS.match(element)
    return None if match is None else max(8, int(match[1]))


def _bytes(shape: tuple[int, ...], bits: int, encoding: str) -> int | None:
    """The bytes of a tensor in shared memory; None of an encoding with gaps."""
    if "padded_shared" in encoding:
        return None
    elements = prod(shape) * (2 if "fp4Padded = true" in encoding else 1)
    return elements * bits // 8


def _columns(shape: tuple[int, ...], bits: int, encoding: str) -> int | None:
    """The columns of a matrix of one block of rows, or of blocks that take all lanes; else None.

    Of scales, each column has four bytes for 32 rows, the same in every quarter of the lanes.
    """
    if "scales_encoding" in encoding and len(shape) == 2:
        return -(-shape[0] // SCALE_ROWS) * -(-shape[1] // SCALE_BYTES)
    rows = _ROWS.search(encoding)
    if rows is None or len(shape) != 2 or int(rows[1]) not in (TENSOR_LANES, shape[0]):
        return None
    step = int(rows[2] or COLUMN_BITS // bits)
    return -(-shape[0] // TENSOR_LANES) * shape[1] * bits * step // COLUMN_BITS


def _source(line: Line) -> str | None:
    place = line.source
    return None if place is None else f"{PurePath(place.file).name}:{place.line}"


# -- PTX --------------------------------------------------------------------------------------

MAX_HEAD_LINES = 4096
"""Lines before a function in which its file's variables are looked for."""


def _of_ptx(listing: Listing, function: Function) -> Iterator[Allocation]:
    own_lines = listing.between(function.first, function.last)
    head = listing.between(max(1, function.first - MAX_HEAD_LINES), function.first - 1)
    for line in own_lines:
        variable = _shared_variable(line)
        if variable is not None:
            yield _variable(variable)
    for line in head:
        variable = _shared_variable(line)
        if variable is not None and any(variable.name in own.text for own in own_lines):
            yield _variable(variable)


def _shared_variable(line: Line) -> PtxVariable | None:
    """The variable of a line such as ``.extern .shared .align 16 .b8 dynamic[];``."""
    start = line.text.find(".shared")
    end = line.text.rfind(";")
    if start < 0 or end < start or line.opcode is not None:
        return None
    declared = line.text[start:end]
    if ".extern" in line.text:
        declared = f".extern {declared}"
    return read_variable(declared, line.n)


def _variable(variable: PtxVariable) -> Allocation:
    return Allocation(
        name=static_name(variable.name),
        memory=SHARED,
        bytes=None if variable.extern and not variable.size else variable.size,
        columns=None,
        offset=None,
        shape=(),
        element=f"{'dynamic' if variable.extern else 'static'}, aligned to {variable.align}",
        dynamic=variable.extern,
        stage=Stage.PTX,
        line=variable.line,
        source=None,
    )
