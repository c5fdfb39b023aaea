"""Inputs for a launch that is run on the CPU: of a recorded call's layouts, or what a user gives.

Floats are drawn from a normal distribution and integers evenly from the range that was recorded
(zeros where none was), each tensor's from the seed and its own name, so that they are the same
every time. Tensors that overlapped do so again.
"""

import itertools
import math
import operator
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from inspector.analysis.argument_memory import ALIGNED, memory_blocks
from inspector.analysis.tensor_maps import descriptor_layouts
from inspector.base.budget import Budget
from inspector.base.errors import UsageError
from inspector.base.model import Argument, DescriptorLayout, Share
from inspector.base.names import words
from inspector.execute import Memory, Program, TensorMap
from inspector.execute.calls.structures import DeviceMemory
from inspector.execute.floats import to_bf16, to_small
from inspector.execute.memory import MAX_BYTES, Buffer
from inspector.execute.program import Argument as LaunchArgument
from inspector.parsers.ptx_statement import PtxVariable

Array = NDArray[Any]

MAX_DRAWN = 4_194_301
"""Elements that are drawn for a tensor: 67 million would take 1.7 s. More repeat them; this is a
prime, so that what a wrong stride reads, which is often a power of two, are other numbers."""
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


def contents(memory: Memory) -> dict[str, Array]:
    """The bytes of each element of the buffers that may be written, but those for the compiler's
    own use, which hold addresses: (elements, bytes), by name."""
    out = {}
    for region in memory.regions:
        first = region.buffers[0]
        if region.writable and first.name not in SCRATCH:
            item = first.owner.itemsize if isinstance(first.owner, np.ndarray) else 1
            data = region.data[region.head : region.size]
            out[first.name] = data[: data.size // item * item].reshape(-1, item).copy()
    return out


class InputOptions(Struct, frozen=True):
    """How inputs are made.

    ``arrays`` are those by the names of arguments, instead of new ones; ``scratch`` the bytes of
    each pointer that Triton appends; ``most_bytes`` bounds all tensors and variables together, and
    ``raising`` says how the user raises that. ``unsized`` are the bytes, all zero, behind an
    address of which no size is known: 0 refuses it. ``shares`` are the pairs of tensors that
    overlapped, ``layouts`` how the tensor descriptors among the arguments are encoded.
    """

    seed: int = 0
    arrays: Mapping[str, Array] = field(default_factory=dict)
    scratch: Sequence[int] = (0, 0)
    most_bytes: int = MAX_BYTES
    raising: str = ""
    unsized: int = 0
    shares: Sequence[Share] = ()
    layouts: Sequence[DescriptorLayout] = ()


def make_inputs(
    program: Program,
    names: Sequence[str],
    recorded: Sequence[Argument] | None,
    options: InputOptions,
) -> LaunchInputs:
    """The arguments of a launch.

    ``names`` are those of the program's parameters, ``recorded`` the arguments of a recorded call;
    None where everything is given. Raises UsageError with the argument that cannot be had.
    """
    maker = _Maker(options)
    passed = [a for a in recorded or () if a.type != "constexpr"]
    layouts = descriptor_layouts(passed, options.layouts)
    counts = [parameter_count(a, layouts.get(a.name)) for a in passed]
    hidden = 0 if recorded is None else len(program.parameters) - sum(counts)
    if not 0 <= hidden <= len(SCRATCH):
        raise UsageError(
            f"{program.name} takes {len(program.parameters)} arguments, and the call was recorded "
            f"with {len(passed)}"
        )
    argument_names = names if recorded is None else [a.name for a in passed]
    if strange := [name for name in options.arrays if name not in argument_names]:
        raise UsageError(
            f"there is no argument {strange[0]} to give a value to",
            f"The arguments: {', '.join(argument_names) or 'none'}",
        )
    if recorded is None:
        named_parameters = zip(names, program.parameters, strict=True)
        maker.out.arguments = [maker.user_value(*pair) for pair in named_parameters]
    else:
        firsts = itertools.accumulate(counts, initial=0)
        parameters = [program.parameters[n] for n in list(firsts)[:-1]]
        maker.out.arguments = maker.recorded_values(passed, parameters, layouts)
        maker.out.arguments += map(maker.scratch, SCRATCH[:hidden], options.scratch)
    return maker.out


def parameter_count(argument: Argument, layout: DescriptorLayout | None) -> int:
    """The parameters of a kernel that an argument of Triton's becomes: a tensor descriptor its
    map, its shape and its strides."""
    return 1 if layout is None else 1 + 2 * len(argument.shape or ())


class _Maker:
    """Makes arguments one after the other, and counts their bytes."""

    def __init__(self, options: InputOptions) -> None:
        self.options = options
        self.out = LaunchInputs(Memory(Budget(options.most_bytes)))
        self.shared: dict[str, Array] = {}
        """The memory of a tensor that shares it, in the order in which tensors are to be filled."""

    def allocate_shared(self, arguments: Sequence[Argument]) -> None:
        """Allocate the memory of the tensors that overlapped."""
        for block in memory_blocks(arguments, self.options.shares):
            names = " and ".join(member.name for member in block.members)
            memory = self._memory(names, block.size_bytes, block.start_bytes)
            for member in block.members:
                self.shared[member.name] = memory[member.offset_bytes :]

    def recorded_values(
        self,
        arguments: Sequence[Argument],
        parameters: Sequence[PtxVariable],
        layouts: Mapping[str, DescriptorLayout],
    ) -> list[LaunchArgument]:
        """The values of a call's arguments, of which each begins at one of ``parameters``.

        Tensors that share memory are filled in its order.
        """
        self.allocate_shared(arguments)
        structures = [bytes.fromhex(a.data) for a in arguments if a.data]
        self.device = DeviceMemory(structures, self.out.memory, self.options.unsized)
        pairs = list(zip(arguments, parameters, strict=True))
        order = {name: n for n, name in enumerate(self.shared)}
        values: dict[int, list[LaunchArgument]] = {}
        for argument, parameter in sorted(pairs, key=lambda pair: order.get(pair[0].name, 0)):
            layout = layouts.get(argument.name)
            if layout is None:
                values[id(argument)] = [self.recorded(argument, parameter)]
            else:
                values[id(argument)] = self.described(argument, layout)
        return [value for argument, _ in pairs for value in values[id(argument)]]

    def described(self, argument: Argument, layout: DescriptorLayout) -> list[LaunchArgument]:
        """A tensor descriptor as its parameters: a tensor map, the shape and the strides."""
        array = self.options.arrays.get(argument.name)
        buffer = self._tensor(argument, array)
        shape, strides = self._layout(argument, array)
        tensor_map = TensorMap(
            buffer.address if isinstance(buffer, Buffer) else 0,
            tuple(reversed(shape)),
            tuple(step * layout.elem_size for step in reversed(strides[:-1])),
            tuple(reversed(layout.block_size)),
            layout.elem_type,
            layout.swizzle,
        )
        return [tensor_map.encode(), *shape, *strides]

    def recorded(self, argument: Argument, parameter: PtxVariable) -> LaunchArgument:
        array = self.options.arrays.get(argument.name)
        pointer = (argument.type or "").startswith("*")
        if argument.shape is not None and argument.dtype:
            if parameter.size != 8:
                raise _not_made(argument.name, "it is a tensor descriptor")
            return self._tensor(argument, array)
        if argument.data:
            return self.device.translated(bytes.fromhex(argument.data))
        if self.options.unsized and (pointer or (argument.type or "").endswith("*")):
            # The system has a page only where it is read or written.
            raw = np.zeros(self.options.unsized + ALIGNED, np.uint8)
            return self._buffer(argument.name, raw[-raw.ctypes.data % ALIGNED :], "", (), ())
        if pointer and array is not None:
            return self._array(argument.name, array)
        if pointer and argument.alignment is not None:
            raise _not_made(argument.name, "it was a bare address, and nobody knows of what size")
        if pointer:
            return 0  # a null pointer
        if array is not None:
            return _scalar(
                argument.name, array.item() if array.size == 1 else array, argument, parameter
            )
        return _scalar(argument.name, argument.value, argument, parameter)

    def user_value(self, name: str, parameter: PtxVariable) -> LaunchArgument:
        if (value := self.options.arrays.get(name)) is None:
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
                f"the inputs take more than {self.options.most_bytes:,} bytes with {name}",
                self.options.raising,
            )
        raw = np.empty(size + 2 * ALIGNED, np.uint8)
        start = -raw.ctypes.data % ALIGNED + alignment % ALIGNED
        return raw[start : start + size]

    def _tensor(self, argument: Argument, array: Array | None) -> LaunchArgument:
        dtype = argument.dtype or ""
        if dtype not in _PLAIN and dtype not in _STORED:
            raise _not_made(argument.name, f"values of {dtype} cannot be made")
        stored = np.dtype(_STORED.get(dtype, dtype))
        if array is not None:
            array = self._stored(argument.name, array, dtype, stored)
        shape, strides = self._layout(argument, array)
        count = _extent(shape, strides)
        size = count * stored.itemsize
        alignment = argument.alignment if argument.alignment is not None else ALIGNED
        if alignment % stored.itemsize:
            raise _not_made(argument.name, f"{dtype} at a multiple of {alignment} bytes alone")
        memory = self.shared.get(argument.name)
        if memory is not None and array is not None:
            self.out.remarks.append(f"{argument.name} is given, and has memory of its own here")
        if memory is None or array is not None:
            memory = self._memory(argument.name, size, alignment)
        flat = memory[:size].view(stored)
        if array is not None:
            steps = tuple(n * stored.itemsize for n in strides)
            if count != array.size:
                flat[:] = 0
            np.lib.stride_tricks.as_strided(flat, shape, steps)[...] = array
        else:
            self._fill(flat, argument, dtype)
        return self._buffer(argument.name, flat, dtype, shape, strides)

    def _layout(
        self, argument: Argument, array: Array | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and strides of a tensor: as recorded, or of a given array of another shape."""
        shape = argument.shape or ()
        strides = argument.strides
        if array is not None and array.shape != shape:
            self.out.remarks.append(
                f"{argument.name} is {_sizes(array.shape)} and was {_sizes(shape)} in the recording"
            )
            shape = array.shape
            strides = None
        if min(shape, default=0) < 0:
            raise _not_made(argument.name, f"a shape of {_sizes(shape)}")
        if strides is None and array is not None:
            strides = _dense(shape)
        if strides is None or len(strides) != len(shape) or min(strides, default=0) < 0:
            raise _not_made(argument.name, "its strides were not recorded")
        return shape, strides

    def _buffer(
        self, name: str, flat: Array, dtype: str, shape: Sequence[int], strides: Sequence[int]
    ) -> LaunchArgument:
        if not flat.size:
            return 0
        address = flat.ctypes.data
        size = flat.nbytes
        add = self.out.memory.add_raw
        return add(name, address, size, dtype=dtype, shape=shape, strides=strides, owner=flat)

    def _stored(self, name: str, values: Array, dtype: str, stored: np.dtype[Any]) -> Array:
        """Given values in the form in which the kernel's dtype is stored."""
        if values.dtype == stored:
            return values
        real = dtype.startswith(("float", "bfloat"))
        if values.dtype.kind not in ("f" if real else "biu") or dtype in _BITS:
            raise UsageError(f"{name} holds {dtype} and is given {values.dtype}")
        self.out.remarks.append(f"{name} is given as {values.dtype} and converted to {dtype}")
        with np.errstate(over="ignore"):
            return _as_stored(values, dtype, stored)

    def _array(self, name: str, array: Array) -> LaunchArgument:
        """An array as it is given, behind a pointer of which nothing was recorded."""
        flat = self._memory(name, array.nbytes, ALIGNED).view(array.dtype)
        flat[:] = array.reshape(-1)
        return self._buffer(name, flat, str(array.dtype), array.shape, _dense(array.shape))

    def _fill(self, flat: Array, argument: Argument, dtype: str) -> None:
        draw = np.random.default_rng(
            [self.options.seed, zlib.crc32(argument.name.encode(errors="replace"))]
        )
        integers = dtype in _PLAIN and flat.dtype.kind in "iu"
        low = high = 0
        if integers:
            if argument.low is None or argument.high is None:
                flat[:] = 0
                self.out.remarks.append(
                    f"the range of {argument.name} ({dtype}) was not recorded: it is all zeros"
                )
                return
            low, high = _integer_range(argument, np.iinfo(flat.dtype))
        drawn = flat[:MAX_DRAWN]
        if dtype == "bool":
            drawn[:] = draw.integers(0, 2, drawn.size)
        elif integers:
            drawn[:] = draw.integers(low, high, drawn.size, flat.dtype, endpoint=True)
        elif dtype in _BITS:
            drawn[:] = draw.integers(*_BITS[dtype], drawn.size)
        elif flat.dtype.kind == "c":
            drawn[:] = draw.standard_normal(drawn.size) + 1j * draw.standard_normal(drawn.size)
        else:
            wide = np.float64 if dtype == "float64" else np.float32
            drawn[:] = _as_stored(draw.standard_normal(drawn.size, wide), dtype, flat.dtype)
        for start in range(MAX_DRAWN, flat.size, MAX_DRAWN):
            part = flat[start : start + MAX_DRAWN]
            part[:] = drawn[: part.size]


def stored_elements(argument: Argument, data: bytes) -> Array | None:
    """A tensor's elements, in the order of their indices, in the form in which they are stored.

    None of a dtype that has none here, and of data of another size.
    """
    dtype = argument.dtype or ""
    if argument.shape is None or (dtype not in _PLAIN and dtype not in _STORED):
        return None
    stored = np.dtype(_STORED.get(dtype, dtype))
    if len(data) != stored.itemsize * math.prod(argument.shape):
        return None
    return np.frombuffer(data, stored).reshape(argument.shape)


def _integer_range(argument: Argument, info: np.iinfo[Any]) -> tuple[int, int]:
    """The recorded range of an argument's integers, clipped to their type."""
    low = max(int(argument.low or 0), info.min)
    high = min(int(argument.high or 0), info.max)
    if low > high:
        raise _not_made(
            argument.name, f"{argument.dtype} does not hold {argument.low} to {argument.high}"
        )
    return int(low), int(high)


def _as_stored(values: Array, dtype: str, stored: np.dtype[Any]) -> Array:
    """Numbers as what holds them: bits, of types that numpy lacks."""
    if dtype == "bfloat16":
        return to_bf16(values.astype(np.float32))
    if dtype in _NARROW:
        return to_small(values.astype(np.float32), _NARROW[dtype])
    return values.astype(stored)


def _scalar(
    name: str, value: object, argument: Argument | None, parameter: PtxVariable
) -> LaunchArgument:
    if not isinstance(value, int | float):
        unknown = "its value was not recorded"
        raise _not_made(name, unknown if value is None else f"{value!r} is not a number")
    kind = (argument.type if argument is not None else None) or ""
    size = parameter.size
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
