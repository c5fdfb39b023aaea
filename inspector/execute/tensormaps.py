"""Tensor maps: what a bulk copy of a tile must know of a tensor (PTX ISA, "Tensor-map").

The 128 bytes of a tensor map are opaque, and NVIDIA keeps their layout to itself: here they have
one of our own, which ``tensormap.replace`` writes and ``TensorMap.encode`` gives to those who
launch kernels that take tensor maps as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inspector.execute.kinds import Array, f32, f64, i64

SIZE = 128
DEEPEST = 5

ELEMENTS: tuple[tuple[str, str], ...] = (
    ("u8", "u1"),
    ("u16", "u2"),
    ("u32", "u4"),
    ("s32", "i4"),
    ("u64", "u8"),
    ("s64", "i8"),
    ("f16", "f2"),
    ("f32", "f4"),
    ("f32", "f4"),
    ("f64", "f8"),
    ("bf16", "u2"),
    ("tf32", "f4"),
    ("tf32", "f4"),
)
"""Types by the number that PTX gives them, and as numpy's (PTX ISA, "tensormap.replace")."""

SWIZZLE_BYTES = (16, 32, 64, 128)
"""Bytes within which 16-byte chunks are exchanged, by the number of the mode; 16 means none."""

_LAYOUT = np.dtype(
    [
        ("address", "<u8"),
        ("strides", "<u8", (DEEPEST - 1,)),
        ("dims", "<u4", (DEEPEST,)),
        ("box", "<u4", (DEEPEST,)),
        ("steps", "<u4", (DEEPEST,)),
        ("rank", "u1"),
        ("element", "u1"),
        ("interleave", "u1"),
        ("swizzle", "u1"),
        ("fill", "u1"),
    ]
)

FIELDS: dict[str, tuple[str, bool]] = {
    "global_address": ("address", False),
    "rank": ("rank", False),
    "box_dim": ("box", True),
    "global_dim": ("dims", True),
    "global_stride": ("strides", True),
    "element_stride": ("steps", True),
    "elemtype": ("element", False),
    "interleave_layout": ("interleave", False),
    "swizzle_mode": ("swizzle", False),
    "fill_mode": ("fill", False),
}
"""The fields that ``tensormap.replace`` names, and whether they are of one dimension each."""


def field_place(name: str, dimension: int) -> tuple[int, int]:
    """Offset and size in bytes of a field, of one dimension where it has several."""
    own, several = FIELDS[name]
    kind, offset = _LAYOUT.fields[own][:2]  # type: ignore[index]
    size = kind.base.itemsize if several else kind.itemsize
    return offset + (size * dimension if several else 0), size


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
        """The 128 bytes that a kernel is given for it."""
        row = np.zeros(1, _LAYOUT)
        row["address"], row["rank"] = self.address, len(self.dims) - 1
        row["dims"][0, : len(self.dims)] = self.dims
        row["strides"][0, : len(self.strides)] = self.strides
        row["box"][0, : len(self.box)] = self.box
        row["steps"][0, : len(self.dims)] = self.steps or [1] * len(self.dims)
        row["element"], row["swizzle"] = self.element, self.swizzle
        row["fill"], row["interleave"] = self.fill, self.interleave
        return row.tobytes().ljust(SIZE, b"\0")

    @staticmethod
    def decode(data: bytes) -> TensorMap:
        """The tensor map in 128 bytes. Raises ValueError if it is no known map."""
        row = np.frombuffer(data[: _LAYOUT.itemsize], _LAYOUT)[0]
        rank = int(row["rank"]) + 1
        if rank > DEEPEST or int(row["element"]) >= len(ELEMENTS):
            raise ValueError("this is not a tensor map")
        made = TensorMap(
            int(row["address"]),
            tuple(row["dims"][:rank].tolist()),
            tuple(row["strides"][: rank - 1].tolist()),
            tuple(row["box"][:rank].tolist()),
            int(row["element"]),
            int(row["swizzle"]),
            int(row["fill"]),
            tuple(row["steps"][:rank].tolist()),
            int(row["interleave"]),
        )
        if made.interleave or made.swizzle >= len(SWIZZLE_BYTES):
            raise ValueError("its interleaving or swizzle is not known here")
        if not all(made.box) or not all(made.dims):
            raise ValueError("this is not a tensor map")
        if made.address % 16:
            raise ValueError("its base address is no multiple of 16 bytes")
        if wrong := [step for step in made.strides if step % 16]:
            raise ValueError(f"a stride of {wrong[0]} bytes is no multiple of 16 bytes")
        return made

    @property
    def kind(self) -> str:
        """The element's PTX type."""
        return ELEMENTS[self.element][0]

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return np.dtype(ELEMENTS[self.element][1]).itemsize

    def places(
        self, start: Sequence[int], rows: Sequence[int] | None = None
    ) -> tuple[Array, Array]:
        """The addresses of a box's elements (in order, flat) and which of them are in the tensor.

        ``start`` are the coordinates of its first element. ``rows``: the second coordinates of
        single rows, for a gather or a scatter.
        """
        rank = len(self.dims)
        address: Array = np.full((1,) * rank, self.address, i64)
        inside: Array = np.ones((1,) * rank, bool)
        for d in range(rank):
            step = self.steps[d] if self.steps and self.steps[d] else 1
            if d == 1 and rows is not None:
                index = np.array(rows, i64)
            else:
                index = start[d] + np.arange(0, self.box[d] * step, step, dtype=i64)[: self.box[d]]
            shape = [1] * rank
            shape[rank - 1 - d] = len(index)
            index = index.reshape(shape)
            address = address + index * (self.item if d == 0 else self.strides[d - 1])
            inside = inside & (index >= 0) & (index < self.dims[d])
        whole = np.broadcast_shapes(address.shape, inside.shape)
        flat = [np.broadcast_to(x, whole).reshape(-1) for x in (address, inside)]
        return flat[0], flat[1]

    def outside_bits(self) -> Array:
        """The bits of what a load gives outside of the tensor: 0, or the type's NaN."""
        width = self.item
        if not self.fill:
            return np.zeros(1, f"u{width}")
        value = {"f16": 0x7FFF, "bf16": 0x7FFF}.get(self.kind)
        if value is not None:
            return np.array([value], "u2")
        return np.array([np.nan], f64 if width == 8 else f32).view(f"u{width}")


def swizzled_offsets(start: int, count: int, item: int, mode: int) -> Array:
    """Where ``count`` elements of a box are in shared memory from an offset on."""
    offsets = start + np.arange(count, dtype=i64) * item
    mask = (0, 1, 3, 7)[mode]
    return offsets ^ (((offsets >> 7) & mask) << 4)
