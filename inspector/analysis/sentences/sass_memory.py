"""What loads, stores, atomics, copies and mbarriers of SASS do: their pieces."""

import re

from inspector.analysis.sentences.sass_parts import (
    Pieces,
    SassInstruction,
    SassOperand,
    address,
    address_text,
    destination,
    joined,
    width_text,
)
from inspector.parsers.sass_operands import matrix_registers


def _policies(i: SassInstruction) -> list[str]:
    """Hints to the caches, and whom an ordered access is ordered for. Before sm_80 every access of
    global memory has .SYS; without .STRONG or .MMIO it means nothing."""
    return i.among("policies") + (i.among("scopes") if i.has("STRONG", "MMIO") else [])


def _memory(i: SassInstruction) -> list[SassOperand]:
    return [o for o in i.operands if "[" in o.core]


def _unless(i: SassInstruction, instead: str) -> str:
    """``; 0 unless P0`` where the last predicate decides what is read."""
    conditions = [o for o in i.operands if o.predicate and o.always is None]
    if not conditions:
        return ""
    return f"; {instead} {'if' if conditions[-1].inverted else 'unless'} {conditions[-1].core}"


def _address(i: SassInstruction, operand: SassOperand) -> str:
    # Before sm_90 nvdisasm names only the first register of a 64-bit address: [R2] with .E.
    pair = bool(i.string("pairs")) and i.has("E") and "desc[" not in operand.core
    return address_text(operand, pair=pair)


def access(i: SassInstruction) -> Pieces | None:
    memory = _memory(i)[:1]
    data = [o for o in i.operands if o.general and o not in memory]
    if not memory or not data:
        return None
    if i.string("stores"):
        d = _stored(i, data)
        width = width_text(i.bits)
    else:
        d = _loaded(i, data)
        width = i.first_text("small") or width_text(i.bits)
    return {
        "d": d,
        "width": width,
        "address": _address(i, memory[0]),
        "also": _unless(i, "0"),
        "space": i.string("space"),
        "notes": joined(_policies(i)),
    }


def _loaded(i: SassInstruction, data: list[SassOperand]) -> str:
    """Where a load goes; of 256 bits the upper four registers are named first."""
    if i.bits == 256 and len(data) > 1:
        return _two_by_four(i, [data[1], data[0]])
    return destination(i, data[0], -(-i.bits // 32))


def _stored(i: SassInstruction, data: list[SassOperand]) -> str:
    """What a store writes; of 256 bits the lower four registers are named first."""
    if i.bits == 256 and len(data) > 1:
        return f"from {_two_by_four(i, data[:2])}"
    if data[-1].zero:
        return "of zeros"
    return f"from {i.words.unsigned(data[-1], -(-i.bits // 32))}"


def _two_by_four(i: SassInstruction, operands: list[SassOperand]) -> str:
    """Two times four registers, the lower ones first."""
    return " and ".join("nowhere" if o.zero else i.words.unsigned(o, 4) for o in operands)


def constant(i: SassInstruction) -> Pieces | None:
    if len(i.operands) < 2:
        return None
    registers = max(1, i.bits // 32)
    d = destination(i, i.operands[0], registers)
    width = i.first_text("small").strip(",")
    return {"d": d, "a": i.words.unsigned(i.operands[1], registers), "notes": joined([width])}


def atomic(i: SassInstruction) -> Pieces | None:
    """An atomic operation; the value before goes nowhere where nobody asks for it."""
    memory = _memory(i)
    name = i.first(i.table["atomics"])
    if name == "CAST":
        return _compare_and_store(i)
    if not memory or name is None:
        return None
    position = i.operands.index(memory[0])
    registers = {64: 2, 128: 4}.get(i.bits, 1)
    values = [i.words.signed(o, registers) for o in i.operands[position + 1 :] if o.general]
    if not values and name != "POPC":
        return None
    text = i.table["atomics"][name].format(
        b="".join(values[:1]),
        c="?" if name == "CAS" and len(values) < 2 else "".join(values[-1:]),
        address=_address(i, memory[0]),
        space=i.string("space"),
    )
    results = [o for o in i.operands[:position] if o.general]
    d = destination(i, results[-1], registers) if results else "nowhere"
    unit = "" if name == "POPC" else _combined_type(i)
    return {
        "value": text,
        "also": "" if d == "nowhere" else f"; the value before into {d}",
        "notes": joined([unit, *["subnormals as 0"] * i.has("FTZ"), *_policies(i)]),
    }


def _combined_type(i: SassInstruction) -> str:
    return i.combined_type or ("64 bits" if i.bits == 64 else "")


def _compare_and_store(i: SassInstruction) -> Pieces | None:
    """ATOM.CAST.SPIN: a result says whether it stored; the value before is not returned."""
    memory = _memory(i)[:1]
    if not memory:
        return None
    index = i.operands.index(memory[0])
    registers = 2 if i.bits == 64 else 1
    values = [i.words.signed(o, registers) for o in i.operands[index + 1 :] if o.general]
    flags = [o for o in i.operands[:index] if destination(i, o) != "nowhere"]
    if len(values) < 2:
        return None
    text = i.table["atomics"]["CAS"].format(
        b=values[0], c=values[1], address=_address(i, memory[0]), space=i.string("space")
    )
    also = ""
    if flags:
        flag = destination(i, flags[-1], registers)
        also = f"; {flag} = {'whether' if flags[-1].predicate else '1 if'} it did"
    return {"value": text, "also": also, "notes": joined([_combined_type(i), *_policies(i)])}


def copy_async(i: SassInstruction) -> Pieces | None:
    """LDGSTS: global to shared memory past the registers."""
    memory = _memory(i)
    if len(memory) < 2:
        return None
    return {
        "width": width_text(i.bits),
        "to": address_text(memory[0]),
        "from": address_text(memory[1], pair="desc[" not in memory[1].core),
        "also": _unless(i, "zeros"),
        "notes": joined(_policies(i)),
    }


def matrices(i: SassInstruction) -> Pieces | None:
    """LDSM, STSM, LDTM, STTM: matrices in shared memory, or columns of tensor memory."""
    memory = _memory(i)
    data = [o for o in i.operands if o.file == "R"]
    if not memory or not data:
        return None
    registers = matrix_registers(i.base, i.qualifiers)
    last_qualifier = i.qualifiers[-1] if i.qualifiers else ""
    count = int(last_qualifier) if last_qualifier in ("2", "4") else 1
    statistic = None
    if i.has("STAT") and len(data) > 1:
        statistic, *data = data
    if memory[0] is i.operands[0]:
        data_text = i.words.unsigned(data[0], registers)
    else:
        data_text = destination(i, data[0], registers)
    remarks = ["transposed"] * i.has("MT88", "MT168", "MT1616")
    remarks += filter(None, map(_lanes, i.qualifiers))
    return {
        "count": str(registers if i.base in ("LDTM", "STTM") else count),
        "d": data_text,
        "address": address_text(memory[0]),
        "plural": "s" if registers > 1 else "",
        "matrices": "matrices" if count > 1 else "matrix",
        "elements": f"{i.first_text('matrix_shapes')} {i.first_text('matrix_elements')}",
        "notes": joined([*remarks, *i.among("columns")]),
        "also": _statistic(i, statistic),
    }


_LANES = re.compile(r"(16|32)dp(\d{2,3})bit(?:_t(\d{1,2})_t(\d{1,2}))?\Z")
"""``16dp32bit_t16_t31``: lanes of tensor memory, bits of each, and the threads that take part."""


def _lanes(qualifier: str) -> str:
    match = _LANES.match(qualifier)
    if match is None:
        return ""
    threads = f" by the threads {match[3]} to {match[4]}" if match[3] else ""
    return f"{match[1]} lanes × {match[2]} bits{threads}"


def _statistic(i: SassInstruction, operand: SassOperand | None) -> str:
    """LDTM.STAT: the minimum or maximum of what a thread loads."""
    if operand is None:
        return ""
    kind = i.first_text("statistics") or "statistic"
    unit = joined([i.first_text("units") or "unsigned", *i.among("nan")])
    return f", and the {kind} of them{unit} into {destination(i, operand)}"


def tensor_copy(i: SassInstruction) -> Pieces | None:
    """UTMALDG and its like: registers that hold addresses and coordinates, and a descriptor."""
    memory = _memory(i)
    if not memory:
        return None
    rank = next((q[0] for q in i.qualifiers if q in ("1D", "2D", "3D", "4D", "5D")), "")
    rows = i.has("GATHER4", "SCATTER4")
    if not rank:
        tile = "a tile"
    elif rows:
        tile = "four rows"
    else:
        tile = f"a {rank}-dimensional tile"
    addresses = [o for o in memory if not o.core.startswith("desc[")]
    hints = [f"cache policy {o.core}" for o in memory if o not in addresses]
    return {
        "tile": tile,
        "coordinates": "a column and four rows" if rows else "coordinates",
        "a": address_text(addresses[0]) if addresses else "?",
        "b": address_text(addresses[-1]) if addresses else "?",
        "operation": i.first_text("operations"),
        "also": _packed_operand(i),
        "notes": joined([*i.among("tensor_modes"), *_policies(i), *i.among("block_pairs"), *hints]),
    }


def _packed_operand(i: SassInstruction) -> str:
    """What the first uniform register of a tensor's copy holds."""
    register = next((o.core for o in i.operands if o.file == "UR"), None)
    meanings = ["offsets"] * i.has("IM2COL", "W", "W128") + ["blocks"] * i.has("MULTICAST")
    return f", {' and '.join(meanings)} in {register}" if register and meanings else ""


def block_copy(i: SassInstruction) -> Pieces | None:
    """UBLKCP, UBLKRED, UBLKPF: a block of bytes between global and shared memory.

    ``.S.G`` is the destination's space, then the source's. Shared memory as the destination has
    its mbarrier in the register behind; the size counts 16 bytes.
    """
    memory = [o for o in _memory(i) if not o.core.startswith("desc[")]
    hints = [f"cache policy {o.core}" for o in _memory(i) if o not in memory]
    size = next((o.core for o in i.operands if o.file == "UR"), None)
    prefetch = i.base == "UBLKPF"
    if not memory or size is None or (len(memory) < 2 and not prefetch):
        return None
    to = _space(i, 0)
    source = _space(i, 1)
    target = address(memory[0], pair=True) or memory[0].core
    if to == "shared" and not prefetch:
        first, _, second = target.partition(":")
        target = f"{first}, its mbarrier at {second}" if second else first
    mask = _mask(i, size)
    return {
        "to": f"{to} memory at {target}",
        "from": f"{source} memory at {address(memory[-1], pair=source == 'global')}",
        "address": target,
        "size": f"the lower half of {size}, × 16 bytes," if mask else f"{size} × 16 bytes",
        "operation": i.first_text("operations"),
        "also": mask,
        "notes": joined([i.combined_type if i.base == "UBLKRED" else "", *_policies(i), *hints]),
    }


def _space(i: SassInstruction, position: int) -> str:
    """The memory that a qualifier of a block's copy names."""
    return "shared" if i.qualifiers[position : position + 1] == ("S",) else "global"


def _mask(i: SassInstruction, size: str) -> str:
    """What is in the upper half of the register with the size."""
    if i.has("MULTICAST"):
        return f"; the mask of blocks is in the upper half of {size}"
    if i.has("DST_G_BYTE_MASK"):
        return f"; which bytes of each 16 are written is in the upper half of {size}"
    return ""


_COPIED = re.compile(r"(?:[24]x)?(\d{1,3})dp(\d{1,3})bit")
"""``2x64dp128bit_lw02_lw13``: lanes and bits of tensor memory."""


def tensor_memory_copy(i: SassInstruction) -> Pieces | None:
    """UTCCP.T.S: shared memory to tensor memory."""
    if len(i.operands) < 2:
        return None
    shape = next(filter(None, map(_COPIED.match, i.qualifiers)), None)
    lanes, bits = ("128", "256") if shape is None else shape.groups()
    return {
        "a": i.operands[0].core,
        "b": i.operands[1].core,
        "shape": f"{lanes} lanes × {bits} bits",
        "notes": joined([*i.among("lane_copies"), *i.among("unpacked"), *i.among("block_pairs")]),
    }


def multicast_load(i: SassInstruction) -> Pieces | None:
    """LDGMC: one value of the copies of all GPUs."""
    memory = _memory(i)
    if not memory or memory[0] is i.operands[0]:
        return None
    operation = i.first_text("reductions")
    if i.has("HPADD"):  # at a higher precision than the values'
        operation = "added in fp32" if i.packed.endswith("16") else "added in fp16"
    return {
        "d": destination(i, i.operands[0], max(1, i.bits // 32)),
        "address": address(memory[0], pair=True) or memory[0].core,
        "width": width_text(i.bits),
        "operation": operation,
        "notes": joined([i.combined_type, *_policies(i)]),
    }


def remote_store(i: SassInstruction) -> Pieces | None:
    """STAS, REDAS: a register pair has the address and the mbarrier in another block's memory."""
    memory = _memory(i)
    data = [o for o in i.operands if o.general and o not in memory]
    if not memory or not data:
        return None
    pair = address(memory[0]) or memory[0].core
    first, _, second = pair.partition(":")
    return {
        "d": "zeros" if data[-1].zero else i.words.unsigned(data[-1], max(1, i.bits // 32)),
        "width": width_text(i.bits),
        "address": first,
        "bar": second or first,
        "operation": i.first_text("operations"),
        "notes": joined([i.combined_type if i.base == "REDAS" else ""]),
    }


def mbarrier(i: SassInstruction) -> Pieces | None:
    """SYNCS: what it does with which mbarrier, by its qualifiers."""
    memory = _memory(i)
    if not memory:
        return None
    operands = [operand for operand in i.operands if operand is not memory[0]]
    first = "nowhere"
    last = ""
    if operands:
        first = destination(i, operands[0], 2 if i.has("TRANS64") else 1)
        last = i.words.unsigned(operands[-1], 2 if i.variant == "EXCH" else 1)
    state = ""
    if first != "nowhere" and len(operands) > 1:
        mask = "the mask of lanes that arrive and the upper half of the state before"
        state = f"; {mask if i.has('TMASK') else 'the state before'} into {first}"
    return {
        "address": address_text(memory[0]),
        "p": first,
        "a": last,
        "also": state,
        "form": "poll" if i.variant == "PHASECHK" and not i.has("TRYWAIT") else "",
        "count": _arrivals(i).format(a=last, address=address_text(memory[0])),
        "notes": joined(["one arrival fewer from now on"] * i.has("OPTOUT")),
    }


def _arrivals(i: SassInstruction) -> str:
    texts = i.table["arrivals"]
    text: str = next((text for name, text in texts.items() if i.has(name)), texts["TRANS64"])
    return text


def cache_control(i: SassInstruction) -> Pieces:
    """CCTL: what is done to the line of an address, in the cache that is named."""
    memory = _memory(i)
    address_text = _address(i, memory[0]) if memory else ""
    return {
        "a": f" at {address_text}" if address_text else "",
        "d": "the uniform constant cache" if i.has("LDCU") else "a cache",
        "also": ", at all levels" if i.has("DEEP") else "",
    }


_ADDRESS_SPACES = {
    "S": "the block's shared memory",
    "D": "shared memory of the cluster",
    "G": "global memory",
    "L": "local memory",
    "C": "constant memory",
}


def address_space(i: SassInstruction) -> Pieces | None:
    """QSPC: in which memory a generic address is."""
    memory = _memory(i)
    space = next((_ADDRESS_SPACES[q] for q in i.qualifiers if q in _ADDRESS_SPACES), None)
    if not memory or space is None:
        return None
    text = f"whether the generic address {address(memory[0], pair=True)} is in {space}"
    return {"d": destination(i, i.operands[0]), "value": text, "notes": ""}


def fill(i: SassInstruction) -> Pieces | None:
    """UMEMSETS: address, value, and how many words of 64 bits."""
    memory = _memory(i)
    if not memory or len(i.operands) < 3:
        return None
    unit = 8 if i.has("64") else 4
    return {
        "address": address_text(memory[0]),
        "a": i.words.unsigned(i.operands[1], unit // 4),
        "size": f"{i.words.unsigned(i.operands[2])} × {unit} bytes",
    }
