"""Global memory as named buffers, and a chunk's accesses to every state space.

A buffer is a view of somebody's array: what a kernel stores is there. Addresses are those that the
arrays have in this process, so that pointers that are in arrays are right as well. Addresses of
shared and local memory and of parameters are offsets; as generic addresses they are in windows far
above any that a process has. All of an instruction's lanes access at once; where two store to one
place, the later lane's value stays. Atomics at one place take their turns in the lanes' order.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from inspector.execute import floats
from inspector.execute.blocks import BasicBlock
from inspector.execute.faults import Fault
from inspector.execute.kinds import (
    UNSIGNED,
    Array,
    Mask,
    f16,
    f32,
    f64,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from inspector.execute.lanes import Lanes


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


Operation = Callable[[str, Array, Sequence[Array]], Array]
"""The new value from type, previous value and operands, all as unsigned bits."""


def _add(kind: str, old: Array, given: Sequence[Array]) -> Array:
    if kind in ("f32", "f64"):
        real = f32 if kind == "f32" else f64
        return (old.view(real) + given[0].view(real)).view(old.dtype)
    if kind == "f16":
        return (old.view(f16) + given[0].view(f16)).view(u16)
    if kind == "bf16":
        return floats.to_bf16(floats.from_bf16(old) + floats.from_bf16(given[0]))
    return old + given[0]


def _extreme(least: bool) -> Operation:
    def choose(kind: str, old: Array, given: Sequence[Array]) -> Array:
        new = given[0]
        if kind in ("s32", "s64"):
            signed = i32 if kind == "s32" else i64
            lower = new.view(signed) < old.view(signed)
            equal = new == old
        elif kind in ("f16", "bf16", "f32", "f64"):
            x, y = _real(kind, old), _real(kind, new)
            lower, equal = (y < x) | np.isnan(x), x == y
            if not least:
                return np.where((y > x) | np.isnan(x), new, old)
        else:
            lower, equal = new < old, new == old
        return np.where(lower if least else ~(lower | equal), new, old)

    return choose


def _real(kind: str, bits: Array) -> Array:
    if kind == "bf16":
        return floats.from_bf16(bits)
    return bits.view({"f16": f16, "f32": f32, "f64": f64}[kind])


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": _add,
        "min": _extreme(least=True),
        "max": _extreme(least=False),
        "and": lambda kind, old, given: old & given[0],
        "or": lambda kind, old, given: old | given[0],
        "xor": lambda kind, old, given: old ^ given[0],
        "exch": lambda kind, old, given: np.broadcast_to(given[0], old.shape),
        "cas": lambda kind, old, given: np.where(old == given[0], given[1], old),
        "inc": lambda kind, old, given: np.where(old >= given[0], u32(0), old + u32(1)),
        "dec": lambda kind, old, given: np.where(
            (old == 0) | (old > given[0]), given[0], old - u32(1)
        ),
    }
)
"""``atom`` and ``red``, "Parallel Synchronization and Communication Instructions"."""

_COMMUTING = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}
_LONG = 32
"""Lanes at one place above which they are summed at once."""


def in_order(
    view: Array, index: Array, operation: Operation, kind: str, given: Sequence[Array], wanted: bool
) -> tuple[Array | None, bool]:
    """Applies an operation at each index of ``view``, in the order of the indices.

    Gives the previous value each, where that is ``wanted``, and whether anything changed.
    """
    name = next((n for n, f in OPERATIONS.items() if f is operation), "")
    integers = kind[0] in "bus" and kind != "bf16"
    if not wanted and integers and name in _COMMUTING:
        _COMMUTING[name].at(view, index, given[0].astype(view.dtype))
        return None, True
    order = np.argsort(index, kind="stable")
    places = index[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    counts = np.diff(np.r_[starts, len(places)])
    before = np.empty(len(index), view.dtype)
    changed = False
    if (
        name == "add"
        and int(counts.max()) > _LONG
        and kind in ("f32", "f64", "u32", "u64", "s32", "s64", "b32", "b64")
    ):
        real = {"f32": f32, "f64": f64}.get(kind, view.dtype.type)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            rows = order[start : start + count]
            at = places[start]
            steps = np.concatenate((view[at : at + 1].view(real), given[0][rows].view(real)))
            sums = np.add.accumulate(steps).astype(real)
            before[rows] = sums[:-1].view(view.dtype)
            view[at] = sums[-1:].view(view.dtype)[0]
        return before, True
    rank = np.arange(len(places)) - np.repeat(starts, counts)
    turns = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank)).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        rows = turns[begin:end]
        at = index[rows]
        old = view[at]
        new = operation(kind, old, [g[rows] for g in given])
        before[rows] = old
        changed = changed or bool((new != old).any())
        view[at] = new
    return before, changed


SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = 1 << 56, 2 << 56, 3 << 56
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
_BY_WINDOW = ("global", "shared", "local", "param")


class Access(NamedTuple):
    """What an instruction reads or writes, for observers.

    ``way`` is ``load``, ``store``, ``atomic`` or ``matrix`` (eight rows of 16 bytes at once).
    ``address`` are offsets in shared, local and parameter memory. ``values`` are what is stored,
    each as unsigned bits.
    """

    instruction: int
    way: str
    space: str
    address: Array
    nbytes: int
    mask: Mask
    values: tuple[Array, ...] = ()
    lane: tuple[int, int] | None = None
    """Of a bulk copy, whose ``way`` begins with ``bulk``: the lane that asked for it, by row and
    column; ``address`` is then flat, an address an element."""


class Observer:
    """Observer of a run; its methods do nothing. All arrays are the machine's own: read-only."""

    def visit(self, lanes: Lanes, block: BasicBlock, mask: Mask) -> None:
        """These lanes begin to run a basic block."""

    def step(self, lanes: Lanes, instruction: int, mask: Mask) -> None:
        """Of the lanes in the block, these run an instruction now: all where it has no guard."""

    def wrote(
        self, lanes: Lanes, instruction: int, register: int, value: Array, mask: Mask
    ) -> None:
        """A register holds these bits after an instruction of these lanes."""

    def branched(self, lanes: Lanes, instruction: int, yes: Mask, no: Mask) -> None:
        """Of the lanes at a branch some take it and some do not."""

    def access(self, lanes: Lanes, access: Access) -> None:
        """Lanes read or write memory."""


class Scene(Protocol):
    """Makes faults with the kernel and its lines."""

    def fault(
        self,
        cause: str,
        sentence: str,
        instruction: int,
        where: tuple[int, int] | None = None,
        **more: Any,
    ) -> Fault: ...


class ChunkMemory:
    """The memory of a chunk of thread blocks: their own, and the launch's global memory."""

    def __init__(
        self,
        lanes: Lanes,
        memory: Memory,
        scene: Scene,
        *,
        shared: int,
        local: int,
        parameters: Array,
        watching: Observer | None = None,
    ) -> None:
        self.lanes, self.memory, self.scene, self.watching = lanes, memory, scene, watching
        self.shared_size = -(-shared // 16) * 16 + 16
        self.limit = shared
        self.local_size = -(-local // 16) * 16
        self.shared: Array = np.zeros((lanes.blocks, self.shared_size), u8)
        self.local: Array = np.zeros(lanes.blocks * lanes.width * self.local_size, u8)
        self.parameters = parameters
        self.changes = 0
        """Grows with each store that may have changed something: who spins sees whether it did."""

    # -- what generated code calls ---------------------------------------------------------------

    def load(
        self, n: int, space: str, address: Array, dtype: Any, count: int, mask: Mask
    ) -> list[Array]:
        """``count`` consecutive elements at each lane's address, as arrays of unsigned bits."""
        if space == "generic":
            parts = self.split(address, mask)
            space, address, _ = parts[0]
            if len(parts) > 1:
                return self._load_parts(n, parts, dtype, count)
        size = np.dtype(dtype).itemsize
        if self.watching:
            self.watching.access(self.lanes, Access(n, "load", space, address, size * count, mask))
        return self.fetch(n, space, address, dtype, count, mask)

    def _load_parts(
        self, n: int, parts: list[tuple[str, Array, Mask]], dtype: Any, count: int
    ) -> list[Array]:
        """A load by generic addresses, of lanes that are in several state spaces."""
        out: list[Array] = [np.zeros((1, 1), dtype)] * count
        for space, address, part in parts:
            loaded = self.load(n, space, address, dtype, count, part)
            out = [
                np.where(self.lanes.full_mask(part), new, old)
                for new, old in zip(loaded, out, strict=True)
            ]
        return out

    def fetch(
        self, n: int, space: str, address: Array, dtype: Any, count: int, mask: Mask
    ) -> list[Array]:
        """``load`` from one space, without an observer."""
        size = np.dtype(dtype).itemsize
        if mask is not None and not mask.any():
            return [np.zeros((1, 1), dtype)] * count
        if space in ("global", "const"):
            placed = self._place(n, address, size * count, mask)
            if placed is None:
                return self._gather(n, address, dtype, count, mask)
            region, offsets = placed
            view = region.view(dtype)
            index = (offsets >> u64(size.bit_length() - 1)).view(i64)
            return [view[index + k if k else index] for k in range(count)]
        table, index = self._own(n, space, address, size, size * count, mask, dtype)
        return [table(index + k if k else index) for k in range(count)]

    def store(
        self, n: int, space: str, address: Array, dtype: Any, values: Sequence[Array], mask: Mask
    ) -> None:
        """Consecutive elements to each lane's address; ``values`` are unsigned bits."""
        if space == "generic":
            parts = self.split(address, mask)
            if len(parts) > 1:
                for where, at, part in parts:
                    self.store(n, where, at, dtype, values, part)
                return
            space, address, _ = parts[0]
        size = np.dtype(dtype).itemsize
        if self.watching:
            access = Access(n, "store", space, address, size * len(values), mask, tuple(values))
            self.watching.access(self.lanes, access)
        self.put(n, space, address, dtype, values, mask)

    def put(
        self, n: int, space: str, address: Array, dtype: Any, values: Sequence[Array], mask: Mask
    ) -> None:
        """``store`` to one space, without an observer."""
        if mask is not None and not mask.any():
            return
        self.changes += 1
        size = np.dtype(dtype).itemsize
        nbytes, shift = size * len(values), u64(size.bit_length() - 1)
        if space in ("global", "const"):
            placed = self._place(n, address, nbytes, mask)
            parts = (
                self._by_region(n, address, nbytes, mask) if placed is None else [(*placed, mask)]
            )
            for region, offsets, part in parts:
                self._may_write(n, region, part)
                index = (offsets >> shift).view(i64)
                _scatter(region.view(dtype), index, values, part, self.lanes.shape)
            return
        if space == "param":
            raise self.scene.fault("read only", "stores to a parameter", n)
        if space == "local":
            index = self._lane_index(n, "local", address, nbytes, mask, int(shift), self.local_size)
            _scatter(self.local.view(dtype), index, values, mask, self.lanes.shape)
            return
        offsets = self._check(n, "shared", address, nbytes, mask, self.limit)
        index = (offsets >> shift).view(i64)
        table = self.shared.view(dtype)
        if index.shape[0] == 1 and (mask is None or mask.shape[0] == 1):
            self._store_columns(table, index, values, mask)
            return
        rows = self.lanes.row * (self.shared_size >> int(shift))
        _scatter(table.reshape(-1), index + rows, values, mask, self.lanes.shape)

    def _store_columns(
        self, table: Array, index: Array, values: Sequence[Array], mask: Mask
    ) -> None:
        """To shared memory at addresses that are alike in every block: whole columns at once."""
        width = self.lanes.width
        keep = None if mask is None else np.nonzero(np.broadcast_to(mask, (1, width))[0])[0]
        columns = index[0] if keep is None else np.broadcast_to(index, (1, width))[0][keep]
        for k, value in enumerate(values):
            if keep is not None and value.shape[1] > 1:
                value = value[:, keep]
            elif keep is None and columns.size == 1 and value.shape[1] > 1:
                value = value[:, -1:]
            table[:, columns + k] = value

    def atomic(
        self,
        n: int,
        space: str,
        what: str,
        address: Array,
        kind: str,
        values: Sequence[Array],
        compare: Array | None,
        mask: Mask,
        wanted: bool,
    ) -> list[Array]:
        """A read-modify-write by every lane, in the order of block and thread.

        That is one of the orders that the hardware may choose. ``values`` are unsigned bits of
        ``kind``; the previous value comes back as such, where it is ``wanted``.
        """
        if space == "generic":
            parts = self.split(address, mask)
            if len(parts) > 1:
                out = [np.zeros(self.lanes.shape, values[0].dtype) for _ in values]
                for where, at, part in parts:
                    made = self.atomic(n, where, what, at, kind, values, compare, part, wanted)
                    if wanted:
                        out = [
                            np.where(self.lanes.full_mask(part), x, y)
                            for x, y in zip(made, out, strict=True)
                        ]
                return out
            space, address, _ = parts[0]
        bits = values[0].dtype
        nbytes = bits.itemsize * len(values)
        if self.watching:
            access = Access(n, "atomic", space, address, nbytes, mask, tuple(values))
            self.watching.access(self.lanes, access)
        shape = self.lanes.shape
        old: list[Array] = [np.zeros(shape, bits) for _ in values]
        keep = self.lanes.full_mask(mask)
        if not keep.any():
            return old
        operation = OPERATIONS[what]
        for view, index, here, region in self._targets(n, space, address, nbytes, bits, mask):
            if region is not None:
                self._may_write(n, region, here)
            for k, value in enumerate(values):
                operands = [np.broadcast_to(value, shape)[here]]
                if compare is not None:
                    operands.insert(0, np.broadcast_to(compare, shape)[here])
                before, changed = in_order(view, index + k, operation, kind, operands, wanted)
                self.changes += changed
                if wanted and before is not None:
                    old[k][here] = before
        return old

    def _targets(
        self, n: int, space: str, address: Array, nbytes: int, dtype: Any, mask: Mask
    ) -> list[tuple[Array, Array, Array, Region | None]]:
        """For atomics: memory as elements, indices into it, the lanes that these are of."""
        shift = u64(np.dtype(dtype).itemsize.bit_length() - 1)
        if space in ("global", "const"):
            return [
                (region.view(dtype), (offsets[here] >> shift).view(i64), here, region)
                for region, offsets, here in self._by_region(n, address, nbytes, mask)
            ]
        keep = self.lanes.full_mask(mask)
        offsets = self._check(n, "shared", address, nbytes, mask, self.limit)
        index = (offsets >> shift).view(i64) + self.lanes.row * (self.shared_size >> int(shift))
        flat = self.shared.view(dtype).reshape(-1)
        return [(flat, np.broadcast_to(index, self.lanes.shape)[keep], keep, None)]

    def copy(
        self, n: int, target: Array, source: Array, size: int, given: Array | None, mask: Mask
    ) -> None:
        """``cp.async`` of ``size`` bytes, done at once; what ``given`` leaves out is 0."""
        (_, source, _), (_, target, _) = self.split(source, mask)[0], self._as_shared(target)
        if self.watching:
            some = mask if given is None else both(mask, given > u32(0))
            self.watching.access(self.lanes, Access(n, "load", "global", source, size, some))
            self.watching.access(self.lanes, Access(n, "store", "shared", target, size, mask))
        word = min(size, 8)
        dtype = UNSIGNED[word * 8]
        self._check(n, "shared", target, size, mask, self.limit)
        for at in range(0, size, word):
            part = mask if given is None else both(mask, given >= u32(at + word))
            value = self.fetch(n, "global", source + u64(at), dtype, 1, part)[0]
            if given is not None:
                rest = given.astype(i64) - at
                if (rest % word).any():  # a word of which some bytes are given
                    value = self._bytes(n, source + u64(at), word, rest, mask).view(dtype)[..., 0]
                else:
                    value = np.where(given >= u32(at + word), value, dtype(0))
            self.put(n, "shared", target + u64(at), dtype, [value], mask)

    def _bytes(self, n: int, source: Array, word: int, rest: Array, mask: Mask) -> Array:
        """A word of which only the first ``rest`` bytes are read."""
        out = np.zeros((*self.lanes.shape, word), u8)
        for k in range(word):
            part = both(mask, rest > k)
            value = self.fetch(n, "global", source + u64(k), u8, 1, part)[0]
            out[..., k] = np.where(rest > k, value, u8(0))
        return out

    @staticmethod
    def _as_shared(address: Array) -> tuple[str, Array, Mask]:
        """A shared address, also one that is given as a generic one."""
        return "shared", address & u64(SHARED_WINDOW - 1), None

    def load_matrix(
        self, n: int, address: Array, count: int, transposed: bool, mask: Mask
    ) -> list[Array]:
        """``ldmatrix`` of 8×8 matrices of 16 bits: rows at the addresses of eight lanes each."""
        address = self._as_shared(np.broadcast_to(address, (address.shape[0], self.lanes.width)))[1]
        base, lane = self.lanes.warp_base[0], self.lanes.lane[0].astype(i64)
        out: list[Array] = []
        for k in range(count):
            self._tell_matrix(n, address, base, k, mask)
            if not transposed:
                at = address[:, base + 8 * k + lane // 4] + (4 * (lane % 4)).astype(u64)
                out.append(self.fetch(n, "shared", at, u32, 1, mask)[0])
                continue
            column = (2 * (lane // 4)).astype(u64)
            low, high = (
                self.fetch(
                    n,
                    "shared",
                    address[:, base + 8 * k + 2 * (lane % 4) + half] + column,
                    u16,
                    1,
                    mask,
                )[0]
                for half in (0, 1)
            )
            out.append(low.astype(u32) | (high.astype(u32) << u32(16)))
        return out

    def store_matrix(
        self, n: int, address: Array, values: Sequence[Array], transposed: bool, mask: Mask
    ) -> None:
        """``stmatrix`` of 8×8 matrices of 16 bits."""
        address = self._as_shared(np.broadcast_to(address, (address.shape[0], self.lanes.width)))[1]
        base, lane = self.lanes.warp_base[0], self.lanes.lane[0].astype(i64)
        for k, value in enumerate(values):
            self._tell_matrix(n, address, base, k, mask, store=True)
            if not transposed:
                at = address[:, base + 8 * k + lane // 4] + (4 * (lane % 4)).astype(u64)
                self.put(n, "shared", at, u32, [value], mask)
                continue
            column = (2 * (lane // 4)).astype(u64)
            for half in (0, 1):
                at = address[:, base + 8 * k + 2 * (lane % 4) + half] + column
                self.put(n, "shared", at, u16, [(value >> u32(16 * half)).astype(u16)], mask)

    def _tell_matrix(
        self, n: int, address: Array, base: Array, k: int, mask: Mask, store: bool = False
    ) -> None:
        if not self.watching:
            return
        firsts = base[::32]
        rows = (firsts[:, None] + 8 * k + np.arange(8)).reshape(-1)
        picked = np.broadcast_to(address, self.lanes.shape)[:, rows]
        alive = self.lanes.mask_warps(mask).any(2)
        where = picked.reshape(self.lanes.blocks, -1, 8)[alive]
        way = "matrix store" if store else "matrix"
        self.watching.access(self.lanes, Access(n, way, "shared", where, 16, None))

    def shared_offsets(self, n: int, address: Array, nbytes: int, mask: Mask) -> Array:
        """Addresses of shared memory that are inside and aligned, as offsets."""
        return self._check(n, "shared", self._as_shared(address)[1], nbytes, mask, self.limit)

    # -- where addresses are ---------------------------------------------------------------------

    def split(self, address: Array, mask: Mask) -> list[tuple[str, Array, Mask]]:
        """Space, address in it and lanes, for each space that generic addresses are in."""
        window = address >> u64(56)
        first = int(window.flat[0])
        if window.size == 1 or not (window != window.flat[0]).any():
            if first < len(_BY_WINDOW):
                at = address & u64(SHARED_WINDOW - 1) if first else address
                return [(_BY_WINDOW[first], at, mask)]
            return [("global", address, mask)]
        out: list[tuple[str, Array, Mask]] = []
        left = self.lanes.full_mask(mask)
        for number, space in enumerate(_BY_WINDOW):
            here = both(mask, window == u64(number))
            if here is not None and here.any():
                at = address & u64(SHARED_WINDOW - 1) if number else address
                out.append((space, np.where(here, at, u64(0)), here))
                left = left & ~here
        if left.any():
            out.append(("global", address, left))
        return out

    def _place(
        self, n: int, address: Array, nbytes: int, mask: Mask
    ) -> tuple[Region, Array] | None:
        """The one region that every lane's access is in, and offsets into it; else None."""
        if mask is None:
            first = int(address.flat[0])
        else:
            at = int(np.argmax(mask))
            row, column = divmod(at, mask.shape[1])
            first = int(address[min(row, address.shape[0] - 1), min(column, address.shape[1] - 1)])
        number = self.memory.region_at(first)
        if number is None:
            return None
        region = self.memory.regions[number]
        offsets = address - u64(region.base)
        if mask is not None:
            offsets = np.where(mask, offsets, u64(first - region.base))
        if int(offsets.max()) + nbytes > region.span:
            return None
        if region.head and int(offsets.min()) < region.head:
            return None
        if nbytes > 1 and int(np.bitwise_or.reduce(offsets, axis=None)) & (nbytes - 1):
            self._misaligned(n, "global", address, nbytes, mask)
        return region, offsets

    def _by_region(
        self, n: int, address: Array, nbytes: int, mask: Mask
    ) -> list[tuple[Region, Array, Array]]:
        """Region, offsets and lanes, for each region that lanes access."""
        address = self.lanes.full(address)
        keep = self.lanes.full_mask(mask)
        memory = self.memory
        numbers = np.searchsorted(memory.starts, address[keep], "right") - 1
        out: list[tuple[Region, Array, Array]] = []
        left = keep.copy()
        for number in np.unique(numbers).tolist():
            if number < 0:
                continue
            region = memory.regions[number]
            inside = (address >= u64(region.address)) & (address < u64(region.end))
            offsets = address - u64(region.base)
            here = keep & inside & (offsets + u64(nbytes) <= u64(region.span))
            if here.any():
                out.append((region, np.where(here, offsets, u64(region.head)), here))
                left &= ~here
        if left.any():
            self._outside(n, "global", address, nbytes, left)
        if nbytes > 1 and ((address & u64(nbytes - 1)) != 0)[keep].any():
            self._misaligned(n, "global", address, nbytes, mask)
        return out

    def _gather(self, n: int, address: Array, dtype: Any, count: int, mask: Mask) -> list[Array]:
        """A load whose lanes are in several regions."""
        out: list[Array] = [np.zeros(self.lanes.shape, dtype) for _ in range(count)]
        size = np.dtype(dtype).itemsize
        for region, offsets, here in self._by_region(n, address, size * count, mask):
            index = (offsets[here] >> u64(size.bit_length() - 1)).view(i64)
            view = region.view(dtype)
            for k in range(count):
                out[k][here] = view[index + k]
        return out

    def _own(
        self, n: int, space: str, address: Array, size: int, nbytes: int, mask: Mask, dtype: Any
    ) -> tuple[Callable[[Array], Array], Array]:
        """Shared, local or parameter memory: what gathers from it, and the index of an element."""
        shift = size.bit_length() - 1
        if space == "param":
            offsets = self._check(n, space, address, nbytes, mask, self.parameters.size)
            flat = self.parameters.view(dtype)
            return flat.__getitem__, (offsets >> u64(shift)).view(i64)
        if space == "local":
            index = self._lane_index(n, space, address, nbytes, mask, shift, self.local_size)
            return self.local.view(dtype).__getitem__, index
        offsets = self._check(n, "shared", address, nbytes, mask, self.limit)
        index = (offsets >> u64(shift)).view(i64)
        table = self.shared.view(dtype)
        if index.shape[0] == 1:
            return (lambda at: table[:, at[0]]), index
        flat = table.reshape(-1)
        return flat.__getitem__, index + self.lanes.row * (self.shared_size >> shift)

    def _lane_index(
        self, n: int, space: str, address: Array, nbytes: int, mask: Mask, shift: int, limit: int
    ) -> Array:
        offsets = self._check(n, space, address, nbytes, mask, limit)
        lane = self.lanes.row * self.lanes.width + self.lanes.column.astype(i64)
        index: Array = (offsets >> u64(shift)).view(i64) + lane * (limit >> shift)
        return index

    def _check(
        self, n: int, space: str, address: Array, nbytes: int, mask: Mask, limit: int
    ) -> Array:
        """Offsets that are inside and aligned; those of lanes that do not run are 0."""
        if mask is not None:
            address = np.where(mask, address, u64(0))
        if int(address.max()) + nbytes > limit:
            self._outside(n, space, address, nbytes, mask, limit)
        if nbytes > 1 and int(np.bitwise_or.reduce(address, axis=None)) & (nbytes - 1):
            self._misaligned(n, space, address, nbytes, mask)
        return address

    # -- faults ----------------------------------------------------------------------------------

    def _may_write(self, n: int, region: Region, mask: Mask) -> None:
        self.may_write(n, region, self.lanes.first(self.lanes.full_mask(mask)))

    def may_write(self, n: int, region: Region, where: tuple[int, int]) -> None:
        """Notes that a region is written by a lane; a fault where it is constant."""
        self.memory.written.add(self.memory.regions.index(region))
        if not region.writable:
            name = region.buffers[0].name
            raise self.scene.fault(
                "read only", f"stores to {name}, which is constant", n, where, buffer=name
            )

    def _misaligned(self, n: int, space: str, address: Array, nbytes: int, mask: Mask) -> None:
        bad = ((address & u64(nbytes - 1)) != 0) & self.lanes.full_mask(mask)
        where = self.lanes.first(bad)
        at = int(self.lanes.full(address)[where])
        raise self.scene.fault(
            "misaligned",
            f"{nbytes} bytes of {space} memory at {at:#x}, which is no multiple of {nbytes}",
            n,
            where,
            space=space,
            address=at,
            nbytes=nbytes,
        )

    def _outside(
        self, n: int, space: str, address: Array, nbytes: int, mask: Mask, limit: int | None = None
    ) -> None:
        full = self.lanes.full(address)
        keep = self.lanes.full_mask(mask)
        if limit is not None:
            where = self.lanes.first(
                keep & ((full + u64(nbytes) > u64(limit)) | (full > u64(limit)))
            )
            at = int(full[where])
            raise self.scene.fault(
                "out of bounds",
                f"{nbytes} bytes of {space} memory at {at:#x}, of which there are {limit:,} bytes",
                n,
                where,
                space=space,
                address=at,
                nbytes=nbytes,
                past=at + nbytes - limit,
            )
        where = self._first_outside(full, nbytes, keep)
        at = int(full[where])
        raise self.outside_global(n, where, at, nbytes)

    def outside_global(self, n: int, where: tuple[int, int], at: int, nbytes: int) -> Fault:
        """The fault of an access to global memory that is no buffer's."""
        if at < 4096:
            return self.scene.fault(
                "null",
                f"{nbytes} bytes of global memory at {at:#x}, a null pointer",
                n,
                where,
                space="global",
                address=at,
                nbytes=nbytes,
            )
        near = self.memory.nearest(at, nbytes)
        sentence = f"{nbytes} bytes of global memory at {at:#x}, "
        if near is None:
            sentence += "where nothing is"
            return self.scene.fault(
                "out of bounds", sentence, n, where, space="global", address=at, nbytes=nbytes
            )
        buffer, past = near
        if past >= 0:
            sentence += f"{past:,} bytes past the end of {buffer}"
        else:
            sentence += f"{-past:,} bytes before the start of {buffer}"
        return self.scene.fault(
            "out of bounds",
            sentence,
            n,
            where,
            space="global",
            address=at,
            nbytes=nbytes,
            buffer=buffer.name,
            past=past,
        )

    def _first_outside(self, address: Array, nbytes: int, keep: Array) -> tuple[int, int]:
        inside = np.zeros(address.shape, bool)
        for region in self.memory.regions:
            inside |= (address >= u64(region.address)) & (address + u64(nbytes) <= u64(region.end))
        return self.lanes.first(keep & ~inside)


def both(mask: Mask, more: Array) -> Array:
    """The lanes of a mask that are in another as well."""
    return more if mask is None else mask & more


def _scatter(
    view: Array, index: Array, values: Sequence[Array], mask: Mask, shape: tuple[int, int]
) -> None:
    """Stores elements; of lanes that store to one place the last one's stay."""
    full = np.broadcast_shapes(index.shape, *(v.shape for v in values))
    if mask is None:
        if full != index.shape:
            index = np.broadcast_to(index, full)
        for k, value in enumerate(values):
            view[index + k if k else index] = value
        return
    full = np.broadcast_shapes(full, mask.shape)
    keep = mask if mask.shape == full else np.broadcast_to(mask, full)
    where = np.broadcast_to(index, full)[keep]
    for k, value in enumerate(values):
        view[where + k if k else where] = np.broadcast_to(value, full)[keep]
