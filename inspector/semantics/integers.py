"""Integer and bit instructions that numpy has no function for, as the PTX ISA defines them.

All take and give arrays that broadcast against each other; 32-bit ones unless said otherwise.
Whether an operand is signed is the array's type.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

u8 = np.uint8
u16 = np.uint16
u32 = np.uint32
u64 = np.uint64
i8 = np.int8
i16 = np.int16
i32 = np.int32
i64 = np.int64
f64 = np.float64

_TWICE: Mapping[Any, Any] = {i16: i32, u16: u32, i32: i64, u32: u64}
"""The type of the product of two numbers of a type."""
LOW = u64(0xFFFFFFFF)


def multiply_wide(a: Array, b: Array) -> Array:
    """The whole product of two integers of 16 or 32 bits."""
    wide = _TWICE[a.dtype.type]
    return a.astype(wide) * b.astype(wide)


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product of two integers of one type."""
    if a.dtype == u64:
        return _multiply_high_long(a, b)
    if a.dtype == i64:
        high = _multiply_high_long(a.view(u64), b.view(u64))
        zero = u64(0)
        correction = np.where(a < 0, b.view(u64), zero) + np.where(b < 0, a.view(u64), zero)
        return (high - correction).view(i64)
    product = multiply_wide(a, b)
    return (product >> product.dtype.type(8 * a.dtype.itemsize)).astype(a.dtype)


def _multiply_high_long(a: Array, b: Array) -> Array:
    """The upper half of the product of two unsigned 64-bit integers."""
    a0 = a & LOW
    a1 = a >> u64(32)
    b0 = b & LOW
    b1 = b >> u64(32)
    middle = a1 * b0 + ((a0 * b0) >> u64(32))
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> u64(32)) + (other >> u64(32))


def multiply24(a: Array, b: Array, high: bool) -> Array:
    """The 48-bit product of the lowest 24 bits of two integers: its lower or upper 32 bits."""
    shift = a.dtype.type(8)
    product = multiply_wide((a << shift) >> shift, (b << shift) >> shift)
    return (product >> product.dtype.type(16 if high else 0)).astype(a.dtype)


def divide(a: Array, b: Array) -> Array:
    """Division towards zero; the least integer by -1 wraps.

    Division by zero is unspecified. What ptxas puts in place of ``div`` and ``rem`` sets all bits.
    """
    ones = ~a.dtype.type(0)
    divisor = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ones, a // divisor)
    negated = b == -1
    divisor = np.where(negated, b.dtype.type(1), divisor)
    quotient = (a - np.fmod(a, divisor)) // divisor
    return np.where(b == 0, ones, np.where(negated, -a, quotient))


def remainder(a: Array, b: Array) -> Array:
    """What division towards zero leaves, with the dividend's sign; by zero all bits are set."""
    special = (b == 0) | (b == ~b.dtype.type(0)) if a.dtype.kind == "i" else b == 0
    residue = np.fmod(a, np.where(special, b.dtype.type(1), b))
    return np.where(b == 0, ~a.dtype.type(0), residue)


def saturating_sum(a: Array, b: Array, subtract: bool) -> Array:
    wide = a.astype(i64) - b if subtract else a.astype(i64) + b
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(i32)


def saturate(a: Array, dtype: Any) -> Array:
    """Integers clipped to the range of another integer type."""
    info = np.iinfo(dtype)
    if a.dtype == u64:
        return np.minimum(a, u64(info.max)).astype(dtype)
    return np.clip(a.astype(i64), info.min, min(info.max, (1 << 63) - 1)).astype(dtype)


def shift_left(a: Array, amount: Array) -> Array:
    """``shl``: amounts beyond the width give 0."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    shifted = a << np.minimum(amount, u32(bits - 1)).astype(kind)
    return np.where(amount >= u32(bits), kind(0), shifted)


def shift_right(a: Array, amount: Array) -> Array:
    """``shr``: logical or arithmetic by the type; amounts are clamped to the width."""
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    shifted = a >> np.minimum(amount, u32(bits - 1)).astype(kind)
    if a.dtype.kind == "i":
        return shifted
    return np.where(amount >= u32(bits), kind(0), shifted)


def funnel_shift(a: Array, b: Array, amount: Array, leftward: bool, wrap: bool) -> Array:
    """``shf``: the pair ``b:a`` shifted; to the left its upper word, to the right its lower."""
    steps = ((amount & u32(31)) if wrap else np.minimum(amount, u32(32))).astype(u64)
    pair = a.astype(u64) | (b.astype(u64) << u64(32))
    return ((pair << steps) >> u64(32)).astype(u32) if leftward else (pair >> steps).astype(u32)


def logic3(a: Array, b: Array, c: Array, table: int) -> Array:
    """``lop3``: bit k of ``table`` is the result where the three bits are those of k."""
    out: Array | None = None
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            out = term if out is None else out | term
    return np.zeros((1, 1), u32) if out is None else out


def permute(a: Array, b: Array, selector: Array, mode: str) -> Array:
    """``prmt``: four of the eight bytes of ``b:a``; in the generic mode with sign replication."""
    if mode:
        base = selector & u32(3)
        picks: Sequence[Array] = [PERMUTE_MODES[mode](base, k) for k in range(4)]
    else:
        picks = [(selector >> u32(4 * k)) & u32(15) for k in range(4)]
    pair = a.astype(u64) | (b.astype(u64) << u64(32))
    out: Array = np.zeros((1, 1), u32)
    for k, pick in enumerate(picks):
        byte = ((pair >> ((pick & u32(7)).astype(u64) * u64(8))) & u64(255)).astype(u32)
        if not mode and (pick & u32(8)).any():
            sign = np.where(byte & u32(128), u32(255), u32(0))
            byte = np.where(pick & u32(8), sign, byte)
        out = out | (byte << u32(8 * k))
    return out


PERMUTE_MODES: Mapping[str, Callable[[Array, int], Array]] = {
    "f4e": lambda base, k: base + u32(k),
    "b4e": lambda base, k: (base - u32(k)) & u32(7),
    "rc8": lambda base, k: base,
    "ecl": lambda base, k: np.maximum(base, u32(k)),
    "ecr": lambda base, k: np.minimum(base, u32(k)),
    "rc16": lambda base, k: (base & u32(1)) * u32(2) + u32(k & 1),
}
"""The byte that ``prmt`` in a mode takes for byte k."""


def _field(a: Array, position: Array, length: Array) -> tuple[Array, Array]:
    """The place and the length of a bit field, as ``bfe`` and ``bfi`` take them.

    PTX ISA, 9.7.1, "bfe", restricts both to 0 to 255. Beyond, the instruction of 32 bits looks at
    the lowest byte; what ptxas puts in place of that of 64 bits clamps.
    """
    if a.dtype.itemsize == 8:
        return position, length
    return position & u32(255), length & u32(255)


def extract_bits(a: Array, position: Array, length: Array) -> Array:
    """``bfe`` of any width; signed by the type of ``a``, whose bits the field's sign fills."""
    first, count = _field(a, position, length)
    field = shift_right(a.astype(i64 if a.dtype.kind == "i" else u64), first)
    unused_bits = u32(64) - np.minimum(count, u32(64))
    return shift_right(shift_left(field, unused_bits), unused_bits).astype(a.dtype)


def extend(a: Array, size: Array, wrap: bool) -> Array:
    """``szext``: the lowest bits, the rest filled with their sign or with zeros."""
    count = size & u32(31) if wrap else np.minimum(size, u32(32))
    return extract_bits(a, np.zeros((1, 1), u32), count)


def insert_bits(a: Array, b: Array, position: Array, length: Array) -> Array:
    first, count = _field(b, position, length)
    field = shift_left(~shift_left(~np.zeros((1, 1), b.dtype), count), first)
    return (b & ~field) | (shift_left(a, first) & field)


def bit_mask(position: Array, length: Array, wrap: bool) -> Array:
    """``bmsk``: ``length`` ones from bit ``position`` on."""
    first, size = (position & u32(31), length & u32(31)) if wrap else (position, length)
    return shift_left(~shift_left(~np.zeros((1, 1), u32), size), first)


def _bits(a: Array) -> Array:
    """The bits of integers along a last dimension, the lowest first."""
    return np.unpackbits(np.ascontiguousarray(a)[..., None].view(u8), axis=-1, bitorder="little")


def population(a: Array) -> Array:
    return _bits(a).sum(-1, dtype=u32)


def leading_zeros(a: Array) -> Array:
    """How many bits are 0 above the highest that is set; the width where none is."""
    bits = _bits(a)
    return np.where(a == 0, bits.shape[-1], bits[..., ::-1].argmax(-1)).astype(u32)


def find_highest(a: Array, shift: bool) -> Array:
    """``bfind``: the highest bit that is not the sign; all bits set if missing."""
    bits = a.dtype.itemsize * 8
    if a.dtype.kind == "i":
        a = np.where(a < 0, ~a, a).view(u32 if bits == 32 else u64)
    zeros = leading_zeros(a)
    return np.where(a == 0, u32(0xFFFFFFFF), zeros if shift else u32(bits - 1) - zeros)


def reverse_bits(a: Array) -> Array:
    return np.packbits(_bits(a)[..., ::-1], -1, "little").view(a.dtype)[..., 0]


def find_nth(a: Array, base: Array, offset: Array) -> Array:
    """``fns``: where the n-th set bit from ``base`` on is; all bits set if missing."""
    a, base, offset = (x[..., None] for x in np.broadcast_arrays(a, base, offset.view(i32)))
    positions = np.arange(32)
    bits = _bits(a[..., 0]).astype(bool)
    up = bits & (positions >= base)
    down = bits & (positions <= base)
    nth_up = up & (up.cumsum(-1) == offset)
    nth_down = down & (down[..., ::-1].cumsum(-1)[..., ::-1] == -offset)
    selected = np.where(
        offset == 0, bits & (positions == base), np.where(offset > 0, nth_up, nth_down)
    )
    return np.where(selected.any(-1), selected.argmax(-1), 0xFFFFFFFF).astype(u32)


def dot4(a: Array, b: Array, c: Array) -> Array:
    """``dp4a``: four products of bytes, added to ``c``; unsigned bits out."""
    pairs = zip(_parts(a, 8), _parts(b, 8), strict=True)
    return sum((x * y for x, y in pairs), c.astype(i64)).astype(u32)


def dot2(a: Array, b: Array, c: Array, high: bool) -> Array:
    """``dp2a``: two products of a half-word and a byte, added to ``c``; unsigned bits out."""
    halves = _parts(a, 16)
    parts = _parts(b, 8)[2 if high else 0 :]
    return (c.astype(i64) + halves[0] * parts[0] + halves[1] * parts[1]).astype(u32)


def _parts(words: Array, width: int) -> list[Array]:
    """The parts of 32-bit words as numbers, the lowest first."""
    up = words.dtype.type(32 - width)
    return [
        ((words << words.dtype.type(32 - width - bit)) >> up).astype(i64)
        for bit in range(0, 32, width)
    ]


def pack(a: Array, b: Array, c: Array | None, width: int, signed: bool) -> Array:
    """``cvt.pack``: two integers clamped to ``width`` bits, ``b`` the lower; ``c`` above them."""
    low = -(1 << (width - 1)) if signed else 0
    high = low + (1 << width) - 1
    mask = u32((1 << width) - 1)
    first, second = (np.clip(x, i32(low), i32(high)).view(u32) & mask for x in (a, b))
    pair = (first << u32(width)) | second
    return pair if c is None else (c << u32(2 * width)) | pair


def part(word: Array, first: int, width: int, signed: bool) -> Array:
    """Some bits of 64 as a signed 64-bit integer, their sign or zeros above them."""
    raised = word << u64(64 - first - width)
    if signed:
        return raised.view(i64) >> i64(64 - width)
    return (raised >> u64(64 - width)).view(i64)


def shift_part(a: Array, amount: Array) -> Array:
    """A part shifted left by at most 32 bits; its sign is kept where 64 bits do not hold it."""
    bounded = np.where(amount == 32, np.clip(a, -(1 << 31), (1 << 31) - 1), a)
    return bounded << amount


def scaled_sum(
    a: Array,
    b: Array,
    c: Array,
    negated: bool,
    subtract: bool,
    plus_one: bool,
    shift: int,
    limits: tuple[int, int] | None,
) -> Array:
    """``vmad``: a product, negated or not, plus or minus ``c``, shifted right, clipped."""
    product = a.astype(object) * b  # more than 64 bits
    total = (-product if negated else product) + (-c if subtract else c) + int(plus_one)
    total = total >> shift
    if limits is not None:
        total = np.minimum(np.maximum(total, limits[0]), limits[1])
    return (total & 0xFFFFFFFF).astype(u32)


def carry_sum(a: Array, b: Array, carry: Array | None, subtract: bool) -> tuple[Array, Array]:
    """A sum or difference of unsigned integers, and its carry (0 or 1, 64 bits).

    A difference is the sum with the complement and a carry of 1, as on a GPU: its carry is 1 where
    nothing is borrowed. PTX ISA, 9.7.2, "sub.cc", calls the flag a borrow, which only an ``addc``
    after it could tell from that: on an H200 it adds 1 where nothing was borrowed.
    """
    added = ~b if subtract else b
    step = a.dtype.type(subtract) if carry is None else carry.astype(a.dtype)
    part = a + added
    total = part + step
    return total, ((part < a) | (total < part)).astype(u64)


def to_integer(x: Array, way: str, dtype: Any) -> Array:
    """``cvt`` of floats to integers: rounded as ``way`` says, clipped; NaN gives 0.

    A NaN of double precision, or one converted to 64 bits, gives the integer of which only the
    highest bit is set (PTX ISA, "cvt").
    """
    rounded = _ROUND[way](x).astype(f64)
    info = np.iinfo(dtype)
    nan = np.isnan(rounded)
    if info.bits == 64:
        low = float(info.min)
        high = 2.0**63 if info.min else 2.0**64
        over = rounded >= high
        under = rounded < low
        inside = np.where(over | under | nan, 0.0, rounded).astype(dtype)
        out = np.where(over, dtype(info.max), np.where(under, dtype(info.min), inside))
        return np.where(nan, np.array(1 << 63, u64).view(dtype), out)
    clipped = np.clip(np.where(nan, 0.0, rounded), float(info.min), float(info.max))
    out = clipped.astype(i64).astype(dtype)
    if x.dtype == f64 and nan.any():
        out = np.where(nan, np.array(1 << (info.bits - 1), i64).astype(dtype), out)
    return out


_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
