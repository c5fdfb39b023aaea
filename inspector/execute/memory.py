"""Global memory: named buffers at addresses, whose bounds are known.

A buffer is a view of somebody's array: what a kernel stores is there. Addresses are those that the
arrays have in this process, so that pointers that are in arrays are right as well.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inspector.execute.kinds import Array, u8, u64


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A named piece of global memory.

    ``size`` in bytes; ``dtype``, ``shape`` and ``strides`` (in elements) are for messages alone.
    ``owner`` is kept alive as long as the buffer is.
    """

    name: str
    address: int
    size: int
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    writable: bool = True
    owner: object = None

    def __str__(self) -> str:
        shape = "×".join(str(n) for n in self.shape) or "one value"
        what = f"{self.dtype}, {shape}" if self.dtype else f"{self.size:,} bytes"
        return f"{self.name} ({what})"


LINE = 16
"""The widest access of one lane that is one element, and so the alignment of views."""


class Region:
    """Buffers that overlap, as one piece of memory."""

    def __init__(self, address: int, end: int) -> None:
        self.address, self.end = address, end
        self.base = address & -LINE
        """Where views begin, so that an element's index follows from its address alone."""
        self.head = address - self.base
        self.span = end - self.base
        raw = (ctypes.c_uint8 * self.span).from_address(self.base)
        self.data: Array = np.frombuffer(memoryview(raw), u8)
        self.buffers: list[Buffer] = []
        self.writable = True
        self.views: dict[Any, Array] = {}

    def view(self, dtype: Any) -> Array:
        """The memory as elements of a type, from ``base`` on."""
        made = self.views.get(dtype)
        if made is None:
            size = np.dtype(dtype).itemsize
            made = self.views[dtype] = self.data[: self.data.size // size * size].view(dtype)
        return made


class Memory:
    """The buffers that a launch may reach.

    A memory may serve many launches; variables that a PTX module declares as ``.global`` are made
    in it when the module is first run in it, and stay.
    """

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._starts: list[int] = []
        self.starts: Array = np.zeros(0, u64)
        self.written: set[int] = set()
        """Numbers of regions that something was stored to since this was last emptied."""
        self.modules: dict[object, dict[str, int]] = {}
        """The addresses of modules' variables."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, in the order of addresses."""
        return tuple(b for region in self.regions for b in region.buffers)

    def add(self, name: str, array: Array, *, writable: bool = True) -> Buffer:
        """A numpy array as a buffer, without a copy; gives the buffer, whose address is a pointer.

        An array with gaps is one buffer from its first to its last byte.
        """
        low, high = _bounds(array)
        strides = tuple(s // max(1, array.itemsize) for s in array.strides)
        buffer = Buffer(
            name,
            low,
            high - low,
            str(array.dtype),
            array.shape,
            strides,
            writable and array.flags.writeable,
            array,
        )
        self._place(buffer)
        return buffer

    def add_raw(
        self,
        name: str,
        address: int,
        size: int,
        *,
        dtype: str = "",
        shape: Sequence[int] = (),
        strides: Sequence[int] = (),
        writable: bool = True,
        owner: object = None,
    ) -> Buffer:
        """Memory of this process by its address, such as a CPU tensor's storage, without a copy.

        It must stay where it is as long as this is used: give its ``owner``.
        """
        buffer = Buffer(name, address, size, dtype, tuple(shape), tuple(strides), writable, owner)
        self._place(buffer)
        return buffer

    def _place(self, buffer: Buffer) -> None:
        if buffer.size <= 0:
            return
        low, high = buffer.address, buffer.address + buffer.size
        near = [r for r in self.regions if r.address < high and low < r.end]
        if len(near) == 1 and near[0].address <= low and high <= near[0].end:
            region = near[0]
        else:
            low = min([low, *(r.address for r in near)])
            high = max([high, *(r.end for r in near)])
            region = Region(low, high)
            for other in near:
                region.buffers += other.buffers
                region.writable &= other.writable
                self.regions.remove(other)
            self.regions.append(region)
            self.regions.sort(key=lambda r: r.address)
        region.buffers.append(buffer)
        region.writable &= buffer.writable
        self._index()

    def _index(self) -> None:
        self._starts = [r.address for r in self.regions]
        self.starts = np.array(self._starts, u64)

    def remove(self, buffer: Buffer) -> None:
        """Takes a buffer away: from then on an access to it is out of bounds."""
        region = next((r for r in self.regions if buffer in r.buffers), None)
        if region is None:
            return
        self.regions.remove(region)
        self._index()
        for other in region.buffers:
            if other is not buffer:
                self._place(other)

    def region_at(self, address: int) -> int | None:
        """The number of the region that an address is in."""
        at = bisect_right(self._starts, address) - 1
        return at if at >= 0 and address < self.regions[at].end else None

    def nearest(self, address: int, nbytes: int) -> tuple[Buffer, int] | None:
        """The buffer nearest to an access, and how far beyond its end that reaches in bytes.

        Negative: so far before its start. None where there is no buffer within 2^40 bytes.
        """
        best: tuple[int, Buffer, int] | None = None
        for buffer in self.buffers:
            end = buffer.address + buffer.size
            if address >= buffer.address:
                past = max(0, address + nbytes - end)
                distance = max(0, address - end)
            else:
                past = address - buffer.address
                distance = -past + buffer.size // 2
            if distance < (best[0] if best else 1 << 40):
                best = (distance, buffer, past)
        return best[1:] if best else None

    def names(self, regions: set[int] | None = None) -> tuple[str, ...]:
        """The names of the buffers in some regions; of every one that may be written."""
        rows = range(len(self.regions)) if regions is None else sorted(regions)
        return tuple(
            b.name for i in rows if self.regions[i].writable for b in self.regions[i].buffers
        )


def _bounds(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of what follows its last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for count, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, (count - 1) * stride)
        high += max(0, (count - 1) * stride)
    return low, high + array.itemsize
