"""Puts the bounds of ``rounding`` around Triton's interpreter: its operations, memory, reductions.

What is stored takes its bound with it and what is loaded brings it back; reductions and scans are
the compiler's to order. All of it sleeps but where a launch is verified.
"""

from __future__ import annotations

from typing import Any

from . import constructs, libdevice, rounding
from .rounding import (
    HALF_ULP,
    Done,
    bounds_of,
    function_bound,
    half_ulp,
    handle_like,
    is_float,
    is_handle,
    kind_of,
    of,
    put,
    real,
    rounded,
)

# Levels of numpy's pairwise sums beyond the logarithm.
PAIRWISE = 20

# -- memory ---------------------------------------------------------------------------------------


def _load(done: Done) -> None:
    import numpy as np

    assert rounding.STATE.memory is not None
    pointers, mask = done.args[0], done.args[1] if len(done.args) > 1 else None
    other = done.args[2] if len(done.args) > 2 else None
    kept = rounding.STATE.memory.bounds(pointers.data)
    exact = kept is None and of(pointers) is None
    if mask is None or not is_handle(mask):
        bound = np.zeros(pointers.data.shape) if kept is None else kept
        on: Any = np.True_
    else:
        on = np.broadcast_to(mask.data, pointers.data.shape)
        if exact and of(mask) is None and on.all():
            return
        left = np.inf if other is None else bounds_of(other)  # nobody says what a masked lane holds
        bound = np.where(on, 0.0 if kept is None else kept, left)
        bound = np.where(bounds_of(mask) > 0, np.inf, bound)
    if of(pointers) is not None:
        bound = np.where(on & (of(pointers) > 0), np.inf, bound)
    put(done.result, bound)


def _wanted(pointers: Any, mask: Any) -> Any:
    """Which lanes may write: all those too that rounding may let in."""
    import numpy as np

    if mask is None or not is_handle(mask):
        return np.ones(pointers.data.shape, bool)
    return np.broadcast_to(mask.data.astype(bool) | (bounds_of(mask) > 0), pointers.data.shape)


def _store(builder: Any, original: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    import numpy as np

    assert rounding.STATE.memory is not None
    pointers, value = args[:2]
    mask = args[2] if len(args) > 2 else given.get("mask")
    size = max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)
    wanted = _wanted(pointers, mask)
    addresses = pointers.data[wanted]
    rounding.STATE.memory.before_write(addresses, size)
    result = original(builder, *args, **given)
    bound = np.broadcast_to(bounds_of(value), pointers.data.shape)
    if mask is not None and is_handle(mask):
        bound = np.where(bounds_of(mask) > 0, np.inf, bound)
    if of(pointers) is not None:
        rounding.STATE.memory.undetermined("where it stores depends on what rounding may change")
    rounding.STATE.memory.wrote(addresses, str(pointers.get_element_ty()), size, bound[wanted])
    return result


def _atomic(builder: Any, original: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """The order is the hardware's: sums of floats have a bound, what it gives back has none."""
    import numpy as np

    assert rounding.STATE.memory is not None
    several = len(args) > 5  # rmw: operation, pointers, value, mask; cas: pointers, compare, value
    pointers, value = (args[1], args[2]) if several else (args[0], args[2])
    mask = args[3] if several else None
    size = max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)
    wanted = _wanted(pointers, mask)
    addresses = np.broadcast_to(pointers.data, wanted.shape)[wanted]
    rounding.STATE.memory.before_write(addresses, size)
    result = original(builder, *args, **given)
    kind = str(pointers.get_element_ty())
    bound = np.broadcast_to(bounds_of(value), wanted.shape)
    if mask is not None:
        bound = np.where(bounds_of(mask) > 0, np.inf, bound)
    operation = str(args[0]).rpartition(".")[2] if several else "CAS"
    if of(pointers) is not None:
        rounding.STATE.memory.undetermined("where it stores depends on what rounding may change")
    if operation == "FADD" and kind in HALF_ULP:
        values = np.broadcast_to(real(value), wanted.shape)
        rounding.STATE.memory.added(addresses, kind, size, bound[wanted], values[wanted])
    elif operation in ("XCHG", "CAS"):
        told = np.full(len(addresses), 0.0 if len(addresses) == 1 else np.inf)
        rounding.STATE.memory.wrote(addresses, kind, size, np.maximum(told, bound[wanted]))
    else:
        rounding.STATE.memory.wrote(addresses, kind, size, bound[wanted])
    if is_handle(result):
        put(result, np.full(result.data.shape, np.inf))
    return result


# -- reductions -----------------------------------------------------------------------------------


def _reduced(ops: Any, inputs: tuple[Any, ...], results: tuple[Any, ...], combine: Any) -> None:
    """Sums have a bound in any order; the greatest and the least are of one element."""
    import numpy as np
    import triton.language as tl

    standard = tl.standard
    values = inputs[0].handle
    axis, keep = ops.axis, getattr(ops, "keep_dims", False)
    bounds = [of(x.handle) for x in inputs]
    floats = any(is_float(x.handle) for x in inputs)
    if all(b is None for b in bounds) and not floats:
        return
    if combine is standard._sum_combine and floats:
        kind = "fp32" if kind_of(values) == "bf16" else kind_of(values)
        count = values.data.size if axis is None else values.data.shape[axis]
        depth = (count - 1) + min(count - 1, PAIRWISE + count.bit_length())
        size = np.where(np.isfinite(real(values)), np.abs(real(values)), 0.0)
        total = size.sum(axis=axis, keepdims=keep)
        carried = bounds_of(values).sum(axis=axis, keepdims=keep)
        bound = carried + depth * HALF_ULP[kind] * (total + carried)
        if kind_of(values) == "bf16":
            bound = rounded(bound, np.reshape(real(results[0].handle), np.shape(bound)), "bf16")
        _spread(results[0].handle, bound)
        return
    plain = (standard._elementwise_max, standard._elementwise_min)
    if combine in plain:
        if bounds[0] is not None:
            _spread(results[0].handle, bounds[0].max(axis=axis, keepdims=keep))
        return
    name = getattr(getattr(combine, "fn", combine), "__name__", "")
    if name.startswith(("_argmax_combine", "_argmin_combine")) and len(results) > 1:
        x, e = real(values), bounds_of(values)
        x = x if "max" in name else -x
        with np.errstate(all="ignore"):
            best = (x - e).max(axis=axis, keepdims=True)
            rivals = (x + e >= best).sum(axis=axis, keepdims=keep)
        _spread(results[0].handle, e.max(axis=axis, keepdims=keep))
        unsure = bounds[0] is not None or name.endswith("fast")
        _spread(results[1].handle, np.where((rivals > 1) & unsure, np.inf, 0.0))
        return
    for result, bound in zip(results, _in_halves(inputs, results, axis, combine), strict=True):
        _spread(result.handle, bound)


def _in_halves(
    inputs: tuple[Any, ...], results: tuple[Any, ...], axis: int | None, combine: Any
) -> list[Any]:
    """Bounds of a reduction by any function: by what it gives in another order, half upon half.

    Each of its operations is rounded on the way; as many of them may stand one behind the other as
    there are elements, and the two orders may be off to either side.
    """
    import numpy as np

    unknown = [np.full(r.handle.data.shape, np.inf) for r in results]
    first = inputs[0].handle.data
    count = first.size if axis is None else first.shape[axis]
    if count & (count - 1) or any(kind_of(x.handle) == "bf16" for x in inputs):
        return unknown
    before, rounding.STATE.reordered = rounding.STATE.reordered, True
    try:
        parts = [_along(x, axis) for x in inputs]
        while parts[0].handle.data.shape[0] > 1:
            half = parts[0].handle.data.shape[0] // 2
            made = combine(*(_cut(x, slice(0, half)) for x in parts),
                           *(_cut(x, slice(half, None)) for x in parts))  # fmt: skip
            parts = list(made) if isinstance(made, (tuple, list)) else [made]
    except Exception:  # it is not made for blocks
        return unknown
    finally:
        rounding.STATE.reordered = before
    out = []
    longer = 2 * max(1.0, (count - 1) / max(1, count.bit_length() - 1))
    for part, result in zip(parts, results, strict=True):
        there, here = real(part.handle)[0], real(result.handle)
        there, bound = np.reshape(there, here.shape), np.reshape(bounds_of(part.handle), here.shape)
        with np.errstate(all="ignore"):
            apart = np.where((there == here) | (np.isnan(there) & np.isnan(here)), 0.0,
                             np.abs(there - here))  # fmt: skip
        if not is_float(result.handle):
            apart = np.where(apart > 0, np.inf, 0.0)
        out.append(bound * longer + apart)
    return out


def _along(value: Any, axis: int | None) -> Any:
    """A tensor with the axis that is reduced first, and flat where that is all of it."""
    import numpy as np

    handle = value.handle
    data, bound = handle.data, of(handle)
    flat = data.reshape(-1) if axis is None else np.moveaxis(data, axis, 0)
    if bound is not None:
        bound = bound.reshape(-1) if axis is None else np.moveaxis(bound, axis, 0)
    return _tensor(flat, bound, value)


def _cut(value: Any, part: slice) -> Any:
    bound = of(value.handle)
    return _tensor(value.handle.data[part], None if bound is None else bound[part], value)


def _tensor(data: Any, bound: Any, like: Any) -> Any:
    import triton.language as tl

    handle = handle_like(data, like.handle)
    put(handle, bound)
    return tl.tensor(handle, tl.block_type(like.dtype, list(data.shape)))


def _spread(handle: Any, bound: Any) -> None:
    import numpy as np

    put(handle, np.reshape(bound, handle.data.shape))


def _scanned(ops: Any, inputs: tuple[Any, ...], results: tuple[Any, ...], combine: Any) -> None:
    import numpy as np
    import triton.language as tl

    values = inputs[0].handle
    exact = all(of(x.handle) is None for x in inputs)
    if exact and not any(is_float(x.handle) for x in inputs):
        return
    if combine is not tl.standard._sum_combine or not is_float(values):
        for result in results:
            put(result.handle, np.full(result.handle.data.shape, np.inf))
        return
    kind, axis = "fp32" if kind_of(values) == "bf16" else kind_of(values), ops.axis

    def totals(x: Any) -> Any:
        return np.flip(np.flip(x, axis).cumsum(axis), axis) if ops.reverse else x.cumsum(axis)

    count = values.data.shape[axis]
    size = np.where(np.isfinite(real(values)), np.abs(real(values)), 0.0)
    carried = totals(bounds_of(values))
    bound = carried + 2 * count * HALF_ULP[kind] * (totals(size) + carried)
    if kind_of(values) == "bf16":
        bound = rounded(bound, real(results[0].handle), "bf16")
    _spread(results[0].handle, bound)


# -- putting them around the interpreter ----------------------------------------------------------

# What only calls others, whose results have their bounds.
_LEFT = frozenset(("load", "store", "atomic_load", "atomic_store", "descriptor_load",
                   "descriptor_store", "descriptor_gather", "descriptor_scatter",
                   "descriptor_reduce", "print", "assert", "assume", "barrier", "make_range",
                   "get_program_id", "get_num_programs", "make_tensor_descriptor"))  # fmt: skip
_WRITING = {"masked_store": _store, "atomic_rmw": _atomic, "atomic_cas": _atomic}


def _carrying(name: str, original: Any) -> Any:
    short = name.removeprefix("create_")
    if short in _WRITING:
        write = _WRITING[short]

        def writing(builder: Any, *args: Any, **given: Any) -> Any:
            if rounding.STATE.memory is None:
                return original(builder, *args, **given)
            return write(builder, original, args, given)

        return writing
    rule = _load if short == "masked_load" else rounding.rule_of(short)

    def method(builder: Any, *args: Any, **given: Any) -> Any:
        result = original(builder, *args, **given)
        if rounding.STATE.memory is not None:
            rule(Done(name, original, builder, args, given, result))
            if rounding.STATE.reordered and rule in rounding.ROUNDING:
                put(result, bounds_of(result) + half_ulp(result))
        return result

    return method


def _combined(original: Any, rule: Any) -> Any:
    def apply_impl(ops: Any, given: Any) -> Any:
        combine = ops.combine_fn
        results = original(ops, given)
        if rounding.STATE.memory is not None:
            inputs = given if isinstance(given, tuple) else (given,)
            several = isinstance(results, (tuple, list))
            rule(ops, inputs, tuple(results) if several else (results,), combine)
        return results

    return apply_impl


def patches(interpreter: Any, before: list[tuple[Any, str, Any]]) -> list[tuple[Any, str, Any]]:
    """Every operation of the interpreter, with its rule; ``before``: patches it goes over."""
    builder = interpreter.InterpreterBuilder
    patched = {(id(owner), name): value for owner, name, value in before}
    made = []
    for name in dir(builder):
        if name.startswith("create_") and name.removeprefix("create_") not in _LEFT:
            original = patched.get((id(builder), name)) or getattr(builder, name)
            made.append((builder, name, _carrying(name, original)))
    for ops, rule in ((interpreter.ReduceOps, _reduced), (interpreter.ScanOps, _scanned)):
        original = patched.get((id(ops), "apply_impl")) or ops.apply_impl
        made.append((ops, "apply_impl", _combined(original, rule)))
    made.append((libdevice, "_apply", _of_library(libdevice._apply)))
    condition = constructs.Constructs.condition

    def condition_of(self: Any, value: Any) -> bool:
        decides(value)
        return condition(self, value)

    made.append((constructs.Constructs, "condition", condition_of))
    return made


def decides(value: Any) -> None:
    """A value decides which way the program goes."""
    handle = getattr(value, "handle", None)
    if rounding.STATE.memory is not None and handle is not None and of(handle) is not None:
        rounding.STATE.memory.undetermined(
            "which way it goes depends on what rounding or an order may change"
        )


def watch_language(language: Any) -> None:
    """After the language is the interpreter's: what a program's way depends on, and transposes."""
    kind = language.tensor
    for name in ("__bool__", "__index__"):
        original = getattr(kind, name, None)
        if original is None:
            continue

        def asked(value: Any, original: Any = original) -> Any:
            decides(value)
            return original(value)

        setattr(kind, name, asked)
    plain = vars(kind).get("T")
    if isinstance(plain, property) and plain.fget is not None:
        getter = plain.fget

        def turned(value: Any) -> Any:
            import numpy as np

            result = getter(value)
            bound = of(value.handle)
            if rounding.STATE.memory is not None and bound is not None:
                put(result.handle, np.transpose(bound))
            return result

        kind.T = property(turned)


def _of_library(original: Any) -> Any:
    """Functions of libdevice, which torch computes here."""

    def apply(function: Any, *given: Any) -> Any:
        import numpy as np

        result = original(function, *given)
        if rounding.STATE.memory is None:
            return result
        handles = [g.handle for g in given if hasattr(g, "handle")]
        name = getattr(function, "__name__", "").removeprefix("special_")
        if name in ("isnan", "isinf", "isfinite"):
            return result  # rounding does not change that
        if not handles or kind_of(result.handle) not in HALF_ULP:
            if any(of(h) is not None for h in handles):
                put(result.handle, np.full(result.handle.data.shape, np.inf))
            return result
        values, kind = real(result.handle), kind_of(result.handle)
        exact = name in ("abs", "floor", "ceil", "trunc", "sqrt", "round", "copysign", "maximum",
                         "minimum", "fmax", "fmin", "neg")  # fmt: skip
        own = np.zeros(values.shape)
        if not exact:
            own = function_bound(name, real(handles[0]), values, kind)
        if any(of(h) is not None for h in handles):
            own = own + rounded(_corners(function, given, values), values, kind)
        put(result.handle, own)
        return result

    return apply


def _corners(function: Any, given: tuple[Any, ...], values: Any) -> Any:
    """How far a function gets over its operands' bounds, in double precision, at their ends."""
    import itertools

    import numpy as np
    import torch

    ends = []
    for operand in given:
        if hasattr(operand, "handle"):
            x, e = real(operand.handle), bounds_of(operand.handle)
            e = np.where(np.isfinite(e), e, np.nan)
            ends.append((x - e, x + e) if of(operand.handle) is not None else (x,))
        else:
            ends.append((np.asarray(getattr(operand, "value", operand), np.float64),))
    out = np.zeros(values.shape)
    with np.errstate(all="ignore"):
        for corner in itertools.product(*ends):
            arrays = [torch.from_numpy(np.array(np.broadcast_to(c, values.shape))) for c in corner]
            there = function(*arrays).numpy()
            apart = np.where(there == values, 0.0, np.abs(there - values))
            out = np.maximum(out, np.where(np.isnan(apart), np.inf, apart))
    unsure = np.zeros(values.shape, bool)
    for operand in given:
        if hasattr(operand, "handle"):
            unsure = unsure | np.broadcast_to(bounds_of(operand.handle) > 0, values.shape)
    return np.where(unsure, out, 0.0)
