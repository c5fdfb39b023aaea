"""What the interpreter gets wrong, mended for the length of a launch.

It stores bfloat16 as uint16 and computes on the integers; its casts go by value between fp32 and
bfloat16 alone, truncating; one that rounds up to an 8-bit float loses the carry; and it leaves a
float argument a Python float, where the compiler makes it fp32. Here bfloat16 is computed in fp32
and rounded to nearest even, as on a GPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

ELEMENTWISE = (
    "binary_op", "unary_op", "ternary_op", "create_fabs", "create_erf", "create_rsqrt",
    "create_fma", "create_clampf",
)  # fmt: skip


# 8-bit floats by their names in Triton and in torch.
EIGHT_BITS = {"fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}


class _Mended:
    """Replacements for methods of InterpreterBuilder, ReduceOps and ScanOps."""

    def __init__(self, interpreter: Any) -> None:
        import numpy as np
        import torch
        import triton.language as tl

        self.interpreter, self.np, self.torch, self.tl = interpreter, np, torch, tl
        self.builder = interpreter.InterpreterBuilder
        self.handle = interpreter.TensorHandle
        self.original_cast = self.builder.cast_impl

    def is_bf16(self, value: Any) -> bool:
        return isinstance(value, self.handle) and value.dtype.scalar == self.tl.bfloat16

    def up(self, value: Any) -> Any:
        """bfloat16 as fp32; anything else as it is."""
        if self.is_bf16(value) and value.data.dtype == self.np.uint16:
            return self.cast(None, value, self.tl.float32)
        return value

    def down(self, value: Any) -> Any:
        return self.cast(None, value, self.tl.bfloat16)

    def cast(self, builder: Any, src: Any, dst: Any) -> Any:
        """InterpreterBuilder.cast_impl, by value and rounding to nearest even."""
        np, torch, tl = self.np, self.torch, self.tl
        builder = builder or self.interpreter.interpreter_builder
        source, wanted = src.dtype.scalar, dst.scalar
        if src.data.dtype == bool and source != tl.int1:
            # The interpreter gives the result of a comparison its operands' type.
            source, src = tl.int1, self.handle(src.data, tl.int1)
        if source == wanted:
            return src
        if source == tl.bfloat16:
            src = self.handle((src.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
        if wanted != tl.bfloat16:
            if wanted == src.dtype.scalar:
                return src
            return self.original_cast(builder, src, dst)
        if src.dtype.scalar != tl.float32:
            src = self.original_cast(builder, src, tl.float32)
        flat = np.ascontiguousarray(src.data).reshape(-1).astype(np.float32)
        rounded = torch.from_numpy(flat).bfloat16().view(torch.int16).numpy().view(np.uint16)
        return self.handle(rounded.reshape(src.data.shape), tl.bfloat16)

    def elementwise(self, original: Any) -> Any:
        """Compute in fp32 where an operand is bfloat16, and round back."""

        def method(builder: Any, *args: Any) -> Any:
            if not any(self.is_bf16(a) for a in args):
                return original(builder, *args)
            result = original(builder, *(self.up(a) for a in args))
            if result.data.dtype == bool:
                return self.handle(result.data, self.tl.bfloat16)
            return self.down(result) if result.dtype.scalar == self.tl.float32 else result

        return method

    def dot(self, original: Any) -> Any:
        def create_dot(builder: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
            return original(builder, self.up(a), self.up(b), d, *rest)

        return create_dot

    def fp_to_fp(self, original: Any) -> Any:
        def create_fp_to_fp(builder: Any, src: Any, dst: Any, rounding: Any) -> Any:
            kinds = (src.dtype.scalar, dst.scalar)
            if self.tl.bfloat16 in kinds and not any(k.is_fp8() for k in kinds):
                return self.cast(builder, src, dst)
            nearest = rounding is None or str(rounding).endswith("RTNE")
            if nearest and any(str(k) in EIGHT_BITS for k in kinds):
                return self.eight_bits(src, dst)
            return original(builder, src, dst, rounding)

        return create_fp_to_fp

    def eight_bits(self, src: Any, dst: Any) -> Any:
        """To and from an 8-bit float: to nearest even, and the greatest for what is beyond it."""
        np, torch, tl = self.np, self.torch, self.tl
        source, wanted = str(src.dtype.scalar), str(dst.scalar)
        if source in EIGHT_BITS:
            form = getattr(torch, EIGHT_BITS[source])
            bits = torch.from_numpy(
                np.ascontiguousarray(src.data).reshape(-1).view(np.uint8).copy()
            )
            wide = bits.view(form).float().numpy().reshape(src.data.shape)
            made = self.handle(wide, tl.float32)
            return made if wanted == "fp32" else self.create(made, dst)
        wide = src if source == "fp32" else self.cast(None, src, tl.float32)
        form = getattr(torch, EIGHT_BITS[wanted])
        most = float(torch.finfo(form).max)
        flat = np.clip(np.ascontiguousarray(wide.data).reshape(-1), -most, most)
        bits = torch.from_numpy(flat.astype(np.float32)).to(form).view(torch.uint8).numpy()
        return self.handle(bits.reshape(src.data.shape), dst.scalar)

    def create(self, src: Any, dst: Any) -> Any:
        """fp32 as any other float."""
        return (
            self.eight_bits(src, dst)
            if str(dst.scalar) in EIGHT_BITS
            else self.cast(None, src, dst)
        )

    def reduction(self, original: Any) -> Any:
        """Reduce and scan bfloat16 in fp32; other members of a tuple (an index) as they are."""
        tl = self.tl

        def as_type(x: Any, convert: Any, dtype: Any) -> Any:
            kind = tl.block_type(dtype, list(x.shape)) if x.type.is_block() else dtype
            return tl.core.tensor(convert(x.handle), kind)

        def apply_impl(ops: Any, given: Any) -> Any:
            inputs = given if isinstance(given, tuple) else (given,)
            half = [x.dtype == tl.bfloat16 for x in inputs]
            if not any(half):
                return original(ops, given)
            widened = tuple(
                as_type(x, self.up, tl.float32) if b else x
                for x, b in zip(inputs, half, strict=True)
            )
            result = original(ops, widened)
            several = isinstance(result, (tuple, list))
            narrowed = tuple(
                as_type(x, self.down, tl.bfloat16) if b else x
                for x, b in zip(result if several else (result,), half, strict=True)
            )
            return narrowed if several else narrowed[0]

        return apply_impl

    def atomic(self, original: Any) -> Any:
        """Atomic additions of bfloat16: programs run one after another, so they are exact."""
        np, tl = self.np, self.tl

        def create_atomic_rmw(
            builder: Any, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any
        ) -> Any:
            if val.dtype.scalar != tl.bfloat16:
                return original(builder, op, ptr, val, mask, sem, scope)
            if op != self.interpreter._ir.ATOMIC_OP.FADD:
                raise NotImplementedError(f"bfloat16 atomic {op}")
            shape = val.data.shape
            places, on, added = (
                np.broadcast_to(x, shape).reshape(-1)
                for x in (ptr.data, mask.data, self.up(val).data)
            )
            old = np.zeros(places.shape, np.uint16)
            for i in np.flatnonzero(on):
                word = ctypes.c_uint16.from_address(int(places[i]))
                old[i] = word.value
                before = self.up(self.handle(np.array([word.value], np.uint16), tl.bfloat16)).data
                total = self.handle((before + added[i]).astype(np.float32), tl.float32)
                word.value = int(self.down(total).data.reshape(-1)[0])
            return self.handle(old.reshape(shape), tl.bfloat16)

        return create_atomic_rmw

    def float_argument(self, original: Any) -> Any:
        """_implicit_cvt: the compiler gives a Python float the type fp32."""
        np, tl = self.np, self.tl

        def implicit_cvt(value: Any) -> Any:
            if type(value) is float:
                return tl.tensor(self.handle(np.array([value], np.float32), tl.float32), tl.float32)
            return original(value)

        return implicit_cvt


def patches(interpreter: Any) -> list[tuple[Any, str, Any]]:
    """Everything to set while a launch runs, as (owner, name, value)."""
    mended = _Mended(interpreter)
    builder = mended.builder
    patches: list[tuple[Any, str, Any]] = [
        (interpreter, "_implicit_cvt", mended.float_argument(interpreter._implicit_cvt)),
        (builder, "cast_impl", lambda b, src, dst: mended.cast(b, src, dst)),
        (builder, "create_dot", mended.dot(builder.create_dot)),
        (builder, "create_fp_to_fp", mended.fp_to_fp(builder.create_fp_to_fp)),
        (builder, "create_atomic_rmw", mended.atomic(builder.create_atomic_rmw)),
    ]
    patches.extend(
        (builder, name, mended.elementwise(getattr(builder, name)))
        for name in ELEMENTWISE
        if hasattr(builder, name)
    )
    patches.extend(
        (ops, "apply_impl", mended.reduction(ops.apply_impl))
        for ops in (interpreter.ReduceOps, interpreter.ScanOps)
    )
    if not hasattr(builder, "get_bf16"):  # before Triton 3.9

        def get_bf16(b: Any, value: Any) -> Any:
            array = mended.np.array([value], mended.np.float32)
            return mended.down(mended.handle(array, mended.tl.float32))

        patches.append((builder, "get_bf16", get_bf16))
    return patches
