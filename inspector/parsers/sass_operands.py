"""Which registers a SASS instruction defines and uses.

NVIDIA documents the mnemonics (CUDA Binary Utilities, "Instruction Set Reference") and neither
the operands nor their widths. The rules here were read off ``nvdisasm -plr``, which marks the
registers that each instruction defines and uses; the tests compare with it. The text lacks two
things that -plr shows: what a ``CALL`` does inside, and the descriptor in uniform registers that
``LDG.E R0, [R2.64]`` of sm_80 to sm_89 reads. -plr lacks the predicates that ``P2R`` reads.
"""

import re
from collections.abc import Callable, Sequence

from inspector.base.names import at_commas, words

# Which registers a texture or surface instruction of SASS defines and uses.
#
# Read off ``nvdisasm -plr``, as in ``sass_operands``. ``TEX.SCR.LL R0, R2, R6, R8, …, CUBE, 0x7``:
# up to two components into R2, the others into R0, as the mask has bits; then what is looked up,
# shared out between two registers' worth (``SCR``), or coordinates first and all else second.

TEXTURES = frozenset(("TEX", "TLD", "TLD4", "TXD"))
SURFACES = frozenset(("SULD", "SUST"))

_COORDINATES = {
    "1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "ARRAY_CUBE": 4,
    "1D_ARRAY": 2, "2D_ARRAY": 3,
}  # fmt: skip
_GENERAL = re.compile(r"-?\|?R(?:\d|Z)")
_MASK = re.compile(r"0x([0-9a-f])\Z")
_DATA = {"64": 2, "128": 4}


def texture_widths(base: str, qualifiers: Sequence[str], operands: Sequence[str]) -> list[int]:
    """How many consecutive registers each operand of a texture instruction names."""
    widths = [2 if operand.startswith("UR") else 1 for operand in operands]
    if len(operands) < 3:
        return widths
    shape = next((o for o in operands if o in _COORDINATES), "1D")
    mask = _MASK.match(operands[-1])
    components = int(mask[1], 16).bit_count() if mask else 4
    widths[0] = max(1, components - 2)
    widths[1] = min(2, max(1, components))
    sources = [i for i in range(2, len(operands)) if _GENERAL.match(operands[i])][:2]
    first = _COORDINATES[shape]
    second_width = _further_registers(base, qualifiers, shape)
    if "SCR" in qualifiers and len(sources) == 2:
        first, second_width = (
            first + second_width - (first + second_width) // 2,
            (first + second_width) // 2,
        )
    for source, width in zip(sources, (first, max(1, second_width)), strict=False):
        widths[source] = width
    return widths


def _further_registers(base: str, qualifiers: Sequence[str], shape: str) -> int:
    """The registers behind the coordinates: level, bias, handle, derivatives."""
    count = sum(q in ("LL", "LB", "B") for q in qualifiers)
    if base == "TLD4":  # .B is a component before it is a handle in a register
        count -= next((q for q in qualifiers if q in "RGBA"), "") == "B"
    if base == "TXD":
        count += 2 * int(shape[-2]) if shape[-1] == "D" else 0
    return count


def surface_widths(base: str, qualifiers: Sequence[str], operands: Sequence[str]) -> list[int]:
    """Like ``texture_widths``, for surfaces: ``[R4]`` are coordinates, the opcode has the width."""
    shape = next((_COORDINATES[q] for q in qualifiers if q in _COORDINATES), 1)
    data = next((_DATA[q] for q in qualifiers if q in _DATA), 1)
    out = [1] * len(operands)
    for i, operand in enumerate(operands[:2]):
        out[i] = shape if "[" in operand else data
    return out


NO_RESULT = words(
    "ST STG STS STL STSM STT STTM RED REDG REDS BAR MEMBAR EXIT BRA BRX JMP JMX RET CALL NOP "
    "DEPBAR WARPSYNC ERRBAR CCTL CCTLL BSYNC BREAK YIELD NANOSLEEP LDGDEPBAR LDGSTS KILL BPT "
    "UTMALDG UTMASTG UTMAPF UTMAREDG UTMACMDFLUSH UTMACCTL UBLKCP UBLKPF UBLKRED ARRIVES "
    "WARPGROUP WARPGROUPSET CGAERRBAR ENDCOLLECTIVE FENCE UCGABAR_ARV UCGABAR_WAIT USETMAXREG "
    "PREEXIT ACQBULK SUST SURED UTCHMMA UTCQMMA UTCIMMA UTCOMMA UTCMXQMMA UTCBAR "
    "UTCCP UTCSHIFT UVIRTCOUNT NOTIFY CCTLT PMTRIG RTT SETLMEMBASE SSY SYNC PBK BRK "
    "PCNT CONT PRET JCAL CAL IDE STAS REDAS USTGR UREDGR UMEMSETS"
)
"""Instructions that define no register."""

_CARRIES = frozenset(("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD", "IADD", "UIADD", "VIADD"))
_PREDICATES = frozenset(f"{file}{n}" for file in ("P", "UP") for n in (*range(8), "T"))
_PREDICATES_ONLY = frozenset(("FCHK", "PLOP3", "UPLOP3", "PSETP", "UPSETP", "VOTE", "VOTEU"))
_TWO_RESULTS = TEXTURES | {"PLOP3", "UPLOP3", "B2R"}
"""Instructions with a second result where they have a second operand: of ``B2R`` the predicate that
a barrier's reduction gave."""
_SECOND_RESULT = {"LDG": "256", "LDTM": "STAT"}
"""The qualifier with which an instruction has a second result."""
CALLS = words("CALL JCAL CAL")
BRANCHES = CALLS | words("BRA BRX BRXU JMP JMX JMXU")

_REGISTER = re.compile(r"(?<![\w.$])(UR|UP|R|P|B)(\d{1,3})(?!\w)((?:\.[\w]+)*)")
_TARGET = re.compile(r"`\(([^()\n]*)\)")
_TARGET_LIST = re.compile(r'BRANCH_TARGETS ([^"*]*)')
_ADDRESS_TARGET = re.compile(r"0x[0-9a-f]+\Z")
_SHAPE = re.compile(r"(16|8)x?(8|16)x?(4|8|16|32|64|128|256)\Z")
_GROUP_SHAPE = re.compile(r"(\d{2,3})x(\d{1,3})x(\d{1,3})\Z")
_TIMES = re.compile(r"x(\d{1,3})\Z")
_TENSOR_LANES = re.compile(r"(?:16|32)dp(32|64|128|256)bit")
"""``16dp256bit``: 16 lanes of tensor memory, 256 bits of each."""
_BITS = {"HMMA": 16, "IMMA": 8, "BMMA": 1, "DMMA": 64, "QMMA": 8, "OMMA": 4}
_GROUP_BITS = {"HGMMA": 16, "IGMMA": 8, "QGMMA": 8, "BGMMA": 1}
_ACCESS_BITS = re.compile(r"[USF]?(8|16|32|64|96|128|256)\Z")
_PACKED = re.compile(r"B?(?:F(16|32)|E4M3|E5M2)x(\d{1,2})\Z")
"""``F16x4``, ``E5M2x16``: several values."""
_PAIRS = words("DADD DMUL DFMA DSETP DMNMX DSET FADD2 FMUL2 FFMA2 CLMAD")
_MATRIX_ACCESSES = frozenset(("LDSM", "STSM", "LDTM", "STTM"))
_PLACED = {
    "LEPC": 0,
    "CS2R": 0,
    "CS2UR": 0,
    "LDTM": 0,
    "LDSM": 0,
    "QSPC": -1,
    "STTM": -1,
    "STSM": -1,
}
"""Where the operand of several registers is, if there is one."""
_DIMENSIONS = frozenset(("1D", "2D", "3D", "4D", "5D"))
_WIDE = frozenset(("64", "U64", "S64"))
_MEMORY = words(
    "LD LDG LDS LDL LDC LDCU ULDC ST STG STS STL ATOM ATOMG ATOMS RED REDG REDS LDT STT STAS REDAS"
)
_GLOBAL = words("LD LDG LDGMC ST STG USTGR ATOM ATOMG RED REDG UREDGR LDGSTS CCTL")


def access_bits(qualifiers: Sequence[str]) -> int:
    """The bits that one thread loads, stores or changes: ``LDG.E.128``, ``REDG.E.ADD.F16x4``."""
    for qualifier in qualifiers:
        if match := _ACCESS_BITS.match(qualifier):
            return int(match[1])
        if match := _PACKED.match(qualifier):
            return int(match[1] or 8) * int(match[2])
    return 32


def access_bytes(opcode: str) -> int:
    """The bytes that one thread moves: 16 of ``LDG.E.128`` and ``LDSM.16.M88.4``."""
    base, *qualifiers = opcode.split(".")
    if base in _MATRIX_ACCESSES:
        return 4 * matrix_registers(base, qualifiers)
    return access_bits(qualifiers) // 8


def matrix_registers(base: str, qualifiers: Sequence[str]) -> int:
    """The registers of a matrix load or store: ``LDSM.16.M88.4``, ``LDTM.16dp256bit.x2``.

    A matrix of 8x8 elements of 16 bits has one register a lane, one of 16x16 elements of 8 bits
    two; a repetition in tensor memory has one for each 64 bits of its 16 lanes.
    """
    if base in ("LDTM", "STTM"):
        times = next(filter(None, map(_TIMES.match, qualifiers)), None)
        lanes = next(filter(None, map(_TENSOR_LANES.match, qualifiers)), None)
        registers = max(1, int(lanes[1]) // 64) if lanes else 1
        return registers * int(times[1]) if times else registers
    matrices = int(qualifiers[-1]) if qualifiers and qualifiers[-1] in "24" else 1
    return matrices * (2 if "MT1616" in qualifiers else 1)


def split_operands(text: str) -> list[str]:
    if "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")] if text else []
    return at_commas(text, "[(", "])")


def read_operands(
    base: str, opcode: str, guard: str | None, text: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The registers that an instruction defines and uses, and its targets."""
    targets = _branch_targets(base, text)
    if "`" in text or "(*" in text:
        text = _TARGET.sub("", text.partition("(*")[0])
    operands = split_operands(text)
    qualifiers = opcode.split(".")[1:]
    results = _results(base, qualifiers, operands)
    widths = _widths(base, qualifiers, operands)
    defs: dict[str, None] = {}
    uses: dict[str, None] = {}
    if guard:
        _add_registers(uses, guard, 1)
    for i, operand in enumerate(operands):
        accessed = defs if i < results else uses
        if operand == "PR":
            accessed.update((f"P{p}", None) for p in _masked_predicates(operands))
        _add_registers(accessed, operand, widths[i])
        if base == "LDGSTS" and _is_predicate(operand):
            _add_registers(defs, operand, 1)  # as nvdisasm has it
    if base == "LDGSTS" and len(operands) > 1 and operands[0].startswith("[UR"):
        _narrow(uses, operands[1])
    return tuple(defs), tuple(uses), targets


def _masked_predicates(operands: list[str]) -> list[int]:
    """Numbers of the predicates that ``PR`` represents, by the mask in the last operand."""
    match = _ADDRESS_TARGET.match(operands[-1])
    mask = int(match[0], 16) if match and len(match[0]) < 8 else 0x7F
    return [p for p in range(7) if mask >> p & 1]


def _branch_targets(base: str, text: str) -> tuple[str, ...]:
    if base not in BRANCHES:
        return ()
    if listed := _TARGET_LIST.search(text):
        return tuple(t.strip() for t in listed[1].split(",") if t.strip())
    if named := _TARGET.findall(text):
        return (named[-1],)
    address_match = _ADDRESS_TARGET.search(text.rstrip())
    return (address_match[0],) if address_match else ()


def _add_registers(registers: dict[str, None], operand: str, width: int) -> None:
    """Add the registers of an operand to ``out``; ``width`` of them if it is a plain register."""
    if operand.startswith("desc["):  # a descriptor of 64 bits, then the address
        descriptor, _, operand = operand.partition("]")
        _add_registers(registers, descriptor[5:], 2)
    for file, number, suffix in _REGISTER.findall(operand):
        first = int(number)
        count = 1
        if file in ("R", "UR"):
            count = 2 if width < 2 and ".64" in suffix else width
            if ".U32" in suffix:
                count = 1
        if count == 1:
            registers[file + number] = None
        else:
            registers.update((f"{file}{r}", None) for r in range(first, first + count))


def _narrow(uses: dict[str, None], operand: str) -> None:
    """Take the second register of a descriptor away: beside a uniform address it has one."""
    match = _REGISTER.match(operand, 5) if operand.startswith("desc[UR") else None
    if match:
        uses.pop(f"UR{int(match[2]) + 1}", None)


def _is_predicate(operand: str) -> bool:
    return operand.lstrip("!") in _PREDICATES


def _is_register(operand: str) -> bool:
    return operand[:1] == "R" or operand[:2] == "UR"


def _results(base: str, qualifiers: list[str], operands: list[str]) -> int:
    if base in NO_RESULT or not operands:
        return 0
    first = operands[0]
    if "[" in first or not first:
        return 0
    if base in _TWO_RESULTS or base.endswith(("SETP", "SETP2")):
        return min(2, len(operands))
    if base == "FCHK" or len(operands) == 1:
        return 1
    if _SECOND_RESULT.get(base) in qualifiers:
        return 2
    if _is_predicate(first):
        return _results_after_predicate(base, operands)
    if base in ("VOTE", "VOTEU"):
        return 2 if _is_predicate(operands[1]) else 1
    return 1 + _carry_results(operands) if base in _CARRIES else 1


def _carry_results(operands: list[str]) -> int:
    """The carries behind the first result, two at most."""
    count = 0
    while count + 1 < min(3, len(operands)) and _is_predicate(operands[count + 1]):
        count += 1
    return count


def _results_after_predicate(base: str, operands: list[str]) -> int:
    """How many results there are where the first is a predicate."""
    if base in _PREDICATES_ONLY:
        return 1
    count = 2 if _is_predicate(operands[1]) else 1  # IMNMX.S64 PT, PT, R6, …
    return count + 1 if count < len(operands) and _is_register(operands[count]) else 1


def _widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    if not operands:
        return []
    if base in ("SHF", "USHF"):  # ``.64`` is how far is shifted, not how wide operands are
        return [1] * len(operands)
    if base in _PAIRS:
        return [2] * len(operands)
    usual = _tensor_widths if base.startswith("UT") else _plain_widths
    return _WIDTHS.get(base, usual)(base, qualifiers, operands)


def _plain_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """One register each; two if a qualifier says that all values have 64 bits."""
    if _WIDE.isdisjoint(qualifiers):
        return [1] * len(operands)
    return _pointer_widths(base, qualifiers, operands)


def _pointer_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """Two registers each, but addresses in brackets."""
    return [1 if "[" in operand else 2 for operand in operands]


def _single_wide_operand_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """One operand of several registers: 64 bits, or matrices."""
    widths = [1] * len(operands)
    wide = 1 if base != "LEPC" and "32" in qualifiers else 2
    if base in _MATRIX_ACCESSES:
        wide = matrix_registers(base, qualifiers)
    place = _PLACED[base]
    if "STAT" in qualifiers and len(operands) > 2:  # the minimum or maximum comes first
        place = 1
    widths[place] = wide
    return widths


def _source_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """MATCH.U64: the value has 64 bits, the mask 32."""
    widths = [1] * len(operands)
    widths[-1] = 2 if "U64" in qualifiers else 1
    return widths


def _result_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """SYNCS.ARRIVE.TRANS64 gives the state of an mbarrier, MOVM.U4TO8 two registers for one."""
    widths = _plain_widths(base, qualifiers, operands)
    if {"ARRIVE", "TRANS64"} <= {*qualifiers} or "U4TO8" in qualifiers or "S4TO8" in qualifiers:
        widths[0] = 2
    return widths


def _block_copy_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """UBLKCP.S.G [UR4], [UR6], UR8: an address in global memory, or in shared memory.

    Where the destination is shared memory, its mbarrier is in the register behind it.
    """
    widths = [1] * len(operands)
    widths[0] = 2
    if "G" in qualifiers[1:2] and base != "UBLKPF":
        widths[1] = 2
    return widths


def _fill_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """UMEMSETS.64 [UR4], UR6, UR5: address, value, and how many bytes."""
    widths = [1] * len(operands)
    widths[1:2] = [2 if "64" in qualifiers else 1]
    return widths


def _block_product_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """UTCHMMA and its like: pairs of descriptors, then masks or the places of scale factors.

    Behind the instruction descriptor, in uniform registers: a mask of the lanes that are not
    written, four a block, or with ``.WS`` one of the columns of zeros; or in tensor memory
    (``tmem[UR6]``) the scale factors of A and, in the register behind it, of B.
    """
    widths = [2 if operand.startswith("gdesc[") else 1 for operand in operands]
    described = next((i for i, o in enumerate(operands) if o.startswith("idesc[")), len(operands))
    for i in range(described + 1, len(operands)):
        if operands[i].startswith("tmem["):
            widths[i] = 2
        elif operands[i].startswith("UR"):
            widths[i] = _mask_registers(qualifiers)
    return widths


def _mask_registers(qualifiers: list[str]) -> int:
    """The uniform registers that hold a block product's mask."""
    if "WS" in qualifiers:
        return 2
    return 8 if "2CTA" in qualifiers else 4


def _product_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """IMAD: ``.WIDE`` gives two registers, and adds two; ``.HI`` adds two."""
    if "WIDE" not in qualifiers and "HI" not in qualifiers:
        return _plain_widths(base, qualifiers, operands)
    widths = [2 if "WIDE" in qualifiers else 1, *[1] * (len(operands) - 1)]
    results = _results(base, qualifiers, operands)
    sources = [i for i in range(results, len(operands)) if not _is_predicate(operands[i])]
    if len(sources) > 2:
        widths[sources[2]] = 2
    return widths


_TENSOR_ADDRESSES = {"UTMALDG": 2, "UTMASTG": 1, "UTMAREDG": 1}
"""Registers before the coordinates: the address in shared memory, and the mbarrier of loads."""


def _tensor_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """The tensor memory accelerator: shared address, barrier (loads), coordinates; descriptor."""
    widths = [2 if operand.startswith("gdesc[") else 1 for operand in operands]
    if base.startswith("UTMA"):
        widths = [2 if operand.startswith("[") else 1 for operand in operands]
        dimensions = next((int(q[0]) for q in qualifiers if q in _DIMENSIONS), 0)
        if "GATHER4" in qualifiers or "SCATTER4" in qualifiers:
            dimensions = 5  # a column and four rows
        if dimensions and len(operands) > 1:
            widths[0] = dimensions + _TENSOR_ADDRESSES.get(base, 0)
    return widths


def _conversion_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """``F2F.F64.F32``: the destination's type comes first; a single type is the wide side's."""
    types = [q for q in qualifiers if re.fullmatch(r"(?:B?F|[SUB])(?:8|16|32|64)", q)]
    widths = [1] * len(operands)
    if types and base in ("I2F", "F2I", "F2F", "FRND"):
        wide_results = ("S64", "U64") if base == "F2I" else ("F64",)
        wide_sources = ("S64", "U64") if base == "I2F" else ("F64",)
        if types[0] in wide_results:
            widths[0] = 2
        if types[-1] in wide_sources:
            widths[-1] = 2
    return widths


def _memory_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """Loads, stores, atomics: the data's width from the opcode, the address's from its form."""
    bits = access_bits(qualifiers)
    data = max(1, (128 if bits == 256 else bits) // 32)  # 256 bits are in two operands
    widths: list[int] = []
    for operand in operands:
        if "[" not in operand:
            widths.append(data if not _is_predicate(operand) else 1)
        elif "desc[" in operand:
            widths.append(1)
        else:
            # [R2.64+UR4], [R2.U32+UR4] and the [R2] of older devices: all but .U32 are pairs
            shared = base == "LDGSTS" and not widths
            widths.append(2 if base in _GLOBAL and "E" in qualifiers and not shared else 1)
    return widths


def _matrix_widths(base: str, qualifiers: list[str], operands: list[str]) -> list[int]:
    """Matrix products: a tile's bits shared out among the 32 lanes, or the 128 of a warp group."""
    count = len(operands)
    group = base in _GROUP_BITS
    bits = _element_bits(base, qualifiers)
    lanes = 128 if group else 32
    pattern = _GROUP_SHAPE if group else _SHAPE
    shape = next(filter(None, map(pattern.match, qualifiers)), None)
    if shape is None:
        return [1] * count
    rows = int(shape[1])
    columns = int(shape[2])
    depth = int(shape[3])
    accumulator = max(1, rows * columns * _accumulator_bits(base, qualifiers) // (lanes * 32))
    a = max(1, rows * depth * bits // (lanes * (64 if "SP" in qualifiers else 32)))
    b = max(1, columns * depth * bits // (lanes * 32))
    if group:
        return _group_matrix_widths(qualifiers, operands, a, accumulator)
    trailing = [1] * max(0, count - 4)
    if "SF" in qualifiers and "SP" in qualifiers and trailing:
        trailing[0] = 2  # the metadata, and the scale factors of A
    return [accumulator, a, b, accumulator, *trailing][:count]


def _accumulator_bits(base: str, qualifiers: list[str]) -> int:
    """The bits of an element of the result."""
    if base == "DMMA":
        return 64
    accumulated = next((q for q in qualifiers if q in ("F16", "F32")), "")
    return 16 if accumulated == "F16" else 32


def _element_bits(base: str, qualifiers: list[str]) -> int:
    """The bits of an element of A and B."""
    if "TF32" in qualifiers:
        return 32
    if "S4" in qualifiers or "U4" in qualifiers:
        return 4
    return _GROUP_BITS[base] if base in _GROUP_BITS else _BITS[base]


def _group_matrix_widths(
    qualifiers: list[str], operands: list[str], a: int, accumulator: int
) -> list[int]:
    """Operands of a warp group's product, by the registers of ``a`` and of an accumulator."""
    widths = [1] * len(operands)
    for i, operand in enumerate(operands):
        if operand.startswith("gdesc["):
            widths[i] = 4  # also beside an A in registers, as nvdisasm has it
        elif operand[:1] == "R":
            widths[i] = a if i == 1 else accumulator
    registers = [i for i, operand in enumerate(operands) if operand[:1] == "R"]
    if "SP" in qualifiers and registers:
        widths[registers[-1]] = 1  # the metadata
    return widths


_Widths = Callable[[str, list[str], list[str]], list[int]]
_WIDTHS: dict[str, _Widths] = {
    **dict.fromkeys(("RET", "BRX", "JMX", "CALL"), _pointer_widths),
    **dict.fromkeys(
        ("F2F", "F2I", "I2F", "FRND", "F2FP", "I2FP", "F2IP", "I2I"), _conversion_widths
    ),
    **dict.fromkeys(_PLACED, _single_wide_operand_widths),
    **dict.fromkeys(("IMAD", "UIMAD"), _product_widths),
    **dict.fromkeys(SURFACES, surface_widths),
    **dict.fromkeys(TEXTURES, texture_widths),
    **dict.fromkeys((*_BITS, *_GROUP_BITS), _matrix_widths),
    **dict.fromkeys((*_MEMORY, *_GLOBAL), _memory_widths),
    **dict.fromkeys(("UBLKCP", "UBLKRED", "UBLKPF"), _block_copy_widths),
    **dict.fromkeys(
        ("UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA", "UTCMXQMMA"), _block_product_widths
    ),
    **dict.fromkeys(("SYNCS", "MOVM"), _result_widths),
    "MATCH": _source_widths,
    "UMEMSETS": _fill_widths,
}
"""How the widths of an opcode's operands are read; ``_plain_widths`` for all others."""
