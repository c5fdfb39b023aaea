"""How far each value of the interpreter may lie from the compiled code's, carried with the value.

What a compiler may change is known: it may contract a product and a sum into one instruction that
rounds once, sum in another order, and take approximate instructions, whose errors are documented
(``reference/rounding.toml``). So each value has a bound: zero where both must give the same bits,
as of integers, memory, conversions and single operations; the bounds of the operands, carried
through the operation, and its own. It is a running error analysis (Wilkinson; Higham, "Accuracy
and Stability of Numerical Algorithms", 3.3), of two computations instead of one and the exact one.

What may turn over within its bound, such as a comparison, a rounding to an integer or the turn of a
loop, has no bound: it is infinite, and nothing is said of what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

TABLE = Path(__file__).parents[2] / "reference" / "rounding.toml"
# The attribute of a handle that has its bounds, as an array of float64 or what spreads to one.
_BOUND = "ptxview_bound"
# Half a unit in the last place of 1, and the least positive number.
HALF_ULP = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": 2.0**-24, "fp64": 2.0**-53,
            "fp8e4nv": 2.0**-4, "fp8e5": 2.0**-3}  # fmt: skip
LEAST = {"fp16": 2.0**-24, "bf16": 2.0**-133, "fp32": 2.0**-149, "fp64": 5e-324,
         "fp8e4nv": 2.0**-9, "fp8e5": 2.0**-16}  # fmt: skip
FLUSHED = 2.0**-126
# TF32 keeps ten bits behind the point; the hardware cuts the others off.
TF32 = 2.0**-10


class BoundsMemory(Protocol):
    """Where bounds go that are stored."""

    def before_write(self, addresses: Any, size: int) -> None: ...
    def wrote(self, addresses: Any, kind: str, size: int, bound: Any) -> None: ...
    def added(self, addresses: Any, kind: str, size: int, bound: Any, values: Any) -> None: ...
    def bounds(self, addresses: Any) -> Any: ...
    def undetermined(self, why: str) -> None: ...


class Allowed(NamedTuple):
    """What the compiled code of a kernel makes use of."""

    contracted: bool
    """It has instructions that multiply and add with one rounding."""
    quotients: bool
    """Its quotients are approximate."""
    flushed: bool
    """It takes numbers below the normal ones for zero."""
    small_floats: bool
    """It rounds to 8-bit floats by an instruction."""


def allowed(ptx: str) -> Allowed:
    """What a PTX text makes use of."""
    return Allowed(
        re.search(r"\b(?:fma|mad)\.[\w.]{0,40}?\bb?f\d", ptx) is not None,
        re.search(r"\b(div\.(full|approx)|rcp\.approx)", ptx) is not None,
        re.search(r"\b(?:add|sub|mul|fma|div\.full)\.[\w.]{0,40}?ftz", ptx) is not None,
        re.search(r"\bcvt\.rn\.[\w.]{0,40}?e[45]m[23]x2", ptx) is not None,
    )


class _State:
    """What the launch under way is compared by."""

    def __init__(self) -> None:
        self.memory: BoundsMemory | None = None
        self.allowed = Allowed(False, False, False, False)
        self.reordered = False
        """Whether operations stand in another order, so that each is off by its rounding."""


STATE = _State()


def begin(memory: BoundsMemory, what: Allowed) -> None:
    """From now on operations carry bounds."""
    STATE.memory, STATE.allowed = memory, what


def end() -> None:
    """From now on they do not."""
    STATE.memory = None


@cache
def table() -> dict[str, dict[str, Any]]:
    """The functions' own bounds, by name. Raises ImportError before Python 3.11."""
    import tomllib

    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


# -- bounds and values ----------------------------------------------------------------------------


def of(handle: Any) -> Any:
    """A handle's bounds, or None where it is exact."""
    return getattr(handle, _BOUND, None)


def put(handle: Any, bound: Any) -> None:
    import numpy as np

    if bound is None or not hasattr(handle, "data"):
        return
    bound = np.asarray(bound, np.float64)
    if bound.any():  # NaN too
        bound = np.where(np.isnan(bound), np.inf, bound)
        setattr(handle, _BOUND, np.broadcast_to(bound, handle.data.shape))


def bounds_of(handle: Any) -> Any:
    """A handle's bounds as an array, zeros where it is exact."""
    import numpy as np

    bound = of(handle)
    return np.zeros(np.shape(handle.data)) if bound is None else bound


def kind_of(handle: Any) -> str:
    """The name of a handle's type: ``fp32``, ``i1`` of what a comparison gave."""
    if handle.data.dtype == bool:
        return "i1"
    return str(handle.dtype.scalar)


def is_float(handle: Any) -> bool:
    return kind_of(handle) in HALF_ULP


def real(handle: Any) -> Any:
    """A handle's values as float64."""
    import numpy as np
    from triton.runtime import interpreter

    kind, data = kind_of(handle), handle.data
    if kind == "bf16" and data.dtype == np.uint16:
        data = (data.astype(np.uint32) << 16).view(np.float32)
    elif kind.startswith("fp8") and data.dtype == np.uint8:
        half = interpreter.tl.float16
        mode = interpreter._ir.ROUNDING_MODE.RTNE
        data = interpreter._convert_float(data, handle.dtype.scalar, half, mode).view(np.float16)
    return np.asarray(data).astype(np.float64)


def half_ulp(handle: Any) -> Any:
    """What rounding a value may have cost."""
    import numpy as np

    size = np.abs(real(handle))
    return np.where(np.isfinite(size), size * HALF_ULP[kind_of(handle)], 0.0)


def _times(value: Any, bound: Any) -> Any:
    """A product that is 0 where the bound is, whatever the value."""
    import numpy as np

    with np.errstate(all="ignore"):
        return np.where(bound == 0, 0.0, np.abs(value) * bound)


def rounded(bound: Any, result: Any, kind: str) -> Any:
    """Bounds of results that were rounded: another operand may round to a neighbour."""
    import numpy as np

    size = np.where(np.isfinite(result), np.abs(result), 0.0)
    with np.errstate(all="ignore"):
        least = FLUSHED if STATE.allowed.flushed and kind == "fp32" else LEAST[kind]
        return np.where(bound > 0, bound + 2 * HALF_ULP[kind] * (size + bound) + least, 0.0)


def handle_like(data: Any, like: Any) -> Any:
    from triton.runtime import interpreter

    return interpreter.TensorHandle(data, like.dtype)


def function_bound(name: str, operand: Any, result: Any, kind: str) -> Any:
    """What the compiled function itself may be off, by the table; infinite where it is unknown."""
    import numpy as np

    entry = table().get(name)
    if entry is None or kind not in HALF_ULP:
        return np.where(np.isfinite(result), np.inf, 0.0)
    size = np.where(np.isfinite(result), np.abs(result), 0.0)
    relative = 2 * HALF_ULP[kind] * entry.get("ulps", 0)
    if kind != "fp64":
        relative += 2.0 ** entry["relative"] if "relative" in entry else 0.0
    bound = size * relative
    if kind != "fp64" and "absolute" in entry:
        bound = np.maximum(bound, 2.0 ** entry["absolute"])
    if "argument" in entry:
        finite = np.where(np.isfinite(operand), np.abs(operand), 0.0)
        bound = bound + size * finite * 2 * HALF_ULP[kind] * entry["argument"]
    if "range" in entry:
        bound = np.where(np.abs(operand) <= entry["range"], bound, np.inf)
    least = LEAST[kind] if kind == "fp64" else FLUSHED
    return np.where(np.isfinite(result), bound + least, 0.0)


# -- rules ----------------------------------------------------------------------------------------
# Each is told of an operation that was done, and gives its results their bounds.


class Done(NamedTuple):
    """One operation of the interpreter's builder that was done."""

    name: str
    original: Any
    builder: Any
    args: tuple[Any, ...]
    given: dict[str, Any]
    result: Any

    @property
    def handles(self) -> list[Any]:
        """Its operands that are values."""
        return [a for a in (*self.args, *self.given.values()) if is_handle(a)]


def is_handle(value: Any) -> bool:
    return hasattr(value, "data") and hasattr(value, "dtype")


def uncertain(done: Done) -> None:
    """No bound where an operand is not exact: integers, and what nothing is known of."""
    import numpy as np

    bounds = [of(h) for h in done.handles]
    if all(b is None for b in bounds):
        return
    results = done.result if isinstance(done.result, tuple) else (done.result,)
    for result in results:
        if not is_handle(result):
            continue
        try:
            spread = np.zeros(result.data.shape, bool)
            for bound in bounds:
                if bound is not None:
                    spread = spread | (bound > 0)
        except ValueError:  # of other shapes: which comes of which is not known
            spread = np.ones(result.data.shape, bool)
        if spread.shape != result.data.shape:
            spread = np.ones(result.data.shape, bool)
        put(result, np.where(spread, np.inf, 0.0))


def _and(done: Done) -> None:
    """What is certainly false stays so."""
    import numpy as np

    a, b = done.args[:2]
    if done.result.data.dtype != bool or (of(a) is None and of(b) is None):
        uncertain(done)
        return
    false = (~a.data.astype(bool) & (bounds_of(a) == 0)) | (
        ~b.data.astype(bool) & (bounds_of(b) == 0)
    )
    put(done.result, np.where(((bounds_of(a) > 0) | (bounds_of(b) > 0)) & ~false, np.inf, 0.0))


def _shift(done: Done) -> None:
    """By as many bits as the number has, or more, numpy and PTX shift differently."""
    import numpy as np

    uncertain(done)
    wide = done.result.data.dtype.itemsize * 8
    over = (done.args[1].data.astype(np.int64) >= wide) | (done.args[1].data.astype(np.int64) < 0)
    if over.any():
        put(done.result, np.where(over, np.inf, bounds_of(done.result)))


def _quotient_of_integers(done: Done) -> None:
    import numpy as np

    uncertain(done)
    if (done.args[1].data == 0).any():
        put(done.result, np.where(done.args[1].data == 0, np.inf, bounds_of(done.result)))


def _sum(done: Done) -> None:
    a, b = done.args[:2]
    if of(a) is None and of(b) is None:
        return
    put(done.result, rounded(bounds_of(a) + bounds_of(b), real(done.result), kind_of(done.result)))


def _product(done: Done) -> None:
    """A product may be kept unrounded by an instruction that adds to it."""
    import numpy as np

    a, b = done.args[:2]
    exact = of(a) is None and of(b) is None
    if exact and not STATE.allowed.contracted:
        return
    kind, result = kind_of(done.result), real(done.result)
    x, y, ex, ey = real(a), real(b), bounds_of(a), bounds_of(b)
    bound = np.zeros(result.shape)
    with np.errstate(all="ignore"):
        if not exact:
            bound = rounded(_times(x, ey) + _times(y, ex) + _times(ex, ey), result, kind)
        if STATE.allowed.contracted:
            kept = np.abs(result) * HALF_ULP[kind] if kind == "fp64" else np.abs(x * y - result)
            bound = bound + np.where(np.isfinite(kept), kept, 0.0)
    put(done.result, bound)


def _fma(done: Done) -> None:
    import numpy as np

    x, y, z = done.args[:3]
    if all(of(h) is None for h in (x, y, z)):
        return
    with np.errstate(all="ignore"):
        carried = (
            _times(real(x), bounds_of(y))
            + _times(real(y), bounds_of(x))
            + _times(bounds_of(x), bounds_of(y))
        ) + bounds_of(z)
    put(done.result, rounded(carried, real(done.result), kind_of(done.result)))


def _quotient(done: Done) -> None:
    import numpy as np

    a, b = done.args[:2]
    kind, result = kind_of(done.result), real(done.result)
    bound = np.zeros(result.shape)
    if of(a) is not None or of(b) is not None:
        with np.errstate(all="ignore"):
            left = np.abs(real(b)) - bounds_of(b)
            carried = (bounds_of(a) + _times(result, bounds_of(b))) / left
            carried = np.where(left > 0, carried, np.inf)
            carried = np.where((bounds_of(a) == 0) & (bounds_of(b) == 0), 0.0, carried)
        bound = rounded(carried, result, kind)
    if STATE.allowed.quotients and done.name != "create_precise_divf":
        bound = bound + function_bound("fdiv", real(a), result, kind)
    put(done.result, bound)


def _remainder(done: Done) -> None:
    """Compiled as a - trunc(a/b)·b, whose quotient may round to the next integer."""
    import numpy as np

    a, b = done.args[:2]
    uncertain(done)
    with np.errstate(all="ignore"):
        quotient = real(a) / real(b)
        near = np.abs(quotient - np.round(quotient)) <= np.abs(quotient) * 2.0**-22
        own = np.where(near & (real(a) != 0), np.inf, np.abs(real(a)) * 2.0**-22)
    put(done.result, np.maximum(bounds_of(done.result), own))


def _same(done: Done) -> None:
    """Signs change nothing."""
    put(done.result, of(done.args[0]))


def _greatest(done: Done) -> None:
    import numpy as np

    handles = done.handles
    if all(of(h) is None for h in handles):
        return
    bound: Any = 0.0
    for handle in handles:
        bound = np.maximum(bound, bounds_of(handle))
    put(done.result, bound)


def _ends(done: Done, bound: Any) -> Any:
    """How far a function that rises or falls gets, over its operand's bounds."""
    import numpy as np

    operand, rest = done.args[0], done.args[1:]
    kind, values = kind_of(operand), real(operand)
    here = real(done.result) if is_float(done.result) else done.result.data.astype(np.float64)
    finite = np.where(np.isinf(bound), 0.0, bound)
    out = np.zeros(here.shape)
    with np.errstate(all="ignore"):
        for end in (values - finite, values + finite):
            if kind == "fp64":
                moved = handle_like(end, operand)
            elif kind == "fp32":
                away = np.where(end < values, -np.inf, np.inf).astype(np.float32)
                narrow = np.where(end == values, values, end).astype(np.float32)
                moved = handle_like(
                    np.where(end == values, narrow, np.nextafter(narrow, away)), operand
                )
            else:  # exact in single precision, and so is the operation on it
                return np.where(bound > 0, np.inf, 0.0)
            made = done.original(done.builder, moved, *rest, **done.given)
            there = real(made) if is_float(made) else made.data.astype(np.float64)
            out = np.maximum(out, np.where(there == here, 0.0, np.abs(there - here)))
    return np.where(np.isinf(bound), np.inf, np.where(np.isnan(out), np.inf, out))


def _conversion(done: Done) -> None:
    """Rounding to a narrower type shows a difference only where a boundary lies between."""
    import numpy as np

    operand = done.args[0]
    bound = of(operand)
    if bound is None:
        return
    if not is_float(operand) or done.name in ("create_si_to_fp", "create_ui_to_fp"):
        uncertain(done)
        return
    kind = kind_of(done.result)
    if kind in HALF_ULP and HALF_ULP[kind] <= HALF_ULP[kind_of(operand)]:
        put(done.result, bound)  # a wider type: exact
    elif kind_of(operand) in ("fp16", "bf16"):
        if kind in HALF_ULP:
            put(done.result, rounded(bound, real(done.result), kind))
        else:
            put(done.result, np.where(bound > 0, np.inf, 0.0))
    else:
        reached = _ends(done, bound)
        put(done.result, reached if kind in HALF_ULP else np.where(reached > 0, np.inf, 0.0))


def _small_float(done: Done) -> None:
    """Where no instruction rounds to 8-bit floats, software does, differently."""
    kind = kind_of(done.result)
    _conversion(done)
    if kind.startswith("fp8") and kind in HALF_ULP and not STATE.allowed.small_floats:
        size = real(done.result)
        put(done.result, bounds_of(done.result) + abs(size) * 2 * HALF_ULP[kind] + LEAST[kind])


def _to_integer(done: Done) -> None:
    """What does not fit is anything."""
    import numpy as np

    _conversion(done)
    bits = done.result.data.dtype.itemsize * 8
    signed = done.name == "create_fp_to_si"
    values = real(done.args[0])
    top = 2.0 ** (bits - 1 if signed else bits)
    with np.errstate(all="ignore"):
        fits = (values < top) & (values > (-top - 1 if signed else -1))
    if not fits.all():
        put(done.result, np.where(fits, bounds_of(done.result), np.inf))


def _bits(done: Done) -> None:
    import numpy as np

    bound = of(done.args[0])
    if bound is not None:
        put(done.result, np.where(bound > 0, np.inf, 0.0))


def _function(done: Done) -> None:
    """A function of one operand, which rises or falls over as little as a bound is."""
    import numpy as np

    name = done.name.removeprefix("create_")
    operand = done.args[0]
    kind, result = kind_of(done.result), real(done.result)
    bound = of(operand)
    carried: Any = 0.0
    if bound is not None:
        carried = bound if name in ("sin", "cos") else _ends(done, bound)
        carried = rounded(carried, result, kind)
    exact = name in ("floor", "ceil", "precise_sqrt")
    own = np.zeros(result.shape) if exact else function_bound(name, real(operand), result, kind)
    put(done.result, carried + own)


def _comparison(done: Done) -> None:
    import numpy as np

    a, b = done.args[:2]
    if of(a) is None and of(b) is None:
        return
    if a.data is b.data:
        return  # whether a value is NaN: rounding does not change that
    with np.errstate(all="ignore"):
        apart = np.abs(real(a) - real(b))
        turns = ~(apart > bounds_of(a) + bounds_of(b)) & ((bounds_of(a) > 0) | (bounds_of(b) > 0))
    put(done.result, np.where(turns, np.inf, 0.0))


def _choice(done: Done) -> None:
    import numpy as np

    condition, a, b = done.args[:3]
    if all(of(h) is None for h in (condition, a, b)):
        return
    chosen = np.where(condition.data.astype(bool), bounds_of(a), bounds_of(b))
    if of(condition) is not None:
        with np.errstate(all="ignore"):
            if is_float(done.result):
                x, y = real(a), real(b)
                apart = np.where(x == y, 0.0, np.abs(x - y)) + np.maximum(
                    bounds_of(a), bounds_of(b)
                )
            else:
                same = (a.data == b.data) & (bounds_of(a) == 0) & (bounds_of(b) == 0)
                apart = np.where(same, 0.0, np.inf)
        chosen = np.where(of(condition) > 0, apart, chosen)
    put(done.result, chosen)


def _moved(done: Done) -> None:
    """Operations that put elements elsewhere do the same with the bounds."""
    from triton.runtime import interpreter

    double = interpreter.tl.float64
    if all(of(h) is None for h in done.handles):
        return

    def bounds(value: Any) -> Any:
        return interpreter.TensorHandle(bounds_of(value), double) if is_handle(value) else value

    if done.name == "create_gather":
        args = (bounds(done.args[0]), *done.args[1:])
        if any(of(h) is not None for h in done.handles[1:]):
            uncertain(done)
            return
    else:
        args = tuple(map(bounds, done.args))
    made = done.original(done.builder, *args, **{k: bounds(v) for k, v in done.given.items()})
    pairs = (
        zip(done.result, made, strict=True) if isinstance(made, tuple) else [(done.result, made)]
    )
    for result, bound in pairs:
        put(result, bound.data)


def _dot(done: Done) -> None:
    """Products in the order of the hardware; of fp32 with its operands cut to TF32."""
    import numpy as np

    a, b, c = done.args[:3]
    if not is_float(done.result):
        uncertain(done)
        return
    kind = kind_of(done.result)
    x, y = np.abs(real(a)).astype(np.float32), np.abs(real(b)).astype(np.float32)
    relative = 2.0 * x.shape[-1] * HALF_ULP[kind]
    if kind_of(a) == "fp32":
        precision = str(done.args[3] if len(done.args) > 3 else done.given.get("input_precision"))
        relative += {"IEEE": 0.0, "TF32": 2.01 * TF32}.get(precision.rpartition(".")[2], 2.0**-16)
    with np.errstate(all="ignore"):
        bound = relative * (np.matmul(x, y).astype(np.float64) * 1.001 + np.abs(real(c)))
        if of(a) is not None:
            bound = bound + np.matmul(bounds_of(a), y.astype(np.float64) + bounds_of(b))
        if of(b) is not None:
            bound = bound + np.matmul(x.astype(np.float64), bounds_of(b))
        bound = bound + bounds_of(c) + LEAST[kind]
    finite = np.isfinite(real(done.result))
    put(done.result, np.where(finite, bound, 0.0))


# -- the table of them -----------------------------------------------------------------------------

Rule = Callable[[Done], None]
_ARITHMETIC: dict[str, Rule] = {
    "fadd": _sum, "fsub": _sum, "fmul": _product, "fma": _fma, "fdiv": _quotient,
    "precise_divf": _quotient, "approx_divf": _quotient, "frem": _remainder, "fneg": _same,
    "fabs": _same,
}  # fmt: skip
RULES: dict[str, Rule] = {
    **_ARITHMETIC,
    **dict.fromkeys(("minimumf", "minnumf", "maximumf", "maxnumf", "clampf"), _greatest),
    **dict.fromkeys(("sqrt", "precise_sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos",
                     "erf", "floor", "ceil"), _function),
    **dict.fromkeys(("splat", "unsplat", "broadcast", "expand_dims", "reshape", "trans", "join",
                     "cat", "split", "gather"), _moved),
    **dict.fromkeys(("fp_trunc", "fp_ext", "si_to_fp", "ui_to_fp"), _conversion),
    **dict.fromkeys(("fp_to_si", "fp_to_ui"), _to_integer),
    **dict.fromkeys(("shl", "lshr", "ashr"), _shift),
    **dict.fromkeys(("sdiv", "udiv", "srem", "urem", "idiv"), _quotient_of_integers),
    "fp_to_fp": _small_float, "bitcast": _bits, "and": _and, "select": _choice, "dot": _dot,
}  # fmt: skip
# Operations that round where they stand.
ROUNDING: tuple[Rule, ...] = (_sum, _product, _fma, _quotient)


def rule_of(name: str) -> Rule:
    """The rule of an operation, by its name without ``create_``."""
    return RULES.get(name, _comparison if name.startswith("fcmp") else uncertain)
