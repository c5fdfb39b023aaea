"""Pieces of PTX sentences on matrices: ``mma``, ``wgmma``, ``ldmatrix``, ``tcgen05``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from inspector.analysis.sentences import descriptors
from inspector.analysis.sentences.forms import LinearForm
from inspector.analysis.sentences.ptx_pieces import Pieces
from inspector.parsers.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    RegisterOperand,
    SymbolOperand,
    VectorOperand,
)

_SHAPE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)k(\d{1,9}+)(?!\d)\Z")
_TILE = re.compile(r"m(\d{1,9}+)(?!\d)n(\d{1,9}+)(?!\d)\Z")
_PACKED_TILE = re.compile(r"b([46])x16_p\d+\Z")
"""``b4x16_p64``: elements of 4 bits, 16 of them and padding."""
_MANY = re.compile(r"x([124])\Z")
_TENSOR_MEMORY = re.compile(r"\d+x\d+b(?:x2)?\Z|x\d+\Z")


def shape(pieces: Pieces) -> str:
    shape = pieces.match_part(_SHAPE)
    if shape is None:
        return "matrices"
    m, n, k = shape.groups()
    types = pieces.types
    if len(types) == 2 and pieces.parts[0] == "wmma":  # the sums' alone: the factors are f16
        types = (types[0], "f16", "f16")
        pieces.type_at(0)
    if len(types) >= 3:
        for index in range(min(3, len(pieces.types))):
            pieces.type_at(index)
        text = f"{m}×{k} {types[1]} by {k}×{n} {types[2]}, sums of {m}×{n} in {types[0]}"
        if len(types) > 3 and pieces.type_at(3) != types[0]:
            text += f", added to {types[3]}"
        return text
    return f"{m}×{k} by {k}×{n}" + (f" in {pieces.type_at(0)}" if types else "")


def share(pieces: Pieces) -> str:
    """Which matrix ``wmma.load`` and ``wmma.store`` move."""
    shape = pieces.match_part(_SHAPE)
    matrix = pieces.any_of(("a", "b", "c", "d"))
    if shape is None or not matrix:
        return "a matrix"
    m, n, k = shape.groups()
    size = {"a": f"{m}×{k}", "b": f"{k}×{n}"}.get(matrix, f"{m}×{n}")
    return f"matrix {matrix.upper()}, {size} {pieces.type_at(-1)}".rstrip()


def tiles(pieces: Pieces) -> str:
    tile = pieces.match_part(_TILE)
    multiplicity = pieces.match_part(_MANY)
    size = f"{tile[1]}×{tile[2]} " if tile else ""
    several = f"{multiplicity[1] if multiplicity else 'several'} {size}matrices"
    matrices = f"one {size}matrix" if multiplicity and multiplicity[1] == "1" else several
    if packed := pieces.match_part(_PACKED_TILE):
        widened = " (widened to 8 bits)" if pieces.has("b8x16") else ""
        return f"{matrices} of {packed[1]}-bit elements{widened}"
    bits = pieces.type_at(-1)[1:]
    return f"{matrices} of {bits}-bit elements" if bits else matrices


def each_lane(pieces: Pieces) -> str:
    tile = pieces.match_part(_TILE)
    multiplicity = pieces.match_part(_MANY)
    # A row of 16 bytes each: a transposed 16×8 matrix of bytes has eight of them.
    rows = int(tile[1]) if tile and pieces.parts[0] == "ldmatrix" else 8
    lanes = (int(multiplicity[1]) if multiplicity else 1) * rows
    return f"0…{min(32, lanes) - 1}"


def layouts(pieces: Pieces) -> str:
    """The layouts of A and B: ``.row.col``."""
    layouts = [n for n, part in enumerate(pieces.parts) if part in ("row", "col")]
    pieces.speak_of(layouts)
    words = [f"{pieces.parts[n].replace('col', 'column')}s" for n in layouts]
    pairs = zip(("A", "B"), words, strict=False)
    return ", ".join(f"{matrix} by {word}" for matrix, word in pairs) or "as they lie"


def widening(pieces: Pieces) -> str:
    """Elements of 4 or 6 bits that become bytes: ``.b8x16.b4x16_p64``."""
    packed = pieces.match_part(_PACKED_TILE)
    if packed is None:
        return ""
    pieces.has("b8x16")
    return f"elements of {packed[1]} bits widened to 8"


def wgmma_sum(pieces: Pieces) -> str:
    product = factors(pieces, 3)
    d = pieces.result_text() or "its registers"
    scale = pieces.arg(2)
    adds = True if scale is None else pieces.number(2)  # None: a predicate says so
    if isinstance(scale, RegisterOperand):
        condition = pieces.reading.values.condition(scale.name)
        adds = condition.always if condition is not None else None
    if adds is None:
        return f"{d} = {product}, + what it was if {pieces.argument(2)}"
    return f"{d} += {product}" if adds else f"{d} = {product}"


def factors(pieces: Pieces, signs: int) -> str:
    """The product of ``wgmma``, with its signs from this argument on."""
    orders(pieces)  # a flag of 0 needs no word
    a = f"{negated(pieces, signs)}{pieces.argument(0)}"
    return f"{a} · {negated(pieces, signs + 1)}{pieces.argument(1)}"


def negated(pieces: Pieces, index: int) -> str:
    """The sign of a factor of ``wgmma``, whose immediate is 1 or −1."""
    return "−" if pieces.number(index) == -1 else ""


def orders(pieces: Pieces) -> str:
    """The layouts of ``wgmma``'s matrices in shared memory: 1 is transposed, for 16-bit types."""
    first = 7 if "sp" in pieces.parts else 5
    flags = [pieces.number(n) == 1 for n in range(first, len(pieces.args))]
    matrices = ("A", "B")[2 - len(flags) :]  # A in registers has no flag
    names = [name for name, flag in zip(matrices, flags, strict=False) if flag]
    return f"{' and '.join(names)} transposed" if names else ""


def tensor_memory(pieces: Pieces) -> str:
    """The shape and the repetitions that ``tcgen05.ld`` and its like move."""
    matching = [n for n, part in enumerate(pieces.parts) if _TENSOR_MEMORY.match(part)]
    pieces.speak_of(matching)
    return ", ".join(pieces.parts[n] for n in matching)


def columns(pieces: Pieces) -> str:
    """How many columns ``tcgen05.alloc`` takes: a number where that is known."""
    form = pieces.value_of(1)
    text = pieces.argument(1)
    if form is None or form.number is None or text == str(form.number):
        return text
    return f"{form.number} ({text})"


def mma_rest(pieces: Pieces) -> list[int]:
    """The places of ``tcgen05.mma``'s arguments after the instruction descriptor."""
    return list(range(5 if "sp" in pieces.parts else 4, len(pieces.args)))


def enable(pieces: Pieces) -> str:
    kinds = RegisterOperand | ImmediateOperand | SymbolOperand
    places = [n for n in mma_rest(pieces) if isinstance(pieces.args[n], kinds)]
    return pieces.argument(places[0]) if places else ""


def descriptor(pieces: Pieces) -> str:
    return pieces.argument(descriptors.descriptor_place(pieces.parts))


def instruction_text(pieces: Pieces) -> str:
    """The meaning of an instruction descriptor's known bits."""
    form = pieces.value_of(descriptors.descriptor_place(pieces.parts))
    if form is None:
        return ""
    kind = descriptors.instruction_kind(pieces.parts)
    return descriptors.instruction(form, kind, pieces.reading.templates.descriptors)


def matrix_text(pieces: Pieces, index: int) -> str:
    """Where a matrix is in shared memory and how, by the known bits of its descriptor."""
    table = pieces.reading.templates.descriptors.get("matrix", {}).get(pieces.parts[0])
    form = pieces.value_of(index)
    if table is None or form is None:
        return ""
    wording = pieces.reading.wording

    def address_text(address: LinearForm) -> str:
        is_known = address.number is not None or wording.is_address(address)
        return wording.form(address, pieces.instruction.line) if is_known else ""

    return descriptors.matrix(form, table, address_text)


def layout(pieces: Pieces, matrix: int) -> str:
    """A's (0) or B's (1) descriptor; of ``tcgen05`` the sums are an operand before them."""
    return matrix_text(pieces, matrix + (pieces.parts[0] == "tcgen05"))


def metadata(pieces: Pieces) -> str:
    return pieces.argument(3) if pieces.has("sp") else ""


def scales(pieces: Pieces) -> str:
    """Where the scales of A and B are, with ``.block_scale``."""
    if not pieces.has("block_scale"):
        return ""
    addresses = [n for n in mma_rest(pieces) if isinstance(pieces.args[n], AddressOperand)]
    return " and ".join(pieces.argument(n) for n in addresses[:2])


def lane_mask(pieces: Pieces) -> str:
    vectors = [n for n in mma_rest(pieces) if isinstance(pieces.args[n], VectorOperand)]
    return pieces.argument(vectors[0]) if vectors else ""


def accumulation(pieces: Pieces) -> str:
    condition = enable(pieces)
    if not condition:
        return ""
    scale = last_of_mma(pieces)
    return f"+ itself{f' × 2^−{scale}' if scale else ''} if {condition}"


def last_of_mma(pieces: Pieces) -> str:
    """What follows the predicate: a scale of D, or with ``.ws`` a mask of columns."""
    kinds = RegisterOperand | ImmediateOperand | SymbolOperand
    places = [n for n in mma_rest(pieces) if isinstance(pieces.args[n], kinds)]
    return pieces.argument(places[1]) if len(places) > 1 else ""


MATRIX_PIECES: Mapping[str, Callable[[Pieces], str]] = {
    "shape": shape,
    "share": share,
    "tiles": tiles,
    "eachlane": each_lane,
    "sum": wgmma_sum,
    "spfactors": lambda pieces: factors(pieces, 5),
    "orders": orders,
    "layouts": layouts,
    "widening": widening,
    "tmem": tensor_memory,
    "enable": enable,
    "accumulation": accumulation,
    "splitoffset": lambda pieces: pieces.argument(1) if len(pieces.args) > 2 else "",
    "descriptor": descriptor,
    "described": instruction_text,
    "layouta": lambda pieces: layout(pieces, 0),
    "layoutb": lambda pieces: layout(pieces, 1),
    "stored": lambda pieces: layout(pieces, 0),
    "columns": columns,
    "metadata": metadata,
    "scales": scales,
    "lanemask": lane_mask,
    "afterenable": last_of_mma,
}
