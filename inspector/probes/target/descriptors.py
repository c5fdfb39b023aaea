"""TMA descriptors in the interpreter: loads, stores, gathers, scatters and reductions.

Triton's interpreter has some of these in some versions; here are all, with what a GPU does at the
bounds: a load gives the padding there, a store and a reduction leave memory as it is.
"""

from __future__ import annotations

import inspect
from typing import Any

from . import bounds


class InvalidDescriptor(RuntimeError):
    """The CUDA driver or the hardware refuses such a descriptor."""


class _Descriptors:
    """Replacements for methods of InterpreterBuilder and TensorDescHandle."""

    def __init__(self, interpreter: Any) -> None:
        import numpy as np
        import triton.language as tl

        self.interpreter, self.np, self.tl = interpreter, np, tl
        self.handle = interpreter.TensorHandle
        # How a load is cached differs between versions by number and name of arguments.
        builder = interpreter.InterpreterBuilder
        loading = list(inspect.signature(builder.create_masked_load).parameters)[4:]
        self.plainly = [False if name == "is_volatile" else None for name in loading]
        self.storing = [None] * len(
            list(inspect.signature(builder.create_masked_store).parameters)[4:]
        )

    def validate(self, desc: Any) -> None:
        size = self._element_bytes(desc)
        strides = [int(self.np.asarray(s.data).item()) for s in desc.strides]
        wrong = ""
        if int(desc.base.data.item()) % 16:
            wrong = "its base address is not a multiple of 16 bytes"
        elif any(stride * size % 16 for stride in strides[:-1]):
            wrong = f"a stride of {strides[:-1]} elements is not a multiple of 16 bytes"
        elif strides[-1] != 1:
            wrong = f"its last stride is {strides[-1]}, and not 1"
        if wrong:
            raise InvalidDescriptor(
                f"CUDA error: invalid argument\nptxview: a tensor descriptor is refused: {wrong}"
            )

    def _element_bytes(self, desc: Any) -> int:
        return max(1, int(desc.base.dtype.element_ty.primitive_bitwidth) // 8)

    def pointers(self, desc: Any, offsets: Any) -> tuple[Any, Any]:
        """The block's addresses and which of them are inside; a block may start anywhere."""
        np, size = self.np, self._element_bytes(desc)
        places = np.broadcast_to(desc.base.data, desc.block_shape)
        inside = np.ones(desc.block_shape, dtype=bool)
        for dim, length in enumerate(desc.block_shape):
            shape = [1] * len(desc.block_shape)
            shape[dim] = length
            start = np.asarray(offsets[dim].data).astype(np.int64)
            index = (start + np.arange(length)).reshape(shape)
            stride = np.asarray(desc.strides[dim].data).astype(np.int64)
            places = places + (size * index * stride).astype(np.uint64)
            inside = inside & (index >= 0) & (index < desc.shape[dim].data)
        pointers = self.handle(places, desc.base.dtype.scalar)
        bounds.name_after(pointers, [desc.base])
        return pointers, self.handle(inside, self.tl.int1)

    def _padding(self, desc: Any, shape: Any) -> Any:
        np, tl = self.np, self.tl
        kind = desc.base.dtype.element_ty
        form = self.interpreter._get_np_dtype(kind)
        if "NAN" not in str(getattr(desc, "padding", "")).upper():
            return self.handle(np.zeros(shape, form), kind)
        if kind == tl.bfloat16:  # its bits, as the interpreter keeps it
            return self.handle(np.full(shape, 0x7FC0, form), kind)
        return self.handle(np.full(shape, float("nan"), form), kind)

    def _read(self, builder: Any, places: Any, inside: Any, other: Any) -> Any:
        return builder.create_masked_load(places, inside, other, *self.plainly)

    def _write(self, builder: Any, places: Any, value: Any, inside: Any) -> Any:
        return builder.create_masked_store(places, value, inside, *self.storing)

    def load(self, builder: Any, desc: Any, offsets: Any, *how: Any, **named: Any) -> Any:
        places, inside = desc.materialize_pointers(offsets)
        result = self._read(builder, places, inside, self._padding(desc, places.data.shape))
        if getattr(desc, "round_f32_to_tf32", False) and result.dtype.scalar == self.tl.float32:
            rounded = self.interpreter._round_f32_to_tf32(result.data)
            return self.handle(rounded, result.dtype)
        return result

    def store(self, builder: Any, desc: Any, value: Any, offsets: Any, *how: Any) -> Any:
        places, inside = desc.materialize_pointers(offsets)
        value = self.handle(value.data.reshape(places.data.shape), value.dtype)
        return self._write(builder, places, value, inside)

    def _rows(self, desc: Any, rows: Any, column: Any) -> tuple[Any, Any]:
        """The addresses of single rows, each from its own."""
        np = self.np
        several = np.asarray(rows.data).reshape(-1)
        parts = [
            desc.materialize_pointers([self.handle(np.array([row]), self.tl.int32), column])
            for row in several
        ]
        places = np.concatenate([place.data.reshape(1, -1) for place, _ in parts])
        inside = np.concatenate([mask.data.reshape(1, -1) for _, mask in parts])
        kind = desc.base.dtype.scalar
        pointers = self.handle(places, kind)
        bounds.name_after(pointers, [desc.base])
        return pointers, self.handle(inside, self.tl.int1)

    def gather(self, builder: Any, desc: Any, rows: Any, column: Any, *how: Any, **n: Any) -> Any:
        places, inside = self._rows(desc, rows, column)
        return self._read(builder, places, inside, self._padding(desc, places.data.shape))

    def scatter(self, builder: Any, desc: Any, value: Any, rows: Any, column: Any) -> Any:
        places, inside = self._rows(desc, rows, column)
        return self._write(builder, places, value, inside)

    def reduce(self, builder: Any, kind: Any, desc: Any, value: Any, offsets: Any) -> Any:
        """A reduction into memory: programs run one after another, so it is exact."""
        np = self.np
        floating = desc.base.dtype.element_ty.is_floating()
        operations = {
            "ADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor,
            "MIN": np.fmin if floating else np.minimum,
            "MAX": np.fmax if floating else np.maximum,
        }  # fmt: skip
        name = str(kind).rpartition(".")[2].upper()
        if name not in operations:
            raise NotImplementedError(f"a descriptor's reduction {name}")
        places, inside = desc.materialize_pointers(offsets)
        value = self.handle(value.data.reshape(places.data.shape), value.dtype)
        if value.dtype.scalar != desc.base.dtype.element_ty:
            value = builder.cast_impl(value, desc.base.dtype.element_ty)
        old = self._read(builder, places, inside, None)
        return self._write(builder, places, builder.binary_op(old, value, operations[name]), inside)


def patches(interpreter: Any) -> list[tuple[Any, str, Any]]:
    """Everything to set while a launch runs; nothing where this Triton has no descriptors."""
    kind = getattr(interpreter, "TensorDescHandle", None)
    if kind is None:
        return []
    made = _Descriptors(interpreter)
    builder = interpreter.InterpreterBuilder

    def bound(function: Any) -> Any:
        return lambda owner, *args, **given: function(owner, *args, **given)

    return [
        (kind, "validate", bound(made.validate)),
        (kind, "materialize_pointers", bound(made.pointers)),
        (builder, "create_descriptor_load", bound(made.load)),
        (builder, "create_descriptor_store", bound(made.store)),
        (builder, "create_descriptor_gather", bound(made.gather)),
        (builder, "create_descriptor_scatter", bound(made.scatter)),
        (builder, "create_descriptor_reduce", bound(made.reduce)),
    ]
