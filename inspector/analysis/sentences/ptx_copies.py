"""Pieces of PTX sentences on asynchronous copies, tensor maps, textures and surfaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from inspector.analysis.sentences.ptx_pieces import Pieces
from inspector.parsers.ptx_statement import (
    AddressOperand,
    RegisterOperand,
    VectorOperand,
)

_DIMENSIONS = re.compile(r"([1-5])d\Z")
_IM2COL = re.compile(r"im2col(?:::|_|\Z)")
_POLICY = "L2::cache_hint"


def source(pieces: Pieces) -> str:
    """How much of what ``cp.async`` writes is read."""
    if len(pieces.args) - (_POLICY in pieces.parts) < 4:
        return ""
    size = pieces.arg(3)
    if isinstance(size, RegisterOperand) and pieces.reading.statements.bits(size.name) == 1:
        return f"if {pieces.argument(3)} nothing is read, and all are 0"
    return f"only {pieces.argument(3)} of them are read, the others are 0"


def tensor_place(pieces: Pieces) -> int:
    """Which address is a tensor map with its coordinates."""
    for n in range(len(pieces.address_places)):
        operand = pieces.instruction.operands[pieces.address_places[n]]
        if isinstance(operand, AddressOperand) and operand.further_operands:
            return n
    return 0


def tensor_map(pieces: Pieces) -> str:
    address = pieces.address(tensor_place(pieces))
    if address is None:
        return ""
    text = pieces.say(address.base)
    parameter = pieces.reading.values.parameter_behind(address)
    if parameter is None:
        return text
    described = parameter.tensor_map
    if described is None:
        return f"{text} ({parameter.shown})"
    return f"{text} ({parameter.name or described.argument}: {described.text(with_strides=False)})"


def coordinate_list(pieces: Pieces) -> list[str]:
    """The coordinates of a tensor map, a texture or a surface."""
    address = pieces.address(tensor_place(pieces))
    if address is None or not address.further_operands:
        return []
    vector = address.further_operands[-1]
    elements = vector.elements if isinstance(vector, VectorOperand) else (vector,)
    return [pieces.say(e) for e in elements]


def coordinates(pieces: Pieces) -> str:
    coordinate_texts = coordinate_list(pieces)
    return f" at {', '.join(coordinate_texts)}" if coordinate_texts else ""


def four_rows(pieces: Pieces) -> str:
    """``tile::gather4``: the first coordinate is the column, the others are the rows."""
    column, *rows = coordinate_list(pieces) or [""]
    if not rows:
        return ""
    return f"{', '.join(rows)} at column {column}"


def sampler(pieces: Pieces) -> str:
    address = pieces.address(tensor_place(pieces))
    if address is None or len(address.further_operands) < 2:
        return ""
    return pieces.say(address.further_operands[0])


def direction(pieces: Pieces) -> str:
    if tensor_place(pieces) == 0:
        pieces.space(0)
        return f"from {pieces.space(1)} at {pieces.address_text(1)}"
    pieces.space(1)
    return f"to {pieces.space()} at {pieces.address_text()}"


def completion(pieces: Pieces) -> str:
    if pieces.has("bulk_group"):
        return "it belongs to the group that is closed next"
    if not pieces.has("mbarrier::complete_tx::bytes"):
        return ""
    barrier = pieces.address_text(2)
    return f"the barrier at {barrier} counts the bytes" if barrier else ""


def after_barrier(pieces: Pieces) -> list[int]:
    """The places of a bulk copy's arguments after its barrier, or its size, without policy."""
    policy = policy_place(pieces) if _POLICY in pieces.parts else -1
    first = pieces.address_places[-1] - pieces.results + 1 if pieces.address_places else 0
    if "tensor" not in pieces.parts and len(pieces.address_places) < 3:
        first += 1  # the size
    return [n for n in range(first, len(pieces.args)) if n != policy]


def offsets(pieces: Pieces) -> str:
    """What ``im2col`` adds to the coordinates inside the box."""
    if not any(map(_IM2COL.match, pieces.parts)):
        return ""
    places = after_barrier(pieces)
    return pieces.argument(places[0]) if places and "im2col_no_offs" not in pieces.parts else ""


def multicast(pieces: Pieces) -> str:
    if not pieces.has("multicast::cluster"):
        return ""
    places = after_barrier(pieces)
    return pieces.argument(places[-1]) if places else ""


def byte_mask(pieces: Pieces) -> str:
    return pieces.argument(-1) if pieces.has("cp_mask") else ""


def policy_place(pieces: Pieces) -> int:
    """A byte mask is the only operand after a cache policy."""
    return len(pieces.args) - (2 if "cp_mask" in pieces.parts else 1)


def policy(pieces: Pieces) -> str:
    return f"with the cache policy {pieces.argument(policy_place(pieces))}"


def texture_rest(pieces: Pieces) -> list[int]:
    """The places of ``tex``'s and ``tld4``'s arguments after the level or the gradients."""
    first = 1
    if "level" in pieces.parts:
        first = 2
    elif "grad" in pieces.parts:
        first = 3
    return list(range(first, len(pieces.args)))


def texel_offsets(pieces: Pieces) -> str:
    places = [n for n in texture_rest(pieces) if isinstance(pieces.args[n], VectorOperand)]
    return pieces.argument(places[0]) if places else ""


def depth(pieces: Pieces) -> str:
    """What the texels of a depth texture are compared with."""
    places = [n for n in texture_rest(pieces) if not isinstance(pieces.args[n], VectorOperand)]
    return pieces.argument(places[0]) if places else ""


COPY_PIECES: Mapping[str, Callable[[Pieces], str]] = {
    "source": source,
    "map": tensor_map,
    "coordinates": coordinates,
    "fourrows": four_rows,
    "sampler": sampler,
    "texeloffsets": texel_offsets,
    "depth": depth,
    "dimensions": lambda pieces: (
        f"{(pieces.match_part(_DIMENSIONS) or ['', 'several'])[1]}-dimensional"
    ),
    "direction": direction,
    "completion": completion,
    "offsets": offsets,
    "multicast": multicast,
    "bytemask": byte_mask,
    "policyoperand": policy,
}
