"""Inputs of the same kind as a recorded call's: shape, strides, dtype, alignment, integers' range.

Values are the program's own where the recording kept them. Others are new: floats are drawn from a
normal distribution, integers evenly from the range that was recorded (zeros where none was), each
from the same seed every time. Tensors that shared memory in the program share it here, with new
values.
"""

import importlib.util
import math
import re
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 20260
# torch's allocator begins every block at a multiple of so many bytes.
BLOCK = 512
# The alignment in bytes that Inductor's kernels assume of their inputs.
ALIGNED_FOR_CODE = 16
# How a recorded argument is named: ``arg2``, ``arg2[0][1]``, ``eps``, ``sizes[3]``.
_PLACE = re.compile(r"(?:arg(?P<number>[0-9]{1,4})|(?P<name>\w+))(?P<within>(?:\[[0-9]{1,4}\])*)")
_INDEX = re.compile(r"\[([0-9]+)\]")
_FLOATS = {8: "<d", 4: "<f", 2: "<e"}


class NotRebuilt(Exception):
    """An argument cannot be made again; the message says which and why."""


def imported(name: str, path: str) -> Any:
    """Import a file as the module of that name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotRebuilt(f"{path} is no module of Python's")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def first_line(error: BaseException) -> str:
    """An error's own words on one line, without torch's advice."""
    lines = [*filter(None, map(str.strip, str(error).splitlines())), ""]
    # Triton's errors begin with where they are, and end with what is wrong.
    text = lines[-2] if lines[0].startswith("at ") else lines[0]
    if "out of memory" in text:
        # The sentences after the second are about torch's allocator.
        return ". ".join(text.split(". ")[:2]).rstrip(".")
    is_plain = isinstance(error, RuntimeError | ValueError | OSError | NotRebuilt) and text
    return text if is_plain else f"{type(error).__name__}: {text}".rstrip(": ")


def tensor(
    torch: Any, description: dict[str, Any], device: str, max_alignment: int, warnings: list[str]
) -> tuple[Any, Any]:
    """A tensor of a recorded layout, and its flat memory.

    Its address is a multiple of the recorded alignment and, if that is below ``max_alignment`` (the
    largest alignment that is recorded), of no larger power of two. Raises ``NotRebuilt``.
    """
    dtype, count, size = _layout(torch, description)
    offset = 0
    alignment = description["alignment"]
    if alignment is not None and alignment < max_alignment:
        if alignment % size:
            raise NotRebuilt(
                f"{description['name']}: {description['dtype']} at a multiple of {alignment} bytes "
                "alone"
            )
        offset = alignment // size
    memory = torch.empty(count + offset, dtype=dtype, device=device)
    flat = memory[offset:]
    fill(torch, flat, description, warnings)
    return torch.as_strided(memory, description["shape"], description["strides"], offset), flat


def load_kept(torch: Any, rebuilt: Any, path: str) -> bool:
    """Give a tensor its kept elements, in the order of their indices; whether it has them now.

    They are a compressed file, of which no more is read than the tensor has room for.
    """
    size = rebuilt.numel() * rebuilt.element_size()
    try:
        raw = zlib.decompressobj().decompress(Path(path).read_bytes(), size + 1)
        if len(raw) != size:
            return False
        if size:
            elements = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(rebuilt.dtype)
            elements = elements.reshape(rebuilt.shape)
            for axis, stride in enumerate(rebuilt.stride()):
                if stride == 0:  # its elements are one in memory, and cannot be written twice
                    elements = elements.narrow(axis, 0, 1)
                    rebuilt = rebuilt.narrow(axis, 0, 1)
            rebuilt.copy_(elements)
    except (OSError, zlib.error, RuntimeError):
        return False
    return True


def _layout(torch: Any, description: dict[str, Any]) -> tuple[Any, int, int]:
    """The dtype of a recorded layout, the elements that it spans, and the bytes of each."""
    name = description["name"]
    shape = description["shape"]
    strides = description["strides"]
    dtype = getattr(torch, str(description["dtype"]), None)
    if not isinstance(dtype, torch.dtype):
        raise NotRebuilt(f"{name}: this torch has no dtype {description['dtype']}")
    if strides is None or len(strides) != len(shape):
        raise NotRebuilt(f"{name}: its strides were not recorded")
    if 0 not in shape and min(strides, default=0) < 0:
        raise NotRebuilt(f"{name}: negative strides")
    steps = ((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    count = 0 if 0 in shape else 1 + sum(steps)
    return dtype, count, torch.empty((), dtype=dtype).element_size()


def fill(torch: Any, flat: Any, description: dict[str, Any], warnings: list[str]) -> None:
    """New values, from the same seed for each name."""
    generator = torch.Generator(device=flat.device)
    generator.manual_seed(SEED + sum(description["name"].encode("utf-8", "replace")))
    kind = flat.dtype
    if not flat.numel():
        return
    if kind == torch.bool:
        flat.random_(0, 2, generator=generator)
    elif kind.is_complex:
        torch.view_as_real(flat).normal_(generator=generator)
    elif kind.is_floating_point:
        # 8-bit floats cannot be drawn: a piece at a time, converted.
        for piece in flat.split(1 << 24):
            piece.copy_(torch.randn(piece.shape, device=flat.device, generator=generator))
    else:
        low = description.get("low")
        high = description.get("high")
        if low is None or high is None:
            flat.zero_()
            warnings.append(f"the range of {description['name']} was not recorded: it is all zeros")
        elif kind in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
            # The end is exclusive, and no number comes after the largest int64.
            end = high + 1 if high < torch.iinfo(torch.int64).max else None
            flat.random_(low, end, generator=generator)
        else:
            flat.fill_(low)
            warnings.append(
                f"{description['name']} ({description['dtype']}) holds {low} throughout"
            )


def scalar(argument: dict[str, Any], size: int) -> bytes:
    """The bytes of a scalar parameter of that size. Raises ``NotRebuilt``."""
    value = argument["value"]
    kind = str(argument.get("type") or "")
    if value is None or isinstance(value, str):
        raise NotRebuilt(f"{argument['name']}: its value was not recorded")
    if kind.startswith(("fp", "bf", "f")) or (isinstance(value, float) and not kind):
        number = float(value)
        if kind == "bf16":
            return struct.pack("<f", number)[2:]
        if size not in _FLOATS:
            raise NotRebuilt(f"{argument['name']}: a float of {size} bytes")
        try:
            return struct.pack(_FLOATS[size], number)
        except OverflowError:
            return struct.pack(_FLOATS[size], math.copysign(math.inf, number))
    if not isinstance(value, int):
        raise NotRebuilt(f"{argument['name']}: {value!r} is no {kind or 'integer'}")
    return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


class Memory:
    """Tensors made for a call, with warnings about them, and a way to restore integers.

    Methods that make tensors raise ``NotRebuilt`` where an argument cannot be made again, and
    torch's error if there is not enough memory. ``max_alignment`` is the largest alignment that is
    recorded. ``kept_names`` are the tensors that hold the program's own values.
    """

    def __init__(self, torch: Any, device: str = "cuda", max_alignment: int = BLOCK) -> None:
        self.warnings: list[str] = []
        self.named: list[tuple[str, Any]] = []
        self.kept_names: list[str] = []
        self._keep_alive: list[Any] = []
        self._shared: dict[str, Any] = {}
        self._originals: list[tuple[Any, Any]] = []
        self._torch = torch
        self._device = device
        self._max_alignment = max_alignment

    def share(self, call: dict[str, Any]) -> None:
        """Make the tensors of a call that shared memory, as views of common blocks."""
        arguments = {argument["name"]: argument for argument in call["arguments"]}
        for block in call["memory"]:
            members = [(arguments[m["name"]], m["offset_bytes"]) for m in block["members"]]
            device = self._device
            if call.get("kind", "triton") != "triton":
                device = str(members[0][0].get("device") or device)
            size = block["size_bytes"] + 2 * BLOCK
            memory = self._torch.empty(size, dtype=self._torch.uint8, device=device)
            memory = memory[-memory.data_ptr() % BLOCK + block["start_bytes"] :]
            for argument, offset in members:
                self._shared[argument["name"]] = self._view(argument, memory[offset:])

    def _view(self, argument: dict[str, Any], memory: Any) -> Any:
        """A tensor of a recorded kind at the beginning of a block's bytes."""
        dtype, count, size = _layout(self._torch, argument)
        if memory.storage_offset() % size:
            raise NotRebuilt(f"{argument['name']}: {argument['dtype']} between its elements")
        flat = memory[: count * size].view(dtype)
        fill(self._torch, flat, argument, self.warnings)
        self._keep_alive.append(flat)
        self.named.append((argument["name"], flat))
        return flat.as_strided(argument["shape"], argument["strides"], flat.storage_offset())

    def _tensor(self, argument: dict[str, Any], device: str) -> Any:
        """A tensor of a recorded kind."""
        if argument["name"] in self._shared:
            return self._shared[argument["name"]]
        warnings: list[str] = []
        rebuilt, flat = tensor(self._torch, argument, device, self._max_alignment, warnings)
        path = argument.get("content")
        if path and load_kept(self._torch, rebuilt, path):
            self.kept_names.append(argument["name"])
        else:
            unused = [f"{argument['name']}: its kept values are damaged"] if path else []
            self.warnings += [*warnings, *unused]
        self._keep_alive.append(rebuilt)
        self.named.append((argument["name"], flat))
        return rebuilt

    def parameters(
        self, launch: dict[str, Any], encoded: Callable[[int, dict[str, Any]], bytes]
    ) -> list[bytes]:
        """The bytes of a kernel's parameters in order.

        ``encoded`` gives the tensor map of an argument whose tensor is at an address.
        """
        sizes = list(launch["sizes"])
        # A kernel gets no constexprs when it runs: they were compiled in.
        arguments = [a for a in launch["arguments"] if a.get("type") != "constexpr"]
        values: list[bytes] = []
        for argument in arguments:
            if argument.get("layout"):
                values += self._described(argument, encoded)
            elif len(values) < len(sizes):
                values.append(self._parameter(argument, sizes[len(values)]))
        if not len(values) <= len(sizes) <= len(values) + len(launch["scratch"]):
            raise NotRebuilt(
                f"the cubin has {len(sizes)} parameters, the call {len(arguments)} arguments"
            )
        for size, scratch_bytes in zip(sizes[len(values) :], launch["scratch"], strict=False):
            if size != 8:
                raise NotRebuilt(f"a hidden parameter of {size} bytes")
            scratch = self._torch.zeros(scratch_bytes, dtype=self._torch.uint8, device=self._device)
            self._keep_alive.append(scratch)
            # Of an empty tensor it is null, which Triton passes if none is needed.
            values.append(int(scratch.data_ptr()).to_bytes(8, "little"))
        return values

    def _described(
        self, argument: dict[str, Any], encoded: Callable[[int, dict[str, Any]], bytes]
    ) -> list[bytes]:
        """A tensor descriptor as its parameters: a tensor map, the shape and the strides."""
        address = int(self._tensor(argument, self._device).data_ptr())
        shape = [int(n).to_bytes(4, "little") for n in argument["shape"]]
        strides = [int(n).to_bytes(8, "little") for n in argument["strides"]]
        return [encoded(address, argument), *shape, *strides]

    def _parameter(self, argument: dict[str, Any], size: int) -> bytes:
        if argument.get("shape") is not None and argument.get("dtype"):
            if size != 8:
                raise NotRebuilt(f"{argument['name']}: a tensor descriptor")
            return int(self._tensor(argument, self._device).data_ptr()).to_bytes(8, "little")
        if str(argument.get("type") or "").startswith("*"):
            if argument.get("alignment") is None:
                return bytes(size)  # a null pointer
            raise NotRebuilt(
                f"{argument['name']}: it was a bare address, and nobody knows of what size"
            )
        return scalar(argument, size)

    def flat(self, arguments: list[dict[str, Any]]) -> list[Any]:
        """The arguments of a compiled graph: each recorded one, with any name.

        Memory is aligned well: the graph's code copies what is not, before its kernels run.
        """
        for argument in arguments:
            low = argument.get("alignment")
            shared = argument["name"] in self._shared
            if low is not None and low < ALIGNED_FOR_CODE and not shared:
                self.warnings.append(
                    f"{argument['name']} was at a multiple of {low} bytes alone; "
                    "here it is better aligned"
                )
        return [
            self._value({**argument, "alignment": self._max_alignment}) for argument in arguments
        ]

    def arguments(self, arguments: list[dict[str, Any]]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call from Python, by place and by name."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument in arguments:
            match = _PLACE.fullmatch(argument["name"])
            if match is None:
                raise NotRebuilt(f"an argument of the name {argument['name']}")
            value = self._value(argument)
            indices = [int(n) for n in _INDEX.findall(match["within"])]
            if match["number"] is not None:
                # A number that is not there was an empty list: nothing was recorded of it.
                _set_nested(args, [int(match["number"]), *indices], value)
            elif indices:
                _set_nested(kwargs.setdefault(match["name"], []), indices, value)
            else:
                kwargs[match["name"]] = value
        return args, kwargs

    def _value(self, argument: dict[str, Any]) -> Any:
        if argument.get("shape") is not None and argument.get("dtype"):
            return self._tensor(argument, str(argument.get("device") or self._device))
        value = argument["value"]
        name = value.removeprefix("torch.") if isinstance(value, str) else value
        dtype = None if name == value else getattr(self._torch, name, None)
        return dtype if isinstance(dtype, self._torch.dtype) else value

    def changed_by(self, launch: Callable[[], object]) -> None:
        """Launch once, and remember the integers that this changes as they were before.

        As indices they must not grow from run to run.
        """
        copies = [
            (flat, flat.clone())
            for _, flat in self.named
            if not (flat.dtype.is_floating_point or flat.dtype.is_complex) and flat.numel()
        ]
        launch()
        self._originals = [(f, b) for f, b in copies if not self._torch.equal(f, b)]

    @property
    def changes(self) -> bool:
        """Whether the launch changes integers."""
        return bool(self._originals)

    def restore(self) -> None:
        """Restore the integers that the launch changes."""
        for flat, original in self._originals:
            flat.copy_(original)

    def overflowed(self) -> list[str]:
        """Names of float tensors that hold an infinity or a NaN."""
        # A sum would overflow by itself; the extremes do not.
        extremes: list[tuple[str, Any, Any]] = []
        for name, flat in self.named:
            if flat.dtype.is_floating_point and flat.element_size() > 1 and flat.numel():
                low, high = self._torch.aminmax(flat)
                extremes.append((name, low, high))
        names: list[str] = []
        for name, low, high in extremes:
            if not (math.isfinite(low.item()) and math.isfinite(high.item())):
                names.append(name)
        return names


def _set_nested(items: list[Any], path: list[int], value: Any) -> None:
    """Set an item of lists within lists, which grow as they must."""
    index, *deeper = path
    while len(items) <= index:
        items.append([])
    if deeper:
        _set_nested(items[index], deeper, value)
    else:
        items[index] = value
