"""Loads, stores, atomics and copies of a chunk's lanes, in every state space.

Addresses of shared and local memory and of parameters are offsets; as generic addresses they are in
windows far above any that a process has. All of an instruction's lanes access at once; where two
store to one place, the later lane's value stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from inspector.execute.atomics import OPERATIONS, in_order
from inspector.execute.blocks import BasicBlock
from inspector.execute.faults import Fault
from inspector.execute.kinds import UNSIGNED, Array, Mask, i64, u8, u16, u32, u64
from inspector.execute.lanes import Lanes
from inspector.execute.memory import Memory, Region

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
