"""Calls that are known again by one look at all their tensors.

torch's own guards compare sizes, strides, dtype and device of many tensors in one call, and keep no
reference to any. Addresses are looked at here, now and then: whoever is not aligned as torch's
allocator aligns is no such call, and is looked at argument by argument.
"""

from __future__ import annotations

import sys
from functools import cache, reduce
from operator import or_
from typing import Any

from .calls import Entry, Subject
from .calls_arguments import ALIGNMENT

# How many calls of a launcher may be remembered so; with ever new ones it would not pay.
MOST_QUICK = 16
# After so many launches of a call, addresses are looked at every 16th time, and then each time
# until they are as they were: asking torch for three of them costs as much as comparing all else of
# three tensors. What is less aligned than 16 bytes is another compilation to Triton in any case.
SURE, RARELY = 64, 15


def remember(held: Subject, key: Any, tensors: list[Any], entry: Entry) -> None:
    """Let a call be known by one look at all its tensors, where torch has that and they are plain
    and aligned; ``key`` is all else that tells it apart."""
    torch: Any = sys.modules.get("torch")
    try:
        if any(type(t) not in _plain() or t.data_ptr() & (ALIGNMENT - 1) for t in tensors):
            return
        # It has sizes, strides, dtype and device of each, and no reference to any.
        guards = torch._C._dynamo.guards.TensorGuards(
            *tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        if guards.check(*tensors):
            held.quick[key] = (guards.check, entry)
    except Exception:
        return  # a torch without it: each tensor is looked at by itself


def split(args: Any) -> tuple[Any, list[Any]]:
    """Arguments as what tells them apart but for their plain tensors, and those."""
    plain = _plain()
    key = tuple([None if type(a) in plain else (type(a), a) for a in args])
    return key, [a for a in args if type(a) in plain]


def known(held: Subject, args: Any) -> Entry | None:
    """The entry of a call that is remembered; None where it is not, or has odd arguments."""
    try:
        found = held.whole
        if found is None or not found[0](*args):
            key, args = split(args)
            found = held.quick.get(key)
            if found is None or not found[0](*args):
                return None
        if found[1][0] > SURE and found[1][0] & RARELY:
            return found[1]
        return None if reduce(or_, map(held.address, args)) & (ALIGNMENT - 1) else found[1]
    except Exception:
        return None


def learn(held: Subject, args: Any, entry: Entry) -> None:
    """Remember a call, as one of the first so many."""
    if held.turns >= MOST_QUICK or entry[2] < 0:
        return
    held.turns += 1
    try:
        key, tensors = split(args)
        hash(key)
    except Exception:
        return
    if tensors:
        remember(held, key, tensors, entry)
        if len(tensors) == len(args):
            held.whole = held.quick.get(key)
        held.address = sys.modules["torch"].Tensor.data_ptr


@cache
def _plain() -> frozenset[Any]:
    import torch

    return frozenset((torch.Tensor, torch.nn.Parameter))
