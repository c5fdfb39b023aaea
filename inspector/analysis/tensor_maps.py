"""Tensor maps among the arguments of a kernel: what each tells the copying unit.

Of a Triton kernel's descriptors a call has the shape and the strides of the tensor, and Triton's
metadata has the rest (``make_tensordesc_arg`` in triton/backends/nvidia/driver.py). Of CUDA C++ the
128 bytes that the driver encoded are read, alone or in a structure.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import Meta, Struct

from inspector.base.model import Argument, Call, DescriptorLayout, Variant
from inspector.base.units import plural
from inspector.parsers.tensor_map import L2_PROMOTION, MAX_STRIDE_BYTES, SIZE, SWIZZLE_BYTES
from inspector.parsers.tensor_map import TensorMap as EncodedMap

DESCRIPTOR = "tensordesc<"
"""What the types of such arguments begin with."""


class TensorMap(Struct, frozen=True):
    """What a tensor map describes; dimensions as in the program, the innermost last."""

    argument: str
    element: Annotated[str, Meta(description="PTX's type, or its number where it has no name")]
    box: Annotated[tuple[int, ...], Meta(description="elements that one copy moves")]
    swizzle_bytes: Annotated[int, Meta(description="0 for none")]
    interleave: str
    shape: Annotated[tuple[int, ...] | None, Meta(description="null where calls differ")]
    strides_bytes: Annotated[tuple[int, ...] | None, Meta(description="null where calls differ")]

    def text(self, with_strides: bool = True) -> str:
        """``box 128×64 of 256×512 f16, strides of 1,024 and 2 bytes, 128-byte swizzle``."""
        tensor = self.element if self.shape is None else f"{_sizes(self.shape)} {self.element}"
        parts = [f"box {_sizes(self.box)} of {tensor}"]
        if with_strides and self.strides_bytes is not None:
            *outer, innermost = self.strides_bytes
            strides = [f"{stride:,}" for stride in outer] + [plural(innermost, "byte")]
            parts.append(f"strides of {' and '.join(strides)}")
        parts.append(f"{self.swizzle_bytes}-byte swizzle" if self.swizzle_bytes else "no swizzle")
        return ", ".join(parts)


def _sizes(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))


def tensor_maps(variant: Variant, elements: Mapping[str, str]) -> tuple[TensorMap, ...]:
    """The tensor maps of a variant in the order of its arguments; none where that is not known.

    Shapes are those that all calls have in common; of encoded maps those of the first call.
    ``elements`` are the names of types by the number that PTX gives them.
    """
    structures = [a for call in variant.calls[:1] for a in call.arguments if a.data is not None]
    if structures:
        return tuple(
            _encoded_map(argument, place, encoded, elements)
            for argument in structures
            for place, encoded in encoded_maps(bytes.fromhex(argument.data or ""))
        )
    names = [name for name, kind in variant.signature.items() if kind.startswith(DESCRIPTOR)]
    layouts = variant.descriptor_layouts
    if len(names) != len(layouts):
        return ()
    return tuple(
        _tensor_map(name, layout, _common_argument(variant.calls, name), elements)
        for name, layout in zip(names, layouts, strict=True)
        if not layout.is_im2col
    )


ALIGNMENT = 64
"""Of a tensor map in a structure (CUDA Driver API, ``CUtensorMap``)."""


def encoded_maps(data: bytes) -> Iterator[tuple[int, EncodedMap]]:
    """The tensor maps in the bytes of a structure that was passed by value, by their places.

    Almost any bytes can be decoded: a map is what is encoded as it was.
    """
    promotion = L2_PROMOTION.encoded([3])
    for place in range(0, len(data) - SIZE + 1, ALIGNMENT):
        encoded = data[place : place + SIZE]
        with suppress(ValueError):
            found = EncodedMap.decode(encoded)
            without_promotion = int.from_bytes(encoded, "little") & ~promotion
            if found.encode() == without_promotion.to_bytes(SIZE, "little"):
                yield place, found


def _encoded_map(
    argument: Argument, place: int, encoded: EncodedMap, elements: Mapping[str, str]
) -> TensorMap:
    is_alone = len(argument.data or "") == 2 * SIZE
    swizzle = encoded.swizzle
    return TensorMap(
        argument=argument.name if is_alone else f"{argument.name}, byte {place:,}",
        element=elements.get(str(encoded.element), f"type {encoded.element}"),
        box=encoded.box[::-1],
        swizzle_bytes=SWIZZLE_BYTES[swizzle] if swizzle else 0,
        interleave="none",
        shape=encoded.dims[::-1],
        strides_bytes=(*encoded.strides[::-1], encoded.item),
    )


def _tensor_map(
    name: str, layout: DescriptorLayout, argument: Argument | None, elements: Mapping[str, str]
) -> TensorMap:
    shape = None if argument is None else argument.shape
    strides = None if argument is None else argument.strides
    if shape and layout.fp4_padded:  # two elements a byte
        shape = (*shape[:-1], shape[-1] * 2)
    return TensorMap(
        argument=name,
        element=elements.get(str(layout.elem_type), f"type {layout.elem_type}"),
        box=layout.block_size,
        swizzle_bytes=16 << layout.swizzle if layout.swizzle else 0,
        interleave="none",
        shape=shape,
        strides_bytes=None if strides is None else _bytes(strides, layout.elem_size),
    )


def _bytes(strides: Sequence[int], element_bytes: int) -> tuple[int, ...] | None:
    """Strides in bytes; None beyond what a tensor map takes."""
    strides_bytes = tuple(stride * element_bytes for stride in strides)
    is_valid = all(0 <= stride < MAX_STRIDE_BYTES for stride in strides_bytes)
    return strides_bytes if strides_bytes and is_valid else None


def _common_argument(calls: Sequence[Call], name: str) -> Argument | None:
    """The argument of a name, None unless all calls have it with one shape and strides."""
    arguments = [a for call in calls for a in call.arguments if a.name == name]
    layouts = {(a.shape, a.strides) for a in arguments}
    return arguments[0] if len(layouts) == 1 and len(arguments) == len(calls) else None


def descriptor_layouts(
    arguments: Sequence[Argument], layouts: Sequence[DescriptorLayout]
) -> dict[str, DescriptorLayout]:
    """The layouts of the tensor descriptors among a call's arguments by their names; of those that
    are not encoded as tensor maps there is none."""
    names = [a.name for a in arguments if (a.type or "").startswith(DESCRIPTOR)]
    if len(names) != len(layouts):
        return {}
    return {
        name: layout
        for name, layout in zip(names, layouts, strict=True)
        if not (layout.fp4_padded or layout.is_im2col)
    }
