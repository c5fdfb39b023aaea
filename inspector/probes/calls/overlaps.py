"""Which tensors of a call share memory: pairs whose elements have bytes in common.

Two views of one storage need not: the parts of a fused projection are strided, with rows between
each other's. Only sizes, strides and addresses are looked at, never the memory.
"""

from __future__ import annotations

from typing import Any

Term = tuple[int, int, int]
"""A stride in bytes, and the lowest and highest factor that it is taken times."""
Pair = tuple[str, str, int]
"""Names of two arguments, and the bytes from the first's address to the second's."""

MAX_PAIRS = 64
"""Pairs that are recorded of one call, and pairs of one tensor that are looked at in full."""
MAX_STEPS = 256
"""Steps of the search for a common byte; a pair that takes more is not said to share memory."""


class Span:
    """The memory of one tensor: its address, its end, and a term for each dimension."""

    __slots__ = ("address", "end", "name", "size", "start", "terms")

    def __init__(self, name: str, address: int, size: int, layout: list[tuple[int, int]]) -> None:
        self.name = name
        self.address = address
        self.size = size
        self.terms = [(step * size, 0, count - 1) for count, step in layout if count > 1 and step]
        self.start = address + sum(min(step * last, 0) for step, _, last in self.terms)
        self.end = address + size + sum(max(step * last, 0) for step, _, last in self.terms)


def shared_memory(tensors: list[tuple[dict[str, Any], Any]]) -> list[Pair]:
    """Return the pairs of a call's described tensors that share memory, in order of address."""
    if len(tensors) < 2:
        return []
    all_spans = [_span(*described) for described in tensors]
    spans = [span for span in all_spans if span is not None]
    spans.sort(key=lambda span: span.start)
    pairs: list[Pair] = []
    for index, span in enumerate(spans):
        for other in spans[index + 1 : index + 1 + MAX_PAIRS]:
            if other.start >= span.end or len(pairs) >= MAX_PAIRS:
                break
            if overlap(span, other):
                pairs.append((span.name, other.name, other.address - span.address))
    return pairs


def _span(description: dict[str, Any], tensor: Any) -> Span | None:
    """The memory of a described tensor; None if it has none, or if its layout is unknown."""
    shape = description.get("shape")
    strides = description.get("strides")
    read_size = getattr(tensor, "element_size", None)
    if shape is None or strides is None or read_size is None or len(shape) != len(strides):
        return None
    address = int(tensor.data_ptr())
    if not address or not all(shape):
        return None
    layout = list(zip(shape, strides, strict=True))
    return Span(description["name"], address, int(read_size()), layout)


def overlap(a: Span, b: Span) -> bool:
    """Whether two tensors are known to share a byte after ``MAX_STEPS`` steps."""
    # The distance of an element of b from one of a, by terms; those of one stride are one term.
    ranges: dict[int, tuple[int, int]] = {}
    for sign, terms in ((-1, a.terms), (1, b.terms)):
        for stride, _, last in terms:
            reach = last if (stride > 0) == (sign > 0) else -last
            low, high = ranges.get(abs(stride), (0, 0))
            ranges[abs(stride)] = (low + min(reach, 0), high + max(reach, 0))
    terms = [(stride, *ranges[stride]) for stride in sorted(ranges, reverse=True)]
    apart = b.address - a.address
    return _reaches(terms, 1 - b.size - apart, a.size - 1 - apart, [MAX_STEPS])


def _reaches(terms: list[Term], low: int, high: int, budget: list[int]) -> bool:
    """Whether a sum of the terms, each times a factor in its range, is between two bounds."""
    if not terms:
        return low <= 0 <= high
    (stride, first, last), *smaller = terms
    min_sum = sum(step * low_factor for step, low_factor, _ in smaller)
    max_sum = sum(step * high_factor for step, _, high_factor in smaller)
    lowest = max(first, -((max_sum - low) // stride))
    highest = min(last, (high - min_sum) // stride)
    for factor in range(lowest, highest + 1):
        if budget[0] <= 0:
            return False
        budget[0] -= 1
        if _reaches(smaller, low - factor * stride, high - factor * stride, budget):
            return True
    return False
