"""Global memory as named buffers, and a chunk's accesses to every state space.

A buffer is a view of somebody's array: what a kernel stores is there. Addresses are those that the
arrays have in this process, so that pointers that are in arrays are right as well. Addresses of
shared and local memory and of parameters are offsets; as generic addresses they are in windows far
above any that a process has. All of an instruction's lanes access at once; where two store to one
place, the later lane's value stays. Atomics at one place take their turns in the lanes' order.

One module because an access is nothing but the search for its buffer, and its faults name buffers.
"""

import ctypes
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from inspector.base.budget import Budget
from inspector.execute import floats
from inspector.execute.blocks import BasicBlock
from inspector.execute.faults import Fault
from inspector.execute.kinds import (
    DTYPES,
    UNSIGNED,
    WIDTHS,
    Array,
    Mask,
    f32,
    f64,
    i64,
    is_float,
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
        contents = f"{self.dtype}, {shape}" if self.dtype else f"{self.size:,} bytes"
        return f"{self.name} ({contents})"

    def element_at(self, offset: int) -> str:
        """The element that a byte is in: ``y_ptr[3, 0]``; ``y_ptr+12`` if its index is unknown."""
        if not isinstance(self.owner, np.ndarray) or not self.shape:
            return f"{self.name}+{offset}"
        remaining = offset // self.owner.itemsize
        index = [0] * len(self.shape)
        for axis in sorted(range(len(index)), key=lambda n: -self.strides[n]):
            if self.shape[axis] > 1 and self.strides[axis] > 0:
                index[axis], remaining = divmod(remaining, self.strides[axis])
        return f"{self.name}{index}"


MAX_BYTES = 1 << 31
"""Bytes that the launches in one memory take, unless the user allows more."""
LINE = 16
"""The widest access of one lane that is one element, and so the alignment of views."""
WORD = 4
"""Bytes of the aligned word that may be accessed whole if its first bytes are a buffer's last ones.

A GPU allocates in units of 512 bytes; atomics on bytes and halves exchange the word around them.
"""


class Region:
    """Buffers that overlap, as one piece of memory."""

    def __init__(self, address: int, end: int) -> None:
        self.address = address
        self.end = end
        self.base = address & -LINE
        """Where views begin, so that an element's index follows from its address alone."""
        self.head = address - self.base
        self.size = end - self.base
        """Where accesses begin at the latest, from ``base`` on."""
        self.span = -(-self.size // WORD) * WORD
        """Where accesses end at the latest; never on another page than the last byte."""
        raw = (ctypes.c_uint8 * self.span).from_address(self.base)
        self.data: Array = np.frombuffer(memoryview(raw), u8)
        self.buffers: list[Buffer] = []
        self.writable = True

    def view(self, dtype: Any) -> Array:
        """The memory as elements of a type, from ``base`` on."""
        size = np.dtype(dtype).itemsize
        return self.data[: self.data.size // size * size].view(dtype)


class Memory:
    """The buffers that a launch may reach.

    A memory may serve many launches; variables that a PTX module declares as ``.global`` are made
    in it when the module is first run in it, and stay.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.regions: list[Region] = []
        self._starts: list[int] = []
        self.starts: Array = np.zeros(0, u64)
        self.written: set[int] = set()
        """Numbers of regions that something was stored to since this was last emptied."""
        self.modules: dict[object, dict[str, int]] = {}
        """The addresses of modules' variables."""
        self.budget = budget or Budget(MAX_BYTES)
        """Bytes that launches take, of inputs that are made and of variables."""
        self.shared_fill = 0
        """The byte that shared memory is full of until something is written to it."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer, in the order of addresses."""
        return tuple(b for region in self.regions for b in region.buffers)

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that an address is in; None if it is in none."""
        inside = (b for b in self.buffers if b.address <= address < b.address + b.size)
        return next(inside, None)

    def add(self, name: str, array: Array, *, writable: bool = True) -> Buffer:
        """A numpy array as a buffer, without a copy; gives the buffer, whose address is a pointer.

        An array with gaps is one buffer from its first to its last byte.
        """
        low, high = _bounds(array)
        return self.add_raw(
            name,
            low,
            high - low,
            dtype=str(array.dtype),
            shape=array.shape,
            strides=tuple(s // max(1, array.itemsize) for s in array.strides),
            writable=writable and array.flags.writeable,
            owner=array,
        )

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
        low = buffer.address
        high = buffer.address + buffer.size
        near = [r for r in self.regions if r.address < high and low < r.end]
        region = Region(min([low, *(r.address for r in near)]), max([high, *(r.end for r in near)]))
        region.buffers = [*(b for r in near for b in r.buffers), buffer]
        region.writable = all(b.writable for b in region.buffers)
        self.regions = [*(r for r in self.regions if r not in near), region]
        self._index()

    def _index(self) -> None:
        self.regions.sort(key=lambda r: r.address)
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

    def region_at(self, address: int) -> Region | None:
        index = bisect_right(self._starts, address) - 1
        return self.regions[index] if index >= 0 and address < self.regions[index].end else None

    def nearest(self, address: int, nbytes: int) -> tuple[Buffer, int] | None:
        """The buffer nearest to an access, and how far beyond its end that reaches in bytes.

        Negative: so far before its start. None where there is no buffer within 2^40 bytes.
        """
        best: tuple[Buffer, int] | None = None
        least = 1 << 40
        for buffer in self.buffers:
            end = buffer.address + buffer.size
            bytes_before = buffer.address - address
            past = -bytes_before if bytes_before > 0 else max(0, address + nbytes - end)
            distance = (
                bytes_before + buffer.size // 2 if bytes_before > 0 else max(0, address - end)
            )
            if distance < least:
                best = (buffer, past)
                least = distance
        return best

    def names(self, regions: set[int] | None = None) -> tuple[str, ...]:
        """The names of the buffers in some regions; of every one that may be written."""
        rows = [r for i, r in enumerate(self.regions) if regions is None or i in regions]
        return tuple(b.name for r in rows if r.writable for b in r.buffers)


def _bounds(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of what follows its last."""
    low = high = array.ctypes.data
    if array.size == 0:
        return low, low
    for count, stride in zip(array.shape, array.strides, strict=True):
        low += min(0, (count - 1) * stride)
        high += max(0, (count - 1) * stride)
    return low, high + array.itemsize


# -- read-modify-write, one lane after another ----------------------------------------------------


_OPERATIONS: Mapping[str, Any] = {
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "exch": lambda old, new: np.broadcast_to(new, old.shape),
    "cas": lambda old, compare, new: np.where(old == compare, new, old),
    "inc": lambda old, new: np.where(old >= new, u32(0), old + u32(1)),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - u32(1)),
}
"""New values of ``atom`` and ``red`` from previous ones, as unsigned bits of any type."""


def operate(
    name: str, kind: str, old: Array, operands: Sequence[Array], flush: bool = False
) -> Array:
    """The new value of ``atom`` and ``red`` from the previous one, all as unsigned bits.

    PTX ISA, "Parallel Synchronization and Communication Instructions". ``flush``: a sum of singles
    takes and gives subnormal numbers as zeros.
    """
    if operation := _OPERATIONS.get(name):
        result: Array = operation(old, *operands)
        return result
    new = operands[0]
    if kind == "bf16":
        x = floats.from_bf16(old)
        y = floats.from_bf16(new)
    else:
        number = DTYPES[kind if kind[0] in "fs" else f"u{WIDTHS[kind]}"]
        x = old.view(number)
        y = new.view(number)
    if name == "add":
        if flush:
            return floats.canonical(_flushed_sum(x, y)).view(old.dtype)
        rounded = {"bf16": floats.to_bf16, "f16": floats.to_f16, "f32": floats.canonical}
        return rounded.get(kind, np.asarray)(x + y).view(old.dtype)
    better = (y < x) if name == "min" else (y > x)
    return np.where(better | (x != x), new, old)


def _flushed_sum(x: Array, y: Array) -> Array:
    return floats.flush(floats.flush(x) + floats.flush(y))


_COMMUTING = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add}


def _has_subnormal(x: Array) -> bool:
    return bool(((x != 0) & (np.abs(x) < floats.TINY)).any())


_LONG = 32
"""Lanes at one place above which they are summed at once."""


def in_order(
    view: Array,
    index: Array,
    name: str,
    kind: str,
    operands: Sequence[Array],
    *,
    returns_old: bool,
    flush: bool = False,
) -> tuple[Array | None, bool]:
    """Applies an operation at each index of ``view``, in the order of the indices.

    Lanes at different places run together. Gives the previous value each, where that is
    ``returns_old``, and whether anything changed. ``flush`` is that of ``operate``.
    """
    if not returns_old and not is_float(kind) and name in _COMMUTING:
        _COMMUTING[name].at(view, index, operands[0].astype(view.dtype))
        return None, True
    order = np.argsort(index, kind="stable")
    places = index[order]
    starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
    counts = np.diff(np.r_[starts, len(places)])
    old_values = np.empty(len(index), view.dtype)
    changed = False
    if name == "add" and int(counts.max()) > _LONG and kind not in ("f16", "bf16"):
        real = {"f32": f32, "f64": f64}.get(kind, view.dtype.type)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            rows = order[start : start + count]
            place = places[start]
            steps = np.concatenate(
                (view[place : place + 1].view(real), operands[0][rows].view(real))
            )
            sums = np.add.accumulate(floats.flush(steps) if flush else steps).astype(real)
            if flush and _has_subnormal(sums):
                sums = np.fromiter(accumulate(steps, _flushed_sum), real, len(steps))
            sums[0] = steps[0]
            if kind == "f32":
                sums[1:] = floats.canonical(sums[1:])
            old_values[rows] = sums[:-1].view(view.dtype)
            view[place] = sums[-1:].view(view.dtype)[0]
        return old_values, True
    rank = np.arange(len(places)) - np.repeat(starts, counts)
    turns = order[np.argsort(rank, kind="stable")]
    ends = np.cumsum(np.bincount(rank)).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        rows = turns[begin:end]
        place = index[rows]
        old = view[place]
        new = operate(name, kind, old, [g[rows] for g in operands], flush)
        old_values[rows] = old
        changed = changed or bool((new != old).any())
        view[place] = new
    return old_values, changed


# -- every state space ----------------------------------------------------------------------------


SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
PARAM_WINDOW = 3 << 56
DISTRIBUTED = "shared::cluster"
"""The state space of the shared memory of all blocks of a cluster."""
RANK_SHIFT = 24
"""Above these bits of an address of shared memory is the rank of its block in its cluster, as on an
H200, where programs clear a bit of it to name another block."""
_OFFSETS = (1 << RANK_SHIFT) - 1
_RANKS = 0xFF << RANK_SHIFT
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
_BY_WINDOW = ("global", "shared", "local", "param")
_BY_WINDOW_IN_CLUSTERS = ("global", DISTRIBUTED, "local", "param")


class Access(NamedTuple):
    """What an instruction reads or writes, for observers.

    ``way`` is ``load``, ``store``, ``atomic`` or ``matrix`` (eight rows of 16 bytes at once).
    ``address`` are offsets in shared, local and parameter memory. ``values`` are what is stored,
    each as unsigned bits. ``lane``: of a bulk copy, whose ``way`` begins with ``bulk``, the lane
    that asked for it, by row and column; ``address`` is then flat, an address an element.
    """

    instruction: int
    way: str
    space: str
    address: Array
    nbytes: int
    mask: Mask
    values: tuple[Array, ...] = ()
    lane: tuple[int, int] | None = None


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

    def product(self, lanes: Lanes, instruction: int, operations: int) -> None:
        """A product has so many floating point operations, which its opcode does not say."""


class AsynchronousAccess(NamedTuple):
    """What a unit beside the warps reads or writes in shared memory: a bulk copy, ``wgmma``.

    A ``warp`` of the block in row ``issuer`` issued it; ``address`` are offsets, flat, of
    ``nbytes`` each, in the memory of the block in ``row``. ``mbarrier`` is the row and the offset
    of the one that its bytes are reported to, None if a group is waited for.
    """

    instruction: int
    way: str
    issuer: int
    warp: int
    row: int
    address: Array
    nbytes: int
    mbarrier: tuple[int, int] | None = None


class OrderObserver(Observer):
    """An observer also of what orders the accesses of a block's warps."""

    def barrier(self, lanes: Lanes, way: str, number: int, mask: Array) -> None:
        """Lanes ``arrive`` at a barrier of the block, or go on from it (``release``).

        Negative numbers are the cluster's barrier, each phase's own; what is ``relaxed`` does not
        arrive here.
        """

    def mbarrier(
        self, lanes: Lanes, way: str, instruction: int, rows: Array, offsets: Array, threads: Array
    ) -> None:
        """Threads ``init`` or invalidate mbarriers, ``arrive``, ``hold`` a phase for their copies,
        or find that it is over (``wait``); or phases are over (``complete``, by no thread).

        ``rows`` and ``offsets`` are the mbarriers' places; ``threads`` are numbers in the chunk,
        which has ``lanes.width`` a row.
        """

    def counted(
        self,
        lanes: Lanes,
        instruction: int,
        rows: Array,
        offsets: Array,
        threads: Array,
        arrivals: Array,
        nbytes: Array,
    ) -> None:
        """Threads count arrivals and expected bytes, negative where bytes came, at mbarriers."""

    def asynchronous(self, lanes: Lanes, access: AsynchronousAccess) -> None:
        """A unit beside the warps begins to read or write shared memory."""


Ordering = Callable[..., None] | None
"""Calls a method of the order observers, by its name; None if there are none."""

Piece = tuple[Array, Array, Mask]
"""A table, indices of the elements that lanes access, and these lanes; others' mean nothing."""


class ChunkMemory:
    """The memory of a chunk of thread blocks: their own, and the launch's global memory."""

    def __init__(
        self,
        lanes: Lanes,
        memory: Memory,
        fault: Callable[..., Fault],
        *,
        shared: int,
        local: int,
        parameters: Array,
        watching: Callable[[Access], None] | None = None,
        ordering: Ordering = None,
    ) -> None:
        self.lanes = lanes
        self.memory = memory
        self.fault = fault
        self.watching = watching
        self.ordering = ordering
        self.shared_size = -(-shared // 16) * 16 + 16
        self.limit = shared
        self.local_size = -(-local // 16) * 16
        self.rank_base: Array = np.zeros((1, 1), u64)
        """What a block's addresses of shared memory begin at."""
        self._by_window = _BY_WINDOW
        if lanes.cluster_size > 1:
            self._by_window = _BY_WINDOW_IN_CLUSTERS
            self.rank_base = lanes.rank.astype(u64) << u64(RANK_SHIFT)
        self.shared: Array = np.zeros((lanes.blocks, self.shared_size), u8)
        if memory.shared_fill:
            self.shared[:] = memory.shared_fill
        self.local: Array = np.zeros(lanes.blocks * lanes.width * self.local_size, u8)
        self.parameters = parameters
        self.changes = 0
        """Grows with each store that may have changed something: who spins sees whether it did."""

    def load(
        self, n: int, space: str, address: Array, dtype: Any, count: int, mask: Mask
    ) -> list[Array]:
        """``count`` consecutive elements at each lane's address, as arrays of unsigned bits."""
        pieces = self._access(n, "load", space, address, dtype, count, mask)
        return self._gather(pieces, dtype, count)

    def fetch(self, n: int, space: str, address: Array, dtype: Any, mask: Mask) -> Array:
        """``load`` of one element from one space, without an observer."""
        if mask is not None and not mask.any():
            return np.zeros((1, 1), dtype)
        return self._gather(self._pieces(n, "load", space, address, dtype, 1, mask), dtype, 1)[0]

    def store(
        self, n: int, space: str, address: Array, dtype: Any, values: Sequence[Array], mask: Mask
    ) -> None:
        """Consecutive elements to each lane's address; ``values`` are unsigned bits."""
        self._scatter(
            self._access(n, "store", space, address, dtype, len(values), mask, tuple(values)),
            values,
        )

    def store_element(
        self, n: int, space: str, address: Array, dtype: Any, value: Array, mask: Mask
    ) -> None:
        """``store`` of one element to one space, without an observer."""
        if mask is None or mask.any():
            self._scatter(self._pieces(n, "store", space, address, dtype, 1, mask), [value])

    def atomic(
        self,
        n: int,
        space: str,
        operation: str,
        address: Array,
        kind: str,
        values: Sequence[Array],
        compare: Array | None,
        mask: Mask,
        returns_old: bool,
    ) -> list[Array]:
        """A read-modify-write by every lane, in the order of block and thread.

        That is one of the orders that the hardware may choose. ``values`` are unsigned bits of
        ``kind``; the previous value comes back as such, where ``returns_old``.
        """
        bits = values[0].dtype
        shape = self.lanes.shape
        old: list[Array] = [np.zeros(shape, bits) for _ in values]
        parts = self.split(address, mask) if space == "generic" else [(space, address, mask)]
        for part_space, places, lanes in parts:
            # PTX ISA, "atom": add.f32 "flushes subnormal inputs and results to sign-preserving zero
            # on global memory", and "doesn't flush them to zero on shared memory".
            flush = kind == "f32" and operation == "add" and part_space == "global"
            for table, indices, part in self._access(
                n, "atomic", part_space, places, bits, len(values), lanes, tuple(values)
            ):
                running = self.lanes.full_mask(part)
                index = np.broadcast_to(indices, shape)[running]
                for k, value in enumerate(values):
                    operands = [value] if compare is None else [compare, value]
                    lane_operands = [np.broadcast_to(x, shape)[running] for x in operands]
                    old_values, changed = in_order(
                        table,
                        index + k,
                        operation,
                        kind,
                        lane_operands,
                        returns_old=returns_old,
                        flush=flush,
                    )
                    self.changes += changed
                    if returns_old and old_values is not None:
                        old[k][running] = old_values
        return old

    def copy(
        self, n: int, target: Array, source: Array, size: int, valid_bytes: Array | None, mask: Mask
    ) -> None:
        """``cp.async`` of ``size`` bytes, done at once; bytes from ``valid_bytes`` on are 0."""
        source = self.split(source, mask)[0][1]
        target = as_shared(target)
        if self.watching:
            some = mask if valid_bytes is None else both(mask, valid_bytes > u32(0))
            self._tell(n, "load", "global", source, size, some)
            self._tell(n, "store", "shared", target, size, mask)
        word = min(size, 8)
        if valid_bytes is not None and (valid_bytes % u32(word)).any():
            word = 1
        dtype = UNSIGNED[word * 8]
        _, places = self.owner(n, "shared", target, mask)
        self._check(n, "shared", places, size, mask, self.limit)
        for offset in range(0, size, word):
            part = mask if valid_bytes is None else both(mask, valid_bytes >= u32(offset + word))
            value = self.fetch(n, "global", source + u64(offset), dtype, part)
            if valid_bytes is not None:
                value = np.where(valid_bytes >= u32(offset + word), value, dtype(0))
            self.store_element(n, "shared", target + u64(offset), dtype, value, mask)

    def load_matrix(
        self, n: int, address: Array, count: int, transposed: bool, mask: Mask
    ) -> list[Array]:
        """``ldmatrix`` of 8×8 matrices of 16 bits: rows at the addresses of eight lanes each."""
        out: list[Array] = []
        for k in range(count):
            parts = self._matrix(n, "matrix", address, k, transposed, mask)
            values = [
                self.fetch(n, "shared", lane_address, dtype, mask) for lane_address, dtype in parts
            ]
            if transposed:
                out.append(values[0].astype(u32) | (values[1].astype(u32) << u32(16)))
            else:
                out += values
        return out

    def store_matrix(
        self, n: int, address: Array, values: Sequence[Array], transposed: bool, mask: Mask
    ) -> None:
        """``stmatrix`` of 8×8 matrices of 16 bits."""
        for k, value in enumerate(values):
            parts = self._matrix(n, "matrix store", address, k, transposed, mask)
            for half, (lane_address, dtype) in enumerate(parts):
                self.store_element(
                    n, "shared", lane_address, dtype, (value >> u32(16 * half)).astype(dtype), mask
                )

    def _matrix(
        self, n: int, way: str, address: Array, k: int, transposed: bool, mask: Mask
    ) -> list[tuple[Array, Any]]:
        """The addresses of each lane's part of matrix ``k``, or of its two halves, and types."""
        address = as_shared(np.broadcast_to(address, (address.shape[0], self.lanes.width)))
        first = self.lanes.warp_base[0] + 8 * k
        lane = self.lanes.lane[0].astype(i64)
        if self.watching:
            rows = (first[::32, None] + np.arange(8)).reshape(-1)
            picked = np.broadcast_to(address, self.lanes.shape)[:, rows]
            alive = self.lanes.mask_warps(mask).any(2)
            row_addresses = picked.reshape(self.lanes.blocks, -1, 8)[alive]
            if self.lanes.cluster_size > 1:
                row_addresses = row_addresses & u64(_OFFSETS)
            self.watching(Access(n, way, "shared", row_addresses, 16, None))
        if not transposed:
            return [(address[:, first + lane // 4] + (4 * (lane % 4)).astype(u64), u32)]
        column = (2 * (lane // 4)).astype(u64)
        return [(address[:, first + 2 * (lane % 4) + half] + column, u16) for half in (0, 1)]

    def shared_words(self, n: int, address: Array, mask: Mask) -> tuple[Array, Array]:
        """Shared memory as 64-bit words, and the index of the one that each lane names.

        It may be another block's of the cluster.
        """
        return self._pieces(n, "atomic", DISTRIBUTED, as_shared(address), u64, 1, mask)[0][:2]

    def owner(self, n: int, space: str, address: Array, mask: Mask) -> tuple[Array, Array]:
        """The row of the block whose shared memory each address is in, and the offset there.

        Raises Fault for a block that the cluster has not, and where an instruction that may reach
        its own block alone (``space`` is ``shared``) names another, as an H200 does.
        """
        lanes = self.lanes
        if lanes.cluster_size == 1:
            return lanes.row, address
        rank = (address >> u64(RANK_SHIFT)).astype(i64)
        wrong = rank >= lanes.cluster_size
        if space == "shared":
            wrong = rank != lanes.rank
        wrong = wrong & lanes.full_mask(mask)
        if wrong.any():
            lane = lanes.first(wrong)
            number = int(lanes.full(rank)[lane])
            sentence = f"it names the shared memory of block {number} of its cluster"
            if space == "shared":
                sentence += ", which .shared::cluster alone may"
            raise self.fault("cluster", sentence, n, lane)
        row = lanes.row - lanes.rank + np.minimum(rank, lanes.cluster_size - 1)
        return row, address & u64(_OFFSETS)

    def split(self, address: Array, mask: Mask) -> list[tuple[str, Array, Mask]]:
        """Space, address in it and lanes, for each space that generic addresses are in."""
        window = address >> u64(56)
        first = int(window.flat[0])
        if window.size == 1 or not (window != window.flat[0]).any():
            if 0 < first < len(self._by_window):
                return [(self._by_window[first], as_shared(address), mask)]
            return [("global", address, mask)]
        out: list[tuple[str, Array, Mask]] = []
        remaining = self.lanes.full_mask(mask)
        for number, space in enumerate(self._by_window):
            if (in_space := both(mask, window == u64(number))) is not None and in_space.any():
                space_address = as_shared(address) if number else address
                out.append((space, np.where(in_space, space_address, u64(0)), in_space))
                remaining = remaining & ~in_space
        if remaining.any():
            out.append(("global", address, remaining))
        return out

    def _access(
        self,
        n: int,
        way: str,
        space: str,
        address: Array,
        dtype: Any,
        count: int,
        mask: Mask,
        values: tuple[Array, ...] = (),
    ) -> list[Piece]:
        """The pieces of an access in one space, or by generic addresses; tells the observer."""
        spaces = self.split(address, mask) if space == "generic" else [(space, address, mask)]
        out: list[Piece] = []
        for part_space, part_address, part in spaces:
            if self.watching:
                nbytes = np.dtype(dtype).itemsize * count
                self._tell(n, way, part_space, part_address, nbytes, part, values)
            if part is None or part.any():
                out += self._pieces(n, way, part_space, part_address, dtype, count, part)
        return out

    def _tell(
        self,
        n: int,
        way: str,
        space: str,
        address: Array,
        nbytes: int,
        mask: Mask,
        values: tuple[Array, ...] = (),
    ) -> None:
        """Tell the observer of an access; of shared memory, by lanes' own blocks and by others."""
        assert self.watching is not None
        if self.lanes.cluster_size == 1 or space not in ("shared", DISTRIBUTED):
            self.watching(Access(n, way, space, address, nbytes, mask, values))
            return
        own = (address >> u64(RANK_SHIFT)).astype(i64) == self.lanes.rank
        parts = ("shared", own, address & u64(_OFFSETS)), (DISTRIBUTED, ~own, address)
        for part_space, lanes, places in parts:
            part = both(mask, lanes)
            if part.any():
                self.watching(Access(n, way, part_space, places, nbytes, part, values))

    def _pieces(
        self, n: int, way: str, space: str, address: Array, dtype: Any, count: int, mask: Mask
    ) -> list[Piece]:
        """Where lanes access ``count`` elements of one space. Raises Fault."""
        size = np.dtype(dtype).itemsize
        nbytes = size * count
        shift = size.bit_length() - 1
        if space in ("global", "const"):
            placed = self._place(n, address, nbytes, mask)
            parts: Sequence[tuple[Region, Array, Mask]] = (
                self._by_region(n, address, nbytes, mask) if placed is None else [(*placed, mask)]
            )
            if way != "load":
                for region, _, part in parts:
                    self.may_write(n, region, self.lanes.first(self.lanes.full_mask(part)))
            return [
                (region.view(dtype), (offsets >> u64(shift)).view(i64), part)
                for region, offsets, part in parts
            ]
        owner: Array = self.lanes.row
        if space == "param":
            if way != "load":
                raise self.fault("read only", "stores to a parameter", n)
            table = self.parameters
            limit = self.parameters.size
            owner_bytes = 0
        elif space == "local":
            table = self.local
            limit = self.local_size
            owner_bytes = self.local_size
            owner = self.lanes.row * self.lanes.width + self.lanes.column.astype(i64)
        else:
            table = self.shared.reshape(-1)
            limit = self.limit
            owner_bytes = self.shared_size
            owner, address = self.owner(n, space, address, mask)
        offsets = self._check(n, space, address, nbytes, mask, limit)
        index = (offsets >> u64(shift)).view(i64)
        if owner_bytes:
            index = index + owner * (owner_bytes >> shift)
        return [(table.view(dtype), index, mask)]

    def _gather(self, pieces: list[Piece], dtype: Any, count: int) -> list[Array]:
        if len(pieces) == 1:
            table, index, _ = pieces[0]
            return [table[index + k if k else index] for k in range(count)]
        shape = (1, 1) if not pieces else self.lanes.shape
        out: list[Array] = [np.zeros(shape, dtype) for _ in range(count)]
        for table, index, mask in pieces:
            running = self.lanes.full_mask(mask)
            places = np.broadcast_to(index, shape)[running]
            for k in range(count):
                out[k][running] = table[places + k]
        return out

    def _scatter(self, pieces: list[Piece], values: Sequence[Array]) -> None:
        """Stores elements; of lanes that store to one place the last one's stay."""
        for table, index, mask in pieces:
            self.changes += 1
            full = np.broadcast_shapes(index.shape, *(v.shape for v in values))
            if mask is None:
                index = np.broadcast_to(index, full)
                for k, value in enumerate(values):
                    table[index + k if k else index] = value
                continue
            full = np.broadcast_shapes(full, mask.shape)
            keep = np.broadcast_to(mask, full)
            targets = np.broadcast_to(index, full)[keep]
            for k, value in enumerate(values):
                table[targets + k if k else targets] = np.broadcast_to(value, full)[keep]

    def _place(
        self, n: int, address: Array, nbytes: int, mask: Mask
    ) -> tuple[Region, Array] | None:
        """The one region that every lane's access is in, and offsets into it; else None."""
        if mask is None:
            first = int(address.flat[0])
        else:
            row, column = divmod(int(np.argmax(mask)), mask.shape[1])
            first = int(address[min(row, address.shape[0] - 1), min(column, address.shape[1] - 1)])
        if (region := self.memory.region_at(first)) is None:
            return None
        offsets = address - u64(region.base)
        if mask is not None:
            offsets = np.where(mask, offsets, u64(first - region.base))
        last = int(offsets.max())
        if last >= region.size or last + nbytes > region.span:
            return None
        if region.head and int(offsets.min()) < region.head:
            return None
        self._aligned(n, "global", offsets, address, nbytes, mask)
        return region, offsets

    def _by_region(
        self, n: int, address: Array, nbytes: int, mask: Mask
    ) -> list[tuple[Region, Array, Mask]]:
        """Region, offsets and lanes, for each region that lanes access."""
        address = self.lanes.full(address)
        keep = self.lanes.full_mask(mask)
        numbers = np.searchsorted(self.memory.starts, address[keep], "right") - 1
        out: list[tuple[Region, Array, Mask]] = []
        remaining = keep.copy()
        for number in np.unique(numbers[numbers >= 0]).tolist():
            region = self.memory.regions[number]
            inside = (address >= u64(region.address)) & (address < u64(region.end))
            offsets = address - u64(region.base)
            in_region = keep & inside & (offsets + u64(nbytes) <= u64(region.span))
            if in_region.any():
                out.append((region, np.where(in_region, offsets, u64(region.head)), in_region))
                remaining &= ~in_region
        if remaining.any():
            lane = self.lanes.first(remaining)
            raise self.outside_global(n, lane, int(address[lane]), nbytes)
        self._aligned(n, "global", np.where(keep, address, u64(0)), address, nbytes, mask)
        return out

    def _check(
        self, n: int, space: str, address: Array, nbytes: int, mask: Mask, limit: int
    ) -> Array:
        """Offsets that are inside and aligned; those of lanes that do not run are 0."""
        if mask is not None:
            address = np.where(mask, address, u64(0))
        if int(address.max()) + nbytes > limit:
            full = self.lanes.full(address)
            beyond = (full + u64(nbytes) > u64(limit)) | (full > u64(limit))
            lane = self.lanes.first(self.lanes.full_mask(mask) & beyond)
            raise self.outside(n, lane, space, int(full[lane]), nbytes, limit)
        self._aligned(n, space, address, address, nbytes, mask)
        return address

    def may_write(self, n: int, region: Region, lane: tuple[int, int]) -> None:
        """Notes that a region is written by a lane; a fault where it is constant."""
        self.memory.written.add(self.memory.regions.index(region))
        if not region.writable:
            name = region.buffers[0].name
            raise self.fault(
                "read only", f"stores to {name}, which is constant", n, lane, buffer=name
            )

    def _aligned(
        self, n: int, space: str, offsets: Array, address: Array, nbytes: int, mask: Mask
    ) -> None:
        """Raises Fault where a lane's address is no multiple of what it accesses."""
        if nbytes > 1 and int(np.bitwise_or.reduce(offsets, axis=None)) & (nbytes - 1):
            bad = ((address & u64(nbytes - 1)) != 0) & self.lanes.full_mask(mask)
            lane = self.lanes.first(bad)
            bad_address = int(self.lanes.full(address)[lane])
            reason = f"which is no multiple of {nbytes}"
            raise self._fault("misaligned", reason, n, lane, space, bad_address, nbytes)

    def _fault(
        self,
        cause: str,
        reason: str,
        n: int,
        lane: tuple[int, int],
        space: str,
        address: int,
        nbytes: int,
        **details: Any,
    ) -> Fault:
        sentence = f"{nbytes} bytes of {space} memory at {address:#x}, {reason}"
        return self.fault(
            cause, sentence, n, lane, space=space, address=address, nbytes=nbytes, **details
        )

    def outside(
        self, n: int, lane: tuple[int, int], space: str, address: int, nbytes: int, limit: int
    ) -> Fault:
        """The fault of an access beyond the end of a block's or thread's own memory."""
        reason = f"of which there are {limit:,} bytes"
        past = address + nbytes - limit
        return self._fault("out of bounds", reason, n, lane, space, address, nbytes, past=past)

    def outside_global(self, n: int, lane: tuple[int, int], address: int, nbytes: int) -> Fault:
        """The fault of an access to global memory that is no buffer's."""
        if address < 4096:
            return self._fault("null", "a null pointer", n, lane, "global", address, nbytes)
        near = self.memory.nearest(address, nbytes)
        cause = "out of bounds"
        location = (n, lane, "global", address, nbytes)
        if near is None:
            return self._fault(cause, "where nothing is", *location)
        buffer, past = near
        side = "past the end" if past >= 0 else "before the start"
        reason = f"{abs(past):,} bytes {side} of {buffer}"
        return self._fault(cause, reason, *location, buffer=buffer.name, past=past)


def both(mask: Mask, other: Array) -> Array:
    """The lanes of a mask that are in another as well."""
    return other if mask is None else mask & other


def map_address(address: Array, rank: Array) -> Array:
    """``mapa``: an address of shared memory in the block of a rank in the cluster."""
    kind = address.dtype.type
    return (address & ~kind(_RANKS)) | (rank.astype(kind) << kind(RANK_SHIFT))


def rank_of_address(address: Array) -> Array:
    """``getctarank``: the rank of the block that an address of shared memory is in."""
    return ((address.astype(u32) & u32(_RANKS)) >> u32(RANK_SHIFT)).astype(u32)


def is_own(address: Array, rank_base: Array) -> Array:
    """``isspacep.shared::cta``: whether a generic address is in a block's own shared memory."""
    first = rank_base + u64(SHARED_WINDOW)
    result: Array = (address >> u64(RANK_SHIFT)) == (first >> u64(RANK_SHIFT))
    return result


def as_shared(address: Array) -> Array:
    """An offset in its own space, also of a generic address."""
    return address & u64(SHARED_WINDOW - 1)
