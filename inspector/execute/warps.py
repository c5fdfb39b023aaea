"""Instructions in which the lanes of a warp see each other (PTX ISA, "Warp-level" sections)."""

from __future__ import annotations

import numpy as np

from inspector.execute.kinds import Array, Mask, i64, u32
from inspector.execute.lanes import Lanes

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
