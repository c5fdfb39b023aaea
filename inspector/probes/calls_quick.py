"""Calls that are known again by one look at all their tensors.

torch's own guards compare sizes, strides, dtype and device of many tensors in one call, and keep no
reference to any. Addresses are looked at here, now and then: what is aligned in another way is
another call.
"""

from __future__ import annotations

import sys
from functools import cache
from operator import and_
from typing import Any

from .calls import Entry, Subject
from .calls_arguments import mask

# How many layouts of a launcher may be remembered so; with ever new ones it would not pay.
MOST_QUICK = 16
# After so many launches of a call, addresses are looked at every 32nd time: asking torch for three
# of them costs as much as comparing all else of three tensors. What is less aligned than 16 bytes
# is another compilation to Triton in any case.
SURE, RARELY = 64, 31


class Known:
    """Tensors of one layout: a check that others are so, too, and the calls by their alignment."""

    __slots__ = ("check", "masks", "only", "ways")

    def __init__(self, tensors: list[Any]) -> None:
        # It has sizes, strides, dtype and device of each, and no reference to any.
        torch: Any = sys.modules["torch"]
        guards = torch._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        if not guards.check(*tensors):
            raise ValueError("tensors that are not even like themselves")
        self.check = guards.check
        self.masks = tuple(map(mask, tensors))
        self.ways: dict[Any, Entry] = {}
        self.only: Entry | None = None  # of the ways, where there is but one

    def entry(self, tensors: Any) -> Entry | None:
        """The call of tensors of this layout that are aligned as these are."""
        return self.ways.get(self._aligned(tensors))

    def add(self, tensors: Any, entry: Entry) -> None:
        """Remember the call of tensors that are aligned as these are."""
        self.ways[self._aligned(tensors)] = entry
        self.only = entry if len(self.ways) == 1 else None

    def _aligned(self, tensors: Any) -> tuple[int, ...]:
        return tuple(map(and_, map(_address(), tensors), self.masks))


def remember(held: Subject, key: Any, tensors: list[Any], entry: Entry) -> Known | None:
    """Let a call be known by one look at all its tensors, where torch has that and they are plain;
    ``key`` is all else that tells it apart."""
    try:
        plain = _plain()
        if any(type(t) not in plain for t in tensors):
            return None
        found = known(held, key, tensors)
        if found is None:
            if held.turns >= MOST_QUICK:
                return None
            held.turns += 1
            found = Known(tensors)
            held.quick.setdefault(key, []).append(found)
        found.add(tensors, entry)
        return found
    except Exception:
        return None  # a torch without it: each tensor is looked at by itself


def known(held: Subject, key: Any, tensors: Any) -> Known | None:
    """The layout of these tensors, where it is remembered."""
    for found in held.quick.get(key, ()):
        if found.check(*tensors):
            return found
    return None


def look(count: int) -> int:
    """The count at which addresses are looked at next, of a call that was made so often."""
    return count + 1 if count < SURE else (count | RARELY) + 1


# -- calls of graphs and functions ----------------------------------------------------------------


def split(args: Any) -> tuple[Any, list[Any]]:
    """Arguments as what tells them apart but for their plain tensors, and those."""
    plain = _plain()
    key = tuple([None if type(a) in plain else (type(a), a) for a in args])
    return key, [a for a in args if type(a) in plain]


def again(held: Subject, args: Any, always: bool = False) -> Entry | None:
    """The entry of a call that is remembered; None where it is not, or has odd arguments.
    ``always``: look at addresses, though the call was made often."""
    try:
        found = held.whole
        if found is None or not found.check(*args):
            key, args = split(args)
            found = known(held, key, args)
            if found is None:
                return None
        only = found.only
        if only is not None and only[0] > SURE and only[0] & RARELY and not always:
            return only
        return found.entry(args)
    except Exception:
        return None


def learn(held: Subject, args: Any, entry: Entry) -> None:
    """Remember a call, as one of the first so many."""
    try:
        key, tensors = split(args)
        hash(key)
    except Exception:
        return
    if tensors:
        found = remember(held, key, tensors, entry)
        if found is not None and len(tensors) == len(args):
            held.whole = found


@cache
def _plain() -> frozenset[Any]:
    import torch

    return frozenset((torch.Tensor, torch.nn.Parameter))


@cache
def _address() -> Any:
    return sys.modules["torch"].Tensor.data_ptr
