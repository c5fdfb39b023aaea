"""Inputs for a launch that is run on the CPU: of a recorded call's layouts, or what a user gives.

Floats are drawn from a normal distribution and integers evenly from the range that was recorded
(zeros where none was), each tensor's from the seed and its own name, so that they are the same
every time. Tensors that overlapped do so again.
"""

import itertools
import operator
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from inspector.analyse.argument_memory import ALIGNED, memory_blocks
from inspector.base.budget import Budget
from inspector.base.model import Argument, Share
from inspector.base.text import UsageError, words
from inspector.execute import Memory, Program
from inspector.execute.floats import to_bf16, to_small
from inspector.execute.memory import MAX_BYTES, Buffer
from inspector.execute.program import Argument as LaunchArgument
from inspector.listing.ptx_statement import PtxVariable

Array = NDArray[Any]

PIECE = 1 << 22
"""Elements that are drawn at once."""
SCRATCH = ("global_scratch", "profile_scratch")
"""Pointers that Triton appends to a kernel's parameters (3.3 one, later two)."""

_NARROW = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_BITS = {"float8_e8m0fnu": (120, 135), "float4_e2m1fn_x2": (0, 256)}
"""Formats that are drawn as bytes: scales around one, and two values a byte."""
_STORED = {"bfloat16": "uint16"} | dict.fromkeys((*_NARROW, *_BITS), "uint8")
_PLAIN = words(
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 "
    "complex128"
)
_FLOATS = {8: "<f8", 4: "<f4", 2: "<f2"}


class LaunchInputs(Struct):
    """What a launch is given: ``arguments`` in the parameters' order, and the memory behind them.

    ``remarks`` say where values are not of the kind that the program's were.
    """

    memory: Memory = field(default_factory=Memory)
    arguments: list[LaunchArgument] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def tensor(self, name: str | None) -> Buffer | None:
        return next((b for b in self.memory.buffers if b.name == name), None)

    def at(self, address: int) -> Buffer | None:
        """The tensor that an address is in; None if it is in none."""
        inside = (b for b in self.memory.buffers if b.address <= address < b.address + b.size)
        return next(inside, None)


class InputWish(Struct, frozen=True):
    """How inputs are made.

    ``given`` are arrays by the names of arguments, instead of new ones; ``scratch`` the bytes of
    each pointer that Triton appends; ``most_bytes`` bounds all tensors and variables together, and
    ``raising`` says how the user raises that. ``unsized`` are the bytes, all zero, behind an
    address of which no size is known: 0 refuses it. ``shares`` are the pairs of tensors that
    overlapped.
    """

    seed: int = 0
    given: Mapping[str, Array] = field(default_factory=dict)
    scratch: Sequence[int] = (0, 0)
    most_bytes: int = MAX_BYTES
    raising: str = ""
    unsized: int = 0
    shares: Sequence[Share] = ()


def make_inputs(
    program: Program, names: Sequence[str], recorded: Sequence[Argument] | None, wish: InputWish
) -> LaunchInputs:
    """The arguments of a launch.

    ``names`` are those of the program's parameters, ``recorded`` the arguments of a recorded call;
    None where everything is given. Raises UsageError with the argument that cannot be had.
    """
    maker = _Maker(wish)
    passed = [a for a in recorded or () if a.type != "constexpr"]
    hidden = 0 if recorded is None else len(program.parameters) - len(passed)
    if not 0 <= hidden <= len(SCRATCH):
        raise UsageError(
            f"{program.name} takes {len(program.parameters)} arguments, and the call was recorded "
            f"with {len(passed)}"
        )
    known = names if recorded is None else [a.name for a in passed]
    if strange := [name for name in wish.given if name not in known]:
        raise UsageError(
            f"there is no argument {strange[0]} to give a value to",
            f"The arguments: {', '.join(known) or 'none'}",
        )
    if recorded is None:
        each = zip(names, program.parameters, strict=True)
        maker.out.arguments = [maker.given(name, parameter) for name, parameter in each]
    else:
        pairs = list(zip(passed, program.parameters, strict=False))
        maker.allocate_shared(passed)
        order = {name: n for n, name in enumerate(maker.shared)}
        ordered = sorted(pairs, key=lambda pair: order.get(pair[0].name, 0))
        own = {id(a): maker.recorded(a, p) for a, p in ordered}
        maker.out.arguments = [
            *(own[id(a)] for a, _ in pairs),
            *(maker.scratch(*one) for one in zip(SCRATCH[:hidden], wish.scratch, strict=False)),
        ]
    return maker.out


class _Maker:
    """Makes arguments one after the other, and counts their bytes."""

    def __init__(self, wish: InputWish) -> None:
        self.wish = wish
        self.out = LaunchInputs(Memory(Budget(wish.most_bytes)))
        self.shared: dict[str, Array] = {}
        """The memory of a tensor that shares it, in the order in which tensors are to be filled."""

    def allocate_shared(self, arguments: Sequence[Argument]) -> None:
        """Allocate the memory of the tensors that overlapped."""
        for block in memory_blocks(arguments, self.wish.shares):
            names = " and ".join(member.name for member in block.members)
            memory = self._memory(names, block.size_bytes, block.start_bytes)
            for member in block.members:
                self.shared[member.name] = memory[member.offset_bytes :]

    def recorded(self, one: Argument, parameter: PtxVariable) -> LaunchArgument:
        given, pointer = self.wish.given.get(one.name), (one.type or "").startswith("*")
        if one.shape is not None and one.dtype:
            if parameter.size != 8:
                raise _not_made(one.name, "it is a tensor descriptor")
            return self._tensor(one, given)
        if self.wish.unsized and (pointer or (one.type or "").endswith("*")):
            # The system has a page only where it is read or written.
            raw = np.zeros(self.wish.unsized + ALIGNED, np.uint8)
            return self._buffer(one.name, raw[-raw.ctypes.data % ALIGNED :], "", (), ())
        if pointer and given is not None:
            return self._array(one.name, given)
        if pointer and one.alignment is not None:
            raise _not_made(one.name, "it was a bare address, and nobody knows of what size")
        if pointer:
            return 0  # a null pointer
        if given is not None:
            return _scalar(one.name, given.item() if given.size == 1 else given, one, parameter)
        return _scalar(one.name, one.value, one, parameter)

    def given(self, name: str, parameter: PtxVariable) -> LaunchArgument:
        if (value := self.wish.given.get(name)) is None:
            if name in SCRATCH:
                return 0
            raise UsageError(
                f"nothing is known of the argument {name}: it is not given a value",
                "--inputs has an array for each argument, of no dimensions for a number.",
            )
        if value.ndim:
            return self._array(name, value)
        if value.dtype.itemsize == parameter.size:
            return value.tobytes()
        return _scalar(name, value.item(), None, parameter)

    def scratch(self, name: str, size: int) -> LaunchArgument:
        """A pointer to memory that the compiler wants for itself; null where it wants none."""
        flat = self._memory(name, max(size, 0), ALIGNED)
        flat[:] = 0
        return self._buffer(name, flat, "", (), ())

    def _memory(self, name: str, size: int, alignment: int) -> Array:
        """Bytes at an address that is a multiple of ``alignment`` and of no larger power of two."""
        if not self.out.memory.budget.take(size):
            raise UsageError(
                f"the inputs take more than {self.wish.most_bytes:,} bytes with {name}",
                self.wish.raising,
            )
        raw = np.empty(size + 2 * ALIGNED, np.uint8)
        start = -raw.ctypes.data % ALIGNED + alignment % ALIGNED
        return raw[start : start + size]

    def _tensor(self, one: Argument, given: Array | None) -> LaunchArgument:
        shape, strides, dtype = one.shape or (), one.strides, one.dtype or ""
        if dtype not in _PLAIN and dtype not in _STORED:
            raise _not_made(one.name, f"values of {dtype} cannot be made")
        stored = np.dtype(_STORED.get(dtype, dtype))
        if given is not None:
            given = self._stored(one.name, given, dtype, stored)
            if given.shape != shape:
                self.out.remarks.append(
                    f"{one.name} is {_sizes(given.shape)} and was {_sizes(shape)} in the recording"
                )
                shape, strides = given.shape, None
        if min(shape, default=0) < 0:
            raise _not_made(one.name, f"a shape of {_sizes(shape)}")
        dense = _dense(shape)
        strides = dense if strides is None and given is not None else strides
        if strides is None or len(strides) != len(shape) or min(strides, default=0) < 0:
            raise _not_made(one.name, "its strides were not recorded")
        count = _extent(shape, strides)
        alignment = one.alignment if one.alignment is not None else ALIGNED
        if alignment % stored.itemsize:
            raise _not_made(one.name, f"{dtype} at a multiple of {alignment} bytes alone")
        memory = self.shared.get(one.name)
        if memory is not None and given is not None:
            self.out.remarks.append(f"{one.name} is given, and has memory of its own here")
        size = count * stored.itemsize
        if memory is None or given is not None:
            memory = self._memory(one.name, size, alignment)
        flat = memory[:size].view(stored)
        if given is not None:
            steps = tuple(n * stored.itemsize for n in strides)
            if count != given.size:
                flat[:] = 0
            np.lib.stride_tricks.as_strided(flat, shape, steps)[...] = given
        else:
            self._fill(flat, one, dtype)
        return self._buffer(one.name, flat, dtype, shape, strides)

    def _buffer(
        self, name: str, flat: Array, dtype: str, shape: Sequence[int], strides: Sequence[int]
    ) -> LaunchArgument:
        if not flat.size:
            return 0
        at, size, add = flat.ctypes.data, flat.nbytes, self.out.memory.add_raw
        return add(name, at, size, dtype=dtype, shape=shape, strides=strides, owner=flat)

    def _stored(self, name: str, given: Array, dtype: str, stored: np.dtype[Any]) -> Array:
        """Given values in the form in which the kernel's dtype is stored."""
        if given.dtype == stored:
            return given
        real = dtype.startswith(("float", "bfloat"))
        if given.dtype.kind not in ("f" if real else "biu") or dtype in _BITS:
            raise UsageError(f"{name} holds {dtype} and is given {given.dtype}")
        self.out.remarks.append(f"{name} is given as {given.dtype} and converted to {dtype}")
        with np.errstate(over="ignore"):
            return _as_stored(given, dtype, stored)

    def _array(self, name: str, given: Array) -> LaunchArgument:
        """An array as it is given, behind a pointer of which nothing was recorded."""
        flat = self._memory(name, given.nbytes, ALIGNED).view(given.dtype)
        flat[:] = given.reshape(-1)
        return self._buffer(name, flat, str(given.dtype), given.shape, _dense(given.shape))

    def _fill(self, flat: Array, one: Argument, dtype: str) -> None:
        draw = np.random.default_rng(
            [self.wish.seed, zlib.crc32(one.name.encode(errors="replace"))]
        )
        low, high = one.low, one.high
        counted = dtype in _PLAIN and flat.dtype.kind in "iu"
        if counted and (low is None or high is None):
            flat[:] = 0
            self.out.remarks.append(
                f"the range of {one.name} ({dtype}) was not recorded: it is all zeros"
            )
            return
        if counted:
            info = np.iinfo(flat.dtype)
            low, high = max(low or 0, info.min), min(high or 0, info.max)
            if low > high:
                raise _not_made(one.name, f"{dtype} does not hold {one.low} to {one.high}")
        for at in range(0, flat.size, PIECE):
            part = flat[at : at + PIECE]
            if dtype == "bool":
                part[:] = draw.integers(0, 2, part.size)
            elif counted:
                part[:] = draw.integers(low or 0, high, part.size, flat.dtype, endpoint=True)
            elif dtype in _BITS:
                part[:] = draw.integers(*_BITS[dtype], part.size)
            elif flat.dtype.kind == "c":
                part[:] = draw.standard_normal(part.size) + 1j * draw.standard_normal(part.size)
            else:
                wide = np.float64 if dtype == "float64" else np.float32
                part[:] = _as_stored(draw.standard_normal(part.size, wide), dtype, flat.dtype)


def _as_stored(values: Array, dtype: str, stored: np.dtype[Any]) -> Array:
    """Numbers as what holds them: bits, of types that numpy lacks."""
    if dtype == "bfloat16":
        return to_bf16(values.astype(np.float32))
    if dtype in _NARROW:
        return to_small(values.astype(np.float32), _NARROW[dtype])
    return values.astype(stored)


def _scalar(
    name: str, value: object, one: Argument | None, parameter: PtxVariable
) -> LaunchArgument:
    if not isinstance(value, int | float):
        unknown = "its value was not recorded"
        raise _not_made(name, unknown if value is None else f"{value!r} is not a number")
    kind, size = (one.type if one is not None else None) or "", parameter.size
    real = kind.startswith(("fp", "bf", "f", "double")) or (isinstance(value, float) and not kind)
    if real:
        if kind == "bf16":
            return to_bf16(np.array([value], np.float32)).tobytes()
        if size not in _FLOATS:
            raise _not_made(name, f"it is a float of {size} bytes")
        with np.errstate(over="ignore"):
            return np.array([value], _FLOATS[size]).tobytes()
    if not isinstance(value, int):
        raise _not_made(name, f"{value!r} is not an integer")
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _not_made(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} cannot be made again: {why}", "--inputs FILE.npz gives arguments values by name."
    )


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a layout spans."""
    last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return last + 1 if all(shape) else 0


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor, in elements."""
    inner = itertools.accumulate(reversed(shape[1:]), operator.mul, initial=1)
    return tuple(inner)[::-1] if shape else ()


def _sizes(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "one value"
