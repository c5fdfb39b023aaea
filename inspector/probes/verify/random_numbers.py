"""The random numbers of Inductor's kernels, from their own seeds: Philox 4x32 of ten rounds.

Triton's ``tl.rand`` and ``tl.randn`` (triton/language/random.py), at the offsets that Inductor's
lowering of ``inductor_random`` gives them: the index of the element in a contiguous tensor. Packed,
as ``triton_helpers.rand4x`` and ``randn4x``, four elements have the four words of one offset.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

LOW = 0xFFFFFFFF
KEYS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = (0xD2511F53, 0xCD9E8D57)
SCALE = 4.6566127342e-10
SMALLEST = 1.0e-7


def philox(seed: int, offsets: Any) -> tuple[Any, Any, Any, Any]:
    """Four words for each offset, as int64 tensors below 2**32."""
    c0 = offsets & LOW
    c1 = c2 = c3 = torch.zeros_like(c0)
    k0 = seed & LOW
    k1 = (seed >> 32) & LOW
    for _ in range(10):
        high_a, low_a = _product(ROUNDS[0], c0)
        high_b, low_b = _product(ROUNDS[1], c2)
        c0, c1, c2, c3 = high_b ^ c1 ^ k0, low_b, high_a ^ c3 ^ k1, low_a
        k0 = (k0 + KEYS[0]) & LOW
        k1 = (k1 + KEYS[1]) & LOW
    return c0, c1, c2, c3


def _product(factor: int, words: Any) -> tuple[Any, Any]:
    """The upper and the lower 32 bits of a product, of which int64 cannot hold all 64."""
    upper = (words >> 16) * factor
    lower = (words & 0xFFFF) * factor
    middle = (upper & 0xFFFF) << 16
    total = lower + middle
    return ((upper >> 16) + (total >> 32)) & LOW, total & LOW


def uniform(words: Any) -> Any:
    """Numbers of fp32 in [0, 1) of 32-bit words, as Triton makes them."""
    signed = torch.where(words > 0x7FFFFFFF, words - (1 << 32), words)
    folded = torch.where(signed < 0, -signed - 1, signed)
    return folded.to(torch.float32) * torch.tensor(SCALE, dtype=torch.float32)


def inductor_random(size: Sequence[int], seed: Any, mode: str, **ignored: Any) -> Any:
    """``prims.inductor_random``: uniform numbers of fp32 (``rand``), or the ``first`` or ``second``
    of two that a normal one is made of."""
    offsets = torch.arange(math.prod(size), dtype=torch.int64)
    first, second, _, _ = map(uniform, philox(int(seed), offsets))
    return _chosen(mode, first, second).reshape(size)


def packed_random(size: Sequence[int], seed: Any, mode: str, **ignored: Any) -> Any:
    """The same where four elements have the words of one offset; whether a normal number is of the
    sine (``odd``)."""
    length = math.prod(size)
    if mode == "odd":
        return (torch.arange(length) % 2 == 1).reshape(size)
    offsets = torch.arange(-(-length // 4), dtype=torch.int64)
    words = list(map(uniform, philox(int(seed), offsets)))
    if mode == "rand":
        numbers = torch.stack(words, 1)
    else:
        first = torch.stack([words[0], words[0], words[2], words[2]], 1)
        second = torch.stack([words[1], words[1], words[3], words[3]], 1)
        numbers = _chosen(mode, first, second)
    return numbers.reshape(-1)[:length].reshape(size)


def _chosen(mode: str, first: Any, second: Any) -> Any:
    if mode == "first":
        return torch.clamp(first, min=SMALLEST)
    return second if mode == "second" else first


def inductor_randint(
    low: int, high: int, size: Sequence[int], seed: Any, *, offset: int = 0, **ignored: Any
) -> Any:
    """``prims.inductor_randint``: integers of 64 bits from ``low`` to below ``high``."""
    offsets = torch.arange(offset, offset + math.prod(size), dtype=torch.int64)
    lower, upper, _, _ = philox(int(seed), offsets)
    pairs = zip(lower.tolist(), upper.tolist(), strict=True)
    numbers = [(first | second << 32) % (high - low) + low for first, second in pairs]
    return torch.tensor(numbers, dtype=torch.int64).reshape(size)


def inductor_lookup_seed(seeds: Any, index: int) -> Any:
    """``prims.inductor_lookup_seed``."""
    return seeds[index]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "prims.inductor_random.default": inductor_random,
    "prims.inductor_random.packed": packed_random,
    "prims.inductor_randint.default": inductor_randint,
    "prims.inductor_lookup_seed.default": inductor_lookup_seed,
}
