"""The 128 bytes of a tensor map, as the CUDA driver encodes them for sm_90 (``CUtensorMap``).

NVIDIA documents what they are encoded from (CUDA Driver API, "Tensor Map Object Management"), not
the bytes. Where each field is was read from the maps that ``cuTensorMapEncodeTiled`` of CUDA 13.0
wrote on an H200 (tests/data/parsers/tensor_maps.jsonl has some of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

SIZE = 128
MAX_STRIDE_BYTES = 1 << 40
"""What ``cuTensorMapEncodeTiled`` takes is below it."""
MAX_DIMENSIONS = 5
MAX_KEPT_MAPS = 256
"""Decoded tensor maps that are kept: a launch has a few, a hostile kernel may write any number."""

ELEMENTS: tuple[tuple[str, int], ...] = (
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("s32", 4),
    ("u64", 8),
    ("s64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f32", 4),
    ("f64", 8),
    ("bf16", 2),
    ("tf32", 4),
    ("tf32", 4),
    ("b4x16", 8),
    ("b4x16_p64", 8),
)
"""Types by the number that PTX gives them, and their bytes in global memory (PTX ISA,
"tensormap.replace"). Numbers of 4 bits are copied by 16."""
TF32 = (11, 12)
TF32_LESS = 4
"""tf32 and tf32.ftz are encoded as f32 and f32.ftz, whose numbers are less by it, and a bit."""
NUMBERS_OF_4_BITS = 16
PADDED_BYTES = 16
"""Of 16 numbers of 4 bits in shared memory by ``b4x16_p64``, 8 of them unused."""

SWIZZLE_BYTES = (16, 32, 64, 128)
"""Bytes within which 16-byte chunks are exchanged, by the number of the mode; 16 means none."""
SHARED_ALIGNMENTS = (16, 256, 512, 1024)
"""Of a box in shared memory, by the number of the swizzle."""


class Field(NamedTuple):
    """Where a field is: its first bit in the 128 bytes and its number of bits, of a dimension where
    it has several; ``less`` is what is taken off its value, ``unit`` what that is a multiple of."""

    bit: int
    width: int
    less: int = 0
    unit: int = 1

    def encoded(self, values: Sequence[int]) -> int:
        """The bits of a value of each dimension, at their places."""
        bits = 0
        for n, value in enumerate(values):
            number = (value - self.less) // self.unit & (1 << self.width) - 1
            bits |= number << self.bit + n * self.width
        return bits

    def one(self, bits: int) -> int:
        """The value of a field that there is one of."""
        return self.decoded(bits, 1)[0]

    def decoded(self, bits: int, count: int) -> tuple[int, ...]:
        """The values of so many dimensions."""
        numbers = (bits >> self.bit + n * self.width & (1 << self.width) - 1 for n in range(count))
        return tuple(number * self.unit + self.less for number in numbers)


ADDRESS = Field(0, 64)
RANK = Field(68, 3, less=1)
ELEMENT = Field(71, 4)
INTERLEAVE = Field(75, 2)
SWIZZLE = Field(77, 2)
FILL = Field(79, 1)
IS_TF32 = Field(80, 1)
L2_PROMOTION = Field(81, 2)
LOW_STRIDES = Field(96, 32, unit=16)
HIGH_STRIDES = Field(224, 4, unit=1 << 36)
DIMS = Field(256, 32, less=1)
STEPS = Field(416, 3, less=1)
BOX = Field(440, 8, less=1)
BOX_BYTES = Field(512, 32)
SHARED_ALIGNMENT = Field(576, 32)


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tiled tensor map. Dimensions are innermost first, as everywhere in PTX.

    ``strides`` are in bytes, of the second dimension on. ``box`` is what one copy moves, in
    elements. ``element`` and ``swizzle`` are PTX's numbers (see ``ELEMENTS``, ``SWIZZLE_BYTES``).
    ``fill``: what is outside is read as NaN and not as 0.
    """

    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element: int
    swizzle: int = 0
    fill: int = 0
    steps: tuple[int, ...] = ()
    interleave: int = 0

    def encode(self) -> bytes:
        is_tf32 = self.element in TF32
        fields = {
            ADDRESS: [self.address],
            RANK: [len(self.dims)],
            ELEMENT: [self.element - TF32_LESS if is_tf32 else self.element],
            IS_TF32: [int(is_tf32)],
            INTERLEAVE: [self.interleave],
            SWIZZLE: [self.swizzle],
            FILL: [self.fill],
            LOW_STRIDES: self.strides,
            HIGH_STRIDES: self.strides,
            DIMS: self.dims,
            STEPS: self.steps or [1] * len(self.dims),
            BOX: self.box,
            BOX_BYTES: [self._encoded_bytes],
            SHARED_ALIGNMENT: [SHARED_ALIGNMENTS[self.swizzle]],
        }
        bits = sum(field.encoded(values) for field, values in fields.items())
        return bits.to_bytes(SIZE, "little")

    @staticmethod
    @lru_cache(maxsize=MAX_KEPT_MAPS)
    def decode(data: bytes) -> TensorMap:
        """The tensor map in 128 bytes. Raises ValueError if it is no known map."""
        bits = int.from_bytes(data[:SIZE], "little")
        rank = RANK.one(bits)
        element = ELEMENT.one(bits)
        if IS_TF32.one(bits):
            element = element + TF32_LESS if element + TF32_LESS in TF32 else len(ELEMENTS)
        if rank > MAX_DIMENSIONS or element >= len(ELEMENTS):
            raise ValueError("this is not a tensor map")
        low = LOW_STRIDES.decoded(bits, rank - 1)
        high = HIGH_STRIDES.decoded(bits, rank - 1)
        tensor_map = TensorMap(
            ADDRESS.one(bits),
            DIMS.decoded(bits, rank),
            tuple(a + b for a, b in zip(low, high, strict=True)),
            BOX.decoded(bits, rank),
            element,
            SWIZZLE.one(bits),
            FILL.one(bits),
            STEPS.decoded(bits, rank),
            INTERLEAVE.one(bits),
        )
        tensor_map._check()
        return tensor_map

    def _check(self) -> None:
        """Raises ValueError for a map that is not known here, or that no device would take."""
        if self.interleave:
            raise ValueError("its interleaving is not known here")
        if self.address >> 63:
            raise ValueError("its address is beyond every device's memory")
        if self.fill and not self.kind.startswith(("f", "bf", "tf")):
            raise ValueError(f"it fills with NaN, which {self.kind} has not")
        if self.address % 16:
            raise ValueError("its base address is no multiple of 16 bytes")
        if self.box[0] % self.numbers or self.dims[0] % self.numbers:
            raise ValueError("its rows or its box's are no multiple of 16 numbers of 4 bits")

    @property
    def offsets(self) -> tuple[range, ...]:
        """Where the elements of a box that are copied are in it, of each dimension: one of so many
        as its element stride is, but all of the innermost (by an H200's bits)."""
        steps = (1, *self.steps[1:]) if self.steps else (1,) * len(self.box)
        return tuple(range(0, size, step) for size, step in zip(self.box, steps, strict=True))

    @property
    def _encoded_bytes(self) -> int:
        """What the driver writes as a box's bytes, which with element strides is not what is
        copied."""
        steps = self.steps or (1,) * len(self.box)
        counts = (size // step for size, step in zip(self.box, steps, strict=True))
        return prod(counts) // self.numbers * self.shared_item

    @property
    def extent(self) -> int:
        """Bytes from the first to the last of the tensor."""
        outer = sum((n - 1) * s for n, s in zip(self.dims[1:], self.strides, strict=True))
        return outer + self.dims[0] // self.numbers * self.item

    @property
    def kind(self) -> str:
        return ELEMENTS[self.element][0]

    @property
    def item(self) -> int:
        """Bytes in global memory of what is copied as one: an element, or 16 numbers of 4 bits."""
        return ELEMENTS[self.element][1]

    @property
    def numbers(self) -> int:
        """Elements of an item."""
        return NUMBERS_OF_4_BITS if self.kind.startswith("b4") else 1

    @property
    def shared_item(self) -> int:
        """Bytes of an item in shared memory."""
        return PADDED_BYTES if self.kind == "b4x16_p64" else self.item
