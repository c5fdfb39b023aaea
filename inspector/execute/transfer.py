"""The translation of loads, stores, atomics, copies, matrices and warp instructions."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from inspector.execute.blocks import read_call
from inspector.execute.bulk import DIMENSIONS, FIELDS
from inspector.execute.kinds import DTYPES, PAIR, WIDTHS, constant, is_float
from inspector.execute.lanes import MMA_KINDS, MMA_SHAPES
from inspector.execute.memory import DISTRIBUTED
from inspector.execute.translate import Handler, Translator, Untranslatable
from inspector.parsers.ptx_statement import (
    AddressOperand,
    ImmediateOperand,
    Operand,
    PtxInstruction,
    RegisterOperand,
    SinkOperand,
    SymbolOperand,
    VectorOperand,
)

_SPACES = ("param", "global", "shared", "local", "const")
UNKNOWN_OPERATION = "this operation is not known here"
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


def space_of(row: PtxInstruction) -> str:
    """The state space that an opcode names; ``generic`` where it names none."""
    if DISTRIBUTED in row.parts:
        return DISTRIBUTED
    named = (p.partition("::")[0] for p in row.parts[1:])
    return next((p for p in named if p in _SPACES), "generic")


def _word(row: PtxInstruction, choices: tuple[str, ...]) -> str:
    if (word := next((p for p in row.parts[1:] if p in choices), None)) is None:
        raise Untranslatable(UNKNOWN_OPERATION)
    return word


def _constant(operand: Operand, kind: str) -> int:
    """An operand that must be a number."""
    if not isinstance(operand, ImmediateOperand):
        raise Untranslatable("an operand is no constant")
    return int(constant(operand.text, kind))


def _form(row: PtxInstruction) -> tuple[str, int, str]:
    count = next((int(p[1:]) for p in row.parts if re.fullmatch(r"v[248]", p)), 1)
    kind = next((p for p in reversed(row.parts) if p in WIDTHS), "pred")
    if kind in ("pred", PAIR):
        raise Untranslatable("elements of this type are not known here")
    return space_of(row), count, kind


def _load(t: Translator, row: PtxInstruction) -> None:
    if row.kind == PAIR and not isinstance(row.operands[0], VectorOperand):
        space, address = t.address(row.operands[1], space_of(row))
        t.emit(f"L = m.memory.load({t.number}, {space!r}, {address}, u64, 2, {t.mask})")
        t.write(row.operands[0], "joined(L[0], L[1])", PAIR)
        return
    space, count, kind = _form(row)
    space, address = t.address(row.operands[1], space)
    arguments = f"{t.number}, {space!r}, {address}, u{WIDTHS[kind]}, {count}, {t.mask}"
    t.write_list(row.operands[0], f"m.memory.load({arguments})", [kind] * count)


def _store(t: Translator, row: PtxInstruction) -> None:
    if "async" in row.parts:
        _store_async(t, row)
        return
    if row.kind == PAIR and not isinstance(row.operands[1], VectorOperand):
        space, address = t.address(row.operands[0], space_of(row))
        parts = f"halves({t.read(row.operands[1], PAIR)})"
        t.emit(f"m.memory.store({t.number}, {space!r}, {address}, u64, {parts}, {t.mask})")
        return
    space, count, kind = _form(row)
    space, address = t.address(row.operands[0], "local" if space == "param" else space)
    values = ", ".join(t.bits(o, kind) for o in t.elements(row.operands[1], count))
    width = WIDTHS[kind]
    t.emit(f"m.memory.store({t.number}, {space!r}, {address}, u{width}, [{values}], {t.mask})")


def _store_async(t: Translator, row: PtxInstruction) -> None:
    """``st.async`` and ``red.async``, which report their bytes to an mbarrier."""
    space, count, kind = _form(row)
    if space != DISTRIBUTED or "mbarrier::complete_tx::bytes" not in row.parts:
        raise Untranslatable("it stores to no shared memory of a cluster")
    reduction = _word(row, ATOMICS) if row.base == "red" else ""
    _, target = t.address(row.operands[0], space)
    values = ", ".join(t.bits(o, kind) for o in t.elements(row.operands[1], count))
    barrier = _shared(t, row.operands[2])
    t.emit(
        f"m.bulk.store_async({t.number}, {target}, [{values}], {barrier}, {kind!r}, "
        f"{reduction!r}, {t.mask})"
    )


ATOMICS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


def _atomic(t: Translator, row: PtxInstruction) -> None:
    space, count, kind = _form(row)
    if "async" in row.parts:
        _store_async(t, row)
        return
    operation = _word(row, ATOMICS)
    returns = row.base == "atom"
    target, operands = (row.operands[0], row.operands[1:]) if returns else (None, row.operands)
    space, address = t.address(operands[0], space)
    width = WIDTHS[kind]
    halves = kind in ("f16x2", "bf16x2")
    values = [t.bits(o, kind) for o in t.elements(operands[1], count)]
    compare = "None"
    if operation == "cas":
        compare = values[0]
        values = [t.bits(operands[2], kind)]
    if halves:
        named = [t.temporary(v) for v in values]
        values = [f"({v} >> u32({s})).astype(u16)" for v in named for s in (0, 16)]
        kind = kind[:-2]
    returns_old = target is not None and not isinstance(target, SinkOperand)
    t.emit(
        f"L = m.memory.atomic({t.number}, {space!r}, {operation!r}, {address}, {kind!r}, "
        f"[{', '.join(values)}], {compare}, {t.mask}, {returns_old})"
    )
    if target is None:
        return
    for k, register in enumerate(t.elements(target, count)):
        part = f"L[{k}]"
        if halves:
            part = f"L[{2 * k}].astype(u32) | (L[{2 * k + 1}].astype(u32) << u32(16))"
        t.write(register, part, f"b{width}")


def _copy_few(t: Translator, row: PtxInstruction) -> None:
    """``cp.async`` of up to 16 bytes a lane."""
    if row.parts[1] != "async":
        raise Untranslatable("this copy is not known here")
    if row.parts[2] in ("commit_group", "wait_group", "wait_all"):
        return
    _, target = t.address(row.operands[0], "shared")
    _, source = t.address(row.operands[1], "global")
    count = _constant(row.operands[2], "u32")
    if count not in (4, 8, 16):
        raise Untranslatable(f"it copies {count:,} bytes, and not 4, 8 or 16")
    valid_bytes = "None"
    if len(row.operands) > 3 and "L2" not in str(row.operands[3]):
        fourth = row.operands[3]
        if isinstance(fourth, ImmediateOperand) or (
            isinstance(fourth, RegisterOperand) and t.widths[fourth.number] == 32
        ):
            valid_bytes = t.read(fourth, "u32")
        elif isinstance(fourth, RegisterOperand) and t.widths[fourth.number] == 1:
            ignored = t.read(fourth, "pred")
            valid_bytes = f"np.where({ignored}, u32(0), u32({count}))"
    t.emit(f"m.memory.copy({t.number}, {target}, {source}, {count}, {valid_bytes}, {t.mask})")


def _load_matrix(t: Translator, row: PtxInstruction) -> None:
    trans = _turned(row)
    count = int(_word(row, MATRICES)[1])
    address = _shared(t, row.operands[1])
    call = f"m.memory.load_matrix({t.number}, {address}, {count}, {trans}, {t.mask})"
    t.write_list(row.operands[0], call, ["b32"] * count)


MATRICES = ("x1", "x2", "x4")
"""How many matrices ``ldmatrix`` and ``stmatrix`` move, each lane a register of each."""


def _turned(row: PtxInstruction) -> bool:
    """Whether the matrices of ``ldmatrix`` or ``stmatrix`` are transposed."""
    if "b16" not in row.parts or "m8n8" not in row.parts:
        raise Untranslatable("matrices of this form are not known here")
    return "trans" in row.parts


def _store_matrix(t: Translator, row: PtxInstruction) -> None:
    trans = _turned(row)
    address = _shared(t, row.operands[0])
    count = int(_word(row, MATRICES)[1])
    values = ", ".join(t.read(o, "u32") for o in t.elements(row.operands[1], count))
    t.emit(f"m.memory.store_matrix({t.number}, {address}, [{values}], {trans}, {t.mask})")


def _shape(row: PtxInstruction) -> tuple[int, int, int]:
    for match in filter(None, map(_SHAPE.match, row.parts)):
        return int(match[1]), int(match[2]), int(match[3])
    raise Untranslatable("its shape is not known here")


_SCALE_FORMS: Mapping[tuple[str, str], tuple[int, tuple[str, ...]]] = {
    ("kind::mxf8f6f4", "ue8m0"): (32, ("", "1X")),
    ("kind::mxf4", "ue8m0"): (64, ("", "2X")),
    ("kind::mxf4nvf4", "ue8m0"): (64, ("2X", "4X")),
    ("kind::mxf4nvf4", "ue4m3"): (64, ("4X",)),
}
"""K and the sizes of a vector of scales, by the kind of ``mma`` and the type of its scales."""
_UNKNOWN_PRODUCT = "a multiplication of this shape and these types is not known here"


def _scale_factors(t: Translator, row: PtxInstruction, k: int) -> str:
    """The scales of A and B of ``mma`` with ``.block_scale``, as arrays."""
    kind = next((p for p in row.parts if p.startswith("kind::")), "")
    vector = next((p[11:] for p in row.parts if p.startswith("scale_vec::")), "")
    depth, vectors = _SCALE_FORMS.get((kind, row.kind), (0, ("",)))
    if depth != k or vector not in vectors:
        raise Untranslatable(_UNKNOWN_PRODUCT)
    count = int(vector[0]) if vector else k // 32
    calls: list[str] = []
    for down, first in ((2, 4), (1, 6)):
        parts = t.elements(row.operands[first + 1], 2)
        for part, allowed in zip(parts, (range(0, 4, count), range(4 // down)), strict=True):
            if isinstance(part, ImmediateOperand) and _constant(part, "u32") not in allowed:
                raise Untranslatable(f"its scales have no byte or thread {part.text}")
        numbers = ", ".join(t.read(o, "u32") for o in (row.operands[first], *parts))
        calls.append(f"matrix.scales(m.lanes, {numbers}, {count}, {row.kind!r}, {down})")
    return f", [{', '.join(calls)}]"


def _multiply(t: Translator, row: PtxInstruction) -> None:
    shape = _shape(row)
    kinds = [p for p in row.parts if p in MMA_KINDS]
    scaled = "block_scale" in row.parts
    if scaled and shape == (16, 8, 64) and kinds[1:3] == ["e2m1", "e2m1"]:
        kinds[1:3] = ["e2m1x2", "e2m1x2"]
    elif any((*shape, kind) not in MMA_SHAPES for kind in kinds[1:3]):
        raise Untranslatable(_UNKNOWN_PRODUCT)
    if len(kinds) != 4 or scaled != any(p.startswith("kind::mx") for p in row.parts):
        raise Untranslatable(_UNKNOWN_PRODUCT)
    wide = "u64" if kinds[0] == "f64" else "u32"
    m, n, k = shape
    elements = (m * n, m * k, k * n, m * n)
    counts = [_registers(size, kind) for size, kind in zip(elements, kinds, strict=True)]
    matrices: list[str] = []
    for operand, count in zip(row.operands[1:4], counts[1:], strict=True):
        elements_text = ", ".join(t.read(o, wide) for o in t.elements(operand, count))
        matrices.append(f"[{elements_text}]")
    arguments = f"{shape}, {kinds!r}, {', '.join(matrices)}, {'satfinite' in row.parts}"
    if scaled:
        arguments += _scale_factors(t, row, k)
    t.write_list(row.operands[0], f"matrix.multiply(m.lanes, {arguments})", [wide] * counts[0])


def _registers(elements: int, kind: str, lanes: int = 32) -> int:
    """Registers of each lane that hold a matrix: of 64 bits for f64, else of 32."""
    if kind == "e2m1x2":
        elements //= 2
    return elements * WIDTHS[kind] // (lanes * max(WIDTHS[kind], 32))


def _multiply_group(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] != "mma_async":
        return
    shape = _shape(row)
    kinds = [p for p in row.parts if p in MMA_KINDS]
    if "sp" in row.parts or len(kinds) != 3 or kinds[0] not in _GROUP_RESULTS.get(kinds[1], ()):
        raise Untranslatable("a multiplication of these types is not known here")
    m, n, k = shape
    if m != 64 or n % 8 or not 8 <= n <= 256 or k * WIDTHS[kinds[1]] != 256:
        raise Untranslatable(f"m{m}n{n}k{k} is no shape of wgmma with {kinds[1]}")
    target, a, b, keep, *trailing = row.operands
    if isinstance(a, VectorOperand):
        a_matrix = "[" + ", ".join(t.read(o, "u32") for o in t.elements(a, 4)) + "]"
    else:
        a_matrix = t.read(a, "u64")
    signs, turned = _signs_and_turned(trailing)
    count = _registers(m * n, kinds[0], 128)
    old = ", ".join(t.read(o, "u32") for o in t.elements(target, count))
    descriptor = t.read(b, "u64")
    added = t.read(keep, "pred")
    arguments = f"{shape}, {kinds!r}, {a_matrix}, {descriptor}, {added}, {signs}, {turned}, [{old}]"
    saturate = "satfinite" in row.parts
    call = f"m.multiply_group({t.number}, {t.mask}, {arguments}, {saturate})"
    t.write_list(target, call, ["b32"] * count)


def _signs_and_turned(operands: Sequence[Operand]) -> tuple[list[int], list[int]]:
    """The signs of A and B, and which of them are transposed, by the numbers at wgmma's end."""
    numbers = [_constant(operand, "s32") for operand in operands]
    if len(numbers) not in (0, 2, 3, 4):
        raise Untranslatable(f"{len(numbers)} numbers at its end, where there must be 0, 2, 3 or 4")
    signs, turned = (numbers[:2], numbers[2:]) if len(numbers) > 1 else ([1, 1], [])
    return signs, [0] * (2 - len(turned)) + turned


_GROUP_RESULTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("f16", "e4m3", "e5m2"), ("f16", "f32")),
    **dict.fromkeys(("bf16", "tf32"), ("f32",)),
    **dict.fromkeys(("s8", "u8"), ("s32",)),
}
"""Types of D of ``wgmma.mma_async``, by the type of A."""


# -- asynchronous copies, mbarriers, tensor maps ---------------------------------------------------


REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def _shared(t: Translator, operand: Operand) -> str:
    return t.address(operand, "shared")[1]


_BARRIERS: Mapping[str, str] = {
    "init": "m.phases.initialise({n}, {at}, {value}, {mask})",
    "expect_tx": "m.phases.expect({n}, {at}, {value}, {mask}, False)",
    "complete_tx": "m.phases.expect({n}, {at}, {value}, {mask}, True)",
}
"""Operations of an mbarrier without a result, on its address and a number."""


def _barrier(t: Translator, row: PtxInstruction) -> None:
    operation = row.parts[1]
    operands = row.operands
    if operation in _BARRIERS:
        value = t.read(operands[1], "u32")
        address = _shared(t, operands[0])
        t.emit(_BARRIERS[operation].format(n=t.number, at=address, value=value, mask=t.mask))
    elif operation == "inval":
        t.emit(f"m.phases.invalidate({t.number}, {_shared(t, operands[0])}, {t.mask})")
    elif operation in ("arrive", "arrive_drop"):
        _arrive(t, row)
    elif operation in ("test_wait", "try_wait"):
        parity = "parity" in row.parts
        state = t.read(operands[2], "u32" if parity else "u64")
        address = _shared(t, operands[1])
        test = f"m.phases.test({t.number}, {address}, {state}, {parity}, {t.mask})"
        t.write(operands[0], test, "pred")
    elif operation == "pending_count":
        t.write(operands[0], f"pending_count({t.read(operands[1], 'u64')})", "u32")
    else:
        raise Untranslatable("this operation of an mbarrier is not known here")


def _arrive(t: Translator, row: PtxInstruction) -> None:
    """``arrive``, with or without a state that comes back, a count, bytes that are expected."""
    operands = list(row.operands)
    target: Operand = SinkOperand()
    if not isinstance(operands[0], AddressOperand):
        target = operands.pop(0)
    expects = "expect_tx" in row.parts
    number = t.read(operands[1], "u32") if len(operands) > 1 else "None"
    count, nbytes = ("None", number) if expects else (number, "None")
    drop = row.parts[1] == "arrive_drop"
    t.emit(
        f"L = m.phases.arrive({t.number}, {_shared(t, operands[0])}, {count}, {nbytes}, "
        f"{t.mask}, {drop})"
    )
    t.write(target, "L", "u64")


def _copy(t: Translator, row: PtxInstruction) -> None:
    parts = row.parts
    if "bulk" not in parts:
        if "mbarrier" in parts and "arrive" in parts:
            # Copies are done when they are issued, so that the arrival is at once; else it is
            # counted
            address = _shared(t, row.operands[0])
            t.emit(f"m.phases.hold({t.number}, {address}, {t.mask})")
            if "noinc" in parts_of(row):
                t.emit(f"m.phases.arrive({t.number}, {address}, None, None, {t.mask})")
        else:
            _copy_few(t, row)
        return
    if any(p in ("commit_group", "wait_group", "prefetch") for p in parts):
        return
    if any(p.startswith("im2col") for p in parts):
        raise Untranslatable("copies by im2col are not emulated")
    if "tensor" in parts:
        _tile(t, row)
    else:
        _bytes(t, row)


def parts_of(row: PtxInstruction) -> tuple[str, ...]:
    """The words of an opcode, those with ``::`` split as well."""
    return tuple(word for part in row.parts for word in part.split("::"))


def _tile(t: Translator, row: PtxInstruction) -> None:
    words = parts_of(row)
    inward = row.opcode.find("shared") < row.opcode.find("global")
    rows = "gather4" in words or "scatter4" in words
    tensor = row.operands[1 if inward else 0]
    if not isinstance(tensor, AddressOperand) or len(tensor.further_operands) != 1:
        raise Untranslatable("its tensor map is given in a form that is not known here")
    _, address = t.address(AddressOperand(tensor.base, tensor.offset), "generic")
    count = 5 if rows else int(_word(row, ("1d", "2d", "3d", "4d", "5d"))[0])
    numbers = ", ".join(t.read(o, "u32") for o in t.elements(tensor.further_operands[0], count))
    if inward:
        target = _shared(t, row.operands[0])
        barrier = _shared(t, row.operands[2])
        in_pair = "cta_group::2" in row.parts
        t.emit(
            f"m.bulk.load_tile({t.number}, {target}, {address}, [{numbers}], {barrier}, "
            f"{_multicast(t, row, 3)}, {rows}, {in_pair}, {t.mask})"
        )
        return
    reduction = _word(row, REDUCTIONS) if "reduce" in words else ""
    source = _shared(t, row.operands[1])
    t.emit(
        f"m.bulk.store_tile({t.number}, {address}, [{numbers}], {source}, {reduction!r}, {rows}, "
        f"{t.mask})"
    )


def _multicast(t: Translator, row: PtxInstruction, index: int) -> str:
    """The blocks of its cluster that a copy goes to, a bit each; 0 without ``.multicast``."""
    if "multicast::cluster" not in row.parts:
        return t.constant(0, "u4")
    return t.read(row.operands[index], "u16")


def _bytes(t: Translator, row: PtxInstruction) -> None:
    words = parts_of(row)
    _, target = t.address(row.operands[0], "generic")
    _, source = t.address(row.operands[1], "generic")
    size = t.read(row.operands[2], "u32")
    reduction = _word(row, REDUCTIONS) if "reduce" in words else ""
    kind = row.kind if reduction else "b8"
    if reduction and (kind not in DTYPES or WIDTHS[kind] == 8):
        raise Untranslatable(f"reductions of .{kind} are not known here")
    if row.opcode.find("shared") < row.opcode.find("global") or "global" not in words:
        barrier = _shared(t, row.operands[3])
        from_shared = "global" not in words
        t.emit(
            f"m.bulk.copy_in({t.number}, {target}, {source}, {size}, {barrier}, "
            f"{_multicast(t, row, 4)}, {from_shared}, {kind!r}, {reduction!r}, {t.mask})"
        )
        return
    t.emit(
        f"m.bulk.copy_out({t.number}, {target}, {source}, {size}, {kind!r}, {reduction!r}, "
        f"{t.mask})"
    )


def _tensor_map(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] == "cp_fenceproxy":
        _, target = t.address(row.operands[0], "generic")
        t.emit(f"m.bulk.copy_map({t.number}, {target}, {_shared(t, row.operands[1])}, {t.mask})")
        return
    field = next((p for p in row.parts if p in FIELDS), None)
    if row.parts[1] != "replace" or field is None:
        raise Untranslatable("this field of a tensor map is not known here")
    dimension = 0
    if field in DIMENSIONS:
        dimension = _constant(row.operands[1], "u32")
        if dimension >= DIMENSIONS[field]:
            raise Untranslatable("there is no such dimension")
    value = t.read(row.operands[-1], "u64" if row.kind == "b64" else "u32")
    space, address = t.address(row.operands[0], space_of(row))
    t.emit(
        f"m.bulk.replace({t.number}, {space!r}, {address}, {field!r}, {dimension}, {value}, "
        f"{t.mask})"
    )


def _is_in(t: Translator, row: PtxInstruction) -> None:
    space = row.parts[1].partition("::")[0]
    number = {"global": 0, "shared": 1, "local": 2, "param": 3, "const": 0}.get(space)
    if number is None:
        raise Untranslatable("this state space is not known here")
    address = t.read(row.operands[1], "u64")
    test = f"({address} >> u64(56)) == u64({number})"
    if space == "shared" and DISTRIBUTED not in row.parts and t.in_clusters:
        test = f"is_own({address}, m.memory.rank_base)"
    t.write(row.operands[0], test, "pred")


# -- warp instructions -----------------------------------------------------------------------------


def _members(t: Translator, row: PtxInstruction, index: int) -> str:
    """The member mask of a ``.sync`` form; all lanes in the others."""
    if "sync" in row.parts:
        return t.read(row.operands[index], "u32")
    return "np.full((1, 1), 0xFFFFFFFF, u32)"


def _shuffle(t: Translator, row: PtxInstruction) -> None:
    mode = _word(row, ("up", "down", "bfly", "idx"))
    a, b, c = (t.read(o, "u32") for o in row.operands[1:4])
    t.write_pair(row.operands[0], f"lanes.shuffle(m.lanes, {mode!r}, {a}, {b}, {c})")


def _vote(t: Translator, row: PtxInstruction) -> None:
    mode = _word(row, ("ballot", "any", "all", "uni"))
    predicate = t.read(row.operands[1], "pred")
    members = _members(t, row, 2)
    call = f"lanes.vote(m.lanes, {mode!r}, {predicate}, {t.mask}, {members})"
    t.write(row.operands[0], call, "b32" if mode == "ballot" else "pred")


def _match(t: Translator, row: PtxInstruction) -> None:
    value = t.read(row.operands[1], f"u{row.kind[1:]}")
    members = _members(t, row, 2)
    arguments = f"m.lanes, {value}, {t.mask}, {members}"
    if "any" in row.parts:
        t.write(row.operands[0], f"lanes.match({arguments})", "b32")
    else:
        t.write_pair(row.operands[0], f"lanes.match_all({arguments})")


def _reduce(t: Translator, row: PtxInstruction) -> None:
    operation = _word(row, ("add", "min", "max", "and", "or", "xor"))
    kind = row.kind if is_float(row.kind) or row.kind[0] == "s" else "u32"
    value = t.read(row.operands[1], kind)
    members = _members(t, row, 2)
    call = (
        f"lanes.reduce_warp(m.lanes, {operation!r}, {value}, {t.mask}, {members}, "
        f"{'abs' in row.parts}, {'NaN' in row.parts})"
    )
    if kind == "f32":
        call = f"floats.canonical({call})"
    t.write(row.operands[0], t.result(call, kind), kind)


def _elect(t: Translator, row: PtxInstruction) -> None:
    members = t.read(row.operands[1], "u32")
    t.write_pair(row.operands[0], f"lanes.elect(m.lanes, {t.mask}, {members})")


# -- launch control: no cluster is left to be taken over, for all run ------------------------------


def _control_launches(t: Translator, row: PtxInstruction) -> None:
    if row.parts[1] == "query_cancel":
        _read_answer(t, row)
        return
    if row.parts[1] != "try_cancel":
        raise Untranslatable(UNKNOWN_OPERATION)
    target, barrier = (_shared(t, operand) for operand in row.operands)
    everywhere = "multicast::cluster::all" in row.parts
    t.emit(f"m.bulk.answer({t.number}, {target}, {barrier}, {everywhere}, {t.mask})")


def _read_answer(t: Translator, row: PtxInstruction) -> None:
    """``query_cancel`` of the answer that nothing is taken over; its block is then undefined."""
    t.read(row.operands[1], PAIR)
    if "is_canceled" in row.parts:
        t.write(row.operands[0], t.constant(False, np.bool_), "pred")
        return
    for register in t.elements(row.operands[0], 4 if "v4" in row.parts else 1):
        t.write(register, t.constant(0, np.uint32), "b32")


# -- the rest --------------------------------------------------------------------------------------


def _map_address(t: Translator, row: PtxInstruction) -> None:
    """``mapa``: an address in the shared memory of another block of the cluster."""
    address = t.read(row.operands[1], row.kind)
    rank = t.read(row.operands[2], "u32")
    t.write(row.operands[0], f"map_address({address}, {rank})", row.kind)


def _rank_of_address(t: Translator, row: PtxInstruction) -> None:
    """``getctarank``: the rank of the block that has an address of shared memory."""
    address = t.read(row.operands[1], row.kind)
    t.write(row.operands[0], f"rank_of_address({address})", "u32")


def _zero(t: Translator, row: PtxInstruction) -> None:
    """``createpolicy``, which no value needs."""
    t.write(row.operands[0], t.constant(0, f"u{WIDTHS[row.kind] // 8}"), row.kind)


def _nothing(t: Translator, row: PtxInstruction) -> None:
    """What changes no value: memory here is as strongly ordered as any fence asks for, and lanes of
    a warp that run together are together already (``bar.warp.sync``)."""


def _call(t: Translator, row: PtxInstruction) -> None:
    name, _, arguments = read_call(row)
    if name in ("vprintf", "__assertfail"):
        places = [t.symbol(o.name, o.offset) for o in arguments if isinstance(o, SymbolOperand)]
        least = 2 if name == "vprintf" else 3
        if len(places) < least or len(places) != len(arguments):
            raise Untranslatable(f"{name} takes {least} parameters or more, by name")
        if name == "vprintf":
            t.emit(f"m.messages.print({t.number}, {places[0]}, {places[1]}, {t.mask})")
        else:
            t.emit(f"m.messages.failed({t.number}, [{', '.join(places)}], {t.mask})")
        return
    if name is None:
        raise Untranslatable("it calls a function by its address")
    raise Untranslatable(f"{name[:80]} has no body in this module, or calls itself")


REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"),
        "textures and surfaces are not emulated",
    ),
    **dict.fromkeys(("multimem", "fabric"), "memory of several devices is not emulated"),
    "wmma": "fragments of wmma, which no document lays out, are not emulated; those of mma are",
    **dict.fromkeys(
        ("alloca", "stacksave", "stackrestore"), "memory taken from the stack is not emulated"
    ),
    **dict.fromkeys(
        ("clmad", "spcompress", "spdecompress"), "instructions of PTX 9.3 and 9.4 are not emulated"
    ),
}
"""Why no form of an instruction is executed."""


def _refuse(reason: str) -> Handler:
    def translate(t: Translator, row: PtxInstruction) -> None:
        raise Untranslatable(reason)

    return translate


HANDLERS: Mapping[str, Handler] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "ldmatrix": _load_matrix,
    "stmatrix": _store_matrix,
    "mma": _multiply,
    "wgmma": _multiply_group,
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "elect": _elect,
    "cp": _copy,
    "mbarrier": _barrier,
    "tensormap": _tensor_map,
    "getctarank": _rank_of_address,
    "mapa": _map_address,
    "isspacep": _is_in,
    "createpolicy": _zero,
    "clusterlaunchcontrol": _control_launches,
    "call": _call,
    **dict.fromkeys(
        (
            "bar",
            "barrier",
            "membar",
            "fence",
            "griddepcontrol",
            "nanosleep",
            "prefetch",
            "prefetchu",
            "pmevent",
            "setmaxnreg",
            "discard",
            "applypriority",
            "brkpt",
        ),
        _nothing,
    ),
    **{base: _refuse(reason) for base, reason in REFUSED.items()},
}
