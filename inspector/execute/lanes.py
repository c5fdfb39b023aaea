"""The lanes of a chunk of thread blocks: who they are, and arrays over them.

An array over lanes has the shape (B, T): blocks of the chunk, threads of a block padded to whole
warps. What does not depend on the thread is (B, 1), on the block (1, T), on neither (1, 1).
"""

from __future__ import annotations

import numpy as np

from inspector.base.text import words
from inspector.execute.kinds import Array, Mask, i64, u32, u64

Triple = tuple[int, int, int]
SPECIALS = frozenset(
    [
        f"%{name}.{axis}"
        for name in words("tid ntid ctaid nctaid clusterid nclusterid cluster_ctaid cluster_nctaid")
        for axis in "xyz"
    ]
) | words(
    "%laneid %warpid %nwarpid %smid %nsmid %gridid %cluster_ctarank %cluster_nctarank "
    "%is_explicit_cluster %clock %clock_hi %clock64 %globaltimer %globaltimer_lo "
    "%globaltimer_hi %dynamic_smem_size %total_smem_size WARP_SZ %lanemask_eq "
    "%lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt"
)
"""The special registers that have a value here."""

CLOCKS = frozenset(s for s in SPECIALS if "clock" in s or "timer" in s)
WIDE = frozenset(["%clock64", "%globaltimer", "%gridid", "%total_smem_size64"])


class Lanes:
    """Some thread blocks of a launch, by their numbers in it (x runs fastest)."""

    def __init__(
        self, grid: Triple, block: Triple, numbers: Array, *, shared: tuple[int, int] = (0, 0)
    ) -> None:
        self.grid, self.block, self.numbers = grid, block, numbers
        self.threads = block[0] * block[1] * block[2]
        self.blocks = len(numbers)
        self.width = -(-self.threads // 32) * 32
        self.shape = (self.blocks, self.width)
        self.row: Array = np.arange(self.blocks, dtype=i64)[:, None]
        self.column: Array = np.arange(self.width, dtype=u32)[None, :]
        self.warp_base: Array = (self.column // u32(32) * u32(32)).astype(i64)
        self.lane: Array = self.column % u32(32)
        self.ticks = 0
        """What the clocks show: lane-instructions run so far."""
        self.live: Mask = None if self.width == self.threads else self.column < u32(self.threads)
        """Lanes that have not ended; those that pad the last warp never began."""
        self.shared = shared
        self._made: dict[str, Array] = {}

    def special(self, name: str) -> Array:
        """The value of a special register."""
        if name in CLOCKS:
            return self._clock(name)
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._special(name)
        return made

    def _clock(self, name: str) -> Array:
        kind = u64 if name in WIDE else u32
        ticks = self.ticks >> 32 if name.endswith("_hi") else self.ticks
        return np.array([[ticks & ((1 << (64 if kind is u64 else 32)) - 1)]], kind)

    def _special(self, name: str) -> Array:
        if name == "WARP_SZ":
            return np.array([[32]], u32)
        bare, _, axis = name[1:].partition(".")
        n = "xyz".index(axis) if axis else 0
        if bare == "tid":
            return (
                self.column
                // u32([1, self.block[0], self.block[0] * self.block[1]][n])
                % u32(self.block[n])
            )
        if bare in ("ctaid", "clusterid"):
            number = self.numbers.astype(u64)[:, None]
            step = [1, self.grid[0], self.grid[0] * self.grid[1]][n]
            return (number // u64(step) % u64(self.grid[n])).astype(u32)
        if bare.startswith("lanemask"):
            return self._lanemask(bare[-2:])
        if bare == "laneid":
            return self.lane
        if bare == "warpid":
            return self.column // u32(32)
        if bare == "smid":
            return (self.numbers.astype(u64)[:, None] % u64(SMS)).astype(u32)
        return np.array([[self._uniform(bare, n)]], u64 if name in WIDE else u32)

    def _uniform(self, bare: str, n: int) -> int:
        return {
            "ntid": self.block[n],
            "nctaid": self.grid[n],
            "nclusterid": self.grid[n],
            "cluster_nctaid": 1,
            "cluster_nctarank": 1,
            "nwarpid": self.width // 32,
            "nsmid": SMS,
            "dynamic_smem_size": self.shared[0],
            "total_smem_size": self.shared[1],
            "gridid": 1,
        }.get(bare, 0)

    def _lanemask(self, which: str) -> Array:
        bit = u32(1) << self.lane
        below = bit - u32(1)
        return {"eq": bit, "lt": below, "le": below | bit, "gt": ~(below | bit), "ge": ~below}[
            which
        ]

    def full(self, x: Array) -> Array:
        """An array in the whole shape (B, T), read-only."""
        return np.broadcast_to(x, self.shape)

    def full_mask(self, mask: Mask) -> Array:
        """A mask in the whole shape."""
        return np.broadcast_to(np.True_ if mask is None else mask, self.shape)

    def warps(self, x: Array) -> Array:
        """An array as (B, warps, 32)."""
        return np.broadcast_to(x, self.shape).reshape(self.blocks, -1, 32)

    def mask_warps(self, mask: Mask) -> Array:
        """A mask as (B, warps, 32)."""
        return self.full_mask(mask).reshape(self.blocks, -1, 32)

    def count(self, mask: Mask) -> int:
        """How many lanes a mask has."""
        if mask is None:
            return self.blocks * self.width
        return int(np.count_nonzero(mask)) * (self.blocks * self.width // mask.size)

    def first(self, mask: Array) -> tuple[int, int]:
        """Row and column of the first lane of a mask that has one."""
        at = int(np.argmax(self.full(mask).reshape(-1)))
        return divmod(at, self.width)

    def block_of(self, row: int) -> Triple:
        """The coordinates of the block in a row."""
        number = int(self.numbers[row])
        x, y = self.grid[0], self.grid[1]
        return number % x, number // x % y, number // (x * y)

    def thread_of(self, column: int) -> Triple:
        """The coordinates of the thread in a column."""
        x, y = self.block[0], self.block[1]
        return column % x, column // x % y, column // (x * y)


SMS = 132
"""Multiprocessors that ``%nsmid`` reports, those of an H200; blocks are dealt out in turn."""


# -- instructions in which the lanes of a warp see each other --------------------------------------


_BITS = u32(1) << np.arange(32, dtype=u32)


def shuffle(lanes: Lanes, mode: str, a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """``shfl``: each lane's value of another, and whether that one is in its segment."""
    lane = lanes.lane.astype(i64)
    c = c.astype(i64)
    clamp, segment = c & 31, (c >> 8) & 31
    b = b.astype(i64) & 31
    bound = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - b
        inside = source >= bound
    elif mode == "down":
        source = lane + b
        inside = source <= bound
    elif mode == "bfly":
        source = lane ^ b
        inside = source <= bound
    else:
        source = (lane & segment) | (b & ~segment)
        inside = source <= bound
    source = np.where(inside, source, lane)
    if a.shape[1] == 1:
        return a, inside
    at = source + lanes.warp_base
    if at.shape[0] == 1:
        return a[:, at[0]], inside
    return np.take_along_axis(lanes.full(a), lanes.full(at), 1), inside


def ballot(lanes: Lanes, predicate: Array, mask: Mask) -> Array:
    """A bit for each lane that runs and whose predicate holds."""
    bits = (lanes.warps(predicate) & lanes.mask_warps(mask)) * _BITS
    return np.repeat(bits.sum(2, dtype=u32), 32, 1)


def vote(lanes: Lanes, mode: str, predicate: Array, mask: Mask, members: Array) -> Array:
    """``vote``: whether the predicate holds in any, in all, or alike in all lanes that run."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    if mode == "ballot":
        bits = (lanes.warps(predicate) & active) * _BITS
        return np.repeat(bits.sum(2, dtype=u32), 32, 1)
    some = (lanes.warps(predicate) & active).any(2)
    every = (lanes.warps(predicate) | ~active).all(2)
    out = {"any": some, "all": every}.get(mode, every | ~some)
    return np.repeat(out, 32, 1)


def _named(lanes: Lanes, members: Array) -> Array:
    """The lanes that a member mask names, as (B, warps, 32)."""
    named: Array = (lanes.warps(members) >> np.arange(32, dtype=u32)) & u32(1)
    return named.astype(bool)


def match(lanes: Lanes, value: Array, mask: Mask, members: Array) -> Array:
    """``match.any``: the lanes that have the same value."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(value)
    same = (values[..., :, None] == values[..., None, :]) & active[..., None, :]
    return (same * _BITS).sum(-1, dtype=u32).reshape(lanes.shape)


def match_all(lanes: Lanes, value: Array, mask: Mask, members: Array) -> tuple[Array, Array]:
    """``match.all``: the member mask where all lanes have one value, else 0; and whether."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(value)
    first = np.take_along_axis(values, np.argmax(active, 2)[..., None], 2)
    alike = ((values == first) | ~active).all(2)
    bits = (active * _BITS).sum(2, dtype=u32)
    return np.repeat(np.where(alike, bits, u32(0)), 32, 1), np.repeat(alike, 32, 1)


_REDUCE = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduce_warp(
    lanes: Lanes, what: str, value: Array, mask: Mask, members: Array, absolute: bool, nan: bool
) -> Array:
    """``redux``: one value of all lanes that run and are named, in the type of ``value``."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    values = lanes.warps(np.abs(value) if absolute else value)
    if values.dtype.kind == "f":
        least = np.inf if what == "min" else -np.inf
        if nan:
            filled = np.where(active, values, values.dtype.type(least))
            out = (np.minimum if what == "min" else np.maximum).reduce(filled, axis=2)
        else:
            bare = np.where(active & ~np.isnan(values), values, values.dtype.type(least))
            out = (np.minimum if what == "min" else np.maximum).reduce(bare, axis=2)
            none = ~(active & ~np.isnan(values)).any(2)
            out = np.where(none, values.dtype.type(np.nan), out)
        return np.repeat(out, 32, 1)
    info = np.iinfo(values.dtype)
    start = {"min": info.max, "max": info.min, "and": -1 if info.min else info.max}.get(what, 0)
    filled = np.where(active, values, values.dtype.type(start))
    return np.repeat(_REDUCE[what].reduce(filled, axis=2), 32, 1).astype(values.dtype)


def elect(lanes: Lanes, mask: Mask, members: Array) -> tuple[Array, Array]:
    """``elect.sync``: the first lane that is named, and whether a lane is it."""
    active = lanes.mask_warps(mask) & _named(lanes, members)
    first = np.repeat(np.argmax(active, 2).astype(u32), 32, 1)
    return first, first == lanes.lane
